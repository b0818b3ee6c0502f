"""What is too large for a client's context is kept, read in parts, and goes to the next program by reference."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.errors import UsageError
from atc.serve.mcp.client import ClientId
from atc.serve.mcp.values import MAX_PREVIEW, Shelf, Values

ONE, OTHER = ClientId("one"), ClientId("other")
RUN = "20260101-000000-abcdef"
PNG = b"\x89PNG\r\n\x1a\nrest"
LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=30) | st.binary(max_size=30)
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner))


def values(large: int = 100, **bounds: int) -> Values:
    return Values(Shelf(large, **bounds), ONE)


def test_a_small_value_is_told_and_a_large_one_kept() -> None:
    kept = values(large=100)
    assert kept.shown({"a": 1}, RUN) == {"value": {"a": 1}, "links": []}
    shown = kept.shown({"items": [*range(1000)]}, RUN)
    assert "value" not in shown
    assert "more]" in shown["preview"]
    assert next(iter(shown)) == "cut"
    [link] = shown["links"]
    assert f"{len(shown['preview']):,} characters stand for {link.size:,} bytes" in shown["cut"]
    assert shown["cut"].endswith(link.uri)
    assert kept.read(shown["links"][0].uri)[1] == {"items": [*range(1000)]}


def test_bytes_are_told_by_reference() -> None:
    kept = values()
    shown = kept.shown({"picture": PNG, "name": "x"}, RUN)
    [link] = shown["links"]
    assert shown["value"] == {
        "picture": {"$resource": link.uri, "mime_type": "image/png", "bytes": len(PNG)},
        "name": "x",
    }
    assert kept.read(link.uri)[1] == PNG
    assert kept.inputs({"again": shown["value"]["picture"]}) == {"again": PNG}


@given(JSON)
def test_what_is_kept_comes_back_as_it_was(value: Any) -> None:
    kept = values(large=-1)
    shown = kept.shown(value, RUN)
    assert len(shown["preview"]) <= MAX_PREVIEW
    uri = shown["links"][0].uri
    assert kept.read(uri)[1] == value
    assert kept.inputs({"x": {"$resource": uri}}) == {"x": value}


@given(st.lists(st.integers(), max_size=20), st.integers(0, 25), st.integers(0, 25))
def test_a_part_is_a_slice(items: list[int], start: int, stop: int) -> None:
    kept = values(large=-1)
    uri = kept.shown({"a": {"b/c": items}}, RUN)["links"][0].uri
    assert kept.read(f"{uri}?path=/a/b~1c&from={start}&to={stop}")[1] == items[start:stop]


def test_nobody_reads_what_is_another_clients() -> None:
    shelf = Shelf(-1)
    uri = Values(shelf, ONE).shown("mine", RUN)["links"][0].uri
    with pytest.raises(UsageError, match="nothing is kept for you"):
        Values(shelf, OTHER).read(uri)
    assert shelf.of(OTHER) == []


@pytest.mark.parametrize(
    ("tail", "what"),
    [
        ("?path=a", "JSON Pointer"),
        ("?path=/nothing", "is not there"),
        ("?path=/0x", "is not there"),
        ("?from=-1", "a number from 0"),
        ("?from=1e3", "a number from 0"),
        ("?to=99999999999999999999", "a number from 0"),
        ("?path=/0&from=1", "count items"),
        ("?other=1", "takes path, from and to"),
        ("?a=1&b=2&c=3&d=4&e=5", "is no address"),
        ("?" + "x" * 3000, "at most"),
    ],
)
def test_a_wrong_address_says_what_is_wrong(tail: str, what: str) -> None:
    kept = values(large=-1)
    uri = kept.shown([1, 2, 3], RUN)["links"][0].uri
    with pytest.raises(UsageError, match=what):
        kept.read(uri + tail)


def test_a_fragment_names_no_part() -> None:
    kept = values(large=-1)
    assert kept.read(kept.shown([1], RUN)["links"][0].uri + "#x")[1] == [1]


@given(st.text(max_size=40))
def test_no_address_breaks_it(uri: str) -> None:
    with pytest.raises(UsageError):
        values().read(uri)


@pytest.mark.parametrize(
    "given",
    [{"$resource": 1}, {"$resource": "atc://values/x", "more": 1}, {"$resource": ""}, {"$bytes": "no base64!"}],
)
def test_a_wrong_reference_is_no_input(given: Any) -> None:
    with pytest.raises(UsageError):
        values().inputs({"x": given})


def test_references_are_bounded_by_what_they_refer_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """One value of 2 MB, to which 10,000 inputs refer, is not read 10,000 times."""
    monkeypatch.setattr("atc.serve.mcp.values.MAX_BYTES", 1_000)
    kept = values(large=10)
    [link] = kept.shown("a" * 300, RUN)["links"]
    read: list[str] = []
    monkeypatch.setattr(Values, "read", lambda self, uri, whole=Values.read: read.append(uri) or whole(self, uri))
    assert kept.inputs({f"v{n}": {"$resource": link.uri} for n in range(3)}) == dict.fromkeys(
        ("v0", "v1", "v2"), "a" * 300
    )
    read.clear()
    with pytest.raises(UsageError, match=r"refer to have more than 1,000 bytes: give fewer"):
        kept.inputs({f"v{n}": {"$resource": f"{link.uri}?from=0&to=1"} for n in range(10_000)})
    assert len(read) == 4


def test_the_oldest_goes_first_and_no_client_takes_the_room_of_others() -> None:
    shelf = Shelf(-1, of_principal=1_000, together=1_500)
    mine, others = Values(shelf, ONE), Values(shelf, OTHER)
    first = others.shown("y" * 400, RUN)["links"][0].uri
    uris = [mine.shown("x" * 300, RUN)["links"][0].uri for _ in range(5)]
    assert others.read(first)[1] == "y" * 400, "a client's own go before those of others"
    with pytest.raises(UsageError):
        mine.read(uris[0])
    assert mine.read(uris[-1])[1] == "x" * 300
    assert sum(link.size for link in shelf.of(ONE)) <= 1_000


def test_room_is_counted_by_principal_whatever_its_clients_call_themselves() -> None:
    shelf = Shelf(-1, of_principal=1_000, together=1_500)
    owner = Values(shelf, ClientId("owner", "editor"))
    mine = owner.shown("y" * 400, RUN)["links"][0].uri
    for number in range(50):
        Values(shelf, ClientId("stranger", f"name {number}")).shown("x" * 300, RUN)
    assert owner.read(mine)[1] == "y" * 400
    assert sum(link.size for number in range(50) for link in shelf.of(ClientId("stranger", f"name {number}"))) <= 1_000
    with pytest.raises(UsageError):
        Values(shelf, ClientId("owner", "another")).read(mine)


def test_where_all_is_full_whoever_keeps_most_makes_room() -> None:
    shelf = Shelf(-1, of_principal=1_000, together=1_000)
    one = Values(shelf, ClientId("one")).shown("y" * 200, RUN)["links"][0].uri
    for _ in range(3):
        Values(shelf, ClientId("two")).shown("x" * 250, RUN)
    Values(shelf, ClientId("three")).shown("z" * 200, RUN)
    assert Values(shelf, ClientId("one")).read(one)[1] == "y" * 200
    assert len(shelf.of(ClientId("two"))) == 2


def test_many_small_values_are_bounded_by_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atc.serve.mcp.values.MOST_OF_PRINCIPAL", 3)
    monkeypatch.setattr("atc.serve.mcp.values.MOST_TOGETHER", 4)
    shelf = Shelf(-1)
    for number in range(9):
        Values(shelf, ONE).shown(f"{number}", RUN)
        Values(shelf, OTHER).shown("x", RUN)
    assert (len(shelf.of(ONE)), len(shelf.of(OTHER))) == (2, 2)


def test_the_size_is_that_of_the_json() -> None:
    link = values(large=0).shown(["ä"], RUN)["links"][0]
    assert link.size == len(json.dumps(["ä"], ensure_ascii=False).encode())
