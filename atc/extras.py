"""How to add an optional part of ATC to the installation that runs."""

from __future__ import annotations

import json
import shlex
from functools import cache
from pathlib import Path


def install_command(*extras: str) -> str:
    """Return the command that adds extras to this installation: a checkout is named by its folder, all else by name.

    An installed package satisfies its own name, so pip fetches what the extras need and not the package again.
    """
    named = f"[{','.join(extras)}]"
    folder = _checkout()
    return (
        f"pip install {shlex.quote(f'atc-runtime{named}') if folder is None else f'-e {shlex.quote(folder + named)}'}"
    )


@cache
def _checkout() -> str | None:
    """Return the folder of sources that ATC runs from (PEP 610); ``None`` if it was copied from a package."""
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        about = json.loads(distribution("atc-runtime").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return str(Path(__file__).parents[1])
    except ValueError:
        return None
    is_editable = isinstance(about, dict) and (about.get("dir_info") or {}).get("editable")
    return url2pathname(urlsplit(about["url"]).path) if is_editable else None
