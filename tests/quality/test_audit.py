"""``sqlenrich audit``: each request is rebuilt byte for byte, and what was changed since is found and named."""

from __future__ import annotations

import json
import shutil
from email.message import Message
from pathlib import Path

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.ask.observer import NullObserver, PlanLine
from sqlenrich.quality.audit.rebuilt_requests import make_sent, make_views, rebuilt_requests
from sqlenrich.store.duckdb.tables import stored_output
from tests.support.audited_runs import AuditedRuns, audited_runs
from tests.support.endpoint import ScriptedEndpoint
from tests.support.networks import serving
from tests.support.runs import GOOD, ask, call, rows, run, write_csv, write_prompt

pytestmark = pytest.mark.xdist_group("audit")  # the audited runs are made once


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> AuditedRuns:
    return audited_runs(tmp_path_factory.mktemp("audited"), 300)


def test_each_body_is_that_which_the_endpoint_got(audited: AuditedRuns) -> None:
    with stored_output(se.load(audited.prompt), audited.output) as stored:
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
        "UPDATE intent_responses SET sent_hash = request_hash WHERE sent_hash <> request_hash AND attempt = 2",
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


def test_the_trail_of_a_row_tells_all_of_it(audited: AuditedRuns) -> None:
    found = rows(
        audited.output,
        "SELECT id FROM intent JOIN intent_responses ON _request_hash = request_hash "
        "WHERE attempt > 1 AND sent_hash <> request_hash ORDER BY id LIMIT 1",
    )
    key = found[0][0]
    result = call("audit", audited.prompt, "--output", audited.output, "--row", f"id={key}", "--json")
    assert result.status == 0, result.err
    (trail,) = json.loads(result.out)["trails"]
    (stored,) = rows(audited.output, f"SELECT prompt, request_hash FROM intent_prompts WHERE id = '{key}'")
    values = rows(audited.output, f"SELECT label, urgency FROM intent WHERE id = '{key}'")[0]
    assert (trail["row"], trail["prompt"], trail["request_hash"]) == ({"id": key}, *stored)
    assert (trail["table"], trail["verdict"], tuple(trail["values"].values())) == ("intent", "accepted", values)
    assert [one["attempt"] for one in trail["attempts"]] == list(range(1, len(trail["attempts"]) + 1))
    assert all(one["body"].encode() in audited.bodies for one in trail["attempts"])
    assert [one["verdict"] == "accepted" for one in trail["attempts"]][-1] is True
    assert all(one["verdict"] != "accepted" for one in trail["attempts"][:-1])
    text = call("audit", audited.prompt, "--output", audited.output, "--row", f"id={key}").out
    for one in trail["attempts"]:
        assert f"attempt {one['attempt']}: " in text
        assert f"verdict: {one['verdict']}" in text
        assert one["body"] in text
    assert text.splitlines()[0] == f"id={key} of intent: accepted"


def test_the_trail_shows_the_system_of_a_row_apart(tmp_path: Path) -> None:
    prompt = write_prompt(tmp_path, "key: [id]\nsystem: \"{% if id != '2' %}For {{ id }}{% endif %}\"\n")
    output = tmp_path / "out.duckdb"
    assert call("run", prompt, "--input", write_csv(tmp_path / "in.csv", [(1, "x"), (2, "y")]), "--output", output,
                "--mock").status == 0  # fmt: skip
    for key, shown, system, stored in (
        (1, "  system:\n    For 1\n  prompt:\n    Classify: x\n", "For 1", "For 1\x1eClassify: x"),
        (2, ": accepted\n  prompt:\n    Classify: y\n", "", "\x1eClassify: y"),
    ):
        options = ("audit", prompt, "--output", output, "--row", f"id={key}")
        assert shown in call(*options).out
        (trail,) = json.loads(call(*options, "--json").out)["trails"]
        assert (trail["system"], trail["prompt"]) == (system, stored)


def test_the_trail_has_the_repairs_and_the_reviews(audited: AuditedRuns, tmp_path: Path) -> None:
    output = tmp_path / "out.duckdb"
    shutil.copy(audited.output, output)
    found = "SELECT id, request_hash FROM intent_checked WHERE _repaired AND _error IS NULL ORDER BY id LIMIT 1"
    with duckdb.connect(str(output)) as db:
        key, request_hash = db.execute(found).fetchall()[0]
        db.execute("CREATE TABLE intent_reviews (request_hash VARCHAR, reviewer VARCHAR, verdict VARCHAR)")
        db.execute("INSERT INTO intent_reviews VALUES (?, 'ana', 'wrong'), ('x', 'ben', 'right')", [request_hash])
    audit = se.audit(se.load(audited.prompt), output=output, row={"id": key})
    (trail,) = audit.trails
    assert trail.attempts[-1].repairs == ("fence",)
    assert [dict(review) for review in trail.reviews] == [
        {"request_hash": request_hash, "reviewer": "ana", "verdict": "wrong"}
    ]
    assert audit.holds


def test_it_works_when_the_prompt_file_has_changed(audited: AuditedRuns, tmp_path: Path) -> None:
    changed = write_prompt(tmp_path, "key: [other]\nversion: 99\n", "{{ other }}!", output="output: {x: string}\n")
    facts = json.loads(call("audit", changed, "--output", audited.output, "--json").out)
    assert (facts["holds"], facts["rows"]) == (True, 300)


@pytest.fixture
def mocked(tmp_path: Path) -> Path:
    """Return the database of a small run of the mock model."""
    data = write_csv(tmp_path / "in.csv", [(i, f"text {i}") for i in range(9)])
    assert run(write_prompt(tmp_path), data, tmp_path / "out.duckdb").status == 0
    return tmp_path / "out.duckdb"


@pytest.mark.parametrize(
    ("arguments", "statement", "status", "told"),
    [
        (("--row", "id=99"), "", 2, "has no row id=99 of intent"),
        (("--row", "nr=9"), "", 2, '"nr" is no column of the key, which is id'),
        (("--output", "gone.duckdb"), "", 2, "gone.duckdb: no run has written it"),
        ((), "DELETE FROM _sqlenrich_runs", 2, "holds no run of intent: run it first"),
        ((), "DROP TABLE _sqlenrich_runs", 2, "holds no run of sqlenrich"),
        ((), "ALTER TABLE _sqlenrich_runs DROP COLUMN request", 2, "no column request, for it was made by another"),
        ((), "ALTER TABLE intent_responses DROP COLUMN request_id", 2, "no column request_id, for it was made by"),
        ((), "DROP TABLE intent_quarantine", 2, "has no table intent_quarantine: the last run of intent made none"),
        ((), "UPDATE _sqlenrich_runs SET request = NULL", 2, "does not tell what the last run of intent asked"),
    ],
)
def test_bad_input_is_told_in_one_line(
    mocked: Path, arguments: tuple[str, ...], statement: str, status: int, told: str
) -> None:
    if statement:
        with duckdb.connect(str(mocked)) as db:
            db.execute(statement)
    options = arguments if "--output" in arguments else ("--output", str(mocked), *arguments)
    result = call("audit", mocked.parent / "intent.prompt", *options)
    assert result.status == status
    assert told in result.error


def test_what_cannot_be_rebuilt_says_why(tmp_path: Path) -> None:
    prompt, output = write_prompt(tmp_path, "key: [id]\nkeep_prompts: false\n"), tmp_path / "out.duckdb"
    lines = [(i, f"text {i}" if i else None) for i in range(9)]
    with ScriptedEndpoint(content=GOOD, models=("mock",)) as endpoint:
        ask(prompt, write_csv(tmp_path / "in.csv", lines), output, endpoint.url)
    facts = json.loads(call("audit", prompt, "--output", output, "--json").out)
    assert (facts["holds"], facts["rows"], facts["answers"]) == (True, 9, 8)
    assert facts["not_rebuilt"] == [
        {
            "number": 8,
            "what": "request",
            "why": "the prompt is not stored: keep_prompts is false: only hashes are kept",
        }
    ]
    (trail,) = se.audit(se.load(prompt), output=output, row={"id": 3}).trails
    assert (trail.prompt, trail.attempts[0].body, trail.verdict) == (None, None, "accepted")
    assert trail.attempts[0].why == "its prompt is not stored: keep_prompts is false: only hashes are kept"
    with duckdb.connect(str(output)) as db:
        db.execute("UPDATE intent SET urgency = 5 WHERE id = '4'")
    assert call("audit", prompt, "--output", output).status == 3


def test_answers_of_an_earlier_input_are_counted_and_told(tmp_path: Path) -> None:
    prompt, output = write_prompt(tmp_path), tmp_path / "out.duckdb"
    with ScriptedEndpoint(content=GOOD, models=("mock",)) as endpoint:
        for first in (0, 5):
            data = write_csv(tmp_path / "in.csv", [(i, f"text {i}") for i in range(first, first + 9)])
            ask(prompt, data, output, endpoint.url)
    facts = json.loads(call("audit", prompt, "--output", output, "--json").out)
    why = "the prompt is not stored: the last run's input or prompt no longer has it"
    assert (facts["holds"], facts["answers"], facts["not_rebuilt"]) == (
        True, 14, [{"number": 5, "what": "request", "why": why}],
    )  # fmt: skip


class Forms:
    """Takes some forms of the output alone, and keeps each body that it answered."""

    def __init__(self, *takes: str) -> None:
        self.takes, self.answered = takes, list[bytes]()

    def __call__(self, _: Message, sent: bytes) -> tuple[int, dict[str, str], bytes]:
        if json.loads(sent).get("response_format", {"type": "none"})["type"] not in self.takes:
            return 400, {}, b'{"error": {"message": "unsupported", "param": "response_format"}}'
        self.answered.append(sent)
        choice = {"message": {"content": GOOD}, "finish_reason": "stop"}
        return 200, {}, json.dumps({"choices": [choice]}).encode()


@pytest.mark.parametrize(
    ("takes", "form"),
    [(("json_schema", "none"), "json_schema"), (("json_object", "none"), "json_object"), (("none",), "none")],
)
def test_the_form_of_each_request_is_known_where_the_endpoint_refuses_one(
    tmp_path: Path, takes: tuple[str, ...], form: str
) -> None:
    prompt, output, server = write_prompt(tmp_path), tmp_path / "out.duckdb", Forms(*takes)
    data = write_csv(tmp_path / "in.csv", [(i, f"text {i}") for i in range(40)])
    with serving(server) as url:
        result = ask(prompt, data, output, url)
    assert result.status == 0, result.err
    with stored_output(se.load(prompt), output) as stored:
        make_views(stored)
        make_sent(stored)
        found = list(rebuilt_requests(stored))
    assert sorted(one.body or b"" for one in found) == sorted(server.answered)
    assert {one.form for one in found} == {form}
    assert call("audit", prompt, "--output", output).status == 0


def test_no_secret_is_in_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEIR_KEY", "sk-header-secret")
    prompt, output = write_prompt(tmp_path), tmp_path / "out.duckdb"
    data = write_csv(tmp_path / "in.csv", [(1, "text")])
    body = {"api_key": "sk-body-secret", "metadata": {"copy": "Bearer sk-own-secret", "max_tokens": 9}}
    with ScriptedEndpoint(content=GOOD, models=("mock",)) as server:
        endpoint = se.Endpoint(
            server.url, api_key="sk-own-secret", headers={"x-key": "env:THEIR_KEY"}, extra_body=body, model="mock"
        )
        se.run(se.load(prompt), input=data, output=output, model=endpoint)
        assert b"sk-body-secret" in server.asked[0].body
    ((request,),) = rows(output, "SELECT request FROM _sqlenrich_runs")
    assert "sk-" not in request
    assert json.loads(request)["extra_body"]["metadata"]["max_tokens"] == 9
    audit = se.audit(se.load(prompt), output=output)
    assert audit.holds
    assert [one.why.partition(" of run")[0] for one in audit.not_rebuilt] == ["api_key, metadata.copy"]


def test_a_ledger_of_an_earlier_version_gets_the_column(mocked: Path) -> None:
    with duckdb.connect(str(mocked)) as db:
        db.execute("ALTER TABLE _sqlenrich_runs DROP COLUMN request")
    result = run(mocked.parent / "intent.prompt", mocked.parent / "in.csv", mocked)
    assert (result.status, result.report["calls"]) == (0, 0)
    facts = json.loads(call("audit", mocked.parent / "intent.prompt", "--output", mocked, "--json").out)
    assert (facts["holds"], facts["not_rebuilt"][0]["number"]) == (True, 9)
    assert facts["not_rebuilt"][0]["why"].endswith("was made by another version, which kept no request")


def test_an_answer_of_an_earlier_version_of_the_prompt_is_asked_again_under_its_hash(tmp_path: Path) -> None:
    """A run asks what an earlier version left without an answer, with its own parameters."""
    output = tmp_path / "out.duckdb"
    with ScriptedEndpoint(content=GOOD, models=("mock",), by_prompt={"busy": "500"}) as endpoint:
        lines = [(i, f"text {i}") for i in range(9)]
        first = write_prompt(tmp_path, "key: [id]\nretry: {max_attempts: 1}\n")
        ask(first, write_csv(tmp_path / "in.csv", [*lines, (9, "busy")]), output, endpoint.url)
        endpoint.by_prompt = {}
        second = write_prompt(tmp_path, "key: [id]\nparams: {temperature: 0.5}\n")
        result = ask(second, write_csv(tmp_path / "in.csv", [(10, "more")]), output, endpoint.url, "--incremental")
        assert (result.status, result.report["calls"], result.report["quarantined"]) == (0, 2, 0)
        bodies = {seen.body for seen in endpoint.asked}
    with stored_output(se.load(second), output) as stored:
        make_views(stored)
        make_sent(stored)
        assert {one.body for one in rebuilt_requests(stored)} == bodies
    assert call("audit", second, "--output", output).status == 0


def test_a_run_that_was_declined_changes_no_verdict(mocked: Path) -> None:
    prompt, data = (
        mocked.parent / "intent.prompt",
        write_csv(mocked.parent / "in.csv", [(i, f"text {i}") for i in range(9)]),
    )
    write_prompt(mocked.parent, "key: [id]\nparams: {temperature: 0.5}\n")
    se.run(se.load(prompt), input=data, output=mocked, mock=True, observer=Declining())
    write_prompt(mocked.parent)
    assert rows(mocked, "SELECT status FROM _sqlenrich_runs ORDER BY started_at") == [("done",), ("stopped",)]
    (problem,) = se.audit(se.load(prompt), output=mocked).problems
    assert (problem.check, "the prompts are not" in problem.text) == ("ledger", True)
    run(prompt, data, mocked)
    assert se.audit(se.load(prompt), output=mocked).holds


class Declining(NullObserver):
    def plan(self, line: PlanLine, /) -> bool:  # noqa: ARG002
        return False
