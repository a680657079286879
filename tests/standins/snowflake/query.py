"""Queries: SELECT with WITH, joins, WHERE, GROUP BY, HAVING, window functions and DISTINCT; UNION ALL; EXISTS and IN.

https://docs.snowflake.com/en/sql-reference/constructs; ORDER BY is known with LIMIT [OFFSET]
alone, of one text column; QUALIFY is not known, and LATERAL
with FLATTEN alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import localcontext
from functools import cache
from typing import Any

from sqlglot import exp

from tests.standins.snowflake.equality import Groups, indexed, key_of
from tests.standins.snowflake.nodes import coerced
from tests.standins.snowflake.parsing import name_of, parse, sql_type, table_name
from tests.standins.snowflake.scope import Environment, Relation, Row, Scope, node
from tests.standins.snowflake.several import aggregates
from tests.standins.snowflake.values import (
    BOOLEAN,
    EXACT,
    JSON_NULL,
    PLAIN,
    VARIANT,
    Reading,
    SnowflakeError,
    SqlType,
    common,
    convert,
    reading,
    to_scale,
)

Data = Mapping[str, tuple[Mapping[str, str], Sequence[Sequence[Any]]]]
"""Tables: the columns as CREATE TABLE has them, name to type, and the rows."""


def rows(sql: str, tables: Data, missing: Any = JSON_NULL, read_as: Reading = PLAIN) -> list[tuple[Any, ...]]:
    """The rows of a query. A table's columns are written as in CREATE TABLE: name to type.

    ``missing`` is what a None inside of an array or object is: a JSON null, as in loaded JSON, or None, which is what
    a NULL becomes in ARRAY_CONSTRUCT.
    """
    environment = Environment({name.upper(): held(*table, missing) for name, table in tables.items()}, compiled)
    try:
        with localcontext(EXACT), reading(read_as):
            return [tuple(row.values()) for row in compiled(parse(sql), environment).run({})]
    except RecursionError:
        raise SnowflakeError("nested too deep for this stand-in") from None


def held(columns: Mapping[str, str], content: Iterable[Sequence[Any]], missing: Any) -> Relation:
    """A table from Python's values."""
    types = {
        column_name(name): sql_type(exp.DataType.build(kind, dialect="snowflake")) for name, kind in columns.items()
    }
    made = [
        {name: stored(value, types[name], missing) for name, value in zip(types, row, strict=True)} for row in content
    ]
    return Relation(types, lambda _: made)


def column_name(written: str) -> str:
    """A column's name as CREATE TABLE has it: upper case unless it is quoted."""
    quoted = written.startswith('"')
    return name_of(exp.parse_identifier(written, "snowflake") if quoted else exp.to_identifier(written))


def stored(value: Any, type_: SqlType, missing: Any) -> Any:
    """A Python value in a column; a None inside of an array or object is what ``missing`` says."""
    if value is None:
        return None
    if type_.name == "NUMBER" and not isinstance(value, bool):
        return to_scale(value, type_.scale)
    if type_.name in ("ARRAY", "OBJECT", "VARIANT"):
        return _variant(value, missing)
    if type_.name == "FLOAT":
        return float(value)
    return value


def _variant(value: Any, missing: Any) -> Any:
    if isinstance(value, Mapping):
        parts = {str(name): _variant(item, missing) for name, item in value.items()}
        return {name: item for name, item in parts.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_variant(item, missing) for item in value]
    return missing if value is None else value


def compiled(query: exp.Expr, environment: Environment, outer: Scope | None = None) -> Relation:
    """A query's columns and how it is run for a row of the query around it."""
    if isinstance(query, exp.Subquery):
        return compiled(query.this, environment, outer)
    if isinstance(query, exp.Union):
        return _union(query, environment, outer)
    known = {"expressions", "from_", "with_", "where", "kind", "hint", "joins", "group", "distinct", "order", "limit"}
    known |= {"operation_modifiers", "having", "offset"}
    unknown = [key for key, value in query.args.items() if value and key not in known]
    if not isinstance(query, exp.Select) or unknown:
        raise SnowflakeError(f"not known: {', '.join(unknown)} in {query.sql('snowflake')[:200]}")
    return _select(query, _with(query, environment), outer)


def _with(query: exp.Expr, environment: Environment) -> Environment:
    """An entry's rows are made once, when they are first read."""
    if (with_ := query.args.get("with_")) is None:
        return environment
    if with_.args.get("recursive"):
        raise SnowflakeError("not known: WITH RECURSIVE")
    relations = dict(environment.relations)
    environment = replace(environment, relations=relations)
    for entry in with_.expressions:
        made = compiled(entry.this, environment)
        relations[name_of(entry.args["alias"].this)] = Relation(made.columns, _once(made))
    return environment


def _once(made: Relation) -> Callable[[Row], list[Row]]:
    result = cache(lambda: made.run({}))
    return lambda _: result()


def _union(query: exp.Union, environment: Environment, outer: Scope | None) -> Relation:
    if query.args.get("distinct") or query.args.get("order") or query.args.get("limit"):
        raise SnowflakeError("not known: a set operation other than UNION ALL")
    environment = _with(query, environment)
    first, second = (compiled(part, environment, outer) for part in (query.this, query.expression))
    if len(first.columns) != len(second.columns):
        raise SnowflakeError("UNION ALL: the numbers of columns differ")
    pairs = list(zip(first.columns.items(), second.columns.items(), strict=True))
    columns = {name: common([kind, other], "UNION ALL") for (name, kind), (_, other) in pairs}

    def run(row: Row) -> list[Row]:
        made = [(part, found) for part in (first, second) for found in part.run(row)]
        return [
            {
                name: convert(value, kind, target)
                for (name, target), kind, value in zip(
                    columns.items(), part.columns.values(), found.values(), strict=True
                )
            }
            for part, found in made
        ]

    return Relation(columns, run)


# SELECT ---------------------------------------------------------------------------------------------------------------


def _select(query: exp.Select, environment: Environment, outer: Scope | None) -> Relation:
    scope = Scope(environment, {}, outer=outer)
    source = _sources(query, scope)
    where = query.args.get("where")
    if where is not None and any(aggregates(where, query)):
        raise SnowflakeError("an aggregate function in WHERE")
    test = None if where is None else coerced(node(where.this, scope), BOOLEAN, "WHERE").value
    if where is not None and outer is not None and not query.args.get("joins"):
        source = _found(source, key_of(where.this, scope, scope.sources, outer))
    scope, grouped = _grouping(query, scope)
    having = query.args.get("having")
    kept_group = None if having is None else coerced(node(having.this, scope), BOOLEAN, "HAVING").value
    nodes = {}
    for number, item in enumerate(query.expressions):
        for label, tree in _expanded(item, number, scope):
            if label in nodes:
                raise SnowflakeError(f"duplicate column name {label}")
            nodes[label] = node(tree, scope)
    columns = {label: made.type for label, made in nodes.items()}
    # ORDER BY may name a column that is not of the result.
    terms = query.args["order"].expressions if query.args.get("order") else []
    if strange := [term for term in terms if not isinstance(term.this, exp.Column)]:
        raise SnowflakeError(f"not known: ORDER BY {strange[0].sql('snowflake')[:200]}")
    hidden = {f"#{name_of(t.this)}": node(t.this, scope) for t in terms if name_of(t.this) not in columns}
    distinct = query.args.get("distinct")
    if distinct and distinct.args.get("on"):
        raise SnowflakeError("not known: DISTINCT ON")

    limit = query.args.get("limit")
    reads_nothing = limit is not None and limit.expression.name == "0"

    def run(row: Row) -> list[Row]:
        if reads_nothing:
            return []
        found = source(row)
        if test is not None:
            found = [each for each in found if test(each)]
        found = grouped(found, row)
        if kept_group is not None:
            found = [each for each in found if kept_group(each)]
        for fill in scope.windows:
            fill(found)
        made = [{label: each.value(kept) for label, each in (nodes | hidden).items()} for kept in found]
        sorted_ = cut(_distinct(made, columns) if distinct else made)
        return [{label: row[label] for label in columns} for row in sorted_] if hidden else sorted_

    cut = _ordered(query, {**columns, **{label: each.type for label, each in hidden.items()}})
    made = Relation(columns, run)
    return made if outer is None or scope.outer_names else Relation(columns, _once(made))


def _found(source: Callable[[Row], list[Row]], key: tuple[str, str] | None) -> Callable[[Row], list[Row]]:
    """The rows of a source for a row of the query around, of which a condition wants that two texts are equal."""
    if key is None:
        return source
    place, elsewhere = key
    find = cache(lambda: indexed(source({}), place))
    return lambda row: [{**row, **each} for each in find()(row[elsewhere])]


def _ordered(query: exp.Select, columns: Mapping[str, SqlType]) -> Callable[[list[Row]], list[Row]]:
    """ORDER BY of columns of the result, and LIMIT after it: a LIMIT that takes some of rows in no order is refused."""
    order, limit = query.args.get("order"), query.args.get("limit")
    count = None if limit is None else int(limit.expression.name)
    offset = int(query.args["offset"].expression.name) if query.args.get("offset") else 0
    if order is None:

        def limited(made: list[Row]) -> list[Row]:
            if count and len(made) > count:
                raise SnowflakeError(f"not known: LIMIT without ORDER BY in {query.sql('snowflake')[:200]}")
            return made[:count]

        return limited
    names = [name_of(each.this) for each in order.expressions]
    labels = [
        (name if name in columns else f"#{name}", bool(each.args.get("desc")), bool(each.args.get("nulls_first")))
        for name, each in zip(names, order.expressions, strict=True)
    ]
    for label, _, _ in labels:
        if label not in columns or columns[label].name not in ("VARCHAR", "NUMBER", "TIMESTAMP_NTZ", "BOOLEAN"):
            raise SnowflakeError(f"not known: ORDER BY {label}")

    def run(made: list[Row]) -> list[Row]:
        found = list(made)
        for label, descending, nulls_first in reversed(labels):
            nulls = [row for row in found if row[label] is None]
            rest = [row for row in found if row[label] is not None]
            rest.sort(key=lambda row: row[label], reverse=descending)
            found = nulls + rest if nulls_first else rest + nulls
        return found[offset:][:count]

    return run


def _distinct(found: list[Row], columns: Mapping[str, SqlType]) -> list[Row]:
    groups = Groups(list(columns.values()))
    for row in found:
        groups.add([row[name] for name in columns], row)
    return [members[0] for members in groups.all]


def _expanded(item: exp.Expr, number: int, scope: Scope) -> list[tuple[str, exp.Expr]]:
    """The labels of an item of the list, a star as the columns it stands for."""
    star = item if isinstance(item, exp.Star) else item.this
    if isinstance(star, exp.Star) and isinstance(item, exp.Star | exp.Column):
        if any(star.args.values()):
            raise SnowflakeError(f"not known: {item.sql('snowflake')}")
        only = name_of(item.args["table"]) if isinstance(item, exp.Column) else None
        return [
            (name, exp.column(exp.to_identifier(name, quoted=True), exp.to_identifier(table, quoted=True)))
            for table, columns in scope.sources.items()
            if only in (None, table)
            for name in columns
        ]
    if isinstance(item, exp.Alias):
        return [(name_of(item.args["alias"]), item.this)]
    return [(name_of(item) if isinstance(item, exp.Column) else f"${number}", item)]


def _sources(query: exp.Select, scope: Scope) -> Callable[[Row], list[Row]]:
    """FROM and its joins: each row has the columns of all relations under ``relation.column``."""
    from_ = query.args.get("from_")
    if from_ is None:
        return lambda row: [dict(row)]
    read = _source(from_.this, scope)
    for join in query.args.get("joins") or ():
        read = _join(read, join, scope)
    return read


def _source(table: exp.Expr, scope: Scope) -> Callable[[Row], list[Row]]:
    alias = table.args.get("alias")
    if isinstance(table, exp.Subquery):
        relation, name = compiled(table, scope.environment), ""
    elif isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier):
        known = scope.environment.relations
        if table_name(table) not in known:
            raise SnowflakeError(f"Object {table_name(table)} does not exist")
        relation, name = known[table_name(table)], name_of(table)
    else:
        raise SnowflakeError(f"not known: FROM {table.sql('snowflake')[:200]}")
    name = name_of(alias.this) if alias else name
    if name in scope.sources:
        raise SnowflakeError(f"duplicate alias {name}")
    scope.sources[name] = relation.columns
    return lambda row: [{**row, **{f"{name}.{key}": value for key, value in each.items()}} for each in relation.run({})]


def _join(left: Callable[[Row], list[Row]], join: exp.Join, scope: Scope) -> Callable[[Row], list[Row]]:
    """JOIN and LEFT JOIN with ON: a condition that is NULL joins nothing."""
    if isinstance(join.this, exp.Lateral):
        return _flattened(left, join, scope)
    side, kind, on = join.side, join.kind, join.args.get("on")
    if side not in ("", "LEFT") or kind not in ("", "INNER", "OUTER") or on is None or join.args.get("using"):
        raise SnowflakeError(f"not known: {join.sql('snowflake')[:200]}")
    before = set(scope.sources)
    right = _source(join.this, scope)
    (added,) = set(scope.sources) - before
    missing = {f"{added}.{name}": None for name in scope.sources[added]}
    test = coerced(node(on, scope), BOOLEAN, "ON").value

    key = key_of(on, scope, [added], scope)

    def run(row: Row) -> list[Row]:
        others = right({})
        find = None if key is None else indexed(others, key[0])
        made: list[Row] = []
        for each in left(row):
            near = others if find is None or key is None else find(each[key[1]])
            pairs = [pair for other in near if test(pair := {**each, **other})]
            made += pairs or ([{**each, **missing}] if side == "LEFT" else [])
        return made

    return run


def _flattened(left: Callable[[Row], list[Row]], join: exp.Join, scope: Scope) -> Callable[[Row], list[Row]]:
    """LATERAL FLATTEN of an array of a relation before it: a row for each element, which is the column VALUE.

    https://docs.snowflake.com/en/sql-reference/functions/flatten; other columns and arguments are not known.
    """
    call, alias = join.this.this, join.this.args.get("alias")
    given = call.expressions if call.name.upper() == "FLATTEN" else []
    named = [one for one in given if isinstance(one, exp.Kwarg) and one.name.upper() == "INPUT"]
    if join.kind != "CROSS" or len(given) != 1 or len(named) != 1 or alias is None:
        raise SnowflakeError(f"not known: {join.sql('snowflake')[:200]}")
    array, name = node(named[0].expression, scope), name_of(alias.this)
    if array.type.name != "ARRAY":
        raise SnowflakeError(f"FLATTEN: {array.type.name} is not known here")
    if name in scope.sources:
        raise SnowflakeError(f"duplicate alias {name}")
    scope.sources[name] = {"VALUE": VARIANT}
    return lambda row: [{**each, f"{name}.VALUE": item} for each in left(row) for item in array.value(each) or ()]


def _grouping(query: exp.Select, scope: Scope) -> tuple[Scope, Callable[[list[Row], Row], list[Row]]]:
    """The scope of what is selected, and the rows there: one a group, one alone for aggregates without GROUP BY."""
    group = query.args.get("group")
    if group is None and not any(found for item in query.expressions for found in aggregates(item, query)):
        return scope, lambda found, _: found
    if group is not None and any(value for key, value in group.args.items() if key != "expressions"):
        raise SnowflakeError(f"not known: {group.sql('snowflake')}")
    trees = group.expressions if group is not None else []
    keys = [node(tree, scope) for tree in trees]
    computed = {tree: f"#g{n}" for n, tree in enumerate(trees) if not isinstance(tree, exp.Column)}
    inner = replace(
        scope,
        grouped={scope.find(tree)[0] for tree in trees if isinstance(tree, exp.Column)},
        grouped_trees={
            tree: (computed[tree], key.type) for tree, key in zip(trees, keys, strict=True) if tree in computed
        },
        windows=[],
        aggregates={},
    )

    def run(found: list[Row], row: Row) -> list[Row]:
        groups = Groups([key.type for key in keys])
        for each in found:
            groups.add([key.value(each) for key in keys], each)
        made = []
        for members in groups.all if keys else [found]:
            one = dict(members[0]) if members else dict(row)
            one |= {key: of(members) for key, of in inner.aggregates.items()}
            one |= {computed[tree]: key.value(one) for tree, key in zip(trees, keys, strict=True) if tree in computed}
            made.append(one)
        return made

    return inner, run


__all__ = ["Data", "compiled", "held", "rows"]
