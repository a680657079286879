{#- Made by sqlenrich 0.1.0: tests/dbt compares it, and writes it with --update-golden. -#}
{% macro version() -%}
0.1.0
{%- endmacro %}

{% macro create_responses(responses) -%}
{%- if target.type == 'databricks' -%}
CREATE TABLE IF NOT EXISTS {{ responses }} (
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
CLUSTER BY (`request_hash`)
{%- elif target.type == 'snowflake' -%}
CREATE TABLE IF NOT EXISTS {{ responses }} (
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
)
{%- elif target.type == 'bigquery' -%}
CREATE TABLE IF NOT EXISTS {{ responses }} (
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
PARTITION BY DATE(`asked_at`) CLUSTER BY `request_hash`
{%- elif target.type == 'spark' -%}
CREATE TABLE IF NOT EXISTS {{ responses }} (
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
{%- elif target.type == 'duckdb' -%}
CREATE TABLE IF NOT EXISTS {{ responses }} (
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
)
{%- else -%}
{{ sqlenrich.refused('sqlenrich has no SQL for ' ~ target.type) }}
{%- endif -%}
{%- endmacro %}

{% macro read_answers(responses, prompts) -%}
{%- if target.type == 'databricks' -%}
UPDATE {{ responses }} SET
  `response` = COALESCE(
    GET_JSON_OBJECT(`raw`, '$.result'),
    GET_JSON_OBJECT(`raw`, '$.response'),
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
  AND `request_hash` IN (SELECT `request_hash` FROM {{ prompts }})
{%- elif target.type == 'snowflake' -%}
UPDATE {{ responses }} SET
  response = COALESCE(
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
      WHEN NULLIF(CAST(GET_PATH(TRY_PARSE_JSON(raw), 'error') AS VARCHAR), '') IS NULL
        AND (
          GET_PATH(TRY_PARSE_JSON(raw), 'value.structured_output[0].raw_message') IS NOT NULL
          OR GET_PATH(TRY_PARSE_JSON(raw), 'value.choices[0].messages') IS NOT NULL
          OR GET_PATH(TRY_PARSE_JSON(raw), 'value.choices[0].message.content') IS NOT NULL
          OR GET_PATH(TRY_PARSE_JSON(raw), 'value.choices[0].structured_output[0].raw_message') IS NOT NULL
        )
        THEN ''
    END
  ),
  call_error = NULLIF(CAST(GET_PATH(TRY_PARSE_JSON(raw), 'error') AS VARCHAR), ''),
  retryable = COALESCE(
    REGEXP_INSTR(
      LOWER(NULLIF(CAST(GET_PATH(TRY_PARSE_JSON(raw), 'error') AS VARCHAR), '')),
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
  finish_reason = CASE
    WHEN REGEXP_INSTR(
        LOWER(NULLIF(CAST(GET_PATH(TRY_PARSE_JSON(raw), 'error') AS VARCHAR), '')),
        '(^|[^0-9])422([^0-9]|$)'
      ) > 0
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
  AND request_hash IN (SELECT request_hash FROM {{ prompts }})
{%- elif target.type == 'bigquery' -%}
UPDATE {{ responses }} SET
  `response` = COALESCE(
    JSON_VALUE(`raw`, '$.result'),
    CASE
      WHEN NULLIF(JSON_VALUE(`raw`, '$.status'), '') IS NULL
        AND (
          JSON_TYPE(
            JSON_QUERY(SAFE.PARSE_JSON(`raw`, wide_number_mode => 'round'), '$.result')
          ) = 'null'
          OR COALESCE(
            JSON_VALUE(`raw`, '$.full_response.candidates[0].finish_reason'),
            JSON_VALUE(`raw`, '$.full_response.candidates[0].finishReason'),
            JSON_VALUE(`raw`, '$.full_response.prompt_feedback.block_reason')
          ) IS NOT NULL
        )
        THEN ''
    END
  ),
  `call_error` = NULLIF(JSON_VALUE(`raw`, '$.status'), ''),
  `retryable` = COALESCE(
    REGEXP_CONTAINS(
      LOWER(NULLIF(JSON_VALUE(`raw`, '$.status'), '')),
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
  `finish_reason` = CASE
    WHEN COALESCE(
        JSON_VALUE(`raw`, '$.full_response.candidates[0].finish_reason'),
        JSON_VALUE(`raw`, '$.full_response.candidates[0].finishReason'),
        JSON_VALUE(`raw`, '$.full_response.prompt_feedback.block_reason')
      ) = 'MAX_TOKENS'
      THEN 'length'
    WHEN COALESCE(
        JSON_VALUE(`raw`, '$.full_response.candidates[0].finish_reason'),
        JSON_VALUE(`raw`, '$.full_response.candidates[0].finishReason'),
        JSON_VALUE(`raw`, '$.full_response.prompt_feedback.block_reason')
      ) IN (
        'SAFETY',
        'PROHIBITED_CONTENT',
        'BLOCKLIST',
        'RECITATION',
        'SPII',
        'IMAGE_SAFETY'
      )
      THEN 'content_filter'
    ELSE LOWER(
      COALESCE(
        JSON_VALUE(`raw`, '$.full_response.candidates[0].finish_reason'),
        JSON_VALUE(`raw`, '$.full_response.candidates[0].finishReason'),
        JSON_VALUE(`raw`, '$.full_response.prompt_feedback.block_reason')
      )
    )
  END,
  `tokens_in` = SAFE_CAST(
    JSON_VALUE(`raw`, '$.full_response.usage_metadata.prompt_token_count') AS INT64
  ),
  `tokens_cached` = SAFE_CAST(
    JSON_VALUE(`raw`, '$.full_response.usage_metadata.cached_content_token_count') AS INT64
  ),
  `tokens_out` = COALESCE(
    SAFE_CAST(
      JSON_VALUE(`raw`, '$.full_response.usage_metadata.candidates_token_count') AS INT64
    )
      + COALESCE(
        SAFE_CAST(
          JSON_VALUE(`raw`, '$.full_response.usage_metadata.thoughts_token_count') AS INT64
        ),
        0
      ),
    SAFE_CAST(
      JSON_VALUE(`raw`, '$.full_response.usage_metadata.thoughts_token_count') AS INT64
    )
  ),
  `request_id` = JSON_VALUE(`raw`, '$.full_response.response_id'),
  `served_model` = COALESCE(
    JSON_VALUE(`raw`, '$.full_response.model_version'),
    JSON_VALUE(`raw`, '$.full_response.modelVersion')
  ),
  `served_fingerprint` = CAST(NULL AS STRING),
  `read_by` = 'AI.GENERATE 289e548b'
WHERE
  `raw` IS NOT NULL
  AND COALESCE(`read_by`, '') <> 'AI.GENERATE 289e548b'
  AND `request_hash` IN (SELECT `request_hash` FROM {{ prompts }})
{%- elif target.type == 'spark' -%}

{%- elif target.type == 'duckdb' -%}

{%- else -%}
{{ sqlenrich.refused('sqlenrich has no SQL for ' ~ target.type) }}
{%- endif -%}
{%- endmacro %}

{% macro responses_types() -%}
{{ return({
  "databricks": {"request_hash":"STRING","attempt":"BIGINT","sent_hash":"STRING","response":"STRING","call_error":"STRING","retryable":"BOOLEAN","finish_reason":"STRING","model":"STRING","version":"STRING","fingerprint":"STRING","tokens_in":"BIGINT","tokens_cached":"BIGINT","tokens_out":"BIGINT","latency_ms":"BIGINT","run_id":"STRING","asked_at":"TIMESTAMP","raw":"STRING","request_id":"STRING","served_model":"STRING","served_fingerprint":"STRING","read_by":"STRING"},
  "snowflake": {"request_hash":"VARCHAR","attempt":"BIGINT","sent_hash":"VARCHAR","response":"VARCHAR","call_error":"VARCHAR","retryable":"BOOLEAN","finish_reason":"VARCHAR","model":"VARCHAR","version":"VARCHAR","fingerprint":"VARCHAR","tokens_in":"BIGINT","tokens_cached":"BIGINT","tokens_out":"BIGINT","latency_ms":"BIGINT","run_id":"VARCHAR","asked_at":"TIMESTAMP_NTZ","raw":"VARCHAR","request_id":"VARCHAR","served_model":"VARCHAR","served_fingerprint":"VARCHAR","read_by":"VARCHAR"},
  "bigquery": {"request_hash":"STRING","attempt":"INT64","sent_hash":"STRING","response":"STRING","call_error":"STRING","retryable":"BOOL","finish_reason":"STRING","model":"STRING","version":"STRING","fingerprint":"STRING","tokens_in":"INT64","tokens_cached":"INT64","tokens_out":"INT64","latency_ms":"INT64","run_id":"STRING","asked_at":"TIMESTAMP","raw":"STRING","request_id":"STRING","served_model":"STRING","served_fingerprint":"STRING","read_by":"STRING"},
  "spark": {"request_hash":"STRING","attempt":"BIGINT","sent_hash":"STRING","response":"STRING","call_error":"STRING","retryable":"BOOLEAN","finish_reason":"STRING","model":"STRING","version":"STRING","fingerprint":"STRING","tokens_in":"BIGINT","tokens_cached":"BIGINT","tokens_out":"BIGINT","latency_ms":"BIGINT","run_id":"STRING","asked_at":"TIMESTAMP","raw":"STRING","request_id":"STRING","served_model":"STRING","served_fingerprint":"STRING","read_by":"STRING"},
  "duckdb": {"request_hash":"TEXT","attempt":"BIGINT","sent_hash":"TEXT","response":"TEXT","call_error":"TEXT","retryable":"BOOLEAN","finish_reason":"TEXT","model":"TEXT","version":"TEXT","fingerprint":"TEXT","tokens_in":"BIGINT","tokens_cached":"BIGINT","tokens_out":"BIGINT","latency_ms":"BIGINT","run_id":"TEXT","asked_at":"TIMESTAMP","raw":"TEXT","request_id":"TEXT","served_model":"TEXT","served_fingerprint":"TEXT","read_by":"TEXT"}
}[target.type]) }}
{%- endmacro %}

{% macro asked_columns() -%}
{{ return({
  "databricks": ["request_hash","attempt","sent_hash","model","version","fingerprint","run_id","asked_at","raw"],
  "snowflake": ["request_hash","attempt","sent_hash","model","version","fingerprint","run_id","asked_at","raw"],
  "bigquery": ["request_hash","attempt","sent_hash","model","version","fingerprint","run_id","asked_at","raw"],
  "spark": ["request_hash","attempt","sent_hash","response","call_error","retryable","model","version","fingerprint","run_id","asked_at","raw","read_by"],
  "duckdb": ["request_hash","attempt","sent_hash","response","call_error","retryable","finish_reason","model","tokens_in","tokens_cached","tokens_out","latency_ms","asked_at","request_id","served_model","served_fingerprint","version","fingerprint","run_id"]
}[target.type]) }}
{%- endmacro %}
