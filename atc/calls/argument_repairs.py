"""The second tier of repair in one run: where no rule helps, the model is asked (RETO §3.4, Alg. 1, lines 9–14).

Before a call is made, any call may be repaired. What the model says is held to the schema, says nothing that was not
there (:func:`is_grounded`), and of whatever is not a read it is the same request in another spelling. After a call was
made, only a read is repaired, and only where the service blames its arguments. A write never is: that a
refusing service did nothing is that service's word, and one that lies would act a second time.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

from atc import wording
from atc._host.redaction import Redactor
from atc._host.unicode_forms import normalized
from atc._records.packing import as_text, holds_bytes
from atc._records.records import ArgumentRepair
from atc.calls.attempt import Attempt
from atc.calls.entry import CallKey, RepairedFor, call_key
from atc.calls.journal import Journal
from atc.calls.json_values import canonical, to_json_value
from atc.errors import CallRefused, ToolError
from atc.result import Effect
from atc.schemas.protocol import JsonSchema, Protocol, original_arguments
from atc.schemas.repair import repair_arguments, same_request
from atc.schemas.repair.formats import has_other_unit
from atc.schemas.repair.places import Place
from atc.schemas.validate import problems

# ----------------------------------------------------------------------------------------------------------------------
# What may repair the arguments of a call where no rule can (RETO §3.4, Alg. 1, tier 2). The broker has no model.


@dataclass(frozen=True)
class Complaint:
    """A call that was refused for its arguments.

    Attributes:
        protocol: of the tool.
        arguments: as they were refused, after the repairs by rule; of the gate with what those dropped.
        reason: why, one line for each thing that is wrong.
        by: who refused: the schema gate, before anything was sent, or the service.
    """

    protocol: Protocol
    arguments: Mapping[str, Any]
    reason: str
    by: str


Repairer = Callable[[Complaint], Awaitable[Mapping[str, Any] | None]]
"""Gives other arguments for the same tool, or ``None``. What it gives passes the schema gate as any arguments do."""

# ----------------------------------------------------------------------------------------------------------------------
# A run's table of key aliases: of a tool, the keys that are read as one of its parameters, as earlier runs taught.


MAX_KEYS = 2_000
"""Keys of one run's table, of all tools together: a trace holds it."""

KeyAliases = Mapping[str, Mapping[str, str]]


def bounded_key_aliases(learnt: KeyAliases) -> KeyAliases:
    """Return the table of a run that begins, made of what was learnt."""
    made: dict[str, dict[str, str]] = {}
    left = MAX_KEYS
    for tool, keys in learnt.items():
        taken = dict(list(keys.items())[:left])
        left -= len(taken)
        if taken:
            made[tool] = taken
    return made


def read_key_aliases(found: Any) -> KeyAliases:
    """Return the table of a run that goes on, from its trace. Anything but names is left out."""
    if not isinstance(found, dict):
        return {}
    made = {
        tool: {key: name for key, name in keys.items() if isinstance(name, str)}
        for tool, keys in found.items()
        if isinstance(keys, dict)
    }
    return bounded_key_aliases(made)


# ----------------------------------------------------------------------------------------------------------------------
# The second tier of repair in one run: where no rule helps, the model is asked (RETO §3.4, Alg. 1, lines 9–14).


MAX_ARGUMENTS = 4_000
"""Characters of arguments that the model is asked about, and of those that it gives."""
MAX_CHANGES, MAX_SHOWN = 20, 200
"""Changes that are listed one by one, and characters of a value in them."""
MAX_REASON = 1_000
_WORD = re.compile(r"\w+")
STATED = "stated_error"
"""Status of an error that a response states in its body."""
_BLAMED = frozenset({400, 422, "invalid_arguments", "invalid_params", "invalid", "bad_request"})
"""With what a service refuses a call for its arguments. Of 404 and 409 only the values may be wrong, and no repair
invents another."""

_MAY_BLAME = frozenset({STATED, "ValueError", "TypeError"})
"""With what it may be the arguments: if the words name one of them, or a format."""


class ArgumentRepairs:
    """Repairs the arguments of one run's calls: by rule, and where no rule helps with the model's help.

    Args:
        journal: of the run. What was sent for some arguments is sent for them again.
        redactor: of the run. What holds a credential is not shown to a model.
        most: how often the model is asked, B of Alg. 1.
        waiting: stops the clock of the program.
        repairer: asks the model; ``None``: it is never asked.

    Attributes:
        key_aliases: of a tool, keys that runs have shown to mean a parameter; the same for the whole run.
        asked: how often the model was asked.
    """

    def __init__(
        self,
        journal: Journal,
        redactor: Redactor,
        most: int,
        waiting: Callable[[], AbstractContextManager[None]],
        repairer: Repairer | None = None,
    ) -> None:
        self.key_aliases: KeyAliases = {}
        self.asked = 0
        self._journal, self._redactor, self._most, self._waiting = journal, redactor, most, waiting
        self._repairer = repairer
        self._asking = asyncio.Lock()
        self._answers: dict[CallKey, dict[str, Any] | None] = {}

    async def gate(self, attempt: Attempt, rules: frozenset[str], *, may_ask: bool) -> None:
        """Hold a call to its schema, and repair what does not fit (RETO §3.4, Eq. 11).

        Args:
            attempt: the call. Its arguments become those that are sent.
            rules: the ids of the rules that are on.
            may_ask: whether the call could be made at all.

        Raises:
            CallRefused: the arguments do not fit and are not repaired; or the program has ended meanwhile.
        """
        if attempt.repaired_for == "service":
            return  # made of arguments that were through here
        original = original_arguments(attempt.granted.protocol, attempt.arguments)
        refused: CallRefused | None = None
        try:
            self._repair_by_rule(attempt, original, rules)
        except CallRefused as error:
            refused = error
        made, repaired_for = self._sent_before(attempt, original)
        if made is None and refused is not None:
            if refused.status == "invalid_arguments" and may_ask and not _lacks_alone(attempt, original):
                made = await self._repaired(attempt, original, refused.message, "gate")
            if made is None:
                raise refused
            repaired_for = "gate"
        if made is not None:
            _take(attempt, original, made, repaired_for)
        attempt.original = original if attempt.repairs or attempt.arguments != original else None

    def _repair_by_rule(self, attempt: Attempt, original: dict[str, Any], rules: frozenset[str]) -> None:
        """Repair arguments by the rules that are on, the deterministic tier.

        Raises:
            CallRefused: the arguments do not fit even so.
        """
        known, masked = self.key_aliases.get(attempt.tool), self._redactor.value
        schema = attempt.granted.protocol.parameters
        made = repair_arguments(schema, original, attempt.effect, known, rules, masked)
        attempt.original, attempt.arguments = (original if made.repairs else None), made.arguments
        attempt.repairs = made.repairs
        if made.repairs:
            attempt.notes += wording.argument_repairs(made.repairs, made.more)
        if made.problems:
            raise CallRefused("; ".join(map(str, made.problems[:3])), status="invalid_arguments")

    async def after(self, attempt: Attempt, error: ToolError) -> dict[str, Any] | None:
        """Return other arguments for a call that was made and failed; ``None`` where it is not repaired.

        Args:
            attempt: the call, which has been sent.
            error: why it failed.
        """
        if not attempt.reads or attempt.repaired_for or not _blames_arguments(error, attempt.granted.protocol):
            return None
        original = attempt.arguments if attempt.original is None else attempt.original
        made = await self._repaired(attempt, original, error.message, "service")
        return made if made is not None and made != attempt.arguments else None

    def take_after(self, again: Attempt, failed: Attempt, made: dict[str, Any]) -> None:
        """Let a call be made again with the arguments of :meth:`after`, as a call of its own."""
        again.original = failed.arguments if failed.original is None else failed.original
        again.repairs = failed.repairs
        _take(again, again.original, made, "service")

    def _sent_before(self, attempt: Attempt, original: dict[str, Any]) -> tuple[dict[str, Any] | None, RepairedFor]:
        """Return what was sent for the same arguments before, if it fits and is another call than the gate makes."""
        key = _key(attempt, original) if self._journal.has_repaired else None
        before = self._journal.sent_for(key) if key is not None else None
        if (
            before is None
            or before.arguments == attempt.arguments
            or not _fits_schema(attempt.granted.protocol.parameters, before.arguments, original)
        ):
            return None, ""
        return copy.deepcopy(before.arguments), before.repaired_for

    async def _repaired(
        self,
        attempt: Attempt,
        original: dict[str, Any],
        reason: str,
        by: Literal["gate", "service"],
    ) -> dict[str, Any] | None:
        """Return what the model gives in place of a call's arguments. It is asked once for the same original ones."""
        key, protocol = _key(attempt, original), attempt.granted.protocol
        if self._repairer is None or key is None or attempt.request.page:
            return None
        if not self._is_showable(original, attempt.arguments):
            return None
        async with self._asking:  # one question at a time
            if key not in self._answers:
                if self.asked >= self._most:
                    return None
                self.asked += 1
                self._answers[key] = None  # also where the question is broken off
                shown = attempt.arguments if by == "service" else _with_dropped(attempt, original)
                complaint = Complaint(protocol, copy.deepcopy(shown), reason[:MAX_REASON], by)
                with self._waiting():
                    given = await self._repairer(complaint)
                self._answers[key] = self._accepted(given, original, complaint, attempt.effect)
            found = copy.deepcopy(self._answers[key])
        if (attempt.stage, attempt.program) != (self._journal.stage, self._journal.attempt):
            raise CallRefused("its program ended before this call was made", status="stopped")
        return found

    def _is_showable(self, *arguments: dict[str, Any]) -> bool:
        """Whether a model can be asked about them: short text, without a credential."""
        return all(
            not holds_bytes(each) and len(as_text(each)) <= MAX_ARGUMENTS and self._redactor.value(each) == each
            for each in arguments
        )

    def _accepted(
        self, given: object, original: dict[str, Any], complaint: Complaint, effect: Effect
    ) -> dict[str, Any] | None:
        """Return what the model gave, if it may be sent."""
        if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
            return None
        schema = complaint.protocol.parameters
        try:
            made = to_json_value(dict(given))
            canonical(made)
        except (ValueError, RecursionError):
            return None
        if not isinstance(made, dict) or not self._is_showable(made) or not _fits_schema(schema, made, original):
            return None
        if effect is not Effect.READ:
            return made if same_request(schema, original, made) else None
        return made if is_grounded(made, complaint) else None


def changes(given: Mapping[str, Any], sent: Mapping[str, Any]) -> tuple[ArgumentRepair, ...]:
    """Return what the model changed, one argument at a time. A value under another name is one change, a ``name``."""
    gone = [name for name in given if name not in sent]
    new = [name for name in sent if name not in given]
    found: list[ArgumentRepair] = []
    for name in gone:
        same = [other for other in new if as_text(sent[other]) == as_text(given[name])]
        if len(same) == 1 and sum(as_text(given[other]) == as_text(given[name]) for other in gone) == 1:
            new.remove(same[0])
            value = _short(given[name])
            found.append(ArgumentRepair(kind="model", path=(name,), given=value, sent=value, name=same[0]))
        else:
            found.append(ArgumentRepair(kind="model", path=(name,), given=_short(given[name])))
    kept = (name for name in given if name in sent and as_text(given[name]) != as_text(sent[name]))
    found += [
        ArgumentRepair(kind="model", path=(name,), given=_short(given.get(name)), sent=_short(sent[name]))
        for name in (*kept, *new)
    ]
    return tuple(found[:MAX_CHANGES])


def _with_dropped(attempt: Attempt, original: Mapping[str, Any]) -> dict[str, Any]:
    """Add to arguments after the repairs by rule what those dropped: it may be what is missing."""
    respelt = {repair.path[0] for repair in attempt.repairs if repair.kind == "respelt"}
    return attempt.arguments | {
        name: value for name, value in original.items() if name not in attempt.arguments and name not in respelt
    }


def _take(attempt: Attempt, original: dict[str, Any], made: dict[str, Any], repaired_for: RepairedFor) -> None:
    """Let a call be made with repaired arguments. What a rule had done of it stays that rule's."""
    if repaired_for:
        by_rule = {repair.path: repair for repair in attempt.repairs}
        repairs: list[ArgumentRepair] = []
        for each in changes(original, made):
            rule = by_rule.get(each.path)
            is_of_rule = rule is not None and (rule.name, rule.sent) == (each.name, each.sent)
            repairs.append(rule if rule is not None and is_of_rule else each)
        attempt.repairs = tuple(repairs)
        attempt.notes += wording.argument_repairs([each for each in repairs if each.kind == "model"])
    attempt.arguments, attempt.repaired_for = made, repaired_for


def _blames_arguments(error: ToolError, protocol: Protocol) -> bool:
    """Whether a service says that a call's arguments are wrong; a refusal of our own is none."""
    if isinstance(error, CallRefused) or error.transient or error.cause is not None:
        return False
    if error.status not in _MAY_BLAME:
        return error.status in _BLAMED
    words = set(_WORD.findall(error.message[:MAX_REASON].casefold()))
    return "format" in words or any(name.casefold() in words for name in protocol.parameters.get("properties", {}))


def _fits_schema(schema: JsonSchema, made: dict[str, Any], original: Mapping[str, Any]) -> bool:
    """Whether the schema gate accepts arguments as they are, with no key that it does not know."""
    known = schema.get("properties")
    if isinstance(known, dict):
        is_open = bool(schema.get("additionalProperties", False)) or "patternProperties" in schema
        if not made.keys() <= (known.keys() | original.keys() if is_open else known.keys()):
            return False
    return not problems(schema, made)


def _lacks_alone(attempt: Attempt, original: Mapping[str, Any]) -> bool:
    """Whether nothing is wrong but that arguments are missing, and nothing was given that they could be made of."""
    schema = attempt.granted.protocol.parameters
    names = schema.get("properties")
    found = problems(schema, attempt.arguments)
    only_missing = bool(found) and all(each.keyword == "required" for each in found)
    return only_missing and isinstance(names, dict) and original.keys() <= names.keys()


def _key(attempt: Attempt, arguments: dict[str, Any]) -> CallKey | None:
    try:
        return call_key(attempt.tool, arguments, attempt.source)
    except ValueError:
        return None


def _short(value: Any) -> Any:
    """Return a value as a record keeps it: what is long is cut."""
    text = as_text(value)
    return value if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + " …"


# ----------------------------------------------------------------------------------------------------------------------
# Whether repaired arguments say only what was there before: a repair changes a form, and invents nothing.
#
# A model that is asked to put arguments right may make an id up, a city, a date. So every word and every number of what
# it gives must stand in the arguments as they were, in the complaint, or among the values that the schema names. Nor
# does it leave out what the tool knows: without its filter, a search answers another question.


MAX_SCHEMA = 200_000
"""Characters of a schema in which values are looked for."""
_WORDS = re.compile(r"[^\W\d_]+|\d+")
_GIVEN_WORD = re.compile(r"-?[\w-]{1,64}(?:\.\d{1,20})?")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_VALUES = ("enum", "const", "default", "examples", "example")
_DIGITS = 40
"""Digits of a number; a longer one is a text of digits, and is compared as one."""


def is_grounded(made: dict[str, Any], complaint: Complaint) -> bool:
    """Whether every value in ``made`` rests on what the complaint is about. Linear in both.

    Args:
        made: the arguments after the repair.
        complaint: the arguments before it, why they were refused, and the schema.
    """
    shown = as_text(dict(complaint.arguments))
    known, said = set(_words(shown)), set(_words(complaint.reason))
    text = json.dumps(complaint.protocol.parameters, default=str)
    if len(text) <= MAX_SCHEMA:
        for value in _named_values(complaint.protocol.parameters):
            known.update(_words(as_text(value)))
    if not all(keeps(made, complaint) for keeps in (_keeps, _leaves_others, _keeps_units)):
        return False
    return all(
        _is_known(value, known, shown) or _is_said(value, known | said, complaint.reason) for value in _leaves(made)
    )


def _keeps(made: dict[str, Any], complaint: Complaint) -> bool:
    """Whether each argument that the tool knows is still given, or its value is, under another name."""
    names = complaint.protocol.parameters.get("properties")
    gone = [
        as_text(value)
        for name, value in complaint.arguments.items()
        if name not in made and value is not None and isinstance(names, dict) and name in names
    ]
    return not gone or set(gone) <= {as_text(value) for value in made.values()}


def _leaves_others(made: dict[str, Any], complaint: Complaint) -> bool:
    """Whether the arguments that nobody complains of say what they said. One may be parted: the rest stands in others.

    The words of all arguments together are no bound for one of them: 07:00 can be made of a date and 12:00.
    """
    blamed, given = set(_words(complaint.reason)), complaint.arguments
    own = {name: set(_words(name)) <= blamed for name in {**given, **made}}
    if not any(own.values()):
        return True  # it says only that something is wrong
    told = set(_words(as_text(made)))
    return all(
        made[name] == value or (_plain(made[name]) in _plain(value) and told.issuperset(_words(_plain(value))))
        for name, value in given.items()
        if name in made and not own[name]
    )


def _keeps_units(made: dict[str, Any], complaint: Complaint) -> bool:
    """Whether no number has lost its unit where another one is wanted: "30 miles" is not 30 for kilometres."""
    root = Place.of(complaint.protocol.parameters)
    return not any(
        isinstance(value, str)
        and name in made
        and made[name] != value
        and (place := root.below("properties", name)) is not None
        and has_other_unit(place, name, value)
        for name, value in complaint.arguments.items()
    )


def _plain(value: Any) -> str:
    return (value if isinstance(value, str) else as_text(value)).casefold()


def _is_said(value: Any, known: set[str], reason: str) -> bool:
    """Whether a value rests on the reason, too. That is another's text: no address, path or sentence is taken of it."""
    is_word = _GIVEN_WORD.fullmatch(value if isinstance(value, str) else as_text(value)) is not None
    return is_word and _is_known(value, known, reason)


def _is_known(value: Any, known: set[str], shown: str) -> bool:
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = value if isinstance(value, str) else as_text(value)
    if not isinstance(value, str) and value < 0 and text not in shown:
        return False  # it has another sign
    if date := _DATE.fullmatch(text.strip()):
        year, month, day = map(int, date.groups())
        named = 0 < month <= 12 and (str(month) in known or any(w.startswith(_MONTHS[month - 1]) for w in known))
        return named and {str(year), str(day)} <= known
    return all(word in known for word in _words(text))


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text, and its numbers without zeros in front, as they are compared."""
    for match in _WORDS.finditer(normalized("NFKC", text).casefold()):
        word = match[0]
        yield (word.lstrip("0") or "0") if word.isdigit() and len(word) <= _DIGITS else word


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the values in a value that hold no others, and the keys of its objects but for the outermost."""
    waiting: list[tuple[Any, bool]] = [(value, True)]
    while waiting:
        at, outermost = waiting.pop()
        if isinstance(at, dict):
            if not outermost:
                yield from at
            waiting += [(item, False) for item in at.values()]
        elif isinstance(at, list | tuple):
            waiting += [(item, False) for item in at]
        else:
            yield at


def _named_values(schema: Any) -> Iterator[Any]:
    """Yield the values that a schema itself names anywhere, and the names of its properties."""
    waiting = [schema]
    while waiting:
        at = waiting.pop()
        if isinstance(at, dict):
            yield from (at[name] for name in _VALUES if name in at)
            if isinstance(properties := at.get("properties"), dict):
                yield from properties
            waiting += at.values()
        elif isinstance(at, list):
            waiting += at
