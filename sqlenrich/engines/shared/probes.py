"""Statements that show whether a vendor's fact still holds: each with what it must give, its source and its date.

They are built with the engine's own functions, as the steps of a plan are.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from sqlenrich.core.engine import CallResult, Engine, ModelCall, VendorFact
from sqlenrich.core.names import identifier
from sqlenrich.core.sql import Sql, literal
from sqlenrich.core.types import STRING, TIMESTAMP

TEXT = 'it\'s \\ "odd" é 😀\n\ttext'
"""A text with the characters on which engines differ."""
RFC = VendorFact(None, "RFC 8259, as in docs/answers.md", "2026-11-22")
HASH = VendorFact(hashlib.sha256(TEXT.encode()).hexdigest(), "FIPS 180-4: SHA-256 of the UTF-8 bytes", "2026-11-22")
UTC = VendorFact("UTC", "sqlenrich sets the session's time zone when it connects", "2026-11-22")


@dataclass(frozen=True)
class JsonText:
    """A text, whether it is one strict JSON document, and the text of its member ``a`` where that is a string."""

    name: str
    text: str
    accepted: bool
    member: str | None = None


JSON_TEXTS = (
    JsonText("object", '{"a": "x", "b": [1, null]}', True, "x"),
    JsonText("escapes", r'{"a": "\u00e9\n\"\\"}', True, 'é\n"\\'),
    JsonText("surrogate pair", r'{"a": "\ud83d\ude00"}', True, "😀"),
    JsonText("lone surrogate", r'{"a": "\ud83d"}', False),
    JsonText("big integer", '{"a": 123456789012345678901234567890}', True),
    JsonText("number beyond doubles", '{"a": 1e400}', True),
    JsonText("leading zero", '{"a": 01}', False),
    JsonText("NaN", '{"a": NaN}', False),
    JsonText("trailing comma", '{"a": 1,}', False),
    JsonText("repeated names", '{"a": 1, "a": 2}', False),
    JsonText("single quotes", "{'a': 1}", False),
    JsonText("bare name", "{a: 1}", False),
    JsonText("comment", '{"a": 1 /* one */}', False),
    JsonText("raw tab", '{"a": "\t"}', False),
    JsonText("byte order mark", '\ufeff{"a": 1}', False),
    JsonText("text after it", '{"a": 1} x', False),
)


WORD = "marigold"
"""The word that answers hold: where it stands, the model's text stands."""


@dataclass(frozen=True)
class Request:
    """A request of a model, and what its answer shows: names of :data:`sqlenrich.runner.probe.SHOWS`."""

    name: str
    prompt: str
    output: str
    """The output in short form."""
    shows: tuple[str, ...]
    params: Mapping[str, Any] = field(default_factory=dict)
    """Portable parameters. Those that the model does not take are left out."""
    structured: bool = True
    """Whether the call has the engine's response format."""
    refused: Mapping[str, Any] = field(default_factory=dict)
    """Portable parameters that models refuse: the call fails, and is not billed."""
    only_for: str = ""
    """A fact without which it shows nothing."""


REQUESTS = (
    Request(
        "plain answer",
        f"Answer with this one word and nothing else: {WORD}",
        "{word: string}",
        ("call", "text", "success", "finish", "tokens"),
        {"max_tokens": 200},
        structured=False,
    ),
    Request(
        "structured answer",
        f'Answer with one JSON object: word is "{WORD}", count is 7, shades are "gold" and "rust", leaf.green is true.',
        "{word(enum): [marigold, rose], count: integer, shades(array): string, leaf(object): {green: boolean}}",
        ("text", "success", "format", "tokens"),
        {"max_tokens": 200},
    ),
    Request(
        "answer with all parameters",
        f'Answer with one JSON object whose word is "{WORD}".',
        "{word: string}",
        ("text", "success"),
        {"temperature": 0, "max_tokens": 200, "top_p": 0.9, "seed": 1, "stop": ["###"]},
    ),
    Request(
        "cut answer",
        f"Answer with one JSON object whose story is a story of 500 words about a {WORD}.",
        "{story: string}",
        ("cut",),
        {"max_tokens": 20, "bigquery": {"thinking_config": None}},
    ),
    Request(
        "answer without a limit",
        "Write the numbers from 1 to 20000 in words, a number a line.",
        "{word: string}",
        ("limit",),
        structured=False,
        only_for="max_tokens",
    ),
    Request(
        "failed call",
        f"Answer with this one word and nothing else: {WORD}",
        "{word: string}",
        ("error",),
        {"max_tokens": 20},
        structured=False,
        refused={"temperature": 9},
    ),
)
"""What is asked, in this order; a model is asked no more than these."""


def requests(engine: Engine) -> list[Request]:
    """Return the requests that show something of an engine."""
    return [each for each in REQUESTS if not each.only_for or each.only_for in engine.facts]


PLACE = re.compile(r"(?P<column>\w+) \d+")
"""The names of the facts that are places of an answer: a column and a number."""


def places(engine: Engine, column: str) -> dict[str, VendorFact]:
    """Return the places of an answer that are known for a column, by the names of their facts."""
    found = ((name, PLACE.fullmatch(name)) for name in engine.facts)
    return {name: engine.facts[name] for name, match in found if match is not None and match["column"] == column}


@dataclass(frozen=True)
class Statement:
    """A query of one row and column that asks no model, and what it must give."""

    fact: str
    query: Sql
    expected: str
    origin: VendorFact
    """Whose source and date are told."""
    is_time: bool = False
    """Whether it gives the time now, in UTC, as a text."""


def statements(engine: Engine) -> list[Statement]:
    """Return the statements that ask no model."""
    found = [Statement("hash", exp.select(exp.alias_(engine.sha256(literal(TEXT)), "h")), str(HASH.value), HASH)]
    found.append(Statement("time_zone", _as_text(engine, exp.CurrentTimestamp()), "UTC", UTC, is_time=True))
    if "now" in engine.facts:
        found.append(Statement("now", _as_text(engine, engine.now()), "UTC", engine.facts["now"], is_time=True))
    return found


def _as_text(engine: Engine, time: Sql) -> exp.Select:
    return exp.select(exp.alias_(exp.Cast(this=time, to=engine.sql_type(STRING)), "now"))


def parsed(engine: Engine, texts: Sequence[JsonText]) -> exp.Query:
    """Return the query of a row for each text: its name, whether it is taken for JSON, and the text of its member."""
    named = [exp.select(exp.alias_(literal(each.name), "name"), exp.alias_(literal(each.text), "t")) for each in texts]
    source: exp.Query = named[0]
    for each in named[1:]:
        source = exp.union(source, each, distinct=False, copy=False)
    taken = exp.Not(this=exp.Is(this=engine.json.parse(exp.column("t")), expression=exp.Null()))
    member = engine.json.string(engine.json.get(engine.json.parse(exp.column("t")), "a"))
    columns = (exp.column("name"), exp.alias_(taken, "taken"), exp.alias_(member, "a"))
    return exp.select(*columns).from_(source.subquery("given"))


def compiled(engine: Engine, call: ModelCall, table: exp.Table | None) -> dict[str, list[Sql]]:
    """Return the statements that must compile, by the facts that they show; they are never run.

    ``table`` is one that does not exist, in a schema where one may be made.
    """
    found: dict[str, list[Sql]] = {}
    for name, variants in VARIANTS.items():
        if name in engine.facts:
            calls = variants(engine.facts[name].value, call)
            trees = [asked(engine, each, "probe") for each in calls]
            if name != "struct_fields" or trees[0].find(exp.GenerateText):  # AI.GENERATE takes no STRUCT
                found[name] = [*trees]
    if table is not None:
        rows = exp.select(exp.alias_(literal("x"), "request_hash"), exp.alias_(engine.now(), "asked_at"))
        made = [*engine.create_table_as(table.copy(), rows)]
        if engine.create_work_table is not None:
            made += engine.create_work_table(table.copy(), rows.copy())
        given = exp.Properties(expressions=engine.responses_properties())
        types = {"request_hash": STRING, "asked_at": TIMESTAMP}
        columns = [exp.ColumnDef(this=identifier(engine, n), kind=engine.sql_type(kind)) for n, kind in types.items()]
        shape = exp.Schema(this=table.copy(), expressions=columns)
        made.append(exp.Create(this=shape, kind="TABLE", exists=True, properties=given))
        found |= {name: made for name in TABLES if name in engine.facts}
    return found


def _request_types(known: Iterable[str], call: ModelCall) -> list[ModelCall]:
    return [replace(call, options={**call.options, "request_type": each}) for each in known]


def _struct_fields(known: Iterable[str], call: ModelCall) -> list[ModelCall]:
    plain = replace(call, response_format=None, options={**call.options, "schema": False})
    return [replace(plain, params={name: SETTINGS[name]}) for name in sorted(known) if name in SETTINGS]


SETTINGS: Mapping[str, Any] = {
    "max_output_tokens": 20,
    "top_k": 2,
    "top_p": 0.5,
    "temperature": 0.0,
    "stop_sequences": ["###"],
    "safety_settings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
    "ground_with_google_search": False,
}
"""A value for each field of a STRUCT of settings."""
VARIANTS: Mapping[str, Callable[[Any, ModelCall], list[ModelCall]]] = {
    "request_types": _request_types,
    "struct_fields": _struct_fields,
}
"""The facts that a call's settings show."""
TABLES = ("create_table", "partitions", "cluster_by")
"""The facts that the statements show by which tables are made."""


def asked(engine: Engine, call: ModelCall, prompt: str) -> exp.Select:
    """Return the query that asks once: the vendor's answer as it comes, one text."""
    assert engine.call is not None
    known: dict[str, str | int] = {"request_hash": "probe", "attempt": 1, "prompt": prompt}
    row = exp.select(*(exp.alias_(literal(value), name) for name, value in known.items())).subquery("pending")
    answered: CallResult = engine.call(row, call)
    return exp.select(exp.alias_(answered.raw, "raw")).from_(answered.source)


def read(engine: Engine, raw: str) -> tuple[list[str], exp.Select]:
    """Return the names of the columns that are read from an answer, and the query that reads them; it asks nothing."""
    assert engine.reading is not None
    columns = engine.reading.columns(exp.column("raw"))
    given = exp.select(exp.alias_(literal(raw), "raw")).subquery("answer")
    return list(columns), exp.select(*(exp.alias_(value, name) for name, value in columns.items())).from_(given)
