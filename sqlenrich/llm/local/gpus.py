"""The GPUs that this process may use, and the places of a local model that has a process on each."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from sqlenrich.llm.local.link import ProcessPlace

VISIBLE = "CUDA_VISIBLE_DEVICES"
LIST_S = 30.0
"""nvidia-smi answers within this time."""


def visible_gpus() -> tuple[str, ...]:
    """Return the GPUs by ``CUDA_VISIBLE_DEVICES``, else by ``nvidia-smi``; none where neither names any."""
    if (given := os.environ.get(VISIBLE)) is not None:
        return tuple(gpu.strip() for gpu in given.split(",") if gpu.strip() and gpu.strip() != "-1")
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=LIST_S,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line.strip() for line in listed.splitlines() if line.strip())


def gpu_places(gpus: Sequence[str], shared: Path | None = None) -> tuple[ProcessPlace, ...]:
    """Return a place for each GPU; ``shared`` is a path that each of them makes one of its own."""
    return tuple(
        ProcessPlace({VISIBLE: gpu}, None if shared is None else shared.with_name(f"gpu{gpu}-{shared.name}"))
        for gpu in gpus
    )


def own_places(per: str) -> tuple[ProcessPlace, ...]:
    """Return the places of a model whose processes are those of this process alone; none without a GPU for it."""
    return gpu_places(visible_gpus()) if per == "gpu" else (ProcessPlace(),)
