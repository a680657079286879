"""How an endpoint is told the form of an answer: by a schema, by JSON alone, or by words in the prompt."""

from __future__ import annotations

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.llm.endpoint.request_config import OutputForm
from sqlenrich.plan.model import output_of
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.schema.json_schema import hint_text
from sqlenrich.schema.vendor.response_format import dialect_of, json_schema_format
from sqlenrich.spec.enrichment import Enrichment

FROM_BEST = ("json_schema", "json_object", "none")


def output_forms(enrichment: Enrichment, resolved: ResolvedModel, endpoint: Endpoint | None) -> tuple[OutputForm, ...]:
    """Return the form that a run asks with, and those that it falls back to, best first.

    An endpoint of ``structured_output = "auto"`` that refuses one is asked with the next. The hint follows the prompt
    wherever no schema is sent, unless the file says otherwise. It is then no part of the request's hash: a stored
    answer stays one, whichever form an endpoint takes.
    """
    if enrichment.embedding is not None:
        return (OutputForm("none", None, None),)
    url, named = ("", None) if endpoint is None else (endpoint.url, endpoint.dialect)
    schema = json_schema_format(output_of(enrichment, resolved), dialect_of(url, named)).form
    hint = None if enrichment.hint == "never" else hint_text(enrichment.schema)
    forms = {
        "json_schema": OutputForm("json_schema", schema, None),
        "json_object": OutputForm("json_object", {"type": "json_object"}, hint),
        "none": OutputForm("none", None, hint),
    }
    if enrichment.hint == "always":
        return (forms["none"],)
    wanted = "auto" if endpoint is None else endpoint.structured_output
    names = FROM_BEST if wanted == "auto" else (wanted,)
    return tuple(forms[name] for name in names if forms[name].response_format is not None or name == "none") or (
        forms["none"],
    )


def sends_schema(enrichment: Enrichment, endpoint: Endpoint | None) -> bool:
    """Whether the endpoint is told the schema, as far as that is known before it is asked."""
    wanted = "auto" if endpoint is None else endpoint.structured_output
    return enrichment.hint != "always" and wanted in ("auto", "json_schema")
