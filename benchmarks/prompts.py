"""Measure the time to compile prompts, and the rows per second of their SQL compared with jinja2.

    python benchmarks/prompts.py compile [--corpora FOLDER] [--profile]
    python benchmarks/prompts.py rows [--rows 200000] [--corpora FOLDER] [--engines duckdb spark]

``compile`` takes every template of FOLDER/promptsource.jsonl for all engines. ``rows`` gives the texts of
FOLDER/banking77/train.csv, repeated with different numbers, to three prompts: on DuckDB, on Spark (two threads, a warm
JVM, all rows written to nowhere) and in Python (jinja2, each template parsed once; one process and two). FOLDER is
SQLENRICH_CORPORA if that is set. Without texts, generated ones are used. Both print lines of JSON.
"""

from __future__ import annotations

import argparse
import cProfile
import csv
import json
import os
import pstats
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import jinja2

import sqlenrich as se
from sqlenrich.core.names import column
from sqlenrich.core.printer import print_sql
from sqlenrich.core.types import parse_type
from sqlenrich.engines import ENGINES, get_engine
from sqlenrich.prompt import compile_prompt
from sqlenrich.prompt.reference import environment
from sqlenrich.prompt.sql.printer import prompt_sql

COLUMNS: dict[str, Any] = {"id": "bigint", "body": "string", "stars": "bigint", "tags": {"array": "string"}}
TEMPLATES = {
    "plain": "Classify the message of customer {{ id }}.\n\nMessage: {{ body }}\nAnswer with one label.",
    "conditions and filters": (
        "{% if stars is not none and stars < 3 %}An unhappy customer{% elif stars %}A customer{% else %}Somebody"
        "{% endif %} wrote:\n{{ body | trim | replace('\"', \"'\") }}\n"
        "{% if body | length > 80 %}It begins with {{ body[:40] | upper }}...\n{% endif %}"
        "{% if '?' in body %}Answer the question.{% else %}Sum it up.{% endif %} {{ stars | default(0, true) }}/5"
    ),
    "a loop over an array": (
        "{{ body }}\n{% for tag in tags %}{{ loop.index }}. {{ tag | trim }}{% if not loop.last %}, {% endif %}"
        "{% else %}no tags{% endfor %}\n{{ tags | join(' / ') }}"
    ),
}
Row = dict[str, Any]


# Compiling ------------------------------------------------------------------------------------------------------------


def compile_all(file: Path) -> dict[str, Any]:
    """Return the CPU seconds of all templates: parsed and compiled once, then built and printed for each engine."""
    entries = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    parsing, building, printing = 0.0, dict.fromkeys(ENGINES, 0.0), dict.fromkeys(ENGINES, 0.0)
    compiled = characters = 0
    slowest = (0.0, "")
    for entry in entries:
        started = time.process_time()
        types = {name: parse_type(kind) for name, kind in entry["columns"].items()}
        try:
            expr = compile_prompt(entry["template"], columns=types, vars=entry["vars"], default=None).expr
        except se.PromptError:
            continue
        finally:
            parsed = time.process_time() - started
            parsing += parsed
        compiled += 1
        whole = parsed
        for name in ENGINES:
            engine = get_engine(name)
            before = time.process_time()
            try:
                built = prompt_sql(expr, engine.text, partial(column, engine))
            except (se.PromptError, se.UnsupportedError):
                continue
            between = time.process_time()
            characters += len(print_sql(engine, built))
            after = time.process_time()
            building[name] += between - before
            printing[name] += after - between
            whole += after - before
        slowest = max(slowest, (whole, entry["id"]))
    total = parsing + sum(building.values()) + sum(printing.values())
    return {
        "templates": len(entries),
        "compiled": compiled,
        "seconds": round(total, 2),
        "ms_per_template": round(1000 * total / max(compiled, 1), 2),
        "parse_and_compile": round(parsing, 2),
        "build": {name: round(seconds, 2) for name, seconds in building.items()},
        "print": {name: round(seconds, 2) for name, seconds in printing.items()},
        "sql_mb": round(characters / 2**20, 2),
        "slowest_ms": round(1000 * slowest[0], 1),
        "slowest": slowest[1],
    }


# Rows -----------------------------------------------------------------------------------------------------------------


def bodies(folder: Path) -> list[str]:
    """Return the customers' messages, or generated ones if there are none."""
    file = folder / "banking77" / "train.csv"
    if not file.is_file():
        return [f"Message {n}: why has order {n * 7919} not come? " + "It is late. " * (n % 9) for n in range(10_000)]
    with file.open(newline="", encoding="utf-8") as lines:
        return [line["text"] for line in csv.DictReader(lines)]


def make_rows(texts: Sequence[str], count: int) -> list[Row]:
    """Return ``count`` rows: a message, a number that may be missing, a few words as an array."""
    return [
        {
            "id": n,
            "body": (text := texts[n % len(texts)]),
            "stars": None if n % 11 == 0 else n % 6,
            "tags": text.split(" ")[: n % 5],
        }
        for n in range(count)
    ]


def timed(work: Callable[[], object], times: int) -> float:
    """Return the seconds of the fastest of some runs, after one that warms up."""
    work()
    best = float("inf")
    for _ in range(times):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best


@cache
def parsed(template: str) -> jinja2.Template:
    """Return a template that is parsed once in each process."""
    return environment().from_string(template)


def render_all(template: str, rows: Iterable[Mapping[str, Any]]) -> int:
    """Render a template for each row in Python and give the number of characters."""
    render = parsed(template).render
    return sum(len(render(row)) for row in rows)


_PART: list[list[Row]] = []
"""The rows of the pool's processes, which they have before time is taken."""


def _take(parts: list[list[Row]]) -> None:
    _PART[:] = parts


def _render_part(template: str, part: int) -> int:
    return render_all(template, _PART[part])


def _both(pool: ProcessPoolExecutor, template: str) -> int:
    return sum(pool.map(_render_part, [template] * 2, [0, 1]))


def write_rows(rows: Sequence[Row], file: Path) -> None:
    """Write the rows to a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    strings = pa.list_(pa.string())
    schema = pa.schema([("id", pa.int64()), ("body", pa.string()), ("stars", pa.int64()), ("tags", strings)])
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), file)


def measure_rows(rows: Sequence[Row], engines: Sequence[str], times: int) -> Iterable[dict[str, Any]]:
    """Return the rows per second of each prompt, in SQL and in Python."""
    with (
        TemporaryDirectory() as folder,
        ProcessPoolExecutor(2, initializer=_take, initargs=([list(rows[0::2]), list(rows[1::2])],)) as pool,
        duckdb.connect() as db,
    ):
        file = Path(folder) / "rows.parquet"
        write_rows(rows, file)
        db.execute("SET threads = 2")
        db.execute(f"CREATE TABLE source AS FROM '{file}'")
        spark = _spark(file) if "spark" in engines else None
        for name, template in TEMPLATES.items():
            seconds: dict[str, float] = {}
            sql = se.prompt_sql(template, "duckdb", columns=COLUMNS)
            length = f"SELECT sum(length({sql})) FROM source"
            expected = render_all(template, rows)
            if "duckdb" in engines:
                (found,) = db.execute(length).fetchall()[0]
                assert found == expected, (found, expected)
                query = f"CREATE OR REPLACE TEMP TABLE prompts AS SELECT {sql} AS prompt FROM source"
                seconds["duckdb"] = timed(partial(db.execute, query), times)
            if spark is not None:
                sql = se.prompt_sql(template, "spark", columns=COLUMNS)
                query = f"SELECT {sql} AS prompt FROM source"
                assert spark.sql(f"SELECT sum(length(prompt)) FROM ({query})").collect()[0][0] == expected
                write = spark.sql(query).write.format("noop").mode("overwrite")
                seconds["spark"] = timed(write.save, times)
            seconds["jinja2"] = timed(partial(render_all, template, rows), times)
            seconds["jinja2, 2 processes"] = timed(partial(_both, pool, template), times)
            yield {
                "prompt": name,
                "rows": len(rows),
                "characters_per_row": round(expected / len(rows)),
                "rows_per_second": {what: round(len(rows) / each) for what, each in seconds.items()},
                "times_jinja2": {what: round(seconds["jinja2"] / each, 2) for what, each in seconds.items()},
            }


def _spark(file: Path) -> Any:
    """Return a session of two threads that holds the rows in memory."""
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.driver.memory": "2g"}
    builder = SparkSession.builder.master("local[2]").appName("prompts")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.read.parquet(str(file)).repartition(2).cache().createOrReplaceTempView("source")
    session.sql("SELECT count(*), max(body) FROM source").collect()
    return session


def main() -> None:
    """Run the chosen measurements."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("compile", "rows"))
    default = os.environ.get("SQLENRICH_CORPORA", str(Path(__file__).parents[2] / "shared" / "corpora"))
    parser.add_argument("--corpora", type=Path, default=Path(default), help="folder of the corpora")
    parser.add_argument("--profile", action="store_true", help="print the functions that take longest")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--times", type=int, default=3, help="runs, of which the fastest counts")
    parser.add_argument("--engines", nargs="*", choices=("duckdb", "spark"), default=["duckdb", "spark"])
    given = parser.parse_args()
    if given.what == "rows":
        for result in measure_rows(make_rows(bodies(given.corpora), given.rows), given.engines, given.times):
            print(json.dumps(result), flush=True)
        return
    profiler = cProfile.Profile()
    if given.profile:
        profiler.enable()
    print(json.dumps(compile_all(given.corpora / "promptsource.jsonl"), indent=2))
    if given.profile:
        profiler.disable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
