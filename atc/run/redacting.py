"""Put stand-ins in the place of values of a recording, wherever they stand, and find what may be a secret in it.

A stand-in has the type, the length and the form of its value: ``ada@example.com`` becomes another address, and a number
another one with as many digits. It is made from its place in the row alone, so it tells nothing of the value, and the
same recording gets the same stand-ins again.
"""

from __future__ import annotations

import ast
import base64
import copy
import random
import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any

from atc._host.redaction import Redactor
from atc._host.secret_detection import looks_secret
from atc._records.packing import TAG
from atc.errors import UsageError
from atc.programs.program import Program

Steps = tuple[str | int, ...]
MIN_WITHIN = 4
"""Characters of a text or a number that is replaced wherever it stands. A shorter text is replaced where it stands as a
word, and a shorter number at its place alone: others are equal to it by chance."""
MAX_PLACES = 10_000
"""Places that a way may lead to."""
MAX_VALUES = 1_000
"""Different values that get stand-ins: each is looked for in all texts."""
_MOST_BRANCHED = 40
"""Branches within each other of the form that finds them: a form of Python's cannot be nested at will."""
_TEXTS = ("task", "program", "linked", "said")
_VALUES = ("inputs", "value")
_OF_CALL = ("arguments", "sent", "value", "error")
"""Where stand-ins go: in the whole of a recording, and in each of its calls. The rest is no value of the run."""
_NAMED = frozenset({"task", "said", "inputs", "value", "calls"})
"""The first step of a way."""


def steps_of(way: str) -> Steps:
    """Return the steps of a way into a recording: ``calls.0.value.email``, ``calls.*.value``, or a JSON pointer.

    Raises:
        UsageError: it leads to nothing that can be replaced.
    """
    if way.startswith("/"):
        steps = [part.replace("~1", "/").replace("~0", "~") for part in way[1:].split("/")]
    else:
        steps = way.split(".")
    if "" in steps or steps[0] not in _NAMED or (steps[0] == "calls" and (len(steps) < 3 or steps[2] not in _OF_CALL)):
        raise UsageError(
            f"--redact {way!r} is no place of a value: write one as calls.0.value.email, calls.0.arguments.to, "
            "inputs.name or value.0, and calls.*.value.email for all calls"
        )
    return tuple(int(step) if step.isascii() and step.isdigit() and len(step) < 10 else step for step in steps)


def dotted(steps: Sequence[str | int]) -> str:
    """Return steps as one writes them: dotted, or as a JSON pointer where a key has a dot or a slash."""
    texts = [str(step) for step in steps]
    if all(text and "." not in text and not text.startswith("/") for text in texts):
        return ".".join(texts)
    return "".join("/" + text.replace("~", "~0").replace("/", "~1") for text in texts)


def places(data: Any, steps: Steps) -> list[Steps]:
    """Return the places that a way leads to; ``*`` is any key or position."""
    found: list[tuple[Steps, Any]] = [((), data)]
    for step in steps:
        following: list[tuple[Steps, Any]] = []
        for place, value in found:
            if isinstance(value, dict):
                key = str(step)
                keys: Sequence[str] = [*value] if step == "*" and "*" not in value else [key] if key in value else []
                following += [((*place, each), value[each]) for each in keys]
            elif isinstance(value, list):
                is_there = isinstance(step, int) and step < len(value)
                at = [*range(len(value))] if step == "*" else [int(step)] if is_there else []
                following += [((*place, each), value[each]) for each in at]
        if len(following) > MAX_PLACES:
            raise UsageError(f"--redact {dotted(steps)} leads to more than {MAX_PLACES:,} places: name fewer")
        found = following
    return [place for place, _ in found]


# ----------------------------------------------------------------------------------------------------------------------
# Stand-ins.


def redact(data: dict[str, Any], ways: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return a recording, as JSON values, with stand-ins at these ways; and the places, as :func:`dotted`.

    The value of each place is replaced wherever else it stands, too: in other calls, in texts, in the program.

    Raises:
        UsageError: a way leads nowhere, or to a value for which there is no stand-in.
    """
    texts: dict[str, str] = {}
    taken: set[str] = set()
    numbers: dict[float, float] = {}
    named: list[str] = []
    short: dict[Steps, float] = {}
    for way in ways:
        found = places(data, steps_of(way))
        if not found:
            raise UsageError(f"--redact {way} leads nowhere: no value of this recording stands there")
        for place in found:
            named.append(dotted(place))
            value = _at(data, place)
            if value is None or isinstance(value, bool):
                raise UsageError(f"--redact {dotted(place)}: {value!r} names nobody: leave it out")
            for inner, leaf in _leaves(value, place):
                _find(leaf, texts, taken, numbers)
                if len(texts) + len(numbers) > MAX_VALUES:
                    raise UsageError(f"--redact names more than {MAX_VALUES:,} different values: name fewer places")
                if isinstance(leaf, int | float) and len(repr(abs(leaf))) < MIN_WITHIN:
                    short[inner] = numbers[leaf]
    data = copy.deepcopy(data)
    for place, stand_in in short.items():
        _at(data, place[:-1])[place[-1]] = stand_in
    replaced = _Replaced(texts, numbers)
    made = data | {key: replaced.value(data[key]) for key in (*_TEXTS, *_VALUES) if key in data}
    if "task" in data:  # a person's spelling; nothing is replayed of it
        made["task"] = replaced.in_any_case(data["task"])
    made["calls"] = [
        call | {key: replaced.value(call[key]) for key in _OF_CALL if key in call} for call in data["calls"]
    ]
    return made, [*dict.fromkeys(named)]


def left(data: Mapping[str, Any], before: Mapping[str, Any], ways: Sequence[str]) -> list[str]:
    """Return the places where a value still stands, as a whole or within a text, that was to be replaced."""
    named = [(place, _at(before, place)) for way in ways for place in places(before, steps_of(way))]
    gone = {str(leaf) for place, value in named for _, leaf in _leaves(value, place)}
    pattern = _any_of(text for text in gone if len(text) >= MIN_WITHIN)  # a short one may stand there by chance
    if pattern is None:
        return []
    texts = chain(_texts_of(data), _constants_of(data))
    return [*dict.fromkeys(place for place, text in texts if pattern.search(text))]


def _constants_of(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for place in ("program", "linked"):
        program = Program(data.get(place) or "")
        for node in program.nodes if program.tree is not None else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float):
                yield place, str(node.value)


def _any_of(texts: Iterable[str], flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str] | None:
    """What begins alike is looked for once, so its time grows with the text that is searched, not with their number."""
    some = sorted({*filter(None, texts)})
    long = _branches([text for text in some if len(text) >= MIN_WITHIN])
    short = _branches([text for text in some if len(text) < MIN_WITHIN])
    forms = [long] * bool(long) + [rf"(?<!\w)(?:{short})(?!\w)"] * bool(short)
    return re.compile("|".join(forms), flags) if forms else None


def _branches(texts: Sequence[str], depth: int = 0) -> str:
    """Return the form of sorted texts, none empty: one branch for those that begin alike, longer ones first."""
    if depth > _MOST_BRANCHED:
        return "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True))
    made = []
    for _, alike in groupby(texts, lambda text: text[0]):
        group = [*alike]
        begin = _same_begin(group[0], group[-1])
        rest = [text[len(begin) :] for text in group if text != begin]
        ends = "|" if len(rest) < len(group) else ""
        made.append(re.escape(begin) + (f"(?:{_branches(rest, depth + 1)}{ends})" if rest else ""))
    return "|".join(made)


def _same_begin(one: str, other: str) -> str:
    differ = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return one[: next(differ, min(len(one), len(other)))]


def _find(value: Any, texts: dict[str, str], taken: set[str], numbers: dict[float, float]) -> None:
    if not isinstance(value, str):
        numbers.setdefault(value, _number_for(value, len(numbers)))
    elif value and value not in texts:
        texts[value] = _text_for(value, len(texts), taken)
        taken.add(texts[value])


def _text_for(text: str, number: int, taken: set[str]) -> str:
    if isinstance(text, _Base64):
        return base64.b64encode(random.Random(number).randbytes(len(base64.b64decode(text)))).decode()
    for turn in range(100):
        chance = random.Random(number * 100 + turn)
        made = "".join(_letter(letter, chance) for letter in text)
        if made != text and made not in taken:
            return made
    return f"redacted_{number}"  # it has no letter and no digit, or too few


def _letter(letter: str, chance: random.Random) -> str:
    if letter.isdigit():
        return chance.choice("123456789")
    if letter.isalpha():
        return chance.choice(string.ascii_uppercase if letter.isupper() else string.ascii_lowercase)
    return letter


def _number_for(value: float, number: int) -> float:
    chance, sign = random.Random(number), -1 if value < 0 else 1
    if isinstance(value, int):
        digits = len(str(abs(value)))
        made: float = chance.randrange(10 ** (digits - 1) if digits > 1 else 1, 10**digits)
        return sign * (made if made != abs(value) else made - 1 or 2)
    whole, _, rest = repr(abs(value)).partition(".")
    before, after = 10 ** min(len(whole), 15), 10 ** min(len(rest) or 1, 6)
    made = float(f"{chance.randrange(1, before)}.{chance.randrange(1, after)}")
    return sign * (made if made != abs(value) else made + 1)


class _Replaced:
    def __init__(self, texts: Mapping[str, str], numbers: Mapping[float, float]) -> None:
        self._texts, self._numbers = texts, numbers
        within = {**texts}
        within |= {repr(n): repr(made) for n, made in numbers.items() if len(repr(abs(n))) >= MIN_WITHIN}
        self._within = within
        self._pattern = _any_of(within)

    def value(self, value: Any) -> Any:
        """Return a value with its stand-ins."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {self._text(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, bool) or value is None:
            return value
        return self._numbers.get(value, value) if len(repr(abs(value))) >= MIN_WITHIN else value  # see MIN_WITHIN

    def in_any_case(self, text: str) -> str:
        """Return a text with stand-ins for what stands there in capital or small letters, too."""
        if self._pattern is None:
            return text
        of_folded = {value.casefold(): made for value, made in self._within.items()}
        any_case = _any_of(map(str.lower, self._within), re.IGNORECASE)
        text = self._text(text)
        return text if any_case is None else any_case.sub(lambda found: of_folded.get(found[0].casefold(), "…"), text)

    def _text(self, text: str) -> str:
        if text in self._texts:
            return self._texts[text]
        return text if self._pattern is None else self._pattern.sub(lambda found: self._within[found[0]], text)


def _at(data: Any, place: Steps) -> Any:
    for step in place:
        data = data[step]
    return data


class _Base64(str):
    """The text of bytes, which another text of its form need not be."""


def _leaves(value: Any, place: Steps) -> Iterator[tuple[Steps, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            is_bytes = key == TAG and len(value) == 1 and isinstance(item, str)
            yield from _leaves(_Base64(item) if is_bytes else item, (*place, key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _leaves(item, (*place, at))
    elif value is not None and not isinstance(value, bool):
        yield place, value


# ----------------------------------------------------------------------------------------------------------------------
# Secrets.


def secrets_in(data: Mapping[str, Any], redactor: Redactor) -> list[str]:
    """Return the places of a recording, as :func:`dotted`, with a credential that ATC knows or what looks like one.

    Args:
        data: the recording as JSON values.
        redactor: knows the credentials of the settings and the environment.
    """
    found = (place for place, text in _texts_of(data) if redactor.text(text) != text or looks_secret(text))
    return [*dict.fromkeys(found)]


def _texts_of(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _texts({key: data[key] for key in (*_TEXTS, *_VALUES) if key in data})
    for name, tool in data.get("tools", {}).items():
        yield from _texts(tool.get("schemas"), ("tools", name, "schemas"))
    for at, call in enumerate(data.get("calls", ())):
        yield from _texts({key: call[key] for key in _OF_CALL if key in call}, ("calls", at))


def _texts(value: Any, place: Steps = ()) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield dotted(place), value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield dotted((*place, key)), key
            yield from _texts(item, (*place, key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _texts(item, (*place, at))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield dotted(place), repr(value)
