"""Requests that are passed on as they came, under the limits, retries and keys of an endpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.gateway.pages import PAGES, Page
from sqlenrich.llm.endpoint.adaptations import RequestChange
from sqlenrich.llm.endpoint.connections import http_pool
from sqlenrich.llm.endpoint.failure import Failure
from sqlenrich.llm.endpoint.failure_reader import BUSY
from sqlenrich.llm.endpoint.http import HttpError, HttpResponse, Transport
from sqlenrich.llm.endpoint.model import EndpointModel
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.endpoint.response import (
    Completion,
    Fault,
    classify_status,
    one_line,
    read_error,
    request_id,
    retry_wait,
)
from sqlenrich.llm.endpoint.route import Route
from sqlenrich.llm.throttle.endpoint_state import Permit
from sqlenrich.llm.throttle.limiter import RateLimiter
from sqlenrich.llm.throttle.rate_headers import read_quotas

LARGEST_BODY = 1 << 28
"""The bytes of an answer: 2,048 vectors of 3,072 numbers take some 130 MB."""


class PassedBody:
    """The bytes of a caller, unchanged."""

    fields: frozenset[str] = frozenset()

    def __init__(self, page: Page) -> None:
        self.page = page.path
        self.read = page.read
        self.changes: list[RequestChange] = []

    def of(self, prompts: Sequence[str]) -> bytes:
        """Return the body of one request."""
        (body,) = prompts
        return body.encode()

    def change(self, _name: str, _known: int) -> bool:
        """Change nothing: the caller sees each refusal."""
        return False

    def change_for(self, _message: str, _param: str) -> str:
        """Return no change."""
        return ""

    def refused_field(self, _message: str, _param: str) -> str:
        """Return no field."""
        return ""

    def change_text(self, refusal: str) -> str:
        """Return the refusal."""
        return refusal


class PassingModel(EndpointModel):
    """Passes on the requests of one page. A refusal is its request's alone: no other caller sent the same."""

    def __init__(
        self, endpoint: Endpoint, page: Page, limiter: RateLimiter | None, on_sent: Callable[[str], None]
    ) -> None:
        self._page, self._on_sent = page, on_sent
        super().__init__(endpoint, RequestConfig("gateway"), limiter=limiter, transport=large_pool)
        self.refusals: dict[str, HttpResponse] = {}
        """The last response to each request that was not answered, until it is taken."""

    def new_body(self) -> PassedBody:
        """Return what writes the bodies."""
        return PassedBody(self._page)

    def new_warnings(self) -> Sequence[str]:
        """Return the warnings that were not given before."""
        if not self._notices.lines:
            return ()
        lines = [*self._notices.lines]
        self._notices.lines.clear()
        return lines

    async def models_page(self) -> HttpResponse:
        """Return the list of models of the first URL."""
        return await self._connections.models(0, self.endpoint.timeout)

    async def pass_on(self, raw: bytes) -> HttpResponse:
        """Return the response to a body as it is; it is sent once, within the limits. Raises Stopped."""
        permit = await self.limiter.acquire(len(raw))
        try:
            response = await self._connections.post(permit.endpoint.number, raw)
        except BaseException:
            self.limiter.release(permit, begun=True)
            raise
        self.limiter.answered(permit)
        return response

    def hide(self, raw: bytes) -> bytes:
        """Return bytes without the endpoint's secrets."""
        return self._connections.secrets.hide_bytes(raw)

    async def _send(
        self,
        name: str,
        body: bytes,
        permit: Permit,
        texts: int,  # noqa: ARG002
    ) -> tuple[Completion | Failure, str | None]:
        number = permit.endpoint.number
        self._on_sent(name)
        self.refusals.pop(name, None)
        try:
            response = await self._connections.post(number, body)
        except (HttpError, OSError) as error:
            # What would end a run, such as a certificate that expired, is over once it is mended.
            return replace(self._failures.no_response(number, error), disables=""), None
        sent_id = request_id(response.headers)
        self.limiter.observe_headers(permit, read_quotas(response.headers), complete=response.status == 200)
        if response.status != 200:
            self.refusals[name] = response
            return self._refusal(response), sent_id
        try:
            found = self._page.read(response.body)
        except ValueError as error:
            return Failure(one_line(str(self.hide(str(error).encode()).decode())), begun=True), sent_id
        self._connections.accepted()
        return found, sent_id

    def _refusal(self, response: HttpResponse) -> Failure:
        """Return the failure of a status other than 200: what may pass is tried again, all else is the caller's."""
        message, code, param = read_error(self.hide(response.body))
        wait_s = retry_wait(response.headers, message)
        fault = classify_status(response.status, message, code, param, (), waits=wait_s is not None)
        text = one_line(f"HTTP {response.status}: {message or response.reason or 'no message'}")
        if fault is Fault.TRANSIENT:
            final = response.headers.get("x-should-retry") == "false"
            return Failure(text, wait_s=wait_s or 0.0, busy=response.status in BUSY, final=final)
        return Failure(text, Fault.ROW)


def large_pool(route: Route, headers: Mapping[str, str], timeout_s: float) -> Transport:
    """Return the Transport of a gateway, which takes large answers."""
    pool = http_pool(route, headers, timeout_s)
    pool.largest_body = LARGEST_BODY  # type: ignore[attr-defined]
    return pool


def passing_models(endpoint: Endpoint, on_sent: Callable[[str], None]) -> dict[str, PassingModel]:
    """Return the model of each page. They share one rate limiter. Callers write OpenAI's bodies, for any endpoint."""
    endpoint = replace(endpoint, api="openai")
    models: dict[str, PassingModel] = {}
    limiter: RateLimiter | None = None
    for path, page in PAGES.items():
        models[path] = PassingModel(endpoint, page, limiter, on_sent)
        limiter = models[path].limiter
    return models
