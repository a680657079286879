"""``sqlenrich distill``: a classifier of plain SQL from stored answers. Asks nothing."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Unpack

from sqlglot import exp

from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.core.plurals import counted
from sqlenrich.core.result import Result
from sqlenrich.core.sql import given, literal
from sqlenrich.core.text_table import padded
from sqlenrich.plan.relations import symbol
from sqlenrich.quality.opened_store import open_store
from sqlenrich.runner.place import Output, PlaceOptions
from sqlenrich.runner.setup import set_up
from sqlenrich.runner.threshold import certified_threshold
from sqlenrich.spec.cascade import DEFAULT_DELTA, least_sample
from sqlenrich.spec.classifier import ColumnFilter
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.settings import Config
from sqlenrich.spec.weights import CLASSIFIERS, Weights, beside, grams_of, mark_of
from sqlenrich.store.store import Store

MOST_LABELS = 20_000
"""The answers that are read: those of the lowest hashes, which are a random sample."""
HELD_OUT = 0.2
"""The share of the answers that measures the classifier."""
MOST_VALUES = 200
MOST_WEIGHTS = 100_000
"""The weights that are kept: the largest."""
SCALE = 10_000
"""What a weight is multiplied by before it is rounded."""
LEAST_TEXTS = 2
"""The texts that have what is counted, at least."""


@dataclass(frozen=True, repr=False)
class Distilled(Result):
    """A classifier, and how it did on answers that were held out."""

    name: str
    field: str
    file: str
    values: int
    labels: int
    """The answers that it was fitted on."""
    held_out: int
    right: float
    """The share of the held-out answers that it gives too."""
    agreement: float
    decided: float
    """The share that it would decide with this agreement, certified on the held-out answers."""

    def to_text(self) -> str:
        """Return the measures as lines."""
        certified = (
            f"{self.decided:.1%} of the rows" if self.decided else "no row: the held-out answers certify no lead"
        )
        lines = [
            ("weights", self.file),
            ("fitted on", f"{counted(self.labels, 'answer')} with {counted(self.values, 'value')} of {self.field}"),
            ("right", f"{self.right:.1%} of {counted(self.held_out, 'answer')} that it was not fitted on"),
            (f"at {self.agreement:g}", f"it decides {certified}"),
        ]
        return "\n".join(f"{padded(name, 9)}  {text}" for name, text in lines)


def distill(
    enrichment: Enrichment | str | Path,
    *,
    output: Output | None = None,
    field: str | None = None,
    agreement: float = 0.95,
    weights: str | Path | None = None,
    config: Config | None = None,
    **options: Unpack[PlaceOptions],
) -> Distilled:
    """Fit a classifier of a field on the accepted answers of ``output``, and write its weights.

    ``field`` has an enum or a boolean; without it the output has one such field. ``weights`` is the file, by default
    ``FIELD.weights.parquet`` beside the prompt file. A fifth of the answers measures the classifier. ``options`` name a
    warehouse as those of :func:`~sqlenrich.run` do. It needs the extra ``distill``. Raises ConfigError for another
    field, and where there are too few answers.
    """
    if find_spec("sklearn") is None:
        raise ConfigError('distill needs scikit-learn: pip install "sqlenrich[distill]"')
    setup = set_up("distill", PlaceOptions, options, enrichment, output=output, config=config)
    enrichment = setup.enrichment
    name = _field(enrichment, field)
    with open_store(setup) as store:
        labelled = _labelled(store, name)
    path = Path(weights) if weights is not None else beside(enrichment, f"{name}.weights.parquet")
    values = sorted(set(labelled.values()), key=str)
    held = int(len(labelled) * HELD_OUT)
    least = least_sample(agreement, DEFAULT_DELTA)
    if len(values) < 2 or held < least:
        raise ConfigError(
            f"{store.output} has {counted(len(labelled), 'distinct text')} with {counted(len(values), 'value')} of "
            f"{name}: an agreement of {agreement:g} takes 2 values and {int(least / HELD_OUT) + 1:,} texts; "
            "run more rows first"
        )
    if len(values) > MOST_VALUES:
        raise ConfigError(f"{name} has {len(values):,} values: a classifier has at most {MOST_VALUES}")
    prompts = sorted(labelled, key=mark_of)
    cut = _shared_ends(prompts)
    right, decided = _measured(fit_weights(name, labelled, prompts[held:], cut), labelled, prompts[:held], agreement)
    fit_weights(name, labelled, prompts, cut).write(path)
    return Distilled(enrichment.name, name, str(path), len(values), len(prompts), held, right, agreement, decided)


def _field(enrichment: Enrichment, field: str | None) -> str:
    """Return the field to decide. Raises ConfigError for one that is no enum and no boolean."""
    properties: Mapping[str, Any] = enrichment.schema["properties"]
    closed = [name for name, schema in properties.items() if _is_closed(schema)]
    if field is None and len(closed) == 1:
        return closed[0]
    if field in closed:
        return str(field)
    if field in properties:
        raise ConfigError(f"{field} is no enum and no boolean: a classifier decides among few values")
    near = did_you_mean(str(field), closed) if field is not None else ""
    raise ConfigError(f"which field? Give --field, one of: {', '.join(closed) or 'none'}{near}")


def _is_closed(schema: Mapping[str, Any]) -> bool:
    kinds = schema.get("type", [])
    return "enum" in schema or "boolean" in ([kinds] if isinstance(kinds, str) else kinds)


def _labelled(store: Store, field: str) -> dict[str, str | bool]:
    """Return the values of a field by distinct prompts that a model answered, those of the lowest hashes."""
    col = exp.column
    decided = (
        exp.Like(this=col("_model"), expression=literal(f"{CLASSIFIERS}%")),
        exp.EQ(this=col("_model"), expression=literal(ColumnFilter.model)),
    )
    found = (
        exp.select("prompt", "answer")
        .distinct()
        .from_(
            exp.select("request_hash", "answer")
            .from_(symbol("checked"))
            .where(col("_error").is_(exp.Null()), *(exp.Not(this=one) for one in decided))
            .order_by("request_hash")
            .limit(MOST_LABELS)
            .subquery("answered")
        )
        .join(symbol("prompts"), using="request_hash")
        .where(given(col("prompt")))
    )
    labelled: dict[str, str | bool] = {}
    for prompt, answer in store.rows(found):
        value = json.loads(answer).get(field)
        if isinstance(value, str | bool):
            labelled[prompt] = value
    return labelled


def _shared_ends(prompts: Sequence[str]) -> tuple[int, int]:
    """Return how many characters all prompts share at both ends, up to a blank."""
    first = _shared_start(prompts)
    return first, _shared_start([prompt[first:][::-1] for prompt in prompts])


def _shared_start(texts: Sequence[str]) -> int:
    least, most = min(texts), max(texts)
    same = next((at for at, pair in enumerate(zip(least, most, strict=False)) if len(set(pair)) > 1), len(least))
    return max(least.rfind(blank, 0, same) for blank in " \n") + 1


def fit_weights(
    field: str, labelled: Mapping[str, str | bool], prompts: Sequence[str], cut: tuple[int, int]
) -> Weights:
    """Return the weights of a logistic regression over the counts of words, pairs and pieces, in whole numbers."""
    import numpy as np
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    empty = Weights(field, (), (), cut, ())
    texts = [empty.text_of(prompt) for prompt in prompts]
    labels = np.array([str(labelled[prompt]) for prompt in prompts])
    by_text = {str(labelled[prompt]): labelled[prompt] for prompt in prompts}
    counter = CountVectorizer(analyzer=lambda text: grams_of(text).elements(), min_df=LEAST_TEXTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(max_iter=300).fit(counter.fit_transform(texts), labels)
    matrix, bias = model.coef_, model.intercept_
    if len(model.classes_) == 2:  # it has the second class's side alone
        matrix, bias = np.vstack([-matrix, matrix]) / 2, np.concatenate([-bias, bias]) / 2
    whole = np.rint(matrix * SCALE).astype(np.int64)
    if np.count_nonzero(whole) > MOST_WEIGHTS:
        least = np.partition(np.abs(whole).ravel(), -MOST_WEIGHTS)[-MOST_WEIGHTS]
        whole[np.abs(whole) < least] = 0
    rows: list[tuple[object, ...]] = [
        (gram, *column)
        for gram, column in zip(counter.get_feature_names_out().tolist(), whole.T.tolist(), strict=True)
        if any(column)
    ]
    none = [0] * len(model.classes_)
    rows += [(mark, *none) for mark in dict.fromkeys(map(mark_of, texts))]
    values = tuple(by_text[one] for one in model.classes_.tolist())
    return Weights(field, values, tuple(np.rint(bias * SCALE).astype(int).tolist()), cut, rows)


def _measured(
    weights: Weights, labelled: Mapping[str, str | bool], prompts: Sequence[str], target: float
) -> tuple[float, float]:
    """Return the share of prompts that are decided right, and the share that is decided at the target."""
    sample: list[tuple[float | None, bool]] = []
    by_answer = dict(zip(weights.answers, weights.values, strict=True))
    for prompt in prompts:
        if (found := weights.decide(prompt)) is not None:
            sample.append((float(found[1]), by_answer[found[0]] == labelled[prompt]))
    scores = sorted(score for score, _ in sample if score is not None)
    tiles = [scores[len(scores) * tile // 100] for tile in range(100)]
    certificate = certified_threshold(tiles, sample, target, DEFAULT_DELTA, of_decided=True)
    decided = 0 if certificate.threshold is None else sum(score >= certificate.threshold for score in scores)
    return sum(same for _, same in sample) / len(sample), decided / len(sample)
