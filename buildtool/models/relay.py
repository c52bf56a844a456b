"""Drives the relay-era rtvm (``apps/cpp_rtvm`` of TVM v0.12 to v0.19), the graph executor's.

Its exit code 0 proves nothing: a flag it can't parse, an input that is not in the file or an
output that it can't write are remarks at most, and other element types or orders compute garbage.
So all that is checked here, before and after the run.
"""

from __future__ import annotations

import random
import re
import struct
from pathlib import Path

from buildtool.core.errors import CheckFailed, UsageError, did_you_mean
from buildtool.core.files import atomic_write
from buildtool.models import npz
from buildtool.models.graph import Signature, Tensor, elements, read_signature
from buildtool.models.job import RANDOM, Job, Observed
from buildtool.models.npz import Array
from buildtool.models.remote import Remote, Said

FLAGS = frozenset({"--model", "--device", "--input", "--output"})
"""What its usage text names, whatever the tree."""
_TIMING = frozenset({"--profile", "--run-count", "--dry-run"})
_FILES = ("mod.so", "mod.json", "mod.params")
_SAVED = ("float32", "int8")
"""The only output types that it writes to a file."""
_STRUCT = {
    "bool": "?",
    **{"int8": "b", "int16": "h", "int32": "i", "int64": "q"},
    **{"uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q"},
    **{"float16": "e", "float32": "f", "float64": "d"},
}


def model_files(folder: Path) -> dict[str, Path]:
    """The three files of a model folder. Raises UsageError when one is missing."""
    missing = [name for name in _FILES if not (folder / name).is_file()]
    if missing:
        raise UsageError(
            f"the model folder lacks {', '.join(missing)}",
            where=str(folder),
            expected=", ".join(_FILES),
            fix="export all three: the library, the graph and the parameters",
        )
    return {name: folder / name for name in _FILES}


def run(remote: Remote, job: Job, flags: frozenset[str]) -> Observed:
    """Run once with our inputs, pull and check the outputs; then time runs, where it can.

    Raises UsageError for input that does not fit the model, CheckFailed for a failed run.
    """
    _refuse_flags(job)
    folder = job.files["mod.json"].parent
    signature = read_signature(folder)
    saved, notes = _saved(signature, job)
    if job.repeat and not flags >= _TIMING:
        raise UsageError("this rtvm can't time runs", found=" ".join(sorted(flags)), fix="use --repeat 0")
    inputs = job.scratch / "in.npz"
    npz.write(inputs, _inputs(signature, job))
    remote.push({f"{job.remote}/{name}": path for name, path in job.files.items()})
    remote.push({job.input_file: inputs})
    cache = _push_cache(remote, job)
    common = [f"--model={job.remote}", f"--device={job.backend}", *cache]
    words = [*common, f"--input={job.input_file}", f"--output={job.output_file}"]
    said = remote.rtvm(words, doing="running")
    outputs = _outputs(remote, job, said, words, saved)
    state = _pull_cache(remote, job, said, words)
    runs: tuple[float, ...] = ()
    if job.repeat:
        words = [*common, "--profile", f"--dry-run={job.warmup}", f"--run-count={job.repeat}"]
        runs = _times(remote.rtvm(words, doing=f"timing {job.repeat} runs"), words, job.repeat)
        notes.append("timed runs include copying inputs and outputs; their inputs are arbitrary bytes")
    return Observed(outputs, runs, None, state, tuple(notes))


def _refuse_flags(job: Job) -> None:
    for name, value in (("--function", job.function), ("--dim", job.dims)):
        if value:
            raise UsageError(f"the relay-era rtvm has no {name}", fix="leave it out")


def _saved(signature: Signature, job: Job) -> tuple[dict[str, Tensor], list[str]]:
    """The outputs that it will write, and remarks on the others."""
    by_name: dict[str, Tensor] = {}
    notes = []
    for tensor in signature.outputs:
        if tensor.name in by_name:
            notes.append(f"rtvm writes only the first of the outputs called {tensor.name}")
        by_name.setdefault(tensor.name, tensor)
    saved = {name: tensor for name, tensor in by_name.items() if tensor.dtype in _SAVED}
    for name in sorted(set(by_name) - set(saved)):
        text = f"rtvm can't write output {name}: it is {by_name[name].dtype}, not {' or '.join(_SAVED)}"
        if name in job.wanted:
            raise UsageError(text, fix="cast that output in the model, or leave it out of the expected file")
        notes.append(text)
    return saved, notes


def _inputs(signature: Signature, job: Job) -> dict[str, Array]:
    if not isinstance(job.inputs, Path):
        return {t.name: _made(t, job.inputs) for t in signature.inputs}
    arrays, where = npz.read(job.inputs), str(job.inputs)
    known = [tensor.name for tensor in signature.inputs]
    for name in arrays:
        if name not in known:
            near = did_you_mean(name, known)
            fix = f"did you mean {near!r}?" if near else f"the model's inputs: {', '.join(known)}"
            raise UsageError(f"the model has no input {name!r}", where=where, fix=fix)
    for tensor in signature.inputs:
        array = arrays.get(tensor.name)
        if array is None or not tensor.fits(array):
            found = "no such array" if array is None else str(array)
            raise UsageError(f"input {tensor.name!r}", where=where, expected=str(tensor), found=found)
    return arrays


def _made(tensor: Tensor, kind: str) -> Array:
    """Zeros, or the same random numbers on every machine: floats in [-1, 1), integers 0 to 9."""
    dtype = npz.parse_dtype(tensor.dtype)
    if dtype is None:
        raise UsageError(f"input {tensor.name!r} has a type that files can't hold", found=tensor.dtype)
    count = elements(tensor)
    if kind != RANDOM:
        return Array(dtype, tensor.shape, bytes(count * npz.item_size(dtype)))
    rng = random.Random(tensor.name)  # noqa: S311 - test data
    if dtype == "bool":
        values: list[float] = [rng.random() < 0.5 for _ in range(count)]
    elif dtype.startswith("float"):
        values = [rng.uniform(-1, 1) for _ in range(count)]
    else:
        values = [rng.randrange(10) for _ in range(count)]
    return Array(dtype, tensor.shape, struct.pack(f"<{count}{_STRUCT[dtype]}", *values))


def _outputs(
    remote: Remote, job: Job, said: Said, words: list[str], saved: dict[str, Tensor]
) -> dict[str, Array]:
    """The outputs, when the run really wrote every one of them as the graph says."""
    if said.code != 0:
        raise said.failure("the model did not run", ["rtvm", *words])
    if not saved:
        return {}
    local = job.scratch / "out.npz"
    if not remote.pull(job.output_file, local):
        raise said.failure("rtvm ended without an error but wrote no outputs", ["rtvm", *words])
    outputs = npz.read(local)
    if set(outputs) != set(saved):
        raise said.failure(f"rtvm wrote {sorted(outputs)}, not {sorted(saved)}", ["rtvm", *words])
    for name, tensor in saved.items():
        if not tensor.fits(outputs[name]):
            raise CheckFailed(f"output {name!r}", expected=str(tensor), found=str(outputs[name]))
    return outputs


def _push_cache(remote: Remote, job: Job) -> list[str]:
    if job.pre_compiled is None:
        return []
    if job.pre_compiled.is_file():
        remote.push({job.cache_file: job.pre_compiled})
    return [f"--pre-compiled={job.cache_file}"]


def _pull_cache(remote: Remote, job: Job, said: Said, words: list[str]) -> str:
    if job.pre_compiled is None:
        return ""
    if job.pre_compiled.is_file():
        return "reused"
    local = job.scratch / "programs.bin"
    if not remote.pull(job.cache_file, local):
        raise said.failure("rtvm wrote no pre-compiled programs: is it an OpenCL model?", ["rtvm", *words])
    atomic_write(job.pre_compiled, local.read_bytes())
    return "created"


def _times(said: Said, words: list[str], repeat: int) -> tuple[float, ...]:
    times = tuple(float(ms) for ms in re.findall(r"Exec Time:\s*([0-9.eE+-]+)", said.text))
    if said.code != 0 or len(times) != repeat:
        raise said.failure(f"rtvm told {len(times)} run times, not {repeat}", ["rtvm", *words])
    return times
