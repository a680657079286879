"""The properties of the models: descriptions, contracts, tests, unit tests and versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlenrich.core.errors import UnsupportedError
from sqlenrich.core.names import identifier
from sqlenrich.core.tokens import tokens_beside
from sqlenrich.core.types import Type
from sqlenrich.dbt.jinja import inert, string
from sqlenrich.dbt.models import RESULTS, Family, node_name
from sqlenrich.dbt.samples import cut, sample_answer
from sqlenrich.engines import get_engine
from sqlenrich.plan.plan import Plan
from sqlenrich.plan.relations import RELATIONS
from sqlenrich.schema import evaluate_checks
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.limits import TOO_LONG

DEFAULT_MAX_REQUESTS = 100_000
"""``sqlenrich_max_requests`` where a project does not set it."""
DESCRIPTIONS = {
    "prompts": "One row per row of the source: its prompt and the hash of its request.",
    "pending": "The requests without an answer: what a build would ask now. `attempt` is the one to come.",
    "responses": "Every answer ever paid for, one row per attempt. Only requests without an answer are asked; nothing "
    "is ever dropped. `raw` is the vendor's answer as it came, `response` its text, `call_error` why there is none, "
    "`model` was asked, `served_model` is the model that the answer names, `run_id` the dbt invocation that asked.",
    "checked": "One row per row of the source: its `answer`; where it is refused the reason in `_error`, its `prompt` "
    "and its `response`.",
    "quarantine": "The refused rows, each with its reason.",
}
COLOURS = {
    "prompts": "#5b7083",
    "pending": "#5b7083",
    "checked": "#5b7083",
    "responses": "#b45309",
    "quarantine": "#b91c1c",
    "enriched": "#15803d",
}
"""The colours in the lineage graph: what asks and costs, what is refused, what is accepted, and the steps between."""
COLUMNS = {
    "_error": "Why the row was refused.",
    "_error_detail": "What exactly was wrong.",
    "_repaired": "Whether the answer was repaired before it was checked.",
    "response": "The model's text.",
    "prompt": "The text that was asked.",
    "_attempts": "How often the request was asked.",
    "_request_hash": "The hash of the request.",
    "_model": "The model that answered; where the answer names none, the model that was asked.",
    "_version": "The version of the prompt file.",
    "_fingerprint": "A digest of the prompt file.",
    "_asked_at": "When the row's answer was asked.",
    "request_hash": "The hash of the request.",
    "_truncated": "Whether a column was cut so that the prompt fits.",
}
"""The descriptions of sqlenrich's own columns."""
MAX_QUARANTINE = "sqlenrich_max_quarantine"
"""Read by the test of the quarantine beside the column ``_error``; tests and configs are part of ``state:modified``."""
CALL = "sqlenrich_call"
"""What the package needs for the cost of a request, by adapter."""
KEY, KEPT = "The key of the row, as the source has it.", "A column of the source, kept as it is."
"""The descriptions of the source's columns."""


@dataclass(frozen=True)
class Member:
    """An enrichment with its place among its versions and its plans."""

    enrichment: Enrichment
    family: Family
    plans: Mapping[str, Plan | UnsupportedError]
    others: Mapping[str, Mapping[str, Plan]] = field(default_factory=dict)
    """The plans of other models, by engine and alias."""

    def plan(self) -> Plan:
        """Return the plan of any engine: their columns are equal. Raises the refusal where every engine refuses."""
        for plan in self.plans.values():
            if isinstance(plan, Plan):
                return plan
        raise next(error for error in self.plans.values() if isinstance(error, UnsupportedError))


def untyped(enrichment: Enrichment) -> list[str]:
    """Return the key and kept columns whose type the file does not say: with them there is no contract."""
    declared = {name for name, column in enrichment.columns.items() if column.type is not None}
    return [name for name in dict.fromkeys((*enrichment.key, *enrichment.keep)) if name not in declared]


def node_properties(member: Member) -> list[dict[str, Any]]:
    """Return the properties of the models that have no versions."""
    name, found = member.enrichment.name, []
    for step in ("prompts", "pending", "responses", "checked"):
        entry: dict[str, Any] = {
            "name": node_name(name, step),
            "description": DESCRIPTIONS[step],
            "config": _config(step, contract=False),
        }
        if step == "prompts":
            entry |= _keyed(member)
        if step == "responses":
            calls = {engine: _call(member, plan) for engine, plan in member.plans.items() if isinstance(plan, Plan)}
            for engine, others in member.others.items():
                calls[engine]["models"] = {alias: _call(member, plan) for alias, plan in others.items()}
            entry["config"]["meta"] = {CALL: calls}
        if step == "pending":
            limit = f"{{{{ var('sqlenrich_max_requests', {DEFAULT_MAX_REQUESTS}) }}}}"
            entry["data_tests"] = [
                {
                    "sqlenrich.rows_at_most": {
                        "name": f"{name}_requests_at_most_sqlenrich_max_requests",
                        "arguments": {"rows": limit},
                    }
                }
            ]
        found.append(entry)
    return found


def result_properties(members: Sequence[Member], latest: int | None) -> list[dict[str, Any]]:
    """Return the properties of the result models; several members are versions of one model."""
    found = []
    for step in RESULTS:
        first = members[0]
        if first.family.number is None:
            found.append({"name": node_name(first.enrichment.name, step), **_result(first, step)})
            continue
        versions = []
        for member in members:
            alias = node_name(member.enrichment.name, step)
            entry = _result(member, step)
            config = {"alias": alias, **entry.pop("config")}
            versions.append({"v": member.family.number, "defined_in": alias, "config": config, **entry})
        described = next(member for member in members if member.family.number == latest)
        found.append(
            {
                "name": RELATIONS[step].format(first.family.base),
                "description": _description(described.enrichment, step),
                "latest_version": latest,
                "versions": versions,
            }
        )
    return found


def unit_tests(member: Member) -> list[dict[str, Any]]:
    """Return the unit test of an enrichment: a good, a cut and a missing answer. None where no sample fits."""
    enrichment, name = member.enrichment, member.enrichment.name
    good = sample_answer(enrichment)
    if good is None:
        return []
    failure = evaluate_checks(enrichment.checks, cut(good))
    assert failure is not None
    hashes = ("good", "cut", "missing")
    limit = {TOO_LONG: False} if enrichment.limit is not None else {}
    answers = {"good": good, "cut": cut(good)}
    common = {"attempt": 1, "retryable": False}
    expected = {"good": None, "cut": failure[0], "missing": "NOT_ASKED"}
    return [
        {
            "name": f"{name}_refuses_a_cut_answer",
            "description": "A whole answer is accepted, a cut one is refused, and a row without one is not asked.",
            "model": node_name(name, "checked"),
            "given": [
                {
                    "input": member.family.ref("prompts", name),
                    "rows": [{"prompt": "p", "request_hash": each, **limit} for each in hashes],
                },
                {
                    "input": member.family.ref("responses", name),
                    "rows": [
                        {"request_hash": each, "response": inert(text), **common} for each, text in answers.items()
                    ],
                },
            ],
            "expect": {"rows": [{"request_hash": each, "_error": code} for each, code in expected.items()]},
        }
    ]


def _result(member: Member, step: str) -> dict[str, Any]:
    enrichment, name = member.enrichment, member.enrichment.name
    checked, prompts = (member.family.ref(each, name) for each in ("checked", "prompts"))
    test: dict[str, Any] = {
        "sqlenrich.rows_reconcile": {
            "name": f"{name}_has_every_row",
            "arguments": {"prompts": prompts, "quarantine": member.family.ref("quarantine", name)},
        }
    }
    if step == "quarantine":
        test = {
            "sqlenrich.quarantine_at_most": {
                "name": f"{name}_quarantine_at_most_max_quarantine",
                "arguments": {"checked": checked},
            }
        }
    config = _config(step, contract=not untyped(enrichment))
    entry: dict[str, Any] = {"description": _description(enrichment, step), "config": config}
    entry["data_tests"] = [test]
    entry["columns"] = _columns(member, step)
    if step == "quarantine":
        share = 1 if enrichment.max_quarantine is None else enrichment.max_quarantine
        error = next(column for column in entry["columns"] if column["name"] == "_error")
        error["config"] = {"meta": {MAX_QUARANTINE: share}}
    return entry


def _call(member: Member, plan: Plan) -> dict[str, Any]:
    """Return the model that is asked, the tokens beside each prompt, and the most that an answer has.

    The model is None where a plugin chooses it; it sends the schema as a response format or as a hint.
    """
    enrichment, call = member.enrichment, plan.responses.request
    if call is None:
        model, most = None, enrichment.params.get("max_tokens")
        beside = tokens_beside(enrichment.turns, None, enrichment.schema)
    else:
        model, limit = call.model, get_engine(plan.engine).params_of(call.model).get("max_tokens")
        most = None if limit is None else call.params.get(limit)
        beside = tokens_beside(call.turns, call.hint, call.response_format)
    return {"model": model, "tokens_beside": beside, "max_tokens": 0 if enrichment.embedding is not None else most}


def _keyed(member: Member) -> dict[str, Any]:
    """Return the contract of the prompts and the tests of their key: what is wrong is found before the call."""
    name, key = member.enrichment.name, list(dict.fromkeys(member.enrichment.key))
    columns = _columns(member, "prompts")
    found: dict[str, Any] = {"columns": columns}
    if not untyped(member.enrichment):
        found["config"] = _config("prompts", contract=True)
    for column in columns:
        if column["name"] in key:
            column["data_tests"] = [{"not_null": {"name": f"{name}_{column['name']}_is_not_null"}}]
            if len(key) == 1:
                column["data_tests"].insert(0, {"unique": {"name": f"{name}_{column['name']}_is_unique"}})
    if len(key) > 1:
        written = [f"{{{{ adapter.quote({string(one)}) }}}}" if _quoted(member, one) else one for one in key]
        unique = {"name": f"{name}_key_is_unique", "arguments": {"columns": written}}
        found["data_tests"] = [{"sqlenrich.unique_key": unique}]
    return found


def _columns(member: Member, step: str) -> list[dict[str, Any]]:
    return [_column(member, column, kind) for column, kind in member.plan().step(step).columns.items()]


def _quoted(member: Member, name: str) -> bool:
    """Tell whether an engine needs quotes around a name that it does not quote by itself."""
    return any(identifier(engine, name).quoted for engine in map(get_engine, member.plans) if not engine.quotes_always)


def _config(step: str, *, contract: bool) -> dict[str, Any]:
    # Said in both cases: a project may enforce contracts for all its models.
    return {"docs": {"node_color": COLOURS[step]}, "contract": {"enforced": contract}}


def _column(member: Member, name: str, kind: Type) -> dict[str, Any]:
    written: dict[str, Any] = {"name": name, "data_type": _data_type(member, kind)}
    if _quoted(member, name):
        written["quote"] = True
    schema = member.enrichment.schema.get("properties", {}).get(name, {})
    known = {**dict.fromkeys(member.enrichment.keep, KEPT), **dict.fromkeys(member.enrichment.key, KEY), **COLUMNS}
    told = known.get(name, schema.get("description"))
    parts = [] if told is None else [told]
    if (values := schema.get("enum")) is not None:
        parts.append("One of: " + ", ".join(str(value) for value in values if value is not None))
    if parts:
        written["description"] = inert(". ".join(part.rstrip(".") for part in parts) + ".")
    return written


def _data_type(member: Member, kind: Type) -> str:
    """Return the type per adapter, as Jinja."""
    types = {}
    for engine, plan in member.plans.items():
        if isinstance(plan, Plan):
            target = get_engine(engine)
            types[engine] = target.sql_type(kind).sql(target.dialect)
    ((common, _),) = Counter(types.values()).most_common(1)
    # dbt compiles each of these templates when it parses, so they are short.
    exceptions = "".join(
        f"'{written}' if target.type == '{engine}' else " for engine, written in types.items() if written != common
    )
    return f"{{{{ {exceptions}'{common}' }}}}" if exceptions else common


def _description(enrichment: Enrichment, step: str) -> str:
    if step == "quarantine":
        return DESCRIPTIONS[step]
    return inert(enrichment.description or "The accepted rows, with a typed column per property of the answer.")
