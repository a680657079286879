"""How often a distilled classifier misses its target, how many rows it decides, and how fast SQL scores them.

    python benchmarks/distill.py train.csv test.csv [--trials 1000] [--sample 1000] [--rows 1000000] [--seed 1]

The files have the columns ``text`` and ``category``, as those of Banking77 have. The model is the label: one of 77
categories, one of 7 groups of them, one of 2 groups, or drawn by chance. The weights are fitted on some texts; the
others are decided by the SELECT that a run executes, in DuckDB. Each trial draws a sample of them, finds the lead by
the function that a run calls, and compares it with all of them. ``plain`` is a TF-IDF logistic regression that decides
all rows, without a certificate. A filter decides texts that are of none of two intents, or that are unlike some
examples of three; ``kept`` is the mean share of the texts of these intents that the model is asked about. At the end
``--rows`` texts with 7 groups are scored on all processors.
"""

from __future__ import annotations

import argparse
import csv
import random
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sqlglot import exp

from sqlenrich.core.printer import print_sql
from sqlenrich.engines import get_engine
from sqlenrich.plan.cascade_queries import QUANTILES
from sqlenrich.plan.references import References
from sqlenrich.plan.relations import Relations
from sqlenrich.plan.scores_query import scores_query
from sqlenrich.quality.distill import fit_weights
from sqlenrich.runner.threshold import certified_threshold
from sqlenrich.spec.cascade import DEFAULT_DELTA
from sqlenrich.spec.weights import Weights

TARGETS = (0.90, 0.95, 0.98)
CASES = (("2 groups", 1_000), ("7 groups", 5_000), ("77 intents", 2_500), ("77 intents", 5_000), ("chance", 5_000))
FILTERS = (
    ("2 of 77 intents", 2_500),
    ("2 of 77 intents", 5_000),
    ("3 % by chance", 5_000),
    ("like 3 of 77 intents", 20),
    ("like 3 % by chance", 20),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--trials", type=int, default=1_000)
    parser.add_argument("--sample", type=int, default=1_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    draw = np.random.default_rng(given.seed)
    rows = [row for file in given.files for row in csv.DictReader(file.open(encoding="utf-8", newline=""))]
    texts = dict.fromkeys(row["text"] for row in rows)
    labels = {row["text"]: row["category"] for row in rows}
    order = [[*texts][place] for place in draw.permutation(len(texts))]
    print(f"{len(order):,} distinct texts, samples of {given.sample:,}, {given.trials:,} trials each")
    print("values      labels  right  plain  target  missed  decided  agreement  certified")
    kept: Weights | None = None
    warnings.simplefilter("ignore")
    for name, count in CASES:
        truth = grouped(labels, name)
        weights = fit_weights("kind", truth, order[:count], (0, 0))
        kept = weights if name == "7 groups" else kept
        rest = order[count:]
        answers, leads = scored(weights, rest)
        wanted = np.array([truth[text] for text in rest])
        same = answers == wanted
        plain = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LogisticRegression(C=30))
        other = plain.fit(order[:count], [truth[text] for text in order[:count]]).predict(rest) == wanted
        for target in TARGETS:
            told = trials(leads, same, target, given.sample, given.trials, draw)
            print(
                f"{name:<10}  {count:>6,}  {same.mean():>5.1%}  {other.mean():>5.1%}    {target:.2f}  {told}",
                flush=True,
            )
    print("filter, values         labels  positive  recall  missed  decided   kept  certified")
    for name, count in FILTERS:
        filtered(name, count, labels, order, given, draw)
    assert kept is not None
    drawn = [
        f"{order[place]} {number % 977}" for number, place in enumerate(draw.integers(len(order), size=given.rows))
    ]
    seconds = [scored_in(kept, drawn) for _ in range(3)]
    print(f"{given.rows:,} rows, 7 groups: {sorted(seconds)[1]:.1f} s, {given.rows / sorted(seconds)[1]:,.0f} rows/s")


def filtered(
    name: str,
    count: int,
    labels: dict[str, str],
    order: list[str],
    given: argparse.Namespace,
    draw: np.random.Generator,
) -> None:
    """Print how often a filter loses more of the positive rows than its recall allows, of samples of 2,000 rows.

    A filter by a column knows ``count`` positive texts. The column is the greatest cosine to one of them, of TF-IDF
    vectors: an embedding of a model tells more.
    """
    chosen, chance = sorted(set(labels.values()))[10:13], random.Random(6)
    truth: dict[str, str | bool] = {
        text: chance.random() < 0.03 if "chance" in name else label in chosen[: 3 if "like" in name else 2]
        for text, label in labels.items()
    }
    if "like" in name:
        examples = [text for text in order if truth[text]][:count]
        rest = [text for text in order if text not in set(examples)]
        vectors = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True).fit(order)
        scores = -(vectors.transform(rest) @ vectors.transform(examples).T).max(axis=1).toarray().ravel()
    else:
        rest = order[count:]
        answers, leads = scored(fit_weights("relevant", truth, order[:count], (0, 0)), rest)
        scores = np.where(answers == False, leads, -np.inf)  # noqa: E712
    positive = np.array([truth[text] for text in rest])
    ranked = np.sort(scores[np.isfinite(scores)])
    tiles = [float(ranked[len(ranked) * tile // QUANTILES]) for tile in range(QUANTILES)]
    for recall in (0.8, 0.9):
        missed, certified, decided, kept = 0, 0, [], []
        for _ in range(given.trials):
            drawn = draw.integers(len(scores), size=2_000)
            pairs = [(float(score) if np.isfinite(score) else None, False) for score in scores[drawn][positive[drawn]]]
            found = certified_threshold(tiles, pairs, recall, DEFAULT_DELTA).threshold
            lost = 0.0 if found is None else float((positive & (scores >= found)).sum() / positive.sum())
            certified += found is not None
            missed += lost > 1 - recall
            decided.append(0.0 if found is None else float((scores >= found).mean()))
            kept.append(1 - lost)
        print(
            f"{name:<21}  {count:>6,}  {positive.mean():>7.1%}  {recall:>6.2f}  {missed / given.trials:>6.1%}"
            f"  {np.mean(decided):>7.1%}  {np.mean(kept):.3f}  {certified / given.trials:>8.1%}",
            flush=True,
        )


def grouped(labels: dict[str, str], name: str) -> dict[str, str | bool]:
    """Return the label of each text: its category, a group of categories that begin alike, or one of chance."""
    if name == "77 intents":
        return dict(labels)
    if name == "chance":
        chance = random.Random(5)
        return {text: chance.choice("abcdefg") for text in labels}
    ordered = sorted(set(labels.values()))
    groups = int(name.split()[0])
    return {text: f"g{ordered.index(label) * groups // len(ordered)}" for text, label in labels.items()}


def connected(weights: Weights, texts: Sequence[str]) -> tuple[duckdb.DuckDBPyConnection, str]:
    """Return a database with the tables of the SELECT, and the SELECT."""
    engine = get_engine("duckdb")
    tables = Relations(engine, {role: exp.to_table(f"t_{role}") for role in ("prompts", "weights")})
    sql = print_sql(engine, tables.bound(scores_query(References(engine), weights)))
    db = duckdb.connect()
    listed = zip(weights.columns, zip(*weights.rows, strict=True), strict=True)
    given = {
        "prompts": pa.table({"request_hash": [str(n) for n in range(len(texts))], "prompt": list(texts)}),
        "weights": pa.table({name: pa.array(values) for name, values in listed}),
    }
    for role, table in given.items():
        db.register("given", table)
        db.execute(f"CREATE TABLE t_{role} AS FROM given")
    return db, sql


def scored(weights: Weights, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the value and the lead of each text, none of which the weights know."""
    db, sql = connected(weights, texts)
    found = db.execute(f"SELECT answer, score FROM ({sql}) ORDER BY CAST(request_hash AS INTEGER)").fetchall()
    values = dict(zip(weights.answers, weights.values, strict=True))
    assert len(found) == len(texts)
    return np.array([values[answer] for answer, _ in found]), np.array([float(score) for _, score in found])


def scored_in(weights: Weights, texts: Sequence[str]) -> float:
    """Return the seconds that the SELECT takes into a table."""
    db, sql = connected(weights, texts)
    started = time.monotonic()
    db.execute(f"CREATE TABLE made AS {sql}")
    return time.monotonic() - started


def trials(
    leads: np.ndarray, same: np.ndarray, target: float, sample: int, count: int, draw: np.random.Generator
) -> str:
    """Return the share of trials that missed, the mean share decided and its agreement, and the share certified."""
    ranked = np.sort(leads)
    tiles = [float(ranked[len(ranked) * tile // QUANTILES]) for tile in range(QUANTILES)]
    decided = {tile: float((leads >= tile).mean()) for tile in tiles}
    right = {tile: float(same[leads >= tile].mean()) for tile in tiles}
    missed, certified, shares, agreements = 0, 0, [], []
    for _ in range(count):
        drawn = draw.choice(len(leads), size=sample, replace=False, shuffle=False)
        pairs = list(zip(leads[drawn].tolist(), same[drawn].tolist(), strict=True))
        found = certified_threshold(tiles, pairs, target, DEFAULT_DELTA, of_decided=True).threshold
        certified += found is not None
        missed += found is not None and right[found] < target
        shares.append(0.0 if found is None else decided[found])
        agreements += [] if found is None else [right[found]]
    mean = f"{np.mean(agreements):.3f}" if agreements else "-"
    return f"{missed / count:>6.1%}  {np.mean(shares):>7.1%}  {mean:>9}  {certified / count:>9.1%}"


if __name__ == "__main__":
    main()
