"""A connection to BigQuery by Google's client: ``Client.query``, whose text is sent as it is.

The client's DB-API is not used: it turns ``%%`` into ``%``. Nothing is tried again here: an error that may pass is a
TransientError, and the run decides.
"""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote, urlsplit
from uuid import uuid4

from sqlglot import exp
from sqlglot.errors import SqlglotError

from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.types import Type
from sqlenrich.store.connections.base import (
    ConnectPolicy,
    JobState,
    JobStatus,
    LostConnectionError,
    TransientError,
    UnreachableError,
    chain,
    connect_within,
    nobody_answers,
)
from sqlenrich.store.connections.bigquery.credentials import LOGIN, credentials_of, secrets_of
from sqlenrich.store.connections.bigquery.errors import (
    STOPPED,
    first_line,
    is_about,
    is_transient,
    message_of,
    reason_of,
)
from sqlenrich.store.connections.bigquery.labels import labels_of
from sqlenrich.store.connections.bigquery.types import portable_type

if TYPE_CHECKING:
    from google.cloud.bigquery import Client

T = TypeVar("T")
JOB_ID_PREFIX = "sqlenrich_"
"""The label ``bigquery_job_id_prefix`` of the model's charge begins with it."""
HOST = "bigquery.googleapis.com"
RUNS_AT_MOST = timedelta(days=3)
"""Older jobs have ended: a query runs for 6 hours at most; the rest is room for its queue."""


def open_bigquery(fields: Mapping[str, Any], policy: ConnectPolicy | None = None) -> BigQueryConnection:
    """Return the connection that a profile of dbt-bigquery describes; it connects when it is entered.

    Fields: method (oauth, oauth-secrets, service-account, service-account-json), project or database, dataset or
    schema, keyfile, keyfile_json, token, refresh_token, client_id, client_secret, token_uri, scopes, location,
    api_endpoint, execution_project, quota_project, impersonate_service_account, maximum_bytes_billed, priority.
    Others are ignored.
    """
    return BigQueryConnection(fields, policy or ConnectPolicy())


def open_bigquery_default(
    project: str | None, dataset: str | None = None, *, location: str | None = None, policy: ConnectPolicy | None = None
) -> BigQueryConnection:
    """Return a connection by Application Default Credentials; without a project, by that of the credentials."""
    return open_bigquery({"method": "oauth", "project": project, "dataset": dataset, "location": location}, policy)


class BigQueryConnection:
    """A WarehouseConnection. Its ids are BigQuery's job ids.

    Jobs run in the location of ``location``, else of the dataset, else where BigQuery finds their tables; jobs of an
    earlier process are found outside of the US and EU only where one of the first two is given.
    """

    engine = "bigquery"
    starts_once = True
    late_s = 0.0
    statement_bytes = 1_000_000
    """https://docs.cloud.google.com/bigquery/quotas#query_jobs. A table takes 1,500 load jobs a day, which a client's
    answers would use up in two hours, and any number of INSERTs."""
    _client: Client

    def __init__(self, fields: Mapping[str, Any], policy: ConnectPolicy) -> None:
        self._fields = dict(fields)
        self._policy = policy
        self._hidden = secrets_of(fields)
        self._project: str | None = fields.get("project") or fields.get("database")
        self._dataset: str | None = fields.get("dataset") or fields.get("schema")
        self._location: str | None = fields.get("location")
        self._locations: dict[str, str] = {}
        self._reading: tuple[str, str] | None = None
        """The query whose rows have not come yet, and its job."""

    def __repr__(self) -> str:
        return f"BigQueryConnection({self.place!r})"

    @property
    def place(self) -> str:
        return ".".join(filter(None, (self._project, self._dataset))) or "the default project"

    def __enter__(self) -> Self:
        try:
            self._connect()
        except ImportError:
            raise ConfigError("BigQuery needs Google's client; pip install 'sqlenrich[bigquery]'") from None
        try:
            connect_within(self._policy, self._find)
        except RunError as error:
            self._client.close()
            if type(error) is TransientError:  # it answers that it is busy
                raise
            raise ConfigError(str(error)) from None
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def submit(self, sql: str, tags: Mapping[str, str], job_id: str) -> str:
        return self._start(sql, _id_of(job_id), labels=labels_of(tags), priority=self._priority)

    def _start(self, sql: str, id: str, **settings: Any) -> str:
        """Start a job, of which an earlier try may have been started."""
        from google.api_core.exceptions import Conflict

        config = self._config(**settings)

        def start() -> None:
            try:
                job = self._client.query(
                    sql, config, job_id=id, location=self._location, retry=None, timeout=self._wait, job_retry=None
                )
            except Conflict as error:
                if not is_about(error, "duplicate"):
                    raise
                return  # an earlier try of this submission, whose answer was lost
            if job.location:
                self._locations[id] = job.location

        self._call(start)
        return id

    def status(self, id: str, *, counted: bool = True) -> JobStatus:
        from google.api_core.exceptions import NotFound

        def look() -> JobStatus:
            try:
                job = self._client.get_job(id, location=self._location_of(id), retry=None, timeout=self._wait)
            except NotFound as error:
                if not is_about(error, "notFound"):
                    raise
                return JobStatus(JobState.UNKNOWN)
            if job.state != "DONE":
                return JobStatus(JobState.RUNNING)
            if not job.error_result:
                return JobStatus(JobState.DONE, self._written(job) if counted else None)
            reason = str(job.error_result.get("reason") or "")
            message = self._clean(first_line(str(job.error_result.get("message") or reason)))
            state = JobState.CANCELLED if reason == STOPPED else JobState.FAILED
            return JobStatus(state, None, message, is_transient(reason, message), started=job.started is not None)

        return self._call(look)

    def find(self, job_id: str) -> str | None:
        id = _id_of(job_id)
        return None if self.status(id, counted=False).state is JobState.UNKNOWN else id

    def billed(self, id: str) -> dict[str, float] | None:
        """Return the bytes billed and the slot seconds of a job; None for an unknown one."""
        from google.api_core.exceptions import NotFound

        def look() -> dict[str, float] | None:
            try:
                job = self._client.get_job(id, location=self._location_of(id), retry=None, timeout=self._wait)
            except NotFound as error:
                if not is_about(error, "notFound"):
                    raise
                return None
            return {"bytes billed": float(job.total_bytes_billed or 0), "slot s": (job.slot_millis or 0) / 1000}

        return self._call(look)

    def cancel(self, id: str) -> None:
        from google.api_core.exceptions import NotFound

        def end() -> None:
            try:
                self._client.cancel_job(id, location=self._location_of(id), retry=None, timeout=self._wait)
            except NotFound as error:
                if not is_about(error, "notFound"):
                    raise

        self._call(end)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query as a job that is polled. The same query again after a lost answer goes on with the same job.

        Pages of JSON: BigQuery's Storage API is another service, which a network or a role may not allow.
        """
        if self._reading is None or self._reading[0] != sql:
            self._reading = sql, f"{JOB_ID_PREFIX}{uuid4().hex}"
        id, pause = self._reading[1], self._policy.first_poll_s
        self._start(sql, id)
        while (status := self.status(id, counted=False)).state is JobState.RUNNING:
            time.sleep(pause)
            pause = min(2 * pause, self._policy.longest_poll_s)
        if status.state is not JobState.DONE:
            self._reading = None
            message = f"BigQuery {self.place}: {status.error or 'the query is unknown'}"
            lost = status.transient or status.state is JobState.UNKNOWN
            raise TransientError(message) if lost else RunError(message)

        def read() -> list[tuple[Any, ...]]:
            job = self._client.get_job(id, location=self._location_of(id), retry=None, timeout=self._wait)
            found = job.result(retry=None, job_retry=None, timeout=self._wait)
            return [tuple(row.values()) for row in found]

        rows = self._call(read)
        self._reading = None
        return rows

    def columns(self, relation: str) -> dict[str, Type | None] | None:
        from google.api_core.exceptions import NotFound

        table_id = self._table_id(relation)

        def look() -> dict[str, Type | None] | None:
            try:
                table = self._client.get_table(table_id, retry=None, timeout=self._wait)
            except NotFound as error:
                if not is_about(error, "notFound"):
                    raise
                return None
            return {field.name: portable_type(field) for field in table.schema}

        return self._call(look)

    def check(self, sql: str) -> None:
        self._dry_run(sql, self._wait)

    def running(self, tags: Mapping[str, str]) -> list[str]:
        """The jobs of other users need bigquery.jobs.listAll: without it their labels are not shown, and they are not
        found (https://docs.cloud.google.com/bigquery/docs/reference/rest/v2/jobs/list, read 2026-11-22)."""
        wanted = labels_of(tags).items()
        found: dict[str, None] = {}
        for state in ("pending", "running"):  # in this order a job that starts meanwhile is in one of the lists
            for job in self._call(lambda state=state: self._listed(state)):  # type: ignore[misc]
                if wanted <= dict(getattr(job, "labels", None) or {}).items():
                    found[job.job_id] = None
                    self._locations[job.job_id] = job.location
        return list(found)

    def link(self, id: str) -> str | None:
        location = self._location_of(id)
        if location is None:
            return None
        project = quote(self._client.project, safe="")
        return f"https://console.cloud.google.com/bigquery?project={project}&j=bq:{location}:{id}&page=queryresults"

    def _connect(self) -> None:
        from google.auth.transport.requests import AuthorizedSession, Request
        from google.cloud.bigquery import Client
        from requests import Session

        limits = _limits(self._policy)
        plain = Session()
        _mount(plain, limits)
        request = Request(plain)
        credentials, named = credentials_of(self._fields)
        self._project = self._project or named
        if not self._project:
            raise ConfigError("BigQuery: no project; name one in the profile, or in GOOGLE_CLOUD_PROJECT")
        session = AuthorizedSession(credentials, auth_request=request, default_host=HOST)
        _mount(session, limits)
        endpoint = self._fields.get("api_endpoint")
        self._client = Client(
            str(self._fields.get("execution_project") or self._project),
            credentials,
            _http=session,
            client_options={"api_endpoint": str(endpoint)} if endpoint else None,
        )

    def _find(self) -> None:
        """Find the dataset, and learn whether this account may run queries."""
        wait = self._policy.connect_s
        if self._dataset:
            dataset = self._call(lambda: self._client.get_dataset(self._dataset_id, retry=None, timeout=wait))
            self._location = self._location or dataset.location
        self._dry_run("SELECT 1", wait)

    def _dry_run(self, sql: str, wait: float) -> None:
        config = self._config(dry_run=True, use_query_cache=False)
        self._call(
            lambda: self._client.query(sql, config, location=self._location, retry=None, timeout=wait, job_retry=None)
        )

    @property
    def _wait(self) -> float:
        return self._policy.request_s

    @property
    def _dataset_id(self) -> str:
        return f"{self._project}.{self._dataset}"

    @property
    def _priority(self) -> str:
        return str(self._fields.get("priority") or "interactive").upper()

    def _location_of(self, id: str) -> str | None:
        return self._locations.get(id) or self._location

    def _config(self, **settings: Any) -> Any:
        from google.cloud.bigquery import DatasetReference, QueryJobConfig

        if self._dataset:
            settings["default_dataset"] = DatasetReference(self._project, self._dataset)
        if most := self._fields.get("maximum_bytes_billed"):
            settings["maximum_bytes_billed"] = int(most)
        return QueryJobConfig(**settings)

    def _listed(self, state: str) -> list[Any]:
        from google.api_core.exceptions import Forbidden

        limits: dict[str, Any] = {
            "state_filter": state,
            "min_creation_time": datetime.now(UTC) - RUNS_AT_MOST,
            "retry": None,
            "timeout": self._wait,
        }
        try:
            return list(self._client.list_jobs(all_users=True, **limits))
        except Forbidden as error:
            if is_transient(reason_of(error), message_of(error)):
                raise
            return list(self._client.list_jobs(**limits))

    def _written(self, job: Any) -> int | None:
        """BigQuery counts the rows of DML; a new table's are its rows."""
        from google.api_core.exceptions import GoogleAPICallError

        if getattr(job, "statement_type", None) != "CREATE_TABLE_AS_SELECT":
            written = getattr(job, "num_dml_affected_rows", None)
            return None if written is None else int(written)
        try:
            made = self._client.get_table(job.destination, retry=None, timeout=self._wait)
        except GoogleAPICallError:  # dropped since, or not to be read by this account
            return None
        return None if made.num_rows is None else int(made.num_rows)

    def _table_id(self, relation: str) -> str:
        """A table without a dataset is one of the default dataset, as in a query."""
        try:
            table = exp.to_table(relation, dialect="bigquery")
        except SqlglotError:
            raise RunError(f'BigQuery: "{relation}" is not the name of a table') from None
        if not table.db and not self._dataset:
            raise RunError(f'BigQuery: "{relation}" has no dataset; write dataset.table, or name a dataset')
        project = table.catalog or (self._client.project if table.db else self._project)
        return f"{project}.{table.db or self._dataset}.{table.name}"

    def _call(self, call: Callable[[], T]) -> T:
        """Call the client, and give its errors as ours."""
        from google.api_core.exceptions import GoogleAPIError
        from google.auth.exceptions import GoogleAuthError
        from requests.exceptions import RequestException

        try:
            return call()
        except (
            GoogleAPIError, GoogleAuthError, RequestException, concurrent.futures.TimeoutError, ConnectionError,
        ) as error:  # fmt: skip
            raise self._ours(error) from None

    def _ours(self, error: Exception) -> RunError:
        from google.api_core.exceptions import Forbidden, GoogleAPICallError, NotFound, Unauthorized
        from google.auth.exceptions import RefreshError, TransportError
        from requests.exceptions import ChunkedEncodingError, InvalidJSONError, SSLError, Timeout

        where = f"BigQuery {self.place}"
        host = urlsplit(str(self._fields.get("api_endpoint") or f"https://{HOST}")).netloc
        cause = error.__cause__ if isinstance(error, TransportError) and error.__cause__ else error
        message = self._clean(message_of(error))
        if isinstance(cause, RefreshError | Unauthorized):
            if getattr(cause, "retryable", False):
                return TransientError(f"{where}: {message}")
            return RunError(f"{where}: the credentials have expired or are refused ({message}); {LOGIN}")
        if isinstance(cause, GoogleAPICallError):
            if is_transient(reason_of(cause), message, cause.code):
                return TransientError(f"{where}: {message}")
            if not reason_of(cause):
                answered = f"{host} answered HTTP {int(cause.code or 0)} ({message})"
                return RunError(f"{where}: {answered}; check the network and api_endpoint")
            mends = {NotFound: "; make it, or mend its name", Forbidden: "; ask for the role, or mend the name"}
            return RunError(f"{where}: {message}{mends.get(type(cause), '')}")
        if isinstance(cause, InvalidJSONError):
            return RunError(f"{where}: {host} answered with what is not JSON; check the network and api_endpoint")
        if isinstance(cause, SSLError):
            return RunError(f"{where}: {host} has no certificate that is trusted here ({_innermost(cause)})")
        if isinstance(cause, Timeout | concurrent.futures.TimeoutError):
            return LostConnectionError(f"{where}: no answer from {host} in time; check the network and api_endpoint")
        if isinstance(cause, ConnectionError | ChunkedEncodingError | OSError):
            reason = self._clean(_innermost(cause))
            kind = UnreachableError if nobody_answers(chain(cause)) else LostConnectionError
            return kind(f"{where}: {host} can't be reached ({reason}); check the network and api_endpoint")
        return RunError(f"{where}: {message}")

    def _clean(self, text: str) -> str:
        for secret in self._hidden:
            text = text.replace(secret, "***")
        return text


def _id_of(job_id: str) -> str:
    return job_id if job_id.startswith(JOB_ID_PREFIX) else JOB_ID_PREFIX + job_id


def _limits(policy: ConnectPolicy) -> Any:
    """Return a transport that never waits longer than the policy says, nor tries again: for requests and for tokens."""
    from requests.adapters import HTTPAdapter

    class Limited(HTTPAdapter):  # type: ignore[misc, unused-ignore]
        def send(self, request: Any, *args: Any, timeout: Any = None, **rest: Any) -> Any:
            read = timeout[1] if isinstance(timeout, tuple) else timeout
            read = policy.request_s if read is None else min(read, policy.request_s)
            return super().send(request, *args, timeout=(policy.connect_s, read), **rest)

    return Limited(max_retries=0)


def _mount(session: Any, adapter: Any) -> None:
    for scheme in ("https://", "http://"):
        session.mount(scheme, adapter)


def _innermost(error: BaseException) -> str:
    """Return what the operating system said, below the layers of the HTTP client."""
    inner: BaseException | None = error
    while inner is not None:
        error, inner = inner, inner.__cause__ or inner.__context__
    return first_line(str(getattr(error, "strerror", None) or error))
