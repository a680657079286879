"""Templates that nobody wrote for this package: every one that is compiled gives exactly what Jinja rendered."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.engines.duckdb import sql_type
from sqlenrich.types import parse_type

CORPORA = Path(os.environ.get("SQLENRICH_CORPORA", Path(__file__).parents[2] / "shared" / "corpora"))
FILE = CORPORA / "promptsource.jsonl"

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not FILE.is_file(), reason=f"no corpus at {FILE}; set SQLENRICH_CORPORA to its folder"),
]


def templates(tier: str) -> list[dict[str, Any]]:
    """The corpus's templates of one tier."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    return [entry for entry in map(json.loads, lines) if entry["tier"] == tier]


def render(connection: duckdb.DuckDBPyConnection, sql: str, entry: Mapping[str, Any]) -> list[str | None]:
    """The SQL's text for each row of a template, in order."""
    kinds = {name: sql_type(parse_type(kind)).sql("duckdb") for name, kind in entry["columns"].items()}
    definitions = ", ".join(['"_place" BIGINT', *(f'"{name}" {kind}' for name, kind in kinds.items())])
    connection.execute(f"CREATE OR REPLACE TEMP TABLE source ({definitions})")
    marks = ", ".join("?" for _ in range(len(kinds) + 1))
    rows = [[place, *(row[name] for name in kinds)] for place, row in enumerate(entry["rows"])]
    connection.executemany(f"INSERT INTO source VALUES ({marks})", rows)
    return [text for (text,) in connection.execute(f"SELECT ({sql}) FROM source ORDER BY _place").fetchall()]


@pytest.mark.parametrize(
    ("tier", "total", "at_least"), [("T1", 163, 163), ("T2", 608, 588), ("T3", 373, 345), ("T4", 127, 0)]
)
def test_every_compiled_template_gives_the_expected_text(tier: str, total: int, at_least: int) -> None:
    entries = templates(tier)
    assert len(entries) == total
    different: list[tuple[str, list[str | None]]] = []
    compiled = 0
    with duckdb.connect() as connection:
        for entry in entries:
            try:
                sql = se.prompt_sql(entry["template"], "duckdb", columns=entry["columns"], vars=entry["vars"])
            except se.PromptError:
                continue
            compiled += 1
            if (given := render(connection, sql, entry)) != entry["expected"]:
                different.append((entry["id"], given))
    assert different == []
    assert compiled >= at_least


def test_the_reference_renders_the_expected_text() -> None:
    for entry in templates("T1") + templates("T2") + templates("T3"):
        given = [se.render_prompt(entry["template"], row, entry["vars"]) for row in entry["rows"]]
        assert given == entry["expected"], entry["id"]
