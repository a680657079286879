"""What tests of the fleet see of its processes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from sqlenrich.spark.vllm.policy import FleetPolicy
from sqlenrich.spark.vllm.processes import descendants

FAKE = str(Path(__file__).parent / "fake_vllm.py")
FAST = FleetPolicy(
    ready_s=20.0, generate_s=0.5, poll_s=0.05, check_s=0.1, answer_s=0.4, stall_s=0.5, most_starts=3, stop_s=1.0,
    place_s=20.0, watch_s=0.5,
)  # fmt: skip
"""Times for a server that answers at once."""
GONE_S = 15.0
"""No process of a server is left after this time."""


def until(done: Callable[[], Any], seconds: float = GONE_S) -> Any:
    """Return the first true result of a function; the last one where the time is up."""
    end = time.monotonic() + seconds
    while not (result := done()) and time.monotonic() < end:
        time.sleep(0.02)
    return result


def family(guard: int | None) -> set[int]:
    """Return the processes of a server by its guard's id: the guard and all that it started."""
    assert guard is not None
    return {guard, *descendants(guard)}


def alive(pids: Iterable[int]) -> set[int]:
    """Return those of some processes that run."""
    return {pid for pid in pids if _runs(pid)}


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def info(url: str) -> dict[str, Any]:
    """Return how a fake server was started."""
    with urlopen(url.removesuffix("/v1") + "/info", timeout=5) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def kill(pid: int) -> None:
    """Kill a process that the test started."""
    os.kill(pid, 9)
