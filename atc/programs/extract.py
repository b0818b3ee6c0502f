"""Reply → program: find the one program in the text of a model. Nothing is executed."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from atc._host.syntax import walk
from atc.programs.dialects.tool_names import is_form
from atc.programs.program import MAX_SOURCE, Program
from atc.programs.syntax import calls_one_of

MAX_TRIED = 400_000
"""Characters of a reply without a fence that are tried as a program, all tries together."""

# possessive: a hostile line cannot make it try again and again
_FENCE = re.compile(r"^[ \t]*+(`{3,}+|~{3,}+)[ \t]*+([\w+.-]*+)[^\n]*+\n(.*?)(?:^[ \t]*+\1[ \t]*+$|\Z)", re.M | re.S)
_TAG = re.compile(r"<(tool_code|code|python|execute)>(.*?)(?:</\1>|\Z)", re.S)
_LANGUAGES = {"", "python", "py", "python3", "tool_code", "code", "tool", "repl", "ipython"}
_CODE = re.compile(
    r"(#|@|import |from |for |while |if |with |try:|def |async |await |class |"
    r"[A-Za-z_][\w.]*(\[.*\])?\s*[-+|]?=[^=]|[\w.]+\()"
)
_PROMPT = re.compile(r"(>>>|\.\.\.)( |$)")


@dataclass(frozen=True)
class Extracted:
    """Holds what a reply held: the program (it may still not parse), or ``None`` and why."""

    program: Program | None
    problem: str = ""

    @property
    def source(self) -> str | None:
        """Return the text of the program; ``None`` where there is none."""
        return self.program.source if self.program is not None else None


def unfenced(source: str) -> str:
    """Return a program without the fence around the whole of it; the lines of the fence are left empty, so that the
    others keep their numbers. The same text where there is none.
    """
    found = _FENCE.fullmatch(source.strip())
    if found is None or found[2].lower() not in _LANGUAGES or not source.strip().endswith(found[1]):
        return source
    lines = source.split("\n")
    ends = [at for at, line in enumerate(lines) if line.strip()]
    lines[ends[0]] = lines[ends[-1]] = ""
    return "\n".join(lines)


def extract(reply: str, tools: Collection[str], *, truncated: bool = False) -> Extracted:
    """Return the program in a reply.

    Fenced and tagged blocks are looked at first, then the bare text less the prose around it. Of several blocks the
    last that parses, sets ``answer`` and calls a tool is taken; where none does, all blocks that parse are joined.

    Args:
        reply: the model's text.
        tools: names of the tools; a block that calls one is preferred.
        truncated: the reply was cut off at its limit.
    """
    if len(reply) > 4 * MAX_SOURCE:
        return Extracted(None, "the reply is far too long to hold one program")
    reply = reply.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    blocks = [body for _, language, body in _FENCE.findall(reply) if language.lower() in _LANGUAGES]
    blocks = blocks or [body for _, body in _TAG.findall(reply)]
    programs = [_as_program(block) for block in blocks if block.strip()]
    if not programs:
        bare = _without_prose(reply)
        if bare is None:
            return Extracted(None, _nothing(reply, truncated))
        programs = [bare]
    return Extracted(_choose(programs, tools))


def _nothing(reply: str, truncated: bool) -> str:
    if not truncated:
        return "the reply holds no program"
    more = "" if reply.strip() else ": a model that thinks may need more `thinking_tokens`"
    return f"the reply holds no program; it was cut off at its length limit{more}"


def _choose(programs: list[Program], tools: Collection[str]) -> Program:
    good = [(program, program.tree) for program in programs if program.tree is not None]
    if not good:
        return max(programs, key=lambda program: len(program.source))
    for program, tree in reversed(good):
        if program.sets_answer and (len(good) == 1 or _calls_a_tool(tree, tools)):
            return program
    if any(program.sets_answer for program, _ in good):
        return _joined([program for program, _ in good])
    callers = [program for program, tree in good if _calls_a_tool(tree, tools)]
    return _joined(callers) if callers else good[-1][0]


def _calls_a_tool(tree: ast.Module, tools: Collection[str]) -> bool:
    return calls_one_of(tree, tools) or any(isinstance(n, ast.Name) and is_form(n.id) for n in walk(tree))


def _joined(programs: list[Program]) -> Program:
    return programs[0] if len(programs) == 1 else Program("\n".join(program.source for program in programs))


def _as_program(block: str) -> Program:
    program = Program(block.strip("\n").rstrip() + "\n")
    if program.tree is not None:
        return program
    lines = program.lines
    if all(_PROMPT.match(line.lstrip()) for line in lines if line.strip()):
        lines = [line.lstrip()[4:] for line in lines]
    tabless = [_expanded(line) for line in lines]
    whole = Program(textwrap.dedent("\n".join(tabless)))
    if whole.tree is None and (moved := Program(whole.source.lstrip(" "))).tree is not None:
        return moved  # the first line alone has a margin
    return program if whole == program else whole


def _expanded(line: str) -> str:
    body = line.lstrip(" \t")
    return line[: len(line) - len(body)].expandtabs(4) + body


def _without_prose(text: str) -> Program | None:
    lines = text.split("\n")
    starts = (index for index, line in enumerate(lines) if _CODE.match(line))
    tried = 0
    for start in starts:
        for program in _runs(lines, start):
            tried += len(program.source) + 1_000  # a try costs something, however short
            if tried > MAX_TRIED:
                return None
            tree = program.tree
            if tree is not None and any(isinstance(n, ast.Assign | ast.AugAssign | ast.Call) for n in walk(tree)):
                return program
    return None


def _runs(lines: list[str], start: int) -> Iterator[Program]:
    end = len(lines)
    for _ in range(8):
        program = Program("\n".join(lines[start:end]).rstrip() + "\n")
        yield program
        if program.problem is None:
            return
        line = program.problem.line
        end = start + line - 1 if line else start + (end - start) // 2
        if end <= start:
            return
