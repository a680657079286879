"""The step ``enriched`` on DuckDB: an answer is parsed once, for any number of columns."""

from __future__ import annotations

import json

import duckdb
import pytest
import sqlglot
from sqlglot import exp

import sqlenrich as se
from sqlenrich.plan.relations import shared_table
from sqlenrich.spec.loader import loads

KINDS = {"string": "x", "integer": 7, "number": 1.5, "boolean": True}


@pytest.mark.parametrize("properties", [1, 40, 300])
def test_an_answer_is_parsed_once(properties: int) -> None:
    names = {f"p-{n}": list(KINDS)[n % len(KINDS)] for n in range(properties)}
    fields = ", ".join(f"{name}: {kind}" for name, kind in names.items())
    enrichment = loads(f"---\nsource: s\nkey: [id]\noutput: {{{fields}}}\n---\n{{{{ body }}}}", name="wide")
    sql = se.compile_plan(enrichment, "duckdb").step("enriched").sql
    parsed = sqlglot.parse_one(sql, read="duckdb")
    assert sum(cast.to.is_type("json") for cast in parsed.find_all(exp.Cast)) == 1
    assert sql.count("JSON_TRANSFORM(") == 1
    assert 'JSON_EXTRACT_STRING("doc"' not in sql
    answer = {name: KINDS[kind] for name, kind in names.items()}
    with duckdb.connect() as db:
        columns = ("id", "answer", "_error", "request_hash", "_model", "_asked_at")
        db.execute(f"CREATE TABLE wide_checked ({', '.join(f'{name} VARCHAR' for name in columns)})")
        db.execute("INSERT INTO wide_checked VALUES ('1', ?, NULL, 'h', 'm', NULL)", [json.dumps(answer)])
        (row,) = db.execute(sql).fetchall()
    assert row[1 : 1 + properties] == tuple(answer.values())


@pytest.mark.parametrize(
    ("name", "other", "folds_names", "table"),
    [
        *(
            (*pair, False, f"product_{role}")
            for role in (
                "prompts", "pending", "responses", "lock", "checked", "quarantine", "evaluations", "profiles", "reviews"
            )
            for pair in (("product", f"product_{role}"), (f"product_{role}", "product"))
        ),
        ("product", "Product_quarantine", True, "product_quarantine"),
        ("product", "Product_quarantine", False, None),
        ("product", "Product", False, None),
        ("product", "products", True, None),
        ("product", "product_v2", True, None),
        ("product", "product_quarantine_prompts", True, None),
    ],
)  # fmt: skip
def test_the_tables_of_two_enrichments(name: str, other: str, folds_names: bool, table: str | None) -> None:
    assert shared_table(name, other, folds_names=folds_names) == table
