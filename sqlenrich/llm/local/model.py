"""The model that asks a class of the user: requests that wait are sent together, and a failing batch is halved."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlenrich.core.embedding import Embedding
from sqlenrich.core.errors import ConfigError
from sqlenrich.core.turn import Turn, sent_text
from sqlenrich.llm.local.gpus import VISIBLE, own_places
from sqlenrich.llm.local.link import ProcessPlace
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
    per: str = "process"
    """What has a process of its own: each process that asks, a Spark executor, or a GPU."""


@dataclass(frozen=True)
class _Outcome:
    text: str | None
    error: str | None = None
    retryable: bool = False


class LocalProcessModel:
    """A Model over one process at each place, which is asked a batch at a time.

    A row on which the class raises is found by halving: its answer is a failure that is final. A batch whose process
    ended is halved as well, in a new process; the row that ends it alone is a failure that may pass.
    """

    def __init__(
        self,
        config: LocalConfig,
        policy: ProcessPolicy | None = None,
        places: Sequence[ProcessPlace] | None = None,
    ) -> None:
        self.name, self.config = config.name, config
        self.traits = Traits(timeout_s=config.timeout_s)
        places = own_places(config.per) if places is None else places
        self.concurrency = 2 * config.batch * max(1, len(places))
        """One batch is answered while the next one is made."""
        self._processes = [
            ModelProcess(
                config.name,
                config.factory,
                vectors=config.embedding is not None,
                timeout_s=config.timeout_s,
                policy=policy or ProcessPolicy(),
                place=place,
            )
            for place in places
        ]
        self._waiting: list[tuple[Request, asyncio.Future[Answer]]] = []
        self._some = asyncio.Event()
        self._threads: ThreadPoolExecutor | None = None
        self._asking: list[asyncio.Task[None]] = []
        self._busy: set[ModelProcess] = set()

    async def open(self) -> None:
        """Start the processes and load the class. Raises RunError where that fails, ConfigError without a GPU."""
        if not self._processes:
            raise ConfigError(
                f'LocalModel {self.name}: per="gpu", and no GPU is seen on {socket.gethostname()}: set {VISIBLE}, or '
                "give another per"
            )
        self._waiting, self._some, self._busy = [], asyncio.Event(), set()
        loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(len(self._processes), "sqlenrich-local-model")
        try:
            await asyncio.gather(*(loop.run_in_executor(self._threads, process.load) for process in self._processes))
        except BaseException:
            for process in self._processes:
                process.kill()
            self._threads.shutdown(wait=False)
            raise
        self._asking = [loop.create_task(self._ask_batches(process)) for process in self._processes]

    async def close(self) -> None:
        """End the processes."""
        if self._threads is None:
            return
        for process in self._processes if self._waiting else self._busy:
            process.kill()
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(self._threads, process.end) for process in self._processes))
        self._threads.shutdown()
        self._threads = None

    async def ask(self, request: Request) -> Answer:
        """Return the answer to one request. Raises RunError where the class can't be used."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, answer))
        self._some.set()
        return await answer

    async def _ask_batches(self, process: ModelProcess) -> None:
        while True:
            await self._some.wait()
            if len(self._waiting) < self.config.batch:
                await asyncio.sleep(FILL_S)
            batch, self._waiting = self._waiting[: self.config.batch], self._waiting[self.config.batch :]
            if not self._waiting:
                self._some.clear()
            self._busy.add(process)
            try:
                await self._answer(process, [(request, answer) for request, answer in batch if not answer.done()])
            except Exception as error:
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
            finally:
                self._busy.discard(process)

    async def _answer(self, process: ModelProcess, batch: Sequence[tuple[Request, asyncio.Future[Answer]]]) -> None:
        """Answer requests together, or in halves where that fails."""
        if not batch:
            return
        assert self._threads is not None
        config = self.config
        texts = [sent_text(config.turns, request.prompt) for request, _ in batch]
        if config.hint:
            texts = [f"{text}\n\n{config.hint}" for text in texts]
        asked_at, started = datetime.now(UTC), time.monotonic()
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._threads, process.ask, texts)
            outcomes = [_Outcome(self._text(text)) for text in found]
        except (RaisedError, DiedError) as error:
            if len(batch) > 1:
                middle = len(batch) // 2
                await self._answer(process, batch[:middle])
                await self._answer(process, batch[middle:])
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
