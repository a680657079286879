"""``system`` and ``messages``: what is read, what is sent by whom, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.core.turn import ASSISTANT, SYSTEM, USER, Turn, text_before
from sqlenrich.engines import engine_names
from sqlenrich.plan.compile import compile_plan
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.renderer.script import render
from tests.support.endpoint import ScriptedEndpoint

OUTPUT = {"intent(enum)": ["bug", "other"]}
EXAMPLES = [{"role": "user", "content": "It's {{ what }}"}, {"role": "assistant", "content": '{"intent": "bug"}'}]
TURNS = (Turn(SYSTEM, "For Acme"), Turn(USER, "It's broken"), Turn(ASSISTANT, '{"intent": "bug"}'))


def enrichment(**header: Any) -> se.Enrichment:
    given: dict[str, Any] = {"key": ["id"], "source": "raw.tickets", "vars": {"what": "broken", "company": "Acme"}}
    return se.enrichment("tickets", prompt="Say {{ body }}", output=OUTPUT, **given | header)


@pytest.mark.parametrize(
    ("turns", "text"),
    [
        ((), ""),
        (TURNS[:1], "For Acme\n\n"),
        (TURNS[1:], 'User: It\'s broken\n\nAssistant: {"intent": "bug"}\n\nUser: '),
        (TURNS, 'For Acme\n\nUser: It\'s broken\n\nAssistant: {"intent": "bug"}\n\nUser: '),
    ],
)
def test_the_text_before_a_prompt(turns: tuple[Turn, ...], text: str) -> None:
    assert text_before(turns) == text


@pytest.mark.parametrize(
    ("header", "turns"),
    [
        ({}, ()),
        ({"system": "For {{ company }}\n"}, TURNS[:1]),
        ({"messages": EXAMPLES}, TURNS[1:]),
        ({"system": "For {{ company }}", "messages": EXAMPLES}, TURNS),
        ({"system": "{{ output.intent.enum | join('/') }}"}, (Turn(SYSTEM, "bug/other"),)),
    ],
)
def test_what_is_read(header: dict[str, Any], turns: tuple[Turn, ...]) -> None:
    assert enrichment(**header).turns == turns


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"system": 5}, "system must be a text, not 5 @ system"),
        ({"system": " "}, "system must be a text, not ' ' @ system"),
        (
            {"system": "{{ body }}"},
            'system is the same for all rows: write "body" into the prompt, or into vars @ system',
        ),
        ({"messages": "hi"}, "messages must be a list of {role: ..., content: ...}, not 'hi' @ messages"),
        ({"messages": [EXAMPLES[0]]}, "messages must end with the assistant's"),
        ({"messages": [EXAMPLES[1], EXAMPLES[0]]}, 'role must be user, not "assistant"'),
        ({"messages": [{"role": "user"}, EXAMPLES[1]]}, "a message must be {role: user, content: TEXT} @ messages.0"),
        ({"messages": [{"role": "user", "content": "{{ body }}"}, EXAMPLES[1]]}, "@ messages.0.content"),
    ],
)
def test_what_is_refused(header: dict[str, Any], message: str) -> None:
    with pytest.raises(se.SpecError) as caught:
        enrichment(**header)
    assert message in str(caught.value)


def test_they_are_part_of_the_hash_on_every_engine() -> None:
    model = ResolvedModel("m")

    def constants(**header: Any) -> set[str]:
        made = enrichment(hint="always", **header)
        return {compile_plan(made, engine, model=model).constant for engine in engine_names()}

    plain, told, shown = constants(), constants(system="For Acme"), constants(system="For Acme", messages=EXAMPLES)
    assert len(plain) == len(told) == len(shown) == 1
    assert len(plain | told | shown) == 3


@pytest.mark.parametrize("engine", [name for name in engine_names() if name != "duckdb"])
def test_a_warehouse_gets_them_as_text(engine: str) -> None:
    script = render(enrichment(system="For {{ company }}"), engine)
    assert script.count("For Acme") == 1
    assert "For Acme" not in render(enrichment(), engine)


def test_an_endpoint_gets_them_as_messages(tmp_path: Path) -> None:
    made = enrichment(system="For {{ company }}", messages=EXAMPLES)
    rows = [{"id": number, "body": f"text {number}"} for number in range(3)]
    with ScriptedEndpoint(content='{"intent": "bug"}') as endpoint:
        report = se.run(made, input=rows, output=tmp_path / "out.duckdb", endpoint=endpoint.url, model="mock")
        sent = [json.loads(seen.body)["messages"] for seen in endpoint.asked]
    assert report.enriched == 3
    assert [messages[:3] for messages in sent] == [[turn._asdict() for turn in TURNS]] * 3
    assert sorted(messages[3]["content"] for messages in sent) == [f"Say text {number}" for number in range(3)]


def test_they_count_for_the_limit() -> None:
    with pytest.raises(se.SpecError, match=r"the output's schema and the messages before it are about \d+"):
        enrichment(system="word " * 200, max_input_tokens=150)
    assert enrichment(max_input_tokens=150).limit is not None
