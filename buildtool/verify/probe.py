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
import shutil
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


def _schedules() -> Any:
    import tvm

    return getattr(tvm, "s_tir", None) or tvm.tir  # renamed after v0.24


def _muladd(n: int, dtype: str, *, packed: bool) -> Any:
    """TIR of ``c = a * b + a`` over ``n`` numbers, its loop bound to OpenCL's groups and items.

    ``packed``: as (n / 4, 1, 4), four a work item, as a texture holds them.
    """
    import tvm
    from tvm import te

    shape = (n // 4, 1, 4) if packed else (n,)
    a, b = (te.placeholder(shape, name=name, dtype=dtype) for name in "ab")
    total = te.compute(shape, lambda *i: a(*i) * b(*i) + a(*i), name="c")
    function = te.create_prim_func([a, b, total]).with_attr("global_symbol", "muladd")
    schedule = _schedules().Schedule(tvm.IRModule({"muladd": function}))
    schedule.work_on("muladd")
    block = (getattr(schedule, "get_sblock", None) or schedule.get_block)("c")
    first, *rest = schedule.get_loops(block)
    outer, inner = schedule.split(first, [None, 32])
    schedule.bind(outer, "blockIdx.x")
    schedule.bind(inner, "threadIdx.x")
    if packed:
        schedule.vectorize(rest[-1])
    return schedule.mod


def _with_textures(module: Any, dtype: str) -> Any:
    """The same module with its parameters in texture memory: by its own printed form, read again."""
    import tvm.script

    plain = f'"{dtype}")'
    return tvm.script.from_source(module.script().replace(plain, f'"{dtype}", scope="global.texture")'))


def _adreno_pipeline(target: Any) -> list[tuple[str, Callable[[Any], Any]]]:
    """Ways to compile for textures, with the word the report uses for each."""
    import tvm

    def own(module: Any) -> Any:
        return tvm.compile(module, target=target, tir_pipeline="adreno")

    def tripled(module: Any) -> Any:
        # Releases 0.25 to 0.27 registered the pipeline without the two passes that build() unpacks.
        from tvm.tirx import compilation_pipeline as pipelines

        registered = pipelines.PIPELINE_MAP["adreno"]
        finish = pipelines.finalize_host_passes, pipelines.finalize_device_passes
        pipelines.PIPELINE_MAP["adreno"] = lambda **options: (registered(**options), *finish)
        return own(module)

    return [("pipeline adreno", own), ("pipeline adreno, registered with its final passes", tripled)]


def compile_opencl(request: dict[str, Any]) -> dict[str, Any]:
    """Compile ``muladd`` for OpenCL to object files in ``folder``; the caller links them.

    ``texture``: with texture parameters, for ``device: adreno``.
    """
    import tvm

    texture, dtype, n = bool(request["texture"]), request["dtype"], request["n"]
    if not tvm.get_global_func("target.build.opencl", allow_missing=True):
        raise Cant(f"tvm {tvm.__version__} was built without OpenCL code generation")
    kind = {"kind": "opencl", "device": "adreno"} if texture else {"kind": "opencl"}
    host = {"kind": "llvm", "mtriple": request["triple"]}
    target = tvm.target.Target(kind, host=tvm.target.Target(host))
    module = _muladd(n, dtype, packed=texture)
    if texture:
        library, form = _compile_texture(_with_textures(module, dtype), target)
    else:
        compiler = getattr(tvm, "compile", None) or tvm.build
        library, form = compiler(module, target=target), "default pipeline"
    source = _device_source(library)
    objects: list[str] = []

    def keep(path: str, files: list[str], *_: Any, **__: Any) -> None:
        for name in files:
            copy = os.path.join(request["folder"], f"{request['name']}-{os.path.basename(name)}")  # noqa: PTH118, PTH119
            shutil.copyfile(name, copy)
            objects.append(copy)
        with open(path, "wb"):  # noqa: PTH123 - it looks for the file
            pass

    library.export_library(os.path.join(request["folder"], "unlinked.so"), fcompile=keep)  # noqa: PTH118
    return {"objects": objects, "form": form, "images": source.count("image2d"), "bytes": len(source)}


def _compile_texture(module: Any, target: Any) -> tuple[Any, str]:
    refused: list[str] = []
    for form, compiler in _adreno_pipeline(target):
        try:
            library = compiler(module)
        except Exception as exc:
            refused.append(f"{form}: {type(exc).__name__}: {str(exc).strip().splitlines()[-1][:120]}")
            continue
        if "read_image" in _device_source(library):
            return library, form
        refused.append(f"{form}: its kernel reads no image")
    raise Cant("this tvm's code generation makes no texture kernel: " + "; ".join(refused))


def _device_source(library: Any) -> str:
    module = getattr(library, "mod", library)
    imported = getattr(module, "imports", None) or module.imported_modules
    return "".join(m.inspect_source() if hasattr(m, "inspect_source") else m.get_source() for m in imported)


def run_opencl(request: dict[str, Any]) -> dict[str, Any]:
    """Run the linked ``muladd`` on the device's OpenCL and compare with numpy."""
    import numpy as np
    import tvm

    session = connect(request)
    module = _loaded(session, request["library"])
    device = session.cl(0)
    n, dtype, texture = request["n"], request["dtype"], bool(request["texture"])
    shape = (n // 4, 1, 4) if texture else (n,)
    rng = np.random.default_rng(request["seed"])
    # Eighths of small integers: exact in float32, and in float16 too, however the device fuses.
    a, b = (rng.integers(-24, 25, shape).astype(dtype) / np.dtype(dtype).type(8) for _ in range(2))
    make = getattr(tvm.runtime, "empty", None) or tvm.nd.empty
    scope = {"mem_scope": "global.texture"} if texture else {}
    arguments = [make(shape, dtype, device, **scope) for _ in range(3)]
    for tensor, data in zip(arguments, (a, b, np.full(shape, 77, dtype))):  # noqa: B905
        tensor.copyfrom(data)
    module["muladd"](*arguments)
    return _compare(arguments[2].numpy(), a * b + a)


def opencl_attributes(request: dict[str, Any]) -> dict[str, Any]:
    """What TVM's runtime on the device tells of its OpenCL device."""
    device = connect(request).cl(0)
    if not device.exist:
        return {"exist": False}
    return {
        "exist": True,
        "name": str(device.device_name),
        "compute_units": int(device.multi_processor_count),
        "max_work_group_size": int(device.max_threads_per_block),
    }


TASKS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    f.__name__: f
    for f in (
        hello,
        copy,
        saxpy,
        saxpy_refuses,
        compile_llvm,
        run_llvm,
        compile_opencl,
        run_opencl,
        opencl_attributes,
    )
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
