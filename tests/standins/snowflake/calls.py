"""The model's call."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from tests.standins.obedient import reply
from tests.standins.snowflake.nodes import Node, coerced
from tests.standins.snowflake.scope import CALLS, Row, Scope, node
from tests.standins.snowflake.values import JSON_NULL, NUMBER, OBJECT, VARCHAR, VECTOR, SnowflakeError

DEFAULT_MAX_TOKENS = 4096
_OPTIONS = {"model", "prompt", "model_parameters", "response_format", "show_details", "return_error_details"}
_OF_MODEL = ("model_parameters", "response_format")


@dataclass(frozen=True)
class Shaped:
    """A whole answer of AI_COMPLETE, given as it is."""

    given: dict[str, Any]


@dataclass(frozen=True)
class Model:
    """A model that is told the parameters and the response format beside the prompt."""

    answer: Callable[[str, Mapping[str, Any], Mapping[str, Any] | None], tuple[Any, str | None]]

    def __call__(self, prompt: str) -> tuple[Any, str | None]:
        """Answer without parameters."""
        return self.answer(prompt, {}, None)


def obedient(prompt: str, parameters: Mapping[str, Any], form: Mapping[str, Any] | None) -> tuple[Any, str | None]:
    """The obedient model. A structured answer that is cut is error 422, as the vendor's page on them tells.

    https://docs.snowflake.com/en/user-guide/snowflake-cortex/complete-structured-outputs
    """
    most, heat = int(parameters.get("max_tokens", DEFAULT_MAX_TOKENS)), parameters.get("temperature")
    made = reply(prompt, None if form is None else form["schema"], None if heat is None else float(heat), most)
    if made.error is not None or (form is not None and made.cut):
        return None, made.error or "422: the model's output does not fit the schema"
    usage = {"completion_tokens": made.tokens_out, "prompt_tokens": made.tokens_in}
    if form is None:
        return Shaped({"value": {"choices": [{"messages": made.text}], "usage": usage}, "error": JSON_NULL}), None
    output = [{"raw_message": json.loads(str(made.text)), "type": "json"}]
    return Shaped({"value": {"structured_output": output, "usage": usage}, "error": JSON_NULL}), None


def elsewhere(prompt: str, parameters: Mapping[str, Any], form: Mapping[str, Any] | None) -> tuple[Any, str | None]:
    """The obedient model, whose text and tokens stand where no known place is."""
    answer, error = obedient(prompt, parameters, form)
    if error is not None:
        return Shaped({"failure": {"reason": error}}), None
    found = answer.given["value"]
    text = found["choices"][0]["messages"] if form is None else found["structured_output"][0]["raw_message"]
    tokens = {"input_tokens": found["usage"]["prompt_tokens"], "output_tokens": found["usage"]["completion_tokens"]}
    return Shaped({"value": {"reply": {"text": text}, "meter": tokens}, "error": JSON_NULL}), None


def _ai_complete(tree: exp.Expr, scope: Scope) -> Node:
    """https://docs.snowflake.com/en/sql-reference/functions/ai_complete-single-string: the shape of its details.

    A structured answer stands beside ``choices``, not in it: public users and the vendor's own skill read it there.
    """
    arguments = tree.expressions
    given = {part.this.name: part.expression for part in arguments if isinstance(part, exp.Kwarg)}
    ask = scope.environment.ask
    if len(given) != len(arguments) or set(given) - _OPTIONS or not {"model", "prompt"} <= set(given):
        raise SnowflakeError(f"AI_COMPLETE: the arguments {', '.join(given)} are not known here")
    nodes = {name: node(tree, scope) for name, tree in given.items()}
    for name in ("show_details", "return_error_details"):
        if name not in nodes or nodes[name].constant is not True:
            raise SnowflakeError(f"AI_COMPLETE: only with {name} => TRUE is it known here")
    if ask is None:
        raise SnowflakeError("AI_COMPLETE: nothing answers")
    prompt = coerced(nodes["prompt"], VARCHAR, "AI_COMPLETE").value

    def value(row: Row) -> dict[str, Any]:
        sent = prompt(row)
        if sent is None:
            raise SnowflakeError("AI_COMPLETE: a prompt is NULL")
        if isinstance(ask, Model):
            parameters, form = (nodes[name].value(row) if name in nodes else None for name in _OF_MODEL)
            answer, error = ask.answer(sent, parameters or {}, form)
        else:
            answer, error = ask(sent)
        if error is not None:
            return {"value": JSON_NULL, "error": error}
        if isinstance(answer, Shaped):
            return answer.given
        details: dict[str, Any] = {"choices": [{"messages": JSON_NULL if answer is None else answer}]}
        if isinstance(answer, dict):
            details = {"structured_output": [{"raw_message": answer, "type": "json"}]}
        details["usage"] = {"completion_tokens": len(str(answer)), "prompt_tokens": len(sent)}
        return {"value": details, "error": JSON_NULL}

    return Node(OBJECT, value)


def _ai_embed(tree: exp.Expr, scope: Scope) -> Node:
    """https://docs.snowflake.com/en/sql-reference/functions/ai_embed: a VECTOR, or NULL where the call fails, as with
    the behaviour changes of 2026_06."""
    model, prompt = (node(argument, scope) for argument in tree.expressions)
    ask = scope.environment.ask
    if not isinstance(model.constant, str) or ask is None:
        raise SnowflakeError("AI_EMBED: only with a constant model, and where something answers, is it known here")
    text = coerced(prompt, VARCHAR, "AI_EMBED").value

    def value(row: Row) -> list[float] | None:
        sent = text(row)
        if sent is None:
            raise SnowflakeError("AI_EMBED: a text is NULL")
        vector, error = ask(sent)
        return None if error is not None else vector

    return Node(VECTOR, value)


def _ai_count_tokens(tree: exp.Expr, scope: Scope) -> Node:
    """https://docs.snowflake.com/en/sql-reference/functions/ai_count_tokens, of AI_COMPLETE alone. A token a character,
    as in the answers here; no model is asked."""
    function, model, text = (node(argument, scope) for argument in tree.expressions)
    if function.constant != "ai_complete" or not isinstance(model.constant, str):
        raise SnowflakeError("AI_COUNT_TOKENS: only of ai_complete and a constant model is it known here")
    counted = coerced(text, VARCHAR, "AI_COUNT_TOKENS").value

    def value(row: Row) -> int | None:
        sent = counted(row)
        return None if sent is None else len(sent)

    return Node(NUMBER, value)


CALLS["AI_COMPLETE"] = _ai_complete
CALLS["AI_EMBED"] = _ai_embed
CALLS["AI_COUNT_TOKENS"] = _ai_count_tokens
