"""How a tool was used: the question and the program of a probed example (ATC §4.1, d = ((q, C), s, t)).

A program in a document is text from outside. It is shown only where it is Python, short, and calls its tool; then as it
is written anew from its syntax tree, which leaves out its comments, as lines of a docstring.
"""

from __future__ import annotations

import ast
import json
from typing import Any

from atc.invisible import legible
from atc.tools.protocol import Example, Protocol
from atc.tools.types import one_line

MAX_QUESTION, MAX_PROGRAM, MAX_LINES = 120, 400, 8
"""Characters of a question and of a program, and lines of a program, that are shown; of a longer one, nothing is."""
MAX_SHOWN = 2
"""Examples of a tool that stand in its JSON form."""
MAX_RESPONSE = 2_000
"""Characters there of arguments and of a response, as JSON; longer ones are left out."""


def demonstration(protocol: Protocol) -> list[str]:
    """The first demonstration of a tool, as lines for its docstring; empty where there is none to show."""
    for example in protocol.examples:
        if example.program and (lines := _program_lines(example.program, protocol.name)):
            question = one_line(example.description, MAX_QUESTION)
            return [f"Demonstration: {question}" if question else "Demonstration:", *(f"    {line}" for line in lines)]
    return []


def _program_lines(program: str, tool: str) -> list[str]:
    """A program as harmless lines; empty where it cannot be shown."""
    if len(program) > 4 * MAX_PROGRAM:  # comments may go
        return []
    try:
        tree = ast.parse(program)
        text = ast.unparse(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    lines = text.split("\n")
    printable = all(line.isprintable() for line in lines) and '"""' not in text and legible(text) == text
    if tool not in called or not printable or len(text) > MAX_PROGRAM or len(lines) > MAX_LINES:
        return []
    return [line.replace("\\", "\\\\") for line in lines]


def shown_examples(protocol: Protocol) -> list[dict[str, Any]]:
    """The first examples of a tool as plain data, without what is not known of them."""
    return [_bounded_example(example) for example in protocol.examples[:MAX_SHOWN]]


def _bounded_example(example: Example) -> dict[str, Any]:
    bounds = {
        "description": MAX_PROGRAM,
        "program": MAX_PROGRAM,
        "arguments": MAX_RESPONSE,
        "response": MAX_RESPONSE,
    }
    made = {}
    for name, value in example.model_dump(exclude_defaults=True).items():
        try:
            text = json.dumps(value, default=str)
        except (TypeError, ValueError, RecursionError):
            continue
        if len(text) <= bounds[name]:
            made[name] = json.loads(text)
    return made
