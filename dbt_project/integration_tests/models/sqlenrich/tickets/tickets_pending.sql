{#- Made by sqlenrich from prompts/tickets.prompt;
    change that file, then run: sqlenrich dbt prompts/tickets.prompt -#}
{{ config(
  materialized='view',
  pre_hook="{{ sqlenrich.prepare_responses('tickets_responses', ref('tickets_prompts')) }}"
) }}
{{ tickets__pending(
  sqlenrich.relation(ref('tickets_prompts')),
  sqlenrich.stored_responses(sqlenrich.responses_relation('tickets_responses'), 'tickets_responses')
) }}
