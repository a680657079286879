"""Several prompt files as steps of one run: order, results, caps, stops, kills, on DuckDB, Spark and warehouses."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

import sqlenrich as se
from sqlenrich.ask.observer import Stopper
from sqlenrich.cli.main import cli
from tests.support.endpoint import ScriptedEndpoint
from tests.support.warehouses import Standin

FILES = {
    "tickets": """---
key: [id]
keep: [body]
output: {"intent(enum)": [card, transfer, other], "topics?(array)": string}
---
Classify: {{ body }}
""",
    "replies": """---
source: {ref: tickets}
key: [id]
keep: [intent]
output: {reply: string}
---
Answer a {{ intent }} message: {{ body }}
""",
    "digest": """---
source:
  query: >
    SELECT t.intent, count(*) AS messages, min(r.reply) AS example
    FROM {{ ref('tickets') }} t JOIN {{ ref("replies") }} r ON t.id = r.id GROUP BY t.intent
key: [intent]
columns: {messages: bigint}
output: {summary: string}
---
Summarize {{ messages }} {{ intent }} messages such as: {{ example }}
""",
}
ROWS = [{"id": number, "body": None if number == 5 else f"text {number % 20}"} for number in range(30)]
ENDED = 'SELECT name, status FROM "_sqlenrich_runs" ORDER BY started_at'


def answer(prompt: str) -> str:
    """An answer that depends on the prompt alone; those to one text can't be used."""
    if prompt.startswith("Classify"):
        intent = ("card", "transfer", "other")[len(prompt) % 3]
        return "no JSON" if "text 7" in prompt else json.dumps({"intent": intent, "topics": [prompt[-2:]]})
    return json.dumps({"reply" if prompt.startswith("Answer") else "summary": f"of {prompt.splitlines()[0]}"})


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Write the prompt files and the input."""
    for name, text in FILES.items():
        (tmp_path / f"{name}.prompt").write_text(text)
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return {name: tmp_path / f"{name}.prompt" for name in FILES}


def tables(output: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return the results of all steps, without the time of the answers."""
    found = {}
    with duckdb.connect(str(output), read_only=True) as db:
        for name in FILES:
            for table in (name, f"{name}_quarantine"):
                found[table] = db.sql(f"SELECT * EXCLUDE (_asked_at) FROM {table} ORDER BY ALL").fetchall()
    return found


def test_steps_give_the_tables_of_single_runs_and_ask_nothing_again(files: Mapping[str, Path], tmp_path: Path) -> None:
    together, alone, source = tmp_path / "steps.duckdb", tmp_path / "alone.duckdb", tmp_path / "in.jsonl"
    with ScriptedEndpoint(content=answer) as endpoint:
        served = se.Endpoint(endpoint.url, model="mock")
        steps = se.run(
            [files["digest"], files["replies"], files["tickets"]], input=source, output=together, model=served
        )
        asked = Counter(seen.prompt for seen in endpoint.asked)
        singles = [
            se.run(files[name], input=source if name == "tickets" else None, output=alone, model=served)
            for name in FILES
        ]
        assert Counter(seen.prompt for seen in endpoint.asked) == asked + asked
        assert list(steps.reports) == list(FILES)
        counts = [(one.rows_in, one.enriched, one.quarantined, one.calls) for one in singles]
        assert [(one.rows_in, one.enriched, one.quarantined, one.calls) for one in steps.reports.values()] == counts
        assert steps["tickets"].quarantined > 0
        assert tables(together) == tables(alone)
        assert [report.run_id for report in steps.reports.values()] == [f"{steps.group}.{n}" for n in (1, 2, 3)]
        assert (steps.exit_status, steps.skipped) == (0, {})
        with duckdb.connect(str(together), read_only=True) as db:
            lines = db.sql("SELECT run_id, name FROM _sqlenrich_runs ORDER BY run_id").fetchall()
        assert lines == [(f"{steps.group}.{n}", name) for n, name in enumerate(FILES, start=1)]

        paths = list(files.values())
        again = se.run(paths, input=source, output=together, model=served)
        assert [report.calls for report in again.reports.values()] == [0, 0, 0]
        files["replies"].write_text(FILES["replies"].replace("Answer a", "Answer politely a"))
        changed = se.run(paths, input=source, output=together, model=served)
        assert [report.calls for report in changed.reports.values()] == [
            0, again["replies"].distinct_requests, again["digest"].distinct_requests,
        ]  # fmt: skip
        source.write_text(source.read_text() + json.dumps({"id": 99, "body": "a new text"}) + "\n")
        grown = se.run(paths, input=source, output=together, model=served)
        assert [report.calls for report in grown.reports.values()] == [1, 1, 1], "one intent has another number"
    for name in FILES:
        assert se.audit(files[name], output=together).holds


def header(**sources: str) -> dict[str, str]:
    """Return prompt files with these sources."""
    text = "---\nsource: {}\nkey: [id]\nkeep: [body]\noutput: {{{}: string}}\n---\nTell {{{{ body }}}}\n"
    return {name: text.format(source, f"of_{name}") for name, source in sources.items()}


REFUSED: list[tuple[dict[str, str], str]] = [
    (header(a="{ref: b}", b="{ref: a}"), "a reads b reads a: steps can't read one another in a circle"),
    (header(a="{ref: c}", b="{ref: a}", c="{ref: b}"), "steps can't read one another in a circle"),
    (header(a="raw", b="{ref: a}") | {"b": "---\nsource: {ref: a}\nkey: [id]\noutput: {x: string}\n---\n{{ bdy }}\n"},
     'b.prompt reads the column "bdy" of a, which will not have it (body?); it has: id, body, of_a, _request_hash'),
    (header(a="raw") | {"b": "---\nsource: {query: \"SELECT id, bdy AS body FROM {{ ref('a') }}\"}\nkey: [id]\n"
                             "output: {x: string}\n---\n{{ body }}\n"}, "b.prompt: source.query: Column 'bdy'"),
    (header(a="raw") | {"b": "---\nsource: {query: \"SELECT id FROM {{ ref('a') }}\"}\nkey: [id]\n"
                             "output: {x: string}\n---\n{{ body }}\n"},
     'b.prompt reads the column "body" of its query, which will not have it; it has: id'),
    (header(a="raw", b="{ref: 1a}"), 'source: ref names an enrichment, such as tickets for tickets.prompt, not "1a"'),
    (header(a="{ref: a}", b="raw"), "source: a can't read its own result"),
    (header(a="raw", b="{query: 'SELECT * FROM {{ source(1) }}'}"), "between {{ and }} stands ref('NAME') alone"),
    (header(a="raw", b="{refs: a}"), 'source must be a table name, {query: "SELECT ..."} or {ref: NAME}'),
]  # fmt: skip


@pytest.mark.parametrize(("written", "told"), REFUSED)
def test_steps_that_can_not_run_are_told_before_anything_is_asked(
    written: Mapping[str, str], told: str, tmp_path: Path
) -> None:
    (tmp_path / "in.jsonl").write_text('{"id": 1, "body": "a"}\n')
    paths = []
    for name, text in written.items():
        paths.append(tmp_path / f"{name}.prompt")
        paths[-1].write_text(text)
    for command in (
        [
            "run",
            *map(str, paths),
            "--input",
            str(tmp_path / "in.jsonl"),
            "--output",
            str(tmp_path / "o.duckdb"),
            "--mock",
        ],
        ["check", *map(str, paths)],
    ):
        done = CliRunner().invoke(cli, command)
        assert told in str(done.exception) + done.output
    assert not (tmp_path / "o.duckdb").exists()


def test_a_missing_table_and_outputs_that_hold_one_result_are_refused(
    files: Mapping[str, Path], tmp_path: Path
) -> None:
    source = tmp_path / "in.jsonl"
    with pytest.raises(se.SqlenrichError, match="no such file"):
        se.run([files["replies"], files["digest"]], output=tmp_path / "o.duckdb", model=se.Mock())
    paths = list(files.values())
    for output, told in (
        (tmp_path / "o.csv", "can't hold the results of several steps"),
        (None, "steps need one place for their tables"),
        ([tmp_path / "o.duckdb", tmp_path / "o.csv"], "give one --output, a .duckdb"),
    ):
        with pytest.raises(se.ConfigError, match=told):
            se.run(paths, input=source, output=output, model=se.Mock())
    with pytest.raises(se.ConfigError, match="would both write the table tickets"):
        se.run([paths[0], paths[0]], input=source, output=tmp_path / "o.duckdb", model=se.Mock())


def test_a_plan_tells_what_is_known_before_the_first_call(files: Mapping[str, Path], tmp_path: Path) -> None:
    output = str(tmp_path / "o.duckdb")
    command = [*map(str, files.values()), "--input", str(tmp_path / "in.jsonl"), "--output", output, "--mock"]
    planned = CliRunner().invoke(cli, ["plan", *command])
    assert "plan of replies: at most 30 calls: a row for each that tickets accepts" in planned.output
    assert "plan of digest: unknown until tickets and replies have run" in planned.output
    found = json.loads(CliRunner().invoke(cli, ["run", *command, "--dry-run", "--json"]).output)
    assert (found["tickets"]["calls"], found["digest"]["known"]) == (20, "unknown until tickets and replies have run")
    assert not Path(output).exists()
    done = CliRunner().invoke(cli, ["run", *command, "--yes"])
    assert done.exit_code == 0
    lines = done.stderr.splitlines()
    assert lines[0] == "step tickets: 30 rows, 0 of 20 distinct requests already answered, 20 calls"
    assert lines[1] == "step replies: at most 30 calls: a row for each that tickets accepts"
    report = json.loads(CliRunner().invoke(cli, ["run", *command, "--yes", "--json"]).stdout)
    assert (report["exit_status"], list(report["steps"])) == (0, list(FILES))


OVER = "it reads tickets, which ended with status 3"
STOPPED = "it reads tickets, which ended with status 4"
STOPS: list[tuple[dict[str, Any], int, list[str], dict[str, str]]] = [
    # options, exit status, the steps that ran, the reasons of the others
    ({"mock_failures": {"bad_json": 1.0}}, 3, ["tickets"],
     {"replies": OVER, "digest": OVER}),
    ({"mock_failures": {"bad_json": 1.0}, "keep_going": True}, 3, ["tickets", "replies", "digest"], {}),
    ({"max_calls": 15}, 4, ["tickets"],
     {"replies": STOPPED, "digest": STOPPED}),
    ({"max_calls": 25, "keep_going": True}, 4, ["tickets", "replies"],
     {"digest": "it reads replies, which ended with status 4"}),
    ({"max_rows": 22}, 4, ["tickets", "replies"], {"digest": "it reads replies, which ended with status 4"}),
]  # fmt: skip


@pytest.mark.parametrize(("options", "status", "ran", "skipped"), STOPS)
def test_a_step_that_ends_early_stops_those_that_read_it(
    options: dict[str, Any],
    status: int,
    ran: list[str],
    skipped: dict[str, str],
    files: Mapping[str, Path],
    tmp_path: Path,
) -> None:
    output = tmp_path / "o.duckdb"
    steps = se.run(list(files.values()), input=tmp_path / "in.jsonl", output=output, mock=True, **options)
    assert (steps.exit_status, list(steps.reports), steps.skipped) == (status, ran, skipped)
    for cap in {"max_calls", "max_rows"} & set(options):
        assert sum(report.calls for report in steps.reports.values()) == options[cap]
    if status == 4:
        after = se.run(list(files.values()), input=tmp_path / "in.jsonl", output=output, mock=True)
        assert (after.exit_status, after.skipped) == (0, {})


def test_a_stop_ends_all_steps_and_options_of_the_input_are_for_the_first(
    files: Mapping[str, Path], tmp_path: Path
) -> None:
    stopper, source = Stopper(), tmp_path / "in.jsonl"
    other = tmp_path / "other.prompt"
    other.write_text(FILES["tickets"].replace("Classify", "Sort"))
    stopper.stop()
    stopped = se.run(
        [files["tickets"], other], input=source, output=tmp_path / "s.duckdb", model=se.Mock(), stopper=stopper
    )
    assert (list(stopped.reports), stopped.skipped) == (["tickets"], {"other": "the run was stopped"})
    assert stopped.exit_status == 4
    source.write_text("".join(json.dumps({"id": n, "Text": f"text {n}"}) + "\n" for n in range(6)))
    paths = [files["tickets"], files["replies"]]
    steps = se.run(
        paths, input=source, output=tmp_path / "o.duckdb", model=se.Mock(), columns={"body": "Text"}, where="id < 4"
    )
    assert [report.rows_in for report in steps.reports.values()] == [4, 4]


def test_a_command_that_is_killed_in_each_step_pays_nothing_twice(files: Mapping[str, Path], tmp_path: Path) -> None:
    drawn = random.Random(5)
    output, source = tmp_path / "o.duckdb", tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"id": n, "body": f"text {n}"}) + "\n" for n in range(300)))
    with ScriptedEndpoint(content=answer, latency_s=0.03) as endpoint:
        command = [
            sys.executable, "-m", "sqlenrich", "run", *map(str, files.values()), "--input", str(source), "--output",
            str(output), "--endpoint", endpoint.url, "--model", "mock", "--concurrency", "8", "--yes",
        ]  # fmt: skip
        for begun in ("Classify", "Answer", "Summarize"):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wanted = 1 if begun == "Summarize" else 60
            while sum(seen.prompt.startswith(begun) for seen in endpoint.asked) < wanted:
                assert process.poll() is None
                time.sleep(0.005)
            time.sleep(drawn.uniform(0, 0.02))
            process.kill()
            process.wait()
        assert subprocess.run(command, check=False, capture_output=True).returncode == 0
        asked = Counter(seen.prompt for seen in endpoint.asked)
        again = subprocess.run(command, check=False, capture_output=True)
        assert again.returncode == 0
        assert sum(asked.values()) == len(endpoint.asked), "the last command asks nothing"
    assert len([prompt for prompt in asked if prompt.startswith("Classify")]) == 300
    assert sum(asked.values()) - len(asked) <= 3 * (8 + 256)
    with duckdb.connect(str(output), read_only=True) as db:
        counts = db.execute(
            "SELECT (SELECT count(*) FROM tickets) + (SELECT count(*) FROM tickets_quarantine), "
            "(SELECT count(*) FROM replies) - (SELECT count(*) FROM tickets)"
        ).fetchone()
    assert counts == (300, 0)
    for name in FILES:
        assert se.audit(files[name], output=output).holds


@pytest.mark.spark
def test_steps_on_spark_equal_those_on_duckdb(files: Mapping[str, Path], tmp_path: Path) -> None:
    from tests.standins.spark import INTERPRETED, settings, spark_session

    session, source = spark_session(), tmp_path / "in.jsonl"
    paths = [files["tickets"], files["replies"]]
    with settings(INTERPRETED):
        steps = se.run(paths, input=source, output=tmp_path / "out", spark=session, model=se.Mock())
    own = se.run(paths, input=source, output=tmp_path / "o.duckdb", model=se.Mock())
    named = ["id", "intent", "reply"]
    found = session.read.parquet(str(tmp_path / "out" / "replies")).select(*named).collect()
    assert sorted(map(tuple, found)) == sorted(
        tuple(row[name] for name in named) for row in own["replies"].table().to_pylist()
    )
    assert [(one.rows_in, one.calls) for one in steps.reports.values()] == [
        (one.rows_in, one.calls) for one in own.reports.values()
    ]


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_steps_in_a_warehouse_read_the_results_of_its_schema(place: Standin, tmp_path: Path) -> None:
    second = place.folder / "urgent.prompt"
    second.write_text(
        "---\nsource: {ref: tickets}\nkey: [id]\nkeep: [channel]\nparams: {temperature: 0, max_tokens: 20}\n"
        'checks: {not_c: "intent <> \'c\'", of_a_channel: "channel is null or length(channel) > 2"}\n'
        "output:\n  type: object\n  properties:\n    intent: {type: string, enum: [a, b, c]}\n"
        "    urgency: {type: integer, minimum: 1, maximum: 5}\n  required: [intent, urgency]\n---\n"
        "How urgent is {{ id }}, a {{ intent }} of {{ channel }}?\n"
    )
    paths = [second, place.folder / "tickets.prompt"]
    given: dict[str, Any] = {
        "engine": place.engine,
        "profile": "standin",
        "input": place.source,
        "output": place.schema,
    }
    steps = se.run(paths, **given)
    assert list(steps.reports) == ["tickets", "urgent"]
    assert steps["urgent"].rows_in == steps["tickets"].enriched > 0
    assert len(place.rows("urgent", "id")) == steps["urgent"].enriched
    refused = place.rows("urgent_quarantine", "_error", "_error_detail")
    assert len(refused) == steps["urgent"].quarantine["CHECK"] > 0
    assert set(refused) == {("CHECK", "not_c")}
    assert {intent for (intent,) in place.rows("urgent", "intent")} == {"a", "b"}
    again = se.run(paths, **given)
    assert [report.calls for report in again.reports.values()] == [0, 0]


def test_scripts_and_dbt_name_the_result_of_the_other(files: Mapping[str, Path], tmp_path: Path) -> None:
    (tmp_path / "sqlenrich.toml").write_text('[targets.wh]\nengine = "snowflake"\nschema = "db.out"\n')
    done = CliRunner().invoke(cli, ["render", str(files["replies"]), "--target", "wh", "--step", "prompts"])
    assert done.exit_code == 0, done.output
    assert "FROM db.out.tickets" in done.output
    joined = CliRunner().invoke(cli, ["render", str(files["digest"]), "--target", "wh", "--step", "prompts"])
    assert "db.out.tickets" in joined.output
    assert "db.out.replies" in joined.output
    plain = se.render(files["replies"], engine="duckdb", step="prompts")
    assert "tickets" in plain
    (tmp_path / "dbt_project.yml").write_text("name: shop\nversion: '1.0'\nprofile: shop\n")
    written = CliRunner().invoke(cli, ["dbt", str(files["replies"]), "--project", str(tmp_path)])
    assert written.exit_code == 0, written.output
    assert any("ref('tickets')" in path.read_text() for path in tmp_path.rglob("*.sql"))
