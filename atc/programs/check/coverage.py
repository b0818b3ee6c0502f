"""Task coverage: facts of the task that a program nowhere uses. Each is a warning, which a run asks about once.

A small model leaves out a filter or a factor more often than it misreads a response, and nothing fails then: the answer
is there and wrong. What can be seen before the program runs is that a number or a quoted text of the task is missing
from it, or a name that an earlier program had: repairing one thing, the model forgot the other.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from atc.programs.program import Program
from atc.result import Call

SHORTEST = 3
"""Characters of a text that is worth a question."""
_NUMBER = re.compile(r"(?<![\w.,-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w])\s?%?")
_CLOCK = re.compile(r"(?<![\w.,:-])(\d{1,2}):(\d\d)(?::\d\d)?(?![\w:])")
# a quotation mark opens before a letter or digit and closes after one: an apostrophe, or a gap between two, is neither
_QUOTED = re.compile(
    r"""(?<!\w)(?:'(\w(?:[^'\n]{0,60}\w)?)'|"(\w(?:[^"\n]{0,60}\w)?)"|“(\w(?:[^”\n]{0,60}\w)?)”)(?!\w)"""
)
# what frames a task and is no part of it: the number of an item of a list, a sentence that says what day it is, and
# an example of how an answer looks
_FRAME = re.compile(
    r"^[ \t]*\d{1,3}[.)](?=\s)|\b(?:today(?:['’]s date)?|current (?:date|time)(?: and time)?) is\b[^.!?\n]*"
    r"|\be\.g\.[^)\n]*|\bexample:[^\n]*",
    re.M | re.I,
)
_ITEM = re.compile(r"(?<![\w(])\(?(\d{1,2})\)(?=\s)")  # "1) this 2) that", anywhere
_FORMAT = re.compile(r"(?i)\bformat\w*\W+(?:(?:of|like|as|is|in)\W+)?$")  # before a quotation that shows a form
_AFTERNOON = re.compile(r"(?::\d\d)?\s?p\.?m\b", re.I)
_DIGITS = re.compile(r"\d+(?:\.\d+)?")


def unused_facts(task: str, program: Program) -> list[str]:
    """The numbers and quoted texts of a task that a program nowhere has, as the task writes them.

    A percentage is there as a factor too (5 % as 0.05, 1.05 or 0.95), a number as a part of a text (a date), a time of
    day by its hour and minute, and a quoted text in any case. Not asked for are 0 and 1 (programs count from there),
    the numbers of a list's items, what day it is, an example (``e.g.``), and a quoted text that shows the form of an
    answer.
    """
    if program.tree is None:
        return []
    texts, numbers = _constants(program.tree)
    whole = "\n".join(texts)
    missing = []
    text = _without_items(_FRAME.sub(" ", _QUOTED.sub(" ", task)))
    for found in _CLOCK.finditer(text):
        hour, minute = float(found[1]), float(found[2])
        hours = {hour, hour + 12} if _AFTERNOON.match(text, found.end()) else {hour}
        if (hour > 1 and not hours & numbers) or (minute > 1 and minute not in numbers):
            missing.append(found.group())
    text = _CLOCK.sub(" ", text)
    for found in _NUMBER.finditer(text):
        fact = found.group().strip()
        value = float(fact.rstrip("% ").replace(",", ""))
        ways = {value, value / 100, 1 + value / 100, 1 - value / 100} if fact.endswith("%") else {value}
        if _AFTERNOON.match(text, found.end()):
            ways.add(value + 12)
        if value > 1 and not any(abs(way - number) < 1e-9 for way in ways for number in numbers):
            missing.append(fact)
    for found in _QUOTED.finditer(task):
        quoted = next(group for group in found.groups() if group)
        if quoted.casefold() not in whole and not _FORMAT.search(task[max(0, found.start() - 40) : found.start()]):
            missing.append(found.group())
    return list(dict.fromkeys(missing))


def _without_items(text: str) -> str:
    """A text without the numbers that count its items, where it counts from 1."""
    counted = {int(found) for found in _ITEM.findall(text)}
    return _ITEM.sub(" ", text) if counted >= {1, 2} else text


def forgotten_facts(task: str, program: Program, earlier: Iterable[Program]) -> list[str]:
    """The texts of a task that an earlier program had as a constant and this one nowhere, as the task writes them."""
    here = _texts(program)
    if here is None:
        return []
    whole = "\n".join(here)
    gone = [text.strip() for before in earlier for text in _texts(before) or [] if text.strip() not in whole]
    asked = _FRAME.sub(" ", task)  # what day it is may be reckoned with in any way
    occurrences = [
        re.search(rf"(?<!\w){re.escape(text)}(?!\w)", asked, re.I)
        for text in dict.fromkeys(gone)
        if SHORTEST <= len(text) <= len(task)
        and not _DIGITS.fullmatch(text)  # numbers are looked for above, however written
    ]
    return [found.group() for found in occurrences if found]


def exchanged_facts(program: Program, calls: Iterable[Call]) -> set[str]:
    """The arguments, in lower case, of calls whose answer the program has written out: it needs them no more."""
    here = set(_texts(program) or ())
    return {
        str(argument).casefold()
        for call in calls
        if call.succeeded and here & _leaves(call.value)
        for argument in call.arguments.values()
    }


def _leaves(value: object) -> set[str]:
    """The texts in a response, in lower case."""
    found, todo = set(), [value]
    while todo:
        part = todo.pop()
        if isinstance(part, str) and len(part) >= SHORTEST:
            found.add(part.casefold())
        elif isinstance(part, dict | list):
            todo += part.values() if isinstance(part, dict) else part
    return found


def _texts(program: Program) -> list[str] | None:
    """The text constants of a program in lower case, keys left out; ``None`` where it is no program."""
    tree = program.tree
    if tree is None:
        return None
    keys = {part for node in ast.walk(tree) for part in _keys(node)} | _idle(tree)
    constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and node not in keys)
    return [value.casefold() for value in constants if isinstance(value, str)]


def _keys(node: ast.AST) -> list[ast.AST]:
    """Where a text names a field and is no fact."""
    match node:
        case ast.Subscript(slice=key):
            return [key]
        case ast.Dict(keys=keys):
            return [key for key in keys if key is not None]
        case ast.Call(func=ast.Attribute(attr="get"), args=[key, *_]):
            return [key]
        case _:
            return []


def _constants(tree: ast.AST) -> tuple[list[str], set[float]]:
    texts, numbers = [], set()
    idle = _idle(tree)
    for node in ast.walk(tree):
        if node in idle:
            continue
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                texts.append(node.value.casefold())
                numbers |= _digits(node.value)
            elif isinstance(node.value, int | float) and not isinstance(node.value, bool):
                numbers.add(abs(float(node.value)))
        elif isinstance(node, ast.Name):
            numbers |= _digits(node.id)  # a tool or a variable may have the number in its name
    return texts, numbers


def _digits(text: str) -> set[float]:
    return {float(found) for found in _DIGITS.findall(text)}


def _idle(tree: ast.AST) -> set[ast.AST]:
    """Constants that are given to a name which nothing reads: they are written down, not used. Those of a call are."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    read = {name.id for name in names if isinstance(name.ctx, ast.Load)} | {"answer"}
    return {
        part
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and all(isinstance(t, ast.Name) and t.id not in read for t in node.targets)
        and not any(isinstance(part, ast.Call) for part in ast.walk(node.value))
        for part in ast.walk(node.value)
    }
