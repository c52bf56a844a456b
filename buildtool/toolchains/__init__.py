"""Finding and checking compilers: the host's, Debian's cross gcc, clang, zig, the Android NDK."""
