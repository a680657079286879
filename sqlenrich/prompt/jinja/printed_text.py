"""The text that statements print: parts in a row, and guards, which print nothing but may fail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlenrich.prompt.ir.failures import at_once, either_of, failure, requiring
from sqlenrich.prompt.ir.nodes import Const, Expr, Fail, If, Join, none_possible
from sqlenrich.prompt.values.values import Dynamic, Items, Stored, Table


def join(parts: Iterable[Expr]) -> Expr:
    """Give the text of printed parts, neighbouring constants merged."""
    merged: list[Expr] = []
    absent = False
    for part in parts:
        flat = part.parts if isinstance(part, Join) else (part,)
        absent = absent or (isinstance(part, Join) and any(map(none_possible, flat)))
        for piece in flat:
            if isinstance(piece, Const) and merged and isinstance(merged[-1], Const):
                merged[-1] = Const(f"{merged[-1].value}{piece.value}")
            elif piece != Const(""):
                merged.append(piece)
    if not merged:
        return Const("")
    if len(merged) == 1 and absent:  # text + "" fails for None, though nothing is added
        return Join((merged[0], Const("")))
    return merged[0] if len(merged) == 1 else Join(tuple(merged))


def guards(value: Stored) -> list[Expr]:
    """Give empty texts that fail where a value that is set fails: Jinja computes it even where nothing reads it."""
    broken = [at_once(v) for v in parts_of(value) if isinstance(v, Dynamic)]
    return [requiring(condition, Const("")) for condition in broken if condition is not None]


def without_needless(parts: list[Expr]) -> list[Expr]:
    """Leave out the guards that fail only where a part that is printed anyway fails."""
    kept = [part for part in parts if not is_guard(part)]
    if len(kept) == len(parts):
        return parts
    reasons = {reason for part in kept for reason in either_of(failure(part))}
    return [part for part in parts if not is_guard(part) or not reasons.issuperset(either_of(failure(part)))]


def prints_nothing(text: Expr) -> bool:
    """Tell whether a text is empty for every row for which it does not fail."""
    match text:
        case If(_, then, orelse):
            return prints_nothing(then) and prints_nothing(orelse)
        case Join(parts):
            return all(prints_nothing(part) for part in parts)
    return text == Const("") or isinstance(text, Fail)


def is_guard(part: Expr) -> bool:
    """Tell whether a part prints nothing, but may fail."""
    return isinstance(part, If) and part.then == Fail(True) and part.orelse == Const("")


def parts_of(value: Stored) -> Iterator[Stored]:
    """Give the values inside lists and mappings, or the value itself."""
    match value:
        case Items(values):
            for inner in values:
                yield from parts_of(inner)
        case Table(entries):
            for _, inner in entries:
                yield from parts_of(inner)
        case _:
            yield value
