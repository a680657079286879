"""The lives of one gateway and its callers: started, killed, ended, started again; and what must hold."""

from __future__ import annotations

import asyncio
import json
import math
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb
import orjson

import sqlenrich as se
from sqlenrich.core.errors import RunError
from sqlenrich.core.runtime import loop_thread, running_in
from sqlenrich.gateway.answer_store import AnswerStore, NewAnswer, StoredAnswer
from sqlenrich.gateway.counts import ALL, GatewayPolicy
from sqlenrich.gateway.exchange import Exchange, Reply
from sqlenrich.gateway.pages import PAGES
from sqlenrich.gateway.request import read_request
from sqlenrich.gateway.spending import Spending
from sqlenrich.spec.settings import Config
from sqlenrich.store.answer_journal import journal_path
from tests.simulation.faults import FaultyLives, shortest_window, tear
from tests.simulation.lives import CANARIES, MOST_LIVES, PAUSE_S, PRICES, SECRET, BrokenError, Notes, lived
from tests.simulation.network import ANSWER_COST, PORT, PROMPT, STATUSES, Network, answer_to
from tests.simulation.scenario import POISONED_EACH, POISONED_FIRST, Fault, Scenario, drawn_run, poisoned
from tests.simulation.world import Hung, Killed, World

PAGE = PAGES["/chat/completions"]
MOST_CALLS = 6
"""How often a caller asks for one answer before it goes on to the next."""
LONGEST_REPLY_S = 3600.0
RECOVERY_S = 6.0
"""A server that is well again is found after this time and a timeout at most: it is tried each 5 s."""
POLICY = GatewayPolicy(queue_s=120.0, watch_s=0.1)
PASSED = STATUSES.keys() - {"401"}
"""The refusals that reach a caller as they are; one of the gateway's own key is none of its callers'."""
STORE_FAULTS = ("kill-before", "kill-after", "torn", "full")


def drawn(seed: int) -> Scenario:
    """Return the scenario of a seed: ``rows`` requests of all callers, for ``texts`` answers."""
    found = drawn_run(seed)
    draw = random.Random(f"gateway {seed}")
    faults = [one for one in found.faults if one.moment == "request"]
    for _ in range(draw.choice((0, 1, 2, 4))):
        moment = draw.choice(("keep", "keep", "turn"))
        kind = "kill-before" if moment == "turn" else draw.choice(STORE_FAULTS)
        number = draw.randint(1, 20) if moment == "keep" else int(10 ** draw.uniform(0.5, 3.6))
        faults.append(Fault(moment, number, kind, draw.random()))
    faults += [Fault("call", draw.randint(1, found.rows), "leave", draw.uniform(0.1, 5.0)) for _ in range(3)]
    if seed % POISONED_EACH == POISONED_FIRST:
        found = poisoned(found)
    return replace(
        found, cascade=False, batches=None, retried=False, max_calls=None, faults=tuple(faults),
        max_cost=draw.choice((None, draw.uniform(0.3, 1.5) * ANSWER_COST * found.texts)),
    )  # fmt: skip


class SimStore(AnswerStore):
    """The answers in a real journal; each write is a moment, at which the process may end."""

    def __init__(self, path: Path, lives: GatewayLives) -> None:
        super().__init__(path, Config(prices=PRICES))
        self.lives = lives

    def keep(self, answers: Sequence[NewAnswer]) -> list[StoredAnswer]:
        lives = self.lives
        lives.world.moment("keep")
        fault, lives.at_keep = lives.at_keep, None
        kind = "" if fault is None else fault.kind
        if kind == "kill-before":
            lives.kill()
        if kind == "full":
            lives.unkept |= {lives.text_of(one) for one in answers}
            lives.full_at = lives.world.seconds
            raise RunError("the folder takes no more answers (No space left on device)")
        before = self.journal.end
        stored = super().keep(answers)
        if kind == "torn" and fault is not None:
            lives.kill(torn=(before, fault.amount))
        lives.note_kept(answers, stored)
        if kind == "kill-after":
            lives.kill()
        return stored


@dataclass
class GatewayLives(FaultyLives):
    """One seed: all lives of one gateway, and what they have in common."""

    scenario: Scenario
    folder: Path
    world: World = field(init=False)
    network: Network = field(init=False)
    at_keep: Fault | None = None
    kept: dict[str, str] = field(default_factory=dict)
    """The body of each prompt's answer that is stored for good."""
    unkept: set[str] = field(default_factory=set)
    """The prompts whose answers the disk did not take."""
    full_at: float = -math.inf
    """When the disk was full last."""
    lost: set[str] = field(default_factory=set)
    """The prompts whose answers had arrived and were lost with a process."""
    answered: set[str] = field(default_factory=set)
    """The prompts to which a whole answer came in this life."""
    asking: set[str] = field(default_factory=set)
    """The prompts that are at a server."""
    refused: dict[str, str] = field(default_factory=dict)
    """How the last request of each prompt failed."""
    done: list[int] = field(default_factory=list)
    """How many answers each caller has got, or given up."""
    problems: list[str] = field(default_factory=list)
    lives: int = 0
    failed_before: int = 0
    stopping: bool = False
    over: bool = False
    """Whether its callers have left."""
    notes: Notes = field(default_factory=Notes)

    def __post_init__(self) -> None:
        scenario = self.scenario
        self.begin_in(World(scenario.seed))
        self.network.on_leave, self.network.on_abandon = self.asking.discard, self.on_abandon
        self.network.on_failure = self.on_failure
        draw = random.Random(f"callers {scenario.seed}")
        callers = draw.choice((1, 3, 10, 40))
        texts = [draw.randrange(scenario.texts) for _ in range(scenario.rows)]
        self.calls = [texts[number::callers] for number in range(callers)]
        self.done = [0] * callers
        self.shortest: tuple[int, set[str]] = (10**9, set())
        self.policy = replace(POLICY, grace_s=3.0 if scenario.seed % 4 else 60.0)

    # Faults ----------------------------------------------------------------------------------------------------------

    def end_by(self, fault: Fault) -> None:
        if fault.kind == "kill-before":
            self.kill()
        self.stopping = True

    def happen(self, moment: str, fault: Fault) -> None:
        if moment == "keep":
            self.at_keep = fault
        else:
            self.kill()

    def kill(self, torn: tuple[int, float] | None = None) -> None:
        """End the process here: what is in the files now is what the next life finds."""
        self.world.note("killed")
        self.leave_files(torn)
        self.world.dead = True
        raise Killed

    def path(self, life: int) -> Path:
        """Return the database of a life."""
        return self.folder / f"life-{life}" / "answers.duckdb"

    def leave_files(self, torn: tuple[int, float] | None = None) -> None:
        """Copy the files to the next life; of the journal, with ``torn``, only a share of what followed a place."""
        path, copy = self.path(self.lives), self.path(self.lives + 1)
        copy.parent.mkdir()
        for one, other in ((path, copy), (journal_path(path), journal_path(copy))):
            if one.exists():
                shutil.copy(one, other)
        if torn is not None:
            tear(journal_path(copy), *torn)

    # What is watched -------------------------------------------------------------------------------------------------

    def text_of(self, new: NewAnswer) -> str:
        """Return the prompt of an answer."""
        return str(json.loads(new.request.sent)["messages"][-1]["content"])

    def note_kept(self, answers: Sequence[NewAnswer], stored: Sequence[StoredAnswer]) -> None:
        self.world.note(f"kept {len(answers)}")
        for new, one in zip(answers, stored, strict=True):
            self.kept[self.text_of(new)] = one.body

    def on_request(self, prompt: str) -> None:
        """Refuse what is stored, and two equal requests at a time, but for one that shows whether a server is well."""
        may_be_canary = prompt in self.shortest[1] and self.network.delivered.failures > self.failed_before
        if not may_be_canary and prompt in self.kept:
            self.problems.append(f"asked again, although it is stored: {prompt!r}")
        if not may_be_canary and prompt in self.asking:
            self.problems.append(f"asked twice at the same time: {prompt!r}")
        self.asking.add(prompt)

    def on_abandon(self, prompt: str, seconds: float) -> None:
        """Refuse the end of a request that was sent: its answer is paid for, whether or not its caller has left."""
        ends = self.over or self.troubled or self.world.dead
        ends |= self.scenario.weather.poison == "reset"  # where it alone is asked, its server is taken for down
        if not ends and prompt not in self.shortest[1] and seconds < self.scenario.timeout_s - 0.1:
            self.problems.append(f"given up after {seconds:.1f} s: {prompt!r}")

    def on_failure(self, kind: str, prompts: tuple[str, ...], _told_s: float) -> None:
        (prompt,) = prompts
        self.refused[prompt] = kind

    def on_answer(self, prompts: tuple[str, ...], _port: int) -> None:
        (prompt,) = prompts
        self.answered.add(prompt)
        size = len(prompt)
        if size < self.shortest[0]:
            self.shortest = size, set()
        if size == self.shortest[0]:
            self.shortest[1].add(prompt)

    def check_reply(self, text: str, reply: Reply, seconds: float) -> None:
        """Check what a caller got."""
        if seconds > LONGEST_REPLY_S:
            self.problems.append(f"a reply took {seconds:,.0f} s")
        if SECRET.encode() in reply.body:
            self.problems.append("the key is in a reply")
        if reply.status == 502 and text not in self.shortest[1] and self.refused.get(text) in PASSED:
            self.problems.append(f"a server refused it ({self.refused[text]}), and the caller got 502: {text!r}")
        if reply.status != 200:
            return
        found = json.loads(reply.body)["choices"][0]["message"]["content"]
        if text not in self.network.delivered.lied and found != answer_to(text):
            self.problems.append(f"{text!r} got {found!r}")
        if text in self.kept:
            if reply.body.decode() != self.kept[text]:
                self.problems.append(f"{text!r} got another answer than the stored one")
        elif text not in self.unkept:
            self.problems.append(f"an answer was given that is not stored: {text!r}")

    # Lives -----------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Live until all callers have their answers. Raises BrokenError."""
        self.path(1).parent.mkdir()
        while not self.live():
            if self.lives == MOST_LIVES:
                raise BrokenError(f"not done after {MOST_LIVES} lives")

    def live(self) -> bool:
        """Live once; tell whether all callers are done."""
        world, network = self.world, self.network
        self.lives += 1
        world.note(f"life {self.lives} begins")
        self.answered, self.stopping, self.over, self.failed_before = set(), False, False, network.delivered.failures
        self.asking.clear()
        network.forget_clients()
        asked_before = len(network.delivered.asked)
        store = SimStore(self.path(self.lives), self)
        try:
            with running_in(world):
                self.serve(store)
        except Killed:
            pass
        except Hung as hung:
            raise BrokenError(f"hangs: {hung}") from None
        finally:
            if store.journal._file >= 0:
                store.__exit__()
        killed = world.dead
        self.problems += world.bury()
        self.lost |= self.answered - set(self.kept)
        self.check_life(asked_before)
        if not killed and not self.stopping:
            self.check_end()
            return True
        if not killed:
            self.leave_files()
        world.seconds += PAUSE_S
        return False

    def serve(self, store: SimStore) -> None:
        """Open a gateway, let its callers call, and end it."""
        scenario = self.scenario
        urls = [f"http://127.0.0.1:{PORT + number}/v1" for number in range(scenario.servers)]
        endpoint = se.Endpoint(
            urls[0], others=tuple(urls[1:]), concurrency=scenario.concurrency, rpm=scenario.rpm,
            timeout=scenario.timeout_s, api_key=SECRET,
        )  # fmt: skip
        store.__enter__()
        for text, body in self.kept.items():
            found = store.find(store.hash_of(read_request(PAGE, request_of(text), {}), ""))
            if found is None or found.body != body:
                raise BrokenError(f"the stored answer is lost, or another one: {text!r}")
        for row in store.journal.rows():  # the last write of a dead process may be there in part
            self.kept.setdefault(json.loads(row["body"])["messages"][-1]["content"], row["response"])
        store.publish(self.notes)
        thread = loop_thread("gateway")
        thread.start()
        exchange = Exchange(
            store, endpoint, Spending(scenario.max_cost, PRICES), reuse=ALL, policy=self.policy, note=self.notes.note
        )
        thread.run(self.callers(exchange))
        self.over = True
        thread.run(exchange.close())
        thread.end()
        store.publish(self.notes)

    async def callers(self, exchange: Exchange) -> None:
        """Call until all is answered, or the gateway is told to end."""
        await exchange.open()
        calling = [asyncio.ensure_future(self.caller(exchange, number)) for number in range(len(self.calls))]
        while not all(one.done() for one in calling) and not self.stopping:
            await asyncio.wait(calling, timeout=0.5)
        if self.stopping:
            self.world.note("told to end")
            began = self.world.seconds
            await exchange.close()
            if self.world.seconds - began > self.policy.grace_s + 5:
                self.problems.append(f"it was told to end, and ended after {self.world.seconds - began:.1f} s")
        for one in calling:
            one.cancel()
        for ended in await asyncio.gather(*calling, return_exceptions=True):
            if isinstance(ended, Exception):
                self.problems.append(f"a caller got {ended!r}")

    async def caller(self, exchange: Exchange, number: int) -> None:
        """Ask for one answer after the other; a refusal is tried again some times."""
        while self.done[number] < len(self.calls[number]):
            text = f"{PROMPT}text {self.calls[number][self.done[number]]}"
            for attempt in range(MOST_CALLS):
                failures = self.network.delivered.failures
                status = await self.call(exchange, text)
                if status != 200:
                    self.world.note(f"{text!r} got {status}")
                happened = failures < self.network.delivered.failures or self.troubled or self.network.poison(text)
                happened |= self.scenario.weather.poison == "silent"  # it may have the only place in flight
                happened |= status == 503 and self.overloaded
                if status not in (200, 402, -1) and not happened:
                    self.problems.append(f"refused with {status}, and nothing was wrong: {text!r}")
                if status in (200, 402, -1) or self.stopping:
                    break
                await asyncio.sleep(2.0**attempt)
            if self.stopping and status != 200:
                return
            self.done[number] += 1

    @property
    def troubled(self) -> bool:
        """Whether a refusal has a cause now: it ends, the disk was full, or a server is down."""
        full = self.world.seconds < self.full_at + POLICY.full_disk_s
        since = self.world.seconds - RECOVERY_S - self.scenario.timeout_s
        return self.stopping or full or any(until > since for _, until in self.network.down.values())

    @property
    def overloaded(self) -> bool:
        """Whether a request may wait too long for those before it."""
        slowest = self.scenario.weather.latency_s * math.exp(3 * self.scenario.weather.spread)
        return len(self.calls) * slowest / (self.scenario.concurrency or 8) > POLICY.queue_s

    async def call(self, exchange: Exchange, text: str) -> int:
        """Ask for an answer. Return its status; -1 where the caller has left."""
        self.world.numbers["call"] = number = self.world.numbers.get("call", 0) + 1
        leaves = self.faults.pop(("call", number), None)
        left = asyncio.Event()
        began = self.world.seconds

        async def gone() -> None:
            await left.wait()

        answering = asyncio.ensure_future(exchange.answer(PAGE, request_of(text), {}, gone))
        if leaves is not None:
            await asyncio.wait([answering], timeout=leaves.amount)
            if not answering.done():
                self.world.note(f"a caller leaves: {text!r}")
                left.set()
                return -1
        reply = await answering
        self.check_reply(text, reply, self.world.seconds - began)
        return reply.status

    # What must hold --------------------------------------------------------------------------------------------------

    def check_life(self, asked_before: int) -> None:
        """Check the limits and the caps of the life."""
        scenario, network = self.scenario, self.network
        if self.problems:
            raise BrokenError(self.problems[0])
        paid = len(self.answered) * ANSWER_COST
        if scenario.max_cost is not None and paid > scenario.max_cost + 1e-9:
            raise BrokenError(f"paid {paid:.2f}, and max_cost is {scenario.max_cost:.2f}")
        if scenario.rpm is not None:
            at = [when for when, _ in network.delivered.at[asked_before:]]
            if shortest_window(at, scenario.rpm * scenario.servers) < 60.0 - 0.5:
                raise BrokenError(f"more than {scenario.rpm} requests in a minute")
        most = network.most_in_flight
        if scenario.concurrency is not None and most > scenario.concurrency + CANARIES * scenario.servers:
            raise BrokenError(f"{most} requests in flight, and the concurrency is {scenario.concurrency}")

    def check_end(self) -> None:
        """Compare the tables and the counts with what was seen."""
        path, delivered = self.path(self.lives), self.network.delivered
        again = [prompt for prompt, times in delivered.good.items() if times > 1]
        again = [one for one in again if one not in self.lost and one not in self.unkept | self.shortest[1]]
        if again:
            raise BrokenError(f"{len(again)} answers were paid for again, such as that to {again[0]!r}")
        if not self.kept:
            return
        with duckdb.connect(str(path), read_only=True) as db:
            rows = db.execute("SELECT request_hash, response FROM gateway_responses").fetchall()
        if sorted(body for _, body in rows) != sorted(self.kept.values()):
            raise BrokenError(f"{len(rows)} answers are in the table, and {len(self.kept)} were stored")
        if SECRET.encode() in path.read_bytes() + journal_path(path).read_bytes():
            raise BrokenError("the key is in a file")
        if any(SECRET in line for line in self.notes.lines):
            raise BrokenError("the key is in a note")


def request_of(text: str) -> bytes:
    """Return the body of a caller's request."""
    return orjson.dumps({"model": "m", "messages": [{"role": "user", "content": text}], "max_tokens": 100})


def live(scenario: Scenario) -> GatewayLives:
    """Run a scenario. Raises BrokenError."""
    lives: GatewayLives = lived(GatewayLives, scenario)
    return lives
