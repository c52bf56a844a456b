"""Options that several commands share, so that they read and mean the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Source = Annotated[
    str | None,
    typer.Option(
        "--source",
        "-s",
        metavar="SPEC",
        help="TVM tree: a folder, git+URL@REF, sdist:NAME==VERSION#SUBDIR or an archive. "
        "Default: settings, TVM_HOME, or the current folder.",
    ),
]
SettingsFile = Annotated[
    Path | None, typer.Option("--settings", metavar="FILE", help="Default: buildtool.toml here or above.")
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Set a TVM option; may be given several times."),
]
Locked = Annotated[bool, typer.Option("--locked", help="Refuse a source that differs from buildtool.lock.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]

Dist = Annotated[
    Path | None,
    typer.Argument(metavar="[DIST]", help="Folder with manifest.json. Default: --profile's, or the newest."),
]
BuiltProfile = Annotated[
    str | None, typer.Option("--profile", metavar="NAME", help="Take this profile's last build.")
]
