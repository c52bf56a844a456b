"""``buildtool config``: the settings that hold, where they came from, and their schema."""

from __future__ import annotations

import typer

from buildtool.cli.options import Json, SettingsFile
from buildtool.core.console import print_json, print_table, screen

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Show the resolved settings and their origins.\n\nExample: buildtool config show --json",
)


@app.command()
def show(
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Print every setting that has a value, with its origin.

    Example: buildtool config show
    """
    from buildtool.settings import flatten, load

    loaded = load(settings)
    rows = [(key, value, loaded.origin(key)) for key, value in flatten(loaded).items()]
    if as_json:
        print_json(
            {
                "file": str(loaded.file) if loaded.file else None,
                "settings": {key: {"value": value, "origin": origin} for key, value, origin in rows},
            }
        )
        return
    screen.info(f"settings file: {loaded.file or 'none'}")
    print_table(None, ("key", "value", "origin"), rows)


@app.command()
def schema() -> None:
    """Print the JSON Schema of buildtool.toml, for editors.

    Example: buildtool config schema > buildtool.schema.json
    """
    from buildtool.settings.reference import json_schema

    print_json(json_schema())
