"""What all requests of a run share, taken from the model that it asks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sqlenrich.ask.model_choice import ModelChoice
from sqlenrich.core.engine import ModelCall
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.store.shared_request import (
    ENDPOINT,
    ENGINE,
    MOCK_MODEL,
    RECORDED,
    SharedCall,
    SharedForm,
    SharedRequest,
    without_secrets,
)

if TYPE_CHECKING:
    from sqlenrich.spec.prices import Prices

_SECRET_HEADER = re.compile("auth|key|token|secret|cookie|password", re.IGNORECASE)


def shared_request(
    enrichment: Enrichment,
    choice: ModelChoice,
    engine: str,
    calls: Iterable[tuple[ResolvedModel, str]],
    prices: Prices | None,
    in_sql: ModelCall | None = None,
    *,
    retry: bool = False,
) -> SharedRequest:
    """Return what the requests of a run share; ``in_sql`` is the call of the engine's own function, where it asks.

    ``calls`` are the models of the run's calls, each with its constant.
    """
    from sqlenrich.ask.recorded import Recorded
    from sqlenrich.llm.endpoint.model import EndpointModel
    from sqlenrich.llm.endpoint.wire.apis import form_name

    forms: tuple[SharedForm, ...] = ()
    extra: Mapping[str, Any] = {}
    api = "openai"
    asked, secrets = RECORDED if isinstance(choice.model, Recorded) else MOCK_MODEL, frozenset[str]()
    if in_sql is not None:
        asked, forms = ENGINE, (SharedForm("engine", in_sql.response_format, in_sql.hint),)
    elif isinstance(choice.model, EndpointModel):
        sent, endpoint = choice.model.config, choice.model.endpoint
        asked, extra, api = ENDPOINT, endpoint.extra_body, form_name(endpoint)
        kind = "none" if sent.response_format is None else str(sent.response_format["type"])
        forms = (SharedForm(kind, sent.response_format, sent.hint), *(SharedForm(*form) for form in sent.fallbacks))
        known = endpoint.resolve_key() if endpoint.api_key_command is None else None
        headers = (value for name, value in endpoint.resolve_headers().items() if _SECRET_HEADER.search(name))
        secrets = frozenset(value for value in (known, *headers) if value)
    withheld: list[str] = []
    price = None if prices is None else prices.models.get(choice.resolved.name)
    of_params = {constant: without_secrets("", one.params, withheld, secrets) for one, constant in calls}
    return SharedRequest(
        asked=asked,
        engine=engine,
        model=choice.resolved.name,
        calls=tuple(SharedCall(constant, params) for constant, params in of_params.items()),
        forms=forms,
        extra_body=without_secrets("", extra, withheld, secrets),
        turns=enrichment.turns,
        hint_hashed=enrichment.hint == "always" if in_sql is None else in_sql.hint is not None,
        contract=enrichment.contract,
        feedback=enrichment.feedback,
        price=None if price is None else {k: str(v) for k, v in asdict(price).items() if v is not None},
        retry=retry,
        withheld=tuple(dict.fromkeys(withheld)),
        api=api,
    )
