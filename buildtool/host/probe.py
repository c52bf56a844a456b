"""Child process: what the tvm of this Python has. Prints one JSON object; imports nothing of buildtool."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

MARK = "@buildtool-host "


def look() -> dict[str, Any]:
    import tvm

    function = getattr(tvm, "get_global_func", None) or tvm._ffi.get_global_func

    def has(name: str) -> bool:
        return function(name, allow_missing=True) is not None

    found: dict[str, Any] = {"version": str(tvm.__version__), "file": str(tvm.__file__)}
    info = function("support.GetLibInfo", allow_missing=True)
    found["libinfo"] = {str(k): str(v) for k, v in dict(info()).items()} if info is not None else None
    major = function("target.llvm_version_major", allow_missing=True)
    found["llvm"] = int(major()) if major is not None else None
    targets = function("target.llvm_get_targets", allow_missing=True)
    found["llvm_targets"] = sorted(str(t) for t in targets()) if targets is not None else []
    found["codegen"] = {
        kind: has(f"target.build.{kind}") for kind in ("llvm", "c", "opencl", "clml", "vulkan", "cuda")
    }
    found["clml"] = has("relax.ext.openclml") or has("relay.ext.clml")
    found["rpc"] = has("rpc.Connect")
    return found


def main() -> int:
    try:
        reply = look()
    except BaseException as exc:
        reply = {"error": f"{type(exc).__name__}: {exc}"}
    sys.stdout.write("\n" + MARK + json.dumps(reply) + "\n")
    sys.stdout.flush()
    os._exit(1 if "error" in reply else 0)


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path[:] = [p for p in sys.path if os.path.abspath(p) != here]  # noqa: PTH100
    main()
