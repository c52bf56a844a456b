"""Outcomes of checks and the report that holds them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from buildtool.core.errors import CheckFailed

# What a check may need.
ARTIFACTS = "artifacts"
TOOLCHAIN = "toolchain"
DEVICE = "device"
TVM_PYTHON = "tvm-python"

FFI = "libtvm_ffi.so"
RUNTIME = "libtvm_runtime.so"


class CantObserve(CheckFailed):
    """Raised inside a check when the thing could not be looked at: becomes SKIP with this reason."""


class Status(str, enum.Enum):
    PASS = "PASS"  # noqa: S105
    FAIL = "FAIL"
    SKIP = "SKIP"
    """It could not be observed; ``evidence`` says why. Never counts as passed."""


@dataclass(frozen=True)
class Outcome:
    """What one check saw.

    ``measured`` and ``expected`` are shown side by side; ``evidence`` says where
    the value was seen, or why there was none.
    """

    status: Status
    measured: str
    expected: str = ""
    evidence: str = ""
    fix: str = ""


@dataclass(frozen=True)
class Result:
    """An outcome with the check it belongs to and what it was run on (file or device)."""

    id: str
    title: str
    subject: str
    outcome: Outcome
    seconds: float


@dataclass(frozen=True)
class Report:
    """All results of one verification; ``facts`` are its circumstances (profile, device, versions)."""

    facts: Mapping[str, str]
    results: tuple[Result, ...]

    def count(self, status: Status) -> int:
        return sum(1 for r in self.results if r.outcome.status is status)

    @property
    def ok(self) -> bool:
        """True when something passed and nothing failed."""
        return self.count(Status.FAIL) == 0 and self.count(Status.PASS) > 0
