"""The header of a prompt file: its keys, their JSON Schema for editors, and its YAML 1.2."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

_TEXTS = {"type": "array", "items": {"type": "string"}}
_BARE_STAR = re.compile(r":\s*\*\s*(?:#.*)?$")
KEEP_ALL = "*"
"""The value of ``keep`` that stands for all columns of the source but the key."""
_COLUMN_TYPE: dict[str, Any] = {
    "anyOf": [
        {"enum": ["string", "bigint", "double", "boolean", "date", "timestamp"]},
        {"type": "string", "pattern": r"^decimal\(\d+,\d+\)$"},
        {"type": "object", "properties": {"array": {"$ref": "#/$defs/type"}}, "required": ["array"]},
        {"type": "object", "properties": {"struct": {"type": "object"}}, "required": ["struct"]},
    ]
}
PARAMS: dict[str, dict[str, Any]] = {
    "temperature": {"type": "number", "minimum": 0, "maximum": 2},
    "max_tokens": {"type": "integer", "minimum": 1},
    "top_p": {"type": "number", "minimum": 0, "maximum": 1},
    "seed": {"type": "integer"},
    "stop": {**_TEXTS, "maxItems": 4},
}
HEADER: dict[str, dict[str, Any]] = {
    "description": {"type": "string", "description": "What the enrichment is for, in words."},
    "version": {"type": ["integer", "string"], "description": "Copied to every output row."},
    "source": {
        "anyOf": [
            {"type": "string"},
            {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
            {"type": "object", "properties": {"ref": {"type": "string"}}, "required": ["ref"]},
        ],
        "description": "A table, {query: SELECT ...}, or {ref: NAME}: the result of the enrichment NAME. "
        "A query reads one as {{ ref('NAME') }}. A run can read a file instead.",
    },
    "key": {
        **_TEXTS,
        "description": "Columns that identify a row. May be empty for files and frames: then _row is added.",
    },
    "keep": {
        "anyOf": [_TEXTS, {"const": KEEP_ALL}],
        "description": 'Source columns copied to the output, never sent to the model. "*": all but the key.',
    },
    "columns": {
        "type": "object",
        "additionalProperties": {
            "anyOf": [
                {"$ref": "#/$defs/type"},
                {
                    "type": "object",
                    "properties": {"type": {"$ref": "#/$defs/type"}, "from": {"type": "string"}},
                    "additionalProperties": False,
                },
            ]
        },
        "description": "Types of the columns the prompt reads (default string), or {type, from: source name}.",
    },
    "require": {**_TEXTS, "description": "A row where one of these is NULL or blank is NO_INPUT and never sent."},
    "where": {"type": "string", "description": "Which source rows to take, in SQL that is the same on every engine."},
    "timezone": {
        "type": "string",
        "description": "The zone in which a prompt reads instants: an IANA name such as Europe/Berlin. Default UTC.",
    },
    "model": {"type": "string", "description": "An alias of sqlenrich.toml, or a model's own name."},
    "params": {
        "type": "object",
        "properties": PARAMS,
        "description": "temperature, max_tokens, top_p, seed, stop. A vendor's own: under its engine's name.",
    },
    "vars": {"type": "object", "description": "Constants of the template."},
    "system": {
        "type": "string",
        "description": "What the model is told before each prompt: a template, constant or with columns of the row.",
    },
    "messages": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"role": {"enum": ["user", "assistant"]}, "content": {"type": "string"}},
            "required": ["role", "content"],
            "additionalProperties": False,
        },
        "description": "Examples before each prompt: a user's message and the assistant's answer, one after another.",
    },
    "hint": {"enum": ["auto", "always", "never"], "description": "Whether the schema is appended in words."},
    "checks": {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "Conditions between an accepted answer and its row, by name, in SQL that is the same on every "
        "engine. A row that fails one is refused as CHECK.",
    },
    "repairs": {
        "type": "array",
        "items": {"enum": ["trim", "reasoning", "fence", "prose", "trailing_comma", "null_as_absent"]},
        "description": "Default [trim, reasoning, fence].",
    },
    "retry": {
        "type": "object",
        "properties": {
            "max_attempts": {"type": "integer", "minimum": 1},
            "feedback": {"type": "boolean", "description": "sqlenrich retry appends the reason of the last refusal."},
            "escalate": {
                "type": ["string", "null"],
                "minLength": 1,
                "description": "The model that sqlenrich retry asks: an alias of sqlenrich.toml, or a model's name.",
            },
        },
        "additionalProperties": False,
        "description": "How often a request is asked, and how sqlenrich retry asks refused rows again.",
    },
    "cascade": {
        "type": "object",
        "properties": {
            "ask": {
                "type": "string",
                "minLength": 1,
                "description": "The second model: an alias of sqlenrich.toml, or a model's own name.",
            },
            "endpoint": {
                "type": "string",
                "minLength": 1,
                "description": "The endpoint of the second model: a name of sqlenrich.toml, or a URL.",
            },
            "distilled": {
                "type": "string",
                "description": "The file of sqlenrich distill, whose classifier is the first model.",
            },
            "filter": {
                "type": "string",
                "description": "A number of key or keep: rows with its lowest values get the answer otherwise.",
            },
            "otherwise": {
                "type": "object",
                "description": "{FIELD: VALUE}: the only answer that the classifier or the filter gives.",
            },
            "recall": {
                "type": "number",
                "exclusiveMinimum": 0,
                "exclusiveMaximum": 1,
                "description": "With otherwise: the share of the rows of another value that the model must be asked.",
            },
            "score": {"type": "string", "description": "The field whose number says how certain the first model is."},
            "equal": {**_TEXTS, "description": "Fields in which both must agree. Default: all but the score."},
            "target": {
                "type": "number",
                "exclusiveMinimum": 0,
                "exclusiveMaximum": 1,
                "description": "The share of all rows whose answer must agree with the second model's.",
            },
            "delta": {
                "type": "number",
                "exclusiveMinimum": 0,
                "exclusiveMaximum": 1,
                "description": "The probability with which a sample may miss the target. Default 0.05.",
            },
            "sample": {"type": "integer", "minimum": 1, "description": "Rows that both answer. Default 1000."},
            "threshold": {"type": "number", "description": "The least score of the first model; no sample is asked."},
        },
        "additionalProperties": False,
        "description": "A second model decides the rows of which the first is not certain enough.",
    },
    "keep_prompts": {
        "type": "boolean",
        "description": "false: a finished run leaves no prompt in a table, only its hash. Default true.",
    },
    "max_input_tokens": {
        "type": "integer",
        "minimum": 1,
        "description": "A request with more estimated tokens (UTF-8 bytes / 4) is not asked: BAD_PROMPT.",
    },
    "on_overflow": {
        "type": "string",
        "pattern": "^(quarantine|truncate:.+)$",
        "description": "quarantine (the default), or truncate:COLUMN, which cuts its text until the request fits.",
    },
    "max_quarantine": {
        "type": "number",
        "minimum": 0,
        "maximum": 1,
        "description": "The share of asked rows that may be refused. Above it the exit status is 3.",
    },
    "pin_model": {
        "type": ["boolean", "string"],
        "minLength": 1,
        "description": "The model that must answer: a name, or a pattern such as gpt-4o-2024-*. true: the same always.",
    },
    "evaluate": {
        "type": "object",
        "properties": {
            "truth": {"type": "string", "description": "A data file with the key and the right values."},
            "fields": {"type": "object", "additionalProperties": {"type": "string"}},
            "require": {"type": "object", "description": "FIELD: 0.92, or FIELD: {recall: {VALUE: 0.99}}."},
        },
        "additionalProperties": False,
        "description": "Labelled rows, and what share of the answers to them must be right.",
    },
    "review": {
        "type": "object",
        "properties": {
            "share": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            "by": {"type": "string", "description": "An enum or boolean: each of its values has rows in the sample."},
        },
        "additionalProperties": False,
        "description": "How many accepted rows people judge. Default share 0.01, at least 50 rows, at most 500.",
    },
    "drift": {
        "type": "object",
        "properties": {
            "sigma": {"type": "number", "exclusiveMinimum": 0, "maximum": 10},
            "moved": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            "values": {**_TEXTS, "description": "Texts whose values are counted."},
        },
        "additionalProperties": False,
        "description": "When answers moved against earlier runs: then a run ends with 3. Default sigma 2, moved 0.05.",
    },
    "output": {
        "type": "object",
        "description": (
            "The answer's fields (label(enum, what it is): [a, b]; urgency: integer; note?: string, optional), "
            "a JSON Schema, {pydantic: module:Model}, or a vector: {embedding: {dimensions: 1024}}."
        ),
    },
}
"""Every key of the header with its JSON Schema."""

PLACED: dict[str, tuple[str, str]] = {
    **dict.fromkeys(PARAMS, ("params", "write it")),
    **dict.fromkeys(HEADER["retry"]["properties"], ("retry", "write it")),
    **dict.fromkeys(("type", "properties", "required", "enum"), ("output", "the answer's schema is written")),
}
"""The key under which a key stands that a file has at the top, and what to do."""
ELSEWHERE: dict[str, str] = {
    **dict.fromkeys(("embed", "embedding", "dimensions"), "write output: {embedding: {dimensions: 1024}}"),
    **dict.fromkeys(("schema", "json_schema", "response_format"), "the answer's schema is written under output"),
    **dict.fromkeys(("table", "from"), "write source: TABLE, or give --input"),
    **dict.fromkeys(("sql", "query"), "write source: {query: SELECT ...}"),
    **dict.fromkeys(("id", "primary_key", "unique_key"), "write key: [COLUMN]"),
    **dict.fromkeys(("filter", "condition"), "write where: CONDITION"),
    **dict.fromkeys(("prompt", "template"), "the prompt stands below the header, after the second ---"),
    **dict.fromkeys(("examples", "few_shot"), "write messages: a user's message and the assistant's answer in turn"),
    **dict.fromkeys(("endpoint", "base_url", "api_base"), "give --endpoint URL, or write it in sqlenrich.toml"),
    **dict.fromkeys(("concurrency", "rpm", "tpm"), "write it under the endpoint in sqlenrich.toml"),
    **dict.fromkeys(("limit", "max_rows"), "give --max-rows"),
    "name": "an enrichment has the name of its file: NAME.prompt",
    "system_prompt": "write system: TEXT",
    "steps": "each step is a file, and one that reads the results of NAME has source: {ref: NAME}",
}
"""What stands elsewhere, or has another name here, by its name in other tools; and what to do."""
RESERVED = ("images",)
FOREIGN = {
    "Dotprompt": ("input", "ext", "tools"),
    "Prompty": ("inputs", "sample", "authors", "apiType", "outputs"),
}


def header_schema() -> dict[str, Any]:
    """Return the JSON Schema of a header, for completion in editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The header of a sqlenrich enrichment file",
        "type": "object",
        "properties": HEADER,
        "required": ["output"],
        "additionalProperties": False,
        "$defs": {"type": _COLUMN_TYPE},
    }


class Header:
    """The values of a header, and the line of each in the file."""

    def __init__(self, text: str, first_line: int) -> None:
        """Read YAML 1.2. Raises ValueError with the line if the text is not YAML or not a mapping."""
        yaml = YAML(typ="safe", pure=True)
        try:
            self._node: Node | None = yaml.compose(text)
            _plain_texts(self._node, first_line)
            self.values: Any = {} if self._node is None else yaml.constructor.construct_document(self._node)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = first_line + (mark.line if mark is not None else 0)
            problem = (error.problem or error.context or str(error)).strip().splitlines()[0]
            if problem.startswith("expected alphabetic") and _BARE_STAR.search(text.split("\n")[line - first_line]):
                problem = 'a * begins an alias: write "*"'
            raise ValueError(f"line {line}: the header is not YAML: {problem}") from None
        except YAMLError as error:
            problem = str(error).strip().splitlines()[0]
            raise ValueError(f"line {first_line}: the header is not YAML: {problem}") from None
        except RecursionError:
            raise ValueError(f"line {first_line}: the header nests too deep") from None
        if not isinstance(self.values, dict):
            raise ValueError(f"line {first_line}: the header must be a mapping of keys to values")
        self._first_line = first_line

    def line(self, path: Sequence[str]) -> int:
        """Return the line of the value at a path, else of its nearest parent that the file has."""
        node, line = self._node, self._first_line
        for part in path:
            found = None
            if isinstance(node, MappingNode):
                for key, value in node.value:
                    if key.value == part:
                        found, line = value, self._first_line + key.start_mark.line
            elif isinstance(node, SequenceNode) and part.isdigit() and int(part) < len(node.value):
                found = node.value[int(part)]
                line = self._first_line + found.start_mark.line
            if found is None:
                break
            node = found
        return line


@dataclass(frozen=True)
class GivenHeader:
    """The values of a header that no file has."""

    values: dict[str, Any]

    def line(self, _path: Sequence[str]) -> None:
        """There are no lines."""


def _join_decimals(node: MappingNode) -> None:
    """Make ``{price: decimal(10,2)}`` one value: YAML reads the comma as the end of ``decimal(10``."""
    pairs: list[tuple[Node, Node]] = []
    for key, value in node.value:
        before = pairs[-1][1] if pairs else None
        if (
            isinstance(before, ScalarNode)
            and re.fullmatch(r"decimal\(\s*\d+", before.value)
            and re.fullmatch(r"\d+\s*\)", str(key.value))
            and value.value == ""
        ):
            before.value += f",{key.value}"
        else:
            pairs.append((key, value))
    node.value = pairs


def _plain_texts(node: Node | None, first_line: int, done: dict[int, bool] | None = None) -> None:
    """Make dates texts, as in YAML 1.2's core schema, and escaped surrogate pairs one character."""
    done = {} if done is None else done
    if node is None or done.get(id(node)):
        return
    if id(node) in done:
        raise ValueError(f"line {first_line + node.start_mark.line}: an alias is inside the value of its own anchor")
    done[id(node)] = False
    if node.tag == "tag:yaml.org,2002:timestamp":
        node.tag = "tag:yaml.org,2002:str"
    if isinstance(node, ScalarNode):
        try:
            node.value = node.value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            line = first_line + node.start_mark.line
            raise ValueError(f"line {line}: half of a surrogate pair is not a character") from None
    if isinstance(node, MappingNode):
        _join_decimals(node)
        for pair in node.value:
            for part in pair:
                _plain_texts(part, first_line, done)
    elif isinstance(node, SequenceNode):
        for item in node.value:
            _plain_texts(item, first_line, done)
    done[id(node)] = True
