"""The RPC tracker's wire protocol, as far as a client needs it.

After the magic number both ways, each message is a 32-bit little-endian length
and that many bytes of JSON; the answer has the same form and starts with a
status, 0 for success. (Measured against tvm.rpc.tracker 0.25.0 and 0.27.0.)
"""

from __future__ import annotations

import json
import socket
import struct
from dataclasses import dataclass
from typing import Any

from buildtool.core.errors import CheckFailed

TRACKER_MAGIC = 0x2F271
SUMMARY, STOP = 6, 2
_LIMIT = 16 << 20
"""Bytes; no summary of a sane tracker is larger."""


@dataclass(frozen=True)
class Queue:
    """One device key at the tracker: servers that are free, clients that wait."""

    free: int
    pending: int


@dataclass(frozen=True)
class Server:
    """One registered server: its key and the address it told."""

    key: str
    address: tuple[str, int] | None


@dataclass(frozen=True)
class Summary:
    queues: dict[str, Queue]
    servers: tuple[Server, ...]


def _receive(link: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = link.recv(min(count - len(data), 1 << 16))
        if not part:
            raise ConnectionError("it closed the connection in mid-answer")
        data += part
    return data


def call(host: str, port: int, message: list[Any], *, timeout: float = 5.0) -> Any:
    """Send one message and return what follows the success status.

    Raises CheckFailed when nothing answers, when it is not a tracker, or on an
    error status.
    """
    where = f"{host}:{port}"
    try:
        with socket.create_connection((host, port), timeout=timeout) as link:
            link.sendall(struct.pack("<i", TRACKER_MAGIC))
            (magic,) = struct.unpack("<i", _receive(link, 4))
            if magic != TRACKER_MAGIC:
                raise CheckFailed("another service than TVM's RPC tracker answers there", where=where)
            text = json.dumps(message).encode()
            link.sendall(struct.pack("<i", len(text)) + text)
            (length,) = struct.unpack("<i", _receive(link, 4))
            if not 0 < length <= _LIMIT:
                raise CheckFailed(f"the tracker's answer has an absurd length: {length}", where=where)
            reply = json.loads(_receive(link, length))
    except (ConnectionResetError, BrokenPipeError) as exc:
        # A peer that closes with our words unread resets the connection: the same end, by another name.
        words = "the RPC tracker does not answer: it closed the connection in mid-answer"
        raise CheckFailed(words, where=where) from exc
    except (OSError, ValueError, RecursionError) as exc:
        raise CheckFailed(f"the RPC tracker does not answer: {exc}", where=where) from exc
    if not isinstance(reply, list) or not reply or reply[0] != 0:
        raise CheckFailed("the RPC tracker answered with an error", where=where, found=str(reply)[:200])
    return reply[1] if len(reply) > 1 else None


def summary(host: str, port: int, *, timeout: float = 5.0) -> Summary:
    """What the tracker knows: queues by key, registered servers. Raises CheckFailed as :func:`call`."""
    data = call(host, port, [SUMMARY], timeout=timeout)
    try:
        queues = {
            str(key): Queue(int(row["free"]), int(row["pending"])) for key, row in data["queue_info"].items()
        }
        servers = tuple(_server(row) for row in data["server_info"])
    except (TypeError, LookupError, ValueError, AttributeError) as exc:
        raise CheckFailed("the tracker's summary has another form than known", found=str(data)[:200]) from exc
    return Summary(queues, servers)


def _server(row: dict[str, Any]) -> Server:
    address = row.get("addr")
    place = (str(address[0]), int(address[1])) if address and address[1] is not None else None
    return Server(str(row["key"]).removeprefix("server:"), place)
