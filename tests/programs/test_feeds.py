"""What feeds the arguments of planned calls: named only where a response, the task or the program really has it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc._records.records import Feed
from atc.programs import feeds as module
from atc.programs.feeds import Feeds
from atc.programs.program import Program
from atc.result import Call, Effect
from atc.wording import plans
from tests.support.tools import make_tool

PROTOCOLS = {
    tool.protocol.name: tool.protocol
    for tool in (
        make_tool("find", None, q={"type": "string"}),
        make_tool("act", None, Effect.WRITE, a={}, b={}),
        make_tool("order", None, Effect.WRITE, lines={}),
        make_tool("odd", None, Effect.WRITE, **{"user-id": {}, "from": {}}),
    )
}
FOUND = {"items": [{"id": "x1", "n": 5}, {"id": "x2", "n": 70}], "next": {"page": "p2"}}


def call(index: int, tool: str, line: int, status: Any = "planned", value: Any = None, **arguments: Any) -> Call:
    effect = Effect.READ if tool == "find" else Effect.WRITE
    return Call(
        index=index, attempt=0, tool=tool, arguments=arguments, effect=effect, status=status, value=value, line=line
    )


def fed(source: str, line: int, task: str = "", inputs: Any = None, tool: str = "act", **arguments: Any) -> list[Feed]:
    calls = [call(1, "find", 1, "ok", FOUND, q="z"), call(2, tool, line, **arguments)]
    return list(Feeds(Program(source), calls, PROTOCOLS, task, inputs or {}).of(calls[1]))


def only(*feeds: Feed) -> list[Any]:
    return [(feed.argument, feed.kind, feed.path) for feed in feeds]


@pytest.mark.parametrize(
    ("source", "arguments", "wanted"),
    [
        ("f = find()\nact(f['items'][1]['id'])", {"a": "x2"}, [("a", "response", ("items", 1, "id"))]),
        ("f = find()\nact(a=f['items'])", {"a": FOUND["items"]}, [("a", "response", ("items",))]),
        (
            "f = find()\nact(b=[i['id'] for i in f['items']])",
            {"b": ["x1", "x2"]},
            [("b", "response", ("items", 0, "id")), ("b", "response", ("items", 1, "id"))],
        ),
        ("f = find()\nact(a={'of': f['next']['page']})", {"a": {"of": "p2"}}, [("a", "response", ("next", "page"))]),
        ("f = find()\nact(a='to ' + f['next']['page'])", {"a": "to p2"}, [("a", "derived", ("next", "page"))]),
        ("f = find()\nact(a=f['items'][0]['n'] * 2)", {"a": 10}, [("a", "derived", ())]),
        ("f = find()\nact(a='x1')", {"a": "x1"}, [("a", "program", ())]),
        ("f = find()\nact(a='Ann', b=7)", {"a": "Ann", "b": 7}, [("a", "task", ()), ("b", "program", ())]),
        ("f = find()\nact(a=5)", {"a": 5}, [("a", "program", ())]),
        ("f = find()\nact(a=answer_1)", {"a": "kept"}, [("a", "input", ())]),
        ("f = find()\nact(a=some_name)", {"a": 70}, [("a", "same", ("items", 1, "n"))]),
        ("f = find()\nact(a=None, b=True)", {"a": None, "b": True}, [("a", "program", ()), ("b", "program", ())]),
        ("this is no program", {"a": "p2"}, [("a", "program", ())]),
        ("", {"a": 70}, [("a", "same", ("items", 1, "n"))]),
    ],
)
def test_feeds(source: str, arguments: dict[str, Any], wanted: list[Any]) -> None:
    found = fed(source, 2, "book 15 seats for Ann", {"answer_1": ["kept"]}, **arguments)
    assert only(*found) == wanted


def test_a_source_that_came_later_feeds_nothing() -> None:
    calls = [call(1, "act", 2, a="x2"), call(2, "find", 1, "ok", FOUND)]
    (feed,) = Feeds(Program("f = find()\nact(a=f['items'][1]['id'])"), calls, PROTOCOLS, "", {}).of(calls[0])
    assert (feed.kind, feed.call) == ("program", None)


def test_parameters_have_other_names_in_programs() -> None:
    source = "f = find()\nodd(f['next']['page'], from_=f['items'][0]['id'])"
    found = fed(source, 2, tool="odd", **{"user-id": "p2", "from": "x1"})
    assert {feed.argument: feed.path for feed in found} == {"user-id": ("next", "page"), "from": ("items", 0, "id")}
    awaits = tuple(Feed(argument=name, kind="planned", call=1, tool="find") for name in ("user-id", "from"))
    made = call(2, "odd", 2).model_copy(update={"awaits": awaits})
    feeds = Feeds(Program(source), [made], PROTOCOLS, "", {})
    assert feeds.expressions(made) == {"user-id": "f['next']['page']", "from": "f['items'][0]['id']"}


def test_much_is_compared_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    many = {"items": [{"id": f"v{number}"} for number in range(1_000)]}
    source = "f = find()\nfor i in f['items']:\n    act(a=i['id'])"
    calls = [call(1, "find", 1, "ok", many), *(call(n, "act", 3, a=f"v{n}") for n in range(2, 200))]
    monkeypatch.setattr(module, "MAX_COMPARED", 5_000)
    feeds = Feeds(Program(source), calls, PROTOCOLS, "", {})
    kinds = [feeds.of(each)[0].kind for each in calls[1:]]
    assert kinds[0] == "response"
    assert kinds[-1] == "derived"


NAMES = ["Apple", "Bread", "Hammer", "Saw", "Teddy", "Kite", "Milk", "Drill", "Puzzle", "Cheese", "Wrench"]
PRODUCTS = {"products": [{"id": number, "name": name} for number, name in enumerate(NAMES, 1)]}
LINES = [{"product_id": 11, "quantity": 4}, {"product_id": 10, "quantity": 2}, {"product_id": 2, "quantity": 1}]
FED_LINES = [((0, "product_id"), "Wrench"), ((1, "product_id"), "Cheese"), ((2, "product_id"), "Bread")]


def of_lines(source: str, value: Any, *answered: Any) -> list[Feed]:
    line = source.count("\n") + 1
    calls = [call(index, "find", 1, "ok", response) for index, response in enumerate(answered, 1)]
    calls.append(call(len(calls) + 1, "order", line, lines=value))
    return list(Feeds(Program(source), calls, PROTOCOLS, "Order 4 wrenches", {}).of(calls[-1]))


@pytest.mark.parametrize(
    "program",
    [
        "ids = {p['name']: p['id'] for p in f['products']}\n"
        "lines = [{'product_id': ids['Wrench'], 'quantity': 4}, {'product_id': ids['Cheese'], 'quantity': 2}]\n"
        "lines += [{'product_id': ids['Bread'], 'quantity': 1}]",
        "ids = {p['name']: p['id'] for p in f['products']}\nlines = []\n"
        "for name, n in {'Wrench': 4, 'Cheese': 2, 'Bread': 1}.items():\n"
        "    lines.append({'product_id': ids[name], 'quantity': n})",
        "find_one = lambda name: next(p for p in f['products'] if p['name'] == name)\n"
        "wanted = [('Wrench', 4), ('Cheese', 2), ('Bread', 1)]\n"
        "lines = [dict(product_id=find_one(name)['id'], quantity=n) for name, n in wanted]",
        "lines = []\nfor p in f['products']:\n    line = {}\n    line['product_id'], line['quantity'] = p['id'], 4\n"
        "    lines.append(line)",
    ],
)
def test_each_id_in_a_list_of_records_is_told_by_its_own_row_and_no_quantity_is_an_id(program: str) -> None:
    found = of_lines(f"f = find()\n{program}\norder(lines=lines)", LINES, PRODUCTS)
    assert [(feed.kind, feed.inside, feed.row["name"]) for feed in found] == [
        ("response", inside, name) for inside, name in FED_LINES
    ]


def test_keys_that_the_program_computes_match_no_quantity_to_an_id() -> None:
    program = (
        "line = {}\nfor key, value in [('product_id', f['products'][0]['id']), ('quantity', 4)]:\n    line[key] = value"
    )
    found = of_lines(f"f = find()\n{program}\norder(lines=[line])", [{"product_id": 11, "quantity": 4}], PRODUCTS)
    assert [(feed.inside, feed.row.get("name")) for feed in found] == [((0, "product_id"), "Wrench")]


def test_without_a_program_an_equal_id_is_named_where_its_field_names_the_thing() -> None:
    value = [{"product_id": 11, "quantity": 10}, {"customer_id": 10}]
    (feed,) = of_lines("", value, PRODUCTS)
    assert (feed.kind, feed.inside, feed.row) == ("same", (0, "product_id"), {"name": "Wrench"})


def test_an_id_of_the_program_alone_is_told_beside_those_of_responses() -> None:
    source = (
        "f = find()\norder([{'product_id': f['products'][10]['id']}, {'product_id': 'wrenches'}, {'product_id': 12}])"
    )
    found = of_lines(source, [{"product_id": 11}, {"product_id": "wrenches"}, {"product_id": 12}], PRODUCTS)
    assert [(feed.kind, feed.inside[0]) for feed in found] == [("response", 0), ("task", 1), ("program", 2)]


def test_of_many_lines_the_first_are_told_and_how_many_there_are_more() -> None:
    products = {"products": [{"id": f"p{number}", "name": f"n{number}"} for number in range(17)]}
    value = [{"product_id": f"p{number}", "quantity": number} for number in range(17)]
    source = "f = find()\norder([{'product_id': p['id'], 'quantity': 1} for p in f['products']])"
    found = of_lines(source, value, products)
    assert [feed.inside for feed in found] == [(number, "product_id") for number in range(module.MAX_INSIDE)]
    assert [feed.more for feed in found] == [0] * 9 + [7]
    assert plans.origins(found, {"lines": value})["lines"][-1] == (
        "lines[9].product_id = 'p9'",
        "products[9].id of find (call 1): {'name': 'n9'}; and 7 more",
    )


ORDERS = {
    "orders": [
        {"id": 3, "lines": [{"product_id": 7, "quantity": 3}, {"product_id": 4, "quantity": 1}]},
        {"id": 7, "lines": [{"product_id": 10, "quantity": 1}]},
        {"id": 26, "lines": [{"product_id": 7, "quantity": 3}, {"product_id": 10, "quantity": 1}]},
    ]
}


def test_a_copied_list_is_told_by_the_row_that_has_it() -> None:
    latest = "f = find()\nlatest = max(f['orders'], key=lambda o: o['id'])\n"
    value = ORDERS["orders"][2]["lines"]
    (whole,) = of_lines(f"{latest}order(lines=latest['lines'])", value, ORDERS)
    assert (whole.kind, whole.inside, whole.row) == ("response", (), {"id": 26})
    copied = "order([{'product_id': line['product_id'], 'quantity': line['quantity']} for line in latest['lines']])"
    assert {(feed.kind, len(feed.row)) for feed in of_lines(latest + copied, value, ORDERS)} == {("derived", 0)}
    changed = [*value[:1], {"product_id": 99, "quantity": 1}]
    (made,) = of_lines(f"{latest}lines = latest['lines']\norder(lines=lines)", changed, ORDERS)
    assert (made.kind, made.row) == ("derived", {}), "no row has these lines"


def test_the_first_items_of_a_list_are_told_one_by_one() -> None:
    found = of_lines("f = find()\norder(lines=f['products'][:2])", PRODUCTS["products"][:2], PRODUCTS)
    assert [(feed.kind, feed.inside, feed.path) for feed in found] == [
        ("response", (number,), ("products", number)) for number in range(2)
    ]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
_SOURCES = st.sampled_from(
    [
        "f = find()\nact(a=f)",
        "f = find()\nact(*f)",
        "f = find()\nact(**f)",
        "f = find()\nfor x in f: act(x)",
        "act(act(find()))",
        "act = 1\nact(2)",
        "def f(): return act(f())\nf()",
        "(" * 300,
        "\x00",
    ]
)


@given(_SOURCES, _JSON, _JSON, st.integers(0, 3), st.text(max_size=10))
def test_whatever_comes_it_is_found_without_an_error(
    source: str, value: Any, given_: Any, line: int, task: str
) -> None:
    calls = [call(1, "find", line, "ok", value), call(2, "act", line, a=given_)]
    feeds = Feeds(Program(source), calls, PROTOCOLS, task, {"x": value})
    assert {feed.argument for feed in feeds.of(calls[1])} == {"a"}


def test_a_field_is_shown_with_the_short_ones_beside_it() -> None:
    kite = {"id": "x7", "name": "Kite", "long": "x" * 500, "of": {"a": 1}, "none": None, "stock": 3, "new": True}
    kite |= {f"field{n}": n for n in range(20)}
    calls = [call(1, "find", 1, "ok", {"items": [kite], "x8": ["x8"]}), call(2, "act", 2, a="x7", b="x8")]
    found, other = Feeds(Program("f = find()\nact(f['items'][0]['id'], b=f['x8'][0])"), calls, PROTOCOLS, "", {}).of(
        calls[1]
    )
    assert found.row == {"name": "Kite", "stock": 3, "new": True, "field0": 0, "field1": 1, "field2": 2}
    assert other.row == {}


@pytest.mark.parametrize(
    ("arguments", "rows", "said"),
    [
        ({"name": "Ann"}, 2, "person[1].id of find (call 1), row 2 of the 2 found: {'name': 'Ann Berg'}"),
        ({"name": "Ann"}, 1, "person[0].id of find (call 1): {'name': 'Ann Berg'}"),
        ({"page": 1}, 2, "person[1].id of find (call 1): {'name': 'Ann Berg'}"),
    ],
)
def test_a_row_of_several_that_a_search_found_is_said_to_be_one_of_them(
    arguments: dict[str, Any], rows: int, said: str
) -> None:
    """Which of them the task means, the user knows; of a list that nobody searched each item is its own."""
    people = [{"id": "P-91234", "name": "Ann Bell"}, {"id": "P-95678", "name": "Ann Berg"}][-rows:]
    found = call(1, "find", 1, "ok", {"person": people}, **arguments)
    write = call(2, "send", 2, person_id="P-95678")
    (feed,) = Feeds(None, [found, write], {}, "", {}).of(write)
    assert plans.feed(feed) == f"the same as {said}"
