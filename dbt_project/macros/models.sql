{#- Which model an enrichment asks, and where a warehouse's own object of it lies: by variables, so that a target asks a
    cheaper model with the same prompt file. -#}

{#- The value of a variable for an enrichment: one for all, or by the names of enrichments or of targets, one within the other. -#}
{% macro chosen(variable, name) -%}
  {%- set found = namespace(value=var(variable, none)) -%}
  {%- for level in range(2) if found.value is mapping -%}
    {%- set known = sqlenrich.enrichment_names() + [name] -%}
    {%- if found.value.keys() | select('in', known) | list -%}
      {%- set unknown = found.value.keys() | reject('in', known) | list -%}
      {%- if unknown -%}
        {{- sqlenrich.refused(
          'sqlenrich: ' ~ variable ~ ' names enrichments, and ' ~ unknown | join(', ') ~ ' is none of this project; there are: '
          ~ known | unique | join(', ')
        ) -}}
      {%- endif -%}
      {%- set found.value = found.value.get(name) -%}
    {%- else -%}
      {%- set found.value = sqlenrich.of_target(variable, found.value) -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(found.value) }}
{%- endmacro %}

{#- The value of a variable for this target: one for all, or by the names of targets, "default" for those without a name. dbt
    tells no other target, so a misspelt one is found where it is missing. -#}
{% macro of_target(variable, value) -%}
  {%- if value is mapping and target.name not in value and 'default' not in value -%}
    {{- sqlenrich.refused(
      'sqlenrich: ' ~ variable ~ ' has no value for the target ' ~ target.name ~ ', it has for: ' ~ value.keys() | join(', ')
      ~ '. Write one for it, or "default" for all other targets'
    ) -}}
  {%- endif -%}
  {{ return(value.get(target.name, value.get('default')) if value is mapping else value) }}
{%- endmacro %}

{#- The enrichments of the project: it is known once all files are read. -#}
{% macro enrichment_names() -%}
  {%- set found = [] -%}
  {%- for node in (graph.nodes.values() if execute else []) -%}
    {%- if node.resource_type == 'model' and node.config.materialized == 'sqlenrich_responses' -%}
      {%- do found.append(node.name[:-10]) -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(found) }}
{%- endmacro %}

{#- A value of the model that sqlenrich_model chooses: ``models`` has them by adapter and alias, ``own`` is the prompt file's
    alias. On DuckDB the plugin knows the models. -#}
{% macro of_model(name, own, models, value) -%}
  {%- set known = models.get(target.type, {}) -%}
  {%- set alias = sqlenrich.chosen('sqlenrich_model', name) or own -%}
  {%- if known and alias not in known -%}
    {{- sqlenrich.refused(
      'sqlenrich: ' ~ name ~ ': sqlenrich_model is "' ~ alias ~ '", but the files know no such model on ' ~ target.type
      ~ '; they know: ' ~ known.keys() | join(', ') ~ '. Write it under [models.' ~ alias ~ '] in sqlenrich.toml, and run sqlenrich dbt '
      ~ name ~ '.prompt'
    ) -}}
  {%- endif -%}
  {{- known.get(alias, known.get(own, {})).get(value, '') -}}
{%- endmacro %}

{#- The dataset of a remote model of BigQuery: that of the prompt file or sqlenrich.toml, or sqlenrich_model_dataset. The hash
    of a request has the name as it is written there, so that the same model in another dataset has the same answers. -#}
{% macro model_dataset(written) -%}
  {%- set dataset = sqlenrich.of_target('sqlenrich_model_dataset', var('sqlenrich_model_dataset', none)) -%}
  {{- '`' ~ (dataset | replace('`', '')).split('.') | join('`.`') ~ '`' if dataset else written -}}
{%- endmacro %}

{#- The connection of AI.GENERATE: that of the prompt file, or sqlenrich_model_connection. -#}
{% macro model_connection(written) -%}
  {%- set connection = sqlenrich.of_target('sqlenrich_model_connection', var('sqlenrich_model_connection', none)) -%}
  {{- "'" ~ connection | replace("'", "") ~ "'" if connection else written -}}
{%- endmacro %}
