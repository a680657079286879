"""Load jobs: a file that a client sends in one part, read as CSV into a table.

https://docs.cloud.google.com/bigquery/docs/reference/api-uploads and
https://docs.cloud.google.com/bigquery/docs/reference/rest/v2/Job#jobconfigurationload, read 2026-11-23. An empty cell
is NULL here, quoted or not.
"""

from __future__ import annotations

import csv
import io
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from tests.standins.googlesql.values import kind
from tests.standins.googlesql.warehouse import Job, JobError, Warehouse

_NUMBERS = {"INT64": int, "FLOAT64": float}


class Uploads:
    """Uploads that were begun, by their ids."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._begun: dict[str, Mapping[str, Any]] = {}

    def begin(self, job: Mapping[str, Any]) -> str:
        """Take a job whose file comes next, and give the upload's id."""
        id = str(uuid.uuid4())
        self._begun[id] = job
        return id

    def finish(self, id: str, data: bytes) -> Job:
        """Load the file of an upload. The warehouse's lock is held."""
        if id not in self._begun:
            raise JobError("notFound", f"Not found: upload {id}")
        given = self._begun.pop(id)
        load = given["configuration"]["load"]
        job = Job(given["jobReference"].get("jobId") or id, "", given["configuration"])
        self._warehouse.jobs[job.id] = job
        try:
            _load(self._warehouse, load, data.decode())
        except (JobError, ValueError) as error:
            job.error = error if isinstance(error, JobError) else JobError("invalid", str(error))
        job.end()
        return job


def _load(warehouse: Warehouse, load: Mapping[str, Any], text: str) -> None:
    place = load["destinationTable"]
    dataset, name = place["datasetId"], place["tableId"]
    if dataset not in warehouse.datasets:
        raise JobError("notFound", f"Not found: Dataset {warehouse.project}:{dataset}")
    if load.get("writeDisposition") != "WRITE_TRUNCATE" or load.get("sourceFormat", "CSV") != "CSV":
        raise JobError("notImplemented", "the stand-in loads CSV with WRITE_TRUNCATE alone")
    lines = list(csv.reader(io.StringIO(text), delimiter=load.get("fieldDelimiter") or ","))
    warehouse.create(dataset, name, load["schema"]["fields"])
    table = warehouse.datasets[dataset][name]
    names = [name for name, _ in table.columns]
    rows = [dict(zip(names, line, strict=True)) for line in lines[int(load.get("skipLeadingRows", 0)) :]]
    warehouse.insert(table, [_typed(row, table.columns) for row in rows])


def _typed(row: Mapping[str, str], columns: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    return {name: _NUMBERS.get(kind(type_), str)(row[name]) if row[name] else None for name, type_ in columns}
