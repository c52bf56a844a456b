"""A Python environment in which ``import tvm`` gives the compiler that buildtool built."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buildtool.core.console import screen
from buildtool.core.errors import BuildFailed, ConfigError
from buildtool.core.files import digest_of, read_json, write_json
from buildtool.core.process import run

RECORD = "buildtool-venv.json"
_PTH = "buildtool_tvm.pth"
_FFI_FOLDERS = ("3rdparty/tvm-ffi", "ffi")


@dataclass(frozen=True)
class HostEnvironment:
    """A virtual environment; ``libraries`` holds libtvm*.so and ``packages`` the tree's Python.

    Both are None where the environment has a wheel of TVM instead.
    """

    venv: Path
    libraries: Path | None = None
    packages: Path | None = None

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    def variables(self) -> dict[str, str]:
        """What a shell needs so that ``python`` and ``import tvm`` are these."""
        path = os.environ.get("PATH", "")
        found = {"VIRTUAL_ENV": str(self.venv), "PATH": f"{self.venv / 'bin'}{os.pathsep}{path}"}
        if self.libraries is not None and self.packages is not None:
            found |= {"TVM_LIBRARY_PATH": str(self.libraries), "PYTHONPATH": str(self.packages)}
        return found


def requirements(tree: Path) -> tuple[str, ...]:
    """The Python packages that the tree's own files say tvm needs, tvm-ffi left out.

    Read from ``[project] dependencies`` of pyproject.toml, else from the ``core`` piece of
    python/gen_requirements.py (relay era). Raises ConfigError when neither says.
    """
    data = _pyproject(tree)
    listed = data.get("project", {}).get("dependencies")
    if listed is None:
        listed = _gen_requirements(tree / "python" / "gen_requirements.py")
    if listed is None:
        raise ConfigError(
            "this TVM tree does not say which Python packages it needs",
            where=str(tree),
            expected="[project] dependencies in pyproject.toml, or python/gen_requirements.py",
        )
    names = [str(word) for word in listed]
    return tuple(sorted(name for name in names if not name.startswith("apache-tvm-ffi")))


def _pyproject(tree: Path) -> dict[str, Any]:
    import msgspec

    path = tree / "pyproject.toml"
    try:
        data: dict[str, Any] = msgspec.toml.decode(path.read_bytes())
    except OSError:
        return {}
    except msgspec.DecodeError as exc:
        raise ConfigError(f"not a TOML file: {exc}", where=str(path)) from exc
    return data


def _gen_requirements(path: Path) -> list[str] | None:
    """The ``core`` piece with its version limits; the file is read as text, never run."""
    try:
        module = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        return None
    values: dict[str, Any] = {}
    for node in module.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        for target in targets:
            if isinstance(target, ast.Name):
                try:
                    values[target.id] = ast.literal_eval(node.value)
                except ValueError:
                    continue
    pieces = dict(values.get("REQUIREMENTS_BY_PIECE", ()))
    if "core" not in pieces:
        return None
    limits = {name: limit for name, limit in values.get("CONSTRAINTS", ()) if limit}
    # A caret is poetry's word for "this major": pip has none.
    return [name + _limit(limits.get(name, "")) for name in pieces["core"][1]]


def _limit(text: str) -> str:
    if not text.startswith("^"):
        return text if text[:1] in "<>=!~" else (f"=={text}" if text else "")
    major = int(text[1:].split(".", maxsplit=1)[0])
    return f">={text[1:]},<{major + 1}"


def ffi_project(tree: Path) -> Path | None:
    """The tree's own tvm-ffi Python project, None where tvm needs none."""
    for name in _FFI_FOLDERS:
        folder = tree / name
        if (folder / "pyproject.toml").is_file() and (folder / "python" / "tvm_ffi").is_dir():
            return folder
    return None


def make(venv: Path, tree: Path, libraries: Path, version: str) -> HostEnvironment:
    """The environment for a built compiler; nothing is installed when it is there already.

    Raises BuildFailed with pip's own words.
    """
    environment = HostEnvironment(venv.absolute(), libraries.absolute(), (tree / "python").absolute())
    needed, ffi = requirements(tree), ffi_project(tree)
    wanted = {
        "python": sys.version.split()[0],
        "requirements": list(needed),
        "ffi": str(ffi or ""),
        "version": version,
    }
    if _ready(environment, wanted):
        _point(environment)
        return environment
    _create(environment.venv)
    words = [*needed, *([str(ffi)] if ffi else [])]
    if words:
        screen.step(f"install {' '.join(words)}")
        install(environment, words)
    _point(environment)
    write_json(environment.venv / RECORD, {"digest": digest_of(wanted), **wanted})
    return environment


def make_with_wheel(venv: Path, packages: Sequence[str]) -> HostEnvironment:
    """A new environment with released wheels. Raises BuildFailed with pip's own words."""
    environment = HostEnvironment(venv.absolute())
    wanted = {"python": sys.version.split()[0], "wheels": list(packages)}
    if _ready(environment, wanted):
        return environment
    _create(environment.venv)
    screen.step(f"install {' '.join(packages)}")
    install(environment, packages)
    write_json(environment.venv / RECORD, {"digest": digest_of(wanted), **wanted})
    return environment


def _ready(environment: HostEnvironment, wanted: dict[str, Any]) -> bool:
    try:
        record = read_json(environment.venv / RECORD)
    except (OSError, BuildFailed):
        return False
    return (
        isinstance(record, dict)
        and record.get("digest") == digest_of(wanted)
        and (environment.python.exists())
    )


def _create(venv: Path) -> None:
    """A fresh venv; one that is not ours is refused, never emptied."""
    if venv.exists() and any(venv.iterdir()) and not (venv / "pyvenv.cfg").is_file():
        raise ConfigError(
            "this folder is not a virtual environment",
            where=str(venv),
            fix="name an empty folder with --venv",
        )
    (venv / RECORD).unlink(missing_ok=True)
    screen.step(f"make the virtual environment {venv}")
    run([sys.executable, "-m", "venv", "--clear", venv], timeout=300, what="python -m venv")


def install(environment: HostEnvironment, words: Sequence[str]) -> None:
    """pip install into the environment. Raises BuildFailed with pip's last lines."""
    done = run(
        [environment.python, "-m", "pip", "--disable-pip-version-check", "install", "-q", *words],
        # A tree from an archive has no git history to take the version of tvm-ffi from.
        env={**os.environ, "SETUPTOOLS_SCM_PRETEND_VERSION_FOR_APACHE_TVM_FFI": "0.1.0"},
        timeout=3600,
        check=False,
        merge=True,
    )
    if not done.ok:
        raise BuildFailed(
            f"pip could not install {' '.join(words)}", where=str(environment.venv), details=done.tail(15)
        )


def _point(environment: HostEnvironment) -> None:
    """Let the environment's own Python find the tree and the libraries, also without our variables."""
    folder = next(iter((environment.venv / "lib").glob("python*/site-packages")))
    lines = [
        str(environment.packages),
        f"import os; os.environ.setdefault('TVM_LIBRARY_PATH', {str(environment.libraries)!r})",
    ]
    text = "\n".join(lines) + "\n"
    path = folder / _PTH
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
