"""``all_pages`` in a program, from end to end: a service in pages over HTTP, the real sandbox, the real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support_pages import KINDS, THINGS, Service, paged_service

from atc import Agent, Toolset
from atc.models.fake import FakeModel
from atc.result import Result


@pytest.fixture(scope="module")
def things() -> Iterator[tuple[Service, Toolset]]:
    with paged_service() as pair:
        yield pair


def ran(tools: Toolset, *programs: str, **settings: object) -> tuple[Result, FakeModel]:
    model = FakeModel([f"```python\n{program}\n```" for program in programs])
    return Agent(tools, model=model, answer=False, **settings).run("How large are all things together?"), model


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
