"""The loop of a script: it asks a few requests first, then the others in parts."""

from __future__ import annotations

import textwrap
from dataclasses import replace

from sqlglot import exp

from sqlenrich.core.engine import Engine, Scripting
from sqlenrich.core.errors import UnsupportedError
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql, case, concat, data_type, func, literal
from sqlenrich.engines import get_engine
from sqlenrich.plan.checked_step import UNREAD_SHOWN, UNREADABLE
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.plan.references import References
from sqlenrich.plan.relations import Symbol, symbol
from sqlenrich.renderer.statements import (
    JUDGED,
    Statement,
    create_pending,
    insert_into,
    of_prompts,
    read_answers,
    reading_relations,
    responses_table,
    table_statements,
    unread_answers,
)
from sqlenrich.renderer.tables import clean_up, drop_table, guards

PREFLIGHT = 3
"""The requests of the first part: where all fail, nothing else is asked."""
READ = "the columns of answers that are stored and not read yet"
PENDING = "each request once that has no answer, or a failure that may pass"
PROBLEM = "NULL unless the first requests all failed and others are left"
ASK = "the model is asked here and nowhere else"
STOPPED = "sqlenrich stopped: the first requests all failed: "
LOCK_TITLE = "lock: it fails while another run has it; one that was interrupted leaves it: then DROP it first"


def can_loop(plan: Plan) -> bool:
    """Tell whether a script of the plan can ask in a loop: the engine has scripting, and a function that asks."""
    return get_engine(plan.engine).scripting is not None and plan.responses.calls_in_sql


def loop_statements(plan: Plan, chunks: int | None = None, max_requests: int | None = None) -> list[Statement]:
    """Return the statements of a run that asks a few requests, then the others in parts.

    A number of parts or a limit takes a lock, so that a second run ends before it asks. Raises UnsupportedError where
    the engine has no scripting.
    """
    engine = get_engine(plan.engine)
    if engine.scripting is None or not plan.responses.calls_in_sql:
        raise UnsupportedError(plan.engine, "--chunks: its script asks nothing in a loop", "leave it out")
    locked = chunks is not None or max_requests is not None
    return [
        *guards(plan),
        *([lock(plan, engine)] if locked else ()),  # before a table is made anew that another run reads
        *table_statements(engine, plan.step("prompts")),
        responses_table(engine, plan.responses),
        Statement(
            _title(chunks, engine.scripting.most_requests),
            loop(plan, engine, engine.scripting, chunks, max_requests, locked=locked),
        ),
        *([Statement("lock: nothing more is asked", unlock(plan, engine))] if locked else ()),
        *(one for name in JUDGED for one in table_statements(engine, plan.step(name))),
        *clean_up(plan),
    ]


def _title(chunks: int | None, most: int | None) -> str:
    then = "and if one of them succeeds all others (part 1)"
    if chunks is None and most is not None:
        then = f"then the others in parts of about {most:,}, each stored before the next"
    elif chunks is not None and chunks > 1:
        then = f"then the others in {chunks} parts, each stored before the next"
    return f"responses: {PREFLIGHT} requests first (part 0), {then}"


def lock(plan: Plan, engine: Engine) -> Statement:
    """Return the statement that fails while another run asks."""
    since = exp.select(exp.alias_(engine.now(), "since"))
    created = exp.Create(this=plan.relations.table("lock"), kind="TABLE", expression=since)
    return Statement(LOCK_TITLE, print_sql(engine, created))


def unlock(plan: Plan, engine: Engine) -> str:
    """Return the statement that lets others ask."""
    return print_sql(engine, drop_table(plan.relations.table("lock")))


def loop(
    plan: Plan, engine: Engine, scripting: Scripting, chunks: int | None, max_requests: int | None, *, locked: bool
) -> str:
    """Return the statement that asks a part after the other, until each pending request was asked once.

    What is stored is read before the first part and after the last.
    """
    call = plan.responses
    assert call.pending is not None
    if scripting.most_requests is None and chunks is None:
        chunks = 1
    pending: exp.Select = call.pending
    if max_requests is not None:
        pending = exp.select("*").from_(pending.subquery("pending")).order_by("request_hash").limit(max_requests)
    number = str(chunks)
    if chunks is None:
        number = print_sql(engine, exp.Paren(this=call.relations.bound(parts(scripting))))
    own = [of_prompts(engine, call)]
    if scripting.since is not None:
        own.append(exp.GTE(this=exp.column("asked_at"), expression=scripting.since()))
    places = {
        "unread": call.relations.sql(unread_answers(engine, call, own)) if engine.updates else "",
        "read": f"-- {READ}\n{read_answers(engine, call, among=own)};" if engine.updates else "",
        "pending": f"-- {PENDING}\n" + ";\n".join(create_pending(engine, call, pending)),
        "first": print_sql(engine, call.relations.bound(first_hash(engine))),
        "problem": f"-- {PROBLEM}\n{reading_relations(engine, call).sql(problem(engine, scripting, call))}",
        "unlock": unlock(plan, engine) + ";" if locked else "",
        "stopped": print_sql(engine, literal(STOPPED)),
        "parts": number,
        "bound": scripting.bound(chunks),
        "ask": f"-- {ASK}\n{insert_into(engine, part_of(call, scripting))}",
    }
    # A line break inside of a text or a name must stay as it is.
    named = (exp.Literal, exp.Identifier, exp.Var)
    verbatim = any("\n" in node.name for node in call.relations.bound(call.query).find_all(*named))
    lines: list[str] = []
    for line in scripting.block.splitlines():
        filled = line.strip().format(**places)
        indent = line[: len(line) - len(line.lstrip())]
        if filled:
            lines.append(indent + filled if verbatim else textwrap.indent(filled, indent))
    return scripting.finished("\n".join(lines))


def first_hash(engine: Engine) -> exp.Select:
    """The greatest of the first few pending hashes; NULL where nothing is pending."""
    in_order = References(engine).ordered(exp.column("request_hash"))
    few = exp.select("request_hash").from_(symbol("pending")).order_by(in_order).limit(PREFLIGHT)
    return exp.select(exp.Max(this=exp.column("request_hash"))).from_(few.subquery("few"))


def first_reading(plan: Plan) -> Step:
    """Return a step that reads of an answer what the first requests are judged by: it is printed once more."""
    call = plan.responses
    read = {} if call.reading is None else {name: call.reading[name] for name in ("call_error", "response")}
    return replace(call, query=exp.select("1"), reading=read)


def parts(scripting: Scripting) -> exp.Select:
    """The number of parts of the pending requests, each of about so many as a statement may ask."""
    size = exp.Div(this=exp.Count(this=exp.Star()), expression=literal(scripting.most_requests))
    whole = exp.Cast(this=func("CEIL", size), to=data_type("BIGINT"))
    return exp.select(whole).from_(symbol("pending"))


def problem(engine: Engine, scripting: Scripting, call: Step) -> exp.Select:
    """Why all requests of the first part failed: the message of one, or the answer that can't be read; else NULL.

    NULL as well where no other request is left to ask: then the failures are rows of the quarantine. Where an UPDATE
    reads answers, these are not read yet.
    """
    error: Sql = exp.column("call_error", "r")
    response: Sql = exp.column("response", "r")
    if engine.updates and call.reading is not None:
        error, response = (call.reading[name].copy() for name in ("call_error", "response"))
    same = [
        exp.EQ(this=exp.column(name, "r"), expression=exp.column(name, "p")) for name in ("request_hash", "attempt")
    ]
    first = scripting.variable("first_hash")
    within = [exp.LTE(this=exp.column("request_hash", table), expression=first.copy()) for table in ("p", "r")]
    later = exp.GT(this=exp.column("request_hash", "o"), expression=first.copy())
    others = exp.Exists(this=exp.select(literal(1)).from_(symbol("pending", "o")).where(later))
    begins = engine.text.substr(exp.column("raw", "r"), literal(1), literal(UNREAD_SHOWN))
    read = {"failed": error, "given": response, "begins": begins}
    asked = exp.select(*(exp.alias_(value, name) for name, value in read.items())).from_(symbol("responses", "r"))
    asked = asked.join(symbol("pending", "p"), on=exp.and_(*same)).where(*within, others)
    nothing = exp.Is(this=exp.column("given"), expression=exp.Null())
    bad = exp.or_(exp.Not(this=exp.Is(this=exp.column("failed"), expression=exp.Null())), nothing)
    every = exp.EQ(this=exp.Count(this=exp.Star()), expression=exp.Count(this=case((bad, literal(1)))))
    unread = concat(literal(f"UNREADABLE {UNREADABLE}"), exp.Max(this=exp.column("begins")))
    message = func("COALESCE", concat(literal("CALL_ERROR "), exp.Max(this=exp.column("failed"))), unread)
    return exp.select(case((every, message))).from_(asked.subquery("asked"))


def part_of(call: Step, scripting: Scripting) -> Step:
    """Return the step that asks one part of the pending requests: a range of hashes, so that no other is read."""
    query = call.query.copy()
    (pending,) = [found for found in query.find_all(Symbol) if found.name == "pending"]
    hash_ = exp.column("request_hash")
    begins = exp.GT(this=hash_, expression=scripting.variable("after"))
    ends = exp.LTE(this=hash_.copy(), expression=scripting.variable("upto"))
    select = pending.find_ancestor(exp.Select)
    assert isinstance(select, exp.Select)
    select.where(begins, ends, copy=False)
    return replace(call, query=query)
