"""The backend of a Spark session: Spark runs the steps and keeps the tables, with its own credentials and formats."""

from __future__ import annotations

import functools
import hashlib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sqlglot import exp

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.printer import print_sql
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.plan.plan import RESPONSES, Plan, Step
from sqlenrich.plan.profiles import PROFILES
from sqlenrich.plan.relations import Relations
from sqlenrich.spark.desk import DeskPolicy
from sqlenrich.spark.file_lease import SHARED, is_shared
from sqlenrich.spark.journal import Journal, Row
from sqlenrich.spark.session import check_session, one_line_errors, open_session, settings
from sqlenrich.spark.single_flight import key_of
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.store import queries
from sqlenrich.store.backend import INCOMING, Backend
from sqlenrich.store.base import Counts, Origin, Results, RunStart, Source
from sqlenrich.store.current_results import CurrentResults
from sqlenrich.store.database import Database
from sqlenrich.store.inputs import EncodedFiles, Input, TableInMemory
from sqlenrich.store.ledger import LEDGER
from sqlenrich.store.spark.connection import SparkConnection
from sqlenrich.store.spark.database import SparkDatabase
from sqlenrich.store.spark.few_rows import ROLES, FewPolicy, FewRows
from sqlenrich.store.spark.ledger import AppendedLedger
from sqlenrich.store.spark.pending import RANGE, digits_of, in_ranges
from sqlenrich.store.spark.source import is_file, is_query, open_files, open_memory, open_query, open_table
from sqlenrich.store.spark.tables import SparkTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SQL_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.runSQLOnFiles": "true",
    "spark.sql.variable.substitute": "true",
}
"""The settings of a session that the SQL of a plan is written for."""


@dataclass(frozen=True)
class SparkPlace:
    """Where a run in Spark works: a session or a master, the schema or folder of its tables, and its journal."""

    output: str
    session: SparkSession | Any | None = None
    """A session of the caller, which stays open."""
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    journal: str | None = None
    """The folder of the journal on the driver; None: ``.sqlenrich`` in the current one."""
    desk_port: int = 0
    """The port at which executors reach the driver; 0: any."""
    desk_policy: DeskPolicy = field(default_factory=DeskPolicy)


@dataclass(frozen=True)
class SparkPolicy:
    """How many answers are written, and requests are read, at a time."""

    insert_rows: int = 50_000
    range_rows: int = 250_000
    """Pending requests beyond this number are parted by their hashes, into ranges of at most so many if that can be."""
    few: FewPolicy = field(default_factory=FewPolicy)


class SparkBackend(Backend):
    """The tables of a run in a schema or a folder, made by a Spark session.

    An answer is durable in the journal, a file of the driver, before it is in its table.
    """

    has_executors = True
    journal: Journal

    def __init__(self, place: SparkPlace, policy: SparkPolicy | None = None) -> None:
        self.where, self.policy = place, policy or SparkPolicy()
        if place.session is not None:
            check_session(place.session)
        self.spark = SparkConnection(place.output)
        super().__init__(self.spark, "spark")
        self.tables = SparkTables(self.spark, place.output)
        self.ledger = AppendedLedger(self.tables, self.named(LEDGER))  # type: ignore[assignment]
        self._source = f"sqlenrich_source_{uuid.uuid4().hex[:8]}"
        self._open = ExitStack()
        self._few = FewRows(self.tables, self.policy.few)
        self._doubtful = self._inserted = False
        self.note: Callable[[str], None] = lambda _: None
        self._current = CurrentResults(self, lambda line: self.note(line))

    @property
    def _folder(self) -> Path:
        """The folder of the journal."""
        return Path(self.where.journal or ".sqlenrich")

    def as_database(self) -> Database:
        """Return the tables of the open backend."""
        return SparkDatabase(self.tables)

    @property
    def session(self) -> SparkSession:
        """The open session."""
        return self.spark.session

    def __enter__(self) -> Self:
        """Open the session. Raises ConfigError for an output that is not there."""
        own = self.where.session is None
        log = self._folder / "spark.log"
        session = open_session(self.where.master, self.where.conf, log) if own else check_session(self.where.session)
        self._open = ExitStack()
        self.spark.open(session)
        if own and self.where.master is not None:
            self._open.callback(session.stop)
        self._open.callback(self.spark.open, None)
        try:
            self._open.enter_context(one_line_errors())
            self._open.enter_context(settings(session, SQL_SETTINGS))
            self._open.callback(self._few.close)
            self._few.open()
            if (problem := self.tables.problem()) is not None:
                raise ConfigError(f"spark: {problem}")
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.session.catalog.dropTempView(self._source)
        self._open.close()

    def named(self, table: str) -> str:
        """Return the name of a table of the output."""
        return SparkTables(self.spark, self.where.output).named(table)

    def bind(self, enrichment: Enrichment, input: Input) -> Source:
        """Open the input: a table, a query, files, or a table in memory; the last two may have no key."""
        if isinstance(input, EncodedFiles):
            raise ConfigError(f"Spark reads texts in UTF-8, not in {input.encoding}: write {input} again")
        used = None if enrichment.keep_all else {*map(enrichment.source_name, enrichment.used_columns())}
        if isinstance(input, TableInMemory):
            types = open_memory(self.spark, input, self._source, number_rows=not enrichment.key, used=used)
            return Source(self._source, types)
        given = None if input is None else str(input)
        if given is not None and is_file(given):
            types = open_files(self.spark, given, self._source, number_rows=not enrichment.key, used=used)
            return Source(self._source, types)
        if not enrichment.key:
            raise ConfigError(
                f"{enrichment.place}: a table has no row numbers: write key: [column] in the header; "
                "a file or a frame needs no key"
            )
        if given is not None and is_query(given):
            return Source(self._source, open_query(self.spark, given, self._source))
        if given is None and enrichment.query is not None:
            if enrichment.keep_all:
                return Source(self._source, open_query(self.spark, enrichment.query, self._source))
            return Source(None, None)
        table = given or enrichment.source
        if table is None:
            raise ConfigError("which table? Write source: in the header, or give --input")
        return Source(table, open_table(self.spark, table))

    # The journal -----------------------------------------------------------------------------------------------------

    def begin(self, start: RunStart, *, known: bool) -> None:
        """Write a run's line of the ledger; first of all refuse a second run on the same answers."""
        if not hasattr(self, "journal"):
            self._inserted = False
            self._current.begin(lambda: None if self._inserted else self.ledger.report_before(start))
            self._open_journal(start.snapshot.responses or start.name)
        super().begin(start, known=known)

    def record(self, start: RunStart, status: str, facts: Mapping[str, Any]) -> None:
        """Write a run's last line of the ledger."""
        super().record(start, status, {**facts, **self._current.facts})

    def watch(self, note: Callable[[str], None]) -> None:
        """Call this with a line where something is left as it is."""
        self.note = note

    def _open_journal(self, answers: str) -> None:
        """Open the journal of a table of answers. What a dead run left there is stored before anything is asked."""
        digest = hashlib.sha256(f"{self.where.output}\n{answers}".encode()).hexdigest()[:12]
        policy = SHARED if is_shared(self._folder) else None
        self.journal = self._open.enter_context(Journal(self._folder / f"spark-{digest}.journal", policy=policy))
        self._open.callback(self.__dict__.pop, "journal", None)
        self._doubtful = len(self.journal) > 0

    def hold(self) -> None:
        """Make sure that the tables are still this run's. Raises LeaseLostError where another run has taken them.

        A run that was frozen, on a folder that machines share, would write what another one has written since.
        """
        if hasattr(self, "journal"):
            self.journal.hold()

    def append(self, plan: Plan, answers: Sequence[Answer], origin: Origin) -> None:
        """Store at least one answer in the journal: from here on it is never asked again."""
        self.journal.add(*(row_of(answer, origin) for answer in answers))
        self.journal.sync()
        if len(self.journal) >= self.policy.insert_rows:
            self.store(plan)

    def store(self, plan: Plan, *, doubtful: bool = False, held: Sequence[Row] = ()) -> None:
        """Write the journal's answers to their table. ``doubtful``: some of them may be there already.

        ``held``: answers that the journal's disk did not take.
        """
        self.hold()
        left = {key_of(row): row for row in held if key_of(row) not in self.journal}
        doubtful, self._doubtful = doubtful or self._doubtful, False
        stored = not len(self.journal)
        while not stored:
            end = self.journal.end
            batch: list[Row] = []
            for row in self.journal.rows(end):
                batch.append(row)
                if len(batch) == self.policy.insert_rows:
                    self._insert(plan, batch, doubtful=doubtful)
                    batch = []
            if batch:
                self._insert(plan, batch, doubtful=doubtful)
            stored, doubtful = self.journal.clear(end), True  # workers may have told more meanwhile
        if left:
            self._insert(plan, list(left.values()), doubtful=True)

    def _insert(self, plan: Plan, rows: Sequence[Row], *, doubtful: bool) -> None:
        self._inserted = True
        frame = self.spark.checked(lambda: answer_frame(self.session, rows))
        table = plan.relations.table("responses")
        if doubtful:
            stored = self.spark.query(print_sql(self.engine, exp.select("*").from_(table.copy())))
            frame = frame.join(stored, ["request_hash", "attempt", "run_id"], "left_anti").select(*RESPONSES)
        self.tables.append(table, frame.coalesce(1))

    # The steps -------------------------------------------------------------------------------------------------------

    def run_step(self, step: Step) -> None:
        """Make the table of a step afresh."""
        self._make(step, step.name, step.query)
        self.tables.publish([step.relations.table(step.name)])

    def _make(self, step: Step, role: str, query: exp.Expr, *, by: str | None = None) -> bool:
        return self.tables.make(step.relations.table(role), step.relations.bound(query), by=by)

    def make(self, plan: Plan, role: str, query: exp.Query) -> None:
        """Make the table of a role afresh from a query."""
        if self._make(plan.step("prompts"), role, query):
            self.tables.publish([plan.relations.table(role)])

    def append_query(self, plan: Plan, step: Step) -> None:
        """Append the rows of a step's query to its table; the answers of the journal are stored first."""
        self.store(plan)
        self.tables.append(step.relations.table(step.name), self.spark.query(step.sql))

    def prepare(
        self, plan: Plan, start: RunStart, *, limit: int | None, ordered: bool, beside: Sequence[str] | None = None
    ) -> Counts:
        """Make the prompts, the table of answers where it is missing, and the pending relation."""
        self.check_tables(plan)
        prompts = plan.step("prompts")
        joined = beside is not None and self._check_joinable(prompts)
        self.begin(start, known=False)
        self.tables.create(plan.relations.table("responses"), RESPONSES)
        self.store(plan)
        if joined:
            self.join_prompts(plan, beside or ())
        else:
            self.run_step(prompts)
        self.begin(start, known=True)
        pending = self.refresh(plan, plan.responses, limit, ordered=ordered)
        unanswered = pending if limit is None else self.count([plan.responses])
        return Counts(*self.size(plan), unanswered=unanswered, pending=pending)

    def check_tables(self, plan: Plan) -> None:
        """Refuse tables that are not sqlenrich's; and run what follows in the quickest way, where they are small."""
        super().check_tables(plan)
        self._few.look(plan.relations.table(role) for role in ROLES if role in plan.relations.tables)

    def refresh(self, plan: Plan, call: Step, limit: int | None, *, ordered: bool) -> int:  # noqa: ARG002
        """Make the pending relation of a call afresh and give its count; a limit keeps the lowest hashes."""
        assert call.pending is not None
        self.store(plan)
        query: exp.Query = call.pending
        if limit is not None:
            query = exp.select("*").from_(query.subquery("pending")).order_by("request_hash").limit(limit)
        most = self.number(plan, queries.count_rows("prompts"))
        self._few.counted(most)
        digits = digits_of(most if limit is None else min(most, limit), self.policy.range_rows)
        if digits:
            query = in_ranges(query, digits)
        if self._make(call, "pending", query, by=RANGE if digits else None):
            self.tables.publish([call.relations.table("pending")])
        if not (pending := self.number(plan, queries.count_rows("pending"))):
            self._current.answered(call)
        return pending

    def pending(self, call: Step) -> DataFrame:
        """Return the pending requests, which may have a column of their range besides."""
        return self.tables.rows(call.relations.table("pending"))

    def judge(self, plan: Plan, *, asked_by: str | None = None) -> None:  # noqa: ARG002
        """Make ``checked`` afresh: all of it, which is right for every ``asked_by``."""
        self.store(plan)
        self.run_step(plan.step("checked"))

    def finish(self, plan: Plan, calls: Sequence[Step], *, partial: bool = True, unasked: int = 0) -> Results:
        """Make ``checked``, ``enriched`` and ``quarantine``; the answers of the journal are stored first."""
        self.store(plan)
        make = functools.partial(super().finish, plan, calls, partial=partial, unasked=unasked)
        return self._current.finish(plan, calls, unasked=unasked, make=make)

    def make_results(self, plan: Plan) -> None:
        """Make the three tables, then rename them together."""
        self.run_step(plan.step("checked"))
        results = [plan.step(name) for name in ("enriched", "quarantine")]
        for step in results:
            self._make(step, step.name, step.query)
        self.tables.publish([step.relations.table(step.name) for step in results])

    def append_profile(self, plan: Plan, query: exp.Query) -> None:
        """Append lines of a query to NAME_profiles."""
        table = plan.relations.table("profiles")
        self.tables.create(table.copy(), PROFILES)
        with self.tables.views(plan.relations.bound(query)) as read:
            self.tables.append(table, self.spark.query(print_sql(self.engine, read)).coalesce(1))

    def drop(self, table: exp.Table) -> None:
        """Drop a table if it is there."""
        self.tables.drop(table)

    def join_prompts(self, plan: Plan, key: Sequence[str]) -> None:
        """Replace the prompts whose key the source has, and keep the others; all in a table beside the old one."""
        incoming = plan.bound({"prompts": plan.relations.text_beside("prompts", INCOMING)}).step("prompts")
        self.run_step(incoming)
        made, table = incoming.relations.table("prompts"), plan.relations.table("prompts")
        self.tables.make(table, queries.joined_by_key(self.engine, table, made, incoming.columns, key))
        self.tables.publish([table])
        self.tables.drop(made)

    def _rows(self, relations: Relations, query: exp.Query) -> list[tuple[Any, ...]]:
        return self.tables.read(relations.bound(query))

    def check(self, sql: str) -> None:
        """Compile a query without running it. Raises RunError with Spark's message."""
        self.spark.query(sql)

    def requests(self, call: Step, count: int) -> Iterator[Request]:  # noqa: ARG002
        """Return the pending requests, a partition at a time."""
        for row in self.pending(call).drop(RANGE).toLocalIterator(prefetchPartitions=True):
            yield Request(*row)

    def spread(self, call: Step, count: int, most: int) -> list[Request]:  # noqa: ARG002
        """Return a few pending requests: those with the lowest hashes, which are a random sample."""
        few = self.pending(call).drop(RANGE).orderBy("request_hash").limit(most)
        return [Request(*row) for row in self.spark.checked(few.collect)]


def row_of(answer: Answer, origin: Origin) -> Row:
    """Return an answer as the journal holds it."""
    row = {**answer._asdict(), **asdict(origin)}
    row["asked_at"] = answer.asked_at.astimezone(UTC).isoformat()
    return row


def answer_frame(session: SparkSession, rows: Sequence[Row]) -> DataFrame:
    """Return answers of the journal as rows of ``responses``."""
    import pyarrow as pa

    from sqlenrich.spark.rows import answer_batch

    made: Any = session.createDataFrame
    return made(pa.Table.from_batches([answer_batch(rows)]))  # type: ignore[no-any-return]
