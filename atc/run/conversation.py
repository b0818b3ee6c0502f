"""A conversation: tasks for one agent, of which each may refer to those before ("and in Rome?").

All tasks are one stored run: one trace, one journal, one id. Each task but the first is a stage of the journal that is
opened as a new request. So a write is never answered from an earlier task: it is made anew, and its approval is asked
for as ever. Only reads are used again, for a time (the setting ``reuse_reads_s``) and never past a write.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, Unpack

from atc._host.blocking import in_thread, wait_for
from atc._host.redaction import Redactor
from atc._records.events import Event
from atc._records.origins import Origins
from atc._records.packing import as_text
from atc._records.records import PendingCall
from atc.calls.broker import Broker
from atc.calls.entry import CallEntry
from atc.calls.journal import Journal
from atc.errors import UsageError
from atc.models.images import Images
from atc.result import Effect, Result
from atc.run.author import Past
from atc.run.preamble import (
    MAX_CALL,
    MAX_CALLS,
    MAX_PROBLEM,
    MAX_PROGRAM,
    MAX_TASK,
    MAX_TOOLS,
    MAX_VALUE,
    Turn,
    cut,
)
from atc.sandboxes.inputs import name_problem
from atc.tools.tool import Toolset
from atc.traces.stores.base import new_run_id
from atc.wording import outcomes

if TYPE_CHECKING:
    from atc.agent import Agent
    from atc.run.request import RunOptions

MAX_SHOWN = 20
"""Earlier tasks that a prompt can have: the latest."""
MAX_INPUTS, MAX_INPUT = 10, 20_000
"""Values of earlier tasks that stand in a program's scope, the latest, and the characters of each as JSON."""


@dataclass
class Upcoming:
    """The next task of a conversation, as the agent needs it.

    Attributes:
        run_id: of the conversation.
        number: of the task, from 1.
        turns: the tasks before it.
        inputs: their values, for its programs.
        answered: whether the task before it was answered.
        calls: number of the last call of the task before.
        reuse_s: seconds for which earlier reads are used again.
        journal: of the task before, then of this one.
        result: how it went; ``None`` until it has ended, or where it raised.
        began: whether it has begun, so that it may have done something.
        dry_run: whether it plans calls with effects instead of making them.
        goes_on: whether it is the last task, whose calls waited for approval.
        past: what the model has seen and written in the tasks before.
        origins: of the inputs, found by whoever asks. ``answer_origins``: of its own answer, once it has ended.
    """

    run_id: str
    number: int
    turns: tuple[Turn, ...]
    inputs: dict[str, Any]
    answered: bool
    calls: int
    reuse_s: float
    journal: Journal | None = None
    result: Result | None = None
    began: bool = False
    dry_run: bool = False
    goes_on: bool = False
    past: Past = field(default_factory=Past)
    origins: Mapping[str, Callable[[], Origins]] = field(default_factory=dict)
    answer_origins: Callable[[], Origins] | None = None

    def take(self, journal: Journal) -> Journal:
        """Keep the journal, for this task and those after it, and return it. That of the task before is handed over."""
        self._first = journal is not self.journal
        self.journal = journal if self._first else journal.handed_over()
        self.journal.kept = True
        return self.journal

    def begin(self, broker: Broker, tools: Toolset) -> None:
        """Begin the task in the journal, before the trace has it.

        Raises:
            JournalError: it cannot be written.
        """
        if self.goes_on:
            self.began = True
            return
        if not self._first:
            policy = broker.approval.policy
            rules = policy is not None and policy.permissions.needs_origins
            wanted = rules or any(protocol.untrusted for protocol in tools.protocols)
            origins = {name: find() for name, find in self.origins.items() if wanted and name in self.inputs}
            broker.begin_request(answered=self.answered, inputs=self.inputs, calls=self.calls, origins=origins)
        broker.reuse_s, broker.reusable = self.reuse_s, tools
        self.began, self.dry_run = True, broker.dry_run


class Conversation:
    """Tasks that may each refer to earlier ones. Made by :meth:`atc.Agent.conversation`; one task at a time.

    A later task's prompt shows the earlier tasks, their programs and values: bounded, the newest first, as data. Its
    programs also have small values as variables ``answer_1``, ``answer_2`` …, by the number of the task. A task
    that fails or is stopped is shown with what it did, and the next one goes on. A task whose calls wait for approval
    (``approve="park"``) lets go of the run, so that anybody can decide; :meth:`resume` goes on with it, and no other
    task begins before that.

    Attributes:
        id: the id of the stored run that holds all tasks: ``atc runs show`` takes it.
    """

    def __init__(self, agent: Agent) -> None:
        self.id = new_run_id()
        self._agent = agent
        self._turns: list[Turn] = []
        self._values: dict[str, Any] = {}
        self._origins: dict[str, Callable[[], Origins]] = {}
        self._journal: Journal | None = None
        self._answered = False
        self._last_call = 0
        self._redactor = Redactor(agent.settings.secrets)
        self._busy = threading.Lock()
        self._closed = False
        self._pending: tuple[PendingCall, ...] = ()
        self._past = Past()

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """Return the calls of the last task that wait for approval, as it ended."""
        return self._pending

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Return the tasks so far and how each went, in short."""
        return tuple(self._turns)

    def run(self, task: str, *, answer: Any = None, **options: Unpack[RunOptions]) -> Result[Any]:
        """Solve the next task: :meth:`atc.Agent.run`, with its arguments.

        Raises:
            UsageError: another task of this conversation is under way, or it is closed.
            As :meth:`atc.Agent.run`.
        """
        return wait_for(self.arun(task, answer=answer, **options))

    async def arun(self, task: str, *, answer: Any = None, **options: Unpack[RunOptions]) -> Result[Any]:
        """:meth:`run` for asynchronous code."""
        async with self._next(task) as turn:
            return await self._agent._begin(self._agent._request(task, answer=answer, turn=turn, **options))

    async def stream(self, task: str, *, answer: Any = None, **options: Unpack[RunOptions]) -> AsyncIterator[Event]:
        """Solve the next task and yield every event: :meth:`atc.Agent.stream`, with its arguments.

        Raises:
            As :meth:`run`, after the events that came before.
        """
        async with self._next(task) as turn:
            request = self._agent._request(task, answer=answer, turn=turn, **options)
            async with contextlib.aclosing(self._agent._events(request)) as events:
                async for event in events:
                    yield event

    def resume(self, *, answer: Any = None, images: Images = ()) -> Result[Any]:
        """Go on with the last task, whose calls waited for approval: :meth:`atc.Agent.resume`, with its arguments.

        Raises:
            UsageError: it does not wait; or the run went on elsewhere meanwhile, and this conversation is closed.
            As :meth:`atc.Agent.resume`.
        """
        return wait_for(self.aresume(answer=answer, images=images))

    async def aresume(self, *, answer: Any = None, images: Images = ()) -> Result[Any]:
        """:meth:`resume` for asynchronous code."""
        with self._held():
            if not self._pending:
                raise UsageError("no task of this conversation waits for approval")
            stored = self._agent.store.run(self.id)
            ended = await in_thread(stored.last, "run_ended")
            if ended is None or ended.get("status") != "waiting":
                self._closed = True
                raise UsageError(
                    f"the conversation went on elsewhere (`atc runs show {self.id}`): open another one with "
                    "agent.conversation()"
                )
            number, last = len(self._turns), self._last_call
            turn = Upcoming(self.id, number, (), {}, False, last, 0.0, goes_on=True, past=self._past)
            try:
                return await self._agent._go_on(stored, answer=answer, images=images, turn=turn)
            finally:
                await self._ended(self._turns[-1].task, turn)

    def close(self) -> None:
        """End the conversation: its journal is closed. The agent stays open, for others.

        Raises:
            UsageError: a task is under way.
        """
        if not self._busy.acquire(blocking=False):
            raise UsageError("a task of this conversation is under way: close it when the task has ended")
        try:
            self._closed = True
            if self._journal is not None:
                self._journal.release()
        finally:
            self._busy.release()

    async def aclose(self) -> None:
        """:meth:`close` for asynchronous code."""
        await in_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    # -- one task ------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            raise UsageError(
                "a task of this conversation is under way: wait for its result, or open another conversation"
            )
        try:
            if self._closed:
                raise UsageError("the conversation is closed: open another one with agent.conversation()")
            yield
        finally:
            self._busy.release()

    @contextlib.asynccontextmanager
    async def _next(self, task: str) -> AsyncIterator[Upcoming]:
        with self._held():
            if self._pending:
                raise UsageError(outcomes.conversation_waits(self.id, len(self._turns), self._pending, "resume()"))
            turn = Upcoming(
                self.id,
                len(self._turns) + 1,
                tuple(self._turns[-MAX_SHOWN:]),
                dict(list(self._values.items())[-MAX_INPUTS:]),
                self._answered,
                self._last_call,
                self._agent.settings.reuse_reads_s,
                self._journal,
                past=self._past,
                origins=self._origins,
            )
            try:
                yield turn
            finally:
                await self._ended(task, turn)

    async def _ended(self, task: str, turn: Upcoming) -> None:
        journal, result = turn.journal, turn.result
        if turn.goes_on and not turn.began:
            if journal is not None:
                await in_thread(journal.release)
            return  # it waits on
        self._journal = journal
        if journal is None or not turn.began:
            return
        if turn.goes_on:
            self._turns.pop()
        if turn.dry_run:
            journal.forget_reads()  # whoever goes on to do it for real sees what is there then
        done = result is not None and result.status == "answered"
        self._answered = done and not turn.dry_run  # it finishes nothing that an earlier task had begun
        if result is not None:
            self._last_call = max((call.index for call in result.calls), default=self._last_call)
        made = [entry for number, entry in journal.entries.items() if number > journal.before]
        self._turns.append(self._turn(task, turn.number, result, made))
        if turn.answer_origins is not None:
            self._origins[f"answer_{turn.number}"] = turn.answer_origins
        self._pending = result.pending if result is not None else ()
        if self._pending:  # who decides opens the journal
            await in_thread(journal.release)
            self._journal = None

    def _turn(self, task: str, number: int, result: Result | None, made: list[CallEntry]) -> Turn:
        writes = [entry for entry in made if entry.effect is not Effect.READ]
        shown: dict[str, Any] = {
            "number": number,
            "task": self._shown(task.strip(), MAX_TASK),
            "status": "stopped" if result is None else result.status,
            "done": self._calls([entry for entry in writes if entry.state == "done"]),
            "in_doubt": self._calls([entry for entry in writes if entry.in_doubt]),
            "tools": tuple(dict.fromkeys(e.tool for e in made if e.state == "done" and e.tool in self._agent.tools))[
                :MAX_TOOLS
            ],
        }
        if result is not None and result.sketch is not None and result.sketch.listed:
            shown["shown"] = result.sketch.tools
        if result is None:
            shown["problem"] = "it was broken off"
        elif result.status == "answered":
            if len({each.stage for each in result.revisions}) < 2:  # else it reads what is not there any more
                shown["program"] = self._shown(result.program, MAX_PROGRAM)
            shown["value"], shown["variable"] = self._kept(f"answer_{number}", result.json_value)
        elif result.status == "planned":
            shown["program"] = self._shown(result.program, MAX_PROGRAM)
            shown["problem"] = "it was a dry run: its calls with effects were listed, and none was made"
        elif result.pending:
            shown["problem"] = self._shown(f"waits for approval: {outcomes.pending(result.pending)}", MAX_PROBLEM)
        elif result.fault is not None:
            shown["problem"] = self._shown(result.fault.message, MAX_PROBLEM)
        return Turn(**shown)

    def _kept(self, name: str, value: Any) -> tuple[str, str]:
        value = self._redactor.value(value)
        text = value if isinstance(value, str) else as_text(value)
        if value is None or len(text) > MAX_INPUT or name_problem(name, self._agent.tools):
            return cut(text, MAX_VALUE), ""
        self._values[name] = value
        return cut(text, MAX_VALUE), name

    def _calls(self, entries: list[CallEntry]) -> tuple[str, ...]:
        lines = []
        for entry in entries[:MAX_CALLS]:
            arguments = ", ".join(f"{name}={as_text(value)}" for name, value in entry.arguments.items())
            lines.append(self._shown(f"{entry.tool}({arguments})", MAX_CALL))
        more = [f"and {len(entries) - MAX_CALLS} more calls"] if len(entries) > MAX_CALLS else []
        return (*lines, *more)

    def _shown(self, text: str, limit: int) -> str:
        return cut(self._redactor.text(text), limit)
