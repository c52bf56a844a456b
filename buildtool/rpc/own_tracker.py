"""An RPC tracker of our own, for machines without TVM's Python: ``python -m buildtool.rpc.own_tracker``.

It hands servers out as TVM's tracker does (by key, higher priority first, then in order of asking)
and is tested against TVM's own servers and clients. Two things are better here: a client that goes
away while it waits is no longer counted as pending and is given no server, and nothing but the
standard library is imported, so that it answers in a fraction of a second.

On the wire: the peer sends the magic number and gets it back; then each message is a 32-bit
little-endian length and that many bytes of JSON, ``[code, ...]``, answered in the same form.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import heapq
import itertools
import json
import struct
import sys
from dataclasses import dataclass, field
from typing import Any

from buildtool.rpc.protocol import STOP, SUMMARY, TRACKER_MAGIC

FAIL, SUCCESS, PING, PUT, REQUEST, UPDATE_INFO, PENDING_MATCHKEYS = -1, 0, 1, 3, 4, 5, 7
_LIMIT = 1 << 20
"""Bytes of one message; a legitimate one has some hundred."""
_HANDSHAKE_SECONDS = 10.0


class Refused(Exception):
    """The peer said something that is no message of this protocol; its connection ends."""


@dataclass(eq=False)
class Peer:
    """One connection, of a server or a client."""

    writer: asyncio.StreamWriter
    host: str
    info: dict[str, Any] = field(default_factory=dict)
    """What a server told of itself: ``key`` and ``addr``, as the summary shows them."""
    offers: list[Offer] = field(default_factory=list)
    """What it offers and nobody took yet."""
    open: bool = True

    def send(self, value: object) -> None:
        text = json.dumps(value).encode()
        self.writer.write(struct.pack("<i", len(text)) + text)


@dataclass(eq=False)
class Offer:
    """A server ready for one session; ``matchkey`` is the word that lets a client in."""

    owner: Peer
    host: str
    port: int
    matchkey: str


@dataclass
class Queue:
    """Offers and waiting clients of one device key; never both at once."""

    offers: list[Offer] = field(default_factory=list)
    waiting: list[tuple[int, int, Peer]] = field(default_factory=list)
    """A heap of (-priority, turn, client)."""

    def match(self) -> None:
        while self.offers and self.waiting:
            client = heapq.heappop(self.waiting)[2]
            if client.open:
                offer = self.offers.pop(0)
                offer.owner.offers.remove(offer)
                client.send([SUCCESS, [offer.host, offer.port, offer.matchkey]])


class Book:
    """Who is there, and who waits for whom."""

    def __init__(self) -> None:
        self.queues: dict[str, Queue] = {}
        self.peers: set[Peer] = set()
        self._turns = itertools.count()

    def queue(self, key: str) -> Queue:
        return self.queues.setdefault(key, Queue())

    def answer(self, peer: Peer, message: object) -> None:
        """Do what a message asks for and answer it. Raises Refused."""
        match message:
            case [int(code), str(key), [int(port), str(matchkey)], *rest] if code == PUT:
                host = rest[0] if rest and isinstance(rest[0], str) else peer.host
                offer = Offer(peer, host, port, matchkey)
                peer.offers.append(offer)
                self.queue(key).offers.append(offer)
                peer.send(SUCCESS)
                self.queue(key).match()
            case [int(code), str(key), str(), int(priority)] if code == REQUEST:
                heapq.heappush(self.queue(key).waiting, (-priority, next(self._turns), peer))
                self.queue(key).match()
            case [int(code), {"key": str(key), "addr": [host, port]}] if code == UPDATE_INFO:
                peer.info = {"key": key, "addr": [peer.host if host is None else host, port]}
                peer.send(SUCCESS)
            case [int(code)] if code == PENDING_MATCHKEYS:
                peer.send([offer.matchkey for offer in peer.offers])
            case [int(code)] if code == SUMMARY:
                peer.send([SUCCESS, self.summary()])
            case [int(code)] if code == PING:
                peer.send(SUCCESS)
            case [int(code), *_] if code == STOP:
                peer.send(FAIL)  # who started it ends it, by a signal
            case _:
                raise Refused(f"unknown message {str(message)[:100]!r}")

    def summary(self) -> dict[str, object]:
        queues = {k: {"free": len(q.offers), "pending": len(q.waiting)} for k, q in self.queues.items()}
        servers = [p.info for p in self.peers if p.info.get("key", "").startswith("server")]
        return {"queue_info": queues, "server_info": servers}

    def leave(self, peer: Peer) -> None:
        """Forget a connection that ended: its offers, and its place in the queues."""
        peer.open = False
        self.peers.discard(peer)
        for queue in self.queues.values():
            queue.offers = [offer for offer in queue.offers if offer.owner is not peer]
            queue.waiting = [entry for entry in queue.waiting if entry[2] is not peer]
            heapq.heapify(queue.waiting)


async def _converse(book: Book, peer: Peer, reader: asyncio.StreamReader) -> None:
    magic = await asyncio.wait_for(reader.readexactly(4), _HANDSHAKE_SECONDS)
    if struct.unpack("<i", magic)[0] != TRACKER_MAGIC:
        raise Refused("it does not speak the tracker's protocol")
    peer.writer.write(magic)
    while True:
        (size,) = struct.unpack("<i", await reader.readexactly(4))
        if not 0 < size <= _LIMIT:
            raise Refused(f"a message of {size} bytes")
        try:
            message = json.loads(await reader.readexactly(size))
        except (ValueError, RecursionError) as exc:
            raise Refused(f"no JSON: {exc}") from None
        book.answer(peer, message)
        await peer.writer.drain()


async def serve(host: str, port: int) -> None:
    """Listen and serve for ever. Raises OSError when the port is taken."""
    book = Book()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = writer.get_extra_info("peername")
        peer = Peer(writer, str(address[0]) if address else "")
        book.peers.add(peer)
        try:
            await _converse(book, peer, reader)
        except (Refused, asyncio.TimeoutError) as exc:
            print(f"connection from {address} ended: {exc or 'no magic number in time'}", flush=True)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the peer went away: that is how every connection ends
        finally:
            book.leave(peer)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    server = await asyncio.start_server(connected, host, port)
    print(f"bind to {host}:{server.sockets[0].getsockname()[1]}", flush=True)
    async with server:
        await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(prog="own_tracker", description=__doc__.partition("\n")[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9190)
    wanted = parser.parse_args()
    try:
        asyncio.run(serve(wanted.host, wanted.port))
    except OSError as exc:
        sys.exit(f"cannot listen on {wanted.host}:{wanted.port}: {exc.strerror or exc}")


if __name__ == "__main__":
    main()
