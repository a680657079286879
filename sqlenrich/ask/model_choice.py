"""The model of a client run: the mock, or an endpoint of the caller, the settings or the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict, Unpack

from sqlenrich.ask.output_forms import IGNORES_SCHEMA, ignores_schema, output_forms
from sqlenrich.core.embedding import DEFAULT_ALIASES
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import ConfigError, RunError, did_you_mean
from sqlenrich.engines import get_engine
from sqlenrich.plan.model import resolve_model
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.renderer.script import model_for
from sqlenrich.schema import value_test
from sqlenrich.schema.json_schema import hint_text
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.prices import Price
from sqlenrich.spec.run_settings import AnyModel, LocalModel, Mock
from sqlenrich.spec.settings import Config

if TYPE_CHECKING:
    from sqlenrich.llm.endpoint.adaptations import RequestChange
    from sqlenrich.llm.endpoint.request_config import RequestConfig
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
    local: LocalModel | None = None
    concurrency: int | None = None
    prefix_order: bool = True


def wanted_model(model: AnyModel | None = None, **options: Unpack[ModelOptions]) -> WantedModel:
    """Return the model that ``model`` or its shorthands name. Raises ConfigError where they contradict each other."""
    served = getattr(model, "endpoint", None)
    if isinstance(served, Endpoint):  # servers that the caller started
        model = served
    endpoint, failures = options.get("endpoint"), options.get("mock_failures")
    concurrency, ordered = options.get("concurrency"), options.get("prefix_order", True)
    if isinstance(model, Endpoint | Mock | LocalModel) and (endpoint is not None or options.get("mock") or failures):
        raise ConfigError("give model=Endpoint(...), Mock(...) or LocalModel(...), or a shorthand, not both")
    if isinstance(model, Endpoint):
        return WantedModel(model.model, model, concurrency=concurrency, prefix_order=ordered)
    if isinstance(model, Mock):
        return WantedModel(mock=model, concurrency=concurrency, prefix_order=ordered)
    if isinstance(model, LocalModel):
        if concurrency is not None:
            raise ConfigError("a LocalModel is asked a batch at a time: give LocalModel(batch=...), no concurrency")
        return WantedModel(local=model, prefix_order=ordered)
    if options.get("mock"):
        if endpoint is not None or model is not None:
            raise ConfigError("--mock asks nobody: give it without --endpoint and --model")
        return WantedModel(mock=Mock(failures or {}), concurrency=concurrency, prefix_order=ordered)
    if failures:
        raise ConfigError("--mock-failures goes with --mock: an endpoint fails by itself")
    return WantedModel(model, endpoint, concurrency=concurrency, prefix_order=ordered)


@dataclass(frozen=True)
class ModelChoice:
    """The model of a run: made ready, with its identity for the hash and its limits."""

    model: Model | None
    """None: the warehouse's own function asks."""
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
    """The endpoint with the concurrency that the caller names, None for the mock model."""
    price: Price | None = None
    """The price by which ``max_cost`` is counted; None without that cap."""

    @property
    def texts_per_call(self) -> int:
        """How many requests go with one call at most."""
        return 1 if self.model is None else self.model.traits.batch

    @property
    def asks_in_sql(self) -> bool:
        """Whether the warehouse's own function asks."""
        return self.model is None

    def with_params(self, resolved: ResolvedModel) -> ModelChoice:
        """Return the same model with other parameters."""
        from sqlenrich.llm.endpoint.batched_model import endpoint_model
        from sqlenrich.llm.endpoint.model import EndpointModel

        if self.asks_in_sql:
            return replace(self, resolved=resolved)
        if resolved == self.resolved or not isinstance(self.model, EndpointModel):
            return self
        config = replace(self.model.config, params=resolved.params)
        model = endpoint_model(self.model.endpoint, config, limiter=self.model.limiter)
        return replace(self, model=model, resolved=resolved)


def request_changes(choice: ModelChoice) -> tuple[RequestChange, ...]:
    """Return what the requests of a model have otherwise since its endpoint refused something."""
    found: tuple[RequestChange, ...] = getattr(choice.model, "changes", ())
    return found


def choose_model(
    enrichment: Enrichment, config: Config, wanted: WantedModel, budget: Budget | None = None
) -> ModelChoice:
    """Return the model of a run: the mock, or an endpoint of the caller, the settings or the environment."""
    if wanted.mock is not None:
        name = MOCK if wanted.name is None else f"{MOCK}-{wanted.name}"
        return _mock(enrichment, wanted.mock, name, wanted.concurrency, budget)
    if wanted.local is not None:
        return _local(enrichment, wanted.local, budget, ordered=wanted.prefix_order)
    settings = wanted.endpoint if isinstance(wanted.endpoint, Endpoint) else config.endpoint(wanted.endpoint)
    settings = replace(settings, concurrency=wanted.concurrency or settings.concurrency)
    return _endpoint(enrichment, config, settings, wanted, budget)


def sql_model(
    enrichment: Enrichment, engine: str, config: Config, wanted: WantedModel, budget: Budget | None
) -> ModelChoice:
    """Return the model that a warehouse's own function asks. Raises ConfigError for what it can't do."""
    if wanted.mock is not None:
        raise ConfigError(f"{engine}: --mock invents answers, which no warehouse keeps; use it with a .duckdb output")
    resolved = model_for(enrichment, engine, config, wanted.name)
    price = set_prices(budget, config, resolved.name)
    if price is not None and enrichment.params.get("max_tokens") is None and enrichment.embedding is None:
        raise ConfigError("max_cost needs the most that an answer may take: write params: {max_tokens: ...}")
    return ModelChoice(None, resolved, 0, f" on {engine}", resolved, budget, price=price)


def _mock(enrichment: Enrichment, mock: Mock, name: str, concurrency: int | None, budget: Budget | None) -> ModelChoice:
    from sqlenrich.llm.mock.model import MockModel

    named = resolve_model(enrichment, get_engine(CLIENT_ENGINE), name)
    # An endpoint may serve a model of this name: its answers are others.
    resolved = replace(named, params={**named.params, "sqlenrich": MOCK})
    try:
        answers = MockModel(
            enrichment.schema,
            failures=mock.failures or None,
            validator=value_test,
            embedding=enrichment.embedding,
            name=name,
        )
    except ValueError as error:
        raise ConfigError(f"--mock: {error}") from None
    return ModelChoice(answers, resolved, concurrency or 64, "", named, budget)


def local_hint(enrichment: Enrichment) -> str | None:
    """Return what follows each prompt of a model that is told the form of an answer in words alone."""
    return None if enrichment.embedding is not None or enrichment.hint == "never" else hint_text(enrichment.schema)


def _local(enrichment: Enrichment, local: LocalModel, budget: Budget | None, *, ordered: bool) -> ModelChoice:
    from sqlenrich.llm.local.model import LocalConfig, LocalProcessModel
    from sqlenrich.llm.local.process import pickled

    if budget is not None and budget.max_cost is not None:
        raise ConfigError("max_cost: a LocalModel has no price; max_calls and max_rows end its runs")
    named = resolve_model(enrichment, get_engine(CLIENT_ENGINE), local.name)
    # An endpoint may serve a model of this name: its answers are others.
    resolved = replace(named, params={**named.params, "sqlenrich": "local", "version": local.version})
    config = LocalConfig(
        local.name,
        pickled(local.factory, local.name),
        local.batch,
        local.timeout,
        enrichment.turns,
        local_hint(enrichment),
        enrichment.embedding,
        local.per,
    )
    model = LocalProcessModel(config)
    return ModelChoice(model, resolved, model.concurrency, " in a process of its own", named, budget, ordered)


def _endpoint(
    enrichment: Enrichment, config: Config, settings: Endpoint, wanted: WantedModel, budget: Budget | None
) -> ModelChoice:
    from sqlenrich.llm.endpoint.batched_model import endpoint_model

    place = settings.origin or "the endpoint"
    named = not settings.origin or settings.origin.startswith("endpoints.")
    if named and settings.api_key_env and settings.api_key_env not in os.environ:
        raise ConfigError(f"the variable {settings.api_key_env}, which {place} names as api_key_env, is not set")
    settings.resolve_headers()
    if settings.api_key_command is None:
        settings.resolve_key()  # a key that no header can hold is refused before anything is sent
    own = _own_model(enrichment, config, settings, wanted.name)
    ours = ("response_format",) if enrichment.embedding is None else ("dimensions", "encoding_format")
    taken = sorted({*own.params, *ours} & set(settings.extra_body))
    if taken:
        raise ConfigError(f"{', '.join(taken)} of {place}.extra_body is set by sqlenrich: write it under params")
    price = set_prices(budget, config, own.name)
    # What an endpoint is always sent decides its answers too.
    resolved = replace(own, params={**own.params, **settings.always_sent})
    asked = endpoint_model(settings, request_config(enrichment, resolved, settings), budget=budget)
    if enrichment.embedding is None and ignores_schema(settings):
        asked.warn(IGNORES_SCHEMA)
    # Two rows share no beginning where the prompt is one text and one value behind it.
    shared = enrichment.embedding is None and len(enrichment.prompt().columns) > 1
    ordered = wanted.prefix_order and settings.prefix_order and shared
    where = " and ".join(site.shown for site in asked.endpoint_urls)
    concurrency = asked.limiter.max_concurrency
    return ModelChoice(asked, resolved, concurrency, f" at {where}", own, budget, ordered, settings, price)


def request_config(enrichment: Enrichment, resolved: ResolvedModel, endpoint: Endpoint) -> RequestConfig:
    """Return what every request to an endpoint is sent with."""
    from sqlenrich.llm.endpoint.request_config import RequestConfig

    form, *fallbacks = output_forms(enrichment, resolved, endpoint)
    return RequestConfig(
        resolved.name,
        params=resolved.params,
        response_format=form.response_format,
        hint=form.hint,
        fallbacks=tuple(fallbacks),
        turns=enrichment.turns,
        embedding=enrichment.embedding,
    )


def _own_model(enrichment: Enrichment, config: Config, settings: Endpoint, name: str | None) -> ResolvedModel:
    """Return the model by the file and the settings of models; an endpoint without one is asked for its only model."""
    wanted = name or enrichment.model
    alias = config.model(wanted, "endpoint")
    if alias is None and wanted not in DEFAULT_ALIASES:
        raise config.of_file(
            f'the model "{wanted}" has no name for an endpoint: write endpoint under [models.{wanted}]'
        )
    try:
        found = alias.name if alias is not None else only_model(settings)
    except ConfigError as error:
        raise config.of_file(str(error)) from None
    return resolve_model(enrichment, get_engine(CLIENT_ENGINE), found, alias.params if alias is not None else None)


def set_prices(budget: Budget | None, config: Config, model: str) -> Price | None:
    """Return the budget of a run what its model costs, and return it; None without ``max_cost``.

    Raises ConfigError where the price is unknown.
    """
    if budget is None or budget.max_cost is None:
        return None
    if config.prices is None:
        raise ConfigError(
            "max_cost needs prices: give --prices FILE, or --prices genai-prices, or write prices in sqlenrich.toml"
        )
    price = config.prices.models.get(model)
    if price is None:
        near = did_you_mean(model, config.prices.models)
        raise ConfigError(
            f'max_cost needs the price of "{model}"{near}: write [models."{model}"] in '
            f"{config.prices.path or f'a file of prices, because {config.prices.told} has none'}"
        )
    budget.price = price.exact
    return price


def only_model(settings: Endpoint) -> str:
    """Ask an endpoint for its models and give the only one. Raises ConfigError where there is none or a choice.

    Of several urls the first one that tells decides. Raises RunError where none answers.
    """
    from sqlenrich.llm.endpoint.server_info import list_models

    names: list[str] = []
    failures: list[RunError] = []
    for url in settings.urls:
        try:
            names = list_models(settings, url)
        except RunError as error:
            failures.append(error)
        if names:
            break
    if len(failures) == len(settings.urls):
        raise failures[0]
    if len(names) == 1:
        return names[0]
    offered = f"the endpoint has: {', '.join(names[:20])}" if names else "the endpoint names none"
    raise ConfigError(f"which model? Give --model, or models.default.endpoint in sqlenrich.toml; {offered}")
