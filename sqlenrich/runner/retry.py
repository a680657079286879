"""The way out of quarantine: chosen refused rows of the last run are asked again, as further attempts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sqlenrich.core.errors import ConfigError, SqlenrichError
from sqlenrich.engines import get_engine
from sqlenrich.plan.compile import compile_plan, compile_retry, resolve_model, snapshot_digest
from sqlenrich.plan.pending_step import chosen_reasons
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.runner.model_choice import MOCK, Ask, choose_model, with_params
from sqlenrich.runner.observer import Observer, PlanLine, Silent, Stopper
from sqlenrich.runner.outputs import check_replaceable
from sqlenrich.runner.report import Report, counted
from sqlenrich.runner.run import Rounds, cap_reached, database_path, files_of, new_run_id, with_settings
from sqlenrich.runner.usage import account
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.prices import Prices
from sqlenrich.spec.settings import Config, find_config, with_prices

if TYPE_CHECKING:  # "import sqlenrich" loads neither duckdb nor an HTTP client
    from sqlenrich.llm.throttle.budget import Caps
    from sqlenrich.runner.backends.duckdb.store import Snapshot


def retry(
    enrichment: Enrichment,
    *,
    output: str | Path,
    reasons: Sequence[str] | None = None,
    model: str | None = None,
    max_attempts: int | None = None,
    endpoint: str | None = None,
    mock: bool = False,
    mock_failures: Mapping[str, float] | None = None,
    concurrency: int | None = None,
    max_rows: int | None = None,
    max_calls: int | None = None,
    max_cost: float | None = None,
    prefix_order: bool = True,
    prices: str | Path | Prices | None = None,
    config: Config | None = None,
    observer: Observer | None = None,
    stopper: Stopper | None = None,
) -> Report:
    """Ask refused rows of the last run again and give the report.

    ``output`` is what that run wrote. Asked are the rows refused for one of ``reasons`` (codes; by default each that
    can be mended by asking) with fewer than ``max_attempts`` attempts (by default the file's), again and again while
    they are refused so; accepted rows never, nor those that no run has asked yet: they stay pending. The model is
    ``model``, else the file's ``retry.escalate``, else that of the last run. Each answer is a further attempt of the
    same request: none is dropped. Raises ConfigError where the file would ask something else than the last run did.
    """
    from sqlenrich.llm.throttle.budget import Caps
    from sqlenrich.runner.backends.duckdb.source import SOURCE
    from sqlenrich.runner.backends.duckdb.store import SLICES, Start, Store

    started, clock = datetime.now(UTC), time.monotonic()
    observer, stopper = observer or Silent(), stopper or Stopper()
    config = with_prices(config if config is not None else find_config(enrichment.path), prices)
    codes = chosen_reasons(reasons)
    target = Path(output)
    database = database_path(target)
    if not database.is_file():
        raise ConfigError(f"{target} holds no run of {enrichment.name}: run it first")
    check_replaceable(*files_of(target))
    with Store(database) as store:
        last = store.snapshot(enrichment.name)
        enrichment = same_snapshot(enrichment, last, config, str(target))
        caps = Caps(max_calls, max_cost)
        ask = choose(enrichment, last, config, model, endpoint, mock, mock_failures, concurrency, caps, prefix_order)
        relations = {"source": SOURCE, **({"responses": last.responses} if last.responses else {})}
        plan, sliced = (compile_plan(enrichment, "duckdb", {**relations, **over}) for over in ({}, SLICES))
        start = Start(new_run_id(started), enrichment.name, started, last)
        calls = calls_of(enrichment, ask, plan, relations, codes, max_attempts, start.run_id)
        steps = [call.step for call in calls]
        for step in plan.steps:
            store.check_ours(step.relation, step.columns, whole=step.kind == "append")
            if step.name in SLICES and not store.has(step):
                raise ConfigError(f"{target}: the table {step.relation} of the last run is gone: run it again first")
        store.begin(start, known=True)
        # The last run may have been killed, or the checks be others: what is stored decides, not an old verdict.
        store.judge(plan, sliced.step("checked").sql)
        rows, distinct = store.size(plan)
        chosen = store.count(steps)
        now = chosen if max_rows is None else min(chosen, max_rows)
        most = enrichment.max_attempts if max_attempts is None else max_attempts
        tried, unasked = store.not_retried(plan, codes, most)
        for note in left_out(tried, unasked, most):
            observer.note(note)
        answered = distinct - chosen - unasked
        rounds = Rounds(store, plan, enrichment, start.run_id, observer, stopper)
        failure: SqlenrichError | None = None
        line = PlanLine(rows, distinct, answered, now, ask.resolved.name, ask.where)
        if (now and stopper.requested) or not observer.plan(line):
            stopper.stop()
        try:
            while now and not stopper.requested and caps.reached is None:
                asked = ask_round(rounds, calls, max_rows)
                if rounds.total > asked:
                    rounds.retries += asked
                store.judge(plan, sliced.step("checked").sql, asked_by=start.run_id)
                left = store.count(steps)
                now = left if max_rows is None else min(left, max_rows - rounds.total)
        except SqlenrichError as error:
            failure = error
        good, bad, found, pending = store.finish(plan, sliced.step("checked").sql, steps)
        report = Report(
            run_id=start.run_id,
            rows_in=rows,
            distinct_requests=distinct,
            cached=answered,
            calls=rounds.calls,
            retries=rounds.retries,
            enriched=good,
            quarantined=bad,
            pending=pending + unasked,
            quarantine=found,
            **account(store, plan.step("responses").relation, start.run_id, config.prices),
            seconds=round(time.monotonic() - clock, 3),
            name=enrichment.name,
            output=str(target),
            max_quarantine=enrichment.max_quarantine,
            stopped=stopper.requested,
            unasked=unasked,
            stopped_at=cap_reached(caps, max_rows, pending, stopper),
            limits=rounds.shares(),
        )
        if target != database:
            store.export(plan, target)
        status = "failed" if failure is not None else "stopped" if report.stopped or report.pending else "done"
        store.record(start, status, report.to_dict())
    if failure is not None:
        raise failure
    return report


def same_snapshot(enrichment: Enrichment, last: Snapshot, config: Config, place: str) -> Enrichment:
    """Give the enrichment with the settings of the last run. Raises ConfigError where it would ask something else."""
    from sqlenrich.runner.backends.duckdb.store import AGAIN

    enrichment = with_settings(enrichment, key=last.key, columns=last.columns, where=last.where)
    if not enrichment.key:
        enrichment = replace(enrichment, key=("_row",))
    if snapshot_digest(enrichment, "duckdb", model_of(enrichment, last, config)) != last.digest:
        raise ConfigError(f"{enrichment.place} changed since the last run on {place}: {AGAIN}")
    return enrichment


def model_of(enrichment: Enrichment, last: Snapshot, config: Config) -> ResolvedModel:
    """Give the model that the last run would ask now."""
    found = None if last.mock else config.model(last.asked_for or enrichment.model, "endpoint")
    name, changed = (found.name, found.params) if found is not None else (last.model, None)
    return resolve_model(enrichment, get_engine("duckdb"), name, changed)


def choose(
    enrichment: Enrichment,
    last: Snapshot,
    config: Config,
    model: str | None,
    endpoint: str | None,
    mock: bool,
    failures: Mapping[str, float] | None,
    concurrency: int | None,
    caps: Caps,
    prefix_order: bool,
) -> Ask:
    """Give whom to ask. Raises ConfigError where invented answers would be mixed with a model's."""
    if mock and not last.mock:
        raise ConfigError(f"the last run asked {last.model}: --mock would mix invented answers with its own")
    if last.mock and not mock:
        raise ConfigError(f"the last run asked the mock model ({MOCK}): give --mock, or run it again with a real model")
    if not mock:
        model = model or enrichment.escalate or last.asked_for
        if model is None and enrichment.model == "default" and config.model("default", "endpoint") is None:
            model = last.model
    return choose_model(
        enrichment,
        config,
        endpoint=endpoint,
        model=model,
        mock=mock,
        failures=failures,
        concurrency=concurrency,
        caps=caps,
        prefix_order=prefix_order,
    )


class Call(NamedTuple):
    """A part of what a round asks: whom, what, and whether it failed on its way before."""

    ask: Ask
    step: Step
    suspect: bool


def calls_of(
    enrichment: Enrichment,
    ask: Ask,
    plan: Plan,
    relations: Mapping[str, str],
    reasons: tuple[str, ...],
    max_attempts: int | None,
    run_id: str,
) -> list[Call]:
    """Give the calls of a round; what failed on its way comes last, for it may fail whatever is sent with it."""

    def compiled(reasons: tuple[str, ...], *, suspect: bool) -> list[Call]:
        found = compile_retry(
            enrichment, "duckdb", relations, model=ask.resolved, reasons=reasons, max_attempts=max_attempts
        )
        return [Call(with_params(ask, call.model), call.step, suspect) for call in found]

    answered = tuple(code for code in reasons if code != "CALL_ERROR")
    calls = compiled(answered, suspect=False) if answered else []
    failed = compiled(("CALL_ERROR",), suspect=True)
    if "CALL_ERROR" not in reasons:
        # A further attempt that fails on its way is not the end of it, whatever the row was refused for before.
        own = f"SELECT request_hash FROM {plan.step('responses').relation} WHERE run_id = '{run_id}' AND retryable"
        among = f" WHERE request_hash IN ({own})"
        failed = [
            call._replace(step=replace(call.step, pending_sql=f"SELECT * FROM ({call.step.pending_sql}){among}"))
            for call in failed
        ]
    return [*calls, *failed]


def ask_round(rounds: Rounds, calls: Sequence[Call], max_rows: int | None) -> int:
    """Ask all calls once; give how many requests that were. No request is in two of them."""
    before = rounds.total
    for ask, step, suspect in calls:
        left = None if max_rows is None else max_rows - rounds.total
        if not (rounds.stopper.requested or (ask.caps and ask.caps.reached)) and (
            pending := rounds.store.refresh(rounds.plan, step, left, ordered=ask.prefix_order)
        ):
            rounds.ask(ask, step, pending, repeat=False, suspect=suspect)
    return rounds.total - before


def left_out(tried: int, unasked: int, max_attempts: int) -> list[str]:
    """Give a line for each kind of requests that a user might expect to be asked."""
    lines = []
    if tried:
        refused = counted(tried, "refused request")
        lines.append(f"{refused} had all {max_attempts} attempts: --max-attempts N asks them again")
    if unasked:
        lines.append(f"{counted(unasked, 'request')} never asked: run again, that asks them")
    return lines
