"""Did each requested option reach the build?

TVM reads config.cmake as plain variables: a misspelt or obsolete name, or one
that another line overrides, is silently without effect, and CMakeCache.txt can
show a value that was not used. So each option is traced to what the build
really does: macros on the compile lines first, then TVMBuildOptions.txt, then
the configure log.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from buildtool.build.model import BuildPlan, Effect
from buildtool.core.files import read_json

_TRUE = {"ON", "TRUE", "YES", "Y", "1"}
_FALSE = {"OFF", "FALSE", "NO", "N", "0", "", "NONE"}


def compile_defines(build_dir: Path) -> frozenset[str]:
    """Every ``-D`` word (without ``-D``) on any compile line of the build."""
    database = build_dir / "compile_commands.json"
    if not database.is_file():
        return frozenset()
    found: set[str] = set()
    for entry in read_json(database):
        command = str(entry["command"]) if "command" in entry else shlex.join(entry["arguments"])
        found.update(re.findall(r"(?:^|\s)-D\s*((?:\\.|[^\s\\])+)", command))
    return frozenset(word.replace('\\"', '"') for word in found)


def build_options(build_dir: Path) -> dict[str, str]:
    """What TVMBuildOptions.txt says: option name to value."""
    path = build_dir / "TVMBuildOptions.txt"
    if not path.is_file():
        return {}
    rows = (line.strip().partition(" ") for line in path.read_text(encoding="utf-8").splitlines())
    return {name: value.strip() for name, _, value in rows if name}


def same_value(asked: str, seen: str) -> bool:
    """Equal as CMake sees it: ON, TRUE and 1 are one value.

    ON is also met by a path: OpenCLML's CMake file turns USE_OPENCL into the SDK's.
    """
    a, b = asked.strip().upper(), seen.strip().upper()
    on = b in _TRUE or (seen.strip().startswith("/") and not b.endswith("-NOTFOUND"))
    return a == b or (a in _TRUE and on) or (a in _FALSE and b in _FALSE)


def prove(plan: BuildPlan, configure_log: str) -> tuple[Effect, ...]:
    """Look for every option of the profile in the configured build."""
    defines = compile_defines(plan.build_dir)
    options = build_options(plan.build_dir)
    expected = dict(plan.profile.expected_defines)
    proofs: list[Effect] = []
    for option in plan.profile.options:
        define = expected.get(option.name)
        if define is not None and defines:
            proofs.append(_from_macro(option.name, option.value, define, defines))
        else:
            proofs.append(_from_records(option.name, option.value, options, configure_log))
    return tuple(proofs)


def _from_macro(name: str, value: str, define: str, defines: frozenset[str]) -> Effect:
    macro = define.partition("=")[0]
    seen = sorted(d for d in defines if d.partition("=")[0] == macro)
    if seen == [define]:
        return Effect(name, value, "proved", f"-D{define} on the compile lines")
    got = f"the compile lines have {', '.join('-D' + d for d in seen)}" if seen else "no compile line has it"
    return Effect(name, value, "no-effect", f"expected -D{define}; {got}")


def _from_records(name: str, value: str, options: dict[str, str], configure_log: str) -> Effect:
    if name in options:
        status = "proved" if same_value(value, options[name]) else "no-effect"
        return Effect(name, value, status, f"TVMBuildOptions.txt has {name} {options[name]}")
    pattern = rf"\b{re.escape(name)}\b\W+{re.escape(value)}(?!\w)"
    for line in configure_log.splitlines():
        if re.search(pattern, line) and "Manually-specified" not in line:
            return Effect(name, value, "proved", f"configure log: {line.strip()}")
    return Effect(name, value, "unproved", "the build records nothing about it")
