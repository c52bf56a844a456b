"""Schema, commented file and tables say the same as the loader."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from buildtool.cli.main import main
from buildtool.core.errors import ConfigError
from buildtool.settings import load
from buildtool.settings.reader import read
from buildtool.settings.reference import commented_file, json_schema, tables, with_tables

ROOT = Path(__file__).resolve().parents[2]


def uncommented(text: str) -> str:
    lines = [
        line[1:] if line.startswith("#") and not line.startswith("# ") else line for line in text.splitlines()
    ]
    return "\n".join(lines) + "\n"


def test_the_commented_file_loads_and_sets_nothing(tmp_path: Path) -> None:
    (tmp_path / "buildtool.toml").write_text(commented_file(), encoding="utf-8")
    assert load(cwd=tmp_path, env={}).origins == {}


def test_every_commented_key_is_valid_and_none_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "buildtool.toml"
    path.write_text(uncommented(commented_file()), encoding="utf-8")
    origins = load(cwd=tmp_path, env={}).origins
    for table, _, keys in tables():
        for key in keys:
            dotted = f"{table}.{key.name}".replace("profiles.NAME", "profiles.my-android")
            dotted = dotted.replace("devices.NAME", "devices.my-phone")
            assert any(origin == dotted or origin.startswith(dotted + ".") for origin in origins), dotted


def test_the_schema_accepts_the_uncommented_file_and_refuses_a_typo(tmp_path: Path) -> None:
    path = tmp_path / "buildtool.toml"
    path.write_text(uncommented(commented_file()), encoding="utf-8")
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    data = json.loads(json.dumps(read(path).data))
    jsonschema.validate(data, schema)
    data["build"]["jobz"] = 1
    with pytest.raises(jsonschema.ValidationError, match="jobz"):
        jsonschema.validate(data, schema)


def test_every_key_is_described() -> None:
    for table, doc, keys in tables():
        assert doc, table
        for key in keys:
            assert key.doc.endswith("."), f"{table}.{key.name}"


def test_the_document_is_up_to_date() -> None:
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert text == with_tables(text), "run: python -m buildtool.settings.reference docs/settings.md"


@pytest.mark.parametrize("source", ["../tvm", 'a "b" \\ é', "sdist:x==1#y"])
def test_init_writes_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--source", source]) == 0
    assert read(tmp_path / "buildtool.toml").data["source"]["spec"] == source


def test_init_refuses_to_overwrite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "buildtool.toml").write_text("# mine\n")
    assert main(["init"]) == 2
    assert "--force" in capsys.readouterr().err
    assert (tmp_path / "buildtool.toml").read_text() == "# mine\n"
    assert main(["init", "--force"]) == 0
    assert "[source]" in (tmp_path / "buildtool.toml").read_text()


def test_init_refuses_a_control_character(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--source", "a\nb"]) == 2
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError):
        commented_file("a\x7f")


def test_config_show_tells_value_and_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "buildtool.toml").write_text("[build]\njobs = 7\n")
    monkeypatch.setenv("BUILDTOOL_BUILD_TYPE", "Debug")
    assert main(["config", "show", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["file"] == str(tmp_path / "buildtool.toml")
    assert shown["settings"]["build.jobs"] == {
        "value": 7,
        "origin": f"{tmp_path}/buildtool.toml:2 [build] jobs",
    }
    assert shown["settings"]["build.type"]["origin"] == "environment BUILDTOOL_BUILD_TYPE"
    assert main(["config", "show"]) == 0
    assert "build.jobs" in capsys.readouterr().out


def test_config_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "buildtool.toml"
