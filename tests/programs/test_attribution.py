"""A failure is traced to the one call that it came from, or rightly to none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from atc import Agent, Fault, ToolError, Toolset, tool
from atc._records.outcome import Outcome, ProgramError
from atc.calls.approval import Approval
from atc.calls.broker import Broker, CallPolicy
from atc.calls.journal import Journal
from atc.programs.attribution.attribute import Attribution
from atc.programs.program import Program
from atc.result import Call, Effect
from atc.sandboxes.contract import Job
from atc.sandboxes.process.driver import ProcessSandbox
from atc.schemas.protocol import parameters_of
from tests.support.tools import make_tool

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
CITIES = {
    1: {"name": "Lyon", "population": 500_000, "mayor": {"name": "A"}},
    2: {"name": "Graz", "population": 300_000, "mayor": None},
    3: {"name": "Bern", "population": None, "mayor": {"name": "B"}},
}


def _find(arguments: dict[str, Any]) -> Any:
    found = [{"city_id": i, "name": c["name"]} for i, c in CITIES.items() if arguments["text"] in ("", c["name"])]
    return {"cities": found, "total": len(found)}


def _details(arguments: dict[str, Any]) -> Any:
    if arguments["city_id"] not in CITIES:
        raise ToolError("no city has this identifier", status="not_found")
    return CITIES[arguments["city_id"]]


def _drifted(arguments: dict[str, Any]) -> Any:
    return {"city": {"city_id": f"c-{arguments['n']}"}}


def _broken(arguments: dict[str, Any]) -> Any:
    raise ToolError("internal server error", status=500, outcome="unknown")


def _page(arguments: dict[str, Any]) -> Any:
    return {"body": "Lyon: 500,000 inhabitants"}


TOOLS = Toolset(
    [
        make_tool("page", _page),
        make_tool("find", _find, required=("text",), text=TEXT),
        make_tool("details", _details, required=("city_id",), city_id=NUMBER),
        make_tool("broken", _broken),
        make_tool(
            "drifted",
            _drifted,
            returns={
                "type": "object",
                "properties": {"city": {"type": "object", "properties": {"city_id": NUMBER}}},
            },
        ),
    ]
)
_WITH_WRITES = Toolset(
    [
        *TOOLS.values(),
        make_tool("close", lambda arguments: None, Effect.WRITE),
        make_tool("rename", lambda arguments: {"n": arguments["n"], "note": None}, Effect.WRITE),
        make_tool("press", lambda arguments: None, Effect.UNKNOWN, returns={"type": "null"}),
        make_tool("ask", lambda arguments: None, Effect.UNKNOWN),
    ]
)
ALL = 'ids = [c["city_id"] for c in find(text="")["cities"]]\n'  # call 1
LYON = 'found = find(text="Lyon")["cities"]\n'
EACH = ALL + "found = [details(city_id=i) for i in ids]\n"  # calls 2, 3, 4


Traced = Callable[[str], Fault | None]


@pytest.fixture(scope="module")
def traced() -> Iterator[Traced]:
    """Run a program in the sandbox, one for all of them, and trace its failure."""
    sandbox = ProcessSandbox()

    def run(program: str) -> Fault | None:
        journal = Journal()
        journal.begin_attempt()
        broker = Broker(_WITH_WRITES, journal, lambda kind, data: None, CallPolicy(read_attempts=1), Approval("always"))
        names = {name: [p.name for p in parameters_of(tool.protocol)] for name, tool in _WITH_WRITES.items()}
        outcome = asyncio.run(sandbox.run(Job(program, names), broker.call))
        return Attribution(Program(program), outcome, broker.calls, _WITH_WRITES).fault()

    yield run
    asyncio.run(sandbox.aclose())


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('answer = text.split("Bern:")[1]', True),
        ('answer = int(text.split(":")[1])', True),
        ("answer = [w for w in text.split()][9]", True),
        ("answer = [1, 2][9]", False),  # nothing that a tool said
    ],
)
def test_a_text_that_a_program_takes_apart_wrongly_is_what_its_line_worked_with(
    traced: Traced, line: str, told: bool
) -> None:
    fault = traced(f'text = page()["body"]\n{line}')
    assert fault is not None
    assert (fault.kind, fault.tool) == ("program", None)
    assert [(each.name, each.place.path) for each in fault.inputs] == [("text", ("body",))] * told


SETTLED = "a, b = parallel(lambda: details(city_id=1), lambda: details(city_id=9), settle=True)\n"


@pytest.mark.parametrize(
    "uses", ['answer = b["name"]', "answer = b.name", "answer = [each['name'] for each in (a, b)]"]
)
def test_an_error_that_is_taken_for_a_response_is_traced_to_its_call(traced: Traced, uses: str) -> None:
    fault = traced(SETTLED + uses)
    assert fault is not None
    assert (fault.kind, fault.tool, fault.line, fault.reason) == ("tool", "details", 2, "no city has this identifier")
    assert traced(f"{SETTLED}answer = a['name'] if isinstance(b, ToolError) else 0") is None


def test_a_fault_counts_the_calls_that_its_program_made(traced: Traced) -> None:
    fault = traced(f"{ALL}answer = parallel(*[lambda i=i: details(city_id=i) for i in [*ids, 9]])")
    assert fault is not None
    assert (fault.tool, fault.calls_finished, fault.calls_made) == ("details", 4, 5)


def test_an_answer_that_holds_an_error_is_traced_to_its_call(traced: Traced) -> None:
    fault = traced(f"{SETTLED}answer = [a, b]")
    assert fault is not None
    assert (fault.tool, fault.line, fault.reason) == ("details", 1, "no city has this identifier")
    assert "answer[1] is an error" in fault.message


CASES = [
    # a call that was refused or failed
    ('answer = details(city_id=9)', "arguments", "details", 1),
    ('answer = details(city_id="Lyon")', "arguments", "details", 1),
    ('answer = broken(n=1)', "tool", "broken", 1),
    (EACH + "answer = details(city_id=9)", "arguments", "details", 5),
    ('answer = find(text="", 1, 2)', "program", None, None),
    ('answer = find("a", "b")', "arguments", "find", None),
    ('answer = find(text=find)', "arguments", "find", None),
    # a response that is not what the program took it for
    ('answer = find(text="Lyon")["city"]', "response", "find", 1),
    ('answer = find(text="Lyon")["cities"]["name"]', "response", "find", 1),
    ('answer = [c["name"] for c in find(text="Lyon")]', "response", "find", 1),
    ('answer = find(text="Lyon").cities', "response", "find", 1),
    (EACH + 'answer = found[1]["size"]', "response", "details", 3),
    (EACH + 'def size(c):\n    return c["size"]\nanswer = max(found, key=size)', "response", "details", 2),
    (EACH + 'best = max(found, key=lambda c: c["name"])\nanswer = best["size"]', "response", "details", 2),
    (EACH + 'by_name = {c["name"]: c for c in found}\nanswer = by_name["Bern"]["size"]', "response", "details", 4),
    # empty, and null
    ('answer = find(text="Nowhere")["cities"][0]', "response", "find", 1),
    ('answer = max(c["city_id"] for c in find(text="Nowhere")["cities"])', "response", "find", 1),
    ('answer = 1 / len(find(text="Nowhere")["cities"])', "response", "find", 1),
    ('first, *rest = find(text="Nowhere")["cities"]', "response", "find", 1),
    ('for city in find(text="Nowhere")["cities"]:\n    best = city\nanswer = best', "response", "find", 1),
    ('found = find(text="Nowhere")\nif not found["cities"]:\n    raise ValueError("none")', "response", "find", 1),
    (EACH + 'answer = [c for c in found if c["name"] == "X"][0]', "response", "details", 2),
    (EACH + 'answer = sum(c["population"] for c in found)', "response", "details", 4),
    (EACH + 'total = 0\nfor c in found:\n    total += c["population"]\nanswer = total', "response", "details", 4),
    (EACH + 'sizes = [c["population"] for c in found]\nanswer = sorted(sizes)', "response", "details", 4),
    (EACH + 'mayor = found[1]["mayor"]\nname = mayor["name"]\nanswer = name', "response", "details", 3),
    (EACH + 'answer = found[2]["population"]', "answer", "details", 4),
    ('answer = [c["name"] for c in find(text="Nowhere")["cities"]]', "answer", "find", 1),
    # a response that is not what its schema says, and the next tool refuses what it gave
    ('answer = details(city_id=drifted(n=1)["city"]["city_id"])', "response", "drifted", 1),
    ('answer = details(city_id=drifted(n=1)["city"].get("id"))', "response", "drifted", 1),
    # a failure that the program passed over
    ('try:\n    c = details(city_id=9)\nexcept ToolError:\n    c = None\nanswer = c["name"]', "tool", "details", 1),
    (
        ALL + 'info = {}\nfor i in (*ids, 9):\n    try:\n        info[i] = details(city_id=i)\n'
        '    except ToolError:\n        pass\nanswer = info[9]["name"]',
        "tool", "details", 5,
    ),
    ('try:\n    c = broken(n=1)\nexcept ToolError:\n    raise RuntimeError("no luck")', "tool", "broken", 1),
    ('answer = None\ntry:\n    answer = broken(n=1)\nexcept ToolError:\n    pass', "answer", "broken", 1),
    # an object unpacked into its keys
    ('cities, total = find(text="")\nanswer = total', "response", "find", 1),
    ('for _ in (1,):\n    a, b, c = details(city_id=1)\nanswer = a', "response", "details", 1),
    # the program alone
    (ALL + "answer = idz[0]", "program", None, None),
    (ALL + "answer = ids[3]", "program", None, None),
    (ALL + 'answer = {"a": 1}["b"]', "program", None, None),
    (ALL + 'answer = "1" + 1', "program", None, None),
    (ALL + "def f(n):\n    return f(n)\nanswer = f(1)", "program", None, None),
    (ALL + 'raise ValueError("stop")', "program", None, None),
    (ALL + "answer = 1 / 0", "program", None, None),
    (ALL + "assert len(ids) == 4", "program", None, None),
    ("answer = 1", "answer", None, None),
    (ALL, "answer", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("program", "kind", "tool", "call"), CASES)
def test_the_right_call_is_blamed(traced: Traced, program: str, kind: str, tool: str | None, call: int | None) -> None:
    fault = traced(program)
    assert fault is not None
    assert (fault.kind, fault.tool, fault.call) == (kind, tool, call), fault.message


@pytest.mark.parametrize(
    ("program", "fine"),
    [
        ("answer = close(n=1)", True),
        ("answer = press(n=1)", True),
        ("close(n=1)\nanswer = None", True),
        ("answer = None\nfor n in (1, 2):\n    answer = close(n=n)", True),
        ('if find(text="Lyon")["cities"]:\n    answer = close(n=1)\nelse:\n    answer = None', True),
        ('if find(text="Nowhere")["cities"]:\n    answer = close(n=1)\nelse:\n    answer = None', False),
        ("rename(n=1)\nanswer = None", False),
        ('answer = rename(n=1)["note"]', False),
        ("answer = ask(n=1)", False),
        ("close(n=1)\nanswer = details(city_id=3)['population']", False),
        ("close(n=1)\nanswer = [c for c in find(text='Lyon')['cities'] if c['name'] == 'X']", False),
        ("answer = None\nif find(text='Nowhere')['cities']:\n    answer = close(n=1)", False),
    ],
)
def test_what_a_write_returned_is_an_answer_though_it_is_nothing(traced: Traced, program: str, fine: bool) -> None:
    fault = traced(program)
    assert (fault is None) is fine, fault


@pytest.mark.parametrize(
    ("program", "case", "line"),
    [
        (LYON + "answer = None\nif not found:\n    answer = close(n=1)", "own_none", 2),
        (LYON + "if found:\n    answer = None\nelse:\n    answer = close(n=1)", "own_none", 3),
        (LYON + "answer = None\nif not found:\n    answer = close(\n        n=1)", "own_none", 2),
        (LYON + "answer = next((c for c in found if c['name'] == 'X'), None)", "empty", 2),
        (LYON + "answer = details(city_id=3)['population'] if found else None", "empty", 2),
        ("answer = None\nif find(text='Nowhere')['cities']:\n    answer = close(n=1)", "empty", 2),
    ],
)
def test_a_null_of_the_programs_own_is_told_from_one_that_a_call_gave(
    traced: Traced, program: str, case: str, line: int
) -> None:
    fault = traced(program)
    assert fault is not None
    assert (fault.case, fault.line) == (case, line)


def test_a_program_that_answers_has_no_fault(traced: Traced) -> None:
    assert traced(EACH + 'answer = found[0]["name"]') is None


def test_the_fault_says_where_and_what_the_tool_really_answered(traced: Traced) -> None:
    fault = traced(EACH + 'best = found[1]\nanswer = best["size"]')
    assert fault is not None
    assert fault.line == 4
    assert fault.source_line == 'answer = best["size"]'
    assert "details(...) has no 'size': it has the keys 'name', 'population', 'mayor'" in fault.message
    assert "details(city_id=2) answered {'name': 'Graz'" in fault.evidence


def test_a_refused_argument_says_where_it_came_from(traced: Traced) -> None:
    fault = traced('answer = details(city_id=find(text="Lyon")["cities"][0]["name"])')
    assert fault is not None
    assert (fault.tool, fault.kind) == ("details", "arguments")
    assert "argument city_id came from find(...)['cities'][…]['name']" in fault.evidence


def _raised(error: ProgramError, calls: list[Call], program: str = 'answer = find(text="a")["x"]\n') -> Fault | None:
    return Attribution(Program(program), Outcome("raised", error=error), calls, TOOLS).fault()


CALL = Call(index=1, attempt=0, tool="find", arguments={"text": "a"}, effect=Effect.READ, status="ok", value={"y": 1})


@pytest.mark.parametrize(
    "error",
    [
        ProgramError("KeyError", "'y'", 1, (1, 1, 9, 28), origin=(1, ())),  # the response has that key
        ProgramError("KeyError", "'x'", 1, (1, 1, 0, 1), origin=(7, ("a",))),  # there was no such call
        ProgramError("ToolError", "find: it failed", 1, tool="find"),  # the journal knows of no failure
        ProgramError("ToolError", "pay: it failed", 1, tool="pay"),
    ],
)
def test_a_claim_of_the_program_that_the_journal_does_not_bear_out_blames_no_tool(error: ProgramError) -> None:
    program = "answer = 1\n" if error.type == "KeyError" else 'answer = find(text="a")["x"]\n'
    fault = _raised(error, [CALL], program)
    assert fault is not None
    assert (fault.tool, fault.call) == (None, None)


def failure(index: int, tool: str = "find", error: str = "it failed", cause: Any = None) -> Call:
    return CALL.model_copy(
        update={"index": index, "tool": tool, "status": "failed", "value": None, "error": error, "cause": cause}
    )


def test_the_call_is_found_by_its_number_whatever_its_error_says() -> None:
    calls = [failure(1), failure(2), failure(3, "details"), CALL.model_copy(update={"index": 4})]
    for number in (1, 2):
        for words in ("find: it failed", "quite another text"):
            fault = _raised(ProgramError("ToolError", words, 1, tool="find", call=number), calls)
            assert fault is not None
            assert (fault.tool, fault.call, fault.reason) == ("find", number, "it failed")


@pytest.mark.parametrize(
    ("number", "tool", "found"),
    [
        (4, "find", 2),  # that one succeeded: of this tool the last one that failed is taken
        (99, "find", 2),
        (3, "find", 2),  # another tool's
        (None, "find", 2),
        (3, "details", 3),
        (1, "pay", None),  # no call of that tool failed
    ],
)
def test_a_forged_number_names_no_call_that_did_not_fail(number: int | None, tool: str, found: int | None) -> None:
    calls = [failure(1), failure(2), failure(3, "details"), CALL.model_copy(update={"index": 4})]
    fault = _raised(ProgramError("ToolError", f"{tool}: no", 1, tool=tool, call=number), calls)
    assert fault is not None
    assert fault.call == found


def test_a_cause_that_ends_the_run_is_believed_of_a_known_call_alone() -> None:
    calls = [failure(1, cause="credential"), failure(2)]
    for number, cause in ((1, "credential"), (2, None), (None, None)):
        fault = _raised(ProgramError("ToolError", "find: it failed", 1, tool="find", call=number), calls)
        assert fault is not None
        assert fault.cause == cause


@pytest.mark.parametrize(
    ("program", "call"),
    [
        ("try:\n    details(city_id=8)\nexcept ToolError:\n    pass\nanswer = details(city_id=9)", 2),
        ("try:\n    details(city_id=8)\nexcept ToolError as e:\n    raise ValueError('other words')", 1),
        ("try:\n    details(city_id=8)\nexcept ToolError as e:\n    raise ValueError('x') from None", 1),
        ("try:\n    details(city_id=8)\nexcept ToolError as e:\n    raise", 1),
    ],
)
def test_the_sandbox_says_which_call_failed(traced: Traced, program: str, call: int) -> None:
    fault = traced(program)
    assert fault is not None
    assert (fault.tool, fault.kind, fault.call) == ("details", "arguments", call)


def test_of_calls_side_by_side_the_first_that_failed_is_named(traced: Traced) -> None:
    calls = "lambda: f(1), lambda: f(9), lambda: f(8)"  # they get their numbers as they arrive, in any order
    fault = traced(f"def f(n):\n    return details(city_id=n)\nanswer = parallel({calls})")
    assert fault is not None
    assert fault.invocation is not None
    assert (fault.tool, fault.kind, fault.invocation.arguments) == ("details", "arguments", {"city_id": 9})


@pytest.mark.parametrize(
    ("program", "parameter"),
    [
        ("answer = details(object())", "city_id"),
        ("answer = details(1, city_id=2)", "city_id"),
        ("answer = details(1, 2)", None),
        ("answer = details(city_id={1: object()})", "city_id"),
    ],
)
def test_what_a_stub_does_not_take_is_traced_to_its_tool(traced: Traced, program: str, parameter: str | None) -> None:
    fault = traced(program)
    assert fault is not None
    assert (fault.kind, fault.case, fault.tool, fault.key) == ("arguments", "signature", "details", parameter)


def test_a_type_error_that_only_begins_as_a_stub_writes_it_is_the_programs_own(traced: Traced) -> None:
    fault = traced("raise TypeError('details(city_id=…) is a object')")
    assert fault is not None
    assert (fault.kind, fault.tool) == ("program", None)


@pytest.mark.parametrize(
    ("program", "inputs"),
    [
        (ALL + "answer = ids[9]", [("", 1, ("cities",))]),
        ('found = find(text="")\nanswer = found["towns"]', [("found", 1, ())]),
        ('answer = find(text="")["towns"]', [("", 1, ())]),
        (EACH + "for each in found:\n    answer = each['mayor']['name']", [("each", 3, ())]),
        (
            'found = find(text="")\nfirst = details(city_id=1)\nanswer = found["total"] + first["name"]',
            [("found", 1, ()), ("first", 2, ())],
        ),
        (
            'found = find(text="Lyon")["cities"][0]\nanswer = details(city_id=found["name"])',
            [("found", 1, ("cities", 0))],
        ),
        ('def one(rows):\n    return rows[7]\nanswer = one(find(text="")["cities"])', [("rows", 1, ("cities",))]),
        ("answer = [1][2]", []),
        # which of two calls on a line a name holds is not known, and both are shown
        (
            "a, b = details(city_id=1), details(city_id=2)\nanswer = a['name'] + b['size']",
            [("", 2, ()), ("", 1, ())],
        ),
        ("a, b = find(text=''), details(city_id=2)\nanswer = a['total'] + b['size']", [("a", 1, ()), ("b", 2, ())]),
        # nor which item: the list is shown
        (
            'found = find(text="")["cities"]\nanswer = [details(city_id=c["city_id"])["size"] for c in found]',
            [("", 2, ()), ("found", 1, ("cities",))],
        ),
        # beside the item at fault stand the others
        (
            'found = find(text="")["cities"]\nfor c in found:\n    answer = c["size"]',
            [("c", 1, ("cities", 0)), ("", 1, ("cities",))],
        ),
    ],
)
def test_a_fault_names_what_its_line_worked_with(traced: Traced, program: str, inputs: list[Any]) -> None:
    fault = traced(program)
    assert fault is not None
    assert [(each.name, each.call, each.place.path) for each in fault.inputs] == inputs


@pytest.mark.parametrize(("answer", "names"), [("a['name'] + b['size']", ["", ""]), ("b['size']", ["b"])])
def test_no_name_is_put_to_one_of_the_calls_of_a_place_that_several_names_hold(
    traced: Traced, answer: str, names: list[str]
) -> None:
    fault = traced(f"a, b = parallel(*[lambda n=n: details(city_id=n) for n in (1, 2)])\nanswer = {answer}")
    assert fault is not None
    assert [each.name for each in fault.inputs] == names
    assert fault.inputs[0].call == fault.call


@pytest.mark.parametrize(
    "unpacked",
    [
        "a, b = parallel(lambda: find(text='Lyon'), lambda: details(city_id=1))",
        "a, b = parallel([lambda: find(text='Lyon'), lambda: details(city_id=1)])",
        "both = parallel(lambda: find(text='Lyon'), lambda: details(city_id=1))\na, b = both[0], both[1]",
        "a, b = [find(text='Lyon'), details(city_id=1)]",
        "a, *more = parallel(lambda: find(text='Lyon'), lambda: details(city_id=1))\n(b,) = more[:1]",
    ],
)
def test_a_name_of_an_unpacking_holds_the_response_at_its_place(traced: Traced, unpacked: str) -> None:
    fault = traced(f"{unpacked}\nanswer = a['total'] + b['size']")
    assert fault is not None
    named = {each.name: each.place.tool for each in fault.inputs if each.name}
    assert named == ({"a": "find"} if "*" in unpacked else {"a": "find", "b": "details"})


@pytest.mark.parametrize(
    "error",
    [
        ProgramError("X" * 100, "m" * 2000, 10**6 - 1, (2**31 - 1,) * 4, origin=(2**53, ("a",) * 50)),
        ProgramError("KeyError", "(" * 1000, -5, (-1, -1, -1, -1), origin=(-1, (-(2**63),))),
        ProgramError("TypeError", "find(", 0),
        ProgramError("TypeError", "x", 0, tool="find", parameter="p" * 200, call=2**52),
        ProgramError("NameError", "'", 1),
        ProgramError("IndexError", "", 1, (1, 1, 9, 28), origin=(1, (0, 0, 0))),
    ],
)
def test_a_hostile_report_ends_in_a_fault(error: ProgramError) -> None:
    assert _raised(error, [CALL]) is not None


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (Outcome("limit", detail="it ran longer than 1 s"), "limit"),
        (Outcome("raised", error=ProgramError("MemoryError", "", 1)), "limit"),
        (Outcome("killed", detail="it was ended by SIGSEGV"), "sandbox"),
        (Outcome("violation", detail="a frame too large"), "sandbox"),
        (Outcome("finished", answered=False), "answer"),
    ],
)
def test_an_end_that_is_no_exception_has_its_own_kind(outcome: Outcome, kind: str) -> None:
    fault = Attribution(Program("answer = 1"), outcome, [], TOOLS).fault()
    assert fault is not None
    assert fault.kind == kind


@pytest.mark.parametrize(
    ("program", "idle"),
    [
        ('details(city_id=9)\nanswer = find(text="")["total"]', True),
        ('unread = details(city_id=9)\nanswer = find(text="")["total"]', True),
        ('city = details(city_id=9)\nanswer = city["name"]', False),
        ("answer = details(city_id=9)", False),
        ("def f():\n    return details(city_id=9)\nanswer = f()", False),
    ],
)
def test_a_refused_call_whose_answer_nobody_reads_is_told_to_be_left_out(
    traced: Traced, program: str, idle: bool
) -> None:
    fault = traced(program)
    assert fault is not None
    assert ("uses nothing of what details returns: leave this call out" in fault.message) is idle


def test_a_key_that_sorts_nothing_blames_no_response_that_lacks_it() -> None:
    @tool(effect="read")
    def flights(to: str) -> list[dict[str, Any]]:
        """Flights."""
        return [{"to": "'B'", "price": 4}]

    @tool(effect="read")
    def hotels(city: str) -> list[dict[str, Any]]:
        """Hotels."""
        return [{"city": city, "price_per_night": 9}]

    program = """def cheapest(rows, key):
    return min(rows, key=lambda row: row[key])
bed = cheapest(hotels(city="B"), "price_per_night")
seat = min([row for row in flights(to="B") if row["to"] == "B"], key=lambda row: row["price"])
answer = [bed, seat]
"""
    with Agent([flights, hotels], approve="never", keep_runs=False) as agent:
        fault = agent.run_program(program).fault
    assert fault is not None
    assert (fault.case, fault.tool, fault.line) == ("nothing_kept", "flights", 4)
    assert "flights(...) is a list of 1" in fault.message
    assert fault.key is None
