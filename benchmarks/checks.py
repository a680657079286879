"""Measure what judging an answer costs: the step ``checked`` on each engine, and JSON Schema validators in Python.

    python benchmarks/checks.py [--rows 50000] [--cases ten items hundred] [--engines duckdb spark] [--times 3]

Three kinds of answers are judged: ten fields, an array of objects, and a hundred properties. A tenth of the answers is
bad. SQL runs the ``checked`` step of a plan, and ``checked`` with ``enriched``, which adds the typed columns, on DuckDB
(one thread and two) and on Spark (two threads, all rows written to nowhere). In Python a validator is given what orjson
parsed; ``sqlenrich`` is the judge of a run without a warehouse. jsonschema-rs, fastjsonschema and jsonschema are
compared if they are installed (``pip install jsonschema-rs fastjsonschema jsonschema``). A missing one is reported.

Processor seconds count, those of all threads, because other programs may use the machine; on Spark they hold the time
of Java's compilers. Prints one line of JSON a case: rows per processor second and per second, and the first as a
multiple of jsonschema-rs. Needs Linux.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from sqlenrich.schema.checks.evaluate import evaluate_checks
from sqlenrich.schema.checks.ir import Checks
from sqlenrich.spec.enrichment import Enrichment
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


HUNDRED = 100
PROPERTIES: tuple[dict[str, Any], ...] = (
    {"type": "string", "maxLength": 50},
    {"type": "integer", "minimum": 0, "maximum": 1000},
    {"type": "number", "minimum": 0},
    {"type": "boolean"},
    {"type": "string", "enum": ["a", "b", "c"]},
)
"""The properties of a large schema, in turn."""
TEXT = {"type": "string", "minLength": 1, "maxLength": 80}


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _ten(n: int, bad: bool) -> dict[str, Any]:
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
    if bad:
        BAD[n // ACCEPTED_OF % len(BAD)](answer)
    return answer


def _items(n: int, bad: bool) -> dict[str, Any]:
    items = [{"name": f"name {place}", "value": f"value {n} of {place}"} for place in range(n % 8 + 1)]
    items[-1]["value"] *= not bad
    return {"items": items}


def _hundred(n: int, bad: bool) -> dict[str, Any]:
    answer = {
        f"p{place}": (f"text {n} of {place}", (n + place) % 1000, n % 100 / 7, n % 2 == 0, "abc"[n % 3])[place % 5]
        for place in range(HUNDRED)
    }
    return {**answer, "p1": -1} if bad else answer


@dataclass(frozen=True)
class Case:
    """A kind of answers: its schema, and the Nth answer, which may have to be bad."""

    schema: dict[str, Any]
    answer: Callable[[int, bool], dict[str, Any]]
    part: int = 1
    """One of this number of the rows is measured."""


CASES = {
    "ten": Case(SCHEMA, _ten),
    "items": Case(
        _object({"items": {"type": "array", "maxItems": 12, "items": _object({"name": TEXT, "value": TEXT})}}), _items
    ),
    "hundred": Case(_object({f"p{place}": PROPERTIES[place % 5] for place in range(HUNDRED)}), _hundred, part=5),
}


def make_answers(case: Case, count: int) -> list[str]:
    """Return ``count`` answers."""
    return [json.dumps(case.answer(n, n % ACCEPTED_OF == 0), ensure_ascii=False) for n in range(count)]


@dataclass(frozen=True)
class Cost:
    """The least seconds of some runs: of all processors, and on the clock."""

    processor: float
    clock: float


def measured(work: Callable[[], object], times: int, processor: Callable[[], float] = time.process_time) -> Cost:
    """Return the cost of some runs, after one that warms up."""
    work()
    costs = []
    for _ in range(times):
        used, started = processor(), time.perf_counter()
        work()
        costs.append((processor() - used, time.perf_counter() - started))
    return Cost(min(used for used, _ in costs), min(seconds for _, seconds in costs))


# Python ---------------------------------------------------------------------------------------------------------------


def _fastjsonschema(module: Any, schema: Mapping[str, Any]) -> Callable[[Any], bool]:
    validate = module.compile({**schema, "$schema": "http://json-schema.org/draft-07/schema#"})

    def valid(value: Any) -> bool:
        try:
            validate(value)
            date.fromisoformat(value.get("day", "2026-01-01"))
        except (module.JsonSchemaException, ValueError):
            return False
        return True

    return valid


def _jsonschema_rs(module: Any, schema: Mapping[str, Any]) -> Callable[[Any], bool]:
    return module.Draft202012Validator(schema, validate_formats=True).is_valid  # type: ignore[no-any-return]


def _jsonschema(module: Any, schema: Mapping[str, Any]) -> Callable[[Any], bool]:
    checker = module.Draft202012Validator.FORMAT_CHECKER
    return module.Draft202012Validator(schema, format_checker=checker).is_valid  # type: ignore[no-any-return]


FASTEST = "python: jsonschema_rs"
VALIDATORS: Mapping[str, tuple[Callable[[Any, Mapping[str, Any]], Callable[[Any], bool]], int]] = {
    "jsonschema_rs": (_jsonschema_rs, 1),
    "fastjsonschema": (_fastjsonschema, 1),
    "jsonschema": (_jsonschema, 20),
}
"""By module: how a validator is made, and the share of the answers that it is given: one in N, where it is slow."""


def in_python(valid: Callable[[Any], bool], texts: Sequence[str]) -> int:
    """Return how many answers are good."""
    return sum(valid(orjson.loads(text)) for text in texts)


def by_judge(checks: Checks, texts: Sequence[str]) -> int:
    """Return how many answers are good by the judge of a run without a warehouse."""
    return sum(evaluate_checks(checks, text) is None for text in texts)


# SQL ------------------------------------------------------------------------------------------------------------------


def enrichment_of(case: Case) -> Enrichment:
    """Return an enrichment with the schema of a case."""
    header = f"source: source\nkey: [id]\noutput: {json.dumps(case.schema)}"
    return loads(f"---\n{header}\n---\n{{{{ body }}}}\n", name="bench")


def plan_of(engine: str, case: Case) -> Plan:
    """Return the plan of such an enrichment."""
    return se.compile_plan(enrichment_of(case), engine)


def responses_sql(plan: Plan, engine: str) -> str:
    """Return the query of a table of responses: the answers beside the hashes of their prompts."""
    from sqlenrich.engines import get_engine

    words = get_engine(engine)
    given = {"request_hash": "p.request_hash", "attempt": "1", "response": "a.answer", "model": "'m'", "run_id": "'r'"}
    listed = ", ".join(
        f"CAST({given.get(name, 'NULL')} AS {words.sql_type(kind).sql(words.dialect)}) AS {name}"
        for name, kind in RESPONSES.items()
    )
    return f"SELECT {listed} FROM {plan.step('prompts').relation} AS p JOIN answers AS a ON p.id = a.id"


def on_duckdb(case: Case, file: Path, threads: int, times: int) -> tuple[dict[str, Cost], int]:
    """Return the cost of both on DuckDB, and how many answers are good."""
    plan = plan_of("duckdb", case)
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
        costs = {f"{name}: checked": measured(check, times), f"{name}: checked and enriched": measured(both, times)}
        found = db.execute(f"SELECT count(*) FROM {enriched.relation}").fetchall()
    return costs, int(found[0][0])


def on_spark(case: Case, file: Path, times: int) -> tuple[dict[str, Cost], int]:
    """Return the cost of both on Spark, and how many answers are good."""
    from pyspark.sql import SparkSession

    plan = plan_of("spark", case)
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

    gateway: Any = session.sparkContext._gateway
    java = Path(f"/proc/{gateway.proc.pid}/stat")

    def processor() -> float:
        ticks = java.read_text().rpartition(")")[2].split()[11:13]  # in user mode and in the kernel
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    name = "spark, 2 threads"
    costs = {
        f"{name}: checked": measured(partial(write, checked.sql), times, processor),
        f"{name}: checked and enriched": measured(partial(write, enriched.sql), times, processor),
    }
    found = session.sql(f"SELECT count(*) FROM ({enriched.sql})").collect()[0][0]
    session.stop()
    return costs, int(found)


def measure(case: Case, count: int, engines: Sequence[str], times: int) -> dict[str, Any]:
    """Return the rows a second of all, and their ratios to jsonschema-rs."""
    texts = make_answers(case, count)
    good = count - len(range(0, count, ACCEPTED_OF))
    speeds: dict[str, tuple[float, float]] = {}

    def add(name: str, rows: int, cost: Cost) -> None:
        speeds[name] = (rows / cost.processor, rows / cost.clock)

    for name, (make, every) in VALIDATORS.items():
        try:
            valid = make(importlib.import_module(name), case.schema)
        except ImportError:
            print(f"{name} is not installed", file=sys.stderr)
            continue
        some = texts[: count // every]
        found = in_python(valid, some)
        assert every > 1 or found == good, (name, found, good)
        add(f"python: {name}", len(some), measured(partial(in_python, valid, some), times))
    checks = enrichment_of(case).checks
    assert by_judge(checks, texts) == good
    add("python: sqlenrich", count, measured(partial(by_judge, checks, texts), times))
    with TemporaryDirectory() as folder:
        file = Path(folder) / "answers.parquet"
        pq.write_table(pa.table({"id": pa.array(range(count), pa.int64()), "answer": texts}), file)
        runs: list[Callable[[], tuple[dict[str, Cost], int]]] = []
        if "duckdb" in engines:
            runs += [partial(on_duckdb, case, file, threads, times) for threads in (1, 2)]
        if "spark" in engines:
            runs.append(partial(on_spark, case, file, times))
        for run in runs:
            costs, found = run()
            assert found == good, (list(costs), found, good)
            for name, cost in costs.items():
                add(name, count, cost)
    base = speeds.get(FASTEST)
    return {
        "rows": count,
        "bytes_per_row": round(sum(len(text.encode()) for text in texts) / count),
        "rows_per_processor_second": {name: round(speed) for name, (speed, _) in speeds.items()},
        "rows_per_second": {name: round(speed) for name, (_, speed) in speeds.items()},
        "times_jsonschema_rs": {name: round(speed / base[0], 3) for name, (speed, _) in speeds.items()} if base else {},
    }


def main() -> None:
    """Run the chosen measurements."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--times", type=int, default=3, help="runs, of which the fastest counts")
    parser.add_argument("--cases", nargs="*", choices=tuple(CASES), default=list(CASES))
    parser.add_argument("--engines", nargs="*", choices=("duckdb", "spark"), default=["duckdb", "spark"])
    given = parser.parse_args()
    for name in given.cases:
        case = CASES[name]
        print(json.dumps({"case": name, **measure(case, given.rows // case.part, given.engines, given.times)}))


if __name__ == "__main__":
    main()
