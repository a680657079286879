"""Servers that run already, as one endpoint: what ``VLLMFleet.attach`` gives."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import RunError
from sqlenrich.spark.vllm.checks import CheckError, Server
from sqlenrich.spark.vllm.policy import FleetPolicy
from sqlenrich.spark.vllm.status import FAILING, READY, ServerStatus, with_metrics


class AttachedFleet:
    """Servers that somebody else starts and ends; ``endpoint`` is all of them together.

    Entering it has each server generate a text. Raises ConfigError for URLs that can't be read, RunError where no
    server answers; those that do not are named in a warning, and left out of ``endpoint`` while they do not.
    """

    def __init__(
        self, urls: str | Sequence[str], *, api_key_env: str | None, model: str | None, policy: FleetPolicy
    ) -> None:
        first, *others = [urls] if isinstance(urls, str) else urls or [""]
        self._all = Endpoint(first, api_key_env=api_key_env, others=tuple(others), model=model)
        self._policy = policy

    def __enter__(self) -> Self:
        servers = _run(self._ask(self._try_out))
        failing = [f"{server.url}: {server.reason}" for server in servers if server.state != READY]
        if len(failing) == len(servers):
            raise RunError(f"no server answers; {failing[0]}")
        for text in failing:
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the servers as they are."""

    @property
    def endpoint(self) -> Endpoint:
        """The servers that are healthy now as one endpoint. Raises RunError where none is."""
        urls = [server.url for server in self.servers() if server.state == READY]
        if not urls:
            raise RunError("no server is healthy; servers() says what each does")
        return Endpoint(urls[0], others=tuple(urls[1:]), api_key_env=self._all.api_key_env, model=self._all.model)

    def servers(self) -> list[ServerStatus]:
        """Return the state and the load of each server, asked now."""
        return _run(self._ask(self._look_at))

    async def _ask(self, how: _Look) -> list[ServerStatus]:
        key = self._all.resolve_key()
        return list(await asyncio.gather(*(self._status(how, Server(url, key)) for url in self._all.urls)))

    async def _status(self, how: _Look, server: Server) -> ServerStatus:
        try:
            return await how(server)
        except CheckError as error:
            return ServerStatus(server.url, FAILING, reason=str(error))

    async def _try_out(self, server: Server) -> ServerStatus:
        model = self._all.model or await server.model(self._policy.answer_s)
        await server.generate(model, self._policy.generate_s)
        return ServerStatus(server.url, READY)

    async def _look_at(self, server: Server) -> ServerStatus:
        return with_metrics(ServerStatus(server.url, READY), await server.health(self._policy.answer_s))


_Look = Callable[[Server], Awaitable[ServerStatus]]


def _run(coroutine: Coroutine[Any, Any, list[ServerStatus]]) -> list[ServerStatus]:
    """Run a coroutine, also where a loop runs in this thread, as in a notebook."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()
