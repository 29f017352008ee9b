"""A headless Chromium, spoken to over two pipes: the DevTools protocol needs no more than these.

It takes JSON ended by a zero byte, so that no client library and no port are needed.
"""

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.terminal import drawn

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
_CHUNK = 1 << 20
_BINARY = 2
_WITH_PIPES = """
import os, sys
for number, own in zip(sys.argv[1:3], (3, 4)):
    os.dup2(int(number), own)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Starts a program whose descriptors 3 and 4 are the protocol's."""


class Browser:
    """One page of a browser."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to = to_browser
        self._from = from_browser
        self._left = b""
        self._n_sent = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        """Errors and warnings of the page: exceptions, console, refused by its policy."""
        self.requests: list[str] = []
        """What it has asked for."""
        self.frames = ""
        """What came over its WebSockets."""
        target = self("Target.createTarget", url="about:blank")["targetId"]
        self._session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self(f"{domain}.enable")

    def __call__(self, method: str, **parameters: object) -> dict[str, Any]:
        """Call a method, and wait for what it returns."""
        self._n_sent += 1
        message: dict[str, object] = {"id": self._n_sent, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._n_sent:
                assert "error" not in answer, (method, answer)
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            more = os.read(self._from, _CHUNK)
            assert more, "the browser has ended"
            self._left += more
        line, _, self._left = self._left.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._hear(message)
        return message

    def _hear(self, message: dict[str, Any]) -> None:
        told = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(told["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if told["type"] in {"error", "warning", "assert"}:
                self.complaints.append(json.dumps(told["args"]))
            case "Log.entryAdded" if told["entry"]["level"] in {"error", "warning"}:
                self.complaints.append(told["entry"]["text"])
            case "Network.webSocketFrameReceived" if told["response"]["opcode"] == _BINARY:
                payload = base64.b64decode(told["response"]["payloadData"])
                self.frames += payload.decode(errors="replace")
            case "Network.requestWillBeSent":
                self.requests.append(told["request"]["url"])

    def open(
        self, what: Path | str, *, width: int, height: int = 900, is_dark: bool = False
    ) -> None:
        """Load a file or an address in a window of that size, and wait until it is there."""
        self.complaints, self.requests = [], []
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self("Emulation.setEmulatedMedia", features=[scheme])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self("Emulation.setDeviceMetricsOverride", **size)
        self("Page.navigate", url=what if isinstance(what, str) else what.resolve().as_uri())
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def see(self, text: str) -> None:
        """Wait until a program behind a WebSocket draws ``text``, after what was seen before."""
        while (at := drawn(self.frames).find(text)) < 0:
            self._next()
        self.frames = drawn(self.frames)[at + len(text) :]

    def type(self, text: str) -> None:
        self("Input.insertText", text=text)

    def press(self, key: str, code: int) -> None:
        """Press a key, by its name and the number that Windows gives it."""
        for kind in ("rawKeyDown", "keyUp"):
            self("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def value(self, expression: str) -> Any:  # noqa: ANN401 - of any type
        """What an expression of the page gives, as if its user had asked for it."""
        found = self(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
            userGesture=True,
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def picture(self) -> bytes:
        shot = self("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def printed(self) -> bytes:
        return base64.b64decode(self("Page.printToPDF", printBackground=True)["data"])


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Start a browser whose files are below ``folder``; it is ended afterwards."""
    assert PROGRAM is not None
    reads, to_browser = os.pipe()
    from_browser, writes = os.pipe()
    options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe")
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", _WITH_PIPES, str(reads), str(writes)),
            *(PROGRAM, *options, f"--user-data-dir={folder}", "about:blank"),
        ],
        env={**os.environ, "HOME": str(folder)},
        pass_fds=(reads, writes),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        os.close(reads)
        os.close(writes)
        page = Browser(to_browser, from_browser)
        yield page
    finally:
        process.terminate()
        process.wait()
        os.close(to_browser)
        os.close(from_browser)
