"""Demonstrations, (q, C) of ATC §4.1: for each tool one program, from what a user knows to what only tools know.

A user knows words, dates and codes that mean the same everywhere; identifiers come out of answers. Which tool's answer
holds whose identifier, the tool graph says (:mod:`atc.catalogue.graph.structure`). Every call of a demonstration was
made and answered while its tools were probed, and the value that flows between two is the one that was answered. A tool
of which no such program is known has none: one that begins with an identifier teaches nobody where to begin.
"""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from atc._host.redaction import MASK
from atc.calls.json_values import canonical
from atc.catalogue.graph.edges import Path
from atc.catalogue.graph.resources import phrase_of, thing_in
from atc.catalogue.graph.structure import Structure
from atc.probing.candidates import call_of, is_guess, is_word
from atc.probing.document import protocol_of
from atc.probing.record import Demonstration, Instance, Record
from atc.schemas.identifiers import (
    CONTAINERS,
    COORDINATES,
    HANDED_OUT,
    THINGS,
    VERBS,
    is_identifier,
    is_plural,
    singular,
    split,
    words_of,
)
from atc.schemas.infer.text import MASKED, form, masked_text, may_be_name
from atc.schemas.protocol import Protocol
from atc.tools.stubs import EXAMPLE_ROOM
from atc.wording.questions import Asked, Part, question

MAX_CALLS = 4
"""Calls of a demonstration: the tool's own, and those before it."""
MAX_PLACES = 200
"""Places of one answer that are compared with an argument."""
MAX_ITEMS, MAX_PROPOSED = 3, 2
"""Items of one list that may be read, and calls that are made for a demonstration."""
MAX_WAYS = 2_000
"""Ways to come by the arguments of one tool that are looked at."""
_ARTICLES = frozenset({"a", "an", "the", "of"})
_ABOUT = frozenset({"information", "summarize", "discover", "detail", "id"})
"""Words of tools' names that say nothing of the thing."""
_TOLD_LAST = THINGS | HANDED_OUT | COORDINATES | {"href", "url", "uri", "link", "path", "type"}
"""Last words of fields that no user asks for."""
NAMED = ("name", "title", "label")
"""Fields by which a user tells the items of a list apart, the likeliest first."""
MAX_BESIDE = 6
"""Plain values beside a list in an answer that is about the list: counts, pages."""
MAX_NAME = 60
"""Characters of such a name."""
_SCALARS = (str, int, float, bool)
Place = tuple[str | int, ...]
"""The way to a value of an answer."""


def demonstrate(declared: Mapping[str, Protocol], records: Mapping[str, Record]) -> Ways:
    """Give each documented tool's record its demonstration, or none. Nothing is called.

    Args:
        declared: the tools as their source has them, by name.
        records: of all tools, with the calls that were made.
    """
    ways = Ways(declared, {name: record for name, record in records.items() if record.state == "documented"})
    for name, record in ways.records.items():
        record.demonstration = ways.demonstration(name)
    return ways


def unknowable(name: str, value: Any) -> bool:
    """Whether only tools know a value: an identifier by its name or its form, not a word, a date or a common code."""
    if isinstance(value, str) and not value.isdecimal() and form(value) == "uuid":
        return True
    return isinstance(value, str | int) and not isinstance(value, bool) and is_identifier(name, THINGS | HANDED_OUT)


@dataclass(frozen=True)
class Flow:
    """An argument that is read from an earlier answer.

    Attributes:
        call: whose answer it is. ``path``: to the value.
        thing: words for what the value is of.
        refers: the field only refers to the thing.
        label: the way to the field, from an item, and its text, by which a user tells the item of a list that is meant.
        listed: how many steps of the path lead to that list.
        first: the first item of a list is taken, and neither its name nor what was looked for says why.
    """

    call: Made
    path: Place
    thing: tuple[str, ...] = ()
    refers: bool = False
    label: tuple[tuple[str, ...], str] | None = None
    listed: int = 0
    first: bool = False


@dataclass(frozen=True)
class Made:
    """A call that was answered, and how its arguments are come by: what no flow says is written out."""

    tool: str
    instance: Instance
    flows: Mapping[str, Flow] = field(default_factory=dict)

    @property
    def before(self) -> list[Made]:
        """The calls that it needs, each once, in the order in which they are made."""
        found = [each for flow in self.flows.values() for each in (*flow.call.before, flow.call)]
        return [each for at, each in enumerate(found) if each not in found[:at]]

    @property
    def literals(self) -> Iterator[tuple[Made, str, Any]]:
        """The arguments that are written out, of this call and those before it."""
        for call in (*self.before, self):
            yield from (
                (call, name, value) for name, value in call.instance.arguments.items() if name not in call.flows
            )


class Ways:
    """Finds the ways from what a user knows to the calls that were made.

    Args:
        declared: as :func:`demonstrate` takes it.
        records: of the documented tools.
    """

    def __init__(self, declared: Mapping[str, Protocol], records: Mapping[str, Record]) -> None:
        self._declared, self.records = declared, records
        self._structure = Structure({name: protocol_of(declared[name], record) for name, record in records.items()})
        self._left = MAX_WAYS
        self._read: dict[tuple[str, Path], list[tuple[Instance, Mapping[Any, Place]]]] = {}
        names = {name for protocol in declared.values() for name in protocol.parameters.get("properties", {})}
        self._nouns = {word for name in names if (word := thing_in(name))}

    def demonstration(self, tool: str) -> Demonstration | None:
        """The best one of a tool; ``None`` where each begins with what nobody can know."""
        self._left = MAX_WAYS
        made = [way for each in self._instances(tool) if (way := self._way(tool, each, (tool,))) is not None]
        written = [(each, program) for each in sorted(made, key=_cost) if (program := self._written(each))]
        if not written:
            return None
        best, program = written[0]
        return Demonstration(question(_asked(best, self._nouns)), program, best.instance.arguments)

    def missing(self, tool: str) -> list[dict[str, Any]]:
        """Calls that would make a demonstration of a tool that has none, the best first: identifiers that were guessed
        are replaced by those that can be read.
        """
        self._left = MAX_WAYS
        made: list[dict[str, Any]] = []
        for instance in [*self._instances(tool)][:1]:
            given = instance.arguments.items()
            guessed = [key for key, value in given if unknowable(key, value) and not self._is_stated(tool, key, value)]
            options = [sorted(self._flows(tool, key, (tool,)), key=_cost_of_flow)[:MAX_PROPOSED] for key in guessed]
            for some in zip(*options, strict=False):
                made.append(
                    {**instance.arguments, **{key: value for key, (value, _) in zip(guessed, some, strict=True)}}
                )
        return made

    def _instances(self, tool: str) -> Iterator[Instance]:
        made = self.records[tool].instances
        return (each for each in made if not any(mask in repr(each.arguments) for mask in (MASK, MASKED)))

    def _way(self, tool: str, instance: Instance, within: tuple[str, ...]) -> Made | None:
        flows: dict[str, Flow] = {}
        for name, value in instance.arguments.items():
            if self._is_stated(tool, name, value):
                continue
            if is_guess(name, self._schema(tool, name), value) and not unknowable(name, value):
                return None  # it means nothing to anybody
            must = unknowable(name, value)
            if not must and not (is_identifier(name, COORDINATES) and isinstance(value, int | float | str)):
                continue
            if found := min(self._flows(tool, name, within, value), key=_cost_of_flow, default=None):
                flows[name] = found[1]
            elif must:
                return None
        return Made(tool, instance, flows)

    def _schema(self, tool: str, name: str) -> dict[str, Any]:
        schema = self._declared[tool].parameters.get("properties", {}).get(name)
        return schema if isinstance(schema, dict) else {}

    def _is_stated(self, tool: str, name: str, value: Any) -> bool:
        """Whether the source itself gives a value of an argument, so that everybody knows it."""
        schema = self._schema(tool, name)
        listed = [schema[key] for key in ("enum", "examples") if isinstance(schema.get(key), list)]
        alone = [schema[key] for key in ("const", "example", "default") if key in schema]
        return any(value in each for each in (*listed, alone))

    def _flows(self, tool: str, name: str, within: tuple[str, ...], *value: Any) -> Iterator[tuple[Any, Flow]]:
        """Values that an argument may be read as, from answers of tools that are not given them, nor need the tool."""
        if len(within) >= MAX_CALLS:
            return
        for found in self._structure.into(tool).get(name, ()):
            supplier = found.supplier
            if supplier.writes or not supplier.path or supplier.tool in within:
                continue
            for instance, values in self._values(supplier.tool, supplier.path):
                self._left -= 1
                if self._left < 0:
                    return
                if value:
                    values = {value[0]: values[value[0]]} if value[0] in values else {}
                if not values or (call := self._way(supplier.tool, instance, (*within, supplier.tool))) is None:
                    continue
                given = [each for made in (*call.before, call) for each in made.instance.arguments.values()]
                thing = self._structure.facts(tool).wanted(name).things[-1:]
                for each, place in islice(values.items(), MAX_ITEMS):
                    if each not in given and (flow := _flow(call, place, thing, supplier.refers)) is not None:
                        yield each, flow

    def _values(self, tool: str, path: Sequence[str]) -> list[tuple[Instance, Mapping[Any, Place]]]:
        if (found := self._read.get((tool, tuple(path)))) is None:
            found = [(each, _places(each.response, path)) for each in self._instances(tool)]
            self._read[tool, tuple(path)] = found
        return found

    # -- writing -------------------------------------------------------------------------------------------------------

    def _written(self, way: Made) -> str:
        """The program; empty where it is too long to be shown, or may hold a secret."""
        taken, lines, names = set(self._declared), list[str](), dict[int, str]()
        calls = [*way.before, way]
        for number, call in enumerate(calls):
            given = {name: repr(value) for name, value in call.instance.arguments.items()}
            for name, flow in call.flows.items():
                source = names[next(at for at, each in enumerate(calls) if each == flow.call)]
                given[name] = _read(source, flow, taken)
            target = "answer" if call is way else _variable(call.tool, taken)
            taken.add(target)
            names[number] = target
            lines.append(f"{target} = {call_of(self._structure.tools[call.tool], given)}")
        program = "\n".join(lines) + "\n"
        return program if len(program) <= EXAMPLE_ROOM["program"] and masked_text(program) == program else ""


def _cost(way: Made) -> tuple[int, int, int, int]:
    """What makes a way worse: reading what only refers to a thing, first items, calls, arguments."""
    flows = [flow for call in (*way.before, way) for flow in call.flows.values()]
    first = sum(flow.first for flow in flows)
    coordinates = sum(is_identifier(name, COORDINATES) for _, name, _ in way.literals)
    given = way.instance.arguments
    again = len(given) - len({canonical(value) for value in given.values()})  # from a place to itself tells little
    return coordinates + again, sum(flow.refers for flow in flows), first, len(way.before) + len(given)


def _cost_of_flow(found: tuple[Any, Flow]) -> tuple[int, int, int, int]:
    flow = found[1]
    coordinates, refers, first, size = _cost(flow.call)
    return coordinates, refers + flow.refers, first + flow.first, 2 * size + 3 * (flow.label is not None)


def _places(value: Any, path: Sequence[str]) -> Mapping[Any, Place]:
    found: list[tuple[Place, Any]] = [((), value)]
    for step in path:
        deeper: list[tuple[Place, Any]] = []
        for place, inside in found:
            if step == "[]" and isinstance(inside, list):
                deeper += [((*place, at), each) for at, each in enumerate(inside[:MAX_PLACES])]
            elif step != "[]" and isinstance(inside, dict) and step in inside:
                deeper.append(((*place, step), inside[step]))
        found = deeper[:MAX_PLACES]
    first: dict[Any, Place] = {}
    for place, inside in found:
        if isinstance(inside, _SCALARS):
            first.setdefault(inside, place)
    return first


def _at(value: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        value = value[step]
    return value


def _flow(call: Made, path: Place, thing: tuple[str, ...], refers: bool) -> Flow | None:
    """A value as a program reads it; ``None`` where it is of a later item of a list, and no name tells it."""
    above = [words_of(step) for step in path if isinstance(step, str)]
    telling = [words[-1:] for words in above[:-1] if words and not CONTAINERS.issuperset(words)]
    own = thing_in(str(path[-1])) if path else ""
    thing = (own,) if own else thing if not telling or "item" in telling[-1] else telling[-1]
    at = max((place for place, step in enumerate(path) if isinstance(step, int)), default=None)
    if at is None:
        return Flow(call, path, thing, refers)
    if any(step != 0 for step in path[:at] if isinstance(step, int)):
        return None
    label = _label(_at(call.instance.response, path[:at]), path[at:])
    words = [str(value).casefold() for _, name, value in call.literals if is_word(name)]
    if path[at] == 0 and label is not None and any(word in label[1].casefold() for word in words):
        return Flow(call, path, thing, refers)  # it is what was looked for
    if label is None and path[at] != 0:
        return None
    return Flow(call, path, thing, refers, label, at, first=label is None)


def _label(items: list[Any], path: Place) -> tuple[tuple[str, ...], str] | None:
    """By what name an item is told from those before it, the nearest to the value; ``path`` is from the list to it."""
    at, inside = path[0], [str(step) for step in path[1:-1]]
    for end in range(len(inside), -1, -1):
        for name in NAMED:
            way = (*inside[:end], name)
            texts = [_text(item, way) for item in items[: int(at) + 1]]
            if (text := texts[-1]) is not None and None not in texts and texts.count(text) == 1 and _names(text):
                return way, text
    return None


def _names(text: str) -> bool:
    return 0 < len(text) <= MAX_NAME and text.isprintable() and form(text) == "plain" and masked_text(text) == text


def _text(item: Any, way: Sequence[str]) -> str | None:
    for step in way:
        item = item.get(step) if isinstance(item, dict) else None
    return item if isinstance(item, str) else None


def _read(source: str, flow: Flow, taken: set[str]) -> str:
    if flow.label is None:
        return source + "".join(f"[{step!r}]" for step in flow.path)
    way, text = flow.label
    key = "".join(f"[{step!r}]" for step in way)
    items = source + "".join(f"[{step!r}]" for step in flow.path[: flow.listed])
    rest = "".join(f"[{step!r}]" for step in flow.path[flow.listed + 1 :])
    each = "each" if "each" not in taken else "each_item"
    return f"next({each} for {each} in {items} if {each}{key} == {text!r}){rest}"


def _variable(tool: str, taken: set[str]) -> str:
    """A name for what a tool answers, which hides nothing: ``lakes`` for ``find_lakes``."""
    words = [word for word in split(tool) if word not in VERBS]
    base = "_".join(words[:3]) or "found"
    if not base.isidentifier() or keyword.iskeyword(base) or hasattr(builtins, base) or base == "answer":
        base = f"found_{base}" if f"found_{base}".isidentifier() else "found"
    names = (base, *(f"{base}_{number}" for number in range(2, 100)))
    return next(name for name in names if name not in taken)


# -- what is asked -----------------------------------------------------------------------------------------------------


def _asked(way: Made, nouns: Set[str]) -> Asked:
    response, held = way.instance.response, ""
    while isinstance(response, dict) and (inside := _held(response)):
        response, held = response[inside], inside
    given = {*map(str.casefold, way.instance.arguments)}
    fields = [
        key
        for key, value in (response.items() if isinstance(response, dict) else ())
        if isinstance(value, str | int | float) and not isinstance(value, bool) and value != MASKED
        if may_be_name(key) and key.casefold() not in given and not is_identifier(key, _TOLD_LAST)
    ]
    many, thing = isinstance(response, list), _thing(way.tool, way.instance.arguments, nouns)
    things = split(held) if is_plural(held or "-") and not CONTAINERS.issuperset(words_of(held)) else thing
    known = things and (is_plural(things[-1]) or singular(things[-1]) in nouns)
    return Asked(thing, fields, (things if known else ()) if many else None, _parts(way, (), nouns))


def _parts(way: Made, of: tuple[str, ...], nouns: Set[str]) -> list[Part]:
    """The thing comes first that it is about; ``of``: words for what is read off the call, if another one does."""
    parts: list[Part] = []
    for name, value in way.instance.arguments.items():
        flow = way.flows.get(name)
        if flow is None:
            kind: Literal["word", "value"] = "word" if is_word(name) else "value"
            parts += [Part(kind, split(name), value, of)] if isinstance(value, _SCALARS) else []
            continue
        inner = _parts(flow.call, flow.thing, nouns)
        if flow.label is not None:
            inner = [Part("named", flow.thing, flow.label[1], of), *inner]
        elif flow.first or not inner:
            source = _thing(flow.call.tool, (), nouns)
            inner = [Part("first" if flow.first else "only", flow.thing, None, source), *inner]
        parts = [*inner, *parts]
    return parts


def _thing(tool: str, arguments: Iterable[str], nouns: Set[str]) -> tuple[str, ...]:
    """Words for what a tool gives, those of its name that are no argument's: ``popular movie`` of ``movie_popular``."""
    words = list(split(tool))
    for name in arguments:
        if len(given := split(name)) > 1:
            for at in range(len(words) - len(given), -1, -1):
                if tuple(words[at : at + len(given)]) == given:
                    del words[at : at + len(given)]
    told = {*phrase_of(tool)} - _ARTICLES or {*words_of(tool)} - VERBS - CONTAINERS - _ARTICLES
    kept = [word for word in dict.fromkeys(words) if singular(word) in told - _ABOUT]
    chosen = len(kept) > 1 and kept[0] in nouns and singular(kept[-1]) not in nouns and not is_plural(kept[-1])
    if chosen and not any(is_identifier(name, THINGS) for name in arguments):
        kept = [*kept[1:], kept[0]]
    return tuple(kept)


def _held(response: Mapping[str, Any]) -> str:
    """The key of what an answer is about: its only list of objects, or its only value, which is an object."""
    lists = [key for key, value in response.items() if isinstance(value, list) and isinstance((*value, 0)[0], dict)]
    objects = [key for key, value in response.items() if isinstance(value, dict)]
    if len(lists) == 1 and (
        CONTAINERS.issuperset(words_of(lists[0])) or (len(response) <= MAX_BESIDE + 1 and not objects)
    ):
        return lists[0]
    return objects[0] if len(response) == len(objects) == 1 else ""
