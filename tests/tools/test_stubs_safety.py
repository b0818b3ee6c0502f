"""No text of a tool becomes code in its stub."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.catalogue.graph.structure import suppliers_of
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.errors import ToolImportError
from atc.schemas.protocol import Example, Protocol, Status
from atc.schemas.types import camel, one_line, sentences
from atc.tools import stubs
from atc.tools.outline import Outline
from atc.tools.short_stubs import LADDER, short_stub
from atc.tools.stub_budget import Fitter
from atc.tools.stubs import render_stub, render_stubs


def protocol(returns: Any = None, name: str = "look", **fields: Any) -> Protocol:
    return Protocol(name=name, returns=returns, **fields)


# -- no text becomes code --------------------------------------------------------------------------------------------

NASTY = st.sampled_from(
    [
        *(
            '"""',
            "'''",
            '"""\nimport os\n"""',
            '\\"""',
            '"' * 5,
            "'",
            "'] = 1\n",
            "]: int",
            "): pass\n",
            "\r\n    return 1",
            "#",
            "```",
        ),
        *(
            "\\",
            "\\\\",
            "\\N{BULLET}",
            "\\u0041",
            "\\x",
            "%s",
            "{x}",
            "\n",
            "\t",
            "\x00",
            "\x0c",
            "\u2028",
            "\ud800",
            "\u202e",
        ),
        *("None", "a" * 300),
    ]
)
TEXT = st.lists(NASTY | st.text(max_size=6), max_size=4).map("".join)
LEAF = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["string", "integer", "number", "boolean", "null"])},
        optional={"description": TEXT, "format": TEXT, "default": TEXT},
    ),
    st.lists(TEXT | st.integers() | st.none() | st.booleans(), max_size=4).map(lambda values: {"enum": values}),
    TEXT.map(lambda value: {"const": value}),
    TEXT.map(lambda name: {"$ref": f"#/$defs/{name}"}),
)
SCHEMA = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(TEXT, inner, max_size=3)},
            optional={"description": TEXT},
        ),
        inner.map(lambda items: {"type": "array", "items": items}),
        st.lists(inner, max_size=3).map(lambda members: {"anyOf": members}),
        st.lists(inner, max_size=3).map(lambda members: {"allOf": members}),
    ),
    max_leaves=6,
)


def assert_only_declarations(source: str, tools: set[str]) -> None:
    """Classes of annotated fields, functions with a docstring or ``...``, the functional TypedDict."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            assert node.name in tools | {"parallel", "all_pages"}
            assert len(node.body) == 1
            assert isinstance(node.body[0], ast.Expr)
            assert isinstance(node.body[0].value, ast.Constant)
            assert not node.decorator_list
            assert all(isinstance(default, ast.Constant) and default.value is ... for default in node.args.defaults)
        elif isinstance(node, ast.ClassDef):
            *fields, last = node.body
            fields += [] if isinstance(last, ast.Expr) and ast.unparse(last) == "..." and fields else [last]
            assert all(isinstance(field, ast.AnnAssign) and field.value is None for field in fields)
        elif isinstance(node, ast.Assign):
            assert isinstance(node.value, ast.Call)
            assert ast.unparse(node.value.func) == "TypedDict"
        else:
            assert isinstance(node, ast.ImportFrom)
            assert node.module == "typing"
    calls = [ast.unparse(node.func) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    assert set(calls) <= {"TypedDict"}


@given(
    description=TEXT,
    returns=SCHEMA,
    properties=st.dictionaries(TEXT, SCHEMA, max_size=3),
    definitions=st.dictionaries(TEXT, SCHEMA, max_size=2),
    status=st.integers() | TEXT,
    example=st.recursive(
        TEXT | st.none() | st.integers(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
        max_leaves=4,
    ),
)
def test_a_tools_text_never_leaves_its_place(
    description: str, returns: Any, properties: Any, definitions: Any, status: Any, example: Any
) -> None:
    made = Protocol(
        name="look",
        description=description,
        parameters={"type": "object", "properties": properties, "$defs": definitions},
        returns={**returns, "$defs": definitions},
        statuses=(Status(code=status, description=description),),
        examples=(Example(response=example, description=description),),
    )
    other = Protocol(name="other", returns={"type": "object", "properties": {name: {} for name in properties}})
    hints = ToolGraph([made, other]).hints
    ranked = Outline([made, other], suppliers_of([made, other]), description)
    grade = LADDER[1 + len(description) % (len(LADDER) - 1)]
    for source in (
        render_stub(made, hints.get("look")),
        render_stubs([made, other]),
        short_stub(made, grade, ranked, hints.get("look", {}), (), "tool_docs").text,
        Fitter([made, other], suppliers_of([made, other]), description, ask="tool_docs").within(300).text,
    ):
        assert_only_declarations(source, {"look", "other"})
    docstring = ast.get_docstring(ast.parse(render_stub(made)).body[-1])  # type: ignore[arg-type]
    assert docstring is not None


def test_a_hint_cannot_leave_the_docstring() -> None:
    evil = 'x_id\']"""\n    import os\n    """'
    taker = protocol(
        name="take",
        parameters={"type": "object", "properties": {evil: {"type": "string"}, "city_id": {"type": "string"}}},
    )
    giver = protocol(
        {"type": "object", "properties": {evil: {}, 'a"""\n': {"type": "object", "properties": {"city_id": {}}}}},
        "give",
    )
    hints = ToolGraph([taker, giver]).hints
    assert "city_id" in hints["take"]
    assert_only_declarations(render_stub(taker, hints["take"]), {"take"})


def test_the_guard_refuses_what_is_no_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were a text to escape all the same, nothing is rendered."""
    for escaped in ('x"""\n    import os\n    """', 'x"""\nimport os\n"""', 'x"""; import os; """'):
        monkeypatch.setattr(stubs, "one_line", lambda text, limit, escaped=escaped: escaped)
        with pytest.raises(ToolImportError, match=r"the stub of look"):
            render_stub(protocol(description="x"))


@pytest.mark.parametrize(
    ("body", "passes"),
    [
        ("    a: int\n    ...  # 2 more keys", True),
        ("    ...", False),
        ("    ...\n    a: int", False),
        ("    a: int\n    'text'", False),
        ("    a: int\n    ...\n    ...", False),
        ("    a: int\n    boom()", False),
    ],
)
def test_the_mark_of_what_was_left_out_is_the_only_other_line_of_a_class(body: str, passes: bool) -> None:
    stub = stubs.Stub({"A": f"class A(TypedDict):\n{body}"}, 'def look() -> A:\n    """x"""')
    if passes:
        assert stubs.guarded(stub, "look") is stub
        return
    with pytest.raises(ToolImportError, match=r"the stub of look"):
        stubs.guarded(stub, "look")


@given(TEXT, st.integers(10, 60))
def test_one_line_is_one_harmless_line(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit + 2
    assert '"' not in line
    assert all(character.isprintable() for character in line)
    assert ast.literal_eval(f'"""{line}"""') is not None
    assert ast.literal_eval(f'"{line}"') is not None


@given(TEXT)
def test_camel_is_always_a_name(text: str) -> None:
    assert camel(text).isidentifier()
    assert camel(text).isascii()


@pytest.mark.parametrize(
    ("limit", "line"),
    [
        (120, "The state, one of 'open', 'date of return' or 'lost'. More about it stands in the e.g. usual handbook."),
        (95, "The state, one of 'open', 'date of return' or 'lost'. …"),
        (56, "The state, one of 'open', 'date of return' or 'lost'. …"),
        (50, "The state, one of 'open', 'date of return' or …"),
        (40, "The state, one of 'open', …"),
        (12, "The state, …"),
    ],
)
def test_a_line_is_cut_behind_a_sentence_or_a_word_and_not_inside_of_a_value(limit: int, line: str) -> None:
    text = "The state, one of 'open', 'date of return' or 'lost'. More about it stands in the e.g. usual handbook."
    assert one_line(text, limit) == line


def test_the_sentence_under_way_is_whole_where_it_soon_ends() -> None:
    values = ", ".join(f"'value {n}'" for n in range(12))
    listed = f"The state. It is one of {values}."
    assert len(listed) > 120
    assert sentences(listed, 120, 240) == listed
    assert sentences(f"{listed} More.", 120, 240) == f"{listed} …"
    assert sentences(f"{listed[:-1]} and {values} and {values}.", 120, 240) == one_line(listed, 120)
    assert sentences("x" * 500, 120, 240) == one_line("x" * 500, 120)


@given(TEXT, st.integers(10, 60), st.integers(60, 120))
def test_whole_sentences_take_no_more_than_they_may(text: str, limit: int, most: int) -> None:
    line = sentences(text, limit, most)
    assert len(line) <= most + 2
    assert ast.literal_eval(f'"""{line}"""') is not None
