"""Answers judged by the reference and by engines: many schemas in one query, each over answers of its own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import sqlenrich as se
from sqlenrich.core.types import BIGINT, STRING
from sqlenrich.schema import build_tests, judge, normalise
from tests.support.corpus import RUNNERS, Run

ENGINES = {
    "python": "the reference",
    "duckdb": "DuckDB itself",
    "spark": "Spark itself",
    "bigquery": "Google's evaluator",
    "snowflake": "our interpreter of its documentation",
}
"""Who judges: an engine of ``tests.support.corpus.RUNNERS`` is switched on by its name."""
COLUMNS = {"place_of_schema": BIGINT, "response": STRING}
SHORT = 40_000
"""Longer SQL is a query of its own: planning it takes longest."""


@dataclass(frozen=True)
class Asked:
    """A schema and the answers that it judges."""

    schema: Any
    texts: tuple[str | None, ...]
    assert_format: bool = False


Judged: TypeAlias = "list[str | None] | Exception"
"""The code of each answer, or why there is none."""


def by_reference(asked: Asked) -> Judged:
    """What :func:`sqlenrich.check_response` gives for each answer; the schema is read once."""
    plain, problems = normalise(asked.schema, "schema", columns=False, assert_format=asked.assert_format)
    if problems:
        return se.SpecError("schema", [str(problem) for problem in problems])
    verdicts = build_tests(plain)
    return [None if (found := judge(verdicts, text)) is None else found[0] for text in asked.texts]


class Judge:
    """One engine, or the reference."""

    def __init__(self, engine: str, run: Run | None) -> None:
        self.engine, self.run = engine, run

    def __call__(self, asked: Sequence[Asked]) -> list[Judged]:
        """Give what becomes of each schema's answers."""
        if self.run is None:
            return [by_reference(one) for one in asked]
        made: list[Judged] = [se.RunError("not judged")] * len(asked)
        short: dict[int, str] = {}
        for place, one in enumerate(asked):
            try:
                sql = se.check_sql(one.schema, self.engine, assert_format=one.assert_format)
            except se.SqlenrichError as error:
                made[place] = error
                continue
            if len(sql) > SHORT:
                made[place] = self.queried([sql], [one])[0]
            else:
                short[place] = sql
        found = self.queried(list(short.values()), [asked[place] for place in short])
        for place, judged in zip(short, found, strict=True):
            made[place] = judged
        return made

    def queried(self, sqls: Sequence[str], asked: Sequence[Asked]) -> list[Judged]:
        """Give the codes of some schemas by one query; by several where it fails, to tell for which."""
        if not sqls or self.run is None:
            return []
        arms = " ".join(f"WHEN {place} THEN {sql}" for place, sql in enumerate(sqls))
        rows = [{"place_of_schema": place, "response": text} for place, one in enumerate(asked) for text in one.texts]
        try:
            codes = iter(self.run(f"CASE place_of_schema {arms} END", COLUMNS, rows))
        except Exception as error:
            if len(sqls) == 1:
                return [error]
            half = len(sqls) // 2
            return self.queried(sqls[:half], asked[:half]) + self.queried(sqls[half:], asked[half:])
        return [[next(codes) for _ in one.texts] for one in asked]


@contextmanager
def judge_of(engine: str) -> Any:
    """Give the judge of a name of :data:`ENGINES`."""
    if engine == "python":
        yield Judge(engine, None)
    else:
        with RUNNERS[engine]() as run:
            yield Judge(engine, run)
