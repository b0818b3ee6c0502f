"""Repair the arguments of a call by rule, where the schema leaves one way to mean them (RETO §3.4, Alg. 1, tier 1).

What fits is sent unchanged, the whole and each part of it, but for a whole number given as 5.0, and in a read a date in
another form than its description names. What does not fit is repaired step by step, and held to the schema
after each: keys in the schema's spelling; the one field of an object, or the one item of a list, where a plain value is
wanted; formats; what is unknown is left out.

What is not a read gets less: keys may differ in case and separators, and a number that stands as text becomes a number.
Everything else is a problem that names the nearest: ``hours`` may be no slip of ``hour``, and what an unknown argument
asks for would not be done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from atc._records.packing import as_text
from atc._records.records import ArgumentRepair, Effect, RepairKind
from atc.schemas.protocol import JsonSchema
from atc.schemas.repair.formats import (
    MISSING,
    as_type,
    duration_in_unit,
    holds_whole_float,
    in_date_form,
    in_format,
    number_of,
)
from atc.schemas.repair.places import MAX_DEPTH, Gate, Place, TooMuch, gate_of
from atc.schemas.repair.spelling import MAX_NEAR, is_spelling, kinship, like, respelt
from atc.schemas.validate import MAX_PROBLEMS, Problem, problems

MAX_SHOWN = 200
"""Characters of a value or a name in a repair."""
_FEW = 8


def cut(value: Any, depth: int = 0) -> Any:
    """A value without what is long in it."""
    if isinstance(value, str):
        return value if len(value) <= MAX_SHOWN else value[:MAX_SHOWN] + " …"
    if isinstance(value, bytes):
        return value[:MAX_SHOWN]
    if isinstance(value, dict | list) and depth > 2:
        return "…"
    if isinstance(value, list | tuple):
        return [cut(item, depth + 1) for item in value[:_FEW]] + ["…"] * (len(value) > _FEW)
    if isinstance(value, dict):
        few = {key[:MAX_SHOWN]: cut(item, depth + 1) for key, item in islice(value.items(), _FEW)}
        return {**few, "…": "…"} if len(value) > _FEW else few
    return value


MAX_SHOWN, MAX_NAMES = 200, 30
"""Characters of a name in a problem, and names of parameters in one."""
UNKNOWN = "additionalProperties"
"""The keyword of a problem with an argument that no parameter takes."""


def argument_problems(
    root: Place, arguments: dict[str, Any], near: Mapping[tuple[str | int, ...], str]
) -> Iterator[Problem]:
    """What is wrong with arguments, an unknown one first.

    Args:
        near: by its place in them, the parameter or value that is nearest to one which is not repaired.
    """
    members = root.members
    unknown = [] if root.is_open else [key for key in arguments if key not in members]
    takes = ", ".join(name[:MAX_SHOWN] for name in islice(members, MAX_NAMES)) or "none"
    more = f" and {len(members) - MAX_NAMES:,} more" if len(members) > MAX_NAMES else ""
    for key in unknown[:MAX_PROBLEMS]:
        slip = near.get((key,)) or slip_of(key, arguments, members)
        why = f"it may be {slip[:MAX_SHOWN]}" if slip else "nothing is left out of a call with effects"
        message = f"there is no such argument, and {why}; there are {takes}{more}"
        yield Problem((key[:MAX_SHOWN],), message, UNKNOWN)
    for problem in problems(root.schema, arguments):
        if not (unknown and not problem.path and problem.keyword == UNKNOWN):
            nearest = f"; the nearest is {near[problem.path]}" if problem.path in near else ""
            yield replace(problem, message=problem.message + nearest)


def slip_of(key: str, given: Mapping[str, Any], members: Mapping[str, Place]) -> str:
    """A parameter that is not given and spelt almost as an unknown key: too like it for the key to be left out."""
    free = (name for name in members if name not in given)
    return next((name for name in free if is_spelling(key, name) or like(key, name)), "")


SPELLING, UNWRAP, FORMAT = "argument-respelling", "argument-unwrap", "argument-format"
RULES = frozenset({SPELLING, UNWRAP, FORMAT})
"""The rules that can be taken away (:mod:`atc._records.rules`); the other repairs are always made."""
MAX_REPAIRS = 20
"""Repairs of one call that are written down one by one."""
MAX_TRIALS = 200
"""Alternatives of a schema that are tried for one call, in all."""
MAX_VISITS = 6_000
"""Values of one call that a step looks at."""
MAX_UNKNOWN = 1_000
"""Unknown keys of one object that are respelt."""
MAX_FIELDS = 50
Path = tuple[str | int, ...]
_Step = Callable[[Place, Any, Path], Any]


@dataclass(frozen=True)
class Repaired:
    """Arguments after the repairs by rule.

    Attributes:
        arguments: by the tool's own names; the very object that was given, where nothing was repaired.
        repairs: what was changed, the first of it. ``more``: how many changes there are besides.
        problems: what is still wrong: empty where the schema gate accepts them (Eq. 11).
    """

    arguments: dict[str, Any]
    repairs: tuple[ArgumentRepair, ...] = ()
    problems: tuple[Problem, ...] = ()
    more: int = 0


def repair_arguments(
    schema: JsonSchema,
    arguments: dict[str, Any],
    effect: Effect = Effect.READ,
    key_aliases: Mapping[str, str] | None = None,
    rules: frozenset[str] = RULES,
    masked: Callable[[Any], Any] = lambda value: value,
) -> Repaired:
    """Repair arguments by rule, and hold them to the schema (RETO §3.4, Alg. 1 tier 1 and Eq. 11).

    Args:
        schema: of the parameters.
        arguments: by the tool's own names, or those that a program gave in their place.
        effect: of the tool: what is not a read gets lossless repairs alone.
        key_aliases: keys that are known to mean a parameter of this tool.
        rules: the ids of the rules that are on; those that are not of :data:`RULES` do not count.
        masked: takes credentials out of a value that is written down, before it is cut: the half of one is none.
    """
    try:
        gate = gate_of(schema)
        if _is_right(gate, arguments):
            return Repaired(arguments)
        repair = Repair(
            gate, lossless=effect is not Effect.READ, key_aliases=key_aliases or {}, rules=rules, masked=masked
        )
        made = repair.made(arguments)
        if repair.is_settled(made):
            return Repaired(made, tuple(repair.repairs), more=repair.more)
        near = _nearest(gate, arguments, rules, masked) if repair.lossless else {}
        wrong = tuple(argument_problems(Place.of(schema), made, near))
        return Repaired(made, tuple(repair.repairs), wrong, repair.more)
    except TooMuch as error:
        return Repaired(arguments, problems=(Problem((), str(error), ""),))
    except RecursionError:
        return Repaired(arguments, problems=(Problem((), "they are too deeply nested: give less at once", ""),))
    except (ValueError, TypeError) as error:  # the schema is none, or a key is no text
        return Repaired(arguments, problems=(Problem((), f"they cannot be checked: {str(error)[:MAX_SHOWN]}", ""),))


def _is_right(gate: Gate, arguments: dict[str, Any]) -> bool:
    """Whether the gate accepts arguments in which nothing may have to be written otherwise, as most calls' are."""
    if gate.takes_at_once(arguments):
        return True
    if gate.may_have_dates or holds_whole_float(arguments):
        return False
    known = gate.root.is_open or arguments.keys() <= gate.root.members.keys()
    return known and gate.accepts(gate.root, arguments)


def _nearest(
    gate: Gate, arguments: dict[str, Any], rules: frozenset[str], masked: Callable[[Any], Any]
) -> dict[Path, str]:
    """By its place, what a key or value would have been sent as, if the tool only read."""
    repair = Repair(gate, lossless=False, key_aliases={}, rules=rules, masked=masked)
    try:
        repair.made(arguments)
    except TooMuch:
        return {}
    found: dict[Path, str] = {}
    for each in repair.repairs:
        if each.name is not None or each.sent is not None:
            found.setdefault(each.path, each.name if each.kind == "respelt" and each.name else as_text(each.sent))
    return found


class Repair:
    """The repair of one call's arguments.

    Args:
        lossless: case, separators and numbers as text alone are repaired.
    """

    def __init__(
        self,
        gate: Gate,
        *,
        lossless: bool,
        key_aliases: Mapping[str, str],
        rules: frozenset[str],
        masked: Callable[[Any], Any],
    ) -> None:
        self.gate, self.root, self.lossless = gate, gate.root, lossless
        self.repairs: list[ArgumentRepair] = []
        self.more = 0
        self._key_aliases, self._rules, self._masked = key_aliases, rules, masked
        self._spelt: dict[Path, str] = {}
        self._asked: dict[tuple[str, int], tuple[Any, bool]] = {}  # with the value, which so keeps its identity
        self._trials, self._visits = MAX_TRIALS, MAX_VISITS

    def is_settled(self, arguments: dict[str, Any]) -> bool:
        """Whether the gate accepts arguments and knows them all."""
        if not self.root.is_open and not arguments.keys() <= self.root.members.keys():
            return False
        return self._accepts(self.root, arguments)

    def _accepts(self, place: Place, value: Any) -> bool:
        """:meth:`Gate.accepts`, which is asked once about a list, object or text: each step asks about all of them."""
        if not isinstance(value, dict | list | str):
            return self.gate.accepts(place, value)
        key = place.pointer, id(value)
        if key not in self._asked:
            self._asked[key] = value, self.gate.accepts(place, value)
        return self._asked[key][1]

    def made(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the repaired arguments: the object itself where nothing is wrong."""
        steps: tuple[tuple[str, _Step], ...] = (
            (SPELLING, self._respell),
            (UNWRAP, self._unwrap),
            ("", self._convert),
            ("", self._drop),
        )
        for rule, step in steps:
            if self.is_settled(arguments):
                break
            if (not rule or rule in self._rules) and not (self.lossless and rule == UNWRAP):
                self._visits = MAX_VISITS
                arguments = self._walk(self.root, arguments, (), step)
        self._visits = MAX_VISITS
        if self._has_dates() or holds_whole_float(arguments):
            arguments = self._walk_one(self.root, arguments, (), self._polish)
        return arguments

    # -- through the arguments, along the schema -----------------------------------------------------------------------

    def _walk(self, place: Place, value: Any, path: Path, step: _Step) -> Any:
        """Take a step wherever something does not fit."""
        self._visits -= 1
        if self._visits < 0 or len(path) > MAX_DEPTH or (path and self._accepts(place, value)):
            return value
        options = place.alternatives
        if len(options) > 1 and isinstance(value, dict | list):
            kind = "object" if isinstance(value, dict) else "array"
            of_kind = [option for option in options if kind in option.types]
            options = of_kind if len(of_kind) == 1 else options
        if len(options) == 1:
            return self._walk_one(options[0], value, path, step)
        return self._try(place, options, value, path, step)

    def _walk_one(self, place: Place, value: Any, path: Path, step: _Step) -> Any:
        made = step(place, value, path)
        onward = self._onward if step == self._polish else self._walk
        if isinstance(made, dict):
            members, others = place.members, place.below("additionalProperties")
            new: dict[str, Any] = {}
            for key, item in made.items():
                if self._visits < 0:
                    break
                if (part := members.get(key, others)) is not None:
                    value = onward(part, item, (*path, key), step)
                    if value is not item:
                        new[key] = value
            return {**made, **new} if new else made
        if isinstance(made, list) and (items := place.items) is not None:
            listed: list[Any] = []
            for item in made:
                if self._visits < 0:
                    break
                listed.append(onward(items, item, (*path, len(listed)), step))
            is_new = any(a is not b for a, b in zip(listed, made, strict=False))
            return listed + made[len(listed) :] if is_new else made
        return made

    def _onward(self, place: Place, value: Any, path: Path, step: _Step) -> Any:
        """Take a step at what fits, too."""
        options = place.alternatives
        return self._walk_one(options[0], value, path, step) if len(options) == 1 and len(path) <= MAX_DEPTH else value

    def _try(self, place: Place, options: list[Place], value: Any, path: Path, step: _Step) -> Any:
        """Take the step under each alternative, and what it makes where one thing alone fits."""
        found: dict[str, tuple[Any, list[ArgumentRepair], int, dict[Path, str]]] = {}
        kept = self.repairs, self.more, self._spelt
        for option in options:
            if self._trials <= 0:
                break
            self._trials -= 1
            self.repairs, self.more, self._spelt = [], 0, dict(kept[2])
            made = self._walk_one(option, value, path, step)
            if made is not value and self.gate.accepts(place, made):
                found.setdefault(as_text(made), (made, self.repairs, self.more, self._spelt))
        self.repairs, self.more, self._spelt = kept
        if len(found) != 1:
            return value
        ((made, repairs, more, self._spelt),) = found.values()
        free = MAX_REPAIRS - len(self.repairs)
        self.repairs += repairs[:free]
        self.more += more + len(repairs[free:])
        return made

    # -- the steps -----------------------------------------------------------------------------------------------------

    def _respell(self, place: Place, value: Any, path: Path) -> Any:
        if not isinstance(value, dict):
            return value
        strict, members = self.lossless, place.members
        unknown = [key for key in value if key not in members]
        if not 0 < len(unknown) <= MAX_UNKNOWN:
            return value
        given = {key for key in value if key in members}
        required = [name for name in place.required if name in members]
        if place.is_open:  # an unknown key may be meant as it is: it takes the place of what must be there, alone
            given |= members.keys() - required
        learnt = self._key_aliases if not path and not strict else {}  # what was learnt may be another word
        meant = {k: learnt[k] for k in unknown if learnt.get(k) in members and learnt[k] not in given}
        times = Counter(meant.values())
        meant = {k: name for k, name in meant.items() if times[name] == 1}
        left = [key for key in unknown if key not in meant]
        given |= set(meant.values())
        for key, name in respelt(left, members, given, required, strict=strict, endings=not strict).items():
            if is_spelling(key, name) or self._fitted(members[name], name, value[key]) is not MISSING:
                meant[key] = name
        if not meant:
            return value
        for key, name in meant.items():
            self._note("respelt", (*path, key), key, name, name)
            self._spelt[*path, name] = key
        return {meant.get(key, key): item for key, item in value.items()}

    def _unwrap(self, place: Place, value: Any, path: Path) -> Any:
        name, types = _name(path), place.types
        if isinstance(value, list) and len(value) == 1 and types and "array" not in types:
            made = self._fitted(place, name, value[0])
            if made is MISSING and isinstance(value[0], dict):
                made = self._field(place, name, value[0])[1]
            if made is not MISSING:
                self._note("unwrapped", path, value, made)
                return made
        if isinstance(value, dict) and place.takes_scalars_alone:
            field, made = self._field(place, name, value)
            if made is not MISSING:
                self._note("unwrapped", path, value, made, field)
                return made
        return value

    def _field(self, place: Place, name: str, value: dict[str, Any]) -> tuple[str, Any]:
        ranked: dict[int, list[tuple[str, Any]]] = {}
        for key, item in islice(value.items(), MAX_FIELDS):
            rank = kinship(key, name, len(value))
            if rank is None:
                continue
            made = self._fitted(place, name, item) if not isinstance(item, dict | list) else MISSING
            if made is not MISSING:
                ranked.setdefault(rank, []).append((key, made))
        best = ranked[min(ranked)] if ranked else []
        return best[0] if len(best) == 1 else ("", MISSING)

    def _convert(self, place: Place, value: Any, path: Path) -> Any:
        if isinstance(value, dict) and (not place.types or "object" in place.types):
            return self._complete(place, value, path)
        made = self._converted(place, _name(path), value)
        if made is not MISSING:
            self._note("format", path, value, made)
            return made
        if self.lossless:
            return value
        if place.types - {"null"} == {"array"} and not isinstance(value, list) and value is not None:
            items = place.items
            made = self._fitted(items, _name(path), value) if items is not None else MISSING
            if made is not MISSING:
                self._note("wrapped", path, value, [made])
                return [made]
        return value

    def _complete(self, place: Place, value: dict[str, Any], path: Path) -> dict[str, Any]:
        members, needed = place.members, set(place.required)
        nulls = [key for key, item in value.items() if item is None and key in members and key not in needed]
        gone = {key for key in nulls if not self.gate.accepts(members[key], None)}
        for key in nulls:
            if key in gone:
                self._note("left_out", (*path, key), None, None)
        return {key: item for key, item in value.items() if key not in gone} if gone else value

    def _converted(self, place: Place, name: str, value: Any) -> Any:
        made = number_of(place, value) if self.lossless else as_type(place, value)
        if made is MISSING and FORMAT in self._rules:
            made = duration_in_unit(place, name, value) if self.lossless else in_format(place, name, value)
        return made

    def _fitted(self, place: Place, name: str, value: Any) -> Any:
        if self.gate.accepts(place, value):
            return value
        for option in place.alternatives:
            made = self._converted(option, name, value)
            if made is not MISSING and self.gate.accepts(place, made):
                return made
        return MISSING

    def _drop(self, place: Place, value: Any, path: Path) -> Any:
        if self.lossless or not isinstance(value, dict) or place.is_open:
            return value
        members = place.members
        unknown = [key for key in value if key not in members]
        gone = {key for key in unknown if not (len(unknown) <= MAX_NEAR and slip_of(key, value, members))}
        for key in unknown:
            if key in gone:
                self._note("dropped", (*path, key), value[key], None)
        return {key: item for key, item in value.items() if key not in gone} if gone else value

    def _has_dates(self) -> bool:
        return self.gate.may_have_dates and not self.lossless and FORMAT in self._rules

    def _polish(self, place: Place, value: Any, path: Path) -> Any:
        """Give a whole number where a float without a fraction fits, and a date in its format: no validator asks."""
        made = MISSING
        if isinstance(value, float):
            made = number_of(place, value) if self.lossless else as_type(place, value)
        elif isinstance(value, str) and self._has_dates():
            made = in_date_form(place, value.strip())
            if made is not MISSING and not self.gate.accepts(place, made):
                return value
        if made is MISSING:
            return value
        self._note("format", path, value, made)
        return made

    def _note(self, kind: RepairKind, path: Path, given: Any, sent: Any, name: str | None = None) -> None:
        if len(self.repairs) >= MAX_REPAIRS:
            self.more += 1
            return
        before = (self._spelt.get(path[: i + 1], step) for i, step in enumerate(path))
        where = tuple(step if isinstance(step, int) else step[:MAX_SHOWN] for step in before)
        self.repairs.append(
            ArgumentRepair(
                kind=kind,
                path=where,
                given=cut(self._masked(given)),
                sent=cut(self._masked(sent)),
                name=name and name[:MAX_SHOWN],
            )
        )


def _name(path: Path) -> str:
    return next((step for step in reversed(path) if isinstance(step, str)), "")
