"""Answers that stand in the task itself: a program gives back what it was told, and nothing fails.

A program may hold its answer as a constant, whatever the tools said; or find the very thing that the task starts from
(the city nearest to Rome is Rome). Both are warnings. Where a task names several things, one of them may be the answer.
"""

from __future__ import annotations

import ast
import re

from atc.programs.program import Program

SHORTEST = 3
"""Characters of a text that is worth a question."""
MAX_TASK = 4_000
"""Characters of a task in which names are looked for."""
MAX_NUMBER = 10**30
_QUOTED = re.compile(r"""(?<!\w)(?:'([^'\n]{1,60})'|"([^"\n]{1,60})"|“([^”\n]{1,60})”)(?!\w)""")
_NAME = re.compile(r"[A-Z][\w'’-]*(?: (?:of |de |the |von |van )?[A-Z0-9][\w'’-]*)*")
_BEGINS = re.compile(r"(?:^|[.!?:;\n]\s*)$")
_CHOICE = re.compile(r"\b(?:or|either|whether|versus|vs|between|compare|compared|than|among|amongst)\b|[/|]", re.I)
_YES_NO = re.compile(r"^\W*(?:is|are|was|were|does|do|did|has|have|had|can|could|will|would|should)\b", re.I)


def repeats_task(task: str, program: Program, value: object) -> bool:
    """Whether an answer is a datum of the task where the task surely asks for something else.

    That is where the program sets it to a constant in every case; or where the task names or quotes one thing alone,
    offers no choice, and the answer is that thing.

    Args:
        task: what the user wants.
        program: that answered. ``value``: its answer.
    """
    text = _spelled(value)
    if not text or not _stands_in(text, task) or _YES_NO.match(task):
        return False
    if is_constant(program):
        return not _CHOICE.search(task)
    named = {name.casefold() for name in named_things(task)}
    return isinstance(value, str) and named == {text.casefold()} and not _CHOICE.search(task)


def named_things(task: str) -> list[str]:
    """Quotations and proper names of a task; not a word with a capital because a sentence begins with it."""
    task = task[:MAX_TASK]
    found = [next(group for group in quoted.groups() if group).strip() for quoted in _QUOTED.finditer(task)]
    rest = _QUOTED.sub(lambda quoted: " " * len(quoted.group()), task)
    for name in _NAME.finditer(rest):
        text = name.group()
        if _BEGINS.search(rest[max(0, name.start() - 4) : name.start()]):
            text = text.partition(" ")[2]  # "Find Rome"
        if len(text) >= SHORTEST:
            found.append(re.sub(r"['’]s?$", "", text))
    return list(dict.fromkeys(found))


def is_constant(program: Program) -> bool:
    """Whether the answer is a number or a text that the program holds, whatever its tools say."""
    tree = program.tree
    if tree is None:
        return False
    given: dict[str, list[ast.expr]] = {}
    bound = [node.id for node in program.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    for node in tree.body:
        if isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    given.setdefault(target.id, []).append(node.value)
    name = "answer"
    for _ in range(8):  # names of names
        if bound.count(name) != 1 or len(given.get(name, ())) != 1:
            return False
        match given[name][0]:
            case ast.Constant(value=str() | int() | float()):
                return True
            case ast.Name(id=other):
                name = other
            case _:
                return False
    return False


def _spelled(value: object) -> str:
    """As it would stand in a task; empty for what is too short to mean anything, or no number and no text."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    if isinstance(value, int) and abs(value) > MAX_NUMBER:  # Python writes no number of thousands of digits
        return ""
    text = str(value).strip()
    return text if len(text) >= (SHORTEST if isinstance(value, str) else 2) else ""


def _stands_in(text: str, task: str) -> bool:
    if len(text) > len(task):  # a pattern of megabytes takes seconds to compile
        return False
    return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", task, re.I) is not None
