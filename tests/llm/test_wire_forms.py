"""The wire forms of endpoints: bodies, headers, pages and answers, and whole runs through a server of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from email.message import Message
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pytest
from click.testing import CliRunner
from pydantic import TypeAdapter

import sqlenrich as se
from sqlenrich.cli.main import cli
from sqlenrich.core.embedding import Embedding
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import ConfigError
from sqlenrich.core.turn import ROW_SYSTEM, SEPARATOR, Turn
from sqlenrich.gateway.upstream import passing_models
from sqlenrich.llm.endpoint.connections import Connections
from sqlenrich.llm.endpoint.credentials import Credentials
from sqlenrich.llm.endpoint.request_config import OutputForm, RequestConfig
from sqlenrich.llm.endpoint.response import BatchCompletion, Completion
from sqlenrich.llm.endpoint.wire.apis import form_name
from sqlenrich.llm.endpoint.wire.forms import key_headers, models_page, named_page, new_body
from sqlenrich.llm.endpoint.wire.kserve import KServeBody
from sqlenrich.llm.endpoint.wire.messages import DEFAULT_MAX_TOKENS, read_message
from sqlenrich.llm.endpoint.wire.responses import read_response
from sqlenrich.quality.audit.rebuilt_requests import make_sent, make_views, rebuilt_requests
from sqlenrich.runner.tune import TunePolicy
from sqlenrich.spec.settings import read_config
from sqlenrich.store.duckdb.tables import stored_output
from tests.support.networks import serving

SCHEMA = {
    "type": "object",
    "properties": {"intent": {"type": "string", "enum": ["a", "b"]}},
    "required": ["intent"],
    "additionalProperties": False,
}
FORM = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}
TURNS = (Turn("system", "Be short."), Turn("user", "a"), Turn("assistant", "b"))
USER = {"role": "user", "content": "row"}
TALK = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
OWN = f"own{SEPARATOR}row"
URLS = {
    "openai": "http://x/v1",
    "responses": "http://x/v1",
    "anthropic": "https://api.anthropic.com/v1",
    "bedrock": "https://bedrock-runtime.us-east-1.amazonaws.com",
    "vertex": "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5/publishers/anthropic",
    "kserve": "http://x:8000",
}
SDK_TYPES = {
    "anthropic": ("anthropic.types.message_create_params", "MessageCreateParamsNonStreaming"),
    "responses": ("openai.types.responses.response_create_params", "ResponseCreateParamsNonStreaming"),
}
"""The types of the vendors' SDKs, which take seconds to import."""
API = {"bedrock": "anthropic", "vertex": "anthropic"}


def endpoint(form: str, **settings: Any) -> Endpoint:
    return Endpoint(URLS[form], api=API.get(form, form), **settings)


@pytest.mark.parametrize(
    ("form", "config", "text", "expected"),
    [
        pytest.param("anthropic", RequestConfig("c"), "row",
                     {"model": "c", "max_tokens": DEFAULT_MAX_TOKENS, "messages": [USER]}, id="messages"),
        pytest.param("anthropic", RequestConfig("c", {"max_completion_tokens": 5, "stop": "x", "temperature": 0.5}),
                     "row", {"model": "c", "max_tokens": 5, "stop_sequences": ["x"], "temperature": 0.5,
                             "messages": [USER]}, id="messages, params"),
        pytest.param("anthropic", RequestConfig("c", {"max_tokens": 5}, turns=TURNS), "row",
                     {"model": "c", "max_tokens": 5, "system": "Be short.", "messages": [*TALK, USER]},
                     id="messages, turns"),
        pytest.param("anthropic", RequestConfig("c", {"max_tokens": 5}, turns=(ROW_SYSTEM, TURNS[0])), OWN,
                     {"model": "c", "max_tokens": 5, "system": "own\n\nBe short.", "messages": [USER]},
                     id="messages, a row's system"),
        pytest.param("anthropic", RequestConfig("c", {"max_tokens": 5}, turns=(ROW_SYSTEM, TURNS[0])), "row",
                     {"model": "c", "max_tokens": 5, "system": "Be short.", "messages": [USER]},
                     id="messages, a row without its system"),
        pytest.param("anthropic", RequestConfig("c", {"max_tokens": 5}, hint="Answer with JSON."), "a\ud800",
                     {"model": "c", "max_tokens": 5, "messages": [
                         {"role": "user", "content": "a\ufffd\\ud800\ufffd\n\nAnswer with JSON."}]},
                     id="messages, hint"),
        pytest.param("anthropic", RequestConfig("c", {"max_tokens": 5}, FORM), "row",
                     {"model": "c", "max_tokens": 5, "messages": [USER],
                      "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}, id="messages, schema"),
        pytest.param("bedrock", RequestConfig("c", {"max_tokens": 5}), "row",
                     {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 5, "messages": [USER]}, id="bedrock"),
        pytest.param("vertex", RequestConfig("c", {"max_tokens": 5}), "row",
                     {"anthropic_version": "vertex-2023-10-16", "max_tokens": 5, "messages": [USER]}, id="vertex"),
        pytest.param("responses", RequestConfig("c"), "row", {"model": "c", "store": False, "input": [USER]},
                     id="responses"),
        pytest.param("responses", RequestConfig("c", {"max_tokens": 5, "reasoning_effort": "low", "verbosity": "low"},
                                                FORM), "row",
                     {"model": "c", "store": False, "max_output_tokens": 5, "reasoning": {"effort": "low"},
                      "text": {"verbosity": "low",
                               "format": {"type": "json_schema", "name": "x", "schema": SCHEMA, "strict": True}},
                      "input": [USER]}, id="responses, params and schema"),
        pytest.param("responses", RequestConfig("c", response_format={"type": "json_object"}, turns=TURNS), "row",
                     {"model": "c", "store": False, "text": {"format": {"type": "json_object"}},
                      "input": [{"role": "system", "content": "Be short."}, *TALK, USER]}, id="responses, turns"),
        pytest.param("responses", RequestConfig("c", turns=(ROW_SYSTEM, TURNS[0])), OWN,
                     {"model": "c", "store": False, "input": [
                         {"role": "system", "content": "own"}, {"role": "system", "content": "Be short."}, USER]},
                     id="responses, a row's system"),
    ],
)  # fmt: skip
def test_the_body_of_a_conversation(form: str, config: RequestConfig, text: str, expected: dict[str, Any]) -> None:
    body = orjson.loads(new_body(endpoint(form), config).of((text,)))
    assert body == expected
    if form in SDK_TYPES:
        module, name = SDK_TYPES[form]
        TypeAdapter(getattr(import_module(module), name)).validate_python(body)


KSERVE: dict[str, Any] = {
    "input": "text", "output": "answer", "batch": 8, "rank": 1, "inputs": {"stream": False, "n": 2, "mode": "m"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "config", "expected"),
    [
        (
            {},
            RequestConfig("c", {"temperature": 0}, turns=TURNS[:1], hint="As JSON."),
            {"outputs": [{"name": "text_output"}], "parameters": {"temperature": 0}, "inputs": [
                {"name": "text_input", "shape": [2, 1], "datatype": "BYTES",
                 "data": ["Be short.\n\none\n\nAs JSON.", "Be short.\n\ntwo\n\nAs JSON."]}]},
        ),
        (
            KSERVE,
            RequestConfig("c"),
            {"outputs": [{"name": "answer"}], "inputs": [
                {"name": "text", "shape": [2], "datatype": "BYTES", "data": ["one", "two"]},
                {"name": "stream", "shape": [2], "datatype": "BOOL", "data": [False, False]},
                {"name": "n", "shape": [2], "datatype": "INT64", "data": [2, 2]},
                {"name": "mode", "shape": [2], "datatype": "BYTES", "data": ["m", "m"]}]},
        ),
    ],
)  # fmt: skip
def test_the_body_of_tensors(settings: dict[str, Any], config: RequestConfig, expected: dict[str, Any]) -> None:
    assert orjson.loads(new_body(endpoint("kserve", kserve=settings), config).of(("one", "two"))) == expected


@pytest.mark.parametrize(
    ("form", "page", "models", "headers"),
    [
        ("openai", "/chat/completions", "/models", {"authorization": "Bearer k"}),
        ("responses", "/responses", "/models", {"authorization": "Bearer k"}),
        ("anthropic", "/messages", "/models", {"x-api-key": "k", "anthropic-version": "2023-06-01"}),
        ("bedrock", "/model/a.c:0/invoke", "/models", {"authorization": "Bearer k"}),
        ("vertex", "/models/a.c:0:rawPredict", "/models", {"authorization": "Bearer k"}),
        ("kserve", "/v2/models/a.c:0/infer", "/v2/models/a.c:0", {"authorization": "Bearer k"}),
    ],
)
def test_pages_and_headers(form: str, page: str, models: str, headers: dict[str, str]) -> None:
    asked = endpoint(form, api_key="k")
    assert form_name(asked) == form
    body = new_body(asked, RequestConfig("a.c:0"))
    assert (named_page(body.page, "a.c:0"), models_page(asked, "a.c:0")) == (page, models)
    (url,) = Connections(asked, page, models).urls
    assert url.asked.endswith(page)
    credentials = Credentials(asked)
    credentials.open()
    assert {
        k: v for k, v in credentials.headers.items() if k not in ("content-type", "accept", "user-agent")
    } == headers


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("https://api.anthropic.com/v1", "anthropic"),
        (URLS["vertex"], "vertex"),
        ("https://api.openai.com/v1", "openai"),
        ("https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1", "openai"),
        ("https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/l/endpoints/openapi", "openai"),
    ],
)
def test_a_url_tells_its_form(url: str, form: str) -> None:
    assert form_name(Endpoint(url)) == form


@pytest.mark.parametrize(
    ("form", "settings", "config", "text"),
    [
        ("anthropic", {}, RequestConfig("c", {"seed": 1}), "Anthropic's messages have no seed: remove it from the par"),
        ("anthropic", {}, RequestConfig("c", embedding=Embedding("vector", 4)), "Anthropic has no vectors"),
        ("responses", {}, RequestConfig("c", {"stop": "x"}), "OpenAI's responses have no stop: remove it"),
    ],
)
def test_what_a_form_does_not_have(form: str, settings: dict[str, Any], config: RequestConfig, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        new_body(endpoint(form, **settings), config)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"api": "antropic"}, 'api must be one of openai, responses, anthropic, kserve, not "antropic" \\(anthropic'),
        ({"kserve": {"imput": "x"}}, 'kserve: unknown key "imput" \\(input'),
        ({"kserve": {"batch": 0}}, "kserve.batch must be above 0, not 0"),
        ({"kserve": {"rank": 3}}, "kserve.rank must be 1 or 2, not 3"),
        ({"kserve": {"inputs": {"x": [1]}}}, "kserve.inputs.x must be a text, a number or a boolean"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Endpoint("http://x/v1", **settings)


def message(stop: str, *content: dict[str, Any], **usage: int) -> bytes:
    return orjson.dumps({"model": "claude", "content": content, "stop_reason": stop, "usage": usage})


TEXT = {"type": "text", "text": "{}"}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (message("end_turn", TEXT, input_tokens=5, output_tokens=2), Completion("{}", "stop", 5, None, 2, "claude")),
        (message("max_tokens", TEXT), Completion("{}", "length", None, None, None, "claude")),
        (message("refusal", input_tokens=5), Completion(None, "refusal", 5, None, None, "claude")),
        (message("stop_sequence", TEXT, TEXT), Completion("{}{}", "stop", None, None, None, "claude")),
        (message("pause_turn", {"type": "thinking", "thinking": "x"}, TEXT),
         Completion("{}", "pause_turn", None, None, None, "claude")),
        (message("end_turn", TEXT, input_tokens=1, cache_read_input_tokens=20, cache_creation_input_tokens=300),
         Completion("{}", "stop", 321, 20, None, "claude")),
    ],
)  # fmt: skip
def test_reading_a_message(raw: bytes, expected: Completion) -> None:
    assert read_message(raw) == expected


def response(*content: dict[str, Any], status: str = "completed", **facts: Any) -> bytes:
    output = [{"type": "reasoning", "summary": []}, {"type": "message", "role": "assistant", "content": content}]
    return orjson.dumps({"model": "o", "output": output, "status": status, **facts})


OUTPUT = {"type": "output_text", "text": "{}", "annotations": []}
USAGE = {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 3}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (response(OUTPUT, usage=USAGE), Completion("{}", "stop", 9, 4, 3, "o")),
        (response(OUTPUT, OUTPUT), Completion("{}{}", "stop", None, None, None, "o")),
        (response({"type": "refusal", "refusal": "no"}), Completion("no", "refusal", None, None, None, "o")),
        (response(), Completion(None, "stop", None, None, None, "o")),
        (response(OUTPUT, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
         Completion("{}", "length", None, None, None, "o")),
        (response(OUTPUT, status="incomplete", incomplete_details={"reason": "content_filter"}),
         Completion("{}", "content_filter", None, None, None, "o")),
    ],
)  # fmt: skip
def test_reading_a_response(raw: bytes, expected: Completion) -> None:
    assert read_response(raw) == expected


def tensor(shape: Any, data: Any, datatype: str = "BYTES") -> bytes:
    output = {"name": "text_output", "datatype": datatype, "shape": shape, "data": data}
    return orjson.dumps({"model_name": "m", "outputs": [output]})


KS = endpoint("kserve").kserve_settings


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (tensor([2], ["a", "b"]), ("a", "b")),
        (tensor([2, 1], ["a", "b"]), ("a", "b")),
        (tensor([2, 1], [["a"], ["b"]]), ("a", "b")),
        (tensor([1, 1], ["a"]), ("a",)),
    ],
)
def test_reading_tensors(raw: bytes, expected: tuple[str, ...]) -> None:
    assert KServeBody(RequestConfig("m"), KS, {}).read(raw) == BatchCompletion(expected, None, model="m")


def test_vectors_of_tensors() -> None:
    body = KServeBody(RequestConfig("m", embedding=Embedding("v", 2)), replace(KS, output="text_output"), {})
    found = body.read(tensor([2, 2], [0.5, 1.0, 2.0, 3.0], "FP32"))
    assert [json.loads(text or "") for text in found.texts] == [{"v": [0.5, 1.0]}, {"v": [2.0, 3.0]}]


@pytest.mark.parametrize("raw", [b"", b"<html>", b"{}", b'{"content": "x"}', b"[]"])
@pytest.mark.parametrize("read", [read_message, read_response, KServeBody(RequestConfig("m"), KS, {}).read])
def test_what_is_no_answer(read: Callable[[bytes], object], raw: bytes) -> None:
    with pytest.raises(ValueError, match="the answer"):
        read(raw)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (response(OUTPUT, status="failed", error={"message": "broke"}), "the response is failed: broke"),
        (tensor([2], ["a", "b", "c"]), "3 values for 2 rows"),
        (tensor([1], [1.5], "FP32"), "has no texts: its datatype is FP32"),
        (tensor(None, ["a"]), "has no shape"),
    ],
)
def test_why_it_is_no_answer(raw: bytes, text: str) -> None:
    read = read_response if b"output_text" in raw else KServeBody(RequestConfig("m"), KS, {}).read
    with pytest.raises(ValueError, match=text):
        read(raw)


ROWS = 40
PROMPT = """---
key: [id]
columns: {id: bigint}
params: {max_tokens: 50}
output: {x: string}
---
Row {{ id }}
"""
Reply = tuple[int, dict[str, str], bytes]


def as_json(status: int, body: Mapping[str, Any]) -> Reply:
    return status, {}, json.dumps(body).encode()


@dataclass
class Server:
    """A server of one form: counts what it was asked for each row, and refuses what ``refuse`` says."""

    form: str
    refuse: Callable[[Message, dict[str, Any]], Reply | None] = lambda *_: None
    asked: list[str] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)

    def __call__(self, headers: Message, sent: bytes) -> Reply:
        if not sent:
            return as_json(200, {"data": []})
        body: dict[str, Any] = json.loads(sent)
        if (refused := self.refuse(headers, body)) is not None:
            return refused
        self.bodies.append(body)
        self.raw.append(sent)
        texts = (
            body["inputs"][0]["data"]
            if self.form == "kserve"
            else [body["input" if self.form == "responses" else "messages"][-1]["content"]]
        )
        self.asked += [text.split("\n")[0] for text in texts]
        answers = [json.dumps({"x": text.split("\n")[0]}) for text in texts]
        if self.form == "kserve":
            output = {"name": "text_output", "shape": [len(texts), 1], "datatype": "BYTES", "data": answers}
            return as_json(200, {"model_name": "m", "outputs": [output]})
        if self.form == "responses":
            return 200, {}, response({"type": "output_text", "text": answers[0]}, usage=USAGE)
        return 200, {}, message("end_turn", {"type": "text", "text": answers[0]}, input_tokens=5, output_tokens=2)

    def serve(self) -> AbstractContextManager[str]:
        return serving(self)


def run(folder: Path, url: str, form: str, **settings: Any) -> se.Report:
    (folder / "rows.csv").write_text("id\n" + "".join(f"{number}\n" for number in range(ROWS)))
    (folder / "rows.prompt").write_text(PROMPT)
    model = se.Endpoint(url, model="m", api=form, api_key="secret-key", concurrency=8, **settings)
    return se.run(se.load(folder / "rows.prompt"), input=folder / "rows.csv", output=folder / "o.duckdb", model=model)


SETTINGS: dict[str, dict[str, Any]] = {"responses": {}, "anthropic": {}, "kserve": {"kserve": {"batch": 8}}}


@pytest.mark.parametrize("form", SETTINGS)
def test_a_run_through_each_form(form: str, tmp_path: Path) -> None:
    server = Server(form)
    with server.serve() as url:
        report = run(tmp_path, url, form, **SETTINGS[form])
        assert (report.rows_in, report.enriched, report.quarantined) == (ROWS, ROWS, 0)
        assert sorted(server.asked) == sorted(f"Row {number}" for number in range(ROWS))
        if form == "kserve":
            assert len(server.bodies) < ROWS
        again = run(tmp_path, url, form, **SETTINGS[form])
    assert again.calls == 0
    with duckdb.connect(str(tmp_path / "o.duckdb")) as db:
        assert db.sql("SELECT count(*) FROM rows WHERE x = 'Row ' || id").fetchall() == [(ROWS,)]
        tokens = db.sql("SELECT DISTINCT tokens_in FROM rows_responses").fetchall()
    assert tokens == {"responses": [(9,)], "anthropic": [(5,)], "kserve": [(None,)]}[form]


@pytest.mark.parametrize("form", ["responses", "anthropic"])
def test_the_audit_rebuilds_each_body(form: str, tmp_path: Path) -> None:
    server = Server(form)
    with server.serve() as url:
        run(tmp_path, url, form)
    with stored_output(se.load(tmp_path / "rows.prompt"), tmp_path / "o.duckdb") as stored:
        make_views(stored)
        make_sent(stored)
        found = [one.body for one in rebuilt_requests(stored)]
    assert sorted(body or b"" for body in found) == sorted(server.raw)


def test_what_one_api_answered_is_not_asked_through_another(tmp_path: Path) -> None:
    with Server("responses").serve() as url:
        assert run(tmp_path, url, "responses").calls == ROWS
    with Server("anthropic").serve() as url:
        assert run(tmp_path, url, "anthropic").calls == 0


def test_a_model_of_tensors_is_tuned(tmp_path: Path) -> None:
    path = tmp_path / "sqlenrich.toml"
    with Server("kserve").serve() as url:
        path.write_text(f'[endpoints.t]\nurl = "{url}"\napi = "kserve"\n')
        policy = TunePolicy(seconds=0.3, first=2, most=2)
        found = se.tune("t", model="m", config=read_config(path), write=False, policy=policy)
    assert [(one.width, one.failed) for one in found.widths] == [(2, 0.0)]


def test_a_gateway_passes_openai_bodies_to_any_endpoint() -> None:
    model = passing_models(Endpoint("https://api.anthropic.com/v1", api_key="k"), lambda _: None)["/chat/completions"]
    assert key_headers(model.endpoint, "k") == {"authorization": "Bearer k"}


def anthropic_refusal(kind: str, text: str, status: int) -> Reply:
    return as_json(status, {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_1"})


def test_an_older_model_of_anthropic_is_asked_in_words(tmp_path: Path) -> None:
    def refuse(_: Message, body: dict[str, Any]) -> Reply | None:
        if "output_config" in body:
            return anthropic_refusal("invalid_request_error", "output_config: Extra inputs are not permitted", 400)
        return None

    server = Server("anthropic", refuse)
    with server.serve() as url:
        assert run(tmp_path, url, "anthropic").enriched == ROWS
    assert all("JSON" in body["messages"][-1]["content"] for body in server.bodies)


@pytest.mark.parametrize(
    ("form", "status", "body", "text"),
    [
        ("anthropic", 401, {"error": {"type": "authentication_error", "message": "invalid x-api-key"}},
         "refuses the key .*invalid x-api-key"),
        ("anthropic", 400, {"error": {"type": "invalid_request_error", "message": "Your credit balance is too low"}},
         "the quota is used up"),
        ("kserve", 404, {"error": "Request for unknown model: 'm' is not found"}, "the model's name"),
        ("kserve", 400, {"error": "unexpected inference input 'text_input' for model 'm'"}, "unexpected infer"),
    ],
)  # fmt: skip
def test_a_refusal_ends_the_run(form: str, status: int, body: dict[str, Any], text: str, tmp_path: Path) -> None:
    server = Server(form, lambda *_: as_json(status, body))
    with server.serve() as url, pytest.raises(se.RunError, match=text):
        run(tmp_path, url, form)


def test_an_overload_is_waited_for(tmp_path: Path) -> None:
    seen: set[str] = set()

    def refuse(_: Message, body: dict[str, Any]) -> Reply | None:
        text = body["messages"][-1]["content"]
        if len(seen) < 10 and text not in seen:
            seen.add(text)
            return anthropic_refusal("overloaded_error", "Overloaded", 529)
        return None

    with Server("anthropic", refuse).serve() as url:
        assert run(tmp_path, url, "anthropic").enriched == ROWS


def test_fallbacks_of_messages_have_no_json_object() -> None:
    forms = (OutputForm("json_object", {"type": "json_object"}, "h"), OutputForm("none", None, "h"))
    body = new_body(endpoint("anthropic"), RequestConfig("c", {"max_tokens": 5}, FORM, fallbacks=forms))
    assert body.change("form", 0)
    assert orjson.loads(body.of(("row",))) == {
        "model": "c", "max_tokens": 5, "messages": [{"role": "user", "content": "row\n\nh"}],
    }  # fmt: skip
    assert not body.change("form", 1)


def test_the_openai_layer_of_anthropic_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "rows.prompt").write_text(PROMPT)
    (tmp_path / "sqlenrich.toml").write_text(
        '[endpoints.a]\nurl = "https://api.anthropic.com/v1"\napi = "openai"\n[models.default]\nendpoint = "m"\n'
    )
    found = CliRunner().invoke(cli, ["check", str(tmp_path / "rows.prompt"), "--engine", "duckdb"])
    assert "Anthropic ignores schemas on its OpenAI layer: remove api" in found.output
