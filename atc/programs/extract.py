"""Reply → program: find the one program in what a model really says. Nothing is executed."""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from atc.programs.syntax import calls_one_of, sets_answer

MAX_SOURCE = 60_000
"""Characters of a program; a longer one is refused unread."""
MAX_NESTING = 80
"""Brackets open at once; more is refused before Python's parser sees it."""
MAX_DEPTH = 120
"""Levels of the syntax tree."""
MAX_TRIED = 400_000
"""Characters of a reply without a fence that are tried as a program, all tries together."""

# possessive: a hostile line cannot make it try again and again
_FENCE = re.compile(r"^[ \t]*+(`{3,}+|~{3,}+)[ \t]*+([\w+.-]*+)[^\n]*+\n(.*?)(?:^[ \t]*+\1[ \t]*+$|\Z)", re.M | re.S)
_TAG = re.compile(r"<(tool_code|code|python|execute)>(.*?)(?:</\1>|\Z)", re.S)
_LANGUAGES = {"", "python", "py", "python3", "tool_code", "code", "tool", "repl", "ipython"}
_CODE = re.compile(
    r"(#|@|import |from |for |while |if |with |try:|def |async |class |[A-Za-z_][\w.]*(\[.*\])?\s*[-+|]?=[^=]|[\w.]+\()"
)
_PROMPT = re.compile(r"(>>>|\.\.\.)( |$)")


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
    """Parse a program, with size and nesting bounded first.

    Raises:
        NotParsed: it is too long, nested too deeply, or not Python.
    """
    if len(source) > MAX_SOURCE:
        raise NotParsed(f"the program has {len(source):,} characters; the limit is {MAX_SOURCE:,}")
    depth = 0
    for bracket in re.finditer(r"[()\[\]{}]", source):  # those in texts count too: a bound need not be exact
        depth += 1 if bracket[0] in "([{" else -1
        if depth > MAX_NESTING:
            raise NotParsed(f"more than {MAX_NESTING} brackets are open at once")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except SyntaxError as error:
        raise NotParsed(f"syntax error: {error.msg}", error.lineno or 0) from None
    except UnicodeEncodeError:
        raise NotParsed("not a program: it holds a lone surrogate, which is no character") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise NotParsed(f"not a program: {error or type(error).__name__}") from None
    if (line := _too_deep(tree)) is not None:
        raise NotParsed(f"nested deeper than {MAX_DEPTH} levels", line)
    return tree


def _too_deep(tree: ast.Module) -> int | None:
    """The line from which the tree is too deep to be walked by functions that call themselves."""
    level: list[ast.AST] = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return None
    return min(getattr(node, "lineno", 0) for node in level)


def extract(reply: str, tools: Collection[str], *, truncated: bool = False) -> Extracted:
    """Return the program in a reply.

    Fenced and tagged blocks are looked at first, then the bare text less the prose around it. Of several blocks the
    last that parses, sets ``answer`` and calls a tool is taken; where none does, all blocks that parse are joined.

    Args:
        reply: what the model said.
        tools: names of the tools; a block that calls one is preferred.
        truncated: the reply was cut off at its limit.
    """
    if len(reply) > 4 * MAX_SOURCE:
        return Extracted(None, "the reply is far too long to hold one program")
    reply = reply.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    blocks = [body for _, language, body in _FENCE.findall(reply) if language.lower() in _LANGUAGES]
    blocks = blocks or [body for _, body in _TAG.findall(reply)]
    sources = [_plain(block) for block in blocks if block.strip()]
    if not sources:
        bare = _without_prose(reply)
        if bare is None:
            return Extracted(None, _nothing(reply, truncated))
        sources = [bare]
    return Extracted(_choose(sources, tools))


def _nothing(reply: str, truncated: bool) -> str:
    if not truncated:
        return "the reply holds no program"
    more = "" if reply.strip() else ": a model that thinks may need more `thinking_tokens`"
    return f"the reply holds no program; it was cut off at its length limit{more}"


def _choose(sources: list[str], tools: Collection[str]) -> str:
    good = [(source, tree) for source in sources if (tree := _tree(source)) is not None]
    if not good:
        return max(sources, key=len)
    for source, tree in reversed(good):
        if sets_answer(tree) and (calls_one_of(tree, tools) or len(good) == 1):
            return source
    if any(sets_answer(tree) for _, tree in good):
        return "\n".join(source for source, _ in good)
    callers = [source for source, tree in good if calls_one_of(tree, tools)]
    return "\n".join(callers) if callers else good[-1][0]


def _tree(source: str) -> ast.Module | None:
    try:
        return parse(source)
    except NotParsed:
        return None


def _plain(block: str) -> str:
    """A block as a program: without the prompts of a session, and without its margin, unless it parses as it is."""
    source = block.strip("\n").rstrip() + "\n"
    if _tree(source) is not None:
        return source
    lines = source.split("\n")
    if all(_PROMPT.match(line.lstrip()) for line in lines if line.strip()):
        lines = [line.lstrip()[4:] for line in lines]
    tabless = [_expanded(line) for line in lines]
    whole = textwrap.dedent("\n".join(tabless))
    if _tree(whole) is None and _tree(whole.lstrip(" ")) is not None:
        return whole.lstrip(" ")  # the first line alone has a margin
    return whole


def _expanded(line: str) -> str:
    """Tabs in the margin as spaces; those in the text of a line are its own."""
    body = line.lstrip(" \t")
    return line[: len(line) - len(body)].expandtabs(4) + body


def _without_prose(text: str) -> str | None:
    """The first run of whole lines that parses and does something, as long as it goes."""
    lines = text.split("\n")
    starts = (index for index, line in enumerate(lines) if _CODE.match(line))
    tried = 0
    for start in starts:
        for source in _runs(lines, start):
            tried += len(source) + 1_000  # a try costs something, however short
            if tried > MAX_TRIED:
                return None
            tree = _tree(source)
            if tree is not None and any(isinstance(n, ast.Assign | ast.AugAssign | ast.Call) for n in ast.walk(tree)):
                return source.rstrip() + "\n"
    return None


def _runs(lines: list[str], start: int) -> Iterator[str]:
    """Ever shorter runs of lines from ``start``: each ends before the line that kept the last from parsing."""
    end = len(lines)
    for _ in range(8):
        source = "\n".join(lines[start:end])
        yield source
        try:
            parse(source)
            return
        except NotParsed as problem:
            end = start + problem.line - 1 if problem.line else start + (end - start) // 2
        if end <= start:
            return
