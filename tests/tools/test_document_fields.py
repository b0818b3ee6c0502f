"""What a document says of a value's fields reaches the stub, the check of programs and the schema gate alike."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from atc.programs.check.checker import Checker
from atc.programs.program import Program
from atc.schemas.protocol import Protocol
from atc.schemas.validate import problems
from atc.tools.openapi.importer import import_openapi
from atc.tools.stub_budget import Fitter
from atc.tools.stubs import render_stub
from tests.support.openapi import document, operation

S, INT = {"type": "string"}, {"type": "integer"}


def ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def record(*required: str, **properties: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object", "properties": properties}
    return {**made, "required": [*required]} if required else made


def imported(schemas: dict[str, Any], version: str = "3.1.0", **options: Any) -> Protocol:
    root = document({"/a": {"post" if "body" in options else "get": operation(**options)}})
    root["components"] = {"schemas": schemas}
    return import_openapi({**root, "openapi": version})["op"].protocol


def returning(returns: Any, schemas: dict[str, Any] | None = None, version: str = "3.1.0") -> Protocol:
    return imported(schemas or {}, version, returns=returns)


def found(protocol: Protocol, program: str) -> list[str]:
    return [f"{each.kind} {each.name}" for each in Checker([protocol]).check(Program(program))]


def fields(protocol: Protocol) -> list[str]:
    """The lines of the stub's classes."""
    return [line.strip() for line in render_stub(protocol).splitlines() if line.startswith("    ") and ": " in line]


PETS = {
    "Pet": {
        "oneOf": [ref("Cat"), ref("Dog")],
        "discriminator": {
            "propertyName": "petType",
            "mapping": {"cat": "#/components/schemas/Cat", "dog": "#/components/schemas/Dog"},
        },
    },
    "Cat": record("petType", "lives", petType=S, lives=INT),
    "Dog": record("petType", "bark", petType=S, bark=S),
}


def test_a_discriminators_branches_keep_their_fields_and_say_their_value() -> None:
    pets = returning({"type": "array", "items": ref("Pet")}, PETS)
    assert "def op() -> list[OpCat | OpDog]:" in render_stub(pets)
    assert fields(pets)[:4] == ["petType: Literal['cat']", "lives: int", "petType: Literal['dog']", "bark: str"]
    program = "answer = [p['lives'] if p['petType'] == 'cat' else p['bark'] for p in op()]"
    assert found(pets, program) == []
    assert found(pets, "answer = [p['wings'] for p in op()]") == ["unknown_field wings"]
    assert not problems(pets.returns or {}, [{"petType": "cat", "lives": 9}, {"petType": "dog", "bark": "w"}])
    assert problems(pets.returns or {}, [{"petType": "cat", "bark": "w"}])


BASE = {"Base": record("id", id=INT)}


@pytest.mark.parametrize(
    ("returns", "lines"),
    [
        ({**ref("Base"), "properties": {"extra": S}}, ["id: int", "extra: NotRequired[str]"]),
        ({**ref("Base"), "required": ["extra"]}, ["id: int", "extra: Any"]),
        ({**ref("Base"), "description": "one"}, ["id: int"]),
        ({"type": "array", "items": {**ref("Base"), "properties": {"extra": S}}},
         ["id: int", "extra: NotRequired[str]"]),
        (record(a=S, b=INT) | {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
         ["a: NotRequired[str]", "b: NotRequired[int]"]),
        (record("id", id=INT) | {"oneOf": [record(a=S), record(b=S)]},
         ["id: int", "a: NotRequired[str]", "id: int", "b: NotRequired[str]"]),
        ({"allOf": [record("id", id=INT), {"oneOf": [record(a=S), record(b=S)]}]},
         ["id: int", "a: NotRequired[str]", "id: int", "b: NotRequired[str]"]),
        ({"allOf": [ref("Base"), {"anyOf": [ref("Base"), record(b=S)]}]},
         ["id: int", "id: int", "b: NotRequired[str]"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_fields_beside_a_reference_or_a_choice_are_all_shown_and_may_all_be_read(
    returns: dict[str, Any], lines: list[str], version: str
) -> None:
    protocol = returning(returns, BASE, version)
    assert fields(protocol)[: len(lines)] == lines
    keys = dict.fromkeys(line.partition(":")[0] for line in lines)
    items = "op()[0]" if returns.get("type") == "array" else "op()"
    assert found(protocol, f"r = {items}\nanswer = [{', '.join(f'r[{key!r}]' for key in keys)}]") == []
    assert found(protocol, f"answer = {items}['none']") == ["unknown_field none"]


@pytest.mark.parametrize("plain", [True, False])
def test_they_are_shown_in_every_form_of_a_prompt(plain: bool) -> None:
    names = {f"field_number_{n}": S for n in range(30)}
    wide = returning(
        {**ref("Base"), "properties": names}, {"Base": record("id", id=INT, **{f"own_{n}": S for n in range(9)})}
    )
    assert all(name in render_stub(wide, plain=plain) for name in ("own_8", "field_number_29", "id"))
    for room in (700, 500, 300):
        short = asyncio.run(Fitter([wide], {}, plain=plain).fit(room, _letters)).text
        assert re.search(r"\bid\b.*own_0.*own_1.*field_number_0", short, re.DOTALL), short


async def _letters(text: str) -> int:
    return len(text)


def test_what_openapi_3_0_ignores_beside_a_reference_demands_nothing() -> None:
    returns = {**ref("Base"), "type": "string", "minProperties": 5, "nullable": True}
    ignored = returning(record(base=returns), BASE, "3.0.3")
    assert not problems(ignored.returns or {}, {"base": {"id": 1}})
    assert not problems(ignored.returns or {}, {"base": None})
    assert "id: int" in fields(ignored)
    held = returning(record(base={**ref("Base"), "minProperties": 5}), BASE)
    assert problems(held.returns or {}, {"base": {"id": 1}})


# -- inheritance -----------------------------------------------------------------------------------------------------

FAMILY = {
    "Pet": record("petType", petType=S) | {"discriminator": {"propertyName": "petType", "mapping": {"tom": "Cat"}}},
    "Cat": {"allOf": [ref("Pet"), record(lives=INT)]},
    "Lion": {"allOf": [ref("Cat"), record(roar=S)]},
    "Owner": record(pet=ref("Pet"), name=S),
}


def test_where_the_base_is_named_any_heir_may_stand() -> None:
    pets = returning({"type": "array", "items": ref("Pet")}, FAMILY, "3.0.3")
    assert "def op() -> list[OpCat | OpLion | OpPet]:" in render_stub(pets)
    assert fields(pets)[:6] == [
        "petType: Literal['tom']", "lives: NotRequired[int]",
        "petType: Literal['Lion']", "lives: NotRequired[int]", "roar: NotRequired[str]",
        "petType: str",
    ]  # fmt: skip
    assert found(pets, "answer = [[p['lives'], p['roar']] for p in op() if p['petType'] == 'Lion']") == []
    assert found(pets, "answer = [p['wings'] for p in op()]") == ["unknown_field wings"]
    for one in ({"petType": "tom", "lives": 9}, {"petType": "Lion", "roar": "r"}, {"petType": "unheard"}):
        assert not problems(pets.returns or {}, [one])
    assert problems(pets.returns or {}, [{"lives": 9}])


def test_an_heir_is_itself_and_those_below_it() -> None:
    assert "def op() -> OpLion | OpCat:" in render_stub(returning(ref("Cat"), FAMILY, "3.0.3"))
    (lion,) = [returning(ref("Lion"), FAMILY, "3.0.3")]
    assert fields(lion)[:3] == ["petType: str", "lives: NotRequired[int]", "roar: NotRequired[str]"]
    owner = returning(ref("Owner"), FAMILY, "3.0.3")
    assert found(owner, "answer = op()['pet']['lives']") == []


def test_an_heir_can_be_sent_where_the_base_is_asked_for() -> None:
    protocol = imported(FAMILY, "3.0.3", body=ref("Pet"))
    assert not problems(protocol.parameters, {"body": {"petType": "tom", "lives": 9}})
    assert found(protocol, "answer = op(body={'petType': 'tom', 'lives': 9})") == []


def test_swagger_2_names_the_property_alone() -> None:
    pet = record("kind", kind=S) | {"discriminator": "kind"}
    cat = {"allOf": [{"$ref": "#/definitions/Pet"}, record(lives=INT)]}
    answer = {"200": {"description": "", "schema": {"$ref": "#/definitions/Pet"}}}
    root = {
        "swagger": "2.0", "info": {"title": "T", "version": "1"}, "host": "x.example", "schemes": ["https"],
        "paths": {"/a": {"get": {"operationId": "op", "responses": answer}}}, "definitions": {"Pet": pet, "Cat": cat},
    }  # fmt: skip
    protocol = import_openapi(root)["op"].protocol
    assert fields(protocol)[:3] == ["kind: Literal['Cat']", "lives: NotRequired[int]", "kind: str"]


def test_a_base_that_lists_its_heirs_and_is_named_by_them_ends() -> None:
    listing = {**FAMILY["Pet"], "oneOf": [ref("Cat"), ref("Dog")]}
    dog = {"allOf": [ref("Pet"), record(bark=S)]}
    pets = returning(
        {"type": "array", "items": ref("Pet")}, {"Pet": listing, "Cat": FAMILY["Cat"], "Dog": dog}, "3.0.3"
    )
    assert fields(pets)[:4] == [
        "petType: Literal['tom']", "lives: NotRequired[int]", "petType: str", "bark: NotRequired[str]"
    ]  # fmt: skip


def test_a_base_with_very_many_heirs_may_have_keys_that_are_not_known() -> None:
    many = {f"Pet{n}": {"allOf": [ref("Pet"), record(**{f"key{n}": S})]} for n in range(100)}
    pets = returning({"type": "array", "items": ref("Pet")}, {"Pet": FAMILY["Pet"], **many}, "3.0.3")
    assert fields(pets)[:1] == ["petType: str"]
    assert found(pets, "answer = [p['key7'] for p in op()]") == []


# -- objects that allow other keys -----------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [True, INT, {}])
@pytest.mark.parametrize("keyword", ["additionalProperties", "patternProperties"])
def test_a_dict_that_is_written_out_may_have_the_keys_that_its_schema_allows(more: Any, keyword: str) -> None:
    allowed = {keyword: more if keyword == "additionalProperties" else {"^ex": more}}
    closed = record(a=S) | {"additionalProperties": False}
    inner = imported({}, body=record(name=S, meta=record(a=S) | allowed, closed=closed))
    assert found(inner, "m = {'a': 'b', 'extra': 3}\nanswer = op(name='x', meta=m)") == []
    assert found(inner, "answer = op(name='x', meta={'a': 'b', 'extra': 3})") == []
    whole = imported({}, body=record(name=S) | allowed)
    assert found(whole, "answer = op(body={'name': 'x', 'extra': 3})") == []
    assert found(inner, "answer = op(closed={'b': 'x'})") != []


@pytest.mark.parametrize("more", [True, {}, INT])
def test_a_tool_may_take_arguments_that_it_does_not_name(more: Any) -> None:
    parameters = {"type": "object", "properties": {"a": S}, "additionalProperties": more}
    assert found(Protocol(name="op", parameters=parameters), "answer = op(a='x', b=1)") == []
    closed = {**parameters, "additionalProperties": False}
    assert found(Protocol(name="op", parameters=closed), "answer = op(a='x', b=1)") == ["unknown_argument b"]


# -- names -----------------------------------------------------------------------------------------------------------


def test_a_name_that_had_to_change_is_shown_with_its_original() -> None:
    query = [{"name": name, "in": "query", "schema": S} for name in ("page[size]", "page_size", "from", "ключ")]
    root = document({"/p": {"get": {**operation(*query), "operationId": "получить"}}})
    (tool,) = import_openapi(root).values()
    stub = render_stub(tool.protocol)
    assert "(page_size_query: str = ..., page_size: str = ..., from_: str = ..., ключ: str = ...)" in stub
    assert "    page_size_query: (named 'page[size]')\n    from_: (named 'from')\n" in stub
    assert "    Named 'получить' there.\n" in stub
