"""What a user may count on when a Python function becomes a tool."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import enum
import signal
import threading
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Required, Unpack

import anyio
import anyio.lowlevel
import jsonschema_rs
import pytest
from pydantic import BaseModel, BeforeValidator, Field, PlainSerializer, create_model, model_serializer
from typing_extensions import ReadOnly, TypedDict

from atc._host import blocking
from atc.errors import ToolError, ToolImportError
from atc.programs.analysis.values import shape_at
from atc.result import Effect
from atc.schemas.protocol import Protocol, Provenance
from atc.schemas.validate import problems
from atc.tools.adapters.offered import ObjectTransport
from atc.tools.docstrings import Docs, read_docstring
from atc.tools.functions import to_answer, tool, tool_from_function
from atc.tools.stubs import render_stub
from atc.tools.tool import Toolset


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Priority(enum.IntEnum):
    LOW = 1
    HIGH = 3


class Shade(enum.Enum):
    """How dark."""

    DARK = "#222"
    LIGHT = "#eee"


@dataclass
class Job:
    priority: Priority
    colour: Colour


@dataclass
class Box:
    width: int
    height: int = 1


class Tray(BaseModel):
    title: str
    left: int = 3


class Terse(Tray):
    @model_serializer(mode="wrap")
    def _short(self, plain: Any) -> Any:
        return {key: value for key, value in plain(self).items() if value}


class Note(TypedDict):
    title: str
    schema: NotRequired[int]


class Filter(typing.TypedDict):
    """Its qualifiers are texts when it is made: this module has the future import."""

    field: str
    op: NotRequired[str]


class Narrow(Filter, total=False):
    near: Required[Annotated[int, "km"]]
    far: int
    fixed: ReadOnly[Required[str]]  # type: ignore[valid-type]  # the qualifiers of the extension, in typing's class
    about: Annotated[Required[str], "as text"]


class Options(typing.TypedDict, total=False):
    limit: Annotated[int, Field(ge=1)]
    order: Required[Literal["up", "down"]]


class Point(NamedTuple):
    x: int
    label: str = "a"


class Person(BaseModel):
    name: str
    born: date


class Reading(BaseModel):
    value: float


CALLER = contextvars.ContextVar("CALLER", default="nobody")


def call(function: Callable[..., Any], /, **arguments: Any) -> Any:
    transport = tool_from_function(function).transport
    assert transport is not None
    return anyio.run(transport, arguments)


def protocol(function: Callable[..., Any]) -> Protocol:
    return tool_from_function(function).protocol


# Schemas ------------------------------------------------------------------------------------------------------------


def everything(  # type: ignore[no-untyped-def]
    when: date,
    colour: Colour,
    box: Box,
    note: Note,
    person: Person,
    mode: Literal["fast", "slow"] = "fast",
    count: Annotated[int, Field(description="how many", ge=1)] = 3,
    label: str | None = None,
    pair: tuple[int, str] = (1, "a"),
    *,
    schema: dict[str, list[float]] | None = None,
    copy: Any = 5,
    other=object(),  # noqa: B008
) -> Person | None:
    raise NotImplementedError


def test_type_hints_become_the_schema_of_the_arguments() -> None:
    schema = protocol(everything).parameters
    assert schema["required"] == ["when", "colour", "box", "note", "person"]
    assert schema["additionalProperties"] is False
    properties = schema["properties"]
    assert properties["when"] == {"type": "string", "format": "date"}
    assert properties["mode"] == {"type": "string", "enum": ["fast", "slow"], "default": "fast"}
    assert properties["count"] == {"type": "integer", "minimum": 1, "default": 3, "description": "how many"}
    assert properties["label"] == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    assert properties["copy"] == {"default": 5}
    assert properties["other"] == {}, "no hint, and a default that JSON cannot hold"
    assert schema["$defs"]["Colour"] == {"enum": ["red", "blue"], "type": "string"}
    assert schema["$defs"]["Person"]["properties"] == {
        "name": {"type": "string"},
        "born": {"type": "string", "format": "date"},
    }
    good: dict[str, Any] = {
        "when": "2026-01-02",
        "colour": "red",
        "box": {"width": 2},
        "note": {"title": "t"},
        "person": {"name": "Ada", "born": "1815-12-10"},
        "schema": {"a": [1.5]},
    }
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid(good)
    for wrong in ({"colour": "green"}, {"box": {"height": 1}}, {"count": 0}, {"extra": 1}, {"pair": [1]}):
        assert not validator.is_valid({**good, **wrong}), wrong


def test_the_return_hint_becomes_the_schema_of_the_response() -> None:
    def listed() -> list[Person]: ...
    def nothing() -> None: ...
    def anything() -> Any: ...
    def silent(): ...  # type: ignore[no-untyped-def]

    returns = protocol(listed).returns
    assert returns is not None
    assert returns["items"] == {"$ref": "#/$defs/Person"}
    assert protocol(nothing).returns == {"type": "null"}
    assert protocol(anything).returns is None
    assert protocol(silent).returns is None


def google(name: str, limit: int = 3) -> list[str]:
    """Find things.

    There may be none.

    Args:
        name: the name,
            or a part.
        limit: how many.

    Returns:
        the things.

    Raises:
        ToolError: not_found: there is no such thing.
        ValueError: the name is empty.
    """
    raise NotImplementedError


def numpy(name: str, limit: int = 3) -> list[str]:
    """Find things.

    There may be none.

    Parameters
    ----------
    name : str
        the name,
        or a part.
    limit
        how many.

    Returns
    -------
    list[str]
        the things.

    Raises
    ------
    ToolError
        not_found: there is no such thing.
    ValueError
        the name is empty.
    """
    raise NotImplementedError


def sphinx(name: str, limit: int = 3) -> list[str]:
    """Find things.

    There may be none.

    :param name: the name,
        or a part.
    :param limit: how many.
    :returns: the things.
    :raises ToolError: not_found: there is no such thing.
    :raises ValueError: the name is empty.
    """
    raise NotImplementedError


def test_a_field_with_a_default_is_always_in_what_is_returned() -> None:
    def boxes() -> tuple[Box, Tray, Terse]:
        """Boxes."""
        return Box(1), Tray(title="a"), Terse(title="a")

    def put(box: Box) -> Note:
        """Put."""
        return {"title": "a"}

    returns = tool_from_function(boxes).protocol.returns
    assert returns is not None
    required = {name: definition.get("required") for name, definition in returns["$defs"].items()}
    assert required == {"Box": ["width", "height"], "Tray": ["title", "left"], "Terse": None}
    protocol_of_put = tool_from_function(put).protocol
    assert protocol_of_put.parameters["$defs"]["Box"]["required"] == ["width"]
    assert (protocol_of_put.returns or {})["required"] == ["title"]


def test_the_values_of_an_enumeration_keep_their_names_where_these_say_more() -> None:
    def start(first: Priority, shade: Shade, colour: Colour, *, rest: list[Priority] | None = None) -> list[Job]:
        """Start."""
        return [Job(first, colour)]

    made = tool_from_function(start)
    plain, classes = render_stub(made.protocol, plain=True), render_stub(made.protocol)
    for line in (
        "    first: 1 = LOW, 3 = HIGH",
        "    shade: '#222' = DARK, '#eee' = LIGHT",
        "    rest: 1 = LOW, 3 = HIGH",
    ):
        assert line in plain.splitlines()
        assert line in classes.splitlines()
    assert "RED" not in plain  # "red" says it
    assert "Returns: [{'priority': 1 (LOW) | 3 (HIGH), 'colour': 'red' | 'blue'}]" in plain
    assert "priority: Literal[1, 3]  # 1 = LOW, 3 = HIGH" in classes
    assert not problems(made.protocol.parameters, {"first": 3, "shade": "#222", "colour": "red", "rest": [1]})


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_docstrings_of_three_styles_say_the_same(function: Callable[..., Any]) -> None:
    known = protocol(function)
    assert known.description == "Find things.\n\nThere may be none."
    properties = known.parameters["properties"]
    assert properties["name"]["description"] == "the name, or a part."
    assert properties["limit"]["description"] == "how many."
    assert known.returns == {"type": "array", "items": {"type": "string"}, "description": "the things."}
    assert [(status.code, status.description) for status in known.statuses] == [
        ("not_found", "there is no such thing."),
        ("ValueError", "the name is empty."),
    ]


@pytest.mark.parametrize("line", ["Find a train.", "Args: a train", "Returns:", "Note: it is slow."])
def test_a_docstring_of_one_line_is_read_as_a_longer_one_is(line: str) -> None:
    """The first needs no parser of styles."""
    one, two = (lambda: 1), (lambda: 2)
    one.__doc__, two.__doc__ = line, f"{line}\n\nAnd more."
    assert read_docstring(one).text == line
    assert read_docstring(two) == Docs(f"{line}\n\nAnd more.")


def test_the_decorator_says_the_rest_and_leaves_the_function_alone() -> None:
    def double(x: int) -> int:
        return 2 * x

    marked = tool(effect="read", name="twice", examples=[{"arguments": {"x": 2}, "response": 4}])(double)
    assert marked is double
    assert double(4) == 8
    known = protocol(double)
    assert (known.name, known.effect) == ("twice", Effect.READ)
    assert known.examples[0].response == 4
    assert known.source.kind == "function"
    assert known.source.operation == "double"
    assert known.source.location.startswith(f"{__name__}:test_the_decorator")
    assert known.provenance is Provenance.WRITTEN

    @tool
    def bare() -> int:
        return 1

    assert (bare(), protocol(bare).name, protocol(bare).effect) == (1, "bare", Effect.UNKNOWN)
    given = tool_from_function(double, name="other", description="Other.", effect="write").protocol
    assert (given.name, given.description, given.effect) == ("other", "Other.", Effect.WRITE)


@pytest.mark.filterwarnings("ignore:Item .fixed. on TypedDict")
def test_the_keys_of_a_typed_dict_are_required_as_they_say_whenever_they_are_read() -> None:
    def search(f: Filter, n: Narrow) -> Filter:
        return f

    made = protocol(search)
    needed = {name: set(schema["required"]) for name, schema in made.parameters["$defs"].items()}
    assert needed == {"Filter": {"field"}, "Narrow": {"field", "near", "fixed", "about"}}
    assert (made.returns or {})["required"] == ["field"]
    narrow = {"field": "a", "near": 1, "fixed": "x", "about": "y"}
    assert call(search, f={"field": "a"}, n=narrow) == {"field": "a"}
    with pytest.raises(ToolError, match=r"n\.near"):
        call(search, f={"field": "a"}, n={"field": "a", "fixed": "x", "about": "y"})


def test_the_keys_of_unpacked_keyword_arguments_are_arguments() -> None:
    def find(q: str, **options: Unpack[Options]) -> Any:
        """Find.

        Args:
            limit: at most so many.
        """
        return [q, options]

    made = protocol(find)
    assert made.parameters["required"] == ["q", "order"]
    limit = {"type": "integer", "minimum": 1, "description": "at most so many."}
    assert made.parameters["properties"]["limit"] == limit
    assert render_stub(made).startswith("def find(q: str, order: Literal['up', 'down'], limit: int = ...) -> Any:")
    assert call(find, q="x", order="up") == ["x", {"order": "up"}]
    assert call(find, q="x", order="up", limit=3) == ["x", {"order": "up", "limit": 3}]
    for wrong in ({"order": "up", "limit": 0}, {"order": "up", "more": 1}, {"limit": 1}):
        with pytest.raises(ToolError):
            call(find, q="x", **wrong)

    def unpacks(**options: Unpack[dict[str, int]]) -> None:  # type: ignore[misc]
        """Not a TypedDict."""

    with pytest.raises(ToolImportError, match=r"'options' of .*unpacks is no TypedDict"):
        protocol(unpacks)


def test_a_named_tuple_has_its_fields() -> None:
    def move(p: Point, pair: tuple[int, str]) -> list[Point]:
        assert isinstance(p, Point)
        return [p, Point(p.x + 1, pair[1])]

    stub = render_stub(protocol(move))
    assert "class MoveP(TypedDict):\n    x: int\n    label: NotRequired[str]\n" in stub
    assert "def move(p: MoveP | list[Any], pair: tuple[int, str]) -> list[tuple[int, str]]:" in stub
    assert "    Returns: [(x: int, label: str)]\n" in stub
    for given in ({"x": 1}, [1], {"x": 1, "label": "a"}, [1, "a"]):
        assert call(move, p=given, pair=[1, "b"]) == [[1, "a"], [2, "b"]]
        assert not problems(protocol(move).parameters, {"p": given, "pair": [1, "b"]})
    for wrong in ({"label": "a"}, {"x": 1, "lable": "a"}, [], [1, "a", 2]):
        assert problems(protocol(move).parameters, {"p": wrong, "pair": [1, "b"]})
    assert not problems(protocol(move).returns or {}, [[1, "a"]])


# Calls --------------------------------------------------------------------------------------------------------------


def test_methods_async_functions_and_keyword_arguments_work() -> None:
    class Counter:
        total = 0

        def add(self, amount: int) -> int:
            """Add."""
            self.total += amount
            return self.total

    async def later(x: int, **rest: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        return [x, rest, threading.current_thread() is threading.main_thread()]

    counter = Counter()
    assert call(counter.add, amount=2) == 2
    assert list(protocol(counter.add).parameters["properties"]) == ["amount"]
    assert protocol(later).parameters["additionalProperties"] is True
    assert call(later, x=1, model_fields="kept", p0=3) == [1, {"model_fields": "kept", "p0": 3}, True]
    assert list(Toolset.from_functions(counter.add, later)) == ["add", "later"]


def test_sync_functions_run_beside_the_loop_in_the_callers_context_and_do_not_hold_up_a_deadline() -> None:
    release = threading.Event()

    def where() -> list[Any]:
        return [CALLER.get(), threading.current_thread() is threading.main_thread()]

    def hang() -> None:
        release.wait(20)

    async def main() -> None:
        CALLER.set("Ada")
        transport, hanging = tool_from_function(where).transport, tool_from_function(hang).transport
        assert transport is not None
        assert hanging is not None
        assert await transport({}) == ["Ada", False]
        with anyio.move_on_after(0.05) as scope:
            await hanging({})
        assert scope.cancelled_caught

    try:
        anyio.run(main)
    finally:
        release.set()


@pytest.mark.parametrize("soon_s", [60.0, 0.0])
def test_a_function_that_answers_at_once_needs_no_round_of_the_loop(
    soon_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking, "SOON_S", soon_s)
    monkeypatch.setattr(blocking, "_SOON", blocking._Soon())
    go_on, rounds = threading.Event(), list[str]()
    if soon_s:
        go_on.set()

    def say(words: str) -> str:
        go_on.wait(20)
        return words

    def turn() -> None:
        rounds.append("round")
        go_on.set()

    async def main() -> None:
        transport = tool_from_function(say).transport
        assert transport is not None
        asyncio.get_running_loop().call_soon(turn)
        assert await transport({"words": "a"}) == "a"
        assert bool(rounds) == (not soon_s)

    asyncio.run(main())


def test_what_an_adapter_has_converted_is_the_answer_with_its_notes() -> None:
    transport = ObjectTransport(call=lambda _arguments, _reads: to_answer({"a": [float("nan")]}), in_thread=True)
    answered = asyncio.run(transport({}))
    assert (answered.value, answered.notes) == ({"a": [None]}, ("1 number (NaN or infinite) became null",))


def test_a_call_that_ends_while_the_loop_begins_to_wait_is_heard_of() -> None:
    async def main() -> int:
        call, worker = blocking._Call(lambda: 3), blocking._Worker()
        call.make(worker)
        blocking._IDLE.remove(worker)  # it was never started
        await asyncio.wait_for(call.end(), 20)
        return int(call.result())

    assert asyncio.run(main()) == 3


def test_wrong_arguments_are_refused_before_the_call_and_named() -> None:
    called = []

    def act(when: date, box: Box) -> None:
        called.append(when)

    with pytest.raises(ToolError, match=r"box\.width.*; .*extra") as caught:
        call(act, when="2026-01-02", box={"width": "wide"}, extra=1)
    assert (caught.value.status, caught.value.outcome) == ("invalid_arguments", "refused")
    assert not called


def test_exceptions_become_tool_errors_of_unknown_outcome() -> None:
    def own() -> None:
        raise ToolError("no such city", status="not_found")

    def other() -> None:
        raise KeyError("x" * 1000)

    with pytest.raises(ToolError, match="no such city") as caught:
        call(own)
    assert (caught.value.status, caught.value.outcome) == ("not_found", "refused")
    with pytest.raises(ToolError, match="KeyError: 'xxx") as caught:
        call(other)
    assert (caught.value.status, caught.value.outcome) == ("KeyError", "unknown")
    assert isinstance(caught.value.raised, KeyError)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, type("Odd", (BaseException,), {})])
def test_what_would_end_the_host_ends_the_call(kind: type[BaseException]) -> None:
    def stop(_: Any = None) -> int:
        raise kind("boom")

    async def waits() -> None:
        stop()

    async def in_a_thread() -> None:
        await asyncio.to_thread(stop)

    def later() -> Any:
        return waits()

    def says_nothing() -> None:
        raise type("Silent", (Exception,), {"__str__": stop})

    def gives() -> Any:
        return create_model("Shown", it=(Annotated[int, PlainSerializer(stop)], 1))()

    def takes(it: Any) -> None:
        """Never called."""

    takes.__annotations__["it"] = Annotated[int, BeforeValidator(stop)]

    for function in (stop, waits, in_a_thread, later, says_nothing, gives):
        with pytest.raises(ToolError) as caught:
            call(function)
        assert caught.value.outcome == "unknown", function
    with pytest.raises(ToolError) as caught:
        call(takes, it=1)
    assert caught.value.outcome == "refused"


def test_a_signal_is_not_the_functions_own() -> None:
    async def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)

    loop = asyncio.new_event_loop()  # without the handler that asyncio.run() has
    with pytest.raises(KeyboardInterrupt), contextlib.closing(loop):
        loop.run_until_complete(tool_from_function(interrupted).transport({}))  # type: ignore[misc, arg-type]


@pytest.mark.parametrize("value", [object(), {"a": [object()]}, {1: "a", "1": "b"}, [threading.Event()]])
def test_what_is_no_json_is_not_returned(value: Any) -> None:
    def odd() -> Any:
        return value

    with pytest.raises(ToolError, match="no JSON value") as caught:
        call(odd)
    assert (caught.value.status, caught.value.outcome) == ("invalid_response", "unknown")


# What cannot be a tool ----------------------------------------------------------------------------------------------


class Thing:
    def method(self, x: int) -> int:
        return x


def star(*numbers: int) -> None: ...
def positional(x: int, /) -> None: ...
def missing(x: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def callback(x: Callable[[int], int]) -> None: ...
def module() -> threading.Event: ...
def fielded(x: int = Field(3)) -> None: ...
def _private() -> None: ...
def generator() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (star, "'numbers' .*star takes .args.*list parameter"),
        (positional, "'x' .*positional-only.*drop the '/'"),
        (missing, "missing has a type hint.*Nowhere.*import the type"),
        (callback, "callback: the type of a parameter.*use plain types"),
        (module, "module: the type of the returned value.*use plain types"),
        (fielded, "'x' of .*has a Field as its default: write Annotated"),
        (_private, "_private cannot be a tool.*leading underscore.*name="),
        (generator, "generator is a generator.*return a list"),
        (Thing, "Thing is a class.*bound method"),
        (Thing.method, "Thing.method is an unbound method: pass the bound method"),
        (lambda x: x, "lambda.*write it as a `def`"),
        (max, "builtins:max has no signature that can be read.*write a `def`"),
        (Thing(), "is not a function: write a `def`"),
    ],
)
def test_what_cannot_be_a_tool_is_told_why_where_and_what_to_do(function: Any, what: str) -> None:
    with pytest.raises(ToolImportError, match=what):
        tool_from_function(function)


def test_a_private_function_can_be_a_tool_under_another_name() -> None:
    assert tool_from_function(_private, name="public").name == "public"


class Base(BaseModel):
    name: str


class Derived(Base):
    size: int


class Loose(BaseModel, extra="allow"):
    name: str


class Summed(BaseModel):
    name: str

    @model_serializer(mode="wrap")
    def _with_sum(self, handler: Any) -> Any:
        return {**handler(self), "length": len(self.name)}


@pytest.mark.parametrize(
    ("returned", "closed"),
    [(Box, True), (Person, True), (Derived, True), (Note, False), (Base, False), (Loose, False), (Summed, False)],
)
def test_a_class_says_that_its_objects_have_no_other_keys_unless_they_may(returned: type, closed: bool) -> None:
    def made() -> Any: ...

    def listed() -> Any: ...

    made.__annotations__["return"], listed.__annotations__["return"] = returned, list[returned]  # type: ignore[valid-type]
    assert shape_at(tool_from_function(made).protocol.returns, ()).closed == closed
    assert shape_at(tool_from_function(listed).protocol.returns, (0,)).closed == closed


@pytest.mark.parametrize("effect", ["reed", 5])
def test_a_wrong_effect_is_told_with_the_right_ones(effect: Any) -> None:
    with pytest.raises(ToolImportError) as caught:  # at the function, and not when an agent is made of it

        @tool(effect=effect)
        def double(n: int) -> int:
            """Twice."""
            return 2 * n

    assert str(caught.value).endswith(f"has the effect {effect!r}: an effect is one of 'read', 'write', 'unknown'")
