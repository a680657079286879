"""The checks of an audit: each gives a line for what does not hold, and says what it is about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlenrich.ask.served_models import ModelPin, served_of
from sqlenrich.core.plurals import counted
from sqlenrich.plan.relations import RELATIONS
from sqlenrich.quality.audit.differing_rows import DifferingRows, column_types, differing_rows
from sqlenrich.quality.audit.problems import MOST, NotRebuilt, Problem, answer_name, listed, value_text
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
from sqlenrich.quality.audit.run_checks import forgotten, origin_problems, served_sql, usage_problems
from sqlenrich.store.duckdb.database import quote, text
from sqlenrich.store.duckdb.tables import StoredOutput
from sqlenrich.store.forgotten_lines import FORGOTTEN_KINDS
from sqlenrich.store.shared_request import NO_BODY

AGAIN = "run it again (what is answered is not paid again)"
REBUILT = {"checked": "sqlenrich_audit_checked"}
"""The table of the verdicts that are made again."""


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
    yield from listed(found, "hash", stored.name, "further rows have a request hash that is not that of the prompt")


def answer_problems(stored: StoredOutput) -> Iterator[Problem]:
    """Check each stored answer: what was sent, in which order, and what it has of its run."""
    make_sent(stored)
    named = {run_id for run_id, line in stored.lines.items() if line.request is not None}
    wrong = [
        Problem("sent", answer_name(*facts), "its sent_hash is not that of what its run would have sent")
        for *facts, run_id in stored.fetch(
            f"SELECT request_hash, attempt, run_id FROM {SENT} SEMI JOIN {KNOWN} USING (request_hash) "
            "WHERE call IS NULL ORDER BY ALL"
        )
        if run_id in named
    ]
    yield from listed(wrong, "sent", stored.name, "further answers have another sent_hash")
    gaps = stored.fetch(
        f"SELECT request_hash, max(attempt), count(DISTINCT attempt) FROM {RESPONSES} GROUP BY request_hash "
        "HAVING min(attempt) <> 1 OR max(attempt) <> count(DISTINCT attempt) ORDER BY ALL"
    )
    yield from listed(
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
    yield from listed(
        [Problem("attempts", answer_name(hash_, no), f"it is stored {count} times") for hash_, no, count in copies],
        "attempts",
        stored.name,
        "further answers are stored several times",
    )
    yield from origin_problems(stored)


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
                    gives = f"{name} is {value_text(there[name])}, its answer gives {value_text(wanted[name])}"
                    yield Problem("value", place, gives)
        if named == MOST and pairs.count > named:
            yield Problem("value", table, f"{pairs.count - named:,} further rows differ from their answers")
            return


def pin_problems(stored: StoredOutput, wanted: str | bool | None) -> Iterator[Problem]:
    """Check that the models that answered are those that the header pins: ``wanted``, its ``pin_model``."""
    if wanted is None or stored.request.asked in NO_BODY:
        return
    asked = f"request_hash IN (SELECT request_hash FROM {PROMPTS})"
    served = served_of(stored.fetch(served_sql(asked)))
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


def _forgotten_rows(stored: StoredOutput) -> dict[str, int]:
    """Return the forgotten rows of the last run by their code, "" for those that were accepted."""
    lines = f"{forgotten(stored)} WHERE kind = 'rows' AND run_id = ? GROUP BY ALL"
    found = stored.fetch(f"SELECT coalesce(code, ''), sum(count) FROM {lines}", stored.last.run_id)
    return {code: int(count) for code, count in found}


def key_names(stored: StoredOutput) -> list[str]:
    """Return the columns that name a row."""
    return list(stored.request.contract.key)


def row_name(stored: StoredOutput, key: Sequence[Any]) -> str:
    """Return a row by its key, as in ``row id=17``."""
    named = zip(key_names(stored), key, strict=False)
    return "row " + ", ".join(f"{name}={value_text(value)}" for name, value in named)


def _key(stored: StoredOutput) -> str:
    return ", ".join(map(quote, key_names(stored)))


CHECKS = (
    ledger_problems, count_problems, hash_problems, answer_problems, value_problems, usage_problems,
)  # fmt: skip
"""The checks of all rows, in their order."""
