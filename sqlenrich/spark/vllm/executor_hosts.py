"""The executors of a Spark session as the hosts of a fleet."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.version import __version__
from sqlenrich.spark.session import check_session, last_exception, slots
from sqlenrich.spark.vllm.placement import GPU, Placement

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


class ExecutorHosts:
    """One server beside each executor. The driver is the one executor of local mode."""

    nobody = "no executor took a task: are all of them busy?"
    gpus_named = f"an executor has {{gpus}} (spark.executor.resource.{GPU}.amount)"

    def __init__(self, spark: SparkSession) -> None:
        self._context = context = _context(spark)
        self._group = f"sqlenrich-fleet-{secrets.token_hex(8)}"
        conf = context.getConf()
        self.address = conf.get("spark.driver.host") or "127.0.0.1"
        self.listens_at = conf.get("spark.driver.bindAddress") or self.address
        self.gpus = 0 if _is_local(context) else int(conf.get(f"spark.executor.resource.{GPU}.amount") or 0)
        self.tasks = max(1, slots(spark) // self.wanted())

    def wanted(self) -> int:
        """Return the number of executors now, at least the one that any job waits for."""
        known = len(self._context._jsc.sc().statusTracker().getExecutorInfos())
        return max(1, known if _is_local(self._context) else known - 1)  # one is the driver

    def place(self, placement: Placement, wanted: int) -> None:
        """Run a task on each executor that starts the keeper there, where none runs. Raises RunError."""
        context = self._context
        context.setJobGroup(self._group, "start vLLM servers beside executors")
        tasks = wanted if self.gpus else max(wanted, context.defaultParallelism)
        places = context.parallelize(range(tasks), tasks)
        if self.gpus:
            places = places.withResources(_whole_executor(self.gpus))
        try:
            problems = places.mapPartitions(placement).collect()
        except Exception as error:
            if "No module named 'sqlenrich'" in str(error):
                raise RunError(
                    f"sqlenrich is not installed for the Python of the executors: install sqlenrich {__version__} "
                    "there, or name a Python that has it as spark.pyspark.python"
                ) from None
            raise RunError(f"the tasks that start vLLM servers failed: {last_exception(error)}") from error
        if problems:
            raise RunError(f"no server {problems[0]}")

    def cancel(self) -> None:
        """Cancel the tasks that wait for executors whose GPUs are in use."""
        with suppress(Exception):  # the session may have ended, and its jobs with it
            self._context.cancelJobGroup(self._group)

    def close(self) -> None:
        """Executors go on."""


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


def _whole_executor(gpus: int) -> Any:
    """Return the profile of a task that takes all GPUs of its executor."""
    from pyspark.resource.profile import ResourceProfileBuilder
    from pyspark.resource.requests import TaskResourceRequests

    return ResourceProfileBuilder().require(TaskResourceRequests().resource(GPU, gpus)).build
