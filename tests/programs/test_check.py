"""What is surely wrong is found before a program runs; a program that would have run is never refused."""

from __future__ import annotations

import ast
import sys

import pytest

from atc import Effect, Protocol
from atc.facts import Finding
from atc.programs.check.checker import Checker
from atc.programs.check.policy import policy_findings
from atc.programs.program import Program
from atc.schemas.protocol import Source

CITY = {
    "type": "object",
    "properties": {
        "city_id": {"type": "integer"},
        "name": {"type": "string"},
        "population": {"type": ["integer", "null"]},
        "founded": {"type": "string", "format": "date"},
        "mayor": {"anyOf": [{"type": "object", "properties": {"name": {"type": "string"}}}, {"type": "null"}]},
    },
    "required": ["city_id", "name"],
}
FIND = Protocol(
    name="find",
    effect=Effect.READ,
    parameters={
        "properties": {"name": {"type": "string"}, "limit": {"type": "integer", "maximum": 50}},
        "required": ["name"],
    },
    returns={
        "type": "object",
        "properties": {"cities": {"type": "array", "items": CITY}, "total": {"type": "integer"}},
        "required": ["cities", "total"],
    },
)
DETAILS = Protocol(
    name="details",
    effect=Effect.READ,
    parameters={"properties": {"city_id": {"type": "integer"}}, "required": ["city_id"]},
    returns={"type": "object", "properties": {"area": {"type": "number"}}, "additionalProperties": True},
)
CONVERT = Protocol(
    name="convert",
    effect=Effect.READ,
    parameters={
        "properties": {
            "value": {"type": "number"},
            "unit": {"enum": ["km", "mile"]},
            "day": {"type": "string", "format": "date"},
            "labels": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["value", "unit"],
    },
    returns={
        "oneOf": [
            {"type": "object", "properties": {"value": {"type": "number"}}},
            {"type": "object", "properties": {"error": {"type": "string"}}},
        ]
    },
)
ANYTHING = Protocol(name="anything", effect=Effect.READ, parameters={"properties": {"n": {"type": "integer"}}})
NUMBERS = {"x": {"type": "number"}, "y": {"type": "number"}}
CORNERS = {"type": "array", "items": {"type": "object", "properties": NUMBERS, "additionalProperties": False}}
CLOSED = Protocol(
    name="closed",
    effect=Effect.READ,
    parameters={"properties": {"n": {"type": "integer"}}, "additionalProperties": False},
    returns={
        "type": "object",
        "properties": {"shape": {"type": "object", "properties": {"corners": CORNERS}}},
        "additionalProperties": False,
    },
)
BOOK = Protocol(
    name="book",
    effect=Effect.WRITE,
    parameters={
        "properties": {"name": {"type": "string", "minLength": 1}, "row": {"enum": ["a", "b"]}}, "required": ["name"]
    },
)  # fmt: skip
TOOLS = (FIND, DETAILS, CONVERT, ANYTHING, CLOSED, BOOK)
EACH = 'for city in find(name="a")["cities"]:\n    '


@pytest.fixture(scope="module")
def checker() -> Checker:
    return Checker(TOOLS)


def findings(checker: Checker, program: str, known: str | None = None) -> list[Finding]:
    return checker.check(Program(program), known)


def test_a_plain_name_of_two_sources_is_told_with_both_full_names() -> None:
    users = [Protocol(name=name, source=Source(name="list_users")) for name in ("a_lu", "b_lu")]
    for called in ("list_users()", "[*map(list_users, [1])]"):
        (found,) = Checker([*users, FIND]).check(Program(f"a_lu()\nanswer = {called}"))
        assert (found.kind, found.instead) == ("unknown_tool", ("a_lu", "b_lu"))
        assert found.message == "line 2: 'list_users' is not defined; did you mean the tool a_lu or b_lu?"


CERTAIN = [
    ('answer = find("a", 3, "b")', "unknown_argument", "too many"),
    ('answer = closed(colour="red")', "unknown_argument", "its arguments are n"),
    ('answer = book(name="a", seats=2)', "unknown_argument", "its arguments are name"),
    ("answer = find(limit=3)", "missing_argument", "needs the argument name"),
    ("answer = find(name={'a': 1})", "wrong_type", "name"),
    ('answer = find(name="a", limit=[1, 2])', "wrong_type", "limit"),
    ('answer = details(city_id="Lyon")', "wrong_type", "Lyon"),
    ('answer = book(name="")', "wrong_type", "shorter than 1"),
    ('answer = book(name="a", row="d")', "not_in_enum", "'d'"),
    ('answer = closed()["colour"]', "unknown_field", "closed(...) has no key 'colour'; its keys are 'shape'"),
    ('for each in closed()["shape"]["corners"]:\n    answer = each["z"]', "unknown_field", "its keys are 'x', 'y'"),
    ('answer = fnd(name="a")', "unknown_tool", "did you mean the tool find"),
    ('answer = find(name=nmae)', "undefined_name", "'nmae'"),
    ('finds = ["a"]\nanswer = find(name=find_)', "undefined_name", "did you mean finds?"),
    ('import os\nanswer = find(name=os.listdir()[0])', "forbidden_import", "os.listdir"),
    ('import requests\nanswer = find(name="a")', "forbidden_import", "no network, so requests"),
    ('answer = find(name=open("x").read())', "forbidden_import", "open()"),
    ('answer = find.__globals__["x"]', "forbidden_name", "__globals__"),
    ('found = find(name="a")', "no_answer", "never sets `answer`"),
    ('def main():\n    answer = find(name="a")\nmain()', "no_answer", "never sets `answer`"),
    ('answer = find(name="a"', "syntax", "line 1"),
    ('if find(name="a"):\n    return 1\nanswer = 2', "syntax", "'return' outside function"),
    ('class Box:\n    return find(name="a")\nanswer = 2', "syntax", "'return' outside function"),
    ('answer = [find(name="a"), (yield)]', "syntax", "'yield' outside function"),
    ('if find(name="a"):\n    break\nanswer = 2', "syntax", "'break' outside loop"),
    ('for x in [find(name="a")]:\n    pass\nelse:\n    continue\nanswer = 2', "syntax", "'continue' outside loop"),
    ('for x in [find(name="a")]:\n    def one():\n        break\nanswer = 2', "syntax", "'break' outside loop"),
    ('def one(n):\n    return f"{n} {nn}"\nanswer = one(find(name="a"))', "undefined_name", "'nn' is not defined"),
    ('try:\n    answer = fnd(name="a")\nexcept Exception:\n    answer = None', "unknown_tool", "the tool find"),
]  # fmt: skip
DOUBTFUL = [
    ('answer = find(name="a", title="b")', "unknown_argument", "its arguments are name, limit"),
    ('answer = find(name="a", limit=99)', "wrong_type", "99"),
    ('answer = convert(value=1, unit="yard")', "not_in_enum", "yard"),
    ('answer = find(name="a")["city"]', "unknown_field", "known are 'cities', 'total'"),
    ('answer = find(name="a").pop("city")', "unknown_field", "'city'"),
    ('answer = find(name="a")["name"]', "unknown_field", "'name' is at find("),
    ('answer = find(name="a")["cities"]["name"]', "unknown_field", "is a list"),
    ('answer = find(name="a")["total"]["name"]', "unknown_field", "plain integer"),
    ('answer = find(name="a")[0]', "unknown_field", "is no list"),
    ('answer = [city["name"] for city in find(name="a")]', "unknown_field", "plain string"),
    ('answer = find(name="a").cities', "unknown_field", "write ['cities']"),
    (EACH + 'answer = city["size"]', "unknown_field", "'size'"),
    (EACH + 'answer = city["mayor"]["size"]', "unknown_field", "'size'"),
    ('answer = max(find(name="a")["cities"], key=lambda c: c["size"])', "unknown_field", "'size'"),
    ('def size(c):\n    return c["size"]\nanswer = size(find(name="a")["cities"][0])', "unknown_field", "'size'"),
    ('state = {"a": find(name="a")}\nanswer = state["b"]', "unknown_key", "'a'"),
    ("answer = 1", "no_call", "calls no tool"),
    ('answer = find(name="a")["cities"].name', "unknown_field", "write ['name']"),
]  # fmt: skip
WRONG = [(*row, "error") for row in CERTAIN] + [(*row, "warning") for row in DOUBTFUL]


@pytest.mark.parametrize(("program", "kind", "said", "severity"), WRONG)
def test_a_mistake_is_found_and_told_in_words_that_say_what_to_do(
    checker: Checker, program: str, kind: str, said: str, severity: str
) -> None:
    found = findings(checker, program)
    assert (kind, severity) in {(f.kind, f.severity) for f in found}, found
    assert any(said in finding.message for finding in found), found
    assert all(finding.line <= program.count("\n") + 1 for finding in found)
    assert severity == "error" or all(finding.severity == "warning" for finding in found), found


RIGHT = [
    'answer = find("a", 3)["total"]',
    'answer = find(name="a", limit="3")["total"]',
    'answer = details(city_id="17")["area"]',
    'answer = convert(value="2.5", unit="km", labels="one")',
    'import datetime\nanswer = convert(value=1, unit="km", day=datetime.date(2026, 1, 2))',
    'day = "2026-05-01"\nanswer = find(name="a", limit=day[5:7])',
    'answer = find(**{"name": "a"})["total"]',
    'answer = details(city_id=1)["whatever"]["it"]["says"]',
    'answer = anything(n=1)["x"][0].y',
    'made = convert(value=1, unit="km")\nanswer = made["error"] if "error" in made else made["value"]',
    EACH + 'city["near"] = 1\nanswer = city["near"]',
    'cities = find(name="a")["cities"]\nfor c in cities:\n    c["near"] = 0\n    c["near"] += 1\n'
    'answer = [c["near"] for c in cities]',
    EACH + 'city.update(near=1)\nanswer = city["near"]',
    EACH + 'city.setdefault("near", 1)\nanswer = city["near"]',
    EACH + 'answer = {**city, "near": 1}["near"]',
    EACH + 'answer = city["size"] if "size" in city else city["population"]',
    EACH + 'answer = city.get("size", 0)',
    EACH + 'answer = city.get("size")',
    'unit = "yard"\nanswer = convert(value=1, unit=unit)',  # what is not written out is the broker's to judge
    EACH + 'answer = closed().get("colour")',
    EACH + 'answer = city["size"] if city.get("size") else None',
    EACH + 'answer = city.get("size") or city.get("population")',
    EACH + 'try:\n        answer = city["size"]\n    except KeyError:\n        answer = 0',
    'from contextlib import suppress\nanswer = 0\nwith suppress(KeyError):\n    answer = find(name="a")["size"]',
    'found = find(name="a")\nanswer = found["cities"] if isinstance(found, dict) else found[0]',
    'counts = {}\n' + EACH + 'counts[city["name"]] = counts.get(city["name"], 0) + 1\nanswer = counts',
    'counts = {"a": 0}\n' + EACH + 'counts["a"] += 1\nanswer = counts["a"]',
    'from collections import Counter, defaultdict\nseen = defaultdict(int)\n' + EACH + 'seen["x"] += 1\n'
    'answer = seen["x"]',
    'state = {}\ndef keep(key, value):\n    state[key] = value\nkeep("a", find(name="a"))\nanswer = state["a"]',
    'state = {}\nfor i in range(3):\n    if i:\n        answer = state["last"]\n    state["last"] = find(name="a")',
    'state = dict(zip(["a"], [find(name="a")]))\nanswer = state["a"]',
    'best = {"name": "none", "size": 0}\n' + EACH + 'best = {"name": city["name"], "size": 1}\nanswer = best["size"]',
    'def read(r, kind):\n    return r["total"] if kind == 1 else r["area"]\n'
    'answer = [read(find(name="a"), 1), read(details(city_id=1), 2)]',
    'def outer():\n    found = 0\n    def inner():\n        nonlocal found\n        found = find(name="a")["total"]\n'
    "    inner()\n    return found\nanswer = outer()",
    'found = None\ndef load():\n    global found\n    found = {"size": find(name="a")["total"]}\nload()\n'
    'answer = found["size"]',
    'match find(name="a"):\n    case {"size": size}:\n        answer = size\n    '
    'case {"total": total}:\n        answer = total',
    'import asyncio\nasync def main():\n    return find(name="a")["total"]\nanswer = asyncio.run(main())',
    'from dataclasses import dataclass\n@dataclass\nclass Box:\n    size: int\n'
    'answer = Box(find(name="a")["total"]).size',
    'from typing import NamedTuple\nclass Box(NamedTuple):\n    size: int\nanswer = Box(find(name="a")["total"])[0]',
    'class Box(dict):\n    pass\nbox = Box(size=find(name="a")["total"])\nanswer = box["size"]',
    'class Total:\n    def __add__(self, other):\n        return find(name="a")["total"]\nanswer = Total() + 1',
    'import json\nfound = json.loads(json.dumps(find(name="a")))\nanswer = found["size"]',
    'sizes = [(c["population"] or 0, c) for c in find(name="a")["cities"]]\n'
    'answer = max(sizes, key=lambda s: s[0])[1]["name"]',
    'found = find(name="a")\nfor key in ("total", "size"):\n    if key in found:\n        answer = found[key]',
    'def f(n):\n    return 0 if n == 0 else f(n - 1) + find(name="a")["total"]\nanswer = f(3)',
    'answer = {"size": find(name="a")["total"]}\nanswer["extra"] = answer["size"]',
    'if (found := find(name="a"))["total"] > 0:\n    answer = found["cities"][0]["name"].upper().split(" ")[0]',
    'try:\n    answer = find(name="a")["total"]\nexcept ToolError as error:\n    answer = error.message',
    'import itertools as it\npairs = it.combinations(find(name="a")["cities"], 2)\n'
    'answer = [a["name"] + b["name"] for a, b in pairs]',
    'answer, count = [], 0\nwhile count < 3:\n    answer += [find(name=str(count))["total"]]\n    count += 1',
    'def main():\n    global answer\n    answer = find(name="a")["total"]\nmain()',
    'größe = find(name="a")["total"]\nanswer = größe',
    'if __name__ == "__main__":\n    answer = [find(name="a"), __doc__]',
    'try:\n    text = unicode\nexcept NameError:\n    text = str\nanswer = text(find(name="a"))',
    'globals()["found"] = find(name="a")\nanswer = found["total"]',
    'from math import *\nanswer = sqrt(find(name="a")["total"])',
    'class Box:\n    called = __qualname__\n    def total(self):\n        return __class__, find(name="a")["total"]\n'
    'answer = Box().total()[1]',
    'try:\n    answer = [f(name="a") for f in (find,) if (n := 1)][n]\nexcept (ToolError, LookupError) as error:\n'
    '    answer = str(error)',
    'match find(name="a"):\n    case {"total": int() as total, **rest}:\n        answer = total, rest\n    '
    'case [first, *others]:\n        answer = first, others',
    'def pages():\n    for n in range(3):\n        if n:\n            break\n        yield find(name=str(n))\n'
    'answer = list(pages())',
]  # fmt: skip


@pytest.mark.parametrize("program", RIGHT)
def test_a_program_that_would_have_run_is_not_refused(checker: Checker, program: str) -> None:
    assert findings(checker, program) == []


def test_what_a_program_takes_from_nowhere_is_a_finding_where_a_tool_could_give_it(checker: Checker) -> None:
    program = "answer = details(city_id=12345)"
    assert [f.kind for f in findings(checker, program, "the area of Lyon")] == ["invented_id"]
    assert findings(checker, program, "the area of city 12345") == []
    assert findings(checker, program) == []


@pytest.mark.parametrize(
    ("value", "given"),
    [
        (["o-5912", "o-5913"], True),
        (["o-5912", "o-5914"], False),
        ("o-5912,o-5913", True),
        ("o-5912, O-5913", True),
        ("o-5912,o-5914", False),
        ("gid://shop/Order/o-5912", True),
        ("shop:order:o-5912", True),
        ("shop:order:o-5914", False),
        ("gid://shop/Order/12", False),
        (591, False),
        (12, True),
        ("today", True),
        ("day", False),
        (["shop:order:o-5912", "o-5913"], True),
        ([], True),
    ],
)
def test_ids_of_a_list_or_a_path_are_given_one_by_one(value: object, given: bool) -> None:
    listed = {"type": "array", "items": {"type": "object", "properties": {"order_id": {"type": "string"}}}}
    made = Checker(
        [
            Protocol(name="cancel", effect=Effect.WRITE, parameters={"properties": {"order_ids": {}}}),
            Protocol(name="orders", effect=Effect.READ, parameters={"properties": {}}, returns=listed),
        ]
    )
    for program in (f"answer = cancel(order_ids={value!r})", f"ids = {value!r}\nanswer = cancel(order_ids=ids)"):
        said = findings(made, program, "cancel o-5912 and o-5913, today at 12")
        assert [finding.kind for finding in said] == ["invented_id"] * (not given)
    twice = f"ids = {value!r}\nids = orders()\nanswer = cancel(order_ids=ids)"
    assert findings(made, twice, "cancel o-5912 and o-5913") == []


@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        ("primary", []),
        ("me", []),
        ("shared", []),
        ("Team", []),
        ("c-17", ["invented_id"]),
        ("acme", ["invented_id"]),
        ("prim", ["invented_id"]),
        ("work", ["invented_id"]),
        ("holidays", ["invented_id"]),
        ("Ann", ["name_for_id"]),
    ],
)
def test_a_value_that_a_parameters_own_document_gives_is_not_made_up(value: str, kinds: list[str]) -> None:
    calendar = {
        "type": "string",
        "description": "The calendar, e.g. `c-17`, for example `holidays`. Use the keyword `primary` for your own.",
        "anyOf": [{"enum": ["shared", "Team"]}, {"type": "string"}],
        "default": "me",
        "examples": ["acme"],
    }
    listed = {"type": "array", "items": {"type": "object", "properties": {"calendar_id": {"type": "string"}}}}
    made = Checker(
        [
            Protocol(name="clear", effect=Effect.WRITE, parameters={"properties": {"calendar_id": calendar}}),
            Protocol(name="calendars", effect=Effect.READ, parameters={"properties": {}}, returns=listed),
        ]
    )
    said = findings(made, f"answer = clear(calendar_id={value!r})", "clear my calendar of Team and Ann")
    assert [finding.kind for finding in said] == kinds


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('[{"product_id": 44, "quantity": 30, "day": "2026-01-01"}, {"product_id": 45}]', ["lines.product_id"]),
        ("[dict(product_id=44, quantity=30)]", ["lines.product_id"]),
        ('[{"product_id": 44, "quantity": n} for n in (1, 2)]', ["lines.product_id"]),
        ('[{"product_id": p["id"], "quantity": 30} for p in list_products()["items"]] + []', []),
        ('[{"product_id": list_products()["items"][0]["id"]}, {"product_id": 44}]', ["lines.product_id"]),
        ('[{"product_id": 17, "quantity": 30}]', []),
        ('[{"product_id": 10, "quantity": 30}]', []),
        ('[{"product_id": None}, {"quantity": -30}, {"of_id": 44}]', []),
        ("{'product_id': 44}", []),
    ],
)
def test_an_id_within_a_list_is_made_up_as_one_alone_is(lines: str, said: list[str]) -> None:
    line = {"product_id": {"type": "integer", "default": 10}, "quantity": {}, "day": {}, "of_id": {}}
    order = {"customer_id": {}, "lines": {"items": {"type": "object", "properties": line}}}
    row = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
    listed = {"type": "object", "properties": {"items": {"type": "array", "items": row}}}
    made = Checker(
        [
            Protocol(name="create_order", effect=Effect.WRITE, parameters={"properties": order}),
            Protocol(name="list_products", effect=Effect.READ, parameters={"properties": {}}, returns=listed),
            Protocol(name="list_customers", effect=Effect.READ, parameters={"properties": {}}, returns=listed),
        ]
    )
    found = findings(made, f"answer = create_order(customer_id=1, lines={lines})", "order product 17 for Ann, who is 1")
    assert [finding.name for finding in found] == said
    assert all((f.kind, f.arguments) == ("invented_id", ("lines",)) and "list_products" in f.message for f in found)
    named = findings(made, f"lines = {lines}\nanswer = create_order(customer_id=1, lines=lines)", "product 17, for 1")
    assert [finding.name for finding in named] == said
    both = findings(made, f"answer = create_order(customer_id=99, lines={lines})", "order product 17 for Ann")
    assert [finding.name for finding in both] == ["", *said]


def test_an_address_that_nobody_gave_is_a_warning_wherever_it_stands() -> None:
    text = {"properties": {"text": {"type": "string"}}, "required": ["text"]}
    tools = [
        Protocol(name="send", effect=Effect.WRITE, parameters=text),
        Protocol(name="read_mail", effect=Effect.READ, parameters=text),
        Protocol(name="find_email_address", effect=Effect.READ, parameters=text),
    ]
    made, alone = Checker(tools), Checker(tools[:1])
    program = 'to = "Ada@example.com"\nanswer = send(text=to)'
    (found,) = findings(made, program, "write to Ada")
    assert (found.kind, found.line) == ("invented_id", 1)
    assert found.severity == "warning"
    assert found.message.endswith("nor a response: find_email_address or read_mail may tell it")
    assert "example" not in found.message
    assert findings(alone, program, "write to Ada")[0].message.endswith("neither the task nor a response")
    assert findings(made, program, "write to Ada (ada@example.com)") == []
    assert findings(made, program) == []
    assert findings(made, 'answer = send(text="Ask ada@example.com or Bob")', "write") == []


@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        ("Lyon", ["name_for_id"]),
        ("New York", ["name_for_id"]),
        ("lyon", []),
        ("LYS", []),
        ("C4", []),
        ("x", ["invented_id"]),
    ],
)
def test_a_name_of_the_task_in_place_of_an_id_is_a_doubt(value: str, kinds: list[str]) -> None:
    by_id = {"properties": {"place_id": {"type": "string"}}, "required": ["place_id"]}
    where = {"properties": {"text": {"type": "string"}}, "required": ["text"]}
    found = {"type": "object", "properties": {"place_id": {"type": "string"}}}
    made = Checker(
        [
            Protocol(name="rain", effect=Effect.READ, parameters=by_id),
            Protocol(name="find_place", effect=Effect.READ, parameters=where, returns=found),
        ]
    )
    said = findings(made, f"answer = rain(place_id={value!r})", "rain in Lyon (C4, LYS, lyon) or New York")
    assert [finding.kind for finding in said] == kinds


def test_an_argument_of_a_tool_alike_is_told_with_that_tool() -> None:
    day = {"properties": {"day": {"type": "string"}}, "required": ["day"]}
    tools = [
        Protocol(name="get_current_weather", effect=Effect.READ, parameters={"properties": {}}),
        Protocol(name="get_past_weather", effect=Effect.READ, parameters=day),
        Protocol(name="get_calendar", effect=Effect.READ, parameters=day),
    ]
    made = Checker(tools)
    (found,) = findings(made, 'answer = get_current_weather(day="2023-04-16")')
    assert found.message.endswith("its arguments are none. get_past_weather has one")


def test_findings_come_in_the_order_of_lines_and_once(checker: Checker) -> None:
    program = 'a = find(nmae="x")\nb = find(name="x")["foo"]["bar"] + find(name="x")["foo"]\nc = undefined\n'
    found = findings(checker, program)
    assert [f.line for f in found] == sorted(f.line for f in found)
    assert len({(f.line, f.kind) for f in found}) == len(found)


@pytest.mark.parametrize(
    "program",
    [
        *("", "\0", "x = '\ud800'", "\ufeffanswer = 1"),
        *("(" * 1_000_000, "[" * 90 + "]" * 90, "x = 1\n" * 12_000, "é" * 50_000),
    ],
)
def test_hostile_source_ends_in_findings(checker: Checker, program: str) -> None:
    assert findings(checker, program)


def test_a_program_is_not_executed_by_the_check(checker: Checker, tmp_path: object) -> None:
    findings(checker, f"import pathlib\npathlib.Path({str(tmp_path)!r}, 'made').touch()\nanswer = 1 / 0")
    assert not __import__("pathlib").Path(str(tmp_path), "made").exists()


@pytest.mark.parametrize("attribute", ["gi_frame", "f_globals", "tb_frame", "cr_frame", "__subclasses__"])
def test_what_leads_behind_objects_is_no_programs_business(attribute: str) -> None:
    tree = ast.parse(f"x = (i for i in ()).{attribute}")
    assert "forbidden_name" in {finding.kind for finding in policy_findings(tree)}


FUTURE = "from __future__ import annotations"
FUTURES = {
    "first": f"{FUTURE}\n\n\n",
    "behind the docstring, comments and blank lines": f'# one\n\n"""What\n\nit does."""\n\n# two\n{FUTURE}\n',
    "several, one over three lines": f"{FUTURE}\nfrom __future__ import (\n    division,\n)  # é\n",
    "with more on its line": f"'é'; {FUTURE}; import json\n",
}


@pytest.mark.parametrize("head", FUTURES.values(), ids=FUTURES)
def test_a_program_that_begins_with_a_future_import_is_checked_like_any_other(checker: Checker, head: str) -> None:
    body = "def one(name: City | None) -> list[str]:\n    return [c['name'] for c in find(name=name)['cities']]\n"
    assert findings(checker, f"{head}{body}answer = one('a')") == []
    line = head.count("\n") + 1
    mistakes = f"answer = find(name='a')['total'] + missing\nfind(name=2.5)['citeis']\n{EACH}pass\nanswer = [] + {{}}"
    wrong = head + mistakes
    plain = "\n" * (line - 1) + mistakes
    assert findings(checker, wrong) == findings(checker, plain)
    assert {line, line + 1} <= {finding.line for finding in findings(checker, wrong)}


@pytest.mark.parametrize(
    ("program", "lines"),
    [
        ("from __future__ import annotations\ndef one(c: City) -> Row | None: pass\nanswer = find(name='a')", []),
        ("def one():\n    c: City = find(name='a')\n    return c\nanswer = one()", []),
        ("def one(c: 'City') -> 'list[Row]': return c\nanswer = one(find(name='a'))", []),
        ("from typing import cast\nanswer = cast('City', find(name='a'))", []),
        ("c: City = find(name='a')\nanswer = c", [1]),
        ("def one():\n    class Row:\n        c: City\n    return Row\nanswer = [one(), find(name='a')]", [3]),
        ("from __future__ import annotations\ndef one(c: City): return City\nanswer = one(find(name='a'))", [2]),
    ],
)
def test_a_name_that_no_run_looks_up_need_not_be_defined(checker: Checker, program: str, lines: list[int]) -> None:
    if sys.version_info >= (3, 14) and "__future__" not in program:
        lines = []  # no annotation is evaluated there
    assert [f.line for f in findings(checker, program) if f.kind == "undefined_name"] == lines


@pytest.mark.parametrize("head", FUTURES.values(), ids=FUTURES)
def test_inputs_are_known_behind_a_future_import(checker: Checker, head: str) -> None:
    source = f"{head}rows = before\nanswer = find(name=rows[0])['total']"
    assert checker.check(Program(source), inputs=["before"]) == []
    assert [found.name for found in checker.check(Program(source))] == ["before"]
