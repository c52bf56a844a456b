"""Getting a TVM tree, pinning it, and reading from its own files what it is and can do."""

from buildtool.sources.model import Capabilities, Catalogue, CatalogueOption, Pin, TvmSource
from buildtool.sources.opening import default_spec, fetch_for, open_source
from buildtool.sources.spec import Spec, parse_spec
from buildtool.sources.tree import read_tree

__all__ = [
    "Capabilities",
    "Catalogue",
    "CatalogueOption",
    "Pin",
    "Spec",
    "TvmSource",
    "default_spec",
    "fetch_for",
    "open_source",
    "parse_spec",
    "read_tree",
]
