"""What the calls of several engines share."""

from __future__ import annotations

from sqlglot import exp

from sqlenrich.core.engine import ModelCall
from sqlenrich.core.errors import UnsupportedError
from sqlenrich.core.sql import Sql, concat, literal
from sqlenrich.core.turn import text_before


def request_text(call: ModelCall) -> Sql:
    """Give the text that is sent: the turns, the prompt, and the hint. No vendor's function takes turns for itself."""
    parts: list[Sql] = [exp.column("prompt")]
    if before := text_before(call.turns):
        parts.insert(0, literal(before))
    if call.hint is not None:
        parts.append(literal("\n\n" + call.hint))
    return parts[0] if len(parts) == 1 else concat(*parts)


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
    """Give a SELECT of the carried columns and of one value for each pending row."""
    carried = map(exp.column, call.carried)
    same = isinstance(value, exp.Column) and value.name == name
    named = value if same else exp.alias_(value, name, copy=False)
    return exp.select(*carried, named, copy=False).from_(pending, copy=False)
