"""``sqlenrich gateway``: an OpenAI-compatible server that keeps each answer and gives it again."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sqlenrich.ask.observer import NullObserver, Observer
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.loop_thread import LoopThread, new_loop
from sqlenrich.core.plurals import counted
from sqlenrich.core.result import Result
from sqlenrich.gateway.counts import ALL, REUSE, GatewayCounts, GatewayPolicy
from sqlenrich.spec.prices import Prices, money
from sqlenrich.spec.settings import Config, find_config, with_prices

if TYPE_CHECKING:
    import uvicorn

    from sqlenrich.gateway.exchange import Exchange

PORT, HOST = 8400, "127.0.0.1"
TOKEN_ENV = "SQLENRICH_GATEWAY_TOKEN"
"""The variable of the token that callers must send."""
NEEDS = 'the gateway needs uvicorn: pip install "sqlenrich[gateway]"'


@dataclass(frozen=True, repr=False)
class GatewaySummary(Result):
    """What a gateway did from its start to its end; the costs are None without prices."""

    requests: int
    hits: int
    joined: int
    answered: int
    failed: int
    unstored: int
    tokens_in: int
    tokens_out: int
    cost: float | None
    saved: float | None
    currency: str | None
    stored: int
    output: str

    def to_text(self) -> str:
        """Return the summary for a terminal."""
        given = (
            f"{counted(self.requests, 'request')}: {self.hits:,} from the store, {self.joined:,} joined an equal one"
        )
        lines = [f"{given}, {self.answered:,} asked, {self.failed:,} failed"]
        lines.append(f"tokens {self.tokens_in:,} in, {self.tokens_out:,} out")
        if self.cost is not None:
            saved = money(self.saved or 0.0)
            lines[-1] += f"; cost {money(self.cost)} {self.currency}, {saved} {self.currency} not paid again"
        if self.unstored:
            lines.append(f"given and not stored: {counted(self.unstored, 'answer')}")
        lines.append(
            f"{counted(self.stored, 'answer')} in {self.output}: sqlenrich report gateway --output {self.output}"
        )
        return "\n".join(lines)


class Gateway:
    """Serves at ``url`` while it is entered, from a thread of its own.

    ``output`` is a DuckDB database: its tables ``gateway``, ``gateway_responses`` and so on hold the answers, and a
    journal beside it those that are not in the tables yet. ``endpoint`` is an :class:`~sqlenrich.Endpoint`, a URL or a
    name of ``sqlenrich.toml``; ``rpm``, ``tpm`` and ``concurrency`` replace its limits. ``max_cost`` ends the asking;
    stored answers are given on. With ``reuse="fixed"`` a stored answer is given again only to requests that always have
    the same one: temperature 0, a seed, or vectors. Callers must send ``token`` as their API key; without one only this
    machine's programs may ask. Raises ConfigError for what contradicts itself, and RunError for a port in use and an
    output that another gateway has.
    """

    def __init__(
        self,
        output: str | Path,
        endpoint: Endpoint | str | None = None,
        *,
        host: str = HOST,
        port: int = PORT,
        rpm: int | None = None,
        tpm: int | None = None,
        concurrency: int | None = None,
        max_cost: float | None = None,
        prices: str | Path | Prices | None = None,
        reuse: str = ALL,
        token: str | None = None,
        config: Config | None = None,
        observer: Observer | None = None,
        policy: GatewayPolicy | None = None,
    ) -> None:
        from sqlenrich.gateway.answer_store import AnswerStore
        from sqlenrich.gateway.spending import Spending

        self.config = with_prices(config if config is not None else find_config(None), prices)
        found = endpoint if isinstance(endpoint, Endpoint) else self.config.endpoint(endpoint)
        given: dict[str, Any] = {"rpm": rpm, "tpm": tpm, "concurrency": concurrency}
        self.endpoint = replace(found, **{name: value for name, value in given.items() if value is not None})
        if reuse not in REUSE:
            raise ConfigError(f'reuse is one of {", ".join(REUSE)}, not "{reuse}"')
        if token is None and not _is_loopback(host):
            raise ConfigError(
                f"{host} can be reached from other machines: set {TOKEN_ENV} to a token that callers send as their key"
            )
        if token is not None and not (token and token.isascii() and token.isprintable()):
            raise ConfigError("the gateway's token is empty, or holds what no header can hold")
        self._token = token
        self.host, self.port = host, port
        self.policy = policy or GatewayPolicy()
        self.observer = observer or NullObserver()
        self.store = AnswerStore(output, self.config)
        self._spending = Spending(max_cost, self.config.prices)
        self._reuse = reuse
        self._exchange: Exchange | None = None
        self._thread: LoopThread | None = None
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self.stored = 0
        """The answers that are stored, once it has ended."""
        self.written = 0
        """The answers that were written into the tables, at the start and at the end."""

    @property
    def url(self) -> str:
        """What callers use as the base URL of the API."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/v1"

    @property
    def counts(self) -> GatewayCounts:
        """What it did since it started."""
        return GatewayCounts() if self._exchange is None else self._exchange.counts

    def __enter__(self) -> Self:
        try:
            import uvicorn  # noqa: F401
        except ImportError:
            raise ConfigError(NEEDS) from None
        listening = self._listen()
        try:
            self.store.__enter__()
        except BaseException:
            listening.close()
            raise
        try:
            self.written = self.store.publish(self.observer)
            self._thread = LoopThread("sqlenrich-gateway", new_loop())
            self._thread.start()
            self._thread.run(self._start(listening))
        except BaseException:
            listening.close()
            if self._thread is not None:
                self._thread.end()
            self.store.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._thread is not None
        try:
            self._thread.run(self._stop())
            self._thread.end()
            try:
                self.written += self.store.publish(self.observer)
            except RunError as error:
                self.observer.note(
                    f"warning: {error}; no answer is lost: {self.store.journal.path} has them, and the next start "
                    "writes them into the tables"
                )
            self.stored = len(self.store)
        finally:
            self.store.__exit__()

    def summary(self) -> GatewaySummary:
        """Return what it did."""
        counts, prices = self.counts.to_dict(), self.config.prices
        if prices is None:
            counts |= {"cost": None, "saved": None}
        currency = None if prices is None else prices.currency
        return GatewaySummary(**counts, currency=currency, stored=self.stored, output=str(self.store.path))

    def abandon(self) -> None:
        """Leave out what is in flight: the gateway ends without those answers. From any thread."""
        if self._thread is not None and self._exchange is not None:
            self._thread.post(self._exchange.abandon)

    def _listen(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((self.host, self.port))
        except OSError as error:
            listening.close()
            raise RunError(
                f"the gateway can't listen at {self.host}:{self.port} ({error.strerror or error}): give another --port"
            ) from None
        self.port = listening.getsockname()[1]
        return listening

    async def _start(self, listening: socket.socket) -> None:
        import uvicorn

        from sqlenrich.gateway.app import GatewayApp
        from sqlenrich.gateway.exchange import Exchange

        self._exchange = Exchange(
            self.store,
            self.endpoint,
            self._spending,
            reuse=self._reuse,
            policy=self.policy,
            note=self.observer.note,
        )
        await self._exchange.open()
        config = uvicorn.Config(
            GatewayApp(self._exchange, self._token),
            http="httptools",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=4096,
            timeout_keep_alive=75,
        )
        self._server = uvicorn.Server(config)
        self._serving = asyncio.get_running_loop().create_task(self._server.serve(sockets=[listening]))
        while not self._server.started:
            if self._serving.done():
                self._serving.result()
                raise RunError(f"the gateway can't serve at {self.url}")
            await asyncio.sleep(0.005)

    async def _stop(self) -> None:
        """Take no new request, and end once those in flight have their answers."""
        assert self._server is not None
        assert self._serving is not None
        assert self._exchange is not None
        closing = asyncio.get_running_loop().create_task(self._exchange.close())
        await closing
        self._server.should_exit = True
        self._server.config.timeout_graceful_shutdown = 5
        await self._serving


def token_of(variable: str | None) -> str | None:
    """Return the token of a variable, by default of ``SQLENRICH_GATEWAY_TOKEN``; None where that is not set.

    Raises ConfigError where a variable that the caller named is not set.
    """
    token = os.environ.get(variable or TOKEN_ENV)
    if variable is not None and not token:
        raise ConfigError(f"the variable {variable} is not set: it holds the token of the gateway")
    return token or None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
