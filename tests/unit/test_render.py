"""Escaping, against real CMake: what is rendered is what CMake reads."""

from __future__ import annotations

import jinja2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from buildtool.core.errors import ConfigError
from buildtool.core.types import Option
from buildtool.profiles.readback import read_back
from buildtool.profiles.rendering import Recorder, cmake_comment, cmake_quote, environment
from tests.unit.profile_trees import relay

AWKWARD = [
    "",
    " ",
    "a b",
    " lead and trail ",
    'q"uote',
    "a;b",
    "a\\;b",
    ";",
    "$",
    "${x}",
    "$ENV{HOME}",
    "$<CONFIG>",
    "\\",
    "a\\",
    "E:\\a\\n\\t",
    "]==]",
    "[[x]]",
    "]]",
    "# no comment",
    "@x@",
    "@",
    "(a)",
    "tab\there",
    "é ü 漢字 🙂",
    "\u2028\u0085\u00a0",
    "\ufeff",
    "'single'",
    "OFF",
    "x-NOTFOUND",
    "%20",
    "-DNAME=1",
]
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\t"), max_size=20)
TRICKY = st.text(alphabet='\\"$@;{}[]=# ()<>nrt\taé', max_size=12)


def through_cmake(values: list[str]) -> list[str]:
    text = "".join(f"set(V{i} {cmake_quote(value)})  # x\n" for i, value in enumerate(values))
    seen = read_back(text, [f"V{i}" for i in range(len(values))])
    return [seen[f"V{i}"] for i in range(len(values))]


def test_awkward_values_arrive_as_they_are() -> None:
    assert through_cmake(AWKWARD) == AWKWARD


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(TEXT | TRICKY, min_size=20, max_size=60))
def test_any_value_arrives_as_it_is(values: list[str]) -> None:
    assert through_cmake(values) == values


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "\0", "\x1b[31m", "\x7f", "\ud800"])
def test_what_a_cmake_file_cannot_hold_is_refused(value: str) -> None:
    with pytest.raises(ConfigError):
        cmake_quote(value)


def test_an_origin_cannot_leave_its_comment() -> None:
    text = cmake_comment('--set x\nset(EVIL "1")\r#')
    assert "\n" not in text
    assert "\r" not in text


def test_a_missing_block_variable_is_an_error() -> None:
    template = environment().get_template("blocks/kalloc.cmake.j2")
    with pytest.raises(jinja2.UndefinedError, match="kalloc"):
        template.render(set=lambda name, value: "")


@pytest.mark.parametrize("name", [n for n in environment().list_templates() if n.startswith("blocks/")])
def test_every_block_renders_alone(name: str) -> None:
    """A block is comments and set() lines only, whatever surrounds it."""
    from pathlib import Path

    from buildtool.profiles import blocks

    recorder = Recorder(relay(), "p", {})
    context = {
        "llvm": blocks.Llvm("OFF"),
        "opencl": blocks.OpenCl(qcom=True, qcom_header=True),
        "clml": blocks.Clml(str(Path("/sdk"))),
        "kalloc": blocks.Kalloc(32),
        "backtrace": blocks.Backtrace("AUTO"),
        "machine": blocks.Machine("aarch64-linux-gnu", "arm64-v8a", "android-28"),
    }
    text = (
        environment()
        .get_template(name)
        .render(**context, set=recorder.set, leave_out=recorder.leave_out, remaining=recorder.remaining)
    )
    assert recorder.options
    assert all(line.startswith(("# ", "set(")) for line in text.splitlines())


def test_the_users_own_option_wins_over_leaving_out() -> None:
    recorder = Recorder(relay(), "p", {"USE_CUDA": Option("USE_CUDA", "ON", "--set")})
    assert recorder.leave_out("USE_CUDA", "no reason") == 'set(USE_CUDA "ON")  # --set'
    assert recorder.remaining() == ""
