"""What a start costs: how one is timed, and what is compared with what."""

import os
import sys

import pytest

from benchmarks import starts
from benchmarks.starts import Start

SERVER = "\nimport json, sys\nfor line in sys.stdin:\n    asked = json.loads(line)\n"
LISTS = SERVER + "    print(json.dumps({'id': asked.get('id'), 'result': {}}), flush=True)"


def python(source: str, **given: object) -> Start:
    return Start("one", (sys.executable, "-S", "-c", source), **given)  # type: ignore[arg-type]


def test_a_start_counts_until_it_has_ended() -> None:
    wall, processor = starts.timed(python("import time\nwhile time.process_time() < 0.05: pass"), os.environ)
    assert min(wall, processor) >= 0.05


def test_a_server_counts_until_its_list_is_there() -> None:
    wall, processor = starts.timed(python(LISTS, lists=True), os.environ)
    assert min(wall, processor) > 0


@pytest.mark.parametrize("lists", [False, True])
def test_what_fails_says_why(lists: bool) -> None:
    wanting = f"{SERVER if lists else 'if True:'}\n    raise SystemExit('no such tool')"
    with pytest.raises(RuntimeError, match=r"one ended with 1: no such tool"):
        starts.timed(python(wanting, lists=lists), os.environ)


def test_what_is_not_installed_is_named_and_nothing_compared_with_it() -> None:
    absent = Start("other", ("false",), needs="no_such_package")
    found = starts.measure([absent, python("pass", beside="other")], 1)
    assert found["not_installed"] == ["no_such_package"]
    assert list(found["starts"]) == ["one"]
    assert "ratio" not in found["starts"]["one"]


def test_each_start_is_compared_with_one_that_is_there() -> None:
    names = {start.name for start in starts.starts()}
    assert {start.beside for start in starts.starts()} - {""} <= names
