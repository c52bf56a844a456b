"""The typed context of the template fragments in ``cmake_templates/blocks/``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from buildtool.core.errors import ToolMissing
from buildtool.core.types import Abi
from buildtool.profiles import validate
from buildtool.profiles.builtin import Definition
from buildtool.settings.model import Settings
from buildtool.sources.model import TvmSource

if TYPE_CHECKING:
    from buildtool.toolchains.clml import ClmlSdk
    from buildtool.toolchains.model import Toolchain

KALLOC_ALIGNMENT = 32
"""Bytes; what the Adreno guide builds with (TVM's stock file says 64)."""

_TRIPLES = {
    Abi.ARM64: "aarch64-linux-{}",
    Abi.ARM32: "armv7a-linux-{}eabi",
    Abi.X86_64: "x86_64-linux-{}",
    Abi.X86: "i686-linux-{}",
    Abi.RISCV64: "riscv64-linux-{}",
}


@dataclass(frozen=True)
class Llvm:
    value: str

    @property
    def enabled(self) -> bool:
        return not validate.is_off(self.value)


@dataclass(frozen=True)
class OpenCl:
    qcom: bool
    """Whether the device is Qualcomm's, so that its extensions are of use."""
    qcom_header: bool
    """CL/cl_ext_qcom.h is there to compile against."""


@dataclass(frozen=True)
class Clml:
    sdk: str
    """The SDK's folder, or what the user set USE_CLML to."""


@dataclass(frozen=True)
class Kalloc:
    alignment: int


@dataclass(frozen=True)
class Backtrace:
    mode: str
    """AUTO or OFF."""


@dataclass(frozen=True)
class Machine:
    triple: str
    android_abi: str | None = None
    android_platform: str | None = None


def context(
    definition: Definition,
    source: TvmSource,
    settings: Settings,
    *,
    toolchain: Toolchain | None,
    clml: ClmlSdk | None,
    llvm: str | None = None,
    asked: Mapping[str, str],
) -> dict[str, object]:
    """Everything the templates may name, block by block.

    ``asked``: what the user sets himself, by option; with USE_CLML no SDK has to be found.
    """
    android = toolchain.system == "Android" if toolchain else definition.toolchain == "ndk"
    sdk = clml.root if clml else settings.path("toolchains.clml")
    clml_value = asked.get("USE_CLML") or (str(sdk) if sdk else None)
    runs_clml = definition.base.name == "android-clml"
    if runs_clml and clml_value is None:
        raise ToolMissing(
            "profile android-clml needs the Qualcomm OpenCLML SDK, and none is named",
            fix='set clml = "…" under [toolchains] in buildtool.toml, or BUILDTOOL_TOOLCHAINS_CLML',
        )
    named = settings.path("toolchains.llvm_config")
    compiler = (llvm or str(named or "ON")) if definition.base.name == "host" else "OFF"
    # autotools refuses white space in the source folder, the build folder and the compiler's path.
    paths = f"{source.root}{settings.path('build.dir')}{toolchain.cc if toolchain else ''}"
    return {
        "llvm": Llvm(compiler),
        "opencl": OpenCl(
            qcom=definition.cross,
            qcom_header=_has_qcom_header(source, asked.get("USE_OPENCL"), clml_value if runs_clml else None),
        ),
        "clml": Clml(clml_value) if clml_value else None,
        "kalloc": Kalloc(KALLOC_ALIGNMENT),
        "backtrace": Backtrace("OFF" if re.search(r"\s", paths) else "AUTO"),
        "machine": _machine(definition, settings, toolchain, android=android),
    }


def _machine(
    definition: Definition, settings: Settings, toolchain: Toolchain | None, *, android: bool
) -> Machine:
    abi = toolchain.abi if toolchain else definition.abi or Abi.X86_64
    if toolchain:
        # autotools wants the bare triple: no API level, no glibc version.
        triple = re.sub(r"(android(?:eabi)?)\d+$|\.[0-9.]+$", r"\1", toolchain.triple)
    else:
        triple = _TRIPLES[abi].format("android" if android else "gnu")
    if not android:
        return Machine(triple)
    level = toolchain.api_level if toolchain and toolchain.api_level else settings.toolchains.platform
    return Machine(triple, abi.value, f"android-{level}")


def _has_qcom_header(source: TvmSource, *sdks: str | None) -> bool:
    """Whether CL/cl_ext_qcom.h is in one of the folders that TVM's CMake files then search."""
    folders = [source.root / "3rdparty" / "OpenCL-Headers"]
    for sdk in sdks:
        if sdk and "/" in sdk:
            folders += [Path(sdk), Path(sdk, "include")]
    return any((folder / "CL" / "cl_ext_qcom.h").is_file() for folder in folders)
