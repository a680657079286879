"""Flow control on a virtual clock: the share of what an endpoint allows that is used, and the requests refused.

    python benchmarks/flow_control.py [--seeds 3] [--only caps chance rates]

Each row is one endpoint and one stream through the real client, whose clock jumps from timer to timer.

* caps: the endpoint works on N requests at a time and refuses the others. Share: the time that the requests take at N
  at a time, divided by the time they took.
* chance: the endpoint refuses a share of the requests at random. Share: answers in the last two of three minutes,
  relative to the same endpoint without refusals.
* rates: the endpoint allows 600 requests a minute. Share: the requests taken (with ``rpm`` set: the requests sent)
  after the third minute, relative to the limit; refused: as a percentage of what was sent after the third minute.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.virtual import Chance, Clock, Rule, Sliding, Unlimited, VirtualRun, run_virtually

FIRST_MINUTES = 3
SPREAD = (0.9, 1.1)


@dataclass(frozen=True)
class Outcome:
    """What one run came to: a share of the possible (1.0 is all of it), requests refused, and requests sent."""

    share: float
    refused: int
    sent: int


def cap(at_a_time: int, latency_s: float, requests: int) -> Outcome:
    """Measure an endpoint that refuses beyond ``at_a_time`` requests."""
    run = run_virtually(
        Unlimited, latency_s=latency_s, at_a_time=at_a_time, requests=requests, transit_s=0.002, spread=SPREAD
    )
    refused = sum(run.refused.values())
    return Outcome(requests * latency_s / at_a_time / run.seconds, refused, requests + refused)


def chance(share: float, latency_s: float) -> Outcome:
    """Measure an endpoint that refuses a share of the requests at random."""

    def answered(refused: float) -> tuple[int, VirtualRun]:
        run = run_virtually(partial(Chance, share=refused), latency_s=latency_s, minutes=FIRST_MINUTES)
        return sum(count for minute, count in run.taken.items() if minute), run

    most, _ = answered(0.0)
    some, run = answered(share)
    refused = sum(run.refused.values())
    return Outcome(some / most, refused, refused + sum(run.taken.values()))


def rate(rpm: int | None, latency_s: float, refused: float = 0.0, minutes: int = 8) -> Outcome:
    """Measure an endpoint that allows 600 requests a minute, or whose client is told so by ``rpm``."""
    rule: Callable[[Clock], Rule] = partial(Chance, share=refused)
    if rpm is None:
        rule = partial(Sliding, most=600)
    run = run_virtually(rule, latency_s=latency_s, minutes=minutes, rpm=rpm)
    late = range(FIRST_MINUTES, minutes)
    taken, refusals = (sum(count[minute] for minute in late) for count in (run.taken, run.refused))
    used = taken if rpm is None else taken + refusals
    return Outcome(used / len(late) / 600, refusals, taken + refusals)


ROWS: dict[str, tuple[str, Callable[[], Outcome]]] = {
    "256 at a time, 1 s": ("caps", lambda: cap(256, 1.0, 10_000)),
    "32 at a time, 0.2 s": ("caps", lambda: cap(32, 0.2, 6_000)),
    "4 at a time, 0.5 s": ("caps", lambda: cap(4, 0.5, 600)),
    "5 % at random, 2 s": ("chance", lambda: chance(0.05, 2.0)),
    "10 % at random, 2 s": ("chance", lambda: chance(0.1, 2.0)),
    "600 a minute, untold, 0.2 s": ("rates", lambda: rate(None, 0.2)),
    "600 a minute, untold, 2 s": ("rates", lambda: rate(None, 2.0)),
    "rpm = 600, 10 % at random": ("rates", lambda: rate(600, 0.2, 0.1)),
}


def main() -> None:
    """Print a Markdown table: of several seeds the median, and the worst share."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=("caps", "chance", "rates"), default=("caps", "chance", "rates"))
    given = parser.parse_args()
    print("| endpoint | share (median) | share (worst) | refused | sent | refused % |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    for name, (group, measure) in ROWS.items():
        if group not in given.only:
            continue
        found = []
        for seed in range(1, given.seeds + 1):
            random.seed(seed)
            found.append(measure())
        share, worst = statistics.median(one.share for one in found), min(one.share for one in found)
        refused, sent = (int(statistics.median(n)) for n in zip(*((o.refused, o.sent) for o in found), strict=True))
        line = f"| {name} | {share:.1%} | {worst:.1%} | {refused:,} | {sent:,} | {refused / sent:.1%} |"
        print(line, flush=True)


if __name__ == "__main__":
    main()
