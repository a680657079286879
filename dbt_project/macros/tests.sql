{#- Fails where more requests are pending than the project allows. Its result is their number. -#}
{% test rows_at_most(model, rows) %}
  {{ config(fail_calc="coalesce(max(requests), 0)") }}
  select requests from (select count(*) as requests from {{ model }}) as counted where requests > {{ rows }}
{% endtest %}

{#- Fails where too many rows are refused, or all. Rows that were never asked don't count. -#}
{% test quarantine_at_most(model, share, checked) %}
  {{ config(fail_calc="coalesce(max(refused), 0)") }}
  select asked, refused
  from (
    select count(*) as asked, sum(case when _error is not null then 1 else 0 end) as refused
    from {{ sqlenrich.relation(checked) }} as c
    where _error is null or _error not in ('NO_INPUT', 'NOT_ASKED')
  ) as counted
  where asked > 0 and (refused = asked or refused > {{ share }} * asked)
{% endtest %}

{#- Fails where a row of the source is in neither result table. -#}
{% test rows_reconcile(model, prompts, quarantine) %}
  select rows_in, accepted, refused
  from (
    select
      (select count(*) from {{ prompts }}) as rows_in,
      (select count(*) from {{ model }}) as accepted,
      (select count(*) from {{ quarantine }}) as refused
  ) as counted
  where rows_in <> accepted + refused
{% endtest %}
