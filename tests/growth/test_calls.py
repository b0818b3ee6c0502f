"""What the calls of one run cost beside each other: the four hundredth is no dearer than the hundredth.

Function calls are counted, not seconds, so a busy machine changes nothing.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from atc._host.redaction import Redactor
from atc.calls.approval import Approval
from atc.calls.broker import Broker, CallPolicy
from atc.calls.contract import CallRequest
from atc.calls.journal import Journal
from atc.tools.functions import tool_from_function
from atc.tools.tool import Toolset
from atc.traces.emitter import emitter
from atc.traces.stores.files import FileTrace

MOST_TIMES = 4.4
"""How much dearer four times as many calls may be."""


async def do(text: str) -> str:
    """Return the text."""
    return text


def steps_of(broker: Broker, texts: list[str]) -> int:
    """Return how many functions one program's calls take."""
    steps = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal steps
        steps += event in ("call", "c_call")

    async def calls() -> None:
        broker.begin_program()
        before = sys.getprofile()
        sys.setprofile(count)
        try:
            for line, text in enumerate(texts):
                reply = await broker.call(CallRequest(1, "do", {"text": text}, line))
                assert reply.value == text
        finally:
            sys.setprofile(before)

    asyncio.run(calls())
    return steps


def broker_in(folder: Path, effect: Literal["read", "write"], *, kept: bool) -> Broker:
    redactor = Redactor(environment={})
    folder.mkdir()
    settings: dict[str, Any] = {"policy": CallPolicy(max_calls=10_000), "redactor": redactor}
    return Broker(
        Toolset([tool_from_function(do, effect=effect)]),
        Journal(folder / "journal" if kept else None),
        emitter(FileTrace(folder / "trace"), redactor, lambda event: None),
        approval=Approval("always", "allow"),
        **settings,
    )


@pytest.mark.parametrize(
    ("effect", "same", "kept"),
    [("read", False, False), ("read", False, True), ("read", True, False), ("write", False, False)],
)
def test_calls_of_a_program_and_of_the_next_one(
    effect: Literal["read", "write"], same: bool, kept: bool, tmp_path: Path
) -> None:
    found = []
    for number in (50, 200):
        broker = broker_in(tmp_path / str(number), effect, kept=kept)
        texts = ["a" if same else f"a{i}" for i in range(number)]
        found.append([steps_of(broker, texts), steps_of(broker, texts)])
    for few, many in zip(*found, strict=True):
        assert many < MOST_TIMES * few, f"50 calls take {few:,} steps, 200 take {many:,}"
