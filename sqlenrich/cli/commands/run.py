"""Commands that ask, and that read what was stored: preview, plan, run, retry, show, export."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import sqlenrich as se
from sqlenrich.cli import terminal
from sqlenrich.cli.examples import EXAMPLES
from sqlenrich.cli.options import (
    batch_options,
    cap_options,
    concurrency_option,
    encoding_option,
    input_option,
    joining_options,
    json_option,
    log_option,
    model_options,
    outputs_option,
    place_options,
    prefix_order_option,
    prices_option,
    refused_option,
    responses_option,
    result_options,
    source_options,
    spark_option,
    stored_place_options,
    warehouse_options,
    yes_option,
)
from sqlenrich.cli.root import cli, status_of
from sqlenrich.core.errors import SqlenrichError

if TYPE_CHECKING:
    from sqlenrich.cli.progress import Progress
    from sqlenrich.runner.report import Report


@cli.command(epilog=EXAMPLES["preview"])
@click.argument("file")
@input_option
@click.option("-n", "rows", default=5, show_default=True, type=click.IntRange(1, 1000), help="How many rows.")
@click.option("--prompt-only", is_flag=True, help="Only show the prompts and requests; send nothing.")
@model_options
@source_options
@click.option("--yes", is_flag=True, help="Don't ask before many calls.")
def preview(file: str, input_: str | None, rows: int, yes: bool, **options: Any) -> None:
    """Show prompts, or ask a few rows.

    Also shows what the whole table would take. Stores nothing.
    """
    from sqlenrich.cli.progress import Progress
    from sqlenrich.runner.preview import MAX_UNCONFIRMED_ROWS
    from sqlenrich.runner.preview import preview as show

    enrichment = se.load(file)
    with Progress.of_command(yes=yes or rows <= MAX_UNCONFIRMED_ROWS) as progress:
        options |= {"observer": progress, "stopper": progress.stopper}
        shown = show(enrichment, input=input_, rows=rows, **options)
    click.echo(shown)


@cli.command(epilog=EXAMPLES["plan"])
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@input_option
@click.option("--output", metavar="PATH", help="Where the run would write. Requests answered there are not asked.")
@place_options
@spark_option
@model_options
@concurrency_option
@source_options
@responses_option
@cap_options
@prices_option
@click.option("--batch", is_flag=True, help="As run --batch would ask: at the price of batches, within a day.")
@click.option("--sample", default=100, show_default=True, type=click.IntRange(0, 10_000), help="Prompts to count.")
@json_option("plan")
def plan(
    files: tuple[str, ...],
    input_: str | None,
    output: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Estimate the calls, cost and time of a run.

    Requests no completion, and writes nothing. A warehouse compiles the statements of the run. Several files are the
    steps of one run.
    """
    _plan(files, input_, output, as_json=as_json, **options)


def _plan(
    files: tuple[str, ...], input_: str | None, output: str | tuple[str, ...] | None, *, as_json: bool, **options: Any
) -> None:
    found: Any
    if len(files) > 1:
        from sqlenrich.runner.steps import StepGroup

        found = StepGroup([se.load(file) for file in files], input=input_, output=output, **options).plan()
    else:
        found = se.estimate(se.load(files[0]), input=input_, output=output, **options)
    click.echo(found.to_json() if as_json else found.to_text(terminal.width() if sys.stdout.isatty() else None))


@cli.command(epilog=EXAMPLES["run"])
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@input_option
@outputs_option
@place_options
@spark_option
@warehouse_options
@model_options
@concurrency_option
@source_options
@joining_options
@batch_options
@responses_option
@cap_options
@refused_option
@prefix_order_option
@prices_option
@yes_option
@log_option
@click.option(
    "--evaluate", "scored", is_flag=True, help="Score the prompt by its labels first; end where a requirement fails."
)
@click.option("--dry-run", is_flag=True, help="Estimate calls, cost and time as sqlenrich plan does; ask nothing.")
@click.option("--keep-going", is_flag=True, help="Run a step also where one that it reads ended with exit status 3.")
@json_option("report")
def run(
    files: tuple[str, ...],
    input_: str | None,
    yes: bool,
    as_json: bool,
    dry_run: bool,
    keep_going: bool,
    **options: Any,
) -> int:
    """Enrich a table.

    NAME gets the accepted rows, NAME_quarantine the refused ones with their reasons. On a warehouse its own function
    asks the model, unless --endpoint names one. On Spark its executors ask an endpoint. Several files are steps: a
    file whose source is the result of another (source: {ref: NAME}) runs after it.
    """
    if dry_run:
        options = {name: value for name, value in options.items() if name not in NOT_PLANNED}
        _plan(files, input_, _outputs(options), as_json=as_json, **options)
        return 0
    if len(files) > 1:
        return _steps(files, yes=yes, as_json=as_json, keep_going=keep_going, input=input_, **options)
    if keep_going:
        raise click.UsageError("--keep-going is for steps: give several files")
    return _report(se.run, files[0], yes=yes, as_json=as_json, input=input_, **options)


def _steps(files: tuple[str, ...], *, yes: bool, as_json: bool, keep_going: bool, **options: Any) -> int:
    """Run several files as steps, each with a progress of its own, print their reports, and give the exit status."""
    from sqlenrich.cli.progress import JsonLog, Progress
    from sqlenrich.runner.run import run_one
    from sqlenrich.runner.steps import StepGroup

    if options.pop("scored", False):
        raise click.UsageError("--evaluate scores one prompt: give one file, or sqlenrich evaluate before the run")
    shown = JsonLog if options.pop("log") == "json" else Progress
    group = StepGroup([se.load(file) for file in files], output=_outputs(options), **options)
    plan = group.plan() if len(group.steps) > 1 else None

    def run_step(step: se.Enrichment, given: Mapping[str, Any]) -> Report:
        with shown.of_command(yes=yes, waits=True) as progress:
            progress.note(f"step {step.name}")
            try:
                report = run_one(step, observer=progress, stopper=progress.stopper, **given)
            except SqlenrichError as error:
                if progress.fail(error):
                    raise click.exceptions.Exit(status_of(error)) from None
                raise
            progress.finish(report)
        return report

    with shown.of_command(yes=yes) as progress:
        for line in [] if plan is None else plan.lines():
            progress.note(line)
    found = group.run(run_step, keep_going=keep_going)
    for name, why in found.skipped.items():
        click.echo(f"step {name} did not run: {why}", err=True)
    if as_json:
        click.echo(found.to_json())
    return found.exit_status


@cli.command(epilog=EXAMPLES["retry"])
@click.argument("file")
@outputs_option
@place_options
@spark_option
@warehouse_options
@click.option("--reason", "reasons", metavar="CODE", multiple=True, help="Only rows refused for this; may be repeated.")
@click.option("--where", metavar="SQL", help="Accepted rows too that meet this, such as 'confidence < 0.8'.")
@click.option("--max-attempts", metavar="N", type=click.IntRange(1), help="How often a request is asked in total.")
@model_options
@batch_options
@concurrency_option
@cap_options
@refused_option
@prefix_order_option
@prices_option
@yes_option
@log_option
@json_option("report")
def retry(file: str, yes: bool, as_json: bool, **options: Any) -> int:
    """Ask refused rows of the last run again.

    The new answers are further attempts. Of accepted rows, only those of --where are asked, each once of a model.
    """
    return _report(se.retry, file, yes=yes, as_json=as_json, **options)


NOT_PLANNED = (
    "chunk_rows", "take_over", "incremental", "publish_partial", "replace", "prefix_order", "log", "scored",
    "stop_after_refused", "wait",
)  # fmt: skip
"""The options of a run that change nothing in its plan."""


def _outputs(options: dict[str, Any]) -> str | tuple[str, ...] | None:
    """Take the outputs out of some options: one, several, or None."""
    outputs: tuple[str, ...] = options.pop("outputs")
    return (outputs[0] if len(outputs) == 1 else outputs) if outputs else None


def _report(function: Callable[..., Report], file: str, *, yes: bool, as_json: bool, **options: Any) -> int:
    """Call ``run`` or ``retry`` with its progress, print the report, and give the exit status."""
    from sqlenrich.cli.progress import JsonLog, Progress

    enrichment = se.load(file)
    printed = "-" in options["outputs"]
    output = _outputs(options)
    if output is None and not any(options.get(name) for name in ("target", "engine", "spark")):
        raise click.UsageError("where to? Give --output out.duckdb (or .csv, .parquet, .jsonl, -), or --target")
    if as_json and printed:
        raise click.UsageError("--json prints the report to stdout, where --output - prints the rows: give one of them")
    shown = JsonLog if options.pop("log") == "json" else Progress
    scored = options.pop("scored", False)
    with shown.of_command(yes=yes, waits=True) as progress:
        try:
            if scored and (status := _evaluate_first(enrichment, progress, as_json, output=output, **options)):
                return status
            report = function(enrichment, output=output, observer=progress, stopper=progress.stopper, **options)
        except SqlenrichError as error:
            if progress.fail(error):
                return status_of(error)
            raise
        progress.finish(report)
    if as_json:
        click.echo(report.to_json())
    return report.exit_status


def _evaluate_first(enrichment: se.Enrichment, progress: Progress, as_json: bool, **options: Any) -> int:
    """Score a prompt before its run. Give the exit status with which the run ends before it asks, or 0."""
    from sqlenrich.quality.evaluation.evaluate import evaluate_before_run

    found = evaluate_before_run(enrichment, observer=progress, stopper=progress.stopper, **options)
    progress.evaluated(found)
    if found.exit_status:
        progress.note("the run is not begun: nothing else was sent")
        if as_json:
            click.echo(found.to_json())
    return found.exit_status


@cli.command(epilog=EXAMPLES["show"])
@click.argument("name")
@stored_place_options
@result_options
@click.option("-n", "rows", default=20, show_default=True, type=click.IntRange(1, 100_000), help="How many rows.")
def show(name: str, output: str | None, rows: int, **options: Any) -> None:
    """Show rows that a run wrote.

    NAME is the name of an enrichment, or its prompt file.
    """
    from sqlenrich.runner.results import results, stored_advice

    width = terminal.width() if sys.stdout.isatty() else None
    click.echo(results(_table_name(name), output, rows=rows, width=width, config=_settings(name), **options))
    local = output is not None and not any(options.get(one) for one in _PLACES)
    for line in stored_advice(_table_name(name), output) if local and options["quarantine"] else ():  # type: ignore[arg-type]
        click.echo(line, err=True)


@cli.command(epilog=EXAMPLES["export"])
@click.argument("name")
@stored_place_options
@click.option("--to", metavar="PATH", default="-", help="A .csv, .parquet or .jsonl file; without it stdout.")
@click.option(
    "--join", "joined", metavar="INPUT", help="All rows and columns of the input, with the results beside them."
)
@encoding_option
@result_options
def export(
    name: str, output: str | None, to: str, joined: str | None, encoding: str | None, quarantine: bool, **options: Any
) -> None:
    """Write rows that a run wrote to a file.

    NAME is the name of an enrichment, or its prompt file. Standard output gets JSON lines.
    """
    from sqlenrich.runner.joined_results import export_joined
    from sqlenrich.runner.results import results

    if joined is None:
        if encoding is not None:
            raise click.UsageError("--encoding is that of the input: give --join INPUT")
        results(_table_name(name), output, to=to, quarantine=quarantine, config=_settings(name), **options)
        return
    if quarantine:
        raise click.UsageError("--join writes the refused rows too, with their _error: leave out --quarantine")
    places = [options.pop(one, None) for one in _PLACES]
    if any(places) or output is None:
        raise click.UsageError(
            "--join reads a file beside the results of a DuckDB output: in a warehouse, join the tables by the key"
        )
    note = export_joined(_table_name(name), output, joined, to=to, encoding=encoding, **options)
    if note is not None:
        click.echo(note, err=True)


_PLACES = ("target", "engine", "profile", "connection", "spark")


def _table_name(name: str) -> str:
    return Path(name).stem if name.endswith(".prompt") else name


def _settings(name: str) -> se.Config:
    """Return the settings beside a prompt file, or of the current folder."""
    from sqlenrich.spec.settings import find_config

    return find_config(Path(name) if name.endswith(".prompt") else None)
