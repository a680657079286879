"""The queries that every backend runs beside the steps of a plan, over its symbolic relations."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlglot import exp, select

from sqlenrich.core.bounds import AFTER_ALL, bound
from sqlenrich.core.engine import Engine
from sqlenrich.core.names import column, identifier
from sqlenrich.core.sql import Sql, case, equals, func, literal, utc_time
from sqlenrich.core.types import TIMESTAMP, Type
from sqlenrich.plan.plan import RESPONSES, Step
from sqlenrich.plan.relations import Symbol, symbol
from sqlenrich.spec.limits import TOO_LONG

UNCOUNTED = "SUM(CASE WHEN call_error IS NULL AND (tokens_in IS NULL OR tokens_out IS NULL) THEN 1 ELSE 0 END)"
"""Answers without token counts."""
TOKENS = {
    "tokens_in": "SUM(tokens_in)",
    "tokens_cached": "SUM(CASE WHEN tokens_cached > tokens_in THEN tokens_in ELSE tokens_cached END)",
    "tokens_out": "SUM(tokens_out)",
}
"""The sums of a run's answers, as a report has them. LEAST is not used: DuckDB and Spark ignore its NULLs."""
OF_BATCHES = "latency_ms IS NULL AND raw IS NULL"
"""The test of an answer of a Batch API: others of a client have a latency, those of a warehouse's function a raw."""
BATCH_TOKENS = {
    f"batch_{name}": f"{total[:4]}CASE WHEN {OF_BATCHES} THEN {total[4:-1]} END)" for name, total in TOKENS.items()
}
"""The same sums of the answers of batches."""
_SPENT = (UNCOUNTED, *TOKENS.values(), *BATCH_TOKENS.values())
NOT_ASKED = "NOT_ASKED"
"""The reason of a row that no run has asked."""
BYTE_LENGTH = {"bigquery": "BYTE_LENGTH", "duckdb": "STRLEN"}
"""The function for a text's bytes where it is not OCTET_LENGTH."""
PROMPT_BYTES = "prompt_bytes"
"""The column of a warehouse's pending relation with the bytes of the prompt: a range of requests reads no prompt."""


def byte_length(engine: Engine, text: Sql) -> Sql:
    """The bytes of a text in UTF-8."""
    return func(BYTE_LENGTH.get(engine.name, "OCTET_LENGTH"), text)


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


def planned() -> exp.Select:
    """Rows, distinct requests, rows with a blank required column, rows whose template fails or that are too long."""
    unasked, failed = "request_hash IS NULL", f"prompt IS NULL OR {TOO_LONG}"
    kinds = (f"{unasked} AND NOT ({failed})", f"{unasked} AND ({failed})")
    sums = (f"SUM(CASE WHEN {kind} THEN 1 ELSE 0 END)" for kind in kinds)
    return select("COUNT(*)", "COUNT(DISTINCT request_hash)", *sums).from_(symbol("prompts"))


def lengths(engine: Engine, prompts: Step) -> exp.Select:
    """The prompts with the bytes of each in place of its text."""
    length = byte_length(engine, exp.column("prompt", "step"))
    too_long = exp.column(TOO_LONG) if TOO_LONG in prompts.columns else literal(False)
    named = (exp.alias_(length, "prompt"), exp.alias_(too_long, TOO_LONG))
    return select("request_hash", *named).from_(rows_of(prompts))


def counted(values: exp.Query) -> exp.Select:
    """The values of a query's column ``v``, and how often each is there."""
    return select("v", "COUNT(*) AS times").from_(values.subquery("given")).where("v IS NOT NULL").group_by("v")


def no_answers(engine: Engine) -> exp.Select:
    """A table of answers without rows."""
    nulls = (exp.Cast(this=exp.Null(), to=engine.sql_type(kind)) for kind in RESPONSES.values())
    named = (exp.Alias(this=null, alias=identifier(engine, name)) for null, name in zip(nulls, RESPONSES, strict=True))
    return select("*").from_(select(*named).subquery("nothing")).where(literal(False))  # no WHERE without FROM


def answers_as_read(engine: Engine, call: Step) -> exp.Select:
    """The stored answers; what no reading, or one with other facts, has read is read as a run would."""
    table = symbol("responses")
    if not (call.calls_in_sql and engine.updates) or call.reading is None:
        return select("*").from_(table)
    columns = {name: column(engine, name) for name in RESPONSES}
    current = exp.EQ(this=columns["read_by"], expression=call.reading["read_by"])
    kept = exp.or_(exp.Is(this=columns["raw"], expression=exp.Null()), current)
    read = {
        name: case((kept.copy(), columns[name].copy()), default=value.copy()) for name, value in call.reading.items()
    }
    values = (
        exp.Alias(this=read.get(name, columns[name].copy()), alias=identifier(engine, name)) for name in RESPONSES
    )
    return select(*values).from_(table)


def inlined(query: exp.Query, definitions: Mapping[str, exp.Query]) -> exp.Query:
    """A query over roles, with each role that has a definition as a common table expression: no table is read for it.

    A definition may refer to those before it.
    """
    used: set[str] = set()

    def over_names(tree: exp.Query, known: Collection[str]) -> exp.Query:
        tree = tree.copy()
        for found in [one for one in tree.find_all(Symbol) if one.name in known]:
            used.add(found.name)
            table = exp.to_table(f"sqlenrich_{found.name}")
            table.set("alias", found.args.get("alias"))
            found.replace(table)
        return tree

    roles = list(definitions)
    whole = over_names(query, roles)
    parts: list[exp.Expression] = []
    for place, role in reversed(list(enumerate(roles))):
        if role in used:
            alias = exp.TableAlias(this=exp.to_identifier(f"sqlenrich_{role}"))
            parts.insert(0, exp.CTE(this=over_names(definitions[role], roles[:place]), alias=alias))
    own = whole.args.get("with_")
    if parts:
        whole.set("with_", exp.With(expressions=[*parts, *(own.expressions if own is not None else ())]))
    return whole


def joined_by_key(
    engine: Engine, table: exp.Table, incoming: exp.Table, columns: Collection[str], key: Sequence[str]
) -> exp.Query:
    """The rows of a table and of another one, which replace those with the same key. NULL is a key too."""
    names = [column(engine, name) for name in columns]
    kept = exp.select(*(name.copy() for name in names)).from_(exp.alias_(table.copy(), "old", table=True))
    kept = kept.where(exp.Not(this=_same_key(engine, incoming, key)), copy=False)
    return exp.union(exp.select(*names).from_(incoming.copy()), kept, distinct=False)


def joined_rows(engine: Engine, table: exp.Table, incoming: exp.Table, key: Sequence[str]) -> exp.Select:
    """The rows of ``incoming``, and the rows of a table whose key ``incoming`` has: equal once it was joined."""
    given = select("COUNT(*)").from_(incoming.copy())
    found = select("COUNT(*)").from_(exp.alias_(table.copy(), "old", table=True))
    found = found.where(_same_key(engine, incoming, key), copy=False)
    return exp.select(given.subquery(), found.subquery())


def _same_key(engine: Engine, incoming: exp.Table, key: Sequence[str]) -> exp.Exists:
    """Whether a row of ``incoming`` has the key of the row of ``old``."""
    same = (
        exp.NullSafeEQ(this=column(engine, name, "old"), expression=column(engine, name, "incoming")) for name in key
    )
    return exp.Exists(this=select("1").from_(exp.alias_(incoming.copy(), "incoming", table=True)).where(*same))


def count_rows(role: str) -> exp.Select:
    """The rows of a relation."""
    return select("COUNT(*)").from_(symbol(role))


def counts_of(roles: Sequence[str]) -> exp.Select:
    """The rows of some relations, in one row."""
    return select(*(count_rows(role).subquery().as_(f"{role}_rows") for role in roles))


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
    return select("request_hash").from_(symbol("responses")).where(equals("run_id", run_id), "retryable")


def answers_of(run_id: str) -> exp.Select:
    """The number of answers that a run stored."""
    return select("COUNT(*)").from_(symbol("responses")).where(equals("run_id", run_id))


def rows_of_gram(gram: str) -> exp.Select:
    """The number of rows of a classifier's weights with a gram."""
    return select("COUNT(*)").from_(symbol("weights")).where(equals("gram", gram))


def answered_request(model: str) -> exp.Select:
    """The prompt of one request that a model has answered, and the milliseconds of that answer, if they are known."""
    answers = select("request_hash AS answered_hash", "latency_ms AS answered_ms").from_(symbol("responses"))
    answers = answers.where(equals("model", model), "call_error IS NULL")
    found = select("prompt", "answered_ms").from_(symbol("prompts"))
    return found.join(answers.subquery("answered"), on="request_hash = answered_hash").limit(1)


def asked_hashes(run_id: str) -> exp.Select:
    """The hashes that a run asked."""
    return select("request_hash").from_(symbol("responses")).where(equals("run_id", run_id))


def not_retried(reasons: Sequence[str], max_attempts: int) -> exp.Select:
    """Requests refused for some reasons with no attempts left, and requests never asked."""
    refused = exp.In(this=exp.column("_error"), expressions=[literal(code) for code in reasons])
    spent = exp.and_(refused, exp.GTE(this=exp.column("_attempts"), expression=literal(max_attempts)))
    unasked = equals("_error", "NOT_ASKED")
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


def reasons(role: str) -> exp.Select:
    """Each reason of a relation's rows and its count, the most frequent first; the reason of accepted rows is NULL."""
    counted = select("_error", "COUNT(*) AS times").from_(symbol(role)).group_by("_error")
    return counted.order_by("times DESC", "_error")


def unasked_rows() -> exp.Select:
    """The refused rows that no run has asked."""
    return count_rows("quarantine").where(equals("_error", NOT_ASKED))


def usage(run_id: str) -> exp.Select:
    """Per model: answers without token counts; tokens in, cached and out; the same of the answers of batches."""
    chosen = select("model", *_SPENT).from_(symbol("responses")).where(equals("run_id", run_id))
    return chosen.group_by("model").order_by("model")


def usage_by_run(table: exp.Table) -> exp.Select:
    """Per run and model of a table of answers: answers, failures, answers without token counts, tokens in, cached and
    out, the same of the answers of batches."""
    columns = ("run_id", "model", "COUNT(*)", "COUNT(call_error)", *_SPENT)
    return select(*columns).from_(table).group_by("run_id", "model").order_by("run_id", "model")


def served(run_id: str | None = None) -> exp.Select:
    """Of the answers of a run, or to the requests of the prompts: the model that was asked, the model and the
    fingerprint that the answers name, and the number of answers."""
    groups = ("model", "served_model", "served_fingerprint")
    asked = exp.In(this=exp.column("request_hash"), query=select("request_hash").from_(symbol("prompts")).subquery())
    test = asked if run_id is None else equals("run_id", run_id)
    return select(*groups, "COUNT(*)").from_(symbol("responses")).where(test, "call_error IS NULL").group_by(*groups)


def latencies(run_id: str) -> exp.Select:
    """The latencies of a run's answers as ``v``."""
    return select("latency_ms AS v").from_(symbol("responses")).where(equals("run_id", run_id), "call_error IS NULL")


def percentiles(values: exp.Query, shares: Sequence[int], by: Sequence[str] = ()) -> exp.Select:
    """The least value of a query's column ``v`` that a share in a hundred does not exceed, for each share.

    With ``by`` it is that of each group, whose columns come first. Equal values are counted first: the memory grows
    with the distinct ones.
    """
    own = f"PARTITION BY {', '.join(by)}" if by else ""
    counted = select(*by, "v", "COUNT(*) AS times").from_(values.subquery("given")).where("v IS NOT NULL")
    counted = counted.group_by(*by, "v")
    sums = (f"SUM(times) OVER ({own} ORDER BY v) AS upto", f"SUM(times) OVER ({own}) AS total")
    running = select(*by, "v", *sums).from_("counted")
    least = [exp.Min(this=exp.Case(ifs=[exp.If(this=_reached(share), true=exp.column("v"))])) for share in shares]
    found = select(*by, *least).from_("running").with_("counted", as_=counted).with_("running", as_=running)
    return found.group_by(*by) if by else found


def pending_with_bytes(engine: Engine, pending: exp.Query) -> exp.Select:
    """The requests of a pending query and the bytes of their prompts."""
    length = exp.alias_(byte_length(engine, exp.column("prompt")), PROMPT_BYTES)
    return select("*", length).from_(pending.subquery("pending"))


def page(call: Step, after: str | None, count: int) -> exp.Select:
    """The next pending requests in the order of their hashes."""
    found = _requests(call).order_by("request_hash").limit(count)
    return found if after is None else found.where(exp.GT(this=exp.column("request_hash"), expression=literal(after)))


def nth_hash(place: int) -> exp.Select:
    """The hash at a place in the order of the pending hashes."""
    return select("request_hash").from_(symbol("pending")).order_by("request_hash").limit(1).offset(place)


def pending_requests(call: Step, hashes: Sequence[str]) -> exp.Select:
    """The pending requests of some hashes, in their order."""
    found = exp.In(this=exp.column("request_hash"), expressions=[literal(one) for one in hashes])
    return _requests(call).where(found).order_by("request_hash")


def _requests(call: Step) -> exp.Select:
    """The pending requests, without other columns that a backend adds."""
    assert call.pending is not None
    return select(*call.pending.named_selects).from_(symbol("pending"))


def upper_bound(after: str, count: int, among: str = AFTER_ALL) -> exp.Select:
    """The last hash of the next pending requests, their number, and the bytes of their prompts.

    Requests after the hash ``among`` are not looked at.
    """
    found = select("request_hash", PROMPT_BYTES).from_(symbol("pending")).where(*within(after, among))
    found = found.order_by("request_hash").limit(count)
    return select("MAX(request_hash)", "COUNT(*)", f"SUM({PROMPT_BYTES})").from_(found.subquery("following"))


def pending_answers(engine: Engine, call: Step, after: str, upto: str, since: Since, most: int) -> exp.Select:
    """The answers to a range of pending requests: text, error, finish reason, raw, models."""
    columns = ("response", "call_error", "finish_reason", "raw", "model", "served_model")
    found = select(*(f"r.{name}" for name in columns))
    return _of_pending(found, engine, call, after, upto, since).order_by("r.request_hash").limit(most)


def asked_of(engine: Engine, call: Step, after: str, upto: str, since: Since) -> exp.Select:
    """Of the answers to a range of pending requests: their number, failures, failures that may be repeated, answers
    without token counts, tokens in and out."""
    failed, repeatable = "COUNT(call_error)", "SUM(CASE WHEN retryable THEN 1 ELSE 0 END)"
    columns = ("COUNT(*)", failed, repeatable, UNCOUNTED, "SUM(tokens_in)", "SUM(tokens_out)")
    return _of_pending(select(*columns), engine, call, after, upto, since)


def _of_pending(chosen: exp.Select, engine: Engine, call: Step, after: str, upto: str, since: Since) -> exp.Select:
    """A query over the answers ``r`` to a range of the pending requests ``p``; those not read yet are read in it."""
    stored = answers_as_read(engine, call).where(*within(after, upto), *since.conditions())
    asked = select("request_hash", "attempt").from_(symbol("pending")).where(*within(after, upto))
    return chosen.from_(stored.subquery("r")).join(asked.subquery("p"), on=_same_attempt())


@dataclass(frozen=True)
class Since:
    """The stored answers that a run may have written, by their time.

    A warehouse that keeps rows of a day together then reads no older ones. A day more is read: a client whose clock is
    wrong may have stored some. Without a time these are all answers.
    """

    engine: Engine
    at: datetime | None = None

    def conditions(self, alias: str | None = None) -> list[Sql]:
        """Return the conditions on a row of ``responses``."""
        if self.at is None:
            return []
        day = utc_time((self.at - timedelta(days=1)).replace(microsecond=0), self.engine.sql_type(TIMESTAMP))
        return [exp.GTE(this=exp.column("asked_at", alias), expression=day)]


def _lacks_answer(after: str, upto: str, since: Since) -> exp.Not:
    """That a row of ``p`` in a range has no answer of its attempt; only rows of the range and the time are read."""
    found = select("1").from_(symbol("responses", "r"))
    found = found.where(_same_attempt(), *within(after, upto, "r"), *since.conditions("r"))
    return exp.Not(this=exp.Exists(this=found))


def unanswered(after: str, upto: str, since: Since) -> exp.Select:
    """How many pending requests of a range of hashes have no answer of their attempt."""
    pending = symbol("pending", "p")
    return select("COUNT(*)").from_(pending).where(*within(after, upto), _lacks_answer(after, upto, since))


def ranged(call: exp.Query, after: str, upto: str, since: Since, conditions: Sequence[Sql] = ()) -> exp.Query:
    """The query of a call over a range of hashes, without the requests whose attempt is answered already.

    A statement that is repeated after a lost connection then asks nothing again, and none asks where one of
    ``conditions`` fails.
    """
    (pending,) = [found for found in call.find_all(Symbol) if found.name == "pending"]
    reader = pending.find_ancestor(exp.Select)
    assert isinstance(reader, exp.Select)
    pending.set("alias", exp.TableAlias(this=exp.to_identifier("p")))
    reader.where(*within(after, upto), _lacks_answer(after, upto, since), *conditions, copy=False)
    return call


def within(after: str, upto: str, alias: str | None = None) -> tuple[Sql, Sql]:
    """That the hash of a row is after one, up to another."""
    hash_ = exp.column("request_hash", alias)
    return exp.GT(this=hash_, expression=literal(after)), exp.LTE(this=hash_.copy(), expression=literal(upto))


def _same_attempt() -> Sql:
    return exp.and_(
        *(exp.EQ(this=exp.column(name, "r"), expression=exp.column(name, "p")) for name in ("request_hash", "attempt"))
    )


def insert_rows(
    engine: Engine, table: exp.Table, columns: Mapping[str, Type], rows: Sequence[Sequence[object]]
) -> exp.Insert:
    """Rows of constants into a table: typed by the first row, each value as the engine writes it."""
    names = [identifier(engine, name) for name in columns]
    kinds = list(columns.values())
    tuples = [
        exp.Tuple(expressions=[constant(engine, value, kind) for value, kind in zip(row, kinds, strict=True)])
        for row in rows
    ]
    return exp.Insert(this=exp.Schema(this=table, expressions=names), expression=exp.Values(expressions=tuples))


def constant(engine: Engine, value: object, kind: Type) -> Sql:
    """A value as the engine writes it."""
    if value is None or isinstance(value, bool | int | float):
        return literal(value)
    if isinstance(value, datetime):
        return utc_time(value, engine.sql_type(kind))
    text = literal(str(value))
    return text if isinstance(value, str) else exp.Cast(this=text, to=engine.sql_type(kind))


def hash_slice(hash_: Sql, index: int, count: int, *, nulls: bool) -> Sql:
    """The test that a hash is in one of ``count`` equal ranges, from 0; ``nulls``: rows without a hash belong to it."""
    low, high = (literal(bound(n, count, 8) if n else "") for n in (index, index + 1))
    tests: list[Sql] = [exp.GTE(this=hash_.copy(), expression=low)]
    if index + 1 < count:
        tests.append(exp.LT(this=hash_.copy(), expression=high))
    within = exp.and_(*tests)
    return exp.or_(within, exp.Is(this=hash_.copy(), expression=exp.Null())) if nulls else within


def rows_of(step: Step) -> exp.Subquery:
    """The rows of a step, read from the source: no table is made."""
    return exp.Subquery(this=step.query.copy(), alias=exp.TableAlias(this=exp.to_identifier("step")))


def _distinct_hashes(test: Sql) -> Sql:
    chosen = exp.Case(ifs=[exp.If(this=test, true=exp.column("request_hash"))])
    return exp.Count(this=exp.Distinct(expressions=[chosen]))


def _reached(share: int) -> Sql:
    upto = exp.Mul(this=exp.column("upto"), expression=literal(100))
    return exp.GTE(this=upto, expression=exp.Mul(this=literal(share), expression=exp.column("total")))
