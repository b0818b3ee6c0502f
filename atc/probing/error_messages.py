r"""Error messages of services: the body of a refusal → what is wrong with which argument.

Many frameworks put details into JSON, each in its own way: FastAPI and pydantic, Django REST framework, marshmallow,
Express with Joi, zod, AJV or express-validator, Spring, Rails, Laravel, Google, JSON:API, RFC 9457. They are read by
what they share (a name, a message, a code, and limits in fields of their own) rather than by who wrote them. Texts are
cut into sentences, and each is matched with a few patterns (``limit must be between 1 and 50``); a sentence that none
knows is left alone. All repetitions are bounded: reading is linear in the body, of which only a first part is read.

``python -m benchmarks.probing.error_messages`` says what is found in the messages of 25 frameworks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from atc.schemas.infer.text import listed

Kind = Literal["missing", "unknown", "type", "enum", "format", "range"]
MAX_BODY, MAX_DEPTH, MAX_NODES, MAX_DETAILS = 100_000, 8, 500, 50
"""Characters of a body, levels and values of it that are read, and details that are returned."""
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


def read_error_message(body: Any) -> list[ErrorDetail]:
    """The demands on the arguments in a refusal, in the order of its text.

    Args:
        body: the answer's body or an error's message: a JSON value, or text that is, holds or is not JSON.

    Returns:
        The details that are understood, at most fifty, none twice; an empty list for a refusal of another kind.
    """
    found: list[ErrorDetail] = []
    for detail in _walk(_parsed(body), "", "", 0, [MAX_NODES]):
        if detail not in found and not any(_is_more_specific(other, detail) for other in found):
            found = [other for other in found if not _is_more_specific(detail, other)]
            found.append(detail)
        if len(found) >= MAX_DETAILS:
            break
    return found


def _is_more_specific(one: ErrorDetail, other: ErrorDetail) -> bool:
    if one == other or one.problem != other.problem:
        return False
    same_name = one.parameter == other.parameter or not other.parameter or one.parameter.endswith("." + other.parameter)
    return same_name and (not other.expected or one.expected == other.expected) and other.where in ("", one.where)


# -- details in JSON -------------------------------------------------------------------------------------------------

_PLACES = {
    "query": "query", "querystring": "query", "params": "", "path": "path", "body": "body", "form": "body",
    "header": "header", "headers": "header", "cookie": "cookie", "cookies": "cookie", "request": "", "data": "",
    "attributes": "", "args": "", "json": "body", "payload": "body", "input": "", "parameters": "path",
}  # fmt: skip
_NAME_KEYS = tuple(
    "loc instancePath instance_path dataPath param parameter field path property propertyName pointer argument name "
    "key attribute element".split()
)
_MESSAGE_KEYS = ("msg", "message", "reason", "defaultMessage", "description", "detail", "error", "title")
_CODE_KEYS = ("type", "code", "keyword", "rule", "errorCode", "validator", "kind", "constraint")
_WRAPPERS = listed(
    "detail details error errors message messages msg msgs violations issues fielderrors field_errors non_field_errors "
    "errormessage error_message errormessages invalid-params invalid_params formerrors violation causes cause extra "
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


def _parsed(body: Any) -> Any:
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
            yield from _read_text(inner, name, where)
        else:
            yield from _walk(inner, name, where, depth + 1, budget)
    elif isinstance(value, list | tuple):
        for item in value[:MAX_NODES]:
            yield from _walk(item, name, where, depth + 1, budget)
    elif isinstance(value, Mapping):
        names = _names_of(value) or ([(name, where)] if name and _message(value) and _code(value) else [])
        yield from _item(value, names, where)
        for key, inner in list(value.items())[:MAX_NODES] if not names else ():
            if isinstance(key, str) and not (key.lower() in _NO_PROSE and isinstance(inner, str)):
                yield from _walk(inner, *_inner_name(key, inner, name, where), depth + 1, budget)


def _inner_name(key: str, inner: Any, name: str, where: str) -> tuple[str, str]:
    """The name under which the inside of ``{"limit": ["must be…"]}`` is read; that of a wrapper is none."""
    lowered = key.lower()
    texts = isinstance(inner, list) and all(isinstance(item, str) for item in inner)
    if lowered in _WRAPPERS or key.startswith(("_", "$")) or (lowered in _PROSE and not texts):
        return name, where
    if lowered in _PLACES and not isinstance(inner, str):
        return name, _PLACES[lowered] or where
    return (f"{name}.{key}" if name else key)[:120], where


def _message(item: Mapping[str, Any]) -> str:
    return next((item[key] for key in _MESSAGE_KEYS if isinstance(item.get(key), str)), "")


def _code(item: Mapping[str, Any]) -> str:
    return " ".join(str(item[key])[:80] for key in _CODE_KEYS if isinstance(item.get(key), str))


def _names_of(item: Mapping[str, Any]) -> list[tuple[str, str]]:
    if not _message(item) and not _code(item):
        return []
    inner, source = (value if isinstance(value := item.get(key), Mapping) else {} for key in ("params", "source"))
    location = next((v for k in ("location", "in", "source") if isinstance(v := item.get(k), str)), "")
    where = _PLACES.get(location.lower(), "")
    extra = inner.get("missingProperty") or inner.get("additionalProperty") or inner.get("unevaluatedProperty")
    said = any(isinstance(item.get(key), str) for key in ("reason", "message", "msg", "description"))
    for holder in (source, item):
        for key in _NAME_KEYS:
            if holder.get(key) is None or (key in ("name", "key") and not said) or holder[key] == item.get("message"):
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
    if len(steps) > 1 and len(parts) == 1 and parts[0].lower() in ("body", "query", "__root__"):
        return "", _PLACES.get(parts[0].lower(), "")
    names = [part for part in parts if not part.isdigit()][:6]
    good = all(re.fullmatch(r"[\w$@ :-]{1,60}", part) for part in names)
    return (".".join(names), where) if good else ("", where)


def _item(item: Mapping[str, Any], names: list[tuple[str, str]], where: str) -> Iterator[ErrorDetail]:
    for name, place in names:
        told = list(_read_text(_message(item), name, place or where))
        kind = _kind(item)
        same = next((detail for detail in told if detail.problem == kind), None)
        expected = _stated(item, kind) if kind and not (kind == "format" and same) else {}
        if kind is None or (same and not expected) or (kind in ("type", "format") and told and not same):
            yield from told  # the words say it, or say it better than the code
        else:
            yield ErrorDetail(name, kind, expected or (same.expected if same else {}), place or where)
            yield from (detail for detail in told if detail.problem not in (kind, "missing", "unknown"))


_CODES: dict[Kind, str] = {
    "missing": r"missing|required|not_?(?:null|blank|empty)|blank|^null$|^presence|is_?empty",
    "unknown": r"extra|unrecognized|additionalprop|unknown|unexpected_?(?:arg|param|prop)",
    "enum": r"enum|literal|any\.only|^invalid_(?:value|union_disc)|inclusion|choice|one_?of|^in$",
    "range": r"greater|less_?than|too_?(?:short|long|small|big|low|high)|minimum|maximum|out_?of_?range|"
    r"(?:^|[._])(?:min|max)(?:$|_?length|_value)|^(?:size|range|between)$",
    "format": r"pattern|format|date|time|uuid|uri|url|email|regex",
    "type": r"type|_parsing|\.base|not_a_number|integer|numeric",
}
_LIMITS = {
    "ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum", "min_length": "minLength",
    "max_length": "maxLength", "minimum": "minimum", "maximum": "maximum",
}  # fmt: skip


def _kind(item: Mapping[str, Any]) -> Kind | None:
    if item.get("received") == "undefined" or "received undefined" in str(item.get("message", ""))[:200]:
        return "missing"  # zod
    parts = _code(item).lower().split()
    return next((kind for kind, code in _CODES.items() if any(re.search(code, part) for part in parts)), None)


def _stated(item: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    inner = dict(item)
    for key in ("ctx", "params", "context"):
        inner |= item[key] if isinstance(item.get(key), Mapping) else {}
    if kind == "enum":
        keys = ("allowedValues", "valids", "enum_values", "permitted", "options", "values")
        values = next((value for key in keys if (value := inner.get(key))), None)
        if not isinstance(values, list):
            values = _members(expected) if isinstance(expected := inner.get("expected"), str) else []
        return {"enum": values} if 1 <= len(values) <= MAX_MEMBERS and all(map(_is_scalar, values)) else {}
    if kind in ("type", "format"):
        own = next(
            (v for key in (kind, "expected") if isinstance(v := inner.get(key), str) and v != item.get(kind)), ""
        )
        table = _TYPES if kind == "type" else _FORMATS
        named = _first(table, own.lower()) or _first(table, _code(item).lower().replace("_", " "))
        return {kind: named} if named else {}
    limits = {_LIMITS[key]: value for key, value in inner.items() if key in _LIMITS and _is_number(value)}
    keyword, limit = str(item.get("keyword", "")), inner.get("limit", inner.get("limit_value"))
    if _is_number(limit) and keyword in ("minimum", "maximum", *_OF_LENGTH.values(), *_OF_ITEMS.values()):
        limits[keyword] = limit
    if inner.get("origin") in ("string", "array"):  # zod
        limits = {(_OF_LENGTH if inner["origin"] == "string" else _OF_ITEMS).get(k, k): v for k, v in limits.items()}
    return (
        {k: max(0, int(v)) if k.endswith(("Length", "Items")) else v for k, v in limits.items()}
        if kind == "range"
        else {}
    )


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 10**15  # neither is what JSON calls NaN and Infinity


def _first(table: Mapping[str, str], text: str) -> str:
    return next((name for name, words in table.items() if re.search(rf"(?<![a-z])(?:{words})(?![a-z])", text)), "")


# -- sentences -------------------------------------------------------------------------------------------------------

_NAME = r"[A-Za-z_$][\w$.\-]{0,60}(?:\[[\w*]{0,20}\]){0,2}"
_QUOTED = rf"[\"'`‘“]({_NAME})[\"'`’”]"
_ANY = rf"[\"'`‘’“”*<\[(]{{0,2}}({_NAME})[\"'`‘’“”*>\])]{{0,2}}"
_CODE_LIKE = r"[a-z]{1,30}(?:_|[A-Z])\w{0,30}"
"""A name of a program, rather than a word of English."""
_THING = r"(?:parameters?|params?|arguments?|args?|fields?|propert(?:y|ies)|attributes?|keys?|inputs?|query strings?)"
_SORT = r"(?:(?:request|query|path|body|form|url|uri|input|get|post|json|named|keyword|positional|string)[\s-]){0,2}"
_LIST = rf"{_ANY}(?:(?:\s{{0,2}}[,&]\s{{0,2}}(?:and\s|or\s)?|\s(?:and|or)\s){_ANY}){{0,12}}"
_NUMBER = r"(-?\d{1,15}(?:\.\d{1,10})?)"
_STOP = listed(
    "a an the this that it its is its are was be which what who field fields parameter parameters param argument "
    "arguments value values property properties key input request query body header path data object string "
    "number authentication authorization login subscription payment access permission token credentials you your "
    "we please error bad invalid missing required mandatory must should and or not for in of to with one at least "
    "following some any all no none validation failed exactly only there but if when json http https also either "
    "both expected message detail"
)
_THINGS = listed("field parameter param argument property attribute value input")
_AUXILIARY = listed("must should is are was be has have needs need to can may cannot not only an a the value")


def _compiled(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives), re.IGNORECASE)


_LABEL_FIRST = re.compile(
    rf"\s{{0,3}}(?:\$?\.?{_ANY}\s{{0,2}}[:=]\s|((?:request|querystring|query|body|params|headers|path)/[\w/.]{{1,80}})\s)"
)
_LABEL_LAST = re.compile(rf"\s(?:@|- at|at|-)\s(?:data)?[\[`'\"$.]{{1,4}}({_NAME})[\]`'\"]{{1,3}}$")
_WHERE = re.compile(r"\b(query|path|body|header|cookie)\b", re.IGNORECASE)
_MISSING_NAMES = _compiled(
    rf"(?:missing|required|mandatory|must have|must include|must provide|must specify|requires?|absent)\s"
    rf"(?:the\s|a\s|an\s|\d{{1,2}}\s)?(?:missing\s|required\s|mandatory\s|following\s|non-optional\s)?"
    rf"{_SORT}{_THING}(?:\(s\))?(?:\s(?:is|are|was|were))?(?:\s(?:missing|named|called))?"
    rf"\s{{0,2}}[:=-]?\s{{0,2}}(?P<names>{_LIST})"
)
_MISSING = _compiled(
    r"(?:is|are|was|were)?\s?(?:a\s|an\s)?(?:(?:field|property|parameter|argument|value)\s)?"
    r"(?:required(?! type| format| pattern)|mandatory|missing|undefined|"
    r"not (?:present|provided|given|specified|supplied|set))",
    r"(?:can ?not|can't|must not|may not|should not|shouldn't) be (?:blank|empty|null|none|undefined|missing|omitted)",
    r"(?:must|should|needs? to|has to) be (?:provided|given|specified|supplied|set|present|included|filled)",
    r"none is not an allowed value",
)
_MISSING_LEAD = _compiled(
    rf"(?:missing|param is missing or the value is empty|(?:please|must|you must|need to|have to)\s"
    rf"(?:provide|specify|supply|enter|include|pass|set)|no)"
    rf"(?::\s({_NAME})|\s(?:a\s|an\s|the\s|your\s)?(?:valid\s)?(?:{_QUOTED}|(?-i:({_CODE_LIKE}))))"
)
_VALID_IS_REQUIRED = _compiled(r"\ba valid [a-z -]{1,30} is required")
_UNKNOWN_NAMES = _compiled(
    rf"(?:unknown|unexpected|unrecogni[sz]ed|unsupported|extra(?:neous)?|undocumented|forbidden|unspecified)\s"
    rf"{_SORT}{_THING}(?:\(s\))?\s{{0,2}}(?:in object|found|named)?\s{{0,2}}[:=-]?\s{{0,2}}(?P<names>{_LIST})",
    rf"additional propert(?:y|ies) (?:are|is) not allowed \(?\s{{0,2}}(?P<names2>{_LIST})",
    rf"(?:property|parameter|field|argument) (?P<names3>{_ANY}) "
    r"(?:should not exist|is not (?:allowed|expected|recognized|known))",
)
_UNKNOWN = _compiled(
    r"(?:is|was|were|are) (?:not (?:allowed|permitted|expected|recogni[sz]ed|known)|unexpected|unknown|"
    r"not a (?:valid|known|recognized|supported) (?:parameter|field|argument|property))(?! (?:to|by|for|in|value))",
    r"extra (?:inputs|fields|keys) (?:are )?not (?:permitted|allowed)",
    rf"^(?:unknown|unexpected|unrecognized) {_THING}\.?$",
)
_MEMBERS = _compiled(
    r"(?:(?:one|any) of(?! (?:these|the following) formats?)"
    r"(?: the)?(?: following| allowed| valid| supported| permitted| enumerated)?"
    r"(?: values?| options?| choices?| members?)?"
    r"|(?<![a-z])(?:allowed|valid|accepted|permitted|possible|supported|available|acceptable|expected)(?: enum)? "
    r"(?:values?|options?|choices?|members?|types?|inputs?)"
    r"(?: for [\"'`]?(?P<for>[\w.-]{1,60})[\"'`]?)?(?: are| is| include)?"
    r"|allowed:|options are|choose (?:one of|from)|(?:must|should) be (?:either|(?='))|expected (?=\(\"))"
    r"\s{0,2}[:=-]?\s{0,2}(?P<members>[^\n]{1,500})"
)
_WRONG = _compiled(
    r"(?P<selected>selected )?[\w.'\"-]{0,60}\s?"
    r"(?:is invalid|is not valid|(?P<enum>unallowed value|invalid enum value|is not included in)|invalid value|"
    r"not a valid (?P<choice>choice|option|value)?)"
)
_TYPES = {
    "integer": "integer|int(?:32|64)?|long|whole(?: number)?|positive integer",
    "number": "number|numeric(?:al)?|float|double|(?:big)?decimal|finite number",
    "boolean": "bool(?:ean)?",
    "array": "array|list",
    "object": "object|dict(?:ionary)?",
    "string": "string|str|text",
}
_FORMATS = {
    "date-time": "date[- ]?time|timestamp",
    "date": "date",
    "time": "time",
    "email": "e-?mail(?: address)?",
    "uuid": "uuid|guid",
    "uri": "url|uri",
    "ipv6": "ipv6",
    "ipv4": "ipv4|ip address",
}
_TYPE = _compiled(
    r"(?:must be|should be|has to be|needs to be|is not|isn't|not|expected|expects|expecting|to required type|"
    r"input should be|must contain|to type|convert(?:ed)? to|parse|enter)"
    r"(?: of)?(?: types?)?(?: a| an)?(?: valid)?(?: a| an)?(?: of)?(?: types?)?[\s:]{1,2}"
    rf"['\"`\[]{{0,2}}(?:java\.\w{{1,10}}\.)?(?P<type>{'|'.join(_TYPES.values())})\b",
    rf"\ba valid (?P<type2>{'|'.join(_TYPES.values())}) is required",
    r"invalid literal for (?P<type3>int)\(\)",
    rf"\b(?:invalid|malformed) (?P<type4>{'|'.join(_TYPES.values())})\b",
)
_FORMAT = _compiled(
    r"(?:must be|should be|is not|isn't|not|enter|expected|invalid|malformed|valid|wrong|must match format|"
    r"to match format|does not match format)(?: an?)?(?: valid)?(?: rfc ?3339 encoded| iso(?:[ -]?8601)?)?(?: an?)?"
    rf"[\s:]{{1,2}}[\"'`]?(?P<format>{'|'.join(_FORMATS.values())})\b",
    r"\b(?P<format2>date(?:time)?) has (?:the )?wrong format",
    r"iso[ -]?8601 (?P<format3>date)\b",
    r"does not match|must match|should match|to match|matching|wrong format|invalid format|bad format|expected format|"
    r"in the format|iso[ -]?8601|format:? ?yyyy|not match the pattern",
)
_VALUE_FIRST = _compiled(
    r"is not of types? |is (?:greater|less) than the (?:minimum|maximum)|does not match|^\s?['\"][^'\"]{0,60}['\"] is "
    r"(?:not an? ['\"]|not (?:one|any) of|shorter|longer|too )"
)
_DATE_LAYOUT = re.compile(r"(?<!\w)(?:%Y-%m-%d|YYYY-MM-DD)(?P<time>[T ](?:HH|%H|hh))?")
_BETWEEN = _compiled(
    rf"(?:between|in(?: the)? range(?: of)?|range is|from)\s[\[(]?{_NUMBER}\s?(?:and|to|-|–|,|\.\.\.?)\s?{_NUMBER}"
)
_SIZE = r"(?: (?:value|length|size|number))?(?: allowed)?(?: (?:is|of))?:?"
_BOUND = _compiled(
    r"(?:(?P<no>\bnot? (?:be |have )?)?(?P<state>\bis |\bhas )?"
    r"(?:(?P<up>greater|larger|higher|more|bigger|longer)|less|smaller|lower|fewer|shorter)"
    rf"(?: than)?(?: or equal to|(?<= than))(?P<limit> (?:the )?(?:minimum|maximum){_SIZE})?"
    rf"|(?P<least>>=|≥|at least|\bmin(?:imum)?\.?{_SIZE})"
    rf"|(?P<most><=|≤|at most|up to|exceeds?|\bmax(?:imum)?\.?{_SIZE})"
    rf"|(?P<over>>)|(?P<under><))\s?{_NUMBER}"
)
_LENGTH = _compiled(r"\b(?:characters?|chars?|length|long|letters|shorter|longer)\b")
_ITEMS = _compiled(r"\b(?:items?|elements?|entries)\b")
_OF_LENGTH = {"minimum": "minLength", "maximum": "maxLength"}
_OF_ITEMS = {"minimum": "minItems", "maximum": "maxItems"}


def _read_text(text: str, name: str, where: str) -> Iterator[ErrorDetail]:
    text = text[:MAX_TEXT]
    if "</" in text:
        text = re.sub(r"<[^<>]{1,300}>", "\n", text)  # a page instead of a message
    text = re.sub(
        r"\n([\w.]{1,80})\n {2}([^\n\[]{1,300})(?:\[type=[^\n]{0,500})?(?:\n {4}For further[^\n]{0,200})?",
        r"\n\1: \2",
        text,
    )
    parts = re.split(r"[\r\n]+|;\s|(?<=[\w\])'\"])\.\s+(?=[A-Z\"'])|,\s(?=(?:querystring|body|params|headers)/)", text)
    for part in parts[:MAX_SENTENCES]:
        sentence = re.sub(r"^\w{0,40}(?:Error|Exception): ", "", part.strip()[:MAX_SENTENCE])
        yield from _read(sentence, name, where)


def _read(sentence: str, name: str, where: str) -> list[ErrorDetail]:
    place = where or (match[1].lower() if (match := _WHERE.search(sentence)) else "")
    if not name and (label := _LABEL_LAST.search(sentence)):
        name, sentence = label[1], sentence[: label.start()]
    elif not name and (label := _LABEL_FIRST.match(sentence)):
        named = label[1] or _path(label[2])[0]
        if _usable(named):
            name, sentence = named, sentence[label.end() :]
    if missing := _missing(sentence, name):
        return [ErrorDetail(each, "missing", {}, place) for each in missing]
    if unknown := _unknown(sentence, name):
        return [ErrorDetail(each, "unknown", {}, place) for each in unknown]
    if match := _MEMBERS.search(sentence):
        value_first = not name and _VALUE_FIRST.search(sentence)
        subject = name or match["for"] or ("" if value_first else _subject(sentence, match.start()))
        members = _members(match["members"])
        if members or value_first or (subject and " of" in f" {match[0]}"[: -len(match["members"])]):
            return [ErrorDetail(subject, "enum", {"enum": members} if members else {}, place)]
    limits = _limits(sentence, name, place)
    if not limits and name and (match := _WRONG.search(sentence)):
        return [
            ErrorDetail(name, "enum" if match["choice"] or match["selected"] or match["enum"] else "format", {}, place)
        ]
    return limits


def _missing(sentence: str, name: str) -> list[str]:
    if _VALID_IS_REQUIRED.search(sentence):
        return []  # "a valid integer is required"
    tails = list(_MISSING.finditer(sentence))
    if name and tails:
        return [name]
    if (match := _MISSING_NAMES.search(sentence)) and (names := _names(match["names"])):
        return [name] if name else names
    if subject := next(filter(None, (_subject(sentence, tail.start()) for tail in tails)), ""):
        return [subject]
    match = _MISSING_LEAD.search(sentence)
    return _names(match[1] or match[2] or match[3]) if match else []


def _unknown(sentence: str, name: str) -> list[str]:
    if (match := _UNKNOWN_NAMES.search(sentence)) and (
        names := _names(match["names"] or match["names2"] or match["names3"])
    ):
        return names
    match = _UNKNOWN.search(sentence)
    subject = name or (_subject(sentence, match.start()) if match else "")
    return [subject] if match and subject else []


def _limits(sentence: str, name: str, where: str) -> list[ErrorDetail]:
    found: list[tuple[int, Kind, dict[str, Any]]] = []
    if match := _TYPE.search(sentence):
        named = next(filter(None, match.groupdict().values())).lower()
        found.append((match.start(), "type", {"type": _first(_TYPES, named)}))
    if match := _FORMAT.search(sentence):
        layout, word = _DATE_LAYOUT.search(sentence), next(filter(None, match.groupdict().values()), "").lower()
        named = ("" if layout["time"] else "date") if layout else _first(_FORMATS, word)
        found.append((match.start(), "format", {"format": named} if named else {}))
    at, expected = _range(sentence)
    if expected:
        found.append((at, "range", expected))
    if found and not name and not _VALUE_FIRST.search(sentence):  # the word before may be the value
        name = _subject(sentence, min(at for at, _, _ in found))
    return [ErrorDetail(name, problem, expected, where) for _, problem, expected in found]


def _range(sentence: str) -> tuple[int, dict[str, Any]]:
    made: dict[str, Any] = {}
    if first := _BETWEEN.search(sentence):
        made = {"minimum": _number(first[1]), "maximum": _number(first[2])}
    else:
        for match in _BOUND.finditer(sentence):
            first = first or match
            made.setdefault(_keyword(match), _number(match[match.lastindex or 1]))
    if first is None or made.get("minimum", 0) > made.get("maximum", made.get("minimum", 0)):
        return 0, {}
    for pattern, names in ((_LENGTH, _OF_LENGTH), (_ITEMS, _OF_ITEMS)):
        if pattern.search(sentence):
            made = {names[k]: v for k, v in made.items() if k in names and isinstance(v, int) and v >= 0}
    return first.start(), made


def _keyword(match: re.Match[str]) -> str:
    """The keyword of a bound. ``is shorter than 3`` says what is wrong, ``must be less than 3`` what would be right."""
    if match["least"] or match["most"]:
        return "minimum" if match["least"] else "maximum"
    if match["over"] or match["under"]:
        return "exclusiveMinimum" if match["over"] else "exclusiveMaximum"
    complains = match["limit"] or match["state"] == "has " or (match["state"] and re.search("short|long", match[0]))
    wrong = bool(match["no"]) != bool(complains)
    side = "Minimum" if bool(match["up"]) != wrong else "Maximum"
    return side.lower() if wrong or "equal" in match[0].lower() else f"exclusive{side}"


def _number(text: str) -> float | int:
    return float(text) if "." in text else int(text)


def _members(text: str) -> list[str]:
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
    parts = (
        part.strip().strip("\"'`‘’“”[]()<>").strip()
        for part in re.split(r"\s?,\s?(?:or\s|and\s)?|\sor\s|\sand\s|\|", text)
    )
    members = list(dict.fromkeys(part for part in parts if part))
    complete = 2 <= len(members) <= MAX_MEMBERS and not re.search(r"…|\.\.\.| other candidate", text)
    short = all(len(member) <= MAX_MEMBER and len(member.split()) <= 4 for member in members)
    return members if complete and short else []


def _names(text: str) -> list[str]:
    names = [name.rstrip(".") for name in re.findall(_QUOTED, text) or re.findall(_NAME, text)]
    return [name for name in dict.fromkeys(names) if _usable(name) or len(name) == 1][:12]


def _subject(sentence: str, end: int) -> str:
    before = sentence[:end]
    words = re.findall(_NAME, before)
    quoted = re.findall(_QUOTED, before)
    if not words:
        quoted = re.findall(rf"\b(?:for|of|in) (?:{_THING} )?{_QUOTED}", sentence, re.IGNORECASE)
    while words and words[-1].lower() in _AUXILIARY:
        words.pop()
    after_thing = re.findall(rf"\b{_THING}\s{{0,2}}[:=]?\s{{0,2}}{_ANY}", before, re.IGNORECASE)
    before_thing = words[-2:-1] if words and words[-1].lower() in _THINGS else []  # "the limit parameter"
    for names in (quoted, after_thing, before_thing, words[-1:]):
        if usable := [name for name in names if _usable(name)]:
            return _path(usable[-1])[0] or usable[-1]
    return ""


def _usable(name: str) -> bool:
    plausible = any(character.isalpha() for character in name) and not name.startswith("java.")
    return plausible and name.lower().rstrip(".") not in _STOP
