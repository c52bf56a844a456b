"""Configure and build one plan."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from buildtool.build import builds_compiler, companion, effects, fileapi, fingerprint
from buildtool.build.environment import build_environment, ignored
from buildtool.build.model import BuildPlan, BuildResult, Effect
from buildtool.build.progress import NINJA_STATUS, BuildProgress
from buildtool.build.tools import link_jobs
from buildtool.core.console import screen
from buildtool.core.errors import BuildFailed, BuildtoolError, UsageError
from buildtool.core.files import atomic_write, locked, read_json
from buildtool.core.paths import data_dir
from buildtool.core.process import Completed, quote, run

CONFIGURE_LOG = "configure.log"
BUILD_LOG = "build.log"
_STATE = "buildtool-state.json"
MINIMUM_FREE = 600 * 1000 * 1000
"""Bytes; a runtime build of the 0.25 tree takes 190 MB, with room for debug information."""


def build(plan: BuildPlan) -> BuildResult:
    """Bring the plan's build folder up to date and return what it holds.

    Nothing is configured when the inputs' digest is the folder's own; Ninja then
    decides what to compile. Raises BuildFailed with the failing step's own lines.
    """
    begun = time.monotonic()
    _preflight(plan)
    lock = plan.build_dir.with_name(f".{plan.build_dir.name}.lock")
    with locked(lock, what=f"the build folder {plan.build_dir}"):
        wanted = fingerprint.of_plan(plan, _cmake_version(plan))
        configured, proofs = _configure_if_needed(plan, wanted)
        compiled = _ninja(plan)
        outputs = fileapi.linked_files(plan.build_dir, tree_targets(plan))
        if companion.wanted(plan):
            outputs = (*outputs, companion.build_rtvm(plan, outputs, _common_words(plan)))
    missing = [str(path) for path in outputs if not path.is_file()]
    if missing:
        raise BuildFailed("the build ended well but these files are not there", details=missing)
    return BuildResult(
        plan=plan,
        configured=configured,
        compiled=compiled,
        seconds=time.monotonic() - begun,
        outputs=outputs,
        effects=proofs,
        log=plan.build_dir / BUILD_LOG,
    )


def _cmake_version(plan: BuildPlan) -> str:
    """The cmake program's identity; its path and change time stand for its version (asking costs 30 ms)."""
    stat = plan.cmake.stat()
    return f"{plan.cmake}:{stat.st_size}:{int(stat.st_mtime)}"


def _preflight(plan: BuildPlan) -> None:
    """Everything that can be known to fail before the first program runs, all at once."""
    problems: list[str] = []
    fix = None
    if not (plan.source.root / "CMakeLists.txt").is_file():
        problems.append(f"no CMakeLists.txt in the source folder {plan.source.root}")
    if plan.build_dir.resolve() == plan.source.root.resolve():
        problems.append(f"the build folder is the source folder: {plan.build_dir}")
    for character in ("\n", '"', ";"):
        # Ninja and CMake lists can't carry these in a path.
        if character in str(plan.build_dir) or character in str(plan.source.root):
            problems.append(f"the source or build path contains {character!r}, which CMake can't carry")
    if any(c.isspace() for c in f"{plan.build_dir}{plan.source.root}") and _builds_libbacktrace(plan):
        problems.append(
            "the source or build path contains a space, which TVM's libbacktrace (autotools) can't carry: "
            f"{plan.build_dir}; choose another --build-dir, or --set USE_LIBBACKTRACE=OFF"
        )
    try:
        plan.build_dir.mkdir(parents=True, exist_ok=True)
        atomic_write(plan.build_dir / ".writable", "")
        (plan.build_dir / ".writable").unlink()
        free = shutil.disk_usage(plan.build_dir).free
        if free < MINIMUM_FREE:
            problems.append(
                f"only {free // 10**6} MB free in {plan.build_dir}, a build needs {MINIMUM_FREE // 10**6} MB"
            )
    except OSError as exc:
        problems.append(f"can't write to the build folder {plan.build_dir}: {exc.strerror}")
        fix = "name another with --build-dir (build.dir)"
    if problems:
        raise UsageError(
            problems[0] if len(problems) == 1 else f"{len(problems)} things stand in the way of this build",
            details=problems if len(problems) > 1 else (),
            fix=fix,
        )


def _builds_libbacktrace(plan: BuildPlan) -> bool:
    """An autotools sub-build of the tree's own libbacktrace is part of this build."""
    options = {option.name: option.value for option in plan.profile.options}
    values = [options[n] for n in ("USE_LIBBACKTRACE", "TVM_FFI_USE_LIBBACKTRACE") if n in options]
    places = ("3rdparty/libbacktrace", "3rdparty/tvm-ffi/3rdparty/libbacktrace")
    there = any((plan.source.root / place / "configure").is_file() for place in places)
    return there and "OFF" not in (value.upper() for value in values)


def _configure_if_needed(plan: BuildPlan, wanted: fingerprint.Fingerprint) -> tuple[bool, tuple[Effect, ...]]:
    folder = plan.build_dir
    old = fingerprint.recorded(folder)
    if old is not None and old.digest == wanted.digest and (folder / "build.ninja").is_file():
        state = _read_state(folder)
        if state is not None:
            screen.info(f"{plan.profile.name}: inputs unchanged, no configure")
            return False, state
    if old is not None and old.anchor != wanted.anchor:
        what = "source folder" if _only(old.anchor, wanted.anchor, "source") else "toolchain"
        screen.step(f"{folder.name}: {what} changed, building clean")
        for row in fingerprint.differences(old.anchor, wanted.anchor):
            screen.info(row)
        _empty(folder)
    elif old is not None and old.digest != wanted.digest:
        screen.step(f"{folder.name}: options changed, configuring again")
        for row in fingerprint.differences(old.options, wanted.options):
            screen.info(row)
    elif old is None and (folder / "CMakeCache.txt").exists():
        screen.step(f"{folder.name}: left by an unfinished or foreign run, building clean")
        _empty(folder)
    return True, _configure(plan, wanted)


def _only(old: Mapping[str, object], new: Mapping[str, object], name: str) -> bool:
    """Whether ``name`` is the one input that differs."""
    return {**old, name: None} == {**new, name: None}


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def tree_targets(plan: BuildPlan) -> tuple[str, ...]:
    """The profile's targets that the TVM tree itself builds."""
    ours = {companion.NAME} if companion.wanted(plan) else set()
    return tuple(target for target in plan.profile.targets if target not in ours)


def configure_command(plan: BuildPlan) -> list[str]:
    """The cmake call, as an argument list."""
    return [
        str(plan.cmake),
        "-G",
        "Ninja",
        "-S",
        str(plan.source.root),
        "-B",
        str(plan.build_dir),
        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        # The build folder's path would be baked into every RUNPATH.
        "-DCMAKE_SKIP_BUILD_RPATH=ON",
        *_common_words(plan),
    ]


def _common_words(plan: BuildPlan) -> list[str]:
    """Toolchain, build type, cache and linker words: for TVM and for what is built beside it."""
    words = [
        f"-DCMAKE_MAKE_PROGRAM={plan.ninja}",
        f"-DCMAKE_BUILD_TYPE={plan.build_type}",
        f"-DCMAKE_PROJECT_INCLUDE={data_dir('toolchains') / 'inject.cmake'}",
        f"-DBUILDTOOL_LINK_OPTIONS={';'.join(link_options(plan))}",
    ]
    if builds_compiler(plan.profile):
        # Linking takes gigabytes where compiling takes hundreds of megabytes.
        words += [f"-DCMAKE_JOB_POOLS=link={link_jobs(plan.jobs)}", "-DCMAKE_JOB_POOL_LINK=link"]
    if plan.toolchain.toolchain_file is not None:
        words.append(f"-DCMAKE_TOOLCHAIN_FILE={plan.toolchain.toolchain_file}")
    program = plan.launcher.program
    for language in ("C", "CXX"):
        # Always given: a cache chosen by an earlier configure must not stay.
        words.append(f"-DCMAKE_{language}_COMPILER_LAUNCHER={program or ''}")
    words.extend(f"-D{option.name}={option.value}" for option in plan.toolchain.cmake_args)
    return words


def link_options(plan: BuildPlan) -> tuple[str, ...]:
    """Linker words for every shared library and program of the build."""
    words = ["-Wl,--build-id=sha1", "-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"]
    if plan.toolchain.abi.bits == 64:
        # Android 15 devices and some arm64 Linux kernels have 16 KB pages.
        words.append("-Wl,-z,max-page-size=16384")
    return tuple(words)


def _configure(plan: BuildPlan, wanted: fingerprint.Fingerprint) -> tuple[Effect, ...]:
    folder = plan.build_dir
    record = folder / fingerprint.RECORD
    record.unlink(missing_ok=True)  # until cmake has succeeded, this folder is nobody's
    atomic_write(folder / "config.cmake", plan.profile.text)
    fileapi.write_query(folder)
    command = configure_command(plan)
    env = build_environment(plan.toolchain)
    for name in ignored():
        screen.warn(f"{name} is set in the environment and is not passed to the build")
    screen.step(f"configure {folder.name} (TVM {plan.source.version}, {plan.toolchain.version})")
    done = run(command, env=env, check=False, merge=True)
    atomic_write(folder / CONFIGURE_LOG, f"$ {quote(command)}\n{done.stdout}")
    if not done.ok:
        raise _configure_error(plan, done)
    _refuse_notfound(folder)
    proofs = effects.prove(plan, done.stdout)
    atomic_write(folder / _STATE, _state_text(proofs))
    fingerprint.record(
        folder,
        wanted,
        {
            "profile": plan.profile.name,
            "environment": sorted(env),
            "source": {
                "spec": plan.source.spec,
                "pin": asdict(plan.source.pin),
                "version": plan.source.version,
            },
            "options": [asdict(option) for option in plan.profile.options],
            "notes": list(plan.profile.notes),
        },
    )
    return proofs


def _configure_error(plan: BuildPlan, done: Completed) -> BuildtoolError:
    """cmake's own words from its first error on, not the last lines of its log."""
    lines = done.stdout.splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith("CMake Error")), None)
    shown = lines[first : first + 20] if first is not None else lines[-20:]
    return BuildFailed(
        f"cmake could not configure {plan.profile.name}",
        where=str(plan.build_dir / CONFIGURE_LOG),
        details=[line for line in shown if line.strip()],
    )


def _refuse_notfound(folder: Path) -> None:
    """A path that CMake did not find but used: it would fail, or worse succeed, far from here."""
    database = folder / "compile_commands.json"
    if database.is_file() and "-NOTFOUND" in (text := database.read_text(encoding="utf-8")):
        word = next(w for w in text.replace("\\", " ").split() if "-NOTFOUND" in w)
        raise BuildFailed(
            "a path that CMake did not find is used on the compile lines",
            where=str(database),
            found=word,
            fix="an SDK option points at a folder without its headers or libraries; see configure.log",
        )


def _state_text(proofs: tuple[Effect, ...]) -> str:
    import json

    return json.dumps([asdict(p) for p in proofs], indent=1) + "\n"


def _read_state(folder: Path) -> tuple[Effect, ...] | None:
    try:
        return tuple(Effect(**row) for row in read_json(folder / _STATE))
    except (OSError, BuildFailed, TypeError):
        return None


def _ninja(plan: BuildPlan) -> int:
    """Build the profile's targets; returns the number of steps that ran."""
    command = [str(plan.ninja), "-C", str(plan.build_dir), "-j", str(plan.jobs), *tree_targets(plan)]
    env = build_environment(plan.toolchain)
    env["NINJA_STATUS"] = NINJA_STATUS
    log = plan.build_dir / BUILD_LOG
    with (
        log.open("w", encoding="utf-8", buffering=1) as stream,
        BuildProgress(plan.build_dir.name) as progress,
    ):
        stream.write(f"$ {quote(command)}\n")

        def take(line: str) -> None:
            stream.write(line + "\n")
            progress.line(line)

        done = run(command, env=env, on_line=take, merge=True, check=False)
    reader = progress.reader
    if done.ok:
        return 0 if "ninja: no work to do." in done.stdout else reader.done
    raise BuildFailed(
        f"compiling {plan.profile.name} failed at step {reader.done} of {reader.total}"
        if reader.failures
        else f"ninja failed with exit code {done.returncode}",
        where=str(log),
        details=reader.failure_lines() or done.tail(),
    )
