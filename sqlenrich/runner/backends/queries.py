"""The queries that every backend runs beside the steps of a plan, over its symbolic relations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp, select

from sqlenrich.core.engine import Engine
from sqlenrich.core.names import identifier
from sqlenrich.core.sql import Sql, literal
from sqlenrich.core.types import Type
from sqlenrich.plan.plan import Step
from sqlenrich.plan.relations import symbol


def size() -> exp.Select:
    """Rows, and distinct requests."""
    return select("COUNT(*)", "COUNT(DISTINCT request_hash)").from_(symbol("prompts"))


def count_of(step: Step) -> exp.Select:
    """The rows of a step, read from the source: no table is made."""
    return select("COUNT(*)").from_(rows_of(step))


def distinct_of(step: Step) -> exp.Select:
    """The distinct requests of the prompts, read from the source: no table is made."""
    return select("COUNT(DISTINCT request_hash)").from_(rows_of(step))


def head(step: Step, rows: int) -> exp.Select:
    """The first rows of a step, read from the source: no table is made."""
    return select("*").from_(rows_of(step)).limit(rows)


def count_rows(role: str) -> exp.Select:
    """The rows of a relation."""
    return select("COUNT(*)").from_(symbol(role))


def count_pending(call: Step) -> exp.Select:
    """How many requests a call has to ask. No prompt is read to count them."""
    assert call.pending is not None
    pending = call.pending.copy()
    first = pending.expressions[0]
    if pending.args.get("distinct") and first.alias_or_name == "request_hash":
        pending.set("expressions", [first])
    return select("COUNT(*)").from_(pending.subquery("pending", copy=False))


def among(pending: exp.Select, hashes: exp.Select) -> exp.Select:
    """The requests of a pending query whose hash is in another query."""
    found = exp.In(this=exp.column("request_hash"), query=hashes.subquery(copy=False))
    return select("*").from_(pending.subquery("pending")).where(found, copy=False)


def failed_hashes(run_id: str) -> exp.Select:
    """The hashes that a run asked without an answer, where asking again may help."""
    return select("request_hash").from_(symbol("responses")).where(_of_run(run_id), "retryable")


def asked_hashes(run_id: str) -> exp.Select:
    """The hashes that a run asked."""
    return select("request_hash").from_(symbol("responses")).where(_of_run(run_id))


def not_retried(reasons: Sequence[str], max_attempts: int) -> exp.Select:
    """Requests refused for some reasons with no attempts left, and requests never asked."""
    refused = exp.In(this=exp.column("_error"), expressions=[literal(code) for code in reasons])
    spent = exp.and_(refused, exp.GTE(this=exp.column("_attempts"), expression=literal(max_attempts)))
    unasked = exp.EQ(this=exp.column("_error"), expression=literal("NOT_ASKED"))
    return select(*(_distinct_hashes(test) for test in (spent, unasked))).from_(symbol("checked"))


def repeated_keys(engine: Engine, key: Sequence[str]) -> exp.Select:
    """Rows, distinct keys, and rows with a NULL in their key."""
    columns = [exp.column(identifier(engine, name)) for name in key]
    # The names of the key may be any: inside they have names of ours.
    named = [exp.alias_(column, f"_key_{number}") for number, column in enumerate(columns)]
    groups = select(*named, exp.alias_(exp.Count(this=exp.Star()), "_key_rows")).from_(symbol("prompts"))
    groups = groups.group_by(*(column.copy() for column in columns))
    missing = exp.or_(*(exp.Is(this=exp.column(one.alias), expression=exp.Null()) for one in named))
    nulls = exp.Sum(this=exp.Case(ifs=[exp.If(this=missing, true=exp.column("_key_rows"))], default=literal(0)))
    return select("SUM(_key_rows)", "COUNT(*)", nulls).from_(groups.subquery("keys"))


def reasons() -> exp.Select:
    """Each reason of the refused rows and its count, the most frequent first."""
    counted = select("_error", "COUNT(*) AS times").from_(symbol("quarantine")).group_by("_error")
    return counted.order_by("times DESC", "_error")


def usage(run_id: str) -> exp.Select:
    """Per model: answers without token counts, tokens in, cached and out."""
    uncounted = "SUM(CASE WHEN call_error IS NULL AND (tokens_in IS NULL OR tokens_out IS NULL) THEN 1 ELSE 0 END)"
    cached = "SUM(CASE WHEN tokens_cached > tokens_in THEN tokens_in ELSE tokens_cached END)"
    columns = ("model", uncounted, "SUM(tokens_in)", cached, "SUM(tokens_out)")
    return select(*columns).from_(symbol("responses")).where(_of_run(run_id)).group_by("model").order_by("model")


def latencies(run_id: str) -> exp.Select:
    """The latencies of a run's answers as ``v``."""
    return select("latency_ms AS v").from_(symbol("responses")).where(_of_run(run_id), "call_error IS NULL")


def percentiles(values: exp.Query, shares: Sequence[int]) -> exp.Select:
    """The least value of a query's column ``v`` that a share in a hundred does not exceed, for each share.

    Equal values are counted first: the memory grows with the distinct ones.
    """
    counted = select("v", "COUNT(*) AS times").from_(values.subquery("given")).where("v IS NOT NULL").group_by("v")
    running = select("v", "SUM(times) OVER (ORDER BY v) AS upto", "SUM(times) OVER () AS total").from_("counted")
    least = [exp.Min(this=exp.Case(ifs=[exp.If(this=_reached(share), true=exp.column("v"))])) for share in shares]
    return select(*least).from_("running").with_("counted", as_=counted).with_("running", as_=running)


def page(after: str | None, count: int) -> exp.Select:
    """The next pending requests in the order of their hashes."""
    found = select("*").from_(symbol("pending")).order_by("request_hash").limit(count)
    return found if after is None else found.where(exp.GT(this=exp.column("request_hash"), expression=literal(after)))


def nth(place: int) -> exp.Select:
    """The pending request at a place in the order of the hashes."""
    return select("*").from_(symbol("pending")).order_by("request_hash").limit(1).offset(place)


def insert_rows(
    engine: Engine, table: exp.Table, columns: Mapping[str, Type], rows: Sequence[Sequence[object]]
) -> exp.Insert:
    """Rows of constants into a table: typed by the first row, each value as the engine writes it."""
    names = [identifier(engine, name) for name in columns]
    kinds = list(columns.values())
    tuples = [
        exp.Tuple(expressions=[_constant(engine, value, kind) for value, kind in zip(row, kinds, strict=True)])
        for row in rows
    ]
    return exp.Insert(this=exp.Schema(this=table, expressions=names), expression=exp.Values(expressions=tuples))


def _constant(engine: Engine, value: object, kind: Type) -> Sql:
    if value is None or isinstance(value, bool | int | float):
        return literal(value)
    text = literal(str(value))
    return text if isinstance(value, str) else exp.Cast(this=text, to=engine.sql_type(kind))


def rows_of(step: Step) -> exp.Subquery:
    """The rows of a step, read from the source: no table is made."""
    return exp.Subquery(this=step.query.copy(), alias=exp.TableAlias(this=exp.to_identifier("step")))


def _of_run(run_id: str) -> Sql:
    return exp.EQ(this=exp.column("run_id"), expression=literal(run_id))


def _distinct_hashes(test: Sql) -> Sql:
    chosen = exp.Case(ifs=[exp.If(this=test, true=exp.column("request_hash"))])
    return exp.Count(this=exp.Distinct(expressions=[chosen]))


def _reached(share: int) -> Sql:
    upto = exp.Mul(this=exp.column("upto"), expression=literal(100))
    return exp.GTE(this=upto, expression=exp.Mul(this=literal(share), expression=exp.column("total")))
