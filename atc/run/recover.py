"""Recombination: a tool that breaks is routed round in the same run (NaviAgent §3.3, paths without what failed).

A *read* that fails as a tool, and not by its arguments, is banned for this run, and its substitutes are offered. None
is called unasked. A write in doubt is never routed round: it may have acted. Another write is offered only after a sure
refusal, and only where a person or a function of the user's is asked about it. The journal stays: what succeeded is not
done again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from atc._records.records import Replacement
from atc.calls.approval import ApprovalRequest
from atc.catalogue.graph.edges import Path
from atc.errors import TRANSIENT_STATUSES, Cause
from atc.facts import Fault
from atc.programs.analysis.flow import Flow
from atc.programs.program import Program
from atc.programs.responses import blames_arguments, is_empty_response
from atc.result import Call, Effect
from atc.tools.tool import Tool, Toolset
from atc.traces.stores.base import StoredRun

if TYPE_CHECKING:
    from atc.run.run import Run

RULE = "recombine"
Offer = Callable[[Toolset], Awaitable[None]]
"""Offers these tools beside those that are offered now."""

_DOWN: frozenset[Cause] = frozenset({"broken", "bad_response", "unreachable", "credential"})
_DOWN_WORDS = frozenset({
    "timeout", "cancelled", "unreachable", "unavailable", "broken", "bad_response", "internal", "internal_error",
    "TimeoutError", "ConnectionError", "ConnectionResetError", "ConnectionRefusedError", "ConnectionAbortedError",
    "BrokenPipeError", "MemoryError", "NotImplementedError",
})  # fmt: skip
"""Statuses that no arguments bring about: of the broker, of services, and names of Python's exceptions."""
UNSURE = 2
"""Programs in which a tool failed that never answered in the run, after which it counts as broken. Each failure alone
may have meant its arguments."""


class Recovery:
    """Decides what one run does about tools that break."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._alike: dict[tuple[str, str], bool] = {}
        self._compared = 0
        run.broker.broken_tools.alike = self.alike

    def alike(self, tool: str, by: str) -> bool:
        """Return whether a write may do what another one did. Of what takes too long to compare it may."""
        if (tool, by) not in self._alike:
            from atc.catalogue.graph.substitutes import MAX_DOUBTED, may_repeat, pairs_of  # only here: few tools break

            graph = self._run.whole_graph
            self._compared += pairs_of(graph, tool, by)
            self._alike[tool, by] = self._compared > MAX_DOUBTED or may_repeat(graph, tool, by)
        return self._alike[tool, by]

    async def recovered(self, fault: Fault, offer: Offer, program: Program | None = None) -> Fault:
        """Return a fault, after what can be done about the tool that it is traced to.

        Where that tool broke and something else gives the same: the tool is banned, this is offered, and the fault
        names it in ``substitutes``. Any other fault comes back as it is.

        Args:
            fault: as it was attributed.
            offer: offers further tools.
            program: what failed: its substitute has all that the program reads of the tool.
        """
        run = self._run
        call = next((each for each in run.broker.calls if each.index == fault.call), None)
        if RULE not in run.settings.active_rules or call is None or fault.kind == "arguments":
            return fault
        if call.tool in run.broker.broken_tools.banned or not self._broke(call, fault):
            return fault
        reads = _read_of(program, call.tool, run.tools) if program is not None else ()
        wanted = call.tool, call.effect, reads, call.cause
        found = await asyncio.to_thread(self._substitutes, *wanted)  # of 100,000 a while
        if not found:
            return fault
        await self._ban(call.tool, call.effect, call.index, found, offer)
        return fault.model_copy(update={"tool": call.tool, "substitutes": found})

    async def begin(self, offer: Offer) -> None:
        """Count reads as broken that are known to answer otherwise than their documents say (``atc probe --check``).

        Where something else gives the same, that is offered beside them, and they are not called.
        """
        run = self._run
        if RULE not in run.settings.active_rules:
            return
        for name, tool in list(run.tools.items()):
            if not tool.drifted or tool.protocol.effect is not Effect.READ or name in run.broker.broken_tools.banned:
                continue
            found = await asyncio.to_thread(self._substitutes, name, Effect.READ)
            if found:
                await self._ban(name, Effect.READ, 0, found, offer)

    def restore(self, stored: StoredRun) -> None:
        """Ban the reads again that were banned before the run was cut off. Of writes the journal knows."""
        for event in stored.latest():
            data = event["data"]
            if event["kind"] == "tool_banned" and data["effect"] == Effect.READ.value:
                found = [Replacement.model_validate(each) for each in data["substitutes"]]
                self._run.broker.broken_tools.add(data["tool"], found)

    def told(self) -> list[tuple[str, str]]:
        """Return each tool that broke, with what was called in its place with success; the trace has it, too."""
        bans = self._run.broker.broken_tools.banned
        called = {call.tool for call in self._run.last_calls if call.succeeded}
        ways = [(tool, each.tool) for tool in bans for each in bans[tool] if each.tool in called]
        for tool, by in ways:
            self._run.emit("substituted", {"tool": tool, "by": by})
        return ways

    # ------------------------------------------------------------------------------------------------------------------

    async def _ban(self, name: str, effect: Effect, call: int, found: Sequence[Replacement], offer: Offer) -> None:
        run = self._run
        run.broker.ban(name, found)
        told = [each.model_dump(mode="json") for each in found]
        run.emit("tool_banned", {"tool": name, "call": call, "effect": effect.value, "substitutes": told})
        new = [tool for tool in dict.fromkeys(each.tool for each in found) if tool not in run.tools]
        if new:
            await offer(run.all_tools.only(*new))

    def _may_take_its_place(self, broken: str, cause: Cause | None, by: str) -> bool:
        run = self._run
        tool = run.all_tools.get(by)
        if tool is None or tool.transport is None or tool.drifted or by in run.broker.broken_tools.banned:
            return False
        if cause == "credential" and self._lacks_credential(tool, broken):
            return False
        service = run.broker.tools[broken].protocol.source.service if cause == "unreachable" else ""
        return not service or tool.protocol.source.service != service

    def _substitutes(
        self, name: str, effect: Effect, reads: Collection[Path] = (), cause: Cause | None = None
    ) -> tuple[Replacement, ...]:
        """Of a write one alone. Where the tool wants a credential, none that lacks one; where its service cannot be
        reached, none of this service."""
        from atc.catalogue.graph.substitutes import substitutes_of  # only here, as above

        run = self._run
        made = []
        for each in substitutes_of(run.whole_graph, name, reads):
            if not self._may_take_its_place(name, cause, each.by):
                continue
            if effect is not Effect.READ and not self._can_be_asked(name, each.by):
                continue
            made.append(Replacement(tool=each.by, arguments=tuple(each.arguments.items())))
        return tuple(made if effect is Effect.READ else made[:1])

    def _lacks_credential(self, tool: Tool, refused: str) -> bool:
        theirs = self._run.broker.tools[refused].protocol.source.service
        same = tool.protocol.source.service == theirs and tool.sends_credential
        return same or bool(Toolset([tool]).missing_credentials())

    def _can_be_asked(self, tool: str, by: str) -> bool:
        protocol = self._run.all_tools[by].protocol
        request = ApprovalRequest(by, {}, protocol.effect, protocol.description, (), (tool,), protocol=protocol)
        return self._run.broker.approval.decide(request) != "denied"

    def _broke(self, call: Call, fault: Fault) -> bool:
        if call.succeeded:
            nothing = is_empty_response(call) and bool(call.drift)
            return call.effect is Effect.READ and (nothing or fault.drift is not None)
        if call.status != "failed" or blames_arguments(call):
            return False
        if call.effect is not Effect.READ:
            takes_a_place = bool(self._run.broker.broken_tools.instead_of(call.tool))  # a third one could do it again
            return not takes_a_place and self._surely_refused(call) and _is_down(call)
        return _is_down(call) or self._fails_again_and_again(call.tool)

    def _surely_refused(self, call: Call) -> bool:
        journal = self._run.broker.journal
        entry = journal.entries.get(call.index)
        return entry is not None and entry.state == "refused" and not journal.doubtful_tools()

    def _fails_again_and_again(self, tool: str) -> bool:
        calls = [call for call in self._run.broker.calls if call.tool == tool]
        failed = {call.attempt for call in calls if call.status == "failed" and not blames_arguments(call)}
        return len(failed) >= UNSURE and not any(call.succeeded for call in calls)


def _is_down(call: Call) -> bool:
    status = call.error_status
    if call.cause is not None:
        return call.cause in _DOWN
    if isinstance(status, int):
        return status >= 500 or status in TRANSIENT_STATUSES
    return status in _DOWN_WORDS


def _read_of(program: Program, tool: str, tools: Toolset) -> Sequence[Path]:
    if program.tree is None:
        return ()
    flow: Flow = program.flow({protocol.name: protocol for protocol in tools.protocols})
    paths = {
        (*map(_step, origin.path), _step(access.key))
        for access in flow.accesses.values()
        for origin in access.base.origins
        if origin.tool == tool and not access.attribute
    }
    return sorted(path for path in paths if not any(path == other[: len(path)] for other in paths - {path}))


def _step(step: Any) -> str:
    return step if isinstance(step, str) else "[]"


def broken_tools(run: Run) -> Mapping[str, Sequence[Replacement]]:
    """Return the tools that no program need call any more, each with what gives the same.

    A tool that answered well in this run is not among them: its answers can be read again.
    """
    answered = {call.tool for call in run.broker.calls if call.succeeded and not call.drift}
    bans = run.broker.broken_tools.banned
    return {tool: bans[tool] for tool in bans if tool not in answered}
