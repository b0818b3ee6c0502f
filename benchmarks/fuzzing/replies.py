"""Replies of models: programs, JSON, thoughts, actions, plans and queries in them."""

from __future__ import annotations

import json

from atc.catalogue.index.dialogue import first_sentence, harmless, parse_plan, parse_query, visible_reply
from atc.models.endpoint_client import repeats_itself
from atc.models.messages import split_reasoning
from atc.models.reply_format import ReplyFormat
from atc.programs.extract import extract
from atc.programs.program import MAX_SOURCE
from atc_research.steps import actions_of, read_value
from benchmarks.fuzzing.target import Broken, Target

_TOOLS = ("search", "order")
_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "count": {"type": "integer"}, "more": {"type": "array", "items": {}}},
    "required": ["name"],
}


def run(data: bytes) -> None:
    """Read an input as each kind of reply that is asked for."""
    text = data.decode("utf-8", "replace")
    _program(text)
    thoughts, rest = split_reasoning(text)
    if len(thoughts) + len(rest) > len(text):
        raise Broken("streaming: thoughts and reply are more than there was")
    repeats_itself(text), visible_reply(text), first_sentence(text), harmless(text), read_value(text)
    parse_query(text)
    parse_plan(text)
    for action in actions_of(text, 5):
        json.dumps(action.arguments, allow_nan=False)
    for wanted in (ReplyFormat.of(schema=_SCHEMA), ReplyFormat.of(choices=["yes", "no", "ask them"])):
        assert wanted is not None
        found = wanted.read(text)
        if not found.problem and wanted.read(_said(found.value)).problem:
            raise Broken(f"reply_format: what was read cannot be read again: {found.value!r}")


def _said(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _program(text: str) -> None:
    program = extract(text, _TOOLS).program
    if program is None:
        return
    source = program.source
    if program.tree is not None and source.strip() and len(source) < MAX_SOURCE and not {"`", "~", "\r"} & set(source):
        again = extract(f"```python\n{source}\n```", _TOOLS).source
        if again is None or again.strip() != source.strip():
            raise Broken(f"extract: in a fence it is another program: {source!r}, then {again!r}")


TARGET = Target(
    "replies",
    run,
    head_lines=None,
    words=(
        "```python\n", "\n```", "~~~", "<tool_code>", "</tool_code>", "<think>", "</think>", "<reasoning>",
        "answer = ", "search(", "order(", ">>> ", "... ", "Action: ", "Action Input: ", "Final Answer: ",
        "Observation:", "<plan>", "</plan>", "<query>", "</query>", "<stop_retrieval>", "[stop]", '{"name": "',
        '{"choice": "yes"}', "or ", "1. ", "2) ", "- ", "(T1)", "[SYSTEM]", "user:", "\\u00e9", "\r\n", "def ",
        "    ", "\ufeff", "import ",
    ),
)  # fmt: skip
