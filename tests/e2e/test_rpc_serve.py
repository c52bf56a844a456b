"""``buildtool rpc``: servers on emulated phones, kept running and ended; TVM's own client."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from buildtool.rpc.ports import free_port
from tests.standins.adbd import AdbServer, Phone, need_phones

if TYPE_CHECKING:
    from buildtool.api import Line
    from tests.conftest import BuildtoolRunner

pytestmark = [pytest.mark.e2e, pytest.mark.tvm]

CLIENT = """
import json, os, sys
import numpy as np
from tvm import rpc, runtime
port, keys, rounds = int(sys.argv[1]), sys.argv[2].split(","), int(sys.argv[3])
tracker = rpc.connect_tracker("127.0.0.1", port)
good = 0
for number in range(rounds):
    session = tracker.request(keys[number % len(keys)], session_timeout=60)
    data = np.arange(1000 + number, dtype="float32")
    good += bool((runtime.tensor(data, session.cpu(0)).numpy() == data).all())
    del session
print(good, flush=True)
os._exit(0)
"""


@pytest.fixture
def server(tmp_path: Path, private_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AdbServer]:
    need_phones()
    for name in ("TVM_TRACKER_HOST", "TVM_TRACKER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with AdbServer(tmp_path) as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def phones(server: AdbServer, tmp_path: Path) -> Iterator[list[Phone]]:
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(Phone(tmp_path, f"p{n}")) for n in range(3)]
        for phone in found:
            server.connect(phone)
        yield found


@contextlib.contextmanager
def background(cwd: Path, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], Any]]:
    """A command that runs on; with what it printed as JSON. Ended by Ctrl-C."""
    log = (cwd / f"stderr-{time.monotonic_ns()}").open("w+b")
    process = subprocess.Popen(
        [sys.executable, "-m", "buildtool", "rpc", *words, "--json"],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=log,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        text = b""
        while not text.endswith(b"\n}\n"):
            line = process.stdout.readline()
            if not line:
                log.seek(0)
                pytest.fail(log.read().decode())
            text += line
        yield process, json.loads(text)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(30)
        process.stdout.close()
        log.close()


def until(condition: Callable[[], Any], seconds: float = 30) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.1)
    return value


def status(run: BuildtoolRunner) -> dict[str, Any]:
    done = run("rpc", "status", "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def sessions(python: Path, port: int, keys: list[str], count: int) -> int:
    words = [python, "-c", CLIENT, str(port), ",".join(keys), str(count)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def programs(server: AdbServer, phone: Phone) -> list[str]:
    return [line for line in server.processes(phone) if "/apex/qemu" in line]


def test_three_phones_twenty_sessions_and_a_killed_server(
    server: AdbServer,
    phones: list[Phone],
    aarch64_line: Line,
    tvm_python: Path,
    run_buildtool: BuildtoolRunner,
    tmp_path: Path,
) -> None:
    dist = str(aarch64_line.artifacts.root)
    with background(tmp_path, "serve", dist, "--device", "all") as (process, said):
        keys = [row["key"] for row in said["servers"]]
        assert sorted(keys) == sorted(f"android-{phone.serial}" for phone in phones)
        assert len({row["port"] for row in said["servers"]}) == 3
        port = int(said["servers"][0]["tracker"].rpartition(":")[2])
        assert sessions(tvm_python, port, keys, 20) == 20

        victim = phones[0]
        server.adb("-s", victim.serial, "shell", "pkill -9 -x qemu")
        killed = time.monotonic()
        row = until(lambda: _restarted(run_buildtool, victim.serial))
        print(f"killed server: up again and seen after {time.monotonic() - killed:.1f} s")
        assert row["restarts"] == 1 and len(programs(server, victim)) == 1
        done = run_buildtool("rpc", "query", "--wait", f"android-{victim.serial}", "--timeout", "20")
        assert done.returncode == 0, done.stderr
        assert sessions(tvm_python, port, [f"android-{victim.serial}"], 2) == 2

        # A phone that goes away and comes back, while the others go on.
        phones[1].order(unplugged=True)
        until(lambda: _state(run_buildtool, phones[1].serial) == "down")
        assert sessions(tvm_python, port, [f"android-{phones[2].serial}"], 1) == 1
        phones[1].order(unplugged=False)
        until(lambda: _state(run_buildtool, phones[1].serial) == "up", seconds=60)

        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert server.leftovers(*phones) == []
    assert status(run_buildtool) == {"trackers": [], "servers": []}


def _state(run: BuildtoolRunner, serial: str) -> str:
    (row,) = [r for r in status(run)["servers"] if r["device"] == serial]
    return str(row["state"])


def _restarted(run: BuildtoolRunner, serial: str) -> dict[str, Any] | None:
    found: list[dict[str, Any]] = [r for r in status(run)["servers"] if r["device"] == serial]
    return found[0] if found[0]["restarts"] and found[0]["state"] == "up" else None


def test_a_restarted_tracker_gets_its_servers_back(
    server: AdbServer, phones: list[Phone], aarch64_line: Line, tvm_python: Path, tmp_path: Path
) -> None:
    """tvm_rpc itself tries again every 5 s."""
    port = free_port()
    words = ("tracker", "--port", str(port))
    serve = ("serve", str(aarch64_line.artifacts.root), "--tracker", str(port), "--key", "pool")
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(background(tmp_path, *words))[0]
        served = stack.enter_context(background(tmp_path, *serve, "--device", "all"))[1]
        assert len(served["servers"]) == 3
        assert sessions(tvm_python, port, ["pool"], 3) == 3
        first.send_signal(signal.SIGTERM)
        assert first.wait(20) == 143
        stack.enter_context(background(tmp_path, *words))
        back = time.monotonic()
        query = [sys.executable, "-m", "buildtool", "rpc", "query", "--tracker", str(port), "--json"]

        def all_there() -> bool:
            rows = json.loads(subprocess.run(query, capture_output=True, check=True).stdout)["keys"]
            return bool(rows) and rows[0]["free"] == 3

        until(all_there, seconds=30)
        print(f"restarted tracker: three servers back after {time.monotonic() - back:.1f} s")
        assert time.monotonic() - back < 12
        assert sessions(tvm_python, port, ["pool"], 3) == 3


def test_stop_and_a_killed_serve(
    server: AdbServer,
    phones: list[Phone],
    aarch64_line: Line,
    run_buildtool: BuildtoolRunner,
    tmp_path: Path,
) -> None:
    dist, foreign = str(aarch64_line.artifacts.root), free_port()
    server.adb("-s", phones[0].serial, "forward", f"tcp:{foreign}", "tcp:1")
    first = free_port()
    pair = f"{phones[0].serial},{phones[1].serial}"
    words = ("serve", dist, "--device", pair, "--port", str(first), "--env", "MARK=a b", "--clml-profiling")
    with background(tmp_path, *words) as (process, said):
        assert [row["port"] for row in said["servers"]] == [first, first + 1]
        environ = server.adb("-s", phones[0].serial, "shell", "cat /proc/$(pgrep -o -x qemu)/environ")
        assert "MARK=a b\0" in environ and "CLML_PROFILING=1\0" in environ
        done = run_buildtool("rpc", "stop", "999999")
        assert done.returncode == 2 and "no tracker or server" in done.stderr
        assert run_buildtool("rpc", "stop").returncode == 0
        assert process.wait(20) == 143
    assert server.leftovers(*phones) == [f"{phones[0].serial} tcp:{foreign} tcp:1"]

    # Killed outright: its children end by themselves and clean up.
    with background(tmp_path, "serve", dist, "--device", pair) as (process, said):
        os.kill(process.pid, signal.SIGKILL)
        until(lambda: server.leftovers(*phones) == [f"{phones[0].serial} tcp:{foreign} tcp:1"])
    assert status(run_buildtool)["servers"] == []

    # The children killed too: the programs end, and the next look removes the forward they left.
    with background(tmp_path, "serve", dist, "--device", phones[2].serial) as (process, said):
        os.kill(process.pid, signal.SIGKILL)
        os.kill(said["servers"][0]["pid"], signal.SIGKILL)
        until(lambda: programs(server, phones[2]) == [])
        assert status(run_buildtool)["servers"] == []
        left = server.adb("forward", "--list").split()
        assert left == [phones[0].serial, f"tcp:{foreign}", "tcp:1"]


def test_refusals(
    server: AdbServer, phones: list[Phone], aarch64_line: Line, run_buildtool: BuildtoolRunner, tmp_path: Path
) -> None:
    dist = str(aarch64_line.artifacts.root)
    nobody = str(free_port())
    for words, says in {
        ("serve", dist, "--device", "adb"): "3 Android devices and none chosen",
        ("serve", dist, "--device", "S9"): "unknown device 'S9'",
        ("serve", dist, "--device", phones[0].serial, "--tracker", nobody): "does not answer",
        ("serve", dist, "--device", "qemu", "--tracker", "10.0.0.1:9190"): "this machine only",
        ("serve", dist, "--device", "qemu", "--env", "no"): "not a variable",
        ("serve", str(tmp_path)): "manifest.json",
        ("query", "--tracker", nobody): "does not answer",
        ("query", "--tracker", "host:port"): "not a tracker's address",
        ("tracker", "--port", str(server.port)): "is in use",
    }.items():
        done = run_buildtool("rpc", *words)
        assert done.returncode in (1, 2) and says in done.stderr, (words, done.stderr)
    assert server.leftovers(*phones) == []


def test_query_tells_who_is_there(
    server: AdbServer, run_buildtool: BuildtoolRunner, aarch64_line: Line, tmp_path: Path
) -> None:
    with background(tmp_path, "tracker") as (_, said):
        assert said["host"] == "127.0.0.1"
        done = run_buildtool("rpc", "query", "--wait", "absent", "--timeout", "0.2")
        assert done.returncode == 1 and "no server with the key absent" in done.stderr
        env = run_buildtool("rpc", "env", str(aarch64_line.artifacts.root), "--key", "k e").stdout
        assert f"export TVM_TRACKER_PORT={said['port']}\n" in env
        assert "export RPC_DEVICE_KEY='k e'\n" in env and "export TVM_NDK_CC=/" in env
        shell = subprocess.run(
            ["sh", "-euc", f"{env}\necho $CXX"], capture_output=True, text=True, check=True
        )
        assert "g++" in shell.stdout


def test_tracker_on_another_address(
    server: AdbServer, run_buildtool: BuildtoolRunner, tmp_path: Path
) -> None:
    """Told aloud, because whoever reaches it can run code; an address of another machine is refused."""
    with background(tmp_path, "tracker", "--host", "127.0.0.2") as (_, said):
        assert said["host"] == "127.0.0.2"
        (log,) = tmp_path.glob("stderr-*")
        assert "everybody who reaches this address can run code" in log.read_text()
        assert status(run_buildtool)["trackers"][0]["address"] == f"127.0.0.2:{said['port']}"
    refused = run_buildtool("rpc", "tracker", "--host", "192.0.2.1")
    assert refused.returncode == 2 and "can't listen on 192.0.2.1" in refused.stderr
