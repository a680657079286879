"""The connection to BigQuery: Google's own client against a server process that speaks BigQuery's REST."""

from __future__ import annotations

import base64
import importlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.types import STRING, Decimal
from sqlenrich.store.connections.base import (
    ConnectPolicy,
    JobState,
    JobStatus,
    LostConnectionError,
    TransientError,
)
from sqlenrich.store.connections.bigquery.connection import (
    BigQueryConnection,
    open_bigquery,
    open_bigquery_default,
)
from sqlenrich.store.connections.bigquery.errors import is_transient
from sqlenrich.store.connections.bigquery.labels import labels_of
from tests.support.process import Process
from tests.support.warehouses import Standin, ended

pytest.importorskip("google.cloud.bigquery")
pytestmark = pytest.mark.zetasql

TOKEN = "ya29.a-secret-token"
ASK = (
    "CREATE OR REPLACE TABLE asked AS SELECT * FROM AI.GENERATE_TEXT("
    "MODEL `sqlenrich.gemini`, (SELECT '{0}' AS prompt), STRUCT(0.0 AS temperature))"
)


@pytest.fixture(scope="module")
def process(standins: Callable[[str], Standin]) -> Process:
    started = standins("bigquery").process
    started.get("/clear", {})
    return started


@pytest.fixture
def server(process: Process) -> Process:
    """The server without tables, faults, delay and calls."""
    process.get("/clear", {})
    return process


@pytest.fixture
def connected(server: Process) -> Iterator[BigQueryConnection]:
    with connection(server) as connected:
        yield connected


def profile(url: str, **changes: Any) -> dict[str, Any]:
    fields = {"method": "oauth-secrets", "token": TOKEN, "project": "standin", "dataset": "enriched"}
    return fields | {"api_endpoint": url, "threads": 4} | changes


def connection(process: Process, **changes: Any) -> BigQueryConnection:
    return open_bigquery(profile(process.url, **changes))


def execute(connected: BigQueryConnection, sql: str) -> JobStatus:
    return ended(connected, connected.submit(sql, {}, f"step-{time.time_ns()}"))


def prompts(process: Process) -> list[str]:
    return [call["prompt"] for call in process.get("/calls")]


def nobody() -> str:
    """The address of a port where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


# Statements -----------------------------------------------------------------------------------------------------------


def test_precision_and_scale_are_a_columns_own() -> None:
    from google.cloud.bigquery import SchemaField

    from sqlenrich.store.connections.bigquery.types import portable_type

    cases = {(10, 2): Decimal(10, 2), (5, None): Decimal(5, 0), (None, None): Decimal(38, 9)}
    for (precision, scale), expected in cases.items():
        assert portable_type(SchemaField("x", "NUMERIC", precision=precision, scale=scale)) == expected


@pytest.mark.parametrize(
    ("relation", "there"),
    [
        ("tickets", False),
        ("raw.tickets", True),
        ("`raw`.`tickets`", True),
        ("`standin.raw.tickets`", True),
        ("standin.raw.tickets", True),
        ("raw.nothing", False),
        ("nowhere.tickets", False),
    ],
)
def test_a_relation_is_found_as_in_a_query(connected: BigQueryConnection, relation: str, there: bool) -> None:
    execute(connected, "CREATE OR REPLACE TABLE raw.tickets (id STRING)")
    assert connected.columns(relation) == ({"id": STRING} if there else None)


# Ids, labels and jobs of others ---------------------------------------------------------------------------------------


def test_the_same_submission_runs_once(connected: BigQueryConnection, server: Process) -> None:
    first = connected.submit(ASK.format("once"), {}, "twice")
    assert (first, connected.submit(ASK.format("once"), {}, first)) == ("sqlenrich_twice", first)
    assert ended(connected, first).state is JobState.DONE
    assert connected.submit(ASK.format("once"), {}, "twice") == first
    assert prompts(server) == ["once"]
    page = f"https://console.cloud.google.com/bigquery?project=standin&j=bq:US:{first}&page=queryresults"
    assert connected.link(first) == page


@pytest.mark.parametrize("value", ["1.2", "Tickets", "x" * 64, "é", "a b", "İ", "\ud800", "9"])
def test_labels_are_legal_and_stay_apart(value: str) -> None:
    alike = [value, value.lower(), value.upper(), value + "x", value.replace(".", "_"), value.replace(" ", "_")]
    made = {one: labels_of({"t": one})["t"] for one in alike}
    assert len(set(made.values())) == len(made)
    keys = {one: next(iter(labels_of({one: ""}))) for one in alike}
    assert len(set(keys.values())) == len(keys)
    for text in (*made.values(), *keys.values()):
        assert len(text) <= 63
        assert set(text) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")
    assert all(key[0].isalpha() for key in keys.values())


def test_plain_tags_are_the_labels_as_they_are() -> None:
    tags = {"app": "sqlenrich", "run": "r-1_a", "version": "", "enrichment": "x" * 63}
    assert labels_of(tags) == tags


def test_running_statements_are_found_by_their_tags(connected: BigQueryConnection, server: Process) -> None:
    server.get("/settings", {"delay": 30.0})
    tags = {"app": "sqlenrich", "enrichment": "Tickets", "chunk": "1"}
    ids = [connected.submit(ASK.format(n), tags | {"chunk": str(n)}, f"found-{n}") for n in range(2)]
    with connection(server, token="of another user") as other:
        assert set(other.running({"enrichment": "Tickets"})) == set(ids)
        assert other.running({"enrichment": "Tickets", "chunk": "1"}) == ids[1:]
        assert other.running({"enrichment": "tickets"}) == []
        server.get("/settings", {"list_all": False})
        assert set(other.running({"enrichment": "Tickets"})) == set(ids)
        for id in ids:
            other.cancel(id)
    assert [ended(connected, id).state for id in ids] == [JobState.CANCELLED] * 2
    connected.cancel(ids[0])
    assert connected.running({"enrichment": "Tickets"}) == []
    assert sorted(prompts(server)) == ["0", "1"], "a cancelled statement has asked"


def test_ctrl_c_reaches_the_caller_and_leaves_the_job(connected: BigQueryConnection, server: Process) -> None:
    server.get("/settings", {"delay": 2.0})
    handler = signal.getsignal(signal.SIGINT)
    id = connected.submit(ASK.format("interrupted"), {}, "interrupted")
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    query = ASK.format("short").split(" AS ", 1)[1]
    with pytest.raises(KeyboardInterrupt):
        connected.rows(query)
    assert signal.getsignal(signal.SIGINT) is handler
    assert ended(connected, id).state is JobState.DONE
    assert connected.rows("SELECT 1") == [(1,)]


def test_a_query_that_takes_longer_than_a_request_is_polled_as_one_job(server: Process) -> None:
    """Lost answers are asked for again: the job is the same."""
    server.get("/settings", {"delay": 1.5})
    query = ASK.format("long").split(" AS ", 1)[1]
    with open_bigquery(profile(server.url), ConnectPolicy(request_s=0.5)) as connected:
        server.get("/settings", {"fail": {"reset": 0.5}})
        while True:
            try:
                found = connected.rows(query)
                break
            except LostConnectionError:
                continue
        server.get("/settings", {"fail": {}})
    assert len(found) == 1
    assert prompts(server) == ["long"]


# Failures that may pass -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["throttle", "restart", "reset"])
def test_a_failure_of_the_service_is_transient(connected: BigQueryConnection, server: Process, fault: str) -> None:
    id = f"fault-{fault}"
    calls: list[Callable[[], Any]] = [
        lambda: connected.status(id), lambda: connected.rows("SELECT 1"), lambda: connected.columns("t"),
        lambda: connected.check("SELECT 1"), lambda: connected.running({}), lambda: connected.cancel(id),
    ]  # fmt: skip
    server.get("/settings", {"fail": {fault: 1.0}})
    for call in (lambda: connected.submit(ASK.format(fault), {}, id), *calls):
        with pytest.raises(TransientError) as caught:
            call()
        assert "\n" not in str(caught.value)
    server.get("/settings", {"fail": {}})
    connected.submit(ASK.format(fault), {}, id)
    assert ended(connected, f"sqlenrich_{id}").state is JobState.DONE
    assert prompts(server) == [fault]


def test_a_submission_whose_answer_was_lost_runs_once(connected: BigQueryConnection, server: Process) -> None:
    started = []
    for number in range(4):
        id = f"lost-{number}"
        server.get("/settings", {"fail": {"reset": 1.0}})
        with pytest.raises(TransientError, match="can't be reached"):
            connected.submit(ASK.format(id), {}, id)
        server.get("/settings", {"fail": {}})
        started.append(connected.status(f"sqlenrich_{id}").state is not JobState.UNKNOWN)
        assert ended(connected, connected.submit(ASK.format(id), {}, id)).state is JobState.DONE
    assert sorted(started) == [False, False, True, True]
    assert sorted(prompts(server)) == [f"lost-{number}" for number in range(4)]


@pytest.mark.parametrize(("fault", "words"), [("proxy", "answered HTTP 404 "), ("portal", "is not JSON")])
def test_a_page_of_the_network_says_nothing_of_a_job_or_a_table(
    connected: BigQueryConnection, server: Process, fault: str, words: str
) -> None:
    server.get("/settings", {"fail": {fault: 1.0}})
    for call in (connected.status, connected.columns, connected.cancel):
        with pytest.raises(RunError, match=words) as caught:
            call("sqlenrich_x")
        assert "\n" not in str(caught.value)


def test_a_failed_job_may_be_transient(connected: BigQueryConnection, server: Process) -> None:
    server.get("/settings", {"fail": {"job": 1.0}})
    failed = execute(connected, ASK.format("job"))
    assert (failed.state, failed.transient) == (JobState.FAILED, True)
    server.get("/settings", {"fail": {}, "poison": "poison"})
    failed = execute(connected, ASK.format("poison"))
    assert (failed.state, failed.transient) == (JobState.FAILED, False)


@pytest.mark.parametrize(
    ("reason", "message", "status", "transient"),
    [
        ("rateLimitExceeded", "Exceeded rate limits", 403, True),
        ("jobRateLimitExceeded", "Exceeded rate limits", 400, True),
        ("quotaExceeded", "Quota exceeded: queries", 403, True),
        ("quotaExceeded", "Quota exceeded: GenAiInputTokensPerDayPerProject", 403, False),
        ("", "Exceeded the daily quota of tokens", 429, False),
        ("backendError", "try again", 503, True),
        ("jobBackendError", "", None, True),
        ("jobInternalError", "", None, True),
        ("", "Bad Gateway", 502, True),
        ("", "Service Unavailable", 503, True),
        ("", "Too Many Requests", 429, True),
        ("invalidQuery", "A retryable error: RESOURCE EXHAUSTED error from the model", 400, True),
        ("invalidQuery", "Could not serialize access to table t due to concurrent update", 400, True),
        ("invalidQuery", "Syntax error", 400, False),
        ("notFound", "Not found: Table t", 404, False),
        ("accessDenied", "Access Denied", 403, False),
        ("resourcesExceeded", "Resources exceeded during query execution", 400, False),
        ("stopped", "Job execution was cancelled", 200, False),
        ("", "Not Found", 404, False),
    ],
)
def test_which_errors_may_pass(reason: str, message: str, status: int | None, transient: bool) -> None:
    assert is_transient(reason, message, status) is transient


# Connecting -----------------------------------------------------------------------------------------------------------


def key_of_an_account(token_uri: str) -> dict[str, str]:
    serialization = importlib.import_module("cryptography.hazmat.primitives.serialization")
    rsa = importlib.import_module("cryptography.hazmat.primitives.asymmetric.rsa")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain).decode()
    return {
        "type": "service_account", "project_id": "standin", "private_key_id": "1", "private_key": pem,
        "client_email": "a@standin.iam.gserviceaccount.com", "client_id": "1", "token_uri": token_uri,
    }  # fmt: skip


REFUSED: dict[str, tuple[Mapping[str, Any], str]] = {
    "another token": ({"token": "ya29.expired"}, "credentials have expired or are refused"),
    "no new token": (
        {"token": None, "refresh_token": "1//a-secret", "client_id": "i", "client_secret": "GOCSPX-secret",
         "token_uri": nobody},
        "can't be reached (Connection refused)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_with_a_connection_is_one_line(server: Process, case: str) -> None:
    changes, words = REFUSED[case]
    server.get("/settings", {"token": TOKEN})
    fields = profile(server.url) | {name: value() if callable(value) else value for name, value in changes.items()}
    begun = time.monotonic()
    with pytest.raises(ConfigError) as caught, open_bigquery(fields) as connected:
        connected.rows("SELECT 1")
    assert time.monotonic() - begun < 30
    assert words in str(caught.value)
    shown = f"{caught.value}{caught.value.__cause__}{open_bigquery(fields)!r}"
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    for secret in (TOKEN, "a-secret", "GOCSPX", "ya29"):
        assert secret not in shown


def test_a_token_that_expires_in_a_run_is_one_line(connected: BigQueryConnection, server: Process) -> None:
    server.get("/settings", {"token": "another"})
    for call in (lambda: connected.status("x"), lambda: connected.submit("SELECT 1", {}, "late")):
        with pytest.raises(RunError, match="expired or are refused") as caught:
            call()
        assert not isinstance(caught.value, TransientError)
        assert TOKEN not in str(caught.value)


def test_without_credentials_the_line_says_how_to_log_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    with pytest.raises(ConfigError, match="gcloud auth application-default login") as caught:
        open_bigquery_default("standin").__enter__()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("form", ["keyfile", "mapping", "text", "base64", "refresh_token"])
def test_a_token_is_had_for_a_key(server: Process, tmp_path: Path, form: str) -> None:
    server.get("/settings", {"token": TOKEN})
    token_uri = f"{server.url}/token"
    path = tmp_path / "key.json"
    key = key_of_an_account(token_uri)
    path.write_text(json.dumps(key))
    escaped = key | {"private_key": key["private_key"].replace("\n", "\\n")}
    client = {"client_id": "i", "client_secret": "s", "token_uri": token_uri, "project": "standin"}
    forms: dict[str, dict[str, Any]] = {
        "keyfile": {"method": "service-account", "keyfile": str(path)},
        "mapping": {"keyfile_json": escaped},
        "text": {"keyfile_json": path.read_text()},
        "base64": {"keyfile_json": base64.b64encode(path.read_bytes()).decode()},
        "refresh_token": {"method": "oauth-secrets", "refresh_token": "1//r"} | client,
    }
    fields = profile(server.url, token=None, project=None, method="service-account-json") | forms[form]
    with open_bigquery(fields) as connected:
        assert connected.place == "standin.enriched"
        assert connected.rows("SELECT 1") == [(1,)]


def test_limits_of_the_profile_reach_each_job(server: Process) -> None:
    fields = profile(
        server.url, maximum_bytes_billed=10**9, priority="batch", project="data", execution_project="standin"
    )
    with open_bigquery(fields | {"dataset": None}) as connected:
        id = connected.submit("SELECT 1", {"app": "sqlenrich"}, f"limits-{time.time_ns()}")
        job = connected._client.get_job(id)
        assert (job.maximum_bytes_billed, job.priority, job.labels) == (10**9, "BATCH", {"app": "sqlenrich"})


# A whole script -------------------------------------------------------------------------------------------------------
