"""Is the compiler that Python imports the one that was asked for? A report in the verifier's form."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from buildtool.artifacts import ArtifactSet
from buildtool.core.errors import CheckFailed
from buildtool.core.process import run
from buildtool.host import probe
from buildtool.host.environment import HostEnvironment
from buildtool.verify.check import failed, skipped, verdict
from buildtool.verify.model import Outcome, Report, Result

_OFF = ("", "OFF", "0", "NO", "FALSE", "N", "IGNORE", "NOTFOUND")
# Options whose effect can be seen in an imported tvm without its own list of options.
_SEEN: Mapping[str, Callable[[dict[str, Any]], bool]] = {
    "USE_LLVM": lambda found: found["llvm"] is not None,
    "USE_OPENCL": lambda found: bool(found["codegen"]["opencl"]),
    "USE_CLML": lambda found: bool(found["clml"]),
    "USE_RPC": lambda found: bool(found["rpc"]),
}


def ask(environment: HostEnvironment) -> dict[str, Any]:
    """What ``import tvm`` gives in the environment. Raises CheckFailed with the import's own error."""
    import os

    done = run(
        [environment.python, Path(probe.__file__)],
        env={**os.environ, **environment.variables()},
        timeout=180,
        check=False,
    )
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(probe.MARK):
            found = json.loads(line[len(probe.MARK) :])
            if "error" in found:
                raise CheckFailed(f"import tvm failed: {found['error']}", where=str(environment.python))
            return dict(found)
    how = "took too long" if done.timed_out else f"ended with code {done.returncode}"
    raise CheckFailed(f"import tvm {how}", where=str(environment.python), details=done.tail(5))


def check(environment: HostEnvironment, artifacts: ArtifactSet) -> Report:
    """Import tvm and compare it with what was built: version, every asked option, code generators."""
    begun = time.monotonic()
    facts = {
        "profile": artifacts.profile,
        "tvm": artifacts.version,
        "python": str(environment.python),
        "libraries": str(environment.libraries or "the environment's wheel"),
    }
    rows: list[Result] = []

    def add(identity: str, title: str, subject: str, outcome: Outcome) -> None:
        rows.append(Result(identity, title, subject, outcome, time.monotonic() - begun))

    try:
        found = ask(environment)
    except CheckFailed as exc:
        reason = failed(exc.what, "import tvm works", evidence="; ".join(exc.details), fix=exc.fix or "")
        add("host-import", "import tvm", "tvm", reason)
        return Report(facts, tuple(rows))
    where = environment.packages
    own = where is None or Path(found["file"]).resolve().is_relative_to(where.resolve())
    add("host-import", "import tvm is this tree's", "tvm", verdict(own, found["file"], str(where)))
    same = _same_version(found["version"], artifacts.version)
    add("host-version", "its version", "tvm", verdict(same, found["version"], artifacts.version))
    for name, outcome in _options(artifacts.options, found):
        add("host-option", "the option is in the library", name, outcome)
    for identity, title, outcome in _generators(artifacts.options, found):
        add(identity, title, "tvm", outcome)
    return Report(facts, tuple(rows))


def _same_version(imported: str, built: str) -> bool:
    """``0.25.dev0+gabc`` is of ``0.25.dev0``."""
    return imported.split("+", maxsplit=1)[0] == built.split("+", maxsplit=1)[0]


def _on(value: str) -> bool:
    return value.upper() not in _OFF and not value.upper().endswith("-NOTFOUND")


def _options(asked: Mapping[str, str], found: dict[str, Any]) -> Iterator[tuple[str, Outcome]]:
    for name, value in sorted(asked.items()):
        if not name.startswith("USE_"):
            continue
        wanted = "ON" if _on(value) else "OFF"
        told = (found["libinfo"] or {}).get(name)
        if told is not None:
            # A path on one side and ON on the other mean the same library.
            yield name, verdict(_on(told) == _on(value), told, value, evidence="libinfo()")
        elif name in _SEEN:
            seen = "ON" if _SEEN[name](found) else "OFF"
            yield name, verdict(seen == wanted, seen, wanted, evidence="its functions are registered")
        else:
            yield name, skipped("this tvm does not tell of the option", expected=wanted)


def _generators(asked: Mapping[str, str], found: dict[str, Any]) -> Iterator[tuple[str, str, Outcome]]:
    if _on(asked.get("USE_LLVM", "OFF")):
        targets = ", ".join(found["llvm_targets"]) or "not told"
        good = "aarch64" in found["llvm_targets"]
        outcome = verdict(good, f"LLVM {found['llvm']}: {targets}", "aarch64 among LLVM's targets")
        if not found["llvm_targets"]:
            outcome = skipped("this tvm does not list LLVM's targets", expected="aarch64")
        yield "host-llvm", "LLVM compiles for aarch64", outcome
    codegen = [kind for kind, there in found["codegen"].items() if there]
    title = "OpenCL code is generated"
    yield "host-opencl", title, verdict("opencl" in codegen, ", ".join(codegen) or "none", "opencl")
