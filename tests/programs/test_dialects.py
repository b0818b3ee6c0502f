"""A program written for another runtime is read as one over plain functions: same values, same lines, nothing else."""

from __future__ import annotations

import ast
import asyncio
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc import Agent, Effect, Protocol, Tool, Toolset
from atc.atlas import atlas_toolset
from atc.calls.approval import ApprovalRequest
from atc.programs.dialects.awaits import in_plain_python, unclear_tools
from atc.programs.edits import Edit, Rewrite, apply
from atc.programs.program import Program
from atc.schemas.protocol import Source
from benchmarks.environments.atlas_tasks import AtlasTask, load_tasks
from tests.support.tools import Behind

MAIN = "import asyncio\nasync def main():\n    {}\nanswer = asyncio.run(main())"
FORMS = {
    "await": "answer = await f(n=1)",
    "await in a coroutine": MAIN.format("return await f(n=1)"),
    "await in a function": "def main():\n    return await f(n=1)\nanswer = main()",
    "await in a text": "answer = f'{await f(n=1)}'",
    "a coroutine that is awaited": "async def main(n):\n    return await f(n=n)\nanswer = await main(1)",
    "gather": "import asyncio\nanswer = await asyncio.gather(f(n=1), f(n=2))",
    "gather, not imported": "a, b = await asyncio.gather(\n    f(n=1),\n    f(n=2),\n)\nanswer = [b, a]",
    "gather in a coroutine": MAIN.format("a, b = await asyncio.gather(f(n=1), f(n=2))\n    return [b, a]"),
    "gather by another name": "from asyncio import gather as g\nanswer = await g(f(n=1), f(n=2))",
    "gather of a list": "import asyncio\nanswer = await asyncio.gather(*[f(n=i) for i in range(3)])",
    "gather of a generator": "import asyncio as aio\nanswer = await aio.gather(*(f(n=i) for i in range(3) if i))",
    "gather of coroutines": (
        "import asyncio\nasync def one(n):\n    made = await f(n=n)\n    return made + 1\n"
        "async def main():\n    return await asyncio.gather(*[one(i) for i in range(3)])\n"
        "if __name__ == '__main__':\n    answer = asyncio.run(main())"
    ),
    "gather of a variable": "import asyncio\nmade = [f(n=i) for i in range(3)]\nanswer = await asyncio.gather(*made)",
    "gather of what is computed": "import asyncio\nanswer = await asyncio.gather(f(n=abs(-1)), f(n=int('2')))",
    "gather with errors": "import asyncio\nanswer = await asyncio.gather(f(n=1), f(n=2), return_exceptions=True)",
    "gather of a list with errors": MAIN.format(
        "rows = [{'n': 1}, {'n': 2}]\n"
        "    return await asyncio.gather(*[f(n=row['n']) for row in rows], return_exceptions=True)"
    ),
    "gather of a variable with errors": (
        "import asyncio\nmade = [f(n=i) for i in range(3)]\n"
        "answer = await asyncio.gather(*made, return_exceptions=True)"
    ),
    "gather of what is appended with errors": (
        "import asyncio\nmade = []\nfor i in range(3):\n    made.append(f(n=i * 2))\n"
        "answer = await asyncio.gather(*made, return_exceptions=True)"
    ),
    "gather beside sleep": MAIN.format("await asyncio.sleep(0)\n    return await asyncio.gather(f(n=1), f(n=2))"),
    "tools": "answer = tools.f(n=1)",
    "functions": "answer = [functions.f(n=i) for i in range(2)]",
    "functions, awaited": "answer = await functions.f(n=1)",
    "a server": "answer = mcp__a__f(n=1)",
    "a server, awaited": "answer = await mcp__a__f(n=1)",
    "call_tool": 'answer = call_tool("f", {"n": (1 + 1) * 2})',
    "call_tool by name": 'answer = call_tool(\n    name="f",\n    arguments={\n        "n": 1,\n    },\n)',
    "call_tool of a variable": 'given = {"n": 1}\nanswer = call_tool("f", given)',
    "call_tool, awaited": 'answer = [await call_tool("f", {"n": i}) for i in range(2)]',
    "call_tool in itself": 'answer = call_tool("f", {"n": call_tool("f", {"n": 1})})',
}
OF_NAMES = [name for name in FORMS if name.startswith(("tools", "functions", "call_tool"))]


def protocols(effect: Effect = Effect.READ) -> dict[str, Protocol]:
    return {"f": made("f", "a (somewhere)", effect)}


def made(name: str, location: str, effect: Effect = Effect.READ) -> Protocol:
    source = Source(kind="mcp", location=location, operation=name[-1])
    parameters = {"properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    return Protocol(name=name, source=source, effect=effect, parameters=parameters)


def scope(calls: list[int], *, waits: bool) -> dict[str, Any]:
    """A runtime in which tools are coroutines, or plain functions."""

    def f(n: int) -> Any:
        async def answered() -> int:
            await asyncio.sleep(0)
            calls.append(n)
            return n * 10

        if waits:
            return answered()
        calls.append(n)
        return n * 10

    def call_tool(name: str, arguments: dict[str, Any]) -> Any:
        assert name == "f"
        return f(**arguments)

    space = types.SimpleNamespace(f=f)
    names = {"f": f, "tools": space, "functions": space, "mcp__a__f": f, "call_tool": call_tool}
    return {"__name__": "__main__", "asyncio": asyncio, **names}


def as_written(source: str) -> tuple[Any, list[int]]:
    """What a program answers where all that it takes for granted is there, and what it called."""
    calls: list[int] = []
    names = scope(calls, waits="await" in source)
    source = source.replace("def main():\n    return await", "async def main():\n    return await")
    source = source.replace("answer = main()", "answer = await main()").replace("async async", "async")
    code = compile(source, "<program>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    ran = types.FunctionType(code, names)()
    if inspect.iscoroutine(ran):
        asyncio.run(ran)
    return names["answer"], calls


def over_plain_functions(source: str) -> tuple[Any, list[int]]:
    calls: list[int] = []
    plain = scope(calls, waits=False)

    def parallel(*thunks: Callable[[], Any], settle: bool = False) -> list[Any]:
        return [thunk() for thunk in thunks]

    names = {"f": plain["f"], "parallel": parallel, "__name__": "__main__"}
    exec(source, names)  # noqa: S102 - the test's own programs
    return names["answer"], calls


@pytest.mark.parametrize("effect", [Effect.READ, Effect.WRITE])
@pytest.mark.parametrize("form", FORMS)
def test_a_program_means_what_it_means_in_plain_python(form: str, effect: Effect) -> None:
    source = FORMS[form]
    program, rewrites = in_plain_python(Program(source), protocols(effect))
    assert rewrites
    assert len(program.lines) == len(Program(source).lines)
    assert {"await", "gather", "call_tool", "mcp__"}.isdisjoint(program.source.split("(")) or "sleep" in source
    assert over_plain_functions(program.source) == as_written(source)
    assert in_plain_python(program, protocols(effect)) == (program, ())


def test_reads_are_gathered_in_parallel_and_writes_in_order() -> None:
    def gathered(effect: Effect, program: str = FORMS["gather"]) -> str:
        return in_plain_python(Program(program), protocols(effect))[0].lines[1]

    assert gathered(Effect.READ) == "answer = parallel(lambda: f(n=1), lambda: f(n=2))"
    assert gathered(Effect.WRITE) == gathered(Effect.UNKNOWN) == "answer = [f(n=1), f(n=2)]"
    assert (
        gathered(Effect.READ, FORMS["gather of a list"]) == "answer = parallel(*[lambda i=i: f(n=i) for i in range(3)])"
    )
    assert gathered(Effect.READ, FORMS["gather of what is computed"]) == "answer = [f(n=abs(-1)), f(n=int('2'))]"
    own = "def parallel(x): ...\nanswer = await asyncio.gather(f(n=1), f(n=2))"
    assert gathered(Effect.READ, own) == "answer = [f(n=1), f(n=2)]"


@pytest.mark.parametrize("effect", Effect)
def test_calls_that_are_gathered_with_errors_are_made_by_parallel_and_their_arguments_before(effect: Effect) -> None:
    def gathered(source: str) -> str:
        return in_plain_python(Program(source), protocols(effect))[0].source

    form = "answer = await asyncio.gather({}, return_exceptions=True)"
    made = "answer = parallel({}, settle=True)"
    assert gathered(form.format("f(n=1), f(n=2)")) == made.format("lambda: f(n=1), lambda: f(n=2)")
    assert gathered(form.format("f(n=1)")) == made.format("lambda: f(n=1)")
    assert gathered(form.format("f(2 if x else y), f(**row)")) == made.format(
        "lambda given0=(2 if x else y): f(given0), lambda given0=row: f(**given0)"
    )
    assert gathered(f"made = [f(n=row['n']) for row in rows]\n{form.format('*made')}") == (
        f"made = [lambda n=row['n']: f(n=n) for row in rows]\n{made.format('*made')}"
    )
    assert gathered(f"one = f(n=x)\ntwo = f(n=2)\n{form.format('one, two')}") == (
        f"one = lambda n=x: f(n=n)\ntwo = lambda: f(n=2)\n{made.format('one, two')}"
    )
    assert gathered(form.format("f(n=await f(n=1))")) == made.format("lambda n=(f(n=1)): f(n=n)")


@pytest.mark.parametrize(
    "source",
    [
        MAIN.format("await asyncio.sleep(0)\n    return f(n=1)"),
        MAIN.format("return f(n=1)"),  # right as it is
        "import asyncio\nanswer = asyncio.run(asyncio.to_thread(f, n=1))",
        "t = asyncio.create_task(f(n=1))\nanswer = await t",
        MAIN.format("return await asyncio.gather()"),
        MAIN.format("made = []\n    return await asyncio.gather(*made)"),
        "answer = await asyncio.gather(f(n=1), return_exceptions=often)",
        "answer = await asyncio.gather(f(n=1), return_exceptions=False)",
        "answer = await asyncio.gather(f(n=1), f(n=[\n    2,\n]), return_exceptions=True)",
        "def parallel(x): ...\nanswer = await asyncio.gather(f(n=1), return_exceptions=True)",
        "async def f(n):\n    return n\nasync def main():\n    async with x:\n        await f(1)",  # not the tool
        "tools = make()\nanswer = tools.f(n=1)",
        "def g(functions):\n    return functions.f(n=1)",
        "from x import *\nanswer = tools.f(n=1)",
        "answer = tools.g(n=1)",
        "def f(n):\n    return tools.f(n=n)\nanswer = f(1)",  # it would call itself
        "def call_tool(a, b): ...\nanswer = call_tool('f', {'n': 1})",
        "answer = call_tool(name, {'n': 1})",
        "answer = call_tool('f', {'n': 1}, timeout=3)",
        "answer = call_tool(*given)",
        "mcp__a__f = 1\nanswer = mcp__a__f",
        "answer = 'await f(n=1)'  # tools.f",
        "answer = (await f(n=1",
    ],
)
def test_what_is_right_or_unclear_stays_as_it_is(source: str) -> None:
    assert in_plain_python(Program(source), protocols()) == (Program(source), ())


def test_a_name_of_an_input_or_a_tool_is_no_dialect() -> None:
    program = Program("answer = tools.f(n=1)")
    assert in_plain_python(program, protocols(), {"tools": 1}) == (program, ())
    tools = {**protocols(), "tools": Protocol(name="tools")}
    assert in_plain_python(program, tools) == (program, ())


def test_a_write_that_is_kept_for_later_is_made_where_it_is_gathered_or_not_at_all() -> None:
    kept = "made = [f(n=1)]\n{}answer = await asyncio.gather(*made)"
    for between in ("if x:\n    ", "x = 1\n", "answer = 0 if x else 1; "):
        program = Program(kept.format(between))
        assert in_plain_python(program, protocols(Effect.WRITE)) == (program, ())
    assert in_plain_python(Program(kept.format("x = 1\n")), protocols())[1]
    appended = Program("made = []\nfor n in (1, 2):\n    made.append(f(n=n))\nanswer = await asyncio.gather(*made)")
    assert in_plain_python(appended, protocols())[0].lines[-1] == "answer = [*made]"
    assert in_plain_python(appended, protocols(Effect.WRITE)) == (appended, ())


def test_what_is_awaited_may_be_a_part_of_a_response() -> None:
    program = Program("answer = await f(n=1)['a'].get('b')")
    assert in_plain_python(program, protocols())[0].source == "answer = f(n=1)['a'].get('b')"


ATLAS = {protocol.name: protocol for protocol in atlas_toolset().protocols}


@pytest.mark.parametrize("before", ["await ", "tools.", "await functions.", "mcp__atlas__"])
@pytest.mark.parametrize("task", load_tasks(), ids=lambda task: task.id)
def test_a_right_program_in_a_dialect_is_that_program(task: AtlasTask, before: str) -> None:
    program = Program(task.reference)
    calls = [node for node in program.nodes if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ATLAS]
    places = [(node.lineno, node.col_offset) for node in calls]
    spoken, _ = apply(program, [Rewrite("test", "", (Edit(at, at, before),)) for at in places])
    assert spoken != program
    assert in_plain_python(spoken, ATLAS)[0] == program


WORDS = st.sampled_from(
    ["x", "f(n=1)", "await ", "asyncio.gather(", "*[", "]", ")", "tools.f(n=2)", "call_tool('f', {'n': 3})", " = ",
     "\n", "async def g():\n    ", "return ", "mcp__a__f(n=4)", ", ", "'ä'", "(", "if x:\n    ", "asyncio.run(g())",
     "g()"]
)  # fmt: skip
PLAIN = st.sampled_from(
    [
        "x",
        "f(n=1)",
        " = ",
        "\n",
        "def g():\n    ",
        "return ",
        ", ",
        "'ä await'",
        "(",
        ")",
        "for x in y:\n    ",
        "[",
        "]",
    ]
)


@given(st.lists(WORDS, max_size=14).map("".join))
def test_a_dialect_is_read_line_by_line(source: str) -> None:
    program, rewrites = in_plain_python(Program(source), protocols())
    assert len(program.lines) == len(Program(source).lines)
    assert bool(rewrites) == (program.source != source)
    assert program.tree is not None or not rewrites


@given(st.lists(PLAIN, max_size=14).map("".join))
def test_a_program_without_these_forms_is_the_same_to_the_byte(source: str) -> None:
    assert in_plain_python(Program(source), protocols()) == (Program(source), ())


# In a run -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def agents() -> Iterator[Callable[..., Agent]]:
    """Agents without a model, by what their tools do and who approves."""
    held: dict[Any, Agent] = {}

    def of(*tools: Protocol, approve: Any = "never") -> Agent:
        key = (*((tool.name, tool.source.location, tool.effect) for tool in tools), id(approve))
        if key not in held:
            answers = [
                Tool(tool, Behind(lambda given, tool=tool: given["n"] * (20 if tool.name == "b_f" else 10)))
                for tool in tools
            ]
            held[key] = Agent(Toolset(answers), model="embedded:none-such", approve=approve, keep_runs=False)
        return held[key]

    yield of
    for agent in held.values():
        agent.close()


@pytest.mark.parametrize("form", FORMS)
def test_a_read_answers(form: str, agents: Callable[..., Agent]) -> None:
    result = agents(made("f", "a")).run_program(FORMS[form])
    assert (result.status, result.value) == ("answered", as_written(FORMS[form])[0])
    assert {call.tool for call in result.calls} == {"f"}
    assert result.revisions[-1].rewrites


ASKED: list[str] = []


def no(request: ApprovalRequest) -> bool:
    ASKED.append(request.tool)
    return False


@pytest.mark.parametrize("form", FORMS)
def test_a_write_is_asked_about_by_its_own_name_and_a_denial_holds(form: str, agents: Callable[..., Agent]) -> None:
    ASKED.clear()
    result = agents(made("f", "a", Effect.WRITE), approve=no).run_program(FORMS[form])
    assert result.status == "denied"
    assert set(ASKED) == {"f"}
    assert {(call.tool, call.error_status) for call in result.calls} == {("f", "denied")}


TWO = made("a_f", "a (here)"), made("b_f", "b (there)")


@pytest.mark.parametrize("form", FORMS)
def test_a_name_that_two_servers_have_is_an_error_with_both(form: str, agents: Callable[..., Agent]) -> None:
    result = agents(*TWO).run_program(FORMS[form])
    if form.startswith("a server"):
        assert (result.status, result.value, result.calls[0].tool) == ("answered", 10, "a_f")
        other = agents(*TWO).run_program(FORMS[form].replace("__a__", "__b__"))
        assert (other.value, other.calls[0].tool) == (20, "b_f")
        result = agents(*TWO).run_program(FORMS[form].replace("__a__", "__c__"))
        form = "tools"
    assert result.status == "unsolved"
    assert not result.calls
    findings = result.revisions[-1].findings
    assert {finding.severity for finding in findings} == {"error"}
    named = [finding for finding in findings if finding.kind != "syntax"]
    if form in OF_NAMES:
        assert [(each.kind, each.instead) for each in named] == [("unknown_tool", ("a_f", "b_f"))]
        assert "did you mean the tool a_f or b_f?" in named[0].message
    else:
        assert "f" in {each.name for each in named}


def test_a_server_is_its_whole_name_and_any_name_of_the_only_one() -> None:
    tools = {tool.name: tool for tool in (made("f", "a_b (here)"), made("g", "c (there)"))}
    program = Program("answer = mcp__a__f(n=1)")
    assert in_plain_python(program, tools) == (program, ())
    assert [finding.instead for finding in unclear_tools(program, tools)] == [("f",)]
    assert in_plain_python(Program("answer = mcp__a_b__f(n=1)"), tools)[0].source == "answer = f(n=1)"
    alone = {"f": made("f", "https://example.org/mcp")}
    assert in_plain_python(program, alone)[0].source == "answer = f(n=1)"


@pytest.mark.parametrize(
    "source",
    [
        MAIN.format("return await asyncio.create_task(f(n=1))"),
        MAIN.format("t = f(n=1)\n    return await t"),
        MAIN.format("return await asyncio.wait_for(f(n=1), 5)"),
        MAIN.format("return await asyncio.gather(f(n=1), return_exceptions=False)"),
        "x = f(n=1)\nanswer = await x",
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_what_else_asyncio_does_is_pythons_and_no_tool_is_blamed(source: str, check: bool) -> None:
    tool = Tool(made("f", "a"), Behind(lambda given: [given]))
    with Agent([tool], model="embedded:none-such", approve="never", keep_runs=False, check=check) as agent:
        result = agent.run_program(source)
    assert result.status == "unsolved"
    findings = result.revisions[-1].findings
    said = findings[0].message if findings else result.fault.message if result.fault else ""
    assert "Tools are plain functions" in said
    assert result.fault is None or result.fault.tool is None
