"""What a report tells: each figure is read by a SELECT, which the page shows beneath it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import escape
from typing import Any

from sqlglot import exp

from sqlenrich.core.names import column, relation
from sqlenrich.core.sql import case, concat, equals, literal, one_of
from sqlenrich.core.types import BIGINT, BOOLEAN, uncoerced
from sqlenrich.plan.drift import MARKS
from sqlenrich.plan.profiles import NULL
from sqlenrich.plan.relations import symbol
from sqlenrich.quality.comparison.comparison import printed
from sqlenrich.quality.evaluation.evaluation import ValueScore
from sqlenrich.quality.statistics import wilson_interval
from sqlenrich.runner.drift import Drift, FieldDrift
from sqlenrich.runner.report import NOT_COUNTED
from sqlenrich.runner.usage import cost_of
from sqlenrich.spec.prices import Prices, money
from sqlenrich.spec.quality import Requirement
from sqlenrich.store import queries
from sqlenrich.store.base import ModelUsage
from sqlenrich.store.database import selected
from sqlenrich.store.ledger import LEDGER
from sqlenrich.store.run_line import RunLine
from sqlenrich.store.store import Store
from sqlenrich.store.values import read_value, shown_value, text_of, utc_moment

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
        """Return a figure of the run's report; None where it is not told."""
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
        """Return the rows with a label and an answer."""
        return self.pairs.get((label, answer), 0)

    def labelled(self, value: str) -> int:
        """Return the rows with a label."""
        return sum(rows for (label, _), rows in self.pairs.items() if label == value)

    def answered(self, value: str) -> int:
        """Return the rows with an answer."""
        return sum(rows for (_, answer), rows in self.pairs.items() if answer == value)

    def measure(self, name: str, value: str | None) -> float | None:
        """Return ``right`` of the field, or ``precision``, ``recall`` or ``f1`` of a value; None where no row tells."""
        if value is None:
            return self.share
        score = ValueScore(value, self.labelled(value), self.answered(value), self.count(value, value))
        return {"precision": score.precision, "recall": score.recall, "f1": score.f1}[name]

    def unmet(self, requirements: Iterable[Requirement]) -> list[Requirement]:
        """Return the requirements of this field that are not met."""
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


def read_table(stored: Store) -> Table:
    """Return the accepted and refused rows, and those of the last snapshot."""
    reasons = queries.reasons("quarantine")
    asked = [queries.count_rows("prompts")] if stored.has("prompts") else []
    refused = {str(code): int(rows) for code, rows in stored.rows(reasons)}
    shown = tuple(map(stored.sql, (queries.count_rows("enriched"), reasons, *asked)))
    rows_in = stored.number(asked[0]) if asked else None
    return Table(rows_in, stored.number(queries.count_rows("enriched")), refused, shown)


def read_spent(stored: Store, prices: Prices | None) -> dict[str, Spent]:
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
                found[run.run_id] = Spent(amount, prices.currency, prices.told)
    return found


def _stored_usage(stored: Store, run: RunLine) -> list[ModelUsage] | None:
    """Return what the stored answers of a run took; None where some of them are not there any more."""
    table = stored.answers_of(run)
    told = ((run.report or {}).get("stored") or {}).get("answers")
    if stored.database.columns(table) is None:
        return None if told else []
    query = queries.usage_by_run(relation(stored.engine, table)).where(equals("run_id", run.run_id))
    rows = stored.rows(query)
    if told is not None and sum(int(row[2]) for row in rows) != told:
        return None
    return [
        ModelUsage(str(model), int(uncounted), *(None if count is None else int(count) for count in counts))
        for _, model, _, _, uncounted, *counts in rows
    ]


def runs_query(stored: Store) -> exp.Select:
    """Return the query of the ledger's lines."""
    names = ("run_id", "started_at", "ended_at", "status", "report")
    query = selected(stored.database, stored.database.named(LEDGER), names).where(equals("name", stored.name))
    return query.order_by("started_at DESC").limit(RUNS_SHOWN)


# Answers -------------------------------------------------------------------------------------------------------------


def read_answers(stored: Store) -> tuple[Answers, ...]:
    """Return the values of each field that has few: from the profiles of the runs, or else from the accepted rows."""
    return _of_profiles(stored) if stored.has("profiles") else _of_rows(stored)


def _of_profiles(stored: Store) -> tuple[Answers, ...]:
    name = partial(column, stored.engine)
    newest = exp.select(exp.Max(this=name("run"))).from_(symbol("profiles"))
    newest = newest.where(exp.NEQ(this=name("field"), expression=literal(MARKS)))
    is_newest = exp.EQ(this=name("run"), expression=literal(str(stored.rows(newest)[0][0])))
    now = exp.Sum(this=case((is_newest, name("rows")), default=literal(0)))
    earlier = exp.Sum(this=case((is_newest.copy(), literal(0)), default=name("rows")))
    query = exp.select(name("field"), name("level"), exp.alias_(now, "now_rows"), exp.alias_(earlier, "earlier_rows"))
    query = (
        query.from_(symbol("profiles"))
        .where(one_of(name("field"), *stored.fields))
        .group_by(name("field"), name("level"))
    )
    query = query.order_by(name("field"), "now_rows DESC", name("level"))
    counts: dict[str, list[tuple[str, int, int]]] = {}
    for field_name, level, rows_now, rows_earlier in stored.rows(query):
        counts.setdefault(str(field_name), []).append((str(level), int(rows_now), int(rows_earlier)))
    sql = stored.sql(query)
    return tuple(_answers(one, _most_first(counts[one]), sql) for one in stored.fields if one in counts)


def _of_rows(stored: Store) -> tuple[Answers, ...]:
    found = []
    for name in stored.fields:
        kind = uncoerced(stored.contract.readings[name])
        listed = "enum" in stored.contract.schema["properties"][name]
        if listed or kind in (BOOLEAN, BIGINT):
            value = column(stored.engine, name)
            query = exp.select(value, exp.alias_(exp.Count(this=exp.Star()), "now_rows")).from_(symbol("enriched"))
            query = query.group_by(value.copy()).order_by("now_rows DESC").limit(10 * MOST_LEVELS)
            levels = [(printed_level(read_value(level, kind)), int(now), 0) for level, now in stored.rows(query)]
            if len(levels) < 10 * MOST_LEVELS:  # else an integer of any size
                found.append(_answers(name, _most_first(levels), stored.sql(query)))
    return tuple(found)


def printed_level(value: Any) -> str:
    """Return a value of a field as profiles name it."""
    return NULL if value is None else text_of(value)


def _most_first(levels: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Return levels by their rows; of equal ones in the order of their names, which no collation changes."""
    return sorted(levels, key=lambda level: (-level[1], level[0]))


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


def read_accuracy(stored: Store, *, with_rows: bool) -> Accuracy | None:
    """Return the last evaluation; None where there is none."""
    if not stored.has("evaluations"):
        return None
    over_time = _over_time()
    times: dict[str, list[tuple[str, float]]] = {}
    last = ""
    for one, evaluation, at, right_rows, rows in stored.rows(over_time):
        moment = str(utc_moment(at))[:16]
        times.setdefault(str(one), []).append((moment, int(right_rows) / int(rows)))
        last = max(last, str(evaluation))
    if not last:
        return None
    about = exp.select("MAX(evaluated_at)", "MAX(truth)", "MAX(model)").from_(symbol("evaluations"))
    at, truth, model = stored.rows(about.where(equals("evaluation", last)))[0]
    pairs_query = _pairs(last)
    pairs: dict[str, dict[tuple[str, str], int]] = {}
    right: dict[str, int] = {}
    for one, label, answer, right_rows, rows in stored.rows(pairs_query):
        pair = (_value(label), REFUSED if answer is None else _value(answer))
        own = pairs.setdefault(str(one), {})
        own[pair] = own.get(pair, 0) + int(rows)
        right[str(one)] = right.get(str(one), 0) + int(right_rows)
    fields = tuple(
        FieldAccuracy(one, own, right[one], sum(own.values()), tuple(times[one])) for one, own in sorted(pairs.items())
    )
    worst: list[Mapping[str, Any]] = []
    sql = [pairs_query, over_time]
    if with_rows:
        sql.append(_worst_keys(last))
        worst = _worst_rows(stored, last, [str(key) for key, _ in stored.rows(sql[-1])])
    return Accuracy(
        last, str(utc_moment(at)), str(truth), str(model), fields, tuple(worst), tuple(map(stored.sql, sql))
    )


_RIGHT = exp.Sum(this=case((exp.column("is_right"), literal(1)), default=literal(0)))
_ROWS = exp.alias_(exp.Count(this=exp.Star()), "counted_rows")


def _over_time() -> exp.Select:
    """The right rows of each field in each evaluation."""
    found = exp.select("field", "evaluation", "MAX(evaluated_at) AS at_time", exp.alias_(_RIGHT.copy(), "right_rows"))
    found = found.select(_ROWS.copy()).from_(symbol("evaluations")).group_by("field", "evaluation")
    return found.order_by("field", "evaluation")


def _pairs(evaluation: str) -> exp.Select:
    """The rows of each label and answer of an evaluation; the answer of a refused row is NULL."""
    found = exp.select("field", "label", "answer", exp.alias_(_RIGHT.copy(), "right_rows"), _ROWS.copy())
    found = found.from_(symbol("evaluations")).where(equals("evaluation", evaluation))
    return found.group_by("field", "label", "answer").order_by("field", "counted_rows DESC", "label", "answer")


def _worst_keys(evaluation: str) -> exp.Select:
    """The rows that are wrong in the most fields."""
    found = exp.select("row_key", exp.alias_(exp.Count(this=exp.Star()), "wrong")).from_(symbol("evaluations"))
    found = found.where(equals("evaluation", evaluation), exp.Not(this=exp.column("is_right"))).group_by("row_key")
    return found.order_by("wrong DESC", "row_key").limit(WORST_ROWS)


def _worst_rows(stored: Store, evaluation: str, keys: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return what is wrong in some rows: the field, its label, and the answer or the reason of the refusal."""
    found = exp.select("row_key", "field", "label", "answer", "error").from_(symbol("evaluations"))
    found = found.where(equals("evaluation", evaluation), exp.Not(this=exp.column("is_right")))
    wrong: dict[str, list[tuple[str, str, str]]] = {}
    for key, *facts in stored.among(found, exp.column("row_key"), keys):
        name, label, answer, error = facts
        wrong.setdefault(str(key), []).append((str(name), _value(label), _value(error if answer is None else answer)))
    return [{"key": key, "wrong": sorted(wrong[key])} for key in keys]


def _value(text: Any) -> str:
    """Return a value that is kept as JSON as a text; a reason code as it is."""
    try:
        return printed(json.loads(text))
    except (TypeError, ValueError):
        return str(text)


# Rows ----------------------------------------------------------------------------------------------------------------


def read_refusals(stored: Store, table: Table) -> Refusals:
    """Return a few refused rows of each reason: those with the smallest hashes."""
    if not table.refused:
        return Refusals()
    columns = [name for name in stored.shown_columns if name in stored.columns("quarantine")]
    name = partial(column, stored.engine)
    keys = [one for one in stored.contract.key if one in columns]  # rows may share a request
    order = [exp.Ordered(this=name(one), nulls_first=True) for one in ("_request_hash", "_error_detail", *keys)]
    place = exp.Window(this=exp.RowNumber(), partition_by=[name("_error")], order=exp.Order(expressions=order))
    shown = ("_error", "_error_detail", "response", "_request_hash", *columns)
    placed = exp.select(*map(name, shown), exp.alias_(place, "sqlenrich_place")).from_(symbol("quarantine"))
    query = exp.select(*map(name, shown)).from_(placed.subquery("placed"))
    query = query.where(exp.LTE(this=exp.column("sqlenrich_place"), expression=literal(EXAMPLES)))
    found: dict[str, list[Mapping[str, Any]]] = {code: [] for code in table.refused}
    for code, detail, response, _, *values in sorted(stored.rows(query), key=lambda row: list(map(str, row))):
        key = dict(zip(columns, map(shown_value, values), strict=True))
        found[str(code)].append({"detail": detail, "response": response, "key": key})
    return Refusals(found, (stored.sql(query),))


def read_sample(stored: Store, rows: int, most_bytes: int) -> SampleRows:
    """Return accepted rows, in the order of a hash of their requests, as many as fit into some bytes of HTML."""
    from sqlenrich.quality.page import cut_text

    readings = stored.contract.readings
    names = [*stored.shown_columns, *stored.fields]
    hashed = column(stored.engine, "_request_hash")
    order = stored.engine.sha256(concat(literal("report:"), hashed))
    shown = (column(stored.engine, name) for name in names)
    key = [column(stored.engine, name) for name in stored.contract.key if name in names]
    query = exp.select(exp.alias_(order, "drawn"), *shown).from_(symbol("enriched"))
    query = query.order_by("drawn", *key).limit(rows)
    found = [
        [read_value(value, readings[name]) if name in readings else shown_value(value) for name, value in line]
        for line in (list(zip(names, row[1:], strict=True)) for row in stored.rows(query))
    ]
    lines: list[tuple[str, ...]] = []
    used = 0
    for row in found:
        line = tuple(cut_text("" if value is None else text_of(value)) for value in row)
        used += sum(len(escape(text).encode()) for text in line)
        if used > most_bytes:
            break
        lines.append(line)
    return SampleRows(tuple(names), tuple(lines), len(found) - len(lines), stored.sql(query))
