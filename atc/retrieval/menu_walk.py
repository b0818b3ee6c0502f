"""A model says a tool: it walks the trie of codes by replies that can be nothing but lines of a page.

ToolWeaver (§3.3, §3.4) teaches a model one token for each code and decodes over their trie with a beam. A model that
was taught nothing walks the same trie by words: it is shown the groups of a level, replies with the numbers of up to
:data:`BEAM` of them, and is at last shown the tools of these by name and description. Numbers are the shortest reply,
and no text of a tool becomes part of a grammar. A model that was taught tokens is given them instead of numbers.

What a search finds orders a menu that is too wide for a page, so that likelier lines come on earlier pages. And it
stands behind what the model picks, so that a bad walk costs the first places alone.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from atc.errors import BudgetExceeded, ModelError, ModelUnavailable
from atc.graph.tool_graph import ToolGraph
from atc.models.base import Message, Reply
from atc.prompting import fenced, prompt
from atc.retrieval.asking import FittingAsk, fitting
from atc.retrieval.code_tokens import token_text, without_tokens
from atc.retrieval.dialogue import first_sentence, harmless
from atc.retrieval.index import ToolIndex
from atc.retrieval.menu import LAST, Group, Groups, Line, Rows, likeliest, lines_below, path_of
from atc.retrieval.planner import Said, Trajectory, search_without_plan
from atc.retrieval.prerequisites import SURE, Prerequisites
from atc.retrieval.retriever import Ask
from atc.retrieval.skip_planning import one_tool_suffices
from atc.tools.protocol import JsonSchema

BEAM, PICKS = 3, 5
"""Groups that are gone into at once, and tools that the model may pick."""
GROUPS, TOOLS, TOKENS = 20, 12, 256
"""Lines of a page of groups, and of tools; choices of a model that was taught tokens."""
NEAR = 1_000
"""Tools of the groups that were picked from which on smaller groups are shown; of fewer the likeliest tools are."""
STEPS = 4
"""Questions to a model that reads words. One that was taught tokens is asked once for each thing that it picks."""
RANKED = 1_000
"""Tools by whose places a menu is ordered that is too wide for a page."""
_REPLY_TOKENS = 40
_EXAMPLES = 2
_NAME, _WORDS, _DESCRIPTION = 48, 48, 80
_TASK = 400
"""Characters of a task that are shown with a page; of a longer one the beginning and the end."""


@dataclass
class _Walk:
    """Where a walk is.

    Attributes:
        reached: the groups that were picked last, the likeliest first.
        seen: what was on a page.
        opening: the first page, the task and what was picked.
        picked: tools, in the order in which they were.
        asked: questions to the model.
    """

    task: str
    places: Rows
    reached: list[Group] = field(default_factory=lambda: [()])
    seen: set[Line] = field(default_factory=set)
    opening: list[Message] = field(default_factory=list)
    picked: list[Line] = field(default_factory=list)
    asked: int = 0


class MenuWalk:
    """Has a model pick tools from a menu.

    Args:
        index: of the tools.
        groups: of the same index.
        ask: asks the model; one that takes ``schema`` and ``choices`` is asked with them
            (:class:`~atc.retrieval.asking.FittingAsk`).
        taught: the codes of all tools, of shape ``(tools, levels)``, for a model that was taught their tokens
            (:mod:`atc.retrieval.code_tokens`); then the groups are those of these codes. Words when not given.
        prerequisites: seek what found tools need.
        adaptive: ask nothing where one tool fits clearly and needs nothing.
        beam: groups that are gone into at once.
        picks: tools that the model may pick.
        near: tools of the groups that were picked up to which the likeliest are shown at once.
        steps: questions to the model at most; that many pages are shown.
        graph: what was learnt of the tools, by id.
    """

    def __init__(
        self,
        index: ToolIndex,
        groups: Groups,
        ask: Ask | FittingAsk,
        *,
        taught: NDArray[np.int16] | None = None,
        prerequisites: bool = True,
        adaptive: bool = True,
        beam: int = BEAM,
        picks: int = PICKS,
        near: int = NEAR,
        steps: int | None = None,
        graph: ToolGraph | None = None,
    ) -> None:
        self._index, self._groups, self._ask, self._taught = index, groups, fitting(ask), taught
        self._adaptive, self._beam, self._picks, self._near = adaptive, beam, picks, near
        said = 0 if taught is None else taught.shape[1] * beam + picks
        self._steps = steps if steps is not None else said or STEPS
        self._graph, self._seek = graph, prerequisites

    async def search(self, task: str, limit: int = RANKED, offered: Container[str] | None = None) -> Trajectory:
        """Search for the tools of a task. Where the model fails, what was found until then stands.

        Args:
            limit: tools that the search finds at most, beside those that are picked.
            offered: the ids whose prerequisites count; all when not given.
        """
        done = search_without_plan(
            self._index, task, max(limit, RANKED), prerequisites=self._seek, offered=offered, graph=self._graph
        )
        if self._adaptive and not done.prerequisites and one_tool_suffices(task, done.turns[0].hits):
            done.skipped, done.stopped = True, "one tool fits clearly: no menu was shown"
            return done
        walk = _Walk(task, self._places(done))
        try:
            await self._go(walk, done)
        except (ModelError, ModelUnavailable, BudgetExceeded) as problem:
            done.stopped = str(problem)
        lines = walk.picked or (self._unseen(walk) if done.calls else [])  # without a reply nothing was chosen
        done.said = tuple(
            Said(self._index.ids[line.row], path_of(self._groups, line.group))
            for line in dict.fromkeys(lines)
            if line.row is not None
        )
        if self._seek and done.said:
            done.prerequisites = []
            first = [id for id in done.ranked(SURE) if offered is None or id in offered]
            done.prerequisites = Prerequisites(self._index, self._graph).of(first, task)
        return done

    async def _go(self, walk: _Walk, done: Trajectory) -> None:
        while walk.reached:
            below = self._below(walk)
            lines = [line for line in below if line not in walk.seen]
            if not lines:
                if walk.reached == [()]:
                    return  # all was shown
                walk.reached = [()]  # to the groups that were not on a page yet
                continue
            tools = all(line.row is not None for line in lines)
            page = lines[: TOKENS if self._taught is not None else TOOLS if tools else GROUPS]
            first = not tools and len(page) == len(below) and walk.reached == [()]
            if first:
                page.sort(key=lambda line: line.group)  # the same for every task: the model has read it before
            if len(below) == 1 if tools else len(lines) <= self._beam and all(line.row is None for line in lines):
                picked = lines  # there is nothing to choose
            elif walk.asked >= self._steps:
                return
            else:
                picked = await self._picked(walk, done, page, first)
            walk.seen.update(page)
            if picked:
                walk.picked += [line for line in picked if line.row is not None]
                walk.reached = [line.group for line in picked if line.row is None]

    def _below(self, walk: _Walk) -> list[Line]:
        if self._taught is not None:
            return lines_below(self._groups, walk.reached, 0, walk.places)  # it says them all
        return lines_below(self._groups, walk.reached, TOOLS if walk.reached == [()] else self._near, walk.places)

    async def _picked(self, walk: _Walk, done: Trajectory, page: Sequence[Line], stable: bool) -> list[Line]:
        """The lines of a page that the model picks, the best first."""
        tools = all(line.row is not None for line in page)
        most = min(self._picks if tools else self._beam, len(page))
        if self._taught is not None:
            return await self._said(walk, done, page, most, self._taught)
        shown = prompt("menu_tools" if tools else "menu_groups", page=_page(self._lines(page)))
        asked = prompt("menu_task", task=_cut(walk.task), what="tools" if tools else "groups", most=most)
        system = Message("system", prompt("menu_system"), fixed=True)
        text = Message("user", f"{shown}\n\n{asked}", stable=len(shown) + 2 if stable else 0)
        reply = await self._next(walk, done, [*(walk.opening or [system]), text], schema=_schema(len(page), most))
        if not walk.opening:
            walk.opening = done.messages[:]  # a later page takes the place of those between
        numbers = (int(number) for number in reply.value["pick"])  # 2.0 is a whole number to a schema
        return [page[number - 1] for number in dict.fromkeys(numbers)]

    async def _said(
        self, walk: _Walk, done: Trajectory, page: Sequence[Line], most: int, taught: NDArray[np.int16]
    ) -> list[Line]:
        """As :meth:`_picked`, of a model that was taught tokens: what it says below each group, then the next best.

        No probabilities are to be had. So each group gives its best, and again without it, as a beam would go on.
        """
        left = {group: dict[str, Line]() for group in walk.reached}
        for line in page:
            codes = line.group if line.row is None else taught[line.row].tolist()
            left[next(group for group in left if line.group[: len(group)] == group)][token_text(codes)] = line
        found: list[Line] = []
        messages = [Message("user", without_tokens(walk.task))]
        while len(found) < most and (waiting := [lines for lines in left.values() if lines]):
            for lines in waiting[: most - len(found)]:
                said = next(iter(lines))
                if len(lines) > 1:
                    if walk.asked >= self._steps:
                        return found
                    said = (await self._next(walk, done, messages, choices=[*lines])).value
                found.append(lines.pop(said))
        return found

    async def _next(
        self,
        walk: _Walk,
        done: Trajectory,
        messages: Sequence[Message],
        *,
        schema: JsonSchema | None = None,
        choices: Sequence[str] | None = None,
    ) -> Reply:
        """The model's reply, which joins the conversation.

        Raises:
            ModelError: it is none of what it could be, though asked for twice.
        """
        walk.asked += 1
        reply = await self._ask(messages, _REPLY_TOKENS, schema=schema, choices=choices)
        done.calls += 1
        done.messages += [*(messages[-1:] if done.messages else messages), Message("assistant", reply.text)]
        if reply.value is None:
            raise ModelError(f"the model picked nothing that was shown: {reply.problem or 'it replied nothing'}")
        return reply

    def _lines(self, page: Sequence[Line]) -> list[str]:
        """The lines of a page, which text of a tool can neither end nor leave."""
        services = {self._index.ids[line.row].rpartition("/")[0] for line in page if line.row is not None}
        return [self._line(line, len(services) > 1) for line in page]

    def _line(self, line: Line, service: bool) -> str:
        if line.row is None:
            first = len(line.group) == 1  # this page is read but once; on others examples cost more than they tell
            some = self._groups.examples(line.group)[: _EXAMPLES if first else 0]
            examples = dict.fromkeys(harmless(_last(id), _NAME // 2) for id in some)
            words = harmless(self._groups.words(line.group), _WORDS)
            return ": ".join(filter(None, (words, ", ".join(examples))))
        id = self._index.ids[line.row]
        described = harmless(first_sentence(self._index.protocol(id).description), _DESCRIPTION)
        return f"{harmless(_last(id, 2 if service else 1), _NAME)}: {described or '(no description)'}"

    def _places(self, done: Trajectory) -> Rows:
        """The place of each row of the index in the search by the task's own words."""
        places = np.full(len(self._index), LAST, np.int64)
        found = self._index.rows([hit.id for hit in done.turns[0].hits])
        places[found] = np.arange(len(found))
        return places

    def _unseen(self, walk: _Walk) -> list[Line]:
        """Of a walk that ended at groups: the likeliest tool of each, of those that were not shown to the model."""
        if walk.reached == [()]:
            return []
        found = (likeliest(self._groups, group, walk.places) for group in walk.reached)
        first = [next((line for line in lines if line not in walk.seen), None) for lines in found]
        return [line for line in first if line is not None and line.row is not None and walk.places[line.row] < LAST]


def _last(id: str, parts: int = 1) -> str:
    """The last parts of an id: its tool, or its service and its tool."""
    return "/".join(id.split("/")[-parts:])


def _page(lines: Iterable[str]) -> str:
    numbered = (f"{number}. {line}" for number, line in enumerate(lines, 1))
    return "\n".join(("```text", *numbered, "```"))


def _cut(task: str) -> str:
    """A task as it stands beside a page."""
    task = fenced(task)
    return task if len(task) <= _TASK else f"{task[: _TASK * 2 // 3]} … {task[-_TASK // 3 :]}"


def _schema(lines: int, most: int) -> JsonSchema:
    """The reply: numbers of lines, ``most`` at most."""
    numbers = {"type": "integer", "enum": list(range(1, lines + 1))}
    return {
        "type": "object",
        "properties": {"pick": {"type": "array", "items": numbers, "maxItems": most}},
        "required": ["pick"],
        "additionalProperties": False,
    }
