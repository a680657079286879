"""The commands that follow a run with refused rows, as a shell takes them: they name what the run named."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlenrich.ask.model_choice import WantedModel
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.runner.place import Output
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.prices import Prices

Flags = tuple[str, ...]


def _value(flag: str) -> Callable[[Any], Flags]:
    return lambda value: () if value is None else (flag, str(value))


def _switch(flag: str, when: bool) -> Callable[[Any], Flags]:
    return lambda value: (flag,) if value is when else ()


_FLAGS: Mapping[str, Callable[[Any], Flags]] = {
    "target": _value("--target"),
    "engine": _value("--engine"),
    "profile": _value("--profile"),
    "connection": _value("--connection"),
    "spark": _value("--spark"),
    "chunk_rows": _value("--chunk-rows"),
    "concurrency": _value("--concurrency"),
    "prices": _value("--prices"),
    "prefix_order": _switch("--no-prefix-order", when=False),
}
"""The options of a run that its retry takes, too: caps are not among them, which would end it."""


def next_commands(
    enrichment: Enrichment, output: Output | None, wanted: WantedModel, options: Mapping[str, Any]
) -> tuple[Flags, ...]:
    """Return the arguments of ``show``, less the output where none is named, and of ``retry``.

    ``options`` are the keywords of the run. None are given for what a command line can't say: a backend, a session, an
    endpoint whose URL has a secret.
    """
    outputs = _outputs(output)
    model = _model(enrichment, wanted, options)
    spark, prices = options.get("spark"), options.get("prices")
    named = any(options.get(name) for name in ("target", "engine", "spark"))
    unsaid = (spark is not None and not isinstance(spark, str)) or isinstance(prices, Prices)
    if outputs is None or model is None or unsaid or not (outputs or named):
        return ()
    file = str(enrichment.path or enrichment.name)
    place = tuple(part for one in outputs for part in ("--output", one))
    flags = tuple(part for name, flag in _FLAGS.items() for part in flag(options.get(name)))
    return ("show", enrichment.name, "--quarantine", *place[:2]), ("retry", file, *place, *model, *flags)


def _outputs(output: Output | None) -> Flags | None:
    """Return the outputs as they were written; None for a backend."""
    if output is None:
        return ()
    if isinstance(output, str | Path):
        return (str(output),)
    return tuple(map(str, output)) if isinstance(output, Sequence) else None


def _model(enrichment: Enrichment, wanted: WantedModel, options: Mapping[str, Any]) -> Flags | None:
    if wanted.mock is not None:
        return ("--mock",)
    if wanted.local is not None:  # no command has it
        return None
    from sqlenrich.llm.endpoint.urls import shown_url

    flags: Flags = ()
    endpoint = wanted.endpoint
    if isinstance(endpoint, Endpoint):
        if endpoint.others or shown_url(endpoint.url) != endpoint.url.rstrip("/"):
            return None
        flags = ("--endpoint", endpoint.url)
    elif endpoint is not None and (name := options.get("endpoint")) is not None:
        flags = ("--endpoint", name)
    # The file's own model for a retry comes first.
    return (*flags, "--model", wanted.name) if wanted.name is not None and enrichment.escalate is None else flags
