"""What the page of a run gets of its events: known fields, bounded, harmless; and the file of a stored run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from typer.testing import CliRunner

from atc import UsageError
from atc._records.events import DATA
from atc.cli import app
from atc.serve.pages.run.nodes import WHOLE, Limits, node, plain, value_at
from atc.serve.pages.run.page import MOST_WHOLE, SCRIPTS, STYLES, run_file, run_page
from atc.serve.pages.run.shown import SKIPPED, shown, whole_value
from atc.serve.pages.runs.page import row_of, runs_page
from atc.traces.stores.files import FileRun
from tests.serve.pages.test_kit import Elements
from tests.support.run_events import ATTACKS, all_kinds, call, events_of, hostile, many_calls

JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(),
    lambda each: some.lists(each, max_size=4) | some.dictionaries(some.text(), each, max_size=4),
    max_leaves=12,
)


def of_node(made: Any) -> Any:
    """The value that a whole node stands for."""
    if not isinstance(made, dict):
        return made
    if "n" in made:
        return (
            float(made["n"]) if set(made["n"]) & set(".naife") and not made["n"].startswith("0x") else int(made["n"], 0)
        )
    return [of_node(each) for each in made["l"]] if "l" in made else {key: of_node(each) for key, each in made["o"]}


def stored_run(folder: Path, events: list[dict[str, Any]]) -> FileRun:
    run = FileRun("20261123-174345-bb624b", folder / "20261123-174345-bb624b")
    run.folder.mkdir(parents=True)
    run.trace.write_text("".join(json.dumps(event) + "\n" for event in events))
    return run


@given(JSON)
def test_a_whole_node_is_the_value(value: Any) -> None:
    if "$bytes" not in (text := repr(value)) and text.isascii() and "\\" not in text:
        assert repr(of_node(json.loads(json.dumps(node(value, WHOLE), allow_nan=False)))) == repr(value)


@given(JSON, some.integers(0, 300), some.integers(0, 3))
def test_whatever_is_cut_says_its_size_and_leads_to_the_whole(value: Any, room: int, items: int) -> None:
    data = {"value": value}

    def holds(made: Any, whole: Any) -> None:
        if isinstance(made, dict) and "at" in made:
            assert whole_value({"data": data}, made["at"]) == node(whole, WHOLE)
        if isinstance(made, dict) and "l" in made:
            assert made["size"] == len(whole)
            for one, each in zip(made["l"], whole, strict=False):
                holds(one, each)
        if isinstance(made, dict) and "o" in made:
            assert made["size"] == len(whole)
            for (_, one), each in zip(made["o"], whole.values(), strict=False):
                holds(one, each)

    holds(node(value, Limits(room=room, text=20, items=items, depth=3), (0,)), value)


@pytest.mark.parametrize("pointer", ["", "0.", "-1", "a", "1e3", "99", "0." * 70 + "0", "0.0.0.0.0", "9" * 5000, "٣"])
def test_a_pointer_that_is_none_is_refused(pointer: str) -> None:
    with pytest.raises(UsageError, match="pointer"):
        value_at({"value": [1]}, pointer)


def test_every_kind_is_shown_and_no_text_of_it_can_be_more_than_text() -> None:
    kinds = {event["kind"] for event in all_kinds()}
    assert kinds >= set(DATA)
    for attack in ATTACKS:
        made = [shown(n, event) for n, event in enumerate(hostile(attack), 1)]
        text = json.dumps([each for each in made if each is not None], allow_nan=False)
        found = json.loads(text)
        assert {each["kind"] for each in found} >= kinds - SKIPPED - {"of_a_later_version"}
        assert {"unknown", "damaged"} <= {each["kind"] for each in found}
        assert not [
            c for c in "\x1b\x00\u202e\u2066\u200b\u2028\ud800" if json.dumps(c)[1:-1] in text.replace("\\\\", "")
        ]
        page = Elements(run_page(found))
        assert page.tags.count("script") == 2
        assert not {"img", "iframe", "svg"} & set(page.tags)
        assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "style")]


def test_a_run_that_went_on_from_a_failure_says_so_last() -> None:
    fault = {"message": "line 2: send(to='x') refused: no"}
    caught = {"partial": True, "remarks": [{"message": "line 4: find() failed"}], "value": {"a": [7]}}
    denied = shown(1, {"kind": "run_ended", "at": 1.0, "data": {"status": "denied", "fault": fault, **caught}})
    assert denied is not None
    assert denied["data"]["caught"] == ["line 4: find() failed; the program went on without it"]
    assert denied["data"]["incomplete"].startswith("incomplete: line 2: send(to='x') refused: no. The value rests on")
    assert denied["data"]["kept"] == '{"a": [7]}'
    answered = shown(1, {"kind": "run_ended", "at": 1.0, "data": {"status": "answered", "fault": None, **caught}})
    assert answered is not None
    assert answered["data"]["incomplete"].startswith("incomplete: line 4: find() failed. The value rests on")
    assert "kept" not in answered["data"], "the answer is shown"


def test_a_question_in_a_trace_says_where_its_arguments_came_from() -> None:
    asked = {"index": 2, "tool": "order", "arguments": {"id": 6}, "effect": "write", "line": 1, "warnings": []}
    feed = {"argument": "id", "kind": "response", "call": 1, "tool": "find", "path": ["items", 5, "id"]}
    made = shown(
        1, {"kind": "approval_asked", "at": 1.0, "data": asked | {"feeds": [feed | {"row": {"name": "Kite"}}]}}
    )
    assert made is not None
    assert made["data"]["origins"] == [["id", "items[5].id of find (call 1): {'name': 'Kite'}"]]
    listed = asked | {"arguments": {"id": [{"of": 6}]}, "feeds": [feed | {"inside": [0, "of"], "more": 7}]}
    made = shown(1, {"kind": "approval_asked", "at": 1.0, "data": listed})
    assert made is not None
    assert made["data"]["origins"] == [["id", "items[5].id of find (call 1); and 7 more", "id[0].of = 6"]]
    old = shown(1, {"kind": "approval_asked", "at": 1.0, "data": asked})
    assert old is not None
    assert "origins" not in old["data"]


def test_an_event_costs_no_more_than_its_limits() -> None:
    name = "n" * 1_000_000
    event = events_of(
        ("call_ended", call(1, tool=name, value={name: [name] * 50}, arguments={"a": [[1] * 99_999] * 9}))
    )[0]
    made = shown(1, event)
    assert made is not None
    assert len(json.dumps(made)) < 30_000
    assert made["data"]["tool"].endswith("… (1,000,000 characters)")


@pytest.mark.parametrize(
    "data", [None, [], {"index": True}, {"tool": 1}, {"arguments": 1, "line": "x"}, {"seconds": float("nan")}]
)
def test_a_damaged_event_is_shown_as_one(data: Any) -> None:
    made = shown(3, {"kind": "call_ended", "data": data, "at": "soon"})
    assert made is not None
    assert (made["n"], made["at"]) == (3, 0)
    assert made["kind"] == (
        "damaged" if not isinstance(data, dict) or "arguments" not in data or "line" in data else "call_ended"
    )


def test_text_is_escaped_where_nobody_would_see_it_and_left_alone_elsewhere() -> None:
    same = "naïve Ærø Ωμέγα кот 日本語 한국어 ひら\n\tx"
    assert plain(same) == same
    assert plain("a\x1b[2J\u202eb\ud800") == "a\\x1b[2J\\u202eb\\ud800"


def test_a_file_has_the_whole_of_what_it_cuts_while_there_is_room(tmp_path: Path) -> None:
    large = {"rows": [{"n": n, "text": "x" * 100} for n in range(2_000)]}
    run = stored_run(tmp_path, events_of(("run_started", all_kinds()[0]["data"]), ("call_ended", call(1, value=large))))
    made = run_file(run)
    assert made.left_out == []
    assert 'application/json" id="w2-' in made.html
    cut = run_file(run, most_whole=1_000)
    assert len(cut.html) < len(made.html) / 2 < MOST_WHOLE
    assert "in part" in cut.left_out[0]
    assert "in part" in cut.html


def test_a_run_of_many_calls_shows_less_of_each(tmp_path: Path) -> None:
    run = stored_run(
        tmp_path, [*many_calls(500), *events_of(*[("call_ended", call(n, value="é" * 9_000)) for n in range(500)])]
    )
    made = run_file(run, most_whole=0)
    assert len(made.html) < 4_000_000
    assert "500 values are here in part" in made.left_out[0]


def test_show_writes_a_page_and_tells_of_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = stored_run(tmp_path / "runs", all_kinds()[:-4])
    monkeypatch.setenv("ATC_RUNS_DIR", str(tmp_path / "runs"))
    file, ask = tmp_path / "run.html", CliRunner().invoke
    told = ask(app, ["runs", "show", "last", "--output", str(file)])  # one of its calls has a number that is none
    assert (told.exit_code, "damaged" in told.stderr) == (2, True)
    assert "is damaged" in file.read_text()
    run.trace.write_text("".join(json.dumps(event) + "\n" for event in many_calls(2)))
    assert "there already" in ask(app, ["runs", "show", "last", "--output", str(file)]).stderr
    assert ask(app, ["runs", "show", "last", "--output", str(file), "--force"]).exit_code == 0
    piped = ask(app, ["runs", "show", "last", "--output", "-"])
    assert (piped.exit_code, piped.stdout) == (0, file.read_text())
    told = ask(app, ["runs", "show", "last", "--output", str(file), "--force", "--json"])
    assert json.loads(told.stdout)["bytes"] == file.stat().st_size


def test_rows_of_the_list_are_bounded_and_harmless() -> None:
    row = row_of({"run_id": "r", "task": "\u202e" * 1_000_000, "tokens": "many", "cost": float("inf"), "answer": None})
    assert len(row["task"]) < 3_000
    assert (row["tokens"], row["cost"], row["status"]) == (None, None, "")
    assert "partial" not in row
    flags = dict.fromkeys(("partial", "unresolved", "waits"), True)
    assert row_of(flags | {"here": "yes", "remarks": 2}).items() >= (flags | {"remarks": 2}).items()
    for attack in ATTACKS:
        page = Elements(runs_page([dict.fromkeys(("run_id", "task", "status", "model", "answer", "damage"), attack)]))
        assert page.tags.count("script") == 2
        assert not {"img", "iframe", "svg"} & set(page.tags)


def test_the_assets_are_small_and_make_no_markup_of_text() -> None:
    folder = SCRIPTS[0].parent
    files = [*SCRIPTS, *STYLES, *folder.glob("run*/*.js"), *folder.glob("run*/*.css"), *folder.glob("run*/*.jinja")]
    assert sum(file.stat().st_size for file in set(files)) < 150_000
    for script in {file for file in files if file.suffix == ".js"}:
        text = script.read_text()
        assert not [
            w for w in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function(") if w in text
        ]


def test_a_page_may_ask_its_own_server_and_a_file_nobody() -> None:
    live = {"api": "/x/api", "run": "/x/runs/", "home": "/x/", "rights": ["read"], "run_id": "r", "after": 0}
    for page in (run_page([]), runs_page([])):
        assert "connect-src" not in page
        assert "require-trusted-types-for &#39;script&#39;; trusted-types &#39;none&#39;" in page
    for page in (run_page([], live), runs_page([], live)):
        assert "connect-src &#39;self&#39;" in page


def test_a_call_says_what_strangers_may_have_chosen_and_nothing_in_it_steers_the_page() -> None:
    evil = {"kind": "tool", "tool": "read_mail", "path": ["body\u202e\n"], "how": "value"}
    flow = {"origins": {"to": [evil]}, "untrusted": ["to"], "strangers": ["read_mail"]}
    asked = {"index": 2, "tool": "pay", "arguments": {"to": "x"}, "effect": "write", "line": 1, "data_flow": flow}
    for kind, data in (("approval_asked", {"warnings": [], "instead_of": []}), ("call_ended", {"status": "ok"})):
        made = shown(1, {"kind": kind, "at": 1.0, "data": asked | data})
        assert made is not None
        assert made["data"]["careful"] == ["strangers may have chosen to"]
        assert made["data"]["origins"] == [["to", "read_mail['body\\u202e\\n'] (strangers write that)"]]
    damaged = shown(1, {"kind": "call_ended", "at": 1.0, "data": asked | {"status": "ok", "data_flow": {"x": 1}}})
    assert damaged is not None
    assert "careful" not in damaged["data"]
