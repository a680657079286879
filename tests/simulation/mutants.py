"""Planted faults of the code, and a script that shows whether the simulation finds them.

    python -m tests.simulation.mutants [NAME ...] [--seconds 60] [--jobs 2]

Each is one change of one file, applied to a copy of the package; the seeds run over the copy until one fails. A copy
that runs on without an end counts as found. The seconds are those of a processor, so other work changes nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.simulation.scenario import BATCHES_EACH, BATCHES_FIRST

ROOT = Path(__file__).parents[2]
SEEDS = 4000
"""More than any run of them has the time for."""
BATCHES = ("--first", str(BATCHES_FIRST), "--step", str(BATCHES_EACH))
SUBJECTS = {
    "gateway/": ("--of", "gateway"),
    "spark/journal": ("--of", "gateway"),
    "spark/file_lease": ("--of", "contention"),
    "spark/": ("--of", "fleet"),
    "ask/batch": BATCHES,
    "llm/batch": BATCHES,
}
"""Whose lives run the code of a file that begins so; the first holds. Of others: all of a run."""
LONGEST_SEED_S = 60
SLOWEST = 4
"""How much slower than alone a copy may run beside other work."""


@dataclass(frozen=True)
class Mutant:
    """``old`` occurs once in the file, and ``new`` takes its place."""

    name: str
    file: str
    old: str
    new: str

    @property
    def subject(self) -> tuple[str, ...]:
        """The options for lives that run its code."""
        return next((subject for room, subject in SUBJECTS.items() if self.file.startswith(room)), ())

    def text(self) -> str:
        """Return the changed file. Raises ValueError where ``old`` is not there once."""
        text = (ROOT / "sqlenrich" / self.file).read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.file} has this {text.count(self.old)} times: {self.old!r}")
        return text.replace(self.old, self.new)


def _mutants() -> Iterator[Mutant]:
    listed = tomllib.loads(Path(__file__).with_name("mutants.toml").read_text(encoding="utf-8"))["mutant"]
    numbers: Counter[str] = Counter()
    for one in listed:
        numbers[one["file"]] += 1
        yield Mutant(f"{one['file'].removesuffix('.py')}-{numbers[one['file']]}", **one)


MUTANTS = tuple(_mutants())


def seconds_until_found(mutant: Mutant, most_s: float) -> float | None:
    """Return after how many seconds a seed failed over the changed package; None where none did."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        folder = Path(name)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "sqlenrich", folder / "sqlenrich", ignore=ignored)
        shutil.copytree(ROOT / "tests" / "simulation", folder / "tests" / "simulation", ignore=ignored)
        (folder / "tests" / "__init__.py").touch()
        (folder / "sqlenrich" / mutant.file).write_text(mutant.text(), encoding="utf-8")
        command = [sys.executable, "-m", "tests.simulation", *mutant.subject, "--seeds", str(SEEDS)]
        environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": ""}
        done = subprocess.Popen(
            [*command, "--jobs", "1", "--until-failed", "--most-seconds", str(most_s)], cwd=folder,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=environment, start_new_session=True,
        )  # fmt: skip
        endless = threading.Timer(SLOWEST * (most_s + LONGEST_SEED_S), os.killpg, (done.pid, signal.SIGKILL))
        endless.start()
        _, status, used = os.wait4(done.pid, 0)
        endless.cancel()
        done.returncode = status
        return used.ru_utime + used.ru_stime if status else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    chosen = [one for one in MUTANTS if not given.names or one.name in given.names]
    with ThreadPoolExecutor(given.jobs) as pool:
        found = pool.map(lambda one: (one, seconds_until_found(one, given.seconds)), chosen)
        count = 0
        for mutant, seconds in found:
            count += seconds is not None
            print(f"{mutant.name:<32} {'NOT FOUND' if seconds is None else f'{seconds:.0f} s'}", flush=True)
    print(f"{count} of {len(chosen)} found")
    return 0 if count == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
