"""What the android profile becomes for each TVM release: rendered, renamed, left out.

The catalogues are facts read off the public release tags with
``buildtool source options`` (which of the profile's options a release declares
or reads); no release's code is here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from buildtool import profiles
from buildtool import settings as settings_room
from buildtool.sources.model import Capabilities, Catalogue, CatalogueOption, Pin, TvmSource

_EVERY = {
    "USE_OPENCL",
    "USE_RPC",
    "USE_CPP_RPC",
    "USE_CPP_RTVM",
    "USE_LLVM",
    "USE_CLML",
    "USE_CLML_GRAPH_EXECUTOR",
    "USE_KALLOC_ALIGNMENT",
    "USE_ALTERNATIVE_LINKER",
    "USE_CCACHE",
    "ANDROID_ABI",
}
_RELAY = {"USE_GRAPH_EXECUTOR", "USE_PROFILER", "USE_LIBBACKTRACE", "MACHINE_NAME", "ANDROID_PLATFORM"}
# release -> (options that its CMake files read, beyond _EVERY; its targets; has a tvm-ffi sub-project)
RELEASES = {
    "0.12.0": (_RELAY, {"tvm", "tvm_runtime", "tvm_rpc", "rtvm"}, False),
    "0.16.0": (_RELAY, {"tvm", "tvm_runtime", "tvm_rpc", "rtvm"}, False),
    "0.19.0": (_RELAY | {"USE_OPENCL_EXTN_QCOM"}, {"tvm", "tvm_runtime", "tvm_rpc", "rtvm"}, False),
    "0.20.0": (
        {"USE_LIBBACKTRACE", "MACHINE_NAME", "ANDROID_PLATFORM", "USE_OPENCL_EXTN_QCOM"},
        {"tvm", "tvm_runtime", "tvm_rpc"},
        False,
    ),
    "0.22.0": (
        # USE_LIBBACKTRACE is still declared there, but read by nothing but the build's description.
        {
            "USE_LIBBACKTRACE",
            "TVM_FFI_USE_LIBBACKTRACE",
            "MACHINE_NAME",
            "ANDROID_PLATFORM",
            "USE_OPENCL_EXTN_QCOM",
        },
        {"tvm", "tvm_runtime", "tvm_rpc"},
        True,
    ),
    "0.24.0": (
        {"TVM_FFI_USE_LIBBACKTRACE", "ANDROID_PLATFORM", "USE_OPENCL_EXTN_QCOM"},
        {"tvm_compiler", "tvm_runtime", "tvm_rpc"},
        True,
    ),
    "0.26.0": (
        {"TVM_FFI_USE_LIBBACKTRACE", "ANDROID_PLATFORM", "USE_OPENCL_EXTN_QCOM"},
        {"tvm_compiler", "tvm_runtime", "tvm_rpc"},
        True,
    ),
    # v0.27 has no tag beyond this one.
    "0.27.dev0": (
        {"TVM_FFI_USE_LIBBACKTRACE", "ANDROID_PLATFORM", "USE_OPENCL_EXTN_QCOM"},
        {"tvm_compiler", "tvm_runtime", "tvm_rpc"},
        True,
    ),
}
# release -> what happens to the options that not every release has
RENDERED = {
    "0.12.0": {"USE_CPP_RTVM", "USE_GRAPH_EXECUTOR", "USE_PROFILER", "USE_LIBBACKTRACE", "MACHINE_NAME"},
    "0.16.0": {"USE_CPP_RTVM", "USE_GRAPH_EXECUTOR", "USE_PROFILER", "USE_LIBBACKTRACE", "MACHINE_NAME"},
    "0.19.0": {"USE_CPP_RTVM", "USE_GRAPH_EXECUTOR", "USE_PROFILER", "USE_LIBBACKTRACE", "MACHINE_NAME"},
    "0.20.0": {"USE_LIBBACKTRACE", "MACHINE_NAME"},
    "0.22.0": {"TVM_FFI_USE_LIBBACKTRACE", "MACHINE_NAME"},
    "0.24.0": {"TVM_FFI_USE_LIBBACKTRACE"},
    "0.26.0": {"TVM_FFI_USE_LIBBACKTRACE"},
    "0.27.dev0": {"TVM_FFI_USE_LIBBACKTRACE"},
}
_COMING_AND_GOING = set().union(*RENDERED.values()) | {"USE_OPENCL_EXTN_QCOM"}
ALWAYS = {
    "USE_OPENCL": "ON",
    "USE_RPC": "ON",
    "USE_CPP_RPC": "ON",
    "USE_LLVM": "OFF",
    "USE_KALLOC_ALIGNMENT": "32",
    "USE_ALTERNATIVE_LINKER": "OFF",
    "USE_CCACHE": "OFF",
    "ANDROID_ABI": "arm64-v8a",
}


def release(version: str, root: Path) -> TvmSource:
    reads, targets, ffi = RELEASES[version]
    options = {
        name: CatalogueOption(name, declared=True, consumed_in=("CMakeLists.txt",)) for name in _EVERY | reads
    }
    capabilities = Capabilities(
        targets=frozenset(targets),
        tvm_ffi=ffi,
        graph_executor="USE_GRAPH_EXECUTOR" in reads,
        relax=not reads >= _RELAY,
        tvmc="USE_GRAPH_EXECUTOR" in reads,
        clml=True,
        split_opencl=version in ("0.26.0", "0.27.dev0"),
    )
    return TvmSource(root, "tvm", Pin("git", "0" * 40), version, Catalogue(options), capabilities)


@pytest.mark.parametrize("version", RELEASES)
def test_the_profile_fits_each_release(version: str, tmp_path: Path) -> None:
    settings = settings_room.load(cwd=tmp_path, env={})
    profile = profiles.resolve("android", release(version, tmp_path), settings)
    values = {option.name: option.value for option in profile.options}
    assert {name: values.get(name) for name in ALWAYS} == ALWAYS
    assert set(values) & _COMING_AND_GOING == RENDERED[version]
    assert values["ANDROID_PLATFORM"] == "android-28"
    has_rtvm = "rtvm" in RELEASES[version][1]
    assert profile.targets == ("tvm_runtime", "tvm_rpc", *(("rtvm",) if has_rtvm else ()))


@pytest.mark.parametrize("version", RELEASES)
def test_nothing_is_left_out_without_a_note(version: str, tmp_path: Path) -> None:
    settings = settings_room.load(cwd=tmp_path, env={})
    profile = profiles.resolve("android", release(version, tmp_path), settings)
    values = {option.name for option in profile.options}
    notes = "\n".join(profile.notes)
    for name in (
        "USE_CPP_RTVM",
        "USE_GRAPH_EXECUTOR",
        "USE_PROFILER",
        "USE_OPENCL_EXTN_QCOM",
        "MACHINE_NAME",
    ):
        assert name in values or f"{name} is left out" in notes, name
    if "TVM_FFI_USE_LIBBACKTRACE" in values:
        assert "USE_LIBBACKTRACE is called TVM_FFI_USE_LIBBACKTRACE in this tree" in notes


def test_backtrace_value_by_generation(tmp_path: Path) -> None:
    """Relay-era AUTO needs MACHINE_NAME; tvm-ffi's is a plain switch."""
    settings = settings_room.load(cwd=tmp_path, env={})
    old = profiles.resolve("android", release("0.19.0", tmp_path), settings)
    new = profiles.resolve("android", release("0.24.0", tmp_path), settings)
    assert (old.value("USE_LIBBACKTRACE"), old.value("MACHINE_NAME")) == ("AUTO", "aarch64-linux-android")
    assert new.value("TVM_FFI_USE_LIBBACKTRACE") == "ON"
