"""The portable types, as files write them."""

from __future__ import annotations

import re

import pytest

from sqlenrich.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Struct,
    Type,
    parse_type,
    type_json,
)

TYPES = [
    ("string", STRING),
    ("bigint", BIGINT),
    ("double", DOUBLE),
    ("boolean", BOOLEAN),
    ("date", DATE),
    ("timestamp", TIMESTAMP),
    ("decimal(38,0)", Decimal(38, 0)),
    ("decimal(9,9)", Decimal(9, 9)),
    ({"array": "string"}, Array(STRING)),
    ({"array": {"array": "bigint"}}, Array(Array(BIGINT))),
    ({"struct": {"a": "string", "b": {"array": "date"}}}, Struct((("a", STRING), ("b", Array(DATE))))),
]


@pytest.mark.parametrize(("written", "parsed"), TYPES)
def test_types(written: object, parsed: Type) -> None:
    assert parse_type(written) == parsed
    assert type_json(parsed) == written
    assert parse_type(parsed) is parsed


def test_blanks_in_a_decimal() -> None:
    assert parse_type("decimal( 9 , 2 )") == Decimal(9, 2)


@pytest.mark.parametrize(("written", "problem"), [
    ("strng", 'unknown type "strng" (string?)'),
    ("int", 'unknown type "int" (bigint?)'),
    ("xyz", 'unknown type "xyz"'),
    ("String", 'unknown type "String" (string?)'),
    ("decimal", 'unknown type "decimal"'),
    ("decimal(39,0)", '"decimal(39,0)" is out of range: precision 1 to 38, scale at most the precision'),
    ("decimal(0,0)", '"decimal(0,0)" is out of range'),
    ("decimal(3,4)", '"decimal(3,4)" is out of range'),
    (3, "unknown type 3: write a name, {array: T} or {struct: {name: T}}"),
    (None, "unknown type None: write a name"),
    ({}, "unknown type {}: write a name"),
    ({"list": "string"}, "unknown type {'list': 'string'}: write a name"),
    ({"array": "strng"}, 'unknown type "strng" (string?)'),
    ({"struct": {}}, "unknown type {'struct': {}}: write a name"),
    ({"struct": {"a": "dat"}}, 'unknown type "dat" (date?)'),
    ({"array": "string", "struct": {}}, "unknown type {'array': 'string', 'struct': {}}: write a name"),
])  # fmt: skip
def test_no_types(written: object, problem: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(problem)):
        parse_type(written)


def test_fields() -> None:
    struct = Struct((("a", STRING), ("b", BIGINT)))
    assert (struct.field("b"), struct.field("c")) == (BIGINT, None)
