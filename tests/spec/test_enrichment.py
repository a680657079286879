"""The prompt file: its keys, and the report of all its problems at once."""

from __future__ import annotations

import enum
import json
import re
from pathlib import Path
from typing import Any, Literal

import pydantic
import pytest

import sqlenrich as se
from sqlenrich.core.types import BIGINT, DOUBLE, STRING, Array, Decimal, Struct
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.loader import loads, templates

OUTPUT = "output: {type: object, properties: {label: {type: string}}}"


def enrichment(
    header: str = "", template: str = "Say {{ body }}", *, name: str = "x", output: str = OUTPUT
) -> Enrichment:
    """An enrichment of some header lines."""
    lines = [line for line in ("---", header, output, "---", template) if line]
    return loads("\n".join(lines) + "\n", name=name)


def problems(header: str = "", template: str = "Say {{ body }}", *, name: str = "x", output: str = OUTPUT) -> list[str]:
    """The problems that such a file has."""
    with pytest.raises(se.SpecError) as caught:
        enrichment(header, template, name=name, output=output)
    assert str(caught.value) == "\n".join(f"{name}.prompt: {problem}" for problem in caught.value.problems)
    return list(caught.value.problems)


ACCEPTED: list[Any] = [
    pytest.param("description: What it is", "description", "What it is", id="description"),
    pytest.param("version: 1", "version", "1", id="version as an integer"),
    pytest.param("version: v2", "version", "v2", id="version as text"),
    pytest.param("version: null", "version", None, id="no version"),
    pytest.param("source: raw.messages", "source", "raw.messages", id="source"),
    pytest.param('source: {query: "SELECT 1"}', "query", "SELECT 1", id="query"),
    pytest.param("key: [id, day]", "key", ("id", "day"), id="key"),
    pytest.param("key: []", "key", (), id="empty key"),
    pytest.param("keep: [channel]", "keep", ("channel",), id="keep"),
    pytest.param('keep: "*"', "keep_all", True, id="keep all"),
    pytest.param('keep: "*"\ncolumns: {more: string}', "keep", (), id="keep all and a column that is only kept"),
    pytest.param("require: [body]", "require", ("body",), id="require"),
    pytest.param("require: []", "require", (), id="nothing required"),
    pytest.param("", "require", None, id="require by default"),
    pytest.param("where: \"channel <> 'spam'\"", "where", "channel <> 'spam'", id="where"),
    pytest.param("model: large", "model", "large", id="model"),
    pytest.param("", "model", "default", id="model by default"),
    pytest.param("params: {temperature: 0, max_tokens: 5}", "params", {"temperature": 0, "max_tokens": 5}, id="params"),
    pytest.param(
        "params: {top_p: 1.0, seed: -1, stop: [a]}",
        "params",
        {"top_p": 1.0, "seed": -1, "stop": ["a"]},
        id="more params",
    ),
    pytest.param(
        "params: {snowflake: {guardrails: true}}",
        "engine_params",
        {"snowflake": {"guardrails": True}},
        id="an engine's params",
    ),
    pytest.param("vars: {a: [1, 2]}", "vars", {"a": [1, 2]}, id="vars"),
    pytest.param("", "timezone", "UTC", id="no time zone"),
    pytest.param("timezone: Asia/Tokyo", "timezone", "Asia/Tokyo", id="time zone"),
    pytest.param("hint: never", "hint", "never", id="hint"),
    pytest.param("repairs: []", "repairs", (), id="no repairs"),
    pytest.param("repairs: [fence, trim]", "repairs", ("trim", "fence"), id="repairs in their own order"),
    pytest.param("", "repairs", ("trim", "reasoning", "fence"), id="repairs by default"),
    pytest.param("retry: {max_attempts: 5}", "max_attempts", 5, id="max_attempts"),
    pytest.param("max_quarantine: 0.05", "max_quarantine", 0.05, id="max_quarantine"),
    pytest.param("max_quarantine: 0", "max_quarantine", 0, id="max_quarantine of none"),
    pytest.param("pin_model: true", "pin_model", True, id="pin_model"),
    pytest.param("pin_model: false", "pin_model", None, id="no pin_model"),
    pytest.param("pin_model: gpt-4o-2024-*", "pin_model", "gpt-4o-2024-*", id="pin_model of a pattern"),
    pytest.param("max_quarantine: 1", "max_quarantine", 1, id="max_quarantine of all"),
]


@pytest.mark.parametrize(("header", "attribute", "value"), ACCEPTED)
def test_accepted(header: str, attribute: str, value: object) -> None:
    assert getattr(enrichment(header), attribute) == value


REFUSED = [
    pytest.param("descripton: x", 'line 2: unknown key "descripton" (description?) @ descripton', id="unknown key"),
    pytest.param("zzz: x", 'line 2: unknown key "zzz" @ zzz', id="unknown key without a near one"),
    pytest.param("1: x", 'line 2: unknown key "1" @ 1', id="a number as a key"),
    pytest.param("system: 5", "line 2: system must be a text, not 5 @ system", id="system"),
    pytest.param("images: x", 'line 2: "images" is not supported yet @ images', id="images"),
    pytest.param(
        "embed: x",
        'line 2: "embed" is no key of the header: write output: {embedding: {dimensions: 1024}} @ embed',
        id="embed",
    ),
    pytest.param(
        "name: x",
        'line 2: "name" is no key of the header: an enrichment has the name of its file: NAME.prompt @ name',
        id="what stands elsewhere",
    ),
    pytest.param("description: 3", "line 2: description must be a text, not 3 @ description", id="description"),
    pytest.param("version: [1]", "line 2: version must be a number or a text, not [1] @ version", id="version"),
    pytest.param(
        "version: true", "line 2: version must be a number or a text, not True @ version", id="boolean version"
    ),
    pytest.param(
        "source: 3", 'line 2: source must be a table name, {query: "SELECT ..."} or {ref: NAME} @ source', id="source"
    ),
    pytest.param(
        "source: ''",
        'line 2: source must be a table name, {query: "SELECT ..."} or {ref: NAME} @ source',
        id="no source",
    ),
    pytest.param(
        "source: {qery: x}",
        'line 2: source must be a table name, {query: "SELECT ..."} or {ref: NAME} @ source',
        id="qery",
    ),
    pytest.param("key: id", "line 2: key must be a list of column names, not 'id' @ key", id="key"),
    pytest.param("key: [id, id]", 'line 2: "id" is repeated @ key', id="key twice"),
    pytest.param("keep: [1]", 'line 2: keep must be a list of column names, or "*", not [1] @ keep', id="keep"),
    pytest.param("keep: all", "line 2: keep must be a list of column names, or \"*\", not 'all' @ keep", id="keep all"),
    pytest.param('keep: ["*"]', "line 2: keep must be a list of column names, or \"*\", not ['*'] @ keep", id="[*]"),
    pytest.param("require: body", "line 2: require must be a list of column names, not 'body' @ require", id="require"),
    pytest.param("columns: [body]", "line 2: columns must be a mapping, not ['body'] @ columns", id="columns"),
    pytest.param("columns: {body: strng}", 'line 2: unknown type "strng" (string?) @ columns.body', id="type"),
    pytest.param(
        "columns: {body: {typ: string, from: B}}",
        'line 2: unknown key "typ" (type?) @ columns.body.typ',
        id="column key",
    ),
    pytest.param(
        "columns: {bdy: string}",
        'line 2: the column "bdy" (body?) is not used by the prompt @ columns.bdy',
        id="unused column",
    ),
    pytest.param("where: 3", "line 2: where must be a text, not 3 @ where", id="where"),
    pytest.param("timezone: 3", "line 2: timezone must be a text, not 3 @ timezone", id="time zone as a number"),
    *(
        pytest.param(
            f"timezone: {name}",
            f'line 2: unknown time zone "{name}"{near}; write an IANA name such as Europe/Berlin, or UTC @ timezone',
            id=f"time zone {name}",
        )
        for name, near in (
            ("CET", ""),
            ("utc", " (UTC?)"),
            ("europe/berlin", " (Europe/Berlin?)"),
            ("Europe/Berln", " (Europe/Berlin?)"),
            ("+02:00", ""),
        )
    ),
    pytest.param("model: 3", "line 2: model must be a text, not 3 @ model", id="model"),
    pytest.param("params: [1]", "line 2: params must be a mapping, not [1] @ params", id="params"),
    pytest.param(
        "params: {temperature: 3}",
        "line 2: temperature must be from 0 to 2, not 3 @ params.temperature",
        id="temperature",
    ),
    pytest.param(
        "params: {temperature: .nan}",
        "line 2: temperature must be from 0 to 2, not nan @ params.temperature",
        id="no number",
    ),
    pytest.param(
        "params: {temperature: true}",
        "line 2: temperature must be a number, not True @ params.temperature",
        id="boolean",
    ),
    pytest.param(
        "params: {max_tokens: 0}", "line 2: max_tokens must be from 1, not 0 @ params.max_tokens", id="max_tokens"
    ),
    pytest.param(
        "params: {max_tokens: 1.5}",
        "line 2: max_tokens must be an integer, not 1.5 @ params.max_tokens",
        id="max_tokens and a half",
    ),
    pytest.param("params: {top_p: 1.1}", "line 2: top_p must be from 0 to 1, not 1.1 @ params.top_p", id="top_p"),
    pytest.param("params: {seed: a}", "line 2: seed must be an integer, not 'a' @ params.seed", id="seed"),
    pytest.param("params: {stop: a}", "line 2: stop must be a list of texts, not 'a' @ params.stop", id="stop"),
    pytest.param(
        "params: {stop: [1]}", "line 2: stop must be a list of at most 4 texts, not [1] @ params.stop", id="stops"
    ),
    pytest.param(
        "params: {stop: [a, b, c, d, e]}",
        "line 2: stop must be a list of at most 4 texts, not ['a', 'b', 'c', 'd', 'e'] @ params.stop",
        id="five",
    ),
    pytest.param(
        "params: {temprature: 1}",
        'line 2: unknown parameter "temprature" (temperature?); write a vendor\'s own under its engine, '
        "as in params: {snowflake: {temprature: ...}} @ params.temprature",
        id="parameter",
    ),
    pytest.param("params: {spark: 1}", "line 2: params.spark must be a mapping @ params.spark", id="engine's params"),
    pytest.param("vars: [1]", "line 2: vars must be a mapping, not [1] @ vars", id="vars"),
    pytest.param("vars: {output: 1}", 'line 2: "output" is both a constant and reserved @ vars.output', id="output"),
    pytest.param(
        "hint: sometimes", 'line 2: hint must be one of auto, always, never, not "sometimes" @ hint', id="hint"
    ),
    pytest.param("repairs: trim", "line 2: repairs must be a list, not 'trim' @ repairs", id="repairs"),
    pytest.param(
        "repairs: [trim, fense]",
        'line 2: unknown repair "fense" (fence?); '
        "there are: trim, reasoning, fence, prose, trailing_comma, null_as_absent @ repairs.1",
        id="repair",
    ),
    pytest.param("retry: 3", "line 2: retry must be a mapping, not 3 @ retry", id="retry"),
    pytest.param("retry: {feedbak: true}", 'line 2: unknown key "feedbak" (feedback?) @ retry.feedbak', id="feedback"),
    pytest.param(
        "retry: {max_attempts: 0}",
        "line 2: max_attempts must be an integer of at least 1 @ retry.max_attempts",
        id="no attempts",
    ),
    pytest.param(
        "retry: {max_attempts: true}",
        "line 2: max_attempts must be an integer of at least 1 @ retry.max_attempts",
        id="true attempts",
    ),
    pytest.param(
        "keep_prompts: 0", "line 2: keep_prompts must be true or false, not 0 @ keep_prompts", id="keep_prompts"
    ),
    pytest.param("max_quarantine: 1.1", "line 2: max_quarantine must be from 0 to 1 @ max_quarantine", id="above"),
    pytest.param(
        "pin_model: 4",
        "line 2: pin_model must be true, or the name or the pattern of a model, not 4 @ pin_model",
        id="pin",
    ),
    pytest.param("max_quarantine: -0.1", "line 2: max_quarantine must be from 0 to 1 @ max_quarantine", id="below"),
    pytest.param(
        "max_quarantine: 5%", "line 2: max_quarantine must be a number, not '5%' @ max_quarantine", id="percent"
    ),
    pytest.param(
        "key: [label]",
        'line 3: "label" is repeated: each column of a result table needs its own name @ output',
        id="output is key",
    ),
    pytest.param(
        "keep: [LABEL]",
        'line 3: "LABEL" and "label" are equal but for case: each column of a result table needs its own name @ output',
        id="output is keep but for case",
    ),
    pytest.param("key: [_error]", 'line 2: "_error" is the name of a column of sqlenrich @ key', id="reserved"),
    pytest.param("keep: [_row]", 'line 2: "_row" is the name of a column of sqlenrich @ keep', id="_row is a key"),
    pytest.param(
        "key: [id]\nkeep: [ID]",
        'line 3: "id" and "ID" are equal but for case: each column of a result table needs its own name @ keep',
        id="case",
    ),
]


@pytest.mark.parametrize(("header", "problem"), REFUSED)
def test_refused(header: str, problem: str) -> None:
    assert problems(header) == [problem]


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        pytest.param("description: x", "output is missing: the JSON Schema of the answer", id="none"),
        pytest.param("output: 3", "line 2: a schema is a mapping, not 3 @ output", id="number"),
        pytest.param(
            "output: {type: string}",
            'line 2: the answer is one JSON object: write "type: object" and its properties @ output',
            id="text",
        ),
        pytest.param(
            "output: {type: object}", "line 2: the output has no properties, so no columns @ output", id="empty"
        ),
        pytest.param(
            "output: {type: object, properties: {response: {type: string}}}",
            'line 2: "response" is the name of a column of sqlenrich @ output',
            id="reserved",
        ),
        pytest.param(
            "output:\n  type: object\n  properties:\n    n: {type: integer, minimum: 5, maximum: 1}",
            "line 5: can't be met: minimum 5 is above maximum 1 @ output.properties.n",
            id="can't be met",
        ),
        pytest.param(
            "output:\n  type: object\n  properties:\n    tags:\n      type: array\n      items: {type: strng}",
            'line 7: unknown type "strng" (string?) @ output.properties.tags.items',
            id="nested",
        ),
        pytest.param(
            'output: {pydantic: "nowhere:M"}',
            "line 2: \"nowhere:M\" gives no Pydantic model (No module named 'nowhere'); "
            'write "package.module:Model" @ output',
            id="no module",
        ),
        pytest.param(
            'output: {pydantic: "json:loads"}',
            "line 2: \"json:loads\" gives no Pydantic model ('function' object has no attribute "
            "'model_json_schema'); write \"package.module:Model\" @ output",
            id="no model",
        ),
        pytest.param(
            'output: {$ref: "#/$defs/a", $defs: {a: {type: object, properties: {b: {$ref: "#/$defs/a"}}}}}',
            'line 2: "#/$defs/a" refers to itself; a column has a fixed depth @ output.properties.b',
            id="recursive",
        ),
    ],
)
def test_refused_output(output: str, problem: str) -> None:
    found = problems(output=output)
    assert found[0] == problem


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        pytest.param(
            "a\nb\n{{ body",
            "line 7, column 4: unexpected end of template, expected 'end of print statement'.",
            id="syntax",
        ),
        pytest.param(
            "a\n{{ body|uper }}",
            'line 6, column 9: the filter "uper" (upper?) is not compiled for row values; '
            "prepare the value in the source query",
            id="filter",
        ),
        pytest.param(
            "{{ output.lable }}{{ body }}",
            "line 5, column 10: this fails for every row: 'dict object' has no attribute 'lable'",
            id="output",
        ),
        pytest.param("constant", "line 5: the prompt reads no column: all rows would ask the same", id="no column"),
    ],
)
def test_a_template_s_problem_stands_at_its_line_of_the_file(template: str, problem: str) -> None:
    assert problems("version: 1", template) == [problem]


def test_all_problems_are_reported_at_once() -> None:
    header = (
        "modl: x\nimages: [a]\nkey: id\nparams: {temperature: 9}\nretry:\n  max_attempts: 0\n"
        "max_quarantine: 2\nhint: maybe"
    )
    assert sorted(problems(header, "\n{{ body|uper }}", name="a-b")) == sorted(
        [
            'the name "a-b" becomes a table: letters, digits and _, not a digit first',
            'line 2: unknown key "modl" (model?) @ modl',
            'line 3: "images" is not supported yet @ images',
            "line 4: key must be a list of column names, not 'id' @ key",
            "line 5: temperature must be from 0 to 2, not 9 @ params.temperature",
            "line 7: max_attempts must be an integer of at least 1 @ retry.max_attempts",
            "line 8: max_quarantine must be from 0 to 1 @ max_quarantine",
            'line 9: hint must be one of auto, always, never, not "maybe" @ hint',
            'line 13, column 9: the filter "uper" (upper?) is not compiled for row values; '
            "prepare the value in the source query",
        ]
    )


def test_a_template_is_not_judged_by_wrong_columns() -> None:
    assert problems("columns: {n: bigin}", "{{ n + 1 }}") == ['line 2: unknown type "bigin" (bigint?) @ columns.n']


@pytest.mark.parametrize("name", ["1x", "a-b", "a b", "a.b", "é", ""])
def test_names_that_can_t_be_tables(name: str) -> None:
    assert problems(name=name) == [f'the name "{name}" becomes a table: letters, digits and _, not a digit first']


@pytest.mark.parametrize("name", ["_sqlenrich_runs", "sqlenrich_source", "SQLENRICH_forgotten"])
def test_a_name_of_sqlenrichs_own_tables(name: str) -> None:
    assert problems(name=name) == [f'the name "{name}" is like that of a table of sqlenrich itself: rename the file']


@pytest.mark.parametrize("name", ["x", "_x", "ticket_intent", "X9"])
def test_names(name: str) -> None:
    assert enrichment(name=name).name == name


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        pytest.param(
            "---\nmodel: x\ninput: {schema: {a: string}}\noutput: {format: json}\n---\n{{a}}", "Dotprompt", id="1"
        ),
        pytest.param("---\nmodel: x\ntools: [a]\n---\n{{a}}", "Dotprompt", id="2"),
        pytest.param("---\nname: x\nauthors: [me]\nsample: {a: b}\n---\n{{a}}", "Prompty", id="3"),
        pytest.param("---\ninputs: {a: {type: string}}\n---\n{{a}}", "Prompty", id="4"),
    ],
)
def test_other_tools_files_are_recognised(text: str, kind: str) -> None:
    with pytest.raises(se.SpecError, match=f"this is a {kind} file: write its model settings as model and params"):
        loads(text, name="x")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"", 'line 1: the file must start with "---"', id="empty"),
        pytest.param(b"Say {{ body }}", 'line 1: the file must start with "---"', id="no header"),
        pytest.param(
            b"---\nversion: 1\n", 'the header is not closed: write "---" on a line of its own', id="not closed"
        ),
        pytest.param(b"\xff\xfe\x00", "can't be read: it is not UTF-8 text", id="binary"),
        pytest.param(b"---\n---\n{{ body }}", "output is missing", id="empty header"),
    ],
)
def test_files_that_are_none(tmp_path: Path, content: bytes, problem: str) -> None:
    file = tmp_path / "x.prompt"
    file.write_bytes(content)
    with pytest.raises(se.SpecError, match=re.escape(f"{file}: {problem}")):
        se.load(file)


def test_a_missing_file_names_the_nearest_template(tmp_path: Path) -> None:
    with pytest.raises(se.SpecError, match=re.escape("no such file, and no template of that name (classify?); see:")):
        se.load("clasify")
    with pytest.raises(se.SpecError, match=re.escape("classify.prompt: no such file, and no template of that name;")):
        se.load(tmp_path / "classify.prompt")


def test_a_directory_can_t_be_read(tmp_path: Path) -> None:
    with pytest.raises(se.SpecError, match="can't be read: Is a directory"):
        se.load(tmp_path)


def test_a_byte_order_mark_and_crlf_change_nothing(tmp_path: Path) -> None:
    text = f"---\n{OUTPUT}\n---\na\nb {{{{ body }}}}\n\n"
    plain, other = tmp_path / "x.prompt", tmp_path / "other" / "x.prompt"
    other.parent.mkdir()
    plain.write_bytes(text.encode())
    other.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    first, second = se.load(plain), se.load(other)
    assert first.template == second.template == "a\nb {{ body }}\n"
    assert first.fingerprint == second.fingerprint


def test_the_fingerprint_is_of_the_content() -> None:
    assert re.fullmatch(r"[0-9a-f]{16}", enrichment().fingerprint)
    assert enrichment().fingerprint != enrichment("version: 2").fingerprint
    assert enrichment(name="x").fingerprint == enrichment(name="y").fingerprint


def test_yaml_1_2() -> None:
    loaded = enrichment(
        "vars: {a: yes, b: on, c: 2026-01-31, d: 0o17, e: ~, f: true, g: 010, h: off, i: 1:30, j: 2026-01-31T10:00:00}"
    )
    assert loaded.vars == {
        "a": "yes",
        "b": "on",
        "c": "2026-01-31",
        "d": 15,
        "e": None,
        "f": True,
        "g": 10,
        "h": "off",
        "i": "1:30",
        "j": "2026-01-31T10:00:00",
    }


def test_an_anchor_writes_a_list_once() -> None:
    loaded = enrichment(
        "vars: {labels: &labels [bug, praise]}",
        output="output: {type: object, properties: {label: {type: string, enum: *labels}}}",
    )
    assert loaded.schema["properties"]["label"]["enum"] == loaded.vars["labels"] == ["bug", "praise"]


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        pytest.param(
            "key: [id]\nkey: [x]", 'line 3: the header is not YAML: found duplicate key "key"', id="duplicate"
        ),
        pytest.param(
            "vars:\n\ta: 1", "line 3: the header is not YAML: found character '\\t' that cannot start", id="tab"
        ),
        pytest.param("a: b: c", "line 2: the header is not YAML: mapping values are not allowed here", id="colon"),
        pytest.param("vars: [1", "line 3: the header is not YAML: ", id="bracket"),
        pytest.param("keep: *", 'line 2: the header is not YAML: a * begins an alias: write "*"', id="a bare star"),
        pytest.param("vars: *nowhere", "line 2: the header is not YAML: found undefined alias", id="alias"),
        pytest.param(
            "vars: !!python/none x", "line 2: the header is not YAML: could not determine a constructor", id="tag"
        ),
    ],
)
def test_no_yaml(header: str, problem: str) -> None:
    (found,) = problems(header)
    assert found.startswith(problem)


def test_columns() -> None:
    loaded = enrichment(
        'columns: {body: {type: string, from: "Message Text"}, n: "decimal(9,2)", day: date, other: {from: O}}\n'
        "keep: [n]",
        "{{ body }}{{ day }}{{ other }}",
    )
    assert (loaded.columns["body"].type, loaded.columns["body"].source_name) == (STRING, "Message Text")
    assert (loaded.columns["n"].type, loaded.columns["n"].source_name) == (Decimal(9, 2), "n")
    assert (loaded.columns["other"].type, loaded.columns["other"].source_name) == (None, "O")
    assert loaded.source_name("body") == "Message Text"
    assert loaded.source_name("unknown") == "unknown"
    assert loaded.prompt().columns == ("body", "day", "other")


def test_the_source_s_real_types_refuse_what_is_not_declared() -> None:
    loaded = enrichment(template="{{ price }}")
    assert loaded.prompt().columns == ("price",)
    with pytest.raises(se.PromptError, match=r"x\.prompt:4:4: printing double \(price\) is not the same"):
        loaded.prompt({"price": DOUBLE})
    assert enrichment("columns: {price: string}", "{{ price }}").prompt({"price": DOUBLE}).columns == ("price",)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Part(pydantic.BaseModel):
    """A nested model."""

    name: str = pydantic.Field(min_length=1)
    weight: float | None = None


class Answer(pydantic.BaseModel):
    """What a model answers."""

    model_config = pydantic.ConfigDict(extra="forbid")

    colour: Colour
    other: Colour | None = None
    kind: Literal["a", "b"]
    size: int = pydantic.Field(ge=1, le=5)
    note: str | None = pydantic.Field(default=None, max_length=9, description="Free text")
    parts: list[Part]
    first: Part | None = None
    tags: list[str] = pydantic.Field(default=[], max_length=3)


class Tree(pydantic.BaseModel):
    """A model without a fixed depth."""

    children: list[Tree]


def test_a_pydantic_model_is_an_output() -> None:
    loaded = enrichment(output=f'output: {{pydantic: "{__name__}:Answer"}}')
    part = Struct((("name", STRING), ("weight", DOUBLE)))
    assert loaded.output_columns == {
        "colour": STRING,
        "other": STRING,
        "kind": STRING,
        "size": BIGINT,
        "note": STRING,
        "parts": Array(part),
        "first": part,
        "tags": Array(STRING),
    }
    properties = loaded.schema["properties"]
    assert properties["colour"] == {"type": ["string"], "enum": ["red", "blue"]}
    assert properties["other"]["enum"] == ["red", "blue", None]
    assert properties["note"] == {"type": ["string", "null"], "maxLength": 9, "description": "Free text"}
    assert properties["first"]["type"] == ["object", "null"]
    assert loaded.schema["required"] == ["colour", "kind", "size", "parts"]
    assert loaded.schema["additionalProperties"] is False


ANSWERS: list[Any] = [
    pytest.param({}, None, id="right"),
    pytest.param({"other": None, "note": None, "first": None}, None, id="null"),
    pytest.param({"other": "green"}, "NOT_IN_ENUM", id="optional enum"),
    pytest.param({"size": 6}, "OUT_OF_RANGE", id="range"),
    pytest.param({"note": "0123456789"}, "BAD_LENGTH", id="length"),
    pytest.param({"parts": [{"name": ""}]}, "BAD_LENGTH", id="nested"),
    pytest.param({"first": {}}, "MISSING_FIELD", id="optional model"),
    pytest.param({"more": 1}, "EXTRA_FIELD", id="extra"),
    pytest.param({"tags": ["a"] * 4}, "BAD_ITEMS", id="items"),
]


@pytest.mark.parametrize(("change", "code"), ANSWERS)
def test_a_pydantic_model_s_schema_judges_as_the_model(change: dict[str, Any], code: str | None) -> None:
    text = json.dumps({"colour": "red", "kind": "a", "size": 3, "parts": [{"name": "p", "weight": 0.5}], **change})
    assert se.check_response(Answer.model_json_schema(), text) == code
    try:
        Answer.model_validate_json(text)
    except pydantic.ValidationError:
        assert code is not None
    else:
        assert code is None


def test_a_recursive_model_is_refused() -> None:
    problem = problems(output=f'output: {{pydantic: "{__name__}:Tree"}}')[0]
    assert problem.startswith('line 2: "#/$defs/Tree" refers to itself; a column has a fixed depth @ output')


@pytest.mark.parametrize("name", sorted(templates()))
def test_ready_made_enrichments_load_by_name(name: str) -> None:
    loaded = se.load(name)
    assert loaded.name == name
    assert loaded.path is None  # its settings are those of the working folder
    assert loaded.output_columns


def test_there_are_ready_made_enrichments() -> None:
    assert {"classify", "pii", "support_ticket"} <= set(templates())
