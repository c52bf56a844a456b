"""Ninja's output as progress: a live bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import re
import time
from types import TracebackType
from typing import TYPE_CHECKING

from buildtool.core.console import screen

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

NINJA_STATUS = "[%f/%t] "
_STATUS = re.compile(r"^\[(\d+)/(\d+)\] (.*)$")
_LINE_EVERY = 15.0
"""Seconds between lines where there is no terminal."""


class NinjaReader:
    """Takes Ninja's lines; counts steps and keeps the output of the compiles that failed."""

    def __init__(self) -> None:
        self.done = 0
        self.total = 0
        self.current = ""
        self.failures: list[list[str]] = []
        self._failing = False

    def feed(self, line: str) -> bool:
        """Take one line; True when it was a status line."""
        match = _STATUS.match(line)
        if match:
            self.done, self.total = int(match.group(1)), int(match.group(2))
            self.current = match.group(3)
            self._failing = False
            return True
        if line.startswith("FAILED:"):
            self.failures.append([line])
            self._failing = True
        elif line.startswith("ninja:"):
            self._failing = False
        elif self._failing:
            self.failures[-1].append(line)
        return False

    def failure_lines(self, limit: int = 20) -> list[str]:
        """The first failing step: its name, then the last ``limit`` lines of its own output."""
        if not self.failures:
            return []
        head, *rest = self.failures[0]
        # The second line is the command itself; it is in the log.
        return [head, *rest[1:][-limit:]]


def short_name(description: str) -> str:
    """``Building CXX object a/b/x.cc.o`` as ``b/x.cc``."""
    last = description.rsplit(" ", 1)[-1]
    return "/".join(last.removesuffix(".o").split("/")[-2:])


class BuildProgress:
    """Shows a :class:`NinjaReader`'s state. Use as a context manager."""

    def __init__(self, title: str) -> None:
        self.reader = NinjaReader()
        self._title = title
        self._begun = time.monotonic()
        self._last = self._begun
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> BuildProgress:
        if screen.is_terminal() and not screen.quiet:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[current]}"),
                console=screen.rich(),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=None, current="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def line(self, line: str) -> None:
        """Take one line of Ninja's output."""
        if not self.reader.feed(line):
            return
        reader = self.reader
        if self._bar is not None and self._task is not None:
            self._bar.update(
                self._task, total=reader.total, completed=reader.done, current=short_name(reader.current)
            )
            return
        now = time.monotonic()
        if now - self._last >= _LINE_EVERY:
            self._last = now
            screen.info(f"{reader.done}/{reader.total} {short_name(reader.current)}{self._eta(now)}")

    def _eta(self, now: float) -> str:
        if not self.reader.done:
            return ""
        left = (now - self._begun) / self.reader.done * (self.reader.total - self.reader.done)
        return f" (about {left:.0f} s left)"
