"""An error in the body of a response that came as a success (RETO §3.4, App. A.7), as ``{"error": "Invalid year"}``.

Services answer 200 and say in the body that they did nothing. A program that does not look takes that body for data,
and answers wrongly. It is recognised by its structure: a state that says failure, a code of 400 and above, a field that
is named for errors and is set, or a message that complains where nothing else is there. Beside data, the last two are
no error; nor is anything that the tool's document describes, but for fields that are named for errors. A code of
400 is data too, where an example shows it beside data: a tool that checks a page answers with the page's 403.
Only objects are looked at: no structure says what is in a plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from atc._records.records import BodyError
from atc.schemas.repair.spelling import spelling_key

_ERROR = frozenset(
    "error errors err errormessage errormsg errormessages errordescription errortext errortype errorcode errcode errmsg"
    " fault faultstring exception failure failurereason iserror haserror haserrors sqlmessage exctype".split()
)
"""Keys, in any spelling, that are set where something failed."""
_TRUTH = frozenset("success ok successful succeeded issuccess issuccessful requestsuccessful".split())
_STATE = _TRUTH | frozenset(
    "status state result response code statuscode httpstatus httpcode httpstatuscode responsecode cod".split()
)
"""Keys that say how it went: a word, a truth value, or a number as HTTP has them."""
_MESSAGE = frozenset(
    "message messages msg detail details description info notice note reason title hint help warning more statusmessage"
    " statustext statustxt statusdescription statusmsg resultmessage codestring retmsg".split()
)
"""Keys of words for people."""
_WORDS = _MESSAGE | {"code", "result", "data", "body"}
"""Keys whose text can be a complaint."""
_FRAME = frozenset(
    "timestamp time date path instance requestid traceid correlationid method url documentation documentationurl docs"
    " id service version api data results records params parameters request meta body page total limit offset type"
    " hash currentpage nextpage lastpage perpage pagesize resultsperpage totalrecords totalresults totalresultcount"
    " totalpages count".split()
)
"""Keys that stand beside a message. They are no data of an answer where they are texts, numbers or empty."""
_FAILED = frozenset(
    "error fatal failed fail failure ko nok denied unauthorized forbidden notfound badrequest exception".split()
)
_NAMES = frozenset(["name", "type", "outcome", "typename", "severity"])
"""Keys that can name an exception: ``"name": "ValidationError"``."""
_FINE = frozenset("none null false no ok success successful noerror 0 200".split())
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_COMPLAINT = re.compile(
    r"(?i)\b(?:invalid|incorrect|wrong|missing|mandatory|malformed|illegal|"
    r"un(?:able|known|supported|authori[sz]ed|expected|available)|forbidden|denied|expired|exceed(?:ed|s)?|"
    r"fail(?:ed|ure|s)?|errors?|exception|bad request|must|cannot|required|too (?:many|long|short|large)|quota|"
    r"limit is reached|upgrade|subscribe|disabled|blocked|suspended|went wrong|server down|no (?:such|api|token|key)|"
    r"should be|needs? to|specify|check your|can['’]t|"
    r"not (?:exist|valid|allowed|supported|available|subscribed|authori[sz]ed|a valid|be (?:found|empty|blank|null)|"
    r"specified|provided|permitted|recogni[sz]ed|implemented|set|given|defined|enough|own)|"
    r"(?:does|do|did|is|are|was|were|could|can|has|have)(?: not|n['’]?t)|"
    r"please (?:provide|enter|specify|try|check|use|contact|supply|select|make|pass|send|include|input))\b"
    r"|\bnot found\b(?! in)"
)
"""Words of an English complaint. They decide only where a body holds nothing but words."""


def error_in(
    value: Any, returns: Mapping[str, Any] | None = None, *, examples: Sequence[Any] = (), depth: int = 2
) -> BodyError | None:
    """Return the error that a response states in its body; ``None`` where it states none.

    Args:
        value: the response.
        returns: the JSON Schema of the tool's response, if its document has one.
        examples: responses that the tool's document shows.
        depth: how many objects it may be wrapped in, each the only thing in the one around it.
    """
    if not isinstance(value, dict):
        return None
    names = {key: spelling_key(key) for key in value if isinstance(key, str)}
    for key in _stated(value, names):
        if names[key] in _ERROR or not (_documented(value, returns) or _exemplified(value, names, key, examples)):
            return BodyError(key=key, message=_words(value, names, key)[:500])
    filled = [each for each in value.values() if each not in (None, "", [], {})]
    if len(filled) != 1 or not isinstance(filled[0], dict) or depth <= 0 or _documented(value, returns):
        return None
    return error_in(filled[0], depth=depth - 1)


def _stated(value: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[str]:
    yield from (key for key, name in names.items() if name in _TRUTH and _is_no(value[key]))
    states = [key for key, name in names.items() if name in _STATE and _says_failure(value[key], name)]
    complaints = [key for key, name in names.items() if name in _WORDS and _complains(value[key])]
    if states and complaints and states != complaints:
        yield states[0]
    if not any(isinstance(each, dict | list) and _is_data(each, names.get(key, "")) for key, each in value.items()):
        yield from (key for key in states if _is_http_error(str(value[key])))
        yield from (key for key, name in names.items() if name in _NAMES and _names_error(value[key]))
    if not any(_is_data(value[key], name) for key, name in names.items()):
        yield from states
        yield from (key for key, name in names.items() if name in _ERROR and _is_set(value[key]))
        if not any(name in _STATE and _says_success(value[key]) for key, name in names.items()):
            yield from complaints


def _names_error(value: Any) -> bool:
    """Whether a text is the name of an exception: its last word is *error* or *exception*, and not its only one."""
    words = _WORD.findall(value[:60]) if isinstance(value, str) and " " not in value else []
    return len(words) > 1 and words[-1].casefold() in ("error", "exception")


def _complains(value: Any) -> bool:
    return any(_COMPLAINT.search(text) for text in _texts(value))


def _is_no(value: Any) -> bool:
    return value is False or (isinstance(value, str) and spelling_key(value) in ("false", "no"))


def _is_set(value: Any) -> bool:
    if isinstance(value, str):
        return spelling_key(value) not in _FINE and bool(value.strip())
    return bool(value) and value != 200


def _says_failure(value: Any, name: str) -> bool:
    """Whether a state is a failure: ``"error"``, ``"INTERNAL_SERVER_ERROR"``, ``404``; for a status, also ``false``."""
    if isinstance(value, dict):
        return any(_says_failure(each, spelling_key(key)) for key, each in value.items() if isinstance(key, str))
    if isinstance(value, str):
        words = [word.casefold() for word in _WORD.findall(value[:40])]
        said = not _FAILED.isdisjoint([*words[:1], *words[-1:], "".join(words)])
        return said or _is_http_error(value) or (" " in value and name == "status" and _complains(value))
    if isinstance(value, bool):
        return name == "status" and not value
    return isinstance(value, int) and name != "result" and (value < 0 or _is_http_error(str(value)))


def _says_success(value: Any) -> bool:
    return value is True or (isinstance(value, str) and spelling_key(value) in ("ok", "success", "successful"))


def _is_http_error(text: str) -> bool:
    return len(text) == 3 and text.isdigit() and 400 <= int(text) <= 599


def _is_data(value: Any, name: str, depth: int = 3) -> bool:
    """Whether a field carries something of an answer, and not words, a state or the frame of an error."""
    if name in _ERROR | _STATE | _MESSAGE:
        return name in ("result", "response") and isinstance(value, dict | list) and bool(value)
    if isinstance(value, dict) and depth > 0:
        return any(_is_data(each, spelling_key(key), depth - 1) for key, each in value.items() if isinstance(key, str))
    return bool(value) and (isinstance(value, list | dict) or name not in _FRAME)


def _documented(value: Mapping[str, Any], returns: Mapping[str, Any] | None) -> bool:
    named = (returns or {}).get("properties")
    return isinstance(named, dict) and bool(named) and value.keys() <= named.keys()


def _exemplified(value: Mapping[str, Any], names: Mapping[str, str], key: str, examples: Sequence[Any]) -> bool:
    """Whether a number as HTTP has them is data: beside more, under the fields of an example, and nothing complains."""
    if not _is_http_error(str(value[key])) or any(_complains(value[k]) for k, name in names.items() if name in _WORDS):
        return False
    carries = any(_is_data(value[k], name) for k, name in names.items())
    alike = (each for each in examples if isinstance(each, dict) and value.keys() <= each.keys())
    return carries and any(error_in(each) is None for each in alike)


def _texts(value: Any) -> list[str]:
    items = value[:3] if isinstance(value, list) else [value]
    return [item[:1000] for item in items if isinstance(item, str)]


def _words(value: Mapping[str, Any], names: Mapping[str, str], stated: str) -> str:
    own = value[stated]
    if names[stated] not in _STATE | _NAMES and (texts := _texts(own)):
        return "; ".join(texts)
    beside = [text for key, name in names.items() if name in _MESSAGE for text in _texts(value[key])]
    inner = [text for each in own.values() for text in _texts(each)] if isinstance(own, dict) else []
    return next((text for text in (*beside, *inner) if text), str(own))
