-- review_aspects for snowflake, model llama3.3-70b, version 1; made by sqlenrich
-- A retry: refused rows of the last run are asked once more, which costs one call each. No accepted
-- row is asked and no answer is dropped. After a stop run it again: a row that has its new answer
-- is judged first. It reads the tables of the last run: where the prompt, the model or the source
-- changed, run that script first.
-- Needs: the model llama3.3-70b in your region (SHOW CORTEX BASE MODELS IN SCHEMA
-- SNOWFLAKE.MODELS), and:
-- GRANT USE AI FUNCTIONS ON ACCOUNT TO ROLE your_role; -- or USE AI FUNCTION AI_COMPLETE alone
-- GRANT DATABASE ROLE SNOWFLAKE.AI_FUNCTIONS_USER TO ROLE your_role;
-- GRANT APPLICATION ROLE SNOWFLAKE."CORTEX-MODEL-ROLE-LLAMA3.3-70B" TO ROLE your_role;
-- (an account grants the first two to PUBLIC unless it revoked them; the last where models are not
-- open to all)

-- functions of this session: each expression that is long or needed more than once
CREATE OR REPLACE TEMPORARY FUNCTION sqlenrich_text(response VARCHAR) RETURNS VARCHAR AS $$
  -- repaired: trim, reasoning, fence
  TRIM(
    REGEXP_REPLACE(
      TRIM(
        CASE
          WHEN CONTAINS(response, '</think>')
            AND STARTSWITH(TRIM(response, ' \t\r\n'), '<think>')
            THEN SUBSTR(response, NULLIF(POSITION('</think>', response), 0) - 1 + 9)
          ELSE response
        END,
        ' \t\r\n'
      ),
      '^```[A-Za-z0-9_-]*[ \t]*\r?\n(.*)```$',
      '\\1',
      1,
      1,
      's'
    ),
    ' \t\r\n'
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
CREATE OR REPLACE TEMPORARY FUNCTION sqlenrich_json(answer VARCHAR) RETURNS VARIANT AS $$
  -- NULL unless it is strict JSON
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
  END
$$;
CREATE OR REPLACE TEMPORARY FUNCTION sqlenrich_error(raw VARCHAR) RETURNS VARCHAR AS $$
  -- why a call failed
  NULLIF(CAST(GET_PATH(TRY_PARSE_JSON(raw), 'error') AS VARCHAR), '')
$$;
CREATE OR REPLACE TEMPORARY FUNCTION sqlenrich_response(raw VARCHAR) RETURNS VARCHAR AS $$
  -- the model's text; empty where it gave none
  COALESCE(
    CAST(
      GET_PATH(TRY_PARSE_JSON(raw), 'value.structured_output[0].raw_message') AS VARCHAR
    ),
    CAST(
      GET_PATH(TRY_PARSE_JSON(raw), 'value.choices[0].messages') AS VARCHAR
    ),
    CAST(
      GET_PATH(TRY_PARSE_JSON(raw), 'value.choices[0].message.content') AS VARCHAR
    ),
    CAST(
      GET_PATH(TRY_PARSE_JSON(raw), 'value.choices[0].structured_output[0].raw_message') AS VARCHAR
    ),
    CASE
      WHEN sqlenrich_error(raw) IS NULL
        AND (
          GET_PATH(TRY_PARSE_JSON(raw), 'value.structured_output[0].raw_message') IS NOT NULL
          OR GET_PATH(TRY_PARSE_JSON(raw), 'value.choices[0].messages') IS NOT NULL
          OR GET_PATH(TRY_PARSE_JSON(raw), 'value.choices[0].message.content') IS NOT NULL
          OR GET_PATH(TRY_PARSE_JSON(raw), 'value.choices[0].structured_output[0].raw_message') IS NOT NULL
        )
        THEN ''
    END
  )
$$;
CREATE OR REPLACE TEMPORARY FUNCTION sqlenrich_retryable(error VARCHAR) RETURNS BOOLEAN AS $$
  -- a later attempt may succeed
  COALESCE(
    REGEXP_INSTR(
      LOWER(error),
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
  )
$$;

-- responses: what no run has read yet, or with other facts, is read from the stored answers
UPDATE review_aspects_responses SET
  response = sqlenrich_response(raw),
  call_error = sqlenrich_error(raw),
  retryable = sqlenrich_retryable(sqlenrich_error(raw)),
  finish_reason = CASE
    WHEN REGEXP_INSTR(LOWER(sqlenrich_error(raw)), '(^|[^0-9])422([^0-9]|$)')
        > 0
      THEN 'length'
  END,
  tokens_in = TRY_TO_NUMBER(
    CAST(
      GET_PATH(TRY_PARSE_JSON(raw), 'value.usage.prompt_tokens') AS VARCHAR
    ),
    38,
    0
  ),
  tokens_cached = CAST(NULL AS BIGINT),
  tokens_out = TRY_TO_NUMBER(
    CAST(
      GET_PATH(TRY_PARSE_JSON(raw), 'value.usage.completion_tokens') AS VARCHAR
    ),
    38,
    0
  ),
  request_id = CAST(NULL AS VARCHAR),
  served_model = CAST(GET_PATH(TRY_PARSE_JSON(raw), 'value.model') AS VARCHAR),
  served_fingerprint = CAST(NULL AS VARCHAR),
  read_by = 'AI_COMPLETE 4df8c6ed'
WHERE
  raw IS NOT NULL
  AND COALESCE(read_by, '') <> 'AI_COMPLETE 4df8c6ed'
  AND request_hash IN (SELECT request_hash FROM review_aspects_prompts);

-- checked: one verdict per row; an accepted one keeps its answer, a refused one its texts
CREATE OR REPLACE TRANSIENT TABLE review_aspects_checked AS
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
    sqlenrich_text(response) AS answer,
    CASE WHEN response IS NULL THEN SUBSTR(raw, 1, 500) END AS unread
  FROM review_aspects_responses
  WHERE
    request_hash IN (SELECT request_hash FROM review_aspects_prompts)
), parsed AS (
  SELECT *, sqlenrich_json(answer) AS doc FROM answered
), fields AS (
  SELECT
    *,
    GET(doc, 'overall') AS doc_overall,
    GET(doc, 'aspects') AS doc_aspects,
    CAST(ARRAY_MIN(
      ARRAY_COMPACT(
        TRANSFORM(
          AS_ARRAY(GET(doc, 'aspects')),
          item -> CASE
            WHEN TYPEOF(item) = 'OBJECT' AND GET(item, 'aspect') IS NULL
              THEN '02 MISSING_FIELD aspects[].aspect is missing'
            WHEN TYPEOF(item) = 'OBJECT' AND GET(item, 'sentiment') IS NULL
              THEN '03 MISSING_FIELD aspects[].sentiment is missing'
            WHEN TYPEOF(item) = 'OBJECT' AND GET(item, 'quote') IS NULL
              THEN '04 MISSING_FIELD aspects[].quote is missing'
            WHEN ARRAY_SIZE(
                ARRAY_EXCEPT(
                  OBJECT_KEYS(AS_OBJECT(item)),
                  ARRAY_CONSTRUCT('aspect', 'sentiment', 'quote')
                )
              ) > 0
              THEN '05 EXTRA_FIELD aspects[] has a name that is not in the schema'
            WHEN TYPEOF(item) <> 'OBJECT'
              THEN '09 WRONG_TYPE aspects[] is not object'
            WHEN TYPEOF(GET(item, 'aspect')) <> 'VARCHAR'
              THEN '10 WRONG_TYPE aspects[].aspect is not string'
            WHEN TYPEOF(GET(item, 'sentiment')) <> 'VARCHAR'
              THEN '11 WRONG_TYPE aspects[].sentiment is not string'
            WHEN TYPEOF(GET(item, 'quote')) <> 'VARCHAR'
              THEN '12 WRONG_TYPE aspects[].quote is not string'
            WHEN CAST(GET(item, 'aspect') AS VARCHAR) NOT IN (
                'quality',
                'durability',
                'ease_of_use',
                'design',
                'size_fit',
                'price',
                'delivery',
                'packaging',
                'customer_service',
                'other'
              )
              THEN '14 NOT_IN_ENUM aspects[].aspect is none of the allowed values'
            WHEN CAST(GET(item, 'sentiment') AS VARCHAR) NOT IN ('positive', 'negative', 'mixed')
              THEN '15 NOT_IN_ENUM aspects[].sentiment is none of the allowed values'
            WHEN LENGTH(CAST(GET(item, 'quote') AS VARCHAR)) < 1
              THEN '16 BAD_LENGTH aspects[].quote is shorter than 1'
            WHEN LENGTH(CAST(GET(item, 'quote') AS VARCHAR)) > 200
              THEN '17 BAD_LENGTH aspects[].quote is longer than 200'
          END
        )
      )
    ) AS VARCHAR) AS doc_aspects_fault
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
      WHEN doc_overall IS NULL THEN 'MISSING_FIELD overall is missing'
      WHEN doc_aspects IS NULL THEN 'MISSING_FIELD aspects is missing'
      WHEN doc_aspects_fault < '06' THEN SUBSTR(doc_aspects_fault, 4)
      WHEN ARRAY_SIZE(
          ARRAY_EXCEPT(OBJECT_KEYS(AS_OBJECT(doc)), ARRAY_CONSTRUCT('overall', 'aspects'))
        ) > 0
        THEN 'EXTRA_FIELD the answer has a name that is not in the schema'
      WHEN TYPEOF(doc_overall) <> 'VARCHAR'
        THEN 'WRONG_TYPE overall is not string'
      WHEN TYPEOF(doc_aspects) <> 'ARRAY'
        THEN 'WRONG_TYPE aspects is not array'
      WHEN doc_aspects_fault < '13' THEN SUBSTR(doc_aspects_fault, 4)
      WHEN CAST(doc_overall AS VARCHAR) NOT IN ('positive', 'negative', 'mixed', 'neutral')
        THEN 'NOT_IN_ENUM overall is none of the allowed values'
      WHEN doc_aspects_fault IS NOT NULL THEN SUBSTR(doc_aspects_fault, 4)
      WHEN ARRAY_SIZE(AS_ARRAY(doc_aspects)) > 10
        THEN 'BAD_ITEMS aspects has more than 10 items'
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
  FROM review_aspects_prompts AS p
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

-- pending: what is to be asked again, each distinct request once
CREATE OR REPLACE TRANSIENT TABLE review_aspects_pending AS
WITH refused AS (
  SELECT
    request_hash,
    _attempts + 1 AS attempt,
    CASE
      WHEN _error IN (
          'BAD_JSON',
          'NOT_OBJECT',
          'MISSING_FIELD',
          'EXTRA_FIELD',
          'WRONG_TYPE',
          'NOT_IN_ENUM',
          'OUT_OF_RANGE',
          'BAD_LENGTH',
          'BAD_PATTERN',
          'BAD_ITEMS',
          'SCHEMA',
          'CHECK'
        )
        THEN prompt
          || '\n\nYour last answer was refused: '
          || _error
          || COALESCE(' ' || _error_detail, '')
          || '. Answer again, with one JSON object that fits.'
      ELSE prompt
    END AS prompt
  FROM review_aspects_checked
  WHERE
    _error IN (
      'CALL_ERROR',
      'NO_RESPONSE',
      'REFUSED',
      'BAD_JSON',
      'NOT_OBJECT',
      'MISSING_FIELD',
      'EXTRA_FIELD',
      'WRONG_TYPE',
      'NOT_IN_ENUM',
      'OUT_OF_RANGE',
      'BAD_LENGTH',
      'BAD_PATTERN',
      'BAD_ITEMS',
      'SCHEMA',
      'CHECK'
    )
    AND _attempts < 3
)
SELECT DISTINCT
  request_hash,
  attempt,
  prompt,
  SHA2(
    'dac3777666bd12ca9c6cb58ff2de93e4e7aa728d09adf812d9f2705619518262'
      || prompt,
    256
  ) AS sent_hash
FROM refused;

-- responses: the model is asked here and nowhere else
INSERT INTO review_aspects_responses (
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
  sent_hash,
  'llama3.3-70b' AS model,
  '1' AS version,
  '6ca8453704b1c560' AS fingerprint,
  CAST(SYSDATE() AS VARCHAR) AS run_id,
  SYSDATE() AS asked_at,
  COALESCE(
    TO_JSON(
      AI_COMPLETE(
        model => 'llama3.3-70b',
        prompt => prompt,
        model_parameters => {'temperature': 0, 'max_tokens': 900},
        response_format => {'type': 'json', 'schema': {'type': 'object', 'properties': {'overall': {'type': 'string', 'description': 'The writer\'s verdict on the whole', 'enum': ['positive', 'negative', 'mixed', 'neutral']}, 'aspects': {'type': 'array', 'description': 'Every aspect that is judged, each once', 'items': {'type': 'object', 'properties': {'aspect': {'type': 'string', 'description': 'What is judged', 'enum': ['quality', 'durability', 'ease_of_use', 'design', 'size_fit', 'price', 'delivery', 'packaging', 'customer_service', 'other']}, 'sentiment': {'type': 'string', 'description': 'How it is judged', 'enum': ['positive', 'negative', 'mixed']}, 'quote': {'type': 'string', 'description': 'Words that show it, copied exactly'}}, 'required': ['aspect', 'sentiment', 'quote'], 'additionalProperties': FALSE}}}, 'required': ['overall', 'aspects'], 'additionalProperties': FALSE}},
        show_details => TRUE,
        return_error_details => TRUE
      )
    ),
    'null'
  ) AS raw
FROM review_aspects_pending;

-- pending: what was truncated, with 2 times the limit
CREATE OR REPLACE TRANSIENT TABLE review_aspects_pending AS
WITH refused AS (
  SELECT
    request_hash,
    _attempts + 1 AS attempt,
    prompt
  FROM review_aspects_checked
  WHERE _error IN ('TRUNCATED') AND _attempts < 3 AND _attempts = 1
)
SELECT DISTINCT
  request_hash,
  attempt,
  prompt,
  SHA2(
    '438cf9c3f9737fca65d9652b22c71d287ce8f862429052ba659cc7df5432c3ac'
      || prompt,
    256
  ) AS sent_hash
FROM refused;

-- responses: the model is asked here and nowhere else
INSERT INTO review_aspects_responses (
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
  sent_hash,
  'llama3.3-70b' AS model,
  '1' AS version,
  '6ca8453704b1c560' AS fingerprint,
  CAST(SYSDATE() AS VARCHAR) AS run_id,
  SYSDATE() AS asked_at,
  COALESCE(
    TO_JSON(
      AI_COMPLETE(
        model => 'llama3.3-70b',
        prompt => prompt,
        model_parameters => {'temperature': 0, 'max_tokens': 1800},
        response_format => {'type': 'json', 'schema': {'type': 'object', 'properties': {'overall': {'type': 'string', 'description': 'The writer\'s verdict on the whole', 'enum': ['positive', 'negative', 'mixed', 'neutral']}, 'aspects': {'type': 'array', 'description': 'Every aspect that is judged, each once', 'items': {'type': 'object', 'properties': {'aspect': {'type': 'string', 'description': 'What is judged', 'enum': ['quality', 'durability', 'ease_of_use', 'design', 'size_fit', 'price', 'delivery', 'packaging', 'customer_service', 'other']}, 'sentiment': {'type': 'string', 'description': 'How it is judged', 'enum': ['positive', 'negative', 'mixed']}, 'quote': {'type': 'string', 'description': 'Words that show it, copied exactly'}}, 'required': ['aspect', 'sentiment', 'quote'], 'additionalProperties': FALSE}}}, 'required': ['overall', 'aspects'], 'additionalProperties': FALSE}},
        show_details => TRUE,
        return_error_details => TRUE
      )
    ),
    'null'
  ) AS raw
FROM review_aspects_pending;

-- pending: what was truncated, with 4 times the limit
CREATE OR REPLACE TRANSIENT TABLE review_aspects_pending AS
WITH refused AS (
  SELECT
    request_hash,
    _attempts + 1 AS attempt,
    prompt
  FROM review_aspects_checked
  WHERE _error IN ('TRUNCATED') AND _attempts < 3 AND _attempts = 2
)
SELECT DISTINCT
  request_hash,
  attempt,
  prompt,
  SHA2(
    '29adc866270af91b49f34f91dd5a803c0851bcdd6c577372d14875304d1c843f'
      || prompt,
    256
  ) AS sent_hash
FROM refused;

-- responses: the model is asked here and nowhere else
INSERT INTO review_aspects_responses (
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
  sent_hash,
  'llama3.3-70b' AS model,
  '1' AS version,
  '6ca8453704b1c560' AS fingerprint,
  CAST(SYSDATE() AS VARCHAR) AS run_id,
  SYSDATE() AS asked_at,
  COALESCE(
    TO_JSON(
      AI_COMPLETE(
        model => 'llama3.3-70b',
        prompt => prompt,
        model_parameters => {'temperature': 0, 'max_tokens': 3600},
        response_format => {'type': 'json', 'schema': {'type': 'object', 'properties': {'overall': {'type': 'string', 'description': 'The writer\'s verdict on the whole', 'enum': ['positive', 'negative', 'mixed', 'neutral']}, 'aspects': {'type': 'array', 'description': 'Every aspect that is judged, each once', 'items': {'type': 'object', 'properties': {'aspect': {'type': 'string', 'description': 'What is judged', 'enum': ['quality', 'durability', 'ease_of_use', 'design', 'size_fit', 'price', 'delivery', 'packaging', 'customer_service', 'other']}, 'sentiment': {'type': 'string', 'description': 'How it is judged', 'enum': ['positive', 'negative', 'mixed']}, 'quote': {'type': 'string', 'description': 'Words that show it, copied exactly'}}, 'required': ['aspect', 'sentiment', 'quote'], 'additionalProperties': FALSE}}}, 'required': ['overall', 'aspects'], 'additionalProperties': FALSE}},
        show_details => TRUE,
        return_error_details => TRUE
      )
    ),
    'null'
  ) AS raw
FROM review_aspects_pending;

-- responses: what no run has read yet, or with other facts, is read from the stored answers
UPDATE review_aspects_responses SET
  response = sqlenrich_response(raw),
  call_error = sqlenrich_error(raw),
  retryable = sqlenrich_retryable(sqlenrich_error(raw)),
  finish_reason = CASE
    WHEN REGEXP_INSTR(LOWER(sqlenrich_error(raw)), '(^|[^0-9])422([^0-9]|$)')
        > 0
      THEN 'length'
  END,
  tokens_in = TRY_TO_NUMBER(
    CAST(
      GET_PATH(TRY_PARSE_JSON(raw), 'value.usage.prompt_tokens') AS VARCHAR
    ),
    38,
    0
  ),
  tokens_cached = CAST(NULL AS BIGINT),
  tokens_out = TRY_TO_NUMBER(
    CAST(
      GET_PATH(TRY_PARSE_JSON(raw), 'value.usage.completion_tokens') AS VARCHAR
    ),
    38,
    0
  ),
  request_id = CAST(NULL AS VARCHAR),
  served_model = CAST(GET_PATH(TRY_PARSE_JSON(raw), 'value.model') AS VARCHAR),
  served_fingerprint = CAST(NULL AS VARCHAR),
  read_by = 'AI_COMPLETE 4df8c6ed'
WHERE
  raw IS NOT NULL
  AND COALESCE(read_by, '') <> 'AI_COMPLETE 4df8c6ed'
  AND request_hash IN (SELECT request_hash FROM review_aspects_prompts);

-- checked: one verdict per row; an accepted one keeps its answer, a refused one its texts
CREATE OR REPLACE TRANSIENT TABLE review_aspects_checked AS
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
    sqlenrich_text(response) AS answer,
    CASE WHEN response IS NULL THEN SUBSTR(raw, 1, 500) END AS unread
  FROM review_aspects_responses
  WHERE
    request_hash IN (SELECT request_hash FROM review_aspects_prompts)
), parsed AS (
  SELECT *, sqlenrich_json(answer) AS doc FROM answered
), fields AS (
  SELECT
    *,
    GET(doc, 'overall') AS doc_overall,
    GET(doc, 'aspects') AS doc_aspects,
    CAST(ARRAY_MIN(
      ARRAY_COMPACT(
        TRANSFORM(
          AS_ARRAY(GET(doc, 'aspects')),
          item -> CASE
            WHEN TYPEOF(item) = 'OBJECT' AND GET(item, 'aspect') IS NULL
              THEN '02 MISSING_FIELD aspects[].aspect is missing'
            WHEN TYPEOF(item) = 'OBJECT' AND GET(item, 'sentiment') IS NULL
              THEN '03 MISSING_FIELD aspects[].sentiment is missing'
            WHEN TYPEOF(item) = 'OBJECT' AND GET(item, 'quote') IS NULL
              THEN '04 MISSING_FIELD aspects[].quote is missing'
            WHEN ARRAY_SIZE(
                ARRAY_EXCEPT(
                  OBJECT_KEYS(AS_OBJECT(item)),
                  ARRAY_CONSTRUCT('aspect', 'sentiment', 'quote')
                )
              ) > 0
              THEN '05 EXTRA_FIELD aspects[] has a name that is not in the schema'
            WHEN TYPEOF(item) <> 'OBJECT'
              THEN '09 WRONG_TYPE aspects[] is not object'
            WHEN TYPEOF(GET(item, 'aspect')) <> 'VARCHAR'
              THEN '10 WRONG_TYPE aspects[].aspect is not string'
            WHEN TYPEOF(GET(item, 'sentiment')) <> 'VARCHAR'
              THEN '11 WRONG_TYPE aspects[].sentiment is not string'
            WHEN TYPEOF(GET(item, 'quote')) <> 'VARCHAR'
              THEN '12 WRONG_TYPE aspects[].quote is not string'
            WHEN CAST(GET(item, 'aspect') AS VARCHAR) NOT IN (
                'quality',
                'durability',
                'ease_of_use',
                'design',
                'size_fit',
                'price',
                'delivery',
                'packaging',
                'customer_service',
                'other'
              )
              THEN '14 NOT_IN_ENUM aspects[].aspect is none of the allowed values'
            WHEN CAST(GET(item, 'sentiment') AS VARCHAR) NOT IN ('positive', 'negative', 'mixed')
              THEN '15 NOT_IN_ENUM aspects[].sentiment is none of the allowed values'
            WHEN LENGTH(CAST(GET(item, 'quote') AS VARCHAR)) < 1
              THEN '16 BAD_LENGTH aspects[].quote is shorter than 1'
            WHEN LENGTH(CAST(GET(item, 'quote') AS VARCHAR)) > 200
              THEN '17 BAD_LENGTH aspects[].quote is longer than 200'
          END
        )
      )
    ) AS VARCHAR) AS doc_aspects_fault
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
      WHEN doc_overall IS NULL THEN 'MISSING_FIELD overall is missing'
      WHEN doc_aspects IS NULL THEN 'MISSING_FIELD aspects is missing'
      WHEN doc_aspects_fault < '06' THEN SUBSTR(doc_aspects_fault, 4)
      WHEN ARRAY_SIZE(
          ARRAY_EXCEPT(OBJECT_KEYS(AS_OBJECT(doc)), ARRAY_CONSTRUCT('overall', 'aspects'))
        ) > 0
        THEN 'EXTRA_FIELD the answer has a name that is not in the schema'
      WHEN TYPEOF(doc_overall) <> 'VARCHAR'
        THEN 'WRONG_TYPE overall is not string'
      WHEN TYPEOF(doc_aspects) <> 'ARRAY'
        THEN 'WRONG_TYPE aspects is not array'
      WHEN doc_aspects_fault < '13' THEN SUBSTR(doc_aspects_fault, 4)
      WHEN CAST(doc_overall AS VARCHAR) NOT IN ('positive', 'negative', 'mixed', 'neutral')
        THEN 'NOT_IN_ENUM overall is none of the allowed values'
      WHEN doc_aspects_fault IS NOT NULL THEN SUBSTR(doc_aspects_fault, 4)
      WHEN ARRAY_SIZE(AS_ARRAY(doc_aspects)) > 10
        THEN 'BAD_ITEMS aspects has more than 10 items'
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
  FROM review_aspects_prompts AS p
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
CREATE OR REPLACE TABLE review_aspects
COPY GRANTS AS
WITH accepted AS (
  SELECT
    *,
    TRY_PARSE_JSON(answer) AS doc
  FROM review_aspects_checked
  WHERE _error IS NULL
)
SELECT
  id,
  CAST(GET(doc, 'overall') AS VARCHAR) AS overall,
  AS_ARRAY(GET(doc, 'aspects')) AS aspects,
  request_hash AS _request_hash,
  _model,
  '1' AS _version,
  '6ca8453704b1c560' AS _fingerprint,
  _asked_at
FROM accepted;

-- quarantine: the refused rows, each with its reason
CREATE OR REPLACE TABLE review_aspects_quarantine
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
FROM review_aspects_checked
WHERE _error IS NOT NULL;

-- tables of prompts that nothing reads again
DROP TABLE IF EXISTS review_aspects_pending;
