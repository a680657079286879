"""The corpus: templates of other authors, compiled for every engine and run on the engines available here.

python -m tests.support.corpus                          every template on every engine, as a table
python -m tests.support.corpus --engine spark --every 10
python -m tests.support.corpus --refused                what is not compiled, by reason
python -m tests.support.corpus --markdown               the tables of docs/corpus.md

DuckDB and Spark run their SQL. Google's evaluator runs BigQuery's SQL. A stand-in of the tests runs Snowflake's SQL: it
proves nothing about Snowflake. Databricks' SQL is compared with Spark's and parsed. ``--grammar N`` also parses every
Nth template as Snowflake's and Databricks' SQL with two other parsers, which check the grammar only.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import click

import sqlenrich as se
from sqlenrich.core.names import identifier
from sqlenrich.core.types import BIGINT, Array, Struct, Type, parse_type
from sqlenrich.engines import ENGINES, get_engine
from tests.support.in_memory import in_memory, insert

CORPORA = Path(os.environ.get("SQLENRICH_CORPORA", Path(__file__).parents[3] / "shared" / "corpora"))
FILE = CORPORA / "promptsource.jsonl"
TIERS = ("T1", "T2", "T3", "T4")
TABLE = "corpus_rows"  # not the name of a column: on BigQuery a table's name hides such a column
PLACE = "row_place"

Rows = Sequence[Mapping[str, Any]]
Run = Callable[[str, Mapping[str, Type], Rows], list[str | None]]
"""Maps the SQL expression, the columns' types and the rows to the text of each row, in order."""


@dataclass(frozen=True)
class Template:
    """One template of the corpus: constants, columns, rows and what Jinja rendered for each."""

    id: str
    tier: str
    template: str
    constants: Mapping[str, Any]
    columns: Mapping[str, Any]
    rows: Rows
    expected: Sequence[str]

    @property
    def types(self) -> dict[str, Type]:
        """The columns' types."""
        return {name: parse_type(kind) for name, kind in self.columns.items()}


@cache
def corpus() -> tuple[Template, ...]:
    """Every template, in the file's order."""
    names = ("id", "tier", "template", "vars", "columns", "rows", "expected")
    entries = map(json.loads, FILE.read_text(encoding="utf-8").splitlines())
    return tuple(Template(*(entry[name] for name in names)) for entry in entries)


def sample(every: int = 1, tiers: Iterable[str] = TIERS) -> list[Template]:
    """Every Nth template of each tier."""
    return [
        template
        for tier in tiers
        for place, template in enumerate(entry for entry in corpus() if entry.tier == tier)
        if place % every == 0
    ]


def compiled(template: Template, engine: str) -> str | se.SqlenrichError:
    """The SQL expression, or the error of the compiler."""
    try:
        return se.prompt_sql(template.template, engine, columns=template.columns, vars=template.constants)
    except (se.PromptError, se.UnsupportedError) as error:
        return error


# Running --------------------------------------------------------------------------------------------------------------


def _typed(engine: str, types: Mapping[str, Type]) -> dict[str, str]:
    words = get_engine(engine)
    kinds = {PLACE: BIGINT, **types}
    return {name: words.sql_type(kind).sql(words.dialect) for name, kind in kinds.items()}


def _placed(types: Mapping[str, Type], rows: Rows) -> list[tuple[Any, ...]]:
    return [(place, *(row[name] for name in types)) for place, row in enumerate(rows)]


def _query(sql: str) -> str:
    return f"SELECT {PLACE}, ({sql}) FROM {TABLE}"


def _texts(found: Iterable[Sequence[Any]]) -> list[str | None]:
    return [text for _, text in sorted(found, key=lambda row: int(row[0]))]


@contextmanager
def _duckdb() -> Iterator[Run]:
    with in_memory() as connection:

        def run(sql: str, types: Mapping[str, Type], rows: Rows) -> list[str | None]:
            names = {name: identifier(get_engine("duckdb"), name).sql("duckdb") for name in (PLACE, *types)}
            listed = ", ".join(f"{names[name]} {kind}" for name, kind in _typed("duckdb", types).items())
            connection.execute(f"CREATE OR REPLACE TEMP TABLE {TABLE} ({listed})")
            insert(connection, TABLE, _placed(types, rows))
            return _texts(connection.execute(_query(sql)).fetchall())

        yield run


@contextmanager
def _spark() -> Iterator[Run]:
    """A table of Arrow data is a LocalRelation: the optimizer evaluates the query, no job is started or code made."""
    import pyarrow as pa

    from tests.standins.spark import settings, spark_session

    session = spark_session()
    plain = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64(), "boolean": pa.bool_()}

    def arrow(kind: Type) -> Any:
        if isinstance(kind, Array):
            return pa.list_(arrow(kind.item))
        if isinstance(kind, Struct):
            return pa.struct([(name, arrow(part)) for name, part in kind.fields])
        return plain[str(getattr(kind, "name", ""))]

    def run(sql: str, types: Mapping[str, Type], rows: Rows) -> list[str | None]:
        schema = pa.schema([(PLACE, pa.int64()), *((name, arrow(kind)) for name, kind in types.items())])
        table = pa.Table.from_pylist([{PLACE: place, **row} for place, row in enumerate(rows)], schema)
        session.createDataFrame(table).createOrReplaceTempView(TABLE)
        return _texts(session.sql(_query(sql)).collect())

    with settings({"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}):
        try:
            yield run
        finally:
            session.catalog.dropTempView(TABLE)


@contextmanager
def _bigquery() -> Iterator[Run]:
    from tests.standins.googlesql import googlesql, stored

    def run(sql: str, types: Mapping[str, Type], rows: Rows) -> list[str | None]:
        held = [{name: stored(row[name], kind) for name, kind in types.items()} for row in rows]
        return _texts(googlesql().evaluate(_query(sql), {TABLE: (_typed("bigquery", types), _placed(types, held))}))

    yield run


@contextmanager
def _snowflake() -> Iterator[Run]:
    from tests.standins import snowflake

    def run(sql: str, types: Mapping[str, Type], rows: Rows) -> list[str | None]:
        words = get_engine("snowflake")
        columns = {identifier(words, name).sql("snowflake"): kind for name, kind in _typed("snowflake", types).items()}
        return _texts(snowflake.rows(_query(sql), {TABLE: (columns, _placed(types, rows))}))

    yield run


@contextmanager
def _clickhouse() -> Iterator[Run]:
    from tests.support import clickhouse

    def run(sql: str, types: Mapping[str, Type], rows: Rows) -> list[str | None]:
        clickhouse.fill(TABLE, _typed("clickhouse", types), _placed(types, rows))
        return _texts(clickhouse.rows(_query(sql)))

    yield run


RUNNERS = {
    "duckdb": _duckdb,
    "spark": _spark,
    "bigquery": _bigquery,
    "snowflake": _snowflake,
    "clickhouse": _clickhouse,
}
"""Where rows can be run; Databricks' SQL can't."""


def storable(engine: str, row: Mapping[str, Any], types: Mapping[str, Type]) -> bool:
    """Whether the engine's tables can hold a row: BigQuery's hold no missing array and no NULL in one."""
    if engine == "clickhouse":
        return all(row[name] is not None for name, kind in types.items() if isinstance(kind, Array))
    return engine != "bigquery" or all(_whole(row[name], kind) for name, kind in types.items())


def _whole(value: Any, kind: Type) -> bool:
    if isinstance(kind, Array):
        return value is not None and all(item is not None and _whole(item, kind.item) for item in value)
    if isinstance(kind, Struct) and value is not None:
        return all(_whole(value[name], part) for name, part in kind.fields)
    return True


@dataclass
class Tally:
    """What became of some templates on one engine."""

    templates: int = 0
    compiled: int = 0
    rows: int = 0
    identical: int = 0
    not_stored: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)
    """The id of each template that is not compiled, and why."""
    different: list[tuple[str, str]] = field(default_factory=list)
    """The id of each template with a row of another text or an error, and that."""

    def add(self, other: Tally) -> None:
        """Count another tally in."""
        for name in ("templates", "compiled", "rows", "identical", "not_stored", "refused", "different"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def tally(engine: str, templates: Sequence[Template], run: Run | None) -> Tally:
    """Compile templates, run their rows where there is a way to, and compare each text."""
    made = Tally(len(templates))
    for template in templates:
        sql = compiled(template, engine)
        if isinstance(sql, se.SqlenrichError):
            made.refused.append((template.id, str(sql)))
            continue
        made.compiled += 1
        if run is None:
            continue
        types = template.types
        pairs = [p for p in zip(template.rows, template.expected, strict=True) if storable(engine, p[0], types)]
        made.not_stored += len(template.rows) - len(pairs)
        made.rows += len(pairs)
        if not pairs:
            continue
        try:
            found = run(sql, types, [row for row, _ in pairs])
        except Exception as error:  # an engine's own; the template is told, and the others still run
            made.different.append((template.id, f"{type(error).__name__}: {str(error)[:300]}"))
            continue
        wrong = [(text, wanted) for text, (_, wanted) in zip(found, pairs, strict=True) if text != wanted]
        made.identical += len(pairs) - len(wrong)
        if wrong:
            made.different.append((template.id, "{!r} instead of {!r}".format(*wrong[0])))
    return made


def tallies(engine: str, every: int = 1, tiers: Iterable[str] = TIERS) -> dict[str, Tally]:
    """The tally of each tier on one engine."""
    if engine not in RUNNERS:
        return {tier: tally(engine, sample(every, [tier]), None) for tier in tiers}
    with RUNNERS[engine]() as run:
        return {tier: tally(engine, sample(every, [tier]), run) for tier in tiers}


def total(made: Mapping[str, Tally]) -> Tally:
    """All tiers as one."""
    whole = Tally()
    for part in made.values():
        whole.add(part)
    return whole


# Grammar --------------------------------------------------------------------------------------------------------------


def unparsed(engine: str, every: int) -> tuple[int, list[tuple[str, str]]]:
    """The number of templates that sqlfluff and sqlglot parsed as the engine's SQL, and their refusals."""
    from tests.standins.grammar import check_sqlfluff, check_sqlglot

    count, problems = 0, []
    for template in sample(every):
        sql = compiled(template, engine)
        if isinstance(sql, se.SqlenrichError):
            continue
        count += 1
        for check in (check_sqlfluff, check_sqlglot):
            try:
                check(_query(sql) + ";", engine)
            except AssertionError as error:
                problems.append((template.id, str(error)[:300]))
    return count, problems


# Reports --------------------------------------------------------------------------------------------------------------


def reasons(refused: Iterable[tuple[str, str]]) -> list[tuple[str, int, list[str]]]:
    """Refusals by reason, the most frequent first: the reason, the number of templates, their ids with the line."""
    found: dict[str, list[str]] = {}
    for id_, message in refused:
        found_at = re.match(r"prompt:(\d+)(?::\d+)?: ", message)
        line, reason = (f"line {found_at[1]}", message[found_at.end() :]) if found_at else ("no line", message)
        general = re.sub(r'"[^"]*"', '"…"', reason)
        found.setdefault(general, []).append(f"{id_} ({line})")
    return sorted(((why, len(ids), ids) for why, ids in found.items()), key=lambda item: -item[1])


NAMES = {
    "databricks": "Databricks",
    "snowflake": "Snowflake",
    "bigquery": "BigQuery",
    "spark": "Spark",
    "duckdb": "DuckDB",
}
RUN_BY = {
    "databricks": "not run",
    "snowflake": "our stand-in, not Snowflake",
    "bigquery": "Google's evaluator",
    "spark": "Spark itself",
    "duckdb": "DuckDB itself",
}


def _cell(engine: str, part: Tally) -> str:
    share = f"{part.compiled:,} ({100 * part.compiled / part.templates:.1f} %)"
    return f"{share}, {part.identical:,} of {part.rows:,} rows" if engine in RUNNERS else share


def markdown(made: Mapping[str, Mapping[str, Tally]]) -> str:
    """The tables of docs/corpus.md."""
    first = next(iter(made.values()))
    tiers_of = " | ".join(f"{tier}: {first[tier].templates}" for tier in first)
    lines = [f"| engine | run by | {tiers_of} | all | different |"]
    lines.append("| --- | --- |" + " ---: |" * (len(first) + 2))
    for engine, tiers in made.items():
        whole = total(tiers)
        counts = " | ".join(_cell(engine, part) for part in (*tiers.values(), whole))
        different = f"{whole.rows - whole.identical:,}" if engine in RUNNERS else "–"
        lines.append(f"| {NAMES[engine]} | {RUN_BY[engine]} | {counts} | {different} |")
    lines += ["", "| reason (DuckDB) | templates |", "| --- | ---: |"]
    some = made.get("duckdb", first)
    lines += [
        f"| {reason.replace('|', chr(92) + '|')} | {count} |" for reason, count, _ in reasons(total(some).refused)
    ]
    return "\n".join(lines)


def plain(engine: str, tiers: Mapping[str, Tally], seconds: float) -> str:
    """One engine's lines."""
    lines = []
    for tier, part in [*tiers.items(), ("all", total(tiers))]:
        ran = f"{part.identical}/{part.rows} rows identical" if engine in RUNNERS else "not run"
        stored = f", {part.not_stored} can't be stored" if part.not_stored else ""
        lines.append(f"{engine:10} {tier:3} {part.compiled}/{part.templates} compiled, {ran}{stored}")
    lines += [f"  {id_}: {why}" for id_, why in total(tiers).different]
    return "\n".join([*lines, f"  {seconds:.1f} s"])


@click.command()
@click.option("--engine", "engines", multiple=True, type=click.Choice(tuple(ENGINES)), help="Default: all.")
@click.option("--every", default=1, show_default=True, help="Only every Nth template of each tier.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the tables of docs/corpus.md.")
@click.option("--refused", is_flag=True, help="List what is not compiled, by reason.")
@click.option("--grammar", default=0, help="Parse every Nth template as Snowflake's and Databricks' SQL.")
def main(engines: tuple[str, ...], every: int, as_markdown: bool, refused: bool, grammar: int) -> None:
    """Compile and run the corpus. The exit status is 1 if a row differs."""
    if not FILE.is_file():
        raise click.ClickException(f"no corpus at {FILE}; set SQLENRICH_CORPORA to its folder")
    made: dict[str, dict[str, Tally]] = {}
    failed = False
    for engine in engines or tuple(ENGINES):
        start = time.monotonic()
        made[engine] = tallies(engine, every)
        failed |= bool(total(made[engine]).different)
        if not as_markdown or total(made[engine]).different:
            click.echo(plain(engine, made[engine], time.monotonic() - start), err=as_markdown)
    if as_markdown:
        click.echo(markdown(made))
    if refused:
        for engine, tiers in made.items():
            click.echo(f"\n{engine}: not compiled")
            for reason, count, ids in reasons(total(tiers).refused):
                click.echo(f"{count:4} {reason}\n       " + "\n       ".join(ids))
    for engine in ("snowflake", "databricks") if grammar else ():
        count, problems = unparsed(engine, grammar)
        failed |= bool(problems)
        click.echo(f"{engine}: {count} templates parsed by sqlfluff and sqlglot, {len(problems)} problems")
        for id_, problem in problems:
            click.echo(f"  {id_}: {problem}")
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
