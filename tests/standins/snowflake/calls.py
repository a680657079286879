"""The model's call."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from tests.standins.snowflake.nodes import Node, coerced
from tests.standins.snowflake.scope import CALLS, Row, Scope, node
from tests.standins.snowflake.values import JSON_NULL, OBJECT, VARCHAR, SnowflakeError

_OPTIONS = {"model", "prompt", "model_parameters", "response_format", "show_details", "return_error_details"}


def _ai_complete(tree: exp.Expr, scope: Scope) -> Node:
    """https://docs.snowflake.com/en/sql-reference/functions/ai_complete-single-string: the shape of its details."""
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
        answer, error = ask(sent)
        if error is not None:
            return {"value": JSON_NULL, "error": error}
        choice = {"messages": JSON_NULL if answer is None else answer}
        if isinstance(answer, dict):
            choice = {"structured_output": [{"raw_message": answer}]}
        usage = {"completion_tokens": len(str(answer)), "prompt_tokens": len(sent)}
        return {"value": {"choices": [choice], "usage": usage}, "error": JSON_NULL}

    return Node(OBJECT, value)


CALLS["AI_COMPLETE"] = _ai_complete
