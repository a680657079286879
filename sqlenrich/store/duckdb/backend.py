"""The backend of a DuckDB database: bounded memory for any number of rows, answers committed in bulk."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import duckdb
from sqlglot import exp, select

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql, func, literal
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.plan.profiles import PROFILES
from sqlenrich.plan.relations import RELATIONS, symbol
from sqlenrich.renderer.statements import create_if_missing, create_table_as
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.store import queries
from sqlenrich.store.backend import Backend, evenly
from sqlenrich.store.base import Counts, Origin, RunStart, Source
from sqlenrich.store.duckdb.answers_digest import ANSWERS_DIGEST, digest_text
from sqlenrich.store.duckdb.database import Database, Policy, failure, name_parts, text
from sqlenrich.store.duckdb.files import check_replaceable, export, outputs_of
from sqlenrich.store.duckdb.input_files import among_files
from sqlenrich.store.duckdb.kept_prompts import made_of
from sqlenrich.store.duckdb.source import SOURCE, open_source
from sqlenrich.store.duckdb.tables import DuckDBTables
from sqlenrich.store.inputs import Input, TableInMemory
from sqlenrich.store.result_tables import ResultTables
from sqlenrich.store.scratch import KeptFolder

SLICES = {"prompts": "sqlenrich_prompts_slice", "responses": "sqlenrich_responses_slice"}
"""The views that ``checked`` reads in place of the whole tables."""
SOURCE_ROW = "sqlenrich_row"
"""The column of such a view that numbers the rows of ``prompts`` in the order of the source."""
BATCH = "sqlenrich_batch"
"""The name under which DuckDB finds a batch of answers."""


class DuckDBBackend(Backend):
    """The tables of a run in a DuckDB database: the output itself, or one beside an output file."""

    def __init__(self, output: str | Path | Sequence[str | Path], policy: Policy | None = None) -> None:
        """Choose the database. Raises ConfigError for an unknown kind of output."""
        self.outputs = outputs_of(output)
        self.policy = policy or Policy()
        self._inserts: dict[str, str] = {}
        self._input: Input = None
        """The input where the same files give the same rows."""
        self.database = Database(self.outputs.database, self.policy)
        super().__init__(self.database, "duckdb")

    def __enter__(self) -> Self:
        self.database.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.database.__exit__(*error)

    @property
    def output(self) -> str:
        """The database and the files that the caller named."""
        return str(self.outputs)

    def bind(self, enrichment: Enrichment, input: Input) -> Source:
        """Open the input; a source without a key gets the column ``_row``. Raises ConfigError."""
        numbered = not enrichment.key
        # A condition or a query may give other rows of the same files: those of today, say.
        self._input = None if enrichment.where is not None or enrichment.query is not None else input
        types = open_source(self.database, input, enrichment.source, enrichment.query, number_rows=numbered)
        return Source(SOURCE, types)

    def read(self, plan: Plan, query: exp.Query) -> list[tuple[Any, ...]]:
        """Run a query that may read the source."""
        return self.database.reading(plan.relations.line(query))

    def publish(self, plan: Plan) -> None:
        """Write the results to the outputs that are files."""
        for file in self.outputs.files:
            export(self.database, plan, file)

    def result_tables(self, plan: Plan) -> ResultTables | None:
        """Return the tables of the results, to be read when the database is closed."""
        return ResultTables(self.database.path, plan.step("enriched").relation, plan.step("quarantine").relation)

    # Steps -----------------------------------------------------------------------------------------------------------

    def run_step(self, step: Step) -> None:
        """Make the table of a step afresh. Raises RunError that names the step."""
        try:
            if step.name != "prompts":
                super().run_step(step)
                return
            self._make_prompts(step)
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.Error as error:
            raise failure(error, f"the step {step.name} failed: ", self.database.staged) from None

    def _make_prompts(self, step: Step) -> None:
        # While the source is read its names come first: the new table is named in full.
        name, catalog = step.relations.table("prompts").name, self.database.catalog()
        table = exp.table_(name, "main", catalog, quoted=True)
        created = [
            print_sql(self.engine, made, pretty=False)
            for made in self.engine.create_table_as(table, step.relations.bound(step.query))
        ]
        written = table.sql("duckdb")
        told, comment = made_of(created, self._input), self.database.comment(name)

        def as_it_is() -> str:
            return f"{told}, {self.database.one(f'SELECT COUNT(*) FROM {written}')} rows"

        if told is not None and comment is not None and comment == as_it_is():
            return
        for sql in created:
            self.database.reading(sql)
        if told is not None and made_of(created, self._input) == told:  # the files did not change meanwhile
            self.database.execute(f"COMMENT ON TABLE {written} IS {text(as_it_is())}")

    def prepare(
        self, plan: Plan, start: RunStart, *, limit: int | None, ordered: bool, beside: Sequence[str] | None = None
    ) -> Counts:
        """Make the prompts, the table of answers where it is missing, and the pending relation."""
        return self.database.roomy(lambda: self._prepare(plan, start, limit, ordered, beside))

    def _prepare(
        self, plan: Plan, start: RunStart, limit: int | None, ordered: bool, beside: Sequence[str] | None
    ) -> Counts:
        if beside is not None:
            self._input = None  # the rows of earlier inputs stay
        return super().prepare(plan, start, limit=limit, ordered=ordered, beside=beside)

    def rows_before(self, plan: Plan) -> int | None:
        """Return the number of rows that the last run left; None without one."""
        steps = [plan.step(name) for name in ("enriched", "quarantine")]
        if not all(map(self.exists, steps)):
            return None
        return sum(self.number(plan, queries.count_rows(step.name)) for step in steps)

    def file_name(self, enrichment: Enrichment) -> str | None:
        """Return the prompt file relative to the folder of the database: both may be moved together."""
        return None if enrichment.path is None else self._beside(enrichment.path)

    def written_files(self) -> tuple[str, ...]:
        """Return the output files relative to the folder of the database."""
        return tuple(map(self._beside, self.outputs.written))

    def _beside(self, path: Path) -> str:
        with suppress(ValueError):  # on another drive
            return os.path.relpath(path.resolve(), self.database.path.resolve().parent)
        return str(path.resolve())

    def last_file(self, name: str) -> str | None:
        """Return the prompt file of the last run, if it is still there."""
        file = self.ledger.last_file(name)
        return file if file is not None and (self.database.path.resolve().parent / file).is_file() else None

    def refresh(self, plan: Plan, call: Step, limit: int | None = None, *, ordered: bool = False) -> int:
        """Make the pending relation of a call afresh and give its count; a limit keeps the first rows."""
        assert call.pending is not None
        query: exp.Query = call.pending
        if limit is not None:
            first = select("request_hash", "MIN(rowid) AS first_row").from_(symbol("prompts")).group_by("request_hash")
            query = (
                select("pending.*")
                .from_(query.subquery("pending"))
                .join(first.subquery("first"), using="request_hash")
                .order_by("first_row")
                .limit(limit)
            )
        pending = plan.relations.table("pending")
        if self.database.is_view(pending.name):  # as dbt makes it
            self.database.execute(print_sql(self.engine, exp.Drop(tables=[pending], kind="VIEW"), pretty=False))
        self.database.in_passes(partial(self._make_pending, call, query, ordered))
        return self.number(plan, queries.count_rows("pending"))

    def _make_pending(self, call: Step, query: exp.Query, ordered: bool, passes: int) -> None:
        first, *others = _parts(select("*").from_(query.subquery("pending")), passes)
        if ordered and not others:
            first = first.order_by("prompt")
        made = create_table_as(self.engine, call, "pending", first, pretty=False)
        made += [call.relations.line(exp.Insert(this=symbol("pending"), expression=part)) for part in others]
        if ordered and others:
            sorted_ = select("*").from_(symbol("pending")).order_by("prompt")
            made += create_table_as(self.engine, call, "pending", sorted_, pretty=False)
        for sql in made:
            self.database.execute(sql)

    def make(self, plan: Plan, role: str, query: exp.Query) -> None:
        """Make the table of a role afresh from a query, with more memory where that is needed."""
        self.database.roomy(partial(super().make, plan, role, query))

    def append_query(self, plan: Plan, step: Step) -> None:
        """Append the rows of a step's query to its table, with more memory where that is needed."""
        self.database.roomy(partial(super().append_query, plan, step))

    def judge(self, plan: Plan, *, asked_by: str | None = None) -> None:
        """Make ``checked``: all of it, or again for what the run ``asked_by`` asked; all or nothing."""
        self.database.roomy(lambda: self._judge(plan, asked_by))

    def _judge(self, plan: Plan, asked_by: str | None) -> None:
        self.database.begin()
        self._check(plan, asked_by)
        self.database.commit()

    def _check(self, plan: Plan, asked_by: str | None = None) -> None:
        """Make ``checked`` a slice of hashes at a time: the memory of a run does not grow with its rows.

        The rows of a slice are sorted as in the source. Without a sort a join gives them in any order.
        """
        sliced = plan.bound(SLICES).step("checked")
        query = sliced.query.copy()
        assert isinstance(query, exp.Select)
        query.ctes[-1].this.select(exp.column(SOURCE_ROW, table="p"), copy=False)  # the rows with their answers
        query.order_by(exp.column(SOURCE_ROW), copy=False)
        rows = self.number(plan, queries.count_rows("prompts"))
        count = min(max(1, -(-rows // self.policy.slice_rows)), self.policy.slices_most)
        again: list[Sql] = []
        if asked_by is not None:
            asked = queries.asked_hashes(asked_by).subquery(copy=False)
            again = [exp.In(this=exp.column("request_hash"), query=asked)]
            gone = exp.Delete(this=symbol("checked"), where=exp.Where(this=again[0].copy()))
            self.database.execute(plan.relations.line(gone))
        for index in range(count):
            for role, view in SLICES.items():
                within = queries.hash_slice(
                    exp.column("request_hash"), index, count, nulls=role == "prompts" and index == 0
                )
                part = select("*").from_(symbol(role)).where(within, *(test.copy() for test in again))
                if role == "prompts":
                    part = part.select(exp.alias_(exp.column("rowid"), SOURCE_ROW))
                made = exp.Create(
                    this=exp.to_table(view), kind="VIEW", expression=part, replace=True,
                    properties=exp.Properties(expressions=[exp.TemporaryProperty()]),
                )  # fmt: skip
                self.database.execute(plan.relations.line(made))
            if asked_by is None and index == 0:
                for sql in create_table_as(self.engine, sliced, "checked", query, pretty=False):
                    self.database.execute(sql)
            else:
                rest = exp.Insert(this=symbol("checked"), expression=query)
                self.database.execute(sliced.relations.line(rest))

    def make_results(self, plan: Plan) -> None:
        """Make the three tables together, with more memory where that is needed."""
        self.database.roomy(lambda: self._finish(plan))

    def _finish(self, plan: Plan) -> None:
        self.database.begin()
        self._check(plan)
        for name in ("enriched", "quarantine"):
            self.run_step(plan.step(name))
        self.database.commit()

    def append_profile(self, plan: Plan, query: exp.Query) -> None:
        """Append lines of a query to NAME_profiles, with more memory where that is needed."""
        table = plan.relations.table("profiles")
        self.database.execute(print_sql(self.engine, create_if_missing(self.engine, table, PROFILES), pretty=False))
        insert = plan.relations.line(exp.Insert(this=table, expression=query, by_name=True))
        self.database.roomy(partial(self.database.execute, insert))

    # Requests and answers --------------------------------------------------------------------------------------------

    def count(self, calls: Iterable[Step]) -> int:
        """Return how many requests some calls have to ask."""
        return sum(self.database.in_passes(partial(self._count, call)) for call in calls)

    def _count(self, call: Step, passes: int) -> int:
        parts = _parts(queries.count_pending(call), passes)
        return sum(int(self.database.one(call.relations.line(part))) for part in parts)

    def requests(self, call: Step, count: int) -> Iterator[Request]:
        """Return the pending requests in their order, a page at a time."""
        for start in range(0, count, self.policy.page_rows):
            page = (
                select("*")
                .from_(symbol("pending"))
                .where(
                    exp.GTE(this=exp.column("rowid"), expression=literal(start)),
                    exp.LT(this=exp.column("rowid"), expression=literal(start + self.policy.page_rows)),
                )
            )
            for row in self.database.rows(call.relations.line(page)):
                yield Request(*row)

    def spread(self, call: Step, count: int, most: int) -> list[Request]:
        """Return a few pending requests: the first, the last and those evenly between."""
        places = exp.In(this=exp.column("rowid"), expressions=[literal(place) for place in evenly(count, most)])
        query = select("*").from_(symbol("pending")).where(places).order_by("rowid")
        return [Request(*row) for row in self.database.rows(call.relations.line(query))]

    def append(self, plan: Plan, answers: Sequence[Answer], origin: Origin) -> None:
        """Store at least one answer and commit: from here on it is never asked again."""
        from sqlenrich.store.duckdb.answers import answer_table

        # The SQL finds the local variable by its name; registering it as a view would cost a third more.
        sqlenrich_batch = answer_table(answers, origin)  # noqa: F841
        self.database.db.execute(self._insert_of(plan))

    def _insert_of(self, plan: Plan) -> str:
        """Return the statement that appends a batch: printed once a table, since each commit needs it."""
        table = plan.responses.relation
        if table not in self._inserts:
            insert = exp.Insert(this=symbol("responses"), expression=select("*").from_(BATCH), by_name=True)
            self._inserts[table] = plan.relations.line(insert)
        return self._inserts[table]

    def answers_digest(self, plan: Plan, run_id: str) -> str | None:
        """Return a digest of all that a run stored of its answers."""
        found = self.database.roomy(
            lambda: self.database.db.execute(
                f"SELECT {ANSWERS_DIGEST} FROM {plan.responses.relation} WHERE run_id = ?", [run_id]
            ).fetchall()
        )
        return digest_text(found[0][0])

    def repeated_keys(self, plan: Plan, key: Sequence[str]) -> tuple[int, int, int]:
        """Return the rows, how many of them repeat the key of another row, and how many have a NULL in it."""
        columns = [exp.column(exp.to_identifier(name, quoted=True)) for name in key]
        missing = exp.or_(*(exp.Is(this=column.copy(), expression=exp.Null()) for column in columns))
        nulls = exp.Sum(this=exp.Case(ifs=[exp.If(this=missing, true=literal(1))], default=literal(0)))
        rows, distinct, without = self._distinct(plan, columns, func("hash", *columns), nulls)
        return rows, rows - distinct, without

    def size(self, plan: Plan) -> tuple[int, int]:
        """Return the number of rows and of distinct requests."""
        hash_ = exp.column("request_hash")
        known = exp.Not(this=exp.Is(this=hash_.copy(), expression=exp.Null()))
        value = exp.Case(ifs=[exp.If(this=known, true=func("hash", hash_))])
        rows, distinct = self._distinct(plan, [hash_], value)
        return rows, distinct

    def _distinct(self, plan: Plan, columns: Sequence[Sql], value: Sql, *counts: Sql) -> list[int]:
        """Return the number of prompts, that of the distinct values of some columns, and further counts.

        ``value`` is their hash of 64 bits: long texts take no more memory than short ones.
        """
        query = select("COUNT(*)", exp.Count(this=exp.Distinct(expressions=[value])), *counts).from_(symbol("prompts"))
        hashed = func("hash", *columns)

        def read(passes: int) -> list[int]:
            found = []
            for number in range(passes):
                part = exp.Mod(this=hashed.copy(), expression=literal(passes))
                within = query.where(exp.EQ(this=part, expression=literal(number))) if passes > 1 else query
                found += self.database.db.execute(plan.relations.line(within)).fetchall()
            return [sum(int(number or 0) for number in column) for column in zip(*found, strict=True)]

        return self.database.in_passes(read)

    def check_before_retry(self, enrichment: Enrichment) -> None:
        """Refuse an output without a run, and files that no run wrote. Raises ConfigError."""
        if not self.database.path.is_file():
            raise ConfigError(f"{self.outputs} holds no run of {enrichment.name}: run it first")
        check_replaceable(*self.outputs.written)

    def as_database(self) -> DuckDBTables:
        """Return the tables of the open database."""
        return DuckDBTables(self.database.db, self.database.path, self.output)

    def check_before_run(self, enrichment: Enrichment, input: Input) -> None:
        """Refuse to read what the run writes, and to write over what no run wrote. Raises ConfigError."""
        local = None if input is None or isinstance(input, TableInMemory) else Path(str(input)).resolve()
        for path in self.outputs.written:
            if path.resolve() == local:
                raise ConfigError(f"{input}: the run would write over its own input; give another --output")
            if local is not None and among_files(path, str(input)):
                raise ConfigError(f"{input} would have {path}, which the run writes, as input; give another --output")
        check_replaceable(*self.outputs.written)
        own = input is None or local == self.database.path.resolve()
        if own and enrichment.source is not None:
            name = name_parts(enrichment.source)[-1].lower()
            if name in {form.format(enrichment.name).lower() for form in RELATIONS.values()}:
                raise ConfigError(
                    f"the source {enrichment.source} is a table that this run makes; rename the prompt file, "
                    "or give another --output"
                )


class TemporaryBackend(DuckDBBackend):
    """The tables of a run in a temporary folder: they last as long as what reads the results."""

    def __init__(self) -> None:
        self.folder = KeptFolder()
        super().__init__(self.folder.path / "results.duckdb")

    @property
    def output(self) -> str:
        """There is no place that a caller could read without the report."""
        return ""

    def result_tables(self, plan: Plan) -> ResultTables | None:
        """Return the tables of the results with the folder."""
        tables = super().result_tables(plan)
        return None if tables is None else replace(tables, folder=self.folder)


def _parts(requests: exp.Select, passes: int) -> list[exp.Select]:
    """Return a query over requests in so many parts, by their hashes."""
    if passes == 1:
        return [requests]
    hash_ = exp.column("request_hash")
    return [requests.where(queries.hash_slice(hash_, number, passes, nulls=False)) for number in range(passes)]
