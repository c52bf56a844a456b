"""The CMake lexer against the grammar, against random text, and against CMake itself."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildtool.core.errors import ConfigError
from buildtool.sources.cmake_lexer import Argument, parse


def one(text: str) -> list[Argument]:
    (command,) = parse(text)
    return list(command.arguments)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f()", []),
        ("f (a b)", ["a", "b"]),
        ("f(\n  a # note ) here\n  b)", ["a", "b"]),
        ('f("a b" "")', ["a b", ""]),
        (r'f("q\"q" "b\\b" "n\n" "d\${X}")', ['q"q', "b\\b", "n\n", "d${X}"]),
        ('f("joined \\\nline")', ["joined line"]),
        (r"f(a\ b c\(d)", ["a b", "c(d"]),
        ("f([[raw ${X} \\n]] [=[a]]b]=])", ["raw ${X} \\n", "a]]b"]),
        ("f([[\nfirst newline is dropped]])", ["first newline is dropped"]),
        ("f(#[[in\nside]] x)", ["x"]),
        ('f(-DX="a b" c)', ['-DX="a b"', "c"]),
        ("f($(MAKE) x)", ["$(MAKE)", "x"]),
        ("f((a AND b) OR c)", ["(", "a", "AND", "b", ")", "OR", "c"]),
        ("f([x] a[b])", ["[x]", "a[b]"]),
        ("f(\r\n  a\r\n)\r\n", ["a"]),
        ("\ufefff(a)", ["a"]),
    ],
)
def test_arguments(text: str, expected: list[str]) -> None:
    assert [argument.text for argument in one(text)] == expected


def test_references_are_names_that_would_be_expanded() -> None:
    assert one("f(${A} x${B}y)")[1].references == ("B",)
    assert one('f("${A} ${B} ${A}")')[0].references == ("A", "B")
    assert one("f(${OUT_${IN}})")[0].references == ("IN",)
    assert one(r'f("\${A}")')[0].references == ()
    assert one(r'f("\\${A}")')[0].references == ("A",)
    assert one("f([[${A}]])")[0].references == ()
    assert one("f($ENV{HOME})")[0].references == ()


def test_comments_belong_to_the_command_right_below() -> None:
    text = """
# a title, parted by a blank line

#----------
# Whether to use it
#   - ON: yes
#----------
set(USE_IT ON) # trailing, not the next one's
set(NEXT 1)
#[[ a block ]]
set(LAST 2)
"""
    assert [(c.line, c.comment) for c in parse(text)] == [
        (8, "Whether to use it\n- ON: yes"),
        (9, ""),
        (11, ""),
    ]


def test_command_names_have_no_case() -> None:
    assert [c.name for c in parse("SET(A 1)\nSet(B 2)")] == ["set", "set"]


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("f(a)\nf(b", 2, "closing '\\)'"),
        ('\n\nf("a)', 3, "closing quote"),
        ("f([==[a]])", 1, "closing ']==]'"),
        ("f(a)\n}", 2, "expected a command"),
        ("f a", 1, r"expected '\(' after 'f'"),
        ("#[[ open", 1, "bracket"),
    ],
)
def test_broken_text_is_refused_with_its_line(text: str, line: int, what: str) -> None:
    with pytest.raises(ConfigError, match=what) as caught:
        parse(text, where="x.cmake")
    assert caught.value.where == f"x.cmake:{line}"


@given(st.text(alphabet='()[]="\\#$ {}ab\n\t;', max_size=60))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        commands = parse(text)
    except ConfigError as exc:
        assert exc.where is not None
        return
    # Every command found is really there.
    assert len(commands) <= text.count("(")


def quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'"{escaped}"'


def bracket(text: str) -> str:
    level = next(n for n in range(20) if f"]{'=' * n}]" not in text + "]")
    return f"[{'=' * level}[\n{text}]{'=' * level}]"


plain = st.text(st.characters(exclude_characters="\0\r", exclude_categories=("Cs",)), max_size=20)


@given(st.lists(st.tuples(plain, st.sampled_from([quote, bracket]))))
def test_quoted_and_bracketed_texts_come_back(pairs: list[tuple[str, object]]) -> None:
    words = " ".join(render(text) for text, render in pairs)  # type: ignore[operator]
    (command,) = parse(f"f({words})")
    assert command.texts() == [text for text, _ in pairs]


def test_cmake_reads_the_same(tmp_path: Path) -> None:
    cmake = shutil.which("cmake")
    assert cmake is not None, "cmake is a runtime dependency"
    dice = random.Random(5)
    pieces = [
        "a",
        "B",
        " ",
        "\\\\",
        '\\"',
        "\\$",
        "\\n",
        "\\t",
        "\\;",
        "\\\n",
        "#",
        "(",
        "[",
        "]]",
        "=",
        "é",
        "@",
    ]
    texts = ["".join(dice.choices(pieces, k=dice.randint(0, 12))) for _ in range(200)]
    raw = [f'"{text}"' for text in texts] + [
        f"[=[{text}]=]" for text in texts if "]=" not in text and not text.endswith("]")
    ]
    raw += ["a\\ b", "x\\#y", "-Dq=1", "p\\;q", "a\\(b\\)"]
    script = tmp_path / "probe.cmake"
    out = tmp_path / "out"
    body = "\n".join(f"probe({word})" for word in raw)
    script.write_text(f'function(probe)\nfile(APPEND "{out}" "${{ARGV0}}<end>")\nendfunction()\n{body}\n')
    subprocess.run([cmake, "-P", str(script)], check=True, timeout=60)
    ours = [c.texts()[0] for c in parse(body) if c.name == "probe"]
    theirs = out.read_text().split("<end>")[:-1]
    assert len(ours) == len(theirs) == len(raw)
    assert [(w, o) for w, o, t in zip(raw, ours, theirs, strict=True) if o != t] == []
