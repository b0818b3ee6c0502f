"""A writer that needs no model: it writes each task's own solution, by the tools that its prompt shows.

It sees what a model sees, and no more. It calls a task's own tools, and their twins in two cases: where the prompt
shows the twin alone, and where a program of this run has failed and the tool is broken. What is not shown it looks for
with ``find_tools``, once, by the words of the tool's name, as a model would that knows what it lacks; so it does for
another tool in the place of one that broke. What it does not find then, it cannot do: it answers ``None``. A response
whose keys have changed is read by the new ones, once the prompt shows them. In a drawn share of the tasks its first
program has a mistake in one argument, of the kinds that models make
(:mod:`benchmarks.programs.argument_repair_mistakes`); the next one has none. So what is measured is the choice of tools
and the runtime, not a model.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from atc.models.base import Message, Model, ModelRequest, Reply
from atc.models.reply_format import ALL_KINDS
from atc.result import Effect
from atc.run.find_tools import NAME as FIND_TOOLS
from atc.schemas.identifiers import words_of
from atc.schemas.protocol import Protocol
from benchmarks.programs.argument_repair_mistakes import MISTAKES, Draw, Place, Rule
from benchmarks.sequences.breaking import Way, renamed
from benchmarks.sequences.twins import Twin

NOTHING = "answer = None"
MISTAKEN = 4
"""One task of so many is begun with a mistake."""
CHARACTERS = 4
"""Of a token, as prompts are counted here."""
CONTEXT_TOKENS = 32_768
_SHOWN = re.compile(r"^[ \t]*(?:async )?def (\w+)\(", re.MULTILINE)
_RIGHT: Mapping[Effect, frozenset[Rule]] = {Effect.READ: frozenset({"lossless", "of a read"})}
"""Mistakes that say what was meant: all for a read, those in the spelling alone for what may write."""


@dataclass(frozen=True)
class Mistake:
    """A mistake in one argument of a program.

    Attributes:
        kind: which, as :data:`~benchmarks.programs.argument_repair_mistakes.MISTAKES` names it. ``tool``: whose
        argument. source: the program with it.
    """

    kind: str
    tool: str
    source: str


def mistaken(program: str, protocols: Mapping[str, Protocol], seed: str) -> Mistake | None:
    """Make one mistake in a program, which ``seed`` draws; ``None`` where it has no argument to make one in."""
    tree, draw = ast.parse(program), Draw(seed)
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in protocols
    ]
    places = [(f"{number} {kind}", node, kind) for number, node in enumerate(calls) for kind, _, _ in MISTAKES]
    by_name = {salt: (node, kind) for salt, node, kind in places}
    for salt in draw.shuffled("mistake", list(by_name)):
        node, kind = by_name[salt]
        assert isinstance(node.func, ast.Name)
        if _changed(node, protocols[node.func.id], kind, draw):
            return Mistake(kind, node.func.id, ast.unparse(tree))
    return None


def _changed(node: ast.Call, protocol: Protocol, kind: str, draw: Draw) -> bool:
    rule, make = next((rule, make) for name, rule, make in MISTAKES if name == kind)
    known = protocol.parameters.get("properties", {})
    given = {keyword.arg for keyword in node.keywords}
    if rule not in _RIGHT.get(protocol.effect, {"lossless"}):
        return False
    for keyword in node.keywords:
        if keyword.arg is None or not isinstance(known.get(keyword.arg), dict):
            continue
        value, literal = None, True
        try:
            value = ast.literal_eval(keyword.value)
        except ValueError:
            literal = False
        changed = make(Place(keyword.arg, value, known[keyword.arg], known, draw, kind))
        if changed is None or (not literal and not kind.startswith("key:")):
            continue
        key, other = changed
        if not key.isidentifier() or (key != keyword.arg and (key in known or key in given)):
            continue
        if literal:
            keyword.value = ast.parse(repr(other), mode="eval").body
        keyword.arg = key
        return True
    return False


@dataclass
class Script:
    """What is written for one task.

    Attributes:
        program: the task's own solution, by the names of the catalogue.
        tools: that it calls.
        twins: by the original's name. ``protocols``: of the catalogue.
        broken: how tools are broken now.
        mistake: of the first program; ``None`` for none.
        asks: it looks for tools.
        written: the programs so far.
    """

    program: str
    tools: Sequence[str]
    twins: Mapping[str, Twin]
    protocols: Mapping[str, Protocol]
    broken: Mapping[str, Way]
    mistake: Mistake | None = None
    asks: bool = True
    written: list[str] = field(default_factory=list)

    def write(self, messages: Sequence[Message]) -> str:
        """Write a program, by the tools that a prompt shows."""
        shown = {name for message in messages for name in _SHOWN.findall(message.content)}
        replaced = [tool for tool in self.tools if self._by_twin(tool, shown)]
        read_anew = [tool for tool in self.tools if tool not in replaced and self._changed(tool, messages)]
        missing = [tool for tool in self.tools if tool not in shown and tool not in replaced]
        lost = [tool for tool in self.tools if tool in self.broken and self._tried and tool not in replaced + read_anew]
        source = self._asking([*missing, *lost], shown) if missing or lost else ""
        if not source and missing:
            source = NOTHING
        elif not source and self.mistake is not None and not self._tried and self.mistake.tool not in replaced:
            source = "\n".join(_with_twins(self.mistake.source, self.twins, replaced))
        elif not source:
            source = "\n".join(_with_twins(self.program, self.twins, replaced))
            source = "\n".join(_read_anew(source, self.protocols, read_anew))
        self.written.append(source)
        return source

    def _asking(self, tools: Sequence[str], shown: set[str]) -> str:
        calls = [f"{FIND_TOOLS}(query={' '.join(words_of(tool))!r})" for tool in tools]
        new = [call for call in calls if not any(call in source for source in self.written)]
        return "\n".join(new) if self.asks and FIND_TOOLS in shown else ""

    def _by_twin(self, tool: str, shown: set[str]) -> bool:
        twin = self.twins.get(tool)
        if twin is None or twin.name not in shown:
            return False
        return tool not in shown or (tool in self.broken and self._tried)

    @property
    def _tried(self) -> bool:
        return any(source != NOTHING and FIND_TOOLS not in source for source in self.written)

    def _changed(self, tool: str, messages: Sequence[Message]) -> bool:
        if self.broken.get(tool) != "changed" or not self.written:
            return False
        keys = "|".join(map(re.escape, renamed(dict.fromkeys(_keys(self.protocols[tool].returns)))))
        return bool(keys) and any(re.search(rf"\b({keys})\b", message.content) for message in messages)


def _keys(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for part in schema for name in _keys(part)]
    if not isinstance(schema, dict):
        return []
    own = schema.get("properties")
    return [*(own if isinstance(own, dict) else ()), *(name for part in schema.values() for name in _keys(part))]


_ANEW = """
def _by_old_keys(value):
    if isinstance(value, dict):
        return {{_OLD.get(key, key): _by_old_keys(part) for key, part in value.items()}}
    return [_by_old_keys(part) for part in value] if isinstance(value, list) else value

def _{tool}(**arguments):
    return _by_old_keys({tool}(**arguments))
"""


def _read_anew(program: str, protocols: Mapping[str, Protocol], tools: Sequence[str]) -> Iterator[str]:
    if tools:
        old = {new: name for tool in tools for name in _keys(protocols[tool].returns) for new in renamed({name: 0})}
        yield f"_OLD = {old!r}"
    for tool in tools:
        yield _ANEW.format(tool=tool)
        program = re.sub(rf"\b{re.escape(tool)}\(", f"_{tool}(", program)
    yield program


def _with_twins(program: str, twins: Mapping[str, Twin], replaced: Sequence[str]) -> Iterator[str]:
    for tool in replaced:
        yield twins[tool].adapter
        program = re.sub(rf"\b{re.escape(tool)}\(", f"_{tool}(", program)
    yield program


class ScriptedModel(Model):
    """Replies with what a script writes.

    Attributes:
        script: of the task that is tried now.
    """

    enforces = ALL_KINDS
    name = "scripted"
    context_tokens = CONTEXT_TOKENS

    def __init__(self) -> None:
        self.script: Script | None = None

    async def generate(self, request: ModelRequest) -> Reply:
        assert self.script is not None  # a task is begun by its script
        text = f"```python\n{self.script.write(request.messages)}\n```"
        prompt = sum(len(message.content) for message in request.messages) // CHARACTERS
        if request.on_text is not None:
            request.on_text(text)
        return Reply(text, "stop", prompt, len(text) // CHARACTERS, 0.0, model=self.name)
