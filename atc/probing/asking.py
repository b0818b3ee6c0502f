"""What a model is asked about tools that structure cannot call (ATC §4.1, §4.2): values for words of the domain.

One request a round speaks of all such tools together. The reply is values, never a program: structure tries them as it
tries its own candidates, so a model can have nothing called that structure would not call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from atc.calls.json_values import canonical
from atc.models.base import Message, Model
from atc.probing.candidates import LIKELY, MAX_TEXT, Candidate, ValuePool, literal_call
from atc.probing.document import enforced
from atc.probing.record import Record, printable
from atc.schemas.identifiers import HANDED_OUT, NAMES, THINGS, is_identifier, words_of
from atc.schemas.infer.text import MASKED, is_secret_name, looks_secret, may_be_name
from atc.schemas.protocol import Protocol
from atc.schemas.repair.arguments import repair_arguments
from atc.schemas.telltales import names_act
from atc.settings import Settings
from atc.tools.stubs import render_stub
from atc.wording.prompting import fenced, prompt

MAX_PROPOSED = 4
"""Values of one argument that one reply may hold."""
TOOLS_A_REQUEST, SHOWN_A_REQUEST = 15, 8_000
"""Tools of one request, and characters that show them; more tools are more requests."""
MAX_ARGUMENTS = 10
"""Arguments of one tool that are asked for: the required ones first."""
MAX_MESSAGES, MAX_STUB, MAX_CALL = 4, 1_200, 300
"""Refusals of one tool that are shown, and characters of its stub and of a call."""
MAX_ANSWERS, MAX_ANSWER, MAX_LEAVES = 12, 240, 500
"""Other tools whose answers are shown, characters of each, and values of one answer that are looked at."""
TITLE = "values of arguments"
"""Tells a request for values from all others."""
_TOKENS_A_TOOL = 100
_SENTENCE_CHARACTERS = 200

Proposals = Mapping[str, Mapping[str, Sequence[Any]]]
"""By tool and argument: the values that a model proposes, as it wrote them."""


@dataclass(frozen=True)
class Lacking:
    """A tool that lacks a value.

    Attributes:
        record: what is known of it.
        protocol: its document so far.
        schema: of its arguments.
        undeclared: it takes arguments that its document does not name.
    """

    record: Record
    protocol: Protocol
    schema: Mapping[str, Any]
    undeclared: bool = False

    @property
    def arguments(self) -> list[str]:
        """The names of the arguments that are asked for."""
        required = list(self.schema.get("required", ()))
        named = [*required, *(name for name in self.schema.get("properties", {}) if name not in required)]
        return [name for name in named if len(name) <= 100 and not is_secret_name(name)][:MAX_ARGUMENTS]

    def takes(self, name: str) -> bool:
        """Whether an argument has this name: by the document or, where it declares none, by the service's messages."""
        if name in self.schema.get("properties", {}):
            return not is_secret_name(name)
        named = self.undeclared and name.isidentifier() and may_be_name(name) and not is_secret_name(name)
        return named and self.was_told(name)

    def was_told(self, text: str) -> bool:
        """Whether the service wrote a text, as a word of its own, when it refused a call."""
        word = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)")
        return any(word.search(refusal.service_message) for refusal in self.record.refusals)


@dataclass(frozen=True)
class Asker:
    """Asks the model; its temperature rises with each attempt, so that it thinks of something else."""

    model: Model
    settings: Settings

    async def values(self, lacking: Sequence[Lacking], answers: Sequence[str], attempt: int) -> Proposals:
        """Ask for values that the arguments of these tools may take, in one request or, of many tools, in several.

        Args:
            lacking: the tools, by need.
            answers: what other tools answered, a line each (:func:`answers_of`).
            attempt: how often was asked before.

        Returns:
            what the model wrote, of which nothing is checked but its form: see :func:`accepted`.

        Raises:
            BudgetExceeded, ModelError, ModelUnavailable: from the model.
        """
        found: dict[str, Mapping[str, Sequence[Any]]] = {}
        for batch in _batches([(tool, _shown(tool)) for tool in lacking]):
            tools = [tool for tool, _ in batch]
            text = prompt(
                "probe_values",
                tools=[shown for _, shown in batch],
                answers=[fenced(line) for line in answers],
                most=MAX_PROPOSED,
            )
            said = await self.json(
                text, _reply_schema(tools), tokens=_TOKENS_A_TOOL * (len(tools) + 1), attempt=attempt
            )
            found |= {tool.record.name: said[tool.record.name] for tool in tools if tool.record.name in said}
        return found

    async def json(self, text: str, schema: dict[str, Any], *, tokens: int, attempt: int = 0) -> dict[str, Any]:
        """Ask for an object that fits a schema; one that does not fit after a second try is empty.

        Args:
            text: the whole prompt.
            schema: of an object.
            tokens: the most that the reply may have.
            attempt: how often the same was asked before.

        Raises:
            BudgetExceeded, ModelError, ModelUnavailable: from the model.
        """
        reply = await self.model.complete(
            [Message("user", text)],
            max_tokens=min(tokens, self.settings.max_tokens),
            temperature=0.0 if attempt < 1 else 0.7,
            seed=self.settings.seed + attempt,
            schema=schema,
        )
        return reply.value if not reply.problem and isinstance(reply.value, dict) else {}


def accepted(lacking: Lacking, proposed: Mapping[str, Sequence[Any]], pool: ValuePool) -> dict[str, list[Candidate]]:
    """The proposals of a reply that may be tried, as candidates by argument.

    Left out are values of arguments that the tool does not take, of another type, refused before, with the look of a
    secret, or that say that something be changed (``action=delete``). An identifier is nothing that a model can know:
    it must stand in an answer, and is fetched from there, or in the service's own message.
    """
    found: dict[str, list[Candidate]] = {}
    for name, values in proposed.items():
        if not lacking.takes(name):
            continue
        refused = lacking.record.refused_values(name)
        for value in values[:MAX_PROPOSED]:
            candidate = _candidate(lacking, name, value, pool)
            if candidate is not None and canonical(candidate.value) not in refused:
                found.setdefault(name, []).append(candidate)
    return found


def _candidate(lacking: Lacking, name: str, value: Any, pool: ValuePool) -> Candidate | None:
    if isinstance(value, str):
        value = value.strip()
    usable = isinstance(value, str | int | float) and 0 < len(str(value)) <= MAX_TEXT and str(value).isprintable()
    if not usable or looks_secret(str(value)) or str(value) == MASKED or names_act(name, value):
        return None
    if is_identifier(name, THINGS | HANDED_OUT):
        seen = pool.find(value)
        if seen is not None:
            return Candidate(seen.value, LIKELY, seen)
        if not lacking.was_told(str(value)):
            return None
    if name not in lacking.schema.get("properties", {}):
        return Candidate(value, LIKELY)
    one = {**enforced({"properties": {}, **lacking.schema}), "required": []}
    repaired = repair_arguments(one, {name: value})
    return None if repaired.problems or name not in repaired.arguments else Candidate(repaired.arguments[name], LIKELY)


def answers_of(records: Iterable[Record], lacking: Sequence[Lacking]) -> list[str]:
    """What documented tools answered, a line each: names and values of fields; what shares words with the lacking ones
    comes first.
    """
    about = {word for tool in lacking for text in (tool.record.name, *tool.arguments) for word in words_of(text)}
    known = [record for record in records if record.state == "documented" and record.instances]
    known.sort(key=lambda record: -len(about.intersection(words_of(record.name))))
    lines = ((record.name, _fields(record)) for record in known[:MAX_ANSWERS])
    return [f"{name}: {text}" for name, text in lines if text]


def _fields(record: Record) -> str:
    values: dict[str, list[str]] = {}
    for instance in record.instances:
        for path, value in islice(_leaves(instance.response, "", 0), MAX_LEAVES):
            written = json.dumps(value, ensure_ascii=False)
            kept = values.setdefault(path, [])
            if len(written) <= 60 and written not in kept and len(kept) < 3 and value != MASKED:
                kept.append(written)
    parts: list[str] = []
    for path in sorted(values, key=_importance):
        part = f"{path} = {', '.join(values[path])}"
        if values[path] and sum(map(len, parts)) + len(part) <= MAX_ANSWER:
            parts.append(part)
    return "; ".join(parts)


def _importance(path: str) -> int:
    last = path.rpartition(".")[2]
    return 0 if not NAMES.isdisjoint(words_of(last)[-1:]) else 1 if is_identifier(last) else 2


def _leaves(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    if depth > 6:
        return
    if isinstance(value, dict):
        for key, item in list(value.items())[:60]:
            if may_be_name(key):
                yield from _leaves(item, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(value, list):
        for item in value[:3]:
            yield from _leaves(item, f"{path}[]", depth + 1)
    elif isinstance(value, str | int | float) and not isinstance(value, bool) and path:
        yield path, value


@dataclass(frozen=True)
class _Shown:
    """What a prompt shows of a tool: its signature, and its last refusals, one for each message of the service.

    ``empty``: it answered, but with nothing in it.
    """

    stub: str
    empty: bool
    refusals: tuple[str, ...]


def _shown(tool: Lacking) -> _Shown:
    stub = render_stub(tool.protocol.model_copy(update={"returns": None, "examples": ()}))[:MAX_STUB]
    last = {one_line(refusal.service_message): refusal for refusal in tool.record.refusals}
    lines = [f"{literal_call(tool.protocol, last[text].arguments)[:MAX_CALL]}: {text}" for text in last]
    return _Shown(fenced(stub), tool.record.answered > 0, tuple(map(fenced, lines[-MAX_MESSAGES:])))


def _batches(tools: Sequence[tuple[Lacking, _Shown]]) -> Iterator[list[tuple[Lacking, _Shown]]]:
    batch: list[tuple[Lacking, _Shown]] = []
    size = 0
    for tool, shown in tools:
        more = len(shown.stub) + sum(map(len, shown.refusals))
        if batch and (len(batch) == TOOLS_A_REQUEST or size + more > SHOWN_A_REQUEST):
            yield batch
            batch, size = [], 0
        batch.append((tool, shown))
        size += more
    if batch:
        yield batch


def _reply_schema(tools: Sequence[Lacking]) -> dict[str, Any]:
    listed = {"type": "array", "items": {"type": ["string", "number", "boolean"]}, "maxItems": MAX_PROPOSED}
    made: dict[str, Any] = {}
    for tool in tools:
        made[tool.record.name] = {"type": "object", "properties": dict.fromkeys(tool.arguments, listed)}
        if tool.undeclared:
            made[tool.record.name]["additionalProperties"] = listed
    return {"title": TITLE, "type": "object", "properties": made}


def one_line(text: str) -> str:
    """The first line of a text, short."""
    return printable(" ".join(text.strip().partition("\n")[0].split()))[:_SENTENCE_CHARACTERS]
