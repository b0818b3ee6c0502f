"""The table of CPython's messages is held to the Python at hand."""

from __future__ import annotations

import sys

import pytest

from atc.programs.attribution.trace import TEXTS

EXAMPLES = [(form, program) for form, text in TEXTS.items() for program in text.examples]


@pytest.mark.parametrize(("form", "program"), EXAMPLES)
def test_this_python_still_says_it_so(form: str, program: str) -> None:
    text = TEXTS[form]
    with pytest.raises(Exception) as raised:
        eval(program, {})  # noqa: S307 - the table's own examples
    assert (text.find(str(raised.value)) is not None) == (sys.version_info < text.before)


@pytest.mark.parametrize(
    ("form", "program", "names"),
    [
        ("indices", "list()['a']", ("list",)),
        ("indices", "str()['b']", ("str",)),
        ("indices", "tuple()['a']", ("tuple",)),
        ("operands", "1 + 'a'", ("int", "str")),
        ("operands", "[] < {}", ("list", "dict")),
        ("name", "missing", ("missing",)),
    ],
)
def test_what_a_message_names_is_found(form: str, program: str, names: tuple[str, ...]) -> None:
    with pytest.raises(Exception) as raised:
        eval(program, {})  # noqa: S307
    found = TEXTS[form].find(str(raised.value))
    assert found is not None
    assert found.groups() == names


def test_functions_are_not_taken_for_types() -> None:
    with pytest.raises(TypeError) as raised:
        int([])  # type: ignore[call-overload]
    assert TEXTS["types"].says.findall(str(raised.value)) == ["list"]


def test_a_null_key_is_no_list_with_wrong_indices() -> None:
    with pytest.raises(TypeError) as raised:
        eval("list()[None]", {})  # noqa: S307 - as a literal the compiler warns of it
    assert TEXTS["indices"].find(str(raised.value)) is None
