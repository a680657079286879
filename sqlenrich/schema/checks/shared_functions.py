"""The engine's JSON functions of which every enrichment needs the same: calls of shared functions."""

from __future__ import annotations

from dataclasses import replace

from sqlenrich.core.functions import SharedFunction
from sqlenrich.core.json_functions import JsonFunctions
from sqlenrich.core.sql import Sql
from sqlenrich.core.types import BIGINT, BOOLEAN, STRING

_INTEGER = ("integer",)


def shared(json: JsonFunctions) -> JsonFunctions:
    """Return the JSON functions with those named in ``json.long`` as calls of shared functions.

    They are for values outside loops: engines don't call a function of the session inside a lambda.
    """
    parse = SharedFunction("json", {"answer": STRING}, None, json.parse, "NULL unless it is strict JSON")
    integer = SharedFunction("integer", {"value": None}, BIGINT, json.bigint, "within 64 bits")
    is_integer = SharedFunction(
        "is_integer", {"value": None}, BOOLEAN, lambda value: json.has_type(value, _INTEGER), "1.0 is an integer"
    )

    def has_type(value: Sql, types: tuple[str, ...]) -> Sql:
        return is_integer(value) if types == _INTEGER else json.has_type(value, types)

    made = replace(
        json,
        parse=parse if "parse" in json.long else json.parse,
        bigint=integer if "bigint" in json.long else json.bigint,
        has_type=has_type if "is_integer" in json.long else json.has_type,
    )
    if json.beyond_bigint is not None and "beyond_bigint" in json.long:
        beyond = SharedFunction(
            "beyond_64_bits",
            {"value": None, "whole": BIGINT},
            BOOLEAN,
            json.beyond_bigint,
            "whole: its integer",
        )
        made = replace(made, beyond_bigint=beyond)
    return made
