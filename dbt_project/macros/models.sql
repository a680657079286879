{#- Which model an enrichment asks, and where a warehouse's own object of it lies: by variables, so that a target asks a
    cheaper model with the same prompt file. -#}

{#- The value of a variable for an enrichment: one for all, or by the names of enrichments and targets, one within the other. -#}
{% macro chosen(variable, name) -%}
  {%- set found = namespace(value=var(variable, none)) -%}
  {%- for level in ['enrichments', 'targets'] -%}
    {%- if found.value is mapping -%}
      {%- set found.value = found.value.get(name, found.value.get(target.name)) -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(found.value) }}
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
  {%- set dataset = var('sqlenrich_model_dataset', none) -%}
  {%- set dataset = dataset.get(target.name) if dataset is mapping else dataset -%}
  {{- '`' ~ (dataset | replace('`', '')).split('.') | join('`.`') ~ '`' if dataset else written -}}
{%- endmacro %}

{#- The connection of AI.GENERATE: that of the prompt file, or sqlenrich_model_connection. -#}
{% macro model_connection(written) -%}
  {%- set connection = var('sqlenrich_model_connection', none) -%}
  {%- set connection = connection.get(target.name) if connection is mapping else connection -%}
  {{- "'" ~ connection | replace("'", "") ~ "'" if connection else written -}}
{%- endmacro %}
