"""Where the data that ships with ATC lies: ``prompts/``, ``protocols/`` and the untrusted ``sandbox/``.

In a checkout they stand beside the package; in a wheel they lie inside it. They are never importable packages.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


@cache
def resource_dir(name: str) -> Path:
    """Return the folder ``name`` (``prompts``, ``protocols`` or ``sandbox``).

    Raises:
        FileNotFoundError: the installation is incomplete.
    """
    for base in (_PACKAGE, _PACKAGE.parent):
        path = base / name
        if path.is_dir() and not (path / "__init__.py").exists():
            return path
    where = f"looked in {_PACKAGE} and beside it"
    raise FileNotFoundError(f"atc is installed without its {name}/ folder ({where}): reinstall it")
