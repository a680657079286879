"""The rows that people judge: drawn by strata, each request once, so that a larger sample contains a smaller one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.turn import shown_text
from sqlenrich.core.types import BOOLEAN
from sqlenrich.quality.review.proportion import allocation
from sqlenrich.quality.stored import ALL_RUNS, NULL_STRATUM, Stored, answer_hash

LEAST_ROWS, MOST_ROWS = 50, 500
"""The bounds of a sample whose size the header gives as a share."""
LEAST_OF_STRATUM = 5


@dataclass(frozen=True)
class SampledRow:
    """A request that is to be judged: its prompt, its answer, and the first row that it stands for."""

    request: str
    answer: str
    """The hash of the answer."""
    stratum: str | None
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
    strata: Mapping[str | None, int]
    """The accepted rows of each stratum; one stratum None without ``review.by``."""


def stratum_sql(stored: Stored) -> str:
    """Give the SQL of a row's stratum, a text; NULL for all rows without ``review.by``. Raises ConfigError."""
    by = stored.enrichment.quality.review.by
    if by is None:
        return "CAST(NULL AS VARCHAR)"
    listed = stored.enrichment.schema["properties"][by].get("enum")
    if listed is None and stored.enrichment.readings[by] != BOOLEAN:
        raise ConfigError(f'{stored.enrichment.place}: review.by names "{by}", which is neither an enum nor a boolean')
    return f"COALESCE(CAST({stored.quoted(by)} AS VARCHAR), '{NULL_STRATUM}')"


def requests_sql(stored: Stored, run: str = ALL_RUNS) -> str:
    """Give the SELECT of the accepted requests: the stratum and the rows of each."""
    return (
        f"SELECT _request_hash AS request, MIN({stratum_sql(stored)}) AS stratum, COUNT(*) AS size "
        f"FROM {stored.table('enriched')}{stored.accepted(run)} GROUP BY 1"
    )


def population_sql(stored: Stored, run: str = ALL_RUNS) -> str:
    """Give the SELECT of how many requests of each stratum have how many rows."""
    return (
        f"SELECT stratum, size, COUNT(*) AS requests FROM ({requests_sql(stored, run)}) AS accepted "
        "GROUP BY ALL ORDER BY ALL"
    )


def population(stored: Stored, run: str = ALL_RUNS) -> dict[str | None, dict[int, int]]:
    """Give, for each stratum, the number of requests by the number of rows that share one."""
    found: dict[str | None, dict[int, int]] = {}
    for stratum, size, requests in stored.rows(population_sql(stored, run)):
        found.setdefault(stratum, {})[int(size)] = int(requests)
    return found


def sample_sql(stored: Stored, run: str, seed: int, taken: Mapping[str | None, int]) -> str:
    """Give the SELECT of the drawn requests: of each stratum those with the smallest hashes.

    The hash of seed and request is a number from 0 to 1, divided by the rows of the request: a request of ten rows is
    drawn ten times as likely (sequential Poisson sampling).
    """
    from sqlenrich.runner.backends.duckdb.database import text

    digits = f"CAST('0x' || SUBSTR(MD5({text(f'{seed}:')} || request), 1, 13) AS BIGINT)"
    places = " ".join(f"WHEN {text(name)} THEN {count}" for name, count in taken.items() if name is not None)
    most = f"CASE stratum {places} END" if places else str(taken.get(None, 0))
    return (
        f"SELECT request, stratum, size FROM (SELECT *, {digits} / POWER(2, 52) / size AS hash "
        f"FROM ({requests_sql(stored, run)}) AS accepted) AS hashed "
        f"QUALIFY ROW_NUMBER() OVER (PARTITION BY stratum ORDER BY hash, request) <= {most} ORDER BY hash, request"
    )


def draw_sample(stored: Stored, *, run: str = ALL_RUNS, rows: int | None = None, seed: int = 0) -> ReviewSample:
    """Draw the requests to judge. Raises ConfigError where there are none, or where their prompts are gone."""
    name = stored.enrichment.name
    sizes = {
        stratum: sum(size * count for size, count in sizes.items())
        for stratum, sizes in population(stored, run).items()
    }
    total = sum(sizes.values())
    if not total:
        of_run = f" of the run {run}" if run else ""
        raise ConfigError(f"{stored.place} has no accepted row of {name}{of_run}: nothing to review")
    wanted = rows or min(MOST_ROWS, max(LEAST_ROWS, round(stored.enrichment.quality.review.share * total)))
    least = min(LEAST_OF_STRATUM, max(1, wanted // len(sizes)))
    found = stored.rows(sample_sql(stored, run, seed, allocation(sizes, wanted, least)))
    requests = [request for request, _, _ in found]
    prompts = _prompts(stored, requests)
    answers, keys = stored.answers(requests), _keys(stored, requests)
    drawn = (
        SampledRow(
            request,
            answer_hash(answers[request]),
            stratum,
            int(size),
            keys[request],
            answers[request],
            prompts[request],
        )
        for request, stratum, size in found
    )
    return ReviewSample(tuple(drawn), run, seed, total, sizes)


def _prompts(stored: Stored, requests: list[str]) -> dict[str, str]:
    """Give the prompt of each request. Raises ConfigError where they were not kept."""
    table = stored.table_name("prompts")
    found: dict[str, str] = {}
    if table in stored.tables:
        sql = (
            f"SELECT request_hash, ANY_VALUE(prompt) FROM {stored.quoted(table)} WHERE prompt IS NOT NULL "
            "AND request_hash IN (SELECT UNNEST(?::VARCHAR[])) GROUP BY 1"
        )
        turns = stored.enrichment.turns
        found = {str(request): shown_text(turns, str(prompt)) for request, prompt in stored.rows(sql, [requests])}
    if missing := len(set(requests) - set(found)):
        why = (
            "keep_prompts is false"
            if not stored.enrichment.keep_prompts
            else f"the table {table} lacks {missing:,} of {len(requests):,}"
        )
        raise ConfigError(
            f"{stored.place}: the prompts to show are not stored ({why}): run it again with keep_prompts: true, "
            "which asks nothing again"
        )
    return found


def _keys(stored: Stored, requests: list[str]) -> dict[str, dict[str, Any]]:
    """Give the key and the kept columns of the first row of each request."""
    from sqlenrich.runner.backends.duckdb.database import text

    pairs = ", ".join(f"{text(name)}, {stored.quoted(name)}" for name in stored.shown_columns)
    sql = (
        f"SELECT _request_hash, MIN(CAST(json_object({pairs}) AS VARCHAR)) FROM {stored.table('enriched')} "
        "WHERE _request_hash IN (SELECT UNNEST(?::VARCHAR[])) GROUP BY 1"
    )
    return {str(request): json.loads(key) for request, key in stored.rows(sql, [requests])}
