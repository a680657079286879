-- article_vector for bigquery, model sqlenrich.embedding, version 1; made by sqlenrich
-- It makes `article_vector`, the accepted rows, and `article_vector_quarantine`, the refused rows
-- with their reasons. `article_vector_responses` keeps every answer: run again, the script asks and
-- pays only for requests that have no answer there. A change of the prompt, the model or a
-- parameter makes new requests. After a stop run it again: only answers of the statement that was
-- asking may be paid twice. Let it end at its first error.
-- Needs a remote model, made once:
-- CREATE MODEL `sqlenrich.embedding` REMOTE WITH CONNECTION DEFAULT
-- OPTIONS (ENDPOINT = 'gemini-embedding-001');

-- functions of this session: each expression that is long or needed more than once
CREATE OR REPLACE TEMP FUNCTION sqlenrich_error(raw STRING) RETURNS STRING AS (
  -- why a call failed
  NULLIF(JSON_VALUE(raw, '$.status'), '')
);
CREATE OR REPLACE TEMP FUNCTION sqlenrich_response(raw STRING) RETURNS STRING AS (
  -- the model's text; empty where it gave none
  COALESCE(
    CONCAT('{"embedding":', JSON_QUERY(raw, '$.embedding'), '}'),
    CASE
      WHEN sqlenrich_error(raw) IS NULL
        AND JSON_TYPE(
          JSON_QUERY(SAFE.PARSE_JSON(raw, wide_number_mode => 'round'), '$.embedding')
        ) = 'null'
        THEN ''
    END
  )
);
CREATE OR REPLACE TEMP FUNCTION sqlenrich_names(text STRING) RETURNS INT64 AS (
  -- the names in a JSON text: fewer after parsing where one was repeated
  LENGTH(REGEXP_REPLACE(text, '"(?:[^"\\\\]|\\\\.)*"|[^":]+', ''))
);
CREATE OR REPLACE TEMP FUNCTION sqlenrich_parsed(answer STRING) RETURNS JSON AS (
  -- the parsed text; a number beyond doubles becomes the greatest double
  SAFE.PARSE_JSON(
    CASE
      WHEN REGEXP_CONTAINS(answer, '[0-9]{250}|[0-9][eE]\\+?[0-9]{2}')
        THEN (
          SELECT
            STRING_AGG(put, '' ORDER BY o)
          FROM (
            SELECT
              o,
              IF(
                REGEXP_CONTAINS(t, '^-?[0-9]') AND IS_INF(SAFE_CAST(t AS FLOAT64)),
                REGEXP_REPLACE(t, '[0-9].*', '1.7976931348623157e308'),
                t
              ) AS put
            FROM UNNEST(
              REGEXP_EXTRACT_ALL(answer, '"(?:[^"\\\\]|\\\\.)*"|-?[0-9][-+.0-9eE]*|[^-"0-9]+|[-"]')
            ) AS t WITH OFFSET AS o
          ) AS tokens
        )
      ELSE answer
    END,
    wide_number_mode => 'round'
  )
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
    TRIM(COALESCE(`title`, ''), ' \t\r\n') = ''
    AND TRIM(COALESCE(`body`, ''), ' \t\r\n') = '' AS `_no_input`
  FROM `raw`.`articles` AS source
  WHERE
    CASE
      WHEN REGEXP_CONTAINS(FORMAT('%T', `title`), '^(TIMESTAMP|DATETIME) ')
        OR REGEXP_CONTAINS(FORMAT('%T', `body`), '^(TIMESTAMP|DATETIME) ')
        THEN ERROR(
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
      THEN TO_HEX(
        SHA256(
          'd6f077ba7b1651f25851c9c4ef908fadcb1d356d70ca71e00ff1fdd73c490e7a'
            || `prompt`
        )
      )
  END AS `request_hash`
FROM rendered;

-- responses: every answer ever paid for
CREATE TABLE IF NOT EXISTS `article_vector_responses` (
  `request_hash` STRING,
  `attempt` INT64,
  `sent_hash` STRING,
  `response` STRING,
  `call_error` STRING,
  `retryable` BOOL,
  `finish_reason` STRING,
  `model` STRING,
  `version` STRING,
  `fingerprint` STRING,
  `tokens_in` INT64,
  `tokens_cached` INT64,
  `tokens_out` INT64,
  `latency_ms` INT64,
  `run_id` STRING,
  `asked_at` TIMESTAMP,
  `raw` STRING,
  `request_id` STRING,
  `served_model` STRING,
  `served_fingerprint` STRING,
  `read_by` STRING
)
PARTITION BY DATE(`asked_at`) CLUSTER BY `request_hash`;

-- responses: 3 requests first (part 0), then the others in parts of about 500,000, each stored
-- before the next
BEGIN
  DECLARE part, parts INT64 DEFAULT 0;
  DECLARE after, upto, first_hash, problem STRING DEFAULT '';
  DECLARE since TIMESTAMP DEFAULT TIMESTAMP '1970-01-01 00:00:00+00';
  LOOP
    IF part = 0 OR part > parts THEN
      -- BigQuery bills an UPDATE by the columns that it names, even where it finds no row
      IF EXISTS(
        SELECT
          1
        FROM `article_vector_responses`
        WHERE
          (
            (`read_by` IS NULL AND `retryable` IS NULL)
            OR `read_by` <> 'AI.GENERATE_EMBEDDING 2a761324'
          )
          AND `request_hash` IN (SELECT `request_hash` FROM `article_vector_prompts`)
          AND asked_at >= since
      ) THEN
        -- the columns of answers that are stored and not read yet
        UPDATE `article_vector_responses` SET
          `response` = sqlenrich_response(`raw`),
          `call_error` = sqlenrich_error(`raw`),
          `retryable` = COALESCE(
            REGEXP_CONTAINS(
              LOWER(sqlenrich_error(`raw`)),
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
          `tokens_in` = SAFE_CAST(JSON_VALUE(`raw`, '$.statistics.token_count') AS INT64),
          `tokens_cached` = CAST(NULL AS INT64),
          `tokens_out` = CAST(NULL AS INT64),
          `request_id` = CAST(NULL AS STRING),
          `served_model` = CAST(NULL AS STRING),
          `served_fingerprint` = CAST(NULL AS STRING),
          `read_by` = 'AI.GENERATE_EMBEDDING 2a761324'
        WHERE
          `raw` IS NOT NULL
          AND COALESCE(`read_by`, '') <> 'AI.GENERATE_EMBEDDING 2a761324'
          AND `request_hash` IN (SELECT `request_hash` FROM `article_vector_prompts`)
          AND asked_at >= since;
      END IF;
      SET since = CURRENT_TIMESTAMP();
    END IF;
    IF part = 0 THEN
      -- each request once that has no answer, or a failure that may pass
      CREATE OR REPLACE TABLE `article_vector_pending`
      CLUSTER BY `request_hash` AS
      WITH asked AS (
        SELECT
          `request_hash`,
          MAX(`attempt`) AS `attempt`,
          MAX(CASE WHEN `model` = 'sqlenrich.embedding' THEN `attempt` END) AS `own`,
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
      SET parts = (
        SELECT
          CAST(CEIL(COUNT(*) / 500000) AS INT64)
        FROM `article_vector_pending`
      );
      SET upto = first_hash;
    ELSE
      SET upto = GREATEST(
        first_hash,
        IF(part < parts, FORMAT('%04x', DIV(65536 * part, parts)), 'g')
      );
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
            sqlenrich_error(`raw`) AS failed,
            sqlenrich_response(`raw`) AS given,
            SUBSTR(r.raw, 1, 500) AS begins
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
        RAISE USING MESSAGE = CONCAT('sqlenrich stopped: the first requests all failed: ', problem);
      END IF;
    END IF;
    IF first_hash IS NULL OR part > parts THEN
      BREAK;
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
      'sqlenrich.embedding' AS `model`,
      '1' AS `version`,
      'aa9199aa4ebc38fb' AS `fingerprint`,
      CAST(CURRENT_TIMESTAMP() AS STRING) AS `run_id`,
      CURRENT_TIMESTAMP() AS `asked_at`,
      TO_JSON_STRING((SELECT AS STRUCT answer.* EXCEPT (request_hash, attempt, content))) AS `raw`
    FROM AI.GENERATE_EMBEDDING(
      MODEL `sqlenrich`.`embedding`,
      (
        SELECT
          request_hash,
          attempt,
          prompt AS content
        FROM `article_vector_pending`
        WHERE request_hash > after AND request_hash <= upto
      ),
      STRUCT(1024 AS output_dimensionality)
    ) AS answer;
    SET part = part + 1;
    SET after = upto;
  END LOOP;
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
    CASE WHEN `response` IS NULL THEN SUBSTR(`raw`, 1, 500) END AS `unread`
  FROM `article_vector_responses`
  WHERE
    `request_hash` IN (SELECT `request_hash` FROM `article_vector_prompts`)
), parsed AS (
  SELECT
    *,
    CASE
      /* deeper than 250 levels */
      WHEN LENGTH(`answer`) > 500
        AND LENGTH(`answer`)
          - LENGTH(REPLACE(REPLACE(`answer`, '[', ''), '{', '')) > 250
        AND (
          SELECT
            MAX(d)
          FROM (
            SELECT
              SUM(CASE WHEN LEFT(b, 1) IN ('[', '{') THEN LENGTH(b) ELSE -LENGTH(b) END)
                OVER (ORDER BY o) AS d
            FROM UNNEST(REGEXP_EXTRACT_ALL(
              REGEXP_REPLACE(`answer`, '"(?:[^"\\\\]|\\\\"|\\\\[^"])*"?|[^"\\[\\]{}]+', ''),
              '[\\[{]+|[\\]}]+'
            )) AS b WITH OFFSET AS o
          ) AS depths
        ) > 250
        THEN NULL
      /* a number of more than 1000 characters */
      WHEN LENGTH(`answer`) > 1000
        AND REGEXP_CONTAINS(`answer`, '[0-9]{250}')
        AND REGEXP_CONTAINS(
          REGEXP_REPLACE(`answer`, '"(?:[^"\\\\]|\\\\"|\\\\[^"])*"?', ''),
          '([-+.0-9eE]{250}){4}[-+.0-9eE]'
        )
        THEN NULL
      /* JSON, of which no name is dropped because it is repeated */
      WHEN NOT REGEXP_CONTAINS(`answer`, '^\\x{feff}|\\x00$')
        THEN (
          SELECT
            CASE
              WHEN parsed IS NULL THEN NULL
              WHEN sqlenrich_names(`answer`) = sqlenrich_names(TO_JSON_STRING(parsed))
                THEN parsed
            END
          FROM UNNEST([sqlenrich_parsed(`answer`)]) AS parsed
        )
    END AS `doc`
  FROM answered
), fields AS (
  SELECT
    *,
    `doc`['embedding'] AS `doc_embedding`,
    (
      SELECT
        MIN(
          CASE
            WHEN JSON_TYPE(item) <> 'number'
              THEN '3 WRONG_TYPE embedding[] is not number'
            WHEN JSON_VALUE(item) IS NOT NULL
              AND COALESCE(
                ABS(SAFE_CAST(JSON_VALUE(item) AS FLOAT64)) >= 1.7976931348623157e+308,
                TRUE
              )
              THEN '4 OUT_OF_RANGE embedding[] is beyond a double'
          END
        )
      FROM UNNEST(JSON_QUERY_ARRAY(`doc`['embedding'])) AS item
    ) AS `doc_embedding_fault`
  FROM parsed
), judged AS (
  SELECT
    *,
    CASE
      WHEN `call_error` IS NOT NULL THEN 'CALL_ERROR ' || `call_error`
      WHEN `unread` IS NOT NULL
        THEN 'UNREADABLE no known place of the answer holds a text: ' || `unread`
      WHEN COALESCE(TRIM(`answer`, ' \t\r\n'), '') = ''
        THEN 'NO_RESPONSE the model gave no text'
      WHEN `doc` IS NULL THEN 'BAD_JSON the text is not one JSON document'
      WHEN JSON_TYPE(`doc`) <> 'object'
        THEN 'NOT_OBJECT the JSON document is not an object'
      WHEN `doc_embedding` IS NULL THEN 'MISSING_FIELD embedding is missing'
      WHEN EXISTS(
          SELECT
            1
          FROM UNNEST(JSON_KEYS(`doc`, 1)) AS k
          WHERE k NOT IN ('embedding')
        )
        THEN 'EXTRA_FIELD the answer has a name that is not in the schema'
      WHEN JSON_TYPE(`doc_embedding`) <> 'array'
        THEN 'WRONG_TYPE embedding is not array'
      WHEN `doc_embedding_fault` IS NOT NULL
        THEN SUBSTR(`doc_embedding_fault`, 3)
      WHEN ARRAY_LENGTH(JSON_QUERY_ARRAY(`doc_embedding`)) < 1024
        THEN 'BAD_ITEMS embedding has fewer than 1024 items'
      WHEN ARRAY_LENGTH(JSON_QUERY_ARRAY(`doc_embedding`)) > 1024
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
      ELSE REGEXP_EXTRACT(r.`verdict`, '^[^ ]+')
    END AS `_error`,
    SUBSTR(r.`verdict`, LENGTH(REGEXP_EXTRACT(r.`verdict`, '^[^ ]+')) + 2) AS `_error_detail`,
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
    sqlenrich_parsed(`answer`) AS `doc`
  FROM `article_vector_checked`
  WHERE `_error` IS NULL
)
SELECT
  `id`,
  ARRAY(
    SELECT
      SAFE_CAST(JSON_VALUE(x0) AS FLOAT64)
    FROM UNNEST(JSON_QUERY_ARRAY(`doc`['embedding'])) AS x0 WITH OFFSET AS o0
    ORDER BY o0
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
