"""The model behind an endpoint that takes several texts with one request: of vectors, or of tensors."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import RunError
from sqlenrich.llm.endpoint.failure import Failure
from sqlenrich.llm.endpoint.model import EndpointModel
from sqlenrich.llm.endpoint.reply import Reply
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.endpoint.response import BatchCompletion, Completion, Fault, load_object
from sqlenrich.llm.endpoint.wire.embeddings import EmbeddingBody, divided
from sqlenrich.llm.endpoint.wire.forms import takes_several
from sqlenrich.llm.endpoint.wire.kserve import KServeBody
from sqlenrich.llm.health import Stopped
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.llm.model import Traits

FILL_S = 0.01
"""A request waits this long for further texts."""
SPLIT_TRIES = 2
"""Tries of a part of a request that failed while others were answered."""


@dataclass
class _Batch:
    """Requests that are sent together, by the task of the first of them."""

    requests: list[Request]
    tries: int
    others: list[asyncio.Future[Answer | _Batch | None]] = field(default_factory=list)
    """What becomes of all but the first: an answer, a part of the batch that this one leads, or nothing, where the
    first was stopped, so that this one asks for itself."""
    full: asyncio.Event = field(default_factory=asyncio.Event)

    def settle(self, answers: Sequence[Answer]) -> None:
        """Give the answers to all but the first."""
        for waiting, answer in zip(self.others, answers, strict=True):
            if not waiting.done():
                waiting.set_result(answer)

    def leave(self) -> None:
        """Let all but the first ask for themselves."""
        for waiting in self.others:
            if not waiting.done():
                waiting.set_result(None)

    def fail(self, error: Exception) -> None:
        """Raise an error for all but the first."""
        for waiting in self.others:
            if not waiting.done():
                waiting.set_exception(error)

    def halved(self, tries: int) -> _Batch:
        """Return the first half. The first request of the second half leads that: neither waits for the other."""
        middle = len(self.requests) // 2
        leader = self.others[middle - 1]
        second = _Batch(self.requests[middle:], tries, self.others[middle:])
        if leader.done():  # it was cancelled
            second.leave()
        else:
            leader.set_result(second)
        return _Batch(self.requests[:middle], tries, self.others[: middle - 1])


class BatchedModel(EndpointModel):
    """A Model that posts up to ``batch`` prompts per request.

    Requests of the stream that wait at the same time go together: the first of them waits for others for
    :data:`FILL_S`. Tries, limits and failures are those of a request with all its texts. A request that is refused is
    halved until the text that is at fault is alone; one that fails in another way, only where the endpoint answers
    others. Its tokens are divided among its texts by their bytes.
    """

    def __init__(self, endpoint: Endpoint, config: RequestConfig, **parts: Any) -> None:
        super().__init__(endpoint, config, **parts)
        assert isinstance(self._body, EmbeddingBody | KServeBody)
        self.batch = self._body.batch
        self._filling: _Batch | None = None

    @property
    def traits(self) -> Traits:
        """What the client uses of it."""
        return replace(super().traits, batch=self.batch)

    async def open(self) -> None:
        """Make the pool of connections; nothing is sent yet."""
        self._filling = None
        await super().open()

    async def probe(self, requests: Sequence[Request], answers: list[Answer]) -> None:
        """Ask as for other models. Raises RunError also where the vectors have another length than the file says."""
        await super().probe(requests, answers)
        if (embedding := self.config.embedding) is None:
            return
        wanted = embedding.dimensions
        for answer in answers:
            vector = None if answer.response is None else load_object(answer.response.encode())[embedding.field]
            if isinstance(vector, list) and len(vector) != wanted:
                found = len(vector)
                raise RunError(
                    f"{self.name} gives vectors of {found:,} numbers, not of {wanted:,}: write dimensions: {found}, or "
                    "name another model"
                )

    async def ask(self, request: Request) -> Answer:
        """Return the answer to one request. Raises RunError where every request would fail, or Stopped."""
        alone = _Batch([request], self.config.max_tries)
        if (batch := self._filling) is None:
            return await self._lead(alone, fill=True)
        waiting: asyncio.Future[Answer | _Batch | None] = asyncio.get_running_loop().create_future()
        batch.requests.append(request)
        batch.others.append(waiting)
        if len(batch.requests) >= self.batch:
            self._close(batch)
        try:
            given = await waiting
        except asyncio.CancelledError:
            led = not waiting.cancelled() and waiting.exception() is None and waiting.result()
            if isinstance(led, _Batch):
                led.leave()  # cancelled before it could lead
            raise
        return given if isinstance(given, Answer) else await self._lead(given or alone)

    async def _lead(self, batch: _Batch, *, fill: bool = False) -> Answer:
        """Send a batch, or halves where that fails; give the answer to its first request."""
        try:
            if fill:
                await self._fill(batch)
            while True:
                requests = batch.requests
                name = requests[0].request_hash + (f" and {len(requests) - 1} more" if len(requests) > 1 else "")
                prompts = [request.prompt for request in requests]
                reply = await self._post(name, prompts, batch.tries, probing=False)
                failure = reply.result if isinstance(reply.result, Failure) else None
                if failure is None or len(requests) == 1 or not await self._may_split(failure, reply):
                    first, *others = self._answers(requests, reply)
                    batch.settle(others)
                    return first
                batch = batch.halved(SPLIT_TRIES if failure.fault is Fault.TRANSIENT else batch.tries)
        except (asyncio.CancelledError, Stopped):
            batch.leave()  # they may belong to a stream that goes on
            raise
        except Exception as error:
            batch.fail(error)
            raise

    async def _fill(self, batch: _Batch) -> None:
        """Wait until a batch is full, or has waited long enough. It takes no further request then."""
        if self.batch == 1:
            return
        self._filling = batch
        try:
            async with asyncio.timeout(FILL_S):
                await batch.full.wait()
        except TimeoutError:
            pass
        finally:
            self._close(batch)

    def _close(self, batch: _Batch) -> None:
        batch.full.set()
        if self._filling is batch:
            self._filling = None

    async def _may_split(self, failure: Failure, reply: Reply) -> bool:
        """Whether one text may be at fault for all: not at a limit, and not where the endpoint answers nothing.

        That is not asked once the run stops: nothing is sent then.
        """
        if failure.fault is not Fault.TRANSIENT:
            return True
        if failure.busy:
            return False
        if self.health.succeeded_since(reply.began):
            return True
        return not self.health.stopped and await self._canary.any_answers()

    def _answers(self, requests: Sequence[Request], reply: Reply) -> list[Answer]:
        result = reply.result
        parts: list[Completion | Failure]
        if isinstance(result, BatchCompletion):
            sizes = [len(request.prompt.encode("utf-8", "surrogatepass")) for request in requests]
            counts = [None] * len(sizes) if result.tokens_in is None else divided(result.tokens_in, sizes)
            parts = [
                Completion(text, None, count, None, result.tokens_out, result.model)
                for text, count in zip(result.texts, counts, strict=True)
            ]
        else:
            parts = [result] * len(requests)
        return [
            self._answer(request, part, reply, reply.calls if number == 0 else 0)
            for number, (request, part) in enumerate(zip(requests, parts, strict=True))
        ]


def endpoint_model(endpoint: Endpoint, config: RequestConfig, **parts: Any) -> EndpointModel:
    """Return the model that asks an endpoint for what the configuration says: a text, or several, with a request."""
    return (BatchedModel if takes_several(endpoint, config) else EndpointModel)(endpoint, config, **parts)
