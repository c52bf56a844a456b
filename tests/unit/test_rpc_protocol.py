"""The tracker's protocol: our client against trackers that misbehave, our tracker against clients that do."""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from buildtool.core.errors import CheckFailed
from buildtool.rpc import protocol
from buildtool.rpc.ports import LOOPBACK, free_port
from buildtool.rpc.protocol import TRACKER_MAGIC, Queue, Server, Summary
from buildtool.rpc.tracker import Tracker

MAGIC = struct.pack("<i", TRACKER_MAGIC)


def packed(value: object) -> bytes:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return struct.pack("<i", len(text)) + text


@contextmanager
def answering(reply: bytes, *, hold: float = 0.0) -> Iterator[int]:
    """A service that sends ``reply`` to whoever connects; yields its port."""
    done = threading.Event()
    with socket.create_server((LOOPBACK, 0)) as listener:

        def serve() -> None:
            link, _ = listener.accept()
            with link:
                link.sendall(reply)
                link.settimeout(2)
                try:
                    while not done.is_set() and link.recv(1 << 16) and not hold:
                        break
                except OSError:
                    pass
                done.wait(hold)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listener.getsockname()[1])
        done.set()
        thread.join(5)


SUMMARY = {
    "queue_info": {"phone": {"free": 1, "pending": 2}},
    "server_info": [
        {"key": "server:phone", "addr": ["127.0.0.1", "9000"]},
        {"key": "server:board", "addr": [None, None]},
    ],
}


def test_a_summary_is_read() -> None:
    with answering(MAGIC + packed([0, SUMMARY])) as port:
        seen = protocol.summary(LOOPBACK, port)
    servers = (Server("phone", ("127.0.0.1", 9000)), Server("board", None))
    assert seen == Summary({"phone": Queue(1, 2)}, servers)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "another service than TVM's RPC tracker"),
        (b"", "closed the connection"),
        (MAGIC, "closed the connection"),
        (MAGIC + b"\x01", "closed the connection"),
        (MAGIC + packed([0, SUMMARY])[:-1], "closed the connection"),
        (MAGIC + struct.pack("<i", 0), "absurd length: 0"),
        (MAGIC + struct.pack("<i", -1), "absurd length: -1"),
        (MAGIC + struct.pack("<i", 1 << 30), "absurd length"),
        (MAGIC + packed(b"{not json"), "does not answer"),
        (MAGIC + packed(b"\xff\xfe"), "does not answer"),
        (MAGIC + packed(b"[" * 100_000), "does not answer"),
        (MAGIC + packed([-1]), "answered with an error"),
        (MAGIC + packed([]), "answered with an error"),
        (MAGIC + packed({"a": 1}), "answered with an error"),
        (MAGIC + packed([0]), "another form"),
        (MAGIC + packed([0, {"queue_info": []}]), "another form"),
        (MAGIC + packed([0, {"queue_info": {"k": {"free": "x"}}, "server_info": []}]), "another form"),
        (MAGIC + packed([0, {**SUMMARY, "server_info": [{"key": "server:k", "addr": [1]}]}]), "another form"),
        (MAGIC + packed([0, {**SUMMARY, "server_info": 3}]), "another form"),
    ],
)
def test_a_wrong_answer_is_one_clear_error(reply: bytes, message: str) -> None:
    with answering(reply) as port, pytest.raises(CheckFailed, match=message):
        protocol.summary(LOOPBACK, port)


def test_a_silent_service_costs_only_the_time_limit() -> None:
    begun = time.monotonic()
    with answering(b"", hold=5) as port, pytest.raises(CheckFailed, match="does not answer: timed out"):
        protocol.summary(LOOPBACK, port, timeout=0.3)
    assert time.monotonic() - begun < 3


def test_nothing_there_is_said_at_once() -> None:
    with pytest.raises(CheckFailed, match=r"does not answer: .*refused"):
        protocol.summary(LOOPBACK, free_port())


# -- our own tracker -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def tracker() -> Iterator[Tracker]:
    with Tracker(own=True) as found:
        yield found


class Link:
    """A connection to a tracker, as a server or client of TVM has it."""

    def __init__(self, tracker: Tracker) -> None:
        self.socket = socket.create_connection((LOOPBACK, tracker.port), timeout=5)
        self.socket.sendall(MAGIC)
        assert self.read(4) == MAGIC

    def read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise ConnectionError("closed")
            data += part
        return data

    def send(self, *message: object) -> None:
        self.socket.sendall(packed(list(message)))

    def receive(self) -> Any:
        return json.loads(self.read(struct.unpack("<i", self.read(4))[0]))

    def ask(self, *message: object) -> Any:
        self.send(*message)
        return self.receive()

    def offer(self, key: str, word: str, port: int = 9000, host: str | None = None) -> None:
        assert self.ask(3, key, [port, word], host) == 0


@pytest.fixture
def link(tracker: Tracker) -> Iterator[Callable[[], Link]]:
    made: list[Link] = []

    def make() -> Link:
        made.append(Link(tracker))
        return made[-1]

    yield make
    for one in made:
        one.socket.close()


def settled(tracker: Tracker, key: str, queue: Queue) -> None:
    """Wait until the tracker shows that queue: it hears of an ended connection a moment later."""
    deadline = time.monotonic() + 5
    while tracker.summary().queues.get(key) != queue:
        assert time.monotonic() < deadline, tracker.summary()
        time.sleep(0.01)


def test_a_server_is_listed_until_it_goes(tracker: Tracker, link: Callable[[], Link]) -> None:
    server = link()
    # tvm_rpc sends its port as text, TVM's Python server as a number; null is "where I call from".
    assert server.ask(5, {"key": "server:listed", "addr": [None, "9001"]}) == 0
    server.offer("listed", "listed:1", 9001)
    assert Server("listed", (LOOPBACK, 9001)) in tracker.summary().servers
    assert tracker.summary().queues["listed"] == Queue(1, 0)
    assert server.ask(7) == ["listed:1"]
    server.socket.close()
    settled(tracker, "listed", Queue(0, 0))
    assert not [server for server in tracker.summary().servers if server.key == "listed"]


def test_one_offer_serves_one_client(tracker: Tracker, link: Callable[[], Link]) -> None:
    server, first, second = link(), link(), link()
    server.offer("one", "one:1", 9001)
    assert first.ask(4, "one", "", 1) == [0, [LOOPBACK, 9001, "one:1"]]
    assert server.ask(7) == []
    second.send(4, "one", "", 1)
    settled(tracker, "one", Queue(0, 1))
    server.offer("one", "one:2", 9001, "10.0.0.7")
    assert second.receive() == [0, ["10.0.0.7", 9001, "one:2"]]
    settled(tracker, "one", Queue(0, 0))


def test_the_more_urgent_client_comes_first_then_the_earlier(
    tracker: Tracker, link: Callable[[], Link]
) -> None:
    late, early, urgent, server = link(), link(), link(), link()
    for n, (client, priority) in enumerate([(early, 1), (late, 1), (urgent, 5)], start=1):
        client.send(4, "order", "", priority)
        settled(tracker, "order", Queue(0, n))
    for n, client in enumerate([urgent, early, late]):
        server.offer("order", f"order:{n}")
        assert client.receive() == [0, [LOOPBACK, 9000, f"order:{n}"]]


def test_a_client_that_went_away_is_not_pending_and_gets_nothing(
    tracker: Tracker, link: Callable[[], Link]
) -> None:
    """TVM's own tracker counts it for ever."""
    gone, server = link(), link()
    gone.send(4, "gone", "", 1)
    settled(tracker, "gone", Queue(0, 1))
    gone.socket.close()
    settled(tracker, "gone", Queue(0, 0))
    server.offer("gone", "gone:1")
    assert tracker.summary().queues["gone"] == Queue(1, 0)


def test_keys_do_not_mix(tracker: Tracker, link: Callable[[], Link]) -> None:
    server, client = link(), link()
    server.offer("mine", "mine:1")
    client.send(4, "yours", "", 1)
    settled(tracker, "yours", Queue(0, 1))
    assert tracker.summary().queues["mine"] == Queue(1, 0)


def test_nobody_can_stop_it_over_the_wire(tracker: Tracker, link: Callable[[], Link]) -> None:
    assert link().ask(2, "some key") == -1
    assert link().ask(1) == 0


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("<i", -5),
        struct.pack("<i", 0),
        struct.pack("<i", 1 << 25),
        packed(b"{"),
        packed(b"\xff\xff"),
        packed(b"[" * 100_000),
        packed([]),
        packed([99]),
        packed({"a": 1}),
        packed([3, "k", ["no port", "m"], None]),
        packed([3, 5]),
        packed([4, "k"]),
        packed([5, {"key": 3, "addr": [1, 2]}]),
        packed([5, {"key": "server:x"}]),
    ],
)
def test_nonsense_ends_only_the_connection_it_came_by(
    tracker: Tracker, link: Callable[[], Link], data: bytes
) -> None:
    good, bad = link(), link()
    bad.socket.sendall(data)
    with pytest.raises(ConnectionError):
        bad.receive()
    assert good.ask(1) == 0


def test_who_speaks_another_protocol_is_turned_away(tracker: Tracker) -> None:
    with socket.create_connection((LOOPBACK, tracker.port), timeout=5) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with suppress(ConnectionResetError):
            assert stranger.recv(10) == b""
    assert tracker.output().count("does not speak the tracker's protocol") == 1


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["key", "addr", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example([True])
@example([5, {"key": "server:", "addr": [None, "x"]}])
@given(st.lists(_JSON, max_size=5))
def test_no_message_breaks_it_for_others(tracker: Tracker, message: list[Any]) -> None:
    one = Link(tracker)
    one.send(*message)
    one.socket.shutdown(socket.SHUT_WR)
    while one.socket.recv(1 << 16):
        pass
    one.socket.close()
    other = Link(tracker)
    assert other.ask(1) == 0
    other.socket.close()


# -- starting it ---------------------------------------------------------------------------


def test_a_taken_port_is_an_error_not_another_port(tracker: Tracker) -> None:
    with pytest.raises(CheckFailed) as caught, Tracker(own=True, port=tracker.port):
        pass
    assert f"did not start on 127.0.0.1:{tracker.port}" in str(caught.value)
    assert "Address already in use" in str(caught.value) or "address already in use" in str(caught.value)


def test_it_is_gone_afterwards() -> None:
    with Tracker(own=True) as one:
        port = one.port
        assert one.summary() == Summary({}, ())
    with pytest.raises(CheckFailed, match="refused"):
        protocol.summary(LOOPBACK, port)


def test_another_address_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    with Tracker(own=True, host="127.0.0.2"):
        pass
    assert "listens on 127.0.0.2: TVM RPC runs any code" in capsys.readouterr().err


def test_without_tvm_it_is_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with Tracker() as one:
        assert one.summary() == Summary({}, ())
        assert one.output() == f"bind to 127.0.0.1:{one.port}\n"


def test_an_interpreter_without_tvm_that_was_named_is_an_error(tmp_path: Any) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(CheckFailed, match="buildtool\\[host\\]"), Tracker(python=bare):
        pass
