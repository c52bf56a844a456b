"""Configure with CMake, build with Ninja, prove that the options took effect."""
