"""What large values cost the host: one call whose arguments are large, and one whose answer is.

``python -m benchmarks.values [--json] [--runs N] [--values N]``: a broker with a journal and a trace on disk, and one
secret to look for, makes calls of a tool that does nothing. Processor time of this process, the least of some runs;
the floor is ``json.dumps`` and ``json.loads`` of the same value in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atc.calls.approval import Approval
from atc.calls.broker import Broker
from atc.calls.contract import CallRequest
from atc.calls.journal import Journal
from atc.calls.redact import Redactor
from atc.result import Effect
from atc.tools.protocol import Protocol, Source
from atc.tools.tool import Tool, Toolset
from atc.traces.emitter import emitter
from atc.traces.stores.files import FileTrace

KINDS: dict[str, Callable[[int], Any]] = {
    "integers": lambda n: [1] * n,
    "floats": lambda n: [1.5] * n,
    "words": lambda n: ["ab"] * n,
    "objects": lambda n: [{"a": 1} for _ in range(n // 2)],
    "empty lists": lambda n: [[]] * n,
    "one text": lambda n: "some words " * n,
}


@dataclass(frozen=True)
class _Answering:
    value: Any

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        return self.value

    def opened(self) -> AbstractAsyncContextManager[Any] | None:
        return None


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--values", type=int, default=90_000)
    given = parser.parse_args()
    rows = {kind: measured(make(given.values), given.runs) for kind, make in KINDS.items()}
    if given.json:
        print(json.dumps({"values": given.values, "ms": rows}))
        return
    print(
        f"{given.values:,} values, ms of processor time\n\n| | arguments | answer | floor |\n| --- | --: | --: | --: |"
    )
    for kind, row in rows.items():
        print(f"| {kind} | {row['arguments']:.0f} | {row['answer']:.0f} | {row['floor']:.0f} |")


def measured(value: Any, runs: int) -> dict[str, float]:
    """Milliseconds of a call with the value, of one that is answered with it, and of the floor."""
    return {
        "arguments": _least(lambda: _call({"v": value}, None), runs),
        "answer": _least(lambda: _call({}, value), runs),
        "floor": _least(lambda: _timed(lambda: json.loads(json.dumps(value))), runs),
    }


def _least(run: Callable[[], float], runs: int) -> float:
    return round(1e3 * min(run() for _ in range(runs)), 1)


def _timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _call(arguments: dict[str, Any], answer: Any) -> float:
    schema = {"type": "object", "properties": {"v": {}}}
    source = Source(kind="function", location="here")
    protocol = Protocol(name="go", description="Go.", parameters=schema, effect=Effect.READ, source=source)
    redactor = Redactor(["hunter2-hunter2"], {})
    with tempfile.TemporaryDirectory() as folder:
        trace, journal = FileTrace(Path(folder, "trace.jsonl")), Journal(Path(folder, "journal.jsonl"))
        tools = Toolset([Tool(protocol, _Answering(answer))])
        broker = Broker(tools, journal, emitter(trace, redactor), approval=Approval(), redactor=redactor)
        broker.begin_program()

        async def go() -> float:
            began = time.process_time()
            reply = await broker.call(CallRequest(1, "go", arguments, 1))
            took = time.process_time() - began
            assert reply.error is None, reply.error
            return took

        took = asyncio.run(go())
        journal.close()
        trace.close()
    return took


if __name__ == "__main__":
    main()
