"""``sqlenrich probe`` on the three stand-ins: what it finds, what it asks, how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.ask.observer import NullObserver, PlanLine
from sqlenrich.engines import get_engine
from sqlenrich.engines.shared.probes import JSON_TEXTS, REQUESTS
from sqlenrich.runner.probe_answers import leaves, value_at
from sqlenrich.runner.probe_report import FactCheck
from sqlenrich.schema.checks.json_text import MISSING, parse_json
from sqlenrich.spec.settings import read_config
from tests.support.warehouses import SECRET, Standin

CALLS = {"snowflake": 6, "bigquery": 6, "databricks": 5}
MODELS = {
    "snowflake": "llama3.3-70b",
    "bigquery": "gemini-3.5-flash-lite",
    "databricks": "system.ai.meta-llama-3-3-70b-instruct",
}
NOT_SEEN = {
    "snowflake": ["response 3", "response 4", "served_model 1"],
    "bigquery": [
        "finish_reason 2",
        "finish_reason 3",
        "tokens_cached 1",
        "tokens_thought 1",
        "served_model 1",
        "served_model 2",
    ],
    "databricks": ["response 2"],
}
NOT_PROBED = {
    "snowflake": {"privileges", "model_role", "count_tokens", "functions"},
    "bigquery": {"body_fields", "thinking", "count_tokens", "functions", "no_sampling", "struct_fields"},
    "databricks": {"legacy_endpoints", "column_names", "runtime", "functions", "signal"},
}
SHOWN = {
    "snowflake": {
        "max_tokens": "4096 tokens",
        "response 1: structured answer": "at value.structured_output[0].raw_message",
        "response 2: plain answer": "at value.choices[0].messages",
        "finish_by_error: cut answer": "length",
        "call_error 1: failed call": "at error",
        "models": "llama3.3-70b is GA (told by the warehouse)",
    },
    "bigquery": {
        "max_tokens": "1024 tokens",
        "response 1: plain answer": "at result",
        "finish_reason 1: plain answer": "at full_response.candidates[0].finish_reason",
        "finish_words: cut answer": "length",
        "call_error 1: plain answer": "an empty text",
        "call_error 1: failed call": "at status",
        "ends": "gemini-3.5-flash-lite may end on 2027-07-21 (as of 2026-11-25)",
        "request_types": '["SHARED", "DEDICATED", "UNSPECIFIED"] compiles',
    },
    "databricks": {
        "response 1: structured answer": "at result",
        "call_error 1: failed call": "at errorMessage",
        "call_error 1: plain answer": "nothing",
        "cluster_by": "CLUSTER BY compiles",
    },
}


@pytest.fixture
def place(warehouse: Standin) -> Standin:
    """The stand-in, whose model does what a prompt asks."""
    warehouse.set(model="obedient")
    return warehouse


class Told(NullObserver):
    """An observer that keeps the announcement and answers it."""

    def __init__(self, *, agrees: bool = True) -> None:
        self.agrees, self.lines = agrees, [""][:0]

    def plan(self, line: PlanLine) -> bool:
        self.lines.append(line.to_text())
        return self.agrees


def command(place: Standin, *options: str) -> subprocess.CompletedProcess[str]:
    asked = [sys.executable, "-m", "sqlenrich", "probe", "--engine", place.engine, "--profile", "standin", *options]
    return subprocess.run(
        asked, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "160"}, cwd=place.folder
    )


def facts(found: se.ProbeReport, result: FactCheck) -> list[str]:
    return [finding.fact for finding in found.findings if finding.result is result]


def test_a_stand_in_is_as_expected(place: Standin) -> None:
    told = Told()
    found = se.probe(engine=place.engine, profile="standin", observer=told)
    assert found.differences == ()
    assert (found.exit_status, found.model) == (0, MODELS[place.engine])
    assert facts(found, FactCheck.NOT_SEEN) == NOT_SEEN[place.engine]
    assert set(facts(found, FactCheck.NOT_PROBED)) == NOT_PROBED[place.engine]
    by_name = {finding.fact: finding.found for finding in found.findings}
    assert SHOWN[place.engine].items() <= by_name.items()
    assert {f"JSON: {each.name}" for each in JSON_TEXTS} | {"hash", "time_zone", "call", "default_model"} <= set(
        by_name
    )
    assert len(place.prompts()) == found.calls == CALLS[place.engine] <= 20
    assert told.lines == [f"probe asks {found.calls} requests of {found.model} on {found.place}"]
    named = {finding.fact.partition(":")[0] for finding in found.findings}
    assert set(get_engine(place.engine).facts) <= named
    assert all(finding.source and finding.read_on for finding in found.findings)
    assert SECRET not in found.to_json() + found.to_text() + repr(found)


def test_nothing_is_asked_without_consent(place: Standin) -> None:
    declined = se.probe(engine=place.engine, profile="standin", observer=Told(agrees=False))
    assert (declined.calls, place.prompts(), declined.exit_status) == (0, [], 0)
    assert "hash" in facts(declined, FactCheck.SAME)
    assert "response 1" in facts(declined, FactCheck.NOT_PROBED)


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_the_command_tells_what_it_asks_and_prints_a_table(place: Standin) -> None:
    done = command(place, "--yes")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr
    assert done.stderr.startswith(f"probe asks {CALLS[place.engine]} requests of {MODELS[place.engine]} on ")
    head, *lines = done.stdout.splitlines()
    assert head.split("  ")[0] == "fact"
    assert "facts: " in lines[-1]
    assert "DIFFERENT" not in done.stdout
    assert max(map(len, lines)) <= 160
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize("warehouse", ["snowflake", "bigquery"], indirect=True)
def test_an_answer_at_another_place_is_a_difference(place: Standin) -> None:
    place.set(model="elsewhere")
    done = command(place, "--yes", "--json")
    assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)
    different = {one["fact"]: one["found"] for one in found["findings"] if one["result"] == "DIFFERENT"}
    assert found["differences"] == len(different)
    expected = {
        "snowflake": {
            "response 1: plain answer": "at value.reply.text",
            "response 1: structured answer": "at value.reply.text.shades[0], value.reply.text.word",
            "tokens_in 1: plain answer": "at value.meter.input_tokens, value.meter.output_tokens",
            "call_error 1: failed call": "at failure.reason",
            "response format": "NO_RESPONSE: null",
        },
        "bigquery": {
            "response 1: plain answer": "at full_response.reply",
            "finish_reason 1: plain answer": "nowhere",
            "tokens_out 1: structured answer": "at full_response.meter.tokens_used.candidates_token_count, "
            "full_response.meter.tokens_used.prompt_token_count",
            "finish_words: cut answer": "None",
        },
    }
    assert expected[place.engine].items() <= different.items()
    assert SECRET not in done.stdout + done.stderr


CHANGED = {
    "snowflake": ('response_2 = "value.text"', "response 1: plain answer", "at value.choices[0].messages"),
    "bigquery": ('response_1 = "text"', "response 1: plain answer", "at result"),
    "databricks": ('response_1 = "text"', "response 1: plain answer", "at result"),
}


def test_a_changed_fact_is_a_difference(place: Standin) -> None:
    written, fact, found = CHANGED[place.engine]
    (place.folder / "sqlenrich.toml").write_text(f"[facts.{place.engine}]\n{written}\n")
    config = read_config(place.folder / "sqlenrich.toml")
    (place.folder / "sqlenrich.toml").unlink()
    done = se.probe(engine=place.engine, profile="standin", config=config)
    assert {each.fact: each.found for each in done.differences}[fact] == found
    assert done.exit_status == 3


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_a_fact_of_the_settings_mends_a_difference(place: Standin) -> None:
    lines = ["[facts.snowflake]", 'response_1 = "value.reply.text"', 'call_error_1 = "failure.reason"']
    lines += ['tokens_in_1 = "value.meter.input_tokens"', 'tokens_out_1 = "value.meter.output_tokens"']
    (place.folder / "sqlenrich.toml").write_text("\n".join(lines))
    place.set(model="elsewhere")
    try:
        done = command(place, "--yes", "--json")
    finally:
        (place.folder / "sqlenrich.toml").unlink()
    assert done.returncode == 0, done.stdout
    found = {one["fact"]: one for one in json.loads(done.stdout)["findings"]}
    text = found["response 1: plain answer"]
    assert (text["found"], text["source"]) == ("at value.reply.text", "facts.snowflake of sqlenrich.toml")
    assert found["max_tokens"]["found"] == "4096 tokens"


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_a_run_reads_answers_by_the_facts_of_the_settings(place: Standin) -> None:
    prompt, settings = place.folder / "words.prompt", place.folder / "sqlenrich.toml"
    output = "output: {'word(enum)': [marigold, rose]}"
    prompt.write_text(f"---\nsource: x\nkey: [id]\n{output}\n---\nAnswer with this word: {{{{ body }}}}")
    place.load([{"id": str(n), "body": ("marigold", "rose")[n % 2]} for n in range(4)])
    place.set(model="elsewhere")
    given: Any = {"engine": place.engine, "profile": "standin", "input": place.source, "output": place.schema}
    assert dict(se.run(se.load(prompt), **given).quarantine) == {"UNREADABLE": 4}
    settings.write_text('[facts.snowflake]\nresponse_4 = "value.reply.text"\n')
    try:
        report = se.run(se.load(prompt), **given)
    finally:
        settings.unlink()
    assert (report.enriched, report.quarantined, report.calls) == (4, 0, 0)
    assert place.rows("words", "id", "word")[0] == ("0", "marigold")
    assert len(place.prompts()) == 2


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_a_call_that_fails_is_a_difference(place: Standin) -> None:
    place.set(model="obedient", poison="marigold")
    found = se.probe(engine=place.engine, profile="standin")
    assert {each.fact: each.found for each in found.differences} == {
        f"call: {each.name}": "snowflake x: Processing aborted by error 300010:391167117; the model failed (000603)"
        for each in REQUESTS
        if "marigold" in each.prompt and not each.refused
    }
    assert "call: failed call" in facts(found, FactCheck.NOT_SEEN)
    assert (found.exit_status, len(place.prompts())) == (3, found.calls)


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_a_lost_connection_is_no_difference(place: Standin) -> None:
    place.set(model="obedient", fail={"throttle": 0.05, "reset": 0.05})
    found = se.probe(engine=place.engine, profile="standin")
    assert found.differences == ()
    assert len(place.prompts()) <= found.calls == CALLS[place.engine]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "which warehouse"),
        ({"target": "prod", "engine": "snowflake"}, "--target names the engine"),
        ({"target": "prod"}, 'no target "prod"'),
        ({"engine": "duckdb"}, "sqlenrich run reaches snowflake, bigquery, databricks"),
        ({"engine": "snowflake", "profile": "a", "connection": "b"}, "not both"),
    ],
)
def test_what_names_no_warehouse_is_refused(options: dict[str, Any], problem: str) -> None:
    from sqlenrich.spec.settings import Config

    with pytest.raises(se.ConfigError, match=problem):
        se.probe(config=Config(), **options)


@pytest.mark.parametrize("given", JSON_TEXTS, ids=lambda each: each.name)
def test_python_takes_the_same_texts_for_json(given: Any) -> None:
    value = parse_json(given.text)
    assert (value is not MISSING) == given.accepted
    if given.member is not None:
        assert value["a"] == given.member


@pytest.mark.parametrize(
    ("path", "expected"),
    [("a.b[1].c", 2), ("a.b[2].c", None), ("a.c", None), ("a.b.c", None), ("d[0]", None), ("d", "")],
)
def test_values_are_found_by_their_place(path: str, expected: Any) -> None:
    assert value_at({"a": {"b": [{}, {"c": 2}]}, "d": ""}, path) == expected


def test_leaves_have_their_places() -> None:
    assert list(leaves({"a": {"b": [1, {"c": None}]}, "d": []})) == [("a.b[0]", 1), ("a.b[1].c", None)]


def test_at_most_twenty_requests_are_asked() -> None:
    assert len(REQUESTS) <= 20
