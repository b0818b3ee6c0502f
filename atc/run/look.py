"""``look``: a program ends early, and the next one is shown the values that it names and has them as variables.

A program may end with ``look(name=value, …)`` in place of an answer, where what to do next depends on what a value
says. It ends there at once: the host answers no further call of it. What it did is committed as a stage
(:mod:`atc.calls.journal`), so nothing is replayed, no write can be repeated, and tools that keep a state go on. The
values are handed to the next program whole; its prompt shows a part of them, as data.
"""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from atc import wording
from atc._records.packing import as_text
from atc._records.records import Invocation
from atc.calls.contract import CallHandler, CallReply, CallRequest
from atc.errors import CallRefused, ToolError, UsageError
from atc.facts import Fault
from atc.models.base import bounded_tokens
from atc.programs.edits import Edit, Rewrite, apply, insert_before
from atc.programs.program import Program
from atc.programs.responses import failure_case
from atc.result import Call, Effect
from atc.run.preamble import cut
from atc.run.previews import previews
from atc.sandboxes.drivers import limits_from
from atc.sandboxes.inputs import check_names, name_problem, packed
from atc.schemas.protocol import Protocol
from atc.tools.tool import Tool, Transport
from atc.traces.stores.base import StoredRun
from atc.wording.prompting import fenced, prompt

if TYPE_CHECKING:
    from atc.run.run import Run

NAME = "look"
SHOWN_TOKENS = 2_000
"""Tokens of all values that a prompt shows, at most."""
ROOM, MAX_NAMES = 3 * SHOWN_TOKENS, 400
"""Characters of these tokens, and of the names of values for which there is no room."""
MAX_VALUES = 20
"""That one call names."""
MAX_PROGRAMS, MAX_CALL, MAX_CALLS = 4_000, 300, 50
"""Characters of the earlier programs that a prompt shows together, and of an argument or an answer; calls."""
PROTOCOL = Protocol(
    name=NAME,
    description="End the program here. The next program is shown these values and has them as variables.",
    parameters={"type": "object", "properties": {}, "additionalProperties": True},
    returns={"type": "null"},
    effect=Effect.READ,
)


def is_look(tool: Tool | None) -> bool:
    """Return whether that is ``look``, and no user's tool of that name."""
    return tool is not None and tool.protocol is PROTOCOL


class Look(Transport):
    """Answers ``look`` in one run, through the broker like any tool, and ends the program that called it.

    Args:
        may_ask: whether programs may ask for one more thing.

    Attributes:
        values: what the program that ran last looked at, by name; ``None`` where it did not look.
    """

    def __init__(self, run: Run, may_ask: Callable[[], bool]) -> None:
        self._run, self._may_ask = run, may_ask
        self._under_way, self._looking = 0, False
        self.values: dict[str, Any] | None = None
        self.tool = Tool(PROTOCOL, self)

    async def __call__(self, arguments: dict[str, Any]) -> None:
        """Find out whether these values can be handed on.

        Raises:
            ToolError: they cannot, there are none or too many, or this run has asked as often as it may.
        """
        if not self._may_ask():
            message = "this run has asked for more as often as it may: decide in the program, and set `answer`"
            raise ToolError(message, status="too_many_looks")
        if not 0 < len(arguments) <= MAX_VALUES:
            message = f"{NAME} takes up to {MAX_VALUES} values to be shown, as in {NAME}(found=found)"
            raise ToolError(message, status="cannot_look")
        run, (asked, most) = self._run, (limits_from(self._run.settings), self._run.sandbox.limits)
        try:
            check_names(arguments, {*run.tools, *run.all_tools})  # which may be found and offered yet
            await asyncio.to_thread(  # they may be large
                packed,
                {**run.inputs, **arguments},
                frame_bytes=min(asked.frame_bytes, most.frame_bytes),
                channel_bytes=min(asked.channel_bytes, most.channel_bytes),
            )
        except UsageError as error:
            raise ToolError(f"{error}. Look at a part of it", status="cannot_look") from None

    def begin(self, call: CallHandler) -> CallHandler:
        """Begin a program, and return what answers its calls, by ``call``, until it looks."""
        self.values, self._under_way, self._looking = None, 0, False

        async def answered(request: CallRequest) -> CallReply:
            return await self._answered(request, call)

        return answered

    async def _answered(self, request: CallRequest, call: CallHandler) -> CallReply:
        """To look ends the program: it is refused while others are under way, and they after it."""
        looks = request.tool == NAME
        if self._looking or self.values is not None:
            return self._run.broker.refuse(request, CallRefused("its program has ended", status="stopped"))
        if looks and self._under_way:
            message = f"{NAME} ends the program: call it by itself, once all other calls are answered"
            return self._run.broker.refuse(request, CallRefused(message, status="not_alone"))
        self._looking = looks
        self._under_way += 1
        try:
            reply = await call(request)
        finally:
            self._looking = False
            self._under_way -= 1
        if looks and reply.error is None and not reply.planned:
            self.values = dict(request.arguments)  # of the request: where the journal answers, nothing else has them
            return reply._replace(ends=True)
        return reply


class Looks:
    """Keeps what the programs of one task that looked have left, in order; a resumed run has it from its trace."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.programs: list[str] = []
        """Those that looked."""

    def __bool__(self) -> bool:
        return bool(self.programs)

    def restore(self, stored: StoredRun) -> list[str]:
        """Take up a run that goes on, by its trace; the programs of the stage that was under way, in order."""
        journal = self._run.broker.journal
        current: list[str] = []
        for event in stored.latest():
            kind, data = event["kind"], event["data"]
            if kind == "program_written" and isinstance(program := data.get("program"), str):
                current.append(program)
            elif kind == "stage_started" and data.get("new_request") is False:
                current = self._ended(current)
        if len(self.programs) < journal.stage - journal.first_stage:  # the trace was cut off before the journal
            current = self._ended(current)
        return current

    def _ended(self, programs: list[str]) -> list[str]:
        self.programs.append(programs[-1] if programs else "")
        return []

    def shown(self) -> str:
        """Return what the next prompt says: what was done and what the variables hold; empty if no program looked."""
        if not self.programs:
            return ""
        journal, masked = self._run.broker.journal, self._run.broker.redactor.value
        writes = [
            each
            for number, each in journal.entries.items()
            if number > journal.before and each.effect is not Effect.READ and each.state == "done"
        ]
        done = {each.number: _done(each.tool, each.arguments, masked(each.value)) for each in writes}
        committed = {each.number for each in writes if journal.committed(each.key) is not None}
        given = journal.task_inputs
        values = {n: v for n, v in journal.inputs.items() if n not in given or given[n] != v}
        return prompt(
            "looked",
            programs=_newest(self.programs),
            done=_some([text for number, text in done.items() if number in committed]),
            recorded=_some([text for number, text in done.items() if number not in committed]),
            values=_within(masked(values)),
        )


def refused_write(calls: Iterable[Call]) -> Call | None:
    """Return the first write of a program that was not approved, or is in doubt, caught or not: no look follows it."""
    stops = (each for each in calls if each.effect is not Effect.READ)
    return next((c for c in stops if c.status == "in_doubt" or c.cause in ("denied", "in_doubt")), None)


def refusal(call: Call) -> Fault:
    """Return the fault of such a write: no other program helps."""
    return Fault(
        kind="tool",
        case=failure_case(call),
        line=call.line,
        tool=call.tool,
        call=call.index,
        cause="in_doubt" if call.status == "in_doubt" else call.cause,
        invocation=Invocation(tool=call.tool, arguments=dict(call.arguments)),
        speaker="broker" if call.status == "refused" else "tool",
        reason=call.error or "",
        status=call.error_status,
    )


def looks(program: Program) -> bool:
    """Return whether a program calls ``look``, and has no function of its own of that name."""
    return program.tree is not None and not _binds_look(program) and any(_looks(program))


def with_names(program: Program) -> tuple[Program, str]:
    """Return a program whose looks name every value, and what was changed; the same program where they do.

    A variable has its own name, another expression ``value1`` and so on, by its place.
    """
    if not looks(program):
        return program, ""
    edits: list[Edit] = []
    for call in _looks(program):
        taken = {keyword.arg for keyword in call.keywords}
        for number, value in enumerate(call.args, start=1):
            if isinstance(value, ast.Starred | ast.GeneratorExp):
                continue
            name = value.id if isinstance(value, ast.Name) and not name_problem(value.id) else f"value{number}"
            name = name if name not in taken else f"value{number}"
            taken.add(name)
            edits.append(insert_before(value, f"{name}="))
    note = f"the values of {NAME} have names"
    made, rewrites = apply(program, [Rewrite(NAME, note, tuple(edits))] if edits else [])
    return made, note if rewrites else ""


def _looks(program: Program) -> list[ast.Call]:
    calls = (node for node in program.nodes if isinstance(node, ast.Call))
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == NAME]


def _binds_look(program: Program) -> bool:
    for node in program.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == NAME:
            return True
        if isinstance(node, ast.Name) and node.id == NAME and not isinstance(node.ctx, ast.Load):
            return True
    return False


def _done(tool: str, arguments: dict[str, Any], value: Any) -> str:
    made = wording.call(Invocation(tool=tool, arguments=arguments), MAX_CALL)
    return fenced(wording.returned(made, as_text(value)[:MAX_CALL]))


def _some(calls: Sequence[str]) -> list[str]:
    more = [wording.more_calls(len(calls) - MAX_CALLS)] if len(calls) > MAX_CALLS else []
    return [*(f"- {call}" for call in calls[:MAX_CALLS]), *more]


def _newest(programs: Iterable[str]) -> list[str]:
    shown: list[str] = []
    room = MAX_PROGRAMS
    for program in reversed([*programs]):
        room -= len(program)
        if room < 0 and shown:
            break
        shown.append(fenced(cut(program.rstrip("\n"), MAX_PROGRAMS)))
    return shown[::-1]


def _within(values: dict[str, Any]) -> str:
    left = [*values]
    while True:
        brief = previews({name: values[name] for name in left}, ROOM - MAX_NAMES)
        older = cut(", ".join(name for name in values if name not in left), MAX_NAMES // 2)
        text = fenced(f"{brief}\n… and {older}" if older else brief)
        if bounded_tokens(text) <= SHOWN_TOKENS or len(left) < 2:
            return cut(text, ROOM)
        left = left[1:]
