"""Runs whose requests are rebuilt: three versions of a prompt, an endpoint that fails, feedback, another model."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import OUTPUT, ask, call, write_csv, write_prompt

TEXTS = ('say "yes"\n\tand 1 < 2', "Größe 10 €", "\u2028 back\\slash", "👍 ok", "{{ not a value }}", "a" * 500)
"""Parts of the rows' texts that a body has to escape."""
CONTENTS = (
    '{"label":"a","urgency":3}', '```json\n{"label":"b","urgency":2}\n```', '{"label":"z","urgency":3}',
    '{"label":"a","urgency":9}', "The text does not say.", '{"label":"c","urgency":1}', '{"label":"b"}',
)  # fmt: skip
"""Accepted, repaired and refused answers."""
FAULTS = {
    "500": 0.02, "429": 0.02, "reset": 0.01, "no_choices": 0.01, "400_policy": 0.02, "refusal": 0.02,
    "cut_short": 0.03, "empty": 0.01,
}  # fmt: skip
"""Each fault and its share of the requests."""
VERSIONS: tuple[tuple[str, str, str], ...] = (
    ("version: 1\nparams: {temperature: 0, max_tokens: 64}\n", "Classify: {{ body }}", OUTPUT),
    (
        "version: 2\nparams: {temperature: 0.25, max_tokens: 48}\n"
        'system: "{% if id | length > 2 %}You label no. {{ id }}: {{ body[:9] }}{% endif %}"\n',
        "Label {{ id }}: {{ body }}",
        OUTPUT,
    ),
    (
        'version: "3"\nparams: {max_tokens: 32}\nsystem: You label.\n'
        'messages: [{role: user, content: "hé"}, {role: assistant, content: "{}"}]\n',
        "{{ body }}\nWhich label?",
        OUTPUT.replace("[a, b, c]", "[a, b, c, d]"),
    ),
)
"""What each version has in its header, its template and its output."""


class ChangingEndpoint(ScriptedEndpoint):
    """Answers by the prompt and how often it was asked: a retry may be answered otherwise."""

    def __init__(self, seed: int, **options: Any) -> None:
        super().__init__(rates=FAULTS, calm=20, models=("mock", "small"), seed=seed, **options)
        self.chance = random.Random(seed)

    def text(self, prompt: str, body: Mapping[str, Any]) -> str:  # noqa: ARG002
        return self.chance.choice(CONTENTS)


@dataclass
class AuditedRuns:
    """The database of the runs, their prompt file, and each body that the endpoint got."""

    prompt: Path
    output: Path
    bodies: Counter[bytes] = field(default_factory=Counter)


def audited_runs(folder: Path, count: int, seed: int = 1) -> AuditedRuns:
    """Run three versions of a prompt over a third of the rows each, and ask again after each what was refused."""
    chance, output = random.Random(seed), folder / "out.duckdb"
    lines = [(i, f"{chance.choice(TEXTS)} {i % (count * 9 // 10)}") for i in range(count)]
    prices = folder / "prices.toml"
    prices.write_text("as_of = 2026-11-01\n" + "".join(
        f'[models."{name}"]\ninput = 0.15\noutput = 0.6\n' for name in ("mock", "small")))  # fmt: skip
    with ChangingEndpoint(seed) as endpoint:
        for number, (header, template, schema) in enumerate(VERSIONS):
            part = lines[number * count // 3 : (number + 1) * count // 3]
            data = write_csv(folder / f"part{number}.csv", part)
            own = "key: [id]\nkeep: [body]\nretry: {feedback: true, max_attempts: 4}\n" + header
            prompt = write_prompt(folder, own, template, output=schema)
            result = ask(prompt, data, output, endpoint.url, "--incremental", "--prices", prices)
            assert result.status in (0, 3, 4), result.err
            for model in ("mock", "small"):
                options = ("--endpoint", endpoint.url, "--model", model, "--max-attempts", 3 if model == "mock" else 4)
                result = call("retry", prompt, "--output", output, *options, "--json", "--prices", prices)
                assert result.status in (0, 3, 4), result.err
        return AuditedRuns(prompt, output, Counter(seen.body for seen in endpoint.asked))
