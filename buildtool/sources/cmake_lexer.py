"""The CMake language as far as reading it needs: commands, arguments, comments.

Follows the grammar of cmake-language(7): bracket and line comments, bracket,
quoted and unquoted arguments (the legacy unquoted form too), escapes. Nothing
is evaluated: ``${X}`` stays as written and is listed in ``references``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from buildtool.core.errors import ConfigError

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACKET_OPEN = re.compile(r"\[(=*)\[")
_VARIABLE = re.compile(r"\$\{([A-Za-z0-9_./+-]+)\}")
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_SPACE = " \t\r\n"
# Runs that no rule looks into: jumping over them is what makes reading a tree quick.
_SPACES = re.compile(r"[ \t\r\n]+")
_PLAIN = re.compile(r"[^ \t\r\n()#\"\\$]+")
_INSIDE_QUOTES = re.compile(r'[^"\\]+')


@dataclass(frozen=True)
class Argument:
    """One argument. ``kind`` is unquoted, quoted, bracket or paren (a nested ``(`` or ``)``)."""

    text: str
    kind: str = "unquoted"
    references: tuple[str, ...] = ()
    """Names read as ``${NAME}``, innermost ones where they nest."""


@dataclass(frozen=True)
class Command:
    """One command invocation; ``comment`` is the block of line comments right above it."""

    name: str
    """In lower case: CMake does not tell cases apart here."""
    arguments: tuple[Argument, ...]
    line: int
    comment: str = ""

    def texts(self) -> list[str]:
        return [argument.text for argument in self.arguments]


def parse(text: str, *, where: str = "CMake text") -> list[Command]:
    """All commands of a CMake file in order. Raises ConfigError (file:line) where it is not CMake."""
    return _Parser(text.removeprefix("\ufeff"), where).commands()


class _Parser:
    def __init__(self, text: str, where: str) -> None:
        self.text = text
        self.where = where
        self.at = 0

    def line(self, position: int | None = None) -> int:
        return self.text.count("\n", 0, self.at if position is None else position) + 1

    def jump(self, run: re.Pattern[str]) -> None:
        """Move past the run at the cursor, if there is one."""
        if (found := run.match(self.text, self.at)) is not None:
            self.at = found.end()

    def error(self, what: str, position: int) -> ConfigError:
        return ConfigError(what, where=f"{self.where}:{self.line(position)}")

    def commands(self) -> list[Command]:
        found: list[Command] = []
        comments: list[str] = []
        line, last_line = 1, 0  # of the next token; of the last command or comment
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in _SPACE:
                self.at += 1
                line += char == "\n"
                continue
            begun = self.at
            if line > last_line + 1:
                comments = []  # a blank line parts a comment from what follows
            if char == "#":
                words = self.comment()
                if words is not None and not (found and line == last_line and not comments):
                    comments.append(words)
            else:
                found.append(self.command(line, _block(comments)))
                comments = []
            line += self.text.count("\n", begun, self.at)
            last_line = line
        return found

    def comment(self) -> str | None:
        """Step over a comment; the text of a line comment, None for a bracket comment."""
        opening = _BRACKET_OPEN.match(self.text, self.at + 1)
        if opening:
            self.bracket(opening)
            return None
        end = self.text.find("\n", self.at)
        end = len(self.text) if end < 0 else end
        words = self.text[self.at + 1 : end]
        self.at = end
        return words

    def bracket(self, opening: re.Match[str]) -> str:
        begun = self.at
        closing = f"]{opening[1]}]"
        end = self.text.find(closing, opening.end())
        if end < 0:
            raise self.error(f"bracket without its closing {closing!r}", begun)
        self.at = end + len(closing)
        content = self.text[opening.end() : end]
        return content.removeprefix("\r\n") if content.startswith("\r\n") else content.removeprefix("\n")

    def command(self, line: int, comment: str) -> Command:
        begun = self.at
        name = _IDENTIFIER.match(self.text, begun)
        if name is None:
            raise self.error(f"expected a command, found {self.text[begun : begun + 20]!r}", begun)
        self.at = name.end()
        while self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1
        if self.text[self.at : self.at + 1] != "(":
            raise self.error(f"expected '(' after {name[0]!r}", begun)
        self.at += 1
        return Command(name[0].lower(), self.arguments(begun), line, comment)

    def arguments(self, begun: int) -> tuple[Argument, ...]:
        found: list[Argument] = []
        depth = 1
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in _SPACE:
                self.jump(_SPACES)
            elif char == "#":
                self.comment()
            elif char in "()":
                self.at += 1
                depth += 1 if char == "(" else -1
                if depth == 0:
                    return tuple(found)
                found.append(Argument(char, "paren"))
            elif char == '"':
                raw = self.quoted()
                found.append(Argument(_unescape(raw), "quoted", _references(raw)))
            elif char == "[" and (opening := _BRACKET_OPEN.match(self.text, self.at)):
                found.append(Argument(self.bracket(opening), "bracket"))
            else:
                raw = self.unquoted()
                found.append(Argument(_unescape(raw, ";"), "unquoted", _references(raw)))
        raise self.error("command without its closing ')'", begun)

    def quoted(self) -> str:
        """The raw text between the quotes at the cursor."""
        begun = self.at
        self.at += 1
        while self.at < len(self.text):
            self.jump(_INSIDE_QUOTES)
            char = self.text[self.at : self.at + 1]
            self.at += 2 if char == "\\" else 1
            if char == '"':
                return self.text[begun + 1 : self.at - 1]
        raise self.error("quoted argument without its closing quote", begun)

    def unquoted(self) -> str:
        begun = self.at
        while self.at < len(self.text):
            self.jump(_PLAIN)
            char = self.text[self.at : self.at + 1]
            if char in _SPACE or char in "()#":  # also at the end, where it is empty
                break
            if char == '"':  # legacy form: -DNAME="a b"
                self.quoted()
            elif self.text.startswith("$(", self.at) and (end := self.text.find(")", self.at)) > 0:
                self.at = end + 1  # legacy form: $(MAKE_VARIABLE)
            else:
                self.at += 2 if char == "\\" else 1
        self.at = min(self.at, len(self.text))
        return self.text[begun : self.at]


def _unescape(raw: str, semicolon: str = "\\;") -> str:
    """The text meant; ``\\;`` becomes ``semicolon``: quoted arguments keep the backslash."""
    if "\\" not in raw:
        return raw
    out: list[str] = []
    chars = iter(raw)
    for char in chars:
        if char != "\\":
            out.append(char)
            continue
        escaped = next(chars, "")
        if escaped == "\n":
            continue  # a line joined to the next
        if escaped == ";":
            out.append(semicolon)
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    return "".join(out)


def _references(raw: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_VARIABLE.findall(_ESCAPE.sub("", raw)))) if "${" in raw else ()


def _block(comments: list[str]) -> str:
    """A comment block as one text: rulers such as ``#-----`` and outer blank lines left out."""
    lines = [text.strip() for text in comments]
    return "\n".join(line for line in lines if line.strip("-=#* ")).strip()
