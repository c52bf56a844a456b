"""Several devices at once: a process for each, and one report of all."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from buildtool.core.errors import CheckFailed
from buildtool.core.process import spawn, stop
from buildtool.verify.model import Outcome, Report, Result, Status

DEVICE_SECONDS = 1800.0


@contextlib.contextmanager
def started(commands: Mapping[str, Sequence[str]]) -> Iterator[Mapping[str, Child]]:
    """Start ``buildtool WORDS`` for each device; leaving the block ends those that still run.

    Processes and not threads: each has its own clean-up, and one that hangs or crashes leaves the
    others alone.
    """
    children: dict[str, Child] = {}
    try:
        for name, words in commands.items():
            children[name] = Child(words)
        yield children
    finally:
        # Side by side: each may need a moment to clean up its device.
        enders = [threading.Thread(target=child.end) for child in children.values()]
        for ender in enders:
            ender.start()
        for ender in enders:
            ender.join()


class Child:
    """One verify of one device; its report is JSON in a file, its remarks go to our stderr."""

    def __init__(self, words: Sequence[str]) -> None:
        self._out = tempfile.TemporaryFile(prefix="buildtool-verify-")  # noqa: SIM115 - as long as it
        self._process = spawn(
            [sys.executable, "-m", "buildtool", "--quiet", *words], stdout=self._out, stderr=None
        )

    def end(self) -> None:
        stop(self._process, grace=15.0)

    def report(self, device: str) -> Report:
        """Its report once it has ended; one FAIL when it has none."""
        try:
            code = self._process.wait(DEVICE_SECONDS)
        except subprocess.TimeoutExpired:
            return _without(device, f"not finished within {DEVICE_SECONDS:g} s", "")
        self._out.seek(0)
        text = self._out.read().decode("utf-8", "replace")
        try:
            return read(json.loads(text))
        except ValueError:
            return _without(device, f"its process ended with code {code} and no report", "")
        except CheckFailed as exc:
            return _without(device, exc.what, exc.fix or "")


def read(data: Any) -> Report:
    """A report from the JSON of ``verify --json``. Raises CheckFailed for an error's JSON."""
    if "error" in data:
        raise CheckFailed(str(data["error"]), fix=data.get("fix"))
    results = tuple(
        Result(
            r["id"],
            r["title"],
            r["subject"],
            Outcome(Status(r["status"]), r["measured"], r["expected"], r["evidence"], r["fix"]),
            r["seconds"],
        )
        for r in data["results"]
    )
    return Report(dict(data["facts"]), results)


def _without(device: str, why: str, fix: str) -> Report:
    outcome = Outcome(Status.FAIL, why, "a report", fix=fix)
    return Report({"device": device}, (Result("device", "the device can be used", device, outcome, 0.0),))


def merge(static: Report, reports: Mapping[str, Report]) -> Report:
    """One report: what concerns the files alone, then each device's results.

    A fact that is equal everywhere stands once; others carry the device's name.
    """
    facts = {key: value for key, value in static.facts.items() if key != "device"}
    facts["devices"] = ", ".join(reports)
    for key in dict.fromkeys(k for report in reports.values() for k in report.facts):
        values = {name: report.facts[key] for name, report in reports.items() if key in report.facts}
        if len(reports) > 1 and len(values) == len(reports) and len(set(values.values())) == 1:
            facts.setdefault(key, next(iter(values.values())))
        else:
            facts |= {f"{key} {name}": value for name, value in values.items() if facts.get(key) != value}
    results = static.results + tuple(r for report in reports.values() for r in report.results)
    return Report(facts, results)
