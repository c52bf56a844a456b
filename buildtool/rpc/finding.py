"""Which tracker is meant, when none is named; and the variables that name one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from buildtool.core.console import screen
from buildtool.core.errors import UsageError
from buildtool.rpc import state
from buildtool.rpc.ports import LOOPBACK, free_port, is_free
from buildtool.rpc.tracker import TrackerAddress

if TYPE_CHECKING:
    from buildtool.toolchains.model import Toolchain

DEFAULT_PORT = 9190


def listen_port(host: str, wanted: int | None) -> int:
    """The port for a tracker of ours: ``wanted``, else the usual one, else a free one. Raises UsageError."""
    try:
        free_port(host)
    except OSError as exc:
        raise UsageError(f"can't listen on {host}: {exc.strerror or exc}", where=f"--host {host}") from exc
    port = wanted or DEFAULT_PORT
    if is_free(host, port):
        return port
    if wanted:
        raise UsageError(
            f"port {wanted} is in use", where=f"--port {wanted}", fix="leave --port out for a free one"
        )
    chosen = free_port(host)
    screen.info(f"port {port} is in use; taking {chosen}")
    return chosen


def parse_address(text: str, *, where: str) -> TrackerAddress:
    """``HOST:PORT``, ``PORT`` or ``[V6]:PORT``. Raises UsageError."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageError("not a tracker's address", where=f"{where} {text}", expected="HOST:PORT or PORT")
    return TrackerAddress(host.strip("[]") or LOOPBACK, int(port))


def find_tracker(
    named: str | None, env: Mapping[str, str] | None = None
) -> tuple[TrackerAddress | None, str]:
    """The tracker that is meant, None when there is no hint, and where the hint came from.

    In this order: the flag, TVM_TRACKER_HOST and TVM_TRACKER_PORT, a running tracker of ours, the one that a
    running ``serve`` uses.
    """
    env = os.environ if env is None else env
    if named:
        return parse_address(named, where="--tracker"), "--tracker"
    if port := env.get("TVM_TRACKER_PORT"):
        host = env.get("TVM_TRACKER_HOST") or LOOPBACK
        # 0.0.0.0 is where a tracker listens, not where it is reached.
        host = LOOPBACK if host == "0.0.0.0" else host  # noqa: S104
        return parse_address(f"{host}:{port}", where="environment TVM_TRACKER_PORT"), "environment"
    entries = state.running()
    for entry in [e for e in entries if e.kind == state.TRACKER][::-1]:
        return TrackerAddress(entry.host, entry.port), f"process {entry.pid}"
    for entry in [e for e in entries if e.kind == state.SERVE and e.tracker][::-1]:
        return parse_address(entry.tracker, where=f"process {entry.pid}"), f"process {entry.pid}"
    return None, ""


def variables(address: TrackerAddress, key: str, target: str, toolchain: Toolchain | None) -> dict[str, str]:
    """What TVM's documented scripts read: tracker, key, target and, with a toolchain, the compiler."""
    found = {
        "TVM_TRACKER_HOST": address.host,
        "TVM_TRACKER_PORT": str(address.port),
        "RPC_DEVICE_KEY": key,
        "RPC_TARGET": target,
    }
    if toolchain is None:
        return found
    # One program that needs no flags, as the scripts call it: the NDK has one for each API level.
    wrapper = toolchain.cxx.with_name(f"{toolchain.triple}-clang++")
    compiler = str(wrapper if wrapper.is_file() else toolchain.cxx)
    return {**found, "TVM_NDK_CC": compiler, "CXX": compiler}
