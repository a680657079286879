"""A fleet in actors of Ray, as a program: ``python -m tests.support.ray_fleet_driver FAULTS``; it prints JSON."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from typing import Any

import sqlenrich as se
from sqlenrich.spark import VLLMFleet
from tests.support.vllm_processes import FAKE, FAST, alive, family, info, until


def main() -> None:
    """Start a Ray with four GPUs by name, and two servers of two each; kill an actor; end them."""
    import ray

    ray.init(num_cpus=2, num_gpus=4, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    resources: Any = ray.available_resources
    arguments: dict[str, Any] = {"command": (sys.executable, FAKE), "environment": {"FAKE_VLLM": sys.argv[1]}}
    told: dict[str, Any] = {}

    def ready(fleet: Any) -> list[list[str]]:
        return sorted(list(server.gpus) for server in fleet.servers() if server.state == "ready")

    with VLLMFleet.ray("tiny", replicas=2, gpus=2, policy=FAST, **arguments) as fleet:
        servers = fleet.servers()
        told["gpus"] = ready(fleet)
        told["tensor_parallel_size"] = [info(url)["tensor_parallel_size"] for url in fleet.endpoint.urls]
        processes = set().union(*(family(server.pid) for server in servers))
        os.kill(int(servers[0].executor.rpartition(":")[2]), signal.SIGKILL)
        until(lambda: servers[0].url not in [server.url for server in fleet.servers()])
        until(lambda: len(ready(fleet)) == 2, 60)
        told["again"] = ready(fleet)
        processes |= set().union(*(family(server.pid) for server in fleet.servers()))
    told["left"] = sorted(alive(processes))
    until(lambda: resources().get("GPU") == 4.0)
    told["free"] = resources().get("GPU")
    for name, options in (("refused", {"replicas": 3, "gpus": 2}), ("broken", {"gpus": 0, "command": None})):
        try:
            with VLLMFleet.ray("tiny", policy=FAST, **{**arguments, **options}):
                pass
        except se.SqlenrichError as error:
            told[name] = str(error)
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
