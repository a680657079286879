"""Where a run works: a file, a backend, or a warehouse that a target, a profile or a connection names."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypedDict, TypeGuard

from sqlenrich.ask.model_choice import WantedModel
from sqlenrich.core.errors import ConfigError
from sqlenrich.engines import get_engine
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.settings import Config, Target
from sqlenrich.store.backend import Backend
from sqlenrich.store.connections.base import WarehouseConnection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK = "spark"


class PlaceOptions(TypedDict, total=False):
    """The shorthands that name a warehouse in place of an output."""

    target: str | None
    engine: str | None
    profile: str | None
    connection: str | None
    spark: SparkSession | str | None


class RunPlaceOptions(PlaceOptions, total=False):
    """The shorthands that name a warehouse to run on."""

    take_over: bool
    desk_port: int
    """The port at which Spark's executors reach the driver."""


@dataclass(frozen=True)
class Driver:
    """How the connection of an engine is opened: by the fields of a dbt profile, or by a name in the vendor's file."""

    module: str
    by_profile: str
    by_name: str
    database: tuple[str, ...]
    """The names of the database in a profile, the first that is there counts."""
    schema: tuple[str, ...]
    install: str


DRIVERS = {
    "snowflake": Driver(
        "snowflake", "open_snowflake", "open_snowflake_named", ("database",), ("schema",), "sqlenrich[snowflake]"
    ),
    "bigquery": Driver(
        "bigquery",
        "open_bigquery",
        "open_bigquery_default",
        ("project", "database"),
        ("dataset", "schema"),
        "sqlenrich[bigquery]",
    ),
    "databricks": Driver(
        "databricks", "open_databricks", "open_databricks_named", ("catalog",), ("schema",), "sqlenrich[databricks]"
    ),
}
"""The warehouses that ``run`` reaches by the vendors' clients."""


Output: TypeAlias = str | Path | Sequence[str | Path] | Backend
"""A database or a file, several of them, or a backend."""


def is_paths(output: Output) -> TypeGuard[str | Path | Sequence[str | Path]]:
    """Tell whether an output is a database or files, and no backend."""
    return isinstance(output, str | Path | Sequence)


class Place(NamedTuple):
    """Where a run works, and the table of its answers; None where nothing names it."""

    output: Output | None
    responses: str | None
    endpoint: str | None = None
    """The endpoint of the target, for a run that names none."""


def place_of(
    enrichment: Enrichment,
    config: Config,
    output: Output | None,
    responses: str | None,
    options: RunPlaceOptions,
) -> Place:
    """Return the place that the options of a run name, completed by the target.

    Raises ConfigError for an unknown target, for options that contradict each other, and for an engine without a
    driver.
    """
    found = place_in(config, output, options, enrichment.path)
    name = options.get("target")
    target = None if name is None else config.target(name)
    if target is not None and responses is None and target.responses:
        responses = target.responses.replace("{name}", enrichment.name)
    if responses is not None and "." not in responses and isinstance(found, Backend):
        responses = found.named(responses)  # beside the results, whatever the schema of the session is
    return Place(found, responses, None if target is None else target.endpoint)


def of_target(wanted: WantedModel, place: Place) -> WantedModel:
    """Return the model that a run names, or else one at the endpoint of its target."""
    if place.endpoint is None or wanted.endpoint is not None or wanted.mock is not None or wanted.local is not None:
        return wanted
    return replace(wanted, endpoint=place.endpoint)


def place_in(config: Config, output: Output | None, options: RunPlaceOptions, start: Path | None) -> Output | None:
    """Return the place that options name, for a file at ``start``. Raises as :func:`place_of` does."""
    name = options.get("target")
    if name is None:
        spark = options.get("spark")
        engine = options.get("engine") or (None if spark is None else SPARK)
        if engine == SPARK:
            return _spark(_schema(output), spark, None, options)
        if spark is not None:
            raise ConfigError(f"--spark goes with --engine spark, not with {engine}")
        if engine in (None, "duckdb"):
            _refuse_without_engine(options)
            return output
        fields = {"profile": options.get("profile"), "connection": options.get("connection")}
        return _warehouse(str(engine), start, fields, _schema(output), options)
    if any(options.get(key) for key in ("engine", "profile", "connection")):
        raise ConfigError("--target names the engine and the connection: leave out --engine, --profile, --connection")
    target = config.target(name)
    if target.engine == "duckdb":
        return output or target.database
    if target.engine == SPARK:
        schema = _schema(output) or ".".join(part for part in (target.database, target.schema) if part)
        return _spark(schema, options.get("spark"), target, options)
    if options.get("spark") is not None:
        raise ConfigError(f"--spark goes with a target of spark; {name} is one of {target.engine}")
    fields = {"profile": target.profile, "connection": target.connection}
    schema = _schema(output) or ".".join(part for part in (target.database, target.schema) if part)
    return _warehouse(target.engine, start, fields, schema, options)


def _refuse_without_engine(options: RunPlaceOptions) -> None:
    for key in ("profile", "connection", "take_over"):
        if options.get(key):
            raise ConfigError(f"--{key.replace('_', '-')} goes with --engine or --target: which warehouse?")


def _schema(output: Output | None) -> str:
    if isinstance(output, Sequence) and not isinstance(output, str):
        if len(output) > 1:
            raise ConfigError("a warehouse has one output: its schema")
        output = output[0] if output else None
    if output is None or isinstance(output, str | Path):
        return str(output or "")
    raise ConfigError("a backend as the output is a place already: leave out the engine and the target")


def _spark(output: str, spark: SparkSession | str | None, target: Target | None, options: RunPlaceOptions) -> Backend:
    """Return the backend of a Spark session; nothing is started yet."""
    from sqlenrich.store.spark.backend import SparkBackend, SparkPlace

    for key in ("profile", "connection", "take_over"):
        if options.get(key):
            raise ConfigError(f"--{key.replace('_', '-')} goes with a warehouse: Spark is reached by --spark MASTER")
    if not output:
        raise ConfigError("spark: where to? Give --output SCHEMA, or a folder (/data/out), or schema in the target")
    master = spark if isinstance(spark, str) else None
    place = SparkPlace(
        output,
        session=None if isinstance(spark, str) else spark,
        master=master or (None if target is None else target.master),
        conf={} if target is None else target.conf,
        journal=None if target is None else target.journal,
        desk_port=options.get("desk_port") or (0 if target is None else target.desk_port),
    )
    return SparkBackend(place)


def _warehouse(
    engine: str, start: Path | None, given: Mapping[str, str | None], schema: str, options: RunPlaceOptions
) -> Backend:
    from sqlenrich.store.warehouse import WarehouseBackend

    connection, default = open_connection(engine, given, start)
    schema = schema or default
    if not schema:
        raise ConfigError(f"{engine}: where to? Give --output DATABASE.SCHEMA, or schema in the target")
    return WarehouseBackend(connection, schema, take_over=bool(options.get("take_over")))


def open_connection(
    engine: str, given: Mapping[str, str | None], start: Path | None
) -> tuple[WarehouseConnection, str]:
    """Return the connection that a profile or a name opens, and the schema that the profile names, unconnected.

    ``start`` is the prompt file, beside which profiles are found.
    Raises ConfigError for an engine without a driver and for what the profile lacks.
    """
    get_engine(engine)
    driver = DRIVERS.get(engine)
    if driver is None:
        raise ConfigError(
            f"{engine}: sqlenrich run reaches {', '.join((*DRIVERS, SPARK))}; elsewhere use sqlenrich render"
        )
    profile, connection = given.get("profile"), given.get("connection")
    if profile and connection:
        raise ConfigError("give --profile or --connection, not both")
    module = importlib.import_module(f"sqlenrich.store.connections.{driver.module}.connection")
    if not profile:
        opened: WarehouseConnection = getattr(module, driver.by_name)(connection)
        return opened, ""
    from sqlenrich.store.connections.profiles import read_profile

    fields = read_profile(profile, None if start is None else start.parent, Path.cwd())
    if fields.get("type") != engine:
        raise ConfigError(f"the profile {profile} is of {fields.get('type')}, not of {engine}")
    made: WarehouseConnection = getattr(module, driver.by_profile)(fields)
    return made, ".".join(part for part in (_first(fields, driver.database), _first(fields, driver.schema)) if part)


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((str(fields[name]) for name in names if fields.get(name)), "")
