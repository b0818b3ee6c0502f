"""What programs call the tools of several servers, whichever of them are up.

The names follow from what the servers have, or ever had, and not from who is up now or who came first: a client's
programs find the tools under the same names tomorrow.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath
from urllib.parse import urlsplit

from atc.tools.mcp.spec import ServerSpec
from atc.tools.names import MAX_NAME, UniqueNames, tool_name

_RUNNERS = frozenset({"python", "python3", "uvx", "uv", "npx", "node", "bunx", "deno", "pipx", "docker", "env", "sh"})
_DIGEST = 6


def labels_of(specs: Sequence[ServerSpec]) -> list[str]:
    """A name for each server: that of its configuration, else its host or its program."""
    names = UniqueNames()
    return [names.take(label_of(spec)) for spec in specs]


def label_of(spec: ServerSpec) -> str:
    """What one server is called: by its configuration, else by its host or its program."""
    if spec.name:
        return spec.name
    if spec.url:
        return tool_name(urlsplit(spec.url).hostname or "server")
    words = [spec.secrets.text(word) for word in spec.command if not word.startswith("-")]
    telling = [word for word in words if PurePath(word).name not in _RUNNERS] or words
    return tool_name(PurePath(telling[0]).stem)


def told_apart(servers: Sequence[tuple[str, Collection[str]]], taken: Collection[str]) -> list[Mapping[str, str]]:
    """The names that programs use, by the names at the servers.

    A tool has its short name where no other server has, or ever had, a tool of that name, and no tool of another
    source has it; else it is called after its server. What is still equal then ends in a digest.

    Args:
        servers: the label of each, and the names of the tools that it has or ever had. Their order does not count.
        taken: names of tools from elsewhere; they stay as they are.
    """
    bases = [{original: tool_name(original) for original in originals} for _, originals in servers]
    claims = Counter(name for names in bases for name in set(names.values()))
    made = [
        {
            original: base if claims[base] == 1 and base not in taken else tool_name(f"{label} {original}")
            for original, base in names.items()
        }
        for (label, _), names in zip(servers, bases, strict=True)
    ]
    uses = Counter(name for names in made for name in names.values())
    return [
        {
            original: name
            if name == original or (uses[name] == 1 and name not in taken)
            else _with_digest(name, f"{label}\0{original}")
            for original, name in names.items()
        }
        for (label, _), names in zip(servers, made, strict=True)
    ]


def _with_digest(name: str, whole: str) -> str:
    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{name[: MAX_NAME - 1 - _DIGEST].rstrip('_')}_{digest}"
