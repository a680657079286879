"""What one answer of a model shows of the facts: where it holds what, and how our SQL reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlenrich.core.engine import Engine, ModelCall
from sqlenrich.engines.shared.probes import WORD, Request, places
from sqlenrich.runner.probe_report import FactCheck, Finding, compared, different, line_of, shortened
from sqlenrich.schema import check_response
from sqlenrich.schema.checks.json_text import repair
from sqlenrich.spec.enrichment import Enrichment

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


@dataclass(frozen=True)
class Answer:
    """One answer: what was asked, the vendor's document, and the columns that our SQL reads from it."""

    request: Request
    enrichment: Enrichment
    call: ModelCall
    document: Any
    columns: Mapping[str, Any]


def value_at(document: Any, path: str) -> Any:
    """Return the value at a place such as ``a.b[0].c``; None where there is nothing."""
    for name, index in _STEP.findall(path):
        if index:
            document = document[int(index)] if isinstance(document, list) and int(index) < len(document) else None
        else:
            document = document.get(name) if isinstance(document, dict) else None
    return document


def leaves(document: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Return each value that is neither an object nor an array, with its place."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from leaves(value, f"{path}.{name}" if path else name)
    elif isinstance(document, list):
        for index, value in enumerate(document):
            yield from leaves(value, f"{path}[{index}]")
    else:
        yield path, document


def _shown(
    engine: Engine, column: str, answer: Answer, expected: str, holds: Callable[[Any], bool], elsewhere: Sequence[str]
) -> Finding | None:
    """Return the finding for a column: the known place that holds it, else the places where it seems to stand."""
    known = places(engine, column)
    if not known:
        return None
    for name, fact in known.items():
        if holds(value_at(answer.document, fact.value)):
            return Finding(
                f"{name}: {answer.request.name}",
                f"{expected} at {fact.value}",
                f"at {fact.value}",
                FactCheck.SAME,
                fact.source,
                fact.read_on,
            )
    name, fact = next(iter(known.items()))
    found = f"at {', '.join(elsewhere)}" if elsewhere else "nowhere"
    error = answer.columns.get("call_error")
    found = f"the call failed: {error}" if error else found
    told = f"{expected} at {' or '.join(str(fact.value) for fact in known.values())}"
    return different(f"{name}: {answer.request.name}", told, found, fact)


def _text(engine: Engine, answer: Answer) -> list[Finding]:
    """Where the model's text stands, and whether our SQL reads it from there."""
    elsewhere = [path for path, value in leaves(answer.document) if isinstance(value, str) and WORD in value.lower()]
    finding = _shown(engine, "response", answer, "the text", _has_word, elsewhere)
    response = answer.columns.get("response")
    if finding is not None and finding.result is FactCheck.SAME and not _has_word(response):
        found = f"{finding.found}, but our SQL reads {shortened(response)}"
        finding = replace(finding, found=found, result=FactCheck.DIFFERENT)
    return _findings(finding)


def _has_word(value: Any) -> bool:
    return value is not None and WORD in json.dumps(value).lower()


def _success(engine: Engine, answer: Answer) -> list[Finding]:
    """What stands at the places of the error where the call succeeded."""
    found: list[Finding] = []
    for name, fact in places(engine, "call_error").items():
        value = value_at(answer.document, fact.value)
        told = "nothing" if value is None else shortened(value) if value != "" else "an empty text"
        result = FactCheck.SAME if value in (None, "") else FactCheck.DIFFERENT
        expected = f"nothing or an empty text at {fact.value}"
        found.append(Finding(f"{name}: {answer.request.name}", expected, told, result, fact.source, fact.read_on))
    return found


def _finish(engine: Engine, answer: Answer) -> list[Finding]:
    """Where the reason stands for which the model stopped."""
    elsewhere = [path for path, value in leaves(answer.document) if "finish" in path.lower() and value]
    return _findings(_shown(engine, "finish_reason", answer, "a reason", _is_text, elsewhere))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _tokens(engine: Engine, answer: Answer) -> list[Finding]:
    """Where the numbers of tokens stand."""
    counts = [path for path, value in leaves(answer.document) if "token" in path.lower() and _is_count(value)]
    needed = [_shown(engine, column, answer, "a number", _is_count, counts) for column in ("tokens_in", "tokens_out")]
    more = [_shown(engine, name, answer, "a number", _is_count, ()) for name in ("tokens_cached", "tokens_thought")]
    ids = _shown(engine, "request_id", answer, "an id", _is_text, ())
    # Not every answer has these: a model may have no cache, or think nothing.
    return _findings(*needed, *(each for each in (*more, ids) if each is not None and each.result is FactCheck.SAME))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _format(engine: Engine, answer: Answer) -> list[Finding]:
    """Whether the vendor takes the response format, and the answer fits the schema."""
    response, call = answer.columns.get("response"), engine.facts["call"]
    reason = check_response(answer.enrichment.schema, repair(response, answer.enrichment.repairs))
    found = "an object that fits the schema" if reason is None else f"{reason}: {shortened(response)}"
    result = FactCheck.SAME if reason is None else FactCheck.DIFFERENT
    name = "response format" if answer.call.hint is None else "response format, as a hint in the prompt"
    return [Finding(name, "an object that fits the schema", found, result, call.source, call.read_on)]


def _cut(engine: Engine, answer: Answer) -> list[Finding]:
    """Whether an answer that the limit of tokens has cut is read as such, where the engine tells it."""
    names = [name for name in ("finish_words", "finish_by_error") if name in engine.facts]
    if not names:
        return []
    fact, reason = engine.facts[names[0]], answer.columns.get("finish_reason")
    whole = check_response(answer.enrichment.schema, str(answer.columns.get("response") or "")) is None
    result = FactCheck.SAME if reason == "length" else FactCheck.NOT_SEEN if whole else FactCheck.DIFFERENT
    found = "a whole answer" if result is FactCheck.NOT_SEEN else str(reason)
    if result is FactCheck.DIFFERENT and (error := answer.columns.get("call_error")):
        found = f"{found}, the error {line_of(str(error))}"
    return [Finding(f"{names[0]}: {answer.request.name}", "length", found, result, fact.source, fact.read_on)]


def _error(engine: Engine, answer: Answer) -> list[Finding]:
    """Where the reason stands for which a call failed."""
    if answer.columns.get("response") and not answer.columns.get("call_error"):
        name, fact = next(iter(places(engine, "call_error").items()))
        found = f"the model takes {shortened(answer.request.refused)}"
        fact_name = f"{name}: {answer.request.name}"
        return [Finding(fact_name, "why it failed", found, FactCheck.NOT_SEEN, fact.source, fact.read_on)]
    elsewhere = [path for path, value in leaves(answer.document) if _is_text(value)]
    return _findings(_shown(engine, "call_error", answer, "why it failed", _is_text, elsewhere))


def _call(engine: Engine, answer: Answer) -> list[Finding]:
    """Whether the function answers, and the default model where it was asked."""
    fact, error = engine.facts["call"], answer.columns.get("call_error")
    told = f"failed: {line_of(str(error))}" if error else "answers"
    found = [compared("call", f"{fact.value} answers", f"{fact.value} {told}", fact)]
    default = engine.facts["default_model"]
    if answer.call.model == default.value:
        found.append(compared("default_model", f"{default.value} answers", f"{default.value} {told}", default))
    return found


def _limit(engine: Engine, answer: Answer) -> list[Finding]:
    """How many tokens an answer has for which no limit is given."""
    fact, tokens = engine.facts["max_tokens"], answer.columns.get("tokens_out")
    most, finish = int(fact.value), answer.columns.get("finish_reason")
    if tokens is None:
        found, result = "an answer without a number of tokens", FactCheck.NOT_SEEN
    elif int(tokens) < most and finish != "length":
        found, result = f"{tokens} tokens, the model ended by itself", FactCheck.NOT_SEEN
    else:
        found, result = f"{tokens} tokens", FactCheck.SAME if int(tokens) == most else FactCheck.DIFFERENT
    return [Finding("max_tokens", f"{most} tokens", found, result, fact.source, fact.read_on)]


def _findings(*found: Finding | None) -> list[Finding]:
    return [finding for finding in found if finding is not None]


SHOWS: Mapping[str, Callable[[Engine, Answer], list[Finding]]] = {
    "call": _call,
    "text": _text,
    "success": _success,
    "finish": _finish,
    "tokens": _tokens,
    "format": _format,
    "cut": _cut,
    "limit": _limit,
    "error": _error,
}
