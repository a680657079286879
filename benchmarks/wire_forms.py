"""Measure the processor time that a request costs the client in each wire form.

    python benchmarks/wire_forms.py [--requests 20000] [--repeat 5]

A server in another process gives the same short answer at once. Prints a line of JSON for each form: microseconds of
processor time a request, the median, and its ratio to chat completions. KServe's requests have one row each.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from typing import Any

import orjson
from local import show

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.llm.client import Client
from sqlenrich.llm.endpoint.batched_model import endpoint_model
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.messages import Request

TEXT = '{"intent": "card", "urgency": 3}'
SCHEMA = {"type": "object", "properties": {"intent": {"type": "string"}, "urgency": {"type": "integer"}}}
FORM = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
KSERVE = {"input": "text", "output": "answer"}
WIDTH = 64
ANSWERS: dict[str, Any] = {
    "openai": {
        "id": "1", "object": "chat.completion", "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": TEXT}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18},
    },
    "responses": {
        "id": "1", "object": "response", "model": "m", "status": "completed",
        "output": [
            {"type": "message", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": TEXT, "annotations": []}]}
        ],
        "usage": {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18},
    },
    "anthropic": {
        "id": "1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": TEXT}], "usage": {"input_tokens": 9, "output_tokens": 9},
    },
}  # fmt: skip


class Canned(asyncio.Protocol):
    """Answers every request at once."""

    def __init__(self, form: str) -> None:
        self.form, self.buffer = form, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            at = head.find(b"content-length: ")
            length = int(head[at + 16 :].split(b"\r", 1)[0]) if at >= 0 else 0
            if len(self.buffer) < end + 4 + length:
                return
            body, self.buffer = self.buffer[end + 4 : end + 4 + length], self.buffer[end + 4 + length :]
            answer = orjson.dumps(self.answer(body))
            self.transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(answer)
                + answer
            )

    def answer(self, body: bytes) -> Any:
        """Return the answer to a body."""
        if self.form != "kserve":
            return ANSWERS[self.form]
        rows = orjson.loads(body)["inputs"][0]["shape"][0] if body else 0
        output = {"name": "answer", "datatype": "BYTES", "shape": [rows, 1], "data": [TEXT] * rows}
        return {"model_name": "m", "outputs": [output]}


async def serve(form: str) -> None:
    """Serve until the process is ended."""
    server = await asyncio.get_running_loop().create_server(lambda: Canned(form), "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


def cpu_us(form: str, requests: int) -> float:
    """Return the microseconds of processor time that a request costs."""
    server = subprocess.Popen([sys.executable, __file__, "--serve", form], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        options: dict[str, Any] = {"kserve": KSERVE} if form == "kserve" else {}
        url = f"http://127.0.0.1:{port}" + ("" if form == "kserve" else "/v1")
        endpoint = Endpoint(url, api=form, concurrency=WIDTH, **options)
        config = RequestConfig("m", params={"max_tokens": 64}, response_format=None if form == "kserve" else FORM)
        asked = (Request(f"{number:064x}", 1, f"Classify message {number}: a card") for number in range(requests))
        with Client(endpoint_model(endpoint, config), concurrency=WIDTH) as client:
            started = time.process_time()
            answers = [answer for batch in client.stream(asked) for answer in batch]
            used = time.process_time() - started
        assert len(answers) == requests
        assert {answer.response for answer in answers} == {TEXT}, answers[0]
        return used / requests * 1e6
    finally:
        server.kill()
        server.wait()


def main() -> None:
    """Measure each form in turn, several times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve(given.serve))
        return
    forms = (*ANSWERS, "kserve")
    rounds = [{form: cpu_us(form, given.requests) for form in forms} for _ in range(given.repeat)]
    for form in forms:
        figure = statistics.median(one[form] for one in rounds)
        ratio = statistics.median(one[form] / one["openai"] for one in rounds)
        show({"form": form, "cpu_us": round(figure), "ratio": round(ratio, 2)})


if __name__ == "__main__":
    main()
