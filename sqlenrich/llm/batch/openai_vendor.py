"""OpenAI's batches, and those of who copies its ``/files`` and ``/batches``. What differs between them is data."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import ConfigError
from sqlenrich.llm.batch.answer_lines import read_line, split_lines
from sqlenrich.llm.batch.connection import INSTALL, PAGE_BATCHES, PLACEHOLDER_KEY, READ_TRIES, VendorConnection
from sqlenrich.llm.batch.errors import GoneError, UnavailableError
from sqlenrich.llm.batch.failures import CANCEL, CREATE, LIST, LIST_FILES, STATE, UPLOAD, Step, batch_failure
from sqlenrich.llm.batch.request_file import request_line, temporary_file
from sqlenrich.llm.batch.vendor import (
    CLOCK_SKEW,
    BatchCounts,
    BatchInfo,
    BatchLimits,
    BatchLine,
    BatchRequest,
    BatchResults,
    BatchState,
    checked_key,
    oldest_first,
)
from sqlenrich.llm.endpoint.wire.forms import Body

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types import Batch, FileObject

METADATA_KEY = "sqlenrich_batch"
STATES: dict[str, BatchState] = {
    "validating": "validating",
    "in_progress": "in_progress",
    "finalizing": "in_progress",
    "cancelling": "in_progress",
    "completed": "ended",
    "expired": "expired",
    "cancelled": "cancelled",
    "failed": "failed",
}
READY_S = 300.0
"""The longest wait for the check of an uploaded file."""
READY_POLL_S = 1.0


LIMITS = BatchLimits(50_000, 200_000_000, "the SDK openai 3.57.0, batches.create", "2026-11-25")
"""Azure's page of the same call has these too: https://learn.microsoft.com/azure/foundry/reference/rest."""


class OpenAIVendor:
    """A :class:`.vendor.BatchVendor` over the SDK ``openai``."""

    name = "openai"

    def __init__(self, endpoint: Endpoint, body: Body, limits: BatchLimits | None) -> None:
        self.limits = limits or LIMITS
        self._body = body
        self._connection = VendorConnection(endpoint)
        # Azure's versioned API, which the query of a URL names, has no /v1 in the pages of requests.
        self._page = ("" if "api-version" in self._connection.query else "/v1") + body.page
        self.shown = self._connection.shown
        self._stack = ExitStack()
        self._client: OpenAI | None = None

    def __enter__(self) -> OpenAIVendor:
        try:
            import openai
        except ImportError:
            raise ConfigError(f"the SDK openai is missing: {INSTALL}") from None
        connection = self._connection
        connection.open()
        http_client = self._stack.enter_context(connection.http_client(openai.DefaultHttpxClient, openai.Timeout))
        self._client = openai.OpenAI(
            api_key=PLACEHOLDER_KEY,
            base_url=connection.base_url,
            default_query=connection.query,
            max_retries=READ_TRIES,
            timeout=connection.timeout(openai.Timeout),
            http_client=http_client,
        )
        return self

    def __exit__(self, *error: object) -> None:
        self._client = None
        self._stack.close()

    @property
    def client(self) -> OpenAI:
        """The SDK's client while the vendor is entered."""
        assert self._client is not None, "the vendor is not open"
        return self._client

    def request(self, custom_id: str, prompt: str) -> BatchRequest:
        """Return the request for a prompt."""
        return BatchRequest(custom_id, self._body.of((prompt,)))

    def line(self, request: BatchRequest) -> bytes:
        """Return the line of a request."""
        return request_line(request, self._page)

    def upload(self, key: str, lines: Iterable[bytes]) -> str:
        """Send the file of a batch and return its id."""
        name = _file_name(key)
        with temporary_file(lines, self.limits, self.shown) as file:

            def send() -> FileObject:
                file.seek(0)
                files = self.client.with_options(max_retries=0).files
                return files.create(file=(name, file, "application/jsonl"), purpose="batch")

            uploaded = self._connection.call(UPLOAD, send)
            if not isinstance(getattr(uploaded, "id", None), str):
                raise self._connection.unread(UPLOAD)
        self._wait_until_ready(uploaded)
        return uploaded.id

    def _wait_until_ready(self, file: FileObject) -> None:
        """Wait for a vendor that checks files before it takes a batch of them, as Azure does."""
        until, file_id = time.monotonic() + READY_S, file.id
        while str(file.status) in ("pending", "running") and time.monotonic() < until:
            time.sleep(READY_POLL_S)
            file = self._connection.call(LIST_FILES, lambda: self.client.files.retrieve(file_id))

    def find_upload(self, key: str, since: datetime) -> str | None:
        """Return the id of the newest file of a key."""
        files = self._files(_file_name(key), since)
        return max(files, key=lambda file: file.created_at).id if files else None

    def create(self, key: str, file_id: str) -> BatchInfo:
        """Create the batch of an uploaded file."""
        checked_key(key)
        batches = self.client.with_options(max_retries=0).batches
        return self._read(
            CREATE,
            lambda: batches.create(
                completion_window="24h",
                endpoint=self._page,  # type: ignore[arg-type]  # Azure's pages are not in the SDK's list
                input_file_id=file_id,
                metadata={METADATA_KEY: key},
            ),
        )

    def find(self, key: str, since: datetime, requests: int, custom_ids: Collection[str]) -> list[BatchInfo]:
        """Return the batches with a key in their metadata, or made of a file with its name."""
        del requests, custom_ids
        begin, found = since - CLOCK_SKEW, list[BatchInfo]()
        unnamed: list[BatchInfo] = []
        for batch in self._batches(begin):
            info = self._info(batch)
            if info.key == key:
                found.append(info)
            elif info.key is None and info.created_at >= begin:
                unnamed.append(info)
        if unnamed:
            files = {file.id for file in self._files(_file_name(key), since)}
            found += [replace(info, key=key) for info in unnamed if info.input_file in files]
        return oldest_first(found)

    def state(self, vendor_id: str) -> BatchInfo:
        """Return what the vendor says of a batch now."""
        return self._read(STATE, lambda: self.client.batches.retrieve(vendor_id))

    def results(self, info: BatchInfo) -> BatchResults:
        """Return the lines of the files of answers, then those of the files of failures."""
        results = BatchResults(iter(()))
        results.lines = self._lines((*info.output_files, *info.error_files), results.gone)
        return results

    def cancel(self, vendor_id: str) -> BatchInfo:
        """Ask for the end of a batch."""
        return self._read(CANCEL, lambda: self.client.batches.cancel(vendor_id))

    def _lines(self, files: Sequence[str], gone: list[str]) -> Iterator[BatchLine]:
        for file_id in files:
            try:
                opened = self.client.files.with_streaming_response.content(file_id)
                with closing(self._connection.content(opened)) as pieces:
                    for raw in split_lines(pieces):
                        yield self._connection.without_secrets(read_line(raw, self._body.read, self.shown))
            except GoneError:
                gone.append(file_id)
                if len(gone) == len(files):
                    raise

    def _files(self, name: str, since: datetime) -> list[FileObject]:
        begin = (since - CLOCK_SKEW).timestamp()
        listed = self._connection.call(LIST_FILES, lambda: [*self.client.files.list(purpose="batch")])
        return [file for file in listed if file.filename == name and file.created_at >= begin]

    def _batches(self, begin: datetime) -> Iterator[Batch]:
        """Return the batches of the account, at least those that were created since then.

        Vendors list the newest first, which nobody promises: a list in another order is read to its end.
        """
        page = self._connection.call(LIST, lambda: self.client.batches.list(limit=PAGE_BATCHES))
        last = float("inf")
        descending = True
        while True:
            times = [batch.created_at for batch in page.data]
            descending = descending and all(a >= b for a, b in zip([last, *times], times, strict=False))
            yield from page.data
            if not times or not page.has_next_page() or (descending and times[-1] < begin.timestamp()):
                return
            last = times[-1]
            page = self._connection.call(LIST, page.get_next_page)

    def _read(self, step: Step, ask: Callable[[], Batch]) -> BatchInfo:
        """Return what a call says of a batch, which may be a page of something else."""
        batch = self._connection.call(step, ask)
        if not isinstance(getattr(batch, "id", None), str) or not isinstance(batch.created_at, int):
            raise self._connection.unread(step)
        return self._info(batch)

    def _info(self, batch: Batch) -> BatchInfo:
        state = STATES.get(batch.status)
        if state is None:
            raise UnavailableError(f"{self.shown}: the batch {batch.id} is in the unknown state {batch.status!r}")
        counts = batch.request_counts
        answered, failed, total = (0, 0, 0) if counts is None else (counts.completed, counts.failed, counts.total)
        errors = (batch.errors.data if batch.errors is not None else None) or []
        failure = None
        if state == "failed":
            first = errors[0] if errors else None
            code, message = ("", "") if first is None else (first.code or "", first.message or "")
            message = self._connection.secrets.hide(message)
            failure = batch_failure(code, message, None if first is None else first.line, self.shown)
        ended = batch.completed_at or batch.expired_at or batch.cancelled_at or batch.failed_at
        return BatchInfo(
            vendor_id=batch.id,
            key=(batch.metadata or {}).get(METADATA_KEY),
            state=state,
            created_at=datetime.fromtimestamp(batch.created_at, UTC),
            requests=total,
            counts=_counts(state, answered, failed, total),
            failure=failure,
            input_file=batch.input_file_id,
            output_files=(batch.output_file_id,) if batch.output_file_id else (),
            error_files=(batch.error_file_id,) if batch.error_file_id else (),
            ended_at=None if ended is None else datetime.fromtimestamp(ended, UTC),
        )


def _counts(state: BatchState, answered: int, failed: int, total: int) -> BatchCounts:
    """Return the counts of a batch. OpenAI counts expired requests as failed, and cancelled ones as neither."""
    rest = max(total - answered - failed, 0)
    if state == "expired":
        return BatchCounts(answered, 0, failed + rest)
    if state == "cancelled":
        return BatchCounts(answered, failed, 0, rest)
    return BatchCounts(answered, failed, open=rest)


def _file_name(key: str) -> str:
    return f"{checked_key(key)}.jsonl"
