"""The report of a run: the same facts as text for people and as JSON for programs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.exit_status import EXIT_DONE, EXIT_OVER_LIMIT, EXIT_STOPPED
from sqlenrich.core.plurals import counted
from sqlenrich.core.result import Result
from sqlenrich.runner.report_html import ROWS_SHOWN, report_html
from sqlenrich.spec.prices import money
from sqlenrich.store.batches import ENDED
from sqlenrich.store.result_tables import ResultTables, to_pandas, to_polars

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlenrich.runner.drift import Drift

NOT_COUNTED = ("NO_INPUT", "NOT_ASKED")
"""Error codes that the model does not cause. They don't count towards ``max_quarantine``."""


class Refused(dict[str, int]):
    """The number of refused rows by reason. Called, it gives the rows as an Arrow table."""

    def __init__(self, reasons: Mapping[str, int], results: ResultTables | None, place: str) -> None:
        super().__init__(reasons)
        self._results, self._place = results, place

    def __call__(self) -> pa.Table:
        """Return the refused rows as an Arrow table. Raises ConfigError where they are in a warehouse's table."""
        tables = self.tables()
        return tables.read(tables.quarantine)

    def tables(self) -> ResultTables:
        """Return the tables of the run. Raises ConfigError where only a warehouse has them."""
        if self._results is None:
            raise ConfigError(f"the results are {self._place}")
        return self._results


@dataclass(frozen=True, repr=False)
class Report(Result):
    """The counts of one run. Always ``rows_in = enriched + quarantined``.

    ``distinct_requests`` counts the input's hashes, ``cached`` those answered before the run, ``calls`` every request
    sent, retries included, ``pending`` the requests without an answer. An unknown ``cost`` is None, and
    ``cost_unknown`` says why. ``latency_ms`` has ``p50``, ``p95`` and ``p99`` of the answers, None without any.
    ``stopped_at`` is the cap that ended the run (``max_rows``, ``max_calls``, ``max_cost``, ``stop_after_refused``).
    ``limits`` gives the share of the asking time in which each limit delayed requests: ``concurrency``, ``rpm``,
    ``tpm``, ``input_tpm``, ``output_tpm``, ``endpoint`` (down, or it asked to wait), ``endpoint_rate`` (a limit in its
    headers or shown by its refusals), ``max_cost``.
    """

    run_id: str
    rows_in: int
    distinct_requests: int
    cached: int
    calls: int
    retries: int
    enriched: int
    quarantined: int
    pending: int
    quarantine: Any
    """The number of refused rows by reason, as a :class:`Refused`: called, it gives the rows."""
    tokens_in: int | None
    tokens_out: int | None
    cost: float | None
    seconds: float
    tokens_cached: int | None = None
    currency: str | None = None
    prices_as_of: str | None = None
    latency_ms: Mapping[str, int] | None = None
    cost_unknown: str = ""
    name: str = ""
    output: str = ""
    stopped_at: str | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    served: Sequence[Mapping[str, Any]] = ()
    """The answers of the run by model: ``asked``, ``model`` and ``fingerprint`` (None where the answers name none),
    ``answers``."""
    served_changes: Sequence[str] = ()
    """A line for each model whose answers name several models or fingerprints."""
    pin_problem: str | None = None
    """Why the models that answered are not those of the header's ``pin_model``; None where they are."""
    statements: Sequence[Mapping[str, Any]] = ()
    """The statements that a warehouse ran: ``id``, ``link``, ``step``, ``chunk``, ``rows``, ``seconds``."""
    next: Sequence[Sequence[str]] = ()
    """The arguments of the commands that show refused rows and ask them again; empty where there are none."""
    results: ResultTables | None = field(default=None, repr=False, compare=False)
    max_quarantine: float | None = None
    stopped: bool = False
    declined: bool = False
    """Whether the caller declined to send the requests."""
    published: bool = True
    """Whether the tables of results are this run's; False: they are those of an earlier run."""
    cascade: Mapping[str, Any] | None = None
    """What both models of a cascade did: ``threshold``, ``agreement`` of the sample, ``calls`` and ``cost`` of each."""
    drift: Drift | None = None
    """How far the answers have moved from those of earlier runs, where the header has ``drift``."""
    unasked: int = 0
    """The pending requests that only a run asks, not a retry."""
    repairs_off: Mapping[str, int] = field(default_factory=dict)
    """The refused rows that a repair that is off would accept, by its name; several that are needed are one name."""
    advice: Sequence[str] = field(default=(), repr=False)
    """What is told of these repairs."""
    batches: Sequence[Mapping[str, Any]] = ()
    """The batches that the run sent or collected, and those that are open: ``key``, ``state``, ``endpoint``, ``model``,
    ``requests``, ``answered``, ``failed``, ``unasked``, ``seconds``, ``error``."""
    examples: Sequence[str] = field(default=(), repr=False)
    """What is told of the refused answers where ``stop_after_refused`` ended the run."""

    def __post_init__(self) -> None:
        place = f"the tables {self.name} and {self.name}_quarantine of {self.output}"
        object.__setattr__(self, "quarantine", Refused(self.quarantine, self.results, place))

    def table(self) -> pa.Table:
        """Return the accepted rows as an Arrow table.

        Raises ConfigError where the results are tables of a warehouse.
        """
        tables: ResultTables = self.quarantine.tables()
        return tables.read(tables.enriched)

    def df(self) -> Any:
        """Return the accepted rows as a pandas frame."""
        return to_pandas(self.table())

    def pl(self) -> Any:
        """Return the accepted rows as a polars frame."""
        return to_polars(self.table())

    def _repr_html_(self) -> str:
        """Return the report for a notebook: its text, and the first rows of both tables."""
        shown: list[tuple[str, Callable[[], pa.Table]]] = []
        if (tables := self.results) is not None:
            for table, name, count in (
                (tables.enriched, self.name, self.enriched),
                (tables.quarantine, f"{self.name}_quarantine", self.quarantined),
            ):
                if count:
                    shown.append((f"{name}: {counted(count, 'row')}", partial(tables.read, table, rows=ROWS_SHOWN)))
        return report_html(self.to_text(), shown)

    @property
    def exit_status(self) -> int:
        """The command's exit status: 0 done; 3 over ``max_quarantine`` (or all refused), an answer of another model
        than ``pin_model``, or an alarm of ``drift``; 4 stopped before the end."""
        if self.stopped or self.pending:
            return EXIT_STOPPED
        if self._over_limit or self.pin_problem:
            return EXIT_OVER_LIMIT
        return EXIT_DONE if self.drift is None else self.drift.exit_status

    @property
    def _over_limit(self) -> bool:
        """Whether too many rows were refused."""
        refused = sum(count for code, count in self.quarantine.items() if code not in NOT_COUNTED)
        asked = refused + self.enriched
        over = self.max_quarantine is not None and asked > 0 and refused / asked > self.max_quarantine
        return asked > 0 and (refused == asked or over)

    def to_dict(self) -> dict[str, Any]:
        """Return the facts by name, as the JSON has them."""
        hidden = ("name", "output", "next", "results", "max_quarantine", "stopped", "declined", "unasked", "drift",
                  "examples", "advice")  # fmt: skip
        facts = {each.name: _plain(getattr(self, each.name)) for each in fields(self) if each.name not in hidden}
        for name in ("statements", "batches"):
            if not facts[name]:
                del facts[name]
        if self.drift is not None:
            facts["drift"] = self.drift.to_dict()
        if not self.repairs_off:
            del facts["repairs_off"]
        if self.cascade is None:
            del facts["cascade"]
        return {**facts, "cost_unknown": self.cost_unknown or None}

    def to_text(self) -> str:
        """Return the report for a terminal."""
        if self.declined:
            if not self.published:
                return f"nothing was sent, and nothing changed: {self.name} and {self.name}_quarantine are as they were"
            return f"nothing was sent: what is not answered is NOT_ASKED in {self.name}_quarantine"
        lines = [
            f"{counted(self.rows_in, 'row')} in = {self.enriched:,} enriched + {self.quarantined:,} quarantined",
            f"{counted(self.calls, 'call')} ({counted(self.retries, 'retry', 'retries')}), {self.cached:,} of "
            f"{counted(self.distinct_requests, 'distinct request')} already answered, {self.seconds:.1f} s",
        ]
        lines += self._spent()
        lines += self._cascade()
        lines += self._batches()
        lines += self.served_changes
        if self.limits:
            named = [f"{name.replace('_', ' ')} {share:.0%}" for name, share in self.limits.items() if share >= 0.01]
            reached = ", ".join(named).replace("%", " %")
            lines.append(f"limits reached: {reached} (of the time)" if reached else "limits reached: none")
        lines += [f"  {code:<14}{count:>10,}" for code, count in self.quarantine.items()]
        lines += [f"  -> {place}" for place in (self.output,) if place]
        lines += self.advice
        own = self.pending - self.unasked
        if self.stopped or own:
            at = f" at --{self.stopped_at.replace('_', '-')}" if self.stopped_at else ""
            left = f"{counted(own, 'request')} to go"
            lines += self.examples
            lines.append(
                f"stopped{at} before the first request, {left}: it allows none, raise it"
                if at and not self.calls
                else f"stopped with {left}: mend the prompt, the model or the repairs, then run again; "
                "--stop-after-refused 0 goes on all the same"
                if self.examples
                else f"{counted(len(self._open), 'batch', 'batches')} open at the vendor, {left}; "
                "the same command collects them"
                if self._open
                else f"stopped{at} with {left}; run the same command again to continue"
            )
        if not self.published and not self.declined:
            lines.append(
                f"{self.name} and {self.name}_quarantine are those of the run before; --publish-partial replaces them"
            )
        if self.unasked:
            lines.append(f"{counted(self.unasked, 'request')} never asked: sqlenrich run asks them, retry does not")
        if self.pin_problem:
            lines.append(self.pin_problem)
        if self.drift is not None and self.drift.run:
            lines += [f"drift: {self.drift.verdict()}", *self.drift.notes]
        if self._over_limit and not (self.stopped or self.pending):
            limit = f"over max_quarantine {self.max_quarantine}" if self.enriched else "all rows were refused"
            lines.append(f"too many refused: {limit}; see {self._refused_place()}")
            lines += self._next()
        return "\n".join(lines)

    @property
    def _open(self) -> list[Mapping[str, Any]]:
        """The batches whose answers are still to come."""
        return [one for one in self.batches if one["state"] not in ENDED]

    def _cascade(self) -> list[str]:
        """The line of what each model of a cascade decided."""
        if (facts := self.cascade) is None:
            return []
        share = (
            f"{facts['requests']:,} of {counted(self.distinct_requests, 'distinct request')} asked of {facts['second']}"
        )
        column, threshold = facts.get("column"), facts["threshold"]
        decides = f"; {facts['first']} decides {f'{column} up to' if column else 'from'} {threshold or 0.0:g}"
        if facts["sample"] is not None and facts["otherwise"] is not None:
            rows = f"{counted(facts['sample'], 'sampled row')} of another value"
            told = f"; no {facts.get('column') or 'lead'} is certified for a recall of {facts['target']:g} by {rows}"
            if facts["threshold"] is not None:
                recall = f"recall {facts['agreement']:.3f} of {rows}, at least {facts['target']:g} certified"
                told = f"{decides}: {recall}"
        elif facts["sample"] is None:
            told = "" if facts["threshold"] is None else decides
        elif facts["threshold"] is None:
            told = (
                f"; no threshold is certified for {facts['target']:g}: the models agree in {facts['equal']:,} of "
                f"{counted(facts['sample'], 'sampled row')}"
            )
        else:
            told = (
                f"{decides}: agreement {facts['agreement']:.3f} in "
                f"{counted(facts['sample'], 'sampled row')}, at least {facts['target']:g} certified"
            )
        cost = facts.get("cost_of_all")
        all_rows = "" if cost is None else f"; {facts['second']} for all: about {money(cost)} {self.currency}"
        return [f"cascade: {share}{told}{all_rows}"]

    def _batches(self) -> list[str]:
        """The line of what became of batches."""
        done = [one for one in self.batches if one["state"] in ENDED]
        if not done:
            return []
        answered, failed, unasked = (sum(one[name] or 0 for one in done) for name in ("answered", "failed", "unasked"))
        longest = max(one["seconds"] or 0.0 for one in done) / 3600
        told = f"{answered:,} answered, {failed:,} failed, {unasked:,} not asked; the longest took {longest:,.1f} h"
        return [f"{counted(len(done), 'batch', 'batches')}: {told}"]

    def _refused_place(self) -> str:
        """The place of the refused rows: a table, or the file beside an output file."""
        output = PurePath(self.output)
        beside = ", " not in self.output and output.suffix.lower() in (".csv", ".parquet", ".jsonl", ".ndjson")
        return str(output.with_stem(f"{output.stem}_quarantine")) if beside else f"{self.name}_quarantine"

    def _next(self) -> list[str]:
        """The commands that show the refused rows and ask them again."""
        commands = [
            one if one[0] != "show" or "--output" in one else (*one, "--output", self.output)
            for one in self.next
            if one[0] != "show" or self.results is not None
        ]
        return [f"next: {', or '.join(shlex.join(('sqlenrich', *one)) for one in commands)}"] if commands else []

    def _spent(self) -> list[str]:
        """The lines of tokens, cost and latency."""
        lines = []
        if self.tokens_in is not None or self.tokens_out is not None:
            cached = f" ({self.tokens_cached:,} cached)" if self.tokens_cached else ""
            cost = f"cost unknown{f': {self.cost_unknown}' if self.cost_unknown else ''}"
            if self.cost is not None:
                cost = f"{money(self.cost)} {self.currency} (prices of {self.prices_as_of})"
            lines.append(f"{self.tokens_in or 0:,} tokens in{cached}, {self.tokens_out or 0:,} out; {cost}")
        if self.latency_ms and any(self.latency_ms.values()):  # the mock model takes no time
            lines.append("latency " + ", ".join(f"{name} {value:,} ms" for name, value in self.latency_ms.items()))
        return lines


def _plain(value: Any) -> Any:
    """Return a fact as JSON has it."""
    return dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, list | tuple) else value
