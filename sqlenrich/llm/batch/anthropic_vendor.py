"""Anthropic's message batches: no files and no metadata; the requests are the body of the call that creates a batch."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import IO, TYPE_CHECKING
from urllib.parse import urlsplit

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import ConfigError
from sqlenrich.llm.batch.answer_lines import completed, dump, line_object, split_lines
from sqlenrich.llm.batch.connection import INSTALL, PAGE_BATCHES, PLACEHOLDER_KEY, READ_TRIES, VendorConnection
from sqlenrich.llm.batch.errors import GoneError
from sqlenrich.llm.batch.failures import CANCEL, CREATE, LIST, STATE, Step
from sqlenrich.llm.batch.request_file import BUFFER_BYTES, saying_where, write_lines
from sqlenrich.llm.batch.vendor import (
    CLOCK_SKEW,
    BatchCounts,
    BatchInfo,
    BatchLimits,
    BatchLine,
    BatchRequest,
    BatchResults,
    BatchState,
    Outcome,
    checked_key,
    oldest_first,
)
from sqlenrich.llm.endpoint.response import read_error
from sqlenrich.llm.endpoint.wire.forms import Body

if TYPE_CHECKING:
    from anthropic import Anthropic
    from anthropic.types.messages import MessageBatch

LIMITS = BatchLimits(100_000, 256_000_000, "https://docs.claude.com/en/api/creating-message-batches", "2026-11-25")
PAGE = "/v1/messages/batches"
COMPARED_LINES = 100
"""The answers whose ids show whether a batch is ours; one alone may be of a request that another batch has too."""
STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The HTTP status of each kind of error: https://platform.claude.com/docs/en/api/errors, read 2026-11-25.

Those from 500 on are the SDK's (anthropic 2.14.0).
"""
OUTCOMES: dict[str, Outcome] = {"errored": "failed", "expired": "expired", "canceled": "cancelled"}
_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class AnthropicVendor:
    """A :class:`.vendor.BatchVendor` over the SDK ``anthropic``. Its file is a local one until a batch is created."""

    name = "anthropic"

    def __init__(self, endpoint: Endpoint, body: Body, limits: BatchLimits | None = None) -> None:
        self.limits = limits or LIMITS
        self._body = body
        self._connection = VendorConnection(endpoint)
        self.shown = self._connection.shown
        self._stack = ExitStack()
        self._client: Anthropic | None = None
        self._files: dict[str, IO[bytes]] = {}
        """The bodies that create batches, by key: files without a name, which nobody else can read."""

    def __enter__(self) -> AnthropicVendor:
        try:
            import anthropic
        except ImportError:
            raise ConfigError(f"the SDK anthropic is missing: {INSTALL}") from None
        connection = self._connection
        connection.open()
        http_client = self._stack.enter_context(connection.http_client(anthropic.DefaultHttpxClient, anthropic.Timeout))
        base = urlsplit(connection.base_url)
        self._client = anthropic.Anthropic(
            api_key=PLACEHOLDER_KEY,
            base_url=base._replace(path=base.path.rstrip("/").removesuffix("/v1")).geturl(),
            default_query=connection.query,
            max_retries=READ_TRIES,
            timeout=connection.timeout(anthropic.Timeout),
            http_client=http_client,
        )
        return self

    def __exit__(self, *error: object) -> None:
        self._client = None
        self._stack.close()
        for file in self._files.values():
            file.close()
        self._files.clear()

    @property
    def client(self) -> Anthropic:
        """The SDK's client while the vendor is entered."""
        assert self._client is not None, "the vendor is not open"
        return self._client

    def request(self, custom_id: str, prompt: str) -> BatchRequest:
        """Return the request for a prompt."""
        if _CUSTOM_ID.fullmatch(custom_id) is None:
            raise ValueError(f"an id has 1 to 64 letters, digits, _ and -, not {custom_id!r}")
        return BatchRequest(custom_id, self._body.of((prompt,)))

    def line(self, request: BatchRequest) -> bytes:
        """Return a request as the body has it."""
        return b'{"custom_id":"' + request.custom_id.encode() + b'","params":' + request.body + b"}\n"

    def upload(self, key: str, lines: Iterable[bytes]) -> str:
        """Write the body that creates a batch to a file of this process, and return the key of it."""
        checked_key(key)
        file = tempfile.TemporaryFile(buffering=BUFFER_BYTES)  # noqa: SIM115 (it lives until the batch is created)
        try:
            with saying_where(tempfile.gettempdir()):
                write_lines(file, _as_body(lines), self.limits, self.shown)
                file.flush()
        except BaseException:
            file.close()
            raise
        if (before := self._files.pop(key, None)) is not None:
            before.close()
        self._files[key] = file
        return key

    def find_upload(self, key: str, since: datetime) -> str | None:
        """Return None: the file of another process is gone with it."""
        del key, since
        return None

    def create(self, key: str, file_id: str) -> BatchInfo:
        """Send the requests of a file. It is deleted once the batch is there."""
        from anthropic.types.messages import MessageBatch

        checked_key(key)
        file = self._files.get(file_id)
        if file is None:
            raise GoneError(f"the file of the batch {key} is not there any more")
        client = self.client.with_options(max_retries=0)

        def send() -> MessageBatch:
            file.seek(0)
            return client.post(PAGE, content=file, cast_to=MessageBatch)

        made = self._read(CREATE, send)
        self._files.pop(file_id).close()
        return replace(made, key=key)

    def find(self, key: str, since: datetime, requests: int, custom_ids: Collection[str]) -> list[BatchInfo]:
        """Return the batches of that time with so many requests, unless their answers show that they are others'."""
        known, found = frozenset(custom_ids), list[BatchInfo]()
        for info in self._created_since(since - CLOCK_SKEW):
            if info.requests != requests:
                continue
            if info.open or not info.output_files:
                found.append(info)
                continue
            with closing(self._lines(info.vendor_id)) as lines:
                first = [line.custom_id for line in islice(lines, COMPARED_LINES)]
            if first and known.issuperset(first):
                found.append(replace(info, key=key))
        return oldest_first(found)

    def state(self, vendor_id: str) -> BatchInfo:
        """Return what the vendor says of a batch now."""
        return self._read(STATE, lambda: self.client.messages.batches.retrieve(vendor_id))

    def results(self, info: BatchInfo) -> BatchResults:
        """Return the lines of a batch."""
        if not info.output_files:
            raise self._gone(info.vendor_id)
        return BatchResults(self._lines(info.vendor_id))

    def cancel(self, vendor_id: str) -> BatchInfo:
        """Ask for the end of a batch."""
        return self._read(CANCEL, lambda: self.client.messages.batches.cancel(vendor_id))

    def _created_since(self, begin: datetime) -> Iterator[BatchInfo]:
        """Return the batches since then. The vendor lists the newest first."""
        page = self._connection.call(LIST, lambda: self.client.messages.batches.list(limit=PAGE_BATCHES))
        while True:
            infos = [self._info(batch) for batch in page.data]
            yield from (info for info in infos if info.created_at >= begin)
            if not infos or not page.has_next_page() or infos[-1].created_at < begin:
                return
            page = self._connection.call(LIST, page.get_next_page)

    def _lines(self, vendor_id: str) -> Generator[BatchLine, None, None]:
        if not self.state(vendor_id).output_files:
            raise self._gone(vendor_id)
        opened = self.client.messages.batches.with_streaming_response.results(vendor_id)
        with closing(self._connection.content(opened)) as pieces:
            for raw in split_lines(pieces):
                yield self._connection.without_secrets(self._line(raw))

    def _gone(self, vendor_id: str) -> GoneError:
        return GoneError(f"{self.shown}: the results of the batch {vendor_id} are no longer there")

    def _line(self, raw: bytes) -> BatchLine:
        custom_id, line = line_object(raw, self.shown)
        written = line.get("result")
        result: dict[str, object] = written if isinstance(written, dict) else {}
        if result.get("type") == "succeeded":
            return completed(custom_id, dump(result.get("message")), self._body.read, None)
        outcome = OUTCOMES.get(str(result.get("type")), "failed")
        response = result.get("error")
        if not isinstance(response, dict):
            return BatchLine(custom_id, outcome, message="" if outcome != "failed" else "the result has no error")
        sent_id = response.get("request_id")
        message, code, param = read_error(dump(response))
        sent = sent_id if isinstance(sent_id, str) and sent_id else None
        return BatchLine(custom_id, outcome, None, STATUSES.get(code), message, code, param, sent)

    def _read(self, step: Step, ask: Callable[[], MessageBatch]) -> BatchInfo:
        """Return what a call says of a batch, which may be a page of something else."""
        batch = self._connection.call(step, ask)
        if not isinstance(getattr(batch, "id", None), str) or not isinstance(batch.created_at, datetime):
            raise self._connection.unread(step)
        return self._info(batch)

    def _info(self, batch: MessageBatch) -> BatchInfo:
        counts = batch.request_counts
        state: BatchState = "in_progress"
        if batch.processing_status == "ended":
            state = "cancelled" if counts.canceled else "expired" if counts.expired else "ended"
        return BatchInfo(
            vendor_id=batch.id,
            key=None,
            state=state,
            created_at=batch.created_at.astimezone(UTC),
            requests=sum((counts.succeeded, counts.errored, counts.expired, counts.canceled, counts.processing)),
            counts=BatchCounts(counts.succeeded, counts.errored, counts.expired, counts.canceled, counts.processing),
            output_files=(batch.results_url,) if batch.results_url and batch.archived_at is None else (),
            ended_at=None if batch.ended_at is None else batch.ended_at.astimezone(UTC),
        )


def _as_body(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Return the pieces of the body that creates a batch of some requests, one a request."""
    last, head = None, b'{"requests":['
    for line in lines:
        if last is not None:
            yield head + last
            head = b","
        last = line
    if last is not None:
        yield head + last + b"]}"
