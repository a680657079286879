"""The GoogleSQL oracle accepts what BigQuery documents and refuses what it refuses."""

from __future__ import annotations

import pytest

from tests.standins.googlesql import GoogleSQLError, googlesql

pytestmark = pytest.mark.zetasql

TABLES = {
    "p.d.t": {"id": "INT64", "body": "STRING", "tags": "ARRAY<STRING>", "at": "TIMESTAMP"},
    "p.d.raw": {"id": "INT64", "result": "STRING", "answer": "JSON", "status": "STRING"},
    "other.d.t": {"id": "STRING"},
    "my-project.ds.u": {"x": "NUMERIC"},
}
MODELS = {"p.ai.gemini": "gemini", "p.ai.claude": "other"}

GENERATE_TEXT = "SELECT {columns} FROM AI.GENERATE_TEXT(MODEL `{model}`, ({query}), STRUCT({settings})) AS g"


def generate_text(
    columns: str = "g.id, g.result, g.status",
    model: str = "p.ai.gemini",
    query: str = "SELECT id, body AS prompt FROM `p.d.t`",
    settings: str = "'{}' AS model_params",
) -> str:
    return GENERATE_TEXT.format(columns=columns, model=model, query=query, settings=settings)


ACCEPTED = {
    "unnamed columns": ("SELECT 1, id AS x, 'a' FROM p.d.t", "f0_ INT64, x INT64, f1_ STRING"),
    "one pair of backticks": ("SELECT t.id FROM `p.d.t`", "id INT64"),
    "alias equal to the project": ("SELECT p.id FROM p.d.raw AS p JOIN `p.d.t` AS q USING (id)", "id INT64"),
    "backticks around two parts": ("SELECT t.id FROM `p.d`.t", "id INT64"),
    "dash in the project": ("SELECT x FROM `my-project.ds.u`", "x NUMERIC"),
    "dash without backticks": ("SELECT x FROM my-project.ds.u", "x NUMERIC"),
    "default project": ("SELECT x FROM ds.u", "x NUMERIC"),
    "dots in a text": ("SELECT '`p.d.t`' AS a, r'\\`x.y`' AS b -- `q.r`", "a STRING, b STRING"),
    "leading comments": ("-- é `a.b`\n/* ; */ # x\nSELECT 1 AS a", "a INT64"),
    "JSON": (
        "SELECT SAFE.PARSE_JSON(result, wide_number_mode => 'round') AS j, LAX_INT64(answer.a) AS n,"
        " JSON_VALUE(answer, '$.\"a b\"') AS s FROM `p.d.raw`",
        "j JSON, n INT64, s STRING",
    ),
    "QUALIFY": (
        "SELECT id FROM p.d.raw QUALIFY ROW_NUMBER() OVER (PARTITION BY id ORDER BY status) = 1",
        "id INT64",
    ),
    "hash": ("SELECT TO_HEX(SHA256(CONCAT('v1', body))) AS h FROM p.d.t", "h STRING"),
    "CREATE TABLE AS": (
        "CREATE OR REPLACE TABLE `p.d.x` CLUSTER BY id OPTIONS (description = 'x') AS"
        " SELECT id, SPLIT(body) AS words FROM `p.d.t`",
        "id INT64, words ARRAY<STRING>",
    ),
    "CREATE TABLE": (
        "CREATE TABLE IF NOT EXISTS `p.d.x` (h STRING NOT NULL, made TIMESTAMP)",
        "h STRING, made TIMESTAMP",
    ),
    "INSERT": ("INSERT INTO `p.d.raw` (id, status) SELECT id, body FROM `p.d.t`", "id INT64, status STRING"),
    "MERGE": (
        "MERGE `p.d.raw` AS T USING (SELECT 1 AS id) AS S ON T.id = S.id"
        " WHEN NOT MATCHED THEN INSERT (id, status) VALUES (S.id, '')",
        "",
    ),
    "MERGE into a table without alias": (
        "MERGE `p.d.raw` USING (SELECT 1 AS k) AS S ON raw.id = S.k WHEN MATCHED THEN DELETE",
        "",
    ),
    "AI.GENERATE_TEXT": (generate_text(), "id INT64, result STRING, status STRING"),
    "all columns of AI.GENERATE_TEXT": (
        generate_text("*"),
        "id INT64, prompt STRING, result STRING, rai_result STRING, grounding_result STRING,"
        " statistics JSON, full_response JSON, status STRING",
    ),
    "AI.GENERATE_TEXT of another vendor": (
        generate_text("*", "p.ai.claude", settings="100 AS max_output_tokens"),
        "id INT64, prompt STRING, result STRING, full_response JSON, status STRING",
    ),
    "AI.GENERATE_TEXT over TABLE of a WITH": (
        "WITH a AS (SELECT body AS prompt FROM p.d.t) SELECT result"
        " FROM AI.GENERATE_TEXT(MODEL ai.gemini, TABLE a,"
        " STRUCT(0.5 AS temperature, ['x'] AS stop_sequences))",
        "result STRING",
    ),
    "AI.GENERATE": (
        "SELECT AI.GENERATE(body, endpoint => 'e', connection_id => 'us.c', request_type => 'SHARED',"
        " model_params => JSON '{\"a\": 1}').result AS r FROM p.d.t",
        "r STRING",
    ),
    "two output schemas": (
        "SELECT AI.GENERATE(('x', body), output_schema => 'a STRING, b ARRAY<FLOAT64>').b AS b,"
        " AI.GENERATE(prompt => body, output_schema => 'c BOOL OPTIONS(description=\"x\")').c AS c,"
        " AI.GENERATE(body).status AS s FROM p.d.t",
        "b ARRAY<FLOAT64>, c BOOL, s STRING",
    ),
    "AI.IF and AI.SCORE": (
        "SELECT id FROM p.d.t WHERE AI.IF(('x', body)) AND AI.SCORE(body) > 0.5",
        "id INT64",
    ),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepted_with_these_columns(case: str) -> None:
    sql, columns = ACCEPTED[case]
    found = googlesql().analyze(sql, TABLES, MODELS)
    assert ", ".join(f"{name} {type_}" for name, type_ in found) == columns


REFUSED = {
    "column": ("SELECT\n\tbdy FROM `p.d.t`", "Unrecognized name: bdy; Did you mean body? [at 2:2]"),
    "place after a quoted path": ("SELECT 'é' FROM `p.d`.t WHERE nope", "Unrecognized name: nope [at 1:31]"),
    "table": ("SELECT 1 FROM `p.d.nope`", "Table not found"),
    "a name in backticks is no path in an expression": (
        "SELECT `t.id` FROM p.d.t",
        "Unrecognized name: `t.id`",
    ),
    "a dataset of two projects": ("SELECT 1 FROM d.t", "Table not found"),
    "type": ("SELECT body + 1 FROM p.d.t", "No matching signature for operator +"),
    "unclosed text": ("SELECT 'it's'", "Unclosed string literal [at 1:13]"),
    "other dialects' functions": (
        "SELECT TRY_PARSE_JSON(body) FROM p.d.t",
        "Function not found: TRY_PARSE_JSON",
    ),
    "other dialects' casts": ("SELECT body::STRING FROM p.d.t", "Syntax error"),
    "JSON literal": ("SELECT JSON '{a: 1}'", "Invalid JSON literal"),
    "equal JSON": (
        "SELECT answer = answer FROM p.d.raw",
        "Equality is not defined for arguments of type JSON",
    ),
    "grouped JSON": ("SELECT DISTINCT answer FROM p.d.raw", "JSON"),
    "two columns of one name": (
        "CREATE TABLE d.x AS SELECT id, id FROM p.d.t",
        "columns with duplicate name id",
    ),
    "unnamed column": ("CREATE TABLE d.x AS SELECT 1", "name"),
    "inserted type": ("INSERT INTO p.d.raw (id) SELECT body FROM p.d.t", "cannot be inserted into column id"),
    "INSERT arity": ("INSERT INTO p.d.raw (id, status) SELECT 1", "Inserted row has wrong column count"),
    "MERGE column": (
        "MERGE p.d.raw T USING p.d.t S ON T.id = S.id WHEN NOT MATCHED THEN INSERT (nope) VALUES (1)",
        "nope",
    ),
    "reserved word": ("SELECT 1 AS of", "Unexpected keyword OF"),
    "model": (generate_text(model="p.ai.nope"), "Model not found: p.ai.nope [at 1:61]"),
    "no MODEL": ("SELECT * FROM AI.GENERATE_TEXT(TABLE p.d.t, STRUCT(1 AS temperature))", "takes MODEL"),
    "no prompt": (generate_text(query="SELECT id, body FROM p.d.t"), "needs a column prompt of type STRING"),
    "prompt's type": (generate_text(query="SELECT id, id AS prompt FROM p.d.t"), "needs a column prompt"),
    "setting": (generate_text(settings="'{}' AS model_parms"), "has no setting model_parms"),
    "setting's type": (generate_text(settings="'1' AS temperature"), "temperature is STRING, not FLOAT64"),
    "setting that excludes others": (generate_text(settings="'{}' AS model_params, 1 AS top_p"), "excludes"),
    "setting from a column": (
        "SELECT (SELECT STRING_AGG(result) FROM AI.GENERATE_TEXT(MODEL `p.ai.gemini`, (SELECT '' AS prompt),"
        " STRUCT(id AS max_output_tokens))) FROM p.d.t",
        "not a STRUCT of literals",
    ),
    "column that the model does not give": (
        generate_text("rai_result", "p.ai.claude"),
        "Unrecognized name: rai_result",
    ),
    "result beside an input column of its name": (
        generate_text("result", query="SELECT body AS prompt, body AS result FROM p.d.t"),
        "Column name result is ambiguous",
    ),
    "argument": (
        "SELECT AI.GENERATE(body, temperature => 0.0) FROM p.d.t",
        "Named argument `temperature` does not exist",
    ),
    "argument's type": ("SELECT AI.GENERATE(body, model_params => '{}') FROM p.d.t", "expected type JSON"),
    "endpoint from a column": ("SELECT AI.GENERATE(body, endpoint => body) FROM p.d.t", "must be a literal"),
    "schema from a column": (
        "SELECT AI.GENERATE(body, output_schema => body) FROM p.d.t",
        "must be a string literal",
    ),
    "schema's type": (
        "SELECT AI.GENERATE('', output_schema => 'a JSON')",
        "output_schema: a has the type JSON",
    ),
    "schema's text": ("SELECT AI.GENERATE('', output_schema => 'a STRNG')", "Type not found: STRNG"),
    "field of the schema": (
        "SELECT AI.GENERATE('', output_schema => 'a BOOL').b",
        "Field name b does not exist",
    ),
    "field result beside a schema": ("SELECT AI.GENERATE('', output_schema => 'a BOOL').result", "result"),
    "prompt of a number": ("SELECT AI.GENERATE(id) FROM p.d.t", "a prompt of type INT64"),
    "prompt with a number": ("SELECT AI.GENERATE(('x', id)) FROM p.d.t", "a prompt of type INT64"),
    "two statements": ("SELECT 1; SELECT 2", "one statement expected, 2 found"),
    "no statement": ("-- nothing", "one statement expected, 0 found"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_this_reason(case: str) -> None:
    sql, reason = REFUSED[case]
    with pytest.raises(GoogleSQLError) as caught:
        googlesql().analyze(sql, TABLES, MODELS)
    assert reason in str(caught.value)


def test_without_signatures_there_is_no_ai_function() -> None:
    with pytest.raises(GoogleSQLError, match=r"Function not found: AI\.GENERATE"):
        googlesql().analyze("SELECT AI.GENERATE('x')", {}, signatures=False)


def test_a_script_sees_the_tables_it_makes() -> None:
    script = """
        -- Rows below a limit.
        DECLARE top INT64 DEFAULT 3;
        CREATE TEMP TABLE few AS SELECT id, top AS n FROM `p.d.t` WHERE id < top;
        SET top = top + 1;
        BEGIN TRANSACTION;
        CREATE TABLE IF NOT EXISTS few (nope STRING);
        INSERT INTO few SELECT id, n FROM few;
        COMMIT TRANSACTION;
        SELECT * FROM few; /* é */
        DROP TABLE few;
    """
    found = googlesql().script(script, TABLES)
    assert [one.kind for one in found] == [
        "CreateTableAsSelect",
        "CreateTable",
        "Insert",
        "Query",
        "Drop",
    ]
    assert found[3].typed == [("id", "INT64"), ("n", "INT64")]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("CREATE TABLE `p.d.x` (a STRING);\nSELECT\n  b FROM `p.d.x`", "Unrecognized name: b [at 3:3]"),
        (
            "CREATE TEMP TABLE x AS SELECT 1 AS a;\nDROP TABLE x;\nSELECT a FROM x",
            "Table not found: x [at 3:15]",
        ),
        ("SET nope = 1", "Undeclared variable: nope"),
        ("IF TRUE THEN SELECT 1; END IF;", "not supported: IfStatement"),
        ("SELECT 1 FROM;", "Syntax error"),
    ],
)
def test_a_script_is_refused_at_its_own_place(script: str, reason: str) -> None:
    with pytest.raises(GoogleSQLError) as caught:
        googlesql().script(script, TABLES)
    assert reason in str(caught.value)


def test_deeply_nested_expressions() -> None:
    depth = 150
    sql = "SELECT " + "CASE WHEN TRUE THEN CONCAT('a', " * depth + "'z'" + ") END" * depth + " AS x"
    assert googlesql().analyze(sql, {}) == [("x", "STRING")]


def test_the_analyzer_goes_on_after_a_crash() -> None:
    with pytest.raises(GoogleSQLError, match="crashed"):
        googlesql().analyze("SELECT " + "CASE WHEN TRUE THEN " * 3000 + "1" + " END" * 3000, {})
    assert googlesql().analyze("SELECT 1 AS a", {}) == [("a", "INT64")]


def test_statements_of_one_form_are_told_apart_where_their_analysis_differs() -> None:
    """An analysis is kept for statements that differ in plain texts alone."""
    oracle = googlesql()
    assert oracle.analyze("SELECT TIMESTAMP '2026-01-01 00:00:00+00' AS a", {}) == [("a", "TIMESTAMP")]
    with pytest.raises(GoogleSQLError, match="Invalid TIMESTAMP literal"):
        oracle.analyze("SELECT TIMESTAMP '2026-99-01 00:00:00+00' AS a", {})
    tables = {"t": {"it's1": "STRING", "it's2": "INT64"}}
    assert oracle.analyze("SELECT `it's1` AS a, 'x' AS b FROM t", tables)[0] == ("a", "STRING")
    assert oracle.analyze("SELECT `it's2` AS a, 'x' AS b FROM t", tables)[0] == ("a", "INT64")
