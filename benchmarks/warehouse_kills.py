"""Kill runs on a warehouse's stand-in at random moments, run to the end, and count what was lost or asked twice.

    python benchmarks/warehouse_kills.py snowflake|bigquery|databricks [--kills 30] [--rows 400] [--seed 1]

Each run is a process that ends by SIGKILL, and the next one begins at once. A statement of a killed run goes on in the
stand-in. The moments: "start", before the run asks; "submit", when the stand-in has taken a statement that asks and
before the run has stored its id; "ask", while such a statement runs; "end", when all is answered and the tables are
made. The checks after the last run, which nothing kills:

- each request was asked once, and has one stored answer;
- each row is in NAME or NAME_quarantine.

Prints a line of JSON for each kill, and a table. The exit status is 1 if a check failed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory

from local import markdown, show

import sqlenrich as se
from tests.support.warehouse_runs import PROMPT, quick_backend
from tests.support.warehouses import MODULES, Standin, standin

CLIENTS = {"snowflake": "snowflake.connector", "bigquery": "google.cloud.bigquery", "databricks": "databricks.sql"}
CHUNK_ROWS = 8
ASKED_S = 0.6
"""About the time of a statement that asks."""
LEASE_S = 2.0
"""How long the lease of a killed run holds up the next one."""
POLL_S = 0.005
LEDGER = "_sqlenrich_statements"


@dataclass(frozen=True)
class Runs:
    """The runs of one prompt file on a stand-in, each as a process."""

    place: Standin
    requests: int
    chance: random.Random

    def start(self) -> BaseProcess:
        """Start a run. The processes are forks of one that has imported the client, and share nothing else."""
        arguments = (self.place.engine, str(self.place.folder), self.place.source, self.place.schema)
        process = multiprocessing.get_context("forkserver").Process(target=run, args=arguments)
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


def run(engine: str, folder: str, source: str, output: str) -> None:
    """Run to the end."""
    os.environ["DBT_PROFILES_DIR"] = folder
    prompt = Path(folder) / "tickets.prompt"
    backend = quick_backend(engine, prompt, output, lasts_s=LEASE_S)
    se.run(se.load(prompt), input=source, output=backend, chunk_rows=CHUNK_ROWS)


def until(true: Callable[[], bool], process: BaseProcess) -> None:
    """Wait until something is so, or the process has ended."""
    while process.is_alive() and not true():
        time.sleep(POLL_S)


def without_id(place: Standin) -> int:
    """Give how many statements of dead runs have no id in the ledger."""
    if LEDGER not in place.tables():
        return 0
    states: dict[str, set[str]] = {}
    for id, state in place.rows(LEDGER, "job_id", "state", where="kind = 'call'"):
        states.setdefault(id, set()).add(state)
    return sum(found == {"open"} for found in states.values())


def phases(kills: int, chance: random.Random) -> list[str]:
    """Give the phase of each kill: a sixth at the start, a sixth at the end, the others in the two between."""
    edge = max(1, kills // 6)
    between = ["submit", "ask"] * ((kills - 2 * edge + 1) // 2)
    early = ["start"] * edge + between[: kills - 2 * edge]
    chance.shuffle(early)
    return early + ["end"] * edge


def main() -> None:
    """Kill, count and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("engine", choices=list(MODULES))
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    chance, began = random.Random(given.seed), time.monotonic()
    rows = [{"id": str(n), "channel": "web", "body": f"text {n}"} for n in range(given.rows)]
    multiprocessing.get_context("forkserver").set_forkserver_preload([CLIENTS[given.engine], "sqlenrich.runner.run"])
    with TemporaryDirectory() as name, standin(given.engine, Path(name)) as place:
        os.environ["DBT_PROFILES_DIR"] = name
        (place.folder / "tickets.prompt").write_text(PROMPT)
        place.clear()
        place.load(rows)
        slow = ASKED_S / CHUNK_ROWS if given.engine == "databricks" else ASKED_S
        place.set(answers=str(place.folder / "tickets.prompt"), delay=slow)
        runs = Runs(place, given.rows, chance)
        done: Counter[str] = Counter()
        no_id = ended = 0
        order = phases(given.kills, chance)
        while done.total() < given.kills and ended < given.kills:
            phase = order[done.total()]
            if not runs.killed(phase):
                ended += 1
                continue
            done[phase] += 1
            found = without_id(place)
            no_id += found
            show({"phase": phase, "asked": len(place.prompts()), "without_id": found})
        last = runs.start()
        last.join()
        asked = Counter(place.prompts())
        stored = Counter(row[0] for row in place.rows("tickets_responses", "request_hash"))
        results = len(place.rows("tickets", "id")) + len(place.rows("tickets_quarantine", "id"))
    summary = {
        "engine": given.engine,
        "requests": given.rows,
        "kills": done.total(),
        **{f"at {phase}": done[phase] for phase in ("start", "submit", "ask", "end")},
        "before the id was stored": no_id,
        "lost": given.rows - len(stored),
        "asked twice": asked.total() - len(asked),
        "stored twice": stored.total() - len(stored),
        "rows without a result": given.rows - results,
        "s": round(time.monotonic() - began),
    }
    print(markdown([summary], list(summary)))
    wrong = ("lost", "asked twice", "stored twice", "rows without a result")
    if last.exitcode or done.total() < given.kills or any(summary[check] for check in wrong):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
