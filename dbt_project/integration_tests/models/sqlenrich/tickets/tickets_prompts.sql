{#- Made by sqlenrich 0.1.0 from prompts/tickets.prompt, version 1, fingerprint 8c4bfb0cbb78f343;
    change that file, then run: sqlenrich dbt prompts/tickets.prompt -#}
{{ config(
  materialized='incremental' if target.type == 'duckdb' else 'table',
  on_schema_change='append_new_columns',
  pre_hook="{{ sqlenrich.compare_rows(tickets__prompts(sqlenrich.relation(ref('messages')))) }}",
  post_hook="{{ sqlenrich.drop_new_rows() if target.type == 'duckdb' }}"
) }}
{{ sqlenrich.new_rows(tickets__prompts(sqlenrich.relation(ref('messages')))) }}
