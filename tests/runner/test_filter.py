"""A filter by a column: rows that are unlike some examples get one answer, with a certified recall."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import sqlenrich as se
from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import assert_accounted, call, rows, write_csv, write_prompt

CASCADE = "cascade: {filter: likeness, otherwise: {relevant: false}, recall: 0.8, sample: 600}\n"
OUTPUT = "output: {relevant: boolean}\n"
STEPS = {
    "vectors": """---
key: [id]
keep: [body]
columns: {id: bigint}
output: {embedding: {dimensions: 6}}
---
{{ body }}
""",
    "intent": f"""---
source:
  query: >
    SELECT id, body,
      (SELECT max(list_cosine_similarity(v.embedding, e.embedding)) FROM {{{{ ref('vectors') }}}} AS e WHERE e.id < 0)
      AS likeness
    FROM {{{{ ref('vectors') }}}} AS v WHERE id >= 0
key: [id]
keep: [body, likeness]
columns: {{likeness: double}}
{OUTPUT}{CASCADE}---
Classify: {{{{ body }}}}
""",
}


def is_relevant(body: str) -> bool:
    return random.Random(body).random() < 0.1


def vector(text: str, length: int) -> list[float]:
    """A vector near the first axis for an example and for most relevant texts, elsewhere for the others."""
    drawn = random.Random(text)
    near = text.startswith("example") or (is_relevant(text) and drawn.random() < 0.97)
    return [5.0 if near and place == 0 else drawn.gauss(0, 1) for place in range(length)]


def answer(prompt: str) -> str:
    return json.dumps({"relevant": is_relevant(prompt.removeprefix("Classify: "))})


@pytest.fixture
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint(content=answer, vector=vector) as started:
        yield started


def test_rows_unlike_the_examples_get_the_answer_without_a_call(tmp_path: Path, endpoint: ScriptedEndpoint) -> None:
    for name, text in STEPS.items():
        (tmp_path / f"{name}.prompt").write_text(text)
    output = tmp_path / "out.duckdb"
    examples = [(-n, f"example {n}") for n in (1, 2, 3)]
    source = write_csv(tmp_path / "in.csv", [*examples, *((n, f"text {n}") for n in range(5000))])
    files = [tmp_path / f"{name}.prompt" for name in STEPS]
    model = se.Endpoint(endpoint.url, model="mock")
    steps = se.run(files, input=source, output=output, model=model)
    assert steps.exit_status == 0
    report = steps["intent"]
    assert report.cascade is not None
    assert (report.rows_in, report.enriched, report.pending) == (5000, 5000, 0)
    facts = report.cascade
    assert (facts["first"], facts["column"], facts["certified"]) == ("filter", "likeness", True)
    assert f"filter decides likeness up to {facts['threshold']:g}: recall " in report.to_text()
    filtered = rows(output, "SELECT body, relevant, likeness FROM intent WHERE _model = 'filter'")
    assert len(filtered) == 5000 - report.calls > 3000
    assert not any(value for _, value, _ in filtered)
    assert max(likeness for *_, likeness in filtered) <= facts["threshold"]
    assert sum(is_relevant(body) for body, *_ in filtered) <= 0.2 * sum(is_relevant(f"text {n}") for n in range(5000))
    again = se.run(files, input=source, output=output, model=model)
    assert [one.calls for one in again.reports.values()] == [0, 0]
    assert se.audit(tmp_path / "intent.prompt", output=output).holds
    rendered = call("render", tmp_path / "intent.prompt", "--engine", "duckdb", "--step", "scores")
    assert rendered.status == 0, rendered.err
    refused = call("render", tmp_path / "intent.prompt", "--engine", "snowflake")
    assert "write the threshold that its report names as a condition of where" in refused.error


def test_a_given_threshold_decides_and_a_row_without_a_number_is_asked(
    tmp_path: Path, endpoint: ScriptedEndpoint
) -> None:
    """Two rows have the text "same": the higher number decides."""
    numbers = {"low": "0.1", "edge": "0.3", "high": "0.31", "none": "", "nan": "nan", "huge": "-inf"}
    data = [(name, name, number) for name, number in numbers.items()]
    data += [("same 1", "same", "0.1"), ("same 2", "same", "0.9"), ("half 1", "half", "0.1"), ("half 2", "half", "")]
    source = write_csv(tmp_path / "in.csv", data, ("id", "body", "likeness"))
    header = "key: [id]\nmodel: mock\nkeep: [likeness]\ncolumns: {likeness: double}\n"
    cascade = "cascade: {filter: likeness, otherwise: {relevant: false}, threshold: 0.3}\n"
    prompt = write_prompt(tmp_path, header + cascade, output=OUTPUT)
    output = tmp_path / "out.duckdb"
    found = call("run", prompt, "--input", source, "--output", output, "--endpoint", endpoint.url, "--json")
    assert found.status == 0, found.err
    assert_accounted(found.report, output)
    models = dict(rows(output, "SELECT id, _model FROM intent"))
    assert sorted(name for name, model in models.items() if model == "filter") == ["edge", "low"]
    assert found.report["calls"] == 6


@pytest.mark.parametrize(
    ("header", "error"),
    [
        ("cascade: {filter: likenes, otherwise: {relevant: false}, recall: 0.9}\n",
         "filter must be a column of key or keep, not 'likenes' (likeness?)"),
        ("cascade: {filter: body, otherwise: {relevant: false}, recall: 0.9}\ncolumns: {body: string}\n",
         'filter must be a number, and the column "body" is none'),
        ("cascade: {filter: likeness, recall: 0.9}\n", "filter needs otherwise: {FIELD: VALUE, ...}"),
        ("cascade: {filter: likeness, otherwise: {relevan: false}, recall: 0.9}\n",
         "otherwise must be fields of the output and their values, not {'relevan': False}"),
        ("cascade: {filter: likeness, otherwise: {relevant: false}, recall: 0.9, score: relevant}\n",
         "leave out score: the filter is the first model, and the header's the second"),
        ("cascade: {filter: likeness, otherwise: {relevant: false}}\n", "cascade needs a recall, such as 0.95"),
        ("cascade: {filter: likeness, otherwise: {relevant: maybe}, recall: 0.9}\n",
         'the filter decides relevant alone, and its answer {"relevant":"maybe"} is refused: '),
        ("cascade: {filter: likeness, otherwise: {relevant: false}, recall: 0.9}\n",
         "filter: the column likeness is text; write columns: {likeness: double}"),
    ],
)  # fmt: skip
def test_what_can_not_be_is_told(tmp_path: Path, endpoint: ScriptedEndpoint, header: str, error: str) -> None:
    prompt = write_prompt(tmp_path, f"key: [id]\nmodel: mock\nkeep: [body, likeness]\n{header}", output=OUTPUT)
    source = write_csv(tmp_path / "in.csv", [(1, "a", 0.5)], ("id", "body", "likeness"))
    found = call("run", prompt, "--input", source, "--output", tmp_path / "o.duckdb", "--endpoint", endpoint.url)
    assert found.status == 2
    assert error in found.err
    assert not endpoint.asked
