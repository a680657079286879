"""What callers get: stored answers, one request for equal ones, streams, and each page's own form."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import sqlenrich as se
from tests.gateway.conftest import Notes, ask, chat
from tests.support.endpoint import ScriptedEndpoint

Serve = Callable[..., se.Gateway]
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
SWAPPED = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "string"}}}
FORMATS = [{"type": "json_schema", "json_schema": {"name": "x", "schema": one}} for one in (SCHEMA, SWAPPED)]

EQUAL: list[tuple[str, Any, Any, bool]] = [
    ("the same", chat("a"), chat("a"), True),
    ("another text", chat("a"), chat("b"), False),
    ("fields in another order", chat("a", seed=1), {"seed": 1, **chat("a")}, True),
    ("a message's fields in another order", chat("a"), chat("a", messages=[{"content": "a", "role": "user"}]), True),
    ("a stream", chat("a"), chat("a", stream=True, stream_options={"include_usage": True}), True),
    ("stream: false", chat("a"), chat("a", stream=False), True),
    ("another temperature", chat("a", temperature=0), chat("a", temperature=1), False),
    ("another model", chat("a"), chat("a", model="small"), False),
    ("a schema in another order", chat("a", response_format=FORMATS[0]), chat("a", response_format=FORMATS[1]), False),
    ("spaces between", json.dumps(chat("a")).encode(), json.dumps(chat("a"), indent=2).encode(), True),
    ("an escaped letter", json.dumps(chat("ü")).encode(), json.dumps(chat("ü"), ensure_ascii=False).encode(), True),
    ("a lone letter, another normal form", chat("é"), chat("e\u0301"), False),
]


@pytest.mark.parametrize(("first", "second", "equal"), [case[1:] for case in EQUAL], ids=[case[0] for case in EQUAL])
def test_equal_requests_are_asked_once(
    serve: Serve, endpoint: ScriptedEndpoint, first: Any, second: Any, equal: bool
) -> None:
    url = serve().url
    answers = [ask(url, body) for body in (first, second)]
    assert [one.status for one in answers] == [200, 200]
    assert [one.cache for one in answers] == ["miss", "hit" if equal else "miss"]
    assert len(endpoint.asked) == (1 if equal else 2)
    assert (answers[0].headers["x-sqlenrich-request"] == answers[1].headers["x-sqlenrich-request"]) is equal


def test_an_answer_is_given_as_it_came_and_again_after_a_restart(output: Path, endpoint: ScriptedEndpoint) -> None:
    told = []
    for _ in range(2):
        with se.Gateway(output, se.Endpoint(endpoint.url), port=0) as gateway:
            told.append(ask(gateway.url, chat("text"), temperature="0"))
            with_slash = gateway.url.removesuffix("/v1")
            told.append(ask(with_slash, chat("text")))
    assert [one.cache for one in told] == ["miss", "hit", "hit", "hit"]
    assert {one.body for one in told} == {endpoint.completion(chat("text"), "")}
    assert told[0].headers["content-type"] == "application/json"
    assert int(told[3].headers["age"]) >= 0
    assert len(endpoint.asked) == 1
    # An output that lost its journal, as one that was copied, has the answers in its tables.
    output.with_name("answers.duckdb.journal").unlink()
    with se.Gateway(output, se.Endpoint(endpoint.url), port=0) as gateway:
        again = ask(gateway.url, chat("text"))
        assert (again.cache, again.body) == ("hit", told[0].body)
        assert gateway.written == 0


def test_equal_requests_in_flight_wait_for_one_answer(serve: Serve, endpoint: ScriptedEndpoint) -> None:
    endpoint.latency_s = 0.3
    gateway = serve()
    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda _: ask(gateway.url, chat("same")), range(20)))
    assert len(endpoint.asked) == 1
    assert sorted({str(one.cache) for one in found}) == ["joined", "miss"]
    assert len({one.body for one in found}) == 1
    assert (gateway.counts.requests, gateway.counts.joined, gateway.counts.answered) == (20, 19, 1)


CACHING: list[tuple[str, dict[str, str], list[tuple[int, str | None]], int]] = [
    ("", {}, [(200, "miss"), (200, "hit")], 1),
    ("no-cache asks anew and stores", {"cache_control": "no-cache"}, [(200, "miss"), (200, "miss"), (200, "hit")], 2),
    ("no-store", {"cache_control": "No-Store"}, [(200, "bypass"), (200, "bypass"), (200, "miss")], 3),
    ("only-if-cached", {"cache_control": "only-if-cached"}, [(504, None), (504, None), (200, "miss")], 1),
    ("an old answer", {"cache_control": "max-age=0"}, [(200, "miss"), (200, "miss")], 2),
    ("a young answer", {"cache_control": "foo, max-age=900"}, [(200, "miss"), (200, "hit")], 1),
    ("no age", {"cache_control": "max-age=x"}, [(400, None)], 0),
    ("the second sample", {"x_sqlenrich_sample": "2"}, [(200, "miss"), (200, "hit"), (200, "miss")], 2),
    ("no sample", {"x_sqlenrich_sample": "two"}, [(400, None)], 0),
]


@pytest.mark.parametrize(("headers", "told", "asked"), [case[1:] for case in CACHING], ids=[one[0] for one in CACHING])
def test_cache_control_is_obeyed(
    serve: Serve, endpoint: ScriptedEndpoint, headers: dict[str, str], told: list[tuple[int, str | None]], asked: int
) -> None:
    """The first two requests have the headers, a third one has none."""
    url = serve().url
    found = [ask(url, chat("a"), **(headers if place < 2 else {})) for place in range(len(told))]
    assert [(one.status, one.cache) for one in found] == told
    assert len(endpoint.asked) == asked


FIXED = [
    ("temperature 0", "/chat/completions", chat("a", temperature=0), True),
    ("a seed", "/chat/completions", chat("a", temperature=1, seed=7), True),
    ("temperature 1", "/chat/completions", chat("a", temperature=1), False),
    ("the model's own temperature", "/chat/completions", chat("a"), False),
    ("vectors", "/embeddings", {"model": "mock", "input": ["a"]}, True),
]


@pytest.mark.parametrize(("page", "body", "fixed"), [case[1:] for case in FIXED], ids=[case[0] for case in FIXED])
def test_only_fixed_answers_may_be_given_again(
    serve: Serve, endpoint: ScriptedEndpoint, page: str, body: Any, fixed: bool
) -> None:
    gateway = serve(reuse="fixed")
    assert [ask(gateway.url, body, page).cache for _ in range(2)] == ["miss", "hit" if fixed else "miss"]
    assert len(endpoint.asked) == (1 if fixed else 2)
    assert gateway.counts.unstored == 0


PAGES = [
    ("/chat/completions", chat("hello", max_tokens=9)),
    ("/completions", {"model": "mock", "prompt": "hello"}),
    ("/responses", {"model": "mock", "input": "hello"}),
]


@pytest.mark.parametrize("streamed_first", [True, False])
@pytest.mark.parametrize(("page", "body"), PAGES, ids=[page for page, _ in PAGES])
def test_the_sdk_reads_streams_of_each_page(
    serve: Serve, endpoint: ScriptedEndpoint, page: str, body: dict[str, Any], streamed_first: bool
) -> None:
    """The text of a stream is that of the whole answer, by OpenAI's own SDK and its types."""
    import openai

    client = openai.OpenAI(base_url=serve().url, api_key="none", max_retries=0)
    make: Any = {
        "/chat/completions": client.chat.completions.create,
        "/completions": client.completions.create,
        "/responses": client.responses.create,
    }[page]

    def whole() -> str:
        answer = make(**body)
        if page == "/responses":
            return str(answer.output_text)
        choice = answer.choices[0]
        return str(choice.message.content if page == "/chat/completions" else choice.text)

    def streamed() -> str:
        texts = []
        for event in make(**body, stream=True):
            if page == "/responses":
                texts.append(event.delta if event.type == "response.output_text.delta" else "")
            else:
                choice = event.choices[0]
                texts.append((choice.delta.content if page == "/chat/completions" else choice.text) or "")
        return "".join(texts)

    found = [streamed(), whole()] if streamed_first else [whole(), streamed()]
    assert found[0] == found[1] != ""
    assert len(endpoint.asked) == 1
    assert b"stream" not in endpoint.asked[0].body


def test_a_stream_has_tool_calls_and_the_usage_where_it_is_wanted() -> None:
    import openai
    from openai.lib.streaming.chat import ChatCompletionStreamState

    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls", "logprobs": None}
    usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    body = {"id": "i", "object": "chat.completion", "created": 1, "model": "mock", "choices": [choice], "usage": usage}
    from sqlenrich.gateway.events import chat_events

    state = ChatCompletionStreamState()
    events = [event.removeprefix(b"data: ").strip() for event in chat_events(body, True)]
    assert events[-1] == b"[DONE]"
    for event in events[:-1]:
        state.handle_chunk(openai.types.chat.ChatCompletionChunk.model_validate_json(event))
    found = state.get_final_completion().to_dict()
    assert found["usage"] == usage
    told: Any = found["choices"][0]  # type: ignore[index]
    assert told["finish_reason"] == "tool_calls"
    assert {name: told["message"]["tool_calls"][0][name] for name in ("id", "type")} == {"id": "c1", "type": "function"}
    assert told["message"]["tool_calls"][0]["function"]["arguments"] == '{"x": 1}'


def test_the_events_of_a_response_are_those_of_the_sdk() -> None:
    from openai.types.responses import ResponseStreamEvent
    from pydantic import TypeAdapter

    from sqlenrich.gateway.events import response_events

    items = [
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "thought"}]},
        {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"},
        {
            "type": "message", "id": "m", "role": "assistant", "status": "completed",
            "content": [
                {"type": "output_text", "text": "hello", "annotations": [], "logprobs": []},
                {"type": "refusal", "refusal": "no"},
            ],
        },
    ]  # fmt: skip
    body = {
        "id": "r", "object": "response", "created_at": 1, "status": "incomplete", "model": "mock", "output": items,
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": None,
    }  # fmt: skip
    adapter: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    found = [
        adapter.validate_python(json.loads(event.split(b"data: ", 1)[1]), strict=False)
        for event in response_events(body, False)
    ]
    assert [event.sequence_number for event in found] == list(range(len(found)))
    assert [event.type for event in found][-1] == "response.incomplete"
    assert "".join(event.delta for event in found if event.type == "response.output_text.delta") == "hello"
    assert [event.arguments for event in found if event.type == "response.function_call_arguments.done"] == ["{}"]
    assert found[-1].response.to_dict()["output"] == items


def test_vectors_and_the_list_of_models_are_passed_on(serve: Serve, endpoint: ScriptedEndpoint) -> None:
    url = serve().url
    body = {"model": "mock", "input": ["a", "b"]}
    first, second = (ask(url, body, "/embeddings") for _ in range(2))
    assert (first.cache, second.cache, first.body) == ("miss", "hit", second.body)
    assert len(first.json["data"]) == 2
    assert [one["id"] for one in ask(url, None, "/models", "GET").json["data"]] == ["mock", "small"]
    assert len(endpoint.asked) == 1


UNREAD = [
    ("no JSON", b'{"model": ', 400, "the body is not JSON"),
    ("no model", json.dumps({"messages": [{"role": "user", "content": "a"}]}).encode(), 200, "no JSON object with a"),
    ("a list", b"[1]", 400, "no JSON object with a model"),
    (
        "a number that is no float",
        b'{"model":"m","seed":92233720368547758080,"messages":[{"content":"a"}]}',
        200,
        "too l",
    ),
    ("in the background", json.dumps({"model": "m", "input": "a", "background": True}).encode(), 200, "fetched later"),
]


@pytest.mark.parametrize(("raw", "status", "why"), [case[1:] for case in UNREAD], ids=[case[0] for case in UNREAD])
def test_what_can_not_be_read_is_passed_on_unchanged(
    serve: Serve, endpoint: ScriptedEndpoint, raw: bytes, status: int, why: str
) -> None:
    notes = Notes()
    gateway = serve(observer=notes)
    page = "/responses" if b"background" in raw else "/chat/completions"
    found = [ask(gateway.url, raw, page) for _ in range(2)]
    assert [(one.status, one.cache) for one in found] == [(status, "bypass")] * 2
    assert [seen.body for seen in endpoint.log] == [raw, raw]
    assert why in notes.lines[0]
    assert len(gateway.store) == 0
