"""How the faults of a scenario happen, and the limits that hold in every life, whatever lives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.simulation.network import PORT, Network
from tests.simulation.scenario import Fault, Scenario
from tests.simulation.world import World

ENDS = ("stop", "stop-twice", "kill-before")
"""The faults at a request that end the process."""


AT_END = ("silent", 0.0)
"""What happens to a request at which the process ends."""


class FaultyLives:
    """The lives of one seed in a world with servers. Each fault happens once."""

    scenario: Scenario
    world: World
    network: Network
    faults: dict[tuple[str, int], Fault]

    def begin_in(self, world: World) -> None:
        """Begin in a world: what happens there is told to ``on_moment``, ``on_request`` and ``on_answer``."""
        self.world = world
        world.shuffles = self.scenario.shuffles
        world.on_moment = self.on_moment
        self.network = Network(world, self.scenario.seed, self.scenario.weather, self.fault_of)
        self.network.on_request, self.network.on_answer = self.on_request, self.on_answer
        self.faults = {(one.moment, one.number): one for one in self.scenario.faults}

    def fault_of(self, number: int) -> tuple[str, float] | None:
        """Return what happens to a request; an outage begins with one."""
        fault = self.faults.pop(("request", number), None)
        if fault is None:
            return None
        kind, _, server = fault.kind.partition("/")
        if kind in ENDS:
            self.world.note(str(fault))
            self.end_by(fault)
            return AT_END  # so that something is in flight
        if not server:
            return kind, fault.amount
        port = PORT + int(server) - 1
        self.world.note(f"outage of {port}: {kind} for {fault.amount:.1f} s")
        self.network.down[port] = (kind, self.world.seconds + fault.amount)
        return None

    def on_moment(self, moment: str, number: int) -> None:
        """Let the fault of a moment happen, if there is one."""
        if (fault := self.faults.pop((moment, number), None)) is not None:
            self.world.note(str(fault))
            self.happen(moment, fault)

    def happen(self, moment: str, fault: Fault) -> None:
        """Let a fault happen that is not one of a request."""
        raise NotImplementedError

    def end_by(self, fault: Fault) -> None:
        """End the life by a signal or a kill."""
        raise NotImplementedError

    def on_request(self, prompt: str) -> None:
        """Watch a request that arrives at a server."""
        raise NotImplementedError

    def on_answer(self, prompts: tuple[str, ...], port: int) -> None:
        """Watch whole answers of one response that reach their client."""
        raise NotImplementedError


def tear(path: Path, before: int, share: float) -> None:
    """Cut a file: of what follows the place ``before``, a share is left."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(min(before, size) + int(max(size - before, 0) * share))


def shortest_window(at: Sequence[float], requests: int) -> float:
    """Return the shortest time, in seconds, in which more than so many requests were sent."""
    return min((at[place + requests] - at[place] for place in range(len(at) - requests)), default=float("inf"))
