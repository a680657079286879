"""``sqlenrich evaluate``: scores against labels, requirements, the lines that it keeps, and what it refuses."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.ask.observer import NullObserver, PlanLine
from sqlenrich.quality.evaluation.evaluation import REFUSED, RequirementResult
from sqlenrich.quality.evaluation.scores import confusion_matrix, value_scores
from sqlenrich.quality.statistics import rows_to_tell, wilson_interval
from sqlenrich.spec.quality import Requirement
from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import call, rows, write_csv, write_prompt

SCHEMA = """output:
  type: object
  properties:
    label: {type: string, enum: [a, b, c]}
    level: {type: integer, minimum: 1, maximum: 5}
    urgent: {type: boolean}
    tags: {type: array, items: {type: string}}
    note: {type: string}
  required: [label, level, urgent, tags]
"""


def answer(label: str, level: int, urgent: bool, *tags: str) -> str:
    return json.dumps({"label": label, "level": level, "urgent": urgent, "tags": tags})


HEADER = ("id", "body", "expected_label", "expected_level", "expected_urgent", "expected_tags")
# the row of the file of truth, and the answer to it
CASES: list[tuple[tuple[Any, ...], str]] = [
    ((1, "t1", "a", 1, "true", '["x", "y"]'), answer("a", 1, True, "y", "x")),
    ((2, "t2", "a", "3.0", "TRUE", '["x", "x"]'), answer("b", 5, False, "x", "z")),
    ((3, "t3", "b", 3, "false", "[]"), answer("b", 2, False)),
    ((4, "t4", "b", 4, "true", '["x"]'), "no JSON"),
    ((5, "t5", None, 4, None, None), answer("c", 4, True)),
    ((6, None, "c", 4, "true", '["x"]'), "never asked"),
    ((7, "t7", None, None, None, None), "never asked"),
]
ANSWERS = {f"Classify: {line[1]}": text for line, text in CASES}


@pytest.fixture
def prompt(tmp_path: Path) -> Path:
    return write_prompt(tmp_path, output=SCHEMA)


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "truth.csv", [line for line, _ in CASES], HEADER)


@pytest.fixture
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint(content=ANSWERS.__getitem__) as served:
        yield served


def evaluate(endpoint: ScriptedEndpoint, *arguments: object, status: int = 0) -> dict[str, Any]:
    result = call("evaluate", *arguments, "--endpoint", endpoint.url, "--model", "mock", "--json")
    assert result.status == status, result.err
    return dict(json.loads(result.out))


def by_field(facts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["field"]: one for one in facts["fields"]}


def test_scores(tmp_path: Path, prompt: Path, truth: Path, endpoint: ScriptedEndpoint) -> None:
    facts = evaluate(endpoint, prompt, "--truth", truth, "--output", tmp_path / "e.duckdb")
    assert sorted(seen.prompt for seen in endpoint.asked) == [f"Classify: t{i}" for i in (1, 2, 3, 4, 5)]
    fields = by_field(facts)
    assert {name: (one["label"], one["rows"], one["right"], one["refused"]) for name, one in fields.items()} == {
        "label": ("expected_label", 4, 2, 1),
        "level": ("expected_level", 5, 2, 1),
        "urgent": ("expected_urgent", 4, 2, 1),
        "tags": ("expected_tags", 4, 1, 1),  # the order of items counts for the share, not for the items
    }
    assert fields["label"]["share"] == 0.5
    assert fields["label"]["interval"] == list(wilson_interval(2, 4) or ())
    assert fields["level"]["mean_absolute_error"] == (0 + 2 + 1 + 0) / 4
    assert fields["level"]["measured"] == 4
    assert fields["tags"]["items"] == {"found": 3, "missed": 2, "invented": 1}
    values = {one["value"]: one for one in fields["label"]["values"]}
    assert {name: (one["labelled"], one["answered"], one["right"]) for name, one in values.items()} == {
        "a": (2, 1, 1),
        "b": (2, 2, 1),
    }
    assert (values["a"]["precision"], values["a"]["recall"], values["a"]["f1"]) == (1.0, 0.5, 2 / 3)
    assert fields["label"]["matrix"] == {"a": {"a": 1, "b": 1}, "b": {"b": 1, REFUSED: 1}}
    assert fields["tags"]["matrix"] is None
    assert facts["notes"] == ["counted nowhere, since they have no input to ask about: 1 row (NO_INPUT)"]
    assert (facts["rows"], facts["requirements"], facts["failed"]) == (5, [], False)


def test_text(tmp_path: Path, prompt: Path, truth: Path, endpoint: ScriptedEndpoint) -> None:
    options: dict[str, Any] = {"endpoint": endpoint.url, "model": "mock", "output": tmp_path / "e.duckdb"}
    found = se.evaluate(se.load(prompt), truth=truth, require=["label=0.9", "level=0.2"], **options)
    text = found.to_text(100)
    for line in (
        "label = expected_label       4  50.0 % (15–85)        1",
        "a             2         1      1      1.000   0.500  0.667",
        "label: label \\ answer  a  b  (refused)",
        "a                      1  1          ·",
        "level: mean absolute error 0.75 over 4 rows",
        "tags: 3 items found, 2 missed, 1 invented (60.0 % of the labels' items, 75.0 % of the answers')",
        "4 accepted, 2 refused (BAD_JSON 1, NO_INPUT 1); 5 requests sent now, 0 answered before",
        "FAILED  label: right at least 0.9: 0.500 (0.150 to 0.850)",
        "met     level: right at least 0.2: 0.400 (0.118 to 0.769); 5 rows do not suffice to tell, about 16 would",
    ):
        assert line in text.splitlines(), text
    assert max(map(len, found.to_text(60).splitlines())) <= 120


LABELS = ("id", "category")


def test_labels_are_joined_to_the_rows_by_the_key(tmp_path: Path, prompt: Path, endpoint: ScriptedEndpoint) -> None:
    data = write_csv(tmp_path / "in.csv", [(i, f"t{i}") for i in range(1, 6)])
    labels = write_csv(tmp_path / "labels.csv", [(1, "a"), (3, "b"), (1, "a"), (99, "c"), (5, None)], LABELS)
    given = ("--truth", labels, "--input", data, "--field", "label=category", "--output", tmp_path / "e.duckdb")
    facts = evaluate(endpoint, prompt, *given)
    assert sorted(seen.prompt for seen in endpoint.asked) == ["Classify: t1", "Classify: t3"]
    assert (facts["rows"], by_field(facts)["label"]["right"]) == (2, 2)
    assert "1 labelled key of no row that is taken from" in facts["notes"][0]
    assert facts["notes"][0].endswith(": 99; these labels are not scored")


def test_the_header_names_the_truth(tmp_path: Path, truth: Path, endpoint: ScriptedEndpoint) -> None:
    header = "key: [id]\nevaluate: {truth: truth.csv, require: {label: 0.4, urgent: {recall: {true: 0.9}}}}\n"
    prompt = write_prompt(tmp_path, header, output=SCHEMA)
    facts = evaluate(endpoint, prompt, "--output", tmp_path / "e.duckdb", status=3)
    assert [(one["field"], one["met"], one["certain"]) for one in facts["requirements"]] == [
        ("label", True, False),
        ("urgent", False, True),  # 1 of 3 rows
    ]
    given = ("--require", "urgent.recall.true=0.3", "--output", tmp_path / "e.duckdb")
    assert evaluate(endpoint, prompt, *given)["failed"] is False
    assert len(endpoint.asked) == 5  # the second evaluation asks nothing


def test_the_next_evaluation_tells_what_changed(
    tmp_path: Path, prompt: Path, truth: Path, endpoint: ScriptedEndpoint
) -> None:
    given = ("--truth", truth, "--output", tmp_path / "e.duckdb")
    first = evaluate(endpoint, prompt, *given)
    assert (first["then"], by_field(first)["label"]["change"]) == (None, None)
    again = evaluate(endpoint, prompt, *given)
    assert again["then"]["evaluation"] == first["evaluation"]
    assert by_field(again)["label"]["change"] == {"rows": 4, "only_then": 0, "only_now": 0, "p": 1.0}
    other = write_prompt(tmp_path, template="Sort: {{ body }}", output=SCHEMA)
    endpoint.content = lambda _: answer("b", 4, True)
    changed = evaluate(endpoint, other, *given)
    assert changed["then"]["evaluation"] == again["evaluation"]
    assert by_field(changed)["label"]["change"] == {"rows": 4, "only_then": 1, "only_now": 1, "p": 1.0}
    assert by_field(changed)["level"]["change"] == {"rows": 5, "only_then": 1, "only_now": 1, "p": 1.0}
    lines = rows(tmp_path / "e.duckdb", "SELECT row_key, label, answer, error, is_right FROM intent_evaluations "
                 "WHERE field = 'label' ORDER BY evaluation, row_key LIMIT 4")  # fmt: skip
    assert lines == [
        ('{"id": "1"}', '"a"', '"a"', None, True),
        ('{"id": "2"}', '"a"', '"b"', None, False),
        ('{"id": "3"}', '"b"', '"b"', None, True),
        ('{"id": "4"}', '"b"', None, "BAD_JSON", False),
    ]
    text = call("evaluate", other, *given, "--endpoint", endpoint.url, "--model", "mock").out
    assert "rows then  only then  only now" in text
    assert text.splitlines()[2].startswith(f"then: {changed['evaluation']}, mock at ")


def test_a_null_label(tmp_path: Path, endpoint: ScriptedEndpoint) -> None:
    """An empty cell is no label. null is the label of a field that is absent."""
    prompt = write_prompt(tmp_path, output=SCHEMA)
    endpoint.content = answer("a", 1, True)
    lines = [(1, "x", "null"), (2, "y", "text"), (3, "z", None)]
    truth = write_csv(tmp_path / "t.csv", lines, ("id", "body", "expected_note"))
    note = by_field(evaluate(endpoint, prompt, "--truth", truth, "--output", tmp_path / "e.duckdb"))["note"]
    assert (note["rows"], note["right"]) == (2, 1)


def test_a_table_in_memory_is_a_truth(tmp_path: Path, prompt: Path) -> None:
    truth = [{"id": 1, "body": "x", "expected_label": "a"}, {"id": 2, "body": "y", "expected_label": None}]
    found = se.evaluate(se.load(prompt), truth=truth, output=tmp_path / "e.duckdb", model=se.Mock())
    assert (found.rows, found.truth, found.fields[0].rows) == (1, "the given table", 1)
    data = [{"id": i, "body": f"t{i}"} for i in range(3)]
    labels = [{"id": 2, "expected_label": "a"}]
    found = se.evaluate(se.load(prompt), truth=labels, input=data, output=tmp_path / "e.duckdb", model=se.Mock())
    assert (found.rows, found.notes) == (1, ())


class Declines(NullObserver):
    def plan(self, _line: PlanLine) -> bool:
        return False


def test_a_stopped_evaluation_keeps_no_lines(tmp_path: Path, prompt: Path, truth: Path) -> None:
    options: dict[str, Any] = {"truth": truth, "output": tmp_path / "e.duckdb", "model": se.Mock()}
    found = se.evaluate(se.load(prompt), observer=Declines(), **options)
    assert (found.exit_status, found.rows) == (4, 0)
    assert "not asked yet, and counted nowhere: 5 rows" in found.to_text()
    assert not rows(tmp_path / "e.duckdb", "SELECT 1 FROM duckdb_tables() WHERE table_name LIKE '%evaluat%'")
    assert se.evaluate(se.load(prompt), **options).then is None


def test_all_template_samples(tmp_path: Path) -> None:
    from sqlenrich.spec.loader import templates

    for name, path in templates().items():
        found = se.evaluate(
            se.load(name), truth=path.with_name("sample.csv"), output=tmp_path / f"{name}.duckdb", mock=True
        )
        assert found.fields
        assert found.exit_status == 0
        assert found.to_text()


# run --evaluate ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("least", "status", "asked"),
    [pytest.param(0.4, 0, 8, id="met: the run goes on"), pytest.param(0.9, 3, 5, id="failed: nothing else is sent")],
)
def test_a_run_scores_first(
    tmp_path: Path, truth: Path, endpoint: ScriptedEndpoint, least: float, status: int, asked: int
) -> None:
    prompt = write_prompt(
        tmp_path, f"key: [id]\nevaluate: {{truth: truth.csv, require: {{label: {least}}}}}\n", output=SCHEMA
    )
    endpoint.content = lambda prompt: ANSWERS.get(prompt, answer("a", 1, True))
    data = write_csv(tmp_path / "in.csv", [(i, f"t{i}") for i in (1, 10, 11, 12)])
    output = tmp_path / "out.duckdb"
    asks = ("--endpoint", endpoint.url, "--model", "mock", "--where", "id <> 'z'")
    result = call("run", prompt, "--input", data, "--output", output, "--evaluate", *asks)
    assert (result.status, len(endpoint.asked)) == (status, asked), result.err
    assert f"label: right at least {least:g}: 0.500" in result.err
    assert ("nothing else was sent" in result.err) == bool(status)
    tables = [name for (name,) in rows(output, "SELECT table_name FROM duckdb_tables() ORDER BY 1")]
    assert ("intent" in tables) == (status == 0)
    assert "intent_evaluations" in tables


def test_a_run_that_can_not_score(tmp_path: Path, truth: Path) -> None:
    prompt = write_prompt(tmp_path, "key: [id]\n", output=SCHEMA)
    result = call("run", prompt, "--input", truth, "--output", tmp_path / "o.duckdb", "--evaluate", "--mock")
    assert result.status == 2
    message = "--evaluate needs the labels: write evaluate: {truth: labels.csv}"
    assert message in result.error


# Errors --------------------------------------------------------------------------------------------------------------


def test_an_encoding_is_that_of_files(tmp_path: Path) -> None:
    prompt = write_prompt(tmp_path, "key: [id]\n", output=SCHEMA)
    with pytest.raises(se.ConfigError, match="encoding is that of files: a table in memory has none"):
        se.evaluate(prompt, input=[{"id": 1, "body": "a"}], encoding="cp1252", mock=True)


@pytest.mark.parametrize(
    ("header", "arguments", "message"),
    [
        ("", (), "against what? Give --truth PATH, or write evaluate: {truth: labels.csv} in the header"),
        ("", ("--truth", "nope.csv"), "there is no truth file nope.csv; give --truth PATH, or correct truth"),
        ("evaluate: {truth: gone.csv}", (), "there is no truth file TMP/gone.csv"),
        ("", ("--truth", "T", "--field", "label=categry"), 'no column "categry" of labels for label'),
        ("", ("--truth", "T", "--field", "lable=body"), 'no output field "lable" (label?)'),
        ("", ("--truth", "T", "--require", "note=0.5"), "note is required, and no column has its labels: add exp"),
        (
            "",
            ("--truth", "T", "--require", "label.recall.d=0.5"),
            '"d", which is no value of label; there are: a, b, c',
        ),
        ("", ("--truth", "T", "--require", "urgent.recall.yes=0.5"), 'is required of "yes", which is no value of urg'),
        ("", ("--truth", "T", "--require", "label"), '--require "label": write FIELD=0.92'),
        ("", ("--truth", "T", "--require", "label.recal.a=0.5"), 'unknown measure "recal" (recall?)'),
        ("", ("--truth", "I"), "has no column of labels, such as expected_label; give --field FIELD=COLUMN"),
        ("", ("--truth", "L", "--field", "label=category"), 'no column "body" that the prompt reads: give the rows'),
        ("", ("--truth", "L", "--field", "label=category", "--input", "O"), "of no row that is taken from"),
        ("", ("--truth", "D", "--field", "label=category", "--input", "I"), "different labels of one key (id): 1"),
        ("", ("--truth", "W"), '1 label that no answer of label can equal: "A" (a?); the values are: a, b, c'),
        ("", ("--truth", "T", "--field", "level=expected_label"), 'no answer of level can equal: "a", "b", "c"'),
        ("", ("--truth", "N"), "has no labelled row: expected_label are empty in all that are taken"),
    ],
)
def test_errors_come_before_anything_is_asked(
    tmp_path: Path, truth: Path, header: str, arguments: tuple[str, ...], message: str
) -> None:
    files = {
        "T": truth,
        "I": write_csv(tmp_path / "in.csv", [(1, "t1"), (2, "t2")]),
        "O": write_csv(tmp_path / "other.csv", [(8, "t8")]),
        "L": write_csv(tmp_path / "labels.csv", [(1, "a")], LABELS),
        "D": write_csv(tmp_path / "twice.csv", [(1, "a"), (1, "b")], LABELS),
        "W": write_csv(tmp_path / "wrong.csv", [(1, "t1", "A"), (2, "t2", "a")], ("id", "body", "expected_label")),
        "N": write_csv(tmp_path / "none.csv", [(1, "t1", None)], ("id", "body", "expected_label")),
    }
    prompt = write_prompt(tmp_path, f"key: [id]\n{header}\n", output=SCHEMA)
    given = [files.get(one, one) for one in arguments]
    result = call("evaluate", prompt, *given, "--output", tmp_path / "e.duckdb", "--mock")
    assert result.status == 2, result.err
    assert message.replace("TMP", str(tmp_path)) in result.error
    assert not (tmp_path / "e.duckdb").exists()


def test_a_table_of_another_version_is_refused(tmp_path: Path, prompt: Path, truth: Path) -> None:
    import duckdb

    with duckdb.connect(str(tmp_path / "e.duckdb")) as db:
        db.execute("CREATE TABLE intent_evaluations (evaluation VARCHAR)")
    result = call("evaluate", prompt, "--truth", truth, "--output", tmp_path / "e.duckdb", "--mock")
    assert result.status == 2
    assert not rows(tmp_path / "e.duckdb", "SELECT 1 FROM duckdb_tables() WHERE table_name = 'intent_responses'")
    assert "intent_evaluations was made by another version of sqlenrich; give another --output" in result.error


# The numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_the_numbers_equal_those_of_scikit_learn(seed: int) -> None:
    from sklearn import metrics

    numbers = random.Random(seed)
    for _ in range(50):
        count = numbers.randint(2, 25)
        names = [f"v{i}" for i in range(count)]
        weights = [numbers.random() ** 2 for _ in names]
        labels = numbers.choices(names, weights, k=numbers.randint(1, 200))
        answers = [
            numbers.choice((label, numbers.choices(names, weights)[0], REFUSED if numbers.random() < 0.2 else label))
            for label in labels
        ]
        pairs = list(zip(labels, answers, strict=True))
        wanted = metrics.precision_recall_fscore_support(labels, answers, labels=names, zero_division=float("nan"))
        for one, precision, recall, f1, support in zip(value_scores(pairs, names), *wanted, strict=True):
            assert one.labelled == support
            for ours, theirs in ((one.precision, precision), (one.recall, recall), (one.f1, f1)):
                assert (ours is None) if theirs != theirs else ours == pytest.approx(theirs, abs=1e-12)
        shown = names[:20]
        ours_matrix = confusion_matrix(pairs, shown)
        matrix = metrics.confusion_matrix(labels, answers, labels=[*shown, REFUSED])
        assert [[ours_matrix.get(a, {}).get(b, 0) for b in (*shown, REFUSED)] for a in shown] == matrix.tolist()[
            : len(shown)
        ]
        assert sum(sum(line.values()) for line in ours_matrix.values()) == len(pairs)


def test_the_intervals_equal_those_of_scipy() -> None:
    from scipy import stats

    numbers = random.Random(7)
    for _ in range(1000):
        trials = numbers.choice((1, 5, 50, 1000, 100_000))
        right = numbers.randint(0, trials)
        wanted = stats.binomtest(right, trials).proportion_ci(confidence_level=0.95, method="wilson")
        assert wilson_interval(right, trials) == pytest.approx((wanted.low, wanted.high), abs=1e-12)


@pytest.mark.parametrize(
    ("right", "rows", "least", "met", "certain"),
    [
        (95, 100, 0.8, True, True),
        (95, 100, 0.92, True, False),
        (90, 100, 0.92, False, False),
        (70, 100, 0.92, False, True),
        (20, 20, 1.0, True, False),
        (99, 100, 1.0, False, True),
        (0, 0, 0.5, False, None),
    ],
)
def test_whether_the_rows_suffice(right: int, rows: int, least: float, met: bool, certain: bool | None) -> None:
    share = right / rows if rows else None
    found = RequirementResult(Requirement("label", "right", None, least), rows, share, wilson_interval(right, rows))
    assert (found.met, found.certain) == (met, certain)


@pytest.mark.parametrize(
    ("share", "least", "rows"), [(0.95, 0.92, 315), (0.9, 0.92, 707), (0.5, 0.4, 93), (0.9, 1.0, 0)]
)
def test_the_rows_that_would_suffice(share: float, least: float, rows: int) -> None:
    """With one row less the interval holds the requirement."""
    assert rows_to_tell(share, least) == rows
    for count in (rows, rows - 1) if rows else ():
        low, high = wilson_interval(share * count, count) or (0.0, 1.0)  # type: ignore[arg-type]
        assert (low < least < high) == (count < rows)
