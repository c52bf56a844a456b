"""The program itself: start-up, help, errors and exit codes."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest

from buildtool.cli import main as cli
from buildtool.core.errors import BuildFailed, ConfigError, Terminated

HEAVY = (
    "rich",
    "jinja2",
    "msgspec",
    "elftools",
    "unearth",
    "httpx",
    "tvm",
    "numpy",
    "filelock",
    "platformdirs",
)


@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_start_up_imports_no_heavy_module(words: list[str]) -> None:
    code = (
        "import sys; from buildtool.cli.main import main\n"
        f"code = main({words!r})\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr.strip().splitlines()[-1] == "[]"


def test_help_names_every_command_and_each_has_help_with_an_example() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "buildtool", "--help"], capture_output=True, text=True, check=True
    )
    for name in cli.COMMANDS:
        assert f"\n  {name} " in done.stdout


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_each_command_loads_and_shows_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "--help"]) == 0
    assert "Usage: buildtool" in capsys.readouterr().out


def test_unknown_command_option_and_value_end_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verfy"]) == 2
    assert "Did you mean 'verify'?" in capsys.readouterr().err
    assert cli.main(["--no-such"]) == 2
    assert cli.main(["build", "host", "--jobs", "none"]) == 2
    assert cli.main(["build"]) == 2


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(arguments: list[str]) -> int:
        raise error

    monkeypatch.setattr(cli, "_run", fail)


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (ConfigError("bad key", where="buildtool.toml:3", fix="remove it"), 2, "where:    buildtool.toml:3"),
        (BuildFailed("it broke"), 1, "error: it broke"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (Terminated(15), 143, "ended by SIGTERM"),
        (OSError(errno.ENOSPC, "No space left on device", "/x/y"), 1, "free some disk space"),
        (PermissionError(errno.EACCES, "Permission denied", "/x/y"), 1, "where:    /x/y"),
    ],
)
def test_errors_are_one_message_with_the_right_code(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    text: str,
) -> None:
    raising(monkeypatch, error)
    assert cli.main([]) == code
    said = capsys.readouterr().err
    assert text in said
    assert "Traceback" not in said


def test_errors_are_json_too_when_json_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, ConfigError("bad", fix="mend"))
    assert cli.main(["verify", "--json"]) == 2
    data = json.loads(capsys.readouterr().out)
    assert (data["error"], data["fix"], data["exit_code"]) == ("bad", "mend", 2)


def test_a_closed_pipe_is_no_traceback(tmp_path: Path) -> None:
    script = f"{sys.executable} -m buildtool config schema | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "Traceback" not in done.stderr
    assert done.stdout.strip() in {"0", "1"}
