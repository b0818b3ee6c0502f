"""What a recording of a browser costs, by its worst known kinds: its length, and what a stranger can put in it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from atc.tools.har.importer import from_har
from tests.growth.harness import assert_linear
from tests.support.recordings import call, page, write

pytestmark = pytest.mark.slow

_Entries = Callable[[int], list[dict[str, Any]]]


def _word(number: int) -> str:
    return "".join(chr(97 + int(digit)) for digit in f"{number * 7_919 % 10**9:09}")


def _distinct(n: int) -> list[dict[str, Any]]:
    return [call(f"/api/orders/{i}/items?page={i % 7}", {"id": i, "name": f"n{i}"}) for i in range(n)]


def _words(n: int) -> list[dict[str, Any]]:
    return [call(f"/api/{_word(i)}/{_word(i + 1)}", {"a": i}) for i in range(n)]


def _hosts(n: int) -> list[dict[str, Any]]:
    return [page(), *(call(f"https://h{i}.example.com/api/x", {"a": i}) for i in range(n))]


def _strangers(n: int) -> list[dict[str, Any]]:
    return [page(), call("/api/a", {}), *(call(f"https://h{i}.example{i}.net/api/x", {}) for i in range(n))]


def _keys(n: int) -> list[dict[str, Any]]:
    return [call(f"/api/a?p={i}", {_word(i): 1, "name": _word(i)}) for i in range(n)]


def _one_long_path(n: int) -> list[dict[str, Any]]:
    return [call("/api/a", {}), call("/" + "a/" * n, {})]


def _long_parts(n: int) -> list[dict[str, Any]]:
    return [call(f"/api/orders/{'a-' * 450}{i}", {}) for i in range(n)]


def _arguments(n: int) -> list[dict[str, Any]]:
    return [call(f"/api/a?{_word(i)}={_word(i)}&x={i}", {"a": i}) for i in range(n)]


def _cookies(n: int) -> list[dict[str, Any]]:
    cookies = {"Cookie": "; ".join(f"sid{j}=a1b2c3d4e5f6a7b8" for j in range(50))}
    return [call("/api/a", {"a": i}, headers=cookies, set_cookies=(f"sid{i}=x",)) for i in range(n)]


def _bait(n: int) -> list[dict[str, Any]]:
    texts = ["a" * n, "-" * n, "eyJ" * n, "{" * n, "1-" * n, "=" * n, " " * n, "sk-" * n, '"query"' * n, "[" * n]
    return [call(f"/api/{text[:900]}?{text}={text}", text, set_cookies=(text,)) for text in texts]


def _bodies(n: int) -> list[dict[str, Any]]:
    return [call("/api/a", {"items": [{"id": i, "name": f"n{i}", "tags": ["a"]} for i in range(n)]}, sent=[{}] * n)]


@pytest.mark.parametrize(
    "entries",
    [_distinct, _words, _hosts, _strangers, _keys, _one_long_path, _long_parts, _arguments, _cookies, _bait, _bodies],
    ids=lambda made: made.__name__.strip("_"),
)
def test_a_recording_is_read_in_linear_time(tmp_path: Path, entries: _Entries) -> None:
    logging.disable(logging.WARNING)
    try:
        assert_linear(
            lambda n: write(tmp_path / f"{n}.har", *entries(n)),
            lambda path: from_har(path, session="none"),
            n=50,
            most=50_000,
        )
    finally:
        logging.disable(logging.NOTSET)


def test_fifty_megabytes_and_a_hundred_thousand_entries_become_one_tool(tmp_path: Path) -> None:
    path = write(tmp_path / "large.har", *_distinct(100_000))
    assert path.stat().st_size > 50_000_000
    tools = from_har(path, session="none")
    assert list(tools) == ["get_orders_by_order_id_items"]
    assert "99999" not in json.dumps(tools["get_orders_by_order_id_items"].protocol.model_dump(mode="json"))
