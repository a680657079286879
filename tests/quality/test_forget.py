"""``sqlenrich forget``: no byte of a forgotten text stays in any file, and all other rows stay as they are."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sqlenrich as se
import sqlenrich.quality.forget.forgetting
import sqlenrich.store.duckdb.backend
from sqlenrich.store.duckdb.database import Policy
from tests.support import killed_forget
from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import Result, call, opened, rows, write_csv, write_prompt

COUNT = 60
TABLES = ("intent", "intent_quarantine", "intent_prompts", "intent_checked", "intent_responses")
OUTPUT = """output:
  note: string
  tags(array): string
"""
MOMENTS = 10


def secret(row: int) -> str:
    """Return the text of a row, which no other text holds; rows 50 to 59 have the texts of 40 to 49."""
    return f"secret{row if row < 50 else row - 10:03}text"


def answer(prompt: str) -> str:
    text = prompt.partition(": ")[2]
    return json.dumps({"note": f"it says {text}", "tags": [text]} if int(text[6:9]) % 5 else {"note": 7, "why": text})


@pytest.fixture
def done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a run without compression, and the files that it wrote."""
    plain = partial(Policy, compression="uncompressed")
    monkeypatch.setattr(sqlenrich.store.duckdb.backend, "Policy", plain)
    monkeypatch.setattr(sqlenrich.quality.forget.forgetting, "Policy", plain)
    folder = tmp_path / "done"
    folder.mkdir()
    prompt = write_prompt(tmp_path, "key: [id]\nkeep: [body]\n", output=OUTPUT)
    data = write_csv(tmp_path / "in.csv", [(i, secret(i)) for i in range(COUNT)])
    files = [
        part for name in ("out.duckdb", "out.csv", "out.jsonl", "out.parquet") for part in ("--output", folder / name)
    ]
    with ScriptedEndpoint(content=answer, models=("mock",)) as endpoint:
        result = call("run", prompt, "--input", data, *files, "--endpoint", endpoint.url, "--json")
    assert result.status == 0, result.err
    return folder


def forget(folder: Path, *arguments: object) -> Result:
    return call("forget", folder.parent / "intent.prompt", "--output", folder / "out.duckdb", "--json", *arguments)


def audit(folder: Path) -> Result:
    return call("audit", folder.parent / "intent.prompt", "--output", folder / "out.duckdb", "--json")


def content(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of each table in their order."""
    return {table: rows(path, f"FROM {table}") for table in TABLES}


def holding(folder: Path, text: str) -> set[str]:
    """Return the files in which a text stands."""
    found = {path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()}
    with duckdb.connect() as db:
        for path in folder.glob("*.parquet"):
            if text in str(db.execute(f"FROM '{path}'").fetchall()):
                found.add(path.name)
    return found


def leave_log(output: Path) -> None:
    """Leave pending requests in the write-ahead log, as a killed run does."""
    db = duckdb.connect(str(output))
    db.execute("PRAGMA disable_checkpoint_on_shutdown")
    db.execute("CREATE TABLE intent_pending AS SELECT request_hash, 2 AS attempt, prompt FROM intent_prompts")
    db.close()
    assert Path(f"{output}.wal").exists()


@pytest.mark.parametrize(
    ("arguments", "gone"),
    [
        (("--row", "id=17"), {17}),
        (("--row", "id=20"), {20}),
        (("--where", "body < 'secret004'"), {0, 1, 2, 3}),
        (("--where", "note = 'it says secret031text'"), {31}),
        (("--where", "_error IS NOT NULL AND id >= '50'"), set()),
        (("--row", "id=42"), set()),
        (("--before", "2999-01-01"), set(range(50))),
    ],
)
def test_no_byte_of_a_forgotten_text_stays(done: Path, arguments: tuple[str, ...], gone: set[int]) -> None:
    output = done / "out.duckdb"
    leave_log(output)
    (done / ".out.csv.0a1b2c3d.tmp").write_text(secret(17) + secret(20))  # of a killed export
    for row in gone:
        assert {"out.duckdb", "out.duckdb.wal"} <= holding(done, secret(row))
        assert len(holding(done, secret(row)) & {"out.csv", "out_quarantine.csv"}) == 1
    result = forget(done, *arguments)
    assert result.status == 0, result.err
    assert {row: found for row in gone if (found := holding(done, secret(row)))} == {}
    for row in set(range(50)) - gone:
        assert "out.duckdb" in holding(done, secret(row))
    assert (audit(done).status, audit(done).report["problems"]) == (0, [])


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with two runs of a prompt whose texts are counted, evaluated and reviewed; nothing is compressed.

    The second version of the prompt has other hashes and other answers; those of the first are repaired. Row 9 has the
    answer of row 8.
    """
    plain = partial(Policy, compression="uncompressed")
    duckdb_rooms = sqlenrich.store.duckdb
    for module in (duckdb_rooms.backend, duckdb_rooms.database, sqlenrich.quality.forget.forgetting):
        monkeypatch.setattr(module, "Policy", plain)
    folder = tmp_path / "measured"
    folder.mkdir()
    output, sheet = folder / "out.duckdb", tmp_path / "sheet.csv"
    data = write_csv(tmp_path / "in.csv", [(i, secret(i)) for i in range(10)])
    labels = write_csv(tmp_path / "labels.csv", [(i, f"right{i:03}label") for i in range(10)], ("id", "expected_note"))
    with ScriptedEndpoint(models=("mock",)) as endpoint:
        asks = ("--output", output, "--endpoint", endpoint.url, "--model", "mock", "--input", data)
        for version in ("v1", "v2"):
            header = f"key: [id]\nversion: {version}\ndrift: {{values: [note]}}\n"
            prompt = write_prompt(tmp_path, header, f"{version} {{{{ body }}}}", output="output: {note: string}\n")

            def answered(text: str, version: str = version) -> str:
                row = min(8, int(text.partition("secret")[2][:3]))
                note = json.dumps({"note": f"note{version}{row:03}text"})
                return f"```json\n{note}\n```" if version == "v1" else note

            endpoint.content = answered
            assert call("run", prompt, *asks).status == 0
            assert call("evaluate", prompt, *asks, "--truth", labels).status == 0
    assert call("review", prompt, "--output", output, "--sheet", sheet).status == 0
    with sheet.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    for line in lines:
        line |= {"verdict: note": "n", "right value: note": f"better{int(line['id']):03}text"}
    with sheet.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    assert call("review", prompt, "--output", output, "--read", sheet).status == 0
    return folder


def test_no_text_stays_in_evaluations_reviews_and_profiles(measured: Path) -> None:
    texts = [pattern.format(4) for pattern in (
        "secret{:03}text", "notev1{:03}text", "notev2{:03}text", "right{:03}label", "better{:03}text"
    )]  # fmt: skip
    output = measured / "out.duckdb"
    assert [text for text in texts if not holding(measured, text)] == []
    counted = "SELECT run, field, sum(rows) FROM intent_profiles GROUP BY ALL ORDER BY ALL"
    before = rows(output, counted)
    assert forget(measured, "--row", "id=4").status == 0
    # Of the answers of the first version no row is left that would name them: they go by their age.
    assert {text for text in texts if holding(measured, text)} == {"notev1004text"}
    assert rows(output, "SELECT level, count(*) FROM intent_profiles WHERE field = 'note' GROUP BY 1 ORDER BY 1") == [
        ("(forgotten)", 1), *((f"notev{v}{i:03}text", 1) for v in (1, 2) for i in range(9) if (v, i) != (2, 4))
    ]  # fmt: skip
    assert rows(output, counted) == before
    assert rows(output, "SELECT count(*) FROM intent_evaluations WHERE row_key LIKE '%\"4\"%'") == [(0,)]
    assert rows(output, "SELECT count(*) FROM intent_evaluations") == [(18,)]
    assert rows(output, "SELECT count(*) FROM intent_reviews") == [(9,)]
    assert call("drift", measured.parent / "intent.prompt", "--output", output).status == 0
    # The answer that another row has stays a level.
    assert forget(measured, "--row", "id=9").status == 0
    assert holding(measured, "notev2008text") == {"out.duckdb"}
    assert holding(measured, "right009label") == set()
    assert forget(measured, "--before", "2999-01-01").status == 0
    assert holding(measured, "notev") == holding(measured, "right0") == holding(measured, "better") == set()
    assert {level for (level,) in rows(output, "SELECT level FROM intent_profiles WHERE field = 'note'")} == {
        "(forgotten)"
    }


def test_all_other_rows_stay_as_they_are(done: Path) -> None:
    before, files = content(done / "out.duckdb"), {path.name: path.read_text() for path in done.glob("*.csv")}
    with duckdb.connect(str(done / "out.duckdb")) as db:
        db.execute("CREATE TABLE mine (id INTEGER PRIMARY KEY, twice INTEGER GENERATED ALWAYS AS (2 * id))")
        db.execute("CREATE TABLE also (mine INTEGER REFERENCES mine (id), n INTEGER DEFAULT 5)")
        db.execute("INSERT INTO mine VALUES (1), (2)")
        db.execute("INSERT INTO also (mine) VALUES (2)")
        db.execute("CREATE VIEW good AS SELECT id FROM intent")
    result = forget(done, "--row", "id=17")
    assert result.report["rows"] == result.report["answers"] == 1
    after = content(done / "out.duckdb")
    for table in TABLES:
        assert after[table] == [row for row in before[table] if secret(17) not in str(row)]
        assert len(before[table]) - len(after[table]) == (0 if table == "intent_quarantine" else 1)
    for name, text in files.items():
        kept = [line for line in text.splitlines() if secret(17) not in line]
        assert (done / name).read_text().splitlines() == kept
    assert rows(done / "out.duckdb", "FROM mine") == [(1, 2), (2, 4)]
    assert rows(done / "out.duckdb", "FROM also") == [(2, 5)]
    assert rows(done / "out.duckdb", "SELECT count(*) FROM good") == [(len(after["intent"]),)]
    assert not list(done.glob(".*"))


def test_an_answer_that_other_rows_share_stays_and_is_told(done: Path) -> None:
    first = forget(done, "--row", "id=41")
    assert {name: first.report[name] for name in ("rows", "answers", "shared")} == {
        "rows": 1,
        "answers": 0,
        "shared": 1,
    }
    assert "out.duckdb" in holding(done, secret(41))
    text = call("forget", done.parent / "intent.prompt", "--output", done / "out.duckdb", "--row", "id=51")
    assert "1 row and 1 answer of intent forgotten" in text.out
    assert holding(done, secret(41)) == set()


def test_answers_of_no_row_are_told_and_go_by_their_age(done: Path) -> None:
    data = write_csv(done.parent / "in.csv", [(i, secret(i)) for i in range(10)])
    prompt = done.parent / "intent.prompt"
    with ScriptedEndpoint(content=answer, models=("mock",)) as endpoint:
        options = ("--output", done / "out.duckdb", "--endpoint", endpoint.url)
        assert call("run", prompt, "--input", data, *options).status == 0
    text = call("forget", prompt, "--output", done / "out.duckdb", "--row", "id=1").out
    assert "40 answers of rows that an earlier input or prompt had cannot be told apart: --before DAY" in text
    assert forget(done, "--before", "2999-01-01").report["answers"] == 49
    assert holding(done, "secret") == set()


def test_the_input_is_not_changed_and_a_dry_run_changes_nothing(done: Path) -> None:
    before = (done / "out.duckdb").read_bytes()
    assert forget(done, "--row", "id=17", "--dry-run").report["rows"] == 1
    assert (done / "out.duckdb").read_bytes() == before
    forget(done, "--row", "id=17")
    assert secret(17) in (done.parent / "in.csv").read_text()


def test_a_run_goes_on_over_what_is_left(done: Path) -> None:
    prompt, data = done.parent / "intent.prompt", write_csv(done.parent / "in.csv", [(i, secret(i)) for i in range(20)])
    forget(done, "--row", "id=17")
    with ScriptedEndpoint(content=answer, models=("mock",)) as endpoint:
        options = ("--output", done / "out.duckdb", "--endpoint", endpoint.url, "--json")
        result = call("run", prompt, "--input", data, *options)
    assert (result.status, result.report["calls"], result.report["rows_in"]) == (0, 1, 20)
    assert audit(done).report["problems"] == []


def test_killed_at_any_moment_it_is_the_old_file_or_the_new(done: Path, tmp_path: Path) -> None:
    copies = tmp_path / "killed"
    copies.mkdir()
    old = content(done / "out.duckdb")
    arguments = (done.parent / "intent.prompt", done / "out.duckdb", 17, copies, MOMENTS)
    program = [sys.executable, killed_forget.__file__, *map(str, arguments)]
    ended = subprocess.run(program, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    new = content(copies / str(MOMENTS) / "out.duckdb")
    assert new != old
    kinds = []
    for place in range(MOMENTS):
        folder = copies / str(place)
        found = content(folder / "out.duckdb")
        assert found in (old, new)
        kinds.append(found == new)
        accepted = {len(path.read_text().splitlines()) for path in folder.glob("out.csv")}
        assert accepted <= {len(old["intent"]) + 1, len(new["intent"]) + 1}
        if not kinds[-1]:
            se.forget(se.load(done.parent / "intent.prompt"), output=folder / "out.duckdb", row={"id": 17})
            assert content(folder / "out.duckdb") == new
        assert "secret017text" not in str([path.read_bytes() for path in folder.glob("*.csv")])
    assert set(kinds) == {False, True}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--row", "id=9999"), "has no row id=9999 of intent"),
        (("--row", "nr=9"), '"nr" is no column of the key, which is id'),
        (("--where", "nope = 1"), 'where nope = 1: Referenced column "nope" not found'),
        (("--before", "yesterday"), '"yesterday" is no day: write it as 2026-11-30'),
        ((), "which rows? Give one of --row, --where and --before"),
        (("--row", "id=1", "--where", "true"), "which rows? Give one of --row, --where and --before"),
    ],
)
def test_bad_input_is_told_in_one_line(done: Path, arguments: tuple[str, ...], told: str) -> None:
    before = (done / "out.duckdb").read_bytes()
    result = forget(done, *arguments)
    assert result.status == 2
    assert told in result.error
    assert (done / "out.duckdb").read_bytes() == before


def test_a_database_that_is_open_elsewhere_is_not_touched(done: Path) -> None:
    with opened(done / "out.duckdb"):
        result = forget(done, "--row", "id=17")
    assert result.status == 1
    assert "is open in this process" in result.error


def test_a_file_of_another_database_is_not_written_over(done: Path) -> None:
    prompt, data = (
        done.parent / "intent.prompt",
        write_csv(done.parent / "in.csv", [(1, secret(1)), (2, "others007text")]),
    )
    with ScriptedEndpoint(content=answer, models=("mock",)) as endpoint:
        outputs = ("--output", done.parent / "other.duckdb", "--output", done / "out.csv")
        assert call("run", prompt, "--input", data, *outputs, "--endpoint", endpoint.url).status == 0
    before = (done / "out.csv").read_text()
    text = call("forget", prompt, "--output", done / "out.duckdb", "--row", "id=1").out
    assert f"{done / 'out.csv'} holds rows that no run on" in text
    assert (done / "out.csv").read_text() == before
