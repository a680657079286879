"""The model behind an OpenAI-compatible endpoint: vLLM, a gateway, a vendor's API."""

from __future__ import annotations

import asyncio
import errno
import random
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlsplit

import orjson

from sqlenrich.core.errors import RunError, did_you_mean
from sqlenrich.llm.endpoint.api_key import resolve_key
from sqlenrich.llm.endpoint.config import EndpointConfig, body_parts
from sqlenrich.llm.endpoint.failure import Failure, RefusalCounter, unreached_text
from sqlenrich.llm.endpoint.http import HttpConnectError, HttpError, HttpPool, HttpResponse, HttpTimeoutError
from sqlenrich.llm.endpoint.response import (
    Completion,
    Fault,
    classify_status,
    load_json,
    one_line,
    read_completion,
    read_error,
    retry_after,
    storable,
)
from sqlenrich.llm.endpoint.truncation import TruncationDetector
from sqlenrich.llm.endpoint.urls import EndpointUrl, Secrets
from sqlenrich.llm.health import OUTAGE_S, EndpointHealth, HealthPolicy
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.llm.throttle.budget import Budget
from sqlenrich.llm.throttle.endpoint_state import EndpointState, Permit
from sqlenrich.llm.throttle.limiter import RateLimiter
from sqlenrich.llm.throttle.quota import QuotaFinding
from sqlenrich.llm.throttle.rate_headers import read_quotas

__all__ = ["EndpointConfig", "EndpointModel", "EndpointPolicy"]

BUSY = frozenset({429, 503})
"""The statuses of a limit that was met."""


@dataclass(frozen=True)
class EndpointPolicy:
    """When requests are tried again, and when an endpoint is given up. Times are in seconds."""

    backoff_s: float = 0.5
    """The longest wait before the first retry; it doubles with each further one."""
    largest_backoff_s: float = 30.0
    """The longest wait during an outage."""
    largest_backoff_answering_s: float = 5.0
    """The longest wait while other requests are answered."""
    probes: int = 3
    """Requests that a probe sends at most."""
    probe_tries: int = 2
    """Tries of each of them."""
    busy_s: float = 65.0
    """A probe that meets a limit waits this long: until a minute that others used up is over."""
    page_timeout_s: float = 10.0
    """The timeout of ``/models``."""
    revive_s: tuple[float, ...] = (0.0, 0.25, 0.5, 1.0, 2.0, 5.0)
    """The waits between the probes of an endpoint that is down; the last one repeats."""
    warning_every_s: float = 60.0
    """An endpoint that is down again gives no further warning within this time."""
    alike: int = 100
    """An endpoint is given up after this many refusals in a row with the same text, ..."""
    disabled_alike: int = 5
    """... or, if it answered before, after this many for its key or its URL, ..."""
    alike_s: float = 3.0
    """... where they last this long and the time of two answers."""
    health: HealthPolicy = field(default_factory=HealthPolicy)


class EndpointModel:
    """A Model that posts one user message per request to ``url``/chat/completions.

    429, 5xx, failed connections, timeouts and bodies without a completion are tried again, at most ``max_tries`` times
    (refusals for a limit count apart), after ``Retry-After`` (up to 60 s; another URL may answer before) and a random
    wait that grows (up to 5 s, and to 30 s during an outage). With several URLs, each request goes to the one with the
    lowest load. A URL that cannot be reached gets no request until it answers a probe. A URL that refuses every request
    (wrong key, no such model) gets none any more. ``limiter`` decides when a request is sent. ``asked_at`` and
    ``latency_ms`` of an answer are those of its last try.
    """

    def __init__(
        self,
        config: EndpointConfig,
        *,
        budget: Budget | None = None,
        limiter: RateLimiter | None = None,
        policy: EndpointPolicy | None = None,
    ) -> None:
        self.policy = policy = policy or EndpointPolicy()
        self.name = config.model
        self.config = config
        self.timeout_s = config.timeout_s
        self.health = EndpointHealth(policy.health)
        self.endpoint_urls = tuple(EndpointUrl.of(url) for url in config.urls)
        self.limiter = limiter or RateLimiter(
            len(self.endpoint_urls), config.limits, max_out=config.max_out, budget=budget
        )
        self.warnings: list[str] = []
        self._before, self._after, self._sent = body_parts(config)
        self._pools: tuple[HttpPool, ...] = ()
        self._answered: set[int] = set()
        self._refusals = tuple(RefusalCounter(policy.alike_s) for _ in self.endpoint_urls)
        self._reviving: set[asyncio.Task[None]] = set()
        self._truncation = TruncationDetector()
        self._warned_at: dict[str, float] = {}
        self._secrets = Secrets(None, config.urls)
        self._has_key = False

    def __repr__(self) -> str:
        return f"EndpointModel({', '.join(url.shown for url in self.endpoint_urls)!r}, model={self.name!r})"

    def body(self, prompt: str) -> bytes:
        """Give the exact bytes of the request for a prompt."""
        try:
            content = orjson.dumps(prompt)
        except TypeError:
            content = orjson.dumps(storable(prompt))
        return self._before + content[:-1] + self._after

    async def open(self) -> None:
        """Make the pool of connections; nothing is sent yet."""
        headers = {"content-type": "application/json", "accept": "application/json", "user-agent": "sqlenrich"}
        key = resolve_key(self.config.api_key)
        self._secrets, self._has_key = Secrets(key, self.config.urls), key is not None
        if key is not None:
            headers["authorization"] = f"Bearer {key}"
        self._pools = tuple(
            HttpPool(urlsplit(url.url), headers, timeout_s=self.config.timeout_s) for url in self.endpoint_urls
        )
        self.limiter.max_out = self.config.max_out  # several models may share one limiter, each with its own value
        self.limiter.on_down = self._down
        self.limiter.on_quota_found = self._warn_of_quota
        self.limiter.on_quota_estimated = self._warn_of_estimate
        self.limiter.mark_all_up()

    async def close(self) -> None:
        """Close all connections."""
        for task in self._reviving:
            task.cancel()
        pools, self._pools = self._pools, ()
        for wire in pools:
            await wire.close()

    async def ask(self, request: Request) -> Answer:
        """Give the answer to one request. Raises RunError where every request would fail, or Stopped."""
        return (await self._ask(request, self.config.max_tries, probing=False))[0]

    async def probe(self, requests: Sequence[Request], answers: list[Answer], *, suspect: bool) -> None:
        """Ask up to three requests, one after another, until one is answered with HTTP 200.

        Raises RunError after two tries where nobody listens, and where all of them are refused or fail alike, but
        for ``suspect`` ones: those failed before.
        """
        faults = []
        for request in requests[: self.policy.probes]:
            tries = max(min(self.policy.probe_tries, self.config.max_tries), len(self.endpoint_urls))
            answer, fault, shown = await self._ask(request, tries, probing=True)
            answers.append(answer)
            if fault is None:
                return
            faults.append(fault)
        if suspect:
            return
        if faults and set(faults) == {Fault.UNCLEAR}:
            raise RunError(f"{shown} refuses the requests: {answers[-1].call_error}")
        if faults and set(faults) == {Fault.TRANSIENT}:
            raise RunError(f"{shown} fails: {answers[-1].call_error}; look at the server, then run again")

    async def _ask(self, request: Request, tries: int, *, probing: bool) -> tuple[Answer, Fault | None, str]:
        """Give the answer, the fault where it has one, and the endpoint of the last try."""
        body = self.body(request.prompt)
        limiter = self.limiter
        size = len(body)
        calls = failures = refusals = 0
        while True:
            permit = limiter.try_acquire(size) or await limiter.acquire(size, again=calls > 0)
            url = self.endpoint_urls[permit.endpoint.number]
            asked_at = datetime.now(UTC)
            started = time.monotonic()
            self.health.sent(again=calls > 0)
            calls += 1
            try:
                result = await self._send(body, permit)
            except BaseException:
                limiter.release(permit, begun=True)
                raise
            latency_ms = round((time.monotonic() - started) * 1000)
            if isinstance(result, Completion):
                limiter.answered(permit, result.tokens_in, result.tokens_out, result.tokens_cached)
                self.health.succeeded()
                if result.tokens_in is not None:
                    self._compare(request.prompt, result.tokens_in, url)
                break
            if result.disables:
                last = self._disable(permit.endpoint, result.disables, probing=probing)
                limiter.release(permit)
                if last:
                    raise RunError(result.disables)
                continue
            if result.fault is not Fault.TRANSIENT:
                limiter.answered(permit, 0, 0)
                self.health.succeeded()
                break
            self.health.failed(started, result.text)
            elsewhere = False
            if result.busy:
                refusals += 1
                limiter.refused(permit, result.wait_s)
                if probing:
                    exhausted = refusals >= self.config.max_tries and self.health.down_s() >= self.policy.busy_s
                else:
                    exhausted = refusals >= self.config.max_refusals
            else:
                failures += 1
                limiter.failed(permit, unreachable=result.unreachable, timeout=result.timeout, begun=result.begun)
                exhausted = failures >= tries
                elsewhere = self._elsewhere(permit.endpoint, result)
                if not (exhausted or probing or elsewhere or self.health.spend_retry()):
                    # During an outage rows fail ever more slowly.
                    await self.health.pause(random.uniform(0.0, max(self.policy.backoff_s, self.health.down_s() / 4)))
                    exhausted = True
            if exhausted:
                if probing and result.unreachable:
                    raise RunError(f"{url.shown}: {result.text}; start the server there or correct the url")
                break
            wait_s = 0.0 if self._another(permit.endpoint) else result.wait_s
            await self.health.pause(wait_s + (0.0 if elsewhere else self._backoff(calls - 1)))
        done = result if isinstance(result, Completion) else Completion(None, None, None, None, None)
        failure = result if isinstance(result, Failure) else None
        answer = Answer(
            request_hash=request.request_hash,
            attempt=request.attempt,
            sent_hash=request.sent_hash or request.request_hash,
            response=done.text,
            call_error=failure.text if failure else None,
            retryable=failure is not None and failure.fault is Fault.TRANSIENT,
            finish_reason=done.finish_reason,
            model=self.name,
            tokens_in=done.tokens_in,
            tokens_cached=done.tokens_cached,
            tokens_out=done.tokens_out,
            latency_ms=latency_ms,
            asked_at=asked_at,
            calls=calls,
        )
        return answer, failure.fault if failure else None, url.shown

    def _backoff(self, doublings: int) -> float:
        """Give a random wait up to a ceiling that doubles: full jitter spreads the retries."""
        policy = self.policy
        outage = self.health.down_s() > OUTAGE_S
        most = policy.largest_backoff_s if outage else policy.largest_backoff_answering_s
        return random.uniform(0.0, min(most, policy.backoff_s * 2.0 ** min(doublings, 16)))

    def _elsewhere(self, endpoint: EndpointState, failure: Failure) -> bool:
        """Whether a request that failed at an endpoint goes to another one now."""
        return failure.unreachable and not endpoint.up and any(other.up for other in self.limiter.endpoints)

    def _another(self, endpoint: EndpointState) -> bool:
        """Whether another endpoint than this one takes requests now."""
        now = time.monotonic()
        return any(other.up and other.blocked_s(now) <= 0 for other in self.limiter.endpoints if other is not endpoint)

    def _compare(self, prompt: str, tokens_in: int, url: EndpointUrl) -> None:
        """Warn once of an endpoint that truncates prompts."""
        if (ours := self._truncation.observe(prompt, tokens_in)) is not None:
            self.warnings.append(
                f"warning: {url.shown} counts {tokens_in:,} tokens for a prompt of about {ours:,}; it seems "
                "to cut long prompts without a word (Ollama: num_ctx); raise its context, or set max_input_tokens"
            )

    def _disable(self, endpoint: EndpointState, why: str, *, probing: bool) -> bool:
        """Send nothing more to an endpoint, unless it is the last one; give whether it is.

        During a run an endpoint that is down may come back, so it counts as another one; a probe does not wait for it.
        """
        others = [other for other in self.limiter.endpoints if other is not endpoint and not other.disabled]
        last = not any(other.up or not probing for other in others)
        if not (last or endpoint.disabled):
            self.limiter.disable(endpoint)
            self.warnings.append(f"warning: {why}; this run goes on without it")
        return last

    def _warn_of_quota(self, endpoint: EndpointState, setting: str, a_minute: int) -> None:
        what = "requests" if setting == "rpm" else f"{setting.removesuffix('tpm').replace('_', ' ')}tokens"
        todo = "" if len(self.endpoint_urls) > 1 else f"; {setting} = {a_minute} in its settings begins there"
        self.warnings.append(
            f"{self.endpoint_urls[endpoint.number].shown} allows about {a_minute:,} {what} a minute{todo}"
        )

    def _warn_of_estimate(self, endpoint: EndpointState, finding: QuotaFinding) -> None:
        fixed = self.limiter.fixed is not None
        line = finding.to_text(self.config.limits.rpm, alone=len(self.endpoint_urls) == 1, fixed=fixed)
        self.warnings.append(f"{self.endpoint_urls[endpoint.number].shown} {line}")

    def _down(self, endpoint: EndpointState) -> None:
        url = self.endpoint_urls[endpoint.number]
        warned = (
            len(self.endpoint_urls) > 1
            and time.monotonic() - self._warned_at.get(url.shown, float("-inf")) > self.policy.warning_every_s
        )
        if warned:
            self._warned_at[url.shown] = time.monotonic()
            self.warnings.append(
                f"{url.shown} can't be reached ({self.health.last_failure}): its requests go elsewhere"
            )
        task = asyncio.get_running_loop().create_task(self._revive(endpoint, warned=warned))
        self._reviving.add(task)
        task.add_done_callback(self._reviving.discard)

    async def _revive(self, endpoint: EndpointState, *, warned: bool) -> None:
        """Probe an endpoint that is down until it answers, ever less often."""
        url = self.endpoint_urls[endpoint.number]
        tries, revive_s = max(endpoint.rests - 1, 0), self.policy.revive_s
        while self._pools and not endpoint.disabled:
            began = time.monotonic()
            await asyncio.sleep(revive_s[min(tries, len(revive_s) - 1)] * random.uniform(0.5, 1.0))
            tries += 1
            try:
                response = await self._pools[endpoint.number].send(
                    "GET", url.models, timeout_s=self.policy.page_timeout_s
                )
            except (HttpError, OSError) as error:
                with suppress(RunError):
                    failure = self._unreached(endpoint.number, error)
                    # What was in stream may be answered after its endpoint disabled to others.
                    if not any(other.up for other in self.limiter.endpoints):
                        self.health.failed(began, failure.text)
                continue
            # Any response shows that the endpoint listens; only a request shows whether it takes requests.
            self.limiter.mark_up(endpoint)
            if warned and response.status < 500:
                self.warnings.append(f"{url.shown} answers again")
            return

    async def _send(self, body: bytes, permit: Permit) -> Completion | Failure:
        if not self._pools:
            raise RuntimeError("the model is not open")
        number = permit.endpoint.number
        url = self.endpoint_urls[number]
        try:
            response = await self._pools[number].send("POST", url.chat, body)
        except (HttpError, OSError) as error:
            return self._unreached(number, error)
        self.limiter.observe_headers(permit, read_quotas(response.headers), complete=response.status == 200)
        if response.status != 200:
            return await self._read_refusal(url, number, response)
        try:
            completion = read_completion(response.body)
        except ValueError:
            return Failure(self._unreadable(response.body), begun=True)
        self._answered.add(number)
        self._refusals[number].reset()
        return completion

    def _unreadable(self, raw: bytes) -> str:
        """Say why a body is no completion. It is read again without secrets: the text shows a part of it."""
        try:
            read_completion(self._secrets.hide_bytes(raw))
        except ValueError as error:
            return self._secrets.hide(one_line(str(error)))
        return "the answer is not JSON"

    async def _read_refusal(self, url: EndpointUrl, number: int, response: HttpResponse) -> Failure:
        """Give the failure that an HTTP status other than 200 stands for."""
        message, code, param = read_error(self._secrets.hide_bytes(response.body))
        wait_s = retry_after(response.headers.get("retry-after"), message)
        fault = classify_status(response.status, message, code, param, self._sent, waits=wait_s is not None)
        text = self._secrets.hide(one_line(f"HTTP {response.status}: {message or response.reason or 'no message'}"))
        latency_s = self.limiter.endpoints[number].latency_s or 0.0
        in_a_row = self._refusals[number].add(fault, text, latency_s, time.monotonic())
        passing = fault is Fault.URL or (fault is Fault.KEY and response.status == 403)
        if passing and number in self._answered and in_a_row < self.policy.disabled_alike:
            fault = Fault.TRANSIENT  # a firewall refuses some texts, and a page may be missing for a moment
        if fault is Fault.TRANSIENT:
            return Failure(text, wait_s=wait_s or 0.0, busy=response.status in BUSY)
        if fault is Fault.KEY:
            what = "refuses the key" if self._has_key else "wants a key"
            todo = "set the variable that api_key_env names, or OPENAI_API_KEY"
            return Failure(text, fault, disables=f"{url.shown} {what} ({text}): {todo}")
        if fault is Fault.QUOTA:
            return Failure(
                text, fault, disables=f"{url.shown}: the quota is used up ({text}): raise it, then run again"
            )
        if fault is Fault.URL:
            return Failure(text, fault, disables=await self._wrong_url(number, response.status, text))
        if fault is Fault.RUN and number not in self._answered:
            return Failure(text, fault, disables=f"{url.shown} refuses what every request sends: {text}")
        if in_a_row >= self.policy.alike:
            return Failure(text, fault, disables=f"{url.shown} refused {in_a_row} requests in a row alike: {text}")
        return Failure(text, fault)

    def _unreached(self, number: int, error: Exception) -> Failure:
        """Give the failure of a try without an HTTP response. Raises RunError where this machine is the cause."""
        if isinstance(error, ssl.SSLCertVerificationError) or (
            isinstance(error, ssl.SSLError) and number not in self._answered
        ):
            todo = "correct the url (http or https) or the certificate"
            text = self._secrets.hide(one_line(str(error)))
            return Failure(text, disables=f"{self.endpoint_urls[number].shown}: TLS failed ({text}): {todo}")
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            todo = "lower concurrency, or raise `ulimit -n`"
            raise RunError(f"too many open files for that many connections: {todo}") from None
        text = self._secrets.hide(one_line(unreached_text(error)))
        begun = isinstance(error, HttpError) and not isinstance(error, HttpConnectError)
        return Failure(text, unreachable=True, timeout=isinstance(error, HttpTimeoutError), begun=begun)

    async def _wrong_url(self, number: int, status: int, text: str) -> str:
        """Say what is wrong with the URL or the model's name."""
        url = self.endpoint_urls[number]
        if status != 404:
            return f"{url.shown} doesn't take requests ({text}): correct the url"
        names = await self._model_names(number)
        if names and self.name not in names:
            shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
            near = did_you_mean(self.name, names)
            return f'{url.shown} has no model "{self.name}"{near}; set one that it offers: {shown}'
        todo = "correct the url (it usually ends in /v1) or the model's name"
        return f"{url.shown}/chat/completions: {text}; {todo}"

    async def _get_models(self, number: int) -> HttpResponse:
        models = self.endpoint_urls[number].models
        return await self._pools[number].send("GET", models, timeout_s=self.policy.page_timeout_s)

    async def _model_names(self, number: int) -> list[str]:
        try:
            response = await self._pools[number].send(
                "GET", self.endpoint_urls[number].models, timeout_s=self.policy.page_timeout_s
            )
            body = load_json(response.body)
        except (HttpError, OSError, ValueError, RecursionError):
            return []
        data = body.get("data") if isinstance(body, dict) else None
        found = [one.get("id") for one in data if isinstance(one, dict)] if isinstance(data, list) else []
        return [one_line(name)[:100] for name in found if isinstance(name, str)]
