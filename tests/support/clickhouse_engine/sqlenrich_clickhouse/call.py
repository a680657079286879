"""ClickHouse's call: ``aiGenerate``, and what it gives.

The url, the key and the provider are in a named collection, which an administrator makes. Parameters are texts in one
constant map. It takes no seed, no stop, no top_p and no schema, and refuses a name that it does not know. Without a
system prompt it sends one of its own; an empty one is not sent. A NULL gives NULL and is not sent. A control character
but a tab or a line break is sent as a space: such a prompt is refused here. A call that fails gives an empty text: the
reason is lost, and an answer without text looks the same. The answer has neither tokens nor a finish reason. Each row
is a request.
"""

from __future__ import annotations

from sqlglot import exp

from sqlenrich.core.engine import CallResult, ModelCall, OutputSpec, Reading, ResponseFormat, VendorFact
from sqlenrich.core.sql import Sql, all_of, case, func, literal
from sqlenrich.engines.shared.model_call import request_text

from .dialect import CALL
from .text import TEXT, matches

COLLECTION = VendorFact("sqlenrich", "the named collection that the script's user makes", "2026-11-25")
NO_SCHEMA = VendorFact("no schema", "system.functions of ClickHouse 26.9: aiGenerate(prompt[, params])", "2026-11-25")
EMPTY = VendorFact(
    "", "aiGenerate of 26.9 against an endpoint that refuses, ai_function_throw_on_error = 0", "2026-11-25"
)
CONTROL = VendorFact(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f]", "aiGenerate of 26.9 sends them as spaces to a mock endpoint", "2026-11-25"
)
NO_TEXT = "aiGenerate gave no text: the call failed, or the model answered nothing"
CHANGED = "the prompt holds a control character, which aiGenerate would send as a space"


def response_format(output: OutputSpec) -> ResponseFormat:
    """Return no format, so that the hint describes the output."""
    return ResponseFormat(None, (f"{output.name}: {CALL} takes no schema",))


def call(pending: Sql, request: ModelCall) -> CallResult:
    """Ask through ``aiGenerate``. Its parameters are texts."""
    params = {"credentials": COLLECTION.value, "model": request.model, "system_prompt": "", **request.params}
    pairs = [literal(text) for name, value in params.items() for text in (name, str(value))]
    text = request_text(request, TEXT)
    changed = matches(text, literal(CONTROL.value))
    sent = case((exp.Not(this=changed.copy()), text.copy()))
    answer = func("ifNull", func(CALL, sent, func("map", *pairs)), literal(""))
    problem = case((changed, literal(CHANGED)), default=literal(""))
    return CallResult(pending, func("toJSONString", func("map", literal("text"), answer, literal("error"), problem)))


def read(raw: Sql) -> dict[str, Sql]:
    """Read an answer. An empty text is a failure that may pass, since nothing tells it from one."""

    def found(name: str) -> Sql:
        return func("nullIf", func("JSONExtractString", raw.copy(), literal(name)), literal(""))

    nothing = exp.Is(this=found("text"), expression=exp.Null())
    return {
        "response": found("text"),
        "call_error": func("coalesce", found("error"), case((nothing, literal(NO_TEXT)))),
        "retryable": all_of(nothing.copy(), exp.Is(this=found("error"), expression=exp.Null())),
    }


READING = Reading("aiGenerate 1", read)


def must_exist(request: ModelCall) -> list[str]:
    """Return what the script needs beforehand."""
    return [
        f"Needs: CREATE NAMED COLLECTION {COLLECTION.value} AS provider = 'openai',",
        f"endpoint = 'https://.../v1/chat/completions', model = '{request.model}', api_key = '...';",
    ]
