-- article_vector for snowflake, model snowflake-arctic-embed-l-v2.0, version 1; made by sqlenrich
-- It makes article_vector, the accepted rows, and article_vector_quarantine, the refused rows with
-- their reasons. article_vector_responses keeps every answer: run again, the script asks and pays
-- only for requests that have no answer there. A change of the prompt, the model or a parameter
-- makes new requests. After a stop run it again: only answers of the statement that was asking may
-- be paid twice. Let it end at its first error.
-- Needs: the embedding model snowflake-arctic-embed-l-v2.0 in your region, and:
-- GRANT USE AI FUNCTIONS ON ACCOUNT TO ROLE your_role; -- or USE AI FUNCTION AI_EMBED alone
-- GRANT DATABASE ROLE SNOWFLAKE.AI_FUNCTIONS_USER TO ROLE your_role;
-- Before the behaviour change bundle 2026_06, a text that AI_EMBED refuses fails its whole
-- statement.

-- functions of this session: each expression that is long or needed more than once
CREATE OR REPLACE TEMPORARY FUNCTION sqlenrich_error(raw VARCHAR) RETURNS VARCHAR AS $$
  -- why a call failed
  COALESCE(
    NULLIF(CAST(GET_PATH(TRY_PARSE_JSON(raw), 'error') AS VARCHAR), ''),
    CASE
      WHEN CAST(GET_PATH(TRY_PARSE_JSON(raw), 'value') AS VARCHAR) IS NULL
        AND GET_PATH(TRY_PARSE_JSON(raw), 'value') IS NOT NULL
        THEN 'NULL without a reason: try again later'
    END
  )
$$;
CREATE OR REPLACE TEMPORARY FUNCTION sqlenrich_response(raw VARCHAR) RETURNS VARCHAR AS $$
  -- the model's text; empty where it gave none
  COALESCE(
    CONCAT(
      '{"embedding":',
      CAST(GET_PATH(TRY_PARSE_JSON(raw), 'value') AS VARCHAR),
      '}'
    ),
    CASE
      WHEN sqlenrich_error(raw) IS NULL
        AND GET_PATH(TRY_PARSE_JSON(raw), 'value') IS NOT NULL
        THEN ''
    END
  )
$$;
CREATE OR REPLACE TEMPORARY FUNCTION sqlenrich_is_json(text VARCHAR) RETURNS BOOLEAN AS $$
  -- the tokens of JSON (RFC 8259) in an order that it allows; its parser matches brackets
  REGEXP_LIKE(
    text,
    '[ \t\r\n]*('
      || '"([^"\\\\\x01-\x1f]|\\\\(["\\\\/bfnrt]' /* a string */
      || '|u([0-9A-Ca-cE-Fe-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}' /* \u and a character */
      || '|[Dd][89ABab][0-9A-Fa-f]{2}\\\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})))*"' /* \u and a pair of surrogates */
      || '[ \t\r\n]*:[ \t\r\n]*)?(\\[[ \t\r\n]*|\\{[ \t\r\n]*'
      || '"([^"\\\\\x01-\x1f]|\\\\(["\\\\/bfnrt]' /* a string */
      || '|u([0-9A-Ca-cE-Fe-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}' /* \u and a character */
      || '|[Dd][89ABab][0-9A-Fa-f]{2}\\\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})))*"' /* \u and a pair of surrogates */
      || '[ \t\r\n]*:[ \t\r\n]*)*('
      || '"([^"\\\\\x01-\x1f]|\\\\(["\\\\/bfnrt]' /* a string */
      || '|u([0-9A-Ca-cE-Fe-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}' /* \u and a character */
      || '|[Dd][89ABab][0-9A-Fa-f]{2}\\\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})))*"' /* \u and a pair of surrogates */
      || '|'
      || '-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?' /* a number */
      || '|true|false|null|\\[[ \t\r\n]*\\]|\\{[ \t\r\n]*\\})[ \t\r\n]*([\\]}][ \t\r\n]*)*(,[ \t\r\n]*('
      || '"([^"\\\\\x01-\x1f]|\\\\(["\\\\/bfnrt]' /* a string */
      || '|u([0-9A-Ca-cE-Fe-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}' /* \u and a character */
      || '|[Dd][89ABab][0-9A-Fa-f]{2}\\\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})))*"' /* \u and a pair of surrogates */
      || '[ \t\r\n]*:[ \t\r\n]*)?(\\[[ \t\r\n]*|\\{[ \t\r\n]*'
      || '"([^"\\\\\x01-\x1f]|\\\\(["\\\\/bfnrt]' /* a string */
      || '|u([0-9A-Ca-cE-Fe-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}' /* \u and a character */
      || '|[Dd][89ABab][0-9A-Fa-f]{2}\\\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})))*"' /* \u and a pair of surrogates */
      || '[ \t\r\n]*:[ \t\r\n]*)*('
      || '"([^"\\\\\x01-\x1f]|\\\\(["\\\\/bfnrt]' /* a string */
      || '|u([0-9A-Ca-cE-Fe-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}' /* \u and a character */
      || '|[Dd][89ABab][0-9A-Fa-f]{2}\\\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})))*"' /* \u and a pair of surrogates */
      || '|'
      || '-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?' /* a number */
      || '|true|false|null|\\[[ \t\r\n]*\\]|\\{[ \t\r\n]*\\})[ \t\r\n]*([\\]}][ \t\r\n]*)*)*'
  )
$$;

-- the tables that are made afresh: where a SELECT fails, that table is not sqlenrich's: rename it
CREATE TABLE IF NOT EXISTS article_vector_prompts (request_hash VARCHAR);
SELECT request_hash FROM article_vector_prompts WHERE FALSE;
CREATE TABLE IF NOT EXISTS article_vector_pending (request_hash VARCHAR);
SELECT request_hash FROM article_vector_pending WHERE FALSE;
CREATE TABLE IF NOT EXISTS article_vector_checked (request_hash VARCHAR);
SELECT request_hash FROM article_vector_checked WHERE FALSE;
CREATE TABLE IF NOT EXISTS article_vector (_request_hash VARCHAR);
SELECT _request_hash FROM article_vector WHERE FALSE;
CREATE TABLE IF NOT EXISTS article_vector_quarantine (_request_hash VARCHAR);
SELECT _request_hash FROM article_vector_quarantine WHERE FALSE;

-- prompts: one row per source row, its prompt and the hash of its request
CREATE OR REPLACE TRANSIENT TABLE article_vector_prompts AS
WITH rendered AS (
  SELECT
    id,
    COALESCE(title, '') || ': ' || COALESCE(body, '') AS prompt,
    TRIM(COALESCE(title, ''), ' \t\r\n') = ''
    AND TRIM(COALESCE(body, ''), ' \t\r\n') = '' AS _no_input
  FROM raw.articles AS source
  WHERE
    CASE
      WHEN STARTSWITH(TYPEOF(TO_VARIANT(title)), 'TIMESTAMP')
        OR STARTSWITH(TYPEOF(TO_VARIANT(body)), 'TIMESTAMP')
        THEN CAST('article_vector: title or body is a timestamp; write columns: {NAME: timestamp}: '
          || TYPEOF(TO_VARIANT(title)) AS BOOLEAN)
      ELSE TRUE
    END
)
SELECT
  id,
  CASE WHEN _no_input THEN COALESCE(prompt, '') ELSE prompt END AS prompt,
  CASE
    WHEN NOT _no_input
      THEN SHA2(
        '569050e7c540e36421a1e57ebf0222c2d0dbd280edac77f5ac8fe1608f6c483a'
          || prompt,
        256
      )
  END AS request_hash
FROM rendered;

-- responses: every answer ever paid for
CREATE TABLE IF NOT EXISTS article_vector_responses (
  request_hash VARCHAR,
  attempt BIGINT,
  sent_hash VARCHAR,
  response VARCHAR,
  call_error VARCHAR,
  retryable BOOLEAN,
  finish_reason VARCHAR,
  model VARCHAR,
  version VARCHAR,
  fingerprint VARCHAR,
  tokens_in BIGINT,
  tokens_cached BIGINT,
  tokens_out BIGINT,
  latency_ms BIGINT,
  run_id VARCHAR,
  asked_at TIMESTAMP_NTZ,
  raw VARCHAR,
  request_id VARCHAR,
  served_model VARCHAR,
  served_fingerprint VARCHAR,
  read_by VARCHAR
);

-- responses: 3 requests first (part 0), and if one of them succeeds all others (part 1)
EXECUTE IMMEDIATE $$
DECLARE
  part INTEGER DEFAULT 0;
  after VARCHAR DEFAULT '';
  upto VARCHAR;
  first_hash VARCHAR;
  problem VARCHAR;
BEGIN
  LOOP
    IF (part = 0 OR part > 1) THEN
      -- the columns of answers that are stored and not read yet
      UPDATE article_vector_responses SET
        response = sqlenrich_response(raw),
        call_error = sqlenrich_error(raw),
        retryable = COALESCE(
          REGEXP_INSTR(
            LOWER(sqlenrich_error(raw)),
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
          ) > 0,
          FALSE
        ),
        finish_reason = CAST(NULL AS VARCHAR),
        tokens_in = CAST(NULL AS BIGINT),
        tokens_cached = CAST(NULL AS BIGINT),
        tokens_out = CAST(NULL AS BIGINT),
        request_id = CAST(NULL AS VARCHAR),
        served_model = CAST(NULL AS VARCHAR),
        served_fingerprint = CAST(NULL AS VARCHAR),
        read_by = 'AI_EMBED 94a7e547'
      WHERE
        raw IS NOT NULL
        AND COALESCE(read_by, '') <> 'AI_EMBED 94a7e547'
        AND request_hash IN (SELECT request_hash FROM article_vector_prompts);
    END IF;
    IF (part = 0) THEN
      -- each request once that has no answer, or a failure that may pass
      CREATE OR REPLACE TRANSIENT TABLE article_vector_pending AS
      WITH asked AS (
        SELECT
          request_hash,
          MAX(attempt) AS attempt,
          MAX(CASE WHEN model = 'snowflake-arctic-embed-l-v2.0' THEN attempt END) AS own,
          MAX(CASE WHEN retryable THEN 0 ELSE attempt END) AS settled
        FROM article_vector_responses
        WHERE
          request_hash IN (SELECT request_hash FROM article_vector_prompts)
        GROUP BY request_hash
      )
      SELECT DISTINCT
        p.request_hash,
        COALESCE(asked.attempt, 0) + 1 AS attempt,
        p.prompt
      FROM article_vector_prompts AS p
      LEFT JOIN asked ON asked.request_hash = p.request_hash
      WHERE
        p.request_hash IS NOT NULL
        AND (
          asked.attempt IS NULL
          OR (asked.settled < asked.own AND asked.attempt < 3)
        )
      ORDER BY request_hash NULLS FIRST;
      first_hash := (
        SELECT
          MAX(request_hash)
        FROM (
          SELECT
            request_hash
          FROM article_vector_pending
          ORDER BY request_hash
          LIMIT 3
        ) AS few
      );
      upto := first_hash;
    ELSE
      upto := GREATEST(first_hash, 'g');
    END IF;
    IF (part = 1) THEN
      problem := (
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
            sqlenrich_error(raw) AS failed,
            sqlenrich_response(raw) AS given,
            SUBSTR(r.raw, 1, 500) AS begins
          FROM article_vector_responses AS r
          JOIN article_vector_pending AS p
            ON r.request_hash = p.request_hash AND r.attempt = p.attempt
          WHERE
            p.request_hash <= :first_hash
            AND r.request_hash <= :first_hash
            AND EXISTS(
              SELECT
                1
              FROM article_vector_pending AS o
              WHERE o.request_hash > :first_hash
            )
        ) AS asked
      );
      IF (problem IS NOT NULL) THEN
        -- The text of an exception is a constant. This fails, and its error ("Numeric value '...'
        -- is not recognized") shows what happened.
        SELECT CAST(CONCAT('sqlenrich stopped: the first requests all failed: ', :problem) AS INTEGER);
      END IF;
    END IF;
    IF (first_hash IS NULL OR part > 1) THEN
      BREAK;
    END IF;
    -- the model is asked here and nowhere else
    INSERT INTO article_vector_responses (
      request_hash,
      attempt,
      sent_hash,
      model,
      version,
      fingerprint,
      run_id,
      asked_at,
      raw
    )
    SELECT
      request_hash,
      attempt,
      request_hash AS sent_hash,
      'snowflake-arctic-embed-l-v2.0' AS model,
      '1' AS version,
      'aa9199aa4ebc38fb' AS fingerprint,
      CAST(SYSDATE() AS VARCHAR) AS run_id,
      SYSDATE() AS asked_at,
      TO_JSON(
        OBJECT_CONSTRUCT_KEEP_NULL(
          'value',
          CAST(AI_EMBED('snowflake-arctic-embed-l-v2.0', prompt) AS ARRAY)
        )
      ) AS raw
    FROM article_vector_pending
    WHERE request_hash > :after AND request_hash <= :upto;
    part := part + 1;
    after := upto;
  END LOOP;
END
$$;

-- checked: one verdict per row; an accepted one keeps its answer, a refused one its texts
CREATE OR REPLACE TRANSIENT TABLE article_vector_checked AS
WITH answered AS (
  SELECT
    request_hash,
    attempt,
    asked_at,
    run_id,
    model,
    served_model,
    response,
    call_error,
    finish_reason,
    response AS answer,
    CASE WHEN response IS NULL THEN SUBSTR(raw, 1, 500) END AS unread
  FROM article_vector_responses
  WHERE
    request_hash IN (SELECT request_hash FROM article_vector_prompts)
), parsed AS (
  SELECT
    *,
    CASE
      /* deeper than 250 levels */
      WHEN LENGTH(answer) > 500
        AND LENGTH(answer) - LENGTH(REPLACE(REPLACE(answer, '[', ''), '{', ''))
          > 250
        AND REDUCE(
          SPLIT(
            REGEXP_REPLACE(
              REGEXP_REPLACE(answer, '"([^"\\\\]|\\\\"|\\\\[^"])*"?|[^"\\[\\]{}]+', ''),
              '(.)',
              '\\1,'
            ),
            ','
          ),
          0,
          (d, b) -> CASE
            WHEN d > 250 THEN d
            ELSE d + CASE WHEN CAST(b AS VARCHAR) IN ('[', '{') THEN 1 ELSE -1 END
          END
        ) > 250
        THEN NULL
      /* a number of more than 1000 characters */
      WHEN LENGTH(answer) > 1000
        AND REGEXP_INSTR(answer, '[0-9]{250}') > 0
        AND REGEXP_INSTR(
          REGEXP_REPLACE(answer, '"([^"\\\\]|\\\\"|\\\\[^"])*"?', ''),
          '([-+.0-9eE]{250}){4}[-+.0-9eE]'
        ) > 0
        THEN NULL
      /* JSON by its grammar */
      WHEN sqlenrich_is_json(answer) THEN TRY_PARSE_JSON(answer)
    END AS doc
  FROM answered
), fields AS (
  SELECT
    *,
    GET(doc, 'embedding') AS doc_embedding,
    CAST(ARRAY_MIN(
      ARRAY_COMPACT(
        TRANSFORM(
          AS_ARRAY(GET(doc, 'embedding')),
          item -> CASE
            WHEN TYPEOF(item) NOT IN ('INTEGER', 'DECIMAL', 'DOUBLE')
              THEN '3 WRONG_TYPE embedding[] is not number'
            WHEN TYPEOF(item) IN ('INTEGER', 'DECIMAL', 'DOUBLE')
              AND COALESCE(ABS(AS_REAL(item)) >= 1.7976931348623157e+308, TRUE)
              THEN '4 OUT_OF_RANGE embedding[] is beyond a double'
          END
        )
      )
    ) AS VARCHAR) AS doc_embedding_fault
  FROM parsed
), judged AS (
  SELECT
    *,
    CASE
      WHEN call_error IS NOT NULL THEN 'CALL_ERROR ' || call_error
      WHEN unread IS NOT NULL
        THEN 'UNREADABLE no known place of the answer holds a text: ' || unread
      WHEN COALESCE(TRIM(answer, ' \t\r\n'), '') = ''
        THEN 'NO_RESPONSE the model gave no text'
      WHEN doc IS NULL THEN 'BAD_JSON the text is not one JSON document'
      WHEN TYPEOF(doc) <> 'OBJECT'
        THEN 'NOT_OBJECT the JSON document is not an object'
      WHEN doc_embedding IS NULL THEN 'MISSING_FIELD embedding is missing'
      WHEN ARRAY_SIZE(
          ARRAY_EXCEPT(OBJECT_KEYS(AS_OBJECT(doc)), ARRAY_CONSTRUCT('embedding'))
        ) > 0
        THEN 'EXTRA_FIELD the answer has a name that is not in the schema'
      WHEN TYPEOF(doc_embedding) <> 'ARRAY'
        THEN 'WRONG_TYPE embedding is not array'
      WHEN doc_embedding_fault IS NOT NULL
        THEN SUBSTR(doc_embedding_fault, 3)
      WHEN ARRAY_SIZE(AS_ARRAY(doc_embedding)) < 1024
        THEN 'BAD_ITEMS embedding has fewer than 1024 items'
      WHEN ARRAY_SIZE(AS_ARRAY(doc_embedding)) > 1024
        THEN 'BAD_ITEMS embedding has more than 1024 items'
    END AS verdict
  FROM fields
), ranked AS (
  SELECT
    *,
    MAX(attempt) OVER (PARTITION BY request_hash) AS attempts,
    ROW_NUMBER() OVER (
      PARTITION BY request_hash
      ORDER BY verdict IS NOT NULL, attempt DESC, asked_at NULLS FIRST, run_id NULLS FIRST
    ) AS choice
  FROM judged
), joined AS (
  SELECT
    p.id,
    p.prompt,
    p.request_hash,
    r.response,
    r.answer,
    COALESCE(r.attempts, 0) AS _attempts,
    COALESCE(r.served_model, r.model) AS _model,
    r.asked_at AS _asked_at,
    CASE
      WHEN p.request_hash IS NULL AND p.prompt IS NULL THEN 'BAD_PROMPT'
      WHEN p.request_hash IS NULL THEN 'NO_INPUT'
      WHEN r.request_hash IS NULL THEN 'NOT_ASKED'
      WHEN r.verdict IS NULL THEN NULL
      WHEN r.finish_reason = 'length' THEN 'TRUNCATED'
      WHEN r.finish_reason IN ('refusal', 'content_filter') THEN 'REFUSED'
      ELSE SPLIT_PART(r.verdict, ' ', 1)
    END AS _error,
    SUBSTR(r.verdict, LENGTH(SPLIT_PART(r.verdict, ' ', 1)) + 2) AS _error_detail,
    COALESCE(r.answer <> r.response, FALSE) AS _repaired
  FROM article_vector_prompts AS p
  LEFT JOIN ranked AS r
    ON r.request_hash = p.request_hash AND r.choice = 1
)
SELECT
  id,
  CASE WHEN _error IS NOT NULL THEN prompt END AS prompt,
  request_hash,
  CASE WHEN _error IS NOT NULL THEN response END AS response,
  CASE WHEN _error IS NULL THEN answer END AS answer,
  _attempts,
  _model,
  _asked_at,
  _error,
  _error_detail,
  _repaired
FROM joined;

-- enriched: the accepted rows, typed
CREATE OR REPLACE TABLE article_vector
COPY GRANTS AS
WITH accepted AS (
  SELECT
    *,
    TRY_PARSE_JSON(answer) AS doc
  FROM article_vector_checked
  WHERE _error IS NULL
)
SELECT
  id,
  AS_ARRAY(GET(doc, 'embedding')) AS embedding,
  request_hash AS _request_hash,
  _model,
  '1' AS _version,
  'aa9199aa4ebc38fb' AS _fingerprint,
  _asked_at
FROM accepted;

-- quarantine: the refused rows, each with its reason
CREATE OR REPLACE TABLE article_vector_quarantine
COPY GRANTS AS
SELECT
  id,
  _error,
  _error_detail,
  _repaired,
  response,
  prompt,
  _attempts,
  request_hash AS _request_hash,
  _asked_at
FROM article_vector_checked
WHERE _error IS NOT NULL;

-- tables of prompts that nothing reads again
DROP TABLE IF EXISTS article_vector_pending;
