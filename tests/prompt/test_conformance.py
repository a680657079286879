"""What is executed is equal: DuckDB, Google's evaluator, Spark and the Snowflake stand-in against jinja2 and the checks
in Python."""

from __future__ import annotations

import csv
import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.core.names import identifier
from sqlenrich.core.text_functions import BLANK
from sqlenrich.core.turn import ASSISTANT, ROW_SYSTEM, SEPARATOR, SYSTEM, USER, Turn, text_before
from sqlenrich.core.types import BIGINT, STRING, Array, Scalar, Struct, Type
from sqlenrich.engines import get_engine
from sqlenrich.plan.plan import RESPONSES
from sqlenrich.plan.request import request_hash
from sqlenrich.renderer.script import script
from sqlenrich.renderer.statements import step_statements
from sqlenrich.schema import CODES, evaluate_checks
from sqlenrich.schema.checks.json_text import repair
from sqlenrich.spec.loader import loads, templates
from tests.standins import snowflake
from tests.support import clickhouse
from tests.support.hostile import HOSTILE, TEXTS
from tests.support.in_memory import in_memory, insert

ENGINES = [
    "duckdb",
    pytest.param("bigquery", marks=pytest.mark.zetasql),
    pytest.param("spark", marks=pytest.mark.spark),
    *clickhouse.REGISTERED,
]
EXPRESSIONS = [*ENGINES, "snowflake"]
SCRIPTS = [*EXPRESSIONS, pytest.param("databricks", marks=pytest.mark.spark)]
TEMPLATES = tuple(templates())

each_engine = pytest.mark.parametrize("engine", ENGINES)
each_expression = pytest.mark.parametrize("engine", EXPRESSIONS)
each_script = pytest.mark.parametrize("engine", SCRIPTS)

Row = tuple[Any, ...]
Columns = Mapping[str, Type]


class Outcome(NamedTuple):
    """What a model gives for one prompt."""

    text: str | None
    error: str | None = None
    retryable: bool = False
    finish: str | None = None


Reply = Callable[[str], Outcome]
RETRYABLE = Outcome(None, "A retryable error occurred: 429 too many requests", retryable=True)
REFUSED = Outcome(None, "INVALID_ARGUMENT: no")


# The engines ----------------------------------------------------------------------------------------------------------


def typed(engine: str, columns: Columns) -> dict[str, str]:
    """The columns' types in the engine's words."""
    words = get_engine(engine)
    return {name: words.sql_type(kind).sql(words.dialect) for name, kind in columns.items()}


def quoted(engine: str, name: str) -> str:
    mark = '"' if engine == "duckdb" else "`"
    return mark + name.replace(mark, mark * 2) + mark


def columns_of_snowflake(columns: Columns) -> dict[str, str]:
    """The columns' types by their names as CREATE TABLE has them."""
    words = get_engine("snowflake")
    kinds = typed("snowflake", columns)
    return {identifier(words, name).sql("snowflake"): kind for name, kind in kinds.items()}


def fill_duckdb(db: duckdb.DuckDBPyConnection, table: str, columns: Columns, rows: Sequence[Row]) -> None:
    listed = ", ".join(f"{quoted('duckdb', name)} {kind}" for name, kind in typed("duckdb", columns).items())
    db.execute(f"CREATE TABLE {table} ({listed})")
    insert(db, table, rows)


def fill_spark(table: str, columns: Columns, rows: Sequence[Row]) -> None:
    from tests.standins.spark import spark_session

    shape = ", ".join(f"{quoted('spark', name)} {kind}" for name, kind in typed("spark", columns).items())
    spark_session().createDataFrame(list(rows), shape).coalesce(1).createOrReplaceTempView(table)


def select(engine: str, sql: str, columns: Columns, rows: Sequence[Row]) -> list[Row]:
    """Run a query over one table, ``source``."""
    if engine == "duckdb":
        with in_memory() as db:
            fill_duckdb(db, "source", columns, rows)
            return db.execute(sql).fetchall()
    if engine == "bigquery":
        from tests.standins.googlesql import googlesql, stored

        held = [tuple(map(stored, row, columns.values())) for row in rows]
        return googlesql().evaluate(sql, {"source": (typed("bigquery", columns), held)})
    if engine == "snowflake":
        read_as = snowflake.READINGS["strict"] if "PARSE_JSON" in sql else snowflake.PLAIN
        return snowflake.rows(sql, {"source": (columns_of_snowflake(columns), rows)}, read_as=read_as)
    if engine == "clickhouse":
        clickhouse.fill("source", typed(engine, columns), rows)
        return clickhouse.rows(sql)
    from tests.standins.spark import ANSI_OFF, INTERPRETED, settings, spark_session
    from tests.standins.spark import rows as spark_rows

    fill_spark("source", columns, rows)
    try:
        found = spark_rows(sql)
        with settings(ANSI_OFF | INTERPRETED):
            assert spark_rows(sql) == found
        return found
    finally:
        spark_session().catalog.dropTempView("source")


def plain(value: Any) -> Any:
    """Structs as tuples, whatever the engine gives for them."""
    if isinstance(value, Mapping):
        return tuple(plain(item) for item in value.values())
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


Tables = dict[str, list[dict[str, Any]]]
"""The rows of each step by its name."""


def run_script(
    engine: str, enrichment: se.Enrichment, columns: Columns, rows: Sequence[Row], reply: Reply, times: int = 1
) -> Iterator[Tables]:
    """Run a whole rendered script some times over the same source; give the tables after each run."""
    plan = se.compile_plan(enrichment, engine, {"source": "source"})
    runners = {
        "duckdb": _run_duckdb,
        "bigquery": _run_bigquery,
        "snowflake": _run_snowflake,
        "clickhouse": _run_clickhouse,
    }
    runner = runners.get(engine, _run_spark)
    for tables in runner(plan, enrichment, columns, rows, reply, times):
        yield {step: [{n: plain(v) for n, v in row.items()} for row in found] for step, found in tables.items()}


def _run_duckdb(
    plan: se.Plan, enrichment: se.Enrichment, columns: Columns, rows: Sequence[Row], reply: Reply, times: int
) -> Iterator[Tables]:
    call = plan.step("responses")
    with in_memory() as db:
        fill_duckdb(db, "source", columns, rows)
        for run in range(times):
            for step in plan.steps:
                for _, sql in step_statements(get_engine("duckdb"), step):
                    db.execute(sql)
                if step is not call:
                    continue
                asked = db.execute(f"SELECT request_hash, attempt, prompt FROM {call.pending_relation}").fetchall()
                for hash_, attempt, prompt in asked:
                    answer = reply(prompt)
                    known = {
                        "request_hash": hash_,
                        "attempt": attempt,
                        "response": answer.text,
                        "call_error": answer.error,
                        "retryable": answer.retryable,
                        "finish_reason": answer.finish,
                        "model": plan.model,
                        "run_id": str(run),
                    }
                    marks = ", ".join("?" for _ in RESPONSES)
                    db.execute(f"INSERT INTO {call.relation} VALUES ({marks})", [known.get(n) for n in RESPONSES])
            tables: Tables = {}
            for step in plan.steps:
                found = db.execute(f"SELECT * FROM {step.relation}")
                names = [column[0] for column in found.description or ()]
                tables[step.name] = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
            yield tables


def _run_bigquery(
    plan: se.Plan, enrichment: se.Enrichment, columns: Columns, rows: Sequence[Row], reply: Reply, times: int
) -> Iterator[Tables]:
    from tests.standins.googlesql import googlesql

    finish = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}

    def ask(prompt: str | None) -> dict[str, Any]:
        answer = reply(str(prompt))
        reason = finish.get(answer.finish or "", "STOP")
        full = {"candidates": [{"finish_reason": reason}]}
        return {"result": answer.text, "status": answer.error or "", "full_response": json.dumps(full)}

    data: dict[str, Any] = {"source": (typed("bigquery", columns), rows)}
    names = {step.name: step.relation.strip("`") for step in plan.steps}
    for _ in range(times):
        made = googlesql().evaluate_script(script(plan, enrichment), data, ask).tables
        data[names["responses"]] = (typed("bigquery", RESPONSES), made[names["responses"]])
        yield {step: made[name] for step, name in names.items()}


def _run_snowflake(
    plan: se.Plan, enrichment: se.Enrichment, columns: Columns, rows: Sequence[Row], reply: Reply, times: int
) -> Iterator[Tables]:
    return run_snowflake(snowflake.READINGS["strict"], plan, enrichment, columns, rows, reply, times)


def run_snowflake(
    read_as: snowflake.Reading,
    plan: se.Plan,
    enrichment: se.Enrichment,
    columns: Columns,
    rows: Sequence[Row],
    reply: Reply,
    times: int = 1,
) -> Iterator[Tables]:
    """Run a script on the stand-in for Snowflake, in one of its readings of JSON."""

    def ask(prompt: str) -> tuple[str | None, str | None]:
        answer = reply(prompt)
        return answer.text, answer.error

    database = snowflake.Database({"source": (columns_of_snowflake(columns), rows)}, ask, read_as=read_as)
    for _ in range(times):
        database.run(script(plan, enrichment))
        yield {
            step.name: [
                {name: of_variant(value, kind) for (name, kind), value in zip(step.columns.items(), row, strict=True)}
                for row in database.rows(step.relation)
            ]
            for step in plan.steps
        }


def of_variant(value: Any, kind: Type) -> Any:
    """A value of Snowflake's semi-structured types as its typed column; a missing field is NULL, as a JSON null is."""
    if value is None or value is snowflake.JSON_NULL:
        return None
    match kind:
        case Array(item):
            return [of_variant(element, item) for element in value]
        case Struct(fields):
            return tuple(of_variant(value.get(name), field) for name, field in fields)
        case Scalar("bigint"):
            return int(value)
        case Scalar("double"):
            return float(value)
    return value


def _run_clickhouse(
    plan: se.Plan, enrichment: se.Enrichment, columns: Columns, rows: Sequence[Row], reply: Reply, times: int
) -> Iterator[Tables]:
    def ask(prompt: str) -> str | None:
        answer = reply(prompt.rpartition("\n\nAnswer with one JSON object that fits")[0])  # the hint
        return None if answer.error is not None else answer.text

    with clickhouse.database(), clickhouse.answering(ask):
        clickhouse.fill("source", typed("clickhouse", columns), rows)
        for _ in range(times):
            clickhouse.run_script(script(plan, enrichment))
            yield {
                step.name: [
                    dict(zip(step.columns, row, strict=True))
                    for row in clickhouse.rows(f"SELECT * FROM {step.relation}")
                ]
                for step in plan.steps
            }


def _run_spark(
    plan: se.Plan, enrichment: se.Enrichment, columns: Columns, rows: Sequence[Row], reply: Reply, times: int
) -> Iterator[Tables]:
    from tests.standins import spark

    def ask(call: spark.AiCall) -> spark.AiAnswer:
        answer = reply(str(call.request))
        return spark.AiAnswer(answer.text, answer.error)

    spark.spark_session()
    spark.register_ai_query(ask)
    with spark.mem_catalog():
        fill_spark("source", columns, rows)
        for _ in range(times):
            spark.run_script(script(plan, enrichment))
            yield {
                step.name: [
                    dict(zip(step.columns, row, strict=True)) for row in spark.rows(f"SELECT * FROM {step.relation}")
                ]
                for step in plan.steps
            }
        spark.rows("DROP VIEW source")


# Prompts --------------------------------------------------------------------------------------------------------------


def blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip(" \t\r\n"))


def rendered(template: str, row: Mapping[str, Any], constants: Mapping[str, Any]) -> str | None:
    try:
        return se.render_prompt(template, row, constants)
    except se.PromptError:
        return None


def source_rows(template: str) -> tuple[list[str], list[Row]]:
    """The columns that a ready-made enrichment reads; its sample's rows, then every hostile text in every place."""
    enrichment = se.load(template)
    names = list(dict.fromkeys((*enrichment.key, *enrichment.prompt().columns, *enrichment.keep)))
    with (Path(templates()[template]).parent / "sample.csv").open(newline="", encoding="utf-8") as file:
        sample = [tuple(row[name] or None for name in names) for row in csv.DictReader(file)]
    texts = list(HOSTILE.values())
    hostile = [tuple(texts[(start - place) % len(texts)] for place in range(len(names))) for start in range(len(texts))]
    rows: list[Row] = [*sample, *hostile, tuple(None for _ in names), *((text,) * len(names) for text in texts)]
    return names, rows


@each_script
@pytest.mark.parametrize("template", TEMPLATES)
def test_prompts_and_hashes_equal_the_reference(template: str, engine: str) -> None:
    enrichment = se.load(template)
    names, rows = source_rows(template)
    plan = se.compile_plan(enrichment, engine, {"source": "source"})
    constants = {"output": enrichment.schema["properties"], **enrichment.vars}
    printed = enrichment.prompt().columns
    expected = []
    for values in rows:
        row = dict(zip(names, values, strict=True))
        prompt = rendered(enrichment.template, row, constants)
        if enrichment.require is None:
            no_input = all(blank(row[name]) for name in printed)
        else:
            no_input = any(blank(row[name]) for name in enrichment.require)
        hash_ = None if no_input else request_hash(plan.constant, prompt)
        kept = tuple(row[name] for name in (*enrichment.key, *enrichment.keep))
        expected.append((*kept, (prompt or "") if no_input else prompt, hash_))
    found = select(engine, plan.step("prompts").sql, dict.fromkeys(names, STRING), rows)
    assert_rows(found, expected)
    assert sum(row[-1] is not None for row in expected) > 40
    assert sum(row[-1] is None for row in expected) > 4


SEPARATED = ["\x1e", "a\x1eb", "\x1e\x1e a", "a\x1e", " \x1e\n", "\x1e'\x1e"]
"""Texts with the character that ends a system message."""
OWN_SYSTEMS = {
    "a value": ("{{ lang }}", "Say {{ body }}"),
    "text and values": (
        "For {{ lang | default('any', true) }} \x1e it's {{ body[:3] if body else '' }}\n",
        "{{ body }}\n",
    ),
    "a condition": ("{% if lang %}\n  Answer in {{ lang | trim }}.\n{% endif %}\n", "{{ lang }}{{ body }}"),
    "may fail": ("{{ lang.strip()[0] }}", "Say {{ body }}"),
    "the prompt may fail": ("In {{ lang }}", "{{ body.strip()[0] }}"),
}
SHOTS = (Turn(USER, "Hé?"), Turn(ASSISTANT, "it's \\"))


def own_system(name: str, turns: Sequence[Turn] = SHOTS) -> se.Enrichment:
    system, template = OWN_SYSTEMS[name]
    shots = [turn._asdict() for turn in turns]
    output = {"n?": "integer"}
    made = se.enrichment("own", prompt=template, output=output, key=["id"], system=system, messages=shots)
    assert made.turns == (ROW_SYSTEM, *turns)
    return made


def own_system_rows() -> list[Row]:
    texts = [text for name, text in HOSTILE.items() if name != "100 KB"] + SEPARATED
    pairs = [(texts[(place * 7) % len(texts)], text) for place, text in enumerate(texts)]
    pairs += [(lang, "x") for lang in texts] + [("de", None), ("de", " "), (None, None)]
    return [(f"k{number}", *pair) for number, pair in enumerate(pairs)]


def own_text(enrichment: se.Enrichment, row: Mapping[str, Any]) -> str | None:
    """The reference: the stripped system message without separators, the separator, the prompt."""
    assert enrichment.system is not None
    system = rendered(enrichment.system, row, {})
    prompt = rendered(enrichment.template, row, {})
    return None if system is None or prompt is None else f"{system.replace(SEPARATOR, '').strip(BLANK)}\x1e{prompt}"


@each_script
@pytest.mark.parametrize("name", OWN_SYSTEMS)
def test_a_system_of_the_row_equals_the_reference(name: str, engine: str) -> None:
    """Its text and hash; a row is NO_INPUT where the columns of the prompt are blank, whatever the system reads."""
    enrichment, rows = own_system(name), own_system_rows()
    plan = se.compile_plan(enrichment, engine, {"source": "source"})
    columns = ("id", "lang", "body")
    prompt_reads = [name for name in columns if name in enrichment.template]
    expected = []
    for values in rows:
        row = dict(zip(columns, values, strict=True))
        text, no_input = own_text(enrichment, row), all(blank(row[name]) for name in prompt_reads)
        hash_ = None if no_input else request_hash(plan.constant, text)
        expected.append((row["id"], (text or "") if no_input else text, hash_))
    assert_rows(select(engine, plan.step("prompts").sql, dict.fromkeys(columns, STRING), rows), expected)
    assert len({hash_ for *_, hash_ in expected}) > 50


@pytest.mark.parametrize("turns", [(), SHOTS])
@pytest.mark.parametrize("engine", [one for one in SCRIPTS if one != "duckdb"])
def test_a_warehouse_sends_a_system_of_the_row_before_the_examples(engine: str, turns: tuple[Turn, ...]) -> None:
    """What the function gets is what constant messages would give; without a message no empty line stands first."""
    enrichment, rows, sent = own_system("text and values", turns), own_system_rows(), []
    empty = replace(own_system("a condition", turns), name="empty")

    def reply(prompt: str) -> Outcome:
        sent.append(prompt)
        return Outcome('{"n":1}')

    for one in (enrichment, empty):
        sent.clear()
        (tables,) = run_script(engine, one, dict.fromkeys(("id", "lang", "body"), STRING), rows, reply)
        expected = set()
        for row in tables["prompts"]:
            if row["request_hash"] is not None:
                system, _, prompt = row["prompt"].partition(SEPARATOR)
                constant = (Turn(SYSTEM, system), *turns) if system else turns
                expected.add(text_before(constant) + prompt)
        asked = [row for row in tables["prompts"] if row["request_hash"] is not None]
        if engine == "clickhouse":  # it changes control characters, so that the engine refuses them
            expected = {text for text in expected if not clickhouse.CONTROL.search(text)}
            asked = [row for row in asked if not clickhouse.CONTROL.search(row["prompt"].replace(SEPARATOR, "", 1))]
        assert set(sent) == expected
        assert len(tables["enriched"]) == len(asked)
    assert any(text.startswith("User: " if turns else "x") for text in sent)


def assert_rows(found: Iterable[Row], expected: Iterable[Row]) -> None:
    """Equal as bags of rows; the message shows what is missing and what is too much."""
    left = list(expected)
    extra = []
    for row in found:
        if row in left:
            left.remove(row)
        else:
            extra.append(row)
    assert (extra, left) == ([], [])


# Templates that use every feature; each reads `a` and `b`, texts or NULL.
PROMPTS = {
    "print": "{{ a }}|{{ b }}",
    "hostile constants": "{{ texts | join('|') }}{{ a }}",
    "loop over constants": "{% for t in texts %}{{ loop.index }}{{ t }}{{ a }}{% endfor %}",
    "join": "{{ a ~ '-' ~ b ~ 1 }}",
    "trim": "[{{ a | trim }}]",
    "strip": "{% if a is not none %}[{{ a.strip() }}|{{ a.lstrip(' x') }}|{{ a.rstrip('\\\\') }}]{% endif %}",
    "method of NULL": "[{{ a.strip() }}]",
    "slices": "{{ a[:3] }}|{{ a[2:5] }}|{{ a[-4:] }}|{{ a[:-2] }}|{{ a[-3:-1] }}|{{ a[1:] }}",
    "length": "{{ a | length }}",
    "replace": "{{ a | replace(\"'\", '\\\\') | replace('\\\\', '${x}') }}",
    "default": "{{ a | default('none', true) }}|{{ b or 'x' }}",
    "if": "{% if a %}A{{ a }}{% elif b %}B{{ b }}{% else %}none{% endif %}",
    "and, or, not": "{{ 'x' if a and not b else 'y' }}{{ 'p' if a or b else 'q' }}",
    "compare": "{{ a == b }}{{ a != 'None' }}{{ a == none }}{{ a is none }}",
    "in": "{{ a in ['plain', '', 'None', none] }}{{ 'a' in (a or '') }}",
    "starts and ends": "{{ (a or '').startswith('a') }}{{ (a or '').endswith(('\\\\', 'b', '\\n')) }}",
    "string of NULL": "{{ a | string }}",
    "set": "{% set x = a if b else 'c' %}{{ x }}{% set y %}{{ x }}!{% endset %}{{ y }}",
    "order": "{{ a < b }}",
}
MAY_FAIL = {
    "int": ("{{ a | int }}|{{ '7' | int + 1 }}", ("duckdb", "bigquery", "spark", "snowflake", "clickhouse")),
    "capitalize": ("{{ a | capitalize }}", ("duckdb", "bigquery", "spark", "snowflake", "clickhouse")),
    "upper": ("{{ a | upper }}", ("duckdb", "snowflake")),
    "lower": ("{{ a | lower }}", ("duckdb", "snowflake")),
    "upper of words": ("{{ (a or 'straße').upper() }}", ("duckdb", "snowflake")),
}
"""Where an engine may give NULL, so BAD_PROMPT, for a few texts that it can't treat as Python does."""


@each_expression
@pytest.mark.parametrize("name", [*PROMPTS, *MAY_FAIL])
def test_prompt_sql_equals_the_reference(name: str, engine: str) -> None:
    template, may_fail = MAY_FAIL.get(name) or (PROMPTS[name], ())
    constants = {"texts": [text for key, text in TEXTS.items() if key != "100 KB"]}
    texts = [
        *HOSTILE.values(), "42", " 7 ", "-3", "x1", "ΟΔΟΣ", "ΑΣ", "ΑΣ日", "ΑΣʰ", "ΑΣ.α", "ΑΣ1", "日Σ日", "straße", "ßa",
        "ǆA", "ﬁX", "İA", "ა", "ŉA", "éÀ",
    ]  # fmt: skip
    if name == "loop over constants":  # BigQuery joins no text of over a million bytes
        texts.remove(HOSTILE["100 KB"])
    rows = [(number, text, texts[number - 3]) for number, text in enumerate(texts)]
    sql = se.prompt_sql(template, engine, {"a": "string", "b": "string"}, constants)
    columns = {"n": BIGINT, "a": STRING, "b": STRING}
    found: dict[Any, Any] = dict(select(engine, f"SELECT n, {sql} FROM source", columns, rows))
    expected = {n: rendered(template, {"a": a, "b": b}, constants) for n, a, b in rows}
    if engine in may_fail:
        expected = {n: None if found[n] is None else text for n, text in expected.items()}
        assert sum(text is not None for text in found.values()) > 40
    assert found == expected


@each_expression
def test_hashes_are_equal_everywhere(engine: str) -> None:
    constant = "c0ffee" + "0" * 58
    rows = list(enumerate(HOSTILE.values()))
    text = get_engine(engine).sha256
    from sqlenrich.core.names import column
    from sqlenrich.core.printer import print_sql
    from sqlenrich.core.sql import concat, literal

    words = get_engine(engine)
    sql = print_sql(words, text(concat(literal(constant), column(words, "x"))))
    found: dict[Any, Any] = dict(select(engine, f"SELECT n, {sql} FROM source", {"n": BIGINT, "x": STRING}, rows))
    assert found == {n: None if x is None else hashlib.sha256((constant + x).encode()).hexdigest() for n, x in rows}
    assert found == {n: request_hash(constant, x) for n, x in rows}


TYPED = """---
source: source
key: [id]
columns: {n: bigint, d: date, b: boolean}
output: {type: object, properties: {a: {type: string}}}
---
{{ n }} {{ d }} {{ b }}"""
TEXTS_TO_VALUES = {
    ("12", "2026-01-31", "true"): "12 2026-01-31 True",
    (" -7\n", " 2026-02-01 ", "False"): "-7 2026-02-01 False",
    (None, None, None): "  ",
    ("12.0", "2026-01-31", "true"): None,
    ("x", "2026-01-31", "true"): None,
    ("12", "2026-02-30", "true"): None,
    ("12", "2026-01-31T00:00:00", "true"): None,
    ("12", "2026-01-31", "1"): None,
}


@each_expression
def test_texts_become_values_or_the_prompt_is_bad(engine: str) -> None:
    types = {"id": BIGINT, "n": STRING, "d": STRING, "b": STRING}
    plan = se.compile_plan(loads(TYPED, name="typed"), engine, {"source": "source"}, source_types=types)
    rows = [(number, *texts) for number, texts in enumerate(TEXTS_TO_VALUES)]
    found = {row[0]: row[1] for row in select(engine, plan.step("prompts").sql, types, rows)}
    assert found == dict(enumerate(TEXTS_TO_VALUES.values()))


# Answers --------------------------------------------------------------------------------------------------------------

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "label": {"type": "string", "enum": ["a", "b c", "it's", "é\\n", "😀"]},
        "kind": {"const": "ticket"},
        "urgency": {"type": "integer", "minimum": 1, "maximum": 5},
        "level": {"enum": [1, 2.5, 10]},
        "score": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "count": {"type": ["integer", "null"]},
        "flag": {"type": "boolean"},
        "sure": {"const": True},
        "note": {"type": ["string", "null"], "minLength": 2, "maxLength": 5},
        "code": {"type": "string", "pattern": r"^[A-Z]{2}\d+$"},
        "choice": {"type": ["string", "null"], "enum": ["x", None]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}, "minItems": 1, "maxItems": 3},
        "parts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "enum": ["n", "m"]},
                    "sizes": {"type": "array", "items": {"type": "integer", "minimum": 0}, "maxItems": 2},
                },
                "required": ["name"],
                "additionalProperties": False,
            },
        },
        "place": {
            "type": "object",
            "properties": {"city": {"type": "string", "minLength": 1}, "lat": {"type": "number"}},
            "required": ["city"],
        },
    },
    "required": ["label", "urgency"],
    "additionalProperties": False,
}
ENRICHMENT = f"""---
source: source
key: [id]
keep: [kept]
version: 7
output: {json.dumps(SCHEMA, ensure_ascii=False)}
---
Judge {{{{ body }}}}"""


def answer(**changes: Any) -> str:
    """An accepted answer, changed; values that are :class:`Raw` stand as they are written."""
    values = {"label": "a", "urgency": 3, **changes}
    return "{" + ", ".join(f"{json.dumps(k)}: {_written(v)}" for k, v in values.items()) + "}"


class Raw(str):
    """JSON as it is written."""


def _written(value: Any) -> str:
    return value if isinstance(value, Raw) else json.dumps(value, ensure_ascii=False)


GOOD = answer()
DEEP = {"name": "n", "sizes": [1, 2]}
ANSWERS: dict[str, tuple[str | None, str | None]] = {
    # Accepted.
    "least": (GOOD, None),
    "all": (
        answer(
            kind="ticket", level=2.5, score=0.5, count=7, flag=False, sure=True, note="ab", code="AB12", choice="x",
            tags=["x", "yy"], parts=[DEEP, {"name": "m"}], place={"city": "Q", "lat": 1, "more": [1]},
        ),
        None,
    ),
    "nulls where they may be": (answer(count=None, note=None, choice=None), None),
    "whole number as a float": (answer(urgency=Raw("3.0"), count=Raw("1e2"), level=Raw("1.0")), None),
    "whole number as a score's neighbour": (answer(score=Raw("5E-1")), None),
    "negative zero": (answer(count=Raw("-0")), None),
    "the largest integer": (answer(count=2**63 - 1), None),
    "the smallest integer": (answer(count=-(2**63)), None),
    "an integer beyond doubles": (answer(count=2**53 + 1), None),
    "emoji count as one": (answer(note="😀😀😀😀😀"), None),
    "combining marks count": (answer(note="e\u0301e\u0301e"), None),
    "escapes": (answer(label=Raw('"\\u00e9\\\\n"'), note=Raw('"\\ud83d\\ude00\\n"')), None),
    "an emoji of the enum": (answer(label="😀"), None),
    "a quote of the enum": (answer(label="it's"), None),
    "empty arrays": (answer(parts=[]), None),
    "empty arrays inside": (answer(parts=[{"name": "n", "sizes": []}]), None),
    "white space": ("\n\t {\r\n" + GOOD[1:-1] + " } \n", None),
    "fence": (f"```json\n{GOOD}\n```", None),
    "fence without a word": (f"```\n{GOOD}\n```", None),
    "fence with blanks and CRLF": (f" \n```json \r\n{GOOD}\r\n``` \n", None),
    "fence without a line break": (f"```json\n{GOOD}```", None),
    "hostile texts": (answer(place={"city": "".join(t for t in TEXTS.values() if len(t) < 1000)}), None),
    "colons and commas in a text": (answer(place={"city": ',}:":[NaN,]"\\'}), None),
    "keys as values": (answer(place={"city": "city", "lat": 0}), None),
    "names without meaning for the schema": (answer(place={"city": "x", "": 1, "a b": 2, "ünï": 3, "a.b": 4}), None),
    "a number beyond doubles": (answer(place=Raw('{"city": "x", "lat": 1E400}')), "OUT_OF_RANGE"),
    "an odd integer beyond doubles, with a fraction": (answer(count=Raw("9007199254740993.0")), None),
    "17 digits with an exponent": (answer(score=Raw("1.2345678901234567e-1")), None),
    "the NUL character as an escape": (answer(note=Raw('"a\\u0000"')), None),
    "a fraction that no double holds": (answer(urgency=Raw("5.00000000000000000001")), None),
    "many digits after the point": (answer(score=Raw("0." + "1" * 500)), None),
    "names that differ by case": (answer(place=Raw('{"city": "x", "A": 1, "a": 2}')), None),
    "a thousand names": (answer(place={"city": "x", **{f"n:{n}": n for n in range(1000)}}), None),
    "nested 200 deep": (answer(place=Raw('{"city": "x", "z": ' + "[" * 200 + "]" * 200 + "}")), None),
    # No response.
    "NULL": (None, "NO_RESPONSE"),
    "empty": ("", "NO_RESPONSE"),
    "blank": (" \t\r\n", "NO_RESPONSE"),
    "an empty fence": ("```json\n```", "NO_RESPONSE"),
    # Bad JSON.
    "prose": ("Sure! Here it is.", "BAD_JSON"),
    "prose before": (f"Here: {GOOD}", "BAD_JSON"),
    "text after": (f"{GOOD} ok", "BAD_JSON"),
    "two documents": (f"{GOOD} {GOOD}", "BAD_JSON"),
    "two documents by a comma": (f"{GOOD},{GOOD}", "BAD_JSON"),
    "an array's end after": (f"{GOOD}]", "BAD_JSON"),
    "array trick": (f"{GOOD}],[1", "BAD_JSON"),
    "cut": (GOOD[:-1], "BAD_JSON"),
    "cut in a text": ('{"label": "a', "BAD_JSON"),
    "cut escape": ('{"label": "a\\', "BAD_JSON"),
    "NaN": (answer(score=Raw("NaN")), "BAD_JSON"),
    "Infinity": (answer(score=Raw("-Infinity")), "BAD_JSON"),
    "lower-case nan": (answer(score=Raw("nan")), "BAD_JSON"),
    "trailing comma": (GOOD[:-1] + ",}", "BAD_JSON"),
    "trailing comma in an array": (answer(tags=Raw('["a", ]')), "BAD_JSON"),
    "leading comma": ("{," + GOOD[1:], "BAD_JSON"),
    "double comma": (answer(tags=Raw('["a",,"b"]')), "BAD_JSON"),
    "single quotes": (GOOD.replace('"', "'"), "BAD_JSON"),
    "bare names": (GOOD.replace('"urgency"', "urgency"), "BAD_JSON"),
    "comment": (GOOD[:-1] + "/* x */}", "BAD_JSON"),
    "line comment": (GOOD + " // x", "BAD_JSON"),
    "True": (answer(flag=Raw("True")), "BAD_JSON"),
    "None": (answer(count=Raw("None")), "BAD_JSON"),
    "undefined": (answer(count=Raw("undefined")), "BAD_JSON"),
    "leading zero": (answer(count=Raw("012")), "BAD_JSON"),
    "plus sign": (answer(count=Raw("+1")), "BAD_JSON"),
    "no digit after the point": (answer(score=Raw("1.")), "BAD_JSON"),
    "no digit before the point": (answer(score=Raw(".5")), "BAD_JSON"),
    "hexadecimal": (answer(count=Raw("0x1F")), "BAD_JSON"),
    "raw line break in a text": (answer(note=Raw('"a\nb"')), "BAD_JSON"),
    "raw tab in a text": (answer(note=Raw('"a\tb"')), "BAD_JSON"),
    "raw control character in a text": (answer(note=Raw('"a\x01b"')), "BAD_JSON"),
    "unknown escape": (answer(note=Raw('"a\\x41"')), "BAD_JSON"),
    "short escape": (answer(note=Raw('"a\\u12"')), "BAD_JSON"),
    "a lone high surrogate": (answer(note=Raw('"ab\\ud83d"')), "BAD_JSON"),
    "a lone low surrogate": (answer(note=Raw('"\\ude00ab"')), "BAD_JSON"),
    "surrogates the wrong way round": (answer(note=Raw('"\\ude00\\ud83d"')), "BAD_JSON"),
    "BOM": ("\ufeff" + GOOD, "BAD_JSON"),
    "a space that JSON has not": ("\xa0" + GOOD, "BAD_JSON"),
    "a space that JSON has not, inside": (GOOD.replace(", ", ",\u2003"), "BAD_JSON"),
    "vertical tab": ("\x0b" + GOOD, "BAD_JSON"),
    "form feed": (GOOD + "\x0c", "BAD_JSON"),
    "a repeated name": ('{"label": "a", "urgency": 3, "urgency": 4}', "BAD_JSON"),
    "a repeated name of equal value": ('{"label": "a", "urgency": 3, "urgency": 3}', "BAD_JSON"),
    "a repeated name inside": (answer(place=Raw('{"city": "x", "city": "x"}')), "BAD_JSON"),
    "a repeated name in an array": (answer(parts=Raw('[{"name": "n", "name": "n"}]')), "BAD_JSON"),
    "a repeated name in escapes": (GOOD.replace("}", ', "\\u0075rgency": 3}'), "BAD_JSON"),
    "a repeated name unknown to the schema": (answer(place=Raw('{"city": "x", "z": 1, "z": 2}')), "BAD_JSON"),
    "a repeated name beside colons": (answer(place=Raw('{"city": ":", "lat": 1, "lat": 1}')), "BAD_JSON"),
    "a repeated name with a quote": (answer(place=Raw('{"city": "x", "\\"": 1, "\\u0022": 2}')), "BAD_JSON"),
    "a repeated name of an emoji": (answer(place=Raw('{"city": "x", "😀": 1, "\\ud83d\\ude00": 2}')), "BAD_JSON"),
    "a repeated empty name": (answer(place=Raw('{"city": "x", "": 1, "": 2}')), "BAD_JSON"),
    "words around a fence": (f"Here:\n```json\n{GOOD}\n```", "BAD_JSON"),
    "two fences": (f"```json\n{GOOD}\n```\n```json\n{GOOD}\n```", "BAD_JSON"),
    "a fence of one line": (f"```json {GOOD} ```", "BAD_JSON"),
    # No object.
    "array": (f"[{GOOD}]", "NOT_OBJECT"),
    "text": (json.dumps(GOOD), "NOT_OBJECT"),
    "number": ("3", "NOT_OBJECT"),
    "null": ("null", "NOT_OBJECT"),
    "true": ("true", "NOT_OBJECT"),
    # One thing wrong.
    "nothing there": ("{}", "MISSING_FIELD"),
    "missing": ('{"label": "a"}', "MISSING_FIELD"),
    "another case": ('{"label": "a", "Urgency": 3}', "MISSING_FIELD"),
    "missing inside": (answer(parts=[DEEP, {}]), "MISSING_FIELD"),
    "missing in an object": (answer(place={"lat": 1}), "MISSING_FIELD"),
    "extra": (answer(more=1), "EXTRA_FIELD"),
    "extra null": (answer(more=None), "EXTRA_FIELD"),
    "extra name with a quote": (answer(**{"it's": 1}), "EXTRA_FIELD"),
    "extra empty name": (answer(**{"": 1}), "EXTRA_FIELD"),
    "extra name with a dot": (answer(**{"place.city": 1}), "EXTRA_FIELD"),
    "extra inside": (answer(parts=[{"name": "n", "x": 1}]), "EXTRA_FIELD"),
    "text for a number": (answer(urgency="3"), "WRONG_TYPE"),
    "fraction for an integer": (answer(urgency=3.5), "WRONG_TYPE"),
    "a fraction of a nullable integer": (answer(count=0.25), "WRONG_TYPE"),
    "null where it may not be": (answer(urgency=None), "WRONG_TYPE"),
    "null of an optional one": (answer(flag=None), "WRONG_TYPE"),
    "number for a text": (answer(label=1), "WRONG_TYPE"),
    "boolean for an integer": (answer(urgency=True), "WRONG_TYPE"),
    "number for a boolean": (answer(flag=1), "WRONG_TYPE"),
    "text for a boolean": (answer(flag="true"), "WRONG_TYPE"),
    "text for a score": (answer(score="0.5"), "WRONG_TYPE"),
    "object for a text": (answer(note={}), "WRONG_TYPE"),
    "array for an object": (answer(place=[]), "WRONG_TYPE"),
    "text for an object": (answer(place="x"), "WRONG_TYPE"),
    "object for an array": (answer(tags={}), "WRONG_TYPE"),
    "text for an array": (answer(tags="x"), "WRONG_TYPE"),
    "null for an array": (answer(tags=None), "WRONG_TYPE"),
    "null in an array": (answer(tags=[None]), "WRONG_TYPE"),
    "number in an array": (answer(tags=["a", 1]), "WRONG_TYPE"),
    "text in an array of objects": (answer(parts=["n"]), "WRONG_TYPE"),
    "null in an array of objects": (answer(parts=[None]), "WRONG_TYPE"),
    "a fraction deep inside": (answer(parts=[DEEP, {"name": "m", "sizes": [1, 1.5]}]), "WRONG_TYPE"),
    "a text deep inside": (answer(parts=[{"name": "m", "sizes": ["1"]}]), "WRONG_TYPE"),
    "not in the enum": (answer(label="c"), "NOT_IN_ENUM"),
    "another case of the enum": (answer(label="A"), "NOT_IN_ENUM"),
    "a blank beside the enum": (answer(label="a "), "NOT_IN_ENUM"),
    "not the constant": (answer(kind="Ticket"), "NOT_IN_ENUM"),
    "not the true constant": (answer(sure=False), "NOT_IN_ENUM"),
    "a whole number but for its last bit": (answer(count=Raw("1.0000000000000002e0")), "WRONG_TYPE"),
    "a whole number but for its last bit, as a decimal": (answer(count=Raw("1.0000000000000002")), "WRONG_TYPE"),
    "a number not in the enum": (answer(level=2), "NOT_IN_ENUM"),
    "a nullable enum": (answer(choice="y"), "NOT_IN_ENUM"),
    "deep enum": (answer(parts=[DEEP, {"name": "x"}]), "NOT_IN_ENUM"),
    "below": (answer(urgency=0), "OUT_OF_RANGE"),
    "above": (answer(urgency=6), "OUT_OF_RANGE"),
    "far above": (answer(urgency=10**30), "OUT_OF_RANGE"),
    "above by exponent": (answer(urgency=Raw("1E400")), "OUT_OF_RANGE"),
    "just over 64 bits": (answer(count=2**63), "OUT_OF_RANGE"),
    "just under 64 bits": (answer(count=-(2**63) - 1), "OUT_OF_RANGE"),
    "over 64 bits as a float": (answer(count=Raw("1e19")), "OUT_OF_RANGE"),
    "the largest integer with a fraction": (answer(count=Raw("9223372036854775807.0")), "OUT_OF_RANGE"),
    "a number of 400 digits": (answer(count=Raw("1" * 400)), "OUT_OF_RANGE"),
    "a number that is zero as a double": (answer(score=Raw("1E-400")), "OUT_OF_RANGE"),
    "not above": (answer(score=0), "OUT_OF_RANGE"),
    "not below": (answer(score=Raw("1.0")), "OUT_OF_RANGE"),
    "deep range": (answer(parts=[{"name": "n", "sizes": [0, -1]}]), "OUT_OF_RANGE"),
    "too short": (answer(note="x"), "BAD_LENGTH"),
    "an emoji too short": (answer(note="😀"), "BAD_LENGTH"),
    "too long": (answer(note="abcdef"), "BAD_LENGTH"),
    "emoji too long": (answer(note="😀😀😀😀😀😀"), "BAD_LENGTH"),
    "too long in an array": (answer(tags=["abc", "abcd"]), "BAD_LENGTH"),
    "empty inside": (answer(place={"city": ""}), "BAD_LENGTH"),
    "pattern": (answer(code="AB"), "BAD_PATTERN"),
    "pattern with a line break": (answer(code="AB1\n"), "BAD_PATTERN"),
    "pattern with other digits": (answer(code="AB٣"), "BAD_PATTERN"),
    "too few items": (answer(tags=[]), "BAD_ITEMS"),
    "too many items": (answer(tags=["a"] * 4), "BAD_ITEMS"),
    "too many items deep inside": (answer(parts=[{"name": "n", "sizes": [1, 2, 3]}]), "BAD_ITEMS"),
    # Several things wrong: the first code in order.
    "missing before extra": ('{"label": "a", "more": 1}', "MISSING_FIELD"),
    "missing before type": ('{"label": 1}', "MISSING_FIELD"),
    "missing inside before type": (answer(urgency="3", place={}), "MISSING_FIELD"),
    "extra before type": (answer(urgency="3", more=1), "EXTRA_FIELD"),
    "extra inside before type": (answer(label=1, parts=[{"name": "n", "x": 1}]), "EXTRA_FIELD"),
    "type before enum": (answer(label="c", flag="x"), "WRONG_TYPE"),
    "type inside before enum": (answer(label="c", parts=[{"name": 1}]), "WRONG_TYPE"),
    "enum before range": (answer(urgency=9, kind="x"), "NOT_IN_ENUM"),
    "enum inside before range": (answer(urgency=9, parts=[{"name": "x"}]), "NOT_IN_ENUM"),
    "range before length": (answer(note="x", score=2), "OUT_OF_RANGE"),
    "length before pattern": (answer(code="x", note="x"), "BAD_LENGTH"),
    "pattern before items": (answer(code="x", tags=[]), "BAD_PATTERN"),
    "all at once": (answer(label="c", urgency=9, note="x", code="x", tags=[], more=1), "EXTRA_FIELD"),
}  # fmt: skip
"""Answers and their codes, None for an accepted one."""

CALLS: dict[str, tuple[Outcome, str]] = {
    "a call that failed": (REFUSED, "CALL_ERROR"),
    "a call that failed and may be tried again": (RETRYABLE, "CALL_ERROR"),
}
DETAILS = {
    "a call that failed": str(REFUSED.error),
    "a call that failed and may be tried again": str(RETRYABLE.error),
}


@functools.cache
def enrichment() -> se.Enrichment:
    return loads(ENRICHMENT, name="answers")


@functools.cache
def judged(engine: str) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Every answer through an engine's whole script: what was enriched and what was refused, by id."""
    rows = [(name, "kept", name) for name in (*ANSWERS, *CALLS)]

    def reply(prompt: str) -> Outcome:
        name = prompt.removeprefix("Judge ")
        return CALLS[name][0] if name in CALLS else Outcome(ANSWERS[name][0])

    (tables,) = run_script(engine, enrichment(), {"id": STRING, "kept": STRING, "body": STRING}, rows, reply)
    assert len(tables["enriched"]) + len(tables["quarantine"]) == len(rows)
    enriched, refused = ({row["id"]: row for row in tables[step]} for step in ("enriched", "quarantine"))
    return enriched, refused


@pytest.mark.parametrize("name", ANSWERS)
def test_the_reference_gives_the_expected_code(name: str) -> None:
    text, code = ANSWERS[name]
    verdict = evaluate_checks(enrichment().checks, repair(text, enrichment().repairs))
    assert (verdict[0] if verdict else None) == code
    assert se.check_response(SCHEMA, repair(text, ("trim", "fence"))) == code


def test_the_answers_cover_every_code() -> None:
    never_from_text = {
        "NO_INPUT", "BAD_PROMPT", "NOT_ASKED", "CALL_ERROR", "UNREADABLE", "TRUNCATED", "REFUSED", "SCHEMA", "CHECK",
    }  # fmt: skip
    assert {code for _, code in ANSWERS.values() if code} == set(CODES) - never_from_text


@each_script
@pytest.mark.parametrize("name", [*ANSWERS, *CALLS])
def test_the_script_gives_the_same_verdict_and_values(name: str, engine: str, request: pytest.FixtureRequest) -> None:
    if (name, engine) in DIFFERENT:
        reason = "numbers beyond doubles are read differently"
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason, raises=(AssertionError, KeyError)))
    enriched, refused = judged(engine)
    if name in CALLS:
        row = refused[name]
        detail = clickhouse.NO_TEXT if engine == "clickhouse" else DETAILS[name]
        assert (row["_error"], row["_error_detail"], row["_repaired"]) == (CALLS[name][1], detail, False)
        return
    text, code = ANSWERS[name]
    if engine == "clickhouse" and not text:  # it gives nothing for a failure, too
        assert (refused[name]["_error"], refused[name]["_error_detail"]) == ("CALL_ERROR", clickhouse.NO_TEXT)
        return
    repaired = repair(text, enrichment().repairs)
    if code is not None:
        row = refused[name]
        verdict = evaluate_checks(enrichment().checks, repaired)
        assert (row["_error"], row["_error_detail"]) == verdict
        shown = "" if text is None and get_engine(engine).reading is not None else text  # a NULL in a known place
        assert (row["_repaired"], row["response"]) == (repaired != text, shown)
        assert (row["prompt"], row["kept"], row["_attempts"]) == (f"Judge {name}", "kept", 1)
        assert name not in enriched
        return
    row = enriched[name]
    values = json.loads(str(repaired))
    columns = enrichment().output_columns
    expected = {name: given(engine, as_column(values.get(name), kind), kind) for name, kind in columns.items()}
    assert {name: given(engine, row[name], kind) for name, kind in columns.items()} == expected
    assert (row["kept"], row["_version"], row["_fingerprint"]) == ("kept", "7", enrichment().fingerprint)
    assert name not in refused


def as_column(value: Any, kind: Type) -> Any:
    """A value of an accepted answer as its typed column."""
    if value is None:
        return None
    match kind:
        case Array(item):
            return [as_column(element, item) for element in value]
        case Struct(fields):
            return tuple(as_column(value.get(name), field) for name, field in fields)
        case Scalar("bigint"):
            return int(value)
        case Scalar("double"):
            return float(value)
    return value


DIFFERENT: dict[tuple[str, str], str | None] = {
    ("an odd integer beyond doubles, with a fraction", "spark"): None,
    ("an odd integer beyond doubles, with a fraction", "databricks"): None,
    ("the largest integer with a fraction", "snowflake"): None,
    ("an odd integer beyond doubles, with a fraction", "snowflake"): None,
}
"""Known differences and the code that the engine gives: a number that no double holds is BigQuery's largest double;
Spark and Snowflake read 9223372036854775807.0 as an exact decimal where the others round to a double."""


def given(engine: str, value: Any, kind: Type) -> Any:
    """A stored value; BigQuery and ClickHouse store no NULL array: a missing one is empty there, and so it is here."""
    match kind:
        case Array(item):
            if value is None or engine not in ("bigquery", "clickhouse"):
                return None if value is None else [given(engine, element, item) for element in value]
            return [given(engine, element, item) for element in value] or None
        case Struct(fields) if value is not None:
            return tuple(given(engine, part, field) for part, (_, field) in zip(value, fields, strict=True))
    return value


@each_expression
def test_check_sql_equals_the_reference(engine: str) -> None:
    rows = [(name, text) for name, (text, _) in ANSWERS.items()]
    sql = f"SELECT n, {se.check_sql(SCHEMA, engine, 'response')} FROM source"
    found: dict[Any, Any] = dict(select(engine, sql, {"n": STRING, "response": STRING}, rows))
    expected = {name: se.check_response(SCHEMA, text) for name, text in rows}
    assert found == expected | {name: code for (name, where), code in DIFFERENT.items() if where == engine}
    assert found["fence"] == "BAD_JSON"


def test_what_snowflake_leaves_open_of_json_changes_nothing() -> None:
    """A script gives the same however the stand-in reads JSON."""
    rows = [(name, "kept", name) for name in ANSWERS]
    found = []
    for reading in snowflake.READINGS.values():
        columns = {"id": STRING, "kept": STRING, "body": STRING}
        plan = se.compile_plan(enrichment(), "snowflake", {"source": "source"})
        reply = lambda prompt: Outcome(ANSWERS[prompt.removeprefix("Judge ")][0])  # noqa: E731
        (tables,) = run_snowflake(reading, plan, enrichment(), columns, rows, reply)
        rows_of_run = (row for step in ("enriched", "quarantine") for row in tables[step])
        found.append({row["id"]: {**row, "_asked_at": None} for row in rows_of_run})
    first, *others = found
    for other in others:
        assert {name for name in ANSWERS if first[name] != other[name]} == set()


@each_expression
@pytest.mark.parametrize("repairs", [["trim", "fence"], ["trim"], ["fence"], []], ids=" ".join)
def test_repair_sql_equals_the_reference(engine: str, repairs: list[str]) -> None:
    texts = [*(text for text, _ in ANSWERS.values()), *HOSTILE.values()]
    texts += ["```\n```", "```json\n x \n```\n", "``` \nx```", "```js on\nx\n```", "```json\nx", "\xa0```\nx\n```"]
    rows = list(enumerate(texts))
    sql = f"SELECT n, {se.repair_sql(engine, 'response', repairs)} FROM source"
    found: dict[Any, Any] = dict(select(engine, sql, {"n": BIGINT, "response": STRING}, rows))
    assert found == {n: repair(text, repairs) for n, text in rows}


@each_expression
def test_every_hostile_text_in_an_enum_is_told_apart(engine: str) -> None:
    values = [text for name, text in TEXTS.items() if name != "100 KB"]
    schema = {"type": "object", "properties": {"a": {"type": "string", "enum": values}}}
    rows = [(n, json.dumps({"a": text}, ensure_ascii=n % 2 == 0)) for n, text in enumerate(values)]
    others = [(n + len(rows), json.dumps({"a": text + "x"})) for n, text in enumerate(values)]
    sql = f"SELECT n, {se.check_sql(schema, engine, 'response')} FROM source"
    found: dict[Any, Any] = dict(select(engine, sql, {"n": BIGINT, "response": STRING}, [*rows, *others]))
    assert found == {**{n: None for n, _ in rows}, **{n: "NOT_IN_ENUM" for n, _ in others}}


# Whole scripts --------------------------------------------------------------------------------------------------------

RUNS = """---
source: source
key: [id]
columns: {part: bigint}
require: [body]
retry: {max_attempts: 3}
output:
  type: object
  properties: {n: {type: integer}}
  required: [n]
---
{{ body.strip()[0] }} {{ body }} {{ 'x' if part is none else name.strip() }}"""
COLUMNS: dict[str, Type] = {"id": STRING, "body": STRING, "part": BIGINT, "name": STRING}
SOURCE: list[tuple[Row, str | None]] = [
    (("1", "good", None, None), None),
    (("1", "good", None, None), None),  # the same row and key twice
    ((None, "good", None, None), None),  # the same request under a NULL key
    ((None, "other", None, None), None),
    (("2", None, None, None), "NO_INPUT"),
    (("3", " \n", None, None), "NO_INPUT"),
    (("4", "a NULL name", 1, None), "BAD_PROMPT"),
    (("5", "a name", 1, " it's "), None),
    (("6", "\u2003", None, None), "BAD_PROMPT"),  # no blank to NO_INPUT, yet nothing is left of it
    (("7", "bad", None, None), "WRONG_TYPE"),
    (("8", "late", None, None), None),
    (("9", "never", None, None), "CALL_ERROR"),
    (("10", "failed", None, None), "CALL_ERROR"),
]


class Model:
    """Answers by what the prompt says, and counts how often each was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, prompt: str) -> Outcome:
        self.asked.append(prompt)
        match prompt.split()[1]:
            case "bad":
                return Outcome('{"n": "x"}')
            case "late":
                return RETRYABLE if self.asked.count(prompt) == 1 else Outcome('{"n": 2}')
            case "never":
                return RETRYABLE
            case "failed":
                return REFUSED
        return Outcome('```json\n{"n": 1}\n```')


@each_script
def test_runs_keep_every_row_and_ask_only_what_is_pending(engine: str) -> None:
    model = Model()
    rows = [row for row, _ in SOURCE]
    steps: list[Tables] = []
    asked: list[list[str]] = []
    for tables in run_script(engine, loads(RUNS, name="runs"), COLUMNS, rows, model, times=4):
        steps.append(tables)
        asked.append(sorted(prompt.split()[1] for prompt in model.asked))
    first = ["a", "bad", "failed", "good", "late", "never", "other"]
    again = ["failed"] if engine == "clickhouse" else []  # it tells no reason
    assert asked == [
        first,  # duplicates once; NO_INPUT and BAD_PROMPT never
        sorted([*first, "late", "never", *again]),
        sorted([*first, "late", "never", "never", *again, *again]),
        sorted([*first, "late", "never", "never", *again, *again]),  # three attempts, then no more
    ]
    found = [
        (row["id"], row.get("_error"), row.get("_attempts"))
        for step in ("enriched", "quarantine")
        for row in steps[-1][step]
    ]
    attempts = {"NO_INPUT": 0, "BAD_PROMPT": 0, "WRONG_TYPE": 1}
    expected = [(row[0], code, None if code is None else attempts.get(code, 1)) for row, code in SOURCE]
    expected[11] = ("9", "CALL_ERROR", 3)
    if engine == "clickhouse":
        expected = [(id_, code, 3 if code == "CALL_ERROR" else attempts) for id_, code, attempts in expected]
    assert_rows(found, expected)
    for tables in steps:
        assert len(tables["prompts"]) == len(SOURCE) == len(tables["enriched"]) + len(tables["quarantine"])
    codes = [sorted(row["_error"] for row in tables["quarantine"]) for tables in steps]
    assert codes[0] == sorted([*codes[-1], "CALL_ERROR"])
    assert codes[1] == codes[2] == codes[3]
    assert {row["n"] for row in steps[-1]["enriched"]} == {1, 2}


REASONS = {
    "good": (Outcome('{"n": 1}', finish="length"), None),
    "cut": (Outcome('{"n": ', finish="length"), "TRUNCATED"),
    "blocked": (Outcome("I can't", finish="content_filter"), "REFUSED"),
    "prose": (Outcome("I can't", finish="stop"), "BAD_JSON"),
    "nothing": (Outcome("", finish="length"), "TRUNCATED"),
    "filtered": (Outcome(None, finish="content_filter"), "REFUSED"),
    "silent": (Outcome("", finish="stop"), "NO_RESPONSE"),
}


@pytest.mark.parametrize("engine", ENGINES[:2])  # Spark's and Databricks' call tells no reason
def test_a_finish_reason_refines_a_refusal_alone(engine: str) -> None:
    rows = [(name, name, None, None) for name in REASONS]
    reasons = {f"{name[0]} {name} x": outcome for name, (outcome, _) in REASONS.items()}
    (tables,) = run_script(engine, loads(RUNS, name="runs"), COLUMNS, rows, reasons.__getitem__)
    found = {row["id"]: row.get("_error") for step in ("enriched", "quarantine") for row in tables[step]}
    assert found == {name: code for name, (_, code) in REASONS.items()}


@each_script
def test_answers_of_earlier_runs_are_judged_by_one_order(engine: str) -> None:
    """An accepted answer wins over a later refused one, and equal rows of `responses` do no harm."""
    enrichment = loads(RUNS, name="runs")
    plan = se.compile_plan(enrichment, engine, {"source": "source"})
    prompts = [(name, name, request_hash(plan.constant, name)) for name in ("both", "twice", "latest")]
    stored = [
        ("both", 1, '{"n": 1}'), ("both", 2, "later"), ("twice", 1, '{"n": 5}'), ("twice", 1, '{"n": 5}'),
        ("latest", 1, "first"), ("latest", 3, '{"n": "x"}'), ("latest", 2, "second"), ("unknown", 1, '{"n": 1}'),
    ]  # fmt: skip
    known = [
        {"request_hash": request_hash(plan.constant, name), "attempt": attempt, "response": text}
        for name, attempt, text in stored
    ]
    found = checked(engine, plan, prompts, [tuple(row.get(name) for name in RESPONSES) for row in known])
    assert_rows(
        found,
        [("both", None, '{"n": 1}', 2), ("twice", None, '{"n": 5}', 1), ("latest", "WRONG_TYPE", '{"n": "x"}', 3)],
    )


def checked(engine: str, plan: se.Plan, prompts: Sequence[Row], responses: Sequence[Row]) -> list[Row]:
    """The id, code, answer or refused response, and attempts that the checked step gives for stored rows."""
    step, tables = plan.step("checked"), {"prompts": prompts, "responses": responses}
    names = ("id", "_error", "COALESCE(answer, response) AS text", "_attempts")
    columns = {name: plan.step(name).columns for name in tables}
    sql = f"SELECT {', '.join(names)} FROM ({step.sql}) AS c"
    if engine == "clickhouse":
        with clickhouse.database():
            for name, rows in tables.items():
                clickhouse.fill(plan.step(name).relation, typed(engine, columns[name]), rows)
            return clickhouse.rows(sql)
    if engine == "duckdb":
        with in_memory() as db:
            for name, rows in tables.items():
                fill_duckdb(db, plan.step(name).relation, columns[name], rows)
            return db.execute(sql).fetchall()
    if engine == "snowflake":
        held = {plan.step(n).relation: (columns_of_snowflake(columns[n]), rows) for n, rows in tables.items()}
        return snowflake.rows(sql, held, read_as=snowflake.READINGS["strict"])
    if engine == "bigquery":
        from tests.standins.googlesql import googlesql

        data = {plan.step(n).relation.strip("`"): (typed(engine, columns[n]), rows) for n, rows in tables.items()}
        return googlesql().evaluate(sql, data)
    from tests.standins import spark

    for name, rows in tables.items():
        fill_spark(plan.step(name).relation, columns[name], rows)
    try:
        return spark.rows(sql)
    finally:
        for name in tables:
            spark.rows(f"DROP VIEW {plan.step(name).relation}")
