"""The output database of runs: the steps made, each answer kept as soon as it is there."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.types import Array, Struct
from sqlenrich.engines.duckdb.engine import ENGINE
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.runner.backends.duckdb.database import Database, problem, quote, text

LEDGER = "_sqlenrich_runs"
AGAIN = "run it again first (what is answered is not paid again)"
CHUNK_ROWS = 4096
SLICE_ROWS = 1_250_000
"""So many rows are judged at a time: the memory of a run does not grow with its rows."""
SLICES = {"prompts": "sqlenrich_prompts_slice", "responses": "sqlenrich_responses_slice"}
"""The views that the sliced SQL of the checked step reads."""


@dataclass(frozen=True)
class Counts:
    """What a run finds before it asks: rows, distinct requests, and those that must be asked."""

    rows: int
    distinct: int
    unanswered: int
    pending: int
    """Those of the unanswered requests that this run is to ask: fewer than all under a limit."""


@dataclass(frozen=True)
class Snapshot:
    """Where the prompts of an output database come from: what a retry must know of the last run."""

    digest: str
    """See :func:`~sqlenrich.plan.compile.snapshot_digest`."""
    model: str
    """The model's own name."""
    asked_for: str | None
    """The model as the run's caller named it, None where the file did."""
    mock: bool
    key: Sequence[str] | None
    columns: Mapping[str, str] | None
    where: str | None
    responses: str | None


@dataclass(frozen=True)
class Start:
    """A run that begins: its line of the ledger."""

    run_id: str
    name: str
    at: datetime
    snapshot: Snapshot


class Store(Database):
    """The output database of runs."""

    def prepare(self, plan: Plan, start: Start, *, limit: int | None, ordered: bool = False) -> Counts:
        """Make the prompts, the responses where they are missing, and what is pending."""
        return self.roomy(lambda: self._prepare(plan, start, limit, ordered))

    def _prepare(self, plan: Plan, start: Start, limit: int | None, ordered: bool) -> Counts:
        call = plan.step("responses")
        for step in plan.steps:
            self.check_ours(step.relation, step.columns, whole=step.kind == "append")
        self.check_ours(str(call.pending_relation), ("request_hash",))
        # Until the prompts are made it is unknown whose they are.
        self.begin(start, known=False)
        self.make(plan.step("prompts"))
        self.begin(start, known=True)
        columns = ", ".join(f"{quote(n)} {ENGINE.sql_type(kind).sql('duckdb')}" for n, kind in call.columns.items())
        self.db.execute(f"CREATE TABLE IF NOT EXISTS {call.relation} ({columns})")
        pending = self.refresh(plan, call, limit, ordered=ordered)
        unanswered = pending if limit is None else self.count([call])
        return Counts(*self.size(plan), unanswered=unanswered, pending=pending)

    def size(self, plan: Plan) -> tuple[int, int]:
        """Give the number of rows and of distinct requests."""
        prompts = plan.step("prompts").relation
        row = self.db.execute(f"SELECT count(*), count(DISTINCT request_hash) FROM {prompts}").fetchone()
        return row or (0, 0)

    def count(self, calls: Iterable[Step]) -> int:
        """Give how many requests are to be asked by some calls."""
        queries = [f"SELECT count(*) FROM ({_hashes(str(call.pending_sql))})" for call in calls]
        return sum(self.roomy(lambda: [int(self.one(query)) for query in queries]))

    def not_retried(self, plan: Plan, reasons: Sequence[str], max_attempts: int) -> tuple[int, int]:
        """Give how many requests refused for some reasons have no attempts left, and how many were never asked."""
        codes = ", ".join(map(text, reasons))
        row = self.db.execute(
            f"SELECT count(DISTINCT request_hash) FILTER (_error IN ({codes}) AND _attempts >= {max_attempts}), "
            f"count(DISTINCT request_hash) FILTER (_error = 'NOT_ASKED') FROM {plan.step('checked').relation}"
        ).fetchone()
        return row or (0, 0)

    def key_warning(self, plan: Plan, key: Sequence[str]) -> str | None:
        """Give a line about keys that are repeated or NULL: legal, one output row per input row; None for none."""
        if key == ("_row",):
            return None
        names, prompts = ", ".join(quote(name) for name in key), plan.step("prompts").relation
        missing = " OR ".join(f"{quote(name)} IS NULL" for name in key)
        rows, distinct, nulls = self.db.execute(
            f"SELECT count(*), count(DISTINCT hash({names})), count(*) FILTER ({missing}) FROM {prompts}"
        ).fetchall()[0]
        if rows == distinct and not nulls:
            return None
        return (
            f"warning: the key {', '.join(key)} does not name each row: {rows - distinct:,} of {rows:,} rows repeat "
            f"another's, {nulls:,} are NULL; each row has its result all the same"
        )

    def refresh(self, plan: Plan, call: Step, limit: int | None = None, *, ordered: bool = False) -> int:
        """Make the pending relation of a call afresh and give its count; ``ordered``: equal beginnings together."""
        select = self.limited(plan, call, limit)
        if ordered:
            select = f"SELECT * FROM ({select}) ORDER BY prompt"
        make = f"CREATE OR REPLACE TABLE {call.pending_relation} AS {select}"
        self.roomy(lambda: self.db.execute(make))
        return int(self.one(f"SELECT count(*) FROM {call.pending_relation}"))

    def limited(self, plan: Plan, call: Step, limit: int | None) -> str:
        pending = str(call.pending_sql)
        if limit is None:
            return pending
        prompts = plan.step("prompts").relation
        return (
            f"SELECT pending.* FROM ({pending}) AS pending JOIN (SELECT request_hash, min(rowid) AS first_row "
            f"FROM {prompts} GROUP BY request_hash) AS rows USING (request_hash) ORDER BY first_row LIMIT {limit}"
        )

    def check_ours(self, relation: str, columns: Iterable[str], *, whole: bool = False) -> None:
        """Refuse to replace or fill a table that sqlenrich did not make."""
        try:
            found = {row[0] for row in self.db.execute(f"DESCRIBE {relation}").fetchall()}
        except duckdb.CatalogException:
            return
        if not {name for name in columns if "request_hash" in name} <= found:
            raise ConfigError(
                f"{self.path}: the table {relation} is not sqlenrich's; rename the prompt file or give another --output"
            )
        if whole and set(columns) - found:
            raise ConfigError(
                f"{self.path}: {relation} was made by another version of sqlenrich; give another --output"
            )

    def make(self, step: Step) -> None:
        """Make a table step afresh."""
        try:
            if step.name == "prompts":
                place = f"{quote(self.catalog())}.main.{step.relation}"
                self.reading(f"CREATE OR REPLACE TABLE {place} AS {step.sql}")
            else:
                self.db.execute(f"CREATE OR REPLACE TABLE {step.relation} AS {step.sql}")
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.Error as error:
            raise RunError(problem(error, f"the step {step.name} failed: ")) from None

    def has(self, step: Step) -> bool:
        """Tell whether the table of a step is there."""
        try:
            self.db.execute(f"DESCRIBE {step.relation}")
        except duckdb.CatalogException:
            return False
        return True

    def judge(self, plan: Plan, checked_slice: str, *, asked_by: str | None = None) -> None:
        """Make the checked step alone: all of it, or again what the run ``asked_by`` asked; all or nothing."""
        self.roomy(lambda: self._judge(plan, checked_slice, asked_by))

    def _judge(self, plan: Plan, checked_slice: str, asked_by: str | None) -> None:
        self.db.execute("BEGIN")
        self.check(plan, checked_slice, asked_by)
        self.db.execute("COMMIT")

    def check(self, plan: Plan, checked_slice: str, asked_by: str | None = None) -> None:
        """Make the checked step a slice of hashes at a time."""
        table = plan.step("checked").relation
        sources = {name: plan.step(name).relation for name in SLICES}
        count = max(1, -(-int(self.one(f"SELECT count(*) FROM {sources['prompts']}")) // SLICE_ROWS))
        among = ""
        if asked_by is not None:
            asked = f"SELECT request_hash FROM {sources['responses']} WHERE run_id = {text(asked_by)}"
            among = f" AND request_hash IN ({asked})"
            self.db.execute(f"DELETE FROM {table} WHERE true{among}")
        for index in range(count):
            low, high = (f"{n * 2**32 // count:08x}" for n in (index, index + 1))
            within = f"request_hash >= '{low}'" + (f" AND request_hash < '{high}'" if index + 1 < count else "")
            for name, view in SLICES.items():
                rows = f"{within} OR request_hash IS NULL" if name == "prompts" and index == 0 else within
                select = f"SELECT * FROM {sources[name]} WHERE ({rows}){among}"
                self.db.execute(f"CREATE OR REPLACE TEMP VIEW {view} AS {select}")
            made = asked_by is not None or index > 0
            self.db.execute(
                f"{f'INSERT INTO {table}' if made else f'CREATE OR REPLACE TABLE {table} AS'} {checked_slice}"
            )

    def requests(self, call: Step, rows: int) -> Iterator[Request]:
        """Give what is pending, a chunk at a time: never the table in memory."""
        for start in range(0, rows, CHUNK_ROWS):
            within = f"rowid >= {start} AND rowid < {start + CHUNK_ROWS}"
            for row in self.db.execute(f"SELECT * FROM {call.pending_relation} WHERE {within}").fetchall():
                yield Request(*row)

    def spread(self, call: Step, rows: int, count: int) -> list[Request]:
        """Give so many of what is pending: the first, the last and those evenly between."""
        chosen = sorted({i * (rows - 1) // max(count - 1, 1) for i in range(count)})
        select = f"SELECT * FROM {call.pending_relation} WHERE rowid IN ({', '.join(map(str, chosen))}) ORDER BY rowid"
        return [Request(*row) for row in self.db.execute(select).fetchall()]

    def append(
        self, plan: Plan, answers: Sequence[Answer], *, run_id: str, version: str | None, fingerprint: str
    ) -> None:
        """Store answers, at least one, and commit: from here on they are never asked again."""
        from sqlenrich.runner.backends.duckdb.arrow import answer_table

        # The SQL finds the local variable by its name; registering it as a view would cost a third more.
        sqlenrich_batch = answer_table(answers, run_id=run_id, version=version, fingerprint=fingerprint)  # noqa: F841
        self.db.execute(f"INSERT INTO {plan.step('responses').relation} BY NAME SELECT * FROM sqlenrich_batch")

    def finish(self, plan: Plan, checked_slice: str, calls: Sequence[Step]) -> tuple[int, int, dict[str, int], int]:
        """Make checked, enriched and quarantine together; give their counts and how much ``calls`` still have to ask.

        ``checked_slice`` is the checked step's SQL over :data:`SLICES` instead of the whole tables. Raises RunError
        if a row is unaccounted for.
        """
        good, bad, codes = self.roomy(lambda: self._finish(plan, checked_slice))
        pending = self.count(calls)
        self.db.execute(f"DROP TABLE IF EXISTS {plan.step('responses').pending_relation}")
        return good, bad, codes, pending

    def _finish(self, plan: Plan, checked_slice: str) -> tuple[int, int, dict[str, int]]:
        enriched, quarantine = plan.step("enriched"), plan.step("quarantine")
        self.db.execute("BEGIN")
        self.check(plan, checked_slice)
        for step in (enriched, quarantine):
            self.make(step)
        self.db.execute("COMMIT")
        rows, good, bad = (
            self.one(f"SELECT count(*) FROM {relation}")
            for relation in (plan.step("prompts").relation, enriched.relation, quarantine.relation)
        )
        if rows != good + bad:
            raise RunError(f"{rows} rows in, but {good} enriched and {bad} quarantined: please report this")
        codes = self.db.execute(
            f"SELECT _error, count(*) FROM {quarantine.relation} GROUP BY _error ORDER BY count(*) DESC, _error"
        ).fetchall()
        return good, bad, {str(code): int(count) for code, count in codes}

    def begin(self, start: Start, *, known: bool) -> None:
        """Write a line of the runs' ledger, or again: with the snapshot where it is ``known``."""
        self.db.execute(
            f"CREATE TABLE IF NOT EXISTS {LEDGER} "
            "(run_id VARCHAR, name VARCHAR, started_at TIMESTAMP, ended_at TIMESTAMP, status VARCHAR, report VARCHAR)"
        )
        self.db.execute(f"ALTER TABLE {LEDGER} ADD COLUMN IF NOT EXISTS snapshot VARCHAR")
        snapshot = json.dumps(asdict(start.snapshot)) if known else None
        values = [start.run_id, start.name, start.at.replace(tzinfo=None), snapshot]
        self.db.execute(f"DELETE FROM {LEDGER} WHERE run_id = ?", [start.run_id])
        self.db.execute(
            f"INSERT INTO {LEDGER} (run_id, name, started_at, status, snapshot) VALUES (?, ?, ?, 'started', ?)", values
        )

    def record(self, start: Start, status: str, facts: Mapping[str, Any]) -> None:
        """Complete a run's line of the ledger."""
        now = datetime.now(start.at.tzinfo).replace(tzinfo=None)
        self.db.execute(
            f"UPDATE {LEDGER} SET ended_at = ?, status = ?, report = ? WHERE run_id = ?",
            [now, status, json.dumps(dict(facts)), start.run_id],
        )

    def snapshot(self, name: str) -> Snapshot:
        """Give what made the prompts of an enrichment. Raises ConfigError where there are none, or it is unknown."""
        try:
            found = self.db.execute(
                f"SELECT * FROM {LEDGER} WHERE name = ? ORDER BY started_at DESC, rowid DESC LIMIT 1", [name]
            )
            columns, row = [str(column[0]) for column in found.description or ()], found.fetchone()
        except duckdb.CatalogException:
            columns, row = [], None
        if row is None:
            raise ConfigError(f"{self.path} holds no run of {name}: run it first")
        written = dict(zip(columns, row, strict=True)).get("snapshot")
        if written is None:
            raise ConfigError(f"{self.path} does not tell what the last run of {name} asked: {AGAIN}")
        return Snapshot(**json.loads(written))

    def export(self, plan: Plan, output: Path) -> None:
        """Write NAME to a CSV or Parquet file, and NAME_quarantine beside it. In CSV arrays and structs are JSON."""
        parquet = output.suffix.lower() == ".parquet"
        form = f"{'FORMAT parquet' if parquet else 'FORMAT csv, HEADER'}, USE_TMP_FILE false"
        for name, path in (("enriched", output), ("quarantine", quarantine_file(output))):
            step = plan.step(name)
            nested = [quote(c) for c, kind in step.columns.items() if isinstance(kind, Array | Struct) and not parquet]
            replaced = f" REPLACE ({', '.join(f'to_json({c}) AS {c}' for c in nested)})" if nested else ""
            target = path.resolve()
            made = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
            try:
                self.db.execute(f"COPY (SELECT *{replaced} FROM {step.relation}) TO {text(str(made))} ({form})")
                os.replace(made, target)  # wholly or not at all
            finally:
                made.unlink(missing_ok=True)


def _hashes(pending_sql: str) -> str:
    """Give the hashes of a pending relation alone: to count them, no prompt need be read."""
    select = sqlglot.parse_one(pending_sql, read="duckdb")
    first = select.expressions[0]
    if isinstance(select, exp.Select) and select.args.get("distinct") and first.alias_or_name == "request_hash":
        select.set("expressions", [first])
    return select.sql("duckdb")


def quarantine_file(output: Path) -> Path:
    """Give the file beside an output file that holds the refused rows."""
    return output.with_name(f"{output.stem}_quarantine{output.suffix}")
