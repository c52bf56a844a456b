"""A board behind ssh: the system's ssh and sftp against a real sshd on this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from buildtool.core.errors import BuildtoolError, ConfigError, UsageError
from buildtool.core.types import Abi
from buildtool.devices.base import DeviceLost, PortTaken, Pushed
from buildtool.devices.ssh import SshDevice
from buildtool.rpc.ports import LOOPBACK, free_port
from buildtool.toolchains.host import host_abi
from tests.standins.binaries import ARM_CC, FAMILY, HOST_CC, compile_c
from tests.standins.sshd import Sshd

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with Sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
def board(sshd: Sshd, tmp_path: Path) -> Iterator[SshDevice]:
    device = connect(sshd, workdir=str(tmp_path / "there, on the board's disk"))
    yield device
    device.close()


def connect(sshd: Sshd, *, workdir: str | None = None, options: dict[str, str] | None = None) -> SshDevice:
    return SshDevice(
        LOOPBACK, user=sshd.user, port=sshd.port, workdir=workdir, options=options or sshd.options
    )


def script(folder: Path, text: str, name: str = "script") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def until(what: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(0.02)


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# -- files ---------------------------------------------------------------------------------


def test_the_second_push_sends_nothing(board: SshDevice, sshd: Sshd, tmp_path: Path) -> None:
    files = {"a": script(tmp_path, "exit 1", "a"), "below/b": script(tmp_path, "exit 2", "b")}
    size = sum(path.stat().st_size for path in files.values())
    assert board.push(files) == Pushed(2, size, 0)
    assert board.push(files) == Pushed(0, 0, 2)
    again = connect(sshd, workdir=str(board.workdir))
    assert again.push(files) == Pushed(0, 0, 2)
    again.close()
    assert board.run(["./below/b"]).returncode == 2
    script(tmp_path, "exit 6", "b")
    assert board.push(files).sent == 1
    assert board.run(["below/b"]).returncode == 6


@pytest.mark.parametrize("harm", ["overwrite", "delete"])
def test_what_was_changed_there_is_sent_again(board: SshDevice, tmp_path: Path, harm: str) -> None:
    files = {"a": script(tmp_path, "exit 1", "a")}
    board.push(files)
    there = Path(board.workdir / "a")
    there.unlink() if harm == "delete" else there.write_text("#!/bin/sh\nexit 99\n")
    assert board.push(files).sent == 1
    assert board.run(["./a"]).returncode == 1


NAMES = ["two words", "it's", 'q"q', "a*b[c]?", "back\\slash", "\\*", "$(x);&", "-rf", "ü.so"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_comes_and_goes(board: SshDevice, tmp_path: Path, name: str) -> None:
    source = tmp_path / "from" / name
    source.parent.mkdir()
    source.write_bytes(os.urandom(300_000))
    assert board.push({f"sub/{name}": source}) == Pushed(1, 300_000, 0)
    back = tmp_path / "back" / name
    board.pull(f"sub/{name}", back)
    assert back.read_bytes() == source.read_bytes()
    assert board.push({f"sub/{name}": source}).sent == 0
    board.remove([f"sub/{name}"])
    with pytest.raises(ConfigError, match="no file"):
        board.pull(f"sub/{name}", tmp_path / "never")
    assert not (tmp_path / "never").exists()


def test_a_line_break_in_a_name_is_refused(board: SshDevice, tmp_path: Path) -> None:
    """In an sftp batch it would begin a second command."""
    evil = script(tmp_path, "", "x\n!touch there")
    with pytest.raises(ConfigError, match="line break"):
        board.push({"x": evil})
    assert not Path("there").exists()


def test_a_file_of_another_machine_is_refused_before_anything_is_sent(
    board: SshDevice, tmp_path: Path
) -> None:
    if host_abi() is Abi.ARM64:
        pytest.skip("aarch64 is this machine's own")
    arm = compile_c(tmp_path, "arm", "int main(void) { return 0; }\n", cc=ARM_CC)
    files = {"a": script(tmp_path, ""), "arm": arm}
    with pytest.raises(ConfigError, match="arm is built for another machine"):
        board.push(files)
    assert list(Path(board.workdir).iterdir()) == []


def test_the_default_folder_is_in_the_users_home(sshd: Sshd) -> None:
    device = connect(sshd)
    assert device.workdir == sshd.home / ".buildtool"
    device.close()


# -- programs ------------------------------------------------------------------------------


def test_exit_code_output_environment_and_quoting(board: SshDevice, tmp_path: Path) -> None:
    board.push({"s": script(tmp_path, 'echo "$A|$1|$#"; echo bad >&2; pwd; exit 9', "s")})
    ran = board.run(["./s", "a  b;$(x)'\"\\"], env={"A": "x y,z=$HOME"})
    assert ran.stdout == f"x y,z=$HOME|a  b;$(x)'\"\\|1\n{board.workdir}\n"
    assert (ran.returncode, ran.stderr, ran.timed_out) == (9, "bad\n", False)


def test_a_signal_shows_as_a_shell_tells_it(board: SshDevice, tmp_path: Path) -> None:
    board.push({"s": script(tmp_path, "kill -6 $$", "s")})
    assert board.run(["./s"]).returncode == 128 + 6


def test_the_time_limit_ends_all_that_was_started(board: SshDevice, tmp_path: Path) -> None:
    board.push({"s": script(tmp_path, "sleep 77 & echo $!; wait", "s")})
    ran = board.run(["./s"], timeout=0.5)
    assert ran.timed_out and ran.seconds < 5
    until(lambda: not running(int(ran.stdout)))


def test_a_large_output_arrives_whole(board: SshDevice, tmp_path: Path) -> None:
    board.push({"s": script(tmp_path, "head -c 5000000 /dev/zero | tr '\\0' x", "s")})
    assert board.run(["./s"], timeout=60).stdout == "x" * 5_000_000


@pytest.mark.parametrize("how", ["stop", "close", "cut"])
def test_nothing_is_left_running(board: SshDevice, sshd: Sshd, tmp_path: Path, how: str) -> None:
    board.push({"family": compile_c(tmp_path, "family", FAMILY, cc=HOST_CC)})
    process = board.spawn(["./family"])
    until(lambda: "family" in process.output())
    pids = [int(word) for word in process.output().split()[1:3]]
    assert process.pid == pids[0] and process.poll() is None and all(map(running, pids))
    if how == "stop":
        assert process.stop() == 128 + signal.SIGTERM
    elif how == "close":
        board.close()
    else:
        sshd.cut()
        until(lambda: process.poll() == process.LOST)
        assert "lost" in process.output()
    until(lambda: not any(map(running, pids)))


def test_nothing_is_left_when_we_are_killed_outright(sshd: Sshd, tmp_path: Path) -> None:
    """Not the program there, not the port there, and not the shared connection here."""
    program = compile_c(tmp_path, "family", FAMILY, cc=HOST_CC)
    port = free_port()
    code = f"""
import time
from pathlib import Path
from buildtool.devices.ssh import SshDevice
board = SshDevice({LOOPBACK!r}, user={sshd.user!r}, port={sshd.port}, workdir={str(tmp_path / "w")!r},
                  options={sshd.options!r})
board.push({{"family": Path({str(program)!r})}})
process = board.spawn(["./family"])
with board.reverse({port}, {sshd.port}):
    while "family" not in process.output():
        time.sleep(0.02)
    print(process.output(), board._folder, flush=True)
    time.sleep(60)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    words = (child.stdout.readline() + child.stdout.readline()).split()
    pids, folder = words[1:3], words[3]
    socket.create_connection((LOOPBACK, port), timeout=5).close()
    child.kill()
    child.communicate()
    until(lambda: not any(running(int(pid)) for pid in pids))
    until(lambda: not masters(folder))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, port), timeout=5)


def masters(folder: str) -> list[str]:
    """ssh processes that share a connection by a socket in ``folder``."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().decode()
        except OSError:
            continue
        if folder in line and line.startswith("ssh"):
            found.append(line)
    return found


def test_close_ends_the_shared_connection(board: SshDevice) -> None:
    folder = str(board._folder)
    board.run(["/bin/true"])
    assert masters(folder)
    board.close()
    until(lambda: not masters(folder))
    assert not Path(folder).exists()


# -- ports ---------------------------------------------------------------------------------


@pytest.fixture
def echo() -> Iterator[int]:
    """A service here that sends back what it gets; its port."""
    with socket.create_server((LOOPBACK, 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    link, _ = listener.accept()
                except OSError:
                    return
                with link:
                    while data := link.recv(1 << 16):
                        link.sendall(data)

        threading.Thread(target=serve, daemon=True).start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)


def said(port: int, text: bytes = b"hello") -> bytes:
    with socket.create_connection((LOOPBACK, port), timeout=5) as link:
        link.sendall(text)
        link.shutdown(socket.SHUT_WR)
        data = b""
        while part := link.recv(1 << 16):
            data += part
        return data


def test_reverse_reaches_us_until_it_ends(board: SshDevice, echo: int) -> None:
    wanted = free_port()
    with board.reverse(wanted, echo) as there:
        assert there == wanted and said(there) == b"hello"
    with pytest.raises(ConnectionRefusedError):
        said(wanted)


def test_reverse_of_a_taken_port_takes_another_and_says_so(board: SshDevice, echo: int) -> None:
    with board.reverse(echo, echo) as there:  # this machine's port is the board's: it is taken
        assert there != echo and said(there) == b"hello"
    with pytest.raises(ConnectionRefusedError):
        said(there)


def test_forward_of_a_taken_port_is_refused(board: SshDevice, echo: int) -> None:
    with pytest.raises(PortTaken, match=f"port {echo} is in use"), board.forward(echo):
        pass


def test_forward_has_the_same_number_and_goes_again(board: SshDevice) -> None:
    port = free_port()
    with board.forward(port) as here:
        assert here == port
        # The board is this machine: the port that listens now is ssh's own.
        socket.create_connection((LOOPBACK, port), timeout=5).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, port), timeout=5)


def test_only_our_own_ports_are_given_up(board: SshDevice, sshd: Sshd, tmp_path: Path, echo: int) -> None:
    other = connect(sshd, workdir=str(tmp_path / "other"))
    with other.reverse(free_port(), echo) as theirs:
        with board.reverse(free_port(), echo) as ours:
            assert said(ours) == said(theirs) == b"hello"
        assert said(theirs) == b"hello"
        board.close()
        assert said(theirs) == b"hello"
    other.close()


def test_a_server_that_forbids_forwarding_is_told(tmp_path: Path, echo: int) -> None:
    with Sshd(tmp_path / "strict", forwarding=False) as strict:
        device = connect(strict, workdir=str(tmp_path / "w"))
        with pytest.raises(BuildtoolError, match="AllowTcpForwarding"), device.reverse(free_port(), echo):
            pass
        device.close()


# -- what goes wrong -----------------------------------------------------------------------


def test_a_key_that_is_not_let_in(sshd: Sshd) -> None:
    with pytest.raises(UsageError, match="can't log in to") as caught:
        connect(sshd, options=sshd.options_with(key="other-key"))
    assert "ssh-copy-id" in str(caught.value.fix)


def test_an_unknown_host_key(sshd: Sshd) -> None:
    with pytest.raises(UsageError, match="can't log in to") as caught:
        connect(sshd, options=sshd.options_with(known="absent"))
    assert "compare the host key" in str(caught.value.fix)


def test_a_changed_host_key(sshd: Sshd, tmp_path: Path) -> None:
    other = Path(sshd.options["IdentityFile"]).with_name("other-key.pub").read_text()
    (tmp_path / "known").write_text(f"[{LOOPBACK}]:{sshd.port} {other}")
    with pytest.raises(UsageError) as caught:
        connect(sshd, options={**sshd.options, "UserKnownHostsFile": str(tmp_path / "known")})
    assert "another machine answers" in str(caught.value.fix)


def test_no_server_there() -> None:
    port = free_port()
    with pytest.raises(UsageError) as caught:
        SshDevice(LOOPBACK, user="nobody", port=port)
    assert caught.value.where == f"ssh:nobody@127.0.0.1:{port}"
    assert "start sshd there" in str(caught.value.fix)


def test_an_unknown_host() -> None:
    with pytest.raises(UsageError) as caught:
        SshDevice("no-such-board.invalid")
    assert "host's name" in str(caught.value.fix)


def test_a_connection_lost_in_mid_run(board: SshDevice, sshd: Sshd, tmp_path: Path) -> None:
    board.push({"s": script(tmp_path, "echo begun; sleep 60", "s")})
    timer = threading.Timer(0.7, sshd.cut)
    timer.start()
    with pytest.raises(DeviceLost, match=r"was lost while \./s ran"):
        board.run(["./s"], timeout=20)
    timer.join()
    # What may be done twice is done again, on a new connection.
    assert board.push({"s": script(tmp_path, "exit 3", "s")}).sent == 1
    assert board.run(["./s"]).returncode == 3


def test_a_connection_lost_before_a_push(board: SshDevice, sshd: Sshd, tmp_path: Path) -> None:
    board.push({"a": script(tmp_path, "exit 1", "a")})
    sshd.cut()
    assert board.push({"a": script(tmp_path, "exit 2", "a")}).sent == 1
    assert board.run(["./a"]).returncode == 2


def test_a_folder_that_cannot_be_made(sshd: Sshd) -> None:
    device = connect(sshd, workdir="/proc/buildtool")
    with pytest.raises(BuildtoolError, match="can't make the folder /proc/buildtool"):
        device.workdir.is_absolute()
    device.close()
