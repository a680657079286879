{#- Fails where more requests are pending than the project allows. Its result is their number. -#}
{% test rows_at_most(model, rows) %}
  {{ config(fail_calc="coalesce(max(requests), 0)") }}
  select requests from (select count(*) as requests from {{ model }}) as counted where requests > {{ rows }}
{% endtest %}

{#- Fails where too many of the asked rows are refused, or all; and where the result would be empty because nothing was
    asked. -#}
{% test quarantine_at_most(model, checked) %}
  {{ config(fail_calc="coalesce(max(refused), 0)") }}
  {%- if not sqlenrich.is_built(model) %}
  select * from (select 0 as asked, 0 as refused, 0 as unasked) as nothing where 1 = 0
  {%- else %}
  select asked, refused, unasked
  from (
    select
      coalesce(sum(case when _error is null or _error not in ('NO_INPUT', 'NOT_ASKED') then 1 else 0 end), 0) as asked,
      coalesce(sum(case when _error is not null and _error <> 'NO_INPUT' then 1 else 0 end), 0) as refused,
      coalesce(sum(case when _error = 'NOT_ASKED' then 1 else 0 end), 0) as unasked
    from {{ sqlenrich.relation(checked) }} as c
  ) as counted
  where (asked > 0 and (refused - unasked = asked or refused - unasked > {{ sqlenrich.max_quarantine() }} * asked))
    or (asked = 0 and unasked > 0)
  {%- endif %}
{% endtest %}

{#- The header's max_quarantine. It stands beside a column of NAME_quarantine, which is no part of state:modified. -#}
{% macro max_quarantine() -%}
  {%- for id in model.depends_on.nodes if execute -%}
    {%- set column = graph.nodes[id].columns['_error'] if graph.nodes[id] else none -%}
    {%- if column and column.meta and column.meta.sqlenrich_max_quarantine is not none -%}
      {{- column.meta.sqlenrich_max_quarantine -}}
    {%- endif -%}
  {%- endfor -%}
{%- endmacro %}

{#- Fails where several rows have the same key. Its result is the number of such keys. -#}
{% test unique_key(model, columns) %}
  select {{ columns | join(', ') }}, count(*) as row_count
  from {{ model }} group by {{ columns | join(', ') }} having count(*) > 1
{% endtest %}

{#- Fails where a row of the source is in neither result table. -#}
{% test rows_reconcile(model, prompts, quarantine) %}
  {%- if not sqlenrich.is_built(model) %}
  select * from (select 0 as rows_in, 0 as accepted, 0 as refused) as nothing where 1 = 0
  {%- else %}
  select rows_in, accepted, refused
  from (
    select
      (select count(*) from {{ prompts }}) as rows_in,
      (select count(*) from {{ model }}) as accepted,
      (select count(*) from {{ quarantine }}) as refused
  ) as counted
  where rows_in <> accepted + refused
  {%- endif %}
{% endtest %}

{#- Whether a build has the model of a test. dbt selects the test also where the build has only a parent of the model, as
    in `dbt build --select +NAME_responses`; the relation is then an old one, or missing. -#}
{% macro is_built(relation) -%}
  {%- set built = {'known': [], 'selected': []} -%}
  {%- if execute and flags.WHICH == 'build' and relation is not string -%}
    {%- for name in selected_resources if name.startswith('model.') -%}{%- do built.selected.append(name) -%}{%- endfor -%}
    {%- for node in graph.nodes.values() if node.resource_type == 'model' -%}
      {%- if node.alias == relation.identifier and node.schema == relation.schema -%}
        {%- do built.known.append(node.unique_id) -%}
      {%- endif -%}
    {%- endfor -%}
  {%- endif -%}
  {{ return(not built.known or not built.selected or built.known[0] in built.selected) }}
{%- endmacro %}
