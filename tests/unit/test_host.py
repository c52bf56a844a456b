"""The host side: LLVM discovery, the tree's Python requirements, the check of an imported tvm, wheels."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest

from buildtool.build import tools
from buildtool.core.errors import BuildFailed, CheckFailed, ConfigError, ToolMissing, UsageError
from buildtool.host import check, wheel, wheels
from buildtool.host.environment import HostEnvironment, make, requirements
from buildtool.toolchains import llvm
from buildtool.verify import Status
from tests.standins.binaries import ADD, artifact, artifact_set, compile_c, host_toolchain
from tests.standins.llvm import installed
from tests.standins.minitvm import make_minitvm

GCC = "g++ (Debian 12.2.0) 12.2.0"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    module = tmp_path / "tree" / "cmake" / "utils" / "FindLLVM.cmake"
    module.parent.mkdir(parents=True)
    module.write_text('if (${TVM_LLVM_VERSION} LESS 150)\n  message(FATAL_ERROR "too old")\nendif()\n')
    return tmp_path / "tree"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    programs = lambda: sorted(folder.glob("llvm-config-*"), key=lambda p: -int(p.name[12:]))  # noqa: E731
    monkeypatch.setattr(llvm, "candidates", programs)
    return folder


def test_the_newest_llvm_that_will_do(tree: Path, here: Path) -> None:
    installed(here, "14.0.6")
    installed(here, "16.0.6")
    installed(here, "18.1.8", headers=False)
    installed(here, "17.0.1", targets="X86")
    conflicting = installed(here, "19.1.7")
    (here / "llvm-19" / "include" / "cxxabi.h").touch()
    found, notes = llvm.find_llvm(tree, GCC)
    assert (found.major, found.value()) == (16, str(here / "llvm-config-16"))
    assert found.value(static=True).endswith("llvm-config-16 --ignore-libllvm --link-static")
    assert [n.split(" passed over")[0] for n in notes] == [
        f"LLVM 19.1.7 ({conflicting})", str(here / "llvm-config-18"), f"LLVM 17.0.1 ({here}/llvm-config-17)",
    ]  # fmt: skip
    assert "libc++abi's cxxabi.h, which g++ can't read" in notes[0] and "CXX=clang++-19" in notes[0]
    assert llvm.find_llvm(tree, "Debian clang version 19.1.7")[0].major == 19


def test_no_llvm_says_what_was_found_and_what_to_install(tree: Path, here: Path) -> None:
    installed(here, "14.0.6")
    with pytest.raises(ToolMissing) as caught:
        llvm.find_llvm(tree, GCC)
    assert "this TVM needs LLVM 15 or newer" in " ".join(caught.value.details)
    assert "apt-get install llvm-" in (caught.value.fix or "")


def test_a_named_llvm_is_used_or_refused(tree: Path, here: Path) -> None:
    old, good = installed(here, "14.0.6"), installed(here, "16.0.6")
    assert llvm.find_llvm(tree, GCC, explicit=str(good))[0].config == good
    none, broken = here / "none", Path("/bin/false")
    for named, words in ((old, "needs LLVM 15"), (none, "no such program"), (broken, "failed")):
        with pytest.raises(ToolMissing, match=words):
            llvm.find_llvm(tree, GCC, explicit=str(named))


def test_a_tree_that_names_no_version_takes_any(tmp_path: Path) -> None:
    assert llvm.minimum_of(tmp_path) == 0


def test_links_are_limited_by_memory_and_never_to_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for gigabytes, jobs, links in ((8, 16, 3), (1, 16, 1), (64, 4, 4)):
        monkeypatch.setattr(tools, "available_memory", lambda g=gigabytes: g * 10**9)
        assert tools.link_jobs(jobs) == links


def test_requirements_of_both_generations(tmp_path: Path) -> None:
    assert requirements(make_minitvm(tmp_path / "a", era="relax")) == ("typing_extensions",)
    assert requirements(make_minitvm(tmp_path / "b", era="relay")) == (
        "cloudpickle", "typing_extensions>=4.0,<5",
    )  # fmt: skip
    (tmp_path / "c").mkdir()
    with pytest.raises(ConfigError, match="does not say which Python packages"):
        requirements(tmp_path / "c")
    (tmp_path / "c" / "pyproject.toml").write_text("[project\n")
    with pytest.raises(ConfigError, match="not a TOML file"):
        requirements(tmp_path / "c")


def test_gen_requirements_is_never_run(tmp_path: Path) -> None:
    tree = make_minitvm(tmp_path / "tree", era="relay")
    file = tree / "python" / "gen_requirements.py"
    file.write_text(file.read_text() + f"\nopen({str(tmp_path / 'ran')!r}, 'w')\n")
    requirements(tree)
    assert not (tmp_path / "ran").exists()


def test_a_folder_that_is_no_venv_is_left_alone(tmp_path: Path) -> None:
    tree = make_minitvm(tmp_path / "tree", era="relax")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    with pytest.raises(ConfigError, match="not a virtual environment"):
        make(tmp_path / "mine", tree, tmp_path, "0.25")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years"


FOUND: dict[str, Any] = {
    "version": "0.25.dev0+g123",
    "file": "/tree/python/tvm/__init__.py",
    "libinfo": None,
    "llvm": 16,
    "llvm_targets": ["aarch64"],
    "codegen": {"llvm": True, "opencl": True},
    "clml": False,
    "rpc": True,
}
ASKED = {"USE_LLVM": "/usr/bin/llvm-config", "USE_OPENCL": "ON", "USE_RPC": "ON", "USE_CCACHE": "OFF"}


def report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, str] | None = None, **changes: object
) -> dict[tuple[str, str], Status]:
    files = artifact_set(
        host_toolchain(),
        artifact(compile_c(tmp_path / "dist", "liba.so", ADD)),
        options=ASKED if asked is None else asked,
        version="0.25.dev0",
    )
    monkeypatch.setattr(check, "ask", lambda environment: {**FOUND, **changes})
    environment = HostEnvironment(tmp_path / "venv", tmp_path, Path("/tree/python"))
    made = check.check(environment, files)
    return {(r.id, r.subject): r.outcome.status for r in made.results}


def test_a_tvm_that_is_what_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = report(tmp_path, monkeypatch)
    assert seen.pop(("host-option", "USE_CCACHE")) is Status.SKIP  # nothing to see it by
    assert set(seen.values()) == {Status.PASS}, seen


@pytest.mark.parametrize(
    ("changes", "check_id"),
    [
        ({"file": "/usr/lib/python3/dist-packages/tvm/__init__.py"}, ("host-import", "tvm")),
        ({"version": "0.26.0"}, ("host-version", "tvm")),
        ({"llvm": None, "llvm_targets": []}, ("host-option", "USE_LLVM")),
        ({"llvm_targets": ["x86"]}, ("host-llvm", "tvm")),
        ({"codegen": {"llvm": True, "opencl": False}}, ("host-opencl", "tvm")),
        ({"rpc": False}, ("host-option", "USE_RPC")),
        ({"libinfo": {"USE_OPENCL": "OFF"}}, ("host-option", "USE_OPENCL")),
        ({"libinfo": {"USE_LLVM": "OFF"}}, ("host-option", "USE_LLVM")),
    ],
)
def test_a_tvm_that_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], check_id: tuple[str, str]
) -> None:
    assert report(tmp_path, monkeypatch, **changes)[check_id] is Status.FAIL


def test_an_option_that_was_switched_off_and_is_there_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = report(tmp_path, monkeypatch, {"USE_OPENCL": "OFF"})
    assert seen[("host-option", "USE_OPENCL")] is Status.FAIL


def test_an_import_that_fails_is_a_failure_not_a_skip(tmp_path: Path) -> None:
    environment = HostEnvironment(tmp_path / "venv")
    environment.python.parent.mkdir(parents=True)
    environment.python.write_text("#!/bin/sh\nkill -SEGV $$\n")
    environment.python.chmod(0o755)
    with pytest.raises(CheckFailed, match="ended with code -11"):
        check.ask(environment)


def test_which_wheel() -> None:
    assert wheels.choose("auto", "0.25.dev0").tvm == "0.25.0"
    assert wheels.choose("0.26.0", "0.25.dev0") == wheels.Release("0.26.0", "", ())
    with pytest.raises(UsageError, match=r"no released apache-tvm wheel is known for the runtime 0\.19\.0"):
        wheels.choose("auto", "0.19.0")


def test_a_wheel_must_hold_the_compiler(tmp_path: Path) -> None:
    path = tmp_path / "tvm-1-py3-none-any.whl"
    path.write_bytes(b"not a zip")
    with pytest.raises(BuildFailed, match="not a wheel"):
        wheel.check_contents(path)
    for names, words in ((["tvm/__init__.py"], "no libtvm"), (["tvm/libtvm.so", "../x"], "outside")):
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, "")
        with pytest.raises(BuildFailed, match=words):
            wheel.check_contents(path)
