"""A plan on the three warehouses: what a run would ask and spend, told without writing anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sqlenrich as se
from tests.support.endpoint import ScriptedEndpoint
from tests.support.warehouse_runs import PROMPT, REQUESTS, ROWS, enrich
from tests.support.warehouses import SECRET, Standin

COUNTERS = {"snowflake": "AI_COUNT_TOKENS", "bigquery": "AI.COUNT_TOKENS", "databricks": None}
"""The function that counts tokens, where a warehouse has one."""
ENDS = {
    "snowflake": "llama3.3-70b is GA (told by the warehouse)",
    "bigquery": "gemini-3.5-flash-lite may end on 2027-07-21 (as of 2026-11-25)",
    "databricks": None,
}
STEPS = ["prompts", "responses", "checked", "enriched", "quarantine"]


def planned(at: Standin, **options: object) -> se.Estimate:
    given = {"engine": at.engine, "profile": "standin", "input": at.source, "output": at.schema, **options}
    return se.estimate(se.load(at.folder / "tickets.prompt"), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("warehouse", ["snowflake", "bigquery"], indirect=True)
def test_a_plan_writes_nothing_and_counts_as_the_run_does(place: Standin, tmp_path: Path) -> None:
    model = planned(place).model
    prices = tmp_path / "prices.toml"
    prices.write_text(f'as_of = 2026-11-01\n[models."{model}"]\ninput = 1000\noutput = 1000\n')
    first = planned(place, prices=prices)
    assert (place.tables(), place.prompts()) == ([], [])
    assert (first.rows, first.distinct_requests, first.cached, first.calls) == (len(ROWS), REQUESTS, 0, REQUESTS)
    assert list(first.compiled) == STEPS
    counter = COUNTERS[place.engine]
    assert first.tokens_in is not None
    assert first.tokens_in.method == ("estimated" if counter is None else "counted")
    assert (first.tokens_in.counter, first.tokens_in.sampled) == (counter, 0 if counter is None else REQUESTS)
    assert first.tokens_out is not None
    assert (first.tokens_out.total_low, first.tokens_out.total_high) == (7 * REQUESTS, 20 * REQUESTS)
    assert first.cost_high == pytest.approx((first.tokens_in.total + 20 * REQUESTS) * 1000 / 1e6)
    assert first.seconds_low is None
    assert first.model_end == ENDS[place.engine]
    shown = first.to_text()
    assert "which has none yet" in shown
    assert SECRET not in shown
    part = enrich(place, max_rows=11)
    before = place.tables()
    second = planned(place, sample=5)
    assert place.tables() == before
    assert len(place.prompts()) == part.calls == 11
    assert (second.rows, second.cached, second.calls) == (part.rows_in, 11, part.pending)
    if counter is not None:
        assert second.tokens_in is not None
        assert second.tokens_in.sampled == 5
        assert second.tokens_out is not None
        assert second.tokens_out.method == "stored"
        # Answers that a run which died left unread are read in the SELECT.
        unread = "call_error = NULL, retryable = NULL, tokens_in = NULL, tokens_out = NULL, read_by = NULL"
        place.execute(f"UPDATE {place.schema}.tickets_responses SET {unread} WHERE TRUE")
        assert planned(place, sample=5) == second
    rest = enrich(place)
    assert (rest.calls, rest.cached, rest.distinct_requests) == (second.calls, second.cached, second.distinct_requests)
    last = planned(place)
    assert (last.calls, last.cached, last.tokens_in) == (0, REQUESTS, None)


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_an_endpoint_in_place_of_the_warehouse_s_function(place: Standin) -> None:
    with ScriptedEndpoint(tokenizes=False) as endpoint:
        found = planned(place, endpoint=endpoint.url, model="m")
        assert not endpoint.asked
    assert (found.calls, found.where, list(found.compiled)) == (
        REQUESTS,
        f" at {endpoint.url}",
        [step for step in STEPS if step != "responses"],
    )
    assert found.tokens_in is not None
    assert (found.tokens_in.method, found.tokens_in.counter) == ("estimated", None)
    assert place.tables() == []


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_rows_that_are_not_asked(place: Standin) -> None:
    blank = [{**row, "channel": " ", "body": None if n % 2 else ""} for n, row in enumerate(ROWS[:7])]
    place.load([*ROWS[10:20], *blank])
    limited = PROMPT.replace("key: [id]", "key: [id]\nmax_input_tokens: 140")
    (place.folder / "tickets.prompt").write_text(limited)
    long = {"id": "long", "channel": "web", "body": "x" * 600}
    place.load([*ROWS[10:20], *blank, long])
    found = planned(place)
    report = enrich(place)
    assert dict(found.not_asked) == {"NO_INPUT": 7, "BAD_PROMPT": 1} == dict(report.quarantine)
    assert (found.rows, found.distinct_requests, found.calls) == (18, report.distinct_requests, report.calls)


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_the_command_and_what_it_refuses(place: Standin) -> None:
    database, _, schema = place.schema.rpartition(".")
    toml = place.folder / "sqlenrich.toml"
    named = {"engine": place.engine, "profile": "standin", "database": database, "schema": schema}
    toml.write_text("[targets.prod]\n" + "".join(f'{key} = "{value}"\n' for key, value in named.items()))
    command = [sys.executable, "-m", "sqlenrich", "plan", str(place.folder / "tickets.prompt"), "--target", "prod"]
    try:
        done = subprocess.run(
            [*command, "--input", place.source, "--json"], capture_output=True, text=True, env=os.environ, check=False
        )
    finally:
        toml.unlink()
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["rows"], facts["calls"], facts["compiled"]) == (len(ROWS), REQUESTS, STEPS)
    with pytest.raises(se.ConfigError, match="there is no table"):
        planned(place, input=place.source + "_missing")
    with pytest.raises(se.ConfigError, match="--mock invents answers, which no warehouse keeps"):
        planned(place, mock=True)
    with pytest.raises(TypeError, match="unexpected keyword argument 'take_over'"):
        planned(place, take_over=True)
    (place.folder / "tickets.prompt").write_text(PROMPT.replace("keep: [channel]", 'where: "no_such_column IS NULL"'))
    with pytest.raises(se.RunError, match=r"the step prompts does not compile: .*(?i:no_such_column)"):
        planned(place)
    (place.folder / "tickets.prompt").write_text(PROMPT)
    place.load([{"note": "not ours"}], f"{place.schema}.tickets")
    with pytest.raises(se.ConfigError, match="is not sqlenrich's"):
        planned(place)
    assert (place.tables(), place.prompts()) == (["tickets"], [])
