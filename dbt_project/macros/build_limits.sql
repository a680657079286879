{#- What a whole build may ask. Its nodes share no state, so the copy of what is pending, with the name of the build, stays
    until the build ends, and the other nodes count it. -#}

{#- Whether the project limits its builds. -#}
{% macro limits_builds() -%}
  {{ return(var('sqlenrich_max_build_requests', none) is not none) }}
{%- endmacro %}

{#- The copy of what is pending: the answers of one statement must not change the next. -#}
{% macro asking_of(answers) -%}
  {{ return(answers.incorporate(path={'identifier': answers.identifier ~ '_asking'})) }}
{%- endmacro %}

{#- What is pending, with the name of the build. -#}
{% macro pending_of_build(pending) -%}
  {{ return("(select *, '" ~ invocation_id ~ "' as run_id from " ~ pending ~ ") as of_build") }}
{%- endmacro %}

{#- Refuses a node that would ask too much together with the other nodes of the build. Its copy is emptied, so that a node
    that asks less can go on. -#}
{% macro check_build(answers, asking, pending) -%}
  {%- if sqlenrich.limits_builds() -%}
    {%- set own, others = sqlenrich.requests_of_build(asking) -%}
    {%- set most = var('sqlenrich_max_build_requests') | int -%}
    {%- if own + others > most -%}
      {%- for text in sqlenrich.create_asking(asking, sqlenrich.pending_of_build(pending) ~ ' where 1 = 0') -%}
        {%- do run_query(text) -%}
      {%- endfor -%}
      {%- do sqlenrich.release_lock(answers, none) -%}
      {{ adapter.commit() }}
      {{ exceptions.raise_compiler_error(
        'sqlenrich: ' ~ answers.identifier ~ ' would ask ' ~ own ~ ' requests, and the other nodes of this build ask ' ~ others
        ~ ', but sqlenrich_max_build_requests is ' ~ most ~ ': nothing was asked here. '
        ~ 'To pay for them: --vars "{sqlenrich_max_build_requests: ' ~ (own + others) ~ '}"'
      ) }}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}

{#- How many requests a node asks, and how many the other nodes of this build asked or are about to ask. -#}
{% macro requests_of_build(asking) -%}
  {%- set counts = [] -%}
  {%- for copy in sqlenrich.copies_of_pending() -%}
    {%- set own = sqlenrich.same_relation(copy, asking) -%}
    {%- do counts.append(
      "select '" ~ ('own' if own else 'other') ~ "' as whose, count(*) as requests from " ~ copy ~ " where run_id = '"
      ~ invocation_id ~ "'"
    ) -%}
  {%- endfor -%}
  {%- set found = namespace(own=0, others=0) -%}
  {%- for row in run_query(counts | join(" union all ")).rows -%}
    {%- if row[0] == 'own' -%}
      {%- set found.own = row[1] | int -%}
    {%- else -%}
      {%- set found.others = found.others + row[1] | int -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return([found.own, found.others]) }}
{%- endmacro %}

{#- The copies that exist, of the nodes of this build: dbt made their schemas. -#}
{% macro copies_of_pending() -%}
  {%- set tables, found = {}, [] -%}
  {%- for node in sqlenrich.asking_nodes() -%}
    {%- set copy = sqlenrich.asking_of(sqlenrich.relation_at(node, node.alias)) -%}
    {%- set schema = ((copy.database or '') ~ '.' ~ copy.schema) | lower -%}
    {%- if schema not in tables -%}
      {%- do tables.update({schema: sqlenrich.tables_of(copy, known=node.unique_id in selected_resources) | map('lower') | list}) -%}
    {%- endif -%}
    {%- if copy.identifier | lower in tables[schema] -%}{%- do found.append(copy) -%}{%- endif -%}
  {%- endfor -%}
  {{ return(found) }}
{%- endmacro %}

{#- The nodes of this build that ask a model. -#}
{% macro asking_nodes() -%}
  {%- set found = [] -%}
  {%- for node in graph.nodes.values() -%}
    {%- if node.resource_type == 'model' and node.config.materialized == 'sqlenrich_responses' -%}
      {%- if not selected_resources or node.unique_id in selected_resources -%}{%- do found.append(node) -%}{%- endif -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(found) }}
{%- endmacro %}
