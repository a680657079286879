"""``sqlenrich audit``: each request is rebuilt byte for byte, and what was changed since is found and named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import duckdb
import pytest

from sqlenrich.quality.rebuilt_requests import make_sent, make_views, rebuilt_requests
from sqlenrich.quality.stored_output import stored_output
from tests.support.audited_runs import AuditedRuns, audited_runs
from tests.support.runs import call


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> AuditedRuns:
    return audited_runs(tmp_path_factory.mktemp("audited"), 300)


def test_each_body_is_that_which_the_endpoint_got(audited: AuditedRuns) -> None:
    with stored_output("intent", audited.output) as stored:
        make_views(stored)
        make_sent(stored)
        found = list(rebuilt_requests(stored))
        assert len(found) == stored.one("SELECT count(*) FROM intent_responses")
    assert {one.why for one in found} == {""}
    bodies = {one.body for one in found}
    assert bodies == set(audited.bodies)
    models = {(json.loads(body)["model"], json.loads(body)["max_tokens"]) for body in audited.bodies}
    assert {("mock", 64), ("mock", 48), ("mock", 32), ("small", 256)} <= models
    assert sum(b"Your last answer was refused" in body for body in audited.bodies) > 30


def test_an_audit_of_all_rows_holds(audited: AuditedRuns) -> None:
    result = call("audit", audited.prompt, "--output", audited.output, "--json")
    facts = json.loads(result.out)
    assert (result.status, facts["problems"], facts["not_rebuilt"]) == (0, [], [])
    assert (facts["rows"], facts["runs"], facts["holds"]) == (300, 9, True)


# A row of NAME, an answer that gave it, and the ids of the last run and of an earlier one.
ONE = "(SELECT min(id) FROM intent WHERE urgency = 3)"
ITS = f"(SELECT request_hash FROM intent_checked WHERE id = {ONE})"
REFUSED = "(SELECT min(id) FROM intent_quarantine)"
RETRIED = (
    "(SELECT min(request_hash) FROM (SELECT request_hash FROM intent_responses GROUP BY ALL HAVING max(attempt) = 3))"
)
LAST = "(SELECT max(run_id) FROM _sqlenrich_runs)"
FIRST = "(SELECT min(run_id) FROM _sqlenrich_runs)"
FORGED = """'{"label":"b","urgency":1}'"""
TAMPERING: dict[str, tuple[str, str, str]] = {
    "a value": (f"UPDATE intent SET urgency = 5 WHERE id = {ONE}", "value", "urgency is 5, its answer gives 3"),
    "a value to NULL": (f"UPDATE intent SET label = NULL WHERE id = {ONE}", "value", "label is NULL, its answer gives"),
    "a key": (f"UPDATE intent SET id = '9999' WHERE id = {ONE}", "value", "intent: row id=9999"),
    "the model of a row": (f"UPDATE intent SET _model = 'x' WHERE id = {ONE}", "value", "_model is x"),
    "the version of a row": (f"UPDATE intent SET _version = '0' WHERE id = {ONE}", "value", "_version is 0"),
    "a row taken away": (f"DELETE FROM intent WHERE id = {ONE}", "value", "the row is not there"),
    "a row put in": (f"INSERT INTO intent FROM intent WHERE id = {ONE}", "value", "no request gives this row"),
    "a row gone everywhere": (
        f"CREATE TABLE x AS SELECT {ONE} AS gone; DELETE FROM intent WHERE id IN (FROM x); "
        "DELETE FROM intent_checked WHERE id IN (FROM x); DELETE FROM intent_prompts WHERE id IN (FROM x)",
        "rows",
        "rows_in is 300, the tables have 299",
    ),
    "a reason": (f"UPDATE intent_quarantine SET _error = 'X' WHERE id = {REFUSED}", "value", "_error is X"),
    "a refused answer": (
        f"UPDATE intent_quarantine SET response = 'x' WHERE id = {REFUSED}", "value", "response is x, its answer gives"
    ),
    "a verdict": (f"UPDATE intent_checked SET _repaired = NOT _repaired WHERE id = {ONE}", "value", "_repaired is"),
    "a prompt": (
        f"UPDATE intent_prompts SET prompt = prompt || '!' WHERE id = {ONE}", "hash", "is not that of its prompt"
    ),
    "a request hash": (
        f"UPDATE intent_prompts SET request_hash = sha256('x') WHERE id = {ONE}", "hash", "is not that of its prompt"
    ),
    "an answer": (
        f"UPDATE intent_responses SET response = {FORGED} WHERE request_hash = {ITS} AND call_error IS NULL",
        "answers",
        "their digest differs",
    ),
    "an answer and its value": (
        f"UPDATE intent_responses SET response = {FORGED} WHERE request_hash = {ITS} AND call_error IS NULL; "
        f"UPDATE intent_checked SET response = {FORGED}, answer = {FORGED}, _repaired = false "
        f"WHERE request_hash = {ITS}; "
        f"UPDATE intent SET label = 'b', urgency = 1 WHERE _request_hash = {ITS}",
        "answers",
        "their digest differs",
    ),
    "an attempt": (
        f"DELETE FROM intent_responses WHERE request_hash = {RETRIED} AND attempt = 1",
        "attempts",
        "of its 3 attempts 2 are stored",
    ),
    "the last attempt": (
        f"DELETE FROM intent_responses WHERE request_hash = {RETRIED} AND attempt = 3", "answers", "stored, there are"
    ),
    "an answer twice": (
        f"INSERT INTO intent_responses FROM intent_responses WHERE request_hash = {RETRIED} AND attempt = 1",
        "attempts",
        "it is stored 2 times",
    ),
    "tokens": (
        f"UPDATE intent_responses SET tokens_out = 9 WHERE request_hash = {RETRIED} AND attempt = 1",
        "tokens",
        "tokens_out is",
    ),
    "what was sent": (
        f"UPDATE intent_responses SET sent_hash = sha256('x') WHERE request_hash = {RETRIED} AND attempt = 2",
        "sent",
        "its sent_hash is not that of what its run would have sent",
    ),
    "a retry that hides its feedback": (
        "UPDATE intent_responses SET sent_hash = request_hash WHERE sent_hash <> request_hash "
        f"AND request_hash = {RETRIED}",
        "sent",
        "its sent_hash is not that of what its run would have sent",
    ),
    "the model of an answer": (
        f"UPDATE intent_responses SET model = 'x' WHERE request_hash = {ITS}", "answer", "its model x is not"
    ),
    "the file of an answer": (
        f"UPDATE intent_responses SET fingerprint = 'x' WHERE request_hash = {ITS}", "answer", "its fingerprint x"
    ),
    "the time of an answer": (
        f"UPDATE intent_responses SET asked_at = '2020-01-01' WHERE request_hash = {ITS}", "answer", "its asked_at 2020"
    ),
    "the run of an answer": (
        f"UPDATE intent_responses SET run_id = {FIRST} WHERE run_id = {LAST}", "answers", "answers stored, there are"
    ),
    "a run that never was": (
        f"UPDATE intent_responses SET run_id = 'x' WHERE request_hash = {ITS}", "ledger", "the ledger has no line of it"
    ),
    "a line of the ledger": (
        f"DELETE FROM _sqlenrich_runs WHERE run_id = {FIRST}", "ledger", "the ledger has no line of it"
    ),
    "the cost": (
        "UPDATE _sqlenrich_runs SET report = json_merge_patch(report, '{\"cost\": 0.5}') "
        f"WHERE run_id = {FIRST}",
        "cost",
        "cost is 0.5, its answers cost",
    ),
    "the counts": (
        "UPDATE _sqlenrich_runs SET report = json_merge_patch(report, '{\"enriched\": 300, \"quarantined\": 0}') "
        f"WHERE run_id = {LAST}",
        "rows",
        "enriched is 300, the tables have",
    ),
    "the latencies": (
        "UPDATE _sqlenrich_runs SET report = json_merge_patch(report, '{\"latency_ms\": {\"p50\": 99999}}') "
        f"WHERE run_id = {FIRST}",
        "tokens",
        "latency_ms is",
    ),
    "the parameters of a run": (
        f"UPDATE _sqlenrich_runs SET request = replace(request, '64', '65') WHERE run_id = {FIRST}",
        "ledger",
        "its digest differs",
    ),
    "a request that is no JSON": (
        f"UPDATE _sqlenrich_runs SET request = 'x' WHERE run_id = {FIRST}", "ledger", "its request: it can't be read"
    ),
    "a run that did not end": (
        f"UPDATE _sqlenrich_runs SET status = 'started', report = NULL WHERE run_id = {LAST}", "ledger", "did not end"
    ),
    "a column taken away": ("ALTER TABLE intent DROP COLUMN urgency", "columns", "column urgency: it is missing"),
    "the type of a column": (
        "ALTER TABLE intent ALTER COLUMN urgency TYPE VARCHAR", "columns", "it is VARCHAR, not BIGINT"
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", TAMPERING)
def test_tampering_is_found_and_named(tmp_path: Path, audited: AuditedRuns, kind: str) -> None:
    statements, check, told = TAMPERING[kind]
    output = tmp_path / "out.duckdb"
    shutil.copy(audited.output, output)
    with duckdb.connect(str(output)) as db:
        db.execute(statements)
    result = call("audit", audited.prompt, "--output", output, "--json")
    assert result.status == 3, result.err
    problems = json.loads(result.out)["problems"]
    assert any(one["check"] == check and told in f"{one['place']}: {one['text']}" for one in problems), problems
