"""The bodies of a batch's requests equal those of live requests, and their answers are read alike."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from sqlenrich.core.embedding import Embedding
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import ConfigError
from sqlenrich.core.turn import ROW_SYSTEM, SEPARATOR, Turn
from sqlenrich.llm.batch.answers import answer_of
from sqlenrich.llm.batch.messages_body import DEFAULT_MAX_TOKENS, MessagesBody
from sqlenrich.llm.batch.vendors import batch_body
from sqlenrich.llm.client import Client
from sqlenrich.llm.endpoint.adaptations import RequestChange
from sqlenrich.llm.endpoint.embedding_model import EmbeddingModel
from sqlenrich.llm.endpoint.request_config import OutputForm, RequestConfig
from sqlenrich.llm.endpoint.response import Completion
from sqlenrich.llm.messages import Request
from tests.llm.batch.vendors import FORM, IDS, SCHEMA, collect, vendor
from tests.support.batch_vendors import FakeVendors
from tests.support.endpoint import ScriptedEndpoint
from tests.support.models import endpoint_model

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PROMPTS = ["plain", 'quotes " and \\', "é 😀 \u2028", "two\nlines", "a\ud800b", ""]
CONFIGS = {
    "plain": RequestConfig("mock"),
    "schema": RequestConfig("mock", {"temperature": 0, "max_tokens": 9, "stop": ["x"]}, FORM, "Answer with JSON."),
    "turns": RequestConfig("mock", turns=(Turn("system", "Be short."), Turn("user", "a"), Turn("assistant", "b"))),
    "row system": RequestConfig("mock", turns=(ROW_SYSTEM, Turn("user", "a"), Turn("assistant", "b"))),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("extra", [{}, {"top_k": 5, "service_tier": "flex"}], ids=["", "extra_body"])
def test_a_batch_asks_and_answers_as_a_live_run_does(config: RequestConfig, extra: dict[str, Any]) -> None:
    prompts = [f"sys {SEPARATOR}{prompt}" if ROW_SYSTEM in config.turns else prompt for prompt in PROMPTS]
    requests = [Request(one, 1, prompt) for one, prompt in zip(IDS, prompts, strict=True)]
    settings: dict[str, Any] = {
        "turns": config.turns,
        "params": config.params,
        "response_format": config.response_format,
    }
    with ScriptedEndpoint(tells_cached=False) as endpoint:
        model = endpoint_model(endpoint.url, hint=config.hint, extra_body=extra, concurrency=1, **settings)
        with Client(model, concurrency=1) as client:
            live = [answer for batch in client.stream(iter(requests)) for answer in batch]
        sent = [seen.body for seen in endpoint.asked]
    scripted = ScriptedEndpoint(tells_cached=False)
    fake = FakeVendors(complete=lambda body: scripted.completion(body, ""), shuffle=True)
    with fake, vendor(fake, "openai", config, extra_body=extra) as opened:
        asked = [opened.request(one.request_hash, one.prompt) for one in requests]
        lines = [opened.line(one) for one in asked]
        found = collect(opened, opened.create("k", opened.upload("k", lines)))
    scripted.loop.close()
    assert [one.body for one in asked] == sent
    for one, line, body in zip(requests, lines, sent, strict=True):
        assert line == (
            b'{"custom_id":"' + one.request_hash.encode()
            + b'","method":"POST","url":"/v1/chat/completions","body":' + body + b"}\n"
        )  # fmt: skip
    batched = [answer_of(found[one.request_hash], one, model="mock", sent=(), asked_at=NOW) for one in requests]
    ignored: dict[str, Any] = {"latency_ms": 0, "asked_at": NOW, "request_id": None}
    assert [one._replace(**ignored) for one in batched] == [one._replace(**ignored) for one in live]


def test_vectors_are_batches_too() -> None:
    config = RequestConfig("mock", embedding=Embedding("vector", 4))
    requests = [Request(one, 1, f"row {one}") for one in IDS]
    with ScriptedEndpoint() as endpoint:
        model = EmbeddingModel(Endpoint(endpoint.url, concurrency=1, embed_batch=1), config)
        with Client(model, concurrency=1) as client:
            live = {one.request_hash: one for batch in client.stream(iter(requests)) for one in batch}
        sent = {seen.body for seen in endpoint.asked}
    with FakeVendors() as fake, vendor(fake, "openai", config) as opened:
        asked = [opened.request(one.request_hash, one.prompt) for one in requests]
        assert {one.body for one in asked} == sent
        info = opened.create("k", opened.upload("k", map(opened.line, asked)))
        (batch,) = fake.batches.values()
        assert batch.page == "/v1/embeddings"
        found = collect(opened, info)
    for one in requests:
        answer = answer_of(found[one.request_hash], one, model="mock", sent=(), asked_at=NOW)
        assert (answer.response, answer.tokens_in) == (
            live[one.request_hash].response,
            live[one.request_hash].tokens_in,
        )


def test_what_an_endpoint_refused_live_is_not_sent_in_a_batch() -> None:
    fallback = OutputForm("json_object", {"type": "json_object"}, "Answer with JSON: {}")
    config = RequestConfig("mock", {"max_tokens": 9}, FORM, fallbacks=(fallback,))
    changes = [RequestChange(NOW, name) for name in ("max_completion_tokens", "stream", "form")]
    body = orjson.loads(batch_body(Endpoint("http://x/v1"), config, changes).of(("row",)))
    assert body == {
        "model": "mock", "max_completion_tokens": 9, "response_format": {"type": "json_object"},
        "messages": [{"role": "user", "content": "row\n\nAnswer with JSON: {}"}],
    }  # fmt: skip


USER = {"role": "user", "content": "row"}


@pytest.mark.parametrize(
    ("config", "extra", "text", "expected"),
    [
        pytest.param(RequestConfig("c"), {}, "row", {"max_tokens": DEFAULT_MAX_TOKENS, "messages": [USER]}, id="plain"),
        pytest.param(
            RequestConfig("c", {"max_completion_tokens": 5, "stop": "x", "temperature": 0.5}), {"top_k": 3}, "row",
            {"max_tokens": 5, "stop_sequences": ["x"], "temperature": 0.5, "top_k": 3, "messages": [USER]}, id="params",
        ),
        pytest.param(
            CONFIGS["turns"], {}, "row",
            {"max_tokens": DEFAULT_MAX_TOKENS, "system": "Be short.",
             "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, USER]}, id="turns",
        ),
        pytest.param(
            replace(CONFIGS["turns"], turns=(ROW_SYSTEM, *CONFIGS["turns"].turns[:1])), {}, f"own{SEPARATOR}row",
            {"max_tokens": DEFAULT_MAX_TOKENS, "system": "own\n\nBe short.", "messages": [USER]}, id="a row's system",
        ),
        pytest.param(
            RequestConfig("c", {"max_tokens": 5}, hint="Answer with JSON."), {}, "a\ud800",
            {"max_tokens": 5,
             "messages": [{"role": "user", "content": "a\ufffd\\ud800\ufffd\n\nAnswer with JSON."}]}, id="hint",
        ),
        pytest.param(
            RequestConfig("c", {"max_tokens": 5}, FORM), {}, "row",
            {"max_tokens": 5, "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
             "messages": [USER]}, id="schema",
        ),
        pytest.param(
            RequestConfig("c", {"max_tokens": 5}, {"type": "json_object"}), {}, "row",
            {"max_tokens": 5, "messages": [USER]}, id="json_object",
        ),
    ],
)  # fmt: skip
def test_the_body_of_a_message(
    config: RequestConfig, extra: dict[str, Any], text: str, expected: dict[str, Any]
) -> None:
    body = orjson.loads(MessagesBody(config, extra).of((text,)))
    assert body.pop("model") == config.model
    if "output_config" in body:  # the SDK moves the type of an enum's values into the enum
        del body["output_config"]["format"]["schema"]["properties"], expected["output_config"]["format"]["schema"]
        schema = body["output_config"]["format"].pop("schema")
        assert (schema["required"], schema["additionalProperties"]) == (["intent", "urgency"], False)
    assert body == expected


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (RequestConfig("c", {"seed": 1}), "Anthropic's messages have no seed: remove it from the params"),
        (RequestConfig("c", embedding=Embedding("vector", 4)), "Anthropic has no vectors"),
        (
            RequestConfig("c", response_format={"type": "json_schema", "json_schema": {"schema": {"not": {}}}}),
            "Anthropic takes no such output schema",
        ),
    ],
)
def test_what_messages_do_not_have(config: RequestConfig, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        MessagesBody(config, {})


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
    assert MessagesBody.read(raw) == expected


@pytest.mark.parametrize("raw", [b"", b"<html>", b"{}", b'{"content": "x"}', b"[]"])
def test_what_is_no_message(raw: bytes) -> None:
    with pytest.raises(ValueError, match="the answer"):
        MessagesBody.read(raw)
