"""The wheel route: a released apache-tvm in place of compiling, taken only when it is shown to match."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from buildtool.artifacts import ArtifactSet
from buildtool.core.errors import BuildFailed, CheckFailed, UsageError
from buildtool.devices.base import Device
from buildtool.host.check import ask
from buildtool.host.environment import HostEnvironment, make_with_wheel
from buildtool.toolchains.model import Toolchain
from buildtool.verify import Report, Status, verify

# What tvm.rpc imports and the wheels do not ask for.
RPC_PACKAGES = ("tornado", "psutil", "cloudpickle", "numpy")
CHECKS = ("rpc-copy", "rpc-kernel", "rpc-error", "llvm-add", "llvm-matmul")


@dataclass(frozen=True)
class Release:
    """A wheel with the tvm-ffi wheel that it was seen to import with.

    ``runtimes``: versions of runtimes that the pair's RPC was seen to work with.
    """

    tvm: str
    ffi: str
    runtimes: tuple[str, ...]


# pip's own choice of tvm-ffi (0.1.15.post2) breaks import tvm of 0.25.0: undefined symbol.
KNOWN = (
    Release("0.25.0", "0.1.12", ("0.25.dev0",)),
    Release("0.25.0.post1", "0.1.12", ()),
    Release("0.27.0.post1", "", ("0.25.dev0",)),
)
"""Measured pairs; "" leaves tvm-ffi to pip."""


def choose(version: str, runtime: str) -> Release:
    """The release to try: ``auto`` takes the one known for the runtime's version, else its nearest release.

    Raises UsageError for a runtime that no release can serve (relay era: other RPC calls).
    """
    if version != "auto":
        return next((r for r in KNOWN if r.tvm == version), Release(version, "", ()))
    for release in KNOWN:
        if runtime in release.runtimes:
            return release
    near = [r for r in KNOWN if r.tvm.split(".")[:2] == runtime.split(".")[:2]]
    if near:
        return near[0]
    raise UsageError(
        f"no released apache-tvm wheel is known for the runtime {runtime}",
        where="--from-wheel auto",
        expected=_known_words(),
        fix="name a version to try it, or build the compiler: buildtool host",
    )


def _known_words() -> str:
    return "; ".join(f"{r.tvm} for {', '.join(r.runtimes)}" for r in KNOWN if r.runtimes)


def install(venv: Path, release: Release) -> HostEnvironment:
    """The environment with the release. Raises BuildFailed when pip or the import fails."""
    packages = [f"apache-tvm=={release.tvm}", *RPC_PACKAGES]
    if release.ffi:
        packages.append(f"apache-tvm-ffi=={release.ffi}")
    environment = make_with_wheel(venv, packages)
    try:
        ask(environment)
    except CheckFailed as exc:
        raise BuildFailed(
            f"apache-tvm {release.tvm} can't be imported: {exc.what}",
            where=str(environment.venv),
            expected=_known_words(),
            details=exc.details,
            fix="take a version that is known to work, or build the compiler: buildtool host",
        ) from exc
    return environment


def prove(
    environment: HostEnvironment,
    artifacts: ArtifactSet,
    toolchain: Toolchain | None,
    device: Device,
    release: Release,
) -> Report:
    """Speak RPC from the wheel to the built runtime: copies, a C kernel, kernels that the wheel compiles.

    Raises BuildFailed when anything failed or nothing could be seen.
    """
    report = verify(artifacts, toolchain, device, host_python=environment.python, only=CHECKS)
    if not report.ok:
        rows = [r for r in report.results if r.outcome.status is not Status.PASS]
        raise BuildFailed(
            f"apache-tvm {release.tvm} does not match the runtime {artifacts.version} that was built",
            expected=f"RPC and kernels right on {device.name}; known: {_known_words()}",
            details=[f"{r.id}: {r.outcome.measured} {r.outcome.evidence}".strip()[:300] for r in rows],
            fix="take a version that is known to work, or build the compiler: buildtool host",
        )
    return report
