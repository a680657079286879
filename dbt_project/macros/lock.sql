{#- One build asks at a time. The lock is a table of one row beside the answers: which build has it, by the random id of
    its invocation, and since when, by the clock of the warehouse. Each statement that asks has the condition that the
    build still has it. On DuckDB the database's file is the lock: it admits one process. -#}
{% macro lock_of(answers) -%}
  {{ return(answers.incorporate(path={'identifier': answers.identifier ~ '_lock'}, type='table')) }}
{%- endmacro %}

{#- Refuses a second build before it asks. A lock whose build gave no sign of life for so long is taken over. -#}
{% macro take_lock(answers) -%}
  {%- if target.type != 'duckdb' -%}
    {%- set lock = sqlenrich.lock_of(answers) -%}
    {%- set create = "create table if not exists " ~ lock ~ " as select '" ~ invocation_id ~ "' as run_id, "
      ~ sqlenrich.seconds_now() ~ " as since" -%}
    {%- do run_query(create) -%}
    {%- set found = run_query(
      "select l.run_id, l.since, max(" ~ sqlenrich.seconds_of('r.asked_at') ~ ") as stored, " ~ sqlenrich.seconds_now()
      ~ " as now from " ~ lock ~ " as l left join " ~ answers ~ " as r on r.run_id = l.run_id group by l.run_id, l.since"
    ).rows[0] -%}
    {%- if found[0] != invocation_id -%}
      {%- set since, now = found[1] | int, found[3] | int -%}
      {%- set seen = [since, (found[2] or since) | int] | max -%}
      {%- set minutes = var('sqlenrich_lock_minutes', 30) | int -%}
      {%- if found[0] != 'nobody' and now - seen < minutes * 60 -%}
        {{ exceptions.raise_compiler_error(
          'sqlenrich: ' ~ answers.identifier ~ ': another build (run ' ~ found[0] ~ ') has been asking for '
          ~ (now - since) // 60 ~ ' minutes, so this one asks nothing: wait until it ends. If it failed or was killed, '
          ~ 'take its lock: --vars "{sqlenrich_lock_minutes: 0}"'
        ) }}
      {%- endif -%}
      {{ log('sqlenrich: ' ~ answers.identifier ~ ': takes the lock of run ' ~ found[0] ~ ', which gave no sign of life for '
        ~ (now - seen) // 60 ~ ' minutes', info=true) }}
      {%- if target.type == 'spark' -%}
        {%- do run_query("drop table if exists " ~ lock) -%}
        {%- do run_query(create) -%}
      {%- else -%}
        {%- do run_query(
          "update " ~ lock ~ " set run_id = '" ~ invocation_id ~ "', since = " ~ sqlenrich.seconds_now()
          ~ " where run_id = '" ~ found[0] ~ "'"
        ) -%}
      {%- endif -%}
      {%- do sqlenrich.keep_lock(answers) -%}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}

{#- The build that has the lock; ``nobody`` where none has it. -#}
{% macro lock_holder(answers) -%}
  {%- set lock = sqlenrich.lock_of(answers) -%}
  {%- do run_query("create table if not exists " ~ lock ~ " as select 'nobody' as run_id, "
    ~ sqlenrich.seconds_now() ~ " as since") -%}
  {%- set holder = run_query("select run_id from " ~ lock).rows[0][0] -%}
  {%- if holder == 'nobody' -%}{%- do run_query("drop table if exists " ~ lock) -%}{%- endif -%}
  {{ return(holder) }}
{%- endmacro %}

{#- The condition under which a statement of this build may ask. -#}
{% macro has_lock(answers) -%}
  exists (select 1 from {{ sqlenrich.lock_of(answers) }} where run_id = '{{ invocation_id }}')
{%- endmacro %}

{#- Ends a build whose lock another one took. -#}
{% macro keep_lock(answers) -%}
  {%- if target.type != 'duckdb' -%}
    {%- set holder = sqlenrich.lock_holder(answers) -%}
    {%- if holder != invocation_id -%}
      {{ exceptions.raise_compiler_error(
        'sqlenrich: ' ~ answers.identifier ~ ': another build took the lock '
        ~ ('and has ended' if holder == 'nobody' else '(run ' ~ holder ~ ')')
        ~ ', so this one asks nothing more; what it asked is stored'
      ) }}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}

{#- Drops what a build made to ask. Where another build took the lock, it is that build's now. -#}
{% macro release_lock(answers, asking) -%}
  {%- set mine = target.type == 'duckdb' or sqlenrich.lock_holder(answers) in (invocation_id, 'nobody') -%}
  {%- if mine and asking is not none -%}{%- do run_query("drop table if exists " ~ asking) -%}{%- endif -%}
  {%- if mine and target.type != 'duckdb' -%}
    {%- do run_query("drop table if exists " ~ sqlenrich.lock_of(answers)) -%}
  {%- endif -%}
{%- endmacro %}

{#- For on-run-end: gives back the locks of this build's models that failed, and drops the copies of what was pending that
    stayed for the limits of the build. -#}
{% macro unlock(results) -%}
  {%- if flags.WHICH in ('run', 'build') -%}
    {%- set ended = ['success', 'error'] if sqlenrich.build_limits() else ['error'] -%}
    {%- for result in results -%}
      {%- if result.status in ended and result.node.config.materialized == 'sqlenrich_responses' -%}
        {%- set answers = api.Relation.create(
          database=result.node.database, schema=result.node.schema, identifier=result.node.alias
        ) -%}
        {%- do sqlenrich.release_lock(answers, sqlenrich.asking_of(answers) if sqlenrich.build_limits() else none) -%}
      {%- endif -%}
    {%- endfor -%}
  {%- endif -%}
{%- endmacro %}

{% macro seconds_now() -%}
  {{ return(sqlenrich.seconds_of('sysdate()' if target.type == 'snowflake' else 'current_timestamp()')) }}
{%- endmacro %}

{#- A time as whole seconds since 1970. -#}
{% macro seconds_of(time) -%}
  {%- if target.type == 'snowflake' -%}
    {{ return('date_part(epoch_second, ' ~ time ~ ')') }}
  {%- elif target.type == 'bigquery' -%}
    {{ return('unix_seconds(' ~ time ~ ')') }}
  {%- else -%}
    {{ return('unix_timestamp(' ~ time ~ ')') }}
  {%- endif -%}
{%- endmacro %}
