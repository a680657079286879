"""Prompts over their limit: every engine and Python give the same verdict and the same text before the first call."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sqlenrich as se
from sqlenrich.core.errors import PromptError, SpecError
from sqlenrich.core.text_functions import BLANK
from sqlenrich.core.tokens import BYTES_PER_TOKEN, estimate_tokens
from sqlenrich.core.turn import SEPARATOR
from sqlenrich.core.types import BIGINT, STRING, Array, Struct, Type
from sqlenrich.plan.compile import snapshot_digest
from sqlenrich.plan.request import ResolvedModel, request_hash
from sqlenrich.schema.json_schema import hint_text
from sqlenrich.spec.limits import CUT, TOO_LONG, Fitted, Limit, fit
from sqlenrich.spec.loader import loads
from tests.prompt.test_conformance import Outcome, each_expression, each_script, run_script, select
from tests.support import runs
from tests.support.hostile import HOSTILE
from tests.support.in_memory import in_memory

OUTPUT = "output: {type: object, properties: {n: {type: integer}}, required: [n]}\n"
SCHEMA = loads(f"---\n{OUTPUT}---\n{{{{ a }}}}", name="x").schema
TOLD = estimate_tokens(hint_text(SCHEMA))
COLUMNS = {"id": BIGINT, "title": STRING, "body": STRING}


def enrichment(template: str, prompt_tokens: int | None, cut: str | None = None, header: str = "") -> se.Enrichment:
    """An enrichment with a limit of tokens for its prompts."""
    limit = "" if prompt_tokens is None else f"max_input_tokens: {TOLD + prompt_tokens}\n"
    limit += "" if cut is None else f"on_overflow: truncate:{cut}\n"
    return loads(f"---\nsource: source\nkey: [id]\n{limit}{header}{OUTPUT}---\n{template}", name="long")


def rendering(e: se.Enrichment) -> Callable[[Mapping[str, Any]], str | None]:
    """The reference prompt of a row; None where the template fails for the row."""

    def render(row: Mapping[str, Any]) -> str | None:
        try:
            system = (
                ""
                if e.system is None
                else se.render_prompt(e.system, row).replace(SEPARATOR, "").strip(BLANK) + SEPARATOR
            )
            return system + se.render_prompt(e.template, row)
        except PromptError:
            return None

    return render


def fitted(e: se.Enrichment, row: Mapping[str, Any]) -> Fitted:
    assert e.limit is not None
    return fit(rendering(e), row, e.limit)


# The estimate and the reference ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "tokens"), [
    ("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("é", 1), ("ééé", 2), ("漢字", 2), ("😀", 1), ("😀a", 2),
])  # fmt: skip
def test_tokens_are_bytes_by_four_rounded_up(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@pytest.mark.parametrize(("template", "body", "expected"), [
    # 16 bytes are the limit
    pytest.param("{{ body }}", "a" * 16, Fitted("a" * 16), id="exactly the limit"),
    pytest.param("{{ body }}", "a" * 17, Fitted("a" * 16, truncated=True), id="one over"),
    pytest.param("{{ body }}", "漢" * 6, Fitted("漢" * 5, truncated=True), id="three bytes each: 15 of 16"),
    pytest.param("{{ body }}", "😀" * 5, Fitted("😀" * 4, truncated=True), id="four bytes each"),
    pytest.param("{{ body }}", "a" * 10 + "😀" * 5, Fitted("a" * 8, truncated=True), id="cheap first: the share fits"),
    # its share of the characters is too long: as many characters less as bytes are over, or a quarter of what is left
    pytest.param("{{ body }}", "😀" * 3 + "a" * 6, Fitted("😀" * 3 + "aaaa", truncated=True), id="dear first"),
    pytest.param("{{ body }}", "😀" * 5 + "a" * 15, Fitted("😀" * 4, truncated=True), id="dear first: a quarter"),
    pytest.param("x" * 16 + "{{ body }}", "abc", Fitted("x" * 16 + "abc", too_long=True), id="nothing would be left"),
    pytest.param("x" * 15 + "{{ body }}", "abc", Fitted("x" * 15 + "a", truncated=True), id="one character is left"),
    pytest.param("x" * 17 + "{{ body }}", None, Fitted("x" * 17, too_long=True), id="NULL"),
    pytest.param("x" * 17 + "{{ body }}", "", Fitted("x" * 17, too_long=True), id="empty"),
    pytest.param("{{ body }}-{{ body }}", "a" * 9, Fitted("aaaaaaa-aaaaaaa", truncated=True), id="printed twice"),
    pytest.param("{{ body | trim }}", "a" * 9 + " " * 90, Fitted("a" * 9), id="a filter makes it short"),
    pytest.param("{{ body | trim }}", " " * 90 + "a" * 20, Fitted("a" * 20, too_long=True), id="blanks would be left"),
    pytest.param("{{ body }}-{{ body }}", "a" * 900, Fitted("aaaaaaa-aaaaaaa", truncated=True), id="long, twice"),
    pytest.param("{{ body[:20] }}", "a" * 900, Fitted("a" * 16, truncated=True), id="a part is printed"),
    pytest.param("{% if body %}it: {{ body }}{% endif %}",
                 "a" * 99, Fitted("it: " + "a" * 12, truncated=True), id="if"),
    pytest.param("{{ body[0] }}{{ body[-1] }}" + "x" * 15, "abc", Fitted("ac" + "x" * 15, too_long=True), id="ends"),
    pytest.param("{{ body.strip()[0] }}{{ body }}", " " + "a" * 20,
                 Fitted("a " + "a" * 14, truncated=True), id="first"),
    pytest.param("{{ body[:2] }}" + "x" * 15, "abc", Fitted("a" + "x" * 15, truncated=True), id="a part of a part"),
    pytest.param("{{ body[:2].strip()[0] }}{{ body }}", " " + "a" * 16, Fitted(None), id="fails as it is"),
])  # fmt: skip
def test_the_reference(template: str, body: str | None, expected: Fitted) -> None:
    if expected == Fitted(None):
        template, body = "{{ body.strip()[0] }}", "  "
    e = enrichment(template, 4, "body")
    assert fitted(e, {"body": body}) == expected


# Every engine ---------------------------------------------------------------------------------------------------------

BODIES: list[str | None] = [
    None, "", "a", " \n", "a" * 39, "a" * 40, "a" * 41, "a" * 1000, "é" * 20, "é" * 21, "漢" * 13, "漢" * 14,
    "漢字" * 50, "😀" * 10, "😀" * 11, "a😀" * 30, " " * 30 + "x",
    "a" * 40 + "漢" * 10, "漢" * 10 + "a" * 40, "😀" * 10 + "a" * 40, "e\u0301" * 40,
    "👨\u200d👩\u200d👧 " * 9, " " * 50 + "x", "x" + " " * 50, "\r\n\t" * 20, "Grüße, 東京 😀! " * 7, "'\"\\${x}" * 9,
    "a" * 36 + "😀" * 3, "\ufeff" * 20, "I\u0307ß" * 15,
    *(text for name, text in HOSTILE.items() if text is not None and name != "100 KB"),
]  # fmt: skip
TEMPLATES = {
    "as it is": "{{ body }}",
    "after a constant": "Classify: {{ body }}\nAnswer.",
    "printed twice": "{{ body }} / {{ body }}",
    "two columns": "{{ title }}: {{ body }}",
    "filters": "{{ body | trim | replace('a', 'bb') }}",
    "a condition": "{% if body and title %}{{ title }} {{ body }}{% else %}nothing is to be said, at all{% endif %}",
    "may fail": "{{ body.strip()[0] }} {{ body }}",
    "cut already": "{{ body[:30] | trim }} {{ title }}",
    "in a condition": "{% if body %}It says: {{ body }}{% else %}nothing{% endif %} {{ title }}",
}
ROWS = [
    (number, title, body)
    for number, (body, title) in enumerate(
        [*((body, "T") for body in BODIES), ("a" * 60, None), ("short", "t" * 60), ("b" * 60, "t" * 60)]
    )
]


def expected_rows(e: se.Enrichment, constant: str, rows: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """The rows of the step ``prompts`` by the reference."""
    assert e.limit is not None
    columns = e.prompt().inputs
    for values in rows:
        row = dict(zip(COLUMNS, values, strict=True))
        blank = all(not (row[name] or "").strip(" \t\r\n") for name in columns)  # NO_INPUT
        made = Fitted(rendering(e)(row) or "") if blank else fitted(e, row)
        hashed = None if blank or made.too_long else request_hash(constant, made.prompt)
        yield (row["id"], made.prompt, hashed, made.too_long, *((made.truncated,) if e.limit.cut else ()))


@pytest.mark.parametrize("cut", [None, "body"])
@pytest.mark.parametrize("template", TEMPLATES)
@each_expression
def test_every_engine_decides_as_the_reference(engine: str, template: str, cut: str | None) -> None:
    e = enrichment(TEMPLATES[template], 10, cut)
    plan = se.compile_plan(e, engine, {"source": "source"})
    step = plan.step("prompts")
    found = select(engine, step.sql, COLUMNS, ROWS)
    expected = list(expected_rows(e, plan.constant, ROWS))
    assert list(step.columns) == ["id", "prompt", "request_hash", TOO_LONG, *([CUT] if cut else [])]
    assert sorted(found) == expected
    verdicts = {tuple(row[3:]) for row in expected}
    assert verdicts >= {(False,), (True,)} if cut is None else verdicts >= {(False, False), (False, True)}
    assert e.limit is not None
    for _, prompt, hashed, *_ in expected:
        assert hashed is None or estimate_tokens(prompt) + TOLD <= e.limit.tokens


@pytest.mark.parametrize("cut", ["title", "body"])
@each_expression
def test_a_system_of_the_row_counts(engine: str, cut: str) -> None:
    """Its bytes count, and a column of it may be cut, where both texts print it in both."""
    e = enrichment("It says: {{ body }}", 10, cut, 'system: "For {{ title }}{{ body[:2] if body else title }}"\n')
    plan = se.compile_plan(e, engine, {"source": "source"})
    found = select(engine, plan.step("prompts").sql, COLUMNS, ROWS)
    expected = list(expected_rows(e, plan.constant, ROWS))
    assert sorted(found) == expected
    assert {row[3:] for row in expected} == {(False, False), (False, True), (True, False)}


def test_random_texts() -> None:
    """A prompt within the limit is asked unchanged. A truncated text is a prefix that fits."""
    chance = random.Random(20260)
    alphabets = ["abc ", "äöüß", "漢字かな", "😀👍🏽", "a漢", "ab😀", "\u0301e\u200d", "x" * 30 + "😀"]
    rows = []
    for number in range(4000):
        letters = chance.choice([*alphabets, "".join(alphabets)])
        body = "".join(chance.choice(letters) for _ in range(chance.randrange(120)))
        rows.append((number, chance.choice([None, "T", "title " * 3, "題" * 9]), body))
    data = pa.table(dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True)))
    with in_memory() as db:
        db.register("source", data)
        for template in TEMPLATES.values():
            e = enrichment(template, chance.randrange(4, 30), "body")
            plan = se.compile_plan(e, "duckdb", {"source": "source"})
            found = db.execute(f"SELECT * FROM ({plan.step('prompts').sql}) ORDER BY id").fetchall()
            assert found == list(expected_rows(e, plan.constant, rows))
    limit = Limit(TOLD + 10, TOLD, "body")
    for _, _, body in rows:
        made = fit(lambda row: f"say {row['body']}", {"body": body}, limit)
        room = limit.bytes - len("say ")
        if made.truncated:
            assert made.prompt is not None
            kept = made.prompt.removeprefix("say ")
            assert body.startswith(kept)
            assert len(made.prompt.encode()) <= limit.bytes
        else:
            assert made.too_long == (len(body.encode()) > room)


def test_whatever_fits_nothing_else_is_asked_of_it() -> None:
    """Without a limit, and with one that no row reaches, the requests are the same."""
    plans = [se.compile_plan(enrichment("{{ title }} {{ body }}", n, c), "duckdb", {"source": "source"})
             for n, c in ((None, None), (10_000, None), (10_000, "body"))]  # fmt: skip
    found = [select("duckdb", plan.step("prompts").sql, COLUMNS, ROWS) for plan in plans]
    assert [row[:3] for row in found[1]] == [row[:3] for row in found[2]] == found[0]
    assert {row[3:] for row in found[2]} == {(False, False)}


NAMES = {
    "rendered": STRING,
    "prompt_first": STRING,
    "_in1": STRING,
    "_first": STRING,
    "_least": STRING,
    "_sent": STRING,
}


@each_expression
def test_names_of_ours_are_free_for_columns(engine: str) -> None:
    names = list(NAMES)
    header = f"keep: [{', '.join(names[:3])}]\n"
    template = " ".join(f"{{{{ {name} }}}}" for name in names)
    e = replace(enrichment(template, 6, "prompt_first", header), key=tuple(names[3:]))
    rows = [(*"abc", "d", "e", "f"), ("a", "x" * 90, *"cdef")]
    found = select(engine, se.compile_plan(e, engine, {"source": "source"}).step("prompts").sql, NAMES, rows)
    kept = [(*row[3:], *row[:3]) for row in rows]
    made = [fitted(e, dict(zip(names, row, strict=True))) for row in rows]
    assert made[1].truncated
    plain = [(*row[:7], *row[8:]) for row in sorted(found, key=lambda row: len(row[4]))]
    assert plain == [(*k, m.prompt, m.too_long, m.truncated) for k, m in zip(kept, made, strict=True)]


TYPED: dict[str, Type] = {
    "id": BIGINT, "body": STRING, "n": BIGINT, "tags": Array(STRING),
    "part": Struct((("name", STRING), ("count", BIGINT))),
}  # fmt: skip


@each_expression
def test_columns_of_other_types_are_printed_again(engine: str) -> None:
    declared = "columns: {n: bigint, tags: {array: string}, part: {struct: {name: string, count: bigint}}}\n"
    template = "{{ n + 1 }} {% for t in tags %}{{ t }},{% endfor %} {{ part.name }} {{ part.count }}: {{ body }}"
    e = enrichment(template, 8, "body", declared)
    part = {"name": "x", "count": 2}
    rows = [
        (1, "short", 1, ["a", "b"], part),
        (2, "long " * 20, 1, ["a", "b"], part),
        (3, "long " * 20, 10**12, [], {"name": "漢字", "count": None}),
        (4, "long " * 20, 1, ["tag"] * 9, part),
        (5, "long " * 20, None, ["a"], part),  # the template fails
    ]
    step = se.compile_plan(e, engine, {"source": "source"}).step("prompts")
    found = sorted(select(engine, step.sql, TYPED, rows))
    made = [fitted(e, dict(zip(TYPED, row, strict=True))) for row in rows]
    assert [(row[1], row[3], row[4]) for row in found] == [(m.prompt, m.too_long, m.truncated) for m in made]
    assert [(m.too_long, m.truncated) for m in made] == [
        (False, False), (False, True), (False, True), (True, False), (False, False),
    ]  # fmt: skip


# The whole plan -------------------------------------------------------------------------------------------------------

SOURCE: list[tuple[int, str | None, str | None]] = [
    (1, "t", "short"),
    (2, "t", "x" * 900),
    (3, "t" * 900, "body"),
    (4, "t", None),
    (5, "t" * 900, " "),
    (6, None, "x" * 900),
]
ERRORS: dict[str | None, list[tuple[int, str, str | None]]] = {
    None: [(2, "BAD_PROMPT", "long"), (3, "BAD_PROMPT", "long"), (4, "NO_INPUT", None), (5, "NO_INPUT", None),
           (6, "BAD_PROMPT", None)],
    "body": [(3, "BAD_PROMPT", "long"), (4, "NO_INPUT", None), (5, "NO_INPUT", None), (6, "BAD_PROMPT", None)],
}  # fmt: skip


@pytest.mark.parametrize("cut", [None, "body"])
@each_script
def test_what_is_too_long_is_never_asked(engine: str, cut: str | None) -> None:
    e = enrichment("{{ title.strip() }} {{ body }}", 20, cut, "require: [body]\n")
    asked: list[str] = []

    def reply(prompt: str) -> Outcome:
        asked.append(prompt)
        return Outcome('{"n": 1}')

    for tables in run_script(engine, e, COLUMNS, SOURCE, reply, times=2):
        bad = sorted((row["id"], row["_error"], row["_error_detail"]) for row in tables["quarantine"])
        detail = f"longer than max_input_tokens {TOLD + 20}"
        assert bad == [(i, code, detail if why == "long" else why) for i, code, why in ERRORS[cut]]
        assert sorted(row["id"] for row in tables["enriched"]) == ([1, 2] if cut else [1])
        for name in ("prompts", "checked", "enriched", "quarantine"):
            recorded = {row["id"]: row.get(CUT) for row in tables[name]}
            assert recorded == {i: i == 2 if cut else None for i in recorded}
        whole = {row["id"]: row["prompt"] for row in tables["quarantine"]}
        assert whole[3] == "t" * 900 + " body"  # as it was rendered, whole
        assert whole[6] is None
    assert sorted(asked) == ["t short", *(["t " + "x" * 78] if cut else [])]


def test_the_columns_are_as_the_plan_says() -> None:
    plan = se.compile_plan(enrichment("{{ body }}", 20, "body"), "duckdb")
    assert [CUT in step.columns for step in plan.steps] == [True, False, True, True, True]
    assert [TOO_LONG in step.columns for step in plan.steps] == [True, False, False, False, False]


# The header -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lines", "message"), [
    ("max_input_tokens: 0", "line 4: max_input_tokens must be an integer of at least 1, not 0 @ max_input_tokens"),
    ("max_input_tokens: 9.5", "line 4: max_input_tokens must be an integer of at least 1, not 9.5 @ max_input_tokens"),
    ("max_input_tokens: true",
     "line 4: max_input_tokens must be an integer of at least 1, not True @ max_input_tokens"),
    ("on_overflow: quarantine", "line 4: on_overflow needs max_input_tokens, e.g. 8000 @ on_overflow"),
    ("max_input_tokens: 9000\non_overflow: drop",
     "line 5: on_overflow must be quarantine or truncate:COLUMN, not 'drop' @ on_overflow"),
    ("max_input_tokens: 9000\non_overflow: 'truncate:'",
     "line 5: on_overflow must be quarantine or truncate:COLUMN, not 'truncate:' @ on_overflow"),
    ("max_input_tokens: 9000\non_overflow: {truncate: body}",
     "line 5: on_overflow must be quarantine or truncate:COLUMN, not {'truncate': 'body'} @ on_overflow"),
    (f"max_input_tokens: {TOLD}", f"line 4: max_input_tokens {TOLD} leaves nothing for a prompt: the output's schema "
     f"alone is about {TOLD} @ max_input_tokens"),
    ("max_input_tokens: 9000\non_overflow: truncate:bdy",
     'line 5: "bdy" can\'t be cut: the prompt does not print its text; it prints: body, n @ on_overflow'),
    ("max_input_tokens: 9000\non_overflow: truncate:flag",
     'line 5: "flag" can\'t be cut: the prompt does not print its text; it prints: body, n @ on_overflow'),
    ("max_input_tokens: 9000\non_overflow: truncate:n",
     'line 5: "n" can\'t be cut: it is bigint, not text @ on_overflow'),
])  # fmt: skip
def test_the_header_is_refused(lines: str, message: str) -> None:
    template = "{% if flag == 'x' %}{{ body }}{% else %}{{ n }}{% endif %}"
    text = f"---\nkey: [id]\ncolumns: {{n: bigint}}\n{lines}\n{OUTPUT}---\n{template}"
    with pytest.raises(SpecError) as error:
        loads(text, name="long")
    assert list(error.value.problems) == [message]


def test_a_column_that_the_source_holds_as_a_number_is_not_cut() -> None:
    e = enrichment("{{ body }}", 20, "body")
    with pytest.raises(SpecError, match='"body" can\'t be cut: it is bigint, not text'):
        se.compile_plan(e, "duckdb", {"source": "s"}, source_types={"id": BIGINT, "body": BIGINT})


def test_a_changed_limit_makes_other_prompts_of_the_source() -> None:
    model = ResolvedModel("m")
    variants = [(None, None), (20, None), (21, None), (20, "body"), (20, "title")]
    made = [enrichment("{{ title }} {{ body }}", tokens, cut) for tokens, cut in variants]
    assert len({snapshot_digest(e, "duckdb", model) for e in made}) == len(variants)
    assert len({se.compile_plan(e, "duckdb", model=model).constant for e in made}) == 1


# A run ----------------------------------------------------------------------------------------------------------------

DATA = [(1, "short"), (2, "long " * 400), (3, "漢字" * 500), (4, ""), (5, "long " * 400)]


def header(tokens: int, more: str = "") -> str:
    schema = loads(f"---\n{runs.OUTPUT}---\n{{{{ a }}}}", name="x").schema
    return f"key: [id]\nmax_input_tokens: {tokens + estimate_tokens(hint_text(schema))}\n{more}"


def test_a_run_refuses_what_is_too_long(tmp_path: Path) -> None:
    prompt = runs.write_prompt(tmp_path, header(100))
    data, output = runs.write_csv(tmp_path / "in.csv", DATA), tmp_path / "out.duckdb"
    result = runs.run(prompt, data, output)
    assert result.status == 0
    assert result.report["quarantine"] == {"BAD_PROMPT": 3, "NO_INPUT": 1}
    assert (result.report["distinct_requests"], result.report["calls"]) == (1, 1)
    runs.assert_accounted(result.report, output)
    assert CUT not in runs.names(output, "intent")
    retried = runs.call("retry", prompt, "--output", output, "--mock", "--reason", "BAD_PROMPT")
    assert "too long" in retried.error


def test_a_run_cuts_what_is_too_long(tmp_path: Path) -> None:
    prompt = runs.write_prompt(tmp_path, header(100, "on_overflow: truncate:body\n"))
    data, output = runs.write_csv(tmp_path / "in.csv", DATA), tmp_path / "out.duckdb"
    result = runs.run(prompt, data, output)
    assert result.status == 0
    assert (result.report["distinct_requests"], result.report["calls"]) == (3, 3)  # two rows are cut to one request
    runs.assert_accounted(result.report, output)
    assert runs.names(output, "intent")[-1] == CUT
    recorded = runs.rows(output, f"SELECT id, {CUT} FROM intent UNION ALL SELECT id, {CUT} FROM intent_quarantine")
    assert sorted(recorded) == [("1", False), ("2", True), ("3", True), ("4", False), ("5", True)]
    sent = runs.rows(output, "SELECT max(strlen(prompt)), min(strlen(prompt)) FROM intent_prompts WHERE _truncated")
    assert sent == [(BYTES_PER_TOKEN * 100, BYTES_PER_TOKEN * 100)]
    again = runs.run(prompt, data, output)
    assert again.report["calls"] == 0
    runs.write_prompt(tmp_path, header(101, "on_overflow: truncate:body\n"))
    assert "run" in runs.call("retry", prompt, "--output", output, "--mock").error


def test_a_preview_tells_what_is_cut_and_what_is_refused(tmp_path: Path) -> None:
    data = runs.write_csv(tmp_path / "in.csv", DATA)
    told = {}
    for more in ("", "on_overflow: truncate:body\n"):
        prompt = runs.write_prompt(tmp_path, header(100, more))
        told[more] = runs.call("preview", prompt, "--input", data, "--prompt-only").out
        assert runs.call("preview", prompt, "--input", data, "--mock").status == 0
    refused, cut = told.values()
    assert refused.count("BAD_PROMPT: longer than max_input_tokens ") == 3
    assert "BAD_PROMPT" not in cut
    assert cut.count(" (body is cut to fit max_input_tokens ") == 3
