"""Measure what SIGKILL leaves of a vLLM server, and how soon it is ready again.

    python benchmarks/vllm_faults.py --vllm PATH --model FOLDER [VLLM ARGUMENTS]

A keeper starts the server beside a process that stands for an executor. For each victim: the seconds until no process
of the server is left, and until it has generated a text again. ``tests/support/tiny_model.py`` makes a model.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sqlenrich.spark.vllm.policy import FleetPolicy
from sqlenrich.spark.vllm.status import READY
from tests.support.kept_server import KeptServer
from tests.support.vllm_processes import alive, family, kill, until

GONE = ("executor", "keeper")
AGAIN = ("server", "engine")
START_S = 600.0
LIMIT_S = 60.0


def timed(done: Callable[[], object], limit_s: float) -> str:
    """Return the seconds until something is true."""
    begun = time.monotonic()
    return f"{time.monotonic() - begun:.1f}" if until(done, limit_s) else f"more than {limit_s:g}"


def all_gone(pids: set[int]) -> bool:
    """Say whether none of some processes runs."""
    return not alive(pids)


def main() -> None:
    """Print a line for each victim."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--vllm", required=True, metavar="PATH")
    parser.add_argument("--model", required=True, metavar="FOLDER")
    parser.add_argument("--victims", nargs="+", default=[*GONE, *AGAIN], choices=[*GONE, *AGAIN])
    given, arguments = parser.parse_known_args()
    command = (given.vllm, "serve", given.model, "--shutdown-timeout", "5")
    print("| SIGKILL to | no process is left after s | ready again after s |\n| --- | ---: | ---: |", flush=True)
    for victim in given.victims:
        with TemporaryDirectory() as folder:
            environment = {"HF_HUB_OFFLINE": "1", "VLLM_CACHE_ROOT": folder, "TORCH_COMPILE_DISABLE": "1"}
            kept = KeptServer(Path(folder), *arguments, command=command, environment=environment, policy=FleetPolicy())
            with kept as server:
                ready = server.at(READY, seconds=START_S)
                old = family(ready.pid)
                kill(server.processes(ready)[victim])
                gone = timed(partial(all_gone, old), LIMIT_S)
                again = timed(lambda: server.at(READY, starts=2, seconds=START_S), START_S) if victim in AGAIN else ""
                print(f"| the {victim} | {gone} | {again} |", flush=True)


if __name__ == "__main__":
    main()
