"""Fetching an sdist from a registry on this host: pip's options, digests, broken transfers, the cache."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from buildtool.core.errors import BuildFailed, ConfigError, UsageError
from buildtool.sources import open_source, sdist
from tests.standins.minitvm import make_minitvm
from tests.standins.registry import Registry, serving

PIP_CONFIG_LINES = sdist._pip_config_lines
SPEC = "sdist:mini==1.0#3rdparty/tvm"


def package(tmp_path: Path) -> bytes:
    tree = make_minitvm(tmp_path / "minitvm", "relax")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as out:
        for name in ("3rdparty/tvm/3rdparty/cutlass/noise", "other/noise"):
            info = tarfile.TarInfo(f"mini-1.0/{name}")
            info.size = 200_000
            out.addfile(info, io.BytesIO(os.urandom(info.size)))
        out.add(tree, "mini-1.0/3rdparty/tvm")
    return buffer.getvalue()


@pytest.fixture
def registry(tmp_path: Path, private_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    content = package(tmp_path)
    with serving(Registry({"mini-1.0.tar.gz": content, "mini-1.0-py3-none-any.whl": b"PK"})) as server:
        for name in [name for name in os.environ if name.startswith("PIP_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", server.url)
        monkeypatch.setattr(sdist.time, "sleep", lambda seconds: None)
        # Starting pip takes longer than all the rest; one test below does it.
        monkeypatch.setattr(sdist, "_pip_config_lines", list)
        yield server


def leftovers(cache: Path) -> list[str]:
    """Everything in the cache but lock files, and finished entries' names."""
    root = cache / "sources"
    found = [p for p in root.iterdir() if p.name not in ("locks", "downloads")] if root.exists() else []
    downloads = list((root / "downloads").iterdir()) if (root / "downloads").exists() else []
    return sorted(p.name for p in [*found, *downloads])


def test_fetches_once_and_only_the_subdirectory(registry: Registry, private_cache: Path) -> None:
    content = registry.files["mini-1.0.tar.gz"]
    seen: list[tuple[int, int | None]] = []
    source = open_source(SPEC, on_progress=lambda done, total: seen.append((done, total)))
    assert source.pin.kind == "sdist"
    assert source.pin.id == hashlib.sha256(content).hexdigest()
    assert source.version == "0.25.dev0"
    assert not (source.root / "3rdparty/cutlass").exists()
    assert not (source.root / "other").exists()
    assert seen[-1] == (len(content), len(content))
    assert len(leftovers(private_cache)) == 1
    registry.files.clear()  # the second time needs no network
    assert open_source(SPEC, sha256=source.pin.id.upper(), pin=source.pin).root == source.root
    assert len(registry.requests) == 1


def test_an_altered_cache_entry_is_fetched_anew(registry: Registry) -> None:
    source = open_source(SPEC)
    (source.root / "CMakeLists.txt").unlink()
    assert (open_source(SPEC).root / "CMakeLists.txt").exists()
    assert len(registry.requests) == 2


def test_broken_transfers_go_on_where_they_stopped(registry: Registry) -> None:
    registry.break_after, registry.breaks = 150_000, 2
    open_source(SPEC)
    assert [wanted for _, wanted in registry.requests] == [None, "bytes=150000-", "bytes=300000-"]


def test_a_run_ended_while_unpacking_needs_no_second_download(
    registry: Registry, private_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sdist, "unpack", interrupted)
        with pytest.raises(KeyboardInterrupt):
            open_source(SPEC)
    open_source(SPEC)
    assert len(registry.requests) == 1
    assert len(leftovers(private_cache)) == 1


def test_a_refused_download_shows_no_password(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", registry.url.replace("://", "://user:secret@"))
    page = Registry.page
    monkeypatch.setattr(
        Registry, "page", lambda self, project: page(self, project).replace("/files", "/gone")
    )
    with pytest.raises(BuildFailed, match="broke off") as caught:
        open_source(SPEC)
    assert "404" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_without_range_support_it_starts_again(registry: Registry) -> None:
    registry.ranges, registry.break_after, registry.breaks = False, 150_000, 1
    assert open_source(SPEC).version == "0.25.dev0"
    assert [wanted for _, wanted in registry.requests] == [None, "bytes=150000-"]


def test_a_rest_of_another_file_is_thrown_away(registry: Registry, private_cache: Path) -> None:
    digest = hashlib.sha256(registry.files["mini-1.0.tar.gz"]).hexdigest()
    part = private_cache / "sources" / "downloads" / f"{digest}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"rubbish" * 1000)
    assert open_source(SPEC).pin.id == digest


def test_a_rest_longer_than_the_file_is_thrown_away(registry: Registry, private_cache: Path) -> None:
    digest = hashlib.sha256(registry.files["mini-1.0.tar.gz"]).hexdigest()
    part = private_cache / "sources" / "downloads" / f"{digest}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * 2_000_000)
    assert open_source(SPEC).pin.id == digest


def test_always_broken_is_one_error_and_the_rest_is_kept_for_the_next_run(
    registry: Registry, private_cache: Path
) -> None:
    registry.break_after, registry.breaks = 10_000, 99
    with pytest.raises(BuildFailed, match="broke off") as caught:
        open_source(SPEC)
    assert caught.value.exit_code == 1
    assert [name.rpartition(".")[2] for name in leftovers(private_cache)] == ["part"]
    registry.breaks = 0
    open_source(SPEC)
    assert registry.requests[-1][1] == "bytes=40000-"


def test_digest_of_the_user_is_checked(registry: Registry, private_cache: Path) -> None:
    with pytest.raises(BuildFailed, match="sha256 mismatch") as caught:
        open_source(SPEC, sha256="a" * 64)
    assert caught.value.expected == "a" * 64
    assert registry.requests == []  # the registry's own digest told already
    registry.digests = False
    with pytest.raises(BuildFailed, match="sha256 mismatch"):
        open_source(SPEC, sha256="a" * 64)
    assert leftovers(private_cache) == []


def test_digest_of_the_registry_is_checked(registry: Registry, private_cache: Path) -> None:
    registry.lie = True
    with pytest.raises(BuildFailed, match="sha256 mismatch"):
        open_source(SPEC)
    assert leftovers(private_cache) == []


def test_damaged_archive_leaves_nothing(registry: Registry, private_cache: Path) -> None:
    content = registry.files["mini-1.0.tar.gz"]
    registry.files["mini-1.0.tar.gz"] = content[: len(content) // 2]
    with pytest.raises(BuildFailed, match="damaged or cut short"):
        open_source(SPEC)
    assert leftovers(private_cache) == []


def test_absent_subdirectory(registry: Registry, private_cache: Path) -> None:
    with pytest.raises(BuildFailed, match="no folder 'nowhere'"):
        open_source("sdist:mini==1.0#nowhere")
    assert leftovers(private_cache) == []


@pytest.mark.parametrize("spec", ["sdist:mini==2.0#x", "sdist:absent==1.0"])
def test_absent_version_or_project(registry: Registry, spec: str) -> None:
    with pytest.raises(ConfigError, match="no sdist of") as caught:
        open_source(spec)
    assert caught.value.where == registry.url


def test_no_network_is_one_error(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:secret@127.0.0.1:9/simple/")
    with pytest.raises(BuildFailed, match="can't reach the package registry") as caught:
        open_source(SPEC)
    assert "127.0.0.1:9" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_full_disk_leaves_no_entry(
    registry: Registry, private_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device", "x")

    with monkeypatch.context() as patch:
        patch.setattr("buildtool.sources.unpack.shutil.copyfileobj", full)
        with pytest.raises(OSError, match="No space left"):
            open_source(SPEC)
    # No entry, but the checked download is not thrown away: once there is room it is enough.
    assert [name.rpartition(".")[2] for name in leftovers(private_cache)] == ["part"]
    open_source(SPEC)
    assert len(registry.requests) == 1


def test_find_links_of_pip_are_used(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "links"
    folder.mkdir()
    (folder / "mini-1.0.tar.gz").write_bytes(registry.files.pop("mini-1.0.tar.gz"))
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    source = open_source(SPEC)
    assert source.pin.id == hashlib.sha256((folder / "mini-1.0.tar.gz").read_bytes()).hexdigest()


def test_pip_configuration_file_is_used(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdist, "_pip_config_lines", PIP_CONFIG_LINES)
    monkeypatch.delenv("PIP_INDEX_URL")
    config = tmp_path / "pip.conf"
    config.write_text(f"[global]\nindex-url = {registry.url}\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    assert open_source(SPEC).version == "0.25.dev0"


def test_local_archive(tmp_path: Path, private_cache: Path) -> None:
    archive = tmp_path / "a b.tar.gz"
    archive.write_bytes(package(tmp_path))
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    source = open_source(f"{archive}#3rdparty/tvm", sha256=digest)
    assert (source.pin.kind, source.pin.id) == ("archive", digest)
    assert (source.root / "version.py").is_file()
    with pytest.raises(BuildFailed, match="sha256 mismatch"):
        open_source(f"{archive}#3rdparty/tvm", sha256="b" * 64)


def test_local_archive_of_the_tree_itself(tmp_path: Path, private_cache: Path) -> None:
    tree = make_minitvm(tmp_path / "tvm-0.19")
    archive = tmp_path / "tvm.tar.xz"
    with tarfile.open(archive, "w:xz") as out:
        out.add(tree, "tvm-0.19")
    assert open_source(str(archive)).version == "0.19.0"


def test_a_subdirectory_with_one_folder_stays_as_it_is(tmp_path: Path, private_cache: Path) -> None:
    tree = make_minitvm(tmp_path / "tvm")
    archive = tmp_path / "a.tar.gz"
    with tarfile.open(archive, "w:gz") as out:
        out.add(tree, "top/3rdparty/tvm")
    with pytest.raises(UsageError, match="no CMakeLists") as caught:
        open_source(f"{archive}#3rdparty")
    assert caught.value.found == "CMakeLists.txt in tvm"


def test_zip_of_a_registry(registry: Registry, tmp_path: Path) -> None:
    tree = make_minitvm(tmp_path / "zip" / "mini-1.0" / "3rdparty" / "tvm", "relay")
    registry.files.clear()
    name = shutil.make_archive(str(tmp_path / "mini-1.0"), "zip", tree.parents[2])
    registry.files["mini-1.0.zip"] = Path(name).read_bytes()
    assert open_source(SPEC).version == "0.19.0"


@pytest.mark.parametrize("digest", ["xyz", "a" * 63])
def test_bad_digest_is_refused(digest: str) -> None:
    with pytest.raises(ConfigError, match="64 hex digits"):
        open_source(SPEC, sha256=digest)
