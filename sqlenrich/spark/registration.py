"""Registers ``ai_query`` in a Spark session, with a desk on its driver."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import ConfigError
from sqlenrich.spark.ai_query import NAME, RETURNS
from sqlenrich.spark.assignment import Assignment
from sqlenrich.spark.desk import Desk
from sqlenrich.spark.journal import Journal
from sqlenrich.spark.session import check_session, desk_place

ADVICE = "free space there, or set TMPDIR to another folder; until then equal requests may be asked again"

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Registration:
    """A registered ``ai_query``. It asks until it is closed; use it as a context manager, or call ``close``."""

    def __init__(self, session: SparkSession, desk: Desk, stack: ExitStack) -> None:
        self.session, self.desk, self._stack = session, desk, stack

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the function from the session, and forget its answers."""
        if self.session.catalog.functionExists(NAME):
            self.session.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {NAME}")
        self._stack.close()


def register(
    spark: SparkSession,
    *,
    endpoint: Endpoint | str,
    models: Mapping[str, str] | None = None,
    desk_port: int = 0,
) -> Registration:
    """Register ``ai_query(endpoint, request, modelParameters, responseFormat, failOnError, returnType)`` in a session.

    ``endpoint`` is an :class:`~sqlenrich.Endpoint` or its URL. ``models`` gives the model's own name for what a query
    writes as the first argument; any other name is a model's own. Each row gives ``STRUCT<result, errorMessage>``, of
    texts. With ``returnType => 'ARRAY<FLOAT>'`` the result is a vector as JSON; ``dimensions`` of the parameters is its
    length. Equal requests are asked once while the function is registered; a failure that may pass is asked again.
    Raises ConfigError.
    """
    from pyspark.sql.pandas.functions import arrow_udf

    session = check_session(spark)
    given = Endpoint(endpoint, "OPENAI_API_KEY") if isinstance(endpoint, str) else endpoint
    served = getattr(given, "endpoint", None)
    given = served if isinstance(served, Endpoint) else given
    if not isinstance(given, Endpoint):
        raise ConfigError(f"endpoint must be an Endpoint or a URL, not {type(given).__name__}")
    given.resolve_key()  # a key that no header can hold is refused here
    stack = ExitStack()
    try:
        folder = stack.enter_context(TemporaryDirectory(prefix="sqlenrich-"))
        journal = stack.enter_context(Journal(Path(folder) / "ai_query.journal", ADVICE))
        host, announced = desk_place(session)
        desk = Desk(journal, given, host=host, announced=announced, port=desk_port, lasting=True)
        desk.assignments[NAME] = Assignment(given, None)
        stack.enter_context(desk)
        function = _function(desk.address, dict(models or {}))
        decorate: Any = arrow_udf
        session.udf.register(NAME, decorate(function, RETURNS).asNondeterministic())
    except BaseException:
        stack.close()
        raise
    return Registration(session, desk, stack)


def _function(address: Any, models: Mapping[str, str]) -> Any:
    """Return the function of a batch. It travels to the executors with the desk's address, and no key."""
    import pyarrow as pa

    def ai_query(*positional: pa.Array, **named: pa.Array) -> pa.Array:
        from sqlenrich.spark.ai_query import answers

        return answers(address, models, positional, named)

    # As objects: Spark reads the kind of function from them, and here they are only strings.
    ai_query.__annotations__ = {"positional": pa.Array, "named": pa.Array, "return": pa.Array}
    return ai_query
