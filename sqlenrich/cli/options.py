"""The options that several commands share, and how their values are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
_EXAMPLES = {"columns": 'body="Message Text"', "truth": "intent=category"}


def shares(_: click.Context, __: click.Parameter, value: str | None) -> dict[str, float]:
    """Read KIND=SHARE,... . Raises BadParameter."""
    read: dict[str, float] = {}
    for part in filter(None, (value or "").split(",")):
        kind, _equals, share = part.partition("=")
        try:
            read[kind.strip()] = float(share)
        except ValueError:
            raise click.BadParameter(f'"{part}": write kind=share, e.g. bad_json=0.05') from None
    return read


def pairs(_: click.Context, option: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    """Read NAME=SOURCE, given as often as you like. Raises BadParameter."""
    read: dict[str, str] = {}
    for part in value:
        name, equals, source = part.partition("=")
        if not equals or not name or not source:
            raise click.BadParameter(f'"{part}": write {option.metavar}, e.g. {_EXAMPLES[str(option.name)]}')
        read[name] = source
    return read


def names(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Read A,B,C; None stays None."""
    return None if value is None else tuple(name.strip() for name in value.split(",") if name.strip())


def model_options(function: F) -> F:
    """The three ways to name a model, shared by the commands that ask one."""
    for option in reversed(
        (
            click.option("--endpoint", metavar="URL", help="An OpenAI-compatible endpoint, or one of sqlenrich.toml."),
            click.option("--model", metavar="M", help="The model's name, or an alias of sqlenrich.toml."),
            click.option("--mock", is_flag=True, help="Free invented answers that fit the schema."),
            click.option(
                "--mock-failures",
                metavar="KIND=SHARE,...",
                callback=shares,
                help="With --mock: bad_json, missing_field, error, refusal, truncation, each with a share from 0 to 1.",
            ),
        )
    ):
        function = option(function)
    return function


def cap_options(function: F) -> F:
    """Where a run ends early; the same command goes on later."""
    for option in reversed(
        (
            click.option("--max-rows", metavar="N", type=click.IntRange(0),
                         help="Ask at most so many distinct requests, then stop."),
            click.option("--max-calls", metavar="N", type=click.IntRange(0),
                         help="Send at most so many requests, retries included, then stop."),
            click.option("--max-cost", metavar="AMOUNT", type=click.FloatRange(0),
                         help="Spend at most so much by the prices given, then stop."),
            click.option("--no-prefix-order", "prefix_order", is_flag=True, flag_value=False, default=True,
                         help="Don't send requests with an equal beginning one after another."),
        )
    ):  # fmt: skip
        function = option(function)
    return function


def source_options(function: F) -> F:
    """What changes the header's view of the source."""
    for option in reversed(
        (
            click.option("--key", metavar="C1,C2", callback=names, help="The columns that name a row."),
            click.option("--column", "columns", metavar="NAME=SOURCE", multiple=True, callback=pairs,
                         help='A column of the prompt and its name in the source: body="Message Text".'),
            click.option("--where", metavar="SQL", help="Which rows to take."),
        )
    ):  # fmt: skip
        function = option(function)
    return function


def prices_option(function: F) -> F:
    """The file of prices."""
    return click.option("--prices", metavar="PATH", help="A file of prices, for the cost.")(function)
