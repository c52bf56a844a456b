"""The child process that imports tvm: a JSON request on stdin, a JSON reply on stdout.

It runs under any interpreter that has tvm (``--host-python``), so this file
imports nothing of buildtool. A crash or hang of TVM's client code ends this
process only; the parent reports it.

Requests name a ``task``; those on a device add the tracker's ``host`` and
``port`` and the server's ``key``. Replies hold the task's figures, or
``error`` with ``trace`` (the innermost calls), or ``cant`` when the thing could not be tried.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

_MARK = "@buildtool-reply "
_TRACKER_MAGIC = 0x2F271
_GET_SUMMARY = 6
_POLL_SECONDS = 20.0


def find_reply(output: str) -> dict[str, Any] | None:
    """The reply in a child's stdout (tvm itself may print other lines), or None."""
    for line in reversed(output.splitlines()):
        if line.startswith(_MARK):
            reply = json.loads(line[len(_MARK) :])
            return reply if isinstance(reply, dict) else None
    return None


class Cant(Exception):
    """The thing can't be tried with this interpreter."""


def _exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = sock.recv(count - len(data))
        if not part:
            raise ConnectionError("the tracker closed the connection")
        data += part
    return data


def tracker_summary(host: str, port: int) -> dict[str, Any]:
    """The tracker's own account of its servers and queues.

    Spoken by hand over a socket with a time limit: tvm's client retries a dead
    tracker for a minute.
    """
    with socket.create_connection((host, port), timeout=5) as sock:
        sock.sendall(struct.pack("<i", _TRACKER_MAGIC))
        if struct.unpack("<i", _exactly(sock, 4))[0] != _TRACKER_MAGIC:
            raise ConnectionError(f"no TVM tracker on {host}:{port}")
        text = json.dumps([_GET_SUMMARY]).encode()
        sock.sendall(struct.pack("<i", len(text)) + text)
        (size,) = struct.unpack("<i", _exactly(sock, 4))
        status, summary = json.loads(_exactly(sock, size))
    if status != 0:
        raise ConnectionError(f"the tracker answered with status {status}")
    return dict(summary)


def _free(summary: dict[str, Any], key: str) -> int:
    return int(summary.get("queue_info", {}).get(key, {}).get("free", 0))


def connect(request: dict[str, Any]) -> Any:
    """A session on the server with the request's key, taken only when the tracker has it free."""
    # request() for an absent key never returns: look first.
    deadline = time.monotonic() + _POLL_SECONDS
    while _free(summary := tracker_summary(request["host"], request["port"]), request["key"]) < 1:
        if time.monotonic() > deadline:
            raise TimeoutError(f"no free server with key {request['key']}; the tracker has {summary}")
        time.sleep(0.1)
    from tvm import rpc

    tracker = rpc.connect_tracker(request["host"], request["port"])
    return tracker.request(request["key"], priority=1, session_timeout=120)


def hello(request: dict[str, Any]) -> dict[str, Any]:
    """Whether tvm can be imported here, with its RPC, and what it has."""
    import tvm
    from tvm import rpc  # noqa: F401 - its own requirements (tornado, psutil, cloudpickle) are part of the question

    try:
        import tvm_ffi

        ffi = str(tvm_ffi.__version__)
    except ImportError:
        ffi = ""
    llvm = bool(tvm.get_global_func("target.llvm_version_major", allow_missing=True))
    return {"python": sys.version.split()[0], "tvm": tvm.__version__, "tvm_ffi": ffi, "llvm": llvm}


def _tensor(array: Any, device: Any) -> Any:
    import tvm

    make = getattr(tvm.runtime, "tensor", None) or tvm.nd.array
    return make(array, device)


def copy(request: dict[str, Any]) -> dict[str, Any]:
    """Send an array to the device and fetch it back."""
    import numpy as np

    begun = time.perf_counter()
    session = connect(request)
    opened = time.perf_counter() - begun
    data = np.random.default_rng(request["seed"]).integers(0, 256, request["bytes"], dtype="uint8")
    begun = time.perf_counter()
    there = _tensor(data, session.cpu(0))
    back = there.numpy()
    seconds = time.perf_counter() - begun
    return {
        "equal": bool(np.array_equal(data, back)),
        "bytes": int(data.nbytes),
        "seconds": seconds,
        "session_seconds": opened,
    }


def _loaded(session: Any, library: str) -> Any:
    session.upload(library)
    return session.load_module(os.path.basename(library))  # noqa: PTH119


def _compare(got: Any, expected: Any) -> dict[str, Any]:
    import numpy as np

    difference = np.abs(got.astype("float64") - expected.astype("float64"))
    scale = float(np.max(np.abs(expected))) or 1.0
    return {
        "equal": bool(np.array_equal(got, expected)),
        "finite": bool(np.all(np.isfinite(got))),
        "max_error": float(np.max(difference)),
        "max_relative": float(np.max(difference)) / scale,
        "elements": int(got.size),
    }


def saxpy(request: dict[str, Any]) -> dict[str, Any]:
    """Run our C kernel ``buildtool_saxpy(x, y, out)``: out = 2.5 x + y in float32, unfused."""
    import numpy as np

    session = connect(request)
    function = _loaded(session, request["library"])[request["function"]]
    rng = np.random.default_rng(request["seed"])
    x = rng.standard_normal(request["elements"], dtype="float32")
    y = rng.standard_normal(request["elements"], dtype="float32")
    device = session.cpu(0)
    out = _tensor(np.zeros_like(x), device)
    function(_tensor(x, device), _tensor(y, device), out)
    return _compare(out.numpy(), np.float32(2.5) * x + y)


def saxpy_refuses(request: dict[str, Any]) -> dict[str, Any]:
    """Call the kernel with a wrong argument: its own error must come back through RPC."""
    session = connect(request)
    function = _loaded(session, request["library"])[request["function"]]
    try:
        function(1)
    except Exception as exc:
        return {"raised": type(exc).__name__, "message": str(exc)[-400:]}
    return {"raised": "", "message": ""}


def _functions(n: int) -> tuple[Any, Any]:
    """TIR of an addition of ``n`` numbers and of an ``n`` x ``n`` matrix product."""
    from tvm import te

    a, b = (te.placeholder((n,), name=name, dtype="float32") for name in "ab")
    total = te.compute((n,), lambda i: a[i] + b[i], name="c")
    left, right = (te.placeholder((n, n), name=name, dtype="float32") for name in "pq")
    k = te.reduce_axis((0, n), name="k")
    product = te.compute((n, n), lambda i, j: te.sum(left[i, k] * right[k, j], axis=k), name="r")
    return (
        te.create_prim_func([a, b, total]).with_attr("global_symbol", "add"),
        te.create_prim_func([left, right, product]).with_attr("global_symbol", "matmul"),
    )


def compile_llvm(request: dict[str, Any]) -> dict[str, Any]:
    """Compile ``add`` and ``matmul`` for a CPU triple to an object file; the caller links it."""
    import tvm

    if not tvm.get_global_func("target.llvm_version_major", allow_missing=True):
        raise Cant(f"tvm {tvm.__version__} was built without LLVM")
    add, matmul = _functions(request["n"])
    module = tvm.IRModule({"add": add, "matmul": matmul})
    target = tvm.target.Target({"kind": "llvm", "mtriple": request["triple"]})
    begun = time.perf_counter()
    compiler = getattr(tvm, "compile", None) or tvm.build  # tvm.compile came with v0.20
    library = compiler(module, target=target)
    seconds = time.perf_counter() - begun
    library = getattr(library, "mod", library)
    save = getattr(library, "write_to_file", None) or library.save
    save(request["object"], "o") if save.__name__ == "write_to_file" else save(request["object"])
    version = int(tvm.get_global_func("target.llvm_version_major")())
    return {"seconds": seconds, "llvm": version, "bytes": os.path.getsize(request["object"])}  # noqa: PTH202


def run_llvm(request: dict[str, Any]) -> dict[str, Any]:
    """Run one function of the linked library on the device CPU, compare with numpy and time it."""
    import numpy as np

    session = connect(request)
    module = _loaded(session, request["library"])
    n, name = request["n"], request["function"]
    shape = (n,) if name == "add" else (n, n)
    rng = np.random.default_rng(request["seed"])
    left, right = (rng.standard_normal(shape, dtype="float32") for _ in range(2))
    expected = left + right if name == "add" else left.astype("float64") @ right.astype("float64")
    device = session.cpu(0)
    arguments = [_tensor(a, device) for a in (left, right, np.zeros(shape, "float32"))]
    module[name](*arguments)
    reply = _compare(arguments[-1].numpy(), expected)
    timer = module.time_evaluator(name, device, number=3, repeat=3)
    reply["seconds"] = list(map(float, timer(*arguments).results))
    return reply


TASKS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    f.__name__: f for f in (hello, copy, saxpy, saxpy_refuses, compile_llvm, run_llvm)
}


def main() -> int:
    request = json.load(sys.stdin)
    try:
        reply = TASKS[request["task"]](request)
    except Cant as exc:
        reply = {"cant": str(exc)}
    except BaseException as exc:
        frames = traceback.extract_tb(exc.__traceback__)[-3:]
        places = [f"{os.path.basename(f.filename)}:{f.lineno} {f.line}" for f in frames]  # noqa: PTH119
        reply = {"error": f"{type(exc).__name__}: {exc}", "trace": places}
    sys.stdout.write("\n" + _MARK + json.dumps(reply) + "\n")
    sys.stdout.flush()
    # tvm's threads and sessions may hang at interpreter exit; the reply is out.
    os._exit(1 if "error" in reply else 0)


if __name__ == "__main__":
    # Run by path: keep this folder's modules from shadowing others' names.
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path[:] = [p for p in sys.path if os.path.abspath(p) != here]  # noqa: PTH100
    main()
