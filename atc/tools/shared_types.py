"""Types of responses that several tools share: written once, with a name, where that is shorter."""

from __future__ import annotations

import keyword
from collections.abc import Collection, Mapping
from dataclasses import replace

from atc.schemas.types import camel
from atc.tools.stubs import Stub

LEAST = 100
"""Characters of a type that gets a name."""
MAX_NAMED = 50
"""Types that may get a name: those that take the most room."""
_END = '\n    """'


def with_shared_types(stubs: Mapping[str, Stub], taken: Collection[str]) -> dict[str, Stub]:
    """Return stubs in which each type of a record that several of them return is written once.

    Its first tool has a line ``Order = {…}`` behind what it returns; all others have the name."""
    returning: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for tool, stub in stubs.items():
        for text in dict.fromkeys(text for _, text in stub.records if len(text) >= LEAST):
            returning.setdefault(text, []).append(tool)
        for name, text in stub.records:
            names.setdefault(text, camel(name) if name else f"{camel(tool)}Response")
    often = [text for text, tools in returning.items() if len(tools) > 1]
    often = sorted(sorted(often, key=lambda text: -len(text) * len(returning[text]))[:MAX_NAMED], key=len, reverse=True)
    made, used = dict(stubs), {*taken, *(name for stub in stubs.values() for name in stub.classes)}
    for text in often:
        having = [tool for tool in returning[text] if text in made[tool].function]
        name = _unused(names[text], used)
        count = sum(made[tool].function.count(text) for tool in having)
        if len(having) < 2 or (count - 1) * len(text) <= (count + 2) * len(name):
            continue  # what holds it has a name already
        for tool in having:
            made[tool] = replace(made[tool], function=made[tool].function.replace(text, name))
        first = made[having[0]]
        head, end, _ = first.function.rpartition(_END)
        made[having[0]] = replace(first, function=f"{head}\n    {name} = {text}{end}")
        used.add(name)
    return made


def _unused(name: str, used: Collection[str]) -> str:
    number, candidate = 2, name
    while candidate in used or keyword.iskeyword(candidate):
        number, candidate = number + 1, f"{name}{number}"
    return candidate
