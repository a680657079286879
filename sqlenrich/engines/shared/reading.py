"""How a vendor's answer, stored as it came, is read: facts that have a source and a date, made into expressions.

The facts are data, so that a wrong one is mended by a path and the stored answers are read again: nothing that was
paid is lost. No expression fails for any text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from sqlglot import exp

from sqlenrich.core.embedding import AFTER, Embedding
from sqlenrich.core.engine import Reading, VendorFact
from sqlenrich.core.functions import SharedFunction
from sqlenrich.core.json import canonical_json
from sqlenrich.core.sql import Sql, all_of, any_of, case, first_of, func, given, literal, one_of
from sqlenrich.core.types import BOOLEAN, STRING
from sqlenrich.engines.shared.retryable import RETRYABLE, retryable

READING_VERSION = 2
"""Part of each reading's name: raise it where this module reads the same facts in another way."""

Places = tuple[VendorFact, ...]
"""Paths such as ``a.b[0].c`` into an answer, in the order in which they are tried."""


@dataclass(frozen=True)
class AnswerFacts:
    """Where the answers of a call hold what. A column without a place is NULL."""

    call: str
    """The name of the call."""
    response: Places
    """The model's text; an object or an array counts as its JSON text."""
    call_error: Places
    """Why the call failed; an empty text is success."""
    null_error: VendorFact | None = None
    """The error of an answer whose text is NULL and that tells none. Without it, the model gave no text."""
    finish_reason: Places = ()
    tokens_in: Places = ()
    tokens_cached: Places = ()
    tokens_out: Places = ()
    tokens_thought: Places = ()
    """Tokens that are billed as output and that ``tokens_out`` does not count."""
    request_id: Places = ()
    served_model: Places = ()
    """The model that gave the answer, by the vendor's own name."""
    served_fingerprint: Places = ()
    finish_words: VendorFact | None = None
    """The vendor's finish reasons under the names of this package; others keep theirs in lower case."""
    finish_by_error: VendorFact | None = None
    """Patterns of errors (lower case) that tell why the model stopped, and the finish reason."""

    @property
    def facts(self) -> dict[str, VendorFact]:
        """Every fact by a name; of several places each has its number."""
        found: dict[str, VendorFact] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, VendorFact):
                found[field.name] = value
            elif isinstance(value, tuple):
                found |= {f"{field.name} {number}": fact for number, fact in enumerate(value, 1)}
        return found

    def changed(self, values: Mapping[str, Any]) -> AnswerFacts:
        """Return the facts with other values, by the names of :attr:`facts`."""
        made: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, VendorFact) and field.name in values:
                made[field.name] = replace(value, value=values[field.name])
            elif isinstance(value, tuple):
                named = ((f"{field.name} {number}", fact) for number, fact in enumerate(value, 1))
                made[field.name] = tuple(replace(fact, value=values.get(name, fact.value)) for name, fact in named)
        return replace(self, **made)

    @property
    def name(self) -> str:
        """The call, and eight digits of a digest of all that decides how its answers are read."""
        values = {name: fact.value for name, fact in self.facts.items()}
        decided = [READING_VERSION, values, list(RETRYABLE)]
        return f"{self.call} {hashlib.sha256(canonical_json(decided).encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class StoredJson:
    """An engine's functions for a stored text, by a path such as ``a.b[0].c``. A text that is no JSON gives NULL."""

    text: Callable[[Sql, str], Sql]
    """A text as it is, another value as its JSON text; NULL for a JSON null and where there is nothing."""
    is_null: Callable[[Sql, Sequence[str]], Sql]
    """``(raw, paths)``: whether a JSON null stands at one of them, where ``text`` gives NULL for all; else false or
    NULL."""
    integer: Callable[[Sql, str], Sql]
    """A bigint; NULL for anything else."""
    matches: Callable[[Sql, Sequence[Sql]], Sql]
    """``(text, parts)``: whether a pattern, written in the part that all engines share, occurs in a text."""
    array: Callable[[Sql, str], Sql] | None = None
    """An array as its JSON text, where ``text`` gives NULL for one."""


def joined(parts: Sequence[Sql]) -> Sql:
    """Return a text that is written in parts."""
    return parts[0] if len(parts) == 1 else func("CONCAT", *parts)


def reading(facts: AnswerFacts, json: StoredJson, embedding: Embedding | None = None) -> Reading:
    """Return the reading of an engine: of a model's text, or of a vector."""
    return Reading(
        facts.name,
        lambda raw: _columns(facts, json, raw, embedding),
        reports_finish="length" in _finish_words(facts).values(),
        facts=facts.facts,
        mended=None if embedding is not None else lambda values: reading(facts.changed(values), json),
    )


def _finish_words(facts: AnswerFacts) -> dict[str, str]:
    found: dict[str, str] = {}
    for fact in (facts.finish_words, facts.finish_by_error):
        found |= {} if fact is None else fact.value
    return found


def _columns(facts: AnswerFacts, json: StoredJson, raw: Sql, embedding: Embedding | None) -> Mapping[str, Sql]:
    error_of = SharedFunction(
        "error", {"raw": STRING}, STRING, lambda raw: _error(facts, json, raw), "why a call failed"
    )
    finish_of = SharedFunction(
        "finish",
        {"raw": STRING},
        STRING,
        lambda raw: _first(json.text, raw, facts.finish_reason) or exp.Null(),
        "why an answer ended, in the vendor's word",
    )
    is_retryable = SharedFunction(
        "retryable",
        {"error": STRING},
        BOOLEAN,
        lambda error: func("COALESCE", json.matches(func("LOWER", error), retryable()), literal(False)),
        "a later attempt may succeed",
    )

    def finish_in(raw: Sql) -> Sql | None:
        return finish_of(raw) if facts.finish_reason else None

    response_of = SharedFunction(
        "response",
        {"raw": STRING},
        STRING,
        lambda raw: _response(facts, json, raw, error_of(raw), finish_in(raw), embedding),
        "the model's text; empty where it gave none",
    )
    error, finish = error_of(raw), finish_in(raw)
    columns: dict[str, Sql] = {
        "response": response_of(raw),
        "call_error": error,
        "retryable": is_retryable(error),
    }
    if finish is not None or facts.finish_by_error is not None:
        columns["finish_reason"] = _finish_reason(facts, json, error, finish)
    for name in ("tokens_in", "tokens_cached"):
        if (count := _first(json.integer, raw, getattr(facts, name))) is not None:
            columns[name] = count
    if (count := _tokens_out(facts, json, raw)) is not None:
        columns["tokens_out"] = count
    for name in ("request_id", "served_model", "served_fingerprint"):
        if (text := _first(json.text, raw, getattr(facts, name))) is not None:
            columns[name] = text
    return columns


def _first(read: Callable[[Sql, str], Sql], raw: Sql, places: Places) -> Sql | None:
    """Return the value at the first place that has one."""
    values = [read(raw.copy(), place.value) for place in places]
    return first_of(values) if values else None


def _error(facts: AnswerFacts, json: StoredJson, raw: Sql) -> Sql:
    values: list[Sql] = [func("NULLIF", json.text(raw.copy(), place.value), literal("")) for place in facts.call_error]
    if facts.null_error is not None:
        nothing = exp.Is(this=_first(json.array or json.text, raw, facts.response), expression=exp.Null())
        is_null = json.is_null(raw.copy(), [place.value for place in facts.response])
        values.append(case((all_of(nothing, is_null), literal(facts.null_error.value))))
    return first_of(values)


def _response(
    facts: AnswerFacts, json: StoredJson, raw: Sql, error: Sql, finish: Sql | None, embedding: Embedding | None
) -> Sql:
    """Return the model's text. Where it gave none, but a known place or a finish reason says so, it is empty."""
    nothing = [json.is_null(raw.copy(), [place.value for place in facts.response])]
    if finish is not None:
        nothing.append(given(finish.copy()))
    succeeded = exp.Is(this=error.copy(), expression=exp.Null())
    empty = case((all_of(succeeded, any_of(*nothing)), literal("")))
    if embedding is None:
        found = [json.text(raw.copy(), place.value) for place in facts.response]
    else:
        read, before, after = json.array or json.text, literal(embedding.before), literal(AFTER)
        vectors = [read(raw.copy(), place.value) for place in facts.response]
        found = [func("CONCAT", before.copy(), vector, after.copy()) for vector in vectors]
    return func("COALESCE", *found, empty)


def _finish_reason(facts: AnswerFacts, json: StoredJson, error: Sql, finish: Sql | None) -> Sql:
    words = {} if facts.finish_words is None else facts.finish_words.value
    found = None if finish is None else func("LOWER", finish.copy())
    if finish is not None and words:
        reasons = {ours: [theirs for theirs, reason in words.items() if reason == ours] for ours in words.values()}
        found = case(
            *((one_of(finish.copy(), *theirs), literal(ours)) for ours, theirs in reasons.items()), default=found
        )
    by_error = {} if facts.finish_by_error is None else facts.finish_by_error.value
    if not by_error:
        assert found is not None
        return found
    tests = [
        (json.matches(func("LOWER", error.copy()), [literal(pattern)]), literal(ours))
        for pattern, ours in by_error.items()
    ]
    return case(*tests, default=found)


def _tokens_out(facts: AnswerFacts, json: StoredJson, raw: Sql) -> Sql | None:
    shown = _first(json.integer, raw, facts.tokens_out)
    thought = _first(json.integer, raw, facts.tokens_thought)
    if shown is None or thought is None:
        return shown
    total = exp.Add(this=shown, expression=func("COALESCE", thought.copy(), literal(0)))
    return func("COALESCE", total, thought)
