"""The pages there are, and how long each may be: a page that grows takes from another, or says here why not."""

from __future__ import annotations

import pytest

from tests.support.docs import ROOT

DOCS = ROOT / "docs"
MOST_WORDS = {
    "index": 350,
    "install": 650,
    "tutorials/mcp-client": 900,
    "tutorials/functions": 600,
    "tutorials/openapi": 850,
    "tutorials/approval": 1_000,
    "tools": 3_200,
    "models": 1_900,
    "answers": 1_300,
    "approval": 2_800,
    "code-mode": 3_600,
    "data-flow": 2_000,
    "many-tools": 2_400,
    "probing": 1_500,
    "runs": 2_800,
    "batch": 1_200,
    "service": 2_300,
    "extending": 1_800,
    "how-it-works": 3_000,
    "security": 2_600,
    "comparison": 2_000,
    "measured": 1_200,
    "reference/commands": 5_300,
    "reference/settings": 1_700,
    "reference/python": 350,
    "reference/messages": 2_000,
}
"""Words of each page, code and tables among them."""
MOST_IN_ALL, MOST_MEASURED = 47_000, 16_000
MOST_LINES_OF_README = 110


def words_of(name: str) -> int:
    return len((DOCS / f"{name}.md").read_text(encoding="utf-8").split())


def test_the_pages_are_those_of_the_tree() -> None:
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    assert sorted(page for page in pages if not page.startswith("benchmarks/")) == sorted(MOST_WORDS)


@pytest.mark.parametrize("name", MOST_WORDS)
def test_a_page_keeps_to_its_length(name: str) -> None:
    assert words_of(name) <= MOST_WORDS[name]


def test_all_pages_together_keep_to_theirs() -> None:
    assert sum(map(words_of, MOST_WORDS)) <= MOST_IN_ALL
    measured = sum(len(path.read_text(encoding="utf-8").split()) for path in (DOCS / "benchmarks").glob("*.md"))
    assert measured <= MOST_MEASURED


def test_the_readme_is_read_in_a_minute() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= MOST_LINES_OF_README


NOT_SO = (
    "locked process, not in Docker",
    "an answer may have 5 MB",
    "less than a minute",
    "half a minute to two minutes",
    "refuses no right one",
    "40 of 56 programs",
    "19 of 58 with it",
    "surer",
    "No large model was measured",
    "1,041 tokens",
    "37–41 model calls",
    "pip install atc-runtime",
    "pip install 'atc-runtime",
    "works for one more version",
    "believes a tool",
)
"""What pages said of the same thing in two ways, or what was not so any more; none may say it again."""


@pytest.mark.parametrize("said", NOT_SO)
def test_no_page_says_what_is_not_so(said: str) -> None:
    pages = [*DOCS.rglob("*.md"), ROOT / "README.md"]
    texts = {page.name: " ".join(page.read_text(encoding="utf-8").lower().split()) for page in pages}
    assert not [name for name, text in texts.items() if said.lower() in text]
