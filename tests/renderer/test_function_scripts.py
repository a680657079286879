"""Functions that a script makes or calls: the verdicts of the inline script, and no name that nothing makes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.core.function_modes import FUNCTIONS, Functions
from sqlenrich.core.types import BIGINT, STRING, TIMESTAMP, Type
from sqlenrich.engines import ENGINES, get_engine
from sqlenrich.plan.compile import compile_plan
from sqlenrich.renderer.functions import function_statements
from sqlenrich.schema.checks.grammar import Spelling, document, document_parts
from sqlenrich.spec.loader import templates
from sqlenrich.spec.settings import Config
from tests.prompt.test_conformance import fill_duckdb
from tests.renderer.test_retry_scripts import GOOD, MARKS, RecordingModel, by_body, enrichment, warehouse
from tests.support.malformed_answers import ANSWERS as MALFORMED

RELATIONS = {"enriched": "d.n"}
"""A place of the results, and so of the functions that stay."""
ANSWERS = {
    "good": GOOD,
    "fenced": f"```json\n{GOOD}\n```",
    "prose": "the label is a",
    "trailing": GOOD + " x",
    "repeated": '{"label":"a","label":"b","n":1}',
    "deep": "[" * 251 + "]" * 251,
    "wide": '{"label":"a","n":' + "1" * 1001 + "}",
    "beyond": '{"label":"a","n":9223372036854775808}',
    "whole": '{"label":"a","n":1.0}',
    "half": '{"label":"a","n":1.5}',
    "greater": '{"label":"a","n":6}',
    "text": '{"label":"a","n":"1"}',
    "other": '{"label":"c","n":1}',
    "missing": '{"label":"a"}',
    "array": "[1]",
    "empty": "",
}
VERDICTS = {
    "good": None, "fenced": None, "prose": "BAD_JSON", "trailing": "BAD_JSON", "repeated": "BAD_JSON",
    "deep": "BAD_JSON", "wide": "BAD_JSON", "beyond": "OUT_OF_RANGE", "whole": None, "half": "WRONG_TYPE",
    "greater": "OUT_OF_RANGE", "text": "WRONG_TYPE", "other": "NOT_IN_ENUM", "missing": "MISSING_FIELD",
    "array": "NOT_OBJECT", "empty": "NO_RESPONSE",
}  # fmt: skip


def called(sql: str) -> set[str]:
    return set(re.findall(r"sqlenrich_\w+(?=\()", sql))


def made(sql: str) -> set[str]:
    return set(re.findall(r"(?:FUNCTION|MACRO) \S*?(sqlenrich_\w+)\(", sql))


def render(template: str, engine: str, functions: Functions | None = None, step: str | None = None) -> str:
    where = RELATIONS if functions == "installed" else None
    return se.render(se.load(template), engine, config=Config(), functions=functions, step=step, relations=where)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("template", list(templates())[::3])
def test_every_called_function_is_made(template: str, engine: str) -> None:
    inline, temporary, installed = (render(template, engine, functions) for functions in FUNCTIONS)
    assert called(inline) == set()
    assert called(temporary) == made(temporary)
    assert "sqlenrich_is_json" in made(temporary) or engine in ("bigquery", "spark")  # their parsers are strict
    assert render(template, engine) == temporary
    assert made(installed) == set()
    assert "-- Needs: the functions sqlenrich_*" in installed
    functions = render(template, engine, "installed", "functions")
    bodies = re.sub(r"(?:FUNCTION|MACRO) \S*?sqlenrich_\w+\(", "", functions)
    assert called(installed) | called(bodies) == made(functions)
    assert len(installed.splitlines()) < len(inline.splitlines())


@pytest.mark.parametrize("engine", ENGINES)
def test_prompts_and_hashes_are_the_same(engine: str) -> None:
    plans = [compile_plan(se.load("support_ticket"), engine, RELATIONS, functions=each) for each in FUNCTIONS]
    assert len({plan.constant for plan in plans}) == 1
    assert len({plan.step("prompts").sql for plan in plans}) == 1


@pytest.mark.parametrize("functions", FUNCTIONS)
@pytest.mark.parametrize(
    "engine", [pytest.param(e, marks=MARKS.get(e, ())) for e in ("bigquery", "snowflake", "spark", "databricks")]
)
def test_a_script_judges_alike(engine: str, functions: Functions) -> None:
    rows = [(name, name) for name in ANSWERS]
    names = {"enriched": "d.again"} if engine == "bigquery" else None
    model = RecordingModel(lambda _, prompt, __: (ANSWERS[prompt], None, "STOP"))

    def script(**options: Any) -> str:
        return se.render(enrichment(), engine, config=Config(), functions=functions, relations=names, **options)

    with warehouse(engine, {"id": STRING, "body": STRING}, rows, model) as run:
        first = script(step="functions") if functions == "installed" else ""
        if engine in ("spark", "databricks"):  # the stand-in's catalog keeps no function
            first = first.replace("CREATE OR REPLACE FUNCTION", "CREATE OR REPLACE TEMPORARY FUNCTION")
        found = run(first + "\n" + script())
    assert {body: code for body, (code, _) in by_body(found).items()} == VERDICTS


RESPONSES: dict[str, Type] = {
    "request_hash": STRING, "attempt": BIGINT, "response": STRING, "call_error": STRING, "finish_reason": STRING,
    "model": STRING, "served_model": STRING, "run_id": STRING, "asked_at": TIMESTAMP,
}  # fmt: skip
PROMPTS: dict[str, Type] = {"id": STRING, "prompt": STRING, "request_hash": STRING}


@pytest.mark.parametrize("functions", ["temporary", "installed"])
def test_duckdb_judges_alike(functions: Functions) -> None:
    texts = [*ANSWERS.values(), *(answer.text for answer in MALFORMED.values())]
    found = []
    with duckdb.connect() as db:
        fill_duckdb(db, "again_prompts", PROMPTS, [(str(n), "p", str(n)) for n, _ in enumerate(texts)])
        rows = [(str(n), 1, text, None, None, "m", None, "r", None) for n, text in enumerate(texts)]
        fill_duckdb(db, "again_responses", RESPONSES, rows)
        for each in ("inline", functions):
            plan = compile_plan(enrichment(), "duckdb", functions=each)
            for statement in function_statements(plan):
                db.execute(statement.sql)
            db.execute(f"CREATE OR REPLACE TABLE again_checked AS {plan.step('checked').sql}")
            steps = [plan.step(name).sql for name in ("enriched", "quarantine")]
            found.append([sorted(db.execute(sql).fetchall(), key=str) for sql in steps])
    assert found[0] == found[1]
    assert len(found[0][0]) + len(found[0][1]) == len(texts)
    codes = {row[0]: row[1] for row in found[0][1]}
    assert [codes.get(str(n)) for n, _ in enumerate(ANSWERS)] == list(VERDICTS.values())


def test_another_expression_has_another_name() -> None:
    def names(**changed: Any) -> set[str]:
        e = replace(se.load("support_ticket"), **changed)
        return made(se.render(e, "snowflake", config=Config(), functions="installed", step="functions"))

    plain, prose = names(), names(repairs=("trim", "reasoning", "fence", "prose"))
    assert len(plain) == len(prose)
    assert {name.rpartition("_")[0] for name in plain ^ prose} == {"sqlenrich_text"}


def test_what_can_t_be_made_is_refused() -> None:
    with pytest.raises(se.UnsupportedError, match="bigquery: a function that stays without its dataset"):
        se.render(enrichment(), "bigquery", config=Config(), functions="installed")


@pytest.mark.parametrize("spelling", ["possessive", "re2", "posix"])
def test_the_parts_are_the_grammar(spelling: Spelling) -> None:
    parts = document_parts(document(spelling), spelling)
    assert "".join(part for part, _ in parts) == document(spelling)
    assert {note for _, note in parts} == {
        "", "a string", "\\u and a character", "\\u and a pair of surrogates", "a number", "what it closes",
    }  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("template", ["support_ticket", "product_attributes", "transaction", "review_aspects"])
def test_line_breaks_change_nothing(template: str, engine: str) -> None:
    """Without its white space and comments each query is the one that is printed on one line."""
    from sqlenrich.core.printer import print_sql

    def bare(sql: str) -> str:
        return re.sub(r"\s|/\*.*?\*/", "", sql)

    plan, target = compile_plan(se.load(template), engine), get_engine(engine)
    trees = [step.query for step in plan.steps] + [plan.responses.pending, *(plan.responses.reading or {}).values()]
    for tree in trees:
        assert tree is not None
        bound = plan.relations.bound(tree)
        assert bare(print_sql(target, bound)) == bare(print_sql(target, bound, pretty=False))
