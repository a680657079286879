"""A Spark driver with a fleet, as a program that can be killed: ``python fleet_driver.py FAULTS SCRATCH``.

Two executors on this host, with two GPUs each by a discovery script, and servers that look like vLLM. A line of JSON
for each line of standard input: the state of the servers.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.support.vllm_processes import FAKE, FAST

GPUS = '#!/bin/sh\necho \'{"name": "gpu", "addresses": ["0", "1"]}\'\n'


def main() -> None:
    """Start a session and a fleet; tell the servers until standard input ends."""
    from pyspark.sql import SparkSession

    from sqlenrich.spark import VLLMFleet

    faults, scratch = sys.argv[1], Path(sys.argv[2])
    script = scratch / "gpus.sh"
    script.write_text(GPUS)
    script.chmod(0o700)
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        "spark.executor.cores": "2",
        "spark.worker.resource.gpu.amount": "2",
        "spark.worker.resource.gpu.discoveryScript": str(script),
        "spark.executor.resource.gpu.amount": "2",
        "spark.executor.resource.gpu.discoveryScript": str(script),
        "spark.task.resource.gpu.amount": "0.1",
    }
    builder: Any = SparkSession.builder
    builder = builder.master("local-cluster[2,2,600]").appName("fleet")
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    with VLLMFleet(
        spark,
        "tiny",
        command=(sys.executable, FAKE),
        environment={"FAKE_VLLM": faults},
        policy=FAST,
        max_model_len=2048,
        compilation_config={"level": 0},
    ) as fleet:
        for _ in sys.stdin:
            endpoint = fleet.endpoint
            told = {"servers": [asdict(server) for server in fleet.servers()], "urls": endpoint.urls}
            sys.stdout.write(json.dumps({**told, "endpoint": repr(endpoint), "key": endpoint.resolve_key()}) + "\n")
            sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main()
