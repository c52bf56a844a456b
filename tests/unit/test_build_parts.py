"""The build room's parts that need no build: fingerprints, effects, Ninja's output, environment."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildtool.build import effects, environment, fingerprint, runner, tools
from buildtool.build.model import BuildPlan, Launcher
from buildtool.build.progress import NinjaReader, short_name
from buildtool.core.errors import ConfigError, ToolMissing, UsageError
from buildtool.core.types import Abi, Option
from buildtool.profiles.model import Profile
from buildtool.sources.model import Capabilities, Catalogue, Pin, TvmSource
from buildtool.toolchains.model import Toolchain


def make_plan(tmp_path: Path) -> BuildPlan:
    source = TvmSource(
        tmp_path / "tvm",
        "tvm",
        Pin("git", "1" * 40),
        "0.19",
        Catalogue(),
        Capabilities(frozenset({"tvm_runtime"}), False, True, False, True, True, False),
    )
    toolchain = Toolchain(
        "gcc", Abi.ARM64, "aarch64-linux-gnu", "Linux", Path("/bin/gcc"), Path("/bin/g++"), "g++ 12"
    )
    profile = Profile(
        "linux-aarch64",
        "gcc",
        Abi.ARM64,
        ("tvm_runtime",),
        (Option("USE_KALLOC_ALIGNMENT", "32", "profile"), Option("USE_OPENCL", "ON", "profile")),
        (),
        "set(USE_OPENCL ON)\nset(USE_KALLOC_ALIGNMENT 32)\n",
        (("USE_KALLOC_ALIGNMENT", "TVM_KALLOC_ALIGNMENT=32"),),
    )
    return BuildPlan(
        source,
        toolchain,
        profile,
        tmp_path / "build",
        "Release",
        Launcher("none"),
        2,
        Path("/bin/cmake"),
        Path("/bin/ninja"),
    )


def test_what_only_options_change_keeps_the_anchor(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    base = fingerprint.of_plan(plan, "4")
    for other in (
        replace(plan, build_type="Debug"),
        replace(plan, launcher=Launcher("ccache", Path("/bin/ccache"))),
        replace(plan, profile=replace(plan.profile, text="set(USE_OPENCL OFF)\n")),
        replace(plan, source=replace(plan.source, pin=Pin("git", "2" * 40))),
    ):
        changed = fingerprint.of_plan(other, "4")
        assert changed.anchor == base.anchor
        assert changed.digest != base.digest


def test_what_needs_a_clean_folder_changes_the_anchor(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    base = fingerprint.of_plan(plan, "4")
    for changed in (
        fingerprint.of_plan(replace(plan, toolchain=replace(plan.toolchain, version="g++ 13")), "4"),
        fingerprint.of_plan(replace(plan, toolchain=replace(plan.toolchain, api_level=29)), "4"),
        fingerprint.of_plan(replace(plan, toolchain=replace(plan.toolchain, revision="27.0")), "4"),
        fingerprint.of_plan(replace(plan, source=replace(plan.source, root=tmp_path / "other")), "4"),
        fingerprint.of_plan(plan, "5"),
    ):
        assert changed.anchor != base.anchor


def test_jobs_change_nothing(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    assert fingerprint.of_plan(replace(plan, jobs=9), "4") == fingerprint.of_plan(plan, "4")


def test_an_edited_working_tree_is_ninjas_business(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    one = replace(plan, source=replace(plan.source, pin=Pin("path", "a")))
    two = replace(plan, source=replace(plan.source, pin=Pin("path", "b-dirty")))
    assert fingerprint.of_plan(one, "4") == fingerprint.of_plan(two, "4")


def test_record_is_read_back_and_damage_counts_as_none(tmp_path: Path) -> None:
    print_ = fingerprint.of_plan(make_plan(tmp_path), "4")
    fingerprint.record(tmp_path, print_, {})
    assert fingerprint.recorded(tmp_path) == print_
    whole = (tmp_path / fingerprint.RECORD).read_text()
    for damaged in (whole[: len(whole) // 2], "[]", '{"schema": 99}', ""):
        (tmp_path / fingerprint.RECORD).write_text(damaged)
        assert fingerprint.recorded(tmp_path) is None


def test_differences_name_the_option_and_the_compiler(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    old = fingerprint.of_plan(plan, "4")
    profile = replace(plan.profile, text="set(USE_OPENCL OFF)\nset(USE_KALLOC_ALIGNMENT 32)\n")
    new = fingerprint.of_plan(
        replace(plan, profile=profile, toolchain=replace(plan.toolchain, version="g++ 13")), "4"
    )
    assert fingerprint.differences(old.options, new.options) == [
        "config.cmake: - set(USE_OPENCL ON)",
        "config.cmake: + set(USE_OPENCL OFF)",
    ]
    assert fingerprint.differences(old.anchor, new.anchor) == ["toolchain.version: 'g++ 12' -> 'g++ 13'"]


def write_database(folder: Path, *commands: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps([{"command": c} for c in commands]))


def test_a_macro_on_the_compile_lines_proves_the_option(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    write_database(plan.build_dir, "g++ -DTVM_KALLOC_ALIGNMENT=32 -c a.cc")
    (plan.build_dir / "TVMBuildOptions.txt").write_text("USE_OPENCL ON \n")
    assert [(e.option, e.status) for e in effects.prove(plan, "")] == [
        ("USE_KALLOC_ALIGNMENT", "proved"),
        ("USE_OPENCL", "proved"),
    ]


def test_another_value_or_none_is_without_effect(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    write_database(plan.build_dir, "g++ -DTVM_KALLOC_ALIGNMENT=64 -c a.cc", "g++ -c b.cc")
    (plan.build_dir / "TVMBuildOptions.txt").write_text("USE_OPENCL OFF \n")
    first, second = effects.prove(plan, "")
    assert (first.status, "-DTVM_KALLOC_ALIGNMENT=64" in first.evidence) == ("no-effect", True)
    assert (second.status, second.evidence) == ("no-effect", "TVMBuildOptions.txt has USE_OPENCL OFF")
    write_database(plan.build_dir, "g++ -DOTHER -c b.cc")
    assert effects.prove(plan, "")[0].status == "no-effect"


def test_nothing_to_look_at_is_unproved_not_proved(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    plan.build_dir.mkdir()
    assert {e.status for e in effects.prove(plan, "")} == {"unproved"}


@pytest.mark.parametrize(
    ("asked", "seen", "same"),
    [
        ("ON", "1", True),
        ("ON", "true", True),
        ("OFF", "none", True),
        ("ON", "OFF", False),
        ("32", "32", True),
    ],
)
def test_values_are_compared_as_cmake_sees_them(asked: str, seen: str, same: bool) -> None:
    assert effects.same_value(asked, seen) is same


def test_ninja_output_is_counted_and_the_failing_steps_lines_kept() -> None:
    reader = NinjaReader()
    for line in (
        "[1/3] Building CXX object a.cc.o",
        "FAILED: [code=1] b.cc.o",
        "g++ -c b.cc",
        "b.cc:1:1: error: expected unqualified-id",
        "[2/3] Building CXX object c.cc.o",
        "c.cc:9: warning: unused",
        "ninja: build stopped: subcommand failed.",
    ):
        reader.feed(line)
    assert (reader.done, reader.total) == (2, 3)
    assert reader.failure_lines() == [
        "FAILED: [code=1] b.cc.o",
        "b.cc:1:1: error: expected unqualified-id",
    ]


def test_a_long_failure_keeps_its_last_lines() -> None:
    reader = NinjaReader()
    reader.feed("FAILED: x.o")
    reader.feed("g++ -c x")
    for number in range(100):
        reader.feed(f"line {number}")
    assert reader.failure_lines(5)[1:] == [f"line {n}" for n in range(95, 100)]


@given(st.lists(st.text(max_size=40), max_size=30))
def test_the_reader_takes_any_output(lines: list[str]) -> None:
    reader = NinjaReader()
    for line in lines:
        reader.feed(line)
    assert reader.failure_lines() == reader.failure_lines()
    assert reader.done <= max(reader.total, reader.done)


def test_short_names() -> None:
    assert (
        short_name("Building CXX object CMakeFiles/x.dir/src/runtime/rpc/rpc_session.cc.o")
        == "rpc/rpc_session.cc"
    )


def test_only_named_variables_reach_a_build(tmp_path: Path) -> None:
    toolchain = make_plan(tmp_path).toolchain
    given_env = {"PATH": "/bin", "CCACHE_DIR": "/c", "AWS_SECRET": "x", "CXXFLAGS": "-O0", "LC_ALL": "de_DE"}
    env = environment.build_environment(toolchain, env=given_env)
    assert {k: env[k] for k in ("PATH", "CCACHE_DIR", "LC_ALL")} == {
        "PATH": "/bin",
        "CCACHE_DIR": "/c",
        "LC_ALL": "C.UTF-8",
    }
    assert not {"AWS_SECRET", "CXXFLAGS"} & set(env)
    assert environment.ignored(given_env) == ["CXXFLAGS"]


def test_a_cache_asked_for_by_name_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tools.sys, "executable", str(tmp_path / "python"))
    assert tools.find_launcher("auto") == Launcher("none")
    with pytest.raises(ToolMissing, match="sccache is not installed"):
        tools.find_launcher("sccache")
    with pytest.raises(ConfigError, match="unknown compiler cache 'ccash'"):
        tools.find_launcher("ccash")


def test_jobs_are_bounded_by_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "available_memory", lambda: 100 * 1000 * 1000)
    assert tools.default_jobs() == 1


@pytest.mark.parametrize("place", ["3rdparty/libbacktrace", "3rdparty/tvm-ffi/3rdparty/libbacktrace"])
def test_a_space_is_refused_where_libbacktrace_would_fail_late(tmp_path: Path, place: str) -> None:
    """Its libtool installs to the first word of the path, after minutes of building."""
    plan = make_plan(tmp_path)
    (plan.source.root / place).mkdir(parents=True)
    (plan.source.root / "CMakeLists.txt").touch()
    (plan.source.root / place / "configure").touch()
    spaced = replace(plan, build_dir=tmp_path / "a b")
    runner._preflight(plan)
    with pytest.raises(UsageError, match="contains a space, which TVM's libbacktrace"):
        runner._preflight(spaced)
    without = replace(plan.profile, options=(Option("TVM_FFI_USE_LIBBACKTRACE", "OFF", "--set"),))
    runner._preflight(replace(spaced, profile=without))
    (plan.source.root / place / "configure").unlink()
    runner._preflight(spaced)
