{#- The table of answers. It is made once and only ever appended to, whatever --full-refresh says. -#}
{% materialization sqlenrich_responses, default %}
  {%- set answers = this.incorporate(type='table') -%}
  {%- set name = model.name[:-10] -%}
  {%- set pending = ref(name ~ '_pending') -%}
  {%- set prompts = ref(name ~ '_prompts') -%}
  {%- set asking = api.Relation.create(
    database=this.database, schema=this.schema, identifier=this.identifier ~ '_asking', type='table'
  ) -%}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}
  {%- set query_tag = sqlenrich.set_query_tag() -%}
  {%- call statement('create') -%}{{ sqlenrich.create_responses(answers) }}{%- endcall -%}
  {{ adapter.commit() }}
  {%- do sqlenrich.check_columns(answers) -%}
  {%- do sqlenrich.read_what_is_unread(answers, prompts, 'read_before') -%}

  {%- set size = sqlenrich.chunk_rows() -%}
  {%- set chunks = 0 -%}
  {%- set requests = 0 -%}
  {%- set locked = false -%}
  {%- if var('sqlenrich_calls', true) -%}
    {%- set requests = sqlenrich.count_requests(this.identifier, pending, 'count_pending') -%}
    {%- if requests > 0 -%}
      {%- do sqlenrich.take_lock(answers) -%}
      {%- set locked = true -%}
      {%- for text in sqlenrich.create_asking(asking, pending) -%}
        {%- call statement('asking_' ~ loop.index) -%}{{ text }}{%- endcall -%}
      {%- endfor -%}
      {{ adapter.commit() }}
      {%- set requests = sqlenrich.count_requests(this.identifier, asking, 'count_asking') -%}
      {%- set chunks = (requests + size - 1) // size -%}
    {%- endif -%}
  {%- else -%}
    {{ log('sqlenrich: ' ~ this.identifier ~ ': sqlenrich_calls is false, nothing is asked', info=true) }}
  {%- endif -%}

  {%- set parts = (sql ~ ' ').split(pending | string) -%}
  {%- if chunks > 0 and parts | length != 2 -%}
    {{ exceptions.raise_compiler_error(
      'sqlenrich: ' ~ this.identifier ~ ' must read ' ~ pending ~ ' once, not ' ~ (parts | length - 1) ~ ' times'
    ) }}
  {%- endif -%}
  {%- for n in range(chunks) -%}
    {%- set low = sqlenrich.hex8(n * 4294967296 // chunks) -%}
    {%- set high = sqlenrich.hex8((n + 1) * 4294967296 // chunks) -%}
    {%- if n > 0 -%}{%- do sqlenrich.keep_lock(answers) -%}{%- endif -%}
    {%- call statement('main' if loop.last else 'ask_' ~ n) -%}
      insert into {{ answers }} ({{ sqlenrich.asked_columns() | join(', ') }})
      {{ parts[0] -}}
      (select * from {{ asking }} where request_hash >= '{{ low }}'{% if not loop.last %} and request_hash < '{{ high }}'{% endif %}
      {%- if target.type == 'duckdb' %} order by request_hash{% endif %})
      {{- parts[1] }}
    {%- endcall -%}
    {{ adapter.commit() }}
    {%- do sqlenrich.read_what_is_unread(answers, prompts, 'read_' ~ n) -%}
    {%- do sqlenrich.check_answered(asking, answers, low, 'g' if loop.last else high) -%}
    {%- if loop.last or loop.index % (chunks // 100 + 1) == 0 -%}
      {{ log('sqlenrich: ' ~ this.identifier ~ ': ' ~ loop.index ~ ' of ' ~ chunks ~ ' statements done, '
        ~ requests ~ ' requests in all', info=true) }}
    {%- endif -%}
  {%- endfor -%}

  {%- if locked -%}
    {%- do sqlenrich.release_lock(answers, asking) -%}
    {{ adapter.commit() }}
  {%- endif -%}
  {%- if chunks == 0 -%}
    {%- call statement('main') -%} select 1 as nothing_to_ask {%- endcall -%}
  {%- endif -%}
  {%- do sqlenrich.reset_query_tag(query_tag) -%}
  {%- do apply_grants(answers, config.get('grants'), should_revoke=true) -%}
  {%- do persist_docs(answers, model) -%}
  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ adapter.commit() }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [answers]}) }}
{% endmaterialization %}


{#- The number of requests that one statement asks. A statement that fails or is killed loses at most these. -#}
{% macro chunk_rows() -%}
  {{ return(adapter.dispatch('chunk_rows', 'sqlenrich')()) }}
{%- endmacro %}

{% macro default__chunk_rows() -%}
  {{ return(var('sqlenrich_chunk_rows', 200 if target.type == 'duckdb' else 10000) | int) }}
{%- endmacro %}

{#- Counts requests, and refuses more than the project allows. -#}
{% macro count_requests(name, relation, label) -%}
  {%- call statement(label, fetch_result=True) -%}
    select count(*) as requests, sum(length(prompt)) as characters from {{ relation }}
  {%- endcall -%}
  {%- set found = load_result(label)['data'][0] -%}
  {%- set requests, characters = found[0] | int, (found[1] or 0) | int -%}
  {%- set most = var('sqlenrich_max_requests', 100000) | int -%}
  {%- if requests > most -%}
    {{ exceptions.raise_compiler_error(
      'sqlenrich: ' ~ name ~ ' would ask ' ~ requests ~ ' requests (about ' ~ characters // 4
      ~ ' tokens of prompts), but sqlenrich_max_requests is ' ~ most ~ ': nothing was asked. '
      ~ 'To pay for them: --vars "{sqlenrich_max_requests: ' ~ requests ~ '}"'
    ) }}
  {%- endif -%}
  {{ return(requests) }}
{%- endmacro %}

{#- Refuses a table that another version of sqlenrich made. -#}
{% macro check_columns(answers) -%}
  {%- set known = [] -%}
  {%- for column in adapter.get_columns_in_relation(answers) -%}
    {%- do known.append(column.name | lower) -%}
  {%- endfor -%}
  {%- set missing = [] -%}
  {%- for name, type in sqlenrich.responses_types().items() -%}
    {%- if name not in known -%}{%- do missing.append(name ~ ' ' ~ type) -%}{%- endif -%}
  {%- endfor -%}
  {%- if missing | length > 0 -%}
    {%- set statements = [] -%}
    {%- for column in missing -%}
      {%- if target.type in ('spark', 'databricks') -%}
        {%- do statements.append('ALTER TABLE ' ~ answers ~ ' ADD COLUMNS (' ~ column ~ ')') -%}
      {%- else -%}
        {%- do statements.append('ALTER TABLE ' ~ answers ~ ' ADD COLUMN ' ~ column) -%}
      {%- endif -%}
    {%- endfor -%}
    {{ exceptions.raise_compiler_error(
      'sqlenrich: ' ~ answers ~ ' was made by another version. To keep its answers, run: ' ~ statements | join('; ')
    ) }}
  {%- endif -%}
{%- endmacro %}

{#- Ends a run whose client was stopped, such as by a wrong key: what it did not ask stays pending. -#}
{% macro check_answered(asking, answers, low, high) -%}
  {%- if target.type == 'duckdb' -%}
    {%- set counted = run_query(
      "select count(*) from " ~ asking ~ " as a where request_hash >= '" ~ low ~ "' and request_hash < '" ~ high
      ~ "' and not exists (select 1 from " ~ answers ~ " as r where r.request_hash = a.request_hash and r.attempt >= a.attempt"
      ~ " and r.request_hash >= '" ~ low ~ "' and r.request_hash < '" ~ high ~ "')"
    ) -%}
    {%- set missing = counted.rows[0][0] | int -%}
    {%- if missing > 0 -%}
      {{ exceptions.raise_compiler_error(
        'sqlenrich: the model was not asked for ' ~ missing ~ ' requests, see the error above; '
        ~ 'what it answered is stored, and the next build goes on'
      ) }}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}

{#- Reads the answers that an engine's own function gave: the call stores them as they came. -#}
{% macro read_what_is_unread(answers, prompts, name) -%}
  {%- set reading = sqlenrich.read_answers(answers, prompts) | trim -%}
  {%- if reading != '' -%}
    {%- call statement(name) -%}{{ reading }}{%- endcall -%}
    {{ adapter.commit() }}
  {%- endif -%}
{%- endmacro %}

{#- The statements that copy what is pending: the answers of one chunk must not change the next. DuckDB calls the plugin
    with the rows of one vector, so those of a chunk lie together. -#}
{% macro create_asking(asking, pending) -%}
  {%- if target.type == 'spark' -%}
    {{ return(['drop table if exists ' ~ asking, 'create table ' ~ asking ~ ' as select * from ' ~ pending]) }}
  {%- else -%}
    {%- set order = ' order by request_hash' if target.type == 'duckdb' else '' -%}
    {{ return(['create or replace table ' ~ asking ~ ' as select * from ' ~ pending ~ order]) }}
  {%- endif -%}
{%- endmacro %}

{#- Snowflake's history of queries then shows what a run spent. -#}
{% macro set_query_tag() -%}
  {{ return(adapter.dispatch('set_query_tag', 'sqlenrich')()) }}
{%- endmacro %}

{% macro default__set_query_tag() -%}
  {%- if target.type == 'snowflake' -%}
    {%- set before = get_current_query_tag() -%}
    {%- do run_query("alter session set query_tag = 'sqlenrich " ~ this.identifier ~ ' ' ~ invocation_id ~ "'") -%}
    {{ return(before) }}
  {%- endif -%}
  {{ return(none) }}
{%- endmacro %}

{% macro reset_query_tag(before) -%}
  {{ return(adapter.dispatch('reset_query_tag', 'sqlenrich')(before)) }}
{%- endmacro %}

{% macro default__reset_query_tag(before) -%}
  {%- if target.type == 'snowflake' -%}
    {%- do run_query("alter session set query_tag = '" ~ (before or '') | replace("'", "''") ~ "'") -%}
  {%- endif -%}
{%- endmacro %}

{#- The first 8 hexadecimal digits of a number below 2 to the 32nd. -#}
{% macro hex8(number) -%}
  {%- for place in [268435456, 16777216, 1048576, 65536, 4096, 256, 16, 1] -%}
    {{- '0123456789abcdef'[(number // place) % 16] -}}
  {%- endfor -%}
{%- endmacro %}
