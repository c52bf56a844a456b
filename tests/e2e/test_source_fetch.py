"""Real git, real processes: fetching, pinning, drift, two at once, killed in the middle, and the commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from buildtool.core.errors import BuildFailed, ConfigError, UsageError
from buildtool.sources import Pin, cache, git, open_source
from tests.standins.minitvm import make_minitvm

pytestmark = pytest.mark.e2e


def run_git(folder: Path, *words: str) -> str:
    argv = [
        "git",
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.invalid",
        "-c",
        "protocol.file.allow=always",
    ]
    done = subprocess.run(
        [*argv, "-C", str(folder), *words], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


def commit(folder: Path, message: str) -> str:
    run_git(folder, "add", "-A")
    run_git(folder, "commit", "--quiet", "-m", message)
    return run_git(folder, "rev-parse", "HEAD")


@pytest.fixture
def upstream(tmp_path: Path, private_cache: Path) -> Path:
    """A relax-era TVM repository whose tvm-ffi is a real submodule and whose cutlass can't be fetched."""
    ffi = tmp_path / "a b é" / "tvm-ffi"
    tree = make_minitvm(tmp_path / "a b é" / "tvm", "relax")
    (tree / "3rdparty/tvm-ffi").rename(ffi)
    for folder in (ffi, tree):
        run_git(folder, "init", "--quiet", "--initial-branch=main")
    commit(ffi, "ffi")
    run_git(tree, "submodule", "--quiet", "add", str(ffi), "3rdparty/tvm-ffi")
    with (tree / ".gitmodules").open("a") as stream:
        stream.write('[submodule "3rdparty/cutlass"]\n\tpath = 3rdparty/cutlass\n\turl = /nowhere/cutlass\n')
    run_git(tree, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},3rdparty/cutlass")
    run_git(tree, "add", ".")
    run_git(tree, "commit", "--quiet", "-m", "one")
    run_git(tree, "tag", "-a", "v1", "-m", "annotated")
    return tree


def grow(tree: Path, text: str) -> str:
    (tree / "NEWS").write_text(text)
    run_git(tree, "add", "NEWS")
    run_git(tree, "commit", "--quiet", "-m", text)
    return run_git(tree, "rev-parse", "HEAD")


def test_tag_branch_and_commit(upstream: Path) -> None:
    first = run_git(upstream, "rev-parse", "v1^{commit}")
    second = grow(upstream, "two")
    third = grow(upstream, "three")
    for ref, expected in (("v1", first), ("main", third), (second, second)):
        source = open_source(f"git+file://{upstream}@{ref}")
        assert source.pin == Pin("git", expected)
        assert run_git(source.root, "rev-parse", "HEAD") == expected
        assert (source.root / "3rdparty/tvm-ffi/CMakeLists.txt").is_file()
        assert source.version == "0.25.dev0"
    depth = run_git(open_source(f"git+file://{upstream}@v1").root, "rev-list", "--count", "HEAD")
    assert depth == "1"


def test_tag_wins_over_a_branch_of_the_same_name(upstream: Path) -> None:
    tagged = run_git(upstream, "rev-parse", "v1^{commit}")
    run_git(upstream, "checkout", "--quiet", "-b", "v1")
    assert grow(upstream, "on the branch") != tagged
    assert open_source(f"git+{upstream}@v1").pin.id == tagged


def test_unknown_ref_gets_a_suggestion(upstream: Path) -> None:
    run_git(upstream, "tag", "v0.19.0")
    with pytest.raises(ConfigError, match="no tag, branch or commit") as caught:
        open_source(f"git+{upstream}@v0.19")
    assert caught.value.fix == "did you mean 'v0.19.0'?"


@pytest.mark.parametrize("url", ["https://127.0.0.1:9/x.git", "file:///nowhere/x"])
def test_unreachable_repository(url: str, private_cache: Path) -> None:
    with pytest.raises(BuildFailed, match="can't reach the git repository") as caught:
        open_source(f"git+{url}@v1")
    assert caught.value.where == url
    assert caught.value.details


def test_moved_tag_is_drift_and_a_cached_pin_needs_no_remote(upstream: Path) -> None:
    spec = f"git+{upstream}@v1"
    pin = open_source(spec).pin
    run_git(upstream, "tag", "-d", "v1")
    moved = grow(upstream, "two")
    run_git(upstream, "tag", "v1")
    assert open_source(spec).pin.id == moved
    place = cache.entry(pin)
    upstream.rename(upstream.with_name("away"))
    assert open_source(spec, pin=pin).root == place / "tree"
    upstream.with_name("away").rename(upstream)
    (place / cache.MARKER).unlink()
    with pytest.raises(UsageError, match="not the one that was locked") as caught:
        open_source(spec, pin=pin)
    assert caught.value.found == f"git {moved}"


def test_half_a_clone_is_never_taken_for_whole(upstream: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = f"git+{upstream}@v1"

    def broken(_: git.Git) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(git, "_fill_submodules", broken)
        with pytest.raises(KeyboardInterrupt):
            open_source(spec)
    (partial,) = cache.folder().glob("*.partial")
    (partial / "tree/.git/index.lock").touch()  # as a killed git leaves it
    (partial / "tree/CMakeLists.txt").write_text("half")
    fetched: list[str] = []
    real = git._fetch_commit
    monkeypatch.setattr(git, "_fetch_commit", lambda *a: (fetched.append("again"), real(*a)))
    source = open_source(spec)
    assert fetched == []  # its objects were there already
    assert "project(tvm" in (source.root / "CMakeLists.txt").read_text()
    assert not partial.exists()


def buildtool(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "buildtool", *words],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def project(tmp_path: Path, spec: str) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "buildtool.toml").write_text(f"[source]\nspec = {json.dumps(spec)}\n")
    return folder


def test_two_processes_at_once_fetch_once(upstream: Path, tmp_path: Path) -> None:
    folder = project(tmp_path, f"git+file://{upstream}@v1")
    argv = [sys.executable, "-m", "buildtool", "source", "fetch", "--json"]
    both = [subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in "ab"]
    outputs = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert len({json.loads(out)["root"] for out, _ in outputs}) == 1
    assert sum(err.count(b"fetching v1") for _, err in outputs) == 1


def test_killed_in_the_middle_goes_on(upstream: Path, tmp_path: Path) -> None:
    folder = project(tmp_path, f"git+file://{upstream}@v1")
    argv = [sys.executable, "-m", "buildtool", "source", "fetch"]
    process = subprocess.Popen(argv, cwd=folder, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not list(cache.folder().glob("*.partial/tree/.git")) and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not list(cache.folder().glob(f"*/{cache.MARKER}"))
    done = buildtool(folder, "source", "fetch")
    assert done.returncode == 0, done.stderr
    assert (Path(done.stdout.strip()) / "3rdparty/tvm-ffi/CMakeLists.txt").is_file()


def test_commands_and_lock(upstream: Path, tmp_path: Path) -> None:
    folder = project(tmp_path, f"git+{upstream.as_uri()}@main")
    lock = folder / "buildtool.lock"
    refused = buildtool(folder, "source", "show", "--locked")
    assert refused.returncode == 2
    assert "not in the lock file" in refused.stderr

    first = json.loads(buildtool(folder, "source", "fetch", "--json").stdout)
    text = lock.read_text()
    assert first["pin"]["id"] in text
    moved = grow(upstream, "two")
    # The lock decides, also without --locked, until it is updated.
    shown = json.loads(buildtool(folder, "source", "show", "--locked", "--json").stdout)
    assert shown == first
    assert lock.read_text() == text
    assert json.loads(buildtool(folder, "source", "fetch", "--update", "--json").stdout)["pin"]["id"] == moved
    assert moved in lock.read_text()

    rows = json.loads(buildtool(folder, "source", "options", "kalloc", "--json").stdout)
    assert [(row["name"], row["declared"], row["config_default"]) for row in rows] == [
        ("USE_KALLOC_ALIGNMENT", False, "64")
    ]
    table = buildtool(folder, "source", "options", "opencl").stdout
    assert "USE_OPENCL_ENABLE_HOST_PTR" in table
    assert "USE_RPC" not in table


def test_working_tree_is_held_to_its_pin_only_when_locked(tmp_path: Path) -> None:
    tree = make_minitvm(tmp_path / "tvm")
    folder = project(tmp_path, "../tvm")
    assert buildtool(folder, "source", "fetch").returncode == 0
    assert list(json.loads((folder / "buildtool.lock").read_text())["sources"]) == ["../tvm"]
    with (tree / "CMakeLists.txt").open("a") as stream:
        stream.write("# edited\n")
    refused = buildtool(folder, "source", "show", "--locked")
    assert refused.returncode == 2
    assert "not the one that was locked" in refused.stderr
    assert buildtool(folder, "source", "show").returncode == 0
    assert buildtool(folder, "source", "show", "--locked").returncode == 0


def test_a_source_named_by_a_flag_leaves_the_files_own_lock_and_digest_alone(tmp_path: Path) -> None:
    tree = make_minitvm(tmp_path / "tvm")
    folder = project(tmp_path, "sdist:absent==1.0")
    with (folder / "buildtool.toml").open("a") as stream:
        stream.write(f'sha256 = "{"a" * 64}"\n')
    done = buildtool(folder, "source", "fetch", "--source", str(tree))
    assert done.returncode == 0, done.stderr
    assert not (folder / "buildtool.lock").exists()
    refused = buildtool(folder, "source", "fetch", "--source", str(tree), "--locked")
    assert refused.returncode == 2
    assert "not in the lock file" in refused.stderr


def test_no_source_named(tmp_path: Path) -> None:
    done = buildtool(tmp_path, "source", "show", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"] == "no TVM source is named"


def test_tvm_home_is_used(tmp_path: Path) -> None:
    tree = make_minitvm(tmp_path / "tvm")
    done = buildtool(tmp_path, "source", "fetch", TVM_HOME=str(tree))
    assert done.stdout.strip() == str(tree)


def test_unwritable_cache_is_one_error(upstream: Path, tmp_path: Path) -> None:
    folder = project(tmp_path, f"git+{upstream.as_uri()}@main")
    (tmp_path / "file").touch()
    done = buildtool(folder, "source", "fetch", BUILDTOOL_CACHE_DIR=str(tmp_path / "file" / "cache"))
    assert done.returncode == 1
    assert done.stderr.count("error:") == 1
    assert str(tmp_path / "file") in done.stderr
    assert not (folder / "buildtool.lock").exists()


@pytest.mark.tvm
def test_real_tree(tvm_source: object) -> None:
    from buildtool.sources import TvmSource

    assert isinstance(tvm_source, TvmSource)
    found = tvm_source.catalogue.options
    assert tvm_source.capabilities.targets >= {"tvm_runtime", "tvm_rpc"}
    assert tvm_source.capabilities.tvm_ffi
    assert found["USE_KALLOC_ALIGNMENT"].kind == "defaulted"
    assert found["USE_OPENCL"].kind == "declared"
    assert found["TVM_FFI_USE_LIBBACKTRACE"].declared
    assert "USE_GRAPH_EXECUTOR" not in found
