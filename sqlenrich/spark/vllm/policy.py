"""The times and counts by which a keeper judges its server. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FleetPolicy:
    """When a server is ready, restarted and given up; and how long the fleet waits. Seconds, unless it says otherwise.

    A server is ready once it has generated a text: vLLM answers ``/health`` before it is known whether the model runs.
    """

    ready_s: float = 1800.0
    """A start that has generated nothing after this time is ended: a large model is loaded for minutes."""
    generate_s: float = 60.0
    """The longest time that the trial text may take."""
    poll_s: float = 0.5
    """The time between two looks at a server that is not ready yet."""
    check_s: float = 5.0
    """The time between two health checks of a server that is ready; each reads ``/health`` and ``/metrics``."""
    answer_s: float = 5.0
    """The longest time that a health check may take."""
    failed_checks: int = 3
    """A server is restarted after this many failed health checks in a row."""
    stall_s: float = 60.0
    """A server is restarted that processed no token for this time while requests were running."""
    most_starts: int = 5
    """A server is given up after this many starts ..."""
    starts_within_s: float = 600.0
    """... within this time, or after as many in a row that were never ready."""
    stop_s: float = 8.0
    """The time from SIGTERM to SIGKILL."""
    place_s: float = 20.0
    """The longest time in which tasks wait for each other, so that each executor gets one."""
    watch_s: float = 3.0
    """The time between two looks for executors without a server."""


LOG_TAIL_LINES = 12
"""The lines of a server's log that are told with the reason of its end."""
