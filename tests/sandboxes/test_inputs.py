"""Inputs of a program: their names, their sizes, and that they reach it as they are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc._records.outcome import Outcome
from atc._records.packing import unpack
from atc.errors import FrameError, UsageError
from atc.sandboxes.contract import Job, Limits
from atc.sandboxes.inputs import MAX_BYTES, MAX_INPUTS, check_names, name_problem, packed
from atc.sandboxes.process.driver import ProcessSandbox
from atc.sandboxes.remote import messages
from tests.support.service import no_tools

LIMITS = Limits()
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.binary()
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])) | st.just("$bytes"), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "1a",
        "a b",
        "a.b",
        "a\nb",
        "class",
        "None",
        "ﬁnd",
        "answer",
        "parallel",
        "all_pages",
        "ToolError",
        "print",
        "__name__",
        "__builtins__",
        "__anything",
        "look",
        "x" * 201,
    ],
)
def test_a_name_that_an_input_cannot_have(name: str) -> None:
    assert name_problem(name, {"look": ()})
    with pytest.raises(UsageError, match="give another name"):
        Job("answer = 1", {"look": ()}, inputs={name: 1})
    with pytest.raises(FrameError):
        messages.job_of({"op": "run", "program": "", "tools": {"look": []}, "inputs": {name: 1}}, LIMITS)


@pytest.mark.parametrize("name", ["x", "_x", "naïve", "match", "type_", "stage_1", "answers"])
def test_a_name_that_an_input_can_have(name: str) -> None:
    assert name_problem(name, {"look": ()}) == ""
    assert Job("answer = 1", {"look": ()}, inputs={name: 1}).inputs == {name: 1}


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES))
def test_what_the_caller_gives_is_what_the_service_gets(inputs: dict[str, Any]) -> None:
    sent = packed(inputs, frame_bytes=LIMITS.frame_bytes, channel_bytes=LIMITS.channel_bytes)
    assert {name: unpack(value) for name, value in sent.items()} == inputs
    run = messages.decode(messages.encode({"op": "run", "program": "", "inputs": sent}).decode())
    assert messages.job_of(run, LIMITS).inputs == inputs


@pytest.mark.parametrize("value", [float("inf"), {1, 2}, object(), {1: "a", "1": "b"}, [[]] * 300_000])
def test_what_has_no_json_form_is_refused_with_the_name_of_its_input(value: Any) -> None:
    with pytest.raises(UsageError, match="the input 'found' cannot be given to a program"):
        packed({"found": value}, frame_bytes=LIMITS.frame_bytes, channel_bytes=LIMITS.channel_bytes)


def test_sizes_are_bounded_one_by_one_and_together() -> None:
    small = {"frame_bytes": 100, "channel_bytes": 250}
    assert packed({"a": "x" * 98}, **small) == {"a": "x" * 98}
    with pytest.raises(UsageError, match=r"'a' takes 101 bytes of JSON; the limit is 100"):
        packed({"a": "x" * 99}, **small)
    with pytest.raises(UsageError, match=r"take 300 bytes of JSON or more together; the limit is 250"):
        packed(dict.fromkeys("abc", "x" * 98), **small)
    with pytest.raises(UsageError, match=f"the limit is {MAX_BYTES:,}"):
        packed({"a": "x" * MAX_BYTES}, frame_bytes=MAX_BYTES * 2, channel_bytes=MAX_BYTES * 4)


def test_a_program_is_given_so_many_inputs_at_most() -> None:
    check_names({f"v{number}": 1 for number in range(MAX_INPUTS)}, ())
    with pytest.raises(UsageError, match=r"10,001 inputs; the limit is 10,000: give many values as one input"):
        check_names({f"v{number}": 1 for number in range(MAX_INPUTS + 1)}, ())


@pytest.mark.parametrize("inputs", [[], "a", None, {"a": {"$bytes": "?"}}, {"a": "x" * 3_000_000}])
def test_the_service_refuses_inputs_that_are_none(inputs: Any) -> None:
    with pytest.raises(FrameError):
        messages.job_of({"op": "run", "program": "", "inputs": inputs}, LIMITS)


def test_an_answer_of_one_program_is_an_input_of_the_next() -> None:
    async def go() -> Outcome:
        async with ProcessSandbox() as sandbox:
            first = await sandbox.run(Job("answer = {'rows': [1, 2], 'raw': b'\\x00'}", {}), no_tools)
            second = Job("answer = [sum(found['rows']), found['raw']]", {}, inputs={"found": first.value})
            return await sandbox.run(second, no_tools)

    assert asyncio.run(go()).value == [3, b"\x00"]
