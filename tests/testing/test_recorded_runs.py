"""``atc.testing``: what `atc runs record` wrote is replayed by pytest, from whatever folder, and a drift is a diff."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from atc._records.recording import RecordedCall, Recording
from atc.run.recorded_file import TEST, RecordedFiles, write_recording
from atc.run.recording import recorded_tool
from atc.tools.functions import tool_from_function

pytest_plugins = ("pytester",)


def stock_of(product: str) -> int:
    """Return how many pieces of a product are in stock."""
    return 4


def recorded(folder: Path, program: str = "answer = stock_of('lamp') + 1", **more: Any) -> RecordedFiles:
    tool = recorded_tool(tool_from_function(stock_of).protocol)
    call = RecordedCall(index=1, tool="stock_of", arguments={"product": "lamp"}, value=4, line=1)
    fields = {"run": "R", "tools": {"stock_of": tool}, "calls": (call,), "value": 5, **more}
    files = RecordedFiles(folder / "test_lamps.py", folder / "test_lamps.json")
    write_recording(Recording(program=program, **fields), files, force=True)
    return files


@pytest.fixture
def _shared(monkeypatch: pytest.MonkeyPatch, _sandbox_of_all: Any) -> None:
    monkeypatch.setattr("atc.testing.open_sandbox", _sandbox_of_all.open)


@pytest.mark.usefixtures("_shared")
def test_pytest_alone_runs_a_recording_and_says_how_it_differs(pytester: pytest.Pytester) -> None:
    recorded(pytester.path)
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
    recorded(pytester.path, program="answer = stock_of('chair') + 1")
    ran = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    ran.assert_outcomes(failed=1)
    ran.stdout.fnmatch_lines(
        [
            "run R (test_lamps.json) is not replayed as it was recorded:",
            "- not recorded, line 1: stock_of(product='chair'); the nearest recorded call, 1, differs:",
            '    product: recorded "lamp", now "chair"',
            "- recorded, and not made, line 1: stock_of(product='lamp')",
            "- there is no answer, line 1: ToolError: *",
        ]
    )
    assert "Traceback" not in ran.stdout.str()


@pytest.mark.usefixtures("_shared")
def test_the_tools_of_now_are_held_against_the_recorded_ones(pytester: pytest.Pytester) -> None:
    recorded(pytester.path)
    pytester.makepyfile(shop="def stock_of(product: str, house: str = 'A') -> int:\n    '''Count.'''\n    return 4\n")
    ran = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "atc.testing", "--atc-tools", "shop.py")
    ran.assert_outcomes(failed=1)
    ran.stdout.fnmatch_lines(
        ["- the tool stock_of is not what it was:", "    parameters.properties.house: recorded nothing, now {*}"]
    )
    pytester.makeconftest(
        "import pytest\n"
        "def stock_of(product: str) -> int:\n    '''Count.'''\n"
        "@pytest.fixture(scope='session')\ndef atc_tools():\n    return [stock_of]\n"
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "atc.testing").assert_outcomes(passed=1)


@pytest.mark.usefixtures("_shared")
def test_tests_of_ones_own_use_the_fixtures(pytester: pytest.Pytester) -> None:
    recorded(pytester.path)
    pytester.makepyfile(
        test_mine="""
        import pytest
        def test_the_answer(atc_replay):
            assert atc_replay("test_lamps.json") == 5
        def test_another_program(atc_replay):
            assert atc_replay("test_lamps.json", program="n = stock_of(product=what)\\nanswer = n + 1",
                              inputs={"what": "lamp"}) == 5
        def test_within_a_loop(atc_replay):
            import asyncio
            async def inside():
                return atc_replay("test_lamps.json")
            assert asyncio.run(inside()) == 5
        """
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "atc.testing", "test_mine.py").assert_outcomes(
        passed=3
    )


def test_what_is_no_recording_and_a_missing_sandbox_fail_with_the_reason(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = recorded(pytester.path)
    monkeypatch.setenv("ATC_SANDBOX", "nonesuch")
    ran = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    ran.assert_outcomes(errors=1)
    ran.stdout.fnmatch_lines(["no recorded run can be replayed: *nonesuch*"])
    ran.stdout.no_fnmatch_line("*During handling*")
    monkeypatch.delenv("ATC_SANDBOX")
    files.data.write_text("{}")
    ran = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    ran.assert_outcomes(failed=1)
    ran.stdout.fnmatch_lines(["*test_lamps.json is no recording: program: *"])
    ran.stdout.no_fnmatch_line("*During handling*")


@pytest.mark.usefixtures("_shared")
def test_a_recording_edited_by_hand_is_data_in_a_jail(pytester: pytest.Pytester) -> None:
    files = recorded(pytester.path)
    data = json.loads(files.data.read_text())
    mark = pytester.path / "escaped"
    data["program"] = f"import os\nos.system('touch {mark}')\nopen({str(mark)!r}, 'w')\nanswer = 5"
    files.data.write_text(json.dumps(data))
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(failed=1)
    assert not mark.exists()
    assert files.test.read_text() == TEST


def test_pytest_is_told_nothing_unless_it_is_asked(pytester: pytest.Pytester) -> None:
    from importlib.metadata import distribution

    assert not [each for each in distribution("atc-runtime").entry_points if each.group == "pytest11"]
    ran = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--fixtures", "-q")
    assert "atc_replay" not in ran.stdout.str()


@pytest.mark.slow
def test_workers_replay_side_by_side(pytester: pytest.Pytester) -> None:
    for name in ("a", "b", "c"):
        (pytester.path / name).mkdir()
        recorded(pytester.path / name)
    ran = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-n", "2", "--import-mode=importlib")
    ran.assert_outcomes(passed=3)
