"""TVM's own server and client, on the emulated device, with TVM's tracker and with ours."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from buildtool.core.errors import CheckFailed
from buildtool.devices import open_device
from buildtool.devices.base import PortTaken
from buildtool.rpc import server as server_module
from buildtool.rpc.ports import LOOPBACK, free_port
from buildtool.rpc.protocol import Queue
from buildtool.rpc.server import RpcServer
from buildtool.rpc.tracker import Tracker
from tests.standins.binaries import ARM_CC, compile_c

if TYPE_CHECKING:
    from buildtool.api import Line
    from buildtool.devices.base import Device

pytestmark = [pytest.mark.e2e, pytest.mark.tvm]

# TVM's client as a user has it; arguments: tracker port, keys..., and what to do on stdin.
CLIENT = """
import json, os, sys
import numpy as np
from tvm import rpc, runtime
import tvm
order = json.load(sys.stdin)
make = getattr(runtime, "tensor", None) or tvm.nd.array
tracker = rpc.connect_tracker("127.0.0.1", order["port"])
rng = np.random.default_rng(1)
report = []
for key in order["keys"]:
    try:
        session = tracker.request(key, session_timeout=60)
        if "upload" in order:
            session.upload(order["upload"])
            session.load_module(os.path.basename(order["upload"]))
        data = rng.standard_normal(5000)
        back = make(data, session.cpu(0)).numpy()
        report.append(bool((back == data).all()))
        del session
    except Exception as exc:
        report.append(type(exc).__name__)
print(json.dumps(report), flush=True)
os._exit(0)
"""


@pytest.fixture
def qemu(aarch64_line: Line) -> Iterator[Device]:
    device = open_device("qemu", settings=aarch64_line.settings, toolchain=aarch64_line.toolchain)
    device.push({a.name: a.path for a in aarch64_line.artifacts.artifacts})
    yield device
    device.close()


@pytest.fixture(params=["tvm's tracker", "our tracker"])
def tracker(request: pytest.FixtureRequest) -> Iterator[Tracker]:
    own = request.param == "our tracker"
    if not own:
        request.getfixturevalue("tvm_python")
    with Tracker(own=own) as found:
        yield found


def sessions(python: Path, tracker: Tracker, keys: list[str], **order: object) -> list[Any]:
    """What became of one session after the other: True for an equal copy, or the error's type."""
    done = subprocess.run(
        [python, "-c", CLIENT],
        input=json.dumps({"port": tracker.port, "keys": keys, **order}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def wait_free(tracker: Tracker, key: str, seconds: float = 15.0) -> None:
    """The server forks a session and offers itself again a moment after it ended."""
    deadline = time.monotonic() + seconds
    while tracker.summary().queues.get(key) != Queue(1, 0):
        assert time.monotonic() < deadline, tracker.summary()
        time.sleep(0.05)


def processes_with(word: str) -> list[int]:
    """This machine's processes whose command line holds ``word``."""
    return [int(p.name) for p in Path("/proc").glob("[0-9]*") if word.encode() in _cmdline(p)]


def _cmdline(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def test_three_servers_and_twenty_sessions(
    qemu: Device, tracker: Tracker, tvm_python: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        RpcServer(qemu, tracker=tracker) as one,
        RpcServer(qemu, tracker=tracker) as two,
        RpcServer(qemu, tracker=tracker) as three,
    ):
        servers = [one, two, three]
        for server in servers:
            wait_free(tracker, server.key)
        seen = tracker.summary()
        assert {s.key for s in servers} == {s.key for s in seen.servers} == set(seen.queues)
        assert {s.address for s in seen.servers} == {(LOOPBACK, s.port) for s in servers}
        begun = time.monotonic()
        assert sessions(tvm_python, tracker, [servers[n % 3].key for n in range(20)]) == [True] * 20
        seconds = time.monotonic() - begun
        for server in servers:
            wait_free(tracker, server.key)
            assert server.alive() and len(processes_with(server.key)) == 1
    with capsys.disabled():
        print(f"\n    20 sessions on 3 emulated servers in {seconds:.1f} s (tvm's import included)")
    # All is gone, and the tracker knows it.
    deadline = time.monotonic() + 5
    while tracker.summary().servers and time.monotonic() < deadline:
        time.sleep(0.05)
    assert tracker.summary().servers == ()
    assert not any(processes_with(server.key) for server in servers)


def test_a_crash_in_a_session_is_told_and_the_server_lives(
    qemu: Device, tracker: Tracker, tvm_python: Path, tmp_path: Path
) -> None:
    code = (
        "#include <stdio.h>\n#include <stdlib.h>\n"
        '__attribute__((constructor)) static void boom(void) { fputs("boom at load\\n", stderr); abort(); }\n'
    )
    library = compile_c(tmp_path, "libboom.so", code, cc=ARM_CC)
    with RpcServer(qemu, tracker=tracker) as server:
        (result,) = sessions(tvm_python, tracker, [server.key], upload=str(library))
        assert isinstance(result, str), "the client must see an error"
        assert "boom at load" in server.output()
        assert server.alive()
        wait_free(tracker, server.key)
        assert sessions(tvm_python, tracker, [server.key]) == [True]
    qemu.remove(["libboom.so", "rpc/libboom.so"])


def test_a_taken_port_is_an_error_and_nothing_is_left(qemu: Device, tracker: Tracker) -> None:
    with socket.create_server((LOOPBACK, 0)) as other:
        port = other.getsockname()[1]
        server = RpcServer(qemu, tracker=tracker, port=port)
        with pytest.raises(PortTaken, match=f"port {port} is in use on the device qemu"), server:
            pass
    assert tracker.summary().servers == ()
    assert processes_with(server.key) == []


def test_a_server_that_cannot_register_is_an_error_in_time(
    qemu: Device, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "START_SECONDS", 4.0)
    os.killpg(tracker.pid, signal.SIGSTOP)  # as if it hung: it accepts and never answers
    server = RpcServer(qemu, tracker=tracker)
    try:
        with pytest.raises(CheckFailed, match="the RPC tracker does not answer"), server:
            pass
    finally:
        os.killpg(tracker.pid, signal.SIGCONT)
    assert processes_with(server.key) == []


def test_a_program_that_does_not_start_is_told_with_its_words(qemu: Device, tracker: Tracker) -> None:
    qemu.remove(["libtvm_ffi.so"])
    with pytest.raises(CheckFailed) as caught, RpcServer(qemu, tracker=tracker):
        pass
    assert "it ended with code 127" in caught.value.what
    assert any("libtvm_ffi.so: cannot open shared object file" in line for line in caught.value.details)


def test_a_server_killed_outright_is_seen(qemu: Device, tracker: Tracker) -> None:
    with RpcServer(qemu, tracker=tracker) as server:
        (pid,) = processes_with(server.key)
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 5
        while (server.alive() or server.registered()) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not server.alive()
        assert not server.registered()


def test_a_client_that_gave_up_costs_our_tracker_no_server(qemu: Device, tvm_python: Path) -> None:
    """TVM's tracker gives the next server to the client that is gone, and its wait shows as pending."""
    key, script = "late", "from tvm import rpc; rpc.connect_tracker('127.0.0.1', {}).request('late')"
    with Tracker(own=True) as tracker:
        words = [tvm_python, "-c", script.format(tracker.port)]
        client = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while tracker.summary().queues.get(key) != Queue(0, 1) and time.monotonic() < deadline:
            time.sleep(0.05)
        client.kill()
        client.wait()
        with RpcServer(qemu, tracker=tracker, key=key):
            wait_free(tracker, key)
            assert sessions(tvm_python, tracker, [key]) == [True]


def test_the_servers_word_is_needed_not_a_port_that_answers() -> None:
    """A tracker of another program on the port is no tracker of ours."""
    port = free_port()
    other = subprocess.Popen(
        [sys.executable, "-m", "buildtool.rpc.own_tracker", f"--port={port}"], stdout=subprocess.PIPE
    )
    try:
        assert other.stdout is not None and other.stdout.readline() == f"bind to 127.0.0.1:{port}\n".encode()
        for own in (True, False):
            with pytest.raises(CheckFailed, match="did not start on"), Tracker(own=own, port=port):
                pass
    finally:
        other.kill()
        other.communicate()
