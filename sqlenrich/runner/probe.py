"""Checks the facts about a vendor that our SQL stands on against the user's own warehouse."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from sqlenrich.ask.observer import NullObserver, Observer, PlanLine
from sqlenrich.core.engine import Engine, ModelCall
from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.names import relation
from sqlenrich.core.plurals import counted
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql
from sqlenrich.engines import get_engine
from sqlenrich.engines.shared.probes import (
    JSON_TEXTS,
    PLACE,
    REQUESTS,
    RFC,
    JsonText,
    Request,
    Statement,
    asked,
    compiled,
    parsed,
    read,
    requests,
    statements,
)
from sqlenrich.plan.model import output_of
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.renderer.script import model_for
from sqlenrich.runner.model_end import model_end
from sqlenrich.runner.place import open_connection
from sqlenrich.runner.probe_answers import SHOWS, Answer
from sqlenrich.runner.probe_report import FactCheck, Finding, ProbeReport, compared, different, line_of, shortened
from sqlenrich.schema.json_schema import hint_text
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.loader import loads
from sqlenrich.spec.settings import Config, find_config
from sqlenrich.store.connections.base import TransientError, WarehouseConnection
from sqlenrich.store.jobs import JobPolicy, JobRunner

MAX_CLOCK_ERROR = timedelta(minutes=10)
"""How far the clocks of the client and the warehouse may be apart. Time zones differ by 15 minutes at least."""
RETRY_FOR_S = 120.0
"""How long a statement that asks no model is repeated after a lost connection."""
TABLE = "_sqlenrich_probe"
"""The name of a table that is never made."""
T = TypeVar("T")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)")


@dataclass(frozen=True)
class ProbeLine(PlanLine):
    """The announcement of a probe before its first request."""

    def to_text(self) -> str:
        """Return the announcement as one line."""
        return f"probe asks {counted(self.calls, 'request')} of {self.model} on {self.where}"


def probe(
    *,
    target: str | None = None,
    engine: str | None = None,
    profile: str | None = None,
    connection: str | None = None,
    model: str | None = None,
    calls: bool = True,
    config: Config | None = None,
    observer: Observer | None = None,
) -> ProbeReport:
    """Check the facts about a vendor against a warehouse: answers, JSON, hashes, the time zone. It writes nothing.

    ``target`` is a target of ``sqlenrich.toml``, or ``engine`` with ``profile`` or ``connection`` names the warehouse,
    as in :func:`sqlenrich.run`. The model is asked at most 20 requests, which the observer may decline; none without
    ``calls``. Raises ConfigError for a warehouse that can't be reached, RunError for one that is lost.
    """
    config = config if config is not None else find_config(None)
    name, given, schema = _warehouse(config, target, engine, profile, connection)
    words = get_engine(name).with_facts(config.facts.get(name, {}))
    opened, default = open_connection(name, given, None)
    with opened:
        probing = _Probe(opened, words, config, model)
        asks = calls and (observer or NullObserver()).plan(probing.line)
        findings = [probing.statement(each) for each in statements(words)]
        findings += probing.json_texts()
        findings += probing.compiled(schema or default)
        findings += probing.model_end()
        if asks:
            for request in requests(words):
                findings += probing.request(request)
        findings += _others(words, findings, asks=asks)
        return ProbeReport(name, opened.place, probing.model, probing.calls, tuple(findings))


def _warehouse(
    config: Config, target: str | None, engine: str | None, profile: str | None, connection: str | None
) -> tuple[str, dict[str, str | None], str]:
    if target is None:
        if engine is None:
            raise ConfigError("which warehouse? Give --target NAME, or --engine E with --profile or --connection")
        return engine, {"profile": profile, "connection": connection}, ""
    if engine or profile or connection:
        raise ConfigError("--target names the engine and the connection: leave out --engine, --profile, --connection")
    found = config.target(target)
    schema = ".".join(part for part in (found.database, found.schema) if part)
    return found.engine, {"profile": found.profile, "connection": found.connection}, schema


def _others(engine: Engine, findings: Iterable[Finding], *, asks: bool) -> Iterator[Finding]:
    """Return the facts that no statement or answer has shown."""
    shown = {finding.fact.partition(":")[0] for finding in findings}
    for name, fact in engine.facts.items():
        if name not in shown:
            result = FactCheck.NOT_SEEN if asks and PLACE.fullmatch(name) else FactCheck.NOT_PROBED
            yield Finding(name, shortened(fact.value), "–", result, fact.source, fact.read_on)


class _Probe:
    """Runs the probes on a connection."""

    def __init__(self, connection: WarehouseConnection, engine: Engine, config: Config, model: str | None) -> None:
        self.connection, self.engine, self.calls = connection, engine, 0
        self._config, self._wanted = config, model
        self._jobs = JobRunner(connection, JobPolicy(retry_for_s=RETRY_FOR_S))
        self.model = self._resolved(REQUESTS[0])[1].name

    @property
    def line(self) -> ProbeLine:
        """What is asked, told beforehand."""
        count = len(requests(self.engine))
        return ProbeLine(0, count, 0, count, self.model, self.connection.place)

    def _resolved(self, request: Request) -> tuple[Enrichment, ResolvedModel]:
        params = json.dumps(request.params)
        text = f"---\nsource: probe\nkey: [id]\nparams: {params}\noutput: {request.output}\n---\n{{{{ prompt }}}}"
        enrichment = loads(text, name="probe")
        return enrichment, model_for(enrichment, self.engine.name, self._config, self._wanted)

    def statement(self, given: Statement) -> Finding:
        """Run a statement that asks no model."""
        found = self._tried(given.query)
        if isinstance(found, RunError):
            return different(given.fact, given.expected, f"failed: {found}", given.origin)
        ((value,),) = found
        return _time(given, str(value)) if given.is_time else compared(given.fact, given.expected, value, given.origin)

    def json_texts(self) -> list[Finding]:
        """Parse texts, all in one statement; each in its own where that fails."""
        rows = self._tried(parsed(self.engine, JSON_TEXTS))
        if isinstance(rows, RunError):
            return [self._json_text(each) for each in JSON_TEXTS]
        found = {name: (taken, member) for name, taken, member in rows}
        return [_parsed(each, *found[each.name]) for each in JSON_TEXTS]

    def _json_text(self, given: JsonText) -> Finding:
        rows = self._tried(parsed(self.engine, [given]))
        if isinstance(rows, RunError):
            return different(f"JSON: {given.name}", "no failure", f"failed: {rows}", RFC)
        return _parsed(given, *rows[0][1:])

    def compiled(self, schema: str) -> list[Finding]:
        """Compile statements without running them. ``schema`` is where a table would be made; empty: none is."""
        table = relation(self.engine, f"{schema}.{TABLE}") if schema else None
        call = self._call(REQUESTS[1])[1]
        findings = []
        for name, trees in compiled(self.engine, call, table).items():
            fact, refused = self.engine.facts[name], None
            for tree in trees:
                refused = refused or self._refused(tree)
            found = "compiles" if refused is None else line_of(f"is refused: {refused}")
            value = shortened(fact.value)
            findings.append(compared(name, f"{value} compiles", f"{value} {found}", fact))
        return findings

    def _refused(self, tree: Sql) -> RunError | None:
        """Return why the warehouse does not compile a statement, or None."""
        sql = print_sql(self.engine, tree)
        return self._answered(lambda: self.connection.check(sql))

    def model_end(self) -> list[Finding]:
        """Compare the day on which the model may end with today."""
        known = model_end(self.engine, self.model, self.connection.rows)
        if known is None:
            return []
        fact, result = self.engine.facts[known.fact], FactCheck.DIFFERENT if known.has_ended else FactCheck.SAME
        return [Finding(known.fact, f"{self.model} is served", known.to_text(), result, fact.source, fact.read_on)]

    def request(self, request: Request) -> list[Finding]:
        """Ask the model once, and look where its answer holds what."""
        enrichment, call = self._call(request)
        self.calls += 1
        try:
            ((raw,),) = self.connection.rows(print_sql(self.engine, asked(self.engine, call, request.prompt)))
            document = json.loads(raw)
            names, query = read(self.engine, raw)
            rows = self._tried(query)
            if isinstance(rows, RunError):
                raise rows
            columns = dict(zip(names, rows[0], strict=True))
        except TransientError as error:
            return [self._failed(request, line_of(str(error)), FactCheck.NOT_SEEN)]
        except RunError as error:
            # What models refuse may also fail the statement.
            result = FactCheck.NOT_SEEN if request.refused else FactCheck.DIFFERENT
            return [self._failed(request, line_of(str(error)), result)]
        except (ValueError, TypeError):
            return [self._failed(request, "an answer that is no JSON", FactCheck.DIFFERENT)]
        answer = Answer(request, enrichment, call, document, columns)
        return [finding for name in request.shows for finding in SHOWS[name](self.engine, answer)]

    def _call(self, request: Request) -> tuple[Enrichment, ModelCall]:
        enrichment, resolved = self._resolved(request)
        form = self.engine.response_format(output_of(enrichment, resolved)).form if request.structured else None
        hint = hint_text(enrichment.schema) if request.structured and form is None else None
        refused = {name: value for key, value in request.refused.items() if (name := self.engine.params.get(key))}
        params = {**resolved.params, **refused}
        return enrichment, ModelCall(resolved.name, params, enrichment.schema, form, hint, options=resolved.options)

    def _failed(self, request: Request, found: str, result: FactCheck) -> Finding:
        fact = self.engine.facts["call"]
        return Finding(f"call: {request.name}", "an answer", found, result, fact.source, fact.read_on)

    def _tried(self, query: Sql) -> list[tuple[Any, ...]] | RunError:
        """Return the rows of a query that asks no model, or why the warehouse refuses it."""
        return self._answered(lambda: self.connection.rows(print_sql(self.engine, query)))

    def _answered(self, work: Callable[[], T]) -> T | RunError:
        """Do a thing, again after a lost connection, and give what it gives or the warehouse's refusal."""
        try:
            return self._jobs.repeated(work)
        except TransientError:
            raise
        except RunError as error:
            return error


def _parsed(given: JsonText, taken: object, member: object) -> Finding:
    def told(taken: object, member: object) -> str:
        return f"JSON, {member!r}" if taken and given.member is not None else "JSON" if taken else "no JSON"

    return compared(f"JSON: {given.name}", told(given.accepted, given.member), told(taken, member), RFC)


def _time(given: Statement, found: str) -> Finding:
    written = _TIME.match(found)
    result = FactCheck.NOT_SEEN
    if written is not None:
        theirs = datetime.fromisoformat(f"{written[1]}T{written[2]}+00:00")
        result = FactCheck.SAME if abs(datetime.now(UTC) - theirs) <= MAX_CLOCK_ERROR else FactCheck.DIFFERENT
    told = "UTC" if result is FactCheck.SAME else found
    return Finding(given.fact, "UTC", told, result, given.origin.source, given.origin.read_on)
