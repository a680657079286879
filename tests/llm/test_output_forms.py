"""How endpoints are told the form of an answer: what is sent, and what follows a refusal."""

from __future__ import annotations

import json
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.ask.observer import NullObserver
from tests.support.networks import serving


class Notes(NullObserver):
    """Keeps what a run tells."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


PROMPT = """---
key: [id]
columns: {id: bigint}
output: {x: string}
---
Row {{ id }}
"""
REFUSALS = {
    "json_schema": "'response_format.type' must be 'json_object' or 'text'",
    "json_object": "response_format is not supported",
}
HINTED = "JSON"


class Server:
    """Takes some forms of the output alone; keeps what it was asked."""

    def __init__(self, *takes: str, answer: str = '{"x": "a"}') -> None:
        self.takes, self.answer = takes, answer
        self.asked: list[tuple[str, bool]] = []

    def __call__(self, _: Message, sent: bytes) -> tuple[int, dict[str, str], bytes]:
        body: dict[str, Any] = json.loads(sent)
        form = body.get("response_format", {"type": "none"})["type"]
        self.asked.append((form, HINTED in body["messages"][0]["content"]))
        if form not in self.takes:
            return 400, {}, json.dumps({"error": {"message": REFUSALS[form], "param": "response_format"}}).encode()
        choice = {"message": {"content": self.answer}, "finish_reason": "stop"}
        return 200, {}, json.dumps({"choices": [choice]}).encode()


def run(folder: Path, url: str, observer: Any = None, **settings: Any) -> se.Report:
    (folder / "rows.csv").write_text("id\n" + "".join(f"{number}\n" for number in range(20)))
    (folder / "rows.prompt").write_text(PROMPT)
    return se.run(
        se.load(folder / "rows.prompt"),
        input=folder / "rows.csv",
        output=folder / "rows.duckdb",
        model=se.Endpoint(url, model="m", concurrency=4, **settings),
        observer=observer,
    )


@pytest.mark.parametrize(
    ("takes", "settings", "asked", "told"),
    [
        (("json_schema",), {}, [("json_schema", False)] * 20, ""),
        (("json_object", "none"), {}, [("json_schema", False)] + [("json_object", True)] * 20, "with json_object"),
        (
            ("none",),
            {},
            [("json_schema", False), ("json_object", True)] + [("none", True)] * 20,
            "without a response format",
        ),
        (("json_object",), {"structured_output": "json_object"}, [("json_object", True)] * 20, ""),
        (("none",), {"structured_output": "none"}, [("none", True)] * 20, ""),
    ],
)
def test_an_endpoint_is_asked_in_a_form_that_it_takes(
    tmp_path: Path, takes: tuple[str, ...], settings: dict[str, str], asked: list[tuple[str, bool]], told: str
) -> None:
    server, observer = Server(*takes), Notes()
    with serving(server) as url:
        report = run(tmp_path, url, observer, **settings)
        assert (report.enriched, report.quarantined) == (20, 0)
        assert server.asked == asked
        notes = [note for note in observer.notes if "response format" in note]
        assert bool(notes) == bool(told)
        assert not told or (told in notes[-1] and "structured_output = " in notes[-1])
        # However it is asked, a stored answer stays one.
        again = run(tmp_path, url, structured_output="json_schema")
    assert again.calls == 0


def test_a_form_that_is_named_is_not_replaced(tmp_path: Path) -> None:
    with serving(Server("none")) as url, pytest.raises(se.RunError, match="refuses what every request sends: HTTP 400"):
        run(tmp_path, url, structured_output="json_schema")


@pytest.mark.parametrize("thought", ["<think>a or b?</think>", "<think>\n\n</think>\n\n", "```json\n"])
@pytest.mark.parametrize("form", ["json_schema", "json_object"])
def test_what_a_model_writes_before_its_answer_is_repaired(tmp_path: Path, form: str, thought: str) -> None:
    answer = thought + '{"x": "a"}' + ("\n```" if "```" in thought else "")
    with serving(Server(form, answer=answer)) as url:
        assert run(tmp_path, url, structured_output=form).enriched == 20
