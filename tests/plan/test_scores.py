"""The scores of a classifier's weights: the same answers and leads on every engine as in Python."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlglot import exp

import sqlenrich as se
from sqlenrich.core.names import identifier
from sqlenrich.core.printer import print_sql
from sqlenrich.core.types import DOUBLE, STRING, Type
from sqlenrich.engines import get_engine
from sqlenrich.plan.references import References
from sqlenrich.plan.relations import Relations
from sqlenrich.plan.scores_query import scores_query
from sqlenrich.spec.classifier import Classifier, ColumnFilter
from sqlenrich.spec.weights import Weights, grams_of, mark_of, read_weights
from tests.support.in_memory import in_memory

Table = tuple[Mapping[str, Type], Sequence[Sequence[Any]]]
SCRIPTS = {
    "latin": "the Card is LOST naïve façade über İstanbul ﬁ",
    "greek": "η κάρτα ΧΆΘΗΚΕ Σίσυφος ς",
    "cyrillic": "Моя карта ПОТЕРЯНА ёж",
    "arabic": "فقدت بطاقتي أمس لا",
    "hebrew": "הכרטיס שלי אבד",
    "devanagari": "मेरा कार्ड खो गया",
    "bengali": "আমার কার্ড হারিয়ে",
    "thai": "บัตรของฉันหาย เมื่อวาน",
    "chinese": "我的卡丢了 昨天 銀行",
    "japanese": "カードをなくした ヷ 銀行",
    "korean": "카드를 잃어버렸어요 어제",
    "emoji": "😀 👩‍👩‍👧 🏳️‍🌈 é é 𝔘𝔫𝔦",
}
MARKS = ["!", "?", " ", "  ", "\t", "\n", "'", '"', "\\", "${x}", "{{", "#", "--", "`", "a", "-7", " ", "​"]
SEED, TEXTS, VALUES = 7, 10_000, 5


def drawn_texts(count: int, seed: int = SEED) -> list[str]:
    """Texts of words of all scripts, with what stands between words."""
    draw = random.Random(seed)
    words = [word for text in SCRIPTS.values() for word in text.split(" ")]
    made = ["", " ", "?", "a", "A b", "x" * 300]
    while len(made) < count:
        own = draw.choice([*SCRIPTS.values()]).split(" ") if draw.random() < 0.7 else words
        parts = [draw.choice(own) + draw.choice([" ", " ", " ", draw.choice(MARKS)]) for _ in range(draw.randint(1, 8))]
        made.append("".join(parts) + f"{draw.randint(0, 99)}")
    return made


def drawn_weights(texts: Sequence[str], cut: tuple[int, int], seed: int = SEED) -> Weights:
    """Weights of half of the words and pieces of some texts; each seventh text is known."""
    draw = random.Random(seed)
    grams = sorted({gram for text in texts for gram in grams_of(text) if hash_of(gram)[0] in "01234567"})
    rows: list[tuple[object, ...]] = [(gram, *(draw.randint(-900, 900) for _ in range(VALUES))) for gram in grams]
    rows += [(mark_of(text), *([0] * VALUES)) for text in dict.fromkeys(texts[::7])]
    return Weights("kind", ("a", "it's", 'ü "q"', "\\", "😀"), (5, -3, 0, 0, -12), cut, rows)


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def _duckdb() -> Iterator[Any]:
    import pyarrow as pa

    with in_memory() as connection:

        def run(sql: str, tables: Mapping[str, Table]) -> Any:
            for name, (columns, rows) in tables.items():
                lists = zip(columns, zip(*rows, strict=True), strict=True)
                connection.register(name, pa.table({column: pa.array(values) for column, values in lists}))
            return connection.execute(sql).fetchall()

        yield run


@contextmanager
def _spark() -> Iterator[Any]:
    import pyarrow as pa

    from tests.standins.spark import spark_session

    session = spark_session()

    def run(sql: str, tables: Mapping[str, Table]) -> Any:
        for name, (columns, rows) in tables.items():
            lists = zip(columns, zip(*rows, strict=True), strict=True)
            table = pa.table({column: pa.array(values) for column, values in lists})
            session.createDataFrame(table).createOrReplaceTempView(name)
        return [tuple(row) for row in session.sql(sql).collect()]

    yield run


@contextmanager
def _bigquery() -> Iterator[Any]:
    from tests.standins.googlesql import googlesql

    yield lambda sql, tables: googlesql().evaluate(sql, written(tables, "bigquery"))


@contextmanager
def _snowflake() -> Iterator[Any]:
    from tests.standins import snowflake

    yield lambda sql, tables: snowflake.rows(sql, written(tables, "snowflake"))


def written(tables: Mapping[str, Table], engine: str) -> dict[str, Any]:
    words = get_engine(engine)
    return {
        name: (
            {one if words.quotes_always else identifier(words, one).sql(words.dialect):
             words.sql_type(kind).sql(words.dialect) for one, kind in columns.items()},
            rows,
        )
        for name, (columns, rows) in tables.items()
    }  # fmt: skip


RUNNERS = {"duckdb": _duckdb, "spark": _spark, "bigquery": _bigquery, "snowflake": _snowflake}


ON_ENGINES = pytest.mark.parametrize(
    "engine",
    [
        "duckdb",
        pytest.param("spark", marks=pytest.mark.spark),
        pytest.param("bigquery", marks=pytest.mark.zetasql),
        "snowflake",
    ],
)


@ON_ENGINES
def test_answers_and_leads_are_those_of_python(engine: str) -> None:
    before, behind = "Which kind?\nText: ", "\nAnswer:"
    # What interprets row by row is slow: it has fewer of the same texts.
    texts = drawn_texts(TEXTS if engine == "duckdb" else 1_000)
    weights = drawn_weights(texts[:300], (len(before), len(behind)))
    prompts = {hash_of(text): before + text + behind for text in texts}
    expected = {key: found for key, prompt in prompts.items() if (found := weights.decide(prompt)) is not None}
    assert len({answer for answer, _ in expected.values()}) == VALUES
    assert 0 < len(prompts) - len(expected) < 60
    sql = printed(engine, weights)
    rows = [*prompts.items(), *[*prompts.items()][:20], (None, None)]
    given: dict[str, Table] = {
        "prompts": ({"request_hash": STRING, "prompt": STRING}, rows),
        "weights": (weights.columns, weights.rows),
    }
    with RUNNERS[engine]() as run:
        found = run(sql, given)
    assert len(found) == len(expected)
    assert {key: (answer, int(score)) for key, answer, score in found} == expected


@ON_ENGINES
def test_a_filter_scores_what_has_a_number(engine: str) -> None:
    """The highest number of equal prompts counts; one without a number leaves the request to the model."""
    numbers: dict[str, list[float | None]] = {
        "one": [0.25], "low": [-3.5], "equal": [0.5, -1.0], "none": [None], "half": [0.5, None],
    }  # fmt: skip
    if engine in ("duckdb", "spark"):  # the others' rows are written as literals
        numbers |= {"nan": [float("nan")], "inf": [float("inf")], "-inf": [float("-inf")]}
    rows = [(key, key, number) for key, listed in numbers.items() for number in listed]
    columns = {"request_hash": STRING, "prompt": STRING, "likeness": DOUBLE}
    sql = printed(engine, ColumnFilter("likeness", {"kind": "it's", "n": 1}))
    with RUNNERS[engine]() as run:
        found = run(sql, {"prompts": (columns, [*rows, (None, None, 0.5)])})
    answer = '{"kind":"it\'s","n":1}'
    assert sorted(map(tuple, found)) == [("equal", answer, -0.5), ("low", answer, 3.5), ("one", answer, -0.25)]


def printed(engine: str, classifier: Classifier) -> str:
    words = get_engine(engine)
    tables = Relations(words, {role: exp.to_table(role) for role in ("prompts", "weights")})
    return print_sql(words, tables.bound(scores_query(References(words), classifier)))


def test_a_file_holds_what_was_written(tmp_path: Path) -> None:
    weights = drawn_weights(drawn_texts(20), (3, 0))
    weights.write(tmp_path / "kind.weights.parquet")
    assert read_weights(tmp_path / "kind.weights.parquet") == weights
    (tmp_path / "other.parquet").write_bytes(b"PAR1")
    with pytest.raises(se.ConfigError, match=r"other\.parquet can't be read: .*; sqlenrich distill makes it"):
        read_weights(tmp_path / "other.parquet")
