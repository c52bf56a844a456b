"""The relay-era model folder: mod.so, mod.json (the graph) and mod.params (its constants).

Reads what a graph takes and gives, and writes small graphs by hand, so that a runtime can be
tried before there is a compiler. Written from the documented formats.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buildtool.core.errors import UsageError
from buildtool.models.npz import Array, item_size, parse_dtype

_LIST_MAGIC = 0xF7E58D4F05049CB7
_ARRAY_MAGIC = 0xDD5E40F096B4A13F
_CPU = 1
_KINDS = {"int": 0, "uint": 1, "float": 2}


@dataclass(frozen=True)
class Tensor:
    """An input or output of a graph. ``dtype`` is TVM's word for it."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    def fits(self, array: Array) -> bool:
        return (parse_dtype(self.dtype), self.shape) == (array.dtype, array.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Signature:
    """What a graph takes (without its parameters) and what it gives, in the graph's order."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True)
class Call:
    """A node of a hand-made graph: a function of mod.so with one output."""

    name: str
    function: str
    arguments: tuple[str, ...]
    """Names of inputs, parameters or earlier calls."""
    dtype: str
    shape: tuple[int, ...]


def read_signature(folder: Path) -> Signature:
    """Inputs and outputs of the model in ``folder``. Raises UsageError for files that are no model."""
    path = folder / "mod.json"
    params = read_param_names(folder / "mod.params")
    try:
        graph = json.loads(path.read_text(encoding="utf-8"))
        entries = [_entry(graph, int(index), 0) for index in graph["arg_nodes"]]
        outputs = [_entry(graph, int(head[0]), int(head[1])) for head in graph["heads"]]
    except (OSError, ValueError, KeyError, IndexError, TypeError) as exc:
        raise UsageError(f"not a graph of the graph executor: {exc!r}", where=str(path)) from exc
    return Signature(tuple(e for e in entries if e.name not in params), tuple(outputs))


def _entry(graph: Mapping[str, Any], node: int, index: int) -> Tensor:
    row = graph["node_row_ptr"][node] + index
    attributes = graph["attrs"]
    shape = tuple(int(size) for size in attributes["shape"][1][row])
    return Tensor(str(graph["nodes"][node]["name"]), str(attributes["dltype"][1][row]), shape)


def read_param_names(path: Path) -> tuple[str, ...]:
    """The names in a mod.params file. Raises UsageError when it is none."""
    try:
        data = path.read_bytes()
        magic, _, count = struct.unpack_from("<QQQ", data, 0)
        if magic != _LIST_MAGIC:
            raise ValueError("wrong magic number")
        names, at = [], 24
        for _ in range(count):
            (length,) = struct.unpack_from("<Q", data, at)
            names.append(data[at + 8 : at + 8 + length].decode("utf-8"))
            at += 8 + length
        (arrays,) = struct.unpack_from("<Q", data, at)
        if arrays != count:
            raise ValueError(f"{count} names, {arrays} arrays")
    except (OSError, ValueError, struct.error) as exc:
        raise UsageError(
            f"not a parameter file: {exc}", where=str(path), fix="write it with relay.save_param_dict"
        ) from exc
    return tuple(names)


def params_bytes(params: Mapping[str, Array]) -> bytes:
    """The content of mod.params: names, then arrays (float, int and uint types) on the CPU."""
    parts = [struct.pack("<QQQ", _LIST_MAGIC, 0, len(params))]
    for name in params:
        parts.append(struct.pack("<Q", len(name.encode())) + name.encode())
    parts.append(struct.pack("<Q", len(params)))
    for array in params.values():
        bits = 8 * item_size(array.dtype)
        kind = _KINDS[array.dtype.removesuffix(str(bits))]
        rank = len(array.shape)
        parts.append(struct.pack("<QQiiiBBH", _ARRAY_MAGIC, 0, _CPU, 0, rank, kind, bits, 1))
        parts.append(struct.pack(f"<{rank}qq", *array.shape, len(array.data)) + array.data)
    return b"".join(parts)


def graph_json(
    inputs: Sequence[Tensor], params: Mapping[str, Array], calls: Sequence[Call], outputs: Sequence[str]
) -> str:
    """The content of mod.json for a chain of calls; ``outputs`` names the calls whose results are kept."""
    variables = [*inputs, *(Tensor(name, array.dtype, array.shape) for name, array in params.items())]
    index = {name: i for i, name in enumerate([*(v.name for v in variables), *(c.name for c in calls)])}
    nodes: list[dict[str, object]] = [{"op": "null", "name": v.name, "inputs": []} for v in variables]
    for call in calls:
        attributes = {
            "func_name": call.function,
            "num_inputs": str(len(call.arguments)),
            "num_outputs": "1",
            "flatten_data": "0",
        }
        sources = [[index[name], 0, 0] for name in call.arguments]
        nodes.append({"op": "tvm_op", "name": call.name, "attrs": attributes, "inputs": sources})
    values: list[Tensor | Call] = [*variables, *calls]
    graph = {
        "nodes": nodes,
        "arg_nodes": list(range(len(variables))),
        "node_row_ptr": list(range(len(nodes) + 1)),
        "heads": [[index[name], 0, 0] for name in outputs],
        "attrs": {
            "dltype": ["list_str", [v.dtype for v in values]],
            "storage_id": ["list_int", list(range(len(values)))],
            "shape": ["list_shape", [list(v.shape) for v in values]],
        },
    }
    return json.dumps(graph, indent=1) + "\n"


def elements(tensor: Tensor) -> int:
    return math.prod(tensor.shape)
