"""Random prompts over random rows: each engine's SQL gives jinja2's very bytes, or NULL where docs/prompts.md says so.

SQLENRICH_EXAMPLES=10000 pytest tests/prompt/test_prompt_random.py -s     # this number of prompts, with another seed
SQLENRICH_EXAMPLES=10000 SQLENRICH_SEED=7 pytest ...               # the same ones again
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import jinja2
import pytest

import sqlenrich as se
from sqlenrich.core.types import BIGINT, parse_type
from sqlenrich.engines import ENGINES as ALL_ENGINES
from sqlenrich.prompt.reference import environment
from tests.prompt.test_conformance import EXPRESSIONS, columns_of_snowflake, fill_duckdb, fill_spark, quoted, typed
from tests.prompt.test_conformance_numbers import stored
from tests.support.random_templates import COLUMNS, VARS, Node, drawn, nodes, rows, shrink, template

EXAMPLES = int(os.environ.get("SQLENRICH_EXAMPLES", "0"))
SEED = int(os.environ.get("SQLENRICH_SEED", "0")) or (random.randrange(1, 10**6) if EXAMPLES else 1)
SHARE = {"duckdb": 200, "bigquery": 60, "spark": 50, "snowflake": 60}
"""How many prompts are tried by default."""
BATCH = 25
"""So many prompts are columns of one query."""
ROWS = 20
LONGEST = 8_000
"""Longer SQL is left out: planning it takes the time of a hundred others."""
MAX_DISAGREEMENTS = 30
"""A run ends after this number of disagreements."""

Row = dict[str, Any]
Texts = list[str | Exception | None]


# The engines ----------------------------------------------------------------------------------------------------------


class Source:
    """A table of some rows in an engine."""

    def __init__(self, engine: str, given: Sequence[Row]) -> None:
        self.engine, self.rows = engine, given
        names = [name for name in COLUMNS if name in given[0]]
        self.columns = {"place": BIGINT, **{name: parse_type(COLUMNS[name]) for name in names}}
        placed = [(place, *(stored(engine, row[name]) for name in names)) for place, row in enumerate(given)]
        if engine == "duckdb":
            self.db = duckdb.connect()
            self.db.execute("SET threads = 1")
            fill_duckdb(self.db, "source", self.columns, placed)
        elif engine == "spark":
            fill_spark("source", self.columns, placed)
        elif engine == "snowflake":
            self.data = {"source": (columns_of_snowflake(self.columns), placed)}
        else:
            self.data = {"source": (typed(engine, self.columns), placed)}

    def close(self) -> None:
        """Drop it."""
        if self.engine == "duckdb":
            self.db.close()
        elif self.engine == "spark":
            from tests.standins.spark import spark_session

            spark_session().catalog.dropTempView("source")

    def query(self, sqls: Sequence[str], only: int | None = None) -> list[tuple[Any, ...]]:
        """The texts of some expressions, row by row."""
        mark = "duckdb" if self.engine == "snowflake" else self.engine
        listed = ", ".join(f"{sql} AS {quoted(mark, f'c{place}')}" for place, sql in enumerate(sqls))
        sql = f"SELECT place, {listed} FROM source" + (f" WHERE place = {only}" if only is not None else "")
        if self.engine == "duckdb":
            found = self.db.execute(sql).fetchall()
        elif self.engine == "spark":
            from tests.standins.spark import rows as spark_rows

            found = spark_rows(sql)
        elif self.engine == "snowflake":
            from tests.standins import snowflake

            found = snowflake.rows(sql, self.data)
        else:
            from tests.standins.googlesql import googlesql

            found = googlesql().evaluate(sql, self.data)
        return [tuple(texts) for _, *texts in sorted(found, key=lambda row: row[0])]

    def texts(self, sqls: Sequence[str]) -> list[Texts]:
        """For each expression its text for each row, or why the query failed for it."""
        if not sqls:
            return []
        try:
            return [list(texts) for texts in zip(*self.query(sqls), strict=True)]
        except Exception as error:
            if len(sqls) > 1:
                half = len(sqls) // 2
                return self.texts(sqls[:half]) + self.texts(sqls[half:])
            return [[self.one(sqls[0], place, error) for place in range(len(self.rows))]]

    def one(self, sql: str, place: int, error: Exception) -> str | Exception | None:
        """The text for one row where the query failed for one of them."""
        if len(self.rows) == 1:
            return error
        try:
            return self.query([sql], place)[0][0]  # type: ignore[no-any-return]
        except Exception as own:
            return own


def expected(text: str, given: Sequence[Row]) -> list[str | None]:
    """What Jinja renders for each row, None where it fails; parsed once."""
    compiled = environment().from_string(text)
    found: list[str | None] = []
    for row in given:
        try:
            found.append(compiled.render({**row, **VARS}))
        except Exception:
            found.append(None)
    return found


def indexes_by_nothing(text: str, row: Row) -> bool:
    """Whether a template looks up an element by a missing value: Jinja finds nothing there, and SQL gives NULL."""
    strict = environment().overlay()

    def getitem(value: Any, argument: Any) -> Any:
        if argument is None or isinstance(argument, jinja2.Undefined):
            raise LookupError("no index")
        return environment().getitem(value, argument)

    strict.getitem = getitem  # type: ignore[method-assign,assignment]
    try:
        strict.from_string(text).render({**row, **VARS})
    except LookupError:
        return True
    except Exception:
        return False
    return False


def compiled(engine: str, node: Node) -> str | None:
    """The SQL of a prompt, None where it is refused."""
    columns = {name: kind for name, kind in COLUMNS.items() if engine != "bigquery" or name != "grid"}
    try:
        return se.prompt_sql(template(node), engine, columns=columns, vars=VARS)
    except (se.PromptError, se.UnsupportedError):
        return None


def disagreement(engine: str, node: Node, found: str | Exception | None, expected: str | None) -> str | None:
    """How an engine's text is wrong, None where it isn't."""
    if isinstance(found, Exception):
        return "the query fails"
    if found == expected:
        return None
    if found is None:
        return None if node.may_be_null(engine) else "NULL"
    return "a text where Jinja fails" if expected is None else "another text"


class Trial:
    """Prompts tried on one engine, and what came of them."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.nulls = engine != "bigquery"  # its tables have no NULL in an array, and no array of arrays
        self.row = rows(nulls=self.nulls, nested=self.nulls)
        self.counts: Counter[str] = Counter()
        self.found: list[str] = []

    def run(self, count: int, seed: int) -> None:
        """Try ``count`` prompts."""
        trees = drawn(nodes(nested=self.nulls), count, seed)
        tables = drawn(self.row, ROWS * (count // BATCH + 1), seed)
        for start in range(0, len(trees), BATCH):
            at = start // BATCH * ROWS
            self.batch(trees[start : start + BATCH], tables[at : at + ROWS] or tables[:ROWS])
            if len(self.found) > MAX_DISAGREEMENTS:
                return

    def batch(self, trees: Sequence[Node], given: Sequence[Row]) -> None:
        """Try some prompts over some rows; each that disagrees is shrunk and kept."""
        kept: dict[str, Node] = {}
        for node in trees:
            sql = compiled(self.engine, node)
            self.counts["refused" if sql is None else "compiled"] += 1
            if sql is not None and len(sql) > LONGEST:
                self.counts["long"] += 1
            elif sql is not None:
                kept.setdefault(sql, node)
        for node, results in zip(kept.values(), self.texts(list(kept), given), strict=True):
            wrong = self.compare(node, results, given, count=True)
            if wrong:
                self.report(node, given[wrong[0][0]], wrong[0][1])

    def texts(self, sqls: Sequence[str], given: Sequence[Row]) -> list[Texts]:
        """See :meth:`Source.texts`."""
        with contextlib.closing(Source(self.engine, given)) as source:
            return source.texts(sqls)

    def compare(self, node: Node, results: Texts, given: Sequence[Row], count: bool = False) -> list[tuple[int, str]]:
        """The rows for which a prompt disagrees, and how."""
        wrong = []
        for place, (text, other) in enumerate(zip(results, expected(template(node), given), strict=True)):
            if count:
                self.counts["cases"] += 1
                self.counts["fail in Jinja"] += other is None
                self.counts["NULL for a text"] += text is None and other is not None
            how = disagreement(self.engine, node, text, other)
            if how is not None and not (how == "NULL" and indexes_by_nothing(template(node), given[place])):
                wrong.append((place, how))
        return wrong

    def report(self, node: Node, row: Row, how: str) -> None:
        """Shrink what disagrees and keep it in words."""

        def fails(candidates: list[Node], given: list[Row]) -> list[tuple[int, int]]:
            sqls = {i: sql for i, node in enumerate(candidates) if (sql := compiled(self.engine, node)) is not None}
            results = dict(zip(sqls, self.texts(list(sqls.values()), given), strict=True))
            return [
                (i, place)
                for i, texts in results.items()
                for place, what in self.compare(candidates[i], texts, given)
                if what == how
            ]

        node, row = shrink(node, row, fails, self.nulls)
        sql = compiled(self.engine, node) or ""
        (given,) = self.texts([sql], [row])[0]
        used = {name: value for name, value in row.items() if name in str(node)}
        lines = [
            f"{self.engine}: {how}",
            f"  template {template(node)!r}",
            f"  row      {used!r}",
            f"  expected {expected(template(node), [row])[0]!r}",
            f"  given    {given!r}"[:600],
        ]
        self.found.append("\n".join(lines))

    def __str__(self) -> str:
        c = self.counts
        refused, total = c["refused"], c["refused"] + c["compiled"]
        return (
            f"{self.engine}, seed {SEED}: {total} prompts, {refused} refused, {c['long']} too long; "
            f"{c['cases']} cases, {c['fail in Jinja']} fail in Jinja, NULL for {c['NULL for a text']} texts; "
            f"{len(self.found)} disagreements"
        )


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("engine", EXPRESSIONS)
def test_random_prompts_give_what_jinja_renders(engine: str) -> None:
    trial = Trial(engine)
    trial.run(EXAMPLES or SHARE[engine], SEED)
    sys.stdout.write(f"{trial}\n")
    assert not trial.found, "\n".join([str(trial), *trial.found])
    assert trial.counts["compiled"] > 1.5 * trial.counts["refused"]
    assert trial.counts["NULL for a text"] < trial.counts["cases"] / 30 + 50  # of few prompts one can fail often
    assert trial.counts["fail in Jinja"] < trial.counts["cases"] * 2 / 3


def sizes(trees: Sequence[Node]) -> Iterator[tuple[float, int, str]]:
    """The seconds that a prompt takes for all engines, its longest SQL, and the prompt."""
    for node in trees:
        started = time.process_time()
        longest = max(len(compiled(engine, node) or "") for engine in ALL_ENGINES)
        yield time.process_time() - started, longest, template(node)


def test_compiling_stays_bounded() -> None:
    trees = drawn(nodes(depth=3, inner=3), EXAMPLES // 20 or 30, SEED)
    for seconds, length, text in sizes(trees):
        assert seconds < 2 * len(ALL_ENGINES), text
        assert length < 1_000_000, text
