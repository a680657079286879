"""Snowflake's queries, evaluated by an interpreter of ours.

What it says of Snowflake was written down from memory of its documentation; about five of its
pages on functions were read again for it. It proves no behaviour of Snowflake.

It is neither Snowflake nor an emulator such as fakesnow, whose version of sqlglot can't be installed beside ours and
which knows no lambdas. sqlglot parses (its own reading of functions switched off, string constants decoded a second
time here), every node gets a static type, coerced as the table of conversions has it and nowhere else, and the typed
tree is evaluated row by row. So a function that Snowflake hasn't got, an argument of a wrong type, a JSON null taken
for NULL, an order that is not promised show up; what nobody wrote down here does not.

Known: a SELECT of expressions FROM one table, WITH entry or subquery, with WHERE.

Not known, refused with :class:`SnowflakeError`: joins, aggregates, window functions, ORDER BY, DML and DDL, structured
types, collations, time zones; mixed types that Snowflake coerces by looking at the values (text beside a number in one
CASE); FLOAT printed in scientific notation, whose form is not known for certain.

Taken for granted: the case of letters such as ß is Python's; FLOAT is an IEEE double, rounded by its exact value,
halves away from zero; its zero keeps the sign in ROUND, TRUNC, FLOOR and CEIL and is printed as -0; NaN equals itself
and is greater than every other FLOAT; a FLOAT becomes a NUMBER as ROUND does it; an operation may give infinity.
"""

from __future__ import annotations

from tests.standins.snowflake.query import rows
from tests.standins.snowflake.values import JSON_NULL, SnowflakeError

__all__ = ["JSON_NULL", "SnowflakeError", "rows"]
