"""The model that asks a class of the user: requests that wait are sent together, and a failing batch is halved."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlenrich.core.embedding import Embedding
from sqlenrich.core.turn import Turn, sent_text
from sqlenrich.llm.local.process import DiedError, ModelProcess, ProcessPolicy, RaisedError
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.llm.model import Traits

FILL_S = 0.005
"""A batch that is not full waits so long for further requests."""


@dataclass(frozen=True)
class LocalConfig:
    """What a local model is asked with: the constant text around each prompt, and the form of an answer."""

    name: str
    factory: bytes
    batch: int
    timeout_s: float
    turns: tuple[Turn, ...] = ()
    hint: str | None = None
    embedding: Embedding | None = None


@dataclass(frozen=True)
class _Outcome:
    text: str | None
    error: str | None = None
    retryable: bool = False


class LocalProcessModel:
    """A Model over one process, which is asked a batch at a time.

    A row on which the class raises is found by halving: its answer is a failure that is final. A batch whose process
    ended is halved as well, in a new process; the row that ends it alone is a failure that may pass.
    """

    def __init__(self, config: LocalConfig, policy: ProcessPolicy | None = None) -> None:
        self.name, self.config = config.name, config
        self.traits = Traits(timeout_s=config.timeout_s)
        self._process = ModelProcess(
            config.name,
            config.factory,
            vectors=config.embedding is not None,
            timeout_s=config.timeout_s,
            policy=policy or ProcessPolicy(),
        )
        self._waiting: list[tuple[Request, asyncio.Future[Answer]]] = []
        self._some = asyncio.Event()
        self._thread: ThreadPoolExecutor | None = None
        self._asking: asyncio.Task[None] | None = None
        self._idle = True

    async def open(self) -> None:
        """Start the process and load the class. Raises RunError where that fails."""
        self._waiting, self._some = [], asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "sqlenrich-local-model")
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._process.load)
        except BaseException:
            self._process.kill()
            self._thread.shutdown(wait=False)
            raise
        self._asking = asyncio.get_running_loop().create_task(self._ask_batches())

    async def close(self) -> None:
        """End the process."""
        if self._asking is None or self._thread is None:
            return
        if self._waiting or not self._idle:
            self._process.kill()
        self._asking.cancel()
        await asyncio.gather(self._asking, return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(self._thread, self._process.end)
        self._thread.shutdown()

    async def ask(self, request: Request) -> Answer:
        """Return the answer to one request. Raises RunError where the class can't be used."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, answer))
        self._some.set()
        return await answer

    async def _ask_batches(self) -> None:
        while True:
            await self._some.wait()
            if len(self._waiting) < self.config.batch:
                await asyncio.sleep(FILL_S)
            batch, self._waiting = self._waiting[: self.config.batch], self._waiting[self.config.batch :]
            if not self._waiting:
                self._some.clear()
            self._idle = False
            try:
                await self._answer([(request, answer) for request, answer in batch if not answer.done()])
            except Exception as error:
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
            finally:
                self._idle = True

    async def _answer(self, batch: Sequence[tuple[Request, asyncio.Future[Answer]]]) -> None:
        """Answer requests together, or in halves where that fails."""
        if not batch:
            return
        assert self._thread is not None
        config = self.config
        texts = [sent_text(config.turns, request.prompt) for request, _ in batch]
        if config.hint:
            texts = [f"{text}\n\n{config.hint}" for text in texts]
        asked_at, started = datetime.now(UTC), time.monotonic()
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._thread, self._process.ask, texts)
            outcomes = [_Outcome(self._text(text)) for text in found]
        except (RaisedError, DiedError) as error:
            if len(batch) > 1:
                middle = len(batch) // 2
                await self._answer(batch[:middle])
                await self._answer(batch[middle:])
                return
            outcomes = [_Outcome(None, str(error), isinstance(error, DiedError))]
        latency_ms = round((time.monotonic() - started) * 1000)
        for (request, answer), outcome in zip(batch, outcomes, strict=True):
            if not answer.done():
                answer.set_result(self._made(request, outcome, asked_at, latency_ms))

    def _text(self, found: str | None) -> str | None:
        embedding = self.config.embedding
        return found if found is None or embedding is None else embedding.answer(found)

    def _made(self, request: Request, outcome: _Outcome, asked_at: datetime, latency_ms: int) -> Answer:
        return Answer(
            request_hash=request.request_hash,
            attempt=request.attempt,
            sent_hash=request.sent_hash or request.request_hash,
            response=outcome.text,
            call_error=outcome.error,
            retryable=outcome.retryable,
            finish_reason=None,
            model=self.name,
            tokens_in=None,
            tokens_cached=None,
            tokens_out=None,
            latency_ms=latency_ms,
            asked_at=asked_at,
            calls=1,
        )
