"""Ask the run's model to put the arguments of a refused read right (RETO §3.4, Alg. 1 tier 2; App. A.6).

One short prompt, off the conversation: what was wrong with a call never stands there. Only before a call is made, and
only of a tool that reads: what the model says is held to the schema, and says nothing that was not there
(:func:`is_grounded`). A write is refused as it was.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from atc import BudgetExceeded, CallRefused, Message, ModelError, ModelUnavailable, Protocol, Run
from atc.plugins.strategies import (
    ArgumentRepair,
    ArgumentRepairs,
    Attempt,
    argument_repairs,
    as_text,
    fenced,
    holds_bytes,
    problems,
)
from atc_research.prompting import prompt
from atc_research.steps import read_value

MOST = 5
"""Questions of one run, B of Alg. 1."""
MAX_SCHEMA, MAX_ARGUMENTS, MAX_REASON = 8_000, 4_000, 1_000
"""Characters of a schema, of arguments and of a refusal that are shown; of longer ones nothing is asked."""
MAX_TOKENS = 600
"""Tokens of a reply; less where the settings say less."""
MAX_SHOWN = 200
"""Characters of a value in the record of a repair."""


class ModelRepairs(ArgumentRepairs):
    """Repairs the arguments of one run's calls by rule and, of a read, with the model's help.

    Args:
        run: the run, whose broker it is put into by :meth:`join`.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run.broker.redactor)
        self.key_aliases = run.broker.repairs.key_aliases
        self._run, self._asked = run, 0
        self._asking = asyncio.Lock()
        self._answers: dict[str, dict[str, Any] | None] = {}

    @classmethod
    def join(cls, run: Run) -> None:
        """Repair the arguments of a run from now on."""
        run.broker.repairs = cls(run)

    async def gate(self, attempt: Attempt, rules: frozenset[str]) -> None:
        try:
            await super().gate(attempt, rules)
        except CallRefused as refused:
            made = await self._made(attempt, refused.message) if rules and self._may_be_made(attempt) else None
            if made is None:
                raise
            given = attempt.original or attempt.arguments
            attempt.arguments, attempt.original, attempt.repairs = made, given, changes(given, made)
            attempt.notes += argument_repairs(attempt.repairs)

    def _may_be_made(self, attempt: Attempt) -> bool:
        broker = self._run.broker
        left = broker.made < broker.policy.max_calls and attempt.tool not in broker.broken_tools.banned
        return attempt.reads and left and not attempt.request.page

    async def _made(self, attempt: Attempt, reason: str) -> dict[str, Any] | None:
        """The model is asked once about the same ones. Raises CallRefused where the program has ended meanwhile."""
        broker, protocol = self._run.broker, attempt.granted.protocol
        original = attempt.original or attempt.arguments
        shown = attempt.arguments | {k: v for k, v in original.items() if k not in attempt.arguments}
        key = as_text([attempt.tool, original])
        if not self._is_showable(shown) or _lacks_alone(protocol, attempt.arguments, original):
            return None
        async with self._asking:  # one question at a time
            if key not in self._answers:
                if self._asked >= MOST:
                    return None
                self._asked += 1
                self._answers[key] = None  # also where the question is broken off
                with broker.waiting():
                    said = await self._said(protocol, shown, reason)
                self._answers[key] = self._accepted(said, protocol, shown, reason)
            found = copy.deepcopy(self._answers[key])
        if (attempt.stage, attempt.program) != (broker.journal.stage, broker.journal.attempt):
            raise CallRefused("its program ended before this call was made", status="stopped")
        return found

    async def _said(self, protocol: Protocol, shown: Mapping[str, Any], reason: str) -> Any:
        schema = json.dumps(protocol.parameters, ensure_ascii=False, default=str)
        if len(schema) > MAX_SCHEMA:
            return None
        text = prompt(
            "repair",
            tool=fenced(protocol.name),
            schema=fenced(schema),
            arguments=fenced(as_text(dict(shown))),
            reason=fenced(reason[:MAX_REASON]),
        )
        limit = min(MAX_TOKENS, self._run.settings.max_tokens)
        try:
            return read_value((await self._run.ask("repair", [Message("user", text)], max_tokens=limit)).text)
        except (ModelError, ModelUnavailable, BudgetExceeded):
            return None  # the run finds out by itself

    def _is_showable(self, arguments: dict[str, Any]) -> bool:
        """Whether a model can be asked about arguments: short text, without a credential."""
        short = not holds_bytes(arguments) and len(as_text(arguments)) <= MAX_ARGUMENTS
        return short and self._run.broker.redactor.value(arguments) == arguments

    def _accepted(self, said: Any, protocol: Protocol, shown: Mapping[str, Any], reason: str) -> dict[str, Any] | None:
        if not isinstance(said, dict) or not self._is_showable(said):
            return None
        known = protocol.parameters.get("properties")
        fits = (not isinstance(known, dict) or said.keys() <= known.keys()) and not problems(protocol.parameters, said)
        return said if fits and is_grounded(said, protocol, shown, reason) else None


def changes(given: Mapping[str, Any], sent: Mapping[str, Any]) -> tuple[ArgumentRepair, ...]:
    """Return what was changed, one argument at a time. A value under another name is one change, a ``name``."""
    gone, new = [name for name in given if name not in sent], [name for name in sent if name not in given]
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
    return tuple(found)


def _short(value: Any) -> Any:
    text = as_text(value)
    return value if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + " …"


def _lacks_alone(protocol: Protocol, arguments: dict[str, Any], original: Mapping[str, Any]) -> bool:
    """Whether nothing is wrong but that arguments are missing, and nothing was given that they could be made of."""
    names = protocol.parameters.get("properties")
    found = problems(protocol.parameters, arguments)
    only_missing = bool(found) and all(each.keyword == "required" for each in found)
    return only_missing and isinstance(names, dict) and original.keys() <= names.keys()


# ----------------------------------------------------------------------------------------------------------------------
# Whether repaired arguments say only what was there before: a repair changes a form, and invents nothing.
#
# A model that is asked to put arguments right may make an id up, a city, a date. So every word and every number of what
# it gives must stand in the arguments as they were, in the refusal, or among the values that the schema names. Nor does
# it leave out what the tool knows: without its filter, a search answers another question.


_WORDS = re.compile(r"[^\W\d_]+|\d+")
_GIVEN_WORD = re.compile(r"-?[\w-]{1,64}(?:\.\d{1,20})?")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_VALUES = ("enum", "const", "default", "examples", "example")
_DIGITS = 40
"""Digits of a number; a longer one is a text of digits, and is compared as one."""


def is_grounded(made: dict[str, Any], protocol: Protocol, given: Mapping[str, Any], reason: str) -> bool:
    """Return whether every value rests on what was there, and nothing that was there is lost.

    Args:
        made: the arguments after the repair.
        protocol: of the tool.
        given: the arguments before it.
        reason: why they were refused. That is another's text: no address, path or sentence is taken of it.
    """
    shown = as_text(dict(given))
    known, said = set(_words(shown)), set(_words(reason))
    for value in _named_values(protocol.parameters):
        known.update(_words(as_text(value)))
    kept = _keeps(made, protocol, given) and _leaves_others(made, given, said) and _keeps_units(made, given)
    return kept and all(
        _is_known(value, known, shown) or (_is_word(value) and _is_known(value, known | said, reason))
        for value in _leaves(made)
    )


def _keeps(made: Mapping[str, Any], protocol: Protocol, given: Mapping[str, Any]) -> bool:
    """Whether each argument that the tool knows is still given, or its value is, under another name."""
    names = protocol.parameters.get("properties")
    known = names if isinstance(names, dict) else {}
    gone = {as_text(value) for name, value in given.items() if name in known and name not in made and value is not None}
    return gone <= {as_text(value) for value in made.values()}


def _leaves_others(made: Mapping[str, Any], given: Mapping[str, Any], said: set[str]) -> bool:
    """Whether the arguments that the refusal does not name say what they said. One may be parted among others."""
    own = {name: set(_words(name)) <= said for name in {**given, **made}}
    if not any(own.values()):
        return True  # it says only that something is wrong
    told = set(_words(as_text(made)))
    return all(
        made[name] == value or (_plain(made[name]) in _plain(value) and told.issuperset(_words(_plain(value))))
        for name, value in given.items()
        if name in made and not own[name]
    )


def _keeps_units(made: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Whether no text of a number and a word became the number: "30 miles" is not 30 for kilometres."""
    return not any(
        isinstance(value, str)
        and isinstance(made.get(name), int | float)
        and any(not word.isdigit() for word in _words(value))
        and any(word.isdigit() for word in _words(value))
        for name, value in given.items()
    )


def _plain(value: Any) -> str:
    return (value if isinstance(value, str) else as_text(value)).casefold()


def _is_word(value: Any) -> bool:
    return _GIVEN_WORD.fullmatch(value if isinstance(value, str) else as_text(value)) is not None


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
    for match in _WORDS.finditer(unicodedata.normalize("NFKC", text).casefold()):
        word = match[0]
        yield (word.lstrip("0") or "0") if word.isdigit() and len(word) <= _DIGITS else word


def _leaves(value: Any) -> Iterator[Any]:
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
