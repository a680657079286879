{#- Answers are found by the hash of their request, whatever the enrichment was called when it was asked. -#}

{#- A hook before NAME_pending: makes the table of answers, and copies into it what other tables know of its requests. -#}
{% macro prepare_responses(name, prompts) -%}
  {%- if execute and flags.WHICH != 'clone' -%}{%- do sqlenrich.find_answers(name, prompts) -%}{%- endif -%}
{%- endmacro %}

{% macro find_answers(name, prompts) -%}
  {%- set answers = sqlenrich.responses_relation(name) -%}
  {%- do sqlenrich.make_responses(answers) -%}
  {%- set stored = sqlenrich.stored_responses(answers, name) | trim -%}
  {%- set missing = run_query(
    "select count(*) as missing from " ~ sqlenrich.relation(prompts) ~ " as p where p.request_hash is not null "
    ~ "and not exists (select 1 from " ~ stored ~ " as r where r.request_hash = p.request_hash)"
  ).rows[0][0] | int -%}
  {%- if missing > 0 -%}
    {%- set others = sqlenrich.other_responses(answers, name) -%}
    {%- if others | length > 0 -%}
      {%- do sqlenrich.copy_answers(
        answers, others, stored, "request_hash in (select request_hash from " ~ sqlenrich.relation(prompts) ~ " as p)"
      ) -%}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}

{#- Makes the table of answers. Where dbt clone made a view of another environment's, it becomes a table with the same rows. -#}
{% macro make_responses(answers) -%}
  {%- set found = adapter.get_relation(
    database=answers.database, schema=answers.schema, identifier=answers.identifier
  ) -%}
  {%- if found is not none and found.type == 'view' -%}
    {%- set copied = answers.incorporate(path={'identifier': answers.identifier ~ '_cloned_responses'}) -%}
    {%- for text in sqlenrich.create_asking(copied, found) -%}{%- do run_query(text) -%}{%- endfor -%}
    {%- do adapter.drop_relation(found) -%}
    {%- do run_query(sqlenrich.create_responses(answers)) -%}
    {%- set columns = sqlenrich.responses_types().keys() | join(', ') -%}
    {%- do run_query("insert into " ~ answers ~ " (" ~ columns ~ ") select " ~ columns ~ " from " ~ copied) -%}
    {%- do run_query("drop table if exists " ~ copied) -%}
  {%- else -%}
    {%- do run_query(sqlenrich.create_responses(answers)) -%}
  {%- endif -%}
{%- endmacro %}

{#- Copies the answers to requests that have none in ``stored``. Gives the number of requests. -#}
{% macro copy_answers(answers, others, stored, condition) -%}
  {%- set columns = sqlenrich.responses_types().keys() | join(', ') -%}
  {%- set selects = [] -%}
  {%- for other in others -%}
    {%- do selects.append("select " ~ columns ~ " from " ~ other ~ " where " ~ condition) -%}
  {%- endfor -%}
  {%- set known = "(" ~ selects | join(" union all ") ~ ") as a where not exists (select 1 from " ~ stored
    ~ " as r where r.request_hash = a.request_hash)" -%}
  {%- set requests = run_query("select count(distinct a.request_hash) as requests from " ~ known).rows[0][0] | int -%}
  {%- if requests > 0 -%}
    {%- do run_query("insert into " ~ answers ~ " (" ~ columns ~ ") select distinct " ~ columns ~ " from " ~ known) -%}
    {{ log('sqlenrich: ' ~ answers.identifier ~ ': the answers to ' ~ requests ~ ' requests are those of '
      ~ others | join(', '), info=true) }}
  {%- endif -%}
  {{ return(requests) }}
{%- endmacro %}

{#- Other tables of answers: those of the project, and any NAME_responses in its schemas and in the shared ones. -#}
{% macro other_responses(answers, name) -%}
  {%- set places, found = [], [] -%}
  {%- set passed = [answers] + sqlenrich.shared_relations(answers, name) -%}
  {%- set own = {'database': answers.database, 'schema': answers.schema} -%}
  {%- set named = [own, {'database': answers.database, 'schema': target.schema}] + sqlenrich.shared_places() -%}
  {%- set aliases = [] -%}
  {%- for node in graph.nodes.values() -%}
    {%- if node.resource_type == 'model' and node.config.materialized == 'sqlenrich_responses' -%}
      {%- do named.append({'database': node.database, 'schema': node.schema}) -%}
      {%- do aliases.append(node.alias | lower) -%}
    {%- endif -%}
    {%- if node.defer_relation -%}
      {%- do named.append({'database': node.defer_relation.database, 'schema': node.defer_relation.schema}) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- for place in named -%}
    {%- set schema = sqlenrich.relation_at(
      {'database': place.database or answers.database, 'schema': place.schema or answers.schema}, answers.identifier
    ) -%}
    {%- set key = ((schema.database or '') ~ '.' ~ schema.schema) | lower -%}
    {%- if key not in places -%}
      {%- do places.append(key) -%}
      {%- for identifier in sqlenrich.tables_of(schema, known=sqlenrich.same_relation(schema, answers)) -%}
        {%- set other = schema.incorporate(path={'identifier': identifier}) -%}
        {%- set low = identifier | lower -%}
        {%- set use = namespace(it=low in aliases or ('_responses' in low and low[-7:] != '_asking' and low[-5:] != '_lock')) -%}
        {%- for one in passed -%}{%- if sqlenrich.same_relation(one, other) -%}{%- set use.it = false -%}{%- endif -%}{%- endfor -%}
        {%- if use.it and sqlenrich.missing_columns(other) | length == 0 -%}{%- do found.append(other) -%}{%- endif -%}
      {%- endfor -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(found) }}
{%- endmacro %}

{#- The names of the tables in a relation's schema; none where it does not exist. ``known``: it exists. -#}
{% macro tables_of(relation, known) -%}
  {%- set schema = relation.include(identifier=false) -%}
  {%- set names = [] -%}
  {%- if target.type == 'duckdb' -%}
    {%- set rows = run_query(
      "select table_name from information_schema.tables where lower(table_catalog) = lower('" ~ relation.database
      ~ "') and lower(table_schema) = lower('" ~ relation.schema ~ "')"
    ).rows -%}
    {%- for row in rows -%}{%- do names.append(row[0]) -%}{%- endfor -%}
  {%- elif known or adapter.check_schema_exists(relation.database, relation.schema) -%}
    {%- if target.type == 'bigquery' -%}
      {%- for one in adapter.list_relations_without_caching(schema) -%}{%- do names.append(one.identifier) -%}{%- endfor -%}
    {%- else -%}
      {%- set rows = run_query(
        "show objects in " ~ schema ~ " limit 10000" if target.type == 'snowflake' else "show tables in " ~ schema
      ).rows -%}
      {%- for row in rows -%}{%- do names.append(row[1]) -%}{%- endfor -%}
    {%- endif -%}
  {%- endif -%}
  {{ return(names) }}
{%- endmacro %}

{#- Copies the answers of a table that no build finds, such as one of a schema that the project left:
    dbt run-operation sqlenrich.adopt_answers --args '{from: OLD_SCHEMA.OLD_responses, to: NAME_responses}' -#}
{% macro adopt_answers(from, to) -%}
  {%- set nodes = [] -%}
  {%- for node in graph.nodes.values() -%}
    {%- if node.resource_type == 'model' and node.name == to and node.config.materialized == 'sqlenrich_responses' -%}
      {%- do nodes.append(node) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- if nodes | length != 1 -%}
    {{ exceptions.raise_compiler_error('sqlenrich: adopt_answers: to names a model NAME_responses of the project, not ' ~ to) }}
  {%- endif -%}
  {%- set answers = api.Relation.create(
    database=nodes[0].database, schema=nodes[0].schema, identifier=nodes[0].alias, type='table'
  ) -%}
  {%- do adapter.create_schema(answers) -%}
  {%- do run_query(sqlenrich.create_responses(answers)) -%}
  {%- set requests = sqlenrich.copy_answers(answers, [from], answers | string, "request_hash is not null") -%}
  {%- do adapter.commit() -%}
  {{ log('sqlenrich: ' ~ answers ~ ' has the answers to ' ~ requests ~ ' more requests', info=true) }}
{%- endmacro %}
