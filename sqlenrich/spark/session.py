"""A Spark session: the one of the caller, or one that a master names."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlenrich.core.errors import ConfigError, RunError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOOPBACK = "127.0.0.1"
INSTALL = "pip install 'sqlenrich[spark]'"
PYTHON_WORKER = "from the Python worker:"
"""The end of a line of Spark behind which stands what Python said."""
_LOCAL = re.compile(r"local(\[.*\])?")
_EXCEPTION = re.compile(r"[\w.]*(Error|Exception): \S")


def check_session(session: object) -> SparkSession:
    """Return a session that has its driver in this process. Raises ConfigError for any other."""
    kind = type(session)
    if kind.__module__.startswith("pyspark.sql.connect"):
        raise ConfigError(
            "a Spark Connect session has its driver elsewhere: give a classic one "
            "(SparkSession.builder.master(...)), or run this program on the cluster with spark-submit"
        )
    if not all(hasattr(session, name) for name in ("sparkContext", "sql", "createDataFrame")):
        raise ConfigError(f"spark must be a SparkSession or the URL of a master, not {kind.__name__}")
    return session  # type: ignore[return-value]


def open_session(master: str | None, conf: Mapping[str, str], log: Path | None = None) -> SparkSession:
    """Return the active session, or start one at ``master``. Raises ConfigError, RunError with the first line.

    A local master's tasks run with this Python, where nothing else names one. What Java and the tasks write to stderr
    goes to the file ``log``.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ConfigError(f"Spark needs pyspark: {INSTALL} ({error})") from None
    if master is None:
        active = SparkSession.getActiveSession()
        if active is None:
            raise ConfigError("which Spark? Give --spark MASTER (local[4], spark://host:7077, k8s://..., yarn)")
        return active
    given = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR", **conf}
    if _LOCAL.fullmatch(master):
        given.setdefault("spark.pyspark.python", os.environ.get("PYSPARK_PYTHON", sys.executable))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    builder: Any = SparkSession.builder
    builder = builder.master(master).appName("sqlenrich")
    for name, value in given.items():
        builder = builder.config(name, value)
    try:
        with _python(given.get("spark.pyspark.python")), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pyspark's about versions of pandas
            _start_java(master, given, log)
            return check_session(builder.getOrCreate())
    except ConfigError:
        raise
    except Exception as error:  # Java's errors have no class in common
        told = "" if log is None else f" (Spark's own lines are in {log})"
        raise RunError(f"Spark does not start at {master}: {first_line(error)}{told}") from None
    finally:
        if threading.current_thread() is threading.main_thread():
            # Spark's own handler would cancel all jobs: answers in flight would be lost.
            for number, handler in handlers.items():
                signal.signal(number, handler)


@contextmanager
def _python(program: str | None) -> Iterator[None]:
    """Let the session that is made run this Python in its tasks: pyspark reads it from the environment alone."""
    before = os.environ.get("PYSPARK_PYTHON")
    if program is not None:
        os.environ["PYSPARK_PYTHON"] = program
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("PYSPARK_PYTHON", None)
        else:
            os.environ["PYSPARK_PYTHON"] = before


def _start_java(master: str, conf: Mapping[str, str], log: Path | None) -> None:
    """Start Java with its stderr in a file, where this process has none yet."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if log is None or SparkContext._gateway is not None:
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    given = SparkConf(loadDefaults=False).setMaster(master).setAll(list(conf.items()))
    with log.open("ab") as file:
        start: Any = SparkContext._ensure_initialized
        launch: Any = launch_gateway
        start(gateway=launch(given, {"stderr": file, "stdout": file}))


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Keep pyspark from printing each error of a query as JSON with its stack, beside raising it."""
    from pyspark.logger import PySparkLogger

    # Its own kind of logger: one that logging makes first under this name would break pyspark.
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def settings(session: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Return a session other settings for a while."""
    before = {name: session.conf.get(name, None) for name in wanted}
    changed = {name: value for name, value in wanted.items() if before[name] != value}
    for name, new in changed.items():
        session.conf.set(name, new)
    try:
        yield
    finally:
        for name in changed:
            if (value := before[name]) is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, value)


def mapped(rows: DataFrame, work: Callable[..., Any], schema: str) -> DataFrame:
    """Return what a function of Arrow batches makes of rows, without pyspark's warning about versions of pandas."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return rows.mapInArrow(work, schema)


def desk_place(session: SparkSession) -> tuple[str, str]:
    """Return where a desk listens on the driver, and how executors reach it."""
    context = session.sparkContext
    if _LOCAL.fullmatch(str(context.master)):  # its tasks run in the driver
        return LOOPBACK, LOOPBACK
    conf = context.getConf()
    host = conf.get("spark.driver.host") or LOOPBACK
    return conf.get("spark.driver.bindAddress") or host, host


def slots(session: SparkSession) -> int:
    """Return how many tasks run at a time."""
    context = session.sparkContext
    return max(1, context.defaultParallelism // int(context.getConf().get("spark.task.cpus", "1") or 1))


def first_line(error: BaseException) -> str:
    """Return the first line of an error of Spark; of one in a Python worker the line that Python said."""
    line = _lines(error)[0]
    return last_exception(error) if line.endswith(PYTHON_WORKER) else line


def last_exception(error: BaseException) -> str:
    """Return the last line of an error of Spark that names an exception: what Python said, if it was Python's."""
    lines = _lines(error)
    return next((line for line in reversed(lines) if _EXCEPTION.match(line)), lines[0])


def _lines(error: BaseException) -> list[str]:
    described = getattr(error, "java_exception", None)
    text = str(error if described is None else described.toString())
    return [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
