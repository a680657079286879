"""The stand-ins of the vendors, held to the types of the vendors' SDKs, which take seconds to import."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from tests.llm.batch.vendors import BEGAN, BOTH, IDS, KEY, collect, only, submit, vendor
from tests.support.batch_vendors import FakeVendors, as_message
from tests.support.tally import load

Types = dict[str, type[BaseModel]]


def types_of(vendor: str) -> tuple[Types, Types]:
    """Return the types of a vendor's pages, and those of the items of its lists."""
    if vendor == "anthropic":
        from anthropic.types.messages import MessageBatch

        return {"create": MessageBatch, "state": MessageBatch, "cancel": MessageBatch}, {"list": MessageBatch}
    from openai.types import Batch, FileObject

    pages: Types = {"upload": FileObject, "file": FileObject, "create": Batch, "state": Batch, "cancel": Batch}
    return pages, {"files": FileObject, "list": Batch}


def known_fields(model: type[BaseModel], page: dict[str, Any]) -> None:
    """Validate a page by the SDK's type; it has no field that the type has not."""
    assert set(page) <= set(model.model_fields), "the SDK's types take further fields silently"
    model.model_validate(page)


@pytest.mark.parametrize("name", BOTH)
def test_every_reply_is_one_of_the_sdk(name: str) -> None:
    ends: dict[str, Callable[[str], bool]] = {"fail": only(0), "expire": only(1), "cancel": only(2)}
    with FakeVendors(polls=2, **ends) as fake, vendor(fake, name) as opened:  # type: ignore[arg-type]
        lines = collect(opened, submit(opened))
        cancelled = submit(opened, "run-1-b")
        opened.cancel(cancelled.vendor_id)
        opened.state(cancelled.vendor_id)
        fake.enqueued = 1
        if name == "openai":
            submit(opened, "run-1-c")
        opened.find(KEY, BEGAN, len(IDS), IDS)
        opened.find_upload(KEY, BEGAN)
        sent = list(fake.sent)
    assert len(lines) == 6
    seen = set()
    pages, items = types_of(name)
    for page, body in sent:
        seen.add(page)
        if page in pages:
            known_fields(pages[page], body)
        else:
            for one in body["data"]:
                known_fields(items[page], one)
    assert seen == {*pages, *items} - {"file"}


def test_every_line_of_answers_is_one_of_the_sdk() -> None:
    from anthropic.types.messages import MessageBatchIndividualResponse
    from openai.types.chat import ChatCompletion

    ends: dict[str, Callable[[str], bool]] = {"fail": only(0), "expire": only(1), "cancel": only(2)}
    with FakeVendors(**ends) as fake, vendor(fake, "anthropic") as opened:  # type: ignore[arg-type]
        collect(opened, submit(opened))
        (batch,) = fake.message_batches.values()
        kinds = set()
        for raw in batch.results:
            line = TypeAdapter(MessageBatchIndividualResponse).validate_python(load(raw))
            kinds.add(line.result.type)
    assert kinds == {"succeeded", "errored", "expired", "canceled"}
    with FakeVendors() as fake, vendor(fake, "openai") as opened:
        collect(opened, submit(opened))
        (output,) = (file for file in fake.files.values() if file.purpose == "batch_output")
        for raw in output.content.splitlines():
            ChatCompletion.model_validate(load(raw)["response"]["body"])


def test_requests_are_those_of_the_sdk() -> None:
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming

    kinds: dict[str, tuple[Any, str]] = {
        "openai": (CompletionCreateParamsNonStreaming, "body"),
        "anthropic": (MessageCreateParamsNonStreaming, "params"),
    }
    for name, (params, place) in kinds.items():
        with FakeVendors() as fake, vendor(fake, name) as opened:
            submit(opened)
            (batch,) = fake.all_batches()
        for request in batch.requests:
            assert set(request[place]) <= set(params.__annotations__) | _inherited(params)
            TypeAdapter(params).validate_python(request[place])


def _inherited(params: Any) -> set[str]:
    return {name for base in getattr(params, "__orig_bases__", ()) for name in getattr(base, "__annotations__", {})}


def test_a_message_says_what_a_completion_says() -> None:
    from anthropic.types import Message

    with FakeVendors() as fake:
        completion = load(fake.complete({"model": "mock", "messages": [{"role": "user", "content": "row"}]}))
        known_fields(Message, as_message(completion))


def test_times_are_those_of_a_vendor() -> None:
    with FakeVendors(hold=True) as fake, vendor(fake, "anthropic") as opened:
        submit(opened)
        (_, page) = fake.sent[-1]
    assert datetime.fromisoformat(page["created_at"]).tzinfo is not None
