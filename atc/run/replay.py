"""Replay a run: its program runs in the jail once more, and its calls are answered with what they were answered before.

Nothing is called: no tool, no model, no service. What the program does otherwise than before is data
(:class:`atc._records.recording.Difference`).
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from atc._records.outcome import Outcome
from atc._records.packing import as_text, shortened
from atc._records.recording import FORM, Change, Difference, RecordedCall, RecordedTool, Recording
from atc.calls.contract import CallReply, CallRequest
from atc.calls.json_values import canonical
from atc.calls.program_start import ProgramStart, ReplyTimes
from atc.errors import UsageError
from atc.run.recording import recording_of as recording_of  # who replays a run reads it first
from atc.sandboxes.contract import Job, Limits, Sandbox
from atc.schemas.names import ALL_PAGES

NOT_RECORDED = "not_recorded"
"""The status of the error that a call gets which the recording does not have."""
MAX_DIFFERENCES, MAX_CHANGES, MAX_TEXT = 50, 20, 200
"""Differences that a replay tells, changes of each, and characters of a value in one."""
MAX_COMPARED = 20
"""Recorded calls of a tool to which a call that is not recorded is compared."""


@dataclass(frozen=True)
class Replayed:
    """Describes how a replay went.

    Attributes:
        outcome: of the program.
        value: its answer, as JSON values and bytes; ``None`` if it has none.
        differences: from what was recorded; empty where there are none. ``left_out``: how many more there are.
    """

    outcome: Outcome
    value: Any = None
    differences: tuple[Difference, ...] = ()
    left_out: int = 0

    @property
    def same(self) -> bool:
        """Return whether the program answered as recorded, by the recorded calls."""
        return not self.differences


async def replay(
    recorded: Recording,
    *,
    sandbox: Sandbox,
    program: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    hoisted: int = 0,
    limits: Limits | None = None,
) -> Replayed:
    """Run a program in the jail, its calls answered from a recording.

    A call is answered by what an equal one (tool, arguments) was answered; equal ones in their recorded order,
    others in any. One that is not recorded gets an error, which the program may catch, and is a difference.

    Args:
        program: another program over the same tools; by default the recorded one, linked with its kept programs.
        inputs: the values in its scope, in place of the recorded ones.
        hoisted: how many definitions at the end of ``program`` are kept programs.
        limits: of the program; by default those of the sandbox.

    Raises:
        UsageError: an input cannot be used, or the recording is of a newer form.
        SandboxUnavailable: the isolation that was asked for cannot be had.
    """
    if recorded.form > FORM:
        raise UsageError(f"the recording has form {recorded.form}, and this version reads {FORM}: use a newer ATC")
    answers = await asyncio.to_thread(_Answers, recorded)
    if program is None:
        program, hoisted = recorded.linked or recorded.program, recorded.hoisted
    job = Job(
        program,
        {name: tool.parameters for name, tool in recorded.tools.items()},
        limits or sandbox.limits,
        dict(recorded.inputs if inputs is None else inputs),
        start=_start(recorded),
        hoisted=hoisted,
    )
    times = ReplyTimes(dict(recorded.passed_s), lambda number, passed_s: None)
    call = times.timed(answers.call, lambda tool: True) if job.start is not None else answers.call
    outcome = await sandbox.run(job, call)
    found = await asyncio.to_thread(lambda: [*answers.differences(), *_of_outcome(recorded, outcome)])
    left_out = answers.left_out + max(len(found) - MAX_DIFFERENCES, 0)
    return Replayed(outcome, outcome.value, tuple(found[:MAX_DIFFERENCES]), left_out)


def _start(recorded: Recording) -> ProgramStart | None:
    if recorded.at is None:
        return None
    try:
        return ProgramStart(recorded.at, recorded.seed)
    except ValueError as error:
        raise UsageError(f"the recording of run {recorded.run} is damaged: {error}") from None


def _of_outcome(recorded: Recording, outcome: Outcome) -> Iterator[Difference]:
    if not outcome.answered:
        error = outcome.error
        reason = f"{error.type}: {error.message}" if error is not None else outcome.detail or outcome.kind
        yield Difference(kind="ended", reason=shortened(reason, MAX_TEXT), line=0 if error is None else error.line)
    elif found := changes(recorded.value, outcome.value):
        yield Difference(kind="value", changes=tuple(found))


# ----------------------------------------------------------------------------------------------------------------------
# The calls.


@dataclass(frozen=True)
class _Asked:
    tool: str
    arguments: dict[str, Any]
    line: int
    pages: bool


@dataclass
class _Answers:
    recorded: Recording
    left_out: int = 0
    _of_key: dict[tuple[str, bool, str], deque[RecordedCall]] = field(init=False)
    _unknown: list[_Asked] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._of_key = {}
        for call in self.recorded.calls:
            key = (call.tool, call.pages > 0, _canonical(call.arguments))
            self._of_key.setdefault(key, deque()).append(call)

    async def call(self, request: CallRequest) -> CallReply:
        """Answer one call."""
        asked = self._asked(request)
        calls = self._of_key.get((asked.tool, asked.pages, _canonical(asked.arguments)))
        if calls:
            made = calls.popleft()
            return CallReply(made.value, made.error, made.status, done=made.done)
        if len(self._unknown) < MAX_DIFFERENCES:
            self._unknown.append(asked)
        else:
            self.left_out += 1
        message = "not called: the recording has no such call that was not answered yet"
        return CallReply(error=message, status=NOT_RECORDED)

    def _asked(self, request: CallRequest) -> _Asked:
        tool, given, pages = request.tool, request.arguments, False
        if tool == ALL_PAGES and ALL_PAGES not in self.recorded.tools:
            name, inner = given.get("tool"), given.get("arguments")
            if isinstance(name, str) and isinstance(inner, dict):
                tool, given, pages = name[:MAX_TEXT], inner, True
        names = self.recorded.tools.get(tool, RecordedTool()).originals
        return _Asked(tool, {names.get(name, name): value for name, value in given.items()}, request.line, pages)

    def differences(self) -> Iterator[Difference]:
        """Yield the calls that are not recorded, then the recorded ones that were not made."""
        left = [call for calls in self._of_key.values() for call in calls]
        for asked in self._unknown:
            nearest, found = self._nearest(asked, left)
            yield Difference(
                kind="not_recorded",
                tool=asked.tool,
                arguments=_cut(asked.arguments),
                line=asked.line,
                nearest=0 if nearest is None else nearest.index,
                changes=tuple(found),
            )
        for call in sorted(left, key=lambda call: call.index):
            yield Difference(kind="not_made", tool=call.tool, arguments=_cut(call.arguments), line=call.line)

    def _nearest(self, asked: _Asked, left: Iterable[RecordedCall]) -> tuple[RecordedCall | None, list[Change]]:
        of_tool = [call for call in left if call.tool == asked.tool]
        of_tool = of_tool or [call for call in self.recorded.calls if call.tool == asked.tool]
        found = [(call, changes(call.arguments, asked.arguments)) for call in of_tool[:MAX_COMPARED]]
        return min(found, key=lambda each: len(each[1]), default=(None, []))


def _cut(arguments: dict[str, Any]) -> dict[str, Any]:
    texts = {name: as_text(value) for name, value in arguments.items()}
    return {
        name: value if len(texts[name]) <= MAX_TEXT else shortened(texts[name], MAX_TEXT)
        for name, value in arguments.items()
    }


def _canonical(value: Any) -> str:
    """Return text that is equal for equal values; those that have no canonical form equal none that has one."""
    try:
        return canonical(value)
    except ValueError:
        return f"no canonical form: {value!r}"


# ----------------------------------------------------------------------------------------------------------------------
# How two values differ.


def changes(recorded: Any, now: Any) -> list[Change]:
    """Return how a value differs from a recorded one, the first :data:`MAX_CHANGES`; linear in the values."""
    found: list[Change] = []
    waiting: list[tuple[tuple[str | int, ...], Any, Any]] = [((), recorded, now)]
    while waiting and len(found) < MAX_CHANGES:
        path, before, after = waiting.pop()
        if isinstance(before, dict) and isinstance(after, dict):
            keys = [*dict.fromkeys([*before, *after])]
            waiting += [((*path, key), before.get(key, _NONE), after.get(key, _NONE)) for key in reversed(keys)]
        elif isinstance(before, list) and isinstance(after, list):
            both = range(max(len(before), len(after)))
            waiting += [((*path, at), _item(before, at), _item(after, at)) for at in reversed(both)]
        elif before is _NONE or after is _NONE or _canonical(before) != _canonical(after):
            found.append(Change(path=path, recorded=_text(before), now=_text(after)))
    return found


_NONE = object()


def _item(values: list[Any], at: int) -> Any:
    return values[at] if at < len(values) else _NONE


def _text(value: Any) -> str:
    return "" if value is _NONE else shortened(as_text(value), MAX_TEXT)


def tool_changes(recorded: Mapping[str, RecordedTool], now: Mapping[str, RecordedTool]) -> list[Difference]:
    """Return which tools are not what they were when a run was recorded.

    Args:
        recorded: by name.
        now: the tools that there are, by name (:func:`atc.run.recording.recorded_tool`).
    """
    by_source = {tool.source: name for name, tool in now.items() if tool.source is not None}
    sources = Counter(tool.source for tool in now.values())
    found = []
    for name, before in recorded.items():
        after = now.get(name)
        if after is None and before.source is not None and sources[before.source] == 1:
            after = now[by_source[before.source]]  # it has another name now
        if after is None:
            found.append(Difference(kind="tool", tool=name, reason="gone"))
        elif after.digest != before.digest:
            shown = [] if None in (before.schemas, after.schemas) else changes(before.schemas, after.schemas)
            if before.effect is not after.effect:
                shown.insert(0, Change(path=("effect",), recorded=before.effect.value, now=after.effect.value))
            found.append(Difference(kind="tool", tool=name, changes=tuple(shown)))
    return found
