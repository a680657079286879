"""Malformed answers: every engine repairs and checks them as Python does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.core.names import column
from sqlenrich.core.printer import print_sql
from sqlenrich.core.types import STRING
from sqlenrich.engines import get_engine
from sqlenrich.schema.checks.json_text import repair
from sqlenrich.schema.checks.repairs import repaired_sql
from tests.prompt.test_conformance import EXPRESSIONS, select
from tests.support.malformed_answers import ANSWERS, KEEP, SCHEMA, Answer

each_engine = pytest.mark.parametrize("engine", EXPRESSIONS)


def repaired_in(engine: str, repairs: Sequence[str]) -> str:
    words = get_engine(engine)
    return print_sql(words, repaired_sql(words.json, words.text, column(words, "response"), repairs, keep_null=KEEP))


def test_there_are_enough_and_no_two_are_equal() -> None:
    assert len(ANSWERS) >= 170
    assert len({(answer.text, answer.repairs) for answer in ANSWERS.values()}) == len(ANSWERS)


@pytest.mark.parametrize("name", ANSWERS)
def test_the_reference(name: str) -> None:
    text, repairs, repaired, code = ANSWERS[name]
    assert repair(text, repairs, KEEP) == repaired
    assert se.check_response(SCHEMA, repaired) == code


@each_engine
@pytest.mark.parametrize("repairs", sorted({answer.repairs for answer in ANSWERS.values()}), ids="+".join)
def test_an_engine_repairs_and_checks_as_expected(engine: str, repairs: tuple[str, ...]) -> None:
    given: dict[str, Answer] = {name: answer for name, answer in ANSWERS.items() if answer.repairs == repairs}
    columns = {"n": STRING, "response": STRING}
    rows: list[tuple[Any, ...]] = [(name, answer.text) for name, answer in given.items()]
    sql = f"SELECT n, {repaired_in(engine, repairs)} FROM source"
    assert dict(select(engine, sql, columns, rows)) == {name: answer.repaired for name, answer in given.items()}
    rows = [(name, answer.repaired) for name, answer in given.items()]
    sql = f"SELECT n, {se.check_sql(SCHEMA, engine)} FROM source"
    assert dict(select(engine, sql, columns, rows)) == {name: answer.code for name, answer in given.items()}
