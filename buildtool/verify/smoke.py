"""Our own smoke programs and kernels, compiled by the toolchain that built the artifacts."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path

from buildtool.artifacts import ArtifactSet, read_elf
from buildtool.core.errors import CheckFailed
from buildtool.core.paths import data_dir
from buildtool.core.process import run
from buildtool.toolchains.model import Toolchain
from buildtool.verify.closure import closure, system_libraries, unresolved
from buildtool.verify.model import FFI, RUNTIME, CantObserve

KERNEL = "buildtool_saxpy"
_WARNINGS = ("-Wall", "-Wextra", "-Werror")


def link_flags(toolchain: Toolchain) -> list[str]:
    """What every linked file of ours gets: a build-id, and 16 KB pages where Android wants them."""
    flags = ["-Wl,--build-id=sha1"]
    if toolchain.system == "Android" and toolchain.abi.bits == 64:
        flags.append("-Wl,-z,max-page-size=16384")
    return flags


def _compile(compiler: Path, toolchain: Toolchain, words: Sequence[str | Path], output: Path) -> Path:
    run(
        [compiler, *toolchain.cc_flags, *words, *link_flags(toolchain), "-o", output],
        env={**os.environ, **dict(toolchain.env)},
        timeout=300,
        what=f"compiling {output.name}",
    )
    return output


def build_abi_program(toolchain: Toolchain, folder: Path) -> Path:
    """``smoke_abi``, which needs no TVM at all."""
    source = data_dir("native") / "smoke" / "smoke_abi.c"
    words: list[str | Path] = ["-std=c11", "-D_DEFAULT_SOURCE", "-O2", *_WARNINGS, "-fPIE", "-pie", source]
    return _compile(toolchain.cc, toolchain, words, folder / "smoke_abi")


def build_opencl_program(toolchain: Toolchain, folder: Path) -> Path:
    """``opencl_info``, which asks the device's OpenCL library without TVM and without OpenCL headers."""
    source = data_dir("native") / "smoke" / "opencl_info.c"
    words: list[str | Path] = ["-std=c11", "-D_DEFAULT_SOURCE", "-O2", *_WARNINGS, "-fPIE", "-pie", source]
    return _compile(toolchain.cc, toolchain, [*words, "-ldl"], folder / "opencl_info")


def expected_checksum(seed: int) -> str:
    """What ``smoke_abi SEED`` prints on a machine that works, computed here."""
    state, numbers = seed, []
    for _ in range(1000):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        numbers.append(state)
    numbers.sort()
    value = 0xCBF29CE484222325
    data = struct.pack("<1000I", *numbers) + struct.pack("<1000d", *(n / 3.0 for n in numbers))
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def header_flags(artifacts: ArtifactSet) -> list[str]:
    """Where the tree that was built keeps its C headers. Raises CantObserve when it is gone."""
    root = Path(artifacts.source_dir)
    if artifacts.tvm_ffi:
        layouts = [
            ("3rdparty/tvm-ffi/include", "3rdparty/tvm-ffi/3rdparty/dlpack/include"),
            ("ffi/include", "3rdparty/dlpack/include"),
        ]
        header = "tvm/ffi/c_api.h"
    else:
        layouts = [("include", "3rdparty/dlpack/include")]
        header = "tvm/runtime/c_runtime_api.h"
    for layout in layouts:
        if (root / layout[0] / header).is_file():
            flags = [word for name in layout for word in ("-isystem", str(root / name))]
            # v0.21 calls its tensor type NDArray.
            if artifacts.tvm_ffi and "kTVMFFITensor" not in (root / layout[0] / header).read_text("utf-8"):
                flags.append("-DSMOKE_TENSOR=kTVMFFINDArray")
            return flags
    raise CantObserve(
        f"the TVM tree that was built is no longer at {root} (its header {header} is needed)",
        fix="fetch the source again, or build again",
    )


def _runtime_link(artifacts: ArtifactSet) -> list[str]:
    """How a kernel library names the TVM library it calls, so that bionic finds its symbols too."""
    library = FFI if artifacts.find(FFI) else RUNTIME
    if artifacts.find(library) is None:
        raise CantObserve(f"neither {FFI} nor {RUNTIME} is shipped (a static build): nothing to link to")
    return [f"-L{artifacts.root}", "-Wl,--no-as-needed", "-l" + library[3:-3]]


def build_kernel(artifacts: ArtifactSet, toolchain: Toolchain, folder: Path) -> Path:
    """The saxpy kernel library in the tree's calling convention."""
    native = data_dir("native") / "smoke"
    source = native / ("saxpy_ffi.c" if artifacts.tvm_ffi else "saxpy_relay.c")
    output = folder / "libbuildtool_saxpy.so"
    words: list[str | Path] = ["-std=c11", "-O2", "-ffp-contract=off", *_WARNINGS, "-fPIC", "-shared"]
    words += [f"-Wl,-soname,{output.name}", f"-I{native}", *header_flags(artifacts), source]
    _compile(toolchain.cc, toolchain, [*words, *_runtime_link(artifacts)], output)
    check_links(output, artifacts, toolchain)
    return output


def build_caller(artifacts: ArtifactSet, toolchain: Toolchain, folder: Path) -> Path:
    """``call_kernel``, which loads the kernel library and calls it without Python."""
    source = data_dir("native") / "smoke" / "call_kernel.c"
    words: list[str | Path] = ["-std=c11", "-D_DEFAULT_SOURCE", "-O2", *_WARNINGS, "-fPIE", "-pie"]
    words += header_flags(artifacts)
    if not artifacts.tvm_ffi:
        words.append("-DSMOKE_RELAY")
    return _compile(toolchain.cc, toolchain, [*words, source, "-ldl"], folder / "call_kernel")


def link_objects(objects: Sequence[Path], artifacts: ArtifactSet, toolchain: Toolchain, output: Path) -> Path:
    """Link object files from TVM's compiler into a library that a server can load."""
    words: list[str | Path] = ["-shared", "-fPIC", f"-Wl,-soname,{output.name}", *objects]
    _compile(toolchain.cxx, toolchain, [*words, *_runtime_link(artifacts)], output)
    check_links(output, artifacts, toolchain)
    return output


def check_links(library: Path, artifacts: ArtifactSet, toolchain: Toolchain) -> None:
    """Raise CheckFailed when the library wants a symbol that the libraries it names do not export.

    glibc would find it in the program's libraries all the same; bionic does not.
    """
    system = system_libraries(toolchain)
    if not system.folders:
        return
    elf = read_elf(library)
    shipped = {a.name: a.elf for a in artifacts.artifacts}
    nowhere = unresolved(elf, closure(elf, shipped, system).values())
    if nowhere:
        raise CheckFailed(
            f"{library.name} wants symbols that no library it names exports",
            found=", ".join(nowhere[:5]),
            fix="link it to the library that has them",
        )
