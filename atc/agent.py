"""The agent: a task and tools in, a result out. How it acts is its strategy's (:mod:`atc.strategies.base`)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload

from atc.agent_batches import RunsBatches
from atc.answers.opening import open_answer
from atc.blocking import wait_for
from atc.calls.approval import Approval, Approve
from atc.calls.broker import Broker, CallPolicy, check_schemas
from atc.calls.journal import Journal
from atc.calls.question import AskUser, answerer_of, checked_ask_user
from atc.calls.redact import Redactor
from atc.catalogue import Catalogue
from atc.conversation import Conversation, Upcoming
from atc.errors import UsageError
from atc.held import Held, catalogue_of, limits_of
from atc.models.base import Message, Model
from atc.models.budget import BudgetedModel
from atc.models.images import Images, read_images
from atc.permissions import Permissions, agent_permissions
from atc.request import Request, checked_task, framed, opened_journal, resumable, resumed_request, settings_of, started
from atc.result import Result, T
from atc.retrieval.retriever import Retriever
from atc.sandboxes.contract import Sandbox
from atc.settings import Settings
from atc.strategies.ask_user import NAME as ASK_USER
from atc.strategies.ask_user import Questions
from atc.strategies.base import Strategy, open_strategy, resumed_strategy
from atc.strategies.context import RunContext
from atc.strategies.session import Session
from atc.telemetry import open_telemetry
from atc.tools.names import RESERVED_NAMES
from atc.tools.tool import Tool, Toolset
from atc.traces.emitter import Listener, emitter, streamed
from atc.traces.events import Event
from atc.traces.stores import open_store
from atc.traces.stores.base import DELETED_AT_ONCE, NoTrace, StoredRun, new_run_id, prune

if TYPE_CHECKING:
    from atc.permissions import Permissions


class Agent(RunsBatches):
    """Solves tasks with tools.

    Args:
        tools: a toolset; or Python functions, and tools of toolsets, one by one. Not needed beside a catalogue.
        model: a model, or how to open one (see :func:`atc.open_model`); by default what the settings say, else the
            embedded model.
        approve: decides about every call that is not a read: ``"ask"`` (the user, at the terminal), ``"never"``,
            ``"always"``, or a function; by default what the settings say, else ``"ask"`` on a terminal and ``"never"``
            elsewhere.
        ask_user: lets programs ask the user: a function that takes a question and returns the answer (``None``: none),
            sync or async; or ``"ask"`` (at the terminal, else as ``"stop"``), ``"stop"`` (the run ends as
            ``needs_input`` and is resumed with the answer) or ``"never"``; by default what the settings say, else
            ``"never"``.
        strategy: how it solves tasks: a strategy, or the name of one (:func:`atc.strategies.base.open_strategy`); by
            default what the settings say, else ``"chain"``.
        retriever: finds the tools to offer if there are more than ``max_tools``; by default an index of them, as the
            settings say.
        catalogue: a catalogue of the tools that other agents share; or a folder, as in the setting ``catalogue``. By
            default the agent makes one.
        sandbox: where programs run: a sandbox, which you close yourself; or a text, as in the setting ``sandbox``.
        policy: the broker's limits; by default from the settings.
        permissions: rules that say what may be called unasked (:class:`atc.permissions.Permissions`), or a file of
            them; by default those of the settings.
        answer: the type of every run's value: any type that pydantic takes (``int``, ``list[City]``, a
            model, a union …); or as text ``"number"``, ``"text"``, ``"list"``, ``"yes/no"``, ``"record"``,
            ``"FILE.json"`` or ``"MODULE:TYPE"``. If types are known, programs are checked against it before they run;
            their values are checked afterwards.
        on_event: called with every event as it happens.
        **settings: any field of :class:`atc.settings.Settings`.

    Raises:
        SettingsError: a setting is wrong.
        UsageError: no tools were given, or others than the catalogue's; ``approve`` or ``ask_user`` is neither a word
            nor a function, there is no such strategy, or ``answer`` cannot be the type of an answer.
    """

    def __init__(
        self,
        tools: Toolset | Iterable[Tool | Callable[..., Any]] | None = None,
        *,
        model: Model | str | None = None,
        approve: Approve | Approval | None = None,
        ask_user: AskUser | None = None,
        strategy: Strategy | str | None = None,
        retriever: Retriever | None = None,
        catalogue: Catalogue | str | Path | None = None,
        sandbox: Sandbox | str | None = None,
        policy: CallPolicy | None = None,
        permissions: Permissions | str | Path | None = None,
        answer: Any = None,
        on_event: Callable[[Event], None] | None = None,
        **settings: Any,
    ) -> None:
        if isinstance(sandbox, str):
            settings["sandbox"], sandbox = sandbox, None
        if isinstance(strategy, str):
            settings["strategy"], strategy = strategy, None
        if isinstance(answer, str):
            settings["answer"], answer = answer, None
        if isinstance(catalogue, str | Path):
            settings["catalogue"], catalogue = catalogue, None
        if isinstance(permissions, str | Path):
            settings["permissions"], permissions = permissions, None
        loaded = Settings.load(**settings)
        self.permissions = agent_permissions.permissions_of(permissions, loaded, approve)
        self.settings, tools = agent_permissions.held_to(self.permissions, loaded, tools)
        self.catalogue = catalogue_of(tools, catalogue, retriever, self.settings)
        self.tools = self.catalogue.tools
        if taken := [name for name in RESERVED_NAMES if name in self.tools]:
            raise UsageError(f"no tool may be named {taken[0]!r}, which means something else in a program: rename it")
        self._approval = agent_permissions.approval_of(self.permissions, approve, self.settings)
        self._ask_user = checked_ask_user(ask_user, self.settings.ask_user)
        if self._ask_user != "never" and ASK_USER in self.tools:
            raise UsageError(
                f"a tool is named {ASK_USER!r}, by which programs ask the user: rename it, or set ask_user='never'"
            )
        self._given_strategy = strategy
        self._strategy = strategy or open_strategy(self.settings.strategy)  # now, so that a wrong name is found now
        wanted = self.settings.answer if answer is None else answer
        self._answer = open_answer(wanted) if wanted is not None else None
        self._held, self._on_event = Held(self.settings, model, sandbox), on_event
        self._policy = policy or CallPolicy(
            max_calls=self.settings.max_calls,
            call_timeout_s=self.settings.call_timeout_s,
        )
        self.store = open_store(self.settings)
        self._telemetry = open_telemetry(self.settings)

    @overload
    def run(
        self, task: str, *, answer: type[T], images: Images = (), instructions: str | None = None, dry_run: bool = False
    ) -> Result[T]: ...
    @overload
    def run(
        self,
        task: str,
        *,
        answer: Any = None,
        images: Images = (),
        instructions: str | None = None,
        dry_run: bool = False,
    ) -> Result[Any]: ...
    def run(
        self,
        task: str,
        *,
        answer: Any = None,
        images: Images = (),
        instructions: str | None = None,
        dry_run: bool = False,
    ) -> Result[Any]:
        """Solve a task and return the result; a failed run has a result too. Blocks; see :meth:`arun`.

        Args:
            task: what is wanted, in plain words.
            answer: the type of the value, as for :class:`Agent`; by default the agent's.
            images: shown to the model with the task: paths, bytes or ``data:`` URLs (:class:`atc.Image`).
            instructions: standing wishes that replace the agent's own, such as "answer in German".
            dry_run: make only reads, and list calls with effects in ``planned`` and ``dry_run`` of the result.

        Raises:
            UsageError: the task is empty or far too long, an image cannot be read, the model takes none, or ``answer``
                cannot be the type of an answer.
            EnvironmentProblem: no model, or not the isolation that was asked for.
        """
        return wait_for(self.arun(task, answer=answer, images=images, instructions=instructions, dry_run=dry_run))

    @overload
    async def arun(
        self,
        task: str,
        *,
        answer: type[T],
        images: Images = (),
        instructions: str | None = None,
        source: str | None = None,
        dry_run: bool = False,
    ) -> Result[T]: ...
    @overload
    async def arun(
        self,
        task: str,
        *,
        answer: Any = None,
        images: Images = (),
        instructions: str | None = None,
        source: str | None = None,
        dry_run: bool = False,
    ) -> Result[Any]: ...
    async def arun(
        self,
        task: str,
        *,
        answer: Any = None,
        images: Images = (),
        instructions: str | None = None,
        source: str | None = None,
        dry_run: bool = False,
    ) -> Result[Any]:
        """:meth:`run` for asynchronous code. The trace keeps ``source``, where the tools are, for a resume."""
        request = self._request(
            task, answer=answer, images=images, instructions=instructions, source=source, dry_run=dry_run
        )
        return await self._begin(request)

    def conversation(self) -> Conversation:
        """Begin a conversation: tasks that may each refer to earlier ones (:class:`atc.conversation.Conversation`)."""
        return Conversation(self)

    async def stream(
        self,
        task: str,
        *,
        answer: Any = None,
        images: Images = (),
        instructions: str | None = None,
        dry_run: bool = False,
    ) -> AsyncIterator[Event]:
        """Solve a task and yield every event as it happens; the last is ``run_ended`` with the result.

        Args:
            task: what is wanted, in plain words.
            answer: as for :meth:`run`, as ``images``, ``instructions`` and ``dry_run`` are. Events hold its JSON form.

        If you stop reading before the end, the run stops: at once if the stream is closed (``contextlib.aclosing``),
        else when it is collected as garbage.

        Raises:
            As :meth:`arun`, after the events that came before.
        """
        request = self._request(task, answer=answer, images=images, instructions=instructions, dry_run=dry_run)
        async with contextlib.aclosing(self._events(request)) as events:
            async for event in events:
                yield event

    def resume(
        self, run_id: str, *, answer: Any = None, images: Images = (), reply: str | None = None, trust_run: bool = False
    ) -> Result[Any]:
        """Go on with a run that was cut off, with its own strategy. Calls that succeeded are answered from the journal.

        Args:
            run_id: the run, or the beginning of its name.
            answer: the type that the run was begun with, where it was a type of Python and not named by a text.
                Without it the value is held to that type's JSON Schema, and is JSON.
            images: the run's images that came as bytes, or whose files are missing. The others are read again.
            reply: the user's answer to the question of a run that ended as ``needs_input``.
            trust_run: import the strategy or type that its trace names, even if others could write to its folder.

        Raises:
            UsageError: there is no such run, it has ended with an answer, its strategy or an image cannot be had, it
                was begun with another ``answer``, or it has asked nothing that ``reply`` could answer.
            JournalError: its journal is damaged, or another process works on the run.
        """
        return wait_for(self.aresume(run_id, answer=answer, images=images, reply=reply, trust_run=trust_run))

    async def aresume(
        self, run_id: str, *, answer: Any = None, images: Images = (), reply: str | None = None, trust_run: bool = False
    ) -> Result[Any]:
        """:meth:`resume` for asynchronous code."""
        stored = await asyncio.to_thread(self.store.find, run_id)  # a trace may be long
        return await self._go_on(stored, answer=answer, images=images, reply=reply, trust_run=trust_run)

    def run_program(
        self, source: str, *, inputs: Mapping[str, Any] | None = None, run: str | None = None, dry_run: bool = False
    ) -> Result[Any]:
        """Check a program, run it in the sandbox over the agent's tools, and trace its failure. Blocks.

        The model is not asked: there need be none. ``status`` and ``fault`` are as of any run; of a program that the
        check refused, the last of ``revisions`` has the findings.

        Args:
            source: Python that calls tools by name and leaves its result in ``answer``.
            inputs: JSON values and bytes that stand in its scope, by name. A revision that gives none has those before.
            run: id of a run of such a program: this one is its revision, and what succeeded is not repeated.
            dry_run: calls with effects are planned, not made.

        Raises:
            UsageError: the program is empty or too long, an input cannot be used, or there is no such run.
            JournalError: the run's journal is damaged, or another process works on it.
            EnvironmentProblem: not the isolation that was asked for.
        """
        return wait_for(self.arun_program(source, inputs=inputs, run=run, dry_run=dry_run))

    async def arun_program(
        self, source: str, *, inputs: Mapping[str, Any] | None = None, run: str | None = None, dry_run: bool = False
    ) -> Result[Any]:
        """:meth:`run_program` for asynchronous code."""
        from atc.given_program import run_given  # the checker comes with it

        return (await run_given(self, source, inputs=inputs, revises=run, dry_run=dry_run)).result

    async def _go_on(
        self,
        stored: StoredRun,
        *,
        answer: Any = None,
        images: Images = (),
        reply: str | None = None,
        trust_run: bool = False,
        seconds: float | None = None,
        model: Model | None = None,
        listener: Listener | None = None,
    ) -> Result[Any]:
        """Resume this run; ``seconds`` that it has beside the settings', and the model it asks in place of its own."""
        given = self._given_strategy is not None
        started = await asyncio.to_thread(resumable, stored, trust_run=trust_run, strategy_given=given)
        strategy, name = resumed_strategy(stored.run_id, started, self._given_strategy)
        request = resumed_request(stored, started, answer, self._answer, images, reply)
        request = replace(request, seconds=seconds)
        return await self._begin(
            request, resumed=stored, strategy=strategy, opened_by=name, model=model, listener=listener
        )

    def close(self) -> None:
        """Close the model and the sandbox that this agent opened: their processes end. Otherwise done at exit."""
        wait_for(self.aclose())

    async def aclose(self) -> None:
        """:meth:`close` for asynchronous code."""
        try:
            await self._held.aclose()
        finally:
            await asyncio.to_thread(self.store.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    # -- one run ------------------------------------------------------------------------------------------------------

    def _request(
        self,
        task: str,
        *,
        answer: Any = None,
        images: Images = (),
        instructions: str | None = None,
        source: str | None = None,
        turn: Upcoming | None = None,
        dry_run: bool = False,
    ) -> Request:
        """The request of a run; ``turn`` is its place in a conversation.

        Raises:
            UsageError: a part of it cannot be used.
        """
        wanted = open_answer(answer) if answer is not None else self._answer
        frame = framed(self.settings.instructions if instructions is None else instructions, turn)
        if not isinstance(dry_run, bool):
            raise UsageError(f"dry_run is True or False, not {dry_run!r}")  # a word such as "no" would be true
        return Request(checked_task(task), wanted, read_images(images), frame, source, turn, dry_run=dry_run)

    def _events(self, request: Request) -> AsyncGenerator[Event]:
        """Begin a run and yield its events. Closed early, it stops the run."""
        return streamed(lambda listener: self._begin(request, listener=listener))

    async def _begin(
        self,
        request: Request,
        *,
        resumed: StoredRun | None = None,
        strategy: Strategy | None = None,
        opened_by: str | None = None,
        listener: Listener | None = None,
        run_id: str = "",
        model: Model | None = None,
    ) -> Result:
        task, frame, turn = request.task, request.frame, request.turn
        known = resumed if resumed is not None else turn
        run_id = known.run_id if known is not None else run_id or new_run_id()
        if len(self.tools) <= self.settings.max_tools:
            check_schemas(self.tools)  # all are offered: a wrong one is found before a run begins
        stored = resumed or (self.store.run(run_id) if self.settings.keep_runs else None)
        telemetry = self._telemetry
        redactor = Redactor([*self.settings.secrets, *(telemetry.secrets if telemetry is not None else ())])
        if stored is not None:
            await asyncio.to_thread(self.store.check)  # one that is down refuses before anything runs
        async with AsyncExitStack() as stack:
            observed = stack.enter_context(telemetry.run(self.tools, redactor)) if telemetry is not None else None
            model = model or self._held.model()
            model.check_images([Message("user", task, images=request.images)])
            budget = limits_of(self.settings, model)
            model.prepare()
            if stored is not None:
                await asyncio.to_thread(stored.make)
                stack.push_async_callback(self._prune)  # last, at the run's end
            if turn is not None:
                journal = turn.open_journal(stored)
            elif stored is not None:
                journal = await opened_journal(stored, resumed=resumed is not None)
            else:
                journal = Journal()
            stack.callback(journal.close)
            trace = stored.open_trace() if stored is not None else NoTrace()
            stack.callback(trace.close)
            heard = None if observed is None else observed.heard
            emit = emitter(trace, redactor, heard, self._on_event, listener)
            session = Session(task, run_id, stored, budget, emit)
            broker = session.broker = Broker(
                tools=Toolset(),
                journal=journal,
                emit=emit,
                policy=self._policy,
                approval=self._approval.of_run(run_id),
                redactor=redactor,
                task=frame.words_with(task),
                keep_traceback=stored.keep_traceback if stored else None,
                rules=self.settings.active_rules,
                dry_run=request.dry_run,
                repairer=session.repaired,
                alike=session.alike,
                feeds_of=session.feeds_of,
            )
            if strategy is None:
                strategy, opened_by = self._strategy, None if self._given_strategy else self.settings.strategy
            if turn is not None:
                turn.begin(broker, self.tools)
            ask_user = self._asked_in(request)
            asked = settings_of(self.settings, self._approval.approve, ask_user)
            about = started(run_id, model, (strategy.name, opened_by), len(self.tools), asked)
            emit("run_started", about | request.for_trace())
            try:
                context = session.context = RunContext(
                    task,
                    request.settings(self.settings),
                    BudgetedModel(model if observed is None else observed.model(model), budget),
                    broker,
                    self._held.sandbox(),
                    self.catalogue,
                    emit,
                    stack,
                    answer_type=request.answer,
                    images=request.images,
                    frame=request.frame,
                    questions=None
                    if ask_user == "never"
                    else Questions(answerer_of(ask_user), broker, emit, request.given),
                )
                result = await session.acted(context, strategy, resumed)
            except BaseException as error:
                self._learn(session.end_with_error(error), request, broker)
                raise
            if turn is not None:
                turn.result = result
            session.end(result)
            self._learn(result, request, broker)
            return result

    async def _prune(self) -> None:
        kept, days = self.settings.runs_kept, self.settings.runs_kept_days
        await asyncio.to_thread(prune, self.store, kept, days=days, at_most=DELETED_AT_ONCE)

    def _learn(self, result: Result | None, request: Request, broker: Broker) -> None:
        """Hand a run that has ended to the catalogue, which learns from it in a thread of its own; of a dry run,
        nothing: what its calls would have answered nobody knows."""
        if result is not None and self.settings.learns and not request.dry_run:
            self.catalogue.learn_soon(result, request.frame.number, warned=bool(broker.warnings))

    def _asked_in(self, request: Request) -> AskUser:
        """Who answers what the programs of a run ask."""
        choice = request.ask_user if request.ask_user is not None and self._ask_user == "never" else self._ask_user
        return "never" if ASK_USER in self.tools else choice
