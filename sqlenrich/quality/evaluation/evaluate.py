"""``sqlenrich evaluate``: a prompt and a model against labels. No stored answer is asked again."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Unpack

from sqlenrich.ask.observer import NullObserver, Observer, Stopper
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import ConfigError
from sqlenrich.core.plurals import counted
from sqlenrich.quality.comparison.compare import default_database
from sqlenrich.quality.comparison.comparison import NO_INPUT, NOT_ASKED
from sqlenrich.quality.comparison.side import ONLY, drop_tables, prepare_side, read_side, run_side
from sqlenrich.quality.evaluation.evaluation import Evaluation, FieldScore, Then
from sqlenrich.quality.evaluation.lines import check_lines, evaluation_lines, keep_lines
from sqlenrich.quality.evaluation.scores import check_requirements, judge, requirement_result, score_field
from sqlenrich.quality.evaluation.truth import read_truth
from sqlenrich.runner.options import SOURCE_OPTIONS, InputOptions, SourceOptions, check_options, chosen
from sqlenrich.runner.setup import settings_of
from sqlenrich.runner.source import with_source_options
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.loader import enrichment_of
from sqlenrich.spec.prices import Prices
from sqlenrich.spec.quality import Requirement, parse_requirement
from sqlenrich.spec.run_settings import Mock
from sqlenrich.spec.settings import Config
from sqlenrich.store.duckdb.files import database_path, outputs_of
from sqlenrich.store.inputs import Input, input_name, input_of
from sqlenrich.store.scratch import scratch_folder


class EvaluateOptions(SourceOptions, InputOptions, total=False):
    """The shorthands of an evaluation: source, model, prices."""

    endpoint: str | None
    mock: bool
    mock_failures: Mapping[str, float] | None
    concurrency: int | None
    prices: str | Path | Prices | None


MODEL = ("endpoint", "mock", "mock_failures", "concurrency")


def evaluate(
    enrichment: Enrichment | str | Path,
    *,
    truth: Any = None,
    input: Any = None,
    fields: Mapping[str, str] | None = None,
    require: Sequence[str] = (),
    model: Endpoint | Mock | str | None = None,
    output: str | Path | None = None,
    responses: str | None = None,
    config: Config | None = None,
    observer: Observer | None = None,
    stopper: Stopper | None = None,
    **options: Unpack[EvaluateOptions],
) -> Evaluation:
    """Ask a prompt and a model about labelled rows, and give how right the answers are.

    ``truth`` is a file or a table as ``input`` of a run is, by default the one that ``evaluate`` in the header names
    (relative to the prompt file). It holds whole rows with their labels, or the key and the labels of rows of
    ``input``. ``fields`` maps output fields to columns of labels, by default each field to ``expected_FIELD`` where
    there is one. ``require`` has requirements such as ``intent=0.92`` and ``has_pii.recall.true=0.99``; they replace
    those of the header for the same measure. The answers are stored in NAME_responses of ``output`` (by default as
    those of a comparison), the scores of each row in NAME_evaluations, to which the next evaluation compares its own.
    All other arguments are those of :func:`~sqlenrich.run`. Raises ConfigError before the first call.
    """
    enrichment = enrichment_of(enrichment)
    check_options("evaluate", options, EvaluateOptions)
    if enrichment.embedding is not None:
        raise ConfigError(f"{enrichment.place}: an evaluation counts right answers, and a vector is neither")
    config = settings_of(config, enrichment, options.get("prices"))
    observer, stopper = observer or NullObserver(), stopper or Stopper()
    enrichment = with_source_options(enrichment, **chosen(options, SOURCE_OPTIONS))
    enrichment = _with_requirements(enrichment, require)
    settings = enrichment.quality.evaluate
    rows, source = _truth_of(enrichment, truth, input, options.get("encoding"))
    database = database_path(Path(output)) if output is not None else default_database(config)
    with scratch_folder() as folder:
        required = [one.field for one in settings.require]
        named = fields if fields is not None else settings.fields
        known = read_truth(enrichment, folder / "truth.duckdb", rows, source, named, required)
        check_requirements(enrichment, settings.require, known.labels)
        asked = {**chosen(options, MODEL), "model": model, "config": config}
        side = prepare_side(ONLY, enrichment, known.sample, responses, asked)
        check_lines(database, enrichment.name)
        drop_tables(database, ONLY_SIDE)
        report = run_side(database, side, known.sample, observer, stopper)
        results, figures = read_side(database, side, report, config)
        drop_tables(database, ONLY_SIDE)
    judged = {field: judge(known.labels[field], results, field) for field in known.columns}
    scores = [score_field(enrichment, field, known.columns[field], lines) for field, lines in judged.items()]
    stopped = stopper.requested or report.pending > 0
    now = datetime.now(UTC)
    evaluation = f"{now:%Y%m%dT%H%M%S%f}-{uuid.uuid4().hex[:8]}"
    then: Then | None = None
    if not stopped:
        lines = evaluation_lines(evaluation, now, enrichment, side, input_name(rows), known, judged)
        then, scores = keep_lines(database, side, enrichment.name, evaluation, lines, scores)
    left_out = {code: figures.refused.get(code, 0) for code in (NOT_ASKED, NO_INPUT)}
    return Evaluation(
        evaluation=evaluation,
        side=figures,
        truth=input_name(rows),
        rows=len(known.sample.keys) - sum(left_out.values()),
        fields=tuple(scores),
        requirements=tuple(requirement_result(one, _of_field(scores, one.field)) for one in settings.require),
        then=then,
        notes=(*known.notes, *_notes(left_out, figures.retried)),
        stopped=stopped,
        output=str(database),
        currency=config.prices.currency if config.prices is not None else "",
    )


ONLY_SIDE = (ONLY,)


def _truth_of(enrichment: Enrichment, truth: Any, input: Any, encoding: str | None) -> tuple[Input, Input]:
    """Return the truth and the input to which it may be joined. Raises ConfigError where nothing names a truth."""
    rows = input_of(input, encoding)
    if truth is not None:
        # An encoding is that of both files: they come from one place.
        return input_of(truth, encoding if isinstance(truth, str | Path) else None), rows
    named = enrichment.quality.evaluate.truth
    if named is not None:
        folder = enrichment.path.parent if enrichment.path is not None else Path()
        return input_of(str(folder / named), encoding), rows
    if rows is not None:
        return rows, None
    raise ConfigError(
        f"{enrichment.place}: against what? Give --truth PATH, or write evaluate: {{truth: labels.csv}} in the header"
    )


def _with_requirements(enrichment: Enrichment, require: Sequence[str]) -> Enrichment:
    """Return the enrichment with further requirements. Raises ConfigError for one that can't be read."""
    try:
        given = [parse_requirement(one, enrichment.output_columns) for one in require]
    except ValueError as error:
        raise ConfigError(f"--require {error}") from None
    settings = enrichment.quality.evaluate
    merged: dict[tuple[str, str, str | None], Requirement] = {}
    for one in (*settings.require, *given):
        merged[one.field, one.measure, one.value] = one
    quality = replace(enrichment.quality, evaluate=replace(settings, require=tuple(merged.values())))
    return replace(enrichment, quality=quality)


def _of_field(scores: Sequence[FieldScore], field: str) -> FieldScore:
    return next(one for one in scores if one.field == field)


def _notes(left_out: Mapping[str, int], retried: int) -> tuple[str, ...]:
    notes = []
    if left := left_out[NOT_ASKED]:
        rows = counted(left, "row")
        notes.append(f"not asked yet, and counted nowhere: {rows}; run the same command again to continue")
    if blank := left_out[NO_INPUT]:
        notes.append(f"counted nowhere, since they have no input to ask about: {counted(blank, 'row')} (NO_INPUT)")
    if retried:
        notes.append(f"asked otherwise by sqlenrich retry: {counted(retried, 'request')}; such answers count too")
    return tuple(notes)


def evaluate_before_run(enrichment: Enrichment, *, observer: Observer, stopper: Stopper, **options: Any) -> Evaluation:
    """Score the prompt and the model of a run by the header's truth. ``options`` are those of the run.

    The answers go to the run's own database, so that the run asks none of them again. Raises ConfigError where the
    header names no truth, and where a warehouse's own function would ask: its answers can't be scored beforehand.
    """
    if enrichment.quality.evaluate.truth is None:
        raise ConfigError(f"{enrichment.place}: --evaluate needs the labels: write evaluate: {{truth: labels.csv}}")
    config = settings_of(options.get("config"), enrichment, options.get("prices"))
    endpoint, output = options.get("endpoint"), options.get("output")
    engine = options.get("engine")
    if (name := options.get("target")) is not None:
        target = config.target(name)
        engine, endpoint, output = target.engine, endpoint or target.endpoint, output or target.database
    in_warehouse = engine not in (None, "duckdb") or options.get("spark") is not None
    if in_warehouse and endpoint is None and engine != "spark" and options.get("spark") is None:
        raise ConfigError(
            f"--evaluate asks from this machine, and {engine} asks its own model: give --endpoint, or score an "
            "endpoint of the same model by sqlenrich evaluate"
        )
    given = None if str(options.get("input")) == "-" else options.get("input")
    return evaluate(
        enrichment,
        input=None if in_warehouse else given,
        output=None if in_warehouse or output is None else outputs_of(output).database,
        responses=None if in_warehouse else options.get("responses"),
        model=options.get("model"),
        config=config,
        observer=observer,
        stopper=stopper,
        **{
            # The condition of one run, such as a day, is not that of the labelled rows.
            **chosen(options, ("key", "columns", *MODEL, "encoding")),
            "endpoint": endpoint,
        },
    )
