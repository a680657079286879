"""``sqlenrich compare``: two sides over the same rows, their agreement, their accuracy, and which requests are sent."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.ask.observer import NullObserver, PlanLine, Stopper
from sqlenrich.core.text_table import cut, flat, from_difference, width_of
from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, JSON, STRING, TIMESTAMP, Array, Coerced, Type
from sqlenrich.quality.comparison.comparison import printed
from sqlenrich.quality.comparison.metrics import label_value, values_equal
from sqlenrich.quality.comparison.side import cost_of
from sqlenrich.quality.statistics import sign_test, wilson_interval
from sqlenrich.spec.prices import Price, Prices
from sqlenrich.spec.settings import Config
from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import OUTPUT, call, rows, start, wait, write_csv, write_prompt

BAD = "no"


def answer(label: str, urgency: int = 1) -> str:
    return json.dumps({"label": label, "urgency": urgency})


# body -> the label's column, the answer of A, the answer of B
CASES: dict[str | None, tuple[str | None, str, str]] = {
    "t1": ("a", answer("a"), answer("a")),
    "t2": ("b", answer("b", 2), answer("b", 3)),
    "t3": ("c", answer("c"), answer("a")),
    "t4": ("a", answer("b"), answer("a")),
    "t5": (None, answer("a"), answer("b")),
    "t6": ("b", BAD, answer("b")),
    "t7": ("c", answer("a"), answer("b")),
    "t8": ("a", answer("a", 9), BAD),
    None: ("a", BAD, BAD),
}
ANSWERS = {
    f"{word}: {body}": text for body, (_, *texts) in CASES.items() for word, text in zip("AB", texts, strict=True)
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    lines = [(f"k{i}", body, case[0]) for i, (body, case) in enumerate(CASES.items(), start=1)]
    return write_csv(tmp_path / "in.csv", lines, ("id", "body", "category"))


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Two files of the same name."""
    for name in ("v1", "v2"):
        (tmp_path / name).mkdir()
    return (
        write_prompt(tmp_path / "v1", template="A: {{ body }}"),
        write_prompt(tmp_path / "v2", template="B: {{ body }}"),
    )


@pytest.fixture
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint(content=ANSWERS.__getitem__) as served:
        yield served


@dataclass(frozen=True)
class Comparison:
    """The result of ``sqlenrich compare --json``, and the prompts that it sent."""

    facts: dict[str, Any]
    prompts: list[str]


def compare(endpoint: ScriptedEndpoint, *arguments: object) -> Comparison:
    before = len(endpoint.asked)
    result = call("compare", *arguments, "--endpoint", endpoint.url, "--json")
    assert result.status == 0, result.err
    return Comparison(json.loads(result.out), [seen.prompt for seen in endpoint.asked[before:]])


def test_agreement_accuracy_and_changes(
    tmp_path: Path, data: Path, files: tuple[Path, Path], endpoint: ScriptedEndpoint
) -> None:
    options = ("--input", data, "--output", tmp_path / "c.duckdb", "--model", "mock", "--truth", "label=category")
    facts = compare(endpoint, *files, *options).facts
    names = {json.loads(seen.body)["response_format"]["json_schema"]["name"] for seen in endpoint.asked}
    assert names == {"intent"}  # as in a run of the file
    assert facts["agreement"] == [
        {"field": "label", "rows": 6, "equal": 2},
        {"field": "urgency", "rows": 6, "equal": 5},
    ]
    assert facts["equal_rows"] == 1
    accuracy = facts["accuracy"][0]
    assert {name: accuracy[name] for name in ("rows", "both", "only_a", "only_b", "neither", "p")} == {
        "rows": 7, "both": 2, "only_a": 1, "only_b": 2, "neither": 2, "p": 1.0,
    }  # fmt: skip
    assert (accuracy["a"]["right"], accuracy["b"]["right"], accuracy["b"]["share"]) == (3, 4, 4 / 7)
    assert facts["a"]["refused"] == {"BAD_JSON": 1, "NO_INPUT": 1, "OUT_OF_RANGE": 1}
    assert facts["b"]["refused"] == {"BAD_JSON": 1, "NO_INPUT": 1}
    assert [facts[side]["accepted"] for side in "ab"] == [6, 7]
    assert [facts[side]["requests"] for side in "ab"] == [8, 8]
    assert (facts["a"]["tokens_in"], facts["a"]["tokens_out"], facts["a"]["cost"]) == (2.0, 7.125, None)
    assert [(change["row"], change["key"]["id"], change["verdict"]) for change in facts["changes"]] == [
        (3, "k3", "only A is right"),
        (4, "k4", "only B is right"),
        (6, "k6", "only B is right"),
        (2, "k2", None),
        (5, "k5", None),
        (7, "k7", None),
    ]
    by_row = {change["row"]: change for change in facts["changes"]}
    assert (by_row[2]["fields"], by_row[2]["input"], by_row[2]["labels"]) == (
        ["urgency"],
        {"body": "t2"},
        {"label": "b"},
    )
    assert (by_row[6]["a"]["error"], by_row[6]["b"]["values"]) == ("BAD_JSON", {"label": "b", "urgency": 1})
    assert by_row[5]["labels"] == {}
    assert (facts["rows"], facts["rows_in"], facts["same_requests"], facts["stopped"]) == (9, 9, 0, False)


GOLDEN = """\
A  v1/intent.prompt  mock at URL
B  v2/intent.prompt  mock at URL
9 of 9 rows of in.csv: all of them

field        equal  both accepted   share
label            2              6  33.3 %
urgency          5              6  83.3 %
all of them      1              6  16.7 %

field = label     rows      A is right      B is right  both  only A  only B  none     p
label = category     7  42.9 % (16–75)  57.1 % (25–84)     2       1       2     2  1.00
A refused row is wrong. In brackets: 95 % confidence intervals (Wilson).
p: two-sided exact sign test on the rows that only one side has right.

                         A    B
accepted                 6    7
refused                  3    2
  BAD_JSON               1    1
  NO_INPUT               1    1
  OUT_OF_RANGE           1    0
tokens in, a request   2.0  2.0
tokens out, a request  7.1  7.1
requests sent now        8    8
answered before          0    0

6 rows differ; the first 4:

id k3 (row 3)  only A is right
  body   t3
  label  c → a   label: c

id k4 (row 4)  only B is right
  body   t4
  label  b → a   label: a

id k6 (row 6)  only B is right
  body  t6
  A  BAD_JSON the text is not one JSON document
  B  label b, urgency 1
  label of label: b

id k2 (row 2)
  body     t2
  urgency  2 → 3
"""


def test_text(
    tmp_path: Path,
    data: Path,
    files: tuple[Path, Path],
    endpoint: ScriptedEndpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")  # parallel test runs set their own
    options = ("--endpoint", endpoint.url, "--model", "mock", "--truth", "label=category", "--show", 4)
    result = call("compare", "v1/intent.prompt", "v2/intent.prompt", "--input", "in.csv", *options)
    assert result.status == 0, result.err
    shown = re.sub(r"latency p50, ms .*\n", "", result.out.replace(endpoint.url, "URL"))
    assert shown == GOLDEN
    assert result.err.splitlines()[::2] == ["A: v1/intent.prompt", "B: v2/intent.prompt"]
    assert (tmp_path / ".sqlenrich" / "compare.duckdb").is_file()


def test_a_narrow_terminal(tmp_path: Path, data: Path, files: tuple[Path, Path]) -> None:
    truth = {"label": "category", "urgency": "category"}
    found = se.compare(*map(se.load, files), input=data, output=tmp_path / "c.duckdb", mock=True, truth=truth)
    lines = found.to_text(80).splitlines()
    first = lines.index("field = label")
    assert lines[first + 1].split()[:4] == ["rows", "A", "is", "right"]
    assert lines[first + 2] == "label = category"
    assert lines[first + 4] == "urgency = category"
    assert max(map(width_of, lines[first : first + 6])) <= 80


def test_a_rerun_asks_nothing_and_more_rows_only_the_new_ones(
    tmp_path: Path, files: tuple[Path, Path], endpoint: ScriptedEndpoint
) -> None:
    endpoint.content = answer("a")
    data = write_csv(tmp_path / "in.csv", [(i, f"text {i}") for i in range(200)])
    options = ("--input", data, "--output", tmp_path / "c.duckdb", "--model", "mock")
    first = compare(endpoint, *files, *options, "-n", 20)
    assert len(first.prompts) == 40
    assert {prompt[3:] for prompt in first.prompts if prompt[0] == "A"} == {p[3:] for p in first.prompts if p[0] == "B"}
    again = compare(endpoint, *files, *options, "-n", 20)
    assert (again.prompts, again.facts["agreement"]) == ([], first.facts["agreement"])
    assert [(again.facts[side]["calls"], again.facts[side]["stored"]) for side in "ab"] == [(0, 20), (0, 20)]
    more = compare(endpoint, *files, *options, "-n", 30)
    assert len(more.prompts) == 20
    other = compare(endpoint, *files, *options, "-n", 20, "--seed", 1)
    assert len(other.prompts) > 20
    head = compare(endpoint, *files, *options, "-n", 20, "--first")
    assert (head.facts["sample"], head.facts["rows_in"]) == ("the first", 200)
    assert set(head.prompts) <= {f"{side}: text {i}" for side in "AB" for i in range(20)}


def test_answers_go_to_and_come_from_ordinary_runs(
    tmp_path: Path, data: Path, files: tuple[Path, Path], endpoint: ScriptedEndpoint
) -> None:
    """The run's tables do not change, and a retry still finds its run."""
    output = tmp_path / "out.duckdb"
    asks = ("--endpoint", endpoint.url, "--model", "mock")
    run = ("run", files[0], "--input", data, "--output", output, *asks, "--json")
    assert call(*run).report["calls"] == 8
    tables = rows(output, "SELECT * FROM intent ORDER BY id")
    compared = compare(endpoint, *files, "--input", data, "--output", output, "--model", "mock", "-n", 4, "--first")
    assert [prompt[0] for prompt in compared.prompts] == ["B"] * 4
    assert rows(output, "SELECT * FROM intent ORDER BY id") == tables
    assert not rows(output, "SELECT 1 FROM duckdb_tables() WHERE table_name LIKE '%compare%'")
    retried = call("retry", files[0], "--output", output, *asks, "--json")
    assert (retried.status, retried.report["calls"]) == (0, 4), retried.err
    second = call(*(files[1] if part is files[0] else part for part in run), "--replace")
    assert second.report["cached"] == 4
    after = compare(endpoint, *files, "--input", data, "--output", output, "--model", "mock")
    assert after.prompts == []
    assert after.facts["a"]["retried"] == 0


def test_a_retry_with_feedback_is_noted(tmp_path: Path, data: Path, endpoint: ScriptedEndpoint) -> None:
    endpoint.content = lambda prompt: answer("a") if "refused" in prompt else ANSWERS[prompt]
    prompt = write_prompt(tmp_path, "key: [id]\nretry: {feedback: true}\n", "A: {{ body }}")
    output = tmp_path / "out.duckdb"
    asks = ("--endpoint", endpoint.url, "--model", "mock")
    call("run", prompt, "--input", data, "--output", output, *asks)
    call("retry", prompt, "--output", output, *asks)
    compared = compare(endpoint, prompt, "--input", data, "--output", output, "--model", "mock", "--model", "small")
    assert compared.facts["a"]["retried"] == 2
    assert any("A: asked otherwise by sqlenrich retry: 2 requests" in note for note in compared.facts["notes"])


def test_the_same_request_is_asked_once_for_both_sides(tmp_path: Path, data: Path, endpoint: ScriptedEndpoint) -> None:
    """Neither a check nor the file's name changes a request: only B accepts t8's urgency of 9."""
    a = write_prompt(tmp_path, template="A: {{ body }}")
    wider = OUTPUT.replace("maximum: 5", "maximum: 9")
    b = write_prompt(tmp_path, template="A: {{ body }}", output=wider, name="wider")
    compared = compare(endpoint, a, b, "--input", data, "--output", tmp_path / "c.duckdb", "--model", "mock")
    assert len(compared.prompts) == 8
    assert compared.facts["same_requests"] == 8
    assert [compared.facts[side]["accepted"] for side in "ab"] == [6, 7]
    assert [(change["row"], change["a"]["error"]) for change in compared.facts["changes"]] == [(8, "OUT_OF_RANGE")]


@pytest.mark.parametrize(
    ("models", "own", "asked"),
    [
        (("mock", "small"), None, ["mock", "small"]),
        (("small",), "mock", ["mock", "small"]),
    ],
)
def test_one_file_of_two_models(
    tmp_path: Path, data: Path, endpoint: ScriptedEndpoint, models: tuple[str, ...], own: str | None, asked: list[str]
) -> None:
    endpoint.content = answer("a")
    prompt = write_prompt(tmp_path, f"key: [id]\n{f'model: {own}' if own else ''}\n")
    options = [part for model in models for part in ("--model", model)]
    compared = compare(endpoint, prompt, "--input", data, "--output", tmp_path / "c.duckdb", *options)
    assert [json.loads(seen.body)["model"] for seen in endpoint.asked] == [name for name in asked for _ in range(8)]
    assert [compared.facts[side]["model"] for side in "ab"] == [f"{name} at {endpoint.url}" for name in asked]


def test_endpoints_of_two_sides(tmp_path: Path, data: Path, endpoint: ScriptedEndpoint) -> None:
    """Each side has its endpoint. If both serve one model name, the requests are equal, and a note says so."""
    endpoint.content = answer("a")
    prompt = se.load(write_prompt(tmp_path))
    with ScriptedEndpoint(content=answer("b")) as other:
        options = {"input": data, "endpoint": [endpoint.url, other.url]}
        found = se.compare(prompt, models=["mock", "small"], output=tmp_path / "c.duckdb", **options)  # type: ignore[arg-type]
        assert (len(endpoint.asked), len(other.asked)) == (8, 8)
        assert found.agreement[0].equal == 0
        found = se.compare(prompt, models="mock", output=tmp_path / "d.duckdb", **options)  # type: ignore[arg-type]
        assert len(other.asked) == 8
    assert (found.agreement[0].equal, found.same_requests) == (8, 8)
    assert "both endpoints serve a model of the same name" in found.notes[0]


def test_the_mock_is_asked_where_a_target_names_an_endpoint(
    tmp_path: Path, data: Path, files: tuple[Path, Path]
) -> None:
    output = tmp_path / "o.duckdb"
    target = f'[targets.local]\nengine = "duckdb"\ndatabase = "{output}"\nendpoint = "http://127.0.0.1:9/v1"\n'
    (tmp_path / "sqlenrich.toml").write_text(target, encoding="utf-8")
    for result in (
        call("compare", *files, "--input", data, "--mock", "--target", "local", "--json"),
        call(
            "evaluate", files[0], "--truth", data, "--field", "label=category", "--mock", "--target", "local", "--json"
        ),
    ):
        assert result.status == 0, result.error
        assert json.loads(result.out)["output"] == str(output)


def test_mock_rows_keys_and_filters(tmp_path: Path) -> None:
    """Rows are counted once with repeated and NULL keys, without a key, and with a column _row; both filters apply."""
    data = write_csv(
        tmp_path / "in.csv", [("k", f"t{i}", i) for i in range(6)] + [(None, "t6", 6)], ("id", "body", "n")
    )
    columns = "columns: {n: bigint}\n"
    a = se.load(write_prompt(tmp_path, f"{columns}key: [id]\nwhere: n > 0\n", "A {{ body }} {{ n }}", name="a"))
    b = se.load(write_prompt(tmp_path, f"{columns}where: n < 6 AND n <> 3\n", "B {{ body }} {{ n }}", name="b"))
    found = se.compare(a, b, input=data, output=tmp_path / "c.duckdb", mock=True)
    assert (found.rows, found.rows_in, found.a.accepted, found.b.accepted) == (4, 4, 4, 4)
    assert {change.row for change in found.changes} <= {2, 3, 5, 6}
    assert all(change.key == {"id": "k"} for change in found.changes)
    data = write_csv(tmp_path / "own.csv", [("x", "t1", "1"), ("x", "t2", "2")], ("_row", "body", "n"))
    found = se.compare(a, a, input=data, output=tmp_path / "c.duckdb", mock=True, key=["_row"])
    assert (found.rows, found.same_requests, found.changes) == (2, 2, ())
    assert "no row differs" in found.to_text()


def test_a_table_of_a_database(tmp_path: Path, files: tuple[Path, Path]) -> None:
    """The input may be the output database, and its types are kept."""
    output = tmp_path / "out.duckdb"
    with duckdb.connect(str(output)) as db:
        db.execute(
            "CREATE SCHEMA raw; CREATE TABLE raw.t AS SELECT i::HUGEINT AS id, ['x', i::VARCHAR] AS tags, "
            "{'n': i} AS s, i % 2 = 0 AS even FROM range(5) AS t(i)"
        )
    typed = "columns: {tags: {array: string}, s: {struct: {n: bigint}}}\nkey: [id]\n"
    header = f"source: raw.t\n{typed}"
    output_schema = "output: {type: object, properties: {even: {type: boolean}}, required: [even]}\n"
    template = "{{ tags | join(',') }} {{ s.n }}"
    a = se.load(write_prompt(tmp_path, header, template, output=output_schema))
    found = se.compare(a, a, input=output, output=output, mock=True, truth={"even": "even"})
    assert (found.rows, found.accuracy[0].rows, found.a.accepted) == (5, 5, 5)
    assert rows(output, "SELECT count(*) FROM raw.t") == [(5,)]
    b = se.load(write_prompt(tmp_path, f"source: raw.other\n{typed}", template, output=output_schema, name="b"))
    with pytest.raises(se.ConfigError, match="read different sources"):
        se.compare(a, b, input=output, output=output, mock=True)


class Declines(NullObserver):
    """An observer that declines every plan."""

    def __init__(self) -> None:
        self.lines: list[PlanLine] = []

    def plan(self, line: PlanLine) -> bool:
        self.lines.append(line)
        return False


def test_a_no_and_a_stop_end_both_sides(
    tmp_path: Path, data: Path, files: tuple[Path, Path], endpoint: ScriptedEndpoint
) -> None:
    a, b = map(se.load, files)
    options: dict[str, Any] = {
        "input": data,
        "output": tmp_path / "c.duckdb",
        "endpoint": endpoint.url,
        "models": "mock",
        "truth": {"label": "category"},
    }
    observer = Declines()
    found = se.compare(a, b, observer=observer, **options)
    assert (len(observer.lines), endpoint.asked, found.exit_status) == (1, [], 4)
    assert (found.a.refused, found.accuracy[0].rows) == ({"NOT_ASKED": 8, "NO_INPUT": 1}, 0)
    text = found.to_text()
    assert "A: not asked yet, and counted nowhere: 8 rows" in text
    assert "no row is accepted on both sides: nothing to compare yet" in text
    assert "no row differs" not in text
    assert [line.split() for line in text.splitlines() if line.startswith(("refused", "not asked", "  NO"))] == [
        ["refused", "1", "1"],
        ["NO_INPUT", "1", "1"],
        ["not", "asked", "yet", "8", "8"],
    ]
    stopper = Stopper()

    class StopsAfterA(NullObserver):
        def note(self, line: str) -> None:
            if line.startswith("B: "):
                stopper.stop()

    found = se.compare(a, b, observer=StopsAfterA(), stopper=stopper, **options)
    assert (len(endpoint.asked), found.exit_status, found.a.calls, found.b.calls) == (8, 4, 8, 0)
    assert (found.agreement[0].rows, found.changes) == (0, ())
    found = se.compare(a, b, **options)
    assert (len(endpoint.asked), found.exit_status, found.agreement[0].equal) == (16, 0, 2)


def test_ctrl_c_ends_it_and_the_same_command_goes_on(
    tmp_path: Path, files: tuple[Path, Path], endpoint: ScriptedEndpoint
) -> None:
    endpoint.content, endpoint.latency_s = answer("a"), 0.05
    data = write_csv(tmp_path / "in.csv", [(i, f"text {i}") for i in range(30)])
    options = ("--input", data, "--output", tmp_path / "c.duckdb", "--model", "mock", "--concurrency", 2)
    process = start("compare", *files, *options, "--endpoint", endpoint.url)
    while len(endpoint.asked) < 4 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    ended = wait(process)
    assert ended.status == 4, ended.err
    assert "A: not asked yet, and counted nowhere" in ended.out
    assert "B: not asked yet, and counted nowhere: 30 rows" in ended.out
    first = {seen.prompt for seen in endpoint.asked}
    assert len(first) < 30
    compared = compare(endpoint, *files, *options)
    assert not first & set(compared.prompts)
    assert len(first) + len(compared.prompts) == 60
    assert compared.facts["agreement"][0]["rows"] == 30


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "compare with what? Give two prompt files, or --model twice"),
        (("B", "--truth", "lable=category"), 'no output field "lable" (label?); it has: label, urgency'),
        (("B", "--fields", "labels"), 'no output field "labels" (label?)'),
        (("B", "--truth", "label=categry"), 'no column "categry" (category?) in'),
        (("B", "--key", "idd"), 'no column "idd" (id?) in'),
        (("B", "--model", "x"), "side A: --mock asks nobody"),
        (("B", "--truth", "label"), '"label": write FIELD=COLUMN, e.g. intent=category'),
        (("B", "--prices", "nope.toml"), "nope.toml: No such file"),
        (("--model", "x", "--model", "y", "--model", "z"), "at most two models"),
        (("B", "--where", "nothing = 1"), "nothing"),
    ],
)
def test_errors_come_before_anything_is_asked(
    tmp_path: Path, data: Path, files: tuple[Path, Path], arguments: tuple[str, ...], message: str
) -> None:
    given = [files[1] if part == "B" else part for part in arguments]
    result = call("compare", files[0], *given, "--input", data, "--output", tmp_path / "c.duckdb", "--mock")
    assert result.status in (1, 2)
    assert message in result.error
    assert not (tmp_path / "c.duckdb").exists()


def test_a_wrong_side_b_costs_nothing(
    tmp_path: Path, data: Path, files: tuple[Path, Path], endpoint: ScriptedEndpoint
) -> None:
    (tmp_path / "sqlenrich.toml").write_text('[models.small]\nsnowflake = "x"\n', encoding="utf-8")
    options = ("--endpoint", endpoint.url, "--model", "mock", "--model", "small")
    result = call("compare", files[0], "--input", data, "--output", tmp_path / "c.duckdb", *options)
    assert (result.status, endpoint.asked) == (2, [])
    assert 'the model "small" has no name for an endpoint' in result.error
    assert call("compare", *files, files[0], "--input", data, "--mock").status == 2
    assert "--input PATH" in call("compare", *files, "--mock").error


@pytest.mark.parametrize(("field", "notes"), [("label", True), ("urgency", False)])
def test_fields_and_labels_that_no_answer_equals(
    tmp_path: Path, files: tuple[Path, Path], endpoint: ScriptedEndpoint, field: str, notes: bool
) -> None:
    """A note names labels outside the enum, which are wrong in the file. 3.0 equals the integer 3."""
    endpoint.content = answer("a", 3)
    data = write_csv(
        tmp_path / "in.csv", [(1, "x", "A ", "3.0"), (2, "y", "a", "3")], ("id", "body", "label", "urgency")
    )
    options = ("--output", tmp_path / "c.duckdb", "--model", "mock", "--fields", field, "--truth", f"{field}={field}")
    facts = compare(endpoint, *files, "--input", data, *options).facts
    assert [one["field"] for one in facts["agreement"]] == [field]
    assert facts["accuracy"][0]["both"] == (1 if notes else 2)
    assert bool(facts["notes"]) == notes
    note = "label has labels that are no value of label (rows: 1 of A, 1 of B)"
    assert not notes or facts["notes"][0].startswith(note)


def test_fields_of_one_side_are_noted(tmp_path: Path, data: Path, files: tuple[Path, Path]) -> None:
    wide = OUTPUT.replace("  required", "    extra: {type: array, items: {type: string}}\n  required")
    b = write_prompt(tmp_path, output=wide, name="wide")
    found = se.compare(*map(se.load, (files[0], b)), input=data, output=tmp_path / "c.duckdb", mock=True)
    assert [one.field for one in found.agreement] == ["label", "urgency"]
    assert found.notes == ("only B gives: extra",)


def test_the_default_database_lies_beside_the_settings(
    tmp_path: Path, data: Path, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sqlenrich.toml").write_text("", encoding="utf-8")
    monkeypatch.chdir(tmp_path / "v1")
    found = se.compare(*map(se.load, files), input=data, mock=True)
    assert Path(found.output) == tmp_path / ".sqlenrich" / "compare.duckdb"
    assert Path(found.output).is_file()


def test_all_template_samples(tmp_path: Path) -> None:
    """Labels of every kind are read: texts, numbers, booleans, arrays and structs."""
    from sqlenrich.spec.loader import templates

    for name, path in templates().items():
        sample = path.with_name("sample.csv")
        header = sample.read_text(encoding="utf-8").splitlines()[0].split(",")
        enrichment = se.load(name)
        truth = {field: f"expected_{field}" for field in enrichment.output_columns if f"expected_{field}" in header}
        output = tmp_path / f"{name}.duckdb"
        found = se.compare(enrichment, enrichment, input=sample, output=output, mock=True, truth=truth)
        assert (len(found.accuracy), found.notes, found.changes) == (len(truth), (), ())
        assert truth
        assert all(one.rows > 0 and one.only_a == one.only_b == 0 for one in found.accuracy)


# Parts ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        ("a", "a", True),
        ("a", "A", False),
        ("a", "a ", False),
        (3, 3.0, True),
        (0.1, Decimal("0.1"), True),
        (0.1, Decimal("0.10000000000000001"), False),
        (2**53 + 1, float(2**53), False),
        (True, 1, False),
        (True, True, True),
        (False, None, False),
        (None, None, True),
        ("1", 1, False),
        ([1, 2], [1, 2.0], True),
        ([1, 2], [2, 1], False),
        ([1], [1, None], False),
        ({"a": 1, "b": None}, {"a": 1}, True),
        ({"a": [True]}, {"a": [1]}, False),
    ],
)
def test_values_equal(a: object, b: object, equal: bool) -> None:
    assert values_equal(a, b) is equal
    assert values_equal(b, a) is equal


@pytest.mark.parametrize(
    ("label", "kind", "value"),
    [
        (" x ", STRING, " x "),
        ("3.0", BIGINT, Decimal("3.0")),
        ("1e2", DOUBLE, Decimal("100")),
        ("nan", DOUBLE, ValueError),
        ("high", BIGINT, ValueError),
        ("TRUE", BOOLEAN, True),
        ("1", BOOLEAN, ValueError),
        ("2024-02-29", DATE, "2024-02-29"),
        ("2023-02-29", DATE, ValueError),
        ("2024-01-01T10:00:00+02:00", TIMESTAMP, "2024-01-01T08:00:00"),
        ('[{"a": 1}]', Array(JSON), [{"a": 1}]),
        ("[1", Array(BIGINT), ValueError),
        ("5", Coerced(BIGINT), Decimal(5)),
    ],
)
def test_label_value(label: str, kind: Type, value: object) -> None:
    if value is ValueError:
        with pytest.raises(ValueError):  # noqa: PT011
            label_value(label, kind)
    else:
        assert label_value(label, kind) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        ("a b", "a b"),
        (True, "true"),
        (3.0, "3.0"),
        (Decimal("3.50"), "3.50"),
        ([1, None, {"a": Decimal("0.5")}], '[1, null, {"a": 0.5}]'),
    ],
)
def test_printed(value: object, text: str) -> None:
    assert printed(value) == text


@pytest.mark.parametrize(
    ("right", "count", "interval"),
    [(0, 10, (0.0, 0.2775)), (5, 10, (0.2366, 0.7634)), (10, 10, (0.7225, 1.0)), (78, 100, (0.6893, 0.8500))],
)
def test_wilson(right: int, count: int, interval: tuple[float, float]) -> None:
    assert wilson_interval(right, count) == pytest.approx(interval, abs=5e-5)


@pytest.mark.parametrize(
    ("a", "b", "p"), [(0, 0, 1.0), (1, 2, 1.0), (0, 5, 0.0625), (4, 10, 0.1796), (10, 4, 0.1796), (0, 5000, 0.0)]
)
def test_sign_test(a: int, b: int, p: float) -> None:
    assert sign_test(a, b) == pytest.approx(p, abs=5e-5)


def test_cost_follows_the_prices() -> None:
    price = Price(Decimal(1_000_000), Decimal(11_000_000), Decimal(100_000_000))
    priced = Config(prices=Prices(date(2026, 11, 1), models={"m": price}))
    assert [cost_of(priced, name, 3, 2, 1) for name in ("m", "other")] == [123, None]
    assert cost_of(priced, "m", None, None, 1) is None
    assert cost_of(Config(), "m", 1, 1, 1) is None


def test_cost_of_a_side(tmp_path: Path, data: Path, files: tuple[Path, Path], endpoint: ScriptedEndpoint) -> None:
    price = Price(Decimal(1_000), Decimal(1_000), Decimal(1_000))
    config = Config(prices=Prices(date(2026, 11, 1), "EUR", {"mock": price}))
    options: Mapping[str, Any] = {"input": data, "output": tmp_path / "c.duckdb", "endpoint": endpoint.url}
    found = se.compare(*map(se.load, files), models="mock", config=config, **options)
    assert found.a.cost == pytest.approx(9.125)  # 2 tokens in and 7.125 out
    assert "cost of 1,000 requests, EUR  9.1250  9.1250" in found.to_text()
    again = se.compare(*map(se.load, files), models="mock", prices=config.prices, **options)
    assert (again.a.cost, again.currency) == (found.a.cost, "EUR")


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("日本語", 6, "日本語"), ("日本語x", 6, "日本…"), ("a b c", 3, "a…")],
)
def test_cut(text: str, width: int, shown: str) -> None:
    assert cut(text, width) == shown
    assert width_of(shown) <= width


def test_texts_of_rows_are_one_line_without_control_characters() -> None:
    assert flat("a\n b\x1b[31m") == "a b·[31m"
    a, b = from_difference("x" * 100 + "left", "x" * 100 + "right", 30)
    assert (a, b) == ("…" + "x" * 12 + "left", "…" + "x" * 12 + "right")
