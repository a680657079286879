{#- Made by sqlenrich from prompts/tickets.prompt;
    change that file, then run: sqlenrich dbt prompts/tickets.prompt -#}
-- depends_on: {{ ref('tickets_quarantine') }}
{{ config(materialized='table') }}
{{ tickets__enriched(sqlenrich.relation(ref('tickets_checked'))) }}
