"""Demonstrations, (q, C) of ATC §4.1: of each tool one program that goes from what a user knows to what only tools know.

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
from atc.catalogue.graph.suppliers import Supplier
from atc.probing.candidates import call_of, is_word
from atc.probing.record import Demonstration, Instance, Record
from atc.schemas.identifiers import COORDINATES, HANDED_OUT, THINGS, VERBS, is_identifier, split
from atc.schemas.infer.text import MASKED, form, masked_text
from atc.schemas.protocol import Protocol
from atc.wording.questions import Asked, Part, question

MAX_CALLS = 3
"""Calls of a demonstration: the tool's own, and those before it."""
MAX_PLACES = 200
"""Places of one answer that are compared with an argument."""
MAX_WAYS = 2_000
"""Ways to come by the arguments of one tool that are looked at."""
NAMED = ("name", "title", "label")
"""Fields by which a user tells the items of a list apart, the likeliest first."""
MAX_NAME = 60
"""Characters of such a name."""
_SCALARS = (str, int, float, bool)
_UNKNOWABLE = frozenset({"uuid", "id"})
"""Forms of text (:func:`atc.schemas.infer.text.form`) that are an identifier's whatever its name says."""


def demonstrate(protocols: Mapping[str, Protocol], records: Mapping[str, Record]) -> None:
    """Give each documented tool's record its demonstration, or none. Nothing is called.

    A question of the model's stays where its program is the same as before.

    Args:
        protocols: the documents of the documented tools by name (:func:`atc.probing.document.protocol_of`).
        records: of all tools, with the calls that were made.
    """
    ways = Ways(protocols, records)
    for name in protocols:
        records[name].demonstration = _kept(ways.demonstration(name), records[name].demonstration)


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
        refers: the field only refers to the thing.
        label: the field and the text by which a user tells the item of a list that is meant; its first item without.
        listed: how many steps of the path lead to the list.
    """

    call: Made
    path: tuple[str | int, ...]
    refers: bool = False
    label: tuple[str, str] | None = None
    listed: int = 0


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
            yield from ((call, name, value) for name, value in call.instance.arguments.items() if name not in call.flows)


class Ways:
    """Finds the ways from what a user knows to the calls that were made.

    Args:
        protocols, records: as :func:`demonstrate` takes them.
    """

    def __init__(self, protocols: Mapping[str, Protocol], records: Mapping[str, Record]) -> None:
        self._protocols, self._records = protocols, records
        self._structure = Structure(protocols)
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

    def _instances(self, tool: str) -> Iterator[Instance]:
        return (each for each in self._records[tool].instances if MASKED not in repr(each.arguments))

    def _way(self, tool: str, instance: Instance, within: tuple[str, ...]) -> Made | None:
        """How a call's arguments are come by; ``None`` where one of them cannot be."""
        flows: dict[str, Flow] = {}
        for name, value in instance.arguments.items():
            must = unknowable(name, value) and not self._is_stated(tool, name, value)
            if not must and not is_identifier(name, COORDINATES):
                continue
            if flow := min(self._flows(tool, name, value, within), key=_cost_of_flow, default=None):
                flows[name] = flow
            elif must:
                return None
        return Made(tool, instance, flows)

    def _is_stated(self, tool: str, name: str, value: Any) -> bool:
        """Whether the document itself gives a value of an argument, so that everybody knows it."""
        schema = self._protocols[tool].parameters.get("properties", {}).get(name)
        if not isinstance(schema, dict):
            return False
        listed = [each for key in ("enum", "examples") for each in schema.get(key) or () if isinstance(schema[key], list)]
        return value in [*listed, *(schema[key] for key in ("const", "example", "default") if key in schema)]

    def _flows(self, tool: str, name: str, value: Any, within: tuple[str, ...]) -> Iterator[Flow]:
        """The answers that a value may be read from: of tools that are not given it, nor one of those that need it."""
        if len(within) >= MAX_CALLS or not isinstance(value, _SCALARS):
            return
        for found in self._structure.into(tool).get(name, ()):
            supplier = found.supplier
            if supplier.writes or not supplier.path or supplier.tool in within:
                continue
            for instance in self._instances(supplier.tool):
                self._left -= 1
                if self._left < 0:
                    return
                places = [path for path in _places(instance.response, supplier.path) if _at(instance.response, path) == value]
                if not places or (call := self._way(supplier.tool, instance, (*within, supplier.tool))) is None:
                    continue
                if all(given != value for each in (*call.before, call) for given in each.instance.arguments.values()):
                    yield from (flow for path in places[:3] if (flow := _flow(call, supplier, path)) is not None)

    # -- writing -------------------------------------------------------------------------------------------------------

    def _written(self, way: Made) -> str:
        """The program; empty where it may hold a secret."""
        taken, lines, names = set(self._protocols), list[str](), dict[int, str]()
        calls = [*way.before, way]
        for number, call in enumerate(calls):
            given = {name: repr(value) for name, value in call.instance.arguments.items()}
            for name, flow in call.flows.items():
                source = names[next(at for at, each in enumerate(calls) if each == flow.call)]
                given[name] = _read(source, flow, taken)
            target = "answer" if call is way else _variable(call.tool, taken)
            taken.add(target)
            names[number] = target
            lines.append(f"{target} = {call_of(self._protocols[call.tool], given)}")
        program = "\n".join(lines) + "\n"
        return program if masked_text(program) == program else ""


def _cost(way: Made) -> tuple[int, int, int, int]:
    """What makes a way worse: reading what only refers to a thing, first items, calls, arguments."""
    flows = [flow for call in (*way.before, way) for flow in call.flows.values()]
    first = sum(flow.label is None and bool(flow.listed) for flow in flows)
    coordinates = sum(is_identifier(name, COORDINATES) for _, name, _ in way.literals)
    return coordinates, sum(flow.refers for flow in flows), first, len(way.before) + len(way.instance.arguments)


def _cost_of_flow(flow: Flow) -> tuple[int, int, int, int]:
    refers, first = flow.refers, flow.label is None and bool(flow.listed)
    coordinates, inner, firsts, size = _cost(flow.call)
    return coordinates, refers + inner, first + firsts, size


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


def _flow(call: Made, supplier: Supplier, path: tuple[str | int, ...]) -> Flow | None:
    """A value as a program reads it: of a list the item that a name tells, or the first one; else nothing says which."""
    at = max((place for place, step in enumerate(path) if isinstance(step, int)), default=None)
    if at is None:
        return Flow(call, path, supplier.refers)
    if any(step != 0 for step in path[:at] if isinstance(step, int)):
        return None
    items = _at(call.instance.response, path[:at])
    label = _label(items, path[at]) if isinstance(path[at], int) else None
    words = {str(value).casefold() for _, _, value in call.literals}
    if path[at] == 0 and (label is None or any(word in label[1].casefold() for word in words)):
        label = None  # it is what was looked for
    elif label is None:
        return None
    return Flow(call, path, supplier.refers, label, at)


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


# -- what is asked ---------------------------------------------------------------------------------------------------------


def _asked(way: Made) -> Asked:
    """What a program answers, as facts for a question (:func:`atc.wording.questions.question`)."""
    response, given = way.instance.response, {name.casefold() for name in way.instance.arguments}
    while isinstance(response, dict) and len(response) == 1 and isinstance(next(iter(response.values())), dict | list):
        response = next(iter(response.values()))
    many = isinstance(response, list)
    if isinstance(response, list):
        response = next((each for each in response if isinstance(each, dict)), None)
    fields = [
        key
        for key, value in (response.items() if isinstance(response, dict) else ())
        if isinstance(key, str) and key.isprintable() and len(key) <= MAX_NAME and key.casefold() not in given
        if isinstance(value, _SCALARS) and not is_identifier(key, THINGS | HANDED_OUT)
    ]
    flows = [(call, flow) for call in (*way.before, way) for flow in call.flows.values()]
    parts = [Part("named", phrase_of(flow.call.tool), flow.label[1]) for _, flow in flows if flow.label is not None]
    parts += [
        Part("word" if is_word(name) else "value", split(name), value)
        for _, name, value in way.literals
        if isinstance(value, _SCALARS)
    ]
    first = tuple(phrase_of(flow.call.tool) for _, flow in flows if flow.label is None and flow.listed and not parts)
    return Asked(phrase_of(way.tool), tuple(fields), many, tuple(parts), first[:1])
