"""Snowflake Scripting: https://docs.snowflake.com/en/developer-guide/snowflake-scripting/index, read 2026-11-22."""

from __future__ import annotations

from sqlglot import exp

from sqlenrich.core.bounds import bound_of_part
from sqlenrich.core.engine import Scripting


def finished(block: str) -> str:
    """Return the statement that runs the block in every client. Two dollars inside of a text would end it."""
    return "EXECUTE IMMEDIATE $$\n" + block.replace("$$", "$\\u0024") + "\n$$"


SCRIPTING = Scripting(
    block="""\
DECLARE
  part INTEGER DEFAULT 0;
  after VARCHAR DEFAULT '';
  upto VARCHAR;
  first_hash VARCHAR;
  problem VARCHAR;
BEGIN
  LOOP
    IF (part = 0 OR part > {parts}) THEN
      {read}
    END IF;
    IF (part = 0) THEN
      {pending};
      first_hash := (
        {first}
      );
      upto := first_hash;
    ELSE
      upto := GREATEST(first_hash, {bound});
    END IF;
    IF (part = 1) THEN
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
    IF (first_hash IS NULL OR part > {parts}) THEN
      BREAK;
    END IF;
    {ask};
    part := part + 1;
    after := upto;
  END LOOP;
END""",
    variable=lambda name: exp.Placeholder(this=name),
    bound=bound_of_part,
    finished=finished,
)
