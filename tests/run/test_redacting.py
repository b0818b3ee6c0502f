"""Values of a recording get stand-ins wherever they stand, and nothing like a credential is written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from atc._host.redaction import Redactor
from atc._records.recording import RecordedCall, RecordedTool, Recording
from atc.errors import UsageError
from atc.run.recorded_file import (
    MAX_BYTES,
    TEST,
    RecordedFiles,
    files_of,
    name_of,
    read_recording,
    redacted,
    write_recording,
)
from atc.run.redacting import dotted, places, redact, steps_of

MAIL, NUMBER = "ada@example.com", 48213


def recording(**more: Any) -> Recording:
    fields: dict[str, Any] = {
        "run": "20260131-101010-abcdef",
        "task": f"Write to {MAIL} at Bo's",
        "program": f"answer = send(to='{MAIL}', of=find(name='Bo')['id'])",
        "calls": (
            RecordedCall(index=1, tool="find", arguments={"name": "Bo"}, value={"id": NUMBER, "mail": MAIL, "n": 7}),
            RecordedCall(index=2, tool="send", arguments={"to": MAIL, "of": NUMBER}, value=f"sent to <{MAIL}>", line=7),
        ),
        "value": {"to": MAIL, "id": NUMBER, "n": 7},
    }
    return Recording(**fields | more)


def made(*ways: str, redactor: Redactor | None = None, **more: Any) -> Recording:
    return redacted(recording(**more), ways, redactor or Redactor(environment={}))


def test_a_value_is_replaced_wherever_it_stands_by_another_of_its_form() -> None:
    found = made("calls.0.value.mail", "/calls/0/value/id")
    stand_in = found.calls[0].value["mail"]
    assert stand_in != MAIL
    assert [part.isalpha() for part in stand_in.replace("@", ".").split(".")] == [True, True, True]
    assert found.program == f"answer = send(to='{stand_in}', of=find(name='Bo')['id'])"
    assert found.calls[1].value == f"sent to <{stand_in}>"
    number = found.calls[0].value["id"]
    assert (number != NUMBER, len(str(number))) == (True, 5)
    assert (found.calls[1].arguments, found.value) == (
        {"to": stand_in, "of": number}, {"to": stand_in, "id": number, "n": 7},
    )  # fmt: skip
    assert (MAIL in found.task, found.replaced) == (False, ("calls.0.value.mail", "calls.0.value.id"))
    assert found == made("calls.0.value.mail", "/calls/0/value/id"), "the same stand-ins each time"


def test_a_short_text_is_replaced_as_a_word_and_a_short_number_at_its_place() -> None:
    found = made("calls.0.arguments.name", "value.n", program="answer = Bot + find(name='Bo')")
    name = found.calls[0].arguments["name"]
    assert (len(name), found.program) == (2, f"answer = Bot + find(name='{name}')")
    assert found.calls[0].value["n"] == 7
    assert found.value["n"] != 7
    assert (found.calls[1].line, [each.index for each in found.calls]) == (7, [1, 2])


def test_a_star_is_each_call_and_a_whole_value_may_be_named() -> None:
    found = made("calls.*.value")
    assert found.replaced == ("calls.0.value", "calls.1.value")
    assert not {MAIL, str(NUMBER)} & set(json.dumps(found.model_dump(mode="json")["calls"][0]["value"]).split('"'))


def test_bytes_stay_bytes() -> None:
    calls = (RecordedCall(index=1, tool="f", value={"image": b"\x89PNG1234"}),)
    found = made("calls.0.value.image", calls=calls, value=1)
    assert isinstance(found.calls[0].value["image"], bytes)
    assert len(found.calls[0].value["image"]) == 8


@pytest.mark.parametrize(
    ("way", "why"),
    [
        ("", "is no place of a value"),
        ("program", "is no place of a value"),
        ("tools.f.digest", "is no place of a value"),
        ("calls.0.line", "is no place of a value"),
        ("calls.7.value", "leads nowhere"),
        ("calls.0.value.phone", "leads nowhere"),
        ("value.done", "names nobody"),
    ],
    ids=["empty", "program", "tools", "line", "call", "key", "bool"],
)
def test_a_way_that_leads_to_no_value_is_told(way: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        made(way, value={"done": True})


def test_a_key_with_a_dot_has_a_pointer() -> None:
    data = {"inputs": {"a.b": {"c/d": "x"}}, "calls": []}
    (place,) = places(data, steps_of("/inputs/a.b/c~1d"))
    assert (place, dotted(place)) == (("inputs", "a.b", "c/d"), "/inputs/a.b/c~1d")
    assert redact(data, [dotted(place)])[0]["inputs"]["a.b"]["c/d"] != "x"


def test_what_is_named_stands_in_no_schema_either() -> None:
    tool = RecordedTool(digest="d", schemas={"parameters": {"examples": [{"to": MAIL}]}, "returns": None})
    found = made("calls.0.value.mail", tools={"send": tool})
    assert (found.tools["send"].schemas, found.tools["send"].digest) == (None, "d")


# -- credentials -------------------------------------------------------------------------------------------------------

KEY = "ghp_" + "a1B2" * 9


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"value": {"key": KEY}}, "value.key"),
        ({"calls": (RecordedCall(tool="f", arguments={"h": [f"Bearer {KEY}"]}),)}, "calls.0.arguments.h.0"),
        ({"calls": (RecordedCall(tool="f", error=f"no {KEY}"),)}, "calls.0.error"),
        ({"inputs": {"pay": "4111 1111 1111 1111"}}, "inputs.pay"),
        ({"value": {"known-to-atc-1": 1}}, "value.known-to-atc-1"),
    ],
    ids=["value", "header", "error", "card", "known"],
)
def test_a_credential_refuses_the_whole_and_names_its_place(more: dict[str, Any], place: str) -> None:
    with pytest.raises(UsageError) as told:
        made(redactor=Redactor(["known-to-atc-1"], {}), **more)
    assert f"stands in {place}, so nothing is written" in str(told.value)
    assert f"--redact {place}" in str(told.value)
    assert KEY not in str(told.value)


def test_a_credential_with_a_stand_in_is_written() -> None:
    found = made("value.key", value={"key": KEY}, calls=())
    assert found.value["key"] != KEY


def test_a_credential_in_the_program_has_no_stand_in() -> None:
    with pytest.raises(UsageError, match="run it again with a program that has none"):
        made(program=f"answer = '{KEY}'", calls=(), value=1)


def test_an_example_in_a_document_that_looks_like_a_key_costs_the_schema_alone() -> None:
    tool = RecordedTool(digest="d", schemas={"parameters": {"description": f"such as {KEY}"}, "returns": None})
    assert made(tools={"f": tool}).tools["f"].schemas is None


# -- the two files -----------------------------------------------------------------------------------------------------


def test_the_test_has_nothing_of_the_run_and_the_data_is_its_owners(tmp_path: Path) -> None:
    files = files_of(tmp_path / "new" / "tests", "test_mail")
    write_recording(recording(), files)
    assert files.test.read_text() == TEST
    assert (files.data.stat().st_mode & 0o777, files.data.name) == (0o600, "test_mail.json")
    assert next(iter(json.loads(files.data.read_text()))) == "about"
    assert read_recording(files.data) == read_recording(files.test) == recording()
    compile(TEST, "test", "exec")


@pytest.mark.parametrize(
    "name", ["../x", "a b", "", "test_", "1a", "a-b", "A", "é", "x" * 61, "a\n", "a.b", "a/b", "__init__"]
)
def test_a_name_is_a_plain_word(name: str) -> None:
    with pytest.raises(UsageError, match="is no name for a test"):
        files_of(Path(), name)


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("Order 3 lamps, please!", "order_3_lamps_please"),
        ("", "run_20260131_101010_abcdef"),
        ("Ünïcode only é", "n_code_only"),
        ("../../etc/passwd", "etc_passwd"),
        ("test 12 test the weather in a very long task of many words", "the_weather_in_a_very_long"),
    ],
)
def test_a_task_gives_a_name(task: str, name: str) -> None:
    assert name_of(recording(task=task)) == name
    files_of(Path(), name)


@pytest.mark.parametrize("which", ["test", "data"])
def test_nothing_is_written_over_and_no_link_is_followed(tmp_path: Path, which: str) -> None:
    files = files_of(tmp_path, "mail")
    other = tmp_path / "other"
    other.write_text("mine")
    os.symlink(other, getattr(files, which))
    with pytest.raises(UsageError, match="is there already"):
        write_recording(recording(), files)
    write_recording(recording(), files, force=True)
    assert other.read_text() == "mine"
    assert not getattr(files, which).is_symlink()


def test_a_dangling_link_is_there_too(tmp_path: Path) -> None:
    files = files_of(tmp_path, "mail")
    os.symlink(tmp_path / "none", files.data)
    with pytest.raises(UsageError, match="is there already"):
        write_recording(recording(), files)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is no recording"),
        ("[]", "is no recording"),
        ('{"program": 7}', "program: "),
        ('{"program": "x", "evil": 1}', "evil: "),
        ('{"program": "x", "form": 2}', "use a newer ATC"),
        ('{"program": "x", "program": "y"}', "same key twice"),
        ('{"program": "x", "value": NaN}', "NaN is not JSON"),
        ('{"program": "x", "value": {"$bytes": "!"}}', "is no recording"),
        ('{"program": "x", "value": ' + "[" * 5_000, "nested deeper"),
        ('{"program": "x", "value": [' + "[]," * 300_000 + "1]}", "more than 200,000 values"),
    ],
    ids=["cut", "list", "type", "field", "form", "twice", "nan", "bytes", "deep", "many"],
)
def test_a_file_that_is_no_recording_is_an_error_in_words(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "test_x.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=why):
        read_recording(file)


def test_a_file_that_is_too_large_or_no_file_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "test_x.json", "wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(UsageError, match="so it is not read"):
        read_recording(tmp_path / "test_x.json")
    os.mkfifo(tmp_path / "test_y.json")
    with pytest.raises(UsageError, match="no ordinary file"):
        read_recording(tmp_path / "test_y.json")
    with pytest.raises(UsageError, match="`atc runs record` writes it"):
        read_recording(tmp_path / "test_z.py")


def test_a_recording_that_could_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    files = RecordedFiles(tmp_path / "test_a.py", tmp_path / "test_a.json")
    with pytest.raises(UsageError, match="record a smaller run"):
        write_recording(recording(value=[0] * 200_001), files)
    assert not files.data.exists()


def test_what_begins_alike_is_found_by_its_longest() -> None:
    names = ["anna", "annabel", "annab.l", "bo", "b", "ännchen"]
    found = made("value.*", value=names, task="annabel anna annab annab.l bob bo b ab", program="answer = 1")
    stand_ins = dict(zip(names, found.value, strict=True))
    words = ("annabel", "anna", "annab", "annab.l", "bob", "bo", "b", "ab")
    expected = [stand_ins.get(word) or word.replace("anna", stand_ins["anna"]) for word in words]
    assert found.task == " ".join(expected)


def test_texts_that_begin_each_other_are_found_however_many() -> None:
    names = ["a" * length for length in range(4, 400)]
    found = made("value.*", value=names, task=f"{names[-1]}, {names[7]}", program="answer = 1")
    assert found.task == f"{found.value[-1]}, {found.value[7]}"
