{#- NAME_prompts on DuckDB is written row by row: rows that are there already are not written again. Elsewhere it is a
    table that each build makes. -#}

{#- A pre-hook: deletes the rows that the source no longer gives, and leaves the new ones in a table. Rows may
    repeat, so the copies of equal rows are numbered. A prompt is what its hash says, so it is not compared. -#}
{% macro compare_rows(rows) -%}
  {%- if is_incremental() -%}
    {%- set now, new = sqlenrich.beside('now'), sqlenrich.beside('new') -%}
    {%- do run_query(
      "create or replace table " ~ now ~ " as select * replace (case when request_hash is null or request_hash not in "
      ~ "(select request_hash from " ~ this ~ " where request_hash is not null) then prompt end as prompt) from ("
      ~ rows ~ ") as r"
    ) -%}
    {%- set columns = sqlenrich.described(now) -%}
    {%- if columns != sqlenrich.described(this) -%}
      {%- do run_query("create or replace table " ~ this ~ " as select * from (" ~ rows ~ ") as r limit 0") -%}
      {%- do run_query("create or replace table " ~ now ~ " as " ~ rows) -%}
    {%- endif -%}
    {%- set compared = ["case when request_hash is null then prompt end"] -%}
    {%- for name, type in columns -%}
      {%- if name != 'prompt' -%}{%- do compared.append(adapter.quote(name)) -%}{%- endif -%}
    {%- endfor -%}
    {%- set numbered = "row(" ~ compared | join(', ') ~ ") as compared, row_number() over (partition by compared) as copy" -%}
    {%- do run_query(
      "create or replace table " ~ new ~ " as with n as (select *, " ~ numbered ~ " from " ~ now ~ "), o as (select "
      ~ numbered ~ " from " ~ this ~ "), missing as (select n.* from n anti join o on n.compared = o.compared and "
      ~ "n.copy = o.copy), known as (select request_hash, any_value(prompt) as prompt from " ~ this ~ " where request_hash "
      ~ "in (select request_hash from missing where prompt is null) group by request_hash) select missing.* exclude (compared, "
      ~ "copy) replace (coalesce(missing.prompt, known.prompt) as prompt) from missing left join known on known.request_hash = missing.request_hash"
    ) -%}
    {%- do run_query(
      "delete from " ~ this ~ " where rowid in (with n as (select " ~ numbered ~ " from " ~ now ~ "), o as (select rowid as "
      ~ "place, " ~ numbered ~ " from " ~ this ~ ") select o.place from o anti join n on n.compared = o.compared and "
      ~ "n.copy = o.copy)"
    ) -%}
    {%- do run_query("drop table " ~ now) -%}
  {%- endif -%}
{%- endmacro %}

{#- The rows that the model writes: those that the pre-hook found, else all. -#}
{% macro new_rows(rows) -%}
  {%- set found = is_incremental() if flags.WHICH in ('run', 'build') else false -%}
  {%- if found -%}select * from {{ sqlenrich.beside('new') }}{%- else -%}{{ rows }}{%- endif -%}
{%- endmacro %}

{#- A post-hook. -#}
{% macro drop_new_rows() -%}
  drop table if exists {{ sqlenrich.beside('new') }}
{%- endmacro %}

{#- A table of the build's own: dbt 2 keeps no temporary one from a query to the next. -#}
{% macro beside(suffix) -%}
  {{ return(api.Relation.create(
    database=this.database, schema=this.schema, identifier=this.identifier ~ '_' ~ suffix, type='table'
  )) }}
{%- endmacro %}

{#- The names and types of a table's columns. -#}
{% macro described(table) -%}
  {%- set found = [] -%}
  {%- for row in run_query("select column_name, column_type from (describe " ~ table ~ ") order by all") -%}
    {%- do found.append([row[0], row[1]]) -%}
  {%- endfor -%}
  {{ return(found) }}
{%- endmacro %}
