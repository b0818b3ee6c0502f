"""Write programs: the prompt, the reply, the program in it (ATC §3.2, Eq. 1; revisions §3.3, Eq. 2)."""

from __future__ import annotations

import ast
import asyncio
import builtins
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from atc import wording
from atc.catalogue.sketch import room_of, stub_tokens
from atc.errors import ContextExceeded
from atc.models.base import Message, Reply, estimate_tokens
from atc.programs.dialects.awaits import in_plain_python
from atc.programs.edits import RepairContext, Rewrite
from atc.programs.extract import extract
from atc.programs.program import Program
from atc.programs.repair.pipeline import repair_program
from atc.programs.syntax import binds
from atc.result import Call, Revision
from atc.run.asking import task_message, type_note
from atc.run.find_tools import DOCS, asking_tools
from atc.run.find_tools import NAME as FINDER
from atc.run.look import PROTOCOL as LOOK
from atc.run.look import with_names
from atc.run.revision import FEEDBACK, PromptRoom, RevisionPrompt, edits_of, notes_on
from atc.run.run import Run
from atc.tools.paging import ALL_PAGES
from atc.tools.short_stubs import WHOLE
from atc.tools.stub_budget import Fit, Fitter, json_documents
from atc.tools.tool import Tool, Toolset
from atc.wording.prompting import fenced, prompt

if TYPE_CHECKING:
    from atc.run.named_tools import NamedTools

EXAMPLES = {"plain": "example_task_plain", "stubs": "example_task", "json": "example_task_json"}
"""The worked example, with its tools shown as those of the task are."""
MAX_DOCUMENT = 6_000
"""Characters of the documents of tools that a program failed by."""


@dataclass(frozen=True)
class WritingOptions:
    """Sets how programs are written, checked and traced, where the writer and the loop leave it open.

    The defaults are ATC's; the others are there to compare with, and make up the paper's own way.

    Attributes:
        tools: how the model is shown its tools: as Python functions whose response stands in the docstring, an example
            or its type (``plain``), or in classes with an example (``stubs``); or as JSON documents.
        example: show one worked example before the task, behind shorter instructions; ``None``: to a model that wants
            one (:attr:`atc.models.base.Model.wants_example`).
        revision: what a revision is written from: the last ``program`` whole, with its place, its tool's document and
            what the line worked with (ATC §3.3, Eq. 2); short ``notes`` alone, without a program; or ``edit``, a
            dialogue of programs and errors, as ``atc-paper`` has it. ``None``: notes for a model that wants an example,
            for it repeats what it is shown; the program for any other.
        check: check programs, and repair them by the tools' schemas, before they run.
        max_rejections: programs beside the revisions that the check may refuse; ``None``: as many as the setting
            ``max_revisions``.
        dialects: read programs that await their tools, or name them as other runtimes do.
        revision_temperature: sampling temperature of every program after the first.
        author: who writes the programs. If it is a ``caller`` of ATC, the user's words are not known here: its values
            are not held to them, its answer may rest on no call, and no model is asked about its faults.
    """

    tools: Literal["plain", "stubs", "json"] = "plain"
    example: bool | None = None
    revision: Literal["program", "notes", "edit"] | None = None
    check: bool = True
    max_rejections: int | None = None
    dialects: bool = True
    revision_temperature: float = 0.3
    author: Literal["model", "caller"] = "model"


DEFAULT_OPTIONS = WritingOptions()


@dataclass(frozen=True)
class Draft:
    """A program as it came from a reply; an empty one where the reply has none, and ``problem`` says why.

    ``rules``: the ids of those that changed it, one for each change.
    """

    program: Program
    rewrites: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    problem: str = ""

    @property
    def source(self) -> str:
        """Return the text of the program; empty where there is none."""
        return self.program.source


class Writer:
    """Writes the programs of one run.

    Args:
        run: whose task, tools and model these are.
        options: how programs are written.
        part: what the prompt says of the part of the task that the programs do; empty if each is to do all of it.
        answers: what a program sets is the answer of the run, of the type that was asked for.

    Attributes:
        gives_documents: whether programs know ``tool_docs``.
        look: whether programs know ``look``. ``may_look``: whether the next one may still look at values.
        looked: what the prompt says of the programs that looked.
        shown: what the last prompt showed of the tools; ``None`` before the first prompt with these tools.
    """

    def __init__(
        self, run: Run, options: WritingOptions = DEFAULT_OPTIONS, *, part: str = "", answers: bool = True
    ) -> None:
        self._run, self._options, self._part = run, options, part
        self._settings = run.settings
        self._plan = "" if part else fenced(run.sketch.plan)
        self._answer_type = type_note(run.answer_type if answers else None)
        self._query = run.preamble.query(run.task)
        # all that there are: the next task is likely to have the same
        self._recurring = all(name in run.tools for name in run.all_tools)
        layers = () if part else run.sketch.layers
        self._layer = {name: at for at, layer in reversed([*enumerate(layers)]) for name in layer}
        example = options.example
        self._example = run.model.wants_example if example is None else example
        self._revision = options.revision or ("notes" if run.model.wants_example else "program")
        self._room = PromptRoom(run.model, run.settings)
        self._asked_for: list[str] = []
        self._has_list, self._listed = bool(run.sketch.listed) and not part, ""
        self._offered: tuple[tuple[Tool, ...], tuple[str, ...]] | None = None
        self._down: list[str] = []
        self.look = self.may_look = self.gives_documents = False
        self.looked = ""
        self.offer(run.tools)

    def offer(self, tools: Toolset) -> None:
        """Write with these tools from now on. Where nothing is new, what was fitted to the prompt stays."""
        offered = (tuple(tools.values()), tuple(self._asked_for))
        if offered == self._offered:
            return
        self._asking = asking_tools(tools)
        self._offered, self._tools = offered, self._within_budget(tools) if self._has_list else tools
        self._graph = self._run.graph_of(self._tools)
        self._pages = ALL_PAGES not in tools
        self._fitter: Fitter | None = None
        self.shown: Fit | None = None
        self._stop: list[str] = []

    def _fitting(self) -> Fitter:
        """Return what fits the tools to a prompt: it takes a while where they are many, or wide."""
        return Fitter(
            [*self._graph.protocols_with_shapes.values()],
            self._graph.suppliers,
            self._query,
            keep=self._asking,
            first=self._asked_for,
            ask=DOCS if DOCS in self._asking or self.gives_documents else None,
            pages=self._pages,
            plain=self._options.tools == "plain",
            share=not self._example,  # a small model was measured with each type in its place
            order=self._by_layer(self._tools),
        )

    def _by_layer(self, names: Iterable[str]) -> list[str]:
        return sorted(names, key=lambda name: self._layer.get(name, len(self._layer)))

    def _within_budget(self, tools: Toolset) -> Toolset:
        """Return the tools without some that no program has called or asked for, where all take more than the budget.

        The least likely go first. They are listed, or found again.
        """
        most = self._settings.stub_tokens
        cost = {
            name: stub_tokens(tool.protocol, most // 8 + 1) for name, tool in tools.items() if name not in self._asking
        }
        called = {call.tool for call in self._run.broker.calls}
        spare = [name for name in reversed(cost) if name not in called and name not in self._asked_for]
        while sum(cost.values()) > most and spare:
            del cost[spare.pop(0)]
        return tools.only(*(name for name in tools if name in cost or name in self._asking))

    def show_whole(self, names: Collection[str]) -> None:
        """Give these tools the room that they need, from the next :meth:`offer` on."""
        self._asked_for += [name for name in names if name not in self._asked_for]

    async def prepare(self) -> None:
        """Find out how the tools fit in the first prompt: see :attr:`cut` and :attr:`unlisted`."""
        if self.shown is None:
            await self._tools_within(self._fixed, [Message("user", "")])

    @cached_property
    def _fixed(self) -> list[Message]:
        system = "system_brief" if self._example else "system"
        text = prompt(system, say=self._settings.sentence, typed=bool(self._answer_type))
        fixed = [Message("system", text, fixed=True)]
        if self._example:
            fixed.append(Message("user", prompt(EXAMPLES[self._options.tools]), fixed=True))
            fixed.append(Message("assistant", prompt("example_program"), fixed=True))
        return fixed

    @property
    def cut(self) -> bool:
        """Return whether the last prompt showed a tool in part."""
        return self.shown is not None and self.shown.shortened

    @property
    def unlisted(self) -> tuple[str, ...]:
        """Return the tools for which the last prompt had no room."""
        return self.shown.left_out if self.shown is not None else ()

    async def write(self, history: Sequence[Revision], calls: Sequence[Call], inputs: Collection[str] = ()) -> Draft:
        """Return the next program, given those that failed, the calls that were made and the names of its inputs.

        Raises:
            ModelError, ModelUnavailable, BudgetExceeded: from the model.
        """
        settings = self._settings
        temperature = self._options.revision_temperature if history else settings.temperature
        seed = settings.seed + 101 * len(history)
        while True:
            messages = await self.messages(history, calls)
            try:
                reply = await self._run.ask("program", messages, temperature=temperature, seed=seed, stop=self._stop)
            except ContextExceeded as error:  # the endpoint says that it is too long
                self._room.shrink(error, await self._room.taken(messages))
                self.shown = None
            else:
                return self._draft(reply, inputs)

    def _draft(self, reply: Reply, inputs: Collection[str]) -> Draft:
        ended = bool(self._stop) and reply.finish_reason == "stop" and reply.text.count("```") % 2 == 1
        rules = ("copied-documents",) if ended else ()
        if reply.problem:
            return Draft(Program(""), rules=rules, problem=reply.problem)
        found = extract(reply.text, self._tools, truncated=reply.finish_reason == "length")
        if self.gives_documents and (asked := self._asked_in(reply.text, found.program)):
            return Draft(Program(f"{DOCS}(names={[*asked]!r})\n"), rules=rules)
        if found.program is None:
            return Draft(Program(""), rules=rules, problem=found.problem)
        draft = self._repaired(found.program, inputs)
        return replace(draft, rules=rules + draft.rules)

    @cached_property
    def named(self) -> NamedTools:
        """Finds which tools a program names."""
        from atc.run.named_tools import NamedTools  # most programs name what was shown

        return NamedTools(self._run.all_tools)

    def _names_others(self, program: Program, inputs: Collection[str]) -> bool:
        if program.tree is None:
            return False
        known = {*inputs, *self._tools, *dir(builtins), *(name for node in program.nodes for name in binds(node))}
        return any(isinstance(node, ast.Name) and node.id not in known for node in program.nodes)

    def _asked_in(self, reply: str, program: Program | None) -> Sequence[str]:
        from atc.run.named_tools import names_in  # few runs give documents

        return names_in(reply, self._run.all_tools, program)

    def _repaired(self, program: Program, inputs: Collection[str]) -> Draft:
        own = (LOOK,) if self.look else ()
        renamed: tuple[Rewrite, ...] = ()
        more = Toolset()
        if self._names_others(program, inputs):
            if self._options.dialects:
                program, renamed = self.named.rewritten(program, inputs)
            more = self._run.all_tools.only(*self.named.of(program, inputs, spelt=True))
        protocols = {protocol.name: protocol for protocol in (*more.protocols, *self._tools.protocols, *own)}
        context = RepairContext(protocols, self._settings.active_rules, inputs, self._options.dialects)
        program, named = with_names(program) if self.look else (program, "")
        rewrites: tuple[Rewrite, ...] = ()
        if self._options.check:
            program, rewrites = repair_program(program, context)
        elif self._options.dialects:
            program, rewrites = in_plain_python(program, protocols, inputs)
        rewrites = (*renamed, *rewrites)
        notes = (*filter(None, [named]), *(rewrite.note for rewrite in rewrites))
        return Draft(program, notes, tuple(rewrite.rule for rewrite in rewrites))

    # -- prompts -----------------------------------------------------------------------------------------------------

    async def messages(self, history: Sequence[Revision], calls: Sequence[Call]) -> list[Message]:
        """Return the prompt for the next program, given those that failed and the calls that were made."""
        base = self._fixed
        edits, about, show = [], "", self._settings.show_values
        if self._revision == "edit" and history:
            as_json = self._options.tools == "json"
            edits = edits_of(history, calls, self._tools, self._run.task, pages=self._pages, as_json=as_json, show=show)
        elif self._revision == "notes" and (history or self._part):
            about = self._run.broker.redactor.text(notes_on(history, calls, show))
        elif history or self._part:
            about = await self._about(history, calls, self.shown)
        about = f"\n\n{about}" if about else ""
        said = history if self._revision == "notes" else history[-1:] if about else ()
        told = {revision.fault.tool for revision in said if revision.fault is not None and revision.fault.substitutes}
        down = {tool: some for tool, some in self._run.broker.broken_tools.banned.items() if tool not in told}
        self._down = [fenced(wording.is_down(tool, some)) for tool, some in down.items()]
        before = self.shown
        shown = await self._tools_within(base, [Message("user", about), *edits])
        if shown is not before and before is not None and about and self._revision == "program":
            about = f"\n\n{await self._about(history, calls, None)}"  # what was above may be shortened now
            shown = await self._tools_within(base, [Message("user", about), *edits])
        asked = replace(task_message(self._task_message(shown) + about, self._run.images), stable=self._stable(shown))
        return [*base, asked, *edits]

    async def _about(self, history: Sequence[Revision], calls: Sequence[Call], above: Fit | None) -> str:
        made = RevisionPrompt(
            history,
            calls,
            self._documents,
            self._settings.show_values,
            self._run.broker.redactor.text,
            self._run.calls_left,
            above=[name for name, grade in above.grades.items() if grade == WHOLE.name] if above is not None else (),
            may_look=self.may_look,
        )
        room, texts, text = await self._room.for_revision(), made.texts(), ""
        while (shorter := await asyncio.to_thread(next, texts, None)) is not None:
            text = shorter
            if await self._room.count(text) <= room:
                break
        return text

    def _documents(self, names: Sequence[str]) -> Fit:
        protocols = [protocol for name, protocol in self._graph.protocols_with_shapes.items() if name in names]
        if (
            self._options.tools == "json"
            and len((made := json_documents(protocols, pages=self._pages)).text) < MAX_DOCUMENT
        ):
            return made
        plain = self._options.tools == "plain"
        suppliers = self._graph.suppliers_of(protocol.name for protocol in protocols)
        fitter = Fitter(protocols, suppliers, self._query, pages=self._pages, plain=plain)
        return fitter.within(MAX_DOCUMENT)

    def _stable(self, shown: Fit) -> int:
        """Return the characters before the user's words, where they are the same for every task; up to the end of a
        line, so that the tokens are the same, too.
        """
        if self._listed:  # it is the same for every task, where all tools are listed
            everything = len(self._run.sketch.listed) == len(self._run.all_tools)
            return len(prompt("task_list", listed=self._listed)) if everything else 0
        if shown.shortened or not self._recurring:
            return 0
        before = self._task_message(shown, preamble="\0").partition("\0")[0]
        return before.rfind("\n") + 1

    def _task_message(self, shown: Fit, preamble: str | None = None) -> str:
        return prompt(
            "task",
            stubs=fenced(shown.text),
            language=shown.language,
            listed=self._listed,
            docs=DOCS if self.gives_documents else "",
            preamble=self._run.preamble.programs if preamble is None else preamble,
            part=self._part,
            task=self._run.task,
            answer_type=self._answer_type,
            plan=self._plan,
            asked=self._asked_for,
            down=self._down,
            shortened=shown.shortened,
            unlisted=len(shown.left_out),
            finder=FINDER if FINDER in self._asking else "",
            look=self.may_look,
            looked=self.looked,
        )

    async def _tools_within(self, base: Sequence[Message], feedback: Sequence[Message]) -> Fit:
        """The same as before if they still fit, for the model's cache. Where they are shortened, room for notes on
        programs that fail is kept from the first."""
        if self._has_list and not self._listed:
            tokens, lister = (await room_of(self._run.model, self._settings)).names, self._run.catalogue.lister
            self._listed = fenced(await asyncio.to_thread(lister.text, self._run.sketch.listed, tokens))
        empty = task_message(self._task_message(Fit("", {}, tuple(self._tools))), self._run.images)
        fixed = await self._room.taken([*base, empty])
        notes = await self._room.taken(feedback)
        room = await self._room.for_tools(fixed + notes)
        if self._has_list:
            room = min(room, self._settings.stub_tokens)
        if self.shown is None or self.shown.tokens > room:
            fit = self._whole_documents() if self._options.tools == "json" else None
            if fit is None or (tokens := await self._room.count(fit.text)) > room:
                if self._fitter is None:
                    self._fitter = await asyncio.to_thread(self._fitting)
                fit = await self._fitter.fit(room, self._room.count, spare=max(0, min(FEEDBACK, room // 5) - notes))
            else:
                fit = replace(fit, tokens=tokens)
            self.shown = fit
            # of a small model alone: a large one may name a helper so
            ends = self._example and "copied-documents" in self._settings.active_rules
            too_long = ends and estimate_tokens(fit.text) > self._settings.max_tokens
            self._stop = ["(TypedDict):", *(f"def {name}(" for name in self._tools)] if too_long else []
        return self.shown

    def _whole_documents(self) -> Fit:
        protocols = self._graph.protocols_with_shapes
        return json_documents([protocols[name] for name in self._by_layer(protocols)], pages=self._pages)
