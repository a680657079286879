"""Connecting over a bad network, by each vendor's client: one line in time, and a passing loss is no failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from sqlenrich.core.errors import ConfigError
from sqlenrich.store.connections.base import ConnectPolicy, WarehouseConnection
from sqlenrich.store.connections.bigquery.connection import open_bigquery
from sqlenrich.store.connections.databricks.connection import open_databricks
from sqlenrich.store.connections.snowflake.connection import open_snowflake
from tests.support.network import resetting, silent
from tests.support.warehouses import SECRET, Standin

OPEN: Mapping[str, Callable[[Mapping[str, Any], ConnectPolicy], WarehouseConnection]] = {
    "snowflake": open_snowflake,
    "bigquery": open_bigquery,
    "databricks": open_databricks,
}
WORDS = {
    "snowflake": "check account, host and port",
    "bigquery": "in time; check the network and api_endpoint",
    "databricks": "no answer in time: check host and the network",
}


def test_a_host_that_says_nothing_is_one_line_in_time(warehouse: Standin, capfd: pytest.CaptureFixture[str]) -> None:
    began, policy = time.monotonic(), ConnectPolicy(connect_s=1.0, request_s=1.0)
    with silent() as port, pytest.raises(ConfigError) as caught:
        OPEN[warehouse.engine](warehouse.fields(port), policy).__enter__()
    assert time.monotonic() - began < 15
    told = f"{caught.value}{''.join(capfd.readouterr())}"
    assert WORDS[warehouse.engine] in told
    assert "\n" not in told
    assert SECRET not in told


def test_a_connection_that_is_lost_at_first_is_had(warehouse: Standin) -> None:
    policy = ConnectPolicy(connect_s=20.0, connect_delay_s=0.1)
    with (
        resetting(warehouse.process.port, 2) as port,
        OPEN[warehouse.engine](warehouse.fields(port), policy) as connection,
    ):
        assert connection.rows("SELECT 1 AS x") == [(1,)]
