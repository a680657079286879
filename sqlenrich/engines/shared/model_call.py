"""What the calls of several engines share."""

from __future__ import annotations

from sqlglot import exp

from sqlenrich.core.engine import ModelCall
from sqlenrich.core.errors import UnsupportedError
from sqlenrich.core.sql import Sql, case, concat, literal, record_separator
from sqlenrich.core.text_functions import TextFunctions
from sqlenrich.core.turn import ROW_SYSTEM, text_after_system, text_before


def request_text(call: ModelCall, text: TextFunctions) -> Sql:
    """Return the text that is sent: the turns, the prompt, and the hint. No vendor's function takes turns itself."""
    before = text_before(call.turns)
    parts: list[Sql] = [exp.column("prompt")]
    if ROW_SYSTEM in call.turns:
        parts = [_with_own_system(call, text)]
    elif before:
        parts.insert(0, literal(before))
    if call.hint is not None:
        parts.append(literal("\n\n" + call.hint))
    return parts[0] if len(parts) == 1 else concat(*parts)


def _with_own_system(call: ModelCall, text: TextFunctions) -> Sql:
    """Return the row's own system message, the examples and the prompt; only the last two for an empty message."""
    prompt, before = exp.column("prompt"), text_before(call.turns)
    end = text.text_index(prompt.copy(), record_separator())
    system = text.substr(prompt.copy(), literal(1), end)
    rest = text.substr(prompt.copy(), exp.Add(this=end.copy(), expression=literal(2)))
    alone = text.substr(prompt.copy(), literal(2))
    return case(
        (text.startswith(prompt, record_separator()), concat(literal(before), alone) if before else alone),
        default=concat(system, literal(text_after_system(call.turns)), rest),
    )


def check_length(engine: str, request: ModelCall, length: int | None) -> None:
    """Refuse a model whose vectors are known to have another length. Raises UnsupportedError."""
    wanted = None if request.embedding is None else request.embedding.dimensions
    if length is not None and wanted != length:
        raise UnsupportedError(
            engine,
            f"{request.model} gives vectors of {length:,} numbers, not of {wanted:,}",
            f"write dimensions: {length}",
        )


def select_carried(pending: Sql, call: ModelCall, value: Sql, name: str) -> exp.Select:
    """Return a SELECT of the carried columns and of one value for each pending row."""
    carried = map(exp.column, call.carried)
    same = isinstance(value, exp.Column) and value.name == name
    named = value if same else exp.alias_(value, name, copy=False)
    return exp.select(*carried, named, copy=False).from_(pending, copy=False)
