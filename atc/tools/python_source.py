"""Tools out of the user's own Python: ``FILE.py``, ``FILE.py:NAME`` and ``MODULE:NAME``. Naming it is the consent."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from atc.errors import ToolImportError, UsageError
from atc.loading import load_file, load_module
from atc.tools.functions import tool_from_function
from atc.tools.tool import Tool, Toolset


def is_file(word: str) -> bool:
    """Whether a word names a Python file, or something in one."""
    return _parts(word)[0].endswith(".py")


def is_attribute(word: str) -> bool:
    """Whether a word may name something in a module."""
    return bool(_parts(word)[1])


def tools_of(word: str) -> Toolset:
    """The tools of a file or a module: all public functions, or what is named in it.

    Raises:
        ToolImportError: it cannot be imported, or what is named there holds no tools.
    """
    name, attribute = _parts(word)
    if name.endswith(".py"):
        return _from_module(_loaded(lambda: load_file(Path(name))), attribute, word)
    return _from_module(_loaded(lambda: load_module(name), f"{word!r}: "), attribute, word)


def _parts(word: str) -> tuple[str, str]:
    name, colon, attribute = word.rpartition(":")
    return (name, attribute) if colon else (word, "")


def _loaded(load: Callable[[], ModuleType], about: str = "") -> ModuleType:
    try:
        return load()
    except UsageError as error:
        raise ToolImportError(f"{about}{error}") from error


def _from_module(module: ModuleType, attribute: str, source: str) -> Toolset:
    if not attribute:
        functions = [
            f
            for n, f in vars(module).items()
            if inspect.isfunction(f) and f.__module__ == module.__name__ and not n.startswith("_")
        ]
        if not functions:
            raise ToolImportError(f"{source} defines no public function")
        return Toolset.from_functions(*functions)
    if not hasattr(module, attribute):
        raise ToolImportError(f"{source!r}: {module.__name__} has no {attribute}")
    found = getattr(module, attribute)
    if isinstance(found, Toolset):
        return found
    if isinstance(found, Tool):
        return Toolset([found])
    if isinstance(found, Iterable) and not isinstance(found, str | bytes | dict):
        return _from_items(list(found), source)
    if callable(found):
        return _from_callable(found, source)
    raise ToolImportError(f"{source!r} is a {type(found).__name__}: give a Toolset, a function, or a list of functions")


def _from_items(items: list[Any], source: str) -> Toolset:
    if not items or not all(isinstance(item, Tool) or callable(item) for item in items):
        raise ToolImportError(f"{source!r} must be a list of functions or tools, and not empty")
    return Toolset(item if isinstance(item, Tool) else tool_from_function(item) for item in items)


def _from_callable(found: Callable[..., Any], source: str) -> Toolset:
    """A function is a tool, unless it is annotated to return a toolset."""
    annotation = getattr(found, "__annotations__", {}).get("return")
    if annotation in (Toolset, "Toolset"):
        try:
            made = found()
        except Exception as error:
            raise ToolImportError(f"{source!r} failed: {type(error).__name__}: {error}") from error
        if isinstance(made, Toolset):
            return made
        raise ToolImportError(f"{source!r} did not return the Toolset that it promised")
    return Toolset.from_functions(found)
