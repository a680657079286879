"""Kill runs at random moments, run to the end, and compare with an undisturbed run; count what was paid twice.

    python benchmarks/kills.py [--kills 50] [--rows 20000] [--seed 1]

A fifth of the kills (SIGKILL) comes before the first call, a fifth after all answers while the tables are made, and
the others while requests are sent. A request is exposed if the killed process sent it and did not store its answer.
Exposed requests are counted from the endpoint's log and the remaining database. The checks:

- no kill exposed more than the concurrency plus 256;
- no prompt was asked more often than once, plus once for each kill that exposed it;
- every column of NAME, and of NAME_quarantine except _attempts, has the rows of the undisturbed run.

Prints a line of JSON for each kill, and a table. The exit status is 1 if a check failed.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from local import markdown, show

from tests.support.kills import EXPOSED, PHASES, kill_often, make_input, undisturbed
from tests.support.runs import write_prompt

COLUMNS = ("phase", "kills", "sent", "exposed", "most exposed", "bound")


def main() -> None:
    """Kill, compare, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    began = time.monotonic()
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_prompt(folder, "key: [id]\nkeep: [body]\nversion: 1\n")
        data = make_input(folder, given.rows)
        calm = undisturbed(folder, data)
        show({"calm_s_until_first": round(calm.until_first_s, 2), "calm_s_after_last": round(calm.after_last_s, 2)})
        outcome = kill_often(folder, data, calm, given.kills, random.Random(given.seed))
    for kill in outcome.kills:
        show({"phase": kill.phase, "sent": kill.sent, "exposed": len(kill.exposed)})
    summary = {
        "rows": given.rows,
        "distinct": outcome.distinct,
        "kills": len(outcome.kills),
        "exposed": sum(len(kill.exposed) for kill in outcome.kills),
        "asked_again": outcome.asked_again,
        "bound": EXPOSED,
        "seconds": round(time.monotonic() - began, 1),
        "problems": outcome.problems,
    }
    show(summary)
    of_phase = {phase: [kill for kill in outcome.kills if kill.phase == phase] for phase in PHASES}
    table = [
        {
            "phase": phase,
            "kills": len(kills),
            "sent": sum(kill.sent for kill in kills),
            "exposed": sum(len(kill.exposed) for kill in kills),
            "most exposed": max((len(kill.exposed) for kill in kills), default=0),
            "bound": EXPOSED,
        }
        for phase, kills in of_phase.items()
    ]
    print(markdown(table, COLUMNS))
    if outcome.problems:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
