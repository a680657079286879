"""``sqlenrich compare``: two prompts or two models over the same rows. No stored answer is asked again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from sqlenrich.ask.observer import NullObserver, Observer, Stopper
from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.quality.comparison.comparison import NOT_ASKED, Comparison, RowResult, Side
from sqlenrich.quality.comparison.metrics import compute_metrics
from sqlenrich.quality.comparison.sample import Sample, draw_sample, read_inputs
from sqlenrich.quality.comparison.side import PreparedSide, prepare_side, read_sides, run_sides
from sqlenrich.quality.comparison.side_place import PlacedTable, side_place
from sqlenrich.runner.options import (
    PLACE_OPTIONS,
    SOURCE_OPTIONS,
    InputOptions,
    SourceOptions,
    check_options,
    chosen,
    names_of,
)
from sqlenrich.runner.place import Output, RunPlaceOptions, place_of
from sqlenrich.runner.setup import settings_of
from sqlenrich.runner.source import with_source_options
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.loader import enrichment_of
from sqlenrich.spec.prices import Prices
from sqlenrich.spec.settings import Config
from sqlenrich.store.inputs import Input, input_name, input_of
from sqlenrich.store.scratch import scratch_folder

DATABASE = Path(".sqlenrich") / "compare.duckdb"
DEFAULT_ROWS = 100


class CompareOptions(SourceOptions, InputOptions, RunPlaceOptions, total=False):
    """The shorthands of a comparison: source, models, prices, warehouse."""

    mock: bool
    mock_failures: Mapping[str, float] | None
    concurrency: int | None
    prices: str | Path | Prices | None


def compare(
    a: Enrichment | str | Path,
    b: Enrichment | str | Path | None = None,
    *,
    input: Any = None,
    rows: int = DEFAULT_ROWS,
    truth: Mapping[str, str] | None = None,
    fields: Sequence[str] | None = None,
    models: str | Sequence[str] | None = None,
    endpoint: str | Sequence[str] | None = None,
    output: Output | None = None,
    responses: str | None = None,
    first: bool = False,
    seed: int = 0,
    config: Config | None = None,
    observer: Observer | None = None,
    stopper: Stopper | None = None,
    **options: Unpack[CompareOptions],
) -> Comparison:
    """Ask two prompts or two models about the same rows, and give how the answers differ.

    The sides are two enrichments, or one enrichment with two ``models``; a single model is compared with the file's
    own. Of two models or endpoints each side has one. ``rows`` is the size of the sample. The sample has the rows with
    the smallest hashes of ``seed`` and row number, so a larger sample contains a smaller one; with ``first`` it has the
    first rows. ``truth`` maps output fields to the source's columns of labels. ``fields`` are the fields to compare, by
    default all that both sides have. The answers are stored in NAME_responses of ``output`` (by default
    ``.sqlenrich/compare.duckdb`` beside ``sqlenrich.toml``, else in the current folder). Runs and comparisons use each
    other's answers. With ``target``, ``engine`` or ``spark`` the sides are asked there as a run would be, and the input
    may be a table there, whose rows are drawn by the hash of the key. All other arguments are those of
    :func:`~sqlenrich.run`. Raises ConfigError before the first call.
    """
    a, b = enrichment_of(a), None if b is None else enrichment_of(b)
    check_options("compare", options, CompareOptions)
    for side in (a, b):
        if side is not None and side.embedding is not None:
            raise ConfigError(f"{side.place}: a comparison counts equal answers, and vectors are never equal")
    config = settings_of(config, a, options.get("prices"))
    observer, stopper, truth = observer or NullObserver(), stopper or Stopper(), truth or {}
    sides = [
        (with_source_options(one, beside=b if one is a else a, **chosen(options, SOURCE_OPTIONS)), model, place)
        for one, model, place in _sides(a, b, models, endpoint)
    ]
    files = [one for one, _, _ in sides]
    named = place_of(a, config, output, responses, RunPlaceOptions(**chosen(options, PLACE_OPTIONS)))  # type: ignore[typeddict-item]
    place = side_place(named.output, default_database(config))
    source = input_of(input if input is not None or place.local is not None else a.source, options.get("encoding"))
    if source is None:
        raise ConfigError("which rows? Give --input PATH")
    if rows < 1:
        raise ConfigError(f"rows is at least 1, not {rows}")
    compared_fields = _fields(files, fields, truth)
    of_target = None if options.get("mock") else named.endpoint
    shared = {**chosen(options, ("mock", "mock_failures", "concurrency")), "config": config}
    with scratch_folder() as folder:
        sample = _sample(files, folder / "sample.duckdb", place.source(source), rows, None if first else seed, truth)
        prepared = [
            prepare_side(
                letter, one, sample, place, named.responses,
                {**shared, "model": model, "endpoint": endpoint or of_target},
            )
            for letter, (one, model, endpoint) in zip("AB", sides, strict=True)
        ]  # fmt: skip
        reports = run_sides(prepared, sample, place, observer, stopper)
        read = read_sides(prepared, reports, place, config)
        metrics = compute_metrics(files, [results for results, _ in read], sample, compared_fields, truth)
        inputs = read_inputs(files, sample, [change.row for change in metrics.changes])
    a_side, b_side = (side for _, side in read)
    changes = (replace(change, input=inputs[change.row]) for change in metrics.changes)
    how = "the first" if first else f"a repeatable spread sample, seed {seed}"
    return Comparison(
        a=a_side,
        b=b_side,
        input=input_name(source),
        rows=len(sample.keys),
        rows_in=sample.rows_in,
        sample=how if sample.rows_in > len(sample.keys) else "all of them",
        same_requests=sum(
            one.request_hash is not None and one.request_hash == read[1][0][row].request_hash
            for row, one in read[0][0].items()
        ),
        agreement=metrics.agreement,
        equal_rows=metrics.equal_rows,
        accuracy=metrics.accuracy,
        changes=tuple(changes),
        notes=(*_notes(prepared, [results for results, _ in read], (a_side, b_side), files), *metrics.notes),
        stopped=stopper.requested or any(report.pending for report in reports),
        output=place.backend.output,
        currency=config.prices.currency if config.prices is not None else "",
    )


def default_database(config: Config) -> Path:
    """Return the default database of comparisons: beside the settings, so that all prompts of a project share it."""
    return (config.path.parent if config.path is not None else Path()) / DATABASE


def _sides(
    a: Enrichment, b: Enrichment | None, models: str | Sequence[str] | None, endpoint: str | Sequence[str] | None
) -> list[tuple[Enrichment, str | None, str | None]]:
    """Return each side's file, model and endpoint. Raises ConfigError where there are not two sides."""
    names, places = (_as_list(given) for given in (models, endpoint))
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


def _as_list(given: str | Sequence[str] | None) -> list[str | None]:
    return [given] if isinstance(given, str) else list(given or ())


def _fields(files: Sequence[Enrichment], fields: Sequence[str] | None, truth: Mapping[str, str]) -> list[str]:
    """Return the fields to compare. Raises ConfigError for a field that a side lacks."""
    a, b = (one.readings for one in files)
    for name in (*names_of(fields or ()), *truth):
        for one, columns in zip(files, (a, b), strict=True):
            if name not in columns:
                known = ", ".join(columns)
                raise ConfigError(
                    f'{one.place}: no output field "{name}"{did_you_mean(name, columns)}; it has: {known}'
                )
    if fields is not None:
        return list(dict.fromkeys(names_of(fields)))
    return [name for name in a if name in b]


def _sample(
    files: Sequence[Enrichment],
    path: Path,
    source: Input | PlacedTable,
    rows: int,
    seed: int | None,
    truth: Mapping[str, str],
) -> Sample:
    """Write the sample of files, of a frame, or of a table of the place, whose rows have no order."""
    if not isinstance(source, PlacedTable):
        return draw_sample(files, path, source, rows, seed, truth)
    if seed is None:
        raise ConfigError(f"the table {source} has no first rows: leave out --first")
    used = [one.source_name(name) for one in files for name in replace(one, keep=()).used_columns()]
    drawn, rows_in = source.drawn(files, [*used, *truth.values()], rows, seed)
    plain = [replace(one, source=None, query=None, refs=None) for one in files]
    return draw_sample(plain, path, drawn, rows, None, truth)._replace(rows_in=rows_in)


def _notes(
    prepared: Sequence[PreparedSide],
    results: Sequence[Mapping[int, RowResult]],
    sides: Sequence[Side],
    files: Sequence[Enrichment],
) -> Iterable[str]:
    a, b = (one.readings for one in files)
    for letter, own, other in (("A", a, b), ("B", b, a)):
        if names := [name for name in own if name not in other]:
            yield f"only {letter} gives: {', '.join(names)}"
    for letter, side in zip("AB", sides, strict=True):
        if left := side.refused.get(NOT_ASKED):
            yield f"{letter}: not asked yet, and counted nowhere: {left:,} rows; run the same command again to continue"
        if side.retried:
            yield f"{letter}: asked otherwise by sqlenrich retry: {side.retried:,} requests; such answers count too"
    first, second = prepared
    requests = [{one.request_hash for one in found.values()} - {None} for found in results]
    if requests[0] and requests[0] == requests[1] and first.options["endpoint"] != second.options["endpoint"]:
        yield (
            "both endpoints serve a model of the same name: the requests are the same, and one answer serves both "
            "sides; give one of the models another name"
        )
