"""The miniature's Python: finds its library as the real one does, and tells what it was built with."""

import ctypes
import os
from pathlib import Path

__version__ = "@VERSION@"


def _load():
    folders = [Path(__file__).parent / "lib", *map(Path, os.environ.get("TVM_LIBRARY_PATH", "").split(":"))]
    for folder in folders:
        for name in ("libtvm_ffi.so", "libtvm_runtime.so", "libtvm.so"):
            if (folder / name).is_file():
                library = ctypes.CDLL(str(folder / name), ctypes.RTLD_GLOBAL)
                if name == "libtvm.so":
                    return library
    raise RuntimeError(f"Cannot find libtvm.so in {[str(f) for f in folders]}")


_LIB = _load()
_LIB.MiniTVMOptions.restype = ctypes.c_char_p
_OPTIONS = dict(word.split("=", 1) for word in _LIB.MiniTVMOptions().decode().split("|") if word)


def _on(name):
    return _OPTIONS.get(name, "OFF") not in ("OFF", "")


_FUNCTIONS = {"support.GetLibInfo": lambda: _OPTIONS, "rpc.Connect": lambda: None}
if _on("USE_LLVM"):
    _FUNCTIONS["target.llvm_version_major"] = lambda: 16
    _FUNCTIONS["target.llvm_get_targets"] = lambda: ["aarch64", "x86-64"]
    _FUNCTIONS["target.build.llvm"] = lambda: None
if _on("USE_OPENCL"):
    _FUNCTIONS["target.build.opencl"] = lambda: None


def get_global_func(name, allow_missing=False):
    found = _FUNCTIONS.get(name)
    if found is None and not allow_missing:
        raise ValueError(f"Cannot find global function {name}")
    return found
