"""Measure the memory and the rate of a batch's files: one as large as vendors take goes out, and one comes back.

    python benchmarks/batch_files.py --megabytes 190 --requests 50000

A stand-in of the vendor runs in a process of its own. Prints a line of JSON for each vendor and step: the most resident
memory in MB, and how much that is above the opened vendor's, the seconds, and the lines per second. ``sdk`` reads the
same answers whole, as the examples of the SDKs do: what streaming saves is the ratio of the two.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
BESIDE_TEXT_BYTES = 460
"""About what a line of requests or of answers has beside its text."""
CHILD = """
import json, resource, sys, time
from datetime import UTC, datetime
from pathlib import Path
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.llm.batch.vendors import batch_vendor
from sqlenrich.llm.endpoint.request_config import RequestConfig

name, url, count, chars, way = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

def step(what, run):
    began = time.monotonic()
    done = run()
    seconds = time.monotonic() - began
    line = {"vendor": name, "step": what, "mb": round(peak()), "mb_above": round(peak() - base, 1)}
    line["seconds"] = round(seconds, 1)
    print(json.dumps(line | {"lines_per_s": round(count / seconds)}), flush=True)
    return done

def lines():
    text = "x" * chars
    for number in range(count):
        yield vendor.line(vendor.request(f"{number:064x}", text))

def collected(info):
    ids = sum(line.outcome == "answered" for line in vendor.results(info))
    assert ids == count, ids

with batch_vendor(Endpoint(url, api_key="k"), RequestConfig("mock", {"max_tokens": 9}), name=name) as vendor:
    vendor.find("none", datetime.now(UTC), 1, ())  # the SDK loads its types when they are used
    base = peak()
    if way == "send":
        file_id = step("upload", lambda: vendor.upload("bench", lines()))
        print("id", step("create", lambda: vendor.create("bench", file_id)).vendor_id)
    else:
        info = vendor.state(sys.argv[6])
        info = vendor.state(sys.argv[6]) if info.open else info
        if way == "collect":
            step("collect", lambda: collected(info))
        elif name == "openai":
            text = step("sdk text", lambda: vendor.client.files.content(info.output_files[0]).text)
            step("sdk lines", lambda: [json.loads(line) for line in text.split("\\n") if line])
        else:
            step("sdk list", lambda: [*vendor.client.messages.batches.results(info.vendor_id)])
"""


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=190.0)
    parser.add_argument("--requests", type=int, default=50_000)
    given = parser.parse_args()
    chars = max(int(given.megabytes * 1e6 / given.requests) - BESIDE_TEXT_BYTES, 1)
    with TemporaryDirectory() as folder:
        text = Path(folder) / "text"
        text.write_text("y" * chars)
        command = [sys.executable, "tests/support/batch_vendors.py", "--content-file", str(text)]
        stand_in = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert stand_in.stdout is not None
        try:
            urls = stand_in.stdout.readline().split()[1:]
            for name, url in zip(("openai", "anthropic"), urls, strict=True):
                vendor_id = ""
                for way in ("send", "collect", "sdk"):
                    arguments = [name, url, str(given.requests), str(chars), way, vendor_id]
                    child = [sys.executable, "-c", CHILD, *arguments]
                    done = subprocess.run(child, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
                    for line in done.stdout.splitlines():
                        if line.startswith("id "):
                            vendor_id = line.removeprefix("id ")
                        else:
                            print(json.dumps(json.loads(line)), flush=True)
        finally:
            stand_in.terminate()
            stand_in.wait()


if __name__ == "__main__":
    main()
