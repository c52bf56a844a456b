"""Let real CMake read a rendered file, to see that each value arrives as it was meant."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from buildtool.core.errors import ToolMissing
from buildtool.core.process import run, which


def read_back(text: str, names: Sequence[str]) -> dict[str, str]:
    """The value of each variable after CMake has included ``text``; an unset one is empty.

    Raises ToolMissing without CMake and ProcessFailed when it refuses the file.
    """
    # The cmake wheel lies beside the interpreter, also where that folder is not in PATH.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    cmake = which("cmake", path=path)
    if cmake is None:
        raise ToolMissing("cmake is not there", fix="pip install cmake")
    with tempfile.TemporaryDirectory(prefix="buildtool-") as folder:
        config = Path(folder, "config.cmake")
        config.write_text(text, encoding="utf-8")
        script = Path(folder, "read.cmake")
        # Hexadecimal, so that nothing between CMake and here can change a value.
        script.write_text(
            "cmake_minimum_required(VERSION 3.18)\n"
            'include("${CMAKE_CURRENT_LIST_DIR}/config.cmake")\n'
            + "".join(f'string(HEX "${{{name}}}" hex)\nmessage("{name}=${{hex}}")\n' for name in names),
            encoding="utf-8",
        )
        done = run([cmake, "-P", script])
    pairs = re.findall(r"^(\w+)=([0-9a-f]*)$", done.stderr, re.MULTILINE)
    return {name: bytes.fromhex(value).decode("utf-8") for name, value in pairs}
