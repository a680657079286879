"""The source's columns in SQL: with the header's names and types, its filter, and the test for missing input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import sqlglot
from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import SpecError
from sqlenrich.core.names import column
from sqlenrich.core.sql import Sql, all_of, any_of, case, concat, literal
from sqlenrich.core.text_functions import BLANK
from sqlenrich.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    STRING,
    TIMESTAMP,
    Scalar,
    Type,
    type_json,
    without_zones,
)
from sqlenrich.core.zones import local_times, time_zone
from sqlenrich.prompt.sql.local_times import local_times as local_times_sql
from sqlenrich.spec.condition import compared_texts, compared_with_numbers, parse_condition
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
        """Return a reference to a column by its name in the source."""
        return column(self.engine, name)

    def type(self, name: str) -> Type:
        """Return a column's declared type, else its real one, else text."""
        declared = self.enrichment.columns[name].type if name in self.enrichment.columns else None
        real = self.real_type(name)
        return declared or (real and without_zones(real)) or (BIGINT if name == "_row" else STRING)

    def real_type(self, name: str) -> Type | None:
        """Return the source's own type of a column, where it is known."""
        return (self.source_types or {}).get(self.enrichment.source_name(name))

    def query(self, alias: str) -> Sql:
        """Return the source query of the header as a relation."""
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
        """Return the header's condition with the engine's column names. Raises SpecError if it isn't portable."""
        try:
            test = parse_condition(written)
        except ValueError as error:
            raise SpecError(self.enrichment.place, [str(error)]) from None
        self._check_numbers(written, test)
        columns = {found.name for found in test.find_all(exp.Column)}
        times = {name for name in columns if self.type(name) == TIMESTAMP}
        for constant, comparison in list(compared_texts(test, times)):
            constant.replace(self._constant_time(written, constant.name, comparison))
        for found in list(test.find_all(exp.Column)):
            if found is test:
                return self.value(found.name)
            found.replace(self.value(found.name))
        return test

    def _constant_time(self, written: str, constant: str, comparison: str) -> Sql:
        """Return the local time that a condition writes. Raises SpecError for a text that is none."""
        try:
            moment = local_times(datetime.fromisoformat(constant), time_zone(self.enrichment.timezone))
        except ValueError:
            problem = (
                f'where "{written}": {comparison} compares a timestamp with a text that is none; write '
                "'2026-01-31 09:05:07', or '2026-01-31T09:05:07+01:00' for an instant"
            )
            raise SpecError(self.enrichment.place, [problem]) from None
        return self.engine.text.constant_time(str(moment))

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
        """Return the SQL of a column by its name in the template, cast to the declared type if the source has another.

        Instants are local times of the enrichment's time zone.
        """
        value: Sql = self.col(self.enrichment.source_name(name))
        text = self.engine.text
        declared = self.enrichment.columns[name].type if name in self.enrichment.columns else None
        real, zone = self.real_type(name), self.enrichment.timezone
        if real is None:
            return value if declared is None else local_times_sql(text, value, declared, zone, known=False)
        value = local_times_sql(text, value, real, zone, known=True)
        real = without_zones(real)
        if declared is None or declared == real:
            return value
        if real == TIMESTAMP and declared in (STRING, DATE):
            return (text.text_timestamp if declared == STRING else text.date_of_time)(value)
        if declared == STRING:
            return exp.Cast(this=value, to=self.engine.sql_type(STRING))
        if declared == TIMESTAMP and real in (STRING, DATE):
            written = text.trim(value, literal(BLANK)) if real == STRING else text.text_date(value)
            return text.time_of_text(written, literal(zone))
        if real != STRING:
            return exp.TryCast(this=value, to=self.engine.sql_type(declared), safe=True)
        trimmed = text.trim(value, literal(BLANK))
        # sqlglot prints CAST without safe= (on Spark), and without requires_string= (on Snowflake).
        cast = exp.TryCast(this=trimmed, to=self.engine.sql_type(declared), safe=True, requires_string=True)
        # A cast accepts too much: it rounds 12.5, reads 0x10 and epoch, and drops the time of a date.
        pattern = _PLAIN.get(declared) if isinstance(declared, Scalar) else None
        return cast if pattern is None else case((text.matches(trimmed.copy(), literal(pattern)), cast))

    def kept(self, name: str) -> Sql:
        """Return the SQL of a column as the results keep it: an instant stays one."""
        real = self.real_type(name)
        stays = real is None or self.type(name) == without_zones(real)
        return self.col(self.enrichment.source_name(name)) if stays else self.value(name)

    def cast_failed(self, name: str) -> Sql | None:
        """Return the test that a value does not fit its declared type; None where every value fits."""
        real, declared = self.real_type(name), self.type(name)
        if real is None or declared == STRING or declared == without_zones(real):
            return None
        value = self.value(name)
        present = exp.Not(this=exp.Is(this=self.col(self.enrichment.source_name(name)), expression=exp.Null()))
        return all_of(present, exp.Is(this=value, expression=exp.Null()))

    def no_timestamps(self, printed: Sequence[str]) -> list[Sql]:
        """Return the test that no column which is read as a text or a date is a timestamp in the source.

        A script does not know the types, and the engine would print the column in the session's zone and format.
        """
        condition = parse_condition(self.enrichment.where) if self.enrichment.where else exp.true()
        compared = [found.name for found in condition.find_all(exp.Column) if not isinstance(found.parent, exp.Is)]
        read = [name for name in dict.fromkeys((*printed, *compared)) if self.type(name) in (STRING, DATE)]
        if self.source_types is not None or not read:
            return []
        problem = f"{self.enrichment.name}: {' or '.join(read)} is a timestamp; write columns: {{NAME: timestamp}}"
        values = [self.col(self.enrichment.source_name(name)) for name in read]
        return [self.engine.text.no_timestamps(values, problem)]

    def bad_value(self, names: Sequence[str]) -> Sql:
        """Return the SQL that says which of some columns has a value that does not fit its declared type, else NULL."""
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
        """Return the test that a row has no input; ``printed`` are the template's columns."""
        required = self.enrichment.require
        tests = [self._blank(name) for name in (printed if required is None else required)]
        if not tests:
            return literal(False)
        return all_of(*tests) if required is None else any_of(*tests)

    def _blank(self, name: str) -> Sql:
        """Test the source's value, before a cast: a value that does not fit its type is BAD_PROMPT, not NO_INPUT."""
        value = self.col(self.enrichment.source_name(name))
        real = self.real_type(name) or self.type(name)
        if real != STRING:
            return exp.Is(this=value, expression=exp.Null())
        text = self.engine.text.trim(exp.Coalesce(this=value, expressions=[literal("")]), literal(BLANK))
        return exp.EQ(this=text, expression=literal(""))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
