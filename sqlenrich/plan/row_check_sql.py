"""Row checks as SQL of one engine: by its functions of texts and integers, which are proven equal on all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.sql import Sql, case, literal
from sqlenrich.core.types import DOUBLE, Type
from sqlenrich.spec.row_checks import Kind, check_kinds, kind_of, parse_check


def failed_check_sql(
    engine: Engine, checks: Mapping[str, str], kinds: Mapping[str, Kind], value: Callable[[str], Sql]
) -> Sql:
    """Return the name of the first check that a row does not meet, else NULL; ``value`` gives the SQL of a column."""
    branches = []
    for name, written in checks.items():
        test = _Printer(engine, kinds, value).sql(parse_check(name, written))
        branches.append((exp.Not(this=exp.Paren(this=test)), literal(name)))
    return case(*branches)


def condition_sql(
    engine: Engine, name: str, written: str, kinds: Mapping[str, Kind], value: Callable[[str], Sql]
) -> Sql:
    """Return one condition on columns of the results. Raises ValueError with the problem."""
    test = parse_check(name, written)
    check_kinds(name, test, kinds)
    return _Printer(engine, kinds, value).sql(test)


def value_of_results(
    engine: Engine, readings: Mapping[str, Type], answer: Sql, column: Callable[[str], Sql]
) -> Callable[[str], Sql]:
    """Return what gives the SQL of a column of the results: a field of an accepted answer, else a ``column``."""
    json = engine.json
    parsed, get = json.accepted(answer), json.get
    if json.members is not None:
        parsed, get = json.members(parsed, tuple(readings)), json.get_member or get

    def value(name: str) -> Sql:
        if name not in readings:
            return column(name)
        return engine.typed_column(get(parsed.copy(), name), readings[name])

    return value


class _Printer:
    def __init__(self, engine: Engine, kinds: Mapping[str, Kind], value: Callable[[str], Sql]) -> None:
        self.engine, self.text, self.kinds, self.value = engine, engine.text, kinds, value

    def sql(self, node: exp.Expr) -> Sql:
        """Return a part of a condition."""
        of, text = self.sql, self.text
        match node:
            case exp.Column():
                return self.value(node.name)
            case exp.Literal() if not node.is_string and self.kind(node) == "number":
                return exp.Cast(this=node.copy(), to=self.engine.sql_type(DOUBLE))
            case exp.Literal() if node.is_string:
                return literal(node.name)
            case exp.StrPosition():
                found = exp.Add(this=exp.Paren(this=text.text_index(of(node.this), of(node.args["substr"]))),
                                expression=literal(1))  # fmt: skip
                known = exp.Not(this=exp.Is(this=exp.Paren(this=of(node.this)), expression=exp.Null()))
                part = exp.Not(this=exp.Is(this=exp.Paren(this=of(node.args["substr"])), expression=exp.Null()))
                return case((exp.And(this=known, expression=part),
                             exp.Coalesce(this=found, expressions=[literal(0)])))  # fmt: skip
            case exp.Between():
                low, high = (exp.Paren(this=of(node.args[name])) for name in ("low", "high"))
                value = exp.Paren(this=of(node.this))
                both = exp.And(
                    this=exp.GTE(this=value, expression=low), expression=exp.LTE(this=value.copy(), expression=high)
                )
                return exp.Paren(this=both)
            case exp.StartsWith():
                return text.startswith(of(node.this), of(node.expression))
            case exp.Length():
                return text.length(of(node.this))
            case exp.Lower():
                return text.lower(of(node.this))
            case exp.Upper():
                return text.upper(of(node.this))
            case exp.Add() | exp.Sub() | exp.Mul() if self.kind(node) == "integer":
                functions = {exp.Add: text.try_add, exp.Sub: text.try_subtract, exp.Mul: text.try_multiply}
                return self.bounded(functions[type(node)](of(node.left), of(node.right)))
            case exp.Neg() if self.kind(node) == "integer":
                return self.bounded(text.try_negative(of(node.this)))
        made = node.copy()
        for key, part in list(node.args.items()):
            if isinstance(part, exp.Expr):
                made.set(key, of(part))
            elif isinstance(part, list):
                made.set(key, [of(each) if isinstance(each, exp.Expr) else each for each in part])
        return made

    def bounded(self, value: Sql) -> Sql:
        """Return an integer that is NULL beyond 64 bits. Snowflake's sums have more; only its products are bounded."""
        return self.text.try_multiply(value, literal(1))

    def kind(self, node: exp.Expr) -> Kind:
        return kind_of("", node, self.kinds)
