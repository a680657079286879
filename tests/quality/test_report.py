"""``sqlenrich report``: the ledger as text, the questions and their answers, and the page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.quality.page import cut_text
from sqlenrich.quality.report.facts import FieldAccuracy
from sqlenrich.quality.report.page import report_page
from sqlenrich.spec.quality import Requirement
from tests.quality.test_review import STRINGS
from tests.support.html_page import Page
from tests.support.runs import call, opened, run, write_csv, write_prompt

EVALUATIONS = (
    "CREATE TABLE intent_evaluations (evaluation VARCHAR, evaluated_at TIMESTAMP, model VARCHAR, version VARCHAR, "
    "fingerprint VARCHAR, truth VARCHAR, row_key VARCHAR, request_hash VARCHAR, field VARCHAR, label VARCHAR, "
    "answer VARCHAR, error VARCHAR, is_right BOOLEAN)"
)
PROFILES = (
    "CREATE OR REPLACE TABLE intent_profiles "
    "(run VARCHAR, started_at TIMESTAMP, field VARCHAR, level VARCHAR, rows BIGINT)"
)
Pairs = Sequence[tuple[str | None, str | None]]
"""Labels and answers; an answer None is a refused row."""
LAST: Pairs = (("a", "a"), ("a", "a"), ("a", "b"), ("b", "b"), ("b", None), ("c", "c"))
EARLIER: Pairs = (("a", "a"), ("a", "b"), ("b", "a"), ("b", "b"))


def add_evaluation(db: duckdb.DuckDBPyConnection, name: str, at: str, pairs: Pairs) -> None:
    for number, (label, answer) in enumerate(pairs):
        db.execute(
            f"INSERT INTO intent_evaluations VALUES ({', '.join('?' * 13)})",
            [name, at, "m", "1", "f", "labels.csv", json.dumps({"id": number}), "h", "label", json.dumps(label),
             None if answer is None else json.dumps(answer), "BAD_JSON" if answer is None else None, label == answer],
        )  # fmt: skip


def add_profile(db: duckdb.DuckDBPyConnection, run_id: str, lines: Iterable[tuple[str, str, int]]) -> None:
    for field, level, rows in lines:
        db.execute("INSERT INTO intent_profiles VALUES (?, '2026-01-01', ?, ?, ?)", [run_id, field, level, rows])


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """The output of a run: 20 rows."""
    data = write_csv(tmp_path / "in.csv", [(i, f"text {i}") for i in range(20)])
    run(write_prompt(tmp_path, "key: [id]\n"), data, tmp_path / "out.duckdb")
    return tmp_path / "out.duckdb"


def report(output: Path, header: str = "") -> se.QualityReport:
    return se.report(se.load(write_prompt(output.parent, f"key: [id]\n{header}")), output=output)


def tile(found: se.QualityReport, word: str) -> tuple[str, str, str]:
    """Return the status, the figure and the command of the tile whose question has a word."""
    one = next(one for one in found.tiles if word in one.question)
    return one.status, one.figure, one.command.replace(str(Path(found.output).parent) + "/", "")


def test_what_is_not_measured_says_what_would(output: Path) -> None:
    found = report(output)
    assert [tile(found, word) for word in ("accounted", "right", "wrong", "moved", "refused", "cost")] == [
        ("good", "20 rows", ""),
        ("unmeasured", "–", "sqlenrich evaluate intent.prompt --truth labels.csv --output out.duckdb"),
        ("unmeasured", "–", "sqlenrich review intent.prompt --output out.duckdb --sheet review.html"),
        ("unmeasured", "–", "sqlenrich drift intent.prompt --output out.duckdb"),
        ("told", "0.00 %", ""),
        ("unmeasured", "–", "sqlenrich report intent.prompt --output out.duckdb --prices prices.toml"),
    ]
    text = call("report", output.parent / "intent.prompt", "--output", output).out
    assert re.search(r"^\d{8}T\d{6}-\w{8} +done +20 +0 +20 ", text, re.MULTILINE), text
    assert "Is every row accounted for?  20 rows  (✓ holds)" in text
    assert json.loads(call("report", output.parent / "intent.prompt", "--output", output, "--json").out)["table"] == {
        "rows_in": 20,
        "accepted": 20,
        "refused": {},
        "sql": list(found.table.sql),
    }


@pytest.mark.parametrize(
    ("change", "word", "expected"),
    [
        ("DELETE FROM intent WHERE id = '3'", "accounted", ("bad", "19 of 20 rows")),
        ("INSERT INTO intent SELECT * FROM intent WHERE id = '3'", "accounted", ("bad", "21 of 20 rows")),
        ("DROP TABLE intent_prompts", "accounted", ("good", "20 rows")),
        ("DROP TABLE intent_prompts; DELETE FROM intent WHERE id = '3'", "accounted", ("bad", "19 of 20 rows")),
        ("DROP TABLE intent_prompts; DROP TABLE _sqlenrich_runs", "accounted", ("unmeasured", "20 rows")),
        ("INSERT INTO intent_quarantine (id, _error) VALUES ('21', 'NOT_ASKED'); "
         "INSERT INTO intent_prompts (id) VALUES ('21')", "accounted", ("bad", "1 row not asked yet")),
        ("INSERT INTO intent_quarantine (id, _error) VALUES ('21', 'BAD_JSON')", "refused", ("good", "4.76 %")),
        ("INSERT INTO intent_quarantine (id, _error) SELECT id, 'BAD_JSON' FROM intent", "refused", ("bad", "50.00 %")),
        ("INSERT INTO intent_quarantine (id, _error) SELECT id, 'NO_INPUT' FROM intent", "refused", ("good", "0.00 %")),
        ("UPDATE _sqlenrich_runs SET report = json_merge_patch(report, '{\"cost\": 0.5, \"currency\": \"EUR\"}')",
         "cost", ("told", "0.500 EUR")),
    ],
)  # fmt: skip
def test_tables_and_ledger(output: Path, change: str, word: str, expected: tuple[str, str]) -> None:
    with duckdb.connect(str(output)) as db:
        db.execute(change)
    assert tile(report(output, "max_quarantine: 0.1\n"), word)[:2] == expected


REQUIRE = "evaluate: {{require: {{label: {}}}}}\n"


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("", "told"),
        (REQUIRE.format("0.6"), "good"),
        (REQUIRE.format("0.7"), "bad"),
        (REQUIRE.format("{recall: {b: 0.5}, precision: {c: 1}}"), "good"),
        (REQUIRE.format("{recall: {b: 0.51}}"), "bad"),
        (REQUIRE.format("{precision: {b: 0.51}}"), "bad"),
        ("evaluate: {require: {urgency: 0.1}}\n", "bad"),  # nothing measures it
    ],
)
def test_accuracy(output: Path, header: str, status: str) -> None:
    with duckdb.connect(str(output)) as db:
        db.execute(EVALUATIONS)
        add_evaluation(db, "1", "2026-01-01", EARLIER)
        add_evaluation(db, "2", "2026-01-02", LAST)
    found = report(output, header)
    assert tile(found, "right")[:2] == (status, "66.7 % of label")
    assert found.accuracy is not None
    (field,) = found.accuracy.fields
    assert (field.right, field.rows, [share for _, share in field.earlier]) == (4, 6, [0.5, 4 / 6])
    assert field.pairs == {("a", "a"): 2, ("a", "b"): 1, ("b", "b"): 1, ("b", "(refused)"): 1, ("c", "c"): 1}
    assert field.values == ["a", "b", "c", "(refused)"]
    assert [row["wrong"] for row in found.accuracy.worst] == [[("label", "a", "b")], [("label", "b", "BAD_JSON")]]
    page = report_page(found)
    assert "66.7 % right" in page
    assert "labels.csv" in page


FIELD = FieldAccuracy("f", {("a", "a"): 3, ("a", "b"): 1, ("b", "a"): 2, ("b", "(refused)"): 1}, 3, 7, ())


@pytest.mark.parametrize(
    ("measure", "value", "expected"),
    [
        ("right", None, 3 / 7), ("precision", "a", 3 / 5), ("recall", "a", 3 / 4), ("f1", "a", 6 / 9),
        ("precision", "b", 0), ("recall", "b", 0), ("recall", "x", None), ("precision", "x", None), ("f1", "x", None),
    ],
)  # fmt: skip
def test_measures(measure: str, value: str | None, expected: float | None) -> None:
    assert FIELD.measure(measure, value) == expected
    unmet = FIELD.unmet([Requirement("f", measure, value, 0.6), Requirement("g", measure, value, 1.0)])
    assert len(unmet) == (expected is None or expected < 0.6)


@pytest.mark.parametrize(
    ("header", "status", "outcome"),
    [("", "told", ""), ("drift: {sigma: 10}\n", "good", "; no alarm")],
)
def test_answers_that_moved(output: Path, header: str, status: str, outcome: str) -> None:
    accepted = ("_error", "accepted", 100)
    with duckdb.connect(str(output)) as db:
        db.execute(PROFILES)
        add_profile(
            db, "1", [("label", "a", 60), ("label", "b", 40), ("urgency", "1", 9), ("urgency", "2", 1), accepted]
        )
        add_profile(
            db, "2", [("label", "a", 50), ("label", "b", 50), ("urgency", "1", 19), ("urgency", "2", 1), accepted]
        )
        add_profile(
            db, "3", [("label", "a", 70), ("label", "b", 20), ("label", "c", 10), ("urgency", "1", 10), accepted]
        )
    found = report(output, header)
    assert tile(found, "moved")[:2] == (status, "25.0 of 100 rows")
    (detail,) = [one.detail for one in found.tiles if "moved" in one.question]
    assert detail == f"label moved most, of 2 fields; 0.4 σ for all fields together{outcome}"
    label, urgency = found.answers
    assert [(one.name, one.share, one.earlier) for one in label.levels] == [
        ("a", 0.7, 0.55), ("b", 0.2, 0.45), ("c", 0.1, 0.0),
    ]  # fmt: skip
    assert label.moved == pytest.approx(0.25)
    assert urgency.moved == pytest.approx(2 / 30)


def test_few_rows_are_not_compared(output: Path) -> None:
    """The report and ``drift`` say the same of runs that have fewer than 200 rows together, and speak of no alarm."""
    with duckdb.connect(str(output)) as db:
        db.execute(PROFILES)
        for run, a in (("1", 60), ("2", 90)):
            add_profile(db, run, [("label", "a", a), ("label", "b", 99 - a), ("_error", "accepted", 99)])
    reason = "too few rows to compare: runs are taken together until they have 200, and all 2 together have 198"
    (found,) = [one for one in report(output, "").tiles if "moved" in one.question]
    assert (found.status, found.figure, found.detail) == ("unmeasured", "–", reason)
    told = call("drift", output.with_name("intent.prompt"), "--output", output)
    assert (told.status, told.out.splitlines()[-1]) == (0, reason)


def test_answers_that_moved_too_far_are_red(output: Path) -> None:
    with duckdb.connect(str(output)) as db:
        db.execute(PROFILES)
        for number, a in enumerate([600, 605, 595, 602, 598, 50]):
            lines = [("label", "a", a), ("label", "b", 1000 - a), ("_error", "accepted", 1000)]
            add_profile(db, str(number), lines)
    found = report(output, "drift: {sigma: 2, moved: 0.05}\n")
    assert tile(found, "moved")[:2] == ("bad", "55.0 of 100 rows")
    assert [one.detail.partition("; ")[2] for one in found.tiles if "moved" in one.question] == [
        "4.9 σ for all fields together; ALARM"
    ]


def test_each_run_tells_how_far_its_answers_moved(output: Path) -> None:
    ledger = "INSERT INTO _sqlenrich_runs (run_id, name, started_at, status) VALUES (?, 'intent', ?, 'done')"
    with duckdb.connect(str(output)) as db:
        last = db.execute("SELECT run_id FROM _sqlenrich_runs").fetchall()[0][0]
        db.execute(PROFILES)
        for number, a in enumerate([600, 605, 595, 50]):
            name, started = (last, "2026-01-01") if number == 3 else (str(number), f"2020-01-0{number + 1}")
            add_profile(db, name, [("label", "a", a), ("label", "b", 1000 - a), ("_error", "accepted", 1000)])
            db.execute("UPDATE intent_profiles SET started_at = ? WHERE run = ?", [started, name])
            if number < 3:
                db.execute(ledger, [name, started])
    found = report(output, "drift: {}\n")
    assert [line.run.run_id for line in found.runs] == ["0", "1", "2", last]
    assert [line.sigma is None for line in found.runs] == [True, False, False, False]
    assert found.runs[3].sigma == pytest.approx(found.runs[3].drift.sigma if found.runs[3].drift else None)
    assert (found.runs[1].sigma or 0) < 1 < 3 < (found.runs[3].sigma or 0)
    text = found.to_text().splitlines()
    assert text[0].split()[-3:] == ["σ", "moved", "most"]
    assert text[1].split()[-2:] == ["-", "-"]
    assert re.search(r"  [3-9]\.\d +label 55\.0 ALARM$", text[4])
    told = json.loads(found.to_json())["runs"][3]
    assert (told["moved_most"]["field"], told["moved_most"]["alarm"]) == ("label", True)
    page = report_page(found)
    assert "σ of all fields over 4 runs" in page.replace("&#39;", "'")
    assert re.search(r'<td class="number">[3-9]\.\d</td><td class="number">label 55\.0</td>', page)


def test_answers_without_profiles_are_those_of_the_rows(output: Path) -> None:
    with duckdb.connect(str(output)) as db:
        db.execute("DROP TABLE intent_profiles")
    found = report(output)
    with opened(output) as db:
        for answers in found.answers:
            sql = f"SELECT CAST({answers.field} AS VARCHAR), COUNT(*) FROM intent GROUP BY 1 ORDER BY 2 DESC, 1"
            assert [(level.name, level.rows) for level in answers.levels] == db.execute(sql).fetchall()
            assert sum(level.share for level in answers.levels) == pytest.approx(1)
    assert [one.field for one in found.answers] == ["label", "urgency"]


def test_each_select_gives_its_figures(output: Path) -> None:
    """Each statement that the page shows runs as it stands."""
    with duckdb.connect(str(output)) as db:
        db.execute(EVALUATIONS)
        add_evaluation(db, "1", "2026-01-01", LAST)
        db.execute(PROFILES)
        add_profile(db, "1", [("label", "a", 60)])
        db.execute("INSERT INTO intent_quarantine (id, _error) VALUES ('21', 'BAD_JSON')")
    prompt = write_prompt(output.parent, "key: [id]\n")
    call("review", prompt, "--output", output, "--sheet", output.parent / "r.csv")
    page = output.parent / "page.html"
    assert call("report", prompt, "--output", output, "--page", page).status == 0
    statements = re.findall(r"<pre>((?:SELECT|WITH)\s.*?)</pre>", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(statements) >= 10
    with opened(output) as db:
        for statement in statements:
            db.execute(statement.replace("&#39;", "'").replace("&#34;", '"').replace("&lt;", "<").replace("&gt;", ">"))


# The page ------------------------------------------------------------------------------------------------------------

OUTPUT = """output:
  type: object
  properties:
    label: {{type: string, enum: [{values}], description: {description}}}
    note: {{type: string}}
  required: [label, note]
"""


def full_page(folder: Path, texts: Sequence[str], *options: str) -> Path:
    """Write the page of a database that has given texts in every place that a page shows."""
    folder.mkdir(exist_ok=True)
    first = texts[0]
    shown = json.dumps(first)
    fields = OUTPUT.format(values=", ".join(json.dumps(one) for one in texts[:3]), description=shown)
    prompt = write_prompt(
        folder, f"key: [id]\nkeep: [body]\ndescription: {shown}\nversion: {shown}\n",
        "{% raw %}" + first.replace("{%", "").replace("\x00", "") + "{% endraw %} {{ body }}", output=fields,
    )  # fmt: skip
    output = folder / "out.duckdb"
    lines = [{"id": text, "body": text} for text in texts]
    se.run(se.load(prompt), input=lines, output=output, mock=True)
    with duckdb.connect(str(output)) as db:
        text = first
        for table, column in (("intent", "note"), ("intent", "_model"), ("intent", "_version")):
            db.execute(f'UPDATE {table} SET "{column}" = ?', [text])
        db.executemany(
            "INSERT INTO intent_quarantine (id, body, _error, _error_detail, response) VALUES (?, ?, ?, ?, ?)",
            [[one, one, one, one, one] for one in texts],
        )
        db.execute(EVALUATIONS)
        for at, one in enumerate(texts):
            add_evaluation(db, "1", "2026-01-01", [(one, texts[at - 1])])
        db.execute("UPDATE intent_evaluations SET truth = $1, model = $1, row_key = $1", [text])
        db.execute(PROFILES)
        add_profile(db, "1", [(one, one, 3) for one in texts])
        add_profile(db, "2", [(one, one, 3) for one in texts])
        db.execute("UPDATE _sqlenrich_runs SET status = $1, report = json_merge_patch(report, $2)",
                   [text, json.dumps({"cost": 1, "currency": text})])  # fmt: skip
        columns = "request_hash VARCHAR, answer_hash VARCHAR, field VARCHAR, reviewer VARCHAR, verdict VARCHAR"
        db.execute(f"CREATE TABLE intent_reviews ({columns}, expected VARCHAR, of_run VARCHAR, read_at TIMESTAMP)")
    call("review", prompt, "--output", output, "--sheet", folder / "r.html", "--rows", 200)
    data = json.loads(Page.read(folder / "r.html").text_of("data"))
    with duckdb.connect(str(output)) as db:
        for row in data["rows"]:
            verdict = [row["request"], row["answer"], "note", text, "wrong", json.dumps(text), "", None]
            db.execute("INSERT INTO intent_reviews VALUES (?, ?, ?, ?, ?, ?, ?, ?)", verdict)
    page = folder / "page.html"
    result = call("report", prompt, "--output", output, "--page", page, *options)
    assert result.status == 0, result.err
    return page


def hostile(text: str) -> str:
    """Return a text that any parser of YAML and templates keeps as it is."""
    return "".join(char if char.isprintable() else f"[{ord(char):x}]" for char in text)


def test_no_text_becomes_markup(tmp_path: Path) -> None:
    texts = list(dict.fromkeys(hostile(text) for text in STRINGS))
    assert len(texts) >= 60
    plain = Page.read(full_page(tmp_path / "plain", [f"text {i}" for i in range(len(texts))]))
    for number, place in enumerate((0, texts.index("<script>alert(1)</script>"), texts.index('" onload="x'))):
        turned = [*texts[place:], *texts[:place]]
        page = Page.read(full_page(tmp_path / f"hostile{number}", turned))
        # The same elements: only how many cells a matrix, a list of levels or a run has depends on the data.
        assert set(page.elements) == set(plain.elements)
        assert [one for one in page.elements if one[0] not in ("svg", "rect", "circle", "line", "polyline")].count(
            ("script", ())
        ) == 1
        page.check_policy()
        for text in turned[:3]:
            assert " ".join(text.split()) in " ".join(page.text.split())


def test_no_rows_leaves_no_text_of_a_row(tmp_path: Path) -> None:
    texts = [f"secret-{i}-text" for i in range(30)]
    shown = full_page(tmp_path / "with", texts).read_text(encoding="utf-8")
    assert "secret-17-text" in shown
    hidden = Page.read(full_page(tmp_path / "without", ["label one", "label two", "label three"], "--no-rows"))
    assert "This page was made without texts of rows." in hidden.text
    assert ("input", ("id", "type", "autocomplete")) not in hidden.elements


@pytest.mark.parametrize(("length", "mark"), [(2000, ""), (2001, " [… 1 more characters]"), (9000, " [… 7,000 more")])
def test_a_long_text_is_cut_with_a_mark(length: int, mark: str) -> None:
    cut = cut_text("x" * length)
    assert cut.startswith("x" * 2000 + mark)
    assert cut.count("x") == 2000


def test_a_page_has_the_rows_that_fit(tmp_path: Path) -> None:
    prompt = write_prompt(tmp_path, "key: [id]\nkeep: [body]\n", "{{ body[:10] }}")
    data = write_csv(tmp_path / "in.csv", [(i, f"{i} {'long ' * 500}") for i in range(400)])
    run(prompt, data, tmp_path / "out.duckdb")
    found = se.report(se.load(prompt), output=tmp_path / "out.duckdb", page=tmp_path / "page.html")
    assert found.sample is not None
    assert 150 < len(found.sample.lines) < 400
    assert found.sample.left_out == 400 - len(found.sample.lines)
    assert (tmp_path / "page.html").stat().st_size < 1_000_000
    few = se.report(se.load(prompt), output=tmp_path / "out.duckdb", rows=7)
    assert few.sample is not None
    assert few.sample.lines == found.sample.lines[:7]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--output", "none.duckdb"), "none.duckdb: no run has written it"),
        (("--output", "{output}", "--page", "page.pdf"), "page.pdf: a page is an .html file"),
        (("--output", "{output}", "--page", "mine.html"), "mine.html was not written by sqlenrich: remove it"),
        (("--output", "other.duckdb"), "other.duckdb has no results of intent; it has those of: none"),
    ],
)
def test_bad_input(output: Path, monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str], words: str) -> None:
    monkeypatch.chdir(output.parent)
    Path("mine.html").write_text("<p>my own</p>", encoding="utf-8")
    with duckdb.connect("other.duckdb") as db:
        db.execute("CREATE TABLE other (x INT); CREATE TABLE other_quarantine (x INT)")
    result = call("report", "intent.prompt", *(one.format(output=output) for one in arguments))
    assert (result.status, words in result.error) == (2, True), result.error
    assert Path("mine.html").read_text(encoding="utf-8") == "<p>my own</p>"


def test_other_columns_than_those_of_the_file(output: Path) -> None:
    fields = "output: {label(enum): [a, b, c], colour: string}\n"
    prompt = write_prompt(output.parent, "key: [id]\n", output=fields)
    error = call("report", prompt, "--output", output).error
    assert "the tables of intent don't fit" in error
    assert error.endswith("run it again with this version first")


def facts(found: se.QualityReport) -> dict[str, Any]:
    return dict(json.loads(found.to_json()))


def test_the_json_has_every_part(output: Path) -> None:
    assert set(facts(report(output))) >= {"tiles", "runs", "table", "answers", "accuracy", "review", "request"}
