"""The vendors' own records of what statements took: where they are, what they hold, how late they come."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, cast

from sqlglot import exp, select

from sqlenrich.core.engine import VendorFact
from sqlenrich.core.errors import RunError
from sqlenrich.core.names import relation
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql, literal, utc_time
from sqlenrich.core.types import TIMESTAMP
from sqlenrich.store.warehouse import WarehouseBackend

IDS = 1000
"""How many ids of statements a query names."""
_HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class RunCalls:
    """The statements of a run that asked the model, when it was, in UTC without a time zone, and the models."""

    statements: tuple[str, ...]
    began: datetime
    ended: datetime
    models: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figures:
    """What the vendor's records have of a run: amounts by their unit, and how many of its statements they hold."""

    amounts: Mapping[str, float]
    statements: int | None = None
    """None where the records know no statements."""


@dataclass(frozen=True)
class Records:
    """Figures by run, and until when the records reach; None where they have nothing since the first of the runs."""

    by_run: Mapping[str, Figures]
    until: datetime | None = None


@dataclass(frozen=True)
class Vendor:
    """The records of one vendor, and how they are read. ``read`` raises RunError where they can't be."""

    source: VendorFact
    read: Callable[[WarehouseBackend, Mapping[str, RunCalls]], Records]
    lag: str = ""
    """How late they come; empty for at once."""
    approximate: str = ""
    """Why they may hold more than the runs; empty where they hold the runs alone."""


class _Billed(Protocol):
    """What BigQuery's connection has beside those of the others."""

    def billed(self, id: str) -> Mapping[str, float] | None:
        """Return the statistics of a job; None for an unknown one."""


def _snowflake(backend: WarehouseBackend, calls: Mapping[str, RunCalls]) -> Records:
    """Tokens and credits by the ids of the queries: a row for each hour in which a query ran."""
    view = relation(backend.engine, VENDORS["snowflake"].source.value)
    since = _since(backend, "START_TIME", calls, _HOUR)
    ids = [id for one in calls.values() for id in one.statements]
    rows: list[tuple[Any, ...]] = []
    for start in range(0, len(ids), IDS):
        named = exp.In(this=exp.column("QUERY_ID"), expressions=[literal(id) for id in ids[start : start + IDS]])
        rows += _rows(backend, select("QUERY_ID", "METRICS", "CREDITS").from_(view.copy()).where(named, since.copy()))
    amounts: dict[str, dict[str, float]] = {}
    for id, metrics, credits in rows:
        own = amounts.setdefault(str(id), {})
        for metric in json.loads(metrics) if isinstance(metrics, str) else metrics or ():
            unit = f"{metric['key']['unit']} {metric['key']['metric']}"
            own[unit] = own.get(unit, 0.0) + float(metric["value"])
        own["credits"] = own.get("credits", 0.0) + float(credits or 0)
    until = _rows(backend, select("MAX(END_TIME)").from_(view).where(since))[0][0]
    return Records(_by_statement(calls, amounts), _utc(until))


def _bigquery(backend: WarehouseBackend, calls: Mapping[str, RunCalls]) -> Records:
    """Bytes and slot time by the ids of the jobs. The model is charged elsewhere: its charge has the job's prefix."""
    connection = cast(_Billed, backend.warehouse)
    amounts: dict[str, Mapping[str, float]] = {}
    for id in (id for one in calls.values() for id in one.statements):
        found = backend.jobs.repeated(lambda id=id: connection.billed(id))  # type: ignore[misc]
        if found is not None:
            amounts[id] = found
    return Records(_by_statement(calls, amounts), datetime.now(UTC).replace(tzinfo=None))


def _databricks(backend: WarehouseBackend, calls: Mapping[str, RunCalls]) -> Records:
    """Units by endpoint and hour: those of the hours in which a run asked."""
    usage = relation(backend.engine, VENDORS["databricks"].source.value)
    endpoint = exp.column("endpoint_name", "usage_metadata")
    names = {name for one in calls.values() for model in one.models for name in _endpoints(model)}
    named = exp.In(this=endpoint, expressions=[literal(name) for name in sorted(names)])
    since = _since(backend, "usage_end_time", calls, timedelta(0))
    columns = ("usage_start_time", "usage_end_time", "usage_unit", "usage_quantity")
    chosen = select(*columns, exp.alias_(endpoint.copy(), "endpoint")).from_(usage.copy()).where(named, since.copy())
    rows = _rows(backend, chosen)
    by_run: dict[str, Figures] = {}
    for run_id, one in calls.items():
        own, amounts = {name for model in one.models for name in _endpoints(model)}, dict[str, float]()
        for begins, ends, unit, quantity, name in rows:
            if name in own and (_utc(begins) or one.ended) <= one.ended and (_utc(ends) or one.began) >= one.began:
                amounts[str(unit)] = amounts.get(str(unit), 0.0) + float(quantity or 0)
        if amounts:
            by_run[run_id] = Figures(amounts)
    until = _rows(backend, select("MAX(usage_end_time)").from_(usage).where(since))[0][0]
    return Records(by_run, _utc(until))


VENDORS: Mapping[str, Vendor] = {
    "snowflake": Vendor(
        VendorFact(
            "SNOWFLAKE.ACCOUNT_USAGE.CORTEX_AI_FUNCTIONS_USAGE_HISTORY",
            "https://docs.snowflake.com/en/sql-reference/account-usage/cortex_ai_functions_usage_history",
            "2026-11-22",
        ),
        _snowflake,
        lag="up to an hour",
    ),
    "bigquery": Vendor(
        VendorFact(
            "the statistics of its jobs, without the charge of the model",
            "https://docs.cloud.google.com/bigquery/docs/reference/rest/v2/Job",
            "2026-11-22",
        ),
        _bigquery,
    ),
    "databricks": Vendor(
        VendorFact(
            "system.billing.usage", "https://docs.databricks.com/aws/en/admin/system-tables/billing", "2026-11-22"
        ),
        _databricks,
        lag="some hours",
        approximate="it has whole hours of an endpoint, whoever asked it",
    ),
}
"""The records of each vendor. None was seen in an account of ours."""


def _endpoints(model: str) -> tuple[str, ...]:
    """Return the names under which an endpoint may be billed: a model service's, and its older endpoint's."""
    return tuple(dict.fromkeys((model, short := model.rpartition(".")[2], f"databricks-{short}")))


def _by_statement(calls: Mapping[str, RunCalls], amounts: Mapping[str, Mapping[str, float]]) -> dict[str, Figures]:
    """Add up the amounts of the statements of each run."""
    found: dict[str, Figures] = {}
    for run_id, one in calls.items():
        known = [amounts[id] for id in one.statements if id in amounts]
        units = dict.fromkeys(unit for each in known for unit in each)
        found[run_id] = Figures({unit: sum(each.get(unit, 0.0) for each in known) for unit in units}, len(known))
    return found


def _since(backend: WarehouseBackend, column: str, calls: Mapping[str, RunCalls], before: timedelta) -> Sql:
    """Return the test of a column for times after the first of the runs began."""
    first = min(one.began for one in calls.values()) - before
    at = utc_time(first, backend.engine.sql_type(TIMESTAMP))
    return exp.GTE(this=exp.column(column), expression=at)


def _rows(backend: WarehouseBackend, query: exp.Query) -> Sequence[tuple[Any, ...]]:
    return backend.connection.rows(print_sql(backend.engine, query))


def _utc(at: datetime | None) -> datetime | None:
    return at.astimezone(UTC).replace(tzinfo=None) if at is not None and at.tzinfo is not None else at


def vendor_records(backend: WarehouseBackend, calls: Mapping[str, RunCalls]) -> tuple[Records, str | None]:
    """Return the vendor's records of some runs, or why they can't be read."""
    asked = {run_id: one for run_id, one in calls.items() if one.statements}
    if not asked:
        return Records({}), "no statement of these runs asked the model"
    try:
        return VENDORS[backend.engine.name].read(backend, asked), None
    except (RunError, KeyError, TypeError, ValueError) as error:  # their columns may be others than documented
        return Records({}), str(error) if isinstance(error, RunError) else f"not as documented: {error!r}"
