"""Runs against an endpoint that enforces its limits of requests and tokens a minute: how gentle, and how much is used.

    python benchmarks/limits.py [--minutes 4] [--rpm 600] [--tpm 60000] [--variants requests tokens unknown told]

The endpoint refuses with 429 whatever is beyond its limits in a sliding minute. ``requests``: short prompts, so the
requests bind; ``tokens``: long ones, so the tokens bind; the client is told both limits in ``sqlenrich.toml``.
``unknown``: it is told nothing, and the requests bind; ``told``: the endpoint tells in its headers how much is left
(``--tells`` names the style). Each run has as many rows as the limit allows in the minutes.

Prints for each the share of requests that got 429, and the share of the binding limit that was used between the first
and the last accepted request: of the whole time, and after its first minute, when the burst that an empty window takes
in is over.
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
    """Give the share of a limit that was used between two moments; None where there is no time between them."""
    if last - first < 1:
        return None
    # The last accepted request ends the time: what is counted is what came before it.
    taken = sum(second[what] for second in timeline if first <= second["at"] < int(last))
    return round(taken / (limit * (int(last) - first) / MINUTE_S), 3)


def measure(
    folder: Path, variant: str, minutes: float, rpm: int, tpm: int, window_s: float, tells: str = "openai"
) -> dict[str, Any]:
    """Run once."""
    body, told = VARIANTS[variant]
    binding, limit = ("tokens", tpm) if variant == "tokens" else ("accepted", rpm)
    # Limits of another window, for a trial: as many a minute as that makes.
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
    parser.add_argument("--tells", choices=TELLS, default="openai", help="how the endpoint tells what is left")
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
