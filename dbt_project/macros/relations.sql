{#- The table of answers by its name: NAME_pending reads it and can't ref it, since NAME_responses reads NAME_pending. -#}
{% macro responses_relation(name) -%}
  {{ return(api.Relation.create(database=this.database, schema=this.schema, identifier=name, type='table')) }}
{%- endmacro %}

{#- A relation to which an alias can be added: --empty gives a subquery that has one. -#}
{% macro relation(named) -%}
  {%- set text = named | string -%}
  {%- if text[:1] == '(' -%}(select * from {{ text }}){%- else -%}{{ text }}{%- endif -%}
{%- endmacro %}

{#- Stored answers: the project's own, and those of sqlenrich_shared_responses. -#}
{% macro stored_responses(own) -%}
  {%- set shared = var('sqlenrich_shared_responses', none) -%}
  {%- if shared is none or not shared or model.resource_type == 'unit_test' -%}
    {{ sqlenrich.relation(own) }}
  {%- else -%}
    {%- set theirs = api.Relation.create(
      database=shared.get('database', own.database), schema=shared.get('schema', own.schema), identifier=own.identifier
    ) -%}
    {%- set columns = sqlenrich.responses_types().keys() | join(', ') -%}
    (select {{ columns }} from {{ sqlenrich.relation(own) }} union all select {{ columns }} from {{ theirs }})
  {%- endif -%}
{%- endmacro %}

{#- A preview shows what is stored: the SELECT of the call would ask, and pay. It takes the call's text, so that dbt
    finds the same refs in every command. -#}
{% macro asked_or_shown(call, prompts) -%}
  {%- if flags.WHICH == 'show' -%}select * from {{ this }}{%- else -%}{{ call }}{%- endif -%}
{%- endmacro %}
