-- article_vector for duckdb, model chosen by the run, version 1; made by sqlenrich
-- It makes "article_vector", the accepted rows, and "article_vector_quarantine", the refused rows
-- with their reasons. "article_vector_responses" keeps every answer: run again, the script asks and
-- pays only for requests that have no answer there. A change of the prompt, the model or a
-- parameter makes new requests. After a stop run it again: only answers of the statement that was
-- asking may be paid twice. Let it end at its first error.
-- The model is asked by `sqlenrich run`, between the responses and the checked step.

-- functions of this session: each expression that is long or needed more than once
CREATE OR REPLACE TEMP MACRO sqlenrich_is_json(text) AS
  -- the tokens of JSON (RFC 8259) in an order that it allows; its parser matches brackets
  REGEXP_FULL_MATCH(
    text,
    '[ \t\r\n]*(?:'
      || '"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]' /* a string */
      || '|u(?:[0-9A-Ca-cE-Fe-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}' /* \u and a character */
      || '|[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})))*"' /* \u and a pair of surrogates */
      || '[ \t\r\n]*:[ \t\r\n]*)?(?:\[[ \t\r\n]*|\{[ \t\r\n]*'
      || '"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]' /* a string */
      || '|u(?:[0-9A-Ca-cE-Fe-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}' /* \u and a character */
      || '|[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})))*"' /* \u and a pair of surrogates */
      || '[ \t\r\n]*:[ \t\r\n]*)*(?:'
      || '"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]' /* a string */
      || '|u(?:[0-9A-Ca-cE-Fe-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}' /* \u and a character */
      || '|[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})))*"' /* \u and a pair of surrogates */
      || '|'
      || '-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?' /* a number */
      || '|true|false|null|\[[ \t\r\n]*\]|\{[ \t\r\n]*\})'
      || '[ \t\r\n]*(?:[\]}][ \t\r\n]*)*' /* what it closes */
      || '(?:,[ \t\r\n]*(?:'
      || '"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]' /* a string */
      || '|u(?:[0-9A-Ca-cE-Fe-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}' /* \u and a character */
      || '|[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})))*"' /* \u and a pair of surrogates */
      || '[ \t\r\n]*:[ \t\r\n]*)?(?:\[[ \t\r\n]*|\{[ \t\r\n]*'
      || '"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]' /* a string */
      || '|u(?:[0-9A-Ca-cE-Fe-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}' /* \u and a character */
      || '|[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})))*"' /* \u and a pair of surrogates */
      || '[ \t\r\n]*:[ \t\r\n]*)*(?:'
      || '"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]' /* a string */
      || '|u(?:[0-9A-Ca-cE-Fe-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}' /* \u and a character */
      || '|[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})))*"' /* \u and a pair of surrogates */
      || '|'
      || '-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?' /* a number */
      || '|true|false|null|\[[ \t\r\n]*\]|\{[ \t\r\n]*\})'
      || '[ \t\r\n]*(?:[\]}][ \t\r\n]*)*' /* what it closes */
      || ')*'
  );

-- the tables that are made afresh: where a SELECT fails, that table is not sqlenrich's: rename it
CREATE TABLE IF NOT EXISTS "article_vector_prompts" ("request_hash" TEXT);
SELECT "request_hash" FROM "article_vector_prompts" WHERE FALSE;
CREATE TABLE IF NOT EXISTS "article_vector_pending" ("request_hash" TEXT);
SELECT "request_hash" FROM "article_vector_pending" WHERE FALSE;
CREATE TABLE IF NOT EXISTS "article_vector_checked" ("request_hash" TEXT);
SELECT "request_hash" FROM "article_vector_checked" WHERE FALSE;
CREATE TABLE IF NOT EXISTS "article_vector" ("_request_hash" TEXT);
SELECT "_request_hash" FROM "article_vector" WHERE FALSE;
CREATE TABLE IF NOT EXISTS "article_vector_quarantine" ("_request_hash" TEXT);
SELECT "_request_hash" FROM "article_vector_quarantine" WHERE FALSE;

-- prompts: one row per source row, its prompt and the hash of its request
CREATE OR REPLACE TABLE "article_vector_prompts" AS
WITH rendered AS (
  SELECT
    "id",
    COALESCE("title", '') || ': ' || COALESCE("body", '') AS "prompt",
    TRIM(COALESCE("title", ''), E' \t\r\n') = ''
    AND TRIM(COALESCE("body", ''), E' \t\r\n') = '' AS "_no_input"
  FROM "raw"."articles" AS source
  WHERE
    CASE
      WHEN STARTS_WITH(TYPEOF("title"), 'TIMESTAMP')
        OR STARTS_WITH(TYPEOF("body"), 'TIMESTAMP')
        THEN ERROR(
          'article_vector: title or body is a timestamp; write columns: {NAME: timestamp}'
        )
      ELSE TRUE
    END
)
SELECT
  "id",
  CASE WHEN "_no_input" THEN COALESCE("prompt", '') ELSE "prompt" END AS "prompt",
  CASE
    WHEN NOT "_no_input"
      THEN SHA256(
        '15e215d520f50e9f198d65de0c038e60bc8c4c03ff77adc60a5720c8b9d8e2e5'
          || "prompt"
      )
  END AS "request_hash"
FROM rendered;

-- responses: every answer ever paid for
CREATE TABLE IF NOT EXISTS "article_vector_responses" (
  "request_hash" TEXT,
  "attempt" BIGINT,
  "sent_hash" TEXT,
  "response" TEXT,
  "call_error" TEXT,
  "retryable" BOOLEAN,
  "finish_reason" TEXT,
  "model" TEXT,
  "version" TEXT,
  "fingerprint" TEXT,
  "tokens_in" BIGINT,
  "tokens_cached" BIGINT,
  "tokens_out" BIGINT,
  "latency_ms" BIGINT,
  "run_id" TEXT,
  "asked_at" TIMESTAMP,
  "raw" TEXT,
  "request_id" TEXT,
  "served_model" TEXT,
  "served_fingerprint" TEXT,
  "read_by" TEXT
);

-- pending: what is to be asked, each distinct request once
CREATE OR REPLACE TABLE "article_vector_pending" AS
WITH asked AS (
  SELECT
    "request_hash",
    MAX("attempt") AS "attempt",
    MAX("attempt") AS "own",
    MAX(CASE WHEN "retryable" THEN 0 ELSE "attempt" END) AS "settled"
  FROM "article_vector_responses"
  WHERE
    "request_hash" IN (SELECT "request_hash" FROM "article_vector_prompts")
  GROUP BY "request_hash"
)
SELECT DISTINCT
  p."request_hash",
  COALESCE(asked."attempt", 0) + 1 AS "attempt",
  p."prompt"
FROM "article_vector_prompts" AS p
LEFT JOIN asked ON asked."request_hash" = p."request_hash"
WHERE
  p."request_hash" IS NOT NULL
  AND (
    asked."attempt" IS NULL
    OR (asked."settled" < asked."own" AND asked."attempt" < 3)
  );

-- checked: one verdict per row; an accepted one keeps its answer, a refused one its texts
CREATE OR REPLACE TABLE "article_vector_checked" AS
WITH answered AS (
  SELECT
    "request_hash",
    "attempt",
    "asked_at",
    "run_id",
    "model",
    "served_model",
    "response",
    "call_error",
    "finish_reason",
    "response" AS "answer"
  FROM "article_vector_responses"
  WHERE
    "request_hash" IN (SELECT "request_hash" FROM "article_vector_prompts")
), parsed AS (
  SELECT
    *,
    CASE
      /* deeper than 250 levels */
      WHEN LENGTH("answer") > 500
        AND LENGTH("answer")
          - LENGTH(REPLACE(REPLACE("answer", '[', ''), '{', '')) > 250
        AND LIST_REDUCE(
          LIST_CONCAT(
            [0],
            LIST_TRANSFORM(
              REGEXP_EXTRACT_ALL(
                REGEXP_REPLACE("answer", '"(?:[^"\\]|\\"|\\[^"])*"?|[^"\[\]{}]+', '', 'g'),
                '[\[{]+|[\]}]+'
              ),
              LAMBDA b : CASE WHEN LEFT(b, 1) IN ('[', '{') THEN LENGTH(b) ELSE -LENGTH(b) END
            )
          ),
          LAMBDA d, b : CASE WHEN d > 250 THEN d ELSE d + b END
        ) > 250
        THEN NULL
      /* a number of more than 1000 characters */
      WHEN LENGTH("answer") > 1000
        AND REGEXP_MATCHES("answer", '[0-9]{250}')
        AND REGEXP_MATCHES(
          REGEXP_REPLACE("answer", '"(?:[^"\\]|\\"|\\[^"])*"?', '', 'g'),
          '([-+.0-9eE]{250}){4}[-+.0-9eE]'
        )
        THEN NULL
      /* JSON by its grammar */
      WHEN sqlenrich_is_json("answer")
        AND LEN(
          LIST_FILTER(
            JSON_KEYS(TRY_CAST('[' || "answer" || ']' AS JSON), '$..*'),
            LAMBDA names : LIST_UNIQUE(names) < LEN(names)
          )
        ) = 0
        THEN TRY_CAST("answer" AS JSON)
    END AS "doc"
  FROM answered
), fields AS (
  SELECT
    *,
    JSON_EXTRACT("doc", ['/embedding']) AS "docs",
    LIST_EXTRACT("docs", 1) AS "doc_embedding",
    LIST_MIN(
      LIST_TRANSFORM(
        JSON_EXTRACT("doc_embedding", '$[*]'),
        LAMBDA item : CASE
          WHEN JSON_TYPE(item) NOT IN ('BIGINT', 'UBIGINT', 'DOUBLE')
            THEN '3 WRONG_TYPE embedding[] is not number'
          WHEN ABS(TRY_CAST(JSON_EXTRACT_STRING(item, '$') AS DOUBLE))
              >= 1.7976931348623157e+308
            THEN '4 OUT_OF_RANGE embedding[] is beyond a double'
        END
      )
    ) AS "doc_embedding_fault"
  FROM parsed
), judged AS (
  SELECT
    *,
    CASE
      WHEN "call_error" IS NOT NULL THEN 'CALL_ERROR ' || "call_error"
      WHEN NOT COALESCE(REGEXP_MATCHES("answer", E'[^ \t\r\n]'), FALSE)
        THEN 'NO_RESPONSE the model gave no text'
      WHEN "doc" IS NULL THEN 'BAD_JSON the text is not one JSON document'
      WHEN JSON_TYPE("doc") <> 'OBJECT'
        THEN 'NOT_OBJECT the JSON document is not an object'
      WHEN "doc_embedding" IS NULL THEN 'MISSING_FIELD embedding is missing'
      WHEN LEN(LIST_FILTER(JSON_KEYS("doc"), LAMBDA k : k NOT IN ('embedding')))
          > 0
        THEN 'EXTRA_FIELD the answer has a name that is not in the schema'
      WHEN JSON_TYPE("doc_embedding") <> 'ARRAY'
        THEN 'WRONG_TYPE embedding is not array'
      WHEN "doc_embedding_fault" IS NOT NULL
        THEN SUBSTR("doc_embedding_fault", 3)
      WHEN CASE
          WHEN JSON_TYPE("doc_embedding") = 'ARRAY'
            THEN JSON_ARRAY_LENGTH("doc_embedding")
        END < 1024
        THEN 'BAD_ITEMS embedding has fewer than 1024 items'
      WHEN CASE
          WHEN JSON_TYPE("doc_embedding") = 'ARRAY'
            THEN JSON_ARRAY_LENGTH("doc_embedding")
        END > 1024
        THEN 'BAD_ITEMS embedding has more than 1024 items'
    END AS "verdict"
  FROM fields
), ranked AS (
  SELECT
    *,
    MAX("attempt") OVER (PARTITION BY "request_hash") AS "attempts",
    ROW_NUMBER() OVER (
      PARTITION BY "request_hash"
      ORDER BY "verdict" IS NOT NULL, "attempt" DESC, "asked_at" NULLS FIRST, "run_id" NULLS FIRST
    ) AS "choice"
  FROM judged
), joined AS (
  SELECT
    p."id",
    p."prompt",
    p."request_hash",
    r."response",
    r."answer",
    COALESCE(r."attempts", 0) AS "_attempts",
    COALESCE(r."served_model", r."model") AS "_model",
    r."asked_at" AS "_asked_at",
    CASE
      WHEN p."request_hash" IS NULL AND p."prompt" IS NULL THEN 'BAD_PROMPT'
      WHEN p."request_hash" IS NULL THEN 'NO_INPUT'
      WHEN r."request_hash" IS NULL THEN 'NOT_ASKED'
      WHEN r."verdict" IS NULL THEN NULL
      WHEN r."finish_reason" = 'length' THEN 'TRUNCATED'
      WHEN r."finish_reason" IN ('refusal', 'content_filter') THEN 'REFUSED'
      ELSE SPLIT_PART(r."verdict", ' ', 1)
    END AS "_error",
    SUBSTRING(r."verdict", LENGTH(SPLIT_PART(r."verdict", ' ', 1)) + 2) AS "_error_detail",
    COALESCE(r."answer" <> r."response", FALSE) AS "_repaired"
  FROM "article_vector_prompts" AS p
  LEFT JOIN ranked AS r
    ON r."request_hash" = p."request_hash" AND r."choice" = 1
)
SELECT
  "id",
  CASE WHEN "_error" IS NOT NULL THEN "prompt" END AS "prompt",
  "request_hash",
  CASE WHEN "_error" IS NOT NULL THEN "response" END AS "response",
  CASE WHEN "_error" IS NULL THEN "answer" END AS "answer",
  "_attempts",
  "_model",
  "_asked_at",
  "_error",
  "_error_detail",
  "_repaired"
FROM joined;

-- enriched: the accepted rows, typed
CREATE OR REPLACE TABLE "article_vector" AS
WITH accepted AS (
  SELECT
    *,
    JSON_TRANSFORM(CAST("answer" AS JSON), '{"embedding":"JSON"}') AS "doc"
  FROM "article_vector_checked"
  WHERE "_error" IS NULL
)
SELECT
  "id",
  CASE
    WHEN JSON_TYPE(STRUCT_EXTRACT("doc", 'embedding')) = 'ARRAY'
      THEN LIST_TRANSFORM(
        JSON_EXTRACT(STRUCT_EXTRACT("doc", 'embedding'), '$[*]'),
        LAMBDA x0 : TRY_CAST(JSON_EXTRACT_STRING(x0, '$') AS DOUBLE)
      )
  END AS "embedding",
  "request_hash" AS "_request_hash",
  "_model",
  '1' AS "_version",
  'aa9199aa4ebc38fb' AS "_fingerprint",
  "_asked_at"
FROM accepted;

-- quarantine: the refused rows, each with its reason
CREATE OR REPLACE TABLE "article_vector_quarantine" AS
SELECT
  "id",
  "_error",
  "_error_detail",
  "_repaired",
  "response",
  "prompt",
  "_attempts",
  "request_hash" AS "_request_hash",
  "_asked_at"
FROM "article_vector_checked"
WHERE "_error" IS NOT NULL;

-- tables of prompts that nothing reads again
DROP TABLE IF EXISTS "article_vector_pending";
