"""Settings: the ``sqlenrich.toml`` of a prompt file, see :func:`find_config`, then the environment."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dotenv import load_dotenv

from sqlenrich.core.embedding import DEFAULT_ALIASES
from sqlenrich.core.endpoint import ENDPOINT_KEYS, Endpoint, endpoint_problems
from sqlenrich.core.engine import VendorFact
from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.engines import ENGINES, engine_names, get_engine, is_engine
from sqlenrich.spec.known_prices import GENAI_PRICES, known_prices
from sqlenrich.spec.prices import Prices, read_prices
from sqlenrich.spec.toml_lines import TomlLines

FILE = "sqlenrich.toml"
ENVIRONMENT_FILE = ".env"
PATH = re.compile(r"\w+(\[\d+\])*(\.\w+(\[\d+\])*)*")
"""The places of an answer that every engine can read."""
TARGET_KEYS = ("engine", "profile", "connection", "database", "schema", "responses", "endpoint")
SPARK_KEYS = ("master", "conf", "journal", "desk_port")
"""Further settings of a target whose engine is spark."""


@dataclass(frozen=True)
class ModelAlias:
    """The meaning of an alias on one engine: a model's own name and parameters. A parameter of None is removed."""

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)


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
    endpoint: str | None = None
    """The endpoint that a client asks, where a run names none."""
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    """The settings of the Spark session that a run starts."""
    journal: str | None = None
    """The folder in which the driver keeps answers until they are in their table."""
    desk_port: int = 0
    """The port at which executors reach the driver; 0: any."""

    def relations(self, names: Mapping[str, str], enrichment: str) -> dict[str, str]:
        """Return the full names of the steps' relations. ``names`` maps each step to a name with ``{}``."""
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
    facts: Mapping[str, Mapping[str, VendorFact]] = field(default_factory=dict)
    """Facts about a vendor that are set otherwise, by the engine and the fact's name."""
    searched: tuple[Path, ...] = ()
    """The folders from which the file was looked for, upward."""
    unread: Path | None = None
    """The next file that was found, which does not count."""

    @property
    def told(self) -> str:
        """Which file is read, and which other one is not, for a person; "" where none was looked for."""
        if self.path is None:
            return f"no {FILE} in or above {' or '.join(map(str, self.searched))}" if self.searched else ""
        other = "" if self.unread is None else f"; {self.unread} is not read"
        return f"{self.path}{other}"

    def of_file(self, problem: str) -> ConfigError:
        """Return an error that the settings may be the cause of."""
        return ConfigError(f"{problem} (settings: {self.told})" if self.told else problem)

    def model(self, name: str, engine: str) -> ModelAlias | None:
        """Return the meaning of an alias on an engine, None if unset. Any other name is a model's own name."""
        if name in self.models:
            return self.models[name].get(engine)
        return None if name in DEFAULT_ALIASES else ModelAlias(name)

    def target(self, name: str) -> Target:
        """Return a target by its name. Raises ConfigError for an unknown name."""
        if name not in self.targets:
            known = ", ".join(self.targets) or f"none; write [targets.{name}] in {FILE}"
            raise self.of_file(f'no target "{name}"{did_you_mean(name, self.targets)}; there are: {known}')
        return self.targets[name]

    def endpoint(self, flag: str | None) -> Endpoint:
        """Return the endpoint of a client run: the option (a URL or a name), else the file, else the environment.

        Raises ConfigError with the three ways to name one if there is none.
        """
        if flag is not None:
            if flag in self.endpoints:
                return self.endpoints[flag]
            if "://" not in flag:
                raise self.of_file(
                    f'"{flag}" is neither a URL nor an endpoint of {FILE}{did_you_mean(flag, self.endpoints)}'
                )
            return Endpoint(flag, "OPENAI_API_KEY", origin="--endpoint")
        if len(self.endpoints) == 1 or "default" in self.endpoints:
            return self.endpoints.get("default") or next(iter(self.endpoints.values()))
        if len(self.endpoints) > 1:
            raise self.of_file(
                f"several endpoints in {self.path}: choose one with --endpoint {'|'.join(self.endpoints)}"
            )
        if url := os.environ.get("OPENAI_BASE_URL"):
            return Endpoint(url, "OPENAI_API_KEY", origin="OPENAI_BASE_URL")
        if os.environ.get("OPENAI_API_KEY"):
            return Endpoint("https://api.openai.com/v1", "OPENAI_API_KEY", origin="OPENAI_API_KEY")
        raise self.of_file(
            "no model to ask: give --endpoint URL, or write [endpoints.NAME] in sqlenrich.toml "
            "(or set OPENAI_BASE_URL), or use --mock for free invented answers"
        )


def find_config(start: Path | None, *projects: Path) -> Config:
    """Read the ``sqlenrich.toml`` of a prompt file. Without one, give an empty Config.

    It is the nearest one in or above the file's folder, else in or above the folder of a dbt project, else in or above
    the current folder.
    Variables of a file ``.env`` beside it that are not set yet are set.
    """
    current = Path.cwd().absolute()
    given = () if start is None else (start.resolve().parent,)
    folders = tuple(dict.fromkeys((*given, *(project.resolve() for project in projects), current)))
    found = list(dict.fromkeys(filter(None, map(_nearest, folders))))
    if not found:
        return Config(searched=folders)
    path, *others = found
    if (path.parent / ENVIRONMENT_FILE).is_file():
        load_dotenv(path.parent / ENVIRONMENT_FILE)
    return replace(read_config(path), searched=folders, unread=others[0] if others else None)


def _nearest(folder: Path) -> Path | None:
    return next((place / FILE for place in (folder, *folder.parents) if (place / FILE).is_file()), None)


def read_config(path: Path) -> Config:
    """Read one settings file. Raises ConfigError with all its problems."""
    try:
        text = path.read_text(encoding="utf-8")
        values = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    problems: list[str] = []
    _known(values, ("models", "endpoints", "targets", "facts", "prices"), "", problems)
    config = Config(
        path=path,
        models={n: _model(v, f"models.{n}", problems) for n, v in _tables(values, "models", problems)},
        endpoints={
            n: endpoint
            for n, v in _tables(values, "endpoints", problems)
            if (endpoint := _endpoint(v, f"endpoints.{n}", path.parent, problems)) is not None
        },
        targets={n: _target(n, v, f"targets.{n}", problems) for n, v in _tables(values, "targets", problems)},
        facts={n: _facts(n, v, f"facts.{n}", problems) for n, v in _tables(values, "facts", problems)},
    )
    named = values.get("prices")
    if named is not None and not isinstance(named, str):
        problems.append('prices must be the path of a file, or "genai-prices": prices = "prices.toml" @ prices')
    if problems:
        raise ConfigError("\n".join(f"{path}: {problem}" for problem in TomlLines(text).told(problems)))
    if named is None:
        return config
    return with_prices(config, named if named == GENAI_PRICES else path.parent / named)


def with_prices(config: Config, prices: str | Path | Prices | None) -> Config:
    """Return the settings with the prices of a file, or of a package; unchanged for None. Raises ConfigError."""
    if prices is None:
        return config
    if prices == GENAI_PRICES:
        prices = known_prices()
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


def _endpoint(values: dict[str, Any], place: str, folder: Path, problems: list[str]) -> Endpoint | None:
    _known(values, tuple(ENDPOINT_KEYS), place, problems)
    found = [f"{problem} @ {place}.{key}" for key, problem in endpoint_problems(values)]
    if "url" not in values:
        found.append(f"url is missing @ {place}")
    problems += found
    if found:
        return None
    given = {key: value for key, value in values.items() if key in ENDPOINT_KEYS and key != "url"}
    for key in ("client_cert", "client_key"):
        if key in given:
            given[key] = str(folder / Path(given[key]).expanduser())
    first, *others = [values["url"]] if isinstance(values["url"], str) else values["url"]
    return Endpoint(first, others=tuple(others), origin=place, **given)


def _facts(name: str, values: dict[str, Any], place: str, problems: list[str]) -> dict[str, VendorFact]:
    """Read other values of the facts by which an engine reads answers. A name's spaces may be written as ``_``."""
    reading = get_engine(name).reading if is_engine(name) else None
    if reading is None or reading.mended is None:
        known = (each for each in engine_names() if (found := get_engine(each).reading) and found.mended)
        problems.append(f"facts are set for {', '.join(known)}, not for {name} @ {place}")
        return {}
    names = {known.replace(" ", "_"): known for known in reading.facts}
    facts: dict[str, VendorFact] = {}
    for key, value in values.items():
        fact = names.get(key.replace(" ", "_"))
        if fact is None:
            problems.append(f'unknown fact "{key}"{did_you_mean(key, names)} @ {place}.{key}')
        elif isinstance(reading.facts[fact].value, str):
            facts[fact] = VendorFact(value, f"{place} of {FILE}", "")
            if not isinstance(value, str) or PATH.fullmatch(value) is None:
                problems.append(f'{key} must be a place such as "a.b[0].c" @ {place}.{key}')
        else:
            facts[fact] = VendorFact(value, f"{place} of {FILE}", "")
            if not isinstance(value, dict) or not all(isinstance(word, str) for word in value.values()):
                problems.append(f'{key} must be a table of texts, {{THEIRS = "length"}} @ {place}.{key}')
    return facts


def _target(name: str, values: dict[str, Any], place: str, problems: list[str]) -> Target:
    engine = values.get("engine")
    known = (*TARGET_KEYS, *(SPARK_KEYS if engine == "spark" else ()))
    _known(values, known, place, problems)
    if not is_engine(engine):
        problems.append(f"engine must be one of {', '.join(engine_names())}, not {engine!r} @ {place}")
    given = {key: values[key] for key in known if key in values and key != "engine"}
    for key, value in given.items():
        if key == "conf":
            if not isinstance(value, dict) or not all(isinstance(one, str | int | float) for one in value.values()):
                problems.append(f'conf must be a table of settings, {{"spark.executor.memory" = "4g"}} @ {place}.conf')
                continue
            given[key] = {each: _conf_text(one) for each, one in value.items()}
        elif key == "desk_port":
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 16:
                problems.append(f"desk_port must be a port, 0 to 65535, not {value!r} @ {place}.desk_port")
        elif not isinstance(value, str):
            problems.append(f"{key} must be a text @ {place}.{key}")
    return Target(name, str(engine), **given)


def _conf_text(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
