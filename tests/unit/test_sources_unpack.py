"""Archives that nobody vouches for: what is unpacked, what is refused, and that nothing leaves the folder."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from buildtool.core.errors import BuildFailed
from buildtool.sources.unpack import Unpacker, unpack

Member = tuple[str, bytes | None, dict[str, object]]


def tar(path: Path, *members: Member) -> Path:
    """A tar of (name, content, TarInfo attributes)."""
    mode = {".gz": "w:gz", ".xz": "w:xz", ".tar": "w"}[path.suffix]
    with tarfile.open(path, mode) as out:  # type: ignore[call-overload]
        for name, content, attributes in members:
            info = tarfile.TarInfo(name)
            info.size = len(content or b"")
            for key, value in attributes.items():
                setattr(info, key, value)
            out.addfile(info, io.BytesIO(content or b""))
    return path


def file(name: str, content: bytes = b"x", **attributes: object) -> Member:
    return name, content, attributes


def link(name: str, to: str) -> Member:
    return name, None, {"type": tarfile.SYMTYPE, "linkname": to}


def listing(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir())


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tar.xz"])
def test_only_the_subdirectory(tmp_path: Path, suffix: str) -> None:
    archive = tar(
        tmp_path / f"a{suffix}",
        file("pkg-1/other/x"),
        file("pkg-1/3rdparty/tvm/run.sh", b"#!", mode=0o755),
        file("pkg-1/3rdparty/tvm/3rdparty/cutlass/big"),
        file("pkg-1/3rdparty/tvm/3rdparty/cutlass_more/big"),
        file("pkg-1/3rdparty/tvm/3rdparty/kept"),
        link("pkg-1/3rdparty/tvm/ln", "3rdparty/kept"),
        file("pkg-1/3rdparty/tvmx/no"),
    )
    dest = tmp_path / "d"
    dest.mkdir()
    count = unpack(archive, dest, subdir="3rdparty/tvm", exclude=("3rdparty/cutlass*",), strip=1)
    assert listing(dest) == ["3rdparty/kept", "ln", "run.sh"]
    assert count == 3
    assert (dest / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (dest / "3rdparty/kept").stat().st_mode & 0o777 == 0o644
    assert (dest / "ln").read_bytes() == b"x"


HOSTILE = {
    "absolute": [file("/etc/x")],
    "dots": [file("a/../../x")],
    "backslash": [file("a\\..\\x")],
    "drive": [file("C:/x")],
    "link out": [link("a/l", "../../x")],
    "absolute link": [link("l", "/etc/passwd")],
    "link through a link": [link("p/q/d", "../.."), link("p/q/c", "d/../../z"), file("p/q/f")],
    "file through a link": [link("d", ".."), file("d/x")],
    "hard link out": [("h", None, {"type": tarfile.LNKTYPE, "linkname": "../../etc/passwd"})],
    "hard link to nothing": [("h", None, {"type": tarfile.LNKTYPE, "linkname": "gone"})],
    "device": [("d", None, {"type": tarfile.CHRTYPE})],
    "pipe": [("p", None, {"type": tarfile.FIFOTYPE})],
    "twice": [file("x"), file("x", b"other")],
    "file as folder": [file("x"), file("x/y")],
    "empty": [],
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_tar_is_refused(tmp_path: Path, kind: str) -> None:
    archive = tar(tmp_path / "a.tar.gz", *HOSTILE[kind])
    outer = tmp_path / "outer"
    dest = outer / "mid" / "dest"
    dest.mkdir(parents=True)
    with pytest.raises(BuildFailed) as caught:
        unpack(archive, dest)
    assert str(archive) in str(caught.value.where)
    assert [p for p in outer.rglob("*") if not p.is_relative_to(outer / "mid" / "dest")] == [outer / "mid"]


def test_hostile_names_count_outside_the_subdirectory_too(tmp_path: Path) -> None:
    archive = tar(tmp_path / "a.tar", file("sub/x"), file("../evil"))
    (tmp_path / "d").mkdir()
    with pytest.raises(BuildFailed, match="leaves the folder"):
        unpack(archive, tmp_path / "d", subdir="sub")


def test_limits(tmp_path: Path) -> None:
    unpacker = Unpacker(tmp_path / "a", tmp_path, max_files=2, max_bytes=100)
    unpacker.count("a", 60)
    with pytest.raises(BuildFailed, match="more than 0 MB"):
        unpacker.count("b", 60)
    unpacker = Unpacker(tmp_path / "a", tmp_path, max_files=2)
    unpacker.count("a", 1)
    unpacker.count("b", 1)
    with pytest.raises(BuildFailed, match="more than 2 files"):
        unpacker.count("c", 1)


def test_a_tar_that_announces_too_much_writes_nothing(tmp_path: Path) -> None:
    info = tarfile.TarInfo("huge")
    info.size = 1 << 40
    (tmp_path / "a.tar").write_bytes(info.tobuf() + b"\0" * 4096)
    (tmp_path / "d").mkdir()
    with pytest.raises(BuildFailed, match="more than"):
        unpack(tmp_path / "a.tar", tmp_path / "d")
    assert listing(tmp_path / "d") == []


@pytest.mark.parametrize("suffix", [".tar.gz", ".tar.xz", ".zip"])
@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9])
def test_cut_short(tmp_path: Path, suffix: str, keep: float) -> None:
    content = os.urandom(20_000)
    archive = tmp_path / f"a{suffix}"
    if suffix == ".zip":
        with zipfile.ZipFile(archive, "w") as out:
            out.writestr("x", content)
    else:
        tar(archive, file("x", content))
    archive.write_bytes(archive.read_bytes()[: int(archive.stat().st_size * keep)])
    (tmp_path / "d").mkdir()
    with pytest.raises(BuildFailed, match="damaged or cut short"):
        unpack(archive, tmp_path / "d")


def test_zip(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        info = zipfile.ZipInfo("top/sub/run")
        info.external_attr = (stat.S_IFREG | 0o755) << 16
        out.writestr(info, "r")
        info = zipfile.ZipInfo("top/sub/l")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        out.writestr(info, "run")
        out.writestr("top/no", "n")
    (tmp_path / "d").mkdir()
    assert unpack(archive, tmp_path / "d", subdir="sub") == 2
    assert listing(tmp_path / "d") == ["l", "run"]
    assert (tmp_path / "d/run").stat().st_mode & 0o100
    assert (tmp_path / "d/l").readlink() == Path("run")


@pytest.mark.parametrize(("name", "mode"), [("../x", stat.S_IFREG), ("l", stat.S_IFLNK), ("f", stat.S_IFIFO)])
def test_hostile_zip(tmp_path: Path, name: str, mode: int) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as out:
        info = zipfile.ZipInfo(name)
        info.external_attr = (mode | 0o644) << 16
        out.writestr(info, "../../x")
    (tmp_path / "d").mkdir()
    with pytest.raises(BuildFailed, match="refused"):
        unpack(tmp_path / "a.zip", tmp_path / "d")


parts = st.sampled_from(["a", "b", "..", ".", ""])
names = st.lists(parts, min_size=1, max_size=4).map("/".join)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(names, st.none() | names), min_size=1, max_size=6))
def test_nothing_ever_leaves_the_folder(
    tmp_path_factory: pytest.TempPathFactory, members: list[tuple[str, str | None]]
) -> None:
    outer = tmp_path_factory.mktemp("o")
    dest = outer / "m" / "dest"
    dest.mkdir(parents=True)
    archive = tar(outer / "a.tar", *(file(n) if to is None else link(n, to) for n, to in members))
    try:
        unpack(archive, dest)
    except BuildFailed:
        pass
    else:
        # Whatever was accepted can't be followed to the outside either.
        assert all(Path(os.path.realpath(p)).is_relative_to(dest) for p in dest.rglob("*"))
    assert sorted(p.name for p in outer.iterdir()) == ["a.tar", "m"]
    assert [p.name for p in (outer / "m").iterdir()] == ["dest"]
