"""ClickHouse's call: ``aiGenerate``, and what it gives.

The url, the key and the provider are in a named collection, which an administrator makes. Parameters are texts in one
constant map; it takes no seed, no stop, no top_p and no schema, and refuses a name that it does not know. Without a system
prompt it sends one of its own. A NULL gives NULL and is not sent. A call that fails gives an empty text: the reason is
lost, and an answer without text looks the same. The answer has neither tokens nor a finish reason. Equal prompts of one
statement are sent once each: each row is a request.
"""

from __future__ import annotations

from sqlglot import exp
from sqlenrich_clickhouse.dialect import CALL
from sqlenrich_clickhouse.text import TEXT

from sqlenrich.core.engine import CallResult, ModelCall, OutputSpec, Reading, ResponseFormat, VendorFact
from sqlenrich.core.sql import Sql, func, given, literal
from sqlenrich.engines.shared.model_call import request_text

COLLECTION = VendorFact("sqlenrich", "the named collection that the script's user makes", "2026-11-25")
NO_SCHEMA = VendorFact("no schema", "system.functions of ClickHouse 26.9: aiGenerate(prompt[, params])", "2026-11-25")
EMPTY = VendorFact("", "aiGenerate of 26.9 against an endpoint that refuses, ai_function_throw_on_error = 0", "2026-11-25")
NO_TEXT = "aiGenerate gave no text: the call failed, or the model answered nothing (temporary failure assumed)"


def response_format(output: OutputSpec) -> ResponseFormat:
    """Return no format, so that the hint describes the output."""
    return ResponseFormat(None, (f"{output.name}: {CALL} takes no schema",))


def call(pending: Sql, request: ModelCall) -> CallResult:
    """Ask through ``aiGenerate``. Its parameters are texts."""
    params = {"credentials": COLLECTION.value, "model": request.model, "system_prompt": "", **request.params}
    pairs = [literal(text) for name, value in params.items() for text in (name, str(value))]
    answer = func(CALL, request_text(request, TEXT), func("map", *pairs))
    return CallResult(pending, func("toJSONString", func("map", literal("text"), func("ifNull", answer, literal("")))))


def read(raw: Sql) -> dict[str, Sql]:
    """Read an answer."""
    text = func("nullIf", func("JSONExtractString", raw, literal("text")), literal(""))
    failed = exp.Is(this=text.copy(), expression=exp.Null())
    return {
        "response": text,
        "call_error": exp.Case(ifs=[exp.If(this=failed, true=literal(NO_TEXT))]),
        "retryable": exp.Not(this=given(text.copy())),
    }


READING = Reading("aiGenerate 1", read)


def must_exist(request: ModelCall) -> list[str]:
    """Return what the script needs beforehand."""
    return [
        f"Needs: CREATE NAMED COLLECTION {COLLECTION.value} AS provider = 'openai',",
        f"endpoint = 'https://.../v1/chat/completions', model = '{request.model}', api_key = '...';",
    ]
