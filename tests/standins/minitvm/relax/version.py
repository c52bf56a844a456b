"""Version of the miniature: it has the shape of a TVM of the relax era."""

__version__ = "0.25.dev0"
