"""What run, retry, plan and preview set up once: the source, the model, the plan, the caps."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from sqlenrich.ask.answer_judge import CAP, AnswerJudge, JudgePolicy
from sqlenrich.ask.asker import Asker
from sqlenrich.ask.batch import BatchPolicy
from sqlenrich.ask.model_choice import (
    ModelChoice,
    WantedModel,
    choose_model,
    request_changes,
    sql_model,
)
from sqlenrich.ask.observer import NullObserver, Observer, PlanLine, Stopper
from sqlenrich.ask.progress import Progress
from sqlenrich.ask.rounds import Rounds
from sqlenrich.ask.served_models import ModelPin, changes, pin_of, served_in_run, served_in_table
from sqlenrich.core import runtime
from sqlenrich.core.errors import SqlenrichError
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.runner.drift import Drift
from sqlenrich.runner.place import Output
from sqlenrich.runner.repair_advice import advice_of
from sqlenrich.runner.report import Report
from sqlenrich.runner.source import compile_source
from sqlenrich.runner.usage import account
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.run_settings import Caps
from sqlenrich.spec.settings import Config
from sqlenrich.store.backend import Backend
from sqlenrich.store.base import Counts, Origin, Results, RunStart, Snapshot
from sqlenrich.store.batches import Batch, BatchLedger, shown_batches
from sqlenrich.store.inputs import Input
from sqlenrich.store.shared_request import CLASSIFIER

if TYPE_CHECKING:  # "import sqlenrich" does not load the HTTP client
    from sqlenrich.llm.messages import Answer
    from sqlenrich.llm.throttle.budget import Budget
    from sqlenrich.spec.classifier import Classifier
    from sqlenrich.store.shared_request import SharedRequest
    from sqlenrich.store.spark.backend import SparkBackend
    from sqlenrich.store.warehouse import WarehouseBackend


@dataclass
class Session:
    """One verb at work: what it reads, whom it asks, what it keeps, and what it counts."""

    enrichment: Enrichment
    config: Config
    backend: Backend
    model: ModelChoice
    caps: Caps
    observer: Observer = field(default_factory=NullObserver)
    stopper: Stopper = field(default_factory=Stopper)
    chunk_rows: int | None = None
    """The requests of a warehouse's statement; None: what takes 5 minutes."""
    name: str = ""
    """What the tables and the line of the ledger are named after."""
    started: datetime = field(default_factory=runtime.now)
    clock: float = field(default_factory=runtime.monotonic)
    run_id: str = ""
    line: RunStart | None = None
    """The line of the ledger, once the verb has begun."""
    next: tuple[tuple[str, ...], ...] = ()
    """The commands that follow refused rows, see :func:`.next_commands.next_commands`."""
    request: SharedRequest | None = None
    """What all its requests share, once the verb has begun."""
    declined: bool = False
    """Whether the observer declined to send the requests."""
    batch: BatchPolicy | None = None
    """How a vendor's Batch API is asked; None: requests are sent one by one."""
    recorded: Iterable[Answer] | None = None
    """Answers that are there already, in place of those that a model would give."""
    classifier: Classifier | None = None
    """What decides in place of the model; None: the model is asked."""
    _has_batches: bool = False
    """Whether there is a ledger of batches."""

    def __post_init__(self) -> None:
        self.run_id = self.run_id or f"{self.started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
        self.name = self.name or self.enrichment.name

    @cached_property
    def judge(self) -> AnswerJudge:
        """What judges the answers as they arrive."""
        return AnswerJudge(self.enrichment, JudgePolicy(self.caps.stop_after_refused))

    @property
    def origin(self) -> Origin:
        """What is stored beside each answer."""
        return Origin(self.run_id, self.enrichment.version, self.enrichment.fingerprint)

    def compile(self, input: Input, responses: str | None = None) -> Plan:
        """Open the source, settle the key, and compile the plan over the source's real types."""
        relations = self.backend.relations(self.name) | ({"responses": responses} if responses else {})
        self.enrichment, plan = compile_source(
            self.enrichment,
            self.backend,
            self.model.resolved,
            input,
            relations=relations,
            asked_by_client=not self.model.asks_in_sql,
            run_id=self.run_id,
        )
        return plan

    def rounds(self, plan: Plan) -> Rounds:
        """Return what asks the calls of a plan. Raises RunError, before any table is made, where nothing can ask."""
        progress = Progress(self.observer, self.judge)
        asker = self._asker(plan, progress)
        asker.check(self.model)
        return Rounds(asker, self.backend, plan, self.stopper, progress)

    def _asker(self, plan: Plan, progress: Progress) -> Asker:
        if self.recorded is not None:
            from sqlenrich.ask.recorded import RecordedAsker

            return RecordedAsker(self.backend, plan, self.origin, progress, self.recorded)
        if self.classifier is not None:
            from sqlenrich.ask.classifier import ClassifierAsker

            return ClassifierAsker(self.backend, plan, progress, self.classifier, self.enrichment, self.run_id)
        if self.batch is not None:
            from sqlenrich.ask.batch import BatchAsker
            from sqlenrich.ask.client import ClientAsker

            first = ClientAsker(self.backend, plan, self.origin, progress, self._request_changed, first=1)
            return BatchAsker(first, self.batches, self.name, self.batch)
        if self.model.asks_in_sql:
            from sqlenrich.ask.statements import ChunkPolicy, StatementAsker

            return StatementAsker(
                cast("WarehouseBackend", self.backend),
                plan,
                self.origin,
                progress,
                ChunkPolicy(self.chunk_rows),
                self.enrichment.params.get("max_tokens") if self.enrichment.embedding is None else 0,
            )
        if self.backend.has_executors and self.model.endpoint is not None:
            from sqlenrich.ask.executors import ExecutorAsker, SparkChunkPolicy

            policy = SparkChunkPolicy(self.chunk_rows)
            return ExecutorAsker(cast("SparkBackend", self.backend), plan, self.origin, progress, policy)
        from sqlenrich.ask.client import ClientAsker

        return ClientAsker(self.backend, plan, self.origin, progress, self._request_changed)

    @cached_property
    def batches(self) -> BatchLedger:
        """The ledger of batches beside the tables."""
        return BatchLedger(self.backend.as_database())

    def leave_open(self, calls: Sequence[Step]) -> list[Step]:
        """Return calls whose pending requests are not those of open batches: the vendor answers them already."""
        if self.batch is not None:
            self.batches.make()
        elif not self.batches.exists():
            return list(calls)
        self._has_batches = True
        return [replace(call, pending=self.batches.without_open(call)) for call in calls]

    def batches_of_run(self) -> list[Batch]:
        """Return the batches of the enrichment; none where no batch was noted when the verb began."""
        return [one for one in self.batches.batches() if one.name == self.name] if self._has_batches else []

    def open_batches(self, calls: Sequence[Step]) -> list[Batch]:
        """Return the batches whose answers are still to come, of every enrichment that shares the table of answers."""
        tables = {call.relation for call in calls}
        known = self.batches.batches() if self._has_batches else []
        return [one for one in known if one.open and one.responses in tables]

    def pin(self, plan: Plan) -> ModelPin | None:
        """Return the pin of the header, once the prompts are made."""
        return None if self.pin_model is None else pin_of(self.pin_model, self.backend, plan)

    @property
    def pin_model(self) -> str | bool | None:
        """The pin of the header; None for the mock model, which stands for any model."""
        is_mock = self.model.endpoint is None and not self.model.asks_in_sql
        return None if is_mock else self.enrichment.pin_model

    def start(
        self, snapshot: Snapshot, plan: Plan, calls: Iterable[tuple[ResolvedModel, str]], *, retry: bool = False
    ) -> RunStart:
        """Return the line of the ledger with which the verb begins; ``calls`` are its models with their constants."""
        from sqlenrich.ask.asked_request import shared_request

        self.request = shared_request(
            self.enrichment,
            self.model,
            self.backend.engine.name,
            calls,
            self.config.prices,
            plan.responses.request,
            retry=retry,
        )
        if self.classifier is not None:
            self.request = replace(self.request, asked=CLASSIFIER, price=None)
        written = tuple(dict.fromkeys((*snapshot.outputs, *self.backend.written_files())))
        self.line = RunStart(
            self.run_id, self.name, self.started, replace(snapshot, outputs=written), self.request.to_json()
        )
        return self.line

    def _request_changed(self, choice: ModelChoice) -> None:
        """Write into the ledger that the requests have another form from now on."""
        assert self.line is not None
        assert self.request is not None
        self.request = self.request.with_changes(choice.resolved.params, request_changes(choice))
        self.line = replace(self.line, request=self.request.to_json())
        self.backend.begin(self.line, known=True)

    def confirm(self, counts: Counts, cached: int, *, at_most: bool = False) -> bool:
        """Show what is about to be asked; False where the observer or a signal declined it."""
        if self.classifier is not None and not self.stopper.requested:
            return True  # it costs nothing
        prices, model = self.config.prices, self.model.resolved.name
        price = None if prices is None else prices.models.get(model)
        line = PlanLine(
            counts.rows,
            counts.distinct,
            cached,
            -(-counts.pending // self.model.texts_per_call),
            model,
            self.model.where,
            paid=price is not None or may_cost(self.model),
            price=price,
            currency="" if prices is None else prices.currency,
            at_most=at_most,
        )
        asked = runtime.monotonic()
        stopped = counts.pending > 0 and self.stopper.requested
        self.declined = not stopped and not self.observer.plan(line)
        declined = stopped or self.declined
        self.clock += runtime.monotonic() - asked  # a person may have thought about the question
        if declined:
            self.stopper.stop()
        return not declined

    def close(
        self,
        start: RunStart,
        plan: Plan,
        counts: Counts,
        results: Results,
        rounds: Rounds,
        failure: SqlenrichError | None,
        *,
        cached: int,
        unasked: int = 0,
        publish: bool = True,
        drift: Drift | None = None,
        cascade: Mapping[str, Any] | None = None,
    ) -> Report:
        """Write the results and the line of the ledger; give the report, or raise the failure that ended the verb."""
        advice = advice_of(self.backend, plan, self.enrichment, results.reasons) if publish else None
        # The first model of a cascade may have stored answers before these rounds.
        stored = rounds.progress.stored > 0 or cascade is not None
        served = served_in_run(self.backend, plan, self.run_id) if stored else ()
        wanted = self.pin_model
        pin = None if wanted is None else ModelPin(wanted, plan.model).problem(served_in_table(self.backend, plan))
        report = Report(
            run_id=self.run_id,
            rows_in=counts.rows,
            distinct_requests=counts.distinct,
            cached=cached,
            calls=rounds.calls,
            retries=rounds.retries,
            enriched=results.enriched,
            quarantined=results.quarantined,
            pending=results.pending + unasked,
            quarantine=results.reasons,
            **account(self.backend, plan, self.run_id, self.config.prices, stored=stored),
            seconds=round(runtime.monotonic() - self.clock, 3),
            name=self.name,
            output=self.backend.output,
            max_quarantine=self.enrichment.max_quarantine,
            stopped=self.stopper.requested,
            unasked=unasked,
            published=publish,
            declined=self.declined,
            stopped_at=self._cap_reached(results.pending),
            limits=rounds.asker.limit_shares(),
            served=[one._asdict() for one in served],
            served_changes=changes(served),
            pin_problem=pin or None,
            statements=self.backend.statements_run(),
            next=() if self.name != self.enrichment.name else self.next,
            results=self.backend.result_tables(plan),
            drift=drift,
            cascade=cascade,
            repairs_off={} if advice is None else {" ".join(one): rows for one, rows in advice.rows.items()},
            advice=() if advice is None else tuple(advice.lines()),
            examples=tuple(self.judge.told()) if self._cap_reached(results.pending) == CAP else (),
            batches=shown_batches([one for one in self.batches_of_run() if one.run_id == self.run_id or one.open]),
        )
        if publish:
            self.backend.publish(plan)
        status = "failed" if failure is not None else "stopped" if report.stopped or report.pending else "done"
        digest = self.backend.answers_digest(plan, self.run_id)
        told = {"answers": rounds.progress.stored, "digest": digest, "tables": publish}
        self.backend.record(start, status, {**report.to_dict(), "stored": told})
        if failure is not None:
            raise failure
        return report

    def _cap_reached(self, pending: int) -> str | None:
        """Return the cap that ended the verb, if one did."""
        rows = self.caps.max_rows is not None and pending and not self.stopper.requested
        reached = self.model.budget.reached if self.model.budget is not None else None
        return reached or ("max_rows" if rows else None)


def may_cost(choice: ModelChoice) -> bool:
    """Tell whether calls may cost money: not those of the mock model, nor of a server on this machine without a key."""
    if choice.asks_in_sql:
        return True
    if choice.endpoint is None:
        return False
    if choice.endpoint.resolve_key():  # it may be a proxy
        return True
    hosts = {urlsplit(url).hostname or "" for url in choice.endpoint.urls}
    return not all(host == "localhost" or host == "::1" or host.startswith("127.") for host in hosts)


def backend_of(output: Output) -> Backend:
    """Return the backend of an output: itself, or DuckDB for paths. Raises ConfigError for an unknown kind of file."""
    if isinstance(output, Backend):
        return output
    from sqlenrich.store.duckdb.backend import DuckDBBackend

    return DuckDBBackend(output)


def choice_of(
    enrichment: Enrichment,
    config: Config,
    wanted: WantedModel,
    backend: Backend,
    caps: Caps,
    budget: Budget | None = None,
) -> ModelChoice:
    """Return the model of a run: an endpoint where one is named, else what the backend's own function asks, if any.

    ``budget`` is one that another model spends too, in place of a new one below the ``caps``.
    """
    budget = new_budget(caps) if budget is None else budget
    if backend.asks_in_sql and wanted.endpoint is None and wanted.local is None:
        return sql_model(enrichment, backend.engine.name, config, wanted, budget)
    return choose_model(enrichment, config, wanted, budget)


def new_budget(caps: Caps) -> Budget:
    """Return the account of what a run uses, below its caps."""
    from sqlenrich.llm.throttle.budget import Budget

    return Budget(caps.max_calls, caps.max_cost)
