"""An inferred type is refused only where validation surely refuses every value of it."""

from __future__ import annotations

import datetime
import enum
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Json, WithJsonSchema, model_validator

from atc.answers.inferred import refuses
from atc.answers.opening import open_answer
from atc.facts import Misfit


class City(BaseModel):
    name: str
    population: int


class Lenient(BaseModel):
    name: str

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, given: Any) -> Any:
        return {"name": given} if isinstance(given, str) else given


class Numbers(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)
    text: str


class Level(enum.Enum):
    LOW = 1

    @classmethod
    def _missing_(cls, value: object) -> Level:
        return cls.LOW


@pytest.mark.parametrize(
    ("wanted", "inferred"),
    [
        (int, "list[int]"),
        (int, "CityRecord"),
        (int, "list[int] & ~AlwaysFalsy"),
        (int, "None"),
        (int, 'Literal["many"]'),
        (str, "int"),
        (str, "float*"),
        (str, "int | None"),
        (list[City], "CityRecord"),
        (list[City], "list[str]"),
        (list[int], "dict[str, int]"),
        (list[str], "list[int | float]"),
        (list[list[int]], "list[dict[Unknown, Unknown]]"),
        (City, "list[CityRecord]"),
        (dict[str, str], "dict[str, int]"),
        (int | None, "list[Unknown]"),
        (Literal["a", "b"], 'Literal["c"]'),
        (Literal["a", "b"], "list[str]"),
        (datetime.date, "list[str]"),
        ("number", "Literal[True]"),
        ("list", "int"),
        (int, "list[" * 50 + "int" + "]" * 50),
        ("record", "list[Any]"),
        ("yes/no", "list[bool]"),
        ("text", 'tuple[Literal[1], Literal["a"]]'),
    ],
)
def test_what_surely_does_not_fit_is_refused(wanted: Any, inferred: str) -> None:
    assert refuses(open_answer(wanted), inferred, {"CityRecord"})


@pytest.mark.parametrize(
    ("wanted", "inferred"),
    [
        (int, "Any"),
        (int, "Unknown"),
        (int, "Never"),
        (int, "Unknown & ~AlwaysFalsy"),
        (int, ""),
        (int, "str"),
        (int, "float"),
        (int, "bool"),
        (int, "int | str | None"),
        (int, 'Literal["3"]'),
        (str, "str | int"),
        (float, "int"),
        (list[City], "list[CityRecord]"),
        (list[City], "list[Unknown]"),
        (list[City], "list[dict[str, str | int]]"),
        (list[int], "tuple[int, int]"),
        (list[int], "set[int]"),
        (list[int], "GeneratorType[int, None, None]"),
        (list[int], "dict_values[str, int]"),
        (City, "dict[str, str]"),
        (City, "Counter[str]"),
        (City, "defaultdict[str, int]"),
        (City, "<class 'City'>"),
        (datetime.date, "date"),
        (datetime.datetime, "int"),
        (bytes, "bytes"),
        (int, "bytes"),
        (dict[str, str], "dict[Unknown, Unknown]"),
        (Lenient, "str"),
        (list[Lenient], "list[str]"),
        (list[Numbers], "list[dict[str, int]]"),
        (Annotated[str, BeforeValidator(str)], "int"),
        (Annotated[str, Field(coerce_numbers_to_str=True)], "int"),
        (Json[list[int]], "str"),
        (Level, "list[int]"),
        (Any, "list[int]"),
        ("number", "bool | int"),
        (int, "def f() -> int"),
        (int, "(" * 5_000),
    ],
)
def test_what_may_fit_or_is_not_known_passes(wanted: Any, inferred: str) -> None:
    assert not refuses(open_answer(wanted), inferred, {"CityRecord"})


TYPES = st.recursive(
    st.sampled_from([
        int, float, str, bool, None, City, datetime.date, Literal["a", 1], Level, Lenient, Any,
        Annotated[int, Field(ge=0)], Annotated[str, Field(min_length=2)],
    ]),
    lambda inner: st.one_of(
        inner.map(lambda t: list[t]),  # type: ignore[valid-type]
        inner.map(lambda t: dict[str, t]),  # type: ignore[valid-type]
        inner.map(lambda t: t | None if t is not None else None),
        inner.map(lambda t: tuple[t, t]),  # type: ignore[valid-type]
        inner.map(lambda t: set[t] if t in (int, str) else list[t]),  # type: ignore[valid-type]
    ),
    max_leaves=4,
)  # fmt: skip
VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-3, 10**20), st.floats(-9, 9), st.sampled_from(["", "a", "3", "no"])
    ),
    lambda inner: st.one_of(st.lists(inner, min_size=1, max_size=3),
                            st.dictionaries(st.sampled_from(["name", "population", "x"]), inner, min_size=1)),
    max_leaves=5,
)  # fmt: skip


def inferred_of(value: Any, *, exact: bool) -> str:
    """The type of a value, as the type checker writes it: of the whole a literal is known exactly."""
    match value:
        case None:
            return "None"
        case bool() | int() | str() if exact:
            return f"Literal[{value!r}]"
        case list():
            return f"list[{' | '.join(dict.fromkeys(inferred_of(item, exact=False) for item in value))}]"
        case dict():
            values = " | ".join(dict.fromkeys(inferred_of(item, exact=False) for item in value.values()))
            return f"dict[str, {values}]"
    return type(value).__name__


@given(TYPES, VALUES)
def test_whatever_the_check_refuses_validation_refuses(wanted: Any, value: Any) -> None:
    opened = open_answer(wanted if wanted is not None else int)
    if refuses(opened, inferred_of(value, exact=True)):
        assert isinstance(opened.fit(value), Misfit)


class Pair(NamedTuple):
    first: int
    second: str


class Posing(BaseModel):
    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        return {"type": "array"}


@pytest.mark.parametrize(
    ("wanted", "inferred", "value"),
    [
        (Pair, "dict[str, int | str]", {"first": 1, "second": "x"}),
        (complex, "float", 1.5),
        (Annotated[int, WithJsonSchema({"type": "string"})], "int", 1),
        (Annotated[str, Field(json_schema_extra={"type": "array"})], "str", "a"),
        (Posing, "dict[str, int]", {}),
    ],
)
def test_a_type_whose_schema_says_less_than_it_takes_refuses_nothing(wanted: Any, inferred: str, value: Any) -> None:
    """Neither what pydantic leaves out of a schema nor what the user wrote into it is a reason to refuse a program."""
    opened = open_answer(wanted)
    assert not isinstance(opened.fit(value), Misfit)
    assert not refuses(opened, inferred)


def test_notes_of_the_user_in_a_schema_leave_it_believed() -> None:
    noted = Annotated[int, Field(description="how many", json_schema_extra={"examples": [3]})]
    assert refuses(open_answer(noted), "list[int]")
