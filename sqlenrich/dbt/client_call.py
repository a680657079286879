"""The call on DuckDB, where dbt has no Python client between two steps: a function of the plugin asks.

The plugin chooses the model, so that a profile decides whether the mock or an endpoint is asked. Therefore it also
gives the constant that precedes each prompt in its hash.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sqlglot import exp

from sqlenrich.core.engine import CARRIED, Engine
from sqlenrich.core.json import compact_json
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql, literal
from sqlenrich.core.types import BIGINT, BOOLEAN, STRING, TIMESTAMP, Type
from sqlenrich.dbt.jinja import string
from sqlenrich.dbt.samples import sample_answer
from sqlenrich.plan.plan import Plan
from sqlenrich.plan.references import References
from sqlenrich.plan.relations import symbol
from sqlenrich.spec.enrichment import Enrichment

ASK = "sqlenrich_ask"
"""``(call, request_hash, attempt, prompt)``: an answer as a struct of ANSWER."""
CONSTANT = "sqlenrich_constant"
"""``(call)``: the 64 digits before each prompt in its hash."""
CLIENT_KEYS = ("duckdb", "endpoint")
"""The keys under ``params`` whose parameters a client sends."""
ANSWER: dict[str, Type] = {
    "response": STRING,
    "call_error": STRING,
    "retryable": BOOLEAN,
    "finish_reason": STRING,
    "model": STRING,
    "tokens_in": BIGINT,
    "tokens_cached": BIGINT,
    "tokens_out": BIGINT,
    "latency_ms": BIGINT,
    "asked_at": TIMESTAMP,
    "request_id": STRING,
    "served_model": STRING,
    "served_fingerprint": STRING,
}
"""What the function gives of an answer: fields of :class:`~sqlenrich.llm.messages.Answer`."""
CLIENT_COLUMNS = ("request_hash", "attempt", "sent_hash", *ANSWER, "version", "fingerprint", "run_id")
"""The columns of ``responses`` that it fills, in their order."""


def call_facts(enrichment: Enrichment) -> dict[str, Any]:
    """Return what a client must know of an enrichment, and an answer that fits its schema."""
    return {
        "name": enrichment.name,
        "schema": enrichment.schema,
        "model": enrichment.model,
        "params": dict(enrichment.params),
        "engine_params": {key: dict(enrichment.engine_params.get(key, {})) for key in CLIENT_KEYS},
        "hint": enrichment.hint,
        **({"turns": [list(turn) for turn in enrichment.turns]} if enrichment.turns else {}),
        **({} if enrichment.embedding is None else {"embedding": asdict(enrichment.embedding)}),
        "repairs": enrichment.repairs,
        "sample": sample_answer(enrichment),
    }


def with_constant_of_client(query: Sql, plan: Plan) -> Sql:
    """Return the query of the prompts with the constant of the plugin's model as the symbol CONSTANT."""
    query = query.copy()
    for node in list(query.find_all(exp.Literal)):
        if node.is_string and node.this == plan.constant:
            node.replace(exp.select(symbol(CONSTANT), copy=False).subquery(copy=False))
    return query


def answers_of_client(engine: Engine, enrichment: Enrichment, run_id: Sql) -> exp.Select:
    """Return the SELECT that asks each pending request once, by the symbol ASK.

    An answer is read as it comes: none has a ``raw``. A request without an answer was not asked, and stays pending.
    """
    names = References(engine)
    calls = exp.select(*(names.col(name) for name in CARRIED), names.named(symbol(ASK), "a"), copy=False)
    calls = calls.from_(names.table("pending"), copy=False)
    values: dict[str, Sql] = {
        "request_hash": names.col("request_hash"),
        "attempt": names.col("attempt"),
        "sent_hash": names.col("request_hash"),
        **{name: names.col(name, "a") for name in ANSWER},
        "version": names.text(enrichment.version),
        "fingerprint": literal(enrichment.fingerprint),
        "run_id": run_id,
    }
    select = exp.select(*(names.named(values[name], name) for name in CLIENT_COLUMNS), copy=False)
    select = select.from_(exp.alias_(calls.subquery(copy=False), "asked", table=True, copy=False), copy=False)
    return select.where(exp.Not(this=exp.Is(this=names.col("a"), expression=exp.Null())), copy=False)


def client_pieces(engine: Engine, enrichment: Enrichment) -> dict[str, str]:
    """Return the Jinja of both functions: with ``sqlenrich_mock_sql`` the package gives SQL in their place."""
    call = string(print_sql(engine, literal(compact_json(call_facts(enrichment)))))
    given = f"{call}, {string(enrichment.name)}"
    return {name: f"{{{{ sqlenrich.{name.removeprefix('sqlenrich_')}({given}) }}}}" for name in (ASK, CONSTANT)}
