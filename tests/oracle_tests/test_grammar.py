"""The second grammars accept vendors' SQL and name what they refuse."""

from __future__ import annotations

import pytest

from tests.standins.grammar import check_sqlfluff, check_sqlglot

BOTH = {
    "snowflake": [
        "SELECT AI_COMPLETE(model => 'm', prompt => CONCAT('a', body), model_parameters =>"
        " {'temperature': 0.0, 'max_tokens': 9},"
        " response_format => {'type': 'json', 'schema': {'type': 'object'}},"
        " return_error_details => TRUE) AS r FROM db.s.t;",
        "SELECT TRY_PARSE_JSON(r):label::STRING AS l, r:tags[0]::VARCHAR FROM t;",
        "-- é {{ x }} {% if %}\nCREATE OR REPLACE TRANSIENT TABLE x AS SELECT SHA2(body, 256) AS h FROM t\n"
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY id ORDER BY ts) = 1;\n/* ; */\n"
        "SELECT '{{ y }};' AS a;\n-- end",
        "MERGE INTO c USING (SELECT 1 AS k) AS s ON c.k = s.k WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k);",
        "SELECT 'it''s' AS a, 'b\\\\n' AS b, $$it's$$ AS c",
    ],
    "databricks": [
        "SELECT ai_query('e', CONCAT('a', body), responseFormat => '{\"type\":\"json_object\"}',"
        " modelParameters => named_struct('temperature', 0.0, 'max_tokens', 9),"
        " failOnError => false) AS r FROM `c`.`s`.`t`;",
        "CREATE OR REPLACE TABLE x USING DELTA AS SELECT try_variant_get(try_parse_json(r), '$.a', 'int') AS a FROM t;",
        "MERGE INTO c USING s ON c.k = s.k WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)",
        "SELECT 'it\\'s' AS a",
    ],
    "bigquery": [
        "SELECT * FROM AI.GENERATE_TEXT(MODEL `p.d.m`, (SELECT body AS prompt FROM `p.d.t`),"
        " STRUCT('{}' AS model_params));",
        "CREATE OR REPLACE TABLE `p.d.x` AS SELECT SAFE.PARSE_JSON(r, wide_number_mode => 'round') AS j FROM d.t;",
        "SELECT r'\\d' AS a, '''it's''' AS b, JSON '{\"a\": 1}' AS c",
    ],
}
CASES = [(dialect, sql) for dialect, statements in BOTH.items() for sql in statements]


@pytest.mark.parametrize(("dialect", "sql"), CASES)
def test_both_accept(dialect: str, sql: str) -> None:
    check_sqlfluff(sql, dialect)
    check_sqlglot(sql, dialect)


@pytest.mark.parametrize("sql", ["SELECT sha2(a, 256), from_json(b, 'x INT') FROM t WHERE a <=> b"])
def test_spark(sql: str) -> None:
    check_sqlfluff(sql, "sparksql")
    check_sqlglot(sql, "spark")


@pytest.mark.parametrize(
    ("dialect", "sql", "reason"),
    [
        ("snowflake", "SELECT 1;\nSELECT a,, b FROM t;\nSELECT 2;", "line 2: unparsable: ', b'"),
        ("snowflake", "SELECT 1 SELECT 2", "line 1: unparsable: 'SELECT 2'"),
        ("snowflake", "SELECT 'abc", "line 1: unparsable"),
        ("snowflake", "SELECT 1;\nSELECT \x00;", "line 2: unparsable"),
        ("snowflake", "SELECT AI_COMPLETE(model = > 'm') FROM t", "line 1: unparsable"),
        ("snowflake", "-- nothing", "no statement"),
        ("databricks", "MERGE INTO c USING s WHEN MATCHED THEN DELETE", "unparsable"),
        ("bigquery", "SELECT\n  STRUCT(0.0 AS)\nFROM t", "line 2: unparsable: 'STRUCT(0.0 AS)'"),
        ("sparksql", "SELECT ai_query('e', FROM t", "closing bracket"),
    ],
)
def test_sqlfluff_refuses(dialect: str, sql: str, reason: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_sqlfluff(sql, dialect)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("dialect", "sql", "reason"),
    [
        ("snowflake", "SELECT (1", "Expecting )"),
        ("snowflake", "SELECT 'abc", "tokenizing"),
        ("snowflake", "", "no statement"),
        ("databricks", "SELECT 1; VACUUM x", "not understood"),
        # Parsed as IF(condition, true, false): printing adds an argument.
        ("bigquery", "SELECT AI.IF(x, connection_id => 'c')", "printing changes"),
    ],
)
def test_sqlglot_refuses(dialect: str, sql: str, reason: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_sqlglot(sql, dialect)
    assert reason in str(caught.value)


def test_an_unknown_dialect() -> None:
    with pytest.raises(ValueError, match="no sqlfluff dialect"):
        check_sqlfluff("SELECT 1", "oracle")
