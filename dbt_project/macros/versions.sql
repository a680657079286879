{#- Refuses macros that another version of sqlenrich wrote. -#}
{% macro made_for(version, name) -%}
  {#- By another name, dbt does not find that this macro depends on that one: a new version is no change of a node. -#}
  {%- set version_of = sqlenrich.version -%}
  {%- set installed = version_of() | trim -%}
  {%- if version | trim != installed -%}
    {{ exceptions.raise_compiler_error(
      'sqlenrich: the macros of ' ~ name ~ ' were written by sqlenrich ' ~ version | trim ~ ', and the package is '
      ~ installed ~ ': write them again with sqlenrich ' ~ installed ~ ' (sqlenrich dbt ' ~ name
      ~ '.prompt), or take the package ' ~ version ~ ' in packages.yml and run dbt deps'
    ) }}
  {%- endif -%}
{%- endmacro %}

{#- Ends a compilation with a reason. A parse goes on: other models of the project are not concerned. -#}
{% macro refused(reason) -%}
  {%- if execute -%}{{ exceptions.raise_compiler_error(reason) }}{%- endif -%}
{%- endmacro %}
