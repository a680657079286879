"""Snowflake Scripting: https://docs.snowflake.com/en/developer-guide/snowflake-scripting/index, read 2026-11-22."""

from __future__ import annotations

from sqlglot import exp

from sqlenrich.core.engine import Scripting
from sqlenrich.core.sql import func, literal


def finished(block: str) -> str:
    """Return the statement that runs the block in every client. Two dollars inside of a text would end it."""
    return "EXECUTE IMMEDIATE $$\n" + block.replace("$$", "$\\u0024") + "\n$$"


SCRIPTING = Scripting(
    block="""\
DECLARE
  part INTEGER DEFAULT 0;
  first_hash VARCHAR;
  problem VARCHAR;
BEGIN
  LOOP
    {read}
    IF (part = 0) THEN
      {pending};
      first_hash := (
        {first}
      );
    ELSEIF (part = 1) THEN
      problem := (
        {problem}
      );
      IF (problem IS NOT NULL) THEN
        {unlock}
        -- The text of an exception is a constant. This fails, and its error ("Numeric value '...'
        -- is not recognized") shows what happened.
        SELECT CAST(CONCAT({stopped}, :problem) AS INTEGER);
      END IF;
    END IF;
    IF (first_hash IS NULL OR part > {last}) THEN
      BREAK;
    END IF;
    {ask};
    part := part + 1;
  END LOOP;
END""",
    variable=lambda name: exp.Placeholder(this=name),
    share=lambda hash_, n: func("MOD", func("ABS", func("HASH", hash_)), literal(n)),
    finished=finished,
)
