"""Rows through another tool's pipeline, in a process of its own: ``python pipeline_driver.py TOOL SETTINGS...``.

SETTINGS is a file of JSON: the rows, the endpoint, and folders; ``batch`` rows a table, ``actors`` of Ray with
``concurrency`` requests each. The rows with their results are written to a Parquet file.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import sqlenrich as se
from tests.support.local_models import Counting

OUTPUT: dict[str, Any] = {"intent(enum)": ["card", "transfer", "other"], "urgency?": "integer"}
TICKETS = se.enrichment("tickets", prompt="Classify: {{ body }}", key=["id"], output=OUTPUT)
WORDS = se.enrichment("words", prompt="{{ body }}", key=["id"], output={"word": "string"})
OUTPUTS = {"tickets": ("intent", "urgency"), "words": ("word",)}
RESULTS = ("_error", "_error_detail", "_model", "_request_hash")
BATCH = 25
ACTORS = 2
CONCURRENCY = 8
KILLED_AFTER_S = 0.3


class KilledOnce(se.Enricher):
    """An Enricher whose process is killed once, in the middle of its first table."""

    def __init__(self, *given: Any, flag: str, **options: Any) -> None:
        super().__init__(*given, **options)
        self._flag = Path(flag)

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return the table with the results, unless this is the first one."""
        if not self._flag.exists():
            self._flag.touch()
            threading.Timer(KILLED_AFTER_S, os.kill, (os.getpid(), signal.SIGKILL)).start()
        return super().__call__(table)


def options_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an Enricher is made with."""
    if "local" in given:
        counting = functools.partial(Counting, given["local"])
        return {"model": se.LocalModel(counting, name="words", version="1", batch=8)}
    endpoint = se.Endpoint(given["url"], model="mock", concurrency=given.get("concurrency", CONCURRENCY))
    return {"endpoint": endpoint, "responses": given["answers"]}


def by_ray(table: pa.Table, enrichment: se.Enrichment, given: Mapping[str, Any]) -> pa.Table:
    """Two actors of Ray Data."""
    import ray
    import ray.data

    quiet: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.ERROR}
    ray.init(num_cpus=2, ignore_reinit_error=True, **quiet)
    ray.data.DataContext.get_current().enable_progress_bars = False
    kind = KilledOnce if "flag" in given else se.Enricher
    options = options_of(given) | ({"flag": given["flag"]} if "flag" in given else {})
    batch = given.get("batch", BATCH)
    # An actor takes a whole block: rows of one block would all be one actor's.
    enriched = (
        ray.data.from_arrow(table)
        .repartition(max(1, len(table) // batch))
        .map_batches(
            kind,
            fn_constructor_args=[enrichment],
            fn_constructor_kwargs=options,
            batch_format="pyarrow",
            batch_size=batch,
            num_cpus=0.5,  # the tasks that feed the actors need CPUs too
            max_concurrency=2,
            compute=ray.data.ActorPoolStrategy(size=given.get("actors", ACTORS), max_tasks_in_flight_per_actor=3),
        )
    )
    return pa.concat_tables(ray.get(enriched.to_arrow_refs()), promote_options="permissive")


def by_daft(table: pa.Table, enrichment: se.Enrichment, given: Mapping[str, Any]) -> pa.Table:
    """A class of Daft."""
    import daft

    options = options_of(given)
    names = [*OUTPUTS[enrichment.name], *RESULTS]
    kinds = {"urgency": daft.DataType.int64()}
    fields = {name: kinds.get(name, daft.DataType.string()) for name in names}

    batched: Any = daft.method.batch(return_dtype=daft.DataType.struct(fields), batch_size=given.get("batch", BATCH))

    @daft.cls(max_concurrency=1)
    class Ask:
        def __init__(self) -> None:
            self.enricher = se.Enricher(enrichment, **options)

        @batched  # type: ignore[untyped-decorator]
        def __call__(self, body: daft.Series) -> Any:
            found = self.enricher(pa.table({"body": body.to_arrow()}))
            return pa.StructArray.from_arrays([found[name].combine_chunks() for name in names], names)

    frame = daft.from_arrow(table)
    frame = frame.with_column("found", Ask()(daft.col("body"))).collect()
    rows = [{**{name: row[name] for name in table.column_names}, **row["found"]} for row in frame.to_pylist()]
    return pa.Table.from_pylist(rows)


def by_vane(table: pa.Table, enrichment: se.Enrichment, given: Mapping[str, Any]) -> pa.Table:
    """An actor of Vane."""
    import vane

    options = options_of(given)

    class Ask:
        def __init__(self) -> None:
            self.enricher = se.Enricher(enrichment, **options)

        def __call__(self, rows: pa.Table) -> pa.Table:
            return self.enricher(rows)

    kinds = {"id": "BIGINT", "urgency": "BIGINT"}
    names = [*table.column_names, *OUTPUTS[enrichment.name], *RESULTS]
    schema: Any = {name: kinds.get(name, "VARCHAR") for name in names}
    rows = vane.connect().from_arrow(table)
    found = rows.map_batches(Ask, schema=schema, batch_size=given.get("batch", BATCH), actor_number=1).arrow()
    return found.read_all() if hasattr(found, "read_all") else found


def alone(table: pa.Table, enrichment: se.Enrichment, given: Mapping[str, Any]) -> pa.Table:
    """An Enricher in threads, two tables at a time."""
    enricher, batch = se.Enricher(enrichment, **options_of(given)), given.get("batch", BATCH)
    with ThreadPoolExecutor(2) as pool:
        return pa.concat_tables(pool.map(enricher, (table.slice(at, batch) for at in range(0, len(table), batch))))


TOOLS: dict[str, Callable[[pa.Table, se.Enrichment, Mapping[str, Any]], pa.Table]] = {
    "alone": alone,
    "ray": by_ray,
    "daft": by_daft,
    "vane": by_vane,
}


def main() -> None:
    """Send the rows through a tool, once for each of the settings, and write what comes out."""
    for file in sys.argv[2:]:
        given = json.loads(Path(file).read_text(encoding="utf-8"))
        table = pa.table({"id": list(range(len(given["bodies"]))), "body": pa.array(given["bodies"], pa.string())})
        found = TOOLS[sys.argv[1]](table, WORDS if "local" in given else TICKETS, given)
        pq.write_table(found, given["output"])


if __name__ == "__main__":
    main()
