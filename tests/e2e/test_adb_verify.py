"""``buildtool verify`` and ``devices`` on several emulated phones: one report, nothing left behind."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.standins.adbd import AdbServer, Phone

if TYPE_CHECKING:
    from buildtool.api import Line
    from tests.conftest import BuildtoolRunner

pytestmark = [pytest.mark.e2e, pytest.mark.tvm]

# Checks on the device that need neither TVM's Python nor a compiler: what costs is the phone.
CHECKS = ("device-abi", "push", "rpc-starts")


def report(run: BuildtoolRunner, *words: str) -> tuple[int, dict[str, Any], float]:
    only = [w for check in CHECKS for w in ("--only", check)]
    begun = time.monotonic()
    done = run("verify", *words, "--json", *only)
    assert done.stdout.startswith("{"), done.stderr
    return done.returncode, json.loads(done.stdout), time.monotonic() - begun


def test_four_phones_at_once(
    adb_server: AdbServer, aarch64_line: Line, run_buildtool: BuildtoolRunner, tmp_path: Path
) -> None:
    dist = str(aarch64_line.artifacts.root)
    with contextlib.ExitStack() as stack:
        phones = [stack.enter_context(Phone(tmp_path, f"p{n}", api=28 + n)) for n in range(4)]
        serials = [adb_server.connect(phone) for phone in phones]
        for phone in phones:
            # A packet of a real phone on USB takes its time too; waiting can be shared.
            phone.order(slow=0.01)
        junit = tmp_path / "report.xml"
        code, merged, at_once = report(run_buildtool, dist, "--device", "all", "--junit", str(junit))
        assert code == 0 and merged["counts"] == {"PASS": 12, "FAIL": 0, "SKIP": 0}
        assert {r["subject"] for r in merged["results"]} == set(serials)
        assert all(serial in junit.read_text() for serial in serials)

        # The second time nothing is sent, also to a phone alone.
        in_turn = 0.0
        for serial in serials:
            code, alone, seconds = report(run_buildtool, dist, "--device", serial)
            in_turn += seconds
            (push,) = [r for r in alone["results"] if r["id"] == "push"]
            assert code == 0 and push["measured"].startswith("0 sent (0 B)")
        _, again, at_once = report(run_buildtool, dist, "--device", ",".join(serials))
        assert again["counts"]["PASS"] == 12
        print(f"four phones at once {at_once:.2f} s, one after the other {in_turn:.2f} s")
        assert adb_server.leftovers(*phones) == []


def test_a_bad_phone_costs_only_its_own_results(
    adb_server: AdbServer, aarch64_line: Line, run_buildtool: BuildtoolRunner, tmp_path: Path
) -> None:
    dist = str(aarch64_line.artifacts.root)
    with (
        Phone(tmp_path, "good") as good,
        Phone(tmp_path, "full", size="3m") as full,
        Phone(tmp_path, "other", abi=_host()) as other,
        Phone(tmp_path, "locked", state="unauthorized") as locked,
    ):
        for phone in (good, full, other, locked):
            adb_server.connect(phone)
        adb_server.wait_for(locked, "unauthorized")
        done = run_buildtool("devices", "--json")
        states = {d["name"]: d["state"] for d in json.loads(done.stdout)["devices"]}
        assert states[good.serial] == "device" and states[f"{locked.serial}"] == "unauthorized"
        table = run_buildtool("devices").stdout
        assert "tap Allow" in table and "QTI SM8550" in table

        code, merged, _ = report(run_buildtool, dist, "--device", "all")
        failed = {(r["subject"], r["id"]) for r in merged["results"] if r["status"] == "FAIL"}
        assert code == 1
        assert {subject for subject, _ in failed} == {full.serial, other.serial}
        assert {(full.serial, "push"), (other.serial, "device-abi")} <= failed
        assert adb_server.leftovers(good, full, other) == []


def _host() -> Any:
    from buildtool.toolchains.host import host_abi

    return host_abi()


def test_ctrl_c_leaves_every_phone_clean(
    adb_server: AdbServer, aarch64_line: Line, tvm_python: Path, tmp_path: Path
) -> None:
    with Phone(tmp_path, "one") as one, Phone(tmp_path, "two") as two:
        for phone in (one, two):
            adb_server.connect(phone)
        words = ["verify", str(aarch64_line.artifacts.root), "--device", "all", "--only", "rpc-copy"]
        with subprocess.Popen(
            [sys.executable, "-m", "buildtool", *words],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            deadline = time.monotonic() + 30
            while not all(any("tvm_rpc" in p for p in adb_server.processes(phone)) for phone in (one, two)):
                assert time.monotonic() < deadline and process.poll() is None
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
        assert adb_server.leftovers(one, two) == []
