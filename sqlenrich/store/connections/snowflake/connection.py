"""Snowflake: statements are submitted and polled through snowflake-connector-python, 4.x and 5.x."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Self, TypeVar

from sqlglot import exp

from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.names import relation as named_relation
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import func, literal
from sqlenrich.core.types import BIGINT, Decimal, Type
from sqlenrich.engines import get_engine
from sqlenrich.store.connections.base import (
    ConnectPolicy,
    JobState,
    JobStatus,
    LostConnectionError,
    TransientError,
    connect_within,
)
from sqlenrich.store.connections.snowflake.errors import (
    CANCELLED,
    MISSING,
    NOT_STARTED,
    OF_STATEMENTS,
    is_of_connector,
    is_transient,
    is_unanswered,
    line_of,
    mend,
    number_of,
)
from sqlenrich.store.connections.snowflake.settings import (
    SECRET,
    SESSION,
    connector,
    limits,
    named,
    parameters,
)
from sqlenrich.store.connections.snowflake.tables import columns_of, history, policies, takes
from sqlenrich.store.dbapi import portable_type

T = TypeVar("T")
ENGINE = "snowflake"
POLICY = ConnectPolicy()
FIRST_POLL_S, LONGEST_POLL_S = 0.02, 1.0
"""How often the short queries of :meth:`SnowflakeConnection.rows` are polled."""
SHORT_QUERY_S = 900.0
"""How long they may take: a suspended warehouse has to resume first."""
UNSEEN_S = 60.0
"""How long a statement that was just submitted may have no status."""
CONNECT_GRACE_S = 5.0
"""The connector's limit ends its retries, not a request that is under way."""
FIRST_RETRY_S = 0.2

_STILL_RUN = (
    " AND NOT (UPPER(execution_status) LIKE 'SUCCESS%' OR UPPER(execution_status) LIKE 'FAIL%' "
    "OR UPPER(execution_status) IN ('ABORTED', 'INCIDENT', 'DISCONNECTED'))"
)
"""Of the statements of the history; those of other users are there where the role may see them."""
_ACCOUNT = "SELECT CURRENT_ORGANIZATION_NAME(), CURRENT_ACCOUNT_NAME()"


class SnowflakeConnection:
    """A connection to Snowflake. It connects again by itself after a lost session.

    The connector replaces the SIGINT handler while it executes in the main thread: its calls run in a thread of ours.
    """

    engine = ENGINE
    starts_once = False
    late_s = 10.0
    statement_bytes = 1_000_000
    """https://docs.snowflake.com/en/user-guide/query-size-limits, read 2026-11-25. Rows in VALUES: 16,384."""
    home = ""

    def __init__(self, place: str, settings: Callable[[], Mapping[str, Any]], policy: ConnectPolicy) -> None:
        self._place, self._settings, self._policy = place, settings, policy
        self._words = get_engine(ENGINE)
        self._secrets: tuple[str, ...] = ()
        self._connection: Any = None
        self._address: str | None = None
        self._newer = False
        self._submitted: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"SnowflakeConnection({self._place})"

    @property
    def place(self) -> str:
        """The account and what the profile or connection is called."""
        return self._place

    def __enter__(self) -> Self:
        connector()  # its import takes seconds that are no one's answer
        limit_s = self._policy.connect_s + CONNECT_GRACE_S
        self._worker = _Worker()
        try:
            connect_within(self._policy, lambda: self._worker.call(self._connect, limit_s))
        except ConfigError:
            self._worker.stop()
            raise
        except (TimeoutError, RunError) as error:
            self._worker.stop()
            message = str(error) if isinstance(error, RunError) else self._told(f"no answer within {limit_s:.0f} s")
            raise ConfigError(f"{message}; {mend(message)}") from None
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.call(self._disconnect)
        self._worker.stop()

    def submit(self, sql: str, tags: Mapping[str, str], job_id: str) -> str:
        """Start a statement and give its id. Snowflake makes the id; a lost one is found by :meth:`running`."""
        del job_id
        tag = json.dumps(dict(tags), sort_keys=True, separators=(",", ":"))

        def work(connection: Any) -> str:
            cursor = self._started(connection, sql, QUERY_TAG=tag)
            return str(cursor.sfqid)

        id = self._run(work)
        self._submitted[id] = time.monotonic()
        return id

    def status(self, id: str, *, counted: bool = True) -> JobStatus:
        """Return how far a statement is. A statement of another session is known by its id, too."""
        return self._run(lambda connection: self._status(connection, id, counted=counted))

    def cancel(self, id: str) -> None:
        """End a statement by ``SYSTEM$CANCEL_QUERY``. Raises RunError where the role may not."""
        cancel = exp.select(func("SYSTEM$CANCEL_QUERY", literal(id)))
        try:
            self.rows(print_sql(self._words, cancel))
        except TransientError:
            raise
        except RunError:
            if self.status(id).state is JobState.RUNNING:
                raise

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a short query and give its rows."""
        return self._run(lambda connection: self._rows(connection, sql))

    def columns(self, relation: str) -> dict[str, Type | None] | None:
        """Return a relation's columns by ``DESCRIBE TABLE``, their names as Snowflake stores them."""
        describe = print_sql(self._words, exp.Describe(this=named_relation(self._words, relation), kind="TABLE"))

        def work(connection: Any) -> list[tuple[Any, ...]] | None:
            try:
                return self._rows(connection, describe)
            except Exception as error:
                if number_of(error) in MISSING:
                    return None
                raise

        found = self._run(work)
        return None if found is None else {str(name): self._type(str(kind)) for name, kind, *_ in found}

    def fits(self, table: str, query: exp.Query) -> bool:
        """Tell whether a table that is there has the columns of a query. A query without rows tells both."""

        def work(connection: Any) -> bool:
            try:
                known, given = (self._read(connection, columns_of(each)).description for each in (table, query))
            except Exception as error:
                if number_of(error) in MISSING:
                    return False
                raise
            return takes(known, given)

        return self._run(work)

    def policies(self, table: str) -> list[str]:
        """Return the policies that a table carries; none where the role may not see them, and may replace nothing."""
        try:
            found = self.rows(policies(table))
        except TransientError:
            raise
        except RunError:
            return []
        return sorted(f"{str(kind).replace('_', ' ').lower()} {name}" for kind, name in found)

    def check(self, sql: str) -> None:
        """Compile a statement by ``EXPLAIN``, which runs nothing and needs no warehouse."""
        self.rows(print_sql(self._words, exp.Command(this="EXPLAIN", expression=exp.var(sql))))

    def running(self, tags: Mapping[str, str]) -> list[str]:
        """Return the ids of the statements that have these tags, more perhaps, and have not ended."""
        found = self.rows(history(self.home) + _STILL_RUN)
        return [str(id) for id, tag in found if dict(tags).items() <= _tags(tag).items()]

    def find(self, job_id: str) -> str | None:
        """Return a statement of the history by its tag."""
        found = (str(id) for id, tag in self.rows(history(self.home)) if _tags(tag).get("job") == job_id)
        return next(found, None)

    def link(self, id: str) -> str | None:
        """Return the address of a statement in Snowsight."""
        return None if self._address is None else f"{self._address}/#/compute/history/queries/{id}/detail"

    # In the thread of the connector -----------------------------------------------------------------------------------

    def _run(self, work: Callable[[Any], T]) -> T:
        def guarded() -> T:
            if self._connection is None:
                self._connect()
            try:
                return work(self._connection)
            except RunError:
                raise
            except Exception as error:
                raise self._raised(error) from None

        return self._worker.call(guarded)

    def _connect(self) -> None:
        client = connector()
        self._newer = int(client.__version__.split(".")[0]) >= 5
        given = parameters(self._settings())
        self._secrets = tuple(str(given[name]) for name in SECRET if given.get(name))
        try:
            self._connection = client.connect(
                **given,
                session_parameters=SESSION,
                server_session_keep_alive=True,  # the end of a session may end its statements
                **limits(self._policy, self._newer),
            )
            ((organisation, account),) = self._rows(self._connection, _ACCOUNT)
        except Exception as error:
            self._disconnect()
            raise self._raised(error) from None
        known = organisation and account
        self._address = f"https://app.snowflake.com/{organisation}/{account}".lower() if known else None

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # the session ends by itself
                connection.close()

    def _status(self, connection: Any, id: str, *, counted: bool) -> JobStatus:
        try:
            name = connection.get_query_status(id).name
        except ValueError:  # no id of Snowflake's
            return JobStatus(JobState.UNKNOWN)
        if name == "SUCCESS":
            return JobStatus(JobState.DONE, _written(connection, id) if counted else None)
        if name == "NO_DATA":
            recent = time.monotonic() - self._submitted.get(id, -UNSEEN_S) < UNSEEN_S
            return JobStatus(JobState.RUNNING if recent else JobState.UNKNOWN)
        if name == "DISCONNECTED":
            raise self._lost("the session is closed")
        if not _has_failed(name):
            return JobStatus(JobState.RUNNING)
        try:
            connection.get_query_status_throw_if_error(id)
        except connector().errors.Error as error:
            number, message = number_of(error), line_of(error, self._secrets)
            if number == -1 and name.startswith("FAILED"):  # 4.x: not the statement failed, the question did
                raise self._lost(message) from None
            if number == CANCELLED:
                return JobStatus(JobState.CANCELLED, error=message)
            state = JobState.CANCELLED if name == "ABORTED" else JobState.FAILED
            started = number not in NOT_STARTED
            return JobStatus(state, None, message, is_transient(number, message), started=started)
        return JobStatus(JobState.FAILED, error=name)

    def _started(self, connection: Any, sql: str, **parameters: str) -> Any:
        """Start a statement and give its cursor.

        4.x cancels a request that takes too long from a thread whose errors it prints. Without retries of its own it
        does not: the request is repeated here, under the same id, by which the service knows it.
        """
        cursor = connection.cursor()
        if self._newer:
            cursor.execute_async(sql, _statement_params=parameters)
            return cursor
        given = parameters | {"requestId": str(uuid.uuid4())}
        until, pause = time.monotonic() + self._policy.request_s, FIRST_RETRY_S
        while True:
            try:
                cursor.execute_async(sql, _statement_params=given, _no_retry=True)
                return cursor
            except Exception as error:
                if not is_unanswered(number_of(error)) or time.monotonic() + pause > until:
                    raise
            time.sleep(pause)
            pause = 2 * pause

    def _rows(self, connection: Any, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._read(connection, sql).fetchall()]

    def _read(self, connection: Any, sql: str) -> Any:
        """Return the cursor of a short query that has ended.

        It is polled: a request that waits for its result has the limits of a request, a warehouse that resumes has not.
        """
        cursor = self._started(connection, sql)
        id, until, pause = str(cursor.sfqid), time.monotonic() + SHORT_QUERY_S, FIRST_POLL_S
        while (status := connection.get_query_status(id)).name != "SUCCESS" and not _has_failed(status.name):
            if status.name == "DISCONNECTED":
                raise self._lost("the session is closed")
            if time.monotonic() > until:
                raise TransientError(f"{self.place}: a short query has run for {SHORT_QUERY_S:.0f} s: {id}")
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_POLL_S)
        if status.name != "SUCCESS":
            connection.get_query_status_throw_if_error(id)
        cursor.query_result(id)
        return cursor

    def _raised(self, error: Exception) -> RunError:
        """Return what an error of the connector means; one that is not the connector's comes from a broken answer."""
        number, message = number_of(error), line_of(error, self._secrets)
        if is_of_connector(error) and not is_transient(number, message):
            return RunError(self._told(message))
        return TransientError(self._told(message)) if number in OF_STATEMENTS else self._lost(message)

    def _lost(self, message: str) -> LostConnectionError:
        self._disconnect()
        return LostConnectionError(self._told(message))

    def _told(self, message: str) -> str:
        return f"{self.place}: {message}"

    def _type(self, written: str) -> Type | None:
        """Return the portable type. Snowflake stores every integer type as NUMBER(38,0)."""
        found = portable_type(self._words, written)
        return BIGINT if isinstance(found, Decimal) and found.scale == 0 else found


def open_snowflake(
    fields: Mapping[str, Any], policy: ConnectPolicy = POLICY, *, place: str = ""
) -> SnowflakeConnection:
    """Return a connection by the fields of a dbt-snowflake profile; it connects when it is entered.

    Fields that are dbt's own are ignored. ``place`` names the profile in messages.
    """
    given = dict(fields)
    named = place or f"snowflake {given.get('account') or given.get('host') or ''}".strip()
    return SnowflakeConnection(named, lambda: given, policy)


def open_snowflake_named(name: str | None = None, policy: ConnectPolicy = POLICY) -> SnowflakeConnection:
    """Return a connection by a name of ``connections.toml``; None is the connector's default connection."""
    return SnowflakeConnection(f"snowflake {name or 'default connection'}", partial(named, name), policy)


class _Worker:
    """A thread that runs one call at a time. It is a daemon: a hanging request does not hold the interpreter's end."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        threading.Thread(target=self._work, name="snowflake", daemon=True).start()

    def stop(self) -> None:
        self._calls.put(None)

    def call(self, work: Callable[[], T], timeout_s: float | None = None) -> T:
        future: Future[T] = Future()
        self._calls.put((work, future))
        return future.result(timeout_s)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            work, future = call
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)


def _written(connection: Any, id: str) -> int | None:
    """Return the rows that a statement inserted, updated, deleted; None for another statement, or an unknown number.

    https://docs.snowflake.com/en/sql-reference/sql/insert: its result has the column "number of rows inserted".
    """
    with suppress(Exception):  # the statement is done, and its result may be gone
        cursor = connection.cursor()
        cursor.query_result(id)
        counted = [n for n, column in enumerate(cursor.description) if column[0].startswith("number of rows ")]
        if counted:
            (row,) = cursor.fetchall()
            return sum(int(row[n]) for n in counted)
    return None


def _has_failed(status: str) -> bool:
    """Tell whether a status is the end of a statement that failed. ABORTING and RESTARTED are none, nor is one that the
    connector may add."""
    return status.startswith("FAILED") or status == "ABORTED"


def _tags(written: Any) -> dict[str, Any]:
    with suppress(ValueError):
        found = json.loads(written)
        return found if isinstance(found, dict) else {}
    return {}
