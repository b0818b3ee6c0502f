"""Questions of users and sentences about tools, made by a model: one request for all tools of a service (ATC §4.1).

A reply is data: of it is kept what is a question of somebody who knows no tools, and a sentence in a model's words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
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
from atc.wording.questions import MAX_QUESTION

TOOLS_A_REQUEST = 15
"""Tools of one request: a service of more takes several."""
MAX_RESPONSE = 500
"""Characters of an answer that are shown."""
_TOKENS_A_TOOL = 80
_COPIED, _MAX_TEXT = 4, 10_000
"""Words in turn that are a service's own, and characters of one of its texts that are looked at."""
_CODE = re.compile(r"://|www\.|[`{}<>=@\\]|\w\(")
_TEXT = {"type": "string", "maxLength": 300}
_WORDS = {"type": "object", "properties": {"question": _TEXT, "returns": _TEXT}}


@dataclass(frozen=True)
class Untold:
    """A documented tool whose question or sentence is not a model's yet."""

    protocol: Protocol
    record: Record

    @property
    def shown(self) -> dict[str, str]:
        """What the prompt says of it."""
        first, demonstration = self.record.instances[0], self.record.demonstration
        arguments = demonstration.arguments if demonstration else first.arguments
        response = next(
            (each.response for each in self.record.instances if each.arguments == arguments), first.response
        )
        program = demonstration.program if demonstration else literal_call(self.protocol, arguments)
        text = json.dumps(shortened(response), ensure_ascii=False)[:MAX_RESPONSE]
        return {"name": self.protocol.name, "program": fenced(program.strip()), "response": fenced(text)}

    def take(self, said: Mapping[str, Any], names: Collection[str]) -> None:
        """Keep what a reply says of the tool, if it may be kept."""
        question, returns = (one_line(str(said.get(key) or "")).strip("`\"' ") for key in ("question", "returns"))
        wanted = not described(self.protocol) and not self.record.description
        if returns and wanted and is_general(returns, self.record, names):
            self.record.description = returns
        if (shown := self.record.demonstration) and is_users(question, self.record, names):
            self.record.demonstration = replace(shown, question=question, asked=True)


def untold(protocols: Mapping[str, Protocol], records: Mapping[str, Record]) -> list[Untold]:
    """The documented tools that a model is asked about.

    Args:
        protocols: as their source declares them, by name.
        records: of all tools.
    """
    known = [Untold(protocols[name], each) for name, each in records.items() if each.state == "documented"]
    return [
        each
        for each in known
        if each.record.instances
        if not (described(each.protocol) or each.record.description)
        or (each.record.demonstration is not None and not each.record.demonstration.asked)
    ]


async def ask(asker: Asker, tools: Sequence[Untold], names: Collection[str]) -> None:
    """Ask a model for the words; without an answer, those of structure stay.

    Args:
        tools: that are asked about. ``names``: of all tools.
    """
    for start in range(0, len(tools), TOOLS_A_REQUEST):
        some = tools[start : start + TOOLS_A_REQUEST]
        text = prompt("probe_questions", tools=[each.shown for each in some])
        schema = {"type": "object", "properties": {each.protocol.name: _WORDS for each in some}}
        try:
            said = await asker.json(text, schema, tokens=_TOKENS_A_TOOL * len(some) + 40)
        except (BudgetExceeded, ModelError, ModelUnavailable):
            return  # the tools are documented all the same
        for each in some:
            if isinstance(words := said.get(each.protocol.name), dict):
                each.take(words, names)


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


def is_users(question: str, record: Record, names: Collection[str]) -> bool:
    """Whether somebody asks so who knows no tools: with no tool's name, and no identifier that only tools know."""
    if not 8 <= len(question) <= MAX_QUESTION or masked_text(question) != question or named_tools(question, names):
        return False
    known = {str(value) for each in record.instances for name, value in _leaves(each) if unknowable(name, value)}
    return known.isdisjoint(re.findall(r"[\w-]+", question))


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
