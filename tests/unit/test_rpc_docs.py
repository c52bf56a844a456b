"""docs/rpc.md and docs/devices.md name commands and flags that exist, and fields that can be set."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from buildtool.cli import device, rpc, verify
from buildtool.devices import choosing
from buildtool.settings import load

DOCS = Path(__file__).resolve().parents[2] / "docs"


def flags() -> dict[str, set[str]]:
    found = {}
    for name, function in (("devices", device.devices), ("verify", verify.verify)):
        app = typer.Typer(add_completion=False)
        app.command()(function)
        found[name] = options(typer.main.get_command(app))
    group = typer.main.get_command(rpc.app)
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        found[f"rpc {name}"] = options(command)
    return found


def options(command: object) -> set[str]:
    return {word for parameter in command.params for word in parameter.opts}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["rpc.md", "devices.md"])
def test_commands_and_flags_exist(name: str) -> None:
    known = flags()
    lines = re.findall(r"^\$ .*?buildtool ([^#\n]*)", (DOCS / name).read_text(encoding="utf-8"), re.MULTILINE)
    assert len(lines) >= 4
    for line in lines:
        words = line.split()
        command = " ".join(words[:2] if words[0] == "rpc" else words[:1])
        used = set(re.findall(r"--[a-z-]+", line))
        assert used <= known[command.rstrip(')"')], line


def test_every_flag_of_serve_that_the_text_names_exists() -> None:
    text = (DOCS / "rpc.md").read_text(encoding="utf-8")
    known = set().union(*flags().values())
    assert set(re.findall(r"`(--[a-z-]+)", text)) <= known


def test_the_settings_examples_are_valid(tmp_path: Path) -> None:
    text = (DOCS / "devices.md").read_text(encoding="utf-8")
    examples = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    path = tmp_path / "buildtool.toml"
    path.write_text("\n".join(examples))
    loaded = load(path)
    assert set(loaded.devices) == {"bench", "board", "pie"}
    found = choosing.candidates("board", settings=loaded, toolchain=None)
    assert [c.name for c in found] == ["root@board.local"]
