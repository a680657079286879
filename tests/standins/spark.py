"""A real Spark in local mode: its parser, its execution, and an `ai_query` answered by Python.

This is open-source Spark, not Databricks: another parser (`?::` and `$$` are unknown), another
optimizer, no Delta. The `mem` catalog stands for one that can replace and merge tables; see
memcatalog/MemCatalog.scala for what it ignores. The signature of `ai_query` is ours.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.standins.cache import cached_file, scratch_dir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANSI_OFF = {"spark.sql.ansi.enabled": "false"}
"""What dbt-spark sets in each session: casts and arithmetic give NULL or another value in place of an error."""
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
}
"""Each query in one task, by Spark's interpreter: to compile Java takes longer than a query over few rows."""
_SOURCES = Path(__file__).parent / "memcatalog"
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
"""The quick compiler alone, and one thread that collects garbage: half the processor time for queries that run once.

That compiler alone has by default 48 MB for its code. They are full after a few hundred queries: each further one then
throws code away that the next one compiles again.
"""
_LOGGING = """rootLogger.level = fatal
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n%ex
"""


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if java is None:
        raise RuntimeError("Java is needed: no `java` in JAVA_HOME or on the path")
    return java


def standins_jar() -> Path:
    """The jar of the Scala sources in memcatalog/, compiled once with the compiler inside pyspark."""
    import pyspark

    sources = sorted(_SOURCES.glob("*.scala"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    jars = Path(pyspark.__file__).parent / "jars"

    def build(target: Path) -> None:
        command = [_java(), "-cp", str(jars / "*"), "scala.tools.nsc.Main", "-usejavacp", "-d", str(target)]
        done = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the Scala sources do not compile:\n{done.stdout}{done.stderr}")

    return cached_file(f"spark-standins-{pyspark.__version__}-{digest}.jar", build)


@functools.cache
def spark_session() -> SparkSession:
    """The process's one Spark session: two threads, UTC, every file in a temporary folder.

    Takes about ten seconds at the first call. The current catalog is Spark's own; see
    `mem_catalog()` for the one that can replace and merge.
    """
    with warnings.catch_warnings():
        # pyspark warns about versions of pandas; nothing here goes through pandas.
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is not None:
        raise RuntimeError("another Spark session is active in this process")
    scratch = scratch_dir("spark-")
    logging = scratch / "log4j2.properties"
    logging.write_text(_LOGGING)
    jar = str(standins_jar())
    java = f"{QUICK_JAVA} -Dderby.system.home={scratch} -Djava.io.tmpdir={scratch} "
    java += f"-Dlog4j2.configurationFile={logging.as_uri()}"
    given = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        # Spark keeps the plans of so many queries for its pages: by default of a thousand.
        "spark.sql.ui.retainedExecutions": "5",
        "spark.ui.retainedJobs": "5",
        "spark.ui.retainedStages": "5",
        "spark.driver.extraClassPath": jar,
        "spark.driver.extraJavaOptions": java,
        "spark.local.dir": str(scratch / "local"),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.catalog.mem": "sqlenrich.standins.MemCatalog",
        "spark.hadoop.fs.file.impl": "sqlenrich.standins.LocalFiles",
        "spark.log.level": "FATAL",
    }
    builder = SparkSession.builder.master("local[2]").appName("sqlenrich-tests")
    for name, value in given.items():
        builder = builder.config(name, value)
    os.environ["PYSPARK_PYTHON"] = sys.executable  # the workers' Python; a setting would not reach them
    with _stderr_to(scratch / "jvm.log"):
        session = builder.getOrCreate()
    atexit.register(session.stop)
    return session


@contextlib.contextmanager
def settings(values: Mapping[str, str]) -> Iterator[None]:
    """Return the session other settings for a while."""
    conf = spark_session().conf
    before = {name: conf.get(name, None) for name in values}
    for name, value in values.items():
        conf.set(name, value)
    try:
        yield
    finally:
        for name, kept in before.items():
            conf.unset(name) if kept is None else conf.set(name, kept)


@contextlib.contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Send what processes started here write to stderr into a file; Java greets with warnings."""
    kept = os.dup(2)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    except Exception as error:
        raise RuntimeError(f"Spark did not start: {error}\n{path.read_text(errors='replace')}") from error
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _scala(name: str) -> Any:
    jvm: Any = spark_session().sparkContext._jvm
    return getattr(jvm.sqlenrich.standins, name)


@contextlib.contextmanager
def mem_catalog() -> Iterator[SparkSession]:
    """The session with an empty `mem` as the current catalog; its tables are gone afterwards.

    Two-part names mean its schemas, of which `default` exists: CREATE SCHEMA makes more. Nothing is compiled: a script
    is many statements over few rows.
    """
    session = spark_session()
    catalog, database = session.catalog.currentCatalog(), session.catalog.currentDatabase()
    _scala("MemCatalog").clear()
    session.catalog.setCurrentCatalog("mem")
    try:
        with settings(INTERPRETED):
            yield session
    finally:
        session.catalog.setCurrentCatalog(catalog)
        session.catalog.setCurrentDatabase(database)
        _scala("MemCatalog").clear()


def mem_rows(schema: str, table: str) -> int:
    """How many rows a table of the ``mem`` catalog has; no query is run."""
    return int(_scala("MemCatalog").rows(schema, table))


def split_spark(sql: str) -> list[str]:
    """The statements of a script, cut where Spark's own lexer sees a semicolon."""
    return list(_scala("Statements").split(sql))


def parse_spark(sql: str) -> list[str]:
    """Parse every statement of a script with Spark's parser; the name of each statement's plan.

    Raises pyspark's ParseException. Variables such as ${x} are put in first, as spark.sql does.
    Nothing is resolved: tables, columns and functions need not exist.
    """
    statements = _scala("Statements")
    session: Any = spark_session()._jsparkSession
    return [str(statements.parse(session, text)) for text in statements.split(sql)]


def rows(sql: str) -> list[tuple[Any, ...]]:
    """Run one statement; its rows as plain tuples.

    Structs are tuples too, a VARIANT is its JSON text, a TIMESTAMP a naive datetime in the zone of
    this machine. Spark has no SIGNAL (4.3), which Databricks' scripts end by.
    """
    from sqlenrich.engines.databricks.engine import SIGNAL

    sql = re.sub(f"{SIGNAL.value} = (\\w+)", r"SELECT RAISE_ERROR(\1['errorMessage'])", sql)
    return [_plain(row) for row in spark_session().sql(sql).collect()]


def run_script(sql: str) -> list[list[tuple[Any, ...]]]:
    """Run a script statement by statement; the rows of each."""
    return [rows(statement) for statement in split_spark(sql)]


def _plain(value: Any) -> Any:
    from pyspark.sql import VariantVal

    if isinstance(value, VariantVal):
        return value.toJson()
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


class AiCall(NamedTuple):
    """One row's call of ai_query."""

    endpoint: str | None
    request: str | None
    model_parameters: dict[str, Any] | None
    response_format: str | None
    fail_on_error: bool | None
    return_type: str | None = None


class AiAnswer(NamedTuple):
    """What ai_query returns for a row; a vector as its JSON text."""

    result: str | None
    error: str | None = None


Answer = Callable[[AiCall], AiAnswer]
JOB_GROUP = "spark.jobGroup.id"
"""Spark's property of the jobs that SparkContext.setJobGroup named."""


class _AnswerServer:
    """Lets Spark's Python workers, which are other processes, ask a function of this one."""

    def __init__(self) -> None:
        self.key = os.urandom(16)
        self._listener = Listener(("127.0.0.1", 0), authkey=self.key)
        self.address = self._listener.address
        self.answer: Answer | None = None
        self.cancelled: Callable[[str | None], bool] = lambda _: False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            with contextlib.suppress(OSError, EOFError):
                threading.Thread(target=self._serve, args=[self._listener.accept()], daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        with connection, contextlib.suppress(EOFError, OSError):
            try:
                assert self.answer is not None
                job_group, calls = connection.recv()
                reply: Any = []
                for call in calls:
                    if self.cancelled(job_group):
                        raise RuntimeError("the statement was cancelled")
                    reply.append(tuple(self.answer(AiCall(*_floats(call)))))
            except Exception as error:  # told to the worker, whose query then fails
                reply = f"{type(error).__name__}: {error}"
            connection.send(reply)


@functools.cache
def _answer_server() -> _AnswerServer:
    return _AnswerServer()


def register_ai_query(answer: Answer, cancelled: Callable[[str | None], bool] = lambda _: False) -> None:
    """Give the session an `ai_query` that asks `answer`, here in this process, for every row.

    Arguments: endpoint, request, modelParameters, responseFormat, failOnError, returnType, by place or by name
    (the names' case counts, unlike on Databricks). Always returns STRUCT<result, errorMessage>, of texts,
    also without failOnError => false, where Databricks returns the bare result; an error then
    fails the query. `answer` may run in several threads at once; its exception fails the query.
    Nothing is asked for a job group that is `cancelled`: a Python worker outlives its cancelled task for seconds.
    """
    import pyarrow as pa
    from pyspark.sql.pandas.functions import arrow_udf

    session = spark_session()  # the function's type is parsed in it
    server = _answer_server()
    server.answer, server.cancelled = answer, cancelled
    address, key = server.address, server.key  # the function travels to the workers with these alone

    def ai_query(
        endpoint: pa.Array,
        request: pa.Array,
        modelParameters: pa.Array = None,  # noqa: N803
        responseFormat: pa.Array = None,  # noqa: N803
        failOnError: pa.Array = None,  # noqa: N803
        returnType: pa.Array = None,  # noqa: N803
    ) -> pa.Array:
        from multiprocessing.connection import Client

        from pyspark import TaskContext

        task = TaskContext.get()
        job_group = None if task is None else task.getLocalProperty(JOB_GROUP)
        given = (endpoint, request, modelParameters, responseFormat, failOnError, returnType)
        columns = [[None] * len(request) if c is None else c.to_pylist() for c in given]
        with Client(address, authkey=key) as connection:
            connection.send((job_group, list(zip(*columns, strict=True))))
            replies = connection.recv()
        if isinstance(replies, str):
            raise RuntimeError(f"ai_query: {replies}")
        for (_, error), soft in zip(replies, columns[4], strict=True):
            if error and soft is not False:
                raise RuntimeError(f"ai_query: {error}")
        parts = [pa.array([reply[place] for reply in replies], pa.string()) for place in (0, 1)]
        return pa.StructArray.from_arrays(parts, names=["result", "errorMessage"])

    # As objects: Spark reads the kind of function from them, and here they are only strings.
    ai_query.__annotations__ = dict.fromkeys(ai_query.__annotations__, pa.Array)
    decorate: Any = arrow_udf  # its stub knows no function of six arguments
    made = decorate(ai_query, "result string, errorMessage string")
    session.udf.register("ai_query", made.asNondeterministic())


def _floats(value: Any) -> Any:
    """Decimals as floats, as JSON needs them: 0.0 in SQL is a decimal."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list | tuple):
        return [_floats(item) for item in value]
    if isinstance(value, dict):
        return {key: _floats(item) for key, item in value.items()}
    return value
