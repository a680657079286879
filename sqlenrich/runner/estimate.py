"""``sqlenrich plan``: the calls, tokens, cost and time of a run, estimated before the first call."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from sqlenrich.ask.batch import NO_BATCHES
from sqlenrich.ask.model_choice import ModelChoice, ModelOptions, choose_model
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import ConfigError
from sqlenrich.core.limits import PER_MINUTE
from sqlenrich.core.result import Result
from sqlenrich.plan.relations import RELATIONS
from sqlenrich.runner.cascade import classifier_of, second_model
from sqlenrich.runner.model_end import ModelEnd, model_end
from sqlenrich.runner.options import (
    CapOptions,
    InputOptions,
    SourceOptions,
)
from sqlenrich.runner.place import PlaceOptions, is_paths
from sqlenrich.runner.session import choice_of
from sqlenrich.runner.setup import Setup, set_up
from sqlenrich.runner.source import compile_source
from sqlenrich.runner.token_estimates import PendingRequests, TokensIn, TokensOut
from sqlenrich.runner.usage import NO_PRICES
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.prices import Prices, money
from sqlenrich.spec.run_settings import AnyModel, Caps
from sqlenrich.spec.settings import Config
from sqlenrich.store import queries
from sqlenrich.store.scratch import scratch_folder


@dataclass(frozen=True, repr=False)
class Estimate(Result):
    """The estimate of a run. ``calls`` are the requests without an answer, retries excluded;
    of those for vectors many go with one call.

    Cost and time are ranges. An unknown bound is None, never 0. ``limit`` names what determines the time.
    """

    name: str
    model: str
    rows: int
    not_asked: Mapping[str, int]
    distinct_requests: int
    cached: int
    calls: int
    tokens_in: TokensIn | None
    tokens_out: TokensOut | None
    cost_low: float | None
    cost_high: float | None
    cost_unknown: str | None
    currency: str | None
    prices_as_of: str | None
    seconds_low: float | None
    seconds_high: float | None
    limit: str | None
    compiled: tuple[str, ...] = ()
    """The steps whose statements a warehouse has compiled."""
    pending: int = 0
    """The requests without an answer; more than ``calls`` where a cap ends the run before."""
    stopped_at: str | None = None
    """The cap that ends the run, by this estimate."""
    cached_assumed: int = 0
    """The input tokens that the lower bound of the cost assumes to be cached."""
    where: str = ""
    output: str = ""
    texts_per_call: int = 1
    """How many requests for a vector go with one call at most."""
    model_end: str | None = None
    """What the warehouse, or its vendor's pages, tell of the model's end."""
    cascade: Mapping[str, Any] | None = None
    """Of the other model of a cascade: ``model``, the most ``calls``, and their ``cost`` where it is known."""

    def to_dict(self) -> dict[str, Any]:
        """Return the facts by name, as the JSON has them."""
        facts = asdict(self)
        for hidden in ("where", "output", "cached_assumed", "texts_per_call"):
            del facts[hidden]
        facts["endpoint"] = self.where.removeprefix(" at ") if self.where.startswith(" at ") else None
        if self.cascade is None:
            del facts["cascade"]
        for name in ("cost", "seconds"):
            low, high = facts.pop(f"{name}_low"), facts.pop(f"{name}_high")
            facts[name] = None if low is None else {"low": low, "high": high}
        return facts

    def to_text(self, width: int | None = None) -> str:
        """Return the estimate for a terminal of ``width`` columns: each fact with its value and its source."""
        reasons = ", ".join(f"{count:,} {code}" for code, count in self.not_asked.items() if count)
        lines = [
            ("rows", f"{self.rows:,}", ""),
            ("not asked", f"{sum(self.not_asked.values()):,}", reasons),
            ("requests", f"{self.distinct_requests:,}", "distinct"),
            ("answered", f"{self.cached:,}", f"in {self.output}" if self.output else "no --output to look into"),
            ("calls", f"{self.calls:,}", self._capped()),
        ]
        if self.tokens_in is not None:
            lines.append(("tokens in", f"{self.tokens_in.total:,}", self.tokens_in.to_text()))
        if self.tokens_out is not None:
            out = self.tokens_out
            lines.append(("tokens out", _range(out.total_low, out.total_high, "{:,}".format), out.to_text()))
        if self.cost_low is None:
            lines.append(("cost", "unknown", str(self.cost_unknown)))
        else:
            cost = f"{_range(self.cost_low, self.cost_high, money)} {self.currency}"
            kind = "prices of batches" if self.limit == BATCHED else "prices"
            lines.append(("cost", cost, f"{kind} of {self.prices_as_of}, {self._cached()}, no retries"))
        if self.limit == BATCHED:
            lines.append(("time", "within a day", BATCHED))
        elif self.seconds_low is None:
            in_sql = bool(self.where) and not self.where.startswith(" at ")
            why = "a warehouse tells no time" if in_sql else "no rpm or tpm is set, and no stored answer has a latency"
            lines.append(("time", "unknown", why))
        else:
            lines.append(("time", _range(self.seconds_low, self.seconds_high, duration), f"{self.limit}"))
        if self.cascade is not None:
            most, model = self.cascade["calls"], self.cascade["model"]
            cost = self.cascade["cost"]
            priced = "" if cost is None else f", at most {money(cost)} {self.currency}"
            if most is not None:
                lines.append(("cascade", f"at most {most:,}", f"calls to {model}{priced}"))
            else:
                lines.append(("cascade", "no call", f"for what is certified of {model}: the calls are at most these"))
        if self.model_end is not None:
            lines.append(("model", "", self.model_end))
        if self.compiled:
            lines.append(("statements", f"{len(self.compiled)}", f"compiled, not run: {', '.join(self.compiled)}"))
        values = max(len(value) for _, value, _ in lines)
        room = None if width is None else max(width - values - 14, 20)
        table = []
        for label, value, note in lines:
            first, *rest = textwrap.wrap(note, room, break_long_words=False) or [""] if room else [note]
            table.append(f"{label:<12}{value:<{values}}  {first}".rstrip())
            table += [" " * (values + 14) + line for line in rest]
        estimated = None if self.tokens_in is None else self.tokens_in.why
        known = [f"tokens in are an estimate: {estimated}"] if estimated is not None else []
        return "\n".join([f"plan of {self.name}: {self.model}{self.where}; nothing was asked", *table, *known])

    def _capped(self) -> str:
        """The cap that ends the run, and what is left then."""
        if self.stopped_at is None:
            return f"with up to {self.texts_per_call:,} texts each" if self.texts_per_call > 1 and self.calls else ""
        option = f"--{self.stopped_at.replace('_', '-')}"
        if self.stopped_at == "max_cost":
            return f"at most: {option} ends the run before"
        return f"of {-(-self.pending // self.texts_per_call):,}: {option} ends the run"

    def _cached(self) -> str:
        """The input that the lower bound of the cost assumes to be cached."""
        if not self.cached_assumed:
            return "no input assumed to be cached"
        return f"the lower bound with {self.cached_assumed:,} tokens in cached: the constant beginning"


BATCHED = "the window in which a vendor answers a batch"
"""What bounds the time of batches."""


class EstimateOptions(SourceOptions, InputOptions, ModelOptions, CapOptions, PlaceOptions, total=False):
    """The shorthands of an estimate: source, model, caps, prices, warehouse; whether batches are asked."""

    batch: bool


def estimate(
    enrichment: Enrichment | str | Path,
    *,
    input: Any = None,
    output: str | Path | Sequence[str | Path] | None = None,
    model: AnyModel | None = None,
    caps: Caps | None = None,
    responses: str | None = None,
    sample: int = 100,
    config: Config | None = None,
    **options: Unpack[EstimateOptions],
) -> Estimate:
    """Estimate the calls, tokens, cost and time of :func:`~sqlenrich.run` with the same arguments. No model is asked.

    ``output`` is only read, and may be absent. Its answers are not asked again, and their tokens and latencies are the
    basis of the estimate. An endpoint with a token counter counts ``sample`` prompts; with 0 no prompt is sent. On a
    warehouse nothing is written: it compiles the statements, counts by SELECTs, and counts the tokens of ``sample``
    prompts where it has a function for that.
    """
    setup = set_up(
        "estimate", EstimateOptions, options, enrichment,
        input=input, output=output, model=model, caps=caps, responses=responses, config=config,
    )  # fmt: skip
    enrichment, config, caps = setup.enrichment, setup.config, setup.caps
    planned = _in_files if setup.output is None or is_paths(setup.output) else _on_warehouse
    with planned(setup) as (choice, second, pending, shown, compiled, end):
        rows, distinct, no_input, bad_prompt = (int(n or 0) for n in pending.requests.rows(queries.planned())[0])
        together = choice.texts_per_call
        asked, stopped_at = _capped_requests(pending.calls, caps, together)
        calls = -(-asked // together)
        latency_ms = pending.latency_ms()
        share = asked / pending.calls if pending.calls else 0.0
        tokens_in = pending.tokens_in(sample).scaled(share) if calls else None
        tokens_out = pending.tokens_out().scaled(share) if calls else None
    cascade = None
    if second is not None and enrichment.cascade is not None and enrichment.cascade.ask:
        price = None if config.prices is None else config.prices.models.get(second.resolved.name)
        most = None if tokens_out is None else tokens_out.total_high
        cost = None
        if price is not None and tokens_in is not None and most is not None and asked == distinct:
            cost = price.cost(tokens_in.total, 0, most)
        cascade = {"model": second.resolved.name, "calls": distinct, "cost": cost}
    if (classifier := classifier_of(enrichment)) is not None:
        cascade = {"model": classifier.model, "calls": None, "cost": None}
    settings = choice.endpoint
    fixed = settings is None or settings.concurrency is not None
    batch = bool(options.get("batch"))
    if batch and settings is None:
        raise ConfigError(NO_BATCHES)
    cost_low, cost_high, unknown, cached_assumed = _cost(
        config.prices, choice.resolved.name, tokens_in, tokens_out, batch=batch
    )
    if caps.max_cost is not None and cost_high is not None and cost_high > caps.max_cost:
        cost_low, cost_high, stopped_at = min(cost_low or 0.0, caps.max_cost), caps.max_cost, "max_cost"
    low, high, limit = _time(settings, calls, tokens_in, tokens_out, latency_ms, choice.concurrency, fixed=fixed)
    if batch and calls:
        low, high, limit = None, None, BATCHED
    return Estimate(
        name=enrichment.name,
        model=choice.resolved.name,
        rows=rows,
        not_asked={"NO_INPUT": no_input, "BAD_PROMPT": bad_prompt},
        distinct_requests=distinct,
        cached=distinct - pending.calls,
        calls=calls,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cost_low=cost_low,
        cost_high=cost_high,
        cost_unknown=unknown,
        currency=None if config.prices is None else config.prices.currency,
        prices_as_of=None if config.prices is None else config.prices.told,
        seconds_low=low,
        seconds_high=high,
        limit=limit,
        compiled=compiled,
        pending=pending.calls,
        stopped_at=stopped_at,
        cached_assumed=cached_assumed,
        where=choice.where,
        output=shown,
        texts_per_call=together,
        model_end=None if end is None else end.to_text(),
        cascade=cascade,
    )


def _capped_requests(requests: int, caps: Caps, together: int) -> tuple[int, str | None]:
    """Return the requests under the caps, and the cap that is below all; so many go with one call."""
    max_calls = None if caps.max_calls is None else caps.max_calls * together
    limits = {"max_rows": caps.max_rows, "max_calls": max_calls}
    found = min((limit, name) for name, limit in {**limits, "": requests}.items() if limit is not None)
    return found[0], found[1] or None if found[0] < requests else None


class _Planned(NamedTuple):
    """What an estimate reads, where the answers are in words, and the steps that a warehouse has compiled."""

    choice: ModelChoice
    second: ModelChoice | None
    pending: PendingRequests
    output: str
    compiled: tuple[str, ...] = ()
    end: ModelEnd | None = None


@contextmanager
def _in_files(setup: Setup) -> Iterator[_Planned]:
    from sqlenrich.store.duckdb.backend import DuckDBBackend
    from sqlenrich.store.duckdb.files import outputs_of
    from sqlenrich.store.duckdb.planned import ScratchRequests

    enrichment, output, database = setup.enrichment, setup.output, None
    choice = choose_model(enrichment, setup.config, setup.wanted)
    if output is not None:
        assert is_paths(output)
        outputs = outputs_of(output)
        database = outputs.database
        DuckDBBackend(output).check_before_run(enrichment, setup.source)
    source = setup.source if setup.source is not None else database
    if source is None and enrichment.query is None:
        raise ConfigError("which rows? Give --input PATH")
    with scratch_folder() as folder, DuckDBBackend(folder / "plan.duckdb") as backend:
        enrichment, plan = compile_source(enrichment, backend, choice.resolved, source)
        table = setup.responses or RELATIONS["responses"].format(enrichment.name)
        requests = ScratchRequests(backend, plan, database, table)
        shown = "" if database is None else f"{outputs}{'' if requests.found else _nothing_in(database)}"
        second = second_model(enrichment, setup.config, setup.wanted, backend, choice)
        yield _Planned(choice, second, PendingRequests(requests, plan, enrichment, choice), shown)


@contextmanager
def _on_warehouse(setup: Setup) -> Iterator[_Planned]:
    from sqlenrich.store.planned import StatementRequests
    from sqlenrich.store.spark.backend import SparkBackend
    from sqlenrich.store.warehouse import WarehouseBackend

    backend = setup.output
    if not isinstance(backend, WarehouseBackend | SparkBackend):
        raise ConfigError("a plan reads files or a warehouse: give the output as a path, or an engine or a target")
    choice = choice_of(setup.enrichment, setup.config, setup.wanted, backend, Caps())
    with backend:
        given = {"responses": setup.responses} if setup.responses else {}
        enrichment, plan = compile_source(
            setup.enrichment,
            backend,
            choice.resolved,
            setup.source,
            relations=backend.relations(setup.enrichment.name) | given,
            asked_by_client=not choice.asks_in_sql,
        )
        backend.check_tables(plan)
        requests = StatementRequests(backend, plan)
        compiled = requests.compile()
        shown = f"{backend.output}{'' if requests.found else ', which has none yet'}"
        asked = backend.engine, choice.resolved.name, backend.connection.rows
        end = model_end(*asked) if choice.asks_in_sql else None
        second = second_model(enrichment, setup.config, setup.wanted, backend, choice)
        yield _Planned(choice, second, PendingRequests(requests, plan, enrichment, choice), shown, compiled, end)


def _nothing_in(database: Path | None) -> str:
    """Return the reason why no answer is found."""
    return ", which has none yet" if database is not None and database.is_file() else ", which does not exist yet"


def _cost(
    prices: Prices | None, model: str, tokens_in: TokensIn | None, tokens_out: TokensOut | None, *, batch: bool
) -> tuple[float | None, float | None, str | None, int]:
    """Return both bounds of the cost, or why it is unknown, and the tokens that the lower bound assumes to be cached.

    These are the constant beginning of all prompts but the first. An endpoint may have even more in its cache.
    """
    if prices is None:
        return None, None, NO_PRICES, 0
    price = prices.models.get(model)
    if price is None:
        return None, None, f"no price of {model}{f' in {prices.path}' if prices.path else ''}", 0
    if tokens_in is None or tokens_out is None:  # nothing is asked
        return 0.0, 0.0, None, 0
    cached = tokens_in.shared if price.cached < price.input else 0
    dearest = tokens_in.total if price.cached > price.input else 0
    share = float(price.batch_share) if batch else 1.0
    low, high = (
        price.cost(tokens_in.total, *counts)
        for counts in ((cached, tokens_out.total_low), (dearest, tokens_out.total_high))
    )
    return None if low is None else low * share, None if high is None else high * share, None, cached


def _time(
    settings: Endpoint | None,
    calls: int,
    tokens_in: TokensIn | None,
    tokens_out: TokensOut | None,
    latency_ms: int | None,
    concurrency: int,
    *,
    fixed: bool,
) -> tuple[float | None, float | None, str | None]:
    """Return both bounds of the seconds, from the endpoint's limits and the stored latency, and the binding limit.

    Without a latency or without a ``fixed`` concurrency the upper bound is unknown: an endpoint may be slower than its
    limits, and only the run finds its concurrency.
    """
    from sqlenrich.llm.throttle.token_bucket import seconds_for

    if tokens_in is None or tokens_out is None:
        return 0.0, 0.0, "nothing is asked"
    into, low, high = tokens_in.total, tokens_out.total_low, tokens_out.total_high
    amounts: dict[str, tuple[int, int | None]] = {
        "rpm": (calls, calls),
        "tpm": (into + low, None if high is None else into + high),
        "input_tpm": (into, into),
        "output_tpm": (low, high),
    }
    ends: list[tuple[float, float | None, str]] = []
    for name in PER_MINUTE:
        if settings is not None and (limit := getattr(settings, name)) is not None:
            first, last = amounts[name]
            slow = None if last is None else seconds_for(limit, calls, last)
            ends.append((seconds_for(limit, calls, first), slow, f"{name} {limit:,}"))
    if latency_ms is not None:
        width = min(concurrency, calls)
        waited = calls * latency_ms / 1000 / width
        at_most = "" if fixed else "at most "
        ends.append((waited, waited if fixed else None, f"{latency_ms:,} ms an answer, {at_most}{width:,} at a time"))
    if not ends:
        return None, None, None
    least, _, limit_name = max(ends, key=lambda end: end[0])
    known = [last for _, last, _ in ends if last is not None]
    most = max(known) if latency_ms is not None and len(known) == len(ends) else None
    return round(least, 3), None if most is None else round(most, 3), limit_name


def _range(low: Any, high: Any, written: Callable[[Any], str]) -> str:
    if high is None:
        return f"at least {written(low)}"
    first, last = written(low), written(high)
    return first if first == last else f"{first} to {last}"


def duration(seconds: float) -> str:
    """Return a time in words, in its two largest units."""
    whole = math.ceil(seconds)
    for size, unit, small, lesser in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            big, rest = divmod(whole, size)
            return f"{big:,} {unit}" + (f" {rest // small} {lesser}" if rest // small and big < 10 else "")
    return f"{whole} s"
