"""Tables of Snowflake: whether one takes the rows of a query as it is, and what is lost where it is replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from sqlenrich.core.names import relation
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql, literal
from sqlenrich.engines import get_engine

SNOWFLAKE = get_engine("snowflake")


def columns_of(query: str | exp.Query) -> str:
    """Return a query that gives the columns of a query, or of a table by its name, and no rows."""
    if isinstance(query, str):
        return print_sql(SNOWFLAKE, exp.select("*").from_(relation(SNOWFLAKE, query)).limit(0), pretty=False)
    return print_sql(SNOWFLAKE, exp.select("*").from_(query.subquery("made")).limit(0), pretty=False)


def takes(table: Sequence[Any], query: Sequence[Any]) -> bool:
    """Tell whether a table has the columns of a query, in their order, and none of them is too short.

    Both are descriptions of the connector: a text or a number that a constant made has the length of that constant.
    """
    return len(table) == len(query) and all(_holds(*pair) for pair in zip(table, query, strict=True))


def _holds(known: Any, given: Any) -> bool:
    same = all(getattr(known, part) == getattr(given, part) for part in ("name", "type_code", "scale"))
    sizes = [(getattr(known, part) or 0, getattr(given, part) or 0) for part in ("internal_size", "precision")]
    return same and all(one >= other for one, other in sizes)


def history(home: str) -> str:
    """Return the query of the statements with a tag that is ours. A session without a database needs that of ``home``.

    https://docs.snowflake.com/en/sql-reference/functions/query_history, read 2026-11-22.
    """
    called = _information(home, "QUERY_HISTORY", {"RESULT_LIMIT": literal(10000)})
    tagged = exp.Like(this=exp.column("query_tag"), expression=literal("{%"))
    return print_sql(SNOWFLAKE, exp.select("query_id", "query_tag").from_(called).where(tagged), pretty=False)


def policies(table: str) -> str:
    """Return the query of the policies that a table or its columns carry, by themselves or by a tag.

    https://docs.snowflake.com/en/sql-reference/functions/policy_references, read 2026-11-25: the owner sees them.
    """
    name = relation(SNOWFLAKE, table)
    home = ".".join(part.sql("snowflake") for part in name.parts[:-1])
    written = ".".join(part.sql("snowflake") for part in name.parts)
    given = {"REF_ENTITY_NAME": literal(written), "REF_ENTITY_DOMAIN": literal("TABLE")}
    called = _information(home, "POLICY_REFERENCES", given)
    return print_sql(SNOWFLAKE, exp.select("policy_kind", "policy_name").from_(called), pretty=False)


def _information(home: str, name: str, arguments: dict[str, Sql]) -> exp.TableFromRows:
    """Return a table function of the INFORMATION_SCHEMA of a schema's database, or of the current one."""
    given = [exp.Kwarg(this=exp.var(key), expression=value) for key, value in arguments.items()]
    found = relation(SNOWFLAKE, home).parts if home else ()
    parts: list[Sql] = [part.copy() for part in found[:-1]][:1]  # the database, where the schema has one
    parts += [exp.to_identifier("INFORMATION_SCHEMA"), exp.Anonymous(this=name, expressions=given)]
    return exp.TableFromRows(this=exp.Dot.build(parts))
