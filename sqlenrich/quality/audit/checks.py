"""The checks of an audit: each gives a line for what does not hold, and says what it is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from sqlglot import exp

from sqlenrich.ask.served_models import ModelPin, served_of
from sqlenrich.core.plurals import counted
from sqlenrich.core.text_table import shown
from sqlenrich.plan.relations import RELATIONS
from sqlenrich.quality.audit.differing_rows import DifferingRows, column_types, differing_rows
from sqlenrich.quality.audit.rebuilt_requests import (
    ASKED,
    KNOWN,
    PROMPTS,
    RESPONSES,
    SENT,
    WHY_NOT_STORED,
    constants,
    judging,
    make_sent,
)
from sqlenrich.runner.usage import PERCENTILES, cost_of
from sqlenrich.spec.prices import Price, Prices
from sqlenrich.store import queries
from sqlenrich.store.base import ModelUsage
from sqlenrich.store.duckdb.answers_digest import ANSWERS_DIGEST, digest_text, digest_without
from sqlenrich.store.duckdb.database import name_parts, quote, text
from sqlenrich.store.duckdb.tables import StoredOutput, forgotten_types
from sqlenrich.store.forgotten_lines import FORGOTTEN, FORGOTTEN_KINDS
from sqlenrich.store.run_line import RunLine
from sqlenrich.store.shared_request import CLASSIFIER, NO_BODY, RECORDED

CLOCK = timedelta(minutes=1)
"""How far a clock may have been set while a run asked."""
SHOWN_WIDTH = 60
AGAIN = "run it again (what is answered is not paid again)"
REBUILT = {"checked": "sqlenrich_audit_checked"}
"""The table of the verdicts that are made again."""
GONE_DIGEST = "bit_xor(CAST(digest AS UHUGEINT))"
_MOST = 20
"""The rows of one kind of problem that are named; the others are counted."""


class Problem(NamedTuple):
    """What does not hold: which check, of what, and how it differs."""

    check: str
    place: str
    text: str

    def to_text(self) -> str:
        """Return it as a line."""
        return f"{self.place}: {self.text}"


class NotRebuilt(NamedTuple):
    """What can't be rebuilt, and why."""

    number: int
    what: str
    why: str

    def to_text(self) -> str:
        """Return it as a line."""
        return f"{counted(self.number, self.what)} not rebuilt: {self.why}"


def ledger_problems(stored: StoredOutput) -> Iterator[Problem]:
    """Check the ledger: each line is readable and as it was written, each constant is that of its parts."""
    asked = dict(stored.fetch(f"SELECT run_id, count(*) FROM {RESPONSES} GROUP BY ALL"))
    for run_id, line in stored.lines.items():
        if run_id not in asked and line.name != stored.name:
            continue
        place = f"the ledger's line of run {run_id}"
        if line.problem is not None:
            yield Problem("ledger", place, line.problem)
        if line.read is None:
            continue
        if not line.read.intact:
            yield Problem("ledger", place, "its request is not as the run wrote it: its digest differs")
        for call in line.read.request.calls:
            if line.read.request.constant_of(call) not in (None, call.constant):
                yield Problem("ledger", place, "the constant of its hashes is not that of its model, parameters, shape")
    for run_id, count in sorted(asked.items(), key=lambda item: str(item[0])):
        if run_id not in stored.lines:
            yield Problem(
                "ledger", f"run {run_id}", f"the ledger has no line of it, which gave {counted(count, 'answer')}"
            )
    if stored.last.status == "started":
        yield Problem("ledger", f"run {stored.last.run_id}", f"it did not end: {AGAIN}")
    if (later := stored.unpublished) is not None:
        results = f"the results are those of run {stored.last.run_id}, the prompts are not"
        yield Problem("ledger", f"run {later.run_id}", f"it ended early ({results}): {AGAIN}")


def count_problems(stored: StoredOutput) -> Iterator[Problem]:
    """Check that the rows are accounted for, and that the last run's report has their counts."""
    tables = stored.tables
    asked, good, bad = (
        stored.one(f"SELECT count(*) FROM {table}") for table in (PROMPTS, tables["enriched"], tables["quarantine"])
    )
    if asked != good + bad:
        yield Problem(
            "rows", stored.name, f"{counted(asked, 'row')} asked for, but {good:,} accepted and {bad:,} refused"
        )
    report = stored.last.report
    if report is None:
        return
    forgotten = _forgotten_rows(stored)
    reasons = dict(stored.fetch(f"SELECT _error, count(*) FROM {tables['quarantine']} GROUP BY ALL"))
    told = {code: int(count) - forgotten.get(code, 0) for code, count in report.get("quarantine", {}).items()}
    found = {
        "rows_in": (asked, sum(forgotten.values())),
        "enriched": (good, forgotten.get("", 0)),
        "quarantined": (bad, sum(count for code, count in forgotten.items() if code)),
    }
    place = f"the report of run {stored.last.run_id}"
    for name, (count, gone) in found.items():
        if report.get(name) is not None and count + gone != report[name]:
            yield Problem("rows", place, f"{name} is {report[name]:,}, the tables have {count + gone:,}")
    for code in sorted({*reasons, *told}, key=str):
        if reasons.get(code, 0) != told.get(code, 0):
            yield Problem(
                "rows", place, f"{told.get(code, 0):,} rows refused as {code}, the tables have {reasons.get(code, 0):,}"
            )


def hash_problems(stored: StoredOutput) -> Iterator[Problem]:
    """Check the hash of each row's request: that of a run's constant and the row's prompt."""
    tests = " AND ".join(f"sha256({text(one)} || prompt) <> request_hash" for one in constants(stored)) or "TRUE"
    rows = stored.fetch(
        f"WITH wrong AS (FROM {ASKED} WHERE {tests}) "
        f"SELECT {_key(stored)}, request_hash FROM {PROMPTS} SEMI JOIN wrong USING (request_hash, prompt) ORDER BY ALL"
    )
    found = [
        Problem("hash", row_name(stored, key), f"the request hash {hash_[:12]} is not that of its prompt")
        for *key, hash_ in rows
    ]
    yield from _listed(found, "hash", stored.name, "further rows have a request hash that is not that of the prompt")


def answer_problems(stored: StoredOutput) -> Iterator[Problem]:
    """Check each stored answer: what was sent, in which order, and what it has of its run."""
    make_sent(stored)
    named = {run_id: line for run_id, line in stored.lines.items() if line.request is not None}
    wrong = [
        Problem("sent", _answer(*facts), "its sent_hash is not that of what its run would have sent")
        for *facts, run_id in stored.fetch(
            f"SELECT request_hash, attempt, run_id FROM {SENT} SEMI JOIN {KNOWN} USING (request_hash) "
            "WHERE call IS NULL ORDER BY ALL"
        )
        if run_id in named
    ]
    yield from _listed(wrong, "sent", stored.name, "further answers have another sent_hash")
    gaps = stored.fetch(
        f"SELECT request_hash, max(attempt), count(DISTINCT attempt) FROM {RESPONSES} GROUP BY request_hash "
        "HAVING min(attempt) <> 1 OR max(attempt) <> count(DISTINCT attempt) ORDER BY ALL"
    )
    yield from _listed(
        [
            Problem("attempts", f"request {hash_[:12]}", f"of its {last:,} attempts {count:,} are stored")
            for hash_, last, count in gaps
        ],
        "attempts",
        stored.name,
        "further requests lack an attempt",
    )
    copies = stored.fetch(
        f"SELECT request_hash, attempt, count(*) FROM {RESPONSES} GROUP BY request_hash, attempt, run_id, asked_at "
        "HAVING count(*) > 1 ORDER BY ALL"
    )
    yield from _listed(
        [Problem("attempts", _answer(hash_, no), f"it is stored {count} times") for hash_, no, count in copies],
        "attempts",
        stored.name,
        "further answers are stored several times",
    )
    for (run_id,) in stored.fetch(f"SELECT DISTINCT run_id FROM {RESPONSES} ORDER BY ALL"):
        if run_id in named:
            yield from _of_run(stored, named[run_id])


def _of_run(stored: StoredOutput, line: RunLine) -> Iterator[Problem]:
    """Check that the answers of a run have its model, its file and its time."""
    assert line.request is not None
    until = "TRUE" if line.ended_at is None else f"asked_at <= {text(str(line.ended_at + CLOCK))}::TIMESTAMP"
    tests = {
        "model": f"model IS NOT DISTINCT FROM {text(line.request.model)}",
        "version": f"version IS NOT DISTINCT FROM {_literal(line.request.contract.version)}",
        "fingerprint": f"fingerprint IS NOT DISTINCT FROM {text(line.request.contract.fingerprint)}",
        "asked_at": f"asked_at >= {text(str(line.started_at - CLOCK))}::TIMESTAMP AND {until}",
    }
    if line.request.asked in (RECORDED, CLASSIFIER):
        del tests["model"]
    if line.request.asked == RECORDED:  # from before the run
        del tests["asked_at"]
    for name, test in tests.items():
        rows = stored.fetch(
            f"SELECT request_hash, attempt, CAST({name} AS VARCHAR) FROM {RESPONSES} "
            f"WHERE run_id = ? AND NOT coalesce({test}, FALSE) ORDER BY ALL",
            line.run_id,
        )
        found = [
            Problem(
                "answer",
                _answer(hash_, attempt),
                f"its {name} {shown(value, SHOWN_WIDTH)} is not that of its run {line.run_id}",
            )
            for hash_, attempt, value in rows
        ]
        yield from _listed(found, "answer", stored.name, f"further answers have another {name}")


def value_problems(stored: StoredOutput, rows: str = "TRUE") -> Iterator[Problem]:
    """Judge the stored answers again as the last run did, and read each value from its answer: the tables are equal.

    ``rows`` is the test of the rows that are compared.
    """
    tables, request = stored.tables, stored.request
    relations = {"prompts": PROMPTS, "responses": RESPONSES, **REBUILT}
    checked, enriched, quarantine = judging(stored, request, relations)
    stored.fetch(f"CREATE OR REPLACE TEMP TABLE {REBUILT['checked']} AS {checked.sql}")
    whole = "prompts" in tables  # without prompts nothing tells why a row was not asked
    for step in (checked, enriched, quarantine):
        hashed = "request_hash" if step.name == "checked" else "_request_hash"
        asked = rows if whole else f"({rows}) AND {quote(hashed)} IS NOT NULL"
        rebuilt = f"FROM {REBUILT['checked']}" if step.name == "checked" else step.sql
        made = f"({rebuilt})"
        yield from _column_problems(stored, step.name, list(step.columns), made)
        pairs = differing_rows(stored, step.name, list(step.columns), hashed, made, asked)
        yield from _row_problems(stored, step.name, pairs)


def _column_problems(stored: StoredOutput, role: str, columns: Sequence[str], made: str) -> Iterator[Problem]:
    """Check that a table has the columns that it was made with."""
    found, wanted = stored.described(stored.tables[role]) or {}, column_types(stored, made)
    for name in (*columns, *(one for one in found if one not in columns)):
        if found.get(name) != wanted.get(name):
            what = f"is {found.get(name)}, not {wanted.get(name)}"
            what = "is missing" if name not in found else "is not of sqlenrich" if name not in wanted else what
            yield Problem("columns", f"{RELATIONS[role].format(stored.name)}, column {name}", f"it {what}")


def _row_problems(stored: StoredOutput, role: str, pairs: DifferingRows) -> Iterator[Problem]:
    table = RELATIONS[role].format(stored.name)
    for named, (key, there, wanted) in enumerate(pairs.rows, 1):
        place = f"{table}: {row_name(stored, key)}"
        if there is None or wanted is None:
            yield Problem("value", place, "the row is not there" if there is None else "no request gives this row")
        else:
            for name in pairs.columns:
                if there[name] != wanted[name]:
                    gives = f"{name} is {_shown(there[name])}, its answer gives {_shown(wanted[name])}"
                    yield Problem("value", place, gives)
        if named == _MOST and pairs.count > named:
            yield Problem("value", table, f"{pairs.count - named:,} further rows differ from their answers")
            return


def usage_problems(stored: StoredOutput) -> Iterator[Problem]:
    """Check the answers, tokens, cost and latencies of each run: its answers have what its report says."""
    for line in stored.lines.values():
        if line.report is not None and name_parts(line.responses) == name_parts(stored.last.responses):
            yield from _usage_of(stored, line)


def _usage_of(stored: StoredOutput, line: RunLine) -> Iterator[Problem]:
    report, place = line.report or {}, f"the report of run {line.run_id}"
    own, gone = (
        stored.fetch(f"SELECT {', '.join(sums)} FROM {table} WHERE run_id = ?", line.run_id)[0]
        for table, sums in (
            (
                RESPONSES,
                (
                    "count(*)",
                    *queries.TOKENS.values(),
                    queries.UNCOUNTED,
                    *queries.BATCH_TOKENS.values(),
                    ANSWERS_DIGEST,
                ),
            ),
            (
                f"(FROM {forgotten(stored)} WHERE kind = 'answers')",
                (
                    "sum(count)",
                    *(f"sum({name})" for name in (*queries.TOKENS, "uncounted")),
                    *("NULL" for _ in queries.BATCH_TOKENS),
                    GONE_DIGEST,
                ),
            ),
        )
    )
    found = {
        name: None if a is None and b is None else int(a or 0) + int(b or 0)
        for name, a, b in zip(
            ("answers", *queries.TOKENS, "uncounted", *queries.BATCH_TOKENS), own[:-1], gone[:-1], strict=True
        )
    }
    at_the_end = report.get("stored") or {}
    if at_the_end.get("answers", found["answers"]) != found["answers"]:
        told = f"{counted(at_the_end['answers'], 'answer')} stored, there are {found['answers']:,}"
        yield Problem("answers", place, told)
    elif at_the_end.get("digest") not in (None, digest_without(digest_text(own[-1]), digest_text(gone[-1]))):
        yield Problem("answers", place, "the answers of the run are not as it stored them: their digest differs")
    for name in queries.TOKENS:
        if name in report and report[name] != found[name]:
            yield Problem("tokens", place, f"{name} is {_shown(report[name])}, its answers have {_shown(found[name])}")
    if gone[0] is None or not report.get("batches"):  # what is forgotten does not tell which answers were of batches
        yield from _cost_of(line, place, found)
    if gone[0] is None and "served" in report:
        served = [one._asdict() for one in served_of(stored.fetch(_served_sql(f"run_id = {text(line.run_id)}")))]
        if report["served"] != served:
            yield Problem("model", place, f"served is {report['served']}, its answers have {served}")
    if gone[0] is None and report.get("latency_ms", ...) is not ...:
        values = exp.select("latency_ms AS v").from_(RESPONSES)
        values = values.where(f"run_id = {text(line.run_id)} AND call_error IS NULL", dialect="duckdb")
        least = stored.fetch(queries.percentiles(values, PERCENTILES).sql("duckdb"))[0]
        known = None if least[0] is None else {f"p{s}": int(v) for s, v in zip(PERCENTILES, least, strict=True)}
        if report["latency_ms"] != known:
            yield Problem("tokens", place, f"latency_ms is {report['latency_ms']}, its answers have {known}")


def _cost_of(line: RunLine, place: str, found: Mapping[str, int | None]) -> Iterator[Problem]:
    report, request = line.report or {}, line.request
    if request is None or request.price is None or "cost" not in report:
        return
    price = Price(**{name: Decimal(amount) for name, amount in request.price.items()})
    tokens = (found[name] for name in (*queries.TOKENS, *queries.BATCH_TOKENS))
    used = ModelUsage(request.model, found["uncounted"] or 0, *tokens)
    cost, _ = cost_of([used] if found["answers"] else [], Prices(date.min, models={request.model: price}))
    if report["cost"] != cost:
        yield Problem("cost", place, f"cost is {_shown(report['cost'])}, its answers cost {_shown(cost)}")


def _served_sql(test: str) -> str:
    columns = "model, served_model, served_fingerprint"
    return f"SELECT {columns}, count(*) FROM {RESPONSES} WHERE {test} AND call_error IS NULL GROUP BY {columns}"


def pin_problems(stored: StoredOutput, wanted: str | bool | None) -> Iterator[Problem]:
    """Check that the models that answered are those that the header pins: ``wanted``, its ``pin_model``."""
    if wanted is None or stored.request.asked in NO_BODY:
        return
    asked = f"request_hash IN (SELECT request_hash FROM {PROMPTS})"
    served = served_of(stored.fetch(_served_sql(asked)))
    if problem := ModelPin(wanted, stored.request.model).problem(served):
        yield Problem("model", stored.name, problem)


def not_rebuilt(stored: StoredOutput) -> Iterator[NotRebuilt]:
    """Return what can't be rebuilt, and why; :func:`answer_problems` came before."""
    unknown = stored.one(f"SELECT count(*) FROM {SENT} ANTI JOIN {KNOWN} USING (request_hash)")
    if unknown:
        yield NotRebuilt(unknown, "request", f"the prompt is not stored: {WHY_NOT_STORED['prompts' in stored.tables]}")
    for run_id, count in stored.fetch(f"SELECT run_id, count(*) FROM {SENT} GROUP BY ALL ORDER BY ALL"):
        line = stored.lines.get(run_id)
        if line is None or (line.request is None and line.problem is not None):
            continue  # a problem
        if line.request is None:
            yield NotRebuilt(count, "request", f"run {run_id} was made by another version, which kept no request")
        elif (why := NO_BODY.get(line.request.asked)) is not None:
            yield NotRebuilt(count, "request", f"run {run_id} {why}")
        elif line.request.withheld:
            fields = ", ".join(line.request.withheld)
            yield NotRebuilt(count, "request", f"{fields} of run {run_id} may be a secret and is not kept")
    if stored.one(f"SELECT count(*) FROM {forgotten(stored)}"):
        rows, answers = (
            int(stored.one(f"SELECT coalesce(sum(count), 0) FROM {forgotten(stored)} WHERE kind = ?", kind))
            for kind in FORGOTTEN_KINDS
        )
        yield NotRebuilt(rows, "row", f"forgotten, with {counted(answers, 'answer')}")


def forgotten(stored: StoredOutput) -> str:
    """Return what was forgotten of the enrichment as a relation."""
    kinds = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in forgotten_types().items())
    if stored.described(FORGOTTEN) is None:
        return f"(SELECT {kinds} WHERE FALSE)"
    answers = text(name_parts(stored.last.responses)[-1])
    return f"(FROM {FORGOTTEN} WHERE name = IF(kind = 'rows', {text(stored.name)}, {answers}))"


def _forgotten_rows(stored: StoredOutput) -> dict[str, int]:
    """Return the forgotten rows of the last run by their code, "" for those that were accepted."""
    lines = f"{forgotten(stored)} WHERE kind = 'rows' AND run_id = ? GROUP BY ALL"
    found = stored.fetch(f"SELECT coalesce(code, ''), sum(count) FROM {lines}", stored.last.run_id)
    return {code: int(count) for code, count in found}


def _listed(found: Sequence[Problem], check: str, place: str, others: str) -> Iterator[Problem]:
    """Return the first problems of a kind, and the number of the others."""
    yield from found[:_MOST]
    if len(found) > _MOST:
        yield Problem(check, place, f"{len(found) - _MOST:,} {others}")


def key_names(stored: StoredOutput) -> list[str]:
    """Return the columns that name a row."""
    return list(stored.request.contract.key)


def row_name(stored: StoredOutput, key: Sequence[Any]) -> str:
    """Return a row by its key, as in ``row id=17``."""
    return "row " + ", ".join(f"{name}={_shown(value)}" for name, value in zip(key_names(stored), key, strict=False))


def _key(stored: StoredOutput) -> str:
    return ", ".join(map(quote, key_names(stored)))


def _answer(request_hash: str, attempt: int) -> str:
    return f"answer {attempt} of request {request_hash[:12]}"


def _literal(value: str | None) -> str:
    return "NULL" if value is None else text(value)


def _shown(value: Any) -> str:
    return shown(None if value is None else f"{value:,}" if type(value) is int else str(value), SHOWN_WIDTH)


CHECKS = (
    ledger_problems, count_problems, hash_problems, answer_problems, value_problems, usage_problems,
)  # fmt: skip
"""The checks of all rows, in their order."""
