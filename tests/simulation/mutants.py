"""Planted faults of the code, and a script that shows whether the simulation finds them.

    python -m tests.simulation.mutants [NAME ...] [--seconds 60] [--jobs 2]

Each is one change of one file, applied to a copy of the package; the seeds run over the copy until one fails. That seed
has to fail again over the copy, and to hold over the package as it is. The seconds are those of a processor, so other
work changes nothing.
"""

from __future__ import annotations

import argparse
import os
import re
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
Options = tuple[str, ...]
RUNS: Options = ()
BATCHES: Options = ("--first", str(BATCHES_FIRST), "--step", str(BATCHES_EACH))
ASKING, BATCHING, GATEWAYS, FLEETS, CONTENTION = (
    ("--of", subject) for subject in ("asking", "batching", "gateway", "fleet", "contention")
)
SUBJECTS: dict[str, tuple[Options, ...]] = {
    "gateway/": (GATEWAYS,),
    "spark/journal": (GATEWAYS,),
    "spark/file_lease": (CONTENTION,),
    "spark/": (FLEETS,),
    "ask/batch": (BATCHING, BATCHES),
    "llm/batch": (BATCHING, BATCHES),
    "store/batches": (BATCHING, BATCHES),
    "llm/": (ASKING, FLEETS, GATEWAYS),
    "ask/": (ASKING, BATCHING, RUNS),
    "": (RUNS,),
}
"""Whose lives run the code of a file that begins so; the first holds. They share the time."""
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
    def subjects(self) -> tuple[Options, ...]:
        """The options for the lives that run its code."""
        return next(subjects for room, subjects in SUBJECTS.items() if self.file.startswith(room))

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


@dataclass(frozen=True)
class Found:
    """What the seeds over one planted fault gave."""

    seed: str | None
    """The options of the first that failed; None where none did."""
    seconds: float
    """Those of a processor until then."""
    again: bool = False
    """Whether it failed again over the fault and holds without it."""

    def __str__(self) -> str:
        if self.seed is None:
            return "NOT FOUND"
        return f"{self.seconds:.0f} s  {self.seed}{'' if self.again else ' DOES NOT SHOW IT AGAIN'}"


def copied(folder: Path, mutant: Mutant | None) -> None:
    """Copy to a folder what the simulation needs, with the fault in it."""
    for name in ("sqlenrich", "tests/simulation", "tests/support"):
        shutil.copytree(ROOT / name, folder / name)  # with the bytecode of what stays as it is
    (folder / "tests" / "__init__.py").touch()
    if mutant is not None:
        (folder / "sqlenrich" / mutant.file).write_text(mutant.text(), encoding="utf-8")


def simulated(folder: Path, *options: str, most_s: float) -> tuple[int, str, float]:
    """Run the simulation over a copy. Return its exit status, what it printed, and its seconds of a processor."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as printed:
        done = subprocess.Popen(
            [sys.executable, "-m", "tests.simulation", *options], cwd=folder, stdout=printed, stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": str(folder)}, start_new_session=True,
        )  # fmt: skip
        endless = threading.Timer(SLOWEST * (most_s + LONGEST_SEED_S), os.killpg, (done.pid, signal.SIGKILL))
        endless.start()
        _, status, used = os.wait4(done.pid, 0)
        endless.cancel()
        done.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        return done.returncode, printed.read(), used.ru_utime + used.ru_stime


def found(mutant: Mutant, most_s: float, unchanged: Path) -> Found:
    """Run seeds over the changed package until one fails; then that seed once more, with the change and without it."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        copied(folder := Path(name), mutant)
        seconds = 0.0
        for subject in mutant.subjects:
            each_s = most_s / len(mutant.subjects)
            status, printed, used_s = simulated(
                folder, *subject, "--seeds", str(SEEDS), "--jobs", "1", "--until-failed", "--most-seconds", str(each_s),
                most_s=each_s,
            )  # fmt: skip
            seconds += used_s
            if status == 0:
                continue
            failed = re.search(r"replay: python -m tests.simulation (.*)", printed)
            if failed is None:
                raise RuntimeError(f"{mutant.name}: no seed failed, and the exit status is {status}: {printed[-2000:]}")
            again, holds = (simulated(place, *failed[1].split(), most_s=0)[0] for place in (folder, unchanged))
            return Found(failed[1], seconds, again == 1 and holds == 0)
        return Found(None, seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    chosen = [one for one in MUTANTS if not given.names or one.name in given.names]
    with tempfile.TemporaryDirectory(prefix="unchanged-") as name, ThreadPoolExecutor(given.jobs) as pool:
        copied(unchanged := Path(name), None)
        results = pool.map(lambda one: (one, found(one, given.seconds, unchanged)), chosen)
        count = 0
        for mutant, result in results:
            count += result.again
            print(f"{mutant.name:<32} {result}", flush=True)
    print(f"{count} of {len(chosen)} found")
    return 0 if count == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
