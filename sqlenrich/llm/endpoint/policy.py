"""When requests of an endpoint are tried again, and when an endpoint is given up."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlenrich.llm.endpoint.canary import CanaryPolicy
from sqlenrich.llm.endpoint.failure_reader import RefusalPolicy
from sqlenrich.llm.health import HealthPolicy
from sqlenrich.llm.messages import UNPROVEN_REQUESTS


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
    """Requests whose failure ends a probe, ..."""
    more_probes_s: float = 10.0
    """... unless they failed within this time: then further ones are asked."""
    probe_tries: int = 2
    """Tries of each of them."""
    unanswered: int = UNPROVEN_REQUESTS
    """Prompts that fail before the first answer, after which the list of models no longer shows a working endpoint."""
    timeouts: int = 3
    """Tries of one request that may end with a timeout."""
    busy_s: float = 65.0
    """A probe that meets a limit waits this long: until a minute that others used up is over."""
    revive_s: tuple[float, ...] = (0.0, 0.25, 0.5, 1.0, 2.0, 5.0)
    """The waits between the probes of an endpoint that is down; the last one repeats."""
    revived_within_s: float = 12.0
    """A probe waits this long for a URL that is down; the list of models has less time to answer."""
    warning_every_s: float = 60.0
    """An endpoint that is down again gives no further warning within this time."""
    refusals: RefusalPolicy = field(default_factory=RefusalPolicy)
    canary: CanaryPolicy = field(default_factory=CanaryPolicy)
    health: HealthPolicy = field(default_factory=HealthPolicy)
