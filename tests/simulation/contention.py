"""The same command on several machines at once, over answers in a folder that they share, and what must hold."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlenrich.core.errors import RunError
from sqlenrich.core.lease import LeaseLostError, LeasePolicy
from sqlenrich.core.runtime import running_in
from sqlenrich.spark.file_lease import FileHolder, FileLease
from sqlenrich.spark.journal import Journal
from tests.simulation.faults import FaultyLives
from tests.simulation.lives import BrokenError, lived
from tests.simulation.processes import Process, ProcessWorld
from tests.simulation.scenario import Fault, Scenario, drawn_run
from tests.simulation.world import Hung

POLICY = LeasePolicy(lasts_s=30.0, poll_s=1.0)
LONGEST_S = 3_600.0
FILE_S = (0.01, 0.2, 0.45)
"""The longest time of half a look at a file of the folder, where nothing holds it up."""
DISTURBED_S = POLICY.poll_s
"""Who is held up for longer between two looks may find that another run has taken the lease meanwhile."""


def drawn(seed: int) -> Scenario:
    """Return the scenario of a seed: ``servers`` runs of ``texts`` requests."""
    draw = random.Random(f"contention {seed}")
    faults = []
    for _ in range(draw.choice((0, 1, 2, 4))):
        kind = draw.choice(("kill", "freeze", "freeze", "gone"))
        faults.append(
            Fault(draw.choice(("file", "ask")), int(10 ** draw.uniform(0, 2)), kind, 10 ** draw.uniform(0, 2.3))
        )
    if draw.random() < 0.4:  # whoever asks first dies while the others wait
        faults.append(Fault("ask", draw.randint(1, 5), "kill", 0.0))
    found = drawn_run(seed)
    return replace(
        found, cascade=False, servers=draw.randint(2, 5), texts=draw.randint(3, 40), retried=False, faults=tuple(faults)
    )


class VirtualLock:
    """A lock between the threads of one process."""

    def __init__(self, world: ProcessWorld) -> None:
        self.world, self.held = world, False
        self.waiting: deque[Any] = deque()

    def __enter__(self) -> None:
        while self.held:
            self.waiting.append(turn := self.world.loop.create_future())
            self.world.wait_for(turn)
        self.held = True

    def __exit__(self, *_: object) -> None:
        self.held = False
        if self.waiting:
            self.waiting.popleft().set_result(None)


class SlowLease(FileLease):
    """A lease of whose file each look and each write takes a time."""

    contender: Contender

    def _read(self) -> FileHolder | None:
        self.contender.touch()
        found = super()._read()
        self.contender.touch()
        return found

    def _write(self) -> Path:
        self.contender.touch()
        made = super()._write()
        self.contender.touch()
        return made


class SharedJournal(Journal):
    """The journal of one machine."""

    def __init__(self, contender: Contender) -> None:
        super().__init__(contender.lives.path, policy=POLICY)
        lease = SlowLease(self.path.with_name(f"{self.path.name}.lease"), POLICY)
        lease.contender, lease._lock = contender, VirtualLock(contender.lives.world)  # type: ignore[assignment]
        self._lease, self.contender = lease, contender

    def __exit__(self, *error: object) -> None:
        if self.contender.process.dead:
            os.close(self._file)  # the system does; its files stay
        else:
            super().__exit__(*error)


class Contender:
    """One of the runs, on a machine of its own."""

    def __init__(self, lives: ContentionLives, number: int) -> None:
        self.lives, self.number = lives, number
        self.process = Process(lives.world, f"machine {number}")
        self.frozen_until = self.gone_until = 0.0
        self.disturbed = False
        """Whether it was ever held up for long."""
        self.asks = self.lost = self.killed = False
        self.asked_without = 0
        """The requests that it sent after another run had begun to ask."""
        self.end = ""

    def touch(self) -> None:
        """Let the time of a look at the folder pass. Raises OSError where the folder is gone."""
        self.happen("file")
        self.pass_s(self.lives.draw.uniform(0.0, self.lives.file_s))
        if self.lives.world.seconds < self.gone_until:
            raise OSError(116, "Stale file handle")

    def happen(self, moment: str) -> None:
        """Let the fault of a moment happen to this machine."""
        world = self.lives.world
        world.alive()
        world.moment(moment)
        fault, self.lives.fault = self.lives.fault, None
        if fault is not None:
            if fault.kind == "kill":
                self.killed = True
                self.process.kill()
                self.lives.left(self)
                world.alive()
            until = world.seconds + fault.amount
            self.disturbed |= fault.amount > DISTURBED_S
            if fault.kind == "freeze":
                self.frozen_until = until
            else:
                self.gone_until = until
        self.pass_s(0.0)

    def pass_s(self, seconds: float) -> None:
        """Let time pass, and all for which the process is stopped."""
        world = self.lives.world
        world.wait(threading.Event(), seconds)
        while (left := self.frozen_until - world.seconds) > 1e-6:
            world.wait(threading.Event(), left)

    def run(self) -> None:
        """Run as a driver does: ask what is not answered, and store it."""
        lives = self.lives
        try:
            with SharedJournal(self) as journal:
                lives.begin_asking(self)
                for key in lives.keys:
                    if (key, 1) not in journal and key not in lives.table:
                        self.ask(key)
                        journal.add({"request_hash": key, "attempt": 1})
                        journal.sync()
                        if not self.lost:
                            lives.kept.add(key)
                journal.hold()
                stored = journal.keys()
                lives.table |= {key for key, _ in stored}
                journal.clear()
            self.end = "done"
        except LeaseLostError:
            self.end = "lost"
        except RunError as error:
            self.end = "busy" if "another run" in str(error) else "gone"
        finally:
            if not self.process.dead:
                lives.world.note(f"machine {self.number} ends: {self.end}")
                lives.left(self)

    def ask(self, key: str) -> None:
        """Send a request, and wait for its answer."""
        self.happen("ask")
        self.lives.on_ask(self, key)
        self.pass_s(self.lives.scenario.weather.latency_s)


@dataclass
class ContentionLives(FaultyLives):
    """One seed: runs that begin at about the same time, and one after them."""

    scenario: Scenario
    folder: Path
    world: ProcessWorld = field(init=False)
    fault: Fault | None = None
    kept: set[str] = field(default_factory=set)
    """What a run that held the lease has stored."""
    table: set[str] = field(default_factory=set)
    exposed: Counter[str] = field(default_factory=Counter)
    in_flight: dict[int, str] = field(default_factory=dict)
    contenders: list[Contender] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    lives: int = 0

    def __post_init__(self) -> None:
        scenario = self.scenario
        self.begin_in(ProcessWorld(scenario.seed))
        self.asked = self.network.delivered.asked
        self.draw = random.Random(f"folder {scenario.seed}")
        self.file_s = self.draw.choice(FILE_S)
        self.keys = [f"{number:064x}" for number in range(scenario.texts)]
        self.path = self.folder / "spark.journal"

    def happen(self, moment: str, fault: Fault) -> None:  # noqa: ARG002
        self.fault = fault  # the machine at which it happens takes it

    def run(self) -> None:
        """Live. Raises BrokenError."""
        starts = [0.0]
        while len(starts) < self.scenario.servers:
            at = self.draw.random()  # at the begin, or with the one before, or later
            starts.append(0.0 if at < 0.3 else starts[-1] if at < 0.6 else self.draw.uniform(0.0, 90.0))
        with running_in(self.world):
            for number, start in enumerate(starts):
                self.begin(number + 1, start)
            self.until_ended(self.contenders)
            self.faults.clear()
            self.begin(len(starts) + 1, 0.0)
            self.until_ended(self.contenders[-1:])
            self.problems += self.world.bury()
        if self.contenders[-1].end != "done":
            self.problems.append(f"the last run ends: {self.contenders[-1].end}")
        if self.table != set(self.keys):
            self.problems.append(f"{len(self.table)} of {len(self.keys)} are stored")
        whole = not any(one.killed or one.gone_until for one in self.contenders)
        if whole and (files := sorted(self.folder.iterdir())):
            self.problems.append(f"left behind: {', '.join(file.name for file in files)}")
        if self.problems:
            raise BrokenError(self.problems[0])

    def begin(self, number: int, start: float) -> None:
        self.lives += 1
        self.contenders.append(contender := Contender(self, number))
        self.world.loop.call_later(start, contender.process.begin, contender.run)

    def until_ended(self, contenders: list[Contender]) -> None:
        """Wait until these have ended."""

        async def waiting() -> None:
            while not all(one.process.dead or one.end for one in contenders) and self.world.seconds < LONGEST_S:
                await asyncio.sleep(0.5)

        try:
            self.world.loop.run_until_complete(waiting())
        except Hung as hung:
            raise BrokenError(f"hangs: {hung}") from None
        if waits := [one.number for one in contenders if not (one.process.dead or one.end)]:
            raise BrokenError(f"machines {waits} have not ended after {self.world.seconds:,.0f} s")

    # What must hold --------------------------------------------------------------------------------------------------

    def begin_asking(self, contender: Contender) -> None:
        """Check that nobody else has the answers who could know that."""
        self.world.note(f"machine {contender.number} asks")
        for other in self.contenders:
            if other is not contender and other.asks:
                if not other.disturbed and not contender.disturbed:
                    self.problems.append(f"machines {other.number} and {contender.number} ask at once")
                other.lost = True
                if (key := self.in_flight.get(other.number)) is not None:
                    self.exposed[key] += 1
        contender.asks = True

    def on_ask(self, contender: Contender, key: str) -> None:
        """Check that a request is not stored, and that its run may send it."""
        self.world.note(f"machine {contender.number} sends {int(key, 16)}")
        self.asked.append(key)
        self.in_flight[contender.number] = key
        if contender.lost:
            self.exposed[key] += 1
            contender.asked_without += 1
            if contender.asked_without > 1:
                self.problems.append(f"machine {contender.number} asks on, although another one has the answers")
        elif key in self.kept:
            self.problems.append(f"machine {contender.number} asks {int(key, 16)}, which is stored")
        elif self.asked.count(key) > 1 + self.exposed[key]:
            self.problems.append(f"{int(key, 16)} is asked again, and nothing was in flight")

    def left(self, contender: Contender) -> None:
        """Note what a run leaves in flight."""
        contender.asks = False
        key = self.in_flight.pop(contender.number, None)
        if key is not None and key not in self.kept:
            self.exposed[key] += 1


def live(scenario: Scenario) -> ContentionLives:
    """Run a scenario. Raises BrokenError."""
    lives: ContentionLives = lived(ContentionLives, scenario)
    return lives
