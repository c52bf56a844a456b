"""The whole line on TVM's real source: fetched, cross-built, run and checked on an emulated device."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from buildtool.api import Line
from buildtool.verify import opencl_checks
from tests.conftest import BUILDS, DEMO_SETTINGS, BuildtoolRunner

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.tvm,
    pytest.mark.skipif(
        shutil.which("qemu-aarch64-static") is None,
        reason="no qemu-aarch64-static (buildtool doctor --install)",
    ),
]

BUILD_WORDS = ("linux-aarch64", "--settings", str(DEMO_SETTINGS), "--build-dir", str(BUILDS / "real"))


def test_every_check_passes_and_the_kernel_equals_numpy(
    aarch64_line: Line, tvm_python: Path, run_buildtool: BuildtoolRunner, tmp_path: Path
) -> None:
    junit = tmp_path / "report.xml"
    done = run_buildtool(
        "verify", str(aarch64_line.artifacts.root), "--device", "qemu", "--json", "--junit", str(junit)
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    status = {(r["id"], r["subject"]): r["status"] for r in report["results"]}
    assert report["ok"]
    assert "FAIL" not in status.values()
    # What the emulated device can't show is skipped with a reason, and nothing else is.
    skipped = [r for r in report["results"] if r["status"] == "SKIP"]
    assert {r["id"] for r in skipped} <= {check.id for check in opencl_checks.CHECKS}
    assert all(r["evidence"] for r in skipped)
    by_id = {r["id"]: r for r in report["results"]}
    for check in ("smoke-abi", "rpc-copy", "rpc-kernel", "llvm-add", "llvm-matmul"):
        assert by_id[check]["status"] == "PASS", check
        assert by_id[check]["measured"], check
    assert "<testsuite" in junit.read_text()


def test_options_are_on_the_compile_lines_of_the_real_tree(aarch64_line: Line) -> None:
    effects = {e.option: e for e in aarch64_line.result.effects}
    assert effects["USE_KALLOC_ALIGNMENT"].evidence == "-DTVM_KALLOC_ALIGNMENT=32 on the compile lines"
    assert not [e for e in effects.values() if e.status == "no-effect"]


def test_another_value_reaches_the_compile_lines_without_building(aarch64_line: Line, tmp_path: Path) -> None:
    """The second of two settings: configured only, its compile lines read."""
    from dataclasses import replace

    from buildtool import profiles
    from buildtool.build import fingerprint
    from buildtool.build.runner import _configure

    profile = profiles.resolve(
        "linux-aarch64",
        aarch64_line.source,
        aarch64_line.settings,
        sets=["USE_KALLOC_ALIGNMENT=128"],
        toolchain=aarch64_line.toolchain,
    )
    plan = replace(aarch64_line.result.plan, profile=profile, build_dir=tmp_path / "other")
    plan.build_dir.mkdir()
    effects = {e.option: e for e in _configure(plan, fingerprint.of_plan(plan, "x"))}
    assert effects["USE_KALLOC_ALIGNMENT"].evidence == "-DTVM_KALLOC_ALIGNMENT=128 on the compile lines"


def test_a_second_run_is_close_to_bare_ninja(aarch64_line: Line, run_buildtool: BuildtoolRunner) -> None:
    done = run_buildtool(*BUILD_WORDS, "--json")
    assert done.returncode == 0, done.stderr
    (line,) = json.loads(done.stdout)
    assert (line["configured"], line["steps"]) == (False, 0)
    assert "inputs unchanged" in done.stderr


def test_a_typo_gets_the_real_trees_name(aarch64_line: Line, run_buildtool: BuildtoolRunner) -> None:
    done = run_buildtool(*BUILD_WORDS, "--set", "USE_OpenCL=ON")
    assert done.returncode == 2
    assert re.search(r"USE_OpenCL.*\n(.*\n)*.*USE_OPENCL", done.stderr)


def test_no_host_path_is_in_the_files(aarch64_line: Line) -> None:
    for artifact in aarch64_line.artifacts.artifacts:
        data = artifact.path.read_bytes()
        for folder in (aarch64_line.source.root, aarch64_line.result.plan.build_dir):
            assert str(folder).encode() not in data


def test_the_files_do_not_depend_on_the_build_folder(aarch64_line: Line, tmp_path: Path) -> None:
    """Relinked in another folder from the compiler cache: the same bytes (skips without a cache)."""
    if aarch64_line.result.plan.launcher.kind == "none":
        pytest.skip("no compiler cache: a second build would take minutes")
    from buildtool import api

    request = api.Request(settings=DEMO_SETTINGS, build_dir=str(tmp_path / "elsewhere" / "deeper"))
    other = api.build_profile("linux-aarch64", request)
    assert {a.name: a.sha256 for a in other.artifacts.artifacts} == {
        a.name: a.sha256 for a in aarch64_line.artifacts.artifacts
    }


def test_the_package_carries_its_data(tmp_path: Path) -> None:
    """Templates and toolchain files are found from a wheel as from a checkout.

    ``-S`` keeps the editable install of this very interpreter out.
    """
    root = DEMO_SETTINGS.parent.parent.parent
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(tmp_path), str(root)], check=True, timeout=300)
    (wheel,) = tmp_path.glob("buildtool-*.whl")
    site = tmp_path / "site"
    subprocess.run([*pip, "install", "--no-deps", "-t", str(site), str(wheel)], check=True, timeout=300)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import buildtool; from buildtool.core.paths import data_dir\n"
        "for name in ('cmake_templates', 'toolchains', 'native'): print(data_dir(name))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(site)],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    folders = [Path(line) for line in done.stdout.splitlines()]
    assert [f.parent for f in folders] == [site / "buildtool" / "_data"] * 3
    for folder, source in zip(folders, ("cmake_templates", "toolchains", "native"), strict=True):
        shipped = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
        kept = {p.relative_to(root / source).as_posix() for p in (root / source).rglob("*") if p.is_file()}
        assert shipped
        assert shipped <= kept
