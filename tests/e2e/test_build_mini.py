"""Whole builds of the miniature tree, as a person would run them, and what can go wrong in the middle."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import BuildtoolRunner
from tests.standins.minitvm import make_minitvm

pytestmark = pytest.mark.e2e

LINUX = ("linux-aarch64", "--json")


def need(*programs: str) -> None:
    missing = [p for p in programs if shutil.which(p) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (buildtool doctor --install)")


@pytest.fixture(params=["relay", "relax"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return make_minitvm(tmp_path / "tvm", era=request.param)


@pytest.fixture
def relax(tmp_path: Path) -> Path:
    return make_minitvm(tmp_path / "tvm", era="relax")


def result(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    assert done.returncode == 0, done.stderr
    (line,) = json.loads(done.stdout)
    assert isinstance(line, dict)
    return line


def names(line: dict[str, object]) -> list[str]:
    return [a["name"] for a in line["artifacts"]]  # type: ignore[attr-defined]


def machine(path: Path) -> str:
    from buildtool.artifacts import read_elf

    return read_elf(path).machine


@pytest.mark.parametrize("toolchain", ["gcc", "clang", "zig"])
def test_cross_builds(tree: Path, run_buildtool: BuildtoolRunner, toolchain: str) -> None:
    need(
        *{"gcc": ["aarch64-linux-gnu-g++"], "clang": ["clang", "aarch64-linux-gnu-g++"], "zig": []}[toolchain]
    )
    if toolchain == "zig":
        pytest.importorskip("ziglang", reason="zig is not installed: pip install 'buildtool[zig]'")
    line = result(run_buildtool(*LINUX, "--source", str(tree), "--toolchain", toolchain))
    relay = (tree / "apps" / "cpp_rtvm").is_dir()
    assert set(names(line)) == {
        "libtvm_runtime.so",
        "tvm_rpc",
        "rtvm" if relay else "libtvm_ffi.so",
    }
    for name in names(line):
        assert machine(Path(str(line["dist"])) / name) == "EM_AARCH64"
    effects = {e["option"]: e for e in line["effects"]}  # type: ignore[attr-defined]
    assert effects["USE_KALLOC_ALIGNMENT"]["status"] == "proved"
    assert "-DTVM_KALLOC_ALIGNMENT=32" in effects["USE_KALLOC_ALIGNMENT"]["evidence"]


def test_second_run_does_nothing_and_says_so(relax: Path, run_buildtool: BuildtoolRunner) -> None:
    words = ("host-runtime", "--source", str(relax), "--json")
    first = result(run_buildtool(*words))
    done = run_buildtool(*words)
    second = result(done)
    assert (first["configured"], second["configured"]) == (True, False)
    assert first["steps"] and second["steps"] == 0
    assert "inputs unchanged, no configure" in done.stderr
    assert first["artifacts"] == second["artifacts"]


def test_a_changed_option_configures_again_and_is_seen_on_the_compile_lines(
    relax: Path, run_buildtool: BuildtoolRunner
) -> None:
    words = ("host-runtime", "--source", str(relax), "--json", "--set")
    for value in ("64", "128"):
        done = run_buildtool(*words, f"USE_KALLOC_ALIGNMENT={value}")
        line = result(done)
        database = (Path(str(line["build_dir"])) / "compile_commands.json").read_text()
        assert f"-DTVM_KALLOC_ALIGNMENT={value}" in database
    assert "options changed, configuring again" in done.stderr
    assert "- set(USE_KALLOC_ALIGNMENT 64)" in done.stderr.replace('"', "")


def test_a_changed_compiler_builds_clean_and_says_so(relax: Path, run_buildtool: BuildtoolRunner) -> None:
    """onnxruntime#21538: a build folder went on with the old NDK."""
    need("clang", "clang++")
    words = ("host-runtime", "--source", str(relax), "--json")
    first = result(run_buildtool(*words))
    done = run_buildtool(*words, env={"CC": "clang", "CXX": "clang++"})
    second = result(done)
    assert "toolchain changed, building clean" in done.stderr
    assert second["steps"] == first["steps"]


def test_a_typo_is_refused_with_the_right_name(relax: Path, run_buildtool: BuildtoolRunner) -> None:
    done = run_buildtool("host-runtime", "--source", str(relax), "--set", "USE_KALLOC_ALIGMENT=32")
    assert done.returncode == 2
    assert "USE_KALLOC_ALIGMENT" in done.stderr
    assert "USE_KALLOC_ALIGNMENT" in done.stderr
    assert not (run_buildtool.cwd / "build").exists()


def test_spaces_and_non_ascii_everywhere(tmp_path: Path) -> None:
    """conan#17378: a space in a path."""
    home = tmp_path / "a b é"
    home.mkdir()
    tree = make_minitvm(home / "tvm ü", era="relax")
    line = result(BuildtoolRunner(home)("host-runtime", "--source", str(tree), "--json"))
    assert "libtvm_runtime.so" in names(line)


def test_a_failing_compile_shows_its_own_lines(relax: Path, run_buildtool: BuildtoolRunner) -> None:
    broken = next((relax / "src" / "runtime").rglob("*.cc"))
    broken.write_text(broken.read_text() + "\nint broken = does_not_exist;\n")
    done = run_buildtool("host-runtime", "--source", str(relax), "--cache", "none")
    assert done.returncode == 1
    assert "does_not_exist" in done.stderr
    assert "build.log" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (run_buildtool.cwd / "build" / "dist").exists()


def test_a_failing_configure_shows_cmakes_error(relax: Path, run_buildtool: BuildtoolRunner) -> None:
    lists = relax / "CMakeLists.txt"
    lists.write_text(lists.read_text() + '\nmessage(FATAL_ERROR "no such luck")\n')
    done = run_buildtool("host-runtime", "--source", str(relax))
    assert done.returncode == 1
    assert "could not configure" in done.stderr
    assert "no such luck" in done.stderr


def test_a_read_only_build_folder_is_one_clear_error(relax: Path, run_buildtool: BuildtoolRunner) -> None:
    (run_buildtool.cwd / "build").write_text("a file, not a folder")
    done = run_buildtool("host-runtime", "--source", str(relax))
    assert done.returncode == 2
    assert "can't write to the build folder" in done.stderr
    assert "--build-dir" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small tmpfs needs root")
def test_a_full_disk_is_refused_before_the_build(relax: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(small)], check=False)
    if mounted.returncode:
        pytest.skip("this system does not allow mounting a tmpfs")
    try:
        words = ("host-runtime", "--source", str(relax), "--build-dir", str(small / "build"))
        done = BuildtoolRunner(tmp_path)(*words)
        assert done.returncode == 2
        assert "MB free in" in done.stderr
    finally:
        subprocess.run(["umount", str(small)], check=True)


def start(words: list[str], cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "buildtool", *words],
        cwd=cwd,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def slow_compiler(folder: Path) -> dict[str, str]:
    """A g++ that takes its time, so that there is a middle to be interrupted in."""
    folder.mkdir()
    for name in ("gcc", "g++"):
        wrapper = folder / f"slow-{name}"
        real = shutil.which(name)
        wrapper.write_text(f'#!/bin/sh\ncase " $* " in *" -c "*.cc*) sleep 1 ;; esac\nexec {real} "$@"\n')
        wrapper.chmod(0o755)
    return {"CC": str(folder / "slow-gcc"), "CXX": str(folder / "slow-g++")}


def processes_in(folder: Path) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if str(folder) in words and str(os.getpid()) != entry.name:
            found.append(words)
    return found


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_interrupted_in_mid_build_leaves_nothing_running_and_resumes(
    relax: Path, tmp_path: Path, signum: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in slow_compiler(tmp_path / "bin").items():
        monkeypatch.setenv(name, value)
    words = ["host-runtime", "--source", str(relax), "--json", "--cache", "none"]
    process = start(words, tmp_path)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = list((tmp_path / "build").glob("host-runtime-*/build.log"))
        if found and "[1/" in found[0].read_text():
            break
        time.sleep(0.05)
    process.send_signal(signum)
    _, said = process.communicate(timeout=30)
    assert process.returncode == code, said
    assert "Traceback" not in said
    deadline = time.monotonic() + 10
    while (left := processes_in(tmp_path / "build")) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left
    assert not (tmp_path / "build" / "dist").exists()
    line = result(BuildtoolRunner(tmp_path)(*words))
    assert "libtvm_runtime.so" in names(line)
    assert line["configured"] is False  # what was done before the signal is kept


def test_two_at_once_on_one_folder_the_second_is_told_who_holds_it(
    relax: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in slow_compiler(tmp_path / "bin").items():
        monkeypatch.setenv(name, value)
    words = ["host-runtime", "--source", str(relax), "--cache", "none"]
    first = start(words, tmp_path)
    deadline = time.monotonic() + 60
    while not list((tmp_path / "build").glob("host-runtime-*/build.ninja")) and time.monotonic() < deadline:
        time.sleep(0.05)
    done = BuildtoolRunner(tmp_path)(*words)
    assert done.returncode == 2
    assert f"in use by process {first.pid}" in done.stderr
    first.communicate(timeout=120)
    assert first.returncode == 0


def test_a_half_made_folder_is_built_clean(relax: Path, run_buildtool: BuildtoolRunner) -> None:
    words = ("host-runtime", "--source", str(relax), "--json")
    first = result(run_buildtool(*words))
    folder = Path(str(first["build_dir"]))
    (folder / "buildtool.json").write_text('{"schema": 1, "anch')
    (folder / "CMakeCache.txt").write_text("garbage")
    done = run_buildtool(*words)
    assert result(done)["artifacts"] == first["artifacts"]
    assert "building clean" in done.stderr


def test_a_profile_of_ones_own(relax: Path, tmp_path: Path) -> None:
    (tmp_path / "buildtool.toml").write_text(
        f'[source]\nspec = "{relax}"\n[profiles.board]\nextends = "host-runtime"\ntargets = ["tvm_runtime"]\n'
        "options = { USE_KALLOC_ALIGNMENT = 256 }\n"
    )
    line = result(BuildtoolRunner(tmp_path)("build", "board", "--json"))
    assert names(line) == ["libtvm_ffi.so", "libtvm_runtime.so"]
    effects = {e["option"]: e["value"] for e in line["effects"]}  # type: ignore[attr-defined]
    assert effects["USE_KALLOC_ALIGNMENT"] == "256"
