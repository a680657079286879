"""The bodies of a batch's requests equal those of live requests, and their answers are read alike."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from sqlenrich.core.embedding import Embedding
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.turn import ROW_SYSTEM, SEPARATOR, Turn
from sqlenrich.llm.batch.answers import answer_of
from sqlenrich.llm.batch.vendors import batch_body
from sqlenrich.llm.client import Client
from sqlenrich.llm.endpoint.adaptations import RequestChange
from sqlenrich.llm.endpoint.batched_model import BatchedModel
from sqlenrich.llm.endpoint.request_config import OutputForm, RequestConfig
from sqlenrich.llm.messages import Request
from tests.llm.batch.vendors import FORM, IDS, collect, vendor
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
        model = BatchedModel(Endpoint(endpoint.url, concurrency=1, embed_batch=1), config)
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
