"""Runs whose answers are refused: they end before much is paid, and say what would accept the stored answers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.ask.answer_judge import AnswerJudge, JudgePolicy, StoredAnswer
from sqlenrich.ask.observer import NullObserver
from sqlenrich.llm.messages import Answer
from sqlenrich.runner.repair_advice import repair_advice
from sqlenrich.runner.results import stored_advice
from sqlenrich.store.dbapi import DbApiBackend
from tests.support.endpoint import ScriptedEndpoint

ROWS = 120
SURE = 'Sure! Here is the JSON:\n{"x": "a"}'
HEADER = "key: [id]\ncolumns: {id: bigint}\noutput: {x: string, y?: string}\n"


def enrichment(folder: Path, more: str = "") -> se.Enrichment:
    (folder / "rows.prompt").write_text(f"---\n{HEADER}{more}---\nRow {{{{ id }}}}\n")
    return se.load(folder / "rows.prompt")


class Notes(NullObserver):
    """Keeps what a run tells."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.reasons: dict[str, int] = {}

    def note(self, line: str) -> None:
        self.notes.append(line)

    def refused(self, reasons: Any, *, estimated: bool) -> None:
        assert not estimated
        self.reasons = dict(reasons)


@pytest.fixture(params=["duckdb", "dbapi"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """An output with its input."""
    (tmp_path / "rows.csv").write_text("id\n" + "".join(f"{number}\n" for number in range(ROWS)))
    if request.param == "duckdb":
        return {"input": tmp_path / "rows.csv", "output": tmp_path / "rows.duckdb"}
    db = duckdb.connect()
    db.execute(f"CREATE SCHEMA enriched; CREATE TABLE rows_in AS SELECT * FROM range({ROWS}) AS t(id)")
    return {"input": "rows_in", "output": DbApiBackend(db, engine="duckdb", schema="enriched")}


@pytest.mark.parametrize(("stop_after", "calls"), [(50, 50), (7, 7), (ROWS, ROWS), (0, ROWS)])
def test_a_run_ends_where_all_first_answers_are_refused(
    tmp_path: Path, place: Any, stop_after: int, calls: int
) -> None:
    observer = Notes()
    with ScriptedEndpoint(content=SURE) as server:
        given = {**place, "model": se.Endpoint(server.url, model="m", concurrency=32)}
        report = se.run(enrichment(tmp_path), **given, observer=observer, stop_after_refused=stop_after)
        stopped = calls < ROWS
        assert (report.calls, report.pending, report.exit_status) == (calls, ROWS - calls, 4 if stopped else 3)
        assert report.stopped_at == ("stop_after_refused" if stopped else None)
        assert observer.reasons == {"BAD_JSON": calls}
        assert report.to_dict()["repairs_off"] == {"prose": calls}
        advice = f"the repair prose is off and would accept {calls} of {calls} refused rows: write repairs: [trim, "
        told = report.to_text()
        assert advice in told
        assert (f"none of the first {calls} answers is accepted" in told) == stopped
        example = f"  BAD_JSON: the text is not one JSON document: {' '.join(SURE.split())}"
        assert told.count(example) == 2 * stopped
        assert 0 < told.find("the repair prose") < (told + "sqlenrich retry").find("sqlenrich retry")
        # A retry says it before it asks.
        retried = Notes()
        se.retry(enrichment(tmp_path), output=given["output"], model=given["model"], observer=retried, max_rows=0)
        assert any(advice in note for note in retried.notes)
        # The repair accepts what is stored; the rest is asked.
        mended = se.run(enrichment(tmp_path, "repairs: [trim, prose]\n"), **given)
        assert (mended.enriched, mended.calls) == (ROWS, ROWS - calls)


def test_one_accepted_answer_lets_a_run_go_on(tmp_path: Path, place: Any) -> None:
    with ScriptedEndpoint(content=lambda prompt: '{"x": "a"}' if prompt.endswith("0") else SURE) as server:
        model = se.Endpoint(server.url, model="m", concurrency=4)
        report = se.run(enrichment(tmp_path), **place, model=model)
    assert (report.enriched, report.quarantined, report.calls, report.stopped_at) == (12, ROWS - 12, ROWS, None)


@pytest.mark.parametrize(
    ("more", "answers", "wanted"),
    [
        ("", [SURE, "no", '{"x": "a"}'], {"prose": 1}),
        ("repairs: []\n", ['<think>\n</think>{"x": "a"}', '```\n{"x": "a"}\n```'], {"reasoning": 1, "fence": 1}),
        ("repairs: []\n", ['<think></think>Sure: {"x": "a",}'], {"prose trailing_comma": 1}),
        ("", ['{"x": "a", "y": null}', '{"x": 1}'], {"null_as_absent": 1}),
        ("repairs: [trim, prose, trailing_comma, null_as_absent, reasoning, fence]\n", ["Sure!"], {}),
    ],
)
def test_the_repairs_that_would_accept_answers(
    tmp_path: Path, more: str, answers: list[str], wanted: dict[str, int]
) -> None:
    found = repair_advice(enrichment(tmp_path, more), "triage.prompt", answers)
    assert {" ".join(repairs): rows for repairs, rows in found.rows.items()} == wanted
    assert len(found.lines()) == len(wanted)


def test_show_tells_of_repairs(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id\n1\n2\n")
    with ScriptedEndpoint(content=SURE) as server:
        model = se.Endpoint(server.url, model="m")
        se.run(enrichment(tmp_path), input=tmp_path / "rows.csv", output=tmp_path / "o.csv", model=model)
    (line,) = stored_advice("rows", tmp_path / "o.csv")
    assert line.startswith("the repair prose is off and would accept 2 of 2 refused rows: write repairs: [trim,")


def test_the_judge_takes_a_small_share_of_the_time(tmp_path: Path) -> None:
    judge = AnswerJudge(enrichment(tmp_path), JudgePolicy(least=10, share=0.1))
    answers = [StoredAnswer('{"x": "a"}' if n % 4 else "no", None, "stop") for n in range(2_000)]
    for _ in range(100):
        judge.see(answers)
    began = time.monotonic()
    assert 10 <= judge.judged < judge.answered == 200_000
    assert judge.sampled
    assert sum(judge.refusals.values()) == pytest.approx(50_000, rel=0.2)
    assert time.monotonic() - began < 1


def test_a_failed_call_is_no_refused_answer(tmp_path: Path) -> None:
    judge = AnswerJudge(enrichment(tmp_path), JudgePolicy(stop_after=2))
    failed = Answer._make([None] * len(Answer._fields))._replace(call_error="down")
    judge.see([failed] * 5)
    assert (judge.judged, judge.missing, judge.ends_run(None, 1)) == (0, 2, False)
    judge.see([StoredAnswer('{"x"', None, "length"), StoredAnswer(None, None, "refusal")])
    assert judge.refusals == {"TRUNCATED": 1, "REFUSED": 1}
    assert (judge.ends_run(None, 0), judge.ends_run(None, 1)) == (False, True)
