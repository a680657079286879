"""Measure rows per second of whole runs against a local endpoint, compared with other clients.

    python benchmarks/end_to_end.py [--rows 50000] [--repeat 3] [--peers-python OTHER/bin/python]

``sqlenrich run`` on DuckDB (read, prompt, call, store, check, write) is a process of its own. It is measured in turn
with a bare loop of aiohttp over prompts in memory, Daft's ``prompt`` and an asynchronous ``mapInPandas`` of Spark. A
client that the interpreter of ``--peers-python`` can't import is left out with a line. There are two endpoints: one
whose slots and latency set a limit, and a fast one for which the client's own work is the limit. Prints a line of JSON
per run, then a table of the medians.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import peers

ROOT = Path(__file__).resolve().parents[1]
ENDPOINT = ROOT / "tests" / "support" / "endpoint.py"
SQLENRICH = (sys.executable, "-c", "from sqlenrich.__main__ import main; main()")  # as the installed script does
LABELS = ("card_arrival", "lost_or_stolen_card", "exchange_rate", "other")
PROMPT = f"""---
key: [id]
params: {{temperature: 0, max_tokens: 64}}
output:
  type: object
  properties:
    intent: {{type: string, enum: [{", ".join(LABELS)}]}}
    confidence: {{type: number, minimum: 0, maximum: 1}}
  required: [intent, confidence]
  additionalProperties: false
---
{peers.QUESTION}{{{{ body }}}}
"""
OPENINGS = ("", "Hi, ", "Hello. ", "Can you help? ", "Please help me, ", "I need to know: ")
QUESTIONS = (
    "why is my {thing} still {state}?",
    "my {thing} has been {state} since {day}.",
    "what do I do if my {thing} is {state}?",
    "is it normal that a {thing} is {state} after {day}, and who can tell me what happens to it now?",
    "the {thing} I asked for on {day} is {state}. I tried the app twice and nobody answered, so how do I go on?",
)
WORDS = {
    "thing": ("card", "transfer", "top-up", "refund", "direct debit", "cash withdrawal", "virtual card", "PIN"),
    "state": ("pending", "missing", "declined", "not here", "charged twice", "blocked", "on hold", "reverted"),
    "day": ("Monday", "last week", "two days ago", "yesterday", "the 3rd", "this morning", "a fortnight"),
}


@dataclass(frozen=True)
class Setting:
    """An endpoint, and how many requests the clients keep in flight."""

    name: str
    latency_s: float
    slots: int

    @property
    def limit(self) -> float:
        """The maximum of rows per second that the endpoint can answer, without the cost of its own work."""
        return self.slots / self.latency_s


SETTINGS = (Setting("limited", 0.2, 256), Setting("fast", 0.01, 256))


def messages(rows: int) -> Iterator[str]:
    """Return distinct customer messages with the lengths of Banking77: half below 50 characters."""
    chance = random.Random(77)
    for number in range(rows):
        words = {name: chance.choice(choices) for name, choices in WORDS.items()}
        yield f"{chance.choice(OPENINGS)}{chance.choice(QUESTIONS).format(**words)} ({number})"


def given_messages(path: Path, column: str, rows: int) -> Iterator[str]:
    """Return ``count`` distinct messages of a CSV file. A shorter file is read again from its start."""
    with path.open(encoding="utf-8", newline="") as file:
        found = [row[column] for row in csv.DictReader(file)]
    for number in range(rows):
        yield f"{found[number % len(found)]} ({number})"


def write_input(path: Path, bodies: Iterator[str]) -> None:
    """Write a CSV file with an id and a body."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "body"])
        writer.writerows(enumerate(bodies))


@contextmanager
def serving(program: Path, setting: Setting) -> Iterator[str]:
    """Run the endpoint in a process of its own and give its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--port", str(port), "--latency", str(setting.latency_s), "--slots", str(setting.slots)]
    server = subprocess.Popen([sys.executable, str(program), *options], stdout=subprocess.PIPE, text=True)
    try:
        if server.stdout is None or "listening" not in server.stdout.readline():
            raise SystemExit(f"{program} does not serve")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait()


class Bench:
    """The clients, each as one function of a setting and an endpoint's URL that gives a line of figures."""

    def __init__(self, given: argparse.Namespace, folder: Path) -> None:
        self.given, self.folder = given, folder
        self.prompt, self.data = folder / "bank.prompt", folder / "rows.csv"
        self.prompt.write_text(PROMPT, encoding="utf-8")
        source = given_messages(given.input, given.column, given.rows) if given.input else messages(given.rows)
        write_input(self.data, source)
        # As an installed program: its modules are compiled once, not in each run.
        self.environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "pycache")}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def clients(self) -> dict[str, tuple[str, str]]:
        """Return the name of each client and its command."""
        found = {
            ("sqlenrich" if text == "auto" else f"sqlenrich --concurrency {text}"): ("sqlenrich", text)
            for text in self.given.concurrency
        }
        if self.given.against:
            found |= {f"{name}, {self.given.against.name}": ("against", text) for name, (_, text) in found.items()}
        found["bare aiohttp loop"] = ("peer", "bare")
        return found | {
            name: ("peer", kind) for kind, name in (("daft", "Daft prompt"), ("spark", "Spark mapInPandas"))
        }

    def measure(self, kind: str, what: str, setting: Setting, url: str) -> dict[str, Any]:
        """Run a client once."""
        trees = {"sqlenrich": ROOT, "against": self.given.against}
        return self.sqlenrich(trees[kind], what, url) if kind in trees else self.peer(what, setting, url)

    def sqlenrich(self, tree: Path, concurrency: str, url: str) -> dict[str, Any]:
        for old in self.folder.glob("out.duckdb*"):
            old.unlink()
        output = self.folder / "out.duckdb"
        flags = [] if concurrency == "auto" else ["--concurrency", concurrency]
        command = [*SQLENRICH, "run", str(self.prompt), "--input", str(self.data)]
        command += ["--output", str(output), "--endpoint", url, "--model", "mock", "--yes", "--json", *flags]
        wall, out = self.timed(command, tree)
        report = json.loads(out[out.index("{") :])
        if report["enriched"] != self.given.rows or report["calls"] != self.given.rows:
            raise SystemExit(f"not a clean run: {report}")
        return figures(self.given.rows, wall, report["seconds"])

    def peer(self, kind: str, setting: Setting, url: str) -> dict[str, Any]:
        slots = str(setting.slots)
        if kind == "bare" and self.given.bare:
            # This program takes the same three arguments and reports the rate of its loop alone.
            wall, out = self.timed([self.given.peers_python, str(self.given.bare), str(self.given.rows), slots, url])
            return figures(self.given.rows, wall, json.loads(out)["seconds"])
        rows = self.given.rows if kind == "bare" else self.given.peer_rows
        shutil.rmtree(self.folder / kind, ignore_errors=True)
        program = [self.given.peers_python, str(Path(peers.__file__)), kind]
        wall, out = self.timed([*program, str(self.data), str(rows), slots, url, str(self.folder / kind)])
        told = json.loads(out.splitlines()[-1])
        return told if "skipped" in told else figures(rows, wall, told["seconds"])

    def timed(self, command: Sequence[str], tree: Path = ROOT) -> tuple[float, str]:
        environment = {**self.environment, "PYTHONPATH": str(tree)}
        started = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        wall = time.monotonic() - started
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}\n{done.stderr[-3000:]}")
        return wall, done.stdout


def figures(rows: int, wall: float, seconds: float) -> dict[str, Any]:
    """Return the figures of one run. ``seconds`` are those of its work, without the start of its process."""
    return {
        "rows": rows,
        "wall_s": round(wall, 2),
        "start_s": round(wall - seconds, 2),
        "rows_per_s": round(rows / wall, 1),
        "started_rows_per_s": round(rows / seconds, 1),
    }


def table(setting: Setting, runs: dict[str, list[dict[str, Any]]]) -> str:
    """Return the medians as Markdown. The bare loop is counted without its start: it is the upper bound of a client."""

    def median(name: str, figure: str) -> float:
        return statistics.median(float(run[figure]) for run in runs[name])

    bare = median("bare aiohttp loop", "started_rows_per_s") if "bare aiohttp loop" in runs else None
    lines = [
        f"{setting.name}: {setting.latency_s:g} s an answer, {setting.slots} slots, "
        f"at most {setting.limit:,.0f} rows/s",
        "",
        "| client | rows | seconds | start-up | rows/s, whole | rows/s, started | whole / limit | whole / bare loop |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in runs:
        whole = median(name, "rows_per_s")
        cells = [
            name,
            f"{runs[name][0]['rows']:,}",
            f"{median(name, 'wall_s'):.1f}",
            f"{median(name, 'start_s'):.1f}",
            f"{whole:,.0f}",
            f"{median(name, 'started_rows_per_s'):,.0f}",
            f"{whole / setting.limit:.1%}",
            f"{whole / bare:.1%}" if bare else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def run(bench: Bench, setting: Setting, only: Sequence[str] | None) -> str:
    """Measure all clients against one endpoint, in an order that rotates each round, and give the table."""
    clients = {name: how for name, how in bench.clients().items() if not only or how[0] in only or how[1] in only}
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in clients}
    for turn in range(bench.given.repeat):
        names = [name for name in clients if name in runs]
        for name in names if turn % 2 == 0 else reversed(names):
            with serving(bench.given.server, setting) as url:
                line = bench.measure(*clients[name], setting, url)
            print(json.dumps({"endpoint": setting.name, "client": name, **line}), flush=True)
            if "skipped" in line:
                del runs[name]
            else:
                runs[name].append(line)
    return table(setting, runs)


def main() -> None:
    """Measure each setting."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--peer-rows", type=int, default=5_000, help="rows of Daft and Spark, which are slower")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--input", type=Path, help="a CSV file of messages, such as Banking77's")
    parser.add_argument("--column", default="text", help="its column")
    parser.add_argument("--server", type=Path, default=ENDPOINT, help="a program that takes --port --latency --slots")
    parser.add_argument("--bare", type=Path, help="another bare loop: a program that takes ROWS IN_FLIGHT URL")
    parser.add_argument("--peers-python", default=sys.executable, help="the interpreter with aiohttp, daft, pyspark")
    parser.add_argument("--concurrency", nargs="*", default=["auto", "256"], help="of sqlenrich: auto and numbers")
    parser.add_argument("--against", type=Path, help="another checkout of sqlenrich, measured in turn with this one")
    parser.add_argument("--only", nargs="*", help="sqlenrich, against, bare, daft, spark")
    parser.add_argument("--settings", nargs="*", default=[setting.name for setting in SETTINGS])
    given = parser.parse_args()
    tables = []
    with TemporaryDirectory() as folder:
        bench = Bench(given, Path(folder))
        for tree in filter(None, (ROOT, given.against)):
            bench.timed([*SQLENRICH, "engines"], tree)  # compiles the modules
        for setting in SETTINGS:
            if setting.name in given.settings:
                tables.append(run(bench, setting, given.only))
    print("\n" + "\n\n".join(tables))


if __name__ == "__main__":
    main()
