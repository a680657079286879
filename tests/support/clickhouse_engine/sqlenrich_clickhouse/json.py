"""ClickHouse's JSON: the functions of the answer checks.

A parsed value is a JSON text that is marked: a string begins with ``s``, and a number is a string without it. So each
number keeps its own text: the parser (simdjson) refuses a number beyond doubles, reads 1.0 as 1 and gives a value only
as a text that it has written anew. The parser takes repeated names and is else strict (26.9). JSONExtract of an array
or a missing value gives an empty text or array, never NULL. A place in a path counts the members of an object too.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sqlenrich.core.json_functions import BEYOND_MICROSECONDS, GREATEST_DOUBLE, JsonFunctions
from sqlenrich.core.sql import (
    Sql,
    all_of,
    any_of,
    case,
    cast,
    double,
    func,
    given,
    lambda_,
    literal,
    named_func,
)
from sqlenrich.core.text_functions import BLANK
from sqlenrich.core.types import BOOLEAN, Array, Coerced, Scalar, Struct, Type
from sqlenrich.engines.shared import strict_json as strict
from sqlenrich.engines.shared.enum_values import as_spelt
from sqlenrich.engines.shared.numbers import plain_number
from sqlenrich.schema.checks.grammar import MAX_DEPTH
from sqlenrich.schema.checks.patterns import FENCE, portable

from .text import bigint, matches, sql_type, strict_date, time_of

_STRING = r'(?:[^"\\]|\\.)*'
_NUMBER = "-?[0-9][-+.0-9eE]*"
_ENDS = f"^[{BLANK}]+|[{BLANK}]+$"
_WIDE = "Decimal256(18)"


def _replace(text: Sql, pattern: str, by: str) -> Sql:
    return func("replaceRegexpAll", text, literal(pattern), literal(by))


def _marked(text: Sql) -> Sql:
    strings = _replace(_replace(text, _ENDS, ""), f'"({_STRING})"', r'"s\1"')
    return _replace(strings, f'"(s{_STRING})"|({_NUMBER})', r'"\1\2"')


def _unmarked(value: Sql) -> Sql:
    numbers = _replace(value, f'"({_NUMBER})"|("s{_STRING}")', r"\1\2")
    return _replace(_replace(numbers, f'"s({_STRING})"', r'"\1"'), r"(\\[^/])|\\(/)", r"\1\2")


def _or_empty(value: Sql) -> Sql:
    return func("ifNull", value, literal(""))


def _get(value: Sql, name: str) -> Sql:
    """Nested reads become one path."""
    if isinstance(value, exp.Anonymous) and value.this == "nullIf" and isinstance(value.expressions[0], exp.Anonymous):
        read = value.expressions[0]
        if read.this == "JSONExtractRaw":
            return func("nullIf", func("JSONExtractRaw", *read.expressions, literal("s" + name)), literal(""))
    return func("nullIf", func("JSONExtractRaw", value, literal("s" + name)), literal(""))


_FORMS = {"object": "[{]", "array": r"\[", "string": '"s', "number": '"[-0-9]', "boolean": "[tf]", "null": "n"}


def _is_integer(value: Sql) -> Sql:
    """1.0 is an integer in JSON Schema."""
    number = _number(value.copy())
    whole = all_of(_is(value.copy(), ("number",)), exp.EQ(this=number, expression=func("trunc", number.copy())))
    return any_of(matches(value, literal('^"-?[0-9]+"$')), whole)


def _is(value: Sql, kinds: tuple[str, ...]) -> Sql:
    forms = [_FORMS[kind] for kind in kinds if kind != "integer"]
    tests = [matches(value.copy(), literal(f"^(?:{'|'.join(forms)})"))] if forms else []
    if "integer" in kinds and "number" not in kinds:
        tests.append(_is_integer(value))
    return any_of(*tests)


def _string(value: Sql) -> Sql:
    text = func("replaceRegexpOne", func("JSONExtractString", value), literal("^s"), literal(""))
    return case((exp.NEQ(this=value.copy(), expression=literal("null")), text))


def _number(value: Sql) -> Sql:
    return func("toFloat64OrNull", _string(value))


def _bigint(value: Sql) -> Sql:
    text = _string(value)
    plain = matches(text, literal("^-?[0-9]+$"))
    near = func("accurateCastOrNull", func("toFloat64OrNull", text.copy()), literal("Int64"))
    return case((plain, func("toInt64OrNull", text.copy())), default=near)


def _number_text(value: Sql) -> Sql:
    exact = case((_is_integer(value), func("toString", _bigint(value.copy()))))
    return func("coalesce", exact, func("toString", _number(value.copy())))


def _is_multiple(value: Sql, step: int | float) -> Sql:
    """A double's shortest text as a decimal, if it has no more digits than that."""
    exact = func("accurateCastOrNull", func("toString", _number(value)), literal(_WIDE))
    rest = func("modulo", exact, func("toDecimal256", literal(plain_number(step)), literal(18)))
    same = exp.EQ(this=func("toFloat64", exact.copy()), expression=_number(value.copy()))
    return all_of(exp.EQ(this=rest, expression=literal(0)), same)


def _items(value: Sql, start: int = 0) -> Sql:
    items = func("JSONExtractArrayRaw", _or_empty(value))
    return func("arraySlice", items, literal(start + 1)) if start else items


def _names(value: Sql) -> Sql:
    return func("JSONExtractKeys", _or_empty(value))


def _over_members(function: str, value: Sql, key: str, name: str, body: Callable[[Sql, Sql], Sql]) -> Sql:
    """Apply a function to the names and values of an object, in the order of the names; none for another value."""
    pairs = func("arraySort", func("JSONExtractKeysAndValuesRaw", _or_empty(value)))
    names = func("arrayMap", lambda_("m", lambda m: func("substring", _part(m, 1), literal(2))), pairs)
    values = func("arrayMap", lambda_("m", lambda m: _part(m, 2)), pairs.copy())
    parameters = [exp.to_identifier(key), exp.to_identifier(name)]
    return func(
        function, exp.Lambda(this=body(exp.column(key), exp.column(name)), expressions=parameters), names, values
    )


def _part(pair: Sql, place: int) -> Sql:
    return func("tupleElement", pair, literal(place))


def _no_null(texts: Sql) -> Sql:
    return func("arrayFilter", lambda_("t", given), texts)


def _any_item(value: Sql, name: str, test: Callable[[Sql], Sql], start: int = 0) -> Sql:
    return func("arrayExists", lambda_(name, test), _items(value, start))


def _least_item(value: Sql, name: str, body: Callable[[Sql], Sql], start: int = 0) -> Sql:
    texts = func("arrayMap", lambda_(name, body), _items(value, start))
    return func("arrayElementOrNull", func("arraySort", _no_null(texts)), literal(1))


def let(value: Sql, body: Callable[[Sql], Sql], name: str = "doc") -> Sql:
    """Return what a body gives of a value that is computed once."""
    made = func("arrayMap", lambda_(name, body), exp.Array(expressions=[value]))
    return func("arrayElement", made, literal(1))


def _size(array: Sql) -> Sql:
    return bigint(func("length", array))


def _join_texts(texts: Sql) -> Sql:
    """arrayStringConcat skips a NULL."""

    def joined(found: Sql) -> Sql:
        whole = exp.EQ(this=func("length", _no_null(found)), expression=func("length", found.copy()))
        return case((whole, func("arrayStringConcat", found.copy(), literal(","))))

    return let(texts, joined, "texts")


def _repeats(texts: Sql) -> Sql:
    def fewer(found: Sql) -> Sql:
        different = func("arrayUniq", _no_null(found))
        return exp.LT(this=different, expression=func("length", found.copy()))

    return let(texts, fewer, "texts")


def _has_other_names(value: Sql, names: tuple[str, ...]) -> Sql:
    known = exp.Array(expressions=[literal("s" + name) for name in names])
    other = (
        lambda_("k", lambda k: exp.Not(this=func("has", known, k))) if names else lambda_("k", lambda _: literal(True))
    )
    return func("arrayExists", other, _names(value))


def _deeper(brackets: Sql) -> Sql:
    runs = func("extractAll", brackets, literal(strict.RUNS))
    steps = func("arrayMap", lambda_("b", lambda b: strict.step(b, bigint(func("length", b.copy())))), runs)
    return exp.GT(this=func("arrayMax", func("arrayCumSum", steps)), expression=literal(MAX_DEPTH))


_READER = strict.Reader(
    "re2",
    whole=lambda text, pattern: matches(text, literal(f"^(?:{pattern})$")),
    found=lambda text, pattern: matches(text, literal(pattern)),
    replace=_replace,
    length=named_func("lengthUTF8"),
    deeper=_deeper,
)
_TOKENS = rf'"{_STRING}"[{BLANK}]*:|"{_STRING}"|[\[\]{{}}]'


def _once(text: Sql) -> Sql:
    """Whether no object has a name twice. The parser takes them.

    Tokens are sorted by their depth, then by their place: a name then follows the bracket of its own object, and the
    number of brackets before it stands for the object.
    """
    tokens = func("arrayFilter", lambda_("t", lambda t: matches(t, literal(r"^[\[\]{}]|:$"))), _tokens(text))

    def objects(found: Sql) -> Sql:
        steps = func("arrayMap", lambda_("t", _step), found)
        rows = func("arrayZip", func("arrayCumSum", steps), func("arrayEnumerate", found.copy()), found.copy())
        opened = func("arrayFilter", lambda_("r", lambda r: exp.Not(this=_one_of(_part(r, 3), "]", "}"))), rows)
        return let(func("arraySort", opened), names, "rows")

    def names(rows: Sql) -> Sql:
        opens = lambda_("r", lambda r: func("toInt64", exp.paren(_one_of(_part(r, 3), "[", "{"))))
        numbered = func("arrayZip", func("arrayCumSum", func("arrayMap", opens, rows)), rows.copy())
        named = func("arrayFilter", lambda_("z", lambda z: matches(_part(_part(z, 2), 3), literal(":$"))), numbered)
        pairs = func("arrayMap", lambda_("z", lambda z: func("tuple", _part(z, 1), _name(z.copy()))), named)
        return let(pairs, lambda p: exp.EQ(this=func("arrayUniq", p), expression=func("length", p.copy())), "pairs")

    return let(tokens, objects, "tokens")


def _name(numbered: Sql) -> Sql:
    """A name, without its escapes, of a numbered row of tokens."""
    return func("JSONExtractString", _replace(_part(_part(numbered, 2), 3), f"[{BLANK}]*:$", ""))


def _tokens(text: Sql) -> Sql:
    return func("extractAll", _or_empty(text), literal(_TOKENS))


def _one_of(token: Sql, *brackets: str) -> Sql:
    return exp.In(this=token, expressions=[literal(bracket) for bracket in brackets])


def _step(token: Sql) -> Sql:
    return case(
        (_one_of(token, "[", "{"), literal(1)), (_one_of(token.copy(), "]", "}"), literal(-1)), default=literal(0)
    )


def _parse(text: Sql) -> Sql:
    sound = all_of(func("isValidJSON", _marked(text.copy())), _once(text.copy()))
    return strict.parsed(_READER, text, sound, _marked(text.copy()))


JSON = JsonFunctions(
    **strict.repairs(_READER),
    long=("parse", "is_integer"),
    parse=_parse,
    accepted=_marked,
    let=let,
    let_text=let,
    get=_get,
    at=lambda value, index: func("arrayElementOrNull", _items(value), literal(index + 1)),
    has_type=_is,
    string=_string,
    number=_number,
    bigint=_bigint,
    number_text=_number_text,
    too_wide=lambda value: exp.GTE(this=func("abs", _number(value)), expression=double(GREATEST_DOUBLE)),
    is_multiple=_is_multiple,
    count=lambda value: case((_is(value, ("array",)), _size(_items(value.copy())))),
    name_count=lambda value: case((_is(value, ("object",)), _size(_names(value.copy())))),
    has_other_names=_has_other_names,
    any_item=_any_item,
    least_item=_least_item,
    count_items=lambda value, name, test: case(
        (_is(value, ("array",)), _size(func("arrayFilter", lambda_(name, test), _items(value.copy()))))
    ),
    map_items=lambda value, name, body: func("arrayMap", lambda_(name, body), _items(value)),
    any_member=lambda *args: _over_members("arrayExists", *args),
    map_members=lambda *args: _over_members("arrayMap", *args),
    join_texts=_join_texts,
    repeats=_repeats,
    length=lambda text: bigint(func("lengthUTF8", text)),
    search=lambda text, pattern: matches(text, literal(portable(pattern))),
    is_date=lambda text: func("ifNull", strict_date(func("substring", text, literal(1), literal(10))), literal(False)),
    lower_ascii=named_func("lower"),
    first_word=lambda text: func("arrayElement", func("splitByChar", literal(" "), _or_empty(text)), literal(1)),
    trim=lambda text: _replace(text, _ENDS, ""),
    blank=lambda text: exp.Not(this=func("ifNull", matches(text, literal(f"[^{BLANK}]")), literal(False))),
    unfence=lambda text: func("replaceRegexpOne", text, literal(FENCE), literal(r"\1")),
)


def _plain(value: Sql, kind: Type, depth: int) -> Sql:
    match kind:
        case Coerced(type=inner) if inner == BOOLEAN:
            return exp.EQ(this=func("lower", _string(value)), expression=literal("true"))
        case Coerced(values=values) if values:
            return as_spelt(_string(value), values)
        case Coerced(type=inner):
            return _plain(value, inner, depth)
        case Scalar("json"):
            return func("nullIf", _unmarked(value), literal("null"))
        case Scalar("timestamp"):
            return time_of(_replace(func("upper", _string(value)), BEYOND_MICROSECONDS, r"\1"))
        case Scalar("string"):
            return _string(value)
        case Scalar("bigint"):
            return _bigint(value)
        case Scalar("double"):
            return _number(value)
        case Array(item):
            return func("arrayMap", lambda_(f"x{depth}", lambda x: typed_column(x, item, depth + 1)), _items(value))
        case Struct(fields):
            parts = (typed_column(_get(value.copy(), name), field, depth) for name, field in fields)
            return case((_is(value.copy(), ("object",)), func("tuple", *parts)))
    return cast(_string(value), sql_type(kind), safe=True)


def typed_column(value: Sql, kind: Type, depth: int = 0) -> Sql:
    """Return the typed column of a JSON value that passed its checks; an array that is missing is empty."""
    return cast(_plain(value, kind, depth), sql_type(kind))
