"""Runs seeds, replays one, shrinks one.

python -m tests.simulation [--seeds 1000] [--first 1] [--jobs 2]     runs seeds, prints each that fails
python -m tests.simulation --seed 17 [--without 0,3]                 replays one and prints its record
python -m tests.simulation --seed 17 --shrink                        finds the fewest faults with which it fails

``--of asking`` lives those of a run's asking alone, over modelled tables, ``--of batching`` the same by batches,
``--of gateway`` those of a gateway and its callers in place of a run's, ``--of fleet`` those of a driver of Spark
and its workers, ``--of contention`` those of one command on several machines at once.
"""

from __future__ import annotations

import argparse
import gc
import logging
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pool
from typing import Any

from tests.simulation import asking, batching, contention, fleet, gateway, lives, scenario
from tests.simulation.lives import BrokenError, counted_faults
from tests.simulation.scenario import Scenario
from tests.support.garbage_collection import freeze_loaded

SUBJECTS: dict[str, tuple[Callable[[int], Scenario], Callable[[Scenario], Any]]] = {
    "run": (scenario.drawn, lives.live),
    "asking": (asking.drawn, asking.live),
    "batching": (batching.drawn, batching.live),
    "gateway": (gateway.drawn, gateway.live),
    "fleet": (fleet.drawn, fleet.live),
    "contention": (contention.drawn, contention.live),
}
"""What draws a scenario of each subject, and what lives it."""
LONGEST_SEED_S = 60
"""The seconds of a processor that one seed takes at most: more is code that never comes back."""
TOLD_EVERY = 500
"""After so many seeds a line is printed."""


class EndlessError(KeyboardInterrupt):
    """A seed takes too long. A loop hides any other exception that is raised in its callbacks."""


@dataclass(frozen=True)
class Outcome:
    """What became of one seed."""

    seed: int
    problem: str
    seconds: float
    """Virtual ones."""
    lives: int
    requests: int
    faults: Counter[str]
    busy: float
    """Seconds of the processor."""


def outcome_of(subject: str, drawn: Scenario) -> Outcome:
    """Run a scenario and tell what came of it."""
    problem, began = "", time.process_time()
    try:
        with limited():
            lived = SUBJECTS[subject][1](drawn)
    except BrokenError as broken:
        problem, lived = str(broken), broken.lives
    except (Exception, EndlessError):
        return Outcome(drawn.seed, traceback.format_exc(), 0.0, 0, 0, Counter(), time.process_time() - began)
    asked, busy = len(lived.network.delivered.asked), time.process_time() - began
    return Outcome(drawn.seed, problem, lived.world.seconds, lived.lives, asked, counted_faults(lived), busy)


def outcome_of_seed(subject: str, seed: int) -> Outcome:
    return outcome_of(subject, SUBJECTS[subject][0](seed))


def shrunk(subject: str, drawn: Scenario) -> list[int]:
    """Return the places of the faults that can be left out together while the scenario still fails."""
    gone: list[int] = []
    size = max(1, len(drawn.faults) // 2)
    while size:
        place = 0
        while place < len(drawn.faults):
            tried = [one for one in range(place, min(place + size, len(drawn.faults))) if one not in gone]
            if tried and outcome_of(subject, drawn.without([*gone, *tried])).problem:
                gone += tried
            place += size
        size //= 2
    return sorted(gone)


def command_of(subject: str, seed: int, without: Collection[int] = ()) -> str:
    """Return the command that replays a seed."""
    of = "" if subject == "run" else f" --of {subject}"
    left_out = f" --without {','.join(map(str, sorted(without)))}" if without else ""
    return f"python -m tests.simulation{of} --seed {seed}{left_out}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", choices=SUBJECTS, default="run")
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--step", type=int, default=1, help="from one seed to the next")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--without", default="")
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--until-failed", action="store_true", help="end at the first seed that fails")
    parser.add_argument("--most-seconds", type=float, default=float("inf"), help="of a processor, for all seeds")
    given = parser.parse_args()
    without = [int(place) for place in given.without.split(",") if place]
    with quiet():
        return run_seeds(given) if given.seed is None else replay(given.of, given.seed, without, shrink=given.shrink)


def _begin() -> None:
    """Begin a process of the pool. An interrupt ends the seeds; the end of the pool ends what still runs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    freeze_loaded()


def run_seeds(given: argparse.Namespace) -> int:
    """Run seeds and print those that fail. Return the exit status."""
    began, failed, done = time.monotonic(), 0, []
    seeds = range(given.first, given.first + given.seeds * given.step, given.step)
    with Pool(given.jobs, _begin) as pool, suppress(KeyboardInterrupt):
        for one in pool.imap_unordered(partial(outcome_of_seed, given.of), seeds):
            done.append(one)
            if len(done) % TOLD_EVERY == 0:
                print(f"{len(done):,} of {len(seeds):,} seeds, {failed:,} failed", flush=True)
            if one.problem:
                failed += 1
                print(f"seed {one.seed}: {one.problem}\n  replay: {command_of(given.of, one.seed)}", flush=True)
            if (failed and given.until_failed) or sum(one.busy for one in done) > given.most_seconds:
                break
    faults = sum((one.faults for one in done), Counter[str]())
    days = sum(one.seconds for one in done) / 86_400
    print(
        f"{len(done):,} seeds, {failed:,} failed, {sum(one.lives for one in done):,} lives, "
        f"{sum(one.requests for one in done):,} requests, {sum(faults.values()):,} faults, {days:,.1f} simulated days "
        f"in {time.monotonic() - began:,.0f} s"
    )
    print(", ".join(f"{kind} {count:,}" for kind, count in faults.most_common()))
    return 1 if failed else 0


def replay(subject: str, seed: int, without: list[int], *, shrink: bool) -> int:
    """Run one seed and print its record. Return the exit status."""
    drawn = SUBJECTS[subject][0](seed)
    if shrink:
        without = shrunk(subject, drawn)
    drawn = drawn.without(without)
    print(f"{command_of(subject, seed, without)}\n{drawn}")
    try:
        with limited():
            lived = SUBJECTS[subject][1](drawn)
    except BrokenError as broken:
        print("\n".join(broken.lives.world.trace))
        print(f"broken: {broken}")
        return 1
    except EndlessError:
        traceback.print_exc()
        return 1
    print("\n".join(lived.world.trace))
    return 0


@contextmanager
def limited() -> Iterator[None]:
    """Raise EndlessError in what takes too long, and each second again: code may catch it."""

    def ended(*_: object) -> None:
        raise EndlessError(f"{LONGEST_SEED_S} s of a processor were not enough")

    before = signal.signal(signal.SIGPROF, ended)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_SEED_S, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def quiet() -> Iterator[None]:
    """Say nothing of what ended processes leave: it is freed some day, and then complains."""
    before = logging.root.manager.disable, sys.unraisablehook
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        sys.unraisablehook = lambda _: None
        try:
            yield
        finally:
            gc.collect()
            logging.disable(before[0])
            sys.unraisablehook = before[1]


if __name__ == "__main__":
    sys.exit(main())
