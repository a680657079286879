"""The report's exit status and text, and the progress of a run."""

from __future__ import annotations

import io
import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.ask.observer import NullObserver, PlanLine, Stopper
from sqlenrich.cli.progress import JsonLog, Progress
from sqlenrich.core.errors import RunError
from sqlenrich.llm.messages import Answer
from sqlenrich.runner.report import Report
from sqlenrich.runner.tally import Tally
from sqlenrich.spec.prices import Price

REPORT = Report(
    run_id="r",
    rows_in=10,
    distinct_requests=10,
    cached=0,
    calls=10,
    retries=0,
    enriched=10,
    quarantined=0,
    pending=0,
    quarantine={},
    tokens_in=None,
    tokens_out=None,
    cost=None,
    seconds=1.0,
    name="intent",
    output="out.duckdb",
)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 0),
        ({"enriched": 0, "rows_in": 0}, 0),
        ({"enriched": 0, "quarantine": {"NO_INPUT": 10}}, 0),
        ({"enriched": 0, "quarantine": {"BAD_JSON": 1, "NO_INPUT": 9}}, 3),
        ({"enriched": 9, "quarantine": {"BAD_JSON": 1}}, 0),
        ({"enriched": 9, "quarantine": {"BAD_JSON": 1}, "max_quarantine": 0.1}, 0),
        ({"enriched": 8, "quarantine": {"BAD_JSON": 1, "BAD_PROMPT": 1}, "max_quarantine": 0.1}, 3),
        ({"enriched": 1, "quarantine": {"BAD_JSON": 1, "NO_INPUT": 8}, "max_quarantine": 0.4}, 3),
        ({"enriched": 5, "quarantine": {"NOT_ASKED": 5}, "pending": 5}, 4),
        ({"enriched": 5, "quarantine": {"BAD_JSON": 5}, "max_quarantine": 0.1, "stopped": True}, 4),
    ],
)
def test_exit_status(changes: dict[str, Any], status: int) -> None:
    assert replace(REPORT, **changes).exit_status == status


def test_text_and_json() -> None:
    refused = replace(
        REPORT, enriched=0, quarantined=10, quarantine={"BAD_JSON": 10}, max_quarantine=1.0, tokens_in=1234
    )
    text = refused.to_text()
    assert "10 rows in = 0 enriched + 10 quarantined" in text
    assert "1,234 tokens in, 0 out; cost unknown\n" in text
    assert "  BAD_JSON              10" in text
    assert text.endswith("too many refused: all rows were refused; see intent_quarantine")
    over = replace(REPORT, enriched=5, quarantined=5, quarantine={"BAD_JSON": 5}, max_quarantine=0.05)
    assert over.to_text().endswith("too many refused: over max_quarantine 0.05; see intent_quarantine")
    assert replace(over, output="out/x.csv").to_text().endswith("; see out/x_quarantine.csv")
    facts = json.loads(REPORT.to_json())
    assert facts["cost"] is None
    assert facts["cost_unknown"] is None
    assert not {"name", "output", "max_quarantine", "stopped"} & set(facts)


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        (
            {"rows_in": 1, "enriched": 1, "calls": 1, "retries": 1, "distinct_requests": 1},
            [
                "1 row in = 1 enriched + 0 quarantined",
                "1 call (1 retry), 0 of 1 distinct request already answered, 1.0 s",
            ],
        ),
        ({"limits": {"rpm": 0.877, "max_cost": 0.12}}, ["limits reached: rpm 88 %, max cost 12 % (of the time)"]),
        ({"limits": {"rpm": 0.001}}, ["limits reached: none"]),
        ({"pending": 1}, ["stopped with 1 request to go; run the same command again to continue"]),
        (
            {"pending": 2000, "stopped_at": "max_rows"},
            ["stopped at --max-rows with 2,000 requests to go; run the same command again to continue"],
        ),
        (
            {"pending": 2, "stopped_at": "max_cost", "calls": 0},
            ["stopped at --max-cost before the first request, 2 requests to go: it allows none, raise it"],
        ),
    ],
)
def test_counts_limits_and_ends(changes: dict[str, Any], lines: list[str]) -> None:
    assert set(lines) <= set(replace(REPORT, **changes).to_text().splitlines())


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"tokens_in": 1, "cost_unknown": "no price of m"}, "1 tokens in, 0 out; cost unknown: no price of m"),
        (
            {"tokens_in": 12_345, "tokens_cached": 8000, "tokens_out": 1234, "cost": 0.012_345, "currency": "USD",
             "prices_as_of": "2026-11-01"},
            "12,345 tokens in (8,000 cached), 1,234 out; 0.0123 USD (prices of 2026-11-01)",
        ),
        (
            {"tokens_in": 1, "tokens_out": 2, "cost": 0.0, "currency": "EUR", "prices_as_of": "2026-11-01"},
            "1 tokens in, 2 out; 0 EUR (prices of 2026-11-01)",
        ),
        ({"latency_ms": {"p50": 210, "p95": 480, "p99": 1900}}, "latency p50 210 ms, p95 480 ms, p99 1,900 ms"),
    ],
)  # fmt: skip
def test_what_was_spent(changes: dict[str, Any], line: str) -> None:
    assert line in replace(REPORT, **changes).to_text().splitlines()


def test_no_time_is_told_of_a_model_that_takes_none() -> None:
    assert "latency" not in replace(REPORT, latency_ms={"p50": 0, "p95": 0, "p99": 0}).to_text()


def answers(count: int, **changes: Any) -> list[Answer]:
    good = Answer("h", 1, "h", "{}", None, False, "stop", "m", 1, 0, 1, 1, datetime.now(UTC), 1)
    return [good._replace(**changes)] * count


def test_a_log_line_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("sqlenrich.cli.progress.time.monotonic", lambda: now)
    out = io.StringIO()
    progress = Progress(out, yes=False, ask=None, stopper=Stopper())
    assert progress.plan(PlanLine(200_000, 150_000, 50_000, 100_000, "m", " at http://x/v1"))
    assert out.getvalue() == (
        "plan: 200,000 rows, 150,000 distinct requests, 50,000 already answered, 100,000 calls to m at http://x/v1\n"
    )
    for _ in range(9):
        now += 1.0
        progress.answered(answers(1000), 100_000)
    assert out.getvalue().count("\n") == 1
    now += 1.0
    failed = answers(1, response=None, call_error="HTTP 500")
    progress.refused({"BAD_JSON": 1200, "TRUNCATED": 1}, estimated=True)
    progress.answered([*answers(999), *failed], 100_000)
    assert out.getvalue().splitlines()[1] == (
        "10,000/100,000 answered, 1,000/s, 1:30 left, 10,000 tokens in, 10,000 out, about 1,200 BAD_JSON, "
        "about 1 TRUNCATED, 1 CALL_ERROR"
    )


@pytest.mark.parametrize(
    ("calls", "yes", "reply", "asked", "goes_on"),
    [
        (5, False, False, True, False),
        (5, False, True, True, True),
        (5, True, False, False, True),
        (0, False, False, False, True),
    ],
)
def test_a_question_before_the_first_call(calls: int, yes: bool, reply: bool, asked: bool, goes_on: bool) -> None:
    questions: list[str] = []

    def ask(question: str) -> bool:
        questions.append(question)
        return reply

    progress = Progress(io.StringIO(), yes=yes, ask=ask, stopper=Stopper())
    assert progress.plan(PlanLine(5, 5, 0, calls, "m", "")) == goes_on
    assert bool(questions) == asked


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_a_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], coloured: bool) -> None:
    """Done, rate, time left, tokens, cost, failures in colour; while it stops no time is left."""
    for name in ("NO_COLOR", "TERM", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COLUMNS", "200")
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    out, price = Terminal(), Price(Decimal(1), Decimal(1), Decimal(2))
    progress = Progress(out, yes=True, ask=None, stopper=Stopper())
    progress.plan(PlanLine(10, 10, 0, 1000, "m", "", price=price, currency="USD"))
    now += 10
    progress.refused({"NO_RESPONSE": 2}, estimated=False)
    progress.answered(answers(98) + answers(2, response=""), 1000)
    said = "100/1,000 answered, 10/s, 1:30 left, 100 tokens in, 100 out, 0.000300 USD"
    end = ", \x1b[33m2 NO_RESPONSE\x1b[0m" if coloured else ", 2 NO_RESPONSE"
    assert out.getvalue().endswith(f"\r\x1b[K{said}{end}")
    progress.stopper.stop()
    assert progress.line(now) == said.replace("1:30 left", "stopping") + ", 2 NO_RESPONSE"
    progress.finish(replace(REPORT, stopped=True))
    assert ("\x1b[33mstopped" in out.getvalue()) == coloured


@pytest.mark.parametrize(
    ("done", "seconds", "told"),
    [(1, 1, ""), (19, 9, ""), (20, 2, ", 1:38 left"), (5, 10, ", 33:10 left")],
)
def test_the_time_left_is_told_once_the_rate_is_known(
    monkeypatch: pytest.MonkeyPatch, done: int, seconds: int, told: str
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    tally = Tally()
    tally.total = 1000
    tally.done = done
    now += seconds
    head = tally.head(now)
    assert (", " + head.split(", ")[2] if head.count(", ") > 1 else "") == told


def test_a_log_of_json(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    out = io.StringIO()
    log = JsonLog(out, yes=False, ask=None, stopper=Stopper())
    log.plan(PlanLine(4, 3, 1, 2, "m", " at http://x/v1"))
    log.note("careful")
    now += 10
    log.answered(answers(1) + answers(1, response=None, call_error="x"), 2)
    log.finish(REPORT)
    assert log.fail(RunError("no"))
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [event["event"] for event in events] == ["plan", "note", "progress", "report", "error"]
    plan, _, progress, report, _ = events
    assert (plan["rows"], plan["calls"], plan["where"], plan["paid"]) == (4, 2, "http://x/v1", True)
    assert (progress["answered"], progress["per_second"], progress["failures"]) == (2, 0.2, {"CALL_ERROR": 1})
    assert (report["rows_in"], report["exit_status"]) == (REPORT.rows_in, REPORT.exit_status)


def test_the_time_at_the_question_is_not_of_the_run(tmp_path: Path) -> None:
    class Slow(NullObserver):
        def plan(self, _line: PlanLine, /) -> bool:
            waited[0] += 60.0
            return False

    real, waited = time.monotonic, [0.0]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("time.monotonic", lambda: real() + waited[0])
        e = se.enrichment("intent", prompt="{{ body }}", key=["id"], output={"a": "string"})
        given: dict[str, Any] = {"input": [{"id": 1, "body": "x"}], "output": tmp_path / "out.duckdb", "mock": True}
        report = se.run(e, observer=Slow(), **given)
        assert report.seconds < 60
        assert report.to_text() == "nothing was sent: what is not answered is NOT_ASKED in intent_quarantine"
        se.run(e, **given)
        given["input"] = [{"id": 1, "body": "y"}]
        assert se.run(e, observer=Slow(), **given).to_text() == (
            "nothing was sent, and nothing changed: intent and intent_quarantine are as they were"
        )
