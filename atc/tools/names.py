"""Readable Python names for tools and arguments out of whatever their source calls them.

A tool's name becomes a function in the model's program, so it never hides a builtin. An argument's name only ever
stands before ``=`` in a call: it stays as the document writes it where Python allows that, because the document's
descriptions, examples and nested objects use the same word.
"""

from __future__ import annotations

import builtins
import hashlib
import keyword
import re
from collections.abc import Iterable

from atc.unicode_forms import normalized

MAX_NAME = 64
"""Characters of a made name; a longer one is cut and ends in a hash of the original."""

RESERVED_NAMES = ("answer", "parallel", "ToolError")
"""What means something else in a program: no tool may be named so."""

_SHADOWING = frozenset(
    [*(name for name in dir(builtins) if not name.startswith("_")), *keyword.softkwlist, *RESERVED_NAMES]
)
_PLACEHOLDER = re.compile(r"\{([^{}]{0,200})\}")
_ACRONYM_THEN_WORD = re.compile(r"([A-Z])([A-Z][a-z])")
_LOWER_THEN_UPPER = re.compile(r"([a-z0-9])([A-Z])")
_NOT_NAME = re.compile(r"[^a-z0-9]+")


def tool_name(original: str) -> str:
    """Make a tool's name: lower snake_case ASCII, no keyword, builtin or reserved name, no leading underscore.

    The same original always gives the same name. Two originals may meet in one name: see :class:`UniqueNames`.

    Args:
        original: an operation id, ``"GET /users/{id}"``, an MCP name with dots; may be empty.

    Returns:
        An identifier of at most :data:`MAX_NAME` characters; ``"GET /users/{id}"`` gives ``get_users_by_id``.
    """
    words = _PLACEHOLDER.sub(r" by \1 ", original)
    name = _bounded(_snake(words, "tool", original), original)
    return f"{name}_" if keyword.iskeyword(name) or name in _SHADOWING else name


def parameter_name(original: str) -> str:
    """Make an argument's name: the original where it is a plain identifier already, else as :func:`tool_name` does.

    Args:
        original: the name that the service knows, ``"page[size]"`` or ``"X-Request-Id"`` say.

    Returns:
        An ASCII identifier without a leading underscore, no keyword; ``"from"`` gives ``from_``.
    """
    plain = original.isascii() and original.isidentifier() and not original.startswith("_")
    if plain and len(original) <= MAX_NAME:
        return f"{original}_" if keyword.iskeyword(original) else original
    name = _bounded(_snake(original, "arg", original), original)
    return f"{name}_" if keyword.iskeyword(name) else name


class UniqueNames:
    """Hands out every name once: the second ``search`` is ``search_2``.

    Args:
        taken: names that are in use already.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def take(self, name: str, *alternatives: str) -> str:
        """Return the first of ``name`` and ``alternatives`` that is free, else ``name`` with a number."""
        for candidate in (name, *alternatives):
            if candidate not in self._taken:
                self._taken.add(candidate)
                return candidate
        number = self._next.get(name, 2)
        while (candidate := _numbered(name, number)) in self._taken:
            number += 1
        self._next[name] = number + 1
        self._taken.add(candidate)
        return candidate


def _numbered(name: str, number: int) -> str:
    suffix = f"_{number}"
    return name.rstrip("_")[: MAX_NAME - len(suffix)] + suffix


def _snake(text: str, fallback: str, original: str) -> str:
    ascii_text = normalized("NFKD", text.replace("ß", "ss")).encode("ascii", "ignore").decode("ascii")
    words = _LOWER_THEN_UPPER.sub(r"\1_\2", _ACRONYM_THEN_WORD.sub(r"\1_\2", ascii_text))
    name = _NOT_NAME.sub("_", words.lower()).strip("_")
    if not name:
        return f"{fallback}_{_digest(original)}"
    if name[0].isdigit():
        name = f"{fallback}_{name}"
    # Letters that ASCII cannot hold are gone: the hash keeps two such names apart whatever their order.
    return f"{name}_{_digest(original)}" if _lost_letters(text) else name


def _lost_letters(text: str) -> bool:
    decomposed = normalized("NFKD", text.replace("ß", "ss"))
    return any(char.isalnum() and not char.isascii() for char in decomposed)


def _bounded(name: str, original: str) -> str:
    if len(name) < MAX_NAME:  # one character is kept for the underscore that a keyword gets
        return name
    digest = _digest(original)
    return f"{name[: MAX_NAME - 2 - len(digest)].rstrip('_')}_{digest}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:6]
