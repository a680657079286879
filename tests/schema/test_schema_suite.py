"""The JSON Schema Test Suite: no result is wrong, and the engines give the reference's codes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support.checkers import ENGINES
from tests.support.schema_suite import FOLDER, asserted, moved, suite, tallies, total, unchecked_formats

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no suite at {FOLDER}; set SQLENRICH_CORPORA to its folder's"),
]

DOCS = Path(__file__).parents[2] / "docs" / "schema-suite.md"
CASES, LEFT_OUT, FORMATS = 960, 339, 133
SUPPORTED = 0.9
"""The least share of the cases that each engine supports."""
EVERY = int(os.environ.get("SQLENRICH_CORPUS_EVERY", "0"))
"""Every Nth schema is checked; 1 means all, 0 as many as each engine checks in half a minute."""
USUAL = {"python": 1, "duckdb": 1, "spark": 3, "bigquery": 3, "snowflake": 2, "clickhouse": 2}
MARKS = {"spark": [pytest.mark.spark], "bigquery": [pytest.mark.zetasql]}
each_engine = pytest.mark.parametrize("engine", [pytest.param(name, marks=MARKS.get(name, [])) for name in ENGINES])


def test_every_case_is_used_or_left_out_by_name() -> None:
    groups, left_out = suite()
    assert (sum(len(group.cases) for group in groups), left_out.total()) == (CASES, LEFT_OUT)
    assert sum(len(group.cases) for group in asserted()) == FORMATS


@each_engine
def test_no_result_is_wrong(engine: str) -> None:
    made = total(tallies(engine, suite()[0][:: EVERY or USUAL[engine]]))
    assert made.wrong == []
    assert made.right == made.supported >= SUPPORTED * made.cases > 0


@each_engine
def test_asserted_formats_are_checked_or_refused(engine: str) -> None:
    made = tallies(engine, asserted())
    assert total(made).wrong == []
    assert not unchecked_formats(made)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"$ref": "#/$defs/a"}, {"$ref": "#/properties/value/$defs/a"}),
        ({"$ref": "#"}, {"$ref": "#/properties/value"}),
        ({"const": {"$ref": "#/a"}}, {"const": {"$ref": "#/a"}}),
        ({"properties": {"$ref": {"$ref": "#"}}}, {"properties": {"$ref": {"$ref": "#/properties/value"}}}),
        ({"properties": {"const": {"$ref": "#"}}}, {"properties": {"const": {"$ref": "#/properties/value"}}}),
    ],
)
def test_references_are_moved(schema: object, expected: object) -> None:
    assert moved(schema) == expected


def test_the_published_totals_are_those_of_the_suite() -> None:
    text = DOCS.read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| all \| .*$", text, re.MULTILINE)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert int(cells[1]) == CASES
    for cell in cells[2:]:
        right, supported = map(int, cell.split(" of "))
        assert right == supported >= SUPPORTED * CASES
