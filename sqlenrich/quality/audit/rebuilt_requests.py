"""The requests of a run rebuilt from what is stored: the text that was sent, its hash, and the bytes of the body."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.endpoint.wire.forms import WIRE_FORMS
from sqlenrich.llm.endpoint.wire.request_body import RequestBody
from sqlenrich.plan.checking import compile_checking
from sqlenrich.plan.pending_step import FEEDBACK, NO_FEEDBACK
from sqlenrich.plan.source_columns import BAD_VALUE
from sqlenrich.store.duckdb.database import quote, text
from sqlenrich.store.duckdb.tables import StoredOutput
from sqlenrich.store.duckdb.types import portable_type
from sqlenrich.store.run_line import RunLine
from sqlenrich.store.shared_request import ENGINE, NO_BODY, SharedRequest

if TYPE_CHECKING:
    from sqlenrich.plan.plan import Step

PROMPTS, RESPONSES, ASKED, KNOWN, PART, ANSWERS, JUDGED, SENT = (
    f"sqlenrich_audit_{name}"
    for name in ("prompts", "responses", "asked", "known", "part", "answers", "judged", "sent")
)
"""Temporary tables: the rows with their prompts, the answers to them, the distinct prompts with their hashes, the
prompt of each request, some of both, the answers before an attempt, their verdicts, and what was sent for each
answer."""
PAGE_ROWS = 2048
NOT_STORED = "its prompt is not stored"
WHY_NOT_STORED = {
    True: "the last run's input or prompt no longer has it",
    False: "keep_prompts is false: only hashes are kept",
}
"""Why a prompt is not stored, by whether the last run kept prompts."""


@dataclass(frozen=True)
class RebuiltRequest:
    """One stored answer's request. ``body`` is None where it can't be rebuilt, and ``why`` says why."""

    request_hash: str
    attempt: int
    run_id: str
    asked_at: datetime
    sent: str | None
    """The prompt as sent, with the feedback of a retry."""
    body: bytes | None
    form: str
    """The form of the output that was asked for."""
    why: str = ""


def make_views(stored: StoredOutput, test: str = "TRUE") -> None:
    """Make the views of the rows that meet a test, and of the answers to their requests; without one, of all.

    Their distinct prompts are a table.
    """
    if "prompts" in stored.tables:
        rows = f"FROM {stored.tables['prompts']}"
    else:  # the last run kept none
        contract = stored.request.contract
        recorded = () if contract.limit is None else contract.limit.recorded
        kept = ", ".join(map(quote, (*contract.key, *contract.keep, "prompt", "request_hash", *recorded)))
        rows = f"SELECT {kept}, FALSE AS _too_long FROM {stored.tables['checked']}"
    stored.db.execute(f"CREATE OR REPLACE TEMP VIEW {PROMPTS} AS FROM ({rows}) WHERE {test}")
    answers = "" if test == "TRUE" else f" WHERE request_hash IN (SELECT request_hash FROM {PROMPTS})"
    stored.db.execute(f"CREATE OR REPLACE TEMP VIEW {RESPONSES} AS FROM {stored.tables['responses']}{answers}")
    stored.fetch(
        f"CREATE OR REPLACE TEMP TABLE {ASKED} AS SELECT DISTINCT request_hash, prompt FROM {PROMPTS} "
        "WHERE request_hash IS NOT NULL AND prompt IS NOT NULL"
    )


def judging(stored: StoredOutput, request: SharedRequest, tables: Mapping[str, str]) -> tuple[Step, Step, Step]:
    """Return the steps by which a run judged its answers, over other tables."""
    columns = stored.described(PROMPTS) or {}
    types = {name: portable_type(kind) for name, kind in columns.items()}
    tells = BAD_VALUE in columns
    return compile_checking(stored.name, request.contract, "duckdb", tables, tells_values=tells, types=types)


def make_sent(stored: StoredOutput) -> None:
    """Make the table of what each stored answer was sent: its call and what was told behind the prompt, where known."""
    stored.fetch(
        f"CREATE OR REPLACE TEMP TABLE {KNOWN} AS SELECT request_hash, any_value(prompt) AS prompt FROM {ASKED} "
        "GROUP BY request_hash"
    )
    tests = _calls_sql(stored)
    call = f"CASE {' '.join(tests)} END" if tests else "NULL"
    stored.fetch(
        f"CREATE OR REPLACE TEMP TABLE {SENT} AS SELECT s.request_hash, attempt, run_id, asked_at, sent_hash, "
        f"CAST(NULL AS VARCHAR) AS told, CAST({call} AS INTEGER) AS call "
        f"FROM {RESPONSES} AS s LEFT JOIN {KNOWN} AS k USING (request_hash)"
    )
    told: list[tuple[SharedRequest, dict[int, list[str]]]] = []
    for run_id, attempt in stored.fetch(
        f"SELECT DISTINCT run_id, attempt FROM {SENT} SEMI JOIN {KNOWN} USING (request_hash) "
        "WHERE call IS NULL AND attempt > 1 ORDER BY ALL"
    ):
        line = stored.lines.get(run_id)
        if line is not None and (request := line.request) is not None and request.retry and request.feedback:
            alike = (attempts for other, attempts in told if _same_feedback(request, other))
            if (runs := next(alike, None)) is None:
                told.append((request, runs := {}))
            runs.setdefault(attempt, []).append(run_id)
    for request, attempts in told:
        verdicts, _, _ = judging(stored, request, {"prompts": PART, "responses": ANSWERS, "checked": JUDGED})
        for attempt, runs_of_it in attempts.items():
            _add_feedback(stored, request, runs_of_it, attempt, verdicts.sql)


def _same_feedback(request: SharedRequest, other: SharedRequest) -> bool:
    """Return whether two runs tell the same behind the same prompt, and hash it with the same constants."""
    own, others = ([call.constant for call in one.calls] for one in (request, other))
    return request.contract == other.contract and own == others


def _calls_sql(stored: StoredOutput) -> list[str]:
    """Return the cases that give the call of an answer: the one whose constant makes the hash of what was sent.

    Where feedback stands behind the prompt there is none: the verdict before tells it.
    """
    runs: dict[tuple[tuple[str, ...], bool], list[str]] = {}
    for (run_id,) in stored.fetch(f"SELECT DISTINCT run_id FROM {RESPONSES} ORDER BY ALL"):
        line = stored.lines.get(run_id)
        if line is not None and (request := line.request) is not None and not (request.retry and request.feedback):
            alike = tuple(call.constant for call in request.calls), request.retry
            runs.setdefault(alike, []).append(text(run_id))
    others = " OR ".join(f"sha256({text(one)} || k.prompt) = s.sent_hash" for one in constants(stored)) or "FALSE"
    tests = []
    for (calls, retry), named in runs.items():
        when = f"WHEN s.run_id IN ({', '.join(named)}) AND "
        tests += [
            f"{when}sha256({text(constant)} || k.prompt) = s.sent_hash THEN {place}"
            for place, constant in enumerate(calls)
        ]
        if not retry:
            tests.append(f"{when}s.sent_hash = s.request_hash AND ({others}) THEN 0")
    return tests


def constants(stored: StoredOutput) -> list[str]:
    """Return what precedes the prompts in the hashes of all runs of the enrichment, the newest first."""
    lines = [line for line in reversed(list(stored.lines.values())) if line.name == stored.name]
    calls = [call for line in lines if line.request is not None for call in line.request.calls]
    return list(dict.fromkeys(call.constant for call in calls))


def _add_feedback(
    stored: StoredOutput, request: SharedRequest, runs: Sequence[str], attempt: int, verdicts: str
) -> None:
    """Match the answers of an attempt of some runs whose prompt has the reason of the refusal before it.

    ``verdicts`` is the query that judges the answers before that attempt.
    """
    of_runs = f"run_id IN ({', '.join(map(text, runs))})"
    wanted = f"SELECT request_hash FROM {SENT} WHERE {of_runs} AND attempt = ? AND call IS NULL"
    stored.fetch(
        f"CREATE OR REPLACE TEMP TABLE {PART} AS SELECT DISTINCT ON (request_hash) * FROM {PROMPTS} "
        f"WHERE request_hash IN ({wanted})",
        attempt,
    )
    stored.fetch(
        f"CREATE OR REPLACE TEMP TABLE {ANSWERS} AS FROM {RESPONSES} WHERE attempt < ? "
        f"AND request_hash IN (SELECT request_hash FROM {PART})",
        attempt,
    )
    codes = ", ".join(map(text, NO_FEEDBACK))
    stored.fetch(
        f"CREATE OR REPLACE TEMP TABLE {JUDGED} AS SELECT request_hash, CASE WHEN _error IN ({codes}) THEN '' ELSE "
        f"{text(FEEDBACK[0])} || _error || coalesce(' ' || _error_detail, '') || {text(FEEDBACK[1])} END AS told "
        f"FROM ({verdicts})"
    )
    for place, call in enumerate(request.calls):
        stored.fetch(
            f"UPDATE {SENT} AS s SET told = j.told, call = {place} FROM {JUDGED} AS j JOIN {KNOWN} AS k "
            f"USING (request_hash) WHERE s.{of_runs} AND s.attempt = ? AND s.call IS NULL "
            "AND s.request_hash = k.request_hash "
            f"AND sha256({text(call.constant)} || k.prompt || j.told) = s.sent_hash",
            attempt,
        )


def rebuilt_requests(stored: StoredOutput, where: str = "TRUE", values: Sequence[Any] = ()) -> Iterator[RebuiltRequest]:
    """Return the request of each stored answer, by request and attempt; :func:`make_sent` came before.

    No other query may run on the connection until the last one is given.
    """
    found = stored.db.execute(
        "SELECT request_hash, attempt, run_id, asked_at, prompt IS NOT NULL, prompt || coalesce(told, ''), call "
        f"FROM {SENT} LEFT JOIN {KNOWN} USING (request_hash) WHERE {where} "
        "ORDER BY request_hash, attempt, asked_at, run_id",
        list(values),
    )
    writers: dict[tuple[str, int, int, tuple[str, ...]], RequestBody] = {}
    while rows := found.fetchmany(PAGE_ROWS):
        for request_hash, attempt, run_id, asked_at, known, sent, call in rows:
            line = stored.lines.get(run_id)
            facts = (request_hash, attempt, run_id, asked_at)
            why = why_not(stored, line, call, known=known)
            if why or line is None or line.request is None:
                yield RebuiltRequest(*facts, sent if call is not None else None, None, "", why)
                continue
            form = min(line.request.calls[call].form_at(asked_at), len(line.request.forms) - 1)
            place = (run_id, call, form, line.request.calls[call].adaptations_at(asked_at))
            if place not in writers:
                writers[place] = _writer(line.request, *place[1:])
            yield RebuiltRequest(*facts, sent, writers[place].of((sent,)), line.request.forms[form].name)


def why_not(stored: StoredOutput, line: RunLine | None, call: int | None, *, known: bool) -> str:
    """Return why the body of a request can't be rebuilt, "" where it can."""
    if line is None:
        return "the ledger has no line of its run"
    if line.request is None:
        return line.problem or "its run was made by another version of sqlenrich, which kept no request"
    if not known:
        return f"{NOT_STORED}: {WHY_NOT_STORED['prompts' in stored.tables]}"
    if call is None:
        return "its hash is not that of what its run would have sent"
    if (why := NO_BODY.get(line.request.asked)) is not None:
        return f"its run {why}"
    if line.request.asked == ENGINE:
        return f"a function of {line.request.engine} made the request"
    if line.request.contract.embedding is not None:
        return "a request for vectors has the texts of several rows, and which ones is not stored"
    if WIRE_FORMS[line.request.api].chat is None:
        return "a request of tensors has the texts of several rows, and which ones is not stored"
    if line.request.withheld:
        return f"{', '.join(line.request.withheld)} of the body may be a secret and is not kept"
    return ""


def _writer(request: SharedRequest, call: int, form: int, adaptations: Sequence[str]) -> RequestBody:
    """Return what writes the bodies of a call in one form of the output, with some adaptations."""
    chosen = request.forms[form]
    config = RequestConfig(
        request.model,
        params=request.calls[call].params,
        response_format=chosen.response_format,
        hint=chosen.hint,
        turns=request.turns,
    )
    api = WIRE_FORMS[request.api].chat
    assert api is not None
    return RequestBody(config, request.extra_body, adaptations, api)
