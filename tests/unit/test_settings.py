"""buildtool.toml: precedence, origins, and every kind of wrong input told clearly."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buildtool.core.errors import ConfigError
from buildtool.settings import flatten, load
from buildtool.settings.reader import _key_lines


def write(folder: Path, text: str) -> Path:
    path = folder / "buildtool.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(folder: Path, text: str, **kwargs: object) -> str:
    write(folder, text)
    with pytest.raises(ConfigError) as caught:
        load(cwd=folder, env={}, **kwargs)  # type: ignore[arg-type]
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_built_in_values_without_a_file(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    settings = load(cwd=tmp_path, env={})
    assert settings.file is None
    assert settings.build.type == "Release"
    assert settings.toolchains.platform == 28
    assert settings.origin("build.type") == "built-in"
    assert settings.path("build.dir") == tmp_path / "build"
    assert settings.path("toolchains.ndk") is None


def test_flag_beats_environment_beats_file_beats_built_in(tmp_path: Path) -> None:
    path = write(tmp_path, '[build]\njobs = 2\ncache = "none"\ntype = "Debug"\n')
    env = {"BUILDTOOL_BUILD_JOBS": "3", "BUILDTOOL_BUILD_CACHE": "ccache"}
    settings = load(cwd=tmp_path, env=env, flags={"build.jobs": 4, "build.type": None})
    assert (settings.build.jobs, settings.build.cache, settings.build.type) == (4, "ccache", "Debug")
    assert settings.build.dir == str(tmp_path / "build")
    assert settings.origin("build.jobs") == "flag"
    assert settings.origin("build.cache") == "environment BUILDTOOL_BUILD_CACHE"
    assert settings.origin("build.type") == f"{path}:4 [build] type"


def test_the_source_variable_has_a_short_name(tmp_path: Path) -> None:
    settings = load(cwd=tmp_path, env={"BUILDTOOL_SOURCE": "sdist:x==1#tvm"})
    assert settings.source.spec == "sdist:x==1#tvm"
    with pytest.raises(ConfigError, match="both set"):
        load(cwd=tmp_path, env={"BUILDTOOL_SOURCE": "a", "BUILDTOOL_SOURCE_SPEC": "b"})


def test_an_empty_variable_counts_as_unset(tmp_path: Path) -> None:
    assert load(cwd=tmp_path, env={"BUILDTOOL_BUILD_JOBS": ""}).build.jobs is None


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("BUILDTOOL_BUILD_JOB", "BUILDTOOL_BUILD_JOBS"),
        ("BUILDTOOL_TOOLCHAIN_NDK", "BUILDTOOL_TOOLCHAINS_NDK"),
        ("BUILDTOOL_CACHEDIR", "BUILDTOOL_CACHE_DIR"),
    ],
)
def test_unknown_variables_are_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, suggestion: str
) -> None:
    load(cwd=tmp_path, env={name: "1"})
    assert f"{name} means nothing to buildtool; did you mean {suggestion}?" in capsys.readouterr().err


def test_other_variables_of_buildtool_are_not_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load(cwd=tmp_path, env={"BUILDTOOL_CACHE_DIR": "x", "BUILDTOOL_DEBUG": "1", "BUILDTOOL_TEST_X": "1"})
    assert capsys.readouterr().err == ""


def test_the_file_is_found_upwards_but_not_beyond_a_git_folder(tmp_path: Path) -> None:
    path = write(tmp_path, "")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert load(cwd=inner, env={}).file == path
    (tmp_path / "a" / ".git").write_text("gitdir: elsewhere\n")
    assert load(cwd=inner, env={}).file is None


def test_paths_are_relative_to_who_gave_them(tmp_path: Path) -> None:
    here = tmp_path / "sub"
    here.mkdir()
    text = '[source]\nspec = "../tvm"\n[toolchains]\nclml = "~/sdk"\nsysroot = "${ROOT}/lib"\nprefix = "x-"\n'
    write(tmp_path, text)
    env = {"BUILDTOOL_TOOLCHAINS_NDK": "ndk", "HOME": "/home/u", "ROOT": "/r"}
    settings = load(cwd=here, env=env, flags={"build.dir": Path("out")})
    assert settings.source.spec == str(tmp_path.parent / "tvm")
    assert settings.path("toolchains.clml") == Path("/home/u/sdk")
    assert settings.path("toolchains.sysroot") == Path("/r/lib")
    assert settings.path("toolchains.prefix") == Path("x-")
    assert settings.path("toolchains.ndk") == here / "ndk"
    assert settings.path("build.dir") == here / "out"


def test_the_files_digest_is_for_the_files_source_only(tmp_path: Path) -> None:
    write(tmp_path, f'[source]\nspec = "sdist:x==1"\nsha256 = "{"a" * 64}"\n')
    assert load(cwd=tmp_path, env={}).source.sha256 == "a" * 64
    other = load(cwd=tmp_path, env={}, flags={"source.spec": "tree"})
    assert (other.source.sha256, other.origin("source.sha256")) == (None, "built-in")
    env = {"BUILDTOOL_SOURCE": "sdist:y==1", "BUILDTOOL_SOURCE_SHA256": "b" * 64}
    assert load(cwd=tmp_path, env=env).source.sha256 == "b" * 64


def test_nothing_is_expanded_outside_paths(tmp_path: Path) -> None:
    write(
        tmp_path,
        '[profiles.android.options]\nUSE_BLAS = "${HOME}~"\n[source]\nspec = "git+https://h/~u@v1"\n',
    )
    settings = load(cwd=tmp_path, env={"HOME": "/h"})
    assert settings.profiles["android"].options["USE_BLAS"] == "${HOME}~"
    assert settings.source.spec == "git+https://h/~u@v1"


def test_an_unset_variable_in_a_path_is_an_error(tmp_path: Path) -> None:
    message = refused(tmp_path, '[toolchains]\nndk = "${NOWHERE}/ndk"\n')
    assert "the variable NOWHERE is not set" in message
    assert "buildtool.toml:2 [toolchains] ndk" in message


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[biuld]\n", 1, ["unknown table or key 'biuld'", "did you mean 'build'"]),
        ("\n[build]\njobz = 1\n", 3, ["unknown key in [build] 'jobz'", "did you mean 'jobs'"]),
        ('[build]\njobs = "four"\n', 2, ["build.jobs cannot be 'four'", "a whole number"]),
        ("[build]\njobs = 0\n", 2, ["build.jobs cannot be 0", ">= 1"]),
        ("[build]\njobs = true\n", 2, ["build.jobs cannot be True"]),
        ('[build]\ncache = "ccahce"\n', 2, ["'ccahce'", "one of auto, none, ccache, sccache"]),
        ('build = "x"\n', 1, ["build cannot be 'x'", "a table"]),
        ('[profiles]\nandroid = "x"\n', 2, ["profiles.android cannot be 'x'", "a table"]),
        ('[profiles."a/b"]\n', 1, ["'a/b' cannot be a name", "letters, digits"]),
        ("[profiles.a]\noptions = { USE_X = 1.5 }\n", 2, ["profiles.a.options.USE_X cannot be 1.5"]),
        ("[profiles.a]\nopts = {}\n", 2, ["unknown key in [profiles.a] 'opts'", "options"]),
        ('[profiles.a]\nabi = "arm64"\n', 2, ["'arm64'", "one of arm64-v8a"]),
        ('[devices.d]\nserial = "1"\n', 1, ["[devices.d] has no 'kind'"]),
        ('[devices.d]\nkind = "ssh"\n', 1, ["the ssh device 'd' has no host"]),
        ('[toolchains]\nclml = ""\n', 2, ["toolchains.clml is empty"]),
        ('[toolchains]\nprefix = ""\n', 2, ["toolchains.prefix is empty"]),
        ('[source]\nspec = ""\n', 2, ["source.spec is empty"]),
        ('[source]\nsha256 = "abc"\n', 2, ["source.sha256 cannot be 'abc'"]),
    ],
)
def test_wrong_content_names_line_key_and_expectation(
    tmp_path: Path, text: str, line: int, words: list[str]
) -> None:
    message = refused(tmp_path, text)
    assert f"buildtool.toml:{line}" in message
    for word in words:
        assert word in message


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    write(tmp_path, '[build]\njobs = "x"\ntyp = 1\n[toolchains]\nplatform = 0\n')
    with pytest.raises(ConfigError) as caught:
        load(cwd=tmp_path, env={"BUILDTOOL_BUILD_CACHE": "zip"})
    message = str(caught.value)
    assert "4 problems in the settings" in message
    for word in ("build.jobs", "'typ'", "toolchains.platform", "environment BUILDTOOL_BUILD_CACHE"):
        assert word in message


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"[build\n", ":1:7"),
        (b"[build]\njobs = = 1\n", ":2:8"),
        (b"[build]\njobs = 1\njobs = 2\n", ":3:9"),
        (b'a = """', ":1:8"),
        (b"a = 1\nb = '\xff'\n", ":2"),
    ],
)
def test_bad_toml_names_line_and_column(tmp_path: Path, data: bytes, place: str) -> None:
    path = tmp_path / "buildtool.toml"
    path.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        load(cwd=tmp_path, env={})
    assert caught.value.where == f"{path}{place}"


def test_a_named_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such settings file"):
        load(tmp_path / "other.toml", env={})
    with pytest.raises(ConfigError, match="cannot read"):
        load(tmp_path, env={})


def test_a_flag_of_no_setting_is_a_programming_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no such setting: build\.nope"):
        load(cwd=tmp_path, env={}, flags={"build.nope": 1})


def test_flatten_lists_what_is_set(tmp_path: Path) -> None:
    write(tmp_path, '[profiles.android.options]\nUSE_RPC = true\n[devices.q]\nkind = "qemu"\n')
    flat = flatten(load(cwd=tmp_path, env={}))
    assert flat["profiles.android.options.USE_RPC"] is True
    assert flat["devices.q.kind"] == "qemu"
    assert "toolchains.ndk" not in flat


def test_settings_do_not_hold_the_environment(tmp_path: Path) -> None:
    assert "s3cret" not in repr(load(cwd=tmp_path, env={**os.environ, "TOKEN": "s3cret"}))


def test_lines_of_keys_in_awkward_toml() -> None:
    text = (
        "# [not.a.table]\n"
        'a = """\n[b]\nc = 1\n"""  # text\n'
        "['x y'.\"z\"] # comment with = and [\n"
        "list = [\n  1, # ]\n  2,\n]\n"
        "d.e = '#'\n"
        "inline = { f = 1, g = '}' }\n"
        "[[many]]\nh = 1\n"
    )
    lines = _key_lines(text)
    assert lines[("a",)] == 2
    assert ("b",) not in lines
    assert lines[("x y", "z")] == 6
    assert lines[("x y", "z", "list")] == 7
    assert lines[("x y", "z", "d", "e")] == 11
    assert lines[("x y", "z", "inline")] == 12
    assert lines[("many", "h")] == 14


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 5), st.text(alphabet="ab=[]{}#'", max_size=12), st.integers(1, 64))
def test_origin_is_the_line_after_any_text_value(blank: int, value: str, jobs: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        literal = "'''x" + value.replace("'", '"') + "\n'''"
        text = "\n" * blank + f"[source]\nspec = {literal}\n[build]\njobs = {jobs}\n"
        path = write(folder, text)
        loaded = load(cwd=folder, env={})
        assert loaded.build.jobs == jobs
        assert loaded.origin("build.jobs") == f"{path}:{blank + 5} [build] jobs"
