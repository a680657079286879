"""The contract of a model: it answers one request at a time. Further protocols say what else a model offers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from sqlenrich.llm.messages import Answer, Request

if TYPE_CHECKING:
    from sqlenrich.llm.health import EndpointHealth
    from sqlenrich.llm.throttle.limiter import RateLimiter


class Model(Protocol):
    """Answers requests. Every method but the constructor runs in the client's event loop.

    A failure of one row is an Answer with ``call_error`` and ``retryable``. A failure that every row would meet raises
    RunError with one line that says what to do. ``ask`` may raise Stopped.
    """

    name: str

    async def open(self) -> None:
        """Make what the model needs while a client is open, such as its connections."""

    async def close(self) -> None:
        """Release all of it; nothing is asked afterwards."""

    async def ask(self, request: Request) -> Answer:
        """Give the answer to one request. The model decides how often it tries again."""
        ...


@runtime_checkable
class HealthReportingModel(Protocol):
    """A model that reports each try as it happens, not only the final answer."""

    health: EndpointHealth


@runtime_checkable
class RateLimitedModel(Protocol):
    """A model with a rate limiter: it decides when each request is sent, and how many at a time."""

    limiter: RateLimiter


@runtime_checkable
class WarningModel(Protocol):
    """A model with warnings for a person, one line each."""

    @property
    def warnings(self) -> list[str]:
        """The lines that nobody took yet; who takes them removes them."""
        ...


@runtime_checkable
class ProbingModel(Protocol):
    """A model with its own way to find out, by few requests, whether a run can start."""

    async def probe(self, requests: Sequence[Request], answers: list[Answer]) -> None:
        """Ask one request after another until one is answered; append to ``answers`` as they come.

        Raises RunError where no request of a run would succeed. Without requests it finds out whether anybody listens.
        """


@runtime_checkable
class CanaryModel(Protocol):
    """A model that can say whether its endpoint works while the requests in flight fail."""

    async def canary_answers(self) -> bool:
        """Whether a request that was answered before is answered now."""
        ...


@runtime_checkable
class TimeoutModel(Protocol):
    """A model that waits at most ``timeout_s`` seconds for an answer."""

    timeout_s: float


@runtime_checkable
class BatchingModel(Protocol):
    """A model that sends up to ``batch`` requests of a stream with one another."""

    batch: int


@runtime_checkable
class InstantModel(Protocol):
    """A model that answers without waiting while ``instant`` is true: the client asks it in the caller's thread."""

    instant: bool

    def answers(self, requests: list[Request]) -> list[Answer]:
        """Give the answers to ``requests``, in their order."""
        ...
