"""What one seed draws: the input, the servers, the settings of the run, and the faults of all its lives."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, replace

from tests.simulation.network import ANSWER_COST, Weather
from tests.simulation.vendor import VendorNature

REQUEST_FAULTS = (
    "429", "busy", "500", "reset", "cut", "silent", "late", "error-200", "no-choice", "no-http", "lie",
)  # fmt: skip
OUTAGES = ("refuse", "busy", "silent", "429", "401")
VENDOR_FAULTS = ("unavailable", "too-many", "lost-before", "lost-after", "kill-before", "stop")
ANSWER_FAULTS = ("damaged", "broken-off", "gone", "refused")
"""What happens to the answers of a batch, or to all of it after its creation."""
BATCHES_FIRST, BATCHES_EACH = 1, 4
"""The seeds of runs by batches."""
EMBEDDINGS_FIRST, EMBEDDINGS_EACH = 3, 8
"""The seeds of runs for vectors."""
POISONED_FIRST, POISONED_EACH = 1, 5
"""The seeds of fleets and gateways in which texts may be at fault."""
ENDS_AT = {"append": ("kill-before",), "called": ("kill-before",), "vendor": ("kill-before", "stop")}
"""How a process may end at moments at which not every end is possible."""
STORE_FAULTS = ("kill-before", "kill-after", "torn", "full", "slow")

MOST_LATENCY_S = 4.5
"""Less than the shortest timeout: else no request might ever be answered."""


@dataclass(frozen=True)
class Fault:
    """One fault: at the moment of this kind and number, ``kind`` happens, with an amount that depends on it."""

    moment: str
    """``request``, ``append`` (a commit of answers), ``statement`` (any other), ``turn`` (of the loop), ``vendor`` (a
    call of the vendor of batches), ``called`` (its end) or ``wait`` (for batches). After ``retry `` the number counts
    from the begin of the retry that follows the run."""
    number: int
    kind: str
    amount: float = 0.0

    def __str__(self) -> str:
        return f"{self.kind} at {self.moment} {self.number}" + (f" ({self.amount:.3f})" if self.amount else "")


@dataclass(frozen=True)
class Batches:
    """The settings of a run by batches, and their vendor."""

    nature: VendorNature
    waits: bool
    """Whether a run lasts until its batches have ended."""
    requests: int
    """The requests of one batch at most."""
    probe: bool
    """Whether a single request goes ahead."""


@dataclass(frozen=True)
class Scenario:
    """One seed. Its faults happen once each, over all lives of the run."""

    seed: int
    cascade: bool
    """Whether a second model answers a sample, and the rows of which the first one is not certain enough."""
    rows: int
    texts: int
    """The distinct texts of the rows."""
    servers: int
    concurrency: int | None
    rpm: int | None
    """The limit that the user sets."""
    timeout_s: float
    commit_rows: int
    unstored: int
    max_calls: int | None
    """The cap of the first life."""
    max_cost: float | None
    """The cap of the first life's cost."""
    weather: Weather
    shuffles: bool
    faults: tuple[Fault, ...]
    batches: Batches | None = None
    """None: requests are sent one by one."""
    retried: bool = False
    """Whether the refused rows are asked again once the run is complete."""
    tpm: int | None = None
    """The limit of tokens that the user sets."""
    embeds: int | None = None
    """The texts of one request for vectors at most; None: each request asks for a text."""

    def without(self, places: Collection[int]) -> Scenario:
        """Return the scenario without some of its faults, by their place."""
        return replace(self, faults=tuple(one for place, one in enumerate(self.faults) if place not in places))


def drawn(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    return followed(beside_others(with_independent_faults(seed)))


def with_independent_faults(seed: int) -> Scenario:
    """Return the scenario of a seed before any fault follows another one, and where nobody else has batches."""
    found = drawn_run(seed)
    if seed % BATCHES_EACH == BATCHES_FIRST:
        return by_batches(found)
    if not found.cascade:
        found = poisoned(found)
    if seed % EMBEDDINGS_EACH == EMBEDDINGS_FIRST:
        found = embedding(found)
    return found if found.cascade else retried(found)


def drawn_run(seed: int) -> Scenario:
    """Return the scenario of a plain run."""
    draw = random.Random(f"scenario {seed}")
    rows = int(2 ** draw.uniform(3, 9))
    servers = draw.choice((1, 1, 1, 2, 3))
    requests = max(1, int(rows * draw.choice((0.3, 0.9, 1.0))))
    weather = Weather(
        latency_s=min(10 ** draw.uniform(-2, 0.7), MOST_LATENCY_S),
        spread=draw.choice((0.0, 0.2, 0.8)),
        rpm=draw.choice((None, None, None, int(2 ** draw.uniform(4, 9)))),
        tells_limits=draw.random() < 0.5,
        chunks=draw.choice((1, 1, 2, 7)),
    )
    return Scenario(
        seed=seed,
        cascade=seed % 4 == 0,
        rows=rows,
        texts=requests,
        servers=servers,
        concurrency=draw.choice((None, 1, 4, 16, 64)),
        rpm=draw.choice((None, None, None, int(2 ** draw.uniform(5, 9)))),
        timeout_s=draw.choice((5.0, 20.0, 60.0)),
        commit_rows=draw.choice((1, 8, 64, 128)),
        unstored=draw.choice((8, 64, 256)),
        max_calls=draw.choice((None, None, None, draw.randint(1, 2 * requests))),
        max_cost=draw.choice((None, None, None, draw.uniform(0.5, 2.0) * ANSWER_COST * requests)),
        weather=weather,
        shuffles=draw.random() < 0.5,
        faults=tuple(_faults(draw, requests, servers)),
    )


def embedding(scenario: Scenario) -> Scenario:
    """Return a scenario whose requests are for the vectors of several texts."""
    draw = random.Random(f"embedding {scenario.seed}")
    return replace(scenario, embeds=draw.choice((2, 5, 16, 64)), max_cost=None)


def poisoned(scenario: Scenario) -> Scenario:
    """Return a scenario in which some texts fail each request that has one, or the same."""
    draw = random.Random(f"poison {scenario.seed}")
    poison = draw.choice(("", "", "400", "500", "reset", "silent"))
    return replace(scenario, weather=replace(scenario.weather, poison=poison))


def by_batches(scenario: Scenario) -> Scenario:
    """Return a scenario whose requests go out in batches."""
    draw = random.Random(f"batches {scenario.seed}")
    nature = VendorNature(
        keeps_keys=draw.random() < 0.6,
        list_late_s=draw.choice((0.0, 0.0, 3.0, 25.0)),
        longest_s=10 ** draw.uniform(1.0, 4.9),
        odd=draw.choice((0.0, 0.05, 0.4)),
    )
    batches = Batches(
        nature,
        waits=draw.random() < 0.7,
        requests=draw.choice((3, 20, 100, 1000)),
        probe=draw.random() < 0.5,
    )
    faults = [
        Fault("vendor", draw.randint(1, 12), draw.choice(VENDOR_FAULTS)) for _ in range(draw.choice((0, 2, 4, 8)))
    ]
    faults += [Fault("called", draw.randint(1, 12), "kill-before") for _ in range(draw.choice((0, 0, 1, 2)))]
    faults += [
        Fault("wait", draw.randint(1, 12), draw.choice(("kill-before", "stop"))) for _ in range(draw.choice((0, 0, 1)))
    ]
    return replace(scenario, batches=batches, max_cost=None, servers=1, faults=(*scenario.faults, *faults))


def beside_others(scenario: Scenario) -> Scenario:
    """Return a scenario whose vendor others use too: their batches look alike, and they may cancel one of the run."""
    if scenario.batches is None:
        return scenario
    draw = random.Random(f"others {scenario.seed}")
    nature = replace(scenario.batches.nature, others=draw.choice((0.0, 0.0, 0.5, 1.0)))
    faults = list(scenario.faults)
    if draw.random() < 0.3:
        faults.append(Fault("vendor", draw.randint(1, 12), "wall", draw.uniform(-90_000, 90_000)))
    if draw.random() < 0.2:
        faults.append(Fault("vendor", draw.randint(3, 20), "halt"))
    for kind in draw.sample(ANSWER_FAULTS, draw.choice((0, 0, 1, 2))):
        faults.append(Fault("vendor", draw.randint(1, 12), kind))
    return replace(scenario, batches=replace(scenario.batches, nature=nature), faults=tuple(faults))


def retried(scenario: Scenario) -> Scenario:
    """Return a scenario whose refused rows are asked again, or the same."""
    draw = random.Random(f"retry {scenario.seed}")
    if draw.random() < 0.4:
        return scenario
    refused = max(1, scenario.texts // 13)
    kinds = [("append", kind, 6) for kind in STORE_FAULTS]
    kinds += [("statement", "kill-before", 30), ("turn", "kill-before", 40 * refused), ("request", "stop", 2 * refused)]
    faults = []
    for _ in range(draw.choice((0, 1, 2, 4))):
        moment, kind, most = draw.choice(kinds)
        amount = draw.random() if kind == "torn" else draw.uniform(0.0, 3.0)
        faults.append(Fault(f"retry {moment}", draw.randint(1, most), kind, amount))
    return replace(scenario, retried=True, faults=(*scenario.faults, *faults))


def followed(scenario: Scenario) -> Scenario:
    """Return a scenario in which some faults come in a row, or right before an end of the process."""
    draw = random.Random(f"followed {scenario.seed}")
    faults = list(scenario.faults)
    for fault in draw.sample(faults, min(len(faults), draw.choice((0, 1, 1, 2, 4)))):
        of_servers = "/" in fault.kind
        more = draw.randint(1, 8) if not of_servers and draw.random() < 0.5 else 0
        if fault.kind == "wall":
            more = 0  # a clock that is more than 26 hours ahead is not allowed for
        faults += [replace(fault, number=fault.number + step) for step in range(1, more + 1)]
        if draw.random() < 0.5:
            ends = ENDS_AT.get(fault.moment.removeprefix("retry "), ("kill-before", "stop", "stop-twice"))
            faults.append(Fault(fault.moment, fault.number + more + draw.randint(1, 3), draw.choice(ends)))
    return replace(scenario, faults=tuple(faults))


def _faults(draw: random.Random, requests: int, servers: int) -> list[Fault]:
    found = []
    kinds = draw.sample(REQUEST_FAULTS, draw.randint(1, 4))
    for _ in range(draw.choice((0, 0, 2, 10, requests // 3))):
        kind, number = draw.choice(kinds), draw.randint(1, 2 * requests)
        amount = {"429": draw.choice((0.0, 1.0, 7.0)), "busy": draw.choice((0.0, 2.0)), "reset": draw.random(),
                  "cut": draw.random(), "late": 10 ** draw.uniform(0, 2.3)}.get(kind, 0.0)  # fmt: skip
        found.append(Fault("request", number, kind, amount))
    for _ in range(draw.choice((0, 0, 1, 2))):
        kind, number, seconds = draw.choice(OUTAGES), draw.randint(1, requests), 10 ** draw.uniform(-0.5, 3.5)
        for server in range(1, servers + 1):
            if draw.random() < 0.7:
                found.append(Fault("request", number + server - 1, f"{kind}/{server}", seconds))
    for _ in range(draw.choice((0, 1, 1, 2, 4))):
        moment, kind = draw.choice(("append", "append", "statement", "turn", "request")), "kill-before"
        number = {"request": draw.randint(1, requests), "append": draw.randint(1, 12), "statement": draw.randint(1, 40),
                  "turn": int(10 ** draw.uniform(0.5, 3.6))}[moment]  # fmt: skip
        if moment == "append":
            kind = draw.choice(STORE_FAULTS)
        found.append(Fault(moment, number, kind, draw.random() if kind == "torn" else draw.uniform(0.0, 3.0)))
    for _ in range(draw.choice((0, 0, 0, 1, 2))):
        moment = draw.choice(("turn", "request"))
        number = draw.randint(1, requests) if moment == "request" else int(10 ** draw.uniform(0.5, 3.6))
        found.append(Fault(moment, number, draw.choice(("stop", "stop-twice")), 0.0))
    if draw.random() < 0.2:
        found.append(Fault("turn", int(10 ** draw.uniform(0.5, 3.3)), "wall", draw.uniform(-90_000, 90_000)))
    return found
