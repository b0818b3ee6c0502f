"""The command at a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time


class Terminal:
    """``atc`` in a process of its own, at a pseudo-terminal."""

    def __init__(self, *arguments: str) -> None:
        self.ours, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "atc", *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
        )
        os.close(theirs)
        self.shown = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.ours)

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def wait_for(self, text: str | None, seconds: float = 90) -> None:
        deadline = time.monotonic() + seconds
        while text is None or text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            if select.select([self.ours], [], [], 0.1)[0]:
                try:
                    self.shown += os.read(self.ours, 65536).decode("utf-8", "replace")
                except OSError:  # the other side has gone
                    assert text is None, self.shown
                    return

    def ended(self) -> int:
        self.wait_for(None)
        return self.process.wait(60)
