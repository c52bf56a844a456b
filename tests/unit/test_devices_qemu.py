"""The emulated device and this machine as a device: files, programs, time limits, what is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from buildtool.core.errors import ConfigError, ToolMissing
from buildtool.core.types import Abi
from buildtool.devices import open_device, qemu
from buildtool.devices.base import Pushed
from buildtool.devices.qemu import QemuDevice, default_root, find_qemu
from buildtool.settings import load
from buildtool.toolchains.host import host_abi
from tests.standins.binaries import ARM_CC, ARM_SYSROOT, FAMILY, compile_c

SHOW = r"""
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **words) {
  for (int i = 1; i < count; i++) {
    const char *value = getenv(words[i]);
    printf("%s=%s\n", words[i], value ? value : "(unset)");
  }
  fprintf(stderr, "said on stderr\n");
  return count + 2;
}
"""
ADD = "int add(int a, int b) { return a + b; }\n"
CALL = '#include <stdio.h>\nint add(int, int);\nint main(void) { printf("%d\\n", add(40, 2)); return 0; }\n'


def script(folder: Path, text: str, name: str = "script", mode: int = 0o755) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)
    return path


@pytest.fixture
def local(tmp_path: Path) -> Iterator[QemuDevice]:
    device = QemuDevice(tmp_path / "root", abi=host_abi(), sysroot=None, qemu=None)
    yield device
    device.close()


@pytest.fixture
def arm(tmp_path: Path) -> Iterator[QemuDevice]:
    if host_abi() is Abi.ARM64:
        pytest.skip("this machine runs aarch64 programs itself")
    try:
        program = find_qemu(Abi.ARM64)
    except ToolMissing as exc:
        pytest.skip(exc.what)
    device = QemuDevice(tmp_path / "root", abi=Abi.ARM64, sysroot=ARM_SYSROOT, qemu=program)
    yield device
    device.close()


def arm_program(folder: Path, code: str, name: str = "program", *flags: str) -> Path:
    return compile_c(folder, name, code, *flags, cc=ARM_CC)


def gone(pid: int, seconds: float = 5.0) -> bool:
    """Whether the process ends within that time (a zombie has ended)."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


# -- files ---------------------------------------------------------------------------------


def test_the_second_push_sends_nothing(local: QemuDevice, tmp_path: Path) -> None:
    files = {"a": script(tmp_path, "exit 1", "a"), "below/b": script(tmp_path, "exit 2", "b")}
    size = sum(path.stat().st_size for path in files.values())
    assert local.push(files) == Pushed(2, size, 0)
    assert local.push(files) == Pushed(0, 0, 2)
    assert local.run(["./below/b"]).returncode == 2


def test_the_second_push_sends_nothing_from_another_process_either(local: QemuDevice, tmp_path: Path) -> None:
    local.push({"a": script(tmp_path, "exit 1", "a")})
    again = QemuDevice(tmp_path / "root", abi=host_abi(), sysroot=None, qemu=None)
    assert again.push({"a": tmp_path / "a"}).sent == 0


def test_what_changed_is_sent(local: QemuDevice, tmp_path: Path) -> None:
    a, b = script(tmp_path, "exit 1", "a"), script(tmp_path, "exit 2", "b")
    local.push({"a": a, "b": b})
    script(tmp_path, "exit 7", "a")
    assert local.push({"a": a, "b": b}) == Pushed(1, a.stat().st_size, 1)
    assert local.run(["a"]).returncode == 7


def test_a_changed_mode_is_sent(local: QemuDevice, tmp_path: Path) -> None:
    path = script(tmp_path, "exit 4", mode=0o644)
    local.push({"script": path})
    with pytest.raises(ConfigError, match="not executable"):
        local.run(["./script"])
    path.chmod(0o755)
    assert local.push({"script": path}).sent == 1
    assert local.run(["./script"]).returncode == 4


@pytest.mark.parametrize("harm", ["overwrite", "delete", "manifest"])
def test_what_was_changed_behind_our_back_is_sent_again(local: QemuDevice, tmp_path: Path, harm: str) -> None:
    files = {"a": script(tmp_path, "exit 3", "a")}
    local.push(files)
    there = Path(local.workdir / "a")
    if harm == "overwrite":
        there.write_text("#!/bin/sh\nexit 9\n")  # as long as before
    elif harm == "delete":
        there.unlink()
    else:
        Path(local.workdir / ".buildtool-pushed.json").write_text("{broken")
    assert local.push(files).sent == 1
    assert local.run(["./a"]).returncode == 3


def test_a_push_that_broke_off_leaves_no_false_memory(local: QemuDevice, tmp_path: Path) -> None:
    """The old file, pushed again after a push of the new one failed half-way."""
    path = script(tmp_path, "exit 1", "a")
    old = path.read_bytes()
    local.push({"a": path})
    script(tmp_path, "exit 2", "a")
    with pytest.raises(FileNotFoundError):
        local.push({"a": path, "b": tmp_path / "absent"})
    path.write_bytes(old)
    local.push({"a": path})
    assert local.run(["./a"]).returncode == 1


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x"])
def test_nothing_is_pushed_outside(local: QemuDevice, tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="below the device's folder"):
        local.push({name: script(tmp_path, "")})
    with pytest.raises(ConfigError, match="below the device's folder"):
        local.remove([name])


def test_a_running_program_keeps_its_file(local: QemuDevice, tmp_path: Path) -> None:
    program = compile_c(tmp_path, "program", "#include <unistd.h>\nint main(void) { pause(); return 0; }\n")
    local.push({"program": program})
    process = local.spawn(["./program"])
    newer = compile_c(tmp_path, "newer", "int main(void) { return 5; }\n")
    assert local.push({"program": newer}).sent == 1  # and no "text file busy"
    assert local.run(["./program"]).returncode == 5
    assert process.poll() is None
    assert process.stop() == -signal.SIGTERM


def test_pull_and_remove(local: QemuDevice, tmp_path: Path) -> None:
    local.push({"a": script(tmp_path, "exit 1", "a")})
    local.pull("a", tmp_path / "deep" / "back")
    local.pull(str(local.workdir / "a"), tmp_path / "back")
    assert (tmp_path / "deep" / "back").read_bytes() == (tmp_path / "back").read_bytes()
    assert (tmp_path / "back").read_bytes() == (tmp_path / "a").read_bytes()
    local.remove(["a", "never-there"])
    with pytest.raises(ConfigError, match="no file a on the device local"):
        local.pull("a", tmp_path / "other")
    assert not (tmp_path / "other").exists()
    assert local.push({"a": tmp_path / "a"}).sent == 1


def test_a_full_disk_leaves_the_old_file(
    local: QemuDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = script(tmp_path, "exit 1", "a")
    local.push({"a": path})
    script(tmp_path, "exit 2", "a")

    def full(source: Path, target: str) -> None:
        Path(target).write_bytes(b"hal")
        raise OSError(28, "No space left on device", target)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copy", full)
        with pytest.raises(OSError, match="No space left"):
            local.push({"a": path})
    assert local.run(["./a"]).returncode == 1
    assert sorted(p.name for p in Path(local.workdir).iterdir()) == [".buildtool-pushed.json", "a"]
    assert local.push({"a": path}).sent == 1


# -- programs ------------------------------------------------------------------------------


def test_exit_code_output_and_environment(local: QemuDevice, tmp_path: Path) -> None:
    local.push({"s": script(tmp_path, 'echo "$A|$1"; echo bad >&2; exit 9', "s")})
    ran = local.run(["./s", "two words;$(x)"], env={"A": "b c,d"})
    assert (ran.returncode, ran.stdout, ran.stderr) == (9, "b c,d|two words;$(x)\n", "bad\n")
    assert not ran.timed_out and ran.argv == ("./s", "two words;$(x)")


def test_only_some_variables_of_this_machine_are_seen(
    local: QemuDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    local.push({"s": script(tmp_path, 'echo "[$SECRET_TOKEN]"', "s")})
    assert local.run(["./s"]).stdout == "[]\n"


def test_the_time_limit_ends_all_that_was_started(local: QemuDevice, tmp_path: Path) -> None:
    local.push({"s": script(tmp_path, "sleep 60 & echo $!; wait", "s")})
    begun = time.monotonic()
    ran = local.run(["./s"], timeout=0.3)
    assert ran.timed_out and time.monotonic() - begun < 5
    assert gone(int(ran.stdout))


def test_stop_and_close_end_all_that_was_started(local: QemuDevice, tmp_path: Path) -> None:
    local.push({"program": compile_c(tmp_path, "program", FAMILY)})
    for end in ("stop", "close"):
        process = local.spawn(["./program"])
        deadline = time.monotonic() + 5
        while not process.output().startswith("family") and time.monotonic() < deadline:
            time.sleep(0.01)
        child = int(process.output().split()[2])
        assert process.poll() is None
        if end == "stop":
            assert process.stop() == -signal.SIGTERM
        else:
            local.close()
        assert process.poll() == -signal.SIGTERM
        assert gone(process.pid) and gone(child)


def test_a_flood_of_output_does_not_block_a_program(local: QemuDevice, tmp_path: Path) -> None:
    local.push(
        {"s": script(tmp_path, "i=0; while [ $i -lt 9 ]; do i=$((i+1)); printf '%65536d' 1; done", "s")}
    )
    process = local.spawn(["./s"])
    deadline = time.monotonic() + 10
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process.poll() == 0 and len(process.output()) == 9 * 65536


def test_wrong_programs_are_named(local: QemuDevice, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no program absent on the device local"):
        local.run(["./absent"])
    local.push({"arm": arm_program(tmp_path, "int main(void) { return 0; }\n", "arm")})
    with pytest.raises(ConfigError, match="arm is built for another machine") as caught:
        local.run(["./arm"])
    assert caught.value.expected and host_abi().value in caught.value.expected
    assert caught.value.found == "ELF machine 183"


def test_this_machines_properties(local: QemuDevice) -> None:
    seen = local.properties()
    assert (seen.abis, seen.system) == ((host_abi().value,), "linux")
    assert seen.page_size == os.sysconf("SC_PAGE_SIZE") and seen.free_bytes and seen.free_bytes > 0


def test_a_named_device_has_a_system_of_its_own(arm: QemuDevice, tmp_path: Path, private_cache: Path) -> None:
    """As an Android root folder would: the loader is that of the root, whatever a program calls it."""
    system = tmp_path / "pie"
    (system / "system" / "bin").mkdir(parents=True)
    (system / "lib").mkdir()
    shutil.copy(ARM_SYSROOT / "lib" / "ld-linux-aarch64.so.1", system / "system" / "bin" / "linker64")
    for name in ("ld-linux-aarch64.so.1", "libc.so.6"):
        shutil.copy(ARM_SYSROOT / "lib" / name, system / "lib" / name)
    (tmp_path / "buildtool.toml").write_text('[devices.pie]\nkind = "qemu"\nsysroot = "pie"\n')
    settings = load(cwd=tmp_path, env={})
    loader = "-Wl,--dynamic-linker=/system/bin/linker64"
    program = arm_program(tmp_path, "int main(void) { return 9; }\n", "nine", loader)
    device = open_device("pie", settings=settings, toolchain=None)
    device.push({"nine": program})
    assert device.run(["./nine"]).returncode == 9
    arm.push({"nine": program})
    with pytest.raises(ConfigError, match="needs the loader /system/bin/linker64"):
        arm.run(["./nine"])
    shutil.rmtree(system)
    with pytest.raises(ConfigError, match="no such folder") as caught:
        open_device("pie", settings=settings, toolchain=None)
    assert caught.value.where == f"[devices.pie] sysroot = {system}"


def test_ports_are_this_machines(local: QemuDevice) -> None:
    with local.reverse(1, 9190) as there, local.forward(5000) as here:
        assert (there, here) == (9190, 5000)


# -- emulated ------------------------------------------------------------------------------


def test_emulated_exit_code_output_and_environment(arm: QemuDevice, tmp_path: Path) -> None:
    arm.push({"show": arm_program(tmp_path, SHOW, "show")})
    # A comma in a value: qemu's -E would split there.
    ran = arm.run(["./show", "A", "B", "NONE"], env={"A": "x y=z", "B": "p,q=r,s"})
    assert ran.stdout == "A=x y=z\nB=p,q=r,s\nNONE=(unset)\n"
    assert (ran.returncode, ran.stderr) == (6, "said on stderr\n")


def test_a_library_in_the_work_folder_is_found(arm: QemuDevice, tmp_path: Path) -> None:
    library = arm_program(tmp_path, ADD, "libadd.so")
    program = arm_program(tmp_path, CALL, "call", str(library))
    arm.push({"libadd.so": library, "call": program})
    assert arm.run(["./call"], env={"LD_LIBRARY_PATH": str(arm.workdir)}).stdout == "42\n"
    lost = arm.run(["./call"])
    assert lost.returncode != 0 and "libadd.so: cannot open shared object file" in lost.stderr


def test_emulated_time_limit_and_stop(arm: QemuDevice, tmp_path: Path) -> None:
    arm.push({"program": arm_program(tmp_path, FAMILY)})
    ran = arm.run(["./program"], timeout=0.5)
    assert ran.timed_out and gone(int(ran.stdout.split()[2]))
    process = arm.spawn(["./program"])
    deadline = time.monotonic() + 5
    while not process.output() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process.stop() < 0 and gone(int(process.output().split()[2]))


def test_a_crash_shows_its_signal(arm: QemuDevice, tmp_path: Path) -> None:
    code = "#include <stdlib.h>\nint main(void) { abort(); }\n"
    arm.push({"crash": arm_program(tmp_path, code, "crash")})
    assert arm.run(["./crash"]).returncode == -signal.SIGABRT


def test_a_static_program_needs_no_sysroot(arm: QemuDevice, tmp_path: Path) -> None:
    bare = QemuDevice(tmp_path / "bare", abi=Abi.ARM64, sysroot=None, qemu=find_qemu(Abi.ARM64))
    static = arm_program(tmp_path, "int main(void) { return 8; }\n", "static", "-static")
    bare.push(
        {"static": static, "dynamic": arm_program(tmp_path, "int main(void) { return 8; }\n", "dynamic")}
    )
    assert bare.run(["./static"]).returncode == 8
    if Path("/lib/ld-linux-aarch64.so.1").exists():
        pytest.skip("this machine has the loader itself (libc6:arm64)")
    with pytest.raises(ConfigError, match=r"dynamic needs the loader /lib/ld-linux-aarch64\.so\.1") as caught:
        bare.run(["./dynamic"])
    assert caught.value.where == "no sysroot" and "toolchains.sysroot" in str(caught.value.fix)


def test_a_plain_folder_serves_as_sysroot(arm: QemuDevice, tmp_path: Path) -> None:
    lib = tmp_path / "a sysroot, of ours" / "lib"
    lib.mkdir(parents=True)
    for name in ("ld-linux-aarch64.so.1", "libc.so.6"):
        shutil.copy(ARM_SYSROOT / "lib" / name, lib / name)
    device = QemuDevice(tmp_path / "plain", abi=Abi.ARM64, sysroot=lib.parent, qemu=find_qemu(Abi.ARM64))
    device.push({"show": arm_program(tmp_path, SHOW, "show")})
    assert device.run(["./show", "A"], env={"A": "1"}).stdout == "A=1\n"
    (lib / "ld-linux-aarch64.so.1").unlink()
    if not Path("/lib/ld-linux-aarch64.so.1").exists():
        with pytest.raises(ConfigError, match="needs the loader"):
            device.run(["./show"])


@pytest.mark.parametrize("size", [20, 64, 700])
def test_a_damaged_program_is_an_error_of_ours(arm: QemuDevice, tmp_path: Path, size: int) -> None:
    program = arm_program(tmp_path, SHOW, "show")
    program.write_bytes(program.read_bytes()[:size])
    arm.push({"show": program})
    try:
        ran = arm.run(["./show"])
    except ConfigError as exc:
        assert "damaged ELF file" in exc.what
    else:
        assert ran.returncode != 0


def test_a_host_program_is_refused_there(arm: QemuDevice, tmp_path: Path) -> None:
    arm.push({"host": compile_c(tmp_path, "host", "int main(void) { return 0; }\n")})
    with pytest.raises(ConfigError, match="host is built for another machine") as caught:
        arm.run(["./host"])
    assert caught.value.expected == "arm64-v8a (ELF machine 183)"


def test_emulated_properties(arm: QemuDevice) -> None:
    seen = arm.properties()
    assert (seen.abis, seen.system) == (("arm64-v8a",), "emulated")
    assert seen.model.startswith("qemu-aarch64") and seen.model.split()[1][0].isdigit()


def test_a_missing_emulator_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu, "which", lambda name: None)
    with pytest.raises(ToolMissing, match="no qemu-riscv64") as caught:
        find_qemu(Abi.RISCV64)
    assert "apt-get install qemu-user-static" in str(caught.value.fix)


def test_two_projects_and_kinds_have_their_own_folders(private_cache: Path) -> None:
    roots = {default_root(k, Abi.ARM64, s) for k in ("qemu", "local") for s in ("/one/build", "/two/build")}
    assert len(roots) == 4 and all(private_cache in root.parents for root in roots)
