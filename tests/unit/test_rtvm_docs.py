"""rtvm's help, its documentation and its flags say the same; the smoke model's files agree."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.standins.rtvm import source_dir

DOCS = Path(__file__).resolve().parents[2] / "docs" / "rtvm.md"


@pytest.fixture(scope="module")
def options() -> str:
    return (source_dir() / "options.cc").read_text(encoding="utf-8")


def test_every_flag_is_in_the_help_and_in_the_documentation(options: str) -> None:
    flags = set(re.findall(r'^ +\{"(--[a-z-]+)"', options, re.MULTILINE))
    assert {"--model", "--input", "--pre-compiled"} <= flags
    usage = options[options.index('R"(') : options.index(')";')]
    in_help = set(re.findall(r"(?<=^  )--[a-z-]+|(?<=--help, )--version", usage, re.MULTILINE))
    in_docs = set(
        re.findall(r"`(--[a-z-]+)[^`]*`(?= \||, `--version`)|(?<=, )`(--version)`", DOCS.read_text())
    )
    assert in_help == flags
    assert {name or other for name, other in in_docs} >= flags


def test_documented_description_is_valid_json_of_the_known_keys() -> None:
    block = DOCS.read_text(encoding="utf-8").split("```json\n")[1].split("```")[0]
    example = json.loads(block)
    assert (example["format"], example["version"]) == ("rtvm-model", 1)
    known = {"name", "kind", "dtype", "shape", "items"}
    for function in example["functions"].values():
        for entry in function["inputs"] + function["outputs"]:
            assert set(entry) <= known


def test_cmake_lists_every_source() -> None:
    source = source_dir()
    lists = (source / "CMakeLists.txt").read_text(encoding="utf-8")
    for path in [*source.glob("*.cc"), *source.glob("smoke/*.c")]:
        assert path.relative_to(source).as_posix() in lists
