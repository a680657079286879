"""Kill unmodified clients of a gateway, and the gateway itself, at random moments, and count what is paid twice.

    python benchmarks/gateway_kills.py [--python PEERS/bin/python] [--rows 200] [--kills 10] [--only openai daft ...]

Each client asks about the same rows in its own way; only its base URL is the gateway's. It is killed at random moments,
then it runs to its end. Then the same with the gateway killed instead. Another run to the end asks nothing. Prints for
each client how often the endpoint was asked, how many of these were repeats, and how many requests were in flight at
the gateway when it was killed. ``--python`` has what the clients need: openai, llm, daft, ray, chdb.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

from gateway import free_port, served
from local import COMMAND, Program, show

CLIENTS = {
    "openai": """
from concurrent.futures import ThreadPoolExecutor
from openai import OpenAI
client = OpenAI(max_retries=8)
def ask(n):
    return client.chat.completions.create(model="mock", messages=[{"role": "user", "content": f"text {n}"}])
with ThreadPoolExecutor(16) as pool:
    found = list(pool.map(ask, range(ROWS)))
assert len(found) == ROWS
""",
    "llm": """
import pathlib, os
folder = pathlib.Path(os.environ["LLM_USER_PATH"])
(folder / "extra-openai-models.yaml").write_text(
    "- model_id: mine\\n  model_name: mock\\n  api_base: " + os.environ["OPENAI_BASE_URL"] + "\\n")
import llm
model = llm.get_model("mine")
model.key = "none"
for n in range(ROWS):
    assert model.prompt(f"text {n}", stream=n % 2 == 0).text()
""",
    "daft": """
import daft
from daft.functions import prompt
rows = daft.from_pydict({"p": [f"text {n}" for n in range(ROWS)]})
found = rows.with_column("a", prompt(daft.col("p"), model="mock", provider="openai")).to_pydict()
assert all(found["a"])
""",
    "ray": """
import os
import ray
from ray.data.llm import HttpRequestProcessorConfig, build_processor
config = HttpRequestProcessorConfig(url=os.environ["OPENAI_BASE_URL"] + "/chat/completions", headers={}, qps=200)
ask = build_processor(
    config,
    preprocess=lambda row: {"payload": {"model": "mock", "messages": [{"role": "user", "content": row["p"]}]}},
    postprocess=lambda row: {"a": row["http_response"]["choices"][0]["message"]["content"]},
)
found = ask(ray.data.from_items([{"p": f"text {n}"} for n in range(ROWS)])).take_all()
assert len(found) == ROWS and all(row["a"] for row in found)
""",
    "clickhouse": """
import os
from chdb import session
opened = session.Session()
page = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
opened.query(f"CREATE NAMED COLLECTION mine AS provider = 'openai', endpoint = '{page}', model = 'mock', api_key = 'k'")
opened.query("SET ai_function_text_default_credentials = 'mine', ai_function_max_retries = 8")
found = opened.query("SELECT countIf(aiGenerate('text ' || toString(number)) != '') FROM numbers(ROWS)").data()
assert int(found) == ROWS, found
""",
}
"""The program of each client, with ROWS as the number of rows."""


def start(python: str, program: str, rows: int, url: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start a client in a process group of its own."""
    environment = {
        **os.environ,
        "OPENAI_BASE_URL": url,
        "OPENAI_API_KEY": "any",
        "LLM_USER_PATH": str(folder),
        "DAFT_ANALYTICS_ENABLED": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONWARNINGS": "ignore",
    }
    text = program.replace("ROWS", str(rows))
    log = (folder / "client.log").open("w")
    return subprocess.Popen([python, "-c", text], env=environment, stdout=log, stderr=log, start_new_session=True)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a client and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    process.wait()


def in_flight(url: str) -> int:
    """Return the requests in flight at a gateway."""
    with urlopen(f"{url}/health") as answer:
        return int(json.load(answer)["in_flight"])


def measure(name: str, python: str, rows: int, kills: int) -> None:
    """Kill the client, then the gateway, and print the counts."""
    drawn = random.Random(name)
    with TemporaryDirectory() as made:
        folder, port = Path(made), free_port()
        url = f"http://127.0.0.1:{port}/v1"
        with Program(folder, "--latency", 0.05) as endpoint:
            given = [*COMMAND, "gateway", "--output", str(folder / "answers.duckdb"), "--endpoint", endpoint.url]
            command = [*given, "--port", str(port), "--concurrency", "16"]
            program, exposed, warm_s = CLIENTS[name], 0, 0.0
            with served(command, port):
                for number in range(kills + 1):
                    began = time.monotonic()
                    client = start(python, program, rows, url, folder)
                    if number < kills:
                        while not endpoint.stats()["complete"] and client.poll() is None:
                            time.sleep(0.05)
                        warm_s = warm_s or time.monotonic() - began
                        time.sleep(max(0.0, warm_s * 0.9 - (time.monotonic() - began)) + drawn.uniform(0, 1))
                        kill(client)
                    elif client.wait() != 0:
                        raise SystemExit(f"{name}: {(folder / 'client.log').read_text()[-2000:]}")
            first_part_ended = time.time()
            # The same rows under another name, while the gateway is killed.
            program = program.replace("text {n}", "other text {n}").replace("'text '", "'other text '")
            client = start(python, program, rows, url, folder)
            for _ in range(kills):
                with suppress(SystemExit), served(command, port) as pid:
                    time.sleep(drawn.uniform(0.5, 1.5))
                    exposed += in_flight(url)
                    os.kill(pid, 9)
                if client.poll() is not None:
                    client = start(python, program, rows, url, folder)
            with served(command, port):
                status = client.wait()
                for _ in range(2 if status else 1):  # a client that gave up runs again; all others ask nothing
                    status = start(python, program, rows, url, folder).wait()
        found = asked(endpoint.log)  # complete once the endpoint has ended
        parts: dict[str, list[str]] = {"client killed": [], "gateway killed": []}
        for at, prompt in found:
            parts["gateway killed" if at > first_part_ended else "client killed"].append(prompt)
        repeats = {f"repeats, {part}": len(prompts) - len(set(prompts)) for part, prompts in parts.items()}
        facts = {"answers": len(found), **repeats, "in_flight_at_kills": exposed, "status": status}
        show({"client": name, "rows": rows, "kills": 2 * kills, **facts})


def asked(log: Path) -> list[tuple[float, str]]:
    """Return the time and the prompt's digest of each answer that the endpoint gave."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [(line["at"], line["prompt"]) for line in map(json.loads, lines) if line["complete"]]


def main() -> None:
    """Measure each client."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--only", nargs="*", choices=CLIENTS, default=list(CLIENTS))
    given = parser.parse_args()
    for name in given.only:
        measure(name, given.python, given.rows, given.kills)


if __name__ == "__main__":
    main()
