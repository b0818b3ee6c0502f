"""Whose hosts a recording is of: its pages' and others of their site, or those that the user names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from atc.errors import ToolImportError, UsageError
from atc.tools.har.hosts import site_of
from atc.tools.har.importer import read_har
from tests.support.recordings import call, page, write


def hosts(tmp_path: Path, *entries: dict[str, Any], named: list[str] | None = None) -> list[str]:
    return [each.origin for each in read_har(write(tmp_path / "a.har", *entries), hosts=named)]


API, STATS = call("https://api.example.com/a", {}), call("https://stats.example.net/b", {})
LOCAL = call("http://localhost:8000/c", {})


def test_pages_and_their_site_are_kept_and_third_parties_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert hosts(tmp_path, page(), API, STATS, STATS) == ["https://api.example.com"]
    assert caplog.messages[0].endswith("left out 1 document, calls to other hosts: stats.example.net (2); "
                                       "har:FILE@HOST keeps one")  # fmt: skip


def test_a_frame_of_another_site_makes_it_no_host_of_the_recording(tmp_path: Path) -> None:
    frame = page("https://stats.example.net/frame")
    assert hosts(tmp_path, page(), API, frame, STATS) == ["https://api.example.com"]


def test_without_pages_the_caller_counts_then_the_busiest_host(tmp_path: Path) -> None:
    called = call("https://api.example.com/a", {}, headers={"Origin": "https://app.example.com"})
    assert hosts(tmp_path, STATS, STATS, called) == ["https://api.example.com"]
    assert hosts(tmp_path, API, STATS, STATS) == ["https://stats.example.net"]


def test_named_hosts_are_kept_by_name_port_or_address(tmp_path: Path) -> None:
    for word in ("stats.example.net", "STATS.example.net:443", "https://stats.example.net/x"):
        assert hosts(tmp_path, page(), API, STATS, named=[word]) == ["https://stats.example.net"]
    assert hosts(tmp_path, API, LOCAL, named=["localhost:8000"]) == ["http://localhost:8000"]


def test_a_host_that_was_not_called_is_an_error_that_names_those_that_were(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no call to 'x\.example'; it has calls to api\.example\.com \(1\)"):
        hosts(tmp_path, API, named=["x.example"])
    with pytest.raises(UsageError, match="is no host"):
        hosts(tmp_path, API, named=["x:port"])


def test_a_recording_without_a_call_of_its_own_says_what_it_has(tmp_path: Path) -> None:
    with pytest.raises(ToolImportError, match=r"stats\.example\.net \(1\).*hosts=.*@HOST"):
        hosts(tmp_path, page(), STATS)
    with pytest.raises(ToolImportError, match="it is empty"):
        hosts(tmp_path)


@pytest.mark.parametrize(
    ("host", "site"),
    [
        ("api.example.com", "example.com"),
        ("a.b.example.co.uk", "example.co.uk"),
        ("alice.github.io", "alice.github.io"),
        ("x.eu-west-1.amazonaws.com", "x.eu-west-1.amazonaws.com"),
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
    ],
)
def test_a_site_is_what_one_owner_has(host: str, site: str) -> None:
    assert site_of(host) == site
