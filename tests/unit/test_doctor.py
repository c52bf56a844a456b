"""The doctor looks, tells and names the cure; installing uses only what the machine allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from buildtool import debian, doctor, settings
from buildtool.core.errors import ToolMissing
from buildtool.core.process import Completed


@pytest.fixture
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private_cache: Path) -> Path:
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    return programs


def examine(tmp_path: Path) -> dict[str, doctor.Finding]:
    return {f.name: f for f in doctor.examine(settings.load(cwd=tmp_path, env={}))}


def test_an_empty_machine_gets_a_cure_for_each_thing(empty_machine: Path, tmp_path: Path) -> None:
    found = examine(tmp_path)
    for name in ("make", "host compiler", "gcc aarch64", "adb", "Android NDK", "qemu"):
        assert found[name].status == "missing", name
        assert found[name].fix, name
    assert "apt-get install qemu-user-static" in found["qemu"].fix
    assert found["python"].status == "ok"


def test_every_probe_has_its_line(tmp_path: Path) -> None:
    assert list(examine(tmp_path)) == [name for name, *_ in doctor.PROBES]


def test_an_old_adb_is_poor_not_ok(empty_machine: Path, tmp_path: Path) -> None:
    adb = empty_machine / "adb"
    adb.write_text("#!/bin/sh\necho 'Android Debug Bridge version 1.0.39'\n")
    adb.chmod(0o755)
    found = examine(tmp_path)["adb"]
    assert found.status == "poor"
    assert "1.0.41" in found.fix


def test_too_little_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "NEEDED_DISK", 1 << 62)
    found = examine(tmp_path)["disk"]
    assert found.status == "poor"
    assert "BUILDTOOL_CACHE_DIR" in found.fix


def fake_apt(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    calls: list[list[str]] = []

    def call(words: list[str], *, cwd: Path | None = None) -> Completed:
        calls.append(words)
        return Completed(tuple(words), 0, "", "", 0.0)

    monkeypatch.setattr(debian, "_apt", call)
    return calls


def test_no_apt_is_told_with_what_is_needed(empty_machine: Path, tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match="neither Debian nor Ubuntu") as caught:
        debian.install(tmp_path / "root")
    assert "qemu-aarch64-static" in str(caught.value)


def test_root_installs_only_what_is_missing(
    empty_machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("apt-get", "make", "git"):
        (empty_machine / name).write_text("#!/bin/sh\n")
        (empty_machine / name).chmod(0o755)
    monkeypatch.setattr(debian, "_privilege", list)
    calls = fake_apt(monkeypatch)
    debian.install(tmp_path / "root")
    assert calls[-1][1:] == [
        "install",
        "-y",
        "--no-install-recommends",
        "g++-aarch64-linux-gnu",
        "qemu-user-static",
    ]
