"""ClickHouse's SQL as sqlglot prints it, and what the steps need besides.

What ClickHouse does otherwise (26.9): an outer join fills in defaults, not NULL (``join_use_nulls``); an alias hides
the column of its name in the whole SELECT (``prefer_column_name_to_alias``); a tuple forgets its names
(``enable_named_columns_in_function_tuple``); ``aiGenerate`` ends the query at its first failure and at 1,000 calls. All
four are settings, and a statement takes settings at its end. There is no TRY_CAST. A text that is cast to a date may be
the 30th of February: it becomes the 2nd of March.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.clickhouse import ClickHouse
from sqlglot.generators.clickhouse import ClickHouseGenerator

SETTINGS = ("join_use_nulls = 1", "prefer_column_name_to_alias = 1", "enable_named_columns_in_function_tuple = 1")
CALL = "aiGenerate"
CALL_SETTINGS = (
    "ai_function_throw_on_error = 0",
    "ai_function_max_api_calls_per_query = 0",
    "ai_function_max_input_tokens_per_query = 0",
    "ai_function_max_output_tokens_per_query = 0",
)
"""A call that fails gives an empty text, and no number of calls or tokens ends the statement."""
RENAMED = {"CHR": "char"}
"""Functions that the package names and ClickHouse names otherwise."""


class _Generator(ClickHouseGenerator):
    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        name = RENAMED.get(expression.name)
        return super().anonymous_sql(expression) if name is None else self.func(name, *expression.expressions)

    def trycast_sql(self, expression: exp.TryCast) -> str:
        """NULL for what can't be cast, and for a text of a day that is not there."""
        value, plain = self.sql(expression, "this"), expression.to.copy()
        plain.set("nullable", False)
        cast = f"accurateCastOrNull({value}, {self.sql(exp.Literal.string(self.sql(plain)))})"
        if plain.is_type(exp.DType.DATE32) or plain.is_type(exp.DType.DATE):
            return f"CASE WHEN toString({cast}) = toString({value}) THEN {cast} END"
        return cast

    def update_sql(self, expression: exp.Update) -> str:
        """A mutation that is awaited: a plain table takes no UPDATE."""
        table, where = self.sql(expression, "this"), self.sql(expression, "where").strip()
        values = self.expressions(expression, flat=True)
        return f"ALTER TABLE {table} UPDATE {values} {where} SETTINGS mutations_sync = 2"

    def select_sql(self, expression: exp.Select) -> str:
        """End a whole statement with its settings."""
        text = str(super().select_sql(expression))
        return text + self._settings(expression)

    def set_operations(self, expression: exp.SetOperation) -> str:
        return str(super().set_operations(expression)) + self._settings(expression)

    def _settings(self, query: exp.Query) -> str:
        if query.args.get("settings"):
            return ""
        if query.parent is not None and not isinstance(query.parent, exp.Create | exp.Insert | exp.Describe):
            return ""
        calls = any(call.name == CALL for call in query.find_all(exp.Anonymous))
        return f"{self.sep()}SETTINGS {', '.join((*SETTINGS, *(CALL_SETTINGS if calls else ())))}"


class SqlenrichClickHouse(ClickHouse):
    """The dialect ``sqlenrichclickhouse``: sqlglot's own, printed by another generator."""

    generator_class = _Generator
    Generator = _Generator
