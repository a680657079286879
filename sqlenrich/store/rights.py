"""The rights that a run needs at its end, tried before the first paid request by statements that change nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlenrich.core.sql import Sql, literal

NO_COLUMN = "_sqlenrich_no_column"
Attempt = Callable[[exp.Table, exp.Identifier], Sql]
"""A statement over a table and one of its columns."""


def insert_nothing(table: exp.Table, column: exp.Identifier) -> Sql:
    """Return an INSERT of no row."""
    none = exp.select(exp.Column(this=column.copy())).from_(table.copy()).where(literal(False))
    return exp.Insert(this=exp.Schema(this=table.copy(), expressions=[column.copy()]), expression=none)


def update_nothing(table: exp.Table, column: exp.Identifier) -> Sql:
    """Return an UPDATE of no row."""
    same = exp.EQ(this=exp.Column(this=column.copy()), expression=exp.Column(this=column.copy()))
    return exp.Update(this=table.copy(), expressions=[same], where=exp.Where(this=literal(False)))


def delete_nothing(table: exp.Table, _: exp.Identifier) -> Sql:
    """Return a DELETE of no row."""
    return exp.Delete(this=table.copy(), where=exp.Where(this=literal(False)))


def drop_no_column(table: exp.Table, _: exp.Identifier) -> Sql:
    """Return a change of the columns that changes none, which only an owner may make."""
    drop = exp.Drop(this=exp.column(NO_COLUMN), kind="COLUMN", exists=True)
    return exp.Alter(this=table.copy(), kind="TABLE", actions=[drop])


def replace_by_itself(table: exp.Table, _: exp.Identifier) -> Sql:
    """Return a statement that replaces a table by its rows: it is compiled and never run."""
    return exp.Create(this=table.copy(), kind="TABLE", replace=True, expression=exp.select("*").from_(table.copy()))


@dataclass(frozen=True)
class Rights:
    """What a warehouse is asked, and what a role lacks if it refuses. ``runs``: compiling alone tells nothing."""

    answers: Sequence[Attempt]
    """For the table of answers."""
    rows: Sequence[Attempt]
    """For a table whose rows are made afresh."""
    columns: Sequence[Attempt]
    """For a table whose columns change."""
    runs: bool
    needs: str


RIGHTS: Mapping[str, Rights] = {
    # https://docs.snowflake.com/en/sql-reference/sql/insert: OVERWRITE needs DELETE.
    "snowflake": Rights(
        (insert_nothing, update_nothing),
        (insert_nothing, delete_nothing),
        (drop_no_column,),
        runs=True,
        needs="SELECT, INSERT, UPDATE and DELETE on the table, and its OWNERSHIP where its columns change",
    ),
    # An UPDATE of BigQuery is billed by the size of the table, also where it changes no row; a dry run is free.
    "bigquery": Rights(
        (insert_nothing, update_nothing),
        (replace_by_itself,),
        (replace_by_itself,),
        runs=False,
        needs="roles/bigquery.dataEditor on the dataset, or bigquery.tables.create, update and updateData",
    ),
    "databricks": Rights(
        (update_nothing,),
        (update_nothing,),
        (update_nothing,),
        runs=True,
        needs="MODIFY on the table, and its ownership or MANAGE",
    ),
}
