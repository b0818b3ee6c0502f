"""The change of a file as a user sees it: unified, bounded, and without what may be a credential."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from difflib import SequenceMatcher

from atc.faces.mcp_clients.document import Document, Scalar
from atc.tools.mcp.secrets import in_arguments, in_url, sort_values

MASK = "***"
_CONTEXT = 3
_MOST_LINES = 2_000
"""Lines that are compared; longer stretches are shown as one."""
_HIDDEN = frozenset({"env", "envs", "environment", "headers", "http_headers", "env_http_headers", "requestinit"})
_RANDOM = re.compile(r"(?<![\w.~%+=-])(?=[\w.~%+=-]*[0-9])(?=[\w.~%+=-]*[A-Za-z])[\w.~%+=-]{24,}+")


def shown_diff(before: Document, after: Document, name: str) -> str:
    """The lines that differ, with three around them."""
    old, new = (each.text.removesuffix("\n").split("\n") for each in (before, after))
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    head, tail = max(0, head - _CONTEXT), max(0, tail - _CONTEXT)
    old, new = _shown(before, old, head, tail), _shown(after, new, head, tail)
    lines = [f"--- {name}", f"+++ {name}"]
    if max(len(old), len(new)) > _MOST_LINES:
        groups = [[("replace", 0, len(old), 0, len(new))]]
    else:
        groups = list(SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT))
    for group in groups:
        lines.append(_at(head, group))
        for kind, a, b, c, d in group:
            if kind == "equal":
                lines += [f" {line}" for line in old[a:b]]
            else:
                lines += [f"-{line}" for line in old[a:b]] + [f"+{line}" for line in new[c:d]]
    return "\n".join(lines) + "\n"


def _at(head: int, group: Sequence[tuple[str, int, int, int, int]]) -> str:
    (_, a, _, c, _), (_, _, b, _, d) = group[0], group[-1]
    return f"@@ -{head + a + 1},{b - a} +{head + c + 1},{d - c} @@"


def _shown(document: Document, lines: Sequence[str], head: int, tail: int) -> list[str]:
    """The lines but for some at both ends, without credentials."""
    start = sum(len(line) + 1 for line in lines[:head])
    end = start + sum(len(line) + 1 for line in lines[head : len(lines) - tail]) - 1
    return [line.rstrip("\r") for line in masked(document, start, max(start, end)).split("\n")] if end >= start else []


def masked(document: Document, start: int, end: int) -> str:
    """A stretch of a text with stars in the place of what may be a credential."""
    text, made, at = document.text, [], start
    for first, last in _secrets(list(document.scalars(start, end))):
        if last > at and first < end:
            quote = text[first] if text[first] in "\"'" and first >= at else ""
            made += [_RANDOM.sub(MASK, text[at : max(at, first)]), f"{quote}{MASK}{quote}"]
            at = last
    return "".join([*made, _RANDOM.sub(MASK, text[at:end])])


def _secrets(scalars: Sequence[Scalar]) -> list[tuple[int, int]]:
    by_path: dict[tuple[str, ...], list[Scalar]] = defaultdict(list)
    for scalar in sorted(scalars, key=lambda each: each.start):
        by_path[scalar.path].append(scalar)
    found = set()
    for path, group in by_path.items():
        words = [scalar.text for scalar in group]
        named = any(key.lower() in _HIDDEN for key in path) or bool(path and sort_values({path[-1]: "x"})[0])
        told = [secret for secret in in_arguments(words) if len(secret) > 3] if len(words) < 1_000 else []
        for scalar in group:
            secret = named or any(each in scalar.text for each in told)
            secret = secret or ("://" in scalar.text and any(map(_worth, in_url(scalar.text))))
            if secret:
                found.add((scalar.start, scalar.end))
    return sorted(found)


def _worth(secret: str) -> bool:
    return len(secret) > 3
