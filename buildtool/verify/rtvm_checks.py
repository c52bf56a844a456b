"""Checks that rtvm starts on the device and computes, with a model that needs no TVM compiler."""

from __future__ import annotations

import os
import random
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

from buildtool.artifacts import ArtifactSet
from buildtool.core.paths import data_dir
from buildtool.core.process import run
from buildtool.models import npz
from buildtool.models.graph import Call, Tensor, graph_json, params_bytes
from buildtool.models.npz import Array
from buildtool.models.remote import PROGRAM, Remote
from buildtool.models.runner import RELAX, detect, remote_folder, run_model
from buildtool.toolchains.model import Toolchain
from buildtool.verify import smoke
from buildtool.verify.bench import Bench
from buildtool.verify.check import Check, Context, failed, passed, verdict
from buildtool.verify.model import DEVICE, FFI, TOOLCHAIN, CantObserve, Outcome

RUN_SECONDS = 120.0
_SHAPE = (2, 3)
_WORDS = ("-std=c11", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")


@dataclass(frozen=True)
class SmokeModel:
    """A model folder on this host, an input for it and the outputs that Python computes for that."""

    folder: Path
    inputs: Path
    expected: dict[str, Array]


def make_model(artifacts: ArtifactSet, toolchain: Toolchain, folder: Path) -> SmokeModel:
    """Compile the hand-made model of the build's generation into ``folder``.

    Raises CantObserve when the tree's headers or the library to link to are not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.SystemRandom()
    x, y, w = (_eighths(rng) for _ in range(3))
    inputs = folder / "in.npz"
    npz.write(inputs, {"x": npz.floats(x, _SHAPE), "y": npz.floats(y, _SHAPE)})
    if artifacts.tvm_ffi:
        _relax_model(artifacts, toolchain, folder)
        expected = {"sum": _each(x, y, "+"), "product": _each(x, y, "*")}
    else:
        _relay_model(artifacts, toolchain, folder, npz.floats(w, _SHAPE))
        total = [a + b for a, b in zip(x, y, strict=True)]
        expected = {"sum": _each(x, y, "+"), "scaled": _each(total, w, "*")}
    return SmokeModel(folder, inputs, expected)


def _eighths(rng: random.Random) -> list[float]:
    """Eighths of small integers: sums and products of them are exact in float32."""
    return [rng.randrange(-800, 800) / 8 for _ in range(_SHAPE[0] * _SHAPE[1])]


def _each(left: list[float], right: list[float], sign: str) -> Array:
    pairs = zip(left, right, strict=True)
    return npz.floats([a + b if sign == "+" else a * b for a, b in pairs], _SHAPE)


def _relax_model(artifacts: ArtifactSet, toolchain: Toolchain, folder: Path) -> None:
    source = data_dir("native") / PROGRAM / "smoke"
    headers = smoke.header_flags(artifacts)
    if any(flag.startswith("-DSMOKE_TENSOR") for flag in headers):
        raise CantObserve("this tree reads an older format of VM executables than the smoke model's")
    if artifacts.find(FFI) is None:
        raise CantObserve(f"{FFI} is not shipped (a static build): nothing to link the model to")
    link = [f"-L{artifacts.root}", "-Wl,--no-as-needed", "-ltvm_ffi"]
    _compile(toolchain, [*_WORDS, *headers, source / "smoke_model.c", *link], folder / "mod.so")
    shutil.copy(source / "model.json", folder / "model.json")


def _relay_model(artifacts: ArtifactSet, toolchain: Toolchain, folder: Path, w: Array) -> None:
    """sum = x + y, scaled = sum * w, where w is a parameter."""
    source = data_dir("native") / "smoke" / "graph_relay.c"
    _compile(toolchain, [*_WORDS, *smoke.header_flags(artifacts), source], folder / "mod.so")
    inputs = [Tensor(name, "float32", _SHAPE) for name in ("x", "y")]
    calls = [
        Call("sum", "buildtool_graph_add", ("x", "y"), "float32", _SHAPE),
        Call("scaled", "buildtool_graph_multiply", ("sum", "w"), "float32", _SHAPE),
    ]
    (folder / "mod.json").write_text(graph_json(inputs, {"w": w}, calls, ["sum", "scaled"]), "utf-8")
    (folder / "mod.params").write_bytes(params_bytes({"w": w}))


def _compile(toolchain: Toolchain, words: list[str | Path], output: Path) -> None:
    run(
        [toolchain.cc, *toolchain.cc_flags, *words, *smoke.link_flags(toolchain), "-o", output],
        env={**os.environ, **dict(toolchain.env)},
        timeout=300,
        what="compiling rtvm's smoke model",
    )


class _RtvmCheck(Check):
    each_file = False

    def remote(self, context: Context) -> Remote:
        """The device with the runtime on it. Raises CantObserve when the build has no rtvm."""
        if context.artifacts.find(PROGRAM) is None:
            raise CantObserve(
                "the build has no rtvm", fix="add rtvm to the profile's targets to have models run natively"
            )
        context.bench.push_artifacts()
        return Remote(context.device, context.artifacts, timeout=RUN_SECONDS)

    def model(self, context: Context) -> SmokeModel:
        """The smoke model, compiled and sent; removed from the device when verify ends."""
        bench: Bench = context.bench
        made = make_model(context.artifacts, context.tools, bench.folder() / "rtvm-model")
        below = remote_folder(made.folder)
        bench.push_scratch({f"{below}/{p.name}": p for p in made.folder.iterdir() if p != made.inputs})
        return made


class RtvmStarts(_RtvmCheck):
    id = "rtvm-starts"
    title = "rtvm is loaded and tells its usage"
    needs = frozenset({DEVICE})

    def run(self, context: Context) -> Outcome:
        remote = self.remote(context)
        generation, flags = detect(remote)
        version = ""
        if generation == RELAX:
            said = remote.rtvm(["--version"], doing="asking rtvm for its version")
            version = said.text.strip()
            if said.code != 0 or not version.startswith("rtvm "):
                return failed(f"--version: exit code {said.code}, {version!r}", "rtvm and a version")
        return passed(
            ", ".join(part for part in (version, f"{len(flags)} flags in its usage") if part),
            f"its usage, of either generation (here {generation})",
            evidence=" ".join(sorted(flags)),
        )


class RtvmMeta(_RtvmCheck):
    id = "rtvm-meta"
    title = "rtvm loads a hand-made model and tells what it takes and gives"
    needs = frozenset({DEVICE, TOOLCHAIN})

    def run(self, context: Context) -> Outcome:
        remote = self.remote(context)
        generation, _ = detect(remote)
        made = self.model(context)
        words = [f"--model={remote_folder(made.folder)}", "--device=cpu", "--dump-meta"]
        said = remote.rtvm(words, doing="asking rtvm for the model's metadata")
        text = said.text
        missing = [name for name in ("x", "y", *made.expected) if not _told(text, name, generation)]
        good = said.code == 0 and not missing
        last = [line for line in text.splitlines() if line.strip()][-3:]
        return verdict(
            good,
            "2 inputs, 2 outputs" if good else f"exit code {said.code}: {' | '.join(last)}",
            f"x, y, {', '.join(made.expected)}: float32[2, 3]",
            evidence=f"not told: {', '.join(missing)}" if missing else f"ran in {said.seconds:.2f} s",
        )


def _told(text: str, name: str, generation: str) -> bool:
    """Whether rtvm's words have this array with its type and shape."""
    words = text.split()
    if generation == RELAX:
        pattern = [name, "float32[2,", "3]"]
        return any(words[i : i + 3] == pattern for i in range(len(words)))
    # The relay-era one logs three lines an array, each after a time stamp.
    lines = [line.strip() for line in text.splitlines()]
    return any(
        lines[i].endswith((f"Input:{name}", f"Output:{name}"))
        and lines[i + 1].endswith("DType:float32")
        and lines[i + 2].endswith("Shape:[2, 3]")
        for i in range(len(lines) - 2)
    )


class RtvmModel(_RtvmCheck):
    id = "rtvm-model"
    title = "rtvm runs the hand-made model and its outputs are the ones computed here"
    needs = frozenset({DEVICE, TOOLCHAIN})

    def run(self, context: Context) -> Outcome:
        self.remote(context)
        made = self.model(context)
        result = run_model(
            context.device, context.artifacts, made.folder, inputs=made.inputs, timeout=RUN_SECONDS
        )
        for name, array in made.expected.items():
            found = result.outputs.get(name)
            if found != array:
                return failed(_numbers(found), f"{name} = {_numbers(array)}", evidence=f"output {name}")
        return passed(
            f"{', '.join(made.expected)} equal to the last bit",
            "12 values of float32",
            evidence=f"fresh random inputs, {result.generation} rtvm, {result.seconds:.2f} s",
        )


def _numbers(array: Array | None) -> str:
    if array is None:
        return "no such output"
    if array.dtype != "float32":
        return str(array)
    return " ".join(f"{v:g}" for v in struct.unpack(f"<{len(array.data) // 4}f", array.data))


CHECKS: tuple[Check, ...] = (RtvmStarts(), RtvmMeta(), RtvmModel())
