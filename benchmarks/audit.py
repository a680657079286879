"""Run three versions of a prompt over an endpoint that fails, with feedback and another model; rebuild every request.

    python benchmarks/audit.py [--rows 10000] [--seed 1]

A third of the rows is run with each version of the prompt; what is refused is asked again with feedback, first by the
same model, then by another one, with larger limits where an answer was truncated. The checks:

- each stored answer's request is rebuilt, and the set of rebuilt bodies is that of the bodies that the endpoint got;
- an audit of all rows holds.

Prints a line of JSON. The exit status is 1 if a check failed.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from local import show

import sqlenrich as se
from sqlenrich.quality.audit.rebuilt_requests import make_sent, make_views, rebuilt_requests
from sqlenrich.store.duckdb.tables import stored_output
from tests.support.audited_runs import audited_runs


def main() -> None:
    """Run, rebuild, audit, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with TemporaryDirectory() as name:
        began = time.monotonic()
        runs = audited_runs(Path(name), given.rows, given.seed)
        ran = time.monotonic()
        with stored_output(se.load(runs.prompt), runs.output) as stored:
            make_views(stored)
            make_sent(stored)
            found = list(rebuilt_requests(stored))
        rebuilt = time.monotonic()
        audit = se.audit(se.load(runs.prompt), output=runs.output)
        audited = time.monotonic()
    bodies = {one.body for one in found}
    problems = [*audit.problems, *(one for one in found if one.body is None)]
    if bodies != set(runs.bodies):
        problems.append(f"{len(bodies ^ set(runs.bodies))} bodies differ")
    show(
        {
            "rows": given.rows,
            "answers": len(found),
            "runs": audit.runs,
            "requests_sent": sum(runs.bodies.values()),
            "distinct_bodies": len(runs.bodies),
            "rebuilt_equal": len(bodies & set(runs.bodies)),
            "with_feedback": sum(b"Your last answer was refused" in body for body in runs.bodies),
            "to_another_model": sum(b'"model":"small"' in body for body in runs.bodies),
            "run_s": round(ran - began, 1),
            "rebuild_s": round(rebuilt - ran, 1),
            "audit_s": round(audited - rebuilt, 1),
            "problems": list(map(str, problems)),
        }
    )
    if problems:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
