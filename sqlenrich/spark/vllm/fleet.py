"""vLLM servers beside the executors of a Spark session, or in actors of Ray, as one endpoint."""

from __future__ import annotations

import json
import math
import os
import secrets
import threading
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sqlenrich.core.api_key import EnvironmentKey, LiteralKey
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.version import __version__
from sqlenrich.spark.vllm.attached import AttachedFleet
from sqlenrich.spark.vllm.control import Control
from sqlenrich.spark.vllm.executor_hosts import ExecutorHosts
from sqlenrich.spark.vllm.hosts import Hosts
from sqlenrich.spark.vllm.keeper import ServerSettings
from sqlenrich.spark.vllm.placement import Placement
from sqlenrich.spark.vllm.policy import FleetPolicy
from sqlenrich.spark.vllm.ray_hosts import ray_or_local_hosts
from sqlenrich.spark.vllm.status import GIVEN_UP, READY, ServerStatus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OWN_ARGUMENTS: Mapping[str, str] = {
    "host": "a server listens at the address by which its executor reaches the driver",
    "port": "each server gets a free port of its host",
    "api_key": "the fleet makes a key",
    "uds": "the servers are reached over TCP",
    "ssl_keyfile": "the servers are reached over plain HTTP",
    "ssl_certfile": "the servers are reached over plain HTTP",
}
_DEFAULTS: Mapping[str, Any] = {
    "shutdown_timeout": 5,
    "disable_uvicorn_access_log": True,
    "enable_prompt_tokens_details": True,
}
"""Arguments that the fleet gives where the user does not. Without the first, a server that is told to end leaves its
clients waiting (seen on vLLM 0.32); it exists since vLLM 0.18 (https://github.com/vllm-project/vllm/pull/34730, read
2026-11-23)."""
_ROOM = 256
"""The requests that vLLM works on at a time where --max-num-seqs is not given; more on the largest GPUs (default of
vLLM 0.32, read in vllm/engine/arg_utils.py on 2026-11-23)."""
_RANKS = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
_PLACEMENTS_WITHOUT_GAIN = 3
_LONGEST_WATCH_S = 60.0


class Fleet:
    """vLLM servers on some hosts while it is entered; ``endpoint`` is all of them together.

    Entering it waits until each server has generated a text or is given up. Raises ConfigError for what can't be
    started, RunError where no server comes up.
    """

    def __init__(
        self,
        hosts: Hosts,
        model: str,
        *,
        command: Sequence[str] | None,
        environment: Mapping[str, str] | None,
        control_port: int,
        api_key_env: str | None,
        policy: FleetPolicy | None,
        vllm_arguments: Mapping[str, Any],
    ) -> None:
        self._hosts = hosts
        self._policy = policy or FleetPolicy()
        self._variable = api_key_env
        self._key = secrets.token_urlsafe(32) if api_key_env is None else _key_of(api_key_env)
        self._model = _served_name(model, vllm_arguments)
        self._program = command[0] if command else ""
        self._settings = ServerSettings(
            command=(
                *(command or ("", "-m", "vllm.entrypoints.cli.main", "serve")),
                model,
                *_flags({**_DEFAULTS, **vllm_arguments}),
            ),
            environment=dict(environment or {}),
            key=self._key,
            room=max(1, int(vllm_arguments.get("max_num_seqs") or _ROOM) // hosts.tasks),
            gpus_per_rank=_gpus_per_rank(vllm_arguments, hosts),
            policy=self._policy,
        )
        self._control = Control(hosts.listens_at, control_port, self._settings)
        self._name = f"sqlenrich-fleet-{secrets.token_hex(8)}"
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="fleet-placement")
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._look_after_hosts, name="fleet-watch", daemon=True)

    def __enter__(self) -> Self:
        if self._ended.is_set():
            raise RunError("this fleet has ended: make another one")
        self._control.__enter__()
        try:
            self._wait_until_settled()
            self._watch.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def endpoint(self) -> Endpoint:
        """The servers that are ready as one endpoint, with the fleet's key. Raises RunError where none is."""
        urls = [server.url for server in self.servers() if server.state == READY]
        if not urls:
            raise RunError("the fleet has no server that is ready; fleet.servers() says what each does")
        key = LiteralKey(self._key) if self._variable is None else EnvironmentKey(self._variable)
        return Endpoint(urls[0], others=tuple(urls[1:]), api_key=key, model=self._model)

    def servers(self) -> list[ServerStatus]:
        """Return the state and the load of each server."""
        return sorted(self._control.servers(), key=lambda server: server.url)

    def _wait_until_settled(self) -> None:
        """Wait until each place has a server that is ready or given up. Raises RunError where none is ready."""
        without_gain = 0
        while without_gain < _PLACEMENTS_WITHOUT_GAIN:
            without_gain = 0 if self._place_missing() else without_gain + 1
            while not self._control.wait_for(self._settled, self._policy.watch_s):
                pass
            if self._control.keepers >= self._hosts.wanted():
                break
        servers = self.servers()
        given_up = [
            f"no server on {server.executor}: {server.reason}" for server in servers if server.state == GIVEN_UP
        ]
        if len(given_up) == len(servers):
            raise RunError(given_up[0] if given_up else self._hosts.nobody)
        for text in given_up:
            warnings.warn(text, RuntimeWarning, stacklevel=3)

    def _place_missing(self, limit_s: float | None = None) -> bool:
        """Start the keepers that are missing, if tasks for that can run within ``limit_s``. Give whether any came."""
        before, wanted = self._control.keepers, self._hosts.wanted()
        if before >= wanted:
            return True
        placing = self._pool.submit(self._place, wanted)
        try:
            placing.result(limit_s)
        except TimeoutError:  # executors whose GPUs are in use have no room for its tasks
            self._hosts.cancel()
            with suppress(RunError):
                placing.result()
        self._control.wait_for(lambda: self._control.keepers >= wanted, self._policy.watch_s)
        return self._control.keepers > before

    def _settled(self) -> bool:
        servers = self._control.servers()
        return len(servers) == self._control.keepers and all(server.state in (READY, GIVEN_UP) for server in servers)

    def _place(self, wanted: int) -> None:
        self._control.begin_placement(wanted)
        self._hosts.place(
            Placement(
                (self._hosts.address, self._control.port),
                self._control.token,
                self._name,
                __version__,
                self._program,
                self._policy.place_s,
            ),
            wanted,
        )

    def _look_after_hosts(self) -> None:
        """Start a server at each place that comes later, and where a keeper is gone."""
        wait_s = self._policy.watch_s
        while not self._ended.wait(wait_s):
            try:
                gained = self._place_missing(2 * self._policy.place_s)
                wait_s = self._policy.watch_s if gained else min(2 * wait_s, _LONGEST_WATCH_S)
            except Exception as error:  # a session that ends, an executor that is lost meanwhile
                if self._ended.is_set():
                    return
                warnings.warn(f"the fleet could not look after its servers: {error}", RuntimeWarning, stacklevel=1)
                wait_s = min(2 * wait_s, _LONGEST_WATCH_S)

    def _end(self) -> None:
        self._ended.set()
        self._hosts.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._control.__exit__(None, None, None)
        if self._watch.is_alive():
            self._watch.join(self._policy.watch_s)
        self._hosts.close()


class VLLMFleet(Fleet):
    """One vLLM server beside each executor of a Spark session while it is entered.

    ``model`` and ``vllm_arguments`` are those of ``vllm serve``: ``max_model_len=8192`` is ``--max-model-len 8192``,
    True a flag, False its ``--no-`` form, a mapping JSON, None an argument that is not given.
    ``tensor_parallel_size`` defaults to the executor's GPUs. ``command`` is how vLLM is started there; by default
    ``python -m vllm.entrypoints.cli.main serve`` with the Python of Spark's workers. ``environment`` adds variables for
    the servers. The driver listens for the keepers at ``control_port``, by default any free one. The fleet makes a key,
    which stays in this process, unless ``api_key_env`` names a variable: all who ask read the key from it.

    Entering it waits until each server has generated a text or is given up; ``endpoint`` is all of them together.
    Raises ConfigError for what can't be started, RunError where no server comes up.
    """

    def __init__(
        self,
        spark: SparkSession,
        model: str,
        *,
        command: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
        control_port: int = 0,
        api_key_env: str | None = None,
        policy: FleetPolicy | None = None,
        **vllm_arguments: Any,
    ) -> None:
        super().__init__(
            ExecutorHosts(spark),
            model,
            command=command,
            environment=environment,
            control_port=control_port,
            api_key_env=api_key_env,
            policy=policy,
            vllm_arguments=vllm_arguments,
        )

    @staticmethod
    def attach(
        urls: str | Sequence[str],
        *,
        api_key_env: str | None = None,
        model: str | None = None,
        policy: FleetPolicy | None = None,
    ) -> AttachedFleet:
        """Return the fleet of servers that run already, by their URLs (``http://host:port/v1``)."""
        return AttachedFleet(urls, api_key_env=api_key_env, model=model, policy=policy or FleetPolicy())

    @staticmethod
    def ray(
        model: str,
        *,
        replicas: int = 1,
        gpus: int = 1,
        command: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
        control_port: int = 0,
        api_key_env: str | None = None,
        policy: FleetPolicy | None = None,
        **vllm_arguments: Any,
    ) -> Fleet:
        """Return a fleet of ``replicas`` servers of ``gpus`` GPUs each, in actors of the Ray that this process uses.

        Without a Ray that is initialized, or named by ``RAY_ADDRESS``, the servers run on this machine.
        ``tensor_parallel_size`` defaults to ``gpus``; all other arguments are those of :class:`VLLMFleet`. Raises
        ConfigError where there are too few GPUs.
        """
        return Fleet(
            ray_or_local_hosts(replicas, gpus),
            model,
            command=command,
            environment=environment,
            control_port=control_port,
            api_key_env=api_key_env,
            policy=policy,
            vllm_arguments=vllm_arguments,
        )


def _gpus_per_rank(arguments: Mapping[str, Any], hosts: Hosts) -> int | None:
    """Return the GPUs that a tensor-parallel rank needs, None where their number is given. Raises ConfigError."""
    gpus = hosts.gpus
    given = {name: int(arguments[name]) for name in _RANKS if arguments.get(name) is not None}
    ranks = math.prod(given.values())
    if gpus and ranks > gpus:
        named = " x ".join(f"{name} {value}" for name, value in given.items())
        raise ConfigError(f"{named}: a server needs {ranks} GPUs, and {hosts.gpus_named.format(gpus=gpus)}")
    return None if _RANKS[0] in given else ranks


def _key_of(variable: str) -> str:
    """Return the key that a variable names. Raises ConfigError where it is not set."""
    if not (key := os.environ.get(variable)):
        raise ConfigError(f"the variable {variable}, which api_key_env names, is not set")
    return key


def _served_name(model: str, arguments: Mapping[str, Any]) -> str:
    """Return the name by which the servers know the model. Raises ConfigError for arguments of the fleet's own."""
    for name, why in _OWN_ARGUMENTS.items():
        if arguments.get(name) is not None:
            raise ConfigError(f"{name} can't be set: {why}")
    named = arguments.get("served_model_name") or model
    return str(named if isinstance(named, str) else named[0])


def _flags(arguments: Mapping[str, Any]) -> list[str]:
    """Return keyword arguments as those of a command line."""
    flags: list[str] = []
    for name, value in arguments.items():
        flag = f"--{name.replace('_', '-')}"
        match value:
            case None:
                continue
            case True:
                flags.append(flag)
            case False:
                flags.append(f"--no-{flag[2:]}")
            case Mapping():
                flags += [flag, json.dumps(value)]
            case list() | tuple():
                flags += [flag, *map(str, value)]
            case _:
                flags += [flag, str(value)]
    return flags
