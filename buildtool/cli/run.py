"""``buildtool run``: run a compiled model on devices with the build's rtvm, and compare its outputs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from buildtool.cli.built import for_android, open_built, toolchain_of
from buildtool.cli.options import BuiltProfile, SettingsFile
from buildtool.core.console import print_json, print_table, screen
from buildtool.core.errors import BuildtoolError, UsageError

if TYPE_CHECKING:
    from buildtool.artifacts import ArtifactSet
    from buildtool.devices.base import Device
    from buildtool.devices.choosing import Candidate
    from buildtool.models import RunResult
    from buildtool.settings import Settings


def run(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="Model folder (mod.so and what belongs to it), a .tar of one, or a .so."
        ),
    ],
    dist: Annotated[
        Path | None,
        typer.Option(
            "--dist", metavar="DIR", help="Folder with manifest.json. Default: --profile's, or the newest."
        ),
    ] = None,
    profile: BuiltProfile = None,
    device: Annotated[
        list[str] | None,
        typer.Option(
            "--device",
            metavar="SPEC",
            help="qemu, local, adb:SERIAL, ssh:USER@HOST, a name or label of buildtool.toml; repeatable. "
            "'all': every device of buildtool.toml and every phone. Default: qemu.",
        ),
    ] = None,
    backend: Annotated[
        str, typer.Option("--backend", metavar="KIND", help="Where the model computes: cpu, opencl, …")
    ] = "cpu",
    inputs: Annotated[
        str, typer.Option("--input", metavar="FILE", help="An .npz file, or random, or zeros.")
    ] = "random",
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write the outputs as .npz (one device).")
    ] = None,
    expect: Annotated[
        Path | None, typer.Option("--expect", metavar="FILE", help="An .npz of the right outputs.")
    ] = None,
    rtol: Annotated[float, typer.Option("--rtol", min=0, help="Allowed relative difference.")] = 1e-4,
    atol: Annotated[float, typer.Option("--atol", min=0, help="Allowed absolute difference.")] = 1e-6,
    repeat: Annotated[
        int, typer.Option("--repeat", min=0, metavar="N", help="Time N runs; 0: none are timed.")
    ] = 20,
    warmup: Annotated[
        int, typer.Option("--warmup", min=0, metavar="N", help="Runs before the timed ones.")
    ] = 3,
    pre_compiled: Annotated[
        Path | None,
        typer.Option(
            "--pre-compiled", metavar="FILE", help="OpenCL program cache: made when absent, else reused."
        ),
    ] = None,
    function: Annotated[
        str | None, typer.Option("--function", metavar="NAME", help="Function of a relax model.")
    ] = None,
    dim: Annotated[
        list[str] | None,
        typer.Option("--dim", metavar="NAME=SIZE", help="Symbolic size for random and zeros; repeatable."),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, metavar="S", help="Time limit of each start of rtvm.")
    ] = 600,
    settings: SettingsFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON on stdout.")] = False,
) -> int:
    """Run a compiled model on one or several devices, pull its outputs and compare them.

    Pushes what is missing (runtime, rtvm, model). Exit code 1 when a run failed or an
    output differs from --expect, 2 for bad input.

    Example: buildtool run resnet --device adb:1a2b3c4d --backend opencl --input in.npz --expect out.npz
    """
    from buildtool.models import npz, run_everywhere, run_model

    artifacts, loaded = open_built(dist, profile, settings)
    dims = _dims(dim or [])
    single = "--output" if output else "--pre-compiled" if pre_compiled else None
    screen.step(f"run {model} with {artifacts.profile} {artifacts.abi.value} in {artifacts.root}")
    with _opened(device or [], artifacts, loaded, single) as devices:
        several = len(devices) > 1
        results = run_everywhere(
            devices,
            lambda label, where, stop: run_model(
                where,
                artifacts,
                model,
                inputs=inputs if inputs in ("random", "zeros") else Path(inputs),
                expect=expect,
                rtol=rtol,
                atol=atol,
                backend=backend,
                repeat=repeat,
                warmup=warmup,
                pre_compiled=pre_compiled,
                function=function,
                dims=dims,
                timeout=timeout,
                on_progress=lambda text: screen.info(f"{label}: {text}" if several else text),
                stop=stop,
            ),
        )
    failures = {label: seen for label, seen in results.items() if isinstance(seen, BuildtoolError)}
    if failures and not several:
        raise next(iter(failures.values()))
    for label, error in failures.items():
        screen.error([f"{label}: {error.lines()[0]}", *error.lines()[1:]])
    if output is not None:
        ((_, only),) = results.items()
        assert not isinstance(only, BuildtoolError)
        npz.write(output, only.outputs)
    _show(results, model, as_json)
    if failures:
        return max(error.exit_code for error in failures.values())
    return 0 if all(seen.ok for seen in results.values() if not isinstance(seen, BuildtoolError)) else 1


def _dims(words: list[str]) -> dict[str, int]:
    dims = {}
    for word in words:
        name, _, size = word.partition("=")
        if not name or not size.isdecimal():
            raise UsageError(f"not NAME=SIZE: {word!r}", where="--dim", fix="write for example --dim n=8")
        dims[name] = int(size)
    return dims


@contextlib.contextmanager
def _opened(
    words: list[str], artifacts: ArtifactSet, settings: Settings, single: str | None
) -> Iterator[dict[str, Device]]:
    """The named devices by their names; whatever still runs there is ended on the way out.

    ``single`` is a flag that makes no sense for several.
    """
    from buildtool.devices.choosing import candidates

    toolchain, _ = toolchain_of(artifacts, settings)
    spec = ",".join(words or ["qemu"])
    found = _fitting(candidates(spec, settings=settings, toolchain=toolchain), artifacts)
    if single and len(found) > 1:
        raise UsageError(f"{single} is for one device, not {len(found)}", fix="run the devices one by one")
    devices: dict[str, Device] = {}
    try:
        for candidate in found:
            devices[candidate.name] = candidate.open()
        yield devices
    finally:
        for device in devices.values():
            device.close()


def _fitting(found: list[Candidate], artifacts: ArtifactSet) -> list[Candidate]:
    """Without emulation where the build is for Android, whose loader and C library it does not have."""
    if for_android(artifacts) is None:
        return found
    left = [candidate for candidate in found if candidate.name not in ("qemu", "local")]
    if not left:
        raise UsageError(
            "this build is for Android: emulation has no Android loader and C library",
            where=str(artifacts.root),
            fix="name a phone (--device adb:SERIAL), or a device of kind qemu with an Android sysroot",
        )
    return left


def _show(results: Mapping[str, RunResult | BuildtoolError], model: Path, as_json: bool) -> None:
    if as_json:
        rows = [
            {"spec": label, **(seen.as_dict() if not isinstance(seen, BuildtoolError) else _failed(seen))}
            for label, seen in results.items()
        ]
        print_json({"model": str(model), "ok": all(row["ok"] for row in rows), "results": rows})
        return
    columns = (
        "device",
        "result",
        "max abs",
        "max rel",
        "min ms",
        "median ms",
        "p95 ms",
        "first ms",
        "pushed",
    )
    print_table(None, columns, (_row(label, seen) for label, seen in results.items()))
    for label, seen in results.items():
        if isinstance(seen, BuildtoolError):
            continue
        for one in seen.comparisons:
            if not one.ok:
                gap = one.reason or f"max abs {one.max_abs:.3g}, max rel {one.max_rel:.3g}"
                screen.error([f"{label}: output {one.name} differs: {gap}"])
        for note in seen.notes:
            screen.info(f"{label}: note: {note}")


def _failed(error: BuildtoolError) -> dict[str, object]:
    return {"ok": False, **error.as_dict()}


def _row(label: str, seen: RunResult | BuildtoolError) -> tuple[object, ...]:
    from buildtool.core.files import human_size

    if isinstance(seen, BuildtoolError):
        return (label, "FAIL", *("" for _ in range(7)))
    compared = "PASS" if seen.ok else "FAIL"
    times = seen.latency
    return (
        label,
        compared if seen.comparisons else "ran",
        _largest(one.max_abs for one in seen.comparisons),
        _largest(one.max_rel for one in seen.comparisons),
        *((f"{ms:.3f}" for ms in (times.min_ms, times.median_ms, times.p95_ms)) if times else ("", "", "")),
        "" if seen.first_run_ms is None else f"{seen.first_run_ms:.3f}",
        human_size(seen.pushed_bytes),
    )


def _largest(values: Iterator[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{max(known):.3g}" if known else ""
