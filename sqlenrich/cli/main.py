"""The commands: each parses its arguments, calls one public function and prints. Data to stdout, messages to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

import sqlenrich as se
from sqlenrich.cli import terminal
from sqlenrich.cli.options import (
    cap_options,
    concurrency_option,
    input_option,
    json_option,
    mock_options,
    model_option,
    model_options,
    parse_names,
    parse_pairs,
    prefix_order_option,
    prices_option,
    responses_option,
    source_options,
    target_option,
    yes_option,
)
from sqlenrich.cli.target import Place, place_of
from sqlenrich.core.errors import ConfigError, SqlenrichError
from sqlenrich.core.version import __version__
from sqlenrich.runner.report import EXIT_ERROR, EXIT_STOPPED, EXIT_USAGE

if TYPE_CHECKING:
    from sqlenrich.runner.report import Report
    from sqlenrich.spec.enrichment import Enrichment


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


# A prompt file -----------------------------------------------------------------------------------------------------


@cli.command()
@click.argument("name")
@click.option("--template", metavar="T", help="Start from a ready-made enrichment: see sqlenrich templates.")
@click.option("--sample", is_flag=True, help="With --template: also write its labelled rows, as NAME.csv.")
@click.option("--from", "data", metavar="FILE", type=click.Path(dir_okay=False), help="Take columns and key from data.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def new(name: str, **options: Any) -> None:
    """Write a commented prompt file NAME.prompt."""
    from sqlenrich.cli.new import new as write

    click.echo(write(name, **options))


@cli.command()
def templates() -> None:
    """List the ready-made enrichments.

    A template's name works wherever FILE does.
    """
    from sqlenrich.spec.loader import templates as ready_made

    for name, path in ready_made().items():
        click.echo(f"{name:<20}{se.load(path).description}")


@cli.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@model_option
@click.option("--response-format", "engine", metavar="ENGINE", help="Print the part of the schema that its model gets.")
def check(files: tuple[str, ...], model: str | None, engine: str | None) -> int:
    """Report the problems of prompt files.

    Also reports what each engine would refuse, and where each setting comes from.
    """
    from sqlenrich.cli.check import check as examine
    from sqlenrich.cli.check import response_format

    if engine is not None:
        for file in files:
            click.echo(response_format(file, engine, model=model))
        return 0
    found = [examine(file, model=model) for file in files]
    click.echo("\n".join(one.text for one in found))
    return 0 if all(one.usable for one in found) else EXIT_ERROR


# A run -------------------------------------------------------------------------------------------------------------


@cli.command()
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


@cli.command()
@click.argument("file")
@input_option
@click.option("--output", metavar="PATH", help="Where the run would write. Requests answered there are not asked.")
@target_option
@model_options
@concurrency_option
@source_options
@responses_option
@prices_option
@click.option("--sample", default=100, show_default=True, type=click.IntRange(0, 10_000), help="Prompts to count.")
@json_option("plan")
def plan(
    file: str,
    input_: str | None,
    output: str | None,
    responses: str | None,
    target: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Estimate the calls, cost and time of a run.

    Requests no completion.
    """

    enrichment = se.load(file)
    place = place_of(enrichment, target, Place(output, responses), f"sqlenrich render {file} --target {target}")
    found = se.estimate(enrichment, input=input_, output=place.output, responses=place.responses, **options)
    click.echo(found.to_json() if as_json else found.to_text(terminal.width() if sys.stdout.isatty() else None))


@cli.command()
@click.argument("file")
@input_option
@click.option("--output", metavar="PATH", help="A .duckdb database, or a .csv or .parquet file.")
@target_option
@model_options
@concurrency_option
@source_options
@responses_option
@cap_options
@prefix_order_option
@prices_option
@yes_option
@json_option("report")
def run(
    file: str,
    input_: str | None,
    output: str | None,
    responses: str | None,
    target: str | None,
    yes: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Enrich a table.

    NAME gets the accepted rows, NAME_quarantine the refused ones with their reasons.
    """
    enrichment = se.load(file)
    place = place_of(enrichment, target, Place(output, responses), f"sqlenrich render {file} --target {target}")
    options |= {"input": input_, "responses": place.responses}
    return _report(se.run, enrichment, place.output, yes=yes, as_json=as_json, **options)


@cli.command()
@click.argument("file")
@click.option("--output", metavar="PATH", help="What the last run wrote: a .duckdb database, a .csv or .parquet file.")
@target_option
@click.option("--reason", "reasons", metavar="CODE", multiple=True, help="Only rows refused for this; may be repeated.")
@click.option("--max-attempts", metavar="N", type=click.IntRange(1), help="How often a request is asked in total.")
@model_options
@concurrency_option
@cap_options
@prefix_order_option
@prices_option
@yes_option
@json_option("report")
def retry(file: str, output: str | None, target: str | None, yes: bool, as_json: bool, **options: Any) -> int:
    """Ask refused rows of the last run again.

    The new answers are further attempts. Accepted rows are never asked.
    """
    enrichment = se.load(file)
    script = f"sqlenrich render {file} --target {target} --retry"
    place = place_of(enrichment, target, Place(output, None), script)
    return _report(se.retry, enrichment, place.output, yes=yes, as_json=as_json, **options)


def _report(
    function: Callable[..., Report],
    enrichment: Enrichment,
    output: str | None,
    *,
    yes: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Call ``run`` or ``retry`` with its progress, print the report, and give the exit status."""
    from sqlenrich.cli.progress import Progress

    if output is None:
        raise click.UsageError("where to? Give --output out.duckdb (or .csv, .parquet)")
    with Progress.of_command(yes=yes, waits=True) as progress:
        report = function(enrichment, output=output, observer=progress, stopper=progress.stopper, **options)
    click.echo(report.to_text(), err=True)
    if as_json:
        click.echo(report.to_json())
    return report.exit_status


@cli.command()
@click.argument("files", nargs=-1, required=True, metavar="A.prompt [B.prompt]")
@input_option
@click.option("-n", "rows", default=100, show_default=True, type=click.IntRange(1, 100_000), help="How many rows.")
@click.option(
    "--truth",
    metavar="FIELD=COLUMN",
    multiple=True,
    callback=parse_pairs,
    help="An output field and the column of the input that has its right value; may be repeated.",
)
@click.option("--fields", metavar="F1,F2", callback=parse_names, help="Compare only these output fields.")
@click.option("--show", default=10, show_default=True, type=click.IntRange(0), help="How many changed rows to print.")
@click.option("--first", is_flag=True, help="Take the first rows, not a spread sample.")
@click.option("--seed", default=0, show_default=True, type=int, help="Each seed draws another sample.")
@click.option("--output", metavar="PATH", help="Where answers are stored and found: an --output of a run, or another.")
@responses_option
@click.option("--endpoint", metavar="URL", multiple=True, help="As for run; give two for one per side.")
@click.option("--model", "models", metavar="M", multiple=True, help="As for run; give two for one per side.")
@mock_options
@concurrency_option
@source_options
@prices_option
@yes_option
@json_option("comparison")
def compare(files: tuple[str, ...], input_: str | None, show: int, yes: bool, as_json: bool, **options: Any) -> int:
    """Compare two prompts or two models.

    Asks two prompts, or one prompt with two models, about the same rows, and shows how the answers differ.
    """
    from sqlenrich.cli.progress import Progress

    if len(files) > 2:
        raise click.UsageError("a comparison has two sides: give one file or two")
    sides = [se.load(file) for file in files]
    with Progress.of_command(yes=yes, waits=True) as progress:
        found = se.compare(*sides, input=input_, observer=progress, stopper=progress.stopper, **options)
    click.echo(found.to_json() if as_json else found.to_text(terminal.width(most=120), show))
    return found.exit_status


# A warehouse -------------------------------------------------------------------------------------------------------


@cli.command()
@click.argument("file")
@click.option("--engine", metavar="E", help="databricks, snowflake, bigquery, spark, duckdb or another installed one.")
@click.option("--target", metavar="NAME", help="A target of sqlenrich.toml: its engine and its tables.")
@click.option("--step", metavar="NAME", help="Only the SELECT of one step.")
@model_option
@click.option("--retry", is_flag=True, help="The script that asks refused rows again.")
@click.option("--reason", "reasons", metavar="CODE", multiple=True, help="With --retry: only rows refused for this.")
@click.option("--max-attempts", metavar="N", type=click.IntRange(1), help="With --retry: how often a request is asked.")
@click.option("-o", "out", metavar="PATH", type=click.Path(dir_okay=False), help="Write to a file.")
def render(file: str, engine: str | None, target: str | None, out: str | None, **options: Any) -> None:
    """Print the SQL script for a warehouse."""
    from sqlenrich.plan.relations import RELATIONS
    from sqlenrich.spec.settings import find_config

    enrichment = se.load(file)
    config = find_config(enrichment.path)
    if (engine is None) == (target is None):
        raise click.UsageError("give --engine E or --target NAME")
    if target is not None:
        place = config.target(target)
        engine, options["relations"] = place.engine, place.relations(RELATIONS, enrichment.name)
    script = se.render(enrichment, engine=str(engine), config=config, **options)
    if out is None:
        click.echo(script, nl=False)
    else:
        Path(out).write_text(script, encoding="utf-8")


@cli.command()
def engines() -> None:
    """List the engines."""
    from sqlenrich.engines import engine_names, get_engine

    for name in engine_names():
        click.echo(f"{name:<12}{get_engine(name).facts['call'].value}")


__all__ = ["cli", "main"]
