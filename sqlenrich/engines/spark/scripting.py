"""Spark's scripting, which Databricks shares: it runs on Spark 4.3."""

from __future__ import annotations

from sqlglot import exp

from sqlenrich.core.engine import Scripting
from sqlenrich.core.sql import func, literal


def scripting(stop: str, *declared: str) -> Scripting:
    """Return the scripting whose script stops by some statements, with what they declare."""
    variables = ["part INT DEFAULT 0", "first_hash STRING", "problem STRING", *declared]
    block = [
        "BEGIN",
        *(f"  DECLARE {variable};" for variable in variables),
        "  ask: LOOP",
        "    {read}",
        "    IF part = 0 THEN",
        "      {pending};",
        "      SET first_hash = (",
        "        {first}",
        "      );",
        "    ELSEIF part = 1 THEN",
        "      SET problem = (",
        "        {problem}",
        "      );",
        "      IF problem IS NOT NULL THEN",
        "        {unlock}",
        *(f"        {line}" for line in stop.splitlines()),
        "      END IF;",
        "    END IF;",
        "    IF first_hash IS NULL OR part > {last} THEN",
        "      LEAVE ask;",
        "    END IF;",
        "    {ask};",
        "    SET part = part + 1;",
        "  END LOOP ask;",
        "END",
    ]
    return Scripting(
        block="\n".join(block),
        variable=exp.column,
        share=lambda hash_, n: func("PMOD", func("HASH", hash_), literal(n)),
    )


SCRIPTING = scripting("SELECT RAISE_ERROR(CONCAT({stopped}, problem));")  # Spark has no SIGNAL (4.3)
