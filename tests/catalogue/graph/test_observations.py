"""Answers of single calls: shapes with counts in the next stub, and never a value, nor a key that may be one."""

from __future__ import annotations

import asyncio
import re
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc import Catalogue, Settings, Tool, Toolset
from atc.catalogue.graph import lessons
from atc.catalogue.graph.lessons import Lessons, Observations
from atc.schemas.infer.outline import is_field_name
from atc.schemas.observed import has_more, times_seen, times_text
from atc.schemas.protocol import JsonSchema, Source
from atc.tools.stubs import render_stub
from tests.support.tools import make_tool


def catalogue(
    folder: Path, returns: JsonSchema | None = None, location: str = "https://one.example", **more: Any
) -> Catalogue:
    tool = make_tool("look", lambda _: None, returns=returns)
    source = Source(kind="mcp", location=location, operation="look")
    made = Tool(tool.protocol.model_copy(update={"source": source}), tool.transport)
    return Catalogue(Toolset([made]), settings=Settings.load(catalogue=folder, **more))


def stub(known: Catalogue, plain: bool = True) -> str:
    known.settle()
    return render_stub(known.graph.protocols_with_shapes["look"], plain=plain)


def test_a_stub_shows_how_often_a_response_was_seen_and_what_was_not_always_there(tmp_path: Path) -> None:
    known = catalogue(tmp_path)
    assert "->" in stub(known)
    assert "before" not in stub(known)
    known.observe("look", {"items": [{"id": 1, "name": "x"}, {"id": 2}], "owner": None})
    assert "before (once), not documented: {'items': [{'id': int, 'name'?: str}], 'owner': None}" in stub(known)
    known.observe("look", {"items": [{"id": 3}], "total": 1, "owner": {"name": "y"}})
    known.settle()
    seen = stub(catalogue(tmp_path))  # another process
    assert "Returned before (2 times)" in seen
    assert "'items': [" in seen
    assert "'total'?: int" in seen
    assert "'owner': {'name': str} | None" in seen
    whole = stub(known, plain=False)
    assert "The response is as it was before (2 times); it is not documented." in whole
    assert "total: NotRequired[int]" in whole


def test_a_list_after_an_object_and_text_after_a_list_are_all_shown(tmp_path: Path) -> None:
    known = catalogue(tmp_path)
    for value in ({"id": 1}, [{"id": 2}, "x", 3], "none found"):
        known.observe("look", value)
    assert "before (3 times)" in stub(known)
    assert all(part in stub(known) for part in ("{'id': int}", "str", "["))


def test_a_stub_says_where_keys_are_not_shown(tmp_path: Path) -> None:
    known = catalogue(tmp_path)
    known.observe("look", {"count": 2, "anna_karlsson": {"size": 1}, "bo_ek": {"size": 2}})
    assert "with more keys, not documented: {'count': int}" in stub(known)
    assert "with more keys than are shown" in stub(known, plain=False)
    assert "anna" not in stub(known)
    plain = catalogue(tmp_path / "other")
    plain.observe("look", {f"2026-01-{day:02}": {"size": day} for day in range(1, 20)})
    assert "{str: {'size': int}}" in stub(plain)
    assert "more keys" not in stub(plain)


@pytest.mark.parametrize("value", [None, [], {}, "", {"items": [], "total": 0}])
def test_an_empty_answer_teaches_nothing(tmp_path: Path, value: Any) -> None:
    assert catalogue(tmp_path).observe("look", value) is None


def test_what_is_documented_nameless_or_not_to_be_learnt_teaches_nothing(tmp_path: Path) -> None:
    value = {"id": 1}
    documented = {"type": "object", "properties": {"id": {"type": "integer"}}}
    assert catalogue(tmp_path, documented).observe("look", value) is None
    assert catalogue(tmp_path, location="").observe("look", value) is None
    assert catalogue(tmp_path, location="<function at 0x7f>").observe("look", value) is None
    assert catalogue(tmp_path, learn=False).observe("look", value) is None
    assert catalogue(tmp_path).observe("gone", value) is None
    assert not list(tmp_path.glob("learnt-*"))


def test_answers_that_wait_are_bounded_and_a_tool_teaches_only_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lessons, "MAX_HELD", 3)
    monkeypatch.setattr(lessons, "MAX_OF_A_TOOL", 4)
    held = Observations()
    assert [held.take("a", {"id": n}, new=True) for n in range(5)] == [True] * 3 + [False] * 2
    known = {"a": make_tool("a", lambda _: None).protocol}
    assert held.lessons(known).shapes["a"].seen == 3
    assert [held.take("a", {"id": n}, new=False) for n in range(3)] == [True, False, False]
    assert held.take("a", {"id": 9}, new=True)
    assert held.lessons({}) == Lessons("")
    assert not held.lessons(known)


def test_a_store_that_fails_costs_a_line_and_nothing_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    known = catalogue(tmp_path / "file")
    (tmp_path / "file").write_text("no folder")
    known.observe("look", {"id": 1})
    known.settle()
    assert "Returned before" not in stub(known)
    assert len(caplog.records) <= 2


def test_the_graph_is_read_in_another_thread_where_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, other = catalogue(tmp_path), catalogue(tmp_path)
    readers: list[int] = []
    refresh = Catalogue._refresh

    def noted(self: Catalogue) -> None:
        readers.append(threading.get_ident())
        refresh(self)

    monkeypatch.setattr(Catalogue, "_refresh", noted)

    async def read() -> Any:
        return (await known.current_graph()).protocols_with_shapes["look"].returns

    assert asyncio.run(read()) is None
    other.observe("look", {"id": 1})
    other.settle()
    readers.clear()
    assert times_seen(asyncio.run(read())) == 1
    assert threading.get_ident() not in readers[:1]


def test_how_often_is_said_in_few_words() -> None:
    for seen, text in (
        (0, ""),
        (1, " (once)"),
        (2, " (2 times)"),
        (4, " (over 3 times)"),
        (12, " (over 10 times)"),
        (10**9, " (over 1,000 times)"),
    ):
        assert times_text({"x-atc-evidence": {"seen": seen}}) == text
    for odd in (None, {}, {"x-atc-evidence": 3}, {"x-atc-evidence": {"seen": "9"}}, {"x-atc-evidence": {"seen": True}}):
        assert times_text(odd) == ""
    assert not has_more({"properties": {"a": {"properties": {"b": {}}}}, "additionalProperties": True})


DATA_KEYS = st.one_of(
    st.uuids().map(str),
    st.emails(),
    st.integers(10**3, 10**12).map(str),
    st.dates().map(str),
    st.from_regex(r"\A(sk|ghp|cus)_[A-Za-z0-9]{16,30}\Z"),
    st.from_regex(r"\A[A-Z]{3}-[0-9]{2,6}\Z"),
    st.from_regex(r"\A[a-f0-9]{24,40}\Z"),
    st.from_regex(r"\Ahttps://[a-z]{6,9}\.example/[a-z0-9]{6,9}\Z"),
    st.from_regex(r"\A[A-Z][a-z]{6,9} [A-Z][a-z]{6,9}\Z").filter(lambda key: not is_field_name(key)),
)
VALUES = st.from_regex(r"\Aq[xzjvw]{7,12}\Z") | DATA_KEYS | st.integers(10**9, 10**12)
ANSWERS = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(DATA_KEYS, inner, min_size=1, max_size=4)
        | st.dictionaries(st.sampled_from(["name", "items", "size", "token"]), inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)


def texts(value: Any) -> set[str]:
    """All strings and numbers in an answer, keys too, but for those that are names."""
    if isinstance(value, dict):
        keys = {key for key in value if not is_field_name(key)}
        return keys.union(*map(texts, value.values()))
    return set().union(*map(texts, value)) if isinstance(value, list) else {str(value)}


@given(st.lists(ANSWERS, min_size=1, max_size=3))
def test_no_value_and_no_key_that_is_data_is_kept_or_shown(answers: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        known = catalogue(Path(folder))
        for answer in answers:
            known.observe("look", answer)
        shown = stub(known) + stub(known, plain=False)
        kept = b"".join(each.read_bytes() for each in Path(folder).glob("learnt-*")).decode("latin-1")
    for text in texts(answers):
        assert not re.search(rf"(?<![A-Za-z0-9]){re.escape(text)}(?![A-Za-z0-9])", shown + kept)
