-- article_vector for databricks, model databricks-gte-large-en, version 1; made by sqlenrich
-- It makes `article_vector`, the accepted rows, and `article_vector_quarantine`, the refused rows
-- with their reasons. `article_vector_responses` keeps every answer: run again, the script asks and
-- pays only for requests that have no answer there. A change of the prompt, the model or a
-- parameter makes new requests. After a stop run it again: only answers of the statement that was
-- asking may be paid twice. Let it end at its first error.
-- Needs: the serving endpoint databricks-gte-large-en and CAN QUERY on it;
-- Databricks ends the endpoints databricks-* with 2026: write model: system.ai.gte-large-en;
-- a Pro or serverless SQL warehouse, or a cluster with Databricks Runtime 16.3 or later

-- functions of this session: each expression that is long or needed more than once
CREATE OR REPLACE TEMPORARY FUNCTION sqlenrich_is_json(text STRING) RETURNS BOOLEAN RETURN
  -- the tokens of JSON (RFC 8259) in an order that it allows; its parser matches brackets
  REGEXP_LIKE(
    text,
    '^(?:[ \\t\\r\\n]*+(?:'
      || '"(?:[^"\\\\\\x00-\\x1f]++|\\\\(?:["\\\\/bfnrt]' /* a string */
      || '|u(?:[0-9A-Ca-cE-Fe-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}' /* \u and a character */
      || '|[Dd][89ABab][0-9A-Fa-f]{2}\\\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})))*+"' /* \u and a pair of surrogates */
      || '[ \\t\\r\\n]*+:[ \\t\\r\\n]*+)?+(?:\\[[ \\t\\r\\n]*+(?!\\])|\\{[ \\t\\r\\n]*+'
      || '"(?:[^"\\\\\\x00-\\x1f]++|\\\\(?:["\\\\/bfnrt]' /* a string */
      || '|u(?:[0-9A-Ca-cE-Fe-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}' /* \u and a character */
      || '|[Dd][89ABab][0-9A-Fa-f]{2}\\\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})))*+"' /* \u and a pair of surrogates */
      || '[ \\t\\r\\n]*+:[ \\t\\r\\n]*+)*+(?:'
      || '"(?:[^"\\\\\\x00-\\x1f]++|\\\\(?:["\\\\/bfnrt]' /* a string */
      || '|u(?:[0-9A-Ca-cE-Fe-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}' /* \u and a character */
      || '|[Dd][89ABab][0-9A-Fa-f]{2}\\\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})))*+"' /* \u and a pair of surrogates */
      || '|'
      || '-?+(?:0|[1-9][0-9]*+)(?:\\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+' /* a number */
      || '|true|false|null|\\[[ \\t\\r\\n]*+\\]|\\{[ \\t\\r\\n]*+\\})'
      || '[ \\t\\r\\n]*+(?:[\\]}][ \\t\\r\\n]*+)*+' /* what it closes */
      || '(?:,[ \\t\\r\\n]*+(?:'
      || '"(?:[^"\\\\\\x00-\\x1f]++|\\\\(?:["\\\\/bfnrt]' /* a string */
      || '|u(?:[0-9A-Ca-cE-Fe-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}' /* \u and a character */
      || '|[Dd][89ABab][0-9A-Fa-f]{2}\\\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})))*+"' /* \u and a pair of surrogates */
      || '[ \\t\\r\\n]*+:[ \\t\\r\\n]*+)?+(?:\\[[ \\t\\r\\n]*+(?!\\])|\\{[ \\t\\r\\n]*+'
      || '"(?:[^"\\\\\\x00-\\x1f]++|\\\\(?:["\\\\/bfnrt]' /* a string */
      || '|u(?:[0-9A-Ca-cE-Fe-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}' /* \u and a character */
      || '|[Dd][89ABab][0-9A-Fa-f]{2}\\\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})))*+"' /* \u and a pair of surrogates */
      || '[ \\t\\r\\n]*+:[ \\t\\r\\n]*+)*+(?:'
      || '"(?:[^"\\\\\\x00-\\x1f]++|\\\\(?:["\\\\/bfnrt]' /* a string */
      || '|u(?:[0-9A-Ca-cE-Fe-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}' /* \u and a character */
      || '|[Dd][89ABab][0-9A-Fa-f]{2}\\\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})))*+"' /* \u and a pair of surrogates */
      || '|'
      || '-?+(?:0|[1-9][0-9]*+)(?:\\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+' /* a number */
      || '|true|false|null|\\[[ \\t\\r\\n]*+\\]|\\{[ \\t\\r\\n]*+\\})'
      || '[ \\t\\r\\n]*+(?:[\\]}][ \\t\\r\\n]*+)*+' /* what it closes */
      || ')*+)\\z'
  );

-- the tables that are made afresh: where a SELECT fails, that table is not sqlenrich's: rename it
CREATE TABLE IF NOT EXISTS `article_vector_prompts` (`request_hash` STRING);
SELECT `request_hash` FROM `article_vector_prompts` WHERE FALSE;
CREATE TABLE IF NOT EXISTS `article_vector_pending` (`request_hash` STRING);
SELECT `request_hash` FROM `article_vector_pending` WHERE FALSE;
CREATE TABLE IF NOT EXISTS `article_vector_checked` (`request_hash` STRING);
SELECT `request_hash` FROM `article_vector_checked` WHERE FALSE;
CREATE TABLE IF NOT EXISTS `article_vector` (`_request_hash` STRING);
SELECT `_request_hash` FROM `article_vector` WHERE FALSE;
CREATE TABLE IF NOT EXISTS `article_vector_quarantine` (`_request_hash` STRING);
SELECT `_request_hash` FROM `article_vector_quarantine` WHERE FALSE;

-- prompts: one row per source row, its prompt and the hash of its request
CREATE OR REPLACE TABLE `article_vector_prompts` AS
WITH rendered AS (
  SELECT
    `id`,
    COALESCE(`title`, '') || ': ' || COALESCE(`body`, '') AS `prompt`,
    TRIM(BOTH ' \t\r\n' FROM COALESCE(`title`, '')) = ''
    AND TRIM(BOTH ' \t\r\n' FROM COALESCE(`body`, '')) = '' AS `_no_input`
  FROM `raw`.`articles` AS source
  WHERE
    CASE
      WHEN STARTSWITH(TYPEOF(`title`), 'timestamp')
        OR STARTSWITH(TYPEOF(`body`), 'timestamp')
        THEN RAISE_ERROR(
          'article_vector: title or body is a timestamp; write columns: {NAME: timestamp}'
        )
      ELSE TRUE
    END
)
SELECT
  `id`,
  CASE WHEN `_no_input` THEN COALESCE(`prompt`, '') ELSE `prompt` END AS `prompt`,
  CASE
    WHEN NOT `_no_input`
      THEN SHA2(
        '102fb354d994e6a5649ed96304d78bd06c90d780905f536b06986503181ddcdd'
          || `prompt`,
        256
      )
  END AS `request_hash`
FROM rendered;

-- responses: every answer ever paid for
CREATE TABLE IF NOT EXISTS `article_vector_responses` (
  `request_hash` STRING,
  `attempt` BIGINT,
  `sent_hash` STRING,
  `response` STRING,
  `call_error` STRING,
  `retryable` BOOLEAN,
  `finish_reason` STRING,
  `model` STRING,
  `version` STRING,
  `fingerprint` STRING,
  `tokens_in` BIGINT,
  `tokens_cached` BIGINT,
  `tokens_out` BIGINT,
  `latency_ms` BIGINT,
  `run_id` STRING,
  `asked_at` TIMESTAMP,
  `raw` STRING,
  `request_id` STRING,
  `served_model` STRING,
  `served_fingerprint` STRING,
  `read_by` STRING
)
CLUSTER BY (`request_hash`);

-- responses: 3 requests first (part 0), and if one of them succeeds all others (part 1)
BEGIN
  DECLARE part INT DEFAULT 0;
  DECLARE after STRING DEFAULT '';
  DECLARE upto STRING;
  DECLARE first_hash STRING;
  DECLARE problem STRING;
  DECLARE stopped MAP<STRING, STRING>;
  ask: LOOP
    IF part = 0 OR part > 1 THEN
      -- the columns of answers that are stored and not read yet
      UPDATE `article_vector_responses` SET
        `response` = COALESCE(
          CONCAT('{"embedding":', GET_JSON_OBJECT(`raw`, '$.result'), '}'),
          CONCAT('{"embedding":', GET_JSON_OBJECT(`raw`, '$.response'), '}'),
          CASE
            WHEN COALESCE(
                NULLIF(GET_JSON_OBJECT(`raw`, '$.errorMessage'), ''),
                NULLIF(GET_JSON_OBJECT(`raw`, '$.error'), ''),
                NULLIF(GET_JSON_OBJECT(`raw`, '$.errorStatus'), '')
              ) IS NULL
              AND (
                TRY_VARIANT_GET(TRY_PARSE_JSON(`raw`), '$.result', 'variant') IS NOT NULL
                OR TRY_VARIANT_GET(TRY_PARSE_JSON(`raw`), '$.response', 'variant') IS NOT NULL
              )
              THEN ''
          END
        ),
        `call_error` = COALESCE(
          NULLIF(GET_JSON_OBJECT(`raw`, '$.errorMessage'), ''),
          NULLIF(GET_JSON_OBJECT(`raw`, '$.error'), ''),
          NULLIF(GET_JSON_OBJECT(`raw`, '$.errorStatus'), '')
        ),
        `retryable` = COALESCE(
          REGEXP_LIKE(
            LOWER(
              COALESCE(
                NULLIF(GET_JSON_OBJECT(`raw`, '$.errorMessage'), ''),
                NULLIF(GET_JSON_OBJECT(`raw`, '$.error'), ''),
                NULLIF(GET_JSON_OBJECT(`raw`, '$.errorStatus'), '')
              )
            ),
            CONCAT(
              'rate.?limit|too.?many.?requests|request.?limit.?exceeded|',
              'quota.?exceeded|resource.?exhausted|throttl|overloaded|',
              'service.?unavailable|temporarily|temporary.?failure|',
              'retryable.?error.?occurred|try.?again.?later|timed.?out|timeout|',
              'deadline.?exceeded|bad.?gateway|internal.?server.?error|',
              'connection.?(reset|refused|aborted|closed)|',
              '(^[^0-9a-z]*|(http|status|code|error|response)[^a-z]*[^0-9a-z])',
              '(429|500|502|503|504|529)($|[^0-9a-z .,%]|[.,]($|[^0-9])| +($|[^0-9t]|t[^o]|to[^k]))'
            )
          ),
          FALSE
        ),
        `finish_reason` = CAST(NULL AS STRING),
        `tokens_in` = CAST(NULL AS BIGINT),
        `tokens_cached` = CAST(NULL AS BIGINT),
        `tokens_out` = CAST(NULL AS BIGINT),
        `request_id` = CAST(NULL AS STRING),
        `served_model` = CAST(NULL AS STRING),
        `served_fingerprint` = CAST(NULL AS STRING),
        `read_by` = 'ai_query 4dd10777'
      WHERE
        `raw` IS NOT NULL
        AND COALESCE(`read_by`, '') <> 'ai_query 4dd10777'
        AND `request_hash` IN (SELECT `request_hash` FROM `article_vector_prompts`);
    END IF;
    IF part = 0 THEN
      -- each request once that has no answer, or a failure that may pass
      CREATE OR REPLACE TABLE `article_vector_pending`
      CLUSTER BY (`request_hash`) AS
      WITH asked AS (
        SELECT
          `request_hash`,
          MAX(`attempt`) AS `attempt`,
          MAX(CASE WHEN `model` = 'databricks-gte-large-en' THEN `attempt` END) AS `own`,
          MAX(CASE WHEN `retryable` THEN 0 ELSE `attempt` END) AS `settled`
        FROM `article_vector_responses`
        WHERE
          `request_hash` IN (SELECT `request_hash` FROM `article_vector_prompts`)
        GROUP BY `request_hash`
      )
      SELECT DISTINCT
        p.`request_hash`,
        COALESCE(asked.`attempt`, 0) + 1 AS `attempt`,
        p.`prompt`
      FROM `article_vector_prompts` AS p
      LEFT JOIN asked ON asked.`request_hash` = p.`request_hash`
      WHERE
        p.`request_hash` IS NOT NULL
        AND (
          asked.`attempt` IS NULL
          OR (asked.`settled` < asked.`own` AND asked.`attempt` < 3)
        );
      SET first_hash = (
        SELECT
          MAX(request_hash)
        FROM (
          SELECT
            request_hash
          FROM `article_vector_pending`
          ORDER BY request_hash
          LIMIT 3
        ) AS few
      );
      SET upto = first_hash;
    ELSE
      SET upto = GREATEST(first_hash, 'g');
    END IF;
    IF part = 1 THEN
      SET problem = (
        -- NULL unless the first requests all failed and others are left
        SELECT
          CASE
            WHEN COUNT(*)
                = COUNT(CASE WHEN failed IS NOT NULL OR given IS NULL THEN 1 END)
              THEN COALESCE(
                'CALL_ERROR ' || MAX(failed),
                'UNREADABLE no known place of the answer holds a text: '
                  || MAX(begins)
              )
          END
        FROM (
          SELECT
            COALESCE(
              NULLIF(GET_JSON_OBJECT(`raw`, '$.errorMessage'), ''),
              NULLIF(GET_JSON_OBJECT(`raw`, '$.error'), ''),
              NULLIF(GET_JSON_OBJECT(`raw`, '$.errorStatus'), '')
            ) AS failed,
            COALESCE(
              CONCAT('{"embedding":', GET_JSON_OBJECT(`raw`, '$.result'), '}'),
              CONCAT('{"embedding":', GET_JSON_OBJECT(`raw`, '$.response'), '}'),
              CASE
                WHEN COALESCE(
                    NULLIF(GET_JSON_OBJECT(`raw`, '$.errorMessage'), ''),
                    NULLIF(GET_JSON_OBJECT(`raw`, '$.error'), ''),
                    NULLIF(GET_JSON_OBJECT(`raw`, '$.errorStatus'), '')
                  ) IS NULL
                  AND (
                    TRY_VARIANT_GET(TRY_PARSE_JSON(`raw`), '$.result', 'variant') IS NOT NULL
                    OR TRY_VARIANT_GET(TRY_PARSE_JSON(`raw`), '$.response', 'variant') IS NOT NULL
                  )
                  THEN ''
              END
            ) AS given,
            SUBSTRING(r.raw, 1, 500) AS begins
          FROM `article_vector_responses` AS r
          JOIN `article_vector_pending` AS p
            ON r.request_hash = p.request_hash AND r.attempt = p.attempt
          WHERE
            p.request_hash <= first_hash
            AND r.request_hash <= first_hash
            AND EXISTS(
              SELECT
                1
              FROM `article_vector_pending` AS o
              WHERE o.request_hash > first_hash
            )
        ) AS asked
      );
      IF problem IS NOT NULL THEN
        SET stopped = MAP(
          'errorMessage', CONCAT('sqlenrich stopped: the first requests all failed: ', problem)
        );
        SIGNAL USER_RAISED_EXCEPTION SET MESSAGE_ARGUMENTS = stopped;
      END IF;
    END IF;
    IF first_hash IS NULL OR part > 1 THEN
      LEAVE ask;
    END IF;
    -- the model is asked here and nowhere else
    INSERT INTO `article_vector_responses` (
      `request_hash`,
      `attempt`,
      `sent_hash`,
      `model`,
      `version`,
      `fingerprint`,
      `run_id`,
      `asked_at`,
      `raw`
    )
    SELECT
      `request_hash`,
      `attempt`,
      `request_hash` AS `sent_hash`,
      'databricks-gte-large-en' AS `model`,
      '1' AS `version`,
      'aa9199aa4ebc38fb' AS `fingerprint`,
      CAST(CURRENT_TIMESTAMP() AS STRING) AS `run_id`,
      CURRENT_TIMESTAMP() AS `asked_at`,
      COALESCE(
        to_json(
          ai_query(
            'databricks-gte-large-en',
            prompt,
            returnType => 'ARRAY<FLOAT>',
            failOnError => FALSE
          ),
          map('ignoreNullFields', 'false')
        ),
        'null'
      ) AS `raw`
    FROM `article_vector_pending`
    WHERE request_hash > after AND request_hash <= upto;
    SET part = part + 1;
    SET after = upto;
  END LOOP ask;
END;

-- checked: one verdict per row; an accepted one keeps its answer, a refused one its texts
CREATE OR REPLACE TABLE `article_vector_checked` AS
WITH answered AS (
  SELECT
    `request_hash`,
    `attempt`,
    `asked_at`,
    `run_id`,
    `model`,
    `served_model`,
    `response`,
    `call_error`,
    `finish_reason`,
    `response` AS `answer`,
    CASE WHEN `response` IS NULL THEN SUBSTRING(`raw`, 1, 500) END AS `unread`
  FROM `article_vector_responses`
  WHERE
    `request_hash` IN (SELECT `request_hash` FROM `article_vector_prompts`)
), parsed AS (
  SELECT
    *,
    CASE
      /* deeper than 250 levels */
      WHEN OCTET_LENGTH(`answer`) > 500
        AND REGEXP_COUNT(`answer`, '[\\[{]') > 250
        AND AGGREGATE(
          REGEXP_EXTRACT_ALL(
            REGEXP_REPLACE(`answer`, '"(?:[^"\\\\]++|\\\\"|\\\\[^"])*+"?+|[^"\\[\\]{}]++', ''),
            '[\\[{]+|[\\]}]+',
            0
          ),
          0,
          (d, b) -> CASE
            WHEN d > 250 THEN d
            ELSE d + CASE
              WHEN LEFT(b, 1) IN ('[', '{') THEN CHAR_LENGTH(b)
              ELSE -CHAR_LENGTH(b)
            END
          END
        ) > 250
        THEN NULL
      /* a number of more than 1000 characters */
      WHEN OCTET_LENGTH(`answer`) > 1000
        AND REGEXP_LIKE(`answer`, '[0-9]{250}')
        AND REGEXP_LIKE(
          REGEXP_REPLACE(`answer`, '"(?:[^"\\\\]++|\\\\"|\\\\[^"])*+"?+', ''),
          '([-+.0-9eE]{250}){4}[-+.0-9eE]'
        )
        THEN NULL
      /* JSON by its grammar */
      WHEN sqlenrich_is_json(`answer`)
        AND (
          JSON_ARRAY_LENGTH('[' || `answer` || ']') = 1
          AND JSON_ARRAY_LENGTH('[' || `answer` || ',0]') = 2
        )
        THEN TRY_PARSE_JSON(`answer`)
    END AS `doc`
  FROM answered
), fields AS (
  SELECT
    *,
    TRY_VARIANT_GET(`doc`, '$.embedding', 'variant') AS `doc_embedding`,
    ARRAY_MIN(
      TRANSFORM(
        TRY_VARIANT_GET(`doc`, '$.embedding', 'array<variant>'),
        item -> CASE
          WHEN NOT (
              SCHEMA_OF_VARIANT(item) IN ('BIGINT', 'DOUBLE', 'FLOAT')
              OR STARTSWITH(SCHEMA_OF_VARIANT(item), 'DECIMAL')
            )
            THEN '3 WRONG_TYPE embedding[] is not number'
          WHEN ABS(TRY_VARIANT_GET(item, '$', 'double')) >= 1.7976931348623157e+308
            THEN '4 OUT_OF_RANGE embedding[] is beyond a double'
        END
      )
    ) AS `doc_embedding_fault`
  FROM parsed
), judged AS (
  SELECT
    *,
    CASE
      WHEN `call_error` IS NOT NULL THEN 'CALL_ERROR ' || `call_error`
      WHEN `unread` IS NOT NULL
        THEN 'UNREADABLE no known place of the answer holds a text: ' || `unread`
      WHEN COALESCE(TRIM(LEADING ' \t\r\n' FROM `answer`), '') = ''
        THEN 'NO_RESPONSE the model gave no text'
      WHEN `doc` IS NULL THEN 'BAD_JSON the text is not one JSON document'
      WHEN TRY_VARIANT_GET(`doc`, '$', 'struct<x: variant>') IS NULL
        THEN 'NOT_OBJECT the JSON document is not an object'
      WHEN `doc_embedding` IS NULL THEN 'MISSING_FIELD embedding is missing'
      WHEN EXISTS(
          MAP_KEYS(TRY_VARIANT_GET(`doc`, '$', 'map<string, variant>')),
          k -> k NOT IN ('embedding')
        )
        THEN 'EXTRA_FIELD the answer has a name that is not in the schema'
      WHEN `doc_embedding` IS NOT NULL
        AND TRY_VARIANT_GET(`doc_embedding`, '$', 'array<variant>') IS NULL
        THEN 'WRONG_TYPE embedding is not array'
      WHEN `doc_embedding_fault` IS NOT NULL
        THEN SUBSTR(`doc_embedding_fault`, 3)
      WHEN ARRAY_SIZE(TRY_VARIANT_GET(`doc_embedding`, '$', 'array<variant>'))
          < 1024
        THEN 'BAD_ITEMS embedding has fewer than 1024 items'
      WHEN ARRAY_SIZE(TRY_VARIANT_GET(`doc_embedding`, '$', 'array<variant>'))
          > 1024
        THEN 'BAD_ITEMS embedding has more than 1024 items'
    END AS `verdict`
  FROM fields
), ranked AS (
  SELECT
    *,
    MAX(`attempt`) OVER (PARTITION BY `request_hash`) AS `attempts`,
    ROW_NUMBER() OVER (
      PARTITION BY `request_hash`
      ORDER BY `verdict` IS NOT NULL, `attempt` DESC, `asked_at`, `run_id`
    ) AS `choice`
  FROM judged
), joined AS (
  SELECT
    p.`id`,
    p.`prompt`,
    p.`request_hash`,
    r.`response`,
    r.`answer`,
    COALESCE(r.`attempts`, 0) AS `_attempts`,
    COALESCE(r.`served_model`, r.`model`) AS `_model`,
    r.`asked_at` AS `_asked_at`,
    CASE
      WHEN p.`request_hash` IS NULL AND p.`prompt` IS NULL THEN 'BAD_PROMPT'
      WHEN p.`request_hash` IS NULL THEN 'NO_INPUT'
      WHEN r.`request_hash` IS NULL THEN 'NOT_ASKED'
      WHEN r.`verdict` IS NULL THEN NULL
      WHEN r.`finish_reason` = 'length' THEN 'TRUNCATED'
      WHEN r.`finish_reason` IN ('refusal', 'content_filter') THEN 'REFUSED'
      ELSE SPLIT_PART(r.`verdict`, ' ', 1)
    END AS `_error`,
    SUBSTRING(r.`verdict`, CHAR_LENGTH(SPLIT_PART(r.`verdict`, ' ', 1)) + 2) AS `_error_detail`,
    COALESCE(r.`answer` <> r.`response`, FALSE) AS `_repaired`
  FROM `article_vector_prompts` AS p
  LEFT JOIN ranked AS r
    ON r.`request_hash` = p.`request_hash` AND r.`choice` = 1
)
SELECT
  `id`,
  CASE WHEN `_error` IS NOT NULL THEN `prompt` END AS `prompt`,
  `request_hash`,
  CASE WHEN `_error` IS NOT NULL THEN `response` END AS `response`,
  CASE WHEN `_error` IS NULL THEN `answer` END AS `answer`,
  `_attempts`,
  `_model`,
  `_asked_at`,
  `_error`,
  `_error_detail`,
  `_repaired`
FROM joined;

-- enriched: the accepted rows, typed
CREATE OR REPLACE TABLE `article_vector` AS
WITH accepted AS (
  SELECT
    *,
    TRY_PARSE_JSON(`answer`) AS `doc`
  FROM `article_vector_checked`
  WHERE `_error` IS NULL
)
SELECT
  `id`,
  TRANSFORM(
    TRY_VARIANT_GET(`doc`, '$.embedding', 'array<variant>'),
    x0 -> TRY_VARIANT_GET(x0, '$', 'double')
  ) AS `embedding`,
  `request_hash` AS `_request_hash`,
  `_model`,
  '1' AS `_version`,
  'aa9199aa4ebc38fb' AS `_fingerprint`,
  `_asked_at`
FROM accepted;

-- quarantine: the refused rows, each with its reason
CREATE OR REPLACE TABLE `article_vector_quarantine` AS
SELECT
  `id`,
  `_error`,
  `_error_detail`,
  `_repaired`,
  `response`,
  `prompt`,
  `_attempts`,
  `request_hash` AS `_request_hash`,
  `_asked_at`
FROM `article_vector_checked`
WHERE `_error` IS NOT NULL;

-- tables of prompts that nothing reads again
DROP TABLE IF EXISTS `article_vector_pending`;
