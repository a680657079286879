"""Kill and stop runs on a warehouse's stand-in, spoil its network, and count what was lost or asked twice.

    python benchmarks/warehouse_kills.py snowflake|bigquery|databricks [--kills 60] [--stops 30 200] [--faults 0.03]
                                         [--rows 400] [--seed 1]

Each run is a process. A statement of a killed or stopped run goes on in the stand-in. The trials, each over an empty
schema:

- kills: SIGKILL at random moments, and the next run begins at once: "start", before the run asks; "submit", when the
  stand-in has taken a statement that asks and before the run has stored its id; "ask", while such a statement runs;
  "end", when all is answered and the tables are made;
- stop: SIGSTOP while a statement asks, a second run beside it, and SIGCONT after so many seconds, with the lease of the
  product (90 s);
- faults: this share of all requests to the stand-in is dropped, late, doubled or cut by a proxy
  (tests/support/faulty_proxy.py), in runs of which each may ask half of the requests (``--max-calls``).

The checks after the last run, which nothing disturbs: each request was asked once and has one stored answer, each row
is in NAME or NAME_quarantine once, and no run passed its cap by the model's own count.

Prints a line of JSON for each event, and a table. The exit status is 1 if a check failed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from local import markdown, show

import sqlenrich as se
from tests.support.faulty_proxy import faulty_proxy
from tests.support.warehouse_runs import PROMPT, quick_backend
from tests.support.warehouses import MODULES, Standin, standin

CLIENTS = {"snowflake": "snowflake.connector", "bigquery": "google.cloud.bigquery", "databricks": "databricks.sql"}
CHUNK_ROWS = 8
ASKED_S = 0.6
"""About the time of a statement that asks."""
SHORT_LEASE_S, LEASE_S = 2.0, 90.0
"""How long the lease of a killed run, and of a stopped one, holds up the next one."""
MOST_RUNS = 12
"""The runs with faults that may be needed to ask all."""
POLL_S = 0.005
LEDGER = "_sqlenrich_statements"
CHECKS = ("lost", "asked twice", "stored twice", "keys not rows", "cap passed")


@dataclass(frozen=True)
class Runs:
    """The runs of one prompt file on a stand-in, each as a process."""

    place: Standin
    requests: int
    chance: random.Random

    def start(self, lasts_s: float = SHORT_LEASE_S, max_calls: int | None = None) -> BaseProcess:
        """Start a run. The processes are forks of one that has imported the client, and share nothing else."""
        arguments = (self.place.engine, str(self.place.folder), self.place.source, self.place.schema)
        process = multiprocessing.get_context("forkserver").Process(target=run, args=(*arguments, lasts_s, max_calls))
        process.start()
        return process

    def moment(self, phase: str, process: BaseProcess) -> bool:
        """Wait for a moment of a phase; False where the run ended first."""
        before, statements = self.place.asking(), self.chance.randint(1, 3)
        if phase == "start":
            time.sleep(self.chance.uniform(0.0, 2.0))
        elif phase == "end":
            until(lambda: len(self.place.prompts()) >= self.requests, process)
            time.sleep(self.chance.uniform(0.0, 2.0))
        else:
            until(lambda: self.place.asking() >= before + statements, process)
            time.sleep(self.chance.uniform(0.0, ASKED_S) if phase == "ask" else 0.0)
        return process.is_alive()

    def killed(self, phase: str) -> bool:
        """Start a run and kill it at a moment of a phase; False where it ended first."""
        process = self.start()
        alive = self.moment(phase, process)
        process.kill()
        process.join()
        return alive and process.exitcode == -9


def run(engine: str, folder: str, source: str, output: str, lasts_s: float, max_calls: int | None) -> None:
    """Run to the end; an error is a line and the exit status 1."""
    os.environ["DBT_PROFILES_DIR"] = folder
    prompt = Path(folder) / "tickets.prompt"
    backend = quick_backend(engine, prompt, output, lasts_s=lasts_s)
    try:
        report = se.run(se.load(prompt), input=source, output=backend, chunk_rows=CHUNK_ROWS, max_calls=max_calls)
    except se.SqlenrichError as error:
        show({"error": str(error)[:200]})
        raise SystemExit(1) from None
    show({"calls": report.calls, "pending": report.pending})


def until(true: Callable[[], bool], process: BaseProcess) -> None:
    """Wait until something is so, or the process has ended."""
    while process.is_alive() and not true():
        time.sleep(POLL_S)


def without_id(place: Standin) -> int:
    """Return how many statements of dead runs have no id in the ledger."""
    if LEDGER not in place.tables():
        return 0
    states: dict[str, set[str]] = {}
    for id, state in place.rows(LEDGER, "job_id", "state", where="kind = 'call'"):
        states.setdefault(id, set()).add(state)
    return sum(found == {"open"} for found in states.values())


def phases(kills: int, chance: random.Random) -> list[str]:
    """Return the phase of each kill: a sixth at the start, a sixth at the end, the others in the two between."""
    edge = max(1, kills // 6)
    between = ["submit", "ask"] * ((kills - 2 * edge + 1) // 2)
    early = ["start"] * edge + between[: kills - 2 * edge]
    chance.shuffle(early)
    return early + ["end"] * edge


def killed(runs: Runs, kills: int) -> Mapping[str, Any]:
    """Kill runs; return what was done."""
    done: Counter[str] = Counter()
    no_id = ended = 0
    order = phases(kills, runs.chance)
    while done.total() < kills and ended < kills:
        phase = order[done.total()]
        if not runs.killed(phase):
            ended += 1
            continue
        done[phase] += 1
        found = without_id(runs.place)
        no_id += found
        show({"phase": phase, "asked": len(runs.place.prompts()), "without_id": found})
    counts = ", ".join(f"{count} {phase}" for phase, count in sorted(done.items()))
    return {"trial": f"{done.total()} kills ({counts}; {no_id} before the id was stored)"}


def stopped(runs: Runs, seconds: float) -> Mapping[str, Any]:
    """Stop a run for a while, beside a second one; return how both ended."""
    before, first = runs.place.asking(), runs.start(LEASE_S)
    until(lambda: runs.place.asking() >= before + 2, first)
    assert first.pid is not None
    os.kill(first.pid, signal.SIGSTOP)
    second = runs.start(LEASE_S)
    time.sleep(seconds)
    os.kill(first.pid, signal.SIGCONT)
    for process in (first, second):
        process.join()
    return {
        "trial": f"stop of {seconds:.0f} s (the stopped run ended with {first.exitcode}, the one beside it with "
        f"{second.exitcode})"
    }


def spoiled(runs: Runs, share: float) -> Mapping[str, Any]:
    """Run to the end over a network that loses, delays, doubles and cuts; return what it did and the caps passed."""
    place, most, passed, count = runs.place, max(1, runs.requests // 2), 0, 0
    certificate = place.process.get("/certificate") if place.engine == "databricks" else None
    port = urlsplit(place.process.url).port
    assert port is not None
    with faulty_proxy(port, share, seed=runs.chance.randrange(1 << 30), certificate=certificate) as proxy:
        place.write_profile(**place.fields(proxy.server_port))
        while len(set(place.prompts())) < runs.requests and count < MOST_RUNS:
            before = len(place.prompts())
            process = runs.start(max_calls=most)
            process.join()
            passed += max(0, len(place.prompts()) - before - most)
            count += 1
    place.write_profile()
    met = ", ".join(f"{proxy.met[kind]} {kind}" for kind in sorted(proxy.met) if kind)
    return {"trial": f"{share:.0%} of {proxy.requests:,} requests in {count} runs: {met}", "cap passed": passed}


def trials(given: argparse.Namespace) -> Iterator[tuple[int, Callable[[Runs], Mapping[str, Any]]]]:
    """Return what is tried, one after another, and over how many rows."""
    if given.kills:
        yield 10 * given.kills, lambda runs: killed(runs, given.kills)
    for seconds in given.stops:
        yield given.rows, lambda runs, seconds=seconds: stopped(runs, seconds)  # type: ignore[misc]
    if given.faults:
        yield given.rows, lambda runs: spoiled(runs, given.faults)


def measured(place: Standin, seed: int, requests: int, trial: Callable[[Runs], Mapping[str, Any]]) -> dict[str, Any]:
    """Try over an empty schema, run to the end, and count."""
    began, chance = time.monotonic(), random.Random(seed)
    rows = [{"id": str(n), "channel": "web", "body": f"text {n}"} for n in range(requests)]
    place.clear()
    place.load(rows)
    slow = ASKED_S / CHUNK_ROWS if place.engine == "databricks" else ASKED_S
    place.set(answers=str(place.folder / "tickets.prompt"), delay=slow)
    runs = Runs(place, requests, chance)
    done = trial(runs)
    last = runs.start()
    last.join()
    asked = Counter(place.prompts())
    stored = Counter(row[0] for row in place.rows("tickets_responses", "request_hash"))
    keys = Counter(row[0] for name in ("tickets", "tickets_quarantine") for row in place.rows(name, "id"))
    return {
        "engine": place.engine,
        "requests": requests,
        "lost": requests - len(stored),
        "asked twice": asked.total() - len(asked),
        "stored twice": stored.total() - len(stored),
        "keys not rows": abs(requests - len(keys)) + keys.total() - len(keys),
        "cap passed": 0,
        "last run": last.exitcode,
        "s": round(time.monotonic() - began),
        **done,
    }


def main() -> None:
    """Try, count and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("engine", choices=list(MODULES))
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--stops", type=float, nargs="*", default=[30.0, 200.0], metavar="S")
    parser.add_argument("--faults", type=float, default=0.03, metavar="SHARE")
    parser.add_argument("--rows", type=int, default=200, help="of a stop and of the faults; each kill has 10")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    multiprocessing.get_context("forkserver").set_forkserver_preload([CLIENTS[given.engine], "sqlenrich.runner.run"])
    found: list[dict[str, Any]] = []
    with TemporaryDirectory() as name, standin(given.engine, Path(name)) as place:
        os.environ["DBT_PROFILES_DIR"] = name
        (place.folder / "tickets.prompt").write_text(PROMPT)
        for requests, trial in trials(given):
            found.append(measured(place, given.seed, requests, trial))
            show(found[-1])
    columns = ("engine", "trial", "requests", *CHECKS, "s")
    print(markdown(found, columns))
    if any(one["last run"] or any(one[check] for check in CHECKS) for one in found):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
