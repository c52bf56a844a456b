"""docs/run.md names the flags that the command has, and its Python example is of the real API."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import typer

from buildtool.artifacts import load
from buildtool.cli.run import run
from buildtool.devices import open_device
from buildtool.models import run_model
from buildtool.settings import load as load_settings

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "run.md").read_text(encoding="utf-8")


def flags() -> set[str]:
    app = typer.Typer(add_completion=False)
    app.command()(run)
    command = typer.main.get_command(app)
    return {word for parameter in command.params for word in parameter.opts if word.startswith("--")}


def test_every_flag_in_the_examples_exists() -> None:
    commands = re.findall(r"^\$ buildtool run (.*)$", DOCS, re.MULTILINE)
    assert len(commands) == 3
    used = {word for line in commands for word in re.findall(r"--[a-z-]+", line)}
    assert used <= flags(), used - flags()


def test_flags_are_documented() -> None:
    undocumented = {"--timeout", "--settings", "--help"}  # as in every command
    assert {flag for flag in flags() if flag not in DOCS} <= undocumented


def test_python_example_fits_the_signatures() -> None:
    code = DOCS.split("```python\n")[1].split("```")[0]
    known = {"run_model": run_model, "open_device": open_device, "load": load, "load_settings": load_settings}
    seen = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in known:
            keywords = {word.arg: None for word in node.keywords if word.arg}
            inspect.signature(known[node.func.id]).bind(*node.args, **keywords)
            seen.add(node.func.id)
    assert seen == set(known)
