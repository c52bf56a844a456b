"""What a TVM tree is: where it came from, its options and what it can build."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from buildtool.core.errors import ConfigError, unknown


@dataclass(frozen=True)
class Pin:
    """Exactly which source this is.

    ``kind`` is ``git`` (id: 40-digit commit), ``sdist`` or ``archive`` (id: the
    archive's sha256) or ``path`` (id: the commit when the tree is a git checkout,
    with ``-dirty`` when changed, else a digest of version.py and CMakeLists.txt).
    """

    kind: str
    id: str


@dataclass(frozen=True)
class CatalogueOption:
    """One CMake option of a tree.

    ``declared``: by ``tvm_option(...)``. ``default``: that declaration's default.
    ``config_default``: the value in the stock cmake/config.cmake, which wins when
    that file is copied. ``consumed_in``: CMake files (relative to the tree) that
    read the variable.
    """

    name: str
    doc: str = ""
    declared: bool = False
    default: str | None = None
    config_default: str | None = None
    consumed_in: tuple[str, ...] = ()
    condition: str = ""
    """The declaration's IF clause: the option exists only while it holds."""

    @property
    def kind(self) -> str:
        """How the tree knows it: declared, defaulted (in config.cmake, and read), consumed (only read)
        or stale (a default that nothing reads)."""
        if self.declared:
            return "declared"
        if self.config_default is not None:
            return "defaulted" if self.consumed_in else "stale"
        return "consumed"


@dataclass(frozen=True)
class Catalogue:
    """Every option that the tree declares, defaults or reads."""

    options: Mapping[str, CatalogueOption] = field(default_factory=dict)

    def __contains__(self, name: object) -> bool:
        return name in self.options

    def get(self, name: str) -> CatalogueOption | None:
        return self.options.get(name)

    def refuse(self, name: str, *, where: str) -> ConfigError:
        """The error for an option this tree does not know, with the nearest name."""
        return unknown("TVM option", name, self.options, where=where)


@dataclass(frozen=True)
class Capabilities:
    """What the tree's own files show that it can do; never derived from a version number."""

    targets: frozenset[str]
    """Buildable targets among tvm_runtime, tvm_rpc, rtvm, tvm, tvm_compiler."""
    tvm_ffi: bool
    """Has a tvm-ffi sub-project: the runtime needs libtvm_ffi.so beside it."""
    graph_executor: bool
    relax: bool
    tvmc: bool
    clml: bool
    split_opencl: bool
    """The OpenCL runtime is a library of its own (libtvm_runtime_opencl.so)."""


@dataclass(frozen=True)
class TvmSource:
    """A TVM tree on disk, ready to configure."""

    root: Path
    spec: str
    """As the user wrote it: a path, ``git+URL@REF``, ``sdist:NAME==VERSION#SUBDIR``."""
    pin: Pin
    version: str
    catalogue: Catalogue
    capabilities: Capabilities
    notes: tuple[str, ...] = ()
    """Remarks on the tree that a person should see before building."""
