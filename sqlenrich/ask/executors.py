"""The asker of Spark: executors ask an endpoint, and Spark inserts what the workers of its tasks answer."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from sqlenrich.ask.answer_judge import StoredAnswer
from sqlenrich.ask.asker import PREFLIGHT_REQUESTS
from sqlenrich.ask.model_choice import ModelChoice
from sqlenrich.ask.progress import Progress
from sqlenrich.core.errors import RunError, raising_first
from sqlenrich.core.version import __version__
from sqlenrich.llm.client import STOPPING
from sqlenrich.llm.messages import AnsweredRequest
from sqlenrich.llm.throttle.wait_times import share_of_time
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.spark.assignment import Assignment
from sqlenrich.spark.desk import Desk
from sqlenrich.spark.journal import Journal
from sqlenrich.spark.rows import SCHEMA
from sqlenrich.spark.session import desk_place, mapped, slots
from sqlenrich.store import queries
from sqlenrich.store.base import Origin
from sqlenrich.store.spark.backend import SparkBackend
from sqlenrich.store.spark.pending import PendingRange, next_part, ranges_of, without

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sqlenrich.llm.local.model import LocalConfig

POLL_S = 0.1
_MISSING = re.compile(r"No module named '(sqlenrich[\w.]*|orjson|httptools|uvloop|pyarrow)'")


@dataclass(frozen=True)
class SparkChunkPolicy:
    """How many requests a statement of Spark asks."""

    rows: int | None = None
    """A fixed number; None: what takes ``seconds`` at the measured rate."""
    first: int = 50_000
    seconds: float = 300.0
    growth: int = 10
    """A statement asks at most this many times the requests of the one before it."""


@dataclass
class ExecutorAsker:
    """Asks in tasks of Spark: its executors send the requests, and Spark inserts their answers.

    A statement commits its answers at its end. Those of a statement that fails are in the journal.
    """

    backend: SparkBackend
    plan: Plan
    origin: Origin
    progress: Progress
    policy: SparkChunkPolicy = field(default_factory=SparkChunkPolicy)
    _calls: int = 0
    """Those of the desks before this one."""
    _retries: int = 0
    _stopped: bool = False
    """Whether it was stopped; a desk that is opened later gives nothing out."""
    _desk: Desk | None = None
    _call: Step | None = None
    _whole: DataFrame | None = None
    """The pending requests of the round."""
    _ranges: list[PendingRange] = field(default_factory=list)
    """The ranges of them that were not asked yet."""
    _size: int = 0
    _ordered: bool = False
    _model: str = ""
    _local: LocalConfig | None = None
    """The class of the user that tasks ask; None: an endpoint."""
    _seen: int = 0
    """The answers of this desk that are counted."""
    _waits: list[Any] = field(default_factory=list)

    @property
    def calls(self) -> int:
        """The requests that the workers sent; once a desk is closed, those too that lost workers may have sent."""
        return self._calls + (0 if self._desk is None else self._desk.counts.calls)

    @property
    def retries(self) -> int:
        """The requests that the workers sent again."""
        return self._retries + (0 if self._desk is None else self._desk.counts.retries)

    @property
    def left(self) -> int:
        """The requests of the round that no statement has asked yet."""
        return sum(each.rows for each in self._ranges)

    @property
    def desk(self) -> Desk:
        """The open desk."""
        assert self._desk is not None
        return self._desk

    @property
    def retryable(self) -> int:
        """The failures of the round that may pass."""
        return self.desk.counts.retryable

    @property
    def ended(self) -> bool:
        """Whether no further statement is begun."""
        return self.desk.stopped or self.desk.budget.budget.reached is not None

    def limit_shares(self) -> dict[str, float]:
        """Return the share of the asking time in which each limit delayed requests."""
        return share_of_time(self._waits)

    def stop(self) -> None:
        """Send nothing new and end; a second call abandons what is in flight."""
        self._stopped = True
        if self._desk is not None:
            self._desk.stop()

    def stopping(self) -> str:
        """Return what ends the run after a stop."""
        return STOPPING

    def waiting(self) -> str:
        """Return what the next answer waits for."""
        busy = self._desk.busy() if self._desk is not None else 0
        return f"{busy:,} tasks ask" if busy else "Spark starts its tasks"

    def check(self, choice: ModelChoice) -> None:
        """Find out whether executors have this Python's modules and reach the driver; nothing is asked or made."""
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="sqlenrich-")))
            journal = stack.enter_context(Journal(folder / "check.journal"))
            self._preflight(stack.enter_context(self._open_desk(choice, journal)), self._nothing())

    @contextmanager
    def open(self, choice: ModelChoice) -> Iterator[None]:
        """Open the desk at which the executors' workers fetch requests and leave answers."""
        with self._open_desk(choice, self.backend.journal) as desk:
            self._seen = 0
            self._ordered, self._model = choice.prefix_order, choice.resolved.name
            self._desk = desk
            if self._stopped:
                desk.stop()
            if self._calls and (known := self._answered_request()) is not None:
                self._set_canary(known)  # the workers of this desk have got no answer yet
            try:
                yield
            finally:
                self._desk = None

    @contextmanager
    def _open_desk(self, choice: ModelChoice, journal: Journal) -> Iterator[Desk]:
        from sqlenrich.llm.endpoint.model import EndpointModel

        asked = choice.model if isinstance(choice.model, EndpointModel) else None
        self._local = local_config(choice.model)
        host, announced = desk_place(self.backend.session)
        price = choice.price
        with ExitStack() as stack:
            desk = Desk(
                journal,
                None if asked is None else asked.endpoint,
                budget=choice.budget,
                host=host,
                announced=announced,
                port=self.backend.where.desk_port,
                policy=self.backend.where.desk_policy,
            )
            stack.callback(self._count, desk)  # once it is closed: what lost workers may have sent counts too
            origin = {"run_id": self.origin.run_id, "version": self.origin.version}
            desk.assignments["run"] = Assignment(
                None if asked is None else asked.endpoint,
                None if asked is None else asked.config,
                {**origin, "fingerprint": self.origin.fingerprint},
                {name: str(getattr(price, name)) for name in ("input", "cached", "output")} if price else None,
            )
            yield stack.enter_context(desk)

    def _count(self, desk: Desk) -> None:
        self._tell(desk)
        self._calls += desk.counts.calls
        self._retries += desk.counts.retries
        self._waits += desk.wait_times

    def begin(self, call: Step, pending: int) -> None:
        """Begin a round."""
        checked, self._call = self.backend.spark.checked, call
        self._whole = whole = self.backend.pending(call)
        self._ranges, self._size = checked(partial(ranges_of, whole, pending)), self.policy.rows or self.policy.first
        self.desk.counts.retryable = 0

    def ask_first(self, *, answered: bool) -> None:  # noqa: ARG002
        """Ask a few requests in one task."""
        if self._ranges and self._whole is not None:
            some = next_part(self._ranges, 1).of(self._whole)
            try:
                first = some.orderBy("request_hash").limit(PREFLIGHT_REQUESTS).coalesce(1)
                if not self._preflight(self.desk, first) and not self.ended:
                    self._answers_again()
            except RunError:
                if self.desk.fatal is not None or not self._answers_again():
                    raise
            self._check_first(self.desk)

    def ask(self, most: int | None) -> None:
        """Ask the next ranges of hashes in one statement."""
        checked, whole, call = self.backend.spark.checked, self._whole, self._call
        assert whole is not None
        assert call is not None
        size = most or self._size
        part = next_part(self._ranges, size)
        if (rows := part.rows) > size:  # one range
            rows, part = size, replace(part, upto=checked(partial(part.bound, whole, size)))
        began = time.monotonic()
        self._statement(self.desk, call, part.of(whole), ordered=self._ordered)
        self._ranges = without(self._ranges, part, rows)
        if most is None:
            rate = rows / max(time.monotonic() - began, 1e-3)
            policy = self.policy
            self._size = policy.rows or min(self._size * policy.growth, max(1, int(rate * policy.seconds)))

    def _answers_again(self) -> bool:
        """Whether the model answers a request again that it answered in an earlier run, see :class:`.ClientAsker`.

        It is the canary of all workers then.
        """
        if (known := self._answered_request()) is None:
            return False
        with suppress(RunError):
            if self._preflight(self.desk, self._nothing(), known=known):
                self._set_canary(known)
                return True
        return False

    def _answered_request(self) -> AnsweredRequest | None:
        rows = self.backend.rows(self.plan, queries.answered_request(self._model))
        return AnsweredRequest(*rows[0]) if rows else None

    def _set_canary(self, known: AnsweredRequest) -> None:
        assignments = self.desk.assignments
        assignments["run"] = replace(assignments["run"], answered=known)

    def _nothing(self) -> DataFrame:
        """Return rows that are no requests."""
        from sqlenrich.spark.tasks import NOTHING

        session = self.backend.session
        return self.backend.spark.checked(lambda: session.range(0, 1, 1, 1).selectExpr(*NOTHING))

    def _preflight(self, desk: Desk, requests: DataFrame, known: AnsweredRequest | None = None) -> int:
        """Ask requests in one task; give how many are answered. Raises RunError with what is to be mended."""
        from sqlenrich.spark.tasks import PREFLIGHT, preflight

        work = partial(preflight, address=desk.address, assignment="run", local=self._local, known=known)
        told: list[Any] = []
        asked = mapped(requests, work, PREFLIGHT)
        self._wait(desk, lambda: told.extend(asked.collect()))
        problem = next((row.problem for row in told if row.problem), None) or desk.fatal
        if problem is not None:
            raise RunError(problem)
        return sum(row.answered for row in told)

    def _check_first(self, desk: Desk) -> None:
        """Look at what the first answers say of their model. Raises RunError where it is not the one that is pinned."""
        try:
            self.progress.check_first((*names, None, count) for names, count in desk.served.items())
        except RunError:
            self.backend.store(self.plan, doubtful=True)  # what was answered is paid
            raise

    def _statement(self, desk: Desk, call: Step, requests: DataFrame, *, ordered: bool) -> None:
        """Ask some requests in as many tasks as run at a time, and store the answers."""
        from sqlenrich.spark.tasks import ask

        count = slots(self.backend.session)
        if ordered:
            # Neighbours share a beginning, which the model then reads once.
            requests = requests.repartitionByRange(count, "prompt").sortWithinPartitions("prompt")
        else:
            requests = requests.repartition(count)
        answers = mapped(requests, partial(ask, address=desk.address, assignment="run", local=self._local), SCHEMA)
        failure: BaseException | None = None
        while True:
            lost = desk.counts.silent
            try:
                self._wait(desk, lambda: self.backend.tables.append(call.relations.table("responses"), answers))
            except RunError as error:
                if desk.counts.silent > lost and not self.ended:
                    continue  # a lost worker failed it; what is told is in the journal and is not asked again
                failure = error
            except BaseException as error:
                failure = error
            break
        if failure is None and not self.ended:
            self.backend.journal.clear()
            return
        if failure is not None:
            desk.drain()  # Spark lets the tasks of a failed statement ask on for a while
        if desk.fatal is not None and (failure is None or isinstance(failure, Exception)):
            failure = RunError(desk.fatal)
        with raising_first(failure):
            self.backend.store(self.plan, doubtful=True, held=desk.held)  # some answers may be in the journal alone

    def _wait(self, desk: Desk, work: Callable[[], object]) -> None:
        """Do work of Spark in a thread, and tell meanwhile what comes in. Raises RunError with one line.

        Jobs that wait for lost workers alone are cancelled: Spark itself waits for a stopped process for ever.
        """
        context = self.backend.session.sparkContext
        tag = f"sqlenrich-{uuid.uuid4().hex}"
        failed: list[BaseException] = []

        def done() -> None:
            try:
                context.addJobTag(tag)
                self.backend.spark.checked(work)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=done, name="sqlenrich-statement", daemon=True)
        lost, asked_at = desk.counts.silent, time.monotonic()
        thread.start()
        try:
            while thread.is_alive():
                thread.join(POLL_S)
                self._tell(desk)
                if desk.busy() or desk.counts.silent == lost:
                    asked_at = time.monotonic()
                elif time.monotonic() - asked_at > desk.policy.silent_s:
                    lost = desk.counts.silent
                    context.cancelJobsWithTag(tag)
        except BaseException:
            desk.stop()
            desk.stop()
            thread.join()
            raise
        if failed:
            raise _readable(failed[0])

    def _tell(self, desk: Desk) -> None:
        for note in desk.new_notes():
            self.progress.observer.note(note)
        if (more := desk.counts.told - self._seen) > 0:
            counts = desk.counts
            self._seen += more
            self.progress.stored_elsewhere(
                more,
                [StoredAnswer(*answer) for answer in desk.new_answers()],
                failed=0,
                all_failed=counts.failed,
                tokens_in=counts.tokens_in,
                tokens_out=counts.tokens_out,
            )
            if not desk.stopped and self.progress.ends_run():
                desk.stop()


def _readable(error: BaseException) -> BaseException:
    """Return an error of a task that says what to do, where it is a known one."""
    if found := _MISSING.search(str(error)):
        module = found[1].split(".")[0]
        return RunError(
            f"{module} is not installed on the executors: install sqlenrich[spark]=={__version__} for their Python "
            "(spark.archives, an image, or spark.pyspark.python)"
        )
    return error


def local_config(model: object) -> LocalConfig | None:
    """Return what tasks load a class of the user with; None for a model behind an endpoint."""
    from sqlenrich.llm.local.model import LocalProcessModel

    return model.config if isinstance(model, LocalProcessModel) else None
