"""Where binaries run: the Device protocol and its transports. Knows nothing of TVM."""
