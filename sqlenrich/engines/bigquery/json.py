"""BigQuery's JSON: the functions of the answer checks."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from sqlenrich.core.functions import SharedFunction
from sqlenrich.core.json_functions import BEYOND_MICROSECONDS, GREATEST_DOUBLE, JsonFunctions
from sqlenrich.core.sql import Sql, all_of, any_of, case, double, func, is_blank, literal, named_func, one_of
from sqlenrich.core.text_functions import BLANK
from sqlenrich.core.types import BIGINT, STRING, Array, Coerced, Scalar, Struct, Type
from sqlenrich.engines.bigquery.text import boxed, safe_cast, text_of, type_text
from sqlenrich.engines.shared import strict_json as strict
from sqlenrich.engines.shared.enum_values import as_spelt, lower_ascii
from sqlenrich.engines.shared.numbers import plain_number
from sqlenrich.schema.checks.grammar import MAX_DEPTH
from sqlenrich.schema.checks.patterns import FENCE, portable


def _kind(value: Sql, *labels: str) -> Sql:
    return one_of(func("JSON_TYPE", value), *labels)


def _string(value: Sql) -> Sql:
    return func("JSON_VALUE", value)


def _number(value: Sql) -> Sql:
    return safe_cast(_string(value), "FLOAT64")


def _bigint(value: Sql) -> Sql:
    # 1.0 is an integer in JSON Schema, but INT64 does not parse the text "1.0".
    return safe_cast(safe_cast(_string(value), "BIGNUMERIC"), "INT64")


def _is(value: Sql, kinds: tuple[str, ...]) -> Sql:
    labels = [kind for kind in kinds if kind != "integer"]
    tests = [_kind(value.copy(), *labels)] if labels else []
    if "integer" in kinds and "number" not in kinds:
        number = _number(value.copy())
        whole = exp.EQ(this=number, expression=func("TRUNC", number.copy()))
        tests.append(exp.paren(all_of(_kind(value, "number"), whole), copy=False))
    return any_of(*tests)


def _found(text: Sql, pattern: str) -> Sql:
    return func("REGEXP_CONTAINS", text, literal(pattern))


def _replace(text: Sql, pattern: str, by: str) -> Sql:
    return func("REGEXP_REPLACE", text, literal(pattern), literal(by))


def _rows(items: Sql, name: str, position: str | None = None) -> exp.Unnest:
    alias = exp.TableAlias(columns=[exp.to_identifier(name)])
    return exp.Unnest(expressions=[items], alias=alias, offset=exp.to_identifier(position) if position else None)


def _deeper(brackets: Sql) -> Sql:
    change = strict.step(exp.column("b"), func("LENGTH", exp.column("b")))
    order = exp.Order(expressions=[exp.Ordered(this=exp.column("o"), nulls_first=True)])
    depth = exp.Window(this=exp.Sum(this=change), order=order)
    depths = exp.select(exp.alias_(depth, "d"), copy=False)
    depths = depths.from_(_rows(func("REGEXP_EXTRACT_ALL", brackets, literal(strict.RUNS)), "b", "o"), copy=False)
    most = exp.select(exp.Max(this=exp.column("d")), copy=False).from_(
        depths.subquery("depths", copy=False), copy=False
    )
    return exp.GT(this=most.subquery(copy=False), expression=literal(MAX_DEPTH))


_READER = strict.Reader(
    "re2",
    whole=lambda text, pattern: _found(text, f"^(?:{pattern})$"),
    found=_found,
    replace=_replace,
    length=named_func("LENGTH"),
    deeper=_deeper,
)


def _names(text: Sql) -> Sql:
    """The number of object names in a JSON text: the colons that are left without the strings and all else."""
    return func("LENGTH", _replace(text, r'"(?:[^"\\]|\\.)*"|[^":]+', ""))


_NAMES = SharedFunction(
    "names", {"text": STRING}, BIGINT, _names, "the names in a JSON text: fewer after parsing where one was repeated"
)
_LARGEST = "1.7976931348623157e308"
_TOKENS = r'"(?:[^"\\]|\\.)*"|-?[0-9][-+.0-9eE]*|[^-"0-9]+|[-"]'
_MAY_BE_WIDE = r"[0-9]{250}|[0-9][eE]\+?[0-9]{2}"


def _narrow(text: Sql) -> Sql:
    """Replace numbers beyond doubles by the greatest double: the parser refuses them."""
    token = exp.column("t")
    number = exp.And(this=_found(token, "^-?[0-9]"), expression=func("IS_INF", safe_cast(token.copy(), "FLOAT64")))
    largest = _replace(token.copy(), "[0-9].*", _LARGEST)
    put = exp.alias_(func("IF", number, largest, token.copy()), "put")
    tokens = _rows(func("REGEXP_EXTRACT_ALL", text, literal(_TOKENS)), "t", "o")
    each = exp.select("o", put, copy=False).from_(tokens, copy=False)
    in_order = exp.Order(this=exp.column("put"), expressions=[exp.Ordered(this=exp.column("o"), nulls_first=True)])
    joined = exp.select(exp.GroupConcat(this=in_order, separator=literal("")), copy=False)
    return joined.from_(each.subquery("tokens", copy=False), copy=False).subquery(copy=False)


def _doc(text: Sql) -> Sql:
    """Without 'round' the parser gives NULL for a number that is not exactly a double. Beyond doubles it still does."""
    narrowed = case((_found(text, _MAY_BE_WIDE), _narrow(text.copy())), default=text.copy())
    return func("SAFE.PARSE_JSON", narrowed, wide_number_mode=literal("round"))


_PARSED = SharedFunction(
    "parsed", {"answer": STRING}, None, _doc, "the parsed text; a number beyond doubles becomes the greatest double"
)
_ODD_ENDS = r"^\x{feff}|\x00$"
"""A byte order mark before a document and a NUL behind it, which the parser skips."""


def _parse(text: Sql) -> Sql:
    """The parser keeps the first of two equal names. Refuse a text that has more names than the parsed document."""

    def once(doc: Sql) -> Sql:
        # Names are counted in JSON alone: on a text of open strings the count takes quadratic time.
        all_names = exp.EQ(this=_NAMES(text), expression=_NAMES(func("TO_JSON_STRING", doc)))
        return case((exp.Is(this=doc.copy(), expression=exp.Null()), literal(None)), (all_names, doc.copy()))

    even = exp.Not(this=_found(text.copy(), _ODD_ENDS))
    doc = _let(_PARSED(text), once, "parsed")
    return strict.parsed_if(_READER, text, even, doc, "JSON, of which no name is dropped because it is repeated")


def _one(value: Sql, name: str) -> exp.Unnest:
    """A relation of one row that holds a value, so that it is computed once."""
    return _rows(exp.Array(expressions=[value]), name)


def _exists(query: exp.Select, test: Sql) -> Sql:
    return exp.Exists(this=query.where(test, copy=False))


def _items(value: Sql) -> Sql:
    """The elements; NULL, and so no rows, for a value that is not an array."""
    return func("JSON_QUERY_ARRAY", value)


def _any_item(value: Sql, name: str, test: Callable[[Sql], Sql], start: int = 0) -> Sql:
    return _exists(_from(exp.select("1", copy=False), value, name, start), test(exp.column(name)))


def _from(select: exp.Select, value: Sql, name: str, start: int) -> exp.Select:
    """Add the elements of an array from a position on."""
    position = f"{name}_at" if start else None
    query = select.from_(_rows(_items(value), name, position), copy=False)
    if position:
        query = query.where(exp.GTE(this=exp.column(position), expression=literal(start)), copy=False)
    return query


def _least_item(value: Sql, name: str, body: Callable[[Sql], Sql], start: int = 0) -> Sql:
    least = exp.select(exp.Min(this=body(exp.column(name))), copy=False)
    return _from(least, value, name, start).subquery(copy=False)


def _count_items(value: Sql, name: str, test: Callable[[Sql], Sql]) -> Sql:
    query = exp.select(func("COUNT", exp.Star()), copy=False).from_(_rows(_items(value), name), copy=False)
    found = query.where(test(exp.column(name)), copy=False).subquery(copy=False)
    return case((_kind(value.copy(), "array"), found))


def _map_items(value: Sql, name: str, body: Callable[[Sql], Sql]) -> Sql:
    position = f"{name}_at"
    query = exp.select(body(exp.column(name)), copy=False).from_(_rows(_items(value), name, position), copy=False)
    return func("ARRAY", query.order_by(exp.column(position), copy=False))


def _keys(value: Sql) -> Sql:
    """The names of an object, some as JSON texts (see :func:`_name`); none for another value."""
    return func("JSON_KEYS", value, literal(1))


def _name(key: Sql) -> Sql:
    """JSON_KEYS gives a name with a quote or another special character as a JSON text: decode it."""
    quoted = func("STARTS_WITH", key, literal('"'))
    return case((quoted, func("JSON_VALUE", func("SAFE.PARSE_JSON", key.copy()))), default=key.copy())


def _members(select: Sql | str, value: Sql, key: str, name: str) -> exp.Select:
    """A SELECT over the members of an object; their names and values are columns."""
    raw = f"{key}_raw"
    member = exp.Bracket(this=value.copy(), expressions=[exp.column(key)])
    query = exp.select(select, copy=False).from_(_rows(_keys(value), raw), copy=False)
    query = query.join(_one(_name(exp.column(raw)), key), join_type="cross", copy=False)
    return query.join(_one(member, name), join_type="cross", copy=False)


def _any_member(value: Sql, key: str, name: str, test: Callable[[Sql, Sql], Sql]) -> Sql:
    return _exists(_members("1", value, key, name), test(exp.column(key), exp.column(name)))


def _map_members(value: Sql, key: str, name: str, body: Callable[[Sql, Sql], Sql]) -> Sql:
    query = _members(body(exp.column(key), exp.column(name)), value, key, name)
    return func("ARRAY", query.order_by(exp.column(key), copy=False))


def _join_texts(texts: Sql) -> Sql:
    """STRING_AGG skips a NULL: give NULL where one text is NULL."""
    joined = func("COALESCE", _joined(exp.column("part"), exp.column("part_at")), literal(""))
    whole = exp.EQ(this=func("COUNT", exp.column("part")), expression=func("COUNT", exp.Star()))
    query = exp.select(case((whole, joined)), copy=False).from_(_rows(texts, "part", "part_at"), copy=False)
    return query.subquery(copy=False)


def _joined(part: Sql, position: Sql) -> Sql:
    ordered = exp.Order(this=part, expressions=[exp.Ordered(this=position, nulls_first=True)])
    return exp.GroupConcat(this=ordered, separator=literal(","))


def _repeats(texts: Sql) -> Sql:
    """COUNT(DISTINCT) does not count a NULL, so a NULL counts as a repeat."""
    distinct = exp.Count(this=exp.Distinct(expressions=[exp.column("part")]))
    fewer = exp.LT(this=distinct, expression=func("COUNT", exp.Star()))
    return exp.select(fewer, copy=False).from_(_rows(texts, "part"), copy=False).subquery(copy=False)


def _has_other_names(value: Sql, names: tuple[str, ...]) -> Sql:
    key: Sql = exp.column("k")
    if not all(re.fullmatch(r"[A-Za-z0-9_]+", name) for name in names):
        key = _name(key)
    allowed = [literal(name) for name in names]
    other = exp.Not(this=exp.In(this=key, expressions=allowed)) if allowed else literal(True)
    return _exists(exp.select("1", copy=False).from_(_rows(_keys(value), "k"), copy=False), other)


def _too_wide(value: Sql) -> Sql:
    """A number beyond doubles is the greatest double after :func:`_parse`; one in a string becomes infinite."""
    given = exp.Not(this=exp.Is(this=_string(value), expression=exp.Null()))
    wide = exp.GTE(this=func("ABS", _number(value.copy())), expression=double(GREATEST_DOUBLE))
    return all_of(given, func("COALESCE", wide, literal(True)))


def _number_text(value: Sql) -> Sql:
    exact = case((_is(value, ("integer",)), text_of(_bigint(value.copy()))))
    return func("COALESCE", exact, text_of(_number(value.copy())))


def _is_multiple(value: Sql, step: int | float) -> Sql:
    """A double's shortest text as a decimal: the first of 15, 16 and 17 digits that reads back as the double.

    BIGNUMERIC rounds a number that has more decimals than it holds, in the worst case to 0.
    """
    number = exp.column("number")

    def text(digits: int) -> Sql:
        return func("FORMAT", literal(f"%.{digits}g"), number.copy())

    def same(digits: int) -> Sql:
        return exp.EQ(this=safe_cast(text(digits), "FLOAT64"), expression=number.copy())

    exact = safe_cast(case((same(15), text(15)), (same(16), text(16)), default=text(17)), "BIGNUMERIC")
    divisor = safe_cast(literal(plain_number(step)), "BIGNUMERIC")
    whole = exp.EQ(this=exp.Mod(this=exp.column("exact"), expression=divisor), expression=literal(0))
    zero = exp.EQ(this=number.copy(), expression=literal(0))
    kept = any_of(exp.NEQ(this=exp.column("exact"), expression=literal(0)), zero)
    query = exp.select(all_of(whole, kept), copy=False).from_(_one(_number(value), "number"), copy=False)
    return query.join(_one(exact, "exact"), join_type="cross", copy=False).subquery(copy=False)


def _let(value: Sql, body: Callable[[Sql], Sql], name: str = "doc") -> Sql:
    return exp.select(body(exp.column(name)), copy=False).from_(_one(value, name), copy=False).subquery(copy=False)


def _at(value: Sql, part: str | int) -> Sql:
    """A member by any name, or an element by its position; NULL for a value that has none."""
    return exp.Bracket(this=value, expressions=[literal(part)])


JSON = JsonFunctions(
    **strict.repairs(_READER),
    long=("parse", "is_integer"),
    parse=_parse,
    accepted=_PARSED,
    get=_at,
    at=_at,
    has_type=_is,
    string=_string,
    number=_number,
    bigint=_bigint,
    too_wide=_too_wide,
    number_text=_number_text,
    is_multiple=_is_multiple,
    is_date=lambda text: exp.Not(
        this=exp.Is(this=safe_cast(func("LEFT", text, literal(10)), "DATE"), expression=exp.Null())
    ),
    lower_ascii=lower_ascii,
    any_item=_any_item,
    least_item=_least_item,
    any_member=_any_member,
    count_items=_count_items,
    map_items=_map_items,
    map_members=_map_members,
    join_texts=_join_texts,
    repeats=_repeats,
    count=lambda value: func("ARRAY_LENGTH", _items(value)),
    name_count=lambda value: case((_kind(value, "object"), func("ARRAY_LENGTH", _keys(value.copy())))),
    has_other_names=_has_other_names,
    length=named_func("LENGTH"),
    search=lambda text, pattern: func("REGEXP_CONTAINS", text, literal(portable(pattern))),
    trim=lambda text: func("TRIM", text, literal(BLANK)),
    blank=lambda text: is_blank(func("TRIM", text, literal(BLANK))),
    unfence=lambda text: func("REGEXP_REPLACE", text, literal(FENCE), literal(r"\1")),
    first_word=lambda text: func("REGEXP_EXTRACT", text, literal("^[^ ]+")),
    let=_let,
    let_text=_let,
)


def _coerced(value: Sql, kind: Coerced) -> Sql:
    if kind.values:
        return as_spelt(_string(value), kind.values)
    return typed_column(value, kind.type)


def _timestamp(text: Sql) -> Sql:
    """An instant. Digits beyond microseconds are dropped."""
    return safe_cast(
        func("REGEXP_REPLACE", func("UPPER", text), literal(BEYOND_MICROSECONDS), literal(r"\1")), "TIMESTAMP"
    )


def typed_column(value: Sql, kind: Type, depth: int = 0) -> Sql:
    """Return the typed column of a JSON value that passed its checks."""
    match kind:
        case Coerced():
            return _coerced(value, kind)
        case Scalar("json"):
            given = exp.Not(this=_kind(value, "null"))
            return case((given, func("TO_JSON_STRING", value.copy())))
        case Scalar("timestamp"):
            return _timestamp(_string(value))
        case Scalar("string"):
            return _string(value)
        case Scalar("bigint"):
            return _bigint(value)
        case Scalar("double"):
            return _number(value)
        case Scalar("boolean"):
            return safe_cast(_string(value), "BOOL")
        case Array(item):
            name, position = f"x{depth}", f"o{depth}"
            element = typed_column(exp.column(name), item, depth + 1)
            if isinstance(item, Array):
                element = boxed(element)
            query = exp.select(element, copy=False).from_(_rows(_items(value), name, position), copy=False)
            return func("ARRAY", query.order_by(exp.column(position), copy=False))
        case Struct(fields):
            pairs = [
                exp.alias_(typed_column(_at(value.copy(), name), field, depth), name, quoted=True)
                for name, field in fields
            ]
            return case((_kind(value.copy(), "object"), func("STRUCT", *pairs)))
    return safe_cast(_string(value), type_text(kind))
