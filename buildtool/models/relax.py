"""Drives buildtool's own rtvm (``native/rtvm``), which runs relax VM executables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from buildtool.core.errors import UsageError
from buildtool.core.files import atomic_write
from buildtool.models import npz
from buildtool.models.job import Job, Observed
from buildtool.models.remote import Remote, Said

FLAGS = frozenset({"--model", "--function", "--json"})
"""What its usage text names and the relay-era program's does not."""
_FILES = ("mod.so", "model.json", "params.npz")
_BAD_INPUT = 2


def model_files(folder: Path) -> dict[str, Path]:
    """The files of a model folder that it reads, those that are there."""
    return {name: folder / name for name in _FILES if (folder / name).is_file()}


def run(remote: Remote, job: Job) -> Observed:
    """One call of rtvm: run, time, write the outputs; they are pulled and read.

    Raises UsageError for input that does not fit the model, CheckFailed for a failed run.
    """
    # An optional file of an earlier run that the folder here no longer has would be read too.
    remote.device.remove([f"{job.remote}/{name}" for name in _FILES if name not in job.files])
    remote.push({f"{job.remote}/{name}": path for name, path in job.files.items()})
    said = remote.rtvm(_words(remote, job), doing="running")
    report = _report(said)
    if said.code != 0 or report is None:
        raise _refusal(said, job)
    local = job.scratch / "out.npz"
    if not remote.pull(job.output_file, local):
        raise said.failure("rtvm ended without an error but wrote no outputs", ["rtvm"])
    outputs = npz.read(local)
    told = {entry["name"] for entry in report["outputs"]}
    if told != set(outputs):
        raise said.failure(f"rtvm told of outputs {sorted(told)} and wrote {sorted(outputs)}", ["rtvm"])
    cache = str(report.get("pre_compiled", {}).get("state", ""))
    if job.pre_compiled is not None and cache != "reused":
        pulled = job.scratch / "programs.bin"
        if not remote.pull(job.cache_file, pulled):
            raise said.failure(f"rtvm told {cache!r} of a program cache that is not there", ["rtvm"])
        atomic_write(job.pre_compiled, pulled.read_bytes())
    return Observed(
        outputs,
        tuple(map(float, report.get("profile", {}).get("runs_ms", ()))),
        float(report["first_run_ms"]),
        cache,
    )


def _words(remote: Remote, job: Job) -> list[str]:
    words = [f"--model={job.remote}", f"--device={job.backend}", f"--output={job.output_file}", "--json"]
    if isinstance(job.inputs, Path):
        remote.push({job.input_file: job.inputs})
        words.append(f"--input={job.input_file}")
    else:
        words.append(f"--input={job.inputs}")
    if job.repeat:
        words += [f"--profile={job.repeat}", f"--warmup={job.warmup}"]
    if job.function is not None:
        words.append(f"--function={job.function}")
    words += [f"--dim={name}={size}" for name, size in job.dims.items()]
    if job.pre_compiled is not None:
        if job.pre_compiled.is_file():
            remote.push({job.cache_file: job.pre_compiled})
        words.append(f"--pre-compiled={job.cache_file}")
    return words


def _report(said: Said) -> dict[str, Any] | None:
    """Its JSON line; the runtime's own warnings may stand around it."""
    for line in reversed(said.text.splitlines()):
        if line.startswith("{"):
            try:
                data = json.loads(line)
            except ValueError:
                continue
            if isinstance(data, dict) and "outputs" in data:
                return data
    return None


def _refusal(said: Said, job: Job) -> Exception:
    prefix = "rtvm: error: "
    reason = next((line for line in said.text.splitlines() if line.startswith(prefix)), None)
    if said.code == _BAD_INPUT and reason is not None:
        text = reason.removeprefix(prefix)
        # Its own names on the device say nothing to a person here.
        if isinstance(job.inputs, Path):
            text = text.replace(job.input_file, str(job.inputs))
        if job.pre_compiled is not None:
            text = text.replace(job.cache_file, str(job.pre_compiled))
        return UsageError(text.replace(job.remote, str(next(iter(job.files.values())).parent)))
    return said.failure("the model did not run", ["rtvm", f"--model={job.remote}"])
