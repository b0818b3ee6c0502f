"""What an attack is, and the words that its programs share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from atc._records.outcome import Outcome
from atc.calls.broker import Broker

Check = Callable[[Outcome, Broker], bool]


@dataclass(frozen=True)
class Attack:
    """One hostile program, and how it may end.

    Attributes:
        program: its source. The names of :data:`PRELUDE` and of the planted things (``World.names``) are defined.
        ends: the kinds of outcome that are no harm.
        refused: whatever it tried by ``tried`` must have been refused, all of it.
        check: more to look at, on the host.
        limits: of this program, where it must be ended early.
        control: what it does where nothing protects the host (a word of ``World.damage``); empty: not shown.
        tiers: those that it is for.
        slow: it takes a second or more: left out of the quick tests.
    """

    name: str
    family: str
    program: str
    ends: tuple[str, ...] = ("finished",)
    refused: bool = False
    check: Check | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)
    control: str = ""
    tiers: str = "NLF"
    slow: bool = False


PRELUDE = '''
def tried(*attempts):
    """What became of each attempt: what it got, or the name of its exception."""
    made = []
    for attempt in attempts:
        try:
            made.append(["got", repr(attempt())[:4000]])
        except BaseException as error:
            made.append(["refused", type(error).__name__, str(error)[:200]])
    return made

def loot(os):
    """What a walk that ends at ``os`` is good for."""
    return tried(lambda: os.read(os.open(SECRET_FILE, 0), 99), lambda: dict(os.environ), lambda: os.listdir(DROP))
'''
"""Before every program."""

LIBC = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def syscall(number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if type(a) is int else a for a in arguments])
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
"""
"""For programs that speak to the kernel itself."""

CHANNEL = """
import json, os, time
def put(data):
    left = memoryview(data)
    while left:
        left = left[os.write(3, left):]
def frame(body):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return len(body).to_bytes(4, "big") + body
def say(body):
    put(frame(body))
def take(size):
    data = b""
    while len(data) < size:
        data += os.read(3, size - len(data))
    return data
def hear(replies=1):
    for _ in range(replies):
        take(int.from_bytes(take(4), "big"))
"""
"""For programs that write on the channel themselves, and wait for replies there."""

STAY = "\ntime.sleep(60)\n"
"""The host must end it, and at once."""
