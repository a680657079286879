"""The line breaks of printed SQL: a node that fits on a line is not broken."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.generator import Generator

WIDTH = 147
"""Characters of a line without its indentation."""
INDENTATION = 10
"""Characters of a usual indentation, which a line without one may have more."""
RULES = 3
"""Replacements in one another that are printed as a list."""
FEW = 2
"""Items of a list of which the last one may take several lines beside its SELECT."""
NAME = 20
"""Characters that the name of a CASE takes behind its END."""
NAMES = 16
"""Characters that the names of functions around a function take on its first line."""
CALLS = 24
"""Characters that they take where several are in each other."""
SHORT_OPERAND = 80
"""Characters of a condition that shares its line with others."""
SHORT_QUERY = 100
"""Characters of a query that stands on one line."""
_NAMED = re.compile(r"FROM [`\"]?\w+[`\"]?")
"""A clause that reads one relation under its own name."""
_CLAUSES = (
    exp.Query, exp.Create, exp.Insert, exp.Delete, exp.Update, exp.Schema, exp.With, exp.CTE, exp.From, exp.Join,
    exp.Where, exp.Group, exp.Having, exp.Qualify, exp.Order, exp.Limit,
)  # fmt: skip
"""Nodes whose clauses stand on lines of their own."""
SHORT = 90
"""Characters of a list's item that shares its line with others."""
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_WORDS: dict[type[exp.Expr], str] = {exp.And: "AND", exp.Or: "OR", exp.Xor: "XOR"}
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
        """Give the node on one line, or None where it does not fit."""
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
        line = None if isinstance(expression, _CLAUSES) else self.line(expression)
        query = expression.this if isinstance(expression, exp.Subquery) else expression
        if isinstance(query, exp.Select) and not query.args.get("with_"):
            line = self.line(expression, SHORT_QUERY if expression is query else WIDTH)
        return str(super().sql(expression, None, comment)) if line is None else line

    def create_sql(self, expression: exp.Create) -> str:
        """Print the properties of a table on the line where its name or its columns end, if they fit."""
        printed = str(super().create_sql(expression))
        listed = self.sql(expression, "properties") if self.pretty else ""
        before, found, after = printed.partition(f"\n{listed}") if listed else (printed, "", "")
        fits = found and len(before.rsplit("\n", 1)[-1]) + len(listed) < WIDTH
        return f"{before} {listed}{after}" if fits else printed

    def alias_sql(self, expression: exp.Alias) -> str:
        """Break a CASE that does not fit beside its name."""
        if self.pretty and isinstance(expression.this, exp.Case):
            return f"{self.case_sql(expression.this)} AS {self.sql(expression, 'alias')}"
        return str(super().alias_sql(expression))

    def case_sql(self, expression: exp.Case) -> str:
        """Print one WHEN a line, its comment before the test; where one does not fit, its THEN is on the next line.

        A single WHEN stands beside its CASE. The END stands behind it, or behind an ELSE.
        """
        if not self.pretty:
            return str(super().case_sql(expression))
        this = self.sql(expression, "this")
        lines = [f"CASE {this}" if this else "CASE"]
        for arm in expression.args["ifs"]:
            noted = "".join(f"/* {comment} */ " for comment in arm.comments or ())
            whole = self.line(arm.this), self.line(arm.args["true"])
            if None not in whole and len(noted) + len(whole[0] or "") + len(whole[1] or "") <= WIDTH - len(" THEN"):
                lines.append(f"  WHEN {noted}{whole[0]} THEN {whole[1]}")
                continue
            test, value = self.sql(arm.this), self.sql(arm.args["true"])
            if noted and len(noted) + len(test.split("\n", 1)[0]) > WIDTH:
                lines.append(f"  {noted.strip()}")
            else:
                test = noted + test
            last, first = test.rsplit("\n", 1)[-1], value.split("\n", 1)[0]
            if "\n" in test + value and len(last) + len(first) + 11 <= WIDTH:
                # A bracket that closes below its WHEN needs no further indentation.
                below = test if last[0] == ")" else self.indent(test, skip_first=True)
                lines.append(self.indent(f"WHEN {below} THEN {value}"))
                continue
            lines.append(f"  WHEN {self.indent(test, pad=4, skip_first=True)}")
            lines.append(f"    THEN {self.indent(value, pad=4, skip_first=True)}")
        if (default := expression.args.get("default")) is not None:
            lines.append(f"  ELSE {self.indent(self.sql(default), skip_first=True)}")
        elif len(lines) == 2 and len(lines[0]) + len(lines[1].lstrip().split("\n", 1)[0]) < WIDTH:
            lines = [f"{lines[0]} {lines[1].lstrip()}".replace("\n  ", "\n")]
        elif len(lines) == 3 and len(expression.args["ifs"]) == 1:
            lines = ["\n".join([f"{lines[0]} {lines[1].lstrip()}", lines[2]]).replace("\n  ", "\n")]
        else:
            return "\n".join([*lines, "END"])
        beside = len(lines[-1].rsplit("\n", 1)[-1]) + len(" END") + NAME <= WIDTH
        return "\n".join(lines) + (" END" if beside else "\nEND")

    def in_sql(self, expression: exp.In) -> str:
        """Print the values in full lines."""
        if not self.pretty or not expression.expressions:
            return str(super().in_sql(expression))
        start = f"{self.sql(expression, 'this')} IN ("
        values = filled([self.sql(one) for one in expression.expressions], before=len("WHEN " + start))
        return f"{start}{self.indent(chr(10).join(values), skip_first=True)})"

    def format_args(self, *args: Any, sep: str = ", ") -> str:
        """Print short arguments in full lines. An argument of several lines stays where it is if the others fit.

        The bracket opens before the first argument if that is short, and closes behind the last one.
        """
        if not self.pretty:
            return str(super().format_args(*args, sep=sep))
        parts = [self.sql(arg) for arg in args if arg is not None and not isinstance(arg, bool)]
        together = sep.join(parts)
        first, last = together.split("\n", 1)[0], together.rsplit("\n", 1)[-1]
        several = [place for place, part in enumerate(parts) if "\n" in part]
        if not several and len(together) <= WIDTH - NAMES:
            return together
        if len(several) == 1 and len(first) <= WIDTH - NAMES:
            if len(last) <= WIDTH:
                return together
            if several[0] == 0 and len(parts) > 1:
                return f"{parts[0]},\n{self.indent(sep.join(parts[1:]))}"
        opening = len(parts[0].split("\n", 1)[0])
        beside = opening <= WIDTH - CALLS or opening > 2 * WIDTH
        lines = parts if sep != ", " else filled(parts, before=NAMES if beside else 0)
        listed = str(self.indent("\n".join(lines), skip_first=beside))
        return _closed(listed if beside else f"\n{listed}")

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        """Print a chain of replacements as rules."""
        rules: list[str] = []
        inner: Any = expression
        while isinstance(inner, exp.Anonymous) and inner.this == "REPLACE" and len(inner.expressions) == 3:
            rules.insert(0, ", ".join(self.sql(one) for one in inner.expressions[1:]) + ")")
            inner = inner.expressions[0]
        if not self.pretty or len(rules) < RULES:
            return str(super().anonymous_sql(expression))
        return "REPLACE(" * len(rules) + "\n" + str(self.indent("\n".join(filled([self.sql(inner), *rules]))))

    def paren_sql(self, expression: exp.Paren) -> str:
        """Print conditions within their brackets."""
        inner = self.sql(expression, "this")
        if not self.pretty or not isinstance(expression.this, exp.Connector) or "\n" not in inner:
            return str(super().paren_sql(expression))
        return f"({self.indent(inner, pad=1, skip_first=True)})"

    def not_sql(self, expression: exp.Not) -> str:
        """Print ``a IS NOT NULL`` and ``a NOT IN (...)``."""
        inner = expression.this
        if isinstance(inner, exp.Is):
            return f"{self.sql(inner.this)} IS NOT {self.sql(inner.expression)}"
        if isinstance(inner, exp.In):
            value = self.sql(inner.this)
            return f"{value} NOT{self.in_sql(inner)[len(value) :]}"
        return super().not_sql(expression)

    def connector_sql(self, expression: exp.Connector, op: str, stack: Any = None) -> str:
        """Print one operand a line, the operator before it; two short ones share a line."""
        if stack is not None or not self.pretty:
            return super().connector_sql(expression, op, stack)
        lines: list[str] = []
        for one in expression.flatten(unnest=False):
            part = self.sql(one)
            short = "\n" not in part and len(part) <= SHORT_OPERAND
            if lines and short and len(lines[-1]) <= SHORT_OPERAND and len(lines[-1] + part) <= WIDTH - 10:
                lines[-1] += f" {op} {part}"
            else:
                lines.append(f"{op} {part}" if lines else part)
        return "\n".join(lines)

    def binary(self, expression: exp.Binary, op: str) -> str:
        """Print a comparison, a sum, a quotient, or texts that are joined, with each operator at the start of a line.

        A prompt stays on its line: it has a part that does not fit by itself.
        """
        printed = super().binary(expression, op)
        if not self.pretty or "\n" in printed or len(printed) <= WIDTH:
            return printed
        parts = [self.line(one) for one in expression.flatten(unnest=False)]
        if isinstance(expression, exp.DPipe | exp.Add) and None not in parts:
            start = "\n  " if isinstance(expression, exp.Add) else "\n"
            return f"{start}{op} ".join(str(part) for part in parts)
        if isinstance(expression, (*_COMPARISONS, exp.Div)):
            return f"{self.sql(expression.left)}\n{self.indent(f'{op} {self.sql(expression.right)}')}"
        return printed

    def unnest_sql(self, expression: exp.Unnest) -> str:
        """Print an array that does not fit on a line of its own."""
        printed = super().unnest_sql(expression)
        array = self.expressions(expression, flat=True)
        start, whole, rest = printed.partition(f"({array})")
        if not self.pretty or not whole or len(printed) <= WIDTH:
            return printed
        return f"{start}(\n{_closed(str(self.indent(array)), rest)}){rest}"

    def wrap(self, expression: exp.Expr | str) -> str:
        """Print a query in brackets that close behind it; those of a WITH close on a line of their own."""
        if not self.pretty or not isinstance(expression, exp.CTE | exp.Subquery):
            return str(super().wrap(expression))
        query = expression.this
        if isinstance(expression, exp.CTE):
            line = None if query.args.get("with_") else self.line(query, WIDTH - len(f"WITH {expression.alias} AS ()"))
            return str(super().wrap(expression)) if line is None else f"({line})"
        alias = f" AS {expression.alias}" if expression.alias else ""
        return f"({_closed(str(self.indent(self.sql(query), pad=1, skip_first=True)), alias)})"

    def schema_columns_sql(self, expression: exp.Expr) -> str:
        """Print the columns of a table in brackets that close behind the last one."""
        return str(super().schema_columns_sql(expression)).replace("\n)", ")")

    def where_sql(self, expression: exp.Where) -> str:
        """Print the condition beside the word."""
        if not self.pretty:
            return str(super().where_sql(expression))
        condition = expression.this
        wide = isinstance(condition, exp.Connector) and self.line(condition, WIDTH - len("WHERE ")) is None
        test = self.connector_sql(condition, _WORDS[type(condition)]) if wide else self.sql(condition)
        return f"{self.seg('WHERE')} {self.indent(test, skip_first=True)}"

    def op_expressions(self, op: str, expression: exp.Expr, flat: bool = False) -> str:
        """Print the list of a GROUP BY or an ORDER BY beside the words."""
        if flat or not self.pretty:
            return str(super().op_expressions(op, expression, flat))
        listed = "\n".join(filled([self.sql(one) for one in expression.expressions]))
        return f"{self.seg(op)} {self.indent(listed, skip_first=True)}"

    def join_sql(self, expression: exp.Join, join_op: str | None = None) -> str:
        """Print a join and its condition on one line."""
        printed = str(super().join_sql(expression, join_op))
        if not self.pretty or not printed.startswith("\n"):
            return printed
        line = self.line(expression)
        return printed if line is None else f"\n{line.strip()}"

    def expressions(self, expression: Any = None, key: str | None = None, *args: Any, **settings: Any) -> str:
        """Print short items in full lines, and each other one on lines of its own.

        A CTE stands behind the bracket that closes the one before it. One behind a CTE of one line begins a line.
        """
        if self.pretty and isinstance(expression, exp.With) and not key:
            *ctes, last = [self.sql(one) for one in expression.expressions]
            return "".join(cte + (", " if "\n" in cte else ",\n") for cte in ctes) + last
        if self.pretty and isinstance(expression, exp.Array) and not key:
            return f"\n{self.indent(chr(10).join(filled([self.sql(one) for one in expression.expressions])))}"
        ours = self.pretty and isinstance(expression, exp.Select | exp.Schema) and not (key or args or settings)
        if not ours:
            return str(super().expressions(expression, key, *args, **settings))
        return str(self.indent("\n".join(filled([self.sql(one) for one in expression.expressions], SHORT))))

    def select_sql(self, expression: exp.Select) -> str:
        """Print the list from beside the SELECT on, and as many of the clauses behind it on a line as fit.

        A FROM of one name stands behind the list.
        """
        if not self.pretty:
            return str(super().select_sql(expression))
        ctes = expression.args.pop("with_", None)
        printed = str(super().select_sql(expression))
        if ctes is not None:
            expression.set("with_", ctes)
        head, _, rest = printed.partition("\n")
        if head.startswith("SELECT"):
            parts = [self.sql(one) for one in expression.expressions]
            clauses = rest[len(str(self.expressions(expression))) :].split("\n")[1:]
            line = ", ".join(parts)
            first, _, more = line.partition("\n")
            if len(head) + len(first) > WIDTH or (more and (len(parts) > FEW or "\n" in "".join(parts[:-1]))):
                listed = filled(parts, SHORT, before=len(head) + 1)
                line = str(self.indent("\n".join(listed), skip_first=True))
            opens = clauses[:1] and clauses[0].startswith("FROM (SELECT ") and len(line) + len(clauses[0]) < WIDTH
            if "\n" not in line and opens:
                line, clauses = f"{line} {clauses[0]}", clauses[1:]
            last = line.rsplit("\n", 1)[-1]
            if len(clauses) == 1 and _NAMED.fullmatch(clauses[0]) and len(last) + len(clauses[0]) < WIDTH:
                line, clauses = f"{line} {clauses[0]}", []
            printed = "\n".join([f"{head} {line}", *_joined_clauses(clauses)])
        return str(self.prepend_ctes(expression, printed))


def _closed(lines: str, after: str = "") -> str:
    """Give what stands in brackets: they close on a line of their own where the last one has no room for it.

    A text above WIDTH characters, such as a schema, has room.
    """
    last = len(lines.rsplit("\n", 1)[-1])
    return lines if last + len(after) < WIDTH or last > 2 * WIDTH else f"{lines}\n"


def _joined_clauses(lines: Sequence[str]) -> list[str]:
    """Give the lines of clauses: as many clauses to a line as fit. One of several lines stays as it is."""
    joined: list[str] = []
    whole = False
    for place, line in enumerate(lines):
        alone = line[0] not in " )" and (place + 1 == len(lines) or lines[place + 1][0] not in " )")
        if alone and whole and len(joined[-1]) + 1 + len(line) <= WIDTH:
            joined[-1] += f" {line}"
        else:
            joined.append(line)
        whole = alone
    return joined


def filled(parts: Sequence[str], longest: int = WIDTH, before: int = 0) -> list[str]:
    """Give lines of parts with commas: as many to a line as fit, those above ``longest`` characters alone.

    ``before`` are the characters before the first line.
    """
    lines: list[str] = []
    shared = False
    for place, part in enumerate(parts):
        comma = "," if place + 1 < len(parts) else ""
        shares = "\n" not in part and len(part) <= longest
        taken = len(lines[-1]) + (before if len(lines) == 1 else 0) if lines else 0
        if lines and shared and shares and taken + len(part) + 2 <= WIDTH:
            lines[-1] += f" {part}{comma}"
        else:
            lines.append(part + comma)
        shared = shares
    return lines


@cache
def generator_of(dialect: str) -> type[Generator]:
    """Give the generator of a dialect that prints in this layout."""
    base = sqlglot.Dialect.get_or_raise(dialect).generator_class
    return type(f"{base.__name__}InLines", (Layout, base), {})
