"""The second model of a cascade: it answers a sample, and then the rows that the sample does not leave to the first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlenrich.ask.model_choice import ModelChoice, WantedModel
from sqlenrich.ask.rounds import Rounds
from sqlenrich.core import runtime
from sqlenrich.core.errors import ConfigError, SqlenrichError, raising_first
from sqlenrich.core.json import compact_json
from sqlenrich.core.plurals import counted
from sqlenrich.plan.compile import CascadeCalls, RetryCall, compile_cascade, compile_plan
from sqlenrich.plan.plan import Plan
from sqlenrich.runner.report import Report
from sqlenrich.runner.retry import Call, ask_until_done, is_over
from sqlenrich.runner.session import Session, choice_of
from sqlenrich.runner.threshold import Certificate, certified_threshold
from sqlenrich.schema.checks.evaluate import evaluate_checks
from sqlenrich.spec.cascade import Cascade
from sqlenrich.spec.classifier import Classifier, read_classifier
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.run_settings import Caps
from sqlenrich.spec.settings import Config
from sqlenrich.store.backend import Backend
from sqlenrich.store.base import Counts, RunStart, Snapshot


def second_model(
    enrichment: Enrichment, config: Config, wanted: WantedModel, backend: Backend, first: ModelChoice
) -> ModelChoice | None:
    """Return the model that a cascade asks; None without one. It spends the budget of the first.

    Raises ConfigError where it can't be asked, before the first one is.
    """
    cascade = enrichment.cascade
    if cascade is None:
        return None
    if cascade.distilled is not None or cascade.filter is not None:
        return first
    endpoint = wanted.endpoint if cascade.endpoint is None or wanted.mock is not None else cascade.endpoint
    asked = replace(wanted, name=cascade.ask, local=None, endpoint=endpoint)
    choice = choice_of(enrichment, config, asked, backend, Caps(), first.budget)
    if choice.resolved.name == first.resolved.name:
        raise ConfigError(
            f"{enrichment.place}: the cascade asks {choice.resolved.name} twice: name another model under model or "
            "cascade.ask"
        )
    return choice


def classifier_of(enrichment: Enrichment) -> Classifier | None:
    """Return the classifier or filter that is the first model of a cascade; None where a model is.

    Raises ConfigError where its file can't be read, or decides what the output does not take.
    """
    classifier, cascade = read_classifier(enrichment), enrichment.cascade
    if classifier is None or cascade is None:
        return None
    file = cascade.distilled or "the filter"
    for answer in classifier.answers:
        if (failure := evaluate_checks(enrichment.checks, answer)) is not None:
            raise ConfigError(
                f"{enrichment.place}: {file} decides {', '.join(classifier.fields)} alone, and its answer {answer} is "
                f"refused: {' '.join(filter(None, failure))}"
            )
    if cascade.otherwise and compact_json(dict(cascade.otherwise)) not in classifier.answers:
        known = ", ".join(classifier.answers)
        raise ConfigError(f"{enrichment.place}: otherwise is no answer of {file}, which has: {known}")
    return classifier


@dataclass(frozen=True)
class Cascading:
    """A run whose first model has answered all its rows."""

    first: Session
    snapshot: Snapshot
    second: ModelChoice
    caps: Caps

    @property
    def first_name(self) -> str:
        """The name of the first model in the stored answers."""
        first = self.first
        return first.model.resolved.name if first.classifier is None else first.classifier.model

    def run(self, report: Report) -> Report:
        """Ask the second model, as a run of its own in the ledger; give the report of both."""
        first, caps = self.first, self.caps
        if caps.max_rows is not None and first.classifier is None:
            asked = report.distinct_requests - report.cached - report.pending
            caps = replace(caps, max_rows=max(0, caps.max_rows - asked))
        session = replace(
            first,
            model=self.second,
            caps=caps,
            started=runtime.now(),
            clock=runtime.monotonic(),
            run_id=f"{first.run_id}.cascade",
            line=None,
            request=None,
            classifier=None,
        )
        backend = session.backend
        relations = {**backend.relations(session.name), "source": "source"}
        if self.snapshot.responses:
            relations["responses"] = self.snapshot.responses
        settings: dict[str, Any] = {
            "model": self.second.resolved,
            "asked_by_client": not self.second.asks_in_sql,
            "run_id": session.run_id,
        }
        with backend:
            plan = compile_plan(session.enrichment, backend.engine.name, relations, **settings)
            if first.classifier is not None:
                cascade = replace(_cascade_of(session.enrichment), equal=first.classifier.fields)
                session.enrichment = replace(session.enrichment, cascade=cascade)
                settings["classifier"] = first.classifier.model
            calls = compile_cascade(session.enrichment, backend.engine.name, relations, **settings)
            return _combined(report, self._ask(session, plan, calls))

    def _ask(self, session: Session, plan: Plan, made: CascadeCalls) -> Report:
        backend, cascade = session.backend, _cascade_of(session.enrichment)
        sampled, rest, every = map(self._call, (made.sampled, made.below(cascade.threshold), made.below(None)))
        start = session.start(self.snapshot, plan, [(sampled.model.resolved, sampled.constant)], retry=True)
        rounds = session.rounds(plan)
        backend.begin(start, known=True)
        backend.judge(plan)
        most = backend.count([rest.step])
        rows, distinct = backend.size(plan)
        session.confirm(Counts(rows, distinct, most, most), distinct - most, at_most=cascade.threshold is None)
        certificate: Certificate | None = None
        failure: SqlenrichError | None = None
        try:
            if cascade.threshold is None:
                rest = sampled
                if self._ask_all(session, rounds, start, sampled):
                    certificate = self._certificate(session, plan, made, cascade)
                    session.observer.note(certificate_text(certificate, cascade))
                    rest = self._call(made.below(certificate.threshold))
            if rest is not sampled:  # without a preflight where the model has just answered the sample
                self._ask_all(session, rounds, start, rest._replace(answered=not rounds.progress.stored))
        except SqlenrichError as error:
            failure = error
        with raising_first(failure):
            results = backend.finish(plan, [rest.step], partial=False)
            asked = distinct - backend.count([every.step])
            facts = self._facts(session, cascade, certificate, {"requests": asked, "answers": rounds.progress.stored})
            counts = Counts(rows, distinct, most, most)
            return session.close(
                start, plan, counts, results, rounds, failure, cached=0, publish=results.published, cascade=facts
            )

    def _call(self, made: RetryCall) -> Call:
        return Call(self.second.with_params(made.model), made.step, answered=True, constant=made.constant)

    def _ask_all(self, session: Session, rounds: Rounds, start: RunStart, call: Call) -> bool:
        """Ask a call until nothing is pending; tell whether all its answers are there."""
        (step,) = session.leave_open([call.step])
        collect = session.batch is not None and bool(session.open_batches([step]))
        pending = session.backend.count([step])
        if pending or collect:
            most = session.caps.max_rows
            first = pending if most is None else min(pending, max(0, most - rounds.progress.total))
            ask_until_done(session, rounds, [call._replace(step=step)], start, first, collect=collect)
        return not is_over(session) and not session.backend.count([call.step])

    def _certificate(self, session: Session, plan: Plan, made: CascadeCalls, cascade: Cascade) -> Certificate:
        """Return the lowest threshold that the stored answers to the sample certify."""
        assert cascade.target is not None
        backend, queries = session.backend, made.queries
        answers = [
            {draw: (accepted, score, fields) for draw, accepted, score, *fields in backend.rows(plan, query)}
            for query in (queries.answers(self.first_name), queries.answers(self.second.resolved.name))
        ]
        first, second = answers
        scores = [float(score) for _, score in backend.rows(plan, queries.scores(self.first_name))]
        if cascade.otherwise:
            constant = next((fields for accepted, _, fields in first.values() if accepted), None)
            others = [draw for draw, (accepted, _, fields) in second.items() if accepted and fields != constant]
            lost = [(float(first[draw][1]) if first[draw][0] else None, False) for draw in others if draw in first]
            return certified_threshold(scores, lost, cascade.target, cascade.delta)
        sample: list[tuple[float | None, bool]] = []
        for draw, (accepted, score, fields) in first.items():
            other = second.get(draw)
            same = bool(other is not None and other[0] and fields == other[2])
            rated = accepted and score is not None and math.isfinite(score)
            sample.append((float(score) if rated else None, same))
        of_decided = self.first.classifier is not None
        return certified_threshold(scores, sample, cascade.target, cascade.delta, of_decided=of_decided)

    def _facts(
        self, session: Session, cascade: Cascade, certificate: Certificate | None, asked: Mapping[str, int]
    ) -> dict[str, Any]:
        first, second = self.first_name, self.second.resolved.name
        threshold = cascade.threshold if certificate is None else certificate.threshold
        return {
            "first": first,
            "second": second,
            "run": session.run_id,
            "target": cascade.target,
            "otherwise": dict(cascade.otherwise) or None,
            "delta": cascade.delta if cascade.target is not None else None,
            "threshold": shown_threshold(cascade, threshold),
            "column": cascade.filter,
            "sample": None if certificate is None else certificate.rows,
            "equal": None if certificate is None else certificate.equal,
            "disagreed": None if certificate is None else certificate.disagreed,
            "agreement": None if certificate is None else certificate.agreement,
            "certified": None if certificate is None else certificate.threshold is not None,
            **asked,
        }


def _cascade_of(enrichment: Enrichment) -> Cascade:
    assert enrichment.cascade is not None
    return enrichment.cascade


def shown_threshold(cascade: Cascade, threshold: float | None) -> float | None:
    """Return a threshold as a file writes it: of a filter, the greatest number of its column."""
    return -threshold if threshold is not None and cascade.filter is not None else threshold


def certificate_text(certificate: Certificate, cascade: Cascade) -> str:
    """Return what a sample certifies as one line."""
    assert cascade.target is not None
    sample = counted(certificate.rows, "sampled row")
    score, second = cascade.filter or cascade.score or "lead", cascade.ask or "the model"
    of = f"{counted(certificate.decided, 'decided row')} of the sample" if certificate.of_decided else sample
    if cascade.otherwise:
        others, recall = f"{counted(certificate.rows, 'sampled row')} of another value", f"recall of {cascade.target:g}"
        if certificate.threshold is None:
            return f"cascade: no {score} certifies a {recall} by {others}: {second} decides all rows"
        found = f"{score} {'<=' if cascade.filter else '>='} {shown_threshold(cascade, certificate.threshold):g}"
        return (
            f"cascade: {found} is certified: {certificate.disagreed:,} of {others} are lost, {recall}, "
            f"delta {cascade.delta:g}"
        )
    if certificate.threshold is None:
        tried = counted(certificate.tried, "threshold")
        return (
            f"cascade: no {score} certifies an agreement of {cascade.target:g} (the models agree in "
            f"{certificate.equal:,} of {sample}, {tried} tried): {second} decides all rows"
        )
    return (
        f"cascade: {score} >= {certificate.threshold:g} is certified: {certificate.disagreed:,} of {of} "
        f"disagree, target {cascade.target:g}, delta {cascade.delta:g}"
    )


def _combined(first: Report, second: Report) -> Report:
    """Return the report of both models: the results of the second run, and what both runs used."""
    both = (first, second)

    def total(name: str) -> Any:
        values = [getattr(one, name) for one in both]
        known = [value for value in values if value is not None]
        return sum(known) if known else None

    unknown = next((one.cost_unknown for one in both if one.calls and one.cost is None), "")
    facts = dict(second.cascade or {})
    answers = facts.pop("answers", 0)
    facts["calls"] = {"first": first.calls, "second": second.calls}
    facts["cost"] = {"first": first.cost, "second": second.cost}
    priced = second.cost is not None and answers
    # The mean of this run's answers.
    facts["cost_of_all"] = (second.cost or 0.0) / answers * first.distinct_requests if priced else None
    return replace(
        second,
        run_id=first.run_id,
        cached=first.cached,
        calls=total("calls"),
        retries=total("retries"),
        **{name: total(name) for name in ("tokens_in", "tokens_cached", "tokens_out")},
        cost=None if unknown else total("cost"),
        cost_unknown=unknown or second.cost_unknown,
        seconds=round(first.seconds + second.seconds, 3),
        latency_ms=second.latency_ms if first.latency_ms is None else first.latency_ms,
        limits={name: max(one.limits.get(name, 0.0) for one in both) for one in both for name in one.limits},
        served=(*first.served, *second.served),
        served_changes=(*first.served_changes, *second.served_changes),
        statements=(*first.statements, *second.statements),
        batches=[*{one["key"]: one for report in both for one in report.batches}.values()],
        drift=first.drift,
        cascade=facts,
    )
