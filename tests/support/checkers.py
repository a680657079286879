"""Answers checked by the reference and by engines: many schemas in one query, each with its own answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import sqlenrich as se
from sqlenrich.core.names import column
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql
from sqlenrich.core.types import BIGINT, STRING
from sqlenrich.engines import get_engine
from sqlenrich.schema import build_checks, evaluate_checks, normalise
from sqlenrich.schema.checks.shared_values import shared_values
from sqlenrich.schema.checks.sql import Columns, checks_sql, fault_sql, integer_sql, value_sql
from tests.support import clickhouse
from tests.support.corpus import RUNNERS, Run

ENGINES = {
    "python": "the reference",
    "duckdb": "DuckDB itself",
    "spark": "Spark itself",
    "bigquery": "Google's evaluator",
    "snowflake": "our interpreter of its documentation",
    **dict.fromkeys(clickhouse.REGISTERED, "ClickHouse itself"),
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


def reference_codes(sample: Sample, *, detail: bool = False) -> Codes:
    """Return what :func:`sqlenrich.check_response` gives for each answer; the schema is read once.

    With ``detail`` a space and the text for people follow the code.
    """
    plain, problems = normalise(sample.schema, "schema", columns=False, assert_format=sample.assert_format)
    if problems:
        return se.SpecError("schema", [str(problem) for problem in problems])
    checks = build_checks(plain)
    found = (evaluate_checks(checks, text) for text in sample.texts)
    return [None if one is None else " ".join(one) if detail else one[0] for one in found]


def verdict_sql(schema: Any, engine: str, *, assert_format: bool = False) -> str:
    """Return the SQL of an answer's code and detail as the step ``checked`` has it, its columns written in place."""
    target = get_engine(engine)
    plain, problems = normalise(schema, "schema", columns=False, assert_format=assert_format)
    if problems:
        raise se.UnsupportedError(engine, "; ".join(map(str, problems)), "write the schema without it")
    json, text, checks = target.json, column(target, "response"), build_checks(plain)
    shared = shared_values(checks, "doc")

    def verdict(doc: Sql) -> Sql:
        columns = Columns(
            {ref: value_sql(json, doc.copy(), ref) for ref in shared.values},
            {ref: integer_sql(json, doc.copy(), ref, Columns()) for ref in shared.integers},
            {path: fault_sql(json, doc.copy(), checks, path, Columns()) for path in shared.faults},
        )
        return checks_sql(json, text.copy(), doc, checks, detail=True, columns=columns)

    return print_sql(target, json.let(json.parse(text), verdict))


class Checker:
    """One engine, or the reference where ``run`` is None."""

    def __init__(self, engine: str, run: Run | None, *, detail: bool = False) -> None:
        self.engine, self.run, self.detail = engine, run, detail

    def __call__(self, samples: Sequence[Sample]) -> list[Codes]:
        """Return the codes of each sample."""
        if self.run is None:
            return [reference_codes(sample, detail=self.detail) for sample in samples]
        sql_of = verdict_sql if self.detail else se.check_sql
        found: list[Codes] = [se.RunError("not checked")] * len(samples)
        short: dict[int, str] = {}
        for place, sample in enumerate(samples):
            try:
                sql = sql_of(sample.schema, self.engine, assert_format=sample.assert_format)
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
        """Return the codes of several samples by one query. A query that fails is split, to find what fails."""
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
def checker_of(engine: str, *, detail: bool = False) -> Iterator[Checker]:
    """Return the checker of a name of :data:`ENGINES`; with ``detail`` of codes with their texts for people."""
    if engine == "python":
        yield Checker(engine, None, detail=detail)
    else:
        with RUNNERS[engine]() as run:
            yield Checker(engine, run, detail=detail)
