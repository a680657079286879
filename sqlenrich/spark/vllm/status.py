"""The state of one server, as its keeper tells it and ``VLLMFleet.servers`` gives it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlenrich.spark.vllm.checks import Metrics

STARTING, READY, FAILING, GIVEN_UP = "starting", "ready", "failing", "given up"


@dataclass(frozen=True)
class ServerStatus:
    """One server: where it is, its state and its load.

    ``state`` is ``starting``, ``ready`` or ``given up``; ``failing`` for a server of ``attach`` that does not answer.
    ``reason`` says why it was restarted, given up or is failing, with the end of its log where that helps. ``running``
    and ``waiting`` count requests. ``kv_use`` is the share of the KV cache in use, ``prefix_hits`` the share of prompt
    tokens that the prefix cache had, None before the first prompt. ``starts`` counts the starts of the server, ``gpus``
    are its addresses.
    """

    url: str
    state: str
    executor: str = ""
    gpus: tuple[str, ...] = ()
    starts: int = 0
    running: int = 0
    waiting: int = 0
    kv_use: float = 0.0
    prefix_hits: float | None = None
    reason: str = ""
    pid: int | None = None
    """The process id of the guard, which is the leader of the server's process group; None where none runs."""

    def __str__(self) -> str:
        hits = "" if self.prefix_hits is None else f", prefix hits {self.prefix_hits:.0%}"
        load = f": {self.running} running, {self.waiting} waiting, KV cache {self.kv_use:.0%}{hits}"
        return f"{self.url} {self.state}{load if self.state == READY else ''}" + (
            f" ({self.reason})" if self.reason else ""
        )


def with_metrics(status: ServerStatus, metrics: Metrics) -> ServerStatus:
    """Return a state with the load that metrics say."""
    hits = metrics.prefix_hit_tokens / metrics.prefix_tokens if metrics.prefix_tokens else None
    return replace(
        status,
        running=int(metrics.running),
        waiting=int(metrics.waiting),
        kv_use=metrics.kv_use,
        prefix_hits=hits,
    )
