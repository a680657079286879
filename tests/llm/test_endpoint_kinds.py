"""One table through each kind of endpoint: all its rows are enriched, or the message names the setting that does it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

import sqlenrich as se
from tests.support.networks import serving

ROWS = 60
PROMPT = """---
key: [id]
columns: {id: bigint}
params: {max_tokens: 50%s}
output: {x: string}
---
Row {{ id }}
"""
GOOD = '{"x": "a"}'
Body = dict[str, Any]
Reply = tuple[int, dict[str, str], bytes]


def refused(message: str, **facts: Any) -> Reply:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None, **facts}
    return 400, {}, json.dumps({"error": error}).encode()


def answered(text: str = GOOD, usage: Mapping[str, int] | None = None, **message: Any) -> Reply:
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": "stop"}
    body = {"id": "c", "object": "chat.completion", "choices": [choice]}
    return 200, {}, json.dumps({**body, "usage": usage} if usage else body).encode()


def ollama(_: Message, __: Body) -> Reply:
    return answered(f"<think>\n\n</think>\n\n{GOOD}", {"prompt_tokens": 5, "completion_tokens": 5})


def azure(headers: Message, body: Body) -> Reply:
    if headers["api-key"] != "k" * 32:
        return 401, {}, json.dumps({"error": {"code": "401", "message": "Access denied"}}).encode()
    if body.get("response_format", {}).get("type") == "json_schema":
        return refused(
            "response_format value as json_schema is enabled only for api versions 2024-08-01-preview and later",
            code="BadRequest",
        )
    return answered(f"```json\n{GOOD}\n```", {"prompt_tokens": 5, "completion_tokens": 5})


def litellm(_: Message, body: Body) -> Reply:
    if "response_format" in body:
        return refused(
            "litellm.UnsupportedParamsError: bedrock does not support parameters: ['response_format'], for model=m. To "
            "drop these, set `litellm.drop_params=True`",
            code="400",
        )
    return answered(GOOD, {"prompt_tokens": 5, "completion_tokens": 5}, tool_calls=None, function_call=None)


def streaming(_: Message, body: Body) -> Reply:
    if not body.get("stream"):
        return refused("This model only support stream mode, please enable the stream parameter to access the model. ")
    parts: list[Body] = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]},
        *({"choices": [{"index": 0, "delta": {"content": part}, "finish_reason": None}]} for part in GOOD),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 5}},
    ]
    events = [": keep-alive", *(f"data: {json.dumps(part)}" for part in parts), "data: [DONE]"]
    return 200, {"content-type": "text/event-stream"}, "".join(f"{event}\r\n\r\n" for event in events).encode()


def thinking(_: Message, __: Body) -> Reply:
    return answered(f'<think>\nIs it {{"x": "b"}}?\n</think>\n```json\n{GOOD}\n```')


def o1(_: Message, body: Body) -> Reply:
    if "max_tokens" in body:
        return refused(
            "Unsupported parameter: 'max_tokens' is not supported with this model. "
            "Use 'max_completion_tokens' instead.",
            param="max_tokens",
            code="unsupported_parameter",
        )
    if "temperature" in body:
        return refused(
            "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is "
            "supported.",
            param="temperature",
            code="unsupported_value",
        )
    assert body["max_completion_tokens"] == 50
    return answered(GOOD, {"prompt_tokens": 5, "completion_tokens": 5})


def o1_behind_litellm(headers: Message, body: Body) -> Reply:
    status, _, sent = o1(headers, body)
    if status == 200:
        return status, {}, sent
    message = json.loads(sent)["error"]["message"]
    return refused(f"litellm.BadRequestError: AzureException - {message}. Received Model Group=m", code="400")


@dataclass(frozen=True)
class Kind:
    """An endpoint: how it replies, how a user names it, and what the run says."""

    reply: Callable[[Message, Body], Reply]
    path: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    counts: bool = True
    """Whether it tells tokens."""


KINDS = {
    "Ollama": Kind(ollama),
    "Azure": Kind(azure, "/openai/deployments/ours?api-version=2024-06-01", {"headers": {"api-key": "env:AZURE_KEY"}}),
    "LiteLLM": Kind(litellm),
    "streaming only": Kind(streaming),
    "thinking": Kind(thinking, counts=False),
    "o1 under another name": Kind(o1),
    "o1 behind LiteLLM": Kind(o1_behind_litellm),
    "no usage": Kind(lambda _, __: answered(), counts=False),
}


def run(folder: Path, kind: Kind, params: str = "", model: str | None = "m") -> tuple[se.Report, list[str]]:
    (folder / "rows.csv").write_text("id\n" + "".join(f"{number}\n" for number in range(ROWS)))
    (folder / "rows.prompt").write_text(PROMPT % params)
    pages: list[str] = []

    def reply(headers: Message, sent: bytes) -> Reply:
        body = json.loads(sent or b"{}")
        pages.append(str(sorted(body)))
        return kind.reply(headers, body)

    with serving(reply) as url:
        report = se.run(
            se.load(folder / "rows.prompt"),
            input=folder / "rows.csv",
            output=folder / "rows.duckdb",
            model=se.Endpoint(url.removesuffix("/v1") + (kind.path or "/v1"), model=model, **kind.settings),
        )
    return report, pages


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_all_rows_are_enriched(tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_KEY", "k" * 32)
    report, pages = run(tmp_path, kind)
    assert (report.enriched, report.quarantined, report.pending) == (ROWS, 0, 0)
    assert report.tokens_in == (5 * ROWS if kind.counts else None)
    assert len(pages) <= ROWS + 2  # what an endpoint refuses is found out by its first requests
    # What was sent can be told afterwards, byte for byte.
    assert se.audit(se.load(tmp_path / "rows.prompt"), output=tmp_path / "rows.duckdb").holds


@pytest.mark.parametrize("kind", [KINDS["o1 under another name"], KINDS["o1 behind LiteLLM"]])
def test_a_parameter_that_changes_answers_is_left_out_by_a_setting_that_is_named(tmp_path: Path, kind: Kind) -> None:
    with pytest.raises(se.RunError, match="refuses what every request sends: HTTP 400") as refusal:
        run(tmp_path, kind, ", temperature: 0")
    named = re.search(r"write (\[models\.default\]) (endpoint = \{.*?\}) in sqlenrich\.toml", str(refusal.value))
    assert named is not None
    (tmp_path / "sqlenrich.toml").write_text(f"{named[1]}\n{named[2]}\n")
    assert run(tmp_path, kind, ", temperature: 0", model=None)[0].enriched == ROWS
