"""Fixtures of the end-to-end tests: native/rtvm against builds of the real tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conftest import BUILDS
from tests.standins.rtvm import Rtvm, build_rtvm

if TYPE_CHECKING:
    from buildtool.build.model import BuildResult


@pytest.fixture(scope="session")
def rtvm(host_runtime_build: BuildResult) -> Rtvm:
    """The host's rtvm under AddressSanitizer and UBSan."""
    return build_rtvm(host_runtime_build, BUILDS / "rtvm-asan", sanitize="address,undefined")


@pytest.fixture(scope="session")
def fast_rtvm(host_runtime_build: BuildResult) -> Rtvm:
    return build_rtvm(host_runtime_build, BUILDS / "rtvm-host")


@pytest.fixture(scope="session")
def aarch64_rtvm(aarch64_build: BuildResult) -> Rtvm:
    return build_rtvm(aarch64_build, BUILDS / "rtvm-aarch64")
