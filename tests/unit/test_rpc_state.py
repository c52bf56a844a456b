"""What runs, which tracker is meant, and a server that is kept running."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildtool.core.errors import CheckFailed, ConfigError, Terminated, UsageError
from buildtool.devices import Pushed
from buildtool.rpc import serving, state
from buildtool.rpc.finding import find_tracker, parse_address, variables
from buildtool.rpc.overview import queue_rows
from buildtool.rpc.ports import free_port, is_free
from buildtool.rpc.protocol import Queue, Server, Summary
from buildtool.rpc.tracker import TrackerAddress
from tests.standins.binaries import host_toolchain

pytestmark = pytest.mark.usefixtures("private_cache")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process
        process.kill()


def entry(process: subprocess.Popen[bytes], kind: str = state.TRACKER, **known: Any) -> state.Running:
    found = state.Running(kind, process.pid, state.mark_of(process.pid) or "", 1.0, **known)
    state.folder().mkdir(parents=True, exist_ok=True)
    (state.folder() / f"{kind}-{process.pid}.json").write_text(json.dumps(asdict(found)))
    return found


def test_a_running_process_is_found_and_ended(sleeper: subprocess.Popen[bytes]) -> None:
    known = entry(sleeper, host="127.0.0.1", port=9190)
    assert state.running() == [known] and state.running(state.SERVER) == []
    assert find_tracker(None, {}) == (TrackerAddress("127.0.0.1", 9190), f"process {sleeper.pid}")
    state.end(known)
    assert sleeper.wait(5) == -15 and state.running() == []
    assert list(state.folder().iterdir()) == []


def test_another_process_with_the_same_pid_is_none_of_ours(sleeper: subprocess.Popen[bytes]) -> None:
    known = entry(sleeper)
    path = state.folder() / f"tracker-{sleeper.pid}.json"
    path.write_text(json.dumps({**asdict(known), "mark": "12345"}))
    assert state.running() == [] and not path.exists()
    assert sleeper.poll() is None


def test_a_process_that_will_not_end_is_told() -> None:
    script = "import signal, time; signal.signal(15, signal.SIG_IGN); print('x', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"x\n"
        with pytest.raises(CheckFailed, match="does not end") as error:
            state.end(entry(process), seconds=0.3)
        assert error.value.fix == f"kill -9 {process.pid}"
        process.kill()


def test_the_entry_goes_with_its_block() -> None:
    with state.StateFile(state.SERVE) as file:
        file.update(state="up", tracker="127.0.0.1:1234")
        (found,) = state.running()
        assert (found.pid, found.state) == (os.getpid(), "up")
        assert find_tracker(None, {})[0] == TrackerAddress("127.0.0.1", 1234)
    assert state.running() == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kind": "tracker"}', '{"other": 1}'])
def test_a_damaged_entry_is_passed_over(text: str) -> None:
    state.folder().mkdir(parents=True)
    (state.folder() / "tracker-1.json").write_text(text)
    assert state.running() == []


def test_the_flag_goes_before_the_environment() -> None:
    env = {"TVM_TRACKER_HOST": "0.0.0.0", "TVM_TRACKER_PORT": "9191"}
    assert find_tracker("9192", env)[0] == TrackerAddress("127.0.0.1", 9192)
    assert find_tracker(None, env)[0] == TrackerAddress("127.0.0.1", 9191)
    assert find_tracker(None, {}) == (None, "")
    with pytest.raises(UsageError, match="not a tracker's address") as error:
        find_tracker(None, {"TVM_TRACKER_PORT": "no"})
    assert "TVM_TRACKER_PORT" in (error.value.where or "")


def test_addresses() -> None:
    assert parse_address("[::1]:9190", where="x") == TrackerAddress("::1", 9190)
    assert str(parse_address("host:1", where="x")) == "host:1"
    for wrong in ("", ":", "host", "host:", "host:0", "host:65536", "host:٣"):
        with pytest.raises(UsageError):
            parse_address(wrong, where="x")


@given(st.text())
def test_any_address_is_taken_or_refused(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert 0 < parse_address(text, where="x").port < 65536


def test_variables_name_one_compiler(tmp_path: Path) -> None:
    from dataclasses import replace

    plain = variables(TrackerAddress("h", 1), "k", "adreno", None)
    assert plain == {
        "TVM_TRACKER_HOST": "h",
        "TVM_TRACKER_PORT": "1",
        "RPC_DEVICE_KEY": "k",
        "RPC_TARGET": "adreno",
    }
    wrapper = tmp_path / "aarch64-linux-android28-clang++"
    ndk = replace(host_toolchain(), cxx=tmp_path / "clang++", triple="aarch64-linux-android28")
    assert variables(TrackerAddress("h", 1), "k", "t", ndk)["CXX"] == str(tmp_path / "clang++")
    wrapper.touch()
    assert variables(TrackerAddress("h", 1), "k", "t", ndk)["TVM_NDK_CC"] == str(wrapper)


def test_queues_tell_busy_servers() -> None:
    servers = (Server("a", ("127.0.0.1", 1)), Server("a", ("127.0.0.1", 2)), Server("b", None))
    rows = queue_rows(Summary({"a": Queue(1, 0), "c": Queue(0, 3)}, servers))
    assert [(r["key"], r["servers"], r["free"], r["busy"], r["pending"]) for r in rows] == [
        ("a", 2, 1, 1, 0),
        ("b", 1, 0, 1, 0),
        ("c", 0, 0, 0, 3),
    ]
    assert rows[0]["addresses"] == ["127.0.0.1:1", "127.0.0.1:2"]


def test_ports() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert not is_free("127.0.0.1", taken.getsockname()[1])
    assert is_free("127.0.0.1", free_port())


# -- keeping a server running -----------------------------------------------------------------


class FakeDevice:
    name = "S1"

    def push(self, files: Any) -> Pushed:
        return Pushed(0, 0, 0)


class FakeServer:
    """Takes one outcome a start: an error, or seconds of life (they pass at once)."""

    outcomes: list[Exception | str]

    def __init__(self, device: Any, **known: Any) -> None:
        self.port = 9000

    def __enter__(self) -> FakeServer:
        if not self.outcomes:
            raise Terminated(15)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        self._said = outcome
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def alive(self) -> bool:
        return False

    def output(self) -> str:
        return self._said


def keep(
    monkeypatch: pytest.MonkeyPatch, *outcomes: Exception | str
) -> tuple[list[dict[str, Any]], list[float]]:
    FakeServer.outcomes = list(outcomes)
    waits: list[float] = []
    notes: list[dict[str, Any]] = []
    monkeypatch.setattr(serving, "RpcServer", FakeServer)
    monkeypatch.setattr("time.sleep", waits.append)
    order = serving.Order({}, "k")
    device, tracker = FakeDevice(), TrackerAddress("h", 1)
    with contextlib.suppress(Terminated):
        serving.keep(device, tracker, order, lambda **changes: notes.append(changes))  # type: ignore[arg-type]
    return notes, waits


def test_each_restart_in_a_row_waits_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = CheckFailed("the device went away")
    notes, waits = keep(monkeypatch, "bye\nSegfault\n", lost, lost, lost, lost, lost, lost, "")
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert notes[0] == {"state": "up", "why": "", "port": 9000, "restarts": 0}
    assert notes[1]["why"] == "the server ended: Segfault"
    assert notes[2] == {"state": "down", "why": "the device went away", "restarts": 1}
    assert notes[-1]["why"] == "the server ended: without a word" and notes[-1]["restarts"] == 7


def test_what_stops_the_first_start_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="another machine"):
        keep(monkeypatch, ConfigError("built for another machine"))
