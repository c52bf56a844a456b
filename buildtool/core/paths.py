"""Where things lie: the user's cache folder and the data files shipped with the package."""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "BUILDTOOL_CACHE_DIR"


def cache_dir() -> Path:
    """The user's cache folder (``BUILDTOOL_CACHE_DIR``, else the platform's own)."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("buildtool", appauthor=False)


def data_dir(name: str) -> Path:
    """A folder of shipped data: ``cmake_templates``, ``toolchains`` or ``native``.

    In a wheel the folders lie inside the package; in a checkout or an editable
    install they lie beside it, where the package's own sources are.
    """
    package = Path(__file__).resolve().parent.parent
    for candidate in (package / "_data" / name, package.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"buildtool's own data folder {name!r} is missing; reinstall buildtool")
