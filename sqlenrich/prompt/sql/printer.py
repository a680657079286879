"""Print a typed text expression as SQL, with an engine's text functions.

The functions are :class:`sqlenrich.core.text_functions.TextFunctions`. The rest is the same SQL on every engine and
stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

from sqlglot import exp

from sqlenrich.core.errors import PromptError
from sqlenrich.core.sql import Sql, case, concat, double, literal, record_separator
from sqlenrich.core.text_functions import Body, TextFunctions, text_function
from sqlenrich.core.turn import SEPARATOR
from sqlenrich.core.types import BIGINT, BOOLEAN, DOUBLE, STRING, Array, Decimal, Type
from sqlenrich.prompt.ir.failures import assuming, facts_of, failure, failure_without_null
from sqlenrich.prompt.ir.nodes import (
    FALSE,
    Column,
    Concat,
    Const,
    Element,
    Exists,
    Expr,
    Fail,
    Field,
    FlatMap,
    If,
    Map,
    Op,
    Sort,
    Switch,
    Unique,
    Var,
    Where,
    none_possible,
)
from sqlenrich.prompt.ir.traversal import variables_of
from sqlenrich.prompt.sql.arithmetic import arithmetic
from sqlenrich.prompt.values import arrays, per_character

MAX_EXPRESSIONS = 10_000
"""The most SQL expressions of a prompt. More are hundreds of kilobytes of SQL, which no warehouse plans well."""

MAX_NODES = 20_000
"""The most nodes of one value. SQL that an engine repeats grows with each level of nesting."""
ROUNDED = "a list of rounded decimals: it would lose the sign of -0; round them where they are printed"

ColumnSql = Callable[[str], Sql]

_COMPARISONS: Mapping[str, type[exp.Binary]] = {"lt": exp.LT, "lteq": exp.LTE, "gt": exp.GT, "gteq": exp.GTE}
_TITLED = (
    "^[ßİǄ-ǌǱ-ǳև\u10d0-\u10fa\u10fd-\u10ff\u1f80-\u1faf\u1fb2-\u1fb4\u1fb7\u1fbc\u1fc2-\u1fc4\u1fc7\u1fcc"
    "\u1ff2-\u1ff4\u1ff7\u1ffc\ufb00-\ufb06\ufb13-\ufb17]"
)
"""First letters whose title case is not their upper case, or whose lower case is several letters."""


def prompt_sql(expr: Expr, text: TextFunctions, column: ColumnSql) -> Sql:
    """Return the SQL of a prompt: its text, NULL where the template fails for the row.

    ``text`` is the engine's table of text functions, ``column`` gives the SQL of a column by its name.
    """
    return _Printer(text, column).safe(expr)


class _Printer:
    def __init__(self, text: TextFunctions, column: ColumnSql) -> None:
        self.text, self.column = text, column
        self.bound: dict[str, Sql] = {}
        self.known: dict[Expr, bool] = {}
        self.printed = 0

    def safe(self, expr: Expr) -> Sql:
        """Return a value that is NULL wherever evaluating it fails."""
        if isinstance(expr, Concat):
            return concat(*(self.safe(part) for part in expr.parts))
        if isinstance(expr, If):
            return self.branches(expr, self.safe)
        if self.unknown(failure_without_null(expr)) is None or (broken := self.unknown(failure(expr))) is None:
            return self.value(expr)
        return case(
            (self.holds(broken), literal(None)), default=self.knowing(facts_of(broken, False), self.value, expr)
        )

    def unknown(self, broken: Expr | None) -> Expr | None:
        """Simplify a condition by the facts of the CASE branches around it. None: it can't hold."""
        rest = None if broken is None else assuming(broken, self.known)
        return None if rest == FALSE else rest

    def branches(self, expr: If, arm: Callable[[Expr], Sql]) -> Sql:
        arms: list[tuple[Sql, Sql]] = []
        rest: Expr = expr
        before = self.known
        try:
            while isinstance(rest, If):
                if (nothing := self.or_constant(rest)) is not None:
                    break
                if (broken := self.unknown(failure(rest.test))) is not None:
                    arms.append((self.holds(broken), literal(None)))
                    self.known = {**self.known, **facts_of(broken, False)}
                if rest.then != rest.orelse:
                    arms.append((self.holds(rest.test), self.knowing(facts_of(rest.test, True), arm, rest.then)))
                    self.known = {**self.known, **facts_of(rest.test, False)}
                rest = rest.orelse
            else:
                nothing = None
            last = nothing if nothing is not None else arm(rest)
        finally:
            self.known = before
        if not arms:
            return last
        return case(*arms, default=None if isinstance(last, exp.Null) else last)

    def knowing(self, facts: Mapping[Expr, bool], arm: Callable[[Expr], Sql], expr: Expr) -> Sql:
        before = self.known
        self.known = {**before, **facts}
        try:
            return arm(expr)
        finally:
            self.known = before

    def or_constant(self, expr: If) -> Sql | None:
        """Return ``constant if x is none else x`` as COALESCE, which is shorter."""
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
        match expr:
            case Const(float() as number):
                return double(number)
            case Const(value):
                return record_separator() if value == SEPARATOR else literal(value)
            case Column(name, _):
                return self.column(name)
            case Field(base, name, kind):
                return self.text.field(self.value(base), name, kind)
            case Var(name, kind, _):
                return self.unboxed(self.bound[name].copy(), kind)
            case Map(array, item, position, body):
                return self.map(array, item, position, body)
            case FlatMap(array, item, position, body):
                return self.map(array, item, position, body, "flat_map")
            case Sort(array, item, key, descending):
                if self.text.sort is None:
                    return self.value(arrays.by_rank(expr))
                inner = self.body(item, None, lambda: self.value(key))
                return self.text.sort(self.value(array), item.name, inner, item.type, descending)
            case Unique(array, item, key):
                inner = self.body(item, None, lambda: self.value(key))
                return self.text.unique(self.value(array), item.name, inner, item.type)
            case Where(array, item, test):
                inner = self.body(item, None, lambda: self.holds(test))
                return self.text.where(self.value(array), item.name, inner, item.type)
            case Exists(array, item, position, test):
                return self.exists(array, item, position, test)
            case Element(array, index, _, _):
                found = self.text.element(self.value(array), self.value(index), expr.type)
                return self.bounded(self.unboxed(found, expr.type))
            case Fail():
                return literal(None)
            case Concat(parts):
                return exp.Paren(this=concat(*(self.value(part) for part in parts)))
            case If():
                return self.branches(expr, self.value)
            case Switch(subject, arms):
                return self.pick(subject, arms)
        return self.bounded(self.operation(expr))

    def boxed(self, value: Sql, kind: Type) -> Sql:
        """Return a value as an element of an array."""
        return self.text.boxed(value) if isinstance(kind, Array) and self.text.boxed is not None else value

    def unboxed(self, value: Sql, kind: Type) -> Sql:
        return self.text.unboxed(value) if isinstance(kind, Array) and self.text.unboxed is not None else value

    def bounded(self, built: Sql) -> Sql:
        if next(islice(built.walk(), MAX_NODES, None), None) is not None:
            raise PromptError(
                f"a value of the prompt needs over {MAX_NODES:,} parts of SQL; prepare it in the source query"
            )
        return built

    def body(self, item: Var, position: Var | None, inner: Callable[[], Sql]) -> Body:
        """Return a lambda's body as a function of the SQL of the element and of the position."""

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

    def map(self, array: Expr, item: Var, position: Var, body: Expr, name: str = "map") -> Sql:
        at = position if position in variables_of(body) else None
        if _rounds(body):
            raise PromptError(ROUNDED)
        inside = body.type if name == "map" else STRING
        inner = self.body(item, at, lambda: self.boxed(self.safe(body), inside))
        return text_function(self.text, name)(
            self.value(array), item.name, None if at is None else at.name, inner, item.type
        )

    def exists(self, array: Expr, item: Var, position: Var, test: Expr) -> Sql:
        at = position if position in variables_of(test) else None
        inner = self.body(item, at, lambda: self.holds(test))
        return self.text.exists(self.value(array), item.name, None if at is None else at.name, inner, item.type)

    def pick(self, subject: Expr, arms: tuple[tuple[str | int, Expr], ...]) -> Sql:
        if any(_rounds(value) for _, value in arms):
            raise PromptError(ROUNDED)
        whens = [exp.If(this=literal(key), true=self.safe(value)) for key, value in arms]
        return exp.Case(this=self.value(subject), ifs=whens)

    def operation(self, expr: Op) -> Sql:
        if (number := arithmetic(expr, self.text, self.value)) is not None:
            return number
        args = expr.args
        match expr.name:
            case "printed":
                return exp.Coalesce(this=self.as_text(args[0]), expressions=[literal("")])
            case "text":
                return self.as_text(args[0])
            case "capitalize":
                text = self.value(args[0])
                head = self.text.upper(self.text.substr(text, literal(1), literal(1)))
                tail = self.text.substr(self.text.lower(text.copy()), literal(2))  # a final sigma looks back
                titled = self.text.matches(text.copy(), literal(_TITLED))
                return case((titled, literal(None)), default=concat(head, tail))
            case "interleaved":
                return self.value(per_character.interleaved(*args))
            case "array" if any(_rounds(arg) for arg in args):
                raise PromptError(ROUNDED)
            case "picked" | "written":
                return self.value(args[0])
            case "character":
                text = self.text.substr(self.value(args[0]), literal(1), literal(1))
                return exp.Nullif(this=text, expression=literal(""))
            case "or_empty":
                return exp.Coalesce(this=self.value(args[0]), expressions=[self.text.array()])
        if expr.type == BOOLEAN:
            return self.boolean(expr)
        if expr.name == "array":
            return self.text.array(*(self.boxed(self.value(arg), arg.type) for arg in args))
        return text_function(self.text, expr.name)(*(self.value(arg) for arg in args))

    def as_text(self, expr: Expr) -> Sql:
        value = self.value(expr)
        if expr.type == STRING:
            return value
        if isinstance(expr, If) and _rounds(expr):
            return self.branches(expr, self.as_text)
        if expr.type == BOOLEAN:
            if isinstance(value, exp.Null):
                return value
            negated = exp.Paren(this=value.copy()) if isinstance(value, exp.Connector) else value.copy()
            return case((value, literal("True")), (exp.Not(this=negated), literal("False")))
        if isinstance(expr.type, Decimal):
            text = self.text.text_decimal(value, expr.type)
            return self.signed(expr.args[0], value, text) if _rounds(expr) and isinstance(expr, Op) else text
        return text_function(self.text, "text_" + getattr(expr.type, "name", "bigint"))(value)

    def signed(self, before: Expr, rounded: Sql, text: Sql) -> Sql:
        """Return the text of a rounded decimal with the sign of a negative zero, which Python's decimals have."""
        below = exp.LT(this=self.value(before), expression=self.zero(before.type))
        zero = exp.EQ(this=rounded.copy(), expression=literal(0))
        return concat(case((exp.And(this=below, expression=zero), literal("-")), default=literal("")), text)

    def zero(self, kind: Type) -> Sql:
        """Return a zero to compare with. Beside the integer 0, Spark drops digits of a decimal below 1."""
        if isinstance(kind, Decimal) and kind.scale == kind.precision:
            return self.text.decimal(f"{0:.{kind.scale}f}", kind)
        return literal(0)

    # Booleans: a predicate (WHERE, WHEN) may be NULL for false; a value may not, since NOT NULL is NULL.

    def holds(self, expr: Expr) -> Sql:
        match expr:
            case Const(value):
                return literal(bool(value))
            case Op("eq", (a, b), _):
                left, right = _operand(self.value(a)), _operand(self.value(b))
                if none_possible(a) and none_possible(b):
                    return exp.NullSafeEQ(this=left, expression=right)
                return exp.EQ(this=left, expression=right)
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
        return text_function(self.text, expr.name)(*(self.value(arg) for arg in args))

    def negated(self, expr: Expr) -> Sql:
        if isinstance(expr, Op) and expr.name in ("is_none", "truth") and expr.args[0].type == STRING:
            return self.holds(Op("not", (expr,), BOOLEAN))
        value = self.value(expr)
        if isinstance(value, exp.Null):  # BigQuery takes no NOT NULL
            return value
        return exp.Not(this=value if isinstance(value, exp.Coalesce | exp.Anonymous) else exp.Paren(this=value))

    def truth(self, subject: Expr) -> Sql:
        value = self.value(subject)
        if subject.type == STRING:
            return exp.NEQ(this=value, expression=literal(""))
        if subject.type in (BIGINT, DOUBLE) or isinstance(subject.type, Decimal):
            return exp.NEQ(this=value, expression=self.zero(subject.type))
        if subject.type == BOOLEAN:
            return value
        if isinstance(subject.type, Array):
            return exp.GT(this=self.text.size(value), expression=literal(0))
        return exp.Not(this=exp.Is(this=value, expression=exp.Null()))


def _rounds(expr: Expr) -> bool:
    """Tell whether an expression is a rounded decimal, which may be a negative zero in Python."""
    match expr:
        case Op("round_decimal", _, _):
            return True
        case If(_, then, orelse):
            return _rounds(then) or _rounds(orelse)
    return False


def _operand(value: Sql) -> Sql:
    """Return an operand of a comparison in parentheses where it is a predicate itself."""
    return exp.Paren(this=value) if isinstance(value, exp.Predicate | exp.Not | exp.Connector) else value
