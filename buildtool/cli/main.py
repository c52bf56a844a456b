"""The ``buildtool`` program: options common to all commands, and errors made readable."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from buildtool import __version__
from buildtool.core.console import print_json, screen
from buildtool.core.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_TERMINATED,
    BuildtoolError,
    Terminated,
    did_you_mean,
)

# Command name -> (module in buildtool.cli, attribute, the line shown by --help).
# A module is imported only when its command runs, so that --help stays fast.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "init": ("init", "init", "Write a commented buildtool.toml."),
    "doctor": (
        "doctor",
        "doctor",
        "Check this machine: tools, toolchains, disk, memory, and how to fix them.",
    ),
    "source": ("source", "app", "Get a TVM tree; show its version, options and capabilities."),
    "config": ("config", "app", "Show the resolved settings and where each value came from."),
    "profile": ("profile", "app", "List, show, render and check config.cmake profiles."),
    "android": ("build", "android", "Cross-build the runtime for Android with the NDK."),
    "linux-aarch64": ("build", "linux_aarch64", "Cross-build the runtime for aarch64 Linux boards."),
    "host-runtime": ("build", "host_runtime", "Build the runtime for this machine, without a compiler."),
    "host": ("host", "app", "TVM's compiler for this machine, from source or a wheel; env, exec, shell."),
    "wheel": ("host", "wheel", "Make a wheel of the host compiler, and import it."),
    "build": ("build", "build", "Build any profile, also your own."),
    "verify": ("verify", "verify", "Prove that the built files are right and run on a device."),
    "run": ("run", "run", "Run a model with rtvm on a device and compare its outputs."),
    "package": ("package", "app", "Pack what was built for others; check what was received."),
    "devices": ("device", "devices", "List the devices that can be used."),
    "rpc": ("rpc", "app", "TVM RPC tracker and servers on devices."),
    "ndk": ("ndk", "app", "Find, list and install Android NDKs."),
}


class LazyGroup(TyperGroup):
    """Loads a command's module when the command is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module_name, attribute, _ = COMMANDS[cmd_name]
        module = importlib.import_module(f"buildtool.cli.{module_name}")
        target = getattr(module, attribute)
        if isinstance(target, typer.Typer):
            command = typer.main.get_command(target)
        else:
            app = typer.Typer(add_completion=False, rich_markup_mode=None)
            app.command(cmd_name)(target)
            command = typer.main.get_command(app)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            near = did_you_mean(args[0], COMMANDS)
            hint = f" Did you mean {near!r}?" if near else f" Commands: {', '.join(COMMANDS)}."
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in COMMANDS])
        self.format_options(ctx, formatter)
        self.format_epilog(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        # The base class would load every command to print its first help line.
        records = [r for p in self.get_params(ctx) if (r := p.get_help_record(ctx)) is not None]
        with formatter.section("Options"):
            formatter.write_dl(records)


app = typer.Typer(
    cls=LazyGroup,
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Build, verify and release Apache TVM for Qualcomm Adreno (Android and Linux) targets.",
    epilog="Example: buildtool linux-aarch64 --source ~/tvm && buildtool verify --profile linux-aarch64",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"buildtool {__version__}")
        raise typer.Exit


@app.callback()
def common(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks and every program that runs.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only errors, warnings and results.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and end.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    screen.debug = debug or bool(os.environ.get("BUILDTOOL_DEBUG"))
    screen.quiet = quiet


def _terminate(signum: int, frame: FrameType | None) -> None:
    raise Terminated(signum)


_OS_FIXES = {
    errno.ENOSPC: "free some disk space, or set build.dir / BUILDTOOL_CACHE_DIR to another disk",
    errno.EACCES: "check the owner and mode of that path",
    errno.EPERM: "check the owner and mode of that path",
    errno.EROFS: "the file system is read-only: set build.dir / BUILDTOOL_CACHE_DIR to a writable one",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}


def _from_os_error(exc: OSError) -> BuildtoolError:
    """Disk full, no permission and their like, as one clear message."""
    number = exc.errno or 0
    where = " -> ".join(str(name) for name in (exc.filename, exc.filename2) if name)
    return BuildtoolError(exc.strerror or str(exc), where=where or None, fix=_OS_FIXES.get(number))


def _report(error: BuildtoolError, arguments: list[str]) -> int:
    screen.error(error.lines())
    if "--json" in arguments:
        print_json(error.as_dict())
    return error.exit_code


def main(arguments: list[str]) -> int:
    """Run one command and return its exit code; no exception leaves but SystemExit's code."""
    for signum in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, _terminate)
    try:
        return _run(arguments)
    except BuildtoolError as exc:
        if screen.debug:
            raise
        return _report(exc, arguments)
    except KeyboardInterrupt:
        screen.error(["interrupted"])
        return EXIT_INTERRUPTED
    except Terminated as exc:
        screen.error([f"ended by {signal.Signals(exc.signum).name}"])
        return EXIT_TERMINATED
    except BrokenPipeError:
        # The reader of stdout went away (| head): nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except OSError as exc:
        if screen.debug:
            raise
        return _report(_from_os_error(exc), arguments)


def _run(arguments: list[str]) -> int:
    try:
        result: Any = app(args=arguments, prog_name="buildtool", standalone_mode=False)
    except typer.Exit as exc:
        return exc.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    except Exception as exc:
        # typer's usage errors; their class moved between typer releases.
        if hasattr(exc, "show") and hasattr(exc, "exit_code"):
            exc.show()
            return int(exc.exit_code)
        raise
    return result if isinstance(result, int) else 0


def run() -> None:
    """The console script."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
