"""The command line: stdout and stderr, confirmation, exit statuses, and the small commands."""

from __future__ import annotations

import json
import os
import pty
import select
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.cli.examples import EXAMPLES
from sqlenrich.cli.main import cli
from sqlenrich.cli.root import SECTIONS
from sqlenrich.engines import ENGINES
from tests.support import runs
from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import COMMAND, GOOD, call, rows, run, start, wait, write_csv, write_prompt

PLAN = "plan: 3 rows, 2 distinct requests, 0 already answered, 2 calls to mock"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "in.csv", [(1, "a"), (2, "a"), (3, "b")])


@pytest.fixture(autouse=True)
def no_endpoint_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_data_on_stdout_and_talk_on_stderr(tmp_path: Path, data: Path) -> None:
    """In a separate process, so nothing else writes to either of them."""
    prompt = write_prompt(tmp_path)
    result = wait(start("run", prompt, "--input", data, "--output", tmp_path / "out.duckdb", "--mock", "--json"))
    assert result.out.count("\n") == 1
    assert result.report["enriched"] == 3
    lines = result.err.splitlines()
    assert lines[0] == PLAN
    assert lines[1] == "3 rows in = 3 enriched + 0 quarantined"
    assert lines[2].startswith("2 calls (0 retries), 0 of 2 distinct requests already answered, ")
    assert lines[3].endswith("; cost unknown: no prices given (--prices)")
    assert lines[4] == f"  -> {tmp_path / 'out.duckdb'}"
    quiet = wait(start("run", prompt, "--input", data, "--output", tmp_path / "out.duckdb", "--mock"))
    assert (quiet.status, quiet.out) == (0, "")
    assert quiet.err.splitlines()[0] == "plan: 3 rows, 2 distinct requests, 2 already answered, 0 calls to mock"


def test_mock_rows_say_so(tmp_path: Path, data: Path) -> None:
    run(write_prompt(tmp_path, "key: [id]\nmodel: gpt-9\n"), data, tmp_path / "out.duckdb")
    assert rows(tmp_path / "out.duckdb", "SELECT DISTINCT _model FROM intent") == [("mock",)]
    assert rows(tmp_path / "out.duckdb", "SELECT DISTINCT model FROM intent_responses") == [("mock",)]


def test_no_model_is_a_usage_error_that_names_the_three_ways(tmp_path: Path, data: Path) -> None:
    result = call("run", write_prompt(tmp_path), "--input", data, "--output", tmp_path / "out.duckdb", "--json")
    assert (result.status, result.out) == (2, "")
    for way in ("--endpoint URL", "[endpoints.NAME] in sqlenrich.toml", "OPENAI_BASE_URL", "--mock"):
        assert way in result.error
    assert not (tmp_path / "out.duckdb").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("run",), "Missing argument 'FILE...'"),
        (("run", "x.prompt", "--nope"), "No such option"),
        (("run", "{prompt}", "--input", "{data}", "--mock"), "where to? Give --output out.duckdb (or .csv"),
        (("run", "{prompt}", "--target", "x"), 'no target "x"; there are: none; write [targets.x] in sqlenrich.toml'),
        (("{run}", "--max-rows", "-1"), "--max-rows"),
        (("{run}", "--concurrency", "0"), "--concurrency"),
        (("{run}", "--column", "body"), '"body": write NAME=SOURCE, e.g. body="Message Text"'),
        (("{run}", "--mock-failures", "bad_json"), '"bad_json": write kind=share'),
        (("{run}", "--mock", "--mock-failures", "bad=1"), 'unknown failure "bad": known are bad_json, missing_field'),
        (("{run}", "--mock", "--mock-failures", "error=2"), "the share of error must be from 0 to 1, not 2.0"),
        (("{run}", "--mock", "--mock-failures", "error=0.6,refusal=0.6"), "add up to more than 1"),
        (
            ("{run}", "--endpoint", "http://127.0.0.1:1/v1", "--mock-failures", "error=1"),
            "--mock-failures goes with --mock",
        ),
        (("{run}", "--endpoint", "loca"), '"loca" is neither a URL nor an endpoint of sqlenrich.toml'),
        (("nope",), "No such command 'nope'"),
        (("render", "{prompt}"), "give --engine E or --target NAME"),
        (("render", "{prompt}", "--engine", "duckdb", "--target", "x"), "give --engine E or --target NAME"),
        (("render", "{prompt}", "--engine", "duck"), 'no engine "duck"'),
        (("render", "{prompt}", "--engine", "duckdb", "--step", "promts"), 'no step "promts"'),
        (("render", "{prompt}", "--engine", "duckdb", "--step", "functions"), "add --functions installed"),
        (("preview", "{prompt}", "--mock"), "which rows? Give --input PATH"),
        (("preview", "{prompt}", "--input", "{data}"), "no model to ask"),
        (("new", "1a"), 'the name "1a" becomes a table'),
        (("new", "a", "--template", "suport_ticket"), 'no template "suport_ticket" (support_ticket?)'),
    ],
)
def test_usage_errors(tmp_path: Path, data: Path, arguments: tuple[str, ...], expected: str) -> None:
    written = {"prompt": str(write_prompt(tmp_path, "source: messages\nkey: [id]\n")), "data": str(data)}
    given: list[str] = []
    for argument in arguments:
        if argument == "{run}":
            given += ["run", written["prompt"], "--input", str(data), "--output", str(tmp_path / "out.duckdb")]
        else:
            given.append(argument.format(**written))
    result = call(*given)
    assert (result.status, result.out) == (2, "")
    assert expected in result.error


# A terminal --------------------------------------------------------------------------------------------------------


def talk(arguments: list[str], answer: str | signal.Signals) -> tuple[int, str]:
    """Run a command on a pseudo-terminal and answer its question. Give its status and its output."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    seen, answered, until = b"", False, time.monotonic() + 60
    while time.monotonic() < until:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            seen += part
        if b"Send them?" in seen and not answered:
            if isinstance(answer, str):
                os.write(ours, answer.encode())
            else:
                time.sleep(0.3)  # the question is printed before the process waits for its answer
                process.send_signal(answer)
            answered = True
    else:
        process.kill()
    status = process.wait()
    os.close(ours)
    return status, seen.decode()


@pytest.mark.parametrize(
    ("answer", "more", "asks", "status", "calls"),
    [
        ("y\n", [], True, 0, 2),
        ("\n", [], True, 0, 2),
        ("n\n", [], True, 4, 0),
        ("\x04", [], True, 4, 0),
        (signal.SIGINT, [], True, 4, 0),
        (signal.SIGTERM, [], True, 4, 0),
        ("", ["--yes"], False, 0, 2),
        pytest.param("", ["no key"], False, 0, 2, id="a server of this machine costs nothing"),
    ],
)
def test_a_terminal_is_asked_before_the_first_call(
    tmp_path: Path,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: str | signal.Signals,
    more: list[str],
    asks: bool,
    status: int,
    calls: int,
) -> None:
    output = tmp_path / "out.duckdb"
    if more != ["no key"]:
        monkeypatch.setenv("OPENAI_API_KEY", "k")  # behind a key may be a proxy of a vendor
    with ScriptedEndpoint(content=GOOD) as endpoint:
        options = ["--endpoint", endpoint.url, "--model", "mock", *(one for one in more if one != "no key")]
        command = ["run", str(write_prompt(tmp_path)), "--input", str(data), "--output", str(output), *options]
        ended, shown = talk(command, answer)
        assert ended == status, shown
        _check_question(output, shown, answer, asks=asks, status=status, calls=calls)
        again, shown = talk([*command, "--yes"], "")
        assert again == 0, shown


def _check_question(
    output: Path, shown: str, answer: str | signal.Signals, *, asks: bool, status: int, calls: int
) -> None:
    assert PLAN in shown
    assert ("Send them?" in shown) == asks
    assert rows(output, "SELECT count(*) FROM intent_responses") == [(calls,)]
    if isinstance(answer, str):
        assert rows(output, "SELECT count(*) FROM intent_quarantine") == [(3 if status else 0,)]
    else:  # the command ends at once
        assert shown.splitlines()[-1].endswith("stopped")
        assert "intent_quarantine" not in [name for (name,) in rows(output, "SELECT table_name FROM duckdb_tables()")]
    if answer == "n\n":
        assert shown.rstrip().endswith("nothing was sent: what is not answered is NOT_ASKED in intent_quarantine")


@pytest.mark.parametrize(
    ("rows", "more", "answer", "asks", "sent"),
    [
        (20, [], "", False, True),
        (21, [], "y\n", True, True),
        (21, [], "n\n", True, False),
        (21, ["--yes"], "", False, True),
        (21, ["--prompt-only"], "", False, False),
    ],
)
def test_a_preview_asks_before_many_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, more: list[str], answer: str, asks: bool, sent: bool
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    data = write_csv(tmp_path / "in.csv", [(i, f"text {i}") for i in range(30)])
    with ScriptedEndpoint(content=GOOD) as endpoint:
        options = ["--endpoint", endpoint.url, "--model", "mock", "-n", str(rows), *more]
        status, shown = talk(["preview", str(write_prompt(tmp_path)), "--input", str(data), *options], answer)
    assert status == 0
    assert (f"preview: {rows} of 30 rows, {rows} calls to mock at {endpoint.url}; nothing is stored" in shown) == (
        sent or asks
    )
    assert ("Send them?" in shown) == asks
    assert (f"{rows} of {rows} asked rows accepted" in shown) == sent
    assert (f"{rows} of 30 rows; nothing was sent" in shown) != sent


def test_progress_is_a_line_that_changes_on_a_terminal(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "in.csv", [(i, f"text {i}") for i in range(200)])
    with ScriptedEndpoint(latency_s=0.1) as endpoint:
        options = ["--endpoint", endpoint.url, "--model", "mock", "--yes", "--concurrency", "20"]
        command = ["run", str(write_prompt(tmp_path)), "--input", str(data), "--output", str(tmp_path / "o.duckdb")]
        status, shown = talk([*command, *options], "")
    assert status == 0
    assert shown.count("\r\x1b[K") > 2
    assert "200/200 answered" in shown
    assert f"200 calls to mock at {endpoint.url}" in shown


# The small commands ------------------------------------------------------------------------------------------------


def test_engines_and_templates() -> None:
    listed = call("engines")
    assert [line.split()[0] for line in listed.out.splitlines()] == list(ENGINES)
    known = call("templates")
    assert {"support_ticket", "classify"} <= {line.split()[0] for line in known.out.splitlines()}
    assert all(len(line.split()) > 3 for line in known.out.splitlines())
    assert (listed.err, known.err) == ("", "")


def test_a_template_stands_for_its_file(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "in.csv", [(1, "a", "b")], ("id", "title", "text"))
    result = call("run", "classify", "--input", data, "--output", tmp_path / "out.duckdb", "--mock", "--json")
    assert (result.status, result.report["enriched"]) == (0, 1), result.err


@pytest.mark.parametrize("engine", list(ENGINES))
def test_render(tmp_path: Path, engine: str) -> None:
    prompt = write_prompt(tmp_path, "source: raw.messages\nkey: [id]\n")
    enrichment = se.load(prompt)
    printed = call("render", prompt, "--engine", engine)
    assert (printed.status, printed.out, printed.err) == (0, se.render(enrichment, engine=engine), "")
    written = call("render", prompt, "--engine", engine, "-o", tmp_path / "out.sql")
    assert (written.status, written.out) == (0, "")
    assert (tmp_path / "out.sql").read_text(encoding="utf-8") == printed.out
    for step in ("prompts", "responses", "checked", "enriched", "quarantine", "pending"):
        one = call("render", prompt, "--engine", engine, "--step", step)
        assert one.out in (printed.out, se.render(enrichment, engine=engine, step=step))
    for functions in ("inline", "temporary"):
        script = se.render(enrichment, engine=engine, functions=functions)
        assert call("render", prompt, "--engine", engine, "--functions", functions).out == script
        assert one.out.startswith(("SELECT", "WITH"))
        assert ";" not in one.out.splitlines()[-1]


def test_render_for_a_target(tmp_path: Path) -> None:
    (tmp_path / "sqlenrich.toml").write_text(
        '[models.default]\nsnowflake = "my-model"\n[targets.prod]\nengine = "snowflake"\ndatabase = "ANALYTICS"\n'
        'schema = "ENRICHED"\nresponses = "ANALYTICS.LLM.{name}_responses"\n',
        encoding="utf-8",
    )
    prompt = write_prompt(tmp_path, "source: raw.messages\nkey: [id]\n")
    script = call("render", prompt, "--target", "prod").out
    for text in ("ANALYTICS.ENRICHED.intent_prompts", "ANALYTICS.LLM.intent_responses", "'my-model'"):
        assert text in script
    refused = call("run", prompt, "--target", "prod", "--mock")
    assert (refused.status, refused.error) == (
        2,
        "snowflake: --mock invents answers, which no warehouse keeps; use it with a .duckdb output",
    )
    near = call("render", prompt, "--target", "prd")
    assert near.error == f'no target "prd" (prod?); there are: prod (settings: {tmp_path / "sqlenrich.toml"})'


def test_an_output_file_that_cant_be_written(tmp_path: Path) -> None:
    prompt = write_prompt(tmp_path, "source: raw.messages\nkey: [id]\n")
    result = call("render", prompt, "--engine", "duckdb", "-o", tmp_path / "no" / "x.sql")
    assert (result.status, result.error) == (1, f"{tmp_path / 'no' / 'x.sql'}: No such file or directory")
    result = call("new", tmp_path / "no" / "x")
    assert (result.status, result.error) == (1, f"{tmp_path / 'no' / 'x.prompt'}: No such file or directory")


def test_check_says_where_each_setting_comes_from(tmp_path: Path) -> None:
    prompt = write_prompt(tmp_path, "key: [id]\nmodel: fast\nparams: {temperature: 0, max_tokens: 50}\n")
    config = tmp_path / "sqlenrich.toml"
    config.write_text(
        '[models.fast]\nendpoint = {model = "small", max_tokens = 9, temperature = ""}\nsnowflake = "big"\n',
        encoding="utf-8",
    )
    result = call("check", prompt)
    assert result.status == 0, result.out
    lines = [line.strip() for line in result.out.splitlines()]
    assert lines[:5] == [
        f"{prompt}: intent",
        "reads       body",
        "key         id",
        "gives       label, urgency",
        f"settings    {config}",
    ]
    duck = lines[lines.index("duckdb      ok") :]
    assert f"model small ({config}: models.fast.endpoint)" in duck
    assert f"max_tokens 9 ({config}: models.fast.endpoint)" in duck
    assert not [line for line in duck if line.startswith("temperature 0")]
    snow = lines[lines.index("snowflake   ok") : lines.index("bigquery    ok")]
    assert f"model big ({config}: models.fast.snowflake)" in snow
    assert "max_tokens 50 (the file)" in snow
    assert "model other (--model)" in [
        line.strip() for line in call("check", prompt, "--model", "other").out.splitlines()
    ]
    new = call("check", prompt, "--model", "gemini-3.5-flash-lite", "--engine", "bigquery").out
    assert "thinking_config {'thinking_level': 'MINIMAL'} (the engine's default)" in new
    assert "max_output_tokens 50 (the file)" in new
    old = call("check", prompt, "--model", "gemini-2.5-flash", "--engine", "bigquery").out
    assert "gemini-2.5-flash may end on 2027-03-31 (as of 2026-11-25)" in old


@pytest.mark.parametrize(
    ("system", "reads", "line"),
    [
        ("For {{ 'Acme' }}", "reads       body", None),
        ("For {{ lang }} of {{ body }}", "reads       body, lang", "system      differs by row: it reads lang, body"),
    ],
)
def test_check_says_what_the_system_reads(tmp_path: Path, system: str, reads: str, line: str | None) -> None:
    messages = "messages: [{role: user, content: Hi}, {role: assistant, content: Yes}]\n"
    prompt = write_prompt(tmp_path, f'key: [id]\nsystem: "{system}"\n{messages}')
    result = call("check", prompt)
    assert result.status == 0, result.out
    lines = [one.strip() for one in result.out.splitlines()]
    assert lines[1] == reads
    assert [one for one in lines if one.startswith("system ")] == ([] if line is None else [line])
    (before,) = [one for one in lines if one.startswith("messages ")]
    assert before.startswith(f"messages    {3 if line is None else 2} before each prompt, about ")


def test_check_says_which_part_of_the_schema_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = tmp_path / "part.prompt"
    fields = "a: {type: string, maxLength: 9}, b: {type: integer, minimum: 1}, c: {type: object}"
    header = f"key: [id]\noutput: {{type: object, properties: {{{fields}}}}}"
    prompt.write_text(f"---\n{header}\n---\n{{{{ body }}}}", encoding="utf-8")

    def lines() -> list[str]:
        return [line.strip() for line in call("check", prompt).out.splitlines() if "schema" in line.split("tokens")[0]]

    def response_format(engine: str) -> Any:
        return json.loads(call("check", prompt, "--response-format", engine).out)

    assert lines() == [
        "the request's schema omits: a.maxLength, b.minimum (only the checks use them)",
        "the request's schema omits: a.maxLength, b.minimum (only the checks use them)",
        "the request has no schema (c: an object without named properties): the hint replaces it",
        "the request has the whole schema",
        "the request has the whole schema",
    ]
    assert response_format("snowflake")["schema"]["properties"]["b"] == {"type": "integer"}
    assert response_format("bigquery") is None
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert lines()[-1] == "the request's schema omits: a.maxLength (only the checks use them)"
    assert response_format("duckdb")["json_schema"]["schema"]["properties"]["a"] == {"type": "string"}
    prompt.write_text(f"---\n{header}\nhint: always\n---\n{{{{ body }}}}", encoding="utf-8")
    assert lines()[-1] == "the request has no schema (hint: always): the hint replaces it"


def test_check_of_several_files_and_of_bad_ones(tmp_path: Path) -> None:
    good, bad = write_prompt(tmp_path), write_prompt(tmp_path, "kee: [id]\n", name="bad")
    result = call("check", good, bad)
    assert result.status == 2
    assert f'{bad}: line 2: unknown key "kee" (keep?) @ kee' in result.out
    assert f"{good}: intent" in result.out
    missing = call("check", tmp_path / "no.prompt")
    assert missing.status == 2
    assert "no such file" in missing.out


def test_completion() -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_SQLENRICH_COMPLETE" in call("completion", shell).out


@pytest.mark.parametrize("command", list(EXAMPLES))
def test_the_examples_of_a_command_are_commands(command: str) -> None:
    shown = call(command, "--help").out.split("Examples:\n")[1]
    for example in shown.strip().splitlines():
        words = shlex.split(example.strip().split(" > ~")[0].removeprefix('eval "$(').removesuffix(')"'))
        assert words[:2] == ["sqlenrich", command]
        cli.commands[command].make_context(command, words[2:], resilient_parsing=False)


def test_help_and_version() -> None:
    assert call("--version").out == f"sqlenrich, version {se.__version__}\n"
    for command in ("new", "templates", "preview", "run", "render", "check", "engines"):
        assert "Usage: " in call(command, "--help").out


def test_a_shared_responses_table(tmp_path: Path, data: Path) -> None:
    """Two enrichments with the same requests share the answers."""
    output = tmp_path / "out.duckdb"
    assert run(write_prompt(tmp_path), data, output, "--responses", "paid").report["calls"] == 2
    other = run(write_prompt(tmp_path, name="other"), data, output, "--responses", "paid")
    assert (other.report["calls"], other.report["cached"]) == (0, 2)
    with duckdb.connect(str(output), read_only=True) as db:
        assert "intent_responses" not in {row[0] for row in db.execute("SHOW TABLES").fetchall()}
    runs.assert_accounted(other.report, output, "other")


def test_the_report_is_one_line_of_json(tmp_path: Path, data: Path) -> None:
    result = run(write_prompt(tmp_path), data, tmp_path / "out.csv")
    assert json.loads(result.out)["rows_in"] == 3
    assert f"  -> {tmp_path / 'out.csv'}" in result.err


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_run_without_a_place_to_write_to(tmp_path: Path, closed: str) -> None:
    """With closed standard streams, as a daemon may start it."""
    data = write_csv(tmp_path / "in.csv", [(1, "text")])
    command = [*COMMAND, "run", str(write_prompt(tmp_path)), "--input", str(data), "--output", str(tmp_path / "o.csv")]
    done = subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *command, "--mock", "--yes"], check=False)
    assert done.returncode == 0
    assert (tmp_path / "o.csv").exists()


def test_the_help_lists_each_command_once() -> None:
    shown = call("--help").out
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(cli.commands)
    listed = [line.split()[0] for line in shown.splitlines() if line.startswith("  ") and "  " in line.strip()]
    assert [name for name in listed if not name.startswith("-")] == [n for names in SECTIONS.values() for n in names]
    assert "..." not in shown.partition("Write an enrichment")[2], "a first sentence is too long"
