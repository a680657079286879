"""The BigQuery oracle: Google's analyzer and evaluator, from the `zetasql` wheel.

from tests.standins.googlesql import googlesql
googlesql().analyze("SELECT id FROM `p.d.t`", {"p.d.t": {"id": "INT64"}})   # [("id", "INT64")]
"""

from __future__ import annotations

import functools

from tests.standins.googlesql.analyzer import Analyzed, GoogleSQL
from tests.standins.googlesql.errors import GoogleSQLError
from tests.standins.googlesql.evaluator import ScriptResult
from tests.standins.googlesql.session import Data

__all__ = ["Analyzed", "Data", "GoogleSQL", "GoogleSQLError", "ScriptResult", "googlesql"]


@functools.cache
def googlesql() -> GoogleSQL:
    """The process's one instance."""
    return GoogleSQL()
