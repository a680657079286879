"""``sqlenrich compare``: two prompts, or two models, over the same rows; no stored answer is asked again."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from sqlenrich.core.errors import ConfigError, RunError, did_you_mean
from sqlenrich.engines import get_engine
from sqlenrich.plan.compile import compile_plan
from sqlenrich.plan.plan import RESPONSES, Plan
from sqlenrich.plan.relations import RELATIONS
from sqlenrich.quality.comparison import NOT_ASKED, Comparison, Outcome, Side
from sqlenrich.quality.differences import compared, plain
from sqlenrich.quality.sample import SAMPLE, Sampled, draw, read_inputs
from sqlenrich.runner.backends.duckdb.files import database_path
from sqlenrich.runner.model_choice import choose_model, wanted_model
from sqlenrich.runner.observer import Observer, PlanLine, Silent, Stopper
from sqlenrich.runner.report import Report
from sqlenrich.runner.run import run
from sqlenrich.runner.scratch import scratch_folder
from sqlenrich.runner.session import (
    MODEL_OPTIONS,
    SOURCE_OPTIONS,
    SourceOptions,
    check_options,
    chosen,
    settings_of,
    with_source_options,
)
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.prices import Prices
from sqlenrich.spec.settings import Config

STEM = "_sqlenrich_compare_{}"
DATABASE = Path(".sqlenrich") / "compare.duckdb"
DEFAULT_ROWS = 100


@dataclass(frozen=True)
class Asked:
    """A side made ready: its file as it is run over the sample, and whom it asks."""

    letter: str
    enrichment: Enrichment
    options: Mapping[str, Any]
    """What the run is given."""
    model: str
    plan: Plan
    hashes: Mapping[int, str | None]
    """Row to request."""


class CompareOptions(SourceOptions, total=False):
    """The shorthands of a comparison: source, models, prices."""

    mock: bool
    mock_failures: Mapping[str, float] | None
    concurrency: int | None
    prices: str | Path | Prices | None


def compare(
    a: Enrichment,
    b: Enrichment | None = None,
    *,
    input: str | Path | None = None,
    rows: int = DEFAULT_ROWS,
    truth: Mapping[str, str] | None = None,
    fields: Sequence[str] | None = None,
    models: str | Sequence[str] | None = None,
    endpoint: str | Sequence[str] | None = None,
    output: str | Path | None = None,
    responses: str | None = None,
    first: bool = False,
    seed: int = 0,
    config: Config | None = None,
    observer: Observer | None = None,
    stopper: Stopper | None = None,
    **options: Unpack[CompareOptions],
) -> Comparison:
    """Ask two prompts, or one prompt of two models, about the same rows, and give how the answers differ.

    The sides are two enrichments, or one with two ``models`` (one model: against the file's own); two models or
    endpoints go one to each side. ``rows`` of the input are asked: those of the smallest hashes of ``seed`` and the
    row's number, so that a larger sample holds the smaller one, or with ``first`` its first. ``truth`` maps output
    fields to labelled columns of the source; ``fields`` are the ones to compare, by default all that both sides have.
    Answers are kept in NAME_responses of ``output`` (by default ``.sqlenrich/compare.duckdb`` beside
    ``sqlenrich.toml``, else in the current folder): an ordinary run of the file finds them there, and a comparison
    finds those of a run. Everything else is as for :func:`~sqlenrich.run`, which asks each side. Raises ConfigError
    before anything is asked.
    """
    check_options("compare", options, CompareOptions)
    config = settings_of(config, a, options.get("prices"))
    observer, stopper, truth = observer or Silent(), stopper or Stopper(), truth or {}
    sides = [
        (with_source_options(one, **chosen(options, SOURCE_OPTIONS)), model, place)
        for one, model, place in _sides(a, b, models, endpoint)
    ]
    files = [one for one, _, _ in sides]
    database = database_path(Path(output)) if output is not None else default_database(config)
    if input is None:
        raise ConfigError("which rows? Give --input PATH")
    if rows < 1:
        raise ConfigError(f"rows is at least 1, not {rows}")
    compared_fields = _fields(files, fields, truth)
    whom = {**chosen(options, ("mock", "mock_failures", "concurrency")), "config": config}
    with scratch_folder() as folder:
        sampled = draw(files, folder / "sample.duckdb", input, rows, None if first else seed, truth)
        asked = [
            _prepare(letter, one, sampled, responses, {**whom, "model": model, "endpoint": place})
            for letter, (one, model, place) in zip("AB", sides, strict=True)
        ]
        _drop(database)
        reports = [_ask(database, side, sampled, observer, stopper) for side in asked]
        read = [_read(database, side, report, config) for side, report in zip(asked, reports, strict=True)]
        _drop(database)
        found = compared(files, [outcomes for outcomes, _ in read], sampled, compared_fields, truth)
        inputs = read_inputs(files, sampled, [change.row for change in found.changes])
    told = [side for _, side in read]
    changes = (replace(change, input=inputs[change.row]) for change in found.changes)
    how = "the first" if first else f"a repeatable spread sample, seed {seed}"
    return Comparison(
        a=told[0],
        b=told[1],
        input=str(input),
        rows=len(sampled.keys),
        rows_in=sampled.rows_in,
        sample=how if sampled.rows_in > len(sampled.keys) else "all of them",
        same_requests=sum(
            hashed is not None and hashed == asked[1].hashes[row] for row, hashed in asked[0].hashes.items()
        ),
        agreement=found.agreement,
        equal_rows=found.equal_rows,
        accuracy=found.accuracy,
        changes=tuple(changes),
        notes=(*_notes(asked, told, files), *found.notes),
        stopped=stopper.requested or any(report.pending for report in reports),
        output=str(database),
        currency=config.prices.currency if config.prices is not None else "",
    )


def default_database(config: Config) -> Path:
    """Give where comparisons keep answers: beside the settings, so that all prompts of a project share it."""
    return (config.path.parent if config.path is not None else Path()) / DATABASE


class _Agreed:
    """An observer that passes everything on, but agrees to nothing more once the comparison is stopped."""

    def __init__(self, inner: Observer, stopper: Stopper) -> None:
        self.inner, self.stopper = inner, stopper
        self.answered, self.note = inner.answered, inner.note

    def plan(self, line: PlanLine, /) -> bool:
        return not self.stopper.requested and self.inner.plan(line)


# What is compared ----------------------------------------------------------------------------------------------------


def _sides(
    a: Enrichment, b: Enrichment | None, models: str | Sequence[str] | None, endpoint: str | Sequence[str] | None
) -> list[tuple[Enrichment, str | None, str | None]]:
    """Give each side's file, model and endpoint. Raises ConfigError where there are not two sides."""
    names, places = (_listed(given) for given in (models, endpoint))
    if len(names) > 2 or len(places) > 2:
        raise ConfigError("a comparison has two sides: give at most two models and two endpoints")
    if b is None and not names and len(places) < 2:
        raise ConfigError(
            "compare with what? Give two prompt files, or --model twice (once: against the file's own model)"
        )
    if b is None and len(names) == 1 and len(places) < 2:
        names = [None, *names]
    pairs = (given if len(given) == 2 else [*given, None][:1] * 2 for given in (names, places))
    return list(zip((a, b or a), *pairs, strict=True))


def _listed(given: str | Sequence[str] | None) -> list[str | None]:
    return [given] if isinstance(given, str) else list(given or ())


def _fields(files: Sequence[Enrichment], fields: Sequence[str] | None, truth: Mapping[str, str]) -> list[str]:
    """Give the fields to compare. Raises ConfigError for one that a side has not."""
    a, b = (one.readings for one in files)
    for name in (*(fields or ()), *truth):
        for one, columns in zip(files, (a, b), strict=True):
            if name not in columns:
                known = ", ".join(columns)
                raise ConfigError(
                    f'{one.place}: no output field "{name}"{did_you_mean(name, columns)}; it has: {known}'
                )
    if fields is not None:
        return list(dict.fromkeys(fields))
    return [name for name in a if name in b]


def _notes(asked: Sequence[Asked], sides: Sequence[Side], files: Sequence[Enrichment]) -> Iterable[str]:
    a, b = (one.readings for one in files)
    for letter, own, other in (("A", a, b), ("B", b, a)):
        if names := [name for name in own if name not in other]:
            yield f"only {letter} gives: {', '.join(names)}"
    for letter, side in zip("AB", sides, strict=True):
        if left := side.refused.get(NOT_ASKED):
            yield f"{letter}: not asked yet, and counted nowhere: {left:,} rows; run the same command again to continue"
        if side.retried:
            yield f"{letter}: asked otherwise by sqlenrich retry: {side.retried:,} requests; such answers count too"
    hashes = [{hashed for hashed in side.hashes.values() if hashed is not None} for side in asked]
    if hashes[0] and hashes[0] == hashes[1] and asked[0].options["endpoint"] != asked[1].options["endpoint"]:
        yield (
            "both endpoints serve a model of the same name: the requests are the same, and one answer serves both "
            "sides; give one of the models another name"
        )


# The answers ---------------------------------------------------------------------------------------------------------


def _prepare(
    letter: str, enrichment: Enrichment, sampled: Sampled, responses: str | None, options: Mapping[str, Any]
) -> Asked:
    """Compile a side over the sample, before anything of the other is asked. Raises as a run does."""
    from sqlenrich.runner.backends.duckdb.database import Database

    stem = STEM.format(letter.lower())
    responses = responses or RELATIONS["responses"].format(enrichment.name)
    # Its rows are chosen already, its key is only shown: what is asked does not depend on them.
    own = replace(enrichment, source=SAMPLE, query=None, key=(sampled.row,), keep=(), where=None)
    try:
        wanted = wanted_model(options["model"], **chosen(options, MODEL_OPTIONS))
        choice = choose_model(own, options["config"], wanted)
    except ConfigError as error:
        raise ConfigError(f"side {letter}: {error}") from None
    relations = {**{step: form.format(stem) for step, form in RELATIONS.items()}, "responses": responses}
    plan = compile_plan(
        own,
        "duckdb",
        {**relations, "source": SAMPLE},
        model=choice.resolved,
        source_types=dict(sampled.types),
        asked_by_client=True,
    )
    with Database(sampled.path) as db:
        found = db.roomy(lambda: db.db.execute(plan.step("prompts").sql).fetchall())
    model = f"{choice.resolved.name}{choice.where}"
    hashes = {line[0]: line[-1] for line in found}
    return Asked(letter, own, {**options, "tables": stem, "responses": responses}, model, plan, hashes)


def _ask(database: Path, side: Asked, sampled: Sampled, observer: Observer, stopper: Stopper) -> Report:
    """Run a side over the sample: what it answers is stored as of any run."""
    _share(database, side)
    observer.note(f"{side.letter}: {side.enrichment.place}")
    agreed = _Agreed(observer, stopper)
    return run(side.enrichment, input=sampled.path, output=database, observer=agreed, stopper=stopper, **side.options)


def _share(database: Path, side: Asked) -> None:
    """Take over the answers to a side's requests that other tables of the database hold: the other side's, say."""
    from sqlenrich.runner.backends.duckdb.database import Database, quote

    call = side.plan.step("responses")
    names = list(RESPONSES)
    with Database(database) as db:
        found = db.db.execute(
            "SELECT schema_name, table_name FROM duckdb_columns() WHERE database_name = current_database() "
            "AND list_contains(?, column_name) GROUP BY ALL HAVING count(*) = ? ORDER BY ALL",
            [names, len(names)],
        ).fetchall()
        if not found:
            return
        columns = ", ".join(
            f"{quote(n)} {get_engine('duckdb').sql_type(k).sql('duckdb')}" for n, k in RESPONSES.items()
        )
        db.db.execute(f"CREATE TABLE IF NOT EXISTS {call.relation} ({columns})")
        if not set(names) <= {line[0] for line in db.db.execute(f"DESCRIBE {call.relation}").fetchall()}:
            return  # not ours: the run refuses it
        known = " AND ".join(
            f"o.{n} IS NOT DISTINCT FROM r.{n}" for n in ("request_hash", "attempt", "run_id", "asked_at")
        )
        for schema, table in found:
            db.db.execute(
                f"INSERT INTO {call.relation} BY NAME SELECT {', '.join(f'r.{n}' for n in names)} "
                f"FROM {quote(schema)}.{quote(table)} AS r WHERE r.request_hash IN (SELECT unnest(?::VARCHAR[])) "
                f"AND NOT EXISTS (SELECT 1 FROM {call.relation} AS o WHERE {known})",
                [_requests(side)],
            )


def _requests(side: Asked) -> list[str]:
    return sorted({hashed for hashed in side.hashes.values() if hashed is not None})


def _drop(database: Path) -> None:
    """Drop the tables of a comparison: an answer stays in NAME_responses."""
    from sqlenrich.runner.backends.duckdb.database import Database, quote

    with Database(database) as db:
        for letter in "ab":
            for step, form in RELATIONS.items():
                if step != "responses":
                    db.db.execute(f"DROP TABLE IF EXISTS {quote(form.format(STEM.format(letter)))}")


def _read(database: Path, side: Asked, report: Report, config: Config) -> tuple[dict[int, Outcome], Side]:
    """Give what became of each row of a side, and the side's figures."""
    from sqlenrich.runner.backends.duckdb.database import Database, quote

    readings = side.enrichment.readings
    good, bad, call = (side.plan.step(name).relation for name in ("enriched", "quarantine", "responses"))
    row = quote(side.enrichment.key[0])
    outputs = "".join(f", {quote(name)}" for name in readings)
    outcomes: dict[int, Outcome] = {}
    with Database(database) as db:
        for number, hashed, *values in db.db.execute(f"SELECT {row}, _request_hash{outputs} FROM {good}").fetchall():
            pairs = zip(readings.items(), values, strict=True)
            outcomes[number] = Outcome(hashed, {name: plain(value, kind) for (name, kind), value in pairs})
        refused = f"SELECT {row}, _request_hash, _error, _error_detail FROM {bad}"
        for number, hashed, code, detail in db.db.execute(refused).fetchall():
            outcomes[number] = Outcome(hashed, {}, code, detail)
        answers = db.db.execute(
            "SELECT request_hash, model, tokens_in, tokens_cached, tokens_out, latency_ms, call_error IS NULL, "
            "sent_hash <> request_hash "
            f"FROM {call} WHERE request_hash IN (SELECT unnest(?::VARCHAR[]))",
            [_requests(side)],
        ).fetchall()
    if {number: outcome.request_hash for number, outcome in outcomes.items()} != dict(side.hashes):
        raise RunError(f"{database}: another run changed the rows of this comparison; run it again")
    requests = len({answer[0] for answer in answers})
    # An attempt that failed on its way is not billed.
    costs = [cost_of(config, model, *tokens) for _, model, *tokens, _, answered, _ in answers if answered]
    known = [cost for cost in costs if cost is not None]
    latencies = [latency for *_, latency, answered, _ in answers if answered and latency is not None]
    return outcomes, Side(
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
    """Give the tokens of a request: those of all its attempts."""
    known = [count for count in tokens if count is not None]
    return sum(known) / requests if known else None


def cost_of(config: Config, model: str, tokens_in: int | None, cached: int | None, out: int | None) -> float | None:
    """Give what an answer cost by the settings' prices; None where the model has none."""
    price = config.prices.models.get(model) if config.prices is not None else None
    return None if price is None else price.cost(tokens_in, cached, out)
