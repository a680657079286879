"""A server that looks like ``vllm serve`` to its keeper and its clients. Standard library only, one file.

Like vLLM, it takes a key from VLLM_API_KEY, has an engine in a process of its own that outlives it, and ends with
status 0 when its engine dies. Files in the folder FAKE_VLLM say how it fails: ``stuck`` (it answers no prompt),
``deaf`` (nor anything else but /health), ``broken`` (it ends at once), ``port in use`` (it does so once). GET /info
tells how it was started.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FOREVER_S = 1000.0
LONGEST = 100_000
TEXT = '{"intent": "a"}'


class State:
    """What the metrics say, and how the server fails."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running = 0
        self.prompts = 0
        self.lock = threading.Lock()

    def has(self, fault: str) -> bool:
        """Whether the server fails in this way now."""
        return (self.folder / fault).exists()

    def metrics(self) -> str:
        """Return the page of vLLM 0.32, as far as the fleet reads it."""
        label = '{engine="0",model_name="fake model"}'
        lines = {
            "num_requests_running": self.running,
            "num_requests_waiting": 2,
            "kv_cache_usage_perc": 0.25,
            "prefix_cache_queries_total": 10.0 * self.prompts,
            "prefix_cache_hits_total": 4.0 * self.prompts,
            "prompt_tokens_total": 10.0 * self.prompts,
            "generation_tokens_total": 2.0 * self.prompts,
        }
        return "# HELP a page\n" + "".join(f"vllm:{name}{label} {value}\n" for name, value in lines.items())


def engine() -> list[int]:
    """Start an engine and its worker, the second in a session of its own; neither ends with its parent."""
    read, write = os.pipe()
    first = os.fork()
    if first == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        worker = os.fork()
        if worker == 0:
            os.setsid()
            time.sleep(FOREVER_S)
        os.write(write, str(worker).encode())
        time.sleep(FOREVER_S)
    return [first, int(os.read(read, 16))]


def handler(state: State, key: str, info: dict[str, Any]) -> type[BaseHTTPRequestHandler]:
    """Return the pages."""

    class Pages(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Write no access log."""

        def answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            if self.path == "/health":
                return self.answer(200, b"")
            if state.has("deaf"):
                time.sleep(FOREVER_S)
            if self.path == "/metrics":
                return self.answer(200, state.metrics().encode())
            if self.path == "/info":
                return self.answer(200, json.dumps(info).encode())
            return self.guarded({"data": [{"id": info["model"]}]})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            with state.lock:
                state.running += 1
            if state.has("stuck") or state.has("deaf"):
                time.sleep(FOREVER_S)
            with state.lock:
                state.running -= 1
                state.prompts += 1
            usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
            choice = {"index": 0, "text": "!", "message": {"role": "assistant", "content": TEXT}}
            self.guarded({"choices": [{**choice, "finish_reason": "stop"}], "model": info["model"], "usage": usage})

        def guarded(self, body: dict[str, Any]) -> None:
            if key and self.headers["Authorization"] != f"Bearer {key}":
                return self.answer(401, b'{"error": "Unauthorized"}')
            return self.answer(200, json.dumps(body).encode())

    return Pages


def main() -> None:
    """Serve as the command line says."""
    parser = argparse.ArgumentParser(prog="fake_vllm")
    parser.add_argument("model")
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--tensor-parallel-size", type=int, default=1)
    parser.add_argument("--shutdown-timeout", type=int)
    parser.add_argument("--disable-uvicorn-access-log", action="store_true")
    parser.add_argument("--enable-prompt-tokens-details", action="store_true")
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--compilation-config", type=json.loads)
    given = parser.parse_args()
    folder = Path(os.environ["FAKE_VLLM"])
    key = os.environ.get("VLLM_API_KEY", "")
    sys.stderr.write(f"loading {given.model}, my key is {key}\n")
    if (folder / "broken").exists():
        sys.exit("no weights")
    if (folder / "worker").exists():
        sys.stderr.write("ERROR Worker proc VllmWorker-0 died unexpectedly (exit code: -4)\nfinished\n")
        sys.exit()
    if (given.max_model_len or 0) > LONGEST:
        sys.exit(
            f"1 validation error for ModelConfig\n  Value error, {given.max_model_len} is too long [type=value_error]"
        )
    if (folder / "port in use").exists():
        (folder / "port in use").unlink()
        sys.exit(str(OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))))
    processes = engine()
    info = {
        **vars(given),
        "pid": os.getpid(),
        "engine": processes,
        "gpus": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "pythonpath": os.environ.get("PYTHONPATH"),
    }

    def watch() -> None:
        os.waitpid(processes[0], 0)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
    server = ThreadingHTTPServer((given.host, given.port), handler(State(folder), key, info))
    server.daemon_threads = True
    server.serve_forever()


if __name__ == "__main__":
    main()
