"""Toolchains are found, checked, and refused with the cure."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from buildtool import settings as settings_room
from buildtool.core.errors import ConfigError, ToolMissing
from buildtool.core.types import Abi
from buildtool.settings import Settings
from buildtool.toolchains import cross, find, host


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private_cache: Path) -> Path:
    """A machine with nothing on PATH; returns the folder that is PATH."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    return programs


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_room.load(cwd=tmp_path, env={})


def test_no_host_compiler_says_what_to_install(bare: Path) -> None:
    with pytest.raises(ToolMissing, match="no C compiler on PATH") as caught:
        host.find_host()
    assert "apt-get install g++" in str(caught.value)


def test_cc_that_does_not_exist_names_the_variable(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "gcc-99")
    with pytest.raises(ToolMissing, match="CC") as caught:
        host.find_host()
    assert "'gcc-99' does not exist" in caught.value.what


def test_a_compiler_that_does_not_run_is_named(bare: Path) -> None:
    program(bare / "broken-g++", "echo cannot execute cc1plus >&2; exit 1")
    with pytest.raises(ToolMissing, match="does not run") as caught:
        host.compiler_version(bare / "broken-g++")
    assert "cc1plus" in str(caught.value)


def test_no_cross_compiler_lists_every_miss(
    bare: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross, "find_spec", lambda name: None)
    with pytest.raises(ToolMissing, match="no cross compiler for arm64-v8a Linux") as caught:
        find("auto", settings=settings, abi=Abi.ARM64)
    text = str(caught.value)
    assert "g++-aarch64-linux-gnu" in text
    assert "no clang on PATH" in text
    assert "buildtool[zig]" in text


def test_unknown_toolchain_gets_a_suggestion(settings: Settings) -> None:
    with pytest.raises(ConfigError, match="did you mean 'clang'"):
        find("clnag", settings=settings)


def test_the_host_refuses_another_abi(settings: Settings) -> None:
    other = Abi.RISCV64
    with pytest.raises(ConfigError, match="not for riscv64"):
        find("host", settings=settings, abi=other)


def test_no_linux_cross_tools_for_an_abi(settings: Settings) -> None:
    with pytest.raises(ConfigError, match="no Linux cross toolchain for x86"):
        find("gcc", settings=settings, abi=Abi.X86)


def test_gcc_is_described_by_what_it_says(bare: Path, settings: Settings) -> None:
    for name in ("gcc", "g++"):
        program(
            bare / f"aarch64-linux-gnu-{name}",
            '[ "$1" = -dumpmachine ] && echo aarch64-linux-gnu || echo "aarch64 gcc 13.9"',
        )
    found = cross.find_gcc(settings, Abi.ARM64)
    assert (found.triple, found.version) == ("aarch64-linux-gnu", "aarch64 gcc 13.9")
    assert found.identity()["version"] == "aarch64 gcc 13.9"


def test_a_sysroot_without_libc_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no dynamic loader"):
        cross.find_sysroot("aarch64-linux-gnu", explicit=str(tmp_path))


def test_zig_wrapper_keeps_odd_words_and_drops_what_zig_refuses(tmp_path: Path) -> None:
    """zig: "unsupported linker arg: --exclude-libs" (met when linking libtvm_runtime.so)."""
    show = tmp_path / "a b" / "show"
    show.parent.mkdir()
    program(show, 'for a do printf "[%s]" "$a"; done')
    wrapper = tmp_path / "c++"
    cross._wrapper(wrapper, [str(show), "-target", "aarch64-linux-gnu.2.28"])
    assert os.access(wrapper, os.X_OK)
    words = ["-Dx=a b", "-Wl,--exclude-libs,ALL", "$HOME", "-o", "q'uote"]
    from buildtool.core.process import run

    done = run([wrapper, *words])
    assert done.stdout == "[-target][aarch64-linux-gnu.2.28][-Dx=a b][$HOME][-o][q'uote]"
