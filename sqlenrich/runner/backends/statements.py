"""A backend over any database that takes a statement at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any, NoReturn, Self

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.printer import print_sql
from sqlenrich.engines import get_engine
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.plan.plan import RESPONSES, Plan, Step
from sqlenrich.plan.relations import RELATIONS
from sqlenrich.renderer.statements import create_if_missing, create_table_as
from sqlenrich.runner.backends import queries
from sqlenrich.runner.backends.base import Connection, Counts, ModelUsage, Origin, Results, RunStart, Snapshot
from sqlenrich.runner.backends.ledger import LEDGER, Ledger
from sqlenrich.spec.enrichment import Enrichment


@dataclass(frozen=True)
class StatementPolicy:
    """How much a statement reads or writes at a time."""

    page_rows: int = 65_536
    """The pending requests that are read at a time: each page scans the relation again."""
    insert_characters: int = 250_000
    """The text of one INSERT at most, but for a longer answer. Warehouses bound a statement, the least at 1 MB."""


class StatementBackend:
    """The part of a backend that every database shares: all but how its input is opened.

    A subclass opens the input (``bind``) and replaces what its database does better in bulk.
    """

    def __init__(
        self, connection: Connection, engine: str, schema: str = "", statements: StatementPolicy | None = None
    ) -> None:
        self.statements = statements or StatementPolicy()
        self.connection, self.engine, self.schema = connection, engine, schema
        self.dialect: Engine = get_engine(engine)
        self.ledger = Ledger(connection, self.dialect, self.named(LEDGER))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    @property
    def place(self) -> str:
        """Where the tables are, for messages."""
        return self.connection.place

    @property
    def output(self) -> str:
        """What the report calls the output."""
        return self.place

    def check_before_run(self, enrichment: Enrichment, input: str | Path | None) -> None:
        """A database refuses by itself what may not be written."""

    def check_before_retry(self, enrichment: Enrichment) -> None:
        """The ledger tells whether there is a run."""

    def named(self, table: str) -> str:
        """Give the name of a table in the backend's schema."""
        return f"{self.schema}.{table}" if self.schema else table

    def relations(self, name: str) -> dict[str, str]:
        """Give the table of each role of an enrichment of this name."""
        return {role: self.named(form.format(name)) for role, form in RELATIONS.items()}

    # What runs -------------------------------------------------------------------------------------------------------

    def run_step(self, step: Step) -> None:
        """Make the table of a step afresh."""
        for sql in create_table_as(self.dialect, step, step.name, step.query):
            self.connection.execute(sql)

    def prepare(self, plan: Plan, start: RunStart, *, limit: int | None, ordered: bool) -> Counts:
        """Make the prompts, the table of answers where it is missing, and the pending relation."""
        self.check_tables(plan)
        self.begin(start, known=False)  # until the prompts are made it is unknown whose they are
        self.run_step(plan.step("prompts"))
        self.begin(start, known=True)
        table = plan.relations.table("responses")
        self.connection.execute(print_sql(self.dialect, create_if_missing(self.dialect, table, RESPONSES)))
        pending = self.refresh(plan, plan.responses, limit, ordered=ordered)
        unanswered = pending if limit is None else self.count([plan.responses])
        return Counts(*self.size(plan), unanswered=unanswered, pending=pending)

    def refresh(self, plan: Plan, call: Step, limit: int | None, *, ordered: bool) -> int:  # noqa: ARG002
        """Make the pending relation of a call afresh and give its count; a limit keeps the lowest hashes."""
        assert call.pending is not None
        query = call.pending
        if limit is not None:
            query = exp.select("*").from_(query.subquery("pending")).order_by("request_hash").limit(limit)
        for sql in create_table_as(self.dialect, call, "pending", query):
            self.connection.execute(sql)
        return self.number(plan, queries.count_rows("pending"))

    def judge(self, plan: Plan, *, asked_by: str | None = None) -> None:  # noqa: ARG002
        """Make ``checked`` afresh: all of it, which is right for every ``asked_by``."""
        self.run_step(plan.step("checked"))

    def finish(self, plan: Plan, calls: Sequence[Step]) -> Results:
        """Make ``checked``, ``enriched`` and ``quarantine``. Raises RunError if a row is unaccounted for."""
        self.make_results(plan)
        results = self.results(plan, self.count(calls))
        pending = exp.Drop(tables=[plan.relations.table("pending")], kind="TABLE", exists=True)
        self.connection.execute(print_sql(self.dialect, pending))
        return results

    def make_results(self, plan: Plan) -> None:
        """Make the three tables, in one transaction where the database has them."""
        self.connection.begin()
        for name in ("checked", "enriched", "quarantine"):
            self.run_step(plan.step(name))
        self.connection.commit()

    def results(self, plan: Plan, pending: int) -> Results:
        """Give the counts of the result tables. Raises RunError if a row is unaccounted for."""
        rows, good, bad = (self.number(plan, queries.count_rows(r)) for r in ("prompts", "enriched", "quarantine"))
        if rows != good + bad:
            raise RunError(f"{rows} rows in, but {good} enriched and {bad} quarantined: please report this")
        reasons = {str(code): int(count) for code, count in self.rows(plan, queries.reasons())}
        return Results(good, bad, reasons, pending)

    # What is asked ---------------------------------------------------------------------------------------------------

    def requests(self, call: Step, count: int) -> Iterator[Request]:  # noqa: ARG002
        """Give the pending requests, a page at a time."""
        last: str | None = None
        while True:
            rows = self.connection.rows(call.relations.sql(queries.page(last, self.statements.page_rows)))
            yield from (Request(*row) for row in rows)
            if len(rows) < self.statements.page_rows:
                return
            last = rows[-1][0]

    def spread(self, call: Step, count: int, most: int) -> list[Request]:
        """Give a few pending requests: the first, the last and those evenly between."""
        found = (self.connection.rows(call.relations.sql(queries.nth(place))) for place in evenly(count, most))
        return [Request(*row) for rows in found for row in rows]

    def append(self, plan: Plan, answers: Sequence[Answer], origin: Origin) -> None:
        """Store at least one answer and commit."""
        for part in _parts(answers, self.statements.insert_characters):
            rows = [_response_row(answer, origin) for answer in part]
            insert = queries.insert_rows(self.dialect, plan.relations.table("responses"), RESPONSES, rows)
            self.connection.execute(print_sql(self.dialect, insert, pretty=False))
        self.connection.commit()

    # What is counted -------------------------------------------------------------------------------------------------

    def rows(self, plan: Plan, query: exp.Query) -> list[tuple[Any, ...]]:
        """Run a query over a plan's relations."""
        return self.connection.rows(plan.relations.sql(query))

    def read(self, plan: Plan, query: exp.Query) -> list[tuple[Any, ...]]:
        """Run a query over a plan's relations; it may read the source."""
        return self.rows(plan, query)

    def number(self, plan: Plan, query: exp.Query) -> int:
        """Run a query that gives one number."""
        return int(self.rows(plan, query)[0][0])

    def size(self, plan: Plan) -> tuple[int, int]:
        """Give the number of rows and of distinct requests."""
        rows, distinct = self.rows(plan, queries.size())[0]
        return int(rows), int(distinct)

    def count(self, calls: Iterable[Step]) -> int:
        """Give how many requests some calls have to ask."""
        texts = [call.relations.sql(queries.count_pending(call)) for call in calls]
        return sum(int(self.connection.rows(sql)[0][0]) for sql in texts)

    def not_retried(self, plan: Plan, reasons: Sequence[str], max_attempts: int) -> tuple[int, int]:
        """Give how many requests refused for some reasons have no attempts left, and how many were never asked."""
        spent, unasked = self.rows(plan, queries.not_retried(reasons, max_attempts))[0]
        return int(spent), int(unasked)

    def repeated_keys(self, plan: Plan, key: Sequence[str]) -> tuple[int, int, int]:
        """Give the rows, how many of them repeat the key of another row, and how many have a NULL in it."""
        rows, distinct, nulls = self.rows(plan, queries.repeated_keys(self.dialect, key))[0]
        return int(rows or 0), int(rows or 0) - int(distinct), int(nulls or 0)

    def usage(self, plan: Plan, run_id: str) -> list[ModelUsage]:
        """Give what a run's answers took, a line per model."""
        return [
            ModelUsage(model, int(uncounted), *(None if count is None else int(count) for count in counts))
            for model, uncounted, *counts in self.rows(plan, queries.usage(run_id))
        ]

    def latencies(self, plan: Plan, run_id: str, shares: Sequence[int]) -> list[int] | None:
        """Give percentiles of a run's latencies in milliseconds; None without an answer."""
        found = self.rows(plan, queries.percentiles(queries.latencies(run_id), shares))[0]
        return None if found[0] is None else [int(value) for value in found]

    # The tables and the ledger ---------------------------------------------------------------------------------------

    def exists(self, step: Step) -> bool:
        """Tell whether the table of a step is there."""
        return self.connection.columns(step.relation) is not None

    def check_tables(self, plan: Plan) -> None:
        """Refuse tables that sqlenrich did not make, or that another version made. Raises ConfigError."""
        for step in plan.steps:
            self._check_table(step.relation, step.columns, whole=step.kind == "append")
        self._check_table(plan.relations.text("pending"), ("request_hash",))

    def _check_table(self, table: str, columns: Iterable[str], *, whole: bool = False) -> None:
        found = self.connection.columns(table)
        if found is None:
            return
        present, wanted = {name.lower() for name in found}, {name.lower() for name in columns}
        if not {name for name in wanted if "request_hash" in name} <= present:
            self.refuse_table(f"the table {table} is not sqlenrich's; rename the prompt file or give another --output")
        if whole and wanted - present:
            self.refuse_table(f"{table} was made by another version of sqlenrich; give another --output")

    def refuse_table(self, problem: str) -> NoReturn:
        """Raise ConfigError for a table that is not this run's."""
        raise ConfigError(f"{self.place}: {problem}")

    def begin(self, start: RunStart, *, known: bool) -> None:
        """Write a run's line of the ledger, or again: with its snapshot once the prompts are made."""
        self.ledger.begin(start, known=known)
        self.connection.commit()

    def record(self, start: RunStart, status: str, facts: Mapping[str, Any]) -> None:
        """Complete a run's line of the ledger."""
        self.ledger.record(start, status, facts)
        self.connection.commit()

    def publish(self, plan: Plan) -> None:
        """The results are tables: there is nothing to write."""

    def last_snapshot(self, name: str) -> Snapshot:
        """Give what made the stored prompts. Raises ConfigError where there are none, or where it is unknown."""
        return self.ledger.last_snapshot(name)


def _parts(answers: Sequence[Answer], characters: int) -> Iterator[Sequence[Answer]]:
    """Give the answers in parts whose INSERT has a bounded length."""
    start = size = 0
    for place, answer in enumerate(answers):
        length = _ROW_CHARACTERS + len(answer.response or "") + len(answer.call_error or "")
        if place > start and size + length > characters:
            yield answers[start:place]
            start, size = place, 0
        size += length
    yield answers[start:]


_ROW_CHARACTERS = 500
"""About the text of a row without its answer: hashes, counts, times."""


def evenly(count: int, most: int) -> list[int]:
    """Give at most ``most`` places of a count: the first, the last and those evenly between."""
    return sorted({i * (count - 1) // max(most - 1, 1) for i in range(most)}) if count else []


def _response_row(answer: Answer, origin: Origin) -> list[object]:
    asked_at = answer.asked_at.astimezone(UTC).replace(tzinfo=None)
    known = {
        "version": origin.version,
        "fingerprint": origin.fingerprint,
        "run_id": origin.run_id,
        "asked_at": asked_at,
    }
    return [known[name] if name in known else getattr(answer, name) for name in RESPONSES]
