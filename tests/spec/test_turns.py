"""``system`` and ``messages``: what is read, what is sent by whom, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.core.turn import (
    ASSISTANT,
    ROW_SYSTEM,
    SYSTEM,
    USER,
    Turn,
    sent_text,
    shown_text,
    split_system,
    text_before,
)
from sqlenrich.engines import engine_names
from sqlenrich.plan.compile import compile_plan
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.renderer.script import render
from tests.support.endpoint import ScriptedEndpoint

OUTPUT = {"intent(enum)": ["bug", "other"]}
EXAMPLES = [{"role": "user", "content": "It's {{ what }}"}, {"role": "assistant", "content": '{"intent": "bug"}'}]
EXAMPLES_SENT = [{"role": "user", "content": "It's broken"}, {"role": "assistant", "content": '{"intent": "bug"}'}]
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
        ({"system": "{% if false %}{{ lang }}{% endif %}For {{ company }}"}, TURNS[:1]),
        ({"system": "For {{ lang }}"}, (ROW_SYSTEM,)),
        ({"system": "{% if lang == 'de' %}Hallo{% endif %}", "messages": EXAMPLES}, (ROW_SYSTEM, *TURNS[1:])),
    ],
)
def test_what_is_read(header: dict[str, Any], turns: tuple[Turn, ...]) -> None:
    assert enrichment(**header).turns == turns


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"system": 5}, "system must be a text, not 5 @ system"),
        ({"system": " "}, "system must be a text, not ' ' @ system"),
        ({"system": "{{ body | frobnicate }}"}, "frobnicate"),
        ({"system": "{% for x in lang %}{{ x }}{% endfor %}"}, "@ system"),
        ({"system": "{{ price }}", "columns": {"price": "double"}}, "@ system"),
        ({"system": "For {{ lang }}", "columns": {"long": "string"}}, 'the column "long" (lang?) is not used'),
        (
            {"system": "For {{ lang }}", "max_input_tokens": 100, "on_overflow": "truncate:title"},
            '"title" can\'t be cut: the prompt does not print its text; it prints: lang, body @ on_overflow',
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

    headers: list[dict[str, Any]] = [
        {},
        {"system": "For Acme"},
        {"system": "For {{ lang }}"},
        {"messages": EXAMPLES},
        {"system": "For Acme", "messages": EXAMPLES},
        {"system": "For {{ lang }}", "messages": EXAMPLES},
    ]
    found = [constants(**header) for header in headers]
    assert [len(one) for one in found] == [1] * len(headers)
    assert len(set[str]().union(*found)) == len(headers)
    # The text of a row is hashed, the template of its system message is not: equal requests are asked once.
    assert constants(system="For {{ lang }}") == constants(system="{{ lang }}")


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


OWN = "{% if lang %}Answer in {{ lang }}.{% endif %}"
ROWS: list[dict[str, Any]] = [
    {"id": 1, "lang": "de", "body": "a"},
    {"id": 2, "lang": None, "body": "a"},
    {"id": 3, "lang": "de", "body": "a"},
    {"id": 4, "lang": " ", "body": "b\x1ec"},
    {"id": 5, "lang": "x\x1ey", "body": "c"},
    {"id": 6, "lang": "de", "body": None},
]
SYSTEMS = {1: "Answer in de.", 2: "", 3: "Answer in de.", 4: "Answer in  .", 5: "Answer in xy."}
"""What each row that is asked is told, "" for nothing."""


@pytest.mark.parametrize(
    ("turns", "text", "parts", "sent", "shown"),
    [
        ((), "a\x1eb", ("", "a\x1eb"), "a\x1eb", "a\x1eb"),
        (TURNS[:1], "a\x1eb", ("", "a\x1eb"), "For Acme\n\na\x1eb", "a\x1eb"),
        ((ROW_SYSTEM,), "a\x1eb\x1ec", ("a", "b\x1ec"), "a\n\nb\x1ec", "System: a\n\nb\x1ec"),
        ((ROW_SYSTEM,), "\x1eb", ("", "b"), "b", "b"),
        ((ROW_SYSTEM,), "b", ("", "b"), "b", "b"),
        (
            (ROW_SYSTEM, *TURNS[1:]),
            "For Acme\x1eb",
            ("For Acme", "b"),
            text_before(TURNS) + "b",
            "System: For Acme\n\nb",
        ),
        ((ROW_SYSTEM, *TURNS[1:]), "\x1eb", ("", "b"), text_before(TURNS[1:]) + "b", "b"),
    ],
)
def test_the_text_of_a_row(turns: tuple[Turn, ...], text: str, parts: tuple[str, str], sent: str, shown: str) -> None:
    assert split_system(turns, text) == parts
    assert sent_text(turns, text) == sent
    assert shown_text(turns, text) == shown


def test_a_system_that_reads_columns_is_the_message_of_each_row(tmp_path: Path) -> None:
    """A row without a message gets none; equal requests are asked once; the second run asks nothing."""
    made = enrichment(system=OWN, messages=EXAMPLES, source=None)
    output = tmp_path / "out.duckdb"
    with ScriptedEndpoint(content='{"intent": "bug"}') as endpoint:
        options: dict[str, Any] = {"input": ROWS, "output": output, "endpoint": endpoint.url, "model": "mock"}
        report = se.run(made, **options)
        assert (report.enriched, report.calls) == (5, 4)
        assert report.quarantine == {"NO_INPUT": 1}
        sent = [json.loads(seen.body)["messages"] for seen in endpoint.asked]
        again = se.run(made, **options)
        assert (again.calls, again.enriched, len(endpoint.asked)) == (0, 5, 4)
    expected = []
    for row in ROWS[:2] + ROWS[3:5]:
        system = [{"role": "system", "content": SYSTEMS[row["id"]]}] if SYSTEMS[row["id"]] else []
        expected.append([*system, *EXAMPLES_SENT, {"role": "user", "content": f"Say {row['body']}"}])
    assert sorted(map(str, sent)) == sorted(map(str, expected))


def test_feedback_of_a_retry_follows_the_prompt(tmp_path: Path) -> None:
    made = enrichment(system=OWN, retry={"feedback": True}, source=None)
    output = tmp_path / "out.duckdb"
    with ScriptedEndpoint(content="no") as endpoint:
        options: dict[str, Any] = {"output": output, "endpoint": endpoint.url, "model": "mock"}
        se.run(made, input=ROWS[:1], **options)
        se.retry(made, **options)
        first, second, *_ = (json.loads(seen.body)["messages"] for seen in endpoint.asked)
    assert first[0] == second[0] == {"role": "system", "content": "Answer in de."}
    assert first[1]["content"] == "Say a"
    assert second[1]["content"].startswith("Say a\n\nYour last answer was refused: BAD_JSON")


def test_a_column_that_only_the_system_reads(tmp_path: Path) -> None:
    """It must be in the source, and a value that does not fit its type is BAD_PROMPT."""
    with pytest.raises(se.PromptError, match='@ system:1:7: unknown column "lang"; there are: id, body'):
        se.run(enrichment(system=OWN, source=None), input=[{"id": 1, "body": "a"}], mock=True)
    made = enrichment(system="Since {{ year }}", columns={"year": "bigint"}, source=None)
    rows = [{"id": 1, "year": "x", "body": "a"}, {"id": 2, "year": "7", "body": "a"}]
    report = se.run(made, input=rows, output=tmp_path / "out.duckdb", mock=True)
    assert (report.enriched, report.quarantine) == (1, {"BAD_PROMPT": 1})
    constant = enrichment(system="For {{ lang }}: {{ body }}", source=None)
    assert constant.prompt().inputs == ("body",)
    assert se.enrichment("t", prompt="Go", output=OUTPUT, key=["id"], system="{{ body }}").prompt().inputs == ("body",)


def test_it_counts_for_the_limit_of_each_row(tmp_path: Path) -> None:
    made = enrichment(system="{{ lang }}", max_input_tokens=150, on_overflow="truncate:body", source=None)
    assert made.limit is not None
    room = made.limit.bytes
    rows = [
        {"id": 1, "lang": "d" * (room - 100), "body": "a"},
        {"id": 2, "lang": "d" * (room - 100), "body": "a" * 300},
        {"id": 3, "lang": "d" * (room + 1), "body": "a"},
    ]
    output = tmp_path / "out.duckdb"
    with ScriptedEndpoint(content='{"intent": "bug"}') as endpoint:
        report = se.run(made, input=rows, output=output, endpoint=endpoint.url, model="mock")
        sent = [json.loads(seen.body)["messages"] for seen in endpoint.asked]
    assert (report.enriched, report.quarantine) == (2, {"BAD_PROMPT": 1})
    sizes = sorted(sum(len(one["content"]) for one in messages) + 1 for messages in sent)
    assert sizes == [room - 100 + len("Say a") + 1, room]


def test_they_count_for_the_limit() -> None:
    with pytest.raises(se.SpecError, match=r"the output's schema and the messages before it are about \d+"):
        enrichment(system="word " * 200, max_input_tokens=150)
    assert enrichment(max_input_tokens=150).limit is not None
