"""Read a run back so that it can be replayed: its last program, what stood in its scope, and what its calls got.

The trace has all of it, once: the answers that the journal gave to the last program are in it as the others are.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from atc._host.redaction import MASK
from atc._records.packing import as_text, unpack
from atc._records.recording import RecordedCall, RecordedTool, Recording
from atc.calls.attempt import CUT
from atc.errors import AtcError, JournalError, TraceError, UsageError
from atc.programs.program import Program
from atc.result import Effect
from atc.schemas.names import ALL_PAGES
from atc.schemas.protocol import Protocol, SourceKey, parameters_of
from atc.tools.kept import digest_of
from atc.tools.tool import Tool
from atc.traces.reading import FAILS, damaged
from atc.traces.stores.base import StoredRun

MAX_SCHEMAS = 20_000
"""Characters of JSON of a tool's schemas that a trace keeps; of larger ones it has the digest."""


def recorded_tool(protocol: Protocol, source: SourceKey | None = None) -> RecordedTool:
    """Return a tool as a recording has it."""
    parameters = parameters_of(protocol)
    schemas = {"parameters": protocol.parameters, "returns": protocol.returns}
    return RecordedTool(
        parameters=tuple(each.name for each in parameters),
        originals={each.name: each.original for each in parameters if each.name != each.original},
        effect=protocol.effect,
        digest=digest_of(protocol),
        source=None if source is None else (source.kind, source.server, source.operation),
        schemas=schemas if len(json.dumps(schemas)) <= MAX_SCHEMAS else None,
    )


def recorded_tools(
    program: Program, tools: Mapping[str, Tool], source_of: Callable[[str], SourceKey | None]
) -> dict[str, dict[str, Any]]:
    """Return the tools that a program names, as its trace has them.

    Args:
        program: joined with the kept programs that it calls.
        tools: those that it can call, by name; no kept program is one of them.
        source_of: returns what a tool is known by at its source.
    """
    nodes = program.nodes if program.tree is not None else ()
    named = {node.id for node in nodes if isinstance(node, ast.Name)}
    found = (name for name in tools if name in named)
    return {name: recorded_tool(tools[name].protocol, source_of(name)).model_dump(mode="json") for name in found}


def recording_of(stored: StoredRun) -> Recording:
    """Return a run as a test replays it. It reads the whole trace: an event loop has it done in a thread.

    Args:
        stored: a run that has an answer.

    Raises:
        UsageError: it has none, it was a dry run, its trace lacks what a replay needs (a value was
            cut), or a credential that was masked stands where the program gave it. The message names where.
        TraceError: a line of its trace is damaged.
    """
    if not stored.exists:
        raise UsageError(f"run {stored.run_id} is kept no more: `atc runs` lists those that are")
    trace = _Trace()
    for number, event in stored.numbered():
        try:
            trace.take(event["kind"], event["data"])
        except FAILS as error:
            raise damaged(stored.where, number, error) from None
    trace.check(stored.run_id)
    try:
        made = trace.recording(stored.run_id)
    except AtcError:
        raise
    except FAILS as error:
        why = f"{type(error).__name__}: {error}"[:200]
        raise TraceError(f"{stored.where} is damaged ({why}): the run cannot be replayed") from None
    if MASK in made.program:
        raise _masked(stored.run_id, "its program", "give the value by `inputs`, or let a tool return it")
    for name, value in made.inputs.items():
        if MASK in as_text(value):
            raise _masked(stored.run_id, f"its input {name!r}", "give the program another value")
    return _with_start(made, stored)


def _masked(run_id: str, where: str, what_to_do: str) -> UsageError:
    return UsageError(
        f"run {run_id} cannot be replayed: a credential stands in {where}, and the trace has {MASK} in its place; "
        f"{what_to_do}, and run it again"
    )


def _with_start(made: Recording, stored: StoredRun) -> Recording:
    if not stored.has_journal:
        return made
    try:
        found = stored.peek_journal().last_start(made.linked or made.program)
    except (OSError, JournalError):
        return made  # the trace has the rest, and the program may need neither
    if found is None:
        return made
    start, passed = found
    return made.model_copy(update={"at": start.at, "seed": start.seed, "passed_s": passed})


@dataclass
class _Trace:
    started: dict[str, Any] = field(default_factory=dict)
    ended: dict[str, Any] | None = None
    answered: dict[str, Any] = field(default_factory=dict)
    written: dict[str, Any] = field(default_factory=dict)
    stage_inputs: dict[str, Any] = field(default_factory=dict)
    program: dict[str, Any] | None = None
    program_ended: dict[str, Any] = field(default_factory=dict)
    source: str = ""
    inputs: dict[str, Any] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)

    def take(self, kind: str, data: dict[str, Any]) -> None:
        """Read one event; what came before its last program is let go."""
        match kind:
            case "run_started":
                self.started, self.ended, self.answered = data, None, {}
            case "stage_started":
                self.stage_inputs = data["inputs"]
            case "program_written":
                self.written = data
            case "program_started":
                self.program, self.program_ended, self.calls = data, {}, []
                self.source = self.written["program"]
                self.inputs = {**self.stage_inputs, **(self.written.get("inputs") or {})}
            case "call_ended":
                self.calls.append(data)
            case "program_ended":
                self.program_ended = data
            case "answered":
                self.answered = data
            case "run_ended":
                self.ended = data

    def check(self, run_id: str) -> None:
        """Raises UsageError for a run that cannot be replayed."""
        if self.ended is None:
            raise UsageError(f"run {run_id} has not ended: `atc resume {run_id}` continues it")
        if self.started.get("dry_run"):
            raise UsageError(f"run {run_id} was a dry run, which made no writes: do it for real first")
        if (status := self.ended["status"]) != "answered":
            raise UsageError(f"run {run_id} has no answer (it is {status}), so there is nothing to replay")
        if self.program is None:
            raise UsageError(f"run {run_id} ran no program, so there is nothing to replay")

    def recording(self, run_id: str) -> Recording:
        """Return what the last program was, and what it was answered."""
        assert self.program is not None
        assert self.ended is not None
        linked = self.program.get("linked") or {}
        tools = {name: RecordedTool.model_validate_json(json.dumps(each)) for name, each in self._tools.items()}
        value = self.answered.get("program_value", self.ended.get("value"))
        return Recording(
            run=run_id,
            task=self.ended.get("task") or self.started["task"],
            program=self.source,
            linked=linked.get("source"),
            hoisted=linked.get("hoisted", 0),
            inputs=unpack(self.inputs),
            tools=tools,
            calls=tuple(sorted(self._recorded_calls(run_id), key=lambda call: call.index)),
            value=unpack(value),
            said=self.answered.get("answer", ""),
            answer=(self.started.get("answer") or {}).get("schema"),
        )

    @property
    def _tools(self) -> dict[str, Any]:
        return (self.program or {}).get("tools") or {}

    def _recorded_calls(self, run_id: str) -> Iterable[RecordedCall]:
        by_index = {call["index"]: call for call in self.calls}
        read = self.program_ended.get("all_pages") or []
        of_pages = {number for each in read for number, _, _ in each["calls"]}
        of_pages |= {each["failed"] for each in read if "failed" in each}
        for call in self.calls:
            number = call["index"]
            if number in of_pages or call.get("page"):
                continue
            yield _recorded(call, _given(call), run_id)
        for each in read:
            yield _all_pages(each, by_index, run_id)


def _given(call: Mapping[str, Any]) -> Any:
    original = call.get("original")
    return call["arguments"] if original is None else original


def _recorded(call: Mapping[str, Any], given: Any, run_id: str) -> RecordedCall:
    where = f"call {call['index']} of {call['tool']}"
    if call["status"] in ("planned", "pending"):
        raise UsageError(f"run {run_id} cannot be replayed: {where} was not made")
    if CUT in given and len(given) == 1:
        raise UsageError(f"run {run_id} cannot be replayed: the arguments of {where} are too long to be kept whole")
    succeeded = call["status"] in ("ok", "replayed")
    return RecordedCall(
        index=call["index"],
        tool=call["tool"],
        arguments=unpack(given),
        sent=unpack(call["arguments"]) if call["arguments"] != given else None,
        effect=Effect(call.get("effect", "unknown")),
        value=unpack(call.get("value")),
        error=call.get("error"),
        status=call.get("error_status"),
        done=succeeded and call.get("error") is not None,
        line=call.get("line", 0),
        within=call.get("within", ""),
    )


def _all_pages(read: Mapping[str, Any], by_index: Mapping[int, Mapping[str, Any]], run_id: str) -> RecordedCall:
    failed = by_index.get(read.get("failed", 0))
    first = next(iter(read["calls"]), None)
    about = by_index[first[0]] if first is not None else failed
    if about is None:
        raise UsageError(f"run {run_id} cannot be replayed: its trace lacks what {ALL_PAGES} of {read['tool']} read")
    made = _recorded(about, read["arguments"], run_id).model_copy(
        update={"tool": read["tool"], "pages": max(len(read["calls"]), 1), "sent": None}
    )
    if failed is not None:
        return made.model_copy(
            update={"value": None, "error": failed.get("error"), "status": failed.get("error_status"), "done": False}
        )
    items: list[Any] = []
    for number, path, count in read["calls"]:
        found = unpack(by_index[number].get("value"))
        for key in path:
            found = found[key]
        items += found if count is None else found[:count]
    return made.model_copy(update={"value": items, "error": None, "status": None})
