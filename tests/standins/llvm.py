"""A stand-in LLVM: its llvm-config and the header that shows that it has headers."""

from __future__ import annotations

from pathlib import Path


def installed(folder: Path, version: str, *, targets: str = "X86 AArch64", headers: bool = True) -> Path:
    """Make one in ``folder``; returns its llvm-config."""
    major = version.split(".", maxsplit=1)[0]
    include = folder / f"llvm-{major}" / "include"
    (include / "llvm" / "Config").mkdir(parents=True)
    if headers:
        (include / "llvm" / "Config" / "llvm-config.h").touch()
    program = folder / f"llvm-config-{major}"
    program.write_text(
        "#!/bin/sh\ncase $1 in\n"
        f"--version) echo {version};;\n--includedir) echo '{include}';;\n"
        f"--targets-built) echo '{targets}';;\n*) exit 1;;\nesac\n"
    )
    program.chmod(0o755)
    return program
