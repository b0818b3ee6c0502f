"""A real ``atc sandbox serve`` beside a benchmark."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from atc.errors import SandboxUnavailable


@contextmanager
def started(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    *,
    how: Sequence[str] = ("-m", "atc"),
    before: Callable[[], None] | None = None,
) -> Iterator[tuple[int, int]]:
    """``atc sandbox serve`` on a free port, ended when the block is left.

    Args:
        arguments: of the command.
        environment: beside this process's own.
        log: file of what it writes.
        how: what Python is given to run in place of ATC's own command.
        before: is called in the new process.

    Yields:
        The number of its process, and its port.

    Raises:
        SandboxUnavailable: it does not start.
    """
    command = [sys.executable, *how, "sandbox", "serve", "--port", "0", "--set", "drain_s=0", *arguments]
    with log.open("wb") as words:
        process = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=words, stderr=words, preexec_fn=before
        )
    try:
        until = time.monotonic() + 120
        while "tier" not in (said := log.read_text()) and process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        if "tier" not in said:
            raise SandboxUnavailable(f"the service did not start: {said}")
        yield process.pid, int(said.splitlines()[0].rpartition(":")[2])
    finally:
        process.terminate()
        process.wait(30)
