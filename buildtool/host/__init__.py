"""The host side: TVM's Python with the compiler that was built, or with a released wheel's."""
