"""Several enrichments as steps of one run: a file whose source is another's result comes after it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.qualify import qualify

from sqlenrich.ask.observer import NullObserver, Observer
from sqlenrich.core import runtime
from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.core.exit_status import EXIT_DONE, EXIT_OVER_LIMIT, EXIT_STOPPED
from sqlenrich.core.plurals import counted
from sqlenrich.core.result import Result
from sqlenrich.engines import get_engine
from sqlenrich.plan.relations import check_names
from sqlenrich.plan.results_step import OWN_COLUMNS
from sqlenrich.runner.estimate import Estimate, estimate
from sqlenrich.runner.options import CAP_OPTIONS, SOURCE_OPTIONS, InputOptions, caps_of
from sqlenrich.runner.place import Output
from sqlenrich.runner.report import Report
from sqlenrich.runner.telemetry import span
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.loader import enrichment_of
from sqlenrich.spec.run_settings import Caps

NOT_ESTIMATED = ("chunk_rows", "take_over", "incremental", "publish_partial", "replace", "prefix_order", "wait")
"""The options of a run that change nothing in its plan."""
RunOne = Callable[[Enrichment, Mapping[str, Any]], Report]


@dataclass(frozen=True, repr=False)
class StepsPlan(Result):
    """What steps would ask: an estimate each, or in words what is known before the steps before them have run."""

    steps: Mapping[str, Estimate | str]

    def to_dict(self) -> dict[str, Any]:
        """Return the facts of each step by its name, as the JSON has them."""
        return {
            name: {"known": step} if isinstance(step, str) else {"known": "yes", **step.to_dict()}
            for name, step in self.steps.items()
        }

    def to_text(self, width: int | None = None) -> str:
        """Return the plans for a terminal of ``width`` columns."""
        return "\n\n".join(
            f"plan of {name}: {step}" if isinstance(step, str) else step.to_text(width)
            for name, step in self.steps.items()
        )

    def lines(self) -> list[str]:
        """Return one line for each step."""
        told = {
            name: step
            if isinstance(step, str)
            else f"{counted(step.rows, 'row')}, {step.cached:,} of "
            f"{counted(step.distinct_requests, 'distinct request')} already answered, {counted(step.calls, 'call')}"
            for name, step in self.steps.items()
        }
        return [f"step {name}: {line}" for name, line in told.items()]


@dataclass(frozen=True, repr=False)
class Steps(Result):
    """What became of the steps of one run.

    ``reports`` has a :class:`Report` for each step that ran, ``skipped`` the reason for each one that did not.
    ``group`` is the beginning of each step's ``run_id``.
    """

    group: str
    reports: Mapping[str, Report]
    skipped: Mapping[str, str]

    def __getitem__(self, name: str) -> Report:
        """Return the report of a step."""
        return self.reports[name]

    @property
    def exit_status(self) -> int:
        """The command's exit status: 4 where a step stopped before its end, else 3 where one ended with it, else 0."""
        found = {report.exit_status for report in self.reports.values()}
        return next((status for status in (EXIT_STOPPED, EXIT_OVER_LIMIT) if status in found), EXIT_DONE)

    def to_dict(self) -> dict[str, Any]:
        """Return the facts of each step by its name, as the JSON has them."""
        steps = {name: report.to_dict() for name, report in self.reports.items()}
        return {"group": self.group, "exit_status": self.exit_status, "steps": steps, "skipped": dict(self.skipped)}

    def to_text(self) -> str:
        """Return the reports for a terminal."""
        told = [f"step {name}\n{report.to_text()}" for name, report in self.reports.items()]
        return "\n\n".join([*told, *(f"step {name} did not run: {why}" for name, why in self.skipped.items())])


class StepGroup:
    """Enrichments that run one after another in one output, in the order of what they read.

    Raises ConfigError, before anything is asked, for a circle, for names that two files share, for columns that a
    result does not have, and for an output that can't hold several results.
    """

    def __init__(
        self,
        enrichments: Sequence[Enrichment | str | Path],
        *,
        output: Output | None,
        input: Any = None,
        caps: Caps | None = None,
        **options: Any,
    ) -> None:
        loaded = [enrichment_of(each) for each in enrichments]
        self.group = f"{runtime.now():%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
        self.steps = in_order(loaded)
        self._names = {step.name for step in self.steps}
        self._output: Any = output
        self._input = input
        self._caps = caps_of(caps, options)
        self._options = {name: value for name, value in options.items() if name not in _CAPS}
        _check_output(output, options)
        engine = getattr(getattr(output, "engine", None), "name", None) or options.get("engine") or "duckdb"
        check_steps(self.steps, str(engine))

    def reads(self, step: Enrichment) -> tuple[str, ...]:
        """Return the steps of the group whose results a step reads."""
        return () if step.refs is None else tuple(name for name in step.refs.names if name in self._names)

    def plan(self) -> StepsPlan:
        """Return what each step would ask, as far as it is known before the others have run."""
        found: dict[str, Estimate | str] = {}
        most: dict[str, int] = {}
        for step in self.steps:
            before = self.reads(step)
            if not before:
                given = {**self._given(step), "output": self._output, "caps": self._caps}
                told = estimate(step, **{name: value for name, value in given.items() if name not in NOT_ESTIMATED})
                found[step.name], most[step.name] = told, told.rows
            elif step.query is None and before[0] in most:
                most[step.name] = most[before[0]]
                found[step.name] = (
                    f"at most {counted(most[step.name], 'call')}: a row for each that {before[0]} accepts"
                )
            else:
                found[step.name] = f"unknown until {' and '.join(before)} {'has' if len(before) == 1 else 'have'} run"
        return StepsPlan(found)

    def _given(self, step: Enrichment) -> dict[str, Any]:
        """Return the options of a step: those of the input are for the steps that read no other."""
        if step.refs is None:
            return {**self._options, "input": self._input}
        return {name: value for name, value in self._options.items() if name not in _INPUT_OPTIONS}

    def run(self, run_one: RunOne, *, keep_going: bool = False, observer: Observer | None = None) -> Steps:
        """Run the steps by a function that is called with each one and its options."""
        observer = observer or NullObserver()
        with span("steps", " ".join(step.name for step in self.steps), observer.note):
            return self._run(run_one, keep_going, observer)

    def _run(self, run_one: RunOne, keep_going: bool, observer: Observer) -> Steps:
        reports: dict[str, Report] = {}
        skipped: dict[str, str] = {}
        for number, step in enumerate(self.steps, start=1):
            if (why := self._why_not(step, reports, skipped, keep_going)) is not None:
                skipped[step.name] = why
                observer.note(f"step {step.name} does not run: {why}")
                continue
            given = {
                **self._given(step),
                "output": self._output,
                "caps": _left(self._caps, reports.values()),
                "run_id": f"{self.group}.{number}",
            }
            reports[step.name] = run_one(step, given)
        return Steps(self.group, reports, skipped)

    def _why_not(
        self, step: Enrichment, reports: Mapping[str, Report], skipped: Mapping[str, str], keep_going: bool
    ) -> str | None:
        """Return why a step does not run; None where it does."""
        if any(report.stopped and report.stopped_at is None for report in reports.values()):
            return "the run was stopped"
        if declined := next((name for name, report in reports.items() if report.declined), None):
            return f"the calls of {declined} were declined"
        stops = (EXIT_STOPPED,) if keep_going else (EXIT_OVER_LIMIT, EXIT_STOPPED)
        for name in self.reads(step):
            if name in skipped:
                return f"it reads {name}, which did not run"
            if (status := reports[name].exit_status) in stops:
                return f"it reads {name}, which ended with status {status}"
        return None


_CAPS = tuple(name for name in CAP_OPTIONS if name != "prices")
_INPUT_OPTIONS = (*SOURCE_OPTIONS, *InputOptions.__annotations__)
"""The options that say how the input is read."""


def in_order(enrichments: Sequence[Enrichment]) -> tuple[Enrichment, ...]:
    """Return enrichments with each one after those that it reads, else in their order. Raises ConfigError."""
    by_name: dict[str, Enrichment] = {}
    for each in enrichments:
        if (other := by_name.setdefault(each.name, each)) is not each:
            raise ConfigError(f"{other.place} and {each.place} would both write the table {each.name}; rename one")
    check_names({each.place: each.name for each in enrichments})
    sorter = TopologicalSorter(
        {
            each.name: [name for name in (each.refs.names if each.refs else ()) if name in by_name]
            for each in enrichments
        }
    )
    try:
        sorter.prepare()
    except CycleError as error:
        circle = " reads ".join(reversed(error.args[1]))
        raise ConfigError(f"{circle}: steps can't read one another in a circle") from None
    found: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=list(by_name).index)
        found += ready
        sorter.done(*ready)
    return tuple(by_name[name] for name in found)


def _check_output(output: Output | None, options: Mapping[str, Any]) -> None:
    if any(options.get(name) for name in ("target", "engine", "spark")):
        return  # the output is a schema, or a folder of Spark
    if output is None:
        raise ConfigError("steps need one place for their tables: give --output out.duckdb, or --target")
    if isinstance(output, str | Path) and Path(output).suffix.lower() != ".duckdb":
        raise ConfigError(f"{output} can't hold the results of several steps: give --output out.duckdb, or --target")
    if isinstance(output, list | tuple):
        raise ConfigError("steps need one place for their tables: give one --output, a .duckdb")


def result_columns(enrichment: Enrichment) -> list[str] | None:
    """Return the columns of an enrichment's accepted rows; None where only a run knows them."""
    if enrichment.keep_all:
        return None
    key = enrichment.key or ("_row",)
    return [*key, *enrichment.keep, *enrichment.output_columns, *OWN_COLUMNS]


def check_steps(enrichments: Sequence[Enrichment], engine: str = "duckdb") -> None:
    """Refuse steps that read one another in a circle, or columns that a result will not have. Raises ConfigError."""
    steps = {each.name: each for each in in_order(enrichments)}
    for step in steps.values():
        _check_columns(step, steps, engine)


def _check_columns(step: Enrichment, steps: Mapping[str, Enrichment], engine: str) -> None:
    """Refuse a step that reads a column which the results before it will not have. Raises ConfigError."""
    if step.refs is None:
        return
    given: dict[str, list[str]] = {}
    for name in step.refs.names:
        columns = result_columns(steps[name]) if name in steps else None
        if columns is None:
            return  # the table may be there, or its columns are those of a source
        given[name] = columns
    if step.query is None:
        ((name, columns),) = given.items()
        known, where = columns, name
    else:
        known, where = _query_columns(step, given, engine), "its query"
    for used in map(step.source_name, step.used_columns()):
        if used not in known and used != "_row":
            raise ConfigError(
                f'{step.place} reads the column "{used}" of {where}, which will not have it'
                f"{did_you_mean(used, known)}; it has: {', '.join(known)}"
            )


def _query_columns(step: Enrichment, given: Mapping[str, Sequence[str]], engine: str) -> list[str]:
    """Return the columns of a source query over results. Raises ConfigError for a column that none of them has."""
    dialect = get_engine(engine).dialect
    query = str(step.query)
    try:
        tree = sqlglot.parse_one(query, read=dialect)
    except sqlglot.errors.SqlglotError:
        return list(step.used_columns())  # what is no query is told where it is compiled
    tables = {table.name for table in tree.find_all(exp.Table)} - {cte.alias for cte in tree.find_all(exp.CTE)}
    if not tables <= set(given) or any(tree.find_all(exp.Unnest, exp.Lateral)):
        return list(step.used_columns())  # other tables are known to the database alone
    schema: dict[str, object] = {name: dict.fromkeys(columns, "text") for name, columns in given.items()}
    try:
        found = qualify(tree, schema=schema, dialect=dialect, quote_identifiers=False)
    except sqlglot.errors.SqlglotError as error:
        raise ConfigError(f"{step.place}: source.query: {str(error).splitlines()[0]}") from None
    return [str(name) for name in found.named_selects] if isinstance(found, exp.Query) else []


def _left(caps: Caps, reports: Any) -> Caps:
    """Return what the steps before have left of the caps."""
    done = list(reports)
    calls = sum(report.calls for report in done)
    rows = sum(report.distinct_requests - report.cached - report.pending for report in done)
    cost = sum(report.cost or 0.0 for report in done)
    return replace(
        caps,
        max_calls=None if caps.max_calls is None else max(0, caps.max_calls - calls),
        max_rows=None if caps.max_rows is None else max(0, caps.max_rows - rows),
        max_cost=None if caps.max_cost is None else max(0.0, caps.max_cost - cost),
    )
