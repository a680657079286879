"""Measure the time to load and compile 100, 300 and 1,000 enrichments for five engines, and its growth.

    python benchmarks/compile.py [COUNT...]

Each enrichment is a ready-made one with its own name, label list and instruction.
"""

from __future__ import annotations

import json
import sys
import time

from sqlenrich.engines import ENGINES
from sqlenrich.renderer.script import render
from sqlenrich.spec.loader import loads, templates
from sqlenrich.spec.settings import Config


def texts(count: int) -> list[tuple[str, str]]:
    """Return the names and texts of ``count`` different enrichment files."""
    sources = [path.read_text(encoding="utf-8") for path in templates().values()]
    return [(f"enrichment_{n}", sources[n % len(sources)] + f"\nCase {n}.") for n in range(count)]


def measure(count: int) -> dict[str, float]:
    """Return the seconds of each engine, and of loading, for ``count`` enrichments."""
    seconds: dict[str, float] = {}
    started = time.perf_counter()
    loaded = [loads(text, name=name) for name, text in texts(count)]
    seconds["load"] = time.perf_counter() - started
    for engine in ENGINES:
        started = time.perf_counter()
        for enrichment in loaded:
            render(enrichment, engine, config=Config())
        seconds[engine] = time.perf_counter() - started
    return seconds


def main() -> None:
    """Print a line of JSON per size, then the growth of the time per enrichment from the first size to the last."""
    counts = [int(argument) for argument in sys.argv[1:]] or [100, 300, 1000]
    each: list[float] = []
    for count in counts:
        seconds = measure(count)
        total = sum(seconds.values())
        each.append(total / count)
        rounded = {name: round(value, 2) for name, value in seconds.items()}
        sizes = {"enrichments": count, "scripts": count * len(ENGINES)}
        print(json.dumps({**sizes, "seconds": round(total, 2), **rounded}))
    print(json.dumps({"per_enrichment_last_over_first": round(each[-1] / each[0], 3)}))


if __name__ == "__main__":
    main()
