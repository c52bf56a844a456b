"""``buildtool ndk``: which NDKs there are, which one is used, and installing a pinned one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from buildtool.cli.options import Json
from buildtool.core.console import print_json, print_table, screen

app = typer.Typer(
    no_args_is_help=True,
    help="Find, list and install Android NDKs.\n\nExample: buildtool ndk install r27c",
)

NdkPath = Annotated[
    Optional[Path],  # noqa: UP045 - typer evaluates this on Python 3.10
    typer.Option("--ndk", help="Look at this folder instead of the settings and environment."),
]


@app.command("list")
def list_(json: Json = False) -> None:
    """Pinned releases that can be installed, and whether they are.

    Example: buildtool ndk list --json
    """
    from buildtool.core.files import human_size
    from buildtool.toolchains.ndk_install import host_system, installed, table

    pinned = table()
    rows = []
    for release in pinned.releases:
        archive = release.archives.get(host_system())
        if archive is None:
            continue
        root = installed(release)
        rows.append(
            {
                "name": release.name,
                "revision": release.revision,
                "default": release.name == pinned.default,
                "size": archive.size,
                "sha1": archive.sha1,
                "sha256": archive.sha256,
                "sources": list(archive.sources),
                "path": str(root) if root else None,
            }
        )
    if json:
        print_json(rows)
        return
    print_table(
        None,
        ("name", "revision", "download", "digests", "installed"),
        [
            (
                f"{row['name']}{' (default)' if row['default'] else ''}",
                row["revision"],
                human_size(float(str(row["size"]))),
                "sha256, sha1" if row["sha256"] else "sha1",
                row["path"] or "no",
            )
            for row in rows
        ],
    )


@app.command()
def install(
    release: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(help="Name or revision from `buildtool ndk list`; the default one if left out."),
    ] = None,
    json: Json = False,
) -> None:
    """Download a pinned release, verify it, unpack it into the cache and print its folder.

    An interrupted download goes on where it stopped. Example: buildtool ndk install r27c
    """
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from buildtool.toolchains.ndk import read_ndk
    from buildtool.toolchains.ndk_install import install as install_ndk

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    hidden = screen.quiet or not screen.is_terminal()
    with Progress(*columns, console=screen.rich(), transient=True, disable=hidden) as bar:
        task = bar.add_task("", total=None)
        root = install_ndk(
            release,
            on_progress=lambda what, done, total: bar.update(
                task, description=what, completed=done, total=total
            ),
        )
    ndk = read_ndk(root)
    screen.info(f"NDK {ndk.revision}: used when nothing else names an NDK")
    if json:
        print_json({"path": str(root), "revision": ndk.revision})
    else:
        print(root)


@app.command()
def path(ndk: NdkPath = None, json: Json = False) -> None:
    """Print the folder of the NDK that a build would use, and who named it.

    Example: export ANDROID_NDK_HOME=$(buildtool ndk path)
    """
    import os

    from buildtool.settings import load
    from buildtool.toolchains.ndk import discover, read_ndk

    candidate = discover(ndk, load(), os.environ)
    found = read_ndk(candidate.root, origin=candidate.origin)
    screen.info(f"NDK {found.revision}, clang {found.clang_version}, from {candidate.origin}")
    if not json:
        print(found.root)
        return
    print_json(
        {
            "path": str(found.root),
            "origin": candidate.origin,
            "revision": found.revision,
            "host": found.host_tag,
            "clang": found.clang_version,
            "api_levels": {abi.value: list(levels) for abi, levels in found.levels.items()},
        }
    )
