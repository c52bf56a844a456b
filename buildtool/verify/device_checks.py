"""Checks that run something on the device, without TVM's Python."""

from __future__ import annotations

import random
import re
import struct

from buildtool.core.files import human_size
from buildtool.devices.base import Ran
from buildtool.verify import smoke
from buildtool.verify.check import Check, Context, failed, verdict
from buildtool.verify.model import DEVICE, TOOLCHAIN, Outcome

RUN_SECONDS = 60.0


def last_words(ran: Ran) -> str:
    """How a program on the device ended and the last lines it printed."""
    how = "ended at the time limit" if ran.timed_out else f"exit code {ran.returncode}"
    lines = [line for line in (ran.stdout + "\n" + ran.stderr).splitlines() if line.strip()]
    return f"{how}: {' | '.join(lines[-3:])}" if lines else f"{how}, no output"


class DeviceAbi(Check):
    id = "device-abi"
    title = "the device runs this ABI"
    needs = frozenset({DEVICE})
    each_file = False

    def run(self, context: Context) -> Outcome:
        abis = context.device.properties().abis
        wanted = context.artifacts.abi.value
        return verdict(
            wanted in abis,
            ", ".join(abis) or "none told",
            wanted,
            fix=f"build for {' or '.join(abis) or 'the ABI of the device'}, or choose another device",
        )


class Push(Check):
    id = "push"
    title = "the files reach the device"
    needs = frozenset({DEVICE})
    each_file = False

    def run(self, context: Context) -> Outcome:
        pushed = context.bench.push_artifacts()
        total = len(context.artifacts.artifacts)
        return verdict(
            pushed.sent + pushed.kept == total,
            f"{pushed.sent} sent ({human_size(pushed.bytes)}), {pushed.kept} already there",
            f"{total} files",
            evidence=f"in {context.device.workdir}",
        )


class RpcStarts(Check):
    id = "rpc-starts"
    title = "tvm_rpc is loaded and prints its usage"
    needs = frozenset({DEVICE})
    each_file = False

    def applies(self, context: Context) -> bool:
        return context.artifacts.find("tvm_rpc") is not None

    def run(self, context: Context) -> Outcome:
        context.bench.push_artifacts()
        ran = context.device.run(["./tvm_rpc"], env=context.bench.remote_env(), timeout=RUN_SECONDS)
        # Its exit code is 0 even for bad usage, and a loader's error may hide in the output.
        text = ran.stdout + ran.stderr
        usage = re.search(r"--port\b", text) and re.search(r"--tracker\b", text)
        return verdict(
            bool(usage) and not ran.timed_out,
            f"usage text, {len(text.splitlines())} lines" if usage else last_words(ran),
            "its usage text, with --port and --tracker",
            evidence=f"ran in {ran.seconds:.2f} s",
            fix="see the checks needed and symbols for what the loader misses",
        )


class SmokeAbi(Check):
    id = "smoke-abi"
    title = "a program of ours without TVM computes what the host computes"
    needs = frozenset({DEVICE, TOOLCHAIN})
    each_file = False

    def run(self, context: Context) -> Outcome:
        program = smoke.build_abi_program(context.tools, context.bench.folder())
        context.bench.push_scratch({program.name: program})
        seed = random.SystemRandom().randrange(1 << 32)
        ran = context.device.run([f"./{program.name}", str(seed)], timeout=RUN_SECONDS)
        bits = context.artifacts.abi.bits
        wanted = f"checksum={smoke.expected_checksum(seed)} bits={bits} endian=little"
        good = ran.returncode == 0 and ran.stdout.startswith(wanted + " ")
        return verdict(
            good,
            ran.stdout.strip() if good else last_words(ran),
            wanted,
            evidence=f"seed {seed}, ran in {ran.seconds:.2f} s",
        )


class KernelDirect(Check):
    id = "kernel-direct"
    title = "our kernel library and the TVM library it needs load, and it computes (no Python)"
    needs = frozenset({DEVICE, TOOLCHAIN})
    each_file = False

    def run(self, context: Context) -> Outcome:
        bench = context.bench
        kernel = bench.kernel()
        caller = smoke.build_caller(context.artifacts, context.tools, bench.folder())
        bench.push_artifacts()
        bench.push_scratch({kernel.name: kernel, caller.name: caller})
        # Eighths of small integers: every step is exact in float32.
        rng = random.SystemRandom()
        x, y = ([rng.randrange(-800, 800) / 8 for _ in range(16)] for _ in range(2))
        words = [f"./{caller.name}", f"./{kernel.name}", ",".join(map(str, x)), ",".join(map(str, y))]
        ran = context.device.run(words, env=bench.remote_env(), timeout=RUN_SECONDS)
        wanted = " ".join(f"{_bits(2.5 * a + b):08x}" for a, b in zip(x, y, strict=True))
        if ran.returncode != 0 or ran.stdout.strip() != wanted:
            return failed(last_words(ran), f"exit code 0: {wanted}")
        return verdict(True, "16 of 16 values equal to the last bit", "16 values", evidence=last_words(ran))


def _bits(value: float) -> int:
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return int(bits)


CHECKS: tuple[Check, ...] = (DeviceAbi(), Push(), RpcStarts(), SmokeAbi(), KernelDirect())
