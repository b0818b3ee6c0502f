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
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, count

from atc._host.invisible import is_invisible
from atc._host.unicode_forms import normalized

MAX_NAME = 64
"""Characters of a made name; a longer one is cut and ends in a hash of the original."""

LONG_NAME = 50
"""Characters from which on the name of an operation is shortened, where what is left is its alone."""

RESERVED_NAMES = ("answer", "parallel", "ToolError")
"""Names with a meaning of their own in a program: no tool may have one."""

NAMED = "x-atc-named"
"""In the schema of an argument: what the service calls it, where the argument's name had to be another."""

ALL_PAGES = "all_pages"
"""The function that reads every page of a tool, in every program's scope. A tool of this name takes its place."""

_SHADOWING = frozenset(
    [*(name for name in dir(builtins) if not name.startswith("_")), *keyword.softkwlist, *RESERVED_NAMES]
)
_MAX_READABLE = 200
_PLACEHOLDER = re.compile(r"\{([^{}]{0,200})\}")
_ACRONYM_THEN_WORD = re.compile(r"([A-Z])([A-Z][a-z])")
_LOWER_THEN_UPPER = re.compile(r"([a-z0-9])([A-Z])")
_NOT_NAME = re.compile(r"[^a-z0-9]+")
_NOT_WORD = re.compile(r"\W")
_PARTS = re.compile(r"[./:]")
_PARTS_OF_CAMEL = re.compile(r"[./:_]")  # `StopPoint_GetByType`: in a name with capitals, the underscore parts too


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
    """Make an argument's name: the original where Python takes it, in any script, else as :func:`tool_name` does.

    Args:
        original: the name that the service knows, ``"page[size]"`` or ``"X-Request-Id"`` say.

    Returns:
        An identifier without a leading underscore, no keyword; ``"from"`` gives ``from_``. It is in the normal form in
        which Python reads names.
    """
    read = unicodedata.normalize("NFKC", original) if len(original) <= MAX_NAME else ""
    if is_readable_name(read) and not read.startswith("_") and len(read) <= MAX_NAME:
        return f"{read}_" if keyword.iskeyword(read) else read
    name = _bounded(_snake(original, "arg", original), original)
    return f"{name}_" if keyword.iskeyword(name) else name


def argument_names(originals: Iterable[str]) -> dict[str, str]:
    """The names of one tool's arguments, each unique. One that stays as it is has its name before all that change."""
    made = {original: parameter_name(original) for original in originals}
    names = UniqueNames()
    taken = {each: names.take(made[each]) for each in sorted(made, key=lambda each: made[each] != each)}
    return {original: taken[original] for original in made}


def is_readable_name(text: str) -> bool:
    """Whether a text is a Python identifier, in any script: every character is seen, and Python reads it as it stands.

    Python puts names of other scripts into a normal form (NFKC) when it reads them.
    """
    if text.isascii() or len(text) > _MAX_READABLE:
        return text.isascii() and text.isidentifier()
    return text.isidentifier() and not any(map(is_invisible, text)) and unicodedata.normalize("NFKC", text) == text


def operation_names(operations: Sequence[tuple[str, str, str]]) -> list[str]:
    """The tool names of one document's operations, each unique.

    An operation has its short name only where no other of the document could have it too, whatever is imported and in
    whatever order; else the long one, made of the whole original.

    Args:
        operations: original name (an operation id, else ``"GET /path"``), method and path of each.
    """
    whole = [tool_name(original) for original, _, _ in operations]
    short = [_shorter(*operation) for operation in operations]
    claims = Counter(name for long, names in zip(whole, short, strict=True) for name in {long, *names})
    chosen = [next((name for name in names if claims[name] == 1), "") for names in short]
    unique = UniqueNames(name for name in chosen if name)
    return [name or unique.take(long) for name, long in zip(chosen, whole, strict=True)]


def function_name(operation_id: str, method: str, path: str) -> str:
    """The name of the function, where an operation id is what FastAPI makes of it: name, path and method in one.

    ``get_product_products__pid__get`` of ``GET /products/{pid}`` gives ``get_product``; any other id stays as it is.
    """
    appended = f"{_NOT_WORD.sub('_', path)}_{method.lower()}"
    return operation_id.removesuffix(appended).rstrip("_") or operation_id


def _shorter(original: str, method: str, path: str) -> list[str]:
    named = function_name(original, method, path)
    names = [tool_name(named)] if named != original else []
    if len(_snake(_PLACEHOLDER.sub(r" by \1 ", named), "tool", named)) <= LONG_NAME:
        return names
    before, brace, last = named.rpartition("{")  # only a path has placeholders; its last tells most
    text = _PLACEHOLDER.sub(" ", before) + _PLACEHOLDER.sub(r" by \1 ", brace + last)
    split = _PARTS_OF_CAMEL if re.search("[A-Z]", text) and "/" not in text else _PARTS
    parts = [_snake(part, "", part).strip("_").split("_") for part in split.split(text) if part.strip()]
    words = list(chain.from_iterable(parts))
    verb = len(words) - len(parts[-1]) if parts else 0
    return names + [tool_name("_".join(_without_middle(words, verb, kept))) for kept in (1, 2, 3)]


def _without_middle(words: list[str], verb: int, kept: int) -> list[str]:
    keep = {*range(kept), verb}
    excess = sum(map(len, words)) + len(words) - 1 - LONG_NAME
    gone = set()
    for index, word in enumerate(words):
        if excess > 0 and index not in keep:
            gone.add(index)
            excess -= len(word) + 1
    return [word for index, word in enumerate(words) if index not in gone]


class UniqueNames:
    """Hands out every name once: the second ``search`` is ``search_2``.

    Args:
        taken: names that are in use already.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[tuple[str, int], int] = {}

    def take(self, name: str, *alternatives: str) -> str:
        """Return the first of ``name`` and ``alternatives`` that is free, else ``name`` with a number."""
        for candidate in (name, *alternatives):
            if candidate not in self._taken:
                self._taken.add(candidate)
                return candidate
        name = name.rstrip("_")
        for digits in count(1):  # long names have one counter where they are cut to one: none is tried twice
            stem, least = name[: MAX_NAME - 1 - digits], 10 ** (digits - 1)
            number = self._next.get((stem, digits), max(2, least))
            while number < 10 * least and f"{stem}_{number}" in self._taken:
                number += 1
            self._next[stem, digits] = number
            if number < 10 * least:
                break
        candidate = f"{stem}_{number}"
        self._taken.add(candidate)
        return candidate


def _snake(text: str, fallback: str, original: str) -> str:
    ascii_text = normalized("NFKD", text.replace("ß", "ss")).encode("ascii", "ignore").decode("ascii")
    words = _LOWER_THEN_UPPER.sub(r"\1_\2", _ACRONYM_THEN_WORD.sub(r"\1_\2", ascii_text))
    name = _NOT_NAME.sub("_", words.lower()).strip("_")
    if not name:
        return f"{fallback}_{_digest(original)}"
    if name[0].isdigit():
        name = f"{fallback}_{name}"
    # Letters that ASCII cannot hold are gone: the hash keeps two such names apart whatever their order.
    return f"{name}_{_digest(original)}" if has_lost_letters(text) else name


def has_lost_letters(text: str) -> bool:
    """Whether a name that is made of a text does not say it: letters are gone that ASCII does not have."""
    decomposed = normalized("NFKD", text.replace("ß", "ss"))
    return any(char.isalnum() and not char.isascii() for char in decomposed)


def _bounded(name: str, original: str) -> str:
    if len(name) < MAX_NAME:  # one character is kept for the underscore that a keyword gets
        return name
    digest = _digest(original)
    return f"{name[: MAX_NAME - 2 - len(digest)].rstrip('_')}_{digest}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:6]
