"""The end of a process that served: a tool's function that hangs in a thread does not keep it."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator

GRACE_S = 2.0
"""Seconds that threads get to end by themselves."""
_OF_FUNCTIONS = "AnyIO worker thread"  # in which functions of tools run, and which the interpreter would wait for


@contextlib.contextmanager
def leaving(code_if_broken_off: int) -> Iterator[None]:
    """End the process after the block where a thread that it started goes on, in which no more can be done.

    Args:
        code_if_broken_off: the exit code then, if the block raised; else it is 0.
    """
    before = set(threading.enumerate())
    code = code_if_broken_off
    try:
        yield
        code = 0
    finally:
        deadline = time.monotonic() + GRACE_S
        begun = [each for each in threading.enumerate() if each not in before and each.name.startswith(_OF_FUNCTIONS)]
        for thread in begun:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in begun):
            try:
                with contextlib.suppress(OSError, ValueError):  # nobody reads any more
                    sys.stderr.write("atc: ended while a tool's function still ran\n")
                    sys.stderr.flush()
                atexit._run_exitfuncs()
            finally:
                os._exit(code)
