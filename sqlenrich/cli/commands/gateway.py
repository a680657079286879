"""The command that serves: an OpenAI-compatible gateway that keeps each answer."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import click

import sqlenrich as se
from sqlenrich.ask.observer import NullObserver
from sqlenrich.cli import signals
from sqlenrich.cli.examples import EXAMPLES
from sqlenrich.cli.options import concurrency_option, json_option, prices_option
from sqlenrich.cli.root import cli
from sqlenrich.core.plurals import counted

if TYPE_CHECKING:
    from sqlenrich.gateway.gateway import Gateway


class _Notes(NullObserver):
    """Prints warnings to stderr."""

    def note(self, line: str) -> None:
        click.echo(line, err=True)


class _Serving:
    """A gateway that serves until a signal; a second one leaves out what is in flight."""

    asking = True

    def __init__(self, gateway: Gateway) -> None:
        self._gateway, self._stopped = gateway, threading.Event()

    def wait(self) -> None:
        self._stopped.wait()

    def stopping(self) -> str:
        return "waiting for what is in flight (again: without it)"

    def stop(self) -> None:
        if self._stopped.is_set():
            self._gateway.abandon()
        self._stopped.set()


@cli.command(epilog=EXAMPLES["gateway"])
@click.option("--output", metavar="PATH", required=True, help="The .duckdb database of the answers.")
@click.option("--endpoint", metavar="URL", help="The endpoint to ask, or one of sqlenrich.toml.")
@click.option("--port", default=8400, show_default=True, type=click.IntRange(0, 65_535), help="0: any free port.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Another address needs a token.")
@click.option(
    "--token-env",
    metavar="NAME",
    help="The variable with the token that callers send as their API key.  [default: SQLENRICH_GATEWAY_TOKEN]",
)
@click.option("--rpm", metavar="N", type=click.IntRange(1), help="The most requests a minute.")
@click.option("--tpm", metavar="N", type=click.IntRange(1), help="The most tokens a minute.")
@concurrency_option
@click.option("--max-cost", metavar="AMOUNT", type=click.FloatRange(0), help="Ask nothing more after this cost.")
@click.option(
    "--reuse",
    type=click.Choice(("all", "fixed")),
    default="all",
    show_default=True,
    help="fixed: only requests with temperature 0, with a seed, or for vectors get stored answers.",
)
@prices_option
@json_option("summary")
def gateway(token_env: str | None, as_json: bool, **options: Any) -> None:
    """Serve an OpenAI-compatible API that asks each request once.

    Give its URL to any tool as the base URL. Equal requests get the stored answer, also after a restart. Ends by Ctrl-C
    or SIGTERM, after the answers to the requests in flight.
    """
    from sqlenrich.gateway.gateway import token_of

    served = se.Gateway(**options, token=token_of(token_env), observer=_Notes())
    with served:
        click.echo(f"{served.url} asks {' and '.join(served.endpoint.urls)}", err=True)
        click.echo(f"  {counted(len(served.store), 'answer')} in {served.store.path}", err=True)
        serving = _Serving(served)
        signals.wait_for_answers(serving, lambda: False)
        serving.wait()
    click.echo(served.summary().to_json() if as_json else served.summary().to_text())
