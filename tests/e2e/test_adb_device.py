"""AdbDevice on emulated phones, through the real adb client and server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from buildtool.core.errors import BuildtoolError, ConfigError, UsageError
from buildtool.devices import DeviceLost, PortTaken, Pushed, open_device
from buildtool.devices.adb import AdbDevice
from buildtool.devices.adb_client import server_version
from buildtool.rpc.ports import free_port
from buildtool.settings import Settings
from tests.standins.adbd import AdbServer, Phone, need_phones
from tests.standins.binaries import compile_c

pytestmark = pytest.mark.e2e

PROGRAM = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
  printf("out %s %s\n", argc > 1 ? argv[1] : "-", getenv("V") ? getenv("V") : "-");
  fflush(stdout);
  fprintf(stderr, "err");
  if (argc > 2) {
    signal(SIGTERM, SIG_IGN);
    if (fork() == 0) sleep(60);
    sleep(atoi(argv[2]));
  }
  return argc > 1 ? atoi(argv[1]) : 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(tmp_path_factory.mktemp("bin"), "program", PROGRAM, cc="aarch64-linux-gnu-gcc")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AdbServer]:
    need_phones()
    with AdbServer(tmp_path) as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def phone(server: AdbServer, tmp_path: Path) -> Iterator[Phone]:
    with Phone(tmp_path, files={"/vendor/lib64/libOpenCL.so": ""}) as phone:
        server.connect(phone)
        yield phone


@pytest.fixture
def device(phone: Phone) -> Iterator[AdbDevice]:
    device = AdbDevice(phone.serial)
    yield device
    device.close()


def until(condition: Callable[[], object], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)


def test_properties(device: AdbDevice) -> None:
    found = device.properties()
    assert (found.abis, found.api_level, found.system) == (("arm64-v8a",), 34, "android")
    assert (found.soc, found.gpu) == ("QTI SM8550", "adreno")
    assert (found.opencl, found.opencl_for_apps) == ("/vendor/lib64/libOpenCL.so", False)
    assert found.free_bytes == 256 << 20 and found.page_size == os.sysconf("SC_PAGE_SIZE")
    assert str(device.workdir).startswith("/data/local/tmp/buildtool-")


def test_push_run_pull(device: AdbDevice, program: Path, tmp_path: Path) -> None:
    odd = "sub folder/é 'x' $y"
    (tmp_path / "data").write_bytes(os.urandom(100_000))
    files = {"program": program, odd: tmp_path / "data"}
    assert device.push(files) == Pushed(2, program.stat().st_size + 100_000, 0)
    assert device.push(files) == Pushed(0, 0, 2)
    ran = device.run(["./program", "7"], env={"V": "a 'b' $c\n%s"})
    assert (ran.returncode, ran.stdout, ran.stderr) == (7, "out 7 a 'b' $c\n%s\n", "err")
    assert device.run(["program", "8"]).returncode == 8  # a bare name: the pushed one
    device.pull(odd, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == (tmp_path / "data").read_bytes()
    with pytest.raises(ConfigError, match="no file"):
        device.pull("absent", tmp_path / "absent")
    assert not (tmp_path / "absent").exists()


def test_only_what_changed_is_sent(device: AdbDevice, program: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    (tmp_path / "b").write_text("two")
    files = {"program": program, "a": tmp_path / "a", "b": tmp_path / "b"}
    first = device.push(files)
    assert (first.sent, first.bytes) == (3, program.stat().st_size + 6)
    assert device.push(files).bytes == 0
    os.utime(tmp_path / "a", (1, 1))  # another time, the same content
    assert device.push(files).bytes == 0
    (tmp_path / "a").write_text("three")
    assert device.push(files).bytes == 5
    program_mode = program.stat().st_mode
    (tmp_path / "b").chmod(0o755)
    assert device.push(files).sent == 1
    device.ask(f"cd {device.workdir} && rm a && echo x >b")  # somebody else's hand
    assert device.push(files).sent == 2
    assert device.ask(f"cat {device.workdir}/a {device.workdir}/b").stdout == "threetwo"
    device.remove(["a", "absent"])
    assert device.push(files).sent == 1 and program.stat().st_mode == program_mode
    again = AdbDevice(device.name)
    assert again.push(files).bytes == 0


def test_the_time_limit_ends_the_program_there(
    device: AdbDevice, program: Path, server: AdbServer, phone: Phone
) -> None:
    device.push({"program": program})
    ran = device.run(["./program", "0", "60"], timeout=0.5)
    assert ran.timed_out and ran.stdout.startswith("out") and ran.seconds < 5
    assert server.processes(phone) == []


def test_spawn_and_stop(device: AdbDevice, program: Path, server: AdbServer, phone: Phone) -> None:
    device.push({"program": program})
    process = device.spawn(["./program", "0", "60"])
    until(lambda: "err" in process.output())
    assert process.output() == "out 0 -\nerr" and process.poll() is None
    assert any(f"{process.pid} " in line for line in server.processes(phone))
    assert process.stop() == 128 + signal.SIGKILL  # it ignores SIGTERM
    assert server.processes(phone) == []
    short = device.spawn(["./program", "5"])
    until(lambda: short.poll() is not None)
    assert short.poll() == short.stop() == 5
    lost = device.spawn(["./absent"])
    until(lambda: lost.poll() is not None)
    assert lost.poll() == 127 and "absent" in lost.output()


def test_ports_of_others_stay(device: AdbDevice, server: AdbServer, phone: Phone) -> None:
    """Only our own are opened and removed; the same number is never taken over."""
    foreign, ours = free_port(), free_port()
    server.adb("-s", phone.serial, "forward", f"tcp:{foreign}", "tcp:1")
    server.adb("-s", phone.serial, "reverse", "tcp:9190", "tcp:2")
    with device.reverse(9190, ours) as remote, device.forward(ours):
        assert remote != 9190
        listed = server.adb("forward", "--list")
        assert f"tcp:{foreign} tcp:1" in listed and f"tcp:{ours} tcp:{ours}" in listed
        reverses = server.adb("reverse", "--list")
        assert "tcp:9190 tcp:2" in reverses and f"tcp:{remote} tcp:{ours}" in reverses
        with pytest.raises(PortTaken, match=f"port {foreign} is in use"), device.forward(foreign):
            pass
    assert server.adb("forward", "--list").split() == [phone.serial, f"tcp:{foreign}", "tcp:1"]
    assert server.adb("reverse", "--list").split() == ["UsbFfs", "tcp:9190", "tcp:2"]


# -- the states of a device -------------------------------------------------------------------


def open_it(spec: str) -> None:
    open_device(spec, settings=Settings(), toolchain=None)


def test_no_device(server: AdbServer) -> None:
    with pytest.raises(UsageError, match="no Android device is connected") as error:
        open_it("adb")
    assert "USB debugging" in (error.value.fix or "")


def test_one_good_among_bad_ones(server: AdbServer, phone: Phone, tmp_path: Path) -> None:
    with Phone(tmp_path, "locked", state="unauthorized") as locked, Phone(tmp_path, "off") as off:
        server.connect(locked)
        server.connect(off)
        off.order(unplugged=True)
        server.wait_for(locked, "unauthorized")
        server.wait_for(off, "offline")
        for spec in ("adb", f"adb:{phone.serial}", phone.serial):
            open_device(spec, settings=Settings(), toolchain=None).close()
        with pytest.raises(UsageError, match=r"can't be used: unauthorized") as error:
            open_it(locked.serial)
        assert "tap Allow" in (error.value.fix or "")
        with pytest.raises(UsageError, match=r"can't be used: offline") as error:
            open_it(f"adb:{off.serial}")
        assert f"adb connect {off.serial}" in (error.value.fix or "")
        with Phone(tmp_path, "second") as second:
            server.connect(second)
            with pytest.raises(UsageError, match="2 Android devices and none chosen") as error:
                open_it("adb")
            rows = "\n".join(error.value.details)
            assert f"{locked.serial}  unauthorized" in rows and f"{second.serial}  device" in rows


def test_too_old(server: AdbServer, tmp_path: Path) -> None:
    with Phone(tmp_path, api=22, features="cmd") as phone:
        server.connect(phone)
        with pytest.raises(UsageError, match="too old"):
            open_it("adb")


def test_server_of_another_version(server: AdbServer, phone: Phone, tmp_path: Path) -> None:
    """The server that runs is left running, with its devices."""
    adb = tmp_path / "adb"
    adb.write_text('#!/bin/sh\n[ "$1" = version ] && echo Android Debug Bridge version 1.0.39\nexit 1\n')
    adb.chmod(0o755)
    os.environ["ADB"] = str(adb)
    try:
        with pytest.raises(UsageError, match="another version") as error:
            open_it("adb")
    finally:
        del os.environ["ADB"]
    assert error.value.expected == "1.0.39 (this client)"
    assert error.value.found == f"1.0.{server_version(server.port)} (the server)"
    assert f"{phone.serial}\tdevice" in server.adb("devices")


def test_full(server: AdbServer, tmp_path: Path) -> None:
    with Phone(tmp_path, size="2m") as phone:
        server.connect(phone)
        device = AdbDevice(phone.serial)
        for name, size in (("fits", 1_500_000), ("does not", 1_500_000), ("never", 4_000_000)):
            (tmp_path / name).write_bytes(os.urandom(size))
        device.push({"fits": tmp_path / "fits"})
        for name in ("does not", "never"):
            with pytest.raises(UsageError, match="is full") as error:
                device.push({name: tmp_path / name})
            assert (error.value.expected or "").endswith("MB free")
        # Also when the room goes away between the look and the copy.
        device._known = lambda names: ({}, None)  # type: ignore[method-assign]
        with pytest.raises(UsageError, match="is full"):
            device.push({"does not": tmp_path / "does not"})
        listed = device.ask(f"ls -A {device.workdir}").stdout.split()
        assert sorted(listed) == [".buildtool-pushed", "fits"]
        assert server.leftovers(phone) == []


def test_noexec(server: AdbServer, tmp_path: Path) -> None:
    with Phone(tmp_path, noexec=True) as phone:
        server.connect(phone)
        with pytest.raises(UsageError, match="mounted noexec") as error:
            AdbDevice(phone.serial).push({})
        assert "workdir" in (error.value.fix or "")
        elsewhere = AdbDevice(phone.serial, workdir="/tmp/of mine")
        assert elsewhere.run(["/bin/true"]).returncode == 0 and str(elsewhere.workdir) == "/tmp/of mine"


def test_wrong_abi(server: AdbServer, device: AdbDevice, phone: Phone, tmp_path: Path) -> None:
    host = compile_c(tmp_path, "host", "int main(void) { return 0; }")
    with pytest.raises(ConfigError, match="built for another machine") as error:
        device.push({"host": host})
    assert error.value.expected == "arm64-v8a"
    assert "host" not in device.ask(f"ls {device.workdir}").stdout


def test_unplugged_in_mid_push(server: AdbServer, device: AdbDevice, phone: Phone, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(os.urandom(20_000_000))
    assert device.workdir
    device.properties()
    phone.order(drop_after=5_000_000)
    device.comes_back = lambda seconds: False  # type: ignore[method-assign]
    with pytest.raises(DeviceLost) as error:
        device.push({"big": tmp_path / "big"})
    assert "offline" in (error.value.found or "")
    phone.order(unplugged=False)
    server.wait_for(phone, "device")
    assert "big" not in device.ask(f"ls {device.workdir}").stdout
    assert device.push({"big": tmp_path / "big"}).sent == 1
    assert server.leftovers(phone) == []


def test_a_push_goes_on_when_the_device_comes_back(device: AdbDevice, phone: Phone, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(os.urandom(20_000_000))
    device.properties()
    phone.order(drop_after=5_000_000)
    plug = threading.Timer(1.0, lambda: phone.order(unplugged=False))
    plug.start()
    assert device.push({"big": tmp_path / "big"}).sent == 1
    plug.join()
    names = device.ask(f"ls -A {device.workdir}").stdout.split()
    assert sorted(names) == [".buildtool-pushed", "big"]


def test_unplugged_in_mid_run(server: AdbServer, device: AdbDevice, phone: Phone, program: Path) -> None:
    device.push({"program": program})
    pull = threading.Timer(1.0, lambda: phone.order(unplugged=True))
    pull.start()
    with pytest.raises(DeviceLost, match=r"was lost while ./program ran") as error:
        device.run(["./program", "0", "60"], timeout=30)
    pull.join()
    assert "offline" in (error.value.found or "")
    phone.order(unplugged=False)
    server.wait_for(phone, "device")
    until(lambda: server.leftovers(phone) == [])
    assert device.run(["./program"]).returncode == 0


def test_adb_server_restarted(server: AdbServer, device: AdbDevice, phone: Phone, program: Path) -> None:
    """What ran ends there; the next push connects again by itself."""
    device.push({"program": program})
    process = device.spawn(["./program", "0", "60"])
    until(lambda: "err" in process.output())
    server.adb("kill-server")
    until(lambda: process.poll() is not None)
    assert process.poll() == process.LOST and "connection to" in process.output()
    assert device.push({"program": program}).bytes == 0
    until(lambda: server.leftovers(phone) == [])


def test_a_frozen_device_is_not_waited_for(device: AdbDevice, phone: Phone, program: Path) -> None:
    device.push({"program": program})
    phone.order(frozen=True)
    begun = time.monotonic()
    with pytest.raises(BuildtoolError, match="did not answer within 1 s"):
        device.ask("true", timeout=1.0)
    assert time.monotonic() - begun < 5
    phone.order(frozen=False)
    assert device.run(["./program"]).returncode == 0


HOLDER = """
import sys, time
from pathlib import Path
from buildtool.core.errors import Terminated
from buildtool.devices.adb import AdbDevice
import signal

def end(number, frame):
    raise Terminated(number)

signal.signal(signal.SIGTERM, end)
device = AdbDevice(sys.argv[1])
with device.reverse(9190, int(sys.argv[2])), device.forward(int(sys.argv[2])):
    process = device.spawn(["./program", "0", "60"])
    while "err" not in process.output():
        time.sleep(0.05)
    print("ready", flush=True)
    try:
        device.run(["./program", "0", "60"])
    finally:
        device.close()
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_every_way_out_leaves_the_phone_clean(
    server: AdbServer, device: AdbDevice, phone: Phone, program: Path, how: signal.Signals
) -> None:
    device.push({"program": program})
    port = free_port()
    words = [sys.executable, "-c", HOLDER, phone.serial, str(port)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"ready\n"
        until(lambda: sum("./program" in line for line in server.processes(phone)) >= 4)
        holder.send_signal(how)
        holder.wait(15)
    until(lambda: server.processes(phone) == [])
    if how is not signal.SIGKILL:  # nothing of ours lives to remove the ports then
        assert server.leftovers(phone) == []
