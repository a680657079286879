"""The checks of what each run gave: its answers have its model, its file and its time, and what its report counts.

Each query reads the answers of all runs: an enrichment that is run each day has hundreds of runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any

from sqlglot import exp

from sqlenrich.ask.served_models import served_of
from sqlenrich.core.plurals import counted
from sqlenrich.quality.audit.problems import Problem, answer_name, listed, value_text
from sqlenrich.quality.audit.rebuilt_requests import RESPONSES
from sqlenrich.runner.usage import PERCENTILES, cost_of
from sqlenrich.spec.prices import Price, Prices
from sqlenrich.store import queries
from sqlenrich.store.base import ModelUsage
from sqlenrich.store.duckdb.answers_digest import ANSWERS_DIGEST, digest_text, digest_without
from sqlenrich.store.duckdb.database import name_parts, text
from sqlenrich.store.duckdb.tables import StoredOutput, forgotten_types
from sqlenrich.store.forgotten_lines import FORGOTTEN
from sqlenrich.store.run_line import RunLine
from sqlenrich.store.shared_request import CLASSIFIER, RECORDED

CLOCK = timedelta(minutes=1)
"""How far a clock may have been set while a run asked."""
EXPECTED = "sqlenrich_audit_expected"
"""A temporary table: what the answers of each run have. NULL where a run's answers tell nothing of it."""
_TESTS = {
    "model": "e.model IS NULL OR r.model IS NOT DISTINCT FROM e.model",
    "version": "r.version IS NOT DISTINCT FROM e.version",
    "fingerprint": "r.fingerprint IS NOT DISTINCT FROM e.fingerprint",
    "asked_at": "e.since IS NULL OR r.asked_at BETWEEN e.since AND coalesce(e.until, 'infinity')",
}
_NAMES = ("answers", *queries.TOKENS, "uncounted", *queries.BATCH_TOKENS)
"""What is counted of the answers of a run; the digest follows."""
_COUNTS = ("count(*)", *queries.TOKENS.values(), queries.UNCOUNTED, *queries.BATCH_TOKENS.values(), ANSWERS_DIGEST)
_NOTHING = (0, *[None] * len(_NAMES))
_GONE = (
    "sum(count)",
    *(f"sum({name})" for name in (*queries.TOKENS, "uncounted")),
    *("NULL" for _ in queries.BATCH_TOKENS),
    "bit_xor(CAST(digest AS UHUGEINT))",
)
_NOTHING_GONE = (None,) * len(_GONE)


def origin_problems(stored: StoredOutput) -> Iterator[Problem]:
    """Check that each answer has the model, the file and the time of its run."""
    lines = [_expected(line) for line in stored.lines.values() if line.request is not None]
    if not lines:
        return
    stored.fetch(
        f"CREATE OR REPLACE TEMP TABLE {EXPECTED} "
        "(run_id VARCHAR, model VARCHAR, version VARCHAR, fingerprint VARCHAR, since TIMESTAMP, until TIMESTAMP)"
    )
    stored.fetch(f"INSERT INTO {EXPECTED} VALUES {', '.join(lines)}")
    for name, test in _TESTS.items():
        rows = stored.fetch(
            f"SELECT run_id, request_hash, attempt, CAST(r.{name} AS VARCHAR) FROM {RESPONSES} AS r "
            f"JOIN {EXPECTED} AS e USING (run_id) WHERE NOT coalesce({test}, FALSE) ORDER BY ALL"
        )
        for run_id, own in groupby(rows, key=lambda row: row[0]):
            told = "its {} {} is not that of its run {}".format
            found = [
                Problem("answer", answer_name(*facts), told(name, value_text(value), run_id))
                for _, *facts, value in own
            ]
            yield from listed(found, "answer", stored.name, f"further answers have another {name}")


def _expected(line: RunLine) -> str:
    """Return the row of a run."""
    request = line.request
    assert request is not None
    timed = request.asked != RECORDED  # what is recorded is from before the run
    values = (
        line.run_id,
        None if request.asked in (RECORDED, CLASSIFIER) else request.model,
        request.contract.version,
        request.contract.fingerprint,
        str(line.started_at - CLOCK) if timed else None,
        str(line.ended_at + CLOCK) if timed and line.ended_at is not None else None,
    )
    return f"({', '.join('NULL' if value is None else text(value) for value in values)})"


def usage_problems(stored: StoredOutput) -> Iterator[Problem]:
    """Check the answers, tokens, cost and latencies of each run: its answers have what its report says."""
    counts = _by_run(stored, f"SELECT run_id, {', '.join(_COUNTS)} FROM {RESPONSES} GROUP BY run_id")
    gone = _by_run(
        stored, f"SELECT run_id, {', '.join(_GONE)} FROM {forgotten(stored)} WHERE kind = 'answers' GROUP BY run_id"
    )
    latencies = exp.select("run_id", "latency_ms AS v").from_(RESPONSES).where("call_error IS NULL")
    percentiles = _by_run(stored, queries.percentiles(latencies, PERCENTILES, by=("run_id",)).sql("duckdb"))
    served: dict[str, list[Sequence[Any]]] = {}
    for run_id, *facts in stored.fetch(served_sql(by=("run_id",))):
        served.setdefault(run_id, []).append(facts)
    for run_id, line in stored.lines.items():
        if line.report is None or name_parts(line.responses) != name_parts(stored.last.responses):
            continue
        place = f"the report of run {run_id}"
        own, lost = counts.get(run_id, _NOTHING), gone.get(run_id, _NOTHING_GONE)
        found = {
            name: None if a is None and b is None else int(a or 0) + int(b or 0)
            for name, a, b in zip(_NAMES, own[:-1], lost[:-1], strict=True)
        }
        yield from _counts_of(line.report, place, found, own[-1], lost[-1])
        if lost[0] is None or not line.report.get("batches"):  # what is forgotten tells no answers of batches
            yield from _cost_of(line, place, found)
        if lost[0] is None:
            yield from _answers_of(line.report, place, served.get(run_id, ()), percentiles.get(run_id))


def _by_run(stored: StoredOutput, sql: str) -> dict[str, tuple[Any, ...]]:
    """Return the rows of a query by their first column."""
    return {run_id: tuple(values) for run_id, *values in stored.fetch(sql)}


def _counts_of(
    report: Mapping[str, Any], place: str, found: Mapping[str, int | None], digest: int | None, gone: int | None
) -> Iterator[Problem]:
    at_the_end = report.get("stored") or {}
    if at_the_end.get("answers", found["answers"]) != found["answers"]:
        told = f"{counted(at_the_end['answers'], 'answer')} stored, there are {found['answers']:,}"
        yield Problem("answers", place, told)
    elif at_the_end.get("digest") not in (None, digest_without(digest_text(digest), digest_text(gone))):
        yield Problem("answers", place, "the answers of the run are not as it stored them: their digest differs")
    for name in queries.TOKENS:
        if name in report and report[name] != found[name]:
            told = f"{name} is {value_text(report[name])}, its answers have {value_text(found[name])}"
            yield Problem("tokens", place, told)


def _cost_of(line: RunLine, place: str, found: Mapping[str, int | None]) -> Iterator[Problem]:
    report, request = line.report or {}, line.request
    if request is None or request.price is None or "cost" not in report:
        return
    price = Price(**{name: Decimal(amount) for name, amount in request.price.items()})
    tokens = (found[name] for name in (*queries.TOKENS, *queries.BATCH_TOKENS))
    used = ModelUsage(request.model, found["uncounted"] or 0, *tokens)
    cost, _ = cost_of([used] if found["answers"] else [], Prices(date.min, models={request.model: price}))
    if report["cost"] != cost:
        yield Problem("cost", place, f"cost is {value_text(report['cost'])}, its answers cost {value_text(cost)}")


def _answers_of(
    report: Mapping[str, Any], place: str, rows: Sequence[Sequence[Any]], least: Sequence[Any] | None
) -> Iterator[Problem]:
    """Check the models that a report says answered, and its latencies."""
    served = [one._asdict() for one in served_of(rows)]
    if report.get("served", served) != served:
        yield Problem("model", place, f"served is {report['served']}, its answers have {served}")
    known = None if least is None else {f"p{s}": int(v) for s, v in zip(PERCENTILES, least, strict=True)}
    if report.get("latency_ms", known) != known:
        yield Problem("tokens", place, f"latency_ms is {report['latency_ms']}, its answers have {known}")


def served_sql(test: str = "TRUE", by: Sequence[str] = ()) -> str:
    """Return the query that counts the answers by the model that was asked and the one that answered."""
    columns = ", ".join((*by, "model", "served_model", "served_fingerprint"))
    return f"SELECT {columns}, count(*) FROM {RESPONSES} WHERE {test} AND call_error IS NULL GROUP BY {columns}"


def forgotten(stored: StoredOutput) -> str:
    """Return what was forgotten of the enrichment as a relation."""
    kinds = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in forgotten_types().items())
    if stored.described(FORGOTTEN) is None:
        return f"(SELECT {kinds} WHERE FALSE)"
    answers = text(name_parts(stored.last.responses)[-1])
    return f"(FROM {FORGOTTEN} WHERE name = IF(kind = 'rows', {text(stored.name)}, {answers}))"
