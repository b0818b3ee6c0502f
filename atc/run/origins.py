"""Finds where the arguments of one run's calls come from: what its programs say, and what the run saw.

A program is followed once, in a thread, and only if somebody asks (:mod:`atc.programs.origins`). The run adds to what
was found, and never takes away: to a literal that stands in what strangers wrote, where it stands; to the literals of
a program whose author had seen such text, the tools that it had it from.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from atc._records.origins import UNKNOWN, CallOrigins, Origin, OriginKind, Origins
from atc._records.records import ArgumentRepair
from atc.calls.argument_origins import Found
from atc.calls.attempt import Attempt
from atc.schemas.protocol import Protocol as ToolProtocol
from atc.schemas.protocol import original_arguments
from atc.tools.tool import Tool, Toolset

if TYPE_CHECKING:
    from atc.programs.origins.program import ProgramOrigins
    from atc.result import Call
    from atc.run.run import Run

InputOrigins = Callable[[], Mapping[str, Origins]]
"""Returns the origins of the variables that a program is given; it is asked once, if at all."""
LOOK = "look"
LITERAL, AUTHOR = frozenset({Origin(kind="literal")}), frozenset({Origin(kind="author")})
MAX_READ = 2_000_000
"""Characters of responses that one call's literals are looked for in."""
_OWN_TEXT = frozenset({"literal", "author"})


class Author(Protocol):
    """Knows which text of strangers whoever writes the programs had seen (:mod:`atc.run.author`)."""

    @property
    def saw_any(self) -> bool:
        """Return whether any of it was seen before the program that runs was written."""
        ...

    def saw(self, attempt: Attempt, origins: CallOrigins) -> tuple[str, ...]:
        """Return the tools whose text was seen before the call was written; empty where it was written before."""
        ...


class FollowedProgram:
    """Follows one program as it ran, as soon as somebody asks.

    Args:
        source: its text; empty where calls are made without a program: nothing is known of them.
        tools: the names of all that it may call.
        inputs: the origins of the variables that it was given.
        names: of these variables.
        task: in the user's words.
        text: what its other literals are.
    """

    def __init__(
        self,
        source: str,
        tools: Collection[str],
        inputs: InputOrigins = dict,
        names: Collection[str] = (),
        task: str = "",
        text: OriginKind = "literal",
    ) -> None:
        self.source = source
        self._tools, self._inputs, self._names, self._task, self._text = tools, inputs, names, task, text
        self._lock = threading.Lock()
        self._followed: ProgramOrigins | None = None

    def of_call(self, tool: str, line: int, arguments: Collection[str]) -> CallOrigins:
        """Return the origins of a call's arguments, by the names that the program gives them."""
        if not self.source:
            return dict.fromkeys(arguments, UNKNOWN)
        with self._lock:
            found = self._program.of_call(tool, line, arguments)
        return {**dict.fromkeys(arguments, UNKNOWN), **found}

    def of_variable(self, name: str) -> Origins:
        """Return the origins of what a variable of the program holds when it ends."""
        if not self.source:
            return UNKNOWN
        with self._lock:
            return self._program.of_variable(name)

    @property
    def _program(self) -> ProgramOrigins:
        if self._followed is None:
            from atc.programs.origins.program import ProgramOrigins
            from atc.programs.program import Program

            given = self._inputs()
            inputs = {name: given.get(name, UNKNOWN) for name in self._names}
            self._followed = ProgramOrigins(
                Program(self.source), self._tools, inputs=inputs, task=self._task, text=self._text
            )
        return self._followed


@dataclass(frozen=True)
class _Asked:
    """The call that somebody asks about, without its response."""

    program: FollowedProgram
    index: int
    tool: str
    line: int
    given: Mapping[str, Any]
    sent: Mapping[str, Any]
    repairs: Sequence[ArgumentRepair]
    by_model: bool
    protocol: ToolProtocol | None


class RunOrigins:
    """Finds the origins of the arguments of one run's calls (:class:`atc.calls.argument_origins.ArgumentOrigins`).

    A call that no program makes (:meth:`Run.call`, an inverse of ``undo``) has ``unknown`` ones: nobody said where its
    arguments come from. A read that settles a call in doubt does not come here: it is made outside of its run.

    Args:
        run: the run.

    Attributes:
        author: knows what the programs' author had seen; ``None``: nothing of strangers.
        text: what the literals of its programs are: ``author`` where a client's model wrote them.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.author: Author | None = None
        self.text: OriginKind = "literal"
        self._inputs: InputOrigins | None = None
        self._programs: dict[tuple[int, int], FollowedProgram] = {}
        self._current = FollowedProgram("", ())
        self._marked: dict[str, tuple[Tool | None, bool]] = {}

    # -- the programs of the run ---------------------------------------------------------------------------------------

    def begin(self, source: str) -> None:
        """Begin a program; with an empty text, calls that no program makes."""
        run, journal = self._run, self._run.broker.journal
        task = run.preamble.words_with(run.task)
        self._current = FollowedProgram(source, [*run.tools], self.inputs, [*run.inputs], task, self.text)
        self._programs[journal.stage, journal.attempt] = self._current

    def hand_on(self, inputs: InputOrigins | None) -> None:
        """Let the programs of the stage that begins have these origins of their inputs; ``None``: the journal's."""
        self._inputs = inputs

    @property
    def inputs(self) -> InputOrigins:
        """Return the origins of the inputs of the programs of this stage."""
        if self.text == "author":  # a client's model gave them as it gave the program
            given = dict.fromkeys(self._run.inputs, AUTHOR)
            return lambda: given
        kept = self._run.broker.journal.input_origins
        return self._inputs or (lambda: kept)

    async def looked(self, values: Mapping[str, Any]) -> InputOrigins:
        """Return the origins of what the next program is given after one that looked at these values.

        They are those that the arguments of its ``look`` had, and of what it had itself. They are found at once where
        a rule may ask for them, so that the journal has them.
        """
        program, before, names = self._current, self.inputs, [*values]
        line = next((call.line for call in reversed(self._run.last_calls) if {*names} == {*call.arguments}), 0)

        @cache
        def found() -> Mapping[str, Origins]:
            return {**before(), **program.of_call(LOOK, line, names)}

        if self.is_wanted:
            await asyncio.to_thread(found)
        return found

    def answer(self) -> Callable[[], Origins]:
        """Return what finds the origins of the answer of the program that ran last."""
        program = self._current
        return cache(lambda: program.of_variable("answer"))

    @property
    def is_wanted(self) -> bool:
        """Return whether a rule, or a tool whose text strangers write, may ask for origins later in the run."""
        policy = self._run.broker.approval.policy
        return getattr(policy, "needs_origins", False) or self.is_needed or any(map(self.is_untrusted, self._run.tools))

    # -- strangers -----------------------------------------------------------------------------------------------------

    @property
    def has_answered(self) -> bool:
        """Return whether a tool whose text strangers write was called in this run, in an earlier task too."""
        return any(map(self.is_untrusted, self._called()))

    @property
    def is_needed(self) -> bool:
        """Return whether text that strangers write is in this run: such a tool was called, or its author saw some."""
        return self.has_answered or (self.author is not None and self.author.saw_any)

    @property
    def untrusted(self) -> frozenset[str]:
        """Return the tools whose text strangers write, of those that were called."""
        return frozenset(filter(self.is_untrusted, self._called()))

    def is_untrusted(self, tool: str) -> bool:
        """Return whether strangers write what a tool returns: the permissions say so, or its source does."""
        broker = self._run.broker
        known = broker.tools.get(tool) or self._run.all_tools.get(tool)
        if tool not in self._marked or self._marked[tool][0] is not known:
            policy = broker.approval.policy
            protocol = known.protocol if known is not None else _gone(tool)
            marked = bool(getattr(policy, "is_untrusted", lambda of: of.untrusted)(protocol))
            self._marked[tool] = known, marked
        return self._marked[tool][1]

    def _called(self) -> set[str]:
        """Return the names, as they are now, of the tools that the run has called."""
        broker = self._run.broker
        keys = {(entry.tool, entry.key.source) for entry in broker.journal.entries.values()}
        return {broker.name_now(tool, source) or tool for tool, source in keys}

    # -- one call ------------------------------------------------------------------------------------------------------

    async def of(self, attempt: Attempt) -> Found:
        """Return where the arguments of a call come from, as they are sent."""
        asked = self._asked(attempt)
        calls = [call for call in self._run.calls if call.succeeded and self.is_untrusted(call.tool)]

        def found() -> Found:  # a program and the answers that it had may be long
            origins = _find(asked, calls)
            saw = self._saw(attempt, origins)
            return Found(with_author(origins, saw), saw)

        return await asyncio.to_thread(found)

    def lazily(self, attempt: Attempt) -> Callable[[], CallOrigins]:
        """Return what finds the same later, should anybody ask."""
        asked = self._asked(attempt)
        return cache(lambda: _find(asked, ()))

    def _saw(self, attempt: Attempt, origins: CallOrigins) -> tuple[str, ...]:
        """Return the tools whose text the author of the call's program had seen before it wrote the call."""
        return () if self.author is None else self.author.saw(attempt, origins)

    def _asked(self, attempt: Attempt) -> _Asked:
        tool = self._run.broker.tools.get(attempt.tool)
        program = self._programs.get((attempt.stage, attempt.program))
        unknown = attempt.request.unknown or {}
        return _Asked(
            program=program or FollowedProgram("", ()),
            index=attempt.number,
            tool=attempt.tool,
            line=attempt.request.line,
            given={**attempt.request.arguments, **dict.fromkeys(unknown)},
            sent={**attempt.arguments, **dict.fromkeys(unknown)},
            repairs=attempt.repairs,
            by_model=bool(attempt.repaired_for) or any(each.kind == "model" for each in attempt.repairs),
            protocol=None if tool is None else tool.protocol,
        )


def _find(asked: _Asked, calls: Iterable[Call]) -> CallOrigins:
    try:
        found = asked.program.of_call(asked.tool, asked.line, [*asked.given])
        found = _repaired(_under_protocol(found, asked), asked)
    except Exception:  # whatever a program makes of it: nobody knows then
        return dict.fromkeys(asked.sent, UNKNOWN)
    return _seen(found, asked, calls)


def _gone(tool: str) -> ToolProtocol:
    """Return a protocol that has a name alone, of a tool that is not there any more."""
    return ToolProtocol.model_construct(name=tool)


def _under_protocol(found: CallOrigins, asked: _Asked) -> dict[str, Origins]:
    """Return origins by the names that the tool knows, of those that the program gives the arguments."""
    if asked.protocol is None:
        return dict(found)
    names = {given: known for known, given in original_arguments(asked.protocol, {n: n for n in asked.given}).items()}

    def renamed(path: str) -> str:
        head, dot, rest = path.partition(".")
        return names.get(path) or f"{names.get(head, head)}{dot}{rest}"

    return {renamed(path): origins for path, origins in found.items()}


def _repaired(found: dict[str, Origins], asked: _Asked) -> dict[str, Origins]:
    """Return the origins of the arguments that are sent, of those that the program gave.

    A repair by rule makes an argument of what the program gave: of that argument, or of whatever it gave. What a model
    gave in its place can have any origin.
    """
    if not asked.repairs and asked.sent.keys() <= found.keys():
        return found
    given = asked.given if asked.protocol is None else original_arguments(asked.protocol, dict(asked.given))
    everything: Origins = frozenset().union(*found.values())
    respelt = {str(each.name): each.path[0] for each in asked.repairs if each.kind == "respelt" and len(each.path) == 1}
    defaults = {each.path[0] for each in asked.repairs if each.kind == "default" and len(each.path) == 1}
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
            made[name] = everything | (LITERAL if name in defaults else frozenset()) or UNKNOWN
    return made


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _seen(found: CallOrigins, asked: _Asked, calls: Iterable[Call]) -> CallOrigins:
    """Add to each argument that is the program's own text alone where it stands in what strangers wrote before."""
    own = [name for name, of in found.items() if name in asked.sent and {each.kind for each in of} <= _OWN_TEXT]
    before = [call for call in calls if call.index < asked.index] if own else []
    if not before:
        return found
    from atc.programs.feeds import distinct, leaves

    made, left = dict(found), MAX_READ
    for name in own:
        texts = {text for text, _ in leaves(asked.sent[name]) if distinct(text)}
        for call in before:
            for text, path in leaves(call.value) if texts else ():
                left -= (len(text) + 1) * len(texts)
                if left < 0:
                    return made
                if any(each in text for each in texts):
                    keys = tuple(step for step in path if isinstance(step, str))
                    made[name] |= {Origin(kind="tool", tool=call.tool, path=keys)}
    return made


def with_author(origins: CallOrigins, saw: Collection[str]) -> CallOrigins:
    """Return the origins of a call's arguments, with what its author had seen before it wrote them."""
    seen = frozenset(Origin(kind="tool", tool=tool, how="author") for tool in saw)
    return {name: of if all(each.kind == "tool" for each in of) else of | seen for name, of in origins.items()}


def wanted_later(tools: Toolset, needs_origins: bool) -> bool:
    """Return whether the origins of a value that a later task is given may be asked for."""
    return needs_origins or any(protocol.untrusted for protocol in tools.protocols)
