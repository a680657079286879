"""The rows that people judge: drawn by strata, each request once, so that a larger sample contains a smaller one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.sql import literal
from sqlenrich.core.turn import shown_text
from sqlenrich.core.types import BOOLEAN
from sqlenrich.plan.sample import requests, sample
from sqlenrich.quality.answer_hash import answer_hash
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.store.store import ALL_RUNS, Store


@dataclass(frozen=True)
class SampledRow:
    """A request that is to be judged: its prompt, its answer, and the first row that it stands for."""

    request: str
    answer: str
    """The hash of the answer."""
    stratum: str
    rows: int
    key: Mapping[str, Any]
    values: Mapping[str, Any]
    prompt: str


@dataclass(frozen=True)
class ReviewSample:
    """The drawn requests in the order of their hashes, and what they were drawn from."""

    drawn: tuple[SampledRow, ...]
    run: str
    """The run of whose rows they were drawn; empty for all."""
    seed: int
    rows: int
    """The accepted rows."""
    strata: Mapping[str, int]
    """The accepted rows of each stratum; one stratum without ``review.by``."""


def requests_query(enrichment: Enrichment, stored: Store, run: str = ALL_RUNS) -> exp.Select:
    """Return the query of the accepted requests: the stratum and the rows of each. Raises ConfigError."""
    return requests(_stratified(enrichment), stored.engine, literal(run) if run != ALL_RUNS else None)


def _stratified(enrichment: Enrichment) -> Enrichment:
    """Return the enrichment. Raises ConfigError where ``review.by`` can't be a stratum."""
    by = enrichment.quality.review.by
    if by is not None:
        listed = enrichment.schema["properties"][by].get("enum")
        if listed is None and enrichment.readings[by] != BOOLEAN:
            raise ConfigError(f'{enrichment.place}: review.by names "{by}", which is neither an enum nor a boolean')
    return enrichment


def population_query(enrichment: Enrichment, stored: Store, run: str = ALL_RUNS) -> exp.Select:
    """Return the query of how many requests of each stratum have how many rows."""
    names = ("stratum", "request_rows")
    accepted = requests_query(enrichment, stored, run).subquery("accepted")
    return exp.select(*names, "COUNT(*) AS requests").from_(accepted).group_by(*names)


def population(enrichment: Enrichment, stored: Store, run: str = ALL_RUNS) -> dict[str, dict[int, int]]:
    """Return, for each stratum, the number of requests by the number of rows that share one."""
    found: dict[str, dict[int, int]] = {}
    for stratum, size, count in sorted(
        stored.rows(population_query(enrichment, stored, run)), key=lambda row: (row[0], row[1])
    ):
        found.setdefault(str(stratum), {})[int(size)] = int(count)
    return found


def draw_sample(
    enrichment: Enrichment, stored: Store, *, run: str = ALL_RUNS, rows: int | None = None, seed: int = 0
) -> ReviewSample:
    """Draw the requests to judge. Raises ConfigError where there are none, or where their prompts are gone."""
    sizes = {
        stratum: sum(size * count for size, count in sizes.items())
        for stratum, sizes in population(enrichment, stored, run).items()
    }
    total = sum(sizes.values())
    if not total:
        whose = f" of the run {run}" if run else ""
        raise ConfigError(f"{stored.output} has no accepted row of {stored.name}{whose}: nothing to review")
    of_run = literal(run) if run != ALL_RUNS else None
    query = sample(_stratified(enrichment), stored.engine, rows=rows, seed=seed, of_run=of_run)
    found = sorted(stored.rows(query), key=lambda row: (row[3], row[0]))
    drawn = [request for request, _, _, _ in found]
    prompts = _prompts(enrichment, stored, drawn)
    answers, keys = stored.answers(drawn), stored.shown_rows(drawn)
    return ReviewSample(
        tuple(
            SampledRow(
                request,
                answer_hash(answers[request]),
                str(stratum),
                int(size),
                keys[request],
                answers[request],
                prompts[request],
            )
            for request, stratum, size, _ in found
        ),
        run,
        seed,
        total,
        sizes,
    )


def _prompts(enrichment: Enrichment, stored: Store, requests: list[str]) -> dict[str, str]:
    """Return the prompt of each request. Raises ConfigError where they were not kept."""
    found = {request: shown_text(enrichment.turns, prompt) for request, prompt in stored.prompts(requests).items()}
    if missing := len(set(requests) - set(found)):
        why = (
            "keep_prompts is false"
            if not enrichment.keep_prompts
            else f"the table {stored.table('prompts')} lacks {missing:,} of {len(requests):,}"
        )
        raise ConfigError(
            f"{stored.output}: the prompts to show are not stored ({why}): run it again with keep_prompts: true, "
            "which asks nothing again"
        )
    return found
