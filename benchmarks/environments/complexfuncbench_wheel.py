"""ComplexFuncBench as the wheel of nestful-wrapper has it, made into what its environment reads.

The wheel holds whole responses of the service, tens of thousands of characters each. They are cut here, or no prompt
could show them: a list has two items, a text 120 characters, an object its first 14 fields (6 farther down, and only
plain values below those), and besides every field that a later call of the same task refers to. Of the 1,000 tasks the
half is taken that the published figures are of; the other one is held back.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ITEMS, CHARACTERS, FIELDS, DEEP_FIELDS = 2, 120, 14, 6
PLAIN_FROM = 3
"""Objects at this depth keep no objects and lists but those that are referred to."""
FOLDER = "executable/complexfuncbench"

Json = dict[str, Any]
Ways = frozenset[tuple[str, ...]]
_REFERENCE = re.compile(r"\$(var\d+)\.([^$]*)\$")


def convert(wheel: Path, to: Path) -> int:
    """Write the tasks and tools of the wheel into a data directory; return how many tasks there are."""
    with zipfile.ZipFile(wheel) as archive:
        records = json.loads(archive.read("data_v1/complexfuncbench/complexfuncbench-data.json"))
        tools = json.loads(archive.read("data_v1/complexfuncbench/complexfuncbench-spec.json"))
    tasks = [_task(number, record) for number, record in enumerate(records) if in_half(record["input"])]
    folder = to / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "tasks.jsonl.gz", tasks)
    _write(folder / "tools.jsonl.gz", map(_tool, tools))
    return len(tasks)


def in_half(text: str) -> bool:
    """Whether a task belongs to the half that figures may be made of."""
    key = " ".join(text.split()).lower()
    return int(hashlib.sha1(key.encode()).hexdigest()[:8], 16) % 2 == 0


def _task(number: int, record: Json) -> Json:
    steps, answered = [], dict[str, Any]()
    for step in record["output"]:
        response = cut(step["response"], _asked_of(step["label"], record["output"]))
        answered[step["label"]] = response
        steps.append(
            {
                "label": step["label"],
                "tool": step["name"],
                "args": step["arguments"],
                "resolved": {name: _resolved(value, answered) for name, value in step["arguments"].items()},
                "response": response,
            }
        )
    return {"id": f"cfb/{number}", "query": " ".join(record["input"].split()), "gold": steps}


def _tool(tool: Json) -> Json:
    kept = {name: tool[name] for name in ("name", "description", "host", "endpoint")}
    return kept | {"parameters": tool["query_parameters"]}


def _asked_of(label: str, steps: Iterable[Json]) -> Ways:
    """The ways into the response of a call along which some call of the task refers to it."""
    written = json.dumps([step["arguments"] for step in steps])
    return frozenset(tuple(way.split(".")) for name, way in _REFERENCE.findall(written) if name == label)


def _resolved(value: Any, answered: dict[str, Any]) -> Any:
    """An argument with a reference replaced by what it refers to; a list on the way stands for its first item."""
    match = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value
    found = answered[match[1]]
    for name in match[2].split("."):
        while isinstance(found, list):
            found = found[0]
        found = found[name]
    return found


def cut(value: Any, kept: Ways = frozenset(), depth: int = 0) -> Any:
    """A response cut to what a prompt can show.

    Args:
        kept: ways of fields that stay, whatever their place.
    """
    if isinstance(value, str):
        return value[:CHARACTERS]
    if isinstance(value, list):
        return [cut(item, kept, depth + 1) for item in value[:ITEMS]]
    if not isinstance(value, dict):
        return value
    asked = {way[0] for way in kept if way}
    others = [name for name in value if name not in asked]
    if depth >= PLAIN_FROM:
        others = [name for name in others if not isinstance(value[name], dict | list)]
    chosen = asked.union(others[: DEEP_FIELDS if depth >= 2 else FIELDS])
    return {
        name: cut(part, frozenset(way[1:] for way in kept if way and way[0] == name), depth + 1)
        for name, part in value.items()
        if name in chosen
    }


def _write(path: Path, lines: Iterable[Json]) -> None:
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    draft = path.with_name(f".{path.name}.new")
    draft.write_bytes(gzip.compress(text.encode(), mtime=0))
    os.replace(draft, path)
