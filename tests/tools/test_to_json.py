"""What users' functions return, and what programs answer, becomes what a reader expects."""

from __future__ import annotations

import array
import collections
import csv
import dataclasses
import datetime
import enum
import io
import itertools
import math
import pathlib
import subprocess
import sys
import types
import uuid
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from typing import Annotated, Any, NamedTuple, TypedDict

import anyio
import numpy as np
import pydantic
import pytest
from pydantic import BaseModel, Field, PlainSerializer, SecretStr

import atc
from atc.tools.functions import tool_from_function
from atc.tools.stubs import render_stub
from atc.tools.to_json import to_json, to_json_with_notes
from tests.support.agent import agent
from tests.support.broker import House
from tests.support.convert import sandbox_convert

convert = sandbox_convert()
DAY = datetime.date(2026, 5, 1)


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Car:
    colour: Colour
    built: datetime.date


class Point(NamedTuple):
    x: int
    y: int


class Item(BaseModel):
    price: Decimal
    tags: set[str] = {"b", "a"}
    data: bytes
    extra: Any = None
    count: int = Field(1, alias="Count")


class Loud(BaseModel):
    """Its author wrote what its JSON looks like."""

    day: Annotated[datetime.date, PlainSerializer(lambda day: day.strftime("%d.%m."), when_used="json")] = DAY
    extra: Any = None


# -- the same on both sides of the sandbox's wall ----------------------------------------------------------------------

SAME: dict[str, tuple[Any, Any]] = {
    "a decimal is a number": (Decimal("19.90"), 19.9),
    "a whole decimal is an integer": (Decimal("5E+2"), 500),
    "a decimal that a number would shorten is text": (Decimal("1.23456789012345678901"), "1.23456789012345678901"),
    "dates": (
        [DAY, datetime.time(9, 30), datetime.datetime(2026, 5, 1, 9)],
        ["2026-05-01", "09:30:00", "2026-05-01T09:00:00"],
    ),
    "uuid and path": ([uuid.UUID(int=1), pathlib.PurePosixPath("/a")], ["00000000-0000-0000-0000-000000000001", "/a"]),
    "sets are ordered lists": ({3, 1, 2}, [1, 2, 3]),
    "tuples and ranges": ([(1, 2), Point(1, 2), range(2)], [[1, 2], [1, 2], [0, 1]]),
    "keys of a dict keep their order": ({"b": 1, "a": 2}.keys(), ["b", "a"]),
    "enums": ([Colour.RED, Level.HIGH], ["red", 3]),
    "dataclass": (Car(Colour.RED, DAY), {"colour": "red", "built": "2026-05-01"}),
    "model": (
        Item(price=Decimal("1.5"), data=b"\xff", Count=2),
        {"price": 1.5, "tags": ["a", "b"], "data": b"\xff", "extra": None, "Count": 2},
    ),
    "mappings": (types.MappingProxyType({1: 2, Colour.RED: 3}), {"1": 2, "red": 3}),
    "numpy scalars": ([np.float32(0.5), np.int64(3), np.bool_(True), np.str_("a")], [0.5, 3, True, "a"]),
    "numpy array": (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    "numpy moments": (
        [np.datetime64("2026-05-01T09:00:00.123456789"), np.datetime64("NaT")],
        ["2026-05-01T09:00:00.123456", None],
    ),
    "numpy records": (np.array([(1, "a")], dtype=[("x", "i4"), ("y", "U3")]), [{"x": 1, "y": "a"}]),
    "numpy keys": ({np.int64(1): np.int8(2)}, {"1": 2}),
    "durations": (
        [
            datetime.timedelta(0),
            datetime.timedelta(minutes=5),
            datetime.timedelta(days=400, hours=2, milliseconds=1500),
            -datetime.timedelta(minutes=90),
            datetime.timedelta(days=-2),
            datetime.timedelta.max,
            datetime.timedelta.min,
        ],
        ["PT0S", "PT5M", "P400DT2H1.5S", "-PT1H30M", "-P2D", "P999999999DT23H59M59.999999S", "-P999999999D"],
    ),
    "bytes of every kind": ([b"\xff", bytearray(b"a"), memoryview(b"b")], [b"\xff", b"a", b"b"]),
}


@pytest.mark.parametrize("name", SAME)
def test_values_become_the_same_in_a_function_and_in_a_program(name: str) -> None:
    value, wanted = SAME[name]
    assert to_json_with_notes(value) == (wanted, ())
    assert type(to_json_with_notes(value)[0]) is type(wanted)
    assert convert.from_json(convert.to_json(value, "answer")) == wanted


def test_a_duration_is_read_back_as_it_was() -> None:
    read = pydantic.TypeAdapter(datetime.timedelta).validate_json
    for value in (datetime.timedelta(**{unit: sign * n}) for unit in ("days", "seconds", "microseconds", "hours")
                  for n in (0, 1, 59, 60, 86_399, 999_999) for sign in (1, -1)):  # fmt: skip
        assert read(f'"{convert.to_json(value, "answer")}"') == value
        assert convert.to_json({value: 1}, "answer") == {to_json(value): 1}


@pytest.mark.parametrize(
    "made_by", [lambda value: to_json_with_notes(value)[0], lambda v: convert.to_json(v, "answer")]
)
def test_what_is_iterated_is_a_list_on_both_sides(made_by: Any) -> None:
    values = [map(int, "12"), filter(None, [0, 1]), zip([1], "a", strict=True), reversed([1, 2])]
    values += [enumerate("a"), {"a": 1}.items()]
    assert made_by(values) == [[1, 2], [1], [[1, "a"]], [2, 1], [[0, "a"]], [["a", 1]]]


def test_what_else_a_program_iterates_is_a_list_there() -> None:
    once = (n for n in (1, 2))
    values = {
        "deque": (collections.deque([1, 2]), [1, 2]),
        "array": (array.array("i", [1, 2]), [1, 2]),
        "list of its own": (collections.UserList([1, [2]]), [1, [2]]),
        "text of its own": (collections.UserString("ab"), "ab"),
        "rows": (csv.reader(["a,b", "c,d"]), [["a", "b"], ["c", "d"]]),
        "iterators in iterators": (({"n": map(str, [n])} for n in range(2)), [{"n": ["0"]}, {"n": ["1"]}]),
        "once alone": ([once, once], [[1, 2], []]),
        "the values of a dict": ({"a": 1}.values(), [1]),
    }
    for name, (value, wanted) in values.items():
        assert convert.to_json(value, "answer") == wanted, name

    async def numbers() -> AsyncIterator[int]:
        yield 1

    for other in (io.StringIO("a\nb"), object(), Colour, numbers()):
        assert convert.listed(other, "answer") is other
        with pytest.raises(TypeError, match="has no JSON form"):
            convert.to_json(other, "answer")


@pytest.mark.parametrize(
    "endless",
    [
        lambda: itertools.count(),
        lambda: iter(int, 1),
        lambda: {"a": [itertools.repeat("x")]},
        lambda: ([n] * 2 for n in itertools.cycle("ab")),
        lambda: (map(str, range(1000)) for _ in itertools.count()),  # each is short, all together are not
    ],
)
def test_what_has_no_end_is_an_error_in_the_program_and_soon(endless: Any) -> None:
    with pytest.raises(ValueError, match=r"gives more than 200,000 items, or has no end: take a part of it"):
        convert.to_json(endless(), "answer")


@pytest.fixture
def pandas() -> Any:
    return pytest.importorskip("pandas")


def test_pandas_values_become_the_same_too(pandas: Any) -> None:
    frame = pandas.DataFrame(
        {"city": ["Oslo", "Rome"], "people": [1.5, np.nan], "day": pandas.to_datetime(["2026-05-01", None])}
    )
    records = [
        {"city": "Oslo", "people": 1.5, "day": "2026-05-01T00:00:00"},
        {"city": "Rome", "people": None, "day": None},
    ]
    values = [
        (frame, records),
        (frame.groupby("city")[["people"]].sum(), [{"city": "Oslo", "people": 1.5}, {"city": "Rome", "people": 0.0}]),
        (pandas.Series([1, 2]), [1, 2]),
        (pandas.Series([1.5, np.nan], index=["x", "y"]), {"x": 1.5, "y": None}),
        (pandas.Series([1, 2], index=["x", "x"]), [{"index": "x", "value": 1}, {"index": "x", "value": 2}]),
        (
            {"at": pandas.Timestamp("2026-05-01"), "none": [pandas.NaT, pandas.NA]},
            {"at": "2026-05-01T00:00:00", "none": [None, None]},
        ),
        (pandas.Index(["a"]), ["a"]),
        (pandas.Categorical(["a", "b"]), ["a", "b"]),
        (pandas.DataFrame(), []),
    ]
    for value, wanted in values:
        assert to_json_with_notes(value) == (wanted, ())
        assert convert.from_json(convert.to_json(value, "answer")) == wanted


# -- a function's results ----------------------------------------------------------------------------------------------


def test_a_long_frame_is_cut_in_a_form_that_cannot_be_taken_for_the_whole(pandas: Any) -> None:
    def rows(n: int) -> Any:
        return pandas.DataFrame({"n": range(n)})

    rows.__annotations__["return"] = pandas.DataFrame
    tool = tool_from_function(rows)
    assert tool.protocol.returns == {"type": "array", "items": {"type": "object"}}
    house = House(tool)
    assert house.call("rows", n=1000).value[-1] == {"n": 999}
    assert house.last.notes == ()
    value = house.call("rows", n=5000).value
    assert (len(value["records"]), value["rows"], value["note"]) == (
        1000,
        5000,
        "the first 1,000 of 5,000 rows: ask for fewer",
    )
    assert "the first 1,000 of 5,000 rows" in house.last.notes[0]
    assert [each.path for each in house.last.drift] == [()]
    with pytest.raises(ValueError, match=r"answer is a frame of 5,000 rows; at most 1,000 are passed: give fewer"):
        convert.to_json(pandas.DataFrame({"n": range(5000)}), "answer")


def test_nan_becomes_null_with_a_note_and_a_program_is_told_of_its_own() -> None:
    def measure() -> Any:
        return {"mean": math.nan, "all": np.array([1.0, math.inf])}

    house = House(tool_from_function(measure))
    assert house.call("measure").value == {"mean": None, "all": [1.0, None]}
    assert house.last.notes == ("2 numbers (NaN or infinite) became null",)
    with pytest.raises(ValueError, match=r"answer\['mean'\] is nan"):
        convert.to_json({"mean": np.float64("nan")}, "answer")


def test_a_model_whose_author_wrote_its_json_keeps_it() -> None:
    assert to_json_with_notes(Loud(extra=np.arange(2)))[0] == {"day": "01.05.", "extra": [0, 1]}
    assert to_json_with_notes(SecretStr("hidden"))[0] == "**********"


def test_what_pydantic_knows_and_what_python_iterates() -> None:
    def numbers() -> Iterator[int]:
        yield from (1, 2)

    assert to_json_with_notes([numbers(), collections.deque([b"\xff"]), collections.Counter("aa")])[0] == [
        [1, 2],
        [b"\xff"],
        {"a": 2},
    ]


def test_what_has_no_end_or_no_bottom_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="contains itself"):
        to_json_with_notes(endless)
    with pytest.raises(ValueError, match="more than 200,000"):
        to_json_with_notes(iter(int, 1))
    with pytest.raises(ValueError, match="more than 200,000"):
        to_json_with_notes(np.zeros((1000, 1000)))


def test_two_keys_of_one_text_are_refused() -> None:
    for value in ({1: "a", "1": "b"}, {None: 1, "None": 2}):
        with pytest.raises(ValueError, match="two keys"):
            to_json_with_notes(value)
        with pytest.raises(ValueError, match="two keys"):
            convert.to_json(value, "answer")


# -- the registry ------------------------------------------------------------------------------------------------------


class Trade:
    def __init__(self, price: Decimal) -> None:
        self.price = price


class BigTrade(Trade):
    pass


@atc.to_json.register
def _(trade: Trade) -> Any:
    return {"price": trade.price, "day": DAY}


def test_a_class_of_the_users_becomes_what_is_registered_for_it() -> None:
    def trades() -> list[Trade]:
        return [Trade(Decimal("1.5")), BigTrade(Decimal(2))]

    value = anyio.run(tool_from_function(trades).transport, {})  # type: ignore[arg-type]
    assert value == [{"price": 1.5, "day": "2026-05-01"}, {"price": 2, "day": "2026-05-01"}]
    with pytest.raises(TypeError, match=r"a Event has no JSON form.*@atc\.to_json\.register"):
        to_json(type("Event", (), {})())


def test_neither_numpy_nor_pandas_is_imported_for_it() -> None:
    program = (
        "import sys; sys.modules['pandas'] = sys.modules['numpy'] = None\n"
        "import importlib.util as u\n"
        "from decimal import Decimal\n"
        "from atc.tools.to_json import to_json_with_notes\n"
        "print(to_json_with_notes([Decimal('1.5'), {1}]))"
    )
    # an entry of None makes every import of that name fail
    done = subprocess.run([sys.executable, "-c", _without_the_agent(program)], capture_output=True, text=True)
    assert done.stdout == "([1.5, [1]], ())\n", done.stderr


def _without_the_agent(program: str) -> str:
    """``import atc`` itself may load anything; looked at is this module and what it needs."""
    return f"import sys, types\natc = types.ModuleType('atc'); atc.__path__ = {atc.__path__!r}\nsys.modules['atc'] = atc\n{program}"  # noqa: E501


# -- arguments ---------------------------------------------------------------------------------------------------------


class Where(TypedDict):
    city: str
    since: datetime.date


def test_arguments_reach_a_function_as_what_it_says_they_are() -> None:
    seen: dict[str, Any] = {}

    def act(
        colour: Colour,
        item: Item,
        pair: tuple[int, Colour],
        where: Where,
        point: Point,
        path: pathlib.Path,
        car: Car,
    ) -> str:
        seen.update(locals())
        return "done"

    program = """```python
import datetime
answer = act(colour="red", item={"price": 1.5, "data": b"\\xfe"}, pair=(1, "red"), point=(1, 2), path="/a",
    where={"city": "Oslo", "since": datetime.date(2026, 5, 1)}, car={"colour": "red", "built": "2026-05-01"})
```"""
    result = agent(program, tools=(act,), max_revisions=0, check=False).run("act")
    assert result.status == "answered", result.fault
    del seen["seen"]
    assert seen == {
        "colour": Colour.RED,
        "item": Item(price=Decimal("1.5"), data=b"\xfe", Count=1),
        "pair": (1, Colour.RED),
        "where": {"city": "Oslo", "since": DAY},
        "point": Point(1, 2),
        "path": pathlib.Path("/a"),
        "car": Car(Colour.RED, DAY),
    }


def test_a_returned_decimal_is_a_number_in_the_stub() -> None:
    def price() -> dict[str, Decimal]:
        return {}

    assert "-> dict[str, float]" in render_stub(tool_from_function(price).protocol)


def test_what_a_program_makes_itself_reaches_a_function_as_the_same_value() -> None:
    seen: dict[str, Any] = {}

    def act(
        day: datetime.date,
        at: datetime.datetime,
        hour: datetime.time,
        length: datetime.timedelta,
        price: Decimal,
        key: uuid.UUID,
        colour: Colour,
        level: Level,
        tags: set[str],
        names: frozenset[str],
        data: bytes,
        point: Point,
        path: pathlib.PurePosixPath,
        car: Car,
        numbers: list[int],
        pairs: list[tuple[int, str]],
        lengths: dict[str, datetime.timedelta],
    ) -> datetime.timedelta:
        """Do it."""
        seen.update(locals())
        return length * 2

    program = """```python
from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import PurePosixPath
from typing import NamedTuple
from uuid import UUID


class Paint(Enum):
    RED = "red"


class Height(IntEnum):
    HIGH = 3


@dataclass
class Vehicle:
    colour: Paint
    built: date


class Spot(NamedTuple):
    x: int
    y: int


twice = act(
    day=date(2026, 5, 1), at=datetime(2026, 5, 1, 9, tzinfo=timezone(timedelta(hours=2))), hour=time(9, 30, 0, 5),
    length=-timedelta(days=400, microseconds=1), price=Decimal("0.30000000000000000001"), key=UUID(int=1),
    colour=Paint.RED, level=Height.HIGH, tags={"a"}, names=frozenset({"b"}), data=bytearray(b"\\xff"),
    point=Spot(1, 2), path=PurePosixPath("/a") / "b", car=Vehicle(Paint.RED, date(2026, 5, 1)),
    numbers=map(int, "12"), pairs=zip([1], "a"), lengths={"a": timedelta(hours=1.5)},
)
answer = (timedelta(minutes=n) for n in (1, 90)), twice
```"""
    result = agent(program, tools=(act,), max_revisions=0).run("act")
    assert result.status == "answered", result.fault
    del seen["seen"]
    assert seen == {
        "day": DAY,
        "at": datetime.datetime(2026, 5, 1, 9, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
        "hour": datetime.time(9, 30, 0, 5),
        "length": -datetime.timedelta(days=400, microseconds=1),
        "price": Decimal("0.30000000000000000001"),
        "key": uuid.UUID(int=1),
        "colour": Colour.RED,
        "level": Level.HIGH,
        "tags": {"a"},
        "names": frozenset({"b"}),
        "data": b"\xff",
        "point": Point(1, 2),
        "path": pathlib.PurePosixPath("/a/b"),
        "car": Car(Colour.RED, DAY),
        "numbers": [1, 2],
        "pairs": [(1, "a")],
        "lengths": {"a": datetime.timedelta(hours=1.5)},
    }
    assert result.value == [["PT1M", "PT1H30M"], "-P800DT0.000002S"]
    typed = agent(program.replace("answer = ", "answer = max").replace(", twice", ""), tools=(act,), max_revisions=0)
    result = typed.run("act", answer=datetime.timedelta)
    assert result.value == datetime.timedelta(minutes=90), result.fault


def test_a_duration_is_a_number_of_seconds_where_the_tool_takes_one() -> None:
    seen: list[float] = []

    def wait(seconds: float) -> bool:
        """Wait."""
        seen.append(seconds)
        return True

    program = (
        "```python\nfrom datetime import timedelta\nanswer = wait(seconds=timedelta(minutes=5, milliseconds=1))\n```"
    )
    result = agent(program, tools=(wait,), max_revisions=0).run("wait")
    assert (result.status, seen) == ("answered", [300.001])


@pytest.mark.parametrize("effect", ["read", "write"])
def test_an_argument_without_an_end_ends_the_program_with_the_reason_and_no_call(effect: Any) -> None:
    def total(ids: list[int]) -> int:
        """A sum."""
        return sum(ids)

    program = "```python\nimport itertools\nanswer = total(\n    ids=(n for n in itertools.count())\n)\n```"
    result = agent(program, tools=(atc.tool(effect=effect)(total),), max_revisions=0).run("sum")
    assert (result.status, result.calls) == ("unsolved", ())
    assert result.fault is not None
    assert result.fault.line == 2
    assert "total(ids=…) gives more than 200,000 items, or has no end: take a part of it" in result.fault.message


def test_iterators_of_calls_make_them_in_order_and_their_errors_have_their_lines() -> None:
    def twice(n: int) -> int:
        """Twice a number."""
        return 2 * n

    program = (
        "```python\nanswer = twice(n=len([*map(lambda n: twice(n=n), [1, 2])])), (twice(n=n) for n in (3, 4))\n```"
    )
    result = agent(program, tools=(atc.tool(effect="read")(twice),), max_revisions=0).run("twice")
    assert result.value == [4, [6, 8]]
    program = "```python\nkeys = [twice(n=1)]\nanswer = (\n    keys[n]\n    for n in (0, 1)\n)\n```"
    result = agent(program, tools=(atc.tool(effect="read")(twice),), max_revisions=0).run("twice")
    assert result.fault is not None
    assert result.fault.line == 3
