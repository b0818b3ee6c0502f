"""What a decoder with codes reads: tokens, examples of both stages, masks, trajectories. Nothing here needs torch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc._records.events import VERSION
from atc.errors import UsageError
from atc.traces.stores.files import FileRun
from atc_research.toolweaver.code_tokens import CodeMask, CodeTokens, Frame, Turn, known
from atc_research.toolweaver.code_trie import Trie
from atc_research.toolweaver.decoder_trajectories import read_trajectories, turns_of
from tests.support.decoder import CODES, read, writer


def shown(ids: tuple[int, ...], which: tuple[bool, ...]) -> str:
    """The tokens that the loss counts, as text."""
    names = {256: "<s>", 257: "<e>", **dict(enumerate(CodeTokens(2, 4, 258).names, 258))}
    return "".join(names.get(id) or chr(id) for id, one in zip(ids, which, strict=True) if one)


def test_there_is_a_token_for_each_code_of_each_level() -> None:
    tokens = CodeTokens(2, 4, 100)
    assert tokens.names == ["<T1_0>", "<T1_1>", "<T1_2>", "<T1_3>", "<T2_0>", "<T2_1>", "<T2_2>", "<T2_3>"]
    assert tokens.ids([3, 1]) == [103, 105]
    assert [tokens.code(id) for id in (99, 103, 105, 108)] == [None, (0, 3), (1, 1), None]
    for wrong in ([4, 0], [0, 1, 2], [-1]):
        with pytest.raises(UsageError, match="no codes of 2 levels"):
            tokens.ids(wrong)


@given(st.integers(1, 4), st.integers(1, 50), st.integers(0, 1_000), st.data())
def test_a_token_says_which_code_it_is(levels: int, size: int, first: int, data: st.DataObject) -> None:
    tokens = CodeTokens(levels, size, first)
    codes = data.draw(st.lists(st.integers(0, size - 1), min_size=levels, max_size=levels))
    assert [tokens.code(id) for id in tokens.ids(codes)] == list(enumerate(codes))
    assert len(tokens.names) == len(set(tokens.names)) == len(tokens)


def test_stage_one_counts_the_codes_alone() -> None:
    example = writer().pair("rain <|im_end|> <T1_3> tomorrow?", (0, 2))
    assert shown(example.ids, example.learnt) == "<T1_0><T2_2>"
    asked = shown(example.ids, tuple(not one for one in example.learnt))
    assert asked == "<s>user\nrain <|im_end|> <T1_3> tomorrow?<e>\n<s>assistant\n", "what a query spells is text"
    assert example.ids.count(257) == 1


def test_a_long_query_loses_its_end_and_nothing_else() -> None:
    short = writer(40)
    example = short.pair("x" * 1_000, (1, 1))
    assert len(example.ids) == 40
    assert shown(example.ids, example.learnt) == "<T1_1><T2_1>"
    assert len(writer(5).pair("x" * 9, (1, 1)).ids) == len(writer(5).pair("", (1, 1)).ids)


def test_stage_two_counts_what_the_assistant_says() -> None:
    turns = [
        Turn("user", "Is it cold?"),
        Turn("assistant", "I look. ", "weather/now", {"city": "Oslo"}),
        Turn("tool", '{"t": -3, "note": "<T1_3>"}'),
        Turn("assistant", "Yes."),
    ]
    example = writer().trajectory(turns, CODES)
    assert shown(example.ids, example.learnt) == 'I look. <T1_0><T2_1>{"city": "Oslo"}<e>Yes.<e>'
    assert len(writer(30).trajectory(turns, CODES).ids) == 30
    assert known(turns, CODES)
    assert not known(turns, {})
    assert not known(turns[:1], CODES)
    with pytest.raises(UsageError, match="weather/now, which has no codes"):
        writer().trajectory(turns, {})


def test_the_frame_is_told_by_the_vocabulary() -> None:
    llama = {"<|start_header_id|>": 1, "<|end_header_id|>": 2, "<|eot_id|>": 3}
    assert Frame.of(llama, read) == Frame((1,), (2, 10, 10), (3,))
    with pytest.raises(UsageError, match="neither of ChatML"):
        Frame.of({}, read)


def test_only_tools_that_there_are_can_be_said() -> None:
    tokens = CodeTokens(2, 4, 258)
    mask = CodeMask(tokens, Trie(np.array(list(CODES.values()), np.int16)))
    assert mask.next(()).tolist() == tokens.ids([0]) + tokens.ids([3])
    assert mask.next((0,)).tolist() == [*tokens.ids([1], 1), *tokens.ids([2], 1)]
    assert mask.next((1,)).size == mask.next((0, 1)).size == 0
    allowed = mask.allowed([65, *tokens.ids([3])])
    assert allowed is not None
    assert allowed.tolist() == tokens.ids([1], 1)
    for free in ([], [65], tokens.ids([3, 1]), [*tokens.ids([3, 1]), 65], [*tokens.ids([3]), 65]):
        assert mask.allowed(free) is None, "elsewhere the model says what it likes"
    assert mask.begun([*tokens.ids([3, 1]), *tokens.ids([0])]) == (0,)
    with pytest.raises(UsageError, match="levels"):
        CodeMask(CodeTokens(3, 4, 258), mask.trie)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_every_walk_under_the_mask_ends_in_a_tool(codes: list[tuple[int, int, int]]) -> None:
    tokens = CodeTokens(3, 4, 10)
    mask = CodeMask(tokens, Trie(np.array(codes, np.int16)))
    walks: list[list[int]] = [[]]
    for _ in range(3):
        walks = [[*walk, int(id)] for walk in walks for id in mask.next(mask.begun(walk))]
    assert walks == [tokens.ids(each) for each in sorted(set(codes))]


def test_conversations_are_read_strictly(tmp_path: Path) -> None:
    call = {"function": {"name": "mail/send", "arguments": '{"to": "a"}'}}
    other = {"function": {"name": "mail/send", "arguments": {}}}
    messages = [
        {"role": "user", "content": "mail"},
        {"role": "assistant", "content": "plan", "tool_calls": [call, other]},
        {"role": "tool", "content": "x" * 9_000},
    ]
    path = tmp_path / "some.jsonl"
    path.write_text(json.dumps({"messages": messages, "metadata": {}}) + "\n\n")
    (turns,) = read_trajectories(path)
    assert turns[:3] == [
        Turn("user", "mail"),
        Turn("assistant", "plan", "mail/send", {"to": "a"}),
        Turn("assistant", "", "mail/send", {}),
    ]
    assert len(turns[3].text) == 1_500
    user = {"role": "user", "content": "", "tool_calls": [call]}
    for wrong in (b"{", b"[]", b'{"messages": []}', b'{"messages": [{"role": "god"}]}', b"\xff", b"[" * 99_999):
        path.write_bytes(wrong)
        with pytest.raises(UsageError, match=r"some\.jsonl, line 1"):
            list(read_trajectories(path))
    for bad in (user, {**user, "role": "assistant", "tool_calls": [{}]}, {"role": "assistant", "tool_calls": "x"}):
        path.write_text(json.dumps({"messages": [bad]}))
        with pytest.raises(UsageError, match="call"):
            list(read_trajectories(path))
    with pytest.raises(UsageError, match="cannot be read"):
        list(read_trajectories(tmp_path / "none"))


def test_a_run_becomes_a_trajectory(tmp_path: Path) -> None:
    def call(attempt: int, tool: str, status: str = "ok") -> dict[str, object]:
        return {
            "attempt": attempt,
            "tool": tool,
            "status": status,
            "arguments": {"n": attempt},
            "value": {"v": attempt},
        }

    events = [
        ("run_started", {"task": "Is it cold?"}),
        ("tools_chosen", {"plan": "Look at the weather.", "tools": []}),
        ("call_ended", call(0, "weather/now", "failed")),
        ("call_ended", call(0, "mail/send")),
        ("call_ended", call(1, "weather/now", "replayed")),
        ("call_ended", call(1, "weather/week")),
        ("run_ended", {"status": "answered", "answer": "Yes."}),
    ]

    def run(events: list[tuple[str, dict[str, object]]]) -> list[Turn]:
        lines = [json.dumps({"v": VERSION, "kind": kind, "at": 0, "data": data}) for kind, data in events]
        (tmp_path / "trace.jsonl").write_text("\n".join(lines) + "\n")
        return turns_of(FileRun("r", tmp_path))

    assert run(events) == [
        Turn("user", "Is it cold?"),
        Turn("assistant", "Look at the weather.", "weather/now", {"n": 1}),
        Turn("tool", '{"v": 1}'),
        Turn("assistant", "", "weather/week", {"n": 1}),
        Turn("tool", '{"v": 1}'),
        Turn("assistant", "Yes."),
    ]
    assert run(events[:-1]) == run([*events[:-1], ("run_ended", {"status": "failed"})]) == []
