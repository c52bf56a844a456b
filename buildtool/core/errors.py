"""Errors that a user sees: what was wrong, where, and what to do about it.

Exit codes: 0 success, 1 a build or a check failed, 2 bad usage or
configuration, 130 interrupted by Ctrl-C, 143 ended by SIGTERM.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143


class BuildtoolError(Exception):
    """A failure with one clear message.

    ``what`` is a sentence without a final full stop; ``where`` names the file,
    key or flag; ``expected``/``found`` are shown side by side; ``fix`` says
    what to do. ``details`` holds further lines (a compiler's output, the other
    failures of a preflight) printed as they are.
    """

    exit_code = EXIT_FAILED

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        expected: str | None = None,
        found: str | None = None,
        fix: str | None = None,
        details: Iterable[str] = (),
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.expected = expected
        self.found = found
        self.fix = fix
        self.details = tuple(details)

    def lines(self) -> list[str]:
        """The message as the lines that a terminal shows."""
        rows = [f"error: {self.what}"]
        for label in ("where", "expected", "found", "fix"):
            value = getattr(self, label)
            if value is not None:
                rows.append(f"  {label + ':':<9} {value}")
        rows.extend(f"  {line}" for line in self.details)
        return rows

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def as_dict(self) -> dict[str, object]:
        """The message for ``--json``."""
        return {
            "error": self.what,
            "where": self.where,
            "expected": self.expected,
            "found": self.found,
            "fix": self.fix,
            "details": list(self.details),
            "exit_code": self.exit_code,
        }


class UsageError(BuildtoolError):
    """The command line, the settings or the machine's set-up must change first (exit 2)."""

    exit_code = EXIT_USAGE


class ConfigError(UsageError):
    """A settings file, profile or option is wrong (exit 2)."""


class ToolMissing(UsageError):
    """A program or SDK that the task needs is not there (exit 2)."""


class BuildFailed(BuildtoolError):
    """Configure, compile, link, download or unpack failed (exit 1)."""


class CheckFailed(BuildtoolError):
    """The verifier observed something wrong (exit 1)."""


class ProcessFailed(BuildFailed):
    """A subprocess ended with a code that was not asked for.

    ``returncode`` is negative when a signal ended it (as in :mod:`subprocess`),
    and None when the time limit did.
    """

    def __init__(
        self,
        what: str,
        *,
        returncode: int | None,
        where: str | None = None,
        fix: str | None = None,
        details: Iterable[str] = (),
    ) -> None:
        super().__init__(what, where=where, fix=fix, details=details)
        self.returncode = returncode


class Terminated(BaseException):
    """SIGTERM or SIGHUP arrived; unwinds like KeyboardInterrupt so that clean-up runs."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The nearest known word (case and ``_``/``-`` are no difference), or None.

    Used for every refusal of an unknown key, option, profile or command.
    """

    def fold(text: str) -> str:
        return text.lower().replace("-", "_")

    table = {fold(k): k for k in sorted(known, reverse=True)}
    hit = difflib.get_close_matches(fold(word), table, n=1, cutoff=0.7)
    return table[hit[0]] if hit else None


def unknown(kind: str, word: str, known: Iterable[str], *, where: str | None = None) -> ConfigError:
    """A ConfigError for a word that is not in ``known``, with a suggestion or the whole list."""
    names = sorted(known)
    near = did_you_mean(word, names)
    if near:
        fix = f"did you mean {near!r}?"
    elif len(names) <= 12:
        fix = f"known: {', '.join(names) or '(none)'}"
    else:
        fix = None
    return ConfigError(f"unknown {kind} {word!r}", where=where, fix=fix)
