"""Several devices' reports made one."""

from __future__ import annotations

import json

import pytest

from buildtool.core.errors import CheckFailed, UsageError
from buildtool.verify import Outcome, Report, Result, Status
from buildtool.verify.parallel import Child, merge, read
from buildtool.verify.report import as_dict


def result(subject: str, status: Status = Status.PASS) -> Result:
    return Result("push", "files arrive", subject, Outcome(status, "4 sent", "4", "in /x", "a fix"), 0.25)


def test_a_report_survives_json() -> None:
    report = Report({"device": "S1", "tvm": "0.25"}, (result("S1"), result("S1", Status.SKIP)))
    assert read(json.loads(json.dumps(as_dict(report)))) == report


def test_an_error_is_no_report() -> None:
    with pytest.raises(CheckFailed, match="no Android device"):
        read(UsageError("no Android device S1", fix="plug it in").as_dict())


def test_merged_facts_and_results() -> None:
    static = Report({"tvm": "0.25", "device": "none"}, (result("libtvm.so"),))
    reports = {
        "S1": Report({"tvm": "0.25", "device": "S1 (x)", "python": "tvm 0.25"}, (result("S1"),)),
        "S2": Report({"tvm": "0.25", "device": "S2 (y)", "python": "tvm 0.25"}, (result("S2", Status.FAIL),)),
    }
    merged = merge(static, reports)
    assert merged.facts == {
        "tvm": "0.25",
        "devices": "S1, S2",
        "python": "tvm 0.25",
        "device S1": "S1 (x)",
        "device S2": "S2 (y)",
    }
    assert [r.subject for r in merged.results] == ["libtvm.so", "S1", "S2"]
    assert not merged.ok and merged.count(Status.PASS) == 2


def test_a_child_without_a_report_is_a_failure() -> None:
    child = Child(["--version"])
    report = child.report("S1")
    child.end()
    assert [r.outcome.status for r in report.results] == [Status.FAIL]
    assert "no report" in report.results[0].outcome.measured
