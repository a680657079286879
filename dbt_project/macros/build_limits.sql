{#- What a whole build may ask: sqlenrich_max_build_requests, and sqlenrich_max_build_cost at the prices of sqlenrich_prices.
    The nodes of a build share no state. So the copy of what is pending, with the name of the build, stays until the build
    ends, and the other nodes count it. -#}

{#- The limits that the project sets: requests, cost. -#}
{% macro build_limits() -%}
  {%- set found = {} -%}
  {%- for what in ['requests', 'cost'] -%}
    {%- set most = var('sqlenrich_max_build_' ~ what, none) -%}
    {%- if most is not none -%}{%- do found.update({what: most | float}) -%}{%- endif -%}
  {%- endfor -%}
  {{ return(found) }}
{%- endmacro %}

{#- The copy of what is pending: the answers of one statement must not change the next. -#}
{% macro asking_of(answers) -%}
  {{ return(answers.incorporate(path={'identifier': answers.identifier ~ '_asking'})) }}
{%- endmacro %}

{#- What is pending, with the name of the build. -#}
{% macro pending_of_build(pending) -%}
  {{ return("(select *, '" ~ invocation_id ~ "' as run_id from " ~ pending ~ ") as of_build") }}
{%- endmacro %}

{#- Refuses a node that would ask too much together with the other nodes of the build. Its copy is emptied, so that a node
    that asks less can go on. Of nodes that count at the same time the first by its name waits until the others gave up. -#}
{% macro check_build(answers, asking, pending) -%}
  {%- set limits = sqlenrich.build_limits() -%}
  {%- if limits -%}
    {%- set found = namespace(asked=none, over='', waits=true) -%}
    {%- for look in range(50) if found.waits -%}
      {%- set found.asked = sqlenrich.asked_by_build(asking) -%}
      {%- set found.over = '' -%}
      {%- for what, most in limits.items() if found.asked.own[what] + found.asked.others[what] > most -%}
        {%- set found.over = what -%}
      {%- endfor -%}
      {%- set alone = found.over and found.asked.own[found.over] > limits[found.over] -%}
      {%- set found.waits = found.over and found.asked.first and not alone -%}
      {%- if found.waits -%}
        {#- A transaction does not see what the others gave up since it began. -#}
        {{ adapter.commit() }}
        {%- call statement('look_' ~ look) -%} select {{ look }} as look {%- endcall -%}
      {%- endif -%}
    {%- endfor -%}
    {%- if found.over -%}
      {%- set what, asked = found.over, found.asked -%}
      {%- for text in sqlenrich.create_asking(asking, sqlenrich.pending_of_build(pending) ~ ' where 1 = 0') -%}
        {%- do run_query(text) -%}
      {%- endfor -%}
      {%- do sqlenrich.release_lock(answers, none) -%}
      {{ adapter.commit() }}
      {%- set total = asked.own[what] + asked.others[what] -%}
      {{ exceptions.raise_compiler_error(
        'sqlenrich: ' ~ answers.identifier ~ ' would ask ' ~ sqlenrich.amount(asked.own)
        ~ ', and the other nodes of this build ask ' ~ sqlenrich.amount(asked.others) ~ ', but sqlenrich_max_build_' ~ what
        ~ ' is ' ~ var('sqlenrich_max_build_' ~ what) ~ ': nothing was asked here. To pay for them: --vars "{sqlenrich_max_build_'
        ~ what ~ ': ' ~ (sqlenrich.money(total) if what == 'cost' else total) ~ '}"'
      ) }}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}

{#- Requests, and where they have prices their cost. -#}
{% macro amount(asked) -%}
  {{ return(asked.requests ~ ' requests' ~ (' for about ' ~ sqlenrich.money(asked.cost) if 'cost' in sqlenrich.build_limits() else '')) }}
{%- endmacro %}

{#- An amount with four decimals, rounded up. -#}
{% macro money(amount) -%}
  {%- set parts = (amount * 10000) | int -%}
  {{ return((parts if parts == amount * 10000 else parts + 1) / 10000) }}
{%- endmacro %}

{#- What the node of ``asking`` would ask, and what the other nodes of this build asked or are about to ask: not those that
    the limits refuse by themselves. ``first``: no other one has a name before that of this node. -#}
{% macro asked_by_build(asking) -%}
  {%- set priced = 'cost' in sqlenrich.build_limits() -%}
  {%- set bytes_of = {'duckdb': 'strlen', 'bigquery': 'byte_length'} -%}
  {%- set bytes = 'sum(' ~ bytes_of.get(target.type, 'octet_length') ~ '(prompt))' if priced else '0' -%}
  {%- set nodes, counts = [], [] -%}
  {%- for node, copy in sqlenrich.copies_of_pending(asking) -%}
    {%- do nodes.append([node, 'own' if sqlenrich.same_relation(copy, asking) else 'others']) -%}
    {%- do counts.append(
      "select " ~ loop.index0 ~ " as place, count(*) as requests, " ~ bytes ~ " as bytes from " ~ copy ~ " where run_id = '"
      ~ invocation_id ~ "'"
    ) -%}
  {%- endfor -%}
  {%- set limits = sqlenrich.build_limits() -%}
  {%- set asked = {'own': {'requests': 0, 'cost': 0}, 'others': {'requests': 0, 'cost': 0}, 'first': true} -%}
  {%- for row in run_query(counts | join(" union all ")).rows -%}
    {%- set node, whose = nodes[row[0] | int] -%}
    {%- set requests = row[1] | int -%}
    {%- set cost = sqlenrich.cost_of(node, requests, (row[2] or 0) | int) if priced and requests > 0 else 0 -%}
    {%- set refused = requests > limits.get('requests', requests) or cost > limits.get('cost', cost) -%}
    {%- if whose == 'own' or not refused -%}
      {%- do asked[whose].update({'requests': asked[whose].requests + requests, 'cost': asked[whose].cost + cost}) -%}
    {%- endif -%}
    {%- if whose == 'others' and requests > 0 and not refused and node.unique_id < model.unique_id -%}
      {%- do asked.update({'first': false}) -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(asked) }}
{%- endmacro %}

{#- What requests cost at most, as "sqlenrich plan" estimates it: four bytes are a token, and each answer has max_tokens. -#}
{% macro cost_of(node, requests, bytes) -%}
  {%- set call, price = sqlenrich.call_of(node), sqlenrich.price_of(node) -%}
  {%- set tokens_in = bytes / 4 + requests * call.tokens_beside -%}
  {{ return((tokens_in * price.input + requests * call.max_tokens * price.output) / 1000000) }}
{%- endmacro %}

{#- What the properties of a node say of its requests: model, tokens_beside, max_tokens. -#}
{% macro call_of(node) -%}
  {%- set call = (node.config.meta or {}).get('sqlenrich_call', {}).get(target.type) -%}
  {%- set alias = sqlenrich.chosen('sqlenrich_model', node.name[:-10]) -%}
  {{ return(call.get('models', {}).get(alias, call) if call and alias else call) }}
{%- endmacro %}

{#- The prices of a node's model. A sqlenrich_prices with input and output is that of every model; none where it is missing. -#}
{% macro price_of(node) -%}
  {%- set prices = var('sqlenrich_prices', none) or {} -%}
  {%- set price = prices if 'input' in prices else prices.get(sqlenrich.call_of(node).model) -%}
  {{ return(price if price and 'input' in price and 'output' in price else none) }}
{%- endmacro %}

{#- Refuses a node whose cost nobody can tell, where the project limits it. -#}
{% macro check_prices(node) -%}
  {%- if 'cost' in sqlenrich.build_limits() -%}
    {%- set call = sqlenrich.call_of(node) -%}
    {%- set name = node.name[:-10] -%}
    {%- set problem = namespace(text='') -%}
    {%- if not call -%}
      {%- set problem.text = 'its properties say nothing of it, write them with sqlenrich dbt ' ~ name ~ '.prompt' -%}
    {%- elif call.max_tokens is none -%}
      {%- set problem.text = 'write max_tokens into the params of ' ~ name ~ '.prompt, and run sqlenrich dbt ' ~ name ~ '.prompt' -%}
    {%- elif sqlenrich.price_of(node) is none -%}
      {%- set problem.text = 'set the prices of a million tokens: sqlenrich_prices: {'
        ~ ('"' ~ call.model ~ '": {input: ..., output: ...}' if call.model else 'input: ..., output: ...') ~ '}' -%}
    {%- endif -%}
    {%- if problem.text -%}
      {{ exceptions.raise_compiler_error(
        'sqlenrich: ' ~ node.name ~ ': sqlenrich_max_build_cost is set, but what its requests cost is unknown, so nothing was '
        ~ 'asked: ' ~ problem.text
      ) }}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}

{#- The nodes of this build whose copies exist, each with its copy; that of ``asking`` does. dbt made their schemas. -#}
{% macro copies_of_pending(asking) -%}
  {%- set tables, found = {}, [] -%}
  {%- for node in sqlenrich.asking_nodes() -%}
    {%- set copy = sqlenrich.asking_of(sqlenrich.relation_at(node, node.alias)) -%}
    {%- set schema = ((copy.database or '') ~ '.' ~ copy.schema) | lower -%}
    {%- if schema not in tables -%}
      {%- do tables.update({schema: sqlenrich.tables_of(copy, known=node.unique_id in selected_resources) | map('lower') | list}) -%}
    {%- endif -%}
    {%- if sqlenrich.same_relation(copy, asking) or copy.identifier | lower in tables[schema] -%}{%- do found.append([node, copy]) -%}{%- endif -%}
  {%- endfor -%}
  {{ return(found) }}
{%- endmacro %}

{#- The nodes of this build that ask a model. -#}
{% macro asking_nodes() -%}
  {%- set found = [] -%}
  {%- for node in graph.nodes.values() -%}
    {%- if node.resource_type == 'model' and node.config.materialized == 'sqlenrich_responses' -%}
      {%- if not selected_resources or node.unique_id in selected_resources -%}{%- do found.append(node) -%}{%- endif -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(found) }}
{%- endmacro %}
