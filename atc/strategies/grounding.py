"""What a sentence says and nothing gave: numbers, dates, times and names without a source (after RETO §3.3).

The source of a number may be rounded, no more is computed: 42 % has none in 0.42. Dates and times match by their parts,
in whatever form they are written. Names are compared word by word in English sentences; in other languages, where
ordinary words have capital letters or names are inflected, only what is quoted, has digits, or is an address is one.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import cached_property
from itertools import islice
from typing import Any

from atc.strategies.dates_in_text import MONTHS, OFFSET, WEEKDAYS, Day, dates_in, times_in
from atc.strategies.language_words import FREE, WORD
from atc.strategies.numbers_in_text import Number, is_minus, numbers_in
from atc.strategies.spelled_in_text import spelled_in
from atc.unicode_forms import normalized

MAX_TEXT, MAX_VALUES = 200_000, 100_000
"""Characters, and values, of what is known; what stands behind is not known."""
MAX_SENTENCE, MAX_NAME = 2_000, 200
"""Characters of a sentence, and of the name of a field."""
_RUN = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ADDRESS = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}|(?:https?://|(?<!\w)www\.)[^\s<>\"'`|\\^{}\[\]]+"
    r"|(?<![\w@.-])(?:[\w-]{1,63}\.){1,8}(?:com|org|net|edu|gov|io|dev|app|info|eu|ru"
    r"|cn|jp|uk|de|fr|nl|pl|ch|br|biz|xyz|online|site|example)\b(?:/[^\s<>\"'`]*)?",
    re.IGNORECASE,
)
_TAIL = ".,;:!?)/*_'"
_QUOTED = re.compile(
    r"\"([^\"\n]{1,300})\"|“([^”\n]{1,300})”|„([^“”\n]{1,300})[“”]|«([^»\n]{1,300})»|`([^`\n]{1,300})`"
    r"|(?<!\w)['‘]([^'’\n]{1,300})['’](?!\w)"
)
_SHORT = frozenset("d ll m re s t ve".split())
"""What is left of a word behind an apostrophe."""
_ORDINAL = ("st", "nd", "rd", "th")
_CHUNK = re.compile(r"\w+(?:[-./:_'’+&@#]\w+)*")
_UNITS = frozenset("co2 h2o km2 m2 m3 cm2 cm3 ft2 24h pm2 pm10".split())


class Known:
    """All that a sentence may say.

    Args:
        values: JSON values and bytes, in the order in which they count where there are too many.
        texts: of the user.
        counts: numbers of things that are nobody's value.
    """

    def __init__(self, values: Sequence[Any], texts: Iterable[str] = (), counts: Iterable[int] = ()) -> None:
        self._texts: list[str] = []
        self._names: set[str] = set()
        self._room, self._left = MAX_TEXT, MAX_VALUES
        self._numbers: set[Decimal] = {Decimal(count) for count in counts}
        self._longest = 0
        for text in texts:
            self._add_text(text)
        for at, value in enumerate(values):
            self._add(value, members=at == 0)
        self._raw = "\n".join(self._texts)

    def _add(self, value: Any, members: bool) -> None:
        """Take a value in. ``members``: the number of an object's members counts, too."""
        todo = [value]
        while todo and self._left > 0 and self._room > 0:
            self._left -= 1
            match todo.pop():
                case dict() as record:
                    self._add_names(record)
                    if members:
                        self._numbers.add(Decimal(len(record)))
                    todo += [*islice(record.values(), max(0, self._left - len(todo)))][::-1]
                case list() | tuple() as items:
                    self._numbers.add(Decimal(len(items)))
                    self._longest = max(self._longest, len(items))
                    todo += [*islice(items, max(0, self._left - len(todo)))][::-1]
                case str() as text:
                    self._add_text(text)
                case bool() | None:
                    pass
                case int() as number if number.bit_length() < 128:
                    self._numbers.add(Decimal(number))
                case float() as number if number == number and abs(number) != float("inf"):
                    self._numbers.add(Decimal(repr(number)))
                case _:
                    pass

    def _add_names(self, names: Iterable[Any]) -> None:
        """Take names of fields in, each once, as words."""
        for name in islice(names, MAX_VALUES):
            if (short := str(name)[:MAX_NAME]) not in self._names:
                self._names.add(short)
                self._add_text(_CAMEL.sub(" ", short))

    def _add_text(self, text: str) -> None:
        self._texts.append(text[: max(0, self._room)])
        self._room -= len(text) + 1

    @cached_property
    def _phrases(self) -> str:
        """The words of each text, with marks between the texts."""
        return " | ".join(" ".join(_RUN.findall(fold(text))) for text in self._texts).join("  ")

    @cached_property
    def words(self) -> frozenset[str]:
        """Every word, folded."""
        return frozenset(self._phrases.split())

    @cached_property
    def addresses(self) -> frozenset[str]:
        """E-mail addresses, URLs and domains."""
        return frozenset(match[0].casefold().rstrip(_TAIL) for match in _ADDRESS.finditer(self._raw))

    @cached_property
    def _read_numbers(self) -> tuple[list[Decimal], list[Decimal]]:
        """All numbers without their signs, and those that are below zero; sorted."""
        found = set(self._numbers)
        found.update(Decimal(each) for day in self.days for each in (day.year, day.day) if each is not None)
        found.update(Decimal(hour) for hour, minute in self.times if minute == 0)
        rest = _blanked(self._raw, [(each.start, each.end) for each in dates_in(self._raw)])
        rest = _blanked(rest, [(start, end) for start, end, _ in times_in(rest)])
        for number in numbers_in(rest, comma=True):
            for some in number.readings:
                found.update(each.scaleb(power) for each in some for power in {0, number.power})
                if number.minus:
                    found.update(-each for each in some)
        found.update(each.number.scaleb(each.power) for each in spelled_in(self._raw))
        return sorted({abs(each) for each in found}), sorted({-each for each in found if each <= 0})

    @cached_property
    def days(self) -> frozenset[Day]:
        """The dates."""
        return frozenset(day for found in dates_in(self._raw) for day in found.meanings)

    @cached_property
    def times(self) -> frozenset[tuple[int, int]]:
        """The times of day."""
        return frozenset(time for _, _, meant in times_in(self._raw) for time in meant)

    @cached_property
    def weekdays(self) -> frozenset[int]:
        """The days of the week of the dates."""
        found = set()
        for year, month, day in self.days:
            if year is not None and day is not None and 1 <= year <= 9999:
                try:
                    found.add(datetime.date(year, month, day).weekday())
                except ValueError:  # 31 June
                    continue
        return frozenset(found)

    def has_place(self, number: Decimal) -> bool:
        """Whether a list has an item of this number, from 1."""
        return 1 <= number <= self._longest

    def has_text(self, text: str) -> bool:
        """Whether a text stands somewhere, letter by letter."""
        return text in self._raw

    def has_number(self, number: Decimal, power: int = 0, minus: bool = False) -> bool:
        """Whether a number, times ten to ``power``, is known, or a correct rounding of one that is."""
        of = self._read_numbers[minus]
        exponent = number.as_tuple().exponent
        digits = exponent if isinstance(exponent, int) else 0
        wanted, half = number.scaleb(power), Decimal(5).scaleb(digits + power - 1)
        at = bisect_left(of, wanted - half)
        return at < len(of) and of[at] <= wanted + half

    def has_phrase(self, text: str) -> bool:
        """Whether the words of a text stand beside each other in one that is known."""
        return f" {' '.join(_RUN.findall(fold(text)))} " in self._phrases

    def has_day(self, said: Day) -> bool:
        """Whether a date has all that is said of one."""
        return any(
            known.month == said.month
            and said.day in (None, known.day)
            and (said.year is None or self._is_year(said.year, known.year))
            for known in self.days
        )

    def _is_year(self, said: int, known: int | None) -> bool:
        if known is None:
            return self.has_number(Decimal(said))
        return said == known or (said < 100 and known % 100 == said) or (known < 100 and said % 100 == known)

    def has_word(self, word: str) -> bool:
        """Whether a word is known, in the singular or the plural."""
        base = fold(word)
        forms = (base, f"{base}s", base.removesuffix("s"), base.removesuffix("es"))
        return any(form in self.words for form in forms)


def ungrounded(sentence: str, known: Known, *, names: bool = True, comma: bool = False) -> tuple[str, ...]:
    """What a sentence says and is not known: numbers, dates, times, names, quotations and addresses, as it has them.

    Linear in the size of what is known, for a sentence of at most :data:`MAX_SENTENCE` characters.

    Args:
        sentence: to be judged.
        known: all that it may say.
        names: words with a capital letter are names, as in English.
        comma: numbers may be written with a decimal comma.
    """
    reading = _Reading(sentence, known)
    reading.addresses()
    reading.quotations()
    reading.days_and_times()
    reading.identifiers()
    reading.numbers(comma)
    if names:
        reading.spelled_numbers()
        reading.names()
    return tuple(dict.fromkeys(text for _, text in sorted(reading.refused)))


class _Reading:
    """One sentence; what was judged is blanked, so that nothing is judged twice."""

    def __init__(self, sentence: str, known: Known) -> None:
        self._text, self._known = sentence, known
        self._left = sentence
        self.refused: list[tuple[int, str]] = []

    def _judge(self, start: int, end: int, grounded: bool) -> None:
        if not grounded:
            self.refused.append((start, self._text[start:end].strip(" .,;:!?\n")))
        self._left = f"{self._left[:start]}{' ' * (end - start)}{self._left[end:]}"

    def addresses(self) -> None:
        for match in _ADDRESS.finditer(self._left):
            said = match[0].casefold().rstrip(_TAIL)
            bare = "@" not in said and "://" not in said
            known = said in self._known.addresses or (bare and self._known.has_phrase(said))
            self._judge(match.start(), match.end(), known)

    def quotations(self) -> None:
        for match in _QUOTED.finditer(self._left):
            said = next(group for group in match.groups() if group is not None)
            if any(map(str.isalpha, said)):  # a quoted number is a number
                grounded = self._known.has_phrase(said) or not _RUN.search(said)
                self._judge(match.start(), match.end(), grounded)

    def days_and_times(self) -> None:
        for found in [*dates_in(self._left)]:
            self._judge(found.start, found.end, any(map(self._known.has_day, found.meanings)))
        for match in OFFSET.finditer(self._left):
            self._judge(match.start(), match.end(), self._known.has_text(match[0]))
        for start, end, meant in [*times_in(self._left)]:
            self._judge(start, end, not meant.isdisjoint(self._known.times))

    def identifiers(self) -> None:
        for match in _CHUNK.finditer(self._left):
            no_number = _is_mixed(match[0]) or match[0].count(".") > 1
            if no_number and (match[0].casefold() in _UNITS or self._known.has_phrase(match[0])):
                self._judge(match.start(), match.end(), True)

    def numbers(self, comma: bool) -> None:
        for number in [*numbers_in(self._left, comma=comma)]:
            self._judge(number.start, number.end, self._has(number))
        for match in _CHUNK.finditer(self._left):
            if any(map(str.isdecimal, match[0])):
                self._judge(match.start(), match.end(), False)

    def _has(self, said: Number) -> bool:
        powers = {said.power} if said.sure else {0, said.power}
        if any(
            all(self._known.has_number(each, power, said.minus) for each in some)
            for some in said.readings
            for power in powers
        ):
            return True
        text = self._text[said.start : said.end]
        if text.lower().endswith(_ORDINAL) and self._known.has_place(said.readings[0][0]):
            return True
        return said.sure and self._known.has_phrase(text)

    def spelled_numbers(self) -> None:
        known = self._known
        for each in [*spelled_in(self._left)]:
            minus = is_minus(self._text, each.start)
            grounded = known.has_number(each.number, each.power, minus) or (
                each.ordinal and known.has_place(each.number)
            )
            phrase = self._text[each.start : each.end]
            self._judge(each.start, each.end, grounded or (not minus and known.has_phrase(phrase)))

    def names(self) -> None:
        for match in WORD.finditer(self._left):
            base, _, rest = match[0].replace("’", "'").partition("'")
            said, second = fold(base), fold(rest)
            if rest[:1].isupper() and second not in _SHORT and not self._is_known(second):  # O'Connor
                self._judge(match.start(), match.end(), False)
            elif len(base) > 1 and base[0].isupper() and said not in FREE and not self._is_known(said):
                owned = rest == "s" and said not in ("that", "there", "here", "what", "let", "who")
                if owned or not self._begins(match.start()):
                    self._judge(match.start(), match.end(), False)

    def _is_known(self, word: str) -> bool:
        known = self._known
        if known.has_word(word):
            return True
        month, weekday = MONTHS.get(word), WEEKDAYS.get(word.removesuffix("s") if word not in WEEKDAYS else word)
        return any(day.month == month for day in known.days) or (weekday is not None and weekday in known.weekdays)

    def _begins(self, at: int) -> bool:
        """Whether a word at this place begins a sentence, which has other words."""
        if not any(map(str.islower, (word[0] for word in WORD.findall(self._text)))):
            return False
        before = self._text[:at].rstrip(" \t\u00a0\"'“„‘«([*_`#>")
        return not before or before[-1] in ".!?…\n"


def _blanked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """A text with spaces in place of some parts, which are in order and apart."""
    parts, at = [], 0
    for start, end in spans:
        parts += [text[at:start], " " * (end - start)]
        at = end
    return "".join((*parts, text[at:]))


def _is_mixed(chunk: str) -> bool:
    return any(map(str.isdecimal, chunk)) and any(map(str.isalpha, chunk))


def fold(text: str) -> str:
    """A text without case and accents."""
    if text.isascii():
        return text.lower()
    apart = normalized("NFKD", text.casefold())  # linear, whatever a response holds
    return "".join(letter for letter in apart if not unicodedata.combining(letter))
