"""The words of what a stranger reads: short sentences, one term for one concept, a help text for every option."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import atc
from atc.cli import COMMANDS, app, commands_of, loaded
from deploy.reference_pages import FOLDER
from deploy.reference_pages import PAGES as PAGES_OF_CODE
from tests.support import english
from tests.support.docs import DOCUMENTS, ROOT

GLOSSARY = ROOT / "docs" / "how-it-works.md"
SEARCHED = [  # without records and a list of words
    *(page for page in DOCUMENTS if page.parent.name != "benchmarks" and page.name != "CONTRIBUTING.md"),
    ROOT / "CHANGELOG.md",
]


def generated() -> list[Path]:
    """The pages that are made of code."""
    return [FOLDER / name for name in PAGES_OF_CODE]


OTHER_WORDS = {
    r"blam(e|es|ed|ing)": "attribution",
    r"mend(s|ed|ing)?": "repair, revise or correct",
    r"fix-?ups?": "repair",
    r"complaints?": "finding or message",
    r"cache hits?": "replay",
    r"gateways?": "broker",
    r"backends?": "driver",
    r"hygiene": "policy",
    r"agent types?": "strategy",
    r"phases?": "stage",
    r"twins?": "substitute",
    r"specs?": "protocol or document",
    r"kept prompts?": "prompt cache",
    r"retr(y|ies|ied|ying) the program": "revision",
}
"""Words that stand for no other concept of ours, so that any use of them is a second word for a term."""

NAMES = re.compile(r"Redpanda AI gateway")
"""Names of others that hold such a word."""


PAGES = [
    *(page for page in DOCUMENTS if page.parent.name != "research" and page not in generated()),
    ROOT / "sandbox" / "THREATS.md",
]
"""Pages for users and contributors; what is made of code has the words of the code."""


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_is_written_in_sentences_of_a_usual_length_without_avoided_words(page: Path) -> None:
    found = list(english.problems(page.read_text(encoding="utf-8")))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("markdown", "counts"),
    [
        ("One two three. Four `a b c` five.\n", [3, 3]),
        ("A line\nthat goes on. `code` begins one.", [5, 3]),
        ("- one\n- two words, e.g. these\n", [1, 4]),
        ("See [the page of x](a.md#b). Then ![a picture of y](c.png)", [5, 1]),
        ("```sh\nno words here\n```\n\nWords.", [1]),
        ("| a | b c |\n| --- | --- |\n| d. E f | g |\n", [1, 2, 1, 2, 1]),
        ("It takes 2.5 s – or less. **Bold.** Next", [6, 1, 1]),
        ('!!! note "Of importance"\n    Two words.\n\n    ```sh\n    none here\n    ```\n\nMore words here.', [2, 3]),
    ],
)
def test_sentences_are_counted_rightly(markdown: str, counts: list[int]) -> None:
    assert [len(each.words) for each in english.sentences(markdown)] == counts


def test_a_long_sentence_is_seen_with_its_line() -> None:
    assert [found[:17] for found in english.long("# Head\n\nShort.\n\n" + "word " * 36)] == ["line 5: 36 words: "[:17]]


def test_the_mean_is_of_prose_only() -> None:
    prose = "One two three four five six seven. " * english.LEAST_SENTENCES
    assert english.mean(prose) == 7
    assert english.mean("# A heading\n\n- a label\n\n" + prose + "\n\n| a | cell. |\n| --- | --- |\n") == 7
    assert english.mean("Too little. Of it.") is None
    assert any("on average" in found for found in english.problems(prose))


@pytest.mark.parametrize(
    "sentence",
    [
        "What stands there counts.",
        "The report says so.",
        "The model is told.",
        "It stands beside the other.",
        "The jail has no network.",
        "The embedded model writes it.",
        "It needs a yes.",
    ],
)
def test_an_avoided_word_is_seen(sentence: str) -> None:
    assert list(english.avoided(sentence))


@pytest.mark.parametrize("sentence", ["What does it cost?", "`jail` is a name in code.", "A cross-encoder ranks."])
def test_a_question_a_piece_of_code_and_a_usual_word_pass(sentence: str) -> None:
    assert not list(english.avoided(sentence))


@cache
def helps() -> tuple[tuple[str, str | None], ...]:
    """Each command and each of its options, with its help text."""

    def below(command: Any, path: str) -> Iterator[tuple[str, str | None]]:
        yield path, command.help
        for parameter in command.params:
            yield f"{path} {'/'.join(parameter.opts)}", getattr(parameter, "help", None)
        for name, each in commands_of(command).items():
            yield from below(each, f"{path} {name}")

    callback = app.registered_callback
    assert callback is not None
    assert callback.callback is not None
    return ("atc", callback.callback.__doc__), *(
        pair for name in COMMANDS for pair in below(loaded(name), f"atc {name}")
    )


def problems_of_help(text: str | None) -> Iterator[str]:
    """What is wrong with the form of a help text."""
    if not text or not text.strip():
        yield "there is none"
        return
    if not re.match(r"[A-Z`]", text):
        yield "it does not begin with a capital letter or with code"
    if not re.search(r"[.?]$", re.sub(r" \[default: [^\]]*\]$|\n\natc [^\n]*$", "", text.strip())):
        yield "it does not end with a full stop"
    if "\\" in text:
        yield "it has a backslash"
    if re.match(r"(Of|Its|That|Only these|For whom)\b", text):
        yield "it is a piece of a sentence: name the thing"


def test_every_command_and_option_has_a_help_text_of_one_form() -> None:
    wrong = [f"{name}: {problem}: {text}" for name, text in helps() for problem in problems_of_help(text)]
    assert not wrong, "\n".join(wrong)
    assert len(helps()) > 300


def test_help_texts_do_without_the_words_that_pages_do_without() -> None:
    wrong = [
        f"{name}: {found[0]}: {text}"
        for name, text in helps()
        for pattern in english.AVOIDED
        if (found := re.search(pattern, text or "", re.IGNORECASE))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("text", [None, " ", "no capital.", "No end", "Of the tool.", "A \\[list]."])
def test_a_wrong_help_text_is_seen(text: str | None) -> None:
    assert list(problems_of_help(text))


def other_words(text: str) -> Iterator[str]:
    """The words of a text that stand for a term, with that term."""
    text = NAMES.sub("", text)
    for pattern, term in OTHER_WORDS.items():
        yield from (f"{found[0]!r} for {term}" for found in re.finditer(rf"\b({pattern})\b", text, re.IGNORECASE))


def test_help_texts_have_one_word_for_one_concept() -> None:
    assert not [f"{name}: {found}" for name, text in helps() for found in other_words(text or "")]


@cache
def docstrings() -> tuple[tuple[str, str | None], ...]:
    """Each public name, and each public method and property of a class among them, with its docstring."""

    def members(name: str, owner: type) -> Iterator[tuple[str, str | None]]:
        for each, member in list(vars(owner).items()):  # a look at a model may build it
            function = getattr(member, "__func__", getattr(member, "fget", None) or getattr(member, "func", member))
            if not each.startswith("_") and inspect.isfunction(function) and function.__module__.startswith("atc."):
                yield f"{name}.{each}", function.__doc__

    public = [(name, getattr(atc, name)) for name in atc.__all__]
    inner = [pair for name, each in public if inspect.isclass(each) for pair in members(name, each)]
    return (("atc", atc.__doc__), *((name, each.__doc__) for name, each in public), *inner)


def prose(docstring: str) -> str:
    """A docstring without code and names of parameters, which are no words of ours to choose."""
    return re.sub(r"(?m)``[^`]*``|:\w+:`[^`]*`|^ *\**\w+:(?= )", "•", docstring)


def test_docstrings_of_public_names_have_one_word_for_one_concept() -> None:
    assert not [f"{name}: {found}" for name, text in docstrings() for found in other_words(prose(text or ""))]


def test_every_public_name_has_a_docstring_and_those_of_methods_are_searched() -> None:
    assert not [name for name, text in docstrings() if not text and name in atc.__all__]
    assert {"Agent.run", "Toolset.from_openapi", "Result.in_doubt", "open_model"} <= dict(docstrings()).keys()


def test_a_parameter_may_have_any_name_and_the_text_may_not() -> None:
    docstring = "Open it.\n\n    Args:\n        spec: such as ``spec``, or another spec.\n"
    assert len(list(other_words(prose(docstring)))) == 1


@pytest.mark.parametrize("document", SEARCHED, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pages_have_one_word_for_one_concept(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    sentences = english.sentences(text)
    assert not [f"line {each.line}: {found}: {each.text}" for each in sentences for found in other_words(each.text)]


def test_another_word_is_seen() -> None:
    assert list(other_words("It mends the spec, and special gatewayed words pass.")) == [
        "'mends' for repair, revise or correct",
        "'spec' for protocol or document",
    ]


def entries() -> dict[str, str]:
    """The glossary: each term with its meaning."""
    listed = GLOSSARY.read_text(encoding="utf-8").split("\n## Words\n")[1]
    parts = re.split(r"^### (.+)$", listed, flags=re.MULTILINE)[1:]
    return {term: text.strip() for term, text in zip(parts[::2], parts[1::2], strict=True)}


def test_the_glossary_is_short_in_the_order_of_the_alphabet_and_each_term_is_used_elsewhere() -> None:
    terms = list(entries())
    assert 25 <= len(terms) <= 35
    assert terms == sorted(terms, key=str.lower)
    others = [path for path in (ROOT / "docs").rglob("*.md") if path != GLOSSARY]
    text = "\n".join(path.read_text(encoding="utf-8") for path in (*others, ROOT / "README.md"))
    text = " ".join(text.lower().split())
    assert [term for term in terms if not re.search(rf"\b{re.escape(term.lower())}", text)] == []


@pytest.mark.parametrize("term", entries())
def test_an_entry_names_the_place_that_has_more(term: str) -> None:
    assert re.search(r"\[More\]\(([\w./-]+\.md)?(#[\w-]+)?\)$", entries()[term])
