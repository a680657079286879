"""What each connection to a warehouse does, in one table: unmodified clients against stand-ins that are processes.

The files of the vendors beside this one have what is theirs alone.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal as Number
from typing import Any

import pytest

from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, INSTANT, STRING, TIMESTAMP, Array, Decimal, Struct, Type
from sqlenrich.runner.place import open_connection
from sqlenrich.store.connections.base import ConnectPolicy, JobState, JobStatus, TransientError, WarehouseConnection
from tests.support.process import ROOT
from tests.support.warehouses import SECRET, Standin, ended

DRIVERS = {"snowflake": "snowflake.connector", "databricks": "databricks.sql", "bigquery": "google.cloud.bigquery"}
TAGS = {"app": "sqlenrich", "run": "r1", "step": "responses"}
ROWS: list[dict[str, str | None]] = [
    {"ID": "1", "BODY": "first"},
    {"ID": "2", "BODY": "second"},
    {"ID": "3", "BODY": None},
]
LONG_S = 60.0
DONE = JobState.DONE
FAILED = JobState.FAILED


@dataclass(frozen=True)
class Vendor:
    """What differs between the vendors: their SQL, what they tell, and how they fail."""

    asks: str
    """A statement that makes or fills ``{made}`` by the answers to the two texts of ``{source}``."""
    asking: str
    """The query of it."""
    ends: tuple[tuple[str, JobState, int | None, str], ...]
    """Statements over ``{made}``: the state in which each ends, the rows that it tells, a part of the error."""
    values: tuple[tuple[str, Any, Type | None], ...]
    """Expressions, the values that the client gives for them, and the types of their columns."""
    wrong: tuple[tuple[str, str], ...]
    """Queries that can't be compiled, and a part of the message."""
    refused: tuple[tuple[Mapping[str, Any], str], ...]
    """Fields of a profile that are wrong, and a part of the message."""
    faults: tuple[str, ...]
    """Failures of the service that may pass."""
    cancelled: str = ""
    """The error of a cancelled statement."""
    link: str = ""
    """The address of a statement's page, with ``{id}``."""
    delay: float = LONG_S
    """The delay with which the statement does not end during a test."""
    prepared: str = ""
    """The statement that makes ``{made}`` where the one that asks does not."""


SNOWFLAKE = Vendor(
    prepared="CREATE OR REPLACE TABLE {made} (RAW VARCHAR)",
    asks="INSERT INTO {made} (RAW) {asking}",
    asking="SELECT TO_JSON(AI_COMPLETE(model => 'm', prompt => body, show_details => TRUE, return_error_details => "
    "TRUE)) AS RAW FROM {source} WHERE body IS NOT NULL",
    ends=(
        ("CREATE OR REPLACE TABLE {made} AS SELECT id FROM {source}", DONE, None, ""),
        ("INSERT INTO {made} (id) SELECT body FROM {source}", DONE, 3, ""),
        ("UPDATE {made} SET id = 'x' WHERE id = '1'", DONE, 1, ""),
        ("SELECT '100%%' AS a, '%s' AS b", DONE, None, ""),
        ("SELECT nope FROM {source}", FAILED, None, "invalid identifier nope (001003)"),
        ("INSERT INTO OUT.ENRICHED.ABSENT (id) SELECT id FROM {source}", FAILED, None, "does not exist or not auth"),
    ),
    values=(
        ("'100%% %s ü'", "100%% %s ü", STRING),
        ("9007199254740993", 9007199254740993, BIGINT),
        ("CAST(1.25 AS NUMBER(10, 2))", Number("1.25"), Decimal(10, 2)),
        ("CAST(0.1 AS FLOAT)", 0.1, DOUBLE),
        ("TRUE", True, BOOLEAN),
        ("CAST('2026-02-03' AS DATE)", date(2026, 2, 3), DATE),
        ("CAST('2026-02-03 04:05:06' AS TIMESTAMP_NTZ)", datetime(2026, 2, 3, 4, 5, 6), TIMESTAMP),
        ("CAST(NULL AS VARCHAR)", None, STRING),
    ),
    wrong=(
        ("SELECT nope FROM {source}", "invalid identifier nope"),
        ("SELECT id FROM OUT.ENRICHED.ABSENT", "does not exist"),
    ),
    refused=(
        ({"port": 1}, "check account, host and port"),
        ({"host": "absent.invalid"}, "check account, host and port"),
        ({"account": ""}, "has no account"),
        ({"user": None}, "has no user"),
        ({"private_key": "c2VjcmV0LWtleQ=="}, "private_key"),
        ({"private_key_path": "/absent/key.p8"}, "private_key_path: there is no file /absent/key.p8"),
        ({"authenticator": "oauth", "oauth_client_secret": "another-secret", "token": "a-secret"}, "access token"),
    ),
    faults=("reset", "restart", "throttle", "session"),
    cancelled="SQL execution canceled (000604)",
)

BIGQUERY = Vendor(
    asks="CREATE OR REPLACE TABLE {made} AS {asking}",
    asking="SELECT * FROM AI.GENERATE_TEXT(MODEL `sqlenrich.gemini`, (SELECT BODY AS prompt FROM {source} WHERE "
    "BODY IS NOT NULL), STRUCT(0.0 AS temperature))",
    ends=(
        ("CREATE OR REPLACE TABLE {made} (n INT64)", DONE, None, ""),
        ("INSERT INTO {made} (n) SELECT n FROM UNNEST([1, 2, 3]) AS n", DONE, 3, ""),
        ("UPDATE {made} SET n = n + 1 WHERE n > 1", DONE, 2, ""),
        ("DELETE FROM {made} WHERE n > 3", DONE, 1, ""),
        ("DELETE FROM {made} WHERE NULL", DONE, 0, ""),
        ("CREATE OR REPLACE TABLE {made} AS SELECT * FROM {made}", DONE, 2, ""),
        ("SELECT * FROM missing", FAILED, None, "Table not found: missing"),
        ("SELECT * FROM AI.GENERATE_TEXT(MODEL `sqlenrich.other`, (SELECT 'p' AS prompt))", FAILED, None,
         "Model not found: sqlenrich.other"),
        ("INSERT INTO nowhere.t (a) VALUES (1)", FAILED, None, "nowhere"),
    ),
    values=(
        ("'x%%y %s {{{{z}}}} \\u00e9'", "x%%y %s {{z}} é", STRING),
        ("9007199254740993", 9007199254740993, BIGINT),
        ("0.1", 0.1, DOUBLE),
        ("TRUE", True, BOOLEAN),
        ("DATE '2026-02-03'", date(2026, 2, 3), DATE),
        ("TIMESTAMP '2026-02-03 04:05:06.7 UTC'", datetime(2026, 2, 3, 4, 5, 6, 700000, UTC), INSTANT),
        ("DATETIME '2026-02-03 04:05:06'", datetime(2026, 2, 3, 4, 5, 6), TIMESTAMP),
        ("NUMERIC '1.25'", Number("1.25"), Decimal(38, 9)),
        ("BIGNUMERIC '1.25'", Number("1.25"), Decimal(76, 38)),
        ("b'\\x00\\xff'", b"\x00\xff", None),
        ("JSON '{{\"a\":1}}'", {"a": 1}, None),
        ("['a', 'b']", ["a", "b"], Array(STRING)),
        ("STRUCT(1 AS a, ['x'] AS b)", {"a": 1, "b": ["x"]}, Struct((("a", BIGINT), ("b", Array(STRING))))),
        ("[STRUCT(1.5 AS a)]", [{"a": 1.5}], Array(Struct((("a", DOUBLE),)))),
        ("STRUCT(1 AS a, b'x' AS b)", {"a": 1, "b": b"x"}, None),
        ("CAST(NULL AS STRING)", None, STRING),
    ),
    wrong=(
        ("SELECT nope FROM UNNEST([1])", "nope"),
        ("SELECT * FROM missing", "missing"),
        ("SELEC", "SELEC"),
    ),
    refused=(
        ({"project": "elsewhere"}, "Access Denied: Project elsewhere"),
        ({"dataset": "nowhere"}, "Not found: Dataset standin:nowhere; make it"),
        ({"api_endpoint": "http://127.0.0.1:1"}, "can't be reached (Connection refused)"),
        ({"api_endpoint": "https://nowhere.invalid"}, "nowhere.invalid can't be reached"),
        ({"method": "oauth-secret"}, '"oauth-secret" (oauth-secrets?); known are oauth'),
        ({"token": None}, "oauth-secrets needs token"),
        ({"token": None, "refresh_token": "1//a-secret"}, "oauth-secrets needs client_id and client_secret"),
        ({"method": "service-account"}, "needs keyfile"),
        ({"method": "service-account", "keyfile": "/nowhere/key.json"}, "No such file or directory"),
        ({"method": "service-account-json", "keyfile_json": {"private_key": "a-secret"}}, "not the key of"),
        ({"method": "service-account-json", "keyfile_json": "{a-secret"}, "keyfile_json is not JSON"),
        ({"method": "service-account-json", "keyfile_json": "a-secret!"}, "nor JSON in base64"),
    ),
    faults=("throttle", "restart", "reset"),
    cancelled="Job execution was cancelled: User requested cancellation",
    link="https://console.cloud.google.com/bigquery?project=standin&j=bq:US:{id}&page=queryresults",
)  # fmt: skip

DATABRICKS = Vendor(
    asks="CREATE OR REPLACE TABLE {made} AS {asking}",
    asking="SELECT ai_query('m', BODY, failOnError => false).result AS answer FROM {source} WHERE BODY IS NOT NULL",
    ends=(
        ("CREATE OR REPLACE TABLE {made} AS SELECT id FROM range(5)", DONE, 5, ""),
        ("INSERT INTO {made} SELECT id FROM range(3)", DONE, 3, ""),
        ("CREATE OR REPLACE TABLE {made} AS SELECT id FROM range(2)", DONE, 2, ""),
        ("SELECT '/* */ ${{env:HOME}} ü' AS text", DONE, None, ""),
        ("DELETE FROM {made} WHERE id > 7", DONE, None, ""),
        ("SELECT raise_error('line 429\nmore')", FAILED, None, "[USER_RAISED_EXCEPTION] line 429"),
        ("SELECT id FROM nowhere", FAILED, None, "[TABLE_OR_VIEW_NOT_FOUND] The table or view `nowhere` cannot be"),
    ),
    values=(
        ("'100%% %s ü'", "100%% %s ü", STRING),
        ("1", 1, BIGINT),
        ("9007199254740993L", 9007199254740993, BIGINT),
        ("1.5D", 1.5, DOUBLE),
        ("CAST(1.25 AS DECIMAL(10, 2))", "1.25", Decimal(10, 2)),  # its client gives texts
        ("true", True, BOOLEAN),
        ("DATE'2026-01-02'", date(2026, 1, 2), DATE),
        ("TIMESTAMP'2026-01-02 03:04:05Z'", datetime(2026, 1, 2, 3, 4, 5), INSTANT),
        ("CAST(NULL AS STRING)", None, STRING),
    ),
    wrong=(
        ("SELECT x FROM range(2)", "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function"),
        ("SELECT * FROM missing", "[TABLE_OR_VIEW_NOT_FOUND] The table or view `missing` cannot be found."),
        ("SELEC 1", "[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'"),
    ),
    refused=(
        ({"token": "hunter2"}, "refused the credentials: token is wrong or expired"),
        ({"token": "", "client_id": "standin-principal", "client_secret": "hunter2"}, "client_id or client_secret is"),
        ({"http_path": "/sql/1.0/warehouses/gone"}, "no warehouse at /sql/1.0/warehouses/gone: correct http_path"),
        ({"connection_parameters": {}}, "its TLS certificate is not accepted"),
        ({"host": "name.invalid"}, "name.invalid: nobody answers there: correct host, or the network"),
        ({"host": "127.0.0.1:1"}, "127.0.0.1:1: nobody answers there: correct host, or the network"),
    ),
    faults=("throttle", "reset", "session", "cut"),
    link="https://{place}/sql/history?uiQueryProfileVisible=true&queryId={id}",
    delay=LONG_S / 2,
)
VENDORS = {"snowflake": SNOWFLAKE, "bigquery": BIGQUERY, "databricks": DATABRICKS}
MARKS = {"bigquery": pytest.mark.zetasql, "databricks": pytest.mark.spark}


@dataclass(frozen=True)
class Place:
    """A stand-in with a source of three rows, and what is its vendor's."""

    standin: Standin
    vendor: Vendor

    @property
    def made(self) -> str:
        """The table that statements make."""
        return f"{self.standin.schema}.MADE"

    def sql(self, text: str) -> str:
        """A statement with the names of this place."""
        asking = self.vendor.asking.format(source=self.standin.source)
        return text.format(made=self.made, source=self.standin.source, asking=asking)

    @property
    def asks(self) -> str:
        """A statement that asks the model twice."""
        return self.sql(self.vendor.asks)

    def prepare(self) -> None:
        """Make what the statement that asks needs."""
        if self.vendor.prepared:
            self.standin.execute(self.sql(self.vendor.prepared))

    def impatient(self) -> WarehouseConnection:
        """A connection that waits 2 seconds for the service; it is not entered."""
        name = self.standin.engine
        module = importlib.import_module(f"sqlenrich.store.connections.{name}.connection")
        opened: WarehouseConnection = getattr(module, f"open_{name}")(
            self.standin.fields(), ConnectPolicy(connect_s=2, request_s=2)
        )
        return opened

    def open(self, **changed: Any) -> WarehouseConnection:
        """A connection with other fields of the profile; it is not entered."""
        self.standin.write_profile(**changed)
        try:
            file = self.standin.folder / "tickets.prompt"
            return open_connection(self.standin.engine, {"profile": "standin"}, file)[0]
        finally:
            self.standin.write_profile()


@pytest.fixture(params=[pytest.param(name, marks=MARKS.get(name, ())) for name in VENDORS])
def place(
    request: pytest.FixtureRequest, standins: Callable[[str], Standin], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    """Each vendor in turn."""
    pytest.importorskip(DRIVERS[request.param])
    found = standins(request.param)
    monkeypatch.setenv("DBT_PROFILES_DIR", str(found.folder))
    found.write_profile()
    found.clear()
    found.load(ROWS)
    yield Place(found, VENDORS[request.param])
    found.clear()


def test_a_statement_ends_as_the_warehouse_says(place: Place) -> None:
    with place.standin.connected() as connection:
        for number, (text, state, rows, error) in enumerate(place.vendor.ends):
            id = connection.submit(place.sql(text), TAGS, f"ends-{number}-{time.time_ns()}")
            found = ended(connection, id)
            assert (found.state, found.rows, found.transient) == (state, rows, False), text
            assert error in found.error, text
            assert ("\n" in found.error, bool(found.error)) == (False, state is FAILED), text
            assert connection.status(id) == found, "it is the same when asked again"


def test_values_and_types_come_back(place: Place) -> None:
    with place.standin.connected() as connection:
        listed = ", ".join(f"{sql} AS C{n}" for n, (sql, _, _) in enumerate(place.vendor.values))
        made = connection.submit(place.sql(f"CREATE OR REPLACE TABLE {{made}} AS SELECT {listed}"), {}, "kinds")
        assert ended(connection, made).state is DONE
        columns = connection.columns(place.made)
        assert columns == {f"C{n}": kind for n, (_, _, kind) in enumerate(place.vendor.values)}
        assert connection.rows(f"SELECT * FROM {place.made}") == [tuple(value for _, value, _ in place.vendor.values)]
        assert connection.columns(f"{place.standin.schema}.ABSENT") is None


def test_a_query_is_compiled_and_asks_nothing(place: Place) -> None:
    with place.standin.connected() as connection:
        for sql in (place.sql(place.vendor.asking), f"/* a note */ SELECT ID FROM {place.standin.source}"):
            connection.check(sql)
        for text, message in place.vendor.wrong:
            for call in (connection.check, connection.rows):
                with pytest.raises(RunError) as caught:
                    call(place.sql(text))
                assert message in str(caught.value), text
                assert "\n" not in str(caught.value)
                assert not isinstance(caught.value, TransientError)
    assert place.standin.prompts() == []


@pytest.mark.parametrize("id", ["00000000-0000-4000-8000-000000000001", "sqlenrich_nothing", ""])
def test_an_id_that_nobody_knows(place: Place, id: str) -> None:
    if id == "" and place.standin.engine == "bigquery":
        return  # its client takes no empty id
    with place.standin.connected() as connection:
        assert connection.status(id) == JobStatus(JobState.UNKNOWN)
        connection.cancel(id)
        assert connection.find("no-such-job") is None


def test_a_statement_is_found_by_its_tags_and_cancelled(place: Place) -> None:
    job = f"job-{time.time_ns()}"
    place.prepare()
    place.standin.set(delay=place.vendor.delay)
    with place.standin.connected() as connection, place.standin.connected() as other:
        started = time.monotonic()
        id = connection.submit(place.asks, TAGS | {"job": job}, job)
        assert time.monotonic() - started < 10, "the id comes before the end"
        assert connection.status(id) == JobStatus(JobState.RUNNING)
        assert connection.rows(f"SELECT ID FROM {place.standin.source} WHERE ID = '1'") == [("1",)], "others go on"
        (found,) = other.running(TAGS)
        assert other.running({"run": "r1"}) == [found]
        assert other.running(TAGS | {"step": "other"}) == []
        assert (other.find(job), other.status(found).state) == (found, JobState.RUNNING)
        if place.vendor.link:
            assert connection.link(id) == place.vendor.link.format(id=found, place=connection.place)
        other.cancel(found)
        assert ended(connection, id) == JobStatus(JobState.CANCELLED, error=place.vendor.cancelled)
        assert other.running(TAGS) == []
        other.cancel(found)
        made = connection.columns(place.made)
        assert made is None or connection.rows(f"SELECT * FROM {place.made}") == [], "a cancelled one makes nothing"


CLIENT = """
import json, sys
from pathlib import Path
from sqlenrich.runner.place import open_connection
engine, folder, sql, tags, job = json.load(sys.stdin)
connection, _ = open_connection(engine, {"profile": "standin"}, Path(folder) / "tickets.prompt")
with connection:
    print(connection.submit(sql, tags, job), flush=True)
    HOW
"""
HOWS = {"left": "", "killed": "import time; time.sleep(600)", "interrupted": "import time; time.sleep(600)"}


@pytest.mark.parametrize("how", HOWS)
def test_a_statement_goes_on_without_its_client(place: Place, how: str) -> None:
    place.prepare()
    place.standin.set(delay=600.0)
    command = [sys.executable, "-c", CLIENT.replace("HOW", HOWS[how] or "pass")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    given = [place.standin.engine, str(place.standin.folder), place.asks, TAGS, f"{how}-{time.time_ns()}"]
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True, env=environment)  # fmt: skip
    assert client.stdin is not None
    assert client.stdout is not None
    with client.stdin, client.stdout:
        client.stdin.write(json.dumps(given))
        client.stdin.close()
        assert client.stdout.readline().strip(), f"the client ended with {client.wait()}"
        if how != "left":
            client.send_signal(signal.SIGKILL if how == "killed" else signal.SIGINT)
        assert (client.wait() == 0) == (how == "left")
    with place.standin.connected() as connection:
        (id,) = connection.running(TAGS)
        place.standin.set(delay=0.0)
        assert ended(connection, id).state is DONE
        assert connection.rows(f"SELECT COUNT(*) FROM {place.made}") == [(2,)]
    assert sorted(place.standin.prompts()) == ["first", "second"]


def test_a_failure_of_the_service_is_transient_and_passes(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    with place.impatient() as connection:
        for fault in place.vendor.faults:
            place.standin.set(fail={fault: 1.0})
            for _ in range(2):  # a fault may have two forms, in turn
                with pytest.raises(TransientError) as caught:
                    connection.rows(f"SELECT ID FROM {place.standin.source} WHERE ID = '1'")
                assert "\n" not in str(caught.value), fault
            place.standin.set(fail={})
            assert connection.rows(f"SELECT ID FROM {place.standin.source} WHERE ID = '1'") == [("1",)], fault
    assert "Traceback" not in capfd.readouterr().err


def test_what_refuses_a_connection_is_one_line(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    for changed, told in place.vendor.refused:
        began = time.monotonic()
        with pytest.raises(ConfigError) as caught, place.open(**changed) as connection:
            connection.rows("SELECT 1 AS X")
        assert told in str(caught.value), changed
        assert "\n" not in str(caught.value)
        assert time.monotonic() - began < 30
        shown = f"{caught.value}{caught.value!r}{caught.value.__cause__}{capfd.readouterr()}"
        for secret in (SECRET, "dapi-standin-token", "hunter2", "a-secret", "another-secret", "c2VjcmV0"):
            assert secret not in shown
    assert SECRET not in repr(place.open())


def test_a_connection_is_used_again_after_it_was_left(place: Place) -> None:
    opened = place.open()
    for _ in range(2):
        with opened as connection:
            assert connection.rows(f"SELECT ID FROM {place.standin.source} WHERE BODY IS NULL") == [("3",)]
