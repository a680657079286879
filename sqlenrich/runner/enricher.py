"""``sqlenrich.Enricher``: a table in, the same rows with their results out, inside of somebody else's pipeline."""

from __future__ import annotations

import atexit
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sqlenrich.ask.model_choice import ModelChoice, choose_model, wanted_model
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import ConfigError
from sqlenrich.core.types import BIGINT, STRING, Type
from sqlenrich.core.version import __version__
from sqlenrich.plan.compile import compile_plan
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.renderer.statements import create_table_as
from sqlenrich.runner.options import names_of
from sqlenrich.runner.session import new_budget
from sqlenrich.runner.source import check_columns, with_source_options
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.loader import enrichment_of
from sqlenrich.spec.run_settings import AnyModel, Caps
from sqlenrich.spec.settings import Config, find_config
from sqlenrich.store.base import Origin

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from sqlenrich.llm.client import Client
    from sqlenrich.llm.messages import Answer
    from sqlenrich.store.answer_folder import AnswerFolder

ROW = "_row"
"""The column that numbers the rows of a table."""
SOURCE = "enricher_source"
KEPT_ANSWERS = 128
"""The answers that are made durable together at most."""
RUN = "enricher"
"""The run that stands beside its answers in the tables of one call."""


class Enricher:
    """Enriches tables one after another, or several at once: ``enricher(table)`` gives the same rows in order.

    ``table`` is a ``pyarrow.Table`` or a RecordBatch. The result is a Table with its columns, one typed column for each
    output field, and ``_error`` (NULL for an accepted row), ``_error_detail``, ``_model`` and ``_request_hash``, as a
    run says them of the row. ``endpoint`` is an :class:`~sqlenrich.Endpoint`, a URL or a name of the settings;
    ``model`` also a :class:`~sqlenrich.LocalModel` or a :class:`~sqlenrich.Mock`. ``responses`` is a folder in which
    answers are kept, each durable within 128 answers, and found again by all processes that name it. To share limits
    and requests in flight too, let all processes ask one :class:`~sqlenrich.Gateway`. Without either, equal prompts of
    one table are asked once and nothing outlives the object.

    It loads and connects at the first call, in the process that calls, and can be pickled before. Raises SqlenrichError
    as :func:`~sqlenrich.run` does; a bad answer is a row with an ``_error``. Rows that a cap of ``caps`` leaves are
    ``NOT_ASKED``.
    """

    def __init__(
        self,
        enrichment: Enrichment | str | Path,
        *,
        model: AnyModel | None = None,
        endpoint: Endpoint | str | None = None,
        responses: str | Path | None = None,
        columns: Mapping[str, str] | None = None,
        concurrency: int | None = None,
        caps: Caps | None = None,
        config: Config | None = None,
    ) -> None:
        found = endpoint if isinstance(endpoint, Endpoint) and model is None else None
        self._given = (enrichment, model, endpoint, responses, columns, concurrency, caps, config)
        self.enrichment = _numbered(enrichment_of(enrichment), columns)
        self._config = config if config is not None else find_config(self.enrichment.path)
        named = None if found is not None or not isinstance(endpoint, str) else endpoint
        if isinstance(endpoint, Endpoint) and model is not None:
            if not isinstance(model, str):
                raise ConfigError("give endpoint=... with the name of a model, or model=... alone")
            found, model = replace(endpoint, model=model), None
        self._wanted = wanted_model(found or model, endpoint=named, concurrency=concurrency)
        self._caps = caps or Caps()
        self._responses = responses
        self._opening = threading.Lock()
        self._pid = os.getpid()
        self._stack: ExitStack | None = None
        self._plans: dict[tuple[tuple[str, str], ...], Plan] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (__version__, self._given)

    def __call__(self, table: pa.Table | pa.RecordBatch) -> pa.Table:
        """Return the table with the results."""
        import duckdb
        import pyarrow as pa

        given = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
        if not isinstance(given, pa.Table):
            raise ConfigError(f"an Enricher takes a pyarrow.Table or a RecordBatch, not {type(table).__name__}")
        choice, client, folder = self._open()
        with duckdb.connect(":memory:", config={"threads": 1}) as db:
            db.execute("SET TimeZone = 'UTC'")
            plan = self._plan(db, given, choice)
            _make(db, plan.step("prompts"))
            _make_answers(db, plan, [])
            pending = plan.responses.pending
            assert pending is not None
            hashes = [str(row[0]) for row in db.execute(plan.relations.line(pending)).fetchall()]
            answers = [] if folder is None else self._locked(folder.find, hashes)
            self._add(db, plan, answers)
            requests = db.execute(plan.relations.line(pending)).fetchall()
            self._add(db, plan, self._ask(client, folder, requests))
            for name in ("checked", "enriched", "quarantine"):
                _make(db, plan.step(name))
            return _joined(db, given, plan, self.enrichment.keep)

    def close(self) -> None:
        """End the client and close the files; the next call opens them again."""
        with self._opening:
            stack, self._stack = self._stack, None
        if stack is not None:
            stack.close()

    def _open(self) -> tuple[ModelChoice, Client, AnswerFolder | None]:
        """Open the client once in a process."""
        from sqlenrich.llm.client import Client
        from sqlenrich.store.answer_folder import AnswerFolder

        with self._opening:
            if self._pid != os.getpid():  # what a forked process inherited belongs to its parent
                self._stack, self._pid = None, os.getpid()
            if self._stack is None:
                stack = ExitStack()
                self._choice = choose_model(self.enrichment, self._config, self._wanted, new_budget(self._caps))
                assert self._choice.model is not None
                self._folder = None if self._responses is None else stack.enter_context(AnswerFolder(self._responses))
                self._client = stack.enter_context(
                    Client(self._choice.model, concurrency=self._choice.concurrency, budget=self._choice.budget)
                )
                self._disk = threading.Lock()
                self._proven = False
                self._stack = stack
                atexit.register(self.close)
            return self._choice, self._client, self._folder

    def _locked(self, act: Any, *given: Any) -> Any:
        with self._disk:
            return act(*given)

    def _plan(self, db: duckdb.DuckDBPyConnection, table: pa.Table, choice: ModelChoice) -> Plan:
        """Make the source of a table and return the plan over its types; one is compiled for each set of columns."""
        from sqlenrich.store.duckdb.database import quote
        from sqlenrich.store.duckdb.types import portable_type

        ours = (ROW, *RESULTS, *self.enrichment.contract.readings)
        if taken := [name for name in ours if name in table.column_names]:
            raise ConfigError(f"the table has the column {taken[0]}, which an Enricher gives: rename it")
        db.register("enricher_table", table)
        described = db.execute("DESCRIBE SELECT * FROM enricher_table").fetchall()
        kinds = {str(name): portable_type(str(kind)) for name, kind, *_ in described}
        casts = [f"CAST({quote(name)} AS VARCHAR) AS {quote(name)}" for name, kind in kinds.items() if kind is None]
        replaced = f" REPLACE ({', '.join(casts)})" if casts else ""
        db.execute(
            f"CREATE TEMP TABLE {SOURCE} AS SELECT row_number() OVER () AS {ROW}, *{replaced} FROM enricher_table"
        )
        types: dict[str, Type] = {ROW: BIGINT, **{name: kind or STRING for name, kind in kinds.items()}}
        key = tuple((name, str(kind)) for name, kind in types.items())
        if key not in self._plans:
            check_columns(self.enrichment, types, "the table")
            self._plans[key] = compile_plan(
                self.enrichment,
                "duckdb",
                {"source": SOURCE},
                model=choice.resolved,
                source_types=types,
                asked_by_client=True,
            )
        return self._plans[key]

    def _ask(self, client: Client, folder: AnswerFolder | None, requests: Sequence[tuple[Any, ...]]) -> list[Answer]:
        """Ask requests and return their answers, which are in the folder by then."""
        from sqlenrich.llm.messages import Request

        pending = [Request(*row) for row in requests]
        found: list[Answer] = []

        def keep(answers: Sequence[Answer]) -> None:
            if answers and folder is not None:
                self._locked(folder.keep, answers)
            found.extend(answers)

        if pending and not self._proven:
            keep(client.preflight(pending[:3]))
            self._proven = True
        asked = {answer.request_hash for answer in found}
        for batch in client.stream(request for request in pending if request.request_hash not in asked):
            for start in range(0, len(batch), KEPT_ANSWERS):
                keep(batch[start : start + KEPT_ANSWERS])
            client.new_warnings()
        return found

    def _add(self, db: duckdb.DuckDBPyConnection, plan: Plan, answers: Sequence[Answer]) -> None:
        if answers:
            _make_answers(db, plan, answers, Origin(RUN, self.enrichment.version, self.enrichment.fingerprint))


RESULTS = ("_error", "_error_detail", "_model", "_request_hash")
"""The columns of a result beside the output fields."""


def _again(version: str, given: tuple[Any, ...]) -> Enricher:
    if version != __version__:
        raise ConfigError(
            f"this Enricher was made by sqlenrich {version}, and {__version__} is installed on {socket.gethostname()}: "
            "install one version on both"
        )
    enrichment, model, endpoint, responses, columns, concurrency, caps, config = given
    return Enricher(
        enrichment,
        model=model,
        endpoint=endpoint,
        responses=responses,
        columns=columns,
        concurrency=concurrency,
        caps=caps,
        config=config,
    )


def _numbered(enrichment: Enrichment, columns: Mapping[str, str] | None) -> Enrichment:
    """Return an enrichment whose rows are told apart by their number; it keeps what checks read, the table has all."""
    named = with_source_options(enrichment, columns=columns)
    if named.query is not None:
        raise ConfigError(f"{named.place}: source is a query, and an Enricher is given its rows: leave query out")
    return replace(named, key=names_of(ROW), keep=named.checked_columns, keep_all=False)


def _make(db: duckdb.DuckDBPyConnection, step: Step) -> None:
    from sqlenrich.engines.duckdb.engine import ENGINE

    for sql in create_table_as(ENGINE, step, step.name, step.query, pretty=False):
        db.execute(sql)


def _make_answers(
    db: duckdb.DuckDBPyConnection, plan: Plan, answers: Sequence[Answer], origin: Origin | None = None
) -> None:
    """Make the table of answers, or add answers to it."""
    from sqlenrich.core.printer import print_sql
    from sqlenrich.engines.duckdb.engine import ENGINE
    from sqlenrich.plan.plan import RESPONSES
    from sqlenrich.renderer.statements import create_responses
    from sqlenrich.store.duckdb.answers import answer_table

    table = plan.relations.table("responses")
    if origin is None:
        db.execute(print_sql(ENGINE, create_responses(ENGINE, table, RESPONSES)))
        return
    db.register("enricher_answers", answer_table(answers, origin))
    insert = exp.Insert(this=table.copy(), expression=exp.select("*").from_("enricher_answers"), by_name=True)
    db.execute(print_sql(ENGINE, insert, pretty=False))
    db.unregister("enricher_answers")


def _joined(db: duckdb.DuckDBPyConnection, table: pa.Table, plan: Plan, kept: Sequence[str]) -> pa.Table:
    """Return the rows of the table in their order, with the results beside them."""
    from sqlenrich.store.duckdb.database import quote

    enriched, quarantine = plan.step("enriched"), plan.step("quarantine")
    fields = [name for name in enriched.columns if name not in (*OWN, *kept)]
    listed = [f"e.{quote(name)} AS {quote(name)}" for name in fields]
    told = [
        "q._error AS _error",
        "q._error_detail AS _error_detail",
        "e._model AS _model",
        "coalesce(e._request_hash, q._request_hash) AS _request_hash",
    ]
    query = (
        f"SELECT {', '.join([*listed, *told])} FROM {SOURCE} s LEFT JOIN {enriched.relation} e ON e.{ROW} = s.{ROW} "
        f"LEFT JOIN {quarantine.relation} q ON q.{ROW} = s.{ROW} ORDER BY s.{ROW}"
    )
    results = db.sql(query).to_arrow_table()
    for name in results.column_names:
        table = table.append_column(results.schema.field(name), results[name])
    return table


OWN = (ROW, "_request_hash", "_model", "_version", "_fingerprint", "_asked_at", "_truncated", "_repaired")
"""The columns of the accepted rows that are no output fields."""
