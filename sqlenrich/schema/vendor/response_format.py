"""OpenAI's ``response_format``, which most servers and Databricks take, and what a server accepts of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from sqlenrich.core.engine import OutputSpec, ResponseFormat
from sqlenrich.schema.json_schema import json_schema
from sqlenrich.schema.vendor.dialects import ANTHROPIC, DATABRICKS, GEMINI, OPENAI, XGRAMMAR, Dialect
from sqlenrich.schema.vendor.openai_strict import strict_part
from sqlenrich.schema.vendor.subset import vendor_part


def json_schema_format(output: OutputSpec, dialect: Dialect = XGRAMMAR) -> ResponseFormat:
    """Return OpenAI's ``response_format`` of an output, ``strict`` where the schema allows it.

    See :func:`.openai_strict.strict_part` for what strict mode does to optional properties; with the repair
    ``null_as_absent`` each of them may be null.
    """
    part, left_out = vendor_part(output.schema, dialect)
    if part is None:
        return ResponseFormat(None, left_out)
    strict = strict_part(part, left_out=left_out, nullable="null_as_absent" in output.repairs)
    form: dict[str, Any] = {"name": output.name[:64], "schema": json_schema(part if strict is None else strict)}
    if strict is not None:
        form["strict"] = True
    return ResponseFormat({"type": "json_schema", "json_schema": form}, left_out)


NAMED: Mapping[str, Dialect] = {
    "openai": OPENAI,
    "vllm": XGRAMMAR,
    "databricks": DATABRICKS,
    "gemini": GEMINI,
    "anthropic": ANTHROPIC,
}
"""The dialects of servers by the names that settings use."""
_HOSTS: tuple[tuple[tuple[str, ...], Dialect], ...] = (
    ((".openai.com", ".openai.azure.com"), OPENAI),
    ((".cloud.databricks.com", ".azuredatabricks.net", ".gcp.databricks.com"), DATABRICKS),
    (("generativelanguage.googleapis.com", "aiplatform.googleapis.com"), GEMINI),
)


def dialect_of(url: str, named: str | None = None) -> Dialect:
    """Return the dialect of the server at a URL. OpenAI's servers refuse keywords that vLLM and others need."""
    if named is not None:
        return NAMED[named]
    host = urlsplit(url).hostname or ""
    return next((dialect for ends, dialect in _HOSTS if host.endswith(ends)), XGRAMMAR)
