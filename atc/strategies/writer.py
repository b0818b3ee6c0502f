"""Write programs: the prompt, the reply, the program in it (ATC §3.2, Eq. 1; revisions §3.3, Eq. 2)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from atc import wording
from atc.answers.types import AnswerType
from atc.errors import ContextExceeded
from atc.facts import Replacement
from atc.fired_rules import fired
from atc.graph.tool_graph import ToolGraph
from atc.invisible import legible
from atc.models.base import Message, Model, Reply, estimate_tokens
from atc.models.images import Image
from atc.models.reply_format import MAX_CHOICE
from atc.models.reply_schema import MAX_ENUM
from atc.programs.extract import extract
from atc.programs.program import Program
from atc.programs.repair.context import RepairContext
from atc.programs.repair.pipeline import FRAME, IDLE, PASSES, repair_program
from atc.prompting import fenced, prompt
from atc.result import Call, Revision
from atc.settings import Settings
from atc.strategies.answer_note import type_note
from atc.strategies.asking import ask, emit_reply, task_message, waiting
from atc.strategies.copied_documents import COPIED, copies, stops
from atc.strategies.edits import edits_of
from atc.strategies.feedback import done_calls, feedback_from
from atc.strategies.find_tools import DOCS, asking_tools
from atc.strategies.find_tools import NAME as FINDER
from atc.strategies.frame import NO_FRAME, Frame
from atc.strategies.layer_order import NO_ORDER, LayerOrder
from atc.strategies.observed_schemas import with_observed_responses
from atc.strategies.prompt_room import FEEDBACK, PromptRoom
from atc.strategies.step import Step
from atc.strategies.ways import DEFAULT_WAYS, Ways
from atc.tools.fit import Fit, Fitter
from atc.tools.json_documents import json_documents
from atc.tools.paging import ALL_PAGES
from atc.tools.tool import Tool, Toolset
from atc.traces.events import Emit

T = TypeVar("T")

SAMPLING_TEMPERATURE = 0.6
"""Of programs that are written beside each other, to be chosen among."""
SAME_PROGRAM = "the same program came again: give another one, which differs where these notes say"
EXAMPLES = {"plain": "example_task_plain", "stubs": "example_task", "json": "example_task_json"}
"""The worked example, with its tools shown as those of the task are."""
MAX_LIKELY_TOOLS = 5
"""Tools that are named to a model whose program did without any."""


@dataclass(frozen=True)
class Draft:
    """A program as it came from a reply; an empty one where the reply has none, and ``problem`` says why."""

    program: Program
    rewrites: tuple[str, ...] = ()
    problem: str = ""

    @property
    def source(self) -> str:
        """The text of the program; empty where there is none."""
        return self.program.source


class Writer:
    """Writes the programs of one run.

    Args:
        task: what the user wants.
        tools: the tools that are offered.
        plan: by which they were found; shown with the task.
        ways: how programs are written.
        answer: the type that the answer shall have.
        frame: what stands before the task.
        images: that the user shows with the task.
        step: the step that the programs are of, where a task is solved layer by layer.
        recurring: the tools are all that there are, so the next task is likely to have the same.
        graph_of: gives what feeds what among some tools.
        down: gives the tools that are not called any more in this run, each with its substitutes.
        order: the layers of the tools; they are shown by layer, and a line names the layers.
    """

    def __init__(
        self,
        task: str,
        tools: Toolset,
        model: Model,
        settings: Settings,
        emit: Emit,
        plan: str = "",
        ways: Ways = DEFAULT_WAYS,
        answer: AnswerType | None = None,
        frame: Frame = NO_FRAME,
        images: Sequence[Image] = (),
        step: Step | None = None,
        recurring: bool = False,
        graph_of: Callable[[Toolset], ToolGraph] | None = None,
        down: Callable[[], Mapping[str, Sequence[Replacement]]] = dict,
        order: LayerOrder = NO_ORDER,
    ) -> None:
        self._graph_of, self._broken = graph_of or _structural, down
        self._images = images
        self._step = step.text if step is not None else ""
        self._ways = ways.under(settings)
        self._model, self._settings, self._emit, self._task = model, settings, emit, task
        self._plan, self._frame, self._answer_type = fenced(plan), frame.programs, type_note(answer)
        self._query = frame.query(task)
        self._words = frame.words_with(task)
        self._recurring = recurring
        self._rules = settings.active_rules
        self._order = order if "layer-order" in self._rules else NO_ORDER
        self._room = PromptRoom(model, settings)
        self._asked_for: list[str] = []
        self._offered: tuple[tuple[Tool, ...], tuple[str, ...]] | None = None
        self.hidden: frozenset[str] = frozenset()
        """Tools that can be called, and that the prompt leaves out: see :meth:`hide`."""
        self._down: list[str] = []
        self.offer(tools)

    def offer(self, tools: Toolset) -> None:
        """Write with these tools from now on. Where nothing is new, what was fitted to the prompt stays."""
        offered = (tuple(tools.values()), tuple(self._asked_for))
        if offered == self._offered:
            return
        self._offered, self._tools = offered, tools
        self._graph = self._graph_of(tools)
        self._asking = asking_tools(tools)
        self._pages = ALL_PAGES not in tools
        self._fit_anew()

    def _fit_anew(self) -> None:
        """Fit the documents to the next prompt anew."""
        protocols = self._graph.protocols_with_shapes
        shown = [name for name in self._tools if name not in self.hidden]
        self._fitter = Fitter(
            [protocol for name, protocol in protocols.items() if name not in self.hidden],
            self._graph.suppliers,
            self._query,
            keep=self._asking,
            first=self._asked_for,
            ask=DOCS if DOCS in self._asking else None,
            pages=self._pages,
            plain=self._ways.tools == "plain",
            order=self._order.sorted(shown) if self._order.among(shown) else (),
        )
        self.shown: Fit | None = None
        """What the last prompt showed of the tools."""
        self._stop: list[str] = []

    def hide(self, names: Collection[str]) -> None:
        """Leave these tools out of the prompts from now on. Programs may call them all the same."""
        if self.hidden != (hidden := frozenset(names)):
            self.hidden = hidden
            self._fit_anew()

    def show_whole(self, names: Collection[str]) -> None:
        """Give these tools the room that they need, from the next :meth:`offer` on."""
        self._asked_for += [name for name in names if name not in self._asked_for]

    async def prepare(self) -> None:
        """Find out how the tools fit in the first prompt: see :attr:`cut` and :attr:`unlisted`."""
        await self.messages((), ())

    @property
    def cut(self) -> bool:
        """Whether the last prompt showed a tool in part."""
        return self.shown is not None and self.shown.shortened

    @property
    def unlisted(self) -> tuple[str, ...]:
        """Tools for which the last prompt had no room."""
        return self.shown.left_out if self.shown is not None else ()

    def _likely(self, history: Sequence[Revision]) -> list[str]:
        """The tools that fit the task's words best, where the last program did without any."""
        if not history or history[-1].fault is None or history[-1].fault.case != "no_calls":
            return []
        from atc.retrieval.index import ToolIndex

        index = ToolIndex.build(self._tools)
        found = [hit.id for hit in index.search(self._query, MAX_LIKELY_TOOLS, "lexical")]
        return found or list(self._tools)[:MAX_LIKELY_TOOLS]

    async def write(self, history: Sequence[Revision], calls: Sequence[Call], inputs: Collection[str] = ()) -> Draft:
        """The next program, given those that failed, the calls that were made and the names of its inputs.

        Where the last one ended at a reading call whose answer nothing uses, that is the same program without the call:
        the model is not asked, and would seldom leave it out.

        Raises:
            ModelError, ModelUnavailable, BudgetExceeded: from the model.
        """
        if (shorter := self._without_idle_call(history, calls, inputs)) is not None:
            return shorter
        settings = self._settings
        temperature = settings.revision_temperature if history else settings.temperature
        earlier = {revision.program for revision in history}
        for again in (False, True):
            draw = partial(self._ask_for_program, temperature, settings.seed + 101 * len(history) + again)
            draft = self._draft(await self._fitting(draw, history, calls, again), calls, inputs)
            if draft.source not in earlier or not draft.source or "same-program" not in self._rules:
                break
            fired("same-program", not again)
            temperature = max(0.8, temperature)  # the same program again: sample hotter
        return draft

    async def candidates(
        self, count: int, history: Sequence[Revision], calls: Sequence[Call], inputs: Collection[str] = ()
    ) -> list[Draft]:
        """Several next programs, sampled beside each other. The same program is kept once, and one that failed before
        only if there is no other.

        Raises:
            ModelError, ModelUnavailable, BudgetExceeded: from the model.
        """
        seed = self._settings.seed + 101 * len(history)
        replies = await self._fitting(partial(self._sample, count, seed), history, calls)
        drafts = [self._draft(reply, calls, inputs) for reply in replies]
        unique = {draft.source: draft for draft in drafts}
        earlier = {revision.program for revision in history}
        return [draft for draft in unique.values() if draft.source not in earlier] or list(unique.values())

    async def _fitting(
        self,
        draw: Callable[[list[Message]], Awaitable[T]],
        history: Sequence[Revision],
        calls: Sequence[Call],
        again: bool = False,
    ) -> T:
        """What a model makes of the prompt; of a shorter one, where the endpoint says that it is too long."""
        while True:
            messages = await self.messages(history, calls, again)
            try:
                return await draw(messages)
            except ContextExceeded as error:
                self._room.shrink(error, await self._room.taken(messages))
                self.shown = None

    async def _ask_for_program(self, temperature: float, seed: int, messages: Sequence[Message]) -> Reply:
        return await self.ask("program", messages, temperature=temperature, seed=seed, stop=self._stop)

    async def _sample(self, count: int, seed: int, messages: Sequence[Message]) -> list[Reply]:
        """One request for several programs: the model reads the prompt once."""
        for _ in range(count):
            self._emit("model_started", {"purpose": "program"})
        async with waiting(self._emit, "program"):
            replies = await self._model.sample(
                messages,
                count,
                max_tokens=self._settings.max_tokens,
                temperature=SAMPLING_TEMPERATURE,
                seed=seed,
                stop=self._stop,
            )
        for reply in replies:
            emit_reply(self._emit, "program", reply)
        return replies

    async def ask(
        self,
        purpose: str,
        messages: Sequence[Message],
        *,
        temperature: float,
        seed: int,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> Reply:
        """Ask the model once; the trace records it."""
        return await ask(
            self._model,
            self._emit,
            purpose,
            messages,
            max_tokens=max_tokens or self._settings.max_tokens,
            temperature=temperature,
            seed=seed,
            stop=stop,
        )

    async def name_culprit(self, program: str, error: str, among_all: bool = False) -> str | None:
        """Ask the model which tool is at fault (§3.3): t_j = M(x, T, I_a, r_j).

        Args:
            program: what failed. ``error``: how.
            among_all: it may be any tool, and not one of those alone that the program names.
        """
        tools = [name for name in self._tools if len(name) <= MAX_CHOICE]
        named = [] if among_all else [name for name in tools if name in program]
        tools = (named or tools)[:MAX_ENUM]  # of more, no grammar is made
        if not tools:
            return None
        text = prompt("attribute", task=self._task, tools=tools, program=fenced(program), error=legible(error[:1500]))
        reply = await ask(
            self._model,
            self._emit,
            "attribute",
            [Message("user", text)],
            max_tokens=40,
            temperature=0.0,
            seed=self._settings.seed,
            choices=tools,
        )
        return reply.value if isinstance(reply.value, str) else None

    def _draft(self, reply: Reply, calls: Sequence[Call], inputs: Collection[str]) -> Draft:
        if self._stop and copies(reply, self._tools):
            fired("copied-documents")
            return Draft(Program(""), problem=COPIED)
        if reply.problem:
            return Draft(Program(""), problem=reply.problem)
        found = extract(reply.text, self._tools, truncated=reply.finish_reason == "length")
        if found.program is None:
            return Draft(Program(""), problem=found.problem)
        return self._repaired(found.program, calls, inputs)

    def _without_idle_call(
        self, history: Sequence[Revision], calls: Sequence[Call], inputs: Collection[str]
    ) -> Draft | None:
        """The last program without the call that ended it, if nothing uses that call's answer; else ``None``."""
        fault = history[-1].fault if history else None
        if fault is None or fault.call is None or not self._ways.check:
            return None
        failed = [call for call in calls if call.index == fault.call]
        program, rewrites = repair_program(Program(history[-1].program), self._context(failed, inputs), (IDLE,))
        if not rewrites or program.source in {revision.program for revision in history}:
            return None
        return Draft(program, tuple(rewrite.note for rewrite in rewrites))

    def _repaired(self, program: Program, calls: Sequence[Call], inputs: Collection[str]) -> Draft:
        context = self._context(calls, inputs)
        fired("observed-responses", context.observed != context.protocols)
        passes = PASSES if self._ways.check else FRAME
        program, rewrites = repair_program(program, context, passes)
        return Draft(program, tuple(rewrite.note for rewrite in rewrites))

    def _context(self, calls: Sequence[Call], inputs: Collection[str]) -> RepairContext:
        protocols = {protocol.name: protocol for protocol in self._tools.protocols}
        observed = with_observed_responses(protocols, calls) if "observed-responses" in self._rules else protocols
        return RepairContext(protocols, observed, self._graph.suppliers, calls, self._words, self._rules, inputs)

    # -- prompts -----------------------------------------------------------------------------------------------------

    async def messages(self, history: Sequence[Revision], calls: Sequence[Call], again: bool = False) -> list[Message]:
        """The prompt. ``again``: the model has just given a program again that is among those that failed."""
        fired("layer-order", bool(self._order.among([*self._tools])))
        base = [Message("system", prompt("system"), fixed=True)]
        if self._ways.example:
            base.append(Message("user", prompt(EXAMPLES[self._ways.tools]), fixed=True))
            base.append(Message("assistant", prompt("example_program"), fixed=True))
        notes, edits = "", []
        told: list[str] = []
        if self._ways.revision == "edit" and history:
            edits = edits_of(
                history, calls, self._tools, self._task, pages=self._pages, as_json=self._ways.tools == "json"
            )
        else:
            likely = self._likely(history) if "likely-tools" in self._rules else ()
            sentences = feedback_from(history, self._graph.hints, self._tools.protocols, likely, self._rules, calls)
            told = sentences
            fired("likely-tools", bool(likely))
            if again:
                sentences.append(SAME_PROGRAM)
            done = done_calls(calls)
            notes = prompt("notes", notes=sentences, done=done) if sentences or (done and self._step) else ""
        down = (fenced(wording.is_down(tool, some)) for tool, some in self._broken().items())
        self._down = [each for each in down if each not in told]  # what no note says
        shown = await self._tools_within(base, [Message("user", notes), *edits])
        asked = replace(task_message(self._task_message(shown) + notes, self._images), stable=self._stable(shown))
        return [*base, asked, *edits]

    def _stable(self, shown: Fit) -> int:
        """The characters before the user's words, where they are the same for every task; up to the end of a line, so
        that the tokens are the same, too."""
        if shown.shortened or self.hidden or not self._recurring:
            return 0
        before = self._task_message(shown, frame="\0").partition("\0")[0]
        return before.rfind("\n") + 1

    def _task_message(self, shown: Fit, frame: str | None = None, longest: bool = False) -> str:
        """The task and its tools. ``frame``: what stands between them, in place of the writer's. ``longest``: with the
        longest line of their order that there can be."""
        return prompt(
            "task",
            stubs=fenced(shown.text),
            language=shown.language,
            frame=self._frame if frame is None else frame,
            step=self._step,
            task=self._task,
            answer_type=self._answer_type,
            plan=self._plan,
            order=self._order_line(()) if longest else self._order_line((*shown.left_out, *self._broken())),
            asked=self._asked_for,
            down=self._down,
            shortened=shown.shortened,
            unlisted=len(shown.left_out),
            finder=FINDER if FINDER in self._asking else "",
        )

    def _order_line(self, hidden: Collection[str]) -> str:
        """The layers of the tools, for a line behind the task: there it costs the model's cache nothing."""
        return fenced(self._order.line([*self._tools], {*hidden, *self.hidden}, chosen=not self._recurring))

    async def _tools_within(self, base: Sequence[Message], feedback: Sequence[Message]) -> Fit:
        """The tools as there is room for them; the same as before wherever they still fit, for the model's cache.

        Where they are shortened, room for notes on programs that fail is kept from the first.
        """
        frame = task_message(self._task_message(Fit("", {}, tuple(self._tools)), longest=True), self._images)
        fixed = await self._room.taken([*base, frame])
        notes = await self._room.taken(feedback)
        room = await self._room.for_tools(fixed + notes)
        if self.shown is None or self.shown.tokens > room:
            fit = self._whole_documents() if self._ways.tools == "json" else None
            if fit is None or (tokens := await self._room.count(fit.text)) > room:
                fit = await self._fitter.fit(room, self._room.count, spare=max(0, min(FEEDBACK, room // 5) - notes))
            else:
                fit = replace(fit, tokens=tokens)
            self.shown = fit
            ends = "copied-documents" in self._rules
            too_long = ends and estimate_tokens(fit.text) > self._settings.max_tokens
            self._stop = stops(self._tools) if too_long else []
        return self.shown

    def _whole_documents(self) -> Fit:
        """The tools as JSON. What is too long is shown as stubs instead, which can be shortened."""
        protocols = self._graph.protocols_with_shapes
        shown = [name for name in self._order.sorted([*protocols]) if name not in self.hidden]
        return json_documents([protocols[name] for name in shown], pages=self._pages)


def _structural(tools: Toolset) -> ToolGraph:
    """What feeds what by the protocols alone."""
    return ToolGraph(tools.protocols)
