"""``sqlenrich preview``: the exact prompts and requests at no cost, or a few answers and an estimate of the rest."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from sqlenrich.ask.model_choice import (
    CLIENT_ENGINE,
    ModelChoice,
    ModelOptions,
    choose_model,
    local_hint,
    request_config,
    wanted_model,
)
from sqlenrich.ask.observer import NullObserver, Observer, PlanLine, Stopper
from sqlenrich.core.embedding import DEFAULT_ALIASES
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import ConfigError
from sqlenrich.core.plurals import counted
from sqlenrich.core.turn import ROW_SYSTEM, SEPARATOR, sent_text, shown_text
from sqlenrich.engines import get_engine
from sqlenrich.plan.model import resolve_model
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.plan.source_columns import BAD_VALUE
from sqlenrich.runner.options import MODEL_OPTIONS, SOURCE_OPTIONS, InputOptions, SourceOptions, check_options, chosen
from sqlenrich.runner.repair_advice import repair_advice
from sqlenrich.runner.session import may_cost
from sqlenrich.runner.source import compile_source, with_source_options
from sqlenrich.schema import evaluate_checks
from sqlenrich.schema.checks.json_text import repair
from sqlenrich.schema.checks.repairs import kept_nulls
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.limits import CUT, TOO_LONG
from sqlenrich.spec.loader import enrichment_of
from sqlenrich.spec.run_settings import AnyModel, LocalModel
from sqlenrich.spec.settings import Config, find_config
from sqlenrich.store import queries
from sqlenrich.store.inputs import input_of
from sqlenrich.store.scratch import scratch_folder

if TYPE_CHECKING:  # "import sqlenrich" does not load the HTTP client
    from sqlenrich.llm.messages import Answer

RULE = "-" * 72
SHOWN_VECTOR_CHARS = 80
MAX_UNCONFIRMED_ROWS = 20
"""The most rows that a preview asks without a confirmation."""


class PreviewOptions(SourceOptions, InputOptions, ModelOptions, total=False):
    """The shorthands of a preview: source and model."""


@dataclass(frozen=True)
class PreviewLine(PlanLine):
    """The announcement of a preview before its first call."""

    total_rows: int = 0

    def to_text(self) -> str:
        """Return the announcement as one line."""
        return (
            f"preview: {self.rows:,} of {counted(self.total_rows, 'row')}, {counted(self.calls, 'call')} to "
            f"{self.model}{self.where}; nothing is stored"
        )


def preview(
    enrichment: Enrichment | str | Path,
    *,
    input: Any = None,
    rows: int = 5,
    prompt_only: bool = False,
    model: AnyModel | None = None,
    config: Config | None = None,
    observer: Observer | None = None,
    stopper: Stopper | None = None,
    **options: Unpack[PreviewOptions],
) -> str:
    """Return the text of a preview of the first ``rows`` rows. Nothing is stored.

    With ``prompt_only``, or if the ``observer`` declines, nothing is sent: the text shows the prompts and the request.
    Otherwise the rows are asked and judged, and the text extrapolates their tokens to the whole table.
    """
    enrichment = enrichment_of(enrichment)
    from sqlenrich.store.duckdb.backend import DuckDBBackend

    check_options("preview", options, PreviewOptions)
    source = input_of(input, options.get("encoding"))
    enrichment = with_source_options(enrichment, **chosen(options, SOURCE_OPTIONS))
    config = config if config is not None else find_config(enrichment.path)
    choice, local = None, model
    if not prompt_only:
        wanted = wanted_model(model, **chosen(options, MODEL_OPTIONS))
        choice = choose_model(enrichment, config, replace(wanted, concurrency=rows))
    if source is None and enrichment.query is None:
        raise ConfigError("which rows? Give --input PATH")
    observer, stopper = observer or NullObserver(), stopper or Stopper()
    with scratch_folder() as folder, DuckDBBackend(folder / "preview.duckdb") as backend:
        resolved = choice.resolved if choice is not None else _resolve(enrichment, config, model)
        enrichment, plan = compile_source(enrichment, backend, resolved, source)
        prompts = plan.step("prompts")
        total = backend.read(plan, queries.count_of(prompts))[0][0]
        found = backend.read(plan, queries.head(prompts, rows))
        shown = [dict(zip(prompts.columns, row, strict=True)) for row in found]
        requests = {row["request_hash"]: row["prompt"] for row in shown if row["request_hash"]}
        accepted = False
        if choice is not None:
            calls = -(-len(requests) // choice.texts_per_call)
            paid, model = may_cost(choice), choice.resolved.name
            line = PreviewLine(len(shown), calls, 0, calls, model, choice.where, paid, total_rows=total)
            accepted = not calls or observer.plan(line)
        if isinstance(local, LocalModel) and not accepted:
            return _prompts(shown, enrichment, _given(enrichment, local), total)
        if choice is None or not accepted:
            endpoint = choice.endpoint if choice is not None else _endpoint(config, model, options.get("endpoint"))
            return _prompts(shown, enrichment, _sent(enrichment, resolved, endpoint), total)
        distinct = backend.read(plan, queries.distinct_of(prompts))[0][0]
    started = time.monotonic()
    answers = _ask(choice, requests, observer, stopper)
    return _answers(enrichment, shown, answers, choice, time.monotonic() - started, total, distinct)


def _resolve(enrichment: Enrichment, config: Config, model: AnyModel | None) -> ResolvedModel:
    """Return the model and the parameters that a run would send, without asking the endpoint for its model."""
    wanted = model.model if isinstance(model, Endpoint) else model if isinstance(model, str) else None
    alias = DEFAULT_ALIASES[enrichment.embedding is not None]
    found = config.model(wanted or enrichment.model, "endpoint") or config.model(alias, "endpoint")
    name, changed = (found.name, found.params) if found is not None else ("(the endpoint's model)", None)
    return resolve_model(enrichment, get_engine(CLIENT_ENGINE), name, changed)


def _endpoint(config: Config, model: AnyModel | None, endpoint: str | None) -> Endpoint | None:
    if isinstance(model, Endpoint):
        return model
    try:
        return config.endpoint(endpoint)
    except ConfigError:  # a preview needs no endpoint
        return None


def _title(enrichment: Enrichment, row: Mapping[str, Any], number: int) -> str:
    place = ", ".join(f"{name} {row[name]}" for name in enrichment.key)
    limit = enrichment.limit
    cut = f" ({limit.cut} is cut to fit max_input_tokens {limit.tokens})" if limit and row.get(CUT) else ""
    return f"{RULE}\nrow {number}: {place}{cut}"


def _state(enrichment: Enrichment, row: Mapping[str, Any]) -> str | None:
    if row["prompt"] is None and row.get(BAD_VALUE):
        return f"BAD_PROMPT: {row[BAD_VALUE]}; it is not sent"
    if row["prompt"] is None:
        return "BAD_PROMPT: the template fails for this row; it is not sent"
    if enrichment.limit is not None and row[TOO_LONG]:
        return f"BAD_PROMPT: {enrichment.limit.detail}; it is not sent"
    return "NO_INPUT: a required column is blank; it is not sent" if row["request_hash"] is None else None


def _prompts(rows: list[dict[str, Any]], enrichment: Enrichment, sent: Sequence[str], total: int) -> str:
    lines: list[str] = []
    for number, row in enumerate(rows, start=1):
        lines += [
            _title(enrichment, row, number),
            _state(enrichment, row) or shown_text(enrichment.turns, row["prompt"]),
        ]
    lines += [RULE, *sent, RULE, f"{len(rows)} of {total:,} rows; nothing was sent"]
    return "\n".join(lines)


def _given(enrichment: Enrichment, local: LocalModel) -> list[str]:
    """Return the lines that say what a class gets."""
    hint = local_hint(enrichment)
    text = sent_text(enrichment.turns, "<the prompt>") + (f"\n\n{hint}" if hint else "")
    return [f"{local.name} {local.version} is given a list of at most {local.batch} texts, each:", text]


def _sent(enrichment: Enrichment, resolved: ResolvedModel, endpoint: Endpoint | None) -> list[str]:
    """Return the lines that say what is sent to an endpoint."""
    from sqlenrich.llm.endpoint.wire.forms import named_page, new_body

    asked = endpoint or Endpoint("http://localhost/v1")
    writer = new_body(asked, request_config(enrichment, resolved, asked))
    several = getattr(writer, "batch", 0)
    text = f"<the row's system>{SEPARATOR}<the prompt>" if ROW_SYSTEM in enrichment.turns else "<the prompt>"
    body = json.loads(writer.of([text, "..."] if several > 1 else [text]))
    page = named_page(writer.page, resolved.name) + (", many texts with one request" if several > 1 else "")
    return [f"each is sent as POST {page}:", json.dumps(body, indent=2, ensure_ascii=False)]


def _shown(enrichment: Enrichment, response: str | None) -> str | None:
    """Return an answer for a person: of a vector its beginning."""
    if enrichment.embedding is None or response is None or len(response) <= SHOWN_VECTOR_CHARS:
        return response
    return f"{response[:SHOWN_VECTOR_CHARS]}… ({len(response):,} characters)"


def _ask(choice: ModelChoice, prompts: Mapping[str, str], observer: Observer, stopper: Stopper) -> dict[str, Answer]:
    """Ask the requests and give their answers. Both mappings are keyed by request hash."""
    from sqlenrich.llm.client import Client
    from sqlenrich.llm.messages import Request

    assert choice.model is not None
    answers: dict[str, Answer] = {}
    pending = [Request(hashed, 1, prompt) for hashed, prompt in prompts.items()]
    with Client(choice.model, concurrency=choice.concurrency) as client:
        stopper.watch(client)
        answers |= {answer.request_hash: answer for answer in client.preflight(pending[:3])}
        observer.answered(list(answers.values()), len(prompts))
        for batch in client.stream(request for request in pending if request.request_hash not in answers):
            answers |= {answer.request_hash: answer for answer in batch}
            observer.answered(batch, len(prompts))
        for line in client.new_warnings():
            observer.note(line)
        stopper.watch(None)
    return answers


def _answers(
    enrichment: Enrichment,
    rows: list[dict[str, Any]],
    answers: Mapping[str, Answer],
    choice: ModelChoice,
    seconds: float,
    total: int,
    distinct: int,
) -> str:
    lines: list[str] = []
    accepted = asked = 0
    refused: list[str | None] = []
    for number, row in enumerate(rows, start=1):
        lines.append(_title(enrichment, row, number))
        if (state := _state(enrichment, row)) is not None:
            lines.append(state)
            continue
        asked += 1
        answer = answers[row["request_hash"]]
        lines += [shown_text(enrichment.turns, row["prompt"]), ""]
        if answer.call_error is not None:
            lines.append(f"CALL_ERROR: {answer.call_error}")
            continue
        lines.append(f"answer: {_shown(enrichment, answer.response)}")
        repaired = repair(answer.response, enrichment.repairs, kept_nulls(enrichment.schema))
        failure = evaluate_checks(enrichment.checks, repaired)
        lines.append("accepted" if failure is None else f"{failure[0]}: {failure[1]}")
        accepted += failure is None
        if failure is not None:
            refused.append(answer.response)
    lines += [
        RULE,
        f"{accepted} of {asked} asked rows accepted, in {seconds:.1f} s at {choice.concurrency} at a time",
    ]
    lines += repair_advice(enrichment, enrichment.place, refused).lines(stored=False)
    known_in = [a.tokens_in for a in answers.values() if a.tokens_in is not None]
    known_out = [a.tokens_out for a in answers.values() if a.tokens_out is not None]
    whole = f"the whole table: {total:,} rows, {distinct:,} distinct requests"
    if known_in and known_out:
        share_in, share_out = sum(known_in) / len(known_in), sum(known_out) / len(known_out)
        whole += f", about {share_in * distinct:,.0f} tokens in and {share_out * distinct:,.0f} out (from these rows)"
    lines.append(whole)
    return "\n".join(lines)
