"""The retry as a script: every engine selects the same rows, and whole scripts correct what a retry can correct."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.core.types import BIGINT, BOOLEAN, STRING, Type
from sqlenrich.engines import ENGINES, get_engine
from sqlenrich.plan.compile import RetryCall, compile_accepted, compile_retry
from sqlenrich.plan.pending_step import NO_FEEDBACK, NOT_RETRIABLE, ONLY_IF_NAMED, feedback_text
from sqlenrich.plan.plan import RESPONSES
from sqlenrich.plan.request import ResolvedModel, request_constant, request_hash
from sqlenrich.schema import CODES
from sqlenrich.spec.cascade import Cascade
from sqlenrich.spec.loader import loads, templates
from sqlenrich.spec.settings import Config, ModelAlias
from tests.prompt.test_conformance import Row, columns_of_snowflake, fill_duckdb, fill_spark, of_variant, typed
from tests.standins.grammar import check_sqlfluff, check_sqlglot
from tests.support.hostile import HOSTILE
from tests.support.in_memory import in_memory
from tests.support.runs import call

MARKS = {"bigquery": pytest.mark.zetasql, "spark": pytest.mark.spark, "databricks": pytest.mark.spark}
each_engine = pytest.mark.parametrize("engine", [pytest.param(e, marks=MARKS.get(e, ())) for e in ENGINES])
each_script = pytest.mark.parametrize(
    "engine", [pytest.param(e, marks=MARKS.get(e, ())) for e in ENGINES if e != "duckdb"]
)
LIMIT = 50
FILE = f"""---
source: source
key: [id]
version: 1
params: {{temperature: 0, max_tokens: {LIMIT}}}
retry: {{feedback: true}}
output:
  type: object
  properties: {{label: {{type: string, enum: [a, b]}}, n: {{type: integer, maximum: 5}}}}
  required: [label, n]
---
{{{{ body }}}}"""
CHECKED: dict[str, Type] = {
    "id": STRING, "prompt": STRING, "request_hash": STRING, "_attempts": BIGINT, "_error": STRING,
    "_error_detail": STRING,
}  # fmt: skip
LIMITED = ("bigquery", "duckdb", "snowflake")
"""The engines that report a truncated answer, so that it is asked again with a larger limit."""
LIMITS = {"bigquery": "max_output_tokens"}


def enrichment(**changed: Any) -> se.Enrichment:
    return replace(loads(FILE, name="again"), **changed)


# The selection --------------------------------------------------------------------------------------------------------


Table = tuple[Mapping[str, Type], Sequence[Row]]
"""Columns and rows."""


def checked_rows() -> list[Row]:
    """Every reason and number of attempts, with and without a detail, each request twice; hostile texts."""
    found: list[Row] = []
    for code in (None, *CODES):
        for attempts in range(1, 6):
            name = f"{code} {attempts}"
            found += [(key, name, f"hash {name}", attempts, code, f"detail of {code}") for key in ("a", None)]
    found += [("x", text, f"hash {name}", 1, "BAD_JSON", None) for name, text in HOSTILE.items() if text is not None]
    found += [("y", "p", f"hash of {name}", 2, "SCHEMA", text) for name, text in HOSTILE.items()]
    return found


def selected(
    engine: str, call: RetryCall, rows: Sequence[Row], columns: Mapping[str, Type] = CHECKED, **more: Table
) -> list[Row]:
    """The requests of one call of a retry, selected by the engine from ``checked`` and ``more`` tables."""
    sql = str(call.step.pending_sql)
    tables: dict[str, Table] = {"again_checked": (columns, rows), **more}
    if engine == "duckdb":
        with in_memory() as db:
            for name, table in tables.items():
                fill_duckdb(db, name, *table)
            return db.execute(sql).fetchall()
    if engine == "bigquery":
        from tests.standins.googlesql import googlesql

        return googlesql().evaluate(sql, {name: (typed(engine, types), of) for name, (types, of) in tables.items()})
    if engine == "snowflake":
        from tests.standins import snowflake

        assert sql.count("SELECT DISTINCT") == 1  # the stand-in has none
        plain = sql.replace("SELECT DISTINCT", "SELECT")
        of_snowflake = {name: (columns_of_snowflake(types), of) for name, (types, of) in tables.items()}
        return sorted(set(snowflake.rows(plain, of_snowflake)))
    from tests.standins import spark

    for name, table in tables.items():
        fill_spark(name, *table)
    try:
        return spark.rows(sql)
    finally:
        for name in tables:
            spark.rows(f"DROP VIEW {name}")


@each_engine
@pytest.mark.parametrize("feedback", [False, True])
@pytest.mark.parametrize(
    ("reasons", "attempts"),
    [((), 3), (("BAD_JSON", "SCHEMA"), 4), (("CALL_ERROR",), 2), (("TRUNCATED",), 6), (("UNREADABLE",), 2), ((), 1)],
)
def test_the_selection_equals_the_reference(
    engine: str, feedback: bool, reasons: tuple[str, ...], attempts: int
) -> None:
    e = enrichment(feedback=feedback)
    model = ResolvedModel("big", {LIMITS.get(engine, "max_tokens"): LIMIT})
    calls = compile_retry(e, engine, model=model, reasons=reasons or None, max_attempts=attempts)
    rows = checked_rows()
    found = {row for call in calls for row in selected(engine, call, rows)}
    assert len(found) == sum(len(selected(engine, call, rows)) for call in calls), "a request is in two calls"
    expected = set()
    for _, prompt, hash_, count, code, detail in rows:
        if code is None or code in NOT_RETRIABLE or count >= attempts:
            continue
        if (reasons and code not in reasons) or (not reasons and code in ONLY_IF_NAMED):
            continue
        sent = str(prompt) + (feedback_text(str(code), detail) if feedback else "")
        limit = LIMIT * 2 ** min(count, 3) if code == "TRUNCATED" and engine in LIMITED else LIMIT
        constant = _constant(engine, e, limit)
        expected.add((hash_, count + 1, sent, request_hash(constant, sent)))
    assert found == expected


ANSWERED: dict[str, tuple[str, bool]] = {
    # The condition is met, and the model has not answered.
    '{"label":"a","n":1}': ("n < 2", True),
    '{"label":"b","n":2}': ("n < 2 OR label = 'b'", True),
    '{"label":"a","n":5}': ("n < 2", False),
    '{"label":"b","n":0}': ("upper(label) || '!' = 'B!' AND n + 1 < 2", True),
    '{"label":"b","n":-1}': ("id = 'x'", False),
    '{"label":"a","n":-1}': ("id = 'a' AND _model = 'small'", True),
    '{"label":"a","n":3}': ("_request_hash IS NULL", False),
}


@each_engine
def test_accepted_rows_of_a_condition_are_asked_once_of_a_model(engine: str) -> None:
    e = enrichment()
    model = ResolvedModel("big", {LIMITS.get(engine, "max_tokens"): LIMIT})
    columns: dict[str, Type] = {**CHECKED, "answer": STRING, "_model": STRING}
    calls: list[Row] = []  # answers of models: the request, the model, whether its failure may pass
    of_model: dict[str, list[tuple[str, bool | None]]] = {
        "asked": [("small", False)],
        "answered": [("small", False), ("big", False)],
        "failed once": [("small", False), ("big", True)],
        "failed twice": [("small", False), ("big", True), ("big", True)],
        "unread": [("small", False), ("big", None)],
    }
    rows: list[Row] = []
    for answer in ANSWERED:
        for name, asked in of_model.items():
            hash_ = f"{answer} {name}"
            calls += [(hash_, who, retryable) for who, retryable in asked]
            rows += [("a", None, hash_, len(asked), None, None, answer, "small")] * 2
        rows.append(("a", "text", f"refused {answer}", 1, "BAD_JSON", None, answer, "small"))
    rows.append((None, None, None, 0, None, None, None, None))
    constant = _constant(engine, e, LIMIT)
    responses: dict[str, Type] = {"request_hash": STRING, "model": STRING, "retryable": BOOLEAN}
    asked_for = [(hash_, "text") for hash_ in dict.fromkeys(call[0] for call in calls) for _ in range(2)]
    prompts: Table = ({"request_hash": STRING, "prompt": STRING}, asked_for)
    for where in dict.fromkeys(where for where, _ in ANSWERED.values()):
        call = compile_accepted(e, engine, where, model=model, max_attempts=2)
        found = selected(engine, call, rows, columns, again_responses=(responses, calls), again_prompts=prompts)
        chosen = {row[0].rpartition("} ")[0] + "}" for row in found}
        assert chosen == {answer for answer in ANSWERED if _meets(where, json.loads(answer))}, where
        assert set(found) == {
            (f"{answer} {name}", len(of_model[name]) + 1, "text", request_hash(constant, "text"))
            for answer in chosen
            for name in ("asked", "failed once")
        }
    for answer, (where, meets) in ANSWERED.items():
        assert _meets(where, json.loads(answer)) is meets


def _meets(where: str, answer: Mapping[str, Any]) -> bool:
    """Tell whether the row of an answer meets a condition, by DuckDB's reading of it."""
    row = {"id": "a", "_model": "small", "_request_hash": "h", **answer}
    with in_memory() as db:
        values = ", ".join(f'? AS "{name}"' for name in row)
        return bool(db.execute(f"SELECT {where} FROM (SELECT {values})", list(row.values())).fetchall()[0][0])


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("confidence < 0.5", 'where reads "confidence", which the results do not have'),
        ("n < 'a'", "where: \"n < 'a'\" compares a integer with a text"),
        ("label", "where is no condition, but a text"),
        ("n <", 'where "n <" is no SQL'),
        ("regexp_like(label, 'x')", "is not the same on all engines"),
        ("id IN (SELECT 1)", "is not the same on all engines"),
    ],
)
def test_conditions_that_can_not_be(where: str, problem: str) -> None:
    for engine in ENGINES:
        with pytest.raises(se.SpecError) as told:
            compile_accepted(enrichment(), engine, where)
        assert problem in str(told.value)


def _constant(engine: str, e: se.Enrichment, limit: int) -> str:
    return request_constant(ResolvedModel("big", {LIMITS.get(engine, "max_tokens"): limit}), e.schema, None)


def test_feedback_tells_no_text_of_an_answer() -> None:
    """Feedback has the code and the static words of the check. A failed call gives none."""
    for code in NO_FEEDBACK:
        assert feedback_text(code, "secret") == ""
    told = "Your last answer was refused: BAD_LENGTH x is longer than 40. Answer again, with one JSON object that fits."
    assert feedback_text("BAD_LENGTH", "x is longer than 40") == f"\n\n{told}"


# Whole scripts --------------------------------------------------------------------------------------------------------

Reply = Callable[[str, str, int], tuple[str | None, str | None, str]]
"""The model, the prompt and how often it was asked before to a text, an error and why the model stopped."""
Tables = dict[str, list[dict[str, Any]]]
GOOD = '{"label":"a","n":1}'


class RecordingModel:
    """A model that answers by a rule and records its requests: (model, prompt, limit)."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.log: list[tuple[str, str, int | None]] = []

    def ask(self, model: str, prompt: str, limit: int | None = None) -> tuple[str | None, str | None, str]:
        before = sum(asked.partition("\n\n")[0] == prompt.partition("\n\n")[0] for _, asked, _ in self.log)
        self.log.append((model, prompt, limit))
        return self.reply(model, prompt, before)


@contextmanager
def warehouse(engine: str, columns: Mapping[str, Type], rows: Sequence[Row], asked: RecordingModel) -> Iterator[Any]:
    """A function that runs a script over the same source and the tables of earlier scripts, and gives the tables."""
    e = enrichment()
    plan = se.compile_plan(e, engine)
    names = {step.name: step.relation.strip("`") for step in plan.steps}
    if engine == "bigquery":
        from tests.standins.googlesql import googlesql

        data: dict[str, Any] = {"source": (typed(engine, columns), rows)}

        def keep(made: dict[str, Any]) -> None:
            for step in ("prompts", "responses"):
                if names[step] in made:
                    data[names[step]] = (typed(engine, dict(plan.step(step).columns)), made[names[step]])
            data.pop("again_lock", None)
            if "again_lock" in made:
                data["again_lock"] = ({"since": "TIMESTAMP"}, made["again_lock"])

        def run(script: str) -> Tables:
            def ask(prompt: str | None) -> dict[str, Any]:
                text, error, finish = asked.ask("", str(prompt))
                full = {"candidates": [{"finish_reason": finish}]}
                return {"result": text, "status": error or "", "full_response": json.dumps(full)}

            try:
                made = googlesql().evaluate_script(script, data, ask).tables
            except Exception as error:
                keep(error.tables)  # type: ignore[attr-defined]
                raise
            keep(made)
            held = {step: made.get(name, data.get(name, (None, []))[1]) for step, name in names.items()}
            return {step: [dict(row) for row in found] for step, found in held.items()}

        yield run
        return
    if engine == "snowflake":
        from tests.standins import snowflake

        def complete(prompt: str) -> tuple[Any, str | None]:
            text, error, finish = asked.ask("", prompt)
            if isinstance(text, str) and finish == "MAX_TOKENS":  # what does not fit the schema is an error there
                return None, "Request failed with error 422: the output does not fit the schema"
            return text, error

        database = snowflake.Database(
            {"source": (columns_of_snowflake(columns), rows)}, complete, read_as=snowflake.READINGS["strict"]
        )

        def run_snowflake(script: str) -> Tables:
            database.run(script)
            return {
                step.name: [
                    {
                        name: of_variant(value, kind)
                        for (name, kind), value in zip(step.columns.items(), row, strict=True)
                    }
                    for row in database.rows(step.relation)
                ]
                for step in plan.steps
                if step.relation.upper() in database.tables
            }

        yield run_snowflake
        return
    from tests.standins import spark

    def answer(call: spark.AiCall) -> spark.AiAnswer:
        limit = (call.model_parameters or {}).get("max_tokens")
        text, error, _ = asked.ask(str(call.endpoint), str(call.request), limit)
        return spark.AiAnswer(text, error)

    spark.spark_session()
    spark.register_ai_query(answer)
    with spark.mem_catalog():
        fill_spark("source", columns, rows)

        def run_spark(script: str) -> Tables:
            spark.run_script(script)
            return {
                step.name: [
                    dict(zip(step.columns, row, strict=True)) for row in spark.rows(f"SELECT * FROM {step.relation}")
                ]
                for step in plan.steps
                if spark.spark_session().catalog.tableExists(step.relation.strip("`"))
            }

        yield run_spark
        spark.rows("DROP VIEW source")


BODIES = {
    "good": (0, GOOD, None),
    "prose": (1, "no", None),
    "enum": (2, '{"label":"z","n":1}', None),
    "range": (9, '{"label":"a","n":6}', None),
    "silent": (1, "", None),
    "failed": (1, None, "INVALID_ARGUMENT: no"),
    "cut": (2, '{"label":"a', None),
}
"""The failures of each prompt."""


def reply(_model: str, prompt: str, before: int) -> tuple[str | None, str | None, str]:
    times, text, error = BODIES[prompt.partition("\n\n")[0]]
    if before >= times:
        return GOOD, None, "STOP"
    return text, error, "MAX_TOKENS" if prompt.startswith("cut") else "STOP"


def by_body(tables: Tables) -> dict[str, tuple[str | None, int]]:
    """The reason and the attempts of each prompt."""
    prompts = {row["request_hash"]: row["prompt"] for row in tables["prompts"]}
    found: dict[str, tuple[str | None, int]] = {}
    for row in tables["checked"]:
        found[row["prompt"] if row["request_hash"] is None else prompts[row["request_hash"]]] = (
            row["_error"],
            row["_attempts"],
        )
    return found


def first_answers(tables: Tables) -> list[dict[str, Any]]:
    """The answers of the first attempts, in the order of their hashes: a table has none."""
    found = [row for row in tables["responses"] if row["attempt"] == 1]
    return sorted(found, key=lambda row: str(row["request_hash"]))


@each_script
def test_a_script_of_a_cascade_asks_the_second_model_below_the_threshold(engine: str) -> None:
    """The second model answers what the first refused or scored below the threshold, once, though it fails itself."""
    answers = {"sure": (5, 5), "unsure": (1, 4), "refused": (9, 3), "both refused": (9, 9), "lost": (2, 9)}
    times: Counter[str] = Counter()

    def reply(_model: str, prompt: str, _before: int) -> tuple[str | None, str | None, str]:
        n = answers[prompt][min(times[prompt], 1)]
        times[prompt] += 1
        return f'{{"label":"a","n":{n}}}', None, "STOP"

    config = Config(models={name: {e: ModelAlias(f"data.{name}") for e in ENGINES} for name in ("small", "strong")})
    cascade = Cascade("strong", "n", ("label",), threshold=3)
    e = enrichment(model="small", cascade=cascade)
    script = se.render(e, engine, config=config)
    rows = [*((name, name) for name in answers), ("again", "unsure"), ("none", None)]
    with warehouse(engine, {"id": STRING, "body": STRING}, rows, RecordingModel(reply)) as run:
        for _ in range(2):
            found = run(script)
            assert times == {"sure": 1, "unsure": 2, "refused": 2, "both refused": 2, "lost": 2}
            assert sorted((row["id"], row["n"], row["_model"]) for row in found["enriched"]) == [
                ("again", 4, "data.strong"), ("lost", 2, "data.small"), ("refused", 3, "data.strong"),
                ("sure", 5, "data.small"), ("unsure", 4, "data.strong"),
            ]  # fmt: skip
            assert len(found["quarantine"]) == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_a_script_does_not_search_a_threshold(engine: str) -> None:
    cascade = Cascade("strong", "n", ("label",), target=0.9)
    with pytest.raises(se.UnsupportedError, match="can't find the threshold of a cascade"):
        se.render(enrichment(cascade=cascade), engine)


@each_script
def test_retry_scripts_mend_what_can_be_mended(engine: str) -> None:
    rows = [*((name, name) for name in BODIES), ("again", "prose"), (None, "good"), ("none", None)]
    columns: dict[str, Type] = {"id": STRING, "body": STRING}
    config = Config(models={"strong": {name: ModelAlias("large") for name in ENGINES}})
    asked = RecordingModel(reply)
    cut = "TRUNCATED" if engine in LIMITED else "BAD_JSON"
    limited = cut == "TRUNCATED"
    with warehouse(engine, columns, rows, asked) as run:
        first = run(se.render(enrichment(), engine, config=config))
        assert len(asked.log) == len(BODIES)
        answers = first_answers(first)
        refused = {
            "prose": "BAD_JSON", "enum": "NOT_IN_ENUM", "range": "OUT_OF_RANGE", "silent": "NO_RESPONSE",
            "failed": "CALL_ERROR", "cut": cut,
        }  # fmt: skip
        assert by_body(first) == {
            "good": (None, 1),
            **{n: (code, 1) for n, code in refused.items()},
            "": ("NO_INPUT", 0),
        }

        # Only one reason; then all of them, from another model.
        one = run(se.render(enrichment(), engine, config=config, retry=True, reasons=["OUT_OF_RANGE"]))
        (sent,) = asked.log[len(BODIES) :]
        told = "OUT_OF_RANGE n is"
        assert sent[1].startswith(f"range\n\nYour last answer was refused: {told}")
        assert by_body(one)["range"] == ("OUT_OF_RANGE", 2)

        before = len(asked.log)
        script = se.render(enrichment(escalate="strong"), engine, config=config, retry=True, max_attempts=3)
        second = run(script)
        sent_now = [(m, p.partition("\n\n")[0], n) for m, p, n in asked.log[before:]]
        assert Counter(prompt for _, prompt, _ in sent_now) == Counter(dict.fromkeys(refused, 1))
        if engine in ("spark", "databricks"):
            assert {(model, limit) for model, _, limit in sent_now} == {("large", LIMIT)}
        assert by_body(second) == {
            "good": (None, 1), "prose": (None, 2), "silent": (None, 2), "failed": (None, 2), "": ("NO_INPUT", 0),
            "enum": ("NOT_IN_ENUM", 2), "cut": (cut, 2), "range": ("OUT_OF_RANGE", 3),
        }  # fmt: skip
        rest = run(script)
        assert by_body(rest)["enum"] == by_body(rest)["cut"] == (None, 3)
        assert by_body(rest)["range"] == ("OUT_OF_RANGE", 3)
        assert len(asked.log) == len(BODIES) + 1 + 6 + 2, "a script asks nothing that has no attempts left"
        assert len(rest["enriched"]) + len(rest["quarantine"]) == len(rest["checked"]) == len(rows)
        assert {row["_error"] for row in rest["quarantine"]} == {"OUT_OF_RANGE", "NO_INPUT"}
    # No answer is dropped, and each row tells what was really sent.
    assert first_answers(rest) == answers
    assert set(rest["responses"][0]) == set(RESPONSES)
    plan = se.compile_plan(enrichment(), engine)
    texts = {request_hash(plan.constant, name): name for name in BODIES}
    for row in rest["responses"]:
        if row["attempt"] == 1:
            assert row["sent_hash"] == row["request_hash"]
            continue
        body = texts[row["request_hash"]]
        model = "large" if row["model"] == "large" else plan.model
        assert (row["model"] == "large") == (not (body == "range" and row["attempt"] == 2))
        limit = LIMIT * 2 ** (row["attempt"] - 1) if body == "cut" and limited else LIMIT
        params = {LIMITS.get(engine, "max_tokens"): limit}
        if get_engine(engine).params_of(model)["temperature"] is not None:  # Gemini 3 takes none
            params["temperature"] = 0
        params |= get_engine(engine).default_params(model, {})
        constant = request_constant(ResolvedModel(model, params), enrichment().schema, None)
        sent_hashes = {
            request_hash(constant, prompt) for _, prompt, _ in asked.log if prompt.partition("\n\n")[0] == body
        }
        assert row["sent_hash"] in sent_hashes


# Texts ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", [e for e in ENGINES if e != "duckdb"])
@pytest.mark.parametrize("template", list(templates())[::5])
def test_a_retry_script_prints_back(engine: str, template: str) -> None:
    e = replace(se.load(template), feedback=True)
    sql = se.render(e, engine=engine, config=Config(), retry=True)
    check_sqlglot(sql, get_engine(engine).dialect)
    if engine in ("snowflake", "databricks"):
        check_sqlfluff(sql, engine)


def test_only_what_reports_a_cut_answer_asks_with_a_larger_limit() -> None:
    for engine in ENGINES:
        sql = se.render(enrichment(), engine, config=Config(), retry=True)
        assert ("what was truncated, with 2 times the limit" in sql) == (engine in LIMITED)
        bare = se.render(enrichment(params={}), engine, config=Config(), retry=True)
        assert "what was truncated" not in bare


def test_the_command_prints_the_function_s_script(tmp_path: Path) -> None:
    (tmp_path / "again.prompt").write_text(FILE)
    (tmp_path / "sqlenrich.toml").write_text('[targets.prod]\nengine = "bigquery"\nschema = "ds"\n')
    options = ("--retry", "--reason", "BAD_JSON", "--reason", "SCHEMA", "--model", "big", "--max-attempts", 5)
    printed = call("render", tmp_path / "again.prompt", "--engine", "spark", *options)
    given: dict[str, Any] = {"reasons": ["SCHEMA", "BAD_JSON"], "model": "big", "max_attempts": 5}
    expected = se.render(se.load(tmp_path / "again.prompt"), "spark", config=Config(), retry=True, **given)
    assert (printed.status, printed.out) == (0, expected), printed.err
    placed = call("render", tmp_path / "again.prompt", "--target", "prod", "--retry")
    assert "FROM `ds`.`again_checked`" in placed.out
    assert call("render", tmp_path / "again.prompt", "--engine", "spark", "--reason", "BAD_JSON").status == 2


def test_wrong_uses() -> None:
    config = Config(models={"strong": {"bigquery": ModelAlias("large")}})
    cases: dict[str, dict[str, Any]] = {
        r'the model "strong" has no name for snowflake: write snowflake under \[models.strong\]': {
            "model": "strong", "retry": True,
        },
        "a retry has no single step": {"retry": True, "step": "checked"},
        "--reason, --where and --max-attempts go with --retry": {"reasons": ["BAD_JSON"]},
        "NOT_ASKED can't be retried": {"retry": True, "reasons": ["NOT_ASKED"]},
        r'no reason "BADJSON" \(BAD_JSON\?\)': {"retry": True, "reasons": ["BADJSON"]},
    }  # fmt: skip
    for message, options in cases.items():
        with pytest.raises(se.ConfigError, match=message):
            se.render(enrichment(), "snowflake", config=config, **options)
