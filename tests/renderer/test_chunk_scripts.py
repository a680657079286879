"""Scripts that ask in a loop: a preflight, parts, a lock, an interruption, and nothing is paid twice."""

from __future__ import annotations

from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.core.engine import VendorFact
from sqlenrich.spec.settings import Config
from tests.renderer.test_reread_scripts import COLUMNS, each_caller, wrong_places
from tests.renderer.test_retry_scripts import GOOD, RecordingModel, by_body, enrichment, warehouse

BODIES = [f"body {number}" for number in range(9)]
ROWS = [(body, body) for body in BODIES]
UNLOCK = "DROP TABLE IF EXISTS again_lock;"


class Interrupted(RecordingModel):
    """A model that fails the query at a call, once: that call is neither answered nor counted."""

    def __init__(self, at: int) -> None:
        super().__init__(lambda *_: (GOOD, None, "STOP"))
        self.at: int | None = at

    def ask(self, model: str, prompt: str, limit: int | None = None) -> tuple[str | None, str | None, str]:
        if len(self.log) == self.at:
            self.at = None
            raise RuntimeError("interrupted")
        return super().ask(model, prompt, limit)


def script(engine: str, **options: Any) -> str:
    return se.render(enrichment(), engine, config=Config(), **options)


def good(*_: object) -> tuple[str | None, str | None, str]:
    return GOOD, None, "STOP"


@each_caller
def test_parts_ask_each_request_once(engine: str) -> None:
    asked = RecordingModel(good)
    with warehouse(engine, COLUMNS, ROWS, asked) as run:
        limited = run(script(engine, max_requests=4))
        assert len(asked.log) == 4
        assert sorted(by_body(limited).values(), key=str).count((None, 1)) == 4
        assert [row["_error"] for row in limited["quarantine"]] == ["NOT_ASKED"] * 5
        first = {row["request_hash"] for row in limited["responses"]}
        assert first == set(sorted(row["request_hash"] for row in limited["prompts"])[:4])
        whole = run(script(engine, chunks=3))
        assert by_body(whole) == dict.fromkeys(BODIES, (None, 1))
        run(script(engine, chunks=3))
        run(script(engine))
    assert sorted(prompt for _, prompt, _ in asked.log) == BODIES


@each_caller
def test_an_interrupted_script_goes_on_without_paying_again(engine: str) -> None:
    asked = Interrupted(3)
    with warehouse(engine, COLUMNS, ROWS, asked) as run:
        with pytest.raises(Exception, match="interrupted"):
            run(script(engine, chunks=2))
        assert len(asked.log) == 3
        with pytest.raises(Exception, match=r"(?i)again_lock"):  # the lock of the run that ended is still there
            run(script(engine, chunks=2))
        with pytest.raises(Exception, match=r"(?i)again_lock"):  # a second run ends before it reads or makes anything
            run(script(engine, chunks=2, relations={"source": "nowhere"}))
        assert len(asked.log) == 3
        run(UNLOCK) if engine != "bigquery" else run(UNLOCK + " SELECT 1;")
        assert by_body(run(script(engine, chunks=2))) == dict.fromkeys(BODIES, (None, 1))
    assert sorted(prompt for _, prompt, _ in asked.log) == BODIES


def test_bigquery_asks_in_parts_that_a_job_can_end() -> None:
    """A job ends after six hours, so that no statement asks all of many requests."""
    sql = script("bigquery")
    assert "CEIL(COUNT(*) / 500000)" in sql
    asked = Interrupted(6)
    with warehouse("bigquery", COLUMNS, ROWS, asked) as run:
        with pytest.raises(Exception, match="interrupted"):
            run(sql.replace("COUNT(*) / 500000", "COUNT(*) / 1"))
        assert len(asked.log) == 6
        assert by_body(run(sql)) == dict.fromkeys(BODIES, (None, 1))
    assert sorted(prompt for _, prompt, _ in asked.log) == BODIES


@each_caller
@pytest.mark.parametrize("options", [{}, {"chunks": 2}])
def test_a_preflight_that_fails_stops_the_script_and_shows_why(engine: str, options: dict[str, Any]) -> None:
    asked = RecordingModel(lambda *_: (None, "no such model", "STOP"))
    with warehouse(engine, COLUMNS, ROWS, asked) as run:
        with pytest.raises(Exception, match="the first requests all failed: CALL_ERROR no such model"):
            run(script(engine, **options))
        assert len(asked.log) == 3
        asked.reply = good
        found = by_body(run(script(engine, **options)))  # no lock is left
        assert sorted(code for code, _ in found.values() if code) == ["CALL_ERROR"] * 3
        assert len(asked.log) == len(BODIES)


@each_caller
def test_failures_with_nothing_else_to_ask_are_rows(engine: str) -> None:
    asked = RecordingModel(lambda *_: (None, "no such model", "STOP"))
    with warehouse(engine, COLUMNS, ROWS[:3], asked) as run:
        assert by_body(run(script(engine))) == dict.fromkeys(BODIES[:3], ("CALL_ERROR", 1))
        plain = script(engine, preflight=False)
        assert "LOOP" not in plain
        assert by_body(run(plain)) == dict.fromkeys(BODIES[:3], ("CALL_ERROR", 1))
    assert len(asked.log) == 3


@each_caller
def test_a_preflight_that_can_t_be_read_shows_the_answer(engine: str) -> None:
    asked = RecordingModel(good)
    wrong = (VendorFact("a.wrong.path", "a test", "2026-11-22"),)
    with warehouse(engine, COLUMNS, ROWS, asked) as run:
        with wrong_places(engine, response=wrong, finish_reason=()):
            with pytest.raises(Exception, match=r"(?s)UNREADABLE no known place of the answer holds a text: .*label"):
                run(script(engine, chunks=2))
            assert len(asked.log) == 3
        run(script(engine, reread=True))
        assert by_body(run(script(engine, chunks=2))) == dict.fromkeys(BODIES, (None, 1))
    assert sorted(prompt for _, prompt, _ in asked.log) == BODIES


def test_what_has_no_loop_says_so() -> None:
    with pytest.raises(se.UnsupportedError, match="duckdb: --chunks"):
        script("duckdb", chunks=2)
    with pytest.raises(se.ConfigError, match="leave out --no-preflight"):
        script("snowflake", chunks=2, preflight=False)
    with pytest.raises(se.ConfigError, match="--chunks and --max-requests go with a run's script"):
        script("snowflake", chunks=2, retry=True)
    dollars = se.render(
        enrichment(), "snowflake", config=Config(), chunks=2, model="a$$b", relations={"source": "s", "enriched": "n"}
    )
    assert r"'a$\u0024b'" in dollars
    assert "$$" not in dollars.partition("EXECUTE IMMEDIATE $$")[2].partition("\n$$;")[0]
