"""Bound what a validation may cost before it is made, from the schema and the size of the value.

The validator is fast, and four things make it slow all the same: parts of a schema that are looked at again through
every reference to them (thirty definitions that each refer twice to the next are looked at a milliard times), patterns
that follow a great many ways through a text at once, large lists of values in the schema itself, and vast numbers that
are divided exactly. Nothing stops a validation that has begun. So its steps are counted beforehand, in the schema alone
and once: how many there are at most at one place of any value. That times the size of a value bounds its validation;
what is over the bound is not made.

A step takes some 10 to 30 nanoseconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple
from urllib.parse import unquote

from atc._records.packing import count_values, is_small, json_text, pack, without_strings

MAX_STEPS = 20_000_000
"""Of one validation: some 0.3 s."""
_REMEMBERED = 30
"""Steps of a reference to a part that is being looked at: the validator remembers its outcome for each value."""
_WRITTEN = 1_000
"""Letters of a reason that take as long as a step."""
_UNIQUE = 4
_MULTIPLE, _MULTIPLE_LONG = 100, 1_500
"""Of one number: ``multipleOf`` divides exactly, which takes longer where numbers are vast or tiny."""
_UNEVALUATED = 3
"""How often ``unevaluatedProperties`` and ``unevaluatedItems`` have the parts beside them looked at."""
_LEVELS = 8
"""Levels of a value down to which its members are counted by themselves."""
_VISITS = 10_000
"""Parts of a schema that are looked at, beside those that its own length allows."""
_LONG_NUMBER = re.compile(r"\d{16}|e\+")
_VAST_NUMBER = re.compile(r"(?<!\d)\d{20}|e[+-]\d{3}")
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*+\]?|\{(\d{1,6})(?:(,)(\d{0,6}))?\}|.", re.DOTALL)
"""Of a regular expression: a letter, a class of them, how often it may be repeated, or a sign."""

_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMES = ("$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor")
_BESIDE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
"""Parts that the value itself is held to."""
_EITHER = ("properties", "additionalProperties", "propertyNames", "items", "additionalItems", "prefixItems")
"""Parts of which a member is held to one."""
_EACH = ("patternProperties", "unevaluatedProperties", "contains", "unevaluatedItems")
"""Parts that a member is held to besides."""
_SAVING = ("unevaluatedProperties", "unevaluatedItems")
_BY_MEMBERS = frozenset(_BESIDE) | {*_REFERENCES, *_EACH, "propertyNames", "uniqueItems"}
"""What keeps the members of an object from being counted each for itself."""


class Steps(NamedTuple):
    """Steps at one place of a value, at most.

    Attributes:
        each: for a value there.
        letters: for each letter of a text there: the states of its patterns.
        again: references that lead back to a part that is being looked at, and so to the same for each part of a value.
    """

    each: float = 0
    letters: float = 0
    again: float = 0


def _sum(steps: Iterable[Steps]) -> Steps:
    return Steps(*map(sum, zip(Steps(), *steps, strict=True)))


def _most(steps: Iterable[Steps]) -> Steps:
    return Steps(*map(max, zip(Steps(), *steps, strict=True)))


@dataclass(frozen=True)
class Cost:
    """What a schema costs.

    Attributes:
        steps: at one place of a value, each part that leads back to itself included once.
        unique: whether lists may have to be without repetitions somewhere.
        multiples: whether numbers may have to be multiples of another somewhere.
        enum: values of the longest enumeration: a reason names its first ones, and takes all into its hands.
        has_choices: whether there are alternatives somewhere: why none fits is asked of all at once.
    """

    steps: Steps
    unique: bool
    multiples: bool
    enum: int
    has_choices: bool

    def of(self, size: Size) -> float:
        """Return the steps of the question whether a value fits."""
        most = self.steps.each * size.values + self.steps.letters * size.letters
        if size.has_vast_numbers:
            most += size.values * _MULTIPLE_LONG if self.multiples else 0
            most += size.values * (15 * size.values + size.letters) if self.unique else 0  # each time from its digits
        # two large numbers are told apart one by one
        return most + size.values**2 if self.unique and size.has_long_numbers else most

    def of_reasons(self, size: Size, depth: int) -> float:
        """Return the steps of the question why a value of so many levels does not fit.

        What leads back to itself is not remembered there, and the text of what does not fit is written for each reason.
        """
        if self.steps.again > 1 and depth > 60:
            return inf
        written = self.steps.each * size.letters / _WRITTEN + size.values * self.enum / 10
        return (self.of(size) + written) * max(self.steps.again, 1) ** depth


@dataclass(frozen=True)
class Size:
    """How large a value is: values in it, and letters of its texts, at most."""

    values: int
    letters: int
    has_long_numbers: bool
    has_vast_numbers: bool

    @classmethod
    def of(cls, value: Any, cost: Cost) -> Size:
        """Measure a value, exactly only where that matters for ``cost``."""
        text = json_text(value)
        if text is None:
            text = json.dumps(pack(value), default=str)
        bare = without_strings(text) if cost.unique or cost.multiples else ""
        numbers = cost.unique and bool(_LONG_NUMBER.search(bare)), _VAST_NUMBER.search(bare) is not None
        rough = cls(1 + text.count("[") + text.count("{") + text.count(","), len(text), *numbers)
        return rough if cost.of(rough) <= MAX_STEPS else cls(count_values(text), len(text), *numbers)


def steps(text: str, pointer: str, value: Any) -> float:
    """Bound the steps of the question whether a value fits a part of a schema.

    Args:
        text: the whole schema as JSON.
        pointer: leads to the part, as a JSON pointer.
    """
    cost = cost_of(text, pointer)
    if is_small(value) and cost.steps.letters == 0 and not cost.unique:
        return cost.steps.each * 100
    return _steps(text, pointer, value, _LEVELS)


def _steps(text: str, pointer: str, value: Any, levels: int) -> float:
    cost = cost_of(text, pointer)
    most = cost.of(Size.of(value, cost))
    node = _part(_schema(text), pointer)
    names = node.get("properties") if isinstance(node, dict) and _BY_MEMBERS.isdisjoint(node) else None
    if most <= MAX_STEPS or levels == 0 or not isinstance(value, dict) or not isinstance(names, dict):
        return most
    total = float(len(value) + len(names))  # each member for itself: a long text has one of them
    for key, item in value.items():
        step = "/properties/" + key.replace("~", "~0").replace("/", "~1") if key in names else "/additionalProperties"
        if isinstance(_part(node, step), dict):
            total += _steps(text, pointer + step, item, levels - 1)
        if total > MAX_STEPS:
            break
    return min(most, total)


@lru_cache(maxsize=4096)
def cost_of(text: str, pointer: str = "") -> Cost:
    """Count what a part of a schema costs, once. Takes time linear in the schema, or finds that its end is infinite.

    Args:
        text: the whole schema as JSON.
        pointer: leads to the part, as a JSON pointer.
    """
    root = _schema(text)
    counter = _Counter(root, _VISITS + len(text) // 2)
    try:
        found = counter.steps(_part(root, pointer))
        alone = [counter.alone(target) for target in list(counter.targets.values())]
        found = _sum([found, *alone])._replace(again=_most([found, *alone]).again)
    except (_TooMuch, RecursionError):
        found = Steps(inf, 0, inf)
    choices = '"anyOf"' in text or '"oneOf"' in text
    return Cost(found, '"uniqueItems"' in text, '"multipleOf"' in text, counter.longest_enum, choices)


@lru_cache(maxsize=256)
def _schema(text: str) -> Any:
    return json.loads(text)


def _part(root: Any, pointer: str) -> Any:
    node = root
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and step.isdigit() and int(step) < len(node):
            node = node[int(step)]
        else:
            node = node.get(step) if isinstance(node, dict) else None
    return node


class _TooMuch(Exception):
    """There are more ways through a schema than are counted."""


@dataclass
class _Counter:
    """Counts the steps of a schema's parts as the validator takes them: each reference anew, but to what it is in.

    Attributes:
        left: parts that may still be looked at.
        targets: parts that lead back to themselves, by their identity.
    """

    root: Any
    left: int
    targets: dict[int, Any] = field(default_factory=dict)
    longest_enum: int = 0
    _known: dict[int, Steps] = field(default_factory=dict)
    _above: dict[int, int] = field(default_factory=dict)
    _lowest: list[float] = field(default_factory=lambda: [inf])
    _named: list[Any] | None = None

    def alone(self, target: Any) -> Steps:
        """Count the steps of a part that is looked at first."""
        self._above = {id(target): 0}
        return self._body(target)

    def steps(self, node: Any) -> Steps:
        """Count the steps of a part."""
        if not isinstance(node, dict):
            return Steps(1)
        if (known := self._known.get(id(node))) is not None:
            return known
        self.left -= 1 + len(node) // 8
        if self.left < 0:
            raise _TooMuch
        height = self._above.get(id(node), len(self._above))
        self._lowest.append(inf)
        found = self._body(node)
        lowest = self._lowest.pop()
        if lowest >= height:  # it rests on nothing that it is in
            self._known[id(node)] = found
        else:
            self._lowest[-1] = min(self._lowest[-1], lowest)
        return found

    def _body(self, node: dict[str, Any]) -> Steps:
        self.longest_enum = max(self.longest_enum, _length(node.get("enum")))
        members = [_most(map(self.steps, _parts(node, _EITHER))), *map(self.steps, _parts(node, _EACH)), Steps(3)]
        members += [Steps(1, weight_of(pattern)) for pattern in _keys(node.get("patternProperties"))]
        members += [Steps(_UNIQUE)] if node.get("uniqueItems") is True else []
        found = _most([Steps(_own(node), weight_of(node.get("pattern"))), _sum(members)])
        found = _sum([found, *map(self.steps, _parts(node, _BESIDE)), *map(self._referred, self._targets(node))])
        return Steps(*(_UNEVALUATED * one for one in found)) if any(key in node for key in _SAVING) else found

    def _referred(self, target: Any) -> Steps:
        if (at := self._above.get(id(target))) is not None:
            self.targets[id(target)] = target
            self._lowest[-1] = min(self._lowest[-1], at)
            return Steps(_REMEMBERED, 0, 1)
        self._above[id(target)] = len(self._above)
        try:
            return self.steps(target)
        finally:
            del self._above[id(target)]

    def _targets(self, node: dict[str, Any]) -> Iterator[Any]:
        """What a part refers to, by its place; and where parts have names of their own, any of these."""
        for reference in filter(None, map(node.get, _REFERENCES)):
            if not isinstance(reference, str):
                continue
            found = [self.root, *self._with_names()]
            if reference == "#" or reference.startswith("#/"):
                found = [part for base in found if isinstance(part := _part(base, unquote(reference[1:])), dict)]
            yield from {id(part): part for part in found}.values()

    def _with_names(self) -> list[Any]:
        if self._named is None:
            self._named, waiting = [], [self.root]
            while waiting:
                at = waiting.pop()
                if isinstance(at, dict) and at is not self.root:
                    self._named += [at] if any(isinstance(at.get(name), str | bool) for name in _NAMES) else []
                waiting += at.values() if isinstance(at, dict) else at if isinstance(at, list) else ()
        return self._named


def _parts(node: dict[str, Any], keywords: Iterable[str]) -> Iterator[Any]:
    for keyword in keywords:
        value = node.get(keyword)
        if isinstance(value, list):
            yield from value
        elif keyword in _MAPS:
            yield from value.values() if isinstance(value, dict) else ()
        elif keyword in node:
            yield value


def _keys(value: Any) -> Iterable[str]:
    return value if isinstance(value, dict) else ()


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list | dict) else 0


def _own(node: dict[str, Any]) -> float:
    found = 1 + len(node)
    values = node.get("enum")
    if isinstance(values, list) and len(set(map(type, values))) == 1 and isinstance(values[0], str | int):
        values = None  # they are looked up
    for value in (values, node.get("const")):
        found += 2 * count_values(json_text(value) or "") if value is not None else 0
    if isinstance(divisor := node.get("multipleOf"), int | float):
        found += _MULTIPLE if 1e-9 <= abs(divisor) <= 1e15 else _MULTIPLE_LONG
    listed = ("required", "properties", "dependentRequired", "dependentSchemas", "dependencies")
    return found + sum(_length(node.get(keyword)) for keyword in listed)


@lru_cache(maxsize=4096)
def weight_of(pattern: Any) -> int:
    """Bound the states of a regular expression: its letters, each as often as it may be repeated."""
    if not isinstance(pattern, str):
        return 0
    sums, last = [0], [0]
    for token in _TOKEN.finditer(pattern):
        least, has_end, most = token.groups()
        if least is not None:
            last[-1] *= max(int(most or least) + (most == "" and has_end is not None), 1)
        elif token[0] == "(":
            sums, last = [*sums, 0], [*last, 0]
        elif token[0] not in "*+?|^$":
            made = sums.pop() + last.pop() + 1 if token[0] == ")" and len(sums) > 1 else 1
            sums[-1] += last[-1]
            last[-1] = made
    return sum(sums) + sum(last) + 1
