"""``buildtool android | linux-aarch64 | host-runtime | build``: from source to artifacts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from buildtool.cli.options import Json, Locked, Sets, SettingsFile, Source
from buildtool.core.console import print_json, print_table, screen

if TYPE_CHECKING:
    from buildtool.api import Line, Request

Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, help="Compiles at once. Default: usable cores, as memory allows."),
]
Cache = Annotated[
    str | None, typer.Option("--cache", metavar="KIND", help="Compiler cache: auto, none, ccache, sccache.")
]
BuildType = Annotated[
    str | None,
    typer.Option("--build-type", metavar="TYPE", help="Release, RelWithDebInfo, MinSizeRel or Debug."),
]
BuildDir = Annotated[
    str | None, typer.Option("--build-dir", metavar="DIR", help="Folder of all builds. Default: build.")
]
ToolchainName = Annotated[
    str | None,
    typer.Option("--toolchain", metavar="NAME", help="gcc, clang, zig or auto. Default: the profile's."),
]
Strip = Annotated[bool, typer.Option("--strip/--no-strip", help="Strip symbols from the collected files.")]
Clml = Annotated[
    str | None, typer.Option("--clml", metavar="DIR", help="Qualcomm's OpenCLML SDK: builds with CLML.")
]


def linux_aarch64(
    source: Source = None,
    settings: SettingsFile = None,
    sets: Sets = None,
    toolchain: ToolchainName = None,
    jobs: Jobs = None,
    cache: Cache = None,
    build_type: BuildType = None,
    build_dir: BuildDir = None,
    clml: Clml = None,
    locked: Locked = False,
    strip: Strip = True,
    as_json: Json = False,
) -> None:
    """Cross-build tvm_runtime and tvm_rpc (rtvm where the tree has it) for aarch64 Linux boards.

    Needs Debian's g++-aarch64-linux-gnu, or clang, or zig (pip install 'buildtool[zig]').

    Example: buildtool linux-aarch64 --source ~/tvm --set USE_KALLOC_ALIGNMENT=64
    """
    _build("linux-aarch64", locals())


def host_runtime(
    source: Source = None,
    settings: SettingsFile = None,
    sets: Sets = None,
    jobs: Jobs = None,
    cache: Cache = None,
    build_type: BuildType = None,
    build_dir: BuildDir = None,
    locked: Locked = False,
    strip: Strip = True,
    as_json: Json = False,
) -> None:
    """Build tvm_runtime and tvm_rpc for this machine, without the compiler and without LLVM.

    Example: buildtool host-runtime --source ~/tvm
    """
    _build("host-runtime", locals())


def android(
    source: Source = None,
    settings: SettingsFile = None,
    abi: Annotated[
        list[str] | None,
        typer.Option("--abi", help="arm64-v8a (default), armeabi-v7a, x86_64; may be given several times."),
    ] = None,
    api_level: Annotated[
        int | None, typer.Option("--platform", min=1, help="Android API level. Default: 28.")
    ] = None,
    stl: Annotated[
        str | None, typer.Option("--stl", metavar="STL", help="c++_shared (default) or c++_static.")
    ] = None,
    ndk: Annotated[
        str | None, typer.Option("--ndk", metavar="DIR", help="Default: settings, ANDROID_NDK_HOME, …")
    ] = None,
    clml: Clml = None,
    sets: Sets = None,
    jobs: Jobs = None,
    cache: Cache = None,
    build_type: BuildType = None,
    build_dir: BuildDir = None,
    locked: Locked = False,
    strip: Strip = True,
    as_json: Json = False,
) -> None:
    """Cross-build tvm_runtime, tvm_rpc and rtvm for Android, one build folder an ABI.

    Example: buildtool android --abi arm64-v8a --abi armeabi-v7a --clml ~/clml-sdk
    """
    values = locals()
    from buildtool import api

    as_json = values.pop("as_json")
    abis = values.pop("abi") or ["arm64-v8a"]
    lines: list[Line] = []
    context = None
    for name in dict.fromkeys(abis):
        request = build_request({**values, "abi": name})
        context = context or api.open_context(request)
        lines.append(api.build_profile("android", request, context=context))
    show_lines(lines, as_json)


def build(
    profile: Annotated[str, typer.Argument(help="A built-in profile or one of buildtool.toml's.")],
    source: Source = None,
    settings: SettingsFile = None,
    sets: Sets = None,
    toolchain: ToolchainName = None,
    abi: Annotated[str | None, typer.Option("--abi", help="Default: the profile's.")] = None,
    jobs: Jobs = None,
    cache: Cache = None,
    build_type: BuildType = None,
    build_dir: BuildDir = None,
    clml: Clml = None,
    locked: Locked = False,
    strip: Strip = True,
    as_json: Json = False,
) -> None:
    """Build any profile, also one of your own in buildtool.toml.

    Example: buildtool build my-board --set USE_OPENCL=OFF
    """
    values = locals()
    _build(values.pop("profile"), values)


def build_request(values: dict[str, Any]) -> Request:
    """A command's parameters (its ``locals()``) as a Request: the names are the same."""
    from buildtool.api import Request

    return Request(**{k: v for k, v in values.items() if k in Request.__dataclass_fields__ and v is not None})


def _build(profile: str, values: dict[str, Any]) -> None:
    from buildtool.api import build_profile

    show_lines([build_profile(profile, build_request(values))], values["as_json"])


def show_lines(lines: list[Line], as_json: bool, *, extra: dict[str, object] | None = None) -> None:
    """The artifacts of each build: a table, or JSON (each with ``extra``)."""
    from buildtool.core.files import human_size

    if as_json:
        print_json([{**_as_dict(line), **(extra or {})} for line in lines])
        return
    for line in lines:
        result = line.result
        screen.step(
            f"{result.plan.build_dir.name}: {result.compiled} steps in {result.seconds:.1f} s"
            + ("" if result.compiled or result.configured else " (nothing to do)")
        )
        print_table(
            str(line.artifacts.root),
            ("artifact", "role", "size", "sha256"),
            [(a.name, a.role, human_size(a.size), a.sha256[:16]) for a in line.artifacts.artifacts],
        )


def _as_dict(line: Line) -> dict[str, object]:
    from dataclasses import asdict

    result = line.result
    return {
        "profile": result.plan.profile.name,
        "source": {"version": line.source.version, "pin": asdict(line.source.pin)},
        "toolchain": line.toolchain.identity(),
        "build_dir": str(result.plan.build_dir),
        "log": str(result.log),
        "configured": result.configured,
        "steps": result.compiled,
        "seconds": round(result.seconds, 3),
        "options": [asdict(o) for o in result.plan.profile.options],
        "notes": list(result.plan.profile.notes),
        "effects": [asdict(e) for e in result.effects],
        "dist": str(line.artifacts.root),
        "artifacts": [
            {"name": a.name, "role": a.role, "size": a.size, "sha256": a.sha256}
            for a in line.artifacts.artifacts
        ],
    }
