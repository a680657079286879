"""Settings: the nearest ``sqlenrich.toml`` at or above the prompt file's folder, then the environment."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.engines import ENGINES, engine_names, is_engine
from sqlenrich.spec.prices import Prices, read_prices

FILE = "sqlenrich.toml"
_NUMBER: tuple[type, ...] = (int, float)
ENDPOINT_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "url": (str, list),
    "api_key_env": str,
    "concurrency": int,
    "rpm": int,
    "tpm": int,
    "input_tpm": int,
    "output_tpm": int,
    "timeout": _NUMBER,
    "prefix_order": bool,
    "extra_body": dict,
}
"""The settings of an endpoint and their types. Numbers are above 0."""
_KIND_WORDS: Mapping[object, str] = {
    str: "a text in quotes",
    int: "a whole number",
    _NUMBER: "a number",
    bool: "true or false",
    dict: "a table",
    (str, list): "a text in quotes, or a list of them",
}
LIMITS = ("rpm", "tpm", "input_tpm", "output_tpm")
"""An endpoint's limits per minute: requests, tokens, input tokens, output tokens."""
TARGET_KEYS = ("engine", "profile", "connection", "database", "schema", "responses")


@dataclass(frozen=True)
class ModelAlias:
    """The meaning of an alias on one engine: a model's own name and parameters. A parameter of None is removed."""

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Endpoint:
    """One OpenAI-compatible endpoint. The key is read from the environment when a client is made.

    ``others`` are further URLs of the same model. ``concurrency`` of None is found by the run. ``rpm``, ``tpm``,
    ``input_tpm`` and ``output_tpm`` are limits per minute; None means that no limit is known.
    ``model`` is a model's name or an alias; None is the file's model.
    """

    url: str
    api_key_env: str | None = None
    others: tuple[str, ...] = ()
    concurrency: int | None = None
    rpm: int | None = None
    tpm: int | None = None
    input_tpm: int | None = None
    output_tpm: int | None = None
    timeout: float = 120.0
    prefix_order: bool = True
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    model: str | None = None
    origin: str = ""

    @property
    def api_key(self) -> str | None:
        """The key, or None if its variable is not set."""
        return os.environ.get(self.api_key_env) if self.api_key_env else None


@dataclass(frozen=True)
class Target:
    """An engine, and the database, schema and names of its tables."""

    name: str
    engine: str
    database: str | None = None
    schema: str | None = None
    responses: str | None = None
    profile: str | None = None
    connection: str | None = None

    def relations(self, names: Mapping[str, str], enrichment: str) -> dict[str, str]:
        """Give the full names of the steps' relations. ``names`` maps each step to a name with ``{}``."""
        place = ".".join(part for part in (self.database, self.schema) if part)
        relations = {
            step: f"{place}.{form.format(enrichment)}" if place else form.format(enrichment)
            for step, form in names.items()
        }
        if self.responses is not None:
            relations["responses"] = self.responses.replace("{name}", enrichment)
        return relations


@dataclass(frozen=True)
class Config:
    """The settings of one ``sqlenrich.toml``, or of none."""

    path: Path | None = None
    models: Mapping[str, Mapping[str, ModelAlias]] = field(default_factory=dict)
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)
    targets: Mapping[str, Target] = field(default_factory=dict)
    prices: Prices | None = None

    def model(self, name: str, engine: str) -> ModelAlias | None:
        """Give the meaning of an alias on an engine, None if unset. Any other name is a model's own name."""
        if name in self.models:
            return self.models[name].get(engine)
        return None if name == "default" else ModelAlias(name)

    def target(self, name: str) -> Target:
        """Give a target by its name. Raises ConfigError for an unknown name."""
        if name not in self.targets:
            known = ", ".join(self.targets) or f"none; write [targets.{name}] in {FILE}"
            raise ConfigError(f'no target "{name}"{did_you_mean(name, self.targets)}; there are: {known}')
        return self.targets[name]

    def endpoint(self, flag: str | None) -> Endpoint:
        """Give the endpoint of a client run: the option (a URL or a name), else the file, else the environment.

        Raises ConfigError with the three ways to name one if there is none.
        """
        if flag is not None:
            if flag in self.endpoints:
                return self.endpoints[flag]
            if "://" not in flag:
                raise ConfigError(
                    f'"{flag}" is neither a URL nor an endpoint of {FILE}{did_you_mean(flag, self.endpoints)}'
                )
            return Endpoint(flag.rstrip("/"), "OPENAI_API_KEY", origin="--endpoint")
        if len(self.endpoints) == 1 or "default" in self.endpoints:
            return self.endpoints.get("default") or next(iter(self.endpoints.values()))
        if len(self.endpoints) > 1:
            raise ConfigError(
                f"several endpoints in {self.path}: choose one with --endpoint {'|'.join(self.endpoints)}"
            )
        if url := os.environ.get("OPENAI_BASE_URL"):
            return Endpoint(url.rstrip("/"), "OPENAI_API_KEY", origin="OPENAI_BASE_URL")
        if os.environ.get("OPENAI_API_KEY"):
            return Endpoint("https://api.openai.com/v1", "OPENAI_API_KEY", origin="OPENAI_API_KEY")
        raise ConfigError(
            "no model to ask: give --endpoint URL, or write [endpoints.NAME] in sqlenrich.toml "
            "(or set OPENAI_BASE_URL), or use --mock for free invented answers"
        )


def find_config(start: Path | None) -> Config:
    """Read the nearest ``sqlenrich.toml`` at or above a file's folder. Without one, give an empty Config."""
    folder = (start.resolve().parent if start is not None else Path.cwd()).absolute()
    for place in (folder, *folder.parents):
        if (place / FILE).is_file():
            return read_config(place / FILE)
    return Config()


def read_config(path: Path) -> Config:
    """Read one settings file. Raises ConfigError with all its problems."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    problems: list[str] = []
    _known(values, ("models", "endpoints", "targets", "prices"), "", problems)
    config = Config(
        path=path,
        models={n: _model(v, f"models.{n}", problems) for n, v in _tables(values, "models", problems)},
        endpoints={n: _endpoint(v, f"endpoints.{n}", problems) for n, v in _tables(values, "endpoints", problems)},
        targets={n: _target(n, v, f"targets.{n}", problems) for n, v in _tables(values, "targets", problems)},
    )
    named = values.get("prices")
    if named is not None and not isinstance(named, str):
        problems.append('prices must be the path of a file: prices = "prices.toml" @ prices')
    if problems:
        raise ConfigError("\n".join(f"{path}: {problem}" for problem in problems))
    return config if named is None else with_prices(config, path.parent / named)


def with_prices(config: Config, prices: str | Path | Prices | None) -> Config:
    """Give the settings with the prices of a file; unchanged for None. Raises ConfigError."""
    if prices is None:
        return config
    return replace(config, prices=prices if isinstance(prices, Prices) else read_prices(Path(prices)))


def _tables(values: Mapping[str, Any], key: str, problems: list[str]) -> list[tuple[str, dict[str, Any]]]:
    found = values.get(key, {})
    if not isinstance(found, dict) or not all(isinstance(table, dict) for table in found.values()):
        problems.append(f"[{key}.NAME] must be a table of settings @ {key}")
        return []
    return list(found.items())


def _known(values: Mapping[str, Any], known: tuple[str, ...], place: str, problems: list[str]) -> None:
    for key in values:
        if key not in known:
            where = f"{place}.{key}" if place else key
            problems.append(f'unknown key "{key}"{did_you_mean(key, known)} @ {where}')


def _model(values: dict[str, Any], place: str, problems: list[str]) -> dict[str, ModelAlias]:
    if not values.keys() <= {*ENGINES, "endpoint"}:
        _known(values, (*engine_names(), "endpoint"), place, problems)
    models: dict[str, ModelAlias] = {}
    for engine, written in values.items():
        if isinstance(written, str):
            models[engine] = ModelAlias(written)
        elif isinstance(written, dict) and isinstance(written.get("model"), str):
            params = {key: (None if value == "" else value) for key, value in written.items() if key != "model"}
            models[engine] = ModelAlias(written["model"], params)
        else:
            problems.append(f'a model must be a name or {{model = "name", ...}} @ {place}.{engine}')
    return models


def _endpoint(values: dict[str, Any], place: str, problems: list[str]) -> Endpoint:
    _known(values, tuple(ENDPOINT_KINDS), place, problems)
    for key, kind in ENDPOINT_KINDS.items():
        if key not in values:
            continue
        value = values[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            found = f", not {value!r}" if kind in (int, bool, _NUMBER) else ""  # a text could be a secret
            problems.append(f"{key} must be {_KIND_WORDS[kind]}{found} @ {place}.{key}")
        elif isinstance(value, int | float) and kind is not bool and value <= 0:
            problems.append(f"{key} must be above 0, not {value} @ {place}.{key}")
    written = values.get("url")
    urls = [written] if isinstance(written, str) else written if isinstance(written, list) else []
    if written is None:
        problems.append(f"url is missing @ {place}")
    elif isinstance(written, str | list):
        problems += (f"{problem} @ {place}.url" for problem in _url_problems(urls))
    if not urls:
        urls = [""]
    first, *others = (str(url).rstrip("/") for url in urls)
    given = {key: values[key] for key in ENDPOINT_KINDS if key in values and key != "url"}
    return Endpoint(first, others=tuple(others), origin=place, **given)


def _url_problems(urls: list[Any]) -> list[str]:
    """Give the problems of an endpoint's URLs. They are named by number, because a URL may contain a password."""
    if not (urls and all(isinstance(url, str) and url for url in urls)):
        return ["url must be one or more texts in quotes"]
    problems = []
    for number, url in enumerate(urls, 1):
        named = f"url {number} of {len(urls)}" if len(urls) > 1 else "url"
        if not _is_web_address(url):
            problems.append(f"{named} has no http:// or no host: write it as http://host:port/v1")
        elif url.rstrip("/") in (other.rstrip("/") for other in urls[: number - 1]):
            problems.append(f"{named} is a repetition: name each server once")
    return problems


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


def _target(name: str, values: dict[str, Any], place: str, problems: list[str]) -> Target:
    _known(values, TARGET_KEYS, place, problems)
    engine = values.get("engine")
    if not is_engine(engine):
        problems.append(f"engine must be one of {', '.join(engine_names())}, not {engine!r} @ {place}")
    for key in TARGET_KEYS:
        if key in values and not isinstance(values[key], str):
            problems.append(f"{key} must be a text @ {place}.{key}")
    return Target(name, str(engine), **{key: values[key] for key in TARGET_KEYS if key in values and key != "engine"})
