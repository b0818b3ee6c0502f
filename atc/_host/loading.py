"""Import code that the user has named: to name it is the user's consent, and it runs on the trusted side."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from atc.errors import UsageError


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
    name = path.stem
    if name in sys.modules or name in sys.stdlib_module_names or not name.isidentifier():
        digest = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()
        name = f"tools_{digest[:8]}"  # a place that is nobody else's
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.append(folder)  # for what it imports from beside it; last, so that it hides nothing
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UsageError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module


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
