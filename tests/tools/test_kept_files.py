"""The text of a kept program's file: what it looks like, that it is read as it was written, and what is refused."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atc.errors import ToolImportError, UsageError
from atc.schemas.protocol import SourceKey
from atc.tools.kept import UsedTool
from atc.tools.kept_files import MAX_FILE, KeptFile, kept_text, read_kept, seal_of, write_kept
from tests.support.kept_files import MADE, RUN, WARM, kept_file

GOLDEN = """\
+++
kept = 2
name = "first_city"
description = "The first city of a name.\\n'no' is a text."
parameters = '''
{
 "type": "object",
 "properties": {
  "city": {
   "type": "string",
   "examples": [
    "no",
    "Ber\\u0027gen"
   ]
  }
 },
 "required": [
  "city"
 ]
}'''
response = '''{"type": "string"}'''
run = "20260101-101010-abcdef"
made = "2026-01-01T10:10:10Z"
sha256 = "%s"

[[uses]]
tool = "find_cities"
source = ["function", "atc.atlas.places:find_cities", "find_cities"]
digest = "7dc091f4d81477a62ffdf41cb45ddf6ec6db652fcd7e6b7bfc12f22dc09f990c"
+++
found = find_cities(name=city)
answer = found[0]['name']
"""
FIRST_CITY = KeptFile(
    name="first_city",
    program="found = find_cities(name=city)\nanswer = found[0]['name']\n",
    description="The first city of a name.\n'no' is a text.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string", "examples": ["no", "Ber'gen"]}},
        "required": ["city"],
    },
    response={"type": "string"},
    uses=(
        UsedTool(
            "find_cities",
            SourceKey("function", "atc.atlas.places:find_cities", "find_cities"),
            "7dc091f4d81477a62ffdf41cb45ddf6ec6db652fcd7e6b7bfc12f22dc09f990c",
        ),
    ),
    run=RUN,
    made=MADE,
)


def test_a_file_is_text_that_people_read() -> None:
    text = GOLDEN % seal_of(FIRST_CITY)
    assert kept_text(FIRST_CITY) == text
    assert read_kept(text, "first_city.atc") == FIRST_CITY
    assert read_kept(text.encode(), "first_city.atc") == FIRST_CITY


@pytest.mark.parametrize(
    "change",
    [
        {"description": "line\n\n  indented\ttab: {x} # y\n+++\nend", "run": "", "made": ""},
        {"description": "", "response": None, "uses": ()},
        {"description": "ünïcode ☀️ \\ \" ' %"},
        {
            "parameters": {
                "type": "object",
                "properties": {"größe": {"enum": [1, 1.5, 1e30, None, True, "1.5", "'''", "a\u202eb"]}},
            }
        },
        {"program": "'''\n+++\n'''\nanswer = '☀️\\u202e'\n"},
    ],
    ids=["lines", "nothing", "unicode", "schema", "fence"],
)
def test_what_was_written_is_read_again(change: dict[str, Any]) -> None:
    kept = replace(FIRST_CITY, **change)
    again = read_kept(kept_text(kept), "first_city.atc")
    assert again.program == kept.program
    assert (again.parameters, again.response, again.uses) == (
        {"properties": {}, **kept.parameters}, kept.response, kept.uses,
    )  # fmt: skip
    assert again.description == kept.description.replace("\ufe0f", "")


def test_what_hides_in_a_description_is_not_written() -> None:
    assert read_kept(kept_text(replace(WARM, description="a\u202eb\U000e0041c")), "is_warm.atc").description == "abc"


def test_it_is_written_for_its_owner_alone_and_not_over_another(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "kept"
    path = write_kept(WARM, folder)
    assert path == folder / "is_warm.atc"
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path, folder)] == [0o600, 0o700]
    with pytest.raises(UsageError, match="is there already"):
        write_kept(WARM, folder)
    write_kept(replace(WARM, description="other"), folder, over=True)
    assert 'description = "other"' in path.read_text()
    assert [each.name for each in folder.iterdir()] == ["is_warm.atc"]


def refused(text: str | bytes, match: str, path: Path | None = None) -> None:
    with pytest.raises(ToolImportError, match=match) as caught:
        read_kept(text, "is_warm.atc", path)
    assert str(caught.value).startswith("is_warm.atc")


EDITS = {
    "an effect": ('name = "is_warm"', 'name = "is_warm"\neffect = "read"', "a header has no field 'effect'"),
    "a parameter": ('"city": {', '"city": {"title": "x",', "the file was edited"),
    "a tool": ('tool = "temperature"', 'tool = "send"', "the file was edited"),
    "the program": ("> 15", "> 16", "the file was edited"),
    "the description": ("Does what", "Do what", "the file was edited"),
    "the form": ("kept = 2", "kept = 1", "`kept = 2` is the form that this version reads"),
    "a missing field": ('made = "2026-01-01T10:10:10Z"\n', "", "the field 'made' is missing"),
    "a wrong type": ('description = "Does', 'description = 1 # "', "description: Input should be a valid string"),
    "a reserved name": ('name = "is_warm"', 'name = "answer"', "name: 'answer' is no free name"),
    "a builtin": ('name = "is_warm"', 'name = "print"', "name: 'print' is no free name"),
    "a keyword": ('name = "is_warm"', 'name = "class"', "name: 'class' is no free name"),
    "all_pages": ('name = "is_warm"', 'name = "all_pages"', "name: 'all_pages' means something else"),
    "ask_user": ('name = "is_warm"', 'name = "ask_user"', "name: 'ask_user' means something else"),
    "a path": ('name = "is_warm"', 'name = "../is_warm"', "name: '../is_warm' is no free name"),
    "a hidden name": ('name = "is_warm"', 'name = "is_\\u202ewarm"', "is no free name"),
    "a bell in a name": ('name = "is_warm"', 'name = "is_\\u0007warm"', r"'is_\\x07warm' is no free name"),
    "a parameter that is a tool": ('"city": {', '"temperature": {', "'temperature' means"),
    "a parameter that is answer": ('"city": {', '"answer": {', "'answer' means"),
    "a required nobody": ('"city"\n', '"town"\n', "required parameter 'town' has no schema"),
    "a key twice": ("kept = 2", 'kept = 2\nname = "other"', r"no TOML: Cannot overwrite a value \(at line 4"),
    "a key of a schema twice": ('"city": {', '"city": {}, "city": {', "parameters: 'city' stands here twice"),
    "no JSON": ('"city": {', '"city" {', "parameters: this is no JSON"),
    "no schema": ('{"type": "boolean"}', '{"type": "truth"}', "response is not a usable JSON Schema"),
    "a control character": ("> 15", "> 15 # \x1b[2J", r"line \d+ has a control character, \\x1b"),
    "a carriage return": ("> 15\n", "> 15\r\n", r"line \d+ has a control character, \\x0d"),
    "a turn of direction": ("> 15", "> 15 # \u202e", r"line \d+ has a character that hides or turns text, \\u202e"),
    "a tag character": ("> 15", "> 15 # \U000e0041", "hides or turns text"),
    "itself": ('tool = "temperature"', 'tool = "is_warm"', "'is_warm' calls itself"),
    "a source": ('source = ["function",', 'source = ["function", "x",', "the source of 'temperature' is no"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edited_file_is_refused_with_its_place(edit: tuple[str, str, str]) -> None:
    before, after, match = edit
    text = kept_text(WARM)
    assert before in text
    refused(text.replace(before, after, 1), match)


def test_an_edit_that_the_user_trusts_is_taken() -> None:
    text = kept_text(WARM).replace("> 15", "> 16")
    assert read_kept(text, "is_warm.atc", edited=True).program == "answer = temperature(city) > 16\n"


def test_a_file_is_called_after_its_program() -> None:
    refused(kept_text(WARM), "name: it is called 'is_warm', and the file 'other.atc'", Path("other.atc"))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", r"line 1 is not `\+\+\+`"),
        ("answer = 1\n", r"line 1 is not `\+\+\+`"),
        ('+++\nname = "x"\n', r"no line `\+\+\+` ends the header"),
        ('+++\nname = "x"\n+++\n\n', "there is no program"),
        ("+++\n{\n+++\nanswer = 1\n", "no TOML"),
        (b"+++\n\xff\n+++\nanswer = 1\n", "not UTF-8"),
        ("+++\n" + "x" * MAX_FILE, "more than 200,000 bytes"),
        ("+++\na = " + "[" * 10_000 + "\n+++\nanswer = 1\n", "no TOML"),
        ("+++\n" + ".".join("a" * 5_000) + " = 1\n+++\nanswer = 1\n", "more than 1,000 dots"),
        ("+++\nparameters = '" + "[" * 10_000 + "'\n+++\nanswer = 1\n", "no JSON"),
        ("+++\nparameters = '" + "[" * 500 + "]" * 500 + "'\n+++\nanswer = 1\n", "parameters"),
    ],
    ids=["empty", "program", "unended", "bare", "toml", "bytes", "huge", "deep", "dots", "deep_json", "nested"],
)
def test_what_is_no_file_of_a_kept_program_is_refused(text: str | bytes, match: str) -> None:
    refused(text, match)


@pytest.mark.parametrize(
    "kept",
    [
        kept_file("Is Warm", "answer = 1\n"),
        replace(WARM, parameters={"type": "object", "properties": {"x": {"default": object()}}}),
        replace(WARM, parameters={"type": "object", "properties": {"x": {"default": float("nan")}}}),
        replace(WARM, program="x" * MAX_FILE),
        replace(WARM, program="answer = '\u202e'"),
    ],
    ids=["name", "object", "nan", "long", "turned"],
)
def test_what_could_not_be_read_is_not_written(kept: KeptFile, tmp_path: Path) -> None:
    with pytest.raises(ToolImportError):
        write_kept(kept, tmp_path)
    assert list(tmp_path.iterdir()) == []
