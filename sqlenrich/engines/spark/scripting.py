"""Spark's scripting, which Databricks shares: it runs on Spark 4.3."""

from __future__ import annotations

from sqlglot import exp

from sqlenrich.core.engine import Scripting
from sqlenrich.core.sql import func, literal

# SIGNAL is Databricks' alone; RAISE_ERROR is in both.
SCRIPTING = Scripting(
    block="""\
BEGIN
  DECLARE part INT DEFAULT 0;
  DECLARE first_hash STRING;
  DECLARE problem STRING;
  ask: LOOP
    {read}IF part = 0 THEN
      {pending};
      SET first_hash = ({first});
    ELSEIF part = 1 THEN
      SET problem = ({problem});
      IF problem IS NOT NULL THEN {unlock}SELECT RAISE_ERROR(CONCAT({stopped}, problem)); END IF;
    END IF;
    IF first_hash IS NULL OR part > {last} THEN LEAVE ask; END IF;
    {ask};
    SET part = part + 1;
  END LOOP ask;
END""",
    variable=exp.column,
    share=lambda hash_, n: func("PMOD", func("HASH", hash_), literal(n)),
)
