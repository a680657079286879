{#- Made by sqlenrich from prompts/tickets.prompt;
    change that file, then run: sqlenrich dbt prompts/tickets.prompt -#}
{{ config(
  materialized='incremental' if target.type == 'duckdb' else 'table',
  on_schema_change='append_new_columns',
  pre_hook="{{ sqlenrich.compare_rows(tickets__prompts(sqlenrich.relation(ref('messages')))) }}",
  post_hook="{{ sqlenrich.drop_new_rows() if target.type == 'duckdb' }}"
) }}
{{ sqlenrich.new_rows(tickets__prompts(sqlenrich.relation(ref('messages')))) }}
