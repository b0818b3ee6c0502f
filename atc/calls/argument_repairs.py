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
from atc.calls.entry import CallKey, RepairedFor, call_key
from atc.calls.journal import Journal
from atc.calls.json_values import canonical, to_json_value
from atc.calls.record import CallRecord
from atc.calls.redact import Redactor
from atc.errors import CallRefused, ToolError
from atc.packing import as_text, holds_bytes
from atc.records import ArgumentRepair
from atc.result import Effect
from atc.schemas.repair import same_request
from atc.schemas.validate import problems
from atc.tools.protocol import JsonSchema, Protocol, original_arguments
from atc.tools.tool import Tool
from atc.unicode_forms import normalized

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
# A run's table of respellings: of a tool, the keys that are read as one of its parameters, as earlier runs taught.


MAX_KEYS = 2_000
"""Keys of one run's table, of all tools together: a trace holds it."""

Respellings = Mapping[str, Mapping[str, str]]


def bounded_respellings(learnt: Respellings) -> Respellings:
    """The table of a run that begins, of what was learnt."""
    made: dict[str, dict[str, str]] = {}
    left = MAX_KEYS
    for tool, keys in learnt.items():
        taken = dict(list(keys.items())[:left])
        left -= len(taken)
        if taken:
            made[tool] = taken
    return made


def read_respellings(found: Any) -> Respellings:
    """The table of a run that goes on, from its trace. Anything but names is left out."""
    if not isinstance(found, dict):
        return {}
    made = {
        tool: {key: name for key, name in keys.items() if isinstance(name, str)}
        for tool, keys in found.items()
        if isinstance(keys, dict)
    }
    return bounded_respellings(made)


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

Check = Callable[[CallRecord, Tool], None]
"""The schema gate with the repairs by rule: it sets the record's arguments, or refuses them."""


class ArgumentRepairs:
    """Repairs the arguments of one run's calls with the model's help.

    Args:
        journal: of the run. What was sent for some arguments is sent for them again.
        redactor: of the run. What holds a credential is not shown to a model.
        most: how often the model is asked, B of Alg. 1.
        waiting: stops the clock of the program.

    Attributes:
        repairer: asks the model; ``None``: it is never asked.
        respellings: of a tool, keys that runs have shown to mean a parameter; the same for the whole run.
        asked: how often the model was asked.
    """

    def __init__(
        self, journal: Journal, redactor: Redactor, most: int, waiting: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self.repairer: Repairer | None = None
        self.respellings: Respellings = {}
        self.asked = 0
        self._journal, self._redactor, self._most, self._waiting = journal, redactor, most, waiting
        self._asking = asyncio.Lock()
        self._answers: dict[CallKey, dict[str, Any] | None] = {}

    async def gate(self, record: CallRecord, tool: Tool, check: Check, *, may_ask: bool) -> None:
        """Hold a call to its schema, and repair what does not fit.

        Args:
            record: of the call. Its arguments become those that are sent.
            tool: of the call.
            check: the gate with the repairs by rule.
            may_ask: whether the call could be made at all.

        Raises:
            CallRefused: the arguments do not fit and are not repaired; or the program has ended meanwhile.
        """
        if record.repaired_for == "service":
            return  # made of arguments that were through here
        original = original_arguments(tool.protocol, record.arguments)
        refused: CallRefused | None = None
        try:
            check(record, tool)
        except CallRefused as error:
            refused = error
        made, repaired_for = self._sent_before(record, tool, original)
        if made is None and refused is not None:
            if refused.status == "invalid_arguments" and may_ask and not _lacks_alone(record, tool, original):
                made = await self._repaired(record, tool, original, refused.message, "gate")
            if made is None:
                raise refused
            repaired_for = "gate"
        if made is not None:
            _take(record, original, made, repaired_for)
        record.original = original if record.repairs or record.arguments != original else None

    async def after(self, record: CallRecord, tool: Tool, error: ToolError) -> dict[str, Any] | None:
        """Other arguments for a call that was made and failed; ``None`` where it is not repaired.

        Args:
            record: of the call, which has been sent.
            tool: of the call.
            error: why it failed.
        """
        if record.effect is not Effect.READ or record.repaired_for or not _blames_arguments(error, tool.protocol):
            return None
        original = record.arguments if record.original is None else record.original
        made = await self._repaired(record, tool, original, error.message, "service")
        return made if made is not None and made != record.arguments else None

    def take_after(self, again: CallRecord, failed: CallRecord, made: dict[str, Any]) -> None:
        """Let a call be made again with the arguments of :meth:`after`, as a call of its own."""
        again.original = failed.arguments if failed.original is None else failed.original
        again.repairs = failed.repairs
        _take(again, again.original, made, "service")

    def _sent_before(
        self, record: CallRecord, tool: Tool, original: dict[str, Any]
    ) -> tuple[dict[str, Any] | None, RepairedFor]:
        """What was sent for the same arguments before, if it still fits and is another call than the gate makes."""
        key = _key(record, original) if self._journal.has_repaired else None
        before = self._journal.sent_for(key) if key is not None else None
        if (
            before is None
            or before.arguments == record.arguments
            or not _fits_schema(tool.protocol.parameters, before.arguments, original)
        ):
            return None, ""
        return copy.deepcopy(before.arguments), before.repaired_for

    async def _repaired(
        self,
        record: CallRecord,
        tool: Tool,
        original: dict[str, Any],
        reason: str,
        by: Literal["gate", "service"],
    ) -> dict[str, Any] | None:
        """What the model gives in place of a call's arguments. For the same original arguments it is asked once."""
        key = _key(record, original)
        if self.repairer is None or key is None or record.page or not self._is_showable(original, record.arguments):
            return None
        async with self._asking:  # one question at a time
            if key not in self._answers:
                if self.asked >= self._most:
                    return None
                self.asked += 1
                self._answers[key] = None  # also where the question is broken off
                shown = record.arguments if by == "service" else _with_dropped(record, original)
                complaint = Complaint(tool.protocol, copy.deepcopy(shown), reason[:MAX_REASON], by)
                with self._waiting():
                    given = await self.repairer(complaint)
                self._answers[key] = self._accepted(given, original, complaint, record.effect)
            found = copy.deepcopy(self._answers[key])
        if (record.stage, record.attempt) != (self._journal.stage, self._journal.attempt):
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
        """What the model gave, if it may be sent."""
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
    """What the model changed, one argument at a time. A value that only goes by another name is ``name``'s."""
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


def _with_dropped(record: CallRecord, original: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments after the repairs by rule, and beside them what those dropped: it may be what is missing."""
    respelt = {repair.path[0] for repair in record.repairs if repair.kind == "respelt"}
    return record.arguments | {
        name: value for name, value in original.items() if name not in record.arguments and name not in respelt
    }


def _take(record: CallRecord, original: dict[str, Any], made: dict[str, Any], repaired_for: RepairedFor) -> None:
    """Let a call be made with repaired arguments. What a rule had done of it stays that rule's."""
    if repaired_for:
        by_rule = {repair.path: repair for repair in record.repairs}
        repairs: list[ArgumentRepair] = []
        for each in changes(original, made):
            rule = by_rule.get(each.path)
            is_of_rule = rule is not None and (rule.name, rule.sent) == (each.name, each.sent)
            repairs.append(rule if rule is not None and is_of_rule else each)
        record.repairs = tuple(repairs)
        record.notes += wording.argument_repairs([each for each in repairs if each.kind == "model"])
    record.arguments, record.repaired_for = made, repaired_for


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


def _lacks_alone(record: CallRecord, tool: Tool, original: Mapping[str, Any]) -> bool:
    """Whether nothing is wrong but that arguments are missing, and nothing was given that they could be made of."""
    schema = tool.protocol.parameters
    names = schema.get("properties")
    found = problems(schema, record.arguments)
    only_missing = bool(found) and all(each.keyword == "required" for each in found)
    return only_missing and isinstance(names, dict) and original.keys() <= names.keys()


def _key(record: CallRecord, arguments: dict[str, Any]) -> CallKey | None:
    try:
        return call_key(record.tool, arguments, record.source)
    except ValueError:
        return None


def _short(value: Any) -> Any:
    """A value as a record keeps it: what is long is cut."""
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
    return _keeps(made, complaint) and all(
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
    """The words of a text, and its numbers without zeros in front, as they are compared."""
    for match in _WORDS.finditer(normalized("NFKC", text).casefold()):
        word = match[0]
        yield (word.lstrip("0") or "0") if word.isdigit() and len(word) <= _DIGITS else word


def _leaves(value: Any) -> Iterator[Any]:
    """The values in a value that hold no others, and the keys of its objects but for the outermost."""
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
    """The values that a schema itself names anywhere, and the names of its properties."""
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
