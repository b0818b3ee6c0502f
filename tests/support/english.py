"""How the pages are written: lengths of sentences, and words that they do without.

``python -m tests.support.english FILE…`` prints what is wrong with a page, and exits with 1 if anything is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from markdown_it import MarkdownIt

MOST_WORDS = 35
"""Words of the longest sentence."""
MEAN = (14.0, 18.0)
"""Words of a sentence, on average over the prose of a page."""
LEAST_SENTENCES = 12
"""Sentences of prose from which a page has an average."""
_END = re.compile(r"""(?<=[.!?…])["'”)*]*\s+(?=["'“(*]*[A-Z0-9`•])|(?<=:)\s+(?=[A-Z])""")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|Dr|Mr|Ms|No)\.", re.IGNORECASE)
_ADMONITION = re.compile(r"^( *)(?:!!!|\?\?\?\+?|===) [^\n]*\n((?:\n|\1    [^\n]*\n?)*)", re.MULTILINE)
_CODE, _BREAK = "•", "\n"

_MACHINE = (
    "ATC|it|agent|benchmark|check|client|command|document|file|host|line|list|message|model|page|program|report|"
    "response|rule|run|sandbox|schema|server|service|test|tool|trace"
)
AVOIDED = {
    r"^(What|Who|Whoever|Whatever)\b(?!.*\?)": "name the thing first",
    rf"\b({_MACHINE})s? (says?|said|knows?|knew|believes?|thinks?|hears?)\b": "it shows, prints, returns",
    r"\b(is|are|was|were|be|been) told\b": "gets, is shown, receives",
    r"\bbeside\b": "with, besides, next to",
    r"\bin place of\b": "instead of",
    r"\banew\b": "again",
    r"\bunasked\b": "without approval, automatically",
    r"\balone\b": "only, by itself",
    r"\ba yes\b|\byour yes\b": "approval",
    r"\bsurely\b|\bsurer\b": "definitely, or leave it out",
    r"\bmeanwhile\b": "while …",
    r"\bgo(es)? on\b": "continue",
    r"\bmend(s|ed|ing)?\b": "fix, repair, revise",
    r"\bjail(s|ed)?\b|\blocked process(es)?\b": "sandbox",
    r"\bembedded (language )?model\b": "local model",
    r"(?<!-)\bencoders?\b": "embedding model",
    r"\brulers?\b": "task benchmark",
    r"\bsuppliers?\b": "producer",
    r"\bwhich feeds\b": "producer, consumer",
}
"""Patterns of a sentence that the pages do without, each with what to write."""


@dataclass(frozen=True)
class Sentence:
    """A sentence of a document.

    Attributes:
        line: where its paragraph, list item or table row begins, from 1.
        text: with a sign for each piece of code.
        prose: whether it is a whole sentence of a paragraph or a list item, and no heading, cell or label.
    """

    line: int
    text: str
    prose: bool

    @property
    def words(self) -> list[str]:
        """Pieces with a letter, a digit, or code."""
        return [piece for piece in self.text.split() if re.search(rf"\w|{_CODE}", piece)]


def sentences(markdown: str) -> Iterator[Sentence]:
    """Each sentence of a document.

    Code, pictures and HTML are left out; a piece of code within a sentence counts as one word.
    """
    line, within = 1, ""
    for token in MarkdownIt("commonmark").enable("table").parse(_ADMONITION.sub(_dedented, markdown)):
        line = token.map[0] + 1 if token.map else line
        if token.type.endswith("_open"):
            within = token.type
        if token.type != "inline":
            continue
        text = _ABBREVIATION.sub(r"\1", "".join(_shown(child) for child in token.children or ()))
        for each in _END.split(text):
            if each and each.strip():
                whole = " ".join(each.split())
                ended = re.search(r"""[.!?…:]["'”)*]*$""", whole) is not None
                yield Sentence(line, whole, within == "paragraph_open" and ended)


def _dedented(found: re.Match[str]) -> str:
    """The body of an admonition as paragraphs of their own, on the same lines."""
    return "\n" + re.sub(rf"^{found[1]}    ", found[1], found[2], flags=re.MULTILINE)


def _shown(token: Any) -> str:
    if token.type == "code_inline":
        return _CODE
    if token.type in ("softbreak", "hardbreak"):
        return _BREAK
    return token.content if token.type == "text" else ""


def mean(markdown: str) -> float | None:
    """Return the words of a sentence on average over the prose; ``None`` where there is too little of it."""
    counts = [len(each.words) for each in sentences(markdown) if each.prose]
    return fmean(counts) if len(counts) >= LEAST_SENTENCES else None


def avoided(markdown: str) -> Iterator[str]:
    """Return each sentence that has a word or a pattern that the pages do without, with what to write."""
    for each in sentences(markdown):
        for pattern, better in AVOIDED.items():
            if found := re.search(pattern, each.text, re.IGNORECASE if pattern[0] != "^" else 0):
                yield f"line {each.line}: {found[0]!r} ({better}): {each.text}"


def long(markdown: str) -> Iterator[str]:
    """Return each sentence that is too long."""
    for each in sentences(markdown):
        if len(each.words) > MOST_WORDS:
            yield f"line {each.line}: {len(each.words)} words: {each.text}"


def problems(markdown: str) -> Iterator[str]:
    """Return what is wrong with how a page is written."""
    average = mean(markdown)
    if average is not None and not MEAN[0] <= average <= MEAN[1]:
        yield f"{average:.1f} words a sentence on average, and {MEAN[0]:g} to {MEAN[1]:g} are wanted"
    yield from long(markdown)
    yield from avoided(markdown)


if __name__ == "__main__":
    wrong = 0
    for name in sys.argv[1:]:
        text = Path(name).read_text(encoding="utf-8")
        found = list(problems(text))
        wrong += len(found)
        average = mean(text)
        print(f"{name}: {len(text.split())} words, {'–' if average is None else f'{average:.1f}'} a sentence")
        print("".join(f"  {each}\n" for each in found), end="")
    raise SystemExit(bool(wrong))
