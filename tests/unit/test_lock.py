"""buildtool.lock: the same bytes for the same pins; anything else than a lock file refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buildtool.core.errors import ConfigError
from buildtool.settings.lock import Locked, read, write


def test_absent_is_empty(tmp_path: Path) -> None:
    assert read(tmp_path / "buildtool.lock") == {}


@settings(max_examples=20)  # each writes through to the disk
@given(
    pins=st.dictionaries(
        st.text(st.characters(exclude_categories=("Cs",))),
        st.sampled_from([Locked("git", "a" * 40), Locked("sdist", "b" * 64)]),
    )
)
def test_comes_back_and_order_does_not_matter(
    tmp_path_factory: pytest.TempPathFactory, pins: dict[str, Locked]
) -> None:
    path = tmp_path_factory.getbasetemp() / "x.lock"
    write(path, pins)
    first = path.read_bytes()
    assert read(path) == pins
    write(path, dict(reversed(pins.items())))
    assert path.read_bytes() == first


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not a JSON file"),
        ("[]", "found 'list'"),
        ('{"version": 2, "sources": {}}', "found 2"),
        ('{"version": 1}', "no table 'sources'"),
        ('{"version": 1, "sources": {"x": {"kind": "git"}}}', "entry 'x'"),
        ('{"version": 1, "sources": {"x": {"kind": "git", "id": 7}}}', "entry 'x'"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "buildtool.lock"
    path.write_text(text)
    with pytest.raises(ConfigError, match=why) as caught:
        read(path)
    assert caught.value.where == str(path)
