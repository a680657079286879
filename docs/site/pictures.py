"""Makes the pictures of the documentation: ``python docs/site/pictures.py``. Needs ``rich`` and a Chromium.

``docs/terminal.svg`` is what a terminal shows of the first commands, ``docs/report.png`` the top of a report's page.
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.text import Text

DOCS = Path(__file__).resolve().parents[1]
COLUMNS = 104
SHOWN = (
    "sqlenrich new tickets --template support_ticket --sample",
    "sqlenrich run tickets.prompt --input tickets.csv --output out.duckdb --mock --mock-failures truncation=0.17",
    "sqlenrich show tickets --output out.duckdb --columns id,intent,urgency,needs_human -n 3",
    "sqlenrich show tickets --output out.duckdb --quarantine",
)
REPORT = (
    "sqlenrich evaluate tickets.prompt --truth tickets.csv --field intent=expected_intent --output out.duckdb --mock",
    "sqlenrich report tickets.prompt --output out.duckdb --page tickets.html",
)
LARGEST_BYTES = 200_000
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def shown_by_terminal(command: str, folder: Path) -> str:
    """Return what a terminal gets of a command, with its colours."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": str(COLUMNS),
        "TERM": "xterm-256color",
    }
    master, terminal = pty.openpty()
    with subprocess.Popen(command, shell=True, cwd=folder, env=environment, stdout=terminal, stderr=terminal) as child:
        os.close(terminal)
        text = b""
        while child.poll() is None or text[-1:] != b"":
            try:
                part = os.read(master, 65536)
            except OSError:  # its end, on Linux
                break
            if not part:
                break
            text += part
    os.close(master)
    lines = text.decode().replace("\r\n", "\n").split("\n")
    return "\n".join(line.rsplit("\r\x1b[K", 1)[-1].rsplit("\r", 1)[-1] for line in lines)


def main() -> None:
    """Make both pictures."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        raise SystemExit(f"no browser: install one of {', '.join(BROWSERS)}")
    with TemporaryDirectory() as name:
        folder = Path(name)
        console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"))  # noqa: SIM115
        for command in SHOWN:
            console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
            console.print(Text.from_ansi(shown_by_terminal(command, folder).rstrip("\n")))
        svg = console.export_svg(title="sqlenrich")
        own = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # it would ask another server for a font
        (DOCS / "terminal.svg").write_text(re.sub(r"\n\s*\n", "\n", own), encoding="utf-8")
        for command in REPORT:
            shown_by_terminal(command, folder)
        picture = DOCS / "report.png"
        size = ("--window-size=1100,900", "--hide-scrollbars", f"--screenshot={picture}")
        subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", *size, (folder / "tickets.html").as_uri()],
            check=True,
            stderr=subprocess.DEVNULL,
        )
    for made in (DOCS / "terminal.svg", DOCS / "report.png"):
        print(made, made.stat().st_size)  # noqa: T201
        if made.stat().st_size > LARGEST_BYTES:
            raise SystemExit(f"{made} has more than {LARGEST_BYTES:,} bytes")


if __name__ == "__main__":
    main()
