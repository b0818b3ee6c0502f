"""A run that answered is kept as a tool on its page: what is kept is what was shown, and one yes is for all of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from atc import Agent, FakeModel, Result
from atc.settings import Settings
from atc.tools.functions import tool
from tests.support.ui import Caller, Reply, serving

pytestmark = pytest.mark.anyio
TASK = "Count the letters of Oslo"
PROGRAM = "answer = count(word='Oslo')['n']"
called: list[str] = []


@tool(effect="read")
def count(word: str) -> dict[str, int]:
    """Count letters."""
    called.append(word)
    return {"n": len(word)}


@pytest.fixture(autouse=True)
def _nothing_is_called() -> None:
    called.clear()


async def answered(program: str = PROGRAM, task: str = TASK, source: str = "here") -> Result[Any]:
    def ran() -> Result[Any]:
        given: dict[str, Any] = {"sentence": False, "learn": False, "approve": "never"}
        with Agent([count], model=FakeModel([f"```python\n{program}\n```"]), **given) as agent:
            return agent.run(task, source=source)

    return await asyncio.to_thread(ran)


async def keep(caller: Caller, run_id: str, **body: Any) -> Reply:
    right = body.pop("right", "run")
    return await caller.send(f"/api/runs/{run_id}/keep", body, right=right)


async def test_what_was_shown_is_kept_with_one_yes_and_nothing_is_called_for_it() -> None:
    run = await answered()
    async with serving("unasked", tools=[count], at_terminal=True) as caller:
        async with caller.stream(f"/api/runs/{run.run_id}/events") as stream:
            assert (await stream.next("state")).data["can"] == ["keep"]
        shown = (await keep(caller, run.run_id, name="letters")).json["proposal"]
        assert (shown["signature"], shown["unfit"]) == ("letters(word: string)", [])
        assert [(each["name"], each["value"]) for each in shown["parameters"]] == [("word", "'Oslo'")]
        assert "count(word=word)" in shown["program"]
        assert not list(Settings.load().kept_dir.glob("*"))
        stale = await keep(caller, run.run_id, name="other", digest=shown["digest"])
        assert (stale.status, stale.json["proposal"]["name"]) == (409, "other")
        assert not list(Settings.load().kept_dir.glob("*"))
        kept = await keep(caller, run.run_id, name="letters", digest=shown["digest"])
        assert (kept.status, kept.json) == (201, {"kept": "letters"})
        assert (Settings.load().kept_dir / "letters.atc").stat().st_mode & 0o777 == 0o600
        again = await keep(caller, run.run_id, name="letters", digest=shown["digest"])
        assert (again.status, "is there already" in again.message) == (400, True)
    assert called == ["Oslo"], "by the run itself"


async def test_what_needs_a_yes_is_named_and_what_cannot_be_kept_has_no_digest() -> None:
    run = await answered()
    async with serving("unasked", tools=[count], at_terminal=True) as caller:
        for name, why in (("count", "a tool has this name"), ("parallel", "parallel"), ("", "name")):
            shown = (await keep(caller, run.run_id, name=name)).json["proposal"]
            assert (shown["digest"], any(why in each for each in shown["unfit"])) == ("", True), name
            refused = await keep(caller, run.run_id, name=name, digest="0" * 64)
            assert refused.status == 409
    assert not list(Settings.load().kept_dir.glob("*"))


@pytest.mark.parametrize(("right", "status"), [("read", 403), ("approve", 403), ("run", 201)])
async def test_only_who_may_run_keeps(right: str, status: int) -> None:
    run = await answered()
    async with serving("unasked", tools=[count], at_terminal=True) as caller:
        shown = (await keep(caller, run.run_id, name="letters")).json["proposal"]
        assert (await keep(caller, run.run_id, name="letters", digest=shown["digest"], right=right)).status == status


async def test_a_page_without_a_terminal_shows_and_keeps_nothing() -> None:
    run = await answered()
    async with serving("unasked", tools=[count]) as caller:
        shown = (await keep(caller, run.run_id, name="letters")).json["proposal"]
        refused = await keep(caller, run.run_id, name="letters", digest=shown["digest"])
        assert (refused.status, "without a terminal" in refused.message) == (403, True)
    assert not list(Settings.load().kept_dir.glob("*"))


async def test_a_run_of_other_tools_or_without_an_answer_is_kept_elsewhere() -> None:
    other = await answered(source="there")
    failed = await answered("raise NotImplementedError('no')")
    async with serving("unasked", tools=[count], at_terminal=True) as caller:
        refused = await keep(caller, other.run_id, name="letters")
        assert (refused.status, "atc runs keep" in refused.message) == (400, True)
        refused = await keep(caller, failed.run_id, name="letters")
        assert (refused.status, "only one that answered" in refused.message) == (400, True)
