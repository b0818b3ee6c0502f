"""The program is found in what models really say; a hostile reply costs little and is never executed."""

from __future__ import annotations

import pytest

from atc.programs.extract import extract, unfenced
from atc.programs.program import MAX_SOURCE, NotParsed, parse
from tests.support.time import little_work

TOOLS = ("find", "details")
PROGRAM = 'found = find(name="Lyon")\nanswer = found["total"]\n'


@pytest.mark.parametrize(
    "reply",
    [
        f"```python\n{PROGRAM}```",
        f"Sure!\n\n```py\n{PROGRAM}```\nThis finds it.",
        f"```\n{PROGRAM}\n```",
        f"~~~python\n{PROGRAM}~~~",
        f"````python\n{PROGRAM}````",
        f"  ```python\n{PROGRAM}  ```",
        f"<tool_code>\n{PROGRAM}</tool_code>",
        f"<tool_code>\n{PROGRAM}",
        f"```tool_code\n{PROGRAM}```",
        f"```python\n{PROGRAM}",
        PROGRAM,
        f"Here is the program:\n\n{PROGRAM}\nIt answers the question.",
        f"\ufeff```python\r\n{PROGRAM}```".replace("\n", "\r\n"),
        PROGRAM.replace("\n", "\r"),
        "```python\n>>> " + PROGRAM.rstrip().replace("\n", "\n>>> ") + "\n```",
        "```python\n" + "".join(f"    {line}\n" for line in PROGRAM.splitlines()) + "```",
        f'```json\n{{"a": 1}}\n```\n```python\n{PROGRAM}```',
        f"```python\nprint('a first try')\n```\nBetter:\n```python\n{PROGRAM}```",
        f"```python\n {PROGRAM}```",
        f"```python\n{PROGRAM}```\nIt prints:\n```\n42\n```",
    ],
)
def test_one_program_is_found_however_it_is_wrapped(reply: str) -> None:
    found = extract(reply, TOOLS)
    assert found.source is not None
    assert parse(found.source)
    assert found.source.strip() == PROGRAM.strip()


def test_a_program_in_two_blocks_is_put_together() -> None:
    found = extract(
        '```python\nfound = find(name="Lyon")\n```\nand then\n```python\nanswer = found["total"]\n```', TOOLS
    )
    assert found.source is not None
    assert found.source.index("find(") < found.source.index("answer")


def test_of_two_whole_programs_the_last_is_taken() -> None:
    found = extract('```python\nanswer = find(name="a")\n```\nNo:\n```python\nanswer = find(name="b")\n```', TOOLS)
    assert found.source == 'answer = find(name="b")\n'


def test_tabs_in_a_text_stay_what_they_are() -> None:
    found = extract('```python\nfor c in find(name="a\tb"):\n\tanswer = "x\ty"\n```', TOOLS)
    assert found.source is not None
    assert '"a\tb"' in found.source
    assert '"x\ty"' in found.source


def test_names_in_other_scripts_are_kept() -> None:
    source = 'größe = find(name="Łódź")["total"]\nanswer = größe\n'
    assert extract(f"```python\n{source}```", TOOLS).source == source


@pytest.mark.parametrize("reply", ["", "   \n", "I cannot do that.", "```json\n{}\n```", "Use find, then details."])
def test_a_reply_without_a_program_says_so(reply: str) -> None:
    found = extract(reply, TOOLS, truncated=True)
    assert found.source is None
    assert "no program" in found.problem
    assert "cut off" in found.problem


def test_a_limit_that_was_used_up_before_the_reply_began_names_the_setting() -> None:
    assert "thinking_tokens" in extract(" \n", TOOLS, truncated=True).problem
    assert "thinking_tokens" not in extract("", TOOLS).problem


def test_a_program_that_was_cut_off_is_handed_on_for_the_check_to_refuse() -> None:
    found = extract('```python\nfound = find(name="Ly', TOOLS, truncated=True)
    assert found.source is not None
    with pytest.raises(NotParsed):
        parse(found.source)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("(" * 1_000_000, "characters"),
        ("(" * 20_000, "brackets"),
        ("x = " + "[" * 81 + "]" * 81, "brackets"),
        ("x = 1" + " + 1" * 14_000, None),
        ("x = " + "not " * 10_000 + "1", None),
        ("if a:\n    b\n" + "elif a:\n    b\n" * 3000, None),
        ("x = 1\0", None),
        ("x = '\ud800'", "surrogate"),
        ("def f(:\n", "syntax"),
        ("\tx = 1\n  y = 2", None),
    ],
)
def test_hostile_source_is_refused_quickly(source: str, why: str | None) -> None:
    with little_work(), pytest.raises(NotParsed, match=why):
        parse(source)


@pytest.mark.parametrize(
    "reply",
    [
        "x = (\n" * 20_000,
        "`" * 100_000,
        "```python\n" * 10_000,
        "<python>" * 20_000,
        "find(\n" * 15_000,
        "a" * (5 * MAX_SOURCE),
        "if x:\n" * 9_000,
        "\n" * 200_000,
        "x = 1\nThis is no line of it\n" * 2_000,
    ],
)
def test_a_hostile_reply_costs_little(reply: str) -> None:
    with little_work():
        extract(reply, TOOLS)


def test_nothing_in_a_reply_is_executed(tmp_path: object) -> None:
    source = f"open({str(tmp_path) + '/made'!r}, 'w')\nanswer = find(name=__import__('os').getcwd())\n"
    assert extract(f"```python\n{source}```", TOOLS).source == source
    assert not __import__("pathlib").Path(str(tmp_path), "made").exists()


@pytest.mark.parametrize(
    ("source", "bare"),
    [
        ("```python\nx = 1\n```", "\nx = 1\n"),
        ("\n  ~~~py\nx = 1\n\n~~~  \n", "\n\nx = 1\n\n\n"),
        ("```\ntext = '''\n```\n'''\n```", "\ntext = '''\n```\n'''\n"),
        ("```json\n{}\n```", None),
        ("```python\nx = 1", None),
        ("Here:\n```python\nx = 1\n```", None),
        ("text = '''\n```python\n```\n'''", None),
        ("```", None),
        ("", None),
    ],
)
def test_the_fence_around_a_whole_program_is_left_out_and_lines_keep_their_numbers(
    source: str, bare: str | None
) -> None:
    assert unfenced(source) == (source if bare is None else bare)


def test_a_block_that_calls_a_tool_in_another_dialect_calls_one() -> None:
    called = "answer = await tools.find(name='Lyon')"
    reply = f"```python\n{called}\n```\nIt gives this, say:\n```python\nanswer = 42\n```"
    found = extract(reply, TOOLS)
    assert found.source == called + "\n"
    assert extract(called, TOOLS).source == called + "\n"
