"""One run: its task, tools, model and sandbox, its budget, and the record of what is done with them.

Everything that a strategy does to the world goes through here: the model is asked within the run's budget, programs run
in the jail, and calls pass the broker's gates, its journal and the user's approval. The trace has all of it.
"""

from __future__ import annotations

import ast
import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from atc._host.blocking import in_thread
from atc._records.events import Emit, ProgramStarted
from atc._records.origins import TASK, CallOrigins, OriginKind, Origins
from atc._records.outcome import Outcome
from atc._records.packing import pack
from atc._records.records import Feed, Misfit, ProbedRead
from atc.calls.argument_repairs import bounded_key_aliases, read_key_aliases
from atc.calls.broker import Broker
from atc.calls.contract import CallHandler, CallReply, CallRequest
from atc.calls.entry import CallKey
from atc.calls.json_values import to_json_value
from atc.calls.pages import Pages
from atc.calls.sending import NOT_MADE, held_back
from atc.catalogue.catalogue import Catalogue, Report
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.catalogue.sketch import FEW, Sketch, SketchFacts, chosen_event, room_of
from atc.errors import CallRefused, UsageError, WritesPlanned
from atc.facts import Finding
from atc.models.base import Message, Model, Reply
from atc.models.budget import Budget
from atc.models.images import Image
from atc.programs.program import Program
from atc.result import Call, Revision
from atc.run.ask_user import Questions
from atc.run.asking import ask, task_message, type_note
from atc.run.kept_programs import KeptPrograms
from atc.run.look import Look
from atc.run.preamble import Preamble
from atc.run.recording import recorded_tools
from atc.run.recover import Recovery
from atc.run.resources import Resources
from atc.run.tools_before import tools_before
from atc.sandboxes.contract import Job, Sandbox
from atc.sandboxes.drivers import limits_from
from atc.sandboxes.inputs import check_names
from atc.schemas.protocol import Protocol
from atc.settings import Settings
from atc.tools.tool import Tool, Toolset, signatures
from atc.traces.stores.base import StoredRun

if TYPE_CHECKING:
    from atc.programs.answers.types import AnswerType
    from atc.programs.feeds import Feeds
    from atc.programs.linking import Linked
    from atc.run.author import Author, Past
    from atc.run.origins import RunOrigins

MAX_OUTPUT = 20_000
"""Characters of what a program prints that the trace keeps: the last of them."""
REPORT_S = 2.0
"""Seconds from one report of an index that is being made to the next."""


InputOrigins = Callable[[], Mapping[str, Origins]]
"""Returns the origins of the variables that a program is given; it is asked once, if at all."""


class BegunProgram(NamedTuple):
    """A program as it began (:class:`atc.run.origins.FollowedProgram`)."""

    source: str
    tools: Mapping[str, Protocol]
    inputs: InputOrigins
    names: Sequence[str]
    task: str
    text: OriginKind
    hoisted: int = 0


@dataclass(kw_only=True)
class Run:
    """One run, from its beginning to its result. It is what a strategy works with.

    Attributes:
        task: what the user wants. ``title``: names the run in its result, also where a strategy clears the task.
        run_id: its name among the runs. ``stored``: where it is kept; ``None`` if it is not.
        model: held to the budget.
        budget: what the run may use of the model, and what it has used.
        broker: makes the calls. ``emit``: writes an event into the trace.
        resources: the model and the sandbox that its agent holds from run to run.
        catalogue: the tools of the agent, and what is known about them. ``tools``: those that are offered now.
        stack: closes at the end of the run what was opened for it.
        began: when, by :func:`time.perf_counter`.
        sketch: what was chosen for the task, and why (:class:`atc.catalogue.sketch.Sketch`).
        revisions: every program so far and how it went, in order.
        isolation: driver and tier of the sandbox that the last program ran in; empty before.
        said: what that program says of its answer, in its own words; empty where it says nothing.
        unresolved: by the journal's number of a program that ran: what the check warned about, and no run settles.
        images: that the user shows with the task (:meth:`task_message`).
        preamble: the user's standing instructions, and the earlier tasks of a conversation; a prompt shows them apart.
        answer_type: the type that the answer shall have; ``None`` where none was asked for.
        recovery: what is done about tools that break.
        questions: answers ``ask_user``, which is then offered beside all tools; ``None``: programs cannot ask.
        look: answers ``look``, and ends the programs that call it; ``None``: programs cannot look.
        text: what the literals of its programs are: ``author`` where a client's model wrote them.
        gone: tools that a run that goes on had before, and that are not there any more.
        probed: the reads that were made to see what tools answer, before the first program.
        past: what the author of its programs has seen and written in earlier runs; ``None``: nothing.
        author: knows what that author had seen before each program; ``None`` as long as strangers write nothing of what
            it may see.
    """

    task: str
    run_id: str
    settings: Settings
    model: Model
    budget: Budget
    broker: Broker
    resources: Resources
    catalogue: Catalogue
    emit: Emit
    stack: AsyncExitStack
    stored: StoredRun | None = None
    title: str = field(init=False)
    began: float = field(default_factory=time.perf_counter)
    tools: Toolset = field(default_factory=Toolset)
    sketch: Sketch = field(default_factory=lambda: Sketch(Toolset()))
    revisions: list[Revision] = field(default_factory=list)
    isolation: str = ""
    said: str = ""
    unresolved: dict[int, tuple[Finding, ...]] = field(default_factory=dict)
    images: tuple[Image, ...] = ()
    preamble: Preamble = field(default_factory=Preamble)
    answer_type: AnswerType | None = None
    questions: Questions | None = None
    look: Look | None = None
    gone: tuple[str, ...] = ()
    text: OriginKind = "literal"
    past: Past | None = None
    probed: list[ProbedRead] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.title = self.task
        self.broker.know(self.catalogue.tools)
        self._pages = Pages(self.broker)
        self.recovery = Recovery(self)
        self._open: set[str] = set()
        self._requests = count(1)
        self._called = False
        """Whether a call without a program succeeded since the last stage began."""
        self._grouped = False
        self._acting = asyncio.Lock()
        self._graph: tuple[Toolset, ToolGraph] | None = None
        self._program: Program | None = None
        """The program that runs, joined with what it calls; ``None`` where calls are made without one."""
        self.kept = KeptPrograms(self)
        """Joins the programs of the run with the kept programs that they call."""
        self._feeds: Feeds | None = None
        self.begun: dict[tuple[int, int], BegunProgram] = {}
        """The programs that ran, by the numbers of the stage and the program."""
        self._input_origins: InputOrigins | None = None
        self.last_answer: Any = None
        """What the program that ran last set as its answer."""
        self.printed = ""
        """What it wrote to its output and its error output: the last of each, credentials masked."""
        self.author: Author | None = None if self.past is None else self.with_author()
        self.broker.follow(
            lambda: self.origins,
            lambda: self.author is not None and self.author.saw_any,
            lambda: () if self.past is None else self.past.saw,
        )

    @cached_property
    def origins(self) -> RunOrigins:
        """Finds where the arguments of calls come from; made where it is needed."""
        from atc.run.origins import RunOrigins

        return RunOrigins(self)

    @property
    def sandbox(self) -> Sandbox:
        """Where programs run.

        Raises:
            EnvironmentProblem: it is not the isolation that was asked for.
        """
        return self.resources.sandbox()

    @property
    def all_tools(self) -> Toolset:
        """The tools of the agent."""
        return self.catalogue.tools

    @property
    def calls(self) -> list[Call]:
        """All calls so far, in the order in which they were asked for."""
        return sorted(self.broker.calls, key=lambda call: call.index)

    def misfit(self, value: Any) -> Misfit | None:
        """Where a value, as JSON values and bytes, is not of the type that the answer shall have; ``None`` if it is."""
        found = self.answer_type.fit(value) if self.answer_type is not None else None
        return found if isinstance(found, Misfit) else None

    def task_with_type(self, what: str = "`answer`") -> str:
        """The task as a model is shown it: with the type of the answer, where one was asked for.

        Args:
            what: the place of the answer, in the words of the strategy's prompt.
        """
        return self.task + type_note(self.answer_type, what)

    @property
    def inputs(self) -> Mapping[str, Any]:
        """The values of earlier stages that stand in the scope of this stage's programs, by name."""
        return self.broker.journal.inputs

    @property
    def calls_left(self) -> int:
        """How many calls the run may still make."""
        return self.broker.policy.max_calls - self.broker.made

    @property
    def last_calls(self) -> list[Call]:
        """The calls of the program that ran last."""
        return [call for call in self.calls if call.attempt == self.broker.journal.attempt]

    @cached_property
    def whole_graph(self) -> ToolGraph:
        """The graph of all tools, with what was known of them as the run began; other graphs are made of it."""
        return self.catalogue.graph

    @property
    def graph(self) -> ToolGraph:
        """What feeds what among the tools that are offered now."""
        return self.graph_of(self.tools)

    def see(self, graph: ToolGraph) -> None:
        """Go by another graph of all tools from now on: more is known of them."""
        self.whole_graph, self._graph = graph, None

    def graph_of(self, tools: Toolset) -> ToolGraph:
        """What feeds what among some tools; the same graph as long as they are the same."""
        if self._graph is None or [*self._graph[0].values()] != [*tools.values()]:
            self._graph = tools, self.whole_graph.of(tools.protocols)
        return self._graph[1]

    # -- tools ---------------------------------------------------------------------------------------------------------

    async def choose_tools(self, stored: StoredRun | None = None) -> None:
        """Offer the tools that the task needs: all of them, or those that the retriever finds among many.

        Args:
            stored: a run that goes on: what was chosen then is offered again, if it is still there, and with it what
                the run has called.

        Raises:
            ToolImportError: a tool's schema is not valid.
            NotLinked: the program that a run goes on with calls a kept program that is gone.
        """
        if stored is not None:
            await in_thread(self._refuse_gone, stored)  # a trace may be long
            await in_thread(self.recovery.restore, stored)
        before = await in_thread(stored.last, "tools_chosen") if stored is not None else None
        fixed = await in_thread(stored.first, "tools_chosen") if stored is not None else None
        if fixed is not None:
            self.broker.repairs.key_aliases = read_key_aliases(fixed.get("key_aliases"))
        known = tools_before(() if before is None else before["tools"], self.broker, self.all_tools)
        self.gone = known.gone if stored is not None else ()
        if before is not None and not {*before["tools"]}.intersection(known.gone):
            tools = self.all_tools.only(*known.chosen)
            self.sketch = Sketch.of_facts(SketchFacts.of_trace(before), tools).listing(self.all_tools)
            if known.called:
                tools += self.all_tools.only(*known.called)
                self.sketch = self.sketch.offering(tools, "earlier")
                self.emit("tools_chosen", chosen_event(self.sketch))
            await self.offer(tools)
            return
        asked, room = self.preamble.query(self.task), await room_of(self.model, self.settings)
        found = await self.catalogue.sketch(asked, room, self._ask_for_tools, self._reporting(), self.preamble.tools)
        tools = found.tools
        if stored is not None:
            had = (*known.chosen, *known.called)
            tools += self.all_tools.only(*(name for name in had if name not in tools))
        self.sketch = (found if tools is found.tools else found.offering(tools, "earlier")).noting_services()
        if fixed is None:
            self.broker.repairs.key_aliases = bounded_key_aliases(self.whole_graph.learnt.key_aliases)
        self.emit("tools_chosen", chosen_event(self.sketch) | self._key_aliases())
        await self.offer(tools)

    def _refuse_gone(self, stored: StoredRun) -> None:
        for source in stored.programs()[-1:]:
            self.kept.refuse_gone(Program(source))

    def _key_aliases(self) -> dict[str, Any]:
        """The run's table as the trace keeps it, so that the run makes the same calls after a resume."""
        table = self.broker.repairs.key_aliases
        return {"key_aliases": {tool: dict(keys) for tool, keys in table.items()}} if table else {}

    async def retrieve(self, query: str, limit: int | None = None) -> Sketch:
        """The likeliest tools for a query, of all that the agent has. They are not offered yet: see :meth:`offer`.

        Args:
            limit: how many at most; :data:`atc.catalogue.sketch.FEW` if not given.
        """
        return await self.catalogue.find(query, limit or FEW, self._ask_for_tools)

    async def _ask_for_tools(self, messages: Sequence[Message], max_tokens: int, **form: Any) -> Reply:
        return await self.ask("tools", messages, max_tokens=max_tokens, **form)

    def _reporting(self) -> Report:
        """A callback for any thread that writes into the trace how far an index is, once in :data:`REPORT_S`."""
        loop, last = asyncio.get_running_loop(), [time.monotonic()]

        def report(stage: str, done: int, total: int) -> None:
            if time.monotonic() - last[0] >= REPORT_S:
                last[0] = time.monotonic()
                loop.call_soon_threadsafe(self.emit, "indexing", {"stage": stage, "done": done, "total": total})

        return report

    async def offer(self, tools: Toolset) -> None:
        """Offer these tools from now on, in place of those before: open what they need, and let the broker call them.
        What was offered once can be called until the run ends.

        Raises:
            ToolImportError: a tool's schema is not valid.
        """
        if self.questions is not None:
            tools = self.questions.beside(tools)
        callable_ = [*tools.values(), *self.kept.inner(tools).values()]
        new = Toolset(tool for tool in callable_ if tool.name not in self._open)
        await self.stack.enter_async_context(new.opened())
        self._open.update(new)
        self.broker.grant(Toolset(callable_))
        self.tools = tools

    # -- acting --------------------------------------------------------------------------------------------------------

    async def ask(self, purpose: str, messages: Sequence[Message], **options: Any) -> Reply:
        """Ask the model once.

        Args:
            purpose: what for, in a word; for the trace.
            options: those of :meth:`Model.complete`. By default ``max_tokens`` and ``seed`` of the settings, and a
                temperature of 0.

        Raises:
            ModelError, ModelUnavailable, BudgetExceeded: from the model.
        """
        given = {"max_tokens": self.settings.max_tokens, "temperature": 0.0, "seed": self.settings.seed} | options
        return await ask(self.model, self.emit, purpose, messages, **given)

    def task_message(self, text: str) -> Message:
        """The message of a prompt that says the task: a text, and the images of the task where there are any."""
        return task_message(text, self.images)

    async def execute(
        self,
        program: str | Program,
        warnings: Mapping[str, tuple[str, ...]] | None = None,
        warned: Sequence[Finding] = (),
    ) -> Outcome:
        """Run a program over the offered tools, in a fresh jail, its calls through the broker.

        The values of its stage stand in its scope (:meth:`begin_stage`).

        Args:
            warnings: by tool, what the check warned about and its calls depend on: such a write is not made unasked.
            warned: all that the check warned about, for the trace.

        One at a time: what is asked for meanwhile, a program or a call, waits. So the journal tells them apart.

        Raises:
            UsageError: an input cannot have its name, or is too large; or it is within :meth:`attempt`.
            SandboxUnavailable: the isolation that was asked for cannot be had.
            JournalError: a call cannot be written down.
            WritesPlanned: this is a dry run, and it planned calls.
        """
        own = program if isinstance(program, Program) else Program(program)
        async with self._alone():
            return await self._executed(own, warnings, warned)

    async def _executed(
        self, own: Program, warnings: Mapping[str, tuple[str, ...]] | None, warned: Sequence[Finding]
    ) -> Outcome:
        attempt, broker = len(self.revisions), self.broker
        linked, tools, named = await asyncio.to_thread(self._joined, own)
        whole = own if linked is None else linked.program
        text = whole.source
        broker.begin_program(self.kept.warnings(warnings or {}))
        asked = await asyncio.to_thread(self._may_call, whole) if broker.journal.has_written else ()
        broker.journal.read_anew(text, asked)
        self._program, self._feeds = whole, None
        told = dict.fromkeys(text for texts in broker.warnings.values() for text in texts)
        started: ProgramStarted = {"attempt": attempt, "warnings": list(told)}
        if warned:
            started["warned"] = [finding.model_dump() for finding in warned]
        if untrusted := self.begins(own.source):
            started["untrusted"] = untrusted
        if linked is not None and (texts := self.kept.first_called(linked)):
            started["kept"] = texts
        if named:
            started["tools"] = named
        if linked is not None:
            started["linked"] = {"source": text, "hoisted": linked.hoisted}
        self.emit("program_started", started)
        limits = limits_from(self.settings)
        start = broker.journal.start_of(text)
        job = Job(
            text,
            signatures(tools),
            limits,
            self.inputs,
            broker.clock,
            broker.holds_back,
            broker.host_time,
            start,
            0 if linked is None else linked.hoisted,
        )
        call = self._pages.call if self.look is None else self.look.begin(self._pages.call)
        if linked is not None:
            call = _marked(call, linked)
        outcome = await self.sandbox.run(job, broker.journal.reply_times(start).timed(call, broker.reads))
        outcome = self._pages.placed(outcome)
        self.last_answer = outcome.value
        self.isolation, self.said = f"{self.sandbox.name}/{outcome.isolation}", outcome.said
        ended = {"kind": outcome.kind, "seconds": round(outcome.seconds, 6), "detail": outcome.detail}
        printed = {"stdout": outcome.stdout[-MAX_OUTPUT:], "stderr": outcome.stderr[-MAX_OUTPUT:]}
        self.printed = broker.redactor.text("".join(printed.values()))
        measured = {"isolation": self.isolation, "host_s": round(outcome.host_s, 6)}
        seen = self.look.values if self.look is not None else None
        looked: dict[str, Any] = {"looked": list(seen)} if seen is not None else {}
        if pages := self._pages.read():
            looked["all_pages"] = broker.redactor.value(pack(pages))
        self.emit("program_ended", {"attempt": attempt, **ended, **printed, **measured, **looked})
        if held_back(self.last_calls) is not None:
            raise WritesPlanned(own.source, outcome)
        return outcome

    def _joined(self, own: Program) -> tuple[Linked | None, dict[str, Tool], dict[str, dict[str, Any]]]:
        """In a thread: it may be long. Raises NotLinked where they cannot be joined."""
        linked, broker = self.kept.link(own), self.broker
        tools = {name: tool for name, tool in self.tools.items() if tool.kept is None}
        if linked is not None:
            tools |= {name: broker.tools[name] for name in linked.inner if name in broker.tools}
        return linked, tools, recorded_tools(own if linked is None else linked.program, tools, broker.source_of)

    def begins(self, source: str) -> list[str]:
        """Note that a program begins, or, with an empty text, that calls without one do; return the untrusted tools."""
        self._begin_program(source)
        return author.begins(source) if (author := self._guarded()) is not None else []

    def wrote(self, source: str) -> list[str]:
        """Note that the author has just written a program; return the untrusted tools whose answers it had seen."""
        return author.wrote(source) if (author := self._guarded()) is not None else []

    def with_author(self) -> Author:
        """Return what knows what the author of the programs has seen."""
        from atc.run.author import Author

        self.author = Author(self, self.past)
        return self.author

    def _guarded(self) -> Author | None:
        return self.with_author() if self.author is None and self.wants_origins else self.author

    def _may_call(self, program: Program) -> set[CallKey]:
        """Return the tools that the text of a program names; what it calls by a computed name nobody can tell."""
        nodes = program.nodes if program.tree is not None else ()
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        return {CallKey(name, "", self.broker.source_of(name)) for name in names.intersection(self.broker.tools)}

    async def feeds_of(self, call: Call) -> tuple[Feed, ...]:
        """Return where the arguments of a call of the program that runs come from."""
        calls, protocols = self.calls, {name: tool.protocol for name, tool in self.broker.tools.items()}
        inputs = dict(self.inputs)
        by_user = self.has_inputs_of_user

        def found() -> tuple[Feed, ...]:  # a program and the answers that it had may be long
            if self._feeds is None:
                from atc.programs.feeds import Feeds

                self._feeds = Feeds(self._program, calls, protocols, self.task, inputs, by_user=by_user)
            self._feeds.see(calls)
            return self._feeds.of(call)

        return await asyncio.to_thread(found)

    async def call(self, tool: str, arguments: Mapping[str, Any], *, origins: CallOrigins | None = None) -> Call:
        """Call an offered tool without a program. A failure is in the result.

        A call that succeeds is a stage by itself: a later one is not answered from the journal, and the same write is
        refused.

        Args:
            arguments: by the parameters' names, as a program writes them.
            origins: where they come from, by the names that the tool knows; one that is not named, or without them all
                are ``unknown``, so that such a write is asked about once strangers' text is in the run.

        Raises:
            JournalError: the call cannot be written down.
            WritesPlanned: this is a dry run, and the call has effects.
        """
        if self._grouped:
            return await self._called_tool(tool, arguments, origins)
        async with self._alone():
            self.broker.begin_program()
            self._program, self._feeds = None, None
            self.begins("")
            made = await self._called_tool(tool, arguments, origins)
            self._called = made.succeeded
            return made

    async def _called_tool(self, tool: str, arguments: Mapping[str, Any], origins: CallOrigins | None) -> Call:
        number = next(self._requests)
        try:
            given = to_json_value(dict(arguments))
        except ValueError as error:  # what is nested too deep cannot be written down either
            problem = CallRefused(f"the arguments are no JSON values: {error}", status="invalid_arguments")
            self.broker.refuse(CallRequest(number, tool, {}, 0), problem)
            return self.broker.calls[-1]
        handled = await self.broker.handled(CallRequest(number, tool, given, 0, origins=origins))
        made = next(call for call in self.broker.calls if call.index == handled.number)
        if made.status in NOT_MADE:
            raise WritesPlanned
        return made

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Calls of this block belong together as those of one program do: where they fail, a later attempt repeats
        them, and what succeeded is answered from the journal.

        Raises:
            UsageError: a program or a call is under way, or another attempt is open.
        """
        self._refuse_while_acting("an attempt")
        self._commit_call()
        self.broker.begin_program()
        self.begins("")
        self._grouped = True
        try:
            yield
        finally:
            self._grouped = False

    def begin_stage(
        self,
        *,
        new_request: bool = False,
        inputs: Mapping[str, Any] | None = None,
        origins: InputOrigins | None = None,
    ) -> None:
        """The last program answered, and the next one is no revision of it (:mod:`atc.calls.journal`).

        Args:
            new_request: the user asks for something new, so a write may equal one of an earlier stage.
            inputs: values of earlier stages, for the programs of this one.
            origins: finds where they came from; ``None``: nobody can tell.

        Raises:
            ValueError: the inputs are no JSON values and bytes.
            UsageError: a program, a call or an attempt is under way, or an input cannot have its name.
            JournalError: it cannot be written down.
        """
        self._refuse_while_acting("a stage")
        check_names(inputs or {}, self.tools)
        self._called = False
        self._begin_stage(inputs, origins, new_request=new_request)

    def _begin_stage(
        self, inputs: Mapping[str, Any] | None, origins: InputOrigins | None, *, new_request: bool = False
    ) -> None:
        known = origins() if origins is not None and self.wants_origins else None
        self.broker.begin_stage(new_request=new_request, inputs=inputs, origins=known)
        self._input_origins = origins

    @property
    def input_origins(self) -> InputOrigins:
        """What finds where :attr:`inputs` came from, as far as anybody can tell."""
        kept = self.broker.journal.input_origins
        return self._input_origins or (lambda: kept)

    @property
    def has_inputs_of_user(self) -> bool:
        """Whether all values that stand in its programs' scope are the user's own."""
        given = self.broker.journal.input_origins
        return bool(self.inputs) and all(given.get(name) == TASK for name in self.inputs)

    @property
    def wants_origins(self) -> bool:
        """Whether a rule, or a tool whose text strangers write, may ask later where values came from."""
        policy, broker = self.broker.approval.policy, self.broker
        rules = policy is not None and policy.permissions.needs_origins
        return rules or bool(broker.strangers()) or any(map(broker.is_untrusted, self.tools))

    def _begin_program(self, source: str) -> None:
        journal, task = self.broker.journal, self.preamble.words_with(self.task)
        tools = {name: tool.protocol for name, tool in self.tools.items()}
        if (linked := self.kept.linked(source)) is not None:
            source, hoisted = linked.source, linked.hoisted
            inner = {name: self.broker.tools.get(name, tool).protocol for name, tool in linked.inner.items()}
            tools = {name: each for name, each in {**inner, **tools}.items() if name not in linked.kept}
        else:
            hoisted = 0
        begun = BegunProgram(source, tools, self.input_origins, [*self.inputs], task, self.text, hoisted)
        self.begun[journal.stage, journal.attempt] = begun

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """For one program, or one call without a program. Raises UsageError within an attempt."""
        async with self._acting:
            if self._grouped:
                raise UsageError("an attempt is open: what it calls is called with `call`, and a program runs after it")
            self._commit_call()
            yield

    def _refuse_while_acting(self, what: str) -> None:
        if self._acting.locked() or self._grouped:
            raise UsageError(f"{what} begins when the program, the call or the attempt before has ended")

    def _commit_call(self) -> None:
        """End the stage of a call that succeeded; what was handed to its programs stays there for the next."""
        if self._called:
            self._called = False
            self._begin_stage(self.inputs, self.input_origins)

    def record(self, revision: Revision) -> None:
        """Keep a program and how it went: the result has it."""
        self.revisions.append(revision)


def _marked(call: CallHandler, linked: Linked) -> CallHandler:
    async def handled(request: CallRequest) -> CallReply:
        outer = request.outer if request.outer <= linked.own_lines else 0
        return await call(request._replace(within=linked.within(request.line), outer=outer))

    return handled
