{#- Made by sqlenrich from prompts/tickets.prompt;
    change that file, then run: sqlenrich dbt prompts/tickets.prompt -#}
{{ config(materialized='table') }}
{{ tickets__checked(
  sqlenrich.relation(ref('tickets_prompts')),
  sqlenrich.stored_responses(ref('tickets_responses'), 'tickets_responses')
) }}
