"""What each profile sets for which tree, and how users change it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from buildtool import sources
from buildtool.cli.main import main
from buildtool.core.errors import ConfigError, ToolMissing
from buildtool.core.types import Abi
from buildtool.profiles import BUILTINS, Profile, names, rendering, resolve
from buildtool.profiles.readback import read_back
from buildtool.settings import Settings
from buildtool.sources.model import TvmSource
from buildtool.toolchains.clml import ClmlSdk
from buildtool.toolchains.model import Toolchain
from tests.unit.profile_trees import relax, relay, settings_of


def values(profile: Profile) -> dict[str, str]:
    return {option.name: option.value for option in profile.options}


def cross_gcc(triple: str = "aarch64-linux-gnu") -> Toolchain:
    return Toolchain("gcc", Abi.ARM64, triple, "Linux", Path("gcc"), Path("g++"), "g++ 12")


def test_android_for_a_relay_tree_is_the_guides(tmp_path: Path) -> None:
    profile = resolve("android", relay(), settings_of(tmp_path))
    assert values(profile) == {
        "USE_LLVM": "OFF",
        "USE_RPC": "ON",
        "USE_CPP_RPC": "ON",
        "USE_CPP_RTVM": "ON",
        "USE_OPENCL": "ON",
        "USE_GRAPH_EXECUTOR": "ON",
        "USE_PROFILER": "ON",
        "USE_KALLOC_ALIGNMENT": "32",
        "MACHINE_NAME": "aarch64-linux-android",
        "ANDROID_ABI": "arm64-v8a",
        "ANDROID_PLATFORM": "android-28",
        "USE_LIBBACKTRACE": "AUTO",
        "USE_ALTERNATIVE_LINKER": "OFF",
        "USE_CCACHE": "OFF",
    }
    assert profile.targets == ("tvm_runtime", "tvm_rpc", "rtvm")
    assert (profile.toolchain, profile.abi) == ("ndk", Abi.ARM64)


def test_android_for_a_relax_tree_leaves_out_what_is_gone_and_says_so(tmp_path: Path) -> None:
    profile = resolve("android", relax(), settings_of(tmp_path))
    got = values(profile)
    for name in ("USE_GRAPH_EXECUTOR", "USE_PROFILER", "USE_CPP_RTVM", "MACHINE_NAME", "USE_LIBBACKTRACE"):
        assert name not in got
    for name in ("USE_GRAPH_EXECUTOR", "USE_PROFILER", "USE_CPP_RTVM", "MACHINE_NAME"):
        note = next(n for n in profile.notes if n.startswith(f"{name} is left out: "))
        assert f"# {note}\n" in profile.text
    assert got["TVM_FFI_USE_LIBBACKTRACE"] == "ON"
    assert "USE_LIBBACKTRACE is called TVM_FFI_USE_LIBBACKTRACE in this tree" in profile.notes
    assert profile.targets == ("tvm_runtime", "tvm_rpc")
    assert "target rtvm is left out: this tree has none" in profile.notes


def test_a_tree_without_the_runtime_is_refused(tmp_path: Path) -> None:
    """It would build tvm_rpc, or fail at its link."""
    whole = relay()
    able = replace(whole.capabilities, targets=frozenset(("tvm", "tvm_rpc")))
    with pytest.raises(ConfigError, match=r"this TVM \(0\.19\.0\) has no target tvm_runtime") as caught:
        resolve("android", replace(whole, capabilities=able), settings_of(tmp_path))
    assert caught.value.found == "tvm, tvm_rpc"


@pytest.mark.parametrize("odd", ["source", "build"])
def test_no_libbacktrace_where_a_path_has_a_space(tmp_path: Path, odd: str) -> None:
    """autotools: "unsafe srcdir value"; a build folder fails at its make install."""
    tree = relax(Path("/nowhere/my tvm")) if odd == "source" else relax()
    settings = settings_of(tmp_path, '[build]\ndir = "my builds"\n' if odd == "build" else "")
    profile = resolve("android", tree, settings)
    assert profile.value("TVM_FFI_USE_LIBBACKTRACE") == "OFF"
    assert "a path here has a space in it" in profile.text
    assert [note for note in profile.notes if note.startswith("stack traces are off")]


def test_linux_aarch64_names_no_android(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    new = values(resolve("linux-aarch64", relax(), settings, toolchain=cross_gcc()))
    old = values(resolve("linux-aarch64", relay(), settings, toolchain=cross_gcc()))
    assert new["TVM_FFI_USE_LIBBACKTRACE"] == "ON"
    assert (old["USE_LIBBACKTRACE"], old["MACHINE_NAME"]) == ("AUTO", "aarch64-linux-gnu")
    assert not [name for name in (*new, *old) if name.startswith("ANDROID_")]


@pytest.mark.parametrize(
    ("triple", "machine"),
    [
        ("aarch64-linux-android28", "aarch64-linux-android"),
        ("armv7a-linux-androideabi21", "armv7a-linux-androideabi"),
        ("aarch64-linux-gnu.2.28", "aarch64-linux-gnu"),
        ("aarch64-linux-gnu", "aarch64-linux-gnu"),
    ],
)
def test_machine_name_is_the_bare_triple(tmp_path: Path, triple: str, machine: str) -> None:
    profile = resolve("linux-aarch64", relay(), settings_of(tmp_path), toolchain=cross_gcc(triple))
    assert profile.value("MACHINE_NAME") == machine


def test_android_platform_follows_the_settings(tmp_path: Path) -> None:
    profile = resolve("android", relay(), settings_of(tmp_path, "[toolchains]\nplatform = 31\n"))
    assert profile.value("ANDROID_PLATFORM") == "android-31"


def test_host_builds_the_compiler_target_of_its_generation(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, '[toolchains]\nllvm_config = "llvm-config-17"\n')
    new, old = resolve("host", relax(), settings), resolve("host", relay(), settings)
    assert new.targets == ("tvm_compiler", "tvm_runtime", "tvm_rpc")
    assert old.targets == ("tvm", "tvm_runtime", "tvm_rpc")
    assert old.value("USE_LLVM") == "llvm-config-17"
    assert old.abi is None
    assert "USE_CLML" not in values(old)


def test_host_takes_the_clml_sdk_for_code_generation(tmp_path: Path) -> None:
    profile = resolve("host", relay(), settings_of(tmp_path, '[toolchains]\nclml = "sdk"\n'))
    assert profile.value("USE_CLML") == str(tmp_path / "sdk")
    assert profile.value("USE_CLML_GRAPH_EXECUTOR") is None


def test_host_runtime_has_no_llvm(tmp_path: Path) -> None:
    assert resolve("host-runtime", relay(), settings_of(tmp_path)).value("USE_LLVM") == "OFF"


def test_android_clml_points_both_options_at_the_sdk(tmp_path: Path) -> None:
    clml = ClmlSdk(Path("/opt/clml sdk"), 3, Path("/opt/clml sdk/lib64"), False, Abi.ARM64)
    profile = resolve("android-clml", relay(), settings_of(tmp_path), clml=clml)
    assert profile.value("USE_CLML") == "/opt/clml sdk"
    assert profile.value("USE_CLML_GRAPH_EXECUTOR") == "/opt/clml sdk"
    assert profile.value("USE_OPENCL_ENABLE_HOST_PTR") == "ON"
    assert dict(profile.expected_defines) == {
        "USE_KALLOC_ALIGNMENT": "TVM_KALLOC_ALIGNMENT=32",
        "USE_OPENCL_ENABLE_HOST_PTR": "OPENCL_ENABLE_HOST_PTR",
        "USE_CLML": "TVM_CLML_VERSION=3",
        "USE_CLML_GRAPH_EXECUTOR": "TVM_GRAPH_EXECUTOR_CLML",
    }


def test_android_clml_without_an_sdk_is_refused_unless_the_user_names_one(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    with pytest.raises(ToolMissing, match="OpenCLML SDK"):
        resolve("android-clml", relay(), settings)
    own = resolve("android-clml", relay(), settings, sets=["USE_CLML=/opt/clml"])
    assert own.value("USE_CLML_GRAPH_EXECUTOR") == "/opt/clml"


def qcom_header(folder: Path) -> Path:
    header = folder / "CL" / "cl_ext_qcom.h"
    header.parent.mkdir(parents=True)
    header.touch()
    return folder


def test_qualcomms_extensions_only_where_their_header_is(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    without = resolve("android", relay(tmp_path), settings)
    assert without.value("USE_OPENCL_EXTN_QCOM") is None
    assert any("needs CL/cl_ext_qcom.h" in note for note in without.notes)
    qcom_header(tmp_path / "3rdparty" / "OpenCL-Headers")
    found = resolve("android", relay(tmp_path), settings)
    assert found.value("USE_OPENCL_EXTN_QCOM") == "ON"
    assert ("USE_OPENCL_EXTN_QCOM", "USE_OPENCL_EXTN_QCOM") in found.expected_defines


def test_an_sdks_header_counts_only_where_its_folder_is_searched(tmp_path: Path) -> None:
    """TVM adds the CLML SDK to the include path for CLML alone, an OpenCL SDK for USE_OPENCL."""
    sdk = qcom_header(tmp_path / "sdk")
    settings = settings_of(tmp_path, '[toolchains]\nclml = "sdk"\n')
    assert resolve("android-clml", relay(), settings).value("USE_OPENCL_EXTN_QCOM") == "ON"
    assert resolve("android", relay(), settings).value("USE_OPENCL_EXTN_QCOM") is None
    named = resolve("android", relay(), settings, sets=[f"USE_OPENCL={sdk}"])
    assert named.value("USE_OPENCL_EXTN_QCOM") == "ON"


@pytest.mark.parametrize(
    ("tree", "name", "expected"),
    [
        (relay(), "linux-aarch64", {"USE_LIBBACKTRACE": "TVM_USE_LIBBACKTRACE=1"}),
        (relay(), "android", {}),
        (relax(), "android", {"TVM_FFI_USE_LIBBACKTRACE": "TVM_FFI_USE_LIBBACKTRACE=1"}),
        (relax(), "linux-aarch64", {"TVM_FFI_USE_LIBBACKTRACE": "TVM_FFI_USE_LIBBACKTRACE=1"}),
    ],
)
def test_macros_are_expected_only_where_they_are_sure(
    tmp_path: Path, tree: TvmSource, name: str, expected: dict[str, str]
) -> None:
    profile = resolve(name, tree, settings_of(tmp_path), sets=["USE_KALLOC_ALIGNMENT=64"])
    assert dict(profile.expected_defines) == {
        "USE_KALLOC_ALIGNMENT": "TVM_KALLOC_ALIGNMENT=64",
        **expected,
    }


def test_set_beats_settings_beats_profile_and_each_line_says_who(tmp_path: Path) -> None:
    text = "[profiles.android.options]\nUSE_KALLOC_ALIGNMENT = 64\nUSE_OPENCL = false\nUSE_CUDA = true\n"
    profile = resolve("android", relay(), settings_of(tmp_path, text), sets=["USE_OPENCL=on"])
    assert 'set(USE_KALLOC_ALIGNMENT "64")  # buildtool.toml [profiles.android.options]\n' in profile.text
    assert 'set(USE_OPENCL "ON")  # --set\n' in profile.text
    assert 'set(USE_CUDA "ON")  # buildtool.toml [profiles.android.options]\n' in profile.text
    assert 'set(USE_RPC "ON")  # profile android\n' in profile.text


def test_own_profiles_inherit_layer_by_layer(tmp_path: Path) -> None:
    settings = settings_of(
        tmp_path,
        """
[profiles.android.options]
USE_KALLOC_ALIGNMENT = 64
[profiles.base]
extends = "android-clml"
abi = "armeabi-v7a"
targets = ["tvm_runtime"]
options = { USE_CLML = "/opt/clml", USE_CUDA = true }
[profiles.mine]
extends = "base"
options = { USE_CUDA = false }
""",
    )
    profile = resolve("mine", relay(), settings)
    assert names(settings) == [*BUILTINS, "base", "mine"]
    assert (profile.abi, profile.targets, profile.toolchain) == (Abi.ARM32, ("tvm_runtime",), "ndk")
    assert profile.value("USE_KALLOC_ALIGNMENT") == "64"
    assert profile.value("USE_CUDA") == "OFF"
    assert profile.value("USE_CLML_GRAPH_EXECUTOR") == "/opt/clml"
    assert profile.value("ANDROID_ABI") == "armeabi-v7a"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("andriod", "", "did you mean 'android'"),
        ("a", '[profiles.a]\nextends = "b"\n[profiles.b]\nextends = "a"\n', "a → b → a"),
        ("a", '[profiles.a]\nextends = "hots"\n', "did you mean 'host'"),
        ("a", "[profiles.a]\n", "does not say what it extends"),
        ("android", '[profiles.android]\nextends = "host"\n', "cannot extend 'host'"),
        ("android", '[profiles.android]\ntargets = ["tvm_runtime", "rtvm"]\n', "no target rtvm"),
        ("android", "[profiles.android]\ntargets = []\n", "list of targets is empty"),
        ("android", '[profiles.android]\ntargets = ["all"]\n', "'all' builds TVM's compiler"),
        (
            "android",
            '[profiles.android]\ntargets = ["tvm_rpc"]\noptions = { USE_CPP_RPC = false }\n',
            "tvm_rpc cannot be built: USE_CPP_RPC is off",
        ),
    ],
)
def test_wrong_definitions_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(name, relax(), settings_of(tmp_path, text))
    assert message in str(caught.value)


def test_a_target_goes_with_its_option(tmp_path: Path) -> None:
    profile = resolve("android", relay(), settings_of(tmp_path), sets=["USE_CPP_RTVM=OFF"])
    assert profile.targets == ("tvm_runtime", "tvm_rpc")
    assert "target rtvm is left out: USE_CPP_RTVM is off" in profile.notes


def test_the_text_depends_on_nothing_but_the_wishes(tmp_path: Path) -> None:
    """Not on the settings file's place or line numbers: it goes into the build folder's digest."""
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    text = "[profiles.android.options]\nUSE_CUDA = true\nUSE_BLAS = 'none'\n"
    moved = "\n\n[profiles.android.options]\nUSE_BLAS = 'none'\nUSE_CUDA = true\n"
    first = resolve("android", relay(), settings_of(one, text))
    second = resolve("android", relay(), settings_of(two, moved))
    assert first.text == second.text
    assert str(tmp_path) not in first.text


@pytest.mark.parametrize("name", sorted(BUILTINS))
@pytest.mark.parametrize("tree", [relay(), relax()], ids=["relay", "relax"])
def test_cmake_reads_every_profile_as_it_was_meant(tmp_path: Path, name: str, tree: TvmSource) -> None:
    settings = settings_of(tmp_path, '[toolchains]\nclml = "s d;k"\n')
    profile = resolve(name, tree, settings, sets=['USE_BLAS=${HOME}"'])
    lines = re.findall(r"^set\((\w+) .*\)  # .+$", profile.text, re.MULTILINE)
    assert lines == [option.name for option in profile.options]
    assert len(set(lines)) == len(lines)
    assert read_back(profile.text, lines) == values(profile)


def test_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "buildtool.toml").write_text('[source]\nspec = "tvm"\n[profiles.mine]\nextends = "android"\n')
    asked: list[str | None] = []

    def fetch_for(settings: Settings) -> TvmSource:
        asked.append(settings.source.spec)
        return relay()

    monkeypatch.setattr(sources, "fetch_for", fetch_for)
    assert main(["profile", "list", "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == [*BUILTINS, "mine"]
    assert main(["profile", "show", "mine", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {"name": "USE_RPC", "value": "ON", "origin": "profile mine"} in shown["options"]
    assert main(["profile", "render", "android", "--set", "USE_CUDA=ON"]) == 0
    assert 'set(USE_CUDA "ON")  # --set' in capsys.readouterr().out
    assert main(["profile", "render", "android", "-o", "out/config.cmake"]) == 0
    assert (tmp_path / "out" / "config.cmake").read_text().startswith("# config.cmake of buildtool's profile")
    capsys.readouterr()
    assert main(["profile", "check", "android", "--source", "other"]) == 0
    assert "14 options, read back by CMake" in capsys.readouterr().out
    assert main(["profile", "check", "android", "--set", "USE_OpenCL=ON"]) == 2
    assert "did you mean 'USE_OPENCL'" in capsys.readouterr().err
    assert asked == [str(tmp_path / "tvm")] * 3 + [str(tmp_path / "other"), str(tmp_path / "tvm")]


def test_check_fails_when_cmake_reads_another_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sources, "fetch_for", lambda settings: relay())
    monkeypatch.setattr(rendering, "cmake_quote", lambda value: value.replace("a;b", '"a b"'))
    assert main(["profile", "check", "android", "--set", "USE_BLAS=a;b"]) == 1
    assert "USE_BLAS: rendered 'a;b', read 'a b'" in capsys.readouterr().err
