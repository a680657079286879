"""Measure runs against an endpoint with limits of requests and tokens per minute: the refusals, and the used quota.

    python benchmarks/limits.py [--minutes 4] [--rpm 600] [--tpm 60000] [--variants requests tokens unknown told]

The endpoint answers 429 to everything beyond its limits in a sliding minute. Each run has as many rows as the limit
allows in the minutes. The variants:

- ``requests``: short prompts, so the requests are the limit; ``sqlenrich.toml`` has both limits
- ``tokens``: long prompts, so the tokens are the limit; ``sqlenrich.toml`` has both limits
- ``unknown``: short prompts; nothing names the limits
- ``told``: short prompts; the endpoint's headers report what is left (``--tells`` names the style)

Prints for each variant the share of requests with 429, and the used share of the limit between the first and the last
accepted request. The share is that of the whole time, and that after the first minute, because an empty window accepts
a burst at first.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from local import TELLS, Program, counts, enrich, markdown, show, texts, write_prompt, write_settings

ANSWER = '{"label":"question","urgency":3}'
SHORT = "'Message ' || i"
# 370 to 430 tokens with the template and the answer.
LONG = "'Message ' || i || ': ' || repeat('the parcel is not here; ', 55 + i % 11)"
LONG_TOKENS = 400
VARIANTS = {"requests": (SHORT, True), "tokens": (LONG, True), "unknown": (SHORT, False), "told": (SHORT, False)}
MINUTE_S = 60.0
COLUMNS = (
    *("variant", "status", "seconds", "rows", "enriched", "requests", "refused", "share_429", "used"),
    *("used_after_first_minute", "binding", "error"),
)


def used(timeline: Sequence[Mapping[str, int]], what: str, limit: int, first: float, last: float) -> float | None:
    """Return the used share of a limit between two moments, or None if they are less than a second apart."""
    if last - first < 1:
        return None
    # Count what came before the last accepted request, which ends the time.
    taken = sum(second[what] for second in timeline if first <= second["at"] < int(last))
    return round(taken / (limit * (int(last) - first) / MINUTE_S), 3)


def measure(
    folder: Path, variant: str, minutes: float, rpm: int, tpm: int, window_s: float, tells: str = "openai"
) -> dict[str, Any]:
    """Run once."""
    body, told = VARIANTS[variant]
    binding, limit = ("tokens", tpm) if variant == "tokens" else ("accepted", rpm)
    # Convert the limits of another window, for a trial, to limits per minute.
    a_minute = round(limit * MINUTE_S / window_s)
    rows = round(minutes * a_minute / (LONG_TOKENS if variant == "tokens" else 1))
    write_prompt(folder)
    data, output = texts(folder / "in.csv", rows, body), folder / "out.duckdb"
    limits: tuple[object, ...] = ("--rpm", rpm, "--tpm", tpm, "--window", window_s)
    if variant == "told":
        limits += ("--tells", tells)
    with Program(folder, *limits, "--latency", 0.2, "--content", ANSWER) as program:
        write_settings(folder, program.url, **({"rpm": rpm, "tpm": tpm} if told else {}))
        run = enrich(folder, data, output, limit_s=MINUTE_S * (minutes * 4 + 2))
        seen, timeline = program.stats(), program.get("/timeline")
    first, last = int(seen["first_accepted"]), seen["last_accepted"]
    return {
        "variant": variant,
        "told": told,
        "binding": binding.replace("accepted", "requests"),
        "limit": limit,
        "status": run.status,
        "seconds": run.seconds,
        "rows": rows,
        "enriched": counts(output)[0],
        "requests": seen["requests"],
        "accepted": seen["accepted"],
        "refused": seen["refused"],
        "share_429": seen["share_429"],
        "tokens": seen["tokens_accepted"],
        "limits": run.report.get("limits"),
        "in_flight_peak": seen["in_flight_peak"],
        "used": used(timeline, binding, a_minute, first, last),
        "used_after_first_minute": used(timeline, binding, a_minute, first + round(window_s), last),
        "hung": run.hung,
        "error": run.error,
    }


def main() -> None:
    """Measure each variant."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--rpm", type=int, default=600)
    parser.add_argument("--tpm", type=int, default=60_000)
    parser.add_argument("--window", type=float, default=MINUTE_S, metavar="S", help="the limits' window, for a trial")
    parser.add_argument(
        "--tells", choices=TELLS, default="openai", help="the headers in which the endpoint reports what is left"
    )
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    given = parser.parse_args()
    measured = []
    for variant in given.variants:
        with TemporaryDirectory() as folder:
            measured.append(
                measure(Path(folder), variant, given.minutes, given.rpm, given.tpm, given.window, given.tells)
            )
            show(measured[-1])
    print(markdown(measured, COLUMNS))


if __name__ == "__main__":
    main()
