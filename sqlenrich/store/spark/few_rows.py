"""The settings of a session for few rows: to compile Java, and to plan each shuffle anew, takes longer than a query."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from sqlenrich.core.errors import RunError
from sqlenrich.spark.session import settings
from sqlenrich.store.spark.tables import SparkTables

FEW_ROWS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Each query is one job, by Spark's interpreter."""
ROLES = ("source", "responses", "prompts", "enriched")
"""The tables that the steps of a run read."""
_lock = threading.Lock()
_open: set[FewRows] = set()
"""Those of all backends that are open in this process: two may share a session, whose settings are for both."""


@dataclass(frozen=True)
class FewPolicy:
    """What few rows are."""

    rows: int = 20_000
    size: int = 1 << 24
    """The bytes of all tables that a run reads, by what Spark knows of them without a job."""


class FewRows:
    """Gives the session of some tables the settings for few rows, as long as there are no more and no other backend."""

    def __init__(self, tables: SparkTables, policy: FewPolicy) -> None:
        self.tables, self.policy = tables, policy
        self._given = ExitStack()

    def open(self) -> None:
        """Begin to count as an open backend: from here on none has these settings, where there are others."""
        with _lock:
            _open.add(self)
            for one in _open if len(_open) > 1 else ():
                one._end()

    def close(self) -> None:
        """Give the session its own settings back, and count no longer."""
        with _lock:
            self._end()
            _open.discard(self)

    def look(self, relations: Iterable[exp.Table]) -> None:
        """Begin where these tables are small together; one that is missing has nothing."""
        from pyspark.errors import PySparkException

        small = sum(map(self._size, relations)) <= self.policy.size
        with _lock:
            self._end()
            for name, value in FEW_ROWS.items() if small and len(_open) == 1 else ():
                with suppress(PySparkException):  # a platform may not allow it
                    self._given.enter_context(settings(self.tables.connection.session, {name: value}))

    def counted(self, rows: int) -> None:
        """End where there are more rows."""
        if rows > self.policy.rows:
            with _lock:
                self._end()

    def _end(self) -> None:
        self._given.close()

    def _size(self, relation: exp.Table) -> int:
        connection = self.tables.connection

        def known() -> int:
            rows: Any = self.tables.rows(relation)
            return int(str(rows._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))

        try:
            return connection.checked(known) if connection.exists(relation) else 0
        except RunError:  # whatever reads it will tell why
            return self.policy.size + 1
