"""The lives of a driver and its workers, as Spark runs them: tasks on processes that die, and what must hold."""

from __future__ import annotations

import asyncio
import hashlib
import random
import shutil
import threading
from collections import Counter, deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlenrich.ask.asker import PREFLIGHT_REQUESTS
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import RunError
from sqlenrich.core.runtime import running_in, wait
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.messages import AnsweredRequest, Request
from sqlenrich.llm.throttle.budget import Budget
from sqlenrich.spark.address import DeskAddress
from sqlenrich.spark.assignment import Assignment
from sqlenrich.spark.desk import Desk
from sqlenrich.spark.journal import Journal, Row
from sqlenrich.spark.worker import Worker, WorkerError
from tests.simulation.faults import FaultyLives, shortest_window, tear
from tests.simulation.lives import CANARIES, MOST_LIVES, PAUSE_S, SECRET, BrokenError, lived
from tests.simulation.network import ANSWER_COST, PORT, PROMPT, Network, answer_to
from tests.simulation.processes import CURRENT, Process, ProcessWorld, Strand
from tests.simulation.scenario import POISONED_EACH, POISONED_FIRST, Fault, Scenario, drawn_run, poisoned
from tests.simulation.world import Hung, Killed

LONGEST_LIFE_S = 12 * 3600.0
MOST_FAILURES = 4
"""A task that fails this often fails the statement, as Spark has it."""
MOST_COST = 0.101
"""What one request costs at most: its answer has 10 tokens."""
PRICE = {"input": "0", "cached": "0", "output": "10000"}


def drawn(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    found = drawn_run(seed)
    draw = random.Random(f"fleet {seed}")
    faults = [one for one in found.faults if one.moment == "request" and one.kind not in ("stop-twice", "kill-before")]
    for _ in range(draw.choice((0, 1, 2, 4))):
        kind = draw.choice(("kill-worker", "kill-worker", "lose", "hold", "kill-driver", "stop"))
        number = int(10 ** draw.uniform(0.3, 2.8))
        faults.append(Fault("message", number, kind, draw.uniform(0.0, 90.0)))
    for _ in range(draw.choice((0, 0, 1, 2))):
        faults.append(
            Fault("keep", draw.randint(1, 20), draw.choice(("kill-before", "kill-after", "torn")), draw.random())
        )
    for _ in range(draw.choice((0, 0, 1, 2))):
        faults.append(Fault("task", draw.randint(1, 12), "ends-early", draw.uniform(0.0, 20.0)))
    if seed % POISONED_EACH == POISONED_FIRST:
        found = poisoned(found)
    return replace(
        found, cascade=False, batches=None, retried=False, concurrency=found.concurrency or 32, faults=tuple(faults)
    )


@dataclass
class Task:
    """One task: its requests, and what it got."""

    number: int
    requests: list[Request]
    failures: int = 0
    got: dict[str, Row] = field(default_factory=dict)
    done: bool = False


class SimJournal(Journal):
    """A journal each write of which is a moment at which the driver may end, on a disk that may be slow."""

    def __init__(self, path: Path, lives: FleetLives) -> None:
        super().__init__(path)
        self.lives = lives
        self.unsynced: list[tuple[int, Row]] = []
        """What was added since the last sync, each with the journal's end after it."""

    def add(self, *rows: Row) -> None:
        lives = self.lives
        lives.world.alive()
        lives.world.moment("keep")
        fault, lives.at_keep = lives.at_keep, None
        if fault is not None and fault.kind == "kill-before":
            lives.kill_driver()
        before = self._end
        super().add(*rows)
        self.unsynced += [(self._end, row) for row in rows]
        if fault is not None and fault.kind == "torn":
            lives.kill_driver(torn=(before, fault.amount))
        lives.kept |= {lives.prompts[row["request_hash"]] for row in rows if row["call_error"] is None}
        if fault is not None and fault.kind == "kill-after":
            lives.kill_driver()

    def sync(self) -> None:
        lives, end = self.lives, self._end
        if lives.sync_s:
            lives.world.wait(threading.Event(), lives.sync_s)
        super().sync()
        lives.durable |= {row["request_hash"] for place, row in self.unsynced if place <= end}
        self.unsynced = [one for one in self.unsynced if one[0] > end]


class SimWorker(Worker):
    """A worker that looks whether what is acknowledged is durable."""

    def __init__(self, address: DeskAddress, lives: FleetLives) -> None:
        super().__init__(address, "run")
        self.lives = lives
        self.last: Sequence[Row] = ()

    def tell(self, rows: Sequence[Row]) -> None:
        super().tell(rows)
        if not rows:
            return
        lost = [row for row in self.last if row["request_hash"] not in self.lives.durable]
        if lost:
            self.lives.problems.append(f"{len(lost)} answers are acknowledged before they are durable")
        self.last = rows


@dataclass
class FleetLives(FaultyLives):
    """One seed: all lives of one run on several processes."""

    scenario: Scenario
    folder: Path
    world: ProcessWorld = field(init=False)
    network: Network = field(init=False)
    at_keep: Fault | None = None
    kept: set[str] = field(default_factory=set)
    """The prompts whose answers are in the journal."""
    durable: set[str] = field(default_factory=set)
    """The requests whose answers no loss of power takes from the journal."""
    sent: dict[str, Process] = field(default_factory=dict)
    """By prompt: who asked it last."""
    exposed: Counter[str] = field(default_factory=Counter)
    """How often a prompt was sent by what ended, and was not stored."""
    shortest: dict[tuple[str | None, int, int], int] = field(default_factory=dict)
    """Of each process of a life and each server, the length of the shortest prompt that it answered."""
    canaries: set[str] = field(default_factory=set)
    """Those prompts, by which a client sees whether a server is well."""
    problems: list[str] = field(default_factory=list)
    lives: int = 0
    stopping: bool = False
    held: list[tuple[Process, Any, float, float]] = field(default_factory=list)
    """The connections of this life that were held, since when, and until when."""
    failed: str | None = None
    """What failed the run."""
    failed_before: int = 0
    """The failures of the lives before."""
    free: deque[Process] = field(default_factory=deque)
    """The processes that have no task."""
    late: Process | None = None
    """The process that began as the run ended."""
    loses: bool = False
    """Whether a connection was lost or held in this life."""
    fatal: bool = False
    """Whether a problem that every request would meet ended this life."""

    def __post_init__(self) -> None:
        scenario = self.scenario
        self.begin_in(ProcessWorld(scenario.seed))
        draw = random.Random(f"tasks {scenario.seed}")
        self.slots = draw.choice((1, 2, 3, 5))
        count = self.slots * draw.choice((1, 1, 2, 4))
        texts = [draw.randrange(scenario.texts) for _ in range(scenario.rows)]
        prompts = [f"{PROMPT}text {number}" for number in texts]
        self.prompts = {hashlib.sha256(one.encode()).hexdigest(): one for one in prompts}
        parts: list[list[Request]] = [[] for _ in range(count)]
        for place, prompt in enumerate(prompts):
            key = hashlib.sha256(prompt.encode()).hexdigest()
            part = parts[place % count]
            if all(one.request_hash != key for one in part):
                part.append(Request(key, 1, prompt))
        self.parts = parts
        self.speculates = draw.random() < 0.3
        self.begins_late = draw.random() < 0.5
        self.sync_s = draw.choice((0.0, 0.0, 0.01, 0.3))

    # Faults ----------------------------------------------------------------------------------------------------------

    def end_by(self, fault: Fault) -> None:  # noqa: ARG002
        self.stopping = True

    def happen(self, moment: str, fault: Fault) -> None:
        if moment == "keep":
            self.at_keep = fault
            return
        sockets = [one for process in self.workers for one in process.sockets if not one.closed]
        if fault.kind == "kill-driver":
            self.world.loop.call_soon(self.kill_driver, context=self.world.outside)
        elif fault.kind == "stop":
            self.end_by(fault)
        elif sockets:
            chosen = sockets[int(fault.amount * 1000) % len(sockets)]
            assert chosen.process is not None
            self.world.loop.call_soon(self.hit, fault, chosen, chosen.process, context=self.world.outside)

    def hit(self, fault: Fault, socket: Any, process: Process) -> None:
        """Kill a worker, break its connection, or hold what is sent."""
        if fault.kind == "kill-worker":
            self.expose(process)
            process.kill()
        elif fault.kind == "lose":
            self.loses = process.lost = True
            self.expose(process)
            socket.transport.abort()
        else:
            self.loses = process.lost = True
            self.expose(process)  # the desk may take it for lost
            now = self.world.monotonic()
            until = now + fault.amount
            socket.held_until = max(socket.held_until, until)
            self.held.append((process, socket, now, until))

    def expose(self, process: Process | None = None, told: Container[str] = ()) -> None:
        """Note what a process has sent and what is not stored: it may be asked again. None: all of them.

        ``told``: the prompts whose answers are on their way to the journal.
        """
        for prompt, by in self.sent.items():
            if (process is None or by is process) and prompt not in self.kept and prompt not in told:
                self.exposed[prompt] += 1

    def kill_driver(self, torn: tuple[int, float] | None = None) -> None:
        """End the driver here, and its executors with it."""
        if self.driver.dead:
            return
        self.leave_files(torn)
        self.driver.kill()
        self.world.alive()

    def journal_path(self, life: int) -> Path:
        return self.folder / f"life-{life}" / "journal"

    def leave_files(self, torn: tuple[int, float] | None = None) -> None:
        path, copy = self.journal_path(self.lives), self.journal_path(self.lives + 1)
        copy.parent.mkdir()
        if path.exists():
            shutil.copy(path, copy)
        if torn is not None:
            tear(copy, *torn)

    # What is watched -------------------------------------------------------------------------------------------------

    def on_request(self, prompt: str) -> None:
        process = CURRENT.get()
        if process is not None and process.lost:
            self.exposed[prompt] += 1  # it does not know yet that others ask what it asked
        canary = prompt in self.canaries or prompt in self.network.delivered.lied
        if prompt in self.kept and not canary and not self.exposed[prompt]:
            self.problems.append(f"asked again, although it is stored: {prompt!r}")
        if process is not None:
            self.sent[prompt] = process
            if process is self.late:
                self.problems.append(f"a worker that begins after the end of the run asks {prompt!r}")

    def on_answer(self, prompts: tuple[str, ...], port: int) -> None:
        (prompt,) = prompts
        process, size = CURRENT.get(), len(prompt)
        key = (None if process is None else process.name, self.lives, port)
        if size <= self.shortest.get(key, 10**9):
            self.shortest[key] = size
            self.canaries.add(prompt)

    # Lives -----------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Live until all is asked. Raises BrokenError."""
        self.journal_path(1).parent.mkdir(exist_ok=True)
        while not self.live():
            if self.lives == MOST_LIVES:
                raise BrokenError(f"not done after {MOST_LIVES} lives")

    def live(self) -> bool:
        """Live once; tell whether all is done."""
        world = self.world
        self.lives += 1
        world.note(f"life {self.lives} begins")
        self.stopping = self.loses = self.fatal = False
        self.sent.clear()
        self.held.clear()
        self.network.forget_clients()
        asked_before, self.failed_before = len(self.network.delivered.asked), self.network.delivered.failures
        self.driver, self.late = Process(world, "the driver"), None
        self.workers: list[Process] = []
        self.worker_of: dict[Process, Worker] = {}
        self.tasks = [Task(number, list(part)) for number, part in enumerate(self.parts)]
        self.done = False
        began = world.seconds
        with running_in(world):
            strand = self.driver.begin(self.drive)
            try:
                world.loop.run_until_complete(self.watched(strand))
            except Hung as hung:
                raise BrokenError(f"hangs: {hung}; {self.state()}") from None
            if not strand.ended.done():
                raise BrokenError(f"hangs: {world.seconds - began:,.0f} s; {self.state()}")
            killed = self.driver.dead
            disturbed = killed or self.loses or self.stopping or any(process.dead for process in self.workers)
            if strand.error is not None and not isinstance(strand.error, Killed | RunError):
                self.problems.append(f"the driver ended with {strand.error!r}")
            if not killed:
                self.expose()
            self.problems += world.bury()
        if killed:
            self.expose()
        self.after(asked_before)
        if not killed:
            self.check_account(self.network.delivered.asked[asked_before:], disturbed=disturbed)
        path = self.journal_path(self.lives)
        if path.exists() and SECRET.encode() in path.read_bytes():
            raise BrokenError("the key is in the journal")
        if self.done and not killed:
            return True
        if not killed:
            self.leave_files()
        world.seconds += PAUSE_S * self.lives
        return False

    async def watched(self, strand: Strand) -> None:
        """Wait until the driver has ended, or for the longest time."""
        await asyncio.wait([strand.ended], timeout=LONGEST_LIFE_S)

    def state(self) -> str:
        """Say what the tasks wait for."""
        open_tasks = [
            f"task {one.number} has {len(one.got)} of {len(one.requests)}" for one in self.tasks if not one.done
        ]
        return "; ".join(open_tasks) or "all tasks are done"

    # What the driver does.

    def drive(self) -> None:
        """Run all tasks, as Spark would."""
        scenario = self.scenario
        urls = [f"http://127.0.0.1:{PORT + number}/v1" for number in range(scenario.servers)]
        endpoint = Endpoint(
            urls[0], others=tuple(urls[1:]), concurrency=scenario.concurrency, rpm=scenario.rpm,
            timeout=scenario.timeout_s, api_key=SECRET,
        )  # fmt: skip
        first = self.lives == 1
        calls, cost = (scenario.max_calls, scenario.max_cost) if first else (None, None)
        self.budget = budget = Budget(max_calls=calls, max_cost=cost)
        with SimJournal(self.journal_path(self.lives), self) as journal:
            self.kept = {self.prompts[row["request_hash"]] for row in journal.rows() if row["call_error"] is None}
            with Desk(journal, endpoint, budget=budget) as desk:
                self.counts = desk.counts
                origin = {"run_id": "r", "version": None, "fingerprint": "f"}
                config = RequestConfig("m", params={"max_tokens": 10})
                desk.assignments["run"] = Assignment(endpoint, config, origin, PRICE)
                self.failed = None
                self.free = deque()
                self.ask_first(desk, journal)
                if self.failed is None and not self.stopping:
                    self.statement(desk)
                self.check_silent(desk)
                self.fatal = desk.fatal is not None
                capped = desk.budget.budget.reached is not None
                if self.failed is not None or self.stopping or capped or desk.fatal is not None:
                    self.world.note(f"ended: {desk.fatal or self.failed or 'told to end'}")
                else:
                    self.check_done(journal)
                    self.done = True

    def ask_first(self, desk: Desk, journal: Journal) -> None:
        """Ask a few requests in one task, as the asker of Spark does; where none is answered, a known one."""
        left = {one.request_hash: one for part in self.parts for one in part if (one.request_hash, 1) not in journal}
        first = [left[key] for key in sorted(left)[:PREFLIGHT_REQUESTS]]
        if not first or self.in_one_task(desk, lambda worker: worker.preflight(first)):
            return
        problem, self.failed = self.failed, None
        ended = self.stopping or desk.fatal is not None or desk.budget.budget.reached is not None
        known = next((row for row in journal.rows() if self.is_good(row)), None)
        if ended or known is None:
            self.failed = problem
            return
        request = AnsweredRequest(self.prompts[known["request_hash"]], known["latency_ms"])
        self.canaries.add(request.prompt)
        if self.in_one_task(desk, lambda worker: worker.ask_again(request)):
            self.world.note(f"answered again: {request.prompt!r}")
            desk.assignments["run"] = replace(desk.assignments["run"], answered=request)
        else:
            self.failed = problem

    def in_one_task(self, desk: Desk, work: Callable[[Worker], int]) -> int:
        """Do work in one task, which is tried again where it is lost; give its result, 0 where it failed."""
        results: list[int] = []
        for _ in range(MOST_FAILURES):
            process = self.free.popleft() if self.free else self.new_process()
            strand = process.begin(lambda of=process: results.append(work(self.worker(of, desk.address))))
            idle = threading.Event()
            while strand.is_alive() and not process.dead and not self.stopping:
                wait(idle, 0.25)
            if self.stopping:
                desk.drain()
                return 0
            if not process.dead:
                self.free.append(process)
            if results:
                return results[0]
            if isinstance(strand.error, RunError):
                self.failed = str(strand.error)
                return 0
            if not process.dead and not isinstance(strand.error, WorkerError | ConnectionError):
                self.problems.append(f"the first task ended with {strand.error!r}")
        self.failed = "the first task failed"
        return 0

    def is_good(self, row: Row) -> bool:
        """Whether a row of the journal has the answer of a model that does not lie."""
        prompt = self.prompts[row["request_hash"]]
        return row["call_error"] is None and prompt not in self.network.delivered.lied

    def statement(self, desk: Desk) -> None:
        """Run the tasks on as many processes as there are slots."""
        left = deque(self.tasks)
        running: dict[Process, tuple[Strand, Task]] = {}
        free, idle = self.free, threading.Event()
        while True:
            for process, (strand, task) in list(running.items()):
                if strand.is_alive() and not process.dead:
                    continue
                del running[process]
                if not process.dead:
                    free.append(process)
                if process.dead or strand.error is not None:
                    if not process.dead and not isinstance(strand.error, WorkerError | ConnectionError):
                        self.problems.append(f"a task ended with {strand.error!r}")
                    self.world.note(f"task {task.number} failed: {strand.error!r}")
                    task.failures += 1
                    task.got.clear()
                    left.append(task)
                    if task.failures == MOST_FAILURES:
                        self.failed = f"task {task.number} failed"
            if self.failed is not None or self.stopping:
                if left and self.begins_late:
                    self.begin_late(desk, left[0])
                desk.drain()
                if desk.busy() and not self.loses:
                    self.problems.append(f"{desk.busy()} workers still ask after the drain")
                return
            if not left and not running:
                return
            while left and len(running) < self.slots:
                process = free.popleft() if free else self.new_process()
                task = left.popleft()
                if not task.done:
                    self.begin(process, task, desk.address, running)
            if self.speculates and not left and len(running) < self.slots and (slow := self.slow(running)) is not None:
                copy = Task(slow.number, slow.requests)
                self.begin(free.popleft() if free else self.new_process(), copy, desk.address, running)
            wait(idle, 0.25)

    def begin_late(self, desk: Desk, task: Task) -> None:
        """Begin a task as the run ends: Spark may begin one before it hears of that."""
        self.late = self.new_process()
        self.late.begin(self.work, self.late, Task(task.number, task.requests), desk.address, None)

    def slow(self, running: dict[Process, tuple[Strand, Task]]) -> Task | None:
        """Return a task that runs once, to be run a second time."""
        numbers = Counter(task.number for _, task in running.values())
        return next((task for _, task in running.values() if numbers[task.number] == 1 and not task.done), None)

    def new_process(self) -> Process:
        self.workers.append(process := Process(self.world, f"worker {len(self.workers) + 1}"))
        return process

    def begin(self, process: Process, task: Task, address: DeskAddress, running: dict[Any, Any]) -> None:
        number = self.world.numbers["task"] = self.world.numbers.get("task", 0) + 1
        self.world.note(f"task {task.number} begins in {process.name}")
        early = self.faults.pop(("task", number), None)
        running[process] = process.begin(self.work, process, task, address, early), task

    def worker(self, process: Process, address: DeskAddress) -> Worker:
        """Return the worker of a process, which its tasks share."""
        worker = self.worker_of.get(process)
        if worker is None or worker.client.stopped:
            if worker is not None:
                worker.close()
            worker = self.worker_of[process] = SimWorker(address, self)
        return worker

    def work(self, process: Process, task: Task, address: DeskAddress, early: Fault | None) -> None:
        """What a process does for a task, as the function of Spark does it."""
        worker = self.worker(process, address)
        asking: Any = worker.ask(iter(task.requests))
        for rows in asking:
            for row in rows:
                task.got[row["request_hash"]] = row
                prompt = self.prompts[row["request_hash"]]
                if self.is_good(row) and row["response"] != answer_to(prompt):
                    self.problems.append(f"{prompt!r} got {row['response']!r}")
            if early is not None and len(task.got) >= early.amount:
                self.world.note(f"task {task.number} ends early")
                self.expose(process, {self.prompts[key] for key in task.got})
                asking.close()
                return
        missing = [one for one in task.requests if one.request_hash not in task.got]
        if missing and not worker.client.stopped and worker.problem is None:
            self.problems.append(f"task {task.number} ended without {len(missing)} of {len(task.requests)} answers")
        task.done = not missing

    @property
    def canary_calls(self) -> int:
        """The most requests of a life that are sent to see whether a server is well."""
        return CANARIES * self.scenario.servers * (self.slots + 1)

    # What must hold --------------------------------------------------------------------------------------------------

    def check_silent(self, desk: Desk) -> None:
        """Check that a worker is taken for lost that says nothing for long."""
        now, longest_s = self.world.monotonic(), 1.5 * desk.policy.silent_s
        for process, socket, since, until in self.held:
            gone = process.dead or socket.transport.closed  # one that is broken is no silent one
            if not gone and min(now, until) - since > longest_s:
                self.problems.append(f"{process.name} says nothing for {now - since:.0f} s, and is not taken for lost")

    def check_done(self, journal: Journal) -> None:
        """Check that all is stored that the tasks were given."""
        for task in self.tasks:
            for key, row in task.got.items():
                found = journal.get(key, 1)
                twice = self.exposed[self.prompts[key]]
                if (found is None or found["response"] != row["response"]) and not twice:
                    self.problems.append(f"task {task.number} got what is not stored")

    def after(self, asked_before: int) -> None:
        """Check what was asked, and the limits of the life."""
        scenario, delivered = self.scenario, self.network.delivered
        if self.problems:
            raise BrokenError(self.problems[0])
        asked = Counter(delivered.asked)
        for prompt, times in asked.items():
            allowed = 1 + self.exposed[prompt] + delivered.failed.get(prompt, 0)
            if times > allowed and prompt not in self.canaries:
                raise BrokenError(f"{prompt!r} was asked {times} times, and {allowed} are explained")
        calls = len(delivered.asked) - asked_before
        canaries = self.canary_calls
        if self.lives == 1 and scenario.max_calls is not None and calls > scenario.max_calls + canaries:
            raise BrokenError(f"{calls} requests, and max_calls is {scenario.max_calls}")
        if self.lives == 1 and scenario.max_cost is not None:
            paid = len(self.sent) * ANSWER_COST
            if paid > scenario.max_cost + ANSWER_COST * canaries and not delivered.failed:
                raise BrokenError(f"paid {paid:.2f}, and max_cost is {scenario.max_cost:.2f}")
        most = self.network.most_in_flight
        if scenario.concurrency is not None and most > scenario.concurrency + canaries and not self.loses:
            raise BrokenError(f"{most} requests in flight, and the concurrency is {scenario.concurrency}")
        if scenario.rpm is not None:
            at = [when for when, _ in delivered.at[asked_before:]]
            if shortest_window(at, scenario.rpm * scenario.servers) < 60.0 - 1.5:
                raise BrokenError(f"more than {scenario.rpm} requests in a minute")

    def check_account(self, asked: list[str], *, disturbed: bool) -> None:
        """Check that each request is counted, and that a cap of calls is made use of."""
        budget, counted, calls = self.budget, self.counts.calls, len(asked)
        least = len({*asked} - self.canaries) if disturbed else calls  # one that is gone may have sent a request twice
        if counted < least:
            raise BrokenError(f"{least} requests, and the desk counts {counted}")
        capped = budget.max_calls is not None or budget.max_cost is not None
        if capped and budget.calls + self.canary_calls < calls:
            raise BrokenError(f"{calls} requests, and {budget.calls} are charged")
        if budget.reached == "max_calls" and not (disturbed or self.fatal) and counted < (budget.max_calls or 0):
            raise BrokenError(f"max_calls is {budget.max_calls}, and the desk ends after {counted}")
        calm = not disturbed and self.network.delivered.failures == self.failed_before
        paid = len(self.sent) * ANSWER_COST
        if budget.reached == "max_cost" and calm and paid + MOST_COST < (budget.max_cost or 0):
            raise BrokenError(f"max_cost is {budget.max_cost}, and the desk ends after {paid:.2f}")


def live(scenario: Scenario) -> FleetLives:
    """Run a scenario. Raises BrokenError."""
    lives: FleetLives = lived(FleetLives, scenario)
    return lives
