"""What is read of a recording, by the recorders' own spellings, and of what is none."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from atc.errors import ToolImportError
from atc.tools.har.credentials import is_secret
from atc.tools.har.entries import Entry, read_entries
from tests.support.recordings import SHOP, call, page, write
from tests.support.time import little_work


def one(tmp_path: Path, entry: Any) -> Entry:
    (found,) = read_entries(write(tmp_path / "a.har", entry))
    return found


@pytest.mark.parametrize(
    ("kind", "entry"),
    [
        ("call", call("/api/orders", [])),
        ("call", call("/api/orders", [], _resourceType="document")),  # somebody looked at the API itself
        ("call", call("/api/orders/1", None, method="DELETE", status=204, media_type="")),
        ("call", call("/api/orders", '{"a": 1}', media_type="")),
        ("document", page()),
        ("static file", call("/app.js", "x", media_type="text/javascript")),
        ("static file", call("/logo", "x", media_type="image/png")),
        ("static file", call("/i18n/en.json", {}, _resourceType="script")),
        ("redirect", call("/old", None, status=302, media_type="text/html")),
        ("preflight", call("/api/orders", None, method="OPTIONS", status=204)),
        ("websocket", call("wss://shop.example.com/live", None, status=101)),
        ("websocket", call("/live", None, status=200, _webSocketMessages=[])),
        ("cached answer", call("/api/orders", None, status=304)),
        ("cached answer", call("/api/orders", [], _fromCache="disk")),
        ("cached answer", call("/api/orders", [], _fetchType="Disk Cache")),
        ("call without an answer", call("/api/orders", None, status=0)),
        ("answer that is no JSON", call("/api/report", "a,b", media_type="text/csv")),
        ("answer that is no JSON", call("/metrics", None, method="POST", status=204, _resourceType="ping")),
        ("GraphQL call", call("/g", {}, method="POST", sent={"query": "{ a }", "operationName": "A"})),
        ("odd address", call("https://shop.example.com/a/../b", {})),
        ("odd address", call("https://shop.example.com/a/%2e%2e/b", {})),
        ("odd address", call("https://shop.example.com//evil.example.net/b", {})),
        ("odd address", call("file:///etc/passwd", {})),
        ("odd address", call("https://[bad/x", {})),
        ("odd address", call("https://shop.example.com:99999/x", {})),
        ("odd address", call("https://ignore previous.example.com/x", {})),
        ("odd address", call("https://shop.example.com/" + "a/" * 100_000, {})),
        ("broken entry", {"request": {}}),
        ("broken entry", "text"),
        ("broken entry", None),
    ],
    ids=lambda value: value if isinstance(value, str) else "of",
)
def test_each_entry_has_a_kind(tmp_path: Path, kind: str, entry: Any) -> None:
    assert one(tmp_path, entry).kind == kind


def test_user_and_password_of_an_address_are_dropped_and_a_port_is_kept(tmp_path: Path) -> None:
    found = one(tmp_path, call("http://user:pass@LOCALHOST:8080/a%20b/c?x=1&x=2&y=", {}))
    assert (found.scheme, found.host, found.port) == ("http", "localhost", 8080)
    assert found.segments == ("a b", "c")
    assert found.query == (("x", "1"), ("x", "2"), ("y", ""))
    assert "pass" not in repr(found)


def test_a_body_in_base64_is_unpacked(tmp_path: Path) -> None:
    entry = call("/api/a", "")
    text = base64.b64encode('{"ä": 1}'.encode()).decode()
    entry["response"]["content"] |= {"text": text, "encoding": "base64"}
    assert one(tmp_path, entry).answer == '{"ä": 1}'
    entry["response"]["content"]["text"] = "§ no base64"
    assert one(tmp_path, entry).answer is None


def test_cookies_come_from_the_header_or_from_the_list(tmp_path: Path) -> None:
    assert one(tmp_path, call("/api/a", {}, headers={"Cookie": "a=1; b=x=y"})).cookies == {"a": "1", "b": "x=y"}
    listed = call("/api/a", {})
    listed["request"]["cookies"] = [{"name": "a", "value": "1"}, {"name": 3}, "text"]
    listed["response"]["cookies"] = [{"name": "a", "value": "2", "expires": "2027-01-01T00:00:00Z"}]
    found = one(tmp_path, listed)
    assert found.cookies == {"a": "1"}
    assert found.set_cookies == ("a=2; Expires=2027-01-01T00:00:00Z",)


def test_a_recording_with_odd_text_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.har", call("/api/a", {"x": 1}))
    odd = path.read_bytes().replace(b'"time": 12.5', b'"time": NaN').replace(b'"page_1"', b'"\xff\x01"')
    path.write_bytes(b"\xef\xbb\xbf" + odd)
    assert [entry.kind for entry in read_entries(path)] == ["call"]


def test_entries_may_stand_before_or_after_anything(tmp_path: Path) -> None:
    path = tmp_path / "a.har"
    path.write_text(json.dumps({"x": {"entries": 1}, "log": {"pages": [{"log": {}}], "entries": [page()]}, "z": 1}))
    assert [entry.kind for entry in read_entries(path)] == ["document"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no recording of a browser"),
        ("[]", "no recording of a browser"),
        ('{"openapi": "3.1.0"}', "no recording of a browser"),
        ('{"log": {"entries": {}}}', "no recording of a browser"),
        ('{"log": {"entries": [{"request', "not valid JSON"),
        ('{"log": {"entries": [{} {}]}}', "not valid JSON"),
        ('{"log": {"entries": [' + "[" * 100_000, "nested too deep"),
        ('{"log": {"entries": [' + "9" * 10_000, "not valid JSON"),
    ],
    ids=["empty", "list", "other", "no list", "cut", "no comma", "deep", "digits"],
)
def test_what_is_no_recording_says_so(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.har"
    path.write_text(text)
    with pytest.raises(ToolImportError, match=message) as caught:
        list(read_entries(path))
    assert str(path) in str(caught.value)


def test_a_recording_that_is_too_large_or_missing_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "a.har", page())
    with pytest.raises(ToolImportError, match="larger than 10 bytes"):
        list(read_entries(path, max_bytes=10))
    with pytest.raises(ToolImportError, match="cannot be read"):
        list(read_entries(tmp_path / "none.har"))


def test_fields_of_a_form_are_read_from_its_text_too(tmp_path: Path) -> None:
    entry = call("/api/a", {}, method="POST", form={"a": "1 2", "b": ""})
    entry["request"]["postData"]["params"] = [{"name": "a", "value": "1+2"}]  # as some browsers write it
    body = one(tmp_path, entry).body
    assert body is not None
    assert body.fields == (("a", "1 2"), ("b", ""))
    entry["request"]["postData"] = {
        "mimeType": "multipart/form-data; boundary=x",
        "params": [{"name": "f", "fileName": "a.png", "value": "…"}, {"name": "n", "value": "1"}],
    }
    body = one(tmp_path, entry).body
    assert body is not None
    assert body.files == {"f"}
    assert dict(body.fields)["n"] == "1"


def test_half_characters_and_control_characters_do_no_harm(tmp_path: Path) -> None:
    entry = one(tmp_path, call(f"{SHOP}/api/\ud800\u0007/x", '{"\\ud800": "\\u0000"}'))
    assert entry.kind in ("call", "odd address")


def test_of_a_long_header_the_beginning_is_looked_at() -> None:
    with little_work(2.0):
        assert not is_secret("x-q", "eyJ" + "a.-" * 5_000_000)
    assert is_secret("x-api-key", "a" * 5_000_000)
