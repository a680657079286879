"""Columns that are called as the script calls its own relations: they are still the columns."""

from __future__ import annotations

import pytest

from sqlenrich.core.types import STRING
from sqlenrich.spec.loader import loads
from tests.prompt.test_conformance import Outcome, each_expression, run_script

ENRICHMENT = """---
source: source
key: [{name}]
keep: [note]
output:
  type: object
  properties:
    label: {{type: string}}
---
{{{{ {name} }}}} {{{{ note }}}}"""
NAMES = "source SOURCE source_ rendered answered parsed judged accepted r p doc asked".split()


@each_expression
@pytest.mark.parametrize("name", NAMES)
def test_a_column_may_have_the_name_of_a_relation(name: str, engine: str) -> None:
    enrichment = loads(ENRICHMENT.format(name=name), name="things")

    def reply(prompt: str) -> Outcome:
        return Outcome(f'{{"label": "{prompt}"}}')

    (tables,) = run_script(engine, enrichment, {name: STRING, "note": STRING}, [("k", "n")], reply)
    assert [(row[name], row["note"], row["label"]) for row in tables["enriched"]] == [("k", "n", "k n")]
