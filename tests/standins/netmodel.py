"""Small networks with numpy weights: compiled by TVM's wheel, and what numpy says of them.

Runs as a program under the interpreter that has apache-tvm and numpy::

    python netmodel.py build conv FOLDER --target llvm
    python netmodel.py compare out.npz expected.npz --rtol 1e-4

``build`` writes a model folder for rtvm (mod.so, model.json, params.npz where the net has
parameters) and beside it in.npz and expected.npz, the inputs and numpy's outputs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, Any]
Json = dict[str, Any]


@dataclass
class Net:
    """A relax module with one call of ``main`` and its right answer."""

    module: Any
    inputs: Arrays
    expected: Arrays
    signature: Json
    params: Arrays = field(default_factory=dict)


def tensor(name: str, array: Any, *dims: int | str) -> Json:
    """model.json's entry for an array, with ``dims`` in place of its sizes when given."""
    return {"name": name, "dtype": str(array.dtype), "shape": list(dims or array.shape)}


def conv2d(data: Any, weight: Any, pad: int) -> Any:
    """A stride-1 NCHW convolution in float64."""
    data = np.pad(data.astype("float64"), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    kernel = weight.shape[2]
    rows, columns = data.shape[2] - kernel + 1, data.shape[3] - kernel + 1
    out = np.zeros((data.shape[0], weight.shape[0], rows, columns))
    for y in range(kernel):
        for x in range(kernel):
            window = data[:, :, y : y + rows, x : x + columns]
            out += np.einsum("nchw,kc->nkhw", window, weight[:, :, y, x].astype("float64"))
    return out


def conv(rng: Any, *, bound: bool = True) -> Net:
    """Two convolutions, a pooling and a dense layer with softmax; ``bound`` puts the weights into mod.so."""
    from tvm import relax

    weights = {
        "w1": (rng.standard_normal((8, 3, 3, 3)) * 0.3).astype("float32"),
        "b1": rng.standard_normal((1, 8, 1, 1)).astype("float32"),
        "w2": (rng.standard_normal((16, 8, 3, 3)) * 0.2).astype("float32"),
        "w3": (rng.standard_normal((16, 10)) * 0.5).astype("float32"),
    }
    data = rng.standard_normal((1, 3, 16, 16)).astype("float32")

    builder = relax.BlockBuilder()
    variable = relax.Var("data", relax.TensorStructInfo(data.shape, "float32"))
    free = {k: relax.Var(k, relax.TensorStructInfo(v.shape, "float32")) for k, v in weights.items()}
    w = {k: relax.const(v) for k, v in weights.items()} if bound else free
    arguments = [variable] if bound else [variable, *free.values()]
    with builder.function("main", arguments):
        with builder.dataflow():
            first = builder.emit(relax.op.nn.conv2d(variable, w["w1"], padding=1))
            first = builder.emit(relax.op.nn.relu(relax.op.add(first, w["b1"])))
            first = builder.emit(relax.op.nn.max_pool2d(first, pool_size=(2, 2), strides=(2, 2)))
            second = builder.emit(relax.op.nn.relu(relax.op.nn.conv2d(first, w["w2"])))
            flat = builder.emit(relax.op.mean(second, axis=[2, 3]))
            scores = builder.emit(relax.op.matmul(flat, w["w3"]))
            result = builder.emit_output(relax.op.nn.softmax(scores))
        builder.emit_func_output(result)

    hidden = np.maximum(conv2d(data, weights["w1"], 1) + weights["b1"], 0)
    hidden = hidden.reshape(1, 8, 8, 2, 8, 2).max(axis=(3, 5))
    hidden = np.maximum(conv2d(hidden, weights["w2"], 0), 0).mean(axis=(2, 3))
    scores_np = hidden @ weights["w3"].astype("float64")
    softmax = np.exp(scores_np - scores_np.max())
    probability = (softmax / softmax.sum()).astype("float32")
    signature = {
        "inputs": [tensor("data", data)] + ([] if bound else [tensor(k, v) for k, v in weights.items()]),
        "outputs": [tensor("probability", probability)],
    }
    return Net(
        builder.get(),
        {"data": data},
        {"probability": probability},
        signature,
        {} if bound else weights,
    )


def conv_params(rng: Any) -> Net:
    """The same network with its weights as parameters (params.npz)."""
    return conv(rng, bound=False)


def dynamic(rng: Any) -> Net:
    """Two inputs of symbolic length, a nested tuple as result: (a + b, (a * b, a - b))."""
    from tvm import relax, tirx

    n = tirx.Var("n", "int64")
    builder = relax.BlockBuilder()
    a = relax.Var("a", relax.TensorStructInfo((n, 4), "float32"))
    b = relax.Var("b", relax.TensorStructInfo((n, 4), "float32"))
    with builder.function("main", [a, b]):
        total = builder.emit(relax.op.add(a, b))
        product = builder.emit(relax.op.multiply(a, b))
        difference = builder.emit(relax.op.subtract(a, b))
        pair = builder.emit(relax.Tuple([product, difference]))
        builder.emit_func_output(relax.Tuple([total, pair]))
    x, y = (rng.standard_normal((5, 4)).astype("float32") for _ in range(2))
    part = {"dtype": "float32", "shape": ["n", 4]}
    signature = {
        "inputs": [tensor("a", x, "n", 4), tensor("b", y, "n", 4)],
        "outputs": [
            tensor("total", x, "n", 4),
            {"name": "pair", "kind": "tuple", "items": [part, part]},
        ],
    }
    expected = {"total": x + y, "pair.0": x * y, "pair.1": x - y}
    return Net(builder.get(), {"a": x, "b": y}, expected, signature)


def types(rng: Any) -> Net:
    """One input and one output of each element type, each doubled (bool: negated)."""
    from tvm import relax

    names = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
    names += ["bfloat16", "float16", "float32", "float64", "bool"]
    inputs, expected, signature, variables, results = {}, {}, {"inputs": [], "outputs": []}, [], []
    builder = relax.BlockBuilder()
    for name in names:
        # Small whole numbers are exact in every type; numpy holds bfloat16 as float32.
        numbers = rng.integers(0, 2 if name == "bool" else 60, (2, 3))
        inputs[f"x_{name}"] = numbers.astype("float32" if name == "bfloat16" else name)
        expected[f"y_{name}"] = ~inputs[f"x_{name}"] if name == "bool" else inputs[f"x_{name}"] * 2
        signature["inputs"].append({"name": f"x_{name}", "dtype": name, "shape": [2, 3]})
        signature["outputs"].append({"name": f"y_{name}", "dtype": name, "shape": [2, 3]})
        variables.append(relax.Var(f"x_{name}", relax.TensorStructInfo((2, 3), name)))
    with builder.function("main", variables):
        for name, variable in zip(names, variables, strict=True):
            call = relax.op.logical_not(variable) if name == "bool" else relax.op.add(variable, variable)
            results.append(builder.emit(call))
        builder.emit_func_output(relax.Tuple(results))
    return Net(builder.get(), inputs, expected, signature)


def nested(rng: Any) -> Net:
    """A tuple, a shape and a number as inputs: (pair[0] + pair[1], shape)."""
    from tvm import relax, tirx

    n = tirx.Var("n", "int64")
    builder = relax.BlockBuilder()
    row = relax.TensorStructInfo((3,), "float32")
    pair = relax.Var("pair", relax.TupleStructInfo([row, row]))
    sizes = relax.Var("sizes", relax.ShapeStructInfo([n, 2]))
    with builder.function("main", [pair, sizes]):
        total = builder.emit(relax.op.add(relax.TupleGetItem(pair, 0), relax.TupleGetItem(pair, 1)))
        zeros = builder.emit(relax.op.zeros(relax.ShapeExpr([n, 2]), "float32"))
        builder.emit_func_output(relax.Tuple([total, zeros, sizes]))
    x, y = (rng.standard_normal(3).astype("float32") for _ in range(2))
    part = {"dtype": "float32", "shape": [3]}
    signature = {
        "inputs": [
            {"name": "pair", "kind": "tuple", "items": [part, part]},
            {"name": "sizes", "kind": "shape", "shape": ["n", 2]},
        ],
        "outputs": [
            tensor("total", x),
            {"name": "zeros", "dtype": "float32", "shape": ["n", 2]},
            {"name": "sizes", "kind": "shape", "shape": ["n", 2]},
        ],
    }
    shape = np.array([4, 2], "int64")
    expected = {"total": x + y, "zeros": np.zeros((4, 2), "float32"), "sizes": shape}
    return Net(builder.get(), {"pair.0": x, "pair.1": y, "sizes": shape}, expected, signature)


NETS: dict[str, Callable[[Any], Net]] = {
    "conv": conv,
    "conv-params": conv_params,
    "dynamic": dynamic,
    "types": types,
    "nested": nested,
}


def build(name: str, folder: Path, target: str, linker: str | None) -> None:
    """Compile a net for ``target``: llvm, aarch64 or opencl."""
    import tvm
    from tvm import relax
    from tvm.support import cc

    host = tvm.target.Target(
        {"kind": "llvm", "mtriple": "aarch64-linux-gnu"} if target == "aarch64" else {"kind": "llvm"}
    )
    aim = tvm.target.Target({"kind": "opencl"}, host=host) if target == "opencl" else host
    net = NETS[name](np.random.default_rng(7))
    module = net.module
    if target == "opencl":
        from tvm.s_tir import dlight

        with aim:
            module = relax.transform.LegalizeOps()(module)
            module = dlight.ApplyDefaultSchedule(
                dlight.gpu.Matmul(),
                dlight.gpu.Reduction(),
                dlight.gpu.GeneralReduction(),
                dlight.gpu.Fallback(),
            )(module)
    executable = relax.build(module, target=aim)
    folder.mkdir(parents=True, exist_ok=True)
    compiler = cc.cross_compiler(linker) if linker else None
    executable.export_library(str(folder / "mod.so"), **({"fcompile": compiler} if compiler else {}))
    description = {"format": "rtvm-model", "version": 1, "functions": {"main": net.signature}}
    (folder / "model.json").write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
    if net.params:
        np.savez(folder / "params.npz", **net.params)
    np.savez(folder / "in.npz", **net.inputs)
    np.savez(folder / "expected.npz", **net.expected)


def compare(found: Path, expected: Path, rtol: float, atol: float) -> int:
    """Print the largest difference of each array; 1 when names, types, shapes or values differ."""
    left, right = np.load(found), np.load(expected)
    if sorted(left.files) != sorted(right.files):
        print(f"arrays: expected {sorted(right.files)}, found {sorted(left.files)}")
        return 1
    code = 0
    for key in right.files:
        a, b = left[key], right[key]
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            print(f"{key}: expected {b.dtype}{b.shape}, found {a.dtype}{a.shape}")
            code = 1
            continue
        error = np.abs(a.astype("float64") - b.astype("float64")).max(initial=0.0)
        print(f"{key}: {a.dtype}{a.shape}, largest difference {error:.3g}")
        if not np.allclose(a, b, rtol=rtol, atol=atol):
            code = 1
    return code


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("build")
    making.add_argument("net", choices=sorted(NETS))
    making.add_argument("folder", type=Path)
    making.add_argument("--target", choices=["llvm", "aarch64", "opencl"], default="llvm")
    making.add_argument("--linker", help="compiler that links mod.so; default the host's")
    comparing = commands.add_parser("compare")
    comparing.add_argument("found", type=Path)
    comparing.add_argument("expected", type=Path)
    comparing.add_argument("--rtol", type=float, default=1e-4)
    comparing.add_argument("--atol", type=float, default=1e-6)
    arguments = parser.parse_args()
    if arguments.command == "build":
        build(arguments.net, arguments.folder, arguments.target, arguments.linker)
        return 0
    return compare(arguments.found, arguments.expected, arguments.rtol, arguments.atol)


if __name__ == "__main__":
    sys.exit(main())
