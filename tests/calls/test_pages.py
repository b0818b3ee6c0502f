"""``all_pages`` in a program, from end to end: a service in pages over HTTP, the real sandbox, the real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from atc import Agent, Toolset
from atc.models.fake import FakeModel
from atc.result import Result
from tests.support.pages import KINDS, THINGS, Service, paged_service
from tests.support.tools import make_tool


@pytest.fixture(scope="module")
def things() -> Iterator[tuple[Service, Toolset]]:
    with paged_service() as pair:
        yield pair


def ran(tools: Toolset, *programs: str, **settings: object) -> tuple[Result, FakeModel]:
    model = FakeModel([f"```python\n{program}\n```" for program in programs])
    return Agent(tools, model=model, sentence=False, **settings).run("How large are all things together?"), model


@pytest.mark.parametrize("kind", KINDS)
def test_every_page_is_read_and_each_is_a_call(things: tuple[Service, Toolset], kind: str) -> None:
    service, tools = things
    service.targets.clear()
    result, model = ran(tools, f"answer = sum(thing['size'] for thing in all_pages({kind}))")
    assert (result.status, result.value, len(result.revisions)) == ("answered", sum(t["size"] for t in THINGS), 1)
    assert [call.tool for call in result.calls] == [kind] * len(service.targets)
    assert all(target.startswith(f"/{kind}") for target in service.targets)
    assert "admin" not in " ".join(service.targets)
    assert "callback" not in " ".join(service.targets)
    assert f"all_pages({kind}, ...) returns the items of all pages as one list." in model.prompts[0][-1].content
    assert len(result.calls) == (6 if kind == "by_page" else 5)  # nothing but an empty page shows its end


def test_all_pages_takes_the_tool_or_its_name_and_arguments_by_position(things: tuple[Service, Toolset]) -> None:
    program = "answer = len(all_pages('by_offset', 20)) + len(all_pages(by_last, limit=5, starting_after='t20'))"
    result, _ = ran(things[1], program)
    assert (result.status, result.value) == ("answered", 3 + 3)


def test_pages_run_beside_each_other(things: tuple[Service, Toolset]) -> None:
    program = "answer = [len(found) for found in parallel(*[lambda: all_pages(by_cursor)] * 3)]"
    result, _ = ran(things[1], program)
    assert result.value == [len(THINGS)] * 3


def test_a_failure_in_an_item_is_traced_to_the_page_that_it_stood_on(things: tuple[Service, Toolset]) -> None:
    wrong = "few = by_last(limit=5)\nfound = all_pages(by_offset)\nanswer = 1 + found[6]"
    result, _ = ran(things[1], wrong, "answer = len(all_pages(by_offset))")
    fault = result.revisions[0].fault
    assert fault is not None
    assert (fault.kind, fault.tool) == ("response", "by_offset")
    assert "by_offset(...)['items'][1]" in fault.message  # the seventh item is the second of the second page
    assert result.calls[2].index == fault.call
    assert result.calls[2].arguments == {"offset": 5}
    assert result.value == len(THINGS)
    assert all(call.status == "replayed" for call in result.calls if call.attempt == 1)


def test_the_empty_page_behind_the_last_is_blamed_for_nothing(things: tuple[Service, Toolset]) -> None:
    empty = "answer = [t['id'] for t in all_pages(by_page) if t['size'] > 99]"
    for program in (empty, "found = all_pages(by_page)\nanswer = 1 / 0"):
        result, _ = ran(things[1], program, max_revisions=0)
        fault = result.revisions[0].fault
        assert fault is not None
        assert (fault.tool, fault.evidence) == (None, "")
        assert [call.page for call in result.calls] == [1, 2, 3, 4, 5, 6]


def test_the_failure_of_a_page_is_the_tools_in_the_program_too(things: tuple[Service, Toolset]) -> None:
    caught = (
        "try:\n    all_pages(by_last, starting_after='nobody')\nexcept ToolError as e:\n    answer = [e.tool, e.status]"
    )
    result, _ = ran(things[1], f"{caught}\nanswer += [len(all_pages(by_last))]", max_revisions=0)
    assert result.value == ["by_last", 500, len(THINGS)]
    result, _ = ran(things[1], "answer = all_pages(by_last, starting_after='nobody')", max_revisions=0)
    assert result.fault is not None
    assert (result.fault.tool, result.fault.kind) == ("by_last", "tool")


@pytest.mark.parametrize(
    ("program", "kind", "words"),
    [
        ("answer = [t['weight'] for t in all_pages(by_offset)]", "unknown_field", "no key 'weight' is known"),
        ("answer = all_pages(by_offset, colour='red')", "unknown_argument", "has no argument 'colour'"),
        ("answer = all_pages(by_offset, limit='many')", "wrong_type", "limit"),
        ("answer = all_pages(by_offset(limit=5))", "not_paged", "all_pages(by_offset, ...)"),
        ("answer = all_pages('by_nothing')", "not_paged", "takes the tool itself"),
        ("answer = all_pages(lambda: by_offset())", "not_paged", "takes the tool itself"),
        ("answer = all_pages(one)", "not_paged", "one is not: call one(...) itself"),
    ],
)
def test_the_check_knows_all_pages(things: tuple[Service, Toolset], program: str, kind: str, words: str) -> None:
    tools = things[1] + Toolset([make_tool("one", lambda _: 1)])
    result, _ = ran(tools, program, max_revisions=0)
    (found,) = (f for f in result.revisions[0].all_findings if words in f.message)
    assert (found.kind, found.severity) == (kind, "warning" if result.calls else "error")
