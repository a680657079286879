"""A plugin of dbt-duckdb: it asks the model, as a function that the models of ``sqlenrich dbt`` call.

::

    plugins:
      - module: sqlenrich.dbt_duckdb
        config: {endpoint: "http://127.0.0.1:8000/v1"}    # or {mock: true}: invented answers, no network
"""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from dbt.adapters.duckdb.connections import DuckDBConnectionManager
from dbt.adapters.duckdb.plugins import BasePlugin
from dbt.adapters.events.logging import AdapterLogger
from dbt.flags import get_flags
from dbt_common.invocation import get_invocation_id

from sqlenrich.ask.model_choice import ModelChoice, WantedModel, choose_model, wanted_model
from sqlenrich.core.embedding import Embedding
from sqlenrich.core.errors import ConfigError, SqlenrichError, did_you_mean
from sqlenrich.core.turn import Turn
from sqlenrich.core.types import BIGINT, BOOLEAN, STRING, TIMESTAMP, Type
from sqlenrich.dbt.client_call import ANSWER, ASK, CONSTANT
from sqlenrich.llm.client import Client
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.plan.request import request_constant, request_hash
from sqlenrich.schema.json_schema import hint_text
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.settings import find_config

CONFIG_KEYS = ("endpoint", "model", "mock", "mock_failures", "concurrency")
"""``endpoint``: a URL or a name of ``sqlenrich.toml``; the key is that of the environment, as for ``sqlenrich run``."""
ARROW: Mapping[Type, pa.DataType] = {
    STRING: pa.string(),
    BIGINT: pa.int64(),
    BOOLEAN: pa.bool_(),
    TIMESTAMP: pa.timestamp("us"),
}
DUCKDB: Mapping[Type, str] = {STRING: "VARCHAR", BIGINT: "BIGINT", BOOLEAN: "BOOLEAN", TIMESTAMP: "TIMESTAMP"}

logger = AdapterLogger("sqlenrich")


@dataclass
class Asked:
    """The model of one enrichment, and the constant that precedes each of its prompts in their hashes."""

    choice: ModelChoice
    constant: str
    client: Client | None = None
    """Open from the first request to the end of the build: it keeps connections, and what it learnt of the limits."""


class Plugin(BasePlugin):  # type: ignore[misc]  # dbt-duckdb has no types
    """Registers the functions that ask."""

    def initialize(self, plugin_config: dict[str, Any]) -> None:
        """Read the plugin's config. Raises ConfigError for an unknown key.

        What does not say who is asked is an error when a model is needed: the commands that ask nothing go on.
        """
        for key in plugin_config:
            if key not in CONFIG_KEYS:
                known = ", ".join(CONFIG_KEYS)
                raise ConfigError(
                    f'unknown key "{key}"{did_you_mean(key, CONFIG_KEYS)} in the config of the plugin '
                    f"sqlenrich.dbt_duckdb; there are: {known}"
                )
        self.config = plugin_config
        self.asked: dict[str, Asked] = {}
        self.lock = threading.Lock()
        self.asking = 0
        self.stopped = ""
        """The invocation of dbt that was interrupted. The next one in this process asks again."""
        weakref.finalize(self, _close, self.asked)

    def configure_connection(self, conn: duckdb.DuckDBPyConnection) -> None:
        """Make the functions, and learn when dbt cancels its queries: that is how it ends a build early."""
        environment = DuckDBConnectionManager.env()
        cancel = environment.cancel
        environment.cancel = lambda connection: self.stop() or cancel(connection)
        answer = duckdb.struct_type({name: DUCKDB[kind] for name, kind in ANSWER.items()})
        options: dict[str, Any] = {"type": "arrow", "null_handling": "special"}
        text, number = (duckdb.sqltype(DUCKDB[kind]) for kind in (STRING, BIGINT))
        conn.create_function(ASK, self.ask, [text, text, number, text], answer, side_effects=True, **options)
        conn.create_function(CONSTANT, self.constants, [text], text, **options)

    def stop(self) -> bool:
        """Send nothing more in this build. Return whether answers are on their way: these are paid for and are stored.

        An interrupted query would lose them.
        """
        with self.lock:
            if self.stopped != get_invocation_id():
                self.stopped = get_invocation_id()
                for one in self.asked.values():
                    if one.client is not None:
                        one.client.stop()
            return self.asking > 0

    def constants(self, calls: pa.Array) -> pa.Array:
        """Return the constant of each call."""
        return pa.array([self.of(call).constant for call in calls.to_pylist()], pa.string())

    def ask(self, calls: pa.Array, hashes: pa.Array, attempts: pa.Array, prompts: pa.Array) -> pa.Array:
        """Ask each request and give its answer, NULL where it was not asked.

        Nothing is raised once something was asked: an exception would roll back answers that are paid for.
        """
        columns = (column.to_pylist() for column in (calls, hashes, attempts, prompts))
        rows = list(zip(*columns, strict=True))
        found: dict[tuple[str, int], Answer] = {}
        for call in dict.fromkeys(row[0] for row in rows):
            asked = self.of(call)
            if any(request_hash(asked.constant, prompt) != hash_ for of, hash_, _, prompt in rows if of == call):
                raise ConfigError(
                    f"sqlenrich: the requests were made for another model than {asked.choice.resolved.name}, so "
                    "nothing was asked: build NAME_prompts, NAME_pending and NAME_responses together"
                )
            requests = [Request(hash_, attempt, prompt) for of, hash_, attempt, prompt in rows if of == call]
            found |= {(one.request_hash, one.attempt): one for one in self.answers(asked, requests)}
        kind = pa.struct([(name, ARROW[type_]) for name, type_ in ANSWER.items()])
        return pa.array([_fields(found.get((hash_, attempt))) for _, hash_, attempt, _ in rows], kind)

    def answers(self, asked: Asked, requests: Sequence[Request]) -> list[Answer]:
        """Ask a model. What stops it is logged; the answers until then stay."""
        found: list[Answer] = []
        try:
            with self.lock:
                if self.stopped == get_invocation_id():
                    return found
                client = self.client(asked)
                self.asking += 1
            try:
                for batch in client.stream(iter(requests)):
                    found += batch
                    for warning in client.new_warnings():
                        logger.warning(f"sqlenrich: {warning}")
            finally:
                with self.lock:
                    self.asking -= 1
        except (SqlenrichError, OSError) as error:
            logger.error(f"sqlenrich: {error}")
        return found

    def client(self, asked: Asked) -> Client:
        """Return the open client of a model. Call it with the lock."""
        if asked.client is not None and asked.client.stopped:  # by an earlier build of this process
            asked.client.__exit__(None, None, None)
            asked.client = None
        if asked.client is None:
            assert asked.choice.model is not None  # a client asks
            asked.client = Client(asked.choice.model, concurrency=asked.choice.concurrency).__enter__()
        return asked.client

    def of(self, call: str) -> Asked:
        """Return the model of a call. Raises ConfigError where the settings name none."""
        with self.lock:
            if call not in self.asked:
                alias, brace, facts = call.partition("{")
                self.asked[call] = self.choose(json.loads(brace + facts), alias)
            return self.asked[call]

    def choose(self, facts: Mapping[str, Any], alias: str = "") -> Asked:
        """Choose the model as ``sqlenrich run`` does: equal requests then have equal hashes.

        ``alias`` is the model that ``sqlenrich_model`` names, before that of the config. The mock has no other models.
        """
        enrichment = Enrichment(
            name=facts["name"],
            template="",
            schema=facts["schema"],
            fingerprint="",
            model=facts["model"],
            params=facts["params"],
            engine_params=facts["engine_params"],
            hint=facts["hint"],
            repairs=tuple(facts["repairs"]),
            turns=tuple(Turn(*turn) for turn in facts.get("turns", ())),
            embedding=Embedding(**facts["embedding"]) if "embedding" in facts else None,
        )
        settings, wanted = find_config(None, *_project()), _wanted(self.config)
        if alias and wanted.mock is None:
            known = [name for name in settings.models if settings.model(name, "endpoint") is not None]
            if alias in known:
                wanted = replace(wanted, name=alias)
            elif alias != enrichment.model:
                raise settings.of_file(
                    f'{enrichment.name}: sqlenrich_model is "{alias}", but no model of this name has an endpoint; '
                    f"there are: {', '.join(dict.fromkeys((enrichment.model, *known)))}"
                )
        choice = choose_model(enrichment, settings, wanted)
        hint = hint_text(enrichment.schema) if enrichment.hint == "always" else None
        return Asked(
            choice, request_constant(choice.resolved, enrichment.schema, hint, enrichment.turns, enrichment.embedding)
        )


def _wanted(config: Mapping[str, Any]) -> WantedModel:
    """Return who is asked. Raises ConfigError where the config does not say it: nobody wants the mock by accident."""
    for key in ("endpoint", "model"):
        if key in config and not config[key]:
            raise ConfigError(
                f"the plugin sqlenrich.dbt_duckdb has an empty {key} (is its variable of the environment set?): "
                f"give it a value, or write config: {{mock: true}} in its place"
            )
    client = [key for key in ("endpoint", "model") if key in config]
    mock = bool(config.get("mock")) or (config.get("mock_failures") is not None and config.get("mock") is None)
    if mock and client:
        raise ConfigError(f"the config of the plugin sqlenrich.dbt_duckdb has {client[0]} and the mock: leave out one")
    if not mock and not client:
        raise ConfigError(
            "the config of the plugin sqlenrich.dbt_duckdb does not say who is asked: write {endpoint: URL}, where URL "
            "may be a name of sqlenrich.toml, or {mock: true} for invented answers"
        )
    return wanted_model(
        config.get("model"),
        endpoint=config.get("endpoint"),
        mock=mock,
        mock_failures=config.get("mock_failures"),
        concurrency=config.get("concurrency"),
    )


def _close(asked: Mapping[str, Asked]) -> None:
    """Close the clients of a build: its connection, which has the functions, is gone."""
    for one in asked.values():
        if one.client is not None:
            one.client.__exit__(None, None, None)


def _fields(answer: Answer | None) -> dict[str, Any] | None:
    if answer is None:
        return None
    fields = {name: getattr(answer, name) for name in ANSWER}
    return fields | {"asked_at": answer.asked_at.astimezone(UTC).replace(tzinfo=None)}


def _project() -> tuple[Path, ...]:
    """Return the folder of the project that dbt builds: ``--project-dir`` may name another one than the current."""
    folder = getattr(get_flags(), "PROJECT_DIR", None)
    return () if folder is None else (Path(folder),)
