"""Where the steps of a plan run and its tables live: any database that takes a statement at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from functools import partial
from typing import Any, NoReturn, Self

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.names import identifier, relation
from sqlenrich.core.parts import bounded_parts
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql, literal
from sqlenrich.core.types import STRING, Type
from sqlenrich.engines import get_engine
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.plan.plan import RESPONSES, Plan, Step
from sqlenrich.plan.profiles import PROFILES
from sqlenrich.plan.relations import RELATIONS, Relations
from sqlenrich.renderer.statements import create_responses, create_table_as, insert_into
from sqlenrich.renderer.tables import drop_table
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.store import queries
from sqlenrich.store.base import (
    CommitPolicy,
    Connection,
    Counts,
    ModelUsage,
    Origin,
    Results,
    RunStart,
    Snapshot,
    Source,
)
from sqlenrich.store.database import Database, StatementDatabase
from sqlenrich.store.inputs import EncodedFiles, Input, TableInMemory
from sqlenrich.store.ledger import LEDGER, Ledger
from sqlenrich.store.result_tables import ResultTables
from sqlenrich.store.values import utc_moment

INCOMING, JOINED = "_incoming", "_joined"
"""The suffixes of two temporary tables of an incremental run: the prompts of its input, and those with earlier ones."""


@dataclass(frozen=True)
class StatementPolicy:
    """How much a statement reads or writes at a time."""

    page_rows: int = 65_536
    """The pending requests that are read at a time: each page scans the relation again."""
    wide_rows: int = 100_000
    """Of more pending requests than this, those of one statement are looked for in a part of the relation."""
    insert_bytes: int = 250_000
    """The text of one INSERT at most, but for a longer answer. Databases bound a statement."""


class Backend:
    """The tables of enrichments in one place, over tables that are there. It knows no model.

    Use it as a context manager, from one thread; it may be opened again. A subclass replaces what its database does
    better in bulk, and how other inputs are opened.
    """

    asks_in_sql = False
    """Whether a function of its SQL asks a model."""
    has_executors = False
    """Whether processes of its own can ask an endpoint."""
    commits = CommitPolicy()
    """When the answers of a client are stored."""

    def __init__(
        self, connection: Connection, engine: str, schema: str = "", statements: StatementPolicy | None = None
    ) -> None:
        self.statements = statements or StatementPolicy()
        self.connection, self.engine, self.schema = connection, get_engine(engine), schema
        self.ledger = Ledger(connection, self.engine, self.named(LEDGER))
        self.present: dict[str, Sequence[str]] = {}
        """The tables that the last check has found, each with its columns."""

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

    def as_database(self) -> Database:
        """Return the tables of the open backend, for what reads and writes them without a run."""
        return StatementDatabase(self.connection, self.engine, self.schema, self.output)

    def bind(self, enrichment: Enrichment, input: Input) -> Source:
        """Find the source: ``input`` or the header's. Raises ConfigError where it is missing."""
        if isinstance(input, EncodedFiles | TableInMemory):
            raise ConfigError(f"{self.place} reads its own tables, not {input}: give a .duckdb or a file as the output")
        if not enrichment.key:
            raise ConfigError(
                f"{enrichment.place}: a table has no row numbers: write key: [column] in the header; "
                "a file or a frame needs no key"
            )
        table = str(input) if input is not None else enrichment.source
        if table is None and enrichment.query is not None:
            return Source(None, None)
        if table is None:
            raise ConfigError("which table? Write source: in the header, or give --input")
        try:
            relation(self.engine, table)
        except ValueError as error:
            raise ConfigError(f"{self.place}: the input {error}") from None
        found = self.connection.columns(table)
        if found is None:
            raise ConfigError(f"{self.place}: there is no table {table}, or it can't be read")
        return Source(
            table, {name: kind or STRING for name, kind in _as_mentioned(self.engine, found, enrichment).items()}
        )

    def check_before_run(self, enrichment: Enrichment, input: Input) -> None:
        """A database refuses by itself what may not be written."""

    def check_before_retry(self, enrichment: Enrichment) -> None:
        """The ledger tells whether there is a run."""

    def hold(self) -> None:
        """Make sure that the tables are still this run's. Raises LeaseLostError where another run has taken them."""

    def named(self, table: str) -> str:
        """Return the name of a table in the backend's schema."""
        return f"{self.schema}.{table}" if self.schema else table

    def relations(self, name: str) -> dict[str, str]:
        """Return the table of each role of an enrichment of this name."""
        return {role: self.named(form.format(name)) for role, form in RELATIONS.items()}

    # What runs -------------------------------------------------------------------------------------------------------

    def run_step(self, step: Step) -> None:
        """Make the table of a step afresh."""
        self._create(step, step.name, step.query)

    def _create(self, step: Step, role: str, query: Sql) -> None:
        for sql in create_table_as(self.engine, step, role, query):
            self.connection.execute(sql)

    def prepare(
        self, plan: Plan, start: RunStart, *, limit: int | None, ordered: bool, beside: Sequence[str] | None = None
    ) -> Counts:
        """Make the prompts, the table of answers where it is missing, and the pending relation."""
        self.check_tables(plan)
        prompts = plan.step("prompts")
        joined = beside is not None and self._check_joinable(prompts)
        self.begin(start, known=False)  # until the prompts are made it is unknown whose they are
        if joined:
            self.join_prompts(plan, beside or ())
        else:
            self.run_step(prompts)
        self.begin(start, known=True)
        if plan.responses.relation not in self.present:
            table = plan.relations.table("responses")
            self.connection.execute(print_sql(self.engine, create_responses(self.engine, table, RESPONSES)))
        pending = self.refresh(plan, plan.responses, limit, ordered=ordered)
        unanswered = pending if limit is None else self.count([plan.responses])
        return Counts(*self.size(plan), unanswered=unanswered, pending=pending)

    def _check_joinable(self, prompts: Step) -> bool:
        """Tell whether there are prompts of an earlier run. Raises ConfigError where they have other columns."""
        found = self.connection.columns(prompts.relation)
        if found is None:
            return False
        if {name.lower() for name in found} != {name.lower() for name in prompts.columns}:
            raise ConfigError(
                f"{self.place}: {prompts.relation} has other columns than this prompt file gives: "
                "run the whole input once without --incremental"
            )
        return True

    def join_prompts(self, plan: Plan, key: Sequence[str]) -> None:
        """Replace the prompts whose key the source has, and keep the others.

        Each statement may run twice, and one of them changes the prompts: a lost answer of the warehouse repeats or
        loses no row. Raises RunError where the rows of the keys don't add up.
        """
        incoming = plan.bound({"prompts": plan.relations.text_beside("prompts", INCOMING)}).step("prompts")
        self.run_step(incoming)
        prompts = plan.step("prompts")
        table, made = plan.relations.table("prompts"), incoming.relations.table("prompts")
        query = queries.joined_by_key(self.engine, table, made, incoming.columns, key)
        self.connection.begin()
        if len(self.engine.create_table_as(table.copy(), query.copy())) == 1:
            self.run_step(replace(prompts, query=query))
        else:  # the engine drops a table before it makes it again, so that the query could not read it
            joined = plan.bound({"prompts": plan.relations.text_beside("prompts", JOINED)}).step("prompts")
            self.run_step(replace(joined, query=query))
            self.run_step(replace(prompts, query=exp.select("*").from_(joined.relations.table("prompts"))))
            self.drop(joined.relations.table("prompts"))
        self.connection.commit()
        counts = queries.joined_rows(self.engine, table, made, key)
        given, found = (int(count) for count in self.connection.rows(print_sql(self.engine, counts, pretty=False))[0])
        if given != found:
            raise RunError(
                f"{self.place}: {prompts.relation} has {found:,} rows with the keys of this input, not {given:,}: "
                "nothing was asked; run the whole input once without --incremental"
            )
        self.drop(made)

    def rows_before(self, plan: Plan) -> int | None:  # noqa: ARG002
        """A statement in a database may cost money."""
        return None

    def last_file(self, name: str) -> str | None:  # noqa: ARG002
        """A database is shared by machines on which files have other places."""
        return None

    def run_names(self) -> tuple[str, ...]:
        """Return the names of the enrichments that the ledger has runs of."""
        return self.ledger.names()

    def file_name(self, enrichment: Enrichment) -> str | None:  # noqa: ARG002
        """A database is shared by machines on which files have other places."""
        return None

    def written_files(self) -> tuple[str, ...]:
        """The results are tables."""
        return ()

    def result_tables(self, plan: Plan) -> ResultTables | None:  # noqa: ARG002
        """The connection is the caller's."""
        return None

    def refresh(self, plan: Plan, call: Step, limit: int | None, *, ordered: bool) -> int:  # noqa: ARG002
        """Make the pending relation of a call afresh and give its count; a limit keeps the lowest hashes."""
        assert call.pending is not None
        query = call.pending
        if limit is not None:
            query = exp.select("*").from_(query.subquery("pending")).order_by("request_hash").limit(limit)
        self.make_pending(call, query)
        return self.number(plan, queries.count_rows("pending"))

    def make_pending(self, call: Step, query: exp.Query) -> None:
        """Make the pending relation of a call afresh."""
        self._create(call, "pending", query)

    def make(self, plan: Plan, role: str, query: exp.Query) -> None:
        """Make the table of a role afresh from a query."""
        self._create(plan.step("prompts"), role, query)
        self.connection.commit()

    def append_query(self, plan: Plan, step: Step) -> None:  # noqa: ARG002
        """Append the rows of a step's query to its table, and commit."""
        self.connection.execute(insert_into(self.engine, step))
        self.connection.commit()

    def judge(self, plan: Plan, *, asked_by: str | None = None) -> None:  # noqa: ARG002
        """Make ``checked`` afresh: all of it, which is right for every ``asked_by``."""
        self.run_step(plan.step("checked"))

    def finish(self, plan: Plan, calls: Sequence[Step], *, partial: bool = True, unasked: int = 0) -> Results:
        """Make ``checked``, ``enriched`` and ``quarantine``. Raises RunError if a row is unaccounted for.

        Without ``partial``, complete results of an earlier run stay where rows of this one were not asked.
        ``unasked`` counts the requests besides those of the calls that wait for a run.
        """
        pending = self.count(calls)
        results: Results | None = None
        if not partial and pending + unasked and self._are_complete(plan):
            self.judge(plan)
            accepted, reasons = self._reasons(plan, queries.reasons("checked"))
            if queries.NOT_ASKED in reasons:
                results = Results(accepted, sum(reasons.values()), reasons, pending, published=False)
        if results is None:
            self.make_results(plan)
            results = self.results(plan, pending)
        self.drop(plan.relations.table("pending"))
        return results

    def _are_complete(self, plan: Plan) -> bool:
        """Tell whether there are results, each row of which was asked."""
        there = all(self.exists(plan.step(name)) for name in ("enriched", "quarantine"))
        return there and not self.number(plan, queries.unasked_rows())

    def _reasons(self, plan: Plan, query: exp.Query) -> tuple[int, dict[str, int]]:
        """Return the number of accepted rows, and of those refused by reason, of a query that counts rows by both."""
        counts = {code: int(count) for code, count in self.rows(plan, query)}
        return counts.pop(None, 0), {str(code): count for code, count in counts.items()}

    def drop(self, table: exp.Table) -> None:
        """Drop a table if it is there."""
        self.connection.execute(print_sql(self.engine, drop_table(table)))

    def drop_prompts(self, plan: Plan) -> None:
        """Drop ``prompts`` and ``pending``."""
        for role in ("prompts", "pending"):
            self.drop(plan.relations.table(role))
        self.connection.commit()

    def make_results(self, plan: Plan) -> None:
        """Make the three tables, in one transaction where the database has them."""
        self.connection.begin()
        for name in ("checked", "enriched", "quarantine"):
            self.run_step(plan.step(name))
        self.connection.commit()

    def results(self, plan: Plan, pending: int) -> Results:
        """Return the counts of the result tables. Raises RunError if a row is unaccounted for."""
        counts = self.rows(plan, queries.counts_of(("prompts", "enriched", "quarantine")))[0]
        rows, good, bad = map(int, counts)
        if rows != good + bad:
            raise RunError(
                f"{rows} rows in, but {good} enriched and {bad} quarantined: does a row policy of these tables hide "
                "rows from this role? Else please report this"
            )
        _, reasons = self._reasons(plan, queries.reasons("quarantine"))
        return Results(good, bad, reasons, pending)

    # What is asked ---------------------------------------------------------------------------------------------------

    def requests(self, call: Step, count: int) -> Iterator[Request]:  # noqa: ARG002
        """Return the pending requests, a page at a time."""
        last: str | None = None
        while True:
            rows = self.connection.rows(call.relations.line(queries.page(call, last, self.statements.page_rows)))
            yield from (Request(*row) for row in rows)
            if len(rows) < self.statements.page_rows:
                return
            last = rows[-1][0]

    def spread(self, call: Step, count: int, most: int) -> list[Request]:
        """Return a few pending requests: the first, the last and those evenly between."""
        found = (self.connection.rows(call.relations.line(queries.nth_hash(place))) for place in evenly(count, most))
        hashes = [str(row[0]) for rows in found for row in rows]
        if not hashes:
            return []
        return [
            Request(*row) for row in self.connection.rows(call.relations.line(queries.pending_requests(call, hashes)))
        ]

    def append(self, plan: Plan, answers: Sequence[Answer], origin: Origin) -> None:
        """Store at least one answer and commit."""
        for part in bounded_parts(answers, partial(_inserted_bytes, self.engine), self.statements.insert_bytes):
            rows = [_response_row(answer, origin) for answer in part]
            insert = queries.insert_rows(self.engine, plan.relations.table("responses"), RESPONSES, rows)
            self.connection.execute(print_sql(self.engine, insert, pretty=False))
        self.connection.commit()

    # What is counted -------------------------------------------------------------------------------------------------

    def rows(self, plan: Plan, query: exp.Query) -> list[tuple[Any, ...]]:
        """Run a query over a plan's relations."""
        return self._rows(plan.relations, query)

    def _rows(self, relations: Relations, query: exp.Query) -> list[tuple[Any, ...]]:
        return self.connection.rows(relations.line(query))

    def read(self, plan: Plan, query: exp.Query) -> list[tuple[Any, ...]]:
        """Run a query over a plan's relations; it may read the source."""
        return self.rows(plan, query)

    def number(self, plan: Plan, query: exp.Query) -> int:
        """Run a query that gives one number."""
        return int(self.rows(plan, query)[0][0])

    def size(self, plan: Plan) -> tuple[int, int]:
        """Return the number of rows and of distinct requests."""
        rows, distinct = self.rows(plan, queries.size())[0]
        return int(rows), int(distinct)

    def count(self, calls: Iterable[Step]) -> int:
        """Return how many requests some calls have to ask."""
        return sum(int(self._rows(call.relations, queries.count_pending(call))[0][0]) for call in calls)

    def not_retried(self, plan: Plan, reasons: Sequence[str], max_attempts: int) -> tuple[int, int]:
        """Return how many requests refused for some reasons have no attempts left, and how many were never asked."""
        spent, unasked = self.rows(plan, queries.not_retried(reasons, max_attempts))[0]
        return int(spent), int(unasked)

    def repeated_keys(self, plan: Plan, key: Sequence[str]) -> tuple[int, int, int]:
        """Return the rows, how many of them repeat the key of another row, and how many have a NULL in it."""
        rows, distinct, nulls = self.rows(plan, queries.repeated_keys(self.engine, key))[0]
        return int(rows or 0), int(rows or 0) - int(distinct), int(nulls or 0)

    def usage(self, plan: Plan, run_id: str) -> list[ModelUsage]:
        """Return what a run's answers took, a line per model."""
        return [
            ModelUsage(model, int(uncounted), *(None if count is None else int(count) for count in counts))
            for model, uncounted, *counts in self.rows(plan, queries.usage(run_id))
        ]

    def latencies(self, plan: Plan, run_id: str, shares: Sequence[int]) -> list[int] | None:
        """Return percentiles of a run's latencies in milliseconds; None without an answer."""
        found = self.rows(plan, queries.percentiles(queries.latencies(run_id), shares))[0]
        return None if found[0] is None else [int(value) for value in found]

    def answers_digest(self, plan: Plan, run_id: str) -> str | None:  # noqa: ARG002
        """A statement in a database may cost money."""
        return None

    # The tables and the ledger ---------------------------------------------------------------------------------------

    def exists(self, step: Step) -> bool:
        """Tell whether the table of a step is there."""
        return self.connection.columns(step.relation) is not None

    def check_tables(self, plan: Plan) -> None:
        """Refuse tables that sqlenrich did not make, or that another version made. Raises ConfigError."""
        for step in plan.steps:
            self._check_table(step.relation, step.columns, whole=step.kind == "append")
        self._check_table(plan.relations.text("pending"), ("request_hash",))
        self.has_profiles(plan)

    def has_profiles(self, plan: Plan) -> bool:
        """Tell whether NAME_profiles is there. Raises ConfigError where another version made it."""
        table = plan.relations.text("profiles")
        found = self.connection.columns(table)
        if found is not None and {name.lower() for name in found} != set(PROFILES):
            self.refuse_table(f"{table} was made by another version of sqlenrich; give another --output")
        return found is not None

    def _check_table(self, table: str, columns: Iterable[str], *, whole: bool = False) -> None:
        found = self.connection.columns(table)
        if found is None:
            self.present.pop(table, None)
            return
        self.present[table] = tuple(found)
        present, wanted = {name.lower() for name in found}, {name.lower() for name in columns}
        if not wanted & _MARKS <= present:
            whose = "is not sqlenrich's" if not present & _MARKS else "is not one of this enrichment"
            self.refuse_table(f"the table {table} {whose}; rename the prompt file or give another --output")
        if whole and (missing := sorted(wanted - present)):
            self.refuse_table(
                f"{table} has no column {', '.join(missing)}: another version of sqlenrich made it; "
                "give another --output, or other --responses"
            )

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

    def append_profile(self, plan: Plan, query: exp.Query) -> None:
        """Append lines of a query to NAME_profiles, and commit."""
        # Not INSERT ... SELECT: not every database takes a WITH inside it, and the lines are few.
        lines = [
            (run, utc_moment(at), field, level, int(count)) for run, at, field, level, count in self.rows(plan, query)
        ]
        self.as_database().append(plan.relations.text("profiles"), PROFILES, lines)

    def publish(self, plan: Plan) -> None:
        """The results are tables: there is nothing to write."""

    def statements_run(self) -> list[dict[str, Any]]:
        """The statements are not jobs."""
        return []

    def watch(self, note: Callable[[str], None]) -> None:
        """The statements are not jobs."""

    def last_snapshot(self, name: str) -> Snapshot:
        """Return what made the stored prompts. Raises ConfigError where there are none, or where it is unknown."""
        return self.ledger.last_snapshot(name)


_MARKS = frozenset(("request_hash", "_request_hash", "_fingerprint", "_error"))
"""The columns by which one of our tables is known from others, and from those of another role."""


def _as_mentioned(engine: Engine, columns: Mapping[str, Type | None], enrichment: Enrichment) -> dict[str, Type | None]:
    """Return columns under the names by which an enrichment mentions them, where the database ignores their case.

    A database that folds plain names has them in upper case; it keeps the case of all others.
    """
    names = (*enrichment.key, *enrichment.keep, *enrichment.columns, *enrichment.prompt().columns)
    mentioned = {source.lower(): source for source in map(enrichment.source_name, names)}
    found: dict[str, Type | None] = {}
    for name, kind in columns.items():
        plain = identifier(engine, name).quoted is False and name == name.upper()
        if name in mentioned.values() or not (engine.quotes_always or plain):
            found[name] = kind
        else:
            found[mentioned.get(name.lower(), name.lower() if plain else name)] = kind
    return found


def _inserted_bytes(engine: Engine, answer: Answer) -> int:
    """Return about the length of an answer in an INSERT."""
    return _ROW_BYTES + sum(_printed_bytes(engine, text) for text in (answer.response, answer.call_error) if text)


_ROW_BYTES = 500
"""About the text of a row without its answer: hashes, counts, times, names."""


def _printed_bytes(engine: Engine, text: str) -> int:
    """Return the length of a text as a literal: what the dialect escapes is longer there."""
    return len(print_sql(engine, literal(text), pretty=False).encode("utf-8", "surrogatepass"))


def evenly(count: int, most: int) -> list[int]:
    """Return at most ``most`` places of a count: the first, the last and those evenly between."""
    return sorted({i * (count - 1) // max(most - 1, 1) for i in range(most)}) if count else []


def _response_row(answer: Answer, origin: Origin) -> list[object]:
    asked_at = answer.asked_at.astimezone(UTC).replace(tzinfo=None)
    known = {
        "version": origin.version,
        "fingerprint": origin.fingerprint,
        "run_id": origin.run_id,
        "asked_at": asked_at,
        **dict.fromkeys(("raw", "read_by")),  # of a warehouse's own function
    }
    return [known[name] if name in known else getattr(answer, name) for name in RESPONSES]
