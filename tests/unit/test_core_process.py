"""The process runner: output, codes, limits, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from buildtool.core.errors import ProcessFailed, ToolMissing
from buildtool.core.process import quote, run, running, spawn, stop


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def gone_within(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not alive(pid):
            return True
        time.sleep(0.02)
    return False


def test_output_code_and_live_lines() -> None:
    lines: list[str] = []
    done = run(["sh", "-c", "echo one; echo two >&2; exit 3"], check=False, on_line=lines.append)
    assert (done.returncode, done.stdout, done.stderr) == (3, "one\n", "two\n")
    assert sorted(lines) == ["one", "two"]


def test_stdin_reaches_the_program() -> None:
    assert run(["cat"], stdin=b"x" * 300_000).stdout == "x" * 300_000


def test_words_are_never_a_shell_string() -> None:
    assert run(["printf", "%s", "$(id) `id` ; rm *"]).stdout == "$(id) `id` ; rm *"


def test_failure_tells_program_code_and_last_words() -> None:
    with pytest.raises(ProcessFailed) as caught:
        run(["sh", "-c", "echo why >&2; exit 7"], what="the widget compiler")
    assert caught.value.what == "the widget compiler failed with exit code 7"
    assert caught.value.returncode == 7
    assert caught.value.details == ("why",)


def test_death_by_signal_is_named() -> None:
    with pytest.raises(ProcessFailed, match="was ended by SIGKILL"):
        run(["sh", "-c", "kill -9 $$"])


def test_missing_program_and_missing_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match="program not found: no-such-program"):
        run(["no-such-program"])
    with pytest.raises(ToolMissing, match="no folder"):
        run(["true"], cwd=tmp_path / "absent")
    (tmp_path / "plain").write_text("x")
    with pytest.raises(ToolMissing, match="may not be executed"):
        run([tmp_path / "plain"])


def test_time_limit_ends_the_program_and_what_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    begun = time.monotonic()
    with pytest.raises(ProcessFailed, match=r"did not finish within 0\.5 s") as caught:
        run(["sh", "-c", f"sleep 60 & echo $! > '{note}'; wait"], timeout=0.5)
    assert caught.value.returncode is None
    assert time.monotonic() - begun < 10
    assert gone_within(int(note.read_text()), 5)


def test_a_grandchild_that_holds_the_pipe_does_not_hang_run() -> None:
    begun = time.monotonic()
    done = run(["sh", "-c", "sleep 60 & echo $!"])
    assert time.monotonic() - begun < 10
    assert gone_within(int(done.stdout), 5)


def test_a_program_that_ignores_sigterm_is_killed() -> None:
    process = spawn(["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"])
    assert process.stdout is not None
    process.stdout.readline()
    assert stop(process, grace=0.3) == -signal.SIGKILL
    process.stdout.close()
    assert process.stderr is not None
    process.stderr.close()


def test_running_ends_it_on_an_exception() -> None:
    with pytest.raises(RuntimeError), running(["sleep", "60"], stdout=None, stderr=None) as process:
        raise RuntimeError
    assert process.poll() is not None


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_kill_9_of_the_parent_ends_the_child(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = (
        "from buildtool.core.process import spawn; import pathlib, time;"
        "p = spawn(['sleep', '60'], stdout=None, stderr=None);"
        f"pathlib.Path({str(note)!r}).write_text(str(p.pid));"
        "time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 10
    while not (note.exists() and note.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    child = int(note.read_text())
    assert alive(child)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert gone_within(child, 5)


def test_quote_shows_words_as_typed() -> None:
    assert quote(["cmake", "-DX=a b", Path("/x")]) == "cmake '-DX=a b' /x"
