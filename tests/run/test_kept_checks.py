"""Kept programs that do not fit the tools that they call: which are left out, and what is said of them."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, Toolset
from atc.catalogue.catalogue import Catalogue
from atc.errors import UsageError
from atc.run import kept_checks
from atc.run.kept_checks import fitting, misfit
from atc.schemas.protocol import Parameter, Protocol, SourceKey, parameters_of
from atc.tools.kept import KIND, UsedTool
from atc.tools.kept_files import KeptFile
from atc.tools.kept_tools import kept_tool, with_kept
from tests.support.cli import atc
from tests.support.kept_files import WARM, kept_file, put, tools
from tests.support.tools import make_tool

REPORT = {"type": "object", "properties": {"degrees": {"type": "number"}}, "required": ["degrees"]}


def weather(returns: dict[str, Any] = REPORT, **properties: Any) -> Toolset:
    given = properties or {"city": {"type": "string"}}
    return Toolset([make_tool("weather", lambda _: {"degrees": 7}, required=tuple(given), returns=returns, **given)])


def file(program: str, *uses: str, name: str = "kept") -> KeptFile:
    return kept_file(name, program, uses or ["weather"], of=weather())


USES_ALL = "report = weather(city=city)\n\nanswer = report['degrees'] > 15\n"


def test_one_that_fits_is_left_as_it_is() -> None:
    made, _ = with_kept(tools(), [WARM])
    assert fitting(made) is made
    again, _ = with_kept(weather(), [file(USES_ALL)])
    assert fitting(again) is again


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (weather(town={"type": "string"}), r"for weather has changed: line 1: .*'city'"),
        (weather(city={"type": "integer"}, day={"type": "string"}), r"line 1: weather\(\) needs the argument day"),
        (weather({"type": "object", "properties": {"warmth": {"type": "number"}}, "additionalProperties": False}),
         r"line 3: .*no key 'degrees'"),
    ],
    ids=["renamed", "more", "response"],
)  # fmt: skip
def test_one_whose_tool_has_changed_says_which_line_no_longer_fits(now: Toolset, told: str) -> None:
    made, _ = with_kept(now, [file(USES_ALL)])
    left = fitting(made).left_out
    assert [each.name for each in left] == ["kept"]
    assert left[0].reason.endswith("keep the run again")
    with pytest.raises(UsageError, match=told):
        raise UsageError(left[0].reason)


@pytest.mark.parametrize(
    "now",
    [
        weather(city={"type": "string"}, unit={"type": "string"}).only("weather"),
        weather({**REPORT, "properties": {"degrees": {"type": "number"}, "more": {"type": "string"}}}),
    ],
    ids=["argument", "field"],
)
def test_one_whose_tool_has_changed_beside_what_it_uses_stays(now: Toolset) -> None:
    tool = now["weather"]
    parameters = {**tool.protocol.parameters, "required": ["city"]}
    now = Toolset([replace(tool, protocol=tool.protocol.model_copy(update={"parameters": parameters}))])
    made, _ = with_kept(now, [file(USES_ALL)])
    assert fitting(made) is made


UNFIT = {
    "a tool of no line": ("answer = send(to=city, text='x')\n", "uses 'send', which its header does not name"),
    "a tool of a class": (
        "class A:\n    if not city:\n        send = 1\n    x = send('me', 'x')\nanswer = 1\n", "uses 'send', which"
    ),
    "a tool in a function": ("def f():\n    return send('me', 'x')\nanswer = f()\n", "uses 'send', which its header"),
    "a name of nobody": ("answer = elsewhere\n", "uses 'elsewhere', which its header does not name"),
    "asking": ("answer = ask_user('x')\n", "uses 'ask_user', which its header does not name"),
    "no answer": ("x = 1\n", "its program never sets `answer`"),
    "no Python": ("answer = = 1\n", "line 1 of its program: "),
    "too deep": ("answer = " + "(" * 90 + "1" + ")" * 90 + "\n", "brackets are open at once"),
    "too long": ("answer = 1\n" + "x = 1\n" * 12_000, "the limit is"),
    "global": ("def f():\n    global answer\n    answer = 1\nf()\nanswer = 1\n", "line 2 of its program: "),
    "exec": ("exec('answer = 1')\nanswer = 1\n", "line 1 of its program: a kept program has no exec"),
    "globals": ("answer = globals()['send']('me', 'x')\n", "line 1 of its program: a kept program has no globals"),
    "look": ("look(1)\nanswer = 1\n", "line 1 of its program: a kept program has no look"),
    "star": ("from math import *\nanswer = pi\n", "line 1 of its program: a kept program has no from math import"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNFIT.values(), ids=UNFIT)
def test_what_a_kept_program_cannot_be_is_refused(case: tuple[str, str]) -> None:
    program, told = case
    made, _ = with_kept(tools(), [kept_file("kept", program, ["temperature"])])
    left = fitting(made)
    assert list(left) == ["temperature", "send"]
    assert told in left.left_out[0].reason


FITS = {
    "classes": "class A:\n    x = 1\n    y = x\nanswer = A.y\n",
    "functions": "import math\ndef f(n):\n    return n if n < 1 else f(n - 1)\nanswer = f(math.pi)\n",
    "comprehensions": "answer = [temperature(c) for c in [city] if (d := len(c))]\n",
    "errors": "try:\n    answer = parallel(lambda: temperature(city))\nexcept ToolError as e:\n    answer = str(e)\n",
    "matches": "match city:\n    case str(name):\n        answer = name\n    case _:\n        answer = None\n",
    "said": "answer = 1\nsay = f'{answer}'\n",
    "itself": "kept = 1\nanswer = kept\n",
}


@pytest.mark.parametrize("program", FITS.values(), ids=FITS)
def test_a_right_program_is_taken(program: str) -> None:
    assert misfit(kept_tool(kept_file("kept", program, ["temperature"]), tools()), tools()) == ""


def test_one_that_calls_an_unfit_one_is_left_out_with_it() -> None:
    inner = kept_file("inner", "answer = elsewhere\n", ["temperature"])
    outer = replace(WARM, name="outer", program="answer = inner(city)\n")
    outer = replace(outer, uses=(UsedTool("inner", SourceKey(KIND, KIND, "inner"), "0" * 64),))
    made, _ = with_kept(tools(), [inner, outer])
    told = {each.name: each.reason for each in fitting(made).left_out}
    assert "calls 'inner', which is left out" in told["outer"]


def test_an_agent_warns_of_one_that_it_leaves_out(tmp_path: Path) -> None:
    made, _ = with_kept(weather(town={"type": "string"}), [file(USES_ALL)])
    with pytest.warns(UserWarning, match="does not fit any more, for weather has changed"):
        agent = Agent(made, keep_runs=False)
    assert list(agent.tools) == ["weather"]
    with pytest.raises(UsageError, match="does not fit any more"):
        Agent(catalogue=Catalogue(made), keep_runs=False)
    fits, _ = with_kept(tools(), [WARM])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "is_warm" in Agent(fits, keep_runs=False).tools


def test_the_command_line_says_what_is_left_out(tmp_path: Path) -> None:
    module = tmp_path / "mine.py"
    module.write_text('def temperature(city: str) -> float:\n    """Tell how warm it is."""\n    return 7.0\n')
    folder = tmp_path / "kept"  # beside the runs of a test
    put(folder, WARM, kept_file("wrong", "answer = elsewhere\n", ["temperature"]))
    ran = atc("tools", "list", "-t", str(module), "-t", "kept", "--json")
    assert ran.exit_code == 0
    assert "note: the kept program" not in ran.stdout
    assert ran.stderr.startswith("note: the kept program ")


def test_a_call_of_a_kept_file_runs_in_the_jail() -> None:
    made, _ = with_kept(tools(), [WARM])
    result = Agent(made.only("is_warm"), approve="never").call("is_warm", city="Rome")
    assert (result.value, [call.tool for call in result.calls]) == (True, ["temperature"])


def test_many_that_call_each_other_are_checked_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = [[f"{level}{number}" for number in range(8)] for level in "abc"]
    files = [kept_file(name, "answer = temperature(city)\n", ["temperature"]) for name in levels[0]]
    for below, level in itertools.pairwise(levels):
        program = f"answer = [{', '.join(f'{name}(city)' for name in below)}]\n"
        files += [kept_file(name, program, kept=below) for name in level]
    made, left = with_kept(tools(), files)
    assert not left
    checked = []

    def inputs_of(protocol: Protocol) -> tuple[Parameter, ...]:
        checked.append(protocol.name)
        return parameters_of(protocol)

    monkeypatch.setattr(kept_checks, "parameters_of", inputs_of)
    assert fitting(made) is made
    assert sorted(checked) == sorted(file.name for file in files)
