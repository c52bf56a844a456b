"""A miniature TVM tree: our own code in TVM's CMake shape, built in seconds by any toolchain.

Its options, targets, output folders and configure lines are where the real tree has them.
``tvm_rpc`` binds a port, registers with a real TVM tracker and shakes hands with RPC clients
but serves no functions.
"""

from __future__ import annotations

import shutil
from pathlib import Path

_FILES = Path(__file__).resolve().parent / "minitvm"


def make_minitvm(dest: Path, era: str = "relay") -> Path:
    """Write the tree to ``dest`` (made, or empty) and return it.

    ``relay``: apps/cpp_rtvm, USE_GRAPH_EXECUTOR, libraries in the build folder.
    ``relax``: 3rdparty/tvm-ffi, no rtvm (though CMake still reads USE_CPP_RTVM),
    libraries in the build folder's lib/.
    """
    if era not in ("relay", "relax"):
        raise ValueError(f"era must be relay or relax, not {era!r}")
    for layer in ("common", era):
        shutil.copytree(_FILES / layer, dest, dirs_exist_ok=True)
    version = (dest / "version.py").read_text(encoding="utf-8").split('"')[-2]
    package = dest / "python" / "tvm" / "__init__.py"
    package.write_text(package.read_text(encoding="utf-8").replace("@VERSION@", version), encoding="utf-8")
    return dest
