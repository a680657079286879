"""Whom a client run asks: the mock model, or an endpoint of the flags, the settings or the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlenrich.core.errors import ConfigError, RunError, did_you_mean
from sqlenrich.core.json import compact_json
from sqlenrich.engines import get_engine
from sqlenrich.plan.compile import output_of, resolve_model
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.schema import build_tests, judge
from sqlenrich.schema.json_schema import hint_text
from sqlenrich.schema.vendor.response_format import dialect_of, json_schema_format
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.settings import LIMITS, Config, Endpoint

if TYPE_CHECKING:
    from sqlenrich.llm.model import Model
    from sqlenrich.llm.throttle.budget import Caps


MOCK = "mock"


@dataclass(frozen=True)
class Ask:
    """Whom a client run asks: a model made ready, its identity for the hash, and how many at a time."""

    model: Model
    resolved: ResolvedModel
    concurrency: int
    """Requests in flight at most, for a model that does not decide that by itself."""
    where: str
    own: ResolvedModel
    """What the file and the settings of models say alone: less what the endpoint is always sent."""
    caps: Caps | None = None
    """What the run may use at most."""
    prefix_order: bool = False
    """Whether requests with an equal beginning go one after another: most endpoints read such a beginning once."""


def with_params(ask: Ask, resolved: ResolvedModel) -> Ask:
    """Give whom to ask with other parameters."""
    from sqlenrich.llm.endpoint.model import EndpointModel

    if resolved == ask.resolved or not isinstance(ask.model, EndpointModel):
        return ask
    config = replace(ask.model.config, params=resolved.params)
    return replace(ask, model=EndpointModel(config, limiter=ask.model.limiter), resolved=resolved)


def choose_model(
    enrichment: Enrichment,
    config: Config,
    *,
    endpoint: str | None,
    model: str | None,
    mock: bool,
    failures: Mapping[str, float] | None = None,
    concurrency: int | None = None,
    caps: Caps | None = None,
    prefix_order: bool = True,
) -> Ask:
    """Give whom to ask: the mock model, or an endpoint of the flags, the settings or the environment."""
    from sqlenrich.llm.endpoint.api_key import EnvironmentKey, resolve_key
    from sqlenrich.llm.endpoint.model import EndpointConfig, EndpointModel
    from sqlenrich.llm.throttle.limits import Limits

    engine = get_engine("duckdb")
    if mock:
        from sqlenrich.llm.mock.model import MockModel

        if endpoint is not None or model is not None:
            raise ConfigError("--mock asks nobody: give it without --endpoint and --model")
        named = resolve_model(enrichment, engine, MOCK)
        # An endpoint may serve a model of this name: its answers are others.
        resolved = replace(named, params={**named.params, "sqlenrich": MOCK})
        try:
            answers = MockModel(enrichment.schema, failures=failures, judge=_test)
        except ValueError as error:
            raise ConfigError(f"--mock: {error}") from None
        return Ask(answers, resolved, concurrency or 64, "", named, caps)
    if failures:
        raise ConfigError("--mock-failures goes with --mock: an endpoint fails by itself")
    settings = config.endpoint(endpoint)
    if settings.origin.startswith("endpoints.") and settings.api_key_env and settings.api_key is None:
        raise ConfigError(
            f"the variable {settings.api_key_env}, which {settings.origin} names as api_key_env, is not set"
        )
    wanted = model or enrichment.model
    alias = config.model(wanted, "endpoint")
    if alias is None and wanted != "default":
        raise ConfigError(f'the model "{wanted}" has no name for an endpoint: write endpoint under [models.{wanted}]')
    urls = (settings.url, *settings.others)
    key = EnvironmentKey(settings.api_key_env) if settings.api_key_env else None
    resolve_key(key)
    checked = EndpointConfig(url=urls, model="", api_key=key)  # before anything is sent there
    name = alias.name if alias is not None else only_model(settings)
    own = resolve_model(enrichment, engine, name, alias.params if alias is not None else None)
    taken = sorted({*own.params, "response_format"} & set(settings.extra_body))
    if taken:
        raise ConfigError(
            f"{', '.join(taken)} of {settings.origin}.extra_body is set by sqlenrich: write it under params"
        )
    if caps is not None and caps.max_cost is not None:
        set_prices(caps, config, own.name)
    # What an endpoint is always sent decides its answers too.
    resolved = replace(own, params={**own.params, **settings.extra_body})
    per_minute = {name: getattr(settings, name) for name in LIMITS}
    told = json_schema_format(output_of(enrichment, resolved), dialect_of(settings.url))
    client = replace(
        checked,
        model=resolved.name,
        limits=Limits(concurrency or settings.concurrency, **per_minute),
        timeout_s=settings.timeout,
        params=resolved.params,
        response_format=None if enrichment.hint == "always" else told.form,
        hint=hint_text(enrichment.schema) if enrichment.hint == "always" else None,
    )
    asked = EndpointModel(client, caps=caps)
    # Behind one text alone at the end of the prompt stands nothing that two rows could share.
    ordered = prefix_order and settings.prefix_order and len(enrichment.prompt().columns) > 1
    where = " and ".join(site.shown for site in asked.endpoint_urls)
    return Ask(asked, resolved, asked.limiter.max_concurrency, f" at {where}", own, caps, ordered)


def _test(schema: Mapping[str, Any]) -> Callable[[Any], bool]:
    """Give the test of one value: the verdict on an answer that holds it."""
    verdicts = build_tests({"type": ["object"], "properties": {"v": schema}, "required": ["v"]})
    return lambda value: judge(verdicts, compact_json({"v": value})) is None


def set_prices(caps: Caps, config: Config, model: str) -> None:
    """Tell the caps of a run what its model costs. Raises ConfigError where that is unknown."""
    if config.prices is None:
        raise ConfigError("max_cost needs prices: give --prices FILE, or write prices in sqlenrich.toml")
    price = config.prices.models.get(model)
    if price is None:
        near = did_you_mean(model, config.prices.models)
        raise ConfigError(
            f'max_cost needs the price of "{model}"{near}: write [models."{model}"] in {config.prices.path}'
        )
    caps.price = price.exact


def only_model(settings: Endpoint) -> str:
    """Ask an endpoint for its models and give the only one. Raises ConfigError where there is none or a choice.

    Of several urls the first one that tells decides. Raises RunError where none answers.
    """
    from sqlenrich.llm.endpoint.server_info import list_models

    names: list[str] = []
    failures: list[RunError] = []
    urls = (settings.url, *settings.others)
    for url in urls:
        try:
            names = list_models(url, settings.api_key)
        except RunError as error:
            failures.append(error)
        if names:
            break
    if len(failures) == len(urls):
        raise failures[0]
    if len(names) == 1:
        return names[0]
    offered = f"the endpoint has: {', '.join(names[:20])}" if names else "the endpoint names none"
    raise ConfigError(f"which model? Give --model, or models.default.endpoint in sqlenrich.toml; {offered}")
