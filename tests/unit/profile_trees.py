"""TVM trees as the sources room would describe them, without files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from buildtool.settings import Settings, load
from buildtool.sources.model import Capabilities, Catalogue, CatalogueOption, Pin, TvmSource

_BOTH = {
    "USE_CUDA": "OFF",
    "USE_OPENCL": "OFF",
    "USE_OPENCL_ENABLE_HOST_PTR": "OFF",
    "USE_RPC": "ON",
    "USE_CPP_RPC": "OFF",
    "USE_LLVM": "OFF",
    "USE_CLML": "OFF",
    "USE_CLML_GRAPH_EXECUTOR": "OFF",
    "USE_BLAS": "none",
    "USE_HEXAGON_SDK": "/path/to/sdk",
    "USE_ALTERNATIVE_LINKER": "AUTO",
    "USE_CCACHE": "AUTO",
    "HIDE_PRIVATE_SYMBOLS": "OFF",
}
_CONSUMED = (
    "USE_KALLOC_ALIGNMENT",
    "USE_OPENCL_EXTN_QCOM",
    "USE_CPP_RTVM",
    "ANDROID_ABI",
    "ANDROID_PLATFORM",
)


def _catalogue(declared: Mapping[str, str], consumed: tuple[str, ...], stock: tuple[str, ...]) -> Catalogue:
    options = {name: CatalogueOption(name, declared=True, default=value) for name, value in declared.items()}
    options |= {name: CatalogueOption(name, consumed_in=("CMakeLists.txt",)) for name in consumed}
    options |= {name: CatalogueOption(name, config_default="ON") for name in stock}
    return Catalogue(options)


def relay(root: Path = Path("/nowhere/tvm")) -> TvmSource:
    """Like v0.19: graph executor, libbacktrace of its own, rtvm."""
    declared = {**_BOTH, "USE_GRAPH_EXECUTOR": "ON", "USE_PROFILER": "ON", "USE_LIBBACKTRACE": "AUTO"}
    return TvmSource(
        root,
        "relay",
        Pin("path", "0"),
        "0.19.0",
        _catalogue(declared, (*_CONSUMED, "MACHINE_NAME"), ()),
        Capabilities(
            targets=frozenset(("tvm", "tvm_runtime", "tvm_rpc", "rtvm")),
            tvm_ffi=False,
            graph_executor=True,
            relax=True,
            tvmc=True,
            clml=True,
            split_opencl=False,
        ),
    )


def relax(root: Path = Path("/nowhere/tvm")) -> TvmSource:
    """Like v0.22: tvm-ffi; USE_PROFILER is left over in the stock config.cmake, USE_CPP_RTVM in CMake."""
    return TvmSource(
        root,
        "relax",
        Pin("path", "0"),
        "0.25.0",
        _catalogue(_BOTH, _CONSUMED, ("USE_PROFILER", "TVM_FFI_USE_LIBBACKTRACE")),
        Capabilities(
            targets=frozenset(("tvm", "tvm_compiler", "tvm_runtime", "tvm_rpc")),
            tvm_ffi=True,
            graph_executor=False,
            relax=True,
            tvmc=False,
            clml=True,
            split_opencl=False,
        ),
    )


def settings_of(folder: Path, text: str = "") -> Settings:
    """The settings of a buildtool.toml with this text."""
    (folder / "buildtool.toml").write_text(text, encoding="utf-8")
    return load(cwd=folder, env={})
