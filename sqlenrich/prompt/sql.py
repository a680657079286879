"""A typed text expression to SQL, through an engine's table of text functions.

The table holds, by name: ``upper lower trim ltrim rtrim replace length substr greatest contains startswith endswith
text_bigint text_date matches bigint``, and those of arrays; ``nested_array`` where the engine refuses arrays of
arrays. The rest is the same SQL everywhere and stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

from sqlglot import exp

from ..engines.base import Body, Build, Sql, case, concat, literal, wrapped
from ..errors import PromptError
from ..types import BIGINT, BOOLEAN, DATE, STRING, Array
from .ir import (
    Column,
    Const,
    Element,
    Exists,
    Expr,
    Fail,
    Field,
    If,
    Join,
    Map,
    Op,
    Pick,
    Var,
    Where,
    failure,
    none_possible,
    null_on_failure,
    variables_of,
)

MAX_EXPRESSIONS = 10_000
"""A prompt of more is refused: hundreds of kilobytes of SQL that no warehouse plans well."""

MAX_NODES = 20_000
"""One value of more is refused too: what an engine needs several times, nested, grows with each level."""

ColumnSql = Callable[[str], Sql]

_COMPARISONS: Mapping[str, type[exp.Binary]] = {"lt": exp.LT, "lteq": exp.LTE, "gt": exp.GT, "gteq": exp.GTE}
_ARITHMETIC: Mapping[str, type[exp.Binary]] = {"add": exp.Add, "subtract": exp.Sub}
_DIGITS = r"^[ \t\r\n]*[+-]?[0-9]{1,18}[ \t\r\n]*$"
_DECIMAL = r"^[ \t\r\n]*[+-]?[0-9]{1,9}\.[0-9]{0,5}[ \t\r\n]*$"  # few digits: no double rounds across an integer
_NO_NUMBER = r"^[\x00-\x2a\x2c\x2f\x3a-\x5e\x60-\x7f]*$"  # ASCII without digits, sign, point or underscore
_TITLED = (
    "^[ßİǄ-ǌǱ-ǳև\u10d0-\u10fa\u10fd-\u10ff\u1f80-\u1faf\u1fb2-\u1fb4\u1fb7\u1fbc\u1fc2-\u1fc4\u1fc7\u1fcc"
    "\u1ff2-\u1ff4\u1ff7\u1ffc\ufb00-\ufb06\ufb13-\ufb17]"
)
"""A first letter whose capital in a word is not its upper case, or that has no single lower case: no engine has it."""


def prompt_sql(expr: Expr, text: Mapping[str, Build], column: ColumnSql) -> Sql:
    """Give the SQL of a prompt: its text, NULL where the template fails for the row.

    ``text`` is the engine's table of text functions, ``column`` gives the SQL of a column by its name.
    """
    return _Printer(text, column).safe(expr)


class _Printer:
    def __init__(self, text: Mapping[str, Build], column: ColumnSql) -> None:
        self.text, self.column = text, column
        self.bound: dict[str, Sql] = {}
        self.printed = 0

    def safe(self, expr: Expr) -> Sql:
        """The value, NULL wherever computing it fails."""
        if isinstance(expr, Join):
            return concat(*(self.safe(part) for part in expr.parts))
        if isinstance(expr, If):
            return self.branches(expr, self.safe)
        if null_on_failure(expr) or (broken := failure(expr)) is None:
            return self.value(expr)
        return case((self.holds(broken), literal(None)), default=self.value(expr))

    def branches(self, expr: If, arm: Callable[[Expr], Sql]) -> Sql:
        arms: list[tuple[Sql, Sql]] = []
        rest: Expr = expr
        while isinstance(rest, If):
            if (nothing := self.or_constant(rest)) is not None:
                break
            if (broken := failure(rest.test)) is not None:
                arms.append((self.holds(broken), literal(None)))
            if rest.then != rest.orelse:
                arms.append((self.holds(rest.test), arm(rest.then)))
            rest = rest.orelse
        else:
            nothing = None
        last = nothing if nothing is not None else arm(rest)
        if not arms:
            return last
        return case(*arms, default=None if isinstance(last, exp.Null) else last)

    def or_constant(self, expr: If) -> Sql | None:
        """``'None' if x is none else x`` reads better as COALESCE."""
        match expr:
            case If(Op("is_none", (subject,), _), Const(str() as constant), orelse) if (
                orelse == subject and failure(subject) is None
            ):
                return exp.Coalesce(this=self.value(subject), expressions=[literal(constant)])
        return None

    def value(self, expr: Expr) -> Sql:
        self.printed += 1
        if self.printed > MAX_EXPRESSIONS:
            raise PromptError(
                f"the prompt needs over {MAX_EXPRESSIONS:,} SQL expressions; prepare what is nested in the source query"
            )
        if isinstance(expr.type, Array) and isinstance(expr.type.item, Array) and "nested_array" in self.text:
            return self.text["nested_array"]()
        match expr:
            case Const(value):
                return literal(value)
            case Column(name, _):
                return self.column(name)
            case Field(base, name, kind):
                return self.text["field"](self.value(base), name, kind)
            case Var(name, _, _):
                return self.bound[name].copy()
            case Map(array, item, position, body):
                return self.map(array, item, position, body)
            case Where(array, item, test):
                inner = self.body(item, None, lambda: self.holds(test))
                return self.text["where"](self.value(array), item.name, inner, item.type)
            case Exists(array, item, position, test):
                return self.exists(array, item, position, test)
            case Element(array, index, _, _):
                return self.bounded(self.text["element"](self.value(array), self.value(index), expr.type))
            case Fail():
                return literal(None)
            case Join(parts):
                return exp.Paren(this=concat(*(self.value(part) for part in parts)))
            case If():
                return self.branches(expr, self.value)
            case Pick(subject, arms):
                return self.pick(subject, arms)
        return self.bounded(self.operation(expr))

    def bounded(self, built: Sql) -> Sql:
        if next(islice(built.walk(), MAX_NODES, None), None) is not None:
            raise PromptError(
                f"a value of the prompt needs over {MAX_NODES:,} parts of SQL; prepare it in the source query"
            )
        return built

    def body(self, item: Var, position: Var | None, inner: Callable[[], Sql]) -> Body:
        """A lambda's body as engines want it: a function of the element's and the position's SQL."""

        def build(element: Sql, at: Sql | None) -> Sql:
            before = dict(self.bound)
            self.bound[item.name] = element
            if position is not None and at is not None:
                self.bound[position.name] = at
            try:
                return inner()
            finally:
                self.bound = before

        return build

    def map(self, array: Expr, item: Var, position: Var, body: Expr) -> Sql:
        at = position if position in variables_of(body) else None
        inner = self.body(item, at, lambda: self.safe(body))
        return self.text["map"](self.value(array), item.name, at and at.name, inner, item.type)

    def exists(self, array: Expr, item: Var, position: Var, test: Expr) -> Sql:
        at = position if position in variables_of(test) else None
        inner = self.body(item, at, lambda: self.holds(test))
        return self.text["exists"](self.value(array), item.name, at and at.name, inner, item.type)

    def pick(self, subject: Expr, arms: tuple[tuple[str | int, Expr], ...]) -> Sql:
        whens = [exp.If(this=literal(key), true=self.safe(value)) for key, value in arms]
        return exp.Case(this=self.value(subject), ifs=whens)

    def operation(self, expr: Op) -> Sql:
        args = expr.args
        match expr.name:
            case "printed":
                return exp.Coalesce(this=self.as_text(args[0]), expressions=[literal("")])
            case "text":
                return self.as_text(args[0])
            case "capitalize":
                text = self.value(args[0])
                head = self.text["upper"](self.text["substr"](text, literal(1), literal(1)))
                tail = self.text["substr"](self.text["lower"](text.copy()), literal(2))  # a final sigma looks back
                titled = self.text["matches"](text.copy(), literal(_TITLED))
                return case((titled, literal(None)), default=concat(head, tail))
            case "character":
                text = self.text["substr"](self.value(args[0]), literal(1), literal(1))
                return exp.Nullif(this=text, expression=literal(""))
            case "or_empty":
                return exp.Coalesce(this=self.value(args[0]), expressions=[self.text["array"]()])
            case "int":
                return self.integer(args[0], args[1])
            case "add" | "subtract" as name:
                left, right = (wrapped(self.value(arg)) for arg in args)
                return _ARITHMETIC[name](this=left, expression=right)
        if expr.type == BOOLEAN:
            return self.boolean(expr)
        return self.text[expr.name](*(self.value(arg) for arg in args))

    def as_text(self, expr: Expr) -> Sql:
        value = self.value(expr)
        if expr.type == STRING:
            return value
        if expr.type == BOOLEAN:
            negated = exp.Paren(this=value.copy()) if isinstance(value, exp.Connector) else value.copy()
            return case((value, literal("True")), (exp.Not(this=negated), literal("False")))
        return self.text["text_date" if expr.type == DATE else "text_bigint"](value)

    def integer(self, text: Expr, fallback: Expr) -> Sql:
        """Jinja's int of a text: integers, decimals cut, the fallback for text that is no number, else a failure."""
        value = self.value(text)
        point = self.text["text_index"](value.copy(), literal("."))
        whole_part = self.text["substr"](value.copy(), literal(1), point)
        return case(
            (self.text["matches"](value, literal(_DIGITS)), self.text["bigint"](value.copy())),
            (self.text["matches"](value.copy(), literal(_DECIMAL)), self.text["bigint"](whole_part)),
            (self.text["matches"](value.copy(), literal(_NO_NUMBER)), self.value(fallback)),
        )

    # Booleans: a predicate may be NULL for false (WHERE, WHEN); a value may not, since NOT would lose it.

    def holds(self, expr: Expr) -> Sql:
        match expr:
            case Const(value):
                return literal(bool(value))
            case Op("eq", (a, b), _):
                if none_possible(a) and none_possible(b):
                    return exp.NullSafeEQ(this=self.value(a), expression=self.value(b))
                return exp.EQ(this=self.value(a), expression=self.value(b))
            case Op("in", (subject, *values), _):
                return exp.In(this=self.value(subject), expressions=[self.value(v) for v in values])
            case Op("is_none", (subject,), _):
                return exp.Is(this=self.value(subject), expression=exp.Null())
            case Op("truth", (subject,), _):
                return self.truth(subject)
            case Op("not", (Op("is_none", (subject,), _),), _):
                return exp.Not(this=exp.Is(this=self.value(subject), expression=exp.Null()))
            case Op("not", (Op("truth", (subject,), _),), _) if subject.type == STRING:
                return exp.EQ(
                    this=exp.Coalesce(this=self.value(subject), expressions=[literal("")]), expression=literal("")
                )
            case Op("and" | "or" as name, args, _):
                tests = [self.holds(arg) for arg in args]
                return (exp.and_ if name == "and" else exp.or_)(*tests, copy=False)
        return self.value(expr)

    def boolean(self, expr: Op) -> Sql:
        args = expr.args
        match expr.name:
            case "eq" | "in" | "truth" as name:
                subjects = args if name == "eq" else args[:1]
                test = self.holds(expr)
                null_safe = isinstance(test, exp.NullSafeEQ) or not any(none_possible(a) for a in subjects)
                return test if null_safe else exp.Coalesce(this=test, expressions=[literal(False)])
            case "is_none":
                return self.holds(expr)
            case "not":
                return self.negated(args[0])
            case "and" | "or" as name:
                tests = [exp.Paren(this=self.value(arg)) for arg in args]
                return (exp.and_ if name == "and" else exp.or_)(*tests, copy=False)
            case "lt" | "lteq" | "gt" | "gteq" as name:
                return _COMPARISONS[name](this=self.value(args[0]), expression=self.value(args[1]))
        return self.text[expr.name](*(self.value(arg) for arg in args))

    def negated(self, expr: Expr) -> Sql:
        if isinstance(expr, Op) and expr.name in ("is_none", "truth") and expr.args[0].type == STRING:
            return self.holds(Op("not", (expr,), BOOLEAN))
        value = self.value(expr)
        return exp.Not(this=value if isinstance(value, exp.Coalesce | exp.Anonymous) else exp.Paren(this=value))

    def truth(self, subject: Expr) -> Sql:
        value = self.value(subject)
        if subject.type == STRING:
            return exp.NEQ(this=value, expression=literal(""))
        if subject.type == BIGINT:
            return exp.NEQ(this=value, expression=literal(0))
        if subject.type == BOOLEAN:
            return value
        if isinstance(subject.type, Array):
            return exp.GT(this=self.text["size"](value), expression=literal(0))
        return exp.Not(this=exp.Is(this=value, expression=exp.Null()))
