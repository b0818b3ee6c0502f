"""The suite that every sandbox driver must pass, on this machine's tiers; and that it finds what is broken."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from atc._records.outcome import Outcome
from atc.calls.clock import Clock
from atc.calls.contract import CallHandler, CallReply, CallRequest
from atc.cli import app
from atc.errors import SandboxUnavailable, SettingsError
from atc.sandboxes.conformance import (
    CHECKS,
    Check,
    Lab,
    NotApplicable,
    Report,
    check_sandbox,
    factory_for,
    kit,
)
from atc.sandboxes.conformance.programs import ABSENT, programs
from atc.sandboxes.contract import Job, Limits
from atc.sandboxes.process.driver import JailSandbox, ProcessSandbox
from atc.settings import Settings
from tests.support.sandbox import forced, in_sandbox, run_once

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture
def one_check(monkeypatch: pytest.MonkeyPatch) -> list[Check]:
    """The command runs these checks in place of all."""
    chosen: list[Check] = []
    real = check_sandbox
    monkeypatch.setattr("atc.sandboxes.conformance.check_sandbox", lambda factory, tell: real(factory, chosen, tell))
    return chosen


def _report(tier: str | None, checks: tuple[Check, ...] = CHECKS) -> Report:
    return asyncio.run(check_sandbox(factory_for(Settings.load(), tier), checks))


def _failures(report: Report) -> list[str]:
    return [f"{verdict.name}: {verdict.why}" for verdict in report.verdicts if verdict.result == "failed"]


# -- the drivers keep their promises ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_strongest_tier_of_this_machine_keeps_every_promise() -> None:
    report = _report(None)
    assert _failures(report) == []
    assert (report.driver, len(report.verdicts)) == ("process", len(CHECKS))
    assert report.isolation in ("N", "L")
    assert report.count("skipped") <= 3


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["N", "L", "F"])
def test_each_tier_keeps_every_promise(tier: str) -> None:
    run_once(forced(tier), "answer = 1")  # skips what this machine does not have
    report = _report(tier)
    assert _failures(report) == []
    assert report.isolation == tier
    assert report.count("skipped") <= 6


def test_the_suite_is_as_wide_as_it_says() -> None:
    assert len(programs()["python"]) >= 65
    assert len({(check.group, check.name) for check in CHECKS}) == len(CHECKS)
    assert len(CHECKS) >= 120


_PLAIN = """
import json, sys
made = {}
for name, program in json.load(sys.stdin).items():
    scope = {"__name__": "__main__"}
    exec(compile(program, "<program>", "exec"), scope)
    made[name] = scope["answer"]
json.dump(made, sys.stdout)
"""


def test_the_answers_of_the_programs_are_those_of_plain_python() -> None:
    """What the suite wants of a jail is what an interpreter without one gives."""
    rows = programs()["python"]
    sources = json.dumps({name: row.program for name, row in rows.items()})
    ran = subprocess.run(
        [sys.executable, "-I", "-c", _PLAIN], input=sources, capture_output=True, text=True, check=True
    )
    for name, answer in json.loads(ran.stdout).items():
        assert answer == json.loads(rows[name].answer) or (rows[name].optional and answer == ABSENT), name


# -- and where one does not, the suite says so -----------------------------------------------------------------------


class _Broken(ProcessSandbox):
    """A driver with one fault of each kind that a driver may have."""

    def __init__(self, limits: Limits, fault: str) -> None:
        super().__init__(limits)
        self._fault = fault

    async def run(self, job: Job, call: CallHandler) -> Outcome:
        if self._fault == "refuses" and "[None, True" in job.program:
            raise SandboxUnavailable("not today")
        if self._fault == "forgets inputs":
            job = dataclasses.replace(job, inputs={})
        if self._fault == "has a clock of its own":
            job = dataclasses.replace(job, clock=Clock())
        outcome = await super().run(job, call)
        if self._fault == "rounds" and outcome.value == [2**53 + 1, -(2**63), 2**64, 10**300]:
            return Outcome("finished", answered=True, value=[float(number) for number in outcome.value])
        if self._fault == "no lines" and outcome.error is not None:
            return Outcome("raised", error=type(outcome.error)(outcome.error.type, outcome.error.message))
        if self._fault == "forgets output":
            return Outcome(outcome.kind, outcome.answered, outcome.value, outcome.error, outcome.detail)
        return outcome

    async def isolation(self) -> str:
        return "X" if self._fault == "boasts" else await super().isolation()


@pytest.mark.parametrize(
    ("fault", "check", "words"),
    [
        ("refuses", "every kind of JSON value comes back as it is", "SandboxUnavailable came out: not today"),
        ("rounds", "big integers come back exact", "the answer was [9007199254740992.0"),
        ("no lines", "a program that does not parse tells the line", "should have named line 2"),
        ("forgets inputs", "inputs stand in the program's scope, whatever they hold", "NameError"),
        ("boasts", "isolation() names the tier that programs have", "the tier that the sandbox names was 'X'"),
        pytest.param(
            *("has a clock of its own", "time in which the host waits for a person does not count, and the rest does"),
            *("it ran longer than 8 s",),
            marks=pytest.mark.slow,
        ),
        ("forgets output", "what was printed before an exception is kept", "what was printed was ''"),
    ],
)
def test_a_driver_with_a_fault_fails_the_check_that_looks_for_it(fault: str, check: str, words: str) -> None:
    chosen = [item for item in CHECKS if item.name == check]
    report = asyncio.run(check_sandbox(lambda limits: _Broken(limits, fault), chosen))
    assert [verdict.result for verdict in report.verdicts] == ["failed"]
    assert words in report.verdicts[0].why
    assert not report.ok


def test_a_check_that_hangs_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(lab: Lab) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr("atc.sandboxes.conformance.suite.CHECK_S", 0.1)
    report = _report(None, (Check("hangs", "test", hang),))
    assert _failures(report) == ["hangs: it did not end within 0.1 s"]


@pytest.mark.parametrize(
    ("got", "wanted", "equal"),
    [(1, 1, True), (1, 1.0, False), (1, True, False), ([1, {"a": 1}], [1, {"a": True}], False), ("a", "a", True)],
)
def test_values_are_compared_with_their_types(got: Any, wanted: Any, equal: bool) -> None:
    if equal:
        kit.same(got, wanted, "it")
    else:
        with pytest.raises(AssertionError, match=r"it was .*, not "):
            kit.same(got, wanted, "it")


# -- atc sandbox check -----------------------------------------------------------------------------------------------


async def _kept(lab: Lab) -> None:
    await lab.still_works()


async def _not_kept(lab: Lab) -> None:
    kit.same(await lab.answer("answer = 41"), 42, "the answer")


async def _not_here(lab: Lab) -> None:
    raise NotApplicable("nothing of the kind here")


def test_the_command_prints_a_table_and_leaves_with_0(one_check: list[Check]) -> None:
    one_check += [Check("it works", "test", _kept), Check("it has wings", "test", _not_here)]
    ran = CliRunner().invoke(app, ["sandbox", "check"])
    assert ran.exit_code == 0, ran.output
    kept, skipped, summary = ran.stdout.splitlines()[-3:]
    assert ("✓" in kept, "it works" in kept) == (True, True)
    assert ("–" in skipped, "nothing of the kind here" in skipped) == (True, True)
    assert "1 passed, 0 failed, 1 skipped" in summary


def test_the_command_leaves_with_1_when_a_check_failed(one_check: list[Check]) -> None:
    one_check += [Check("it works", "test", _kept), Check("it knows", "test", _not_kept)]
    ran = CliRunner().invoke(app, ["sandbox", "check", "process", "--json"])
    assert ran.exit_code == 1
    told = json.loads(ran.stdout)
    assert (told["driver"], told["passed"], told["failed"], told["skipped"]) == ("process", 1, 1, 0)
    assert [check["why"] for check in told["checks"]] == ["", "the answer was 41, not 42"]


def test_one_tier_can_be_checked(one_check: list[Check]) -> None:
    run_once(forced("F"), "answer = 1")
    one_check.append(Check("it works", "test", _kept))
    ran = CliRunner().invoke(app, ["sandbox", "check", "--tier", "F", "--json"])
    assert (ran.exit_code, json.loads(ran.stdout)["isolation"]) == (0, "F")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["podman"], 2, "no sandbox driver is named 'podman'"),
        (["--tier", "Z"], 2, "there is no tier 'Z': choose from N, L, F"),
        (["docker", "--tier", "L"], 2, "for the driver `process` only"),
        (["http://127.0.0.1:9"], (2, 3), ""),
    ],
)
def test_a_driver_that_cannot_be_had_is_said_in_a_line(arguments: list[str], code: Any, words: str) -> None:
    ran = CliRunner().invoke(app, ["sandbox", "check", *arguments])
    assert ran.exit_code in (code if isinstance(code, tuple) else (code,)), ran.output
    assert words in ran.stderr
    assert ran.stderr.startswith("atc: ")


def test_a_process_sandbox_that_cannot_be_had_leaves_with_3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    ran = CliRunner().invoke(app, ["sandbox", "check"])
    assert (ran.exit_code, "cannot be started" in ran.stderr) == (3, True)


def test_a_tier_is_for_the_process_driver() -> None:
    with pytest.raises(SettingsError, match="not for 'docker'"):
        factory_for(Settings.load(sandbox="docker"), "L")
    assert isinstance(factory_for(Settings.load(), "L")(Limits()), JailSandbox)


# -- packages with C parts -------------------------------------------------------------------------------------------


def test_a_package_that_was_not_preloaded_says_which_setting_loads_it() -> None:
    error = in_sandbox("x = 1\nimport numpy").error
    assert error is not None
    assert (error.type, error.line) == ("ModuleNotFoundError", 2)
    assert error.message == "No module named 'numpy'"
    assert error.hint.startswith("programs have the standard library; other packages must be preloaded")
    assert "ATC_SANDBOX_PRELOAD" in error.hint


def test_in_tier_f_only_preloaded_modules_are_there_and_the_error_says_so() -> None:
    error = run_once(forced("F"), "import wave").error
    assert error is not None
    assert "tier F has only preloaded modules" in error.hint
    assert "sandbox_preload" in error.hint


def test_a_program_s_own_import_error_stays_as_it_is() -> None:
    program = "class Odd(ImportError):\n    name = property(lambda self: 1 / 0)\nraise Odd('mine')"
    for text in ("raise ImportError('mine')", program):
        error = in_sandbox(text).error
        assert error is not None
        assert error.message == "mine"


def test_a_package_that_cannot_be_preloaded_is_named() -> None:
    with pytest.raises(SandboxUnavailable, match=r"package 'no_such_package' cannot be preloaded: ModuleNotFoundError"):
        run_once(ProcessSandbox(preload=["no_such_package"]), "answer = 1")


_NUMPY = """
import numpy as np
a = np.arange(12, dtype=float).reshape(3, 4)
answer = [(a @ a.T)[1].tolist(), round(float(np.linalg.det(np.eye(3) * 2)), 6), a.sum(axis=0).tolist(), np.median(a)]
"""
_NUMPY_RANDOM = "import numpy as np\nanswer = list(np.random.default_rng(7).normal(size=3).shape)"


@pytest.mark.slow
def test_a_preloaded_package_with_c_parts_works() -> None:
    pytest.importorskip("numpy", reason="numpy is not installed beside ATC")
    outcome = run_once(ProcessSandbox(preload=["numpy"]), _NUMPY)
    assert outcome.kind == "finished", outcome
    assert outcome.value == [[38.0, 126.0, 214.0], 8.0, [12.0, 15.0, 18.0, 21.0], 5.5]


_DRAWN = """
import random
import numpy as np
answer = [random.random(), np.random.rand(), np.random.default_rng().random()]
"""


@pytest.mark.slow
def test_two_programs_draw_different_numbers_from_what_was_preloaded() -> None:
    pytest.importorskip("numpy", reason="numpy is not installed beside ATC")

    async def no_call(request: CallRequest) -> CallReply:
        raise AssertionError(request)

    async def drawn() -> list[Any]:
        async with ProcessSandbox(preload=["numpy"]) as sandbox:
            return [(await sandbox.run(Job(_DRAWN, {}), no_call)).value for _ in range(2)]

    first, second = asyncio.run(drawn())
    assert all(a != b for a, b in zip(first, second, strict=True))


_PANDAS = """
import pandas as pd
frame = pd.DataFrame({"a": [1, 2, None], "d": pd.to_datetime(["2026-05-01", None, "2026-05-02"])})
answer = [frame, frame["a"].mean(), frame.groupby("a").size()]
"""


@pytest.mark.slow
def test_a_frame_of_a_program_comes_back_as_records() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed beside ATC")
    outcome = run_once(ProcessSandbox(preload=["pandas"]), _PANDAS)
    records = [
        {"a": 1.0, "d": "2026-05-01T00:00:00"},
        {"a": 2.0, "d": None},
        {"a": None, "d": "2026-05-02T00:00:00"},
    ]
    assert (outcome.kind, outcome.value) == ("finished", [records, 1.5, {"1.0": 1, "2.0": 1}])


@pytest.mark.slow
def test_a_package_is_preloaded_whole() -> None:
    """``import numpy`` leaves ``numpy.random`` for later, and later is too late: preloading takes it along."""
    pytest.importorskip("numpy", reason="numpy is not installed beside ATC")
    outcome = run_once(ProcessSandbox(preload=["numpy"]), _NUMPY_RANDOM)
    assert (outcome.kind, outcome.value) == ("finished", [3])


def test_a_module_with_c_parts_is_named_as_it_is_to_be_preloaded() -> None:
    """What the error says to add is added, and the same program runs."""
    program = "import cProfile\nanswer = type(cProfile.Profile()).__name__"
    if "_lsprof" in sys.builtin_module_names:
        pytest.skip("this Python has the profiler built in")
    error = in_sandbox(program).error
    assert error is not None
    assert "add '_lsprof' to the setting `sandbox_preload`" in error.hint
    assert run_once(ProcessSandbox(preload=["_lsprof"]), program).value == "Profile"
