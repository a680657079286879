"""The verbs of quality over the same answers on each engine: what DuckDB tells, every engine tells."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from sqlglot import exp

import sqlenrich as se
from sqlenrich.plan.relations import symbol
from sqlenrich.quality.opened_store import open_store
from sqlenrich.runner.place import PlaceOptions
from sqlenrich.runner.results import results
from sqlenrich.runner.setup import set_up
from tests.support.endpoint import ScriptedEndpoint
from tests.support.warehouses import Standin

PROMPT = """---
source: {source}
key: [id]
keep: [channel]
model: m
params: {{temperature: 0, max_tokens: 60}}
review: {{by: intent}}
output:
  type: object
  properties:
    intent: {{type: string, enum: [card, transfer, top_up, cash, other]}}
    urgency: {{type: integer, minimum: 1, maximum: 5}}
    asks: {{type: boolean}}
    confidence: {{type: number, minimum: 0, maximum: 1}}
    topics: {{type: array, items: {{type: string, maxLength: 30}}, maxItems: 4}}
    due: {{type: string, format: date}}
  required: [intent, urgency, asks, confidence, topics, due]
---
Classify the message from {{{{ channel }}}}: {{{{ body }}}}
"""
ROWS: list[dict[str, str | None]] = [
    {"id": f"{n:03}", "channel": ("web", None, 'it\'s \\ "odd"\n')[n % 3], "body": f"text {n % 60}"} for n in range(80)
]


def answer(prompt: str) -> str:
    """An answer that depends on the prompt alone: a tenth is cut off, a tenth lacks a field."""
    number = zlib.crc32(prompt.encode())
    found = {
        "intent": ("card", "transfer", "top_up", "cash", "other")[number % 5],
        "urgency": 1 + number % 4,
        "asks": number % 2 == 0,
        "confidence": number % 100 / 100,
        "topics": ["a", 'b "c"', "ü"][: number % 4],
        "due": f"2026-{1 + number % 12:02}-{1 + number % 28:02}",
    }
    if number % 10 == 3:
        del found["urgency"]
    text = json.dumps(found)
    return text[:-9] if number % 10 == 7 else text


SPARK = pytest.param("spark", marks=pytest.mark.spark)
ENGINES = ["snowflake", "bigquery", SPARK]
"""Databricks' SQL is Spark's."""


@dataclass(frozen=True)
class Place:
    """An engine with the answers of two runs, and the options by which a verb finds them."""

    enrichment: se.Enrichment
    options: dict[str, Any]
    folder: Path
    opened: Any = field(default=None, repr=False)


def enriched(place: Place, source: Any) -> Place:
    """Two runs; the second asks nothing."""
    with ScriptedEndpoint(content=answer, models=("m",)) as endpoint:
        for asked in (True, False):
            report = se.run(place.enrichment, input=source, endpoint=endpoint.url, **place.options)
            assert (report.calls > 0) is asked
    return place


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """DuckDB with the same rows."""
    folder = tmp_path_factory.mktemp("duckdb")
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    (folder / "tickets.prompt").write_text(PROMPT.format(source="messages"))
    place = Place(se.load(folder / "tickets.prompt"), {"output": folder / "out.duckdb"}, folder)
    return enriched(place, folder / "rows.jsonl")


@pytest.fixture
def expected(made: Place, tmp_path: Path) -> Place:
    """DuckDB with the same rows, for one test."""
    copy = tmp_path / "expected.duckdb"
    shutil.copyfile(made.options["output"], copy)
    return replace(made, options={"output": copy})


@pytest.fixture(scope="module", params=ENGINES)
def place(
    request: pytest.FixtureRequest, standins: Callable[[str], Standin], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """Each engine in turn."""
    if request.param == "spark":
        yield from spark_place(tmp_path_factory.mktemp("spark"))
        return
    with pytest.MonkeyPatch.context() as patch:
        found = standins(request.param)
        patch.setenv("DBT_PROFILES_DIR", str(found.folder))
        found.write_profile()
        found.clear()
        found.load(ROWS)
        (found.folder / "tickets.prompt").write_text(PROMPT.format(source=found.source))
        options = {"engine": found.engine, "profile": "standin", "output": found.schema}
        yield enriched(Place(se.load(found.folder / "tickets.prompt"), options, found.folder), found.source)


def spark_place(folder: Path) -> Iterator[Place]:
    """Spark with folders of files."""
    from sqlenrich.spark.session import settings
    from sqlenrich.store.spark.backend import SparkBackend, SparkPlace
    from tests.standins.spark import INTERPRETED, spark_session

    session = spark_session()
    kinds = "id string, channel string, body string"
    session.createDataFrame([tuple(row.values()) for row in ROWS], kinds).write.parquet(f"{folder}/rows")
    (folder / "tickets.prompt").write_text(PROMPT.format(source="messages"))
    output = SparkBackend(SparkPlace(f"{folder}/out", session=session, journal=f"{folder}/journal"))
    place = Place(se.load(folder / "tickets.prompt"), {"output": output}, folder)
    with settings(session, INTERPRETED):
        yield enriched(place, f"{folder}/rows")


def differences(found: Any, wanted: Any, place: str = "") -> list[str]:
    """The places in which two results of a verb differ."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        names = sorted({*found, *wanted} - {*OWN})
        return [line for name in names for line in differences(found.get(name), wanted.get(name), f"{place}.{name}")]
    if isinstance(found, list | tuple) and isinstance(wanted, list | tuple) and len(found) == len(wanted):
        pairs = enumerate(zip(found, wanted, strict=True))
        return [line for number, (a, b) in pairs for line in differences(a, b, f"{place}[{number}]")]
    return [] if found == wanted else [f"{place}: {found!r}, not {wanted!r}"]


OWN = (
    *("output", "file", "sql", "runs_sql", "tiles", "request", "run", "run_id", "runs", "at", "asked_at", "_asked_at"),
    *("latency_ms", "request_id", "read_at", "ledger", "started_at", "ended_at", "reviews"),
    *("evaluation", "fingerprint", "calls", "stored"),
)


def test_the_report_is_that_of_duckdb(place: Place, expected: Place) -> None:
    found, wanted = (se.report(one.enrichment, **one.options) for one in (place, expected))
    assert differences(json.loads(found.to_json()), json.loads(wanted.to_json())) == []
    assert (found.table.accepted, found.table.rows_in) == (wanted.table.accepted, len(ROWS))
    assert found.sample is not None
    assert wanted.sample is not None
    assert (found.sample.columns, found.sample.lines) == (wanted.sample.columns, wanted.sample.lines)
    assert found.refusals.examples == wanted.refusals.examples
    assert [one.levels for one in found.answers] == [one.levels for one in wanted.answers]


def judged(place: Place, folder: Path) -> tuple[list[dict[str, str]], Path]:
    """The lines of a sheet, and the file in which a reviewer judged each third answer as wrong."""
    sheet = folder / "sheet.csv"
    se.review(place.enrichment, sheet=sheet, rows=40, **place.options)
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        lines = list(csv.DictReader(file))
    read = folder / "read.csv"
    with read.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        for number, line in enumerate(lines):
            verdicts = {name: "y" for name in line if name.startswith("verdict: ")}
            wrong = {"verdict: intent": "n"} if number % 3 == 0 else {}
            writer.writerow({**line, **verdicts, **wrong})
    return lines, read


def test_a_review_is_that_of_duckdb(place: Place, expected: Place, tmp_path: Path) -> None:
    sheets, reviews = [], []
    for number, one in enumerate((place, expected)):
        folder = tmp_path / str(number)
        folder.mkdir()
        lines, read = judged(one, folder)
        sheets.append([{name: value for name, value in line.items() if name != "_about"} for line in lines])
        reviews.append(se.review(one.enrichment, read=read, **one.options))
        again = se.review(one.enrichment, read=read, **one.options)
        assert again.taken is not None
        assert (again.taken.new, again.taken.changed) == (0, 0)
    assert sheets[0] == sheets[1]
    assert len(sheets[0]) >= 40
    found, wanted = reviews
    assert (found.taken, found.estimate.shares) == (wanted.taken, wanted.estimate.shares)
    assert found.estimate.whole is not None
    assert found.estimate.whole.found.wrong > 0


def test_an_audit_is_that_of_duckdb(place: Place, expected: Place) -> None:
    for row in (None, {"id": "001"}):
        found, wanted = (se.audit(one.enrichment, row=row, **one.options) for one in (place, expected))
        assert differences(found.to_dict(), wanted.to_dict()) == []
        assert found.holds
    with pytest.raises(se.ConfigError, match="has no row id=999 of tickets"):
        se.audit(place.enrichment, row={"id": "999"}, **place.options)


EXPORTED = {
    False: ("id", "channel", "intent", "urgency", "asks", "confidence", "topics", "due", "_request_hash", "_model"),
    True: ("id", "channel", "_error", "_error_detail", "response", "prompt", "_attempts", "_request_hash"),
}


def test_rows_are_shown_and_exported_as_duckdbs(place: Place, expected: Place, tmp_path: Path) -> None:
    found, shown = [], []
    for number, one in enumerate((place, expected)):
        for quarantine in (False, True):
            to = tmp_path / f"{number}_{quarantine}.csv"
            results("tickets", to=to, quarantine=quarantine, columns=EXPORTED[quarantine], **one.options)
            found.append(sorted(to.read_text().splitlines()))
        text = results("tickets", where="urgency = 2", columns=["id", "intent", "topics"], rows=200, **one.options)
        assert text is not None
        shown.append(sorted(text.splitlines()))
    assert found[:2] == found[2:]
    assert shown[0] == shown[1]
    assert len(shown[0]) > 15


LABELLED = [row for number, row in enumerate(ROWS) if number % 4 == 0]
LABELS = {str(row["id"]): ("card", "transfer", "cash")[number % 3] for number, row in enumerate(LABELLED)}


def labels_file(path: Path, *, whole: bool) -> Path:
    """The key and a label of some rows; ``whole``: with all that the prompt reads, in which a file has no NULL."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["id", "expected_intent", *(("channel", "body") if whole else ())])
        writer.writeheader()
        for row in LABELLED:
            shown = {**row, "channel": row["channel"] or "none"} if whole else {"id": row["id"]}
            writer.writerow({**shown, "expected_intent": LABELS[str(row["id"])]})
    return path


def test_an_evaluation_is_that_of_duckdb(place: Place, expected: Place, made: Place, tmp_path: Path) -> None:
    given: dict[str, Any] = {} if "engine" in place.options else {"input": f"{place.folder}/rows"}
    with ScriptedEndpoint(content=answer, models=("m",)) as endpoint:
        for whole, asks in ((False, False), (True, True)):
            labels = labels_file(tmp_path / "labels.csv", whole=whole)
            sources = (given, {"input": made.folder / "rows.jsonl"})
            changed: dict[str, Any] = {"responses": "others"} if whole else {}
            found, wanted = (
                se.evaluate(one.enrichment, truth=labels, endpoint=endpoint.url, **(changed or rows), **one.options)
                for one, rows in zip((place, expected), sources, strict=True)
            )
            assert differences(json.loads(found.to_json()), json.loads(wanted.to_json())) == []
            assert (found.side.calls > 0, wanted.side.calls > 0) == (asks, asks)
            assert 0 < found.fields[0].right < found.rows == len(LABELLED)
    assert found.fields[0].change is not None  # since the evaluation of the same rows with other prompts
    assert found.fields[0].change == wanted.fields[0].change


def test_a_comparison_draws_rows_of_a_table_by_their_keys(place: Place, expected: Place, tmp_path: Path) -> None:
    others = [tmp_path / "a" / "other.prompt", tmp_path / "b" / "other.prompt"]
    for other, one in zip(others, (place, expected), strict=True):
        other.parent.mkdir()
        other.write_text(PROMPT.format(source=one.enrichment.source).replace("Classify", "Read"))
    drawn = sorted(ROWS, key=lambda row: hashlib.sha256(f"0:{row['id']}".encode()).hexdigest())[:30]
    table = {} if "engine" in place.options else {"input": f"parquet.`{place.folder}/rows`"}
    with ScriptedEndpoint(content=answer, models=("m",)) as endpoint:
        found, wanted = (
            se.compare(
                one.enrichment, other, rows=30, endpoint=endpoint.url, responses="others", **given, **one.options
            )
            for one, other, given in (
                (place, others[0], table),
                (expected, others[1], {"input": drawn, "first": True}),
            )
        )
    own = ("rows_in", "sample", "input")
    told = [{key: value for key, value in one.to_dict().items() if key not in own} for one in (found, wanted)]
    assert differences(told[0], told[1]) == []
    assert (found.rows_in, found.rows) == (len(ROWS), len(drawn))
    assert found.changes


FORGOTTEN = (
    ({"row": {"id": "000"}}, 1, 0),  # row 060 has the same text
    ({"row": {"id": "040"}}, 1, 1),
    ({"where": "_error = 'BAD_JSON'"}, 7, 4),
)
"""A choice, the rows that it means, and the answers that nothing else has."""


def evaluated(place: Place, id: str) -> int:
    """How many lines of evaluations there are of a row."""
    options = dict(place.options)
    setup = set_up("show", PlaceOptions, options, place.enrichment, output=options.pop("output"))
    with open_store(setup) as store:
        test = f"row_key = '{json.dumps({'id': id})}'"
        return store.number(exp.select("COUNT(*)").from_(symbol("evaluations")).where(test))


def test_rows_are_forgotten_as_in_duckdb(place: Place, expected: Place) -> None:
    changed = replace(place.enrichment, template=f"{place.enrichment.template} Now.")
    labelled = [{**row, "channel": "x", "expected_intent": "card"} for row in ROWS if row["id"] in ("040", "041")]
    with ScriptedEndpoint(content=answer, models=("m",)) as endpoint:
        for one in (place, expected):
            se.evaluate(changed, truth=labelled, endpoint=endpoint.url, responses="others", **one.options)
            assert evaluated(one, "040") > 0
    for choice, rows, answers in FORGOTTEN:
        runs = (True, False) if "where" in choice else (False,)  # a dry run counts what the next one forgets
        done = [
            se.forget(one.enrichment, dry_run=dry_run, **choice, **one.options)
            for dry_run in runs
            for one in (place, expected)
        ]
        told = [(one.rows, one.answers, one.shared, one.orphans) for one in done]
        assert told == [told[0]] * len(done), choice
        assert told[0][:2] == (rows, answers), choice
    audit, duckdbs = (se.audit(one.enrichment, **one.options) for one in (place, expected))
    assert differences(audit.to_dict(), duckdbs.to_dict()) == []
    assert audit.holds
    for one in (place, expected):
        assert (evaluated(one, "040"), evaluated(one, "041") > 0) == (0, True)
    with pytest.raises(se.ConfigError, match="has no row id=040 of tickets"):
        se.forget(place.enrichment, row={"id": "040"}, **place.options)
    everything = se.forget(place.enrichment, before="2999-01-01", **place.options)
    assert everything.answers > 0
    assert se.report(place.enrichment, **place.options).table.rows == 0
