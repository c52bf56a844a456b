"""TVM's server on a board behind ssh: files, ports, sessions, and nothing left behind."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from buildtool.devices.ssh import SshDevice
from buildtool.rpc.ports import LOOPBACK
from buildtool.rpc.server import RpcServer
from buildtool.rpc.tracker import Tracker
from tests.e2e.test_rpc_server import processes_with, sessions, wait_free
from tests.standins.sshd import Sshd

if TYPE_CHECKING:
    from buildtool.api import Line

pytestmark = [pytest.mark.e2e, pytest.mark.tvm]


@pytest.fixture
def board(host_runtime_line: Line, tmp_path: Path) -> Iterator[SshDevice]:
    with Sshd(tmp_path / "sshd") as sshd:
        options = sshd.isolated_options()
        device = SshDevice(
            LOOPBACK, user=sshd.user, port=sshd.port, workdir=str(tmp_path / "w"), options=options
        )
        yield device
        device.close()


def test_sessions_on_a_board(board: SshDevice, host_runtime_line: Line, tvm_python: Path) -> None:
    files = {a.name: a.path for a in host_runtime_line.artifacts.artifacts}
    assert board.push(files).sent == len(files)
    assert board.push(files).bytes == 0
    with Tracker(own=True) as tracker:
        with RpcServer(board, tracker=tracker) as one, RpcServer(board, tracker=tracker) as two:
            assert one.port != two.port
            assert sessions(tvm_python, tracker, [one.key, two.key, one.key]) == [True] * 3
            wait_free(tracker, one.key)
        assert processes_with(one.key) == processes_with(two.key) == []
        for server in (one, two):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((LOOPBACK, server.port), timeout=5)
