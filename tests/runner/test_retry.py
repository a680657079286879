"""``sqlenrich retry``: what is refused is asked again as often as due, what is good never, and nothing is dropped."""

from __future__ import annotations

import csv
import json
import shlex
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.ask.model_choice import WantedModel, choose_model
from sqlenrich.llm.endpoint.policy import EndpointPolicy
from sqlenrich.plan.pending_step import FEEDBACK, NO_FEEDBACK, NOT_RETRIABLE, RETRIABLE_REASONS, feedback_text
from sqlenrich.plan.request import request_constant, request_hash
from sqlenrich.schema import CODES, evaluate_checks
from sqlenrich.spec.settings import Config
from tests.support.endpoint import ScriptedEndpoint, Seen
from tests.support.runs import GOOD, Result, assert_accounted, call, opened, rows, start, wait, write_csv, write_prompt

ROWS = 600
LIMIT = 64
PARAMS = f"params: {{temperature: 0, max_tokens: {LIMIT}}}\n"
HEADER = "key: [id]\n" + PARAMS
PROSE = "The text does not say."
# What an endpoint does for a prompt that holds the word, and the reason that follows.
FAULTS: dict[str, tuple[str, str]] = {
    "blocked": ("400_policy", "CALL_ERROR"),
    "silent": ("empty", "NO_RESPONSE"),
    "prose": (PROSE, "BAD_JSON"),
    "enum": ('{"label":"z","urgency":3}', "NOT_IN_ENUM"),
    "range": ('{"label":"a","urgency":9}', "OUT_OF_RANGE"),
    "cut": ('{"label":"a","urg', "TRUNCATED"),
}


@dataclass
class Asked:
    """One request as the endpoint saw it."""

    prompt: str
    feedback: str
    model: str
    limit: int | None
    body: dict[str, Any] = field(repr=False)

    @classmethod
    def of(cls, seen: Seen) -> Asked:
        body = json.loads(seen.body)
        prompt, mark, feedback = seen.prompt.partition(FEEDBACK[0])
        return cls(prompt, mark + feedback, body["model"], body.get("max_tokens"), body)


class Faulty(ScriptedEndpoint):
    """Fails for prompts that hold a fault's word, so many times as ``times`` says for the prompt; then answers well."""

    def __init__(self, times: Callable[[str], int] = lambda _: 1, **options: Any) -> None:
        super().__init__(content=GOOD, **options)
        self.times = times
        self.seen_of: Counter[str] = Counter()

    def fault(self, seen: Seen) -> str:
        asked = Asked.of(seen)
        self.seen_of[asked.prompt] += 1
        word = next((word for word in FAULTS if word in asked.prompt), None)
        if word is None or self.seen_of[asked.prompt] > self.times(asked.prompt):
            return ""
        return FAULTS[word][0]

    def completion(self, body: dict[str, Any], fault: str) -> bytes:
        texts = {text: reason for text, reason in FAULTS.values() if reason not in ("CALL_ERROR", "NO_RESPONSE")}
        if fault not in texts:
            return super().completion(body, fault)
        made = json.loads(super().completion(body, ""))
        made["choices"][0]["message"]["content"] = fault
        made["choices"][0]["finish_reason"] = "length" if texts[fault] == "TRUNCATED" else "stop"
        return json.dumps(made).encode()

    @property
    def requests(self) -> list[Asked]:
        return [Asked.of(seen) for seen in self.asked]

    def __enter__(self) -> Faulty:
        super().__enter__()
        return self

    def forget(self) -> None:
        self.log.clear()


def body_of(number: int) -> str:
    """Each tenth row fails in one of six ways, in turn; each fifth of these can't be mended."""
    if number % 10:
        return f"text {number}"
    word = list(FAULTS)[number // 10 % len(FAULTS)]
    return f"{word} {number}" + (" for ever" if number // 10 % 5 == 4 else "")


def times_of(prompt: str) -> int:
    return 99 if "for ever" in prompt else 1


def reason_of(text: str) -> str:
    return next((reason for word, (_, reason) in FAULTS.items() if word in text), "")


def make_input(folder: Path, count: int = ROWS) -> Path:
    """The rows, and some of them twice."""
    numbers = [*range(count), *range(0, count, 15)]
    return write_csv(folder / "in.csv", [(i, body_of(i)) for i in numbers])


def words(folder: Path, *texts: str) -> Path:
    return write_csv(folder / "in.csv", [(i, text) for i, text in enumerate(texts)])


def first_run(prompt: Path, data: Path, output: Path, endpoint: ScriptedEndpoint, *more: object) -> Result:
    options = ("--endpoint", endpoint.url, "--model", "mock", "--json", "--stop-after-refused", 0)
    return call("run", prompt, "--input", data, "--output", output, *options, *more)


def retry(prompt: Path, output: Path, endpoint: ScriptedEndpoint, *more: object) -> Result:
    return call("retry", prompt, "--output", output, "--endpoint", endpoint.url, "--json", *more)


def reasons(output: Path) -> dict[str, int]:
    return dict(rows(output, "SELECT _error, count(*) FROM intent_quarantine GROUP BY 1"))


# The whole way --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("feedback", [False, True])
def test_only_what_cannot_be_mended_remains(tmp_path: Path, feedback: bool) -> None:
    prompt = write_prompt(tmp_path, HEADER + ("retry: {feedback: true}\n" if feedback else ""))
    output = tmp_path / "out.duckdb"
    with Faulty(times_of) as endpoint:
        before = first_run(prompt, make_input(tmp_path), output, endpoint)
        assert set(before.report["quarantine"]) == {reason for _, reason in FAULTS.values()}
        assert before.report["distinct_requests"] == ROWS
        answers = "SELECT * FROM intent_responses WHERE attempt = 1 ORDER BY request_hash"
        first = rows(output, answers)
        good = rows(output, "SELECT * FROM intent ORDER BY ALL")
        prompts = rows(output, "SELECT * FROM intent_prompts ORDER BY ALL")
        endpoint.forget()
        result = retry(prompt, output, endpoint)
        requests = endpoint.requests
    assert result.status == 0, result.err
    report = result.report
    assert_accounted(report, output)
    assert (report["pending"], report["rows_in"], report["calls"]) == (0, before.report["rows_in"], len(requests))
    refused = [f"Classify: {body_of(number)}" for number in range(0, ROWS, 10)]
    for_ever = [text for text in refused if "for ever" in text]
    # One more attempt for what is mended by it, two for what is not; nothing else is asked.
    assert Counter(one.prompt for one in requests) == Counter([*refused, *for_ever])
    assert report["cached"] == ROWS - len(refused)
    remain = rows(output, "SELECT DISTINCT prompt, _error, _attempts FROM intent_quarantine")
    assert sorted(remain) == sorted((text, reason_of(text), 3) for text in for_ever)
    # Nothing is dropped, and what was good is as it was.
    assert rows(output, answers) == first
    assert set(good) < set(rows(output, "SELECT * FROM intent"))
    assert rows(output, "SELECT * FROM intent_prompts ORDER BY ALL") == prompts
    stored = rows(output, "SELECT attempt, count(*) FROM intent_responses GROUP BY 1 ORDER BY 1")
    assert stored == [(1, ROWS), (2, len(refused)), (3, len(for_ever))]
    for one in requests:
        told = feedback and reason_of(one.prompt) not in NO_FEEDBACK
        assert one.feedback.startswith(FEEDBACK[0]) == told, one
        if told:
            assert one.feedback.startswith(f"{FEEDBACK[0]}{reason_of(one.prompt)} ")
            assert not any(text in one.feedback for text, _ in FAULTS.values())
    # Truncated answers get twice the limit, then four times; the others the file's.
    limits = Counter((one.limit, reason_of(one.prompt) == "TRUNCATED") for one in requests)
    cut, cut_for_ever = (sum("cut" in text for text in texts) for texts in (refused, for_ever))
    assert limits[2 * LIMIT, True] == cut
    assert limits[4 * LIMIT, True] == cut_for_ever > 0
    assert sum(limits.values()) - cut - cut_for_ever == limits[LIMIT, False]
    again = retry(prompt, output, endpoint)
    assert (again.status, again.report["calls"], again.report["quarantine"]) == (0, 0, report["quarantine"])


def test_sent_hashes_are_those_of_what_was_sent(tmp_path: Path) -> None:
    """The hash says what was really asked: the prompt with what was added to it, the model and its parameters."""
    header = HEADER + "hint: always\nretry: {feedback: true, escalate: small}\n"
    prompt, output = write_prompt(tmp_path, header), tmp_path / "out.duckdb"
    with Faulty(lambda _: 2) as endpoint:
        first_run(prompt, words(tmp_path, *FAULTS), output, endpoint)
        endpoint.forget()
        retry(prompt, output, endpoint)
        sent = {json.loads(seen.body)["messages"][0]["content"] for seen in endpoint.asked}
    enrichment = se.load(prompt)
    ask = choose_model(enrichment, Config(), WantedModel("small", endpoint.url))
    found = rows(
        output,
        "SELECT r.request_hash, r.sent_hash, r.model, r.attempt, p.prompt, lag(r.response) OVER w, lag(r.call_error) "
        "OVER w, lag(r.finish_reason) OVER w FROM intent_responses r JOIN intent_prompts p USING (request_hash) "
        "WINDOW w AS (PARTITION BY request_hash ORDER BY attempt)",
    )
    expected = set()
    for hash_, sent_hash, model, attempt, text, response, error, finish in found:
        if attempt == 1:
            assert (model, sent_hash) == ("mock", hash_)
            continue
        assert (model, sent_hash != hash_) == ("small", True)
        verdict = None if response is None else evaluate_checks(enrichment.checks, response)
        code, detail = verdict or ("CALL_ERROR" if error else "NO_RESPONSE", "")
        code = "TRUNCATED" if finish == "length" else code
        params = dict(ask.resolved.params)
        if code == "TRUNCATED":
            params["max_tokens"] = LIMIT * 2 ** (attempt - 1)
        constant = request_constant(type(ask.resolved)("small", params), enrichment.schema, "hint")
        what = text + feedback_text(code, detail)
        expected.add(what)
        assert sent_hash == request_hash(constant, what), (code, attempt)
    assert {text.partition("\n\nAnswer with one JSON object that fits this")[0] for text in sent} == expected


# What is asked --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "asked"),
    [
        (("BAD_JSON",), {"prose"}),
        (("NOT_IN_ENUM", "OUT_OF_RANGE"), {"enum", "range"}),
        (("CALL_ERROR",), {"blocked"}),
        (("TRUNCATED",), {"cut"}),
        (("BAD_ITEMS",), set()),
        ((), set(FAULTS)),
    ],
)
def test_reasons_choose(tmp_path: Path, chosen: tuple[str, ...], asked: set[str]) -> None:
    prompt, output = write_prompt(tmp_path, HEADER), tmp_path / "out.duckdb"
    with Faulty() as endpoint:
        first_run(prompt, words(tmp_path, "good", *FAULTS), output, endpoint)
        endpoint.forget()
        result = retry(prompt, output, endpoint, *(part for code in chosen for part in ("--reason", code)))
        assert result.status == 0, result.err
        assert sorted(one.prompt for one in endpoint.requests) == sorted(f"Classify: {word}" for word in asked)
    left = {reason for word, (_, reason) in FAULTS.items() if word not in asked}
    assert set(reasons(output)) == left == set(result.report["quarantine"])


@pytest.mark.parametrize(
    ("arguments", "attempts"),
    [((), 3), (("--max-attempts", 1), 1), (("--max-attempts", 2), 2), (("--max-attempts", 6), 6)],
)
def test_attempts_are_counted_and_bounded(tmp_path: Path, arguments: tuple[object, ...], attempts: int) -> None:
    prompt, output = write_prompt(tmp_path, HEADER), tmp_path / "out.duckdb"
    with Faulty(lambda _: 99) as endpoint:
        first_run(prompt, words(tmp_path, "good", "prose", "cut"), output, endpoint)
        endpoint.forget()
        result = retry(prompt, output, endpoint, *arguments)
        assert len(endpoint.asked) == result.report["calls"] == 2 * (attempts - 1)
        limits = sorted(one.limit or 0 for one in endpoint.requests if "cut" in one.prompt)
        assert limits == [LIMIT * factor for factor in (2, 4, 8, 8, 8)[: attempts - 1]]
        assert rows(output, "SELECT DISTINCT _attempts FROM intent_quarantine") == [(attempts,)]
        told = f"2 refused requests had all {attempts} attempts: --max-attempts N asks them again"
        assert told in retry(prompt, output, endpoint, *arguments).err
        assert len(endpoint.asked) == 2 * (attempts - 1)


def test_a_failure_of_the_endpoint_does_not_end_a_further_attempt(tmp_path: Path) -> None:
    """With --reason alone for what the answer was: the attempt that fails on its way is made up for."""
    prompt, output = write_prompt(tmp_path, HEADER), tmp_path / "out.duckdb"
    with ScriptedEndpoint(content=PROSE) as endpoint:
        first_run(prompt, words(tmp_path, "x", "y"), output, endpoint, "--max-rows", 1)
        first_run(prompt, tmp_path / "in.csv", output, endpoint)
        endpoint.content = GOOD
        # The retry's first request is tried once more by the client, then left for the next round.
        endpoint.script = {endpoint._number + 1: "500", endpoint._number + 2: "500"}
        result = retry(prompt, output, endpoint, "--reason", "BAD_JSON")
    assert (result.status, result.report["enriched"], result.report["pending"]) == (0, 2, 0), result.err
    stored = rows(output, "SELECT attempt, call_error IS NULL FROM intent_responses ORDER BY ALL")
    assert stored == [(1, True), (1, True), (2, False), (2, True), (3, True)]


@pytest.mark.parametrize("fault", ["400_unclear", "500", "400_policy"])
def test_rows_that_always_fail_on_their_way_keep_no_other_from_being_mended(
    tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run ends where its first requests all fail; of rows that failed before nothing else is to be expected."""
    monkeypatch.setattr("sqlenrich.llm.endpoint.model.EndpointPolicy", partial(EndpointPolicy, backoff_s=0.01))
    prompt, output = write_prompt(tmp_path, HEADER + "retry: {max_attempts: 4}\n"), tmp_path / "out.duckdb"
    bad = [f"bad {i}" for i in range(6)]
    with ScriptedEndpoint(content=lambda text: PROSE if "prose" in text else GOOD) as endpoint:
        endpoint.by_prompt = dict.fromkeys(bad, "400_policy")
        first_run(prompt, words(tmp_path, "good", *bad, "bad but", "prose"), output, endpoint)
        endpoint.by_prompt = dict.fromkeys(bad, fault)
        endpoint.content = GOOD
        result = retry(prompt, output, endpoint, "--max-attempts", 6)
        assert result.status == 0, result.err
        assert result.report["quarantine"] == {"CALL_ERROR": len(bad)}
    assert rows(output, "SELECT DISTINCT _attempts FROM intent_quarantine") == [(6,)]


def test_rows_without_an_attempt_are_left_to_run(tmp_path: Path) -> None:
    prompt, output = write_prompt(tmp_path, HEADER), tmp_path / "out.duckdb"
    with ScriptedEndpoint(content=PROSE) as endpoint:
        data = words(tmp_path, "x", "y", "", "z", "z")
        first_run(prompt, data, output, endpoint, "--max-rows", 1)
        endpoint.content = GOOD
        for calls in (1, 0):
            result = retry(prompt, output, endpoint)
            report = result.report
            assert (result.status, report["calls"], report["pending"]) == (4, calls, 2), result.err
            # The row that is asked, and then is answered, and two that are neither.
            assert (report["distinct_requests"], report["cached"]) == (3, 1 - calls)
            assert report["quarantine"] == {"NOT_ASKED": 3, "NO_INPUT": 1}
            lines = result.err.splitlines()
            assert "2 requests never asked: run again, that asks them" in lines
            told = f"plan: 5 rows, 3 distinct requests, {1 - calls} already answered, "
            assert any(line.startswith(told) for line in lines)
            assert lines[-1] == "2 requests never asked: sqlenrich run asks them, retry does not"
            assert "run the same command again" not in result.err
        assert rows(output, "SELECT status FROM _sqlenrich_runs ORDER BY started_at") == [("stopped",)] * 3
        assert first_run(prompt, data, output, endpoint).report["enriched"] == 4
        last = retry(prompt, output, endpoint)
        assert (last.status, last.report["pending"], last.report["cached"]) == (0, 0, 3)


def test_a_cap_of_a_retry_beside_rows_that_were_never_asked(tmp_path: Path) -> None:
    """Each of the two lines says which command goes on."""
    prompt, output = write_prompt(tmp_path, HEADER), tmp_path / "out.duckdb"
    with ScriptedEndpoint(content=PROSE) as endpoint:
        first_run(prompt, words(tmp_path, *"abcdef"), output, endpoint, "--max-rows", 4)
        endpoint.content = GOOD
        result = retry(prompt, output, endpoint, "--max-calls", 1)
    report = result.report
    assert (result.status, report["stopped_at"], report["pending"], report["cached"]) == (4, "max_calls", 5, 0)
    assert result.err.splitlines()[-2:] == [
        "stopped at --max-calls with 3 requests to go; run the same command again to continue",
        "2 requests never asked: sqlenrich run asks them, retry does not",
    ]


@pytest.mark.parametrize("rows_sent", [0, 1, 3, 5])
def test_max_rows_is_a_budget(tmp_path: Path, rows_sent: int) -> None:
    prompt, output = write_prompt(tmp_path, HEADER), tmp_path / "out.duckdb"
    with Faulty(lambda _: 2) as endpoint:
        first_run(prompt, words(tmp_path, "prose", "cut"), output, endpoint)
        endpoint.forget()
        result = retry(prompt, output, endpoint, "--max-rows", rows_sent)
        assert len(endpoint.asked) == result.report["calls"] == min(rows_sent, 4)
        assert result.status == (4 if rows_sent < 4 else 0)
        rest = retry(prompt, output, endpoint)
        assert (rest.status, len(endpoint.asked), rest.report["enriched"]) == (0, 4, 2)


# Whom it asks ---------------------------------------------------------------------------------------------------------

TOML = """[models.default]
endpoint = "base"
[models.strong]
endpoint = {model = "large", temperature = 0.5, max_tokens = 100}
[models.elsewhere]
snowflake = "x"
"""


@pytest.mark.parametrize(
    ("in_file", "flag", "model", "limit"),
    [
        (None, None, "base", LIMIT),
        ("strong", None, "large", 100),
        ("own-name", None, "own-name", LIMIT),
        ("strong", "other", "other", LIMIT),
        (None, "strong", "large", 100),
    ],
)
def test_escalation(tmp_path: Path, in_file: str | None, flag: str | None, model: str, limit: int) -> None:
    """Only a retry asks the other model, with the parameters of its alias; `_model` tells who answered."""
    (tmp_path / "sqlenrich.toml").write_text(TOML)
    prompt = write_prompt(tmp_path, HEADER + (f"retry: {{escalate: {in_file}}}\n" if in_file else ""))
    output, url = tmp_path / "out.duckdb", ("--json", "--endpoint")
    with Faulty() as endpoint:
        data = words(tmp_path, "good", "prose", "cut")
        first = call("run", prompt, "--input", data, "--output", output, *url, endpoint.url)
        assert first.report["enriched"] == 1, first.err
        assert {one.model for one in endpoint.requests} == {"base"}
        endpoint.forget()
        result = retry(prompt, output, endpoint, *(("--model", flag) if flag else ()))
        assert result.report["enriched"] == 3, result.err
        limits = {(one.model, one.limit) for one in endpoint.requests}
        assert limits == {(model, limit), (model, 2 * limit)}
        answered = rows(output, "SELECT prompt, _model FROM intent JOIN intent_prompts USING (id) ORDER BY 1")
        assert [row[1] for row in answered] == [model, "base", model]
        # The plain run goes on with its own model, and has nothing to ask.
        again = call("run", prompt, "--input", data, "--output", output, *url, endpoint.url)
        assert (again.report["calls"], again.report["enriched"]) == (0, 3)


def test_the_model_of_the_last_run_is_asked(tmp_path: Path) -> None:
    """It need not be named again, and the endpoint is not asked which it is."""
    prompt, output = write_prompt(tmp_path, HEADER), tmp_path / "out.duckdb"
    with Faulty(models=("mock", "small")) as endpoint:
        first_run(prompt, words(tmp_path, "prose"), output, endpoint)
        endpoint.forget()
        assert retry(prompt, output, endpoint).status == 0
        assert [one.model for one in endpoint.requests] == ["mock"]
        assert len(endpoint.log) == 1


def test_a_model_without_a_name_for_an_endpoint(tmp_path: Path) -> None:
    (tmp_path / "sqlenrich.toml").write_text(TOML)
    prompt, output = write_prompt(tmp_path, HEADER + "retry: {escalate: elsewhere}\n"), tmp_path / "out.duckdb"
    with Faulty() as endpoint:
        call("run", prompt, "--input", words(tmp_path, "prose"), "--output", output, "--endpoint", endpoint.url)
        result = retry(prompt, output, endpoint)
    assert result.status == 2
    assert 'the model "elsewhere" has no name for an endpoint' in result.error


def test_no_limit_no_larger_one(tmp_path: Path) -> None:
    prompt, output = write_prompt(tmp_path, "key: [id]\n"), tmp_path / "out.duckdb"
    with Faulty() as endpoint:
        first_run(prompt, words(tmp_path, "cut", "prose"), output, endpoint)
        assert retry(prompt, output, endpoint).report["enriched"] == 2
        assert {one.limit for one in endpoint.requests} == {None}


# What it refuses ------------------------------------------------------------------------------------------------------


@pytest.fixture
def done(tmp_path: Path) -> Path:
    """A run with the mock model, half of whose answers are bad."""
    write_prompt(tmp_path, HEADER)
    data, output = write_csv(tmp_path / "in.csv", [(i, f"text {i}") for i in range(30)]), tmp_path / "out.duckdb"
    call("run", tmp_path / "intent.prompt", "--input", data, "--output", output, *MOCK)
    assert reasons(output)
    return tmp_path


MOCK = ("--mock", "--mock-failures", "bad_json=0.5")


@pytest.mark.parametrize("code", NOT_RETRIABLE)
def test_reasons_that_cannot_be_mended(done: Path, code: str) -> None:
    result = call("retry", done / "intent.prompt", "--output", done / "out.duckdb", "--mock", "--reason", code)
    assert (result.status, result.error) == (2, f"{code} can't be retried: {NOT_RETRIABLE[code]}")


def test_each_code_is_either_asked_again_or_told_why_not() -> None:
    assert [*NOT_RETRIABLE, *RETRIABLE_REASONS] == list(CODES)


CHANGES: dict[str, tuple[str, str]] = {
    "template": ("Classify:", "Label:"),
    "parameter": (f"max_tokens: {LIMIT}", "max_tokens: 65"),
    "enum": ("enum: [a, b, c]", "enum: [a, b]"),
    "key": ("key: [id]", "key: []"),
    "keep": ("key: [id]", "key: [id]\nkeep: [body]"),
    "where": ("key: [id]", "key: [id]\nwhere: \"id <> '3'\""),
    "require": ("key: [id]", "key: [id]\nrequire: [id]"),
    "columns": ("key: [id]", "key: [id]\ncolumns: {body: {from: id}}"),
    "type": ("key: [id]", "key: [id]\ncolumns: {body: string}"),
    "source": ("key: [id]", "key: [id]\nsource: elsewhere"),
    "hint": ("key: [id]", "key: [id]\nhint: always"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_file_is_run_first(done: Path, name: str) -> None:
    prompt, output = done / "intent.prompt", done / "out.duckdb"
    old, new = CHANGES[name]
    text = prompt.read_text()
    assert old in text
    before = {table: rows(output, f"FROM {table} ORDER BY ALL") for table in ("intent", "intent_responses")}
    prompt.write_text(text.replace(old, new))
    result = call("retry", prompt, "--output", output, "--mock")
    assert (result.status, result.error) == (
        2,
        f"{prompt} changed since the last run on {output}: run it again first (what is answered is not paid again)",
    )
    assert {table: rows(output, f"FROM {table} ORDER BY ALL") for table in before} == before
    prompt.write_text(text)
    assert call("retry", prompt, "--output", output, "--mock").status == 0


def test_a_changed_model_is_run_first(tmp_path: Path) -> None:
    prompt, output, settings = write_prompt(tmp_path, HEADER), tmp_path / "out.duckdb", tmp_path / "sqlenrich.toml"
    settings.write_text('[models.default]\nendpoint = "base"\n')
    with Faulty() as endpoint:
        data = words(tmp_path, "prose")
        call("run", prompt, "--input", data, "--output", output, "--endpoint", endpoint.url)
        settings.write_text('[models.default]\nendpoint = "newer"\n')
        result = retry(prompt, output, endpoint)
        assert (result.status, len(endpoint.asked)) == (2, 1)
        assert "changed since the last run" in result.error
        settings.write_text('[models.default]\nendpoint = "base"\n[models.x]\nendpoint = "y"\n')
        assert retry(prompt, output, endpoint).status == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("maximum: 5", "maximum: 4"),
        ("key: [id]", "key: [id]\nrepairs: []"),
        ("key: [id]", "key: [id]\nmax_quarantine: 0.9"),
        ("key: [id]", "key: [id]\nretry: {max_attempts: 5, feedback: true, escalate: null}"),
        ("key: [id]", "key: [id]\ndescription: other\nversion: 7"),
    ],
)
def test_a_changed_check_is_no_change_of_what_is_asked(done: Path, old: str, new: str) -> None:
    """Stored answers are judged by the checks as they are now, before anything is asked."""
    prompt, output = done / "intent.prompt", done / "out.duckdb"
    prompt.write_text(prompt.read_text().replace(old, new))
    refused = rows(output, "SELECT count(DISTINCT request_hash) FROM intent_checked WHERE _error IS NOT NULL")[0][0]
    judged = rows(output, "SELECT count(*) FROM intent WHERE urgency > 4")[0][0] if "maximum" in new else 0
    result = call("retry", prompt, "--output", output, "--mock", "--json", "--max-attempts", 2)
    assert result.report["calls"] == refused + judged, result.err


def test_settings_of_the_last_run_need_not_be_given_again(tmp_path: Path) -> None:
    prompt = write_prompt(tmp_path, "key: []\n")
    data = write_csv(tmp_path / "in.csv", [(i, "prose" if i < 3 else "good") for i in range(6)], ("id", "Message Text"))
    output = tmp_path / "out.duckdb"
    with Faulty() as endpoint:
        more = ("--key", "id", "--column", "body=Message Text", "--where", "id <> '5'", "--responses", "shared")
        assert first_run(prompt, data, output, endpoint, *more).report["rows_in"] == 5
        result = retry(prompt, output, endpoint)
        assert (result.status, result.report["enriched"], result.report["calls"]) == (0, 5, 1), result.err
    assert rows(output, "SELECT count(*) FROM shared") == [(3,)]


def test_the_mock_model_and_a_real_one_are_not_mixed(done: Path) -> None:
    prompt, output = done / "intent.prompt", done / "out.duckdb"
    with Faulty() as endpoint:
        result = retry(prompt, output, endpoint)
        assert result.status == 2
        assert result.error.startswith("the last run asked the mock model (mock): give --mock")
        first_run(prompt, done / "in.csv", done / "real.duckdb", endpoint)
        endpoint.forget()
        mixed = call("retry", prompt, "--output", done / "real.duckdb", "--mock")
        assert mixed.error == "the last run asked mock: --mock would mix invented answers with its own"
        assert endpoint.asked == []


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ("DELETE FROM _sqlenrich_runs", "holds no run of intent: run it first"),
        ("DROP TABLE _sqlenrich_runs", "holds no run of intent: run it first"),
        ("UPDATE _sqlenrich_runs SET snapshot = NULL", "does not tell what the last run of intent asked: run it again"),
        ("DROP TABLE intent_prompts", "of the last run is gone: run it again first"),
        (None, "out.duckdb holds no run of intent: run it first"),
    ],
)
def test_without_a_run_to_go_on_from(done: Path, spoil: str | None, message: str) -> None:
    output = done / "out.duckdb"
    if spoil is None:
        output.unlink()
    else:
        with duckdb.connect(str(output)) as db:
            db.execute(spoil)
    result = call("retry", done / "intent.prompt", "--output", output, "--mock")
    assert result.status == 2
    assert message in result.error
    assert output.exists() == (spoil is not None)


def test_no_model_is_never_a_silent_mock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    prompt, output = write_prompt(tmp_path, HEADER), tmp_path / "out.duckdb"
    with Faulty() as endpoint:
        first_run(prompt, words(tmp_path, "prose"), output, endpoint)
    result = call("retry", prompt, "--output", output)
    assert result.status == 2
    assert "no model to ask" in result.error


# How it ends ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_file_outputs(tmp_path: Path, kind: str) -> None:
    prompt, output = write_prompt(tmp_path, HEADER), tmp_path / f"out.{kind}"
    refused = tmp_path / f"out_quarantine.{kind}"
    with Faulty() as endpoint:
        first_run(prompt, words(tmp_path, "good", "prose", "enum"), output, endpoint)
        assert _count(refused) == 2
        assert retry(prompt, output, endpoint, "--reason", "BAD_JSON").status == 0
    assert (_count(output), _count(refused)) == (2, 1)
    if kind == "csv":
        with refused.open(newline="", encoding="utf-8") as file:
            assert [(row["_error"], row["_attempts"]) for row in csv.DictReader(file)] == [("NOT_IN_ENUM", "1")]


def _count(path: Path) -> int:
    with duckdb.connect() as db:
        return int(db.execute(f"SELECT count(*) FROM '{path}'").fetchall()[0][0])


def test_the_function_gives_the_report_and_the_ledger_its_line(done: Path) -> None:
    report = se.retry(se.load(done / "intent.prompt"), output=done / "out.duckdb", mock=True, reasons=["BAD_JSON"])
    assert (report.exit_status, report.quarantine, report.enriched) == (0, {}, 30)
    ledger = rows(done / "out.duckdb", "SELECT status, report::JSON, snapshot FROM _sqlenrich_runs ORDER BY started_at")
    assert [row[0] for row in ledger] == ["done", "done"]
    facts = json.loads(ledger[1][1])
    assert facts.pop("stored")["answers"] == report.calls
    assert facts == report.to_dict()
    assert ledger[0][2] == ledger[1][2]
    with pytest.raises(se.ConfigError, match="max_attempts is at least 1"):
        se.retry(se.load(done / "intent.prompt"), output=done / "out.duckdb", mock=True, max_attempts=0)


def test_all_refused_is_told_by_the_exit_status(tmp_path: Path) -> None:
    prompt, output = write_prompt(tmp_path, HEADER), tmp_path / "out.duckdb"
    with Faulty(lambda _: 99) as endpoint:
        first_run(prompt, words(tmp_path, "prose"), output, endpoint)
        result = retry(prompt, output, endpoint)
        assert (result.status, result.report["calls"]) == (3, 2)
        assert "all rows were refused" in result.err


def test_a_dead_endpoint_changes_nothing(tmp_path: Path) -> None:
    prompt, output = write_prompt(tmp_path, HEADER), tmp_path / "out.duckdb"
    with Faulty() as endpoint:
        first_run(prompt, words(tmp_path, "good", "prose"), output, endpoint)
        url = endpoint.url
    tables = ("intent", "intent_quarantine", "intent_responses", "intent_prompts")
    before = {table: rows(output, f"FROM {table} ORDER BY ALL") for table in tables}
    result = call("retry", prompt, "--output", output, "--endpoint", url)
    assert result.status == 1
    assert "start the server there or correct the url" in result.error
    assert {table: rows(output, f"FROM {table} ORDER BY ALL") for table in tables} == before
    assert rows(output, "SELECT status FROM _sqlenrich_runs ORDER BY started_at") == [("done",), ("failed",)]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_what_was_answered_before_an_end_is_not_asked_again(tmp_path: Path, number: signal.Signals) -> None:
    prompt, output, count = write_prompt(tmp_path, HEADER), tmp_path / "out.duckdb", 400
    data = write_csv(tmp_path / "in.csv", [(i, f"prose {i}") for i in range(count)])
    with Faulty(latency_s=0.05) as endpoint:
        assert first_run(prompt, data, output, endpoint, "--concurrency", 64).report["enriched"] == 0
        endpoint.forget()
        options = ("--output", output, "--endpoint", endpoint.url, "--json", "--concurrency", 8)
        process = start("retry", prompt, *options)
        while len(endpoint.asked) < 150 and process.poll() is None:
            pass
        process.send_signal(number)
        stopped = wait(process)
        assert stopped.status == (4 if number is signal.SIGINT else -signal.SIGKILL), stopped.err
        stored = rows(output, "SELECT count(*) FROM intent_responses WHERE attempt = 2")[0][0]
        assert 0 < stored < count
        if number is signal.SIGINT:
            assert stopped.report["pending"] == count - stored
            assert stopped.report["enriched"] == stored == len(endpoint.asked)
        endpoint.latency_s = 0.0
        asked = len(endpoint.asked)
        rest = retry(prompt, output, endpoint)
        assert (rest.status, rest.report["enriched"], rest.report["pending"]) == (0, count, 0)
        assert len(endpoint.asked) - asked == rest.report["calls"] == count - stored
    with opened(output) as db:
        assert db.execute("SELECT attempt, count(*) FROM intent_responses GROUP BY 1 ORDER BY 1").fetchall() == [
            (1, count),
            (2, count),
        ]


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("{feedback: 1}", "feedback must be true or false, not 1 @ retry.feedback"),
        ("{feedback: yes}", "feedback must be true or false, not 'yes' @ retry.feedback"),
        ("{escalate: 7}", "escalate must be an alias or a model's name, not 7 @ retry.escalate"),
        ("{escalate: ''}", "escalate must be an alias or a model's name, not '' @ retry.escalate"),
    ],
)
def test_wrong_settings(tmp_path: Path, written: str, problem: str) -> None:
    with pytest.raises(se.SpecError, match="line 3: " + problem.replace("[", "\\[")):
        se.load(write_prompt(tmp_path, f"key: [id]\nretry: {written}\n"))


CAREFUL_TOML = """[models.careful]
endpoint = "m2"
[endpoints.local]
url = "{url}"
[endpoints.other]
url = "http://127.0.0.1:1/v1"
[targets.here]
engine = "duckdb"
database = "their tables.duckdb"
endpoint = "local"
"""


@pytest.mark.parametrize(
    ("options", "model"),
    [
        (("--endpoint", "{url}", "--model", "m", "--output", "o, 1.duckdb", "--output", "it's.csv"), "m"),
        (("--endpoint", "local", "--model", "careful", "--output", "o.parquet", "--concurrency", "2"), "m2"),
        (("--target", "here", "--model", "m"), "m"),
    ],
)
def test_the_printed_retry_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], model: str
) -> None:
    monkeypatch.chdir(tmp_path)
    data = write_csv(tmp_path / "in.csv", [(n, f"text {n}") for n in range(4)])
    prompt = write_prompt(tmp_path, "key: [id]\n")
    with ScriptedEndpoint(content="no") as server:
        (tmp_path / "sqlenrich.toml").write_text(CAREFUL_TOML.format(url=server.url))
        done = call("run", prompt, "--input", data, *(option.format(url=server.url) for option in options))
        assert done.status == 3
        printed = shlex.split(done.err.splitlines()[-1].partition(", or ")[2] or done.err.splitlines()[-1])
        assert printed[:2] == ["sqlenrich", "retry"]
        server.content, asked = None, len(server.asked)
        assert call(*printed[1:]).status == 0
        assert {Asked.of(seen).model for seen in server.asked[asked:]} == {model}
        assert len(server.asked) == asked + 4


# Accepted rows --------------------------------------------------------------------------------------------------------


class Graded(ScriptedEndpoint):
    """Answers with an urgency by the model: that of the prompt, one more of "strong"; refused for a word."""

    def completion(self, body: dict[str, Any], fault: str) -> bytes:
        made = json.loads(super().completion(body, fault))
        prompt = body["messages"][-1]["content"]
        urgency = int(prompt.rpartition(" ")[2]) + (body["model"] == "strong")
        bad = body["model"] == "strong" and "odd" in prompt
        made["choices"][0]["message"]["content"] = "{}" if bad else json.dumps({"label": "a", "urgency": urgency})
        return json.dumps(made).encode()


def test_accepted_rows_of_a_condition_are_asked_once_of_each_model(tmp_path: Path) -> None:
    prompt, output = write_prompt(tmp_path, HEADER), tmp_path / "out.duckdb"
    texts = ["text 1", "text 1", "odd 1", "text 2", "text 3", "text 9"]
    urgencies = "SELECT id::INT, urgency, _model FROM intent ORDER BY 1"
    with Graded() as endpoint:
        data = words(tmp_path, *texts)
        first_run(prompt, data, output, endpoint)
        assert rows(output, urgencies) == [
            (0, 1, "mock"), (1, 1, "mock"), (2, 1, "mock"), (3, 2, "mock"), (4, 3, "mock")
        ]  # fmt: skip
        before = len(endpoint.asked)
        same = retry(prompt, output, endpoint, "--where", "urgency < 3", "--reason", "BAD_JSON")
        assert (same.report["calls"], len(endpoint.asked)) == (0, before)
        assert "mock answered all accepted rows of the condition, if any" in same.err
        strong = ("--model", "strong", "--where", "urgency < 3", "--reason", "BAD_JSON")
        for calls in (3, 0):
            found = retry(prompt, output, endpoint, *strong)
            assert (found.report["calls"], found.report["enriched"]) == (calls, 5), found.err
            assert rows(output, urgencies) == [
                (0, 2, "strong"), (1, 2, "strong"), (2, 1, "mock"), (3, 3, "strong"), (4, 3, "mock")
            ]  # fmt: skip
        kept = rows(output, "SELECT attempt, model, count(*) FROM intent_responses GROUP BY ALL ORDER BY ALL")
        assert kept == [(1, "mock", 5), (2, "strong", 3)]
        # Refused rows are asked beside them; what may be asked again is told by the model's own answers.
        other = retry(prompt, output, endpoint, "--model", "other", "--where", "_model = 'strong'")
        assert other.report["calls"] == 2 + 2  # the refused row twice
        # The run's own model has answered: no further attempt of another model opens a request.
        again = first_run(prompt, data, output, endpoint)
        assert (again.report["calls"], again.report["enriched"]) == (0, 5)
        assert call("audit", prompt, "--output", output, "--json").status == 0


def test_a_failed_call_for_an_accepted_row_leaves_its_answer(tmp_path: Path) -> None:
    prompt, output = write_prompt(tmp_path, HEADER), tmp_path / "out.duckdb"
    with ScriptedEndpoint(content=GOOD) as endpoint:
        first_run(prompt, words(tmp_path, "one", "two"), output, endpoint)
    policy = ("--model", "strong", "--where", "urgency = 3")
    with ScriptedEndpoint(content=GOOD, by_prompt={"two": "400_policy"}) as endpoint:
        for calls in (2, 0):
            found = retry(prompt, output, endpoint, *policy)
            assert (found.report["calls"], found.report["enriched"]) == (calls, 2), found.err
        assert rows(output, "SELECT _model FROM intent ORDER BY id") == [("strong",), ("mock",)]
        assert first_run(prompt, tmp_path / "in.csv", output, endpoint).report["calls"] == 0


def test_a_condition_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    prompt, output = write_prompt(tmp_path, HEADER), tmp_path / "out.duckdb"
    with ScriptedEndpoint(content=GOOD) as endpoint:
        first_run(prompt, words(tmp_path, "one"), output, endpoint)
        found = call("retry", prompt, "--output", output, "--endpoint", endpoint.url, "--where", "confidence < 1")
        assert found.status == 2
        assert 'retry: where reads "confidence", which the results do not have' in found.err
        assert len(endpoint.asked) == 1
