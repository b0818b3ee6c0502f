"""A headless Chromium, spoken to over two pipes: no port, no driver, and it ends when the pipes do."""

from __future__ import annotations

import base64
import fcntl
import functools
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    "--headless --disable-gpu --disable-background-networking --disable-component-update --disable-sync --no-first-run "
    "--no-default-browser-check --disable-dev-shm-usage --hide-scrollbars --remote-debugging-pipe"
).split()
_PATIENCE_S = 60.0


@functools.cache
def chromium() -> str:
    """The program, or a skip that says how to get it."""
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    return found


class Navigated(AssertionError):
    """Says that the page left while it was asked."""


class Page:
    """One page in the browser.

    Attributes:
        messages: what its console and its content policy complained about.
        requests: addresses that it asked for.
        listeners: called with every event of the DevTools protocol.
    """

    def __init__(self, to: int, of: int) -> None:
        self._to, self._of = to, of
        self._left, self._number, self._session = b"", 0, ""
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.listeners: list[Callable[[dict[str, Any]], None]] = []

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol, and what it returns."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            reply = self._read()
            if reply.get("id") == self._number:
                if (error := reply.get("error")) is not None:
                    raise (Navigated if "navigated" in error["message"] else AssertionError)(f"{method}: {error}")
                result: dict[str, Any] = reply["result"]
                return result
            self._note(reply)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            got = os.read(self._of, 1 << 20)
            assert got, "the browser has ended"
            self._left += got
        line, _, self._left = self._left.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        given = event.get("params", {})
        for listener in self.listeners:
            listener(event)
        match event.get("method"):
            case "Log.entryAdded":
                self.messages.append(given["entry"]["text"])
            case "Runtime.consoleAPICalled":
                self.messages.append(str(given["args"]))
            case "Runtime.exceptionThrown":
                self.messages.append(
                    given["exceptionDetails"].get("text", "") + str(given["exceptionDetails"].get("exception"))
                )
            case "Page.javascriptDialogOpening":
                self.messages.append(f"dialog: {given['message']}")
            case "Network.requestWillBeSent":
                self.requests.append(given["request"]["url"])

    def open(self, file: Path | str, *, dark: bool = False, width: int = 1200, height: int = 800) -> None:
        """Show a file, or what stands at an address; returns when it is loaded."""
        if not self._session:
            target = self.send("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for room in ("Page", "Runtime", "Log", "Network"):
                self.send(f"{room}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.send("Page.navigate", url=file.as_uri() if isinstance(file, Path) else file)
        self.wait("document.readyState === 'complete'")

    def run(self, source: str) -> Any:
        """What a piece of JavaScript gives, in the page; the page's own policy does not hold it back."""
        given = self.send("Runtime.evaluate", expression=source, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in given, given["exceptionDetails"]
        return given["result"].get("value")

    def wait(self, condition: str) -> None:
        """Until a piece of JavaScript gives true."""
        end = time.monotonic() + _PATIENCE_S
        while not self._holds(condition):
            assert time.monotonic() < end, f"never came true: {condition}"
            time.sleep(0.02)

    def _holds(self, condition: str) -> bool:
        try:
            return bool(self.run(condition))
        except Navigated:  # a page that leads on to another one was asked while it left
            return False

    def text(self, selector: str) -> str:
        """The text of the first element that fits."""
        found: str = self.run(f"document.querySelector({json.dumps(selector)}).innerText")
        return found

    def click(self, x: float, y: float) -> None:
        """With the mouse."""
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, text: str) -> None:
        """Into what has the focus."""
        self.send("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """One key, by its name or letter."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, " ": 32}
        codes |= {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        given: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": codes.get(key, 0)}
        self.send("Input.dispatchKeyEvent", type="keyDown", **given, **({"text": text} if text else {}))
        self.send("Input.dispatchKeyEvent", type="keyUp", **given)

    def screenshot(self) -> bytes:
        """As PNG."""
        return base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])


@contextmanager
def browsing() -> Iterator[Page]:
    """A browser of its own with one page; nothing of it stays."""
    program = chromium()
    pipes = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for pair in (os.pipe(), os.pipe()) for end in _closing(pair)]
    read_by_it, to, of, written_by_it = pipes
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as home:
        flags = [*_FLAGS, f"--user-data-dir={home}", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        nowhere = os.open(os.devnull, os.O_RDWR)
        # it reads from descriptor 3 and writes to 4
        ends = {0: nowhere, 1: nowhere, 2: nowhere, 3: read_by_it, 4: written_by_it}
        process = os.posix_spawn(
            program,
            [program, *flags],
            os.environ | {"HOME": home},
            file_actions=[(os.POSIX_SPAWN_DUP2, mine, its) for its, mine in ends.items()],
            setsid=True,
        )
        for end in (nowhere, read_by_it, written_by_it):
            os.close(end)
        try:
            yield Page(to, of)
        finally:
            os.close(to)
            os.close(of)
            _ended(process)


def _closing(pair: tuple[int, int]) -> Iterator[int]:
    for end in pair:
        yield end
        os.close(end)


def _ended(process: int) -> None:
    """It ends with its pipes; where it does not, it is killed."""
    end = time.monotonic() + 10
    while os.waitpid(process, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.killpg(process, signal.SIGKILL)
            end = float("inf")
        time.sleep(0.02)
