"""The source's columns in SQL: with the header's names and types, its filter, and the test for missing input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlglot
from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import SpecError
from sqlenrich.core.names import column
from sqlenrich.core.sql import Sql, all_of, any_of, case, concat, literal
from sqlenrich.core.text_functions import BLANK
from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, Scalar, Type, type_json
from sqlenrich.spec.condition import compared_with_numbers, parse_condition
from sqlenrich.spec.enrichment import Enrichment

_PLAIN = {
    BIGINT: "^[+-]?[0-9]+$",
    DOUBLE: r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$",
    DATE: "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    BOOLEAN: "^([Tt]rue|TRUE|[Ff]alse|FALSE)$",
}
"""The pattern of a text that is a value of a type."""


BAD_VALUE = "_bad_value"
"""The column of ``prompts`` that says which value does not fit its declared type."""
SHOWN_CHARACTERS = 100
"""The characters of such a value that are shown."""
WRITTEN = "written"
"""The mark of a relation that is the user's own SQL: no name in it may be changed."""


class SourceColumns:
    """The columns of an enrichment's source on one engine; ``source_types`` are the real types, where known."""

    def __init__(self, enrichment: Enrichment, engine: Engine, source_types: Mapping[str, Type] | None) -> None:
        self.enrichment, self.engine, self.source_types = enrichment, engine, source_types

    def col(self, name: str) -> exp.Column:
        """Give a reference to a column by its name in the source."""
        return column(self.engine, name)

    def type(self, name: str) -> Type:
        """Give a column's declared type, else its real one, else text."""
        declared = self.enrichment.columns[name].type if name in self.enrichment.columns else None
        real = (self.source_types or {}).get(self.enrichment.source_name(name))
        return declared or real or (BIGINT if name == "_row" else STRING)

    def query(self, alias: str) -> Sql:
        """Give the source query of the header as a relation."""
        try:
            query = sqlglot.parse_one(str(self.enrichment.query), read=self.engine.dialect)
        except sqlglot.errors.SqlglotError as error:
            raise SpecError(
                self.enrichment.place, [f"the source query is no SQL of {self.engine.name}: {_first_line(error)}"]
            ) from None
        if not isinstance(query, exp.Query):
            raise SpecError(self.enrichment.place, ["the source query must be one SELECT"])
        relation = query.subquery(alias, copy=False)
        relation.meta[WRITTEN] = True
        return relation

    def where(self, written: str) -> Sql:
        """Give the header's condition with the engine's column names. Raises SpecError for SQL that is not portable."""
        try:
            test = parse_condition(written)
        except ValueError as error:
            raise SpecError(self.enrichment.place, [str(error)]) from None
        self._check_numbers(written, test)
        for found in list(test.find_all(exp.Column)):
            if found is test:
                return self.value(found.name)
            found.replace(self.value(found.name))
        return test

    def _check_numbers(self, written: str, test: Sql) -> None:
        """Refuse to compare a text with a number: engines differ in it. Raises SpecError."""
        for name, comparison in compared_with_numbers(test):
            if self.source_types is not None and self.type(name) == STRING:
                kind = "double" if "." in comparison else "bigint"
                raise SpecError(
                    self.enrichment.place,
                    [
                        f'where "{written}": {name} is a text, and {comparison} compares it with a number; write '
                        f"columns: {{{name}: {kind}}} in the header"
                    ],
                )

    def value(self, name: str) -> Sql:
        """Give the SQL of a column by its name in the template, cast to the declared type if the source has another."""
        value: Sql = self.col(self.enrichment.source_name(name))
        declared = self.enrichment.columns[name].type if name in self.enrichment.columns else None
        real = (self.source_types or {}).get(self.enrichment.source_name(name))
        if declared is None or real is None or declared == real:
            return value
        if declared == STRING:
            return exp.Cast(this=value, to=self.engine.sql_type(STRING))
        if real != STRING:
            return exp.TryCast(this=value, to=self.engine.sql_type(declared), safe=True)
        trimmed = self.engine.text.trim(value, literal(BLANK))
        # sqlglot prints CAST without safe= (on Spark), and without requires_string= (on Snowflake).
        cast = exp.TryCast(this=trimmed, to=self.engine.sql_type(declared), safe=True, requires_string=True)
        # A cast accepts too much: it rounds 12.5, reads 0x10 and epoch, and drops the time of a date.
        pattern = _PLAIN.get(declared) if isinstance(declared, Scalar) else None
        return cast if pattern is None else case((self.engine.text.matches(trimmed.copy(), literal(pattern)), cast))

    def cast_failed(self, name: str) -> Sql | None:
        """Give the test that a value does not fit its declared type; None where every value fits."""
        value = self.value(name)
        if not isinstance(value, exp.TryCast | exp.Case):
            return None
        present = exp.Not(this=exp.Is(this=self.col(self.enrichment.source_name(name)), expression=exp.Null()))
        return all_of(present, exp.Is(this=value, expression=exp.Null()))

    def bad_value(self, names: Sequence[str]) -> Sql:
        """Give the SQL that says which of some columns has a value that does not fit its declared type, else NULL."""
        branches = []
        for name in names:
            test, declared = self.cast_failed(name), self.enrichment.columns.get(name)
            if test is None or declared is None or declared.type is None:
                continue
            value: Sql = self.col(declared.source_name)
            if (self.source_types or {}).get(declared.source_name) != STRING:
                value = exp.Cast(this=value, to=self.engine.sql_type(STRING))
            shown = self.engine.text.substr(value, literal(1), literal(SHOWN_CHARACTERS))
            what = f'", which is no {type_json(declared.type)}'
            branches.append((test, concat(literal(f'{name} is "'), shown, literal(what))))
        null = exp.Cast(this=exp.Null(), to=self.engine.sql_type(STRING))
        return case(*branches, default=null) if branches else null

    def no_input(self, printed: Sequence[str]) -> Sql:
        """Give the test that a row has no input; ``printed`` are the template's columns."""
        required = self.enrichment.require
        tests = [self._blank(name) for name in (printed if required is None else required)]
        if not tests:
            return literal(False)
        return all_of(*tests) if required is None else any_of(*tests)

    def _blank(self, name: str) -> Sql:
        """Test the source's value, before a cast: a value that does not fit its type is BAD_PROMPT, not NO_INPUT."""
        value = self.col(self.enrichment.source_name(name))
        real = (self.source_types or {}).get(self.enrichment.source_name(name)) or self.type(name)
        if real != STRING:
            return exp.Is(this=value, expression=exp.Null())
        text = self.engine.text.trim(exp.Coalesce(this=value, expressions=[literal("")]), literal(BLANK))
        return exp.EQ(this=text, expression=literal(""))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
