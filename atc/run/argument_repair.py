"""Ask the run's model to put the arguments of a refused call right (RETO §3.4, Alg. 1 tier 2; App. A.6).

One short prompt, off the conversation in which programs are written: what was wrong with a call never stands there.
The broker judges what the model says (:mod:`atc.calls.argument_repairs`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from atc._records.packing import as_text
from atc.calls.argument_repairs import Complaint
from atc.errors import BudgetExceeded, ModelError, ModelUnavailable, UsageError
from atc.models.base import Message
from atc.schemas.protocol import JsonSchema
from atc.wording.prompting import fenced, prompt

if TYPE_CHECKING:
    from atc.run.run import Run

RULE = "model-repair"
MAX_SCHEMA = 8_000
"""Characters of a schema that is shown."""
MAX_TOKENS = 600
"""Tokens of a reply; less where the settings say less."""
_SPEAKERS = {"gate": "the check against the schema", "service": "the tool's service"}
_DEFINITIONS = ("$defs", "definitions")
_SAYS_LITTLE = frozenset({"title", "example", "examples", "$schema", "$id", "deprecated"})


class ModelRepairer:
    """Asks the model of one run. It is a :data:`atc.calls.argument_repairs.Repairer`.

    Args:
        run: the run.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    async def __call__(self, complaint: Complaint) -> Mapping[str, Any] | None:
        """Other arguments for the same tool; ``None`` where the model gives none, or cannot be asked."""
        schema = complaint.protocol.parameters
        try:
            shown = _shown(schema)
        except RecursionError:  # it is nested beyond all use
            shown = None
        if shown is None:
            return None
        text = prompt(
            "repair",
            tool=fenced(complaint.protocol.name),
            schema=fenced(shown),
            arguments=fenced(as_text(dict(complaint.arguments))),
            reason=fenced(complaint.reason),
            by=_SPEAKERS[complaint.by],
        )
        limit = min(MAX_TOKENS, self._run.settings.max_tokens)
        try:
            reply = await self._run.ask("repair", [Message("user", text)], max_tokens=limit, schema=_or_null(schema))
        except (ModelError, ModelUnavailable, BudgetExceeded, UsageError):
            return None  # the run finds out by itself; of a schema beyond all bounds no reply's form can be made
        return reply.value if isinstance(reply.value, dict) else None


def _or_null(schema: JsonSchema) -> JsonSchema:
    """The schema of a reply: arguments, or ``null``. Held to arguments alone, a model that cannot know the value has to
    invent one. Definitions move to the root, where references look for them; a schema that refers to other places of
    its own stays as it is.
    """
    moved = {keyword: schema[keyword] for keyword in _DEFINITIONS if keyword in schema}
    if not all(reference.startswith(tuple(f"#/{keyword}/" for keyword in moved)) for reference in _references(schema)):
        return schema
    left_out = {*moved, "$schema", "$id"}
    return {**moved, "anyOf": [{key: value for key, value in schema.items() if key not in left_out}, {"type": "null"}]}


def _references(schema: Any) -> Iterator[str]:
    """Yield what a schema refers to, and what looks as if it did."""
    waiting = [schema]
    while waiting:
        at = waiting.pop()
        if isinstance(at, dict):
            yield from (str(at[keyword]) for keyword in ("$ref", "$dynamicRef") if keyword in at)
            waiting += at.values()
        elif isinstance(at, list):
            waiting += at


def _shown(schema: JsonSchema) -> str | None:
    """A schema as the prompt has it: whole, else without descriptions; ``None`` where it is too long even so."""
    for left_out in (_SAYS_LITTLE, _SAYS_LITTLE | {"description"}):
        text = json.dumps(_without(schema, left_out), ensure_ascii=False, default=str)
        if len(text) <= MAX_SCHEMA:
            return text
    return None


def _without(schema: Any, keywords: frozenset[str], *, names: bool = False) -> Any:
    """A schema without some keywords. ``names``: its keys are names of properties, not keywords."""
    if isinstance(schema, list):
        return [_without(item, keywords) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without(item, keywords, names=not names and key in ("properties", "$defs", "definitions"))
        for key, item in schema.items()
        if names or key not in keywords
    }
