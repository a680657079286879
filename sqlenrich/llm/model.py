"""The contract of a model: it answers one request at a time, and its traits say what else it offers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sqlenrich.llm.messages import Answer, AnsweredRequest, Request

if TYPE_CHECKING:
    from sqlenrich.llm.health import EndpointHealth
    from sqlenrich.llm.throttle.limiter import RateLimiter


@dataclass(frozen=True)
class Traits:
    """What a model offers besides its answers. A default says that it does not offer it."""

    limiter: RateLimiter | None = None
    """Decides when each request is sent, and how many at a time."""
    health: EndpointHealth | None = None
    """Reports each try as it happens, not only the final answer."""
    timeout_s: float = 0.0
    """The longest wait for an answer, in seconds."""
    batch: int = 1
    """The requests of a stream that go with one call, at most."""
    warnings: list[str] | None = None
    """Lines for a person that nobody took yet; who takes them removes them."""
    probe: Callable[[Sequence[Request], list[Answer]], Awaitable[None]] | None = None
    """Asks one request after another until one is answered; appends to the answers as they come.

    Raises RunError where no request of a run would succeed. Without requests it finds out whether anybody listens.
    """
    canary_answers: Callable[[], Awaitable[bool]] | None = None
    """Whether a request that was answered before is answered now, while the requests in flight fail."""
    answers_again: Callable[[AnsweredRequest], Awaitable[bool]] | None = None
    """Whether a request that an earlier run asked is answered now."""
    answers: Callable[[list[Request]], list[Answer]] | None = None
    """Answers requests in their order without waiting: the client asks it in the caller's thread."""


class Model(Protocol):
    """Answers requests. Every method but the constructor runs in the client's event loop.

    A failure of one row is an Answer with ``call_error`` and ``retryable``. A failure that every row would meet raises
    RunError with one line that says what to do. ``ask`` may raise Stopped.
    """

    name: str

    @property
    def traits(self) -> Traits:
        """What else it offers."""
        ...

    async def open(self) -> None:
        """Make what the model needs while a client is open, such as its connections."""

    async def close(self) -> None:
        """Release all of it; nothing is asked afterwards."""

    async def ask(self, request: Request) -> Answer:
        """Return the answer to one request. The model decides how often it tries again."""
        ...
