"""The text that statements print: a sequence of parts. A guard is a part that prints nothing but can fail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlenrich.prompt.ir.failures import disjuncts, fail_where, failure, immediate_failure
from sqlenrich.prompt.ir.nodes import Concat, Const, Expr, Fail, If, none_possible
from sqlenrich.prompt.values.value import Dynamic, ListValue, MappingValue, Storable


def join(parts: Iterable[Expr]) -> Expr:
    """Concatenate printed parts; adjacent constants become one."""
    merged: list[Expr] = []
    absent = False
    for part in parts:
        flat = part.parts if isinstance(part, Concat) else (part,)
        absent = absent or (isinstance(part, Concat) and any(map(none_possible, flat)))
        for piece in flat:
            if isinstance(piece, Const) and merged and isinstance(merged[-1], Const):
                merged[-1] = Const(f"{merged[-1].value}{piece.value}")
            elif piece != Const(""):
                merged.append(piece)
    if not merged:
        return Const("")
    if len(merged) == 1 and absent:  # text + "" fails for None
        return Concat((merged[0], Const("")))
    return merged[0] if len(merged) == 1 else Concat(tuple(merged))


def guards(value: Storable) -> list[Expr]:
    """Return the guards of a value: Jinja evaluates it even if it is not read."""
    broken = [immediate_failure(v) for v in parts_of(value) if isinstance(v, Dynamic)]
    return [fail_where(condition, Const("")) for condition in broken if condition is not None]


def without_needless(parts: list[Expr]) -> list[Expr]:
    """Leave out the guards that fail only where a printed part fails."""
    kept = [part for part in parts if not is_guard(part)]
    if len(kept) == len(parts):
        return parts
    reasons = {reason for part in kept for reason in disjuncts(failure(part))}
    return [part for part in parts if not is_guard(part) or not reasons.issuperset(disjuncts(failure(part)))]


def prints_nothing(text: Expr) -> bool:
    """Tell whether a text is empty for every row, unless it fails."""
    match text:
        case If(_, then, orelse):
            return prints_nothing(then) and prints_nothing(orelse)
        case Concat(parts):
            return all(prints_nothing(part) for part in parts)
    return text == Const("") or isinstance(text, Fail)


def is_guard(part: Expr) -> bool:
    """Tell whether a part is a guard."""
    return isinstance(part, If) and part.then == Fail(True) and part.orelse == Const("")


def parts_of(value: Storable) -> Iterator[Storable]:
    """Return the values inside lists and mappings, or the value itself."""
    match value:
        case ListValue(values):
            for inner in values:
                yield from parts_of(inner)
        case MappingValue(entries):
            for _, inner in entries:
                yield from parts_of(inner)
        case _:
            yield value
