"""The demands on an argument in a refusal's sentence: ``limit must be between 1 and 50``.

Text from a service is data. It is cut into short sentences, and each is matched with fixed patterns whose repetitions
are bounded; what they do not know is left alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from atc.probing.error_patterns import (
    ANY,
    AUXILIARY,
    BARE_MISSING,
    BETWEEN,
    BOUNDS,
    DATE_LAYOUT,
    FORMAT,
    FORMAT_WORDS,
    ITEMS,
    LABEL,
    LENGTH,
    MEMBERS,
    MISSING_LEAD,
    MISSING_TAIL,
    MISSING_THEN_NAMES,
    NAME,
    NEGATED,
    NOT_ONE_OF,
    OF_ITEMS,
    OF_LENGTH,
    QUOTED,
    QUOTED_MEMBERS,
    STOP,
    THING,
    TYPE,
    TYPE_WORDS,
    UNKNOWN,
    UNKNOWN_TAIL,
    VALID_IS_REQUIRED,
    VALUE_FIRST,
    WHERE,
    WRONG,
)

Kind = Literal["missing", "unknown", "type", "enum", "format", "range"]
MAX_TEXT, MAX_SENTENCES, MAX_SENTENCE = 8000, 30, 600
"""Characters of a text, its sentences, and characters of one that are read."""
MAX_MEMBERS, MAX_MEMBER = 60, 60
"""Values of an enum that are taken from a text, and characters of one."""


@dataclass(frozen=True)
class ErrorDetail:
    """One problem of the arguments, as the service states it.

    Attributes:
        parameter: its name as the service writes it, inner fields with dots; empty when the service does not say.
        problem: what is wrong with it.
        expected: what would be right, as keywords of JSON Schema: ``{"enum": [...]}``, ``{"type": "integer"}``,
            ``{"minimum": 1, "maximum": 50}``, ``{"format": "date"}``; empty when the service does not say.
        where: ``query``, ``path``, ``body``, ``header`` or ``cookie``, when the service says so.
    """

    parameter: str
    problem: Kind
    expected: dict[str, Any] = field(default_factory=dict)
    where: str = ""


def read_text(text: str, name: str = "", where: str = "") -> list[ErrorDetail]:
    """The details in a text.

    Args:
        text: what the service said. Only its first part is read.
        name: the parameter of which the service says this, if it names one beside the text.
        where: where the parameter is, if the service says so.
    """
    found: list[ErrorDetail] = []
    for sentence in _sentences(text):
        for detail in _read(sentence, name, where):
            if detail not in found:
                found.append(detail)
    return found


def _sentences(text: str) -> list[str]:
    text = text[:MAX_TEXT]
    if "</" in text:
        text = re.sub(r"<[^<>]{1,300}>", "\n", text)  # a page instead of a message
    parts = re.split(r"[\r\n]+|;\s|(?<=[\w\])'\"])\.\s+(?=[A-Z])", text)
    return [part.strip()[:MAX_SENTENCE] for part in parts[:MAX_SENTENCES] if part.strip()]


def _read(sentence: str, name: str, where: str) -> list[ErrorDetail]:
    place = where or (match[1].lower() if (match := WHERE.search(sentence)) else "")
    if missing := _missing(sentence, name):
        return [ErrorDetail(each, "missing", {}, place) for each in missing]
    if unknown := _unknown(sentence, name):
        return [ErrorDetail(each, "unknown", {}, place) for each in unknown]
    members = QUOTED_MEMBERS.search(sentence) or MEMBERS.search(sentence)
    if members is not None:
        values = read_members(members["members"])
        given = NOT_ONE_OF.search(sentence)
        subject = name or members.groupdict().get("for") or _subject(sentence, (given or members).start())
        if values:
            return [ErrorDetail(subject, "enum", {"enum": values}, place)]
        if given or (subject and " of" in sentence[members.start() : members.start("members")]):
            return [ErrorDetail(subject, "enum", {}, place)]
    limits = _limits(sentence, name, place)
    if not limits and name and (match := WRONG.search(sentence)):
        return [ErrorDetail(name, "enum" if match["choice"] or match["selected"] else "format", {}, place)]
    return limits


def _missing(sentence: str, name: str) -> list[str]:
    if VALID_IS_REQUIRED.search(sentence):
        return []  # "a valid integer is required"
    if name and (BARE_MISSING.fullmatch(sentence) or MISSING_TAIL.search(sentence)):
        return [name]
    if match := MISSING_THEN_NAMES.search(sentence):
        names = _names(match["names"])
        if names:
            return [name] if name else names
    for match in MISSING_TAIL.finditer(sentence):
        if subject := _subject(sentence, match.start()):
            return [subject]
    match = MISSING_LEAD.search(sentence)
    if match and _usable(match[1]) and (_is_quoted(sentence, match.start(1)) or _code_like(match[1])):
        return [match[1]]
    return []


def _unknown(sentence: str, name: str) -> list[str]:
    if match := UNKNOWN.search(sentence):
        names = _names(match["names"] or match["names2"] or match["names3"])
        if names:
            return names
    match = UNKNOWN_TAIL.search(sentence)
    if match is None:
        return []
    subject = name or _subject(sentence, match.start())
    return [subject] if subject else []


def _limits(sentence: str, name: str, where: str) -> list[ErrorDetail]:
    """Details of type, format and range; several may be in one sentence."""
    found: list[tuple[int, Kind, dict[str, Any]]] = []
    if match := TYPE.search(sentence):
        word = match["type"] or match["type2"] or match["type3"] or match["int"]
        found.append((match.start(), "type", {"type": TYPE_WORDS[word.lower()]}))
    if match := FORMAT.search(sentence):
        found.append((match.start(), "format", _format(sentence, match)))
    if expected := _range(sentence):
        found.append((expected.pop("at"), "range", expected))
    if not found:
        return []
    if not name and VALUE_FIRST.search(sentence) and not LABEL.match(sentence):
        subject = ""  # the word before is the value
    else:
        subject = name or _subject(sentence, min(at for at, _, _ in found))
    return [ErrorDetail(subject, problem, expected, where) for _, problem, expected in found]


def _format(sentence: str, match: re.Match[str]) -> dict[str, Any]:
    if layout := DATE_LAYOUT.search(sentence):
        return {} if layout["time"] else {"format": "date"}
    word = match["format"] or match["format2"]
    return {"format": FORMAT_WORDS[word.lower()]} if word else {}


def _range(sentence: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    starts = []
    if match := BETWEEN.search(sentence):
        made.update(minimum=_number(match[1]), maximum=_number(match[2]))
        starts.append(match.start())
    else:
        joined = NEGATED.sub(lambda m: m[0].replace(" ", "_"), sentence)  # "not more than" is no "more than"
        for keyword, pattern in BOUNDS:
            text = joined if keyword.startswith("exclusive") else sentence
            if (match := pattern.search(text)) and not (keyword.startswith("exclusive") and _narrower(keyword, made)):
                made[keyword] = _number(match[match.lastindex or 1])
                starts.append(match.start())
    if not made:
        return {}
    if made.get("minimum", 0) > made.get("maximum", made.get("minimum", 0)):
        return {}
    for pattern, names in ((LENGTH, OF_LENGTH), (ITEMS, OF_ITEMS)):
        if pattern.search(sentence):
            whole = {names[k]: v for k, v in made.items() if k in names and isinstance(v, int) and v >= 0}
            return {**whole, "at": min(starts)} if whole else {}
    return {**made, "at": min(starts)}


def _narrower(keyword: str, made: dict[str, Any]) -> bool:
    """Whether the bound is there already: "greater than or equal to 1" is not also "greater than"."""
    return {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}[keyword] in made


def _number(text: str) -> float | int:
    return float(text) if "." in text else int(text)


def read_members(text: str) -> list[str]:
    """The values that a text lists: ``'a', 'b' or 'c'``. None unless all are told, and look like a list."""
    text = text.strip()
    if re.search(r"[,|] {0,2}(?:\.\.\.|…|etc\b)", text):
        return []
    closing = {"[": "]", "(": ")", "{": "}"}.get(text[:1])
    if closing:
        text = text[1:].split(closing, 1)[0]
    elif quoted := re.match(r"(?:\s?(?:,|or|and|\|)?\s?(?:\"[^\"]{0,60}\"|'[^']{0,60}'|`[^`]{0,60}`)){2,60}", text):
        text = quoted[0] + ("…" if re.match(r",? (?:or|and) \d+ other", text[quoted.end() :]) else "")
    else:
        text = re.split(r"\.(?:\s|$)|;|, (?:but )?(?:got|received|was|not|found)\b| \(|\. ", text, maxsplit=1)[0]
    parts = [
        part.strip().strip("\"'`‘’“”[]()<>").strip()
        for part in re.split(r"\s?,\s?(?:or\s|and\s)?|\sor\s|\sand\s|\|", text)
    ]
    members = list(dict.fromkeys(part for part in parts if part))
    complete = (
        2 <= len(members) <= MAX_MEMBERS and "…" not in text and "..." not in text and " other candidate" not in text
    )
    short = all(len(member) <= MAX_MEMBER and len(member.split()) <= 4 for member in members)
    return members if complete and short else []


def _names(text: str) -> list[str]:
    names = [name.rstrip(".") for name in re.findall(QUOTED, text) or re.findall(NAME, text)]
    return [name for name in dict.fromkeys(names) if _usable(name) or len(name) == 1][:12]


def _subject(sentence: str, end: int) -> str:
    """The parameter that a sentence names: a label at its start, a quoted name, or the last word before ``end``."""
    label = LABEL.match(sentence)
    if label and _usable(label[1]):
        return label[1]
    before = sentence[:end]
    after_thing = re.findall(rf"\b{THING}\s{{0,2}}[:=]?\s{{0,2}}{ANY}", before, re.IGNORECASE)
    quoted = re.findall(QUOTED, before)
    words = re.findall(NAME, before)
    if not words:
        quoted = re.findall(rf"\b(?:for|of|in) (?:{THING} )?{QUOTED}", sentence, re.IGNORECASE)
    while words and words[-1].lower() in AUXILIARY:
        words.pop()
    for names in (quoted, after_thing, _before_thing(words), words[-1:]):
        usable = [name for name in names if _usable(name)]
        if usable:
            return usable[-1]
    return ""


def _before_thing(words: list[str]) -> list[str]:
    """``The limit parameter`` → ``limit``."""
    things = ("field", "parameter", "param", "argument", "property", "attribute", "value", "input")
    return words[-2:-1] if len(words) >= 2 and words[-1].lower() in things else []


def _usable(name: str) -> bool:
    plausible = any(character.isalpha() for character in name) and not name.startswith("java.")
    return plausible and name.lower().rstrip(".") not in STOP


def _is_quoted(sentence: str, start: int) -> bool:
    return sentence[max(0, start - 1) : start] in tuple("\"'`‘“:[") or sentence[max(0, start - 2) : start] == ": "


def _code_like(name: str) -> bool:
    """Whether a bare word is a name in a program rather than a word of English."""
    return "_" in name or any(a.islower() and b.isupper() for a, b in pairwise(name))
