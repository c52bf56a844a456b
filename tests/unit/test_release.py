"""Releases: equal bytes for equal content, papers that fit their forms, and archives read without trust."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import tarfile
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buildtool.artifacts import ArtifactSet
from buildtool.core.errors import BuildFailed, BuildtoolError, UsageError
from buildtool.release import aar, archive, board_wheel, contents, pack, papers, reproducible
from buildtool.release.archive import Entry
from tests.standins.binaries import ADD, MAIN, artifact, artifact_set, compile_c, host_toolchain

pytest.importorskip("cyclonedx", reason="the extra release is not installed")


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArtifactSet:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    tree = tmp_path / "tree"
    for name in (
        "include/tvm/runtime/base.h",
        "3rdparty/dlpack/include/dlpack/dlpack.h",
        "LICENSE",
        "NOTICE",
    ):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(f"/* {name} */\n")
    library = artifact(compile_c(tmp_path / "dist", "libtvm_runtime.so", ADD))
    program = artifact(compile_c(tmp_path / "dist", "tvm_rpc", MAIN))
    files = artifact_set(
        host_toolchain(),
        library,
        replace(program, role="executable"),
        options={"USE_RPC": "ON"},
        version="0.25",
    )
    return replace(files, source_dir=str(tree), pin="git:" + "a" * 40)


@pytest.mark.parametrize("kind", archive.FORMATS)
def test_the_same_content_has_the_same_bytes(tmp_path: Path, kind: str) -> None:
    one = {"b/x": Entry(b"1", executable=True), "a": Entry(b"2" * 100_000)}
    other = dict(reversed(one.items()))
    first = archive.write(tmp_path / f"one.{kind}", "top", one, epoch=1_700_000_000)
    os.umask(os.umask(0o077))
    second = archive.write(tmp_path / "elsewhere" / f"two.{kind}", "top", other, epoch=1_700_000_000)
    assert first.read_bytes() == second.read_bytes()
    assert archive.read(first) == {"top/a": (b"2" * 100_000, 0o644), "top/b/x": (b"1", 0o755)}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["elsewhere", f"one.{kind}"]


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildtoolError, match=r"unknown archive format .*"):
        archive.write(tmp_path / "x.rar", "top", {}, epoch=0)


def tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as out:
        for info, data in members:
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
        info.linkname = "/etc/passwd"
    return info


@pytest.mark.parametrize(
    ("info", "words"),
    [
        (member("../x"), "outside"),
        (member("/x"), "outside"),
        (member("a/../../x"), "outside"),
        (member("a\\b"), "outside"),
        (member("a", tarfile.SYMTYPE), "files only"),
        (member("a", tarfile.LNKTYPE), "files only"),
        (member("a", tarfile.CHRTYPE), "files only"),
        (member("a", tarfile.FIFOTYPE), "files only"),
    ],
)
def test_entries_that_no_release_has(tmp_path: Path, info: tarfile.TarInfo, words: str) -> None:
    with pytest.raises(BuildFailed, match=words):
        archive.read(tar(tmp_path / "x.tar.gz", (info, b"")))


def test_two_files_of_one_name(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="two files of one name"):
        archive.read(tar(tmp_path / "x.tar.gz", (member("a"), b"1"), (member("a"), b"2")))


def test_an_archive_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_LIMIT", 1_000_000)
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("a", b"\0" * 900_000)
        out.writestr("b", b"\0" * 900_000)
    with pytest.raises(BuildFailed, match="more than a release has"):
        archive.read(path)


@given(st.binary(max_size=300), st.sampled_from(archive.FORMATS), st.integers(0, 400), st.binary(max_size=4))
@settings(max_examples=150, deadline=None)
def test_damage_is_one_clear_error(
    tmp_path_factory: pytest.TempPathFactory, junk: bytes, kind: str, at: int, patch: bytes
) -> None:
    folder = tmp_path_factory.mktemp("damage")
    good = archive.write(folder / f"g.{kind}", "t", {"a": Entry(b"data" * 50)}, epoch=0).read_bytes()
    for blob in (junk, good[:at], good[:at] + patch + good[at + len(patch) :]):
        path = folder / f"x.{kind}"
        path.write_bytes(blob)
        try:
            archive.read(path)
        except BuildFailed as exc:
            assert exc.where == str(path)


def test_a_release_checks_itself(built: ArtifactSet, tmp_path: Path) -> None:
    made = pack.make([built], tmp_path / "r", formats=archive.FORMATS)
    again = pack.make([built], tmp_path / "again", formats=archive.FORMATS)
    assert made.sums.read_text() == again.sums.read_text()
    for path in made.archives:
        good, record = pack.check(path)
        assert len(good) == 5 and record["profile"] == built.profile
    record = json.loads(archive.read(made.archives[0])[f"{contents.top_folder(built)}/build-record.json"][0])
    text = json.dumps(record)
    assert str(tmp_path) not in text
    assert re.search(rf"\b{re.escape(os.uname().nodename)}\b", text) is None
    assert record["options"] == {"USE_RPC": "ON"} and record["source"]["pin"] == built.pin


def test_no_path_and_no_time_of_this_machine(built: ArtifactSet, tmp_path: Path) -> None:
    made = pack.make([built], tmp_path / "r")
    with tarfile.open(made.archives[0]) as opened:
        info = opened.getmembers()
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in info} == {(0, 0, "", "", archive.OLDEST)}
    for name, (data, _) in archive.read(made.archives[0]).items():
        if "/bin/" not in name and "/lib/lib" not in name:
            assert str(tmp_path).encode() not in data, name


def test_the_epoch_is_the_users_or_an_error(built: ArtifactSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert contents.source_epoch(built) == 1_700_000_000
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(UsageError, match="SOURCE_DATE_EPOCH"):
        contents.source_epoch(built)


def tampered(made: pack.Release, change: Any, *, sums: bool = True) -> Path:
    """The first archive with one file changed; with ``sums`` listed as if it were right."""
    path = made.archives[0]
    files = {name: data for name, (data, _) in archive.read(path).items()}
    top = next(iter(files)).split("/")[0]
    change(files, top)
    archive.write(path, top, {n[len(top) + 1 :]: Entry(d) for n, d in files.items()}, epoch=0)
    if sums:
        pack.finish(made, [path])
    return path


def _touch(name: str, data: bytes) -> Any:
    def change(files: dict[str, bytes], top: str) -> None:
        files[f"{top}/{name}"] = data

    return change


def _drop(name: str) -> Any:
    def change(files: dict[str, bytes], top: str) -> None:
        del files[f"{top}/{name}"]

    return change


def _edit(name: str, old: str, new: str) -> Any:
    def change(files: dict[str, bytes], top: str) -> None:
        text = files[f"{top}/{name}"].decode()
        assert old in text
        files[f"{top}/{name}"] = text.replace(old, new, 1).encode()

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_touch("bin/tvm_rpc", b"evil"), "not those of its record"),
        (_touch("lib/more.so", b"evil"), "not those of its record"),
        (_drop("licenses/LICENSE"), "not those of its record"),
        (_drop(papers.SBOM), "has no sbom"),
        (_drop(contents.RECORD), "has no build-record"),
        (_touch(contents.RECORD, b"[]"), "build record can't be read"),
        (_touch(contents.RECORD, b'{"format": 9}'), "build record can't be read"),
        (_touch(papers.PROVENANCE, b"{}"), "not an in-toto statement"),
        (
            _edit(papers.PROVENANCE, "slsa.dev/provenance/v1", "slsa.dev/provenance/v0"),
            "not a SLSA provenance v1",
        ),
        (_edit(papers.PROVENANCE, '"sha256": "', '"sha256": "0'), "about other files"),
        (_edit(papers.SBOM, '"bomFormat": "CycloneDX"', '"bomFormat": "Other"'), "does not fit CycloneDX"),
        (_edit(contents.RECORD, '"machine": "', '"machine": "X'), "not what the record says"),
    ],
)
def test_a_tampered_archive_is_refused(built: ArtifactSet, tmp_path: Path, change: Any, words: str) -> None:
    path = tampered(pack.make([built], tmp_path / "r"), change)
    with pytest.raises(BuildFailed, match=words):
        pack.check(path)


def test_an_archive_that_is_not_the_listed_one(built: ArtifactSet, tmp_path: Path) -> None:
    made = pack.make([built], tmp_path / "r")
    path = tampered(made, _touch("bin/tvm_rpc", b"evil"), sums=False)
    with pytest.raises(BuildFailed, match="sha256 mismatch"):
        pack.check(path)
    made.sums.write_text("")
    with pytest.raises(BuildFailed, match="is not listed"):
        pack.check(path)
    made.sums.unlink()
    with pytest.raises(BuildFailed, match="no such file"):
        pack.check(path)


def test_a_release_needs_its_source(built: ArtifactSet, tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="the TVM tree that was built is gone"):
        pack.make([replace(built, source_dir=str(tmp_path / "none"))], tmp_path / "r")
    assert not list((tmp_path / "r").glob("tvm-*")) and not (tmp_path / "r" / pack.SUMS).exists()


def test_signing_is_the_users_command(built: ArtifactSet, tmp_path: Path) -> None:
    script = tmp_path / "sign"
    script.write_text('#!/bin/sh\nfor last; do :; done\ncp "$last" "$last.sig"\n')
    script.chmod(0o755)
    made = pack.make([built], tmp_path / "r")
    pack.finish(made, [], sign=[str(script), "-k", "a b"])
    assert made.sums.with_name("SHA256SUMS.sig").read_text() == made.sums.read_text()
    with pytest.raises(BuildtoolError, match="signing with"):
        pack.finish(made, [], sign=["false"])


def test_what_differs_and_why(tmp_path: Path) -> None:
    def build(folder: str, text: str) -> Path:
        code = f'const char* about(void) {{ return "{text}"; }}\n'
        return compile_c(tmp_path / folder, "liba.so", code, "-Wl,--build-id=none")

    same = "fixed text of the same length here"
    assert build("1", same).read_bytes() == build("2", same).read_bytes()
    left = build("3", "built at 12:34:56")
    words = reproducible.explain(left, build("4", "built at 23:59:01"))
    assert "in section .rodata" in words and "a time is built in: '12:34:56'" in words
    words = reproducible.explain(build("5", "/home/ann/src/tvm"), build("6", "/home/bob/src/tvm"))
    assert "in section .rodata" in words and "a path is built in: '/home/" in words


def android(built: ArtifactSet, **changes: object) -> ArtifactSet:
    toolchain = {"api_level": 28, "revision": "25.2.9519653", "stl": "c++_shared"}
    return replace(built, triple="aarch64-linux-android28", toolchain=toolchain, **changes)  # type: ignore[arg-type]


def test_an_aar_has_what_gradle_and_prefab_want(built: ArtifactSet, tmp_path: Path) -> None:
    stl = artifact(compile_c(tmp_path / "dist", aar.STL, ADD))
    files = android(built, artifacts=(*built.artifacts, stl))
    path = aar.write([files], tmp_path / "tvm.aar", epoch=1_700_000_000)
    assert path.read_bytes() == aar.write([files], tmp_path / "again.aar", epoch=1_700_000_000).read_bytes()
    inside = {name: data for name, (data, _) in archive.read(path).items()}
    abi = files.abi.value
    place = f"prefab/modules/tvm_runtime/libs/android.{abi}"
    assert {f"jni/{abi}/libtvm_runtime.so", f"{place}/libtvm_runtime.so", "classes.jar", "R.txt"} <= set(
        inside
    )
    assert not [n for n in inside if aar.STL in n or n.endswith("tvm_rpc")]
    facts = json.loads(inside[f"{place}/abi.json"])
    assert facts == {"abi": abi, "api": 28, "ndk": 25, "stl": "c++_shared", "static": False}
    assert json.loads(inside["prefab/prefab.json"])["version"] == "0.25.0"
    assert "prefab/modules/tvm_runtime/include/tvm/runtime/base.h" in inside
    assert b'"libOpenCL.so" android:required="false"' in inside["AndroidManifest.xml"]
    zipfile.ZipFile(io.BytesIO(inside["classes.jar"])).testzip()


def test_an_aar_is_for_android_and_each_abi_once(built: ArtifactSet, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not built for Android"):
        aar.write([built], tmp_path / "x.aar", epoch=0)
    with pytest.raises(UsageError, match="two builds for the ABI"):
        aar.write([android(built), android(built)], tmp_path / "x.aar", epoch=0)
    assert not list(tmp_path.glob("*.aar"))


def test_gzip_and_zip_headers_hold_no_time(tmp_path: Path) -> None:
    packed = archive.write(tmp_path / "x.tar.gz", "t", {"a": Entry(b"1")}, epoch=0).read_bytes()
    assert packed[4:8] == b"\0\0\0\0" and gzip.decompress(packed)
    path = archive.write(tmp_path / "x.zip", "t", {"a": Entry(b"1")}, epoch=0)
    assert zipfile.ZipFile(path).infolist()[0].date_time == time.gmtime(archive.OLDEST)[:6]


def test_a_wheel_for_boards_installs_and_runs(built: ArtifactSet, tmp_path: Path) -> None:
    import subprocess
    import sys

    path = board_wheel.write(built, tmp_path / "w", epoch=0)
    assert path.read_bytes() == board_wheel.write(built, tmp_path / "again", epoch=0).read_bytes()
    words = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target"]
    subprocess.run([*words, str(tmp_path / "site"), str(path)], check=True, capture_output=True)
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    script = "import tvm_runtime_libs as t; print(sorted(p.name for p in t.LIB.iterdir())); t.run('tvm_rpc')"
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "['libtvm_runtime.so']\n"), done.stderr
    assert (tmp_path / "site" / "bin" / "tvm_rpc").is_file()
    with pytest.raises(UsageError, match="not built for Linux"):
        board_wheel.write(android(built), tmp_path, epoch=0)


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ("0.25.dev0", "0.25.dev0"),
        ("0.19.0", "0.19.0"),
        ("0.26.dev0-5-gabc", "0.26.dev0+5.gabc"),
        ("x", "0+x"),
    ],
)
def test_versions_as_pip_wants_them(told: str, version: str) -> None:
    from packaging.version import Version

    assert board_wheel.python_version(told) == version
    Version(version)
