"""Types of answers: opened from what a user gives, shown within bounds, and values held to them."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import typing
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, Optional, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator, Field, ImportString, computed_field, create_model
from typing_extensions import TypedDict

from atc._records.records import Misfit
from atc.errors import UsageError
from atc.facts import Fault
from atc.programs.answers.opening import open_answer, reopened
from atc.programs.answers.types import MAX_ANNOTATION, MAX_CLASSES, MAX_PROBLEMS, MAX_WORDS, AnswerType, Fitted

T = TypeVar("T")


class City(BaseModel):
    name: str = Field(description="as people call it")
    population: int = Field(ge=0)


class Partial(typing.TypedDict):
    name: str
    size: typing.NotRequired[int]  # a text when the class is made: this module has the future import


class Named(TypedDict):
    name: str


@dataclasses.dataclass
class Tree:
    value: int
    children: list[Tree]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Page(BaseModel, Generic[T]):
    items: list[T]


class Area(BaseModel):
    model_config = {"extra": "forbid"}
    width: int = Field(alias="w")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> int:
        return 2 * self.width


def fitted(given: Any, value: Any) -> Fitted:
    found = open_answer(given).fit(value)
    assert isinstance(found, Fitted), found
    return found


def misfit(given: Any, value: Any) -> Misfit:
    found = open_answer(given).fit(value)
    assert isinstance(found, Misfit), found
    return found


PET = Annotated[Cat | Dog, Field(discriminator="kind")]


@pytest.mark.parametrize(
    ("given", "value", "typed"),
    [
        (int, 3, 3),
        (int, "3", 3),
        (int, 3.0, 3),
        (int, 10**300, 10**300),
        (bool, "yes", True),
        (str, "3", "3"),
        (float, 1, 1.0),
        (int | str, "3", "3"),
        (list[City], [{"name": "Lyon", "population": "5"}], [City(name="Lyon", population=5)]),
        (Named, {"name": "x"}, {"name": "x"}),
        (Partial, {"name": "x"}, {"name": "x"}),
        (list[Partial], [{"name": "x", "size": 3}], [{"name": "x", "size": 3}]),
        (Tree, {"value": 1, "children": [{"value": 2, "children": []}]}, Tree(1, [Tree(2, [])])),
        (Colour, "red", Colour.RED),
        (PET, {"kind": "dog", "name": "Rex"}, Dog(kind="dog", name="Rex")),
        (Page[City], {"items": [{"name": "x", "population": 1}]}, Page[City](items=[City(name="x", population=1)])),
        (datetime.date, "2024-02-29", datetime.date(2024, 2, 29)),
        (decimal.Decimal, "1.10", decimal.Decimal("1.10")),
        (set[int], [1, 1, 2], {1, 2}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (bytes, b"\xff\x00", b"\xff\x00"),
        (bytes, "abc", b"abc"),
        (Area, {"w": 2}, Area(w=2)),
        (Any, [None], [None]),
        ("number", "3.5", 3.5),
        ("number", 3, 3),
        ("text", "x", "x"),
        ("list", [1, "a"], [1, "a"]),
        ("yes/no", "no", False),
        ("record", {"a": 1}, {"a": 1}),
    ],
)
def test_a_value_comes_as_the_type_and_its_json_form_is_read_back_as_the_same(
    given: Any, value: Any, typed: Any
) -> None:
    found = fitted(given, value)
    assert found.value == typed
    assert type(found.value) is type(typed)
    assert fitted(given, found.plain).value == typed


@pytest.mark.parametrize(
    ("given", "value", "path"),
    [
        (int, 3.5, ()),
        (int, None, ()),
        (int, [3], ()),
        (str, 3, ()),
        (float, "nan", ()),
        (list[int], 1, ()),
        (list, {"a": 1}, ()),
        (list[City], [{"name": "Lyon"}], (0, "population")),
        (list[City], [{"name": "Lyon", "population": -1}], (0, "population")),
        (Tree, {"value": 1, "children": [{"value": "x", "children": []}]}, ("children", 0, "value")),
        (PET, {"kind": "dog"}, ("name",)),
        (int | list[int], ["x"], ()),
        ("number", True, ()),
        ("text", 3, ()),
        ("list", "a", ()),
        ("yes/no", "perhaps", ()),
        ("record", [], ()),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(given: Any, value: Any, path: tuple[str | int, ...]) -> None:
    found = misfit(given, value)
    assert found.problems[0].path == path
    said = Fault(kind="answer", case="answer_type", misfit=found, line=2).message
    assert said.startswith(f"line 2: `answer` must be of type `{open_answer(given).text}`, but it is ")


def test_a_validator_of_the_users_own_that_fails_makes_a_misfit() -> None:
    def broken(value: Any) -> Any:
        raise RuntimeError("no database")

    assert "no database" in misfit(Annotated[int, BeforeValidator(broken)], 1).problems[0].what


def test_only_the_first_problems_are_told_and_briefly() -> None:
    found = misfit(list[int], ["x" * 10_000] * 1000)
    assert len(found.problems) == MAX_PROBLEMS
    assert all(len(problem.what) <= MAX_WORDS for problem in found.problems)
    assert len(found.model_dump_json()) < 2_000


@pytest.mark.parametrize(
    ("word", "meant"),
    [("nubmer", "number"), ("list[int]", "list"), ("int", "number"), ("yesno", "yes/no"), ("Dict[str, int]", "record")],
)
def test_a_word_that_is_no_type_is_answered_with_the_one_that_is_near(word: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"did you mean '{meant}'"):
        open_answer(word)


# -- what is no type ---------------------------------------------------------------------------------------------------


class Plain:
    pass


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (object(), "no JSON form"),
        (Plain, "Plain.*no JSON form"),
        (dict[str, Plain], "Plain"),
        (Callable[[int], int], "no JSON form"),
        (lambda: 1, "is a function"),
        (json.dumps, "dumps is a function"),
        (list["Nowhere"], "Nowhere"),  # type: ignore[name-defined]  # noqa: F821
        (type, "no JSON form"),
        (type[int], "no JSON value is one"),
        (enum.Enum, "no JSON value is one"),
        (BaseModel, "a model of your own"),
        (Iterable[int], "give a list"),
        (ImportString, "code to import"),
        (dict[str, list[ImportString]], "code to import"),  # type: ignore[type-arg]
        (T, "no type"),
        (True, "True is no type"),
        (3, "3 is no type"),
        ([], "no type"),
        ("", "number, text, list, yes/no, record"),
        ("nonsense", "number, text, list, yes/no, record"),
        ("no_such_module:City", "no_such_module cannot be imported"),
        ("json:City", "json has no City"),
        ("json:dumps", "is a function"),
        ("json.decoder:NaN", "no type"),
        ("none.json", "there is no file none.json"),
    ],
)
def test_what_cannot_be_the_type_of_an_answer_is_told_why(given: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        open_answer(given)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"type": "nonsense"}', '{"$ref": "https://example.org/x"}'])
def test_a_file_that_is_no_schema_is_told(text: str, tmp_path: Path) -> None:
    path = tmp_path / "type.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"type\.json"):
        open_answer(str(path))


def test_a_file_and_a_module_name_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    Path("type.json").write_text(json.dumps(schema))
    assert fitted("type.json", {"a": 1}).value == {"a": 1}
    assert misfit("type.json", {"a": "1"}).problems[0].path == ("a",)  # a schema coerces nothing
    assert "a: int" in open_answer("type.json").stub.classes
    Path("answer_types_of_a_test.py").write_text("Rows = list[int]\n")
    for name in ("answer_types_of_a_test:Rows", "answer_types_of_a_test.py:Rows"):
        assert open_answer(name).text == "list[int]"


# -- the stub ----------------------------------------------------------------------------------------------------------


def test_the_stub_has_what_a_model_needs_to_know() -> None:
    stub = open_answer(list[City]).stub
    assert stub.annotation == "list[City]"
    assert "    name: str  # as people call it" in stub.classes
    assert open_answer(Annotated[int, Field(description="in EUR", ge=1, le=9)]).stub.about == "in EUR, 1 to 9"
    assert open_answer(list[datetime.date]).stub.about == "each: date"
    assert "children: list[Tree]" in open_answer(Tree).stub.classes
    assert open_answer(tuple[int, str]).text == "tuple[int, str]"
    assert open_answer(PET).text == "Cat | Dog"


def test_a_huge_type_is_shown_in_part_and_checked_whole() -> None:
    fields: dict[str, Any] = {f"field_{n}": (int, Field(description=f"the number {n}")) for n in range(1000)}
    opened = open_answer(create_model("Big", **fields))
    assert opened.text == "Big"
    assert 100 < len(opened.stub.classes) <= MAX_CLASSES
    assert "more keys" in opened.stub.classes
    whole = dict.fromkeys(fields, 1)
    assert isinstance(opened.fit(whole), Fitted)
    assert isinstance(opened.fit(whole | {"field_999": "x"}), Misfit)


def test_a_huge_choice_is_shown_in_part_and_checked_whole() -> None:
    opened = open_answer(Literal[tuple(f"value {n}" for n in range(500))])
    assert len(opened.text) <= MAX_ANNOTATION
    assert "value 0" in opened.stub.about
    assert isinstance(opened.fit("value 499"), Fitted)
    assert isinstance(opened.fit("value 500"), Misfit)


@given(st.text())
def test_no_description_becomes_code(text: str) -> None:
    made = create_model("Hostile", a=(int, Field(description=text)), b=(Literal[text or "x"], ...))
    stub = open_answer(list[made]).stub  # type: ignore[valid-type]
    assert "\n" not in stub.annotation
    assert len(stub.classes) <= MAX_CLASSES
    assert stub.classes.count("\n") <= 2


# -- a resume ----------------------------------------------------------------------------------------------------------


def test_a_type_is_opened_again_by_its_name_and_else_by_its_schema() -> None:
    def again(opened: AnswerType) -> AnswerType:
        return reopened(json.loads(json.dumps(opened.record())))

    assert fitted_by(again(open_answer("number")), "3") == 3
    stored = again(open_answer(list[City]))
    assert stored.same_as(open_answer(list[City]))
    assert fitted_by(stored, [{"name": "x", "population": 1}]) == [{"name": "x", "population": 1}]
    assert isinstance(stored.fit([{"name": "x"}]), Misfit)
    gone = open_answer(int).record() | {"opened_by": "no_such_module:Type"}
    assert fitted_by(reopened(gone), 3) == 3


def fitted_by(opened: AnswerType, value: Any) -> Any:
    found = opened.fit(value)
    assert isinstance(found, Fitted)
    return found.value


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        (str | None, True),
        (Literal["a", None], True),
        (type(None), True),
        (Optional[list[int]], True),  # noqa: UP045
        ({"type": ["string", "null"]}, True),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"oneOf": [{"type": "null"}, {"type": "integer"}]}}}, True),
        (str, False),
        (Any, False),
        ({}, False),
        (list[str | None], False),
        ({"$ref": "#"}, False),
    ],
)
def test_only_a_type_that_names_none_says_that_none_is_an_answer(wanted: Any, named: bool) -> None:
    made = AnswerType(wanted) if isinstance(wanted, dict) else open_answer(wanted)
    assert made.names_none is named
