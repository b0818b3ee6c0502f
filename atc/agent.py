"""The agent: a task and tools in, a result out. How it acts is its strategy's (:mod:`atc.run.base`)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

from atc._host.blocking import each_of, in_thread, wait_for
from atc._host.loading import refuse_within_import
from atc._host.redaction import Redactor
from atc._records.events import Event
from atc._records.records import PendingCall, SettledCall, UndoneRun
from atc.calls.approval import Approval, Approve
from atc.calls.broker import Broker, CallPolicy, check_schemas
from atc.calls.permissions import agent_permissions
from atc.calls.question import AskUser, answerer_of, checked_ask_user
from atc.catalogue.catalogue import Catalogue
from atc.catalogue.index.retriever import Retriever
from atc.catalogue.sketch import FEW
from atc.errors import UsageError
from atc.models.base import Message, Model
from atc.models.budget import BudgetedModel
from atc.models.images import Images
from atc.result import Result, T
from atc.run.ask_user import NAME as ASK_USER
from atc.run.ask_user import Questions
from atc.run.base import GIVEN, Strategy, open_strategy, resumed_strategy
from atc.run.request import (
    Request,
    RunOptions,
    check_rules,
    records_of,
    refuse_undone,
    request_of,
    resumable,
    resumed_request,
    settings_of,
    started,
    traceback_keeper,
)
from atc.run.resources import Resources, catalogue_of, limits_of
from atc.run.run import Run
from atc.run.solving import end, end_with_error, solved
from atc.sandboxes.contract import Sandbox
from atc.schemas.names import RESERVED_NAMES
from atc.settings import Settings
from atc.tools.tool import Tool, Toolset
from atc.traces.emitter import Listener, emitter, streamed, with_copies
from atc.traces.stores import open_store
from atc.traces.stores.base import DELETED_AT_ONCE, StoredRun, new_run_id, prune
from atc.traces.telemetry.seam import open_telemetry

if TYPE_CHECKING:
    from atc.batch.batch import MapOptions
    from atc.batch.book import TaskResult
    from atc.calls.journal import Journal
    from atc.calls.parking import Elsewhere
    from atc.calls.permissions import Permissions
    from atc.programs.answers.types import AnswerType
    from atc.run.author import Past
    from atc.run.conversation import Conversation, Upcoming
    from atc.run.keeping import KeepOptions


class Agent:
    """Solves tasks with tools.

    Args:
        tools: a toolset; or Python functions, and tools of toolsets, one by one. Not needed beside a catalogue.
        model: a model, or how to open one (see :func:`atc.models.open_model`); by default what the settings say, else
            the embedded model.
        approve: decides about every call that is not a read: ``"ask"`` (the user, at the terminal), ``"never"``,
            ``"always"``, or a function; by default what the settings say, else ``"ask"`` on a terminal and ``"never"``
            elsewhere.
        ask_user: lets programs ask the user: a function that takes a question and returns the answer (``None``: none),
            sync or async; or ``"ask"`` (at the terminal, else as ``"stop"``), ``"stop"`` (the run ends as
            ``needs_input`` and is resumed with the answer) or ``"never"``; by default what the settings say, else
            ``"never"``.
        strategy: how it solves tasks: a strategy, or the name of one (:func:`atc.run.base.open_strategy`); by
            default what the settings say, else ``"chain"``.
        retriever: puts the tools in order if not all are shown whole; by default an index of them, as the settings
            say.
        catalogue: a catalogue of the tools that other agents share; or a folder, as in the setting ``catalogue``. By
            default the agent makes one.
        sandbox: where programs run: a sandbox, which you close yourself; or a text, as in the setting ``sandbox``.
        policy: the broker's limits; by default from the settings.
        permissions: rules that say what may be called unasked (:class:`atc.calls.permissions.Permissions`), or a file
        of
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
        if self._approval.parks and not self.settings.keep_runs:
            raise UsageError("approve='park' lets a run wait in the store: it needs keep_runs")
        self._chose_approval = approve is not None or self.settings.approve is not None
        self._ask_user = checked_ask_user(ask_user, self.settings.ask_user)
        if self._ask_user != "never" and ASK_USER in self.tools:
            raise UsageError(
                f"a tool is named {ASK_USER!r}, by which programs ask the user: rename it, or set ask_user='never'"
            )
        self._given_strategy = strategy
        self._strategy = strategy or open_strategy(self.settings.strategy)  # now, so that a wrong name is found now
        wanted = self.settings.answer if answer is None else answer
        self._answer = None if wanted is None else _type_of(wanted)
        self._resources = Resources(self.settings, model, sandbox)
        self._on_event = None if on_event is None else with_copies(on_event)
        self._policy = policy or CallPolicy(
            max_calls=self.settings.max_calls,
            call_timeout_s=self.settings.call_timeout_s,
        )
        self.store = open_store(self.settings)
        self.past: Past | None = None
        """What the author of its programs has seen in earlier runs, where that is known: of an MCP session."""
        self._telemetry = open_telemetry(self.settings)

    @overload
    def run(self, task: str, *, answer: type[T], **options: Unpack[RunOptions]) -> Result[T]: ...
    @overload
    def run(self, task: str, *, answer: Any = None, **options: Unpack[RunOptions]) -> Result[Any]: ...
    def run(self, task: str, *, answer: Any = None, **options: Unpack[RunOptions]) -> Result[Any]:
        """Solve a task and return the result; a failed run has a result too. Blocks; see :meth:`arun`.

        Args:
            task: what is wanted, in plain words.
            answer: the type of the value, as for :class:`Agent`; by default the agent's.
            options: ``images``, ``instructions``, ``dry_run`` and ``source`` (:class:`atc.run.request.RunOptions`).

        Raises:
            UsageError: the task is empty or far too long, an image cannot be read, the model takes none, or ``answer``
                cannot be the type of an answer.
            EnvironmentProblem: no model, or not the isolation that was asked for.
        """
        return wait_for(self.arun(task, answer=answer, **options))

    @overload
    async def arun(self, task: str, *, answer: type[T], **options: Unpack[RunOptions]) -> Result[T]: ...
    @overload
    async def arun(self, task: str, *, answer: Any = None, **options: Unpack[RunOptions]) -> Result[Any]: ...
    async def arun(self, task: str, *, answer: Any = None, **options: Unpack[RunOptions]) -> Result[Any]:
        """:meth:`run` for asynchronous code."""
        return await self._begin(self._request(task, answer=answer, **options))

    def conversation(self) -> Conversation:
        """Begin a conversation: tasks that may each refer to earlier ones
        (:class:`atc.run.conversation.Conversation`)."""
        from atc.run.conversation import Conversation

        return Conversation(self)

    async def stream(self, task: str, *, answer: Any = None, **options: Unpack[RunOptions]) -> AsyncIterator[Event]:
        """Solve a task and yield every event as it happens; the last is ``run_ended`` with the result.

        Args:
            task: what is wanted, in plain words.
            answer: as for :meth:`run`. Events hold its JSON form.
            options: as for :meth:`run`.

        If you stop reading before the end, the run stops: at once if the stream is closed (``contextlib.aclosing``),
        else when it is collected as garbage.

        Raises:
            As :meth:`arun`, after the events that came before.
        """
        async with contextlib.aclosing(self._events(self._request(task, answer=answer, **options))) as events:
            async for event in events:
                yield event

    def map(self, tasks: Iterable[Any], **options: Unpack[MapOptions]) -> Iterator[TaskResult]:
        """Solve many tasks and yield their results, in the order of the tasks. Blocks for each; see :meth:`amap`.

        ``for result in agent.map(["…", "…"]): print(result.id, result.status, result.value)``

        A task's failure is its result. If you stop reading, or are interrupted, the runs under way are stopped. An
        embedded model is one process: tasks at a time wait for it in a queue.

        Args:
            tasks: texts; or mappings with ``task`` and, where wanted, ``id``, ``answer``, ``images`` and
                ``instructions`` (:class:`atc.batch.tasks.BatchTask`). All are looked at before any is begun.
            concurrency: how many at a time; by default 4.
            ordered: yield them in the order of the tasks, as by default; else as they end.
            limits: budgets over all tasks (:class:`atc.batch.limits.Limits`). What goes past them is not begun;
                runs under way are ended by them. ``over`` of a result says so.
            results: a file that gets a line a task; given again, what has ended is not done again, and what was cut off
                goes on, with nothing done twice.
            retry: go on also with tasks in that file that ended without an answer.
            on: where: ``"ray"``, ``"ray:ADDRESS"`` or an executor; by default here.
            source: is noted in the traces: where the tools are, for a resume of one run by itself.

        Raises:
            UsageError: some tasks are wrong, which the message names by their numbers; or another process has the file.
            EnvironmentProblem: something is missing that every task needs, such as a model. What ran is stopped.
        """
        return each_of(self.amap(tasks, **options))

    def amap(self, tasks: Iterable[Any], **options: Unpack[MapOptions]) -> AsyncGenerator[TaskResult]:
        """:meth:`map` for asynchronous code: ``async for result in agent.amap(tasks): …``

        Raises:
            As :meth:`map`; what is wrong with the tasks at once.
        """
        from atc.batch.batch import run_batch  # all of it comes with it

        return run_batch(self, tasks, **options)

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
        stored = await in_thread(self.store.find, run_id)  # a trace may be long
        return await self._go_on(stored, answer=answer, images=images, reply=reply, trust_run=trust_run)

    def approve(
        self,
        run_id: str,
        *,
        calls: Sequence[int] | None = None,
        deny: bool = False,
        by: str | None = None,
        key: str | None = None,
    ) -> tuple[PendingCall, ...]:
        """Say yes to calls of a run that ended as ``waiting``; :meth:`resume` then continues it.

        A yes is for one exact call: of this tool, with these arguments.

        Args:
            run_id: the run, or the beginning of its name.
            calls: the numbers of the calls (``Result.pending``); ``None``: all that wait.
            deny: say no.
            by: who decides, for the record; by default the user of this process.
            key: of an approver, where the permissions name some: ``by`` is that approver then. By default the key of
                the settings (``ATC_APPROVER_KEY``).

        Returns:
            The calls that were decided about.

        Raises:
            UsageError: there is no such run, or a call of it does not wait, was decided before, or waited too long; or
                the permissions name approvers, and this is none of them.
            JournalError: the decision cannot be written down, or another process works on the run.
        """
        from atc.run.approvals import decide, decider_of

        decider = decider_of(by=by, key=key, permissions=self.permissions, settings=self.settings)
        return decide(self.store.find(run_id), calls, yes=not deny, decider=decider)

    def settle(
        self, run_id: str, *, calls: Sequence[int] | None = None, done: bool | None = None, by: str | None = None
    ) -> tuple[SettledCall, ...]:
        """Find out whether calls in doubt of a run were done, by the reads that the permissions name for them.

        Nothing is sent again: :meth:`resume` goes on with the run.

        Args:
            run_id: the run, or the beginning of its name.
            calls: the numbers of the calls (``Result.in_doubt``); ``None``: all that are in doubt.
            done: takes the word of a person in place of a read: the ``calls`` were done, or they were not.
            by: who says so, for the record; by default the user of this process.

        Returns:
            What came of each: ``done``, ``not_done``, or ``in_doubt`` still, and why.

        Raises:
            UsageError: there is no such run, a call of it is not in doubt, or ``done`` is given without ``calls``.
            JournalError: its journal is damaged, or another process works on the run.
        """
        return wait_for(self.asettle(run_id, calls=calls, done=done, by=by))

    async def asettle(
        self, run_id: str, *, calls: Sequence[int] | None = None, done: bool | None = None, by: str | None = None
    ) -> tuple[SettledCall, ...]:
        """:meth:`settle` for asynchronous code."""
        from atc.run.settling import settle_by_hand, settle_run

        if done is None:
            return await settle_run(self, run_id, calls)
        stored = await in_thread(self.store.find, run_id)
        return await in_thread(settle_by_hand, stored, calls, done=done, by=by)

    def undo(self, run_id: str, *, dry_run: bool = False) -> UndoneRun:
        """Undo what a run did, by the inverses that the permissions or ``@tool(undo=…)`` name, the newest first.

        Each inverse is a call with effects, which ``approve`` decides about. A run of its own makes them.

        Args:
            run_id: the run, or the beginning of its name.
            dry_run: make none, and return what would be made.

        Returns:
            What became of each call with effects; also of those that have no inverse, are in doubt, or were undone.

        Raises:
            UsageError: there is no such run, or calls of this agent wait for approval.
            JournalError: its journal is damaged, or another process works on the run.
            EnvironmentProblem: something is missing that every run needs.
        """
        return wait_for(self.aundo(run_id, dry_run=dry_run))

    async def aundo(self, run_id: str, *, dry_run: bool = False) -> UndoneRun:
        """:meth:`undo` for asynchronous code."""
        from atc.run.undoing import undo_run

        return await undo_run(self, run_id, dry_run=dry_run)

    def run_program(
        self,
        source: str | None = None,
        *,
        inputs: Mapping[str, Any] | None = None,
        run: str | None = None,
        dry_run: bool = False,
    ) -> Result[Any]:
        """Check a program, run it in the sandbox over the agent's tools, and trace its failure. Blocks.

        The model is not asked: there need be none. ``status`` and ``fault`` are as of any run; of a program that the
        check refused, the last of ``revisions`` has the findings.

        Args:
            source: Python that calls tools by name and leaves its result in ``answer``; with ``run`` it may be left
                out: then the run's last program runs again, with what was approved meanwhile.
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
        self,
        source: str | None = None,
        *,
        inputs: Mapping[str, Any] | None = None,
        run: str | None = None,
        dry_run: bool = False,
    ) -> Result[Any]:
        """:meth:`run_program` for asynchronous code."""
        from atc.run.given_program import run_given  # the checker comes with it

        return (await run_given(self, source, inputs=inputs, by_user=True, revises=run, dry_run=dry_run)).result

    def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, /, *, dry_run: bool = False, **named: Any
    ) -> Result[Any]:
        """Call one tool, or one kept program, without a model. Blocks. ``agent.call("get_weather", city="Bergen")``

        It is a run as any other: approved, journalled, resumable. ``value`` is what the tool returned.

        Args:
            name: of the tool, as programs call it.
            arguments: by the parameters' names, where one of these is no name of Python's, or is ``dry_run``.
            dry_run: calls with effects are planned, not made.
            named: the arguments, by name.

        Raises:
            UsageError: there is no such tool, or an argument is missing, unknown, or not what the tool's schema says.
            EnvironmentProblem: not the isolation that was asked for.
        """
        return wait_for(self.acall(name, arguments, dry_run=dry_run, **named))

    async def acall(
        self, name: str, arguments: Mapping[str, Any] | None = None, /, *, dry_run: bool = False, **named: Any
    ) -> Result[Any]:
        """:meth:`call` for asynchronous code."""
        from atc.run.calling import call_tool  # the checker comes with it

        return (await call_tool(self, name, {**(arguments or {}), **named}, dry_run=dry_run)).result

    def apply(self, run_id: str, *, by: str | None = None, key: str | None = None) -> Result[Any]:
        """Make what a dry run planned, and nothing else: to call this is the yes to all of it. Blocks.

        The same program runs for real, in the same run, and reads anew. A write that is not the next planned one, with
        its arguments, ends the run before it (``denied``; ``fault.difference``). No model is asked.

        Args:
            run_id: the dry run, or the beginning of its name.
            by: who says yes, for the record; by default the user of this process.
            key: of an approver, where the permissions name some, as for :meth:`approve`.

        Raises:
            UsageError: there is no such run, it planned nothing, its plan was applied before, or is too old; or the
                permissions name approvers, and this is none of them.
            JournalError: its journal is damaged, or another process works on the run.
            EnvironmentProblem: not the isolation that was asked for.
        """
        return wait_for(self.aapply(run_id, by=by, key=key))

    async def aapply(self, run_id: str, *, by: str | None = None, key: str | None = None) -> Result[Any]:
        """:meth:`apply` for asynchronous code."""
        from atc.run.apply import apply_plan  # most runs apply no plan

        return await apply_plan(self, await in_thread(self.store.find, run_id), by=by, key=key)

    def keep(self, run_id: str, name: str, **options: Unpack[KeepOptions]) -> Tool:
        """Keep the program of a run that answered as a tool, which :meth:`call` calls without a model.

        Values of the task become parameters. The program is tried on the calls that were recorded: with the run's own
        values it must give the run's answer again.

        Args:
            run_id: the run, or the beginning of its name; ``"last"``.
            name: of the tool.
            parameters: changes of those that are proposed, by their names: another name, or fields of its JSON Schema
                (``description``, ``enum`` …; ``name``, too).
            lift: values of the program, or names of constants, that become parameters as well.
            constants: names of parameters that stay as they were in the run.
            about: what the tool does, in one sentence; by default made of the task's words.
            into: the folder of its file; by default that of the data folder. Elsewhere it needs `atc trust`.
            confirm: is asked, with the proposal, where a yes is needed: for a value that came from a call, a run with a
                warning, a program whose author had seen text of strangers. ``True`` is the yes.
            replace: a kept program of that name is replaced.

        Raises:
            UsageError: there is no such run, its program cannot be a tool (the message says where and why), a yes is
                needed and was not given, or a tool of that name is there.
            EnvironmentProblem: not the isolation that was asked for, or the file cannot be written.
        """
        return wait_for(self.akeep(run_id, name, **options))

    async def akeep(self, run_id: str, name: str, **options: Unpack[KeepOptions]) -> Tool:
        """:meth:`keep` for asynchronous code."""
        from atc.run.keeping import keep_run  # most runs are not kept

        return await keep_run(self, await in_thread(self.store.find, run_id), name, **options)

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
        turn: Upcoming | None = None,
    ) -> Result[Any]:
        """``seconds``: those that it has beside the settings'. ``turn``: its place in a conversation that is open."""
        if ((await in_thread(stored.last, "run_started")) or {}).get("applies"):
            from atc.run.apply import apply_plan

            return await apply_plan(self, stored, resumed=True, reply=reply, listener=listener)
        given = self._given_strategy is not None
        started = await in_thread(resumable, stored, trust_run=trust_run, strategy_given=given)
        if started.get("strategy") == GIVEN and not given:
            from atc.run.calling import with_kept_again
            from atc.run.given_program import run_given  # the checker comes with it

            agent, dry_run = await with_kept_again(self, stored, trust_run=trust_run), bool(started.get("dry_run"))
            return (await run_given(agent, None, revises=stored.run_id, dry_run=dry_run, listener=listener)).result
        strategy, name = resumed_strategy(stored.run_id, started, self._given_strategy)
        request = await in_thread(resumed_request, stored, started, answer, self._answer, images, reply)
        request = replace(request, seconds=seconds, turn=turn)
        return await self._begin(
            request, resumed=stored, strategy=strategy, opened_by=name, model=model, listener=listener
        )

    def close(self) -> None:
        """Close the model and the sandbox that this agent opened: their processes end. Otherwise done at exit."""
        wait_for(self.aclose())

    async def aclose(self) -> None:
        """:meth:`close` for asynchronous code."""
        try:
            await self._resources.aclose()
        finally:
            await in_thread(self.store.close)

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
        self, task: str, *, answer: Any = None, turn: Upcoming | None = None, **options: Unpack[RunOptions]
    ) -> Request:
        wanted = self._answer if answer is None else _type_of(answer)
        return request_of(task, wanted, turn, self.settings.instructions, **options)

    def _events(self, request: Request) -> AsyncGenerator[Event]:
        """Begin a run and yield its events. Closed early, it stops the run."""
        return streamed(lambda listener: self._begin(request, listener=with_copies(listener)))

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
        """``opened_by``: the name that opens ``strategy`` for a resume. ``model``: asked in place of the agent's."""
        refuse_within_import()
        if len(self.tools) <= FEW:
            check_schemas(self.tools)  # all are offered: a wrong one is found before a run begins
        if strategy is None:
            strategy, opened_by = self._strategy, None if self._given_strategy else self.settings.strategy
        ask_user = self._asked_in(request)
        async with AsyncExitStack() as stack:
            run = await self._opened(stack, request, run_id, resumed, model, listener, ask_user)
            asked = settings_of(self.settings, run.broker.approval.approve, ask_user)
            about = started(run.run_id, run.model, (strategy.name, opened_by), len(self.tools), asked)
            run.emit("run_started", about | request.for_trace())
            if run.stored is not None:  # old runs go while the model writes
                stack.push_async_callback(asyncio.wait, [asyncio.create_task(self._prune(run.broker.journal))])
            try:
                if resumed is not None:
                    await in_thread(run.with_author().restore, resumed)
                    await in_thread(run.kept.restore, resumed)
                    await self._settle(run, resumed)
                result = await solved(run, strategy, resumed)
            except BaseException as error:
                self._learn(run, request, end_with_error(run, error))
                raise
            finally:
                if run.author is not None:
                    run.author.ends()
            if request.turn is not None:
                request.turn.result, request.turn.answer_origins = result, run.origins.answer(result.json_value)
            end(run, result)
        self._learn(run, request, result)
        if result.status == "waiting" and run.stored is not None and self.settings.approval_url is not None:
            from atc.run import approval_url  # once the journal is free, for the answer may decide

            await approval_url.ask(run.stored, self.settings, self._approval)
        return result

    async def _opened(
        self,
        stack: AsyncExitStack,
        request: Request,
        run_id: str,
        resumed: StoredRun | None,
        model: Model | None,
        listener: Listener | None,
        ask_user: AskUser,
    ) -> Run:
        """The stack closes what is opened. Raises AtcError where a part cannot be had; nothing has begun then."""
        turn = request.turn
        known = resumed if resumed is not None else turn
        run_id = known.run_id if known is not None else run_id or new_run_id()
        stored = resumed or (self.store.run(run_id) if self.settings.keep_runs else None)
        if resumed is not None and self._approval.policy is None:
            await in_thread(check_rules, resumed)
        telemetry = self._telemetry
        redactor = Redactor([*self.settings.secrets, *(telemetry.secrets if telemetry is not None else ())])
        observed = stack.enter_context(telemetry.run(self.tools, redactor)) if telemetry is not None else None
        model = model or self._resources.model()
        model.check_images([Message("user", request.task, images=request.images)])
        budget = limits_of(self.settings, model)
        journal, trace = await records_of(request, self.store, stored, resumed=resumed is not None)
        stack.push_async_callback(journal.aclose)
        stack.callback(trace.close)
        model.prepare()
        if resumed is not None:
            refuse_undone(journal, run_id)
            journal.go_on_waiting(time.time(), self.settings.reuse_reads_s)
        applying = None if request.begin_apply is None else request.begin_apply(journal, redactor)
        emit = emitter(trace, redactor, None if observed is None else observed.heard, self._on_event, listener)
        approval = self._approval_in(request).of_run(run_id)
        run: Run  # it is made with the broker, which asks it about the calls that a program makes
        broker = Broker(
            tools=Toolset(),
            journal=journal,
            emit=emit,
            policy=self._policy,
            approval=approval,
            redactor=redactor,
            task=request.preamble.words_with(request.task),
            keep_traceback=traceback_keeper(stored, journal),
            rules=self.settings.active_rules,
            dry_run=request.dry_run,
            alike=lambda tool, by: run.recovery.alike(tool, by),
            feeds_of=lambda call: run.feeds_of(call),
            elsewhere=self._waits_elsewhere(approval, stored),
            applying=applying,
        )
        if turn is not None:
            turn.begin(broker, self.tools)

        def asked(inner: Model) -> Model:
            seen = inner if observed is None else observed.model(inner)
            return BudgetedModel(seen, budget, self.settings.prices.get(inner.name))

        asks = ask_user != "never"
        run = Run(
            task=request.task,
            run_id=run_id,
            settings=request.settings(self.settings),
            model=asked(model),
            budget=budget,
            broker=broker,
            resources=self._resources,
            catalogue=self.catalogue,
            emit=emit,
            stack=stack,
            stored=stored,
            answer_type=request.answer,
            images=request.images,
            preamble=request.preamble,
            questions=Questions(answerer_of(ask_user), broker, emit, request.given) if asks else None,
            past=self.past if turn is None else turn.past,
        )
        return run

    async def _settle(self, run: Run, resumed: StoredRun) -> None:
        journal = run.broker.journal
        if self._approval.policy is None or journal.in_doubt() is None:
            return
        from atc.run.settling import settle_resumed  # few runs have a call in doubt

        await settle_resumed(self, journal, resumed, run.emit)

    async def _prune(self, journal: Journal) -> None:
        """One at a time in a store, for one that stands would keep the thread of each."""
        await journal.written()  # the run counts, so its trace must be there
        kept, days, where = self.settings.runs_kept, self.settings.runs_kept_days, self.store.where
        if where not in _PRUNING:
            _PRUNING.add(where)
            pruning = asyncio.get_running_loop().run_in_executor(
                None, partial(prune, self.store, kept, days=days, at_most=DELETED_AT_ONCE)
            )
            pruning.add_done_callback(lambda _: _PRUNING.discard(where))
            await pruning

    def _learn(self, run: Run, request: Request, result: Result | None) -> None:
        """Nothing is learnt from a dry run: what its calls would have answered is not known."""
        waits = result is not None and result.status == "waiting"
        if result is not None and self.settings.learns and not request.dry_run and not waits:
            self.catalogue.learn_soon(result, request.preamble.number, warned=bool(run.broker.warnings))

    def _approval_in(self, request: Request) -> Approval:
        """A resumed run whose calls waited goes on so, where nobody can be asked. Where a plan is applied, and in a
        conversation in memory, nothing waits: what no yes holds for is refused."""
        in_memory = request.turn is not None and not self.settings.keep_runs
        if in_memory or request.begin_apply is not None:
            return replace(self._approval, can_wait=False)
        if not request.parks or self._chose_approval or self._approval.approve != "never":
            return self._approval
        return agent_permissions.approval_of(self.permissions, "park", self.settings)

    def _waits_elsewhere(self, approval: Approval, stored: StoredRun | None) -> Elsewhere | None:
        """Return what finds an equal call that waits in another run; not where other principals have runs here, too."""
        if not approval.may_park or stored is None or approval.earlier is not None:
            return None
        from atc.run.waiting_elsewhere import WaitingElsewhere  # most runs do not wait

        return WaitingElsewhere(self.store, stored.run_id).find

    def _asked_in(self, request: Request) -> AskUser:
        choice = request.ask_user if request.ask_user is not None and self._ask_user == "never" else self._ask_user
        return "never" if ASK_USER in self.tools else choice


_PRUNING: set[str] = set()
"""The stores of this process of which old runs are being deleted."""


def _type_of(answer: Any) -> AnswerType:
    from atc.programs.answers.opening import open_answer  # most runs ask for no type

    return open_answer(answer)
