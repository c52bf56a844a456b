"""Files whole or not at all; locks that name their holder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildtool.core import files
from buildtool.core.errors import BuildFailed, UsageError, did_you_mean, unknown
from buildtool.core.files import (
    atomic_dir,
    atomic_write,
    digest_of,
    human_size,
    locked,
    read_json,
    sha256_file,
    write_json,
)


def test_write_replaces_whole_and_sets_the_mode(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    atomic_write(path, "old")
    atomic_write(path, b"new", mode=0o600)
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_a_failed_write_keeps_the_old_file_and_no_temporary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    atomic_write(path, "old")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        atomic_write(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_dir_replaces_whole(tmp_path: Path) -> None:
    target = tmp_path / "dist"
    with atomic_dir(target) as work:
        (work / "a").write_text("1")
        assert not target.exists()
    with atomic_dir(target) as work:
        (work / "b").write_text("2")
    assert [p.name for p in target.iterdir()] == ["b"]
    assert [p.name for p in tmp_path.iterdir()] == ["dist"]


def test_a_failed_dir_keeps_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "dist"
    with atomic_dir(target) as work:
        (work / "a").write_text("1")
    with pytest.raises(KeyboardInterrupt), atomic_dir(target) as work:
        (work / "b").write_text("2")
        raise KeyboardInterrupt
    assert [p.name for p in target.iterdir()] == ["a"]
    assert [p.name for p in tmp_path.iterdir()] == ["dist"]


def test_lock_names_the_holder_and_is_free_after_it_is_killed(tmp_path: Path) -> None:
    lock = tmp_path / "x.lock"
    code = (
        "import pathlib, sys, time; from buildtool.core.files import locked\n"
        f"with locked(pathlib.Path({str(lock)!r}), what='x'):\n"
        "    print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    message = rf"the folder is in use by process {holder.pid}"
    with pytest.raises(UsageError, match=message), locked(lock, what="the folder"):
        pass
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with locked(lock, what="the folder"):
        pass


@given(st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=8), max_size=6))
def test_digest_depends_on_content_not_on_order(value: dict[str, object]) -> None:
    assert digest_of(value) == digest_of(dict(reversed(value.items())))
    assert digest_of(value) != digest_of({**value, "one more key of any name": 1})


def test_json_round_trip_and_bad_json_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"b": 1, "a": "é"})
    assert read_json(path) == {"a": "é", "b": 1}
    path.write_text("{")
    with pytest.raises(BuildFailed, match=r"x\.json"):
        read_json(path)


def test_sha256_of_a_known_text(tmp_path: Path) -> None:
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    assert sha256_file(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (4_407_032, "4.41 MB"), (5e12, "5000.00 GB")]
)
def test_sizes_as_people_read_them(count: float, text: str) -> None:
    assert human_size(count) == text


def test_suggestions_ignore_case_and_dashes() -> None:
    assert did_you_mean("use-opencl", ["USE_OPENCL", "USE_CUDA"]) == "USE_OPENCL"
    assert did_you_mean("zzz", ["USE_OPENCL"]) is None
    assert "did you mean 'android'?" in str(unknown("profile", "andriod", ["android", "host"]))
    assert "known: a, b" in str(unknown("profile", "zzz", ["b", "a"]))
