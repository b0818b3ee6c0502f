"""A stranger's ways: where they end, what counts as right, and what stands for GitHub's server."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from benchmarks.documents import stranger
from benchmarks.documents.stranger import Step, Way


def got(address: str) -> object:
    with urllib.request.urlopen(address, timeout=5) as response:
        return json.load(response)


def test_a_way_ends_at_the_first_command_that_fails() -> None:
    way = Way("functions", ("one", "two", "three"), lambda printed: True)
    steps = list(stranger.walk(way, lambda command: Step(command, 1.0, int(command == "two"), "")))
    assert [(step.command, step.code) for step in steps] == [("one", 0), ("two", 1)]


@pytest.mark.parametrize(("printed", "code"), [("answered 148\n", 0), ("answered 63\n", 1), ("", 1)])
def test_a_wrong_answer_is_a_failure(printed: str, code: int) -> None:
    way = Way("functions", ("ask",), stranger.ends_with(stranger.EXAMPLE_PRINTS))
    (step,) = stranger.walk(way, lambda command: Step(command, 1.0, 0, printed))
    assert step.code == code


@pytest.mark.parametrize(
    ("printed", "right"),
    [
        ('{"value": 520774}', True), ('{"value": "520774"}', False), ('{"value": true}', False), ("[]", False),
        ('{"error": {}}', False), ("", False),
    ],
)  # fmt: skip
def test_a_value_is_right_where_type_and_value_are(printed: str, right: bool) -> None:
    assert stranger.value_is(520774)(printed) is right


def test_a_time_may_stand_in_a_longer_text() -> None:
    right = stranger.value_has("08:30")
    assert right('{"value": "2026-11-24T08:30:00+05:30"}')
    assert not right('{"value": "15:30"}')
    assert not right('{"value": 8.5}')


def test_a_service_stands_for_github(tmp_path: Path) -> None:
    document = tmp_path / "github.json"
    document.write_text('{"openapi": "3.0.3", "servers": [{"url": "https://api.github.com"}], "paths": {}}')
    with stranger.github(document) as (address, tag):
        assert got(f"{address}/openapi.json") == {"openapi": "3.0.3", "servers": [{"url": address}], "paths": {}}
        there = f"{address}{stranger.REPOSITORY_PATH}"
        for path in ("latest", "1", f"tags/{tag}"):
            assert got(f"{there}/releases/{path}")["tag_name"] == tag  # type: ignore[index]
        assert [each["name"] for each in got(f"{there}/tags")] == [tag]  # type: ignore[index,call-overload]
        with pytest.raises(urllib.error.HTTPError, match="404"):
            got(f"{address}/user")


def test_a_way_says_what_is_not_the_real_thing() -> None:
    assert "GitHub" in stranger.openapi("/wheels", False, "http://127.0.0.1:1", "A title").stands_for
    assert "endpoint" in stranger.endpoint("/wheels", False, "http://127.0.0.1:1/v1", "m", 1, True).stands_for
    assert not stranger.endpoint("/wheels", False, "https://host.example/v1", "m", 1, False).stands_for
    assert not stranger.mcp("/wheels", False).stands_for


def test_a_file_is_written_as_it_is_given(tmp_path: Path) -> None:
    text = json.dumps(stranger.SERVERS, indent=2)
    command = stranger.written("servers.json", text)
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)
    assert (tmp_path / "servers.json").read_text() == text + "\n"
    assert stranger.shown(command) == "cat > servers.json"


def test_the_way_over_githubs_document_needs_it() -> None:
    command = [sys.executable, "-m", "benchmarks.documents.stranger", "--way", "openapi"]
    ran = subprocess.run(command, cwd=stranger.ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "the way openapi needs --document FILE" in ran.stderr
