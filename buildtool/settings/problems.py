"""Several wrong inputs, told in one error."""

from __future__ import annotations

from collections.abc import Sequence

from buildtool.core.errors import ConfigError


def raise_all(problems: Sequence[ConfigError], what: str) -> None:
    """Raise the only problem as it is, several as one ConfigError that lists them; none: do nothing."""
    if len(problems) == 1:
        raise problems[0]
    if problems:
        details = []
        for problem in problems:
            details += [problem.what, *(f"  {line.strip()}" for line in problem.lines()[1:])]
        raise ConfigError(f"{len(problems)} {what}", details=details)
