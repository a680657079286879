"""The typed text expressions that a Jinja template becomes, before any engine prints them.

An expression stands for a Python value of one row. In SQL it is NULL where that value is ``None`` and also where
computing it fails; :func:`none_possible` and :func:`failure` tell the two apart at compile time, so that a printed
``None`` becomes an empty text and a failure makes the whole prompt NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import TypeAlias, TypeVar, dataclass_transform

from ..types import BIGINT, BOOLEAN, DOUBLE, STRING, Array, Decimal, Scalar, Type


class _Hashed:
    """Keeps the hash of an expression: it is compared often, and made of many others."""

    __slots__ = ("_hash",)
    _hash: int


T = TypeVar("T", bound=_Hashed)


@dataclass_transform(frozen_default=True)
def node(kind: type[T]) -> type[T]:
    """Make a class a frozen dataclass that keeps its hash."""
    made = dataclass(frozen=True, slots=True)(kind)
    names = tuple(part.name for part in fields(made))  # type: ignore[arg-type]

    def kept(self: T) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash((kind.__name__, *(getattr(self, name) for name in names))))
            return self._hash

    made.__hash__ = kept  # type: ignore[assignment]
    return made


@node
class Const(_Hashed):
    """A text, number, boolean or None known at compile time."""

    value: str | int | float | bool | None

    def __eq__(self, other: object) -> bool:
        # 1 == True == 1.0 in Python, but they are printed differently.
        return isinstance(other, Const) and repr(self.value) == repr(other.value)

    @property
    def type(self) -> Type:
        """The type of the value; None counts as text."""
        if isinstance(self.value, bool):
            return BOOLEAN
        return BIGINT if isinstance(self.value, int) else DOUBLE if isinstance(self.value, float) else STRING


@node
class Column(_Hashed):
    """A column of the row."""

    name: str
    type: Type


@node
class Field(_Hashed):
    """A field of a struct. Asking a missing struct for one fails, as it does in Jinja."""

    base: Expr
    name: str
    type: Type


@node
class Op(_Hashed):
    """A function of an engine's table, by name. What it does with None stands in :data:`OPERATIONS`."""

    name: str
    args: tuple[Expr, ...]
    type: Type


@node
class If(_Hashed):
    """``then`` where the boolean ``test`` holds, else ``orelse``."""

    test: Expr
    then: Expr
    orelse: Expr

    @property
    def type(self) -> Type:
        """The type of both arms; an arm that is a bare None takes the other's."""
        arm = self.orelse if self.then == Const(None) or isinstance(self.then, Fail) else self.then
        return arm.type


@node
class Pick(_Hashed):
    """The value of the arm whose constant equals ``subject``; fails where there is none."""

    subject: Expr
    arms: tuple[tuple[str | int, Expr], ...]

    @property
    def type(self) -> Type:
        """The type of the arms."""
        return self.arms[0][1].type


@node
class Join(_Hashed):
    """Printed parts, one after another: the text that Jinja writes."""

    parts: tuple[Expr, ...]

    @property
    def type(self) -> Type:
        """Always text."""
        return STRING


@node
class Fail(_Hashed):
    """What Jinja calls undefined: using it fails. With ``error``, computing it fails already.

    With ``blank`` it is what an ``if`` without ``else`` gives: false, and printed as nothing.
    """

    error: bool = False
    blank: bool = False

    @property
    def type(self) -> Type:
        """Counts as text."""
        return STRING


@node
class Var(_Hashed):
    """The element at hand, or its position from 0, inside a :class:`Map`, :class:`Where` or :class:`Exists`."""

    name: str
    type: Type
    nullable: bool = False


@node
class Map(_Hashed):
    """An array of ``body``, evaluated for each element ``item`` of an array at its ``position``."""

    array: Expr
    item: Var
    position: Var
    body: Expr

    @property
    def type(self) -> Type:
        """An array of the body's type."""
        return Array(self.body.type)


@node
class FlatMap(_Hashed):
    """The arrays ``body``, evaluated for each element of an array, one after another in one array."""

    array: Expr
    item: Var
    position: Var
    body: Expr

    @property
    def type(self) -> Type:
        """The type of the body."""
        return self.body.type


@node
class Sort(_Hashed):
    """The elements of an array ordered by ``key``; equal ones keep their order, also where it is ``descending``."""

    array: Expr
    item: Var
    key: Expr
    descending: bool

    @property
    def type(self) -> Type:
        """The type of the array."""
        return self.array.type


@node
class Unique(_Hashed):
    """The first of the elements of an array whose ``key`` is the same; no key may be None."""

    array: Expr
    item: Var
    key: Expr

    @property
    def type(self) -> Type:
        """The type of the array."""
        return self.array.type


@node
class Where(_Hashed):
    """The elements of an array for which ``test`` holds."""

    array: Expr
    item: Var
    test: Expr

    @property
    def type(self) -> Type:
        """The type of the array."""
        return self.array.type


@node
class Exists(_Hashed):
    """Whether ``test`` holds for an element of an array."""

    array: Expr
    item: Var
    position: Var
    test: Expr

    @property
    def type(self) -> Type:
        """Always boolean."""
        return BOOLEAN


@node
class Element(_Hashed):
    """The element at a position from 0, from the end where it is negative. Undefined beyond the ends, where it can be.

    An index of None is undefined, ``first`` and ``last`` of None are an error: they are ``strict``.
    """

    array: Expr
    index: Expr
    inside: bool = False
    strict: bool = False

    @property
    def type(self) -> Type:
        """The type of the elements."""
        assert isinstance(self.array.type, Array)
        return self.array.type.item


Expr: TypeAlias = (
    Const
    | Column
    | Field
    | Op
    | If
    | Pick
    | Join
    | Fail
    | Var
    | Map
    | FlatMap
    | Sort
    | Unique
    | Where
    | Exists
    | Element
)

TRUE, FALSE = Const(True), Const(False)

OPERATIONS: dict[str, str] = {
    # How an operation treats None. "strict": fails where an argument is None. "partial": strict, and may fail on
    # its own, its SQL being NULL exactly then. "total": never fails and never gives None.
    "upper": "partial",  # NULL for characters whose case an engine can't map
    "lower": "partial",  # NULL for characters whose case an engine can't map
    "capitalize": "partial",  # NULL for characters whose case an engine can't map
    "trim": "strict",
    "ltrim": "strict",
    "rtrim": "strict",
    "replace": "strict",
    "length": "strict",
    "substr": "strict",
    "greatest": "strict",
    "contains": "strict",
    "startswith": "strict",
    "endswith": "strict",
    "add": "strict",
    "subtract": "strict",
    "try_add": "partial",
    "try_subtract": "partial",
    "try_multiply": "partial",
    "try_negative": "partial",
    "lt": "strict",
    "lteq": "strict",
    "gt": "strict",
    "gteq": "strict",
    "text": "strict",
    "double_add": "partial",
    "double_subtract": "partial",
    "double_multiply": "partial",
    "double_divide": "partial",
    "double_abs": "strict",
    "double": "strict",
    "exact_double": "partial",
    "modulo": "strict",
    "floor_divide": "partial",
    "is_nan": "strict",
    "year": "strict",
    "month": "strict",
    "day": "strict",
    "hour": "strict",
    "minute": "strict",
    "second": "strict",
    "matches": "strict",
    "round": "partial",
    "round_decimal": "strict",
    "decimal": "total",
    "floor": "partial",
    "ceil": "partial",
    "truncated": "partial",
    "float": "partial",
    "fixed": "partial",
    "strip_zeros": "strict",
    "text_double": "partial",
    "least": "strict",
    "array": "total",
    "or_empty": "total",
    "array_join": "strict",
    "array_concat": "strict",
    "array_slice": "strict",
    "sum": "partial",
    "translate": "strict",
    "cut_word": "strict",
    "sequence": "strict",
    "size": "strict",
    "split": "strict",
    "array_index": "partial",
    "text_index": "partial",
    "character": "partial",
    "written": "strict",
    "picked": "partial",
    "interleaved": "strict",
    "int": "partial",
    "eq": "total",
    "in": "total",
    "is_none": "total",
    "truth": "total",
    "printed": "total",
    "not": "strict",
    "and": "strict",
    "or": "strict",
}


def none_possible(expr: Expr) -> bool:
    """Tell whether a successful evaluation can give None."""
    match expr:
        case Const(value):
            return value is None
        case Column() | Field():
            return True
        case Var(_, _, nullable):
            return nullable
        case Element(array, _, _, _):
            return none_inside(array)
        case If(_, then, orelse):
            return none_possible(then) or none_possible(orelse)
        case Pick(_, arms):
            return any(none_possible(value) for _, value in arms)
    return False


def none_inside(array: Expr) -> bool:
    """Tell whether an array can hold None among its elements."""
    match array:
        case Map(_, _, _, body):
            return none_possible(body)
        case FlatMap(_, _, _, body):
            return none_inside(body)
        case Where(inner, _, _) | Sort(inner, _, _, _) | Unique(inner, _, _):
            return none_inside(inner)
        case Op("array_concat", arrays, _):
            return any(none_inside(array) for array in arrays)
        case Op("array", values, _):
            return any(none_possible(value) for value in values)
        case Op(("array_slice" | "or_empty"), (inner, *_), _):
            return none_inside(inner)
        case Op(("split" | "sequence"), _, _):
            return False
        case If(_, then, orelse):
            return none_inside(then) or none_inside(orelse)
    return True


def failure(expr: Expr) -> Expr | None:
    """Give the boolean expression that holds where evaluating ``expr`` fails, or None where it can't fail."""
    match expr:
        case Fail():
            return TRUE
        case Field(base, _, _):
            return either(failure(base), none(base))
        case Map(array, item, position, body):
            inner = failure(body)
            each = None if inner is None else Exists(array, item, position, inner)
            return either(missing(array), each)
        case FlatMap(array, item, position, body):
            inner = missing(body)
            return either(missing(array), None if inner is None else Exists(array, item, position, inner))
        case Sort(array, item, by, _):
            inner = missing(by)
            if by.type == DOUBLE:
                inner = either(inner, Op("is_nan", (by,), BOOLEAN))
            each = None if inner is None else Exists(array, item, Var(f"{item.name}_at", BIGINT), inner)
            return either(missing(array), each)
        case Where(array, item, test) | Unique(array, item, test):
            inner = failure(test)
            each = None if inner is None else Exists(array, item, Var(f"{item.name}_at", BIGINT), inner)
            return either(missing(array), each)
        case Exists(array, _, _, _):
            return missing(array)
        case Element(array, index, inside, _):
            broken = either(missing(array), missing(index))
            return broken if inside else either(broken, beyond(array, index))
        case If(test, then, orelse):
            in_then, in_else = failure(then), failure(orelse)
            arms = None
            if in_then == TRUE and in_else is None:
                arms = test
            elif in_then is not None or in_else is not None:
                arms = branch(test, in_then or FALSE, in_else or FALSE)
            return either(failure(test), arms)
        case Pick(subject, arms):
            keys = tuple(Const(key) for key, _ in arms)
            unknown = Op("not", (Op("in", (subject, *keys), BOOLEAN),), BOOLEAN)
            broken = either(failure(subject), unknown)
            for key, value in arms:
                if (in_arm := failure(value)) is not None:
                    broken = either(broken, branch(Op("eq", (subject, Const(key)), BOOLEAN), in_arm, FALSE))
            return broken
        case Join(parts):
            broken = None
            for part in parts:
                broken = either(broken, failure(part))
                broken = either(broken, none(part))  # as in text + None; what is printed is never None
            return broken
        case Op(("and" | "or") as name, args, _):
            # Python stops at the first operand that decides: what follows can't fail then.
            broken = failure(args[-1])
            for arg in reversed(args[:-1]):
                if broken is not None:
                    broken = branch(arg, broken, FALSE) if name == "and" else branch(arg, FALSE, broken)
                broken = either(failure(arg), broken)
            return broken
        case Op(name, args, _):
            kind = OPERATIONS[name]
            if kind == "partial":
                return is_none(expr)
            broken = None
            for arg in args:
                broken = either(broken, failure(arg))
                if kind == "strict":
                    broken = either(broken, none(arg))
            return broken
    return None


def at_once(expr: Expr) -> Expr | None:
    """Give the condition that computing ``expr`` fails: not where it is only undefined, an error once it is used."""
    match expr:
        case Fail(error, _):
            return TRUE if error else None
        case Field(base, _, _):
            return failure(base)
        case Pick(subject, _) | Op("character", (subject,), _):
            return failure(subject)
        case Element(array, index, _, strict):
            return either(missing(array) if strict else failure(array), failure(index))
        case If(test, then, orelse):
            in_then, in_else = at_once(then), at_once(orelse)
            if in_then is None and in_else is None:
                return failure(test)
            return failure(
                If(
                    test,
                    Const("") if in_then is None else If(in_then, Fail(True), Const("")),
                    Const("") if in_else is None else If(in_else, Fail(True), Const("")),
                )
            )
        case Map(array, item, position, body):
            inner = at_once(body)
            return either(missing(array), None if inner is None else Exists(array, item, position, inner))
    return failure(expr)


def requiring(broken: Expr | None, value: Expr) -> Expr:
    """Give a value that fails where a condition holds."""
    return value if broken is None else If(broken, Fail(True), value)


def missing(expr: Expr) -> Expr | None:
    """Give the condition that a value fails or is None."""
    return either(failure(expr), none(expr))


def none(expr: Expr) -> Expr | None:
    """Give the condition that a value that does not fail is None, or None where it can't be."""
    if isinstance(expr, If):
        then, orelse = none(expr.then), none(expr.orelse)
        return None if then is orelse is None else branch(expr.test, then or FALSE, orelse or FALSE)
    return is_none(expr) if none_possible(expr) else None


def beyond(array: Expr, index: Expr) -> Expr:
    """Give the condition that an index lies beyond the ends of an array."""
    size = Op("size", (array,), BIGINT)
    if isinstance(index, Const) and isinstance(index.value, int):
        needed = index.value + 1 if index.value >= 0 else -index.value
        return Op("lt", (size, Const(needed)), BOOLEAN)
    after = Op("gteq", (index, size), BOOLEAN)
    before = Op("lt", (index, Op("subtract", (Const(0), size), BIGINT)), BOOLEAN)  # the sum may need over 64 bits
    return Op("or", (after, before), BOOLEAN)


def hidden_failure(expr: Expr) -> Expr | None:
    """Give the condition that ``expr`` fails, but its SQL may not be NULL; None where it always is."""
    match expr:
        case If(test, then, orelse):
            in_then, in_else = hidden_failure(then), hidden_failure(orelse)
            return either(None, branch(test, in_then or FALSE, in_else or FALSE)) if in_then or in_else else None
        case Pick(_, arms):
            return _any(hidden_failure(value) for _, value in arms)
        case Join(args):
            return _any(map(hidden_failure, args))
        case Element(array, index, _, _):
            return _any(map(hidden_failure, (array, index)))
        case Op(name, args, _) if name not in ("and", "or") and OPERATIONS[name] in ("strict", "partial"):
            return _any(map(hidden_failure, args))
        case Map() | FlatMap() | Sort() | Unique() | Where() | Exists() | Op():
            return failure(expr)
    return None


def _any(conditions: Iterable[Expr | None]) -> Expr | None:
    found: Expr | None = None
    for condition in conditions:
        found = either(found, condition)
    return found


def is_none(expr: Expr) -> Expr:
    """Give the test whether a value is None (or failed)."""
    return Op("is_none", (expr,), BOOLEAN)


def either(a: Expr | None, b: Expr | None) -> Expr | None:
    """Give ``a or b`` for two conditions, either of which may be absent; what ``a`` rules out is left out of ``b``."""
    a, b = (None if part == FALSE else part for part in (a, b))
    if a is None or b is None or a == b:
        return a if b is None else b
    if TRUE in (a, b):
        return TRUE
    rest = assuming(b, facts_of(a, False))
    if isinstance(rest, Const):
        return TRUE if rest.value else a
    return Op("or", (a, rest), BOOLEAN)


def either_of(condition: Expr | None) -> Iterator[Expr]:
    """Give the conditions of which one must hold."""
    match condition:
        case Op("or", args, _):
            for arg in args:
                yield from either_of(arg)
        case _ if condition is not None:
            yield condition


def facts_of(condition: Expr, holds: bool) -> dict[Expr, bool]:
    """Give what is known where a condition holds, or does not."""
    match condition:
        case Op("not", (inner,), _):
            return facts_of(inner, not holds)
        case Op(name, args, _) if name == ("and" if holds else "or"):
            return {fact: known for arg in args for fact, known in facts_of(arg, holds).items()}
    return {condition: holds}


def assuming(condition: Expr, facts: dict[Expr, bool]) -> Expr:
    """Give a condition made shorter by what is known of others."""
    if (known := facts.get(condition)) is not None:
        return TRUE if known else FALSE
    match condition:
        case Op("or", (a, b), _):
            return either(assuming(a, facts), assuming(b, facts)) or FALSE
        case Op("and", (a, b), _):
            first = assuming(a, facts)
            return branch(first, assuming(b, facts), FALSE)
        case Op("not", (inner,), _):
            rest = assuming(inner, facts)
            return Const(not rest.value) if isinstance(rest, Const) else Op("not", (rest,), BOOLEAN)
        case If(test, then, orelse):
            return branch(assuming(test, facts), assuming(then, facts), assuming(orelse, facts))
    return condition


def branch(test: Expr, then: Expr, orelse: Expr) -> Expr:
    """Give the condition ``then if test else orelse``."""
    if isinstance(test, Const):
        return then if test.value else orelse
    then, orelse = assuming(then, facts_of(test, True)), assuming(orelse, facts_of(test, False))
    if then == orelse:
        return then
    if orelse == FALSE:
        return test if then == TRUE else Op("and", (test, then), BOOLEAN)
    if then == TRUE:
        return either(test, orelse) or FALSE
    if then == FALSE:
        inverse = Op("not", (test,), BOOLEAN)
        return inverse if orelse == TRUE else Op("and", (inverse, orelse), BOOLEAN)
    return If(test, then, orelse)


def children(expr: Expr) -> tuple[Expr, ...]:
    """Give the expressions that an expression is made of, without the variables it binds."""
    match expr:
        case Field(base, _, _):
            return (base,)
        case Op(_, args, _) | Join(args):
            return args
        case If(test, then, orelse):
            return (test, then, orelse)
        case Pick(subject, arms):
            return (subject, *(value for _, value in arms))
        case Map(array, _, _, body) | FlatMap(array, _, _, body) | Sort(array, _, body, _):
            return (array, body)
        case Where(array, _, body) | Unique(array, _, body):
            return (array, body)
        case Exists(array, _, _, body) | Element(array, body, _, _):
            return (array, body)
    return ()


def columns_of(expr: Expr) -> Iterator[str]:
    """Give the names of the columns that an expression reads, repeated as they occur."""
    if isinstance(expr, Column):
        yield expr.name
    for child in children(expr):
        yield from columns_of(child)


def variables_of(expr: Expr) -> set[Var]:
    """Give the variables of lambdas that an expression reads, its own ones too."""
    return {expr} if isinstance(expr, Var) else set().union(*map(variables_of, children(expr)))


def replaced(expr: Expr, by: dict[Expr, Expr]) -> Expr:
    """Give an expression with some of its parts replaced."""
    if (other := by.get(expr)) is not None:
        return other
    match expr:
        case Field(base, name, kind):
            return Field(replaced(base, by), name, kind)
        case Op(name, args, kind):
            return Op(name, tuple(replaced(arg, by) for arg in args), kind)
        case Join(parts):
            return Join(tuple(replaced(part, by) for part in parts))
        case If(test, then, orelse):
            return If(replaced(test, by), replaced(then, by), replaced(orelse, by))
        case Pick(subject, arms):
            return Pick(replaced(subject, by), tuple((key, replaced(value, by)) for key, value in arms))
        case Map(array, item, position, body):
            return Map(replaced(array, by), item, position, replaced(body, by))
        case FlatMap(array, item, position, body):
            return FlatMap(replaced(array, by), item, position, replaced(body, by))
        case Sort(array, item, key, descending):
            return Sort(replaced(array, by), item, replaced(key, by), descending)
        case Unique(array, item, key):
            return Unique(replaced(array, by), item, replaced(key, by))
        case Where(array, item, test):
            return Where(replaced(array, by), item, replaced(test, by))
        case Exists(array, item, position, test):
            return Exists(replaced(array, by), item, position, replaced(test, by))
        case Element(array, index, inside, strict):
            return Element(replaced(array, by), replaced(index, by), inside, strict)
    return expr


def printed(expr: Expr) -> Expr:
    """Give the text that Jinja prints for a value of a printable type: NULL in SQL only where it fails."""
    if isinstance(expr, Const):
        return Const("" if expr.value is None else str(expr.value))
    if isinstance(expr, Fail) and expr.blank:
        return Const("")
    if isinstance(expr, If):
        return If(expr.test, printed(expr.then), printed(expr.orelse))
    if isinstance(expr, Pick):
        return Pick(expr.subject, tuple((key, printed(value)) for key, value in expr.arms))
    if none_possible(expr):
        text = as_text(expr)
        return If(is_none(expr), Const(""), text) if expr.type == DOUBLE else Op("printed", (expr,), STRING)
    return as_text(expr)


def written(text: Expr) -> Expr:
    """Give a text that was printed where it stands: what failed in printing it fails though nobody reads it."""
    return text if failure(text) is None else Op("written", (text,), STRING)


def as_text(expr: Expr) -> Expr:
    """Give the text of a value that is not None."""
    if isinstance(expr, Const):
        return Const(str(expr.value))
    if isinstance(expr, Op) and expr.name == "round":
        return _text_of_rounded(*expr.args)
    if expr.type == DOUBLE:
        return Op("text_double", (expr, Const(decimals(expr))), STRING)
    return expr if expr.type == STRING else Op("text", (expr,), STRING)


def _text_of_rounded(number: Expr, digits: Expr) -> Expr:
    """Give the text of a rounded double: that of a format, without the zeros that Python leaves out."""
    text = Op("fixed", (number, digits), STRING)
    if digits == Const(0):
        return Join((text, Const(".0")))
    return text if digits == Const(1) else Op("strip_zeros", (text,), STRING)


MAX_DECIMALS = 4
"""Python prints a double below 0.0001 with an exponent."""
MAX_SCALE = 6
"""Python prints a decimal of a larger scale with an exponent where it is small."""


def printable(expr: Expr) -> bool:
    """Tell whether every engine prints a value as Python does."""
    match expr.type:
        case Scalar("double"):
            return decimals(expr) is not None
        case Scalar():
            return True
        case Decimal(_, scale):
            return scale <= MAX_SCALE
    return False


def decimals(expr: Expr) -> int | None:
    """Give how many decimals the text of a double has at most; None where it is not known, or too many to print."""
    match expr:
        case Const(float() as value) if abs(value) < 1e15:
            written = repr(value)
            return None if "e" in written else len(written.partition(".")[2].rstrip("0"))
        case Op("round", (_, Const(int() as digits)), _) if digits <= MAX_DECIMALS:
            return digits
        case Op(("floor" | "ceil" | "double" | "exact_double"), _, _):
            return 0
        case Op("double_abs", (inner,), _):
            return decimals(inner)
        case Op(("double_add" | "double_subtract" | "double_multiply"), (a, b), _) if decimals(a) == decimals(b) == 0:
            return 0
        case Op("double_divide", (a, Const(float() as divisor)), _) if decimals(a) == 0:
            return next((n for n in range(MAX_DECIMALS + 1) if divisor and 10**n % divisor == 0), None)
        case If(_, then, orelse):
            arms = decimals(then), decimals(orelse)
            return None if arms[0] is None or arms[1] is None else max(arms[0], arms[1])
    return None


def blank_possible(expr: Expr) -> bool:
    """Tell whether a value can be that of an ``if`` without ``else``."""
    if isinstance(expr, If):
        return blank_possible(expr.then) or blank_possible(expr.orelse)
    return isinstance(expr, Fail) and expr.blank
