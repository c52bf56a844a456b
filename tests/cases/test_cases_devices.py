"""Public faults around devices and RPC, seen from the command line, on emulated phones.

C16 wrong word size or machine, C17 OpenCL absent or hidden from apps, C18 tracker unreachable or
queue empty, C19 busy ports and other people's forwards, C20 several devices of which some are bad.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from buildtool.core.errors import CheckFailed, ConfigError, UsageError
from buildtool.devices import PortTaken, open_device
from buildtool.devices.adb import AdbDevice
from buildtool.rpc.ports import free_port
from buildtool.rpc.server import RpcServer
from buildtool.rpc.tracker import Tracker
from buildtool.settings import Settings
from buildtool.toolchains.host import host_abi
from tests.standins.adbd import AdbServer, Phone
from tests.standins.binaries import compile_c

if TYPE_CHECKING:
    from tests.conftest import BuildtoolRunner

pytestmark = pytest.mark.e2e

# What tvm_rpc does about a port that is taken: it tells -1 and goes on running.
SERVER = r"""
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
  int port = 0, fd = socket(AF_INET, SOCK_STREAM, 0);
  for (int i = 1; i < argc; i++)
    if (strncmp(argv[i], "--port=", 7) == 0) port = atoi(argv[i] + 7);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
  inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
  int taken = bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 8) != 0;
  printf("bind to 127.0.0.1:%d\n", taken ? -1 : port);
  fflush(stdout);
  sleep(60);
  return 0;
}
"""


def listed(run: BuildtoolRunner) -> dict[str, Any]:
    done = run("devices", "--json")
    assert done.returncode == 0, done.stderr
    return {row["name"]: row for row in json.loads(done.stdout)["devices"]}


def test_c16_a_file_for_another_machine(adb_server: AdbServer, tmp_path: Path) -> None:
    host = compile_c(tmp_path, "tvm_rpc", "int main(void) { return 0; }")
    arm = compile_c(tmp_path, "libtvm.so", "int f(void) { return 0; }", cc="aarch64-linux-gnu-gcc")
    with Phone(tmp_path, "arm") as phone, Phone(tmp_path, "intel", abi=host_abi()) as intel:
        for where, wrong, told in ((phone, host, "arm64-v8a"), (intel, arm, host_abi().value)):
            adb_server.connect(where)
            with pytest.raises(ConfigError, match="built for another machine") as error:
                AdbDevice(where.serial).push({wrong.name: wrong})
            assert error.value.expected == told


def test_c17_opencl_absent_or_hidden_from_apps(
    adb_server: AdbServer, run_buildtool: BuildtoolRunner, tmp_path: Path
) -> None:
    library = {"/vendor/lib64/libOpenCL.so": ""}
    public = {"/vendor/etc/public.libraries.txt": "libqti.so\nlibOpenCL.so\n"}
    with (
        Phone(tmp_path, "none") as none,
        Phone(tmp_path, "hidden", files=library) as hidden,
        Phone(tmp_path, "open", files={**library, **public}) as shared,
    ):
        for phone in (none, hidden, shared):
            adb_server.connect(phone)
        rows = listed(run_buildtool)
        seen = [rows[p.serial]["properties"] for p in (none, hidden, shared)]
        path = "/vendor/lib64/libOpenCL.so"
        assert [(s["opencl"], s["opencl_for_apps"]) for s in seen] == [
            (None, None),
            (path, False),
            (path, True),
        ]
        assert f"{path} (not for apps)" in run_buildtool("devices").stdout


def test_c18_no_tracker_and_no_server(run_buildtool: BuildtoolRunner, private_cache: Path) -> None:
    done = run_buildtool("rpc", "query", "--tracker", str(free_port()))
    assert done.returncode == 1 and "does not answer" in done.stderr
    # The address that a tracker listens on is not one to reach it by.
    with Tracker(own=True) as tracker:
        env = {"TVM_TRACKER_HOST": "0.0.0.0", "TVM_TRACKER_PORT": str(tracker.port)}
        words = ("rpc", "query", "--wait", "android", "--timeout", "0.3")
        waited = run_buildtool(*words, env=env, timeout=20)
        assert waited.returncode == 1
        assert "no server with the key android is free after 0.3 s" in waited.stderr
        assert f"127.0.0.1:{tracker.port}" in waited.stderr


def test_c19_a_taken_port_is_an_error_not_another_port(adb_server: AdbServer, tmp_path: Path) -> None:
    program = compile_c(tmp_path, "tvm_rpc", SERVER, cc="aarch64-linux-gnu-gcc")
    with (
        Phone(tmp_path) as phone,
        Tracker(own=True) as tracker,
        socket.create_server(("127.0.0.1", 0)) as taken,
    ):
        adb_server.connect(phone)
        device = AdbDevice(phone.serial)
        device.push({"tvm_rpc": program})
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=f"port {port} is in use on this machine"):
            RpcServer(device, tracker=tracker, port=port).__enter__()
        other = free_port()
        holder = device.spawn(["tvm_rpc", f"--port={other}"])
        deadline = time.monotonic() + 20
        while "bind to" not in holder.output():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with pytest.raises(PortTaken, match=f"port {other} is in use on the device"):
            RpcServer(device, tracker=tracker, port=other).__enter__()
        device.close()
        assert adb_server.leftovers(phone) == []


def test_c19_forwards_of_others_stay(adb_server: AdbServer, tmp_path: Path) -> None:
    """A server that does not come up is taken down with its ports, and with no others."""
    program = compile_c(tmp_path, "tvm_rpc", "int main(void) { return 9; }", cc="aarch64-linux-gnu-gcc")
    with Phone(tmp_path) as phone, Tracker(own=True) as tracker:
        adb_server.connect(phone)
        theirs = f"tcp:{free_port()}"
        adb_server.adb("-s", phone.serial, "forward", theirs, "tcp:5000")
        device = AdbDevice(phone.serial)
        device.push({"tvm_rpc": program})
        with pytest.raises(CheckFailed, match="ended with code 9"):
            RpcServer(device, tracker=tracker).__enter__()
        device.close()
        assert adb_server.leftovers(phone) == [f"{phone.serial} {theirs} tcp:5000"]


def test_c20_one_good_device_among_bad_ones(
    adb_server: AdbServer, run_buildtool: BuildtoolRunner, tmp_path: Path
) -> None:
    with (
        Phone(tmp_path, "good") as good,
        Phone(tmp_path, "off") as off,
        Phone(tmp_path, "locked", state="unauthorized") as locked,
    ):
        for phone in (good, off, locked):
            adb_server.connect(phone)
        off.order(unplugged=True)
        adb_server.wait_for(off, "offline")
        adb_server.wait_for(locked, "unauthorized")
        (tmp_path / "buildtool.toml").write_text(
            f'[devices.bench]\nkind = "adb"\nserial = "{good.serial}"\nlabels = ["adreno-740"]\n'
            f'[devices.drawer]\nkind = "adb"\nserial = "{off.serial}"\n'
        )
        rows = listed(run_buildtool)
        assert rows[good.serial]["state"] == "device" and rows[good.serial]["labels"] == ["adreno-740"]
        assert {rows["drawer"]["state"], rows[locked.serial]["state"]} == {"offline", "unauthorized"}
        open_with = (
            "import sys; from buildtool import settings; from buildtool.devices import open_device;"
            "print(open_device(sys.argv[1], settings=settings.load(), toolchain=None).name)"
        )
        for spec in (good.serial, "bench", "adreno-740", "adb"):
            done = subprocess.run(
                [sys.executable, "-c", open_with, spec],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.stdout.strip() == good.serial, done.stderr
        with pytest.raises(UsageError, match="can't be used: offline"):
            open_device(off.serial, settings=Settings(), toolchain=None)
