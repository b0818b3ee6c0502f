"""Run a program in the real sandbox, and look for what it leaves behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from atc.execution.process import ProcessSandbox
from atc.execution.sandbox import CallReply, CallRequest, Job, Limits, Outcome

Answer = Callable[[dict[str, Any]], Any]


def in_sandbox(
    program: str,
    tools: Mapping[str, Answer] | None = None,
    parameters: Mapping[str, Sequence[str]] | None = None,
    **limits: Any,
) -> Outcome:
    """Run a program. A tool is a function of its arguments; a ``CallReply`` that it returns goes out as it is."""
    tools = tools or {}

    async def call(request: CallRequest) -> CallReply:
        value = tools[request.tool](request.arguments)
        if asyncio.iscoroutine(value):
            value = await value
        return value if isinstance(value, CallReply) else CallReply(value=value)

    async def go() -> Outcome:
        made = Limits(**{"wall_s": 10.0, **limits})
        async with ProcessSandbox(made) as sandbox:
            return await sandbox.run(
                Job(program, {name: (parameters or {}).get(name, ()) for name in tools}, made), call
            )

    return asyncio.run(go())


def left_behind(temporary: Path) -> list[str]:
    """The sandbox processes whose scratch folder is in this temporary folder, and such folders."""
    found = [str(path) for path in temporary.glob("atc-run-*")]
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue  # it ended in between
            if os.fsencode(temporary / "atc-run-") in command:
                found.append(f"process {folder.name}")
    return found
