"""``buildtool profile``: look at profiles, render their config.cmake, check them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from buildtool.cli.options import Json, Sets, SettingsFile, Source
from buildtool.core.console import print_json, print_table, screen
from buildtool.core.errors import CheckFailed

if TYPE_CHECKING:
    from buildtool.profiles import Profile

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List, show, render and check config.cmake profiles.\n\nExample: buildtool profile render android",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A profile; see `buildtool profile list`.")]


@app.command("list")
def list_profiles(settings: SettingsFile = None, as_json: Json = False) -> None:
    """List the built-in profiles and those of the settings.

    Example: buildtool profile list
    """
    from buildtool.profiles import names
    from buildtool.profiles.builtin import define
    from buildtool.settings import load

    loaded = load(settings)
    rows = []
    for name in names(loaded):
        definition = define(name, loaded)
        about = definition.base.doc if definition.base.name == name else f"from {definition.base.name}"
        abi = definition.abi.value if definition.abi else "this machine"
        rows.append({"name": name, "toolchain": definition.toolchain, "abi": abi, "about": about})
    if as_json:
        print_json(rows)
    else:
        print_table(None, ("name", "toolchain", "abi", "about"), [tuple(row.values()) for row in rows])


@app.command()
def show(
    name: Name,
    source: Source = None,
    settings: SettingsFile = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Show what a profile sets for a TVM tree, who asked for it, and what is left out.

    Example: buildtool profile show android --source ~/tvm
    """
    profile = _resolve(name, source, settings, sets)
    if as_json:
        print_json(_as_dict(profile))
        return
    print_table(
        f"{profile.name}: targets {', '.join(profile.targets)}",
        ("option", "value", "from"),
        [(o.name, o.value, o.origin) for o in profile.options],
    )
    for note in profile.notes:
        screen.info(note)


@app.command()
def render(
    name: Name,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write here; default: stdout.")
    ] = None,
    source: Source = None,
    settings: SettingsFile = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Render a profile's config.cmake.

    Example: buildtool profile render linux-aarch64 --source ~/tvm -o config.cmake
    """
    from buildtool.core.files import atomic_write

    profile = _resolve(name, source, settings, sets)
    if output is not None:
        atomic_write(output, profile.text)
        screen.info(f"wrote {output}")
    if as_json:
        print_json(_as_dict(profile))
    elif output is None:
        print(profile.text, end="")


@app.command()
def check(
    name: Name,
    source: Source = None,
    settings: SettingsFile = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Check a profile against a TVM tree and let CMake read every rendered value back.

    Ends with 2 when an option is refused, with 1 when CMake reads another value.

    Example: buildtool profile check android --source ~/tvm --set USE_KALLOC_ALIGNMENT=64
    """
    from buildtool.profiles.readback import read_back

    profile = _resolve(name, source, settings, sets)
    seen = read_back(profile.text, [option.name for option in profile.options])
    wrong = [
        f"{option.name}: rendered {option.value!r}, read {seen[option.name]!r}"
        for option in profile.options
        if seen[option.name] != option.value
    ]
    if wrong:
        raise CheckFailed(f"CMake reads {len(wrong)} values differently", details=wrong)
    if as_json:
        print_json({"ok": True, **_as_dict(profile)})
        return
    for note in profile.notes:
        screen.info(note)
    print(f"{profile.name}: {len(profile.options)} options, read back by CMake as they were meant")


@app.command("export-presets")
def export_presets(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The profiles to export.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Default: CMakeUserPresets.json in the TVM tree."
        ),
    ] = None,
    source: Source = None,
    settings: SettingsFile = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Write CMake presets, so that an IDE or plain cmake makes the same builds.

    Example: buildtool profile export-presets linux-aarch64 android --source ~/tvm,
    then in the tree: cmake --preset linux-aarch64-arm64-v8a && cmake --build --preset linux-aarch64-arm64-v8a
    """
    from buildtool.api import Request, open_context, plan_profile
    from buildtool.build.presets import FILE_NAME, export, presets

    context = open_context(Request(source=source, settings=settings, sets=sets or ()))
    plans = [plan_profile(name, context) for name in dict.fromkeys(names)]
    target = (output or context.source.root / FILE_NAME).absolute()
    export(plans, target)
    screen.info(f"wrote {target}")
    if as_json:
        print_json(presets(plans))
    else:
        print("\n".join(plan.build_dir.name for plan in plans))


def _resolve(name: str, source: str | None, settings: Path | None, sets: list[str] | None) -> Profile:
    from buildtool.profiles import resolve
    from buildtool.settings import load
    from buildtool.sources import fetch_for

    loaded = load(settings, flags={"source.spec": source})
    return resolve(name, fetch_for(loaded), loaded, sets=sets or ())


def _as_dict(profile: Profile) -> dict[str, object]:
    return {
        "name": profile.name,
        "toolchain": profile.toolchain,
        "abi": profile.abi.value if profile.abi else None,
        "targets": list(profile.targets),
        "options": [{"name": o.name, "value": o.value, "origin": o.origin} for o in profile.options],
        "notes": list(profile.notes),
        "text": profile.text,
    }
