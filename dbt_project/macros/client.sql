{#- What the client's side of DuckDB gives: functions of the plugin sqlenrich.dbt_duckdb. With sqlenrich_mock_sql, SQL
    answers each request with the sample of its enrichment: no Python, no model. -#}
{% macro uses_mock_sql() -%}
  {{ return(var('sqlenrich_mock_sql', false)) }}
{%- endmacro %}

{#- What the functions are told of a request: the model's alias that sqlenrich_model chooses, and the facts of the enrichment. -#}
{% macro told(call, name) -%}
  {%- set alias = sqlenrich.chosen('sqlenrich_model', name) -%}
  {{- "'" ~ alias | replace("'", "''") ~ "' || " ~ call if alias else call -}}
{%- endmacro %}

{#- What precedes each prompt in its hash. -#}
{% macro constant(call, name) -%}
  {%- set call = sqlenrich.told(call, name) -%}
  {%- if sqlenrich.uses_mock_sql() -%}sha256({{ call }}){%- else -%}sqlenrich_constant({{ call }}){%- endif -%}
{%- endmacro %}

{#- The answer to a request, NULL for one that was not asked. -#}
{% macro ask(call, name) -%}
  {%- if sqlenrich.uses_mock_sql() -%}
    struct_pack(
      response := json_extract_string({{ call }}, '$.sample'),
      call_error := cast(null as varchar),
      retryable := false,
      finish_reason := 'stop',
      model := 'mock',
      tokens_in := cast(null as bigint),
      tokens_cached := cast(null as bigint),
      tokens_out := cast(null as bigint),
      latency_ms := cast(0 as bigint),
      asked_at := timezone('UTC', now()),
      request_id := cast(null as varchar),
      served_model := cast(null as varchar),
      served_fingerprint := cast(null as varchar)
    )
  {%- else -%}
    sqlenrich_ask({{ sqlenrich.told(call, name) }}, request_hash, attempt, prompt)
  {%- endif -%}
{%- endmacro %}
