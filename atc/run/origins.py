"""Finds where the arguments of one run's calls come from: what its programs say, and what the run saw.

A program is followed once, in a thread, and only if somebody asks (:mod:`atc.programs.origins`). The run adds to what
was found, and never takes away: to a literal that stands in what strangers wrote, where it stands; to the literals of
a program whose author had seen such text, the tools that it had it from.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from atc._records.origins import UNKNOWN, CallOrigins, Origin, Origins
from atc.calls.attempt import AskedAbout, Attempt, Found
from atc.schemas.protocol import Protocol as ToolProtocol
from atc.schemas.protocol import original_arguments, parameters_of

if TYPE_CHECKING:
    from atc.programs.origins.program import ProgramOrigins
    from atc.result import Call
    from atc.run.run import BegunProgram, InputOrigins, Run

LOOK = "look"
LITERAL, AUTHOR = frozenset({Origin(kind="literal")}), frozenset({Origin(kind="author")})
MAX_READ = 2_000_000
"""Characters of responses that one call's literals are looked for in."""
MAX_PLACES = 20
"""Places of a response at which a literal stands that are named; of more the whole response is."""
_OWN_TEXT = frozenset({"literal", "author"})


class FollowedProgram:
    """Follows one program as it ran, as soon as somebody asks. Of calls without one (:class:`BegunProgram` has no
    source then, or there is none) nothing is known."""

    def __init__(self, begun: BegunProgram | None = None) -> None:
        self._begun = begun if begun is not None and begun.source else None
        self._lock = threading.Lock()
        self._followed: ProgramOrigins | None = None

    def of_call(self, tool: str, line: int, arguments: Collection[str]) -> CallOrigins:
        """Return the origins of a call's arguments, by the names that the tool knows."""
        if self._begun is None:
            return dict.fromkeys(arguments, UNKNOWN)
        with self._lock:
            found = self._program(self._begun).of_call(tool, line, arguments)
        return {**dict.fromkeys(arguments, UNKNOWN), **found}

    def of_variable(self, name: str) -> Origins:
        """Return the origins of what a variable of the program holds when it ends."""
        if self._begun is None:
            return UNKNOWN
        with self._lock:
            return self._program(self._begun).of_variable(name)

    def _program(self, begun: BegunProgram) -> ProgramOrigins:
        if self._followed is None:
            from atc.programs.origins.program import ProgramOrigins
            from atc.programs.program import Program

            given = dict(begun.inputs())
            if begun.text == "author":  # a client's model gave them, too, but for those that were kept for it
                given = {**dict.fromkeys(begun.names, AUTHOR), **given}
            inputs = {name: given.get(name, UNKNOWN) for name in begun.names}
            program = Program(begun.source, begun.hoisted)
            self._followed = ProgramOrigins(program, begun.tools, inputs=inputs, task=begun.task, text=begun.text)
        return self._followed


class RunOrigins:
    """Finds the origins of the arguments of one run's calls (:class:`atc.calls.attempt.ArgumentOrigins`).

    A call that no program makes (:meth:`Run.call`) has those that its caller says, as an inverse of ``undo`` has those
    of the call that it undoes; else they are ``unknown``. A read that settles a call in doubt does not come here: it is
    made outside of its run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._programs: dict[tuple[int, int], FollowedProgram] = {}

    # -- the programs of the run ---------------------------------------------------------------------------------------

    def program(self, number: tuple[int, int]) -> FollowedProgram:
        """Return a program of the run, by the numbers of its stage and its own; it is followed once."""
        if number not in self._programs:
            self._programs[number] = FollowedProgram(self._run.begun.get(number))
        return self._programs[number]

    @property
    def last(self) -> FollowedProgram:
        """Return the program that ran last."""
        return self.program((self._run.broker.journal.stage, self._run.broker.journal.attempt))

    async def looked(self, values: Mapping[str, Any]) -> InputOrigins:
        """Return the origins of what the next program is given after one that looked at these values.

        They are those that the arguments of its ``look`` had, and of what it had itself. They are found at once where
        a rule may ask for them, so that the journal has them.
        """
        program, before, names = self.last, self._run.input_origins, [*values]
        line = next((call.line for call in self._run.last_calls if call.tool == LOOK and call.succeeded), 0)

        @cache
        def found() -> Mapping[str, Origins]:
            return {**before(), **program.of_call(LOOK, line, names)}

        if self._run.wants_origins:
            await asyncio.to_thread(found)
        return found

    def answer(self, value: Any) -> Callable[[], Origins]:
        """Return what finds the origins of the run's answer; unknown where it is not what the last program set."""
        program = self.last
        if value != self._run.last_answer:
            return lambda: UNKNOWN
        return cache(lambda: program.of_variable("answer"))

    # -- one call ------------------------------------------------------------------------------------------------------

    async def of(self, attempt: Attempt) -> Found:
        """Return where the arguments of a call come from, as they are sent."""
        asked, strangers, author = attempt.asked(), self._run.broker.strangers(), self._run.author
        calls = [call for call in self._run.calls if call.succeeded and call.tool in strangers]

        def found() -> Found:  # a program and the answers that it had may be long
            origins = _seen(self.later(asked), asked, calls)
            try:
                saw = () if author is None else author.saw(attempt, origins)
            except Exception:  # whatever a program makes of it: the call counts as written since
                saw = tuple(sorted({*strangers, *(() if author is None else author.heard)}))
            return Found(with_author(origins, saw), saw)

        return await asyncio.to_thread(found)

    def later(self, asked: AskedAbout) -> CallOrigins:
        """Return the same of a call that has ended, without what its run saw."""
        tool = self._run.broker.tools.get(asked.tool)
        protocol = None if tool is None else tool.protocol
        try:
            given = asked.given if protocol is None else original_arguments(protocol, dict(asked.given))
            if asked.said is not None:
                said = asked.said
                return _repaired({name: said.get(name, UNKNOWN) for name in given}, given, asked)
            found = self.program(asked.program).of_call(asked.tool, asked.line, given)
            return _repaired(_doubted(found, given, asked, protocol), given, asked)
        except Exception:  # whatever a program makes of it: nobody knows then
            return dict.fromkeys(asked.sent, UNKNOWN)


def _doubted(
    found: CallOrigins, given: Mapping[str, Any], asked: AskedAbout, protocol: ToolProtocol | None
) -> CallOrigins:
    """Add ``unknown`` where the call does not look as its program says: it has two names of one argument, or the name
    that no program writes (``from`` in place of ``from_``), or a value where the program has none."""
    own = {} if protocol is None else {each.original: each.name for each in parameters_of(protocol)}
    odd = len(given) < len(asked.given) or any(own.get(name, name) != name for name in asked.given)
    if odd:
        return {name: of | UNKNOWN for name, of in found.items()}
    return {name: of or (UNKNOWN if given.get(name, True) else LITERAL) for name, of in found.items()}


def _repaired(found: CallOrigins, given: Mapping[str, Any], asked: AskedAbout) -> CallOrigins:
    """A repair by rule makes an argument of what the program gave: of that argument, or of whatever it gave. What a
    model gave in its place can have any origin."""
    if not (asked.repairs or asked.by_model) and asked.sent.keys() <= found.keys():
        return found
    everything: Origins = frozenset().union(*found.values())
    respelt = {str(each.name): each.path[0] for each in asked.repairs if each.kind == "respelt" and len(each.path) == 1}
    made: dict[str, Origins] = {}
    for name, value in asked.sent.items():
        if name in given and name in found and _is_same(given[name], value):
            made |= {path: of for path, of in found.items() if path == name or path.startswith(f"{name}.")}
        elif asked.by_model:
            made[name] = UNKNOWN | everything
        elif name in found:
            made[name] = found[name]
        elif respelt.get(name) in found:
            made[name] = found[str(respelt[name])]
        else:
            made[name] = everything or UNKNOWN
    return made


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _seen(found: CallOrigins, asked: AskedAbout, calls: Iterable[Call]) -> CallOrigins:
    """Add to each argument, and part of one, that is the program's own text alone where it stands in what strangers
    wrote before; where that is too much to be read, all that they wrote."""
    own = [path for path, of in found.items() if {each.kind for each in of} <= _OWN_TEXT]
    before = [call for call in calls if call.index < asked.index] if own else []
    if not before:
        return found
    from atc.programs.feeds import distinct, leaves

    made, left = dict(found), MAX_READ

    def add(path: str, origins: Origins) -> None:
        while path in made:
            made[path] |= origins
            path = path.rpartition(".")[0]

    for path in own:
        texts = {text for value in _at(asked.sent, path) for text, _ in leaves(value) if distinct(text)}
        for call in before:
            places = set[tuple[str, ...]]()
            for text, place in leaves(call.value) if texts else ():
                left -= (len(text) + 1) * len(texts)
                if left < 0 or len(places) > MAX_PLACES:
                    break
                if any(each in text for each in texts):
                    places.add(tuple(step for step in place if isinstance(step, str)))
            if left < 0 or len(places) > MAX_PLACES:
                places = {()}
            add(path, frozenset(Origin(kind="tool", tool=call.tool, path=each) for each in places))
    return made


def _at(arguments: Mapping[str, Any], path: str) -> list[Any]:
    name = next((name for name in arguments if path == name or path.startswith(f"{name}.")), None)
    if name is None:
        return []
    values = [arguments[name]]
    for key in path[len(name) + 1 :].split(".") if path != name else ():
        items = [item for value in values for item in (value if isinstance(value, list) else [value])]
        values = [item[key] for item in items if isinstance(item, Mapping) and key in item]
    return values


def with_author(origins: CallOrigins, saw: Collection[str]) -> CallOrigins:
    """Return the origins of a call's arguments, with what its author had seen before it wrote them."""
    seen = frozenset(Origin(kind="tool", tool=tool, how="author") for tool in saw)
    return {name: of if all(each.kind == "tool" for each in of) else of | seen for name, of in origins.items()}
