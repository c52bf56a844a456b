"""What a driver is asked to do, and what it saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from buildtool.models.npz import Array

RANDOM, ZEROS = "random", "zeros"


@dataclass(frozen=True)
class Job:
    """One run of a model. ``remote`` is the model's folder on the device, below its workdir."""

    files: Mapping[str, Path]
    """The model's files by their names in ``remote``."""
    remote: str
    token: str
    """A word that no other run has: names the input and output files on the device."""
    scratch: Path
    """A folder on this host for files of this run."""
    inputs: Path | str
    """An .npz file, or RANDOM or ZEROS."""
    backend: str
    repeat: int
    warmup: int
    pre_compiled: Path | None = None
    function: str | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    wanted: frozenset[str] = frozenset()
    """Outputs that will be compared."""

    @property
    def input_file(self) -> str:
        return f"{self.remote}/in-{self.token}.npz"

    @property
    def output_file(self) -> str:
        return f"{self.remote}/out-{self.token}.npz"

    @property
    def cache_file(self) -> str:
        return f"{self.remote}/programs-{self.token}.bin"


@dataclass(frozen=True)
class Observed:
    """Outputs, the milliseconds of each timed run, and remarks for people."""

    outputs: Mapping[str, Array]
    runs_ms: tuple[float, ...]
    first_run_ms: float | None = None
    pre_compiled: str = ""
    """What became of the program cache: created, replaced or reused."""
    notes: tuple[str, ...] = ()
