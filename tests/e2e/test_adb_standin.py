"""The emulated phone is a phone to the real adb: what the other tests rest on."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.standins.adbd import AdbServer, Phone, need_phones
from tests.standins.binaries import compile_c

pytestmark = pytest.mark.e2e


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AdbServer]:
    need_phones()
    with AdbServer(tmp_path) as server:
        yield server


def shell(server: AdbServer, serial: str, script: str, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
    words = ["adb", "-s", serial, "shell", script]
    done = subprocess.run(
        words, env={**os.environ, **server.env}, input=stdin, capture_output=True, timeout=30, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_shell_files_and_ports(server: AdbServer, tmp_path: Path) -> None:
    with Phone(tmp_path, "one") as one, Phone(tmp_path, "two", api=29) as two:
        serials = [server.connect(phone) for phone in (one, two)]
        listed = server.adb("devices", "-l")
        assert all(f"{serial} " in listed for serial in serials) and "model:two" in listed
        assert shell(server, one.serial, "echo out; echo err >&2; exit 5") == (5, b"out\n", b"err\n")
        assert shell(server, one.serial, "cat", b"a" * 300_000) == (0, b"a" * 300_000, b"")
        assert shell(server, two.serial, "getprop ro.build.version.sdk")[1] == b"29\n"

        data = os.urandom(5_000_001)
        (tmp_path / "data").write_bytes(data)
        server.adb("-s", one.serial, "push", str(tmp_path / "data"), "/data/local/tmp/sub/data")
        server.adb("-s", one.serial, "pull", "/data/local/tmp/sub/data", str(tmp_path / "back"))
        assert (tmp_path / "back").read_bytes() == data
        assert b"No such file" in shell(server, two.serial, "ls /data/local/tmp/sub/data")[2]

        # Both phones use one port number, as two real ones may.
        for phone in (one, two):
            server.adb("-s", phone.serial, "reverse", "--no-rebind", "tcp:7001", "tcp:7002")
            assert "tcp:7001 tcp:7002" in server.adb("-s", phone.serial, "reverse", "--list")
            server.adb("-s", phone.serial, "reverse", "--remove", "tcp:7001")
            assert server.adb("-s", phone.serial, "reverse", "--list").strip() == ""


def test_programs_of_the_phones_machine_run(server: AdbServer, tmp_path: Path) -> None:
    code = '#include <stdio.h>\nint main(int c, char **v) { printf("%d %s\\n", c, v[1]); return 3; }'
    program = compile_c(tmp_path, "hello", code, cc="aarch64-linux-gnu-gcc")
    with Phone(tmp_path) as phone:
        server.connect(phone)
        server.adb("push", str(program), "/data/local/tmp/hello")
        expected = (3, b"2 a b\n", b"")
        for way in ("", "env X=1 ", "setsid -w ", "exec "):
            assert shell(server, phone.serial, f"cd /data/local/tmp; {way}./hello 'a b'") == expected


def test_faults(server: AdbServer, tmp_path: Path) -> None:
    with Phone(tmp_path, size="1m") as phone, Phone(tmp_path, "locked", state="unauthorized") as locked:
        server.connect(phone)
        server.connect(locked)
        time.sleep(0.5)
        assert f"{locked.serial}\tunauthorized" in server.adb("devices")
        (tmp_path / "big").write_bytes(bytes(3_000_000))
        words = ("-s", phone.serial, "push", str(tmp_path / "big"), "/data/local/tmp/big")
        with pytest.raises(AssertionError, match="No space left on device"):
            server.adb(*words)
        phone.order(drop_after=500_000)
        with pytest.raises(AssertionError):
            server.adb(*words)
        assert f"{phone.serial}\toffline" in server.adb("devices")
        phone.order(unplugged=False, frozen=True)
        phone.order(frozen=False, slow=0.1)
        deadline = time.monotonic() + 10
        while f"{phone.serial}\tdevice" not in server.adb("devices"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        begun = time.monotonic()
        assert shell(server, phone.serial, "true")[0] == 0
        assert time.monotonic() - begun > 0.1
