"""Finds how to add an optional part of ATC to the installation that runs, and how to have the same one again."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

_NAME = "atc-runtime"
_TOOLS = {"uv-receipt.toml": "uv tool install", "pipx_metadata.json": "pipx install --force"}
"""How ATC is installed as a tool, by the file that the installer leaves in the tool's environment."""
_REQUIREMENT = re.compile(r"""([\w.-]++)[^;]*+;.*\bextra\s*+==\s*+["']([\w.-]++)["']""")


def install_command(*extras: str) -> str:
    """Return the command that adds extras to this installation: a checkout is named by its folder, all else by name.

    An installed package satisfies its own name, so pip fetches what the extras need and not the package again. What uv
    or pipx installed as a tool is in an environment that pip does not see: there the tool is installed anew, with them.
    """
    if installer := next((each for file, each in _TOOLS.items() if (Path(sys.prefix) / file).is_file()), ""):
        return f"{installer} {shlex.quote(requirement(*extras))}"
    named = f"[{','.join(extras)}]"
    folder = _checkout()
    return f"pip install {shlex.quote(f'{_NAME}{named}') if folder is None else f'-e {shlex.quote(folder + named)}'}"


def requirement(*extras: str) -> str:
    """Return what installs this ATC anew, elsewhere, for pip, uvx and pipx: its wheel, folder, address or repository.

    Only what came from an index is called by its name. The extras that are complete here are there again.

    Args:
        *extras: to have beside those.
    """
    named = f"[{','.join(sorted({*extras, *_present()}))}]"
    origin = _origin()
    url = str(origin.get("url", ""))
    if not url:
        return f"{_NAME}{named}"
    if url.startswith("file:") and "vcs_info" not in origin:
        return f"{_path(url)}{named}"
    vcs = origin.get("vcs_info")
    if isinstance(vcs, Mapping):
        url = f"{vcs.get('vcs', 'git')}+{url}@{vcs.get('commit_id', 'HEAD')}"
    folder = origin.get("subdirectory")
    return f"{_NAME}{named} @ {url}{f'#subdirectory={folder}' if folder else ''}"


def _checkout() -> str | None:
    origin = _origin()
    about = origin.get("dir_info")
    return _path(str(origin.get("url"))) if isinstance(about, Mapping) and about.get("editable") else None


@cache
def _origin() -> Mapping[str, Any]:
    """Return where the installation came from (PEP 610); empty if from an index, or nobody noted it."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        about = json.loads(distribution(_NAME).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return {"url": Path(__file__).parents[2].as_uri(), "dir_info": {"editable": True}}
    except ValueError:
        return {}
    return about if isinstance(about, dict) else {}


def _path(url: str) -> str:
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    return url2pathname(urlsplit(url).path)


@cache
def _present() -> frozenset[str]:
    from importlib.metadata import PackageNotFoundError, distribution, requires

    try:
        found = [_REQUIREMENT.match(line) for line in requires(_NAME) or ()]
    except PackageNotFoundError:
        return frozenset()
    needed: dict[str, list[str]] = {}
    for match in filter(None, found):
        if match[1] != _NAME:
            needed.setdefault(match[2], []).append(match[1])

    def is_installed(package: str) -> bool:
        try:
            return bool(distribution(package))
        except PackageNotFoundError:
            return False

    return frozenset(extra for extra, packages in needed.items() if all(map(is_installed, packages)))
