"""Times: of now, and their parts.

https://docs.snowflake.com/en/sql-reference/functions/current_timestamp, from memory; .../date_part, read 2026-11-23.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from sqlglot import exp

from tests.standins.snowflake.nodes import Node, strict
from tests.standins.snowflake.parsing import name_of
from tests.standins.snowflake.scope import BUILDERS, CALLS, Scope, node
from tests.standins.snowflake.values import NUMBER, TIMESTAMP, SnowflakeError, read_as

_UNITS = {"EPOCH_SECOND": dt.timedelta(seconds=1), "EPOCH_MILLISECOND": dt.timedelta(milliseconds=1)}
_EPOCH = dt.datetime(1970, 1, 1)


def _now(tree: exp.Expr, scope: Scope) -> Node:
    """TIMESTAMP_LTZ there, taken for TIMESTAMP_NTZ here, as an insert into such a column makes it: in the session's
    zone."""
    return Node(TIMESTAMP, lambda _: _utc() - dt.timedelta(hours=read_as().behind_utc_h))


def _sysdate(tree: exp.Expr, scope: Scope) -> Node:
    """https://docs.snowflake.com/en/sql-reference/functions/sysdate: TIMESTAMP_NTZ in UTC; it needs its parentheses."""
    if tree.expressions:
        raise SnowflakeError("SYSDATE takes no argument")
    return Node(TIMESTAMP, lambda _: _utc())


def _utc() -> dt.datetime:
    return dt.datetime.now(dt.UTC).replace(tzinfo=None)


def _date_part(tree: exp.Expr, scope: Scope) -> Node:
    """``DATE_PART(EPOCH_SECOND, time)``: whole seconds since 1970, of a time without a zone as if it were in UTC.
    ``EPOCH_MILLISECOND``: milliseconds."""
    unit = _UNITS.get(name_of(tree.expressions[0])) if len(tree.expressions) == 2 else None
    if unit is None:
        raise SnowflakeError(f"not known: {tree.sql('snowflake')[:200]}")
    time = node(tree.expressions[1], scope)
    if time.type != TIMESTAMP:
        raise SnowflakeError(f"DATE_PART: {time.type} is no time")
    return strict(NUMBER, lambda value: Decimal((value - _EPOCH) // unit), time)


BUILDERS[exp.CurrentTimestamp] = _now
CALLS.update({"CURRENT_TIMESTAMP": _now, "SYSDATE": _sysdate, "DATE_PART": _date_part})
