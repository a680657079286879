"""Actors of Ray as the hosts of a fleet; without a Ray, this machine."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.plurals import counted
from sqlenrich.llm.local.gpus import visible_gpus
from sqlenrich.spark.vllm.hosts import Hosts
from sqlenrich.spark.vllm.placement import Placement, PlacementError

POLL_S = 0.5
UNPLACED_S = 120.0
"""An actor that Ray has not placed after this time is told of: a cluster that grows takes minutes."""
LOOPBACK = "127.0.0.1"


def ray_or_local_hosts(replicas: int, gpus: int) -> Hosts:
    """Return actors of the Ray that this process uses, or that ``RAY_ADDRESS`` names; else this machine.

    Raises ConfigError for numbers that can't be, and for too few GPUs.
    """
    for name, number, least in (("replicas", replicas, 1), ("gpus", gpus, 0)):
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise ConfigError(f"{name} is a whole number of at least {least}, not {number!r}")
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        return ActorHosts(ray, replicas, gpus)
    if address := os.environ.get("RAY_ADDRESS"):
        try:
            import ray as found
        except ImportError:
            raise ConfigError(f"RAY_ADDRESS is {address}, and ray is not installed: pip install ray") from None
        found.init(address=address)
        return ActorHosts(found, replicas, gpus)
    return LocalHosts(replicas, gpus)


def _enough(replicas: int, gpus: int, seen: int, where: str) -> None:
    if replicas * gpus > seen:
        raise ConfigError(
            f"{counted(replicas, 'server')} of {counted(gpus, 'GPU')} each, and {where} has {counted(seen, 'GPU')}: "
            "give fewer replicas, or gpus=0 for vLLM on CPUs"
        )


class ServerActor:
    """Holds the GPUs of one server while its keeper runs, which ends with it."""

    def start(self, placement: Placement, gpus: int) -> str | None:
        """Start the keeper of this actor, where none runs. Return what is wrong."""
        import ray

        owned = tuple(str(gpu) for gpu in ray.get_gpu_ids()) if gpus else ()
        try:
            placement.start_keeper(os.getpid(), owned)
        except (PlacementError, OSError) as error:
            return f"on {os.uname().nodename}: {error}"
        return None


class ActorHosts:
    """One server in each of some actors of Ray, which places them where GPUs are free."""

    tasks = 1
    gpus_named = "gpus is {gpus}"

    def __init__(self, ray: Any, replicas: int, gpus: int) -> None:
        self._ray, self._replicas, self.gpus = ray, replicas, gpus
        _enough(replicas, gpus, int(ray.cluster_resources().get("GPU", 0)), "Ray")
        own = ray.get_runtime_context().get_node_id()
        addresses = [str(node["NodeManagerAddress"]) for node in ray.nodes() if node["NodeID"] == own]
        self.address = self.listens_at = addresses[0] if addresses else LOOPBACK
        # An actor of each number; one that has ended is made again.
        self._actors: dict[int, Any] = {}
        self._cancelled = threading.Event()

    @property
    def nobody(self) -> str:
        """Why there may be no keeper at all."""
        free = self._ray.available_resources()
        return (
            f"Ray placed none of {counted(self._replicas, 'actor')}: {free.get('GPU', 0):g} GPUs and "
            f"{free.get('CPU', 0):g} CPUs are free"
        )

    def wanted(self) -> int:
        """Return the number of servers."""
        return self._replicas

    def place(self, placement: Placement, wanted: int) -> None:
        """Make the actors that are missing, and have each start its keeper. Raises RunError."""
        ray = self._ray
        actor = ray.remote(num_gpus=self.gpus, num_cpus=0)(ServerActor)
        for number in range(wanted):
            if number not in self._actors:
                self._actors[number] = actor.remote()
        starting = {self._actors[number].start.remote(placement, self.gpus): number for number in range(wanted)}
        until = time.monotonic() + UNPLACED_S
        while starting and time.monotonic() < until and not self._cancelled.is_set():
            done, _ = ray.wait(list(starting), timeout=POLL_S)
            for one in done:
                number = starting.pop(one)
                try:
                    problem = ray.get(one)
                except ray.exceptions.RayActorError:  # it is made again at the next round
                    del self._actors[number]
                    continue
                except ray.exceptions.RayError as error:
                    raise RunError(f"the actors that start vLLM servers failed: {_last_line(error)}") from None
                if problem is not None:
                    raise RunError(f"no server {problem}")
        self._cancelled.clear()

    def cancel(self) -> None:
        """Wait no longer for actors that Ray has not placed."""
        self._cancelled.set()

    def close(self) -> None:
        """End the actors, which gives their GPUs back."""
        for actor in self._actors.values():
            with suppress(Exception):  # Ray may have ended before
                self._ray.kill(actor)
        self._actors.clear()


def _last_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__


class LocalHosts:
    """Servers on this machine, each with GPUs of its own; they end with this process."""

    tasks = 1
    address = listens_at = LOOPBACK
    gpus_named = "gpus is {gpus}"
    nobody = "no keeper of a server started on this machine"

    def __init__(self, replicas: int, gpus: int) -> None:
        self._replicas, self.gpus = replicas, gpus
        self._visible = visible_gpus() if gpus else ()
        _enough(replicas, gpus, len(self._visible), "this machine")

    def wanted(self) -> int:
        """Return the number of servers."""
        return self._replicas

    def place(self, placement: Placement, wanted: int) -> None:
        """Start the keepers that are missing. Raises RunError."""
        for number in range(wanted):
            owned = self._visible[number * self.gpus : (number + 1) * self.gpus]
            try:
                placement.start_keeper(os.getpid(), owned, number + 1)
            except (PlacementError, OSError) as error:
                raise RunError(f"no server on this machine: {error}") from None

    def cancel(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """This machine goes on."""
