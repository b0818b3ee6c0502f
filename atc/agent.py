"""The agent: a task and tools in, a result out. The order of the steps is in :mod:`atc.strategies.chain`."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack
from typing import Any, Self, TypeVar

from atc.errors import BudgetExceeded, JournalError, ModelError, UsageError
from atc.execution.broker import Approve, Broker, CallPolicy
from atc.execution.journal import Journal
from atc.execution.process import ProcessSandbox
from atc.execution.redact import Redactor
from atc.execution.sandbox import Limits, Sandbox
from atc.models import open_model
from atc.models.base import Model
from atc.models.budget import Budget, BudgetedModel
from atc.programs.check import Checker
from atc.result import Call, Fault, Result, Usage
from atc.retrieval.choose import Chooser, LexicalChooser
from atc.settings import Settings
from atc.strategies import answer
from atc.strategies.chain import Ending, chain
from atc.strategies.run import Run
from atc.strategies.writer import Draft, Writer
from atc.tools.protocol import Effect
from atc.tools.tool import Toolset
from atc.traces.events import Emit, Event, EventKind
from atc.traces.store import RunStore, StoredRun, TraceWriter, new_run_id

T = TypeVar("T")
MAX_TASK = 20_000
"""Characters of a task."""


class Agent:
    """Solves tasks with tools.

    Args:
        tools: a toolset, or Python functions.
        model: a model, or how to open one (see :func:`atc.models.open_model`); by default what the settings say, else the
            embedded model.
        approve: asked before every call that is not a read; ``None`` allows what the given tools can do.
        chooser: picks the tools to offer where there are more than ``max_tools``.
        sandbox: where programs run; by default the one that the settings name.
        policy: the broker's limits; by default from the settings.
        on_event: told of every event as it happens.
        **settings: any field of :class:`atc.settings.Settings`.

    Raises:
        SettingsError: a setting is wrong.
        UsageError: the tools are none.
    """

    def __init__(
        self,
        tools: Toolset | Iterable[Callable[..., Any]],
        *,
        model: Model | str | None = None,
        approve: Approve | None = None,
        chooser: Chooser | None = None,
        sandbox: Sandbox | None = None,
        policy: CallPolicy | None = None,
        on_event: Callable[[Event], None] | None = None,
        **settings: Any,
    ) -> None:
        self.settings = Settings.load(**settings)
        self.tools = tools if isinstance(tools, Toolset) else Toolset.from_functions(*tools)
        if not self.tools:
            raise UsageError("an agent needs at least one tool")
        self._model, self._approve, self._sandbox, self._on_event = model, approve, sandbox, on_event
        self._opened: Model | None = None
        self._chooser: Chooser = chooser or LexicalChooser()
        self._policy = policy or CallPolicy(
            max_calls=self.settings.max_calls, call_timeout_s=self.settings.call_timeout_s
        )  # fmt: skip
        self.store = RunStore(self.settings.runs_dir)

    def run(self, task: str) -> Result:
        """Solve a task and return how it went; a failure is a result too. Blocks; see :meth:`arun`.

        Raises:
            UsageError: the task is empty or far too long.
            EnvironmentProblem: no model, or not the isolation that was asked for.
        """
        return _wait(self.arun(task))

    async def arun(self, task: str, *, source: str | None = None) -> Result:
        """:meth:`run` for asynchronous code. ``source`` is noted in the trace: where the tools came from, for a resume."""
        return await self._begin(_checked(task), new_run_id(), source=source)

    async def stream(self, task: str) -> AsyncIterator[Event]:
        """Solve a task and yield every event as it happens; the last is ``run_ended`` with the result.

        Raises:
            As :meth:`arun`, after the events that came before.
        """
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        work = asyncio.create_task(self._begin(_checked(task), new_run_id(), listener=events.put_nowait))
        work.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            await work
        finally:
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):  # its outcome was raised above, or nobody waits for it
                await work

    def resume(self, run_id: str) -> Result:
        """Go on with a run that was cut off: its last program runs again, what succeeded comes from the journal.

        Raises:
            UsageError: there is no such run, or it has ended with an answer.
            JournalError: its journal is damaged.
        """
        return _wait(self.aresume(run_id))

    async def aresume(self, run_id: str) -> Result:
        """:meth:`resume` for asynchronous code."""
        stored = self.store.find(run_id)
        started, ended = stored.first("run_started"), stored.last("run_ended")
        if started is None:
            raise UsageError(f"run {stored.run_id} has no beginning in its trace: it cannot be resumed")
        if ended is not None and ended.get("status") == "answered":
            raise UsageError(f"run {stored.run_id} ended with an answer: there is nothing to resume (`atc show` reads it)")
        written = stored.last("program_written")
        first = Draft(written["program"]) if written and written["program"] else None
        return await self._begin(started["task"], stored.run_id, first=first, source=started.get("source"))

    def close(self) -> None:
        """Let go of the model that this agent opened (an embedded one's process ends); done at exit otherwise."""
        if self._opened is not None:
            opened, self._opened = self._opened, None
            _wait(opened.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- one run -------------------------------------------------------------------------------------------------------

    async def _begin(
        self,
        task: str,
        run_id: str,
        *,
        first: Draft | None = None,
        source: str | None = None,
        listener: Callable[[Event], None] | None = None,
    ) -> Result:
        stored = self.store.run(run_id) if self.settings.keep_runs else None
        redactor = Redactor(self._secrets())
        async with AsyncExitStack() as stack:
            trace = TraceWriter(stored.trace if stored else None)
            stack.callback(trace.close)
            emit = self._emitter(trace, redactor, listener)
            model = self._opened_model()
            budget = Budget(self.settings.budget_model_calls, self.settings.budget_tokens, self.settings.budget_s)
            tools = await self._chooser.choose(task, self.tools, self.settings.max_tools)
            await stack.enter_async_context(tools.opened())
            emit("run_started", self._started(task, run_id, model, source))
            emit("tools_chosen", {"tools": list(tools), "of": len(self.tools)})
            journal = Journal(stored.journal if stored else None)
            stack.callback(journal.close)
            broker = Broker(tools, journal, emit, self._policy, self._approve, redactor)
            run = await self._assemble(stack, task, tools, BudgetedModel(model, budget), broker, emit)
            return await self._to_the_end(run, first, run_id, stored, budget)

    async def _assemble(
        self, stack: AsyncExitStack, task: str, tools: Toolset, model: Model, broker: Broker, emit: Emit
    ) -> Run:
        writer = Writer(task, tools, model, self.settings, emit)
        checker = Checker(tools.protocols) if self.settings.check else None
        if checker is not None:
            stack.callback(checker.close)
        sandbox = self._sandbox or ProcessSandbox(
            Limits(cpu_s=self.settings.cpu_s, memory_bytes=self.settings.memory_mb << 20), self.settings.sandbox_require
        )
        if self._sandbox is None:
            stack.push_async_callback(sandbox.aclose)
        return Run(task, tools, self.settings, writer, checker, sandbox, broker, emit)

    async def _to_the_end(
        self, run: Run, first: Draft | None, run_id: str, stored: StoredRun | None, budget: Budget
    ) -> Result:
        """Run the strategy; what stops it from outside becomes the result's status."""
        began = time.perf_counter()
        said = ""
        try:
            async with asyncio.timeout(self.settings.budget_s):
                ending = await chain(run, first)
                if ending.status == "answered":
                    said = await answer.sentence(run, ending.value) if self.settings.answer else answer.plain(ending.value)
        except (BudgetExceeded, TimeoutError) as error:
            text = str(error) or f"the run used up its {self.settings.budget_s:g} seconds"
            ending = _stopped(run, "budget", Fault(kind="limit", message=text))
        except (ModelError, JournalError) as error:
            ending = _stopped(run, "failed", Fault(kind="sandbox" if isinstance(error, JournalError) else "program", message=str(error)))
        result = self._result(run, ending, said, run_id, stored, budget, time.perf_counter() - began)
        if ending.status == "answered":
            run.emit("answered", {"value": result.value, "answer": result.answer})
        run.emit("run_ended", result.model_dump(mode="json", exclude={"calls", "revisions"}))
        return result

    def _result(
        self, run: Run, ending: Ending, said: str, run_id: str, stored: StoredRun | None, budget: Budget, seconds: float
    ) -> Result:
        calls = run.calls
        told = {call.index for call in calls}
        calls += [_from_before(e) for e in run.broker.journal.entries.values() if e.in_doubt and e.number not in told]
        usage = Usage(
            model_calls=budget.calls_used, prompt_tokens=budget.prompt_tokens,
            completion_tokens=budget.completion_tokens, model_seconds=budget.model_seconds,
            tool_calls=run.broker.made, tool_seconds=sum(call.seconds for call in calls), seconds=seconds,
        )  # fmt: skip
        return Result(
            run_id=run_id, task=run.task, status=ending.status, value=ending.value, answer=said, program=ending.program,
            calls=tuple(calls), revisions=tuple(run.revisions), fault=ending.fault, usage=usage, isolation=run.isolation,
            trace=str(stored.trace) if stored else None,
        )  # fmt: skip

    def _started(self, task: str, run_id: str, model: Model, source: str | None) -> dict[str, Any]:
        settings = self.settings.model_dump(mode="json", exclude={"api_key"})
        return {"run_id": run_id, "task": task, "model": model.name, "tools": len(self.tools), "source": source, "settings": settings}

    def _emitter(self, trace: TraceWriter, redactor: Redactor, listener: Callable[[Event], None] | None) -> Emit:
        listeners = [told for told in (self._on_event, listener) if told is not None]

        def emit(kind: EventKind, data: dict[str, Any]) -> None:
            event = Event(kind, redactor.value(data))
            trace.write(event)
            for told in listeners:
                told(event)

        return emit

    def _opened_model(self) -> Model:
        if isinstance(self._model, Model):
            return self._model
        if self._opened is None:
            replies = self.settings.runs_dir.parent / "replies" if self.settings.cache else None
            spec = self._model or self.settings.model
            self._opened = open_model(spec, base_url=self.settings.base_url, api_key=self._api_key(), cache_dir=replies)
        return self._opened

    def _api_key(self) -> str | None:
        return self.settings.api_key.get_secret_value() if self.settings.api_key else None

    def _secrets(self) -> list[str]:
        return [key] if (key := self._api_key()) else []


def _stopped(run: Run, status: Any, fault: Fault) -> Ending:
    program = run.revisions[-1].program if run.revisions else ""
    return Ending(status, program, fault=fault)


def _from_before(entry: Any) -> Call:
    """A call in doubt that an earlier process began."""
    return Call(
        index=entry.number, attempt=entry.attempt, tool=entry.tool, arguments=entry.arguments, effect=Effect(entry.effect),
        status="in_doubt", error="the run was cut off during this call",
    )  # fmt: skip


def _checked(task: str) -> str:
    if not isinstance(task, str) or not task.strip():
        raise UsageError("the task is empty: say in plain words what is wanted")
    if len(task) > MAX_TASK:
        raise UsageError(f"the task has {len(task):,} characters; the limit is {MAX_TASK:,}: give data through a tool instead")
    return task.strip()


def _wait(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end from blocking code, also where an event loop is running already (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    made: list[T] = []
    failed: list[BaseException] = []

    def inside() -> None:
        try:
            made.append(asyncio.run(work))
        except BaseException as error:  # handed to the thread that waits
            failed.append(error)

    thread = threading.Thread(target=inside, name="atc-run")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]
