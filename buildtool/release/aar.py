"""An Android archive (AAR) with Prefab metadata: native libraries and headers for Gradle and CMake."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path

from buildtool.artifacts import ArtifactSet
from buildtool.core.errors import UsageError
from buildtool.release import archive, contents
from buildtool.release.archive import Entry

MODULES = {"libtvm_runtime.so": "tvm_runtime", "libtvm_ffi.so": "tvm_ffi"}
PACKAGE = "org.apache.tvm.runtime"
_NAMESPACE = "http://schemas.android.com/apk/res/android"
STL = "libc++_shared.so"


def write(sets: Sequence[ArtifactSet], path: Path, *, epoch: int) -> Path:
    """One AAR for the ABIs of ``sets``: ``jni/`` for Gradle's packaging, ``prefab/`` for CMake's.

    libc++_shared.so is left to the app's Gradle build, as Android's rule for AARs is. OpenCL is declared
    as a native library that a phone may lack. Raises UsageError for a set that is not for Android or a
    second one of the same ABI.
    """
    entries: dict[str, Entry] = {}
    levels: set[int] = set()
    for artifacts in sets:
        level = artifacts.toolchain.get("api_level")
        if "android" not in artifacts.triple or not isinstance(level, int):
            raise UsageError(f"profile {artifacts.profile} is not built for Android", where="--aar")
        new = _abi(artifacts, level)
        twin = sorted(entries.keys() & {n for n in new if n.startswith("jni/")})
        if twin:
            raise UsageError(f"two builds for the ABI {artifacts.abi.value}", where="--aar", found=twin[0])
        entries |= new
        levels.add(level)
    version = sets[0].version
    vendor = {n for s in sets for a in s.artifacts for n in a.elf.needed if n.startswith("libOpenCL")}
    entries["AndroidManifest.xml"] = Entry(_manifest(max(levels), vendor).encode())
    entries["classes.jar"] = Entry(_empty_jar())
    entries["R.txt"] = Entry(b"")
    description = {
        "schema_version": 2,
        "name": "tvm",
        "version": _prefab_version(version),
        "dependencies": [],
    }
    entries["prefab/prefab.json"] = _json(description)
    return archive.write(path, "", entries, epoch=epoch)


def _abi(artifacts: ArtifactSet, level: int) -> dict[str, Entry]:
    abi = artifacts.abi.value
    entries: dict[str, Entry] = {}
    headers = {n: e for n, e in contents.gather(artifacts).items() if n.startswith("include/")}
    present = [a for a in artifacts.artifacts if a.role != "executable" and a.name != STL]
    for artifact in present:
        entries[f"jni/{abi}/{artifact.name}"] = Entry(artifact.path, executable=True)
        module = MODULES.get(artifact.name, artifact.name.removeprefix("lib").removesuffix(".so"))
        root = f"prefab/modules/{module}"
        needs = [f":{MODULES[n]}" for n in artifact.elf.needed if n in MODULES and n != artifact.name]
        entries[f"{root}/module.json"] = _json({"export_libraries": needs, "library_name": None})
        place = f"{root}/libs/android.{abi}"
        stl = artifacts.toolchain.get("stl") or "c++_shared"
        facts = {"abi": abi, "api": level, "ndk": _ndk_major(artifacts), "stl": stl, "static": False}
        entries[f"{place}/abi.json"] = _json(facts)
        entries[f"{place}/{artifact.name}"] = Entry(artifact.path, executable=True)
        entries |= {f"{root}/{name}": entry for name, entry in headers.items()}
    return entries


def _ndk_major(artifacts: ArtifactSet) -> int:
    match = re.match(r"\d+", str(artifacts.toolchain.get("revision") or ""))
    return int(match[0]) if match else 0


def _prefab_version(version: str) -> str:
    """Prefab wants numbers with dots: 0.25.dev0 is 0.25.0."""
    return ".".join([*re.findall(r"\d+", version), "0", "0"][:3])


def _manifest(level: int, vendor: set[str]) -> str:
    """``vendor``: the phone's libraries that ours are linked to, so that an app can't do without them."""
    needed = {name: "true" if name in vendor else "false" for name in ("libOpenCL.so", *vendor)}
    natives = "".join(
        f'    <uses-native-library android:name="{name}" android:required="{needed[name]}" />\n'
        for name in sorted(needed)
    )
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<manifest xmlns:android="{_NAMESPACE}" package="{PACKAGE}">\n'
        f'  <uses-sdk android:minSdkVersion="{level}" />\n'
        "  <application>\n"
        f"{natives}"
        "  </application>\n"
        "</manifest>\n"
    )


def _empty_jar() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as jar:
        info = zipfile.ZipInfo("META-INF/MANIFEST.MF", (1980, 1, 1, 0, 0, 0))
        jar.writestr(info, "Manifest-Version: 1.0\n")
    return buffer.getvalue()


def _json(value: object) -> Entry:
    return Entry((json.dumps(value, indent=2) + "\n").encode())
