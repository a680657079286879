"""The accepted requests that people judge: one SELECT for every engine, which draws the same ones everywhere.

docs/quality.md has each formula and its source.
"""

from __future__ import annotations

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.sql import Sql, case, cast, concat, double, literal
from sqlenrich.core.types import BOOLEAN, STRING
from sqlenrich.plan.query_template import filled_query
from sqlenrich.plan.references import References
from sqlenrich.plan.relations import symbol
from sqlenrich.spec.enrichment import Enrichment

LEAST_ROWS, MOST_ROWS = 50, 500
"""The bounds of a sample whose size the header gives as a share."""
LEAST_OF_STRATUM = 5
HEX_DIGITS = 13
"""The digits of a hash that are read as a number: a double holds it exactly."""
NULL_STRATUM, ALL_ROWS = "(none)", "(all)"
"""The stratum of NULL, and that of all rows without ``review.by``."""
COLUMNS = ("request_hash", "stratum", "request_rows", "draw")
"""What the SELECT gives: the request, its stratum, the accepted rows that share it, and the number by which it was
drawn: those with smaller ones are in each smaller sample too."""

_WITH_REQUESTS = """
WITH requests AS (
  SELECT request_hash, MIN(stratum) AS stratum, COUNT(*) AS request_rows FROM accepted_rows GROUP BY request_hash
)"""
_REQUESTS = f"{_WITH_REQUESTS} SELECT request_hash, stratum, request_rows FROM requests"
_SAMPLE = f"""{_WITH_REQUESTS}, drawn AS (
  SELECT request_hash, stratum, request_rows, CAST(HASHED AS DOUBLE) / HASHES / request_rows AS draw FROM requests
), placed AS (
  SELECT request_hash, stratum, request_rows, draw,
    ROW_NUMBER() OVER (PARTITION BY stratum ORDER BY draw, request_hash) AS place
  FROM drawn
), counted AS (
  SELECT stratum, SUM(CAST(request_rows AS DOUBLE)) AS stratum_rows FROM requests GROUP BY stratum
), totals AS (
  SELECT stratum, stratum_rows, SUM(stratum_rows) OVER () AS all_rows, COUNT(*) OVER () AS strata FROM counted
), sizes AS (
  SELECT stratum, stratum_rows, all_rows, strata, WANTED AS wanted FROM totals
)
SELECT p.request_hash, p.stratum, p.request_rows, p.draw
FROM placed AS p JOIN sizes AS s ON s.stratum = p.stratum
WHERE p.place = 1 OR (p.place <= LEAST_OF AND p.place * s.strata <= s.wanted)
  OR (p.place - 1) * s.all_rows < s.wanted * s.stratum_rows
"""


def requests(enrichment: Enrichment, engine: Engine, of_run: Sql | None = None) -> exp.Select:
    """Return the SELECT of the accepted requests: ``request_hash``, ``stratum``, ``request_rows``.

    ``of_run`` is the id of a run whose answers they are; None: of any.
    """
    return filled_query(engine, _REQUESTS, {}, "accepted_rows", _accepted(enrichment, engine, of_run))


def sample(
    enrichment: Enrichment, engine: Engine, *, rows: int | None = None, seed: int = 0, of_run: Sql | None = None
) -> exp.Select:
    """Return the SELECT of the requests to judge, with the columns of COLUMNS.

    Of each stratum those are drawn whose hash of ``seed`` and request, a number from 0 to 1 divided by the rows of the
    request, is smallest. ``rows`` is the size in place of the header's share.
    """
    hashed = engine.sha256(concat(literal(f"{seed}:"), exp.column("request_hash")))
    share = exp.Mul(this=exp.column("all_rows"), expression=double(enrichment.quality.review.share))
    bounded = case(
        (exp.LT(this=share, expression=literal(LEAST_ROWS)), double(float(LEAST_ROWS))),
        (exp.GT(this=share.copy(), expression=literal(MOST_ROWS)), double(float(MOST_ROWS))),
        default=share.copy(),
    )
    places = {
        "HASHED": engine.hex_number(engine.text.substr(hashed, literal(1), literal(HEX_DIGITS))),
        "HASHES": double(16.0**HEX_DIGITS),
        "WANTED": bounded if rows is None else double(float(rows)),
        "LEAST_OF": literal(LEAST_OF_STRATUM),
    }
    return filled_query(engine, _SAMPLE, places, "accepted_rows", _accepted(enrichment, engine, of_run))


def _accepted(enrichment: Enrichment, engine: Engine, of_run: Sql | None) -> exp.Select:
    """Return the SELECT of the request and the stratum of each accepted row."""
    names = References(engine)
    columns = (
        exp.alias_(names.col("_request_hash"), "request_hash"),
        exp.alias_(_stratum(enrichment, engine), "stratum"),
    )
    rows = exp.select(*columns, copy=False).from_(symbol("enriched"), copy=False)
    if of_run is None:
        return rows
    asked = exp.select(names.col("request_hash"), copy=False).from_(symbol("responses"), copy=False)
    asked = asked.where(exp.EQ(this=names.col("run_id"), expression=of_run), copy=False)
    return rows.where(exp.In(this=names.col("_request_hash"), query=asked.subquery(copy=False)), copy=False)


def _stratum(enrichment: Enrichment, engine: Engine) -> Sql:
    """Return the stratum of an accepted row as a text, never NULL."""
    by = enrichment.quality.review.by
    if by is None:
        return literal(ALL_ROWS)
    value = References(engine).col(by)
    if enrichment.readings[by] == BOOLEAN:
        missing = (exp.Is(this=value.copy(), expression=exp.Null()), literal(NULL_STRATUM))
        return case(missing, (value, literal("true")), default=literal("false"))
    return exp.Coalesce(this=cast(value, engine.sql_type(STRING)), expressions=[literal(NULL_STRATUM)])
