"""``sqlenrich review``: the sample, the sheets, what reviewers decided, and the share wrong that follows."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sqlenrich as se
from tests.support.hostile import HOSTILE
from tests.support.html_page import Page
from tests.support.runs import call, rows, run, write_csv, write_prompt

HEADER = "key: [id]\nreview: {share: 0.2, by: label}\n"


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A prompt file, its input and the output of a run: 400 rows, of which 40 share one request."""
    folder = tmp_path_factory.mktemp("reviewed")
    prompt = write_prompt(folder, HEADER)
    data = write_csv(folder / "in.csv", [(i, "the same" if i <= 40 else f"text {i}") for i in range(1, 401)])
    output = folder / "out.duckdb"
    assert run(prompt, data, output).status == 0
    return prompt, data, output


def requests_of(prompt: Path, output: Path, folder: Path, *options: object) -> list[str]:
    """Return the requests of a sheet, in its order."""
    sheet = folder / "sample.csv"
    sheet.unlink(missing_ok=True)
    result = call("review", prompt, "--output", output, "--sheet", sheet, *options)
    assert result.status == 0, result.err
    with sheet.open(encoding="utf-8", newline="") as file:
        return [line["_request"] for line in csv.DictReader(file)]


def test_a_larger_sample_contains_a_smaller_one(reviewed: tuple[Path, Path, Path], tmp_path: Path) -> None:
    prompt, _, output = reviewed
    small, default, large = (
        requests_of(prompt, output, tmp_path, *options) for options in (("--rows", 30), (), ("--rows", 200))
    )
    assert 30 <= len(small) <= 33  # each stratum rounds up
    assert 80 <= len(default) <= 83  # 20 % of 400 rows
    assert set(small) < set(default) < set(large)
    assert len(set(large)) == len(large)  # equal requests once
    assert requests_of(prompt, output, tmp_path) == default
    other = requests_of(prompt, output, tmp_path, "--seed", 1)
    assert 0 < len(set(other) & set(default)) < len(default)


def test_each_stratum_has_its_part_and_at_least_five(reviewed: tuple[Path, Path, Path], tmp_path: Path) -> None:
    prompt, _, output = reviewed
    labels = dict(rows(output, "SELECT label, COUNT(*) FROM intent GROUP BY 1"))
    of = dict(rows(output, "SELECT _request_hash, ANY_VALUE(label) FROM intent GROUP BY 1"))
    drawn = Counter(of[request] for request in requests_of(prompt, output, tmp_path, "--rows", 40))
    assert drawn == {label: max(5, -(-40 * count // 400)) for label, count in labels.items()}
    few = Counter(of[request] for request in requests_of(prompt, output, tmp_path, "--rows", 15))
    assert min(few.values()) == 5
    shared = rows(output, "SELECT _request_hash FROM intent GROUP BY 1 HAVING COUNT(*) = 40")[0][0]
    # A request of 40 rows is 40 times as likely to be drawn: of 400 rows and 15 draws for certain.
    assert shared in requests_of(prompt, output, tmp_path, "--rows", 15)


def test_the_rows_of_one_run(tmp_path: Path) -> None:
    prompt = write_prompt(tmp_path, "key: [id]\n")
    first = write_csv(tmp_path / "a.csv", [(i, f"text {i}") for i in range(20)])
    both = write_csv(tmp_path / "b.csv", [(i, f"text {i}") for i in range(30)])
    output = tmp_path / "out.duckdb"
    runs = [run(prompt, data, output).report["run_id"] for data in (first, both)]
    assert len(requests_of(prompt, output, tmp_path)) == 30
    assert len(requests_of(prompt, output, tmp_path, "--run", "last")) == 10
    assert len(requests_of(prompt, output, tmp_path, "--run", runs[0])) == 20
    sheet = tmp_path / "of_run.csv"
    call("review", prompt, "--output", output, "--sheet", sheet, "--run", "last")
    fill(sheet, lambda _number, _field: "y")
    found = json.loads(call("review", prompt, "--output", output, "--read", sheet, "--json").out)["estimate"]
    assert (found["run"], found["rows"], found["requests"]) == (runs[1], 10, 10)
    assert json.loads(call("review", prompt, "--output", output, "--json").out)["estimate"]["shares"] == []


# Sheets --------------------------------------------------------------------------------------------------------------


def page_data(path: Path) -> dict[str, Any]:
    """Return what an HTML sheet holds."""
    return dict(json.loads(Page.read(path).text_of("data")))


def test_a_sheet_for_each_reviewer(reviewed: tuple[Path, Path, Path], tmp_path: Path) -> None:
    prompt, _, output = reviewed
    sheet = tmp_path / "review.html"
    result = call("review", prompt, "--output", output, "--sheet", sheet, "--reviewers", "ana,ben,eva", "--rows", 100)
    assert result.status == 0, result.err
    held = {name: page_data(tmp_path / f"review-{name}.html") for name in ("ana", "ben", "eva")}
    assert not sheet.exists()
    assert {name: data["about"]["reviewer"] for name, data in held.items()} == {name: name for name in held}
    requests = [{row["request"] for row in data["rows"]} for data in held.values()]
    everybody, anybody = set.intersection(*requests), set.union(*requests)
    assert len(everybody) == -(-len(anybody) // 5)
    others = [len(own - everybody) for own in requests]
    assert sum(others) == len(anybody - everybody)
    assert max(others) - min(others) <= 1
    # The same command again gives the same sheet: what is kept in a browser stays valid.
    assert call("review", prompt, "--output", output, "--sheet", sheet, "--reviewers", "ana,ben,eva", "--rows", 100)
    assert page_data(tmp_path / "review-ana.html") == held["ana"]


OUTPUT = """output:
  type: object
  properties:
    label: {type: string, enum: [a, b, c], description: What it is}
    urgency: {type: integer, minimum: 1, maximum: 3}
    sure: {type: [boolean, 'null']}
    count: {type: integer}
    words: {type: array, items: {type: string}}
    note: {type: string}
  required: [label, urgency, sure, count, words]
"""


def test_the_fields_of_a_sheet(tmp_path: Path) -> None:
    template = "Rules:\n- one\n\nText: {{ body }}\nAnswer with JSON.\nNow."
    prompt = write_prompt(tmp_path, "key: [id]\nkeep: [body]\n", template, output=OUTPUT)
    data = write_csv(tmp_path / "in.csv", [(1, "x\ny"), (2, "z"), (3, "z")], ("id", "body"))
    output = tmp_path / "out.duckdb"
    run(prompt, data, output)
    call("review", prompt, "--output", output, "--sheet", tmp_path / "review.html")
    held = page_data(tmp_path / "review.html")
    assert [(one["name"], one["choices"], one["text"], one["description"]) for one in held["fields"]] == [
        ("label", ["a", "b", "c"], True, "What it is"),
        ("urgency", [1, 2, 3], False, ""),
        ("sure", [True, False, None], False, ""),
        ("count", None, False, ""),
        ("words", None, False, ""),
        ("note", None, True, ""),
    ]
    assert (held["before"], held["after"]) == ("Rules:\n- one\n\n", "\nAnswer with JSON.\nNow.")
    by_id = {dict(row["key"])["id"]: row for row in held["rows"]}
    assert by_id["1"]["text"] == "Text: x\ny"
    assert by_id["2"]["key"] == [["id", "2"], ["body", "z"], ["rows like this", 2]]
    (stored,) = rows(output, "SELECT label, urgency, sure, count, words, note FROM intent WHERE id = '1'")
    assert by_id["1"]["values"] == list(stored)


def test_the_system_of_a_row_is_shown_before_its_text(tmp_path: Path) -> None:
    system = "system: \"{% if id != '2' %}For {{ id }}{% endif %}\"\n"
    prompt = write_prompt(tmp_path, f"key: [id]\n{system}", "Text: {{ body }}")
    output, sheet = tmp_path / "out.duckdb", tmp_path / "review.html"
    run(prompt, write_csv(tmp_path / "in.csv", [(1, "x"), (2, "z")], ("id", "body")), output)
    assert call("review", prompt, "--output", output, "--sheet", sheet).status == 0
    shown = sorted(row["text"] for row in page_data(sheet)["rows"])
    assert shown == ["System: For 1\n\nText: x", "Text: z"]
    assert call("report", prompt, "--output", output, "--page", tmp_path / "report.html").status == 0
    assert "For {{ id }}" in (tmp_path / "report.html").read_text(encoding="utf-8")


MARKUP = (
    "<script>alert(1)</script>", "</pre><img src=x onerror=alert(1)>", "</script><script>alert(1)", "<!--", "]]>",
    "&lt;b&gt;", "\" onload=\"x", "' autofocus onfocus='x", "<svg/onload=alert(1)>", "javascript:alert(1)",
    "<base href=//evil>", "<style>*{}</style>", "{{ 7*7 }}", "https://evil.example/x.png", "<a href=//x>",
)  # fmt: skip
STRINGS = [text for text in HOSTILE.values() if text and text.strip()] + list(MARKUP)


def test_no_text_becomes_markup(tmp_path: Path) -> None:
    """The page of hostile texts has the elements of a page of plain ones, and gives the texts back unchanged."""
    assert len(STRINGS) >= 60
    pages = []
    for name, texts in (("plain", [f"text {i}" for i in range(len(STRINGS))]), ("hostile", STRINGS)):
        folder = tmp_path / name
        folder.mkdir()
        prompt = write_prompt(folder, "key: [id]\nkeep: [body]\n")
        lines = [{"id": f"k{i}", "body": text} for i, text in enumerate(texts)]
        se.run(se.load(prompt), input=lines, output=folder / "out.duckdb", mock=True)
        call("review", prompt, "--output", folder / "out.duckdb", "--sheet", folder / "r.html", "--rows", 500)
        pages.append(Page.read(folder / "r.html"))
    assert pages[1].elements == pages[0].elements
    data = json.loads(pages[1].text_of("data"))
    assert sorted(dict(row["key"])["body"] for row in data["rows"]) == sorted(STRINGS)
    pages[1].check_policy()


def test_a_cell_is_no_formula(tmp_path: Path) -> None:
    prompt = write_prompt(tmp_path, "key: [id]\nkeep: [body]\n", "{{ body }}")
    data = write_csv(tmp_path / "in.csv", [(1, "=HYPERLINK(1)"), (2, "+1"), (3, "-1"), (4, "@x"), (5, "plain")])
    run(prompt, data, tmp_path / "out.duckdb")
    call("review", prompt, "--output", tmp_path / "out.duckdb", "--sheet", tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert sorted(line["body"] for line in lines) == ["'+1", "'-1", "'=HYPERLINK(1)", "'@x", "plain"]
    assert all(line["text"] == line["body"] for line in lines)


# Verdicts ------------------------------------------------------------------------------------------------------------


def fill(sheet: Path, word: Callable[[int, str], str], expected: Mapping[tuple[int, str], str] | None = None) -> None:
    """Write verdicts into a CSV sheet, by the number of its line from 0 and the field."""
    with sheet.open(encoding="utf-8", newline="") as file:
        header, *lines = list(csv.reader(file))
    for number, line in enumerate(lines):
        for place, name in enumerate(header):
            field = name.partition(": ")[2]
            if name.startswith("verdict: "):
                line[place] = word(number, field)
            elif name.startswith("right value: "):
                line[place] = (expected or {}).get((number, field), "")
    with sheet.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *lines])


@pytest.fixture
def ten(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A prompt file, the output of 1,000 rows and a sheet of 50."""
    prompt = write_prompt(tmp_path, "key: [id]\n")
    data = write_csv(tmp_path / "in.csv", [(i, f"text {i}") for i in range(1000)])
    run(prompt, data, tmp_path / "out.duckdb")
    sheet = tmp_path / "r.csv"
    assert call("review", prompt, "--output", tmp_path / "out.duckdb", "--sheet", sheet).status == 0
    return prompt, tmp_path / "out.duckdb", sheet


def estimate(prompt: Path, output: Path, *options: object) -> dict[str, Any]:
    result = call("review", prompt, "--output", output, *options, "--json")
    assert result.status == 0, result.err
    return dict(json.loads(result.out))


def test_the_share_wrong_of_the_table(ten: tuple[Path, Path, Path]) -> None:
    prompt, output, sheet = ten
    fill(sheet, lambda number, field: "n" if number < 3 and field == "label" else "u" if number == 3 else "y")
    found = estimate(prompt, output, "--read", sheet)
    assert found["taken"] == {"read": 100, "new": 100, "changed": 0}
    shares = {(one["field"], one["stratum"]): one for one in found["estimate"]["shares"]}
    assert list(shares) == [(None, None), ("label", None), ("urgency", None)]
    # scipy: binomtest(3, n).proportion_ci() of n = 49 / (1 - 49/1000) = 51.525, rounded outward to rows of 1,000
    label = shares["label", None]
    assert (label["unsure"], label["found"]["judged"], label["found"]["wrong"]) == (1, 49, 3)
    assert label["found"]["estimate"] == pytest.approx(1000 * 3 / 49)
    assert (label["found"]["least"], label["found"]["most"]) == (13, 165)
    assert shares[None, None]["found"] == label["found"]
    assert (shares["urgency", None]["found"]["least"], shares["urgency", None]["found"]["most"]) == (0, 70)
    assert found["estimate"]["agreement"] == []


def test_reading_twice_changes_nothing_and_a_later_verdict_replaces(ten: tuple[Path, Path, Path]) -> None:
    prompt, output, sheet = ten
    fill(sheet, lambda number, _field: "y" if number < 10 else "")
    first = estimate(prompt, output, "--read", sheet)
    stored = rows(output, "SELECT * FROM intent_reviews ORDER BY ALL")
    again = estimate(prompt, output, "--read", sheet, "--read", sheet)
    assert again["taken"] == {"read": 20, "new": 0, "changed": 0}
    assert again["estimate"] == first["estimate"]
    assert rows(output, "SELECT * FROM intent_reviews ORDER BY ALL") == stored
    fill(sheet, lambda number, field: "wrong" if (number, field) == (0, "label") else "RIGHT" if number < 12 else " ")
    changed = estimate(prompt, output, "--read", sheet)
    assert changed["taken"] == {"read": 24, "new": 4, "changed": 1}
    # The table keeps what a reviewer said before.
    assert rows(output, "SELECT COUNT(*), COUNT(*) FILTER (verdict = 'wrong') FROM intent_reviews") == [(25, 1)]


def test_a_verdict_counts_as_long_as_its_answer_stands(ten: tuple[Path, Path, Path]) -> None:
    prompt, output, sheet = ten
    fill(sheet, lambda _number, _field: "y")
    estimate(prompt, output, "--read", sheet)
    request = rows(output, "SELECT MIN(request_hash) FROM intent_reviews")[0][0]
    with duckdb.connect(str(output)) as db:  # as a retry with another answer would
        db.execute("UPDATE intent SET urgency = urgency % 5 + 1 WHERE _request_hash = ?", [request])
    found = estimate(prompt, output)
    assert (found["estimate"]["gone"], found["estimate"]["requests"]) == (2, 49)
    assert "2 verdicts not counted" in call("review", prompt, "--output", output).out


def test_reviewers_who_disagree(tmp_path: Path) -> None:
    prompt = write_prompt(tmp_path, "key: [id]\n")
    data = write_csv(tmp_path / "in.csv", [(i, f"text {i}") for i in range(50)])
    output = tmp_path / "out.duckdb"
    run(prompt, data, output)
    call("review", prompt, "--output", output, "--sheet", tmp_path / "r.csv", "--reviewers", "ana,ben")
    sheets = [tmp_path / f"r-{name}.csv" for name in ("ana", "ben")]
    answers = dict(rows(output, "SELECT _request_hash, label FROM intent"))
    other = {"a": "b", "b": "c", "c": "a"}
    places = []
    for sheet in sheets:
        with sheet.open(encoding="utf-8", newline="") as file:
            places.append([line["_request"] for line in csv.DictReader(file)])
    shared = [request for request in places[0] if request in places[1]]
    assert len(shared) == 10
    fill(sheets[0], lambda _number, _field: "y")
    disputed = set(shared[:4])
    expected = {
        (number, "label"): other[answers[request]] for number, request in enumerate(places[1]) if request in disputed
    }
    fill(
        sheets[1], lambda number, field: "" if (number, field) in expected else "y", expected
    )  # a right value is a "n"
    found = estimate(prompt, output, "--read", sheets[0], "--read", sheets[1])["estimate"]
    of_label = next(one for one in found["agreement"] if one["field"] == "label")
    assert (of_label["reviewers"], of_label["rows"], of_label["equal"]) == (["ana", "ben"], 10, 6)
    held = [
        (answers[request], other[answers[request]] if request in disputed else answers[request]) for request in shared
    ]
    chance = sum(
        sum(a == label for a, _ in held) / 10 * sum(b == label for _, b in held) / 10 for label in ("a", "b", "c")
    )
    assert of_label["kappa"] == pytest.approx((0.6 - chance) / (1 - chance))
    label = next(one for one in found["shares"] if one["field"] == "label")
    assert (label["found"]["judged"], label["found"]["wrong"]) == (50, 2.0)  # four halves
    assert (label["found"]["least"], label["found"]["most"]) == (2, 2)  # all rows are judged
    assert len(found["wrong"]) == 4


# Truth ---------------------------------------------------------------------------------------------------------------


def test_judged_rows_become_labelled_rows(tmp_path: Path) -> None:
    prompt = write_prompt(tmp_path, "key: [id]\n")
    bodies = {"7": 'a "quoted" text', "8": "two\nlines", "9": "=x"}
    data = write_csv(tmp_path / "in.csv", [(*pair, "unused") for pair in bodies.items()], ("id", "body", "more"))
    output, sheet, truth = tmp_path / "out.duckdb", tmp_path / "r.csv", tmp_path / "labels.csv"
    run(prompt, data, output)
    call("review", prompt, "--output", output, "--sheet", sheet)
    with sheet.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    ids = [line["id"] for line in lines]
    answers = {line["id"]: (line["label"], line["urgency"]) for line in lines}
    other = next(label for label in "abc" if label != answers[ids[0]][0])
    fill(sheet, lambda number, field: ["n", "y", "u"][number] if field == "label" else ["y", "n", "u"][number],
         {(0, "label"): other})  # fmt: skip
    options = ("--truth", truth, "--input", data)
    assert estimate(prompt, output, "--read", sheet, *options)["labelled"] == 2
    assert estimate(prompt, output, *options)["labelled"] == 0
    with truth.open(encoding="utf-8", newline="") as file:
        written = {line["id"]: line for line in csv.DictReader(file)}
    assert written == {
        ids[0]: {"id": ids[0], "body": bodies[ids[0]], "expected_label": other, "expected_urgency": answers[ids[0]][1]},
        ids[1]: {"id": ids[1], "body": bodies[ids[1]], "expected_label": answers[ids[1]][0], "expected_urgency": ""},
    }
    truth.write_text(f"expected_label,id\na,{ids[0]}", encoding="utf-8")  # its own columns, no line end
    assert estimate(prompt, output, *options)["labelled"] == 1
    assert truth.read_text(encoding="utf-8") == f"expected_label,id\na,{ids[0]}\n{answers[ids[1]][0]},{ids[1]}\n"


def test_the_file_of_judged_rows_is_one_that_evaluate_reads(tmp_path: Path) -> None:
    """The column of labels may be kept, and what is kept alone is not in the file."""
    header = "key: [id]\nkeep: [truth, more]\nevaluate: {fields: {label: truth}}\n"
    prompt = write_prompt(tmp_path, header)
    data = write_csv(tmp_path / "in.csv", [("7", "a", "b", "x"), ("8", "b", "", "y")], ("id", "body", "truth", "more"))
    output, sheet, truth = tmp_path / "out.duckdb", tmp_path / "r.csv", tmp_path / "labels.csv"
    run(prompt, data, output)
    call("review", prompt, "--output", output, "--sheet", sheet)
    fill(sheet, lambda *_: "y")
    options = ("--truth", truth, "--input", data)
    assert estimate(prompt, output, "--read", sheet, *options)["labelled"] == 2
    assert truth.read_text(encoding="utf-8").splitlines()[0] == "id,body,truth,expected_urgency"
    scored = call("evaluate", prompt, "--truth", truth, "--output", output, "--mock", "--json")
    assert (scored.status, json.loads(scored.out)["fields"][0]["right"]) == (0, 2), scored.error


# Bad input -----------------------------------------------------------------------------------------------------------


def test_what_is_wrong_in_a_file(ten: tuple[Path, Path, Path], tmp_path: Path) -> None:
    prompt, output, sheet = ten
    words = {(0, "label"): "maybe", (1, "label"): "n", (2, "urgency"): "n", (3, "urgency"): "n", (4, "label"): "n"}
    right = {(1, "label"): "B", (2, "urgency"): "9", (3, "urgency"): "x", (4, "label"): "(none)"}
    fill(sheet, lambda *place: words.get(place, ""), right)
    result = call("review", prompt, "--output", output, "--read", sheet)
    assert result.status == 2
    assert result.err.splitlines() == [
        f'Error: {sheet}, line 2: unknown verdict "maybe" of label; write y, n or u',
        f'{sheet}, line 3: "B" is no value of label (b?); there are: a, b, c',
        f'{sheet}, line 4: "9" is no value of urgency',
        f'{sheet}, line 5: "x" is no value of urgency',
        f"{sheet}, line 6: label is never NULL, so (none) can't be right",
    ]
    assert rows(output, "SELECT COUNT(*) FROM duckdb_tables() WHERE table_name = 'intent_reviews'") == [(0,)]


def saved(output: Path, **changes: object) -> dict[str, Any]:
    """Return what a page saves, with one verdict."""
    ledger = rows(output, "SELECT run_id FROM _sqlenrich_runs")[0][0]
    request = rows(output, "SELECT _request_hash FROM intent LIMIT 1")[0][0]
    verdict = {"request": request, "answer": "x", "field": "label", "verdict": "right"}
    whole = {"sqlenrich_review": 1, "name": "intent", "reviewer": "ana", "of_run": "", "ledger": ledger,
             "verdicts": [verdict]}  # fmt: skip
    return {**whole, **changes}


BAD_FILES: Sequence[tuple[dict[str, object], str]] = (
    ({"sqlenrich_review": 2}, "is of version 2 of the sheets, this is version 1: make it again"),
    ({"name": "other"}, "is a sheet of other, not of intent"),
    ({"ledger": "20200101T000000-12345678"}, "is a sheet of another database: {output} has no run 20200101T000000"),
    ({"reviewer": ""}, "names no reviewer"),
    ({"verdicts": [{"field": "label"}]}, "is no file of verdicts that a review sheet saved"),
    ({"verdicts": 3}, "is no file of verdicts"),
    ({"verdicts": [{"request": "r", "answer": "a", "field": "labl", "verdict": "right"}]},
     'verdict 1: no output field "labl" (label?)'),
    ({"verdicts": [{"request": "r", "answer": "a", "field": "label", "verdict": "perhaps"}]},
     'verdict 1: unknown verdict "perhaps" of label; write y, n or u'),
    ({"verdicts": [{"request": "r", "answer": "a", "field": "label", "verdict": "wrong", "expected": 3}]},
     'verdict 1: "3" is no value of label; there are: a, b, c'),
)  # fmt: skip


@pytest.mark.parametrize(("changes", "words"), BAD_FILES)
def test_a_bad_file(ten: tuple[Path, Path, Path], tmp_path: Path, changes: dict[str, object], words: str) -> None:
    prompt, output, _ = ten
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(saved(output, **changes)), encoding="utf-8")
    result = call("review", prompt, "--output", output, "--read", file)
    assert (result.status, str(file) in result.error) == (2, True)
    assert words.format(output=output) in result.error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--output", "none.duckdb"), "none.duckdb: no run has written it"),
        (("--output", "{output}", "--sheet", "r.pdf"), "r.pdf: unknown kind of sheet; there are: .html, .csv"),
        (("--output", "{output}", "--sheet", "{sheet}"), "is there and may hold verdicts: read it by --read"),
        (("--output", "{output}", "--sheet", "x.html", "--reviewers", "a/b"), 'reviewer "a/b": a name has letters'),
        (("--output", "{output}", "--sheet", "x.html", "--reviewers", "a,A"), "a reviewer is named twice"),
        (("--output", "{output}", "--sheet", "x.html", "--run", "1"), "has no run 1 of intent; the last ones are: 2"),
        (("--output", "{output}", "--sheet", "x.html", "--read", "y"), "--sheet makes what reviewers fill in"),
        (("--output", "{output}", "--read", "y.json"), "y.json can't be read: No such file"),
        (("--output", "{output}", "--truth", "t.csv"), "which rows? Give --input PATH"),
        (("--output", "{output}", "--truth", "t.txt", "--input", "in.csv"), "appended to a .csv file"),
        (("--output", "{output}", "--sheet", "mine.html"), "mine.html was not written by sqlenrich"),
        (("--output", "{output}", "--read", "mine.html"), "mine.html is no file of verdicts; read what its Save"),
        (("--output", "{output}", "--read", "mine.csv"), "mine.csv is no review sheet: it lacks the columns _request"),
    ],
)
def test_bad_input(
    ten: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str], words: str
) -> None:
    prompt, output, sheet = ten
    monkeypatch.chdir(prompt.parent)
    Path("mine.html").write_text("<p>my own</p>", encoding="utf-8")
    Path("mine.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    given = [one.format(output=output, sheet=sheet) for one in arguments]
    result = call("review", prompt, *given)
    assert (result.status, words in result.error) == (2, True), result.error
    assert Path("mine.html").read_text(encoding="utf-8") == "<p>my own</p>"


def test_a_table_of_another_version(ten: tuple[Path, Path, Path]) -> None:
    prompt, output, sheet = ten
    with duckdb.connect(str(output)) as db:
        db.execute("CREATE TABLE intent_reviews (request_hash VARCHAR)")
    fill(sheet, lambda _number, _field: "y")
    for options in ((), ("--read", sheet)):
        error = call("review", prompt, "--output", output, *options).error
        assert "the table intent_reviews is of another version: rename it" in error


def test_prompts_that_are_gone(tmp_path: Path) -> None:
    prompt = write_prompt(tmp_path, "key: [id]\nkeep_prompts: false\n")
    run(prompt, write_csv(tmp_path / "in.csv", [(1, "a")]), tmp_path / "out.duckdb")
    error = call("review", prompt, "--output", tmp_path / "out.duckdb", "--sheet", tmp_path / "r.html").error
    assert "the prompts to show are not stored (keep_prompts is false): run it again with keep_prompts: true" in error
