"""Stand-ins of two vendors of batches on loopback: OpenAI's files and batches, Anthropic's message batches.

In tests it is a context manager; as a program: ``python tests/support/batch_vendors.py --port 18200``. Answers are
those of :class:`tests.support.endpoint.ScriptedEndpoint`: a function of the body alone, so that a batch and a live
request are answered alike. ``billed`` counts the requests that were answered, by their id. What goes wrong is
programmed by the fields of :class:`FakeVendors`.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import random
import signal
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.parser import BytesHeaderParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.endpoint import ScriptedEndpoint
from tests.support.tally import load

Complete = Callable[[dict[str, Any]], bytes]
BYTES_A_TOKEN = 4
FINISH = {"stop": "end_turn", "length": "max_tokens", "refusal": "refusal"}
COUNTED = {"answered": "succeeded", "failed": "errored", "expired": "expired", "cancelled": "canceled"}
OPENAI_COUNTED = {"answered": "completed", "failed": "failed", "expired": "failed"}
_DAY = timedelta(hours=24)


@dataclass
class StoredFile:
    """A file of OpenAI's."""

    id: str
    name: str
    content: bytes
    created_at: int
    purpose: str = "batch"

    def page(self) -> dict[str, Any]:
        return {
            "id": self.id, "object": "file", "bytes": len(self.content), "created_at": self.created_at,
            "filename": self.name, "purpose": self.purpose, "status": "processed",
        }  # fmt: skip


@dataclass
class StoredBatch:
    """A batch of either vendor; ``lines`` are its answers and ``errors`` its failures, once it has ended."""

    id: str
    requests: list[dict[str, Any]]
    created: datetime
    metadata: dict[str, str] | None = None
    input_file: str = ""
    page: str = ""
    window: str = "24h"
    status: str = "validating"
    polls: int = 0
    cancelling: datetime | None = None
    ended: datetime | None = None
    output_file: str | None = None
    error_file: str | None = None
    error: dict[str, Any] | None = None
    counts: Counter[str] = field(default_factory=Counter)
    results: list[bytes] = field(default_factory=list)
    results_gone: bool = False

    @property
    def open(self) -> bool:
        return self.ended is None


class FakeVendors:
    """Serves both vendors while it is entered, at ``openai_url`` and ``anthropic_url``.

    ``lose``: pages whose replies are lost after the vendor did what was asked, each once: ``upload``, ``create``,
    ``state``, ``content``, ``cancel``; ``drop``: pages that close the connection before anything is done. ``broken``:
    the replies that are cut in the middle. ``statuses``: page -> the answers (status, body) that come first, in order.
    ``hold``: batches stay open until ``end`` is called, or else end at poll number ``polls``. ``fail``, ``expire``,
    ``cancel``, ``vanish``: whether the request of an id fails, expires, is cancelled, or has no line in any file.
    ``foreign``: lines of other ids. ``shuffle``: the lines come in a random order. ``served``: the model that the
    answer to a number of a request names. ``enqueued``: the most tokens that wait. ``models``: those that there are,
    none for any. ``pages``: whether there are batches. ``keeps_metadata``: as copies of OpenAI may not.
    """

    def __init__(
        self,
        *,
        complete: Complete | None = None,
        key: str = "",
        hold: bool = False,
        polls: int = 1,
        lose: Iterable[str] = (),
        drop: Iterable[str] = (),
        broken: Iterable[str] = (),
        fail: Callable[[str], bool] = lambda _: False,
        expire: Callable[[str], bool] = lambda _: False,
        cancel: Callable[[str], bool] = lambda _: False,
        vanish: Callable[[str], bool] = lambda _: False,
        foreign: Iterable[str] = (),
        shuffle: bool = False,
        served: Callable[[int], str] | None = None,
        enqueued: int = 0,
        models: Iterable[str] = (),
        max_requests: int = 50_000,
        max_bytes: int = 200_000_000,
        page_size: int = 100,
        pages: bool = True,
        keeps_metadata: bool = True,
        failure: tuple[int, str, str] = (400, "invalid_value", "made up"),
        port: int = 0,
        seed: int = 0,
    ) -> None:
        self._scripted = ScriptedEndpoint()
        self.complete = complete or (lambda body: self._scripted.completion(body, ""))
        self.key, self.hold, self.polls = key, hold, polls
        self.lose, self.drop, self.broken = Counter(lose), Counter(drop), Counter(broken)
        self.fail, self.expire, self.cancel, self.vanish = fail, expire, cancel, vanish
        self.foreign, self.shuffle, self.served = tuple(foreign), shuffle, served
        self.enqueued, self.models = enqueued, frozenset(models)
        self.max_requests, self.max_bytes, self.page_size = max_requests, max_bytes, page_size
        self.pages, self.keeps_metadata, self.failure = pages, keeps_metadata, failure
        self.statuses: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        self.files: dict[str, StoredFile] = {}
        self.batches: dict[str, StoredBatch] = {}
        self.message_batches: dict[str, StoredBatch] = {}
        self.results_at = ""
        """Where the answers of message batches are, if not here."""
        self.billed: Counter[str] = Counter()
        self.asked: list[dict[str, Any]] = []
        """The bodies of live requests."""
        self.calls: Counter[str] = Counter()
        self.headers: list[dict[str, str]] = []
        self.sent: list[tuple[str, dict[str, Any]]] = []
        """The JSON bodies of the replies, each with its page."""
        self._random = random.Random(seed)
        self._numbers = itertools.count(1)
        self.lock = threading.RLock()
        self._server = _Server(("127.0.0.1", port), self)
        self._thread = threading.Thread(target=self._server.serve_forever, name="vendors", daemon=True)

    @property
    def port(self) -> int:
        """The port of both vendors."""
        return int(self._server.server_port)

    @property
    def openai_url(self) -> str:
        """What a client of OpenAI is told."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def anthropic_url(self) -> str:
        """What a client of Anthropic is told."""
        return f"http://127.0.0.1:{self.port}/anthropic"

    def __enter__(self) -> FakeVendors:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._scripted.loop.close()

    def id(self, kind: str) -> str:
        """Return a new id."""
        return f"{kind}_{next(self._numbers):06}"

    def all_batches(self) -> list[StoredBatch]:
        """Return the batches of both vendors, in the order of their creation."""
        return sorted((*self.batches.values(), *self.message_batches.values()), key=lambda batch: batch.id[-6:])

    def end(self, batch: StoredBatch | None = None, *, as_: str = "") -> None:
        """End a batch, or all that are open; ``as_``: ``expired`` or ``cancelled``, before any request is asked."""
        with self.lock:
            for one in self.all_batches() if batch is None else [batch]:
                if one.open:
                    _end(self, one, as_)

    def delete_files(self) -> None:
        """Delete all files, and the results of message batches."""
        with self.lock:
            self.files.clear()
            for batch in self.message_batches.values():
                batch.results_gone = True

    def store(self, name: str, content: bytes, purpose: str = "batch") -> str:
        """Store a file and return its id."""
        file = StoredFile(self.id("file"), name, content, int(time.time()), purpose)
        self.files[file.id] = file
        return file.id


def _outcome(fake: FakeVendors, custom_id: str, as_: str) -> str:
    tests = {"failed": fake.fail, "expired": fake.expire, "cancelled": fake.cancel}
    return next((name for name, test in tests.items() if test(custom_id)), as_ or "answered")


def _end(fake: FakeVendors, batch: StoredBatch, as_: str) -> None:
    """Answer the requests of a batch."""
    openai = batch.id in fake.batches
    answers: list[bytes] = []
    errors: list[bytes] = []
    for number, request in enumerate(batch.requests, 1):
        custom_id = request["custom_id"]
        outcome = _outcome(fake, custom_id, as_)
        if outcome == "answered":
            fake.billed[custom_id] += 1
        batch.counts[outcome] += 1
        if fake.vanish(custom_id):
            continue
        line = (_openai_line if openai else _anthropic_line)(fake, request, outcome, number)
        (answers if outcome == "answered" else errors).append(orjson.dumps(line))
    for custom_id in fake.foreign:
        request = {**batch.requests[0], "custom_id": custom_id}
        answers.append(orjson.dumps((_openai_line if openai else _anthropic_line)(fake, request, "answered", 0)))
    if not openai:
        answers, errors = [*answers, *errors], []
    if fake.shuffle:
        fake._random.shuffle(answers)
        fake._random.shuffle(errors)
    if openai:
        batch.output_file = _file_of(fake, batch, answers, "output")
        batch.error_file = _file_of(fake, batch, errors, "error")
    batch.results = answers
    batch.ended = datetime.now(UTC)
    batch.status = as_ or "completed"


def _file_of(fake: FakeVendors, batch: StoredBatch, lines: list[bytes], kind: str) -> str | None:
    content = b"".join(line + b"\n" for line in lines)
    return fake.store(f"{batch.id}_{kind}.jsonl", content, "batch_output") if lines else None


def _openai_line(fake: FakeVendors, request: dict[str, Any], outcome: str, number: int) -> dict[str, Any]:
    line: dict[str, Any] = {"id": f"batch_req_{number}", "custom_id": request["custom_id"]}
    if outcome == "answered":
        body = load(fake.complete(request["body"]))
        if fake.served is not None:
            body["model"] = fake.served(number)
        return line | {"response": {"status_code": 200, "request_id": f"req_{number}", "body": body}, "error": None}
    if outcome == "failed":
        status, code, message = fake.failure
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
        response = {"status_code": status, "request_id": f"req_{number}", "body": {"error": error}}
        return line | {"response": response, "error": None}
    message = "This request could not be executed before the completion window expired."
    return line | {"response": None, "error": {"code": f"batch_{outcome}", "message": message}}


def _anthropic_line(fake: FakeVendors, request: dict[str, Any], outcome: str, number: int) -> dict[str, Any]:
    line: dict[str, Any] = {"custom_id": request["custom_id"]}
    if outcome == "answered":
        message = as_message(load(fake.complete(as_chat(request["params"]))))
        if fake.served is not None:
            message["model"] = fake.served(number)
        return line | {"result": {"type": "succeeded", "message": message}}
    if outcome == "failed":
        status, _, text = fake.failure
        kind = {400: "invalid_request_error", 404: "not_found_error", 429: "rate_limit_error"}.get(status, "api_error")
        error = {"type": "error", "request_id": f"req_{number}", "error": {"type": kind, "message": text}}
        return line | {"result": {"type": "errored", "error": error}}
    return line | {"result": {"type": COUNTED[outcome]}}


def as_chat(params: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a chat completion that asks what the parameters of a message ask."""
    body = {name: value for name, value in params.items() if name not in ("system", "output_config")}
    form = (params.get("output_config") or {}).get("format")
    if form is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "o", "schema": form["schema"]}}
    system = [{"role": "system", "content": params["system"]}] if "system" in params else []
    return body | {"messages": [*system, *params["messages"]]}


def as_message(completion: dict[str, Any]) -> dict[str, Any]:
    """Return the message that says what a chat completion says."""
    choice, usage = completion["choices"][0], completion["usage"]
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    text = choice["message"]["content"]
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": completion["model"],
        "content": [] if text is None else [{"type": "text", "text": text}],
        "stop_reason": FINISH[choice["finish_reason"]], "stop_sequence": None,
        "usage": {
            "input_tokens": usage["prompt_tokens"] - cached, "output_tokens": usage["completion_tokens"],
            "cache_read_input_tokens": cached, "cache_creation_input_tokens": 0, "service_tier": "batch",
        },
    }  # fmt: skip


def openai_page(fake: FakeVendors, batch: StoredBatch) -> dict[str, Any]:
    """Return a batch as OpenAI tells of it."""
    seconds = None if batch.ended is None else int(batch.ended.timestamp())
    counts = {"total": len(batch.requests), "completed": 0, "failed": 0}
    for outcome, count in batch.counts.items():
        if outcome in OPENAI_COUNTED:
            counts[OPENAI_COUNTED[outcome]] += count
    if batch.status in ("validating", "failed"):
        counts["total"] = 0
    status = "cancelling" if batch.cancelling is not None and batch.open else batch.status
    return {
        "id": batch.id, "object": "batch", "endpoint": batch.page, "input_file_id": batch.input_file,
        "completion_window": batch.window, "status": status, "created_at": int(batch.created.timestamp()),
        "errors": None if batch.error is None else {"object": "list", "data": [batch.error]},
        "output_file_id": batch.output_file, "error_file_id": batch.error_file,
        "completed_at": seconds if batch.status == "completed" else None,
        "expired_at": seconds if batch.status == "expired" else None,
        "cancelled_at": seconds if batch.status == "cancelled" else None,
        "failed_at": seconds if batch.status == "failed" else None,
        "cancelling_at": None if batch.cancelling is None else int(batch.cancelling.timestamp()),
        "expires_at": int((batch.created + _DAY).timestamp()), "request_counts": counts,
        "metadata": batch.metadata if fake.keeps_metadata else None,
    }  # fmt: skip


def anthropic_page(fake: FakeVendors, batch: StoredBatch) -> dict[str, Any]:
    """Return a batch as Anthropic tells of it."""
    counts = dict.fromkeys((*COUNTED.values(), "processing"), 0)
    for outcome, count in batch.counts.items():
        counts[COUNTED[outcome]] += count
    counts["processing"] = len(batch.requests) if batch.open else 0
    status = "ended" if not batch.open else "in_progress" if batch.cancelling is None else "canceling"
    own = f"http://127.0.0.1:{fake.port}/anthropic/v1/messages/batches/{batch.id}/results"
    return {
        "id": batch.id, "type": "message_batch", "processing_status": status, "request_counts": counts,
        "created_at": batch.created.isoformat(), "expires_at": (batch.created + _DAY).isoformat(),
        "ended_at": None if batch.ended is None else batch.ended.isoformat(),
        "cancel_initiated_at": None if batch.cancelling is None else batch.cancelling.isoformat(),
        "archived_at": datetime.now(UTC).isoformat() if batch.results_gone else None,
        "results_url": None if batch.open or batch.results_gone else fake.results_at or own,
    }  # fmt: skip


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], fake: FakeVendors) -> None:
        self.fake = fake
        super().__init__(address, _Handler)


class _RefusalError(Exception):
    """An answer with another status than 200."""

    def __init__(self, status: int, message: str, code: str = "", kind: str = "invalid_request_error") -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.kind = status, message, code, kind


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        fake = self.server.fake
        body = self.rfile.read(int(self.headers["content-length"] or 0))
        url = urlsplit(self.path)
        anthropic, parts = url.path.startswith("/anthropic/"), url.path.strip("/").split("/")
        parts = parts[4 if anthropic else 1 :]  # what follows /anthropic/v1/messages/batches, or /v1
        page = _page_name(self.command, parts, anthropic=anthropic)
        with fake.lock:
            fake.calls[page] += 1
            fake.headers.append({name.lower(): value for name, value in self.headers.items()})
            if self._once(fake.drop, page):
                self._close()
                return
            if fake.statuses.get(page):
                status, reply = fake.statuses[page].pop(0)
                self._reply(status, orjson.dumps(reply))
                return
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            try:
                self._check_key(fake)
                if page == "live":
                    fake.asked.append(orjson.loads(body))
                    self._reply(200, fake.complete(fake.asked[-1]))
                    return
                if not fake.pages:
                    raise _RefusalError(404, "Not Found")
                answer = (_anthropic if anthropic else _openai)(fake, page, parts, query, body, self.headers)
            except _RefusalError as refused:
                error: dict[str, Any] = {"type": refused.kind, "message": refused.message}
                if not anthropic:
                    error |= {"code": refused.code or None, "param": None}
                self._reply(refused.status, orjson.dumps({"type": "error", "error": error}))
                return
            if self._once(fake.lose, page):
                self._close()
                return
            raw = answer if isinstance(answer, bytes) else orjson.dumps(answer)
            if not isinstance(answer, bytes):
                fake.sent.append((page, answer))
            cut = self._once(fake.broken, page)
        self._reply(200, raw, len(raw) // 2 if cut else None)

    def _check_key(self, fake: FakeVendors) -> None:
        given = self.headers["x-api-key"] or (self.headers["authorization"] or "").removeprefix("Bearer ")
        if fake.key and given != fake.key:
            raise _RefusalError(401, f"Incorrect API key provided: {given}", "invalid_api_key", "authentication_error")

    def _once(self, counts: Counter[str], page: str) -> bool:
        counts[page] -= 1
        return counts[page] >= 0

    def _reply(self, status: int, raw: bytes, upto: int | None = None) -> None:
        with contextlib.suppress(OSError):
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw[:upto])
            if upto is not None:
                self._close()

    def _close(self) -> None:
        """Reset the connection."""
        self.close_connection = True
        self.wfile.flush()
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.shutdown(socket.SHUT_RDWR)


def _page_name(method: str, parts: list[str], *, anthropic: bool) -> str:
    if parts[:1] in (["chat"], ["embeddings"]) and method == "POST":
        return "live"
    tail = parts[0 if anthropic else 1 :]
    if not anthropic and parts[:1] == ["files"]:
        if not tail:
            return "upload" if method == "POST" else "files"
        return "content" if tail[-1] == "content" else "file"
    if not tail:
        return "create" if method == "POST" else "list"
    return {"cancel": "cancel", "results": "content"}.get(tail[-1], "state")


def _openai(
    fake: FakeVendors, page: str, parts: list[str], query: dict[str, str], body: bytes, headers: Any
) -> bytes | dict[str, Any]:
    if page == "upload":
        fields = _multipart(headers["content-type"], body)
        content, name = fields["file"]
        if len(content) > fake.max_bytes:
            raise _RefusalError(413, f"File is too large: the maximum is {fake.max_bytes} bytes", "file_too_large")
        return fake.files[fake.store(name, content, fields["purpose"][0].decode())].page()
    if page == "files":
        files = [one.page() for one in fake.files.values() if query.get("purpose") in (None, one.purpose)]
        return {"object": "list", "data": files[::-1], "has_more": False}
    if page in ("content", "file"):
        file = fake.files.get(parts[1])
        if file is None:
            raise _RefusalError(404, f"No such File object: {parts[1]}")
        return file.content if page == "content" else file.page()
    if page == "create":
        return openai_page(fake, _created(fake, load(body)))
    if page == "list":
        return _listed(fake, list(fake.batches.values()), query, "after", openai_page)
    batch = _known(fake.batches, parts[1])
    return openai_page(fake, _moved(fake, batch, page))


def _anthropic(
    fake: FakeVendors, page: str, parts: list[str], query: dict[str, str], body: bytes, headers: Any
) -> bytes | dict[str, Any]:
    if page == "create":
        if len(body) > fake.max_bytes:
            raise _RefusalError(413, "Request exceeds the maximum size", kind="request_too_large")
        requests = load(body)["requests"]
        if len(requests) > fake.max_requests:
            raise _RefusalError(400, f"requests: at most {fake.max_requests} are permitted: the batch is too large")
        if waiting_tokens(fake) + len(body) // BYTES_A_TOKEN > fake.enqueued > 0:
            message = "This would exceed the processing queue of batch requests"
            raise _RefusalError(429, message, kind="rate_limit_error")
        batch = StoredBatch(fake.id("msgbatch"), requests, datetime.now(UTC), status="in_progress")
        if fake.models and any(one["params"]["model"] not in fake.models for one in requests):
            raise _RefusalError(404, f"model: {requests[0]['params']['model']}", kind="not_found_error")
        fake.message_batches[batch.id] = batch
        return anthropic_page(fake, batch)
    if page == "list":
        return _listed(fake, list(fake.message_batches.values()), query, "after_id", anthropic_page)
    batch = _known(fake.message_batches, parts[0])
    if page == "content":
        if batch.results_gone:
            raise _RefusalError(404, "The results of this batch are gone", kind="not_found_error")
        return b"".join(line + b"\n" for line in batch.results)
    return anthropic_page(fake, _moved(fake, batch, page))


def _known(batches: dict[str, StoredBatch], vendor_id: str) -> StoredBatch:
    if vendor_id not in batches:
        raise _RefusalError(404, f"No batch found with id '{vendor_id}'.", kind="not_found_error")
    return batches[vendor_id]


def _moved(fake: FakeVendors, batch: StoredBatch, page: str) -> StoredBatch:
    """Return a batch after one more poll, or after it was asked to end."""
    if page == "cancel" and batch.open:
        batch.cancelling = datetime.now(UTC)
        return batch
    if batch.open:
        batch.polls += 1
        batch.status = "in_progress"
        if batch.cancelling is not None:
            _end(fake, batch, "cancelled")
        elif not fake.hold and batch.polls >= fake.polls:
            _end(fake, batch, "")
    return batch


def waiting_tokens(fake: FakeVendors) -> int:
    """Return the tokens of the batches that are open."""
    return sum(len(orjson.dumps(batch.requests)) for batch in fake.all_batches() if batch.open) // BYTES_A_TOKEN


def _created(fake: FakeVendors, asked: dict[str, Any]) -> StoredBatch:
    file = fake.files.get(asked["input_file_id"])
    if file is None:
        raise _RefusalError(400, f"No such File object: {asked['input_file_id']}", "invalid_request")
    requests = [load(line) for line in file.content.splitlines()]
    waiting = waiting_tokens(fake)
    batch = StoredBatch(
        fake.id("batch"), requests, datetime.now(UTC), asked.get("metadata"), file.id, asked["endpoint"],
        asked["completion_window"],
    )  # fmt: skip
    fake.batches[batch.id] = batch
    models = {request["body"]["model"] for request in requests}
    problem: tuple[str, str] | None = None
    if len(requests) > fake.max_requests:
        problem = ("too_many_tasks", f"The number of requests exceeds the maximum of {fake.max_requests}.")
    elif any(request["url"] != asked["endpoint"] for request in requests):
        problem = ("url_mismatch", "The URL of a line is not the endpoint of the batch.")
    elif len({request["custom_id"] for request in requests}) < len(requests):
        problem = ("duplicate_custom_id", "A custom_id is there twice.")
    elif fake.models and not models <= fake.models:
        name = min(models - fake.models)
        problem = ("model_not_found", f"The provided model '{name}' is not supported by the Batch API.")
    elif waiting + len(file.content) // BYTES_A_TOKEN > fake.enqueued > 0:
        problem = (
            "token_limit_exceeded",
            f"Enqueued token limit reached for mock in organization org-1. Limit: {fake.enqueued:,} enqueued tokens. "
            "Please try again once some in_progress batches have been completed.",
        )
    if problem is not None:
        batch.status, batch.ended = "failed", datetime.now(UTC)
        batch.error = {"code": problem[0], "message": problem[1], "line": None, "param": None}
    return batch


def _listed(
    fake: FakeVendors,
    batches: list[StoredBatch],
    query: dict[str, str],
    cursor: str,
    page: Callable[[FakeVendors, StoredBatch], dict[str, Any]],
) -> dict[str, Any]:
    newest = sorted(batches, key=lambda batch: batch.id, reverse=True)
    if (after := query.get(cursor)) is not None:
        newest = [batch for batch in newest if batch.id < after]
    size = min(int(query.get("limit", 20)), fake.page_size)
    shown = [page(fake, batch) for batch in newest[:size]]
    ends = {"first_id": shown[0]["id"] if shown else None, "last_id": shown[-1]["id"] if shown else None}
    return {"object": "list", "data": shown, "has_more": len(newest) > size, **ends}


def _multipart(kind: str, body: bytes) -> dict[str, tuple[bytes, str]]:
    """Return the fields of a form: name -> content and the file's name."""
    fields = {}
    mark = b"--" + kind.partition("boundary=")[2].strip('"').encode()
    for part in _between(body, mark):
        end = part.index(b"\r\n\r\n")
        header = BytesHeaderParser().parsebytes(part[:end].lstrip(b"\r\n") + b"\r\n\r\n")
        name = str(header.get_param("name", header="content-disposition"))
        file_name = str(header.get_param("filename", "", "content-disposition"))
        fields[name] = (part[end + 4 : -2], file_name)
    return fields


def _between(body: bytes, mark: bytes) -> Iterator[bytes]:
    begin = body.index(mark) + len(mark)
    while (end := body.find(mark, begin)) >= 0:
        yield body[begin:end]
        begin = end + len(mark)


def main() -> None:
    """Serve until interrupted, as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="0, the default: any free one, which is printed")
    parser.add_argument("--hold", action="store_true", help="batches never end")
    parser.add_argument("--polls", type=int, default=1, metavar="N", help="batches end when asked so often")
    parser.add_argument("--content", metavar="TEXT", help="the text of each answer; else one that fits the schema")
    parser.add_argument("--content-file", type=Path, metavar="FILE", help="the same, from a file")
    given = parser.parse_args()
    content = given.content if given.content_file is None else given.content_file.read_text()
    answer = {
        "id": "c", "object": "chat.completion", "created": 0, "model": "mock",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }  # fmt: skip
    raw = json.dumps(answer).encode()
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    fake = FakeVendors(
        complete=None if content is None else lambda _: raw, hold=given.hold, polls=given.polls, port=given.port
    )
    with fake:
        sys.stdout.write(f"listening {fake.openai_url} {fake.anthropic_url}\n")
        sys.stdout.flush()
        ended.wait()


if __name__ == "__main__":
    main()
