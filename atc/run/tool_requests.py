"""The tools by which a program asks something for the next one, in one run: when they are offered, and what they bring.
What they are is in :mod:`atc.run.find_tools` and :mod:`atc.run.look`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from atc._records.outcome import Outcome
from atc.calls.broker import check_schemas
from atc.errors import ModelError, ToolImportError
from atc.programs.program import Program
from atc.programs.syntax import calls_one_of
from atc.run.ask_user import is_ask_user
from atc.run.find_tools import MAX_ASKS, Docs, Finder, docs_for, finder_for
from atc.run.look import NAME as LOOK
from atc.run.look import Look, Looks, is_look
from atc.run.run import Run
from atc.run.writer import Writer
from atc.tools.tool import Toolset
from atc.traces.stores.base import StoredRun


class ToolRequests:
    """Offers ``find_tools``, ``tool_docs`` and ``look`` beside the tools of a run, and grants what programs ask for.

    Args:
        run: whose tools these are.
        writer: shows them to the model.
        planned: the names of tools that are offered in their turn, so that nobody need look for them.
        look: programs may look at values.

    Attributes:
        looks: the programs of this task that looked.
    """

    def __init__(self, run: Run, writer: Writer, planned: Collection[str] = (), *, look: bool = False) -> None:
        self._run, self._writer, self._planned = run, writer, planned
        self.looks = Looks(run)
        taken = LOOK in run.all_tools or LOOK in run.inputs
        wanted = look and run.settings.find_tools and not taken
        run.look = Look(run, self._may_ask) if wanted else None
        writer.look = writer.may_look = wanted
        self._finder: Finder | None = None
        self._docs: Docs | None = None
        self._asks = 0

    async def begin(self) -> None:
        """Offer each of them where it is of use: where not all tools are offered, or not all of a tool is shown."""
        wanted, tools = self._run.settings.find_tools, self._run.tools
        writer = self._writer
        offered = self._with_finder(tools)
        self._docs = docs_for(self._run.all_tools) if wanted else None
        writer.gives_documents = self._docs is not None and bool(self._run.sketch.listed)
        await self._show(offered)
        if wanted and writer.unlisted:  # a prompt has no room for all: programs look for the rest
            away = set(writer.unlisted)
            offered = self._with_finder(tools.only(*(name for name in tools if name not in away)))
        await self._offer(offered)

    def is_request(self, tool: str) -> bool:
        """Return whether that is ``find_tools``, ``tool_docs`` or ``look``, and no user's tool of that name."""
        own = (self._finder, self._docs, self._run.look)
        return any(each is not None and each.tool.name == tool for each in own)

    def may_only_ask(self, program: Program) -> bool:
        """Return whether a program calls ``find_tools`` or ``tool_docs``, and no other tool: it needs no answer."""
        own = {name for name in self._run.tools if self.is_request(name)}
        tree, others = program.tree, self._run.tools.keys() - own
        return tree is not None and calls_one_of(tree, own) and not calls_one_of(tree, others)

    @property
    def finds_more(self) -> bool:
        """Whether tools were left out that a program can look for, and none has looked yet."""
        return self._finder is not None and not self._finder.searches

    @property
    def not_shown(self) -> int:
        """The number of the run's tools whose names no prompt showed."""
        run = self._run
        return sum(name not in run.tools and name not in run.sketch.listed for name in run.all_tools)

    def _may_ask(self) -> bool:
        return self._asks < MAX_ASKS

    def restore(self, stored: StoredRun) -> list[str]:
        """Take up a run that goes on: the programs of the stage that was under way. Its looks count on."""
        programs = self.looks.restore(stored)
        self._asks = len(self.looks.programs)
        self._show_looks()
        return programs

    async def looked(self, program: str, values: Mapping[str, Any]) -> None:
        """Go on after a program that looked: it ends its stage, and the next one is given what it looked at.

        Raises:
            JournalError: it cannot be written down.
        """
        self._asks += 1
        self.looks.programs.append(program)
        origins = await self._run.origins.looked(values)
        self._run.begin_stage(inputs={**self._run.inputs, **values}, origins=origins)
        await self.grant()
        self._show_looks()

    def _show_looks(self) -> None:
        self._writer.looked = self.looks.shown()
        self._writer.may_look = self._writer.look and self._may_ask()

    async def only_asked(self, outcome: Outcome) -> bool:
        """Return whether the last program only asked for what the next one gets: true :data:`MAX_ASKS` times a run."""
        other = [call for call in self._run.last_calls if not self.is_request(call.tool)]
        if outcome.kind != "finished" or other or not self._may_ask():
            return False
        asked = bool(await self.grant())
        self._asks += asked
        return asked

    async def grant(self) -> list[str]:
        """Give the next program what the last one asked for: the tools it found, and whole documents; their names."""
        found = self._finder.take() if self._finder is not None else Toolset()
        whole = self._docs.take() if self._docs is not None else []
        found += self._run.all_tools.only(
            *(name for name in whole if name not in self._run.tools and name not in found)
        )
        asked = [*found, *whole]
        if not asked:
            return []
        self._writer.show_whole(asked)
        tools = self._run.tools  # what it found may be there by now, in the place of a broken tool
        await self._offer(tools + found.only(*(name for name in found if name not in tools)))
        tools = self._run.tools
        offered = [name for name, tool in tools.items() if not self.is_request(name) and not is_ask_user(tool)]
        self._tell(offered, found=list(found), whole=whole)
        return asked

    async def add(self, tools: Toolset) -> None:
        """Offer these tools too, from the next program on."""
        await self._offer(self._run.tools + tools)
        offered = [name for name in self._run.tools if not self.is_request(name)]
        self._tell(offered, found=list(tools))

    async def admit(self, program: Program) -> None:
        """Offer the tools that a program names and that the run has, whether a prompt showed them or not."""
        run = self._run
        if run.all_tools.keys() <= run.tools.keys():
            return
        named = self._writer.named.of(program, run.inputs)
        new = [name for name in named if name not in run.tools and not self.is_request(name)]
        if not new:
            return
        tools = run.all_tools.only(*new)
        try:
            check_schemas(tools)
        except ToolImportError:  # it cannot be called at all
            return
        self._writer.show_whole(new)
        await self.add(tools)

    def _tell(self, offered: Sequence[str], **more: Sequence[str]) -> None:
        listed = self._run.sketch.listed
        self._run.emit("tools_chosen", {"tools": offered, **more, **({"listed": listed} if listed else {})})

    def _with_finder(self, tools: Toolset) -> Toolset:
        run = self._run
        wanted = run.settings.find_tools
        offered = tools + run.all_tools.only(*(n for n in self._planned if n not in tools))
        self._finder = finder_for(offered, run.catalogue, run.sketch.listed) if wanted else None
        return tools if self._finder is None else tools + Toolset([self._finder.tool])

    async def _offer(self, tools: Toolset) -> None:
        await self._show(tools)
        if self._docs is not None:
            listed = self._writer.gives_documents  # which says how it is asked for
            if (self._writer.cut or listed) and self._docs.tool.name not in tools:
                tools += Toolset([self._docs.tool])
            if self._writer.cut and not listed:
                self._writer.gives_documents = True
                self._writer.offer(_without_look(tools))
        look = self._run.look
        await self._run.offer(tools if look is None or LOOK in tools else tools + Toolset([look.tool]))

    async def _show(self, tools: Toolset) -> None:
        shown = _without_look(tools)
        if self._run.sketch.listed and self._docs is not None:  # the prompt says how documents are asked for
            shown = shown.only(*(name for name in shown if shown[name] is not self._docs.tool))
        self._writer.offer(shown)
        with contextlib.suppress(ModelError):  # the next program meets it again
            await self._writer.prepare()


def _without_look(tools: Toolset) -> Toolset:
    """Return these tools as a prompt shows them: one line of it says what ``look`` does, which takes any arguments."""
    return tools.only(*(name for name, tool in tools.items() if not is_look(tool)))
