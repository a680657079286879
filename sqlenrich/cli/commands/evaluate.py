"""The command ``evaluate``."""

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
    model_options,
    parse_pairs,
    place_options,
    prices_option,
    responses_option,
    source_options,
    spark_option,
    yes_option,
)
from sqlenrich.cli.root import cli


@cli.command(epilog=EXAMPLES["evaluate"])
@click.argument("file")
@click.option(
    "--truth",
    metavar="PATH",
    help="A file, or a table of the target, with the rows and their labels, or the key and the labels of rows of "
    "--input.",
)
@input_option
@click.option(
    "--field",
    "fields",
    metavar="FIELD=COLUMN",
    multiple=True,
    callback=parse_pairs,
    help="An output field and the column of its labels; may be repeated. Default: each expected_FIELD.",
)
@click.option(
    "--require",
    metavar="FIELD=SHARE",
    multiple=True,
    help="The least share that is right, or as in has_pii.recall.true=0.99; may be repeated.",
)
@click.option("--output", metavar="PATH", help="Where answers are stored and found: an --output of a run, or another.")
@place_options
@spark_option
@responses_option
@model_options
@concurrency_option
@source_options
@prices_option
@yes_option
@json_option("evaluation")
def evaluate(file: str, input_: str | None, fields: dict[str, str], yes: bool, as_json: bool, **options: Any) -> int:
    """Score a prompt and a model against labels.

    Asks about the labelled rows, and shows per field how many answers are right. The status is 3 where a requirement
    fails.
    """
    from sqlenrich.cli.progress import Progress

    enrichment = se.load(file)
    with Progress.of_command(yes=yes, waits=True) as progress:
        options |= {"observer": progress, "stopper": progress.stopper, "fields": fields or None}
        found = se.evaluate(enrichment, input=input_, **options)
    click.echo(found.to_json() if as_json else found.to_text(terminal.width(most=120)))
    return found.exit_status
