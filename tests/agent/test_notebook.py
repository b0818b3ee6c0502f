"""A result in a notebook: HTML in which nothing from outside is markup."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from atc import RunFailed, tool
from tests.support.agent import agent

pytestmark = pytest.mark.inline

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>&amp;"
PROGRAM = f"```python\n# {EVIL}\nanswer = echo(text={EVIL!r})\n```"


@tool(effect="read")
def echo(text: str) -> str:
    """What it is given."""
    return text


@tool(effect="write")
def book(room: str) -> str:
    """Book a room."""
    return room


class Read(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[object] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def test_what_comes_from_outside_is_text() -> None:
    result = agent(PROGRAM, tools=[echo]).run(f"say {EVIL}")
    assert result.value == EVIL
    read = Read(result._repr_html_())
    assert not read.tags & {"script", "img"}
    assert not read.attributes
    assert read.text.count(EVIL) >= 4  # the task, the answer, the program, the call
    assert "answered" in read.text


def test_a_failure_is_shown_with_its_reason() -> None:
    result = agent("no program", tools=[echo], max_revisions=0).run("say it")
    text = Read(result._repr_html_()).text
    assert "unsolved: say it" in text
    assert result.fault is not None
    assert result.fault.message in text


def test_a_failure_is_shown_with_what_to_do_about_it() -> None:
    """A call that is not approved ends the run; the fault's hint says how to approve it."""
    result = agent("```python\nanswer = book(room='4')\n```", tools=[book], approve="never").run("book room 4")
    assert result.fault is not None
    assert result.fault.hint
    assert result.fault.hint in Read(result._repr_html_()).text


def test_a_run_that_did_half_and_an_unresolved_warning_are_shown() -> None:
    text = "```python\nfor room in ('4', '5'):\n    answer = book(room=room)\n```"
    result = agent(text, tools=[book], approve=lambda request: request.arguments["room"] == "4").run("book both")
    shown = Read(result._repr_html_()).text
    assert "done: book(room='4')" in shown
    assert "not done: book(room='5')" in shown
    text = "```python\nto = 'ann@example.org'\nanswer = echo(text=to)\n```"
    result = agent(text, tools=[echo]).run("say it")
    assert "unresolved warning: an e-mail address in the program" in Read(result._repr_html_()).text


def test_it_stays_short_whatever_tools_answer() -> None:
    program = "```python\nfor n in range(100):\n    answer = echo(text='x' * 50_000)\n```"
    result = agent(program, tools=[echo]).run("say it long")
    assert len(result.calls) == 100
    page = result._repr_html_()
    assert len(page) < 40_000
    assert "100 tool calls" in page


def test_a_run_that_went_on_from_a_refusal_shows_its_value_and_says_what_it_lacks() -> None:
    program = "```python\ntry:\n    book(room='x')\nexcept ToolError:\n    answer = echo(text='kept')\n```"
    shown = Read(agent(program, tools=[book, echo], approve="never").run("book it")._repr_html_()).text
    assert "denied" in shown
    assert shown.index("kept") < shown.index("incomplete: line 2: book(room='x') refused")


def test_a_run_that_waits_for_a_yes_is_shown_with_what_waits() -> None:
    result = agent(f"```python\nanswer = book(room={EVIL!r})\n```", tools=[book], approve="park").run("book it")
    read = Read(result._repr_html_())
    assert not read.tags & {"script", "img"}
    assert f"run {result.run_id} waits for approval: book(room={EVIL!r}) (`atc runs approve" in read.text
    with pytest.raises(RunFailed, match="waits for approval"):
        result.unwrap()
