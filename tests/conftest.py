"""Shared fixtures: the real TVM tree, its builds, and a private cache for everything else.

Builds lie in ``.test-builds`` beside the tests, so that a second run is incremental.
``BUILDTOOL_TEST_SOURCE`` names another TVM tree than the registry's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from buildtool.api import Line
    from buildtool.build.model import BuildResult
    from buildtool.sources.model import TvmSource
    from tests.standins.adbd import AdbServer

ROOT = Path(__file__).resolve().parent.parent
BUILDS = ROOT / ".test-builds"
DEMO_SETTINGS = ROOT / "examples" / "demo" / "buildtool.toml"

# A test runner started in the background has SIGINT ignored, and every child would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _private_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the machine's own settings, NDK, TVM or devices unless it asks."""
    for name in list(os.environ):
        if name.startswith("BUILDTOOL_") and not name.startswith(("BUILDTOOL_TEST_", "BUILDTOOL_CACHE_")):
            monkeypatch.delenv(name)
    for name in ("TVM_HOME", "ANDROID_SERIAL", "CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder for tests that fetch or write to the cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("BUILDTOOL_CACHE_DIR", str(folder))
    return folder


def _request(profile: str) -> Line:
    from buildtool import api

    request = api.Request(
        settings=DEMO_SETTINGS,
        source=os.environ.get("BUILDTOOL_TEST_SOURCE"),
        build_dir=str(BUILDS / "real"),
    )
    return api.build_profile(profile, request)


@pytest.fixture(scope="session")
def tvm_source() -> TvmSource:
    """The real TVM tree from the registry (or BUILDTOOL_TEST_SOURCE)."""
    from buildtool import api

    request = api.Request(settings=DEMO_SETTINGS, source=os.environ.get("BUILDTOOL_TEST_SOURCE"))
    return api.open_context(request).source


@pytest.fixture(scope="session")
def aarch64_line() -> Line:
    """The real tree, built for linux-aarch64 and collected (minutes when cold)."""
    return _request("linux-aarch64")


@pytest.fixture(scope="session")
def aarch64_build(aarch64_line: Line) -> BuildResult:
    return aarch64_line.result


@pytest.fixture(scope="session")
def host_runtime_line() -> Line:
    """The real tree's runtime, built for this machine and collected (minutes when cold)."""
    return _request("host-runtime")


@pytest.fixture(scope="session")
def host_runtime_build(host_runtime_line: Line) -> BuildResult:
    return host_runtime_line.result


@pytest.fixture(scope="session")
def tvm_python() -> Path:
    """An interpreter with apache-tvm; skips, saying why, where there is none."""
    script = "import tvm, tvm.rpc, numpy"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        pytest.skip(f"this Python has no usable apache-tvm ({last}); pip install 'buildtool[host]'")
    return Path(sys.executable)


@pytest.fixture
def adb_server(tmp_path: Path, private_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AdbServer]:
    """A private adb server for emulated phones; what runs here uses it."""
    from tests.standins.adbd import AdbServer, need_phones

    need_phones()
    with AdbServer(tmp_path) as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def run_buildtool(tmp_path: Path) -> Iterator[BuildtoolRunner]:
    """Runs the installed program in ``tmp_path``, as a person would."""
    yield BuildtoolRunner(tmp_path)


class BuildtoolRunner:
    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd

    def __call__(
        self, *words: str, env: dict[str, str] | None = None, timeout: float = 600, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "buildtool", *words],
            cwd=cwd or self.cwd,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
