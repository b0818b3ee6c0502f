"""What a validation may cost at most, told before it is made, from the schema and the size of the value.

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
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple
from urllib.parse import unquote

from atc._records.packing import count_values, is_small, json_text, pack, without_strings

_COUNT = re.compile(r"\{(\d{1,6})(?:(,)(\d{0,6}))?\}")


@lru_cache(maxsize=4096)
def weight_of(pattern: Any) -> int:
    """States of a regular expression at most: its letters, each as often as it may be repeated."""
    if not isinstance(pattern, str):
        return 0
    sums, last = [0], [0]
    at, end = 0, len(pattern)
    while at < end:
        char = pattern[at]
        counted = _COUNT.match(pattern, at) if char == "{" else None
        if counted is not None:
            last[-1] *= max(int(counted[3] or counted[1]) + (counted[3] == ""), 1)
            at = counted.end()
            continue
        made = 1
        if char == "\\":
            at += 1
        elif char == "[":
            at = _end_of_class(pattern, at)
        elif char == "(":
            sums.append(0)
            last.append(0)
            made = 0
        elif char == ")" and len(sums) > 1:
            made = sums.pop() + last.pop() + 1
        elif char in "*+?|^$":
            made = 0
        if made:
            sums[-1] += last[-1]
            last[-1] = made
        at += 1
    return sum(sums) + sum(last) + 1


def _end_of_class(pattern: str, at: int) -> int:
    end = at + 1
    if pattern[end : end + 1] == "^":
        end += 1
    if pattern[end : end + 1] == "]":
        end += 1
    while end < len(pattern) and pattern[end] != "]":
        end += 2 if pattern[end] == "\\" else 1
    return end


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
_BESIDE = ("allOf", "anyOf", "oneOf")
_BESIDE_ONE = ("not", "if", "then", "else")
_BY_NAME = ("dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_BESIDE_ALL = frozenset({*_BESIDE, *_BESIDE_ONE, *_BY_NAME, *_REFERENCES, "patternProperties", "uniqueItems"})
_SAVING = frozenset({"unevaluatedProperties", "unevaluatedItems"})
_LONG_NUMBER = re.compile(r"\d{16}|e\+")
_VAST_NUMBER = re.compile(r"(?<!\d)\d{20}|e[+-]\d{3}")


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

    def beside(self, other: Steps) -> Steps:
        """Of both, where both are looked at."""
        return Steps(*(a + b for a, b in zip(self, other, strict=True)))

    def either(self, other: Steps) -> Steps:
        """Of either, where a place is under one of them."""
        return Steps(*map(max, self, other))


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
        """Steps of the question whether a value fits."""
        most = self.steps.each * size.values + self.steps.letters * size.letters
        if size.has_vast_numbers:
            most += size.values * _MULTIPLE_LONG if self.multiples else 0
            most += size.values * (15 * size.values + size.letters) if self.unique else 0  # each time from its digits
        # two large numbers are told apart one by one
        return most + size.values**2 if self.unique and size.has_long_numbers else most

    def of_reasons(self, size: Size, depth: int) -> float:
        """Steps of the question why a value does not fit: what leads back to itself is not remembered there, and the
        text of what does not fit is written for each reason.

        Args:
            depth: levels of the value.
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
    has_vast_numbers: bool = False

    @classmethod
    def of(cls, value: Any, cost: Cost | None = None) -> Size:
        """Of one value. ``cost``: what it is asked for; it is counted exactly only where that matters."""
        text = json_text(value)
        if text is None:
            text = json.dumps(pack(value), default=str)
        bare = without_strings(text) if cost is not None and (cost.unique or cost.multiples) else ""
        long = bool(cost and cost.unique and _LONG_NUMBER.search(bare))
        numbers = long, _VAST_NUMBER.search(bare) is not None
        rough = cls(1 + text.count("[") + text.count("{") + text.count(","), len(text), *numbers)
        if cost is not None and cost.of(rough) <= MAX_STEPS:
            return rough
        return cls(count_values(text), len(text), *numbers)


def steps(text: str, pointer: str, value: Any) -> float:
    """Steps at most of the question whether a value fits a part of a schema.

    Args:
        text: the whole schema as JSON.
        pointer: leads to the part, as a JSON pointer.
    """
    cost = cost_of(text, pointer)
    if is_small(value) and cost.steps.letters == 0 and not cost.unique:
        return cost.steps.each * 100
    most = cost.of(Size.of(value, cost))
    return most if most <= MAX_STEPS else _by_members(text, pointer, value, most, _LEVELS)


def _by_members(text: str, pointer: str, value: Any, most: float, levels: int) -> float:
    """``most``, or less where the members of an object are counted each for itself: a long text has one of them."""
    node = _part(_schema(text), pointer)
    names = node.get("properties") if isinstance(node, dict) else None
    if levels == 0 or not isinstance(value, dict) or not isinstance(names, dict) or not _BESIDE_ALL.isdisjoint(node):
        return most
    if not _SAVING.isdisjoint(node) or isinstance(node.get("propertyNames"), dict):
        return most
    total = float(len(value) + len(names))
    for key, item in value.items():
        if total > MAX_STEPS:
            break
        step = ("properties", key) if key in names else ("additionalProperties",)
        if not isinstance(_at(node, step), dict):
            continue
        below = pointer + "".join("/" + each.replace("~", "~0").replace("/", "~1") for each in step)
        cost = cost_of(text, below)
        of_item = cost.of(Size.of(item, cost))
        total += of_item if of_item <= MAX_STEPS else _by_members(text, below, item, of_item, levels - 1)
    return min(most, total)


def _at(node: Any, path: Iterable[str]) -> Any:
    for step in path:
        node = node.get(step) if isinstance(node, dict) else None
    return node


@lru_cache(maxsize=4096)
def cost_of(text: str, pointer: str = "") -> Cost:
    """What a part of a schema costs, kept for the next time. Takes time linear in the schema, or its end is infinite.

    Args:
        text: the whole schema as JSON.
        pointer: leads to the part, as a JSON pointer.
    """
    root = _schema(text)
    counter = _Counter(root, most=_VISITS + len(text) // 2)
    try:
        found = counter.steps(_part(root, pointer))
        for target in list(counter.targets.values()):
            alone = counter.alone(target)
            found = Steps(found.each + alone.each, found.letters + alone.letters, max(found.again, alone.again))
    except (_TooMuch, RecursionError):
        found = Steps(inf, 0, inf)
    choices = '"anyOf"' in text or '"oneOf"' in text
    return Cost(found, '"uniqueItems"' in text, '"multipleOf"' in text, _longest_enum(text), choices)


@lru_cache(maxsize=256)
def _longest_enum(text: str) -> int:
    longest, waiting = 0, [_schema(text)] if '"enum"' in text else []
    while waiting:
        at = waiting.pop()
        if isinstance(at, dict):
            values = at.get("enum")
            longest = max(longest, len(values) if isinstance(values, list) else 0)
            waiting += at.values()
        elif isinstance(at, list):
            waiting += at
    return longest


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


class _Counter:
    """Counts the steps of a schema's parts as the validator takes them: each reference anew, but to what it is in.

    Attributes:
        targets: parts that lead back to themselves, by their identity.
    """

    def __init__(self, root: Any, most: int) -> None:
        self.root = root
        self.targets: dict[int, Any] = {}
        self._left = most
        self._known: dict[int, Steps] = {}
        self._stack: dict[int, int] = {}
        self._lowest = [inf]
        self._named: list[Any] | None = None

    def alone(self, target: Any) -> Steps:
        """The steps of a part, looked at first."""
        self._stack = {id(target): 0}
        return self._body(target)

    def steps(self, node: Any) -> Steps:
        """The steps of a part."""
        if not isinstance(node, dict):
            return Steps(1)
        if (known := self._known.get(id(node))) is not None:
            return known
        self._left -= 1 + len(node) // 8
        if self._left < 0:
            raise _TooMuch
        height = self._stack.get(id(node), len(self._stack))
        self._lowest.append(inf)
        found = self._body(node)
        lowest = self._lowest.pop()
        if lowest >= height:  # it rests on nothing that it is in
            self._known[id(node)] = found
        else:
            self._lowest[-1] = min(self._lowest[-1], lowest)
        return found

    def _body(self, node: dict[str, Any]) -> Steps:
        below = self._members(node).either(self._items(node))
        found = Steps(_own(node), weight_of(node.get("pattern"))).either(below)
        for part in self._beside(node):
            found = found.beside(self.steps(part))
        for keyword in _REFERENCES:
            if isinstance(reference := node.get(keyword), str):
                for target in self._targets(reference):
                    found = found.beside(self._referred(target))
        if not _SAVING.isdisjoint(node):
            found = Steps(*(_UNEVALUATED * each for each in found))
        return found

    def _referred(self, target: Any) -> Steps:
        at = self._stack.get(id(target))
        if at is not None:
            self.targets[id(target)] = target
            self._lowest[-1] = min(self._lowest[-1], at)
            return Steps(_REMEMBERED, 0, 1)
        self._stack[id(target)] = len(self._stack)
        try:
            return self.steps(target)
        finally:
            del self._stack[id(target)]

    def _members(self, node: dict[str, Any]) -> Steps:
        found = self.steps(node.get("additionalProperties"))
        if isinstance(names := node.get("properties"), dict):
            for part in names.values():
                found = found.either(self.steps(part))
        if isinstance(patterns := node.get("patternProperties"), dict):
            for pattern, part in patterns.items():
                found = found.beside(self.steps(part)).beside(Steps(1, weight_of(pattern)))
        found = found.beside(self.steps(node.get("unevaluatedProperties")))
        return found.either(self.steps(node.get("propertyNames")))

    def _items(self, node: dict[str, Any]) -> Steps:
        items = node.get("items")
        found = self.steps(node.get("additionalItems")).either(self.steps(items))
        for listed in (items, node.get("prefixItems")):
            for part in listed if isinstance(listed, list) else ():
                found = found.either(self.steps(part))
        for keyword in ("contains", "unevaluatedItems"):
            found = found.beside(self.steps(node.get(keyword)))
        return found.beside(Steps(_UNIQUE)) if node.get("uniqueItems") is True else found

    def _beside(self, node: dict[str, Any]) -> Iterator[Any]:
        for keyword in _BESIDE:
            yield from parts if isinstance(parts := node.get(keyword), list) else ()
        yield from (node[keyword] for keyword in _BESIDE_ONE if keyword in node)
        for keyword in _BY_NAME:
            yield from parts.values() if isinstance(parts := node.get(keyword), dict) else ()

    def _targets(self, reference: str) -> Iterator[Any]:
        """What a reference may lead to: a part by its place, and where parts have names of their own, any of these."""
        pointer = reference.partition("#")[2]
        bases = [self.root, *self._with_names()]
        if reference == "#" or (reference.startswith("#") and pointer.startswith("/")):
            found = [part for base in bases if isinstance(part := _part(base, unquote(pointer)), dict)]
        else:
            found = bases
        seen = {id(part): part for part in found}
        yield from seen.values()

    def _with_names(self) -> list[Any]:
        if self._named is None:
            self._named, waiting = [], [self.root]
            while waiting:
                at = waiting.pop()
                if isinstance(at, dict):
                    names = {"$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"}
                    if at is not self.root and any(isinstance(at.get(each), str | bool) for each in names):
                        self._named.append(at)
                    waiting += at.values()
                elif isinstance(at, list):
                    waiting += at
        return self._named


def _own(node: dict[str, Any]) -> float:
    found = 1 + len(node)
    values = node.get("enum")
    if isinstance(values, list) and len({type(value) for value in values}) == 1 and isinstance(values[0], str | int):
        values = None  # they are looked up
    for value in (values, node.get("const")):
        if value is not None:
            found += 2 * Size.of(value).values
    if isinstance(divisor := node.get("multipleOf"), int | float):
        found += _MULTIPLE if 1e-9 <= abs(divisor) <= 1e15 else _MULTIPLE_LONG
    for keyword in ("required", "properties", "dependentRequired", "dependentSchemas", "dependencies"):
        found += len(value) if isinstance(value := node.get(keyword), list | dict) else 0
    return found
