"""The model of a client run: the mock, or an endpoint of the caller, the settings or the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from sqlenrich.core.errors import ConfigError, RunError, did_you_mean
from sqlenrich.core.json import compact_json
from sqlenrich.engines import get_engine
from sqlenrich.plan.model import output_of, resolve_model
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.schema import build_checks, evaluate_checks
from sqlenrich.schema.json_schema import hint_text
from sqlenrich.schema.vendor.response_format import dialect_of, json_schema_format
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.run_settings import Mock
from sqlenrich.spec.settings import LIMITS, Config, Endpoint

if TYPE_CHECKING:
    from sqlenrich.llm.model import Model
    from sqlenrich.llm.throttle.budget import Budget


MOCK = "mock"
CLIENT_ENGINE = "duckdb"
"""The engine whose parameter names are those of an OpenAI-compatible endpoint."""


class ModelOptions(TypedDict, total=False):
    """The shorthands that name the model of a run, in place of an Endpoint or a Mock."""

    endpoint: str | None
    mock: bool
    mock_failures: Mapping[str, float] | None
    concurrency: int | None
    prefix_order: bool


@dataclass(frozen=True)
class WantedModel:
    """The model that a caller names: an endpoint, the mock, or what the settings name."""

    name: str | None = None
    """A model's own name or an alias; None: the file's."""
    endpoint: Endpoint | str | None = None
    """An endpoint, or an URL or a name of ``sqlenrich.toml``; None: the settings' or the environment's."""
    mock: Mock | None = None
    concurrency: int | None = None
    prefix_order: bool = True


def wanted_model(model: Endpoint | Mock | str | None = None, **options: Unpack[ModelOptions]) -> WantedModel:
    """Give the model that ``model`` or its shorthands name. Raises ConfigError where they contradict each other."""
    endpoint, failures = options.get("endpoint"), options.get("mock_failures")
    concurrency, ordered = options.get("concurrency"), options.get("prefix_order", True)
    if isinstance(model, Endpoint | Mock) and (endpoint is not None or options.get("mock") or failures):
        raise ConfigError("give model=Endpoint(...) or model=Mock(...), or their shorthands, not both")
    if isinstance(model, Endpoint):
        return WantedModel(model.model, model, None, concurrency, ordered)
    if isinstance(model, Mock):
        return WantedModel(None, None, model, concurrency, ordered)
    if options.get("mock"):
        if endpoint is not None or model is not None:
            raise ConfigError("--mock asks nobody: give it without --endpoint and --model")
        return WantedModel(None, None, Mock(failures or {}), concurrency, ordered)
    if failures:
        raise ConfigError("--mock-failures goes with --mock: an endpoint fails by itself")
    return WantedModel(model, endpoint, None, concurrency, ordered)


@dataclass(frozen=True)
class ModelChoice:
    """The model of a run: made ready, with its identity for the hash and its limits."""

    model: Model
    resolved: ResolvedModel
    concurrency: int
    """Requests in flight at most, for a model that does not decide that by itself."""
    where: str
    own: ResolvedModel
    """What the file and the settings of models say alone: less what the endpoint is always sent."""
    budget: Budget | None = None
    """What the run may use at most."""
    prefix_order: bool = False
    """Whether requests with an equal beginning go one after another: most endpoints read such a beginning once."""
    endpoint: Endpoint | None = None
    """The settings of the endpoint, None for the mock model."""

    def with_params(self, resolved: ResolvedModel) -> ModelChoice:
        """Give the same model with other parameters."""
        from sqlenrich.llm.endpoint.model import EndpointModel

        if resolved == self.resolved or not isinstance(self.model, EndpointModel):
            return self
        config = replace(self.model.config, params=resolved.params)
        return replace(self, model=EndpointModel(config, limiter=self.model.limiter), resolved=resolved)


def choose_model(
    enrichment: Enrichment, config: Config, wanted: WantedModel, budget: Budget | None = None
) -> ModelChoice:
    """Give the model of a run: the mock, or an endpoint of the caller, the settings or the environment."""
    if wanted.mock is not None:
        return _mock(enrichment, wanted.mock, wanted.concurrency, budget)
    settings = wanted.endpoint if isinstance(wanted.endpoint, Endpoint) else config.endpoint(wanted.endpoint)
    return _endpoint(enrichment, config, settings, wanted, budget)


def _mock(enrichment: Enrichment, mock: Mock, concurrency: int | None, budget: Budget | None) -> ModelChoice:
    from sqlenrich.llm.mock.model import MockModel

    named = resolve_model(enrichment, get_engine(CLIENT_ENGINE), MOCK)
    # An endpoint may serve a model of this name: its answers are others.
    resolved = replace(named, params={**named.params, "sqlenrich": MOCK})
    try:
        answers = MockModel(enrichment.schema, failures=mock.failures or None, validator=_validator)
    except ValueError as error:
        raise ConfigError(f"--mock: {error}") from None
    return ModelChoice(answers, resolved, concurrency or 64, "", named, budget)


def _endpoint(
    enrichment: Enrichment, config: Config, settings: Endpoint, wanted: WantedModel, budget: Budget | None
) -> ModelChoice:
    from sqlenrich.llm.endpoint.api_key import EnvironmentKey, resolve_key
    from sqlenrich.llm.endpoint.model import EndpointConfig, EndpointModel
    from sqlenrich.llm.throttle.limits import Limits

    place = settings.origin or "the endpoint"
    named = not settings.origin or settings.origin.startswith("endpoints.")
    if named and settings.api_key_env and settings.api_key is None:
        raise ConfigError(f"the variable {settings.api_key_env}, which {place} names as api_key_env, is not set")
    urls = (settings.url, *settings.others)
    key = EnvironmentKey(settings.api_key_env) if settings.api_key_env else None
    resolve_key(key)  # a key that no header can hold is refused before anything is sent
    checked = EndpointConfig(url=urls, model="", api_key=key)
    own = _own_model(enrichment, config, settings, wanted.name)
    taken = sorted({*own.params, "response_format"} & set(settings.extra_body))
    if taken:
        raise ConfigError(f"{', '.join(taken)} of {place}.extra_body is set by sqlenrich: write it under params")
    if budget is not None and budget.max_cost is not None:
        set_prices(budget, config, own.name)
    # What an endpoint is always sent decides its answers too.
    resolved = replace(own, params={**own.params, **settings.extra_body})
    per_minute = {name: getattr(settings, name) for name in LIMITS}
    vendor_schema = json_schema_format(output_of(enrichment, resolved), dialect_of(settings.url))
    client = replace(
        checked,
        model=resolved.name,
        limits=Limits(wanted.concurrency or settings.concurrency, **per_minute),
        timeout_s=settings.timeout,
        params=resolved.params,
        response_format=None if enrichment.hint == "always" else vendor_schema.form,
        hint=hint_text(enrichment.schema) if enrichment.hint == "always" else None,
    )
    asked = EndpointModel(client, budget=budget)
    # Two rows share no beginning where the prompt is one text and one value behind it.
    ordered = wanted.prefix_order and settings.prefix_order and len(enrichment.prompt().columns) > 1
    where = " and ".join(site.shown for site in asked.endpoint_urls)
    return ModelChoice(asked, resolved, asked.limiter.max_concurrency, f" at {where}", own, budget, ordered, settings)


def _own_model(enrichment: Enrichment, config: Config, settings: Endpoint, name: str | None) -> ResolvedModel:
    """Give the model by the file and the settings of models; an endpoint without one is asked for its only model."""
    wanted = name or enrichment.model
    alias = config.model(wanted, "endpoint")
    if alias is None and wanted != "default":
        raise ConfigError(f'the model "{wanted}" has no name for an endpoint: write endpoint under [models.{wanted}]')
    found = alias.name if alias is not None else only_model(settings)
    return resolve_model(enrichment, get_engine(CLIENT_ENGINE), found, alias.params if alias is not None else None)


def _validator(schema: Mapping[str, Any]) -> Callable[[Any], bool]:
    """Give the test of a value: the checks of an answer that holds it."""
    checks = build_checks({"type": ["object"], "properties": {"v": schema}, "required": ["v"]})
    return lambda value: evaluate_checks(checks, compact_json({"v": value})) is None


def set_prices(budget: Budget, config: Config, model: str) -> None:
    """Give the budget of a run what its model costs. Raises ConfigError where that is unknown."""
    if config.prices is None:
        raise ConfigError("max_cost needs prices: give --prices FILE, or write prices in sqlenrich.toml")
    price = config.prices.models.get(model)
    if price is None:
        near = did_you_mean(model, config.prices.models)
        raise ConfigError(
            f'max_cost needs the price of "{model}"{near}: write [models."{model}"] in {config.prices.path}'
        )
    budget.price = price.exact


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
