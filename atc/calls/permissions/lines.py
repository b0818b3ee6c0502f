"""Lines of TOML for a permissions file, to be pasted: what would allow a call that was refused or asked about."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from atc._host.invisible import is_invisible
from atc._records.origins import Origin, Origins
from atc.calls.permissions.facts import EVERYONE, LOCAL
from atc.calls.permissions.origins import SELECTS, TOOL, VIA, needs_listing
from atc.calls.permissions.patterns import literal, pattern_problem

if TYPE_CHECKING:
    from atc.calls.permissions.document import Section

AFTER_UNTRUSTED = 'after_untrusted = "allow"  # at the top of the file. It opens every write of such programs'
MAX_ORIGINS = 20
"""Origins of an argument, and arguments, that a line names; nobody reads more."""
_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")


def allowing(tool: str, principal: str) -> str:
    """Return the rule that allows a principal's calls of a tool, as TOML; empty where no pattern can name it."""
    exactly = literal(principal)
    if pattern_problem(exactly):
        return ""
    bound = "" if principal == LOCAL else f"\nprincipal = {quoted(exactly)}"
    return f"[[rules]]\nallow = {quoted(tool)}{bound}"


def allowing_from(
    tool: str, principal: str, found: Mapping[str, Origins], is_untrusted: Callable[[str], bool] = bool
) -> str:
    """Return the rule that allows a principal's calls of a tool whose arguments come from where they came from, as
    TOML; empty where no rule can: what cannot be followed is never allowed.

    Args:
        tool: its name.
        principal: who calls.
        found: the origins of its targets, by their paths.
        is_untrusted: returns whether strangers write what a tool answers; they are named beside the rule.
    """
    rule = allowing(tool, principal)
    listed: dict[str, list[str]] = {}
    for path, origins in found.items():
        needed = {_text(each) for each in origins if needs_listing(each)}
        texts = sorted(needed - {VIA + text for text in needed})
        if not rule or not all(texts) or not 0 < len(texts) <= MAX_ORIGINS or any(map(pattern_problem, texts)):
            return ""
        listed[path] = texts
    if not 0 < len(listed) <= MAX_ORIGINS:
        return ""
    table = ", ".join(f"{_key(path)} = [{', '.join(map(quoted, texts))}]" for path, texts in listed.items())
    opened = "; ".join(_opened(path, found[path], is_untrusted) for path in listed).strip("; ")
    opened = f"  # with this, {opened}" if opened else ""
    return f"{rule}\nfrom = {{ {table} }}{quoted(opened)[1:-1]}"


def _opened(path: str, origins: Origins, is_untrusted: Callable[[str], bool]) -> str:
    """Return what strangers can do to an argument whose origins are listed; empty where none of them is theirs."""
    tools = [each for each in origins if each.kind == "tool"]
    theirs = [each for each in tools if is_untrusted(each.tool)]
    in_it = {each.tool for each in theirs if each.how not in SELECTS}
    chose = {each.tool for each in theirs} - in_it
    of = sorted({each.tool for each in tools if each.how == "value"} - in_it)
    which = f"which answer of {', '.join(of)} `{path}` is of" if of else f"between the values that `{path}` may have"
    told = [f"whoever writes what {', '.join(sorted(in_it))} answers chooses `{path}`"] if in_it else []
    told += [f"whoever writes what {', '.join(sorted(chose))} answers chooses {which}"] if chose else []
    return "; ".join(told)


def _text(origin: Origin) -> str:
    if origin.kind != "tool":
        return "" if origin.kind == "unknown" else origin.kind
    via = VIA if origin.how in SELECTS else ""
    steps = (literal(key).replace(".", "?") for key in origin.path if all(origin.path))
    return via + ".".join((f"{TOOL}{literal(origin.tool)}", *steps))


def _key(path: str) -> str:
    return path if _BARE.match(path) else quoted(path)


def granting(tool: str, principal: str, section: Section) -> str:
    """Return the line that grants a tool to a principal beside those that it has, as TOML."""
    if principal == EVERYONE or pattern_problem(literal(principal)):
        return ""
    have = section.tools.texts if section.tools is not None else ()
    shown = have if len(have) <= 20 else ()
    names = ", ".join(map(quoted, (*shown, tool)))
    return f"[clients.{quoted(principal)}]\ntools = [{names}]{'' if shown == have else '  # beside those that it has'}"


def quoted(text: str) -> str:
    """Return a text as TOML writes it; what nobody would see is an escape."""
    clean = json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False)
    if clean.isascii() and clean.isprintable():
        return clean
    return "".join(c if c.isprintable() and not is_invisible(c) else _escaped(ord(c)) for c in clean)


def _escaped(code: int) -> str:
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
