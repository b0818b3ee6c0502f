"""Several programs written beside each other: the check throws out what cannot run, reads vote on the rest."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from atc import Effect, Toolset
from atc.agent import Agent
from atc.models import CachedModel
from atc.models.base import Message
from atc.models.fake import FakeModel
from tests.support.tools import make_tool

GOOD = "```python\nanswer = double(n=21)\n```"
ALSO_GOOD = "```python\nvalue = double(n=21)\nanswer = value\n```"
OTHER = "```python\nanswer = double(n=4)\n```"
UNKNOWN = "```python\nanswer = triple(n=21)\n```"
BROKEN = "```python\nanswer = [][double(n=21)]\n```"


def double(n: int) -> int:
    """Twice a number."""
    return 2 * n


def run(replies: list[Any], tools: Any = None, **settings: Any) -> Any:
    made = Agent(tools or [double], model=FakeModel(replies), sentence=False, approve="always", **settings)
    with made:
        return made.run("double it")


def test_the_check_picks_the_program_that_can_run() -> None:
    result = run([UNKNOWN, "no program", GOOD], candidates=3)
    assert (result.status, result.value, len(result.revisions)) == ("answered", 42, 1)


def test_reads_vote_on_the_value() -> None:
    reads = Toolset([make_tool("double", lambda arguments: 2 * arguments["n"])])
    result = run([OTHER, GOOD, ALSO_GOOD], reads, candidates=3)
    assert (result.value, len(result.revisions)) == (42, 1)


def test_a_value_whose_keys_are_one_text_in_two_unicode_forms_can_be_voted_on() -> None:
    value = {"\u00e9": 1, "e\u0301": 2}
    reads = Toolset([make_tool("double", lambda arguments: value)])
    result = run([GOOD, ALSO_GOOD], reads, candidates=2)
    assert (result.status, result.value) == ("answered", value)


def test_where_a_tool_can_do_something_nothing_runs_but_the_one_that_is_chosen() -> None:
    did: list[int] = []

    def order(arguments: dict[str, Any]) -> int:
        did.append(arguments["n"])
        return 7

    tools = Toolset([make_tool("order", order, effect=Effect.WRITE)])
    replies = [f"```python\nanswer = order(n={n})\n```" for n in (1, 2, 2)]
    assert run(replies, tools, candidates=3).value == 7
    assert did == [1]


def test_a_revision_chooses_among_several_and_not_what_failed_before() -> None:
    result = run([BROKEN, BROKEN, UNKNOWN, GOOD], revision_candidates=3)
    assert (result.status, result.value, len(result.revisions)) == ("answered", 42, 2)


def test_the_replies_to_one_request_are_cached_together(tmp_path: Path) -> None:
    fake = FakeModel(["one", "two"])
    model = CachedModel(fake, tmp_path)
    messages = [Message("user", "x")]
    first = asyncio.run(model.sample(messages, 2, seed=1))
    again = asyncio.run(model.sample(messages, 2, seed=1))
    assert [reply.text for reply in first] == [reply.text for reply in again] == ["one", "two"]
    assert [reply.cached for reply in again] == [True, True]
    assert len(fake.prompts) == 2


KILOMETRES = "```python\nanswer = double(n=4) + 0.0\n```"
NAMED = "```python\nanswer = str(double(n=4)) + ' cities'\n```"
LISTED = "```python\nanswer = [double(n=4)]\n```"
READS = Toolset([make_tool("double", lambda arguments: 2 * arguments["n"])])


def test_an_answer_of_another_type_than_the_user_wants_does_not_vote() -> None:
    result = run([GOOD, ALSO_GOOD, LISTED], READS, candidates=3, answer=list[int])
    assert (result.value, len(result.revisions), result.usage.model_calls) == ([8], 1, 3)


def test_numbers_and_texts_agree_but_for_rounding_case_and_spaces() -> None:
    spaced = "```python\nanswer = '  8  CITIES' if double(n=4) else ''\n```"
    assert run([GOOD, KILOMETRES, OTHER], READS, candidates=3).value == 8
    assert run([GOOD, spaced, NAMED], READS, candidates=3).value == "  8  CITIES"


def test_where_no_two_agree_the_first_is_taken() -> None:
    result = run([GOOD, OTHER, LISTED], READS, candidates=3)
    assert (result.value, result.usage.model_calls) == (42, 3)
