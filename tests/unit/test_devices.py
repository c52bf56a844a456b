"""Devices without a device: parsers, choices, the manifest, and what each state tells the user."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildtool.core.errors import BuildtoolError, ConfigError, ToolMissing, UsageError
from buildtool.devices import choosing, manifest, properties, session, shell
from buildtool.devices.adb_client import Adb, Listed, choose, find_adb, not_usable, parse_devices
from buildtool.settings import Settings
from buildtool.settings.model import DeviceSettings
from tests.standins.binaries import compile_c

DEVICES = """* daemon not running; starting now at tcp:5037
* daemon started successfully
List of devices attached
1a2b3c4d               device usb:1-2 product:kalama model:Pixel_8 device:kalama transport_id:3
192.168.0.7:5555       offline
R58M\tunauthorized
0123456789ABCDEF       no permissions (user in plugdev group; are your udev rules wrong?); see [http://x]

"""


def test_device_list() -> None:
    assert parse_devices(DEVICES) == [
        Listed("1a2b3c4d", "device", "Pixel_8"),
        Listed("192.168.0.7:5555", "offline"),
        Listed("R58M", "unauthorized"),
        Listed("0123456789ABCDEF", "no permissions"),
    ]


@given(st.text())
def test_device_list_takes_any_text(text: str) -> None:
    for row in parse_devices(text):
        assert row.serial and row.state


# What a user must read about each state: the word, and what to do.
@pytest.mark.parametrize(
    ("state", "advice"),
    [
        ("unauthorized", "tap Allow"),
        ("authorizing", "tap Allow"),
        ("offline", "adb disconnect S1"),
        ("no permissions", "udev"),
        ("recovery", "normal system"),
        (None, "plug one in"),
    ],
)
def test_each_state_says_what_to_do(state: str | None, advice: str) -> None:
    error = not_usable("S1", state)
    assert "S1" in error.what and advice in (error.fix or "")
    assert error.exit_code == 2


def test_choice_among_several() -> None:
    listed = parse_devices(DEVICES)
    assert choose(listed, None, where="x").serial == "1a2b3c4d"  # the only usable one
    assert choose(listed, "1a2b3c4d", where="x").model == "Pixel_8"
    with pytest.raises(UsageError, match="can't be used: offline"):
        choose(listed, "192.168.0.7:5555", where="x")
    with pytest.raises(UsageError, match="no Android device nope") as unknown:
        choose(listed, "nope", where="x")
    assert "R58M  unauthorized" in unknown.value.details
    two = [*listed, Listed("S2", "device")]
    with pytest.raises(UsageError, match="2 Android devices and none chosen") as several:
        choose(two, None, where="x")
    assert "ANDROID_SERIAL" in (several.value.fix or "")
    with pytest.raises(UsageError, match="no Android device is connected"):
        choose([], None, where="x")
    with pytest.raises(UsageError, match="no Android device can be used") as none:
        choose(listed[1:], None, where="x")
    for word in ("tap Allow", "udev", "offline"):
        assert word in (none.value.fix or "")


# -- the adb program -----------------------------------------------------------------------


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_adb_is_found_by_variable_path_and_sdk(tmp_path: Path) -> None:
    named = program(tmp_path / "mine" / "my-adb", "")
    in_path = program(tmp_path / "bin" / "adb", "")
    in_sdk = program(tmp_path / "sdk" / "platform-tools" / "adb", "")
    path = {"PATH": str(tmp_path / "bin")}
    assert find_adb({"ADB": str(named), **path}) == named
    assert find_adb(path) == in_path
    for variable in ("ANDROID_HOME", "ANDROID_SDK_ROOT"):
        assert find_adb({"PATH": str(tmp_path), variable: str(tmp_path / "sdk")}) == in_sdk
    with pytest.raises(ToolMissing, match="no such program") as wrong:
        find_adb({"ADB": str(tmp_path / "no-adb"), **path})
    assert "ADB=" in (wrong.value.where or "")


def test_no_adb_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ToolMissing, match="no adb") as error:
        find_adb({"PATH": str(tmp_path)})
    assert "buildtool[adb]" in (error.value.fix or "")


@pytest.fixture
def adb_port(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A socket that listens on the port that adb clients take."""
    listener = socket.create_server(("127.0.0.1", 0))
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(listener.getsockname()[1]))
    yield listener
    listener.close()


def answer(listener: socket.socket, data: bytes) -> None:
    def serve() -> None:
        link, _ = listener.accept()
        with link:
            assert link.recv(64) == b"000chost:version"
            link.sendall(data)

    threading.Thread(target=serve, daemon=True).start()


def test_server_of_another_version_is_left_alone(tmp_path: Path, adb_port: socket.socket) -> None:
    log = tmp_path / "log"
    adb = program(tmp_path / "adb", f'echo "$@" >>{log}; echo Android Debug Bridge version 1.0.41')
    answer(adb_port, b"OKAY00040027")
    with pytest.raises(UsageError, match="another version") as error:
        Adb(adb).devices()
    assert error.value.found == "1.0.39 (the server)"
    assert log.read_text() == "version\n"  # no command that would have ended the server


def test_server_port_held_by_another_service(tmp_path: Path, adb_port: socket.socket) -> None:
    answer(adb_port, b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(UsageError, match="another service"):
        Adb(program(tmp_path / "adb", "exit 1")).devices()


def test_server_port_must_be_a_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", "no")
    with pytest.raises(UsageError, match="not a port"):
        Adb(program(tmp_path / "adb", "exit 1")).devices()


# -- properties and manifest ----------------------------------------------------------------


def test_properties_of_this_machine() -> None:
    done = subprocess.run(
        ["sh", "-c", properties.SCRIPT.replace("@DIR@", "/")], capture_output=True, text=True, check=True
    )
    found = properties.parse(done.stdout)
    assert found.system == "linux" and found.abis and found.opencl_for_apps is None
    assert found.page_size == os.sysconf("SC_PAGE_SIZE")
    room = os.statvfs("/")
    assert found.free_bytes == pytest.approx(room.f_bavail * room.f_frsize, rel=0.05)


def test_properties_of_an_android_device() -> None:
    text = (
        "machine=aarch64\npages=KernelPageSize:        4 kB\ngpu=Adreno740v2\nandroid=1\n"
        "ro.product.cpu.abilist=arm64-v8a,armeabi-v7a\nro.product.model=Phone 5=X\n"
        "ro.build.version.sdk=34\nro.soc.manufacturer=QTI\nro.soc.model=SM8550\n"
        "opencl=/vendor/lib64/libOpenCL.so\nopencl=/system/lib/libOpenCL.so\npublic=1\ndisk\n"
        "Filesystem 1K-blocks Used Available Use% Mounted on\n/dev/block/dm-5 100 60 40 60% /data\n"
    )
    found = properties.parse(text)
    assert found.abis == ("arm64-v8a", "armeabi-v7a")
    assert (found.model, found.api_level, found.soc, found.gpu) == (
        "Phone 5=X",
        34,
        "QTI SM8550",
        "Adreno740v2",
    )
    assert (found.free_bytes, found.page_size) == (40 * 1024, 4096)
    assert (found.opencl, found.opencl_for_apps) == ("/vendor/lib64/libOpenCL.so", True)
    hidden = properties.parse(text.replace("public=1\n", ""))
    assert hidden.opencl_for_apps is False


@given(st.text())
def test_properties_take_any_text(text: str) -> None:
    assert properties.parse(text).model


def test_noexec_mounts() -> None:
    mounts = (
        "/dev/a / ext4 ro 0 0\n/dev/b /data ext4 rw,nosuid 0 0\n/dev/c /data/media fuse rw,noexec 0 0\n"
        "tmpfs /with\\040space tmpfs noexec 0 0\nbad line\n"
    )
    assert properties.mounted_noexec("/data/media/0", mounts)
    assert properties.mounted_noexec("/with space/x", mounts)
    assert not properties.mounted_noexec("/data/mediator", mounts)
    assert not properties.mounted_noexec("/data/local/tmp", mounts)
    # A later mount hides an earlier one at the same place.
    assert not properties.mounted_noexec("/data/media", mounts + "x /data/media ext4 rw 0 0\n")


def test_files_for_another_machine_are_refused(tmp_path: Path) -> None:
    binary = compile_c(tmp_path, "program", "int main(void) { return 0; }")
    properties.check_machines({"a": binary}, ("x86_64", "arm64-v8a"), "S1")
    with pytest.raises(ConfigError, match="another machine than the device S1") as error:
        properties.check_machines({"a": binary}, ("riscv64",), "S1")
    assert error.value.expected == "riscv64"
    text = tmp_path / "text"
    text.write_text("no program")
    properties.check_machines({"a": text}, ("riscv64",), "S1")


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), min_size=1)
ENTRIES = st.builds(
    manifest.Entry,
    st.text("0123456789abcdef", min_size=64, max_size=64),
    st.integers(0, 0o777),
    st.integers(0, 1 << 40),
    st.integers(0, 1 << 33),
)


@given(st.dictionaries(NAMES, ENTRIES, max_size=5))
def test_manifest_reads_back(entries: dict[str, manifest.Entry]) -> None:
    assert manifest.parse(manifest.render(entries)) == entries


def test_manifest_forgets_files_that_changed_there(tmp_path: Path) -> None:
    entries = {}
    for name in ("same", "longer", "touched", "chmod", "gone", "other"):
        path = tmp_path / name
        path.write_text(name)
        entries[name] = manifest.Entry.of(path)
    with (tmp_path / "longer").open("a") as stream:
        stream.write("!")
    os.utime(tmp_path / "longer", (entries["longer"].mtime,) * 2)
    os.utime(tmp_path / "touched", (1, 1))
    (tmp_path / "chmod").chmod(0o600)
    (tmp_path / "gone").unlink()
    asked = ["same", "longer", "touched", "chmod", "gone"]
    words = ["stat", "-c", "%s %Y %a %n", *(f"./{n}" for n in asked)]
    stats = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert set(manifest.alive(entries, asked, stats)) == {"same", "other"}


# -- the script that runs programs --------------------------------------------------------------


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), max_size=4),
    st.text(st.characters(codec="utf-8", exclude_characters="\0")),
)
def test_words_and_variables_arrive_exactly(words: list[str], value: str) -> None:
    script = session.run_script("/", ["/bin/sh", "-c", 'printf "%s|" "$V" "$@"', "sh", *words], {"V": value})
    done = subprocess.Popen(
        ["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert done.wait(20) == 0
    assert done.stdin and done.stdout and done.stderr
    assert done.stdout.read() == "|".join([value, *words, ""]).encode()
    assert session.exit_code(done.stderr.read().decode()) == 0
    for stream in (done.stdin, done.stdout, done.stderr):
        stream.close()


@pytest.mark.parametrize("words", [["dash"], ["bash", "--posix"], ["mksh"], ["busybox", "sh"], ["toybox"]])
def test_exit_code_and_words_in_every_shell(words: list[str], tmp_path: Path) -> None:
    """mksh and toybox are Android's, busybox and bash those of boards. Nothing of theirs is mixed in."""
    if shutil.which(words[0]) is None:
        pytest.skip(f"no {words[0]} on this machine")
    env = dict(os.environ)
    if words == ["toybox"]:  # no shell, but the tools that the script calls
        for tool in ("setsid", "env", "cat", "sleep"):
            (tmp_path / tool).symlink_to(shutil.which("toybox") or "")
        env["PATH"], words = f"{tmp_path}:{env['PATH']}", ["sh"]
    for inner, code in (("exit 41", 41), ("kill -9 $$", 137), ("kill -15 $$", 143), ("sleep 0.1", 0)):
        script = session.run_script("/", ["/bin/sh", "-c", f"echo out; echo words >&2; {inner}"], {"V": "1"})
        with subprocess.Popen(
            [*words, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        ) as process:
            process.wait(20)
            assert process.stderr is not None and process.stdout is not None
            text = process.stderr.read()
            assert session.exit_code(text) == code
            assert (process.stdout.read(), session.strip_marks(text)) == ("out\n", "words\n")
    assert session.exit_code("words") is None


@pytest.mark.parametrize("how", ["stdin closed", "client killed"])
def test_a_program_ends_with_its_connection(tmp_path: Path, how: str) -> None:
    """Also one that ignores SIGTERM, and its children."""
    pids = tmp_path / "pids"
    inner = f"trap '' TERM; sleep 60 & echo $$ $! >{pids}.new; mv {pids}.new {pids}; wait; sleep 60"
    # A middle process holds the pipe, as adb and ssh do.
    carrier = [
        "sh",
        "-c",
        'cat | sh -c "$0" 2>/dev/null',
        session.run_script("/", ["/bin/sh", "-c", inner], {}),
    ]
    process = subprocess.Popen(carrier, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdin is not None
    until(pids.exists)
    running = [int(pid) for pid in pids.read_text().split()]
    assert all(alive(pid) for pid in running)
    if how == "stdin closed":
        process.stdin.close()
    else:
        subprocess.run(["pkill", "-KILL", "-P", str(process.pid), "-x", "cat"], check=True)
    until(lambda: not any(alive(pid) for pid in running), seconds=6)
    process.stdin.close()
    process.wait(10)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition, seconds: float = 10) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)


# -- choosing -----------------------------------------------------------------------------------


class FakeClient:
    def __init__(self, rows: list[Listed] | None) -> None:
        self.rows = rows

    def devices(self) -> list[Listed]:
        if self.rows is None:
            raise ToolMissing("no adb to reach Android devices with")
        return self.rows


POOL = Settings(
    devices={
        "fast": DeviceSettings(kind="adb", serial="S1", labels=["adreno-740", "ci"]),
        "slow": DeviceSettings(kind="adb", serial="S2", labels=["ci"]),
        "board": DeviceSettings(kind="ssh", host="board.local", user="me", port=2222, labels=["linux"]),
    }
)
ONLINE = [Listed("S1", "device"), Listed("S2", "offline"), Listed("S3", "device")]


def names(spec: str, monkeypatch: pytest.MonkeyPatch, rows: list[Listed] | None = ONLINE) -> list[str]:
    monkeypatch.setattr(choosing, "_client", lambda: FakeClient(rows))
    return [c.name for c in choosing.candidates(spec, settings=POOL, toolchain=None)]


def test_specs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert names("qemu", monkeypatch) == ["qemu"]
    assert names("adb:S1", monkeypatch) == names("S1", monkeypatch) == names("fast", monkeypatch) == ["S1"]
    assert names("adreno-740", monkeypatch) == ["S1"]
    assert names("linux", monkeypatch) == names("ssh:me@board.local:2222", monkeypatch)
    assert names("S1,qemu,fast", monkeypatch) == ["S1", "qemu"]
    assert names("ssh:[fe80::1%eth0]:22", monkeypatch) == ["[fe80::1%eth0]:22"]
    assert names("all", monkeypatch) == ["S1", "me@board.local:2222", "S3"]
    assert "left out: the Android device S2 can't be used: offline" in capsys.readouterr().err


def test_android_serial(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="2 Android devices"):
        names("adb", monkeypatch)
    monkeypatch.setenv("ANDROID_SERIAL", "S3")
    assert names("adb", monkeypatch) == ["S3"]
    monkeypatch.setenv("ANDROID_SERIAL", "S9")
    with pytest.raises(UsageError, match="no Android device S9") as error:
        names("adb", monkeypatch)
    assert error.value.where == "environment ANDROID_SERIAL"


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("qemo", "unknown device 'qemo'"),
        ("ci", "can't be used: offline"),
        ("ssh:", "not an ssh address"),
        ("ssh:host:99999", "not an ssh address"),
        ("ssh:-oProxyCommand=x", "not an ssh address"),
        ("ssh:a b", "not an ssh address"),
        ("", "unknown device"),
    ],
)
def test_refused_specs(spec: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BuildtoolError) as error:
        names(spec, monkeypatch)
    assert says in error.value.what
    if spec == "qemo":
        assert error.value.fix == "did you mean 'qemu'?"


def test_all_without_adb_is_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    board = Settings(devices={"board": DeviceSettings(kind="ssh", host="h")})
    monkeypatch.setattr(choosing, "_client", lambda: FakeClient(None))
    assert [c.name for c in choosing.candidates("all", settings=board, toolchain=None)] == ["h"]
    with pytest.raises(ToolMissing):
        choosing.candidates("all", settings=Settings(), toolchain=None)


def test_one_device_is_asked_for_and_several_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        choosing, "_client", lambda: FakeClient([Listed("S1", "device"), Listed("S2", "device")])
    )
    with pytest.raises(UsageError, match="ci names several devices: S1, S2"):
        choosing.open_device("ci", settings=POOL, toolchain=None)


def test_user_names_make_plain_folders() -> None:
    assert shell.user_word("Jo hn/é$(x)") == "Jo_hn____x_"
    assert shell.user_word("") == "user"
