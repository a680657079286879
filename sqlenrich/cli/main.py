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
from sqlenrich.cli.examples import EXAMPLES
from sqlenrich.cli.options import (
    cap_options,
    concurrency_option,
    input_option,
    joining_options,
    json_option,
    log_option,
    mock_options,
    model_option,
    model_options,
    output_option,
    outputs_option,
    parse_names,
    parse_pairs,
    place_options,
    prefix_order_option,
    prices_option,
    responses_option,
    result_options,
    source_options,
    spark_option,
    warehouse_options,
    yes_option,
)
from sqlenrich.core.errors import RunError, SqlenrichError
from sqlenrich.core.functions import FUNCTIONS
from sqlenrich.core.version import __version__
from sqlenrich.runner.report import EXIT_ERROR, EXIT_STOPPED, EXIT_USAGE

if TYPE_CHECKING:
    from sqlenrich.runner.report import Report

EXIT_STALE = 3
"""The exit status of a check that found a difference."""


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
        sys.exit(status_of(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_ERROR)
    except OSError as error:
        click.echo(f"Error: {error.filename or 'the output'}: {error.strerror or error}", err=True)
        sys.exit(EXIT_ERROR)
    sys.exit(status or 0)


def status_of(error: SqlenrichError) -> int:
    """Give the exit status of an error: of what was given, or at work."""
    return EXIT_ERROR if isinstance(error, RunError) else EXIT_USAGE


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="sqlenrich")
def cli() -> None:
    """Run a language model over every row of a table, where the data already lives."""


# A prompt file -----------------------------------------------------------------------------------------------------


@cli.command(epilog=EXAMPLES["new"])
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


@cli.command(epilog=EXAMPLES["check"])
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@model_option
@click.option("--engine", "engines", metavar="E", multiple=True, help="Check for this engine alone; may be repeated.")
@click.option("--response-format", "engine", metavar="ENGINE", help="Print the part of the schema that its model gets.")
def check(files: tuple[str, ...], model: str | None, engines: tuple[str, ...], engine: str | None) -> int:
    """Report the problems of prompt files.

    Also reports what each engine would refuse, and where each setting comes from. Exit status 2 if no engine can use
    a file; with --engine, if one of these can't.
    """
    from sqlenrich.cli.check import check as examine
    from sqlenrich.cli.check import response_format

    if engine is not None:
        for file in files:
            click.echo(response_format(file, engine, model=model))
        return 0
    found = [examine(file, model=model, engines=engines) for file in files]
    click.echo("\n".join(one.text for one in found))
    return 0 if all(one.usable for one in found) else EXIT_USAGE


# A run -------------------------------------------------------------------------------------------------------------


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
@click.argument("file")
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
@click.option("--sample", default=100, show_default=True, type=click.IntRange(0, 10_000), help="Prompts to count.")
@json_option("plan")
def plan(
    file: str,
    input_: str | None,
    output: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Estimate the calls, cost and time of a run.

    Requests no completion, and writes nothing. A warehouse compiles the statements of the run.
    """
    _plan(file, input_, output, as_json=as_json, **options)


def _plan(
    file: str, input_: str | None, output: str | tuple[str, ...] | None, *, as_json: bool, **options: Any
) -> None:
    found = se.estimate(se.load(file), input=input_, output=output, **options)
    click.echo(found.to_json() if as_json else found.to_text(terminal.width() if sys.stdout.isatty() else None))


@cli.command(epilog=EXAMPLES["run"])
@click.argument("file")
@input_option
@outputs_option
@place_options
@spark_option
@warehouse_options
@model_options
@concurrency_option
@source_options
@joining_options
@responses_option
@cap_options
@prefix_order_option
@prices_option
@yes_option
@log_option
@click.option("--dry-run", is_flag=True, help="Estimate calls, cost and time as sqlenrich plan does; ask nothing.")
@json_option("report")
def run(file: str, input_: str | None, yes: bool, as_json: bool, dry_run: bool, **options: Any) -> int:
    """Enrich a table.

    NAME gets the accepted rows, NAME_quarantine the refused ones with their reasons. On a warehouse its own function
    asks the model, unless --endpoint names one. On Spark its executors ask an endpoint.
    """
    if dry_run:
        options = {name: value for name, value in options.items() if name not in NOT_PLANNED}
        _plan(file, input_, _outputs(options), as_json=as_json, **options)
        return 0
    return _report(se.run, file, yes=yes, as_json=as_json, input=input_, **options)


@cli.command(epilog=EXAMPLES["retry"])
@click.argument("file")
@outputs_option
@place_options
@spark_option
@warehouse_options
@click.option("--reason", "reasons", metavar="CODE", multiple=True, help="Only rows refused for this; may be repeated.")
@click.option("--max-attempts", metavar="N", type=click.IntRange(1), help="How often a request is asked in total.")
@model_options
@concurrency_option
@cap_options
@prefix_order_option
@prices_option
@yes_option
@log_option
@json_option("report")
def retry(file: str, yes: bool, as_json: bool, **options: Any) -> int:
    """Ask refused rows of the last run again.

    The new answers are further attempts. Accepted rows are never asked.
    """
    return _report(se.retry, file, yes=yes, as_json=as_json, **options)


NOT_PLANNED = ("chunk_rows", "take_over", "incremental", "replace", "prefix_order", "log")
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
    with shown.of_command(yes=yes, waits=True) as progress:
        try:
            report = function(enrichment, output=output, observer=progress, stopper=progress.stopper, **options)
        except SqlenrichError as error:
            if progress.fail(error):
                return status_of(error)
            raise
        progress.finish(report)
    if as_json:
        click.echo(report.to_json())
    return report.exit_status


@cli.command(epilog=EXAMPLES["show"])
@click.argument("name")
@output_option
@result_options
@click.option("-n", "rows", default=20, show_default=True, type=click.IntRange(1, 100_000), help="How many rows.")
def show(name: str, output: str, rows: int, **options: Any) -> None:
    """Show rows that a run wrote.

    NAME is the name of an enrichment, or its prompt file.
    """
    from sqlenrich.runner.results import results

    width = terminal.width() if sys.stdout.isatty() else None
    click.echo(results(_table_name(name), output, rows=rows, width=width, **options))


@cli.command(epilog=EXAMPLES["export"])
@click.argument("name")
@output_option
@click.option("--to", metavar="PATH", default="-", help="A .csv, .parquet or .jsonl file; without it stdout.")
@result_options
def export(name: str, output: str, to: str, **options: Any) -> None:
    """Write rows that a run wrote to a file.

    NAME is the name of an enrichment, or its prompt file. Standard output gets JSON lines.
    """
    from sqlenrich.runner.results import results

    results(_table_name(name), output, to=to, **options)


def _table_name(name: str) -> str:
    return Path(name).stem if name.endswith(".prompt") else name


@cli.command(epilog=EXAMPLES["compare"])
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


@cli.command(epilog=EXAMPLES["render"])
@click.argument("file")
@click.option("--engine", metavar="E", help="databricks, snowflake, bigquery, spark, duckdb or another installed one.")
@click.option("--target", metavar="NAME", help="A target of sqlenrich.toml: its engine and its tables.")
@click.option("--step", metavar="NAME", help="Only the SELECT of one step.")
@model_option
@click.option("--retry", is_flag=True, help="The script that asks refused rows again.")
@click.option("--reason", "reasons", metavar="CODE", multiple=True, help="With --retry: only rows refused for this.")
@click.option("--max-attempts", metavar="N", type=click.IntRange(1), help="With --retry: how often a request is asked.")
@click.option("--preflight/--no-preflight", default=True, help="Ask 3 requests first, in the engine's scripting.")
@click.option("--chunks", metavar="N", type=click.IntRange(1), help="Ask 3 requests, then the others in N parts.")
@click.option("--max-requests", metavar="N", type=click.IntRange(1), help="Ask at most N requests.")
@click.option(
    "--functions",
    type=click.Choice(FUNCTIONS),
    help="Where repeated expressions stand: inline, in functions of the session (default), or in installed ones.",
)
@click.option("--reread", is_flag=True, help="The script that reads stored answers again and asks nothing.")
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


@cli.command(epilog=EXAMPLES["dbt"])
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--project", metavar="DIR", default=".", help="The folder of a dbt project, or one below it.")
@click.option("--source", metavar="NAME", help="What the prompts read: a model, or a source as schema.table.")
@click.option("--latest", metavar="N", type=click.IntRange(1), help="The version that an unpinned ref gives.")
@click.option("--check", is_flag=True, help="Write nothing; print what differs.")
def dbt(files: tuple[str, ...], check: bool, **options: Any) -> int:
    """Write enrichments into a dbt project.

    Models, macros and tests that dbt builds without this command.
    """
    written = se.write_dbt([se.load(file) for file in files], check=check, **options)
    for note in written.notes:
        click.echo(note, err=True)
    if check:
        if written.changed:
            click.echo(written.diff)
            click.echo(f"{len(written.changed)} of {len(written.files)} files differ", err=True)
        return EXIT_STALE if written.changed else 0
    count = f"{len(written.changed)} of {len(written.files)} files"
    click.echo(f"wrote {count} in {written.project}; next: dbt deps && dbt build", err=True)
    return 0


@cli.command(epilog=EXAMPLES["probe"])
@place_options
@model_option
@click.option("--calls/--no-calls", default=True, help="Ask the model a few requests, at most 20.")
@yes_option
@json_option("findings")
def probe(yes: bool, as_json: bool, **options: Any) -> int:
    """Check the facts about a vendor against a warehouse.

    Exit status 3 for a difference. Writes nothing.
    """
    from sqlenrich.cli.progress import Progress

    with Progress.of_command(yes=yes) as progress:
        found = se.probe(observer=progress, **options)
    click.echo(found.to_json() if as_json else found.to_text(terminal.width(most=160)))
    return found.exit_status


@cli.command(epilog=EXAMPLES["usage"])
@place_options
@spark_option
@click.option("--output", metavar="SCHEMA", help="The schema of the results, where a target or a profile names none.")
@click.option("--run", metavar="ID", help="Only this run. Default: the last 20.")
@prices_option
@json_option("usage")
def usage(as_json: bool, **options: Any) -> None:
    """Show what the runs on a warehouse or on Spark took.

    Tokens and cost are those of the stored answers; the vendor's own records stand beside them. Writes nothing.
    """
    found = se.usage(**options)
    click.echo(found.to_json() if as_json else found.to_text())


@cli.command()
@click.option("--endpoint", metavar="URL", required=True, help="A URL, or an endpoint of sqlenrich.toml.")
@click.option("--model", metavar="M", help="The model's own name, where the endpoint has several.")
@click.option("--write/--no-write", default=True, help="Write it to sqlenrich.toml, if it names the endpoint.")
@json_option("widths")
def tune(endpoint: str, as_json: bool, **options: Any) -> None:
    """Find how many requests in flight an endpoint works on best.

    Doubles them until the rate of answers no longer grows. Sends short requests, some seconds for each width.
    """
    from sqlenrich.cli.progress import Progress

    with Progress.of_command(yes=True) as progress:
        found = se.tune(endpoint, observer=progress, **options)
    click.echo(found.to_json() if as_json else found.to_text())


@cli.command()
def engines() -> None:
    """List the engines."""
    from sqlenrich.engines import engine_names, get_engine

    for name in engine_names():
        click.echo(f"{name:<12}{get_engine(name).facts['call'].value}")


@cli.command(epilog=EXAMPLES["completion"])
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print a shell's script that completes commands and options."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "sqlenrich", "_SQLENRICH_COMPLETE").source())


__all__ = ["cli", "main"]
