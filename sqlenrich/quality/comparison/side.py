"""One side of a comparison, or an evaluation: a prompt file and a model over a sample. It is prepared, run, read."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlglot import exp

from sqlenrich.ask.model_choice import wanted_model
from sqlenrich.ask.observer import Observer, PlanLine, Stopper
from sqlenrich.core.errors import ConfigError, RunError, SqlenrichError
from sqlenrich.core.names import column
from sqlenrich.plan.compile import compile_plan
from sqlenrich.plan.plan import RESPONSES, Plan
from sqlenrich.plan.relations import RELATIONS, symbol
from sqlenrich.quality.comparison.comparison import RowResult, Side
from sqlenrich.quality.comparison.sample import SAMPLE_TABLE, Sample
from sqlenrich.quality.comparison.side_place import SidePlace
from sqlenrich.runner.options import MODEL_OPTIONS, chosen
from sqlenrich.runner.report import Report
from sqlenrich.runner.run import run
from sqlenrich.runner.session import choice_of
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.run_settings import Caps
from sqlenrich.spec.settings import Config
from sqlenrich.store.store import Store
from sqlenrich.store.values import read_value

ONLY = ""
"""The letter of a side without another one."""
TABLES = {"A": "_sqlenrich_compare_a", "B": "_sqlenrich_compare_b", ONLY: "_sqlenrich_evaluate"}
"""The name of each side's tables, by its letter."""
IN_REQUESTS = "request_hash IN (SELECT UNNEST(CAST(? AS VARCHAR[])))"
"""The condition that a row is of one of the requests that the statement's parameter lists."""
ANSWER_COLUMNS = ("request_hash", "model", "tokens_in", "tokens_cached", "tokens_out", "latency_ms")


@dataclass(frozen=True)
class PreparedSide:
    """A side that is compiled and not yet run."""

    letter: str
    enrichment: Enrichment
    options: Mapping[str, Any]
    """The keyword arguments of its run."""
    model: str
    plan: Plan


class StoppableObserver:
    """An observer that forwards all calls, and declines each plan once it is stopped."""

    def __init__(self, inner: Observer, stopper: Stopper) -> None:
        self.inner, self.stopper = inner, stopper
        self.answered, self.progressed = inner.answered, inner.progressed
        self.refused, self.note = inner.refused, inner.note

    def plan(self, line: PlanLine, /) -> bool:
        """Return the answer of the inner observer; False once it is stopped."""
        return not self.stopper.requested and self.inner.plan(line)


def prepare_side(
    letter: str,
    enrichment: Enrichment,
    sample: Sample,
    place: SidePlace,
    responses: str | None,
    options: Mapping[str, Any],
) -> PreparedSide:
    """Compile a side over the sample. Nothing is asked. Raises as a run does."""
    tables = TABLES[letter]
    responses = responses or place.backend.relations(enrichment.name)["responses"]
    # The sample is filtered and the key is only shown, so neither changes a request.
    own = replace(
        enrichment,
        source=SAMPLE_TABLE,
        query=None,
        refs=None,
        key=(sample.row_column,),
        keep=enrichment.checked_columns,
        keep_all=False,
        where=None,
    )
    try:
        wanted = wanted_model(options["model"], **chosen(options, MODEL_OPTIONS))
        choice = choice_of(own, options["config"], wanted, place.backend, Caps())
    except ConfigError as error:
        raise ConfigError(f"side {letter}: {error}" if letter else str(error)) from None
    relations = {**place.backend.relations(tables), "responses": responses}
    plan = compile_plan(
        own,
        place.backend.engine.name,
        {**relations, "source": SAMPLE_TABLE},
        model=choice.resolved,
        source_types={name: sample.types[name] for name in _read_columns(own) if name in sample.types},
        asked_by_client=not choice.asks_in_sql,
    )
    model = f"{choice.resolved.name}{choice.where}"
    return PreparedSide(letter, own, {**options, "tables": tables, "responses": responses}, model, plan)


def _read_columns(enrichment: Enrichment) -> list[str]:
    """Return the columns of the sample that a side reads."""
    return [enrichment.source_name(name) for name in enrichment.used_columns()]


def run_sides(
    sides: Sequence[PreparedSide], sample: Sample, place: SidePlace, observer: Observer, stopper: Stopper
) -> list[Report]:
    """Run sides over the sample, one after another. Their answers are stored like those of any run."""
    read = list(dict.fromkeys(name for side in sides for name in _read_columns(side.enrichment)))
    try:
        source = place.prepare(sample, read, _own_tables(sides))
        return [_run_side(side, source, sample, place, observer, stopper) for side in sides]
    except SqlenrichError:
        place.discard(_own_tables(sides))
        raise


def _run_side(
    side: PreparedSide, source: Path | str, sample: Sample, place: SidePlace, observer: Observer, stopper: Stopper
) -> Report:
    if place.local:
        _copy_known_answers(place, side, sample)
    observer.note(f"{side.letter}: {side.enrichment.place}" if side.letter else f"scoring {side.enrichment.place}")
    return run(
        side.enrichment,
        input=source,
        output=place.output,
        observer=StoppableObserver(observer, stopper),
        stopper=stopper,
        **side.options,
    )


def _own_tables(sides: Iterable[PreparedSide]) -> list[str]:
    """Return the tables of some sides except those of the answers."""
    names = (TABLES[side.letter] for side in sides)
    return [form.format(name) for name in names for step, form in RELATIONS.items() if step != "responses"]


def _copy_known_answers(place: SidePlace, side: PreparedSide, sample: Sample) -> None:
    """Copy the answers to a side's requests from the other tables of answers in the DuckDB file."""
    from sqlenrich.store.duckdb.database import Database

    assert place.local is not None
    call, names, prompts = side.plan.responses, list(RESPONSES), side.plan.step("prompts")
    at = list(prompts.columns).index("request_hash")
    with Database(sample.path) as db:
        requests = sorted({line[at] for line in db.rows(prompts.sql) if line[at] is not None})
    with Database(place.local) as db:
        found = db.db.execute(
            "SELECT schema_name, table_name FROM duckdb_columns() WHERE database_name = current_database() "
            "AND list_contains(?, column_name) GROUP BY ALL HAVING count(*) = ? ORDER BY ALL",
            [names, len(names)],
        ).fetchall()
        if not found:
            return
        created = exp.Create(this=symbol("responses"), kind="TABLE", exists=True, expression=call.query.copy())
        db.execute(side.plan.relations.sql(created))
        if not set(names) <= set(db.columns(call.relation) or ()):
            return  # no table of answers: the run refuses it
        identity = ("request_hash", "attempt", "run_id", "asked_at")
        stored = exp.select("1").from_(symbol("responses", "known"))
        stored = stored.where(
            *(exp.NullSafeEQ(this=exp.column(n, "known"), expression=exp.column(n, "other")) for n in identity)
        )
        for schema, table in found:
            other = exp.table_(table, schema, quoted=True, alias="other")
            answers = exp.select(*(exp.column(name, "other") for name in names)).from_(other)
            answers = answers.where(f"other.{IN_REQUESTS}", dialect="duckdb").where(
                exp.Not(this=exp.Exists(this=stored))
            )
            insert = exp.insert(answers, symbol("responses"), columns=names)
            db.db.execute(side.plan.relations.sql(insert), [requests])


def read_sides(
    sides: Sequence[PreparedSide], reports: Sequence[Report], place: SidePlace, config: Config
) -> list[tuple[dict[int, RowResult], Side]]:
    """Return the result of each row of each side, and the side's figures; drop what only the sides need.

    Raises RunError where another run interfered.
    """
    with place.read(_own_tables(sides)) as database:
        found = []
        for side, report in zip(sides, reports, strict=True):
            store = Store(database, TABLES[side.letter], side.enrichment, database.home)
            found.append(_read_side(store, side, report, config))
        return found


def _read_side(store: Store, side: PreparedSide, report: Report, config: Config) -> tuple[dict[int, RowResult], Side]:
    if store.last.run_id != report.run_id:
        raise RunError(f"{store.output}: another run changed these rows meanwhile; run it again")
    readings, engine = side.enrichment.readings, store.engine
    columns = [column(engine, name) for name in (side.enrichment.key[0], "_request_hash")]
    accepted = exp.select(*columns, *(column(engine, name) for name in readings)).from_(symbol("enriched"))
    refused = exp.select(*columns, "_error", "_error_detail").from_(symbol("quarantine"))
    results: dict[int, RowResult] = {}
    for row, hashed, *values in store.rows(accepted):
        pairs = zip(readings.items(), values, strict=True)
        results[int(row)] = RowResult(
            hashed, {name: read_value(value, kind, exact=True) for (name, kind), value in pairs}
        )
    for row, hashed, code, detail in store.rows(refused):
        results[int(row)] = RowResult(hashed, {}, code, detail)
    query = exp.select(
        *ANSWER_COLUMNS,
        *(exp.Case(ifs=[exp.If(this=test, true=exp.Literal.number(1))], default=exp.Literal.number(0)) for test in (
            exp.Is(this=exp.column("call_error"), expression=exp.Null()),
            exp.NEQ(this=exp.column("sent_hash"), expression=exp.column("request_hash")),
        )),
    ).from_(symbol("responses"))  # fmt: skip
    requested = sorted({result.request_hash for result in results.values() if result.request_hash is not None})
    answers = store.among(query, exp.column("request_hash"), requested)
    requests = len({answer[0] for answer in answers})
    # A failed call is not billed.
    costs = [cost_of(config, model, *tokens) for _, model, *tokens, _, answered, _ in answers if answered]
    known = [cost for cost in costs if cost is not None]
    latencies = [latency for *_, latency, answered, _ in answers if answered and latency is not None]
    return results, Side(
        file=side.enrichment.place,
        model=side.model,
        accepted=report.enriched,
        refused=dict(report.quarantine),
        requests=report.distinct_requests,
        calls=report.calls,
        stored=report.cached,
        retried=len({answer[0] for answer in answers if answer[-1]}),
        tokens_in=_average([answer[2] for answer in answers], requests),
        tokens_out=_average([answer[4] for answer in answers], requests),
        cost=1000 * sum(known) / requests if costs and len(known) == len(costs) else None,
        latency_ms=statistics.median(latencies) if latencies else None,
    )


def _average(tokens: Sequence[int | None], requests: int) -> float | None:
    """Return the tokens per request, all its attempts together; None where no count is known."""
    known = [count for count in tokens if count is not None]
    return sum(known) / requests if known else None


def cost_of(config: Config, model: str, tokens_in: int | None, cached: int | None, out: int | None) -> float | None:
    """Return the cost of an answer by the settings' prices; None for a model without a price."""
    price = config.prices.models.get(model) if config.prices is not None else None
    return None if price is None else price.cost(tokens_in, cached, out)
