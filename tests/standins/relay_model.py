"""The relay-era rtvm stand-in for this machine, with its hand-made model: what `buildtool run` drives."""

from __future__ import annotations

import subprocess
from pathlib import Path

from buildtool.artifacts import ArtifactSet
from buildtool.devices.qemu import QemuDevice
from buildtool.toolchains.host import host_abi
from buildtool.toolchains.model import Toolchain
from buildtool.verify.rtvm_checks import SmokeModel, make_model
from tests.standins.binaries import artifact, artifact_set, host_toolchain
from tests.standins.minitvm import make_minitvm


def build_relay(folder: Path, toolchain: Toolchain | None = None) -> ArtifactSet:
    """Compile the miniature tree's rtvm, with the host's compiler when no other is given."""
    toolchain = toolchain or host_toolchain()
    tree, dist = make_minitvm(folder / "tree", era="relay"), folder / "dist"
    dist.mkdir()
    sources = [tree / "apps/cpp_rtvm/main.cc", tree / "src/runtime/alignment.cc"]
    words = ["-std=c++17", "-O1", f"-I{tree}/include", *sources, "-ldl", "-o", dist / "rtvm"]
    subprocess.run([str(toolchain.cxx), *map(str, words)], check=True)
    return artifact_set(toolchain, artifact(dist / "rtvm"), tvm_ffi=False, source_dir=str(tree))


def relay_model(artifacts: ArtifactSet, folder: Path, toolchain: Toolchain | None = None) -> SmokeModel:
    """The model of `buildtool verify`, compiled for the build's machine."""
    return make_model(artifacts, toolchain or host_toolchain(), folder)


def local_device(root: Path) -> QemuDevice:
    """This machine as a device, with a folder of its own."""
    return QemuDevice(root, abi=host_abi(), sysroot=None, qemu=None)
