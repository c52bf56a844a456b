"""Which libraries a file gets on the target: those shipped, and the target's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from buildtool.artifacts import ArtifactSet, ElfFacts, read_elf
from buildtool.core.errors import BuildFailed, BuildtoolError
from buildtool.toolchains.clml import read_clml
from buildtool.toolchains.model import Toolchain
from buildtool.toolchains.ndk_layout import SYSROOT_TRIPLE


@dataclass
class SystemLibraries:
    """The target system's own libraries, looked up by file name and read once.

    For Linux these are the sysroot's real libraries; for Android the NDK's stub
    libraries of one API level, which list exactly the public symbols.
    """

    folders: tuple[Path, ...]
    machine: str
    reason: str = ""
    """Why there are none, when ``folders`` is empty."""
    vendor: tuple[Path, ...] = ()
    """Libraries that the device's vendor brings and nobody ships: the OpenCLML SDK's stand for them."""
    _read: dict[str, ElfFacts | None] = field(default_factory=dict)

    def find(self, name: str) -> ElfFacts | None:
        """The library's facts, or None. Files for another machine do not count."""
        if name not in self._read:
            self._read[name] = self._look(name)
        return self._read[name]

    def _look(self, name: str) -> ElfFacts | None:
        for path in (*(folder / name for folder in self.folders), *self.vendor):
            if path.name != name or not path.is_file():
                continue
            try:
                elf = read_elf(path)
            except BuildFailed:
                continue  # a linker script of that name
            if elf.machine == self.machine:
                return elf
        return None


def android_stub_folder(toolchain: Toolchain) -> Path | None:
    """The NDK's stub libraries for the toolchain's ABI and API level."""
    if toolchain.api_level is None:
        return None
    below = Path("usr") / "lib" / SYSROOT_TRIPLE[toolchain.abi] / str(toolchain.api_level)
    roots = [toolchain.sysroot] if toolchain.sysroot else []
    if toolchain.root is not None:
        roots += sorted(toolchain.root.glob("toolchains/llvm/prebuilt/*/sysroot"))
    return next((root / below for root in roots if (root / below).is_dir()), None)


def vendor_libraries(artifacts: ArtifactSet) -> tuple[Path, ...]:
    """The OpenCLML SDK's libraries that the files were linked with; empty without OpenCLML or SDK."""
    sdk = artifacts.options.get("USE_CLML_GRAPH_EXECUTOR", "")
    if not Path(sdk).is_absolute():
        return ()
    try:
        return read_clml(Path(sdk), artifacts.abi).libraries
    except BuildtoolError:
        return ()  # gone or changed since the build: then its libraries count as missing


def system_libraries(toolchain: Toolchain | None, vendor: tuple[Path, ...] = ()) -> SystemLibraries:
    """The system libraries that the toolchain's programs will find on the target.

    ``vendor`` as :func:`vendor_libraries` finds them.
    """
    if toolchain is None:
        return SystemLibraries((), "", "the toolchain that built these files was not found")
    machine = toolchain.abi.elf_machine
    if toolchain.system == "Android":
        stubs = android_stub_folder(toolchain)
        if stubs is None:
            return SystemLibraries(
                (), machine, f"the NDK has no stub libraries for API level {toolchain.api_level}"
            )
        return SystemLibraries((stubs,), machine, vendor=vendor)
    root = toolchain.sysroot or (None if toolchain.cross else Path("/"))
    if root is None:
        return SystemLibraries((), machine, f"the toolchain {toolchain.name} has no sysroot to look into")
    below = ("lib", "lib64", "usr/lib", "usr/lib64", f"lib/{toolchain.triple}", f"usr/lib/{toolchain.triple}")
    folders = tuple(root / name for name in below if (root / name).is_dir())
    reason = "" if folders else f"no library folder below {root}"
    return SystemLibraries(folders, machine, reason, vendor)


def closure(elf: ElfFacts, shipped: Mapping[str, ElfFacts], system: SystemLibraries) -> dict[str, ElfFacts]:
    """Every library that comes with ``elf`` by NEEDED, directly or not, as far as they are found."""
    found: dict[str, ElfFacts] = {}
    waiting = list(elf.needed)
    while waiting:
        name = waiting.pop(0)
        if name in found:
            continue
        library = shipped.get(name) or system.find(name)
        if library is not None:
            found[name] = library
            waiting.extend(library.needed)
    return found


def unresolved(elf: ElfFacts, libraries: Iterable[ElfFacts]) -> list[str]:
    """The strong undefined symbols of ``elf`` that none of ``libraries`` exports, sorted."""
    wanted = set(elf.undefined)
    for library in libraries:
        wanted -= library.defined
    return sorted(wanted)
