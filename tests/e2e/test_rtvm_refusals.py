"""Bad input to rtvm, under sanitizers: the exit code, one clear line on stderr, no crash, nothing written."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.standins.npz import floats, npy, npz
from tests.standins.rtvm import Rtvm

if TYPE_CHECKING:
    from buildtool.build.model import BuildResult

pytestmark = [pytest.mark.e2e, pytest.mark.tvm]

X, Y = (1.0, -2.0, 3.0, 0.5, 0.0, 7.25), (2.0, 4.0, -1.0, 0.5, 9.0, 1.0)


def array(*values: float, shape: tuple[int, ...] = (2, 3), descr: str = "'<f4'") -> bytes:
    return npy(floats(*values), shape, descr)


@dataclass
class Bad:
    """``words`` with {dir}, {smoke} filled in; ``files`` are made in {dir} first."""

    words: str
    message: str
    code: int = 2
    files: dict[str, bytes] | None = None


GOOD_INPUT = npz({"x": array(*X), "y": array(*Y)})


def described(**changes: Any) -> dict[str, bytes]:
    """A copy of the smoke model's description with ``changes`` in main."""
    tensor = {"dtype": "float32", "shape": [2, 3]}
    main = {
        "inputs": [{"name": "x", **tensor}, {"name": "y", **tensor}],
        "outputs": [{"name": "sum", **tensor}, {"name": "product", **tensor}],
        **changes,
    }
    text = json.dumps({"format": "rtvm-model", "version": 1, "functions": {"main": main}})
    return {"model.json": text.encode()}


def pair(**changes: object) -> list[dict[str, object]]:
    tensor = {"dtype": "float32", "shape": [2, 3]}
    return [{"name": "x", **tensor, **changes}, {"name": "y", **tensor}]


def given(**members: bytes) -> dict[str, bytes]:
    return {"in.npz": npz(members)}


RUN = "--model={smoke} --input={dir}/in.npz"
LOCAL = "--model={dir} --input=zeros"

BAD = {
    "no words": Bad("", "--model is missing"),
    "unknown flag": Bad("--modle=x", "unknown flag '--modle' (did you mean '--model'?)"),
    "old spelling": Bad("--model={smoke} --profile-runs=3", "unknown flag '--profile-runs'"),
    "bare word": Bad("{smoke}", "expected a flag"),
    "single dash": Bad("-m {smoke}", "unexpected word '-m'"),
    "value missing": Bad("--model", "--model: its value is missing"),
    "value is a flag": Bad("--model --json", "--model: its value is missing"),
    "value empty": Bad("--model=", "--model: its value is empty"),
    "flag twice": Bad("--model={smoke} --model={smoke}", "--model: given twice"),
    "switch with a value": Bad("--model={smoke} --json=yes", "--json takes no value, found 'yes'"),
    "no number": Bad("--model={smoke} --input=random --seed=ten", "found 'ten'"),
    "zero runs": Bad(
        "--model={smoke} --input=zeros --profile=0", "--profile: expected a whole number from 1"
    ),
    "number too large": Bad(
        "--model={smoke} --profile=99999999999999999999", "--profile: expected a whole number"
    ),
    "warm-up of nothing": Bad("--model={smoke} --warmup=3", "--warmup has no effect without --profile"),
    "seed of nothing": Bad("--model={smoke} --input=zeros --seed=3", "--seed has no effect"),
    "unknown device": Bad("--model={smoke} --device=opencll", "(did you mean 'opencl'?)"),
    "device number": Bad("--model={smoke} --device=cpu:x", "--device cpu: expected a whole number"),
    "device not built in": Bad("--model={smoke} --device=cuda --input=zeros", "is built without cuda"),
    "dim without size": Bad("--model={smoke} --dim=n", "--dim: expected NAME=SIZE, found 'n'"),
    "no such model": Bad("--model={dir}/none --input=zeros", "{dir}/none: no such file or folder"),
    "folder without library": Bad(
        LOCAL, "expected the model library mod.so in it, found none", files={"x": b""}
    ),
    "library is text": Bad(LOCAL, "not a shared library: expected an ELF file", files={"mod.so": b"x" * 100}),
    "library is empty": Bad(LOCAL, "found only 0 bytes", files={"mod.so": b""}),
    "no such function": Bad("--model={smoke} --function=mian", "no function 'mian' (did you mean 'main'?)"),
    "no input": Bad("--model={smoke}", "--input is missing: function 'main': expected 'x' float32[2, 3]"),
    "no such input file": Bad("--model={smoke} --input={dir}/in.npz", "can't be opened: No such file"),
    "input is a folder": Bad("--model={smoke} --input={dir}", "expected a file, found a folder"),
    "input is no npz": Bad(RUN, "not an .npz file", files={"in.npz": b"no archive, but longer than its end"}),
    "input missing": Bad(
        RUN, "input 'y' is missing: expected 'x' float32[2, 3], 'y'", files=given(x=array(*X))
    ),
    "input unknown": Bad(
        RUN, "unknown input 'xx' (did you mean 'x'?)", files=given(xx=array(*X), x=array(*X), y=array(*Y))
    ),
    "wrong shape": Bad(
        RUN,
        "input 'x': expected float32[2, 3], found float32[3, 2]",
        files=given(x=array(*X, shape=(3, 2)), y=array(*Y)),
    ),
    "wrong rank": Bad(RUN, "found float32[6]", files=given(x=array(*X, shape=(6,)), y=array(*Y))),
    "wrong type": Bad(RUN, "found int32[2, 3]", files=given(x=array(*X, descr="'<i4'"), y=array(*Y))),
    "shape unknown for random": Bad(
        "--model={smoke}/mod.so --input=random", "expected model.json beside mod.so"
    ),
    "output folder missing": Bad(
        RUN + " --output={dir}/none/out.npz", "no folder {dir}/none", files={"in.npz": GOOD_INPUT}
    ),
    "output is a folder": Bad(
        RUN + " --output={dir}", "expected a file name, found a folder", files={"in.npz": GOOD_INPUT}
    ),
    "cache for a CPU model": Bad(
        "--model={smoke} --input=zeros --pre-compiled={dir}/c", "--pre-compiled: expected --device=opencl"
    ),
}

BAD_DESCRIPTIONS = {
    "not JSON": Bad(LOCAL, "model.json, line 1: not valid JSON", files={"model.json": b"{'a': 1}"}),
    "cut off": Bad(LOCAL, "found the end of the file", files={"model.json": b'{"format": "rtvm-model",'}),
    "nested too deep": Bad(LOCAL, "at most 64 levels", files={"model.json": b"[" * 100000}),
    "other format": Bad(LOCAL, "format: expected 'rtvm-model'", files={"model.json": b'{"format": "onnx"}'}),
    "newer version": Bad(
        LOCAL, "version: expected 1", files={"model.json": b'{"format": "rtvm-model", "version": 2}'}
    ),
    "key misspelt": Bad(LOCAL, "unknown key 'input' (did you mean 'inputs'?)", files=described(input=[])),
    "unknown type": Bad(
        LOCAL,
        "unsupported type 'flaot32' (did you mean 'float32'?)",
        files=described(inputs=pair(dtype="flaot32")),
    ),
    "negative size": Bad(
        LOCAL, "inputs[0].shape[1]: expected a size", files=described(inputs=pair(shape=[2, -3]))
    ),
    "name twice": Bad(LOCAL, "different names, found 'y' twice", files=described(inputs=pair(name="y"))),
    "input count": Bad(
        LOCAL, "expected 2 ('x', 'y' in the library), found 1", files=described(inputs=pair()[:1])
    ),
    "symbol without value": Bad(
        LOCAL, "size 'n' has no value; give --dim=n=SIZE", files=described(inputs=pair(shape=["n", 3]))
    ),
    "parameter and input": Bad(
        "--model={dir} --input={dir}/in.npz",
        "input 'x' is a parameter from params.npz already",
        files={**described(), "params.npz": npz({"x": array(*X)}), "in.npz": GOOD_INPUT},
    ),
    "parameter of wrong shape": Bad(
        LOCAL,
        "params.npz: input 'x': expected float32[2, 3], found float32[1]",
        files={**described(), "params.npz": npz({"x": array(1.0, shape=(1,))})},
    ),
    "kernel refuses the type": Bad(
        "--model={dir} --input={dir}/in.npz",
        "smoke kernel: expected three float32[2, 3] tensors",
        code=1,
        files={**described(inputs=pair(shape=[6])), **given(x=array(*X, shape=(6,)), y=array(*Y))},
    ),
    "output of another shape": Bad(
        LOCAL,
        "output 'x': expected float32[3, 3], found float32[2, 3]",
        code=1,
        files=described(outputs=pair(shape=[3, 3])),
    ),
    "fewer outputs": Bad(
        LOCAL, "outputs: expected 1 as in model.json, found 2", code=1, files=described(outputs=pair()[:1])
    ),
    "size beyond the memory": Bad(
        LOCAL, "can't exist: its size overflows", files=described(inputs=pair(shape=[1 << 40, 1 << 40]))
    ),
}


def check_refused(rtvm: Rtvm, bad: Bad, folder: Path) -> None:
    for name, content in (bad.files or {}).items():
        (folder / name).write_bytes(content)
    before = sorted(p.name for p in folder.iterdir())
    fill = {"dir": str(folder), "smoke": str(rtvm.smoke)}
    done = rtvm(*(word.format(**fill) for word in bad.words.split()))
    assert done.returncode == bad.code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("rtvm: error: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert bad.message.format(**fill) in done.stderr
    assert sorted(p.name for p in folder.iterdir()) == before


@pytest.mark.parametrize("case", BAD)
def test_bad_input(rtvm: Rtvm, tmp_path: Path, case: str) -> None:
    check_refused(rtvm, BAD[case], tmp_path)


@pytest.mark.parametrize("case", BAD_DESCRIPTIONS)
def test_bad_model_folder(rtvm: Rtvm, tmp_path: Path, case: str) -> None:
    shutil.copy(rtvm.smoke / "mod.so", tmp_path)
    check_refused(rtvm, BAD_DESCRIPTIONS[case], tmp_path)


def test_library_for_another_machine(rtvm: Rtvm, aarch64_rtvm: Rtvm) -> None:
    for program, model, own, other in (
        (rtvm, aarch64_rtvm.smoke, "x86_64", "aarch64"),
        (aarch64_rtvm, rtvm.smoke, "aarch64", "x86_64"),
    ):
        done = program("--model", model, "--input=zeros")
        assert done.returncode == 2
        assert f"built for another machine: expected {own}, found {other}" in done.stderr


def test_library_that_is_no_vm_executable(rtvm: Rtvm, host_runtime_build: BuildResult) -> None:
    library = next(p for p in host_runtime_build.outputs if p.name == "libtvm_runtime.so")
    done = rtvm("--model", library, "--input=zeros")
    assert done.returncode == 2
    assert "not a relax VM executable" in done.stderr


def test_damaged_executable_inside_the_library(rtvm: Rtvm, tmp_path: Path) -> None:
    content = (rtvm.smoke / "mod.so").read_bytes()
    for change, message in (
        ((b"\x1d\x15\x14\x42\x2f\xde\x25\xd2", b"\0" * 8), "Invalid VM file format in the header section"),
        ((b"relax.VMExecutable", b"relax.VMExecutablE"), "can't be loaded"),
        ((b"smoke_multiply", b"smoke_multiplo"), "Cannot find"),
    ):
        assert change[0] in content
        (tmp_path / "mod.so").write_bytes(content.replace(*change))
        (tmp_path / "in.npz").write_bytes(GOOD_INPUT)
        done = rtvm("--model", tmp_path / "mod.so", "--input", tmp_path / "in.npz")
        assert done.returncode in (1, 2)
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
