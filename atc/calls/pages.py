"""``all_pages(tool, …)`` of a program: one request of the sandbox, and one broker call for every page.

Nothing is cut in silence: where a bound is hit, where the next page cannot be asked for, or where a service answers the
same again, the program gets an error. A URL in a response is never asked for; arguments are read from it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from atc._records.outcome import Outcome
from atc._records.packing import pack
from atc.calls.attempt import Attempt
from atc.calls.broker import Broker
from atc.calls.contract import CallReply, CallRequest
from atc.calls.json_values import canonical
from atc.errors import CallRefused
from atc.schemas.protocol import Protocol, original_arguments
from atc.schemas.repair import repair_arguments
from atc.tools.paging import ALL_PAGES, Paging, is_positional, paging_of

if TYPE_CHECKING:
    from atc.tools.paged import Page

MAX_PAGES, MAX_ITEMS, MAX_BYTES = 50, 10_000, 8_000_000
"""The limits of one ``all_pages``: pages, items, and bytes of all items as JSON."""
MAX_DIGITS = 18
"""Digits of the number of a page or an item."""
_BEYOND_THE_END = (400, 404, 416, 422)
"""The statuses with which services refuse a page that does not exist."""


@dataclass(frozen=True)
class Part:
    """One call of the broker, which answered a request of the program or one page of it.

    Attributes:
        number: of the call in the run.
        path: leads to the items in its response.
        count: items that the program got of it; ``None``: the whole response.
    """

    number: int
    path: tuple[str, ...] = ()
    count: int | None = None


class Pages:
    """Serves a run's programs: :meth:`call` is what a sandbox driver is given.

    Args:
        broker: makes the calls.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._parts: dict[tuple[int, int], list[Part]] = {}
        self._failed: dict[tuple[int, int], int] = {}
        self._asked: dict[tuple[int, int], tuple[str, dict[str, Any]]] = {}  # by ``all_pages``

    async def call(self, request: CallRequest) -> CallReply:
        """Handle one call of a program.

        Raises:
            JournalError: as :meth:`Broker.call`.
        """
        if request.tool == ALL_PAGES and ALL_PAGES not in self._broker.tools:
            return await self._all(request)
        if request.unknown:
            request = request._replace(unknown=self._run_numbers(request), forms=self._with_run_numbers(request))
        handled = await self._broker.handled(request)
        self._served(request, Part(handled.number))
        return self._answered(request, handled.reply, handled.number)

    def read(self) -> list[dict[str, Any]]:
        """Return each ``all_pages`` of the program that ran, so that one can tell what it got.

        Each has its ``tool``; the ``arguments`` as the program gave them, by the names that the tool knows; ``calls``:
        of each page the number of its call in the run, the way to its items, and how many the program got of them; and
        ``failed``: the number of the call whose error it was answered with, where it was.
        """
        attempt = self._broker.journal.attempt
        found = []
        for key, (tool, arguments) in self._asked.items():
            if key[0] != attempt:
                continue
            parts = [[part.number, list(part.path), part.count] for part in self._parts.get(key, ())]
            made: dict[str, Any] = {"tool": tool, "arguments": arguments, "calls": parts}
            found.append(made | ({"failed": self._failed[key]} if key in self._failed else {}))
        return found

    def placed(self, outcome: Outcome) -> Outcome:
        """Return an outcome whose error names calls by their numbers in the run: the one that failed, and the one whose
        response a value came from, with a path in that response."""
        error = outcome.error
        if error is None:
            return outcome
        origin = self._place(*error.origin) if error.origin is not None else None
        call = self._failed.get((self._broker.journal.attempt, error.call or 0))
        return dataclasses.replace(outcome, error=dataclasses.replace(error, origin=origin, call=call))

    def _place(self, number: int, path: tuple[str | int, ...]) -> tuple[int, tuple[str | int, ...]] | None:
        position = path[0] if path else None
        for part in self._parts.get((self._broker.journal.attempt, number), ()):
            if part.count is None:
                return part.number, path
            if type(position) is not int or position < 0:
                return None
            if position < part.count:
                return part.number, (*part.path, position, *path[1:])
            position -= part.count
        return None

    def _with_run_numbers(self, request: CallRequest) -> dict[str, Any] | None:
        if request.forms is None:
            return None
        from atc.calls.forms import read_form  # of dry runs alone

        made = {name: read_form(form, self._made) for name, form in request.forms.items()}
        return {name: form for name, form in made.items() if form is not None}

    def _made(self, number: int) -> int:
        return next((part.number for part in self._parts.get((self._broker.journal.attempt, number), ())), 0)

    def _run_numbers(self, request: CallRequest) -> dict[str, list[tuple[int, tuple[str | int, ...]]]]:
        return {
            name: [(self._made(number), path) for number, path in places] for name, places in request.unknown.items()
        }

    def _served(self, request: CallRequest, part: Part) -> None:
        self._parts.setdefault((self._broker.journal.attempt, request.number), []).append(part)

    def _answered(self, request: CallRequest, reply: CallReply, number: int) -> CallReply:
        if reply.error is not None:
            self._failed[self._broker.journal.attempt, request.number] = number
        return reply

    def _refused(self, request: CallRequest, problem: CallRefused) -> CallReply:
        reply = self._broker.refuse(request, problem)
        return self._answered(request, reply, self._broker.calls[-1].index)

    async def _all(self, request: CallRequest) -> CallReply:
        name, given = request.arguments.get("tool"), request.arguments.get("arguments")
        if not isinstance(name, str) or not isinstance(given, dict) or len(request.arguments) != 2:
            return self._refused(request, CallRefused("it takes a tool and its arguments", status="invalid_arguments"))
        request = request._replace(tool=name[:200], arguments=given)
        known_tool = self._broker.tools.get(name)
        asked = given if known_tool is None else original_arguments(known_tool.protocol, given)
        self._asked[self._broker.journal.attempt, request.number] = request.tool, asked
        if known_tool is None:
            refused = await self._broker.handled(request)
            return self._answered(request, refused.reply, refused.number)
        if request.unknown:
            return await self.call(request)  # which plans it: no page can be asked for yet
        protocol = known_tool.protocol
        paging = paging_of(protocol)
        if paging is None:
            text = f"{ALL_PAGES} reads tools that are paged, and {name} is not, by its document: call it itself"
            return self._refused(request, CallRefused(text, status="not_paged"))
        known = self._broker.repairs.key_aliases.get(name)
        reader = _Reader(protocol, paging, asked, self._broker.rules, known)
        try:
            return await self._read(request, reader)
        except CallRefused as error:
            return self._refused(request, error)

    async def _read(self, request: CallRequest, reader: _Reader) -> CallReply:
        arguments = reader.begin()
        while arguments is not None:
            page_request = request._replace(arguments=arguments, page=reader.number)
            handled = await self._broker.handled(page_request)
            if handled.reply.planned:
                self._served(request, Part(handled.number))
                return handled.reply
            if handled.reply.error is not None:
                if reader.is_beyond_the_end(handled.reply):
                    self._broker.past_the_end.add(handled.number)
                    break
                return self._answered(request, handled.reply, handled.number)
            page, count = reader.read(handled)
            self._served(request, Part(handled.number, page.path, count))
            arguments = reader.following(arguments, page, handled)
        return CallReply(value=reader.items)


@dataclass
class _Reader:
    """Keeps what one ``all_pages`` has read, and what it asks for next.

    ``asked`` holds the arguments as the program gave them, ``given`` as the broker repairs them.
    ``known``: keys that mean a parameter.
    """

    protocol: Protocol
    paging: Paging
    asked: dict[str, Any]
    rules: frozenset[str]
    known: Mapping[str, str] | None
    items: list[Any] = field(default_factory=list)
    _pages: int = 0
    _bytes: int = 0
    _repeated: int = 0
    _asked: set[str] = field(default_factory=set)
    _last: list[Any] = field(default_factory=list)
    _trying_one: bool = False
    _ended: bool = False

    def __post_init__(self) -> None:
        self.given = self._repaired(self.asked)

    @property
    def number(self) -> int:
        """Return the number of the page that is read next, from 1."""
        return self._pages + 1

    def begin(self) -> dict[str, Any] | None:
        """Return the arguments of the first page."""
        name, first = self.paging.parameter, self.paging.first
        must_be_given = name in self.protocol.required and name not in self.given and first is not None
        return {**self.asked, name: first} if must_be_given else self.asked

    def read(self, handled: Attempt) -> tuple[Page, int]:
        """Take the items of a page; return the page and how many of its items were taken.

        Raises:
            CallRefused: it is not a page, or the same as the one before, or one too many.
        """
        from atc.tools.paged import NoList, read_page

        try:
            page = read_page(self.paging, self.protocol.name, handled.reply.value)
        except NoList as problem:
            raise CallRefused(f"{ALL_PAGES} cannot read {self.protocol.name}: {problem}", status="not_paged") from None
        self._pages += 1
        again = self.paging.by in ("page", "offset") and bool(page.items) and page.items == self._last
        if again:
            self._repeated += 1
            if not self._trying_one:
                if not self._is_short():
                    self._stop("it answers the same items for another page", "same_page")
                self._ended = True
        else:
            self._take(page.items)
        self._trying_one, self._last = False, page.items
        return page, 0 if again else len(page.items)

    def _take(self, items: list[Any]) -> None:
        self.items += items
        self._bytes += len(json.dumps(pack(items), ensure_ascii=False).encode("utf-8", "replace"))
        if len(self.items) > MAX_ITEMS:
            self._stop(f"there are more than {MAX_ITEMS:,} items", "too_many_items")
        if self._bytes > MAX_BYTES:
            self._stop(f"its items have more than {MAX_BYTES:,} bytes", "too_large")

    def following(self, arguments: dict[str, Any], page: Page, handled: Attempt) -> dict[str, Any] | None:
        """Return the arguments of the next page; ``None`` after the last one.

        Raises:
            CallRefused: there is a next page, and it cannot be asked for.
        """
        arguments = self._repaired(arguments)
        self._asked.add(canonical(arguments))
        changed = self._changed(arguments, page, handled)
        if changed is None:
            return None
        made = self._repaired({**arguments, **changed})
        if canonical(made) in self._asked:
            if not page.items:
                return None  # some services go on naming a next page behind the last
            self._stop("its pages lead back to one that was read", "loop")
        if self._pages >= MAX_PAGES:
            self._stop(f"there are more than {MAX_PAGES} pages", "too_many_pages")
        return made

    def _repaired(self, arguments: dict[str, Any]) -> dict[str, Any]:
        schema, effect = self.protocol.parameters, self.protocol.effect
        return repair_arguments(schema, arguments, effect, self.known, self.rules).arguments

    def is_beyond_the_end(self, reply: CallReply) -> bool:
        """Return whether a page was refused because there is none: the one before was not full."""
        counts = self.paging.by in ("page", "offset")
        return counts and self._pages > 0 and reply.status in _BEYOND_THE_END and self._is_short()

    def _changed(self, arguments: dict[str, Any], page: Page, handled: Attempt) -> dict[str, Any] | None:
        if handled.next_page is False or self._ended:
            return None
        if handled.next_page is not None:
            return self._positional(handled.next_page, arguments)
        if page.more is False:
            return None
        if page.next is not None:
            from atc.tools.paged import arguments_of_url, is_url

            if is_url(page.next):
                return self._positional(arguments_of_url(str(page.next), self.protocol), arguments)
            return {self.paging.parameter: page.next}
        if not page.items and page.more is None:
            return None
        match self.paging.by:
            case "page" | "offset":
                return None if page.more is None and self._is_all(page) else self._counted(arguments, page)
            case "last":
                return self._after(page)
        if page.more or (self.paging.next is None and not self._is_short()):
            self._stop("its response does not say where the next page begins", "no_next_page")
        return None

    def _positional(self, wanted: dict[str, str], arguments: dict[str, Any]) -> dict[str, Any]:
        changed = {n: text for n, text in wanted.items() if is_positional(n) and str(arguments.get(n)) != text}
        if not changed:
            self._stop("the address of its next page holds none of its arguments", "no_next_page")
        return dict(changed)

    def _counted(self, arguments: dict[str, Any], page: Page) -> dict[str, Any]:
        name = self.paging.parameter
        at = arguments.get(name, self.paging.first if self.paging.first is not None else page.current)
        if at is None:  # if it counts from 0, its page 1 is another one
            self._trying_one = True
            return {name: 1}
        if (number := _whole(at)) is None:
            self._stop(f"{name} is no number", "invalid_arguments")
        return {name: number + (len(page.items) if self.paging.by == "offset" else 1)}

    def _after(self, page: Page) -> dict[str, Any] | None:
        last = page.items[-1] if page.items else None
        identifier = last.get("id") if isinstance(last, dict) else None
        if not isinstance(identifier, str | int):
            self._stop("its last item has no id, by which the next page is asked for", "no_next_page")
        return {self.paging.parameter: identifier}

    def _is_all(self, page: Page) -> bool:
        if self.paging.parameter in self.given:
            return False  # it began in the middle
        if page.pages is not None and self.paging.by == "page":
            return self._pages - self._repeated >= page.pages > 0
        return page.total is not None and page.total >= len(page.items) and len(self.items) >= page.total

    def _is_short(self) -> bool:
        if self.paging.size is None:
            return False
        schema = self.protocol.parameters["properties"][self.paging.size]
        size = _whole(self.given.get(self.paging.size, schema.get("default") if isinstance(schema, dict) else None))
        return size is not None and len(self._last) < size

    def _stop(self, why: str, status: str) -> NoReturn:
        read = f"{len(self.items):,} items of {self._pages} pages were read"
        advice = "narrow it down by its arguments, or read it page by page"
        raise CallRefused(
            f"{ALL_PAGES}({self.protocol.name}) cannot be finished: {why} ({read}); {advice}", status=status
        )


def _whole(value: Any) -> int | None:
    digits = str(value)
    return (
        int(digits) if len(digits) <= MAX_DIGITS and digits.isascii() and digits.removeprefix("-").isdigit() else None
    )
