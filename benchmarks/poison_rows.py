"""Measure runs in which one row can't be answered, for each kind of such a row.

    python benchmarks/poison_rows.py [--rows 300] [--timeout 5] [--kinds hang 503 ...]

Each measurement is ``sqlenrich run`` as a process: ``--rows`` good rows, and one for which the endpoint always fails in
the same way. All good rows must be enriched and the other one refused in one run. Prints a table; the exit status is 1
if a run did not hold this.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
from local import enrich, markdown, show, texts, write_prompt, write_settings

from tests.support.endpoint import ScriptedEndpoint

KINDS = {
    "hang": "the server never answers",
    "stall": "half an answer, then silence",
    "reset": "the connection is reset",
    "reset_mid": "the connection is reset within the answer",
    "cut": "the answer ends in the middle",
    "429": "429 each time",
    "429_too_large": "429 `Request too large ... Limit 6000, Requested 7012`",
    "500": "500 each time",
    "503": "503 of a proxy each time",
    "403": "403 each time",
    "403_firewall": "403 of a web firewall",
    "404_path": "404 each time",
    "400_context": "400: longer than the model's context",
    "400_policy": "400: content policy",
    "400_format": "400: names the response format",
    "400_unclear": "400 without a known reason",
    "413": "413: body too large",
    "422": "422",
    "html": "200 with an HTML page",
    "no_choices": "200 without choices",
    "error_200": "200 with an error inside",
    "huge": "an answer of 9 MB",
    "null": "200, content null",
    "cut_short": "`finish_reason: length`, content empty",
    "filtered": "`finish_reason: content_filter`, content empty",
    "refusal": "a refusal",
}
COLUMNS = ("the row's requests", "reason", "detail", "sent", "seconds", "status", "enriched")
POISON = "poison row"


def measure(folder: Path, kind: str, rows: int, timeout_s: float) -> dict[str, Any]:
    """Run once and give the figures."""
    data = texts(folder / "rows.csv", rows, f"CASE WHEN i = {rows // 3} THEN '{POISON}' ELSE 'message ' || i END")
    output = folder / "out.duckdb"
    output.unlink(missing_ok=True)
    with ScriptedEndpoint(by_prompt={POISON: kind}, huge=9_000_000) as server:
        write_settings(folder, server.url, timeout=timeout_s)
        found = enrich(folder, data, output)
        sent = sum(POISON in seen.prompt for seen in server.asked)
    figures = {"the row's requests": KINDS[kind], "seconds": found.seconds, "status": found.status, "sent": sent}
    if found.status:
        return {**figures, "reason": "the run ended", "detail": found.error}
    with duckdb.connect(str(output), read_only=True) as db:
        refused = db.execute("SELECT _error, COALESCE(_error_detail, '') FROM ticket_quarantine").fetchall()
        enriched = (db.execute("SELECT COUNT(*) FROM ticket").fetchone() or (0,))[0]
    (reason, detail), *more = refused or [("none", "")]
    return {**figures, "reason": reason if not more else f"{len(refused)} rows", "detail": detail, "enriched": enriched}


def main() -> None:
    """Measure all kinds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--timeout", type=float, default=5.0, help="the endpoint's timeout in seconds")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=[*KINDS])
    given = parser.parse_args()
    found = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_prompt(folder)
        for kind in given.kinds:
            found.append(measure(folder, kind, given.rows + 1, given.timeout))
            show(found[-1])
    print(markdown(found, COLUMNS))
    held = all(one["status"] == 0 and one.get("enriched") == given.rows for one in found)
    raise SystemExit(0 if held else 1)


if __name__ == "__main__":
    main()
