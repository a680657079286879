"""How far the answers of the newest run have moved from those of earlier runs: one SELECT over ``NAME_profiles``.

docs/quality.md has each formula and its source.
"""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

import sqlglot
from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.names import identifier
from sqlenrich.core.sql import Sql, cast, double, literal
from sqlenrich.core.types import DOUBLE
from sqlenrich.plan.profiles import PROFILES, VERDICT
from sqlenrich.plan.references import References
from sqlenrich.plan.relations import symbol
from sqlenrich.spec.quality import DriftSettings

MARKS = "_drift"
"""The field of the lines of NAME_profiles that say what was told of a run: the level is ALARM or ACCEPTED."""
ALARM, ACCEPTED = "alarm", "accepted"
EARLIER_WINDOWS = 30
"""The most earlier windows: a run, or several small ones."""
WINDOW_ROWS = 200
"""Runs of fewer rows are joined."""
RARE_SHARE, RARE_ROWS = 0.01, 5
"""Levels of a smaller share, or with fewer expected rows in the newest window, are pooled."""
USUAL_VARIATION, USUAL_RUNS = 0.0025, 4
"""The overdispersion that is assumed, and the number of runs that it counts as."""
TOGETHER = 2 / 3
"""The levels of a field vary together: n degrees of freedom between them count as this power of n."""
COLUMNS = ("run", "field", "new_rows", "old_rows", "windows", "levels", "moved", "sigma", "is_alarm")
"""What the SELECT gives: the newest run; of a field the rows of the newest window and of the earlier ones, the number
of these, the levels that are compared, the share of rows that changed their level, the score, and whether that is an
alarm (0 or 1)."""

_RANKED = """
WITH sums AS (
  SELECT run_name, MAX(begun) AS begun,
    MAX(CASE WHEN fld = MARKS AND lvl = ACCEPTED THEN 1 ELSE 0 END) AS is_accepted,
    MAX(CASE WHEN fld = MARKS AND lvl = ALARM THEN 1 ELSE 0 END) AS is_alarm,
    SUM(CASE WHEN fld = VERDICT THEN cnt ELSE 0E0 END) AS total
  FROM lines GROUP BY run_name
), ranked AS (
  SELECT run_name, begun, is_accepted, is_alarm, total,
    ROW_NUMBER() OVER (ORDER BY begun DESC, run_name DESC) AS place
  FROM sums WHERE total > 0
)
"""
_RUNS = f"{_RANKED} SELECT run_name, total, is_accepted, is_alarm FROM ranked ORDER BY place"
_STATISTICS = (
    _RANKED
    + """, base AS (
  SELECT MAX(CASE WHEN is_accepted = 1 THEN begun END) AS begun FROM ranked
), usable AS (
  SELECT ranked.run_name AS run_name, ranked.place AS place, ranked.total AS total,
    CASE WHEN ranked.total < WINDOW_ROWS THEN ranked.total ELSE 0E0 END AS small_rows
  FROM ranked CROSS JOIN base
  WHERE ranked.place = 1 OR (
    (base.begun IS NULL OR ranked.begun >= base.begun) AND (ranked.is_accepted = 1 OR ranked.is_alarm = 0)
  )
), placed AS (
  SELECT run_name, place, total, small_rows, SUM(small_rows) OVER (ORDER BY place) AS upto FROM usable
), joined AS (
  SELECT run_name, place,
    CASE WHEN total < WINDOW_ROWS THEN -1E0 - FLOOR((upto - small_rows) / WINDOW_ROWS) ELSE CAST(place AS DOUBLE) END
      AS win
  FROM placed
), wins AS (
  SELECT win, ROW_NUMBER() OVER (ORDER BY first_place) AS nth
  FROM (SELECT win, MIN(place) AS first_place FROM joined GROUP BY win) AS firsts
), chosen AS (
  SELECT joined.run_name AS run_name, wins.nth AS nth
  FROM joined JOIN wins ON joined.win = wins.win WHERE wins.nth <= WINDOWS
), counts AS (
  SELECT chosen.nth AS nth, lines.fld AS fld, lines.lvl AS lvl, SUM(lines.cnt) AS cnt
  FROM lines JOIN chosen ON lines.run_name = chosen.run_name
  WHERE lines.fld <> MARKS GROUP BY chosen.nth, lines.fld, lines.lvl
), sizes AS (
  SELECT nth, fld, SUM(cnt) AS size FROM counts GROUP BY nth, fld
), fields AS (
  SELECT fld,
    SUM(CASE WHEN nth = 1 THEN size ELSE 0E0 END) AS new_rows,
    SUM(CASE WHEN nth > 1 THEN size ELSE 0E0 END) AS old_rows,
    SUM(CASE WHEN nth > 1 THEN size * size ELSE 0E0 END) AS old_squares,
    SUM(CASE WHEN nth > 1 THEN 1E0 ELSE 0E0 END) AS windows
  FROM sizes GROUP BY fld
), levels AS (
  SELECT fld, lvl, SUM(CASE WHEN nth > 1 THEN cnt ELSE 0E0 END) AS old_cnt FROM counts GROUP BY fld, lvl
), pools AS (
  SELECT levels.fld AS fld, levels.lvl AS lvl,
    CASE WHEN levels.old_cnt < RARE_SHARE * fields.old_rows
      OR levels.old_cnt * fields.new_rows < RARE_ROWS * fields.old_rows THEN 1 ELSE 0 END AS is_pooled
  FROM levels JOIN fields ON levels.fld = fields.fld WHERE fields.new_rows > 0 AND fields.old_rows > 0
), cells AS (
  SELECT counts.nth AS nth, counts.fld AS fld, pools.is_pooled AS is_pooled,
    CASE WHEN pools.is_pooled = 1 THEN '' ELSE counts.lvl END AS lvl, SUM(counts.cnt) AS cnt
  FROM counts JOIN pools ON counts.fld = pools.fld AND counts.lvl = pools.lvl
  GROUP BY counts.nth, counts.fld, pools.is_pooled, CASE WHEN pools.is_pooled = 1 THEN '' ELSE counts.lvl END
), parts AS (
  SELECT cells.fld AS fld, cells.is_pooled AS is_pooled, cells.lvl AS lvl,
    SUM(CASE WHEN cells.nth = 1 THEN cells.cnt ELSE 0E0 END) AS new_cnt,
    SUM(CASE WHEN cells.nth > 1 THEN cells.cnt ELSE 0E0 END) AS old_cnt,
    SUM(CASE WHEN cells.nth > 1 THEN cells.cnt * cells.cnt / sizes.size ELSE 0E0 END) AS old_squared
  FROM cells JOIN sizes ON cells.nth = sizes.nth AND cells.fld = sizes.fld
  GROUP BY cells.fld, cells.is_pooled, cells.lvl
), shares AS (
  SELECT parts.fld AS fld, fields.new_rows AS new_rows, fields.old_rows AS old_rows,
    fields.old_squares AS old_squares, fields.windows AS windows,
    parts.new_cnt / fields.new_rows - parts.old_cnt / fields.old_rows AS change,
    parts.old_squared - parts.old_cnt * parts.old_cnt / fields.old_rows AS varied,
    CASE
      WHEN parts.is_pooled = 0 THEN parts.old_cnt / fields.old_rows
      WHEN parts.old_cnt / fields.old_rows >= RARE_SHARE
        AND parts.old_cnt / fields.old_rows >= RARE_ROWS / fields.new_rows THEN parts.old_cnt / fields.old_rows
      WHEN RARE_SHARE * fields.new_rows >= RARE_ROWS THEN RARE_SHARE
      ELSE RARE_ROWS / fields.new_rows
    END AS share
  FROM parts JOIN fields ON parts.fld = fields.fld
), totals AS (
  SELECT fld, new_rows, old_rows, windows, COUNT(*) AS levels, CAST(COUNT(*) - 1 AS DOUBLE) AS freedom,
    old_squares / old_rows AS weighted, SUM(ABS(change)) / 2E0 AS moved, SUM(change * change / share) AS squares,
    SUM(varied / share) AS varied
  FROM shares GROUP BY fld, new_rows, old_rows, old_squares, windows
), dispersion AS (
  SELECT fld, new_rows, old_rows, windows, levels, freedom, weighted, moved, squares,
    CASE WHEN windows < 2 OR freedom = 0 THEN USUAL
      ELSE (RUNS * USUAL + (windows - 1E0) * (varied / freedom - (windows - 1E0)) / (old_rows - weighted))
        / (RUNS + windows - 1E0) END AS extra
  FROM totals
), ratios AS (
  SELECT fld, new_rows, old_rows, windows, levels, moved,
    POWER(freedom, TOGETHER) AS above, (windows - 1E0 + RUNS) * freedom AS below,
    CASE WHEN freedom = 0 THEN 0E0 ELSE squares / freedom / (1E0 / new_rows + 1E0 / old_rows
      + CASE WHEN extra > 0 THEN extra ELSE 0E0 END * (1E0 + weighted / old_rows)) END AS ratio
  FROM dispersion
), scores AS (
  SELECT fld, new_rows, old_rows, windows, levels, moved,
    CASE WHEN above = 0 OR ratio = 0 THEN 0E0 ELSE
      ((1E0 - 2E0 / (9E0 * below)) * POWER(ratio, THIRD) - (1E0 - 2E0 / (9E0 * above)))
        / SQRT(2E0 / (9E0 * below) * POWER(ratio, TWO_THIRDS) + 2E0 / (9E0 * above)) END AS score
  FROM ratios
)
SELECT ranked.run_name AS run, fld AS field, CAST(new_rows AS BIGINT) AS new_rows, CAST(old_rows AS BIGINT) AS old_rows,
  CAST(windows AS BIGINT) AS windows, levels, moved, CASE WHEN score > 0 THEN score ELSE 0E0 END AS sigma,
  CASE WHEN score >= THRESHOLD AND moved >= MOVED THEN 1 ELSE 0 END AS is_alarm
FROM scores CROSS JOIN ranked WHERE ranked.place = 1
"""
)


def drift(engine: Engine, settings: DriftSettings, fields: int) -> exp.Select:
    """Give the SELECT of how far each field of the newest run has moved, with the columns of COLUMNS.

    ``fields`` is the number of fields of a profile: by chance none of them reaches the threshold more often than one
    field alone would reach ``sigma``. It gives no row where there is no earlier run.
    """
    return _bound(engine, _STATISTICS, settings, fields)


def runs(engine: Engine) -> exp.Select:
    """Give the SELECT of the runs with a profile, the newest first: run, rows, accepted (0 or 1), alarm (0 or 1)."""
    return _bound(engine, _RUNS, DriftSettings(), 1)


def mark(engine: Engine, run: str, started_at: Sql, level: str) -> exp.Select:
    """Give the SELECT of the line of NAME_profiles that says what was told of a run."""
    values = (literal(run), started_at, literal(MARKS), literal(level), literal(1))
    named = (
        exp.Alias(this=value, alias=identifier(engine, name)) for value, name in zip(values, PROFILES, strict=True)
    )
    return exp.select(*named, copy=False)


def _bound(engine: Engine, statement: str, settings: DriftSettings, fields: int) -> exp.Select:
    constants = {
        "MARKS": literal(MARKS),
        "ALARM": literal(ALARM),
        "ACCEPTED": literal(ACCEPTED),
        "VERDICT": literal(VERDICT),
        "WINDOW_ROWS": double(float(WINDOW_ROWS)),
        "WINDOWS": literal(EARLIER_WINDOWS + 1),
        "RARE_SHARE": double(RARE_SHARE),
        "RARE_ROWS": double(float(RARE_ROWS)),
        "USUAL": double(USUAL_VARIATION),
        "RUNS": double(float(USUAL_RUNS)),
        "TOGETHER": double(TOGETHER),
        "THIRD": double(1 / 3),
        "TWO_THIRDS": double(2 / 3),
        "THRESHOLD": double(field_threshold(settings.sigma, fields)),
        "MOVED": double(settings.moved),
    }
    query = _parsed(statement).copy()
    for node in list(query.find_all(exp.Column, exp.DataType)):
        if isinstance(node, exp.Column) and not node.table and node.name in constants:
            node.replace(constants[node.name].copy())
        elif isinstance(node, exp.DataType) and node.is_type(exp.DataType.Type.DOUBLE):
            node.replace(engine.sql_type(DOUBLE))
    names = References(engine)
    own = dict(zip(PROFILES, ("run_name", "begun", "fld", "lvl", "cnt"), strict=True))
    columns = [
        exp.alias_(cast(names.col(name), engine.sql_type(DOUBLE)) if alias == "cnt" else names.col(name), alias)
        for name, alias in own.items()
    ]
    lines = exp.select(*columns, copy=False).from_(symbol("profiles"), copy=False)
    alias = exp.TableAlias(this=exp.to_identifier("lines"))
    query.args["with_"].expressions.insert(0, exp.CTE(this=lines, alias=alias))
    return query


def field_threshold(sigma: float, fields: int) -> float:
    """Give the score of a field that is as rare among several fields as ``sigma`` is for one (Šidák)."""
    normal = NormalDist()
    return normal.inv_cdf(normal.cdf(sigma) ** (1 / max(fields, 1)))


def run_sigma(score: float, fields: int) -> float:
    """Give the score of a run whose highest score of a field is ``score``: the inverse of :func:`field_threshold`."""
    normal = NormalDist()
    # 1 - (1 - p)^k, from the tail: a cdf near 1 has lost its digits.
    tail = -math.expm1(fields * math.log1p(-normal.cdf(-score)))
    return max(0.0, -normal.inv_cdf(tail)) if tail > 0 else score


@cache
def _parsed(statement: str) -> exp.Select:
    parsed = sqlglot.parse_one(statement)
    assert isinstance(parsed, exp.Select)
    for ordered in parsed.find_all(exp.Ordered):  # nothing ordered is NULL
        ordered.set("nulls_first", not ordered.args.get("desc"))
    return parsed
