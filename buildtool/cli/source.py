"""``buildtool source fetch | show | options``: get a TVM tree and show what it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from buildtool.cli.options import Json, Locked, SettingsFile, Source
from buildtool.core.console import print_json, print_table, screen

if TYPE_CHECKING:
    from buildtool.sources import TvmSource
    from buildtool.sources.sdist import Progress

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Get a TVM tree; show its version, options and capabilities.",
)


@app.command()
def fetch(
    source: Source = None,
    settings: SettingsFile = None,
    locked: Locked = False,
    update: Annotated[
        bool, typer.Option("--update", help="Pin what SPEC names now, whatever buildtool.lock says.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Get the tree into the cache, pin it in buildtool.lock, and print its folder.

    Example: buildtool source fetch --source "git+https://github.com/apache/tvm@v0.19.0"
    """
    if locked and update:
        raise typer.BadParameter("--locked and --update exclude each other")
    found = _open(source, settings, locked=locked, update=update)
    if as_json:
        print_json(_facts(found))
    else:
        print(found.root)


@app.command()
def show(
    source: Source = None, settings: SettingsFile = None, locked: Locked = False, as_json: Json = False
) -> None:
    """Show the tree's version, pin, targets and capabilities, read from its own files.

    Example: buildtool source show --source ~/tvm --json
    """
    facts = _facts(_open(source, settings, locked=locked))
    if as_json:
        print_json(facts)
        return
    rows = [(name, _words(value)) for name, value in facts.items()]
    print_table(None, ("fact", "value"), rows)


@app.command()
def options(
    needle: Annotated[str, typer.Argument(metavar="[FILTER]", help="Part of the name, any case.")] = "",
    source: Source = None,
    settings: SettingsFile = None,
    locked: Locked = False,
    as_json: Json = False,
) -> None:
    """List the tree's CMake options: declared, defaulted in config.cmake, or only read.

    Example: buildtool source options clml
    """
    from dataclasses import asdict

    found = _open(source, settings, locked=locked)
    chosen = [o for name, o in found.catalogue.options.items() if needle.lower() in name.lower()]
    if as_json:
        print_json([asdict(option) for option in chosen])
        return
    print_table(
        f"{len(chosen)} of {len(found.catalogue.options)} options of TVM {found.version}",
        ("option", "default", "config.cmake", "kind", "what"),
        [
            (
                o.name,
                o.default,
                o.config_default,
                o.kind,
                o.doc.partition("\n")[0] or ", ".join(o.consumed_in),
            )
            for o in chosen
        ],
    )


def _open(source: str | None, settings: Path | None, *, locked: bool, update: bool = False) -> TvmSource:
    from buildtool.settings import load
    from buildtool.sources import fetch_for

    loaded = load(settings, flags={"source.spec": source})
    with _progress() as progress:
        found = fetch_for(loaded, locked=locked, update=update, on_progress=progress)
    for note in found.notes:
        screen.warn(note)
    return found


@contextmanager
def _progress() -> Iterator[Progress]:
    """A download's progress: a bar on a terminal, else a line each tenth."""
    from buildtool.core.files import human_size

    if not screen.is_terminal() or screen.quiet:
        last = -1

        def line(done: int, total: int | None) -> None:
            nonlocal last
            tenth = done * 10 // total if total else 0
            if tenth > last:
                last = tenth
                screen.info(human_size(done) + (f" of {human_size(total)}" if total else ""))

        yield line
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen.rich(), transient=True) as bar:
        task = bar.add_task("download", total=None, visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)


def _facts(source: TvmSource) -> dict[str, object]:
    able = source.capabilities
    return {
        "root": str(source.root),
        "spec": source.spec,
        "version": source.version,
        "pin": {"kind": source.pin.kind, "id": source.pin.id},
        "targets": sorted(able.targets),
        "tvm_ffi": able.tvm_ffi,
        "graph_executor": able.graph_executor,
        "relax": able.relax,
        "tvmc": able.tvmc,
        "clml": able.clml,
        "split_opencl": able.split_opencl,
        "options": len(source.catalogue.options),
        "notes": list(source.notes),
    }


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return " ".join(map(str, value.values()))
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
