{#- Made by sqlenrich 0.1.0 from prompts/tickets.prompt, version 1, fingerprint 8c4bfb0cbb78f343;
    change that file, then run: sqlenrich dbt prompts/tickets.prompt -#}
{{ config(materialized='table') }}
{{ tickets__quarantine(sqlenrich.relation(ref('tickets_checked'))) }}
