"""``sqlenrich review``: people judge a sample of the accepted rows, and the share wrong of all rows follows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Unpack

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.plurals import counted
from sqlenrich.core.result import Result
from sqlenrich.core.text_table import table
from sqlenrich.quality.opened_store import open_results
from sqlenrich.quality.review.estimate import ReviewEstimate, ShareWrong, review_estimate
from sqlenrich.quality.review.proportion import WrongRows
from sqlenrich.quality.review.sample import draw_sample
from sqlenrich.quality.review.sheet import check_reviewers, sheet_paths, write_sheets
from sqlenrich.quality.review.truth import append_truth
from sqlenrich.quality.review.verdicts import Taken, read_verdicts, standing_verdicts, store_verdicts
from sqlenrich.runner.options import names_of
from sqlenrich.runner.place import Output, PlaceOptions
from sqlenrich.runner.setup import set_up
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.settings import Config
from sqlenrich.store.inputs import input_of

WHOLE_ROW = "any field"


@dataclass(frozen=True, repr=False)
class Review(Result):
    """What a review did and what it found. ``sheets`` are the files that were written, with the rows of each."""

    file: str
    """The prompt file."""
    output: str
    sheets: Mapping[str, int]
    sampled: int
    """The requests that were drawn; 0 where no sheet was written."""
    accepted: int
    """The accepted rows that they were drawn from."""
    strata: Mapping[str, int]
    """The accepted rows of each stratum, where ``review.by`` names one."""
    taken: Taken | None
    """What reading verdicts changed; None where none were read."""
    estimate: ReviewEstimate
    labelled: int | None = None
    """The rows appended to the truth; None where none was named."""

    def to_dict(self) -> dict[str, Any]:
        """Return the facts by name, as the JSON has them."""
        shares = [{**asdict(one), "found": _facts(one.found)} for one in self.estimate.shares]
        return {**asdict(self), "estimate": {**asdict(self.estimate), "shares": shares}}

    def to_text(self, width: int = 100) -> str:
        """Return the review for a terminal of ``width`` columns."""
        return "\n".join(line.rstrip() for line in (*self._sheets(), *self._taken(), *self._found(width)))

    def _sheets(self) -> Iterator[str]:
        if not self.sheets:
            return
        by = f" of {len(self.strata)} strata" if self.strata else ""
        yield f"{counted(self.sampled, 'answer')} to judge{by}, drawn from {counted(self.accepted, 'accepted row')}"
        for path, rows in self.sheets.items():
            yield f"  -> {path}: {counted(rows, 'row')}"
        first = next(iter(self.sheets))
        read = first if first.endswith(".csv") else "the saved file"
        yield f"judge them, then: sqlenrich review {self.file} --output {self.output} --read {read}"

    def _taken(self) -> Iterator[str]:
        if (taken := self.taken) is not None:
            yield f"{counted(taken.read, 'verdict')} read: {taken.new:,} new, {taken.changed:,} changed"
        if self.labelled is not None:
            yield f"{counted(self.labelled, 'judged row')} appended to the truth"

    def _found(self, width: int) -> Iterator[str]:
        estimate = self.estimate
        if estimate.gone:
            yield f"{counted(estimate.gone, 'verdict')} not counted: the answer is no longer that of the table"
        if not estimate.shares:
            if not self.sheets:
                yield "nothing is judged yet: --sheet review.html makes what reviewers fill in"
            return
        of_run = f" of the run {estimate.run}" if estimate.run else ""
        yield ""
        yield from table([("wrong rows", "judged", "wrong", "unsure", "share", "95 % interval", "rows"), *map(
            _line, estimate.shares
        )], width)  # fmt: skip
        yield (
            f"Of {counted(estimate.rows, 'accepted row')}{of_run}; {counted(estimate.requests, 'answer')} judged by "
            f"{', '.join(estimate.reviewers)}."
        )
        if estimate.agreement:
            yield ""
            yield from table(
                [
                    ("reviewers agree", "rows", "equal", "share", "Cohen's κ"),
                    *(
                        (
                            f"{one.field}: {' and '.join(one.reviewers)}", f"{one.rows:,}", f"{one.equal:,}",
                            f"{100 * one.equal / one.rows:.1f} %", "-" if one.kappa is None else f"{one.kappa:.2f}",
                        )
                        for one in estimate.agreement
                    ),
                ],
                width,
            )  # fmt: skip
            yield "No accuracy above the share on which people agree can be shown."


def review(
    enrichment: Enrichment | str | Path,
    *,
    output: Output | None = None,
    sheet: str | Path | None = None,
    reviewers: Sequence[str] = (),
    run: str | None = None,
    rows: int | None = None,
    seed: int = 0,
    read: str | Path | Sequence[str | Path] = (),
    truth: str | Path | None = None,
    input: Any = None,
    encoding: str | None = None,
    config: Config | None = None,
    **options: Unpack[PlaceOptions],
) -> Review:
    """Draw accepted rows for people to judge, read what they decided, and give the share wrong of all rows.

    ``output`` is what a run wrote; ``options`` name a warehouse as those of :func:`~sqlenrich.run` do. ``sheet`` is a
    file to write, ``.html`` or ``.csv``, one per reviewer: with ``reviewers`` their names are added to it. ``run`` is
    the id of a run whose rows are reviewed, or ``last``; by default all accepted rows are. ``rows`` is the size of the
    sample in place of the header's ``review.share``; another ``seed`` draws other rows. ``read`` are files that
    reviewers saved: their verdicts go into NAME_reviews, where reading them again changes nothing. With ``truth``, a
    CSV file, judged rows of ``input`` are appended to it as labelled rows. Raises ConfigError for an output without the
    enrichment's results, for a sheet of another database, and for verdicts that can't be.
    """
    setup = set_up("review", PlaceOptions, options, enrichment, output=output, config=config)
    enrichment = setup.enrichment
    if enrichment.embedding is not None:
        raise ConfigError(f"{enrichment.place}: people can't judge vectors")
    if sheet is not None and read:
        raise ConfigError("--sheet makes what reviewers fill in, --read takes it: give one of them")
    if truth is not None and input is None:
        raise ConfigError("--truth appends rows of the input: which rows? Give --input PATH")
    files = [Path(one) for one in ([read] if isinstance(read, str | Path) else read)]
    taken, written, sample, labelled = None, dict[Path, int](), None, None
    paths = {} if sheet is None else sheet_paths(Path(sheet), check_reviewers(names_of(reviewers)))
    with open_results(setup, write=bool(files)) as stored:
        if sheet is not None:
            sample = draw_sample(enrichment, stored, run=stored.run_id(run), rows=rows, seed=seed)
            ledger = stored.runs[-1].run_id if stored.runs else ""
            written = write_sheets(enrichment, sample, ledger, paths)
        if files:
            verdicts = read_verdicts(stored, files)
            taken = store_verdicts(stored, verdicts)
            stored = stored.reopened()
            if run is None and len(samples := {one.of_run for one in verdicts}) == 1:
                run = samples.pop() or None
        of_run = stored.run_id(run)
        if truth is not None:
            stands = standing_verdicts(stored, of_run)
            labelled = append_truth(enrichment, stored, stands, Path(truth), input_of(input, encoding))
        estimate = review_estimate(enrichment, stored, of_run)
        named = stored.output
    return Review(
        file=enrichment.place,
        output=named,
        sheets={str(path): count for path, count in written.items()},
        sampled=len(sample.drawn) if sample is not None else 0,
        accepted=sample.rows if sample is not None else estimate.rows,
        strata={} if sample is None or enrichment.quality.review.by is None else sample.strata,
        taken=taken,
        estimate=estimate,
        labelled=labelled,
    )


def _facts(found: WrongRows) -> dict[str, Any]:
    return {**asdict(found), "share": found.share, "interval": found.interval}


def share_text(found: WrongRows) -> tuple[str, str, str]:
    """Return the share wrong, its interval in per cent, and its interval in rows, as texts."""
    if found.share is None or found.interval is None:
        return "-", "-", "-"
    low, high = (f"{100 * bound:.2f}" for bound in found.interval)
    return f"{100 * found.share:.2f} %", f"{low}–{high} %", f"{found.least:,}–{found.most:,}"


def _line(one: ShareWrong) -> tuple[str, ...]:
    name = one.field or WHOLE_ROW
    if one.stratum is not None:
        name = f"  of {one.stratum}"
    wrong = f"{one.found.wrong:g}"
    return (name, f"{one.found.judged:,}", wrong, f"{one.unsure:,}", *share_text(one.found))
