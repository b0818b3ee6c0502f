"""The stubs of some tools within a budget: whole where they fit, else each as much as there is room for.

The tools' order is their rank: what room is left goes to the first ones, and where even single lines do not fit, the
last are left out. They may be shown in another order than that.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from atc.catalogue.graph.suppliers import Suppliers, hints_from
from atc.catalogue.graph.tool_facts import writers
from atc.schemas.protocol import Protocol
from atc.schemas.types import RESERVED
from atc.tools.outline import Outline, words_of_task
from atc.tools.paging import paging_line
from atc.tools.short_stubs import LADDER, WHOLE, Grade, short_stub
from atc.tools.stubs import Stub, shown_examples, whole_stub

Count = Callable[[str], Awaitable[int]]
SEPARATOR = "\n\n\n"
MOST_CHARACTERS = 8
"""Characters of a token, at most, of a text as long as a prompt: what is longer than so many is not written out."""
CHARACTERS = 3.0
"""Characters of a token at first, before the text was counted."""
MOST_SHARED = 4
"""How many times the room the stubs may take before what they share is written once."""
ROUNDS, FILLED = 3, 0.9
"""Most rounds of counting, and the share of the budget that ends them early."""


@dataclass(frozen=True)
class Fit:
    """What a prompt shows.

    Attributes:
        text: the stubs.
        grades: for each tool that is shown, the name of its :class:`~atc.tools.short_stubs.Grade`.
        left_out: tools for which there was no room at all.
        tokens: of the text, where it was counted; else an upper bound.
        language: in which the text is written, as a fence names it.
    """

    text: str
    grades: Mapping[str, str]
    left_out: tuple[str, ...] = ()
    tokens: int = 0
    language: str = "python"

    @property
    def shortened(self) -> bool:
        """Whether any document is not whole."""
        return bool(self.left_out) or any(grade != WHOLE.name for grade in self.grades.values())


class Fitter:
    """Fits the stubs of some tools to different budgets; what was rendered once is kept.

    Args:
        protocols: the tools, by rank.
        suppliers: who can supply which argument (:attr:`atc.catalogue.graph.tool_graph.ToolGraph.suppliers`).
        task: the user's words: what they name is shown before the rest.
        keep: names of tools that are always shown whole.
        first: names of tools that have as much room as they need, before all others.
        ask: the name of the tool that a program asks for what was cut; ``None`` where there is none.
        pages: say of a paged tool how all its pages are read.
        plain: what is shown whole is shown plain (:func:`atc.tools.stubs.whole_stub`).
        share: where all are shown so, a type that several of them return is written once.
        order: names of all tools in the order in which they are shown; by rank where it is empty.
    """

    def __init__(
        self,
        protocols: Sequence[Protocol],
        suppliers: Suppliers,
        task: str = "",
        *,
        keep: Collection[str] = (),
        first: Collection[str] = (),
        ask: str | None = None,
        pages: bool = False,
        plain: bool = False,
        share: bool = False,
        order: Sequence[str] = (),
    ) -> None:
        self._place = {name: at for at, name in enumerate(order)}
        self._protocols = {protocol.name: protocol for protocol in protocols}
        self._suppliers, self._task, self._ask, self._pages, self._plain = suppliers, task, ask, pages, plain
        self._keep, self._share = frozenset(keep), share
        self._first = [name for name in first if name in self._protocols and name not in self._keep]
        writing = writers(self._protocols)
        self._hints = hints_from(suppliers, writes=writing)
        self._short_hints = hints_from(suppliers, 1, writes=writing)
        self._words = words_of_task(task)
        self._taken = RESERVED | self._protocols.keys()
        self._outline: Outline | None = None
        self._short: dict[tuple[str, Grade], Stub] = {}
        self._whole: dict[str, tuple[int, Stub | None]] = {}

    async def fit(self, tokens: int, count: Count, *, spare: int = 0) -> Fit:
        """The most that fits so many tokens, as ``count`` counts them; it is asked about four times.

        The stubs are written in a thread: the tools may be many, and their documents of any size.

        Args:
            tokens: the budget.
            count: counts the tokens of a text.
            spare: tokens of the budget that are left free where not all is shown whole.
        """
        most = max(0, tokens) * MOST_CHARACTERS
        if (whole := await self._whole_in(tokens, most, count)) is not None:
            return whole
        tokens = max(0, tokens - spare)
        room, best = tokens * CHARACTERS, Fit("", {}, tuple(self._protocols))
        for _ in range(ROUNDS):
            made = await asyncio.to_thread(self.within, int(room))
            used = await count(made.text)
            if used <= tokens and len(made.text) > len(best.text):
                best = replace(made, tokens=used)
            if FILLED * tokens <= used <= tokens or room >= most:
                break
            room = min(most, len(made.text) * tokens / max(1, used) * (0.98 if used > tokens else 1.0))
        while not best.text and room >= 1:
            room /= 2  # a text that is dear for its length: it needs less than what was counted says
            made = await asyncio.to_thread(self.within, int(room))
            if made.text and (used := await count(made.text)) <= tokens:
                return replace(made, tokens=used)
        return best

    async def _whole_in(self, tokens: int, most: int, count: Count) -> Fit | None:
        if (whole := await asyncio.to_thread(self.whole, most)) is None:
            return None
        used = len(whole.text.encode())  # no tokenizer makes more of it
        if used > tokens and (used := await count(whole.text)) > tokens:
            return None
        return replace(whole, tokens=used)

    def whole(self, room: int) -> Fit | None:
        """Return all stubs whole; ``None`` where they take more than so many characters."""
        stubs: dict[str, Stub] = {}
        left = room * MOST_SHARED if self._share else room
        for name in self._in_order([*self._protocols]):
            stub = self._whole_within(name, room)
            if stub is None or (left := left - len(stub.text)) < 0:
                return None
            stubs[name] = stub
        if self._share and sum(bool(stub.records) for stub in stubs.values()) > 1:
            from atc.tools.shared_types import with_shared_types  # few runs have tools that return records

            stubs = with_shared_types(stubs, self._taken)
        texts = [stub.text for stub in stubs.values()]
        return (
            Fit(SEPARATOR.join(texts), dict.fromkeys(self._protocols, WHOLE.name))
            if sum(map(len, texts)) <= room
            else None
        )

    def within(self, room: int) -> Fit:
        """The most that fits so many characters."""
        shown = list(self._protocols)
        grades = {name: WHOLE if name in self._keep else LADDER[-1] for name in shown}
        while shown and len(self._text(shown, grades, room)) > room:
            pinned = {*self._keep, *self._first}
            shown.remove(next((name for name in reversed(shown) if name not in pinned), shown[-1]))
        for name in self._first:
            any(self._raised(name, grade, shown, grades, room) for grade in LADDER[:-1] if name in shown)
        cut = [name for name in shown if name not in self._keep and name not in self._first]
        higher = list(reversed(LADDER[:-1]))
        while higher and self._fits(shown, level := grades | dict.fromkeys(cut, higher[0]), room):
            grades = level
            del higher[0]
        for grade in higher:  # what room is left, to the first ones
            raised = [name for name in cut if self._raised(name, grade, shown, grades, room)]
            if not raised:
                break
            cut = raised
        left_out = tuple(name for name in self._protocols if name not in shown)
        return Fit(self._text(shown, grades, room), {name: grades[name].name for name in shown}, left_out)

    def _raised(self, name: str, grade: Grade, shown: Sequence[str], grades: dict[str, Grade], room: int) -> bool:
        before = grades[name]
        grades[name] = grade
        if self._fits(shown, grades, room):
            return True
        grades[name] = before
        return False

    def _fits(self, shown: Sequence[str], grades: dict[str, Grade], room: int) -> bool:
        if any(grades[name] is WHOLE and self._whole_within(name, room) is None for name in shown):
            return False
        return sum(map(len, self._parts(shown, grades, room))) + len(SEPARATOR) * (len(shown) - 1) <= room

    def _text(self, shown: Sequence[str], grades: dict[str, Grade], room: int) -> str:
        return SEPARATOR.join(self._parts(shown, grades, room))

    def _parts(self, shown: Sequence[str], grades: dict[str, Grade], room: int) -> list[str]:
        return [self._stub(name, grades[name], room).text for name in self._in_order(shown)]

    def _in_order(self, names: Sequence[str]) -> Sequence[str]:
        return sorted(names, key=self._place.__getitem__) if self._place else names

    def _stub(self, name: str, grade: Grade, room: int) -> Stub:
        if grade is WHOLE:
            if (stub := self._whole_within(name, room)) is not None:
                return stub
            grade = LADDER[-1]
        if (name, grade) not in self._short:
            if self._outline is None:
                self._outline = Outline(list(self._protocols.values()), self._suppliers, self._task)
            hints = self._short_hints.get(name, {})
            self._short[name, grade] = short_stub(
                self._protocols[name], grade, self._outline, hints, self._words, self._ask, pages=self._pages
            )
        return self._short[name, grade]

    def _whole_within(self, name: str, room: int) -> Stub | None:
        """A whole stub of at most about so many characters; what was found too long is not tried again for less."""
        tried, stub = self._whole.get(name, (-1, None))
        if stub is None and room > tried:
            hints = self._hints.get(name, {})
            stub = whole_stub(self._protocols[name], hints, room, pages=self._pages, plain=self._plain)
            self._whole[name] = (room, stub)
        return stub if stub is not None and len(stub.text) <= room else None


_SHOWN = {"name", "description", "parameters", "returns", "statuses"}


def json_documents(protocols: Sequence[Protocol], *, pages: bool = True) -> Fit:
    """All documents, whole.

    Args:
        protocols: of the tools, in the order in which they are shown.
        pages: say of a tool which argument asks for the next page.
    """
    texts = []
    for protocol in protocols:
        paged = {"pages": line} if pages and (line := paging_line(protocol)) else {}
        document = protocol.model_dump(mode="json", include=_SHOWN) | {"examples": shown_examples(protocol)} | paged
        for name in ("statuses", "examples"):
            if not document[name]:
                del document[name]
        texts.append(json.dumps(document, ensure_ascii=False))
    return Fit(SEPARATOR.join(texts), {protocol.name: WHOLE.name for protocol in protocols}, language="json")
