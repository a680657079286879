"""The way out of quarantine: chosen refused rows of the last run are asked again, as further attempts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from sqlenrich.ask.model_choice import CLIENT_ENGINE, MOCK, ModelChoice, WantedModel, choose_model
from sqlenrich.ask.observer import Observer, Stopper
from sqlenrich.ask.rounds import Rounds
from sqlenrich.core import runtime
from sqlenrich.core.embedding import DEFAULT_ALIASES
from sqlenrich.core.errors import ConfigError, SqlenrichError, raising_first
from sqlenrich.core.plurals import counted
from sqlenrich.engines import get_engine
from sqlenrich.plan.compile import compile_accepted, compile_plan, compile_retry, snapshot_digest
from sqlenrich.plan.model import resolve_model
from sqlenrich.plan.pending_step import check_keeps_prompts, chosen_reasons
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.renderer.script import model_for
from sqlenrich.runner.lineage import told
from sqlenrich.runner.next_commands import next_commands
from sqlenrich.runner.observers import default_observer
from sqlenrich.runner.options import RetryOptions, batch_policy
from sqlenrich.runner.place import Output
from sqlenrich.runner.repair_advice import advice_of
from sqlenrich.runner.report import Report
from sqlenrich.runner.session import Session, backend_of, choice_of, new_budget
from sqlenrich.runner.setup import set_up
from sqlenrich.runner.source import with_source_options
from sqlenrich.runner.telemetry import metered
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.run_settings import AnyModel, Caps
from sqlenrich.spec.settings import Config
from sqlenrich.store.backend import Backend
from sqlenrich.store.base import Counts, RunStart, Snapshot
from sqlenrich.store.ledger import AGAIN
from sqlenrich.store.queries import among, failed_hashes


def retry(
    enrichment: Enrichment | str | Path,
    *,
    output: Output | None = None,
    reasons: Sequence[str] | None = None,
    where: str | None = None,
    model: AnyModel | None = None,
    max_attempts: int | None = None,
    caps: Caps | None = None,
    config: Config | None = None,
    observer: Observer | None = None,
    stopper: Stopper | None = None,
    **options: Unpack[RetryOptions],
) -> Report:
    """Ask refused rows of the last run again and give the report.

    ``output`` is what that run wrote. The rows refused for one of ``reasons`` (codes; by default each that asking can
    mend) with fewer than ``max_attempts`` attempts (by default the file's) are asked until they are accepted or have no
    attempts left. With ``where``, a condition on the columns of the results such as ``confidence < 0.8``, accepted rows
    that meet it are asked too, each distinct request once of a model; their answers count once they are accepted.
    Other accepted rows are never asked, nor those that no run has asked yet: they stay pending. The model is
    ``model``, else the file's ``retry.escalate``, else that of the last run; ``caps`` and the shorthands are those of
    :func:`~sqlenrich.run`, as are those of a warehouse. Each answer is a further attempt of the same request: none is
    dropped. Raises ConfigError
    where the file would ask something else than the last run did.
    """
    clock = runtime.monotonic()
    setup = set_up("retry", RetryOptions, options, enrichment, output=output, model=model, caps=caps, config=config)
    enrichment, config, wanted, caps = setup.enrichment, setup.config, setup.wanted, setup.caps
    check_keeps_prompts(enrichment)
    codes = chosen_reasons(reasons)
    backend = backend_of(setup.place)
    backend.check_before_retry(enrichment)
    observer = observer or default_observer()
    backend.watch(observer.note)
    with told("retry", enrichment, backend, None, f"retry at {runtime.now()}", observer.note) as end, backend:
        last = backend.last_snapshot(enrichment.name)
        enrichment = same_snapshot(enrichment, last, config, backend)
        choice = choose(enrichment, last, config, wanted, caps, backend)
        _check_same_model(enrichment, last, choice)
        session = Session(
            enrichment,
            config,
            backend,
            choice,
            caps,
            metered(observer, choice, embeds=enrichment.embedding is not None),
            stopper or Stopper(),
            chunk_rows=options.get("chunk_rows"),
            clock=clock,
            next=next_commands(enrichment, output, wanted, options),
            batch=batch_policy(options),
        )
        relations = {**backend.relations(enrichment.name), "source": "source"}
        if last.responses:
            relations["responses"] = last.responses
        plan = compile_plan(
            session.enrichment,
            backend.engine.name,
            relations,
            model=choice.resolved,
            asked_by_client=not choice.asks_in_sql,
            run_id=session.run_id,
        )
        report = _retry(session, plan, last, relations, Selection(codes, where, max_attempts))
        end(report)
        return report


def _retry(
    session: Session,
    plan: Plan,
    last: Snapshot,
    relations: dict[str, str],
    selection: Selection,
) -> Report:
    backend, caps, enrichment = session.backend, session.caps, session.enrichment
    codes, where, max_attempts = selection
    calls = calls_of(enrichment, session.model, backend, relations, selection, session.run_id)
    every = [call.step for call in calls]
    check_tables_of_last_run(backend, plan)
    start = session.start(last, plan, [(call.model.resolved, call.constant) for call in calls], retry=True)
    rounds = session.rounds(plan)
    backend.begin(start, known=True)
    # The last run may have been killed, or the checks be others: the stored answers decide, not an old verdict.
    backend.judge(plan)
    steps = session.leave_open(every)
    calls = [call._replace(step=step) for call, step in zip(calls, steps, strict=True)]
    rounds.progress.pin = session.pin(plan)
    rows, distinct = backend.size(plan)
    refused = backend.count(steps)
    most = enrichment.max_attempts if max_attempts is None else max_attempts
    spent, unasked = backend.not_retried(plan, codes, most)
    advice = advice_of(backend, plan, enrichment)
    if where is not None and not backend.count(steps[-1:]):
        session.observer.note(f"{session.model.resolved.name} answered all accepted rows of the condition, if any")
    for note in (*notes(spent, unasked, most), *(advice.lines() if advice is not None else ())):
        session.observer.note(note)
    counts = Counts(rows, distinct, refused, _within(caps.max_rows, refused))
    cached = distinct - refused - unasked
    failure: SqlenrichError | None = None
    session.confirm(counts, cached)
    try:
        collect = session.batch is not None and bool(session.open_batches(every))
        ask_until_done(session, rounds, calls, start, counts.pending, collect=collect)
    except SqlenrichError as error:
        failure = error
    with raising_first(failure):
        results = backend.finish(plan, every, partial=False, unasked=unasked)
        return session.close(
            start, plan, counts, results, rounds, failure, cached=cached, unasked=unasked, publish=results.published
        )


def ask_until_done(
    session: Session, rounds: Rounds, calls: Sequence[Call], start: RunStart, pending: int, *, collect: bool
) -> None:
    """Ask until nothing is pending; ``collect``: open batches have answers that come without a request."""
    backend, most, before = session.backend, session.caps.max_rows, rounds.progress.total
    while (pending or collect) and not is_over(session):
        calls_before = rounds.calls
        asked = _ask_round(session, rounds, calls, collect=collect)
        collect = False
        calls = [call._replace(answered=False) for call in calls]  # what is left may have failed in this round
        if rounds.progress.total > before + asked:
            rounds.repeats += asked
        backend.judge(rounds.plan, asked_by=start.run_id)
        left = backend.count([call.step for call in calls])
        if rounds.calls == calls_before and pending and left >= pending:
            return  # the asker sends nothing more
        pending = left if most is None else min(left, most - rounds.progress.total)


def _ask_round(session: Session, rounds: Rounds, calls: Sequence[Call], *, collect: bool) -> int:
    """Ask all calls once; give how many requests that were. No request is in two of them."""
    before, most = rounds.progress.total, session.caps.max_rows
    for choice, step, answered, _ in calls:
        if is_over(session):
            break
        left = None if most is None else most - rounds.progress.total
        pending = session.backend.refresh(rounds.plan, step, left, ordered=choice.prefix_order)
        if pending or collect:
            rounds.ask(choice, step, pending, repeat=False, answered=answered)
            collect = False
    return rounds.progress.total - before


def is_over(session: Session) -> bool:
    """Tell whether a stop or a cap ended the verb."""
    budget = session.model.budget
    return session.stopper.requested or (budget is not None and budget.reached is not None)


def _within(most: int | None, count: int) -> int:
    return count if most is None else min(count, most)


def check_tables_of_last_run(backend: Backend, plan: Plan) -> None:
    """Refuse tables that are not sqlenrich's, and missing prompts or answers. Raises ConfigError."""
    backend.check_tables(plan)
    for name in ("prompts", "responses"):
        step = plan.step(name)
        if not backend.exists(step):
            raise ConfigError(
                f"{backend.output}: the table {step.relation} of the last run is gone: run it again first"
            )


def same_snapshot(enrichment: Enrichment, last: Snapshot, config: Config, backend: Backend) -> Enrichment:
    """Return the enrichment with the settings of the last run. Raises ConfigError where it would ask something else."""
    enrichment = with_source_options(enrichment, key=last.key, columns=last.columns, where=last.where)
    if not enrichment.key:
        enrichment = replace(enrichment, key=("_row",))
    if enrichment.keep_all and last.keep is not None:
        enrichment = replace(enrichment, keep=tuple(last.keep), keep_all=False)
    asked = model_of(enrichment, last, config, backend.engine.name)
    if snapshot_digest(enrichment, backend.engine.name, asked) != last.digest:
        raise ConfigError(f"{enrichment.place} changed since the last run on {backend.output}: {AGAIN}")
    return enrichment


def model_of(enrichment: Enrichment, last: Snapshot, config: Config, engine: str) -> ResolvedModel:
    """Return the model that the last run would ask now."""
    if last.in_sql:
        return model_for(enrichment, engine, config, last.asked_for)
    found = None if last.mock else config.model(last.asked_for or enrichment.model, "endpoint")
    name, changed = (found.name, found.params) if found is not None else (last.model, None)
    return resolve_model(enrichment, get_engine(CLIENT_ENGINE), name, changed)


def choose(
    enrichment: Enrichment, last: Snapshot, config: Config, wanted: WantedModel, caps: Caps, backend: Backend
) -> ModelChoice:
    """Return the model to ask. Raises ConfigError where invented answers would be mixed with a model's."""
    if last.in_sql and wanted.endpoint is None:
        wanted = replace(wanted, name=wanted.name or enrichment.escalate or last.asked_for)
        return choice_of(enrichment, config, wanted, backend, caps)
    if wanted.mock is not None and not last.mock:
        raise ConfigError(f"the last run asked {last.model}: --mock would mix invented answers with its own")
    if last.mock and wanted.mock is None:
        raise ConfigError(f"the last run asked the mock model ({MOCK}): give --mock, or run it again with a real model")
    if wanted.mock is None:
        name = wanted.name or enrichment.escalate or last.asked_for
        if name is None and enrichment.model in DEFAULT_ALIASES and config.model(enrichment.model, "endpoint") is None:
            name = last.model
        wanted = replace(wanted, name=name)
    return choose_model(enrichment, config, wanted, new_budget(caps))


def _check_same_model(enrichment: Enrichment, last: Snapshot, choice: ModelChoice) -> None:
    """Refuse a retry whose vectors could not be compared with those of the run. Raises ConfigError."""
    if enrichment.embedding is not None and choice.resolved.name != last.model:
        raise ConfigError(
            f"the last run asked {last.model}: vectors of {choice.resolved.name} can't be compared with its own; run "
            "the file again with that model"
        )


class Selection(NamedTuple):
    """The rows that a retry asks: refused for a reason, with attempts left; accepted, and meeting a condition."""

    reasons: tuple[str, ...]
    where: str | None
    max_attempts: int | None


class Call(NamedTuple):
    """A part of a round: the model, the step that it asks, and whether the requests failed before."""

    model: ModelChoice
    step: Step
    answered: bool
    constant: str


def calls_of(
    enrichment: Enrichment,
    choice: ModelChoice,
    backend: Backend,
    relations: dict[str, str],
    selection: Selection,
    run_id: str,
) -> list[Call]:
    """Return the calls of a round; failed calls come after refused answers, for they may fail again."""
    chosen, where, max_attempts = selection

    settings: dict[str, Any] = {
        "model": choice.resolved,
        "max_attempts": max_attempts,
        "asked_by_client": not choice.asks_in_sql,
        "run_id": run_id,
    }

    def compiled(reasons: tuple[str, ...], *, answered: bool) -> list[Call]:
        found = compile_retry(enrichment, backend.engine.name, relations, reasons=reasons, **settings)
        return [Call(choice.with_params(call.model), call.step, answered, call.constant) for call in found]

    refused = tuple(code for code in chosen if code != "CALL_ERROR")
    calls = compiled(refused, answered=True) if refused else []
    failed = compiled(("CALL_ERROR",), answered=False)
    if "CALL_ERROR" not in chosen:
        # A further attempt may fail on its way, whatever the row was refused for before: it is tried again.
        failed = [call._replace(step=_of_this_run(call.step, run_id)) for call in failed]
    if where is None:
        return [*calls, *failed]
    made = compile_accepted(enrichment, backend.engine.name, where, relations, reasons=chosen, **settings)
    return [*calls, *failed, Call(choice.with_params(made.model), made.step, answered=True, constant=made.constant)]


def _of_this_run(step: Step, run_id: str) -> Step:
    assert step.pending is not None
    return replace(step, pending=among(step.pending, failed_hashes(run_id)))


def notes(spent: int, unasked: int, max_attempts: int) -> list[str]:
    """Return a line for each kind of requests that a user might expect to be asked."""
    lines = []
    if spent:
        refused = counted(spent, "refused request")
        lines.append(f"{refused} had all {max_attempts} attempts: --max-attempts N asks them again")
    if unasked:
        lines.append(f"{counted(unasked, 'request')} never asked: run again, that asks them")
    return lines
