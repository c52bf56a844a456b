"""The child process that speaks RPC: its replies, its deaths, and a tracker that has no server."""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from buildtool.core.errors import CheckFailed
from buildtool.verify import bench as bench_module
from buildtool.verify import probe
from buildtool.verify.bench import Bench
from buildtool.verify.model import CantObserve
from tests.standins.binaries import ADD, artifact, artifact_set, compile_c, host_toolchain

MAGIC = 0x2F271


class FakeTracker:
    """Answers the tracker protocol's summary request; ``free`` servers under ``key``."""

    def __init__(self, free: int, *, magic: int = MAGIC) -> None:
        self.free, self.magic, self.asked = free, magic, 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            with peer:
                peer.recv(4)
                peer.sendall(struct.pack("<i", self.magic))
                size = peer.recv(4)
                if len(size) < 4:
                    continue
                code = json.loads(peer.recv(struct.unpack("<i", size)[0]))
                assert code == [6]
                self.asked += 1
                queue = {"k": {"free": self.free, "pending": 0}}
                text = json.dumps([0, {"queue_info": queue, "server_info": []}]).encode()
                peer.sendall(struct.pack("<i", len(text)) + text)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def tracker() -> Iterator[FakeTracker]:
    made = FakeTracker(0)
    yield made
    made.close()


def test_summary_is_read_over_the_wire(tracker: FakeTracker) -> None:
    tracker.free = 2
    assert probe.tracker_summary("127.0.0.1", tracker.port)["queue_info"]["k"]["free"] == 2


def test_another_service_on_the_port_is_told(tracker: FakeTracker) -> None:
    tracker.magic = 1
    with pytest.raises(ConnectionError, match="no TVM tracker"):
        probe.tracker_summary("127.0.0.1", tracker.port)


def test_absent_key_ends_with_what_the_tracker_has(
    tracker: FakeTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request for an absent key would hang for ever: it is never made."""
    monkeypatch.setattr(probe, "_POLL_SECONDS", 0.3)
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match=r"no free server with key k.*'free': 0"):
        probe.connect({"host": "127.0.0.1", "port": tracker.port, "key": "k"})
    assert 0.3 <= time.monotonic() - begun < 3 and tracker.asked >= 2


@pytest.mark.parametrize(
    ("output", "reply"),
    [
        ("", None),
        ("chatter\n", None),
        ('noise\n@buildtool-reply {"a": 1}\nmore noise\n', {"a": 1}),
        ("@buildtool-reply [1]\n", None),
    ],
)
def test_reply_among_chatter(output: str, reply: dict[str, Any] | None) -> None:
    assert probe.find_reply(output) == reply


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    toolchain = host_toolchain()
    files = artifact_set(toolchain, artifact(compile_c(tmp_path, "liba.so", ADD)), tvm_ffi=True)
    with Bench(files, toolchain, None) as made:
        yield made


def _interpreter(folder: Path, body: str) -> Path:
    """A stand-in for ``--host-python``: this interpreter running ``body`` instead of the probe."""
    script = folder / "python"
    script.write_text(f"#!{sys.executable}\n{body}", encoding="utf-8")
    script.chmod(0o755)
    return script


FAKES = [
    ("import os\nos.abort()\n", "ended with code -6 and no answer"),
    ("print('hello')\n", "ended with code 0 and no answer"),
    ('print(\'@buildtool-reply {"error": "ImportError: no tvm", "trace": ["probe.py:1 x"]}\')\n', "no tvm"),
    ("import time\ntime.sleep(60)\n", "did not finish within 0.5 s"),
]


@pytest.mark.parametrize(("body", "words"), FAKES)
def test_child_that_fails(bench: Bench, tmp_path: Path, body: str, words: str) -> None:
    bench.python = _interpreter(tmp_path, body)
    begun = time.monotonic()
    with pytest.raises(CheckFailed, match=words):
        bench.ask({"task": "hello"}, timeout=0.5 if "sleep" in body else 30)
    assert time.monotonic() - begun < 10


def test_child_that_cannot_try(bench: Bench, tmp_path: Path) -> None:
    bench.python = _interpreter(tmp_path, 'print(\'@buildtool-reply {"cant": "no LLVM"}\')\n')
    with pytest.raises(CantObserve, match="no LLVM"):
        bench.ask({"task": "compile_llvm"})


def _broken_tvm(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Another tvm for the child, found as one in ``$TVM_HOME/python`` is: by PYTHONPATH."""
    (folder / "tvm.py").write_text(code, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(folder))


def test_the_real_child_answers_in_its_own_process(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs the probe itself; a broken tvm must come back as a named error, not as a traceback."""
    _broken_tvm(tmp_path, monkeypatch, "raise ImportError('this tvm is broken')\n")
    with pytest.raises(CheckFailed, match="ImportError: this tvm is broken"):
        bench.ask({"task": "hello"})
    reason = bench.why_not("tvm-python")
    assert reason is not None
    assert "this tvm is broken" in reason[0] and reason[1] == "pip install 'buildtool[host]'"


def test_probe_does_not_shadow_modules(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run by path, its folder would put our own report.py, check.py, … before others' modules."""
    folder = str(Path(probe.__file__).parent)
    _broken_tvm(tmp_path, monkeypatch, f"import sys\nraise ImportError(str({folder!r} in sys.path))\n")
    with pytest.raises(CheckFailed, match="ImportError: False"):
        bench.ask({"task": "hello"})


@pytest.mark.parametrize(
    ("ffi", "built_ffi", "met"), [("0.1", True, True), ("", True, False), ("0.1", False, False)]
)
def test_generation_of_the_interpreters_tvm_must_match(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, ffi: str, built_ffi: bool, met: bool
) -> None:
    from dataclasses import replace

    bench.artifacts = replace(bench.artifacts, tvm_ffi=built_ffi)
    hello = {"python": "3.11", "tvm": "0.25.0", "tvm_ffi": ffi, "llvm": True}
    monkeypatch.setattr(Bench, "ask", lambda self, request, timeout=0.0: hello)
    reason = bench.why_not("tvm-python")
    assert (reason is None) is met
    if reason is not None:
        assert "another generation" in reason[0]


def test_a_failed_start_is_told_again_not_tried_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def start(self: Bench) -> dict[str, Any]:
        calls.append(1)
        raise CheckFailed("the server did not start")

    monkeypatch.setattr(bench_module.Bench, "_start_server", start)
    for _ in range(3):
        with pytest.raises(CheckFailed, match="did not start"):
            bench.session()
    assert len(calls) == 1
