"""Sentences about tools that came without one, made by a model: one request for all tools of a service (ATC §4.1).

A reply is data: of it a sentence in a model's own words is kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from atc.errors import BudgetExceeded, ModelError, ModelUnavailable
from atc.probing.asking import Asker, one_line
from atc.probing.candidates import literal_call
from atc.probing.demonstrations import unknowable
from atc.probing.document import described, shortened
from atc.probing.record import Instance, Record
from atc.schemas.infer.text import masked_text
from atc.schemas.protocol import Protocol
from atc.wording.prompting import fenced, prompt

TOOLS_A_REQUEST = 15
"""Tools of one request: a service of more takes several."""
MAX_RESPONSE = 500
"""Characters of an answer that are shown."""
_TOKENS_A_TOOL = 80
_COPIED, _MAX_TEXT = 4, 10_000
"""Words in turn that are a service's own, and characters of one of its texts that are looked at."""
_CODE = re.compile(r"://|www\.|[`{}<>=@\\]|\w\(")
_SENTENCE = {"type": "string", "maxLength": 300}


async def describe(asker: Asker, protocols: Mapping[str, Protocol], records: Mapping[str, Record]) -> None:
    """Ask a model for a sentence on each documented tool that has none; without an answer, it stays without one.

    Args:
        protocols: as their source declares them, by name.
        records: of all tools.
    """
    known = [each for each in records.values() if each.state == "documented" and each.instances]
    tools = [each for each in known if not (described(protocols[each.name]) or each.description)]
    for start in range(0, len(tools), TOOLS_A_REQUEST):
        some = tools[start : start + TOOLS_A_REQUEST]
        text = prompt("probe_descriptions", tools=[_shown(protocols[each.name], each) for each in some])
        schema = {"type": "object", "properties": {each.name: _SENTENCE for each in some}}
        try:
            said = await asker.json(text, schema, tokens=_TOKENS_A_TOOL * len(some) + 40)
        except (BudgetExceeded, ModelError, ModelUnavailable):
            return  # the tools are documented all the same
        for each in some:
            sentence = one_line(str(said.get(each.name) or "")).strip("`\"' ")
            if sentence and is_general(sentence, each, records):
                each.description = sentence


def _shown(protocol: Protocol, record: Record) -> dict[str, str]:
    first = record.instances[0]
    text = json.dumps(shortened(first.response), ensure_ascii=False)[:MAX_RESPONSE]
    call = literal_call(protocol, first.arguments)
    return {"name": protocol.name, "call": fenced(call), "response": fenced(text)}


def is_general(sentence: str, record: Record, names: Collection[str]) -> bool:
    """Whether a sentence may describe a tool in its document, which other models read as the tool's own word: it says
    nothing of tools, addresses or single values, and nothing in the service's words."""
    if masked_text(sentence) != sentence or _CODE.search(sentence) or named_tools(sentence, names):
        return False
    values = [(name, value) for each in record.instances for name, value in _leaves(each)]
    known = {str(value) for name, value in values if unknowable(name, value)}
    theirs = {part for _, value in values if isinstance(value, str) for part in _parts(value[:_MAX_TEXT])}
    return known.isdisjoint(re.findall(r"[\w-]+", sentence)) and theirs.isdisjoint(_parts(sentence))


def _parts(text: str) -> list[tuple[str, ...]]:
    """So many words in turn as nobody finds twice by chance."""
    words = re.findall(r"\w+", text.casefold())
    return [tuple(words[at : at + _COPIED]) for at in range(len(words) - _COPIED + 1)]


def named_tools(text: str, names: Collection[str]) -> list[str]:
    """The tools that a text names; one of a single plain word only where it is called: ``distance(…)``."""
    said = set(re.findall(r"\w+", text))
    called = set(re.findall(r"(\w+)\s?\(", text))
    return [name for name in names if name in called or (name in said and not (name.isalpha() and name.islower()))]


def _leaves(instance: Instance) -> list[tuple[str, Any]]:
    found = list(instance.arguments.items())
    todo = [instance.response]
    while todo and len(found) < 2_000:
        each = todo.pop()
        items = each.items() if isinstance(each, dict) else ()
        found += [(str(key), value) for key, value in items if isinstance(value, str | int)]
        inside = each if isinstance(each, list) else [value for _, value in items]
        todo += [value for value in inside if isinstance(value, dict | list)]
    return found
