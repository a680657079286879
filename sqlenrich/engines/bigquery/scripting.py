"""BigQuery's scripting: https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/procedural-language."""

from __future__ import annotations

from sqlglot import exp

from sqlenrich.core.engine import Scripting
from sqlenrich.core.sql import func, literal

SCRIPTING = Scripting(
    block="""\
BEGIN
  DECLARE part INT64 DEFAULT 0;
  DECLARE first_hash, problem STRING;
  LOOP
    {read}
    IF part = 0 THEN
      {pending};
      SET first_hash = (
        {first}
      );
    ELSEIF part = 1 THEN
      SET problem = (
        {problem}
      );
      IF problem IS NOT NULL THEN
        {unlock}
        RAISE USING MESSAGE = CONCAT({stopped}, problem);
      END IF;
    END IF;
    IF first_hash IS NULL OR part > {last} THEN
      BREAK;
    END IF;
    {ask};
    SET part = part + 1;
  END LOOP;
END""",
    variable=exp.column,
    # Of the remainder: ABS of the least INT64 would fail.
    share=lambda hash_, n: func("ABS", func("MOD", func("FARM_FINGERPRINT", hash_), literal(n))),
)
