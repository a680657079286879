"""What a bug report needs, and what keeps a run from working here: versions, settings, network, room. No secrets."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sqlenrich.core.endpoint import FOLDER_SCHEME, Endpoint
from sqlenrich.core.errors import ConfigError, SqlenrichError
from sqlenrich.core.exit_status import EXIT_DONE, EXIT_OVER_LIMIT
from sqlenrich.core.plurals import counted
from sqlenrich.core.result import Result
from sqlenrich.core.version import __version__
from sqlenrich.spec.settings import ENVIRONMENT_FILE, Config, Target, find_config

VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "DBT_PROFILES_DIR", "SPARK_HOME", "JAVA_HOME", "TMPDIR")
"""Variables that decide something here. Only whether they are set is told."""
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
OWN_EXTRAS = ("dev", "docs")
LEAST_FREE_BYTES = 1 << 30
LEAST_MEMORY_BYTES = 1 << 30
CLOCK_S = 60.0
"""A difference of the clocks that is told: tokens and signatures of clouds are refused beyond some minutes."""
REACH_S = 5.0
MODELS_SHOWN = 3
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)[^;]*?;.*extra == ['\"](\w+)['\"]")
_CGROUP_MEMORY = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True)
class Fact:
    """One thing that was found. ``problem`` says what is wrong with it and what to do, "" where nothing is."""

    topic: str
    name: str
    value: str
    problem: str = ""


@dataclass(frozen=True, repr=False)
class Doctor(Result):
    """All that was found."""

    facts: tuple[Fact, ...]

    @property
    def problems(self) -> tuple[Fact, ...]:
        """What is wrong."""
        return tuple(one for one in self.facts if one.problem)

    @property
    def exit_status(self) -> int:
        """The command's exit status: 0, or 3 for a problem."""
        return EXIT_OVER_LIMIT if self.problems else EXIT_DONE

    def to_dict(self) -> dict[str, Any]:
        """Return the facts by topic and name, and the problems."""
        topics: dict[str, dict[str, str]] = {}
        for one in self.facts:
            topics.setdefault(one.topic, {})[one.name] = one.value
        return {**topics, "problems": [{"topic": p.topic, "name": p.name, "problem": p.problem} for p in self.problems]}

    def to_text(self) -> str:
        """Return the facts under their topics, then the problems."""
        lines, topic = [], ""
        wide = max(len(one.name) for one in self.facts)
        for one in self.facts:
            if one.topic != topic:
                topic = one.topic
                lines.append(topic)
            lines.append(f"  {one.name:<{wide}}  {one.value}".rstrip())
        lines += [f"! {one.name}: {one.problem}" for one in self.problems]
        lines.append(counted(len(self.problems), "problem") if self.problems else "nothing wrong was found")
        return "\n".join(lines)


def doctor(*, endpoint: str | None = None, target: str | None = None, config: Config | None = None) -> Doctor:
    """Look at the installation, the settings and the machine, and ask each endpoint of the settings for its models.

    ``endpoint`` is a URL or a name in place of those of the settings. The warehouse of ``target`` is asked for its
    version, which may start it; without one no warehouse is reached. Nothing is written, no model is asked, and no
    secret is told. Raises ConfigError for a target or an endpoint that is not there.
    """
    facts: list[Fact] = [*_versions(), *_extras(), *_machine()]
    try:
        found = config if config is not None else find_config(None)
    except ConfigError as error:
        lines = str(error).splitlines()
        return Doctor((*facts, *(Fact("settings", "sqlenrich.toml", "can't be read", line) for line in lines)))
    facts += [*_settings(found), *_environment()]
    endpoints = dict(found.endpoints) if endpoint is None else {endpoint: found.endpoint(endpoint)}
    if not endpoints and any(os.environ.get(name) for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY")):
        of_environment = found.endpoint(None)
        endpoints = {of_environment.origin: of_environment}
    for name, one in endpoints.items():
        facts += _endpoint(name, one)
    if target is not None:
        facts.append(_target(found.target(target)))
    return Doctor(tuple(facts))


def _versions() -> Iterator[Fact]:
    topic = "versions"
    yield Fact(topic, "sqlenrich", __version__)
    yield Fact(topic, "python", f"{platform.python_version()} ({platform.python_implementation()}, {sys.executable})")
    yield Fact(topic, "system", platform.platform())
    for name in sorted(_required()):
        version = _version(name)
        missing = "" if version else f"it is not installed: pip install --upgrade sqlenrich=={__version__}"
        yield Fact(topic, name, version or "missing", missing)


def _extras() -> Iterator[Fact]:
    extras: dict[str, list[str]] = {}
    for line in importlib.metadata.requires("sqlenrich") or ():
        if (found := _REQUIREMENT.match(line)) and found[2] not in OWN_EXTRAS:
            extras.setdefault(found[2], []).append(found[1])
    for extra, names in sorted(extras.items()):
        there = {name: version for name in names if (version := _version(name)) is not None}
        told = ", ".join(f"{name} {version}" for name, version in there.items())
        lacks = [name for name in names if name not in there]
        missing = f"without {', '.join(lacks)}" if there and lacks else ""
        yield Fact("extras", extra, "; ".join(filter(None, (told or "not installed", missing))))


def _required() -> list[str]:
    """Return the packages that every installation has."""
    lines = (line for line in importlib.metadata.requires("sqlenrich") or () if ";" not in line)
    return [re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0] for line in lines]


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _machine() -> Iterator[Fact]:
    topic = "machine"
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    yield Fact(topic, "processors", str(usable))
    memory = _memory_bytes()
    if memory is not None:
        small = "a run of millions of rows needs about 1 GB" if memory < LEAST_MEMORY_BYTES else ""
        yield Fact(topic, "memory", f"{memory / 2**30:.1f} GiB", small)
    if _version("pyspark") is not None:
        yield _java(topic)
    for name, folder in (("here", Path.cwd()), ("temporary files", Path(tempfile.gettempdir()))):
        free = shutil.disk_usage(folder).free
        wrong = "less than 1 GiB is free" if free < LEAST_FREE_BYTES else ""
        if not os.access(folder, os.W_OK):
            wrong = "it can't be written"
        yield Fact(topic, name, f"{folder}, {free / 2**30:.1f} GiB free", wrong)


def _java(topic: str) -> Fact:
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if path is None:
        where = f"JAVA_HOME={home} has none" if home else "it is not on the path"
        return Fact(topic, "java", "none", f"{where}: Spark needs Java 17 or later")
    done = subprocess.run([path, "-version"], capture_output=True, text=True, check=False, timeout=30)
    told = (done.stderr or done.stdout).strip().splitlines()
    return Fact(topic, "java", f"{told[0] if told else 'it says no version'} ({path})")


def _memory_bytes() -> int | None:
    """Return the memory of the machine, or of the container where that has less."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
    try:
        return min(memory, int(_CGROUP_MEMORY.read_text()))
    except (OSError, ValueError):
        return memory


def _settings(config: Config) -> Iterator[Fact]:
    topic = "settings"
    yield Fact(topic, "sqlenrich.toml", config.told)
    if config.path is None:
        return
    if (config.path.parent / ENVIRONMENT_FILE).is_file():
        yield Fact(topic, ENVIRONMENT_FILE, f"{config.path.parent / ENVIRONMENT_FILE}")
    for kind in ("models", "endpoints", "targets"):
        yield Fact(topic, kind, ", ".join(getattr(config, kind)) or "none")
    prices = config.prices
    yield Fact(topic, "prices", "none" if prices is None else f"{len(prices.models)} models, of {prices.told}")


def _environment() -> Iterator[Fact]:
    topic = "environment"
    names = [name for name in VARIABLES if os.environ.get(name)]
    yield Fact(topic, "variables", ", ".join(f"{name} is set" for name in names) or "none of ours is set")
    for name in PROXIES:
        written = os.environ.get(name) or os.environ.get(name.lower())
        if written:
            from sqlenrich.llm.endpoint.urls import shown_url

            yield Fact(topic, name, shown_url(written if "://" in written else f"http://{written}"))
    if exceptions := os.environ.get("NO_PROXY") or os.environ.get("no_proxy"):
        yield Fact(topic, "NO_PROXY", exceptions)
    named = [name for name in CERTIFICATES if os.environ.get(name)]
    for name in named:
        missing = "" if Path(os.environ[name]).exists() else "it is not there: unset it, or name a file of certificates"
        yield Fact(topic, name, os.environ[name], missing)
    if not named:
        yield Fact(topic, "certificates", "those that the system trusts")


def _endpoint(name: str, endpoint: Endpoint) -> Iterator[Fact]:
    """Return what can be told of an endpoint, a line a URL."""
    from sqlenrich.llm.endpoint.urls import shown_url

    topic = "endpoints"
    for url in endpoint.urls:
        place = f"{name} {shown_url(url)}" if name != url else shown_url(url)
        if urlsplit(url).scheme == FOLDER_SCHEME:
            folder = Path(unquote(urlsplit(url).path))
            usable = folder.is_dir() and os.access(folder, os.W_OK)
            yield Fact(topic, place, "a folder of batches", "" if usable else "it is no folder that can be written")
            continue
        try:
            yield _server(topic, place, url, endpoint)
        except SqlenrichError as error:
            yield Fact(topic, place, _key(endpoint), str(error))


def _server(topic: str, place: str, url: str, endpoint: Endpoint) -> Fact:
    from sqlenrich.llm.endpoint.route import find_route
    from sqlenrich.llm.endpoint.server_info import ask_server

    route = find_route(url, endpoint.client_cert, endpoint.client_key)
    server = ask_server(endpoint, url, timeout_s=REACH_S)
    names = list(server.models)
    shown = ", ".join(names[:MODELS_SHOWN]) + (f" and {len(names) - MODELS_SHOWN} more" if names[MODELS_SHOWN:] else "")
    parts = [_key(endpoint), f"models: {shown}" if names else "it lists no models"]
    if route.proxy is not None:
        parts.append(f"through {route.proxy.shown}")
    problem = ""
    if server.ahead_s is not None and abs(server.ahead_s) > CLOCK_S:
        way = "ahead of" if server.ahead_s > 0 else "behind"
        problem = f"the clock here is {abs(server.ahead_s):,.0f} s {way} the server's: set it, by NTP"
    return Fact(topic, place, "; ".join(parts), problem)


def _key(endpoint: Endpoint) -> str:
    """Return where the key comes from, and whether there is one."""
    if endpoint.api_key_command is not None:
        return "a key of api_key_command"
    if endpoint.api_key is not None:
        return "a key that the caller gave"
    if endpoint.api_key_env is None:
        return "no key"
    return f"a key of {endpoint.api_key_env}, which is {'set' if os.environ.get(endpoint.api_key_env) else 'not set'}"


def _target(target: Target) -> Fact:
    """Return whether the warehouse of a target answers a query that reads no table."""
    from sqlenrich.runner.place import DRIVERS, open_connection

    topic = "targets"
    schema = ".".join(part for part in (target.database, target.schema) if part)
    if target.engine not in DRIVERS:
        return Fact(topic, target.name, f"{target.engine} {schema}".strip())
    given: Mapping[str, str | None] = {"profile": target.profile, "connection": target.connection}
    try:
        connection, default = open_connection(target.engine, given, None)
        with connection:
            connection.rows("SELECT 1")
            place = connection.place
    except SqlenrichError as error:
        return Fact(topic, target.name, f"{target.engine} {schema}".strip(), str(error))
    return Fact(topic, target.name, f"{target.engine} {place}, {schema or default}; it answers")
