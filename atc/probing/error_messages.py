"""Error messages of services: the body of a refusal → what is wrong with which argument.

Many frameworks put details into JSON, each in its own way: FastAPI and pydantic, Django REST framework, Express with
Joi, zod, AJV or express-validator, Spring, Rails, Laravel, Google, JSON:API, RFC 9457. They are read by what they share
(a name, a message, a code) rather than by who wrote them. A bare text is cut into short sentences, and each is matched
with fixed patterns whose repetitions are bounded (``limit must be between 1 and 50``); what they do not know is left
alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
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
from atc.schemas.infer.text import listed

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


__all__ = ["ErrorDetail", "read_error_message"]

MAX_BODY, MAX_DEPTH, MAX_NODES, MAX_DETAILS = 100_000, 8, 500, 50
"""Characters of a body, levels and values of it that are read, and details that are returned."""

_PLACES = {
    "query": "query", "querystring": "query", "params": "", "path": "path", "body": "body", "form": "body",
    "header": "header", "headers": "header", "cookie": "cookie", "cookies": "cookie", "request": "", "data": "",
    "attributes": "", "args": "", "json": "body", "payload": "body", "input": "", "parameters": "path",
}  # fmt: skip
_NAME_KEYS = tuple(
    """
    loc instancePath dataPath param parameter field path property propertyName pointer argument name key attribute
    element
    """.split()
)
_MESSAGE_KEYS = ("msg", "message", "reason", "defaultMessage", "description", "detail", "error", "title")
_CODE_KEYS = ("type", "code", "keyword", "rule", "errorCode", "validator", "kind", "constraint")
_WRAPPERS = listed(
    "detail details error errors message messages msg msgs violations issues fielderrors field_errors non_field_errors "
    "errormessage error_message errormessages invalid-params invalid_params formerrors violation causes cause "
    "fieldviolations validation validationerrors validation_errors badrequest body query response faults fault"
)
"""Keys that hold details, and are no parameters."""
_PROSE = listed("title reason name exception description error_description info hint result data status_message")
"""Keys whose text may be a detail, and that are parameters only if they hold a list of details."""
_NO_PROSE = listed(
    "type code status statuscode instance timestamp path trace stack request_id requestid url docs documentation_url "
    "@type input rejectedvalue value help success ok cod loc location"
)
"""Keys whose text is not read."""
_CODES: dict[Kind, re.Pattern[str]] = {
    "missing": re.compile(
        r"missing|required|notnull|notblank|notempty|blank|^null$|^presence|any\.required|is_?empty", re.IGNORECASE
    ),
    "unknown": re.compile(
        r"extra|unrecognized|additionalprop|unknown|unexpected_?(?:arg|param|prop)|object\.unknown", re.IGNORECASE
    ),
    "enum": re.compile(
        r"enum|literal|any\.only|^invalid_(?:value|union_discriminator)|inclusion|choice|one_?of|^in$", re.IGNORECASE
    ),
    "range": re.compile(
        r"greater|less_?than|too_?(?:short|long|small|big|low|high)|minimum|maximum|\.(?:min|max)$|"
        r"^(?:min|max|size|range|between)$|min_?length|max_?length|_(?:min|max)_value|out_?of_?range",
        re.IGNORECASE,
    ),
    "format": re.compile(r"pattern|format|date|time|uuid|uri|url|email|regex", re.IGNORECASE),
    "type": re.compile(
        r"type|_parsing|(?:number|string|integer|boolean|array|object)\.base|not_a_number|integer|numeric",
        re.IGNORECASE,
    ),
}
_CODE_TYPES = (
    ("int", "integer"),
    ("float", "number"),
    ("decimal", "number"),
    ("number", "number"),
    ("bool", "boolean"),
    ("list", "array"),
    ("array", "array"),
    ("dict", "object"),
    ("string", "string"),
    ("str", "string"),
)
_CODE_FORMATS = (
    ("date_from_datetime", "date"),
    ("datetime", "date-time"),
    ("date_time", "date-time"),
    ("date", "date"),
    ("time", "time"),
    ("uuid", "uuid"),
    ("url", "uri"),
    ("uri", "uri"),
    ("email", "email"),
)
_BOUND_KEYS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "min_length": "minLength",
    "max_length": "maxLength",
    "minimum": "minimum",
    "maximum": "maximum",
}


def read_error_message(body: Any) -> list[ErrorDetail]:
    """The demands on the arguments in a refusal, in the order of its text.

    Args:
        body: the answer's body or an error's message: a JSON value, or text that is, holds or is not JSON.

    Returns:
        The details that are understood, at most fifty, none twice; an empty list for a refusal of another kind.
    """
    found: list[ErrorDetail] = []
    budget = [MAX_NODES]
    for detail in _walk(_parsed(body), "", "", 0, budget):
        if detail not in found and not any(_is_more_specific(other, detail) for other in found):
            found = [other for other in found if not _is_more_specific(detail, other)]
            found.append(detail)
        if len(found) >= MAX_DETAILS:
            break
    return found


def _is_more_specific(one: ErrorDetail, other: ErrorDetail) -> bool:
    """Whether ``other`` states the same as ``one`` with less detail."""
    if one == other or one.problem != other.problem:
        return False
    same_name = one.parameter == other.parameter or not other.parameter or one.parameter.endswith("." + other.parameter)
    return same_name and (not other.expected or one.expected == other.expected) and other.where in ("", one.where)


def _parsed(body: Any) -> Any:
    """JSON that a text is or holds (``HTTP 422: {…}``), else the text."""
    if isinstance(body, bytes):
        body = body[:MAX_BODY].decode("utf-8", "replace")
    if not isinstance(body, str):
        return body
    text = body[:MAX_BODY]
    for match in list(re.finditer(r"[{\[]", text))[:5]:
        try:
            value, end = json.JSONDecoder().raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        if (isinstance(value, dict) and value) or (
            isinstance(value, list) and any(isinstance(item, dict) for item in value)
        ):
            return [value, text[: match.start()], text[end:]]
    return text


def _walk(value: Any, name: str, where: str, depth: int, budget: list[int]) -> Iterator[ErrorDetail]:
    budget[0] -= 1
    if budget[0] < 0 or depth > MAX_DEPTH:
        return
    if isinstance(value, str):
        inner = _parsed(value) if value.lstrip()[:1] in ("{", "[") else value
        if isinstance(inner, str):
            yield from read_text(inner, name, where)
        else:
            yield from _walk(inner, name, where, depth + 1, budget)
    elif isinstance(value, list | tuple):
        for item in value[:MAX_NODES]:
            yield from _walk(item, name, where, depth + 1, budget)
    elif isinstance(value, Mapping):
        yield from _item(value, where) if (names := _names_of(value)) else ()
        for key, inner in list(value.items())[:MAX_NODES] if not names else ():
            if isinstance(key, str) and not (key.lower() in _NO_PROSE and isinstance(inner, str)):
                yield from _walk(inner, *_inner_name(key, inner, name, where), depth + 1, budget)


def _inner_name(key: str, inner: Any, name: str, where: str) -> tuple[str, str]:
    """The name under which the inside of ``{"limit": ["must be…"]}`` is read; that of a wrapper is none."""
    lowered = key.lower()
    if lowered in _WRAPPERS or key.startswith(("_", "$")) or (lowered in _PROSE and not _are_texts(inner)):
        return name, where
    if key.lower() in _PLACES and not isinstance(inner, str):
        return name, _PLACES[key.lower()] or where
    return (f"{name}.{key}" if name else key)[:120], where


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _names_of(item: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The parameters that one detail in JSON names, each with its place; none when this is no detail."""
    if not any(isinstance(item.get(key), str) for key in (*_MESSAGE_KEYS, *_CODE_KEYS)):
        return []
    inner, source = _mapping(item.get("params")), _mapping(item.get("source"))
    location = item.get("location") or item.get("in")
    where = _PLACES.get(location.lower(), "") if isinstance(location, str) else ""
    extra = inner.get("missingProperty") or inner.get("additionalProperty") or inner.get("unevaluatedProperty")
    for holder in (source, item):
        for key in _NAME_KEYS:
            if holder.get(key) is None or (key == "name" and holder.get(key) == item.get("message")):
                continue
            if key in ("name", "key") and not any(isinstance(item.get(k), str) for k in ("reason", "message", "msg")):
                continue
            if key == "path" and isinstance(holder[key], str) and "status" in item:
                continue  # the address of the request, as Spring and others repeat it
            path, place = _path(holder[key])
            if path and not (key in ("name", "path") and path.lower().endswith("error")):
                return [(f"{path}.{extra}" if isinstance(extra, str) else path, place or where)]
            if isinstance(extra, str):
                return [(extra, place or where)]
            if isinstance(keys := item.get("keys"), list):  # zod: unrecognized keys of the object as a whole
                return [(str(each)[:60], place or where) for each in keys[:12]]
    return []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _path(value: Any) -> tuple[str, str]:
    """``["query", "limit"]``, ``/query/limit``, ``body.limit`` or ``limit`` → (``limit``, ``query``)."""
    steps = value if isinstance(value, list) else re.split(r"[/.]|\[|\]", value) if isinstance(value, str) else []
    parts = [
        str(step)[:60] for step in steps if isinstance(step, str | int) and str(step) not in ("", "$", "#", "root")
    ]
    where = ""
    while len(parts) > 1 and parts[0].lower() in _PLACES:
        where = where or _PLACES[parts[0].lower()]
        parts = parts[1:]
    if parts and len(steps) > 1 and len(parts) == 1 and parts[0].lower() in ("body", "query", "__root__"):
        return "", _PLACES.get(parts[0].lower(), "")
    names = [part for part in parts if not part.isdigit()][:6]
    good = all(re.fullmatch(r"[\w$@ :-]{1,60}", part) for part in names)
    return (".".join(names), where) if good else ("", where)


def _item(item: Mapping[str, Any], where: str) -> Iterator[ErrorDetail]:
    code = " ".join(str(item[key])[:80] for key in _CODE_KEYS if isinstance(item.get(key), str))
    message = next((item[key] for key in _MESSAGE_KEYS if isinstance(item.get(key), str)), "")
    for name, place in _names_of(item):
        place = place or where
        from_text = read_text(message, name, place)
        kind = _kind(item, code)
        expected = _expected(item, kind, code) if kind else {}
        same = [detail for detail in from_text if detail.problem == kind]
        if kind is None or (same and not expected) or (kind in ("type", "format") and from_text and not same):
            yield from from_text  # the words say it, or say it better than the code
        else:
            yield ErrorDetail(name, kind, expected or (same[0].expected if same else {}), place)
            yield from (detail for detail in from_text if detail.problem not in (kind, "missing", "unknown"))


def _kind(item: Mapping[str, Any], code: str) -> Kind | None:
    if item.get("received") == "undefined" or "received undefined" in str(item.get("message", ""))[:200]:
        return "missing"  # zod
    for kind, pattern in _CODES.items():
        if any(pattern.search(part) for part in code.split()):
            return kind
    return None


def _expected(item: Mapping[str, Any], kind: Kind | None, code: str) -> dict[str, Any]:
    """The demands that a detail holds in fields of its own: ``ctx``, ``params``, ``context``, ``options``."""
    inner: dict[str, Any] = {}
    for key in ("ctx", "params", "context"):
        if isinstance(item.get(key), Mapping):
            inner.update(item[key])
    if kind == "enum":
        values = next((v for k in ("allowedValues", "valids", "enum_values", "permitted") if (v := inner.get(k))), None)
        values = values or item.get("options") or item.get("values")
        if isinstance(values, list):
            scalars = [v for v in values if isinstance(v, str | int | float | bool)]
            return {"enum": scalars} if 1 <= len(scalars) == len(values) <= MAX_MEMBERS else {}
        members = read_members(inner["expected"]) if isinstance(inner.get("expected"), str) else []
        return {"enum": members} if members else {}
    if kind == "type":
        stated = inner.get("type") or item.get("expected")
        named = stated if isinstance(stated, str) else code
        return {"type": found} if (found := _first(_CODE_TYPES, named)) else {}
    if kind == "format":
        stated = inner.get("format")
        return (
            {"format": found} if (found := _first(_CODE_FORMATS, stated if isinstance(stated, str) else code)) else {}
        )
    return _bounds(item, inner) if kind == "range" else {}


def _bounds(item: Mapping[str, Any], inner: Mapping[str, Any]) -> dict[str, Any]:
    made = {}
    for key, keyword in _BOUND_KEYS.items():
        value = inner.get(key, item.get(key))
        if type(value) in (int, float):
            whole = keyword.endswith("Length")
            made[keyword] = max(0, int(value)) if whole else value
    limit, keyword = inner.get("limit", inner.get("limit_value")), str(item.get("keyword", ""))
    if type(limit) in (int, float) and keyword in (
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
    ):
        made[keyword] = limit
    return made


def _first(table: tuple[tuple[str, str], ...], text: str) -> str:
    return next((found for word, found in table if word in text.lower()), "")
