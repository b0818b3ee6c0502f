"""Programs that types lead while they are written, by a scripted model; the arms; the figures and the gate."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer import Typer
from typer.testing import CliRunner

from benchmarks import guided_run, guided_systems
from benchmarks.guided import MOST_DRAWN, WEIGHT, GuidedReply, Piece, Unguided, chat_completion, grammar_of
from benchmarks.guided_run import agreeing, gate, lines_of, main, one_sided, table
from benchmarks.guided_systems import same_value, types_of_try
from benchmarks.guided_types import MAX_CHOICES, Types
from benchmarks.rows import Row, read_rows
from tests.benchmarks.test_guided_types import FIRST, TASK, TOOLS
from tests.support.fake_openai_server import Handler, Step, serving
from tests.support.gateway import replies

# -- grammars ----------------------------------------------------------------------------------------------------------

_ESCAPE = r"\\x[0-9A-F]{2}|\\u[0-9A-F]{4}|\\U[0-9A-F]{8}"
_SENTENCE = re.compile(r'root ::= ("(\w|\\x[0-9A-F]{2}|\\u[0-9A-F]{4}|\\U[0-9A-F]{8})*"( \| )?)+')


def texts_of(grammar: str) -> list[str]:
    """The sentences of a grammar that is nothing but a choice of texts."""
    assert _SENTENCE.fullmatch(grammar)
    parts = re.findall(r'"([^"]*)"', grammar)
    return [re.sub(_ESCAPE, lambda found: chr(int(found[0][2:], 16)), part) for part in parts]


def test_a_grammar_is_a_choice_of_texts() -> None:
    assert grammar_of(["id", 'a b"']) == r'root ::= "id" | "a\x20b\x22"'
    assert grammar_of([]) is None
    assert grammar_of(["x"] * (MAX_CHOICES + 1)) is None
    assert grammar_of(["x" * 30_000]) is None


@pytest.mark.parametrize(
    "name", ['" | root "', 'x"\nroot ::= [^x]*\n#', "\\", "\\x22", "[^a]*", "é💥", "\x00\n", "a{9999}"], ids=ascii
)
def test_a_hostile_name_is_a_text_in_its_grammar(name: str) -> None:
    grammar = grammar_of([name, "id"])
    assert grammar is not None
    assert texts_of(grammar) == [name, "id"]
    assert "\n" not in grammar


def test_a_grammar_grows_with_its_names_not_faster() -> None:
    small, large = (grammar_of([f"key {number:04}" for number in range(size)]) for size in (50, 200))
    assert small is not None
    assert large is not None
    assert len(large) < 4.2 * len(small)


# -- replies -----------------------------------------------------------------------------------------------------------


class Scripted:
    """Writes on as a script says: for each request its text, and with a grammar how likely it is.

    A text without a grammar is streamed line by line; it may be ended before its end.
    """

    def __init__(self, *steps: str | tuple[str, float]) -> None:
        self.steps = list(steps)
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def prompt(self, messages: Sequence[Mapping[str, Any]]) -> str:
        return "PROMPT:"

    async def stream(self, prompt: str, **options: Any) -> AsyncIterator[Piece]:
        self.asked.append((prompt, options))
        step = self.steps.pop(0)
        text, chance = step if isinstance(step, tuple) else (step, 0.0)
        if options.get("grammar"):
            assert text in texts_of(options["grammar"]), "the script keeps to the grammar"
        tokens = 0
        for line in re.findall(r"[^\n]*\n|[^\n]+", text):
            tokens += 2
            yield Piece(line, tokens, 5, 100, chance)
        yield Piece("", tokens, 5, 100, 0.0, "stop")


def written(*steps: str | tuple[str, float], before: Unguided | None = None) -> tuple[GuidedReply, Scripted]:
    scripted = Scripted(*steps)
    types = Types([tool.protocol for tool in TOOLS], TASK)
    reply = GuidedReply(scripted, types, "PROMPT:", {"temperature": 0.3, "seed": 4, "stop": ["def x("]}, 200, before)
    asyncio.run(reply.write())
    assert not scripted.steps, "the whole script was asked for"
    return reply, scripted


GOOD = f'```python\n{FIRST}film = found["films"][0]\nanswer = film["title"]\n```'
DIRECTOR = "```python\n" + FIRST + 'director = get_director(film_id=found["films"][0]["film_id"])\n'


def test_what_fits_the_types_is_what_the_model_writes_by_itself() -> None:
    reply, scripted = written(GOOD)
    assert reply.text == GOOD
    assert scripted.asked == [("PROMPT:", {"n_predict": 200, "temperature": 0.3, "seed": 4, "stop": ["def x("]})]
    assert (reply.figures.written, reply.figures.reread, dict(reply.figures.noted)) == (10, 0, {})


def test_a_key_of_a_closed_object_is_written_anew_from_its_quote_on() -> None:
    reply, scripted = written(DIRECTOR + 'answer = director["title"]\n```', ('name"]', -9.0), "\n```")
    assert reply.text == DIRECTOR + 'answer = director["name"]\n```'
    prompts = [prompt for prompt, _ in scripted.asked]
    assert prompts[1] == "PROMPT:" + DIRECTOR + 'answer = director["'
    assert prompts[2] == "PROMPT:" + DIRECTOR + 'answer = director["name"]'
    assert scripted.asked[1][1]["grammar"] == r'root ::= "director_id\x22\x5D" | "name\x22\x5D"'
    assert dict(reply.figures.noted) == {"guide:key": 1}
    assert (reply.figures.written, reply.figures.reread) == (8 + 2 + 4, 10), "what was thrown away is counted"


@pytest.mark.parametrize("correct", [True, False])
def test_the_reply_without_a_guide_stands_for_the_first_stream(correct: bool) -> None:
    wrong = DIRECTOR + 'answer = director["title"]\n'
    first = GOOD if correct else wrong + "# " + "x" * (len(wrong) - 2)
    steps: list[str | tuple[str, float]] = [] if correct else [('name"]', -9.0), "\n```"]
    streamed, _ = written(first, *steps)
    reply, scripted = written(*steps, before=Unguided(first, "stop", 100, 60, 7.0, 4.0))
    assert reply.text == streamed.text
    assert (reply.begun_s, reply.figures.prompt) == ((11.0, 100) if correct else (9.0, 100))
    assert reply.figures.written == (60 if correct else 30 + 2 + 4), "of it what a stream would have written"
    assert len(scripted.asked) == (0 if correct else 2)
    assert reply.figures.noted == streamed.figures.noted


@pytest.mark.parametrize(("more", "stays"), [(0.1, True), (-0.1, False)], ids=["insists", "yields"])
def test_an_open_document_is_a_weight(more: float, stays: bool) -> None:
    first = f'```python\n{FIRST}answer = found["films"][0]["name"]\n'
    places: list[str | tuple[str, float]] = [('title"]', -WEIGHT), ('name"]', more)]
    reply, _ = written(first, *places, "```" if stays else "\n```")
    assert ('["name"]\n' in reply.text, '["title"]\n' in reply.text) == (stays, not stays)
    assert dict(reply.figures.noted) == {"guide:key-kept" if stays else "guide:key": 1}


def test_a_statement_that_is_certainly_wrong_is_drawn_again_and_the_comment_is_not_kept() -> None:
    reply, scripted = written(
        "```python\nimport requests\nanswer = 1\n```",
        "import requests\n",
        "\n# I see\nfilm = get_rows(n=1)[0]\nanswer = 3\n",
        'answer = film["title"]\n```',
    )
    assert reply.text == '```python\nfilm = get_rows(n=1)[0]\nanswer = film["title"]\n```'
    (_, _), (first, one), (second, two), (rest, _) = scripted.asked
    assert first == second
    assert first.startswith("PROMPT:```python\n# not so: ")
    assert "requests" in first
    assert one["seed"] != two["seed"]
    assert "not so" not in rest
    assert dict(reply.figures.noted) == {"guide:drawn": 2, "guide:mended": 1}


def test_after_three_draws_the_statement_stays_as_it_was() -> None:
    wrong = "```python\nimport requests\n"
    reply, scripted = written(wrong + "answer = 1\n", *["import requests\n"] * MOST_DRAWN, "answer = 2\n```")
    assert reply.text == wrong + "answer = 2\n```"
    assert len(scripted.asked) == 2 + MOST_DRAWN


def test_text_around_the_program_is_no_program() -> None:
    text = "import requests is not for you:\n```python\nanswer = len(get_rows(n=1))\n```\nimport requests\n"
    assert written(text)[0].text == text


def test_a_reply_is_given_as_an_endpoint_gives_one() -> None:
    made = chat_completion(written(GOOD)[0], "tiny")
    assert made["choices"][0] == {
        "index": 0, "message": {"role": "assistant", "content": GOOD}, "finish_reason": "stop",
    }  # fmt: skip
    assert made["usage"] == {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def test_what_atc_itself_offers_and_what_an_earlier_program_looked_at_is_there() -> None:
    protocols = [tool.protocol for tool in TOOLS]
    first = types_of_try(protocols, TASK, [{"content": f"`look(found=found)` shows values.\n\nTask: {TASK}"}])
    assert not first.certainly_wrong(f"{FIRST}look(found=found)\n", len(FIRST))
    assert first.certainly_wrong("tool_docs(names=[])\n", 0)
    assert first.certainly_wrong("answer = found\n", 0)
    second = types_of_try(protocols, TASK, [{"content": f"Task: {TASK}\n\nYour program looked at:\nfound = 3"}])
    assert not second.certainly_wrong("answer = found\n", 0)


# -- figures and the gate ----------------------------------------------------------------------------------------------


def test_mcnemars_one_sided_p_by_hand() -> None:
    assert one_sided(0, 0) == 1
    assert one_sided(3, 0) == 1 / 8
    assert one_sided(5, 1) == (6 + 1) / 64
    assert one_sided(2, 2) == (6 + 4 + 1) / 16
    assert one_sided(0, 3) == 1


def rows(arm: str, outcomes: str, seed: int = 0, seconds: float = 10.0, answer: str = "1") -> list[Row]:
    """Tries by their outcomes: ``s`` solved, ``w`` wrong, ``n`` no answer."""
    return [
        Row("bfcl", str(number), arm, "1", seed, "tiny", "terms", True, "unsolved" if how == "n" else "answered",
            solved=how == "s", prompt_tokens=100, completion_tokens=20, seconds=seconds,
            answer=answer, rules={"guide:key": 2, "guide:key-kept": 1, "guide:drawn": 1, "other": 5})
        for number, how in enumerate(outcomes)
    ]  # fmt: skip


def test_the_table_counts_each_arm_and_its_pairs() -> None:
    made = [*rows("default", "swnn", seconds=10), *rows("guided", "swss", seconds=12)]
    made[-1] = replace(made[-1], faults={"check": 1})
    by_arm = {line.arm: line for line in lines_of(made)}
    guided = by_arm["guided"]
    assert (guided.solved, guided.wrong, guided.silent, guided.wins, guided.losses) == (3, 1, 0, 2, 0)
    assert (guided.drawn, guided.corrected, guided.p, guided.ratio) == (4, 8, 0.25, 1.2)
    assert (guided.touched, guided.refused) == (4, 1)
    assert by_arm["guided = default"].solved == 1
    assert by_arm["guided = default"].seconds == 22
    assert [line.arm for line in lines_of([replace(row, answer="") for row in made])] == ["default", "guided"]
    assert (
        "| `guided` | 4 | 3 | 1 | 0 | 100 | 20 | 12.0 | 1 | 4 | 4 | 8 | `default`: +2 −0, p 0.250, 1.20 × the time |"
        in table(made)
    )


@pytest.mark.parametrize(
    ("first", "second", "seconds", "says"),
    [
        (("", ""), ("", ""), 10, "open: there is no pair"),
        (("nnnn", "ssnn"), ("", ""), 10, "not met: over the 4 tries of seed 0 the guide solves +2 net"),
        (("nnnn", "sssn"), ("", ""), 10, "open: seed 0 has +3 net"),
        (("nnnn", "sssn"), ("nnnn", "snnn"), 10, "met: 4 solved alone and 0 lost, one-sided p = 0.062"),
        (("nnnn", "sssn"), ("nnss", "nnnn"), 10, "not met: p < 0.1 is wanted"),
        (("nwww", "sssn"), ("nnss", "nnnn"), 10, "met: 0 wrong answers beside 3"),
        (("nnnn", "sssn"), ("nnnn", "snnn"), 16, "not met: 1.60 times the time"),
    ],
    ids=["nothing", "stop", "go on", "solves", "chance", "saves", "slow"],
)
def test_the_gate(first: tuple[str, str], second: tuple[str, str], seconds: float, says: str) -> None:
    made = [row for seed, both in enumerate((first, second)) for row in rows("default", both[0], seed)]
    made += [row for seed, both in enumerate((first, second)) for row in rows("guided", both[1], seed, seconds)]
    assert gate(made).startswith(says)


def test_two_arms_agree_by_their_values() -> None:
    (one,), (other,) = rows("default", "s", answer="[1, 'Rome']"), rows("guided", "s", answer="[1.0, 'rome ']")
    pair = ("bfcl", "0", 0)
    assert agreeing({pair: one}, {pair: other})[pair].solved
    for changed in (
        replace(other, answer="[2, 'Rome']"),
        replace(other, status="unsolved"),
        replace(other, answer="["),
    ):
        found = agreeing({pair: one}, {pair: changed})[pair]
        assert (found.solved, found.status) == (False, "unsolved")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True), (1, True, False), (0.1 + 0.2, 0.3, True), (" Rome", "rome", True), ([1, 2], [2, 1], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1.0}, True), ({"a": 1}, {"a": 1, "b": None}, False), (None, None, True),
        ("1", 1, False),
    ],
    ids=repr,
)  # fmt: skip
def test_equality_of_values(one: Any, other: Any, same: bool) -> None:
    assert same_value(one, other) is same


# -- the command -------------------------------------------------------------------------------------------------------


def completes(*texts: str) -> Step:
    """Stream a completion as llama.cpp's server does."""

    def step(handler: Handler) -> None:
        handler.begin_stream()
        for number, text in enumerate(texts, 1):
            handler.send_event(
                {
                    "content": text,
                    "tokens_predicted": number,
                    "tokens_evaluated": 50,
                    "timings": {"prompt_n": 50},
                    "completion_probabilities": [{"token": text, "logprob": -1.0}],
                }
            )
        handler.send_event({"content": "", "stop": True, "stop_type": "eos", "tokens_predicted": len(texts)})
        handler.end_stream()

    return step  # fmt: skip


@pytest.mark.slow
def test_the_command_runs_all_arms_goes_on_and_prints_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guided_run, "RESULTS", tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    program = '```python\nanswer = get_location(name="Lyon")["nowhere"]\n```'
    app = Typer()
    app.command()(main)
    tasks = tmp_path / "tasks.txt"
    tasks.write_text("atlas/swiss-neighbours\n")
    given = ["--env", "atlas", "--tasks", str(tasks), "--model", "tiny", "--out", str(tmp_path / "rows.jsonl")]
    with serving(replies("```python\nanswer = 7\n```")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        server.tells["/apply-template"] = {"prompt": "PROMPT:"}
        server.tells["/completion"] = lambda body: completes(*re.findall(r"[^\n]*\n|[^\n]+", program))
        ran = CliRunner().invoke(app, given)
        assert ran.exit_code == 0, ran.output
        made = {row.system: row for row in read_rows(tmp_path / "rows.jsonl")}
        assert [*made] == ["default", "guided", "one", "agree"]
        assert (made["default"].status, made["agree"].status) == ("answered", "answered")
        assert made["agree"].model_calls == 2 * made["one"].model_calls
        assert made["agree"].kept_calls == made["one"].model_calls, "its first sample is that of the arm before it"
        assert len({request["seed"] for request in server.requests if request["temperature"] == 0.5}) > 1
        assert {request["temperature"] for request in server.requests} == {0.3, 0.5}
        assert not any("way" in request for request in server.requests)
        assert (made["guided"].rules or {})["guide:drawn"] > 0
        asked = len(server.requests), len(server.asked)
        again = CliRunner().invoke(app, [*given, "--json"])
        assert (len(server.requests), len(server.asked)) == asked, "what is there is not tried again"
        assert json.loads(again.stdout)["gate"].startswith("not met: over the 1 tries")


def test_the_guides_version_is_that_of_its_sources() -> None:
    assert re.fullmatch("[0-9a-f]{12}", guided_systems.guide_digest())
