"""The connection to Snowflake: Snowflake's own connector against a server process that speaks its protocol."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, Decimal, Type
from sqlenrich.store.connections.base import ConnectPolicy, JobState, JobStatus
from sqlenrich.store.connections.snowflake.connection import (
    SnowflakeConnection,
    open_snowflake,
    open_snowflake_named,
)
from sqlenrich.store.connections.snowflake.errors import is_transient
from sqlenrich.store.connections.snowflake.settings import parameters
from tests.support.process import ROOT, Process
from tests.support.warehouses import Standin, ended

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


def test_a_statement_that_can_not_be_compiled_has_not_started(process: Process) -> None:
    with connected(process) as connection:
        for sql in (
            "SELECT nope FROM PUBLIC.MESSAGES",
            "INSERT INTO PUBLIC.ABSENT (id) SELECT id FROM PUBLIC.MESSAGES",
        ):
            found = ended(connection, connection.submit(sql, TAGS, "job-1"))
            assert (found.state, found.started) == (JobState.FAILED, False)


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
