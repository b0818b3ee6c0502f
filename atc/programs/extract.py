"""Reply → program: find the one program in what a model really says."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Collection
from dataclasses import dataclass

MAX_SOURCE = 60_000
"""Characters of a program; a longer one is refused unread."""
MAX_NESTING = 80
"""Brackets open at once; more is refused before Python's parser sees it."""

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+.-]*)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_TAG = re.compile(r"<(tool_code|code|python|execute)>(.*?)(?:</\1>|\Z)", re.DOTALL)
_LANGUAGES = {"", "python", "py", "python3", "tool_code", "code", "tool", "repl", "ipython"}


class NotParsed(Exception):
    """Source that is no Python program. ``line`` is 0 when the whole is at fault."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.message, self.line = message, line


@dataclass(frozen=True)
class Extracted:
    """What a reply held: the source (it may still not parse), or ``None`` and why."""

    source: str | None
    problem: str = ""


def parse(source: str) -> ast.Module:
    """Parse a program, with size and nesting bounded first. Nothing is executed.

    Raises:
        NotParsed: it is too long, nested too deeply, or not Python.
    """
    if len(source) > MAX_SOURCE:
        raise NotParsed(f"the program has {len(source):,} characters; the limit is {MAX_SOURCE:,}")
    depth = 0
    for character in source:  # brackets in strings count too: a bound need not be exact
        depth += (character in "([{") - (character in ")]}")
        if depth > MAX_NESTING:
            raise NotParsed(f"more than {MAX_NESTING} brackets are open at once")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except SyntaxError as error:
        raise NotParsed(f"syntax error: {error.msg}", error.lineno or 0) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise NotParsed(f"not a program: {type(error).__name__}") from None


def extract(reply: str, tools: Collection[str], *, truncated: bool = False) -> Extracted:
    """Return the program in a reply.

    Fenced and tagged blocks are looked at first, then the bare text less the prose around it. Of several blocks the last
    that parses and sets ``answer`` is taken; where none does, all blocks that parse are joined.

    Args:
        reply: what the model said.
        tools: names of the tools; a block that calls one is preferred.
        truncated: the reply was cut off at its limit.
    """
    if len(reply) > 4 * MAX_SOURCE:
        return Extracted(None, "the reply is far too long to hold one program")
    blocks = [body for _, language, body in _FENCE.findall(reply) if language.lower() in _LANGUAGES]
    blocks = blocks or [body for _, body in _TAG.findall(reply)]
    sources = [_dedent(block) for block in blocks if block.strip()]
    if not sources:
        bare = _without_prose(reply)
        if bare is None:
            cut = "; it was cut off at its length limit" if truncated else ""
            return Extracted(None, f"the reply holds no program{cut}")
        sources = [bare]
    return Extracted(_choose(sources, tools))


def _choose(sources: list[str], tools: Collection[str]) -> str:
    parsed = [(source, _tree(source)) for source in sources]
    good = [(source, tree) for source, tree in parsed if tree is not None]
    if not good:
        return max(sources, key=len)
    for source, tree in reversed(good):
        if _sets_answer(tree) and (_calls(tree, tools) or len(good) == 1):
            return source
    if any(_sets_answer(tree) for _, tree in good):
        return "\n".join(source for source, _ in good)
    callers = [source for source, tree in good if _calls(tree, tools)]
    return "\n".join(callers) if callers else good[-1][0]


def _tree(source: str) -> ast.Module | None:
    try:
        return parse(source)
    except NotParsed:
        return None


def _sets_answer(tree: ast.Module) -> bool:
    return any(isinstance(n, ast.Name) and n.id == "answer" and isinstance(n.ctx, ast.Store) for n in ast.walk(tree))


def _calls(tree: ast.Module, tools: Collection[str]) -> bool:
    return any(isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in tools for n in ast.walk(tree))


def _dedent(block: str) -> str:
    lines = block.expandtabs(4).strip("\n").rstrip().split("\n")
    if lines and all(line.startswith((">>> ", "... ", ">>>", "...")) for line in lines if line.strip()):
        lines = [line[4:] for line in lines]
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[margin:] for line in lines) + "\n"


def _without_prose(text: str) -> str | None:
    """The longest run of whole lines that parses and is more than a bare word or string."""
    lines = text.replace("\r\n", "\n").split("\n")
    starts = [i for i, line in enumerate(lines) if re.match(r"(#|import |from |for |if |try:|def |class |[A-Za-z_]\w*(\[.*\])?\s*=|\w+\()", line)]
    for start in starts[:40]:
        for end in range(len(lines), start, -1):
            if len(lines) - end > 60:
                break
            source = "\n".join(lines[start:end])
            tree = _tree(source)
            if tree is not None and any(isinstance(n, ast.Assign | ast.Call | ast.AugAssign) for n in ast.walk(tree)):
                return source.rstrip() + "\n"
    return None
