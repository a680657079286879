"""A headless Chromium driven by its DevTools protocol: pages, keys, screenshots, and all that a page asks for."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import aiohttp

CHROMIUM = os.environ.get("SQLENRICH_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
"""The browser's program; None where there is none."""
STARTS_IN_S = 60
ANSWERS_IN_S = 60
CODES = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Enter": 13, "Backspace": 8, "Escape": 27}


class Browser:
    """One page of a browser. ``requests`` and ``console`` have what it asked for and told since it was opened."""

    def __init__(self, folder: Path) -> None:
        self.downloads = folder
        self.requests: list[str] = []
        self.console: list[str] = []
        self.violations: list[str] = []
        self._numbers = itertools.count(1)
        self._answers: dict[int, dict[str, Any]] = {}
        self._loop = asyncio.new_event_loop()

    def __enter__(self) -> Self:
        assert CHROMIUM is not None
        self._profile = tempfile.TemporaryDirectory(prefix="sqlenrich-browser-", ignore_cleanup_errors=True)
        self._process = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
             "--remote-debugging-port=0", f"--user-data-dir={self._profile.name}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._loop.run_until_complete(self._connect())
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run_until_complete(self._close())
        self._loop.close()
        self._process.terminate()
        self._process.wait(30)
        self._profile.cleanup()

    async def _connect(self) -> None:
        port_file, until = Path(self._profile.name) / "DevToolsActivePort", time.monotonic() + STARTS_IN_S
        while not port_file.is_file() or not port_file.read_text():
            assert time.monotonic() < until, "the browser did not start"
            await asyncio.sleep(0.05)
        port = port_file.read_text().split()[0]
        self._session = aiohttp.ClientSession()
        async with self._session.get(f"http://127.0.0.1:{port}/json/list") as answer:
            page = next(one for one in await answer.json() if one["type"] == "page")
        self._socket = await self._session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0)
        for domain in ("Page", "Network", "Log", "Runtime", "Audits"):
            await self._send(f"{domain}.enable", {})
        await self._send(
            "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(self.downloads.resolve())}
        )

    async def _close(self) -> None:
        await self._socket.close()
        await self._session.close()

    async def _send(self, method: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": dict(parameters)})
        while number not in self._answers:
            await self._receive()
        answer = self._answers.pop(number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return dict(answer["result"])

    async def _receive(self) -> None:
        message = json.loads((await asyncio.wait_for(self._socket.receive(), ANSWERS_IN_S)).data)
        if "id" in message:
            self._answers[message["id"]] = message
            return
        parameters = message["params"]
        match message["method"]:
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Log.entryAdded":
                self.console.append(parameters["entry"]["text"])
            case "Runtime.consoleAPICalled":
                self.console.append(json.dumps(parameters["args"]))
            case "Runtime.exceptionThrown":
                self.console.append(json.dumps(parameters["exceptionDetails"]))
            case "Audits.issueAdded" if "ContentSecurityPolicy" in str(parameters["issue"].get("code", "")):
                self.violations.append(parameters["issue"]["code"])
            case "Page.loadEventFired":
                self._loaded = True

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol."""
        return self._loop.run_until_complete(self._send(method, parameters))

    def open(self, path: Path) -> None:
        """Open a file and wait until it is loaded."""
        self.requests.clear()
        self.console.clear()
        self.violations.clear()
        self._loaded = False
        self.call("Page.navigate", url=path.resolve().as_uri())
        self._wait_for_load()

    def reload(self) -> None:
        """Load the page again."""
        self._loaded = False
        self.call("Page.reload")
        self._wait_for_load()

    def _wait_for_load(self) -> None:
        until = time.monotonic() + ANSWERS_IN_S
        while not self._loaded:
            assert time.monotonic() < until, "the page did not load"
            self._loop.run_until_complete(self._receive())

    def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression. The page's policy does not apply to it."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def key(self, key: str) -> None:
        """Press and release a key."""
        code = CODES.get(key) or ord(key.upper())
        text = key if len(key) == 1 else "\r" if key == "Enter" else ""
        shared = {"key": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **shared)
        self.call("Input.dispatchKeyEvent", type="keyUp", **shared)

    def write(self, text: str) -> None:
        """Insert a text where the focus is."""
        self.call("Input.insertText", text=text)

    def look(self, width: int, *, scheme: str = "light", media: str = "screen", height: int = 900) -> None:
        """Set the width of the window, light or dark, screen or print."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media="" if media == "screen" else media, features=features)

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Write a screenshot."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
