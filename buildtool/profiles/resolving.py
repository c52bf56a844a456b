"""From a profile's name to the finished config.cmake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from buildtool.core.errors import ConfigError
from buildtool.core.types import Option
from buildtool.profiles import blocks, proofs, rendering, validate
from buildtool.profiles.builtin import Definition, define
from buildtool.profiles.model import Profile
from buildtool.settings.model import Settings
from buildtool.settings.problems import raise_all
from buildtool.sources.model import TvmSource

if TYPE_CHECKING:
    from buildtool.toolchains.clml import ClmlSdk
    from buildtool.toolchains.model import Toolchain

# Targets that capabilities tell of; any other name is passed on to the build as it is.
_KNOWN_TARGETS = ("tvm", "tvm_compiler", "tvm_runtime", "tvm_rpc", "rtvm")
# Targets that exist only while an option is on.
_TARGET_OPTIONS = {"tvm_rpc": "USE_CPP_RPC", "rtvm": "USE_CPP_RTVM"}
BACKTRACE_OPTIONS = {"USE_LIBBACKTRACE", "TVM_FFI_USE_LIBBACKTRACE"}


def resolve(
    name: str,
    source: TvmSource,
    settings: Settings,
    *,
    sets: Sequence[str] = (),
    toolchain: Toolchain | None = None,
    clml: ClmlSdk | None = None,
    llvm: str | None = None,
) -> Profile:
    """The profile fitted to this tree, with its config.cmake.

    ``sets`` are ``NAME=VALUE`` texts of --set; they win over the settings, which win
    over the profile. The text depends on the arguments alone. Without ``toolchain``
    (only looking) the target triple is the ABI's usual one. ``llvm`` is the value of USE_LLVM
    that was found for a compiler (None: as settings say, else ON). Raises ConfigError that
    lists everything wrong with what the user asked for.
    """
    definition = define(name, settings)
    asked, notes = _asked_options(definition, source, settings, sets)
    targets = _targets(definition, source, settings, asked, notes)
    recorder = rendering.Recorder(source, name, asked)
    context = blocks.context(
        definition,
        source,
        settings,
        toolchain=toolchain,
        clml=clml,
        llvm=llvm,
        asked={option.name: option.value for option in asked.values()},
    )
    if context["backtrace"] == blocks.Backtrace("OFF") and not {*asked} & BACKTRACE_OPTIONS:
        notes.append("stack traces are off: libbacktrace (autotools) refuses a path with a space")
    text = rendering.render(
        definition.base.name, {"profile": name, "version": source.version, **context}, recorder
    )
    linux = toolchain.system == "Linux" if toolchain else definition.toolchain != "ndk"
    values = {option.name: option.value for option in recorder.options}
    return Profile(
        name=name,
        toolchain=definition.toolchain,
        abi=definition.abi,
        targets=targets,
        options=tuple(recorder.options),
        notes=(*notes, *recorder.notes),
        text=text,
        expected_defines=proofs.expected_defines(values, linux=linux, clml=clml),
    )


def _asked_options(
    definition: Definition, source: TvmSource, settings: Settings, sets: Sequence[str]
) -> tuple[dict[str, Option], list[str]]:
    """What the user asks for, by its name in this tree, checked; and notes about it."""
    problems: list[ConfigError] = []
    notes: list[str] = []
    asked: dict[str, Option] = {}
    for layer in (*_settings_layers(definition, settings), _set_layer(sets, problems)):
        seen: dict[str, str] = {}
        for option, where in layer:
            problem = validate.check_name(option.name, source, where)
            actual = validate.name_in(source, option.name) or option.name
            twin = seen.setdefault(actual.lower(), option.name)
            if twin != option.name:
                problem = ConfigError(
                    f"{twin} and {option.name} are one option", where=where, fix="keep one of them"
                )
            value = validate.translated(option.name, actual, option.value)
            fitted = Option(actual, value, option.origin)
            problem = problem or validate.check_value(fitted, source, cross=definition.cross, where=where)
            if problem:
                problems.append(problem)
                continue
            if actual != option.name:
                notes.append(f"{option.name} is called {actual} in this tree")
            if actual == "USE_LLVM" and definition.cross and not validate.is_off(value):
                notes.append("USE_LLVM must name the llvm-config of an LLVM built for the target")
            asked[actual] = fitted
    raise_all(problems, f"problems in the options of profile {definition.name}")
    return asked, notes


Layer = list[tuple[Option, str]]


def _settings_layers(definition: Definition, settings: Settings) -> list[Layer]:
    """Each [profiles.NAME.options] that holds, with the exact place of every option for errors.

    The options' own origin leaves out file and line: it goes into the rendered file,
    which must not change when the settings file is moved or other lines are added.
    """
    return [
        [
            (
                Option(option, validate.normal(value), f"buildtool.toml [profiles.{profile}.options]"),
                settings.origin(f"profiles.{profile}.options.{option}"),
            )
            for option, value in layer.options.items()
        ]
        for profile, layer in definition.layers
    ]


def _set_layer(sets: Sequence[str], problems: list[ConfigError]) -> Layer:
    layer: Layer = []
    names: set[str] = set()
    for text in sets:
        name, equals, value = text.partition("=")
        where = f"--set {text}"
        if not equals or not name:
            problems.append(ConfigError(f"--set takes NAME=VALUE, not {text!r}"))
        elif name in names:
            problems.append(ConfigError(f"--set gives {name} twice", where=where, fix="keep one"))
        else:
            layer.append((Option(name, validate.normal(value), "--set"), where))
        names.add(name)
    return layer


def _targets(
    definition: Definition,
    source: TvmSource,
    settings: Settings,
    asked: Mapping[str, Option],
    notes: list[str],
) -> tuple[str, ...]:
    """The build targets: the user's as they are, the profile's own as far as this tree has them."""
    have = source.capabilities.targets
    off = {t: o for t, o in _TARGET_OPTIONS.items() if o in asked and validate.is_off(asked[o].value)}
    if definition.asked_targets is not None:
        profile, targets = definition.asked_targets
        _check_targets(targets, source, off, where=settings.origin(f"profiles.{profile}.targets"))
        return tuple(dict.fromkeys(targets))
    # Newer trees build the compiler as tvm_compiler; their tvm links over the others' files.
    compiler = "tvm_compiler" if "tvm_compiler" in have else "tvm"
    wanted = [compiler if target == "tvm" else target for target in definition.base.targets]
    if "rtvm" in wanted and "rtvm" not in have and _ffi_headers(source):
        notes.append("target rtvm is buildtool's own: this tree has none")
        have = have | {"rtvm"}
    for target in wanted:
        if target not in have:
            notes.append(f"target {target} is left out: this tree has none")
        elif target in off:
            notes.append(f"target {target} is left out: {off[target]} is off")
    kept = tuple(target for target in wanted if target in have and target not in off)
    if not kept or "tvm_runtime" in set(wanted) - set(kept):
        what = (
            "has no target tvm_runtime" if kept else f"has none of the targets of profile {definition.name}"
        )
        raise ConfigError(
            f"this TVM ({source.version}) {what}",
            where=str(source.root),
            expected=", ".join(definition.base.targets),
            found=", ".join(sorted(have)) or "no target",
            fix="give the top folder of an unchanged TVM tree, or git+URL@TAG to fetch one",
        )
    return kept


def _ffi_headers(source: TvmSource) -> bool:
    """The tree has the C++ headers (v0.21 and later) that buildtool's own rtvm is built against."""
    folders = ("3rdparty/tvm-ffi/include", "ffi/include")
    return any((source.root / folder / "tvm" / "ffi" / "any.h").is_file() for folder in folders)


def _check_targets(targets: Sequence[str], source: TvmSource, off: Mapping[str, str], *, where: str) -> None:
    have = source.capabilities.targets | ({"rtvm"} if _ffi_headers(source) else set())
    missing = [target for target in targets if target in _KNOWN_TARGETS and target not in have]
    switched_off = [target for target in targets if target in off]
    expected = f"among {', '.join(sorted(have))}"
    if not targets:
        raise ConfigError("the list of targets is empty", where=where, expected=expected)
    if "all" in targets:
        raise ConfigError(
            "the target 'all' builds TVM's compiler for the target too", where=where, expected=expected
        )
    if missing:
        raise ConfigError(
            f"this TVM ({source.version}) has no target {', '.join(missing)}", where=where, expected=expected
        )
    if switched_off:
        raise ConfigError(
            f"target {switched_off[0]} cannot be built: {off[switched_off[0]]} is off", where=where
        )
