"""Finds the arguments of a write that a stranger may have chosen: which of them are targets, and where they came from.

A target says where a write goes or what it takes: a recipient, an address, an account, an amount, a path, a command.
Which arguments are targets is read off their names and their schemas, and off the keys of the values that are given,
so a free-form object hides none. Beside a target, identifiers are targets, too: an amount goes nowhere without one.
Where a write has no target, all its arguments are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from atc._records.origins import UNKNOWN, CallOrigins, Origin, Origins
from atc.schemas.identifiers import split, words_of
from atc.schemas.protocol import Protocol, parameters_of

TARGET_WORDS = frozenset(
    """
    cc bcc recipient receiver addressee email mail address addresses addr
    account acct iban bic swift payee beneficiary wallet card amount price
    path file filename filepath folder directory dir attachment
    url uri link href host hostname domain endpoint webhook callback ip
    command cmd shell script sql
    channel user username participant attendee invitee guest contact assignee phone telephone mobile fax
    destination dest target permission role
    """.split()
)
"""Words of a name, singular, that make an argument a target. A word too many is no gain: a write with one target is not
asked about for its other arguments."""
_IDENTIFIERS = frozenset("id uuid guid".split())
"""Last words of names that make an argument a target beside another one. Alone they do not: that would spare others."""
_TO = "to"
_SENDING = frozenset("send sent reply forward transfer move copy ship deliver share assign pay post".split())
"""Words before a last ``to``: ``send_to`` is a target, and ``date_to`` is none."""
_FORMATS = frozenset("email idn-email uri uri-reference iri iri-reference hostname idn-hostname ipv4 ipv6".split())
_COMBINING = frozenset({"anyOf", "oneOf", "allOf", "$ref"})
MAX_STEPS, MAX_DEPTH, MAX_KEY = 2_000, 12, 200
"""Places of a call that are looked at, how deep they lie, and characters of a name; an argument with more is a target
as a whole, and so is each that comes after it: whoever wrote a response may have sized them."""


@dataclass(frozen=True)
class Targets:
    """Says which arguments are targets besides those of the words, or instead of them.

    Attributes:
        more: returns whether an argument of this path is one, too. It spares no other: where the words find none, all
            arguments are targets still.
        only: returns whether an argument of this path is one; the words do not count then. ``None``: they do.
    """

    more: Callable[[str], bool] | None = None
    only: Callable[[str], bool] | None = None

    def has(self, path: str, name: str, schema: Mapping[str, Any]) -> bool:
        """Return whether a place in a call is a target.

        Args:
            path: of the place, keys with dots between them.
            name: its last key.
            schema: of its value; empty where nothing is known.

        Returns:
            What the words say, or ``only``: those that are targets besides are added to what they find.
        """
        if self.only is not None:
            return self.only(path)
        return _is_named_so(name) or schema.get("format") in _FORMATS


BY_WORDS = Targets()


@lru_cache(maxsize=4_096)
def _is_named_so(name: str) -> bool:
    words = words_of(name)
    if not TARGET_WORDS.isdisjoint(words) or not TARGET_WORDS.isdisjoint(split(name)):
        return True
    return words[-1:] == (_TO,) and (len(words) == 1 or words[-2] in _SENDING)


def targets_of(protocol: Protocol, arguments: Mapping[str, Any], targets: Targets = BY_WORDS) -> tuple[str, ...]:
    """Return the paths of a call's targets; where it has none, all its arguments.

    Args:
        protocol: of the tool.
        arguments: of the call, by the names that the tool knows or programs use; their values may be ``None`` where
            they are not known.
        targets: as the user says.

    Returns:
        The names of arguments, and the ways to their parts: ``message.to``. Of a list the parts of its items.
    """
    if len(arguments) > MAX_STEPS:
        return tuple(arguments)
    walk = _walked(protocol, arguments, targets)
    if not walk.targets:
        return tuple(arguments)
    found = [path for path, is_target in walk.found if is_target or targets.only is None]
    if not walk.is_declared:  # a stranger's key spares what is beside it, and no other argument
        spared = {path.partition(".")[0] for path, is_target in walk.found if is_target}
        found += [name for name in arguments if name not in spared]
    if targets.more is not None:
        found += [path for path, _ in _walked(protocol, arguments, Targets(only=targets.more)).found]
    return tuple(dict.fromkeys(found))


def declared_targets(protocol: Protocol, targets: Targets = BY_WORDS) -> tuple[str, ...]:
    """Return the targets that the schema of a tool names; none where all its arguments are targets."""
    arguments: dict[str, Any] = dict.fromkeys(_properties(protocol.parameters, protocol.parameters))
    found = targets_of(protocol, arguments, targets)
    return found if _walked(protocol, arguments, targets).targets else ()


def _walked(protocol: Protocol, arguments: Mapping[str, Any], targets: Targets) -> _Walk:
    properties = _properties(protocol.parameters, protocol.parameters)
    odd = not arguments.keys() <= properties.keys()
    originals = {each.name: each.original for each in parameters_of(protocol)} if odd else {}
    walk = _Walk(protocol.parameters, targets)
    for name, value in arguments.items():
        walk.through(name, value, properties.get(name, properties.get(originals.get(name, name), {})))
    return walk


def declared_paths(protocol: Protocol) -> tuple[frozenset[str], bool]:
    """Return the paths of all places in a call that the schema of a tool names, by both names of each argument.

    Returns:
        Also whether there may be more: some value may be an object of any keys, or there is too much to look at.
    """
    root = protocol.parameters
    given = {name: name for name in _properties(root, root)}
    given |= {each.name: each.original for each in parameters_of(protocol)}
    found: set[str] = set()
    properties, is_open = _properties(root, root), False
    left = [(name, properties.get(original, {}), 0) for name, original in given.items()]
    while left and len(found) < MAX_STEPS:
        path, schema, depth = left.pop()
        found.add(path)
        below = _properties(schema, root)
        types = [each.get("type") for each in _alternatives(schema, root) if not each.keys() & _COMBINING]
        is_open |= depth > MAX_DEPTH or (not below and any(_may_be_object(each) for each in types))
        left += [(f"{path}.{key}", value, depth + 1) for key, value in below.items() if depth <= MAX_DEPTH]
    return frozenset(found), is_open or bool(left)


def _may_be_object(type_: Any) -> bool:
    return type_ is None or "object" in (type_ if isinstance(type_, list) else [type_])


def origins_at(origins: CallOrigins, path: str, protocol: Protocol) -> Origins:
    """Return the origins of a place in a call's arguments.

    Of a part that is not known by itself they are those of the whole; of an argument about which nothing was said,
    ``unknown``.

    Args:
        origins: by the names that the tool knows, or that programs use.
        path: of the place, keys with dots between them.
        protocol: of the tool.
    """
    if path in origins:
        return origins[path]
    names = {each.original: each.name for each in parameters_of(protocol)}
    while path not in origins and path not in names and "." in path:
        path = path.rpartition(".")[0]
    return origins.get(path, origins.get(names.get(path, path), UNKNOWN))


def untrusted_arguments(
    protocol: Protocol,
    origins: CallOrigins,
    is_untrusted: Callable[[str], bool],
    *,
    unknown_counts: bool,
    arguments: Mapping[str, Any] | None = None,
    targets: Targets = BY_WORDS,
) -> tuple[str, ...]:
    """Return the targets of a write that have an untrusted origin.

    What the program's author had seen does not count here: a program whose author saw untrusted text is asked about
    for that.

    Args:
        protocol: of the tool that is called.
        origins: of the call's arguments.
        is_untrusted: returns whether strangers write what a tool of this name answers.
        unknown_counts: an origin that cannot be followed counts, because some untrusted tool has answered.
        arguments: of the call, as they are sent; ``None``: those that have origins, whatever their values are.
        targets: as the user says which arguments are targets.
    """

    def counts(origin: Origin) -> bool:
        if origin.how == "author":
            return False
        return unknown_counts if origin.kind == "unknown" else origin.kind == "tool" and is_untrusted(origin.tool)

    given = dict.fromkeys(_names(origins, protocol)) if arguments is None else arguments
    paths = targets_of(protocol, given, targets)
    return tuple(path for path in paths if any(map(counts, origins_at(origins, path, protocol))))


def _names(origins: CallOrigins, protocol: Protocol) -> Iterator[str]:
    known = {name for each in parameters_of(protocol) for name in (each.name, each.original)}
    return (path for path in origins if path in known or path.partition(".")[0] not in origins)


def _properties(schema: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    found: dict[str, list[Any]] = {}
    for each in _alternatives(schema, root):
        properties = each.get("properties")
        for key, value in properties.items() if isinstance(properties, dict) else ():
            found.setdefault(key, []).append(value)
    return {key: {"anyOf": values} for key, values in found.items()}


def _alternatives(schema: Mapping[str, Any], root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a schema, what it refers to, its alternatives, and those of its items: positions are no part of a path."""
    found: list[Mapping[str, Any]] = []
    left: list[Any] = [schema]
    seen: set[int] = set()
    while left and len(found) < MAX_STEPS:
        each = left.pop()
        if not isinstance(each, dict) or id(each) in seen:
            continue
        seen.add(id(each))
        found.append(each)
        reference = each.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/$defs/"):
            definitions = root.get("$defs")
            left.append(definitions.get(reference.removeprefix("#/$defs/")) if isinstance(definitions, dict) else None)
        for word in ("anyOf", "oneOf", "allOf", "items", "prefixItems"):
            options = each.get(word)
            left += options if isinstance(options, list) else [options]
    return found


class _Walk:
    """Looks for targets in arguments: at the schema and at the value, side by side.

    Attributes:
        found: the paths of targets, and of identifiers, each with whether it is a target by itself.
        is_declared: one of the targets stands in the schema, or is an argument: no response that is given made it one.
    """

    def __init__(self, root: Mapping[str, Any], by: Targets) -> None:
        self._root, self._by = root, by
        self._steps = 0
        self.found: list[tuple[str, bool]] = []
        self.is_declared = False

    @property
    def targets(self) -> bool:
        """Return whether there is a target, identifiers apart."""
        return any(is_target for _, is_target in self.found)

    def through(self, name: str, value: Any, schema: Mapping[str, Any]) -> None:
        """Look through one argument; it is a target as a whole where there are too many places to be looked at."""
        before = len(self.found)
        left: list[tuple[str, str, list[Any], Mapping[str, Any], int, bool]] = [(name, name, [value], schema, 0, True)]
        while left:
            path, key, values, about, depth, is_known = left.pop()
            self._steps += 1
            if self._steps > MAX_STEPS or depth > MAX_DEPTH or len(key) > MAX_KEY:
                self.found[before:] = [(name, True)]
                return
            options = _alternatives(about, self._root)
            if any(self._by.has(path, key, each) for each in options):
                self.found.append((path, True))
                self.is_declared = self.is_declared or is_known
                continue
            if words_of(key)[-1:] and words_of(key)[-1] in _IDENTIFIERS:
                self.found.append((path, False))
            objects = self._objects(values)
            if objects is None:
                self.found[before:] = [(name, True)]
                return
            below: dict[str, list[Any]] = {}
            for inner, part in (item for each in objects for item in each.items()):
                below.setdefault(str(inner), []).append(part)
            known = _properties(about, self._root)
            for inner in below if objects else known:
                part = below.get(inner, []), known.get(inner, {}), depth + 1, inner in known
                left.append((f"{path}.{inner}", inner, *part))

    def _objects(self, values: list[Any]) -> list[Mapping[str, Any]] | None:
        """Return the objects among values and in their lists; ``None`` where there is too much to be looked at."""
        found: list[Mapping[str, Any]] = []
        left = [*values]
        while left:
            value = left.pop()
            self._steps += 1
            if self._steps > MAX_STEPS or (isinstance(value, list | tuple | Mapping) and len(value) > MAX_STEPS):
                return None
            if isinstance(value, Mapping):
                found.append(value)
            elif isinstance(value, list | tuple):
                left += value
        return found
