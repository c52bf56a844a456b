"""The emulated phone's adbd: the transport protocol on one listening socket.

Runs as ``python daemon.py CONFIG LISTEN_FD CONTROL_FD`` in namespaces of its own (network, mounts,
processes), so that phones on one machine use the same ports and paths, as real ones do.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import queue
import select
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CNXN, AUTH, OPEN, OKAY, CLSE, WRTE = (
    int.from_bytes(word, "little") for word in (b"CNXN", b"AUTH", b"OPEN", b"OKAY", b"CLSE", b"WRTE")
)
VERSION, MAX_DATA = 0x01000001, 1 << 20
PUBLIC_KEY = 3
STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN = range(5)
MS_BIND, MS_REC, MS_PRIVATE, MS_NOEXEC = 4096, 16384, 1 << 18, 8

GETPROP = """#!/bin/sh
while IFS='=' read -r key value; do
  [ "$key" = "$1" ] && echo "$value"
done </system/build.prop
:
"""


class Faults:
    """What the test asked to go wrong."""

    def __init__(self, state: str) -> None:
        self.state = state
        self.unplugged = state == "offline"
        self.drop_after: int | None = None
        self.slow = 0.0
        self.frozen = threading.Event()
        self.frozen.set()
        self.links: set[Link] = set()

    def apply(self, order: dict[str, Any]) -> None:
        for name, value in order.items():
            if name == "frozen":
                (self.frozen.clear if value else self.frozen.set)()
            else:
                setattr(self, name, value)
        if order.get("unplugged"):
            self.cut()

    def cut(self) -> None:
        self.unplugged = True
        for link in list(self.links):
            link.close()

    def received(self, size: int) -> None:
        self.frozen.wait()
        if self.slow:
            time.sleep(self.slow)
        if self.drop_after is not None:
            self.drop_after -= size
            if self.drop_after <= 0:
                self.drop_after = None
                self.cut()


class Stream:
    """One stream of a link: blocking reads, and writes that wait for the other side's OKAY."""

    def __init__(self, link: Link, local: int, remote: int) -> None:
        self.link, self.local, self.remote = link, local, remote
        self.incoming: queue.Queue[bytes | None] = queue.Queue()
        self.ready = threading.Semaphore(0)
        self.closed = False
        self._rest = b""

    def write(self, data: bytes) -> None:
        for at in range(0, len(data), self.link.max_data):
            self.link.send(WRTE, self.local, self.remote, data[at : at + self.link.max_data])
            self.ready.acquire()
            if self.closed:
                raise ConnectionError("stream closed")

    def read_some(self) -> bytes:
        """The next data, empty at the end."""
        data = self.incoming.get()
        if data is None:
            self.incoming.put(None)
            return b""
        self.link.send(OKAY, self.local, self.remote)
        return data

    def read(self, count: int) -> bytes:
        while len(self._rest) < count:
            data = self.read_some()
            if not data:
                raise ConnectionError("stream closed")
            self._rest += data
        part, self._rest = self._rest[:count], self._rest[count:]
        return part

    def end(self) -> None:
        """The other side is gone."""
        self.closed = True
        self.incoming.put(None)
        self.ready.release()

    def close(self) -> None:
        if not self.closed:
            self.link.send(CLSE, self.local, self.remote)
            self.end()
        self.link.streams.pop(self.local, None)


class Link:
    """One connection of an adb server."""

    def __init__(self, phone: Phone, sock: socket.socket) -> None:
        self.phone, self.sock = phone, sock
        self.max_data = MAX_DATA
        self.streams: dict[int, Stream] = {}
        self.reverses: dict[str, tuple[str, socket.socket]] = {}
        self.waiting: dict[int, tuple[threading.Event, Stream]] = {}
        self._lock = threading.Lock()
        self._ids = 0

    def send(self, command: int, arg0: int, arg1: int, data: bytes = b"") -> None:
        check = 0 if command == WRTE else sum(data) & 0xFFFFFFFF
        head = struct.pack("<6I", command, arg0, arg1, len(data), check, command ^ 0xFFFFFFFF)
        with self._lock:
            self.sock.sendall(head + data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def _receive(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = self.sock.recv(min(count - len(data), 1 << 18))
            if not part:
                raise ConnectionError("link closed")
            data += part
        return bytes(data)

    def serve(self) -> None:
        self.phone.faults.links.add(self)
        try:
            while True:
                command, arg0, arg1, size, _, _ = struct.unpack("<6I", self._receive(24))
                data = self._receive(size)
                self.phone.faults.received(size if command == WRTE else 0)
                self._handle(command, arg0, arg1, data)
        except OSError:
            pass
        finally:
            self.phone.faults.links.discard(self)
            self.sock.close()
            for stream in list(self.streams.values()):
                stream.end()
            for _, listener in list(self.reverses.values()):
                _shut(listener)

    def _handle(self, command: int, arg0: int, arg1: int, data: bytes) -> None:
        if command in (CNXN, AUTH):
            if command == CNXN:
                self.max_data = min(MAX_DATA, arg1)
            if self.phone.faults.state == "unauthorized":
                if command == AUTH and arg0 == PUBLIC_KEY:
                    return  # the user has not tapped Allow
                self.send(AUTH, 1, 0, os.urandom(20))
            elif command == CNXN:
                self.send(CNXN, VERSION, MAX_DATA, self.phone.banner())
        elif command == OPEN:
            stream = self._new_stream(arg0)
            name = data.rstrip(b"\0").decode()
            threading.Thread(target=self._service, args=(stream, name), daemon=True).start()
        elif arg1 in self.streams:
            self._to_stream(self.streams[arg1], command, arg0, data)
        elif command == WRTE:
            self.send(CLSE, 0, arg0)

    def _to_stream(self, stream: Stream, command: int, remote: int, data: bytes) -> None:
        if command == OKAY:
            if stream.remote == 0:
                stream.remote = remote
            stream.ready.release()
        elif command == WRTE:
            stream.incoming.put(data)
        elif command == CLSE:
            stream.end()

    def _new_stream(self, remote: int) -> Stream:
        with self._lock:
            self._ids += 1
            stream = Stream(self, self._ids, remote)
            self.streams[stream.local] = stream
        return stream

    def _service(self, stream: Stream, name: str) -> None:
        try:
            kind, _, rest = name.partition(":")
            if kind == "reverse":
                self.send(OKAY, stream.local, stream.remote)
                stream.write(self._reverse(rest))
                return
            if kind == "tcp":
                sock = socket.create_connection(("127.0.0.1", int(rest)), timeout=5)
                sock.settimeout(None)
                self.send(OKAY, stream.local, stream.remote)
                _join(stream, sock)
                return
            words = kind.split(",")
            if words[0] not in ("shell", "exec", "sync"):
                return
            self.send(OKAY, stream.local, stream.remote)
            if kind == "sync":
                Sync(self.phone, stream).serve()
            elif "v2" in words:
                _shell_v2(self.phone, stream, rest)
            else:
                _shell_raw(self.phone, stream, rest)
        except OSError:
            pass
        finally:
            with contextlib.suppress(OSError):
                stream.close()

    # -- reverse ---------------------------------------------------------------------

    def _reverse(self, order: str) -> bytes:
        verb, _, rest = order.partition(":")
        if verb == "list-forward":
            text = "".join(f"UsbFfs {device} {host}\n" for device, (host, _) in self.reverses.items())
            return b"%04x" % len(text) + text.encode()
        if verb == "killforward-all":
            names = list(self.reverses)
        elif verb == "killforward":
            if rest not in self.reverses:
                return _fail(f"listener '{rest}' not found")
            names = [rest]
        else:
            return self._reverse_add(rest)
        for name in names:
            _shut(self.reverses.pop(name)[1])
        return b"OKAY"

    def _reverse_add(self, rest: str) -> bytes:
        rebind = not rest.startswith("norebind:")
        device, _, host = rest.removeprefix("norebind:").partition(";")
        if device in self.reverses:
            if not rebind:
                return _fail("cannot rebind existing socket")
            _shut(self.reverses.pop(device)[1])
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", int(device.removeprefix("tcp:"))))
        except OSError as exc:
            return _fail(f"cannot bind listener: {exc.strerror}")
        listener.listen(64)
        port = listener.getsockname()[1]
        answer = b"OKAY"
        if device == "tcp:0":
            answer += b"%04x%d" % (len(str(port)), port)
            device = f"tcp:{port}"
        self.reverses[device] = (host, listener)
        threading.Thread(target=self._accept, args=(listener, host), daemon=True).start()
        return answer

    def _accept(self, listener: socket.socket, host: str) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = listener.accept()
                threading.Thread(target=self._outward, args=(sock, host), daemon=True).start()

    def _outward(self, sock: socket.socket, host: str) -> None:
        stream = self._new_stream(0)
        try:
            self.send(OPEN, stream.local, 0, host.encode() + b"\0")
            stream.ready.acquire()
            if not stream.closed:
                _join(stream, sock)
        except OSError:
            pass
        finally:
            sock.close()
            with contextlib.suppress(OSError):
                stream.close()


def _fail(text: str) -> bytes:
    return b"FAIL%04x" % len(text) + text.encode()


def _shut(listener: socket.socket) -> None:
    # Closing alone leaves a thread in accept() with the port still bound.
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def _join(stream: Stream, sock: socket.socket) -> None:
    """Copy both ways until one side ends."""

    def inward() -> None:
        with contextlib.suppress(OSError):
            while data := stream.read_some():
                sock.sendall(data)
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    thread = threading.Thread(target=inward, daemon=True)
    thread.start()
    with contextlib.suppress(OSError):
        while data := sock.recv(1 << 16):
            stream.write(data)
    with contextlib.suppress(OSError):
        stream.close()
    thread.join()
    sock.close()


# -- shell -------------------------------------------------------------------------------


def _shell_v2(phone: Phone, stream: Stream, command: str) -> None:
    # One socket for stdin and stdout, as adbd has it without a terminal.
    ours, theirs = socket.socketpair()
    errors, errors_in = os.pipe()
    process = phone.start(command, theirs, theirs, errors_in)
    theirs.close()
    os.close(errors_in)
    threading.Thread(target=_shell_input, args=(stream, ours), daemon=True).start()
    sources = {ours.fileno(): STDOUT, errors: STDERR}
    try:
        while sources:
            ready, _, _ = select.select(list(sources), [], [], 0.2)
            if stream.closed:
                break
            for fd in ready:
                data = os.read(fd, 1 << 16)
                if data:
                    stream.write(struct.pack("<BI", sources[fd], len(data)) + data)
                else:
                    del sources[fd]
        if not stream.closed:
            code = process.wait()
            code = code if code >= 0 else 128 - code
            stream.write(struct.pack("<BIB", EXIT, 1, code & 0xFF))
    finally:
        ours.close()
        os.close(errors)
        process.wait()


def _shell_input(stream: Stream, sock: socket.socket) -> None:
    try:
        while True:
            kind, size = struct.unpack("<BI", stream.read(5))
            data = stream.read(size)
            if kind == STDIN:
                sock.sendall(data)
            elif kind == CLOSE_STDIN:
                sock.shutdown(socket.SHUT_WR)
    except OSError:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def _shell_raw(phone: Phone, stream: Stream, command: str) -> None:
    ours, theirs = socket.socketpair()
    process = phone.start(command, theirs, theirs, theirs)
    theirs.close()
    _join(stream, ours)
    process.wait()


# -- sync (files) ------------------------------------------------------------------------


class Sync:
    def __init__(self, phone: Phone, stream: Stream) -> None:
        self.phone, self.stream = phone, stream

    def serve(self) -> None:
        handlers: dict[bytes, Callable[[str], None]] = {
            b"STAT": self._stat,
            b"SEND": self._receive_file,
            b"RECV": self._send_file,
            b"LIST": self._list,
        }
        while True:
            word, size = struct.unpack("<4sI", self.stream.read(8))
            if word == b"QUIT":
                return
            handlers[word](self.stream.read(size).decode())

    def _fail(self, exc: OSError) -> None:
        text = (exc.strerror or str(exc)).encode()
        self.stream.write(struct.pack("<4sI", b"FAIL", len(text)) + text)

    def _stat(self, path: str) -> None:
        mode = size = when = 0
        with contextlib.suppress(OSError):
            found = self.phone.inside(path).lstat()
            mode, size, when = found.st_mode, found.st_size & 0xFFFFFFFF, int(found.st_mtime)
        self.stream.write(struct.pack("<4sIII", b"STAT", mode, size, when))

    def _receive_file(self, order: str) -> None:
        name, _, mode = order.rpartition(",")
        path = self.phone.inside(name)
        failure: OSError | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            out = path.open("wb", buffering=0)
        except OSError as exc:
            failure, out = exc, Path(os.devnull).open("wb", buffering=0)  # noqa: SIM115
        with out:
            while True:
                word, size = struct.unpack("<4sI", self.stream.read(8))
                if word == b"DONE":
                    break
                data = memoryview(self.stream.read(size))
                try:
                    while data and failure is None:
                        data = data[out.write(data) :]
                except OSError as exc:
                    failure = exc
                    path.unlink(missing_ok=True)
        if failure is not None:
            self._fail(failure)
            return
        path.chmod(int(mode) & 0o777)
        os.utime(path, (size, size))
        self.stream.write(struct.pack("<4sI", b"OKAY", 0))

    def _send_file(self, path: str) -> None:
        try:
            with self.phone.inside(path).open("rb") as source:
                while data := source.read(1 << 16):
                    self.stream.write(struct.pack("<4sI", b"DATA", len(data)) + data)
        except OSError as exc:
            self._fail(exc)
            return
        self.stream.write(struct.pack("<4sI", b"DONE", 0))

    def _list(self, path: str) -> None:
        with contextlib.suppress(OSError):
            for entry in self.phone.inside(path).iterdir():
                found, name = entry.lstat(), entry.name.encode()
                head = struct.pack(
                    "<4sIIII", b"DENT", found.st_mode, found.st_size, int(found.st_mtime), len(name)
                )
                self.stream.write(head + name)
        self.stream.write(struct.pack("<4sIIII", b"DONE", 0, 0, 0, 0))


# -- the phone ---------------------------------------------------------------------------


class Phone:
    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.root = Path(config["root"])
        self.faults = Faults(config["state"])

    def banner(self) -> bytes:
        model = self.config["props"]["ro.product.model"]
        text = f"device::ro.product.name={model};ro.product.model={model};ro.product.device={model};"
        return (text + f"features={self.config['features']}").encode()

    def inside(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def start(self, command: str, stdin: Any, stdout: Any, stderr: Any) -> subprocess.Popen[bytes]:
        env = {"PATH": "/system/bin:/usr/bin:/bin", "HOME": "/data", "USER": "shell", "TMPDIR": "/tmp"}
        if self.config["shim"]:
            env["LD_PRELOAD"] = "/apex/shim.so"

        def enter() -> None:
            os.chroot(self.root)
            os.chdir("/")

        return subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=env,
            start_new_session=True,
            preexec_fn=enter,  # noqa: PLW1509 - two system calls
        )

    def build_root(self) -> None:
        _mount(None, "/", None, MS_REC | MS_PRIVATE)
        _mount("tmpfs", str(self.root), "tmpfs", 0, "size=64m")
        for name in ("usr", "bin", "sbin", "lib", "lib64", "lib32", "etc", "dev"):
            here, there = Path("/") / name, self.root / name
            if here.is_symlink():
                there.symlink_to(os.readlink(here))
            elif here.is_dir():
                there.mkdir()
                _mount(str(here), str(there), None, MS_BIND | MS_REC)
        for name in ("proc", "tmp", "data", "system/bin", "vendor/lib64", "vendor/etc", "apex/sysroot"):
            (self.root / name).mkdir(parents=True)
        _mount("proc", str(self.root / "proc"), "proc", 0)
        flags = MS_NOEXEC if self.config["noexec"] else 0
        _mount("tmpfs", str(self.root / "data"), "tmpfs", flags, f"size={self.config['size']}")
        (self.root / "data/local/tmp").mkdir(parents=True)
        getprop = self.root / "system/bin/getprop"
        getprop.write_text(GETPROP)
        getprop.chmod(0o755)
        (self.root / "system/bin/sh").symlink_to("/bin/sh")
        props = "".join(f"{k}={v}\n" for k, v in self.config["props"].items())
        (self.root / "system/build.prop").write_text(props)
        for name, text in self.config["files"].items():
            self.inside(name).parent.mkdir(parents=True, exist_ok=True)
            self.inside(name).write_text(text)
        if self.config["shim"]:
            shutil.copy(self.config["qemu"], self.root / "apex/qemu")
            shutil.copy(self.config["shim"], self.root / "apex/shim.so")
            _mount(self.config["sysroot"], str(self.root / "apex/sysroot"), None, MS_BIND)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    words = [w.encode() if w is not None else None for w in (source, target, kind)]
    if libc.mount(*words, ctypes.c_ulong(flags), data.encode() if data else None):
        raise OSError(ctypes.get_errno(), f"mount {source} on {target}")


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sh14x", b"lo", 1)  # IFF_UP
        fcntl.ioctl(sock, 0x8914, request)  # SIOCSIFFLAGS


def _obey(phone: Phone, control: socket.socket) -> None:
    """Orders of the test, one JSON object a line, each answered by a line; its end is the phone's end."""
    with control.makefile("rw", encoding="utf-8") as lines:
        print("ready", file=lines, flush=True)
        for line in lines:
            phone.faults.apply(json.loads(line))
            print("done", file=lines, flush=True)
    os._exit(0)


def main() -> None:
    phone = Phone(json.loads(Path(sys.argv[1]).read_text()))
    listener, control = (socket.socket(fileno=int(fd)) for fd in sys.argv[2:4])
    _loopback_up()
    phone.build_root()
    threading.Thread(target=_obey, args=(phone, control), daemon=True).start()
    while True:
        sock, _ = listener.accept()
        if phone.faults.unplugged:
            sock.close()
            continue
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=Link(phone, sock).serve, daemon=True).start()


if __name__ == "__main__":
    main()
