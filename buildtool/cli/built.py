"""What was built before: the folder that is meant, what is in it, and the toolchain that made it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from buildtool.core.errors import BuildtoolError, UsageError

if TYPE_CHECKING:
    from buildtool.artifacts import ArtifactSet
    from buildtool.settings import Settings
    from buildtool.toolchains.model import Toolchain


def open_built(
    dist: Path | None, profile: str | None, settings_file: Path | None
) -> tuple[ArtifactSet, Settings]:
    """The files in ``dist``, else of the profile's last build, else of the newest; and the settings.

    The settings name the NDK that built the files, wherever ANDROID_NDK_HOME points now.
    """
    from buildtool.artifacts import load as load_artifacts
    from buildtool.settings import load as load_settings

    settings = load_settings(settings_file)
    artifacts = load_artifacts(dist or _last_dist(settings, profile))
    if artifacts.ndk_dir and Path(artifacts.ndk_dir).is_dir():
        settings = load_settings(settings_file, flags={"toolchains.ndk": artifacts.ndk_dir})
    return artifacts, settings


def _last_dist(settings: Settings, profile: str | None) -> Path:
    """The newest folder below the build folder's dist, of ``profile`` when that is named."""
    from buildtool.artifacts.store import MANIFEST
    from buildtool.build.layout import build_root

    below = build_root(settings) / "dist"
    found = [m for m in below.glob(f"*/{MANIFEST}") if profile is None or _profile_of(m) == profile]
    if not found:
        raise UsageError(
            "nothing built yet" + (f" for the profile {profile}" if profile else ""),
            where=str(below),
            fix=f"build first: buildtool build {profile or 'PROFILE'}, or name the folder",
        )
    return max(found, key=lambda m: m.stat().st_mtime).parent


def _profile_of(manifest: Path) -> object:
    from buildtool.core.files import read_json

    data = read_json(manifest)
    return data.get("profile") if isinstance(data, dict) else None


def toolchain_of(artifacts: ArtifactSet, settings: Settings) -> tuple[Toolchain | None, str]:
    """The toolchain named in the manifest, or None and why not."""
    from buildtool.toolchains import find

    name, level = str(artifacts.toolchain.get("name")), artifacts.toolchain.get("api_level")
    try:
        api_level = level if isinstance(level, int) else None
        return find(name, settings=settings, abi=artifacts.abi, api_level=api_level), ""
    except BuildtoolError as exc:
        return None, f"the toolchain {name} that built these files was not found: {exc.what}"


def for_android(artifacts: ArtifactSet) -> str | None:
    """A program among the files that Android's own loader must start, or None.

    By the files, not the toolchain's name: a stand-in NDK's programs name glibc's loader.
    """
    return next(
        (a.name for a in artifacts.artifacts if (a.elf.interpreter or "").startswith("/system/")), None
    )
