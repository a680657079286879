{#- Refuses macros that another version of sqlenrich wrote. -#}
{% macro made_for(version, name) -%}
  {%- if version != sqlenrich.version() -%}
    {{ exceptions.raise_compiler_error(
      'sqlenrich: the macros of ' ~ name ~ ' were written by sqlenrich ' ~ version ~ ', and the package is '
      ~ sqlenrich.version() ~ ': write them again with sqlenrich ' ~ sqlenrich.version() ~ ' (sqlenrich dbt ' ~ name
      ~ '.prompt), or take the package ' ~ version ~ ' in packages.yml and run dbt deps'
    ) }}
  {%- endif -%}
{%- endmacro %}

{#- Ends a compilation with a reason. A parse goes on: other models of the project are not concerned. -#}
{% macro refused(reason) -%}
  {%- if execute -%}{{ exceptions.raise_compiler_error(reason) }}{%- endif -%}
{%- endmacro %}
