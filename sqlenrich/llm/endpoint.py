"""The model behind an OpenAI-compatible endpoint: vLLM, a gateway, a vendor's API."""

from __future__ import annotations

import errno
import io
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import aiohttp
import orjson
from yarl import URL

from sqlenrich.errors import RunError, did_you_mean

from .messages import Answer, Request
from .model import Pulse
from .replies import (
    Completion,
    Fault,
    judge,
    load_json,
    one_line,
    read_completion,
    read_error,
    retry_after,
    storable,
)
from .settings import EndpointConfig, body_parts

__all__ = ["EndpointConfig", "EndpointModel"]

BACKOFF_S = 0.5
BACKOFF_CAP_S = 30.0
CONNECT_S = 10.0
PROBES = 3
PROBE_TRIES = 2
# Servers drop idle connections (vLLM after 5 s): a shorter life here avoids sending into a closed one.
KEEP_ALIVE_S = 4.0
_BIG_BODY = 1 << 20
_SHORTEST_SECRET = 4


@dataclass(frozen=True, slots=True)
class _Failure:
    """A try without a completion: its text, whose fault it is, the seconds that the endpoint asked to wait.

    ``unreachable``: no HTTP answer came. ``busy``: a limit was met, so somebody answers there.
    """

    text: str
    fault: Fault = Fault.AGAIN
    wait_s: float = 0.0
    unreachable: bool = False
    busy: bool = False


class EndpointModel:
    """A Model that posts one user message per request to ``url``/chat/completions.

    429, 5xx, connection troubles, timeouts and bodies that are no completion are sent again, at most
    ``max_tries`` times in all, after ``Retry-After`` (up to 60 s) and a random wait that grows (up to 30 s).
    An answer's ``asked_at`` and ``latency_ms`` are those of its last try.
    """

    def __init__(self, config: EndpointConfig) -> None:
        self.name = config.model
        self.config = config
        self.pulse = Pulse()
        url = URL(config.url)
        root = url.with_path(url.path.rstrip("/"))
        self._shown = str(root)
        self._url = (root / "chat/completions").with_query(url.query)
        self._models_url = (root / "models").with_query(url.query)
        self._before, self._after, self._sent = body_parts(config)
        self._session: aiohttp.ClientSession | None = None
        self._ever_answered = False

    def __repr__(self) -> str:
        return f"EndpointModel({self._shown!r}, model={self.name!r})"

    def body(self, prompt: str) -> bytes:
        """Give the exact bytes of the request for a prompt."""
        try:
            content = orjson.dumps(prompt)
        except TypeError:
            content = orjson.dumps(storable(prompt))
        return self._before + content[:-1] + self._after

    async def open(self) -> None:
        """Make the pool of connections; nothing is sent yet."""
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": "sqlenrich",
        }
        if self.config.api_key:
            headers["Authorization"] = f"Bearer {self.config.api_key}"
        limit_s = self.config.timeout_s
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(limit_s, CONNECT_S), sock_read=limit_s),
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def ask(self, request: Request) -> Answer:
        """Give the answer to one request. Raises RunError where every request would fail, or Stopped."""
        answer, _ = await self._ask(request, self.config.max_tries, probing=False)
        return answer

    async def probe(self, requests: Sequence[Request], answers: list[Answer], *, suspect: bool) -> None:
        """Ask up to three requests, one after another, until one is answered with HTTP 200.

        Raises RunError after two tries where nobody listens, and where all of them are refused or fail alike, but
        for ``suspect`` ones: those failed before.
        """
        faults = []
        for request in requests[:PROBES]:
            answer, fault = await self._ask(request, min(PROBE_TRIES, self.config.max_tries), probing=True)
            answers.append(answer)
            if fault is None:
                return
            faults.append(fault)
        if suspect:
            return
        if faults and set(faults) == {Fault.UNCLEAR}:
            raise RunError(f"{self._shown} refuses the requests: {answers[-1].call_error}")
        if faults and set(faults) == {Fault.AGAIN}:
            raise RunError(f"{self._shown} fails: {answers[-1].call_error}; look at the server, then run again")

    async def _ask(self, request: Request, tries: int, *, probing: bool) -> tuple[Answer, Fault | None]:
        body = self.body(request.prompt)
        calls = 0
        while True:
            asked_at = datetime.now(UTC)
            started = time.monotonic()
            self.pulse.sent(again=calls > 0)
            calls += 1
            result = await self._send(body)
            latency_ms = round((time.monotonic() - started) * 1000)
            if isinstance(result, Completion) or result.fault is not Fault.AGAIN:
                self.pulse.alive()
                break
            self.pulse.failed(started, result.text)
            if calls >= (self.config.max_tries if result.busy else tries):
                if probing and result.unreachable:
                    raise RunError(f"{self._shown}: {result.text}; start the server there or correct the url")
                break
            ceiling = min(BACKOFF_CAP_S, BACKOFF_S * 2.0 ** (calls - 1))
            await self.pulse.pause(result.wait_s + random.uniform(0.0, ceiling))
        done = result if isinstance(result, Completion) else Completion(None, None, None, None, None)
        failure = result if isinstance(result, _Failure) else None
        answer = Answer(
            request_hash=request.request_hash,
            attempt=request.attempt,
            sent_hash=request.sent_hash or request.request_hash,
            response=done.text,
            call_error=failure.text if failure else None,
            retryable=failure is not None and failure.fault is Fault.AGAIN,
            finish_reason=done.finish_reason,
            model=self.name,
            tokens_in=done.tokens_in,
            tokens_cached=done.tokens_cached,
            tokens_out=done.tokens_out,
            latency_ms=latency_ms,
            asked_at=asked_at,
            calls=calls,
        )
        return answer, failure.fault if failure else None

    async def _send(self, body: bytes) -> Completion | _Failure:
        if self._session is None:
            raise RuntimeError("the model is not open")
        # aiohttp warns of long bodies given as bytes.
        data = body if len(body) < _BIG_BODY else io.BytesIO(body)
        try:
            async with self._session.post(self._url, data=data, allow_redirects=False) as reply:
                raw = await reply.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return self._unreached(error)
        if reply.status == 200:
            try:
                completion = read_completion(raw)
            except ValueError as error:
                return _Failure(self._hide(one_line(str(error))))
            self._ever_answered = True
            return completion
        message, code, param = read_error(self._hide_bytes(raw))
        fault = judge(reply.status, message, code, param, self._sent)
        text = self._hide(one_line(f"HTTP {reply.status}: {message or reply.reason or 'no message'}"))
        if fault is Fault.AGAIN:
            wait_s = retry_after(reply.headers.get("Retry-After")) or 0.0
            return _Failure(text, wait_s=wait_s, busy=reply.status == 429)
        if fault is Fault.KEY:
            what = "refuses the key" if self.config.api_key else "wants a key"
            todo = "set the variable that api_key_env names, or OPENAI_API_KEY"
            raise RunError(f"{self._shown} {what} ({text}): {todo}")
        if fault is Fault.QUOTA:
            raise RunError(f"{self._shown}: the quota is used up ({text}): raise it, then run again")
        if fault is Fault.PLACE:
            raise RunError(await self._misplaced(reply.status, text))
        if fault is Fault.RUN and not self._ever_answered:
            raise RunError(f"{self._shown} refuses what every request sends: {text}")
        return _Failure(text, fault)

    def _unreached(self, error: Exception) -> _Failure:
        """Give the failure of a try without an HTTP answer. Raises RunError for what time does not heal."""
        if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
            text = one_line(str(error))
            todo = "correct the url (http or https) or the certificate"
            raise RunError(f"{self._shown}: TLS failed ({text}): {todo}") from None
        number = getattr(getattr(error, "os_error", error), "errno", None)
        if number in (errno.EMFILE, errno.ENFILE):
            todo = "lower concurrency, or raise `ulimit -n`"
            raise RunError(f"too many open files for that many connections: {todo}") from None
        if isinstance(error, aiohttp.ClientConnectorDNSError):
            text = "the host name can't be resolved"
        elif isinstance(error, aiohttp.ConnectionTimeoutError):
            text = "timeout: no connection"
        elif isinstance(error, TimeoutError):
            text = f"timeout: no byte for {self.config.timeout_s:g} s"
        elif number == errno.ECONNREFUSED:
            text = "connection refused: nothing listens there"
        elif isinstance(error, aiohttp.ClientPayloadError):
            text = "the answer broke off"
        elif isinstance(error, aiohttp.ClientResponseError):
            text = "the answer is not HTTP"
        elif isinstance(error, aiohttp.ServerDisconnectedError) or number == errno.ECONNRESET:
            text = "connection closed before the answer"
        else:
            text = self._hide(one_line(f"connection failed: {error or type(error).__name__}"))
        return _Failure(text, unreachable=True)

    async def _misplaced(self, status: int, text: str) -> str:
        """Give the line that says what is wrong with the url or the model's name."""
        if status != 404:
            return f"{self._shown} doesn't take requests ({text}): correct the url"
        names = await self._offered()
        if names and self.name not in names:
            shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
            near = did_you_mean(self.name, names)
            return f'{self._shown} has no model "{self.name}"{near}; set one that it offers: {shown}'
        todo = "correct the url (it usually ends in /v1) or the model's name"
        return f"{self._shown}/chat/completions: {text}; {todo}"

    async def _offered(self) -> list[str]:
        if self._session is None:
            return []
        try:
            timeout = aiohttp.ClientTimeout(total=CONNECT_S)
            async with self._session.get(self._models_url, timeout=timeout, allow_redirects=False) as reply:
                body = load_json(await reply.read())
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return []
        data = body.get("data") if isinstance(body, dict) else None
        found = [one.get("id") for one in data if isinstance(one, dict)] if isinstance(data, list) else []
        return [one_line(name)[:100] for name in found if isinstance(name, str)]

    def _hide(self, text: str) -> str:
        key = self.config.api_key
        return text.replace(key, "***") if key and len(key) >= _SHORTEST_SECRET else text

    def _hide_bytes(self, raw: bytes) -> bytes:
        key = self.config.api_key
        return raw.replace(key.encode(), b"***") if key and len(key) >= _SHORTEST_SECRET else raw
