"""What a gateway does with a request: it finds the answer, joins an equal request, or asks and keeps the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any, NamedTuple

import orjson

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.gateway.answer_store import AnswerStore, NewAnswer, StoredAnswer
from sqlenrich.gateway.counts import FIXED, GatewayCounts, GatewayPolicy
from sqlenrich.gateway.pages import Page
from sqlenrich.gateway.request import Caching, GatewayRequest, UnreadableError, read_request
from sqlenrich.gateway.spending import Spending, SpentError
from sqlenrich.gateway.upstream import PassingModel, passing_models
from sqlenrich.llm.endpoint.http import HttpError, HttpResponse
from sqlenrich.llm.health import Stopped
from sqlenrich.llm.messages import Answer, Request

JSON, EVENTS = b"application/json", b"text/event-stream"
PASSED_HEADERS = ("retry-after", "retry-after-ms", "x-request-id", "x-should-retry")
"""The headers of a refusal that its caller gets."""
HIT, MISS, JOINED, BYPASS = b"hit", b"miss", b"joined", b"bypass"


class Reply(NamedTuple):
    """An HTTP response to a caller."""

    status: int
    body: bytes
    headers: Sequence[tuple[bytes, bytes]] = ()
    content_type: bytes = JSON


@dataclass
class _Flight:
    """A request that is being asked, and how many callers wait for it."""

    name: str
    hashed: str
    request: GatewayRequest
    done: asyncio.Future[StoredAnswer | Reply]
    began: float
    callers: int = 0
    sent: bool = False
    left_out: str = "the request was not sent in time"
    """What its callers are told if it is left out."""
    task: asyncio.Task[None] | None = None


class Exchange:
    """Answers the requests of callers, in one event loop. ``open`` before the first one, ``close`` after the last."""

    def __init__(
        self,
        store: AnswerStore,
        endpoint: Endpoint,
        spending: Spending,
        *,
        reuse: str,
        policy: GatewayPolicy,
        note: Callable[[str], None],
    ) -> None:
        self.store, self.endpoint, self.spending = store, endpoint, spending
        self.policy, self.reuse, self.note = policy, reuse, note
        self.counts = GatewayCounts()
        self.models = passing_models(endpoint, self._sent)
        self.stopping = False
        self._flights: dict[str, _Flight] = {}
        """The requests in flight that equal ones may join, by their hashes."""
        self._named: dict[str, _Flight] = {}
        """All requests in flight."""
        self._numbers = count(1)
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._disk = ThreadPoolExecutor(1, "sqlenrich-journal")
        self._unstored: list[tuple[NewAnswer, asyncio.Future[StoredAnswer]]] = []
        self._storing = False
        self._full_until = 0.0

    @property
    def _any(self) -> PassingModel:
        return next(iter(self.models.values()))

    @property
    def in_flight(self) -> int:
        """The requests that are being asked, or wait to be."""
        return len(self._named)

    async def open(self) -> None:
        """Open the connections. Raises ConfigError for a key or a route that can't be used."""
        for model in self.models.values():
            await model.open()
            model.health.start()
        self._any.limiter.begin()
        self._start(self._watch_outage())

    async def close(self) -> None:
        """Wait for what is in flight, at most the grace, and close the connections. Nothing is begun any more."""
        self.stopping = True
        self._any.limiter.stop()  # what waits for a permit is not sent
        tasks = [flight.task for flight in self._named.values() if flight.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=self.policy.grace_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._any.limiter.end()
        for model in self.models.values():
            await model.close()
        self._disk.shutdown()

    async def _watch_outage(self) -> None:
        """Leave out what waits for long for an endpoint that is down: its callers decide what to do."""
        loop, limiter = asyncio.get_running_loop(), self._any.limiter
        reached_at = loop.time()
        while True:
            await asyncio.sleep(self.policy.check_s)
            if any(one.up for one in limiter.endpoints):
                reached_at = loop.time()
                continue
            failure = next((one.health.last_failure for one in self.models.values() if one.health.last_failure), "")
            for flight in self._named.values():
                if loop.time() - max(flight.began, reached_at) >= self.policy.outage_s and flight.task is not None:
                    flight.left_out = f"the endpoint is down ({failure})"
                    flight.task.cancel()

    def abandon(self) -> None:
        """Leave out all requests in flight."""
        for flight in self._named.values():
            if flight.task is not None:
                flight.task.cancel()

    async def models_page(self) -> Reply:
        """Return the endpoint's list of models."""
        try:
            return self._passed(await self._any.models_page())
        except (HttpError, OSError) as error:
            return refused(502, f"the endpoint can't be reached: {error}", "upstream_error")

    async def answer(
        self, page: Page, raw: bytes, headers: Mapping[str, str], gone: Callable[[], Awaitable[None]]
    ) -> Reply:
        """Return the response to a request. ``gone`` returns once its caller has left."""
        self.counts.requests += 1
        reply = await self._answer(page, raw, headers, gone)
        if reply.status != 200:
            self.counts.failed += 1
        return reply

    async def _answer(
        self, page: Page, raw: bytes, headers: Mapping[str, str], gone: Callable[[], Awaitable[None]]
    ) -> Reply:
        try:
            caching = Caching.of(headers)
            request = read_request(page, raw, self.endpoint.extra_body)
        except ConfigError as error:
            return refused(400, str(error), "invalid_request_error")
        except UnreadableError as error:
            return await self._pass_on(page, raw, str(error))
        if request.background:
            return await self._pass_on(page, raw, "a response in the background is fetched later")
        hashed = self.store.hash_of(request, caching.sample)
        anew = caching.no_cache or caching.no_store or (self.reuse == FIXED and not request.fixed)
        if not anew and (found := self.store.find(hashed)) is not None and _is_fresh(found, caching):
            self.counts.hits += 1
            return self._told(request, found, HIT)
        if caching.only_stored:
            return refused(504, "no answer to this request is stored (Cache-Control: only-if-cached)", "not_stored")
        if self.stopping:
            return refused(503, "the gateway is stopping", "stopping")
        if asyncio.get_running_loop().time() < self._full_until:
            return refused(507, f"the folder of {self.store.path} takes no more answers: free space there", "disk_full")
        flight = None if anew else self._flights.get(hashed)
        how = BYPASS if caching.no_store else MISS if flight is None else JOINED
        self.counts.joined += how is JOINED
        if flight is None:
            flight = self._begin(hashed, request, caching, alone=anew)
        found_or_reply = await self._wait(flight, gone)
        if isinstance(found_or_reply, Reply):
            return found_or_reply
        return self._told(request, found_or_reply, how)

    async def _wait(self, flight: _Flight, gone: Callable[[], Awaitable[None]]) -> StoredAnswer | Reply:
        """Wait for a request's answer; without its last caller it is left out unless it was sent."""
        flight.callers += 1
        timer = asyncio.get_running_loop().call_later(self.policy.watch_s, self._watch, flight, gone)
        try:
            return await asyncio.shield(flight.done)
        finally:
            timer.cancel()

    def _watch(self, flight: _Flight, gone: Callable[[], Awaitable[None]]) -> None:
        """Look for the end of a caller that waits for long."""
        task = self._start(self._leave(flight, gone))
        flight.done.add_done_callback(lambda _: task.cancel())

    async def _leave(self, flight: _Flight, gone: Callable[[], Awaitable[None]]) -> None:
        await gone()
        flight.callers -= 1
        if flight.callers == 0 and not flight.sent and flight.task is not None:
            self._close(flight)
            flight.task.cancel()

    def _begin(self, hashed: str, request: GatewayRequest, caching: Caching, *, alone: bool) -> _Flight:
        name = f"{hashed} {next(self._numbers)}"
        loop = asyncio.get_running_loop()
        flight = _Flight(name, hashed, request, loop.create_future(), loop.time())
        if not self._named:
            self._any.health.busy()
        self._named[name] = flight
        if not alone:
            self._flights[hashed] = flight
        flight.task = self._start(self._fly(flight, caching))
        return flight

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    async def _fly(self, flight: _Flight, caching: Caching) -> None:
        """Ask a request and settle what its callers wait for, whatever happens."""
        loop = asyncio.get_running_loop()
        late = loop.call_later(self.policy.queue_s, self._give_up, flight)
        result: StoredAnswer | Reply | None = None
        try:
            result = await self._ask(flight, caching)
        except SpentError as error:
            result = refused(402, str(error), "max_cost")
        except Stopped:
            result = refused(503, "the gateway is stopping", "stopping")
        except RunError as error:
            result = refused(503, str(error), "upstream_error")
        finally:
            late.cancel()
            self._named.pop(flight.name, None)
            self._close(flight)
            if not self._named:
                self._any.health.idle()
            if not flight.done.done():
                flight.done.set_result(result or refused(503, flight.left_out, "overloaded"))

    def _close(self, flight: _Flight) -> None:
        """Let nobody join a request any more."""
        if self._flights.get(flight.hashed) is flight:
            del self._flights[flight.hashed]

    def _give_up(self, flight: _Flight) -> None:
        if not flight.sent and flight.task is not None:
            flight.task.cancel()

    async def _ask(self, flight: _Flight, caching: Caching) -> StoredAnswer | Reply:
        request, model = flight.request, self.models[flight.request.page.path]
        reserved = await self.spending.reserve(request.model, len(request.sent), request.max_tokens)
        used: tuple[int | None, int | None, int | None] | None = None
        try:
            answer = await model.ask(Request(flight.name, 1, request.sent))
            if answer.call_error is None:
                used = (answer.tokens_in, answer.tokens_cached, answer.tokens_out)
        finally:
            self.spending.settle(request.model, reserved, used)
        refusal = model.refusals.pop(flight.name, None)
        for line in model.new_warnings():
            self.note(line)
        if answer.call_error is not None:
            if refusal is not None:
                return self._passed(refusal)
            status = 504 if answer.call_error.startswith("timeout") else 502
            return refused(status, answer.call_error, "upstream_error")
        self._count(answer, request)
        answer = answer._replace(request_hash=flight.hashed, sent_hash=flight.hashed, model=request.model)
        if caching.no_store:
            self.counts.unstored += 1
            return _unstored(answer)
        return await self._keep(answer, request, caching)

    async def _keep(self, answer: Answer, request: GatewayRequest, caching: Caching) -> StoredAnswer:
        """Make an answer durable; one that the disk does not take is given all the same, for it is paid."""
        waiting: asyncio.Future[StoredAnswer] = asyncio.get_running_loop().create_future()
        self._unstored.append((NewAnswer(answer, request, caching.sample), waiting))
        if not self._storing:
            self._storing = True
            self._start(self._store())
        try:
            return await waiting
        except RunError as error:
            self._full_until = asyncio.get_running_loop().time() + self.policy.full_disk_s
            self.counts.unstored += 1
            self.note(f"warning: {error}")
            return _unstored(answer)

    async def _store(self) -> None:
        """Store what was answered; answers that arrive meanwhile share the next write and its sync."""
        loop = asyncio.get_running_loop()
        try:
            while self._unstored:
                new, self._unstored = self._unstored, []
                stored: list[StoredAnswer] = []
                failure: RunError | None = None
                try:
                    stored = await loop.run_in_executor(self._disk, self.store.keep, [one for one, _ in new])
                except RunError as error:
                    failure = error
                for place, (_, waiting) in enumerate(new):
                    if not waiting.done():
                        waiting.set_result(stored[place]) if failure is None else waiting.set_exception(failure)
                await asyncio.sleep(self.policy.commit_s)
        finally:
            self._storing = False

    async def _pass_on(self, page: Page, raw: bytes, why: str) -> Reply:
        """Pass on what can't be stored, once."""
        self.note(f"warning: a request of {page.path} is passed on and its answer is not stored: {why}")
        try:
            reply = self._passed(await self.models[page.path].pass_on(raw))
        except (HttpError, OSError) as error:
            return refused(502, f"the endpoint can't be reached: {error}", "upstream_error")
        except Stopped:
            return refused(503, "the gateway is stopping", "stopping")
        self.counts.unstored += reply.status == 200
        return reply._replace(headers=[*reply.headers, (b"x-sqlenrich-cache", BYPASS)])

    def _told(self, request: GatewayRequest, found: StoredAnswer, how: bytes) -> Reply:
        """Return an answer as its caller wants it, whole or as a stream, with where it comes from and its cost."""
        cost = self.spending.cost(found.model, found.tokens_in, found.tokens_cached, found.tokens_out)
        headers = [(b"x-sqlenrich-cache", how), (b"x-sqlenrich-request", found.request_hash.encode())]
        if how is HIT:
            age = (datetime.now(UTC) - found.asked_at).total_seconds()
            headers.append((b"age", str(max(int(age), 0)).encode()))
        if cost is not None:
            if how in (HIT, JOINED):
                self.counts.saved += cost
            headers.append((b"x-sqlenrich-cost", b"0" if how in (HIT, JOINED) else f"{cost:f}".encode()))
        if found.request_id:
            headers.append((b"x-request-id", found.request_id.encode("latin-1", "replace")))
        if request.stream and request.page.events is not None:
            events = b"".join(request.page.events(orjson.loads(found.body), request.usage))
            return Reply(200, events, headers, EVENTS)
        return Reply(200, found.body.encode(), headers)

    def _passed(self, response: HttpResponse) -> Reply:
        """Return a response of the endpoint for a caller, without the gateway's secrets."""
        headers = [
            (name.encode(), response.headers[name].encode("latin-1", "replace"))
            for name in PASSED_HEADERS
            if name in response.headers
        ]
        if response.status == 401:
            return refused(502, "the endpoint refuses the key of the gateway: correct it where it runs", "wrong_key")
        kind = response.headers.get("content-type", "application/json").encode("latin-1", "replace")
        return Reply(response.status, self._any.hide(response.body), headers, kind)

    def _sent(self, name: str) -> None:
        if (flight := self._named.get(name)) is not None:
            flight.sent = True

    def _count(self, answer: Answer, request: GatewayRequest) -> None:
        counts = self.counts
        counts.answered += 1
        counts.tokens_in += answer.tokens_in or 0
        counts.tokens_out += answer.tokens_out or 0
        cost = self.spending.cost(request.model, answer.tokens_in, answer.tokens_cached, answer.tokens_out)
        counts.cost += cost or 0


def _is_fresh(found: StoredAnswer, caching: Caching) -> bool:
    if caching.max_age_s is None:
        return True
    return (datetime.now(UTC) - found.asked_at).total_seconds() <= caching.max_age_s


def _unstored(answer: Answer) -> StoredAnswer:
    counts = (answer.tokens_in, answer.tokens_cached, answer.tokens_out)
    return StoredAnswer(
        answer.request_hash, answer.response or "", answer.model, answer.asked_at, *counts, answer.request_id
    )


def refused(status: int, message: str, code: str) -> Reply:
    """Return an error in the form of an OpenAI-compatible API."""
    error = {"message": message, "type": code, "param": None, "code": code}
    headers = [] if status in (503, 504) else [(b"x-should-retry", b"false")]
    return Reply(status, orjson.dumps({"error": error}), headers)
