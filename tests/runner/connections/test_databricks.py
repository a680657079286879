"""The connection to Databricks: the unmodified client against the stand-in, a process of its own."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, INSTANT, STRING, Array, Decimal, Struct
from sqlenrich.plan.compile import compile_plan
from sqlenrich.renderer.script import model_for
from sqlenrich.renderer.statements import plan_statements
from sqlenrich.spec.settings import Config
from sqlenrich.store.connections.base import JobState, JobStatus, TransientError
from sqlenrich.store.connections.databricks.connection import (
    DatabricksConnection,
    open_databricks,
    open_databricks_named,
)
from sqlenrich.store.connections.databricks.errors import not_connected
from sqlenrich.store.connections.databricks.settings import settings_of_fields
from tests.support.hostile import NAMES
from tests.support.process import ROOT, Process
from tests.support.warehouses import Standin, ended

pytest.importorskip("databricks.sql")
pytestmark = pytest.mark.spark

TOKEN, PRINCIPAL, SECRET, IDENTITY = "dapi-standin-token", "standin-principal", "standin-secret", "an.identity.token"
HTTP_PATH = "/sql/1.0/warehouses/standin"
WAIT_S = 60.0
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


ENDS: list[tuple[str, JobStatus]] = [
    ("CREATE OR REPLACE TABLE s1 AS SELECT id FROM range(5)", JobStatus(JobState.DONE, 5)),
    ("INSERT INTO s1 SELECT id FROM range(3)", JobStatus(JobState.DONE, 3)),
    ("CREATE OR REPLACE TABLE s1 AS SELECT id FROM range(2)", JobStatus(JobState.DONE, 2)),
    ("SELECT '/* */ ${env:HOME} ü' AS text", JobStatus(JobState.DONE)),
    ("DELETE FROM s1 WHERE id > 7", JobStatus(JobState.DONE)),
    ("SELECT raise_error('line 429\nmore')", JobStatus(
        JobState.FAILED, error="[USER_RAISED_EXCEPTION] line 429",
    )),
    ("SELECT id FROM nowhere", JobStatus(
        JobState.FAILED, error="[TABLE_OR_VIEW_NOT_FOUND] The table or view `nowhere` cannot be found. "
        "Verify the spelling and correctness of the schema and catalog.",
    )),
    ("SELECT raise_error('[DELTA_CONCURRENT_APPEND] again')", JobStatus(
        JobState.FAILED, error="[USER_RAISED_EXCEPTION] [DELTA_CONCURRENT_APPEND] again SQLSTATE: P0001",
        transient=True,
    )),
]  # fmt: skip


def test_a_statement_ends_as_the_warehouse_says(connection: DatabricksConnection) -> None:
    for sql, expected in ENDS:
        id = connection.submit(sql, {"app": "sqlenrich", "run": "ends"}, "job")
        assert ended(connection, id) == expected, sql
        assert connection.status(id) == expected, "it is the same when asked again"


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
    connection.cancel(id)
    assert ended(connection, id) == JobStatus(JobState.CANCELLED)
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


def test_another_process_finds_watches_and_cancels_the_statement_of_a_dead_client(
    warehouse: Process, fields: dict[str, Any]
) -> None:
    warehouse.get("/settings", {"delay": 0.2})
    tags = {"run": "dead"}
    client, id = client_that_submits(fields, ASK.format(tag="dead", rows=LONG), tags)
    client.send_signal(signal.SIGKILL)
    client.wait(WAIT_S)
    with open_databricks(fields) as second:
        (found,) = second.running(tags)
        assert found == id
        assert second.status(id) == JobStatus(JobState.RUNNING)
        second.cancel(id)
        assert ended(second, id) == JobStatus(JobState.CANCELLED)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_the_statement_of_a_client_that_was_killed_goes_on(
    warehouse: Process, fields: dict[str, Any], how: signal.Signals
) -> None:
    warehouse.get("/settings", {"delay": 0.05})
    name = f"goes_on_{how.name.lower()}"
    client, id = client_that_submits(fields, f"CREATE TABLE {name} AS {ASK.format(tag=name, rows=40)}", {"run": name})
    client.send_signal(how)
    assert client.wait(WAIT_S) == -how, "the client is not kept from ending"
    with open_databricks(fields) as second:
        assert ended(second, id) == JobStatus(JobState.DONE)
        assert second.rows(f"SELECT COUNT(*) FROM {name}") == [(40,)]
    assert asked(warehouse, name) == sorted(f"{name} {row}" for row in range(40)), "each request was asked once"


CLIENT = """
import json, signal, sys, time
from sqlenrich.store.connections.databricks.connection import open_databricks
given = json.load(sys.stdin)
with open_databricks(given["fields"]) as connection:
    print(connection.submit(given["sql"], given["tags"], "job"), flush=True)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    time.sleep(600)
"""


def client_that_submits(
    fields: Mapping[str, Any], sql: str, tags: Mapping[str, str]
) -> tuple[subprocess.Popen[str], str]:
    """A process that has submitted a statement and waits, and the statement's id."""
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert client.stdin is not None
    assert client.stdout is not None
    with client.stdin, client.stdout:
        client.stdin.write(json.dumps({"fields": fields, "sql": sql, "tags": dict(tags)}))
        client.stdin.close()
        id = client.stdout.readline().strip()
    assert id, f"the client ended with {client.wait(WAIT_S)}"
    return client, id


def test_leaving_a_connection_ends_no_statement(warehouse: Process, fields: dict[str, Any]) -> None:
    warehouse.get("/settings", {"delay": 0.05})
    with open_databricks(fields) as first:
        id = first.submit(f"CREATE TABLE left_alone AS {ASK.format(tag='left', rows=30)}", {"run": "left"}, "job")
    with open_databricks(fields) as second:
        assert ended(second, id) == JobStatus(JobState.DONE)


def test_an_id_that_nobody_knows(connection: DatabricksConnection) -> None:
    unknown = "00000000-0000-4000-8000-000000000001"
    assert connection.status(unknown) == JobStatus(JobState.UNKNOWN)
    connection.cancel(unknown)
    assert connection.status("no-id") == JobStatus(JobState.UNKNOWN)


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
    ("sql", "message"),
    [
        ("SELECT 1", None),
        ("SELECT x FROM range(2)", "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function"),
        ("SELECT * FROM missing", "[TABLE_OR_VIEW_NOT_FOUND] The table or view `missing` cannot be found."),
        ("SELEC 1", "[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'"),
    ],
)
def test_check_compiles_and_runs_nothing(
    warehouse: Process, connection: DatabricksConnection, sql: str, message: str | None
) -> None:
    if message is None:
        connection.check(sql)
        return
    with pytest.raises(RunError) as caught:
        connection.check(sql)
    assert str(caught.value).startswith(f"{connection.place}: {message}")
    assert "\n" not in str(caught.value)


def test_check_asks_no_model(warehouse: Process, connection: DatabricksConnection) -> None:
    connection.check(ASK.format(tag="checked", rows=3))
    assert asked(warehouse, "checked") == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"token": "hunter2"}, "refused the credentials: token is wrong or expired"),
        ({"token": "", "client_id": PRINCIPAL, "client_secret": "hunter2"}, "client_id or client_secret is wrong"),
        ({"http_path": "/sql/1.0/warehouses/gone"}, "no warehouse at /sql/1.0/warehouses/gone: correct http_path"),
        ({"connection_parameters": {}}, "its TLS certificate is not accepted"),
        ({"host": "name.invalid"}, "name.invalid: nobody answers there: correct host, or the network"),
        ({"host": "127.0.0.1:1"}, "127.0.0.1:1: nobody answers there: correct host, or the network"),
    ],
)
def test_what_refuses_a_connection_is_one_line_within_30_seconds(
    fields: dict[str, Any], changed: dict[str, Any], expected: str, capfd: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()
    with pytest.raises(ConfigError) as caught, open_databricks({**fields, **changed}):
        pass
    assert time.monotonic() - started < 30
    message = str(caught.value)
    assert expected in message
    assert "\n" not in message
    printed = "".join(capfd.readouterr()) + message + repr(open_databricks({**fields, **changed}))
    assert printed == message + repr(open_databricks({**fields, **changed})), "the client prints nothing"
    assert not [secret for secret in ("hunter2", TOKEN) if secret in printed]


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


def test_a_script_statement_by_statement_equals_duckdb(
    warehouse: Process, connection: DatabricksConnection, tmp_path: Path
) -> None:
    (prompt,) = (ROOT / "templates" / "support_ticket").glob("*.prompt")
    (sample,) = (ROOT / "templates" / "support_ticket").glob("*.csv")
    enrichment = se.load(prompt)
    warehouse.get("/settings", {"answers": str(prompt)})
    with sample.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    source = " UNION ALL ".join(
        "SELECT " + ", ".join(f"{text(row[name])} AS {name}" for name in ("id", "subject", "body")) for row in rows
    )
    connection.rows(f"CREATE TABLE tickets_source AS {source}")

    config = Config()
    plan = compile_plan(
        enrichment,
        "databricks",
        {"source": "tickets_source"},
        model=model_for(enrichment, "databricks", config),
    )
    for statement in plan_statements(plan):
        id = connection.submit(statement.sql, {"run": "script"}, "job")
        assert ended(connection, id).state is JobState.DONE, f"{statement.title}: {connection.status(id)}"

    report = se.run(enrichment, input=sample, output=tmp_path / "out.duckdb", mock=True, config=config)
    assert report.rows_in == len(rows)
    with duckdb.connect(tmp_path / "out.duckdb") as db:
        for name in ("enriched", "quarantine"):
            step = plan.step(name)
            columns = [column for column in step.columns if column not in ("_model", "_request_hash", "_asked_at")]
            listed = ", ".join(columns)
            relation = step.relation.strip("`")
            expected = db.sql(f"SELECT {listed} FROM {relation} ORDER BY id").fetchall()
            found = connection.rows(f"SELECT {listed} FROM {step.relation} ORDER BY id")
            assert found == expected
            assert expected or name == "quarantine"
    sent = [call["prompt"] for call in warehouse.get("/calls") if "<ticket>" in (call["prompt"] or "")]
    assert len(sent) == len(set(sent)) == report.calls
    assert connection.rows(f"SELECT COUNT(*) FROM {plan.step('prompts').relation}") == [(len(rows),)]


def text(value: str) -> str:
    """A literal of Spark; an empty field is NULL."""
    if value == "":
        return "CAST(NULL AS STRING)"
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("${", "$\\{")
    return f"'{escaped}'"
