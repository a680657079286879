"""The model behind an endpoint: vLLM, a gateway, a vendor's API."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from sqlenrich.core import runtime
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import RunError
from sqlenrich.llm.endpoint.adaptations import RequestChange
from sqlenrich.llm.endpoint.canary import Canary
from sqlenrich.llm.endpoint.connections import Connections, MakeTransport, http_pool
from sqlenrich.llm.endpoint.endpoint_warnings import EndpointWarnings
from sqlenrich.llm.endpoint.failure import Failure
from sqlenrich.llm.endpoint.failure_reader import FailureReader
from sqlenrich.llm.endpoint.http import HttpError
from sqlenrich.llm.endpoint.policy import EndpointPolicy
from sqlenrich.llm.endpoint.reply import Reply
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.endpoint.response import BatchCompletion, Completion, Fault, request_id
from sqlenrich.llm.endpoint.wire.forms import Body, models_page, named_page, new_body
from sqlenrich.llm.health import OUTAGE_S, EndpointHealth, Stopped
from sqlenrich.llm.messages import Answer, AnsweredRequest, Request
from sqlenrich.llm.model import Traits
from sqlenrich.llm.throttle.budget import Budget
from sqlenrich.llm.throttle.endpoint_state import EndpointState, Permit
from sqlenrich.llm.throttle.limiter import RateLimiter
from sqlenrich.llm.throttle.rate_headers import read_quotas

REVIVED_POLL_S = 0.1


class EndpointModel:
    """A Model that posts one user message per request to the page of the endpoint's wire form.

    429, 5xx, failed connections, timeouts and bodies without a completion are tried again, at most ``max_tries`` times
    (refusals for a limit count apart; the third timeout is the last), after ``Retry-After`` (up to 60 s; another URL
    may answer before) and a random wait that grows (up to 5 s, and to 30 s during an outage). With several URLs, each
    request goes to the one with the lowest load. A URL that cannot be reached gets no request until it answers a probe.
    A URL that refuses every request (wrong key, no such model) gets none any more. ``limiter`` decides when a request
    is sent. ``asked_at`` and ``latency_ms`` of an answer are those of its last try.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        config: RequestConfig,
        *,
        budget: Budget | None = None,
        limiter: RateLimiter | None = None,
        policy: EndpointPolicy | None = None,
        transport: MakeTransport | None = None,
    ) -> None:
        self.policy = policy = policy or EndpointPolicy()
        self.name = config.model
        self.endpoint = endpoint
        self.config = config
        self.health = EndpointHealth(policy.health)
        self._body = self.new_body()
        self._connections = Connections(
            endpoint,
            named_page(self._body.page, self.name),
            models_page(endpoint, self.name),
            transport or partial(http_pool, unsent=self.health.unsent),
        )
        self.endpoint_urls = self._connections.urls
        self.limiter = limiter or RateLimiter(
            len(self.endpoint_urls),
            endpoint.limits,
            max_out=config.max_out,
            nearest_room=endpoint.nearest_room,
            budget=budget,
        )
        self._notices = EndpointWarnings([url.shown for url in self.endpoint_urls], down_every_s=policy.warning_every_s)
        self._canary = Canary(
            self._connections,
            self.health,
            self._body.read,
            timeout_s=endpoint.timeout,
            max_out=self.limiter.policy.output_tokens if config.max_out is None else config.max_out,
            limiter=self.limiter,
            policy=policy.canary,
        )
        self._failures = FailureReader(self._connections, self.name, self._body, self._canary, policy.refusals)
        self._timeouts: dict[str, int] = {}
        self._unanswered: set[str] = set()
        self._reviving: dict[asyncio.Task[None], None] = {}

    def __repr__(self) -> str:
        return f"EndpointModel({', '.join(url.shown for url in self.endpoint_urls)!r}, model={self.name!r})"

    @property
    def traits(self) -> Traits:
        """What the client uses of it."""
        return Traits(
            limiter=self.limiter,
            health=self.health,
            timeout_s=self.endpoint.timeout,
            warnings=self._notices.lines,
            probe=self.probe,
            canary_answers=self.canary_answers,
            answers_again=self.answers_again,
        )

    def body(self, prompt: str) -> bytes:
        """Return the exact bytes of the request for a prompt."""
        return self._body.of((prompt,))

    def new_body(self) -> Body:
        """Return the writer of bodies."""
        return new_body(self.endpoint, self.config)

    @property
    def changes(self) -> tuple[RequestChange, ...]:
        """What requests have otherwise since the endpoint refused something."""
        return tuple(self._body.changes)

    def warn(self, text: str) -> None:
        """Add a warning of the first URL."""
        self._notices.add(0, text)

    async def open(self) -> None:
        """Make the pool of connections; nothing is sent yet."""
        endpoint = self.endpoint
        self._connections.open()
        self._canary.open()
        self.limiter.max_out = self.config.max_out  # several models may share one limiter, each with its own value
        self.limiter.on_down = self._down
        notices, fixed = self._notices, self.limiter.fixed is not None
        self.limiter.on_quota_found = lambda state, *found: notices.quota_found(state.number, *found)
        self.limiter.on_quota_estimated = lambda state, found: notices.quota_estimated(
            state.number, found, endpoint.rpm, fixed=fixed
        )
        self.limiter.mark_all_up()

    async def close(self) -> None:
        """Close all connections."""
        for task in tuple(self._reviving):
            task.cancel()
        await self._connections.close()

    async def ask(self, request: Request) -> Answer:
        """Return the answer to one request. Raises RunError where every request would fail, or Stopped."""
        reply = await self._post(request.request_hash, (request.prompt,), self.config.max_tries, probing=False)
        return self._answers((request,), reply)[0]

    async def canary_answers(self) -> bool:
        """Whether one of the endpoints answers now; rows that fail after that are at fault themselves.

        Where nothing was ever answered and many requests failed, the list of models proves nothing.
        """
        known = any(self._canary.knows(number) for number in range(len(self.endpoint_urls)))
        if not known and len(self._unanswered) >= self.policy.unanswered:
            return False
        return await self._canary.any_answers()

    def set_canary(self, request: AnsweredRequest) -> None:
        """Take a request that the model has answered elsewhere as the canary of all its endpoints."""
        for number in range(len(self.endpoint_urls)):
            self._canary.answered(number, self.body(request.prompt), (request.latency_ms or 0) / 1000)

    async def answers_again(self, request: AnsweredRequest) -> bool:
        """Whether one of the endpoints answers a request of an earlier run."""
        return await self._canary.answers_again(self.body(request.prompt), (request.latency_ms or 0) / 1000)

    async def probe(self, requests: Sequence[Request], answers: list[Answer]) -> None:
        """Ask one request after another until one is answered with HTTP 200.

        Three requests that fail end it, unless they fail fast: then a few more are asked, because any one of them may
        be at fault itself. Once one has timed out at each URL, the others are tried once: timeouts are long. Raises
        RunError where nobody listens, and where all of them fail and either there are three or the list of models fails
        as well. Without requests it asks for the list of models alone.
        """
        policy, began = self.policy, runtime.monotonic()
        replies: list[Reply] = []
        for request in requests:
            if len(replies) >= policy.probes and runtime.monotonic() - began > policy.more_probes_s:
                break
            if replies and not await self._comes_up():
                break
            silent = any(isinstance(reply.result, Failure) and reply.result.timeout for reply in replies)
            tries = 1 if silent else max(min(policy.probe_tries, self.config.max_tries), len(self.endpoint_urls))
            reply = await self._post(request.request_hash, (request.prompt,), tries, probing=True)
            replies.append(reply)
            answers += self._answers((request,), reply)
            if not isinstance(reply.result, Failure):
                return
        failures = [reply.result for reply in replies if isinstance(reply.result, Failure)]
        if any(failure.fault is Fault.ROW for failure in failures):
            return
        if len(failures) < policy.probes and (not failures or await self._canary.any_answers()):
            if not failures:
                await self._reach()
            return
        last, shown = failures[-1], replies[-1].shown
        if last.suspected:
            raise RunError(last.suspected)
        if last.unreachable:
            raise RunError(f"{shown}: {last.text}; start the server there or correct the url")
        if last.fault is Fault.UNCLEAR:
            raise RunError(f"{shown} refuses the requests: {last.text}")
        raise RunError(f"{shown} fails: {last.text}; look at the server, then run again")

    @property
    def _any_up(self) -> bool:
        """Whether a URL can be reached, as far as is known."""
        return any(endpoint.up for endpoint in self.limiter.endpoints)

    async def _comes_up(self) -> bool:
        """Wait a while for a URL that can be reached; give whether there is one."""
        until = runtime.monotonic() + self.policy.revived_within_s
        while not self._any_up and runtime.monotonic() < until:
            await asyncio.sleep(REVIVED_POLL_S)
        return self._any_up

    async def _reach(self) -> None:
        """Raise RunError where no endpoint answers the question for its models."""
        failure = Failure("")
        for number in range(len(self.endpoint_urls)):
            try:
                await self._connections.models(number, self.policy.refusals.page_timeout_s)
            except (HttpError, OSError) as error:
                failure = self._failures.no_response(number, error)
            else:
                return
        shown = self.endpoint_urls[number].shown
        raise RunError(failure.disables or f"{shown}: {failure.text}; start the server there or correct the url")

    def _answers(self, requests: Sequence[Request], reply: Reply) -> list[Answer]:
        """Return the answers of the requests that one reply answers."""
        assert not isinstance(reply.result, BatchCompletion)
        return [self._answer(request, reply.result, reply, reply.calls) for request in requests]

    async def _post(self, name: str, prompts: Sequence[str], tries: int, *, probing: bool) -> Reply:
        """Send prompts with one another, after as many tries as it takes."""
        body, known = self._body.of(prompts), len(self._body.changes)
        limiter, policy = self.limiter, self.policy
        size = len(body)
        calls = failures = refusals = 0
        began = runtime.monotonic()
        while True:
            if probing and calls and not await self._comes_up():
                break  # nothing would end the wait for a permit
            permit = limiter.try_acquire(size) or await limiter.acquire(size, again=calls > 0)
            url = self.endpoint_urls[permit.endpoint.number]
            if known != len(self._body.changes):  # while this one waited: the time tells the form of each request
                body, known = self._body.of(prompts), len(self._body.changes)
            asked_at = runtime.now()
            started = runtime.monotonic()
            self.health.sent(again=calls > 0)
            calls += 1
            try:
                result, sent_id = await self._send(name, body, permit, len(prompts))
            except BaseException as error:
                limiter.release(permit, begun=not isinstance(error, Stopped))
                raise
            latency_ms = round((runtime.monotonic() - started) * 1000)
            if not isinstance(result, Failure):
                limiter.answered(permit, result.tokens_in, result.tokens_out, result.tokens_cached)
                self.health.succeeded()
                if result.tokens_in is not None:
                    self._notices.count_tokens(permit.endpoint.number, prompts, result.tokens_in)
                break
            if result.change:
                first = known == len(self._body.changes)
                if self._body.change(result.change, known):
                    if first:
                        self._notices.add(permit.endpoint.number, self._body.change_text(result.text))
                    limiter.release(permit)
                    body, known = self._body.of(prompts), len(self._body.changes)
                    continue
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
            if len(self._unanswered) < policy.unanswered:
                self._unanswered.update(prompts)
            # Once the endpoint is known to work, a request that fails again is at fault itself.
            at_fault = (self.health.canary_answered_since(began) and calls > 1) or result.final
            elsewhere = False
            if result.busy:
                refusals += 1
                limiter.refused(permit, result.wait_s)
                if probing:
                    exhausted = refusals >= self.config.max_tries and self.health.down_s() >= policy.busy_s
                else:
                    exhausted = at_fault or refusals >= self.config.max_refusals
            else:
                failures += 1
                limiter.failed(permit, unreachable=result.unreachable, timeout=result.timeout, begun=result.begun)
                everywhere = probing and failures >= len(self.endpoint_urls)
                exhausted = at_fault or failures >= tries or (everywhere and result.suspected != "")
                if result.timeout:
                    exhausted = (result.begun and self._count_timeout(name)) or exhausted or everywhere
                elsewhere = self._elsewhere(permit.endpoint, result)
                if not (exhausted or probing or elsewhere or self.health.spend_retry()):
                    # During an outage rows fail ever more slowly.
                    delay_s = random.uniform(0.0, max(policy.backoff_s, self.health.down_s() / 4))
                    await self.health.pause(delay_s, fails=True)
                    exhausted = True
            if exhausted:
                if probing and result.unreachable and not result.begun:
                    raise RunError(f"{url.shown}: {result.text}; start the server there or correct the url")
                break
            limiter.check_budget()
            wait_s = 0.0 if self._another(permit.endpoint) else result.wait_s
            await self.health.pause(wait_s + (0.0 if elsewhere else self._backoff(calls - 1)))
        spent = self._timeouts.get(name, 0) >= policy.timeouts
        return Reply(result, sent_id, url.shown, calls, began, asked_at, latency_ms, spent)

    def _answer(self, request: Request, result: Completion | Failure, reply: Reply, calls: int) -> Answer:
        done = result if isinstance(result, Completion) else Completion(None, None, None, None, None)
        failure = result if isinstance(result, Failure) else None
        sent_id = reply.request_id
        return Answer(
            request_hash=request.request_hash,
            attempt=request.attempt,
            sent_hash=request.sent_hash or request.request_hash,
            response=done.text,
            call_error=failure.text + (f" (request {sent_id})" if sent_id else "") if failure else None,
            retryable=failure is not None and failure.fault is Fault.TRANSIENT and not reply.spent,
            finish_reason=done.finish_reason,
            model=self.name,
            tokens_in=done.tokens_in,
            tokens_cached=done.tokens_cached,
            tokens_out=done.tokens_out,
            latency_ms=reply.latency_ms,
            asked_at=reply.asked_at,
            calls=calls,
            request_id=sent_id,
            served_model=done.model,
            served_fingerprint=done.fingerprint,
        )

    def _count_timeout(self, name: str) -> bool:
        """Count a timeout of a request that was sent; give whether it was its last try: each may have to be paid."""
        count = self._timeouts.get(name, 0) + 1
        self._timeouts[name] = count
        return count >= self.policy.timeouts

    def _backoff(self, doublings: int) -> float:
        """Return a random wait up to a ceiling that doubles: full jitter spreads the retries."""
        policy = self.policy
        outage = self.health.down_s() > OUTAGE_S
        most = policy.largest_backoff_s if outage else policy.largest_backoff_answering_s
        return random.uniform(0.0, min(most, policy.backoff_s * 2.0 ** min(doublings, 16)))

    def _elsewhere(self, endpoint: EndpointState, failure: Failure) -> bool:
        """Whether a request that failed at an endpoint goes to another one now."""
        return failure.unreachable and not endpoint.up and any(other.up for other in self.limiter.endpoints)

    def _another(self, endpoint: EndpointState) -> bool:
        """Whether another endpoint than this one takes requests now."""
        now = runtime.monotonic()
        return any(other.up and other.blocked_s(now) <= 0 for other in self.limiter.endpoints if other is not endpoint)

    def _disable(self, endpoint: EndpointState, why: str, *, probing: bool) -> bool:
        """Send nothing more to an endpoint, unless it is the last one; give whether it is.

        During a run an endpoint that is down may come back, so it counts as another one; a probe does not wait for it.
        """
        others = [other for other in self.limiter.endpoints if other is not endpoint and not other.disabled]
        last = not any(other.up or not probing for other in others)
        if not (last or endpoint.disabled):
            self.limiter.disable(endpoint)
            self._notices.disabled(why)
        return last

    def _down(self, endpoint: EndpointState) -> None:
        told = self._notices.down(endpoint.number, self.health.last_failure)
        task = asyncio.get_running_loop().create_task(self._revive(endpoint, told=told))
        self._reviving[task] = None
        task.add_done_callback(self._reviving.pop)

    async def _revive(self, endpoint: EndpointState, *, told: bool) -> None:
        """Probe an endpoint that is down until it answers, ever less often."""
        tries, revive_s = max(endpoint.rests - 1, 0), self.policy.revive_s
        while self._connections.is_open and not endpoint.disabled:
            began = runtime.monotonic()
            await asyncio.sleep(revive_s[min(tries, len(revive_s) - 1)] * random.uniform(0.5, 1.0))
            tries += 1
            try:
                response = await self._connections.models(endpoint.number, self.policy.refusals.page_timeout_s)
            except Stopped:
                return
            except (HttpError, OSError) as error:
                with suppress(RunError):
                    failure = self._failures.no_response(endpoint.number, error)
                    # Requests in flight may be answered after their endpoint stopped listening.
                    if not self._any_up:
                        self.health.failed(began, failure.text)
                continue
            # Any response shows that the endpoint listens; only a request shows whether it takes requests.
            self.limiter.mark_up(endpoint)
            if told and response.status < 500:
                self._notices.add(endpoint.number, "answers again")
            return

    async def _send(
        self, name: str, body: bytes, permit: Permit, texts: int
    ) -> tuple[Completion | BatchCompletion | Failure, str | None]:
        """Return what came of one try of a request with so many texts, and the endpoint's name of it."""
        if not self._connections.is_open:
            raise RuntimeError("the model is not open")
        number = permit.endpoint.number
        started = runtime.monotonic()
        try:
            response = await self._connections.post(number, body)
        except (HttpError, OSError) as error:
            return self._failures.no_response(number, error), None
        sent_id = request_id(response.headers)
        self.limiter.observe_headers(permit, read_quotas(response.headers), complete=response.status == 200)
        if response.status != 200:
            latency_s = permit.endpoint.latency_s or 0.0
            return await self._failures.refusal(number, response, name, latency_s), sent_id
        try:
            completion = self._body.read(response.body)
        except ValueError:
            return self._failures.no_completion(response.body), sent_id
        if isinstance(completion, BatchCompletion) and len(completion.texts) != texts:
            return Failure(f"the answer has {len(completion.texts)} answers for {texts} texts", begun=True), sent_id
        self._connections.accepted()
        self._failures.answered(number, started)
        self._canary.answered(number, body, runtime.monotonic() - started)
        return completion, sent_id
