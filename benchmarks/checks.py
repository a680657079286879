"""Measure how many answers per second are checked: ten fields in SQL, and in Python's JSON Schema validators.

    python benchmarks/checks.py [--rows 200000] [--engines duckdb spark] [--times 3]

The same answers, a tenth of them bad in ten ways, are judged by the ``checked`` step of a plan, and by ``checked`` and
``enriched``, which adds the typed columns. This runs on DuckDB and on Spark (two threads, a warm JVM, all rows written
to nowhere). In Python, orjson parses each answer, and a validator checks it. A good answer becomes a typed tuple, a
bad one is counted. fastjsonschema, jsonschema-rs and jsonschema are compared if they are installed (``pip install
fastjsonschema jsonschema-rs jsonschema``). A missing one is reported. Prints one line of JSON: rows per second, and
each as a multiple of the fastest validator in Python.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

import sqlenrich as se
from sqlenrich.plan.plan import RESPONSES, Plan
from sqlenrich.spec.loader import loads

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "intent": {"type": "string", "enum": ["card_arrival", "lost_or_stolen_card", "refund", "transfer", "other"]},
        "urgency": {"type": "integer", "minimum": 1, "maximum": 5},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "summary": {"type": "string", "minLength": 10, "maxLength": 200},
        "language": {"type": "string", "pattern": "^[a-z]{2}$"},
        "order": {"type": ["string", "null"], "maxLength": 20},
        "day": {"type": "string", "format": "date"},
        "refund": {"type": "boolean"},
        "products": {"type": "array", "items": {"type": "string", "maxLength": 40}, "maxItems": 5},
        "customer": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
            "required": ["name"],
            "additionalProperties": False,
        },
    },
    "required": ["intent", "urgency", "confidence", "summary", "language", "day", "refund", "products", "customer"],
    "additionalProperties": False,
}
BAD: tuple[Callable[[dict[str, Any]], Any], ...] = (
    lambda answer: answer.pop("intent"),
    lambda answer: answer.update(extra=1),
    lambda answer: answer.update(urgency="3"),
    lambda answer: answer.update(intent="unknown"),
    lambda answer: answer.update(confidence=1.5),
    lambda answer: answer.update(summary="short"),
    lambda answer: answer.update(language="EN"),
    lambda answer: answer.update(day="2026-02-30"),
    lambda answer: answer.update(products=["x"] * 6),
    lambda answer: answer["customer"].update(age=-1),
)
ACCEPTED_OF = 10
"""One answer of this number is bad."""


def make_answers(count: int) -> list[str]:
    """Give ``count`` answers."""
    made = []
    for n in range(count):
        answer = {
            "intent": SCHEMA["properties"]["intent"]["enum"][n % 5],
            "urgency": n % 5 + 1,
            "confidence": n % 101 / 100,
            "summary": f"The customer asks for the {n % 97}th time why card {n} has not come yet.",
            "language": ("en", "de", "fr")[n % 3],
            "order": None if n % 4 == 0 else f"A-{n}",
            "day": f"2026-{n % 12 + 1:02}-{n % 28 + 1:02}",
            "refund": n % 2 == 0,
            "products": [f"product {n % 7}", "card"][: n % 3],
            "customer": {"name": f"Zoë {n % 1000}", "age": n % 90},
        }
        if n % ACCEPTED_OF == 0:
            BAD[n // ACCEPTED_OF % len(BAD)](answer)
        made.append(json.dumps(answer, ensure_ascii=False))
    return made


def timed(work: Callable[[], object], times: int) -> float:
    """Give the seconds of the fastest of some runs, after one that warms up."""
    work()
    best = float("inf")
    for _ in range(times):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best


# Python ---------------------------------------------------------------------------------------------------------------


def _fastjsonschema(module: Any) -> Callable[[Any], bool]:
    validate = module.compile({**SCHEMA, "$schema": "http://json-schema.org/draft-07/schema#"})

    def valid(value: Any) -> bool:
        try:
            validate(value)
        except module.JsonSchemaException:
            return False
        return True

    return valid


def _jsonschema_rs(module: Any) -> Callable[[Any], bool]:
    return module.Draft202012Validator(SCHEMA, validate_formats=True).is_valid  # type: ignore[no-any-return]


def _jsonschema(module: Any) -> Callable[[Any], bool]:
    checker = module.Draft202012Validator.FORMAT_CHECKER
    return module.Draft202012Validator(SCHEMA, format_checker=checker).is_valid  # type: ignore[no-any-return]


VALIDATORS: Mapping[str, tuple[Callable[[Any], Callable[[Any], bool]], int]] = {
    "jsonschema_rs": (_jsonschema_rs, 1),
    "fastjsonschema": (_fastjsonschema, 1),
    "jsonschema": (_jsonschema, 20),
}
"""By module: how a validator is made, and that it is given every Nth answer only, where it is slow."""


def in_python(valid: Callable[[Any], bool], texts: Sequence[str]) -> int:
    """Read, validate and type the answers; give how many are good. A wrong date is bad."""
    rows = []
    for text in texts:
        try:
            value = orjson.loads(text)
        except ValueError:
            continue
        if not valid(value):
            continue
        try:
            day = date.fromisoformat(value["day"])
        except ValueError:
            continue
        customer = value["customer"]
        rows.append(
            (
                value["intent"],
                int(value["urgency"]),
                float(value["confidence"]),
                value["summary"],
                value["language"],
                value.get("order"),
                day,
                value["refund"],
                value["products"],
                (customer["name"], customer.get("age")),
            )
        )
    return len(rows)


# SQL ------------------------------------------------------------------------------------------------------------------


def plan_of(engine: str) -> Plan:
    """Give the plan of an enrichment whose answers have the ten fields."""
    header = f"source: source\nkey: [id]\noutput: {json.dumps(SCHEMA)}"
    return se.compile_plan(loads(f"---\n{header}\n---\n{{{{ body }}}}\n", name="bench"), engine)


def responses_sql(plan: Plan, engine: str) -> str:
    """Give the query of a table of responses: the answers beside the hashes of their prompts."""
    from sqlenrich.engines import get_engine

    words = get_engine(engine)
    given = {"request_hash": "p.request_hash", "attempt": "1", "response": "a.answer", "model": "'m'", "run_id": "'r'"}
    listed = ", ".join(
        f"CAST({given.get(name, 'NULL')} AS {words.sql_type(kind).sql(words.dialect)}) AS {name}"
        for name, kind in RESPONSES.items()
    )
    return f"SELECT {listed} FROM {plan.step('prompts').relation} AS p JOIN answers AS a ON p.id = a.id"


def on_duckdb(file: Path, threads: int, times: int) -> tuple[dict[str, float], int]:
    """Give the seconds of both on DuckDB, and how many answers are good."""
    plan = plan_of("duckdb")
    checked, enriched = plan.step("checked"), plan.step("enriched")
    with duckdb.connect() as db:
        db.execute(f"SET threads = {threads}")
        db.execute(f"CREATE TABLE answers AS FROM '{file}'")
        db.execute("CREATE TABLE source AS SELECT id, 'message ' || id AS body FROM answers")
        db.execute(f"CREATE TABLE {plan.step('prompts').relation} AS {plan.step('prompts').sql}")
        db.execute(f"CREATE TABLE {plan.step('responses').relation} AS {responses_sql(plan, 'duckdb')}")

        def check() -> None:
            db.execute(f"CREATE OR REPLACE TABLE {checked.relation} AS {checked.sql}")

        def both() -> None:
            check()
            db.execute(f"CREATE OR REPLACE TABLE {enriched.relation} AS {enriched.sql}")

        name = f"duckdb, {threads} thread{'s' * (threads > 1)}"
        seconds = {f"{name}: checked": timed(check, times), f"{name}: checked and enriched": timed(both, times)}
        found = db.execute(f"SELECT count(*) FROM {enriched.relation}").fetchall()
    return seconds, int(found[0][0])


def on_spark(file: Path, times: int) -> tuple[dict[str, float], int]:
    """Give the seconds of both on Spark, and how many answers are good."""
    from pyspark.sql import SparkSession

    plan = plan_of("spark")
    checked, enriched = plan.step("checked"), plan.step("enriched")
    settings = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.driver.memory": "2g"}
    builder = SparkSession.builder.master("local[2]").appName("checks")
    for name, value in {**settings, "spark.sql.shuffle.partitions": "2"}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()

    def table(relation: str, sql: str) -> None:
        # A cached view is made again by each query whose step has a WITH: it is not the same plan.
        name = relation.strip("`")
        session.sql(sql).repartition(2).write.mode("overwrite").parquet(str(file.with_name(name)))
        session.read.parquet(str(file.with_name(name))).createOrReplaceTempView(name)

    session.read.parquet(str(file)).createOrReplaceTempView("answers")
    table("source", "SELECT id, concat('message ', id) AS body FROM answers")
    table(plan.step("prompts").relation, plan.step("prompts").sql)
    table(plan.step("responses").relation, responses_sql(plan, "spark"))
    session.sql(checked.sql).createOrReplaceTempView(checked.relation.strip("`"))

    def write(sql: str) -> None:
        session.sql(sql).write.format("noop").mode("overwrite").save()

    name = "spark, 2 threads"
    seconds = {
        f"{name}: checked": timed(partial(write, checked.sql), times),
        f"{name}: checked and enriched": timed(partial(write, enriched.sql), times),
    }
    found = session.sql(f"SELECT count(*) FROM ({enriched.sql})").collect()[0][0]
    session.stop()
    return seconds, int(found)


def measure(count: int, engines: Sequence[str], times: int) -> dict[str, Any]:
    """Give the rows a second of all, and their ratios to the fastest validator in Python."""
    texts = make_answers(count)
    good = count - len(range(0, count, ACCEPTED_OF))
    speeds: dict[str, float] = {}
    for name, (make, every) in VALIDATORS.items():
        try:
            valid = make(importlib.import_module(name))
        except ImportError:
            print(f"{name} is not installed", file=sys.stderr)
            continue
        some = texts[::every] if every > 1 else texts
        found = in_python(valid, some)
        assert every > 1 or found == good, (name, found, good)
        speeds[f"python: {name}"] = len(some) / timed(partial(in_python, valid, some), times)
    fastest = max(speeds.values(), default=None)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "answers.parquet"
        pq.write_table(pa.table({"id": pa.array(range(count), pa.int64()), "answer": texts}), file)
        runs: list[Callable[[], tuple[dict[str, float], int]]] = []
        if "duckdb" in engines:
            runs += [partial(on_duckdb, file, threads, times) for threads in (1, 2)]
        if "spark" in engines:
            runs.append(partial(on_spark, file, times))
        for run in runs:
            seconds, found = run()
            assert found == good, (list(seconds), found, good)
            speeds |= {name: count / each for name, each in seconds.items()}
    return {
        "rows": count,
        "bytes_per_row": round(sum(len(text.encode()) for text in texts) / count),
        "rows_per_second": {name: round(speed) for name, speed in speeds.items()},
        "times_fastest_in_python": {name: round(speed / fastest, 2) for name, speed in speeds.items()}
        if fastest
        else {},
    }


def main() -> None:
    """Run the chosen measurements."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--times", type=int, default=3, help="runs, of which the fastest counts")
    parser.add_argument("--engines", nargs="*", choices=("duckdb", "spark"), default=["duckdb", "spark"])
    given = parser.parse_args()
    print(json.dumps(measure(given.rows, given.engines, given.times), indent=2))


if __name__ == "__main__":
    main()
