"""Where a worker's local model runs: in a process of this worker, or in one that its executor's workers share."""

from __future__ import annotations

import hashlib

from sqlenrich.llm.local.gpus import gpu_places, own_places, visible_gpus
from sqlenrich.llm.local.link import ProcessPlace
from sqlenrich.llm.local.model import LocalConfig
from sqlenrich.spark.vllm.host import host_folder, sweep
from sqlenrich.spark.vllm.placement import executor_jvm, task_gpus
from sqlenrich.spark.vllm.processes import start_of


def places_of(config: LocalConfig) -> tuple[ProcessPlace, ...]:
    """Return the places of a model for this task. Raises OSError and PlacementError where none can be shared."""
    if config.per == "process":
        return own_places(config.per)
    jvm = executor_jvm()
    model = hashlib.sha256(repr(config).encode()).hexdigest()[:16]
    sweep()
    shared = host_folder() / f"model-{model}-{jvm}-{start_of(jvm)}"
    if config.per == "executor":
        return (ProcessPlace(shared=shared),)
    return gpu_places(task_gpus() or visible_gpus(), shared)
