"""The AI calls of a statement, answered by a Python function before the statement runs.

Each call's input is evaluated on its own, the answers become a table, and the call gives way to a
reference to it. Scalar calls are emulated in a SELECT list without GROUP BY.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.standins.googlesql import calls
from tests.standins.googlesql.errors import GoogleSQLError
from tests.standins.googlesql.session import Session, Table, visible_entries
from tests.standins.googlesql.signatures import PROMPT
from tests.standins.googlesql.syntax import Edit, Node, splice
from tests.standins.googlesql.values import from_value, kind, to_value

Reply = Callable[[str | None], Mapping[str, Any]]


@dataclass(frozen=True)
class Model:
    """A model that is told the settings of the call, AI.GENERATE_TEXT's STRUCT or AI.GENERATE's model_params."""

    answer: Callable[[str | None, Mapping[str, Any]], Mapping[str, Any]]

    def __call__(self, prompt: str | None) -> Mapping[str, Any]:
        """Answer without settings."""
        return self.answer(prompt, {})


# Names that a query under test will not use: they stand beside its own columns.
_KEY, _ANSWER = "_ai_key_", "_ai_answer_"


@dataclass
class _Call:
    """One call: its node, and the parts of the text that its input consists of."""

    node: Node
    function: Any
    inputs: list[Node]
    entries: list[Node]


def answer_calls(session: Session, text: bytes, reply: Reply) -> tuple[bytes, list[str]]:
    """The statement with every call replaced by its answers, and the tables made for them."""
    made: list[str] = []
    while True:
        _, (statement,) = session.oracle.parse(text.decode())
        found = _calls(statement)
        if not found:
            return text, made
        # Calls may feed each other: first the one whose input holds no other call.
        ready = next(call for call in found if not _waits(call, found))
        name = f"_ai{len(session.tables)}"
        answer = _answer_table if ready.node.kind == "TVF" else _answer_scalar
        edit = answer(session, text, ready, reply, name)
        made.append(name)
        text, _ = splice(text, 0, len(text), [edit])


def _calls(statement: Node) -> list[_Call]:
    found = []
    for node, tvf in calls.table_calls(statement):
        entry = node.all("argument_entries")[1]
        found.append(_Call(node, tvf, [entry], visible_entries(node)))
    for node, scalar in calls.scalar_calls(statement):
        select = next((above for above in node.above() if above.kind == "Select"), None)
        inside = select.get("select_list") if select else None
        prompt = calls.argument(node, scalar, scalar.arguments[0].name)
        if select is None or inside is None or not inside.holds(node) or select.get("group_by") or not prompt:
            raise GoogleSQLError(f"not emulated: {scalar.name} outside a SELECT list without GROUP BY")
        parts = [part for part in (select.get("from_clause"), select.get("where_clause")) if part]
        found.append(_Call(node, scalar, [prompt, *parts], visible_entries(select)))
    return found


def _waits(call: _Call, found: list[_Call]) -> bool:
    parts = [*call.inputs, *call.entries]
    return any(part.holds(other.node) for other in found if other is not call for part in parts)


def _with(text: bytes, entries: list[Node]) -> bytes:
    return b"WITH " + b", ".join(text[e.start : e.end] for e in entries) + b"\n" if entries else b""


def _answer_table(session: Session, text: bytes, call: _Call, reply: Reply, name: str) -> Edit:
    entry = call.inputs[0]
    clause = entry.get("table_clause")
    path = clause.get("table_path") if clause else None
    relation = text[path.start : path.end] if path else text[entry.start : entry.end]
    rows = session.query(_with(text, call.entries) + b"SELECT * FROM " + relation)
    adds = call.function.adds["gemini"]
    types = [(column, session.oracle.type_of(type_)) for column, type_ in adds.items()]
    place = [column.lower() for column, _ in rows.columns].index(next(iter(call.function.needs)))
    if isinstance(reply, Model):
        given = from_settings(session, text, call)
        ask: Reply = lambda prompt: reply.answer(prompt, given)  # noqa: E731
    else:
        ask = reply
    answered = []
    for row in rows.rows:
        answer = _known(ask(from_value(row[place], rows.columns[place][1])), adds)
        answered.append(row + [to_value(answer.get(column), type_) for column, type_ in types])
    session.store(name, Table(rows.columns + types, answered))
    # The call's alias stays; without one the table's name does no harm.
    alias = call.node.get("alias")
    return Edit(call.node.start, alias.start if alias else call.node.end, f"`{name}` ".encode())


def from_settings(session: Session, text: bytes, call: _Call) -> Mapping[str, Any]:
    """The settings of a call of a table function by their names."""
    written = call.node.all("argument_entries")[2]
    found = session.query(b"SELECT s.* FROM (SELECT " + text[written.start : written.end] + b" AS s)")
    return {name: from_value(value, type_) for (name, type_), value in zip(found.columns, found.rows[0], strict=True)}


def _answer_scalar(session: Session, text: bytes, call: _Call, reply: Reply, name: str) -> Edit:
    oracle = session.oracle
    prompt, *rest = (text[part.start : part.end] for part in call.inputs)

    def refuse(message: str, offset: int) -> GoogleSQLError:
        return GoogleSQLError(message)

    result = calls.result_type(call.node, call.function, oracle.type_of, oracle.columns_of, refuse)
    query = b"SELECT TO_JSON_STRING(" + prompt + b"\n), " + prompt + b"\n" + b"\n".join(rest)
    asked = session.query(_with(text, call.entries) + query)
    written = calls.argument(call.node, call.function, "model_params")
    if isinstance(reply, Model) and written is not None:
        given = session.query(b"SELECT TO_JSON_STRING(" + text[written.start : written.end] + b"\n)")
        model, settings = reply, {"model_params": given.rows[0][0].string_value}
        reply = lambda prompt: model.answer(prompt, settings)  # noqa: E731
    answers: dict[str, list[Any]] = {}
    for key, value in asked.rows:
        given = from_value(value, asked.columns[1][1])
        sent = _joined(given) if call.function.arguments[0].type == PROMPT else given
        answer = _tokens(sent) if call.function.name == "AI.COUNT_TOKENS" else reply(sent)
        if kind(result) == "STRUCT":
            cell = to_value(_known(answer, [part.field_name for part in result.struct_type.field]), result)
        else:
            cell = to_value(answer.get("result"), result)
        answers.setdefault(key.string_value, [key, cell])
    columns = [(_KEY, oracle.type_of("STRING")), (_ANSWER, result)]
    session.store(name, Table(columns, list(answers.values())))
    lookup = f"(SELECT {_ANSWER} FROM `{name}` WHERE {_KEY} = TO_JSON_STRING(".encode() + prompt + b"\n))"
    return Edit(call.node.start, call.node.end, lookup)


def _tokens(text: str | None) -> Mapping[str, Any]:
    """A count of tokens, for which no model is asked: one for four characters, as in the answers of the server."""
    return {"result": None if text is None else len(text) // 4 + 1}


def _known(answer: Mapping[str, Any], names: Any) -> Mapping[str, Any]:
    if unknown := set(answer) - set(names):
        raise ValueError(f"the reply has no place for {', '.join(sorted(unknown))}")
    return answer


def _joined(prompt: Any) -> str | None:
    """The prompt as the model gets it: the fields of a STRUCT joined; NULL if any is."""
    if not isinstance(prompt, dict | tuple):
        return None if prompt is None else str(prompt)
    values = prompt.values() if isinstance(prompt, dict) else prompt
    parts = [part for value in values for part in (value if isinstance(value, list) else [value])]
    return None if None in parts else "".join(parts)
