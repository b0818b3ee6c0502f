"""Read a program while it is being written: where it begins, where its statements end, what its end lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(r"^[ \t]*`{3,}[^\n`]*\n", re.M)
_QUOTE = re.compile(r"'''|\"\"\"|'|\"")
_HEADER = re.compile(r"(?:async\s+)?(if|elif|else|for|while|with|def|class|try|except|finally|match|case)\b")
_REMARK = re.compile(r"\s#.*")


def program_start(reply: str) -> int | None:
    """Return where the first fenced program of a reply begins; ``None`` while there is none."""
    found = _FENCE.search(reply)
    return found.end() if found else None


def is_fence(statement: str) -> bool:
    """Return whether a line is the fence that ends a program."""
    return statement.lstrip().startswith("```")


def is_idle(statement: str) -> bool:
    """Return whether a statement is blank or a comment."""
    return not statement.strip() or statement.lstrip().startswith("#")


def statement_end(code: str, start: int) -> int | None:
    """Return where the logical line ends that begins at ``start``; ``None`` while it is not complete.

    A header (``for x in xs:``) is a logical line. Brackets, texts, comments and a backslash at a line's end are
    followed, with no look at what they mean.
    """
    at, depth = start, 0
    while at < len(code):
        sign = code[at]
        if sign == "\n" and depth == 0:
            return at + 1
        if sign == "#":
            at = _index(code, "\n", at)
            continue
        if sign == "\\":
            at += 1
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth = max(0, depth - 1)
        elif quote := _QUOTE.match(code, at):
            at = _text_end(code, quote.end(), quote[0])
            continue
        at += 1
    return None


def _text_end(code: str, at: int, quote: str) -> int:
    """Return where a text ends. One of a single line ends with its line, too: what follows is a syntax error then."""
    while at < len(code):
        if code[at] == "\\":
            at += 2
        elif code.startswith(quote, at):
            return at + len(quote)
        elif code[at] == "\n" and len(quote) == 1:
            return at
        else:
            at += 1
    return len(code)


def _index(code: str, sign: str, at: int) -> int:
    found = code.find(sign, at)
    return len(code) if found < 0 else found


def statements(code: str) -> Iterator[tuple[int, int]]:
    """Yield where each complete logical line begins and ends, without blank lines and comments."""
    start = 0
    while (end := statement_end(code, start)) is not None:
        if not is_idle(code[start:end]):
            yield start, end
        start = end


def completed(code: str) -> str:
    """Return whole statements with what their open blocks lack: a body, and a handler for each ``try``.

    The handler catches everything, as the one that is to come may: so nothing within is certainly wrong.
    """
    blocks: list[tuple[str, bool]] = []  # the margins of open blocks, and whether each is a ``try`` without a handler
    margin = opened = ""
    for start, end in statements(code):
        text = code[start:end].strip()
        margin = _margin(code[start:end])
        while blocks and len(blocks[-1][0].expandtabs()) >= len(margin.expandtabs()):
            blocks.pop()
        header = _HEADER.match(text)
        opened = header[1] if header and _REMARK.sub("", text).endswith(":") else "@" if text.startswith("@") else ""
        if opened and opened != "@":
            blocks.append((margin, opened == "try"))
    lacks = {"": "", "@": f"{margin}def _(): pass\n", "match": f"{margin}    case _: pass\n"}
    handlers = [f"{block}except Exception:\n{block}    pass\n" for block, is_try in reversed(blocks) if is_try]
    return code + lacks.get(opened, f"{margin}    pass\n") + "".join(handlers)


def _margin(statement: str) -> str:
    line = statement.lstrip("\n")
    return line[: len(line) - len(line.lstrip(" \t"))]
