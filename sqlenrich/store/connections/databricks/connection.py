"""A Databricks SQL warehouse or cluster, over databricks-sql-connector."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.client import HTTPException
from itertools import takewhile
from typing import Any, Self, TypeVar
from urllib.parse import parse_qsl, quote, urlencode
from uuid import UUID

from sqlglot import exp

from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.names import relation as named_relation
from sqlenrich.core.printer import print_sql
from sqlenrich.core.types import Type
from sqlenrich.engines import get_engine
from sqlenrich.store.connections.base import (
    ConnectPolicy,
    JobState,
    JobStatus,
    LostConnectionError,
    TransientError,
    UnreachableError,
    chain,
    connect_within,
)
from sqlenrich.store.connections.databricks.errors import (
    GATEWAY,
    LOST_SESSION,
    MISSING,
    UNKNOWN_OPERATION,
    first_line,
    http_code,
    is_transient,
    not_connected,
)
from sqlenrich.store.connections.databricks.settings import Settings, settings_of_fields, settings_of_name
from sqlenrich.store.dbapi import portable_type

T = TypeVar("T")
_STATES = {
    "SUCCEEDED": JobState.DONE, "FINISHED": JobState.DONE, "FAILED": JobState.FAILED,
    "CANCELLED": JobState.CANCELLED, "CANCELED": JobState.CANCELLED,
}  # fmt: skip
"""The ends of a statement: names of the client's CommandState, and of the query history's status."""
_UNFINISHED = ("QUEUED", "STARTED", "COMPILING", "COMPILED", "RUNNING")
"""The statuses of the query history before the end (QueryStatus of databricks-sdk)."""
_TAGS = re.compile(r"\s*/\* sqlenrich (\S*) \*/")
_HISTORY = "/api/2.0/sql/history/queries"
_PAGES, _PAGE_ROWS = 40, 500
_FOUND_WITHIN_S = 12 * 3600.0
"""How far back a submission is looked for: clocks may differ by less."""
_OF_NETWORK = ("urllib3.", "thrift.transport.", "thrift.protocol.")
"""Modules whose errors say that an answer is missing, or could not be read."""
_QUIET = logging.NullHandler()
"""Without a handler, logging prints what the client logs of each failure to stderr."""
_PLAN_ERROR = "Error occurred during query planning"
_ROWS_WRITTEN = "num_affected_rows"


class DatabricksConnection:
    """A session of a SQL warehouse or a cluster.

    The id of a statement is its query id, as the console has it. The Thrift handle, which has a secret, stays in this
    object: no table and no message has it. Without the handle, in another process, the state is read from the query
    history, and a statement is cancelled over the Statement Execution API, which is documented for statements that were
    started there; where that fails, the message names the console's page.

    A statement of a client that died: its operation stays in the warehouse, since nothing closes the session before it
    has been idle for long (HiveServer2 closes no idle session with a running operation:
    ``hive.server2.idle.session.check.operation``). That Databricks keeps this is not documented. Closing a session
    ends its operations, so :meth:`__exit__` leaves the session open while a statement runs.

    The tags of a statement, its job id among them, are query tags, and stand in a comment before it: the history tells
    the tags, or the text alone, as the workspace is set. The history may be seconds late: a statement that was just
    started can be missing there (``late_s``). Client: databricks-sql-connector 4.9, its source read 2026-11-22.
    History: https://docs.databricks.com/api/workspace/queryhistory/list.
    """

    engine = "databricks"
    starts_once = False
    late_s = 30.0
    statement_bytes = 2_000_000
    """The Statement Execution API takes 16 MiB. What a Thrift service takes is not documented."""

    def __init__(self, settings: Settings, policy: ConnectPolicy) -> None:
        self._settings, self._policy = settings, policy
        self._connection: Any = None
        self._jobs: Any = None
        self._ended: dict[str, JobStatus] = {}
        self._handles: dict[str, Any] = {}
        """The client's handles of statements that have not ended, by id."""

    @property
    def place(self) -> str:
        """The host."""
        return self._settings.host

    def __repr__(self) -> str:
        return f"DatabricksConnection({self.place})"

    def __enter__(self) -> Self:
        try:
            connect_within(self._policy, self._open)
        except (LostConnectionError, UnreachableError) as error:
            raise ConfigError(str(error)) from None
        return self

    def __exit__(self, *_: object) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._handles:
            connection.session.is_open = False  # else it is closed when it is collected
        with suppress(Exception):
            connection.close()

    def submit(self, sql: str, tags: Mapping[str, str], job_id: str) -> str:
        """Start a statement and give its id. A Thrift service takes no id of ours: ``job_id`` is in its tags."""
        written = {**tags, "job_id": job_id}

        def start() -> str:
            self._jobs.execute_async(_comment(written) + sql, query_tags=written)
            handle = self._jobs.active_command_id
            id = str(UUID(bytes=handle.guid)) if isinstance(handle.guid, bytes) else str(handle.guid)
            self._handles[id] = handle
            return id

        return self._checked(start)

    def status(self, id: str, *, counted: bool = True) -> JobStatus:
        """Return how far a statement is: of its handle while the warehouse has it, else of the query history."""
        if id in self._ended:
            return self._ended[id]
        found = self._by_handle(id, counted=counted) or self._by_history(id)
        if found.state is not JobState.RUNNING:
            self._handles.pop(id, None)
            if found.state is not JobState.UNKNOWN:
                self._ended[id] = found
        return found

    def cancel(self, id: str) -> None:
        """Cancel by the handle, or over the Statement Execution API where the id has none."""
        if id in self._ended:
            return
        if id in self._handles:
            try:
                self._checked(lambda: self._of_job(id).cancel())
                return
            except TransientError:
                raise
            except RunError as error:
                if not UNKNOWN_OPERATION.search(str(error)):
                    raise
        if self._by_history(id).state is JobState.RUNNING:
            try:
                self._request("POST", f"/api/2.0/sql/statements/{quote(id)}/cancel")
            except TransientError:
                raise
            except RunError as error:
                raise RunError(f"{error}; cancel it yourself: {self.link(id)}") from None

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a short query and give its rows."""

        def fetch() -> list[tuple[Any, ...]]:
            with self._connection.cursor() as cursor:
                cursor.execute(sql)
                return [tuple(row) for row in cursor.fetchall()]

        return self._checked(fetch)

    def columns(self, relation: str) -> dict[str, Type | None] | None:
        """Return a relation's columns and types by ``DESCRIBE TABLE``; None where it is missing."""
        engine = get_engine(self.engine)
        try:
            found = self.rows(print_sql(engine, exp.Describe(this=named_relation(engine, relation), kind="TABLE")))
        except RunError as error:
            if MISSING.search(str(error)):
                return None
            raise
        described = takewhile(lambda row: row[0] and not row[0].startswith("#"), found)  # partitions follow
        return {str(name): portable_type(engine, str(kind)) for name, kind, *_ in described}

    def check(self, sql: str) -> None:
        """Compile by ``EXPLAIN``, whose result is the error's text where the query has one."""
        text = "\n".join(str(row[0]) for row in self.rows(f"EXPLAIN {sql}"))
        head, _, message = text.strip().partition("\n")
        if head.startswith(_PLAN_ERROR):
            raise RunError(f"{self.place}: {first_line(message, self._settings.secrets) or head}")

    def running(self, tags: Mapping[str, str]) -> list[str]:
        """Return the unfinished statements of the query history that have these tags."""
        # In the order of a statement's life: one that goes on between two calls is in the later list.
        listed = (id for status in _UNFINISHED for id in self._listed([("filter_by.statuses", status)], tags))
        return list(dict.fromkeys(listed))

    def find(self, job_id: str) -> str | None:
        """Return a statement of the query history by its tag; one of the last hours."""
        since_ms = round((time.time() - _FOUND_WITHIN_S) * 1000)
        asked = [("filter_by.query_start_time_range.start_time_ms", str(since_ms))]
        return next(iter(self._listed(asked, {"job": job_id})), None)

    def _listed(self, asked: list[tuple[str, str]], tags: Mapping[str, str]) -> list[str]:
        found, token = [], ""
        for _ in range(_PAGES):
            given = [*asked, ("max_results", str(_PAGE_ROWS)), *([("page_token", token)] if token else [])]
            page = self._request("GET", f"{_HISTORY}?{urlencode(given)}")
            for one in page.get("res", ()):
                if tags.items() <= _tags_of(one).items():
                    found.append(str(one["query_id"]))
            token = page.get("next_page_token") or ""
            if not (token and page.get("has_next_page", True)):
                break
        return found

    def link(self, id: str) -> str | None:
        """Return the page of the query profile."""
        return f"https://{self.place}/sql/history?uiQueryProfileVisible=true&queryId={quote(id)}"

    def _by_handle(self, id: str, *, counted: bool) -> JobStatus | None:
        """Return the state that the Thrift service tells; None where it does not know the handle."""
        if id not in self._handles:
            return None

        def ask() -> JobStatus:
            cursor = self._of_job(id)
            state = _STATES.get(cursor.get_query_state().name, JobState.RUNNING)
            return JobStatus(state, _rows_written(cursor) if counted and state is JobState.DONE else None)

        try:
            return self._checked(ask, failed=True)
        except _StatementFailedError as error:
            message = str(error)
            return JobStatus(JobState.FAILED, error=message, transient=is_transient(message))
        except TransientError as error:
            if LOST_SESSION.search(str(error)):
                return None
            raise
        except RunError as error:
            if UNKNOWN_OPERATION.search(str(error)):
                return None
            raise

    def _by_history(self, id: str) -> JobStatus:
        """Return the state that the query history has."""
        page = self._request("GET", f"{_HISTORY}?{urlencode([('filter_by.statement_ids', id)])}")
        found = next((one for one in page.get("res", ()) if one.get("query_id") == id), None)
        if found is None:
            return JobStatus(JobState.UNKNOWN)
        state = _STATES.get(str(found.get("status")), JobState.RUNNING)
        if state is not JobState.FAILED:
            return JobStatus(state)
        message = first_line(str(found.get("error_message") or "the statement failed"), self._settings.secrets)
        return JobStatus(state, error=message, transient=is_transient(message))

    def _of_job(self, id: str) -> Any:
        """Return the cursor of jobs, set to a statement that this or another session has started."""
        self._jobs.active_command_id = self._handles[id]
        return self._jobs

    def _request(self, method: str, path: str) -> dict[str, Any]:
        """Ask the REST API over the client's own HTTP and credentials."""

        def ask() -> tuple[int, bytes]:
            from databricks.sql.common.http import HttpMethod

            session = self._connection.session
            headers: dict[str, str] = dict(session.get_spog_headers()) if hasattr(session, "get_spog_headers") else {}
            session.auth_provider.add_headers(headers)
            url = f"https://{self.place}{path}"
            timeout = self._policy.request_s
            response = session.http_client.request(HttpMethod[method], url, headers=headers, timeout=timeout)
            return response.status, response.data

        status, body = self._checked(ask)
        try:
            read = json.loads(body or b"{}")
        except ValueError:
            read = {}
        found = read if isinstance(read, dict) else {}
        if status == 200:
            return found
        words = (found.get("error_code"), found.get("message"))
        said = first_line(": ".join(str(word) for word in words if word), self._settings.secrets)
        message = f"{self.place}: HTTP {status} {said}".strip()
        raise TransientError(message) if is_transient(message) else RunError(message)

    def _open(self) -> None:
        try:
            from databricks import sql as driver
        except ImportError:
            raise ConfigError(
                "databricks-sql-connector is not installed: pip install 'sqlenrich[databricks]'"
            ) from None
        logging.getLogger("databricks.sql").addHandler(_QUIET)
        settings, connect_s = self._settings, self._policy.connect_s
        options = {
            "catalog": settings.catalog,
            "schema": settings.schema,
            **settings.credentials(connect_s),
            **_ONE_ATTEMPT,
            "_socket_timeout": connect_s,
            "_port": settings.port,
            **settings.options,
        }
        try:
            connection = driver.connect(server_hostname=settings.hostname, http_path=settings.http_path, **options)
        except Exception as error:  # urllib3's and the client's classes share no base
            raise not_connected(settings, error) from None
        backend = connection.session.backend
        if hasattr(backend, "_transport"):  # one limit of the client is for connecting and for requests
            backend._transport.setTimeout(self._policy.request_s * 1000)
        self._connection, self._jobs = connection, connection.cursor()
        try:
            self.rows("SET TIME ZONE 'UTC'")
        except RunError:
            self.__exit__()
            raise

    def _message(self, error: BaseException) -> str:
        return first_line(str(error), self._settings.secrets) or type(error).__name__

    def _checked(self, work: Callable[[], T], *, failed: bool = False) -> T:
        """Use the session, opened again where it was lost. ``failed``: tell a statement's failure apart."""
        if self._connection is None:
            self._open()
        try:
            return work()
        except Exception as error:  # urllib3's and the client's classes share no base
            code = http_code(error)
            message = self._message(error) + (f" (HTTP {code})" if code else "")
            if failed and type(error).__name__ == "ServerOperationError":
                raise _StatementFailedError(message) from None
            seen = " ".join([message, *(f"{type(one).__name__} {one}" for one in chain(error))])
            if LOST_SESSION.search(seen):
                self._connection.session.is_open = False
                self._connection = None
            # Failures of urllib3 are those of the network, whatever they say.
            network = code in GATEWAY or any(_is_of_network(one) for one in chain(error))
            kind = LostConnectionError if network else TransientError if is_transient(seen) else RunError
            raise kind(f"{self.place}: {message}") from None


def _is_of_network(error: BaseException) -> bool:
    """Tell whether an error is of a connection, or of an answer that ends in the middle."""
    return isinstance(error, OSError | EOFError | HTTPException) or type(error).__module__.startswith(_OF_NETWORK)


class _StatementFailedError(Exception):
    """A statement failed; the message is the first line of the warehouse's."""


_ONE_ATTEMPT = {
    "_retry_stop_after_attempts_count": 1,
    "_retry_stop_after_attempts_duration": 1.0,
    "_retry_delay_min": 5.0,
    "_retry_delay_max": 5.0,
    "enable_telemetry": False,
    "use_cloud_fetch": False,
}
"""No second attempt by the client, whose shortest wait is longer than all attempts may take.

Its urllib3 policy repeats a POST whose answer was lost, which would run an INSERT twice (auth/retry.py allows POST, and
urllib3 asks nothing more before it repeats after a read error). Its own loop waits up to 15 minutes.
"""


def _comment(tags: Mapping[str, str]) -> str:
    """Return the comment that finds a statement again: the tags as the query of a URL.

    A percent-encoded text holds letters, digits and ``_.-~%+&=`` alone. No text of a user can therefore end the comment
    or nest another in it (Databricks SQL and Spark nest ``/* */``), and nothing in it is substituted.
    """
    return f"/* sqlenrich {urlencode(tags)} */\n"


def _tags_of(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of a line of the history: its query tags, and those of its comment where it shows the text."""
    found = _TAGS.match(str(record.get("query_text") or ""))
    read = parse_qsl(found[1], keep_blank_values=True) if found else []
    tags = {str(one.get("key")): str(one.get("value") or "") for one in record.get("query_tags") or ()}
    return {**tags, **dict(read)}


def _rows_written(cursor: Any) -> int | None:
    """Return the count in the result of a statement that writes; None where it has none, or the result is gone."""
    with suppress(Exception):
        cursor.get_async_execution_result()
        names = [column[0] for column in cursor.description or ()]
        if _ROWS_WRITTEN in names and (row := cursor.fetchone()):
            return int(row[names.index(_ROWS_WRITTEN)])
    return None


def open_databricks(fields: Mapping[str, Any], policy: ConnectPolicy = ConnectPolicy()) -> DatabricksConnection:  # noqa: B008
    """Return the connection of a dbt-databricks profile; entering it connects. Raises ConfigError without a field."""
    return DatabricksConnection(settings_of_fields(fields), policy)


def open_databricks_named(
    name: str | None = None,
    policy: ConnectPolicy = ConnectPolicy(),  # noqa: B008
    *,
    catalog: str | None = None,
    schema: str | None = None,
) -> DatabricksConnection:
    """Return the connection of a profile of ~/.databrickscfg; None: DATABRICKS_* of the environment, or DEFAULT."""
    return DatabricksConnection(settings_of_name(name, catalog, schema), policy)
