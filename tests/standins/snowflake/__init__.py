"""Snowflake's queries, evaluated by an interpreter of ours that was written from Snowflake's documentation.

It is neither Snowflake nor an emulator such as fakesnow, whose version of sqlglot can't be installed beside ours and
which knows no lambdas. sqlglot parses (its own reading of functions switched off, string constants decoded a second
time here), every node gets a static type, coerced as the documentation's table says and nowhere else, and the typed
tree is evaluated row by row. So a function that Snowflake hasn't got, an argument of a wrong type, a JSON null taken
for NULL, an order that is not promised show up; what the documentation leaves open does not.

Known: a SELECT of expressions FROM one table, WITH entry or subquery, with WHERE.

Not known, refused with :class:`SnowflakeError`: joins, aggregates, window functions, ORDER BY, DML and DDL, structured
types, collations, time zones; mixed types that Snowflake coerces by looking at the values (text beside a number in one
CASE); FLOAT printed in scientific notation, whose form is not documented.

Taken from Python, as the documentation is silent: the case of letters such as ß, the rounding of FLOAT.
"""

from __future__ import annotations

from tests.standins.snowflake.query import rows
from tests.standins.snowflake.values import JSON_NULL, SnowflakeError

__all__ = ["JSON_NULL", "SnowflakeError", "rows"]
