"""The time of a whole run over tables in memory, as a ratio to the same rows in a Parquet file.

``python benchmarks/inputs.py [ROWS] [ROUNDS]`` runs the mock model over each input in turns, and prints the least
processor and wall time of each, and the ratio to Parquet.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import sqlenrich as se


def inputs(rows: int, folder: Path) -> dict[str, Callable[[], Any]]:
    """Return what makes each input: frames are made before the clock starts."""
    import pandas as pd
    import polars

    table = pa.table(
        {"id": range(rows), "body": [f"ticket {n}: the parcel of order {n * 7919} is late" for n in range(rows)]}
    )
    path = folder / "rows.parquet"
    pq.write_table(table, path)
    frame: pd.DataFrame = table.to_pandas()
    polar = polars.from_arrow(table)
    dicts = table.to_pylist()
    return {
        "Parquet": lambda: path,
        "Arrow table": lambda: table,
        "Arrow stream": lambda: table.to_reader(),
        "pandas": lambda: frame,
        "polars": lambda: polar,
        "list of dicts": lambda: dicts,
    }


def main(rows: int = 100_000, rounds: int = 3) -> None:
    """Print a line for each input."""
    enrichment = se.enrichment(
        "tickets", prompt="Classify: {{ body }}", key=["id"], output={"intent(enum)": ["a", "b"], "n": "integer"}
    )
    wall: dict[str, float] = {}
    processor: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for name, given in inputs(rows, Path(folder)).items():
                began, used = time.perf_counter(), time.process_time()
                report = se.run(enrichment, input=given(), mock=True)
                assert report.enriched == rows
                wall[name] = min(time.perf_counter() - began, wall.get(name, 1e9))
                processor[name] = min(time.process_time() - used, processor.get(name, 1e9))
    for name in wall:
        used, took = processor[name], wall[name]
        ratios = f"{used / processor['Parquet']:.2f} and {took / wall['Parquet']:.2f} of Parquet"
        print(f"{name:<14}{used:6.2f} s of the processor, {took:6.2f} s: {ratios}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
