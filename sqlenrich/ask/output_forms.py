"""How an endpoint is told the form of an answer: by a schema, by JSON alone, or by words in the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.engine import OutputSpec, ResponseFormat
from sqlenrich.llm.endpoint.request_config import OutputForm
from sqlenrich.llm.endpoint.wire.apis import ANTHROPIC_HOST, api_of
from sqlenrich.plan.model import output_of
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.schema.json_schema import hint_text
from sqlenrich.schema.vendor.response_format import dialect_of, json_schema_format
from sqlenrich.spec.enrichment import Enrichment

FROM_BEST = ("json_schema", "json_object", "none")
FORMS_OF: Mapping[str, tuple[str, ...]] = {"anthropic": ("json_schema", "none"), "kserve": ("none",)}
"""The forms that an API has, where it lacks one."""
IGNORES_SCHEMA = 'ignores schemas on its OpenAI layer: remove api = "openai" from its settings'
"""https://platform.claude.com/docs/en/api/openai-sdk, read 2026-11-27: ``response_format`` is ignored."""


def output_forms(enrichment: Enrichment, resolved: ResolvedModel, endpoint: Endpoint | None) -> tuple[OutputForm, ...]:
    """Return the form that a run asks with, and those that it falls back to, best first.

    An endpoint of ``structured_output = "auto"`` that refuses one is asked with the next. The hint follows the prompt
    wherever no schema is sent, unless the file says otherwise. It is then no part of the request's hash: a stored
    answer stays one, whichever form an endpoint takes.
    """
    if enrichment.embedding is not None:
        return (OutputForm("none", None, None),)
    schema = schema_format(output_of(enrichment, resolved), endpoint).form
    hint = None if enrichment.hint == "never" else hint_text(enrichment.schema)
    forms = {
        "json_schema": OutputForm("json_schema", schema, None),
        "json_object": OutputForm("json_object", {"type": "json_object"}, hint),
        "none": OutputForm("none", None, hint),
    }
    if enrichment.hint == "always":
        return (forms["none"],)
    names = _names(endpoint)
    return tuple(forms[name] for name in names if forms[name].response_format is not None or name == "none") or (
        forms["none"],
    )


def schema_format(output: OutputSpec, endpoint: Endpoint | None) -> ResponseFormat:
    """Return the response format of an output, with the part of its schema that an endpoint takes."""
    if endpoint is None:
        return json_schema_format(output)
    named = "anthropic" if endpoint.dialect is None and api_of(endpoint) == "anthropic" else endpoint.dialect
    return json_schema_format(output, dialect_of(endpoint.url, named))


def why_no_schema(endpoint: Endpoint) -> str:
    """Return why an endpoint is not told the schema, "" where it is, as far as that is known before it is asked."""
    if "json_schema" in _names(endpoint):
        return ""
    if ignores_schema(endpoint):
        return f"Anthropic {IGNORES_SCHEMA}"
    return "api: kserve" if api_of(endpoint) == "kserve" else f"structured_output: {endpoint.structured_output}"


def ignores_schema(endpoint: Endpoint) -> bool:
    """Whether the endpoint takes a schema and ignores it."""
    return api_of(endpoint) == "openai" and urlsplit(endpoint.url).hostname == ANTHROPIC_HOST


def _names(endpoint: Endpoint | None) -> list[str]:
    """Return the names of the forms that an endpoint is asked with, best first."""
    if endpoint is None:
        return list(FROM_BEST)
    wanted = endpoint.structured_output
    known = ("none",) if ignores_schema(endpoint) else FORMS_OF.get(api_of(endpoint), FROM_BEST)
    return [name for name in known if wanted in ("auto", name)]
