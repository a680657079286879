"""Profiles of runs and ``sqlenrich drift``: levels, statistics on every engine, alarms, baselines, bad input."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sqlenrich as se
from sqlenrich.core.names import identifier
from sqlenrich.core.sql import literal
from sqlenrich.engines import ENGINES, get_engine
from sqlenrich.plan.drift import COLUMNS, drift, field_threshold, run_sigma, runs
from sqlenrich.plan.evaluations import EVALUATIONS, accuracy, changes
from sqlenrich.plan.profiles import PROFILES, profile
from sqlenrich.runner.profiles import utc
from sqlenrich.spec.quality import DriftSettings
from tests.quality.drift_reference import Run, paulson, random_runs, score, windows_of
from tests.support.endpoint import ScriptedEndpoint
from tests.support.in_memory import in_memory
from tests.support.runs import call, rows, write_csv, write_prompt

BEGUN = datetime(2026, 1, 1)
Line = tuple[str, datetime, str, str, int]


def lines_of(given: Sequence[Run]) -> list[Line]:
    """The lines of NAME_profiles of runs, the newest first."""
    return [
        (f"r{len(given) - place:03}", BEGUN - timedelta(hours=place), field, level, count)
        for place, run in enumerate(given)
        for field, levels in run.items()
        for level, count in levels.items()
    ]


def select(engine: str, query: Any) -> str:
    enrichment = se.enrichment("t", prompt="{{ body }}", output={"a": "string"}, key=["id"], source="raw_rows")
    return se.compile_plan(enrichment, engine).relations.sql(query)


def filled(engine: str, lines: Sequence[tuple[Any, ...]], sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query over NAME_profiles with these lines."""
    words = get_engine(engine)
    kinds = {name: words.sql_type(kind).sql(words.dialect) for name, kind in PROFILES.items()}
    if engine == "bigquery":
        from tests.standins.googlesql import googlesql

        return list(googlesql().evaluate(sql, {"t_profiles": (kinds, list(lines))}))
    if engine == "duckdb":
        with in_memory() as db:
            db.execute(f"CREATE TABLE t_profiles ({', '.join(f'{name} {kind}' for name, kind in kinds.items())})")
            given = pa.table(dict(zip(PROFILES, zip(*lines, strict=True), strict=True)))  # noqa: F841
            db.execute("INSERT INTO t_profiles SELECT * FROM given")
            return db.execute(sql).fetchall()
    if engine == "snowflake":
        from tests.standins import snowflake

        typed = {identifier(words, name).sql("snowflake"): kind for name, kind in kinds.items()}
        return snowflake.rows(sql, {"t_profiles": (typed, list(lines))})
    from tests.standins import spark

    shape = ", ".join(f"`{name}` {kind}" for name, kind in kinds.items())
    session = spark.spark_session()
    session.createDataFrame(list(lines), shape).createOrReplaceTempView("t_profiles")
    try:
        return spark.rows(sql)
    finally:
        session.catalog.dropTempView("t_profiles")


MARKED = {"bigquery": pytest.mark.zetasql, "spark": pytest.mark.spark}
RUN_BY = [pytest.param(engine, marks=MARKED.get(engine, ())) for engine in ("duckdb", "bigquery", "snowflake", "spark")]
SEEDS = {"duckdb": 25, "bigquery": 6, "snowflake": 3, "spark": 1}
MOST_RUNS = {"duckdb": 45, "bigquery": 8, "snowflake": 8, "spark": 20}
"""GoogleSQL's reference evaluator joins by nested loops."""


@pytest.mark.parametrize("engine", RUN_BY)
def test_the_select_equals_the_reference(engine: str) -> None:
    sql = select(engine, drift(get_engine(engine), DriftSettings(), 5))
    for seed in range(SEEDS[engine]):
        given = random_runs(random.Random(seed), MOST_RUNS[engine])
        windows = windows_of(given)
        expected = {field: one for field in given[0] if (one := score(windows, field)) is not None}
        found = {row[1]: dict(zip(COLUMNS, row, strict=True)) for row in filled(engine, lines_of(given), sql)}
        assert set(found) == (set(expected) if len(windows) > 1 else set())
        for field, row in found.items():
            wanted = expected[field]
            assert (row["run"], row["new_rows"], row["old_rows"], row["windows"]) == (
                f"r{len(given):03}", wanted.new_rows, wanted.old_rows, wanted.windows,
            )  # fmt: skip
            assert row["moved"] == pytest.approx(wanted.moved, abs=1e-9)
            assert row["sigma"] == pytest.approx(wanted.sigma, abs=1e-9)
            alarm = wanted.sigma >= field_threshold(2.0, 5) and wanted.moved >= 0.05
            assert row["is_alarm"] == alarm


def test_each_run_is_compared_with_those_before_it() -> None:
    """As if the later ones were not there: a run that is accepted or alarmed after it changes nothing."""
    words, settings = get_engine("duckdb"), DriftSettings()
    newest, all_runs = (select("duckdb", drift(words, settings, 5, compared)) for compared in (1, 30))
    given = random_runs(random.Random(5), 45)
    assert len(given) > 31
    lines = lines_of(given)
    begun = {line[0]: line[1] for line in lines}
    runs = sorted(begun, reverse=True)
    marks = [(runs[2], "alarm"), (runs[5], "accepted"), (runs[9], "alarm"), (runs[20], "accepted")]
    lines += [(run, begun[run], "_drift", level, 1) for run, level in marks]
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in filled("duckdb", lines, all_runs):
        found.setdefault(row[0], []).append(row)
    for place in (0, 1, 2, 4, 5, 6, 9, 19, 20, 29):
        run = runs[place]
        alone = sorted(filled("duckdb", [line for line in lines if line[0] <= run], newest))
        assert [row[:6] for row in sorted(found.get(run, []))] == [row[:6] for row in alone]
        assert [row[7] for row in sorted(found.get(run, []))] == pytest.approx([row[7] for row in alone], abs=1e-9)
    assert set(found) <= {*runs[:30]} - {runs[5], runs[20]}
    assert len(found) > 20


def test_sigma_is_near_the_exact_one() -> None:
    """Paulson's formula against scipy's F: within 0.25 from 1 to 3 σ, never 0.05 above."""
    from scipy import stats

    for levels in range(2, 31):
        for windows in (1, 2, 3, 5, 10, 30):
            above, below = (levels - 1) ** (2 / 3), (windows + 3) * (levels - 1)
            for tenths in range(10, 31):
                exact = tenths / 10
                ratio = stats.f.isf(stats.norm.sf(exact), above, below)
                assert -0.25 < paulson(ratio, above, below) - exact < 0.05


@pytest.mark.parametrize("fields", [1, 5, 40])
@pytest.mark.parametrize("sigma", [0.5, 2.0, 3.5, 10.0])
def test_sidak(sigma: float, fields: int) -> None:
    assert run_sigma(field_threshold(sigma, fields), fields) == pytest.approx(sigma, abs=1e-9)


def even(rows: int, share: float, **more: int) -> Run:
    ones = round(rows * share)
    return {"_error": {"accepted": rows}, "f": {"a": ones, "b": rows - ones, **more}}


@pytest.mark.parametrize(
    ("given", "marks", "windows", "alarm"),
    [
        pytest.param([even(1000, 0.47)] + [even(1000, 0.12)] * 3, {}, 3, 1, id="moved"),
        pytest.param([even(1000, 0.13)] + [even(1000, 0.12)] * 3, {}, 3, 0, id="not moved"),
        pytest.param([even(10**6, 0.14)] + [even(10**6, 0.12)] * 30, {}, 30, 0, id="sure, but too little"),
        pytest.param([even(40, 0.3)] + [even(1000, 0.12)] * 3, {}, 3, 0, id="few rows"),
        pytest.param([even(50, 0.12)] * 40, {}, 9, 0, id="runs of 50 rows are joined by four"),
        pytest.param([even(1000, 0.47)] * 2 + [even(1000, 0.12)] * 3, {"r004": "alarm"}, 3, 1,
                     id="a run that alarmed is no baseline"),
        pytest.param([even(1000, 0.47)] * 2 + [even(1000, 0.12)] * 3, {"r004": "accepted"}, 1, 0,
                     id="an accepted run begins a new baseline"),
        pytest.param([even(1000, 0.47)] * 2 + [even(1000, 0.12)] * 3, {"r004": "alarm", "r005": "alarm"}, 3, 1,
                     id="the newest run is judged although it alarmed"),
        pytest.param([even(1000, 0.1, new=120)] + [even(1000, 0.12)] * 3, {}, 3, 1, id="a value that is new"),
        pytest.param([even(1000, 0.47)] + [even(1000, 0.12)] * 45, {}, 30, 1, id="30 runs at most"),
    ],
)  # fmt: skip
def test_what_alarms(given: list[Run], marks: dict[str, str], windows: int, alarm: int) -> None:
    lines = lines_of(given)
    begun = {line[0]: line[1] for line in lines}
    lines += [(run, begun[run], "_drift", level, 1) for run, level in marks.items()]
    sql = select("duckdb", drift(get_engine("duckdb"), DriftSettings(), 5))
    (found,) = [row for row in filled("duckdb", lines, sql) if row[1] == "f"]
    one = dict(zip(COLUMNS, found, strict=True))
    assert (one["windows"], one["is_alarm"]) == (windows, alarm), one


@pytest.mark.parametrize(
    "engine", [pytest.param(engine, marks=MARKED.get(engine.replace("databricks", "spark"), ())) for engine in ENGINES]
)
def test_the_selects_compile_on_every_engine(engine: str) -> None:
    """By the engine's own compiler, or a grammar of it."""
    words = get_engine(engine)
    enrichment = se.load("support_ticket")
    plan = se.compile_plan(enrichment, engine)
    queries = {
        "profile": profile(enrichment, words, literal("r1"), utc(words, BEGUN)),
        "drift": drift(words, enrichment.quality.drift, 9),
        "runs": runs(words),
        "accuracy": accuracy(words),
        "changes": changes(words, "e1"),
    }
    tables = {step.name: step.columns for step in plan.steps}
    tables |= {"profiles": PROFILES, "evaluations": EVALUATIONS}
    for query in queries.values():
        sql = plan.relations.sql(query)
        typed = {
            plan.relations.table(role).name: {
                name: words.sql_type(kind).sql(words.dialect) for name, kind in columns.items()
            }
            for role, columns in tables.items()
        }
        if engine == "bigquery":
            from tests.standins.googlesql import googlesql

            googlesql().analyze(sql, typed, [])
        elif engine == "duckdb":
            with in_memory() as db:
                for table, columns in typed.items():
                    db.execute(f"CREATE TABLE {table} ({', '.join(f'{n} {kind}' for n, kind in columns.items())})")
                db.execute(sql)
        elif engine == "snowflake":
            from tests.standins.grammar import check_sqlfluff

            check_sqlfluff(sql, "snowflake")
        else:
            from tests.standins import spark

            session = spark.spark_session()
            for table, columns in typed.items():
                shape = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
                session.createDataFrame([], shape).createOrReplaceTempView(table)
            try:
                assert spark.rows(sql) == []
            finally:
                for table in typed:
                    session.catalog.dropTempView(table)


# Profiles ------------------------------------------------------------------------------------------------------------

OUTPUT = """output:
  type: object
  properties:
    kind: {type: string, enum: [a, b]}
    flag: {type: boolean}
    small: {type: integer, minimum: 1, maximum: 5}
    wide: {type: integer, minimum: 0, maximum: 1000}
    free: {type: integer}
    share: {type: number, minimum: 0, maximum: 1}
    text: {type: string}
    country: {type: string}
    tags: {type: array, items: {type: string}}
    object: {type: object, properties: {x: {type: string}}}
    day: {type: string, format: date}
"""
VALUES = {
    "kind": "a", "flag": True, "small": 3, "wide": 250, "free": -7, "share": 0.25, "text": "x" * 30, "country": "CH",
    "tags": ["p", "q", "r"], "object": {"x": "y"}, "day": "2026-02-03",
}  # fmt: skip
LEVELS = {
    "kind": "a", "flag": "true", "small": "3", "wide": "200 to 299", "free": "-10 to -6", "share": "0.2 to 0.3",
    "text": "length 20 to 49", "country": "CH", "tags": "items 2 to 4", "object": "(given)", "day": "2026",
}  # fmt: skip


def test_levels(tmp_path: Path) -> None:
    answers = {
        "t1": json.dumps(VALUES),
        "t2": "{}",
        "t3": "no JSON",
    }
    prompt = write_prompt(tmp_path, "key: [id]\ndrift: {values: [country]}\n", "{{ body }}", output=OUTPUT)
    data = write_csv(tmp_path / "in.csv", [(1, "t1"), (2, "t2"), (3, "t3"), (4, "t1"), (5, None)])
    output = tmp_path / "o.duckdb"
    with ScriptedEndpoint(content=answers.__getitem__) as endpoint:
        asks = ("--input", data, "--output", output, "--endpoint", endpoint.url, "--model", "mock")
        assert call("run", prompt, *asks).status == 0
        found = rows(output, 'SELECT field, level, "rows" FROM intent_profiles')
        expected = dict.fromkeys(LEVELS.items(), 2) | {(field, "(null)"): 1 for field in LEVELS}
        expected |= {("_error", "accepted"): 3, ("_error", "BAD_JSON"): 1, ("_model", "mock"): 3}
        own = {line[:2]: line[2] for line in found if not line[0].startswith("_tokens")}
        assert own == expected
        assert sum(line[2] for line in found if line[0] == "_tokens_in") == 3  # of answers
        # A run that asks nothing has no profile; one more row has a profile of its own.
        assert call("run", prompt, *asks).status == 0
        write_csv(data, [(1, "t1"), (2, "t2"), (3, "t3"), (4, "t1"), (5, None), (6, "t2 ")])
        endpoint.content = "{}"
        assert call("run", prompt, *asks).status == 0
    counts = rows(output, "SELECT run, sum(\"rows\") FROM intent_profiles WHERE field = '_error' GROUP BY 1 ORDER BY 1")
    assert [count for _, count in counts] == [4, 1]
    ledger = rows(output, "SELECT run_id FROM _sqlenrich_runs ORDER BY started_at")
    assert [run for run, _ in counts] == [ledger[0][0], ledger[2][0]]


def test_comparisons_and_evaluations_have_no_profile(tmp_path: Path) -> None:
    prompt = se.load(write_prompt(tmp_path, output=OUTPUT))
    data = [{"id": 1, "body": "x", "expected_kind": "a"}]
    output = tmp_path / "o.duckdb"
    se.evaluate(prompt, truth=data, output=output, model=se.Mock())
    se.compare(prompt, prompt, input=data, output=output, mock=True)
    assert not rows(output, "SELECT 1 FROM duckdb_tables() WHERE table_name LIKE '%profiles%'")


# Runs and the command ------------------------------------------------------------------------------------------------

KIND = "output: {type: object, properties: {kind: {type: string, enum: [a, b]}}, required: [kind]}\n"


class Days:
    """Runs of 300 rows each, of which a share is answered with a."""

    def __init__(self, folder: Path, header: str) -> None:
        self.folder, self.number = folder, 0
        self.prompt = write_prompt(folder, f"key: [id]\n{header}", "{{ body }}", output=KIND)
        self.output = folder / "o.duckdb"

    def run(self, endpoint: ScriptedEndpoint, share: float) -> Any:
        self.number += 1
        data = write_csv(self.folder / "in.csv", [(i, f"{self.number}-{i}") for i in range(300)])
        endpoint.content = lambda prompt: json.dumps({"kind": "a" if int(prompt.split("-")[1]) < share * 300 else "b"})
        asks = ("--endpoint", endpoint.url, "--model", "mock", "--json")
        return call("run", self.prompt, "--input", data, "--output", self.output, *asks)

    def drift(self, *arguments: object) -> Any:
        return call("drift", self.prompt, "--output", self.output, *arguments)


def test_an_alarm_ends_a_run_with_3_until_it_is_accepted(tmp_path: Path) -> None:
    days = Days(tmp_path, "drift: {}\n")
    with ScriptedEndpoint() as endpoint:
        for share in (0.12, 0.13, 0.11, 0.12):
            assert days.run(endpoint, share).status == 0
        moved = days.run(endpoint, 0.47)
        assert moved.status == 3
        assert moved.report["drift"]["alarm"] is True
        assert "drift: ALARM: kind moved 35.0 of 100 rows" in moved.err
        assert days.run(endpoint, 0.47).status == 3  # the run that alarmed is no baseline
        assert days.drift().status == 3
        assert days.run(endpoint, 0.12).status == 0
        again = days.run(endpoint, 0.47)
        assert again.status == 3
        accepted = days.drift("--accept", again.report["run_id"], "--json")
        assert (accepted.status, json.loads(accepted.out)["fields"]) == (0, [])
        assert "the others were alarms, or are older than the accepted one" in days.drift().out
        assert days.run(endpoint, 0.47).status == 0
        assert "one earlier run: how much the answers vary" in days.drift().out
        assert days.run(endpoint, 0.12).status == 3


def test_without_the_key_only_the_command_alarms(tmp_path: Path) -> None:
    days = Days(tmp_path, "")
    with ScriptedEndpoint() as endpoint:
        first = days.run(endpoint, 0.12)
        assert (first.status, "drift" in first.report) == (0, False)
        result = days.drift()
        assert (result.status, "no earlier run to compare it with: it is the first one" in result.out) == (0, True)
        days.run(endpoint, 0.12)
        assert days.run(endpoint, 0.47).status == 0
        told = days.drift("--json")
        assert told.status == 3
        facts = json.loads(told.out)
        assert (facts["alarm"], facts["fields"][0]["field"], facts["fields"][0]["windows"]) == (True, "kind", 2)
        assert 2 < facts["sigma"] < facts["fields"][0]["sigma"]
        assert days.drift().status == 3
        marks = rows(days.output, "SELECT run, level FROM intent_profiles WHERE field = '_drift'")
        assert marks == [(facts["run"], "alarm")]
    found = se.drift(se.load(days.prompt), output=days.output)
    assert [one.field for one in found.alarms] == ["kind"]
    assert found.to_text().splitlines()[-1].startswith("2 earlier runs")


@pytest.mark.parametrize(
    ("prepare", "arguments", "message"),
    [
        ("", (), "of which runs? Give --output out.duckdb, or --target"),
        ("", ("--output", "none.duckdb"), "none.duckdb holds no run of intent: run it first"),
        ("run", ("--output", "o.duckdb", "--accept", "x"), 'has no run "x" of intent; the newest are: 20'),
        ("CREATE TABLE t (a INT)", ("--output", "o.duckdb"), "of intent, which a run stores at its end: run it again"),
        ("CREATE TABLE intent_profiles (run VARCHAR)", ("--output", "o.duckdb"),
         "was made by another version of sqlenrich; give another --output"),
    ],
)  # fmt: skip
def test_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepare: str, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    prompt = write_prompt(tmp_path, output=KIND)
    if prepare == "run":
        data = write_csv(tmp_path / "in.csv", [(1, "t1")])
        assert call("run", prompt, "--input", data, "--output", "o.duckdb", "--mock").status == 0
    elif prepare:
        with duckdb.connect("o.duckdb") as db:
            db.execute(prepare)
    result = call("drift", prompt, *arguments)
    assert result.status == 2
    assert message in result.error


def test_a_run_refuses_profiles_of_another_version(tmp_path: Path) -> None:
    output = tmp_path / "o.duckdb"
    with duckdb.connect(str(output)) as db:
        db.execute("CREATE TABLE intent_profiles (run VARCHAR)")
    data = write_csv(tmp_path / "in.csv", [(1, "t1")])
    result = call("run", write_prompt(tmp_path, output=KIND), "--input", data, "--output", output, "--mock")
    assert result.status == 2
    assert "intent_profiles" in result.error
    assert "was made by another version" in result.error
