"""Checks that speak TVM's RPC to the device, from a child process with tvm."""

from __future__ import annotations

import statistics
from typing import Any

from buildtool.core.errors import CheckFailed
from buildtool.core.files import human_size
from buildtool.verify import smoke
from buildtool.verify.check import Check, Context, verdict
from buildtool.verify.model import DEVICE, TOOLCHAIN, TVM_PYTHON, CantObserve, Outcome

_ELEMENTS = 100_003
"""Odd, and larger than a vector unit or a packet."""
_N = 64
_TOLERANCE = 1e-5
"""For the matrix product: largest difference to float64 numpy, relative to the largest result.

64 products summed in float32 round at most 64 x 6e-8; sums in another order stay within that."""


class RpcCheck(Check):
    """Base of the checks that ask the probe for something on the device's server."""

    needs = frozenset({DEVICE, TVM_PYTHON})
    each_file = False

    def applies(self, context: Context) -> bool:
        return context.artifacts.find("tvm_rpc") is not None

    def ask(self, context: Context, **request: object) -> dict[str, Any]:
        """A probe task on the device's server; a failure tells the server's last words too."""
        session = context.bench.session()
        try:
            return context.bench.ask({**session, **request})
        except CantObserve:
            raise
        except CheckFailed as exc:
            said = [line for line in context.bench.server_output().splitlines() if line.strip()][-5:]
            details = [*exc.details, *(f"server: {line}" for line in said)]
            raise CheckFailed(exc.what, fix=exc.fix, details=details) from exc


class RpcCopy(RpcCheck):
    id = "rpc-copy"
    title = "an array sent to the device comes back equal"

    def run(self, context: Context) -> Outcome:
        reply = self.ask(context, task="copy", seed=7, bytes=1_000_003)
        count, seconds = reply["bytes"], reply["seconds"]
        equal = reply["equal"] is True
        return verdict(
            equal,
            f"{'equal' if equal else 'different'}: {human_size(count)} there and back in {seconds:.3f} s",
            "equal",
            evidence=f"session opened in {reply['session_seconds']:.2f} s",
        )


class RpcKernel(RpcCheck):
    id = "rpc-kernel"
    title = "our C kernel, loaded by RPC, equals numpy"
    needs = frozenset({DEVICE, TOOLCHAIN, TVM_PYTHON})

    def run(self, context: Context) -> Outcome:
        library = str(context.bench.kernel())
        request = {"library": library, "function": smoke.KERNEL, "seed": 11}
        reply = self.ask(context, task="saxpy", elements=_ELEMENTS, **request)
        return verdict(
            reply["equal"] is True,
            f"max error {reply['max_error']:g} over {reply['elements']} elements",
            "0: bit-equal to numpy float32",
        )


class RpcError(RpcCheck):
    id = "rpc-error"
    title = "a kernel's own error reaches the client"
    needs = frozenset({DEVICE, TOOLCHAIN, TVM_PYTHON})

    def run(self, context: Context) -> Outcome:
        library = str(context.bench.kernel())
        reply = self.ask(context, task="saxpy_refuses", library=library, function=smoke.KERNEL)
        said = f"{reply['raised'] or 'nothing raised'}: {reply['message']}".replace("\n", " ")
        return verdict("takes x, y, out" in str(reply["message"]), said[-160:], "the kernel's message")


class _LlvmCheck(RpcCheck):
    needs = frozenset({DEVICE, TOOLCHAIN, TVM_PYTHON})
    function = ""
    exact = False

    def run(self, context: Context) -> Outcome:
        library, compiled = context.bench.llvm_library(_N)
        reply = self.ask(
            context, task="run_llvm", library=str(library), function=self.function, n=_N, seed=13
        )
        seconds = reply["seconds"]
        relative = reply["max_relative"]
        good = reply["equal"] is True if self.exact else reply["finite"] is True and relative <= _TOLERANCE
        return verdict(
            good,
            f"max error {reply['max_error']:.3g} (relative {relative:.3g}); "
            f"{statistics.median(seconds) * 1e6:.1f} us a run",
            "0: bit-equal to numpy float32" if self.exact else f"relative error <= {_TOLERANCE:g}",
            evidence=f"LLVM {compiled['llvm']} of the host's tvm for {context.artifacts.triple}; "
            f"time_evaluator, median of {len(seconds)}",
        )


class LlvmAdd(_LlvmCheck):
    id = "llvm-add"
    title = "an addition compiled by TVM for the device equals numpy"
    function = "add"
    exact = True


class LlvmMatmul(_LlvmCheck):
    id = "llvm-matmul"
    title = "a matrix product compiled by TVM for the device equals numpy"
    function = "matmul"


CHECKS: tuple[Check, ...] = (RpcCopy(), RpcKernel(), RpcError(), LlvmAdd(), LlvmMatmul())
