"""What a report tells: each figure is read by a SELECT, which the page shows beneath it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from sqlglot import exp

from sqlenrich.core.sql import equals
from sqlenrich.core.types import BIGINT, BOOLEAN, uncoerced
from sqlenrich.plan.drift import MARKS
from sqlenrich.quality.comparison.comparison import printed
from sqlenrich.quality.evaluation.evaluation import ValueScore
from sqlenrich.quality.statistics import wilson_interval
from sqlenrich.quality.stored_output import RunLine, StoredOutput
from sqlenrich.runner.drift import Drift, FieldDrift
from sqlenrich.runner.report import NOT_COUNTED
from sqlenrich.runner.usage import cost_of
from sqlenrich.spec.prices import Prices, money
from sqlenrich.spec.quality import Requirement
from sqlenrich.store import queries
from sqlenrich.store.base import ModelUsage
from sqlenrich.store.ledger import LEDGER

REFUSED = "(refused)"
"""What stands for the answer of a refused row."""
"""The field of the lines of NAME_profiles that say what was told of a run."""
RUNS_SHOWN = 30
MOST_LEVELS = 20
MOST_VALUES = 20
EXAMPLES = 3
"""The refused rows shown of each reason."""
WORST_ROWS = 20


@dataclass(frozen=True)
class Spent:
    """The cost of a run."""

    cost: float
    currency: str
    prices_as_of: str | None = None
    """The day of the prices by which the report computes it; None for the cost that the run itself reported."""

    def to_text(self) -> str:
        """Return the amount; ``*`` marks one that the report computes."""
        return f"{money(self.cost)} {self.currency}{'' if self.prices_as_of is None else '*'}"


@dataclass(frozen=True)
class RunFigures:
    """One run of the ledger, and how far its answers moved; None where there is no earlier run to compare it with."""

    run: RunLine
    drift: Drift | None = None
    spent: Spent | None = None
    """The cost; None where it is unknown."""

    @property
    def sigma(self) -> float | None:
        """The score of the run as a whole: by how many σ its answers moved from those of the runs before it."""
        return None if self.drift is None else self.drift.sigma

    @property
    def moved_most(self) -> FieldDrift | None:
        """The field with the highest score."""
        return None if self.drift is None else self.drift.fields[0]

    @property
    def told(self) -> Mapping[str, Any]:
        """The facts of the run's report; none where it wrote none."""
        return self.run.report or {}

    def number(self, name: str) -> float | None:
        """Give a figure of the run's report; None where it is not told."""
        value = self.told.get(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    @property
    def tokens(self) -> int:
        """The tokens of the run, in and out, as far as they are told."""
        return sum(int(self.number(name) or 0) for name in ("tokens_in", "tokens_out"))

    @property
    def refused_share(self) -> float | None:
        """The refused rows among the asked ones."""
        reasons: Mapping[str, int] = self.told.get("quarantine") or {}
        refused = sum(count for code, count in reasons.items() if code not in NOT_COUNTED)
        asked = refused + (self.number("enriched") or 0)
        return refused / asked if asked else None

    @property
    def latency(self) -> int | None:
        """The median latency in milliseconds."""
        latencies = self.told.get("latency_ms") or {}
        return latencies.get("p50")


@dataclass(frozen=True)
class Table:
    """The rows of the results as they stand."""

    rows_in: int | None
    """The rows of the last snapshot; None where it was not kept."""
    accepted: int
    refused: Mapping[str, int]
    """The refused rows by reason, most first."""
    sql: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """All rows that are in one of the two tables."""
        return self.accepted + sum(self.refused.values())

    @property
    def refused_share(self) -> float | None:
        """The share of refused rows among those that were asked."""
        refused = sum(count for code, count in self.refused.items() if code not in NOT_COUNTED)
        asked = refused + self.accepted
        return refused / asked if asked else None


@dataclass(frozen=True)
class Level:
    """How many rows have a value of a field: in the newest run, and the mean share of the earlier ones."""

    name: str
    rows: int
    share: float
    earlier: float | None


@dataclass(frozen=True)
class Answers:
    """One field's answers now and earlier."""

    field: str
    rows: int
    levels: tuple[Level, ...]
    sql: str

    @property
    def moved(self) -> float | None:
        """The share of rows whose value is another than the earlier runs let expect; None without an earlier run."""
        if not any(level.earlier is not None for level in self.levels):
            return None
        return sum(abs(level.share - (level.earlier or 0.0)) for level in self.levels) / 2


@dataclass(frozen=True)
class FieldAccuracy:
    """A field against its labels in the last evaluation: rows by label and answer, both as texts."""

    field: str
    pairs: Mapping[tuple[str, str], int]
    right: int
    rows: int
    earlier: tuple[tuple[str, float], ...]
    """The share right of each evaluation, the last one too, by its time."""

    @property
    def share(self) -> float:
        """The share of right rows."""
        return self.right / self.rows

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the share."""
        return wilson_interval(self.right, self.rows) or (0.0, 1.0)

    @property
    def values(self) -> list[str]:
        """The labels and answers, the most frequent labels first."""
        counts: dict[str, int] = {}
        for (label, answer), rows in self.pairs.items():
            counts[label] = counts.get(label, 0) + rows
            counts.setdefault(answer, 0)
        return sorted(counts, key=lambda value: (value == REFUSED, -counts[value], value))

    @property
    def matrix(self) -> bool:
        """Whether the values are few enough for a matrix."""
        return len(self.values) <= MOST_VALUES + 1

    def count(self, label: str, answer: str) -> int:
        """Give the rows with a label and an answer."""
        return self.pairs.get((label, answer), 0)

    def labelled(self, value: str) -> int:
        """Give the rows with a label."""
        return sum(rows for (label, _), rows in self.pairs.items() if label == value)

    def answered(self, value: str) -> int:
        """Give the rows with an answer."""
        return sum(rows for (_, answer), rows in self.pairs.items() if answer == value)

    def measure(self, name: str, value: str | None) -> float | None:
        """Give ``right`` of the field, or ``precision``, ``recall`` or ``f1`` of a value; None where no row tells."""
        if value is None:
            return self.share
        score = ValueScore(value, self.labelled(value), self.answered(value), self.count(value, value))
        return {"precision": score.precision, "recall": score.recall, "f1": score.f1}[name]

    def unmet(self, requirements: Iterable[Requirement]) -> list[Requirement]:
        """Give the requirements of this field that are not met."""
        own = [one for one in requirements if one.field == self.field]
        return [one for one in own if (found := self.measure(one.measure, one.value)) is None or found < one.least]


@dataclass(frozen=True)
class Accuracy:
    """The last evaluation. ``worst`` are rows that are wrong in the most fields."""

    evaluation: str
    at: str
    truth: str
    model: str
    fields: tuple[FieldAccuracy, ...]
    worst: tuple[Mapping[str, Any], ...] = ()
    sql: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refusals:
    """Examples of refused rows by reason."""

    examples: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    sql: tuple[str, ...] = ()


@dataclass(frozen=True)
class SampleRows:
    """A sample of the accepted rows. ``left_out`` of it do not fit on a page."""

    columns: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    left_out: int
    sql: str


def read_table(stored: StoredOutput) -> Table:
    """Give the accepted and refused rows, and those of the last snapshot."""
    counted = f"SELECT COUNT(*) FROM {stored.table('enriched')}"
    reasons = (
        f"SELECT _error, COUNT(*) AS rows FROM {stored.table('quarantine')} GROUP BY ALL ORDER BY rows DESC, _error"
    )
    sql = [counted, reasons]
    rows_in: int | None = None
    if "prompts" in stored.tables:
        sql.append(f"SELECT COUNT(*) FROM {stored.table('prompts')}")
        rows_in = int(stored.rows(sql[-1])[0][0])
    refused = {str(code): int(rows) for code, rows in stored.rows(reasons)}
    return Table(rows_in, int(stored.rows(counted)[0][0]), refused, tuple(sql))


def read_spent(stored: StoredOutput, prices: Prices | None) -> dict[str, Spent]:
    """Return the cost of each run: the one that it reported, else that of its stored answers at given prices.

    A run whose cost is unknown is left out.
    """
    found: dict[str, Spent] = {}
    for run in stored.runs:
        report = run.report or {}
        cost = report.get("cost")
        # A cost of 0 is known for a run that used no tokens, and for a model that is free.
        if isinstance(cost, int | float) and not isinstance(cost, bool):
            found[run.run_id] = Spent(float(cost), str(report.get("currency") or ""))
        elif prices is not None and (usage := _stored_usage(stored, run)) is not None:
            amount, _ = cost_of(usage, prices)
            if amount is not None:
                found[run.run_id] = Spent(amount, prices.currency, prices.as_of.isoformat())
    return found


def _stored_usage(stored: StoredOutput, run: RunLine) -> list[ModelUsage] | None:
    """Return what the stored answers of a run took; None where some of them are not there any more."""
    from sqlenrich.store.duckdb.database import name_parts

    name = ".".join(map(stored.quoted, name_parts(run.responses)))
    told = ((run.report or {}).get("stored") or {}).get("answers")
    if stored.columns(name) is None:
        return None if told else []
    query = queries.usage_by_run(exp.to_table(name, dialect="duckdb")).where(equals("run_id", run.run_id))
    rows = stored.rows(query.sql("duckdb"))
    if told is not None and sum(int(row[2]) for row in rows) != told:
        return None
    return [ModelUsage(str(model), int(uncounted), *counts) for _, model, _, _, uncounted, *counts in rows]


def runs_sql(stored: StoredOutput) -> str:
    """Give the SELECT of the ledger."""
    from sqlenrich.store.duckdb.database import text

    return (
        f"SELECT run_id, started_at, ended_at, status, report FROM {LEDGER} "
        f"WHERE name = {text(stored.enrichment.name)} ORDER BY started_at DESC LIMIT {RUNS_SHOWN}"
    )


# Answers -------------------------------------------------------------------------------------------------------------


def read_answers(stored: StoredOutput) -> tuple[Answers, ...]:
    """Give the values of each field that has few: from the profiles of the runs, or else from the accepted rows."""
    return _of_profiles(stored) if "profiles" in stored.tables else _of_rows(stored)


def _of_profiles(stored: StoredOutput) -> tuple[Answers, ...]:
    from sqlenrich.store.duckdb.database import text

    table = stored.table("profiles")
    newest = f"SELECT MAX(run) FROM {table} WHERE field <> {text(MARKS)}"
    sql = (
        "SELECT field, level, SUM(CASE WHEN run = newest THEN rows ELSE 0 END) AS now, "
        "SUM(CASE WHEN run <> newest THEN rows ELSE 0 END) AS earlier "
        f"FROM {table} CROSS JOIN ({newest}) AS last (newest) "
        f"WHERE field IN ({', '.join(map(text, stored.fields))}) GROUP BY ALL ORDER BY field, now DESC, level"
    )
    counts: dict[str, list[tuple[str, int, int]]] = {}
    for name, level, now, earlier in stored.rows(sql):
        counts.setdefault(str(name), []).append((str(level), int(now), int(earlier)))
    return tuple(_answers(name, counts[name], sql) for name in stored.fields if name in counts)


def _of_rows(stored: StoredOutput) -> tuple[Answers, ...]:
    found = []
    for name in stored.fields:
        kind = uncoerced(stored.enrichment.readings[name])
        listed = "enum" in stored.enrichment.schema["properties"][name]
        if listed or kind in (BOOLEAN, BIGINT):
            sql = (
                f"SELECT COALESCE(CAST({stored.quoted(name)} AS VARCHAR), '(null)') AS level, COUNT(*) AS now "
                f"FROM {stored.table('enriched')} GROUP BY ALL ORDER BY now DESC, level"
            )
            levels = [(str(level), int(now), 0) for level, now in stored.rows(f"{sql} LIMIT {10 * MOST_LEVELS}")]
            if len(levels) < 10 * MOST_LEVELS:  # else an integer of any size
                found.append(_answers(name, levels, sql))
    return tuple(found)


def _answers(name: str, levels: Sequence[tuple[str, int, int]], sql: str) -> Answers:
    now, earlier = sum(rows for _, rows, _ in levels), sum(rows for _, _, rows in levels)
    shown = list(levels)
    if len(levels) > MOST_LEVELS:
        rest = levels[MOST_LEVELS - 1 :]
        others = (f"{len(rest):,} other values", sum(one[1] for one in rest), sum(one[2] for one in rest))
        shown = [*levels[: MOST_LEVELS - 1], others]
    return Answers(
        name,
        now,
        tuple(Level(level, a, a / now if now else 0.0, b / earlier if earlier else None) for level, a, b in shown),
        sql,
    )


# Accuracy ------------------------------------------------------------------------------------------------------------


def read_accuracy(stored: StoredOutput, *, with_rows: bool) -> Accuracy | None:
    """Give the last evaluation; None where there is none."""
    table = stored.tables.get("evaluations")
    if table is None:
        return None
    last = f"evaluation = (SELECT MAX(evaluation) FROM {table})"
    head = stored.rows(
        f"SELECT evaluation, CAST(MAX(evaluated_at) AS VARCHAR), MAX(truth), MAX(model) FROM {table} "
        f"WHERE {last} GROUP BY 1"
    )
    if not head:
        return None
    pairs_sql = (
        f"SELECT field, label, COALESCE(answer, '{REFUSED}') AS answer, SUM(CAST(is_right AS INTEGER)) AS right_rows, "
        f"COUNT(*) AS rows FROM {table} WHERE {last} GROUP BY ALL ORDER BY field, rows DESC"
    )
    over_time = (
        "SELECT field, evaluation, CAST(MAX(evaluated_at) AS VARCHAR) AS at, AVG(CAST(is_right AS INTEGER)) AS share "
        f"FROM {table} GROUP BY field, evaluation ORDER BY field, evaluation"
    )
    pairs: dict[str, dict[tuple[str, str], int]] = {}
    right: dict[str, int] = {}
    for one, label, answer, right_rows, rows in stored.rows(pairs_sql):
        pair = (_value(label), answer if answer == REFUSED else _value(answer))
        own = pairs.setdefault(str(one), {})
        own[pair] = own.get(pair, 0) + int(rows)
        right[str(one)] = right.get(str(one), 0) + int(right_rows)
    times: dict[str, list[tuple[str, float]]] = {}
    for one, _, at, share in stored.rows(over_time):
        times.setdefault(str(one), []).append((str(at)[:16], float(share)))
    fields = tuple(
        FieldAccuracy(one, own, right[one], sum(own.values()), tuple(times[one])) for one, own in pairs.items()
    )
    worst, sql = [], [pairs_sql, over_time]
    if with_rows:
        sql.append(
            "SELECT row_key, COUNT(*) AS wrong, LIST(field ORDER BY field) AS fields, "
            "LIST(label ORDER BY field) AS labels, "
            f"LIST(COALESCE(answer, error) ORDER BY field) AS answers FROM {table} WHERE {last} AND NOT is_right "
            f"GROUP BY row_key ORDER BY wrong DESC, row_key LIMIT {WORST_ROWS}"
        )
        worst = [
            {"key": key, "wrong": list(zip(names, map(_value, labels), map(_value, answers), strict=True))}
            for key, _, names, labels, answers in stored.rows(sql[-1])
        ]
    evaluation, at, truth, model = map(str, head[0])
    return Accuracy(evaluation, at, truth, model, fields, tuple(worst), tuple(sql))


def _value(text: Any) -> str:
    """Give a value that is kept as JSON as a text; a reason code as it is."""
    try:
        return printed(json.loads(text))
    except (TypeError, ValueError):
        return str(text)


# Rows ----------------------------------------------------------------------------------------------------------------


def read_refusals(stored: StoredOutput, table: Table) -> Refusals:
    """Give a few refused rows of each reason: those with the smallest hashes."""
    if not table.refused:
        return Refusals()
    from sqlenrich.store.duckdb.database import text

    columns = [name for name in stored.shown_columns if name in (stored.columns(stored.table("quarantine")) or ())]
    key = ", ".join(f"{text(name)}, {stored.quoted(name)}" for name in columns)
    sql = (
        f"SELECT _error, _error_detail, response, CAST(json_object({key}) AS VARCHAR) AS key "
        f"FROM {stored.table('quarantine')} QUALIFY ROW_NUMBER() OVER (PARTITION BY _error "
        f"ORDER BY _request_hash, _error_detail) <= {EXAMPLES} ORDER BY _error"
    )
    found: dict[str, list[Mapping[str, Any]]] = {code: [] for code in table.refused}
    for code, detail, response, values in stored.rows(sql):
        found[str(code)].append({"detail": detail, "response": response, "key": json.loads(values)})
    return Refusals(found, (sql,))


def read_sample(stored: StoredOutput, rows: int, most_bytes: int) -> SampleRows:
    """Give accepted rows, those with the smallest hashes first, as many as fit into some bytes of HTML."""
    from sqlenrich.quality.page import cut_text

    names = [*stored.shown_columns, *stored.fields]
    texts = ", ".join(
        f"CASE WHEN {stored.quoted(name)} IS NULL THEN NULL ELSE CAST(to_json({stored.quoted(name)}) AS VARCHAR) END"
        for name in names
    )
    hashed = f"FROM {stored.table('enriched')} ORDER BY MD5(_request_hash), rowid LIMIT {rows}"
    sql = f"SELECT {', '.join(map(stored.quoted, names))} {hashed}"
    drawn = f"SELECT {texts} FROM {stored.table('enriched')} WHERE rowid IN (SELECT rowid {hashed})"
    found = stored.rows(f"{drawn} ORDER BY MD5(_request_hash), rowid")
    lines: list[tuple[str, ...]] = []
    used = 0
    for row in found:
        line = tuple(cut_text("" if text is None else _value(text)) for text in row)
        used += sum(len(escape(text).encode()) for text in line)
        if used > most_bytes:
            break
        lines.append(line)
    return SampleRows(tuple(names), tuple(lines), len(found) - len(lines), sql)
