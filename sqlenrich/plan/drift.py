"""How far the answers of runs have moved from those of earlier runs: one SELECT over ``NAME_profiles``.

docs/quality.md has each formula and its source.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.names import identifier
from sqlenrich.core.sql import Sql, cast, double, literal
from sqlenrich.core.types import DOUBLE
from sqlenrich.plan.profiles import PROFILES, VERDICT
from sqlenrich.plan.query_template import filled_query
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
"""What the SELECT gives: the run; of a field the rows of the run's window and of the earlier ones, the number
of these, the levels that are compared, the share of rows that changed their level, the score, and whether that is an
alarm (0 or 1)."""

_RANKED = """
WITH marked AS (
  SELECT run_name, fld, lvl, cnt,
    MAX(begun) OVER (PARTITION BY run_name) AS begun,
    MAX(CASE WHEN fld = MARKS AND lvl = ACCEPTED THEN 1 ELSE 0 END) OVER (PARTITION BY run_name) AS is_accepted,
    MAX(CASE WHEN fld = MARKS AND lvl = ALARM THEN 1 ELSE 0 END) OVER (PARTITION BY run_name) AS is_alarm,
    SUM(CASE WHEN fld = VERDICT THEN cnt ELSE 0E0 END) OVER (PARTITION BY run_name) AS total
  FROM lines
), ranked AS (
  SELECT run_name, fld, lvl, cnt, begun, is_accepted, is_alarm, total,
    DENSE_RANK() OVER (ORDER BY begun DESC, run_name DESC) AS place
  FROM marked WHERE total > 0
)
"""
_RUNS = f"""{_RANKED}
SELECT run_name, MAX(total) AS total, MAX(is_accepted) AS is_accepted, MAX(is_alarm) AS is_alarm
FROM ranked GROUP BY run_name, place ORDER BY place
"""
# Each part but one reads the one before it alone: engines that compute a common table expression at each of its uses
# would otherwise compute the first parts many times.
_STATISTICS = (
    _RANKED
    + """, compared AS (
  SELECT DISTINCT run_name AS newest, place AS first_place FROM ranked WHERE place <= COMPARED
), based AS (
  SELECT c.newest, r.fld, r.lvl, r.cnt, r.begun, r.is_accepted, r.is_alarm, r.total,
    r.place - c.first_place + 1 AS place,
    MAX(CASE WHEN r.is_accepted = 1 THEN r.begun END) OVER (PARTITION BY c.newest) AS base
  FROM ranked AS r JOIN compared AS c ON r.place >= c.first_place
), usable AS (
  SELECT newest, fld, lvl, cnt, total, place,
    SUM(CASE WHEN fld = VERDICT AND total < WINDOW_ROWS THEN cnt ELSE 0E0 END)
      OVER (PARTITION BY newest ORDER BY place) AS upto
  FROM based
  WHERE place = 1 OR ((base IS NULL OR begun >= base) AND (is_accepted = 1 OR is_alarm = 0))
), joined AS (
  SELECT newest, fld, lvl, cnt, place,
    CASE WHEN total < WINDOW_ROWS THEN -1 - CAST(FLOOR((upto - total) / WINDOW_ROWS) AS BIGINT) ELSE place END AS win
  FROM usable
), firsts AS (
  SELECT newest, fld, lvl, cnt, MIN(place) OVER (PARTITION BY newest, win) AS first_place FROM joined
), numbered AS (
  SELECT newest, fld, lvl, cnt, DENSE_RANK() OVER (PARTITION BY newest ORDER BY first_place) AS nth FROM firsts
), counts AS (
  SELECT newest, nth, fld, lvl, SUM(cnt) AS cnt
  FROM numbered WHERE nth <= WINDOWS AND fld <> MARKS GROUP BY newest, nth, fld, lvl
), sized AS (
  SELECT newest, nth, fld, lvl, cnt, SUM(cnt) OVER (PARTITION BY newest, nth, fld) AS size,
    SUM(CASE WHEN nth > 1 THEN cnt ELSE 0E0 END) OVER (PARTITION BY newest, fld, lvl) AS old_cnt,
    SUM(CASE WHEN nth = 1 THEN cnt ELSE 0E0 END) OVER (PARTITION BY newest, fld) AS new_rows,
    SUM(CASE WHEN nth > 1 THEN cnt ELSE 0E0 END) OVER (PARTITION BY newest, fld) AS old_rows
  FROM counts
), pools AS (
  SELECT newest, nth, fld, lvl, cnt, size, new_rows, old_rows,
    CASE WHEN old_cnt < RARE_SHARE * old_rows OR old_cnt * new_rows < RARE_ROWS * old_rows THEN 1 ELSE 0 END
      AS is_pooled
  FROM sized WHERE new_rows > 0 AND old_rows > 0
), cells AS (
  SELECT newest, nth, fld, is_pooled, CASE WHEN is_pooled = 1 THEN '' ELSE lvl END AS own_lvl, SUM(cnt) AS cnt,
    MAX(size) AS size, MAX(new_rows) AS new_rows, MAX(old_rows) AS old_rows
  FROM pools GROUP BY newest, nth, fld, is_pooled, CASE WHEN is_pooled = 1 THEN '' ELSE lvl END
), parts AS (
  SELECT newest, fld, is_pooled, own_lvl, MAX(new_rows) AS new_rows, MAX(old_rows) AS old_rows,
    SUM(CASE WHEN nth = 1 THEN cnt ELSE 0E0 END) AS new_cnt,
    SUM(CASE WHEN nth > 1 THEN cnt ELSE 0E0 END) AS old_cnt,
    SUM(CASE WHEN nth > 1 THEN cnt * cnt / size ELSE 0E0 END) AS old_squared,
    SUM(CASE WHEN nth > 1 THEN cnt * size ELSE 0E0 END) AS old_sizes,
    SUM(CASE WHEN nth > 1 THEN cnt / size ELSE 0E0 END) AS old_parts
  FROM cells GROUP BY newest, fld, is_pooled, own_lvl
), shares AS (
  SELECT newest, fld, new_rows, old_rows, old_sizes, old_parts,
    new_cnt / new_rows - old_cnt / old_rows AS change,
    old_squared - old_cnt * old_cnt / old_rows AS varied,
    CASE
      WHEN is_pooled = 0 THEN old_cnt / old_rows
      WHEN old_cnt / old_rows >= RARE_SHARE AND old_cnt / old_rows >= RARE_ROWS / new_rows THEN old_cnt / old_rows
      WHEN RARE_SHARE * new_rows >= RARE_ROWS THEN RARE_SHARE
      ELSE RARE_ROWS / new_rows
    END AS share
  FROM parts
), totals AS (
  SELECT newest, fld, MAX(new_rows) AS new_rows, MAX(old_rows) AS old_rows, ROUND(SUM(old_parts)) AS windows,
    COUNT(*) AS levels, CAST(COUNT(*) - 1 AS DOUBLE) AS freedom, SUM(old_sizes) / MAX(old_rows) AS weighted,
    SUM(ABS(change)) / 2E0 AS moved, SUM(change * change / share) AS squares, SUM(varied / share) AS varied
  FROM shares GROUP BY newest, fld
), dispersion AS (
  SELECT newest, fld, new_rows, old_rows, windows, levels, freedom, weighted, moved, squares,
    CASE WHEN windows < 2 OR freedom = 0 THEN USUAL
      ELSE (RUNS * USUAL + (windows - 1E0) * (varied / freedom - (windows - 1E0)) / (old_rows - weighted))
        / (RUNS + windows - 1E0) END AS extra
  FROM totals
), ratios AS (
  SELECT newest, fld, new_rows, old_rows, windows, levels, moved,
    POWER(freedom, TOGETHER) AS above, (windows - 1E0 + RUNS) * freedom AS below,
    CASE WHEN freedom = 0 THEN 0E0 ELSE squares / freedom / (1E0 / new_rows + 1E0 / old_rows
      + CASE WHEN extra > 0 THEN extra ELSE 0E0 END * (1E0 + weighted / old_rows)) END AS ratio
  FROM dispersion
), scores AS (
  SELECT newest, fld, new_rows, old_rows, windows, levels, moved,
    CASE WHEN above = 0 OR ratio = 0 THEN 0E0 ELSE
      ((1E0 - 2E0 / (9E0 * below)) * POWER(ratio, THIRD) - (1E0 - 2E0 / (9E0 * above)))
        / SQRT(2E0 / (9E0 * below) * POWER(ratio, TWO_THIRDS) + 2E0 / (9E0 * above)) END AS score
  FROM ratios
)
SELECT newest AS run, fld AS field, CAST(new_rows AS BIGINT) AS new_rows, CAST(old_rows AS BIGINT) AS old_rows,
  CAST(windows AS BIGINT) AS windows, levels, moved, CASE WHEN score > 0 THEN score ELSE 0E0 END AS sigma,
  CASE WHEN score >= THRESHOLD AND moved >= MOVED THEN 1 ELSE 0 END AS is_alarm
FROM scores
"""
)


def drift(engine: Engine, settings: DriftSettings, fields: int, compared: int = 1) -> exp.Select:
    """Return the SELECT of how far each field of the newest run has moved, with the columns of COLUMNS.

    ``compared`` is the number of runs that are each compared with those before it, the newest first. ``fields`` is the
    number of fields of a profile: by chance none of them reaches the threshold more often than one
    field alone would reach ``sigma``. A run without an earlier one has no row.
    """
    return _bound(engine, _STATISTICS, settings, fields, compared)


def runs(engine: Engine) -> exp.Select:
    """Return the SELECT of the runs with a profile, the newest first: run, rows, accepted (0 or 1), alarm (0 or 1)."""
    return _bound(engine, _RUNS, DriftSettings(), 1)


def mark(engine: Engine, run: str, started_at: Sql, level: str) -> exp.Select:
    """Return the SELECT of the line of NAME_profiles that says what was told of a run."""
    values = (literal(run), started_at, literal(MARKS), literal(level), literal(1))
    named = (
        exp.Alias(this=value, alias=identifier(engine, name)) for value, name in zip(values, PROFILES, strict=True)
    )
    return exp.select(*named, copy=False)


def _bound(engine: Engine, statement: str, settings: DriftSettings, fields: int, compared: int = 1) -> exp.Select:
    constants = {
        "MARKS": literal(MARKS),
        "ALARM": literal(ALARM),
        "ACCEPTED": literal(ACCEPTED),
        "VERDICT": literal(VERDICT),
        "COMPARED": literal(compared),
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
    names = References(engine)
    own = dict(zip(PROFILES, ("run_name", "begun", "fld", "lvl", "cnt"), strict=True))
    columns = [
        exp.alias_(cast(names.col(name), engine.sql_type(DOUBLE)) if alias == "cnt" else names.col(name), alias)
        for name, alias in own.items()
    ]
    lines = exp.select(*columns, copy=False).from_(symbol("profiles"), copy=False)
    return filled_query(engine, statement, constants, "lines", lines)


def field_threshold(sigma: float, fields: int) -> float:
    """Return the score of a field that is as rare among several fields as ``sigma`` is for one (Šidák)."""
    # By the tails: a cdf near 1 has lost its digits.
    return -NormalDist().inv_cdf(-math.expm1(math.log1p(-_tail(sigma)) / max(fields, 1)))


def run_sigma(score: float, fields: int) -> float:
    """Return the score of a run whose highest score of a field is ``score``: the inverse of :func:`field_threshold`."""
    tail = -math.expm1(fields * math.log1p(-_tail(score)))
    return max(0.0, -NormalDist().inv_cdf(tail)) if tail > 0 else score


def _tail(score: float) -> float:
    """Return the chance of a normal score above this one."""
    return math.erfc(score / math.sqrt(2)) / 2
