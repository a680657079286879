"""The BigQuery oracle: Google's analyzer and evaluator, from the `zetasql` wheel.

from tests.standins.googlesql import googlesql
googlesql().analyze("SELECT id FROM `p.d.t`", {"p.d.t": {"id": "INT64"}})   # [("id", "INT64")]
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tests.standins.googlesql.analyzer import Analyzed, GoogleSQL
from tests.standins.googlesql.errors import GoogleSQLError
from tests.standins.googlesql.evaluator import ScriptResult
from tests.standins.googlesql.session import Data

if TYPE_CHECKING:
    from sqlenrich.core.types import Type

__all__ = ["Analyzed", "Data", "GoogleSQL", "GoogleSQLError", "ScriptResult", "googlesql", "stored"]


def stored(value: Any, kind: Type) -> Any:
    """A value as a table of BigQuery holds it: an array inside an array stands in a struct."""
    from sqlenrich.core.types import Array, Struct
    from sqlenrich.engines.bigquery.text import ELEMENT

    if value is None:
        return None
    match kind:
        case Array(Array() as inner):
            return [{ELEMENT: stored(item, inner)} for item in value]
        case Array(item):
            return [stored(one, item) for one in value]
        case Struct(fields) if isinstance(value, Mapping):
            return {name: stored(value[name], part) for name, part in fields}
    return value


@functools.cache
def googlesql() -> GoogleSQL:
    """The process's one instance."""
    return GoogleSQL()
