"""The statement by which a warehouse asks the pending requests of a range of hashes."""

from __future__ import annotations

import secrets
from dataclasses import replace

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.plan.plan import Step
from sqlenrich.renderer.statements import insert_into
from sqlenrich.runner.backends.queries import ranged

HASH_BYTES = 32


class RangedCall:
    """A call that is laid out once; only its two hashes differ between statements.

    They are printed as texts that nobody knows before, so that no prompt contains them.
    """

    def __init__(self, engine: Engine, call: Step) -> None:
        self._after, self._upto = secrets.token_hex(HASH_BYTES), secrets.token_hex(HASH_BYTES)
        query = call.query.copy()
        assert isinstance(query, exp.Query)
        self._sql = insert_into(engine, replace(call, query=ranged(query, self._after, self._upto)))

    def between(self, after: str, upto: str) -> str:
        """Give the statement for the hashes after one (all, where it is empty) up to another."""
        return self._sql.replace(self._after, after).replace(self._upto, upto)
