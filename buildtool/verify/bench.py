"""What the checks on a device share, made once and only when asked for: files pushed, the RPC
server, the smoke kernels, and the child process that speaks TVM's RPC from Python."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from buildtool.artifacts import ArtifactSet
from buildtool.core.console import screen
from buildtool.core.errors import BuildtoolError, CheckFailed
from buildtool.core.process import run
from buildtool.devices.base import Device, Pushed
from buildtool.toolchains.model import Toolchain
from buildtool.verify import probe as probe_module
from buildtool.verify import smoke
from buildtool.verify.closure import vendor_libraries
from buildtool.verify.model import DEVICE, TOOLCHAIN, TVM_PYTHON, CantObserve

T = TypeVar("T")
HELLO_SECONDS = 120.0
TASK_SECONDS = 180.0
_OPENCL_SECONDS = 120.0
"""A first look at an OpenCL driver may compile its own kernels; PoCL under emulation takes 1 s."""
_HOST_EXTRA = "pip install 'buildtool[host]'"


class Bench:
    """Holds a device and what is made on it; leaving the ``with`` block ends and removes all of it."""

    def __init__(
        self,
        artifacts: ArtifactSet,
        toolchain: Toolchain | None,
        device: Device | None,
        *,
        host_python: Path | None = None,
        no_device: str = "no device was asked for (--device none)",
        no_toolchain: str = "the toolchain that built these files was not found",
    ) -> None:
        self.artifacts = artifacts
        self.toolchain = toolchain
        self.python = host_python or Path(sys.executable)
        self._device = device
        self._no_device = no_device
        self._no_toolchain = no_toolchain
        self._stack = contextlib.ExitStack()
        self._made: dict[str, Any] = {}
        self._scratch: set[str] = set()

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A device that went away must not cost the report.
        for undo in (self._remove_scratch, self._stack.close):
            try:
                undo()
            except BuildtoolError as gone:
                screen.warn(f"clean-up after verify: {gone.what}")

    def _remove_scratch(self) -> None:
        if self._scratch:
            self.device.remove(sorted(self._scratch))

    @property
    def device(self) -> Device:
        assert self._device is not None
        return self._device

    def why_not(self, need: str) -> tuple[str, str] | None:
        """(reason, fix) when a need of a check is not met, else None."""
        if need == DEVICE and self._device is None:
            return self._no_device, "name one with --device"
        if need == TOOLCHAIN and self.toolchain is None:
            return self._no_toolchain, "run: buildtool doctor"
        if need == TVM_PYTHON:
            return self._once("tvm-python", self._why_no_tvm)
        return None

    def _once(self, key: str, make: Callable[[], T]) -> T:
        """Make a thing at first use; a failure is kept too, so that each check tells the same."""
        if key not in self._made:
            try:
                self._made[key] = make()
            except BuildtoolError as exc:
                self._made[key] = exc
        made = self._made[key]
        if isinstance(made, BuildtoolError):
            raise made
        return made  # type: ignore[no-any-return]

    def folder(self) -> Path:
        """A scratch folder on this host."""
        return self._once(
            "folder",
            lambda: Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="buildtool-verify-"))),
        )

    def push_artifacts(self) -> Pushed:
        """Send the shipped files to the device (those that are not there yet)."""
        return self._once("push", self._push)

    def _push(self) -> Pushed:
        vendor = vendor_libraries(self.artifacts)
        if vendor and self.device.properties().system == "emulated":
            # A phone has its vendor's own; the SDK's stubs let the programs at least start here.
            self.push_scratch({path.name: path for path in vendor})
        return self.device.push({a.name: a.path for a in self.artifacts.artifacts})

    def push_scratch(self, files: Mapping[str, Path]) -> Pushed:
        """Send files of ours, which are removed from the device again at the end."""
        self._scratch.update(files)
        return self.device.push(files)

    def remote_env(self) -> dict[str, str]:
        """The environment in which the pushed programs find the pushed libraries."""
        return {"LD_LIBRARY_PATH": str(self.device.workdir)}

    def kernel(self) -> Path:
        """Our saxpy kernel library, compiled for the device."""
        return self._once("kernel", lambda: smoke.build_kernel(self.artifacts, self._tools, self.folder()))

    def llvm_library(self, n: int) -> tuple[Path, dict[str, Any]]:
        """``add`` and ``matmul`` of size ``n`` from TVM's own compiler, linked; and how it was compiled."""
        return self._once(f"llvm {n}", lambda: self._compile_llvm(n))

    def _compile_llvm(self, n: int) -> tuple[Path, dict[str, Any]]:
        object_file, output = self.folder() / "kernels.o", self.folder() / "libbuildtool_llvm.so"
        triple = self.artifacts.triple
        reply = self.ask({"task": "compile_llvm", "triple": triple, "n": n, "object": str(object_file)})
        return smoke.link_objects([object_file], self.artifacts, self._tools, output), reply

    def opencl_info(self, library: str) -> dict[str, str]:
        """What our ``opencl_info`` program reads from the device's OpenCL ``library``, by key."""
        return self._once("opencl", lambda: self._read_opencl(library))

    def _read_opencl(self, library: str) -> dict[str, str]:
        program = smoke.build_opencl_program(self._tools, self.folder())
        self.push_scratch({program.name: program})
        ran = self.device.run([f"./{program.name}", library], timeout=_OPENCL_SECONDS)
        lines = ran.stdout.splitlines()
        if ran.returncode != 0 or not lines or lines[-1] != "end=ok":
            how = "ended at the time limit" if ran.timed_out else f"exit code {ran.returncode}"
            words = (ran.stderr or ran.stdout).strip().splitlines()[-3:]
            raise CheckFailed(f"the OpenCL library {library} does not work", found=how, details=words)
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def opencl_library(self, name: str, kernel: Mapping[str, Any]) -> tuple[Path, dict[str, Any]]:
        """``muladd`` for OpenCL from TVM's own compiler, linked; and how it was compiled."""
        return self._once(f"opencl {name}", lambda: self._compile_opencl(name, kernel))

    def _compile_opencl(self, name: str, kernel: Mapping[str, Any]) -> tuple[Path, dict[str, Any]]:
        where = {"folder": str(self.folder()), "name": name, "triple": self.artifacts.triple}
        reply = self.ask({"task": "compile_opencl", **where, **kernel})
        output = self.folder() / f"libbuildtool_{name.replace('-', '_')}.so"
        objects = [Path(path) for path in reply["objects"]]
        return smoke.link_objects(objects, self.artifacts, self._tools, output), reply

    @property
    def _tools(self) -> Toolchain:
        assert self.toolchain is not None
        return self.toolchain

    # -- TVM's Python, in a child process ------------------------------------------------

    def hello(self) -> dict[str, Any]:
        """What the child interpreter has: versions of Python, tvm, tvm_ffi, LLVM, or an error."""
        return self._once("hello", lambda: self.ask({"task": "hello"}, timeout=HELLO_SECONDS))

    def describe_python(self) -> str:
        """The child interpreter in a few words, for the report's facts."""
        try:
            hello = self.hello()
        except BuildtoolError as exc:
            return f"{self.python}: {exc.what}"
        parts = [f"tvm {hello['tvm']}", f"tvm-ffi {hello['tvm_ffi']}" if hello["tvm_ffi"] else ""]
        parts.append("with LLVM" if hello["llvm"] else "without LLVM")
        return f"Python {hello['python']}, {', '.join(p for p in parts if p)}"

    def _why_no_tvm(self) -> tuple[str, str] | None:
        try:
            hello = self.hello()
        except CheckFailed as exc:
            return f"{self.python} can't import tvm: {exc.what}", _HOST_EXTRA
        if bool(hello["tvm_ffi"]) != self.artifacts.tvm_ffi:
            return (
                f"tvm {hello['tvm']} in {self.python} is of another generation than the built "
                f"{self.artifacts.version}: their RPC calls differ",
                "name an interpreter with a matching tvm: --host-python PY",
            )
        return None

    def ask(self, request: dict[str, Any], *, timeout: float = TASK_SECONDS) -> dict[str, Any]:
        """Run one task of :mod:`buildtool.verify.probe` in a child process and return its reply.

        Raises CheckFailed when the child reports an error, dies or takes longer
        than ``timeout`` seconds; the child is ended with all it started.
        """
        done = run(
            [self.python, Path(probe_module.__file__)],
            stdin=json.dumps(request).encode(),
            timeout=timeout,
            check=False,
        )
        name = f"the {request['task']} task in {self.python}"
        if done.timed_out:
            raise CheckFailed(f"{name} did not finish within {timeout:g} s", details=done.tail())
        reply = probe_module.find_reply(done.stdout)
        if reply is None:
            raise CheckFailed(f"{name} ended with code {done.returncode} and no answer", details=done.tail())
        if "cant" in reply:
            raise CantObserve(str(reply["cant"]))
        if "error" in reply:
            raise CheckFailed(str(reply["error"]), details=map(str, reply.get("trace", ())))
        return reply

    def session(self) -> dict[str, Any]:
        """Where a session is to be had: tracker and key, for requests to the probe."""
        return self._once("server", self._start_server)

    def server_output(self) -> str:
        server = self._made.get("server object")
        return str(server.output()) if server is not None else ""

    def _start_server(self) -> dict[str, Any]:
        from buildtool.rpc.server import RpcServer
        from buildtool.rpc.tracker import Tracker

        self.push_artifacts()
        # A key of our own: another server's with the same key might answer instead.
        key = f"verify-{uuid.uuid4().hex[:8]}"
        tracker = self._stack.enter_context(Tracker(python=self.python))
        server = self._stack.enter_context(RpcServer(self.device, tracker=tracker, key=key))
        self._made["server object"] = server
        return {"host": "127.0.0.1", "port": tracker.port, "key": key}
