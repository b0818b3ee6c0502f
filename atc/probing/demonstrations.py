"""Demonstrations, (q, C) of ATC §4.1: for each tool one program, from what a user knows to what only tools know.

A user knows words, dates and codes that mean the same everywhere; identifiers come out of answers. Which tool's answer
holds whose identifier, the tool graph says (:mod:`atc.catalogue.graph.structure`). Every call of a demonstration was
made and answered while its tools were probed, and the value that flows between two is the one that was answered. A tool
of which no such program is known has none: one that begins with an identifier teaches nobody where to begin.
"""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from atc.calls.json_values import canonical
from atc.catalogue.graph.resources import phrase_of
from atc.catalogue.graph.structure import Structure
from atc.probing.candidates import call_of, is_word
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
from atc.wording.questions import Asked, Part, question

MAX_CALLS = 3
"""Calls of a demonstration: the tool's own, and those before it."""
MAX_PLACES = 200
"""Places of one answer that are compared with an argument."""
MAX_ITEMS, MAX_PROPOSED = 3, 2
"""Items of one list that may be read, and calls that are made for a demonstration."""
MAX_WAYS = 2_000
"""Ways to come by the arguments of one tool that are looked at."""
NAMED = ("name", "title", "label")
"""Fields by which a user tells the items of a list apart, the likeliest first."""
MAX_BESIDE = 6
"""Plain values beside a list in an answer that is about the list: counts, pages."""
MAX_NAME = 60
"""Characters of such a name."""
_SCALARS = (str, int, float, bool)


def demonstrate(declared: Mapping[str, Protocol], records: Mapping[str, Record]) -> Ways:
    """Give each documented tool's record its demonstration, or none. Nothing is called.

    A question of the model's stays where its program is the same as before.

    Args:
        declared: the tools as their source has them, by name.
        records: of all tools, with the calls that were made.
    """
    ways = Ways(declared, {name: record for name, record in records.items() if record.state == "documented"})
    for name, record in ways.records.items():
        record.demonstration = _kept(ways.demonstration(name), record.demonstration)
    return ways


def _kept(new: Demonstration | None, old: Demonstration | None) -> Demonstration | None:
    return old if new and old and old.asked and (old.program, old.arguments) == (new.program, new.arguments) else new


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
        label: the field and the text by which a user tells the item of a list that is meant.
        listed: how many steps of the path lead to that list.
        first: the first item of a list is taken, and neither its name nor what was looked for says why.
    """

    call: Made
    path: tuple[str | int, ...]
    thing: tuple[str, ...] = ()
    refers: bool = False
    label: tuple[str, str] | None = None
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

    def demonstration(self, tool: str) -> Demonstration | None:
        """The best one of a tool; ``None`` where each begins with what nobody can know."""
        self._left = MAX_WAYS
        made = [way for each in self._instances(tool) if (way := self._way(tool, each, (tool,))) is not None]
        written = [(each, program) for each in sorted(made, key=_cost) if (program := self._written(each))]
        if not written:
            return None
        best, program = written[0]
        return Demonstration(question(_asked(best)), program, best.instance.arguments)

    def missing(self, tool: str) -> list[dict[str, Any]]:
        """Calls that would make a demonstration of a tool that has none, the best first: identifiers that were guessed
        are replaced by those that can be read.
        """
        self._left = MAX_WAYS
        made: list[dict[str, Any]] = []
        for instance in [*self._instances(tool)][:1]:
            guessed = [name for name, value in instance.arguments.items() if self._is_unknown(tool, name, value)]
            options = [sorted(self._flows(tool, name, (tool,)), key=_cost_of_flow)[:MAX_PROPOSED] for name in guessed]
            for some in zip(*options, strict=False):
                values = {name: value for name, (value, _) in zip(guessed, some, strict=True)}
                made.append({**instance.arguments, **values})
        return made

    def _instances(self, tool: str) -> Iterator[Instance]:
        return (each for each in self.records[tool].instances if MASKED not in repr(each.arguments))

    def _way(self, tool: str, instance: Instance, within: tuple[str, ...]) -> Made | None:
        """How a call's arguments are come by; ``None`` where one of them cannot be."""
        flows: dict[str, Flow] = {}
        for name, value in instance.arguments.items():
            must = self._is_unknown(tool, name, value)
            if not must and not is_identifier(name, COORDINATES):
                continue
            if found := min(self._flows(tool, name, within, value), key=_cost_of_flow, default=None):
                flows[name] = found[1]
            elif must:
                return None
        return Made(tool, instance, flows)

    def _is_unknown(self, tool: str, name: str, value: Any) -> bool:
        """Whether only tools know a value: the source does not state it."""
        schema = self._declared[tool].parameters.get("properties", {}).get(name)
        if not unknowable(name, value) or not isinstance(schema, dict):
            return unknowable(name, value)
        listed = [schema[key] for key in ("enum", "examples") if isinstance(schema.get(key), list)]
        alone = [schema[key] for key in ("const", "example", "default") if key in schema]
        return not any(value in each for each in (*listed, alone))

    def _flows(self, tool: str, name: str, within: tuple[str, ...], *value: Any) -> Iterator[tuple[Any, Flow]]:
        """Values that an argument may be read as, from answers of tools that are not given them, nor need the tool.

        Args:
            value: that alone, if it is given.
        """
        if len(within) >= MAX_CALLS:
            return
        for found in self._structure.into(tool).get(name, ()):
            supplier = found.supplier
            if supplier.writes or not supplier.path or supplier.tool in within:
                continue
            for instance in self._instances(supplier.tool):
                self._left -= 1
                if self._left < 0:
                    return
                places = [(_at(instance.response, place), place) for place in _places(instance.response, supplier.path)]
                if value:
                    places = [(each, place) for each, place in places if each == value[0]]
                if not places or (call := self._way(supplier.tool, instance, (*within, supplier.tool))) is None:
                    continue
                given = [each for made in (*call.before, call) for each in made.instance.arguments.values()]
                thing = self._structure.facts(tool).wanted(name).things[-1:]
                for each, place in places[:MAX_ITEMS]:
                    if each not in given and (flow := _flow(call, place, thing, supplier.refers)) is not None:
                        yield each, flow

    # -- writing -------------------------------------------------------------------------------------------------------

    def _written(self, way: Made) -> str:
        """The program; empty where it may hold a secret."""
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
        return program if masked_text(program) == program else ""


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
    return coordinates, refers + flow.refers, first + flow.first, 2 * size + (flow.label is not None)


def _places(value: Any, path: Sequence[str]) -> list[tuple[str | int, ...]]:
    """The places of an answer at a path of its schema, the first ones."""
    found: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    for step in path:
        deeper: list[tuple[tuple[str | int, ...], Any]] = []
        for place, inside in found:
            if step == "[]" and isinstance(inside, list):
                deeper += [((*place, at), each) for at, each in enumerate(inside[:MAX_PLACES])]
            elif step != "[]" and isinstance(inside, dict) and step in inside:
                deeper.append(((*place, step), inside[step]))
        found = deeper[:MAX_PLACES]
    return [place for place, inside in found if isinstance(inside, _SCALARS)]


def _at(value: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        value = value[step]
    return value


def _flow(call: Made, path: tuple[str | int, ...], thing: tuple[str, ...], refers: bool) -> Flow | None:
    """A value as a program reads it; ``None`` where it is of a later item of a list, and no name tells it."""
    at = max((place for place, step in enumerate(path) if isinstance(step, int)), default=None)
    if at is None:
        return Flow(call, path, thing, refers)
    if any(step != 0 for step in path[:at] if isinstance(step, int)):
        return None
    label = _label(_at(call.instance.response, path[:at]), path[at])
    words = [str(value).casefold() for _, name, value in call.literals if is_word(name)]
    if path[at] == 0 and label is not None and any(word in label[1].casefold() for word in words):
        return Flow(call, path, thing, refers)  # it is what was looked for
    if label is None and path[at] != 0:
        return None
    return Flow(call, path, thing, refers, label, at, first=label is None)


def _label(items: list[Any], at: Any) -> tuple[str, str] | None:
    """The field and the text by which an item is told from those before it; ``None`` where there is none."""
    item = items[at]
    for key in NAMED if isinstance(item, dict) else ():
        text = item.get(key)
        if isinstance(text, str) and 0 < len(text) <= MAX_NAME and text.isprintable() and form(text) == "plain":
            alike = [each for each in items[: at + 1] if isinstance(each, dict) and each.get(key) == text]
            whole = all(isinstance(each, dict) and key in each for each in items[:at])
            if len(alike) == 1 and whole and masked_text(text) == text:
                return key, text
    return None


def _read(source: str, flow: Flow, taken: set[str]) -> str:
    """The expression of a value that an earlier call answered."""
    if flow.label is None:
        return source + "".join(f"[{step!r}]" for step in flow.path)
    key, text = flow.label
    items = source + "".join(f"[{step!r}]" for step in flow.path[: flow.listed])
    rest = "".join(f"[{step!r}]" for step in flow.path[flow.listed + 1 :])
    each = "each" if "each" not in taken else "each_item"
    return f"next({each} for {each} in {items} if {each}[{key!r}] == {text!r}){rest}"


def _variable(tool: str, taken: set[str]) -> str:
    """A name for what a tool answers, which hides nothing: ``lakes`` for ``find_lakes``."""
    words = [word for word in split(tool) if word not in VERBS]
    base = "_".join(words[:3]) or "found"
    if not base.isidentifier() or keyword.iskeyword(base) or hasattr(builtins, base) or base == "answer":
        base = f"found_{base}" if f"found_{base}".isidentifier() else "found"
    names = (base, *(f"{base}_{number}" for number in range(2, 100)))
    return next(name for name in names if name not in taken)


# -- what is asked -----------------------------------------------------------------------------------------------------


def _asked(way: Made) -> Asked:
    """What a program answers, as facts for a question (:func:`atc.wording.questions.question`)."""
    response, held = way.instance.response, ""
    while isinstance(response, dict) and (inside := _held(response)):
        response, held = response[inside], inside
    given = {*map(str.casefold, way.instance.arguments)}
    fields = [
        key
        for key, value in (response.items() if isinstance(response, dict) else ())
        if isinstance(value, str | int | float) and not isinstance(value, bool) and value != MASKED
        if may_be_name(key) and key.casefold() not in given and not is_identifier(key, THINGS | HANDED_OUT)
    ]
    flows = [flow for call in (*way.before, way) for flow in call.flows.values()]
    parts = [Part("named", flow.thing, flow.label[1]) for flow in flows if flow.label is not None]
    parts += [
        Part("word" if is_word(name) else "value", split(name), value)
        for _, name, value in way.literals
        if isinstance(value, _SCALARS)
    ]
    first = [flow.thing for flow in flows if flow.first and not parts]
    many, thing = isinstance(response, list), _thing(way)
    things = split(held) if many and is_plural(held) and not CONTAINERS.issuperset(words_of(held)) else ()
    return Asked(thing, tuple(fields), many, tuple(parts), tuple(first[:1]), things or thing if many else ())


def _thing(way: Made) -> tuple[str, ...]:
    """Words for what a tool gives: those of its name that are no argument's."""
    words = list(split(way.tool))
    for name in way.instance.arguments:
        if len(given := split(name)) > 1:
            for at in range(len(words) - len(given), -1, -1):
                if tuple(words[at : at + len(given)]) == given:
                    del words[at : at + len(given)]
    told = {*phrase_of(way.tool)}
    return tuple(dict.fromkeys(word for word in words if singular(word) in told))


def _held(response: Mapping[str, Any]) -> str:
    """The key of what an answer is about: its only list of objects, or its only value, which is an object."""
    lists = [key for key, value in response.items() if isinstance(value, list) and isinstance((*value, 0)[0], dict)]
    objects = [key for key, value in response.items() if isinstance(value, dict)]
    if len(lists) == 1 and (
        CONTAINERS.issuperset(words_of(lists[0])) or (len(response) <= MAX_BESIDE + 1 and not objects)
    ):
        return lists[0]
    return objects[0] if len(response) == len(objects) == 1 else ""
