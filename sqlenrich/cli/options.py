"""The options that several commands share, and how their values are parsed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from sqlenrich.spec.run_settings import STOP_AFTER_REFUSED

F = TypeVar("F", bound=Callable[..., Any])
_EXAMPLES = {"columns": 'body="Message Text"', "truth": "intent=category", "row": "id=17"}


def parse_shares(_: click.Context, __: click.Parameter, value: str | None) -> dict[str, float]:
    """Parse KIND=SHARE,... . Raises BadParameter."""
    shares: dict[str, float] = {}
    for part in filter(None, (value or "").split(",")):
        kind, _equals, share = part.partition("=")
        try:
            shares[kind.strip()] = float(share)
        except ValueError:
            raise click.BadParameter(f'"{part}": write kind=share, e.g. bad_json=0.05') from None
    return shares


def parse_pairs(_: click.Context, option: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    """Parse a repeatable NAME=SOURCE. Raises BadParameter."""
    pairs: dict[str, str] = {}
    for part in value:
        name, equals, source = part.partition("=")
        if not equals or not name or not source:
            raise click.BadParameter(f'"{part}": write {option.metavar}, e.g. {_EXAMPLES[str(option.name)]}')
        pairs[name] = source
    return pairs


def parse_names(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Parse A,B,C. None stays None."""
    return None if value is None else tuple(name.strip() for name in value.split(",") if name.strip())


def _all(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return one decorator that adds several options, in this order."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


encoding_option = click.option(
    "--encoding", metavar="NAME", help="The encoding of text files that are not UTF-8: cp1252, utf-16."
)
input_option = _all(
    click.option(
        "--input",
        "input_",
        metavar="PATH",
        help="CSV, TSV, JSON lines, Parquet: a file, 'a*.csv', a folder, a URL, - for stdin; a .duckdb, .duckdb#TABLE; "
        "a warehouse's table.",
    ),
    encoding_option,
)
outputs_option = click.option(
    "--output",
    "outputs",
    metavar="PATH",
    multiple=True,
    help="A .duckdb database, a .csv, .parquet or .jsonl file, - for stdout; may be repeated. A warehouse's schema.",
)
result_options = _all(
    click.option("--quarantine", is_flag=True, help="The refused rows with their reasons, not the accepted ones."),
    click.option("--columns", metavar="C1,C2", callback=parse_names, help="Only these columns."),
    click.option("--where", metavar="SQL", help="Only these rows, by a condition in the SQL of the place."),
)
place_options = _all(
    click.option("--engine", metavar="E", help="On this engine: databricks, snowflake, bigquery or spark."),
    click.option("--profile", metavar="P[:T]", help="With --engine: a profile of dbt's profiles.yml and its target."),
    click.option("--connection", metavar="NAME", help="With --engine: a connection of the vendor's own file."),
    click.option("--target", metavar="NAME", help="A target of sqlenrich.toml."),
)
spark_option = click.option(
    "--spark", metavar="MASTER", help="On Spark: local[4], spark://host:7077, yarn, k8s://... or a target's own."
)
stored_place_options = _all(
    click.option("--output", metavar="PATH", help="What a run wrote: a .duckdb, a file; a warehouse's schema."),
    place_options,
    spark_option,
)
"""Where the results of runs are, on every engine."""
warehouse_options = _all(
    click.option("--chunk-rows", metavar="N", type=click.IntRange(1), help="The requests of a warehouse's statement."),
    click.option(
        "--take-over", is_flag=True, help="Take the tables from the run that holds them, and cancel its statement."
    ),
)
model_option = click.option("--model", metavar="M", help="The model's name, or an alias of sqlenrich.toml.")
concurrency_option = click.option(
    "--concurrency", metavar="N", type=click.IntRange(1, 10_000), help="The maximum number of requests in flight."
)
responses_option = click.option(
    "--responses", metavar="NAME", help="The table of the answers. Enrichments can share one."
)
prices_option = click.option("--prices", metavar="PATH", help="A file of prices, or genai-prices.")
yes_option = click.option("--yes", is_flag=True, help="Don't ask before the first call.")


joining_options = _all(
    click.option("--incremental", is_flag=True, help="Replace the rows of the same key; keep all others."),
    click.option(
        "--publish-partial",
        is_flag=True,
        help="Replace complete results of an earlier run although this one ends early.",
    ),
    click.option("--replace", is_flag=True, help="Take over the tables of another prompt file of this name."),
)


batch_options = _all(
    click.option("--batch", is_flag=True, help="Ask by the vendor's Batch API: half the price, answers within a day."),
    click.option(
        "--no-wait",
        "wait",
        is_flag=True,
        flag_value=False,
        default=True,
        help="With --batch: end once the batches are sent; the same command collects them.",
    ),
)
log_option = click.option(
    "--log",
    type=click.Choice(("text", "json")),
    default="text",
    help="Progress on stderr as text, or as JSON: one line an event.",
)


def json_option(what: str) -> Callable[[F], F]:
    """Return ``--json``, where ``what`` is printed."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print the {what} as JSON.")


mock_options = _all(
    click.option("--mock", is_flag=True, help="Use the mock model: free invented answers that fit the schema."),
    click.option(
        "--mock-failures",
        metavar="KIND=SHARE,...",
        callback=parse_shares,
        help="With --mock: bad_json, missing_field, error, refusal, truncation, each with a share from 0 to 1.",
    ),
)
model_options = _all(
    click.option("--endpoint", metavar="URL", help="An OpenAI-compatible endpoint, or one of sqlenrich.toml."),
    model_option,
    mock_options,
)
cap_options = _all(
    click.option(
        "--max-rows",
        "--limit",
        metavar="N",
        type=click.IntRange(0),
        help="Stop after this number of distinct requests.",
    ),
    click.option(
        "--max-calls", metavar="N", type=click.IntRange(0), help="Stop after this number of calls, retries included."
    ),
    click.option(
        "--max-cost", metavar="AMOUNT", type=click.FloatRange(0), help="Stop before this cost, by the given prices."
    ),
)
refused_option = click.option(
    "--stop-after-refused",
    metavar="N",
    type=click.IntRange(0),
    help=f"Stop where the first N answers are all refused; 0 never.  [default: {STOP_AFTER_REFUSED}]",
)
prefix_order_option = click.option(
    "--no-prefix-order",
    "prefix_order",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Don't send requests with an equal beginning one after another.",
)
source_options = _all(
    click.option("--key", metavar="C1,C2", callback=parse_names, help="The columns that identify a row."),
    click.option(
        "--column",
        "columns",
        metavar="NAME=SOURCE",
        multiple=True,
        callback=parse_pairs,
        help='A column of the prompt and its name in the source: body="Message Text".',
    ),
    click.option("--where", metavar="SQL", help="Which rows to take."),
)
