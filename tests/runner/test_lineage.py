"""What OpenLineage gets of runs: the source, the tables with their rows, and the columns; no text of a row."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sqlenrich.runner.lineage import SWITCHES, is_on
from tests.runner.test_telemetry import SECRET, TEXT, Collected, collector, sqlenrich
from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import write_csv, write_prompt


def events(got: Collected) -> list[dict[str, Any]]:
    """The events, in their order."""
    return [json.loads(body) for body in got.bodies.get("/api/v1/lineage", ())]


def test_a_run_tells_its_source_its_tables_and_its_columns(tmp_path: Path) -> None:
    prompt = write_prompt(tmp_path)
    data, output = write_csv(tmp_path / "in.csv", [(1, TEXT), (2, "b"), (3, "")]), tmp_path / "out.duckdb"
    content = '{"label": "a", "urgency": 1}'
    with collector() as (url, got), ScriptedEndpoint(content=content, models=("m",)) as endpoint:
        options = ("--output", output, "--endpoint", endpoint.url, "--yes")
        variables = {"OPENLINEAGE_URL": url, "OPENAI_API_KEY": SECRET}
        done = sqlenrich("run", prompt, "--input", data, *options, **variables)
    assert done.returncode in (0, 3), done.stderr
    start, end = events(got)
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == end["run"]["runId"]
    assert end["job"] == {"namespace": "sqlenrich", "name": "intent", "facets": {}}
    assert [(one["namespace"], one["name"]) for one in end["inputs"]] == [("file", str(data))]
    place = f"duckdb://{output}"
    rows = {
        (one["namespace"], one["name"]): one["outputFacets"]["outputStatistics"]["rowCount"] for one in end["outputs"]
    }
    counts = end["run"]["facets"]["sqlenrich"]
    assert rows == {(place, "intent"): counts["enriched"], (place, "intent_quarantine"): counts["quarantined"]}
    assert counts["rows_in"] == 3 == counts["enriched"] + counts["quarantined"]
    assert counts["_producer"] == end["producer"]
    columns = end["outputs"][0]["facets"]["columnLineage"]["fields"]
    kinds = {
        name: [(one["field"], one["transformations"][0]["subtype"]) for one in found["inputFields"]]
        for name, found in columns.items()
    }
    assert kinds == {
        "id": [("id", "IDENTITY")], "label": [("body", "TRANSFORMATION")], "urgency": [("body", "TRANSFORMATION")],
    }  # fmt: skip
    sent = b"".join(got.bodies["/api/v1/lineage"])
    for hidden in (TEXT, SECRET, "Classify"):
        assert hidden.encode() not in sent


def test_a_cascade_is_one_run_with_the_calls_of_both_models(tmp_path: Path) -> None:
    cascade = "key: [id]\nmodel: m\ncascade: {ask: large, score: urgency, equal: [label], target: 0.7, sample: 12}\n"
    prompt = write_prompt(tmp_path, cascade)
    data = write_csv(tmp_path / "in.csv", [(n, f"text {n}") for n in range(20)])
    content = '{"label": "a", "urgency": 1}'
    with collector() as (url, got), ScriptedEndpoint(content=content, models=("m", "large")) as endpoint:
        given = ("--input", data, "--output", tmp_path / "out.duckdb", "--endpoint", endpoint.url, "--yes")
        done = sqlenrich("run", prompt, *given, OPENLINEAGE_URL=url)
        asked = [json.loads(seen.body)["model"] for seen in endpoint.asked]
    assert done.returncode == 0, done.stderr
    start, end = events(got)
    assert (start["eventType"], end["eventType"], set(asked)) == ("START", "COMPLETE", {"m", "large"})
    assert end["run"]["facets"]["sqlenrich"]["calls"] == len(asked)


@pytest.mark.parametrize(
    ("options", "states", "status"),
    [
        (("--max-calls", "1"), ["START", "ABORT"], 4),
        (("--endpoint", "http://127.0.0.1:9/v1", "--model", "m"), ["START", "FAIL"], 1),
    ],
)
def test_a_run_that_ends_early_says_so(
    tmp_path: Path, options: tuple[str, ...], states: list[str], status: int
) -> None:
    prompt = write_prompt(tmp_path)
    data = write_csv(tmp_path / "in.csv", [(n, f"{TEXT} {n}") for n in range(9)])
    mock = () if "--endpoint" in options else ("--mock",)
    with collector() as (url, got):
        given = ("--input", data, "--output", tmp_path / "out.duckdb", *options, *mock)
        done = sqlenrich("run", prompt, *given, OPENLINEAGE_URL=url)
    assert done.returncode == status, done.stderr
    assert [one["eventType"] for one in events(got)] == states
    facets = events(got)[-1]["run"]["facets"]
    assert facets.get("errorMessage", {}).get("message") == (None if status == 4 else "RunError")


@pytest.mark.parametrize(
    ("variables", "on"),
    [
        ({}, False),
        ({"OPENLINEAGE_URL": "http://c"}, True),
        ({"OPENLINEAGE_CONFIG": "openlineage.yml"}, True),
        ({"OPENLINEAGE_URL": "http://c", "OPENLINEAGE_DISABLED": "true"}, False),
        ({"OPENLINEAGE_NAMESPACE": "x"}, False),
    ],
)
def test_the_environment_switches_it_on(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], on: bool) -> None:
    for name in (*SWITCHES, "OPENLINEAGE_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_on() is on


def test_it_is_named_where_it_is_missing(tmp_path: Path) -> None:
    code = "import sys; sys.modules['openlineage'] = None; from sqlenrich.__main__ import main; main()"
    prompt, data = write_prompt(tmp_path), write_csv(tmp_path / "in.csv", [(1, "a")])
    command = [sys.executable, "-c", code, "run", str(prompt), "--input", str(data), "--mock", "--output", "o.duckdb"]
    env = {**os.environ, "OPENLINEAGE_URL": "http://127.0.0.1:9"}
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, 'pip install "sqlenrich[openlineage]"' in done.stderr) == (2, True)


def test_a_collector_that_is_down_ends_no_run(tmp_path: Path) -> None:
    prompt, data = write_prompt(tmp_path), write_csv(tmp_path / "in.csv", [(1, "a")])
    given = ("--input", data, "--output", tmp_path / "out.duckdb", "--mock")
    transport = {"TYPE": "http", "URL": "http://127.0.0.1:9", "RETRY": '{"total": 0}'}
    done = sqlenrich(
        "run", prompt, *given, **{f"OPENLINEAGE__TRANSPORT__{name}": one for name, one in transport.items()}
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("OpenLineage did not take the event START: ") == 1
