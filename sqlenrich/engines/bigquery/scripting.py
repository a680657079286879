"""BigQuery's scripting: https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/procedural-language."""

from __future__ import annotations

from sqlglot import exp

from sqlenrich.core.bounds import AFTER_ALL
from sqlenrich.core.engine import Scripting

MOST_REQUESTS = 500_000
"""A job ends after six hours, in which one to ten million rows are answered:
https://docs.cloud.google.com/bigquery/docs/choose-text-generation-function."""

SCRIPTING = Scripting(
    block="""\
BEGIN
  DECLARE part, parts INT64 DEFAULT 0;
  DECLARE after, upto, first_hash, problem STRING DEFAULT '';
  DECLARE since TIMESTAMP DEFAULT TIMESTAMP '1970-01-01 00:00:00+00';
  LOOP
    IF part = 0 OR part > parts THEN
      -- BigQuery bills an UPDATE by the columns that it names, even where it finds no row
      IF EXISTS(
        {unread}
      ) THEN
        {read}
      END IF;
      SET since = CURRENT_TIMESTAMP();
    END IF;
    IF part = 0 THEN
      {pending};
      SET first_hash = (
        {first}
      );
      SET parts = {parts};
      SET upto = first_hash;
    ELSE
      SET upto = GREATEST(
        first_hash,
        {bound}
      );
    END IF;
    IF part = 1 THEN
      SET problem = (
        {problem}
      );
      IF problem IS NOT NULL THEN
        {unlock}
        RAISE USING MESSAGE = CONCAT({stopped}, problem);
      END IF;
    END IF;
    IF first_hash IS NULL OR part > parts THEN
      BREAK;
    END IF;
    {ask};
    SET part = part + 1;
    SET after = upto;
  END LOOP;
END""",
    variable=exp.column,
    bound=lambda _: f"IF(part < parts, FORMAT('%04x', DIV(65536 * part, parts)), '{AFTER_ALL}')",
    most_requests=MOST_REQUESTS,
    since=lambda: exp.column("since"),
)
