"""The batches whose answers go to an output: listed from the ledger, and cancelled at their vendor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.core.plurals import counted
from sqlenrich.core.result import Result
from sqlenrich.core.text_table import table
from sqlenrich.runner.place import Output, PlaceOptions, RunPlaceOptions, place_in
from sqlenrich.spec.settings import Config, find_config
from sqlenrich.store.backend import Backend
from sqlenrich.store.batches import Batch, BatchLedger

ALL = "all"
"""The word for every open batch."""
_HEAD = ["key", "enrichment", "state", "requests", "answered", "failed", "not asked", "sent (UTC)", "hours", "endpoint"]


@dataclass(frozen=True, repr=False)
class Batches(Result):
    """The batches of an output, the oldest first. ``cancelled`` names those whose end the vendor was asked for."""

    batches: tuple[Batch, ...]
    place: str
    cancelled: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as the JSON has them."""
        return {"batches": [one.to_dict() for one in self.batches], "cancelled": list(self.cancelled)}

    def to_text(self) -> str:
        """Return a line a batch for a terminal."""
        if not self.batches:
            return f"{self.place} has no batches: sqlenrich run FILE --batch sends them"
        lines = [line.rstrip() for line in table([_HEAD, *map(_cells, self.batches)], 10_000)]
        lines += [f"{one.key}: {one.error}" for one in self.batches if one.error]
        waiting = sum(one.requests for one in self.batches if one.open)
        if waiting:
            lines.append(f"{counted(waiting, 'request')} in open batches: sqlenrich run FILE --batch collects them")
        if self.cancelled:
            lines.append(
                f"{counted(len(self.cancelled), 'batch', 'batches')} cancelled: what was answered before is paid for, "
                "and a run with --batch collects it"
            )
        return "\n".join(lines)


def _cells(one: Batch) -> list[str]:
    counts = ["" if n is None else f"{n:,}" for n in (one.requests, one.answered, one.failed, one.unasked)]
    hours = "" if one.seconds is None else f"{one.seconds / 3600:.1f}"
    return [one.key, one.name, one.state, *counts, f"{one.noted_at:%Y-%m-%d %H:%M}", hours, one.endpoint]


def batches(
    output: Output | None = None,
    *,
    cancel: str | None = None,
    endpoint: Endpoint | str | None = None,
    config: Config | None = None,
    **options: Unpack[PlaceOptions],
) -> Batches:
    """Return the batches of an output, or of a warehouse that the options name.

    ``cancel`` is the key of an open batch, or ``all``: its vendor is asked to end it. The vendor is reached through
    ``endpoint``, by default the one of the settings whose URL the batch has. Raises ConfigError.
    """
    config = config or find_config(None)
    place = place_in(config, output, RunPlaceOptions(**options), None)  # type: ignore[typeddict-item]
    if place is None:
        raise ConfigError("of which runs? Give --output out.duckdb, or --target")
    backend = place if isinstance(place, Backend) else _of_file(place)
    with backend:
        ledger = BatchLedger(backend.as_database())
        found = ledger.batches()
        chosen = [] if cancel is None else _chosen(found, cancel, backend.output)
        for batch in chosen:
            _cancel(batch, _endpoint_of(batch, endpoint, config))
        return Batches(tuple(found), backend.output, tuple(one.key for one in chosen))


def _of_file(output: Any) -> Backend:
    """Return the backend of a DuckDB output. Raises ConfigError where no run has written it."""
    from sqlenrich.store.duckdb.backend import DuckDBBackend

    backend = DuckDBBackend(output)
    if not backend.database.path.is_file():
        raise ConfigError(f"{backend.output}: no run has written it")
    return backend


def _chosen(found: Sequence[Batch], cancel: str, place: str) -> list[Batch]:
    """Return the batches to cancel. Raises ConfigError for a key of none, or of one that has ended."""
    open_ = [one for one in found if one.open and one.batch_id is not None]
    chosen = open_ if cancel == ALL else [one for one in open_ if one.key == cancel]
    if not chosen:
        keys = [one.key for one in open_]
        near = "" if cancel == ALL else did_you_mean(cancel, keys)
        what = "no open batch" if cancel == ALL else f'no open batch "{cancel}"{near}'
        raise ConfigError(f"{place} has {what}; open ones: {', '.join(keys) or 'none'}")
    return chosen


def _endpoint_of(batch: Batch, given: Endpoint | str | None, config: Config) -> Endpoint:
    """Return the endpoint of a batch: its URL is kept, its key is not. Raises ConfigError where it is another one."""
    from sqlenrich.llm.endpoint.urls import shown_url

    own = [one for one in config.endpoints.values() if shown_url(one.url) == batch.endpoint]
    if isinstance(given, Endpoint):
        found = given
    elif given is None and own:
        found = own[0]
    else:
        found = config.endpoint(given or batch.endpoint)
    if shown_url(found.url) != batch.endpoint:
        raise ConfigError(f"batch {batch.key} is at {batch.endpoint}, not at {shown_url(found.url)}")
    return found


def _cancel(batch: Batch, endpoint: Endpoint) -> None:
    from sqlenrich.llm.batch.vendors import batch_vendor
    from sqlenrich.llm.endpoint.request_config import RequestConfig

    with batch_vendor(endpoint, RequestConfig(batch.model)) as vendor:
        vendor.cancel(str(batch.batch_id))
