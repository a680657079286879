"""The commands that measure, show, check and delete the answers of runs."""

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
    model_options,
    parse_names,
    parse_pairs,
    place_options,
    prices_option,
    responses_option,
    source_options,
    spark_option,
    stored_place_options,
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


@cli.command(epilog=EXAMPLES["drift"])
@click.argument("file")
@click.option("--accept", metavar="RUN", help="Compare later runs with this one and those after it alone.")
@stored_place_options
@json_option("comparison")
def drift(file: str, as_json: bool, **options: Any) -> int:
    """Compare the newest run's answers with earlier runs.

    Asks nothing. Shows per field how many rows of 100 changed their value, and by how many σ that is more than chance
    and the usual variation explain. The status is 3 for an alarm.
    """
    found = se.drift(se.load(file), **options)
    click.echo(found.to_json() if as_json else found.to_text(terminal.width(most=120)))
    return found.exit_status


@cli.command(epilog=EXAMPLES["distill"])
@click.argument("file")
@click.option("--field", metavar="FIELD", help="The field to decide: an enum or a boolean. Default: the only one.")
@click.option(
    "--agreement",
    metavar="SHARE",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="The agreement at which the share of decided rows is told.",
)
@click.option("--weights", metavar="PATH", help="The file to write. Default: FIELD.weights.parquet beside FILE.")
@stored_place_options
@json_option("measures")
def distill(file: str, as_json: bool, **options: Any) -> int:
    """Make a classifier of plain SQL from stored answers.

    Asks nothing. Fits it on the accepted answers and writes its weights; cascade: {distilled: ...} in the header uses
    them. A fifth of the answers measures it.
    """
    found = se.distill(se.load(file), **options)
    click.echo(found.to_json() if as_json else found.to_text())
    return 0


@cli.command(epilog=EXAMPLES["report"])
@click.argument("file")
@stored_place_options
@click.option("--page", metavar="PATH", help="Write one HTML page that works offline.")
@click.option("--rows", default=500, show_default=True, type=click.IntRange(0, 5000), help="The page's sampled rows.")
@click.option("--no-rows", "with_rows", is_flag=True, flag_value=False, default=True, help="No text of any row.")
@prices_option
@json_option("report")
def report(file: str, page: str | None, as_json: bool, **options: Any) -> None:
    """Show what is known of the answers.

    Runs, refusals, cost, accuracy, reviews.
    What is not measured says which command measures it. Asks no model.
    """
    found = se.report(se.load(file), page=page, **options)
    click.echo(found.to_json() if as_json else found.to_text(terminal.width(most=160)))
    if page is not None:
        click.echo(f"  -> {page}", err=True)


@cli.command(epilog=EXAMPLES["review"])
@click.argument("file")
@stored_place_options
@click.option("--sheet", metavar="PATH", help="Write what reviewers fill in: review.html (offline), or review.csv.")
@click.option(
    "--reviewers", metavar="A,B", callback=parse_names, help="A sheet each; a fifth of the rows is everybody's."
)
@click.option(
    "--rows", metavar="N", type=click.IntRange(1), help="How many answers. Default: the header's review.share."
)
@click.option("--run", metavar="ID", help="Only the rows of this run; last: of the newest one.")
@click.option("--seed", default=0, show_default=True, type=int, help="Each seed draws another sample.")
@click.option("--read", metavar="PATH", multiple=True, help="A file that a reviewer saved; may be repeated.")
@click.option("--truth", metavar="PATH", help="Append the judged rows of --input to this CSV of right values.")
@input_option
@json_option("review")
def review(file: str, input_: str | None, reviewers: tuple[str, ...] | None, as_json: bool, **options: Any) -> None:
    """Let people judge a sample of the answers.

    Writes sheets, reads them back, and prints which share of the whole table is wrong. Asks no model.
    """
    found = se.review(se.load(file), input=input_, reviewers=reviewers or (), **options)
    click.echo(found.to_json() if as_json else found.to_text(terminal.width(most=120)))


@cli.command(epilog=EXAMPLES["audit"])
@click.argument("file")
@stored_place_options
@click.option(
    "--row",
    metavar="COLUMN=VALUE",
    multiple=True,
    callback=parse_pairs,
    help="The trail of one row, by its key; once for each column of the key.",
)
@json_option("audit")
def audit(file: str, row: dict[str, str], as_json: bool, **options: Any) -> int:
    """Show what was asked and answered for a row, or check all rows.

    Rebuilds each request from what the run stored, reads each value again from its answer, and compares counts, tokens
    and cost with the ledger. Exit status 3 where something does not hold.
    """
    found = se.audit(se.load(file), row=row or None, **options)
    click.echo(found.to_json() if as_json else found.to_text())
    return found.exit_status


@cli.command(epilog=EXAMPLES["forget"])
@click.argument("file")
@click.option(
    "--output",
    metavar="PATH",
    multiple=True,
    help="What a run wrote: a .duckdb database, its files; may be repeated. A warehouse's schema.",
)
@click.option(
    "--row",
    metavar="COLUMN=VALUE",
    multiple=True,
    callback=parse_pairs,
    help="The rows of a key; once for each column of the key.",
)
@click.option("--where", metavar="SQL", help="The rows that meet a condition in the SQL of the place.")
@click.option("--before", metavar="DAY", help="The rows and answers whose last answer came before this day (UTC).")
@click.option("--dry-run", is_flag=True, help="Only count what would be forgotten.")
@place_options
@spark_option
@json_option("result")
def forget(file: str, output: tuple[str, ...], row: dict[str, str], as_json: bool, **options: Any) -> None:
    """Delete the texts of rows: prompts, kept columns, answers.

    From all tables of the database and from the files that its runs wrote. An answer that other rows share stays. The
    input is not changed.
    """
    found = se.forget(se.load(file), output=output or None, row=row or None, **options)
    click.echo(found.to_json() if as_json else found.to_text())
