"""TOML that a stranger may have written: bounded before it is parsed.

Python's parser keeps every beginning of a dotted key (``a.b.c`` and 20,000 parts more, 40 KB, take 1.6 GB), and calls
itself for each list in a list. One look at the text, linear in it, finds both before that.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

MAX_PARTS, MAX_NESTED = 16, 16
"""Parts of a dotted key, and lists and tables in each other."""
_TOKEN = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:"{3,5}|\Z)'
    r"|'''(?:[^']|'(?!''))*+(?:'{3,5}|\Z)"
    r'|"(?:[^"\\\n]|\\.)*+(?:"|\n|\Z)'
    r"|'[^'\n]*+(?:'|\n|\Z)"
    r"|#[^\n]*+|[][{}.=,\n]",
    re.DOTALL,
)
"""What counts, and texts and comments, in which nothing does. A text without an end goes on to the end of the line or
the file: there the parser stops, too."""


def loads(text: str) -> dict[str, Any]:
    """What a TOML document holds.

    Raises:
        ValueError: it is no TOML, or nested too deeply; with the line.
    """
    parts, nested, line = 1, 0, 1
    for token in _TOKEN.finditer(text):
        match token[0]:
            case ".":
                parts += 1
            case "[" | "{":
                nested, parts = nested + 1, 1
            case "]" | "}":
                nested, parts = max(0, nested - 1), 1
            case "=" | "," | "\n":
                parts = 1
            case string if string.endswith("\n"):  # a text without an end
                parts = 1
        if parts > MAX_PARTS:
            raise ValueError(f"line {line} has a key of more than {MAX_PARTS} parts: write a shorter one")
        if nested > MAX_NESTED:
            raise ValueError(f"line {line} has more than {MAX_NESTED} lists and tables in each other: write fewer")
        line += token[0].count("\n")
    return tomllib.loads(text)
