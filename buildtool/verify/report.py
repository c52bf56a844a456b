"""The report as a table, as JSON and as JUnit XML."""

from __future__ import annotations

import re
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from buildtool.core.console import print_json, print_table
from buildtool.core.files import atomic_write
from buildtool.verify.model import Report, Result, Status

# What XML 1.0 can't hold, escaped or not: control characters, lone surrogates, U+FFFE/F.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def summary(report: Report) -> str:
    """``PASS 31, FAIL 0, SKIP 2``, and whether that is good."""
    counts = ", ".join(f"{s.value} {report.count(s)}" for s in Status)
    if report.ok:
        return f"{counts}: verified"
    return f"{counts}: " + ("failed" if report.count(Status.FAIL) else "nothing could be observed")


def show(report: Report) -> None:
    """Print the report for people on stdout: facts, table, reasons, summary."""
    print_table(None, ("fact", "value"), report.facts.items())
    rows = [
        (r.id, r.subject, r.outcome.status.value, r.outcome.measured, r.outcome.expected)
        for r in report.results
    ]
    print_table("", ("check", "subject", "status", "measured", "expected"), rows)
    for line in _reasons(report):
        print(line)
    print(summary(report))


def _reasons(report: Report) -> list[str]:
    """Why each check was skipped or failed; those with one reason share a line."""
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for result in report.results:
        outcome = result.outcome
        if outcome.status is not Status.PASS:
            key = (outcome.status.value, outcome.evidence or outcome.measured, outcome.fix)
            grouped.setdefault(key, []).append(f"{result.id} ({result.subject})")
    return [
        f"{status} {', '.join(names)}: {reason}" + (f"  fix: {fix}" if fix else "")
        for (status, reason, fix), names in grouped.items()
    ]


def as_dict(report: Report) -> dict[str, object]:
    """The report for ``--json``: facts, results, counts, ok."""
    return {
        "ok": report.ok,
        "facts": dict(report.facts),
        "counts": {s.value: report.count(s) for s in Status},
        "results": [
            {
                "id": r.id,
                "title": r.title,
                "subject": r.subject,
                "status": r.outcome.status.value,
                "measured": r.outcome.measured,
                "expected": r.outcome.expected,
                "evidence": r.outcome.evidence,
                "fix": r.outcome.fix,
                "seconds": round(r.seconds, 3),
            }
            for r in report.results
        ],
    }


def show_json(report: Report) -> None:
    print_json(as_dict(report))


def _clean(text: str) -> str:
    return _NOT_XML.sub(lambda m: f"\\u{ord(m.group()):04x}", text)


def _attr(text: str) -> str:
    # quoteattr would keep line ends, which XML readers turn into spaces in attributes.
    return quoteattr(_clean(text), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def _case(result: Result) -> str:
    outcome = result.outcome
    name = _attr(f"{result.title} [{result.subject}]")
    classname = _attr(f"verify.{result.id}")
    head = f'  <testcase classname={classname} name={name} time="{result.seconds:.3f}">'
    body = (
        f"measured: {outcome.measured}\nexpected: {outcome.expected}\n"
        f"evidence: {outcome.evidence}\nfix: {outcome.fix}"
    )
    if outcome.status is Status.FAIL:
        text = escape(_clean(body), {"\r": "&#13;"})
        inner = f'    <failure type="{result.id}" message={_attr(outcome.measured)}>{text}</failure>'
    elif outcome.status is Status.SKIP:
        inner = f"    <skipped message={_attr(outcome.evidence)}/>"
    else:
        inner = f"    <system-out>{escape(_clean(body), {chr(13): '&#13;'})}</system-out>"
    return f"{head}\n{inner}\n  </testcase>"


def junit(report: Report) -> str:
    """The report as one JUnit ``testsuite``; always well-formed, whatever the texts hold."""
    seconds = sum(r.seconds for r in report.results)
    properties = "\n".join(
        f"    <property name={_attr(k)} value={_attr(v)}/>" for k, v in report.facts.items()
    )
    head = (
        f'<testsuite name="buildtool verify" tests="{len(report.results)}" '
        f'failures="{report.count(Status.FAIL)}" errors="0" skipped="{report.count(Status.SKIP)}" '
        f'time="{seconds:.3f}">'
    )
    cases = "\n".join(_case(r) for r in report.results)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"{head}\n  <properties>\n{properties}\n  </properties>\n{cases}\n</testsuite>\n"
    )


def write_junit(report: Report, path: Path) -> None:
    """Write the JUnit file, whole or not at all."""
    atomic_write(path, junit(report))
