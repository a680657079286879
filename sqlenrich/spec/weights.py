"""The weights of a classifier that plain SQL computes: a file, and what it reads of a text."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.json import compact_json
from sqlenrich.core.types import BIGINT, STRING, Type
from sqlenrich.spec.enrichment import Enrichment

CLASSIFIERS = "distilled:"
"""How the names of all classifiers begin."""
FORMAT = 1
"""The version of the file."""
METADATA = b"sqlenrich"
UPPER, LOWER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
NO_WORD = "\t\r\n!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
"""The characters between words, besides a space. Others, such as those of a text in Chinese, are parts of words."""
FROM, TO = UPPER + NO_WORD, LOWER + " " * len(NO_WORD)
PIECES = (2, 3)
"""The characters of a piece of a word, the space before and behind it included."""
KNOWN_MARK, KNOWN_DIGITS = "#", 16
"""What precedes the hash of a text that the weights were fitted on, and its digits. No piece has the mark."""


@dataclass(frozen=True)
class Weights:
    """A linear classifier: the value of a field whose weights over a text's words and pieces of words sum highest."""

    field: str
    values: tuple[str | bool, ...]
    """The values of the field, one a column of weights."""
    bias: tuple[int, ...]
    """What each sum begins with."""
    cut: tuple[int, int]
    """The characters at the beginning and at the end of each prompt that are the same in all."""
    rows: Sequence[tuple[object, ...]]
    """A word, a pair of words or a piece of a word, and its weight for each value; a known text, and zeros."""

    @property
    def columns(self) -> dict[str, Type]:
        """The columns of the table."""
        return {"gram": STRING, **dict.fromkeys(self.names, BIGINT)}

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of weights."""
        return tuple(f"w{place}" for place in range(1, len(self.values) + 1))

    @property
    def model(self) -> str:
        """What stored answers name as their model."""
        return f"{CLASSIFIERS}{self.field}"

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of an answer."""
        return (self.field,)

    @property
    def answers(self) -> tuple[str, ...]:
        """The answer for each value, as a model would write it."""
        return tuple(compact_json({self.field: value}) for value in self.values)

    @cached_property
    def digest(self) -> str:
        """A row of the table by which the version of the weights is known; it is last, so that it tells of all."""
        parts = (self.field, self.values, self.bias, self.cut, tuple(self.rows))
        return f"{KNOWN_MARK}weights {hashlib.sha256(repr(parts).encode()).hexdigest()}"

    @cached_property
    def _known(self) -> Mapping[object, Sequence[object]]:
        return {row[0]: row[1:] for row in self.rows}

    def text_of(self, prompt: str) -> str:
        """Return what a prompt has of its row."""
        first, last = self.cut
        return prompt[first : max(first, len(prompt) - last)]

    def decide(self, prompt: str) -> tuple[str, int] | None:
        """Return the answer and its lead over the next one, as SQL computes them; None for a known text."""
        known, text = self._known, self.text_of(prompt)
        if mark_of(text) in known:
            return None
        sums = list(self.bias)
        for gram, count in grams_of(text).items():
            for place, weight in enumerate(known.get(gram, ())):
                assert isinstance(weight, int)
                sums[place] += count * weight
        best = max(range(len(sums)), key=lambda place: (sums[place], -place))
        return self.answers[best], sums[best] - max(one for place, one in enumerate(sums) if place != best)

    def write(self, path: Path) -> None:
        """Write the file."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        told = {"format": FORMAT, "field": self.field, "values": self.values, "bias": self.bias, "cut": self.cut}
        types = [pa.string(), *[pa.int64() for _ in self.names]]
        listed = list(zip(*self.rows, strict=True)) or [()] * len(types)
        arrays = [pa.array(column, kind) for column, kind in zip(listed, types, strict=True)]
        table = pa.table(dict(zip(self.columns, arrays, strict=True)))
        pq.write_table(table.replace_schema_metadata({METADATA: json.dumps(told)}), path, compression="zstd")


def beside(enrichment: Enrichment, file: str) -> Path:
    """Return the path of a file that is named relative to the prompt file."""
    return (Path() if enrichment.path is None else enrichment.path.parent) / file


def read_weights(path: Path) -> Weights:
    """Return the weights of a file. Raises ConfigError where it has none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"{path} can't be read: {reason}; sqlenrich distill makes it") from None
    told = json.loads((table.schema.metadata or {}).get(METADATA, b"{}"))
    if told.get("format") != FORMAT:
        raise ConfigError(f"{path} has no weights of this version: sqlenrich distill makes them")
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    first, last = told["cut"]
    return Weights(told["field"], tuple(told["values"]), tuple(told["bias"]), (first, last), rows)


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, which is that of ASCII alone."""
    return [word for word in text.translate(_CASE).split(" ") if word]


def grams_of(text: str) -> Counter[str]:
    """Return what is counted of a text: its words, pieces of words, and pairs of words."""
    words = words_of(text)
    found = Counter(f"{first} {second}" for first, second in pairwise(words))
    for word in words:
        padded = f" {word} "
        found[padded] += 1
        for size in PIECES:
            found.update(padded[start : start + size] for start in range(len(padded) - size + 1))
    return found


def mark_of(text: str) -> str:
    """Return the row by which a text is known."""
    return KNOWN_MARK + hashlib.sha256(text.encode()).hexdigest()[:KNOWN_DIGITS]


_CASE = str.maketrans(FROM, TO)
