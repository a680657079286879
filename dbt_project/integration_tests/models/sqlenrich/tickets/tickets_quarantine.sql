{#- Made by sqlenrich from prompts/tickets.prompt;
    change that file, then run: sqlenrich dbt prompts/tickets.prompt -#}
{{ config(materialized='table') }}
{{ tickets__quarantine(sqlenrich.relation(ref('tickets_checked'))) }}
