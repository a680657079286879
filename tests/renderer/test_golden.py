"""Some ready-made enrichments, rendered for each engine, equal the files in ``golden/``.

Of a script that adds to another one the file is a diff. ``pytest --update-golden`` rewrites them: read the diff before
you commit it.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from pathlib import Path

import pytest
import sqlglot

import sqlenrich as se
from sqlenrich.engines import ENGINES, get_engine
from sqlenrich.spec.limits import Limit
from sqlenrich.spec.loader import templates
from sqlenrich.spec.settings import Config

GOLDEN = Path(__file__).parents[1] / "golden"
TEMPLATES = ("product_attributes", "review_aspects", "support_ticket", "transaction")
"""Enough to show each construct of the SQL: nested arrays, objects, decimals, dates, formats, nullable fields."""
RETRY = "review_aspects.retry"
"""The script of a retry with every option."""
TRUNCATE = "review_aspects.truncate"
"""The script of an enrichment that truncates long prompts."""
QUALITY = "review_aspects.quality"
"""The script that also measures the answers."""
VECTOR = "article_vector"
"""The script of an enrichment whose output is a vector."""
ARTICLE = """---
version: 1
source: raw.articles
key: [id]
output: {embedding: {dimensions: 1024}}
---
{{ title }}: {{ body }}
"""
ADDING = {TRUNCATE: "review_aspects", QUALITY: "review_aspects"}
"""The scripts that are stored as a diff, each with the one that it adds to."""
SCRIPTS = (*TEMPLATES, RETRY, TRUNCATE, QUALITY, VECTOR)


def rendered(template: str, engine: str, *, preflight: bool = True) -> str:
    """The script without sqlenrich's own version, which would change every file at each release."""
    name, _, variant = template.partition(".")
    limit = Limit(2000, beside=500, cut="review") if variant == "truncate" else None
    written = se.loads(ARTICLE, name=VECTOR) if name == VECTOR else se.load(name)
    enrichment = replace(written, feedback=variant == "retry", limit=limit)
    retry, quality = variant == "retry", variant == "quality"
    model = "sqlenrich.gemini" if (engine, variant) == ("bigquery", "truncate") else None  # through AI.GENERATE_TEXT
    sql = se.render(enrichment, engine, config=Config(), model=model, retry=retry, quality=quality, preflight=preflight)
    return re.sub(r"(?m)^(-- .*; made by sqlenrich) \S+$", r"\1", sql, count=1)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("template", sorted({*templates()} - {*TEMPLATES}))
def test_every_template_is_rendered(template: str, engine: str) -> None:
    sql = rendered(template, engine, preflight=False)  # sqlglot reads no scripting
    dialect = get_engine(engine).dialect
    parsed = sqlglot.parse(sql, read=dialect)
    assert len(parsed) >= 5
    assert f"-- {template} for {engine}, " in sql


def stored_at(template: str, engine: str) -> Path:
    """The file of a script."""
    return GOLDEN / engine / f"{template}.{'diff' if template in ADDING else 'sql'}"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("template", SCRIPTS)
def test_rendered_as_stored(template: str, engine: str, request: pytest.FixtureRequest) -> None:
    sql = rendered(template, engine)
    assert "made by sqlenrich\n" in sql
    path = stored_at(template, engine)
    if (base := ADDING.get(template)) is not None:
        lines = difflib.unified_diff(rendered(base, engine).splitlines(True), sql.splitlines(True), base, template)
        sql = "".join(lines)
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(sql.encode())
    stored = path.read_bytes().decode() if path.exists() else ""
    if sql != stored:
        name = str(path.relative_to(GOLDEN.parent))
        lines = difflib.unified_diff(stored.splitlines(True), sql.splitlines(True), f"{name} (stored)", "rendered now")
        pytest.fail("".join(lines) or "they differ in their line ends", pytrace=False)


def test_every_file_belongs_to_a_template(request: pytest.FixtureRequest) -> None:
    expected = {stored_at(template, engine) for engine in ENGINES for template in SCRIPTS}
    strays = sorted(path for path in GOLDEN.rglob("*") if path.is_file() and path not in expected)
    if request.config.getoption("--update-golden"):
        for path in strays:
            path.unlink()
        strays = []
    assert strays == []
