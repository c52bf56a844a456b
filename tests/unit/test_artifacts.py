"""collect and load: what was built, stripped, listed, and guarded by digests."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from buildtool.artifacts import collect, load, read_elf
from buildtool.build.model import BuildResult
from buildtool.core.errors import BuildFailed, UsageError
from buildtool.core.types import Abi
from tests.standins.binaries import ADD, ARM_CC, build_result, compile_c, compiler, host_toolchain

USE_ADD = "int add(int, int); int main(void) { return add(1, -1); }\n"


@pytest.fixture
def build(tmp_path: Path) -> BuildResult:
    """A program that needs a library, given in the wrong order, with debug information."""
    folder = tmp_path / "build"
    library = compile_c(folder, "libadd.so", ADD, "-g")
    program = compile_c(folder, "prog", USE_ADD, "-g", f"-L{folder}", "-ladd")
    return build_result(host_toolchain(), folder, program, library)


def test_collects_what_was_built(build: BuildResult, tmp_path: Path) -> None:
    found = collect(build, tmp_path / "dist")
    assert [(a.name, a.role) for a in found.artifacts] == [("libadd.so", "library"), ("prog", "executable")]
    assert sorted(p.name for p in found.root.iterdir()) == [".debug", "libadd.so", "manifest.json", "prog"]
    for artifact in found.artifacts:
        assert artifact.elf.stripped and not artifact.elf.has_debug
        assert artifact.debug is not None
        debug = read_elf(artifact.debug)
        assert debug.has_debug and debug.build_id == artifact.elf.build_id is not None
        assert artifact.path.read_bytes().count(f"{artifact.name}.debug".encode()) == 1, "the debug link"
        assert artifact.size < (build.plan.build_dir / artifact.name).stat().st_size
        assert artifact.path.stat().st_mode & 0o111
    assert read_elf(build.outputs[0]).has_debug, "the build's own files are left alone"


def test_debug_files_are_found_by_the_usual_tools(build: BuildResult, tmp_path: Path) -> None:
    """By the debug link, from the stripped program, with nothing set up."""
    found = collect(build, tmp_path / "dist").find("prog")
    assert found is not None
    symbols = subprocess.run(
        [compiler("nm"), str(build.outputs[0])], capture_output=True, text=True, check=True
    ).stdout
    address = next(line.split()[0] for line in symbols.splitlines() if line.endswith(" T main"))
    told = subprocess.run(
        [compiler("addr2line"), "-f", "-e", str(found.path), address],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert told[0] == "main" and told[1].endswith("prog.c:1")


def test_manifest_tells_where_it_came_from(build: BuildResult, tmp_path: Path) -> None:
    found = collect(build, tmp_path / "dist")
    data = json.loads(found.manifest.read_text())
    assert data["source"] == {
        "version": "0.25.dev0",
        "spec": "sdist:x==1",
        "pin": "sdist:feed",
        "tvm_ffi": True,
    }
    assert data["options"] == {"USE_RPC": "ON"} and data["profile"] == "demo"
    assert data["toolchain"]["version"] == "gcc of the tests"
    library = data["files"][0]
    assert library["name"] == "libadd.so" and library["elf"]["soname"] == "libadd.so"
    assert library["debug"] == ".debug/libadd.so.debug"
    assert len(library["sha256"]) == 64 and library["size"] == found.artifacts[0].size
    assert (found.source_dir, found.build_dir) == ("/src/tvm", str(build.plan.build_dir))


def test_load_gives_back_what_collect_gave(build: BuildResult, tmp_path: Path) -> None:
    found = collect(build, tmp_path / "dist")
    assert load(tmp_path / "dist") == found


def test_without_strip_the_files_are_the_builds_own(build: BuildResult, tmp_path: Path) -> None:
    found = collect(build, tmp_path / "dist", strip=False)
    for artifact, name in zip(found.artifacts, ("libadd.so", "prog"), strict=True):
        assert artifact.path.read_bytes() == (build.plan.build_dir / name).read_bytes()
        assert artifact.debug is None


def test_no_debug_information_no_debug_file(tmp_path: Path) -> None:
    library = compile_c(tmp_path / "build", "libadd.so", ADD)
    found = collect(build_result(host_toolchain(), tmp_path / "build", library), tmp_path / "dist")
    assert found.artifacts[0].debug is None and not (found.root / ".debug").exists()


def test_library_goes_by_its_soname(tmp_path: Path) -> None:
    library = compile_c(tmp_path / "build", "libadd.so.1", ADD)
    link = library.with_name("libadd.so")
    link.symlink_to(library.name)
    found = collect(build_result(host_toolchain(), tmp_path / "build", link), tmp_path / "dist")
    assert [a.name for a in found.artifacts] == ["libadd.so.1"]
    assert not found.artifacts[0].path.is_symlink()


def test_runtime_library_of_the_toolchain_is_shipped(tmp_path: Path) -> None:
    runtime = compile_c(tmp_path / "ndk", "libc++_shared.so", ADD)
    library = compile_c(tmp_path / "build", "liba.so", "int a;\n")
    toolchain = host_toolchain(runtime_libs=(runtime,))
    found = collect(build_result(toolchain, tmp_path / "build", library), tmp_path / "dist")
    assert [(a.name, a.role) for a in found.artifacts] == [
        ("libc++_shared.so", "runtime"),
        ("liba.so", "library"),
    ]


def test_static_archive_is_left_out_aloud(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "build"
    library, member = compile_c(folder, "liba.so", ADD), compile_c(folder, "a.o", ADD)
    archive = folder / "liba.a"
    subprocess.run([compiler("ar"), "rc", archive, member], check=True)
    found = collect(build_result(host_toolchain(), folder, archive, library), tmp_path / "dist")
    assert [a.name for a in found.artifacts] == ["liba.so"]
    assert "liba.a: a static archive, not collected" in capsys.readouterr().err
    with pytest.raises(BuildFailed, match="no program and no shared library"):
        collect(build_result(host_toolchain(), folder, archive), tmp_path / "dist2")


def test_library_of_another_machine_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "build"
    theirs = compile_c(folder, "liba.so", ADD, cc=ARM_CC)
    toolchain = host_toolchain()
    if toolchain.abi is Abi.ARM64:
        pytest.skip("the host is an aarch64 itself")
    with pytest.raises(BuildFailed, match=r"liba\.so is for another machine") as caught:
        collect(build_result(toolchain, folder, theirs), tmp_path / "dist")
    assert "EM_AARCH64" in str(caught.value) and "EM_X86_64" in str(caught.value)
    assert not (tmp_path / "dist").exists()


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    one = compile_c(tmp_path / "build" / "a", "libx.so", ADD)
    two = compile_c(tmp_path / "build" / "b", "libx.so", ADD)
    with pytest.raises(BuildFailed, match=r"two built files want the name libx\.so"):
        collect(build_result(host_toolchain(), tmp_path / "build", one, two), tmp_path / "dist")


def test_a_failure_keeps_the_old_folder(build: BuildResult, tmp_path: Path) -> None:
    before = collect(build, tmp_path / "dist")
    build.outputs[0].unlink()
    with pytest.raises(BuildFailed, match="is missing"):
        collect(build, tmp_path / "dist")
    assert load(tmp_path / "dist") == before
    assert [p.name for p in tmp_path.glob(".*")] == []


def _flip_a_byte(dist: Path) -> None:
    data = bytearray((dist / "prog").read_bytes())
    data[-1] ^= 0xFF
    (dist / "prog").write_bytes(data)


def _edit(change: Callable[[dict[str, object]], object]) -> Callable[[Path], None]:
    def edit(dist: Path) -> None:
        data = json.loads((dist / "manifest.json").read_text())
        change(data)
        (dist / "manifest.json").write_text(json.dumps(data))

    return edit


DAMAGE: list[tuple[Callable[[Path], object], str]] = [
    (_flip_a_byte, "prog is not the file that was built"),
    (lambda d: (d / "prog").unlink(), "prog is in the manifest but not in the folder"),
    (lambda d: (d / "manifest.json").write_text("{"), "not a JSON file"),
    (lambda d: (d / "manifest.json").write_text("[]"), "damaged manifest"),
    (_edit(lambda m: m.pop("files")), "damaged manifest: KeyError: 'files'"),
    (_edit(lambda m: m.update(abi="vax")), "damaged manifest"),
    (_edit(lambda m: m.update(format=99)), "another version of buildtool"),
    (_edit(lambda m: m["files"][0].update(name="../x")), "not a plain file name"),  # type: ignore[index]
]


@pytest.mark.parametrize(("damage", "message"), DAMAGE)
def test_load_refuses_damage(
    build: BuildResult, tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    collect(build, tmp_path / "dist")
    damage(tmp_path / "dist")
    with pytest.raises(BuildFailed, match=message):
        load(tmp_path / "dist")


def test_load_where_nothing_was_built(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no built files here") as caught:
        load(tmp_path)
    assert caught.value.exit_code == 2 and caught.value.fix is not None


def test_the_same_files_are_not_collected_twice(build: BuildResult, tmp_path: Path) -> None:
    result = build
    first = collect(result, tmp_path / "dist")
    stamp = (tmp_path / "dist" / "manifest.json").stat().st_mtime_ns
    second = collect(result, tmp_path / "dist")
    assert second == first
    assert (tmp_path / "dist" / "manifest.json").stat().st_mtime_ns == stamp
    # A changed wish, a relinked file and a damaged copy each make it collect again.
    collect(result, tmp_path / "dist", strip=False)
    assert (tmp_path / "dist" / "manifest.json").stat().st_mtime_ns != stamp
    (tmp_path / "dist" / first.artifacts[0].name).write_bytes(b"damaged")
    third = collect(result, tmp_path / "dist", strip=False)
    assert third.artifacts[0].path.read_bytes() != b"damaged"
    os.utime(result.outputs[0], (1, 1))
    before = (tmp_path / "dist" / "manifest.json").stat().st_mtime_ns
    collect(result, tmp_path / "dist", strip=False)
    assert (tmp_path / "dist" / "manifest.json").stat().st_mtime_ns != before
