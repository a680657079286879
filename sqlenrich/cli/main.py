"""The command line: each command parses, calls one public function and prints. Data to stdout, talk to stderr."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from sqlenrich.cli.options import cap_options, model_options, names, pairs, prices_option, shares, source_options
from sqlenrich.cli.signals import stop_gently
from sqlenrich.core.errors import ConfigError, SqlenrichError
from sqlenrich.core.version import __version__
from sqlenrich.runner.report import EXIT_ERROR, EXIT_STOPPED, EXIT_USAGE, Report
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.loader import load, templates
from sqlenrich.spec.settings import Target

if TYPE_CHECKING:
    from sqlenrich.cli.progress import Progress


def main() -> NoReturn:
    """Run the command line and exit with its status."""
    try:
        status = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        click.echo("stopped", err=True)
        sys.exit(EXIT_STOPPED)
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_USAGE)
    except SqlenrichError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_USAGE if isinstance(error, ConfigError) else EXIT_ERROR)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_ERROR)
    except OSError as error:
        click.echo(f"Error: {error.filename or 'the output'}: {error.strerror or error}", err=True)
        sys.exit(EXIT_ERROR)
    sys.exit(status or 0)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="sqlenrich")
def cli() -> None:
    """Run a language model over every row of a table, where the data already lives."""


@cli.command()
@click.argument("name")
@click.option("--template", metavar="T", help="Start from a ready-made enrichment: see sqlenrich templates.")
@click.option("--sample", is_flag=True, help="With --template: its labelled rows too, as NAME.csv.")
@click.option("--from", "data", metavar="FILE", type=click.Path(dir_okay=False), help="Read columns and key from data.")
@click.option("--force", is_flag=True, help="Replace a file of that name.")
def new(name: str, template: str | None, sample: bool, data: str | None, force: bool) -> None:
    """Write a commented prompt file NAME.prompt."""
    from sqlenrich.cli.new import new as write

    click.echo(write(name, template=template, sample=sample, data=data, force=force))


@cli.command(name="templates")
def templates_() -> None:
    """List the ready-made enrichments; a template's name works wherever FILE does."""
    for name, path in templates().items():
        click.echo(f"{name:<20}{load(path).description}")


@cli.command()
@click.argument("file")
@click.option("--input", "input_", metavar="PATH", help="A CSV, TSV, JSON lines, Parquet or DuckDB file.")
@click.option("-n", "rows", default=5, show_default=True, type=click.IntRange(1, 1000), help="How many rows.")
@click.option("--prompt-only", is_flag=True, help="Only the prompts and requests: sends nothing.")
@model_options
@source_options
@click.option("--yes", is_flag=True, help="Don't ask before many calls.")
def preview(
    file: str,
    input_: str | None,
    rows: int,
    yes: bool,
    **options: Any,
) -> None:
    """Show the exact prompts for free, or ask a few rows and show what the whole table would take."""
    from sqlenrich.runner.preview import FEW
    from sqlenrich.runner.preview import preview as look

    enrichment = load(file)
    with _progress(yes or rows <= FEW, gently=False) as progress:
        options |= {"observer": progress, "stopper": progress.stopper}
        shown = look(enrichment, input=input_, rows=rows, **options)
    click.echo(shown)


@cli.command()
@click.argument("file")
@click.option("--input", "input_", metavar="PATH", help="A CSV, TSV, JSON lines, Parquet or DuckDB file.")
@click.option("--output", metavar="PATH", help="Where the run would write: what is answered there is not asked again.")
@click.option("--target", metavar="NAME", help="A target of sqlenrich.toml.")
@model_options
@click.option("--concurrency", metavar="N", type=click.IntRange(1, 10_000), help="Requests in flight at most.")
@source_options
@click.option("--responses", metavar="NAME", help="The table that keeps the answers.")
@prices_option
@click.option("--sample", default=100, show_default=True, type=click.IntRange(0, 10_000), help="Prompts to count.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def plan(file: str, input_: str | None, output: str | None, target: str | None, as_json: bool, **options: Any) -> None:
    """Tell what a run would ask, spend and wait for. Asks for no completion."""
    from sqlenrich.runner.estimate import plan as look_ahead

    enrichment = load(file)
    output, options["responses"] = _place(enrichment, file, target, output, options["responses"])
    forecast = look_ahead(enrichment, input=input_, output=output, **options)
    width = max(shutil.get_terminal_size().columns, 60) if sys.stdout.isatty() else None
    click.echo(forecast.to_json() if as_json else forecast.to_text(width))


@cli.command()
@click.argument("file")
@click.option("--input", "input_", metavar="PATH", help="A CSV, TSV, JSON lines, Parquet or DuckDB file.")
@click.option("--output", metavar="PATH", help="A .duckdb database, or a .csv or .parquet file.")
@click.option("--target", metavar="NAME", help="A target of sqlenrich.toml.")
@model_options
@click.option("--concurrency", metavar="N", type=click.IntRange(1, 10_000), help="Requests in flight at most.")
@source_options
@click.option("--responses", metavar="NAME", help="The table that keeps the answers, to share what was paid for.")
@cap_options
@prices_option
@click.option("--yes", is_flag=True, help="Don't ask before the first call.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def run(
    file: str,
    input_: str | None,
    output: str | None,
    target: str | None,
    yes: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Enrich a table: NAME holds the accepted rows, NAME_quarantine the refused ones with their reasons."""
    from sqlenrich.runner.run import run as start

    enrichment = load(file)
    output, options["responses"] = _place(enrichment, file, target, output, options["responses"])
    return _watched(start, enrichment, output, yes=yes, as_json=as_json, input=input_, **options)


@cli.command()
@click.argument("file")
@click.option("--output", metavar="PATH", help="What the last run wrote: a .duckdb database, a .csv or .parquet file.")
@click.option("--target", metavar="NAME", help="A target of sqlenrich.toml.")
@click.option("--reason", "reasons", metavar="CODE", multiple=True, help="Only rows refused for this; may be repeated.")
@click.option("--max-attempts", metavar="N", type=click.IntRange(1), help="How often a request is asked, all told.")
@model_options
@click.option("--concurrency", metavar="N", type=click.IntRange(1, 10_000), help="Requests in flight at most.")
@cap_options
@prices_option
@click.option("--yes", is_flag=True, help="Don't ask before the first call.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def retry(file: str, output: str | None, target: str | None, yes: bool, as_json: bool, **options: Any) -> int:
    """Ask refused rows of the last run again, as further attempts; what is accepted is never asked."""
    from sqlenrich.runner.retry import retry as start

    enrichment = load(file)
    if target is not None:
        script = f"sqlenrich render {file} --target {target} --retry"
        output = output or _duckdb_target(enrichment, target, script).database
    return _watched(start, enrichment, output, yes=yes, as_json=as_json, **options)


@cli.command()
@click.argument("files", nargs=-1, required=True, metavar="A.prompt [B.prompt]")
@click.option("--input", "input_", metavar="PATH", help="A CSV, TSV, JSON lines, Parquet or DuckDB file.")
@click.option("-n", "rows", default=100, show_default=True, type=click.IntRange(1, 100_000), help="How many rows.")
@click.option(
    "--truth",
    metavar="FIELD=COLUMN",
    multiple=True,
    callback=pairs,
    help="An output field and the column of the input that holds its right value; may be repeated.",
)
@click.option("--fields", metavar="F1,F2", callback=names, help="Compare only these output fields.")
@click.option("--show", default=10, show_default=True, type=click.IntRange(0), help="How many changed rows to print.")
@click.option("--first", is_flag=True, help="The first rows, not a spread sample.")
@click.option("--seed", default=0, show_default=True, type=int, help="Another one draws another sample.")
@click.option("--output", metavar="PATH", help="Where answers are kept and found: the --output of a run, or its own.")
@click.option("--responses", metavar="NAME", help="The table that keeps the answers, to share what was paid for.")
@click.option("--endpoint", metavar="URL", multiple=True, help="As for run; twice: one for each side.")
@click.option("--model", "models", metavar="M", multiple=True, help="As for run; twice: one for each side.")
@click.option("--mock", is_flag=True, help="Free invented answers that fit the schema.")
@click.option("--mock-failures", metavar="KIND=SHARE,...", callback=shares, help="As for run.")
@click.option("--concurrency", metavar="N", type=click.IntRange(1, 10_000), help="Requests in flight at most.")
@source_options
@prices_option
@click.option("--yes", is_flag=True, help="Don't ask before the first call.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def compare(
    files: tuple[str, ...],
    input_: str | None,
    show: int,
    yes: bool,
    as_json: bool,
    first: bool,
    seed: int,
    **options: Any,
) -> int:
    """Ask two prompts, or one prompt of two models, about the same rows, and show how the answers differ."""
    from sqlenrich.quality.compare import compare as start

    if len(files) > 2:
        raise click.UsageError("a comparison has two sides: give one file or two")
    sides = [load(file) for file in files]
    with _progress(yes) as progress:
        options |= {"observer": progress, "stopper": progress.stopper}
        found = start(*sides, input=input_, first=first, seed=seed, **options)
    width = min(max(shutil.get_terminal_size((100, 24)).columns, 60), 120)
    click.echo(found.to_json() if as_json else found.to_text(width, show))
    return found.exit_status


def _place(
    enrichment: Enrichment, file: str, target: str | None, output: str | None, responses: str | None
) -> tuple[str | None, str | None]:
    """Give the output and the table of the answers: the flags, then the target's. Raises ConfigError."""
    if target is None:
        return output, responses
    chosen = _duckdb_target(enrichment, target, f"sqlenrich render {file} --target {target}")
    shared = (chosen.responses or "").replace("{name}", enrichment.name)
    return output or chosen.database, responses or shared or None


def _duckdb_target(enrichment: Enrichment, name: str, script: str) -> Target:
    """Give a target that a client can run on. Raises ConfigError."""
    from sqlenrich.spec.settings import find_config

    chosen = find_config(enrichment.path).target(name)
    if chosen.engine != "duckdb":
        raise ConfigError(
            f'the target "{name}" is on {chosen.engine}, where a run is not supported yet; '
            f"paste the script of: {script}"
        )
    return chosen


def _watched(
    start: Callable[..., Report],
    enrichment: Enrichment,
    output: str | None,
    *,
    yes: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Start a run that signals can end, with its progress; print the report and give the exit status."""
    if output is None:
        raise click.UsageError("where to? Give --output out.duckdb (or .csv, .parquet)")
    with _progress(yes) as progress:
        report = start(enrichment, output=output, observer=progress, stopper=progress.stopper, **options)
    click.echo(report.to_text(), err=True)
    if as_json:
        click.echo(report.to_json())
    return report.exit_status


def _progress(yes: bool, *, gently: bool = True) -> Progress:
    """Give the progress of what asks a model; ``gently``: a signal lets it end by itself."""
    from sqlenrich.cli.progress import Progress
    from sqlenrich.runner.observer import Stopper

    stopper = Stopper()
    ask = _confirm if sys.stdin.isatty() and sys.stderr.isatty() else None
    progress = Progress(sys.stderr, yes=yes, ask=ask, stopper=stopper)
    if gently:
        stop_gently(stopper, lambda: progress.kept > 0)
    return progress


def _confirm(question: str) -> bool:
    """Ask on the terminal; Ctrl-D means no."""
    try:
        return click.confirm(question, default=True, err=True)
    except click.Abort:
        click.echo(err=True)  # what comes next begins a line
        return False


@cli.command()
@click.argument("file")
@click.option("--engine", metavar="E", help="databricks, snowflake, bigquery, spark or duckdb.")
@click.option("--target", metavar="NAME", help="A target of sqlenrich.toml: its engine and its tables.")
@click.option("--step", metavar="NAME", help="Only the SELECT of one step.")
@click.option("--model", metavar="M", help="The model's name, or an alias of sqlenrich.toml.")
@click.option("--retry", is_flag=True, help="The script that asks refused rows of the last one again.")
@click.option("--reason", "reasons", metavar="CODE", multiple=True, help="With --retry: only rows refused for this.")
@click.option("--max-attempts", metavar="N", type=click.IntRange(1), help="With --retry: how often a request is asked.")
@click.option("-o", "out", metavar="PATH", type=click.Path(dir_okay=False), help="Write to a file.")
def render(file: str, engine: str | None, target: str | None, out: str | None, **options: Any) -> None:
    """Print the SQL script for a warehouse."""
    from sqlenrich.plan.compile import RELATIONS
    from sqlenrich.renderer.script import render as script
    from sqlenrich.spec.settings import find_config

    enrichment = load(file)
    config = find_config(enrichment.path)
    if (engine is None) == (target is None):
        raise click.UsageError("give --engine E or --target NAME")
    place = config.target(target) if target is not None else None
    relations = place.relations(RELATIONS, enrichment.name) if place is not None else None
    text = script(enrichment, engine or str(place and place.engine), relations=relations, config=config, **options)
    if out is None:
        click.echo(text, nl=False)
    else:
        Path(out).write_text(text, encoding="utf-8")


@cli.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--model", metavar="M", help="The model's name, or an alias of sqlenrich.toml.")
@click.option("--told", metavar="ENGINE", help="Print the part of the schema that the model of an engine is told.")
def check(files: tuple[str, ...], model: str | None, told: str | None) -> int:
    """Report a file's problems, what each engine would refuse, and where each setting comes from."""
    from sqlenrich.cli.check import check as examine
    from sqlenrich.cli.check import told as told_by

    status = 0
    if told is not None:
        for file in files:
            click.echo(told_by(file, told, model=model))
        return status
    for file in files:
        found = examine(file, model=model)
        click.echo(found.text)
        status = status or (0 if found.usable else EXIT_ERROR)
    return status


@cli.command()
def engines() -> None:
    """List the engines."""
    from sqlenrich.engines import engine_names, get_engine

    for name in engine_names():
        engine = get_engine(name)
        click.echo(f"{name:<12}{engine.facts['call'].value}")


__all__ = ["cli", "main"]
