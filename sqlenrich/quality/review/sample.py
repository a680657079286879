"""The rows that people judge: drawn by strata, each request once, so that a larger sample contains a smaller one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.sql import literal
from sqlenrich.core.turn import shown_text
from sqlenrich.core.types import BOOLEAN
from sqlenrich.plan.sample import requests, sample
from sqlenrich.quality.stored_output import ALL_RUNS, StoredOutput, answer_hash
from sqlenrich.spec.enrichment import Enrichment


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


def requests_sql(stored: StoredOutput, run: str = ALL_RUNS) -> str:
    """Give the SELECT of the accepted requests: the stratum and the rows of each. Raises ConfigError."""
    engine = stored.relations.engine
    return stored.relations.sql(requests(_stratified(stored), engine, literal(run) if run != ALL_RUNS else None))


def _stratified(stored: StoredOutput) -> Enrichment:
    """Give the enrichment. Raises ConfigError where ``review.by`` can't be a stratum."""
    enrichment = stored.enrichment
    by = enrichment.quality.review.by
    if by is not None:
        listed = enrichment.schema["properties"][by].get("enum")
        if listed is None and enrichment.readings[by] != BOOLEAN:
            raise ConfigError(f'{enrichment.place}: review.by names "{by}", which is neither an enum nor a boolean')
    return enrichment


def population_sql(stored: StoredOutput, run: str = ALL_RUNS) -> str:
    """Give the SELECT of how many requests of each stratum have how many rows."""
    return (
        "SELECT stratum, request_rows, COUNT(*) AS requests\n"
        f"FROM ({requests_sql(stored, run)}) AS accepted GROUP BY ALL ORDER BY ALL"
    )


def population(stored: StoredOutput, run: str = ALL_RUNS) -> dict[str, dict[int, int]]:
    """Give, for each stratum, the number of requests by the number of rows that share one."""
    found: dict[str, dict[int, int]] = {}
    for stratum, size, count in stored.rows(population_sql(stored, run)):
        found.setdefault(str(stratum), {})[int(size)] = int(count)
    return found


def draw_sample(stored: StoredOutput, *, run: str = ALL_RUNS, rows: int | None = None, seed: int = 0) -> ReviewSample:
    """Draw the requests to judge. Raises ConfigError where there are none, or where their prompts are gone."""
    name = stored.enrichment.name
    sizes = {
        stratum: sum(size * count for size, count in sizes.items())
        for stratum, sizes in population(stored, run).items()
    }
    total = sum(sizes.values())
    if not total:
        whose = f" of the run {run}" if run else ""
        raise ConfigError(f"{stored.output} has no accepted row of {name}{whose}: nothing to review")
    of_run = literal(run) if run != ALL_RUNS else None
    query = sample(_stratified(stored), stored.relations.engine, rows=rows, seed=seed, of_run=of_run)
    found = sorted(stored.rows(stored.relations.sql(query)), key=lambda row: (row[3], row[0]))
    drawn = [request for request, _, _, _ in found]
    prompts = _prompts(stored, drawn)
    answers, keys = stored.answers(drawn), _keys(stored, drawn)
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


def _prompts(stored: StoredOutput, requests: list[str]) -> dict[str, str]:
    """Give the prompt of each request. Raises ConfigError where they were not kept."""
    found: dict[str, str] = {}
    if table := stored.tables.get("prompts"):
        sql = (
            f"SELECT request_hash, ANY_VALUE(prompt) FROM {table} WHERE prompt IS NOT NULL "
            "AND request_hash IN (SELECT UNNEST(?::VARCHAR[])) GROUP BY 1"
        )
        turns = stored.enrichment.turns
        found = {str(request): shown_text(turns, str(prompt)) for request, prompt in stored.rows(sql, requests)}
    if missing := len(set(requests) - set(found)):
        why = (
            "keep_prompts is false"
            if not stored.enrichment.keep_prompts
            else f"the table {stored.table('prompts')} lacks {missing:,} of {len(requests):,}"
        )
        raise ConfigError(
            f"{stored.output}: the prompts to show are not stored ({why}): run it again with keep_prompts: true, "
            "which asks nothing again"
        )
    return found


def _keys(stored: StoredOutput, requests: list[str]) -> dict[str, dict[str, Any]]:
    """Give the key and the kept columns of the first row of each request."""
    from sqlenrich.store.duckdb.database import text

    pairs = ", ".join(f"{text(name)}, {stored.quoted(name)}" for name in stored.shown_columns)
    sql = (
        f"SELECT _request_hash, MIN(CAST(json_object({pairs}) AS VARCHAR)) FROM {stored.table('enriched')} "
        "WHERE _request_hash IN (SELECT UNNEST(?::VARCHAR[])) GROUP BY 1"
    )
    return {str(request): json.loads(key) for request, key in stored.rows(sql, requests)}
