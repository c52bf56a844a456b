"""Version of the miniature: it has the shape of a TVM of the relay era."""

__version__ = "0.19.0"
