"""Databricks: ``ai_query`` over a serving endpoint, Delta tables. What is not named here is as on Spark."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp

from sqlenrich.core.engine import ModelCall, OutputSpec, ResponseFormat, VendorFact
from sqlenrich.core.sql import Sql, func, replace_table
from sqlenrich.engines.shared import case_mapping
from sqlenrich.engines.shared.model_params import NO_SAMPLING
from sqlenrich.engines.spark.call import ANSWERS
from sqlenrich.engines.spark.embed import embedding_function
from sqlenrich.engines.spark.engine import ENGINE as SPARK
from sqlenrich.engines.spark.json import parse_by_grammar
from sqlenrich.engines.spark.scripting import scripting
from sqlenrich.engines.spark.text import matches
from sqlenrich.schema.vendor.dialects import DATABRICKS
from sqlenrich.schema.vendor.response_format import json_schema_format

_DOCS = "https://docs.databricks.com/aws/en/sql/language-manual/functions/ai_query"
_MODEL_SERVICES = "https://docs.databricks.com/aws/en/ai-gateway/query-model-services"
_EMBEDDINGS = "https://docs.databricks.com/aws/machine-learning/model-serving/query-embedding-models"
SYSTEM_SCHEMA = "system.ai."
"""The schema of the models that Databricks hosts: model services of Unity Catalog."""
LEGACY_PREFIX = "databricks-"
"""How the names of the older endpoints of those models begin."""
RUNTIME = VendorFact(
    "Databricks Runtime 16.3", "https://docs.databricks.com/aws/en/sql/language-manual/sql-ref-scripting", "2026-11-25"
)
"""The oldest runtime that has all that a script uses: ai_query needs 15.4, SQL scripting 16.3."""
SIGNAL = VendorFact(
    "SIGNAL USER_RAISED_EXCEPTION SET MESSAGE_ARGUMENTS",
    "https://docs.databricks.com/gcp/sql/language-manual/control-flow/signal-stmt",
    "2026-11-25",
    settled_by="a script whose first 3 requests fail: its error must show why",
)
"""How a script raises an error whose text it computed: the message itself may only be a constant."""
COLUMN_NAMES = VendorFact(" ,;{}()\n\t=", "https://docs.databricks.com/aws/en/delta/column-mapping", "2026-11-22")
"""The characters that a column can't have unless the table's column mapping is on."""


def response_format(output: OutputSpec) -> ResponseFormat:
    """Return the ``json_schema`` envelope, the form that a live workspace takes. It refuses a bare schema and a DDL."""
    return json_schema_format(output, DATABRICKS)


def hashed_model(name: str) -> str:
    """Return the name in ``system.ai`` of a hosted model, whose older endpoint asks the same model."""
    hosted = name.startswith(LEGACY_PREFIX) and "." not in name
    return SYSTEM_SCHEMA + name.removeprefix(LEGACY_PREFIX) if hosted else ""


def must_exist(call: ModelCall) -> list[str]:
    """Return what the script needs beforehand."""
    service = re.fullmatch(r"[^.]+\.[^.]+\.[^.]+", call.model)
    catalog, schema = call.model.split(".")[:2] if service else ("", "")
    grants = [f"Needs: the serving endpoint {call.model} and CAN QUERY on it;"]
    if service:
        grants = [
            f"Needs: the model service {call.model} (Unity Catalog), and where it is not open to all users:",
            f"GRANT USE CATALOG ON CATALOG {catalog} TO `your_group`;",
            f"GRANT USE SCHEMA ON SCHEMA {catalog}.{schema} TO `your_group`;",
            f"and EXECUTE on {call.model} for the group, in Catalog Explorer;",
        ]
    elif call.model.startswith(LEGACY_PREFIX):
        newer = SYSTEM_SCHEMA + call.model.removeprefix(LEGACY_PREFIX)
        grants.append(f"Databricks ends the endpoints {LEGACY_PREFIX}* with 2026: write model: {newer};")
    return [*grants, f"a Pro or serverless SQL warehouse, or a cluster with {RUNTIME.value} or later"]


def column_problem(name: str) -> str | None:
    """Refuse what the columns of a Delta table without column mapping can't be named, quoted or not."""
    found = re.search(f"[{COLUMN_NAMES.value}]", name)
    if found is not None:
        return f"holds {found[0]!r}, which no column of a Delta table may"
    return SPARK.name_problem(name)


def _lower(text: Sql) -> Sql:
    """Runtimes before Spark 4 map with Java, which finds the end of a word by other rules than Python."""
    patterns = f"{case_mapping.NEW_CASE}|{case_mapping.ODD_SIGMA}"
    return case_mapping.guarded(matches, text, func("LOWER", text), patterns)


ENGINE = replace(
    SPARK,
    name="databricks",
    dialect="databricks",
    text=replace(SPARK.text, lower=_lower),
    scripting=scripting(
        "SET stopped = MAP(\n  'errorMessage', CONCAT({stopped}, problem)\n);\n" + f"{SIGNAL.value} = stopped;",
        "stopped MAP<STRING, STRING>",
        updates=True,
    ),
    json=replace(SPARK.json, parse=parse_by_grammar, slow_trim=False),
    create_table_as=replace_table,
    responses_properties=lambda: [exp.ClusterProperty(expressions=[exp.column("request_hash", quoted=True)])],
    facts={
        "call": VendorFact("ai_query", _DOCS, "2026-11-20"),
        "default_model": VendorFact(SYSTEM_SCHEMA + "meta-llama-3-3-70b-instruct", _MODEL_SERVICES, "2026-11-22"),
        "legacy_endpoints": VendorFact(
            LEGACY_PREFIX, "https://docs.databricks.com/aws/en/ai-gateway/migrate-to-unity-gateway", "2026-11-22"
        ),
        "column_names": COLUMN_NAMES,
        "cluster_by": VendorFact("CLUSTER BY", "https://docs.databricks.com/aws/en/delta/clustering", "2026-11-22"),
        "functions": VendorFact(
            "CREATE TEMPORARY FUNCTION ... RETURN",
            "https://docs.databricks.com/aws/en/sql/language-manual/sql-ref-syntax-ddl-create-sql-function; whether an "
            "UPDATE may call one is not documented",
            "2026-11-22",
            settled_by="an UPDATE that calls a temporary function, in a SQL warehouse; until then it is inline",
        ),
        **ANSWERS.facts,
        "runtime": RUNTIME,
        "signal": SIGNAL,
    },
    params={**SPARK.params, "seed": None},
    params_by_model=NO_SAMPLING,
    response_format=response_format,
    embedding=embedding_function(
        VendorFact("ai_query", _EMBEDDINGS, "2026-11-23"),
        VendorFact("databricks-gte-large-en", _EMBEDDINGS, "2026-11-23"),
        VendorFact(
            {"gte-large-en": 1024, "bge-large-en": 1024},
            "https://docs.praison.ai/docs/embeddings/providers/databricks",
            "2026-11-23",
            settled_by="one request of each model: a vector of another length is refused as BAD_LENGTH",
        ),
    ),
    updates=True,
    keeps_deleted="the files of earlier versions hold deleted rows, until VACUUM after 7 days by default. "
    "ALTER TABLE ... SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 1 day'), then VACUUM",
    hashed_model=hashed_model,
    must_exist=must_exist,
    column_problem=column_problem,
)
