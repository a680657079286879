"""The connection to Snowflake: Snowflake's own connector against a server process that speaks its protocol."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, Decimal, Type
from sqlenrich.plan.compile import compile_plan
from sqlenrich.renderer.script import model_for
from sqlenrich.renderer.statements import plan_statements
from sqlenrich.renderer.tables import clean_up, guards
from sqlenrich.spec.loader import templates
from sqlenrich.spec.settings import Config
from sqlenrich.store.connections.base import ConnectPolicy, JobState, JobStatus, TransientError
from sqlenrich.store.connections.snowflake.connection import (
    SnowflakeConnection,
    open_snowflake,
    open_snowflake_named,
)
from sqlenrich.store.connections.snowflake.errors import is_transient
from sqlenrich.store.connections.snowflake.settings import parameters
from tests.support.process import ROOT, Process
from tests.support.warehouses import ENDS_S, Standin, ended

pytest.importorskip("snowflake.connector")

PASSWORD = "a-secret-password"
TAGS = {"app": "sqlenrich", "run": "r1", "step": "responses"}
ASK = (
    "INSERT INTO PUBLIC.ASKED (RAW) SELECT TO_JSON(AI_COMPLETE(model => 'm', prompt => body, show_details => TRUE, "
    "return_error_details => TRUE)) FROM PUBLIC.MESSAGES WHERE body IS NOT NULL"
)
TYPED: Mapping[str, tuple[str, Type | None]] = {
    "ID": ("NUMBER(38,0)", BIGINT),
    "SMALL": ("NUMBER(5,0)", BIGINT),
    "PRICE": ("NUMBER(10,2)", Decimal(10, 2)),
    "BODY": ("VARCHAR", STRING),
    "SHARE": ("FLOAT", DOUBLE),
    "OPEN": ("BOOLEAN", BOOLEAN),
    "DAY": ("DATE", DATE),
    "AT": ("TIMESTAMP_NTZ", TIMESTAMP),
    "DOC": ("VARIANT", None),
    "ITEMS": ("ARRAY", None),
    '"Mixed case"': ("VARCHAR", STRING),
}
UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def process(standins: Callable[[str], Standin]) -> Process:
    return standins("snowflake").process


@pytest.fixture(autouse=True)
def calm(process: Process) -> None:
    """Every test starts with the same tables and settings."""
    process.get("/clear", {})
    process.get("/settings", {"password": PASSWORD})
    rows = [["1", "my card is lost"], ["2", "where is my refund"], ["3", None]]
    process.get("/tables", {"name": "PUBLIC.MESSAGES", "columns": {"ID": "VARCHAR", "BODY": "VARCHAR"}, "rows": rows})
    process.get("/tables", {"name": "PUBLIC.ASKED", "columns": {"RAW": "VARCHAR"}, "rows": []})


def fields(process: Process, **changed: Any) -> dict[str, Any]:
    """A profile as dbt writes it, with what is dbt's alone."""
    given = {
        "type": "snowflake", "account": "org-standin", "user": "me", "password": PASSWORD, "host": "127.0.0.1",
        "port": process.port, "protocol": "http", "database": "DB", "schema": "PUBLIC", "threads": 4,
        "query_tag": "dbt", "reuse_connections": True,
    }  # fmt: skip
    return given | changed


@contextmanager
def connected(process: Process, policy: ConnectPolicy | None = None, **changed: Any) -> Iterator[SnowflakeConnection]:
    with open_snowflake(fields(process, **changed), policy or ConnectPolicy()) as connection:
        yield connection


# Statements -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE OR REPLACE TABLE PUBLIC.COPIED AS SELECT id FROM PUBLIC.MESSAGES", JobStatus(JobState.DONE)),
        ("INSERT INTO PUBLIC.ASKED (raw) SELECT body FROM PUBLIC.MESSAGES", JobStatus(JobState.DONE, rows=3)),
        ("UPDATE PUBLIC.MESSAGES SET body = 'x' WHERE id = '1'", JobStatus(JobState.DONE, rows=1)),
        ("SELECT '100%%' AS a, '%s' AS b", JobStatus(JobState.DONE)),
        (
            "SELECT nope FROM PUBLIC.MESSAGES",
            JobStatus(JobState.FAILED, error="invalid identifier nope (001003)", started=False),
        ),
        (
            "INSERT INTO PUBLIC.ABSENT (id) SELECT id FROM PUBLIC.MESSAGES",
            JobStatus(
                JobState.FAILED,
                error="SQL compilation error: Object 'PUBLIC.ABSENT' does not exist or not authorized. (002003)",
                started=False,
            ),
        ),
    ],
)
def test_a_statement_ends_with_its_rows_or_its_error(process: Process, sql: str, expected: JobStatus) -> None:
    with connected(process) as connection:
        assert ended(connection, connection.submit(sql, TAGS, "job-1")) == expected


@pytest.mark.parametrize("id", [UNKNOWN, "no id of Snowflake's", ""])
def test_an_unknown_statement_is_unknown_and_stays_uncancelled(process: Process, id: str) -> None:
    with connected(process) as connection:
        assert connection.status(id) == JobStatus(JobState.UNKNOWN)
        connection.cancel(id)


@pytest.mark.parametrize(
    "status", ["RESTARTED", "ABORTING", "QUEUED", "QUEUED_REPARING_WAREHOUSE", "BLOCKED", "RESUMING_WAREHOUSE"]
)
def test_each_status_before_the_end_is_one_of_a_statement_that_runs(process: Process, status: str) -> None:
    process.get("/settings", {"delay": 0.5, "running_as": status})
    tags, job = {"run": status}, f"job {status}"
    with connected(process) as connection:
        id = connection.submit(ASK, tags | {"job": job}, job)
        assert connection.status(id) == JobStatus(JobState.RUNNING)
        assert (connection.running(tags), connection.find(job)) == ([id], id)
        assert ended(connection, id) == JobStatus(JobState.DONE, rows=2)
        assert (connection.running(tags), connection.find(job), connection.find("another")) == ([], id, None)
        assert len(connection.rows(ASK.split("(RAW) ")[1])) == 2, "a short query in this status is waited for"


def test_a_statement_is_found_by_its_tags_and_cancelled(process: Process) -> None:
    process.get("/settings", {"delay": ENDS_S})
    with connected(process) as connection, connected(process) as other:
        id = connection.submit(ASK, TAGS, "job-1")
        assert connection.status(id) == JobStatus(JobState.RUNNING)
        assert other.running({"app": "sqlenrich", "run": "r1"}) == [id]
        assert other.running({"app": "sqlenrich", "run": "r2"}) == []
        other.cancel(id)
        assert ended(connection, id) == JobStatus(JobState.CANCELLED, error="SQL execution canceled (000604)")
        assert other.running(TAGS) == []
        other.cancel(id)
        assert connection.rows("SELECT raw FROM PUBLIC.ASKED") == []
    (tag,) = [each["tag"] for each in process.get("/statements") if each["id"] == id]
    assert tag == '{"app":"sqlenrich","run":"r1","step":"responses"}'
    assert [call["prompt"] for call in process.get("/calls")] == ["my card is lost", "where is my refund"]


CLIENT = """
    import sys
    from sqlenrich.store.connections.snowflake.connection import open_snowflake
    import json
    with open_snowflake(json.loads(sys.argv[1])) as connection:
        print(connection.submit(sys.argv[2], json.loads(sys.argv[3]), "job-1"), flush=True)
        sys.stdin.read()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, None])
def test_a_statement_goes_on_without_its_client(process: Process, how: signal.Signals | None) -> None:
    """``how`` is the client's end: a signal, or its own, which closes the connection."""
    process.get("/settings", {"delay": 5.0})
    command = [sys.executable, "-c", textwrap.dedent(CLIENT), json.dumps(fields(process)), ASK, json.dumps(TAGS)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert client.stdout is not None
    id = client.stdout.readline().strip()
    if how is not None:
        client.send_signal(how)
    client.communicate()
    with connected(process) as connection:
        assert connection.running(TAGS) == [id]
        assert ended(connection, id) == JobStatus(JobState.DONE, rows=2)
        assert len(connection.rows("SELECT raw FROM PUBLIC.ASKED")) == 2
    assert len(process.get("/calls")) == 2


def test_other_statements_go_on_beside_one_that_asks(process: Process) -> None:
    process.get("/settings", {"delay": 1.0})
    with connected(process) as connection:
        id = connection.submit(ASK, TAGS, "job-1")
        assert connection.rows("SELECT raw FROM PUBLIC.ASKED") == []
        assert connection.status(id).state is JobState.RUNNING
        assert ended(connection, id).rows == 2


# Queries --------------------------------------------------------------------------------------------------------------


def test_columns_have_their_types_and_their_names(process: Process) -> None:
    columns = {name: kind for name, (kind, _) in TYPED.items()}
    process.get("/tables", {"name": "PUBLIC.TYPED", "columns": columns, "rows": []})
    with connected(process) as connection:
        expected = {name.strip('"'): kind for name, (_, kind) in TYPED.items()}
        assert connection.columns("public.typed") == expected
        assert list(connection.columns("public.typed") or ()) == list(expected)
        assert connection.columns("public.absent") is None
        with pytest.raises(ValueError, match="is not a table name"):
            connection.columns("f(x)")


def test_a_query_is_compiled_and_not_run(process: Process) -> None:
    with connected(process) as connection:
        connection.check(ASK)
        connection.check("/* a note */ SELECT id FROM PUBLIC.MESSAGES")
        for sql, message in {
            "SELECT nope FROM PUBLIC.MESSAGES": r"snowflake org-standin: invalid identifier nope",
            "SELECT id FROM PUBLIC.ABSENT": "Object PUBLIC.ABSENT does not exist",
        }.items():
            with pytest.raises(RunError, match=message):
                connection.check(sql)
            with pytest.raises(RunError, match=message):
                connection.rows(sql)
    assert process.get("/calls") == []


def test_sessions_are_in_utc_and_commit(process: Process) -> None:
    with connected(process) as connection:
        connection.rows("SELECT 1 AS x")
    (session,) = process.get("/sessions")[-1:]
    found = {name.upper(): value for name, value in session.items()}
    assert found["TIMEZONE"] == "UTC"
    assert str(found["AUTOCOMMIT"]).lower() == "true"
    assert str(found["ABORT_DETACHED_QUERY"]).lower() == "false"


def test_the_address_of_a_statement(process: Process) -> None:
    with connected(process) as connection:
        assert connection.link("01b7") == "https://app.snowflake.com/org/standin/#/compute/history/queries/01b7/detail"


def test_the_handler_of_ctrl_c_stays(process: Process) -> None:
    """The connector replaces it while it executes in the main thread: seen by a handler that counts."""
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    try:
        process.get("/settings", {"delay": 0.5})
        with connected(process) as connection:
            id = connection.submit(ASK, TAGS, "job-1")
            while connection.status(id).state is JobState.RUNNING:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.05)
            assert ended(connection, id) == JobStatus(JobState.DONE, rows=2)
        assert seen
        assert signal.getsignal(signal.SIGINT) is not before
    finally:
        signal.signal(signal.SIGINT, before)


# Failures -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"password": "another-secret"}, "Incorrect username or password was specified.* check user and password"),
        ({"port": 1}, "snowflake org-standin: .*check account, host and port"),
        ({"host": "absent.invalid"}, "snowflake org-standin: .*check account, host and port"),
        ({"account": ""}, "has no account"),
        ({"user": None}, "has no user"),
        ({"private_key": "c2VjcmV0LWtleQ=="}, "private_key"),
        ({"private_key_path": "/absent/key.p8"}, "private_key_path: there is no file /absent/key.p8"),
        ({"authenticator": "oauth", "oauth_client_secret": "another-secret", "token": "a-secret"}, "access token"),
    ],
)
def test_a_wrong_profile_ends_in_one_line(
    process: Process, changed: Mapping[str, Any], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    with pytest.raises(ConfigError, match=message) as raised, connected(process, ConnectPolicy(connect_s=3), **changed):
        pass
    assert time.monotonic() - began < 10
    told = f"{raised.value}{raised.value!r}{capfd.readouterr()}"
    assert "\n" not in str(raised.value)
    assert "Traceback" not in told
    for secret in (PASSWORD, "another-secret", "c2VjcmV0LWtleQ"):
        assert secret not in told
    assert PASSWORD not in repr(open_snowflake(fields(process)))


@pytest.mark.parametrize(("fault", "share"), [("reset", 0.3), ("restart", 0.2), ("throttle", 0.1)])
def test_a_request_that_fails_is_repeated_and_starts_one_statement(process: Process, fault: str, share: float) -> None:
    before = len(process.get("/statements"))
    with connected(process) as connection:
        process.get("/settings", {"fail": {fault: share}})
        for number in range(4):
            id = connection.submit(f"CREATE OR REPLACE TABLE PUBLIC.N{number} AS SELECT 1 AS n", TAGS, f"job-{number}")
            assert ended(connection, id).state is JobState.DONE
        process.get("/settings", {"fail": {}})
    made = [each["sql"] for each in process.get("/statements")[before:] if each["sql"].startswith("CREATE")]
    assert len(made) == 4


@pytest.mark.parametrize("fault", ["reset", "restart", "throttle", "session"])
def test_a_lost_service_is_transient_and_the_next_call_connects_again(
    process: Process, fault: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with connected(process, ConnectPolicy(connect_s=2, request_s=2)) as connection:
        id = connection.submit(ASK, TAGS, "job-1")
        assert ended(connection, id).rows == 2
        process.get("/settings", {"fail": {fault: 1.0}})
        for call in (lambda: connection.status(id), lambda: connection.rows("SELECT 1 AS x")):
            with pytest.raises(TransientError, match="snowflake org-standin: "):
                call()
        process.get("/settings", {"fail": {}})
        assert connection.rows("SELECT 1 AS x") == [(1,)]
        assert connection.status(id) == JobStatus(JobState.DONE, rows=2)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"fail": {"statement": 1.0}}, "Processing aborted by error 300010:391167117; incident 1 (000603)"),
        ({"poison": "refund"}, "Processing aborted by error 300010:391167117; the model failed (000603)"),
    ],
)
def test_a_statement_that_fails_stores_nothing(process: Process, settings: Mapping[str, Any], error: str) -> None:
    process.get("/settings", settings)
    with connected(process) as connection:
        assert ended(connection, connection.submit(ASK, TAGS, "job-1")) == JobStatus(JobState.FAILED, error=error)
        assert connection.rows("SELECT raw FROM PUBLIC.ASKED") == []


@pytest.mark.parametrize(
    ("number", "message", "expected"),
    [
        (625, "Statement 'a' has locked table 'T' in transaction 1", True),
        (608, "Warehouse 'W' is suspended.", True),
        (290503, "HTTP 503: Service Unavailable", True),
        (580429, "290429: HTTP 429: Too Many Requests", True),
        (390111, "Session no longer exists.", True),
        (4, "HTTP request failed after retries: async submit. last status 503", True),
        (290404, "HTTP 404: Not Found", False),
        (2003, "Object 'timed out' does not exist", False),
        (1003, "SQL compilation error: connection reset", False),
        (606, "No active warehouse selected in the current session", False),
        (-1, "something else", False),
    ],
)
def test_which_errors_may_pass(number: int, message: str, expected: bool) -> None:
    assert is_transient(number, message) is expected


# Credentials ----------------------------------------------------------------------------------------------------------

PEM = "-----BEGIN PRIVATE KEY-----\nMIIE\nvQ==\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"threads": 4, "query_tag": "x", "reuse_connections": True, "connect_retries": 1}, {}),
        ({"private_key_path": __file__}, {"private_key_file": __file__}),
        (
            {"private_key_path": __file__, "private_key_passphrase": "p"},
            {"private_key_file": __file__, "private_key_file_pwd": "p"},
        ),
        ({"private_key": PEM}, {"private_key": "MIIEvQ=="}),
        (
            {"private_key": PEM, "private_key_passphrase": "p"},
            {"private_key": "MIIEvQ==", "private_key_passphrase": b"p"},
        ),
        ({"port": "8443", "role": "R", "warehouse": ""}, {"port": 8443, "role": "R"}),
        ({"authenticator": "oauth", "token": "t"}, {"authenticator": "oauth", "token": "t"}),
    ],
)
def test_the_parameters_of_a_profile(given: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    base = {"account": "a", "user": "u"}
    assert parameters({"type": "snowflake", **base, **given}) == {**base, **expected}


NAMED = """
    import sys
    from sqlenrich.core.errors import ConfigError
    from sqlenrich.store.connections.snowflake.connection import open_snowflake_named
    try:
        with open_snowflake_named(sys.argv[1] or None) as connection:
            print(connection.place, connection.rows("SELECT 1 AS x"))
    except ConfigError as error:
        print(error)
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("work", "snowflake work [(1,)]"),
        ("", "snowflake default connection [(1,)]"),
        ("wrk", 'Snowflake\'s connections.toml has no connection "wrk" (work?)'),
    ],
)
def test_a_connection_by_its_name(process: Process, tmp_path: Path, name: str, expected: str) -> None:
    given = fields(process)
    kept = ("account", "user", "password", "host", "port", "protocol", "database", "schema")
    lines = ["[work]", *(f"{key} = {json.dumps(given[key])}" for key in kept)]
    file = tmp_path / "connections.toml"
    file.write_text("\n".join(lines) + "\n")
    file.chmod(0o600)
    environment = os.environ | {
        "SNOWFLAKE_HOME": str(tmp_path), "SNOWFLAKE_DEFAULT_CONNECTION_NAME": "work", "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    command = [sys.executable, "-c", textwrap.dedent(NAMED), name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == (expected, "")


def test_the_default_of_the_opening_functions() -> None:
    assert open_snowflake_named().place == "snowflake default connection"
    assert open_snowflake({"account": "a"}, place="analytics:prod").place == "analytics:prod"


# A whole script -------------------------------------------------------------------------------------------------------


def test_a_template_gives_what_duckdb_gives(process: Process, tmp_path: Path) -> None:
    """The same model answers both, and some answers are wrong: the tables are equal, and a second run asks nothing."""
    name, failures = "review_aspects", {"bad_json": 0.2, "missing_field": 0.2}
    path = templates()[name]
    data, output = path.with_name("sample.csv"), tmp_path / "out.duckdb"
    enrichment = replace(se.load(name), max_quarantine=None)
    se.run(enrichment, input=str(data), output=str(output), mock=True, mock_failures=failures)
    with data.open(newline="") as file:
        header, *rows = csv.reader(file)
    held = [[value or None for value in row] for row in rows]
    process.get("/tables", {"name": "RAW.REVIEWS", "columns": dict.fromkeys(header, "VARCHAR"), "rows": held})
    process.get("/settings", {"answers": str(path), "answers_fail": failures})
    model = model_for(enrichment, "snowflake", Config())
    plan = compile_plan(enrichment, "snowflake", {"source": "RAW.REVIEWS"}, model=model)
    with connected(process) as connection:
        for expected in (len(rows), 0):
            process.get("/calls", {})
            for statement in (*guards(plan), *plan_statements(plan), *clean_up(plan)):
                status = ended(connection, connection.submit(statement.sql, TAGS, "job"))
                assert status.state is JobState.DONE, f"{statement.title}: {status}"
            assert len(process.get("/calls")) == expected
        for table in (name, f"{name}_quarantine"):
            columns = [each for each in connection.columns(table) or () if each not in OWN]
            query = f"SELECT {', '.join(columns)} FROM {table}"
            with duckdb.connect(str(output)) as db:
                wanted = Counter(map(plain, db.execute(query).fetchall()))
            assert wanted
            assert Counter(map(plain, connection.rows(query))) == wanted


OWN = ("_MODEL", "_REQUEST_HASH", "_FINGERPRINT", "_ASKED_AT")
"""Columns with the model's name or made of it, which differs, and the time of asking."""


def plain(row: tuple[Any, ...]) -> str:
    """A row with its arrays and objects as JSON: Snowflake's connector gives them as JSON texts."""

    def value(each: Any) -> Any:
        if isinstance(each, str) and each[:1] in ("[", "{"):
            try:
                return json.loads(each)
            except ValueError:
                return each
        return each

    return json.dumps([value(each) for each in row], sort_keys=True, default=str)
