"""Distillation: stored answers become a classifier, whose certain rows a cascade decides without a call."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.spec.weights import read_weights
from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import Result, assert_accounted, call, rows, write_csv, write_prompt

OUTPUT = "output: {label(enum): [card, loan, cash]}\n"
HEADER = "key: [id]\nmodel: strong-1\nkeep: [body]\nparams: {temperature: 0, max_tokens: 64}\n"
CASCADE = "cascade: {distilled: label.weights.parquet, target: 0.9, sample: 300}\n"
WORDS = {
    "card": "card plastic visa chip contactless pin".split(),
    "loan": "loan mortgage interest rate repay debt".split(),
    "cash": "cash atm withdraw note coin machine".split(),
}
OTHERS = "please help me my the today why is not there again when".split()


def text(number: int) -> tuple[str, str]:
    """A text and its label; every fifth text has no word that tells it."""
    draw = random.Random(number)
    label = draw.choice([*WORDS])
    told = [] if number % 5 == 0 else draw.sample(WORDS[label], 2)
    words = draw.sample(OTHERS, 4) + told
    draw.shuffle(words)
    return f"{' '.join(words)} {number}", label


LABELS = dict(text(number) for number in range(6000))


def answer(prompt: str) -> str:
    return json.dumps({"label": LABELS[prompt.removeprefix("Classify: ")]})


@pytest.fixture
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint(content=answer) as started:
        yield started


def run(folder: Path, endpoint: ScriptedEndpoint, numbers: range, header: str = "", *more: object) -> Result:
    prompt = write_prompt(folder, HEADER + header, output=OUTPUT)
    data = write_csv(folder / "in.csv", [(n, text(n)[0]) for n in numbers])
    return call("run", prompt, "--input", data, "--output", folder / "out.duckdb",
                "--endpoint", endpoint.url, "--json", *more)  # fmt: skip


def distill(folder: Path, *more: object) -> Result:
    return call("distill", folder / "intent.prompt", "--output", folder / "out.duckdb", *more)


def test_certain_rows_are_decided_without_a_call(tmp_path: Path, endpoint: ScriptedEndpoint) -> None:
    first = run(tmp_path, endpoint, range(1500))
    assert first.status == 0, first.err
    assert first.report["calls"] == 1500
    told = distill(tmp_path, "--json")
    assert told.status == 0, told.err
    measures = json.loads(told.out)
    assert (measures["field"], measures["values"], measures["labels"], measures["held_out"]) == ("label", 3, 1500, 300)
    assert 0.8 < measures["right"] < 0.95
    assert 0.4 < measures["decided"] < 0.95
    asked = len(endpoint.asked)
    write_prompt(tmp_path, HEADER + CASCADE, output=OUTPUT)
    given = ("--input", tmp_path / "in.csv", "--output", tmp_path / "out.duckdb", "--endpoint", endpoint.url)
    planned = call("plan", tmp_path / "intent.prompt", *given)
    assert "no call  for what is certified of distilled:label: the calls are at most these" in planned.out
    found = run(tmp_path, endpoint, range(6000), CASCADE)
    report, calls = found.report, len(endpoint.asked) - asked
    assert found.status == 0, found.err
    assert_accounted(report, tmp_path / "out.duckdb")
    cascade = report["cascade"]
    assert report["enriched"] == 6000
    assert report["calls"] == calls == cascade["requests"] - 1500
    assert 300 < calls < 3000
    assert report["retries"] == 0
    assert cascade["certified"]
    assert cascade["first"] == "distilled:label"
    assert cascade["calls"] == {"first": 0, "second": calls}
    models = dict(rows(tmp_path / "out.duckdb", "SELECT _model, COUNT(*) FROM intent GROUP BY ALL"))
    assert models == {"distilled:label": 4500 - calls, "strong-1": 1500 + calls}
    decided = rows(tmp_path / "out.duckdb", "SELECT id, body, label FROM intent WHERE _model = 'distilled:label'")
    assert not [number for number, *_ in decided if int(number) < 1500]
    wrong = sum(LABELS[body] != label for _, body, label in decided)
    assert 0 < wrong <= 450
    again = run(tmp_path, endpoint, range(6000), CASCADE)
    assert (again.status, again.report["calls"], again.report["enriched"]) == (0, 0, 6000)
    assert call("audit", tmp_path / "intent.prompt", "--output", tmp_path / "out.duckdb").status == 0
    write_prompt(tmp_path, f"source: messages\n{HEADER}{CASCADE}", output=OUTPUT)
    rendered = call("render", tmp_path / "intent.prompt", "--engine", "duckdb", "--step", "scores")
    assert rendered.status == 0, rendered.err
    printed = rendered.out
    scores = rows(tmp_path / "out.duckdb", printed)
    assert sorted(scores) == sorted(rows(tmp_path / "out.duckdb", "FROM intent_scores"))
    refused = call("render", tmp_path / "intent.prompt", "--engine", "snowflake")
    assert "a script does not load the weights of a cascade" in refused.error


def test_a_filter_decides_one_value_and_loses_no_more_of_the_others_than_is_certified(
    tmp_path: Path, endpoint: ScriptedEndpoint
) -> None:
    """A tenth of the texts is of another value, and every fifth of them has no word that tells it."""
    draws = {body: zlib.crc32(body.encode()) for body, _ in map(text, range(6000))}
    told = {body: f"refund {body}" if draw % 10 == 0 and draw % 50 else body for body, draw in draws.items()}
    by_text = {told[body]: draw % 10 == 0 for body, draw in draws.items()}
    endpoint.content = lambda prompt: json.dumps({"relevant": by_text[prompt.removeprefix("Classify: ")]})
    output = "output: {relevant: boolean}\n"
    cascade = "cascade: {distilled: relevant.weights.parquet, otherwise: {relevant: false}, recall: 0.7, sample: 600}\n"

    def given(numbers: range, header: str = "") -> Result:
        prompt = write_prompt(tmp_path, HEADER + header, output=output)
        data = write_csv(tmp_path / "in.csv", [(n, told[text(n)[0]]) for n in numbers])
        return call("run", prompt, "--input", data, "--output", tmp_path / "out.duckdb",
                    "--endpoint", endpoint.url, "--json")  # fmt: skip

    given(range(1000))
    assert distill(tmp_path, "--field", "relevant").status == 0
    found = given(range(6000), cascade)
    report = found.report
    assert (found.status, report["enriched"], report["pending"]) == (0, 6000, 0), found.err
    facts = report["cascade"]
    assert (facts["otherwise"], facts["certified"], facts["target"]) == ({"relevant": False}, True, 0.7)
    assert 600 < report["calls"] < 3000
    assert "of another value are lost, recall of 0.7, delta 0.05" in found.err
    filtered = rows(tmp_path / "out.duckdb", "SELECT body, relevant FROM intent WHERE _model = 'distilled:relevant'")
    assert len(filtered) == 5000 - report["calls"]
    assert {value for _, value in filtered} == {False}
    lost = sum(by_text[body] for body, _ in filtered)
    assert 0 < lost <= 0.3 * sum(by_text.values())
    again = given(range(6000), cascade)
    assert (again.status, again.report["calls"]) == (0, 0)
    wrong = given(range(10), cascade.replace("false", "other"))
    assert "otherwise is no answer of relevant.weights.parquet, which has: " in wrong.error


def test_labels_of_chance_certify_nothing(tmp_path: Path, endpoint: ScriptedEndpoint) -> None:
    endpoint.content = lambda prompt: json.dumps({"label": [*WORDS][zlib.crc32(prompt.encode()) % 3]})
    run(tmp_path, endpoint, range(600))
    told = distill(tmp_path)
    assert "it decides no row: the held-out answers certify no lead" in told.out, told.err
    found = run(tmp_path, endpoint, range(1200), CASCADE)
    assert found.status == 0, found.err
    assert "no lead certifies an agreement of 0.9" in found.err
    assert found.report["cascade"]["certified"] is False
    assert found.report["calls"] == 600
    assert rows(tmp_path / "out.duckdb", "SELECT COUNT(*) FROM intent WHERE _model = 'distilled:label'") == [(0,)]


def test_a_given_lead_asks_no_sample(tmp_path: Path, endpoint: ScriptedEndpoint) -> None:
    run(tmp_path, endpoint, range(600))
    distill(tmp_path)
    report = run(tmp_path, endpoint, range(1200), "cascade: {distilled: label.weights.parquet, threshold: 0}\n").report
    assert (report["calls"], report["enriched"]) == (0, 1200)


@pytest.mark.parametrize(
    ("header", "error"),
    [
        ("cascade: {distilled: x.parquet, target: 0.9, ask: strong}\n",
         "leave out ask: the classifier is the first model, and the header's the second"),
        ("cascade: {distilled: weights.csv, target: 0.9}\n",
         "distilled must be a file that sqlenrich distill wrote, not 'weights.csv'"),
        ("cascade: {distilled: x.parquet, otherwise: {label: card}, target: 0.9}\n",
         "leave out target: with otherwise, recall takes its place"),
        ("cascade: {distilled: x.parquet, otherwise: {lable: card}, recall: 0.9}\n",
         "otherwise must be one field of the output and its value, not {'lable': 'card'}"),
        ("cascade: {distilled: x.parquet, recall: 0.9}\n", "recall needs otherwise: {FIELD: VALUE}"),
        ("cascade: {distilled: none.parquet, target: 0.9}\n", "none.parquet can't be read: "),
    ],
)  # fmt: skip
def test_what_can_not_be_is_told(tmp_path: Path, endpoint: ScriptedEndpoint, header: str, error: str) -> None:
    found = run(tmp_path, endpoint, range(10), header)
    assert found.status == 2
    assert error in found.err
    assert not endpoint.asked


def test_answers_that_the_output_refuses_are_told(tmp_path: Path, endpoint: ScriptedEndpoint) -> None:
    run(tmp_path, endpoint, range(600))
    distill(tmp_path)
    prompt = write_prompt(tmp_path, HEADER + CASCADE, output="output: {label(enum): [card, cash], why: string}\n")
    found = call("run", prompt, "--input", tmp_path / "in.csv", "--output", tmp_path / "new.duckdb",
                 "--endpoint", endpoint.url)  # fmt: skip
    assert "label.weights.parquet decides label alone, and its answer " in found.error


@pytest.mark.parametrize(
    ("output", "more", "error"),
    [
        (OUTPUT, [], "has 10 distinct texts with 3 values of label: an agreement of 0.95 takes 2 values and 296 texts"),
        ("output: {label(enum): [card, loan, cash], n?: integer}\n", ["--field", "n"], "n is no enum and no boolean"),
        ("output: {label(enum): [card, loan, cash], b?: boolean}\n", [], "Give --field, one of: label, b"),
    ],
)
def test_a_field_that_can_not_be_distilled_is_told(
    tmp_path: Path, endpoint: ScriptedEndpoint, output: str, more: list[Any], error: str
) -> None:
    run(tmp_path, endpoint, range(10))
    write_prompt(tmp_path, HEADER, output=output)
    assert error in distill(tmp_path, *more).error


def test_python_gives_the_measures_too(tmp_path: Path, endpoint: ScriptedEndpoint) -> None:
    run(tmp_path, endpoint, range(600))
    found = se.distill(tmp_path / "intent.prompt", output=tmp_path / "out.duckdb", weights=tmp_path / "w.parquet")
    assert found.labels == 600
    assert read_weights(tmp_path / "w.parquet").values == ("card", "cash", "loan")
    assert f"{found.right:.1%} of 120 answers" in found.to_text()
