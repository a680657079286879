"""vLLM servers beside the executors of a Spark session, as one endpoint."""

from __future__ import annotations

import json
import math
import secrets
import threading
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sqlenrich.core.api_key import LiteralKey
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.version import __version__
from sqlenrich.spark.session import check_session, last_exception, slots
from sqlenrich.spark.vllm.attached import AttachedFleet
from sqlenrich.spark.vllm.control import Control
from sqlenrich.spark.vllm.keeper import ServerSettings
from sqlenrich.spark.vllm.placement import GPU, Placement
from sqlenrich.spark.vllm.policy import FleetPolicy
from sqlenrich.spark.vllm.status import GIVEN_UP, READY, ServerStatus

if TYPE_CHECKING:
    from pyspark import SparkContext
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


class VLLMFleet:
    """One vLLM server beside each executor while it is entered; ``endpoint`` is all of them together.

    ``model`` and ``vllm_arguments`` are those of ``vllm serve``: ``max_model_len=8192`` is ``--max-model-len 8192``,
    True a flag, False its ``--no-`` form, a mapping JSON, None an argument that is not given.
    ``tensor_parallel_size`` defaults to the executor's GPUs. ``command`` is how vLLM is started there; by default
    ``python -m vllm.entrypoints.cli.main serve`` with the Python of Spark's workers. ``environment`` adds variables for
    the servers. The driver listens for the keepers at ``control_port``, by default any free one.

    Entering it waits until each server has generated a text or is given up. Raises ConfigError for what can't be
    started, RunError where no server comes up.
    """

    def __init__(
        self,
        spark: SparkSession,
        model: str,
        *,
        command: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
        control_port: int = 0,
        policy: FleetPolicy | None = None,
        **vllm_arguments: Any,
    ) -> None:
        self._context = _context(spark)
        self._policy = policy or FleetPolicy()
        self._gpus = _gpus(self._context)
        self._key = secrets.token_urlsafe(32)
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
            room=max(
                1, int(vllm_arguments.get("max_num_seqs") or _ROOM) // max(1, slots(spark) // _executors(self._context))
            ),
            gpus_per_rank=_gpus_per_rank(vllm_arguments, self._gpus),
            policy=self._policy,
        )
        conf = self._context.getConf()
        self._host = conf.get("spark.driver.host") or "127.0.0.1"
        self._control = Control(conf.get("spark.driver.bindAddress") or self._host, control_port, self._settings)
        self._name = f"sqlenrich-fleet-{secrets.token_hex(8)}"
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="fleet-placement")
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._look_after_executors, name="fleet-watch", daemon=True)

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
        return Endpoint(urls[0], others=tuple(urls[1:]), api_key=LiteralKey(self._key), model=self._model)

    def servers(self) -> list[ServerStatus]:
        """Return the state and the load of each server."""
        return sorted(self._control.servers(), key=lambda server: server.url)

    def _wait_until_settled(self) -> None:
        """Wait until each executor has a server that is ready or given up. Raises RunError where none is ready."""
        without_gain = 0
        while without_gain < _PLACEMENTS_WITHOUT_GAIN:
            without_gain = 0 if self._place_missing() else without_gain + 1
            while not self._control.wait_for(self._settled, self._policy.watch_s):
                pass
            if self._control.keepers >= _executors(self._context):
                break
        servers = self.servers()
        given_up = [
            f"no server on {server.executor}: {server.reason}" for server in servers if server.state == GIVEN_UP
        ]
        if len(given_up) == len(servers):
            raise RunError(given_up[0] if given_up else "no executor took a task: are all of them busy?")
        for text in given_up:
            warnings.warn(text, RuntimeWarning, stacklevel=3)

    def _place_missing(self, limit_s: float | None = None) -> bool:
        """Start the keepers that are missing, if tasks for that can run within ``limit_s``. Give whether any came."""
        before, executors = self._control.keepers, _executors(self._context)
        if before >= executors:
            return True
        placing = self._pool.submit(self._place, executors)
        try:
            placing.result(limit_s)
        except TimeoutError:  # executors whose GPUs are in use have no room for its tasks
            self._context.cancelJobGroup(self._name)
            with suppress(RunError):
                placing.result()
        self._control.wait_for(lambda: self._control.keepers >= executors, self._policy.watch_s)
        return self._control.keepers > before

    def _settled(self) -> bool:
        servers = self._control.servers()
        return len(servers) == self._control.keepers and all(server.state in (READY, GIVEN_UP) for server in servers)

    def _place(self, executors: int) -> None:
        """Run a task on each executor that starts the keeper there, where none runs. Raises RunError."""
        context = self._context
        context.setJobGroup(self._name, "start vLLM servers beside executors")
        tasks = executors if self._gpus else max(executors, context.defaultParallelism)
        slots = context.parallelize(range(tasks), tasks)
        if self._gpus:
            slots = slots.withResources(_whole_executor(self._gpus))
        self._control.begin_placement(executors)
        placement = Placement(
            (self._host, self._control.port),
            self._control.token,
            self._name,
            __version__,
            self._program,
            self._policy.place_s,
        )
        try:
            problems = slots.mapPartitions(placement).collect()
        except Exception as error:
            if "No module named 'sqlenrich'" in str(error):
                raise RunError(
                    f"sqlenrich is not installed for the Python of the executors: install sqlenrich {__version__} "
                    "there, or name a Python that has it as spark.pyspark.python"
                ) from None
            raise RunError(f"the tasks that start vLLM servers failed: {last_exception(error)}") from error
        if problems:
            raise RunError(f"no server {problems[0]}")

    def _look_after_executors(self) -> None:
        """Start a server beside each executor that comes later, and where a keeper is gone."""
        wait_s = self._policy.watch_s
        while not self._ended.wait(wait_s):
            try:
                gained = self._place_missing(2 * self._policy.place_s)
                wait_s = self._policy.watch_s if gained else min(2 * wait_s, _LONGEST_WATCH_S)
            except Exception as error:  # a session that ends, an executor that is lost meanwhile
                if self._ended.is_set():
                    return
                warnings.warn(f"the fleet could not look after its executors: {error}", RuntimeWarning, stacklevel=1)
                wait_s = min(2 * wait_s, _LONGEST_WATCH_S)

    def _end(self) -> None:
        self._ended.set()
        with suppress(Exception):  # the session may have ended, and its jobs with it
            self._context.cancelJobGroup(self._name)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._control.__exit__(None, None, None)
        if self._watch.is_alive():
            self._watch.join(self._policy.watch_s)


def _context(spark: SparkSession) -> SparkContext:
    """Return the session's context. Raises ConfigError for a session that can't have servers beside its executors."""
    context = check_session(spark).sparkContext
    if (context.getConf().get("spark.dynamicAllocation.enabled") or "").lower() == "true":
        raise ConfigError(
            "spark.dynamicAllocation.enabled ends idle executors, and their servers with them: set it to false, or use "
            "VLLMFleet.attach(urls)"
        )
    return context


def _is_local(context: SparkContext) -> bool:
    return str(context.master).partition("[")[0] == "local"


def _executors(context: SparkContext) -> int:
    """Return the number of executors now, at least the one that any job waits for. The driver counts in local mode."""
    known = len(context._jsc.sc().statusTracker().getExecutorInfos())
    return max(1, known if _is_local(context) else known - 1)


def _gpus(context: SparkContext) -> int:
    """Return the GPUs of an executor, 0 where Spark knows of none."""
    return 0 if _is_local(context) else int(context.getConf().get(f"spark.executor.resource.{GPU}.amount") or 0)


def _gpus_per_rank(arguments: Mapping[str, Any], gpus: int) -> int | None:
    """Return the GPUs that a tensor-parallel rank needs, None where their number is given. Raises ConfigError."""
    given = {name: int(arguments[name]) for name in _RANKS if arguments.get(name) is not None}
    ranks = math.prod(given.values())
    if gpus and ranks > gpus:
        named = " x ".join(f"{name} {value}" for name, value in given.items())
        raise ConfigError(
            f"{named}: a server needs {ranks} GPUs, and an executor has {gpus} (spark.executor.resource.{GPU}.amount)"
        )
    return None if _RANKS[0] in given else ranks


def _whole_executor(gpus: int) -> Any:
    """Return the profile of a task that takes all GPUs of its executor."""
    from pyspark.resource.profile import ResourceProfileBuilder
    from pyspark.resource.requests import TaskResourceRequests

    return ResourceProfileBuilder().require(TaskResourceRequests().resource(GPU, gpus)).build


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
