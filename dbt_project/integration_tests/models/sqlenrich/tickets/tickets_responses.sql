{#- Made by sqlenrich from prompts/tickets.prompt;
    change that file, then run: sqlenrich dbt prompts/tickets.prompt -#}
{{ config(materialized='sqlenrich_responses', meta={'sqlenrich_constant': tickets__model('constant')}) }}
{{ sqlenrich.asked_or_shown(tickets__responses(ref('tickets_pending')), ref('tickets_prompts')) }}
