"""The line breaks of printed SQL: sqlglot's own, but a node that fits on a line is not broken."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.generator import Generator

COLUMNS = 100
"""Characters of a line of a script. A literal that is longer is not broken."""
WIDTH = 70
"""Characters of a line without its indentation and what stands before and behind it."""
_STATEMENTS = (exp.Create, exp.Insert, exp.Delete, exp.Update, exp.With, exp.CTE)
"""Nodes that are never on one line."""
_CLAUSES = (exp.From, exp.Join, exp.Where, exp.Group, exp.Having, exp.Qualify, exp.Order, exp.Limit)
"""Nodes that begin a line where their SELECT has several."""
_CHAINS = (exp.DPipe, exp.Add, exp.Sub, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
"""Operators that begin a line where the whole does not fit on one."""
_PRINTED_ONCE = exp.GroupConcat
"""A node that sqlglot changes while it prints it (30.30, BigQuery)."""


class Layout(Generator):
    """What a generator of sqlglot prints in another way. It is mixed into the generator of each dialect."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        # By whether it is pretty: the nodes around a node ask for its text several times. The node is held too, so that
        # its id stays its own.
        self._printed: dict[bool, dict[int, tuple[exp.Expr, str]]] = {True: {}, False: {}}

    def line(self, node: exp.Expr, room: int = WIDTH) -> str | None:
        """Return the node on one line, or None where it does not fit."""
        pretty, self.pretty = self.pretty, False
        try:
            found: str = self.sql(node)
        finally:
            self.pretty = pretty
        return found if len(found) <= room and "\n" not in found else None

    def sql(self, expression: Any, key: str | None = None, comment: bool = True) -> str:
        """Print a node on one line where it fits."""
        if key is not None or not isinstance(expression, exp.Expr):
            return str(super().sql(expression, key, comment))
        printed = self._printed[bool(self.pretty)]
        if id(expression) not in printed:
            text = self._pretty(expression, comment) if self.pretty else str(super().sql(expression, key, comment))
            printed[id(expression)] = (expression, text)
        return printed[id(expression)][1]

    def _pretty(self, expression: exp.Expr, comment: bool) -> str:
        if isinstance(expression, _PRINTED_ONCE):
            return str(self.line(expression, sys.maxsize))
        broken = isinstance(expression, _STATEMENTS) or (
            isinstance(expression, exp.Query) and not isinstance(expression.parent, exp.Expr)
        )
        line = None if broken else self.line(expression)
        if line is None:
            return str(super().sql(expression, None, comment))
        return f"\n{line.strip()}" if isinstance(expression, _CLAUSES) and line[:1] == " " else line

    def case_sql(self, expression: exp.Case) -> str:
        """Print one WHEN a line, its comment above; where one does not fit, its THEN is on the next line."""
        if not self.pretty:
            return str(super().case_sql(expression))
        this = self.sql(expression, "this")
        lines = [f"CASE {this}" if this else "CASE"]
        for arm in expression.args["ifs"]:
            lines += [f"  /* {comment} */" for comment in arm.comments or ()]
            test, value = self.sql(arm.this), self.sql(arm.args["true"])
            whole = f"WHEN {test} THEN {value}"
            if "\n" in whole or len(whole) > WIDTH:
                test, value = (self.indent(text, pad=2, skip_first=True) for text in (test, value))
                whole = f"WHEN {test}\n  THEN {value}"
            lines.append(str(self.indent(whole)))
        if (default := expression.args.get("default")) is not None:
            lines.append(str(self.indent(f"ELSE {self.sql(default)}")))
        return "\n".join([*lines, "END"])

    def between_sql(self, expression: exp.Between) -> str:
        """Print the limits on a line of their own where they do not fit beside the value."""
        return self._behind(expression, str(super().between_sql(expression)))

    def window_sql(self, expression: exp.Window) -> str:
        """Print the window on a line of its own where it does not fit beside the function."""
        return self._behind(expression, str(super().window_sql(expression)))

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        """Print the value of a cast that does not fit on lines of its own."""
        value = f"{self.sql(expression, 'this')} AS {self.sql(expression, 'to')}"
        return self._inside(str(super().cast_sql(expression, safe_prefix)), value)

    def unnest_sql(self, expression: exp.Unnest) -> str:
        """Print an array that does not fit on lines of its own."""
        return self._inside(str(super().unnest_sql(expression)), self.expressions(expression, flat=True))

    def _behind(self, expression: exp.Expr, printed: str) -> str:
        """Break a line that is too long behind the node's operand."""
        operand = self.sql(expression, "this")
        if not self.pretty or len(printed) <= WIDTH or "\n" in printed or not printed.startswith(operand):
            return printed
        return f"{operand}\n{self.indent(printed[len(operand) :].strip())}"

    def _inside(self, printed: str, value: str) -> str:
        """Break a line that is too long in the brackets that open before a value."""
        if not self.pretty or len(printed) <= WIDTH or "\n" in printed:
            return printed
        return printed.replace(f"({value})", f"(\n{self.indent(value)}\n)", 1)

    def in_sql(self, expression: exp.In) -> str:
        """Print each value on a line where they do not fit on one together with what is tested."""
        width = self.max_text_width
        self.max_text_width = WIDTH - len(self.sql(expression, "this"))
        try:
            return str(super().in_sql(expression))
        finally:
            self.max_text_width = width

    def not_sql(self, expression: exp.Not) -> str:
        """Print ``a IS NOT NULL`` and ``a NOT IN (...)``."""
        inner = expression.this
        if isinstance(inner, exp.Is):
            return f"{self.sql(inner.this)} IS NOT {self.sql(inner.expression)}"
        if isinstance(inner, exp.In):
            value = self.sql(inner.this)
            return f"{value} NOT{self.in_sql(inner)[len(value) :]}"
        return super().not_sql(expression)

    def binary(self, expression: exp.Binary, op: str) -> str:
        """Print an operator at the start of a line where its operands do not fit on one."""
        printed = str(super().binary(expression, op))
        if not self.pretty or not isinstance(expression, _CHAINS):
            return printed
        first, *others = (self.sql(one) for one in expression.flatten(unnest=False))
        lines = printed.removeprefix(first.rpartition("\n")[0]).split("\n")
        if max(map(len, lines)) <= WIDTH:
            return printed
        return "\n".join([first, *(str(self.indent(f"{op} {other}")) for other in others)])


@cache
def generator_of(dialect: str) -> type[Generator]:
    """Return the generator of a dialect that prints in this layout."""
    base = sqlglot.Dialect.get_or_raise(dialect).generator_class
    return type(f"{base.__name__}InLines", (Layout, base), {})
