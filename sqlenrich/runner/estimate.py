"""``sqlenrich plan``: the calls, tokens, cost and time of a run, estimated before the first call."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from sqlglot import exp

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.sql import Sql, case, func, literal
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.plan.relations import RELATIONS, symbol
from sqlenrich.runner.backends.queries import count_rows, rows_of
from sqlenrich.runner.model_choice import ModelOptions, choose_model, wanted_model
from sqlenrich.runner.scratch import scratch_folder
from sqlenrich.runner.session import (
    MODEL_OPTIONS,
    SOURCE_OPTIONS,
    SourceOptions,
    check_options,
    chosen,
    compile_source,
    settings_of,
    with_source_options,
)
from sqlenrich.runner.token_estimates import KEPT_BELOW, PendingRequests, TokensIn, TokensOut
from sqlenrich.runner.usage import NO_PRICES
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.limits import TOO_LONG
from sqlenrich.spec.prices import Prices, money
from sqlenrich.spec.run_settings import Mock
from sqlenrich.spec.settings import LIMITS, Config, Endpoint

if TYPE_CHECKING:  # "import sqlenrich" does not load duckdb
    from sqlenrich.runner.backends.duckdb.database import Database

OUTPUT = "sqlenrich_output"


@dataclass(frozen=True)
class Estimate:
    """The estimate of a run. ``calls`` are the requests without an answer, retries excluded.

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
    cached_assumed: int = 0
    """The input tokens that the lower bound of the cost assumes to be cached."""
    where: str = ""
    output: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Give the facts by name, as the JSON has them."""
        facts = asdict(self)
        for hidden in ("where", "output", "cached_assumed"):
            del facts[hidden]
        facts["endpoint"] = self.where.removeprefix(" at ") or None
        for name in ("cost", "seconds"):
            low, high = facts.pop(f"{name}_low"), facts.pop(f"{name}_high")
            facts[name] = None if low is None else {"low": low, "high": high}
        return facts

    def to_json(self) -> str:
        """Give the estimate as one line of JSON."""
        return json.dumps(self.to_dict())

    def to_text(self, width: int | None = None) -> str:
        """Give the estimate for a terminal of ``width`` columns: each fact with its value and its source."""
        reasons = ", ".join(f"{count:,} {code}" for code, count in self.not_asked.items() if count)
        lines = [
            ("rows", f"{self.rows:,}", ""),
            ("not asked", f"{sum(self.not_asked.values()):,}", reasons),
            ("requests", f"{self.distinct_requests:,}", "distinct"),
            ("answered", f"{self.cached:,}", f"in {self.output}" if self.output else "no --output to look into"),
            ("calls", f"{self.calls:,}", ""),
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
            lines.append(("cost", cost, f"prices of {self.prices_as_of}, {self._cached()}, no retries"))
        if self.seconds_low is None:
            lines.append(("time", "unknown", "no rpm or tpm is set, and no stored answer has a latency"))
        else:
            lines.append(("time", _range(self.seconds_low, self.seconds_high, duration), f"{self.limit}"))
        values = max(len(value) for _, value, _ in lines)
        room = None if width is None else max(width - values - 14, 20)
        table = []
        for label, value, note in lines:
            first, *rest = textwrap.wrap(note, room, break_long_words=False) or [""] if room else [note]
            table.append(f"{label:<12}{value:<{values}}  {first}".rstrip())
            table += [" " * (values + 14) + line for line in rest]
        why = None if self.tokens_in is None else self.tokens_in.why
        known = [f"tokens in are an estimate: {why}"] if why is not None else []
        return "\n".join([f"plan of {self.name}: {self.model}{self.where}; nothing was asked", *table, *known])

    def _cached(self) -> str:
        """The input that the lower bound of the cost assumes to be cached."""
        if not self.cached_assumed:
            return "no input assumed to be cached"
        return f"the lower bound with {self.cached_assumed:,} tokens in cached: the constant beginning"


class EstimateOptions(SourceOptions, ModelOptions, total=False):
    """The shorthands of an estimate: source, model, prices."""

    prices: str | Path | Prices | None


def estimate(
    enrichment: Enrichment,
    *,
    input: str | Path | None = None,
    output: str | Path | None = None,
    model: Endpoint | Mock | str | None = None,
    responses: str | None = None,
    sample: int = 100,
    config: Config | None = None,
    **options: Unpack[EstimateOptions],
) -> Estimate:
    """Estimate the calls, tokens, cost and time of :func:`~sqlenrich.run` with the same arguments. No model is asked.

    ``output`` is only read, and may be absent. Its answers are not asked again, and their tokens and latencies are the
    basis of the estimate. An endpoint with a token counter counts ``sample`` prompts; with 0 no prompt is sent.
    """
    from sqlenrich.runner.backends.duckdb.backend import DuckDBBackend
    from sqlenrich.runner.backends.duckdb.files import database_path

    check_options("estimate", options, EstimateOptions)
    enrichment = with_source_options(enrichment, **chosen(options, SOURCE_OPTIONS))
    config = settings_of(config, enrichment, options.get("prices"))
    choice = choose_model(enrichment, config, wanted_model(model, **chosen(options, MODEL_OPTIONS)))
    settings = choice.endpoint
    fixed = settings is None or bool(options.get("concurrency") or settings.concurrency)
    database = None if output is None else database_path(Path(output))
    if output is not None:
        DuckDBBackend(output).check_before_run(enrichment, input)
    source = input if input is not None else database
    if source is None:
        raise ConfigError("which rows? Give --input PATH")
    with scratch_folder() as folder, DuckDBBackend(folder / "plan.duckdb") as backend:
        enrichment, compiled = compile_source(enrichment, backend, choice.resolved, source)
        found = _attach_answers(
            backend.database, compiled, database, responses or RELATIONS["responses"].format(enrichment.name)
        )
        backend.run_step(_lengths(compiled.step("prompts")))
        rows, distinct = backend.size(compiled)
        no_input, bad_prompt = (backend.number(compiled, query) for query in (_not_asked(), _bad_prompts()))
        calls = backend.refresh(compiled, compiled.responses)
        requests = PendingRequests(backend, compiled, enrichment, choice, calls)
        latency_ms = requests.latency_ms()
        tokens_in = requests.tokens_in(sample) if calls else None
        tokens_out = requests.tokens_out() if calls else None
    cost_low, cost_high, unknown, cached_assumed = _cost(config.prices, choice.resolved.name, tokens_in, tokens_out)
    low, high, limit = _time(settings, calls, tokens_in, tokens_out, latency_ms, choice.concurrency, fixed=fixed)
    return Estimate(
        name=enrichment.name,
        model=choice.resolved.name,
        rows=rows,
        not_asked={"NO_INPUT": no_input, "BAD_PROMPT": bad_prompt},
        distinct_requests=distinct,
        cached=distinct - calls,
        calls=calls,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cost_low=cost_low,
        cost_high=cost_high,
        cost_unknown=unknown,
        currency=None if config.prices is None else config.prices.currency,
        prices_as_of=None if config.prices is None else config.prices.as_of.isoformat(),
        seconds_low=low,
        seconds_high=high,
        limit=limit,
        cached_assumed=cached_assumed,
        where=choice.where,
        output=f"{output}{'' if found else _nothing_in(database)}" if output is not None else "",
    )


def _nothing_in(database: Path | None) -> str:
    """Give the reason why no answer is found."""
    return ", which has none yet" if database is not None and database.is_file() else ", which does not exist yet"


def _lengths(prompts: Step) -> Step:
    """Give the step with the length of each prompt instead of its text. A sample of the texts is kept as ``kept``."""
    prompt, hashed = exp.column("prompt"), exp.column("request_hash")
    kept = case((exp.LT(this=hashed, expression=literal(KEPT_BELOW)), prompt))
    too_long = exp.column(TOO_LONG) if TOO_LONG in prompts.columns else literal(False)
    lengths = exp.select(
        hashed.copy(),
        exp.alias_(func("strlen", prompt.copy()), "prompt"),
        exp.alias_(too_long, TOO_LONG),
        exp.alias_(kept, "kept"),
    ).from_(rows_of(prompts))
    return replace(prompts, query=lengths)


def _not_asked() -> exp.Select:
    """The rows with a blank required column."""
    return count_rows("prompts").where("request_hash IS NULL", "prompt IS NOT NULL", f"NOT {TOO_LONG}")


def _bad_prompts() -> exp.Select:
    """The rows whose template fails, or whose prompt is too long."""
    return count_rows("prompts").where("request_hash IS NULL", f"prompt IS NULL OR {TOO_LONG}")


def _attach_answers(database: Database, plan: Plan, stored_in: Path | None, table: str) -> bool:
    """Create ``responses`` as a view of the stored answers, read-only; give whether a table of them exists."""
    import duckdb

    from sqlenrich.runner.backends.duckdb.database import INPUT, cannot_open, name_parts, quote, text

    step = plan.responses
    query: Sql = step.query  # of no rows
    found = False
    if stored_in is not None and stored_in.is_file():
        attached = database.rows("SELECT path FROM duckdb_databases() WHERE path IS NOT NULL")
        place = INPUT if stored_in.resolve() in {Path(path).resolve() for (path,) in attached} else OUTPUT
        if place == OUTPUT:
            try:
                database.execute(f"ATTACH {text(str(stored_in))} AS {OUTPUT} (READ_ONLY)")
            except duckdb.Error as error:
                raise cannot_open(stored_in, error) from None
        schema, name = ["main", *name_parts(table)][-2:]
        columns = database.columns(".".join(map(quote, (place, schema, name))))
        if columns and set(step.columns) - set(columns):
            raise ConfigError(f"{stored_in}: {table} is no table of answers of this version of sqlenrich")
        if found := bool(columns):
            query = exp.select("*").from_(exp.table_(name, schema, place, quoted=True))
    view = exp.Create(this=symbol("responses"), kind="VIEW", expression=query.copy())
    database.execute(plan.relations.sql(view))
    return found


def _cost(
    prices: Prices | None, model: str, tokens_in: TokensIn | None, tokens_out: TokensOut | None
) -> tuple[float | None, float | None, str | None, int]:
    """Give both bounds of the cost, or why it is unknown, and the tokens that the lower bound assumes to be cached.

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
    low = price.cost(tokens_in.total, cached, tokens_out.total_low)
    return low, price.cost(tokens_in.total, dearest, tokens_out.total_high), None, cached


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
    """Give both bounds of the seconds, from the endpoint's limits and the stored latency, and the binding limit.

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
    for name in LIMITS:
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
    """Give a time in words, in its two largest units."""
    whole = math.ceil(seconds)
    for size, unit, small, lesser in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            big, rest = divmod(whole, size)
            return f"{big:,} {unit}" + (f" {rest // small} {lesser}" if rest // small and big < 10 else "")
    return f"{whole} s"
