"""The typed model of ``buildtool.toml``.

The ``description`` of each field is its only documentation: the JSON Schema,
the commented file that ``buildtool init`` writes and docs/settings.md are made
from it. ``extra={"path": ...}`` marks values that name a file: ``"path"`` always,
``"program"`` only when the value holds a slash (a bare name is looked up in PATH),
``"spec"`` unless it starts with a scheme (``git+https:``, ``sdist:``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field

OptionValue: TypeAlias = str | int | bool

ToolchainName = Literal["host", "gcc", "clang", "zig", "ndk", "auto"]
AbiName = Literal["arm64-v8a", "armeabi-v7a", "x86_64", "x86", "riscv64"]
BuildType = Literal["Release", "RelWithDebInfo", "MinSizeRel", "Debug"]
CacheName = Literal["auto", "none", "ccache", "sccache"]

_PATH = {"path": "path"}
_PROGRAM = {"path": "program"}


class SourceSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Which TVM is built."""

    spec: Annotated[
        str | None,
        Meta(
            description="A local tree or archive, `git+URL@REF` or `sdist:NAME==VERSION#SUBDIR`.",
            extra={"path": "spec"},
            examples=["../tvm", "git+https://github.com/apache/tvm@v0.19.0"],
        ),
    ] = None
    sha256: Annotated[
        Annotated[str, Meta(pattern="^[0-9a-fA-F]{64}$")] | None,
        Meta(
            description="Digest that the sdist or archive must have, 64 hex digits.",
            examples=["0" * 64],
        ),
    ] = None


class ProfileSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """One `[profiles.NAME]`: a new profile, or changes to a built-in one of that name."""

    extends: Annotated[
        str | None,
        Meta(
            description="Profile that this one starts from; needed for a new name, not for a built-in one.",
            examples=["android"],
        ),
    ] = None
    toolchain: Annotated[
        ToolchainName | None,
        Meta(description="Toolchain that builds it; without it the extended profile's.", examples=["ndk"]),
    ] = None
    abi: Annotated[
        AbiName | None,
        Meta(description="Target ABI; without it the extended profile's.", examples=["arm64-v8a"]),
    ] = None
    targets: Annotated[
        list[str] | None,
        Meta(
            description="Build targets; without it the extended profile's.",
            examples=[["tvm_runtime", "tvm_rpc"]],
        ),
    ] = None
    options: Annotated[
        dict[str, OptionValue],
        Meta(
            description="TVM CMake options by name; `true`/`false` become ON/OFF.",
            examples=[{"USE_KALLOC_ALIGNMENT": 64}],
        ),
    ] = field(default_factory=dict)


class ToolchainSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Where compilers and SDKs are."""

    ndk: Annotated[
        str | None,
        Meta(
            description="Android NDK folder. Without it ANDROID_NDK_HOME and its kin are looked at.",
            extra=_PATH,
            examples=["~/android-ndk-r26d"],
        ),
    ] = None
    clml: Annotated[
        str | None,
        Meta(description="Qualcomm OpenCLML SDK folder.", extra=_PATH, examples=["~/clml-sdk"]),
    ] = None
    prefix: Annotated[
        str | None,
        Meta(
            description="Prefix of the cross gcc's programs.",
            extra=_PROGRAM,
            examples=["aarch64-linux-gnu-"],
        ),
    ] = None
    sysroot: Annotated[
        str | None,
        Meta(
            description="Root folder of the target's libc for gcc and clang.",
            extra=_PATH,
            examples=["/usr/aarch64-linux-gnu"],
        ),
    ] = None
    llvm_config: Annotated[
        str | None,
        Meta(
            description="llvm-config of the host compiler build (profile host).",
            extra=_PROGRAM,
            examples=["llvm-config-17"],
        ),
    ] = None
    stl: Annotated[Literal["c++_shared", "c++_static"], Meta(description="C++ library of NDK builds.")] = (
        "c++_shared"
    )
    platform: Annotated[
        int, Meta(description="Lowest Android API level that the binaries must run on.", ge=1, le=99)
    ] = 28


class BuildSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How it is built."""

    dir: Annotated[
        str, Meta(description="Folder that holds one build folder a profile.", extra=_PATH, min_length=1)
    ] = "build"
    type: Annotated[BuildType, Meta(description="CMAKE_BUILD_TYPE.")] = "Release"
    jobs: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Parallel compiles; without it one a CPU.", examples=[4]),
    ] = None
    cache: Annotated[
        CacheName, Meta(description="Compiler cache; `auto` takes ccache, else sccache, else none.")
    ] = "auto"


class DeviceSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """One `[devices.NAME]`: a place where target binaries run."""

    kind: Annotated[Literal["qemu", "adb", "ssh"], Meta(description="How it is reached.", examples=["adb"])]
    serial: Annotated[
        str | None,
        Meta(description="adb serial; without it the only device there is.", examples=["1a2b3c4d"]),
    ] = None
    host: Annotated[str | None, Meta(description="ssh host; needed for ssh.", examples=["board.local"])] = (
        None
    )
    user: Annotated[str | None, Meta(description="ssh user.", examples=["root"])] = None
    port: Annotated[
        Annotated[int, Meta(ge=1, le=65535)] | None,
        Meta(description="ssh port; without it ssh's own choice.", examples=[22]),
    ] = None
    labels: Annotated[
        list[str], Meta(description="Words to choose devices by.", examples=[["adreno-740", "ci"]])
    ] = field(default_factory=list)
    workdir: Annotated[
        str | None,
        Meta(
            description="Folder on the device for pushed files; without it one of the user's own.",
            examples=["/data/local/tmp/tvm"],
        ),
    ] = None
    sysroot: Annotated[
        str | None,
        Meta(
            description="qemu: root folder of the system to emulate (Android: with system/bin/linker64); "
            "without it the toolchain's C library.",
            examples=["~/android-9"],
        ),
    ] = None


class SettingsFile(Struct, frozen=True, forbid_unknown_fields=True):
    """What a buildtool.toml may hold."""

    source: Annotated[SourceSettings, Meta(description="Which TVM is built.")] = SourceSettings()
    profiles: Annotated[
        dict[str, ProfileSettings],
        Meta(description="New profiles by name, or changes to built-in ones."),
    ] = field(default_factory=dict)
    toolchains: Annotated[ToolchainSettings, Meta(description="Where compilers and SDKs are.")] = (
        ToolchainSettings()
    )
    build: Annotated[BuildSettings, Meta(description="How it is built.")] = BuildSettings()
    devices: Annotated[
        dict[str, DeviceSettings], Meta(description="Devices by name: where target binaries run.")
    ] = field(default_factory=dict)


BUILT_IN = "built-in"


class Settings(SettingsFile, frozen=True, kw_only=True):
    """The resolved settings: what the file may hold, and where each value came from.

    Values that name a file are absolute; a bare program name stays as it is.
    """

    file: Path | None = None
    """The settings file that was read, None when there is none."""
    origins: dict[str, str] = field(default_factory=dict)

    def origin(self, dotted: str) -> str:
        """Where the value of a dotted key came from.

        ``buildtool.toml:12 [build] jobs``, ``environment BUILDTOOL_BUILD_JOBS``,
        ``flag``, or ``built-in`` when nobody set it.
        """
        return self.origins.get(dotted, BUILT_IN)

    def path(self, dotted: str) -> Path | None:
        """The path that a value such as ``toolchains.ndk`` names, None when it is not set."""
        section, _, key = dotted.partition(".")
        value: str | None = getattr(getattr(self, section), key)
        return None if value is None else Path(value)
