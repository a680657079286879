{#- The table of answers. It is made once and only ever appended to, whatever --full-refresh says. -#}
{% materialization sqlenrich_responses, default %}
  {%- set answers = this.incorporate(type='table') -%}
  {%- set name = model.name[:-10] -%}
  {%- set pending = ref(name ~ '_pending') -%}
  {%- set prompts = ref(name ~ '_prompts') -%}
  {%- set asking = sqlenrich.asking_of(answers) -%}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}
  {%- set query_tag = sqlenrich.set_query_tag() -%}
  {%- do sqlenrich.make_responses(answers) -%}
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
      {%- do sqlenrich.check_prices(model) -%}
      {%- do sqlenrich.take_lock(answers) -%}
      {%- set locked = true -%}
      {%- for text in sqlenrich.create_asking(asking, sqlenrich.pending_of_build(pending)) -%}
        {%- call statement('asking_' ~ loop.index) -%}{{ text }}{%- endcall -%}
      {%- endfor -%}
      {{ adapter.commit() }}
      {%- set requests = sqlenrich.count_requests(this.identifier, asking, 'count_asking') -%}
      {%- do sqlenrich.check_pending(answers, pending, asking) -%}
      {%- do sqlenrich.check_build(answers, asking, pending) -%}
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
  {%- set state = {'succeeded': false, 'alone': []} -%}
  {%- for n in range(chunks) -%}
    {%- set low = sqlenrich.hex8(n * 4294967296 // chunks) -%}
    {%- set high = 'g' if loop.last else sqlenrich.hex8((n + 1) * 4294967296 // chunks) -%}
    {%- if sqlenrich.catches_failures() -%}
      {#- A few requests first: where a wrong setting fails all, few statements show it. -#}
      {%- set few = sqlenrich.hash_at(asking, '', 'g', 3) if n == 0 and requests > 3 else high -%}
      {%- set few = few if few < high else high -%}
      {%- do sqlenrich.ask_range(answers, asking, parts, low, few, state) -%}
      {%- if few < high -%}{%- do sqlenrich.ask_range(answers, asking, parts, few, high, state) -%}{%- endif -%}
    {%- else -%}
      {%- call statement('ask_' ~ n) -%}{{ sqlenrich.ask_statement(answers, asking, parts, low, high) }}{%- endcall -%}
    {%- endif -%}
    {{ adapter.commit() }}
    {%- do sqlenrich.read_what_is_unread(answers, prompts, 'read_' ~ n) -%}
    {%- do sqlenrich.check_answered(asking, answers, low, high) -%}
    {%- do sqlenrich.keep_lock(answers) -%}
    {%- if loop.last or loop.index % (chunks // 100 + 1) == 0 -%}
      {{ log('sqlenrich: ' ~ this.identifier ~ ': ' ~ loop.index ~ ' of ' ~ chunks ~ ' statements done, '
        ~ requests ~ ' requests in all', info=true) }}
    {%- endif -%}
  {%- endfor -%}

  {%- if state.alone | length > 0 -%}
    {%- if not state.succeeded -%}{%- do sqlenrich.end_failed(answers, state) -%}{%- endif -%}
    {%- do sqlenrich.store_failures(answers, asking, state) -%}
  {%- endif -%}
  {%- if locked -%}
    {%- do sqlenrich.release_lock(answers, none if sqlenrich.build_limits() else asking) -%}
    {{ adapter.commit() }}
  {%- endif -%}
  {%- call statement('main') -%} select {{ requests }} as asked {%- endcall -%}
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

{#- Refuses to ask where NAME_pending was made over another table of answers: it would be paid for again; or for another
    model, whose hashes the answers would get. -#}
{% macro check_pending(answers, pending, asking) -%}
  {%- set name = model.name[:-10] -%}
  {%- set node = graph.nodes['model.' ~ model.package_name ~ '.' ~ name ~ '_pending'] -%}
  {%- set problem = namespace(text='') -%}
  {%- if not sqlenrich.same_relation(answers, sqlenrich.responses_relation(model.name)) -%}
    {%- set problem.text = 'it reads ' ~ sqlenrich.responses_relation(model.name) -%}
  {%- elif node and not sqlenrich.same_relation(pending, sqlenrich.relation_at(node, node.alias)) -%}
    {%- set problem.text = 'it is that of another environment' -%}
  {%- else -%}
    {%- set stored = run_query(
      "select count(*) as stored from " ~ asking ~ " as a where exists (select 1 from " ~ answers
      ~ " as r where r.request_hash = a.request_hash and r.attempt >= a.attempt)"
    ).rows[0][0] | int -%}
    {%- if stored > 0 -%}
      {%- set problem.text = 'the answers to ' ~ stored ~ ' of its requests are stored' -%}
    {%- endif -%}
  {%- endif -%}
  {%- set found = namespace(text=' does not read ' ~ answers ~ ' (' ~ problem.text ~ ')' if problem.text else '') -%}
  {%- set constant = (model.config.meta or {}).get('sqlenrich_constant') -%}
  {%- if constant and not found.text -%}
    {%- set hash = 'to_hex(sha256(' ~ constant ~ ' || prompt))' if target.type == 'bigquery' else 'sha2(' ~ constant ~ ' || prompt, 256)' -%}
    {%- set others = run_query("select count(*) as others from " ~ asking ~ " where request_hash <> " ~ hash).rows[0][0] | int -%}
    {%- if others > 0 -%}
      {%- set found.text = ' was made for another model (' ~ others ~ ' of its requests have other hashes)' -%}
    {%- endif -%}
  {%- endif -%}
  {%- if found.text -%}
    {%- do sqlenrich.release_lock(answers, asking) -%}
    {{ adapter.commit() }}
    {{ exceptions.raise_compiler_error(
      'sqlenrich: ' ~ pending ~ found.text ~ ', so nothing was asked: build '
      ~ name ~ '_prompts, ' ~ name ~ '_pending and ' ~ name ~ '_responses together'
    ) }}
  {%- endif -%}
{%- endmacro %}

{#- The columns that a table of answers lacks, each with its type. -#}
{% macro missing_columns(answers) -%}
  {%- set known = [] -%}
  {%- for column in adapter.get_columns_in_relation(answers) -%}
    {%- do known.append(column.name | lower) -%}
  {%- endfor -%}
  {%- set missing = [] -%}
  {%- for name, type in sqlenrich.responses_types().items() -%}
    {%- if name not in known -%}{%- do missing.append(name ~ ' ' ~ type) -%}{%- endif -%}
  {%- endfor -%}
  {{ return(missing) }}
{%- endmacro %}

{#- Refuses a table that another version of sqlenrich made. -#}
{% macro check_columns(answers) -%}
  {%- set missing = sqlenrich.missing_columns(answers) -%}
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
