"""The report of a run: the same facts as text for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePath
from typing import Any

from sqlenrich.spec.prices import money

EXIT_DONE, EXIT_ERROR, EXIT_USAGE, EXIT_OVER_LIMIT, EXIT_STOPPED = 0, 1, 2, 3, 4
NOT_COUNTED = ("NO_INPUT", "NOT_ASKED")
"""Error codes that the model does not cause. They don't count towards ``max_quarantine``."""


def counted(count: int, one: str, many: str = "") -> str:
    """Give a number and what it counts."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


@dataclass(frozen=True)
class Report:
    """The counts of one run. Always ``rows_in = enriched + quarantined``.

    ``distinct_requests`` counts the input's hashes, ``cached`` those answered before the run, ``calls`` every request
    sent, retries included, ``pending`` the requests without an answer. An unknown ``cost`` is None, and
    ``cost_unknown`` says why. ``latency_ms`` has ``p50``, ``p95`` and ``p99`` of the answers, None without any.
    ``stopped_at`` is the cap that ended the run (``max_rows``, ``max_calls``, ``max_cost``). ``limits`` gives the share
    of the asking time in which each limit delayed requests: ``concurrency``, ``rpm``, ``tpm``, ``input_tpm``,
    ``output_tpm``, ``endpoint`` (down, or it asked to wait), ``endpoint_rate`` (a limit in its headers or shown by its
    refusals), ``max_cost``.
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
    quarantine: Mapping[str, int]
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
    max_quarantine: float | None = None
    stopped: bool = False
    unasked: int = 0
    """The pending requests that only a run asks, not a retry."""

    @property
    def exit_status(self) -> int:
        """The command's exit status: 0 done, 3 over ``max_quarantine`` (or all refused), 4 stopped before the end."""
        if self.stopped or self.pending:
            return EXIT_STOPPED
        refused = sum(count for code, count in self.quarantine.items() if code not in NOT_COUNTED)
        asked = refused + self.enriched
        if asked and (refused == asked or (self.max_quarantine is not None and refused / asked > self.max_quarantine)):
            return EXIT_OVER_LIMIT
        return EXIT_DONE

    def to_dict(self) -> dict[str, Any]:
        """Give the facts by name, as the JSON has them."""
        hidden = ("name", "output", "max_quarantine", "stopped", "unasked")
        facts = {key: value for key, value in asdict(self).items() if key not in hidden}
        return {**facts, "cost_unknown": self.cost_unknown or None}

    def to_json(self) -> str:
        """Give the report as one line of JSON."""
        return json.dumps(self.to_dict())

    def to_text(self) -> str:
        """Give the report for a terminal."""
        lines = [
            f"{counted(self.rows_in, 'row')} in = {self.enriched:,} enriched + {self.quarantined:,} quarantined",
            f"{counted(self.calls, 'call')} ({counted(self.retries, 'retry', 'retries')}), {self.cached:,} of "
            f"{counted(self.distinct_requests, 'distinct request')} already answered, {self.seconds:.1f} s",
        ]
        lines += self._spent()
        if self.limits:
            named = [f"{name.replace('_', ' ')} {share:.0%}" for name, share in self.limits.items() if share >= 0.01]
            reached = ", ".join(named).replace("%", " %")
            lines.append(f"limits reached: {reached} (of the time)" if reached else "limits reached: none")
        lines += [f"  {code:<14}{count:>10,}" for code, count in self.quarantine.items()]
        lines += [f"  -> {place}" for place in (self.output,) if place]
        own = self.pending - self.unasked
        if self.stopped or own:
            at = f" at --{self.stopped_at.replace('_', '-')}" if self.stopped_at else ""
            left = f"{counted(own, 'request')} to go"
            lines.append(
                f"stopped{at} before the first request, {left}: it allows none, raise it"
                if at and not self.calls
                else f"stopped{at} with {left}; run the same command again to continue"
            )
        if self.unasked:
            lines.append(f"{counted(self.unasked, 'request')} never asked: sqlenrich run asks them, retry does not")
        if self.exit_status == EXIT_OVER_LIMIT:
            limit = f"over max_quarantine {self.max_quarantine}" if self.enriched else "all rows were refused"
            lines.append(f"too many refused: {limit}; see {self._refused_place()}")
        return "\n".join(lines)

    def _refused_place(self) -> str:
        """The place of the refused rows: a table, or the file beside an output file."""
        output = PurePath(self.output)
        beside = output.suffix.lower() in (".csv", ".parquet")
        return str(output.with_stem(f"{output.stem}_quarantine")) if beside else f"{self.name}_quarantine"

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
