"""What a run of many rows reads and writes in a warehouse, by the columns of its own statements.

    python benchmarks/scale.py [--rows 100000000] [--new 0.03] [--file support_ticket]

The statements are those of the plan. sqlglot tells which columns of which table each of them reads. The widths of the
columns are means of a run of the file over its sample with the mock model; ``raw`` has 900 bytes more than the text.
Three runs are reckoned: the first one, one with nothing new, and one in which a share of the rows is new; each by a
script and by ``sqlenrich run``. Each row is a request of its own, and accepted. No warehouse is asked.

Prints a table in Markdown: bytes read and written, and what BigQuery bills for them, where no partition or cluster
spares any, at its price on demand.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import sqlglot
from local import ROOT
from sqlglot import exp
from sqlglot.optimizer.pushdown_projections import pushdown_projections
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import traverse_scope

import sqlenrich as se
from sqlenrich.engines import get_engine
from sqlenrich.plan.compile import compile_plan
from sqlenrich.plan.plan import Plan
from sqlenrich.renderer.statements import JUDGED, of_prompts, unread_answers
from sqlenrich.store.current_results import different_rows
from sqlenrich.store.queries import Since, asked_of, count_pending, pending_answers, upper_bound

ENGINE = "bigquery"
"""The columns that a statement reads are the same on each engine."""
DOLLARS_A_TIB = 6.25
"""What BigQuery is taken to cost on demand: prices differ by region."""
ENVELOPE = 900
"""The bytes of an answer in ``raw`` beside the model's text: the vendor's names, counts and ratings."""
WIDTHS = {"attempt": 8, "retryable": 1, "tokens_in": 8, "tokens_cached": 8, "tokens_out": 8, "latency_ms": 8}
WIDTHS |= {"asked_at": 8, "_asked_at": 8, "_repaired": 1, "_attempts": 8, "prompt_bytes": 8}
WIDTHS |= {"request_hash": 66, "_request_hash": 66, "sent_hash": 66, "run_id": 30, "read_by": 24, "model": 24}
WIDTHS |= {"_model": 24, "served_model": 24, "fingerprint": 18, "_fingerprint": 18, "request_id": 40, "version": 3}
"""The bytes of columns of a fixed form."""
TIB = 2**40
REFUSED_ONLY = {"prompt", "response"}
"""The columns of ``checked`` that an accepted row leaves empty."""


def columns_read(sql: str, schema: Mapping[str, Mapping[str, str]]) -> dict[str, set[str]]:
    """Return the columns that a query reads of each table."""
    tree = qualify(
        sqlglot.parse_one(sql, dialect=ENGINE), dialect=ENGINE, schema=dict(schema), quote_identifiers=False,
        validate_qualify_columns=False,
    )  # fmt: skip
    found: dict[str, set[str]] = {}
    for scope in traverse_scope(pushdown_projections(tree)):
        for name, source in scope.sources.items():
            if isinstance(source, exp.Table):
                found.setdefault(source.name, set()).update(c.name for c in scope.columns if c.table == name)
    return found


def widths_of(file: str) -> dict[str, float]:
    """Return the mean bytes of each column, of a run over the sample with the mock model."""
    enrichment = se.load(file)
    with TemporaryDirectory() as folder:
        output = Path(folder) / "out.duckdb"
        sample = ROOT / "templates" / file / "sample.csv"
        se.run(enrichment, input=sample, output=output, mock=True)
        found: dict[str, float] = {}
        with duckdb.connect(str(output), read_only=True) as db:
            name = enrichment.name
            for table in (name, f"{name}_prompts", f"{name}_responses", f"{name}_checked", f"{name}_quarantine"):
                for column, *_ in db.execute(f"DESCRIBE {table}").fetchall():
                    query = f"SELECT AVG(COALESCE(STRLEN(CAST({column} AS VARCHAR)), 0)) FROM {table}"
                    found.setdefault(column, float(db.execute(query).fetchall()[0][0] or 0.0))
            columns = db.execute(f"DESCRIBE SELECT * FROM read_csv('{sample}', all_varchar = true)").fetchall()
            for column, *_ in columns:
                query = f"SELECT AVG(COALESCE(STRLEN({column}), 0)) FROM read_csv('{sample}', all_varchar = true)"
                found.setdefault(column, float(db.execute(query).fetchall()[0][0] or 0.0))
    return found | {"raw": found["response"] + ENVELOPE} | WIDTHS


@dataclass
class Reckoning:
    """The statements of runs of one plan, and what they read and write."""

    plan: Plan
    widths: Mapping[str, float]

    def __post_init__(self) -> None:
        engine = get_engine(ENGINE)
        plan, call = self.plan, self.plan.responses
        tables = {step.relation.strip("`"): dict.fromkeys(step.columns, "STRING") for step in plan.steps}
        pending = ("request_hash", "attempt", "prompt", "prompt_bytes")
        tables[plan.relations.text("pending").strip("`")] = dict.fromkeys(pending, "STRING")
        tables["tickets"] = dict.fromkeys(self.widths, "STRING")
        self.roles = {name.strip("`"): role for role in ROLES for name in [plan.relations.text(role)]}
        since = Since(engine)
        own = [of_prompts(engine, call)]
        queries = {step.name: step.sql for step in plan.steps}
        queries["pending"] = str(plan.step("responses").pending_sql)
        queries["unread"] = call.relations.sql(unread_answers(engine, call, own))
        queries["different"] = call.relations.sql(different_rows(engine, plan))
        queries["count"] = call.relations.sql(count_pending(call))
        queries["bound"] = call.relations.sql(upper_bound("", 1))
        queries["asked"] = call.relations.sql(asked_of(engine, call, "", "g", since))
        queries["judged"] = call.relations.sql(pending_answers(engine, call, "", "g", since, 1))
        self.reads = {name: self._row_bytes(columns_read(sql, tables)) for name, sql in queries.items()}

    def _row_bytes(self, columns: Mapping[str, set[str]]) -> dict[str, float]:
        found: dict[str, float] = {}
        for table, names in columns.items():
            role = self.roles.get(table, "source")
            filled = names - REFUSED_ONLY if role == "checked" else names
            found[role] = found.get(role, 0.0) + sum(self.widths[name] for name in filled)
        return found

    def width(self, name: str) -> float:
        """Return the bytes of a row that a step writes."""
        if name == "pending":
            return sum(self.widths[one] for one in ("request_hash", "attempt", "prompt"))
        step = self.plan.step(name)
        names = set(step.selected if name == "responses" else step.columns)
        return sum(self.widths[one] for one in (names - REFUSED_ONLY if name == "checked" else names))

    def read(self, name: str, rows: Mapping[str, float]) -> float:
        """Return the bytes that a statement reads."""
        return sum(width * rows.get(role, 0.0) for role, width in self.reads[name].items())

    def script(self, rows: float, new: float, stored: float) -> Iterator[tuple[str, float, float]]:
        """Give of each statement of a script its name, the bytes that it reads, and those that it writes."""
        before = {"source": rows, "prompts": rows, "responses": stored, "pending": new, "checked": rows}
        after = before | {"responses": stored + new}
        yield "prompts", self.read("prompts", before), rows * self.width("prompts")
        yield "unread", self.read("unread", before), 0.0
        yield "pending", self.read("pending", before), new * self.width("pending")
        yield "responses", self.read("responses", before), new * self.width("responses")
        if new:
            yield "unread", self.read("unread", before | {"responses": new}), 0.0
            answer = sum(self.widths[name] for name in self.plan.responses.columns)
            yield "read", new * answer + rows * self.widths["request_hash"], new * answer
        yield from self.results(after)

    def results(self, rows: Mapping[str, float]) -> Iterator[tuple[str, float, float]]:
        """Give the statements that make the results."""
        for name in JUDGED:
            yield name, self.read(name, rows), rows["prompts"] * self.width(name) if name != "quarantine" else 0.0

    def run(self, rows: float, new: float, stored: float) -> Iterator[tuple[str, float, float]]:
        """Give the same of a run."""
        before = {"source": rows, "prompts": rows, "responses": stored, "pending": new, "checked": rows}
        lines = [one for one in self.script(rows, new, stored) if one[0] not in JUDGED]
        yield from lines[:2]
        yield "count", self.read("count", before), 0.0
        if not new:
            yield "different", self.read("different", before), 0.0
            return
        yield from lines[2:]
        part = before | {"responses": new}
        for name in ("bound", "asked", "judged"):
            yield name, self.read(name, part), 0.0
        yield from self.results(before | {"responses": stored + new})


ROLES = ("prompts", "pending", "responses", "checked", "enriched", "quarantine")


def shown(bytes_: float) -> str:
    """Return an amount of data."""
    return f"{bytes_ / 1e12:.2f} TB" if bytes_ >= 1e12 else f"{bytes_ / 1e9:.0f} GB"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e8)
    parser.add_argument("--new", type=float, default=0.03)
    parser.add_argument("--file", default="support_ticket")
    parser.add_argument("--statements", action="store_true", help="a line for each statement too")
    given = parser.parse_args()
    widths = widths_of(given.file)
    plan = compile_plan(se.load(given.file), ENGINE, {"source": "tickets"})
    reckoned = Reckoning(plan, widths)
    print(
        f"of a row: prompt {widths['prompt']:,.0f} bytes, response {widths['response']:,.0f}, raw {widths['raw']:,.0f}"
    )
    cases = {
        "the first run": (given.rows, 0.0),
        "nothing new": (0.0, given.rows),
        f"{given.new:.0%} new": (given.rows * given.new, given.rows),
    }
    print("| | by | read | written | BigQuery |\n| --- | --- | --- | --- | --- |")
    for name, (new, stored) in cases.items():
        for by in ("script", "run"):
            lines = list(getattr(reckoned, by)(given.rows, new, stored))
            read, written = (sum(line[place] for line in lines) for place in (1, 2))
            print(f"| {name} | {by} | {shown(read)} | {shown(written)} | ${read / TIB * DOLLARS_A_TIB:,.2f} |")
            for line in lines if given.statements else ():
                print(f"|   {line[0]} | | {shown(line[1])} | {shown(line[2])} | |")


if __name__ == "__main__":
    main()
