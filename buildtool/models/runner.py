"""Runs a compiled model on devices with the rtvm of its build, whichever generation that is."""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event

from buildtool.artifacts import ArtifactSet, read_elf
from buildtool.core.errors import BuildtoolError, UsageError
from buildtool.devices.base import Device
from buildtool.models import npz, relax, relay
from buildtool.models.compare import Comparison, compare, need_numpy
from buildtool.models.job import RANDOM, ZEROS, Job, Observed
from buildtool.models.npz import Array
from buildtool.models.package import is_package, unpack
from buildtool.models.remote import Remote, Stopped

RELAX, RELAY = "relax", "relay"
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Latency:
    """Wall-clock milliseconds of each timed run, in order."""

    runs_ms: tuple[float, ...]

    @property
    def min_ms(self) -> float:
        return min(self.runs_ms)

    @property
    def median_ms(self) -> float:
        return statistics.median(self.runs_ms)

    @property
    def p95_ms(self) -> float:
        """The smallest time that at least 95 % of the runs do not exceed."""
        return sorted(self.runs_ms)[math.ceil(0.95 * len(self.runs_ms)) - 1]


@dataclass(frozen=True)
class RunResult:
    """One model on one device.

    ``comparisons`` is empty when nothing was expected. ``latency`` is None when no
    runs were timed. ``first_run_ms`` is None where rtvm does not tell it.
    """

    device: str
    generation: str
    backend: str
    outputs: Mapping[str, Array]
    comparisons: tuple[Comparison, ...]
    latency: Latency | None
    first_run_ms: float | None
    pushed_files: int
    pushed_bytes: int
    pre_compiled: str
    notes: tuple[str, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """No compared output differs by more than was allowed."""
        return all(comparison.ok for comparison in self.comparisons)

    def as_dict(self) -> dict[str, object]:
        """The result for ``--json``; outputs by type and shape only."""
        times = self.latency
        return {
            "device": self.device,
            "ok": self.ok,
            "generation": self.generation,
            "backend": self.backend,
            "outputs": {n: {"dtype": a.dtype, "shape": list(a.shape)} for n, a in self.outputs.items()},
            "comparisons": [asdict(comparison) for comparison in self.comparisons],
            "latency": times
            and {
                "runs": len(times.runs_ms),
                "min_ms": times.min_ms,
                "median_ms": times.median_ms,
                "p95_ms": times.p95_ms,
                "runs_ms": list(times.runs_ms),
            },
            "first_run_ms": self.first_run_ms,
            "pushed_files": self.pushed_files,
            "pushed_bytes": self.pushed_bytes,
            "pre_compiled": self.pre_compiled or None,
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
        }


def run_model(
    device: Device,
    artifacts: ArtifactSet,
    model: Path,
    *,
    inputs: Path | str = RANDOM,
    expect: Path | None = None,
    rtol: float = 1e-4,
    atol: float = 1e-6,
    backend: str = "cpu",
    repeat: int = 0,
    warmup: int = 3,
    pre_compiled: Path | None = None,
    function: str | None = None,
    dims: Mapping[str, int] | None = None,
    timeout: float = 600.0,
    on_progress: Tell = lambda text: None,
    stop: Event | None = None,
) -> RunResult:
    """Push what is missing, run ``model`` with the build's rtvm, pull the outputs and compare them.

    ``model`` is a model folder, a tar package of one, or a ``.so`` file alone (relax era).
    ``inputs`` is an .npz file, ``random`` or ``zeros``. ``expect`` is an .npz of outputs; the
    allowed difference of an element is ``atol + rtol * |expected|``. ``repeat`` runs are timed
    after ``warmup`` others. ``timeout`` (seconds) is for each start of rtvm. Setting ``stop`` from
    another thread ends the program on the device and raises :class:`Stopped`.

    Raises UsageError for bad input (exit code 2) and CheckFailed for a run that failed; a
    mismatch is in the result, not raised.
    """
    begun = time.monotonic()
    expected = _expected(expect)
    _check_inputs(inputs)
    remote = Remote(device, artifacts, timeout=timeout, on_progress=on_progress, stop=stop)
    with tempfile.TemporaryDirectory(prefix="buildtool-run-") as folder:
        scratch = Path(folder)
        local = unpack(model, scratch / "model") if is_package(model) else model
        _check_library(local, artifacts)
        remote.push_runtime()
        generation, flags = detect(remote)
        job = Job(
            files=_files(local, generation),
            remote=remote_folder(model),
            token=uuid.uuid4().hex[:8],
            scratch=scratch,
            inputs=inputs,
            backend=backend,
            repeat=repeat,
            warmup=warmup,
            pre_compiled=pre_compiled,
            function=function,
            dims=dims or {},
            wanted=frozenset(expected),
        )
        try:
            seen = relax.run(remote, job) if generation == RELAX else relay.run(remote, job, flags)
        finally:
            # A device that went away must not hide the error that told so.
            with contextlib.suppress(BuildtoolError):
                device.remove([job.input_file, job.output_file, job.cache_file])
    comparisons = compare(seen.outputs, expected, rtol=rtol, atol=atol)
    return RunResult(
        device=device.name,
        generation=generation,
        backend=backend,
        outputs=seen.outputs,
        comparisons=comparisons,
        latency=Latency(seen.runs_ms) if seen.runs_ms else None,
        first_run_ms=seen.first_run_ms,
        pushed_files=remote.files,
        pushed_bytes=remote.bytes,
        pre_compiled=seen.pre_compiled,
        notes=_notes(seen, comparisons),
        seconds=time.monotonic() - begun,
    )


def _notes(seen: Observed, comparisons: tuple[Comparison, ...]) -> tuple[str, ...]:
    rest = sorted(set(seen.outputs) - {comparison.name for comparison in comparisons})
    if not comparisons or not rest:
        return seen.notes
    return (*seen.notes, f"not compared, because not in the expected file: {', '.join(rest)}")


def detect(remote: Remote) -> tuple[str, frozenset[str]]:
    """Which generation the pushed rtvm is of, and the flags that its own usage text names."""
    said = remote.rtvm(["--help"], doing="asking rtvm for its usage")
    flags = frozenset(re.findall(r"--[a-z][a-z-]+", said.text))
    if flags >= relax.FLAGS:
        return RELAX, flags
    if flags >= relay.FLAGS:
        return RELAY, flags
    raise said.failure("rtvm does not start on this device, or tells no usage", ["rtvm", "--help"])


def run_everywhere(
    devices: Mapping[str, Device], run: Callable[[str, Device, Event], RunResult]
) -> dict[str, RunResult | BuildtoolError]:
    """Call ``run(label, device, stop)`` for all devices at once; one device's error costs only its row.

    On Ctrl-C or any other exception in this thread, what runs on the devices is ended first.
    """
    stop = Event()

    def one(label: str, device: Device) -> RunResult | BuildtoolError:
        try:
            return run(label, device, stop)
        except BuildtoolError as exc:
            return exc
        except OSError as exc:
            return BuildtoolError(exc.strerror or str(exc), where=str(exc.filename or label))

    if len(devices) == 1:
        # In this thread, so that the program ends even when this process is killed outright.
        return {label: one(label, device) for label, device in devices.items()}
    with ThreadPoolExecutor(max_workers=len(devices)) as pool:
        try:
            futures = {label: pool.submit(one, label, device) for label, device in devices.items()}
            return {label: future.result() for label, future in futures.items()}
        except BaseException:
            stop.set()
            raise


def _expected(path: Path | None) -> dict[str, Array]:
    if path is None:
        return {}
    need_numpy()  # before minutes on a device, not after
    arrays = npz.read(path)
    if not arrays:
        raise UsageError("the expected file holds no arrays", where=str(path))
    return arrays


def _check_inputs(inputs: Path | str) -> None:
    if isinstance(inputs, Path):
        if not inputs.is_file():
            raise UsageError("no such input file", where=str(inputs), fix=f"or use {RANDOM} or {ZEROS}")
    elif inputs not in (RANDOM, ZEROS):
        raise UsageError(f"inputs are {RANDOM}, {ZEROS} or a file", found=inputs)


def _check_library(model: Path, artifacts: ArtifactSet) -> None:
    """The library is there and is for the machine of the build; rtvm itself says only "No such file"."""
    library = model if model.is_file() else model / "mod.so"
    if not library.is_file():
        raise UsageError(
            "no model here" if model.exists() else "no such model",
            where=str(model),
            expected="a folder with mod.so, a .tar of one, or a .so file",
        )
    try:
        elf = read_elf(library)
    except BuildtoolError as exc:
        raise UsageError(f"the model's library: {exc.what}", where=str(library)) from exc
    if elf.machine != artifacts.abi.elf_machine:
        raise UsageError(
            "the model is compiled for another machine than this build",
            where=str(library),
            expected=f"{artifacts.abi.value} ({artifacts.abi.elf_machine})",
            found=elf.machine,
            fix=f"compile and link it for {artifacts.triple}",
        )


def _files(model: Path, generation: str) -> dict[str, Path]:
    if model.is_dir():
        return relax.model_files(model) if generation == RELAX else relay.model_files(model)
    if generation == RELAX:
        return {"mod.so": model}
    raise UsageError(
        "the relay-era rtvm needs a model folder, not a library alone",
        where=str(model),
        expected="a folder with mod.so, mod.json and mod.params",
    )


def remote_folder(model: Path) -> str:
    """The folder of this model on the device, below its workdir: the same in each run."""
    path = model.resolve()
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", path.stem).lstrip(".-") or "model"
    return f"models/{plain}-{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"


__all__ = [
    "RELAX",
    "RELAY",
    "Latency",
    "RunResult",
    "Stopped",
    "detect",
    "remote_folder",
    "run_everywhere",
    "run_model",
]
