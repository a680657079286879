"""Columns that are called as the script calls its own relations: they are still the columns."""

from __future__ import annotations

import pytest

from sqlenrich.core.types import STRING
from sqlenrich.spec.loader import loads
from tests.prompt.test_conformance import Outcome, each_expression, run_script

ENRICHMENT = """---
source: source
key: [{key}]
keep: [note]
output:
  type: object
  properties:
    label: {{type: string}}
---
{prompt} {{{{ note }}}}"""
GROUPS = ("source rendered answered parsed", "SOURCE judged accepted r", "source_ p doc asked")
"""The names of one enrichment. A name that a relation would take in the place of another stands in another group."""


@each_expression
@pytest.mark.parametrize("group", GROUPS)
def test_columns_may_have_the_names_of_relations(group: str, engine: str) -> None:
    names = group.split()
    prompt = " ".join(f"{{{{ {name} }}}}" for name in names)
    enrichment = loads(ENRICHMENT.format(key=", ".join(names), prompt=prompt), name="things")

    def reply(prompt: str) -> Outcome:
        return Outcome(f'{{"label": "{prompt}"}}')

    values = {name: f"{name} of {place}" for place, name in enumerate(names)} | {"note": "n"}
    (tables,) = run_script(engine, enrichment, dict.fromkeys(values, STRING), [tuple(values.values())], reply)
    (row,) = tables["enriched"]
    assert {name: row[name] for name in values} == values
    assert row["label"] == " ".join(values.values())
