"""Installing an NDK from a local HTTP server: resumed, verified, unpacked safely, whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import re
import stat
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath

import pytest
from typer.testing import CliRunner

from buildtool.cli.ndk import app
from buildtool.core.errors import BuildFailed, ConfigError, ToolMissing, UsageError
from buildtool.toolchains import ndk_install
from buildtool.toolchains.ndk import discover, install_dir
from buildtool.toolchains.ndk_install import Archive, Release, Table, check_url, install, unpack

REVISION = "27.2.12479018"
FILE = "android-ndk-r27c-linux.zip"
_PREBUILT = "toolchains/llvm/prebuilt/linux-x86_64"
_LINK = stat.S_IFLNK | 0o777

Entry = tuple[str, str, int]

GOOD: list[Entry] = [
    ("ndk/", "", stat.S_IFDIR | 0o755),
    ("ndk/source.properties", f"Pkg.Desc = Android NDK\nPkg.Revision = {REVISION}\n", stat.S_IFREG | 0o644),
    (f"ndk/{_PREBUILT}/bin/clang", "clang-18", _LINK),
    (f"ndk/{_PREBUILT}/bin/clang++", "clang", _LINK),
    (f"ndk/{_PREBUILT}/bin/clang-18", "#!/bin/sh\necho clang\n", stat.S_IFREG | 0o775),
    (f"ndk/{_PREBUILT}/sysroot/usr/include/stdio.h", "", stat.S_IFREG | 0o644),
    (
        f"ndk/{_PREBUILT}/sysroot/usr/lib/aarch64-linux-android/28/libc.so",
        "x" * 300_000,
        stat.S_IFREG | 0o666,
    ),
    ("ndk/build/cmake/android.toolchain.cmake", "", stat.S_IFREG | 0o644),
]


def _zip(entries: list[Entry], *, stored: bool = True) -> bytes:
    data = io.BytesIO()
    method = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(data, "w", method) as bundle:
        for name, text, mode in entries:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.compress_type = method
            bundle.writestr(info, text)
    return data.getvalue()


class Server:
    """Serves one file; counts requests and misbehaves as told."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.requests: list[str] = []
        self.ranges = True
        self.cut_after: list[int] = []
        self.status = 200
        self.redirect: str | None = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/repository"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        wanted = handler.headers.get("Range", "")
        self.requests.append(wanted)
        if self.redirect:
            handler.send_response(302)
            handler.send_header("Location", self.redirect)
            handler.end_headers()
            return
        if self.status != 200:
            handler.send_error(self.status)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.ranges else 0
        if start >= len(self.data):
            handler.send_error(416)
            return
        body = self.data[start:]
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(self.data) - 1}/{len(self.data)}")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[: self.cut_after.pop(0)] if self.cut_after else body)


Serve = Callable[..., Server]


@pytest.fixture
def serve(private_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts a server for a zip and pins that zip in the table."""
    servers: list[Server] = []

    def start(entries: list[Entry] = GOOD, **pinned: object) -> Server:
        data = _zip(entries)
        server = Server(data)
        threading.Thread(target=server.http.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        facts = {
            "size": len(data),
            "sha1": hashlib.sha1(data).hexdigest(),
            "sha256": hashlib.sha256(data).hexdigest(),
            **pinned,
        }
        archive = Archive(FILE, sources=(), **facts)  # type: ignore[arg-type]
        release = Release("r27c", REVISION, {"linux": archive})
        monkeypatch.setattr(ndk_install, "table", lambda: Table("https://invalid/", "r27c", (release,)))
        monkeypatch.setattr(ndk_install, "host_system", lambda: "linux")
        monkeypatch.setenv(ndk_install.URL_VARIABLE, server.url)
        return server

    yield start
    for server in servers:
        server.http.shutdown()
        server.http.server_close()


def _part() -> Path:
    return install_dir() / "downloads" / f"{FILE}.part"


def _nothing_installed() -> bool:
    return not [
        path for path in install_dir().iterdir() if path.name not in ("downloads", f"{REVISION}.lock")
    ]


# --- the table ------------------------------------------------------------------


def test_the_pinned_table_is_well_formed() -> None:
    pinned = ndk_install.table()
    assert pinned.url.startswith("https://")
    assert pinned.get(None).name == pinned.default
    for release in pinned.releases:
        assert release.revision.split(".")[0] == re.sub(r"\D", "", release.name)
        assert "linux" in release.archives
        for system, archive in release.archives.items():
            assert archive.file.startswith(f"android-ndk-{release.name}-{system}")
            assert 400_000_000 < archive.size < 1_300_000_000
            assert re.fullmatch("[0-9a-f]{40}", archive.sha1)
            assert archive.sha256 is None or re.fullmatch("[0-9a-f]{64}", archive.sha256)
            assert archive.sources
    digests = [a.sha1 for r in pinned.releases for a in r.archives.values()]
    assert len(digests) == len(set(digests))


@pytest.mark.parametrize("name", ["r26d", "26d", "26.3.11579264"])
def test_a_release_is_known_by_name_and_revision(name: str) -> None:
    assert ndk_install.table().get(name).name == "r26d"


def test_unknown_release_suggests_one() -> None:
    with pytest.raises(ConfigError, match="unknown NDK release 'r26x'") as caught:
        ndk_install.table().get("r26x")
    assert caught.value.fix is not None


def test_no_archive_for_this_host(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    serve()
    monkeypatch.setattr(ndk_install, "host_system", lambda: "darwin")
    with pytest.raises(ToolMissing, match="for darwin"):
        install()


# --- download -------------------------------------------------------------------


def test_installs_with_modes_and_links_and_is_found(serve: Serve) -> None:
    server = serve()
    seen: list[tuple[str, int, int]] = []
    root = install(on_progress=lambda *facts: seen.append(facts))
    assert root == install_dir() / REVISION
    binaries = root / _PREBUILT / "bin"
    assert (binaries / "clang").readlink() == Path("clang-18")
    assert (binaries / "clang++").resolve() == binaries / "clang-18"
    assert stat.S_IMODE((binaries / "clang-18").stat().st_mode) == 0o755
    library = root / _PREBUILT / "sysroot/usr/lib/aarch64-linux-android/28/libc.so"
    assert stat.S_IMODE(library.stat().st_mode) == 0o644
    assert not list((install_dir() / "downloads").iterdir())
    assert {what.split()[0] for what, _, _ in seen} == {"downloading", "unpacking"}
    assert seen[-1][1] == seen[-1][2]
    assert discover(None, None, {}).root == root
    install()
    assert server.requests == [""], "an installed release was downloaded again"


def test_an_interrupted_download_goes_on(serve: Serve) -> None:
    server = serve()
    _part().parent.mkdir(parents=True)
    _part().write_bytes(server.data[:1000])
    install()
    assert server.requests == ["bytes=1000-"]


def test_a_connection_cut_twice_is_resumed_in_one_run(serve: Serve) -> None:
    server = serve()
    server.cut_after = [5_000, 70_000]
    assert install().is_dir()
    assert server.requests == ["", "bytes=5000-", "bytes=75000-"]


def test_a_server_without_ranges_starts_over(serve: Serve) -> None:
    server = serve()
    server.ranges = False
    _part().parent.mkdir(parents=True)
    _part().write_bytes(b"stale")
    assert install().is_dir()


def test_a_wrong_beginning_is_found_out_and_dropped(serve: Serve) -> None:
    serve()
    _part().parent.mkdir(parents=True)
    _part().write_bytes(b"stale")
    with pytest.raises(BuildFailed, match="sha1 differs"):
        install()
    assert not _part().exists()
    assert install().is_dir()


@pytest.mark.parametrize("digest", ["sha1", "sha256"])
def test_each_digest_is_checked_before_unpacking(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, digest: str
) -> None:
    wrong = "0" * (40 if digest == "sha1" else 64)
    serve(**{digest: wrong})
    monkeypatch.setattr(ndk_install, "unpack", lambda *_: pytest.fail("unpacked without a check"))
    with pytest.raises(BuildFailed, match=f"{digest} differs") as caught:
        install()
    assert caught.value.expected == wrong
    assert _nothing_installed()


def test_without_sha256_the_sha1_decides(serve: Serve) -> None:
    serve(sha256=None)
    assert install().is_dir()


def test_more_bytes_than_pinned_are_not_read(serve: Serve) -> None:
    server = serve()
    server.data += b"more" * 100_000
    assert install().is_dir(), "the pinned bytes came first and were all right"


def test_a_dead_server_is_given_up_with_what_was_got(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve()
    monkeypatch.setattr(ndk_install.time, "sleep", lambda _: None)
    server.cut_after = [2_000, 0, 0, 0, 0, 0, 0]
    with pytest.raises(BuildFailed, match="the download failed 5 times") as caught:
        install()
    assert caught.value.found is not None and caught.value.found.startswith("2.00 kB of")
    assert _part().stat().st_size == 2_000


def test_a_full_disk_is_no_network_error(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ndk_install, "_fetch", full)
    with pytest.raises(OSError, match="No space left"):
        install()
    assert not server.requests


def test_the_command_prints_the_folder_and_nothing_else(serve: Serve) -> None:
    serve()
    runner = CliRunner()
    first = runner.invoke(app, ["install", "r27c"])
    assert (first.exit_code, first.stdout) == (0, f"{install_dir() / REVISION}\n")
    again = runner.invoke(app, ["install", "--json"])
    assert json.loads(again.stdout) == {"path": str(install_dir() / REVISION), "revision": REVISION}
    listed = json.loads(runner.invoke(app, ["list", "--json"]).stdout)
    assert [(row["name"], row["path"]) for row in listed] == [("r27c", str(install_dir() / REVISION))]
    assert "r27c (default)" in runner.invoke(app, ["list"]).stdout


def test_not_found_is_not_retried(serve: Serve) -> None:
    server = serve()
    server.status = 404
    with pytest.raises(BuildFailed, match="404"):
        install()
    assert len(server.requests) == 1


@pytest.mark.parametrize("url", ["http://example.com/x", "ftp://127.0.0.1/x", "file:///etc/passwd", "x"])
def test_only_https_or_this_machine(url: str) -> None:
    with pytest.raises(UsageError, match="https only"):
        check_url(url)


def test_a_redirect_to_plain_http_is_refused(serve: Serve) -> None:
    server = serve()
    server.redirect = "http://example.com/android-ndk-r27c-linux.zip"
    with pytest.raises(UsageError, match="https only"):
        install()


# --- unpacking ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "why"),
    [
        ([("ndk/../../evil", "x", 0)], "leaves the folder"),
        ([("/etc/evil", "x", 0)], "leaves the folder"),
        ([("ndk\\..\\evil", "x", 0)], "leaves the folder"),
        ([("C:/evil", "x", 0)], "leaves the folder"),
        ([("ndk/link", "/etc", _LINK)], "a link points out"),
        ([("ndk/a/link", "../../x", _LINK)], "a link points out"),
        ([("ndk/a/dot", ".", _LINK), ("ndk/b", "a/dot/../..", _LINK)], "a link points out"),
        ([("ndk/a", "build", _LINK), ("ndk/a/evil", "x", 0)], "behind a link"),
        ([("ndk/source.properties", "again", 0)], "comes twice"),
        ([("ndk/pipe", "", stat.S_IFIFO | 0o644)], "neither file"),
        ([("other/file", "", 0)], "not one top folder"),
    ],
)
def test_unsafe_archives_write_nothing(tmp_path: Path, extra: list[Entry], why: str) -> None:
    packed = tmp_path / "in" / "ndk.zip"
    packed.parent.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile's own, about the name that comes twice
        packed.write_bytes(_zip(GOOD + extra))
    root = tmp_path / "out" / "root"
    with pytest.raises(BuildFailed, match=why):
        unpack(packed, root, REVISION)
    assert list((tmp_path / "out").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    packed = tmp_path / "ndk.zip"
    packed.write_bytes(_zip([*GOOD, ("ndk/zeros", "\0" * 50_000_000, 0)], stored=False))
    assert packed.stat().st_size < 200_000
    with pytest.raises(BuildFailed, match="far more than an NDK"):
        unpack(packed, tmp_path / "root", REVISION)


def test_another_revision_inside_is_refused_and_the_old_install_kept(tmp_path: Path) -> None:
    packed = tmp_path / "ndk.zip"
    packed.write_bytes(_zip(GOOD))
    root = tmp_path / "root"
    root.mkdir()
    (root / "old").touch()
    with pytest.raises(BuildFailed, match="another NDK") as caught:
        unpack(packed, root, "28.0.1")
    assert caught.value.found == REVISION
    assert [path.name for path in root.iterdir()] == ["old"]


def test_an_archive_without_a_compiler_is_refused(serve: Serve) -> None:
    serve([entry for entry in GOOD if "clang" not in entry[0]])
    with pytest.raises(ToolMissing, match="incomplete"):
        install()
    assert _nothing_installed()


def test_links_may_go_up_inside() -> None:
    inside = ndk_install._stays_inside
    assert inside(PurePosixPath("a/b/link"), "../../c/d")
    assert inside(PurePosixPath("link"), "c")
    assert not inside(PurePosixPath("link"), "../c")
    assert not inside(PurePosixPath("a/link"), "b/../../..")
    assert not inside(PurePosixPath("link"), "")
