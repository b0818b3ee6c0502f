"""Stubs within a budget: whole where they fit, else what is needed first."""

from __future__ import annotations

import ast
import asyncio
import hashlib
from typing import Any

import pytest

from atc.atlas import Atlas, atlas_toolset
from atc.catalogue.graph.structure import suppliers_of
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.models.base import bounded_tokens
from atc.models.fake import FakeModel
from atc.result import Effect
from atc.run.writer import WritingOptions
from atc.schemas.protocol import Parameter, Protocol, Source
from atc.schemas.reading import Reader, limits_of
from atc.tools import short_stubs
from atc.tools.outline import Outline
from atc.tools.short_stubs import LADDER, short_stub
from atc.tools.stub_budget import SEPARATOR, Fit, Fitter
from atc.tools.stubs import render_stub
from atc.tools.tool import Toolset
from tests.support.tools import make_tool
from tests.support.writer import writer_of

ATLAS = atlas_toolset(Atlas()).protocols


class Counter:
    """Counts tokens, and how often it was asked."""

    def __init__(self, characters: float = 3.0) -> None:
        self.characters, self.asked = characters, 0

    async def __call__(self, text: str) -> int:
        self.asked += 1
        return -int(-len(text) // self.characters)


def fitted(protocols: list[Protocol], tokens: int, task: str = "", count: Any = None, **options: Any) -> Fit:
    fitter = Fitter(protocols, suppliers_of(protocols), task, **options)
    return asyncio.run(fitter.fit(tokens, count or Counter()))


def tool(name: str, returns: Any = None, required: tuple[str, ...] = (), **properties: Any) -> Protocol:
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    source = Source(kind="openapi", location="shop")
    return Protocol(name=name, returns=returns, parameters=parameters, source=source, effect=Effect.READ)


def record(*keys: str, **types: Any) -> dict[str, Any]:
    properties = {key: {"type": "string", "description": f"The {key} of it."} for key in keys}
    return {"type": "object", "properties": {**properties, **types}}


TEXT = {"type": "string"}
WIDE = [f"field_{n}" for n in range(60)]


# -- nothing changes where all fits ----------------------------------------------------------------------------------


def test_what_fits_is_shown_as_ever() -> None:
    hints = ToolGraph(ATLAS).hints
    whole = SEPARATOR.join(render_stub(protocol, hints.get(protocol.name)) for protocol in ATLAS)
    fit = fitted(ATLAS, bounded_tokens(whole))
    assert fit.text == whole
    assert not fit.shortened
    digest = hashlib.sha256(whole.encode()).hexdigest()
    assert digest == "446f5ceb839577a69c88dece8d82769ed9b477f587e78dbe74a3a8ece5f5c143", (
        "prompts of small tools changed"
    )
    assert fitted(ATLAS, bounded_tokens(whole) - 1).shortened


@pytest.mark.parametrize("characters", [0.7, 1.0, 3.0, 4.5, 7.0])
@pytest.mark.parametrize("tokens", [10, 300, 2_000, 6_000])
def test_a_text_never_takes_more_than_its_budget(tokens: int, characters: float) -> None:
    count = Counter(characters)
    fit = fitted(ATLAS, tokens, "How far is Lyon from Paris?", count)
    asked = count.asked
    assert asyncio.run(count(fit.text)) <= tokens
    assert asked <= 12
    assert set(fit.grades) | set(fit.left_out) == {protocol.name for protocol in ATLAS}
    if tokens >= 2_000 and characters >= 3:
        assert not fit.left_out
        assert asked <= 4
        assert asyncio.run(count(fit.text)) > 0.8 * min(tokens, -(-34_612 // characters))
    ast.parse(fit.text)


def test_the_same_tools_are_shown_the_same_way_again() -> None:
    assert fitted(ATLAS, 1_500, "the moon over Oslo") == fitted(ATLAS, 1_500, "the moon over Oslo")


def test_more_room_never_shows_fewer_tools() -> None:
    shown = [len(fitted(ATLAS, tokens).grades) for tokens in (50, 200, 600, 1_500, 4_000)]
    assert shown == sorted(shown)
    assert shown[0] < len(ATLAS) == shown[-1]


# -- what is kept ----------------------------------------------------------------------------------------------------


def test_a_key_that_another_tool_needs_is_kept_wherever_it_lies() -> None:
    deep = record(*WIDE, inner=record(*WIDE, owner=record(*WIDE, ticket_id=TEXT)))
    giver, taker = tool("find", deep, q=TEXT), tool("close", None, ("ticket_id",), ticket_id=TEXT)
    fit = fitted([giver, taker], 90)
    assert fit.grades["find"] == "line"
    assert "inner: {owner: {ticket_id, ...}, ...}" in fit.text


def test_identifiers_and_what_the_task_names_come_before_the_rest() -> None:
    fit = fitted([tool("look", record(*WIDE, "order_id", "weight", "colour"))], 60, "What is the colour of order 7?")
    assert "order_id" in fit.text
    assert "colour" in fit.text
    assert "field_50" not in fit.text


def test_arguments_that_are_required_or_named_stay_and_the_others_are_counted() -> None:
    options = {name: {"type": "string", "description": "x " * 40} for name in WIDE}
    state = {"type": "string", "enum": ["open", "closed"]}
    listing = tool("issues", record("title"), ("repo",), repo=TEXT, state=state, assignee=TEXT, **options)
    fit = fitted([listing], 80, "List the open issues of Anna's repository")
    function = ast.parse(fit.text).body[-1]
    assert isinstance(function, ast.FunctionDef)
    assert [argument.arg for argument in function.args.args] == ["repo", "state"]
    assert "61 more arguments" in fit.text


def test_the_values_of_an_argument_are_all_named_where_there_is_room_for_notes() -> None:
    states = [f"state number {n}" for n in range(12)]
    assert short_stubs.MAX_ENUM < len("".join(states)) < short_stubs.MAX_CHOICES
    one = tool("look", None, ("state",), state={"type": "string", "enum": states})
    for grade in LADDER[1:]:
        text = short_stub(one, grade, Outline([one], {}, ""), {}, set()).text
        assert ("'state number 11'" in text) is bool(grade.notes), grade


def test_the_last_tools_are_left_out_first_and_never_those_that_are_kept() -> None:
    tools = [tool(f"tool_{n}", record(*WIDE)) for n in range(30)] + [tool("find_tools", None, ("query",), query=TEXT)]
    fit = fitted(tools, 200, keep=["find_tools"])
    assert fit.grades["find_tools"] == "whole"
    assert fit.left_out == tuple(f"tool_{n}" for n in range(30))[-len(fit.left_out) :]
    assert "tool_0" in fit.grades


def test_what_was_asked_for_has_room_before_all_others() -> None:
    tools = [tool(f"tool_{n}", record(*(f"t{n}_{key}" for key in WIDE))) for n in range(6)]
    assert fitted(tools, 1_500).grades["tool_4"] != "whole"
    fit = fitted(tools, 1_500, first=["tool_4"])
    assert fit.grades["tool_4"] == "whole"
    assert all(f"t4_{key}" in fit.text for key in WIDE)


def test_the_name_of_the_tool_that_tells_the_rest_stands_where_something_is_left_out() -> None:
    tools = [tool("look", record(*WIDE, *(f"other_{n}" for n in range(60))))]
    fit = fitted(tools, 900, ask="tool_docs")
    assert fit.grades == {"look": "keys"}
    assert 'More: tool_docs("look")' in fit.text
    assert "tool_docs" not in fitted(tools, 900).text


# -- bounds ----------------------------------------------------------------------------------------------------------


def nested(levels: int, width: int = 12) -> dict[str, Any]:
    """A response that unfolds to ``width ** levels`` objects."""
    definitions: dict[str, Any] = {f"L{levels}": record("leaf")}
    for level in range(levels):
        below = {f"to_{n}": {"$ref": f"#/$defs/L{level + 1}"} for n in range(width)}
        definitions[f"L{level}"] = record("id", **{key: record(f"k{key}", x=value) for key, value in below.items()})
    return {"$ref": "#/$defs/L0", "$defs": definitions}


def test_what_is_not_shown_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    plain = Reader.read

    def counted(reader: Reader, schema: Any) -> Any:
        looked.append(1)
        return plain(reader, schema)

    monkeypatch.setattr(Reader, "read", counted)
    work = []
    for levels in (4, 40):
        looked.clear()
        fit = fitted([tool("walk", nested(levels))], 200)
        assert fit.shortened
        work.append(len(looked))
    assert work[1] < 2 * work[0]
    assert work[1] < 5_000


@pytest.mark.parametrize(
    "inner",
    [
        lambda ref: {"type": "object", "properties": {f"p{n}": ref for n in range(30)}},
        lambda ref: {"anyOf": [ref] * 30},
        lambda ref: {"type": "array", "items": {"oneOf": [ref, {"type": "string"}] * 12}},
        lambda ref: {"type": "object", "additionalProperties": {"anyOf": [ref] * 12}},
        lambda ref: {"allOf": [ref] * 30},
        pytest.param(
            lambda ref: {"allOf": [{"properties": {"a": ref}}, {"anyOf": [ref] * 30}]}, marks=pytest.mark.slow
        ),
        lambda ref: {"anyOf": [{"type": "object", "properties": {"a": ref, "b": ref}}] * 12},
    ],
)
@pytest.mark.parametrize("cycle", [True, False])
def test_schemas_that_unfold_without_end_are_cut(inner: Any, cycle: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    plain = Reader.read
    monkeypatch.setattr(Reader, "read", lambda *given: steps.append(1) or plain(*given))
    last: dict[str, Any] = {"$ref": "#/$defs/a0"} if cycle else {"type": "string"}
    definitions = {f"a{n}": inner({"$ref": f"#/$defs/a{n + 1}"}) for n in range(9)} | {"a9": inner(last)}
    schema = {"$defs": definitions, "$ref": "#/$defs/a0"}
    for tokens in (60, 400):
        ast.parse(fitted([tool("walk", schema, a=schema)], tokens).text)
    assert len(steps) < 400_000


def test_each_grade_of_a_tool_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from atc.tools import stub_budget as module

    written: list[Any] = []
    plain = module.short_stub

    def counted(protocol: Protocol, grade: Any, *rest: Any, **options: Any) -> Any:
        written.append((protocol.name, grade, rest[-1]))
        return plain(protocol, grade, *rest, **options)

    monkeypatch.setattr(module, "short_stub", counted)
    fitted(ATLAS, 2_500)
    assert len(written) == len(set(written))
    assert len(written) <= len(ATLAS) * len(LADDER)


def test_the_arguments_of_a_tool_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[Any] = []
    monkeypatch.setattr(Parameter, "__eq__", lambda one, other: bool(compared.append(other)))
    one = tool("look", **{f"p{n}": {"type": "string"} for n in range(40)})
    words = {"p1", "p2", "p3"}
    assert "37 more arguments" in short_stub(one, LADDER[2], Outline([one], {}, "p1 p2 p3"), {}, words).text
    assert compared == []


def test_every_grade_shows_less_than_the_one_before() -> None:
    ranked = Outline(ATLAS, suppliers_of(ATLAS), "")
    for protocol in ATLAS:
        keys = [short_stub(protocol, grade, ranked, {}, ()).text for grade in LADDER[1:]]
        counts = [len(outline_keys(text)) for text in keys]
        assert counts == sorted(counts, reverse=True)


def outline_keys(text: str) -> list[str]:
    return text.partition("Response: ")[2].split(",")


def test_a_cut_of_every_grade_is_python() -> None:
    odd = record("a-b", "from", "class", "x", *WIDE, inner=record('"""', "\n", "ok"))
    ranked = Outline([tool("odd", odd, a=odd)], {}, "")
    for grade in LADDER[1:]:
        stub = short_stub(tool("odd", odd, a=odd), grade, ranked, {}, (), "tool_docs")
        assert isinstance(ast.parse(stub.text).body[-1], ast.FunctionDef)


# -- short limits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"minimum": 1, "maximum": 100}, "1 to 100"),
        ({"minimum": 5}, "at least 5"),
        ({"minimum": 1}, ""),
        ({"minimum": 0, "maximum": 2_147_483_647}, ""),
        ({"maximum": 9}, "at most 9"),
        ({"exclusiveMinimum": 0, "maximum": 500}, "more than 0, at most 500"),
        ({"minLength": 1, "maxLength": 20}, "at most 20 characters"),
        ({"minLength": 2, "maxLength": 2}, "2 characters"),
        ({"maxItems": 1}, "at most 1 item"),
        ({"pattern": "^a+$"}, "pattern ^a+$"),
        ({"pattern": "a" * 31}, ""),
        ({"minimum": True, "maximum": "7", "pattern": 5, "maxLength": None}, ""),
        ({}, ""),
    ],
)
def test_limits_in_words(schema: dict[str, Any], said: str) -> None:
    assert limits_of(schema) == said


def test_a_limit_stands_with_its_argument_and_is_not_repeated() -> None:
    page = {"type": "integer", "minimum": 1, "maximum": 100, "description": "How many."}
    told = {"type": "integer", "minimum": 1, "maximum": 100, "description": "From 1 to 100 of them."}
    stub = render_stub(tool("look", None, (), page=page, told=told, code={"type": "string", "pattern": '^"\\d+$'}))
    assert "page: How many. (1 to 100)\n" in stub
    assert "told: From 1 to 100 of them.\n" in stub
    assert "code: (pattern ^'\\\\d+$)\n" in stub


def test_a_description_is_no_mark_of_what_was_cut() -> None:
    key = {"type": "string", "description": "optional, may be left out"}
    assert short_stubs.keys_text({}, {"type": "object", "properties": {"a": key}}) == "{a}"


USER = {
    "type": "object",
    "title": "User",
    "properties": {
        "id": {"type": "string"},
        "mail": {"type": "string", "description": "where messages are sent to"},
        "home": {
            "type": "object",
            "properties": {f"part_{n}_of_the_address": {"type": "string"} for n in range(5)},
        },
    },
    "required": ["id", "mail"],
}
HOME = "{" + ", ".join(f"'part_{n}_of_the_address'?: str" for n in range(5)) + "}"
WHOLE_USER = "{'id': str, 'mail': str (where messages are sent to), 'home'?: " + HOME + "}"


def returning(**returns: Any) -> list[Protocol]:
    return [Protocol(name=name, effect=Effect.READ, returns=schema) for name, schema in returns.items()]


def shown_of(protocols: list[Protocol], *, share: bool = True, room: int = 10_000) -> str:
    fit = Fitter(protocols, {}, plain=True, share=share).whole(room)
    assert fit is not None
    ast.parse(fit.text)
    return fit.text


def test_a_description_that_holds_a_shared_type_gets_no_line_of_it() -> None:
    home = {**USER["properties"]["home"], "title": "Home"}
    text = shown_of([Protocol(name="about", description=HOME, effect=Effect.READ), *returning(find=home, get=home)])
    assert f'def about() -> Any:\n    """{HOME}"""\n' in text
    assert f"    Returns: Home\n    Home = {HOME}\n" in text


def test_a_type_has_no_name_that_means_something_else() -> None:
    none = {**USER, "title": "None"}
    assert f"    Returns: None2\n    None2 = {WHOLE_USER}\n" in shown_of(returning(find=none, get=none))


def test_a_type_that_several_tools_return_is_written_once() -> None:
    tools = returning(
        find_user=USER,
        list_users={"type": "array", "items": USER},
        page={"type": "object", "properties": {"users": {"type": "array", "items": USER}}, "required": ["users"]},
    )
    text = shown_of(tools)
    assert f"    Returns: User\n    User = {WHOLE_USER}\n" in text
    assert text.count("'mail'") == 1
    assert "    Returns: [User]\n" in text
    assert "    Returns: {'users': [User]}\n" in text
    room = len(shown_of(tools, share=False)) - 200
    assert shown_of(tools, room=room) == text, "what is shared takes its room once"
    assert Fitter(tools, {}, plain=True).whole(room) is None


def test_a_part_that_others_share_is_named_within_a_type_that_is_named() -> None:
    text = shown_of(returning(a=USER, b=USER, home=USER["properties"]["home"]))
    assert "    User = {'id': str, 'mail': str (where messages are sent to), 'home'?: Home}\n" in text
    assert f"    Home = {HOME}\n" in text
    assert text.endswith('    Returns: Home\n    """')
    assert text.count(HOME) == 1


def test_what_is_not_shared_is_shown_as_before() -> None:
    small = {"type": "object", "properties": {"id": {"type": "string"}}}
    for tools in (returning(a=USER, b=small, c=small), returning(User=small, b=USER)):
        assert shown_of(tools) == shown_of(tools, share=False)
    taken = shown_of(returning(User=USER, b=USER))
    assert "    User2 = {" in taken


def test_only_a_small_model_is_shown_each_type_in_its_place() -> None:
    tools = Toolset(make_tool(name, lambda _: None, returns=USER) for name in ("a", "b"))
    for example, times in ((False, 1), (True, 2)):
        writer = writer_of("t", tools, FakeModel([]), WritingOptions(example=example))
        (asked,) = asyncio.run(writer.messages((), ()))[-1:]
        assert asked.content.count("'mail'") == times
