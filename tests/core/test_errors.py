"""The exceptions: one root, and texts that name the place."""

from __future__ import annotations

import pytest

import sqlenrich as se
from sqlenrich.core.errors import did_you_mean

KINDS = (se.SpecError, se.PromptError, se.UnsupportedError, se.ConfigError, se.RunError)


@pytest.mark.parametrize("kind", KINDS)
def test_all_of_them_are_caught_as_one(kind: type[Exception]) -> None:
    assert kind.__bases__ == (se.SqlenrichError,)
    assert not issubclass(kind, ValueError | OSError)


def test_the_tree_is_drawn_in_full() -> None:
    import sqlenrich.core.errors as errors

    found = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert found == {kind.__name__ for kind in (*KINDS, se.SqlenrichError)}
    assert all(name in (errors.__doc__ or "") for name in found)


@pytest.mark.parametrize(("error", "text"), [
    (se.SpecError("x.prompt", ["a @ b", "c"]), "x.prompt: a @ b\nx.prompt: c"),
    (se.PromptError("bad"), "prompt: bad"),
    (se.PromptError("bad", line=3), "prompt:3: bad"),
    (se.PromptError("bad", source="x.prompt", line=3), "x.prompt:3: bad"),
    (se.UnsupportedError("spark", "no such thing", "do this"), "spark: no such thing; do this"),
    (se.ConfigError("bad"), "bad"),
])  # fmt: skip
def test_texts(error: se.SqlenrichError, text: str) -> None:
    assert str(error) == text


def test_parts() -> None:
    assert se.SpecError("x", ["a", "b"]).problems == ("a", "b")
    assert (se.PromptError("m", line=2).message, se.PromptError("m", line=2).line) == ("m", 2)
    unsupported = se.UnsupportedError("spark", "f", "i")
    assert (unsupported.engine, unsupported.feature, unsupported.instead) == ("spark", "f", "i")


@pytest.mark.parametrize(("name", "known", "hint"), [
    ("temprature", ["temperature", "top_p"], " (temperature?)"),
    ("KEY", ["key"], " (key?)"),
    ("intent", ["Intent"], " (Intent?)"),
    ("zzz", ["key"], ""),
    ("x", [], ""),
    ("", ["key"], ""),
])  # fmt: skip
def test_did_you_mean(name: str, known: list[str], hint: str) -> None:
    assert did_you_mean(name, known) == hint
    assert did_you_mean(name, iter(known)) == hint
