"""Where sandboxes stood before :mod:`atc.sandboxes`: what the documents named here works for one more version."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def moved(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module whose names stand elsewhere now.

    Args:
        module: the module's old name.
        names: for each name, the module that has it now.
    """

    def __getattr__(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(f"{module}.{name} is now {names[name]}.{name}", DeprecationWarning, stacklevel=2)
        return getattr(import_module(names[name]), name)

    return __getattr__
