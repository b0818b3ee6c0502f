"""A broker over a journal on disk whose process, or whole machine, goes down at any point of a call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal
from unittest import mock

from hypothesis import strategies as st

from atc.calls.approval import Approval
from atc.calls.broker import Broker, CallPolicy
from atc.calls.contract import CallRequest
from atc.calls.journal import Journal
from atc.calls.journal_file import JournalFile
from atc.calls.json_values import canonical
from atc.errors import ToolError
from atc.result import Effect
from atc.tools.keys import KeyedTransport, KeyPlace
from atc.tools.tool import Toolset
from tests.support.tools import make_tool

Way = Literal["ok", "refused", "lost before", "lost after", "hangs before", "hangs after", "breaks", "too large"]
"""How a call goes at the tool: it works; it refuses; its connection is lost before or after it acted; …"""

WAYS: list[Way] = ["ok", "refused", "lost before", "lost after", "hangs before", "hangs after", "breaks", "too large"]
RECORDS = ("begin", "sent", "end", "stage")
CRASHES = [
    "none",
    "acted",
    "cancelled",
    *(f"{when} {kind}" for kind in RECORDS for when in ("before", "torn", "after")),
]

Intent = tuple[str, str]
"""A write's tool, and its canonical arguments."""


class HostCrash(BaseException):
    """The host process ends at this point."""


@dataclass
class World:
    """The tools' side: what was really done, and how the next calls will go.

    ``keyed``: its writes bear idempotency keys, and what comes twice with one is done once.
    """

    effects: list[Intent] = field(default_factory=list)
    reads: int = 0
    way: Way = "ok"
    keyed: bool = False
    known: set[str] = field(default_factory=set)

    async def act(self, name: str, arguments: dict[str, Any], key: str = "") -> Any:
        way = self.way
        if way == "refused":
            raise ToolError("no", status=409)
        if way == "lost before":
            raise ToolError("lost", outcome="unknown", transient=True)
        if way == "hangs before":
            await asyncio.sleep(30)
        if not key or key not in self.known:
            self.effects.append((name, canonical(arguments)))
        self.known.add(key)
        if way == "lost after":
            raise ToolError("lost", outcome="unknown", transient=True)
        if way == "hangs after":
            await asyncio.sleep(30)
        if way == "breaks":
            raise RuntimeError("a bug")
        return ["x" * 100] * 20 if way == "too large" else {"done": len(self.effects)}

    def look(self, arguments: dict[str, Any]) -> Any:
        self.reads += 1
        return {"n": arguments.get("n"), "read": self.reads}


@dataclass(frozen=True)
class Keyed(KeyedTransport):
    """A transport whose service keeps idempotency keys."""

    key_kind = "header"
    act: Callable[[dict[str, Any], str], Any]
    key: str = ""

    @property
    def key_place(self) -> KeyPlace:
        return KeyPlace("header", "Idempotency-Key")

    def keyed(self, place: KeyPlace, key: str) -> Keyed:
        return replace(self, key=key)

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        assert self.key
        return await self.act(arguments, self.key)

    def opened(self) -> None:
        return None


class Host:
    """One process of ATC: a broker over the journal on disk. ``crash`` says where it ends in its next call.

    ``boot`` counts the starts of the machine: see :meth:`again`.
    """

    def __init__(self, world: World, path: Path, call_timeout_s: float = 0.01, boot: int = 1) -> None:
        self.world, self.path, self.crash, self.boot = world, path, "none", boot
        self.dead = False
        self._timeout = call_timeout_s
        with mock.patch("atc.calls.journal_file.boot_id", return_value=f"boot {boot}"):
            self.journal = Journal(path)
        self._synced = path.stat().st_size
        reads = make_tool("look", world.look)
        effects = {"book": Effect.WRITE, "pay": Effect.UNKNOWN}
        writes = [make_tool(name, partial(self._act, name), effect) for name, effect in effects.items()]
        if world.keyed:
            writes = [replace(tool, transport=Keyed(partial(self._act, tool.name))) for tool in writes]
        policy = CallPolicy(call_timeout_s=call_timeout_s, retry_wait_s=0, response_bytes=500)
        self.broker = Broker(
            tools=Toolset([reads, *writes]),
            journal=self.journal,
            emit=lambda kind, data: None,
            policy=policy,
            approval=Approval("always"),
        )
        append = self.journal._append

        def appended(record: dict[str, Any], *, sync: bool, mark: bool = False) -> None:
            if self.dead:
                raise HostCrash
            kind = next((kind for kind in ("begin", "sent") if kind in record), "end" if "call" in record else "stage")
            self.dead = self.crash in (f"before {kind}", f"torn {kind}")
            if self.crash == f"torn {kind}":
                assert isinstance(self.journal._file, JournalFile)
                file = self.journal._file._file
                assert file is not None
                line = json.dumps(record).encode()
                file.write(line[: len(line) // 2])
            if self.dead:
                raise HostCrash
            append(record, sync=sync, mark=mark)
            if sync:
                self._synced = path.stat().st_size
            if self.crash == f"after {kind}":
                self.dead = True
                raise HostCrash

        self.journal._append = appended  # type: ignore[method-assign]

    def again(self, *, reboot: bool = False) -> Host:
        """The next process. After a new start of the machine, all that was not synced is lost."""
        self.journal.close()
        if reboot:
            with self.path.open("r+b") as file:
                file.truncate(self._synced)
        return Host(self.world, self.path, self._timeout, self.boot + reboot)

    async def _act(self, name: str, arguments: dict[str, Any], key: str = "") -> Any:
        value = await self.world.act(name, arguments, key)
        if self.crash == "acted":
            self.dead = True
            raise HostCrash
        if self.crash == "cancelled":
            await asyncio.sleep(30)
        return value


Step = tuple[str, int, Way, bool]
"""Tool, argument, how the call goes, whether the program catches an error of it."""

step = st.tuples(
    st.sampled_from(["look", "book", "book", "pay"]),
    st.integers(0, 2),
    st.sampled_from(WAYS) | st.just("ok"),
    st.booleans(),
)


async def run_program(host: Host, program: list[Step], crash: str, at: int) -> tuple[list[Intent], bool]:
    """Run one program to its end, its first uncaught error, or the host's crash.

    Returns:
        The writes it asked for, and whether it ran to its end.
    """
    host.broker.begin_program()
    intents = []
    for number, (tool, n, way, caught) in enumerate(program):
        host.world.way = way
        host.crash = crash if number == at else "none"
        if tool != "look":
            intents.append((tool, canonical({"n": n})))
        work = asyncio.create_task(host.broker.call(CallRequest(number + 1, tool, {"n": n}, 1)))
        if host.crash == "cancelled":
            await asyncio.wait([work], timeout=0.005)
            work.cancel()
            await asyncio.wait([work])
            return intents, False
        reply = await work
        if reply.error is not None and not caught:
            return intents, False
    return intents, True
