"""BigQuery's REST interface, as far as its Python client and dbt use it, before Google's evaluator.

``python -m tests.standins.googlesql --port 0`` prints ``listening http://127.0.0.1:PORT``. Give the client that
address as its ``api_endpoint``, the project ``standin`` and any token. ``GET /calls`` has each model call, and ``POST
/calls`` clears the list. ``POST /settings`` changes what the command line set: see SETTINGS. ``POST /clear`` sets all
of them as at first, and leaves two empty datasets, raw and enriched. ``POST /once`` of ``{"kinds": [...]}`` lets one
statement that asks each meet these faults. ``POST /token`` gives a token. A job goes on when
its client is gone.

Paths: https://docs.cloud.google.com/bigquery/docs/reference/rest/v2; read 2026-11-22.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import socket
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Timer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from sqlenrich.llm.messages import Request
from sqlenrich.llm.mock.model import MockModel
from sqlenrich.spec.loader import load
from tests.standins.control import ASKED, LATE_S, LOST, Control, Once
from tests.standins.googlesql import googlesql, rest
from tests.standins.googlesql.answers import Model
from tests.standins.googlesql.session import Table, View
from tests.standins.googlesql.uploads import Uploads
from tests.standins.googlesql.warehouse import LOCATION, Answer, CallLog, Job, JobError, Warehouse
from tests.standins.obedient import reply

PROJECT, MODEL = "standin", "sqlenrich.gemini"
RESULTS = "_results"
WAIT_S = 10.0
FAULTS = ("throttle", "restart", "reset", "proxy", "portal", "job", "asked")
"""A request that is refused as too many, one that meets a restart, one whose answer is lost (the first of two after it
was done), one that a proxy answers with 404 or a portal with its own page; a job that fails by the service's fault
before it asks, or after it."""
REASONS = {
    "accessDenied": 403,
    "backendError": 503,
    "duplicate": 409,
    "invalid": 400,
    "invalidQuery": 400,
    "jobBackendError": 400,
    "notFound": 404,
    "rateLimitExceeded": 403,
    "stopped": 200,
    "authError": 401,
    "notImplemented": 501,
}
ANSWER = '{"label":"a"}'


SETTINGS: Mapping[str, Any] = {
    "fail": {}, "delay": 0.0, "token": "", "poison": "", "answers": "", "answers_fail": {}, "list_all": True,
    "model": "", "denied": {},
}  # fmt: skip
"""``fail``: fault to share of requests. ``delay``: seconds of a statement with model calls. ``token``: the only one
that is taken, any where it is empty. ``poison``: a text in a prompt that fails its statement. ``answers``: a prompt
file, for which the answers are those of ``run --mock``, with the failures ``answers_fail``; empty: one answer.
``list_all``: whether the jobs of all users may be listed. ``model``: ``obedient``, which does what a prompt asks, or
``elsewhere``, the same with its answers at unknown places, instead. ``denied``: what the
user may not write."""
DEFAULT_MAX_TOKENS = 1024


def answer_of(prompt_file: str, failures: Mapping[str, float]) -> Answer:
    """The model of ``sqlenrich run --mock`` for a prompt file, else one fixed answer."""
    if not prompt_file:
        return lambda prompt: _answer(ANSWER, None, "STOP", len(prompt))
    model = MockModel(load(prompt_file).schema, failures=failures)
    finish = {"length": "MAX_TOKENS", "refusal": "STOP", None: None}

    def answer(prompt: str) -> Mapping[str, Any]:
        (made,) = model.answers([Request("", 1, prompt)])
        reason = finish.get(made.finish_reason, "STOP")
        return _answer(made.response, made.call_error, reason, len(prompt))

    return answer


def obedient(prompt: str | None, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The obedient model behind generateContent."""
    config = json.loads(settings.get("model_params") or "{}").get("generation_config", {})
    most, heat = config.get("max_output_tokens", DEFAULT_MAX_TOKENS), config.get("temperature")
    made = reply(prompt or "", config.get("response_schema"), heat, most)
    if made.error is not None:
        return {"status": f"INVALID_ARGUMENT: {made.error}"}
    full = {
        "candidates": [{"finish_reason": "MAX_TOKENS" if made.cut else "STOP"}],
        "usage_metadata": {"prompt_token_count": made.tokens_in, "candidates_token_count": made.tokens_out},
        "response_id": "standin",
    }
    return {"result": made.text, "status": "", "full_response": json.dumps(full)}


def elsewhere(prompt: str | None, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The obedient model, whose text and tokens stand where no known place is."""
    found = obedient(prompt, settings)
    full = json.loads(found.get("full_response", "{}"))
    moved = {"reply": found.get("result"), "meter": {"tokens_used": full.get("usage_metadata")}}
    return {"status": found["status"], "full_response": json.dumps(moved)}


def _answer(text: str | None, error: str | None, finish: str | None, size: int) -> Mapping[str, Any]:
    full = {
        "candidates": [{"finish_reason": finish}],
        "usage_metadata": {"prompt_token_count": size // 4 + 1, "candidates_token_count": len(text or "") // 4 + 1},
    }
    return {"result": text, "status": error or "", "full_response": json.dumps(full)}


class Server(ThreadingHTTPServer):
    """Serves one warehouse."""

    daemon_threads = True

    def __init__(self, port: int, models: Sequence[str]) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.log = CallLog(answer_of("", {}))
        self.warehouse = Warehouse(googlesql(), PROJECT, self.log.reply, models)
        self.uploads = Uploads(self.warehouse)
        self.control, self.once = Control(SETTINGS, FAULTS), Once()
        self.warehouse.fails_after = lambda: self.control.fault(ASKED) is not None or bool(self.once.take(ASKED))

    def set(self, changes: Mapping[str, Any]) -> None:
        """Change settings. Raises ValueError for an unknown one."""
        self.control.set(changes)
        self._apply()

    def clear(self) -> None:
        """Leave two empty datasets, no calls, and the settings of the beginning."""
        self.control.clear()
        self.once.set(())
        self.warehouse.datasets = {"raw": {}, "enriched": {}}
        self.log.calls.clear()
        self._apply()

    def _apply(self) -> None:
        control = self.control
        self.warehouse.delay_s, self.warehouse.denied = control["delay"], control["denied"]
        self.log.poison = control["poison"]
        self.log.answer = answer_of(control["answers"], control["answers_fail"])
        model = {"": None, "obedient": obedient, "elsewhere": elsewhere}[control["model"]]
        self.warehouse.model = None if model is None else Model(self._logged(model))

    def _logged(self, model: Callable[..., Mapping[str, Any]]) -> Callable[..., Mapping[str, Any]]:
        def answer(prompt: str | None, settings: Mapping[str, Any]) -> Mapping[str, Any]:
            self.log.add(prompt)
            return model(prompt, settings)

        return answer


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        """The file of an upload."""
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            with self.server.warehouse.lock:
                job = self.server.uploads.finish(parse_qs(urlsplit(self.path).query)["upload_id"][0], data)
            self._send(200, self._job(job))
        except JobError as error:
            self._send(REASONS[error.reason], _error(error))

    def _answer(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            raw = gzip.decompress(raw)
        body = json.loads(raw) if raw.strip()[:1] == b"{" else {}
        url = urlsplit(self.path)
        if url.path.startswith("/upload/bigquery/v2/"):
            place = f"http://{self.headers['Host']}{url.path}?upload_id={self.server.uploads.begin(body)}"
            return self._write(200, "application/json", b"{}", {"Location": place})
        if not url.path.startswith("/bigquery/v2/"):
            return self._control(url.path, body)
        fault = self.server.control.fault("throttle", "restart", "reset", "proxy", "portal")
        late = fault == "reset" and self.server.control.reset_comes_late()
        if fault == "reset" and not late:
            return self._reset()
        if fault in ("proxy", "portal"):
            return self._write(404 if fault == "proxy" else 200, "text/html", b"<html>\n<body>Sign in</body></html>")
        labels = body.get("configuration", {}).get("labels", {})
        lost = self.server.once.take(*LOST) if labels.get("step") == "responses" else ""
        if lost == "late":
            Timer(LATE_S, self._route, (url.path, body, {})).start()
            return self._reset()
        try:
            if fault == "throttle":
                raise JobError("rateLimitExceeded", "Exceeded rate limits: too many api requests per user per method")
            if fault == "restart":
                raise JobError("backendError", "Service is currently unavailable; try again")
            status, reply = 200, self._route(url.path, body, parse_qs(url.query))
        except JobError as error:
            status, reply = REASONS[error.reason], _error(error)
        if lost == "twice":
            with suppress(JobError):
                self._route(url.path, body, {})
        return self._reset() if late or lost in ("reply", "cut") else self._send(status, reply)

    def _control(self, path: str, body: Mapping[str, Any]) -> None:
        if path == "/calls":
            known = list(self.server.log.calls)
            if self.command == "POST":
                self.server.log.calls.clear()
            return self._send(200, known)
        if path == "/once" and self.command == "POST":
            self.server.once.set(body["kinds"])
            return self._send(200, {})
        if path == "/clear" and self.command == "POST":
            self.server.clear()
            return self._send(200, {})
        if path == "/token" and self.command == "POST":
            return self._send(200, {"access_token": self.server.control["token"] or "signed", "expires_in": 3600})
        if path == "/settings" and self.command == "POST":
            self.server.set(body)
            return self._send(200, self.server.control.settings)
        return self._send(404, {})

    def _send(self, status: int, reply: Any) -> None:
        self._write(status, "application/json", json.dumps(reply).encode())

    def _write(self, status: int, kind: str, data: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _reset(self) -> None:
        """Close the connection with RST."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RD)
        self.connection.close()

    def _route(self, path: str, body: Mapping[str, Any], query: Mapping[str, list[str]]) -> Any:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.server.control["token"] not in ("", token):
            raise JobError("authError", "Request had invalid authentication credentials.")
        match = re.fullmatch(r"/bigquery/v2/projects/([^/]+)/(.+)", path)
        parts = [unquote(part) for part in match[2].split("/")] if match else []
        if match is None or match[1] != self.server.warehouse.project:
            project = match[1] if match else path
            raise JobError(
                "accessDenied",
                f"Access Denied: Project {project}: User does not have permission (or it may not exist).",
            )
        with self.server.warehouse.lock:
            if parts[0] == "datasets":
                return self._datasets(parts[1:], body)
            if self.command == "POST" and parts == ["jobs"]:
                return self._insert_job(body)
            if self.command == "POST" and parts == ["queries"]:
                return self._query(body)
        if parts == ["jobs"]:
            return self._list(query)
        job = self.server.warehouse.jobs.get(parts[1])
        if job is None:
            raise JobError("notFound", f"Not found: Job {self.server.warehouse.project}:{parts[1]}")
        if parts[2:] == ["cancel"]:
            job.cancelled.set()
            return {"job": self._job(job)}
        return self._results(job) if parts[0] == "queries" else self._job(job)

    # Datasets and tables

    def _datasets(self, parts: list[str], body: Mapping[str, Any]) -> Any:
        warehouse = self.server.warehouse
        if not parts:
            if self.command == "POST":
                name = body["datasetReference"]["datasetId"]
                if name in warehouse.datasets:
                    raise JobError("duplicate", f"Already Exists: Dataset {warehouse.project}:{name}")
                warehouse.datasets[name] = {}
                return self._dataset(name)
            return {"datasets": [self._dataset(name) for name in warehouse.datasets]}
        dataset = parts[0]
        if dataset not in (*warehouse.datasets, RESULTS):
            raise JobError("notFound", f"Not found: Dataset {warehouse.project}:{dataset}")
        if len(parts) == 1:
            if self.command == "DELETE":
                del warehouse.datasets[dataset]
            return self._dataset(dataset)
        if parts[1] != "tables":
            return {parts[1]: []}
        if len(parts) == 2:
            if self.command == "POST":
                name = body["tableReference"]["tableId"]
                if warehouse.table(dataset, name) is not None:
                    raise JobError("duplicate", f"Already Exists: Table {warehouse.project}:{dataset}.{name}")
                warehouse.create(dataset, name, body["schema"]["fields"])
                return self._table(dataset, name, warehouse.datasets[dataset][name])
            tables = warehouse.datasets[dataset].items()
            return {"tables": [self._table(dataset, *found) for found in tables], "totalItems": len(tables)}
        return self._one_table(dataset, parts[2], parts[3:], body)

    def _one_table(self, dataset: str, name: str, rest_of: list[str], body: Mapping[str, Any]) -> Any:
        warehouse = self.server.warehouse
        table = warehouse.jobs[name].result if dataset == RESULTS else warehouse.table(dataset, name)
        if table is None:
            raise JobError("notFound", f"Not found: Table {warehouse.project}:{dataset}.{name}")
        if rest_of == ["data"]:
            return {"totalRows": str(len(table.rows)), "rows": rest.rows(table.tuples(), table.columns)}
        if rest_of == ["insertAll"]:
            warehouse.insert(table, [row["json"] for row in body["rows"]])
            return {}
        if self.command == "DELETE":
            del warehouse.datasets[dataset][name]
        return self._table(dataset, name, table)

    def _dataset(self, name: str) -> dict[str, Any]:
        project = self.server.warehouse.project
        reference = {"projectId": project, "datasetId": name}
        return {
            "kind": "bigquery#dataset",
            "id": f"{project}:{name}",
            "datasetReference": reference,
            "location": LOCATION,
        }

    def _table(self, dataset: str, name: str, table: Table) -> dict[str, Any]:
        reference = {"projectId": self.server.warehouse.project, "datasetId": dataset, "tableId": name}
        return {
            "kind": "bigquery#table",
            "id": f"{self.server.warehouse.project}:{dataset}.{name}",
            "tableReference": reference,
            "type": "VIEW" if isinstance(table, View) else "TABLE",
            "location": LOCATION,
            "numRows": str(len(table.rows)),
            "schema": {"fields": rest.fields(table.columns)},
        }

    # Jobs

    def _insert_job(self, body: Mapping[str, Any]) -> Any:
        configuration = body["configuration"]
        query = configuration["query"]
        dataset = query.get("defaultDataset", {}).get("datasetId")
        id = body.get("jobReference", {}).get("jobId") or str(uuid.uuid4())
        warehouse = self.server.warehouse
        job = Job(id, query["query"], configuration)
        if configuration.get("dryRun"):
            job.statement_type, job.state = warehouse.dry_run(job.sql, dataset).upper(), "DONE"
            return self._job(job)
        if id in warehouse.jobs:
            raise JobError("duplicate", f"Already Exists: Job {warehouse.project}:{LOCATION}.{id}")
        fault = self.server.control.fault("job")
        error = JobError("jobBackendError", "Retrying the job may solve the problem") if fault else None
        warehouse.start(job, dataset, error)
        return self._job(job)

    def _query(self, body: Mapping[str, Any]) -> Any:
        reference = {"jobReference": {"jobId": body.get("requestId")}}
        query = {name: body[name] for name in ("query", "defaultDataset") if name in body}
        made = self._insert_job(reference | {"configuration": {"query": query, "labels": body.get("labels", {})}})
        return {"kind": "bigquery#queryResponse", "jobReference": made["jobReference"], "jobComplete": False}

    def _list(self, query: Mapping[str, list[str]]) -> Any:
        if "allUsers" in query and not self.server.control["list_all"]:
            raise JobError("accessDenied", "Access Denied: User does not have bigquery.jobs.listAll permission")
        states = {state.upper() for state in query.get("stateFilter", [])}
        jobs = sorted(self.server.warehouse.jobs.values(), key=lambda job: -int(job.created))
        return {"jobs": [self._job(job) for job in jobs if not states or job.state in states]}

    def _job(self, job: Job) -> dict[str, Any]:
        project = self.server.warehouse.project
        status: dict[str, Any] = {"state": job.state}
        if job.state == "DONE" and job.error is not None:
            status["errorResult"] = {"reason": job.error.reason, "message": str(job.error)}
            status["errors"] = [status["errorResult"]]
        about: dict[str, Any] = {"statementType": job.statement_type}
        if job.ended.is_set():
            about["totalBytesBilled"] = str(rest.BYTES_BILLED)
            job_ms = int(job.times["endTime"]) - int(job.times["startTime"])
            about["totalSlotMs"] = str(job_ms)
        if job.written is not None:
            about["numDmlAffectedRows"] = str(job.written)
        configuration = dict(job.configuration)
        if "query" in configuration:
            dataset, table = job.destination or (RESULTS, job.id)
            place = {"projectId": project, "datasetId": dataset, "tableId": table}
            configuration["query"] = dict(configuration["query"]) | {"destinationTable": place}
        configuration["jobType"] = "QUERY" if "query" in configuration else "LOAD"
        return {
            "kind": "bigquery#job",
            "id": f"{project}:{LOCATION}.{job.id}",
            "jobReference": {"projectId": project, "jobId": job.id, "location": LOCATION},
            "configuration": configuration,
            "state": job.state,
            "status": status,
            "statistics": {"creationTime": job.created, **job.times, "query": about},
        }

    def _results(self, job: Job) -> Any:
        reference = self._job(job)["jobReference"]
        if not job.ended.wait(WAIT_S):
            return {"kind": "bigquery#getQueryResultsResponse", "jobReference": reference, "jobComplete": False}
        if job.error is not None:
            raise job.error
        reply: dict[str, Any] = {"jobReference": reference, "jobComplete": True}
        if job.written is not None:
            reply["numDmlAffectedRows"] = str(job.written)
        if job.result is not None:
            reply["schema"] = {"fields": rest.fields(job.result.columns)}
            reply["rows"] = rest.rows(job.result.tuples(), job.result.columns)
            reply["totalRows"] = str(len(job.result.rows))
        return reply


def _error(error: JobError) -> dict[str, Any]:
    told = {"reason": error.reason, "message": str(error), "domain": "global"}
    return {"error": {"code": REASONS[error.reason], "message": str(error), "errors": [told]}}


def _shares(written: Sequence[str]) -> dict[str, float]:
    return {name: float(share) for name, _, share in (item.partition("=") for item in written)}


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(prog="python -m tests.standins.googlesql", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model", action="append", default=[], help=f"dataset.model; default {MODEL}")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds that a statement with model calls takes")
    parser.add_argument("--fail", action="append", default=[], metavar="KIND=SHARE", help=", ".join(FAULTS))
    parser.add_argument("--token", default="", help="the only token that is taken")
    parser.add_argument("--poison", default="", help="a statement with a prompt that holds this text fails")
    parser.add_argument("--answers", default="", metavar="FILE.prompt", help="answer as `run --mock` does for it")
    parser.add_argument("--answers-fail", action="append", default=[], metavar="KIND=SHARE", help="as --mock-failures")
    given = vars(parser.parse_args())
    server = Server(given.pop("port"), given.pop("model") or [MODEL])
    server.set(given | {name: _shares(given[name]) for name in ("fail", "answers_fail")})
    print(f"listening http://127.0.0.1:{server.server_port}", flush=True)  # noqa: T201
    server.serve_forever()
