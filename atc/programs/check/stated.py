"""Whether a task states all that its answer needs, so that a program without a call may answer it (NaviAgent §3.1, the
direct answer). The rule ``no-tool-needed``; it is off by default.

Decided by structure alone, and so that in doubt a tool is needed: the program computes with two facts of the task at
least, has nothing else in it, and leaves none of the task's facts out; and the task names nothing in the world.
"""

from __future__ import annotations

import ast
import re

from atc.programs.check.coverage import unused_facts
from atc.programs.program import Program

_NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?")
_QUOTED = re.compile(r"""(?<!\w)(['"“])\w[^'"”\n]{0,60}['"”](?!\w)""")
_NAME = re.compile(r"(?<![.?!:]\s)(?<!^)\b[^\W\d_a-z]\w+")
"""A word with a capital letter that begins no sentence: a place, a month, a code."""
_FREE = frozenset({0.0, 1.0, 2.0, 10.0, 100.0})
"""Numbers that stand for no fact: counting, halves, rounding, percentages."""
_SHORT = 2
"""Characters of a text that stands for no fact, such as a separator."""
_MODULES = frozenset({"math", "statistics", "decimal", "fractions", "re", "itertools", "collections", "functools"})
"""Modules that a program may import: none that reads anything of the world, such as the time."""
_COMPUTES = (ast.BinOp, ast.Call, ast.Compare, ast.Subscript, ast.comprehension)
_LEAST = 2


def states_all(task: str, program: Program) -> bool:
    """Whether a program computes its answer from facts of the task alone. It must call no tool.

    A fact is a number or a text that stands in the task; a number may stand there as a percentage. That a right program
    needs a tool all the same cannot be ruled out: two numbers can be added that a tool should have compared.

    Args:
        task: in the user's words.
        program: as it was written.
    """
    tree = program.tree
    if tree is None or _NAME.search(_QUOTED.sub("x", task)) or unused_facts(task, program):
        return False
    words, numbers = task.casefold(), _numbers(task)
    facts: set[float | str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names) if any(name.name not in _MODULES for name in names):
                return False
            case ast.ImportFrom(module=module) if module not in _MODULES:
                return False
            case ast.Constant(value=bool() | None):
                continue
            case ast.Constant(value=int() | float() as number):
                if abs(number) in _FREE:
                    continue
                if not any(abs(abs(number) - known) < 1e-9 for known in numbers):
                    return False
                facts.add(float(number))
            case ast.Constant(value=str() as text):
                bare = text.strip().casefold()
                if len(bare) <= _SHORT:
                    continue
                if bare not in words:
                    return False
                facts.add(bare)
            case ast.Constant():
                return False
    return len(facts) >= _LEAST and any(isinstance(node, _COMPUTES) for node in ast.walk(tree))


def _numbers(task: str) -> set[float]:
    """The numbers of a task, each as a percentage, too."""
    found = {float(text.replace(",", "")) for text in _NUMBER.findall(task)}
    return {way for number in found for way in (number, number / 100, 1 + number / 100, 1 - number / 100)}
