"""One side of a comparison, or an evaluation: a prompt file and a model over a sample. It is prepared, run, read."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sqlglot import exp

from sqlenrich.ask.model_choice import choose_model, wanted_model
from sqlenrich.ask.observer import Observer, PlanLine, Stopper
from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.names import column
from sqlenrich.engines import get_engine
from sqlenrich.plan.compile import compile_plan
from sqlenrich.plan.plan import RESPONSES, Plan
from sqlenrich.plan.relations import RELATIONS, symbol
from sqlenrich.quality.comparison.comparison import RowResult, Side
from sqlenrich.quality.comparison.metrics import json_value
from sqlenrich.quality.comparison.sample import SAMPLE_TABLE, Sample
from sqlenrich.runner.options import MODEL_OPTIONS, chosen
from sqlenrich.runner.report import Report
from sqlenrich.runner.run import run
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.settings import Config

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
    hashes: Mapping[int, str | None]
    """The request hash of each row."""

    @cached_property
    def requests(self) -> list[str]:
        """The distinct request hashes in order."""
        return sorted({hashed for hashed in self.hashes.values() if hashed is not None})


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
    letter: str, enrichment: Enrichment, sample: Sample, responses: str | None, options: Mapping[str, Any]
) -> PreparedSide:
    """Compile a side over the sample. Nothing is asked. Raises as a run does."""
    from sqlenrich.store.duckdb.database import Database

    tables = TABLES[letter]
    responses = responses or RELATIONS["responses"].format(enrichment.name)
    # The sample is filtered and the key is only shown, so neither changes a request.
    own = replace(
        enrichment, source=SAMPLE_TABLE, query=None, key=(sample.row_column,), keep=(), keep_all=False, where=None
    )
    try:
        wanted = wanted_model(options["model"], **chosen(options, MODEL_OPTIONS))
        choice = choose_model(own, options["config"], wanted)
    except ConfigError as error:
        raise ConfigError(f"side {letter}: {error}" if letter else str(error)) from None
    relations = {**{step: form.format(tables) for step, form in RELATIONS.items()}, "responses": responses}
    plan = compile_plan(
        own,
        "duckdb",
        {**relations, "source": SAMPLE_TABLE},
        model=choice.resolved,
        source_types=dict(sample.types),
        asked_by_client=True,
    )
    prompts = plan.step("prompts")
    with Database(sample.path) as db:
        found = db.rows(prompts.sql)
    place = list(prompts.columns).index("request_hash")
    model = f"{choice.resolved.name}{choice.where}"
    hashes = {line[0]: line[place] for line in found}
    return PreparedSide(letter, own, {**options, "tables": tables, "responses": responses}, model, plan, hashes)


def run_side(database: Path, side: PreparedSide, sample: Sample, observer: Observer, stopper: Stopper) -> Report:
    """Run a side over the sample. Its answers are stored like those of any run."""
    _copy_known_answers(database, side)
    observer.note(f"{side.letter}: {side.enrichment.place}" if side.letter else f"scoring {side.enrichment.place}")
    return run(
        side.enrichment,
        input=sample.path,
        output=database,
        observer=StoppableObserver(observer, stopper),
        stopper=stopper,
        **side.options,
    )


def _copy_known_answers(database: Path, side: PreparedSide) -> None:
    """Copy the answers to a side's requests from the other tables of answers in the database."""
    from sqlenrich.store.duckdb.database import Database

    call, names = side.plan.responses, list(RESPONSES)
    with Database(database) as db:
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
            db.db.execute(side.plan.relations.sql(insert), [side.requests])


def drop_tables(database: Path, letters: Iterable[str]) -> None:
    """Drop the tables of some sides except those of the answers."""
    from sqlenrich.store.duckdb.database import Database

    with Database(database) as db:
        for letter in letters:
            for step, form in RELATIONS.items():
                if step != "responses":
                    table = exp.table_(form.format(TABLES[letter]), quoted=True)
                    db.execute(exp.Drop(tables=[table], kind="TABLE", exists=True).sql("duckdb"))


def read_side(database: Path, side: PreparedSide, report: Report, config: Config) -> tuple[dict[int, RowResult], Side]:
    """Return the result of each row of a side, and the side's figures. Raises RunError where another run interfered."""
    from sqlenrich.store.duckdb.database import Database

    readings = side.enrichment.readings
    engine = get_engine("duckdb")
    columns = [column(engine, name) for name in (side.enrichment.key[0], "_request_hash")]
    accepted = exp.select(*columns, *(column(engine, name) for name in readings)).from_(symbol("enriched"))
    refused = exp.select(*columns, "_error", "_error_detail").from_(symbol("quarantine"))
    answers_query = exp.select(
        *ANSWER_COLUMNS, "call_error IS NULL AS answered", "sent_hash <> request_hash AS retried"
    ).from_(symbol("responses"))
    answers_query = answers_query.where(IN_REQUESTS, dialect="duckdb")
    results: dict[int, RowResult] = {}
    relations = side.plan.relations
    with Database(database) as db:
        for row, hashed, *values in db.rows(relations.sql(accepted)):
            pairs = zip(readings.items(), values, strict=True)
            results[row] = RowResult(hashed, {name: json_value(value, kind) for (name, kind), value in pairs})
        for row, hashed, code, detail in db.rows(relations.sql(refused)):
            results[row] = RowResult(hashed, {}, code, detail)
        answers = db.db.execute(relations.sql(answers_query), [side.requests]).fetchall()
    if {row: result.request_hash for row, result in results.items()} != dict(side.hashes):
        raise RunError(f"{database}: another run changed these rows meanwhile; run it again")
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
