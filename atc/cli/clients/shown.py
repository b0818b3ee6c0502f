"""The change of a client's servers as a user sees it: unified, and without what may be a credential."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import unified_diff
from typing import Any

from atc.cli.clients.clients import Client
from atc.cli.clients.documents import snippet
from atc.tools.mcp.spec import in_arguments, in_url, sort_values

MASK = "***"
_MOST_WORDS = 1_000
_HIDDEN = frozenset({"env", "envs", "environment", "headers", "http_headers", "env_http_headers", "requestinit"})
_RANDOM = re.compile(r"(?<![\w.~%+=-])(?=[\w.~%+=-]*[0-9])(?=[\w.~%+=-]*[A-Za-z])[\w.~%+=-]{24,}+")


def shown_diff(client: Client, before: Mapping[str, Any], after: Mapping[str, Any], name: str) -> str:
    """The lines of the servers that differ, with three around them: nothing else in the file changes."""
    old, new = (snippet(client, _masked(each, "")).splitlines() if each else [] for each in (before, after))
    return "\n".join(unified_diff(old, new, name, name, lineterm="")) + "\n"


def _masked(value: Any, key: str) -> Any:
    if isinstance(value, Mapping):
        hidden = key.lower() in _HIDDEN
        return {str(each): _hidden(item) if hidden else _masked(item, str(each)) for each, item in value.items()}
    if key and sort_values({key: "x"})[0]:
        return _hidden(value)
    if isinstance(value, list):
        words = [item for item in value if isinstance(item, str)]
        told = in_arguments(words) if 0 < len(words) < _MOST_WORDS else words
        told = [word for word in told if len(word) > 3]
        return [
            MASK if isinstance(item, str) and any(each in item for each in told) else _masked(item, "")
            for item in value
        ]
    if not isinstance(value, str):
        return value
    if "://" in value and any(len(each) > 3 for each in in_url(value)):
        return MASK
    return _RANDOM.sub(MASK, value)


def _hidden(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _hidden(item) for key, item in value.items()}
    return [_hidden(item) for item in value] if isinstance(value, list) else MASK
