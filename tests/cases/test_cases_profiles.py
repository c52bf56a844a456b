"""Public faults in how options were given: C2, C3, C5, C10, and options of another TVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from buildtool.core.errors import ConfigError
from buildtool.profiles import resolve
from buildtool.profiles.known import GENERATIONS, RENAMED
from buildtool.profiles.readback import read_back
from buildtool.sources.model import TvmSource
from tests.unit.profile_trees import relax, relay, settings_of


def refused(
    folder: Path, *sets: str, name: str = "android", tree: TvmSource | None = None, text: str = ""
) -> str:
    with pytest.raises(ConfigError) as caught:
        resolve(name, tree or relay(), settings_of(folder, text), sets=sets)
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "CMAKE_SYSTEM_NAME",
        "CMAKE_SYSTEM_PROCESSOR",
        "CMAKE_TOOLCHAIN_FILE",
        "CMAKE_C_COMPILER",
        "CMAKE_CXX_COMPILER_TARGET",
        "CMAKE_SYSROOT",
        "CMAKE_FIND_ROOT_PATH",
        "CMAKE_BUILD_TYPE",
        "CMAKE_CXX_COMPILER_LAUNCHER",
        "ANDROID_ABI",
        "ANDROID_STL",
        "USE_CCACHE",
    ],
)
def test_c2_options_that_fight_the_toolchain_are_refused(tmp_path: Path, name: str) -> None:
    message = refused(tmp_path, f"{name}=Linux")
    assert f"{name} cannot be set as an option" in message
    assert "fix:" in message


@pytest.mark.parametrize(
    "value", ["/path/to/sdk", "/path/to/", "path/to/clml", "C:\\path\\to\\sdk", "<sdk>", "/opt/<version>/sdk"]
)
@pytest.mark.parametrize("option", ["USE_CLML", "USE_OPENCL", "USE_HEXAGON_SDK"])
def test_c2_placeholders_are_refused_by_name(tmp_path: Path, option: str, value: str) -> None:
    message = refused(tmp_path, f"{option}={value}")
    assert f"the value of {option} is a placeholder" in message
    assert value in message


def test_c2_a_real_path_that_looks_alike_is_taken(tmp_path: Path) -> None:
    profile = resolve("android", relay(), settings_of(tmp_path), sets=["USE_CLML=/opt/my-path/tools"])
    assert profile.value("USE_CLML") == "/opt/my-path/tools"


@pytest.mark.parametrize("name", ["android", "linux-aarch64"])
@pytest.mark.parametrize("value", ["ON", "AUTO", "llvm-config-17", "1"])
def test_c3_host_llvm_in_a_cross_build_is_refused(tmp_path: Path, name: str, value: str) -> None:
    assert "cannot load this host's LLVM" in refused(tmp_path, f"USE_LLVM={value}", name=name)


def test_c3_a_path_in_the_settings_is_not_enough(tmp_path: Path) -> None:
    text = '[profiles.android.options]\nUSE_LLVM = "/usr/bin/llvm-config"\n'
    message = refused(tmp_path, text=text)
    assert "USE_LLVM is off in cross builds" in message
    assert "buildtool.toml:2" in message


def test_c3_a_target_llvm_may_be_named_on_the_command_line(tmp_path: Path) -> None:
    profile = resolve(
        "android", relay(), settings_of(tmp_path), sets=["USE_LLVM=/opt/target/bin/llvm-config"]
    )
    assert profile.value("USE_LLVM") == "/opt/target/bin/llvm-config"
    assert any("built for the target" in note for note in profile.notes)
    assert resolve("host", relay(), settings_of(tmp_path), sets=["USE_LLVM=ON"]).value("USE_LLVM") == "ON"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("USE_OpenCL", "USE_OPENCL"),
        ("use_opencl", "USE_OPENCL"),
        ("USE_KALLOC_ALIGMENT", "USE_KALLOC_ALIGNMENT"),
        ("USE_CPP_RCP", "USE_CPP_RPC"),
        ("USE-RPC", "USE_RPC"),
        ("USE_CLML_GRAPH_EXECUTER", "USE_CLML_GRAPH_EXECUTOR"),
    ],
)
def test_c5_typing_errors_get_the_right_suggestion(tmp_path: Path, typed: str, meant: str) -> None:
    assert f"did you mean '{meant}'?" in refused(tmp_path, f"{typed}=ON")


def test_c5_in_the_settings_file_the_line_is_named(tmp_path: Path) -> None:
    message = refused(tmp_path, text="[profiles.android.options]\n\nUSE_OpenCL = true\n")
    assert "buildtool.toml:3 [profiles.android.options] USE_OpenCL" in message
    assert "did you mean 'USE_OPENCL'?" in message


def test_c5_the_same_option_twice_is_refused(tmp_path: Path) -> None:
    assert "--set gives USE_RPC twice" in refused(tmp_path, "USE_RPC=ON", "USE_RPC=OFF")
    assert "--set gives USE_RPC twice" in refused(tmp_path, "USE_RPC=ON", "USE_RPC=ON")
    assert "USE_RPC and use_rpc are one option" in refused(tmp_path, "USE_RPC=ON", "use_rpc=ON")
    both = ("USE_LIBBACKTRACE=OFF", "TVM_FFI_USE_LIBBACKTRACE=ON")
    assert "are one option" in refused(tmp_path, *both, tree=relax())


@pytest.mark.parametrize("text", ["USE_RPC", "=ON", ""])
def test_c5_set_without_a_value_is_refused(tmp_path: Path, text: str) -> None:
    assert "--set takes NAME=VALUE" in refused(tmp_path, text)


def test_c5_all_wrong_options_are_told_at_once(tmp_path: Path) -> None:
    message = refused(tmp_path, "USE_OpenCL=ON", "USE_CLML=/path/to/sdk", "CMAKE_SYSTEM_NAME=Linux", "X")
    assert "4 problems in the options of profile android" in message


@pytest.mark.parametrize("value", ["0", "48", "9" * 5000, "-32", "3.5", "0x20", "ON", "", "١"])
def test_kalloc_alignment_is_a_power_of_two(tmp_path: Path, value: str) -> None:
    assert "a power of two" in refused(tmp_path, f"USE_KALLOC_ALIGNMENT={value}")


@pytest.mark.parametrize("value", ["flase", "2", "/usr/lib", "AUTO"])
def test_a_switch_takes_only_on_and_off(tmp_path: Path, value: str) -> None:
    assert "expected: ON or OFF" in refused(tmp_path, f"USE_RPC={value}")


@pytest.mark.parametrize("value", ["true", "True", "on", "YES", "y"])
def test_words_for_true_become_on(tmp_path: Path, value: str) -> None:
    assert (
        resolve("android", relay(), settings_of(tmp_path), sets=[f"USE_RPC={value}"]).value("USE_RPC") == "ON"
    )


@pytest.mark.parametrize("name", ["USE_GRAPH_EXECUTOR", "USE_PROFILER", "USE_MICRO", "MACHINE_NAME"])
def test_an_option_of_another_tvm_is_never_dropped_silently(tmp_path: Path, name: str) -> None:
    message = refused(tmp_path, f"{name}=ON", tree=relax())
    assert f"this TVM (0.25.0) has no option {name}" in message
    assert f"TVM {GENERATIONS[name][0]} to {GENERATIONS[name][1]}" in message


def test_rtvm_cannot_be_asked_of_a_tree_without_it(tmp_path: Path) -> None:
    assert "no apps/cpp_rtvm" in refused(tmp_path, "USE_CPP_RTVM=ON", tree=relax())
    profile = resolve("android", relax(), settings_of(tmp_path), sets=["USE_CPP_RTVM=OFF"])
    assert profile.value("USE_CPP_RTVM") == "OFF"


@pytest.mark.parametrize("value", ["ON", "AUTO", "COMPILE"])
def test_a_renamed_option_is_taken_by_its_old_name(tmp_path: Path, value: str) -> None:
    profile = resolve("android", relax(), settings_of(tmp_path), sets=[f"USE_LIBBACKTRACE={value}"])
    assert profile.value("TVM_FFI_USE_LIBBACKTRACE") == "ON"
    assert profile.value("USE_LIBBACKTRACE") is None
    assert any("is called TVM_FFI_USE_LIBBACKTRACE" in note for note in profile.notes)
    assert set(RENAMED) <= set(GENERATIONS)
    assert "expected: ON or OFF" in refused(tmp_path, "USE_LIBBACKTRACE=/opt/bt", tree=relax())


def test_c10_values_are_read_back_by_real_cmake(tmp_path: Path) -> None:
    options = ("USE_BLAS", "USE_CLML", "USE_OPENCL", "USE_CUDA", "USE_HEXAGON_SDK", "USE_CLML_GRAPH_EXECUTOR")
    for values in (
        ("E:\\a", "a b", "a;b", "]==]", "${x}", "x\\"),
        ('say "x"', "#1", "@v@", "é", "$ENV{HOME}", ";"),
    ):
        wishes = dict(zip(options, values, strict=True))
        sets = [f"{name}={value}" for name, value in wishes.items()]
        profile = resolve("linux-aarch64", relay(), settings_of(tmp_path), sets=sets)
        assert read_back(profile.text, options) == wishes


@pytest.mark.parametrize("value", ["a\nset(X 1)", "a\rb", "a\0b"])
def test_c10_a_line_break_is_refused(tmp_path: Path, value: str) -> None:
    assert "line break or a control character" in refused(tmp_path, f"USE_BLAS={value}")
