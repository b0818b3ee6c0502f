"""Undoes what a run did, by the inverses that the user names: ``undo`` of the permissions file, or of ``@tool``.

The inverses are calls with effects like any other: a run of its own makes them, the newest first, each approved, with a
journal and a trace. The first run's journal is held meanwhile, and says before each inverse that it is about to be
made: a second undo, also after a crash, makes none again that was made or may have been.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from atc._host.blocking import in_thread
from atc._records.events import Event
from atc._records.origins import UNKNOWN, CallOrigins, Origin, Origins
from atc._records.records import DataFlow, Feed, PlannedCall, UndoneCall, UndoneRun, UndoReason
from atc.calls.approval import EarlierWrite, EarlierWrites
from atc.calls.entry import CallEntry, CallKey, call_key
from atc.calls.journal import Journal
from atc.calls.named_calls import NoValue, encoded, filled, sent_arguments
from atc.calls.permissions.tool_tables import CallText, Reference, call_text, said_of
from atc.calls.settled import Undo
from atc.errors import JournalError, UsageError
from atc.models.base import NoModel
from atc.result import Call, Effect
from atc.run.base import Ending, Strategy
from atc.run.run import Run
from atc.run.settling import tables_of, written_behind
from atc.schemas.protocol import SourceKey, original_arguments
from atc.tools.tool import Tool
from atc.traces.stores.base import StoredRun, new_run_id

if TYPE_CHECKING:
    from atc.agent import Agent


@dataclass
class Step:
    """One call with effects, and what undoes it.

    Attributes:
        entry: of the run's journal.
        undo: its inverse as the journal finds it again; ``None`` where there is none to be made.
        arguments: of the inverse, by the names that its tool knows.
        tried: the run that sent the inverse before, of which somebody said that it was not done; empty where none did.
        origins: of these arguments, as far as the run's trace says where those of the call came from.
        found: what is known of it.
    """

    entry: CallEntry
    undo: Undo | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    tried: str = ""
    origins: CallOrigins = field(default_factory=dict)
    found: UndoneCall = field(init=False)

    def __post_init__(self) -> None:
        self.stays("no_inverse")

    def stays(self, why: UndoReason, said: str = "") -> None:
        """Leave the call as it is: no inverse of it is made."""
        entry = self.entry
        self.found = UndoneCall(index=entry.number, tool=entry.tool, arguments=entry.arguments, why=why, said=said)

    def ends(self, outcome: Literal["undone", "denied", "not_done", "in_doubt"], said: str = "") -> None:
        """Note what came of its inverse."""
        self.found = self.found.model_copy(update={"outcome": outcome, "said": said})


@dataclass
class Undoing:
    """Undoes one run."""

    agent: Agent
    stored: StoredRun
    journal: Journal
    _flows: dict[Any, Any] = field(init=False, default_factory=dict)

    def steps(self) -> list[Step]:
        """Return the calls with effects of the run, the newest first, each with its inverse where it has one."""
        ended = [event["data"] for event in self.stored.events() if event["kind"] == "call_ended"]
        stated = {call.get("index") for call in ended if call.get("body_error") is not None}  # it did nothing, it says
        self._flows = {call.get("index"): call.get("data_flow") for call in ended if call.get("data_flow")}
        entries = (self.journal.entries[number] for number in sorted(self.journal.entries, reverse=True))
        writes = (entry for entry in entries if entry.effect is not Effect.READ and entry.number not in stated)
        return [self._step(entry) for entry in writes if entry.state == "done" or entry.in_doubt]

    def _step(self, entry: CallEntry) -> Step:
        step = Step(entry)
        if entry.in_doubt:
            step.stays("in_doubt")
            return step
        why, run = self._before(entry.number)
        if why:
            step.stays(why, run)
            return step
        step.tried = run
        tool = self._tool_of(entry.tool, entry.key.source)
        inverse = None if tool is None else self._inverse_of(tool)
        if tool is None or inverse is None:
            return step
        by, arguments = self.agent.tools.get(inverse.tool), sent_arguments(entry)
        if by is None or by.transport is None:
            step.stays("no_tool", inverse.tool)
        elif by.protocol.effect is Effect.READ:
            step.stays("a_read", inverse.tool)
        elif arguments is None:
            step.stays("masked")
        else:
            try:
                is_known = entry.unread is None and entry.number > self.journal.before  # else it is not held any more
                response = (entry.value,) if is_known else None
                given = filled(inverse, arguments, tool.protocol, response)
            except NoValue as missing:
                step.stays("no_value", missing.what)
            else:
                self._plan(step, inverse, by, given)
        return step

    def _plan(self, step: Step, inverse: CallText, by: Tool, given: dict[str, Any]) -> None:
        step.arguments = encoded(given, by.protocol)
        step.undo = Undo("", "begun", by.name, call_key(by.name, step.arguments).digest)
        entry, names = step.entry, original_arguments(by.protocol, {name: name for name, _ in inverse.arguments})
        named = dict(inverse.arguments)
        flow = _flow(self._flows.get(entry.number))
        step.origins = {name: _origins(named[given_as], entry, flow) for name, given_as in names.items()}
        shown = PlannedCall(
            index=entry.number,
            tool=by.name,
            effect=by.protocol.effect.value,
            arguments=step.arguments,
            feeds=tuple(_feed(name, named[given_as], entry) for name, given_as in names.items()),
        )
        step.found = UndoneCall(
            index=entry.number, tool=entry.tool, arguments=entry.arguments, inverse=shown, outcome="planned"
        )

    def _tool_of(self, name: str, source: SourceKey | None) -> Tool | None:
        """Return the tool of a call, by what it is known by at its source; ``None``: it is gone, or is another one."""
        tools = self.agent.tools
        if source is not None and (now := tools.by_source_key.get(source)) is not None:
            return tools[now]
        if name not in tools:
            return None
        known = tools.source_keys.get(name)
        return tools[name] if source is None or known is None else None

    def _inverse_of(self, tool: Tool) -> CallText | None:
        named = said_of(tables_of(self.agent), tool.protocol, lambda table: table.undo)
        if named is not None or not tool.undo:
            return named
        try:
            return call_text(tool.undo, response=True)
        except ValueError as error:
            raise UsageError(f"`undo` of the tool {tool.name} {error}") from None

    def _before(self, number: int) -> tuple[UndoReason, str]:
        """Return what is known of an inverse that was made, or begun, before, and by which run. One that was sent, and
        of which somebody said that it was not done, may be made again."""
        undo = self.journal.undone.get(number)
        if undo is None or undo.state == "refused":
            return "", ""
        if undo.state == "done":
            return "undone", undo.run
        begun = sorted(
            (each for each, other in self.journal.undone.items() if _equal(other, undo) and other.state != "refused"),
            reverse=True,  # in the order in which they were made
        )
        sent = self._sent(undo)
        if sent is None:
            return "undo_in_doubt", undo.run
        made = [entry for entry in sent if not entry.is_settled_as_not_done]
        equal = [entry for entry in made if entry.key.digest == undo.digest]
        if not equal and len(made) > self._known(undo):  # one with other arguments may have been sent in its place
            return "undo_in_doubt", undo.run
        if not equal:
            return "", undo.run if len(made) < len(sent) else ""
        surely = len(equal) == len(begun) and equal[begun.index(number)].state == "done"
        return "undone" if surely else "undo_in_doubt", undo.run

    def _sent(self, undo: Undo) -> list[CallEntry] | None:
        """Return the inverses by one tool that a run made, may have made, or sent; ``None`` where nobody can tell."""
        stored = self.agent.store.run(undo.run)
        try:
            journal = stored.open_journal() if stored.has_journal else None
        except JournalError:  # it is damaged, or another process works on it
            return None
        if journal is None:
            return None
        journal.close()
        writes = (entry for _, entry in sorted(journal.entries.items()) if entry.effect is not Effect.READ)
        count = (entry for entry in writes if entry.state == "done" or entry.in_doubt or entry.is_settled_as_not_done)
        return [entry for entry in count if entry.tool == undo.tool]

    def _known(self, undo: Undo) -> int:
        others = [each for each in self.journal.undone.values() if each.run == undo.run and each.tool == undo.tool]
        return sum(each.digest != undo.digest and each.state != "refused" for each in others)

    async def note(self, step: Step, run_id: str, state: Literal["begun", "done", "refused"]) -> None:
        """Write down how far the inverse of a call got. On disk before this returns."""
        assert step.undo is not None
        self.journal.undo(step.entry.number, Undo(run_id, state, step.undo.tool, step.undo.digest))
        await self.journal.written()

    def tell(self, step: Step, run_id: str) -> None:
        """Write into the trace of the run, in a thread, that a call was undone."""
        trace = self.stored.open_trace()
        try:
            data = {"index": step.entry.number, "tool": step.entry.tool, "run": run_id}
            trace.write_line(Event("call_undone", data).line())
        finally:
            trace.close()


@dataclass(frozen=True)
class TriedBefore(EarlierWrites):
    """The inverses that an earlier undo sent, and of which somebody said that they were not done: each takes approval.

    Args:
        runs: by the tool and the digest of an inverse's arguments, the run that sent it.
    """

    runs: Mapping[tuple[str, str], str]

    async def find(self, key: CallKey) -> EarlierWrite | None:
        """Return that run."""
        run = self.runs.get((key.tool, key.digest))
        return None if run is None else EarlierWrite(run, in_doubt=True)

    def take(self, key: CallKey, known: EarlierWrite | None) -> EarlierWrite | None:
        """Let the call be made: nobody else undoes this run meanwhile."""
        return None

    def settle(self, key: CallKey, outcome: str) -> None:
        """Note nothing: the journals do."""


class Undoer(Strategy):
    """Makes the inverses of a run's calls, the newest first."""

    name = "undo"

    def __init__(self, undoing: Undoing, steps: list[Step]) -> None:
        self._undoing, self._steps = undoing, steps

    async def choose_tools(self, run: Run, stored: StoredRun | None) -> None:
        names = dict.fromkeys(step.undo.tool for step in self._steps if step.undo is not None)
        await run.offer(run.all_tools.only(*names))

    async def solve(self, run: Run) -> Ending:
        run.broker.rules = frozenset()  # what was shown is made, and nothing else
        run.broker.earlier_calls = [*self._undoing.journal.entries.values()]
        tried = {(step.undo.tool, step.undo.digest): step.tried for step in self._steps if step.undo and step.tried}
        run.broker.approval = replace(
            run.broker.approval, can_wait=False, earlier=TriedBefore(tried) if tried else None
        )
        feeds = {step.undo: step.found.inverse for step in self._steps if step.undo is not None}

        async def feeds_of(call: Call) -> tuple[Feed, ...]:
            shown = next((each for each in feeds.values() if each and _same(each, call)), None)
            return () if shown is None else shown.feeds

        run.broker.feeds_of = feeds_of
        with run.attempt():
            for step in self._steps:
                if not await self._made(run, step):
                    break
        return Ending("answered", [step.entry.number for step in self._steps if step.found.outcome == "undone"])

    async def _made(self, run: Run, step: Step) -> bool:
        """Make one inverse; whether the next one may be made. A no is one to this call alone."""
        assert step.undo is not None
        await self._undoing.note(step, run.run_id, "begun")
        call = await run.call(step.undo.tool, step.arguments, origins=step.origins)
        if call.succeeded and call.body_error is None:
            await self._undoing.note(step, run.run_id, "done")
            await in_thread(self._undoing.tell, step, run.run_id)
            step.ends("undone")
            return True
        if call.status == "in_doubt":
            step.ends("in_doubt", call.error or "")
            return False
        if step.tried:  # it still takes approval
            await self._undoing.note(step, step.tried, "begun")
        else:
            await self._undoing.note(step, run.run_id, "refused")
        denied = call.cause == "denied"
        step.ends("denied" if denied else "not_done", str((call.body_error and call.body_error.message) or call.error))
        return denied


async def undo_run(agent: Agent, run_id: str, *, dry_run: bool = False) -> UndoneRun:
    """Undo what a kept run did; ``run_id`` is its name, or the beginning of it. In a dry run nothing is made.

    Raises:
        UsageError: there is no such run, it has no journal, or the agent lets calls wait for approval.
        JournalError: its journal is damaged, or another process works on the run.
        EnvironmentProblem: something is missing that every run needs.
    """
    if agent._approval.parks:
        raise UsageError("an undo does not wait for approval: give approve='ask', 'always' or a function")
    stored = await in_thread(agent.store.find, run_id)
    async with written_behind(stored) as (journal, _):
        undoing = Undoing(agent, stored, journal)
        steps = await in_thread(undoing.steps)
        made = [step for step in steps if step.undo is not None]
        by = ""
        if made and not dry_run:
            by = new_run_id()
            request = agent._request(f"Undo run {stored.run_id}")
            result = await agent._begin(request, strategy=Undoer(undoing, made), run_id=by, model=NoModel())
            why = "" if result.fault is None else result.fault.message
            for step in made:
                if step.found.outcome == "planned":  # the run ended before
                    step.ends("not_done", why or "an inverse before it was not made")
        return UndoneRun(run_id=stored.run_id, undo_run=by, calls=tuple(step.found for step in steps))


def _feed(name: str, given: Any, entry: CallEntry) -> Feed:
    if not isinstance(given, Reference):
        return Feed(argument=name, kind="program")
    kind: Literal["response", "same"] = "response" if given.of == "response" else "same"
    return Feed(argument=name, kind=kind, call=entry.number, tool=entry.tool, path=given.path)


def _flow(raw: Any) -> DataFlow | None:
    try:
        flow = DataFlow.model_validate(raw)
    except ValidationError:
        return None
    return None if flow.left_out else flow


def _origins(given: Any, entry: CallEntry, flow: DataFlow | None) -> Origins:
    if isinstance(given, str | int | float | None):
        return frozenset({Origin(kind="literal")})
    if flow is None or not isinstance(given, Reference):
        return UNKNOWN
    if given.of == "arguments":
        return frozenset(flow.origins.get(str(given.path[0]), ())) or UNKNOWN
    path = tuple(step for step in given.path if isinstance(step, str))
    through = (each for of in flow.origins.values() for each in of)
    calls = {each if each.how == "choice" else each.model_copy(update={"how": "call"}) for each in through}
    return frozenset({Origin(kind="tool", tool=entry.tool, path=path), *calls})


def _equal(one: Undo, other: Undo) -> bool:
    return (one.run, one.tool, one.digest) == (other.run, other.tool, other.digest)


def _same(shown: PlannedCall, call: Call) -> bool:
    return (shown.tool, shown.arguments) == (call.tool, call.arguments)
