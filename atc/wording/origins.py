"""Say where the arguments of a call came from, by their origins: one wording for questions, plans, pages and messages.

What strangers write comes first. A tool's name and the keys of a path stand as a program writes them, or in quotation
marks: no text from outside can pass for one of the words here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from atc._host.invisible import visible
from atc._records.records import DataFlow, Feed, How, Origin, PlannedCall, RecordedSession
from atc.wording.abridged import abridged
from atc.wording.parts import ALONE, SHOWN_OF_PART

ONE_YES = "`atc resume RUN` at a terminal asks about it, and a function for `approve` is asked"
"""Says how somebody can say yes to one call that nobody could be asked about."""
_NAMED = 3
"""Origins of one kind that are named."""
_MOST = 10
"""Arguments, and tools, that one sentence names."""
_SAID = 5
"""Arguments that a refusal names with their origins."""
_UNSURE = ("same", "program")
"""Kinds of feeds beside which origins say more."""
_NO_VALUE = object()
_SHOWN_OF_NAME = 60
_STEPS = 6
_MARK, _MAYBE = " (strangers write that)", " (strangers may write that)"
_CLAUSES: tuple[tuple[How, ...], ...] = (("value", "call"), ("choice",), ("author",))
_BESIDE_OTHERS = "the program's text"
_BEFORE: dict[How, str] = {
    "value": "",
    "call": "via ",
    "choice": "chosen by ",
    "author": "written after its author saw ",
}
_WORDS = {
    "task": "the task",
    "literal": ALONE,
    "author": "the program's author",
    "unknown": "nobody knows",
}


def origin(found: Origin) -> str:
    """Say one origin: ``the task``, ``read_mail.sender``."""
    if found.kind != "tool":
        return _WORDS[found.kind]
    more = "…" if len(found.path) > _STEPS else ""
    return _tool(found.tool) + "".join(map(_step, found.path[:_STEPS])) + more


def came_from(origins: Collection[Origin], strangers: Collection[str] = (), *, doubted: bool = False) -> str:
    """Say all origins of an argument: ``get_contact.iban via read_mail.sender (strangers write that)``.

    Args:
        origins: of the argument.
        strangers: the tools whose text strangers write.
        doubted: what cannot be followed may be theirs, too.
    """

    said: dict[How, list[tuple[bool, str]]] = {}
    told = _told(origins)
    for each in told:
        mark = _mark(each, strangers, doubted)
        text = _BESIDE_OTHERS if each.kind == "literal" and len(told) > 1 else origin(each)
        said.setdefault(each.how, []).append((not mark, text + mark))
    clauses = [[how for how in hows if how in said] for hows in _CLAUSES]
    ranked = sorted(filter(None, clauses), key=lambda hows: min(min(said[how]) for how in hows)[0])
    return "; ".join(" ".join(_BEFORE[how] + _named(said[how]) for how in hows) for hows in ranked)


def argument_came_from(flow: DataFlow, name: str) -> str:
    """Say all origins of one argument, or a part of one, of a call."""
    return came_from(flow.origins.get(name, ()), flow.strangers, doubted=name in flow.untrusted)


def careful(flow: DataFlow | None) -> list[str]:
    """Say what a person should look at before approval, a sentence each: whose session goes with the call, and what
    strangers may have chosen or led to."""
    if flow is None:
        return []
    told = [with_session(flow.session)] if flow.session is not None else []
    if flow.untrusted:
        told.append(f"strangers may have chosen {_listed(list(map(_argument, flow.untrusted)), 'arguments')}")
    return told + ([author_saw(flow.author_saw)] if flow.author_saw else [])


def careful_of_plan(calls: Sequence[PlannedCall]) -> list[str]:
    """Say the same of a plan, whose calls have one yes: a line for all of them, so that none hides another."""
    flows = [(call.index, call.data_flow) for call in calls if call.data_flow is not None]
    told = [with_session(each) for each in dict.fromkeys(flow.session for _, flow in flows) if each is not None]
    if numbers := [str(index) for index, flow in flows if flow.untrusted]:
        what = "call" if len(numbers) == 1 else "calls"
        told.append(f"strangers may have chosen arguments of {what} {_listed(numbers, 'calls')}")
    saw = dict.fromkeys(tool for _, flow in flows for tool in flow.author_saw)
    return told + ([author_saw(list(saw))] if saw else [])


def with_session(session: RecordedSession) -> str:
    """Say whose session goes with a call."""
    return f"it is sent with {recorded_session(session)}: it acts as whoever was logged in there"


def session_not_asked(session: RecordedSession) -> str:
    """Say why a write is not made that goes out with a recorded session, and what would allow it."""
    return (
        f"it would be sent with {recorded_session(session)}, and nobody could be asked about that ({ONE_YES}; "
        "`--openapi allow_session_writes` names it for writes)"
    )


def recorded_session(session: RecordedSession) -> str:
    """Name a session: ``the session that was recorded in shop.har on 3 May 2026 for https://shop.example (cookie
    sid)``."""
    day = session.recorded_at[:10]
    when = f" on {day}" if day else ""
    carried = f" ({_listed(list(map(visible, session.carriers)), 'carriers')})" if session.carriers else ""
    return f"the session that was recorded in {visible(session.file)}{when} for {visible(session.origin)}{carried}"


def author_saw(tools: Sequence[str]) -> str:
    """Say that a program was written after its model saw text of strangers."""
    seen = _listed(list(map(_tool, tools)), "tools")
    return f"the program was written after its model saw what {seen} answered (strangers write that)"


def suspicion(flow: DataFlow) -> str:
    """Say why a call wants a person, whatever allows it: ``to ← read_mail.body (strangers write that)``."""
    told = [f"{_argument(name)} ← {argument_came_from(flow, name)}" for name in flow.untrusted[:_SAID]]
    if (left := len(flow.untrusted) - _SAID) > 0:
        told.append(f"{left:,} more arguments that strangers may have chosen")
    return "; ".join(told + ([author_saw(flow.author_saw)] if flow.author_saw else []))


def not_followed(names: Sequence[str]) -> str:
    """Say of arguments whose origins nobody knows that no rule can list them, and what to do."""
    what = _listed(list(map(_argument, names)), "arguments")
    return (
        f"where {what} came from could not be followed, so no rule can list it: say yes to this call, or write the "
        "value in the task"
    )


def add_origins(
    whole: dict[str, list[str]],
    parts: dict[str, list[tuple[str, str]]],
    feeds: Sequence[Feed],
    arguments: Mapping[str, Any],
    flow: DataFlow,
) -> None:
    """Add to what feeds say of a call's arguments what their origins say: first where a stranger may have chosen them,
    else where no feed is sure."""
    for name, found in flow.origins.items():
        argument, text = argument_of(name, arguments), argument_came_from(flow, name)
        known = whole.setdefault(argument, [])
        own = [each for each in feeds if each.argument == name]
        if name in flow.untrusted and name != argument:
            parts.setdefault(argument, []).insert(0, (_part_at(name, argument, arguments), text))
        elif name in flow.untrusted:
            known[:] = [text, *(each for each in known if each not in {*map(origin, found), ALONE, text})]
        elif name == argument and _says_more(found, own):
            made_of = [each for each in found if each.how != "choice"]  # what no stranger chose needs no word
            text = came_from(made_of, flow.strangers) if made_of else text
            known[:] = [text, *(each for each in known if each not in (text, ALONE))]


def untrusted_first(arguments: Mapping[str, Any], flow: DataFlow | None) -> dict[str, Any]:
    """Return the arguments with those first that a stranger may have chosen: a question shows them also of many."""
    first = {} if flow is None else {argument_of(name, arguments): None for name in flow.untrusted}
    return {name: arguments[name] for name in dict.fromkeys([*first, *arguments]) if name in arguments}


def argument_of(name: str, arguments: Collection[str]) -> str:
    """Return the argument that the way to a part of one leads into: ``message`` of ``message.to``."""
    end = len(name)
    while end > 0 and name[:end] not in arguments:
        end = name.rfind(".", 0, end)
    return name[:end] if end > 0 else name


def _told(origins: Collection[Origin]) -> list[Origin]:
    """Return the origins that are worth a word: that the user or the program alone chose is none, if there are others.
    What a value is, or was made of, is said once."""
    told = [each for each in origins if each.kind not in ("task", "literal") or each.how in ("value", "author")]
    values = {(each.kind, each.tool, each.path) for each in told if each.how == "value"}
    told = [each for each in told if each.how != "call" or (each.kind, each.tool, each.path) not in values]
    return told or list(origins)


def _says_more(found: Sequence[Origin], feeds: Sequence[Feed]) -> bool:
    if any(each.kind not in _UNSURE for each in feeds):
        return False
    return not feeds or any(each.kind != "unknown" for each in found)


def _part_at(name: str, argument: str, arguments: Mapping[str, Any]) -> str:
    value: Any = arguments.get(argument)
    for step in name[len(argument) + 1 :].split("."):
        value = value.get(step, _NO_VALUE) if isinstance(value, Mapping) else _NO_VALUE
    return _argument(name) + ("" if value is _NO_VALUE else f" = {abridged(value, SHOWN_OF_PART).text}")


def _mark(found: Origin, strangers: Collection[str], doubted: bool) -> str:
    if found.kind == "tool":
        return _MARK if found.tool in strangers else ""
    return _MAYBE if doubted and found.kind == "unknown" else ""


def _named(said: Sequence[tuple[bool, str]]) -> str:
    names = [name for _, name in sorted({*said})]
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else "")


def _listed(names: Sequence[str], what: str) -> str:
    shown = [*names[:_MOST], *([f"{len(names) - _MOST:,} more {what}"] if len(names) > _MOST else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _tool(name: str) -> str:
    ordinary = name.isidentifier() and len(name) <= _SHOWN_OF_NAME
    return visible(name) if ordinary else abridged(name, _SHOWN_OF_NAME).text


def _step(key: str) -> str:
    ordinary = key.isascii() and key.isidentifier() and len(key) <= _SHOWN_OF_NAME
    return f".{key}" if ordinary else f"[{abridged(key, _SHOWN_OF_NAME).text}]"


def _argument(name: str) -> str:
    ordinary = all(part.isidentifier() for part in name.split(".")) and len(name) <= _SHOWN_OF_NAME
    return visible(name) if ordinary else abridged(name, _SHOWN_OF_NAME).text
