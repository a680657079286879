"""Answers checked by the reference and by engines: many schemas in one query, each with its own answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import sqlenrich as se
from sqlenrich.core.types import BIGINT, STRING
from sqlenrich.schema import build_checks, evaluate_checks, normalise
from tests.support.corpus import RUNNERS, Run

ENGINES = {
    "python": "the reference",
    "duckdb": "DuckDB itself",
    "spark": "Spark itself",
    "bigquery": "Google's evaluator",
    "snowflake": "our interpreter of its documentation",
}
"""What runs the checks. An engine of ``tests.support.corpus.RUNNERS`` has the same name."""
COLUMNS = {"place_of_schema": BIGINT, "response": STRING}
MAX_SHARED_SQL = 40_000
"""A longer expression is a query of its own, because planning takes longest."""


@dataclass(frozen=True)
class Sample:
    """A schema, and answers that are checked against it."""

    schema: Any
    texts: tuple[str | None, ...]
    assert_format: bool = False


Codes: TypeAlias = "list[str | None] | Exception"
"""The code of each answer, or why there is none."""


def reference_codes(sample: Sample) -> Codes:
    """Give what :func:`sqlenrich.check_response` gives for each answer; the schema is read once."""
    plain, problems = normalise(sample.schema, "schema", columns=False, assert_format=sample.assert_format)
    if problems:
        return se.SpecError("schema", [str(problem) for problem in problems])
    checks = build_checks(plain)
    return [None if (found := evaluate_checks(checks, text)) is None else found[0] for text in sample.texts]


class Checker:
    """One engine, or the reference where ``run`` is None."""

    def __init__(self, engine: str, run: Run | None) -> None:
        self.engine, self.run = engine, run

    def __call__(self, samples: Sequence[Sample]) -> list[Codes]:
        """Give the codes of each sample."""
        if self.run is None:
            return [reference_codes(sample) for sample in samples]
        found: list[Codes] = [se.RunError("not checked")] * len(samples)
        short: dict[int, str] = {}
        for place, sample in enumerate(samples):
            try:
                sql = se.check_sql(sample.schema, self.engine, assert_format=sample.assert_format)
            except se.SqlenrichError as error:
                found[place] = error
                continue
            if len(sql) > MAX_SHARED_SQL:
                found[place] = self.query([sql], [sample])[0]
            else:
                short[place] = sql
        codes = self.query(list(short.values()), [samples[place] for place in short])
        for place, one in zip(short, codes, strict=True):
            found[place] = one
        return found

    def query(self, sqls: Sequence[str], samples: Sequence[Sample]) -> list[Codes]:
        """Give the codes of several samples by one query. A query that fails is split, to find what fails."""
        if not sqls or self.run is None:
            return []
        arms = " ".join(f"WHEN {place} THEN {sql}" for place, sql in enumerate(sqls))
        rows = [{"place_of_schema": place, "response": text} for place, one in enumerate(samples) for text in one.texts]
        try:
            codes = iter(self.run(f"CASE place_of_schema {arms} END", COLUMNS, rows))
        except Exception as error:
            if len(sqls) == 1:
                return [error]
            half = len(sqls) // 2
            return self.query(sqls[:half], samples[:half]) + self.query(sqls[half:], samples[half:])
        return [[next(codes) for _ in one.texts] for one in samples]


@contextmanager
def checker_of(engine: str) -> Iterator[Checker]:
    """Give the checker of a name of :data:`ENGINES`."""
    if engine == "python":
        yield Checker(engine, None)
    else:
        with RUNNERS[engine]() as run:
            yield Checker(engine, run)
