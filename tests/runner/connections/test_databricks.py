"""The connection to Databricks: the unmodified client against the stand-in, a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, INSTANT, STRING, Array, Decimal, Struct
from sqlenrich.store.connections.base import JobState, JobStatus, TransientError
from sqlenrich.store.connections.databricks.connection import (
    DatabricksConnection,
    open_databricks,
    open_databricks_named,
)
from sqlenrich.store.connections.databricks.errors import not_connected
from sqlenrich.store.connections.databricks.settings import settings_of_fields
from tests.support.hostile import NAMES
from tests.support.process import Process
from tests.support.warehouses import Standin, ended

pytest.importorskip("databricks.sql")
pytestmark = pytest.mark.spark

TOKEN, PRINCIPAL, SECRET, IDENTITY = "dapi-standin-token", "standin-principal", "standin-secret", "an.identity.token"
HTTP_PATH = "/sql/1.0/warehouses/standin"
ASK = "SELECT ai_query('m', CONCAT('{tag} ', id), failOnError => false).result AS answer FROM range({rows})"
LONG = 4000
"""Rows that are never all asked at 0.2 seconds each."""


@pytest.fixture(scope="module")
def warehouse(standins: Callable[[str], Standin]) -> Process:
    return standins("databricks").process


@pytest.fixture
def fields(warehouse: Process) -> Iterator[dict[str, Any]]:
    """The profile of the stand-in, which fails at nothing and answers at once before and after."""
    warehouse.get("/clear", {})
    yield {
        "type": "databricks",
        "host": f"127.0.0.1:{warehouse.port}",
        "http_path": HTTP_PATH,
        "token": TOKEN,
        "threads": 4,
        "connection_parameters": {"_tls_trusted_ca_file": warehouse.get("/certificate")},
    }
    warehouse.get("/settings", {})


@pytest.fixture
def connection(fields: dict[str, Any]) -> Iterator[DatabricksConnection]:
    """A connection to the stand-in."""
    with open_databricks(fields) as opened:
        yield opened


def asked(warehouse: Process, tag: str) -> list[str]:
    """The prompts that the model was asked with a tag, sorted."""
    return sorted(call["prompt"] for call in warehouse.get("/calls") if call["prompt"].startswith(f"{tag} "))


def test_a_long_statement_runs_is_found_by_its_tags_and_is_cancelled(
    warehouse: Process, connection: DatabricksConnection
) -> None:
    warehouse.get("/settings", {"delay": 0.2})
    tags = {"app": "sqlenrich", "run": "c*/1${x}'\"\\", "step": "call"}
    started = time.monotonic()
    id = connection.submit(ASK.format(tag="cancelled", rows=LONG), tags, "job-1")
    assert time.monotonic() - started < 5, "the id comes before the end"
    assert connection.status(id) == JobStatus(JobState.RUNNING)
    query = str(UUID(id))  # the secret of the handle is no part of it
    assert connection.running(tags) == connection.running({"run": tags["run"]}) == [query]
    assert connection.running({"job_id": "job-1"}) == [query]
    warehouse.get("/settings", {"delay": 0.2, "history_hides": ["query_text"]})
    assert connection.running(tags) == [query], "by its query tags"
    assert connection.running({**tags, "step": "other"}) == []
    assert connection.status(query) == JobStatus(JobState.RUNNING), "the history knows it without the handle"
    assert connection.link(id) == f"https://{connection.place}/sql/history?uiQueryProfileVisible=true&queryId={query}"
    while not warehouse.get("/calls"):
        assert time.monotonic() - started < 60, "nothing is asked"
    connection.cancel(id)
    assert ended(connection, id) == JobStatus(JobState.CANCELLED)
    before = len(warehouse.get("/calls"))
    warehouse.get("/settings", {})
    ended(connection, connection.submit(ASK.format(tag="next", rows=5), {}, "job-2"))
    assert len(warehouse.get("/calls")) == before + 5, "a cancelled one asks nothing more"
    assert connection.running(tags) == []
    connection.cancel(id)
    assert len(asked(warehouse, "cancelled")) < LONG


def test_no_tag_changes_a_statement_and_each_finds_it_again(
    warehouse: Process, connection: DatabricksConnection
) -> None:
    """Spark and Databricks nest comments: a tag must neither end the comment of the tags nor open another."""
    made = "CREATE TABLE injected AS SELECT 1 AS x"
    attacks = [f"*/ {made} /* */ --", f"*/ {made}; -- /*", f"/* */ */ {made} --", "/*", "*\\/", "x\n*/\n-- /*"]
    tags = {f"tag {number}": text for number, text in enumerate((*attacks, *NAMES.values()))}
    warehouse.get("/settings", {"delay": 0.2})
    id = connection.submit(ASK.format(tag="tagged", rows=LONG), tags, "job-tags")
    assert [text for name, text in tags.items() if connection.running({name: text}) != [id]] == []
    connection.cancel(id)
    assert ended(connection, id) == JobStatus(JobState.CANCELLED)
    assert connection.columns("injected") is None


def test_rows_and_columns(connection: DatabricksConnection) -> None:
    connection.rows("""
        CREATE TABLE `t y` AS SELECT 1 AS i, CAST(2 AS BIGINT) AS b, 'ü' AS s, 1.5D AS d,
        CAST(1.25 AS DECIMAL(10,2)) AS m,
        true AS o, DATE'2026-01-02' AS day, TIMESTAMP'2026-01-02 03:04:05' AS at, array('x') AS a,
        named_struct('k', 1L) AS r, parse_json('{}') AS v, CAST(NULL AS STRING) AS n""")
    assert connection.columns("`t y`") == {
        "i": BIGINT, "b": BIGINT, "s": STRING, "d": DOUBLE, "m": Decimal(10, 2), "o": BOOLEAN, "day": DATE,
        "at": INSTANT, "a": Array(STRING), "r": Struct((("k", BIGINT),)), "v": None, "n": STRING,
    }  # fmt: skip
    assert connection.columns("missing") is None
    assert connection.columns("no_schema.missing") is None
    assert connection.rows("SELECT i, s, n, o FROM `t y`") == [(1, "ü", None, True)]
    assert connection.rows("SELECT CAST(TIMESTAMP'2026-07-01 12:00:00Z' AS STRING)") == [("2026-07-01 12:00:00",)]
    assert connection.rows("SELECT id FROM range(0)") == []
    assert sum(row[0] for row in connection.rows("SELECT id FROM range(3000)")) == 2999 * 1500
    with pytest.raises(RunError, match=r"127\.0\.0\.1:[0-9]+: \[TABLE_OR_VIEW_NOT_FOUND\] The table or view `missing`"):
        connection.rows("SELECT * FROM missing")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "the profile has no host, no http_path, no token (or client_id and client_secret;"),
        (
            {"host": "h", "token": "hunter2"},
            "the profile has no http_path: it is in the warehouse's Connection details",
        ),
        ({"host": "h", "http_path": "p", "client_id": "hunter2"}, "the profile has no token (or client_id"),
        (
            {"host": "h", "http_path": "p", "auth_type": "env-oidc"},
            "the profile has auth_type env-oidc, and DATABRICKS_OIDC_TOKEN is not set",
        ),
        ({"host": "http://h/x", "http_path": "p", "token": "hunter2"}, "the profile has a host that is none"),
    ],
)
def test_missing_fields_are_named(fields: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_databricks(fields)
    assert expected in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "login",
    [
        {"auth_type": "oauth", "client_id": PRINCIPAL, "client_secret": SECRET},
        {"auth_type": "env-oidc", "client_id": PRINCIPAL},
        {"auth_type": "file-oidc"},
    ],
)
def test_a_service_principal_connects(
    fields: dict[str, Any], login: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(f"{IDENTITY}\n")
    monkeypatch.setenv("DATABRICKS_OIDC_TOKEN", IDENTITY)
    monkeypatch.setenv("DATABRICKS_OIDC_TOKEN_FILEPATH", str(tmp_path / "token"))
    with open_databricks({**fields, "token": None, **login}) as opened:
        assert opened.rows("SELECT 1") == [(1,)]
        assert opened.running({"run": "none"}) == []


@pytest.mark.parametrize("auth_type", ["oauth", "external-browser"])
def test_a_login_in_the_browser_is_left_to_the_client(auth_type: str) -> None:
    settings = settings_of_fields({"host": "h", "http_path": "p", "auth_type": auth_type})
    assert settings.credentials(1.0) == {"auth_type": "databricks-oauth"}


def test_a_real_time_warehouse_is_told() -> None:
    settings = settings_of_fields({"host": "h", "http_path": "/w", "token": "hunter2"})
    refused = RuntimeError("BAD_REQUEST: Lakehouse/RT is not supported for Thrift protocol. Please update your driver")
    assert str(not_connected(settings, refused)) == (
        "h: /w is a Real-Time warehouse, which takes no Thrift: name a Pro or serverless SQL warehouse"
    )


CONFIG = """[DEFAULT]
host = https://default.example/
token = hunter2
http_path = /sql/1.0/warehouses/d
[prod]
host = prod.example
token = hunter3
warehouse_id = 77
[half]
host = half.example
token = hunter4
"""


@pytest.mark.parametrize(
    ("name", "environment", "expected"),
    [
        (None, {}, "default.example /sql/1.0/warehouses/d hunter2"),
        ("prod", {}, "prod.example /sql/1.0/warehouses/77 hunter3"),
        (None, {"DATABRICKS_CONFIG_PROFILE": "prod"}, "prod.example /sql/1.0/warehouses/77 hunter3"),
        ("half", {"DATABRICKS_HTTP_PATH": "/sql/x"}, "half.example /sql/x hunter4"),
        ("prod", {"DATABRICKS_HOST": "env.example", "DATABRICKS_TOKEN": "t"},
         "prod.example /sql/1.0/warehouses/77 hunter3"),
        (None, {"DATABRICKS_HOST": "env.example", "DATABRICKS_TOKEN": "t", "DATABRICKS_HTTP_PATH": "/sql/y"},
         "env.example /sql/y t"),
        (None, {"DATABRICKS_HOST": "env.example", "DATABRICKS_HTTP_PATH": "/y"},
         ConfigError("the environment has no token")),
        ("half", {}, ConfigError("has no http_path: it is in the warehouse's Connection details")),
        ("prdo", {}, ConfigError("no profile [prdo] (prod?); there are: DEFAULT, prod, half")),
    ],
)  # fmt: skip
def test_a_named_connection_is_read_as_databricks_tools_do(
    name: str | None,
    environment: dict[str, str],
    expected: str | ConfigError,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in ("HOST", "TOKEN", "HTTP_PATH", "CONFIG_PROFILE", "CLIENT_ID", "CLIENT_SECRET", "WAREHOUSE_ID"):
        monkeypatch.delenv(f"DATABRICKS_{variable}", raising=False)
    (tmp_path / "config").write_text(CONFIG)
    monkeypatch.setenv("DATABRICKS_CONFIG_FILE", str(tmp_path / "config"))
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    if isinstance(expected, ConfigError):
        with pytest.raises(ConfigError) as caught:
            open_databricks_named(name)
        assert str(expected) in str(caught.value)
        assert "hunter" not in str(caught.value)
        return
    found = open_databricks_named(name, catalog="main", schema="s")._settings
    assert f"{found.host} {found.http_path} {found.token}" == expected
    assert (found.catalog, found.schema) == ("main", "s")


@pytest.mark.parametrize(("name", "expected"), [("prod", "is missing: write it"), (None, "has no host")])
def test_a_missing_configuration_is_named(
    name: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HOST", "TOKEN", "CONFIG_PROFILE"):
        monkeypatch.delenv(f"DATABRICKS_{variable}", raising=False)
    monkeypatch.setenv("DATABRICKS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match=expected):
        open_databricks_named(name)


@pytest.mark.parametrize("kind", ["throttle", "reset", "session", "cut"])
def test_what_may_pass_is_transient_and_passes(warehouse: Process, connection: DatabricksConnection, kind: str) -> None:
    for call in (lambda: connection.submit("SELECT 1", {"run": kind}, "job"), lambda: connection.rows("SELECT 1")):
        warehouse.get("/settings", {"fail": {kind: 1.0}})
        for _ in range(2):  # each kind has two forms, in turn
            started = time.monotonic()
            with pytest.raises(TransientError) as caught:
                call()
            assert time.monotonic() - started < 5, "the client waits for nothing"
            assert "\n" not in str(caught.value)
        warehouse.get("/settings", {})
        call()


def test_a_lost_answer_starts_nothing_twice(warehouse: Process, connection: DatabricksConnection) -> None:
    before = len(warehouse.get("/statements"))
    warehouse.get("/settings", {"fail": {"reset": 1.0}})
    for _ in range(4):
        with pytest.raises(TransientError):
            connection.submit("SELECT 1", {"run": "lost"}, "job")
    assert len(warehouse.get("/statements")) == before + 2, "every second request arrives before the reset, once"


def test_a_failed_statement_may_pass(warehouse: Process, connection: DatabricksConnection) -> None:
    warehouse.get("/settings", {"fail": {"statement": 1.0}})
    found = ended(connection, connection.submit("SELECT 1", {"run": "fails"}, "job"))
    assert found.state is JobState.FAILED
    assert found.transient
    assert found.error.startswith("[DELTA_CONCURRENT_APPEND]")


def test_a_throttled_login_may_pass(warehouse: Process, fields: dict[str, Any]) -> None:
    warehouse.get("/settings", {"fail": {"throttle": 1.0}})
    with pytest.raises(TransientError), open_databricks(fields):
        pass
