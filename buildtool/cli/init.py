"""``buildtool init``: a commented buildtool.toml to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from buildtool.core.console import screen
from buildtool.core.errors import UsageError


def init(
    source: Annotated[
        str | None, typer.Option("--source", metavar="SPEC", help="The TVM tree to write into [source].")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing buildtool.toml.")] = False,
) -> None:
    """Write a commented buildtool.toml into the current folder.

    Example: buildtool init --source ../tvm
    """
    from buildtool.core.files import atomic_write
    from buildtool.settings.reader import FILE_NAME
    from buildtool.settings.reference import commented_file

    target = Path.cwd() / FILE_NAME
    text = commented_file(source)
    if target.exists() and not force:
        raise UsageError("the file is already there", where=str(target), fix="replace it with --force")
    atomic_write(target, text)
    screen.info(f"wrote {target}")
