{#- The table of answers by its node's name: NAME_pending reads it and can't ref it, since NAME_responses reads
    NAME_pending. The graph says its database, schema and alias, whatever a config or a macro of the project made of them. -#}
{% macro responses_relation(name) -%}
  {%- set node = graph.nodes['model.' ~ model.package_name ~ '.' ~ name] if execute else none -%}
  {%- if node -%}
    {{ return(sqlenrich.relation_at(node, node.alias)) }}
  {%- endif -%}
  {{ return(this.incorporate(path={'identifier': name}, type='table')) }}
{%- endmacro %}

{#- A table beside the node in hand, or in the place that is named: quoted as the project quotes. -#}
{% macro relation_at(place, identifier) -%}
  {%- set path = {'identifier': identifier} -%}
  {%- if place.schema != this.schema or (place.database or '') != (this.database or '') -%}
    {%- do path.update({'schema': place.schema}) -%}
    {%- if place.database -%}{%- do path.update({'database': place.database}) -%}{%- endif -%}
  {%- endif -%}
  {{ return(this.incorporate(path=path, type='table')) }}
{%- endmacro %}

{#- Whether two relations are the same table. -#}
{% macro same_relation(one, other) -%}
  {{ return(
    one.identifier | lower == other.identifier | lower and one.schema | lower == other.schema | lower
    and (one.database or '') | lower == (other.database or '') | lower
  ) }}
{%- endmacro %}

{#- A relation to which an alias can be added: --empty gives a subquery that has one. -#}
{% macro relation(named) -%}
  {%- set text = named | string -%}
  {%- if text[:1] == '(' -%}(select * from {{ text }}){%- else -%}{{ text }}{%- endif -%}
{%- endmacro %}

{#- Stored answers: the project's own, and those of other places that have them. -#}
{% macro stored_responses(own, name) -%}
  {%- set others = [] -%}
  {%- if execute and model.resource_type != 'unit_test' -%}
    {%- set others = sqlenrich.shared_relations(own, name) -%}
  {%- endif -%}
  {%- if others | length == 0 -%}
    {{ sqlenrich.relation(own) }}
  {%- else -%}
    {%- set columns = sqlenrich.responses_types().keys() | join(', ') -%}
    (select {{ columns }} from {{ sqlenrich.relation(own) }}
    {%- for other in others %} union all select {{ columns }} from {{ other }}{% endfor -%})
  {%- endif -%}
{%- endmacro %}

{#- The places whose answers are shared: sqlenrich_shared_responses, one or a list of {database, schema}. -#}
{% macro shared_places() -%}
  {%- set shared = var('sqlenrich_shared_responses', none) or [] -%}
  {{ return([shared] if shared is mapping else shared) }}
{%- endmacro %}

{#- The same enrichment's answers in the shared places, and in the environment that --defer names: those that exist. -#}
{% macro shared_relations(own, name) -%}
  {%- set candidates, found = [], [] -%}
  {%- for place in sqlenrich.shared_places() -%}
    {%- set at = {'database': place.database or own.database, 'schema': place.schema or own.schema} -%}
    {%- do candidates.append(sqlenrich.relation_at(at, own.identifier)) -%}
    {%- do candidates.append(sqlenrich.relation_at(at, name)) -%}
  {%- endfor -%}
  {%- set node = graph.nodes['model.' ~ model.package_name ~ '.' ~ name] -%}
  {%- if node and node.defer_relation -%}
    {%- do candidates.append(sqlenrich.relation_at(node.defer_relation, node.defer_relation.alias)) -%}
  {%- endif -%}
  {%- for candidate in candidates -%}
    {%- set known = namespace(is=sqlenrich.same_relation(candidate, own)) -%}
    {%- for one in found -%}{%- if sqlenrich.same_relation(candidate, one) -%}{%- set known.is = true -%}{%- endif -%}{%- endfor -%}
    {%- if not known.is and sqlenrich.exists(candidate) -%}{%- do found.append(candidate) -%}{%- endif -%}
  {%- endfor -%}
  {{ return(found) }}
{%- endmacro %}

{#- Whether a table exists. Without a connection nobody knows, and the SQL shows it. -#}
{% macro exists(relation) -%}
  {%- if flags.INTROSPECT is defined and not flags.INTROSPECT -%}{{ return(true) }}{%- endif -%}
  {{ return(adapter.get_relation(
    database=relation.database, schema=relation.schema, identifier=relation.identifier
  ) is not none) }}
{%- endmacro %}

{#- A preview shows what is stored: the SELECT of the call would ask, and pay. It takes the call's text, so that dbt
    finds the same refs in every command. -#}
{% macro asked_or_shown(call, prompts) -%}
  {%- if flags.WHICH == 'show' -%}select * from {{ this }}{%- else -%}{{ call }}{%- endif -%}
{%- endmacro %}
