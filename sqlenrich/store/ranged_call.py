"""The statement by which a warehouse asks the pending requests of a range of hashes."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.sql import Sql
from sqlenrich.plan.plan import Step
from sqlenrich.renderer.statements import insert_into
from sqlenrich.store.queries import Since, ranged

HASH_BYTES = 32


class RangedCall:
    """A call that is laid out once; its two hashes and the id of its submission differ between statements.

    They are printed as texts that nobody knows before, so that no prompt contains them. ``conditions`` gives those
    under which the statement of a submission may ask.
    """

    def __init__(self, engine: Engine, call: Step, since: Since, conditions: Callable[[str], Sequence[Sql]]) -> None:
        self._after, self._upto, self._job = (secrets.token_hex(HASH_BYTES) for _ in range(3))
        query = call.query.copy()
        assert isinstance(query, exp.Query)
        asked = ranged(query, self._after, self._upto, since, conditions(self._job))
        self._sql = insert_into(engine, replace(call, query=asked))

    def between(self, after: str, upto: str, job_id: str) -> str:
        """Return the statement of a submission for the hashes after one (all, where it is empty) up to another."""
        return self._sql.replace(self._after, after).replace(self._upto, upto).replace(self._job, job_id)
