"""Names that suggest an effect. An HTTP method alone is no promise: ``GET …/TerminateInstances`` ends machines.

The OpenAPI importer asks here about operations whose effect comes from their method, and probing about every tool that
says it only reads.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from atc._host.invisible import without_invisible
from atc._host.unicode_forms import normalized
from atc.schemas.identifiers import split

VERBS = frozenset(
    """
    abort accept activate add allocate announce apply approve assign associate attach authorize ban buy cancel clear
    close commit confirm create deactivate deallocate decline decrease delete deploy deprovision deregister destroy
    detach disable disassociate drop edit enable erase execute forgive grant increase insert install invite join
    kick kill launch leave logout mark merge modify move mute patch pause pay provision prune publish purge put
    reboot recreate refund regenerate reject remove rename replace reserve restart resume revoke rotate save send
    shutdown signout submit subscribe suspend terminate trigger truncate unassign uninstall unlock unpause
    unregister unsubscribe update upload upsert wipe withdraw write
    """.split()
)
"""Verbs of effects."""

NOUNS_TOO = frozenset(
    """
    archive book charge checkout copy follow import like lock login open order pin post purchase register release
    reset restore run set share start stop store sync transfer vote
    """.split()
)
"""Verbs of effects that name things as well, as in ``GET …/checkout-key``: they count only where a verb must stand."""

GRAVE = frozenset(
    """
    cancel deactivate logout reboot remove restart revoke shutdown signout suspend truncate uninstall unsubscribe
    wipe
    """.split()
)
"""Verbs that count as a step of a path and at the end of a name too: ``/admin/shutdown/now``, ``users_remove``."""

READS = frozenset(
    """
    browse check count describe determine display download fetch find get has is list lookup obtain query read
    retrieve return search show validate view
    """.split()
)
"""Verbs that promise a read."""

_GRAVE_STEMS = ("delete", "destroy", "erase", "purge", "terminate")
_DONE = frozenset({"deleted", "destroyed", "erased", "purged", "terminated"})
_THINGS = frozenset({"book", "like", "open", "order", "pin", "post", "run", "set", "share", "start", "stop", "store"})
_PREFIXES = frozenset({"api", "do", "bulk", "force", "please", "re"})
_SETS = frozenset({"set", "reset"})
"""Verbs of effects before another word in a path: ``/set-status``, where ``/set`` may list a set."""
_ACTS = frozenset("act action cmd command do func function method op operation procedure rpc verb".split())
"""Last words of arguments that say what is to be done."""
# Generators write the method into an operation id, where it is nobody's verb: `GET_StopInstances`, `setTextUsingGET`.
_METHOD = re.compile(r"^(?:GET|HEAD|OPTIONS)[_.-]|Using(?:GET|HEAD|OPTIONS)(?:_\d{1,3})?$")
_WORD = re.compile(r"[^\W_]+")
_SHORT = 4
"""Letters of a verb that chance puts together out of two words."""
_KNOWN, _LONG = 30_000, 200
"""Names whose verb is kept, and characters of one at most."""
_FIRST = tuple(sorted(verb for verb in VERBS if len(verb) > _SHORT))
_LAST = (*sorted(GRAVE), *_GRAVE_STEMS)
_BESIDE_LATIN = frozenset({"LATIN", "CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO", "THAI"})
_DIGITS = str.maketrans("013457@$", "oleastas")
_LOOKALIKES = str.maketrans(
    "авгеіјкмнопрстухѕԁԛԝһӏьѵАВЕІЈКМНОРСТУХЅԀԚԜҺӀ"
    "αβγεικνορτυχωηΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"
    "օսոհցզ"
    "ᎪᎬᎠᎢᏚᏞᏢᏟᎡᎳᎷᎻᏦᏙᏃᎫᏴ"
    "ıɑɡɩʟᴀᴄᴅᴇᴊᴋᴍᴏᴘᴛᴜᴠᴡᴢɴʀʏʙɢʜɪꜱꜰłøđħŧ",
    "abreijkmhonpctyxsdqwhlbvABEIJKMHOPCTYXSDQWHI"
    "abyeikvoptuxwnABEZHIKMNOPTYX"
    "ounhgq"
    "AEDTSLPCRWMHKVZJB"
    "iagilacdejkmoptuvwznrybghisflodht",
)
"""Letters that look like Latin ones (Unicode Technical Standard #39): those that verbs could be made of."""
_PLACEHOLDER = re.compile(r"\{[^{}]{0,200}\}")


def telltale(name: str) -> str:
    """The verb in a name that suggests an effect; empty where there is none.

    Args:
        name: an operation id, a tool's name, or a method with its path (``"GET /users/{id}/activate"``).
    """
    return _in_path(name.partition("/")[2]) if name.partition(" ")[2].startswith("/") else _in_name(name)


def disguised_telltale(name: str) -> str:
    """As :func:`telltale`, where a stranger chose the name: a verb counts in whatever letters it is written.

    They may be of another alphabet, full width, marked, digits, cut by separators, or with characters between them that
    nobody sees. A word that mixes alphabets is told too: no language does.

    Args:
        name: of a tool that says it only reads.
    """
    return _known(name) if len(name) <= _LONG else _disguised(name)


def _disguised(name: str) -> str:
    if found := telltale(name):
        return found
    plain = "" if name.isascii() else without_invisible(normalized("NFKD", name))
    letters = "".join(char for char in plain if not unicodedata.combining(char)) or name
    latin = letters.translate(_LOOKALIKES)
    for seen in dict.fromkeys((latin, latin.translate(_DIGITS))):
        if found := (telltale(seen) if seen != name else "") or _cut(seen):
            return found
    return next((word for word in _WORD.findall(letters) if not word.isascii() and _mixes(word)), "")


_known = lru_cache(_KNOWN)(_disguised)  # a server that changes one tool lists all of them again


def _cut(name: str) -> str:
    """The verb of a name, if separators or capitals stand within it: ``de_lete_file``, ``file.dElEtE``."""
    joined = "".join(_WORD.findall(name)).lower()
    if not (joined.startswith(_FIRST) or joined.endswith(_LAST)):  # as most names: thousands are looked at at once
        return ""
    words = split(name)
    if not words or words[0] in READS:
        return ""
    begins = (verb for verb in _FIRST if len(verb) > len(words[0]) and joined.startswith(verb))
    ends = (verb for verb in _LAST if len(verb) > len(words[-1]) and joined.endswith(verb))
    return max((*begins, *ends), key=len, default="")


def _mixes(word: str) -> bool:
    """Whether Latin letters and those of another alphabet stand in one word. Ideographs and syllables stand beside them
    in real names."""
    alphabets = {unicodedata.name(char, "").partition(" ")[0] for char in word if char.isalpha()}
    return "LATIN" in alphabets and not alphabets <= _BESIDE_LATIN


def names_act(parameter: str, value: object) -> str:
    """The verb of effects that an argument names, where it says what is to be done: ``action=delete``; else empty.

    Args:
        parameter: the argument's name.
        value: that it is given.
    """
    says = isinstance(value, str) and not _ACTS.isdisjoint(split(parameter[:_LONG])[-1:])
    return disguised_telltale(value[:_LONG]) if says and isinstance(value, str) else ""


def promises_read(text: str) -> bool:
    """Whether a summary begins with a verb that promises a read: ``"Lists the keys that …"``."""
    first = text.split(maxsplit=1)[:1]
    word = first[0].strip(".,:;").lower() if first else ""
    return word in READS or word.removesuffix("s") in READS or word.removesuffix("es") in READS


def _in_path(path: str) -> str:
    """A grave verb counts as any step; of the last step that is no placeholder, the verb at its beginning."""
    steps = [step for step in re.split(r"[/?&]", _PLACEHOLDER.sub("", path)) if split(step)]
    for step in steps:
        if len(words := split(step)) == 1 and _is_grave(words[0]):
            return words[0]
        if words[0] == "action" and "=" in step:  # `/#Action=StopInstances`: a call by name, which begins with a verb
            return "" if words[1:2] and words[1] in READS else " ".join(words[1:2])
    last = steps[-1] if steps else ""
    if "." in last:  # `/chat.postMessage`
        return _in_name(last)
    words = split(last)
    if len(words) == 1:
        return words[0] if words[0] in VERBS or words[0] in NOUNS_TOO - _THINGS else ""
    words = words[1:] if words[:1] == ("re",) else words
    return words[0] if words and (words[0] in VERBS | _SETS or _is_grave(words[0])) else ""


def _in_name(name: str) -> str:
    name = _METHOD.sub("", name)
    camel = re.search("[A-Z]", name) is not None
    parts = [part for part in re.split(r"[./:_]" if camel else r"[./:]", name) if split(part)]
    words = split(parts[-1]) if parts else ()
    while len(words) > 1 and words[0] in _PREFIXES:
        words = words[1:]
    if not words or words[0] in READS or (words[-1] in READS and not camel):
        return ""
    if words[0] in VERBS or _is_grave(words[0]):
        return words[0]
    if words[0] in NOUNS_TOO and len(words) > 1 and not READS.intersection(words):
        return words[0]
    return words[-1] if _is_grave(words[-1]) else ""


def _is_grave(word: str) -> bool:
    return word in GRAVE or (word.startswith(_GRAVE_STEMS) and word not in _DONE)
