"""Measure how long short commands take, beside a Python that does nothing.

    python benchmarks/start.py [--repeat 5] [--python OTHER/bin/python ...]

Prints the median seconds of each command of each interpreter, in turn within one run: ``--help``, the completion of a
shell, a check of a ready-made enrichment, and a run of ten rows with the mock model. ``--python`` names interpreters
with another version of sqlenrich.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

RUN = "from sqlenrich.__main__ import main; main()"  # as the installed script does
PROMPT = "---\nkey: [id]\noutput: {label(enum): [a, b]}\n---\nClassify: {{ body }}\n"
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
COMMANDS = {
    "nothing": None,
    "--help": ["--help"],
    "completion": ["completion", "bash"],
    "check": ["check", "support_ticket"],
    "ten rows": ["run", "t.prompt", "--input", "ten.csv", "--output", "out.duckdb", "--mock"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--python", nargs="*", default=[])
    given = parser.parse_args()
    pythons = [sys.executable, *given.python]
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    for python in pythons:
        timed(python, ["check", "support_ticket"])  # compiles what an installed package has compiled
    for _ in range(given.repeat):
        for name, arguments in COMMANDS.items():
            for python in pythons:
                seconds[name, python].append(timed(python, arguments))
    for name in COMMANDS:
        print(f"{name:<12}", *(f"{statistics.median(seconds[name, python]):6.2f} s" for python in pythons))


def timed(python: str, arguments: list[str] | None) -> float:
    """Return the seconds of a command in a new folder."""
    with TemporaryDirectory() as folder:
        Path(folder, "t.prompt").write_text(PROMPT)
        Path(folder, "ten.csv").write_text("id,body\n" + "".join(f"{n},text {n}\n" for n in range(10)))
        code = "pass" if arguments is None else RUN
        started = time.monotonic()
        command = [python, "-c", code, *(arguments or ())]
        subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, check=True)
        return time.monotonic() - started


if __name__ == "__main__":
    main()
