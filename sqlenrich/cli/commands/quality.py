"""Commands that measure the quality of answers: compare."""

from __future__ import annotations

from typing import Any

import click

import sqlenrich as se
from sqlenrich.cli import terminal
from sqlenrich.cli.examples import EXAMPLES
from sqlenrich.cli.options import (
    concurrency_option,
    input_option,
    json_option,
    mock_options,
    parse_names,
    parse_pairs,
    place_options,
    prices_option,
    responses_option,
    source_options,
    spark_option,
    yes_option,
)
from sqlenrich.cli.root import cli


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
@place_options
@spark_option
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
