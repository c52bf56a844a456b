"""What people see: progress and remarks on stderr, results on stdout.

rich is imported only when a table or a progress bar is drawn.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "dim": "2"}


class Screen:
    """stderr for people. ``quiet`` silences remarks, never errors."""

    def __init__(self) -> None:
        self.quiet = False
        self.debug = False

    def is_terminal(self) -> bool:
        return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def _paint(self, text: str, style: str) -> str:
        if not self.is_terminal() or "NO_COLOR" in os.environ:
            return text
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"

    def step(self, text: str) -> None:
        """A stage begins: one line."""
        if not self.quiet:
            print(self._paint("==> ", "bold") + text, file=sys.stderr, flush=True)

    def info(self, text: str) -> None:
        if not self.quiet:
            print(f"    {text}", file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        print(self._paint("warning: ", "yellow") + text, file=sys.stderr, flush=True)

    def error(self, lines: Iterable[str]) -> None:
        rows = list(lines)
        if rows:
            rows[0] = self._paint(rows[0], "red")
        print("\n".join(rows), file=sys.stderr, flush=True)

    def trace(self, text: str) -> None:
        """A remark for --debug only."""
        if self.debug:
            print(self._paint(f"debug: {text}", "dim"), file=sys.stderr, flush=True)

    def rich(self, *, stdout: bool = False) -> Console:
        """A rich console on stderr, or on stdout for results."""
        from rich.console import Console

        return Console(stderr=not stdout, highlight=False, soft_wrap=stdout)


screen = Screen()


def print_json(value: Any) -> None:
    """A result for machines, on stdout."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_table(title: str | None, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A result for people, on stdout: a table, as wide as the terminal or unwrapped in a pipe."""
    if not sys.stdout.isatty():
        _print_plain(title, columns, rows)
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if title:
        console.print(title, style="bold", markup=False, soft_wrap=True)
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    console.print(table)


def _print_plain(title: str | None, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as their longest cell, each row on one line."""
    table = [list(columns), *(["" if v is None else str(v).replace("\n", " ") for v in row] for row in rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(columns))]
    lines = [title] if title else []
    lines += ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in table]
    sys.stdout.write("\n".join(lines) + "\n")


def _cell(value: object) -> str:
    from rich.markup import escape

    text = "" if value is None else str(value)
    colour = {"PASS": "green", "FAIL": "red", "SKIP": "yellow", "ok": "green", "missing": "red"}
    style = colour.get(text)
    return f"[{style}]{text}[/]" if style else escape(text)
