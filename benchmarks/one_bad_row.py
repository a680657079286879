"""What becomes of the other rows when an endpoint refuses one, of repeated rows, and of a second run.

    python benchmarks/one_bad_row.py [--tools sqlenrich daft ray]

60 rows with 20 distinct texts, of which one is refused with HTTP 400. Each tool asks with its own settings, twice over
the same input. Prints a table: the rows with an answer, the requests of the first run and those of the second one, and
how the program ended. What is not installed is left out.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from local import markdown

from tests.support.endpoint import ScriptedEndpoint

ROWS, DISTINCT, BAD = 60, 20, "text 7"
SQLENRICH = """
import sqlenrich as se
from sys import argv
e = se.enrichment("t", prompt="Classify: {{ body }}", key=["id"], output={"label(enum)": ["a", "b"]})
report = se.run(e, input=argv[1], output=argv[3] + ".duckdb", endpoint=argv[2], model="mock")
print("answered", report.enriched)
"""
DAFT = """
import daft
from daft.functions import prompt
from sys import argv
frame = daft.read_csv(argv[1])
asked = prompt(daft.lit("Classify: ") + frame["body"], provider="openai", model="mock", base_url=argv[2],
               api_key="none", use_chat_completions=True)
rows = frame.with_column("answer", asked).to_pydict()
print("answered", sum(one is not None for one in rows["answer"]))
"""
RAY = """
import ray.data
from ray.data.llm import HttpRequestProcessorConfig, build_processor
from sys import argv
ray.init(include_dashboard=False, log_to_driver=False)
processor = build_processor(
    HttpRequestProcessorConfig(url=argv[2] + "/chat/completions"),
    preprocess=lambda row: {"payload": {"model": "mock", "messages": [{"role": "user", "content": row["body"]}]}},
    postprocess=lambda row: {"answer": row["http_response"]["choices"][0]["message"]["content"]},
)
print("answered", processor(ray.data.read_csv(argv[1])).count())
"""
TOOLS = {"sqlenrich": SQLENRICH, "daft": DAFT, "ray": RAY}
COLUMNS = ("tool", "rows with an answer", "requests", "requests of a second run", "ended with")


def main() -> None:
    """Run each tool twice."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tools", nargs="*", default=list(TOOLS), choices=list(TOOLS))
    given = parser.parse_args()
    table = []
    for tool in given.tools:
        with (
            TemporaryDirectory() as name,
            ScriptedEndpoint(by_prompt={BAD: "400_policy"}, content='{"label": "a"}') as endpoint,
        ):
            data = Path(name) / "in.csv"
            data.write_text("id,body\n" + "".join(f"{n},text {n % DISTINCT}\n" for n in range(ROWS)))
            command = [sys.executable, "-c", TOOLS[tool], str(data), endpoint.url, str(Path(name) / "out")]
            found = []
            for _ in range(2):
                before = len(endpoint.asked)
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
                found.append((len(endpoint.asked) - before, done))
        (first, done), (second, _) = found
        if "ModuleNotFoundError" in done.stderr:
            continue
        answered = next((line.split()[1] for line in done.stdout.splitlines() if line.startswith("answered")), "none")
        errors = re.findall(r"^[\w.]*(?:Error|Exception)\b.*", done.stderr, re.MULTILINE)
        how = "status 0" if not done.returncode else (errors or ["no error"])[-1].partition(":")[0]
        table.append(dict(zip(COLUMNS, (tool, answered, first, second, how), strict=True)))
    print(markdown(table, COLUMNS))


if __name__ == "__main__":
    main()
