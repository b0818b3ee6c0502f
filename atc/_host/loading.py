"""Import code that the user has named: to name it is the user's consent, and it runs on the trusted side."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any

from atc.errors import UsageError

_READ: ContextVar[Path | None] = ContextVar("atc_file_that_is_read", default=None)
"""The file that is imported for what it defines."""


def names_code(text: str) -> bool:
    """Return whether a word has the form ``FILE.py:NAME`` or ``MODULE:NAME``."""
    place, _, name = text.rpartition(":")
    return bool(place) and name.isidentifier()


def load_named(text: str) -> Any:
    """Return what ``FILE.py:NAME`` or ``MODULE:NAME`` names.

    Raises:
        UsageError: there is no such file, module or name, or the import fails.
    """
    place, _, name = text.rpartition(":")
    module = load_file(Path(place)) if place.endswith(".py") else load_module(place)
    if not hasattr(module, name):
        raise UsageError(f"{text!r}: {module.__name__} has no {name}")
    return getattr(module, name)


def load_file(path: Path) -> ModuleType:
    """Import a file, as ``python FILE`` would.

    Raises:
        UsageError: there is none, or the import fails.
    """
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    name = _module_name(path)
    if name in sys.modules:
        name = _own_name(path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.append(folder)  # for what it imports from beside it; last, so that it hides nothing
    sys.modules[name] = module
    within = _READ.set(path)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        reason = str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}"
        raise UsageError(f"{path} cannot be imported: {reason}") from error
    finally:
        _READ.reset(within)
    return module


def refuse_within_import() -> None:
    """Refuse to begin a run while a file is read for what it defines: else each command that names it would begin one.

    Raises:
        UsageError: a file is being read.
    """
    if (path := _READ.get()) is not None:
        raise UsageError(
            f'{path.name} begins a run while it is read for its tools: put that part below `if __name__ == "__main__":`'
        )


def module_of(thing: Any) -> str:
    """Return the module that defines a function; of the script that runs, the name that :func:`load_file` gives it.

    So a tool of a script stays the same one when a later command reads the script for its tools.
    """
    module = getattr(thing, "__module__", None) or "builtins"
    if module != "__main__":
        return str(module)
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None and not spec.name.endswith("__main__"):
        return str(spec.name)
    return _module_name(Path(file)) if spec is None and file and file.endswith(".py") else module


def _module_name(path: Path) -> str:
    name = path.stem
    return _own_name(path) if name in sys.stdlib_module_names or not name.isidentifier() else name


def _own_name(path: Path) -> str:
    return f"tools_{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:8]}"


def load_module(name: str) -> ModuleType:
    """Import a module by its name, also one of the working folder.

    Raises:
        UsageError: the import fails.
    """
    sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise UsageError(f"module {name} cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove("")
