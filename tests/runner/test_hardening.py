"""What once cost answers, rows or secrets, and must not again."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.ask.observer import NullObserver, PlanLine, Stopper
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.llm.endpoint.server_info import list_models
from sqlenrich.spec.settings import Config
from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import GOOD, ask, call, opened, rows, run, write_csv, write_prompt

ONE_TEXT = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def duck(schema: dict[str, Any], text: str) -> Any:
    """Judge one answer on DuckDB."""
    with duckdb.connect() as db:
        found = db.execute(f"SELECT {se.check_sql(schema, 'duckdb')} FROM (SELECT ? AS response)", [text]).fetchone()
    return found[0] if found else None


@pytest.mark.parametrize(
    ("pattern", "answer", "code"),
    [
        pytest.param(r"^\S+$", "a b", "BAD_PATTERN", id="no white space"),
        pytest.param(r"^\S+$", "ab", None, id="no white space, held"),
        pytest.param(r"^\s$", "\u3000", None, id="an ideographic space"),
        pytest.param(r"^[\s\d]+$", "1\u00a02", None, id="in a set"),
    ],
)
def test_white_space_in_patterns_is_read_by_duckdb(pattern: str, answer: str, code: str | None) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
    text = f'{{"a": "{answer}"}}'
    assert duck(schema, text) == se.check_response(schema, text) == code


@pytest.mark.parametrize("pattern", [r"^a\0$", "^([a-z]{1,100}){1,100}$"])
def test_patterns_that_an_engine_refuses_are_refused_when_the_file_is_loaded(pattern: str) -> None:
    with pytest.raises(se.SpecError, match="is not the same on all engines"):
        se.check_response({"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}, "{}")


@pytest.mark.parametrize("depth", [12_000, 60_000])
def test_a_deep_answer_is_refused_and_the_process_lives(depth: int) -> None:
    text = '{"a": ' + "[" * depth + "]" * depth + "}"
    assert duck(ONE_TEXT, text) == se.check_response(ONE_TEXT, text) == "BAD_JSON"


@pytest.mark.parametrize(
    ("schema", "code"), [({}, "BAD_JSON"), ({"type": "integer"}, "BAD_JSON"), ({"maximum": 1}, "BAD_JSON")]
)
def test_a_number_of_more_digits_than_python_reads(schema: dict[str, Any], code: str | None) -> None:
    whole, text = {"type": "object", "properties": {"a": schema}}, f'{{"a": {"1" * 5000}}}'
    assert duck(whole, text) == se.check_response(whole, text) == code


@pytest.mark.parametrize(
    ("schema", "value", "code"),
    [
        pytest.param({"type": "integer", "enum": [2**53 + 1]}, 2**53, "NOT_IN_ENUM", id="beyond doubles"),
        pytest.param({"type": "integer", "enum": [2**53 + 1]}, 2**53 + 1, None, id="beyond doubles, equal"),
        pytest.param({"type": "number", "enum": [1, 2.5]}, 2.5, None, id="numbers"),
    ],
)
def test_enums_of_numbers(schema: dict[str, Any], value: object, code: str | None) -> None:
    whole = {"type": "object", "properties": {"a": schema}}
    assert duck(whole, f'{{"a": {value}}}') == se.check_response(whole, f'{{"a": {value}}}') == code


@pytest.mark.parametrize(
    ("value", "code"),
    [("low", None), (3, None), (True, None), ("3", "NOT_IN_ENUM"), (1, "NOT_IN_ENUM"), ("true", "NOT_IN_ENUM")],
)
def test_an_enum_of_several_types_keeps_them_apart(value: object, code: str | None) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": ["low", 3, True]}}}
    text = json.dumps({"a": value})
    assert duck(schema, text) == se.check_response(schema, text) == code


@pytest.mark.parametrize("template", ["{{ t[n] }}", "{{ t[-4] }}", "{{ t[-3] }}", "{{ t[2] }}", "{{ t[9] }}"])
@pytest.mark.parametrize("n", [None, -5, -3, 0, 2, 3])
def test_a_character_beyond_the_ends_fails(template: str, n: int | None) -> None:
    sql = se.prompt_sql(template, "duckdb", {"t": "string", "n": "bigint"})
    with duckdb.connect() as db:
        found = db.execute(f"SELECT {sql} FROM (SELECT 'abc' AS t, ?::BIGINT AS n)", [n]).fetchone()
    try:
        expected = se.render_prompt(template, {"t": "abc", "n": n})
    except se.PromptError:
        expected = None
    assert found == (expected,)


def test_a_source_column_called_no_input_decides_nothing(tmp_path: Path) -> None:
    prompt = write_prompt(tmp_path, "key: [id]\nkeep: [no_input]\n")
    data = write_csv(tmp_path / "in.csv", [(1, "a", "1"), (2, "b", "0"), (3, "c", "2")], ("id", "body", "no_input"))
    result = run(prompt, data, tmp_path / "out.duckdb", "--json")
    assert result.report["enriched"] == 3
    assert rows(tmp_path / "out.duckdb", "SELECT no_input FROM intent ORDER BY id") == [("1",), ("0",), ("2",)]


@pytest.mark.parametrize(
    ("kind", "given", "printed"),
    [
        ("bigint", ["12", " 7 ", "12.5", "1e3", "0x10"], ["12", "7", None, None, None]),
        ("date", ["2026-01-31", "epoch", "2026-01-31 12:00:00"], ["2026-01-31", None, None]),
        ("boolean", ["true", "FALSE", "yes", "1"], ["True", "False", None, None]),
    ],
)
def test_a_cast_never_changes_a_value(tmp_path: Path, kind: str, given: list[str], printed: list[str | None]) -> None:
    prompt = write_prompt(tmp_path, f"key: [id]\ncolumns: {{body: {kind}}}\n", "{{ body }}")
    data = write_csv(tmp_path / "in.csv", list(enumerate(given)))
    run(prompt, data, tmp_path / "out.duckdb")
    prompts = rows(tmp_path / "out.duckdb", "SELECT prompt FROM intent_prompts ORDER BY id")
    assert prompts == [(text,) for text in printed]


def test_where_compares_columns_as_they_are_declared(tmp_path: Path) -> None:
    prompt = write_prompt(tmp_path, "key: [id]\ncolumns: {n: bigint}\nwhere: n > 5\n", "{{ body }} {{ n }}")
    data = write_csv(tmp_path / "in.csv", [(1, "a", "10"), (2, "b", "6"), (3, "c", "5")], ("id", "body", "n"))
    assert run(prompt, data, tmp_path / "out.duckdb", "--json").report["rows_in"] == 2


def test_a_run_that_asked_nothing_leaves_the_tables(tmp_path: Path) -> None:
    data, output = write_csv(tmp_path / "in.csv", [(1, "a"), (2, "b")]), tmp_path / "out.duckdb"
    prompt = write_prompt(tmp_path, "key: [id]\n")
    with ScriptedEndpoint(content=GOOD) as server:
        assert ask(prompt, data, output, server.url).status == 0
    prompt = write_prompt(tmp_path, "key: [id]\n", "Another one: {{ body }}")
    with ScriptedEndpoint(rates={"401": 1.0}) as server:
        assert ask(prompt, data, output, server.url).status == 1
    assert rows(output, "SELECT count(*) FROM intent") == [(2,)]
    refusing = type("No", (), {"plan": lambda *_: False, "answered": lambda *_: None, "note": lambda *_: None})()
    report = se.run(se.load(prompt), input=data, output=output, mock=True, observer=refusing)
    assert (report.exit_status, report.quarantine, report.calls) == (4, {"NOT_ASKED": 2}, 0)
    assert rows(output, "SELECT count(*) FROM intent") == [(2,)]


@pytest.mark.parametrize("again", [False, True])
def test_a_stop_before_the_question_asks_nothing(tmp_path: Path, again: bool) -> None:
    data, output = write_csv(tmp_path / "in.csv", [(1, "a"), (2, "b")]), tmp_path / "out.duckdb"
    prompt, stopper = write_prompt(tmp_path, "key: [id]\n"), Stopper()
    enrichment, asked = se.load(prompt), list[PlanLine]()
    if again:
        assert run(prompt, data, output, "--mock-failures", "bad_json=1").status == 3

    class Asks(NullObserver):
        def plan(self, _line: PlanLine) -> bool:
            asked.append(_line)
            return True

    stopper.stop()
    options: dict[str, Any] = {"output": output, "mock": True, "observer": Asks(), "stopper": stopper}
    report = se.retry(enrichment, **options) if again else se.run(enrichment, input=data, **options)
    assert (asked, report.calls, report.exit_status) == ([], 0, 4)


def test_a_second_run_in_one_process_ends_at_once(tmp_path: Path) -> None:
    prompt = se.load(write_prompt(tmp_path, "key: [id]\n"))
    data, output = write_csv(tmp_path / "in.csv", [(n, f"m{n}") for n in range(200)]), tmp_path / "out.duckdb"
    with ScriptedEndpoint(content=GOOD, latency_s=0.05) as server:
        first = threading.Thread(
            target=se.run,
            args=(prompt,),
            kwargs={"input": data, "output": output, "endpoint": server.url, "model": "m"},
        )
        first.start()
        while not server.asked:
            pass
        with pytest.raises(se.RunError, match="is in use by another run of this process"):
            se.run(prompt, input=data, output=output, mock=True)
        first.join()
        assert len(server.asked) == 200
    with opened(output) as db:
        assert db.execute("SELECT count(*) FROM intent").fetchone() == (200,)


def test_what_an_endpoint_is_always_sent_is_part_of_the_request(tmp_path: Path) -> None:
    prompt = se.load(write_prompt(tmp_path, "key: [id]\n"))
    data, output = write_csv(tmp_path / "in.csv", [(1, "a")]), tmp_path / "out.duckdb"

    def calls(url: str, body: dict[str, Any]) -> int:
        config = Config(endpoints={"default": Endpoint(url, extra_body=body)})
        return se.run(prompt, input=data, output=output, model="m", config=config).calls

    with ScriptedEndpoint(content=GOOD) as server:
        assert [calls(server.url, body) for body in ({"min_p": 0.1}, {"min_p": 0.2}, {"min_p": 0.1})] == [1, 1, 0]
        with pytest.raises(se.ConfigError, match=r"response_format of .* is set by sqlenrich"):
            calls(server.url, {"response_format": {}})


def test_an_endpoint_that_serves_a_model_called_mock_has_answers_of_its_own(tmp_path: Path) -> None:
    prompt, data = write_prompt(tmp_path, "key: [id]\n"), write_csv(tmp_path / "in.csv", [(1, "a")])
    run(prompt, data, tmp_path / "out.duckdb")
    with ScriptedEndpoint(content=GOOD) as server:
        assert ask(prompt, data, tmp_path / "out.duckdb", server.url, "--json").report["cached"] == 0


@pytest.mark.parametrize(
    "url",
    ["http://user:SECRETPW@127.0.0.1:1/v1", "http://127.0.0.1:1/v1?api-key=SECRETPW", "http://127.0.0.1:1/v 1"],
)
def test_no_secret_of_a_url_is_shown(tmp_path: Path, url: str) -> None:
    prompt, data = write_prompt(tmp_path, "key: [id]\n"), write_csv(tmp_path / "in.csv", [(1, "a")])
    result = call("run", prompt, "--input", data, "--output", tmp_path / "out.duckdb", "--endpoint", url)
    assert result.status in (1, 2)
    assert "SECRETPW" not in result.err + result.out
    assert result.error


def test_a_key_does_not_follow_a_redirect() -> None:
    seen: list[str] = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.1:{server.server_port}/stolen")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        assert list_models(se.Endpoint(url, api_key="sk-SECRET"), url) == []
        with pytest.raises(se.ConfigError) as raised:
            list_models(se.Endpoint(url, api_key="sk-SECRET\nx"), url)
        server.shutdown()
        thread.join()
    assert seen == ["/v1/models"]
    assert "SECRET" not in str(raised.value)


def test_a_key_that_is_named_but_not_set_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THE_KEY", raising=False)
    (tmp_path / "sqlenrich.toml").write_text('[endpoints.e]\nurl = "http://127.0.0.1:1/v1"\napi_key_env = "THE_KEY"\n')
    prompt, data = write_prompt(tmp_path, "key: [id]\n"), write_csv(tmp_path / "in.csv", [(1, "a")])
    result = call("run", prompt, "--input", data, "--output", tmp_path / "out.duckdb", "--model", "m")
    assert result.error == "the variable THE_KEY, which endpoints.e names as api_key_env, is not set"


def test_a_template_takes_the_settings_of_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sqlenrich.toml").write_text('[endpoints.e]\nurl = "http://127.0.0.1:1/v1"\n')
    monkeypatch.chdir(tmp_path)
    assert call("new", "t", "--template", "support_ticket", "--sample").status == 0
    result = call("run", "support_ticket", "--input", "t.csv", "--output", "out.duckdb", "--model", "m")
    assert "http://127.0.0.1:1/v1" in result.error


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("well", [0, 1])
def test_one_of_several_urls_that_refuses_the_key_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, well: int, named: bool
) -> None:
    """Where no model is named either: whichever url tells its models."""
    monkeypatch.setenv("THE_KEY", "sk-SECRET")
    prompt, data = write_prompt(tmp_path), write_csv(tmp_path / "in.csv", ((n, f"text {n}") for n in range(300)))
    keys = ["sk-other", "sk-other"]
    keys[well] = "sk-SECRET"
    model = ("--model", "mock") if named else ()
    options = ("--input", data, "--output", tmp_path / "out.duckdb", *model, "--json")
    servers = [ScriptedEndpoint(content=GOOD, latency_s=0.002, models=("mock",), key=key) for key in keys]
    with servers[0], servers[1]:
        urls = ", ".join(f'"{server.url}"' for server in servers)
        (tmp_path / "sqlenrich.toml").write_text(f'[endpoints.e]\nurl = [{urls}]\napi_key_env = "THE_KEY"\n')
        found = call("run", prompt, *options)
        assert (found.status, found.report["enriched"]) == (0, 300), found.err
        told = [line for line in found.err.splitlines() if line.startswith("warning: ")]
        assert len(told) == 1
        assert told[0].startswith(f"warning: {servers[1 - well].url} refuses the key (HTTP 401: ")
        assert "set the variable that api_key_env names" in told[0]
        servers[well].key = "sk-other"
        write_csv(tmp_path / "in.csv", ((n, f"other {n}") for n in range(300)))
        last = call("run", prompt, *options)
    errors = [line for line in last.err.splitlines() if line.startswith("Error: ")]
    assert (last.status, len(errors), "refuses the key" in errors[0]) == (1, 1, True)
    assert "SECRET" not in found.err + found.out + last.err + last.out
