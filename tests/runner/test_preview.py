"""``sqlenrich preview``: exact prompts for free, a few answers, and what the whole table would take."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

import sqlenrich as se
from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import GOOD, TEMPLATE, call, write_csv, write_prompt


@pytest.fixture
def data(tmp_path: Path) -> Path:
    texts = ["one\n'two' {{ x }} 😀", None, "x", "x", "last"]
    return write_csv(tmp_path / "in.csv", [(f"k{i}", text) for i, text in enumerate(texts)])


def test_prompts_only(tmp_path: Path, data: Path) -> None:
    """No model needs to be named; prompts are the reference's, and the request is the one that a run sends."""
    prompt = write_prompt(tmp_path, "key: [id]\nparams: {temperature: 0}\n")
    result = call("preview", prompt, "--input", data, "--prompt-only", "-n", 3)
    assert (result.status, result.err) == (0, "")
    first = se.render_prompt(TEMPLATE, {"body": "one\n'two' {{ x }} 😀"})
    assert f"row 1: id k0\n{first}\n" in result.out
    assert "row 2: id k1\nNO_INPUT" in result.out
    assert "row 3: id k2\nClassify: x\n" in result.out
    assert "row 4" not in result.out
    assert result.out.rstrip().endswith("3 of 5 rows; nothing was sent")
    shown = json.loads(result.out[result.out.index("{\n") : result.out.rindex("}") + 1])
    with ScriptedEndpoint(content=GOOD) as endpoint:
        options = ("--endpoint", endpoint.url, "--model", "mock")
        call("run", prompt, "--input", data, "--output", tmp_path / "out.duckdb", *options)
        sent = json.loads(endpoint.asked[0].body)
        assert not call("preview", prompt, "--input", data, "--prompt-only", *options).err
        assert len(endpoint.asked) == 3
    shown["messages"] = sent["messages"]
    assert {**shown, "model": "mock"} == sent


def test_the_system_of_each_row_is_shown_apart(tmp_path: Path, data: Path) -> None:
    header = "key: [id]\nsystem: \"{% if body != 'x' %}For {{ id }}{% endif %}\"\n"
    prompt = write_prompt(tmp_path, header)
    with ScriptedEndpoint(content=GOOD) as endpoint:
        options: tuple[tuple[object, ...], ...] = (("--prompt-only",), ("--endpoint", endpoint.url, "--model", "mock"))
        shown = [call("preview", prompt, "--input", data, "-n", 3, *more).out for more in options]
        sent = [json.loads(seen.body)["messages"] for seen in endpoint.asked]
    for text in shown:
        assert "row 1: id k0\nSystem: For k0\n\nClassify: one\n" in text
        assert "row 3: id k2\nClassify: x\n" in text
        assert "\x1e" not in text
    body = json.loads(shown[0][shown[0].index("{\n") : shown[0].rindex("}") + 1])
    roles = [{"role": "system", "content": "<the row's system>"}, {"role": "user", "content": "<the prompt>"}]
    assert body["messages"] == roles
    assert sorted(len(messages) for messages in sent) == [1, 2]


def test_answers_and_totals(tmp_path: Path, data: Path) -> None:
    answers = {"Classify: x": "no", "Classify: last": GOOD}
    with ScriptedEndpoint(content=lambda prompt: answers.get(prompt, GOOD)) as endpoint:
        result = call(
            "preview", write_prompt(tmp_path), "--input", data, "-n", 4, "--endpoint", endpoint.url, "--model", "mock"
        )
        assert len(endpoint.asked) == 2
        assert endpoint.asked[0].prompt == "Classify: one\n'two' {{ x }} 😀"
    assert result.status == 0, result.err
    assert f"answer: {GOOD}\naccepted" in result.out
    assert result.out.count("answer: no\nBAD_JSON: ") == 2
    assert result.err == f"preview: 4 of 5 rows, 2 calls to mock at {endpoint.url}; nothing is stored\n"
    assert "1 of 3 asked rows accepted" in result.out
    assert "the whole table: 5 rows, 3 distinct requests, about " in result.out
    assert not list(tmp_path.glob("*.duckdb"))


def test_the_mock_model_and_its_failures(tmp_path: Path, data: Path) -> None:
    prompt = write_prompt(tmp_path)
    good = call("preview", prompt, "--input", data, "--mock")
    assert good.out.count("\naccepted\n") == 4
    bad = call("preview", prompt, "--input", data, "--mock", "--mock-failures", "error=1")
    assert bad.out.count("\nCALL_ERROR: mock: HTTP 500: a made-up failure\n") == 4


def test_columns_and_filters_of_flags(tmp_path: Path, data: Path) -> None:
    options = ("--column", "body=id", "--where", "id = 'k2'", "--key", "body", "--prompt-only")
    result = call("preview", write_prompt(tmp_path), "--input", data, *options)
    assert "row 1: body k2\nClassify: k2\n" in result.out
    assert "row 2" not in result.out


def test_the_request_is_the_one_of_the_settings(tmp_path: Path, data: Path) -> None:
    """A model with parameters of its own names, an alias that drops one, the endpoint's further fields."""
    prompt = write_prompt(tmp_path, "key: [id]\nparams: {temperature: 0, max_tokens: 9, seed: 1}\n")
    with ScriptedEndpoint(content=GOOD) as endpoint:
        (tmp_path / "sqlenrich.toml").write_text(
            '[models.default]\nendpoint = {model = "gpt-5-mini", seed = ""}\n'
            f'[endpoints.local]\nurl = "{endpoint.url}"\nextra_body = {{top_k = 3}}\n',
            encoding="utf-8",
        )
        call("run", prompt, "--input", data, "--output", tmp_path / "out.duckdb")
        sent = json.loads(endpoint.asked[0].body)
    result = call("preview", prompt, "--input", data, "--prompt-only", "-n", 1)
    shown = json.loads(result.out[result.out.index("{\n") : result.out.rindex("}") + 1])
    assert (shown["max_completion_tokens"], shown["top_k"], "seed" in shown) == (9, 3, False)
    assert {**shown, "messages": 0} == {**sent, "messages": 0}


@pytest.mark.parametrize("source", ["raw.messages", "{query: SELECT * FROM raw.messages}"])
def test_a_table_of_a_database_with_a_filter(tmp_path: Path, source: str) -> None:
    with duckdb.connect(str(tmp_path / "in.duckdb")) as db:
        db.execute("CREATE SCHEMA raw; CREATE TABLE raw.messages AS SELECT i AS id, 'x' AS body FROM range(9) AS t(i)")
    prompt = write_prompt(tmp_path, f"source: {source}\nkey: [id]\nwhere: id > 5\n")
    result = call("preview", prompt, "--input", tmp_path / "in.duckdb", "--mock", "-n", 2)
    assert "the whole table: 3 rows, 1 distinct requests" in result.out, result.err


def test_a_row_that_fails_is_shown(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "in.csv", [(1, "x", "no number")], ("id", "body", "n"))
    prompt = write_prompt(tmp_path, "key: [id]\ncolumns: {n: bigint}\n", "{{ body }} {{ n }}")
    for options in (("--prompt-only",), ("--mock",)):
        assert "row 1: id 1\nBAD_PROMPT: " in call("preview", prompt, "--input", data, *options).out


def test_an_empty_table_and_an_endpoint_that_is_down(tmp_path: Path, data: Path) -> None:
    empty = write_csv(tmp_path / "empty.csv", [])
    result = call("preview", write_prompt(tmp_path), "--input", empty, "--mock")
    assert (result.status, result.err) == (0, "")
    assert "0 of 0 asked rows accepted" in result.out
    with ScriptedEndpoint() as endpoint:
        pass
    down = call("preview", write_prompt(tmp_path), "--input", data, "--endpoint", endpoint.url, "--model", "m")
    assert (down.status, down.out) == (1, "")
    assert "connection refused: nothing listens there" in down.error


def test_an_endpoint_that_is_left_out_is_told(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "in.csv", [(n, f"text {n}") for n in range(3)])
    with ScriptedEndpoint(rates={"401": 1.0}) as bad, ScriptedEndpoint(content=GOOD) as good:
        (tmp_path / "sqlenrich.toml").write_text(f'[endpoints.e]\nurl = ["{bad.url}", "{good.url}"]\n')
        shown = call("preview", write_prompt(tmp_path), "--input", data, "--model", "mock")
    assert shown.status == 0, shown.err
    assert f"warning: {bad.url} wants a key (HTTP 401: " in shown.err
