"""``buildtool host`` and ``buildtool wheel``: TVM's compiler on this machine, and its Python."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from buildtool.cli.build import BuildDir, BuildType, Cache, Clml, Jobs, build_request, show_lines
from buildtool.cli.options import Json, Locked, Sets, SettingsFile, Source
from buildtool.core.console import print_json, screen
from buildtool.core.errors import EXIT_FAILED, UsageError

if TYPE_CHECKING:
    from buildtool.api import Line
    from buildtool.host.environment import HostEnvironment

app = typer.Typer(
    invoke_without_command=True,
    no_args_is_help=False,
    rich_markup_mode=None,
    add_completion=False,
    help="Build TVM's compiler for this machine, and use it.",
)
Venv = Annotated[
    Path | None,
    typer.Option("--venv", metavar="DIR", help="Its virtual environment. Default: BUILD/venv-host."),
]
Static = Annotated[bool, typer.Option("--link-static", help="LLVM's static libraries: no libLLVM.so needed.")]
FromWheel = Annotated[
    str | None,
    typer.Option(
        "--from-wheel",
        metavar="VERSION",
        help="No compiling: a released apache-tvm (auto: the one known for the runtime that was built last), "
        "tried by RPC against that runtime.",
    ),
]


@app.callback()
def host(
    context: typer.Context,
    source: Source = None,
    settings: SettingsFile = None,
    sets: Sets = None,
    jobs: Jobs = None,
    cache: Cache = None,
    build_type: BuildType = None,
    build_dir: BuildDir = None,
    clml: Clml = None,
    locked: Locked = False,
    link_static: Static = False,
    from_wheel: FromWheel = None,
    venv: Venv = None,
    device: Annotated[
        str, typer.Option("--device", metavar="SPEC", help="With --from-wheel: where the runtime is tried.")
    ] = "qemu",
    as_json: Json = False,
) -> None:
    """Build TVM's compiler for this machine: LLVM is found (newest that this tree takes), its Python set up.

    Takes an hour or more of CPU time the first time. Ends with the check that ``import tvm``
    gives this build, with every option that was asked for.

    Example: buildtool host --source ~/tvm && buildtool host exec -- python my_model.py
    """
    if context.invoked_subcommand is not None:
        return
    values = dict(context.params)
    if from_wheel is not None:
        _use_wheel(from_wheel, venv, device, values)
        return
    from buildtool.api import build_profile
    from buildtool.host import check as checks
    from buildtool.verify import report as reports

    line = build_profile("host", build_request(values))
    environment = _environment(line, venv)
    report = checks.check(environment, line.artifacts)
    if as_json:
        show_lines([line], True, extra={"check": reports.as_dict(report), "venv": str(environment.venv)})
    else:
        show_lines([line], False)
        reports.show(report)
    _remember(line.settings, environment)
    if not report.ok:
        raise typer.Exit(EXIT_FAILED)


def _environment(line: Line, venv: Path | None) -> HostEnvironment:
    from buildtool.build.layout import build_root
    from buildtool.host.environment import make

    place = venv or build_root(line.settings) / "venv-host"
    return make(place, line.source.root, line.artifacts.root, line.source.version)


def _use_wheel(version: str, venv: Path | None, spec: str, values: dict[str, object]) -> None:
    from buildtool.build.layout import build_root
    from buildtool.cli.built import open_built, toolchain_of
    from buildtool.devices import open_device
    from buildtool.host import wheels
    from buildtool.verify import report as reports

    request = build_request(values)
    if request.build_dir is not None:
        raise UsageError("--from-wheel builds nothing", where="--build-dir", fix="leave it out")
    artifacts, settings = open_built(None, None, request.settings)
    release = wheels.choose(version, artifacts.version)
    toolchain, _ = toolchain_of(artifacts, settings)
    if "tvm_rpc" not in {a.name for a in artifacts.artifacts}:
        raise UsageError("the last build has no tvm_rpc to try the wheel against", where=str(artifacts.root))
    place = venv or build_root(settings) / "venv-host"
    environment = wheels.install(place, release)
    target = open_device(spec, settings=settings, toolchain=toolchain)
    try:
        report = wheels.prove(environment, artifacts, toolchain, target, release)
    finally:
        target.close()
    _remember(settings, environment)
    if values.get("as_json"):
        print_json({"wheel": release.tvm, "venv": str(environment.venv), "report": reports.as_dict(report)})
    else:
        reports.show(report)
        screen.step(f"apache-tvm {release.tvm} matches the runtime {artifacts.version}: {environment.venv}")


_STATE = "host-environment.json"


def _remember(settings: object, environment: HostEnvironment) -> None:
    """So that env, shell and exec need no flags."""
    from buildtool.build.layout import build_root
    from buildtool.core.files import write_json

    paths = {
        "venv": str(environment.venv),
        "libraries": str(environment.libraries) if environment.libraries else None,
        "packages": str(environment.packages) if environment.packages else None,
    }
    write_json(build_root(settings) / _STATE, paths)  # type: ignore[arg-type]


def _last(settings_file: Path | None) -> HostEnvironment:
    from buildtool.build.layout import build_root
    from buildtool.core.files import read_json
    from buildtool.host.environment import HostEnvironment
    from buildtool.settings import load

    place = build_root(load(settings_file)) / _STATE
    if not place.is_file():
        raise UsageError("no host compiler here yet", where=str(place), fix="run: buildtool host")
    paths = {key: Path(value) if value else None for key, value in read_json(place).items()}
    venv = paths["venv"]
    assert venv is not None
    found = HostEnvironment(venv, paths["libraries"], paths["packages"])
    if not found.python.exists():
        raise UsageError("the host environment is gone", where=str(venv), fix="run: buildtool host")
    return found


@app.command()
def env(settings: SettingsFile = None, as_json: Json = False) -> None:
    """Print the variables of the last host environment, for a shell.

    Example: eval "$(buildtool host env)"
    """
    variables = _last(settings).variables()
    if as_json:
        print_json(variables)
        return
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")


@app.command(name="exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def execute(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND…", help="Program and its arguments.")],
    settings: SettingsFile = None,
) -> None:
    """Run a program in the last host environment; its exit code is ours.

    Example: buildtool host exec -- python -c 'import tvm; print(tvm.__version__)'
    """
    _become(settings, command)


@app.command()
def shell(settings: SettingsFile = None) -> None:
    """Start your shell in the last host environment.

    Example: buildtool host shell
    """
    import os

    _become(settings, [os.environ.get("SHELL") or "/bin/sh"])


def _become(settings: Path | None, command: list[str]) -> None:
    import os

    from buildtool.core.process import which

    variables = {**os.environ, **_last(settings).variables()}
    program = which(command[0], path=variables["PATH"])
    if program is None:
        raise UsageError(f"no such program: {command[0]}", where="PATH of the host environment")
    os.execve(program, command, variables)  # noqa: S606 - no shell: an argument list


@app.command(name="check")
def check_command(
    dist: Annotated[
        Path | None, typer.Argument(metavar="[DIST]", help="Default: the last host build.")
    ] = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Check again that ``import tvm`` gives the build with every option that was asked for.

    Example: buildtool host check --json
    """
    from buildtool.cli.built import open_built
    from buildtool.host import check as checks
    from buildtool.verify import report as reports

    artifacts, _ = open_built(dist, None if dist else "host", settings)
    report = checks.check(_last(settings), artifacts)
    (reports.show_json if as_json else reports.show)(report)
    if not report.ok:
        raise typer.Exit(EXIT_FAILED)


def wheel(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the wheel goes.")
    ] = Path("dist"),
    source: Source = None,
    settings: SettingsFile = None,
    sets: Sets = None,
    jobs: Jobs = None,
    cache: Cache = None,
    build_type: BuildType = None,
    build_dir: BuildDir = None,
    clml: Clml = None,
    locked: Locked = False,
    link_static: Static = False,
    as_json: Json = False,
) -> None:
    """Make a wheel of the host compiler with the tree's own back-end, and import it in a clean environment.

    Example: buildtool wheel --source ~/tvm --link-static -o wheels
    """
    from buildtool.api import open_context, plan_profile
    from buildtool.host import check as checks
    from buildtool.host import wheel as wheels

    given = locals()
    request = build_request({k: given[k] for k in given if k not in ("output", "as_json")})
    context = open_context(request)
    plan = plan_profile("host", context)
    output.mkdir(parents=True, exist_ok=True)
    made = wheels.build_wheel(plan, output.absolute())
    clean = plan.build_dir.with_name(f"{plan.build_dir.name}-wheel") / "venv"
    environment = wheels.try_in_clean_venv(made, plan.source.root, clean)
    found = checks.ask(environment)
    tag, outside = wheels.audit(made)
    if outside:
        names = ", ".join(outside)
        screen.warn(f"the wheel needs {names} where it is installed (--link-static avoids LLVM's)")
    if as_json:
        size = made.stat().st_size
        print_json({"wheel": str(made), "size": size, "platform": tag, "needs": outside, "imported": found})
    else:
        print(made)
        screen.info(f"auditwheel: {tag or 'not installed, not asked (pip install auditwheel)'}")
        screen.step(f"imported in a clean environment: tvm {found['version']}, LLVM {found['llvm']}")
