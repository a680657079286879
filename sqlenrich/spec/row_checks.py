"""Row checks: named conditions between an accepted answer and its row, the same on every engine and in Python."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any, Literal, TypeAlias

from sqlglot import exp

from sqlenrich.core.sql import Sql
from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, Decimal, Type
from sqlenrich.spec.condition import columns_of_condition, parse_condition

Kind: TypeAlias = Literal["text", "integer", "number", "boolean", "date", "time", "nested", "null", "unknown"]
FUNCTIONS = (exp.StrPosition, exp.StartsWith)
"""The functions that a check may call beside those of ``where``."""
NOT_IN_CHECKS = (exp.Trim,)
"""What ``where`` may call and a check may not: engines differ in which blanks it takes."""
COMPARISONS: Mapping[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
ARITHMETIC: Mapping[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
}
_KINDS: Mapping[Type, Kind] = {
    STRING: "text",
    BIGINT: "integer",
    DOUBLE: "number",
    BOOLEAN: "boolean",
    DATE: "date",
    TIMESTAMP: "time",
}
_NUMBERS: tuple[Kind, ...] = ("integer", "number")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BIGINT_LIMIT = 2**63


def kind_of_type(kind: Type | None) -> Kind:
    """Return the kind of values of a type; None is a type that is not known yet."""
    if kind is None:
        return "unknown"
    return "number" if isinstance(kind, Decimal) else _KINDS.get(kind, "nested")


def parse_check(name: str, written: object) -> Sql:
    """Return the condition of a check. Raises ValueError with the problem."""
    if not _NAME.fullmatch(name):
        raise ValueError(f'the name of a check has letters, digits and _ only, not "{name}"')
    if not isinstance(written, str) or not written.strip():
        raise ValueError(f"{name} must be a condition in SQL, not {written!r}")
    return _parsed(name, written)


@functools.cache
def _parsed(name: str, written: str) -> Sql:
    return parse_condition(written, what=name, more=FUNCTIONS, less=NOT_IN_CHECKS, instead="write another condition")


def check_kinds(name: str, test: Sql, kinds: Mapping[str, Kind]) -> None:
    """Refuse a condition whose parts do not fit each other. Raises ValueError with the problem.

    ``kinds`` are those of the columns that it may read: the key, kept columns, and the fields of the output.
    """
    for column in columns_of_condition(test):
        if column not in kinds:
            raise ValueError(
                f'{name} reads "{column}", which the results do not have: write it under keep, or name one of '
                f"{', '.join(kinds)}"
            )
    found = kind_of(name, test, kinds)
    if found not in ("boolean", "unknown", "null"):
        raise ValueError(f"{name} is no condition, but a {found}")


def kind_of(name: str, node: exp.Expr, kinds: Mapping[str, Kind]) -> Kind:
    def of(part: exp.Expr) -> Kind:
        return kind_of(name, part, kinds)

    def want(part: exp.Expr, *wanted: Kind) -> Kind:
        found = of(part)
        if found not in (*wanted, "unknown", "null"):
            raise ValueError(f'{name}: "{part.sql()}" is a {found}, where a {" or ".join(wanted)} must stand')
        return found

    match node:
        case exp.Paren():
            return of(node.this)
        case exp.Column():
            return kinds[node.name]
        case exp.Null():
            return "null"
        case exp.Boolean():
            return "boolean"
        case exp.Literal():
            return "text" if node.is_string else "number" if "." in node.name or "e" in node.name.lower() else "integer"
        case exp.Connector():
            want(node.left, "boolean")
            want(node.right, "boolean")
            return "boolean"
        case exp.Not():
            want(node.this, "boolean")
            return "boolean"
        case exp.Is():
            of(node.this)
            if not isinstance(node.expression, exp.Null | exp.Boolean):
                raise ValueError(f'{name}: "{node.sql()}": IS takes NULL, TRUE or FALSE')
            return "boolean"
        case exp.In():
            if node.args.get("query") is not None or not node.expressions:
                raise ValueError(f'{name}: "{node.sql()}": IN takes a list of values')
            _comparable(name, node, [of(node.this), *map(of, node.expressions)])
            return "boolean"
        case exp.Between():
            _comparable(name, node, [of(node.this), of(node.args["low"]), of(node.args["high"])])
            return "boolean"
        case exp.Like():
            want(node.this, "text")
            want(node.expression, "text")
            if not isinstance(node.expression, exp.Literal) or "\\" in node.expression.name:
                raise ValueError(f'{name}: "{node.sql()}": LIKE takes a constant pattern without a backslash')
            return "boolean"
        case exp.StrPosition():
            if set(node.args) - {"this", "substr"} and any(node.args.get(one) for one in ("position", "occurrence")):
                raise ValueError(f'{name}: "{node.sql()}": write position(PART IN TEXT)')
            want(node.this, "text")
            want(node.args["substr"], "text")
            return "integer"
        case exp.StartsWith():
            want(node.this, "text")
            want(node.expression, "text")
            return "boolean"
        case exp.Length():
            want(node.this, "text")
            return "integer"
        case exp.Lower() | exp.Upper():
            want(node.this, "text")
            return "text"
        case exp.DPipe():
            want(node.left, "text")
            want(node.right, "text")
            return "text"
        case exp.Coalesce():
            return _comparable(name, node, [of(node.this), *map(of, node.expressions)])
        case exp.Neg():
            return want(node.this, *_NUMBERS)
        case exp.Add() | exp.Sub() | exp.Mul():
            both = [want(node.left, *_NUMBERS), want(node.right, *_NUMBERS)]
            return "number" if "number" in both else "unknown" if "unknown" in both else "integer"
        case exp.Binary() if type(node) in COMPARISONS:
            _comparable(name, node, [of(node.left), of(node.right)])
            return "boolean"
    raise ValueError(f'{name}: "{node.sql()}" is not the same on all engines')


def _comparable(name: str, node: exp.Expr, kinds: list[Kind]) -> Kind:
    """Return the kind of values that stand beside each other. Raises ValueError where engines differ in it."""
    known = [kind for kind in dict.fromkeys(kinds) if kind not in ("unknown", "null")]
    if "nested" in known:
        raise ValueError(f'{name}: "{node.sql()}" compares an array or a struct: name a field that is neither')
    if len(known) > 1 and not set(known) <= set(_NUMBERS):
        raise ValueError(
            f'{name}: "{node.sql()}" compares a {known[0]} with a {known[1]}, in which engines differ; a column gets '
            "its type under columns"
        )
    return ("number" if "number" in known else known[0]) if known else "unknown"


def failed_check(
    checks: Mapping[str, str],
    kinds: Mapping[str, Kind],
    row: Mapping[str, Any],
    answer: Mapping[str, Any],
) -> str | None:
    """Return the first check that a row with its accepted answer does not meet; None where it meets all.

    A condition that is NULL is met, as that of a CHECK of SQL. ``kinds`` are those of the columns that checks read.
    """
    values = {name: _value({**row, **answer}.get(name), kind) for name, kind in kinds.items()}
    for name, written in checks.items():
        if _evaluate(parse_check(name, written), values) is False:
            return name
    return None


def _value(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    if kind == "integer":
        return int(value)
    if kind == "number":
        return float(value)
    if kind == "date" and isinstance(value, str):
        return date.fromisoformat(value)
    if kind == "time":
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return value


def _evaluate(node: exp.Expr, values: Mapping[str, Any]) -> Any:
    """Return the value of a condition, with the three-valued logic of SQL."""

    def of(part: exp.Expr) -> Any:
        return _evaluate(part, values)

    match node:
        case exp.Paren():
            return of(node.this)
        case exp.Column():
            return values[node.name]
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(node.this)
        case exp.Literal():
            if node.is_string:
                return node.name
            return float(node.name) if "." in node.name or "e" in node.name.lower() else int(node.name)
        case exp.And():
            both = of(node.left), of(node.right)
            return False if False in both else None if None in both else True
        case exp.Or():
            both = of(node.left), of(node.right)
            return True if True in both else None if None in both else False
        case exp.Not():
            found = of(node.this)
            return None if found is None else not found
        case exp.Is():
            return of(node.this) is of(node.expression)
        case exp.In():
            one, many = of(node.this), [of(each) for each in node.expressions]
            return None if one is None else True if one in many else None if None in many else False
        case exp.Between():
            low, high = node.args["low"], node.args["high"]
            return of(exp.and_(exp.GTE(this=node.this, expression=low), exp.LTE(this=node.this, expression=high)))
        case exp.Coalesce():
            return next((found for each in (node.this, *node.expressions) if (found := of(each)) is not None), None)
    parts = [of(part) for part in node.iter_expressions()]
    if None in parts:
        return None
    return _of_values(node, parts)


def _of_values(node: exp.Expr, parts: list[Any]) -> Any:
    if (compare := COMPARISONS.get(type(node))) is not None:
        return compare(*parts)
    if (operate := ARITHMETIC.get(type(node))) is not None:
        return _bounded(operate(*parts))
    match node:
        case exp.Neg():
            return _bounded(-parts[0])
        case exp.Like():
            pattern = re.escape(parts[1]).replace("%", ".*").replace("_", ".")
            return re.fullmatch(pattern, parts[0], re.DOTALL) is not None
        case exp.StrPosition():
            return str(parts[0]).find(parts[1]) + 1
        case exp.StartsWith():
            return str(parts[0]).startswith(parts[1])
        case exp.Length():
            return len(parts[0])
        case exp.Lower():
            return str(parts[0]).lower()
        case exp.Upper():
            return str(parts[0]).upper()
        case exp.DPipe():
            return str(parts[0]) + str(parts[1])
    raise ValueError(node.sql())


def _bounded(value: Any) -> Any:
    """Return an integer of 64 bits; None beyond, as engines are told to."""
    return None if isinstance(value, int) and not -_BIGINT_LIMIT <= value < _BIGINT_LIMIT else value
