"""How calls with effects are approved on the command line."""

from __future__ import annotations

import asyncio
import io
import os
import sys
from collections.abc import Callable
from typing import Literal

from atc.cli.console import clean, err
from atc.execution.broker import ApprovalRequest, Approve

ApproveChoice = Literal["ask", "never", "always"]
_YES = {"y", "yes"}


def approver(choice: ApproveChoice | None, before: Callable[[], None] | None) -> Approve | None:
    """How calls with effects are approved. Where nobody can be asked, the default is no.

    Args:
        choice: ``None``: ask on a terminal, else never.
        before: called before each question (to end a spinner); ``None`` where nothing is shown, and nobody is asked
            unless ``choice`` says so.
    """
    choice = choice or ("ask" if sys.stdin.isatty() and before is not None else "never")
    if choice == "always":
        return None
    if choice == "never":
        return lambda request: False
    answers = _Answers()

    async def ask(request: ApprovalRequest) -> bool:
        if before is not None:
            before()
        arguments = ", ".join(f"{name}={value!r}" for name, value in request.arguments.items())
        question = f"allow {request.tool}({clean(arguments)})? effect: {request.effect.value} [y/N]: "
        err.print(question, end="", markup=False)
        return (await answers.line()).strip().lower() in _YES

    return ask


class _Answers:
    """Lines of standard input, read without a thread: an interrupt need not wait for the user's next key."""

    def __init__(self) -> None:
        self._read = b""

    async def line(self) -> str:
        """The next line; empty at the end of the input."""
        try:
            descriptor = sys.stdin.fileno()
            while b"\n" not in self._read and (more := await _available(descriptor)):
                self._read += more
        except (io.UnsupportedOperation, PermissionError):
            return sys.stdin.readline()  # a file, or no real input at all: neither lets anyone wait
        line, _, self._read = self._read.partition(b"\n")
        return line.decode("utf-8", "replace")


async def _available(descriptor: int) -> bytes:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, 4096)
