"""``sqlenrich evaluate``: a prompt and a model against labels. No stored answer is asked again."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Unpack

from sqlenrich.ask.observer import NullObserver, Observer, Stopper
from sqlenrich.core.errors import ConfigError
from sqlenrich.core.plurals import counted
from sqlenrich.quality.comparison.compare import default_database
from sqlenrich.quality.comparison.comparison import NO_INPUT, NOT_ASKED
from sqlenrich.quality.comparison.side import ONLY, prepare_side, read_sides, run_sides
from sqlenrich.quality.comparison.side_place import PlacedTable, SidePlace, side_place
from sqlenrich.quality.evaluation.evaluation import Evaluation, FieldScore, Then
from sqlenrich.quality.evaluation.lines import check_lines, evaluation_lines, keep_lines
from sqlenrich.quality.evaluation.scores import check_requirements, judge, requirement_result, score_field
from sqlenrich.quality.evaluation.truth import read_truth
from sqlenrich.runner.options import PLACE_OPTIONS, InputOptions, SourceOptions, chosen
from sqlenrich.runner.place import Output, RunPlaceOptions
from sqlenrich.runner.setup import set_up
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.prices import Prices
from sqlenrich.spec.quality import Requirement, parse_requirement
from sqlenrich.spec.run_settings import AnyModel
from sqlenrich.spec.settings import Config
from sqlenrich.store.inputs import Input, input_name, input_of
from sqlenrich.store.scratch import scratch_folder
from sqlenrich.store.store import Store


class EvaluateOptions(SourceOptions, InputOptions, RunPlaceOptions, total=False):
    """The shorthands of an evaluation: source, model, prices, warehouse."""

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
    model: AnyModel | None = None,
    output: Output | None = None,
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
    With ``target``, ``engine`` or ``spark`` the output is there, and what a run would ask is asked: the warehouse's own
    function unless an endpoint is given. ``truth`` and ``input`` may then be tables there too; the labelled rows are
    copied to the place and dropped at the end.
    All other arguments are those of :func:`~sqlenrich.run`. Raises ConfigError before the first call.
    """
    setup = set_up("evaluate", EvaluateOptions, options, enrichment, output=output, responses=responses, config=config)
    config = setup.config
    if setup.enrichment.embedding is not None:
        raise ConfigError(f"{setup.enrichment.place}: an evaluation counts right answers, and a vector is neither")
    observer, stopper = observer or NullObserver(), stopper or Stopper()
    enrichment = _with_requirements(setup.enrichment, require)
    settings = enrichment.quality.evaluate
    place = side_place(setup.output, default_database(config))
    rows, source = _truth_of(enrichment, truth, input, options.get("encoding"), place)
    with scratch_folder() as folder:
        required = [one.field for one in settings.require]
        named = fields if fields is not None else settings.fields
        known = read_truth(enrichment, folder / "truth.duckdb", rows, source, named, required)
        check_requirements(enrichment, settings.require, known.labels)
        asked = {**chosen(options, MODEL), "model": model, "config": config}
        if model is None or isinstance(model, str):  # a target may name the endpoint
            asked["endpoint"] = setup.wanted.endpoint
        side = prepare_side(ONLY, enrichment, known.sample, place, setup.responses, asked)
        if place.local is None or place.local.is_file():
            with place.opened() as database:
                check_lines(Store(database, enrichment.name, enrichment, database.home))
        (report,) = run_sides([side], known.sample, place, observer, stopper)
        ((results, figures),) = read_sides([side], [report], place, config)
    judged = {field: judge(known.labels[field], results, field) for field in known.columns}
    scores = [score_field(enrichment, field, known.columns[field], lines) for field, lines in judged.items()]
    stopped = stopper.requested or report.pending > 0
    now = datetime.now(UTC)
    evaluation = f"{now:%Y%m%dT%H%M%S%f}-{uuid.uuid4().hex[:8]}"
    then: Then | None = None
    if not stopped:
        hashes = {row: result.request_hash for row, result in results.items()}
        lines = evaluation_lines(evaluation, now, enrichment, side, input_name(rows), known, judged, hashes)
        with place.opened() as database:
            then, scores = keep_lines(
                Store(database, enrichment.name, enrichment, database.home), evaluation, lines, scores
            )
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
        output=place.backend.output,
        currency=config.prices.currency if config.prices is not None else "",
    )


def _truth_of(
    enrichment: Enrichment, truth: Any, input: Any, encoding: str | None, place: SidePlace
) -> tuple[Input, Callable[[], Input | PlacedTable]]:
    """Return the truth, and what opens the input to which it may be joined.

    Raises ConfigError where nothing names a truth.
    """
    named = input if input is not None or place.local is not None else enrichment.source
    given = input_of(named, encoding)

    def rows() -> Input | PlacedTable:
        return place.source(given)

    known = enrichment.quality.evaluate.truth
    if truth is not None:
        # An encoding is that of both files: they come from one place.
        return _all_rows(place, input_of(truth, encoding if isinstance(truth, str | Path) else None)), rows
    if known is not None:
        folder = enrichment.path.parent if enrichment.path is not None else Path()
        return input_of(str(folder / known), encoding), rows
    if input is not None:
        return _all_rows(place, given), lambda: None
    raise ConfigError(
        f"{enrichment.place}: against what? Give --truth PATH, or write evaluate: {{truth: labels.csv}} in the header"
    )


def _all_rows(place: SidePlace, given: Input) -> Input:
    """Return rows as files or a frame: a table of the place is read."""
    found = place.source(given)
    return found.all() if isinstance(found, PlacedTable) else found


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
    header names no truth.
    """
    if enrichment.quality.evaluate.truth is None:
        raise ConfigError(f"{enrichment.place}: --evaluate needs the labels: write evaluate: {{truth: labels.csv}}")
    given = None if str(options.get("input")) == "-" else options.get("input")
    return evaluate(
        enrichment,
        input=given,
        output=options.get("output"),
        responses=options.get("responses"),
        model=options.get("model"),
        config=options.get("config"),
        observer=observer,
        stopper=stopper,
        # The condition of one run, such as a day, is not that of the labelled rows.
        **chosen(options, ("key", "columns", "prices", "encoding", *MODEL, *PLACE_OPTIONS)),
    )
