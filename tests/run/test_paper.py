"""``atc-paper`` is what ATC's paper says (§3, Eq. 1-2), and nothing that ATC adds."""

from __future__ import annotations

import asyncio
from typing import Any

from atc import Agent, Result
from atc.models.fake import FakeModel
from atc.models.messages import ModelRequest, Reply
from atc.run.base import Strategy
from atc.run.paper import Paper
from tests.support.agent import code
from tests.support.tools import make_tool

PERSON = {"people": [{"id": "p1", "name": "Ann"}]}
SHAPE = {"type": "object", "properties": {"people": {"type": "array", "items": {"type": "object"}}}}


class Recording(FakeModel):
    """A fake model that keeps how it was sampled."""

    def __init__(self, replies: list[str]) -> None:
        super().__init__(replies)
        self.temperatures: list[float | None] = []

    async def generate(self, request: ModelRequest) -> Reply:
        self.temperatures.append(request.sampling.temperature)
        return await super().generate(request)


def ran(*replies: str, strategy: str | Strategy = "atc-paper", **settings: Any) -> tuple[Result, Recording]:
    tools = [
        make_tool("find_person", lambda _: PERSON, returns=SHAPE, who={"type": "string"}),
        make_tool("get_email", lambda _: {"email": "ann@example.org"}, of={"type": "string"}),
    ]
    model = Recording(list(replies))
    agent = Agent(tools, model=model, strategy=strategy, sentence=False, keep_runs=False, **settings)
    return asyncio.run(agent.arun("What is Ann's address?")), model


FIRST = code('found = find_person(who="Ann")\nanswer = found["persons"][0]')
SECOND = code('def one(found):\n    return found["people"][1]\n\nanswer = one(find_person(who="Ann"))')
GOOD = code('answer = find_person(who="Ann")["people"][0]["name"]')


def test_a_revision_holds_every_program_with_pythons_error_and_the_document_of_the_tool() -> None:
    result, model = ran(FIRST, "get_email", SECOND, "find_person", GOOD)
    assert (result.value, len(result.revisions)) == ("Ann", 3)
    assert [each.tool for each in result.faults] == ["get_email", "find_person"], "as the model says, right or wrong"
    assert model.temperatures == [0.0] * 5
    named, last = model.prompts[1][0].content, model.prompts[4]
    assert "Tools: find_person, get_email" in named, "all tools are to choose among"
    assert "KeyError: 'persons'\n  line 2, in <module>: answer = found[\"persons\"][0]" in named
    assert [message.role for message in last] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert '["persons"]' in last[2].content
    assert "KeyError: 'persons'" in last[3].content
    assert "The tool in question" not in last[3].content, "d_j is the last fault's"
    assert 'in one: return found["people"][1]' in last[5].content
    assert '```json\n{"name": "find_person"' in last[5].content
    assert '```json\n{"name": "find_person"' in last[1].content
    assert "people'" not in last[3].content + last[5].content, "what the tool really answered is ATC's to find out"


def test_what_runs_to_its_end_is_the_last_program() -> None:
    for text in ("answer = []", "answer = None", 'answer = find_person(who="Ann")["people"][1:]'):
        result, model = ran(code(text))
        assert (result.status, len(model.prompts)) == ("answered", 1)


def test_every_reply_counts_towards_alpha() -> None:
    result, model = ran("I cannot.", FIRST, max_revisions=1)
    assert (result.status, len(result.revisions), len(model.prompts)) == ("unsolved", 2, 2)
    assert "(no program)" in model.prompts[1][2].content
    result, model = ran(code('find_person(who="Ann")'), max_revisions=0)
    assert (result.status, result.faults[0].message) == ("unsolved", "the program ended without setting `answer`")


def test_nothing_is_checked_or_rewritten_before_a_run() -> None:
    result, model = ran(code('print(find_persons(who="Ann"))'), "find_person", GOOD)
    assert result.revisions[0].rewrites == ()
    assert "NameError" in model.prompts[1][0].content
    result, _ = ran(code('answer = await tools.find_person(who="Ann")'), "find_person", GOOD)
    assert (result.revisions[0].rewrites, len(result.revisions)) == ((), 2)


def test_one_shot_has_an_example_whose_documents_are_json_too() -> None:
    _, model = ran(GOOD, strategy=Paper(example=True))
    assert [message.role for message in model.prompts[0]] == ["system", "user", "assistant", "user"]
    assert '{"name": "find_authors"' in model.prompts[0][1].content
    assert "def find_authors" not in model.prompts[0][1].content
