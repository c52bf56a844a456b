"""What may be written after --source, and how a wrong spec is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildtool.core.errors import ConfigError
from buildtool.sources.spec import parse_spec


@pytest.mark.parametrize(
    ("text", "url", "ref"),
    [
        ("git+https://example.org/tvm@v0.19.0", "https://example.org/tvm", "v0.19.0"),
        ("https://example.org/tvm.git@main", "https://example.org/tvm.git", "main"),
        ("git+ssh://git@example.org/tvm@feature/x", "ssh://git@example.org/tvm", "feature/x"),
        ("git+git@example.org:a/tvm.git@v1", "git@example.org:a/tvm.git", "v1"),
        ("git+file:///a b/é@v1", "file:///a b/é", "v1"),
        ("git+../tvm@" + "a" * 40, "../tvm", "a" * 40),
    ],
)
def test_git(text: str, url: str, ref: str) -> None:
    spec = parse_spec(text)
    assert (spec.kind, spec.url, spec.ref) == ("git", url, ref)
    assert spec.commit == ("a" * 40 if ref.startswith("aaa") else None)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("git+https://example.org/tvm", "must name a tag"),
        ("git+ssh://git@example.org/tvm", "must name a tag"),
        ("git+git@example.org:a/tvm.git", "must name a tag"),
        ("git+ext::sh -c x@v1", "not a git URL"),
        ("git+--upload-pack=x@v1", "not a git URL"),
        ("git+ftp://example.org/x@v1", "can't use ftp"),
        ("git+https://example.org/x@-f", "not a git tag"),
        ("git+https://example.org/x@a..b", "not a git tag"),
        ("git+https://example.org/x@a b", "not a git tag"),
        ("https://example.org/x.zip", "must be a git repository"),
        ("sdist:tvm", "NAME==VERSION"),
        ("sdist:tvm>=1", "NAME==VERSION"),
        ("sdist:../x==1", "NAME==VERSION"),
        ("sdist:x==1#../y", "must stay inside"),
        ("sdist:x==1#/y", "must stay inside"),
        ("nowhere", "no such source"),
        ("", "empty"),
    ],
)
def test_refused(text: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=what):
        parse_spec(text, cwd=tmp_path)


def test_sdist() -> None:
    spec = parse_spec("sdist:some-pkg==1.0.post1+x#./3rdparty//tvm/")
    assert (spec.name, spec.version, spec.subdir) == ("some-pkg", "1.0.post1+x", "3rdparty/tvm")


def test_local(tmp_path: Path) -> None:
    (tmp_path / "a b#c").mkdir()
    (tmp_path / "x.tar.gz").touch()
    (tmp_path / "x.rpm").touch()
    assert parse_spec("a b#c", cwd=tmp_path).path == tmp_path / "a b#c"
    archive = parse_spec("x.tar.gz#sub/dir", cwd=tmp_path)
    assert (archive.kind, archive.path, archive.subdir) == ("archive", tmp_path / "x.tar.gz", "sub/dir")
    with pytest.raises(ConfigError, match="unknown kind"):
        parse_spec("x.rpm", cwd=tmp_path)


@given(st.text(max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for prefix in ("", "git+", "sdist:"):
        try:
            spec = parse_spec(prefix + text)
        except ConfigError:
            continue
        assert ".." not in spec.subdir.split("/")
        assert not spec.ref.startswith("-")
