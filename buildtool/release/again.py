"""Building a release once more, in another way: what differs then was no property of the source."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from buildtool.artifacts import ArtifactSet
from buildtool.core.errors import BuildFailed, UsageError
from buildtool.release import reproducible

_ELSEWHERE = {"TZ": "Pacific/Kiritimati", "LANG": "C", "LC_ALL": "C"}


@contextlib.contextmanager
def rebuilt(
    profile: str,
    abi: str,
    options: Mapping[str, str],
    toolchain: Mapping[str, Any],
    *,
    source: str,
    ndk: str | None,
    settings: Path | None,
) -> Iterator[ArtifactSet]:
    """The same built in a new folder, with one job, no compiler cache, another locale and time zone.

    It is gone after the block. ``options`` and ``toolchain`` are those of a manifest or build record.
    """
    from buildtool.api import Request, build_profile
    from buildtool.profiles.known import OWNED, OWNED_PREFIXES

    name, level = str(toolchain.get("name")), toolchain.get("api_level")
    if name == "ndk" and ndk is None:
        raise UsageError("the NDK that the release was built with is not known", fix="name it with --ndk")
    # What the first build had from --set is known by its values only.
    sets = [
        f"{option}={value}"
        for option, value in options.items()
        if option not in OWNED and not option.startswith(tuple(OWNED_PREFIXES))
    ]
    saved = {variable: os.environ.get(variable) for variable in _ELSEWHERE}
    with tempfile.TemporaryDirectory(prefix="buildtool-again-") as folder:
        request = Request(
            source=source,
            settings=settings,
            sets=sets,
            toolchain=name if name in ("gcc", "clang", "zig") else None,
            abi=abi,
            api_level=level if isinstance(level, int) else None,
            build_dir=str(Path(folder) / "elsewhere"),
            ndk=ndk,
            jobs=1,
            cache="none",
        )
        os.environ.update(_ELSEWHERE)
        try:
            made = build_profile(profile, request).artifacts
        finally:
            for variable, value in saved.items():
                os.environ.pop(variable, None)
                if value is not None:
                    os.environ[variable] = value
        yield made


def differences(artifacts: ArtifactSet, settings: Path | None) -> list[str]:
    """What differs between a build and the same built again; [] when nothing does."""
    with rebuilt(
        artifacts.profile,
        artifacts.abi.value,
        artifacts.options,
        artifacts.toolchain,
        source=artifacts.source_dir,
        ndk=artifacts.ndk_dir,
        settings=settings,
    ) as again:
        return reproducible.differences(artifacts, again)


def check(record: Mapping[str, Any], *, source: str, ndk: str | None, settings: Path | None) -> str:
    """Build what a build record tells of and compare; the line that says so.

    Raises BuildFailed for other bytes, another source than the record's, or another compiler.
    """
    with rebuilt(
        record["profile"],
        record["abi"],
        record["options"],
        record["toolchain"],
        source=source,
        ndk=ndk,
        settings=settings,
    ) as again:
        for what, told, seen in (
            ("source", record["source"]["pin"], again.pin),
            ("compiler", record["toolchain"]["version"], again.toolchain.get("version")),
        ):
            if told != seen:
                raise BuildFailed(f"another {what} than the record's", expected=str(told), found=str(seen))
        wanted = {
            name.split("/")[-1]: digest
            for name, digest in record["files"].items()
            if name.count("/") == 1 and name.startswith(("bin/", "lib/"))
        }
        found = {a.name: a.sha256 for a in again.artifacts}
    odd = sorted(n for n in {*wanted, *found} if wanted.get(n) != found.get(n))
    if odd:
        raise BuildFailed("a rebuild gives other bytes", found=", ".join(odd))
    return f"{len(found)} files equal in a rebuild from the record"
