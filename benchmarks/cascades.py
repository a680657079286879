"""How often a cascade misses its target, and how many rows it asks of the second model, on labelled texts.

    python benchmarks/cascades.py train.csv test.csv [--trials 1000] [--rows 200000] [--sample 2000] [--seed 1]

The files have the columns ``text`` and ``category``, as those of Banking77 have. The second model is the label. The
first one is a logistic regression over TF-IDF of words, fitted on 1,000, 3,000 or 6,000 of the texts; its score is the
probability of its answer, and in the case ``noise`` a random number. The rows are drawn with replacement from the other
texts. Each trial draws a sample, finds the threshold by the function that a run calls, and compares it with all rows.
``best`` is the lowest quantile at which the target holds, which only all labels tell.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sqlenrich.plan.cascade_queries import QUANTILES
from sqlenrich.runner.threshold import certified_threshold
from sqlenrich.spec.cascade import DEFAULT_DELTA

TARGETS = (0.90, 0.95, 0.98)
FITTED = (1_000, 3_000, 6_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--trials", type=int, default=1_000)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--sample", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    draw = np.random.default_rng(given.seed)
    rows = [row for file in given.files for row in csv.DictReader(file.open(encoding="utf-8", newline=""))]
    texts = np.array([row["text"] for row in rows], dtype=object)
    labels = np.array([row["category"] for row in rows])
    order = draw.permutation(len(rows))
    print(f"{len(rows):,} texts, {given.rows:,} rows, samples of {given.sample:,}, {given.trials:,} trials each")
    print("first model        right  target  missed  asked   best  certified")
    for count in FITTED:
        known, rest = order[:count], order[count:]
        model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LogisticRegression(C=30))
        chances = model.fit(texts[known], labels[known]).predict_proba(texts[rest])
        same = model.classes_[chances.argmax(axis=1)] == labels[rest]
        chosen = draw.integers(len(rest), size=given.rows)
        scores = {"": chances.max(axis=1)[chosen]}
        if count == FITTED[-1]:
            scores["noise"] = draw.random(given.rows)
        for kind, score in scores.items():
            for target in TARGETS:
                told = trials(score, same[chosen], target, given.sample, given.trials, draw)
                name = f"{count:,} labels {kind}"
                print(f"{name:<18} {same[chosen].mean():>5.1%}  {target:.2f}  {told}")


def trials(
    score: np.ndarray, same: np.ndarray, target: float, sample: int, count: int, draw: np.random.Generator
) -> str:
    """Return the share of trials that missed, of rows that were asked, and of rows that the best threshold asks."""
    ranked = np.sort(score)
    tiles = [float(ranked[len(ranked) * tile // QUANTILES]) for tile in range(QUANTILES)]
    wrong = {tile: float(((score >= tile) & ~same).mean()) for tile in tiles}
    below = {tile: float((score < tile).mean()) for tile in tiles}
    best = min((below[tile] for tile in tiles if wrong[tile] <= 1 - target), default=1.0)
    missed, asked, certified = 0, [], 0
    for _ in range(count):
        drawn = draw.choice(len(score), size=sample, replace=False, shuffle=False)
        pairs = list(zip(score[drawn].tolist(), same[drawn].tolist(), strict=True))
        found = certified_threshold(tiles, pairs, target, DEFAULT_DELTA).threshold
        certified += found is not None
        missed += found is not None and wrong[found] > 1 - target
        asked.append(1.0 if found is None else below[found] + sample / len(score) * (1 - below[found]))
    return f"{missed / count:>6.1%}  {np.mean(asked):>5.1%}  {best:>5.1%}  {certified / count:>8.1%}"


if __name__ == "__main__":
    started = time.monotonic()
    main()
    print(f"{time.monotonic() - started:.0f} s")
