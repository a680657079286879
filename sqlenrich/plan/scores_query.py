"""The SELECT that decides each prompt by a classifier's weights, in whole numbers, or by a column of its rows."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlenrich.core.json import compact_json
from sqlenrich.core.sql import Sql, case, concat, double, given, literal, wrapped
from sqlenrich.core.text_functions import Body
from sqlenrich.core.types import BIGINT, DOUBLE, STRING
from sqlenrich.plan.plan import RESPONSES
from sqlenrich.plan.references import References
from sqlenrich.spec.classifier import Classifier, ColumnFilter
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.weights import FROM, KNOWN_DIGITS, KNOWN_MARK, PIECES, TO, Weights

BELOW_ALL = -(10**15)
"""Less than any sum of weights."""
MOST = 1e300
"""A number of a filter is between this and its negative: not NaN, which some engines hold greater than any number."""


def scores_query(names: References, classifier: Classifier) -> exp.Select:
    """Return ``request_hash, answer, score`` of each distinct request of ``prompts`` that a classifier can decide.

    ``answer`` is the text of an answer; the higher the ``score``, the surer it is.
    """
    if isinstance(classifier, ColumnFilter):
        return _filter_query(names, classifier)
    return _weights_query(names, classifier)


def _filter_query(names: References, row_filter: ColumnFilter) -> exp.Select:
    """Return the SELECT whose score is the negative of a column.

    Rows of one request count by the highest of them. A request with a row without a finite number has no score.
    """
    col, double_type = names.col, names.engine.sql_type(DOUBLE)
    number = exp.Cast(this=col(row_filter.column), to=double_type)
    finite = exp.Between(this=number, low=double(-MOST), high=double(MOST))
    unknown = case((finite, literal(0)), default=literal(1))
    found = exp.select(
        col("request_hash"),
        names.named(literal(row_filter.answers[0]), "answer"),
        names.named(exp.Neg(this=exp.Max(this=number.copy())), "score"),
    )
    found = found.from_(names.table("prompts")).where(given(col("request_hash")))
    known = exp.EQ(this=exp.Sum(this=unknown), expression=literal(0))
    return found.group_by(col("request_hash")).having(known)


def _weights_query(names: References, weights: Weights) -> exp.Select:
    """Return the SELECT whose score is the lead over the next value, of the requests that the weights do not know.

    It reads the table ``weights``. Pieces of words are summed once a distinct word.
    """
    made = _Scores(names, weights)
    steps = {
        "texts": made.texts(),
        "split": made.split(),
        "occurrences": made.exploded("split", made.col("words"), "word", "request_hash"),
        "vocabulary": exp.select(made.col("word")).distinct().from_("occurrences"),
        "pieces": made.exploded("vocabulary", made.pieces(), "gram", "word"),
        "word_weights": made.word_weights(),
        "pairs": made.exploded("split", made.pairs(), "gram", "request_hash"),
        "summands": made.summands(),
        "totals": made.totals(),
        "best": made.best(),
        "decided": made.decided(),
    }
    answers = [(made.is_place(place), literal(text)) for place, text in enumerate(weights.answers, 1)]
    others = [
        case((made.is_place(place), literal(BELOW_ALL)), default=made.col(name))
        for place, name in enumerate(weights.names, 1)
    ]
    lead = exp.Sub(this=made.col("most"), expression=_greatest(others))
    found = exp.select(
        made.col("request_hash"), names.named(case(*answers), "answer"), names.named(lead, "score")
    ).from_("decided")
    for name, query in steps.items():
        found = found.with_(name, as_=query, copy=False)
    return found


class _Scores:
    def __init__(self, names: References, weights: Weights) -> None:
        self.names, self.weights, self.text = names, weights, names.engine.text
        self.col = names.col

    def texts(self) -> exp.Select:
        """Return the distinct requests, each with what its prompt has of the row."""
        first, last = self.weights.cut
        length = exp.Sub(this=self.text.length(self.col("prompt")), expression=literal(first + last))
        text = self.text.substr(self.col("prompt"), literal(first + 1), self.text.greatest(length, literal(0)))
        found = exp.select(self.col("request_hash"), self.names.named(text, "body")).distinct()
        return found.from_(self.names.table("prompts")).where(
            given(self.col("request_hash")), given(self.col("prompt"))
        )

    def split(self) -> exp.Select:
        """Return the words of each text that the weights were not fitted on."""
        plain = self.text.translate(self.col("body", "t"), literal(FROM), literal(TO))
        parts = self.text.split(plain, literal(" "))
        words = self.text.where(parts, "part", lambda part, _: exp.NEQ(this=part, expression=literal("")), STRING)
        digest = self.text.substr(self.names.engine.sha256(self.col("body", "t")), literal(1), literal(KNOWN_DIGITS))
        is_known = exp.EQ(this=self.col("gram", "w"), expression=concat(literal(KNOWN_MARK), digest))
        found = exp.select(self.col("request_hash", "t"), self.names.named(words, "words"))
        found = found.from_(exp.alias_(exp.to_table("texts"), "t", table=True))
        found = found.join(self.names.table("weights", "w"), on=is_known, join_type="LEFT")
        return found.where(exp.Is(this=self.col("gram", "w"), expression=exp.Null()))

    def exploded(self, relation: str, array: Sql, name: str, beside: str) -> exp.Select:
        """Return a row for each element of an array of a relation."""
        select = exp.select(self.col(beside)).from_(relation)
        return self.names.engine.exploded(select, array, self.col(name).this.copy())

    def pieces(self) -> Sql:
        """Return the array of what is counted of a word."""
        padded = concat(literal(" "), self.col("word"), literal(" "))
        found = self.text.array(padded.copy())
        for size in PIECES:
            length = self.text.length(exp.paren(padded.copy(), copy=False))
            count = exp.Sub(this=length, expression=literal(size - 1))
            cut = self.text.map(self.text.sequence(count), "at", None, self._piece(padded, size), BIGINT)
            found = self.text.array_concat(found, cut)
        return found

    def _piece(self, padded: Sql, size: int) -> Body:
        def piece(at: Sql, _: Sql | None) -> Sql:
            start = exp.Add(this=at, expression=literal(1))
            return self.text.substr(exp.paren(padded.copy(), copy=False), start, literal(size))

        return piece

    def pairs(self) -> Sql:
        """Return the array of the pairs of neighbouring words."""

        def pair(at: Sql, _: Sql | None) -> Sql:
            after = exp.Add(this=at.copy(), expression=literal(1))
            first = self.text.element(self.col("words"), at, STRING)
            return concat(first, literal(" "), self.text.element(self.col("words"), after, STRING))

        count = exp.Sub(this=self.text.size(self.col("words")), expression=literal(1))
        return self.text.map(self.text.sequence(count), "at", None, pair, BIGINT)

    def weighed(self, relation: str, weights: exp.Expr, by: str, columns: Sequence[Sql]) -> exp.Select:
        """Return columns of a relation's rows, each beside the weights ``w`` of its word or gram."""
        same = exp.EQ(this=self.col(by, "w"), expression=self.col(by, "o"))
        found = exp.select(*columns).from_(exp.alias_(exp.to_table(relation), "o", table=True))
        return found.join(weights, on=same)

    def word_weights(self) -> exp.Select:
        """Return the sum of the weights of the pieces of each word."""
        columns = [self.col("word", "o"), *(self.sum(name, "w") for name in self.weights.names)]
        return self.weighed("pieces", self.names.table("weights", "w"), "gram", columns).group_by(self.col("word", "o"))

    def sum(self, name: str, table: str | None = None) -> Sql:
        total = exp.Sum(this=self.col(name, table))
        return self.names.named(exp.Cast(this=total, to=self.names.engine.sql_type(BIGINT)), name)

    def summands(self) -> exp.Query:
        """Return the weights of each word and of each pair of words of a text."""
        columns = [self.col("request_hash", "o"), *(self.col(name, "w") for name in self.weights.names)]
        of_words = exp.alias_(exp.to_table("word_weights"), "w", table=True)
        words = self.weighed("occurrences", of_words, "word", columns)
        pairs = self.weighed("pairs", self.names.table("weights", "w"), "gram", columns)
        return exp.union(words, pairs, distinct=False)

    def totals(self) -> exp.Select:
        found = exp.select(self.col("request_hash"), *map(self.sum, self.weights.names)).from_("summands")
        return found.group_by(self.col("request_hash"))

    def best(self) -> exp.Select:
        """Return the sums of each text, those without a known word too, and the greatest of them."""
        sums = [
            exp.Add(
                this=exp.Coalesce(this=self.col(name, "s"), expressions=[literal(0)]),
                expression=wrapped(literal(bias)),
            )
            for name, bias in zip(self.weights.names, self.weights.bias, strict=True)
        ]
        same = exp.EQ(this=self.col("request_hash", "s"), expression=self.col("request_hash", "t"))
        named = [self.names.named(one, name) for one, name in zip(sums, self.weights.names, strict=True)]
        most = self.names.named(_greatest([one.copy() for one in sums]), "most")
        found = exp.select(self.col("request_hash", "t"), *named, most)
        found = found.from_(exp.alias_(exp.to_table("split"), "t", table=True))
        return found.join(exp.alias_(exp.to_table("totals"), "s", table=True), on=same, join_type="LEFT")

    def decided(self) -> exp.Select:
        """Return the place of the first value whose sum is the greatest."""
        arms = [
            (exp.EQ(this=self.col(name), expression=self.col("most")), literal(place))
            for place, name in enumerate(self.weights.names, 1)
        ]
        return exp.select(exp.Star(), self.names.named(case(*arms), "place")).from_("best")

    def is_place(self, place: int) -> Sql:
        return exp.EQ(this=self.col("place"), expression=literal(place))


def _greatest(values: Sequence[Sql]) -> Sql:
    return exp.Anonymous(this="GREATEST", expressions=list(values))


def decided_answers(names: References, enrichment: Enrichment, classifier: Classifier, run_id: str) -> exp.Select:
    """Return the SELECT of an answer for each pending request with a score, with the columns of ``responses``.

    Where the cascade has one value that is decided, it is that answer alone.
    """
    col, bigint = names.col, names.engine.sql_type(BIGINT)
    known: dict[str, Sql] = {
        "request_hash": col("request_hash", "p"),
        "attempt": col("attempt", "p"),
        "sent_hash": col("request_hash", "p"),
        "response": col("answer", "s"),
        "retryable": literal(False),
        "model": literal(classifier.model),
        "version": names.text(enrichment.version),
        "fingerprint": literal(enrichment.fingerprint),
        **dict.fromkeys(("tokens_in", "tokens_cached", "tokens_out"), exp.Cast(this=literal(0), to=bigint)),
        "run_id": literal(run_id),
        "asked_at": names.engine.now(),
    }
    values = [names.named(known[name].copy() if name in known else names.null(kind), name)
              for name, kind in RESPONSES.items()]  # fmt: skip
    same = exp.EQ(this=col("request_hash", "s"), expression=col("request_hash", "p"))
    found = exp.select(*values).from_(names.table("pending", "p")).join(names.table("scores", "s"), on=same)
    cascade = enrichment.cascade
    if cascade is None or not cascade.otherwise:
        return found
    only = compact_json(dict(cascade.otherwise))
    return found.where(exp.EQ(this=col("answer", "s"), expression=literal(only)))


def is_below(names: References, threshold: float) -> Sql:
    """Return the condition on a row's ``request_hash`` that its score does not reach a threshold."""
    found = exp.select(names.col("request_hash")).from_(names.table("scores"))
    found = found.where(exp.LT(this=names.col("score"), expression=double(threshold)))
    return exp.In(this=names.col("request_hash"), query=found.subquery(copy=False))


def decidable(names: References, model: str) -> exp.Select:
    """Return the SELECT of the requests with a score that the classifier has answered."""
    answered = exp.select(names.col("request_hash")).from_(names.table("responses"))
    answered = answered.where(exp.EQ(this=names.col("model"), expression=literal(model)), names.asked())
    found = exp.select(names.col("request_hash")).from_(names.table("scores"))
    return found.where(exp.In(this=names.col("request_hash"), query=answered.subquery(copy=False)))
