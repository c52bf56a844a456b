"""What a check is, and what it is given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from buildtool.artifacts import Artifact, ArtifactSet
from buildtool.devices.base import Device
from buildtool.toolchains.model import Toolchain
from buildtool.verify.bench import Bench
from buildtool.verify.closure import SystemLibraries
from buildtool.verify.model import ARTIFACTS, Outcome, Status


@dataclass(frozen=True)
class Context:
    """What a check may look at.

    ``artifact`` is set for checks that run once a file. ``bench`` is what the
    checks on a device share: pushed files, the server, compiled smoke kernels.
    """

    artifacts: ArtifactSet
    toolchain: Toolchain | None
    system: SystemLibraries
    bench: Bench
    artifact: Artifact | None = None

    @property
    def file(self) -> Artifact:
        assert self.artifact is not None
        return self.artifact

    @property
    def device(self) -> Device:
        return self.bench.device

    @property
    def tools(self) -> Toolchain:
        assert self.toolchain is not None
        return self.toolchain

    @property
    def android(self) -> bool:
        return "android" in self.artifacts.triple


class Check(ABC):
    """One thing that is looked at. A subclass is listed in its module's ``CHECKS``."""

    id: ClassVar[str]
    title: ClassVar[str]
    needs: ClassVar[frozenset[str]] = frozenset({ARTIFACTS})
    """What must be there, among artifacts, toolchain, device, tvm-python; else the result is SKIP."""
    each_file: ClassVar[bool] = True
    """Run once for each artifact, else once in all."""

    def applies(self, context: Context) -> bool:
        """Whether the question makes sense for this file and target; else there is no result."""
        return True

    @abstractmethod
    def run(self, context: Context) -> Outcome:
        """Look, and say what was seen. An exception counts as FAIL with its message."""


def passed(measured: str, expected: str = "", evidence: str = "") -> Outcome:
    return Outcome(Status.PASS, measured, expected, evidence)


def failed(measured: str, expected: str, *, evidence: str = "", fix: str = "") -> Outcome:
    return Outcome(Status.FAIL, measured, expected, evidence, fix)


def skipped(reason: str, *, expected: str = "", fix: str = "") -> Outcome:
    return Outcome(Status.SKIP, "not observed", expected, reason, fix)


def verdict(good: bool, measured: str, expected: str, *, evidence: str = "", fix: str = "") -> Outcome:
    """PASS or FAIL with the same words; ``fix`` is told only on FAIL."""
    if good:
        return passed(measured, expected, evidence)
    return failed(measured, expected, evidence=evidence, fix=fix)
