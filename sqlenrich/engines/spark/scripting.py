"""Spark's scripting, which Databricks shares: it runs on Spark 4.3."""

from __future__ import annotations

from sqlglot import exp

from sqlenrich.core.bounds import bound_of_part
from sqlenrich.core.engine import Scripting


def scripting(stop: str, *declared: str, updates: bool) -> Scripting:
    """Return the scripting whose script stops by some statements, with what they declare.

    ``updates``: whether stored answers are read by an UPDATE.
    """
    texts = ["after STRING DEFAULT ''", "upto STRING", "first_hash STRING", "problem STRING"]
    variables = ["part INT DEFAULT 0", *texts, *declared]
    read = ["    IF part = 0 OR part > {parts} THEN", "      {read}", "    END IF;"]
    block = [
        "BEGIN",
        *(f"  DECLARE {variable};" for variable in variables),
        "  ask: LOOP",
        *(read if updates else ()),
        "    IF part = 0 THEN",
        "      {pending};",
        "      SET first_hash = (",
        "        {first}",
        "      );",
        "      SET upto = first_hash;",
        "    ELSE",
        "      SET upto = GREATEST(first_hash, {bound});",
        "    END IF;",
        "    IF part = 1 THEN",
        "      SET problem = (",
        "        {problem}",
        "      );",
        "      IF problem IS NOT NULL THEN",
        "        {unlock}",
        *(f"        {line}" for line in stop.splitlines()),
        "      END IF;",
        "    END IF;",
        "    IF first_hash IS NULL OR part > {parts} THEN",
        "      LEAVE ask;",
        "    END IF;",
        "    {ask};",
        "    SET part = part + 1;",
        "    SET after = upto;",
        "  END LOOP ask;",
        "END",
    ]
    return Scripting(
        block="\n".join(block),
        variable=exp.column,
        bound=bound_of_part,
    )


SCRIPTING = scripting("SELECT RAISE_ERROR(CONCAT({stopped}, problem));", updates=False)  # Spark has no SIGNAL (4.3)
