"""What the verdicts say of the whole table: the share wrong per field, per stratum and of whole rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from sqlenrich.quality.review.agreement import ReviewerAgreement, reviewer_agreement
from sqlenrich.quality.review.proportion import Stratum, WrongRows, wrong_rows
from sqlenrich.quality.review.sample import population, population_query, requests_query
from sqlenrich.quality.review.sheet import choices_of
from sqlenrich.quality.review.verdicts import UNSURE, WRONG, Verdict, standing_verdicts, verdicts_query
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.store.store import ALL_RUNS, Store


@dataclass(frozen=True)
class ShareWrong:
    """The wrong rows among the accepted ones of the table or of a stratum: by one field, or by any (``field`` None)."""

    field: str | None
    stratum: str | None
    unsure: int
    """Judged requests that are left out, because nobody was sure."""
    found: WrongRows


@dataclass(frozen=True)
class Disagreement:
    """A field of a request on which reviewers, or a reviewer and the answer, differ."""

    request: str
    field: str
    answer: Any
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True)
class ReviewEstimate:
    """The estimates of one sample. ``gone`` verdicts count no more: the answer is another, or the row is gone."""

    run: str
    rows: int
    requests: int
    """The judged requests."""
    gone: int
    reviewers: tuple[str, ...]
    shares: tuple[ShareWrong, ...]
    """The whole row first, then each field, then each stratum."""
    agreement: tuple[ReviewerAgreement, ...]
    wrong: tuple[Disagreement, ...]
    """What somebody held to be wrong, with all that was said of it."""
    sql: tuple[str, ...]

    @property
    def whole(self) -> ShareWrong | None:
        """The share of rows with any wrong field; None without a verdict."""
        return self.shares[0] if self.shares else None


def review_estimate(enrichment: Enrichment, stored: Store, run: str = ALL_RUNS) -> ReviewEstimate:
    """Estimate from the verdicts on the rows of a run, or on those of all."""
    stands = standing_verdicts(stored, run)
    sql = [stored.sql(population_query(enrichment, stored, run))]
    if stored.has("reviews"):
        sql.append(stored.sql(verdicts_query(stored, run)))
    if not stands.verdicts:
        return ReviewEstimate(run, 0, 0, stands.gone, (), (), (), (), tuple(sql))
    sizes = population(enrichment, stored, run)
    judged = sorted({one.request for one in stands.verdicts})
    accepted = exp.select("*").from_(requests_query(enrichment, stored, run).subquery("accepted"))
    found = stored.among(accepted, exp.column("request_hash"), judged)
    places = {str(request): (str(stratum), int(size)) for request, stratum, size in found}
    verdicts = [one for one in stands.verdicts if one.request in places]
    scores = _scores(verdicts)
    fields = [name for name in stored.fields if any(field == name for _, field in scores)]
    whole = _whole_rows(scores, len(stored.fields))
    shares = [_share(None, None, whole, places, sizes)]
    shares += [_share(name, None, _of_field(scores, name), places, sizes) for name in fields]
    if len(sizes) > 1:
        shares += [_share(None, stratum, whole, places, {stratum: sizes[stratum]}) for stratum in sizes]
    listed = [name for name in stored.fields if choices_of(enrichment, name) is not None]
    return ReviewEstimate(
        run=run,
        rows=sum(size * count for part in sizes.values() for size, count in part.items()),
        requests=len({one.request for one in verdicts}),
        gone=stands.gone + len(stands.verdicts) - len(verdicts),
        reviewers=tuple(sorted({one.reviewer for one in verdicts})),
        shares=tuple(shares),
        agreement=reviewer_agreement(verdicts, stands.answers, listed),
        wrong=_wrong(verdicts, stands.answers),
        sql=tuple(sql),
    )


Scores = Mapping[tuple[str, str], float | None]
"""The wrong share of a field of a request among its reviewers; None where nobody was sure."""


def _scores(verdicts: Sequence[Verdict]) -> dict[tuple[str, str], float | None]:
    said: dict[tuple[str, str], list[bool]] = {}
    for one in verdicts:
        sure = said.setdefault((one.request, one.field), [])
        if one.verdict != UNSURE:
            sure.append(one.verdict == WRONG)
    return {place: sum(sure) / len(sure) if sure else None for place, sure in said.items()}


def _of_field(scores: Scores, field: str) -> dict[str, float | None]:
    return {request: score for (request, name), score in scores.items() if name == field}


def _whole_rows(scores: Scores, fields: int) -> dict[str, float | None]:
    """Return the wrong share of each whole row: wrong where any field is, right where all fields are.

    A row of which fields are open is left out unless one is wrong; with an unsure field it counts as unsure.
    """
    rows: dict[str, list[float | None]] = {}
    for (request, _), score in scores.items():
        rows.setdefault(request, []).append(score)
    found: dict[str, float | None] = {}
    for request, own in rows.items():
        worst = max((score for score in own if score is not None), default=0.0)
        if worst == 1 or (len(own) == fields and None not in own):
            found[request] = worst
        elif None in own:
            found[request] = None
    return found


def _share(
    field: str | None,
    stratum: str | None,
    scores: Mapping[str, float | None],
    places: Mapping[str, tuple[str, int]],
    sizes: Mapping[str, Mapping[int, int]],
) -> ShareWrong:
    judged: dict[str, list[tuple[int, float]]] = {name: [] for name in sizes}
    unsure = 0
    for request, score in scores.items():
        name, size = places[request]
        if name in judged:
            if score is None:
                unsure += 1
            else:
                judged[name].append((size, score))
    return ShareWrong(field, stratum, unsure, wrong_rows(Stratum(sizes[name], own) for name, own in judged.items()))


def _wrong(verdicts: Sequence[Verdict], answers: Mapping[str, Mapping[str, Any]]) -> tuple[Disagreement, ...]:
    said: dict[tuple[str, str], list[Verdict]] = {}
    for one in verdicts:
        said.setdefault((one.request, one.field), []).append(one)
    return tuple(
        Disagreement(request, field, answers[request][field], tuple(own))
        for (request, field), own in said.items()
        if any(one.verdict == WRONG for one in own)
    )
