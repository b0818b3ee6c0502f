"""Rules over where the arguments of a call came from: ``from`` and ``not_from``.

A rule that allows fits only where every origin of an argument is surely listed, whatever part it had in it. A rule that
restricts fits where one origin may be listed; what cannot be followed may be any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

from atc._records.origins import UNKNOWN, CallOrigins, Origin, OriginKind, Origins
from atc.calls.approval import nobody_knows
from atc.calls.permissions.conditions import MAX_STEPS, found_at
from atc.calls.permissions.patterns import Patterns, Reader, may_name, pattern_problem, patterns_of, surely_names
from atc.calls.untrusted import BY_WORDS, Targets, origins_at, targets_of
from atc.schemas.protocol import Protocol, parameters_of

TOOL = "tool:"
VIA = "via "
"""Stands before a tool's origin that may choose a value, or stand in the call that gave it, and must not be in it."""
SELECTS = ("call", "choice")
MAX_ORIGINS = 200
"""Origins of one argument that rules look at: whoever wrote the program sized them."""
_START = 50
"""Units of work that it takes to hold one origin against one pattern, besides its characters."""
_TAKES = "takes `task`, `literal`, `author`, `unknown`, `tool:NAME` or `tool:NAME.path`, also `via tool:NAME.path`"

ProtocolOf = Callable[[str], Protocol | None]
"""Returns the protocol of a tool that values came from, so that its name at its server counts, too."""


@dataclass(frozen=True)
class ToolPattern:
    """Holds one ``tool:NAME.path``: what a tool answers at a path, and all that is below it.

    Attributes:
        tools: pattern of the tool's name.
        path: patterns of keys, one a step; empty: all of the response.
        via: it is listed only as what chose the value, or called for it.
    """

    tools: Patterns
    path: tuple[Patterns, ...] = ()
    via: bool = False

    def surely_fits(self, origin: Origin, protocol: Protocol | None) -> bool:
        """Return whether an origin surely is in there."""
        named = self.tools.fit(origin.tool) if protocol is None else surely_names(self.tools, protocol)
        if not named or len(origin.path) < len(self.path) or (self.via and origin.how not in SELECTS):
            return False
        return all(step.fit(key) for step, key in zip(self.path, origin.path, strict=False))

    def may_fit(self, origin: Origin, protocol: Protocol | None) -> bool:
        """Return whether something of an origin may be in there: of a whole, each of its parts."""
        named = self.tools.may_fit(origin.tool) or (protocol is not None and may_name(self.tools, protocol))
        if not named:
            return False
        for step, key in zip(self.path, origin.path, strict=False):
            if "." in key:  # it may be read as several
                return True
            if not step.may_fit(key):
                return False
        return True


@dataclass(frozen=True)
class OriginCondition:
    """Describes where an argument must, or must not, have come from.

    Attributes:
        path: of the argument, keys with dots between them; empty: each target of the call.
        texts: patterns over origins, as they were written.
        kinds: of these, origins that are no tool's.
        tools: of these, tools' responses.
        forbids: they are those that it must not have; else all that it may have.
    """

    path: str
    texts: tuple[str, ...]
    kinds: frozenset[str]
    tools: tuple[ToolPattern, ...]
    forbids: bool = False

    def allows(self, call: CallSources, reader: Reader) -> bool:
        """Return whether it surely holds of a call. An argument that is not given has nothing to be judged."""
        return all(self._holds(found, call, reader) for _, found in call.judged(self.path, reader))

    def covers(self, path: str, call: CallSources, reader: Reader) -> bool:
        """Return whether it says where an argument, or a part of one, may have come from, and that holds."""
        if self.forbids:
            return False
        own = call.as_given(self.path)
        named = path in call.targets if not own else path == own or path.startswith(f"{own}.")
        return named and self._holds(call.at(path), call, reader)

    def _holds(self, found: Origins, call: CallSources, reader: Reader) -> bool:
        if self.forbids:
            return not any(self._may_list(each, call.protocol_of, reader) for each in found)
        return all(self._surely_lists(each, call.protocol_of, reader) for each in found)

    def _surely_lists(self, origin: Origin, protocol_of: ProtocolOf, reader: Reader) -> bool:
        if not reader.spend(self._work(origin)) or origin.kind == "unknown":
            return False
        if origin.kind != "tool":
            return origin.kind in self.kinds or not needs_listing(origin)
        protocol = protocol_of(origin.tool)
        return any(each.surely_fits(origin, protocol) for each in self.tools)

    def _may_list(self, origin: Origin, protocol_of: ProtocolOf, reader: Reader) -> bool:
        if not reader.spend(self._work(origin)) or origin.kind == "unknown":
            return True
        if origin.kind != "tool":
            return origin.kind in self.kinds
        protocol = protocol_of(origin.tool)
        return any(each.may_fit(origin, protocol) for each in self.tools)

    def _work(self, origin: Origin) -> int:
        return _START + (len(origin.tool) + sum(map(len, origin.path)) + _START) * sum(map(len, self.texts))


def needs_listing(origin: Origin) -> bool:
    """Return whether a rule that allows has to list an origin. The user's words, and text that was written before any
    value was seen, choose and call without that: no stranger did."""
    return not (origin.kind in ("task", "literal") and origin.how in SELECTS)


@dataclass(frozen=True)
class CallSources:
    """Says of one call where its arguments came from.

    Attributes:
        protocol: of the tool.
        arguments: as the tool would be sent them.
        origins: of the arguments; one that has none is ``unknown``.
        by: which arguments are targets.
        protocol_of: returns the protocol of a tool that values came from.
    """

    protocol: Protocol
    arguments: Mapping[str, Any]
    origins: CallOrigins
    by: Targets = BY_WORDS
    protocol_of: ProtocolOf = nobody_knows

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """Return the paths of the call's targets."""
        return targets_of(self.protocol, self.arguments, self.by)

    def judged(self, path: str, reader: Reader) -> list[tuple[str, Origins]]:
        """Return the arguments at a path with their origins: none where it is not given; without a path the targets."""
        if not path:
            return [(each, self.at(each)) for each in self.targets]
        path = self.as_given(path)
        found = found_at(self.arguments, tuple(path.split(".")), reader)
        absent = found is not None and found.missed and not (found.values or found.opaque)
        return [] if absent else [(path, UNKNOWN if found is None else self.at(path))]

    def as_given(self, path: str) -> str:
        """Return a path with the name by which its argument is given: a program writes ``from_`` for ``from``."""
        name, dot, rest = path.partition(".")
        other = "" if name in self.arguments else self._other_names.get(name, "")
        return f"{other}{dot}{rest}" if other and other in self.arguments else path

    @cached_property
    def _other_names(self) -> dict[str, str]:
        pairs = [(each.name, each.original) for each in parameters_of(self.protocol) if each.name != each.original]
        return dict(pairs) | {original: name for name, original in pairs}

    def at(self, path: str) -> Origins:
        """Return the origins of one place: ``unknown`` where they are more than rules look at."""
        found = origins_at(self.origins, path, self.protocol)
        return found if len(found) <= MAX_ORIGINS else UNKNOWN


# -- from the file -----------------------------------------------------------------------------------------------------


def conditions_of(given: Any, *, forbids: bool, most: int) -> tuple[OriginCondition, ...]:
    """Return ``from`` or ``not_from`` of a rule.

    Args:
        given: a pattern or a list, for each target; or a table of these by argument.
        forbids: it is ``not_from``.
        most: arguments of a table, and patterns of a list.

    Raises:
        ValueError: it is something else; the message says what it takes.
    """
    table = given if isinstance(given, dict) else {"": given}
    if not 0 < len(table) <= most:
        raise ValueError(f'takes origins, or a table of 1 to {most} arguments, such as {{to = "task"}}')
    made = []
    for path, patterns in table.items():
        try:
            if given is table and (not all(path.split(".")) or path.count(".") >= MAX_STEPS or len(path) > 500):
                raise ValueError(f"the path takes 1 to {MAX_STEPS} names with dots between them")
            made.append(_condition(path, patterns, forbids=forbids, most=most))
        except ValueError as error:
            raise ValueError(f"`{path[:80]}`: {error}" if path else str(error)) from None
    return tuple(made)


def _condition(path: str, given: Any, *, forbids: bool, most: int) -> OriginCondition:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise ValueError('takes an origin, or a list of origins, such as ["task", "tool:contacts.*"]')
    if not 0 < len(texts) <= most:
        raise ValueError(f"takes 1 to {most} origins")
    kinds, tools = set(), []
    for each in texts:
        if each.startswith((TOOL, VIA + TOOL)):
            if forbids and each.startswith(VIA):
                raise ValueError(f"{each[:60]!r}: `via` stands in `from` alone, where it lists less")
            tools += _readings(each) if forbids else [tool_pattern(each)]
        elif each not in get_args(OriginKind) or each == "tool":
            raise ValueError(f"{each[:60]!r} is no origin: it {_TAKES}")
        elif each == "unknown" and not forbids:
            raise ValueError("`unknown` cannot be allowed: what cannot be followed may come from anywhere")
        else:
            kinds.add(each)
    return OriginCondition(path, tuple(texts), frozenset(kinds), tuple(tools), forbids)


def tool_pattern(text: str) -> ToolPattern:
    """Return one ``tool:NAME.path``, or ``via tool:NAME.path``.

    Raises:
        ValueError: it is none; the message says why.
    """
    if problem := pattern_problem(text):
        raise ValueError(f"the pattern {text[:60]!r} {problem}")
    name, dot, path = text.removeprefix(VIA).removeprefix(TOOL).partition(".")
    steps = path.split(".") if dot else []
    if not name or not all(steps):
        raise ValueError(f"{text[:60]!r} is no origin: it {_TAKES}")
    while steps[-1:] == ["*"]:
        steps.pop()
    return ToolPattern(patterns_of([name]), tuple(patterns_of([step]) for step in steps), text.startswith(VIA))


def _readings(text: str) -> list[ToolPattern]:
    """For a rule that restricts: a name may have dots at its server, and a path positions, which origins leave out."""
    plain = tool_pattern(text)
    parts = text.removeprefix(TOOL).split(".")
    found = [plain]
    for at in range(2, len(parts) + 1):
        steps = tuple(patterns_of([each]) for each in parts[at:])
        found.append(ToolPattern(patterns_of([".".join(parts[:at])]), steps))
    keys = [_without_position(each) for each in parts[1:]]
    if keys != parts[1:]:
        found.append(ToolPattern(plain.tools, tuple(patterns_of([each]) for each in keys if each)))
    return found


def _without_position(step: str) -> str:
    """Return the key of a step: that of ``items[0]`` and of ``items[]``; empty for ``0``."""
    key, _, rest = step.partition("[")
    return "" if step.isdecimal() else key if rest.endswith("]") and not rest.strip("0123456789:*[]") else step


def origin_of(text: str) -> Origin:
    """Return one origin as it is written: ``task``, ``tool:read_mail.sender``, ``via tool:read_mail.sender``.

    Raises:
        ValueError: it is none; the message says what is taken.
    """
    if text.startswith((TOOL, VIA + TOOL)):
        name, dot, path = text.removeprefix(VIA).removeprefix(TOOL).partition(".")
        keys = tuple(path.split(".")) if dot else ()
        if name and all(keys):
            return Origin(kind="tool", tool=name, path=keys, how="call" if text.startswith(VIA) else "value")
    for kind in get_args(OriginKind):
        if text == kind != "tool":
            return Origin(kind=kind)
    raise ValueError(f"{text[:60]!r} is no origin: it {_TAKES}")


def shown(conditions: Sequence[OriginCondition], *, allows: bool) -> str:
    """Return the conditions of a rule in a few words, for a listing, to stand behind its verdict."""
    barred = [f"{each.path or 'a target'} may come from {', '.join(each.texts)}" for each in conditions if each.forbids]
    needed = [
        f"every origin of {each.path or 'each target'} is one of {', '.join(each.texts)}"
        for each in conditions
        if not each.forbids
    ]
    told = [f"if {' and '.join(needed)}"] if needed else []
    told += [f"{'unless' if allows else 'if'} {' or '.join(barred)}"] if barred else []
    return ", ".join(told)
