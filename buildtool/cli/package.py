"""``buildtool package``: what an app team receives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from buildtool.cli.options import Json, SettingsFile
from buildtool.core.console import print_json, screen
from buildtool.core.errors import EXIT_FAILED

if TYPE_CHECKING:
    from buildtool.artifacts import ArtifactSet

app = typer.Typer(
    invoke_without_command=True,
    no_args_is_help=False,
    rich_markup_mode=None,
    add_completion=False,
    help="Pack what was built: archives with headers, licences, record, SBOM and provenance.",
)


@app.callback()
def package(
    context: typer.Context,
    dist: Annotated[
        list[Path] | None,
        typer.Option(
            "--dist", metavar="DIR", help="Folder with manifest.json; repeatable. Default: the newest."
        ),
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME", help="Take this profile's last build.")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the archives go.")
    ] = Path("release"),
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", metavar="KIND", help="tar.gz (default), tar.zst, zip; repeatable."),
    ] = None,
    aar: Annotated[
        bool, typer.Option("--aar", help="Also an AAR with Prefab, of all Android builds named.")
    ] = False,
    wheel: Annotated[
        bool, typer.Option("--wheel", help="Also a Python wheel for Linux boards, one a build.")
    ] = False,
    sign: Annotated[
        str | None,
        typer.Option(
            "--sign", metavar="COMMAND", help="Your signing command; SHA256SUMS is its last argument."
        ),
    ] = None,
    reproducible: Annotated[
        bool,
        typer.Option(
            "--check-reproducible", help="Build again elsewhere, in another way, and compare first."
        ),
    ] = False,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Pack a build: bin, lib, include, a CMake package, licences, build record, SBOM and provenance.

    The same build gives the same bytes. SHA256SUMS is written last: without it a release is unfinished.

    Example: buildtool package --profile android --format tar.zst --aar --sign "minisign -S -m"
    """
    if context.invoked_subcommand is not None:
        return
    import shlex

    from buildtool.cli.built import open_built
    from buildtool.release import aar as aars
    from buildtool.release import board_wheel, contents, pack

    places: list[Path | None] = [*(dist or [])] or [None]
    sets = [open_built(place, profile, settings)[0] for place in places]
    if reproducible:
        for artifacts in sets:
            _same_again(artifacts, settings)
    folder, words = output.absolute(), shlex.split(sign) if sign else []
    made = pack.make(sets, folder, formats=tuple(formats or ["tar.gz"]))
    more: list[Path] = []
    if aar:
        name = f"tvm-runtime-{sets[0].version}.aar"
        more.append(aars.write(sets, folder / name, epoch=contents.source_epoch(sets[0])))
    if wheel:
        more += [board_wheel.write(s, folder, epoch=contents.source_epoch(s)) for s in sets]
    made = pack.finish(made, more, sign=words)
    if as_json:
        print_json({"sums": str(made.sums), "archives": [str(p) for p in made.archives]})
    else:
        print(made.sums.read_text(encoding="utf-8"), end="")
        screen.step(f"released to {output}")


def _same_again(artifacts: ArtifactSet, settings: Path | None) -> None:
    from buildtool.release import again

    rows = again.differences(artifacts, settings)
    if rows:
        screen.error(["error: not reproducible", *(f"  {row}" for row in rows)])
        raise typer.Exit(EXIT_FAILED)
    screen.step(f"reproducible: {len(artifacts.artifacts)} files equal in a second build")


@app.command()
def verify(
    archive: Annotated[
        Path, typer.Argument(metavar="FILE", help="A tar.gz, tar.zst or zip that was received.")
    ],
    sums: Annotated[
        Path | None, typer.Option("--sums", metavar="FILE", help="Default: SHA256SUMS beside it.")
    ] = None,
    rebuild: Annotated[
        str | None,
        typer.Option("--rebuild", metavar="SPEC", help="Also build it from this source; compare the bytes."),
    ] = None,
    ndk: Annotated[
        str | None,
        typer.Option("--ndk", metavar="DIR", help="With --rebuild: the NDK of an Android release."),
    ] = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Check a received archive: digest, every file, SBOM, provenance, ELF headers; --rebuild for all bytes.

    Example: buildtool package verify tvm-runtime-0.25.0-linux-aarch64-arm64-v8a.tar.gz --rebuild ~/tvm
    """
    from buildtool.release import again, pack

    good, record = pack.check(archive, sums=sums)
    if rebuild is not None:
        good.append(again.check(record, source=rebuild, ndk=ndk, settings=settings))
    if as_json:
        print_json({"ok": True, "checked": good})
    else:
        for line in good:
            print(f"ok: {line}")
