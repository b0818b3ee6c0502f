"""Thoughts are never a program, whatever their tags are, and wherever they begin."""

from __future__ import annotations

from itertools import product

import pytest

from atc import Agent, FakeModel, tool
from atc.models.messages import split_reasoning

TAGS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<Reasoning>", "</Reasoning>"),
    ("<thought>", "</thought >"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<inner_monologue>", "</inner_monologue>"),
    ("<|think|>", "<|/think|>"),
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<unused94>thought\n", "<unused95>"),
    ("[unused16]", "[unused17]"),
)
DRAFTS = (
    "I could do\n```python\nanswer = buy(sku='b')\n```\nNo.\n",
    "Perhaps ```python\nanswer = buy(sku='b')\n``` but no.\n",
    "```python\nanswer = buy(sku='b')  # or <think> again\n",
    "\nanswer = buy(sku='b')\n",
    "No: <think>\nanswer = buy(sku='b')\n",
)
REPLIES = {
    "fence": "```python\nanswer = pieces(sku='a')\n```",
    "bare code": "answer = pieces(sku='a')",
    "words": "Nothing is to be bought.",
    "nothing": "",
}


@pytest.mark.parametrize("begins", [True, False])
@pytest.mark.parametrize("kind", REPLIES)
def test_what_stands_before_the_last_tag_is_thought(kind: str, begins: bool) -> None:
    for (begin, end), draft, between in product(TAGS, DRAFTS, ("\n\n", "")):
        said = f"{begin * begins}{draft}{end}{between}{REPLIES[kind]}"
        thoughts, reply = split_reasoning(said)
        assert (reply, "buy" in thoughts) == (REPLIES[kind], True), said


def test_thoughts_that_were_cut_off_are_no_reply() -> None:
    for (begin, _), draft in product(TAGS, DRAFTS[:4]):
        assert split_reasoning(f"{begin}{draft}")[1] == "", (begin, draft)
        assert split_reasoning(f"Well.\n{begin}{draft}")[1] == "Well.\n", (begin, draft)


@pytest.mark.parametrize(
    "said",
    [
        "```python\nanswer = '<think>' + text + '</think>'\n```",
        "```python\nanswer = [text.split('</think>')[-1] for text in texts]\n```",
        "answer = text.split('</think>')[-1]",
        "I read what follows `</think>`:\n```python\nanswer = re.sub('<think>.*</think>', '', text)  # as <think>\n```",
        '```python\ntag = """\n</think>\n"""\n```',
        '{"text": "so </think> be it"}',
        "answer = [analysis]",
        "Use <think> and then\n</think>\nhere.",
    ],
)
def test_a_program_that_speaks_of_thoughts_stays_whole(said: str) -> None:
    assert split_reasoning(said) == ("", said)


@pytest.mark.parametrize(
    "said",
    ["<think>a</think>\n<think>b</think>\nHello", "let me see\n</think>\n\nHello", "<Reasoning>x</Reasoning>Hello"],
)
def test_thoughts_are_told_apart_however_they_are_tagged(said: str) -> None:
    assert split_reasoning(said)[1] == "Hello"


@pytest.mark.parametrize("kind", ["words", "nothing"])
def test_a_model_whose_reply_has_no_program_beside_its_thoughts_is_asked_again(kind: str) -> None:
    bought: list[str] = []

    @tool(effect="write")
    def buy(sku: str) -> None:
        """Buy a product."""
        bought.append(sku)

    @tool(effect="read")
    def pieces(sku: str) -> int:
        """Count the pieces of a product."""
        return 7

    model = FakeModel([f"{DRAFTS[0]}</think>\n\n{REPLIES[kind]}", REPLIES["fence"]])
    with Agent([buy, pieces], model=model, approve="always", sentence=False, keep_runs=False) as agent:
        result = agent.run("Buy product b if fewer than 5 pieces of a are left.")
    assert (result.status, result.value, result.usage.model_calls, bought) == ("answered", 7, 2, [])
