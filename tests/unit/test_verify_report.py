"""The runner's bookkeeping and the three shapes of the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildtool.core.errors import CheckFailed, ConfigError, UsageError
from buildtool.verify import CHECKS, Outcome, Report, Result, Status, report, runner, select, verify
from buildtool.verify.check import Check, Context, passed
from buildtool.verify.model import DEVICE, CantObserve
from tests.standins.binaries import ADD, artifact, artifact_set, compile_c, host_toolchain


def _result(status: Status, text: str = "seen", identity: str = "elf-abi") -> Result:
    outcome = Outcome(status, text, f"want {text}", f"because {text}", f"do {text}")
    return Result(identity, "a title", "libx.so", outcome, 0.25)


MIXED = Report(
    {"profile": "demo"}, tuple(_result(s) for s in (Status.PASS, Status.PASS, Status.FAIL, Status.SKIP))
)


def test_ok_needs_a_pass_and_no_failure() -> None:
    assert not MIXED.ok
    assert Report({}, (_result(Status.PASS), _result(Status.SKIP))).ok
    assert not Report({}, (_result(Status.SKIP),)).ok
    assert not Report({}, ()).ok


def test_summary_line() -> None:
    assert report.summary(MIXED) == "PASS 2, FAIL 1, SKIP 1: failed"
    assert report.summary(Report({}, (_result(Status.SKIP),))).endswith("nothing could be observed")


def test_table_shows_every_result_and_each_reason(capsys: pytest.CaptureFixture[str]) -> None:
    report.show(MIXED)
    shown = capsys.readouterr().out
    assert shown.count("libx.so") >= 4
    assert "SKIP elf-abi (libx.so): because seen  fix: do seen" in shown
    assert shown.rstrip().endswith("PASS 2, FAIL 1, SKIP 1: failed")


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    report.show_json(MIXED)
    data = json.loads(capsys.readouterr().out)
    assert data["ok"] is False and data["counts"] == {"PASS": 2, "FAIL": 1, "SKIP": 1}
    assert data["facts"] == {"profile": "demo"}
    assert data["results"][2] == {
        "id": "elf-abi", "title": "a title", "subject": "libx.so", "status": "FAIL", "measured": "seen",
        "expected": "want seen", "evidence": "because seen", "fix": "do seen", "seconds": 0.25,
    }  # fmt: skip


def test_junit_counts_and_elements() -> None:
    suite = ElementTree.fromstring(report.junit(MIXED))
    assert suite.tag == "testsuite"
    assert {k: suite.get(k) for k in ("tests", "failures", "skipped", "errors")} == {
        "tests": "4", "failures": "1", "skipped": "1", "errors": "0",
    }  # fmt: skip
    cases = suite.findall("testcase")
    assert [c.get("classname") for c in cases] == ["verify.elf-abi"] * 4
    assert [(c.find("failure") is not None, c.find("skipped") is not None) for c in cases] == [
        (False, False), (False, False), (True, False), (False, True),
    ]  # fmt: skip
    failure = cases[2].find("failure")
    assert failure is not None and failure.get("message") == "seen"
    assert "expected: want seen" in (failure.text or "")
    assert sum(float(c.get("time", "")) for c in cases) == pytest.approx(1.0)


NASTY = st.text(st.characters(codec=None), max_size=40)  # lone surrogates and control characters too


@given(text=NASTY, status=st.sampled_from(list(Status)))
def test_junit_is_well_formed_whatever_the_texts(text: str, status: Status) -> None:
    made = report.junit(Report({text: text}, (_result(status, text),)))
    suite = ElementTree.fromstring(made.encode("utf-8"))
    assert len(suite.findall("testcase")) == 1


def test_junit_keeps_what_xml_can_hold() -> None:
    text = "a<b>&\"c' \x1b[31m ]]> ü\n\ttail"
    suite = ElementTree.fromstring(report.junit(Report({}, (_result(Status.FAIL, text),))))
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == text.replace("\x1b", "\\u001b")


def test_junit_file_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "report.xml"
    report.write_junit(MIXED, target)
    ElementTree.parse(target)
    assert [p.name for p in target.parent.iterdir()] == ["report.xml"]


def test_ids_are_unique_and_every_check_has_words() -> None:
    ids = [c.id for c in CHECKS]
    assert len(set(ids)) == len(ids)
    assert all(c.title and c.needs and c.id == c.id.lower() for c in CHECKS)


def test_select() -> None:
    assert [c.id for c in select(["runpath", "elf-abi"])] == ["elf-abi", "runpath"]
    assert "push" not in {c.id for c in select(skip=["push"])}
    with pytest.raises(ConfigError, match="unknown check 'runpaths'") as caught:
        select(["runpaths"])
    assert caught.value.fix == "did you mean 'runpath'?"
    with pytest.raises(UsageError, match="no check is left"):
        select(["push"], ["push"])


class _Scripted(Check):
    id = "scripted"
    title = "does as told"
    each_file = False
    action: ClassVar[Callable[[], Outcome]]

    def run(self, context: Context) -> Outcome:
        return type(self).action()


def _raise(error: BaseException) -> Callable[[], Outcome]:
    def action() -> Outcome:
        raise error

    return action


def _run_scripted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, action: Callable[[], Outcome], needs: frozenset[str]
) -> Result:
    check = type("Told", (_Scripted,), {"action": staticmethod(action), "needs": needs})()
    monkeypatch.setattr(runner, "CHECKS", (check,))
    toolchain = host_toolchain()
    files = artifact_set(toolchain, artifact(compile_c(tmp_path, "liba.so", ADD)))
    (result,) = verify(files, toolchain, None, no_device="the cable is out").results
    return result


@pytest.mark.parametrize(
    ("action", "status", "words"),
    [
        (lambda: passed("4"), Status.PASS, "4"),
        (_raise(CheckFailed("no answer", details=["server: died"])), Status.FAIL, "no answer"),
        (_raise(KeyError("lost")), Status.FAIL, "KeyError: 'lost'"),
        (_raise(CantObserve("no LLVM")), Status.SKIP, "not observed"),
    ],
)
def test_no_result_is_lost(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    action: Callable[[], Outcome],
    status: Status,
    words: str,
) -> None:
    result = _run_scripted(monkeypatch, tmp_path, action, frozenset({"artifacts"}))
    assert (result.outcome.status, result.outcome.measured) == (status, words)
    assert result.seconds >= 0
    if words == "no answer":
        assert "server: died" in result.outcome.evidence


def test_interrupts_are_not_swallowed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        _run_scripted(monkeypatch, tmp_path, _raise(KeyboardInterrupt()), frozenset({"artifacts"}))


def test_unmet_need_is_a_skip_with_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = _run_scripted(monkeypatch, tmp_path, lambda: passed("never"), frozenset({DEVICE}))
    assert result.outcome.status is Status.SKIP
    assert result.outcome.evidence == "the cable is out"
    assert "--device" in result.outcome.fix
