"""The trail of one row: its prompt, each attempt with the body that was sent, the verdicts, the reviews."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import literal
from sqlenrich.core.turn import ROW_SYSTEM, SEPARATOR, split_system
from sqlenrich.engines import get_engine
from sqlenrich.plan.relations import RELATIONS
from sqlenrich.quality.audit.checks import REBUILT
from sqlenrich.quality.audit.rebuilt_requests import (
    ANSWERS,
    JUDGED,
    PART,
    PROMPTS,
    RESPONSES,
    RebuiltRequest,
    judging,
    rebuilt_requests,
)
from sqlenrich.schema.checks.repairs import REPAIRS, kept_nulls, repaired_sql
from sqlenrich.store.duckdb.database import quote, text
from sqlenrich.store.duckdb.tables import StoredOutput
from sqlenrich.store.shared_request import SharedRequest

_FACTS = (
    "run_id", "asked_at", "model", "sent_hash", "response", "call_error", "finish_reason", "tokens_in",
    "tokens_cached", "tokens_out", "latency_ms", "request_id",
    "served_model", "served_fingerprint",
)  # fmt: skip


@dataclass(frozen=True)
class Attempt:
    """One attempt at a request: what was sent, what came back, and how it was judged alone."""

    attempt: int
    run_id: str
    asked_at: datetime
    model: str
    sent_hash: str
    body: str | None
    """The request's body as sent; None where it can't be rebuilt, and ``why`` says why."""
    form: str
    why: str
    response: str | None
    call_error: str | None
    finish_reason: str | None
    tokens_in: int | None
    tokens_cached: int | None
    tokens_out: int | None
    latency_ms: int | None
    request_id: str | None
    served_model: str | None
    served_fingerprint: str | None
    repairs: tuple[str, ...]
    """The repairs that changed the text."""
    verdict: str
    """``accepted``, or the reason code and its detail."""


@dataclass(frozen=True)
class Trail:
    """What is known of one row."""

    row: Mapping[str, Any]
    prompt: str | None
    request_hash: str | None
    attempts: tuple[Attempt, ...]
    table: str
    """The table of results that has the row."""
    verdict: str
    values: Mapping[str, Any]
    reviews: tuple[Mapping[str, Any], ...]
    others: int = 0
    """The other rows of the same request."""
    system: str | None = None
    """The row's own system message, with which ``prompt`` begins; None where all rows are told the same."""

    def lines(self) -> Iterator[str]:
        """Return the trail for a terminal."""
        yield ", ".join(f"{name}={value}" for name, value in self.row.items()) + f" of {self.table}: {self.verdict}"
        if self.system:
            yield from _block("system", self.system)
        own = 0 if self.system is None else len(self.system) + len(SEPARATOR)
        yield from _block("prompt", "not stored" if self.prompt is None else self.prompt[own:])
        shared = f", shared with {self.others:,} other rows" if self.others else ""
        yield f"  request {self.request_hash or 'none: the row was not asked'}{shared}"
        for one in self.attempts:
            served = f" answered by {one.served_model}" if one.served_model not in (None, one.model) else ""
            yield f"  attempt {one.attempt}: {one.asked_at} UTC, {one.model}{served}, run {one.run_id}"
            yield from _block("body", one.body if one.body is not None else f"not rebuilt: {one.why}", 4)
            if one.call_error is not None:
                yield f"    call error: {one.call_error}"
            yield from _block("answer", one.response, 4)
            latency = () if one.latency_ms is None else (f"{one.latency_ms} ms",)
            reason = () if one.finish_reason is None else (f"finish_reason {one.finish_reason}",)
            yield "    " + ", ".join((f"{one.tokens_in} tokens in", f"{one.tokens_out} out", *latency, *reason))
            if one.repairs:
                yield f"    repaired: {', '.join(one.repairs)}"
            yield f"    verdict: {one.verdict}"
        for name, value in self.values.items():
            yield f"  {name} = {value}"
        for review in self.reviews:
            yield "  review: " + ", ".join(f"{name}={value}" for name, value in review.items())


def _block(name: str, text: str | None, indent: int = 2) -> Iterator[str]:
    """Return a text under its name; each of its lines is indented."""
    space = " " * indent
    if text is not None:
        yield f"{space}{name}:"
        yield from (f"{space}  {line}" for line in text.split("\n"))


def key_test(stored: StoredOutput, key: Mapping[str, str]) -> str:
    """Return the test that a row has a key, whose values are given as texts."""
    kinds = stored.described(stored.tables["checked"]) or {}
    return " AND ".join(
        f"(CAST({quote(name)} AS VARCHAR) = {text(value)} OR {quote(name)} = TRY_CAST({text(value)} AS {kinds[name]}))"
        for name, value in key.items()
    )


def trails(stored: StoredOutput) -> list[Trail]:
    """Return the trail of each row that the views hold; the answers are checked and judged already."""
    rows = _dicts(stored, f"SELECT * FROM {REBUILT['checked']} ORDER BY ALL")
    requests = {(one.request_hash, one.attempt, one.run_id, one.asked_at): one for one in rebuilt_requests(stored)}
    attempts: dict[str, list[Attempt]] = {}
    for answer in _dicts(stored, f"SELECT * FROM {RESPONSES} ORDER BY request_hash, attempt, asked_at, run_id"):
        request = requests[tuple(answer[name] for name in ("request_hash", "attempt", "run_id", "asked_at"))]
        attempts.setdefault(request.request_hash, []).append(_attempt(stored, answer, request))
    return [_trail(stored, row, attempts.get(row["request_hash"], [])) for row in rows]


def _trail(stored: StoredOutput, row: Mapping[str, Any], attempts: Sequence[Attempt]) -> Trail:
    request, hash_ = stored.request, row["request_hash"]
    prompt = (
        row["prompt"]
        if hash_ is None
        else stored.one(f"SELECT max(prompt) FROM {PROMPTS} WHERE request_hash = ?", hash_)
    )
    accepted = row["_error"] is None
    role = "enriched" if accepted else "quarantine"
    key = " AND ".join(f"{quote(name)} IS NOT DISTINCT FROM ?" for name in (*request.contract.key, "_request_hash"))
    stored_rows = _dicts(
        stored, f"SELECT * FROM {stored.tables[role]} WHERE {key}", *(row[name] for name in request.contract.key), hash_
    )
    names = request.contract.readings if accepted else ()
    values = {name: stored_rows[0].get(name) for name in names} if stored_rows else {}
    asked = stored.tables.get("prompts", stored.tables["checked"])
    others = int(stored.one(f"SELECT count(*) FROM {asked} WHERE request_hash = ?", hash_)) - 1 if hash_ else 0
    return Trail(
        {name: row[name] for name in request.contract.key},
        prompt,
        hash_,
        tuple(attempts),
        RELATIONS[role].format(stored.name),
        _verdict(row),
        values,
        tuple(_reviews(stored, row)),
        others,
        None if prompt is None or ROW_SYSTEM not in request.turns else split_system(request.turns, prompt)[0],
    )


def _attempt(stored: StoredOutput, answer: Mapping[str, Any], request: RebuiltRequest) -> Attempt:
    """Return an attempt with its verdict: that of the rules of its run, over this answer alone."""
    line = stored.lines.get(request.run_id)
    rules = stored.request if line is None or line.request is None else line.request
    identity = " AND ".join(f"{name} = ?" for name in ("request_hash", "attempt", "run_id", "asked_at"))
    values = [answer[name] for name in ("request_hash", "attempt", "run_id", "asked_at")]
    stored.db.execute(f"CREATE OR REPLACE TEMP TABLE {ANSWERS} AS FROM {RESPONSES} WHERE {identity}", values)
    stored.db.execute(
        f"CREATE OR REPLACE TEMP TABLE {PART} AS FROM {PROMPTS} WHERE request_hash = ? LIMIT 1",
        [request.request_hash],
    )
    checked, _, _ = judging(stored, rules, {"prompts": PART, "responses": ANSWERS, "checked": JUDGED})
    (judged,) = _dicts(stored, checked.sql)
    return Attempt(
        request.attempt,
        **{name: answer[name] for name in _FACTS},
        body=None if request.body is None else request.body.decode(),
        form=request.form,
        why=request.why,
        repairs=_repairs(stored, rules, answer["response"]),
        verdict=_verdict(judged),
    )


def _repairs(stored: StoredOutput, rules: SharedRequest, response: str | None) -> tuple[str, ...]:
    """Return the declared repairs that change a text, each after those before it."""
    if response is None:
        return ()
    engine = get_engine("duckdb")
    declared = [name for name in REPAIRS if name in rules.contract.repairs]
    kept = kept_nulls(rules.contract.schema)
    texts = [response]
    for count in range(1, len(declared) + 1):
        tree = repaired_sql(engine.json, engine.text, literal(response), declared[:count], keep_null=kept)
        texts.append(stored.one(f"SELECT {print_sql(engine, tree, pretty=False)}"))
    return tuple(name for name, before, after in zip(declared, texts, texts[1:], strict=False) if before != after)


def _reviews(stored: StoredOutput, row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return what people judged of a row's request; nothing where there is no table of reviews."""
    table = stored.table("reviews")
    found = stored.described(table) or {}
    hashed = next((name for name in ("request_hash", "_request_hash") if name in found), None)
    if hashed is not None:
        yield from _dicts(stored, f"SELECT * FROM {table} WHERE {hashed} = ? ORDER BY ALL", row["request_hash"])


def _verdict(row: Mapping[str, Any]) -> str:
    if row["_error"] is None:
        return "accepted"
    return row["_error"] if row["_error_detail"] is None else f"{row['_error']} {row['_error_detail']}"


def _dicts(stored: StoredOutput, sql: str, *values: Any) -> list[dict[str, Any]]:
    found = stored.fetch(sql, *values)
    names = [str(column[0]) for column in stored.db.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found]
