"""Reading and editing the text of JSON, TOML and YAML: nothing but the entry changes, comments stay."""

from __future__ import annotations

import json
import re
from difflib import ndiff
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.cli.clients.clients import Form
from atc.cli.clients.document import ConfigProblem, Edit, same, settled, with_entry, without_entry
from atc.cli.clients.editor import edited, parsed

ENTRY = {"command": "/x/atc", "args": ["mcp", "--tools", "a b"], "env": {"A": 'q"\\é'}}
PATH: dict[Form, tuple[str, ...]] = {"json": ("m",), "jsonc": ("m",), "toml": ("m",), "yaml": ("m",)}

TEXTS: list[tuple[Form, str]] = [
    ("json", '{"m": {"a": {"command": "x"}, "b": {}}, "z": [1, {"m": 2}]}'),
    ("json", '{"m":{"a":{"command":"x"}}}'),
    ("json", '{\n\t"m": {\n\t\t"a": {\n\t\t\t"command": "x"\n\t\t}\n\t}\n}'),
    ("json", '{\n  "m": { "a": { "command": "x" },\n         "b": { "command": "y" } }\n}\n'),
    ("jsonc", '// top\n{\n  "m": {\n    // of a\n    "a": {"command": "x"}, // behind a\n    /* of b */ "b": {}, '
              '// behind b\n  }, // m\n}\n'),
    ("jsonc", '{\n  "m": {\n    "a": {"command": "x"} // behind a, no comma\n    // last\n  }\n}\n'),
    ("jsonc", '{"m": {"a": 1 /* one */, "b": 2 // two\n}}'),
    ("toml", '# top\nx = 1\n\n# of a\n[m.a] # behind a\ncommand = "x"\n# in a\nargs = [ # in args\n'
             '  "y",\n]\n[m.a.env]\nK = """\n[m.b]\n"""\n\n# of z\n[z]\ny = 2'),
    ("toml", "[m]\na = {command = 'x'} # behind a\nb.command = 'y'\n"),
    ("toml", "m.a.command = 'x'\nm.b.command = 'y'\n[z]\n"),
    ("toml", '[[z]]\n[m."a"]\ncommand = "x"\n[[z]]\n[ m . b ]\ncommand = "y"\n'),
    ("yaml", "# top\nm:  # m\n  # of a\n  a:  # behind a\n    command: x\n    args: [y, z]  # behind args\n"
             "  # of b\n  b:\n    text: |\n      one\n\n      two\n\nz: 1 # behind z\n"),
    ("yaml", 'm:\n    "a": {command: x}\n    ? b\n    : {command: y}\n'),
    ("yaml", "m:\n- a\n"),
    ("yaml", "z: &z {command: x}\nm:\n  a: *z\n  b:\n    <<: *z\n"),
    ("yaml", "m: {a: {command: x}, b: {}}\n"),
    ("yaml", "---\nm:\n  a:\n    command: >-\n      x\n      y\n...\n"),
]  # fmt: skip


def comments(form: Form, text: str) -> list[str]:
    """The words in comments; each has letters that no value has."""
    pattern = r"//[^\n]*|/\*.*?\*/" if form == "jsonc" else r"#[^\n]*"
    return [] if form == "json" else re.findall(pattern, text)


def lost(before: str, after: str) -> int:
    """How many lines are not what they were: one gets a comma, or the entry itself."""
    return sum(line.startswith("- ") for line in ndiff(before.split("\n"), after.split("\n")))


@pytest.mark.parametrize(("form", "text"), TEXTS)
def test_an_entry_is_put_and_taken_and_every_other_byte_stays(form: Form, text: str) -> None:
    path = PATH[form]
    try:
        before = parsed(form, text)
        there = before.servers(path)
    except ConfigProblem:
        assert "- a" in text
        return
    made = edited(form, text, before.put(path, "new", ENTRY), with_entry(before.data, path, "new", ENTRY), path)
    if made is None:  # a form that is refused: what is put behind it would be another table's
        assert form == "toml"
        assert text.startswith("[m]\na =")
        return
    assert comments(form, made.text) == comments(form, text)
    assert lost(text, made.text) <= (0 if form in ("toml", "yaml") and "m: {" not in text else 1)
    try:
        back = edited(form, made.text, made.take(path, "new"), before.data, path)
    except ConfigProblem:
        assert "m: {a" in text  # YAML in braces is put into, and not taken out of
        return
    assert back is not None
    assert back.text == text or (form == "toml" and back.text.rstrip("\n") == text.rstrip("\n"))
    assert there.keys() == back.servers(path).keys()


@pytest.mark.parametrize(("form", "text"), TEXTS)
def test_every_entry_can_be_taken_and_its_text_put_back(form: Form, text: str) -> None:
    path = PATH[form]
    try:
        before = parsed(form, text)
        names = list(before.servers(path))
    except ConfigProblem:
        return
    for name in names:
        try:
            edit = before.take(path, name)
        except ConfigProblem:
            assert form == "yaml"
            assert "{a" in text
            continue
        taken = edited(form, text, edit, without_entry(before.data, path, name), path)
        if taken is None:
            assert form == "yaml"
            assert "? b" in text  # refused, since it cannot be told for certain
            continue
        assert comments(form, taken.text) == [each for each in comments(form, text) if each in taken.text]
        assert edit.undone(taken.text) == text
        raw = before.raw(path, name)
        value = before.servers(path)[name]
        again = edited(form, taken.text, taken.put(path, name, value, raw), before.data, path) if raw else None
        assert again is not None or not raw or "m.a" in text or "*z" in text


@pytest.mark.parametrize("form", ["json", "jsonc", "toml", "yaml"])
@pytest.mark.parametrize("text", ["", "\n", "\r\n"])
def test_an_empty_file_takes_an_entry(form: Form, text: str) -> None:
    before = parsed(form, text)
    made = edited(form, text, before.put(("m",), "new", ENTRY), {"m": {"new": ENTRY}}, ("m",))
    assert made is not None


def test_an_edit_is_undone_where_it_is_found_just_once() -> None:
    text = "one two three"
    edit = Edit(4, "2", "two", "one ", " three")
    assert edit.undone(text) == "one 2 three"
    assert edit.undone("and " + text) == "and one 2 three"
    assert edit.undone("and " + text + ", " + text) is None
    assert edit.undone("one TWO three") is None


def test_equal_values_of_other_types_are_not_the_same() -> None:
    assert not same(1, True)
    assert not same(1, 1.0)
    assert same(float("nan"), float("nan"))
    assert not same({"a": [1]}, {"a": [1, 2]})
    assert settled({"a": {"b": {}}, "c": 1}, ("a", "b")) == {"c": 1}


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(_VALUES, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_json_is_read_as_the_standard_library_reads_it(value: Any, indent: Any, ascii_: bool) -> None:
    text = json.dumps({"a": value}, indent=indent, ensure_ascii=ascii_)
    assert same(parsed("json", text).data, {"a": value})
    assert same(parsed("jsonc", text).data, {"a": value})


@given(st.text('{}[]",:0123.eE+-tfn \\u/*\n', max_size=12))
def test_what_is_no_json_is_refused_as_the_standard_library_refuses_it(text: str) -> None:
    whole = f'{{"a":{text}}}'
    try:
        wanted = json.loads(whole)
    except ValueError:
        with pytest.raises(ConfigProblem):
            parsed("json", whole)
        return
    assert same(parsed("json", whole).data, wanted) or "NaN" in text


@given(st.text("[]{}=.#'\"\\ \na1,", max_size=14))
def test_no_toml_and_no_yaml_makes_the_reader_fail_otherwise(text: str) -> None:
    for form in ("toml", "yaml", "jsonc"):
        try:
            document = parsed(form, text)  # type: ignore[arg-type]
            edit = document.put(("m",), "new", ENTRY)
            edited(form, text, edit, with_entry(document.data, ("m",), "new", ENTRY), ("m",))  # type: ignore[arg-type]
        except ConfigProblem:
            pass
