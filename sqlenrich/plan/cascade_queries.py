"""The queries of a cascade: its sample of rows, the scores of the first model, and both models' answers to the sample.

A row's place in the sample follows from the hash of its request, so that each run draws the same rows. Rows of one
request are drawn one by one: what is certified is a share of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlenrich.core.sql import Sql, all_of, any_of, case, concat, double, literal
from sqlenrich.core.types import BIGINT, DOUBLE, STRING, Type
from sqlenrich.plan.pending_step import chosen_reasons
from sqlenrich.plan.references import References
from sqlenrich.plan.row_check_sql import value_of_results
from sqlenrich.plan.scores_query import decidable, is_below
from sqlenrich.spec.cascade import Cascade
from sqlenrich.spec.enrichment import Enrichment

QUANTILES = 100
"""The thresholds that are tried at most: quantiles of the scores of all rows."""


@dataclass(frozen=True)
class CascadeQueries:
    """The queries and conditions of one cascade. ``judged`` gives the SELECT of ``checked`` by one model's answers."""

    enrichment: Enrichment
    cascade: Cascade
    names: References
    key: tuple[str, ...]
    unused_name: Callable[[str], str]
    judged: Callable[[str], Sql]
    classifier: str = ""
    """The name of the classifier that is the first model: the sample is of the rows that it has decided, or where it
    decides one value alone of those that it has scored."""

    def scores(self, model: str) -> exp.Select:
        """Return the SELECT of the least score of each quantile of a model's accepted rows: ``tile, score``."""
        col, named, score = self.names.col, self.names.named, self.unused_name("score")
        rows = exp.select(named(self._score(), score), copy=False)
        if self.classifier:
            rows = self._with_scores(rows.from_(self.names.table("prompts", "numbered"), copy=False))
            rows = rows.where(self._decided("numbered"), copy=False)
        else:
            rows = rows.from_(self._relation(self.judged(model)), copy=False)
            rows = rows.where(_is_null(col("_error")), copy=False)
        order = exp.Order(expressions=[self.names.ordered(col(score))])
        tile = exp.Window(this=exp.Anonymous(this="NTILE", expressions=[literal(QUANTILES)]), order=order)
        known = exp.Not(this=_is_null(col(score)))
        tiles = (
            exp.select(col(score), named(tile, "tile"), copy=False)
            .from_(rows.subquery("rated", copy=False), copy=False)
            .where(known, copy=False)
        )
        least = named(exp.Min(this=col(score)), "score")
        found = exp.select(col("tile"), least, copy=False).from_(tiles.subquery("tiles", copy=False), copy=False)
        return found.group_by(col("tile"), copy=False)

    def answers(self, model: str) -> exp.Select:
        """Return the SELECT of a model's answers to the sample, a line per row of it.

        The columns are the row's place in the draw, whether the answer is accepted, its score, and the fields that
        must agree; a refused answer has none of them.
        """
        named, draw = self.names.named, self.unused_name("draw")
        values = [self._score(), *(self._value(name) for name in self.cascade.equal)]
        columns = [named(value, self.unused_name(f"value_{place}")) for place, value in enumerate(values)]
        accepted = case((_is_null(self.names.col("_error")), literal(1)), default=literal(0))
        columns = [named(accepted, self.unused_name("accepted")), *columns]
        return self._with_scores(self._drawn(self.judged(model), draw, columns))

    @property
    def in_sample(self) -> Sql:
        """The condition on ``checked`` that a row's request is one of the sample."""
        hash_ = self.names.col("request_hash")
        drawn = self._drawn(self.names.table("prompts"), self.unused_name("draw"), [hash_.copy()])
        hashes = exp.select(hash_.copy(), copy=False).from_(drawn.subquery("sampled", copy=False), copy=False)
        return exp.In(this=hash_.copy(), query=hashes.subquery(copy=False))

    def below(self, threshold: float | None) -> Sql:
        """Return the condition on ``checked`` that a row is not the first model's to decide; None: no row is."""
        error = self.names.col("_error")
        reasons = [*chosen_reasons(None), *(("NOT_ASKED",) if self.classifier else ())]
        refused = exp.In(this=error, expressions=[literal(code) for code in reasons])
        accepted = _is_null(error.copy())
        if self.classifier:
            own = exp.EQ(this=self.names.col("_model"), expression=literal(self.classifier))
            below = [] if threshold is None else [is_below(self.names, threshold)]
            return any_of(refused, all_of(accepted, own, *below))
        if threshold is None:
            return any_of(refused, accepted)
        score = self._score()
        unsure = any_of(_is_null(score), exp.LT(this=score.copy(), expression=double(threshold)))
        return any_of(refused, all_of(accepted, exp.paren(unsure, copy=False)))

    def _decided(self, table: str | None = None) -> Sql:
        """Return the condition that the classifier scores a row, and has decided it unless it decides one value."""
        one_value = bool(self.cascade.otherwise)
        scored = exp.select(self.names.col("request_hash"), copy=False).from_(self.names.table("scores"), copy=False)
        query = (scored if one_value else decidable(self.names, self.classifier)).subquery(copy=False)
        return exp.In(this=self.names.col("request_hash", table), query=query)

    def _with_scores(self, select: exp.Select) -> exp.Select:
        """Join the scores of a classifier, under names of their own, to rows that are called ``numbered``."""
        if not self.classifier:
            return select
        hash_, score = self.unused_name("scored_hash"), self.unused_name("scored")
        col, named = self.names.col, self.names.named
        scores = exp.select(named(col("request_hash"), hash_), named(col("score"), score)).from_(
            self.names.table("scores")
        )
        same = exp.EQ(this=col(hash_, "s"), expression=col("request_hash", "numbered"))
        return select.join(scores.subquery("s", copy=False), on=same, copy=False)

    def _score(self) -> Sql:
        if self.classifier:
            return exp.Cast(this=self.names.col(self.unused_name("scored"), "s"), to=self._sql(DOUBLE))
        return exp.Cast(this=self._value(self.cascade.score), to=self._sql(DOUBLE))

    def _value(self, name: str) -> Sql:
        """Return the SQL of a field of a row of ``checked``; NULL where the answer is refused."""
        answer = case((_is_null(self.names.col("_error")), self.names.col("answer")))
        value: Sql = value_of_results(self.names.engine, self.enrichment.readings, answer, self.names.col)(name)
        return exp.paren(value, copy=False)

    def _relation(self, rows: Sql) -> Sql:
        return rows if not isinstance(rows, exp.Query) else rows.subquery("judged", copy=False)

    def _drawn(self, rows: Sql, draw: str, columns: Sequence[Sql]) -> exp.Select:
        """Return the SELECT of some columns of the rows of the sample, behind their place in the draw."""
        col, named, number = self.names.col, self.names.named, self.unused_name("number")
        hash_ = col("request_hash")
        order = exp.Order(expressions=[self.names.ordered(col(name)) for name in self.key])
        numbered = exp.Window(this=exp.RowNumber(), partition_by=[hash_.copy()], order=order)
        asked = (
            exp.select(exp.Star(), named(numbered, number), copy=False)
            .from_(self._relation(rows), copy=False)
            .where(exp.Not(this=_is_null(hash_.copy())), copy=False)
        )
        if self.classifier:
            asked = asked.where(self._decided(), copy=False)
        text = exp.Cast(this=exp.Cast(this=col(number), to=self._sql(BIGINT)), to=self._sql(STRING))
        again = self.names.engine.sha256(concat(hash_.copy(), text))
        place = case((exp.EQ(this=col(number), expression=literal(1)), hash_.copy()), default=again)
        found = exp.select(named(place, draw), *columns, copy=False)
        found = found.from_(asked.subquery("numbered", copy=False), copy=False)
        return found.order_by(self.names.ordered(col(draw)), copy=False).limit(self.cascade.sample, copy=False)

    def _sql(self, kind: Type) -> exp.DataType:
        return self.names.engine.sql_type(kind)


def _is_null(value: Sql) -> Sql:
    return exp.Is(this=value, expression=exp.Null())
