"""What runs on the three warehouses took: the stored answers beside the vendor's own records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import sqlenrich as se
from tests.standins.googlesql.rest import BYTES_BILLED
from tests.support.runs import call
from tests.support.warehouse_runs import REQUESTS, enrich
from tests.support.warehouses import SECRET, Standin

BILLING = """CREATE TABLE system.billing.usage (
  usage_start_time TIMESTAMP, usage_end_time TIMESTAMP, usage_unit STRING, usage_quantity DECIMAL(38, 18),
  usage_metadata STRUCT<endpoint_name: STRING>)"""


@pytest.fixture
def billing(place: Standin) -> Iterator[None]:
    """Databricks: the table of billed usage, with this hour of the endpoint, of another one, and of a day ago."""
    if place.engine != "databricks":
        yield
        return
    place.execute(
        "SET spark.sql.catalog.system=sqlenrich.standins.MemCatalog",
        "CREATE SCHEMA IF NOT EXISTS system.billing",
        BILLING,
    )
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0, tzinfo=None)
    own, other = "databricks-meta-llama-3-3-70b-instruct", "other"
    for begins, quantity, name in ((hour, 2, own), (hour, 40, other), (hour - timedelta(days=1), 800, own)):
        times = f"TIMESTAMP '{begins}', TIMESTAMP '{begins + timedelta(hours=2)}'"
        values = f"{times}, 'DBU', {quantity}, named_struct('endpoint_name', '{name}')"
        place.execute(f"INSERT INTO system.billing.usage SELECT {values}")
    yield
    place.execute("DROP TABLE system.billing.usage")


def used(at: Standin, **options: object) -> se.Usage:
    return se.usage(engine=at.engine, profile="standin", output=at.schema, **options)  # type: ignore[arg-type]


@pytest.mark.usefixtures("billing")
def test_usage_equals_what_was_asked(place: Standin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.folder)
    first, second, third = enrich(place, chunk_rows=5, max_rows=12), enrich(place), enrich(place)
    before = place.tables()
    model = place.rows("tickets_responses", "model")[0][0]
    prices = tmp_path / "prices.toml"
    prices.write_text(f'as_of = 2026-11-01\n[models."{model}"]\ninput = 1000\noutput = 1000\n')
    found = used(place, prices=prices)
    assert (place.tables(), len(place.prompts())) == (before, REQUESTS)
    assert [(run.run_id, run.answers, run.failed, run.status) for run in found.runs] == [
        (first.run_id, 12, 0, "stopped"),
        (second.run_id, REQUESTS - 12, 0, "done"),
        (third.run_id, 0, 0, "done"),
    ]
    *asked, nothing = found.runs
    assert (nothing.statements, nothing.tokens_in, nothing.tokens_out, nothing.cost) == (0, 0, 0, 0.0)
    calls = [sum(one["step"] == "responses" for one in report.statements) for report in (first, second)]
    assert [run.statements for run in asked] == calls
    for run, report in zip(asked, (first, second), strict=True):
        assert (run.tokens_in, run.tokens_out) == (report.tokens_in, report.tokens_out)
        spent = (run.tokens_in or 0) + (run.tokens_out or 0)
        if run.tokens_in is not None:
            assert run.cost == pytest.approx(spent / 1000)
        if place.engine == "snowflake":
            tokens = {"tokens input": run.tokens_in, "tokens output": run.tokens_out}
            assert run.vendor == pytest.approx({**tokens, "credits": spent / 1e6})
        elif place.engine == "bigquery":
            assert run.vendor is not None
            assert run.vendor["bytes billed"] == BYTES_BILLED * run.statements
        else:
            assert run.vendor == {"DBU": 2.0}
        assert run.recorded == (None if place.engine == "databricks" else run.statements)
    assert (found.not_stored, found.problem) == (None, None)
    assert bool(found.approximate) == (place.engine == "databricks")
    assert found.until is not None
    kept = {id: json.loads(text) for id, text in place.rows("_sqlenrich_runs", "run_id", "report")}
    for run, report in zip(asked, (first, second), strict=True):
        figures = {"tokens_in": run.tokens_in, "tokens_out": run.tokens_out, "cost": run.cost, "vendor": run.vendor}
        known = {name: value for name, value in figures.items() if value is not None}
        assert known.items() <= kept[run.run_id]["usage"].items()
        assert kept[run.run_id]["usage"]["vendor_until"] == found.until
        assert kept[run.run_id]["enriched"] == report.enriched
    assert used(place, run=second.run_id).runs[0].answers == REQUESTS - 12
    command = ("usage", "--engine", place.engine, "--profile", "standin", "--output", place.schema)
    shown, told = (call(*command, *more).out for more in ((), ("--json",)))
    assert [run["run_id"] for run in json.loads(told)["runs"]] == [one.run_id for one in (first, second, third)]
    assert [line.split()[0] for line in shown.splitlines()[:3]] == ["run", first.run_id, second.run_id]
    assert "cost unknown: no prices given (--prices)" in shown
    assert SECRET not in shown + told


def test_records_that_can_t_be_read(place: Standin) -> None:
    with pytest.raises(se.ConfigError, match="holds no run"):
        used(place)
    report = enrich(place, max_rows=4)
    if place.engine == "snowflake":
        place.set(usage=False)
    found = used(place)
    (run,) = found.runs
    assert (run.run_id, run.answers, run.tokens_in) == (report.run_id, 4, report.tokens_in)
    if place.engine != "bigquery":  # its jobs are always there
        assert (run.vendor, run.recorded) == (None, None)
        assert found.problem is not None
        assert f"{found.source} can't be read: {found.problem}" in found.to_text()
        assert "\n" not in found.problem
    with pytest.raises(se.ConfigError, match="holds no run 7: sqlenrich run makes one"):
        used(place, run="7")
    with pytest.raises(se.ConfigError, match="of which runs"):
        se.usage()
