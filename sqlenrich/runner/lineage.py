"""Lineage events of runs by OpenLineage (extra ``openlineage``), switched on by its own environment variables.

START, then COMPLETE, ABORT (stopped before its end) or FAIL: the source, the two result tables with their rows, and
which columns each result column comes from. No prompt, no answer and no value of a row is in them.
https://openlineage.io/docs/spec/naming names datasets (read 2026-11-28).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlenrich.core import runtime
from sqlenrich.core.errors import ConfigError
from sqlenrich.core.exit_status import EXIT_STOPPED
from sqlenrich.core.version import __version__
from sqlenrich.runner.telemetry import COUNTS, span
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.store.backend import Backend
from sqlenrich.store.inputs import TableInMemory

if TYPE_CHECKING:
    from sqlenrich.runner.report import Report

SWITCHES = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT__TYPE")
"""Variables of which one switches it on; ``OPENLINEAGE_DISABLED=true`` switches it off."""
PRODUCER = f"https://github.com/sqlenrich/sqlenrich/tree/v{__version__}"
NAMESPACE = "sqlenrich"
"""The namespace of jobs, unless OPENLINEAGE_NAMESPACE names one."""
_UNQUOTED = str.maketrans("", "", '"`')


def is_on() -> bool:
    """Tell whether the environment asks for lineage."""
    disabled = os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() in ("true", "1")
    return not disabled and any(os.environ.get(name) for name in SWITCHES)


@contextmanager
def told(
    verb: str,
    enrichment: Enrichment,
    backend: Backend,
    source: Any,
    run_id: str,
    note: Callable[[str], None],
    **attributes: str | None,
) -> Iterator[Callable[[Report], None]]:
    """Tell other systems of a run while the context lasts, where the environment says so; call it with the report.

    ``attributes`` are those of the span. Raises ConfigError where a package is missing.
    """
    with (
        span(verb, enrichment.name, note, engine=backend.engine.name, **attributes) as recorded,
        lineage(enrichment, backend, source, run_id, note) as events,
    ):

        def end(report: Report) -> None:
            for one in (recorded, events):
                if one is not None:
                    one.end(report)

        yield end


@contextmanager
def lineage(
    enrichment: Enrichment, backend: Backend, source: Any, run_id: str, note: Callable[[str], None]
) -> Iterator[Lineage | None]:
    """Tell of a run while the context lasts; None where lineage is off. What can't be sent is a note.

    Raises ConfigError where the package is missing.
    """
    if not is_on():
        yield None
        return
    events = Lineage(_client(), enrichment, backend, source, run_id, note)
    events.emit("START")
    try:
        yield events
    except BaseException as error:
        events.fail(error)
        raise


class Lineage:
    """The events of one run."""

    def __init__(
        self,
        client: Any,
        enrichment: Enrichment,
        backend: Backend,
        source: Any,
        run_id: str,
        note: Callable[[str], None],
    ) -> None:
        self._client, self._enrichment, self._backend, self._note = client, enrichment, backend, note
        self._namespace = _namespace(backend)
        self._inputs = _inputs(enrichment, self._namespace, source)
        # A run has an id of its own kind; lineage wants a UUID, the same one for the same run.
        self._run = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self._namespace}/{enrichment.name}/{run_id}"))

    def end(self, report: Report) -> None:
        """Tell what a run gave."""
        from openlineage.client.generated.base import RunFacet

        facts = report.to_dict()
        counts = {name: facts[name] for name in COUNTS}
        facet = RunFacet().with_additional_properties(
            **counts, exitStatus=report.exit_status, reasons=dict(report.quarantine), cost=report.cost
        )
        written = {"enriched": report.enriched, "quarantine": report.quarantined} if report.published else {}
        self.emit("ABORT" if report.exit_status == EXIT_STOPPED else "COMPLETE", {"sqlenrich": facet}, written)

    def fail(self, error: BaseException) -> None:
        """Tell the class of an error: its message may quote a row."""
        from openlineage.client.facet_v2 import error_message_run

        facet = error_message_run.ErrorMessageRunFacet(type(error).__name__, "Python")
        self.emit("FAIL", {"errorMessage": facet})

    def emit(self, state: str, facets: dict[str, Any] | None = None, written: dict[str, int] | None = None) -> None:
        """Send an event."""
        from openlineage.client.event_v2 import Job, Run, RunEvent, RunState

        namespace = os.environ.get("OPENLINEAGE_NAMESPACE") or NAMESPACE
        event = RunEvent(
            eventType=RunState[state],
            eventTime=runtime.now().isoformat(),
            run=Run(self._run, facets or {}),
            job=Job(namespace, self._enrichment.name),
            producer=PRODUCER,
            inputs=self._inputs,
            outputs=self._outputs(written or {}),
        )
        try:
            self._client.emit(event)
        except Exception as error:  # of any transport
            self._note(f"OpenLineage did not take the event {state}: {type(error).__name__}; the run goes on")

    def _outputs(self, written: dict[str, int]) -> list[Any]:
        from openlineage.client.event_v2 import OutputDataset
        from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics

        relations = self._backend.relations(self._enrichment.name)
        columns = {"columnLineage": self._columns()} if self._inputs else {}
        return [
            OutputDataset(
                namespace=self._namespace,
                name=relations[role].translate(_UNQUOTED),
                facets=columns if role == "enriched" else {},
                outputFacets=(
                    {"outputStatistics": statistics.OutputStatisticsOutputDatasetFacet(written[role])}
                    if role in written
                    else {}
                ),
            )
            for role in ("enriched", "quarantine")
        ]

    def _columns(self) -> Any:
        """Return which columns of the source each result column comes from."""
        from openlineage.client.facet_v2 import column_lineage_dataset as facet

        enrichment = self._enrichment

        def field(column: str, kind: str) -> list[Any]:
            name = enrichment.source_name(column)
            how = facet.Transformation("DIRECT", subtype=kind, masking=False)
            return [facet.InputField(one.namespace, one.name, name, [how]) for one in self._inputs]

        copied = {name: field(name, "IDENTITY") for name in (*enrichment.key, *enrichment.keep)}
        read = [one for name in enrichment.prompt().columns for one in field(name, "TRANSFORMATION")]
        given = {**dict.fromkeys(enrichment.output_columns, read), **copied}
        return facet.ColumnLineageDatasetFacet({name: facet.Fields(fields) for name, fields in given.items()})


def _namespace(backend: Backend) -> str:
    """Return the namespace of the tables of a place."""
    engine = backend.engine.name
    if engine == "bigquery":
        return engine
    return f"{engine}://{backend.place}"


def _inputs(enrichment: Enrichment, namespace: str, source: Any) -> list[Any]:
    """Return what a run reads; nothing for rows in memory."""
    from openlineage.client.event_v2 import InputDataset

    if isinstance(source, TableInMemory):
        return []
    if source is not None and (path := Path(str(source))).exists():
        return [InputDataset("file", str(path.resolve()))]
    if source is not None:
        return [InputDataset(namespace, str(source))]
    return [] if enrichment.source is None else [InputDataset(namespace, enrichment.source)]


@cache
def _client() -> Any:
    try:
        from openlineage.client import OpenLineageClient
        from openlineage.client.event_v2 import set_producer
    except ImportError:
        raise ConfigError(
            "the environment switches OpenLineage on (OPENLINEAGE_...), and it is not installed: pip install "
            '"sqlenrich[openlineage]", or set OPENLINEAGE_DISABLED=true'
        ) from None
    set_producer(PRODUCER)
    return OpenLineageClient()
