{#- A statement that fails is asked again in two halves, until the requests at fault stand alone. Those become rows with a
    call_error; the others go on. -#}

{#- Whether the adapter's SQL can catch the failure of a statement. On DuckDB a client asks, and fails a request at a time. -#}
{% macro catches_failures() -%}
  {{ return(target.type != 'duckdb' and var('sqlenrich_halve', true)) }}
{%- endmacro %}

{#- The statement that asks the requests of ``asking`` with a hash from ``low`` and below ``high``. -#}
{% macro ask_statement(answers, asking, parts, low, high) -%}
  insert into {{ answers }} ({{ sqlenrich.asked_columns() | join(', ') }})
  {{ parts[0] -}}
  (select * from {{ asking }} where {{ sqlenrich.within(low, high) }}
  {%- if target.type == 'duckdb' %} order by request_hash{% else %} and {{ sqlenrich.has_lock(answers) }}{% endif %})
  {{- parts[1] }}
{%- endmacro %}

{% macro within(low, high) -%}
  request_hash >= '{{ low }}' and request_hash < '{{ high }}'
{%- endmacro %}

{#- Asks a range. ``state`` has succeeded (whether a statement did), and alone: the requests that failed alone since. -#}
{% macro ask_range(answers, asking, parts, low, high, state) -%}
  {%- set claim = asking.incorporate(path={'identifier': asking.identifier ~ '_claim'}) -%}
  {%- set statement = sqlenrich.ask_statement(answers, asking, parts, low, high) | trim -%}
  {%- if target.type == 'bigquery' -%}{%- do run_query("drop table if exists " ~ claim) -%}{%- endif -%}
  {%- set problem = run_query(sqlenrich.caught(statement, claim)).rows[0][0] | string -%}
  {%- if target.type == 'bigquery' -%}
    {%- if claim.identifier in problem and 'already exists' in problem | lower -%}
      {{ exceptions.raise_compiler_error(
        'sqlenrich: ' ~ answers.identifier ~ ': the adapter submitted a statement twice (job_retries), and the second asked '
        ~ 'nothing. The first goes on, and its answers are stored: build again when it has ended'
      ) }}
    {%- endif -%}
    {%- do run_query("drop table if exists " ~ claim) -%}
  {%- endif -%}
  {%- if problem == '' -%}
    {%- do state.update({'succeeded': true}) -%}
    {%- do sqlenrich.store_failures(answers, asking, state) -%}
  {%- else -%}
    {%- set requests = run_query(
      "select count(*) as requests from " ~ asking ~ " where " ~ sqlenrich.within(low, high)
    ).rows[0][0] | int -%}
    {%- if requests > 1 -%}
      {{ log('sqlenrich: ' ~ answers.identifier ~ ': ' ~ requests ~ ' requests of a failed statement are asked in two halves: '
        ~ problem, info=true) }}
      {%- set middle = sqlenrich.hash_at(asking, low, high, requests // 2) -%}
      {%- do sqlenrich.keep_lock(answers) -%}
      {%- do sqlenrich.ask_range(answers, asking, parts, low, middle, state) -%}
      {%- do sqlenrich.keep_lock(answers) -%}
      {%- do sqlenrich.ask_range(answers, asking, parts, middle, high, state) -%}
    {%- elif requests == 1 -%}
      {%- do state.alone.append([sqlenrich.hash_at(asking, low, high, 0), problem]) -%}
      {%- if state.alone | length >= (5 if state.succeeded else 3) -%}
        {%- do sqlenrich.end_failed(answers, state) -%}
      {%- endif -%}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}

{#- Ends a build whose statements all fail: the requests are not at fault, and stay pending. -#}
{% macro end_failed(answers, state) -%}
  {{ exceptions.raise_compiler_error(
    'sqlenrich: ' ~ answers.identifier ~ ': ' ~ state.alone | length ~ ' requests in a row failed, each alone in its '
    ~ 'statement, so nothing more is asked: ' ~ state.alone[-1][1] ~ '. What was answered is stored'
  ) }}
{%- endmacro %}

{#- Stores the requests that failed alone before a statement succeeded: they are not asked again. -#}
{% macro store_failures(answers, asking, state) -%}
  {%- for hash, problem in state.alone -%}
    {%- set shown = problem[:500] | replace("\\", "/") | replace("'", '"') | replace("\n", " ") -%}
    {%- set now = 'sysdate()' if target.type == 'snowflake' else 'current_timestamp()' -%}
    {%- do run_query(
      "insert into " ~ answers ~ " (request_hash, attempt, sent_hash, call_error, retryable, run_id, asked_at) select "
      ~ "request_hash, attempt, request_hash as sent_hash, '" ~ shown ~ "' as call_error, false as retryable, '" ~ invocation_id
      ~ "' as run_id, " ~ now ~ " as asked_at from " ~ asking
      ~ " where request_hash = '" ~ hash ~ "'"
    ) -%}
  {%- endfor -%}
  {%- do state.update({'alone': []}) -%}
{%- endmacro %}

{#- The hash at a place, counted from 0, among those of a range. -#}
{% macro hash_at(asking, low, high, place) -%}
  {{ return(run_query(
    "select request_hash from " ~ asking ~ " where " ~ sqlenrich.within(low, high)
    ~ " order by request_hash limit 1 offset " ~ place
  ).rows[0][0]) }}
{%- endmacro %}

{#- A statement whose failure is a row with its message, and whose success is a row with an empty text. On BigQuery the claim
    makes a second submission of the same job fail before it asks: dbt-bigquery before 1.12 gives each of its job_retries
    a job of its own. Spark's scripting does not tell a handler the message. -#}
{% macro caught(statement, claim) -%}
  {%- if target.type == 'snowflake' -%}
EXECUTE IMMEDIATE $$
BEGIN
{{ statement | replace('$$', '$\\u0024') }};
RETURN '';
EXCEPTION
  WHEN OTHER THEN RETURN SQLERRM;
END
$$
  {%- elif target.type == 'bigquery' -%}
BEGIN
  CREATE TABLE {{ claim }} AS SELECT 1 AS claimed;
{{ statement }};
  SELECT '' AS problem;
EXCEPTION WHEN ERROR THEN
  SELECT @@error.message AS problem;
END
  {%- else -%}
BEGIN
  DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 'the statement failed, the history of queries says why' AS problem;
{{ statement }};
  SELECT '' AS problem;
END
  {%- endif -%}
{%- endmacro %}
