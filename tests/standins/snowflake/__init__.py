"""Snowflake's queries and scripts, evaluated by an interpreter of ours.

What it says of Snowflake was written down from its documentation: each module names the pages, and says which were read
again for it and what stands from memory. It proves no behaviour of Snowflake.

It is neither Snowflake nor an emulator such as fakesnow, whose version of sqlglot can't be installed beside ours, which
keeps the quotes of a text in a VARIANT and gives DuckDB's types for TYPEOF. sqlglot parses (its own reading of
functions switched off, string constants decoded a second time here), every node gets a static type, coerced as the
table of conversions has it and nowhere else, and the typed tree is evaluated row by row. So a function that Snowflake
hasn't got, an argument of a wrong type, a JSON null taken for NULL, an order that is not promised show up; what nobody
wrote down here does not.

Known: SELECT with WITH, JOIN and LEFT JOIN, WHERE, GROUP BY of columns, DISTINCT, ROW_NUMBER, NTILE and aggregates
over a partition, UNION ALL, EXISTS, IN, ORDER BY with LIMIT; CREATE TABLE, CREATE FUNCTION of an expression, DROP
TABLE, INSERT and UPDATE; blocks with LOOP and IF; AI_COMPLETE, which a Python function answers.

Not known, refused with :class:`SnowflakeError`: ORDER BY otherwise, QUALIFY, HAVING, MERGE, structured types,
collations, time zones; mixed types that Snowflake coerces by looking at the values (text beside a number in one CASE);
FLOAT printed in scientific notation, whose form is not known for certain.

What the documentation leaves open of JSON is taken in two ways, :data:`READINGS`; a query that is right gives the same
in both.

Taken for granted: the case of letters such as ß is Python's; FLOAT is an IEEE double, rounded by its exact value,
halves away from zero; its zero keeps the sign in ROUND, TRUNC, FLOOR and CEIL and is printed as -0; NaN equals itself
and is greater than every other FLOAT; a FLOAT becomes a NUMBER as ROUND does it; an operation may give infinity, and so
does a number of JSON that no double holds; the names of an OBJECT are printed in sorted order; in a regular expression
a backslash escapes inside of brackets too, and ``\\xhh`` is a character.
"""

from __future__ import annotations

from tests.standins.snowflake.query import Data, rows
from tests.standins.snowflake.script import Database
from tests.standins.snowflake.values import JSON_NULL, PLAIN, READINGS, Reading, SnowflakeError

__all__ = ["JSON_NULL", "PLAIN", "READINGS", "Data", "Database", "Reading", "SnowflakeError", "rows"]
