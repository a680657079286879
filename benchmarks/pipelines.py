"""Measure the Enricher inside of other tools, and two clients of those tools, at one endpoint of 0.2 s and 256 slots.

    python benchmarks/pipelines.py [--rows 20000] [--only alone ray1 ray2 daft vane ray-http daft-prompt]

Each tool runs in a process of its own. ``share`` is the rows a second from the first request to the last answer,
relative to what the endpoint allows: without the start of actors. ``whole`` is the same for the whole process. The
results of each Enricher are compared with those of a run, row by row; ``again`` is the requests of a second process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from local import Program, show

import sqlenrich as se
from tests.support.pipeline_driver import TICKETS

LATENCY_S, SLOTS, BATCH = 0.2, 256, 1000
ROOT = Path(__file__).resolve().parents[1]
TOOLS: dict[str, dict[str, Any]] = {
    "alone": {"tool": "alone", "concurrency": SLOTS},
    "ray1": {"tool": "ray", "actors": 1, "concurrency": SLOTS},
    "ray2": {"tool": "ray", "actors": 2, "concurrency": SLOTS // 2},
    "daft": {"tool": "daft", "concurrency": SLOTS},
    "vane": {"tool": "vane", "concurrency": SLOTS},
}
PEERS: dict[str, tuple[str, int]] = {"ray-http": ("ray", 1_000), "daft-prompt": ("daft", 1_000_000)}
"""The client of ``peers.py``, and its rows at most: all of them would take hours."""
KILL_S = 900.0


def bodies(rows: int) -> list[str]:
    """Return distinct messages."""
    return [f"Message {number}: my card has not arrived, and the app shows no date for it." for number in range(rows)]


def asked_s(endpoint: Program) -> tuple[int, float]:
    """Return how many requests the endpoint answered since the last call, and the seconds that they took in all."""
    endpoint.settled()
    lines = endpoint.lines()
    ends = [float(line["at"]) + float(line["seconds"]) for line in lines]
    return len(lines), max(ends) - min(float(line["at"]) for line in lines) if lines else 0.0


def timed(command: list[str]) -> float:
    """Run a command and return its seconds. Raises CalledProcessError."""
    started = time.perf_counter()
    subprocess.run(command, cwd=ROOT, check=True, timeout=KILL_S, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - started


def figures(rows: int, count: int, asking_s: float, whole_s: float) -> dict[str, Any]:
    """Return what a tool came to."""
    limit = SLOTS / LATENCY_S
    return {
        "calls": count,
        "asking_s": round(asking_s, 1),
        "whole_s": round(whole_s, 1),
        "per_s": round(rows / asking_s),
        "share": round(rows / asking_s / limit, 3),
        "whole": round(rows / whole_s / limit, 3),
    }


def main() -> None:
    """Run each tool once, and print a line of JSON for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--only", nargs="+", choices=(*TOOLS, *PEERS), default=(*TOOLS, *PEERS))
    given = parser.parse_args()
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        options = ("--latency", LATENCY_S, "--slots", SLOTS, "--content", '{"intent": "card", "urgency": 3}')
        with Program(folder, *options) as endpoint:
            texts = bodies(given.rows)
            wanted: pa.Table | None = None
            for name in given.only:
                if name in PEERS:
                    peer(name, endpoint, folder, given.rows)
                    continue
                if wanted is None:
                    rows = pa.table({"id": list(range(len(texts))), "body": texts})
                    report = se.run(TICKETS, input=rows, model=se.Endpoint(endpoint.url, model="mock"))
                    wanted = report.table().sort_by("id").select(["id", "intent", "urgency", "_request_hash"])
                    asked_s(endpoint)
                settings = TOOLS[name] | {
                    "bodies": texts,
                    "url": endpoint.url,
                    "answers": str(folder / f"answers-{name}"),
                    "output": str(folder / f"{name}.parquet"),
                    "batch": BATCH,
                }
                file = folder / "settings.json"
                file.write_text(json.dumps(settings))
                command = [sys.executable, "-m", "tests.support.pipeline_driver", settings["tool"], str(file)]
                whole_s = timed(command)
                count, asking_s = asked_s(endpoint)
                found = pq.read_table(settings["output"]).sort_by("id").select(wanted.column_names)
                timed(command)
                again, _ = asked_s(endpoint)
                equal = found.to_pylist() == wanted.to_pylist()
                show({"tool": name, **figures(given.rows, count, asking_s, whole_s), "equal": equal, "again": again})


def peer(name: str, endpoint: Program, folder: Path, rows: int) -> None:
    """Measure a client of another tool."""
    kind, most = PEERS[name]
    rows = min(rows, most)
    data = folder / "in.csv"
    data.write_text("id,body\n" + "".join(f'{number},"{body}"\n' for number, body in enumerate(bodies(rows))))
    script = str(Path(__file__).with_name("peers.py"))
    command = [sys.executable, script, kind, str(data), str(rows), str(SLOTS), endpoint.url, str(folder / name)]
    whole_s = timed(command)
    count, asking_s = asked_s(endpoint)
    show({"tool": name, "rows": rows, **figures(rows, count, asking_s, whole_s)})


if __name__ == "__main__":
    main()
